/* Matrix products of the CPU device. The tasks of a call are tiles of weight rows of all its products together; float products also split the
 * columns (rows of activations) into chunks, the outer loop. */
#include <string.h>

#include "base/checked.h"
#include "kernels/cpu_device_impl.h"
#include "kernels/cpu_use.h"
#include "kernels/dequant.h"

#define MIN_TILE_BYTES 8192u       /* of weights, one column */
#define PRECISE_FLOATS 65536u      /* of decoded rows */
#define MIN_SPREAD 16u             /* columns worth copying */
#define ADDEND_ROWS 64u            /* of a tile of an addend's weights */
#define ADDEND_INPUTS 64u          /* inputs whose products are summed before they are added: a constant of the numerics version */
#define SPREAD_ROWS 64u            /* weight rows of all products that are worth spreading the columns for */

/* The columns are the rows of src, counted through its groups; a product takes all of them, or is a part that takes some of one group. */
struct call {
    struct cpu_device *d;
    const struct dev_matmul *ops;
    const struct dev_part *parts; /* or NULL: ops */
    uint32_t n_ops, n_in, n_row;
    uint32_t most; /* columns that a product takes */
    const float *src;
    uint32_t src_stride, group_rows, group_stride;
    char *columns; /* quantised, or NULL */
    uint32_t tile; /* weight rows of a task, a multiple of 16 */
    uint32_t chunk; /* columns of a task */
    uint64_t n_tiles;
    uint64_t each; /* tiles of a product, where all have the same number; else 0 */
};

struct product {
    const struct dev_weight *w;
    const float *bias; /* or NULL */
    float *dst;        /* of the first column taken */
    uint32_t dst_stride;
    uint32_t col0, n_col;
    float scale; /* 0: none */
    uint32_t n_addends;
    const struct dev_addend *addends;
};

/* Columns that a product takes. */
static uint32_t rows_of(const struct call *c, uint32_t i)
{
    return c->parts ? c->parts[i].n_row : c->ops[i].n_row ? c->ops[i].n_row : c->n_row;
}

static struct product product_at(const struct call *c, uint32_t i)
{
    if (c->parts) {
        const struct dev_part *p = &c->parts[i];
        return (struct product){.w = &p->w, .dst = cpu_f32(p->dst), .dst_stride = p->dst_stride, .col0 = p->first_row, .n_col = p->n_row};
    }
    const struct dev_matmul *m = &c->ops[i];
    uint32_t col0 = m->n_row ? m->row : 0;
    return (struct product){&m->w, cpu_f32(m->bias), cpu_f32(m->dst) + (size_t)col0 * m->dst_stride, m->dst_stride, col0, rows_of(c, i),
                            m->scale, m->n_addends, m->addends};
}

static const struct dev_weight *weight_at(const struct call *c, uint32_t i)
{
    return c->parts ? &c->parts[i].w : &c->ops[i].w;
}

static const float *column_at(const struct call *c, uint64_t col)
{
    return c->src + col / c->group_rows * c->group_stride + col % c->group_rows * c->src_stride;
}

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

/* Rows [row0, row1) of a product by the columns [col0, col0 + n_col). */
struct span {
    const struct product *p;
    uint32_t row0, row1, col0, n_col;
    float *y; /* of column col0, row 0 */
};

static void run_quantised(const struct call *c, const struct span *s, uint32_t worker)
{
    const struct dev_weight *w = s->p->w;
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
        .y_stride = s->p->dst_stride,
        .scratch = cpu_worker(c->d, worker),
    };
    mm_rows(&c->d->k.mm, &a);
}

