#include "kernels/mm.h"

#include <string.h>

#include "kernels/cpu.h"
#include "kernels/mm_list.h"

_Static_assert(sizeof(struct mm_xblock) == 64, "a block of activations is a cache line");
_Static_assert(sizeof(struct mm_tile) % 64 == 0, "the tail follows the tile");

/* Two tiles are decoded, and stay in the first-level cache while all columns of a panel stream past them from the second level; all tiles of
 * a group are done before the next inputs, so that the panel's part of these inputs comes from memory once for the group. */
#define GROUP_TILES (MM_GROUP_ROWS / MM_TILE_ROWS)
#define PAIR_TILES 2u
#define PANEL_COLUMNS 256u

#define MAX_BLOCK_BYTES 37u /* of 32 inputs: Q8_K has 36.5 */
struct scratch {
    struct mm_tile tile[PAIR_TILES];
    float acc[GROUP_TILES][PANEL_COLUMNS][MM_TILE_ROWS];
    uint8_t tail[MM_TILE_ROWS * MAX_BLOCK_BYTES * MM_TILE_BLOCKS]; /* copies of the last rows, made up to 16 */
};
_Static_assert(sizeof(struct scratch) <= MM_SCRATCH_BYTES, "scratch of a worker");

static const uint8_t class_of[DTYPE_COUNT] = {
#define MM_CLASS(id, name, class, v) [INFER_TYPE_##id] = class,
    MM_TYPES(MM_CLASS, )
#undef MM_CLASS
};

static const uint8_t has_type[DTYPE_COUNT] = {
#define MM_HAS(id, name, class, v) [INFER_TYPE_##id] = 1,
    MM_TYPES(MM_HAS, )
#undef MM_HAS
};

bool mm_supports(int32_t type)
{
    return type >= 0 && type < DTYPE_COUNT && has_type[type];
}

#define SET_DOT(id, name, form, zero, max, v) k->dot[id] = mm_dot_##name##_##v;
#define SET_DECODE(id, name, class, v) k->decode[INFER_TYPE_##id] = mm_decode_##name##_##v;
#define SET_ONE(id, name, panel, v) k->one[INFER_TYPE_##id] = mm_one_##name##_##v;

static void init_scalar(struct mm_kernels *k)
{
    k->quantise = mm_quantise_scalar;
    MM_CLASSES(SET_DOT, scalar)
    MM_TYPES(SET_DECODE, scalar)
}

#define INIT_DOT(v, level)                                                                                             \
    static void init_dot_##v(struct mm_kernels *k)                                                                     \
    {                                                                                                                  \
        MM_CLASSES(SET_DOT, v)                                                                                         \
    }
MM_VARIANTS(INIT_DOT)

#define INIT_ONE(v, level)                                                                                             \
    static void init_one_##v(struct mm_kernels *k)                                                                     \
    {                                                                                                                  \
        MM_FUSED_TYPES(SET_ONE, v)                                                                                     \
    }
MM_FUSED_VARIANTS(INIT_ONE)

#define INIT_DECODING(v, level)                                                                                        \
    static void init_decoding_##v(struct mm_kernels *k)                                                                \
    {                                                                                                                  \
        MM_TYPES(SET_DECODE, v)                                                                                        \
    }
MM_DECODING_VARIANTS(INIT_DECODING)

infer_status mm_kernels_init(struct mm_kernels *k, int32_t level, infer_error *err)
{
    memset(k, 0, sizeof *k);
    (void)level; /* a build without variants does not look at it */
    init_scalar(k);
#if KERNELS_HAVE_AVX2
    if (cpu_level_includes(level, INFER_CPU_AVX2))
        k->quantise = mm_quantise_avx2;
#endif
#if KERNELS_HAVE_NEON
    if (cpu_level_includes(level, INFER_CPU_NEON))
        k->quantise = mm_quantise_neon;
#endif
#define USE(what, required)                                                                                            \
    if (cpu_level_includes(level, required))                                                                           \
        init_##what(k);
#define USE_DOT(v, required) USE(dot_##v, required)
    MM_VARIANTS(USE_DOT)
#define USE_ONE(v, required) USE(one_##v, required)
    MM_FUSED_VARIANTS(USE_ONE)
#define USE_DECODING(v, required) USE(decoding_##v, required)
    MM_DECODING_VARIANTS(USE_DECODING)
    bool complete = k->quantise != NULL;
    for (int i = 0; i < MM_N_CLASSES; i++)
        complete = complete && k->dot[i];
    for (int32_t i = 0; i < DTYPE_COUNT; i++)
        complete = complete && (k->decode[i] != NULL) == mm_supports(i);
    return complete ? INFER_OK : err_set(err, INFER_ERROR_INTERNAL, "the matrix product's kernel table has an empty slot");
}

/* Bytes of n blocks of 32 inputs. */
static uint64_t block_bytes(int32_t type, uint32_t n)
{
    const struct dtype *t = dtype_of(type);
    return (uint64_t)n * 32 / t->block * t->bytes;
}

/* Where 16 rows' blocks [b0, b0 + n) lie: in the matrix, or, when fewer rows are left, in a copy filled up with zeros. */
static const uint8_t *panel(const struct mm_args *a, uint32_t row, uint32_t n_row, uint32_t b0, uint32_t n,
                            struct scratch *s, uint64_t *stride)
{
    const uint8_t *src = a->w + row * a->row_bytes + block_bytes(a->type, b0);
    *stride = a->row_bytes;
    if (n_row == MM_TILE_ROWS)
        return src;
    size_t bytes = (size_t)block_bytes(a->type, n);
    *stride = bytes;
    for (uint32_t r = 0; r < n_row; r++)
        memcpy(s->tail + r * bytes, src + r * a->row_bytes, bytes);
    memset(s->tail + n_row * bytes, 0, (MM_TILE_ROWS - n_row) * bytes);
    return s->tail;
}

