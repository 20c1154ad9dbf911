#define _DEFAULT_SOURCE
#include "recording_device.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/dtype.h"

#define MAX_BUFFERS 65536u
#define HANDLE_BYTES 16u
#define FILL_LIMIT (64u << 20)

struct slot {
    struct dev_buffer *inner;
    uint64_t bytes;
    int live, imported;
};

struct recorder {
    struct device base;
    struct device *inner;
    char *handles; /* no access; buffer i is handles + i * HANDLE_BYTES */
    struct slot *slots;
    uint32_t n_slots;
    pthread_mutex_t mutex; /* of the slots */
    struct recorded_call *calls;
    uint64_t room;
    struct recording r;
    uint64_t reported; /* errors that sync has told */
    int bad;           /* the call in progress is unsound */
    uint64_t ahead;    /* elements behind a row's own that it may see */
    const char *op;
};

static struct recorder *rec(const struct device *d)
{
    return (struct recorder *)(uintptr_t)d;
}

static void record(struct recorder *r, const char *name, const char *fmt, ...) BASE_PRINTF(3, 4);
static void unsound(struct recorder *r, const char *fmt, ...) BASE_PRINTF(2, 3);

static void record(struct recorder *r, const char *name, const char *fmt, ...)
{
    r->op = name;
    r->bad = 0;
    if (r->r.n_calls == r->room) {
        uint64_t room = r->room * 2 + 256;
        void *p = realloc(r->calls, room * sizeof *r->calls);
        if (!p)
            return;
        r->calls = p;
        r->room = room;
        r->r.calls = p;
    }
    struct recorded_call *c = &r->calls[r->r.n_calls++];
    va_list args;
    va_start(args, fmt);
    c->name = name;
    vsnprintf(c->text, sizeof c->text, fmt, args);
    va_end(args);
}

static void unsound(struct recorder *r, const char *fmt, ...)
{
    r->bad = 1;
    if (r->r.n_errors++ > 0)
        return;
    int n = snprintf(r->r.first_error, sizeof r->r.first_error, "call %llu, %s: ", (unsigned long long)r->r.n_calls, r->op);
    va_list args;
    va_start(args, fmt);
    vsnprintf(r->r.first_error + n, sizeof r->r.first_error - (size_t)n, fmt, args);
    va_end(args);
}

static struct slot *slot_of(struct recorder *r, const struct dev_buffer *b)
{
    uintptr_t at = (uintptr_t)b - (uintptr_t)r->handles;
    if (at % HANDLE_BYTES || at / HANDLE_BYTES >= r->n_slots)
        return NULL;
    return &r->slots[at / HANDLE_BYTES];
}

/* Checks that `bytes` from ref are there, aligned to `align`, and gives the wrapped device's reference. */
static struct dev_ref use(struct recorder *r, struct dev_ref ref, uint64_t bytes, uint64_t align, int write, const char *what)
{
    struct dev_ref none = {NULL, 0};
    pthread_mutex_lock(&r->mutex);
    struct slot *s = ref.buf ? slot_of(r, ref.buf) : NULL, copy = {0};
    if (s)
        copy = *s;
    pthread_mutex_unlock(&r->mutex);
    if (!s)
        unsound(r, "%s: %s", what, ref.buf ? "not a buffer of this device" : "absent");
    else if (!copy.live)
        unsound(r, "%s: the buffer was freed", what);
    else if (ref.off > copy.bytes || bytes > copy.bytes - ref.off)
        unsound(r, "%s: %llu bytes at %llu of %llu", what, (unsigned long long)bytes, (unsigned long long)ref.off,
                (unsigned long long)copy.bytes);
    else if (ref.off % align)
        unsound(r, "%s: offset %llu is not a multiple of %llu", what, (unsigned long long)ref.off, (unsigned long long)align);
    else if (write && copy.imported)
        unsound(r, "%s: written, but imported", what);
    else
        return (struct dev_ref){copy.inner, ref.off};
    return none;
}

static struct dev_ref use_f32(struct recorder *r, struct dev_ref ref, uint64_t n, int write, const char *what)
{
    return use(r, ref, n * 4, 4, write, what);
}

