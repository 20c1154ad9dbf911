/* Matrix products of the CPU device. The tasks of a call are tiles of weight rows of all its products together; float products also split the
 * columns (rows of activations) into chunks, the outer loop. */
#include <string.h>

#include "base/checked.h"
#include "kernels/cpu_device_impl.h"
#include "kernels/dequant.h"

#define MIN_TILE_BYTES 8192u       /* of weights, one column */
#define PRECISE_FLOATS 65536u      /* of decoded rows */
#define MIN_SPREAD 16u             /* columns worth copying */
#define MAX_TILE 512u              /* weight rows of a task */
#define ADDEND_COLS 16u            /* columns of an addend at a time: what they add stays in the first-level cache */

struct call {
    struct cpu_device *d;
    const struct dev_matmul *ops;
    uint32_t n_ops, n_in, n_row;
    const float *src;
    uint32_t src_stride;
    char *columns; /* quantised, or NULL */
    uint32_t tile; /* weight rows of a task, a multiple of 16 */
    uint32_t chunk; /* columns of a task */
    uint64_t n_tiles;
};

static vec_matmul_fn *float_product(const struct cpu_device *d, int32_t type)
{
    switch (type) {
    case INFER_TYPE_F32: return d->k.vec.matmul_f32;
    case INFER_TYPE_F16: return d->k.vec.matmul_f16;
    case INFER_TYPE_BF16: return d->k.vec.matmul_bf16;
    default: return NULL;
    }
}

bool cpu_device_can_multiply(int32_t type)
{
    return type == INFER_TYPE_F32 || type == INFER_TYPE_F16 || type == INFER_TYPE_BF16 || mm_supports(type);
}

/* Rows [row0, row1) of op by the columns [col0, col0 + n_col). */
struct span {
    const struct dev_matmul *op;
    uint32_t row0, row1, col0, n_col;
    float *y; /* of column col0, row 0 */
};

static void run_quantised(const struct call *c, const struct span *s, uint32_t worker)
{
    const struct dev_weight *w = &s->op->w;
    struct mm_args a = {
        .type = w->type,
        .w = cpu_ptr(w->data),
        .row_bytes = w->row_bytes,
        .n_in = w->n_in,
        .row0 = s->row0,
        .row1 = s->row1,
        .x = c->columns,
        .x_cols = c->n_row,
        .col0 = s->col0,
        .n_col = s->n_col,
        .y = s->y,
        .y_stride = s->op->dst_stride,
        .scratch = cpu_worker(c->d, worker),
    };
    mm_rows(&c->d->k.mm, &a);
}

static void run_float(const struct call *c, const struct span *s, uint32_t worker)
{
    const struct dev_weight *w = &s->op->w;
    struct fmm_args a = {
        .w = cpu_ptr(w->data),
        .row_bytes = w->row_bytes,
        .n_in = w->n_in,
        .row0 = s->row0,
        .row1 = s->row1,
        .n_col = s->n_col,
        .x = c->src + (size_t)s->col0 * c->src_stride,
        .x_stride = c->src_stride,
        .y = s->y,
        .y_stride = s->op->dst_stride,
        .scratch = cpu_worker(c->d, worker),
    };
    float_product(c->d, w->type)(&a);
}

static uint32_t precise_rows(uint32_t n_in)
{
    uint32_t n = PRECISE_FLOATS / n_in;
    return n > 16 ? 16 : n < 4 ? 4 : n;
}

/* PRECISE: the rows are decoded to f32 and multiplied as such. */
static void run_precise(const struct call *c, const struct span *s, uint32_t worker)
{
    const struct dev_weight *w = &s->op->w;
    char *scratch = cpu_worker(c->d, worker);
    float *rows = (float *)(scratch + FMM_SCRATCH_BYTES);
    uint32_t step = precise_rows(w->n_in);
    struct fmm_args a = {
        .w = rows,
        .row_bytes = (uint64_t)w->n_in * sizeof(float),
        .n_in = w->n_in,
        .n_col = s->n_col,
        .x = c->src + (size_t)s->col0 * c->src_stride,
        .x_stride = c->src_stride,
        .y_stride = s->op->dst_stride,
        .scratch = scratch,
    };
    for (uint32_t r = s->row0; r < s->row1; r += step) {
        a.row1 = s->row1 - r < step ? s->row1 - r : step;
        for (uint32_t i = 0; i < a.row1; i++)
            dequant_row(w->type, (const char *)cpu_ptr(w->data) + (r + i) * w->row_bytes, rows + (size_t)i * w->n_in, w->n_in);
        a.y = s->y + r;
        c->d->k.vec.matmul_f32(&a);
    }
}

static uint64_t tiles_of(const struct call *c, const struct dev_matmul *op)
{
    return (op->w.n_out + (uint64_t)c->tile - 1) / c->tile;
}

