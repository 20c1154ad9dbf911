/* Small float formats to and from f32, by integer arithmetic alone: exact for every bit pattern, whatever the rounding mode or
 * flush-to-zero setting. NaNs stay NaNs (quiet, payload kept), as the x86 and Arm conversion instructions do it.
 * Formats: IEEE 754-2019 binary16; bfloat16 (the upper half of binary32); E8M0: OCP Microscaling Formats (MX) 1.0, 5.4.1; UE4M3: OCP
 * 8-bit Floating Point (OFP8) 1.0, E4M3 without its sign. */
#ifndef BASE_HALF_H
#define BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float f32_of_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static inline uint32_t f32_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits;
}

static inline float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = (h >> 10) & 31, man = h & 0x3FF;
    if (exp == 31)
        return f32_of_bits(sign | 0x7F800000 | (man ? 0x400000 | man << 13 : 0));
    if (exp == 0) {
        if (man == 0)
            return f32_of_bits(sign);
        for (exp = 113; !(man & 0x400); exp--) /* a subnormal half is a normal float */
            man <<= 1;
        return f32_of_bits(sign | exp << 23 | (man & 0x3FF) << 13);
    }
    return f32_of_bits(sign | (exp + 112) << 23 | man << 13);
}

/* Rounds to nearest, ties to even; overflow gives infinity. */
static inline uint16_t f32_to_f16(float f)
{
    uint32_t bits = f32_bits(f), abs = bits & 0x7FFFFFFF, sign = bits >> 16 & 0x8000;
    if (abs > 0x7F800000)
        return (uint16_t)(sign | 0x7E00 | (abs >> 13 & 0x3FF));
    if (abs >= 0x47800000) /* 2^16; what lies between 65504 and it rounds below, by the carry */
        return (uint16_t)(sign | 0x7C00);
    if (abs >= 0x38800000) { /* 2^-14: normal */
        uint32_t r = abs - 0x38000000 + 0xFFF + (abs >> 13 & 1);
        return (uint16_t)(sign | r >> 13);
    }
    if (abs < 0x33000000) /* below 2^-25: zero; 2^-25 itself is a tie and rounds to even below */
        return (uint16_t)sign;
    uint32_t shift = 126 - (abs >> 23), man = (abs & 0x7FFFFF) | 0x800000; /* value = man * 2^-shift units of 2^-24 */
    uint32_t q = man >> shift, rest = man & ((1u << shift) - 1), half = 1u << (shift - 1);
    q += rest > half || (rest == half && (q & 1));
    return (uint16_t)(sign | q);
}

static inline float bf16_to_f32(uint16_t h)
{
    return f32_of_bits((uint32_t)h << 16);
}

/* Rounds to nearest, ties to even. */
static inline uint16_t f32_to_bf16(float f)
{
    uint32_t bits = f32_bits(f);
    if ((bits & 0x7FFFFFFF) > 0x7F800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/* 2^(e - 127); 255 is NaN in the OCP format. */
static inline float e8m0_to_f32(uint8_t e)
{
    if (e == 255)
        return f32_of_bits(0x7FC00000);
    return f32_of_bits(e ? (uint32_t)e << 23 : 0x400000);
}

/* 2^(e - 128), the scale that MXFP4 blocks in GGUF use with code values that are doubled (codebook_fp4). GGUF gives 255 no special
 * meaning: it is 2^127. */
static inline float e8m0_half_to_f32(uint8_t e)
{
    return f32_of_bits(e < 2 ? 0x200000u << e : (uint32_t)(e - 1) << 23);
}

/* UE4M3 halved, the scale of NVFP4 in GGUF (code values doubled, as above). As GGUF's reference decoders have it: 0x7F, which is NaN in the
 * OCP format, is 0, and the top bit is ignored otherwise. */
static inline float ue4m3_half_to_f32(uint8_t x)
{
    uint32_t exp = x >> 3 & 15, man = x & 7;
    if (x == 0x7F)
        return 0.0f;
    if (exp == 0)
        return (float)man * 0.0009765625f; /* 2^-10 */
    return f32_of_bits((exp + 119) << 23 | man << 20); /* bias 7, halved: exp - 7 - 1 + 127 */
}

#endif
