/* What the decoders share: unaligned little-endian loads from packed blocks, codes to floats. The loops are
 * of constant length over bytes or floats that overlap nothing, so that compilers make vectors of them. */
#ifndef KERNELS_DEQUANT_LOAD_H
#define KERNELS_DEQUANT_LOAD_H

#include <string.h>

#include "base/half.h"

static inline uint16_t load_u16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, 2);
    return v;
}

static inline uint32_t load_u32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}

static inline float load_f16(const uint8_t *p)
{
    return f16_to_f32(load_u16(p));
}

/* dst = d * code */
static inline void scaled(float *restrict dst, const int8_t *restrict codes, int n, float d)
{
    for (int j = 0; j < n; j++)
        dst[j] = d * (float)codes[j];
}

/* dst = d * code + m */
static inline void scaled_plus(float *restrict dst, const uint8_t *restrict codes, int n, float d, float m)
{
    for (int j = 0; j < n; j++)
        dst[j] = d * (float)codes[j] + m;
}

/* dst = d * code - m */
static inline void scaled_minus(float *restrict dst, const uint8_t *restrict codes, int n, float d, float m)
{
    for (int j = 0; j < n; j++)
        dst[j] = d * (float)codes[j] - m;
}

/* out[j] = bit j: 1 or 0 */
static inline void spread_bits(uint8_t *restrict out, const uint8_t *restrict bits, int n_byte)
{
    for (int k = 0; k < n_byte; k++) {
        uint64_t x = bits[k] * UINT64_C(0x0101010101010101) & UINT64_C(0x8040201008040201); /* bit j in byte j */
        x = (x + UINT64_C(0x7F7F7F7F7F7F7F7F)) >> 7 & UINT64_C(0x0101010101010101);
        memcpy(out + 8 * k, &x, 8);
    }
}

#endif
