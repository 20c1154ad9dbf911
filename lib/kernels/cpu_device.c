/* The CPU device: memory, and the operations that work on rows. Each is cut into fixed chunks whose results do not depend on who computes
 * them. */
#include <stdatomic.h>
#include <string.h>

#include "base/checked.h"
#include "base/fpenv.h"
#include "base/os_memory.h"
#include "kernels/cpu_device_impl.h"
#include "kernels/cpu_use.h"
#include "kernels/dequant.h"

#define MIN_WORK 40000u /* below it waking threads costs more than it gains */
#define CHUNK 8192u     /* floats of a task of elementwise work */

/* Work of one float, in simple float operations. */
#define WORK_ADD 1u
#define WORK_NORM 2u
#define WORK_ROPE 2u
#define WORK_ACT 8u
#define WORK_TRIG 16u
#define WORK_DECODE 8u

void cpu_fail(struct cpu_device *d, infer_status s)
{
    if (!d->failed)
        d->failed = s;
}

/* Memory that is walked through again and again: huge pages when it is large. Keys and values in huge pages made attention over 2,048
 * elements a quarter faster. */
static size_t block_align(uint64_t bytes)
{
    return bytes >= OS_HUGE_BYTES ? OS_HUGE_BYTES : 64;
}

/* Straight from the allocator: a header before the block would cost as much as the alignment is. */
static void *block_alloc(const struct alloc *a, uint64_t bytes)
{
    void *p = bytes > SIZE_MAX ? NULL : a->get(a->user, (size_t)bytes, block_align(bytes));
    if (p && bytes >= OS_HUGE_BYTES)
        os_memory_huge(p, (size_t)bytes);
    return p;
}

static void block_free(const struct alloc *a, void *p, uint64_t bytes)
{
    if (p)
        a->put(a->user, p, (size_t)bytes, block_align(bytes));
}

static void scratch_free(const struct alloc *a, struct cpu_scratch *s)
{
    block_free(a, s->data, s->bytes);
    *s = (struct cpu_scratch){0};
}

/* What lies in it is not kept, so the old block goes first. */
static bool scratch_grow(const struct alloc *a, struct cpu_scratch *s, uint64_t bytes)
{
    if (s->bytes >= bytes && s->data)
        return true;
    uint64_t want;
    if (!checked_add(bytes, bytes / 4 + 4096, &want))
        return false;
    scratch_free(a, s);
    s->data = block_alloc(a, want);
    s->bytes = s->data ? (size_t)want : 0;
    return s->data != NULL;
}

void *cpu_scratch_get(struct cpu_device *d, struct cpu_scratch *s, uint64_t bytes)
{
    if (scratch_grow(&d->alloc, s, bytes))
        return s->data;
    cpu_fail(d, INFER_ERROR_NO_MEMORY);
    return NULL;
}

bool cpu_workers_need(struct cpu_device *d, uint64_t bytes)
{
    uint64_t each, all;
    if (bytes <= d->worker_bytes)
        return true;
    d->worker_bytes = 0; /* on failure there is none */
    if (!checked_align(bytes, 4096, &each) || !checked_mul(each, pool_threads(d->pool), &all)
        || !cpu_scratch_get(d, &d->workers, all)) {
        cpu_fail(d, INFER_ERROR_NO_MEMORY);
        return false;
    }
    d->worker_bytes = (size_t)each;
    return true;
}

struct watched {
    struct cpu_device *d;
    pool_fn fn;
    void *arg;
};

static void watched_task(void *arg, uint32_t worker, uint64_t task)
{
    const struct watched *w = arg;
    if (!cpu_stop(w->d))
        w->fn(w->arg, worker, task);
}

