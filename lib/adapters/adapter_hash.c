/* What an adapter is as 128 bits, and whether its numbers are finite: the one pass over all of its data that opening makes (about 10 GB/s). */
#include <string.h>

#include "adapters/adapter_read.h"
#include "base/dtype.h"

#define CHUNK ((uint64_t)1 << 16) /* bytes looked at and then, still in the cache, digested; part of what the hash is */

/* In each word several numbers lie side by side. mask: their exponents; one: the lowest bit of each. Added to an exponent of all ones it
 * carries into the sign's place, which the mask has cleared: an infinity or NaN. */
static bool has_infinite(const uint8_t *p, uint64_t n, uint64_t mask, uint64_t one, uint64_t sign)
{
    uint64_t found = 0, w;
    for (; n >= 8; n -= 8, p += 8) {
        memcpy(&w, p, 8);
        found |= (w & mask) + one;
    }
    w = 0;
    memcpy(&w, p, (size_t)n);
    return ((found | ((w & mask) + one)) & sign) != 0;
}

static bool is_finite(int32_t type, const uint8_t *p, uint64_t n)
{
    switch (type) {
    case INFER_TYPE_F32: return !has_infinite(p, n, 0x7F8000007F800000, 0x0080000000800000, 0x8000000080000000);
    case INFER_TYPE_F16: return !has_infinite(p, n, 0x7C007C007C007C00, 0x0400040004000400, 0x8000800080008000);
    case INFER_TYPE_BF16: return !has_infinite(p, n, 0x7F807F807F807F80, 0x0080008000800080, 0x8000800080008000);
    default: return true;
    }
}

infer_status adapter_digest(struct adapter_reader *r, const struct adapter_matrix *m, const char *name, struct hash_128 *out)
{
    const uint8_t *p = m->data;
    struct hash_128 h = {0, 0};
    for (uint64_t at = 0; at < m->bytes; at += CHUNK) {
        uint64_t n = m->bytes - at < CHUNK ? m->bytes - at : CHUNK;
        if (cancel_is_set(r->cancel))
            return err_set(r->err, INFER_ERROR_CANCELLED, "cancelled while reading the adapter");
        if (!is_finite(m->type, p + at, n))
            return ADAPTER_FAIL(r, INFER_ERROR_VALUE, name, "the tensor holds a number that is not finite");
        struct hash_128 part = hash_128(p + at, (size_t)n, at);
        uint64_t both[4] = {h.lo, h.hi, part.lo, part.hi};
        h = hash_128(both, sizeof both, 0);
    }
    *out = h;
    return INFER_OK;
}

static void put_u64(struct buf *b, uint64_t v)
{
    buf_put(b, &v, sizeof v);
}

static infer_status put_matrix(struct adapter_reader *r, struct buf *b, const struct adapter_matrix *m, const char *name)
{
    struct hash_128 h = {0, 0};
    infer_status st = adapter_digest(r, m, name, &h);
    put_u64(b, (uint64_t)m->type);
    put_u64(b, m->n_rows);
    put_u64(b, m->n_cols);
    put_u64(b, h.lo);
    put_u64(b, h.hi);
    return st;
}

static infer_status put_target(struct adapter_reader *r, struct buf *b, const struct adapter_target *t)
{
    uint32_t scale;
    memcpy(&scale, &t->scale, 4);
    put_u64(b, strlen(t->name));
    buf_puts(b, t->name);
    put_u64(b, scale);
    infer_status st = put_matrix(r, b, &t->a, t->stored);
    return st == INFER_OK ? put_matrix(r, b, &t->b, t->name) : st;
}

static infer_status put_all(struct adapter_reader *r, struct buf *b)
{
    const struct infer_adapter *a = r->a;
    infer_status st = INFER_OK;
    const uint64_t head[] = {1 /* of this list of fields */, (uint64_t)a->kind, (uint64_t)a->order, a->n_targets, a->n_invocation,
                             a->n_directions, a->kind == ADAPTER_PREFIX ? a->n_layers : 0, a->width, a->n_kv, a->n_head_kv};
    buf_put(b, head, sizeof head);
    buf_put(b, a->invocation ? a->invocation : (const void *)"", a->n_invocation * sizeof *a->invocation);
    for (uint64_t i = 0; i < a->n_targets && st == INFER_OK; i++)
        st = put_target(r, b, &a->targets[i]);
    for (uint32_t i = 0; i < a->n_directions && st == INFER_OK; i++) {
        put_u64(b, a->directions[i].layer);
        st = put_matrix(r, b, &a->directions[i].v, a->directions[i].stored);
    }
    if (st == INFER_OK && a->rows.data)
        st = put_matrix(r, b, &a->rows, "prompt_embeddings");
    return st;
}

infer_status adapter_hash(struct adapter_reader *r)
{
    struct buf b;
    buf_init(&b, &r->a->env->alloc, 0);
    infer_status st = put_all(r, &b);
    if (st == INFER_OK && !buf_ok(&b))
        st = err_no_memory(r->err);
    if (st == INFER_OK) {
        r->a->hash = hash_128(b.data, b.len, 0);
        if (!r->a->hash.lo && !r->a->hash.hi)
            r->a->hash.lo = 1; /* 0 stands for no adapter */
    }
    buf_free(&b);
    return st;
}
