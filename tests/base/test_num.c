/* Numbers as text: known hard cases, Python's own answers, and random round trips. */
#include "testutil.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"

static double bits_to_double(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static uint64_t double_to_bits(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static double parse(const char *s)
{
    double v = -12345;
    assert_true(num_parse_double(s, strlen(s), &v));
    return v;
}

static void check_repr(double v, const char *want)
{
    char out[NUM_REPR_MAX + 1];
    out[num_repr(v, out)] = 0;
    assert_string_equal(out, want);
}

static void test_repr(void **state)
{
    (void)state;
    check_repr(0.0, "0.0");
    check_repr(-0.0, "-0.0");
    check_repr(1.0, "1.0");
    check_repr(-1.5, "-1.5");
    check_repr(0.1, "0.1");
    check_repr(0.1 + 0.2, "0.30000000000000004");
    check_repr(1e15, "1000000000000000.0");
    check_repr(1e16, "1e+16");
    check_repr(123456789012345680.0, "1.2345678901234568e+17");
    check_repr(1e-4, "0.0001");
    check_repr(1e-5, "1e-05");
    check_repr(5e-324, "5e-324");
    check_repr(DBL_MIN, "2.2250738585072014e-308");
    check_repr(DBL_MAX, "1.7976931348623157e+308");
    check_repr(9007199254740993.0, "9007199254740992.0");
    check_repr(2e22, "2e+22");
    check_repr(1e23, "1e+23");
    check_repr(9.5367431640625e-07, "9.5367431640625e-07");
    check_repr(INFINITY, "inf");
    check_repr(-INFINITY, "-inf");
    check_repr(NAN, "nan");
}

static void test_parse(void **state)
{
    (void)state;
    double v;
    static const char *const bad[] = {"", "-", ".", "e5", "1e", "1e+", "1.2.3", "0x1", " 1", "1 ", "1_0", "inf", "nan", "--1", "1e5.0"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(num_parse_double(bad[i], strlen(bad[i]), &v));
    assert_true(parse("1") == 1 && parse("-1.5e3") == -1500 && parse("+.5") == 0.5 && parse("5.") == 5);
    assert_true(parse("1e400") == INFINITY && parse("-1e999999999999999999999") == -INFINITY);
    assert_true(parse("1e-400") == 0 && signbit(parse("-1e-400")));
    assert_true(parse("1.7976931348623157e308") == DBL_MAX);
    assert_true(parse("1.7976931348623158079372897140530341507993413271003782693617377898044e308") == DBL_MAX);
    assert_true(parse("1.7976931348623159e308") == INFINITY);
    assert_true(parse("2.4703282292062327e-324") == 0);
    assert_true(parse("2.4703282292062328e-324") == 5e-324);
    assert_true(parse("2.2250738585072011e-308") == 0x1.ffffffffffffep-1023); /* the number that hung PHP and Java */
    assert_true(parse("9007199254740993") == 9007199254740992.0);             /* a tie, to even */
    assert_true(parse("9007199254740993.0000000000000000000000000000000000001") == 9007199254740994.0);
    /* a tie broken by a digit beyond the 800 that are kept */
    char longest[1200];
    memset(longest, '0', sizeof longest);
    memcpy(longest, "9007199254740993.", 17);
    assert_true(num_parse_double(longest, 1000, &v) && v == 9007199254740992.0);
    longest[999] = '1';
    assert_true(num_parse_double(longest, 1000, &v) && v == 9007199254740994.0);
}

/* The C library of the test machine is correctly rounded; the library under test must agree without it. */
static void test_random(void **state)
{
    (void)state;
    uint64_t seed = 20250710;
    char out[NUM_FIXED_MAX + 1], want[NUM_FIXED_MAX + 1];
    for (int i = 0; i < 60000; i++) {
        uint64_t bits = test_rand(&seed);
        if (i % 3 == 0) /* short decimals as they stand in files */
            bits = double_to_bits((double)(int64_t)(bits % 2000001) / 1000.0 - 1000);
        double v = bits_to_double(bits), back;
        if (!isfinite(v))
            continue;
        size_t n = num_repr(v, out);
        assert_true(num_parse_double(out, n, &back));
        assert_true(double_to_bits(back) == bits);
        snprintf(want, sizeof want, "%.17g", v);
        assert_true(num_parse_double(want, strlen(want), &back) && double_to_bits(back) == bits);
        snprintf(want, sizeof want, "%.*e", i % 25, v);
        out[num_exp(v, i % 25, out)] = 0;
        assert_string_equal(out, want);
        assert_true(num_parse_double(want, strlen(want), &back));
        assert_true(back == strtod(want, NULL));
        snprintf(want, sizeof want, "%.*g", i % 20, v);
        out[num_general(v, i % 20, false, out)] = 0;
        assert_string_equal(out, want);
        if (i % 10)
            continue;
        snprintf(want, sizeof want, "%.*f", i % 30, v);
        out[num_fixed(v, i % 30, out)] = 0;
        assert_string_equal(out, want);
    }
    out[num_fixed(0.5, 0, out)] = 0;
    assert_string_equal(out, "0");
    out[num_fixed(1.5, 0, out)] = 0;
    assert_string_equal(out, "2");
    out[num_fixed(9.9996, 3, out)] = 0;
    assert_string_equal(out, "10.000");
    assert_int_equal(num_fixed(DBL_MAX, NUM_PREC_MAX, out), 309 + 1 + NUM_PREC_MAX);
}

static void test_i64(void **state)
{
    (void)state;
    int64_t v = 7;
    char out[NUM_REPR_MAX];
    static const int64_t edges[] = {0, 1, -1, 9, 10, INT64_MAX, INT64_MIN, INT64_MIN + 1};
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        size_t n = num_format_i64(edges[i], out);
        assert_true(num_parse_i64(out, n, &v) && v == edges[i]);
    }
    assert_true(num_parse_i64("+00012", 6, &v) && v == 12);
    static const char *const bad[] = {"", "-", "+", "9223372036854775808", "-9223372036854775809", "1.0", "1e3", " 1", "99999999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(num_parse_i64(bad[i], strlen(bad[i]), &v));
    assert_int_equal(v, 12);
}

static void test_float_helpers(void **state)
{
    (void)state;
    uint64_t seed = 5;
    for (int i = 0; i < 20000; i++) {
        double x = bits_to_double(test_rand(&seed)), y = bits_to_double(test_rand(&seed));
        if (i % 2) { /* near each other */
            x = (double)(int64_t)(test_rand(&seed) % 100000) / 8 - 5000;
            y = (double)(int64_t)(test_rand(&seed) % 1000) / 8 - 60;
        }
        double want = fmod(x, y), got = num_fmod(x, y);
        assert_true((isnan(want) && isnan(got)) || double_to_bits(want) == double_to_bits(got));
        if (isfinite(x))
            assert_true(num_floor(x) == floor(x));
    }
    for (int i = 0; i < 5000; i++) { /* long double divides integers of 64 bits exactly enough to judge */
        int64_t a = (int64_t)test_rand(&seed) >> (i % 60), b = (int64_t)test_rand(&seed) >> (i / 60 % 60);
        double near = (double)((long double)a / (long double)(b ? b : 1)), got = num_divide_i64(a, b ? b : 1);
        assert_true(got == near || fabs(got - near) <= fabs(near) * DBL_EPSILON / 2);
    }
    assert_true(num_divide_i64(1, 3) == 1.0 / 3 && num_divide_i64(-7, 2) == -3.5 && num_divide_i64(0, -5) == 0);
    assert_int_equal(num_compare_i64_double(9007199254740993, 9007199254740992.0), 1);
    assert_int_equal(num_compare_i64_double(INT64_MAX, 9223372036854775808.0), -1);
    assert_int_equal(num_compare_i64_double(INT64_MIN, -9223372036854775808.0), 0);
    assert_int_equal(num_compare_i64_double(-1, -1.5), 1);
    assert_int_equal(num_compare_i64_double(1, 1.5), -1);
    assert_int_equal(num_compare_i64_double(0, NAN), 2);
    assert_true(num_is_finite(DBL_MAX) && !num_is_finite(INFINITY) && !num_is_finite(NAN));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_repr), cmocka_unit_test(test_parse),         cmocka_unit_test(test_random),
        cmocka_unit_test(test_i64),  cmocka_unit_test(test_float_helpers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