void cpu_run(struct cpu_device *d, uint64_t n_tasks, uint64_t work, pool_fn fn, void *arg)
{
    struct watched w = {d, fn, arg};
    if (cpu_stop(d)) {
        cpu_fail(d, INFER_ERROR_CANCELLED);
        return;
    }
    if (work >= MIN_WORK) {
        infer_status s = d->stop ? pool_run(d->pool, n_tasks, watched_task, &w) : pool_run(d->pool, n_tasks, fn, arg);
        if (s != INFER_OK)
            cpu_fail(d, s);
    } else {
        struct fpenv guard = fpenv_enter();
        for (uint64_t i = 0; i < n_tasks; i++)
            fn(arg, 0, i);
        fpenv_leave(guard);
    }
    if (atomic_load_explicit(&d->stopped, memory_order_relaxed)) /* a task may have asked too */
        cpu_fail(d, INFER_ERROR_CANCELLED);
}

/* ---- memory */

/* The handle of a buffer that is only counted. */
static infer_status plan_buffer(struct cpu_device *d, uint64_t bytes, struct dev_buffer **out, infer_error *err)
{
    struct dev_buffer *b = mem_alloc_aligned(&d->alloc, 64, 64);
    if (!b || !budget_take(d->plan, bytes)) {
        mem_free(&d->alloc, b);
        return err_no_memory(err);
    }
    *b = (struct dev_buffer){.bytes = bytes, .planned = true};
    *out = b;
    return INFER_OK;
}

/* The data of a small buffer lies behind its handle, that of a large one in a block of its own. */
static infer_status op_alloc(struct device *dev, uint64_t bytes, struct dev_buffer **out, infer_error *err)
{
    const struct alloc *a = &cpu_of(dev)->alloc;
    bool large = bytes >= OS_HUGE_BYTES;
    if (cpu_of(dev)->plan)
        return plan_buffer(cpu_of(dev), bytes, out, err);
    struct dev_buffer *b = mem_alloc_aligned(a, 64 + (large ? 0 : (size_t)bytes), 64);
    void *block = b && large ? block_alloc(a, bytes) : NULL;
    if (!b || (large && !block)) {
        mem_free(a, b);
        return err_no_memory(err);
    }
    *b = (struct dev_buffer){large ? block : (char *)b + 64, bytes, block, false};
    *out = b;
    return INFER_OK;
}

static infer_status op_import(struct device *dev, const void *host, uint64_t bytes, struct dev_buffer **out, infer_error *err)
{
    struct dev_buffer *b = mem_alloc(&cpu_of(dev)->alloc, sizeof *b);
    if (!b)
        return err_no_memory(err);
    *b = (struct dev_buffer){(char *)(uintptr_t)host, bytes, NULL, false}; /* never written: the model only reads weights */
    *out = b;
    return INFER_OK;
}

static void op_free(struct device *dev, struct dev_buffer *buf)
{
    const struct alloc *a = &cpu_of(dev)->alloc;
    if (buf)
        block_free(a, buf->block, buf->bytes);
    if (buf && buf->planned)
        budget_give(cpu_of(dev)->plan, buf->bytes);
    mem_free(a, buf);
}

static void op_write(struct device *dev, struct dev_ref dst, const void *host, uint64_t bytes)
{
    if (!cpu_of(dev)->failed && bytes && !dst.buf->planned)
        memcpy(cpu_ptr(dst), host, (size_t)bytes);
}

static void op_read(struct device *dev, void *host, struct dev_ref src, uint64_t bytes)
{
    if (!cpu_of(dev)->failed && bytes)
        memcpy(host, cpu_ptr(src), (size_t)bytes);
}

struct read_call {
    float *const *host;
    const float *src;
    uint64_t width, chunks; /* of a row */
    atomic_uint bad[DEV_READ_ROWS];
};

/* Whether any of n floats is infinite or not a number. */
static bool any_nonfinite(const float *x, size_t n)
{
    enum { LANES = 16 };
    uint32_t bits[LANES], most[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        memcpy(bits, x + i, sizeof bits);
        for (int k = 0; k < LANES; k++) {
            bits[k] &= 0x7F800000u;
            most[k] = bits[k] > most[k] ? bits[k] : most[k];
        }
    }
    for (; i < n; i++) {
        memcpy(bits, x + i, sizeof *bits);
        bits[0] &= 0x7F800000u;
        most[0] = bits[0] > most[0] ? bits[0] : most[0];
    }
    for (int k = 1; k < LANES; k++)
        most[0] = most[k] > most[0] ? most[k] : most[0];
    return most[0] == 0x7F800000u;
}

