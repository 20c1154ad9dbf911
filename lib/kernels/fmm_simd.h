/* Products with float weights in vectors of any width: the text of x86/fmm_avx2.c, x86/fmm_avx512.c and arm/fmm_neon.c, which define before they
 * include it
 *
 *   NAME(x)              x with the variant's suffix
 *   LANES, VF            lanes (16, 8 or 4) and type of a vector of f32: 16 / LANES vectors hold the partials of one output
 *   V_ZERO, V_LOAD, V_STORE (aligned or not), V_FMA
 *   V_LOAD_F16, V_LOAD_BF16 (p): LANES elements widened
 *   V_SUM_4(dst, p)      dst[r] = the tree over p[r * 16 .. + 16], r < 4
 *   TILE_COLS            columns of a tile: 4 * TILE_COLS accumulators, TILE_COLS inputs and a weight fit the registers
 *   FEW_COLS, FEW_ROWS   the tile of the direct form: with all partials of its outputs in registers
 *   ONE_ROWS             its rows for one column
 *
 * Few columns: a tile of rows widens its weights on the way to the multiplications; each is read once.
 *
 * More columns: PANEL rows are widened a CHUNK of inputs at a time into scratch that stays in the first-level cache, and every column of a
 * block passes over it, in tiles of 4 rows. A tile's partials wait in scratch between chunks. A block has as many columns as keep their inputs
 * in the second-level cache; where rows are so long that few would, inputs are cut into spans (all rows of the call pass over one span
 * before the next), and the partials of all rows wait. */
#include <string.h>

#include "kernels/vec.h"

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif
#define INLINE static inline __attribute__((always_inline))

enum {
    PARTS = 16 / LANES, /* vectors of one output */
    TILE_ROWS = 4,
    PANEL = 8,          /* rows */
    CHUNK = 512,        /* inputs, most: a panel of them takes 16 KiB */
    TOUCH_STEPS = 8,
    BLOCK_COLS = FMM_COLS,
    SPAN_FLOATS = 196608, /* inputs of a block of columns: 768 KiB */
    WAITING = FMM_SCRATCH_BYTES / sizeof(float) - PANEL * CHUNK, /* floats: the partials that wait */
};

enum kind { F32, F16, BF16 };

INLINE size_t size_of(enum kind kind)
{
    return kind == F32 ? 4 : 2;
}

/* LANES weights from input i on; the row may be unaligned. */
INLINE VF weights(const uint8_t *row, size_t i, enum kind kind)
{
    const void *p = row + i * size_of(kind);
    return kind == F32 ? V_LOAD((const float *)p) : kind == F16 ? V_LOAD_F16((const uint16_t *)p) : V_LOAD_BF16((const uint16_t *)p);
}

/* Into the second-level cache; any address will do. */
INLINE void touch(uintptr_t p)
{
    __builtin_prefetch((const void *)p, 0, 2);
}

/* ---- few columns */

/* Inputs i .. i + 15. */
INLINE void few_step(const uint8_t *const *w, const float *const *x, size_t i, enum kind kind, VF (*acc)[FEW_COLS][PARTS], int R, int C)
{
    UNROLL
    for (size_t h = 0; h < PARTS; h++) {
        VF v[ONE_ROWS];
        UNROLL
        for (int r = 0; r < R; r++)
            v[r] = weights(w[r], i + h * LANES, kind);
        UNROLL
        for (int c = 0; c < C; c++) {
            VF xc = V_LOAD(x[c] + i + h * LANES);
            UNROLL
            for (int r = 0; r < R; r++)
                acc[r][c][h] = V_FMA(v[r], xc, acc[r][c][h]);
        }
    }
}

/* The last n_in % 16 inputs, zeros behind them. */
INLINE void few_tail(const struct fmm_args *a, const uint8_t *const *w, const float *const *x, enum kind kind,
                     VF (*acc)[FEW_COLS][PARTS], int R, int C)
{
    uint32_t full = a->n_in & ~15u, n = a->n_in - full;
    uint8_t wb[ONE_ROWS][64] = {{0}};
    float xb[FEW_COLS][16] = {{0}};
    const uint8_t *wp[ONE_ROWS];
    const float *xp[FEW_COLS];
    UNROLL
    for (int r = 0; r < R; r++) {
        memcpy(wb[r], w[r] + full * size_of(kind), n * size_of(kind));
        wp[r] = wb[r];
    }
    UNROLL
    for (int c = 0; c < C; c++) {
        memcpy(xb[c], x[c] + full, n * sizeof(float));
        xp[c] = xb[c];
    }
    few_step(wp, xp, 0, kind, acc, R, C);
}

