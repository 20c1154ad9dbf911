/* The quantised matrix product: y[c][o] = sum over i of x[c][i] * w[o][i], for weights in any block format and f32 activations that
 * are rounded to 8 bits first. Numerics mode EXACT; PRECISE goes through dequant.h and the float product instead.
 *
 * THE BITS. The scalar variant (scalar/mm_scalar.c) defines them and every other equals it, bit for bit, for finite inputs. For one
 * output, over the blocks of 32 inputs in increasing order, one f32 accumulator that begins at +0:
 *
 *   isum = sum over the block of (code - zero) * q          exact integer, |isum| < 2^24
 *   K32:   acc = fma(d * dx, (float)isum, acc)
 *   K32M:  acc = fma(d * dx, (float)isum, acc), then acc = fma(m, dx * (float)sum(q), acc)
 *   K32P:  acc = fma(d * dx, (float)isum, acc), then acc = fma(m * dx, (float)(n0 * sum(q[0..15]) + n1 * sum(q[16..31])), acc)
 *   K16:   acc = fma(d0 * dx, (float)isum of inputs 0..15, acc), then acc = fma(d1 * dx, (float)isum of inputs 16..31, acc)
 *
 * where a weight is d * (code - zero) (+ m, or + m * n with n an integer of its half block), and an activation is dx * q. Which form a
 * format takes, with which zero, is in MM_TYPES; scales and codes per format are documented at its decoder. Nothing depends on the
 * number of columns, on the place of a column or row among others, or on how rows are split among threads.
 *
 * ACTIVATIONS. Per 32: amax = max |x|; d = amax / 127; q = round-to-nearest-even(x * (127 / amax)), in -127 .. 127. When
 * amax < 2^-100 the block is zero: d = 0, all q = 0 (127 / amax would soon overflow). When the block holds an infinity or a NaN: d = NaN, all q = 0, so
 * that every output of the column is NaN. Non-finite scales in the weights likewise give non-finite outputs, whose exact bits are not
 * specified.
 *
 * TILES. A decoder turns 16 rows x up to 512 inputs of any format into one canonical form, struct mm_tile; the dot kernels know only
 * that form. One column and many go through the same arithmetic; `one` only skips the trip through memory.
 *
 * Memory: decoders read exactly the bytes of the rows they are given; weights need no alignment. */
#ifndef KERNELS_MM_H
#define KERNELS_MM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/err.h"

#define MM_TILE_ROWS 16u
#define MM_GROUP_ROWS 64u
#define MM_TILE_BLOCKS 16u /* blocks of 32 inputs in a tile: two tiles fit half of a first-level cache */

/* One block of 32 quantised activations: a cache line. A matrix of n_col columns lies by slices of MM_TILE_BLOCKS blocks, [slice][column][block]
 * (the last slice may be shorter): what a tile needs of all columns is then contiguous. */
struct mm_xblock {
    int8_t q[32];
    float d;       /* dx */
    float dsum;    /* dx * (float)sum(q) */
    int16_t s[2];  /* sums of q[0..15] and q[16..31] */
    int32_t nz[3]; /* -8, -16, -128 times sum(q): where an integer accumulator begins */
    int32_t nz32[2]; /* -32 times s[0], s[1] */
};

struct mm_tile {
    uint8_t codes[MM_TILE_BLOCKS][8][MM_TILE_ROWS][4]; /* [block][group of 4 inputs][row][input] */
    float d[MM_TILE_BLOCKS][2][MM_TILE_ROWS];          /* [1]: K16 alone */
    float m[MM_TILE_BLOCKS][MM_TILE_ROWS];             /* K32M, K32P */
    int16_t n[MM_TILE_BLOCKS][MM_TILE_ROWS][2];        /* K32P */
};

/* The classes of tiles: X(ID, name, form, zero, largest code, v); v is handed through. */
#define MM_CLASSES(X, v)                                                                                               \
    X(MM_K32_Z8, k32_z8, K32, 8, 15, v)                                                                                \
    X(MM_K32_Z16, k32_z16, K32, 16, 31, v)                                                                             \
    X(MM_K32_Z128, k32_z128, K32, 128, 255, v)                                                                         \
    X(MM_K32M, k32m, K32M, 0, 31, v)                                                                                   \
    X(MM_K32P, k32p, K32P, 0, 45, v)                                                                                   \
    X(MM_K16_Z32, k16_z32, K16, 32, 63, v)                                                                             \
    X(MM_K16_Z64, k16_z64, K16, 64, 127, v)

enum mm_class {
#define MM_CLASS_ID(id, name, form, zero, max, v) id,
    MM_CLASSES(MM_CLASS_ID, )
#undef MM_CLASS_ID
    MM_N_CLASSES
};