/* Rows of `width` floats, `stride` apart. */
static struct dev_ref use_rows(struct recorder *r, struct dev_ref ref, uint64_t n_row, uint64_t width, uint64_t stride, int write,
                               const char *what)
{
    if (stride < width && n_row > 1)
        unsound(r, "%s: stride %llu is less than the width %llu", what, (unsigned long long)stride, (unsigned long long)width);
    return use_f32(r, ref, n_row ? (n_row - 1) * stride + width : 0, write, what);
}

static struct dev_ref optional(struct recorder *r, struct dev_ref ref, uint64_t n, const char *what)
{
    return ref.buf ? use_f32(r, ref, n, 0, what) : ref;
}

static struct dev_weight use_weight(struct recorder *r, struct dev_weight w, const char *what)
{
    uint64_t row = 0;
    if (!w.n_in || !w.n_out || !dtype_size(w.type, w.n_in, &row) || w.row_bytes < row)
        unsound(r, "%s: type %d, %u inputs, %u outputs, %llu bytes a row", what, (int)w.type, w.n_in, w.n_out,
                (unsigned long long)w.row_bytes);
    else
        w.data = use(r, w.data, (w.n_out - 1) * w.row_bytes + row, 1, 0, what);
    return w;
}

/* ---- memory */

static infer_status new_slot(struct recorder *r, struct dev_buffer *inner, uint64_t bytes, int imported, struct dev_buffer **out,
                             infer_error *err)
{
    pthread_mutex_lock(&r->mutex);
    int full = r->n_slots == MAX_BUFFERS;
    if (!full) {
        r->slots[r->n_slots] = (struct slot){inner, bytes, 1, imported};
        *out = (struct dev_buffer *)(void *)(r->handles + (size_t)r->n_slots++ * HANDLE_BYTES);
        r->r.live_buffers++;
        r->r.allocated += imported ? 0 : bytes;
    }
    pthread_mutex_unlock(&r->mutex);
    if (!full)
        return INFER_OK;
    r->inner->ops->free(r->inner, inner);
    return err_set(err, INFER_ERROR_LIMIT, "the recording device has no more handles");
}

static infer_status op_alloc(struct device *d, uint64_t bytes, struct dev_buffer **out, infer_error *err)
{
    struct recorder *r = rec(d);
    struct dev_buffer *inner = NULL;
    infer_status s = r->inner->ops->alloc(r->inner, bytes, &inner, err);
    if (s)
        return s;
    unsigned char nan[4096];
    memset(nan, 0xFF, sizeof nan);
    for (uint64_t at = 0; at < bytes && bytes <= FILL_LIMIT; at += sizeof nan)
        r->inner->ops->write(r->inner, (struct dev_ref){inner, at}, nan, bytes - at < sizeof nan ? bytes - at : sizeof nan);
    return new_slot(r, inner, bytes, 0, out, err);
}

static infer_status op_import(struct device *d, const void *host, uint64_t bytes, struct dev_buffer **out, infer_error *err)
{
    struct recorder *r = rec(d);
    struct dev_buffer *inner = NULL;
    infer_status s = r->inner->ops->import(r->inner, host, bytes, &inner, err);
    return s ? s : new_slot(r, inner, bytes, 1, out, err);
}

static void op_free(struct device *d, struct dev_buffer *buf)
{
    struct recorder *r = rec(d);
    if (!buf)
        return;
    pthread_mutex_lock(&r->mutex);
    struct slot *s = slot_of(r, buf);
    struct dev_buffer *inner = s && s->live ? s->inner : NULL;
    if (inner) {
        s->live = 0;
        r->r.live_buffers--;
        r->r.allocated -= s->imported ? 0 : s->bytes;
    } else {
        r->op = "free";
        unsound(r, "not a live buffer");
    }
    pthread_mutex_unlock(&r->mutex);
    r->inner->ops->free(r->inner, inner);
}

static void op_write(struct device *d, struct dev_ref dst, const void *host, uint64_t bytes)
{
    struct recorder *r = rec(d);
    record(r, "write", "bytes %llu", (unsigned long long)bytes);
    dst = use(r, dst, bytes, 1, 1, "dst");
    if (!r->bad)
        r->inner->ops->write(r->inner, dst, host, bytes);
}

