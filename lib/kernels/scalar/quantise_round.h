/* What the quantisers share. */
#ifndef KERNELS_QUANTISE_ROUND_H
#define KERNELS_QUANTISE_ROUND_H

#include <string.h>

#include "base/half.h"
#include "infer/infer.h"

#define QUANTISE_MAX 1e12f /* of magnitudes: beyond what any type's scales reach, and sums of squares stay finite */

static inline float magnitude(float x)
{
    return x < 0 ? -x : x;
}

/* |x| below 2^30: halves away from zero. */
static inline int round_away(float x)
{
    float a = magnitude(x);
    int i = (int)a;
    i += a - (float)i >= 0.5f;
    return x < 0 ? -i : i;
}

static inline int clamp(int x, int lo, int hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

/* round_away(x) within lo to hi, for x of any value. */
static inline int code_of(float x, int lo, int hi)
{
    return !(x > (float)lo - 1) ? lo : x >= (float)hi + 1 ? hi : clamp(round_away(x), lo, hi);
}

static inline bool all_finite(const float *x, int n)
{
    bool ok = true;
    for (int i = 0; i < n; i++)
        ok &= magnitude(x[i]) <= QUANTISE_MAX; /* false for NaN */
    return ok;
}

/* False: it does not fit. */
static inline bool put_f16(uint8_t *dst, float x)
{
    uint16_t h = f32_to_f16(x);
    memcpy(dst, &h, 2);
    return (h & 0x7C00) != 0x7C00;
}

#endif
