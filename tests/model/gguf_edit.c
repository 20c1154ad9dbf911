#include "gguf_edit.h"

#include <string.h>

#include "../formats/gguf_build.h"

static bool is(struct file_str s, const char *name)
{
    return name && s.len == strlen(name) && !memcmp(s.data, name, (size_t)s.len);
}

static void put_str(struct buf *b, struct file_str s)
{
    gb_u64(b, s.len);
    buf_put(b, s.data, (size_t)s.len);
}

static uint64_t array_bytes(const struct file_value *v)
{
    uint64_t n = 0;
    if (v->item != FILE_STRING)
        return v->count * file_type_size(v->item);
    for (uint64_t i = 0, len; i < v->count; i++, n += 8 + len)
        memcpy(&len, v->data + n, 8);
    return n;
}

static void put_value(struct buf *b, const struct file_value *v)
{
    gb_u32(b, v->type);
    if (v->type == FILE_STRING) {
        put_str(b, (struct file_str){(const char *)v->data, v->count});
    } else if (v->type == FILE_ARRAY) {
        gb_u32(b, v->item);
        gb_u64(b, v->count);
        buf_put(b, v->data, (size_t)array_bytes(v));
    } else {
        buf_put(b, v->data, file_type_size(v->type));
    }
}

static void put_edited_value(struct buf *b, const struct gguf_edit *e)
{
    float f = (float)e->number;
    int64_t i = e->set_type == FILE_F32 || e->set_type == FILE_STRING ? 0 : (int64_t)e->number;
    gb_u32(b, e->set_type);
    if (e->set_type == FILE_STRING)
        gb_str(b, e->string);
    else if (e->set_type == FILE_F32)
        buf_put(b, &f, 4);
    else
        buf_put(b, &i, file_type_size(e->set_type)); /* little-endian */
}

static void put_tensor_info(struct buf *b, const struct file_tensor *t, const struct gguf_edit *e, uint64_t offset)
{
    uint64_t dims[2] = {e->d0, e->d1};
    bool reshaped = is(t->name, e->reshape_tensor);
    uint32_t n_dims = reshaped ? (e->d1 ? 2 : 1) : t->n_dims;
    if (is(t->name, e->rename_tensor))
        gb_str(b, e->new_name);
    else
        put_str(b, t->name);
    gb_u32(b, n_dims);
    for (uint32_t i = 0; i < n_dims; i++)
        gb_u64(b, reshaped ? dims[i] : t->dims[i]);
    gb_u32(b, (uint32_t)t->type);
    gb_u64(b, offset);
}

static uint64_t padded(uint64_t n)
{
    return (n + 31) & ~(uint64_t)31;
}

struct buf gguf_edit(const struct infer_file *f, const struct gguf_edit *e)
{
    struct buf b;
    uint64_t n_meta = e->set_key != NULL, n_tensors = 0, offset = 0;
    for (uint64_t i = 0; i < f->n_meta; i++)
        n_meta += !is(f->meta[i].key, e->drop_key) && !is(f->meta[i].key, e->set_key);
    for (uint64_t i = 0; i < f->n_tensors; i++)
        n_tensors += !is(f->tensors[i].name, e->drop_tensor);
    gb_header(&b, 3, n_tensors, n_meta);
    for (uint64_t i = 0; i < f->n_meta; i++) {
        if (is(f->meta[i].key, e->drop_key) || is(f->meta[i].key, e->set_key))
            continue;
        put_str(&b, f->meta[i].key);
        put_value(&b, &f->meta[i].value);
    }
    if (e->set_key) {
        gb_str(&b, e->set_key);
        put_edited_value(&b, e);
    }
    for (uint64_t i = 0; i < f->n_tensors; i++) {
        if (is(f->tensors[i].name, e->drop_tensor))
            continue;
        put_tensor_info(&b, &f->tensors[i], e, offset);
        offset += padded(f->tensors[i].bytes);
    }
    for (uint64_t i = 0, pad; i < f->n_tensors; i++) {
        if (is(f->tensors[i].name, e->drop_tensor))
            continue;
        for (pad = padded(b.len) - b.len; pad > 0; pad--)
            buf_putc(&b, 0);
        buf_put(&b, f->tensors[i].data, (size_t)f->tensors[i].bytes);
    }
    return b;
}