static void op_read(struct device *d, void *host, struct dev_ref src, uint64_t bytes)
{
    struct recorder *r = rec(d);
    record(r, "read", "bytes %llu", (unsigned long long)bytes);
    src = use(r, src, bytes, 1, 0, "src");
    if (!r->bad)
        r->inner->ops->read(r->inner, host, src, bytes);
}

static void op_read_rows(struct device *d, float *const *host, struct dev_ref src, uint32_t n_row, uint32_t width, bool *finite)
{
    struct recorder *r = rec(d);
    record(r, "read_rows", "rows %u width %u", n_row, width);
    if (n_row > DEV_READ_ROWS)
        unsound(r, "%u rows", n_row);
    src = use_f32(r, src, (uint64_t)n_row * width, 0, "src");
    if (!r->bad)
        r->inner->ops->read_rows(r->inner, host, src, n_row, width, finite);
}

static void op_copy(struct device *d, struct dev_ref dst, struct dev_ref src, uint64_t bytes)
{
    struct recorder *r = rec(d);
    record(r, "copy", "bytes %llu", (unsigned long long)bytes);
    dst = use(r, dst, bytes, 1, 1, "dst");
    src = use(r, src, bytes, 1, 0, "src");
    if (!r->bad)
        r->inner->ops->copy(r->inner, dst, src, bytes);
}

static void op_copy_rows(struct device *d, struct dev_ref dst, uint32_t dst_stride, struct dev_ref src, uint32_t src_stride, uint32_t n_row,
                         uint32_t width)
{
    struct recorder *r = rec(d);
    record(r, "copy_rows", "rows %u width %u", n_row, width);
    dst = use_rows(r, dst, n_row, width, dst_stride, 1, "dst");
    src = use_rows(r, src, n_row, width, src_stride, 0, "src");
    if (!r->bad)
        r->inner->ops->copy_rows(r->inner, dst, dst_stride, src, src_stride, n_row, width);
}

/* ---- operations */

static void op_embed(struct device *d, struct dev_ref dst, const struct dev_weight *w, const uint32_t *ids, uint32_t n_row, float scale,
                     int add)
{
    struct recorder *r = rec(d);
    record(r, "embed", "rows %u type %d width %u add %d", n_row, (int)w->type, w->n_in, add);
    struct dev_weight iw = use_weight(r, *w, "weight");
    dst = use_f32(r, dst, (uint64_t)n_row * w->n_in, 1, "dst");
    for (uint32_t i = 0; i < n_row; i++)
        if (ids[i] >= w->n_out)
            unsound(r, "id %u of %u", ids[i], w->n_out);
    if (!r->bad)
        r->inner->ops->embed(r->inner, dst, &iw, ids, n_row, scale, add);
}

static void op_norm(struct device *d, const struct dev_norm *op)
{
    struct recorder *r = rec(d);
    struct dev_norm o = *op;
    record(r, "norm", "kind %d outer %u inner %u width %u bias %d", (int)o.kind, o.n_outer, o.n_inner, o.width, o.bias.buf != NULL);
    uint64_t width = (uint64_t)o.n_inner * o.width;
    o.dst = use_rows(r, o.dst, o.n_outer, width, o.dst_stride, 1, "dst");
    o.src = use_rows(r, o.src, o.n_outer, width, o.src_stride, o.add.buf != NULL, "src");
    if (o.add.buf)
        o.add = use_rows(r, o.add, o.n_outer, width, o.src_stride, 0, "add");
    o.weight = use_f32(r, o.weight, o.width, 0, "weight");
    o.bias = optional(r, o.bias, o.width, "bias");
    if (!r->bad)
        r->inner->ops->norm(r->inner, &o);
}

/* A checked copy of a product's addends; NULL: none, or no memory. */
static struct dev_addend *use_addends(struct recorder *r, const struct dev_matmul *op, uint32_t n_row)
{
    struct dev_addend *out = op->n_addends ? calloc(op->n_addends, sizeof *out) : NULL;
    for (uint32_t i = 0; i < op->n_addends && out; i++) {
        struct dev_addend a = op->addends[i];
        if (a.w.n_out != op->w.n_out || a.w.n_in > DEV_MAX_ADDEND || a.row > n_row || a.n_row > n_row - a.row)
            unsound(r, "addend %u has %u outputs of %u, rows %u and %u of %u", i, a.w.n_out, op->w.n_out, a.row, a.n_row, n_row);
        a.w = use_weight(r, a.w, "addend");
        a.src = use_rows(r, a.src, a.row + a.n_row, a.w.n_in, a.src_stride, 0, "addend's src");
        out[i] = a;
    }
    return out;
}

