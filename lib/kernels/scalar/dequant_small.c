/* The formats with one scale (and perhaps a minimum) a block of 32 to 256 elements. In most of them byte j of the codes holds element j in
 * its low half and element j + block / 2 in its high half. Layouts: ggml-common.h and gguf-py/gguf/quants.py in ggml-org/llama.cpp. */
#include "base/codebooks.h"
#include "kernels/dequant.h"
#include "kernels/scalar/dequant_load.h"

/* 32 codes of 4 bits. */
static void nibbles(uint8_t *restrict q, const uint8_t *restrict codes)
{
    for (int j = 0; j < 16; j++) {
        q[j] = codes[j] & 15;
        q[j + 16] = codes[j] >> 4;
    }
}

/* 32 codes of 5 bits: the fifths are the bits of 4 bytes. */
static void fives(uint8_t *restrict q, const uint8_t *restrict codes, const uint8_t *restrict high)
{
    uint8_t bits[32];
    spread_bits(bits, high, 4);
    nibbles(q, codes);
    for (int j = 0; j < 32; j++)
        q[j] = (uint8_t)(q[j] | bits[j] << 4);
}

/* 32 values of a code book. */
static void book(int8_t *restrict v, const int8_t *restrict values, const uint8_t *restrict codes)
{
    for (int j = 0; j < 16; j++) {
        v[j] = values[codes[j] & 15];
        v[j + 16] = values[codes[j] >> 4];
    }
}

/* d * (code - zero) of 32 codes */
static void centred(float *restrict dst, const uint8_t *restrict q, int zero, float d)
{
    int8_t c[32];
    for (int j = 0; j < 32; j++)
        c[j] = (int8_t)(q[j] - zero);
    scaled(dst, c, 32, d);
}

/* d f16, codes 16: d * (code - 8) */
void dequant_q4_0(const uint8_t *src, float *dst, uint64_t n)
{
    uint8_t q[32];
    for (; n >= 32; n -= 32, src += 18, dst += 32) {
        nibbles(q, src + 2);
        centred(dst, q, 8, load_f16(src));
    }
}

/* d f16, m f16, codes 16: d * code + m */
void dequant_q4_1(const uint8_t *src, float *dst, uint64_t n)
{
    uint8_t q[32];
    for (; n >= 32; n -= 32, src += 20, dst += 32) {
        nibbles(q, src + 4);
        scaled_plus(dst, q, 32, load_f16(src), load_f16(src + 2));
    }
}

/* d f16, high bits u32, codes 16: d * (code - 16) */
void dequant_q5_0(const uint8_t *src, float *dst, uint64_t n)
{
    uint8_t q[32];
    for (; n >= 32; n -= 32, src += 22, dst += 32) {
        fives(q, src + 6, src + 2);
        centred(dst, q, 16, load_f16(src));
    }
}

/* d f16, m f16, high bits u32, codes 16: d * code + m */
void dequant_q5_1(const uint8_t *src, float *dst, uint64_t n)
{
    uint8_t q[32];
    for (; n >= 32; n -= 32, src += 24, dst += 32) {
        fives(q, src + 8, src + 4);
        scaled_plus(dst, q, 32, load_f16(src), load_f16(src + 2));
    }
}

/* Blocks of n codes i8 after `head` bytes that begin with d f16. */
static void decode_i8(const uint8_t *src, float *dst, uint64_t n, int head)
{
    for (; n >= 32; n -= 32, src += head + 32, dst += 32)
        scaled(dst, (const int8_t *)src + head, 32, load_f16(src));
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
        uint8_t bits[128];
        spread_bits(bits, src + 2, 16);
        for (int j = 0; j < 128; j++)
            dst[j] = bits[j] ? d : -d;
    }
}

/* d f16, 64 codes of 2 bits, lowest first: d * (code - 1) */
void dequant_q2_0(const uint8_t *src, float *dst, uint64_t n)
{
    for (; n >= 64; n -= 64, src += 18, dst += 64) {
        uint8_t q[64];
        for (int j = 0; j < 64; j++)
            q[j] = src[2 + j / 4] >> (2 * (j % 4)) & 3;
        centred(dst, q, 1, load_f16(src));
        centred(dst + 32, q + 32, 1, load_f16(src));
    }
}

/* e E8M0, codes 16: E2M1 * 2^(e - 127), as doubled values times half the scale */
void dequant_mxfp4(const uint8_t *src, float *dst, uint64_t n)
{
    for (; n >= 32; n -= 32, src += 17, dst += 32) {
        int8_t v[32];
        book(v, codebook_fp4, src + 1);
        scaled(dst, v, 32, e8m0_half_to_f32(src[0]));
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
        int8_t v[32];
        book(v, codebook_iq4nl, src + 2);
        scaled(dst, v, 32, load_f16(src));
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
        for (int k = 0; k < 8; k++, dst += 32) {
            uint8_t q[32];
            for (int j = 0; j < 32; j++)
                q[j] = src[k / 4 * 32 + j] >> (2 * (k % 4)) & 3;
            centred(dst, q, 1, load_f16(src + 64));
        }
    }
}