/* The part of columns [*col, *col + *n) that lies in [from, from + count); false: none. */
static bool common(uint32_t *col, uint32_t *n, uint32_t from, uint32_t count)
{
    uint32_t end = *col + *n < from + count ? *col + *n : from + count;
    *col = *col > from ? *col : from;
    *n = end > *col ? end - *col : 0;
    return *n != 0;
}

/* One addend's share of a span, ADDEND_COLS columns at a time: its products go to scratch, and from there onto y. */
static void run_addend(const struct call *c, const struct span *s, const struct dev_addend *add, uint32_t worker)
{
    uint32_t col = s->col0, left = s->n_col, n_rows = s->row1 - s->row0;
    char *scratch = cpu_worker(c->d, worker);
    float *sums = (float *)(scratch + FMM_SCRATCH_BYTES);
    if (!common(&col, &left, add->row, add->n_row))
        return;
    struct fmm_args a = {.w = (const char *)cpu_ptr(add->w.data) + s->row0 * add->w.row_bytes, .row_bytes = add->w.row_bytes,
                         .n_in = add->w.n_in, .row1 = n_rows, .x_stride = add->src_stride, .y = sums, .y_stride = n_rows,
                         .scratch = scratch};
    for (; left; left -= a.n_col, col += a.n_col) {
        a.n_col = left < ADDEND_COLS ? left : ADDEND_COLS;
        a.x = cpu_f32(add->src) + (size_t)col * add->src_stride;
        float_product(c->d, add->w.type)(&a);
        float *y = s->y + (size_t)(col - s->col0) * s->op->dst_stride + s->row0;
        for (uint32_t i = 0; i < a.n_col; i++)
            c->d->k.vec.add(y + (size_t)i * s->op->dst_stride, sums + (size_t)i * n_rows, n_rows);
    }
}

static void run_span(const struct call *c, const struct span *s, uint32_t worker)
{
    const struct dev_matmul *op = s->op;
    const struct vec_kernels *v = &c->d->k.vec;
    if (float_product(c->d, op->w.type))
        run_float(c, s, worker);
    else if (c->columns)
        run_quantised(c, s, worker);
    else
        run_precise(c, s, worker);
    const float *bias = cpu_f32(op->bias);
    for (uint32_t i = 0; bias && i < s->n_col; i++)
        v->add(s->y + (size_t)i * op->dst_stride + s->row0, bias + s->row0, s->row1 - s->row0);
    for (uint32_t i = 0; op->scale != 0 && i < s->n_col; i++)
        v->scale(s->y + (size_t)i * op->dst_stride + s->row0, s->row1 - s->row0, op->scale);
    for (uint32_t i = 0; i < op->n_addends; i++)
        run_addend(c, s, &op->addends[i], worker);
}

static void product_task(void *arg, uint32_t worker, uint64_t task)
{
    const struct call *c = arg;
    uint64_t tile = task % c->n_tiles;
    const struct dev_matmul *op = c->ops;
    for (; tile >= tiles_of(c, op); op++)
        tile -= tiles_of(c, op);
    struct span s = {.op = op, .row0 = (uint32_t)tile * c->tile, .col0 = (uint32_t)(task / c->n_tiles) * c->chunk};
    s.row1 = op->w.n_out - s.row0 < c->tile ? op->w.n_out : s.row0 + c->tile;
    s.n_col = c->n_row - s.col0 < c->chunk ? c->n_row - s.col0 : c->chunk;
    if (op->n_row && !common(&s.col0, &s.n_col, op->row, op->n_row))
        return;
    s.y = cpu_f32(op->dst) + (size_t)s.col0 * op->dst_stride;
    run_span(c, &s, worker);
}

static void quantise_task(void *arg, uint32_t worker, uint64_t row)
{
    (void)worker;
    const struct call *c = arg;
    mm_quantise(&c->d->k.mm, c->src + row * c->src_stride, c->n_in, c->columns, (uint32_t)row, c->n_row);
}

/* A stride of columns for n_in floats: of lines of 64 bytes, 13 modulo 64, so that columns spread over the sets of the caches. */
static uint32_t spread(uint32_t n_in)
{
    uint32_t lines = (n_in - 1) / 16 + 1;
    return (lines + (13 - lines) % 64) * 16;
}

static void spread_task(void *arg, uint32_t worker, uint64_t row)
{
    (void)worker;
    const struct call *c = arg;
    memcpy((float *)c->d->columns.data + row * spread(c->n_in), c->src + row * c->src_stride, c->n_in * sizeof(float));
}

/* Many columns whose stride is a power of two would compete for a few sets of the caches: they are copied. */
static bool spread_columns(struct call *c)
{
    uint64_t bytes;
    if (!checked_mul(c->n_row, (uint64_t)spread(c->n_in) * sizeof(float), &bytes)) {
        cpu_fail(c->d, INFER_ERROR_NO_MEMORY);
        return false;
    }
    if (!cpu_scratch_get(c->d, &c->d->columns, bytes))
        return false;
    cpu_run(c->d, c->n_row, (uint64_t)c->n_row * c->n_in, spread_task, c);
    c->src = c->d->columns.data;
    c->src_stride = spread(c->n_in);
    return true;
}