static void run_float(const struct call *c, const struct span *s, uint32_t worker)
{
    const struct dev_weight *w = s->p->w;
    struct fmm_args a = {
        .w = cpu_ptr(w->data),
        .row_bytes = w->row_bytes,
        .n_in = w->n_in,
        .row0 = s->row0,
        .row1 = s->row1,
        .n_col = s->n_col,
        .x = column_at(c, s->col0),
        .x_stride = c->src_stride,
        .y = s->y,
        .y_stride = s->p->dst_stride,
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
    const struct dev_weight *w = s->p->w;
    char *scratch = cpu_worker(c->d, worker);
    float *rows = (float *)(scratch + FMM_SCRATCH_BYTES);
    uint32_t step = precise_rows(w->n_in);
    struct fmm_args a = {
        .w = rows,
        .row_bytes = (uint64_t)w->n_in * sizeof(float),
        .n_in = w->n_in,
        .n_col = s->n_col,
        .x = column_at(c, s->col0),
        .x_stride = c->src_stride,
        .y_stride = s->p->dst_stride,
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

static uint64_t tiles_of(const struct call *c, uint32_t i)
{
    return (weight_at(c, i)->n_out + (uint64_t)c->tile - 1) / c->tile;
}

/* The product that a tile belongs to; *tile becomes its number there. */
static uint32_t product_of(const struct call *c, uint64_t *tile)
{
    uint32_t i = 0;
    if (c->each) {
        i = (uint32_t)(*tile / c->each);
        *tile %= c->each;
        return i;
    }
    for (; *tile >= tiles_of(c, i); i++)
        *tile -= tiles_of(c, i);
    return i;
}

/* The part of columns [*col, *col + *n) that lies in [from, from + count); false: none. */
static bool common(uint32_t *col, uint32_t *n, uint32_t from, uint32_t count)
{
    uint32_t end = *col + *n < from + count ? *col + *n : from + count;
    *col = *col > from ? *col : from;
    *n = end > *col ? end - *col : 0;
    return *n != 0;
}

/* n weights from input `in` of a row on, widened. Rows without gaps may be read as one. */
static void widen(const struct call *c, const struct dev_weight *w, uint32_t row, uint32_t in, uint32_t n, float *dst)
{
    const char *p = (const char *)cpu_ptr(w->data) + row * w->row_bytes;
    if (w->type == INFER_TYPE_F32)
        memcpy(dst, p + in * sizeof(float), n * sizeof(float));
    else if (w->type == INFER_TYPE_F16)
        c->d->k.vec.f16_to_f32(dst, (const uint16_t *)(const void *)p + in, n);
    else
        c->d->k.vec.bf16_to_f32(dst, (const uint16_t *)(const void *)p + in, n);
}

/* Weights [row, row + n) of inputs [in, in + n_in), transposed to tile [n_in][ADDEND_ROWS] of f32; behind the tile they lie as they come. */
static void turn_tile(const struct call *c, const struct dev_weight *w, uint32_t row, uint32_t n, uint32_t in, uint32_t n_in, float *tile)
{
    float *rows = tile + ADDEND_ROWS * ADDEND_INPUTS;
    uint64_t elem = w->type == INFER_TYPE_F32 ? 4 : 2;
    if (n_in * elem == w->row_bytes)
        widen(c, w, row, 0, n * n_in, rows);
    else
        for (uint32_t r = 0; r < n; r++)
            widen(c, w, row + r, in, n_in, rows + (size_t)r * n_in);
    for (uint32_t k = 0; k < n_in; k++)
        for (uint32_t r = 0; r < n; r++)
            tile[k * ADDEND_ROWS + r] = rows[(size_t)r * n_in + k];
}

/* One addend's share of a span. Outputs lie in the lanes; sums of ADDEND_INPUTS inputs at a time are added. */
static void run_addend(const struct call *c, const struct span *s, const struct dev_addend *add, uint32_t worker)
{
    uint32_t col = s->col0, n_col = s->n_col;
    float *tile = cpu_worker(c->d, worker);
    if (!common(&col, &n_col, add->row, add->n_row))
        return;
    float *y = s->y + (size_t)(col - s->col0) * s->p->dst_stride;
    const float *x = cpu_f32(add->src) + (size_t)col * add->src_stride;
    for (uint32_t row = s->row0; row < s->row1; row += ADDEND_ROWS)
        for (uint32_t in = 0; in < add->w.n_in; in += ADDEND_INPUTS) {
            uint32_t n = s->row1 - row < ADDEND_ROWS ? s->row1 - row : ADDEND_ROWS;
            uint32_t n_in = add->w.n_in - in < ADDEND_INPUTS ? add->w.n_in - in : ADDEND_INPUTS;
            turn_tile(c, &add->w, row, n, in, n_in, tile);
            for (uint32_t i = 0; i < n_col; i++)
                c->d->k.vec.expand(y + (size_t)i * s->p->dst_stride + row, tile, ADDEND_ROWS, x + (size_t)i * add->src_stride + in, n_in, n);
        }
}

static void run_span(const struct call *c, const struct span *s, uint32_t worker)
{
    const struct product *p = s->p;
    const struct vec_kernels *v = &c->d->k.vec;
    if (float_product(c->d, p->w->type))
        run_float(c, s, worker);
    else if (c->columns)
        run_quantised(c, s, worker);
    else
        run_precise(c, s, worker);
    for (uint32_t i = 0; p->bias && i < s->n_col; i++)
        v->add(s->y + (size_t)i * p->dst_stride + s->row0, p->bias + s->row0, s->row1 - s->row0);
    for (uint32_t i = 0; p->scale != 0 && i < s->n_col; i++)
        v->scale(s->y + (size_t)i * p->dst_stride + s->row0, s->row1 - s->row0, p->scale);
    for (uint32_t i = 0; i < p->n_addends; i++)
        run_addend(c, s, &p->addends[i], worker);
}

static void product_task(void *arg, uint32_t worker, uint64_t task)
{
    const struct call *c = arg;
    uint64_t tile = task % c->n_tiles, first = task / c->n_tiles * c->chunk;
    struct product p = product_at(c, product_of(c, &tile));
    if (first >= p.n_col)
        return;
    struct span s = {.p = &p, .row0 = (uint32_t)tile * c->tile, .col0 = p.col0 + (uint32_t)first};
    s.row1 = p.w->n_out - s.row0 < c->tile ? p.w->n_out : s.row0 + c->tile;
    s.n_col = p.n_col - first < c->chunk ? p.n_col - (uint32_t)first : c->chunk;
    s.y = p.dst + first * p.dst_stride;
    run_span(c, &s, worker);
}

static void quantise_task(void *arg, uint32_t worker, uint64_t row)
{
    (void)worker;
    const struct call *c = arg;
    mm_quantise(&c->d->k.mm, column_at(c, row), c->n_in, c->columns, (uint32_t)row, c->n_row);
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
    memcpy((float *)c->d->columns.data + row * spread(c->n_in), column_at(c, row), c->n_in * sizeof(float));
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
    c->group_rows = c->n_row;
    return true;
}

/* Scratch of products with floats, decoded rows behind it. */
static bool prepare_floats(struct call *c, bool precise)
{
    uint64_t rows = precise ? (uint64_t)precise_rows(c->n_in) * c->n_in * sizeof(float) : 0;
    if ((c->most > 1 || precise) && !cpu_workers_need(c->d, FMM_SCRATCH_BYTES + rows))
        return false;
    return c->most < MIN_SPREAD || spread_columns(c);
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
    return !op->n_addends || cpu_workers_need(c->d, 2 * ADDEND_ROWS * ADDEND_INPUTS * sizeof(float));
}

/* Columns in the form, and the scratch, that the products need. */
static bool prepare(struct call *c)
{
    bool packed = false, floats = false, precise = c->d->numerics == INFER_NUMERICS_PRECISE;
    if (!cpu_workers_need(c->d, MM_SCRATCH_BYTES)) /* it is there from the start, but for a growth that failed */
        return false;
    for (uint32_t i = 0; i < c->n_ops; i++) {
        int32_t type = weight_at(c, i)->type;
        if (!c->parts && !prepare_addends(c, &c->ops[i]))
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
        return c->most == 1 || cpu_workers_need(c->d, FMM_SCRATCH_BYTES);
    return c->columns || prepare_floats(c, packed);
}

static void at_least(uint64_t *most, uint64_t n)
{
    *most = n > *most ? n : *most;
}

void cpu_use_matmul(struct cpu_use *u, int32_t type, uint32_t n_in, uint64_t n_row)
{
    bool is_float = type == INFER_TYPE_F32 || type == INFER_TYPE_F16 || type == INFER_TYPE_BF16;
    bool precise = !is_float && u->numerics == INFER_NUMERICS_PRECISE;
    if (!n_in)
        return;
    at_least(&u->worker, FMM_SCRATCH_BYTES + (precise ? (uint64_t)precise_rows(n_in) * n_in * sizeof(float) : 0));
    at_least(&u->columns, is_float || precise ? n_row * spread(n_in) * sizeof(float) : mm_columns_bytes(n_in, (uint32_t)n_row));
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
    bool even = true;
    for (uint32_t i = 0; i < c->n_ops; i++) {
        rows += weight_at(c, i)->n_out;
        even = even && weight_at(c, i)->n_out == weight_at(c, 0)->n_out;
    }
    if (c->most == 1) {
        c->chunk = 1;
        c->tile = clamp_tile(rows / (threads * 8), MIN_TILE_BYTES / (weight_at(c, 0)->row_bytes + 1), 512);
    } else if (!c->columns) {
        c->chunk = even_parts(c->most, FMM_COLS);
        c->tile = clamp_tile(rows / (threads * 8), 16, FMM_ROWS);
    } else {
        c->chunk = c->most;
        c->tile = clamp_tile(rows / (threads * 8), 16, 64);
    }
    c->n_tiles = 0;
    for (uint32_t i = 0; i < c->n_ops; i++)
        c->n_tiles += tiles_of(c, i);
    c->each = even ? tiles_of(c, 0) : 0;
}

static void run(struct call *c)
{
    c->n_in = weight_at(c, 0)->n_in;
    if (!prepare(c))
        return;
    choose_tiles(c);
    uint64_t chunks = (c->most + (uint64_t)c->chunk - 1) / c->chunk, work = 0;
    for (uint32_t i = 0; i < c->n_ops; i++)
        work += (uint64_t)weight_at(c, i)->n_out * c->n_in * rows_of(c, i) / 4;
    cpu_run(c->d, c->n_tiles * chunks, work, product_task, c);
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
        .group_rows = n_row,
    };
    for (uint32_t i = 0; i < n_ops; i++)
        c.most = rows_of(&c, i) > c.most ? rows_of(&c, i) : c.most;
    if (!c.d->failed && n_row && n_ops)
        run(&c);
}

void cpu_matmul_parts(struct device *dev, const struct dev_rows *src, const struct dev_part *parts, uint32_t n_parts)
{
    struct call c = {
        .d = cpu_of(dev),
        .parts = parts,
        .n_ops = n_parts,
        .n_row = src->n_group * src->n_row,
        .src = cpu_f32(src->src),
        .src_stride = src->row_stride,
        .group_rows = src->n_row,
        .group_stride = src->group_stride,
    };
    for (uint32_t i = 0; i < n_parts; i++)
        c.most = rows_of(&c, i) > c.most ? rows_of(&c, i) : c.most;
    if (!c.d->failed && c.n_row && c.most)
        run(&c);
}