/* R rows x C columns; asks for the same inputs of the R rows behind them, a line of each at a time between the loads. */
INLINE void few_tile(const struct fmm_args *a, uint32_t row, enum kind kind, int R, int C)
{
    const uint8_t *w[ONE_ROWS];
    const float *x[FEW_COLS];
    VF acc[ONE_ROWS][FEW_COLS][PARTS];
    UNROLL
    for (int r = 0; r < R; r++)
        w[r] = (const uint8_t *)a->w + (row + (uint32_t)r) * a->row_bytes;
    UNROLL
    for (int c = 0; c < C; c++)
        x[c] = a->x + (uint32_t)c * a->x_stride;
    UNROLL
    for (int r = 0; r < R; r++) {
        UNROLL
        for (int c = 0; c < C; c++) {
            UNROLL
            for (int h = 0; h < PARTS; h++)
                acc[r][c][h] = V_ZERO();
        }
    }
    const size_t line = 64 / size_of(kind), full = a->n_in & ~15u;
    const uint64_t ahead = (uint64_t)R * a->row_bytes;
    for (size_t i = 0; i < full; i += 16) {
        if (R == ONE_ROWS || R == FEW_ROWS) {
            if (i % line == 0) {
                UNROLL
                for (int r = 0; r < R; r++)
                    touch((uintptr_t)w[r] + ahead + i * size_of(kind));
            }
        }
        few_step(w, x, i, kind, acc, R, C);
    }
    if (full < a->n_in)
        few_tail(a, w, x, kind, acc, R, C);
    for (int c = 0; c < C; c++) {
        float p[ONE_ROWS + 3][16], sums[ONE_ROWS + 3], *y = a->y + (uint32_t)c * a->y_stride + row;
        UNROLL
        for (int r = 0; r < R; r++) {
            UNROLL
            for (int h = 0; h < PARTS; h++)
                V_STORE(p[r] + h * LANES, acc[r][c][h]);
        }
        for (int r = R; r % 4; r++)
            memset(p[r], 0, sizeof p[r]);
        for (int r = 0; r < R; r += 4)
            V_SUM_4(sums + r, p[r]);
        memcpy(y, sums, (size_t)R * sizeof *y);
    }
}

INLINE void few_rows(const struct fmm_args *a, enum kind kind, int R, int C)
{
    uint32_t r = a->row0;
    for (; a->row1 - r >= (uint32_t)R; r += (uint32_t)R)
        few_tile(a, r, kind, R, C);
    for (; r < a->row1; r++)
        few_tile(a, r, kind, 1, C);
}

INLINE void few_columns(const struct fmm_args *a, enum kind kind)
{
    switch (a->n_col) {
    case 1: few_rows(a, kind, ONE_ROWS, 1); break;
    case 2: few_rows(a, kind, FEW_ROWS, 2); break;
#if FEW_COLS > 3
    case 3: few_rows(a, kind, FEW_ROWS, 3); break;
    case 4: few_rows(a, kind, FEW_ROWS, 4); break;
    case 5: few_rows(a, kind, FEW_ROWS, 5); break;
#endif
    default: few_rows(a, kind, FEW_ROWS, FEW_COLS); break;
    }
}

/* ---- many columns */

/* Inputs [i, i + n) of 4 rows to dst [n / 16, rounded up][4][16], zeros behind the last. */
INLINE void widen(const uint8_t *const *w, size_t i, uint32_t n, enum kind kind, float *dst)
{
    uint32_t full = n & ~15u;
    for (uint32_t k = 0; k < full; k += 16) {
        UNROLL
        for (size_t r = 0; r < TILE_ROWS; r++) {
            UNROLL
            for (size_t h = 0; h < PARTS; h++)
                V_STORE(dst + 4 * k + 16 * r + h * LANES, weights(w[r], i + k + h * LANES, kind));
        }
    }
    for (size_t r = 0; full < n && r < TILE_ROWS; r++) {
        uint8_t b[64] = {0};
        memcpy(b, w[r] + (i + full) * size_of(kind), (n - full) * size_of(kind));
        for (size_t h = 0; h < PARTS; h++)
            V_STORE(dst + 4 * full + 16 * r + h * LANES, weights(b, h * LANES, kind));
    }
}

/* Asks for `left` lines of some rows, `each` at every TOUCH_STEPS-th step of a tile: requests in a burst wait for each other. */
struct toucher {
    uintptr_t at, end; /* in a row */
    uint64_t skip;     /* from the end of a row to the start of the next */
    uint64_t row_bytes;
    uint32_t each, left;
};

INLINE void touch_some(struct toucher *t)
{
    for (uint32_t n = t->each < t->left ? t->each : t->left; n; n--) {
        touch(t->at);
        t->at += 64;
        t->left--;
        if (t->at >= t->end) {
            t->at = t->end + t->skip;
            t->end += t->row_bytes;
        }
    }
}

