/* Storing keys and values in pages, rounded to the KV type, and moving them from page to page. */
#include <string.h>

#include "base/half.h"
#include "kernels/cpu_device_impl.h"

struct write_call {
    struct cpu_device *d;
    const struct dev_kv *kv;
    const float *k, *v;
    uint32_t k_stride, v_stride;
    const struct dev_seq *seqs;
    uint32_t n_seq;
};

#define WRITE_ROWS 16u

struct rounded {
    _Alignas(16) char elements[ATTN_MAX_HEAD_DIM * sizeof(float)];
    uint16_t scales[ATTN_MAX_HEAD_DIM / DEV_KV_MIN_GROUP];
};

/* A head's key or value, rounded. */
static void round_head(const struct cpu_device *d, const struct dev_kv *kv, struct rounded *r, const float *x)
{
    uint32_t n = kv->head_dim;
    switch (kv->type) {
    case INFER_KV_F32: memcpy(r->elements, x, n * sizeof *x); break;
    case INFER_KV_F16: d->k.vec.f32_to_f16((uint16_t *)(void *)r->elements, x, n); break;
    case INFER_KV_BF16: d->k.vec.f32_to_bf16((uint16_t *)(void *)r->elements, x, n); break;
    default: d->k.attn.round8((int8_t *)r->elements, r->scales, x, n, dev_kv_group(kv->type));
    }
}

/* Column j of a transposed head. */
static void store_column(char *head, const struct rounded *r, uint32_t n, uint32_t elem, uint32_t j)
{
    const char *from = r->elements;
    char *to = head + (size_t)j * elem;
    size_t step = (size_t)ATTN_BLOCK * elem;
    if (elem == 1)
        for (uint32_t d = 0; d < n; d++)
            to[d * step] = from[d];
    else if (elem == 2)
        for (uint32_t d = 0; d < n; d++)
            memcpy(to + d * step, from + d * 2, 2);
    else
        for (uint32_t d = 0; d < n; d++)
            memcpy(to + d * step, from + d * 4, 4);
}

static void store_scales(char *head, const struct rounded *r, int32_t type, uint32_t n, uint32_t j)
{
    uint16_t *to = (uint16_t *)(void *)(head + (size_t)n * ATTN_BLOCK) + j;
    for (uint32_t g = 0; g < dev_kv_groups(type, n); g++)
        to[g * ATTN_BLOCK] = r->scales[g];
}

/* Rows i0 <= i < i1 of a sequence, all of one page. Head by head: columns of a head share cache lines. */
static void write_rows(const struct write_call *c, const struct dev_seq *seq, uint32_t i0, uint32_t i1)
{
    const struct dev_kv *kv = c->kv;
    uint64_t first = seq->index + i0;
    uint32_t n = kv->head_dim, n_row = i1 - i0;
    uint32_t elem = dev_kv_elem_bytes(kv->type);
    size_t bytes = (size_t)dev_kv_head_bytes(kv->type, n);
    char *page = cpu_ptr(seq->pages[first / ATTN_BLOCK]), *k_head = page + kv->k_off, *v_head = page + kv->v_off;
    const float *k = c->k + (size_t)(seq->row + i0) * c->k_stride, *v = dev_kv_is_shared(kv) ? k : c->v + (size_t)(seq->row + i0) * c->v_stride;
    struct rounded r;
    for (uint32_t h = 0; h < kv->n_head_kv; h++, k_head += bytes, v_head += bytes)
        for (uint32_t i = 0; i < n_row; i++) {
            uint32_t j = (uint32_t)(first % ATTN_BLOCK) + i;
            round_head(c->d, kv, &r, k + (size_t)i * c->k_stride + (size_t)h * n);
            store_column(k_head, &r, n, elem, j);
            store_scales(k_head, &r, kv->type, n, j);
            if (dev_kv_is_shared(kv))
                continue;
            round_head(c->d, kv, &r, v + (size_t)i * c->v_stride + (size_t)h * n);
            memcpy(v_head + (size_t)j * n * elem, r.elements, (size_t)n * elem);
            store_scales(v_head, &r, kv->type, n, j);
        }
}