/* The formats: X(INFER_TYPE_ suffix, name, class, v). */
#define MM_TYPES(X, v)                                                                                                 \
    X(Q4_0, q4_0, MM_K32_Z8, v)                                                                                        \
    X(Q4_1, q4_1, MM_K32M, v)                                                                                          \
    X(Q5_0, q5_0, MM_K32_Z16, v)                                                                                       \
    X(Q5_1, q5_1, MM_K32M, v)                                                                                          \
    X(Q8_0, q8_0, MM_K32_Z128, v)                                                                                      \
    X(Q8_1, q8_1, MM_K32_Z128, v)                                                                                      \
    X(Q2_K, q2_k, MM_K32P, v)                                                                                          \
    X(Q3_K, q3_k, MM_K32_Z128, v)                                                                                      \
    X(Q4_K, q4_k, MM_K32M, v)                                                                                          \
    X(Q5_K, q5_k, MM_K32M, v)                                                                                          \
    X(Q6_K, q6_k, MM_K16_Z32, v)                                                                                       \
    X(Q8_K, q8_k, MM_K32_Z128, v)                                                                                      \
    X(IQ1_S, iq1_s, MM_K32_Z16, v)                                                                                     \
    X(IQ1_M, iq1_m, MM_K16_Z32, v)                                                                                     \
    X(IQ2_XXS, iq2_xxs, MM_K32_Z128, v)                                                                                \
    X(IQ2_XS, iq2_xs, MM_K16_Z64, v)                                                                                   \
    X(IQ2_S, iq2_s, MM_K16_Z64, v)                                                                                     \
    X(IQ3_XXS, iq3_xxs, MM_K32_Z128, v)                                                                                \
    X(IQ3_S, iq3_s, MM_K32_Z16, v)                                                                                     \
    X(IQ4_NL, iq4_nl, MM_K32_Z128, v)                                                                                  \
    X(IQ4_XS, iq4_xs, MM_K32_Z128, v)                                                                                  \
    X(TQ1_0, tq1_0, MM_K32_Z8, v)                                                                                      \
    X(TQ2_0, tq2_0, MM_K32_Z8, v)                                                                                      \
    X(MXFP4, mxfp4, MM_K32_Z16, v)                                                                                     \
    X(NVFP4, nvfp4, MM_K16_Z32, v)                                                                                     \
    X(Q1_0, q1_0, MM_K32_Z8, v)                                                                                        \
    X(Q2_0, q2_0, MM_K32_Z8, v)

/* 16 rows whose bytes begin at w, row_bytes apart, to rows 0..15 of the tile's blocks 0 .. n_block - 1. n_block * 32 is a multiple of the format's
 * block, n_block <= MM_TILE_BLOCKS. Fields that the class does not use are left alone. */
typedef void (*mm_decode_fn)(const uint8_t *w, uint64_t row_bytes, uint32_t n_block, struct mm_tile *t);

/* Tiles times columns. acc [n_tile][acc_stride floats: n_col][16] are the accumulators, taken up unless `first`. */
struct mm_dot {
    const struct mm_tile *tile; /* [n_tile] */
    uint32_t n_tile, n_block;
    const struct mm_xblock *x; /* block 0 of the tile in column 0 */
    size_t x_stride;           /* blocks between columns */
    uint32_t n_col;
    bool first;
    float *acc; /* aligned to 64 */
    size_t acc_stride;
};
typedef void (*mm_dot_fn)(const struct mm_dot *a);

/* 16 rows times one column without a tile in memory: acc[0..15] is the accumulator (in and out). n_block has no limit.
 * Memory at ahead .. ahead + 16 * (bytes of the blocks) is likely to be wanted soon; it may lie outside any object. */
typedef void (*mm_one_fn)(const uint8_t *w, uint64_t row_bytes, uint32_t n_block, const struct mm_xblock *x, float acc[16],
                          uintptr_t ahead);

/* n (a multiple of 32) floats to n / 32 blocks. */
typedef void (*mm_quantise_fn)(const float *x, uint32_t n, struct mm_xblock *out);

struct mm_kernels {
    mm_quantise_fn quantise;
    mm_dot_fn dot[MM_N_CLASSES];
    mm_decode_fn decode[DTYPE_COUNT]; /* NULL: not a type of MM_TYPES */
    mm_one_fn one[DTYPE_COUNT];       /* NULL: decode and dot serve one column too */
};

/* Fills k for a level that cpu_level_supported: first every scalar pointer, then each variant that the level includes, upwards.
 * INTERNAL: a slot stayed empty. */
infer_status mm_kernels_init(struct mm_kernels *k, int32_t level, infer_error *err);

/* Is it a block format that this family multiplies? */
bool mm_supports(int32_t type);

/* Bytes of n_col quantised columns of n_in inputs, a multiple of 32. The buffer begins at a multiple of 64. */
static inline uint64_t mm_columns_bytes(uint32_t n_in, uint32_t n_col)
{
    return (uint64_t)(n_in / 32u) * n_col * sizeof(struct mm_xblock);
}

/* Quantises column `col` of n_col: x [n_in]. Columns are independent, so threads may share them. */
void mm_quantise(const struct mm_kernels *k, const float *x, uint32_t n_in, void *columns, uint32_t col, uint32_t n_col);

/* Scratch of one worker, aligned to 64. */
#define MM_SCRATCH_BYTES (192u * 1024u)

struct mm_args {
    int32_t type;       /* of MM_TYPES */
    const uint8_t *w;   /* row 0 of the matrix */
    uint64_t row_bytes; /* between rows; at least the bytes of n_in elements */
    uint32_t n_in;      /* > 0, a multiple of the type's block */
    uint32_t row0, row1; /* rows to compute; row0 a multiple of MM_TILE_ROWS, row1 too or the last row of the matrix + 1 */
    const void *x;      /* x_cols quantised columns */
    uint32_t x_cols, col0, n_col; /* of which n_col from col0 on are wanted */
    float *y;           /* of column col0, row 0: row r of column col0 + c goes to y[c * y_stride + r] */
    size_t y_stride;    /* floats */
    void *scratch;      /* MM_SCRATCH_BYTES of this worker */
};

/* Rows [row0, row1) of all columns. The result does not depend on how rows are split among calls. Work for threads: split the rows by
 * multiples of MM_TILE_ROWS, best of MM_GROUP_ROWS: that many go over the columns together. Columns may be split too, at any place, though
 * the rows' decoding is then repeated. */
void mm_rows(const struct mm_kernels *k, const struct mm_args *a);

#endif
