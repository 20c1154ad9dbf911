/* The elementary functions against the C library's double versions, and the emulated fma against the processor's. */
#include "testutil.h"

#include <math.h>
#include <stdio.h>

#include "kernels/math_scalar.h"

static double ulp_of(float y)
{
    int e;
    float a = fabsf(y);
    if (a < 0x1p-126f)
        return 0x1p-149;
    (void)frexpf(a, &e);
    return ldexp(1.0, e - 24);
}

static float sin_of(float x)
{
    float s, c;
    math_sincos(x, &s, &c);
    return s;
}

static float cos_of(float x)
{
    float s, c;
    math_sincos(x, &s, &c);
    return c;
}

/* Every `step`-th bit pattern that is a finite number in [lo, hi]; fails beyond `bound` ulp. */
static void check_error(const char *name, float (*f)(float), double (*ref)(double), float lo, float hi, uint64_t step, double bound)
{
    double worst = 0;
    uint32_t at = 0, n = 0;
    for (uint64_t u = 0; u <= UINT32_MAX; u += step) {
        float x = math_float((uint32_t)u);
        if (!(x >= lo && x <= hi))
            continue;
        double r = ref((double)x), e;
        float y = f(x);
        n++;
        if (fabs(r) > 0x1.ffffffp127) {
            assert_true(isinf(y) && (y > 0) == (r > 0));
            continue;
        }
        e = fabs((double)y - r) / ulp_of((float)r);
        if (!(e <= worst)) {
            worst = e;
            at = (uint32_t)u;
        }
    }
    print_message("%s: %u arguments, worst error %.4f ulp at %a\n", name, n, worst, (double)math_float(at));
    assert_true(n > 10000);
    assert_true(worst <= bound);
}

#define STEP 2039 /* about two million arguments each */

static void test_errors(void **state)
{
    (void)state;
    const float max = 0x1.fffffep+127f;
    check_error("exp", math_exp, exp, -max, max, STEP, 1.02);
    check_error("exp", math_exp, exp, -104.5f, 89.5f, 1021, 1.02);
    check_error("tanh", math_tanh, tanh, -max, max, STEP, 1.5);
    check_error("erf", math_erf, erf, -max, max, STEP, 1.1);
    check_error("sin", sin_of, sin, -max, max, STEP, 0.501);
    check_error("cos", cos_of, cos, -max, max, STEP, 0.501);
    check_error("log", math_log, log, 0x1p-149f, max, STEP, 0.501);
}

/* Angles nearest to multiples of pi/2 are the hard ones; also every whole position. */
static void test_angles(void **state)
{
    (void)state;
    double worst = 0;
    for (uint32_t k = 1; k < 400000; k++) {
        float near = (float)((double)k * 1.5707963267948966), x[2] = {near, (float)(k * 41)};
        for (int i = 0; i < 2; i++) {
            double es = fabs((double)sin_of(x[i]) - sin((double)x[i])) / ulp_of((float)sin((double)x[i]));
            double ec = fabs((double)cos_of(x[i]) - cos((double)x[i])) / ulp_of((float)cos((double)x[i]));
            worst = fmax(worst, fmax(es, ec));
        }
    }
    print_message("worst error %.4f ulp\n", worst);
    assert_true(worst <= 0.501);
}

static void test_doubles(void **state)
{
    (void)state;
    uint64_t seed = 1;
    double worst_log = 0, worst_exp = 0, worst_pow = 0;
    for (int i = 0; i < 500000; i++) {
        double u = (double)(test_rand(&seed) >> 11) * 0x1p-53;
        double x = i % 2 ? 0.5 + 1.5 * u : ldexp(1.0 + u, (int)(test_rand(&seed) % 2044) - 1021), r = log(x);
        worst_log = fmax(worst_log, fabs(math_log_d(x) - r) / (nextafter(fabs(r), INFINITY) - fabs(r)));
        x = (u - 0.5) * 1416;
        r = exp(x);
        worst_exp = fmax(worst_exp, fabs(math_exp_d(x) - r) / (nextafter(r, INFINITY) - r));
        x = 1000.0 + 1e7 * u; /* rope bases and exponents */
        double e = -(double)(i % 1024) / 1024;
        worst_pow = fmax(worst_pow, fabs(math_pow(x, e) / pow(x, e) - 1) / (0x1p-52 * (2 + 2 * fabs(e * log(x)))));
    }
    print_message("log %.3f ulp, exp %.3f ulp, pow %.3f of its bound\n", worst_log, worst_exp, worst_pow);
    assert_true(worst_log <= 1.5 && worst_exp <= 2.5 && worst_pow <= 1.0);
}

