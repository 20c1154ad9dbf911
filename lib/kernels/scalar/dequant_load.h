/* Unaligned little-endian loads from packed blocks. */
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

#endif