/* acc [C][4][16] += w [n_step][4][16] times x [C][n_step * 16]. */
INLINE void tile_steps(const float *w, const float *x, size_t x_stride, uint32_t n_step, float *acc, int first, struct toucher *t, int C)
{
    for (size_t h = 0; h < PARTS; h++) {
        VF s[TILE_COLS][TILE_ROWS];
        float *p = acc + h * LANES;
        const float *v = w + h * LANES, *xc[TILE_COLS];
        UNROLL
        for (int c = 0; c < C; c++) {
            xc[c] = x + (uint32_t)c * x_stride + h * LANES;
            UNROLL
            for (int r = 0; r < TILE_ROWS; r++)
                s[c][r] = first ? V_ZERO() : V_LOAD(p + 64 * c + 16 * r);
        }
        for (size_t k = 0; k < n_step; k++) {
            if (h == 0 && k % TOUCH_STEPS == 0)
                touch_some(t);
            VF xk[TILE_COLS];
            UNROLL
            for (int c = 0; c < C; c++)
                xk[c] = V_LOAD(xc[c] + 16 * k);
            UNROLL
            for (int r = 0; r < TILE_ROWS; r++) {
                VF vr = V_LOAD(v + 64 * k + 16 * r);
                UNROLL
                for (int c = 0; c < C; c++)
                    s[c][r] = V_FMA(vr, xk[c], s[c][r]);
            }
        }
        UNROLL
        for (int c = 0; c < C; c++) {
            UNROLL
            for (int r = 0; r < TILE_ROWS; r++)
                V_STORE(p + 64 * c + 16 * r, s[c][r]);
        }
    }
}

#define DEFINE_TILE(C)                                                                                                 \
    static __attribute__((noinline)) void tile_##C(const float *w, const float *x, size_t x_stride, uint32_t n_step,   \
                                                   float *acc, int first, struct toucher *t)                           \
    {                                                                                                                  \
        tile_steps(w, x, x_stride, n_step, acc, first, t, C);                                                            \
    }
DEFINE_TILE(1)
DEFINE_TILE(2)
DEFINE_TILE(3)
#if TILE_COLS > 3
DEFINE_TILE(4)
DEFINE_TILE(5)
DEFINE_TILE(6)
#endif

typedef void tile_fn(const float *w, const float *x, size_t x_stride, uint32_t n_step, float *acc, int first, struct toucher *t);
static tile_fn *const tiles[TILE_COLS] = {
    tile_1, tile_2, tile_3,
#if TILE_COLS > 3
    tile_4, tile_5, tile_6,
#endif
};

/* Columns [col, col + n) of a call by 4 rows of a chunk: n_in inputs from x on. */
static void tile(const float *w, const float *x, size_t x_stride, uint32_t n_in, float *acc, int first, struct toucher *t, uint32_t n)
{
    if (n_in >= 16)
        tiles[n - 1](w, x, x_stride, n_in / 16, acc, first, t);
    if (n_in % 16 == 0)
        return;
    float last[TILE_COLS][16] = {{0}};
    uint32_t full = n_in & ~15u;
    for (uint32_t c = 0; c < n; c++)
        memcpy(last[c], x + c * x_stride + full, (n_in - full) * sizeof(float));
    tiles[n - 1](w + 4 * full, last[0], 16, 1, acc, first && !full, t);
}

/* Rows x columns of a call, and its scratch. */
struct block {
    const struct fmm_args *a;
    uint32_t row, n_row, col, n_col, n_group; /* groups of columns, of even widths */
    float *w;       /* [PANEL / 4][CHUNK / 16][4][16] */
    float *waiting; /* [PANEL / 4][n_group][TILE_COLS][4][16] of one panel, or of every panel when inputs are cut into spans */
};

/* The rows of one half of a panel; absent ones repeat the last, and are not stored. */
INLINE void rows_of(const struct block *b, uint32_t row, const uint8_t *w[TILE_ROWS])
{
    uint32_t last = b->row + b->n_row - 1;
    for (uint32_t r = 0; r < TILE_ROWS; r++)
        w[r] = (const uint8_t *)b->a->w + (row + r < last ? row + r : last) * b->a->row_bytes;
}

/* n columns from c on. */
INLINE void store_sums(const struct block *b, uint32_t row, uint32_t c, uint32_t n, const float *acc)
{
    uint32_t left = b->row + b->n_row - row;
    float *y = b->a->y + (b->col + c) * b->a->y_stride + row;
    for (; n && left >= 4; n--, acc += 64, y += b->a->y_stride)
        V_SUM_4(y, acc);
    for (; n; n--, acc += 64, y += b->a->y_stride) {
        float sums[4];
        V_SUM_4(sums, acc);
        memcpy(y, sums, left * sizeof *sums);
    }
}