static void test_special(void **state)
{
    (void)state;
    float inf = INFINITY, nan = NAN, tiny = 0x1p-149f;
    assert_true(math_exp(inf) == inf && math_bits(math_exp(-inf)) == 0 && isnan(math_exp(nan)));
    assert_true(math_exp(0.0f) == 1.0f && math_exp(-0.0f) == 1.0f && math_exp(tiny) == 1.0f);
    assert_true(isfinite(math_exp(0x1.62e42ep+6f)) && math_exp(0x1.62e430p+6f) == inf);
    assert_true(math_exp(-103.9f) == tiny && math_exp(-104.0f) == 0.0f);
    assert_true(math_tanh(inf) == 1.0f && math_tanh(-inf) == -1.0f && isnan(math_tanh(nan)));
    assert_true(math_bits(math_tanh(-0.0f)) == 0x80000000 && math_tanh(tiny) == tiny && math_tanh(10.0f) == 1.0f);
    assert_true(math_erf(inf) == 1.0f && math_erf(-inf) == -1.0f && isnan(math_erf(nan)));
    assert_true(math_bits(math_erf(-0.0f)) == 0x80000000);
    assert_true(isnan(sin_of(inf)) && isnan(cos_of(-inf)) && isnan(sin_of(nan)));
    assert_true(math_bits(sin_of(-0.0f)) == 0x80000000 && sin_of(tiny) == tiny && cos_of(0.0f) == 1.0f);
    assert_true(math_log(inf) == inf && math_log(0.0f) == -inf && isnan(math_log(-1.0f)) && isnan(math_log(nan)));
    assert_true(math_bits(math_log(1.0f)) == 0);
    assert_true(math_exp_d(INFINITY) == INFINITY && math_exp_d(-INFINITY) == 0 && isnan(math_exp_d(NAN)));
    assert_true(math_log_d(0) == -INFINITY && isnan(math_log_d(-1)) && math_log_d(INFINITY) == INFINITY);
    assert_true(math_pow(0, 2) == 0 && math_pow(0, -2) == INFINITY && math_pow(0, 0) == 1 && isnan(math_pow(-1, 0.5)));
    assert_true(math_pow(10000, 0) == 1 && fabs(math_pow(10000, 0.5) - 100) < 1e-12);
}

/* Odd functions are odd to the bit, bounded ones bounded. */
static void test_shape(void **state)
{
    (void)state;
    for (uint64_t u = 0; u < 0x7F800000; u += 4093) {
        float x = math_float((uint32_t)u);
        assert_true(math_bits(math_tanh(-x)) == (math_bits(math_tanh(x)) ^ 0x80000000));
        assert_true(math_bits(math_erf(-x)) == (math_bits(math_erf(x)) ^ 0x80000000));
        assert_true(math_bits(sin_of(-x)) == (math_bits(sin_of(x)) ^ 0x80000000));
        assert_true(math_bits(cos_of(-x)) == math_bits(cos_of(x)));
        assert_true(math_tanh(x) <= 1.0f && math_erf(x) <= 1.0f && fabsf(sin_of(x)) <= 1.0f);
    }
}

static void check_fma(float a, float b, float c)
{
    float got = fma_f32(a, b, c), want = fmaf(a, b, c);
    if (isnan(want) ? !isnan(got) : math_bits(got) != math_bits(want)) {
        print_message("fma(%a, %a, %a): %a, expected %a\n", (double)a, (double)b, (double)c, (double)got, (double)want);
        fail();
    }
}

/* Arguments whose sum lies on or next to a tie, cancels, or is subnormal; and any bits at all. */
static void test_fma(void **state)
{
    (void)state;
    uint64_t seed = 7;
#if !defined(__FMA__) && !defined(__aarch64__)
    print_message("emulated\n");
#endif
    for (int i = 0; i < 400000; i++) {
        uint64_t r = test_rand(&seed), s = test_rand(&seed);
        float a = math_float((uint32_t)r), b = math_float((uint32_t)(r >> 32)), c = math_float((uint32_t)s);
        check_fma(a, b, c);
        /* moderate exponents and short mantissas: products near ties of the sum */
        a = ldexpf(1.0f + (float)(r & 0xFFF) * 0x1p-12f, (int)(s >> 32 & 31) - 16);
        b = ldexpf(1.0f + (float)(r >> 12 & 0xFFF) * 0x1p-12f, (int)(s >> 37 & 31) - 16);
        c = ldexpf(1.0f + (float)(r >> 24 & 0x7FFFFF) * 0x1p-23f, (int)(s >> 42 & 63) - 32);
        c = s >> 48 & 1 ? -c : c;
        check_fma(a, b, c);
        check_fma(a, b, -(a * b));                              /* cancels to the rounding error */
        check_fma(a * 0x1p-70f, b * 0x1p-70f, c * 0x1p-125f);   /* subnormal results */
        check_fma(a * 0x1p-60f, b * 0x1p-75f, math_float((uint32_t)(s & 0x800000FF)));
        /* c + a tiny product: far below half an ulp, exactly on a tie, or just off it */
        float half = (float)(ulp_of(c) / 2), off = ldexpf(half, -(int)(s >> 49 & 63));
        check_fma(half, 1.0f, c);
        check_fma(half, 1.0f + 0x1p-23f, c);
        check_fma(-half, 1.0f - 0x1p-24f, c);
        check_fma(off, s >> 55 & 1 ? 1.5f : -1.5f, c);
    }
    const float edge[] = {0.0f, -0.0f, 0x1p-149f, -0x1p-149f, 0x1p-126f, 1.0f, -1.0f, 0x1.fffffep127f, -0x1.fffffep127f, INFINITY, -INFINITY, NAN};
    const int n = (int)(sizeof edge / sizeof *edge);
    for (int i = 0; i < n * n * n; i++)
        check_fma(edge[i % n], edge[i / n % n], edge[i / n / n]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors), cmocka_unit_test(test_angles), cmocka_unit_test(test_doubles),
        cmocka_unit_test(test_special), cmocka_unit_test(test_shape), cmocka_unit_test(test_fma),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