static void op_matmul(struct device *d, struct dev_ref src, uint32_t src_stride, uint32_t n_row, const struct dev_matmul *ops, uint32_t n_ops)
{
    struct recorder *r = rec(d);
    struct dev_matmul *o = calloc(n_ops + 1, sizeof *o);
    record(r, "matmul", "rows %u in %u ops %u: type %d out %u", n_row, n_ops ? ops[0].w.n_in : 0, n_ops, n_ops ? (int)ops[0].w.type : -1,
           n_ops ? ops[0].w.n_out : 0);
    if (!n_ops || !o)
        unsound(r, "no product");
    for (uint32_t i = 0; i < n_ops && o; i++) {
        o[i] = ops[i];
        if (ops[i].w.n_in != ops[0].w.n_in)
            unsound(r, "product %u has %u inputs, the first %u", i, ops[i].w.n_in, ops[0].w.n_in);
        if (!cpu_device_can_multiply(ops[i].w.type))
            unsound(r, "type %d cannot be multiplied", (int)ops[i].w.type);
        o[i].w = use_weight(r, ops[i].w, "weight");
        o[i].bias = optional(r, ops[i].bias, ops[i].w.n_out, "bias");
        o[i].dst = use_rows(r, ops[i].dst, n_row, ops[i].w.n_out, ops[i].dst_stride, 1, "dst");
        if (ops[i].dst.buf == src.buf && ops[i].dst.off == src.off && n_row)
            unsound(r, "product %u overwrites its source", i);
        if (ops[i].n_row && (ops[i].row > n_row || ops[i].n_row > n_row - ops[i].row))
            unsound(r, "product %u is for rows %u and %u of %u", i, ops[i].row, ops[i].n_row, n_row);
        o[i].addends = use_addends(r, &ops[i], n_row);
        o[i].n_addends = o[i].addends ? ops[i].n_addends : 0;
    }
    src = use_rows(r, src, n_row, n_ops ? ops[0].w.n_in : 0, src_stride, 0, "src");
    if (!r->bad)
        r->inner->ops->matmul(r->inner, src, src_stride, n_row, o, n_ops);
    for (uint32_t i = 0; i < n_ops && o; i++)
        free((void *)(uintptr_t)o[i].addends);
    free(o);
}

static void op_matmul_parts(struct device *d, const struct dev_rows *src, const struct dev_part *parts, uint32_t n_parts)
{
    struct recorder *r = rec(d);
    struct dev_rows rows = *src;
    struct dev_part *o = calloc(n_parts + 1, sizeof *o);
    uint64_t in = n_parts ? parts[0].w.n_in : 0, group = src->n_row ? (uint64_t)(src->n_row - 1) * src->row_stride + in : 0;
    record(r, "matmul_parts", "groups %u rows %u in %u parts %u: type %d out %u", src->n_group, src->n_row, (unsigned)in, n_parts,
           n_parts ? (int)parts[0].w.type : -1, n_parts ? parts[0].w.n_out : 0);
    if (!n_parts || !o || !src->n_group || !src->n_row)
        unsound(r, "no product");
    for (uint32_t i = 0; i < n_parts && !r->bad; i++) {
        o[i] = parts[i];
        uint64_t end = (uint64_t)parts[i].first_row + parts[i].n_row;
        if (!parts[i].n_row || end > (uint64_t)src->n_group * src->n_row || parts[i].first_row / src->n_row != (end - 1) / src->n_row)
            unsound(r, "part %u takes rows %u to %llu", i, parts[i].first_row, (unsigned long long)end);
        if (parts[i].w.n_in != in || !cpu_device_can_multiply(parts[i].w.type))
            unsound(r, "part %u: %u inputs, type %d", i, parts[i].w.n_in, (int)parts[i].w.type);
        o[i].w = use_weight(r, parts[i].w, "weight");
        o[i].dst = use_rows(r, parts[i].dst, parts[i].n_row, parts[i].w.n_out, parts[i].dst_stride, 1, "dst");
    }
    rows.src = use_f32(r, src->src, src->n_group ? (uint64_t)(src->n_group - 1) * src->group_stride + group : 0, 0, "src");
    if (!r->bad)
        r->inner->ops->matmul_parts(r->inner, &rows, o, n_parts);
    free(o);
}