/* Blocks [b, b + n), a slice, of the columns from col0 on. */
static const struct mm_xblock *columns_of(const struct mm_args *a, uint32_t b, uint32_t n)
{
    return (const struct mm_xblock *)a->x + (size_t)b * a->x_cols + (size_t)a->col0 * n;
}

void mm_quantise(const struct mm_kernels *k, const float *x, uint32_t n_in, void *columns, uint32_t col, uint32_t n_col)
{
    const uint32_t n_block = n_in / 32;
    for (uint32_t b = 0; b < n_block; b += MM_TILE_BLOCKS) {
        uint32_t n = n_block - b < MM_TILE_BLOCKS ? n_block - b : MM_TILE_BLOCKS;
        k->quantise(x + (size_t)b * 32, n * 32, (struct mm_xblock *)columns + (size_t)b * n_col + (size_t)col * n);
    }
}

/* How far ahead one column asks for weights: the nearer of what 2048 inputs and 8192 like best. */
#define AHEAD_ROWS 24ull

static void one_column(const struct mm_kernels *k, const struct mm_args *a, uint32_t row, uint32_t n_row)
{
    uint32_t n_block = a->n_in / 32, step = n_row == MM_TILE_ROWS ? n_block : MM_TILE_BLOCKS;
    const struct mm_xblock *x = (const struct mm_xblock *)a->x;
    uintptr_t ahead = (uintptr_t)a->w + (uintptr_t)((row + AHEAD_ROWS) * a->row_bytes);
    float acc[MM_TILE_ROWS] = {0};
    for (uint32_t b = 0; b < n_block; b += step) {
        uint32_t n = n_block - b < step ? n_block - b : step;
        uint64_t stride;
        const uint8_t *w = panel(a, row, n_row, b, n, (struct scratch *)a->scratch, &stride);
        k->one[a->type](w, stride, n, x + b, acc, ahead);
    }
    memcpy(a->y + row, acc, n_row * sizeof *acc);
}

/* Inputs of blocks [b, b + n) of up to two tiles of rows, times the columns of the panel from c0 on; acc: of the first tile. */
static void pair_step(const struct mm_kernels *k, const struct mm_args *a, uint32_t row, uint32_t n_row, uint32_t c0,
                      uint32_t n_col, uint32_t b, uint32_t n, float *acc)
{
    struct scratch *s = (struct scratch *)a->scratch;
    uint32_t n_tile = (n_row + MM_TILE_ROWS - 1) / MM_TILE_ROWS;
    for (uint32_t t = 0; t < n_tile; t++) {
        uint32_t first = t * MM_TILE_ROWS, rows = n_row - first < MM_TILE_ROWS ? n_row - first : MM_TILE_ROWS;
        uint64_t stride;
        const uint8_t *w = panel(a, row + first, rows, b, n, s, &stride);
        k->decode[a->type](w, stride, n, &s->tile[t]);
    }
    struct mm_dot d = {
        .tile = s->tile,
        .n_tile = n_tile,
        .n_block = n,
        .x = columns_of(a, b, n) + (size_t)c0 * n,
        .x_stride = n,
        .n_col = n_col,
        .first = b == 0,
        .acc = acc,
        .acc_stride = PANEL_COLUMNS * MM_TILE_ROWS,
    };
    k->dot[class_of[a->type]](&d);
}

static inline void store_rows(const float acc[MM_TILE_ROWS], float *y, uint32_t n_row)
{
    if (n_row < MM_TILE_ROWS)
        memcpy(y, acc, n_row * sizeof *acc);
    else
        memcpy(y, acc, MM_TILE_ROWS * sizeof *acc); /* a constant: no call */
}

static void many_columns(const struct mm_kernels *k, const struct mm_args *a, uint32_t row, uint32_t n_row)
{
    struct scratch *s = (struct scratch *)a->scratch;
    const uint32_t n_block = a->n_in / 32, pair = PAIR_TILES * MM_TILE_ROWS;
    for (uint32_t c0 = 0; c0 < a->n_col; c0 += PANEL_COLUMNS) {
        uint32_t n_col = a->n_col - c0 < PANEL_COLUMNS ? a->n_col - c0 : PANEL_COLUMNS;
        for (uint32_t b = 0; b < n_block; b += MM_TILE_BLOCKS) {
            uint32_t n = n_block - b < MM_TILE_BLOCKS ? n_block - b : MM_TILE_BLOCKS;
            for (uint32_t r = 0; r < n_row; r += pair)
                pair_step(k, a, row + r, n_row - r < pair ? n_row - r : pair, c0, n_col, b, n, s->acc[r / MM_TILE_ROWS][0]);
        }
        for (uint32_t c = 0; c < n_col; c++)
            for (uint32_t r = 0; r < n_row; r += MM_TILE_ROWS)
                store_rows(s->acc[r / MM_TILE_ROWS][c], a->y + (c0 + c) * a->y_stride + row + r, n_row - r);
    }
}

void mm_rows(const struct mm_kernels *k, const struct mm_args *a)
{
    bool one = a->x_cols == 1 && k->one[a->type];
    uint32_t step = one ? MM_TILE_ROWS : MM_GROUP_ROWS;
    for (uint32_t row = a->row0; row < a->row1; row += step) {
        uint32_t n_row = a->row1 - row < step ? a->row1 - row : step;
        if (one)
            one_column(k, a, row, n_row);
        else
            many_columns(k, a, row, n_row);
    }
}