/* WRITE_ROWS rows of the batch, whichever sequences they belong to. */
static void write_task(void *arg, uint32_t worker, uint64_t task)
{
    (void)worker;
    const struct write_call *c = arg;
    uint64_t first = task * WRITE_ROWS, end = first + WRITE_ROWS;
    for (uint32_t s = 0; s < c->n_seq; s++) {
        const struct dev_seq *seq = &c->seqs[s];
        uint64_t r0 = seq->row > first ? seq->row : first, r1 = (uint64_t)seq->row + seq->n_row;
        r1 = r1 < end ? r1 : end;
        for (uint64_t r = r0, stop; r < r1; r = stop) {
            stop = r + ATTN_BLOCK - (seq->index + r - seq->row) % ATTN_BLOCK; /* the page's end */
            stop = stop < r1 ? stop : r1;
            write_rows(c, seq, (uint32_t)(r - seq->row), (uint32_t)(stop - seq->row));
        }
    }
}

void cpu_kv_write(struct device *dev, const struct dev_kv *kv, struct dev_ref k, uint32_t k_stride, struct dev_ref v,
                  uint32_t v_stride, const struct dev_seq *seqs, uint32_t n_seq)
{
    struct write_call c = {cpu_of(dev), kv, cpu_f32(k), cpu_f32(v), k_stride, v_stride, seqs, n_seq};
    if (c.d->failed)
        return;
    if (!attn_supports_head_dim(kv->head_dim)) {
        cpu_fail(c.d, INFER_ERROR_INTERNAL);
        return;
    }
    uint64_t rows = 0, written = 0;
    for (uint32_t s = 0; s < n_seq; s++) {
        uint64_t end = (uint64_t)seqs[s].row + seqs[s].n_row;
        rows = end > rows ? end : rows;
        written += seqs[s].n_row;
    }
    cpu_run(c.d, (rows + WRITE_ROWS - 1) / WRITE_ROWS, written * kv->n_head_kv * kv->head_dim * 4, write_task, &c);
}

/* ---- moving */

struct move_call {
    struct cpu_device *d;
    const struct dev_kv_move *op;
    float table[ATTN_MAX_HEAD_DIM]; /* [n_rot / 2][2]: cos, sin */
    uint32_t elem;
    size_t head_bytes;
};

/* Column j of a transposed head: what store_column and store_scales stored. */
static void load_column(struct rounded *r, const char *head, const struct dev_kv *kv, uint32_t elem, uint32_t j)
{
    size_t step = (size_t)ATTN_BLOCK * elem;
    const char *from = head + (size_t)j * elem;
    char *to = r->elements;
    if (elem == 1)
        for (uint32_t d = 0; d < kv->head_dim; d++)
            to[d] = from[d * step];
    else if (elem == 2)
        for (uint32_t d = 0; d < kv->head_dim; d++)
            memcpy(to + d * 2, from + d * step, 2);
    else
        for (uint32_t d = 0; d < kv->head_dim; d++)
            memcpy(to + d * 4, from + d * step, 4);
}

static void load_scales(struct rounded *r, const char *head, const struct dev_kv *kv, uint32_t j)
{
    const uint16_t *from = (const uint16_t *)(const void *)(head + (size_t)kv->head_dim * ATTN_BLOCK) + j;
    for (uint32_t g = 0; g < dev_kv_groups(kv->type, kv->head_dim); g++)
        r->scales[g] = from[g * ATTN_BLOCK];
}

/* The inverse of round_head. */
static void widen_head(const struct cpu_device *d, const struct dev_kv *kv, float *x, const struct rounded *r)
{
    uint32_t n = kv->head_dim, group = dev_kv_group(kv->type);
    switch (kv->type) {
    case INFER_KV_F32: memcpy(x, r->elements, n * sizeof *x); break;
    case INFER_KV_F16: d->k.vec.f16_to_f32(x, (const uint16_t *)(const void *)r->elements, n); break;
    case INFER_KV_BF16: d->k.vec.bf16_to_f32(x, (const uint16_t *)(const void *)r->elements, n); break;
    default:
        for (uint32_t i = 0; i < n; i++)
            x[i] = (float)(int8_t)r->elements[i] * f16_to_f32(r->scales[i / group]);
    }
}