static void read_task(void *arg, uint32_t worker, uint64_t task)
{
    (void)worker;
    struct read_call *c = arg;
    uint64_t row = task / c->chunks, from = task % c->chunks * CHUNK;
    size_t n = (size_t)(c->width - from < CHUNK ? c->width - from : CHUNK);
    float *dst = c->host[row] + from;
    memcpy(dst, c->src + row * c->width + from, n * sizeof *dst);
    if (any_nonfinite(dst, n))
        atomic_store_explicit(&c->bad[row], 1, memory_order_relaxed);
}

static void op_read_rows(struct device *dev, float *const *host, struct dev_ref src, uint32_t n_row, uint32_t width, bool *finite)
{
    struct cpu_device *d = cpu_of(dev);
    if (d->failed)
        return;
    if (n_row > DEV_READ_ROWS) {
        cpu_fail(d, INFER_ERROR_INTERNAL);
        return;
    }
    struct read_call c = {.host = host, .src = cpu_f32(src), .width = width, .chunks = (width + (uint64_t)CHUNK - 1) / CHUNK};
    for (uint32_t i = 0; i < n_row; i++)
        atomic_init(&c.bad[i], 0);
    cpu_run(d, n_row * c.chunks, (uint64_t)n_row * width * WORK_ADD, read_task, &c);
    for (uint32_t i = 0; i < n_row; i++)
        finite[i] = !atomic_load_explicit(&c.bad[i], memory_order_relaxed);
}

static void op_copy(struct device *dev, struct dev_ref dst, struct dev_ref src, uint64_t bytes)
{
    if (!cpu_of(dev)->failed && bytes)
        memmove(cpu_ptr(dst), cpu_ptr(src), (size_t)bytes);
}

/* ---- rows */

struct embed_call {
    struct cpu_device *d;
    float *dst;
    const struct dev_weight *w;
    const uint32_t *ids;
    float scale;
    int add;
};

static void embed_task(void *arg, uint32_t worker, uint64_t row)
{
    const struct embed_call *c = arg;
    const struct vec_kernels *v = &c->d->k.vec;
    uint32_t n = c->w->n_in;
    float *dst = c->dst + row * n, *to = c->add ? cpu_worker(c->d, worker) : dst;
    dequant_row(c->w->type, (const char *)cpu_ptr(c->w->data) + c->ids[row] * c->w->row_bytes, to, n);
    if (c->scale != 1.0f)
        v->scale(to, n, c->scale);
    if (c->add)
        v->add(dst, to, n);
}

static void op_embed(struct device *dev, struct dev_ref dst, const struct dev_weight *w, const uint32_t *ids, uint32_t n_row,
                     float scale, int add)
{
    struct cpu_device *d = cpu_of(dev);
    if (d->failed || (add && !cpu_workers_need(d, (uint64_t)w->n_in * sizeof(float))))
        return;
    struct embed_call c = {d, cpu_f32(dst), w, ids, scale, add};
    cpu_run(d, n_row, (uint64_t)n_row * w->n_in * WORK_DECODE, embed_task, &c);
}

struct norm_call {
    const struct dev_norm *op;
    const struct vec_kernels *v;
    uint64_t n_row, chunk;
};

