/* Metadata values: skipping over them once, checking every length, and noting where the items of long arrays begin. */
#include "base/cancel.h"
#include "base/checked.h"
#include "base/utf8.h"
#include "formats/gguf.h"

#define STRING_STRIDE 64 /* an index entry for each so many strings */

infer_status gguf_truncated(struct gguf_reader *r, uint64_t at)
{
    return GGUF_FAIL(r, INFER_ERROR_TRUNCATED, at, "the file ends inside its header (%llu bytes)",
                     (unsigned long long)r->c->len);
}

infer_status gguf_step(struct gguf_reader *r)
{
    if ((++r->steps & 4095) == 0 && cancel_is_set(r->cancel))
        return err_set(r->err, INFER_ERROR_CANCELLED, "cancelled while reading the file's header");
    return INFER_OK;
}

infer_status gguf_read_name(struct gguf_reader *r, uint64_t max, struct file_str *out)
{
    uint64_t at = r->c->pos, len = cursor_u64(r->c);
    r->name = NULL;
    r->name_len = 0;
    if (r->c->bad)
        return gguf_truncated(r, at);
    if (len == 0)
        return GGUF_FAIL(r, INFER_ERROR_FORMAT, at, "an empty name");
    if (len > max)
        return GGUF_FAIL(r, INFER_ERROR_LIMIT, at, "a name of %llu bytes (at most %llu)", (unsigned long long)len,
                         (unsigned long long)max);
    const char *s = (const char *)cursor_take(r->c, len);
    if (!s)
        return gguf_truncated(r, at);
    if (memchr(s, 0, (size_t)len) || !utf8_valid(s, (size_t)len))
        return GGUF_FAIL(r, INFER_ERROR_FORMAT, at, "a name that is not UTF-8 or holds a zero byte");
    r->name = s;
    r->name_len = (size_t)len;
    *out = (struct file_str){s, len};
    return INFER_OK;
}

static infer_status read_string(struct gguf_reader *r, struct file_value *out)
{
    uint64_t at = r->c->pos, len = cursor_u64(r->c);
    if (!r->c->bad && len > FILE_MAX_STRING && len <= cursor_left(r->c))
        return GGUF_FAIL(r, INFER_ERROR_LIMIT, at, "a string of %llu bytes (at most %llu)", (unsigned long long)len,
                         (unsigned long long)FILE_MAX_STRING);
    const uint8_t *s = cursor_take(r->c, len);
    if (!s)
        return GGUF_FAIL(r, INFER_ERROR_TRUNCATED, at, "a string's %llu bytes do not fit into the file",
                         (unsigned long long)len);
    *out = (struct file_value){FILE_STRING, 0, len, s};
    return INFER_OK;
}

/* count items of this size or more must fit into the rest of the file. */
static infer_status check_count(struct gguf_reader *r, uint64_t count, uint64_t size, uint64_t at)
{
    if (count <= cursor_left(r->c) / size)
        return INFER_OK;
    return GGUF_FAIL(r, INFER_ERROR_TRUNCATED, at, "an array's %llu items do not fit into the file",
                     (unsigned long long)count);
}

static infer_status check_bools(struct gguf_reader *r, const uint8_t *data, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (data[i] > 1)
            return GGUF_FAIL(r, INFER_ERROR_FORMAT, (uint64_t)(data + i - r->c->data), "a bool with value %d", data[i]);
    return INFER_OK;
}

static infer_status read_numbers(struct gguf_reader *r, struct file_value *v, uint64_t at)
{
    uint32_t size = file_type_size(v->item);
    infer_status st = check_count(r, v->count, size, at);
    if (st != INFER_OK)
        return st;
    v->data = cursor_take(r->c, v->count * size);
    return v->item == FILE_BOOL ? check_bools(r, v->data, v->count) : INFER_OK;
}

/* A new index for an array; *offsets receives NULL when it needs none. */
static infer_status add_index(struct gguf_reader *r, const struct file_value *v, uint64_t **offsets, uint32_t *stride)
{
    struct infer_file *f = r->f;
    *stride = v->item == FILE_STRING ? STRING_STRIDE : 1;
    *offsets = NULL;
    if (v->count <= (v->item == FILE_STRING ? STRING_STRIDE : 0))
        return INFER_OK;
    if (f->n_indexes == f->cap_indexes) {
        size_t cap = f->cap_indexes ? f->cap_indexes * 2 : 8;
        struct file_index *grown =
            cap > SIZE_MAX / sizeof *grown ? NULL : mem_grow(&f->env->alloc, f->indexes, cap * sizeof *grown);
        if (!grown)
            return err_no_memory(r->err);
        f->indexes = grown;
        f->cap_indexes = cap;
    }
    uint64_t n = (v->count - 1) / *stride + 1;
    *offsets = n > SIZE_MAX / sizeof **offsets ? NULL : arena_alloc(&f->arena, (size_t)n * sizeof **offsets);
    if (!*offsets)
        return err_no_memory(r->err);
    f->indexes[f->n_indexes++] = (struct file_index){v->data, v->count, *offsets, *stride};
    return INFER_OK;
}

static infer_status read_array(struct gguf_reader *r, int depth, struct file_value *v);

static infer_status read_items(struct gguf_reader *r, int depth, struct file_value *v, uint64_t at)
{
    uint64_t *offsets;
    uint32_t stride;
    struct file_value item;
    infer_status st = check_count(r, v->count, v->item == FILE_STRING ? 8 : 12, at);
    v->data = r->c->data + r->c->pos;
    if (st == INFER_OK)
        st = add_index(r, v, &offsets, &stride);
    for (uint64_t i = 0; i < v->count && st == INFER_OK; i++) {
        if (offsets && i % stride == 0)
            offsets[i / stride] = (uint64_t)(r->c->data + r->c->pos - v->data);
        st = gguf_step(r);
        if (st == INFER_OK)
            st = v->item == FILE_STRING ? read_string(r, &item) : read_array(r, depth + 1, &item);
    }
    return st;
}

static infer_status read_array(struct gguf_reader *r, int depth, struct file_value *v)
{
    uint64_t at = r->c->pos;
    v->type = FILE_ARRAY;
    v->item = cursor_u32(r->c);
    v->count = cursor_u64(r->c);
    if (r->c->bad)
        return gguf_truncated(r, at);
    if (v->item >= FILE_TYPE_COUNT)
        return GGUF_FAIL(r, INFER_ERROR_FORMAT, at, "unknown item type %lu of an array", (unsigned long)v->item);
    if (depth >= FILE_MAX_DEPTH)
        return GGUF_FAIL(r, INFER_ERROR_LIMIT, at, "arrays nested more than %d deep", FILE_MAX_DEPTH);
    return file_type_size(v->item) ? read_numbers(r, v, at) : read_items(r, depth, v, at);
}

infer_status gguf_read_value(struct gguf_reader *r, uint32_t type, struct file_value *out)
{
    uint64_t at = r->c->pos;
    struct file_value v = {.type = type};
    infer_status st = INFER_OK;
    if (type >= FILE_TYPE_COUNT)
        return GGUF_FAIL(r, INFER_ERROR_FORMAT, at, "unknown value type %lu", (unsigned long)type);
    if (type == FILE_ARRAY) {
        st = read_array(r, 0, &v);
    } else if (type == FILE_STRING) {
        st = read_string(r, &v);
    } else {
        v.data = cursor_take(r->c, file_type_size(type));
        if (!v.data)
            return gguf_truncated(r, at);
        st = type == FILE_BOOL ? check_bools(r, v.data, 1) : INFER_OK;
    }
    if (st == INFER_OK)
        *out = v;
    return st;
}
