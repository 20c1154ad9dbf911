/* Products with float weights on 4 lanes: four registers are the 16 partials of one output. Tiles of 2 rows x 3 columns convert the
 * weights inside the loop; one column takes 4 rows. */
#include "kernels/vec.h"

#include <arm_neon.h>
#include <string.h>

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif
#define INLINE static inline __attribute__((always_inline))

#define MAX_R 4
#define MAX_C 3
#define COL_BLOCK_BYTES 131072u /* of x: to stay in the second-level cache while the rows pass */

enum kind { F32, F16, BF16 };

/* Elements i .. i + 3 of a row that may be unaligned. */
INLINE float32x4_t load(const uint8_t *row, uint32_t i, enum kind kind)
{
    if (kind == F32)
        return vreinterpretq_f32_u8(vld1q_u8(row + (size_t)i * 4));
    uint8x8_t h = vld1_u8(row + (size_t)i * 2);
    if (kind == F16)
        return vcvt_f32_f16(vreinterpret_f16_u8(h));
    return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(h), 16));
}

/* The tree: + 8, + 4, + 2, + 1. */
INLINE float sum(const float32x4_t p[4])
{
    float32x4_t a = vaddq_f32(vaddq_f32(p[0], p[2]), vaddq_f32(p[1], p[3]));
    float32x2_t b = vadd_f32(vget_low_f32(a), vget_high_f32(a));
    return vget_lane_f32(b, 0) + vget_lane_f32(b, 1);
}

/* Inputs i .. i + 15. */
INLINE void step(enum kind kind, const uint8_t *const *w, const float *const *x, uint32_t i, float32x4_t (*acc)[MAX_C][4],
                 int R, int C)
{
    UNROLL
    for (int h = 0; h < 4; h++) {
        float32x4_t v[MAX_R];
        UNROLL
        for (int r = 0; r < R; r++)
            v[r] = load(w[r], i + 4 * (uint32_t)h, kind);
        UNROLL
        for (int c = 0; c < C; c++) {
            float32x4_t xc = vld1q_f32(x[c] + i + 4 * h);
            UNROLL
            for (int r = 0; r < R; r++)
                acc[r][c][h] = vfmaq_f32(acc[r][c][h], v[r], xc);
        }
    }
}

/* The last n_in % 16 inputs, zeros behind them. */
INLINE void tail(const struct fmm_args *a, enum kind kind, const uint8_t *const *w, const float *const *x,
                 float32x4_t (*acc)[MAX_C][4], int R, int C)
{
    uint32_t full = a->n_in & ~15u, n = a->n_in - full;
    uint8_t wb[MAX_R][64] = {{0}};
    float xb[MAX_C][16] = {{0}};
    const uint8_t *wp[MAX_R];
    const float *xp[MAX_C];
    size_t elem = kind == F32 ? 4 : 2;
    UNROLL
    for (int r = 0; r < R; r++) {
        memcpy(wb[r], w[r] + full * elem, n * elem);
        wp[r] = wb[r];
    }
    UNROLL
    for (int c = 0; c < C; c++) {
        memcpy(xb[c], x[c] + full, n * sizeof(float));
        xp[c] = xb[c];
    }
    step(kind, wp, xp, 0, acc, R, C);
}

/* R rows x C columns. */
INLINE void tile(const struct fmm_args *a, enum kind kind, uint32_t row, uint32_t col, int R, int C)
{
    const uint8_t *w[MAX_R];
    const float *x[MAX_C];
    float32x4_t acc[MAX_R][MAX_C][4];
    UNROLL
    for (int r = 0; r < R; r++)
        w[r] = (const uint8_t *)a->w + (row + (uint32_t)r) * a->row_bytes;
    UNROLL
    for (int c = 0; c < C; c++)
        x[c] = a->x + (col + (uint32_t)c) * a->x_stride;
    UNROLL
    for (int r = 0; r < R; r++) {
        UNROLL
        for (int c = 0; c < C; c++) {
            UNROLL
            for (int h = 0; h < 4; h++)
                acc[r][c][h] = vdupq_n_f32(0.0f);
        }
    }
    uint32_t full = a->n_in & ~15u;
    for (uint32_t i = 0; i < full; i += 16)
        step(kind, w, x, i, acc, R, C);
    if (full < a->n_in)
        tail(a, kind, w, x, acc, R, C);
    UNROLL
    for (int c = 0; c < C; c++) {
        float *y = a->y + (col + (uint32_t)c) * a->y_stride + row;
        UNROLL
        for (int r = 0; r < R; r++)
            y[r] = sum(acc[r][c]);
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

void vec_matmul_f32_neon(const struct fmm_args *a)
{
    matmul(a, F32);
}

void vec_matmul_f16_neon(const struct fmm_args *a)
{
    matmul(a, F16);
}

void vec_matmul_bf16_neon(const struct fmm_args *a)
{
    matmul(a, BF16);
}
