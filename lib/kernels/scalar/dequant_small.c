/* The formats with one scale (and perhaps a minimum) a block of 32 to 256 elements. In most of them byte j of the codes holds element j in
 * its low half and element j + block / 2 in its high half. Layouts: ggml-common.h and gguf-py/gguf/quants.py in ggml-org/llama.cpp. */
#include "base/codebooks.h"
#include "kernels/dequant.h"
#include "kernels/scalar/dequant_load.h"

/* d f16, codes 16: d * (code - 8) */
void dequant_q4_0(const uint8_t *src, float *dst, uint64_t n)
{
    for (; n >= 32; n -= 32, src += 18, dst += 32) {
        float d = load_f16(src);
        for (int j = 0; j < 16; j++) {
            dst[j] = d * (float)((src[2 + j] & 15) - 8);
            dst[j + 16] = d * (float)((src[2 + j] >> 4) - 8);
        }
    }
}

/* d f16, m f16, codes 16: d * code + m */
void dequant_q4_1(const uint8_t *src, float *dst, uint64_t n)
{
    for (; n >= 32; n -= 32, src += 20, dst += 32) {
        float d = load_f16(src), m = load_f16(src + 2);
        for (int j = 0; j < 16; j++) {
            dst[j] = d * (float)(src[4 + j] & 15) + m;
            dst[j + 16] = d * (float)(src[4 + j] >> 4) + m;
        }
    }
}

/* Element j of a Q5 block: 4 bits of its byte, and bit j of the 32 high bits. */
static int five_bits(const uint8_t *codes, uint32_t high, int j)
{
    int low = j < 16 ? codes[j] & 15 : codes[j - 16] >> 4;
    return low | (int)(high >> j & 1) << 4;
}

/* d f16, high bits u32, codes 16: d * (code - 16) */
void dequant_q5_0(const uint8_t *src, float *dst, uint64_t n)
{
    for (; n >= 32; n -= 32, src += 22, dst += 32) {
        float d = load_f16(src);
        uint32_t high = load_u32(src + 2);
        for (int j = 0; j < 32; j++)
            dst[j] = d * (float)(five_bits(src + 6, high, j) - 16);
    }
}

/* d f16, m f16, high bits u32, codes 16: d * code + m */
void dequant_q5_1(const uint8_t *src, float *dst, uint64_t n)
{
    for (; n >= 32; n -= 32, src += 24, dst += 32) {
        float d = load_f16(src), m = load_f16(src + 2);
        uint32_t high = load_u32(src + 4);
        for (int j = 0; j < 32; j++)
            dst[j] = d * (float)five_bits(src + 8, high, j) + m;
    }
}

/* Blocks of n codes i8 after `head` bytes that begin with d f16. */
static void decode_i8(const uint8_t *src, float *dst, uint64_t n, int head)
{
    for (; n >= 32; n -= 32, src += head + 32, dst += 32) {
        float d = load_f16(src);
        for (int j = 0; j < 32; j++)
            dst[j] = d * (float)(int8_t)src[head + j];
    }
}

/* d f16, codes 32 i8: d * code */
void dequant_q8_0(const uint8_t *src, float *dst, uint64_t n)
{
    decode_i8(src, dst, n, 2);
}

/* d f16, s f16 (d times the sum of the codes, not needed here), codes 32 i8: d * code */
void dequant_q8_1(const uint8_t *src, float *dst, uint64_t n)
{
    decode_i8(src, dst, n, 4);
}

/* d f16, 128 bits, lowest first: d or -d */
void dequant_q1_0(const uint8_t *src, float *dst, uint64_t n)
{
    for (; n >= 128; n -= 128, src += 18, dst += 128) {
        float d = load_f16(src);
        for (int j = 0; j < 128; j++)
            dst[j] = src[2 + j / 8] >> (j % 8) & 1 ? d : -d;
    }
}

/* d f16, 64 codes of 2 bits, lowest first: d * (code - 1) */
void dequant_q2_0(const uint8_t *src, float *dst, uint64_t n)
{
    for (; n >= 64; n -= 64, src += 18, dst += 64) {
        float d = load_f16(src);
        for (int j = 0; j < 64; j++)
            dst[j] = d * (float)((src[2 + j / 4] >> (2 * (j % 4)) & 3) - 1);
    }
}

/* e E8M0, codes 16: E2M1 * 2^(e - 127), as doubled values times half the scale */
void dequant_mxfp4(const uint8_t *src, float *dst, uint64_t n)
{
    for (; n >= 32; n -= 32, src += 17, dst += 32) {
        float d = e8m0_half_to_f32(src[0]);
        for (int j = 0; j < 16; j++) {
            dst[j] = d * (float)codebook_fp4[src[1 + j] & 15];
            dst[j + 16] = d * (float)codebook_fp4[src[1 + j] >> 4];
        }
    }
}

/* 4 scales UE4M3, codes 32: four groups of 16 elements with 8 bytes each. The tensor's own scale is another tensor, not applied here. */
void dequant_nvfp4(const uint8_t *src, float *dst, uint64_t n)
{
    for (; n >= 64; n -= 64, src += 36) {
        for (int g = 0; g < 4; g++, dst += 16) {
            float d = ue4m3_half_to_f32(src[g]);
            const uint8_t *codes = src + 4 + 8 * g;
            for (int j = 0; j < 8; j++) {
                dst[j] = d * (float)codebook_fp4[codes[j] & 15];
                dst[j + 8] = d * (float)codebook_fp4[codes[j] >> 4];
            }
        }
    }
}

/* d f16, codes 16: d * value of the code book */
void dequant_iq4_nl(const uint8_t *src, float *dst, uint64_t n)
{
    for (; n >= 32; n -= 32, src += 18, dst += 32) {
        float d = load_f16(src);
        for (int j = 0; j < 16; j++) {
            dst[j] = d * (float)codebook_iq4nl[src[2 + j] & 15];
            dst[j + 16] = d * (float)codebook_iq4nl[src[2 + j] >> 4];
        }
    }
}

/* A byte of TQ1_0 is a fraction of 256 whose digits in base 3 are `digits` ternary codes, the first the most significant. Digit k of byte j
 * is element k * width + j. */
static float *decode_trits(const uint8_t *codes, int width, int digits, float d, float *dst)
{
    static const uint8_t pow3[5] = {1, 3, 9, 27, 81};
    for (int k = 0; k < digits; k++)
        for (int j = 0; j < width; j++)
            *dst++ = d * (float)(((uint8_t)(codes[j] * pow3[k]) * 3 >> 8) - 1);
    return dst;
}

/* 48 bytes of 5 codes (32 and 16 wide), 4 bytes of 4 codes, d f16: d * (code - 1) */
void dequant_tq1_0(const uint8_t *src, float *dst, uint64_t n)
{
    for (; n >= 256; n -= 256, src += 54) {
        float d = load_f16(src + 52);
        dst = decode_trits(src, 32, 5, d, dst);
        dst = decode_trits(src + 32, 16, 5, d, dst);
        dst = decode_trits(src + 48, 4, 4, d, dst);
    }
}

/* 64 bytes of 4 codes, d f16: bits 2k of byte j of a 32-byte half are element 32k + j; d * (code - 1) */
void dequant_tq2_0(const uint8_t *src, float *dst, uint64_t n)
{
    for (; n >= 256; n -= 256, src += 66) {
        float d = load_f16(src + 64);
        for (int half = 0; half < 64; half += 32)
            for (int k = 0; k < 4; k++)
                for (int j = 0; j < 32; j++)
                    *dst++ = d * (float)((src[half + j] >> (2 * k) & 3) - 1);
    }
}
