/* exp and log in double for the sampler: plain sums and products in a fixed order, so the same bits on every CPU (lib/kernels' f32 ones need
 * fma, which the baseline build must emulate: slower here, and short of the 40 bits that probabilities keep). */
#ifndef SAMPLING_SAMPLE_MATH_H
#define SAMPLING_SAMPLE_MATH_H

#include <stdint.h>
#include <string.h>

/* exp(x) for -700 <= x <= 0, within an ulp or two. */
static inline double sample_exp(double x)
{
    /* x = n ln 2 + r, |r| <= 0.35; ln 2 in two parts of which n times the first is exact. */
    double n = (double)(int64_t)(x * 1.4426950408889634 - 0.5);
    double r = (x - n * 0x1.62e42fee00000p-1) - n * 0x1.a39ef35793c76p-33;
    double p = 1.0 / 6227020800.0; /* Taylor: r^14/14! is below 2^-57 */
    static const double c[13] = {1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0, 1.0 / 40320.0,
                                 1.0 / 5040.0,      1.0 / 720.0,      1.0 / 120.0,     1.0 / 24.0,     1.0 / 6.0,
                                 0.5,               1.0,              1.0};
    for (int i = 0; i < 13; i++)
        p = p * r + c[i];
    uint64_t bits = (uint64_t)(1023 + (int64_t)n) << 52;
    double scale;
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

/* log(x) for normal x > 0, within a few ulps. */
static inline double sample_log(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    /* x = 2^e m with m in [sqrt(1/2), sqrt(2)) */
    int64_t e = (int64_t)((bits - 0x3FE6A09E667F3BCDu) >> 52);
    if (e >= 2048)
        e -= 4096; /* the difference was negative */
    bits -= (uint64_t)e << 52;
    double m;
    memcpy(&m, &bits, sizeof m);
    double s = (m - 1.0) / (m + 1.0), t = s * s, p = 1.0 / 23.0;
    for (int k = 21; k >= 1; k -= 2)
        p = p * t + 1.0 / (double)k; /* atanh series */
    return (double)e * 0x1.62e42fee00000p-1 + (2.0 * s * p + (double)e * 0x1.a39ef35793c76p-33);
}

#endif
