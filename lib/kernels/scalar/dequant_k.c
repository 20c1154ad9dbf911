/* The K formats: super-blocks of 256 elements with scales of their own for 16 or 32 elements. Layouts: ggml-common.h and
 * gguf-py/gguf/quants.py in ggml-org/llama.cpp. */
#include "kernels/dequant.h"
#include "kernels/scalar/dequant_load.h"

/* scales 16 (low half: of d, high half: of dmin), codes 64, d f16, dmin f16. Bits 2k of byte j of a 32-byte half are element 32k + j. */
void dequant_q2_k(const uint8_t *src, float *dst, uint64_t n)
{
    for (; n >= 256; n -= 256, src += 84) {
        float d = load_f16(src + 80), dmin = load_f16(src + 82);
        for (int g = 0; g < 16; g++) { /* groups of 16 elements */
            const uint8_t *codes = src + 16 + 32 * (g / 8) + 16 * (g % 2);
            uint8_t q[16];
            for (int j = 0; j < 16; j++)
                q[j] = codes[j] >> (2 * (g / 2 % 4)) & 3;
            scaled_minus(dst, q, 16, d * (float)(src[g] & 15), dmin * (float)(src[g] >> 4));
            dst += 16;
        }
    }
}

/* Scale g of the 16 in Q3_K's 12 bytes: the low four bits in the halves of bytes 0-7, the high two in pairs of bits of bytes 8-11. */
static int q3_scale(const uint8_t *s, int g)
{
    int low = g < 8 ? s[g] & 15 : s[g - 8] >> 4;
    return (low | (s[8 + g % 4] >> (2 * (g / 4)) & 3) << 4) - 32;
}

/* high bits 32, codes 64, scales 12, d f16. Codes as Q2_K; a high bit that is not set subtracts 4; bit k of byte j is of element 32k + j. */
void dequant_q3_k(const uint8_t *src, float *dst, uint64_t n)
{
    for (; n >= 256; n -= 256, src += 110) {
        float d = load_f16(src + 108);
        for (int g = 0; g < 16; g++) {
            const uint8_t *codes = src + 32 + 32 * (g / 8) + 16 * (g % 2), *high = src + 16 * (g % 2);
            int8_t q[16];
            for (int j = 0; j < 16; j++)
                q[j] = (int8_t)((codes[j] >> (2 * (g / 2 % 4)) & 3) + (high[j] >> (g / 2) & 1) * 4 - 4);
            scaled(dst, q, 16, d * (float)q3_scale(src + 96, g));
            dst += 16;
        }
    }
}

/* Scale and minimum b of the 8 in the 12 bytes of Q4_K and Q5_K, 6 bits each. */
static void k_scale(const uint8_t *s, int b, int *scale, int *min)
{
    if (b < 4) {
        *scale = s[b] & 63;
        *min = s[4 + b] & 63;
    } else {
        *scale = (s[4 + b] & 15) | (s[b - 4] >> 2 & 48);
        *min = s[4 + b] >> 4 | (s[b] >> 2 & 48);
    }
}

/* d f16, dmin f16, scales 12, codes 128: byte j of each 32 holds elements j and j + 32 of 64 */
void dequant_q4_k(const uint8_t *src, float *dst, uint64_t n)
{
    for (; n >= 256; n -= 256, src += 144) {
        float d = load_f16(src), dmin = load_f16(src + 2);
        for (int b = 0; b < 8; b++) {
            const uint8_t *codes = src + 16 + 32 * (b / 2);
            int scale, min;
            k_scale(src + 4, b, &scale, &min);
            uint8_t q[32];
            for (int j = 0; j < 32; j++)
                q[j] = codes[j] >> (4 * (b % 2)) & 15;
            scaled_minus(dst, q, 32, d * (float)scale, dmin * (float)min);
            dst += 32;
        }
    }
}

/* d f16, dmin f16, scales 12, high bits 32 (bit b of byte j: of element 32b + j), codes 128 as Q4_K */
void dequant_q5_k(const uint8_t *src, float *dst, uint64_t n)
{
    for (; n >= 256; n -= 256, src += 176) {
        float d = load_f16(src), dmin = load_f16(src + 2);
        for (int b = 0; b < 8; b++) {
            const uint8_t *high = src + 16, *codes = src + 48 + 32 * (b / 2);
            int scale, min;
            k_scale(src + 4, b, &scale, &min);
            uint8_t q[32];
            for (int j = 0; j < 32; j++)
                q[j] = (uint8_t)((codes[j] >> (4 * (b % 2)) & 15) | (high[j] >> b & 1) << 4);
            scaled_minus(dst, q, 32, d * (float)scale, dmin * (float)min);
            dst += 32;
        }
    }
}

/* low bits 128, high bits 64, scales 16 i8, d f16. Each half of 128 elements has 64 bytes of low bits (byte j: elements j and j + 64) and 32
 * of high bits (bits 2k of byte j: element 32k + j). */
void dequant_q6_k(const uint8_t *src, float *dst, uint64_t n)
{
    for (; n >= 256; n -= 256, src += 210) {
        float d = load_f16(src + 208);
        for (int b = 0; b < 8; b++) { /* groups of 32 elements, two scales each */
            const uint8_t *low = src + 64 * (b / 4) + 32 * (b % 2), *high = src + 128 + 32 * (b / 4);
            const uint8_t *scales = src + 192 + 2 * b;
            int8_t q[32];
            for (int j = 0; j < 32; j++)
                q[j] = (int8_t)(((low[j] >> (4 * (b / 2 % 2)) & 15) | (high[j] >> (2 * (b % 4)) & 3) << 4) - 32);
            scaled(dst, q, 16, d * (float)(int8_t)scales[0]);
            scaled(dst + 16, q + 16, 16, d * (float)(int8_t)scales[1]);
            dst += 32;
        }
    }
}

/* d f32, codes 256 i8, sums of 16 codes each 16 i16 (not needed here): d * code */
void dequant_q8_k(const uint8_t *src, float *dst, uint64_t n)
{
    for (; n >= 256; n -= 256, src += 292) {
        float d;
        memcpy(&d, src, 4);
        scaled(dst, (const int8_t *)src + 4, 256, d);
        dst += 256;
    }
}
