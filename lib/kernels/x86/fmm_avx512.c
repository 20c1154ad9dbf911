/* Products with float weights on 16 lanes: one register is the 16 partials of one output. Tiles of 4 rows x 6 columns convert the
 * weights inside the loop; one column takes 8 rows, so that the fma latency is hidden. */
#include "kernels/vec.h"

#include <immintrin.h>

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif
#define INLINE static inline __attribute__((always_inline))

#define MAX_R 8
#define MAX_C 6
#define COL_BLOCK_BYTES 393216u /* of x: to stay in the second-level cache while the rows pass */

enum kind { F32, F16, BF16 };

INLINE __m512 load(const uint8_t *row, uint32_t i, enum kind kind)
{
    if (kind == F32)
        return _mm512_loadu_ps(row + (size_t)i * 4);
    __m256i h = _mm256_loadu_si256((const __m256i *)(const void *)(row + (size_t)i * 2));
    if (kind == F16)
        return _mm512_cvtph_ps(h);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

INLINE __m512 load_mask(const uint8_t *row, uint32_t i, __mmask16 m, enum kind kind)
{
    if (kind == F32)
        return _mm512_maskz_loadu_ps(m, row + (size_t)i * 4);
    __m256i h = _mm256_maskz_loadu_epi16(m, row + (size_t)i * 2);
    if (kind == F16)
        return _mm512_cvtph_ps(h);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

/* Four trees at once: + 8, + 4, + 2, + 1 in each. */
INLINE __m128 sum4(__m512 a, __m512 b, __m512 c, __m512 d)
{
    __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
    __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xEE));
    __m512 t = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xDD));
    t = _mm512_add_ps(t, _mm512_permute_ps(t, 0x4E));
    t = _mm512_add_ps(t, _mm512_permute_ps(t, 0xB1));
    /* the first lane of each quarter */
    return _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, t));
}

/* R rows x C columns: R is 8, 4 or 1. */
INLINE void tile(const struct fmm_args *a, enum kind kind, uint32_t row, uint32_t col, int R, int C)
{
    const uint8_t *w[MAX_R];
    const float *x[MAX_C];
    __m512 acc[MAX_R][MAX_C];
    UNROLL
    for (int r = 0; r < R; r++)
        w[r] = (const uint8_t *)a->w + (row + (uint32_t)r) * a->row_bytes;
    UNROLL
    for (int c = 0; c < C; c++)
        x[c] = a->x + (col + (uint32_t)c) * a->x_stride;
    UNROLL
    for (int r = 0; r < R; r++) {
        UNROLL
        for (int c = 0; c < C; c++)
            acc[r][c] = _mm512_setzero_ps();
    }
    uint32_t full = a->n_in & ~15u;
    for (uint32_t i = 0; i < full; i += 16) {
        __m512 v[MAX_R];
        UNROLL
        for (int r = 0; r < R; r++)
            v[r] = load(w[r], i, kind);
        UNROLL
        for (int c = 0; c < C; c++) {
            __m512 xc = _mm512_loadu_ps(x[c] + i);
            UNROLL
            for (int r = 0; r < R; r++)
                acc[r][c] = _mm512_fmadd_ps(v[r], xc, acc[r][c]);
        }
    }
    if (full < a->n_in) {
        __mmask16 m = (__mmask16)((1u << (a->n_in & 15)) - 1);
        UNROLL
        for (int r = 0; r < R; r++) {
            __m512 v = load_mask(w[r], full, m, kind);
            UNROLL
            for (int c = 0; c < C; c++)
                acc[r][c] = _mm512_fmadd_ps(v, _mm512_maskz_loadu_ps(m, x[c] + full), acc[r][c]);
        }
    }
    UNROLL
    for (int c = 0; c < C; c++) {
        float *y = a->y + (col + (uint32_t)c) * a->y_stride + row;
        if (R == 1)
            _mm_store_ss(y, sum4(acc[0][c], acc[0][c], acc[0][c], acc[0][c]));
        if (R >= 4)
            _mm_storeu_ps(y, sum4(acc[0][c], acc[1][c], acc[2][c], acc[3][c]));
        if (R >= 8)
            _mm_storeu_ps(y + 4, sum4(acc[4][c], acc[5][c], acc[6][c], acc[7][c]));
    }
}

INLINE void four_rows(const struct fmm_args *a, enum kind kind, uint32_t row, uint32_t col, uint32_t n)
{
    switch (n) {
    case 1: tile(a, kind, row, col, 4, 1); break;
    case 2: tile(a, kind, row, col, 4, 2); break;
    case 3: tile(a, kind, row, col, 4, 3); break;
    case 4: tile(a, kind, row, col, 4, 4); break;
    case 5: tile(a, kind, row, col, 4, 5); break;
    default: tile(a, kind, row, col, 4, 6); break;
    }
}

/* Columns [col, end) of all rows. */
INLINE void columns(const struct fmm_args *a, enum kind kind, uint32_t col, uint32_t end)
{
    uint32_t r = a->row0;
    if (end - col == 1)
        for (; a->row1 - r >= 8; r += 8)
            tile(a, kind, r, col, 8, 1);
    for (; a->row1 - r >= 4; r += 4) {
        for (uint32_t c = col; c < end;) {
            uint32_t left = end - c, n = left >= 12 ? 6 : left > 6 ? (left + 1) / 2 : left;
            four_rows(a, kind, r, c, n);
            c += n;
        }
    }
    for (; r < a->row1; r++)
        for (uint32_t c = col; c < end; c++)
            tile(a, kind, r, c, 1, 1);
}

INLINE void matmul(const struct fmm_args *a, enum kind kind)
{
    uint64_t fit = a->n_in ? COL_BLOCK_BYTES / ((uint64_t)a->n_in * 4) / MAX_C * MAX_C : a->n_col;
    uint32_t step = fit < MAX_C ? MAX_C : fit > a->n_col ? a->n_col : (uint32_t)fit;
    for (uint32_t c = 0; c < a->n_col; c += step) {
        columns(a, kind, c, a->n_col - c < step ? a->n_col : c + step);
        if (a->n_col - c < step)
            break;
    }
}

void vec_matmul_f32_avx512(const struct fmm_args *a)
{
    matmul(a, F32);
}

void vec_matmul_f16_avx512(const struct fmm_args *a)
{
    matmul(a, F16);
}

void vec_matmul_bf16_avx512(const struct fmm_args *a)
{
    matmul(a, BF16);
}