static void op_combine(struct device *d, const struct dev_combine *op)
{
    struct recorder *r = rec(d);
    struct dev_combine o = *op;
    uint64_t most = 0, n = (uint64_t)op->n_row * op->n_each;
    record(r, "combine", "rows %u each %u width %u add %d", op->n_row, op->n_each, op->width, op->add);
    for (uint64_t i = 0; i < n; i++)
        most = op->rows[i] + 1ull > most ? op->rows[i] + 1ull : most;
    o.dst = use_f32(r, op->dst, (uint64_t)op->n_row * op->width, 1, "dst");
    o.src = use_f32(r, op->src, most * op->width, 1, "src");
    if (!op->n_each)
        unsound(r, "nothing to combine");
    if (!r->bad)
        r->inner->ops->combine(r->inner, &o);
}

static void op_will_need(struct device *d, struct dev_ref ref, uint64_t bytes)
{
    struct recorder *r = rec(d);
    record(r, "will_need", "bytes %llu", (unsigned long long)bytes);
    ref = use(r, ref, bytes, 1, 0, "ref");
    if (!r->bad)
        r->inner->ops->will_need(r->inner, ref, bytes);
}

static void op_rope_table(struct device *d, struct dev_ref table, struct dev_ref inv_freq, uint32_t n_half, const uint32_t *positions,
                          uint32_t n_row, float mscale)
{
    struct recorder *r = rec(d);
    record(r, "rope_table", "rows %u half %u", n_row, n_half);
    table = use_f32(r, table, 2ull * n_row * n_half, 1, "table");
    inv_freq = use_f32(r, inv_freq, n_half, 0, "inv_freq");
    if (!r->bad)
        r->inner->ops->rope_table(r->inner, table, inv_freq, n_half, positions, n_row, mscale);
}

static void op_rope(struct device *d, const struct dev_rope *op)
{
    struct recorder *r = rec(d);
    struct dev_rope o = *op;
    record(r, "rope", "kind %d rows %u heads %u head_dim %u rot %u", (int)o.kind, o.n_row, o.n_head, o.head_dim, o.n_rot);
    if (o.n_rot > o.head_dim || o.n_rot % 2)
        unsound(r, "n_rot %u of %u", o.n_rot, o.head_dim);
    o.x = use_rows(r, o.x, o.n_row, (uint64_t)o.n_head * o.head_dim, o.stride, 1, "x");
    o.table = use_f32(r, o.table, (uint64_t)o.n_row * o.n_rot, 0, "table");
    if (!r->bad)
        r->inner->ops->rope(r->inner, &o);
}

static uint64_t kv_bytes(const struct dev_kv *kv)
{
    return kv->n_head_kv * dev_kv_head_bytes(kv->type, kv->head_dim);
}

/* The wrapped device's pages of the elements [lo, hi) into out. */
static void use_pages(struct recorder *r, const struct dev_kv *kv, const struct dev_seq *seq, uint64_t lo, uint64_t hi, int write,
                      struct dev_ref *out)
{
    for (uint64_t p = lo / DEV_KV_PAGE; p * DEV_KV_PAGE < hi; p++) {
        (void)use(r, dev_at(seq->pages[p], kv->k_off), kv_bytes(kv), 64, write, "K of a page");
        struct dev_ref v = use(r, dev_at(seq->pages[p], kv->v_off), kv_bytes(kv), 64, write, "V of a page");
        out[p] = (struct dev_ref){v.buf, seq->pages[p].off};
    }
}

/* Copies of the sequences with room for the wrapped device's pages; freed by drop_seqs. */
static struct dev_seq *copy_seqs(struct recorder *r, const struct dev_seq *seqs, uint32_t n)
{
    struct dev_seq *copy = calloc(n + 1, sizeof *copy);
    uint64_t row = 0;
    for (uint32_t i = 0; copy && i < n; i++) {
        copy[i] = seqs[i];
        copy[i].pages = calloc((seqs[i].index + seqs[i].n_row + r->ahead) / DEV_KV_PAGE + 1, sizeof *copy[i].pages);
        if (seqs[i].row < row)
            unsound(r, "sequence %u begins at row %u, inside the one before", i, seqs[i].row);
        row = (uint64_t)seqs[i].row + seqs[i].n_row;
        if (!copy[i].pages)
            unsound(r, "no memory");
    }
    return copy;
}