/* Scratch of products with floats, decoded rows behind it. */
static bool prepare_floats(struct call *c, bool precise)
{
    uint64_t rows = precise ? (uint64_t)precise_rows(c->n_in) * c->n_in * sizeof(float) : 0;
    if ((c->n_row > 1 || precise) && !cpu_workers_need(c->d, FMM_SCRATCH_BYTES + rows))
        return false;
    return c->n_row < MIN_SPREAD || spread_columns(c);
}

static bool quantise_columns(struct call *c)
{
    c->columns = cpu_scratch_get(c->d, &c->d->columns, mm_columns_bytes(c->n_in, c->n_row));
    if (!c->columns)
        return false;
    cpu_run(c->d, c->n_row, (uint64_t)c->n_row * c->n_in * 2, quantise_task, c);
    return true;
}

/* Whether the addends can be added, and the scratch for that. */
static bool prepare_addends(const struct call *c, const struct dev_matmul *op)
{
    for (uint32_t i = 0; i < op->n_addends; i++) {
        const struct dev_weight *w = &op->addends[i].w;
        if (!float_product(c->d, w->type) || w->n_out != op->w.n_out || w->n_in > DEV_MAX_ADDEND) {
            cpu_fail(c->d, INFER_ERROR_INTERNAL);
            return false;
        }
    }
    return !op->n_addends || cpu_workers_need(c->d, FMM_SCRATCH_BYTES + MAX_TILE * ADDEND_COLS * sizeof(float));
}

/* Columns in the form, and the scratch, that the products need. */
static bool prepare(struct call *c)
{
    bool packed = false, floats = false, precise = c->d->numerics == INFER_NUMERICS_PRECISE;
    for (uint32_t i = 0; i < c->n_ops; i++) {
        int32_t type = c->ops[i].w.type;
        if (!prepare_addends(c, &c->ops[i]))
            return false;
        if (!cpu_device_can_multiply(type)) {
            cpu_fail(c->d, INFER_ERROR_INTERNAL);
            return false;
        }
        packed = packed || !float_product(c->d, type);
        floats = floats || float_product(c->d, type);
    }
    if (packed && !precise && !quantise_columns(c))
        return false;
    if (floats && c->columns) /* of both kinds: rare */
        return c->n_row == 1 || cpu_workers_need(c->d, FMM_SCRATCH_BYTES);
    return c->columns || prepare_floats(c, packed);
}

static uint32_t clamp_tile(uint64_t rows, uint64_t least, uint64_t most)
{
    rows = rows < least ? least : rows > most ? most : rows;
    return (uint32_t)((rows + MM_TILE_ROWS - 1) / MM_TILE_ROWS * MM_TILE_ROWS);
}

/* n cut into parts of even lengths, none longer than `most`. */
static uint32_t even_parts(uint32_t n, uint32_t most)
{
    uint32_t parts = (n - 1) / most + 1;
    return (n - 1) / parts + 1;
}

/* Enough tasks to share evenly, none too small to be worth claiming. */
static void choose_tiles(struct call *c)
{
    uint64_t rows = 0, threads = pool_threads(c->d->pool);
    for (uint32_t i = 0; i < c->n_ops; i++)
        rows += c->ops[i].w.n_out;
    if (c->n_row == 1) {
        c->chunk = 1;
        c->tile = clamp_tile(rows / (threads * 8), MIN_TILE_BYTES / (c->ops[0].w.row_bytes + 1), MAX_TILE);
    } else if (!c->columns) {
        c->chunk = even_parts(c->n_row, FMM_COLS);
        c->tile = clamp_tile(rows / (threads * 8), 16, FMM_ROWS);
    } else {
        c->chunk = c->n_row;
        c->tile = clamp_tile(rows / (threads * 8), 16, 64);
    }
    c->n_tiles = 0;
    for (uint32_t i = 0; i < c->n_ops; i++)
        c->n_tiles += tiles_of(c, &c->ops[i]);
}

void cpu_matmul(struct device *dev, struct dev_ref src, uint32_t src_stride, uint32_t n_row, const struct dev_matmul *ops,
                uint32_t n_ops)
{
    struct call c = {
        .d = cpu_of(dev),
        .ops = ops,
        .n_ops = n_ops,
        .n_row = n_row,
        .src = cpu_f32(src),
        .src_stride = src_stride,
    };
    if (c.d->failed || !n_row || !n_ops)
        return;
    c.n_in = ops[0].w.n_in;
    if (!prepare(&c))
        return;
    choose_tiles(&c);
    uint64_t chunks = (n_row + (uint64_t)c.chunk - 1) / c.chunk, work = 0;
    for (uint32_t i = 0; i < n_ops; i++)
        work += (uint64_t)ops[i].w.n_out * c.n_in * (ops[i].n_row ? ops[i].n_row : n_row) / 4;
    cpu_run(c.d, c.n_tiles * chunks, work, product_task, &c);
}