static void norm_task(void *arg, uint32_t worker, uint64_t task)
{
    (void)worker;
    const struct norm_call *c = arg;
    const struct dev_norm *op = c->op;
    const float *weight = cpu_f32(op->weight), *bias = cpu_f32(op->bias);
    uint64_t end = (task + 1) * c->chunk < c->n_row ? (task + 1) * c->chunk : c->n_row;
    for (uint64_t r = task * c->chunk; r < end; r++) {
        uint64_t outer = r / op->n_inner, inner = r % op->n_inner * op->width;
        const float *w = weight + r % op->n_inner * op->weight_stride;
        float *dst = cpu_f32(op->dst) + outer * op->dst_stride + inner;
        float *src = cpu_f32(op->src) + outer * op->src_stride + inner;
        if (op->add.buf)
            c->v->add(src, cpu_f32(op->add) + outer * op->src_stride + inner, op->width);
        if (op->kind == DEV_NORM_LAYER)
            c->v->layer_norm(dst, src, w, bias, op->width, op->eps);
        else
            c->v->rms_norm(dst, src, w, op->width, op->eps);
        if (op->kind == DEV_NORM_RMS && bias)
            c->v->add(dst, bias, op->width);
    }
}

static void op_norm(struct device *dev, const struct dev_norm *op)
{
    struct cpu_device *d = cpu_of(dev);
    uint64_t n = (uint64_t)op->n_outer * op->n_inner;
    if (d->failed || !n || !op->width)
        return;
    struct norm_call c = {op, &d->k.vec, n, CHUNK / op->width + 1};
    cpu_run(d, (n + c.chunk - 1) / c.chunk, n * op->width * WORK_NORM, norm_task, &c);
}

struct table_call {
    const struct vec_kernels *v;
    float *table;
    const float *inv_freq;
    uint32_t n_half;
    const uint32_t *positions;
    float mscale;
};

static void table_task(void *arg, uint32_t worker, uint64_t row)
{
    (void)worker;
    const struct table_call *c = arg;
    c->v->rope_table(c->table + row * 2 * c->n_half, c->inv_freq, c->n_half, c->positions[row], c->mscale);
}

static void op_rope_table(struct device *dev, struct dev_ref table, struct dev_ref inv_freq, uint32_t n_half,
                          const uint32_t *positions, uint32_t n_row, float mscale)
{
    struct cpu_device *d = cpu_of(dev);
    if (d->failed)
        return;
    struct table_call c = {&d->k.vec, cpu_f32(table), cpu_f32(inv_freq), n_half, positions, mscale};
    cpu_run(d, n_row, (uint64_t)n_row * n_half * WORK_TRIG, table_task, &c);
}

struct rope_call {
    const struct dev_rope *op;
    vec_rope_fn *rotate;
};

static void rope_task(void *arg, uint32_t worker, uint64_t row)
{
    (void)worker;
    const struct rope_call *c = arg;
    const struct dev_rope *op = c->op;
    float *x = cpu_f32(op->x) + row * op->stride;
    const float *table = cpu_f32(op->table) + row * op->n_rot;
    for (uint32_t h = 0; h < op->n_head; h++)
        c->rotate(x + (size_t)h * op->head_dim, table, op->n_rot);
}

static void op_rope(struct device *dev, const struct dev_rope *op)
{
    struct cpu_device *d = cpu_of(dev);
    if (d->failed)
        return;
    struct rope_call c = {op, op->kind == DEV_ROPE_PAIRS ? d->k.vec.rope_pairs : d->k.vec.rope_halves};
    cpu_run(d, op->n_row, (uint64_t)op->n_row * op->n_head * op->n_rot * WORK_ROPE, rope_task, &c);
}

static void op_gather(struct device *dev, struct dev_ref dst, struct dev_ref src, const uint32_t *rows, uint32_t n, uint32_t width)
{
    if (cpu_of(dev)->failed)
        return;
    float *to = cpu_f32(dst);
    const float *from = cpu_f32(src);
    for (uint32_t i = 0; i < n; i++)
        memcpy(to + (size_t)i * width, from + (size_t)rows[i] * width, (size_t)width * sizeof *to);
}

static void op_copy_rows(struct device *dev, struct dev_ref dst, uint32_t dst_stride, struct dev_ref src, uint32_t src_stride, uint32_t n_row,
                         uint32_t width)
{
    if (cpu_of(dev)->failed)
        return;
    float *to = cpu_f32(dst);
    const float *from = cpu_f32(src);
    for (uint32_t i = 0; i < n_row; i++, to += dst_stride, from += src_stride)
        memcpy(to, from, (size_t)width * sizeof *to);
}