static void drop_seqs(struct dev_seq *seqs, uint32_t n)
{
    for (uint32_t i = 0; seqs && i < n; i++)
        free((void *)(uintptr_t)seqs[i].pages);
    free(seqs);
}

static uint64_t rows_of(const struct dev_seq *seqs, uint32_t n)
{
    return n ? (uint64_t)seqs[n - 1].row + seqs[n - 1].n_row : 0;
}

static void check_kv(struct recorder *r, const struct dev_kv *kv)
{
    if (!kv->n_head_kv || !kv->head_dim || kv->head_dim % DEV_HEAD_DIM_STEP || kv->head_dim > DEV_MAX_HEAD_DIM || kv->type < INFER_KV_F16
        || kv->type > INFER_KV_INT8_64)
        unsound(r, "KV type %d, %u heads of %u", (int)kv->type, kv->n_head_kv, kv->head_dim);
}

static void op_kv_write(struct device *d, const struct dev_kv *kv, struct dev_ref k, uint32_t k_stride, struct dev_ref v, uint32_t v_stride,
                        const struct dev_seq *seqs, uint32_t n_seq)
{
    struct recorder *r = rec(d);
    record(r, "kv_write", "type %d heads %u head_dim %u seqs %u rows %llu", (int)kv->type, kv->n_head_kv, kv->head_dim, n_seq,
           (unsigned long long)rows_of(seqs, n_seq));
    check_kv(r, kv);
    struct dev_seq *copy = copy_seqs(r, seqs, n_seq);
    uint64_t width = (uint64_t)kv->n_head_kv * kv->head_dim;
    k = use_rows(r, k, rows_of(seqs, n_seq), width, k_stride, 0, "k");
    v = dev_kv_is_shared(kv) ? (struct dev_ref){NULL, 0} : use_rows(r, v, rows_of(seqs, n_seq), width, v_stride, 0, "v");
    for (uint32_t i = 0; i < n_seq && !r->bad; i++)
        use_pages(r, kv, &seqs[i], seqs[i].index, seqs[i].index + seqs[i].n_row, 1, (struct dev_ref *)(uintptr_t)copy[i].pages);
    if (!r->bad)
        r->inner->ops->kv_write(r->inner, kv, k, k_stride, v, v_stride, copy, n_seq);
    drop_seqs(copy, n_seq);
}

static void op_attention(struct device *d, const struct dev_attention *op)
{
    struct recorder *r = rec(d);
    struct dev_attention o = *op;
    uint64_t rows = rows_of(op->seqs, op->n_seq), width = (uint64_t)op->n_head * op->kv.head_dim;
    record(r, "attention", "rows %llu heads %u kv heads %u head_dim %u seqs %u softcap %d", (unsigned long long)rows, o.n_head,
           o.kv.n_head_kv, o.kv.head_dim, o.n_seq, o.softcap != 0);
    check_kv(r, &o.kv);
    if (o.kv.n_head_kv && (!o.n_head || o.n_head % o.kv.n_head_kv))
        unsound(r, "%u heads on %u KV heads", o.n_head, o.kv.n_head_kv);
    struct dev_seq *copy = copy_seqs(r, op->seqs, op->n_seq), *exact = op->exact.pages ? copy_seqs(r, op->exact.seqs, op->n_seq) : NULL;
    o.dst = use_rows(r, op->dst, rows, width, op->dst_stride, 1, "dst");
    o.q = use_rows(r, op->q, rows, width, op->q_stride, 0, "q");
    o.seqs = copy;
    o.exact.seqs = exact;
    for (uint32_t i = 0; i < op->n_seq && !r->bad; i++) {
        const struct dev_seq *s = &op->seqs[i];
        for (uint32_t row = s->row; row < s->row + s->n_row; row++) {
            if (op->lo[row] >= op->hi[row] || op->hi[row] > s->index + s->n_row + r->ahead)
                unsound(r, "row %u sees %llu to %llu of %llu", row, (unsigned long long)op->lo[row], (unsigned long long)op->hi[row],
                        (unsigned long long)(s->index + s->n_row));
            else
                use_pages(r, &op->kv, s, op->lo[row], op->hi[row], 0, (struct dev_ref *)(uintptr_t)copy[i].pages);
            if (exact && !r->bad) {
                uint64_t from = op->exact.pages[row] * DEV_KV_PAGE;
                from = from > op->lo[row] ? from : op->lo[row];
                use_pages(r, &op->exact.kv, &op->exact.seqs[i], from, op->hi[row], 0, (struct dev_ref *)(uintptr_t)exact[i].pages);
            }
        }
    }
    if (!r->bad)
        r->inner->ops->attention(r->inner, &o);
    drop_seqs(copy, op->n_seq);
    drop_seqs(exact, op->n_seq);
}

