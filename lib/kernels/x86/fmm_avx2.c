/* Products with float weights on 8 lanes: two registers are the 16 partials of one output. Tiles of 2 rows x 3 columns convert the
 * weights inside the loop; one column takes 4 rows. */
#include "kernels/vec.h"

#include <immintrin.h>
#include <string.h>

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif
#define INLINE static inline __attribute__((always_inline))

#define MAX_R 4
#define MAX_C 3
#define COL_BLOCK_BYTES 196608u /* of x: to stay in the second-level cache while the rows pass */

enum kind { F32, F16, BF16 };

INLINE __m256 load(const uint8_t *row, uint32_t i, enum kind kind)
{
    if (kind == F32)
        return _mm256_loadu_ps((const float *)(const void *)(row + (size_t)i * 4));
    __m128i h = _mm_loadu_si128((const __m128i *)(const void *)(row + (size_t)i * 2));
    if (kind == F16)
        return _mm256_cvtph_ps(h);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

/* The tree's steps + 8 and + 4. */
INLINE __m128 fold(__m256 lo, __m256 hi)
{
    __m256 a = _mm256_add_ps(lo, hi);
    return _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
}

INLINE float sum(__m256 lo, __m256 hi)
{
    __m128 b = fold(lo, hi);
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}

/* The last n_in % 16 inputs, zeros behind them. */
INLINE void tail(const struct fmm_args *a, enum kind kind, const uint8_t *const *w, const float *const *x,
                 __m256 (*acc)[MAX_C][2], int R, int C)
{
    uint32_t full = a->n_in & ~15u, n = a->n_in - full;
    uint8_t wb[64];
    float xb[MAX_C][16];
    size_t elem = kind == F32 ? 4 : 2;
    memset(xb, 0, sizeof xb);
    for (int c = 0; c < C; c++)
        memcpy(xb[c], x[c] + full, n * sizeof(float));
    UNROLL
    for (int r = 0; r < R; r++) {
        memset(wb, 0, sizeof wb);
        memcpy(wb, w[r] + full * elem, n * elem);
        __m256 v0 = load(wb, 0, kind), v1 = load(wb, 8, kind);
        UNROLL
        for (int c = 0; c < C; c++) {
            acc[r][c][0] = _mm256_fmadd_ps(v0, _mm256_loadu_ps(xb[c]), acc[r][c][0]);
            acc[r][c][1] = _mm256_fmadd_ps(v1, _mm256_loadu_ps(xb[c] + 8), acc[r][c][1]);
        }
    }
}

/* R rows x C columns. */
INLINE void tile(const struct fmm_args *a, enum kind kind, uint32_t row, uint32_t col, int R, int C)
{
    const uint8_t *w[MAX_R];
    const float *x[MAX_C];
    __m256 acc[MAX_R][MAX_C][2];
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
            acc[r][c][0] = acc[r][c][1] = _mm256_setzero_ps();
    }
    uint32_t full = a->n_in & ~15u;
    for (uint32_t i = 0; i < full; i += 16) {
        UNROLL
        for (int h = 0; h < 2; h++) {
            __m256 v[MAX_R];
            UNROLL
            for (int r = 0; r < R; r++)
                v[r] = load(w[r], i + 8 * (uint32_t)h, kind);
            UNROLL
            for (int c = 0; c < C; c++) {
                __m256 xc = _mm256_loadu_ps(x[c] + i + 8 * h);
                UNROLL
                for (int r = 0; r < R; r++)
                    acc[r][c][h] = _mm256_fmadd_ps(v[r], xc, acc[r][c][h]);
            }
        }
    }
    if (full < a->n_in)
        tail(a, kind, w, x, acc, R, C);
    UNROLL
    for (int c = 0; c < C; c++) {
        float *y = a->y + (col + (uint32_t)c) * a->y_stride + row;
        UNROLL
        for (int r = 0; r < R; r++)
            y[r] = sum(acc[r][c][0], acc[r][c][1]);
    }
}

/* Columns [col, end) of all rows. */
INLINE void columns(const struct fmm_args *a, enum kind kind, uint32_t col, uint32_t end)
{
    uint32_t r = a->row0;
    if (end - col == 1)
        for (; a->row1 - r >= 4; r += 4)
            tile(a, kind, r, col, 4, 1);
    for (; a->row1 - r >= 2; r += 2) {
        uint32_t c = col;
        for (; end - c >= 3 && end - c != 4; c += 3)
            tile(a, kind, r, c, 2, 3);
        for (; end - c >= 2; c += 2)
            tile(a, kind, r, c, 2, 2);
        if (c < end)
            tile(a, kind, r, c, 2, 1);
    }
    for (; r < a->row1; r++)
        for (uint32_t c = col; c < end; c++)
            tile(a, kind, r, c, 1, 1);
}

INLINE void matmul(const struct fmm_args *a, enum kind kind)
{
    uint64_t fit = COL_BLOCK_BYTES / ((uint64_t)a->n_in * 4 + 1) / MAX_C * MAX_C;
    uint32_t most = fit < MAX_C ? MAX_C : (uint32_t)fit;
    for (uint32_t c = 0; c < a->n_col;) {
        uint32_t n = a->n_col - c < most ? a->n_col - c : most;
        columns(a, kind, c, c + n);
        c += n;
    }
}

void vec_matmul_f32_avx2(const struct fmm_args *a)
{
    matmul(a, F32);
}

void vec_matmul_f16_avx2(const struct fmm_args *a)
{
    matmul(a, F16);
}

void vec_matmul_bf16_avx2(const struct fmm_args *a)
{
    matmul(a, BF16);
}
