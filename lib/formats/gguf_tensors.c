/* The tensor directory: shapes, sizes and places, all untrusted. */
#include "base/checked.h"
#include "base/dtype.h"
#include "formats/gguf.h"

#define MIN_ENTRY 25 /* bytes of the shortest entry: name length 8 + name 1 + dimension count 4 + type 4 + offset 8 */

static infer_status read_shape(struct gguf_reader *r, struct file_tensor *t)
{
    uint64_t at = r->c->pos;
    uint32_t n = cursor_u32(r->c);
    if (r->c->bad)
        return gguf_truncated(r, at);
    if (n > FILE_MAX_DIMS)
        return GGUF_FAIL(r, INFER_ERROR_FORMAT, at, "tensor has %lu dimensions (at most %d)", (unsigned long)n,
                         FILE_MAX_DIMS);
    t->n_dims = n ? n : 1;
    t->n = 1;
    for (uint32_t i = 0; i < FILE_MAX_DIMS; i++) {
        at = r->c->pos;
        t->dims[i] = i < n ? cursor_u64(r->c) : 1;
        if (r->c->bad)
            return gguf_truncated(r, at);
        if (t->dims[i] == 0 || t->dims[i] > INT64_MAX)
            return GGUF_FAIL(r, INFER_ERROR_FORMAT, at, "tensor dimension %lu is zero or negative", (unsigned long)i);
        if (!checked_mul(t->n, t->dims[i], &t->n) || t->n > INT64_MAX)
            return GGUF_FAIL(r, INFER_ERROR_FORMAT, at, "tensor has too many elements");
    }
    return INFER_OK;
}

static infer_status read_type(struct gguf_reader *r, struct file_tensor *t)
{
    uint64_t at = r->c->pos;
    uint32_t type = cursor_u32(r->c);
    if (r->c->bad)
        return gguf_truncated(r, at);
    const struct dtype *d = type >= DTYPE_OTHER ? NULL : dtype_of((int32_t)type);
    if (!d)
        return GGUF_FAIL(r, INFER_ERROR_UNSUPPORTED, at, "unknown tensor type %lu", (unsigned long)type);
    t->type = (int32_t)type;
    if (t->dims[0] % d->block)
        return GGUF_FAIL(r, INFER_ERROR_FORMAT, at, "rows of %llu elements are not whole blocks of %s (%d elements)",
                         (unsigned long long)t->dims[0], d->name, (int)d->block);
    if (!dtype_size(t->type, t->n, &t->bytes))
        return GGUF_FAIL(r, INFER_ERROR_FORMAT, at, "the tensor's size in bytes overflows");
    return INFER_OK;
}

static infer_status read_entry(struct gguf_reader *r, struct file_tensor *t)
{
    infer_status st = gguf_read_name(r, FILE_MAX_NAME, &t->name);
    if (st == INFER_OK)
        st = read_shape(r, t);
    if (st == INFER_OK)
        st = read_type(r, t);
    if (st != INFER_OK)
        return st;
    uint64_t at = r->c->pos;
    t->offset = cursor_u64(r->c);
    return r->c->bad ? gguf_truncated(r, at) : INFER_OK;
}

/* Makes an offset into the data section one into the part. */
static infer_status place(struct gguf_reader *r, struct file_tensor *t, uint64_t start, uint64_t alignment)
{
    uint64_t end;
    r->name = t->name.data;
    r->name_len = (size_t)t->name.len;
    if (t->offset % alignment)
        return GGUF_FAIL(r, INFER_ERROR_FORMAT, t->offset, "the tensor's offset in the data, %llu, is not a multiple of %llu",
                         (unsigned long long)t->offset, (unsigned long long)alignment);
    if (!checked_add(t->offset, start, &t->offset) || !checked_add(t->offset, t->bytes, &end))
        return GGUF_FAIL(r, INFER_ERROR_FORMAT, start, "the tensor's end overflows");
    if (end > r->c->len)
        return GGUF_FAIL(r, INFER_ERROR_TRUNCATED, t->offset,
                         "the tensor's data ends at byte %llu, but the file has %llu", (unsigned long long)end,
                         (unsigned long long)r->c->len);
    t->data = r->c->data + t->offset;
    return INFER_OK;
}

/* Tensors in the order of their offsets must follow one another. */
static infer_status check_order(void *arg, const struct file_tensor *before, const struct file_tensor *t)
{
    struct gguf_reader *r = arg;
    if (!before || before->offset + before->bytes <= t->offset)
        return INFER_OK;
    r->name = t->name.data;
    r->name_len = (size_t)t->name.len;
    return GGUF_FAIL(r, INFER_ERROR_FORMAT, t->offset, "the tensor's data overlaps that of '%.*s'",
                     before->name.len < 64 ? (int)before->name.len : 64, before->name.data);
}

static infer_status reserve(struct gguf_reader *r, uint64_t n)
{
    struct infer_file *f = r->f;
    if (n > FILE_MAX_TENSORS)
        return err_at(r->err, INFER_ERROR_LIMIT, NULL, 0, 8, "the file declares %llu tensors (at most %llu)",
                      (unsigned long long)n, (unsigned long long)FILE_MAX_TENSORS);
    if (n > cursor_left(r->c) / MIN_ENTRY)
        return err_at(r->err, INFER_ERROR_TRUNCATED, NULL, 0, 8, "the file declares %llu tensors, too many for its %llu bytes",
                      (unsigned long long)n, (unsigned long long)r->c->len);
    f->tensors = mem_zarray(&f->env->alloc, (size_t)n, sizeof *f->tensors);
    if (!f->tensors || !map_reserve(&f->tensor_map, (size_t)n))
        return err_no_memory(r->err);
    return INFER_OK;
}

static infer_status read_entries(struct gguf_reader *r, uint64_t n)
{
    struct infer_file *f = r->f;
    infer_status st = reserve(r, n);
    for (uint64_t i = 0; i < n && st == INFER_OK; i++) {
        struct file_tensor *t = &f->tensors[i];
        uint64_t at = r->c->pos;
        st = gguf_step(r);
        if (st == INFER_OK)
            st = read_entry(r, t);
        if (st != INFER_OK)
            return st;
        int added = map_add(&f->tensor_map, t->name.data, (size_t)t->name.len, (uint32_t)i);
        if (added < 0)
            return err_no_memory(r->err);
        if (!added)
            return GGUF_FAIL(r, INFER_ERROR_FORMAT, at, "two tensors of this name");
        f->n_tensors = i + 1;
    }
    return st;
}

infer_status gguf_read_tensors(struct gguf_reader *r, uint64_t n, uint64_t alignment)
{
    uint64_t start = 0;
    infer_status st = read_entries(r, n);
    if (st == INFER_OK && !checked_align(r->c->pos, alignment, &start))
        st = err_at(r->err, INFER_ERROR_FORMAT, NULL, 0, r->c->pos, "the data section's place overflows");
    for (uint64_t i = 0; i < n && st == INFER_OK; i++)
        st = place(r, &r->f->tensors[i], start, alignment);
    return st == INFER_OK ? file_in_order(r->f, check_order, r, r->err) : st;
}