static void op_kv_move(struct device *d, const struct dev_kv_move *op)
{
    struct recorder *r = rec(d);
    struct dev_kv_move o = *op;
    record(r, "kv_move", "type %d heads %u head_dim %u elements %llu delta %lld", (int)o.kv.type, o.kv.n_head_kv, o.kv.head_dim,
           (unsigned long long)o.n, (long long)o.delta);
    check_kv(r, &o.kv);
    if (o.n_rot > o.kv.head_dim || o.n_rot % 2 || o.delta > UINT32_MAX || o.delta < -(int64_t)UINT32_MAX)
        unsound(r, "n_rot %u of %u, delta %lld", o.n_rot, o.kv.head_dim, (long long)o.delta);
    if (o.delta)
        o.inv_freq = use_f32(r, o.inv_freq, o.n_rot / 2, 0, "inv_freq");
    struct dev_seq both[2] = {{0, 0, op->src + op->n, op->src_pages}, {0, 0, op->dst + op->n, op->dst_pages}}, *copy = copy_seqs(r, both, 2);
    for (int i = 0; i < 2 && !r->bad; i++)
        use_pages(r, &o.kv, &both[i], i ? o.dst : o.src, both[i].index, i, (struct dev_ref *)(uintptr_t)copy[i].pages);
    if (!r->bad) {
        o.src_pages = copy[0].pages;
        o.dst_pages = copy[1].pages;
        r->inner->ops->kv_move(r->inner, &o);
    }
    drop_seqs(copy, 2);
}

static void op_act(struct device *d, enum dev_act act, struct dev_ref dst, struct dev_ref gate, struct dev_ref up, uint32_t n_row,
                   uint32_t width, uint32_t stride)
{
    struct recorder *r = rec(d);
    record(r, "act", "kind %d rows %u width %u gated %d", (int)act, n_row, width, up.buf != NULL);
    dst = use_rows(r, dst, n_row, width, stride, 1, "dst");
    gate = use_rows(r, gate, n_row, width, stride, 0, "gate");
    if (up.buf)
        up = use_rows(r, up, n_row, width, stride, 0, "up");
    if (!r->bad)
        r->inner->ops->act(r->inner, act, dst, gate, up, n_row, width, stride);
}

static void op_add(struct device *d, struct dev_ref dst, struct dev_ref src, uint64_t n)
{
    struct recorder *r = rec(d);
    record(r, "add", "n %llu", (unsigned long long)n);
    dst = use_f32(r, dst, n, 1, "dst");
    src = use_f32(r, src, n, 0, "src");
    if (!r->bad)
        r->inner->ops->add(r->inner, dst, src, n);
}

static void op_scale(struct device *d, struct dev_ref x, uint64_t n, float factor)
{
    struct recorder *r = rec(d);
    record(r, "scale", "n %llu", (unsigned long long)n);
    x = use_f32(r, x, n, 1, "x");
    if (!r->bad)
        r->inner->ops->scale(r->inner, x, n, factor);
}

static void op_softcap(struct device *d, struct dev_ref x, uint64_t n, float cap)
{
    struct recorder *r = rec(d);
    record(r, "softcap", "n %llu", (unsigned long long)n);
    x = use_f32(r, x, n, 1, "x");
    if (!r->bad)
        r->inner->ops->softcap(r->inner, x, n, cap);
}

