/* Conversions of small floats: every 16-bit pattern there and back, ties, and neighbours against long division in double. */
#include "testutil.h"

#include <math.h>

#include "base/dtype.h"
#include "base/half.h"

/* The value of a finite half, by the definition of IEEE 754. */
static double half_value(uint16_t h)
{
    int exp = h >> 10 & 31, man = h & 0x3FF;
    double v = exp ? ldexp(1024 + man, exp - 25) : ldexp(man, -24);
    return h & 0x8000 ? -v : v;
}

static void test_f16_decodes(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = f16_to_f32((uint16_t)h);
        if ((h & 0x7C00) == 0x7C00) {
            assert_true(h & 0x3FF ? isnan(f) : isinf(f));
            assert_int_equal(f32_bits(f) >> 31, h >> 15);
            continue;
        }
        assert_true((double)f == half_value((uint16_t)h));
        assert_int_equal(f32_bits(f) >> 31, h >> 15);
        assert_int_equal(f32_to_f16(f), h);
    }
}

static uint16_t nearest_half(double v)
{
    /* Exact: halves and floats are doubles, and so is the middle of two halves. */
    uint16_t sign = signbit(v) ? 0x8000 : 0, lo = 0, hi = 0x7C00;
    v = fabs(v);
    if (v >= 65520)
        return (uint16_t)(sign | 0x7C00);
    while (hi - lo > 1) {
        uint16_t mid = (uint16_t)((lo + hi) / 2);
        if (half_value(mid) <= v)
            lo = mid;
        else
            hi = mid;
    }
    double below = half_value(lo), above = lo == 0x7BFF ? 65536 : half_value((uint16_t)(lo + 1));
    if (v - below > above - v || (v - below == above - v && (lo & 1)))
        lo++;
    return (uint16_t)(sign | lo);
}

static void test_f16_rounds(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (uint32_t h = 0; h < 0x7C00; h++) { /* around the middle of each pair of neighbours, both signs */
        double mid = (half_value((uint16_t)h) + (h == 0x7BFF ? 65536 : half_value((uint16_t)(h + 1)))) / 2;
        float f = (float)mid;
        float all[3] = {f, f32_of_bits(f32_bits(f) + 1), f32_of_bits(f32_bits(f) - 1)};
        for (int i = 0; i < 3; i++) {
            assert_int_equal(f32_to_f16(all[i]), nearest_half((double)all[i]));
            assert_int_equal(f32_to_f16(-all[i]), nearest_half(-(double)all[i]));
        }
    }
    for (int i = 0; i < 300000; i++) {
        float f = f32_of_bits((uint32_t)test_rand(&seed));
        if (!isnan(f))
            assert_int_equal(f32_to_f16(f), nearest_half((double)f));
        else
            assert_true((f32_to_f16(f) & 0x7E00) == 0x7E00);
    }
}

static void test_bf16(void **state)
{
    (void)state;
    uint64_t seed = 2;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = bf16_to_f32((uint16_t)h);
        assert_int_equal(f32_bits(f), h << 16);
        assert_int_equal(f32_to_bf16(f), isnan(f) ? (h | 0x40) : h);
        if (isnan(f) || isinf(f))
            continue;
        assert_int_equal(f32_to_bf16(f32_of_bits(h << 16 | 0x7FFF)), h);
        assert_int_equal(f32_to_bf16(f32_of_bits(h << 16 | 0x8000)), h + (h & 1));
        assert_int_equal(f32_to_bf16(f32_of_bits(h << 16 | 0x8001)), h + 1);
        assert_int_equal(f32_to_bf16(f32_of_bits(h << 16 | (test_rand(&seed) & 0x7FFF))), h);
    }
}

static void test_scales(void **state)
{
    (void)state;
    for (int e = 0; e < 255; e++)
        assert_true((double)e8m0_to_f32((uint8_t)e) == ldexp(1, e - 127));
    assert_true(isnan(e8m0_to_f32(255)));
    for (int e = 0; e < 256; e++)
        assert_true((double)e8m0_half_to_f32((uint8_t)e) == ldexp(1, e - 128));
    for (int x = 0; x < 256; x++) {
        int exp = x >> 3 & 15, man = x & 7;
        double v = exp ? ldexp(8 + man, exp - 11) : ldexp(man, -10);
        assert_true((double)ue4m3_half_to_f32((uint8_t)x) == (x == 0x7F ? 0 : v));
    }
}

static void test_dtype(void **state)
{
    (void)state;
    uint64_t n;
    int known = 0;
    for (int32_t t = -2; t < 1000; t++) {
        const struct dtype *d = dtype_of(t);
        if (!d) {
            assert_false(dtype_size(t, 256, &n));
            continue;
        }
        known++;
        assert_true(d->block <= DTYPE_MAX_BLOCK && DTYPE_MAX_BLOCK % d->block == 0);
        assert_true(dtype_size(t, 512, &n));
        assert_int_equal(n, 512u / d->block * d->bytes);
        assert_true(d->block == 1 || !dtype_size(t, d->block + 1u, &n));
        assert_true(d->bytes <= d->block || !dtype_size(t, UINT64_MAX - UINT64_MAX % d->block, &n));
    }
    assert_int_equal(known, 42);
    assert_null(dtype_of(INT32_MIN));
    assert_null(dtype_of(INT32_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f16_decodes), cmocka_unit_test(test_f16_rounds), cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_scales),      cmocka_unit_test(test_dtype),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
