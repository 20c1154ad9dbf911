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
#define CHUNK 640u   /* inputs: 6 columns of them (15 KiB) stay in the first-level cache while the rows pass */
#define ROW_BLOCK 64u /* rows whose weights stay in the second-level cache while the columns pass */

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

/* Where accumulators wait between chunks: one tile of 4 rows and MAX_C columns. */
struct waiting {
    __m512 acc[4][MAX_C];
};

/* Inputs [i0, i1) of R rows x C columns: R is 8, 4 or 1. `mem` is needed unless i0 is 0 and i1 is n_in. */
INLINE void tile(const struct fmm_args *a, enum kind kind, uint32_t row, uint32_t col, uint32_t i0, uint32_t i1,
                 struct waiting *mem, int R, int C)
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
            acc[r][c] = i0 ? mem->acc[r][c] : _mm512_setzero_ps();
    }
    uint32_t full = i1 & ~15u;
    for (uint32_t i = i0; i < full; i += 16) {
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
    if (i1 < a->n_in) {
        UNROLL
        for (int r = 0; r < R; r++) {
            UNROLL
            for (int c = 0; c < C; c++)
                mem->acc[r][c] = acc[r][c];
        }
        return;
    }
    if (full < i1) {
        __mmask16 m = (__mmask16)((1u << (i1 & 15)) - 1);
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

/* n_row rows (a multiple of 4) x C columns, chunk by chunk. */
INLINE void block(const struct fmm_args *a, enum kind kind, uint32_t row, uint32_t n_row, uint32_t col, int C)
{
    struct waiting mem[ROW_BLOCK / 4];
    uint32_t n_chunk = (a->n_in - 1) / CHUNK + 1, chunk = ((a->n_in - 1) / n_chunk + 16) & ~15u; /* of even lengths */
    for (uint32_t i = 0; i < a->n_in; i += chunk) {
        uint32_t end = a->n_in - i > chunk ? i + chunk : a->n_in;
        for (uint32_t r = 0; r < n_row; r += 4)
            tile(a, kind, row + r, col, i, end, &mem[r / 4], 4, C);
        if (end == a->n_in)
            break;
    }
}

INLINE void block_of(const struct fmm_args *a, enum kind kind, uint32_t row, uint32_t n_row, uint32_t col, uint32_t n_col)
{
    switch (n_col) {
    case 1: block(a, kind, row, n_row, col, 1); break;
    case 2: block(a, kind, row, n_row, col, 2); break;
    case 3: block(a, kind, row, n_row, col, 3); break;
    case 4: block(a, kind, row, n_row, col, 4); break;
    case 5: block(a, kind, row, n_row, col, 5); break;
    default: block(a, kind, row, n_row, col, 6); break;
    }
}

INLINE void matmul(const struct fmm_args *a, enum kind kind)
{
    uint32_t row = a->row0;
    if (a->n_col == 1)
        for (; a->row1 - row >= 8; row += 8)
            tile(a, kind, row, 0, 0, a->n_in, NULL, 8, 1);
    while (a->row1 - row >= 4) {
        uint32_t left = a->row1 - row, n_row = left < ROW_BLOCK ? left & ~3u : ROW_BLOCK;
        for (uint32_t col = 0; col < a->n_col;) {
            uint32_t todo = a->n_col - col, n = todo >= 12 ? 6 : todo > 6 ? (todo + 1) / 2 : todo;
            block_of(a, kind, row, n_row, col, n);
            col += n;
        }
        row += n_row;
    }
    for (; row < a->row1; row++)
        for (uint32_t col = 0; col < a->n_col; col++)
            tile(a, kind, row, col, 0, a->n_in, NULL, 1, 1);
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