static void op_gather(struct device *d, struct dev_ref dst, struct dev_ref src, const uint32_t *rows, uint32_t n, uint32_t width)
{
    struct recorder *r = rec(d);
    uint64_t most = 0;
    record(r, "gather", "rows %u width %u", n, width);
    for (uint32_t i = 0; i < n; i++)
        most = rows[i] + 1ull > most ? rows[i] + 1ull : most;
    dst = use_f32(r, dst, (uint64_t)n * width, 1, "dst");
    src = use_f32(r, src, most * width, 0, "src");
    if (!r->bad)
        r->inner->ops->gather(r->inner, dst, src, rows, n, width);
}

static void op_steer(struct device *d, const struct dev_steer *op)
{
    struct recorder *r = rec(d);
    struct dev_steer o = *op;
    record(r, "steer", "kind %d rows %u width %u", (int)o.kind, o.n_row, o.width);
    o.x = use_f32(r, o.x, (uint64_t)o.n_row * o.width, 1, "x");
    o.v = use_f32(r, o.v, o.width, 0, "v");
    if (!r->bad)
        r->inner->ops->steer(r->inner, &o);
}

static infer_status op_sync(struct device *d, infer_error *err)
{
    struct recorder *r = rec(d);
    record(r, "sync", "%s", "");
    infer_status s = r->inner->ops->sync(r->inner, err);
    int news = r->r.n_errors > r->reported;
    r->reported = r->r.n_errors;
    return news ? err_set(err, INFER_ERROR_INTERNAL, "recording device: %s", r->r.first_error) : s;
}

static void op_watch(struct device *d, dev_stop_fn stop, void *user)
{
    rec(d)->inner->ops->watch(rec(d)->inner, stop, user);
}

static bool op_stopped(struct device *d)
{
    return rec(d)->inner->ops->stopped(rec(d)->inner);
}

static void op_destroy(struct device *d)
{
    struct recorder *r = rec(d);
    for (uint32_t i = 0; i < r->n_slots; i++)
        if (r->slots[i].live)
            r->inner->ops->free(r->inner, r->slots[i].inner);
    r->inner->ops->destroy(r->inner);
    munmap(r->handles, (size_t)MAX_BUFFERS * HANDLE_BYTES);
    pthread_mutex_destroy(&r->mutex);
    free(r->slots);
    free(r->calls);
    free(r);
}

static const struct device_ops recording_ops = {
    .name = "recording",
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
    .matmul = op_matmul,
    .matmul_parts = op_matmul_parts,
    .combine = op_combine,
    .will_need = op_will_need,
    .rope_table = op_rope_table,
    .rope = op_rope,
    .kv_write = op_kv_write,
    .kv_move = op_kv_move,
    .attention = op_attention,
    .act = op_act,
    .add = op_add,
    .scale = op_scale,
    .softcap = op_softcap,
    .gather = op_gather,
    .steer = op_steer,
    .sync = op_sync,
    .watch = op_watch,
    .stopped = op_stopped,
};

struct device *recording_device_create(struct device *inner)
{
    struct recorder *r = calloc(1, sizeof *r);
    struct slot *slots = calloc(MAX_BUFFERS, sizeof *slots);
    void *handles = mmap(NULL, (size_t)MAX_BUFFERS * HANDLE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!r || !slots || handles == MAP_FAILED) {
        free(r);
        free(slots);
        if (handles != MAP_FAILED)
            munmap(handles, (size_t)MAX_BUFFERS * HANDLE_BYTES);
        return NULL;
    }
    r->base.ops = &recording_ops;
    r->inner = inner;
    r->handles = handles;
    r->slots = slots;
    r->op = "none";
    pthread_mutex_init(&r->mutex, NULL);
    return &r->base;
}

const struct recording *recording_of(const struct device *d)
{
    return &rec(d)->r;
}

struct device *recording_inner(const struct device *d)
{
    return rec(d)->inner;
}

void recording_allow_ahead(struct device *d)
{
    rec(d)->ahead = 1u << 16;
}

void recording_clear(struct device *d)
{
    struct recorder *r = rec(d);
    r->r.n_calls = r->r.n_errors = r->reported = 0;
    r->r.first_error[0] = 0;
}

uint64_t recording_count(const struct device *d, const char *name)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < rec(d)->r.n_calls; i++)
        n += strcmp(rec(d)->calls[i].name, name) == 0;
    return n;
}