struct combine_call {
    const struct dev_combine *op;
    const struct vec_kernels *v;
};

static void combine_task(void *arg, uint32_t worker, uint64_t r)
{
    (void)worker;
    const struct combine_call *c = arg;
    const struct dev_combine *op = c->op;
    size_t n = op->width;
    const uint32_t *rows = op->rows + r * op->n_each;
    float *dst = cpu_f32(op->dst) + r * n, *src = cpu_f32(op->src), *sum = src + rows[0] * n;
    for (uint32_t k = 0; k < op->n_each; k++) {
        float *row = src + rows[k] * n;
        c->v->scale(row, n, op->weights[r * op->n_each + k]);
        if (k)
            c->v->add(sum, row, n);
    }
    if (!op->add) {
        memcpy(dst, sum, n * sizeof *dst);
        return;
    }
    if (op->dst_weights)
        c->v->scale(dst, n, op->dst_weights[r]);
    c->v->add(dst, sum, n);
}

static void op_combine(struct device *dev, const struct dev_combine *op)
{
    struct cpu_device *d = cpu_of(dev);
    if (d->failed || !op->n_each)
        return;
    struct combine_call c = {op, &d->k.vec};
    cpu_run(d, op->n_row, (uint64_t)op->n_row * (op->n_each + 1) * op->width * WORK_ADD * 2, combine_task, &c);
}

static void op_will_need(struct device *dev, struct dev_ref ref, uint64_t bytes)
{
    if (!cpu_of(dev)->failed && bytes)
        os_memory_will_need(cpu_ptr(ref), (size_t)bytes);
}

/* ---- elements */

/* dst and sources as n_row rows of n floats, stride apart, in chunks of CHUNK. */
struct each_call {
    const struct cpu_device *d;
    void (*fn)(const struct each_call *c, uint64_t at, size_t n);
    float *dst;
    const float *a, *b;
    float factor;
    vec_act_fn *act;
    uint64_t n, stride, chunks; /* of a row */
};

static void each_task(void *arg, uint32_t worker, uint64_t task)
{
    (void)worker;
    const struct each_call *c = arg;
    uint64_t row = task / c->chunks, from = task % c->chunks * CHUNK;
    uint64_t n = c->n - from < CHUNK ? c->n - from : CHUNK;
    c->fn(c, row * c->stride + from, (size_t)n);
}

static void each_run(struct cpu_device *d, struct each_call *c, uint64_t n_row, uint32_t work)
{
    if (!c->n || !n_row)
        return;
    c->chunks = (c->n + CHUNK - 1) / CHUNK;
    cpu_run(d, n_row * c->chunks, n_row * c->n * work, each_task, c);
}

static void each_act(const struct each_call *c, uint64_t at, size_t n)
{
    c->act(c->dst + at, c->a + at, c->b ? c->b + at : NULL, n);
}

static void each_add(const struct each_call *c, uint64_t at, size_t n)
{
    c->d->k.vec.add(c->dst + at, c->a + at, n);
}

static void each_scale(const struct each_call *c, uint64_t at, size_t n)
{
    c->d->k.vec.scale(c->dst + at, n, c->factor);
}

static void each_softcap(const struct each_call *c, uint64_t at, size_t n)
{
    c->d->k.vec.softcap(c->dst + at, n, c->factor);
}

