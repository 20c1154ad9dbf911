/* The IQ formats: super-blocks of 256 elements, whose groups of 8 (or 4) are entries of a code book. Layouts: ggml-common.h and
 * gguf-py/gguf/quants.py in ggml-org/llama.cpp. */
#include "base/codebooks.h"
#include "kernels/dequant.h"
#include "kernels/scalar/dequant_load.h"

/* count magnitudes from the bytes of grid, lowest first; bit j of signs set: negative. */
static float *put_signed(float *dst, uint64_t grid, int count, unsigned signs, float d)
{
    for (int j = 0; j < count; j++) {
        float v = d * (float)(grid >> (8 * j) & 255);
        *dst++ = signs >> j & 1 ? -v : v;
    }
    return dst;
}

/* d f16, then for each 32 elements: 4 grid indices u8, and u32 with 4 sign codes of 7 bits and a scale of 4 */
void dequant_iq2_xxs(const uint8_t *src, float *dst, uint64_t n)
{
    for (; n >= 256; n -= 256, src += 66) {
        float d = load_f16(src);
        for (const uint8_t *p = src + 2; p < src + 66; p += 8) {
            uint32_t aux = load_u32(p + 4);
            float db = d * (0.5f + (float)(aux >> 28)) * 0.25f;
            for (int k = 0; k < 4; k++)
                dst = put_signed(dst, codebook_iq2xxs[p[k]], 8, codebook_signs[aux >> (7 * k) & 127], db);
        }
    }
}

/* d f16, 32 u16 (grid index 9 bits, sign code 7), scales 8: 4 bits for each 16 elements */
void dequant_iq2_xs(const uint8_t *src, float *dst, uint64_t n)
{
    for (; n >= 256; n -= 256, src += 74) {
        float d = load_f16(src);
        for (int k = 0; k < 32; k++) {
            uint16_t q = load_u16(src + 2 + 2 * k);
            int scale = src[66 + k / 4] >> (4 * (k / 2 % 2)) & 15;
            float db = d * (0.5f + (float)scale) * 0.25f;
            dst = put_signed(dst, codebook_iq2xs[q & 511], 8, codebook_signs[q >> 9], db);
        }
    }
}

/* d f16, low index bits 32, signs 32, high index bits 8 (2 for each 8 elements), scales 8 as IQ2_XS */
void dequant_iq2_s(const uint8_t *src, float *dst, uint64_t n)
{
    for (; n >= 256; n -= 256, src += 82) {
        float d = load_f16(src);
        for (int k = 0; k < 32; k++) {
            int index = src[2 + k] | (src[66 + k / 4] >> (2 * (k % 4)) & 3) << 8;
            int scale = src[74 + k / 4] >> (4 * (k / 2 % 2)) & 15;
            float db = d * (0.5f + (float)scale) * 0.25f;
            dst = put_signed(dst, codebook_iq2s[index], 8, src[34 + k], db);
        }
    }
}

/* d f16, grid indices 64 (4 elements each), then for each 32 elements u32 with 4 sign codes and a scale as IQ2_XXS */
void dequant_iq3_xxs(const uint8_t *src, float *dst, uint64_t n)
{
    for (; n >= 256; n -= 256, src += 98) {
        float d = load_f16(src);
        for (int k = 0; k < 64; k++) {
            uint32_t aux = load_u32(src + 66 + 4 * (k / 8));
            unsigned signs = codebook_signs[aux >> (7 * (k / 2 % 4)) & 127];
            float db = d * (0.5f + (float)(aux >> 28)) * 0.5f;
            dst = put_signed(dst, codebook_iq3xxs[src[2 + k]], 4, signs >> (4 * (k % 2)), db);
        }
    }
}

/* d f16, low index bits 64, high index bits 8 (1 for each 4 elements), signs 32, scales 4: 4 bits for each 32 elements */
void dequant_iq3_s(const uint8_t *src, float *dst, uint64_t n)
{
    for (; n >= 256; n -= 256, src += 110) {
        float d = load_f16(src);
        for (int k = 0; k < 64; k++) {
            int index = src[2 + k] | (src[66 + k / 8] >> (k % 8) & 1) << 8;
            int scale = src[106 + k / 16] >> (4 * (k / 8 % 2)) & 15;
            float db = d * (float)(1 + 2 * scale);
            dst = put_signed(dst, codebook_iq3s[index], 4, (unsigned)src[74 + k / 2] >> (4 * (k % 2)), db);
        }
    }
}

/* 8 values -1, 0, 1, each shifted by delta. */
static float *put_ternary(float *dst, uint64_t grid, float delta, float d)
{
    for (int j = 0; j < 8; j++)
        *dst++ = d * ((float)(int8_t)(grid >> (8 * j) & 255) + delta);
    return dst;
}

/* d f16, low index bits 32, then u16 for each 32 elements: 4 x 3 high index bits, scale 3, sign of delta 1 */
void dequant_iq1_s(const uint8_t *src, float *dst, uint64_t n)
{
    for (; n >= 256; n -= 256, src += 50) {
        float d = load_f16(src);
        for (int k = 0; k < 32; k++) {
            uint16_t h = load_u16(src + 34 + 2 * (k / 4));
            int index = src[2 + k] | (h >> (3 * (k % 4)) & 7) << 8;
            float dl = d * (float)(2 * (h >> 12 & 7) + 1);
            dst = put_ternary(dst, codebook_iq1[index], h & 0x8000 ? -0.125f : 0.125f, dl);
        }
    }
}

/* low index bits 32, high 16 (for each 8 elements 3 bits and the sign of delta), scales 4 u16: 4 x 3 bits for 16 elements each, and in
 * the top 4 bits a quarter of the f16 d, lowest first */
void dequant_iq1_m(const uint8_t *src, float *dst, uint64_t n)
{
    for (; n >= 256; n -= 256, src += 56) {
        unsigned bits = 0;
        for (int k = 0; k < 4; k++)
            bits |= (unsigned)(load_u16(src + 48 + 2 * k) >> 12) << (4 * k);
        float d = f16_to_f32((uint16_t)bits);
        for (int k = 0; k < 32; k++) {
            int h = src[32 + k / 2] >> (4 * (k % 2)) & 15, index = src[k] | (h & 7) << 8;
            int scale = load_u16(src + 48 + 2 * (k / 8)) >> (3 * (k / 2 % 4)) & 7;
            float dl = d * (float)(2 * scale + 1);
            dst = put_ternary(dst, codebook_iq1[index], h & 8 ? -0.125f : 0.125f, dl);
        }
    }
}

/* d f16, high scale bits u16 (2 for each 32 elements), low scale bits 4, codes 128: byte j of each 16 holds elements j and j + 16 of 32 */
void dequant_iq4_xs(const uint8_t *src, float *dst, uint64_t n)
{
    for (; n >= 256; n -= 256, src += 136) {
        float d = load_f16(src);
        unsigned high = load_u16(src + 2);
        for (int b = 0; b < 8; b++) {
            const uint8_t *codes = src + 8 + 16 * b;
            int scale = (src[4 + b / 2] >> (4 * (b % 2)) & 15) | (int)(high >> (2 * b) & 3) << 4;
            float dl = d * (float)(scale - 32);
            for (int j = 0; j < 32; j++)
                *dst++ = dl * (float)codebook_iq4nl[j < 16 ? codes[j] & 15 : codes[j - 16] >> 4];
        }
    }
}
