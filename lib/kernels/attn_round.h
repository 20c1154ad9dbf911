/* Rounding to int8, see attn.h: one text for every variant, whose compiler flags make vectors of it. The maximum is taken over bit patterns, which
 * order like the magnitudes they stand for, NaN above all. */
#ifndef KERNELS_ATTN_ROUND_H
#define KERNELS_ATTN_ROUND_H

#include "base/half.h"
#include "kernels/attn.h"
#include "kernels/math_const.h"

static inline uint16_t attn_round8_scale(const float *x, uint32_t n)
{
    uint32_t max = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t a = f32_bits(x[i]) & 0x7FFFFFFFu;
        max = a > max ? a : max;
    }
    uint16_t d = f32_to_f16(f32_of_bits(max) / 127.0f);
    return d < 0x7C00 ? d : 0x7E00;
}

static inline void attn_round8_codes(int8_t *codes, uint16_t scale, const float *x, uint32_t n)
{
    float r = scale != 0 && scale < 0x7C00 ? 1.0f / f16_to_f32(scale) : 0.0f;
    for (uint32_t i = 0; i < n; i++) {
        int32_t c = (int32_t)(f32_bits(x[i] * r + MAGICF) - f32_bits(MAGICF)); /* |x r| is at most 254, or r is 0 */
        c = c > 127 ? 127 : c;
        codes[i] = (int8_t)(scale >= 0x7C00 ? 0 : c < -127 ? -127 : c);
    }
}

/* group: a constant, for the vectors' sake. */
static inline __attribute__((always_inline)) void attn_round8_groups(int8_t *codes, uint16_t *scales, const float *x, uint32_t n,
                                                                     uint32_t group)
{
    uint32_t at = 0;
    for (; n - at >= group; at += group, scales++) {
        *scales = attn_round8_scale(x + at, group);
        attn_round8_codes(codes + at, *scales, x + at, group);
    }
    if (at < n) {
        *scales = attn_round8_scale(x + at, n - at);
        attn_round8_codes(codes + at, *scales, x + at, n - at);
    }
}

static inline void attn_round8(int8_t *codes, uint16_t *scales, const float *x, uint32_t n, uint32_t group)
{
    if (group == DEV_KV_MIN_GROUP)
        attn_round8_groups(codes, scales, x, n, DEV_KV_MIN_GROUP);
    else
        attn_round8_groups(codes, scales, x, n, 2 * DEV_KV_MIN_GROUP);
}

#endif
