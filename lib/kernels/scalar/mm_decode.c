/* Scalar tile decoders of every block format: each row of a block becomes u8 codes with the zero point of its class and f32 scales.
 * Layouts: the `gguf` Python package's quants.py and the GGML sources that define them. All products of scales below are exact in f32
 * (an 11-bit half times at most 7 bits), so their order is free. */
#include "base/codebooks.h"
#include "base/half.h"
#include "kernels/mm.h"
#include "kernels/mm_list.h"

static uint32_t le16(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static uint32_t le32(const uint8_t *p)
{
    return le16(p) | le16(p + 2) << 16;
}

static float half_at(const uint8_t *p)
{
    return f16_to_f32((uint16_t)le16(p));
}

static inline void put(struct mm_tile *t, uint32_t b, uint32_t r, uint32_t i, int code)
{
    t->codes[b][i / 4][r][i % 4] = (uint8_t)code;
}

/* 16 bytes of nibbles: the low ones are inputs 0..15, the high ones 16..31. */
static void put_nibbles(struct mm_tile *t, uint32_t b, uint32_t r, const uint8_t *q)
{
    for (uint32_t i = 0; i < 16; i++) {
        put(t, b, r, i, q[i] & 15);
        put(t, b, r, i + 16, q[i] >> 4);
    }
}

static void put_nibbles_lut(struct mm_tile *t, uint32_t b, uint32_t r, const uint8_t *q, const int8_t *lut, int zero)
{
    for (uint32_t i = 0; i < 16; i++) {
        put(t, b, r, i, lut[q[i] & 15] + zero);
        put(t, b, r, i + 16, lut[q[i] >> 4] + zero);
    }
}

/* ---- 32-blocks ---- */

static void row_q4_0(const uint8_t *p, uint32_t n, uint32_t r, struct mm_tile *t)
{
    for (uint32_t b = 0; b < n; b++, p += 18) {
        t->d[b][0][r] = half_at(p);
        put_nibbles(t, b, r, p + 2);
    }
}

static void row_q4_1(const uint8_t *p, uint32_t n, uint32_t r, struct mm_tile *t)
{
    for (uint32_t b = 0; b < n; b++, p += 20) {
        t->d[b][0][r] = half_at(p);
        t->m[b][r] = half_at(p + 2);
        put_nibbles(t, b, r, p + 4);
    }
}

static void put_five_bits(struct mm_tile *t, uint32_t b, uint32_t r, const uint8_t *q, uint32_t high)
{
    for (uint32_t i = 0; i < 16; i++) {
        put(t, b, r, i, (int)((q[i] & 15u) | (high >> i & 1) << 4));
        put(t, b, r, i + 16, (int)((uint32_t)q[i] >> 4 | (high >> (i + 16) & 1) << 4));
    }
}

static void row_q5_0(const uint8_t *p, uint32_t n, uint32_t r, struct mm_tile *t)
{
    for (uint32_t b = 0; b < n; b++, p += 22) {
        t->d[b][0][r] = half_at(p);
        put_five_bits(t, b, r, p + 6, le32(p + 2));
    }
}

static void row_q5_1(const uint8_t *p, uint32_t n, uint32_t r, struct mm_tile *t)
{
    for (uint32_t b = 0; b < n; b++, p += 24) {
        t->d[b][0][r] = half_at(p);
        t->m[b][r] = half_at(p + 2);
        put_five_bits(t, b, r, p + 8, le32(p + 4));
    }
}

static void put_bytes(struct mm_tile *t, uint32_t b, uint32_t r, const uint8_t *q)
{
    for (uint32_t i = 0; i < 32; i++)
        put(t, b, r, i, q[i] ^ 128); /* two's complement + 128 */
}

static void row_q8_0(const uint8_t *p, uint32_t n, uint32_t r, struct mm_tile *t)
{
    for (uint32_t b = 0; b < n; b++, p += 34) {
        t->d[b][0][r] = half_at(p);
        put_bytes(t, b, r, p + 2);
    }
}

static void row_q8_1(const uint8_t *p, uint32_t n, uint32_t r, struct mm_tile *t)
{
    for (uint32_t b = 0; b < n; b++, p += 36) { /* p + 2: the sum of the weights, which can be recomputed */
        t->d[b][0][r] = half_at(p);
        put_bytes(t, b, r, p + 4);
    }
}

static void row_iq4_nl(const uint8_t *p, uint32_t n, uint32_t r, struct mm_tile *t)
{
    for (uint32_t b = 0; b < n; b++, p += 18) {
        t->d[b][0][r] = half_at(p);
        put_nibbles_lut(t, b, r, p + 2, codebook_iq4nl, 128);
    }
}

static void row_mxfp4(const uint8_t *p, uint32_t n, uint32_t r, struct mm_tile *t)
{
    for (uint32_t b = 0; b < n; b++, p += 17) {
        t->d[b][0][r] = e8m0_half_to_f32(p[0]);
        put_nibbles_lut(t, b, r, p + 1, codebook_fp4, 16);
    }
}

/* 64 inputs: four scales, then for each 16 inputs 8 bytes: low nibbles, high nibbles. */
static void row_nvfp4(const uint8_t *p, uint32_t n, uint32_t r, struct mm_tile *t)
{
    for (uint32_t b = 0; b < n; b++) {
        const uint8_t *d = p + 2 * (b % 2), *q = p + 4 + 16 * (b % 2);
        for (uint32_t h = 0; h < 2; h++) {
            t->d[b][h][r] = ue4m3_half_to_f32(d[h]);
            for (uint32_t i = 0; i < 8; i++) {
                put(t, b, r, 16 * h + i, codebook_fp4[q[8 * h + i] & 15] + 32);
                put(t, b, r, 16 * h + i + 8, codebook_fp4[q[8 * h + i] >> 4] + 32);
            }
        }
        p += 36 * (b % 2);
    }
}

/* 128 inputs: d, then a bit each: 1 is +d, 0 is -d. */
static void row_q1_0(const uint8_t *p, uint32_t n, uint32_t r, struct mm_tile *t)
{
    for (uint32_t b = 0; b < n; b++) {
        uint32_t k = b % 4;
        t->d[b][0][r] = half_at(p);
        uint32_t bits = le32(p + 2 + 4 * k);
        for (uint32_t i = 0; i < 32; i++)
            put(t, b, r, i, bits >> i & 1 ? 9 : 7);
        p += 18 * (k == 3);
    }
}

/* ---- K-quants: 256 inputs ---- */

static void row_q2_k(const uint8_t *p, uint32_t n, uint32_t r, struct mm_tile *t)
{
    for (uint32_t b = 0; b < n; b++) {
        uint32_t k = b % 8, shift = 2 * (k % 4);
        const uint8_t *scale = p + 2 * k, *q = p + 16 + 32 * (k / 4);
        t->d[b][0][r] = half_at(p + 80);
        t->m[b][r] = -half_at(p + 82);
        for (uint32_t h = 0; h < 2; h++) {
            t->n[b][r][h] = (int16_t)(scale[h] >> 4);
            for (uint32_t i = 16 * h; i < 16 * h + 16; i++)
                put(t, b, r, i, (q[i] >> shift & 3) * (scale[h] & 15)); /* at most 45 */
        }
        p += 84 * (k == 7);
    }
}

/* Sub-scale k of 16: 6 bits, biased by 32. */
static int q3_k_scale(const uint8_t *s, uint32_t k)
{
    int low = k < 8 ? s[k] & 15 : s[k - 8] >> 4;
    return (low | (s[8 + k % 4] >> (2 * (k / 4)) & 3) << 4) - 32;
}

/* (q - 4) * scale is in -124 .. 128; its negative plus 128 fits a byte, so d changes sign. */
static void row_q3_k(const uint8_t *p, uint32_t n, uint32_t r, struct mm_tile *t)
{
    for (uint32_t b = 0; b < n; b++) {
        uint32_t k = b % 8, shift = 2 * (k % 4);
        const uint8_t *high = p, *q = p + 32 + 32 * (k / 4);
        t->d[b][0][r] = -half_at(p + 108);
        for (uint32_t h = 0; h < 2; h++) {
            int scale = q3_k_scale(p + 96, 2 * k + h);
            for (uint32_t i = 16 * h; i < 16 * h + 16; i++) {
                int v = (q[i] >> shift & 3) - (high[i] >> k & 1 ? 0 : 4);
                put(t, b, r, i, 128 - v * scale);
            }
        }
        p += 110 * (k == 7);
    }
}

/* 6-bit scale and minimum k of 8 from the 12 bytes s of Q4_K and Q5_K. */
static void q4_k_scale(const uint8_t *s, uint32_t k, int *scale, int *min)
{
    if (k < 4) {
        *scale = s[k] & 63;
        *min = s[k + 4] & 63;
    } else {
        *scale = (s[k + 4] & 15) | (s[k - 4] >> 6) << 4;
        *min = s[k + 4] >> 4 | (s[k] >> 6) << 4;
    }
}

static void put_q4_k_scales(struct mm_tile *t, uint32_t b, uint32_t r, const uint8_t *p)
{
    int scale, min;
    q4_k_scale(p + 4, b % 8, &scale, &min);
    t->d[b][0][r] = half_at(p) * (float)scale;
    t->m[b][r] = -(half_at(p + 2) * (float)min);
}

static void row_q4_k(const uint8_t *p, uint32_t n, uint32_t r, struct mm_tile *t)
{
    for (uint32_t b = 0; b < n; b++) {
        uint32_t k = b % 8, shift = 4 * (k % 2);
        const uint8_t *q = p + 16 + 32 * (k / 2);
        put_q4_k_scales(t, b, r, p);
        for (uint32_t i = 0; i < 32; i++)
            put(t, b, r, i, q[i] >> shift & 15);
        p += 144 * (k == 7);
    }
}

static void row_q5_k(const uint8_t *p, uint32_t n, uint32_t r, struct mm_tile *t)
{
    for (uint32_t b = 0; b < n; b++) {
        uint32_t k = b % 8, shift = 4 * (k % 2);
        const uint8_t *high = p + 16, *q = p + 48 + 32 * (k / 2);
        put_q4_k_scales(t, b, r, p);
        for (uint32_t i = 0; i < 32; i++)
            put(t, b, r, i, (q[i] >> shift & 15) | (high[i] >> k & 1) << 4);
        p += 176 * (k == 7);
    }
}

static void row_q6_k(const uint8_t *p, uint32_t n, uint32_t r, struct mm_tile *t)
{
    for (uint32_t b = 0; b < n; b++) {
        uint32_t k = b % 8, quarter = k % 4;
        const uint8_t *low = p + 64 * (k / 4) + 32 * (quarter % 2), *high = p + 128 + 32 * (k / 4);
        const uint8_t *scale = p + 192 + 2 * k;
        float d = half_at(p + 208);
        for (uint32_t h = 0; h < 2; h++)
            t->d[b][h][r] = d * (float)(int8_t)scale[h];
        for (uint32_t i = 0; i < 32; i++)
            put(t, b, r, i, (low[i] >> (4 * (quarter / 2)) & 15) | (high[i] >> (2 * quarter) & 3) << 4);
        p += 210 * (k == 7);
    }
}

static void row_q8_k(const uint8_t *p, uint32_t n, uint32_t r, struct mm_tile *t)
{
    for (uint32_t b = 0; b < n; b++) {
        uint32_t k = b % 8;
        t->d[b][0][r] = f32_of_bits(le32(p));
        put_bytes(t, b, r, p + 4 + 32 * k);
        p += 292 * (k == 7);
    }
}

/* ---- grids: 256 inputs ---- */

/* 8 signed values of a grid of -1, 0, 1, with the delta of +-1/8 folded in: 8g +- 1. */
static void put_iq1(struct mm_tile *t, uint32_t b, uint32_t r, uint32_t i, uint64_t grid, bool negative, int zero)
{
    for (uint32_t k = 0; k < 8; k++)
        put(t, b, r, i + k, zero + 8 * (int8_t)(grid >> (8 * k)) + (negative ? -1 : 1));
}

static void row_iq1_s(const uint8_t *p, uint32_t n, uint32_t r, struct mm_tile *t)
{
    for (uint32_t b = 0; b < n; b++) {
        uint32_t k = b % 8, high = le16(p + 34 + 2 * k);
        const uint8_t *q = p + 2 + 4 * k;
        t->d[b][0][r] = half_at(p) * 0.125f * (float)(2 * (high >> 12 & 7) + 1);
        for (uint32_t l = 0; l < 4; l++)
            put_iq1(t, b, r, 8 * l, codebook_iq1[q[l] | (high >> (3 * l) & 7) << 8], high & 0x8000, 16);
        p += 50 * (k == 7);
    }
}

static void row_iq1_m(const uint8_t *p, uint32_t n, uint32_t r, struct mm_tile *t)
{
    for (uint32_t b = 0; b < n; b++) {
        uint32_t k = b % 8, scales = le16(p + 48 + 2 * (k / 2)) >> (6 * (k % 2));
        const uint8_t *q = p + 4 * k, *high = p + 32 + 2 * k;
        uint32_t d = 0; /* a half spread over the top nibbles of the four scale words */
        for (uint32_t i = 0; i < 4; i++)
            d |= le16(p + 48 + 2 * i) >> 12 << (4 * i);
        for (uint32_t h = 0; h < 2; h++)
            t->d[b][h][r] = f16_to_f32((uint16_t)d) * 0.125f * (float)(2 * (scales >> (3 * h) & 7) + 1);
        for (uint32_t l = 0; l < 4; l++) {
            uint32_t bits = (uint32_t)high[l / 2] >> (4 * (l % 2)); /* 3 of the index, 1 of the delta's sign */
            put_iq1(t, b, r, 8 * l, codebook_iq1[q[l] | (bits & 7) << 8], bits & 8, 32);
        }
        p += 56 * (k == 7);
    }
}

/* n values of a grid of magnitudes, those with their bit set in signs negative. */
static void put_signed(struct mm_tile *t, uint32_t b, uint32_t r, uint32_t i, uint64_t grid, uint32_t n, uint32_t signs,
                       int zero)
{
    for (uint32_t k = 0; k < n; k++) {
        int v = (int)(grid >> (8 * k) & 255);
        put(t, b, r, i + k, signs >> k & 1 ? zero - v : zero + v);
    }
}

static void row_iq2_xxs(const uint8_t *p, uint32_t n, uint32_t r, struct mm_tile *t)
{
    for (uint32_t b = 0; b < n; b++) {
        uint32_t k = b % 8, aux = le32(p + 2 + 8 * k + 4);
        t->d[b][0][r] = half_at(p) * 0.125f * (float)(2 * (aux >> 28) + 1);
        for (uint32_t l = 0; l < 4; l++)
            put_signed(t, b, r, 8 * l, codebook_iq2xxs[p[2 + 8 * k + l]], 8, codebook_signs[aux >> (7 * l) & 127], 128);
        p += 66 * (k == 7);
    }
}

static void put_iq2_scales(struct mm_tile *t, uint32_t b, uint32_t r, float d, uint32_t nibbles)
{
    for (uint32_t h = 0; h < 2; h++)
        t->d[b][h][r] = d * 0.125f * (float)(2 * (nibbles >> (4 * h) & 15) + 1);
}

static void row_iq2_xs(const uint8_t *p, uint32_t n, uint32_t r, struct mm_tile *t)
{
    for (uint32_t b = 0; b < n; b++) {
        uint32_t k = b % 8;
        put_iq2_scales(t, b, r, half_at(p), p[66 + k]);
        for (uint32_t l = 0; l < 4; l++) {
            uint32_t q = le16(p + 2 + 8 * k + 2 * l);
            put_signed(t, b, r, 8 * l, codebook_iq2xs[q & 511], 8, codebook_signs[q >> 9], 64);
        }
        p += 74 * (k == 7);
    }
}

static void row_iq2_s(const uint8_t *p, uint32_t n, uint32_t r, struct mm_tile *t)
{
    for (uint32_t b = 0; b < n; b++) {
        uint32_t k = b % 8, high = p[66 + k];
        const uint8_t *q = p + 2 + 4 * k, *signs = p + 34 + 4 * k;
        put_iq2_scales(t, b, r, half_at(p), p[74 + k]);
        for (uint32_t l = 0; l < 4; l++)
            put_signed(t, b, r, 8 * l, codebook_iq2s[q[l] | (high >> (2 * l) & 3) << 8], 8, signs[l], 64);
        p += 82 * (k == 7);
    }
}

static void row_iq3_xxs(const uint8_t *p, uint32_t n, uint32_t r, struct mm_tile *t)
{
    for (uint32_t b = 0; b < n; b++) {
        uint32_t k = b % 8, aux = le32(p + 66 + 4 * k);
        const uint8_t *q = p + 2 + 8 * k;
        t->d[b][0][r] = half_at(p) * 0.25f * (float)(2 * (aux >> 28) + 1);
        for (uint32_t l = 0; l < 8; l++) {
            uint32_t signs = codebook_signs[aux >> (7 * (l / 2)) & 127] >> (4 * (l % 2));
            put_signed(t, b, r, 4 * l, codebook_iq3xxs[q[l]], 4, signs, 128);
        }
        p += 98 * (k == 7);
    }
}

static void row_iq3_s(const uint8_t *p, uint32_t n, uint32_t r, struct mm_tile *t)
{
    for (uint32_t b = 0; b < n; b++) {
        uint32_t k = b % 8, high = p[66 + k], scale = (uint32_t)p[106 + k / 2] >> (4 * (k % 2)) & 15;
        const uint8_t *q = p + 2 + 8 * k, *signs = p + 74 + 4 * k;
        t->d[b][0][r] = half_at(p) * (float)(2 * scale + 1);
        for (uint32_t l = 0; l < 8; l++)
            put_signed(t, b, r, 4 * l, codebook_iq3s[q[l] | (high >> l & 1) << 8], 4, (uint32_t)signs[l / 2] >> (4 * (l % 2)), 16);
        p += 110 * (k == 7);
    }
}

static void row_iq4_xs(const uint8_t *p, uint32_t n, uint32_t r, struct mm_tile *t)
{
    for (uint32_t b = 0; b < n; b++) {
        uint32_t k = b % 8;
        uint32_t scale = ((uint32_t)p[4 + k / 2] >> (4 * (k % 2)) & 15) | (le16(p + 2) >> (2 * k) & 3) << 4;
        t->d[b][0][r] = half_at(p) * (float)((int)scale - 32);
        put_nibbles_lut(t, b, r, p + 8 + 16 * k, codebook_iq4nl, 128);
        p += 136 * (k == 7);
    }
}

/* ---- ternary: 256 inputs, values -1, 0, 1 ---- */

/* The n-th ternary digit of a byte that holds a fraction in base 3. */
static int trit(uint32_t byte, uint32_t n)
{
    static const uint8_t pow3[5] = {1, 3, 9, 27, 81};
    return (int)((byte * pow3[n] & 255) * 3 >> 8);
}

/* Inputs 0..159: digit by digit over bytes 0..31; 160..239: over bytes 32..47; 240..255: over the 4 bytes after. */
static void row_tq1_0(const uint8_t *p, uint32_t n, uint32_t r, struct mm_tile *t)
{
    for (uint32_t b = 0; b < n; b++) {
        uint32_t k = b % 8;
        t->d[b][0][r] = half_at(p + 52);
        for (uint32_t i = 0; i < 32; i++) {
            uint32_t e = 32 * k + i;
            int q = e < 160   ? trit(p[e % 32], e / 32)
                    : e < 240 ? trit(p[32 + e % 16], (e - 160) / 16)
                              : trit(p[48 + e % 4], (e - 240) / 4);
            put(t, b, r, i, q + 7);
        }
        p += 54 * (k == 7);
    }
}

static void row_tq2_0(const uint8_t *p, uint32_t n, uint32_t r, struct mm_tile *t)
{
    for (uint32_t b = 0; b < n; b++) {
        uint32_t k = b % 8;
        const uint8_t *q = p + 32 * (k / 4);
        t->d[b][0][r] = half_at(p + 64);
        for (uint32_t i = 0; i < 32; i++)
            put(t, b, r, i, (q[i] >> (2 * (k % 4)) & 3) + 7);
        p += 66 * (k == 7);
    }
}

/* 64 inputs: d, then 2 bits each, four to a byte; values -1 .. 2. */
static void row_q2_0(const uint8_t *p, uint32_t n, uint32_t r, struct mm_tile *t)
{
    for (uint32_t b = 0; b < n; b++) {
        const uint8_t *q = p + 2 + 8 * (b % 2);
        t->d[b][0][r] = half_at(p);
        for (uint32_t i = 0; i < 32; i++)
            put(t, b, r, i, (q[i / 4] >> (2 * (i % 4)) & 3) + 7);
        p += 18 * (b % 2);
    }
}

#define MM_DEFINE(id, name, class, v)                                                                                     \
    void mm_decode_##name##_scalar(const uint8_t *w, uint64_t row_bytes, uint32_t n_block, struct mm_tile *t)          \
    {                                                                                                                  \
        for (uint32_t r = 0; r < MM_TILE_ROWS; r++)                                                                    \
            row_##name(w + r * row_bytes, n_block, r, t);                                                              \
    }
MM_TYPES(MM_DEFINE, )
