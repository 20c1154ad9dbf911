/* Storing keys and values in pages, rounded to the KV type. */
#include <string.h>

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
    uint16_t scales[ATTN_MAX_HEAD_DIM / ATTN_GROUP];
};

/* A head's key or value, rounded. */
static void round_head(const struct write_call *c, struct rounded *r, const float *x)
{
    uint32_t n = c->kv->head_dim;
    switch (c->kv->type) {
    case INFER_KV_F32: memcpy(r->elements, x, n * sizeof *x); break;
    case INFER_KV_F16: c->d->k.vec.f32_to_f16((uint16_t *)(void *)r->elements, x, n); break;
    case INFER_KV_BF16: c->d->k.vec.f32_to_bf16((uint16_t *)(void *)r->elements, x, n); break;
    default: c->d->k.attn.round8((int8_t *)r->elements, r->scales, x, n);
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

static void store_scales(char *head, const struct rounded *r, uint32_t n, uint32_t j)
{
    uint16_t *to = (uint16_t *)(void *)(head + (size_t)n * ATTN_BLOCK) + j;
    for (uint32_t g = 0; g < attn_groups(n); g++)
        to[g * ATTN_BLOCK] = r->scales[g];
}

/* Rows i0 <= i < i1 of a sequence, all of one page. Head by head: columns of a head share cache lines. */
static void write_rows(const struct write_call *c, const struct dev_seq *seq, uint32_t i0, uint32_t i1)
{
    const struct dev_kv *kv = c->kv;
    uint64_t first = seq->index + i0;
    uint32_t n = kv->head_dim, n_row = i1 - i0;
    uint32_t elem = kv->type == INFER_KV_INT8 ? 1 : kv->type == INFER_KV_F32 ? 4 : 2;
    size_t bytes = (size_t)dev_kv_head_bytes(kv->type, n);
    char *page = cpu_ptr(seq->pages[first / ATTN_BLOCK]), *k_head = page + kv->k_off, *v_head = page + kv->v_off;
    const float *k = c->k + (size_t)(seq->row + i0) * c->k_stride, *v = c->v + (size_t)(seq->row + i0) * c->v_stride;
    struct rounded r;
    for (uint32_t h = 0; h < kv->n_head_kv; h++, k_head += bytes, v_head += bytes)
        for (uint32_t i = 0; i < n_row; i++) {
            uint32_t j = (uint32_t)(first % ATTN_BLOCK) + i;
            round_head(c, &r, k + (size_t)i * c->k_stride + (size_t)h * n);
            store_column(k_head, &r, n, elem, j);
            if (kv->type == INFER_KV_INT8)
                store_scales(k_head, &r, n, j);
            round_head(c, &r, v + (size_t)i * c->v_stride + (size_t)h * n);
            memcpy(v_head + (size_t)j * n * elem, r.elements, (size_t)n * elem);
            if (kv->type == INFER_KV_INT8)
                store_scales(v_head, &r, n, j);
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