static void op_act(struct device *dev, enum dev_act act, struct dev_ref dst, struct dev_ref gate, struct dev_ref up,
                   uint32_t n_row, uint32_t width, uint32_t stride)
{
    struct cpu_device *d = cpu_of(dev);
    if (d->failed)
        return;
    const struct vec_kernels *v = &d->k.vec;
    vec_act_fn *fn = act == DEV_ACT_SILU        ? v->silu
                     : act == DEV_ACT_GELU_TANH ? v->gelu_tanh
                     : act == DEV_ACT_GELU_ERF  ? v->gelu_erf
                     : act == DEV_ACT_RELU      ? v->relu
                                                : v->relu2;
    struct each_call c = {.d = d, .fn = each_act, .dst = cpu_f32(dst), .a = cpu_f32(gate), .b = cpu_f32(up), .act = fn,
                          .n = width, .stride = stride};
    if (stride == width) { /* one long row */
        c.n = (uint64_t)n_row * width;
        n_row = n_row ? 1 : 0;
    }
    each_run(d, &c, n_row, WORK_ACT);
}

static void op_add(struct device *dev, struct dev_ref dst, struct dev_ref src, uint64_t n)
{
    struct cpu_device *d = cpu_of(dev);
    struct each_call c = {.d = d, .fn = each_add, .dst = cpu_f32(dst), .a = cpu_f32(src), .n = n};
    if (!d->failed)
        each_run(d, &c, 1, WORK_ADD);
}

static void op_scale(struct device *dev, struct dev_ref x, uint64_t n, float factor)
{
    struct cpu_device *d = cpu_of(dev);
    struct each_call c = {.d = d, .fn = each_scale, .dst = cpu_f32(x), .factor = factor, .n = n};
    if (!d->failed)
        each_run(d, &c, 1, WORK_ADD);
}

static void op_softcap(struct device *dev, struct dev_ref x, uint64_t n, float cap)
{
    struct cpu_device *d = cpu_of(dev);
    struct each_call c = {.d = d, .fn = each_softcap, .dst = cpu_f32(x), .factor = cap, .n = n};
    if (!d->failed)
        each_run(d, &c, 1, WORK_ACT);
}

struct steer_call {
    const struct cpu_device *d;
    const struct dev_steer *op;
};

/* x by rows. The dot product is a matmul's, so that it has one order. */
static void steer_task(void *arg, uint32_t worker, uint64_t row)
{
    const struct steer_call *c = arg;
    const struct dev_steer *op = c->op;
    const struct vec_kernels *k = &c->d->k.vec;
    float *x = cpu_f32(op->x) + row * op->width, *step = cpu_worker(c->d, worker), factor = op->factor;
    const float *v = cpu_f32(op->v);
    if (op->kind == DEV_STEER_PROJECT) {
        float dot;
        k->matmul_f32(&(struct fmm_args){.w = v, .row_bytes = (uint64_t)op->width * 4, .n_in = op->width, .row1 = 1, .n_col = 1,
                                         .x = x, .x_stride = op->width, .y = &dot, .y_stride = 1, .scratch = step});
        factor = -factor * dot;
    }
    memcpy(step, v, (size_t)op->width * sizeof *v);
    k->scale(step, op->width, factor);
    k->add(x, step, op->width);
}

static void op_steer(struct device *dev, const struct dev_steer *op)
{
    struct cpu_device *d = cpu_of(dev);
    uint64_t bytes = (uint64_t)op->width * sizeof(float);
    if (d->failed || !cpu_workers_need(d, bytes > FMM_SCRATCH_BYTES ? bytes : FMM_SCRATCH_BYTES))
        return;
    struct steer_call c = {d, op};
    cpu_run(d, op->n_row, (uint64_t)op->n_row * op->width * WORK_NORM, steer_task, &c);
}

/* ---- the device */

static infer_status op_sync(struct device *dev, infer_error *err)
{
    struct cpu_device *d = cpu_of(dev);
    infer_status s = d->failed;
    d->failed = INFER_OK;
    atomic_store_explicit(&d->stopped, false, memory_order_relaxed);
    if (s == INFER_ERROR_NO_MEMORY)
        return err_no_memory(err);
    if (s == INFER_ERROR_CANCELLED)
        return err_set(err, s, "cancelled");
    if (s == INFER_ERROR_THREAD)
        return err_set(err, s, "none of the engine's threads could be started");
    if (s == INFER_ERROR_HOST)
        return err_set(err, s, "the executor failed, or did not run each task once");
    return s ? err_set(err, s, "an operation that the CPU device does not support") : INFER_OK;
}