static void move_key(const struct move_call *c, char *dst, uint32_t to, const char *src, uint32_t from)
{
    const struct dev_kv *kv = &c->op->kv;
    struct rounded r;
    load_column(&r, src, kv, c->elem, from);
    load_scales(&r, src, kv, from);
    if (c->op->delta) {
        float x[ATTN_MAX_HEAD_DIM];
        widen_head(c->d, kv, x, &r);
        (c->op->kind == DEV_ROPE_PAIRS ? c->d->k.vec.rope_pairs : c->d->k.vec.rope_halves)(x, c->table, c->op->n_rot);
        round_head(c->d, kv, &r, x);
    }
    store_column(dst, &r, kv->head_dim, c->elem, to);
    store_scales(dst, &r, kv->type, kv->head_dim, to);
}

static void move_value(const struct move_call *c, char *dst, uint32_t to, const char *src, uint32_t from)
{
    const struct dev_kv *kv = &c->op->kv;
    size_t bytes = (size_t)kv->head_dim * c->elem;
    struct rounded r;
    memcpy(dst + to * bytes, src + from * bytes, bytes);
    load_scales(&r, src, kv, from);
    store_scales(dst, &r, kv->type, kv->head_dim, to);
}

/* What goes to one head of one page. */
static void move_task(void *arg, uint32_t worker, uint64_t task)
{
    (void)worker;
    const struct move_call *c = arg;
    const struct dev_kv_move *op = c->op;
    uint64_t page = op->dst / ATTN_BLOCK + task / op->kv.n_head_kv, head = task % op->kv.n_head_kv * c->head_bytes;
    uint64_t e = page * ATTN_BLOCK, end = op->dst + op->n;
    end = end < e + ATTN_BLOCK ? end : e + ATTN_BLOCK;
    char *dst = (char *)cpu_ptr(op->dst_pages[page]) + head;
    for (e = e > op->dst ? e : op->dst; e < end; e++) {
        uint64_t from = op->src + (e - op->dst);
        const char *src = (const char *)cpu_ptr(op->src_pages[from / ATTN_BLOCK]) + head;
        uint32_t to_j = (uint32_t)(e % ATTN_BLOCK), from_j = (uint32_t)(from % ATTN_BLOCK);
        move_key(c, dst + op->kv.k_off, to_j, src + op->kv.k_off, from_j);
        if (!dev_kv_is_shared(&op->kv))
            move_value(c, dst + op->kv.v_off, to_j, src + op->kv.v_off, from_j);
    }
}

void cpu_kv_move(struct device *dev, const struct dev_kv_move *op)
{
    struct move_call c = {.d = cpu_of(dev), .op = op, .elem = dev_kv_elem_bytes(op->kv.type),
                          .head_bytes = (size_t)dev_kv_head_bytes(op->kv.type, op->kv.head_dim)};
    if (c.d->failed || !op->n)
        return;
    if (!attn_supports_head_dim(op->kv.head_dim)) {
        cpu_fail(c.d, INFER_ERROR_INTERNAL);
        return;
    }
    uint64_t pages = (op->dst + op->n - 1) / ATTN_BLOCK - op->dst / ATTN_BLOCK + 1;
    if (op->delta) {
        c.d->k.vec.rope_table(c.table, cpu_f32(op->inv_freq), op->n_rot / 2, (uint32_t)(op->delta < 0 ? -op->delta : op->delta), 1.0f);
        for (uint32_t i = 1; i < op->n_rot && op->delta < 0; i += 2)
            c.table[i] = -c.table[i];
    }
    cpu_run(c.d, pages * op->kv.n_head_kv, op->n * op->kv.n_head_kv * op->kv.head_dim * 16, move_task, &c);
}
