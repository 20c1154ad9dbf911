/* a * b + c with one rounding, the same bits on every CPU. Where the target has no fma instruction it is emulated: the product of two
 * floats is exact in double; the sum is rounded to odd there (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums:
 * proved algorithms using rounding to odd", 2008), and 53 odd-rounded bits then round correctly to 24. */
#ifndef KERNELS_FMA_H
#define KERNELS_FMA_H

#include <stdint.h>
#include <string.h>

#if defined(__FMA__) || defined(__aarch64__)
static inline float fma_f32(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}
#else
static inline float fma_f32(float a, float b, float c)
{
    double p = (double)a * (double)b, d = (double)c;
    double s = p + d;
    double t = s - p;
    double e = (p - (s - t)) + (d - t); /* s + e == p + d exactly (two-sum) */
    uint64_t bits;
    memcpy(&bits, &s, 8);
    /* e is NaN when s is not finite; a zero s is exact. Off by less than an ulp and even: step to the odd neighbour on e's side. */
    if ((e > 0 || e < 0) && !(bits & 1)) {
        bits = (e > 0) == (s > 0) ? bits + 1 : bits - 1;
        memcpy(&s, &bits, 8);
    }
    return (float)s;
}
#endif

#endif