static void op_watch(struct device *dev, dev_stop_fn stop, void *user)
{
    cpu_of(dev)->stop = stop;
    cpu_of(dev)->stop_user = user;
}

static bool op_stopped(struct device *dev)
{
    struct cpu_device *d = cpu_of(dev);
    if (cpu_stop(d))
        cpu_fail(d, INFER_ERROR_CANCELLED);
    return d->failed == INFER_ERROR_CANCELLED;
}

static void op_destroy(struct device *dev)
{
    struct cpu_device *d = cpu_of(dev);
    struct alloc a = d->alloc;
    pool_destroy(d->pool);
    scratch_free(&a, &d->columns);
    scratch_free(&a, &d->items);
    scratch_free(&a, &d->partials);
    scratch_free(&a, &d->workers);
    mem_free(&a, d);
}

static const struct device_ops cpu_ops = {
    .name = "cpu",
    .destroy = op_destroy,
    .alloc = op_alloc,
    .import = op_import,
    .free = op_free,
    .write = op_write,
    .read = op_read,
    .read_rows = op_read_rows,
    .copy = op_copy,
    .copy_rows = op_copy_rows,
    .embed = op_embed,
    .norm = op_norm,
    .matmul = cpu_matmul,
    .matmul_parts = cpu_matmul_parts,
    .combine = op_combine,
    .will_need = op_will_need,
    .rope_table = op_rope_table,
    .rope = op_rope,
    .kv_write = cpu_kv_write,
    .kv_move = cpu_kv_move,
    .attention = cpu_attention,
    .act = op_act,
    .add = op_add,
    .scale = op_scale,
    .softcap = op_softcap,
    .steer = op_steer,
    .gather = op_gather,
    .sync = op_sync,
    .watch = op_watch,
    .stopped = op_stopped,
};

infer_status cpu_device_create(const struct alloc *alloc, const struct cpu_device_options *options, struct device **out,
                               infer_error *err)
{
    if (options->numerics < INFER_NUMERICS_EXACT || options->numerics > INFER_NUMERICS_FAST)
        return err_set(err, INFER_ERROR_ARGUMENT, "%d is not a numerics mode", (int)options->numerics);
    struct cpu_device *d = mem_zalloc(alloc, sizeof *d);
    if (!d)
        return err_no_memory(err);
    d->base.ops = &cpu_ops;
    d->alloc = *alloc;
    d->numerics = options->numerics;
    d->plan = options->plan;
    infer_status s = kernels_init(&d->k, options->cpu, err);
    if (!s)
        s = options->executor ? pool_create_on_host(alloc, options->executor, &d->pool, err)
                              : pool_create(alloc, options->threads, &d->pool, err);
    if (!s && !cpu_workers_need(d, MM_SCRATCH_BYTES))
        s = err_no_memory(err);
    if (s) {
        op_destroy(&d->base);
        return s;
    }
    *out = &d->base;
    return INFER_OK;
}

struct pool *cpu_device_pool(struct device *d)
{
    return d->ops == &cpu_ops ? cpu_of(d)->pool : NULL;
}

int32_t cpu_device_level(const struct device *d)
{
    return d->ops == &cpu_ops ? ((const struct cpu_device *)d)->k.level : INFER_CPU_AUTO;
}

/* As scratch_grow makes it. */
static uint64_t grown(uint64_t bytes)
{
    return bytes ? bytes + bytes / 4 + 4096 : 0;
}

uint64_t cpu_use_bytes(const struct cpu_use *u)
{
    uint64_t first = grown(MM_SCRATCH_BYTES * (uint64_t)u->threads), worker = u->worker > MM_SCRATCH_BYTES ? u->worker : MM_SCRATCH_BYTES;
    uint64_t workers = grown(((worker + 4095) & ~(uint64_t)4095) * u->threads);
    return grown(u->columns) + grown(u->items) + grown(u->partials) + workers - first;
}