/* Inputs [i, i + n) of a panel's rows by all columns of the block. `next` is where the inputs after them lie (of this panel or the next):
 * they are asked for meanwhile. */
INLINE void panel(const struct block *b, uint32_t row, uint32_t i, uint32_t n, uintptr_t next, enum kind kind, float *waiting)
{
    const struct fmm_args *a = b->a;
    uint32_t left = b->row + b->n_row - row, n_tile = ((left < PANEL ? left : PANEL) + TILE_ROWS - 1) / TILE_ROWS, bytes = n * (uint32_t)size_of(kind);
    uint32_t lines = PANEL * ((bytes - 1) / 64 + 1), times = n_tile * b->n_group * ((n - 1) / (16 * TOUCH_STEPS) + 1);
    struct toucher t = {next, next + bytes, a->row_bytes - bytes, a->row_bytes, (lines - 1) / times + 1, lines};
    for (uint32_t q = 0; q < n_tile; q++) {
        const uint8_t *w[TILE_ROWS];
        rows_of(b, row + q * TILE_ROWS, w);
        widen(w, i, n, kind, b->w + q * TILE_ROWS * CHUNK);
    }
    uint32_t wide = b->n_col / b->n_group, wider = b->n_col % b->n_group; /* that many groups have one column more */
    for (uint32_t g = 0, c = 0; g < b->n_group; g++) {
        uint32_t n_col = wide + (g < wider);
        const float *x = a->x + (b->col + c) * a->x_stride + i;
        for (uint32_t q = 0; q < n_tile; q++) {
            float *acc = waiting + (q * b->n_group + g) * TILE_COLS * 64;
            tile(b->w + q * TILE_ROWS * CHUNK, x, a->x_stride, n, acc, i == 0, &t, n_col);
            if (i + n == a->n_in)
                store_sums(b, row + q * TILE_ROWS, c, n_col, acc);
        }
        c += n_col;
    }
}

/* Inputs are cut into chunks of even lengths; `span` of them at a time. */
INLINE void block(const struct block *b, enum kind kind)
{
    const struct fmm_args *a = b->a;
    uint32_t n_chunk = (a->n_in - 1) / CHUNK + 1, len = ((a->n_in - 1) / n_chunk + 16) & ~15u;
    uint32_t span = SPAN_FLOATS / CHUNK / b->n_col;
    span = span < n_chunk ? span : n_chunk;
    size_t panel_floats = span < n_chunk ? (size_t)PANEL / 4 * b->n_group * TILE_COLS * 64 : 0;
    for (uint32_t i0 = 0; i0 < a->n_in; i0 += span * len) {
        uint32_t i1 = a->n_in - i0 > span * len ? i0 + span * len : a->n_in;
        for (uint32_t row = b->row; row < b->row + b->n_row; row += PANEL) {
            float *waiting = b->waiting + (row - b->row) / PANEL * panel_floats;
            const uintptr_t here = (uintptr_t)a->w + row * a->row_bytes;
            for (uint32_t i = i0; i < i1; i += len) {
                uint32_t n = i1 - i < len ? i1 - i : len;
                uintptr_t next = i + n < i1 ? here + (i + n) * size_of(kind) : here + PANEL * a->row_bytes + i0 * size_of(kind);
                panel(b, row, i, n, next, kind, waiting);
            }
        }
    }
}

INLINE void many_columns(const struct fmm_args *a, enum kind kind)
{
    uint32_t n_block = (a->n_col - 1) / BLOCK_COLS + 1;
    for (uint32_t k = 0; k < n_block; k++) {
        uint32_t col = (uint32_t)((uint64_t)a->n_col * k / n_block), end = (uint32_t)((uint64_t)a->n_col * (k + 1) / n_block);
        struct block b = {.a = a, .col = col, .n_col = end - col, .n_group = (end - col - 1) / TILE_COLS + 1, .w = a->scratch};
        b.waiting = b.w + PANEL * CHUNK;
        uint32_t most = WAITING / (b.n_group * TILE_COLS * 16) / PANEL * PANEL;
        for (b.row = a->row0; b.row < a->row1; b.row += b.n_row) {
            b.n_row = a->row1 - b.row < most ? a->row1 - b.row : most;
            block(&b, kind);
        }
    }
}

INLINE void matmul(const struct fmm_args *a, enum kind kind)
{
    if (a->n_col <= FEW_COLS)
        few_columns(a, kind);
    else
        many_columns(a, kind);
}

void NAME(vec_matmul_f32)(const struct fmm_args *a)
{
    matmul(a, F32);
}

void NAME(vec_matmul_f16)(const struct fmm_args *a)
{
    matmul(a, F16);
}

void NAME(vec_matmul_bf16)(const struct fmm_args *a)
{
    matmul(a, BF16);
}
