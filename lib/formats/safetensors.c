#include "formats/safetensors.h"

#include <string.h>

#include "base/cancel.h"
#include "base/checked.h"
#include "base/dtype.h"
#include "base/json.h"
#include "base/utf8.h"

#define LENGTH_BYTES 8u
#define HEADER_MEMORY(n) ((size_t)(n) * 16 + 65536) /* the tree of a real header takes 5 to 8 times its size */
#define COPY_ALIGN ((uint64_t)64)
#define COPY_PIECE ((uint64_t)1 << 20) /* between looks at the cancel flag */
#define METADATA "__metadata__"

struct reader {
    struct infer_file *f;
    const infer_cancel *cancel;
    infer_error *err;
    uint64_t start; /* of the data, in the file */
    uint64_t size;  /* of the data */
};

#define FAIL(r, code, t, at, ...) err_at((r)->err, code, (t)->name.data, (size_t)(t)->name.len, at, __VA_ARGS__)

bool safetensors_is(const struct blob *blob)
{
    /* No file has 2^56 bytes: a text that happens to have a brace there is none. */
    return blob->size > LENGTH_BYTES && blob->data[LENGTH_BYTES] == '{' && blob->data[LENGTH_BYTES - 1] == 0;
}

static uint64_t header_length(const struct blob *blob)
{
    uint64_t n;
    memcpy(&n, blob->data, sizeof n); /* hosts are little-endian: configure refuses others */
    return n;
}

/* ---- Names and values of the header ---- */

/* Of a string that is to be a name: not empty, no zero bytes; JSON strings are UTF-8. Copied, as the tree does not stay. */
static infer_status keep_name(struct reader *r, const struct json_text *s, size_t max, uint64_t at, struct file_str *out)
{
    if (s->len == 0 || memchr(s->p, 0, s->len))
        return err_at(r->err, INFER_ERROR_FORMAT, NULL, 0, at, "a name that is empty or holds a zero byte");
    if (s->len > max)
        return err_at(r->err, INFER_ERROR_LIMIT, NULL, 0, at, "a name of %llu bytes (at most %llu)",
                      (unsigned long long)s->len, (unsigned long long)max);
    out->data = arena_strdup(&r->f->arena, s->p, s->len);
    out->len = s->len;
    return out->data ? INFER_OK : err_no_memory(r->err);
}

/* Where a value stands in the file. */
static uint64_t place_of(const struct json *v)
{
    return LENGTH_BYTES + v->offset;
}

static infer_status read_metadata(struct reader *r, const struct json *object)
{
    struct infer_file *f = r->f;
    if (object->type != JSON_OBJECT)
        return err_at(r->err, INFER_ERROR_FORMAT, METADATA, strlen(METADATA), place_of(object), "is not an object");
    if (object->n > FILE_MAX_KEYS)
        return err_at(r->err, INFER_ERROR_LIMIT, METADATA, strlen(METADATA), place_of(object), "more than %llu keys",
                      (unsigned long long)FILE_MAX_KEYS);
    f->meta = mem_zarray(&f->env->alloc, object->n, sizeof *f->meta);
    if (!f->meta || !map_reserve(&f->meta_map, object->n))
        return err_no_memory(r->err);
    for (size_t i = 0; i < object->n; i++) {
        const struct json_member *m = &object->u.members[i];
        struct file_meta *out = &f->meta[i];
        infer_status st = keep_name(r, &m->key, FILE_MAX_KEY, place_of(&m->value), &out->key);
        if (st != INFER_OK)
            return st;
        if (m->value.type != JSON_STRING)
            return err_at(r->err, INFER_ERROR_FORMAT, out->key.data, (size_t)out->key.len, place_of(&m->value),
                          "metadata that is not a string");
        const char *text = arena_strdup(&f->arena, m->value.u.text.p, m->value.u.text.len);
        if (!text || map_add(&f->meta_map, out->key.data, (size_t)out->key.len, (uint32_t)i) < 0)
            return err_no_memory(r->err);
        out->value = (struct file_value){FILE_STRING, 0, m->value.u.text.len, (const uint8_t *)text};
        f->n_meta = i + 1;
    }
    return INFER_OK;
}

static infer_status read_type(struct reader *r, const struct json *v, struct file_tensor *t)
{
    static const struct {
        const char *name;
        int32_t type;
    } types[] = {
        {"BF16", INFER_TYPE_BF16}, {"F16", INFER_TYPE_F16}, {"F32", INFER_TYPE_F32}, {"F64", INFER_TYPE_F64},
        {"F8_E4M3", INFER_TYPE_F8_E4M3}, {"F8_E5M2", INFER_TYPE_F8_E5M2}, {"I8", INFER_TYPE_I8}, {"U8", INFER_TYPE_U8},
        {"I16", INFER_TYPE_I16}, {"U16", INFER_TYPE_U16}, {"I32", INFER_TYPE_I32}, {"U32", INFER_TYPE_U32},
        {"I64", INFER_TYPE_I64}, {"U64", INFER_TYPE_U64}, {"BOOL", INFER_TYPE_BOOL},
    };
    if (!v || v->type != JSON_STRING)
        return FAIL(r, INFER_ERROR_FORMAT, t, v ? place_of(v) : ERR_NO_OFFSET, "the tensor has no dtype");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strlen(types[i].name) == v->u.text.len && !memcmp(types[i].name, v->u.text.p, v->u.text.len)) {
            t->type = types[i].type;
            return INFER_OK;
        }
    return FAIL(r, INFER_ERROR_UNSUPPORTED, t, place_of(v), "unknown dtype '%.*s'", v->u.text.len < 32 ? (int)v->u.text.len : 32,
                v->u.text.p);
}

/* The shape is written outermost first; dims[0] is innermost. */
static infer_status read_shape(struct reader *r, const struct json *v, struct file_tensor *t)
{
    if (!v || v->type != JSON_ARRAY)
        return FAIL(r, INFER_ERROR_FORMAT, t, v ? place_of(v) : ERR_NO_OFFSET, "the tensor has no shape");
    if (v->n > SAFETENSORS_MAX_RANK)
        return FAIL(r, INFER_ERROR_LIMIT, t, place_of(v), "more than %d dimensions", SAFETENSORS_MAX_RANK);
    t->n = 1;
    for (uint32_t i = 0; i < FILE_MAX_DIMS; i++)
        t->dims[i] = 1;
    for (size_t i = 0; i < v->n; i++) {
        const struct json *d = &v->u.items[v->n - 1 - i];
        uint64_t *into = &t->dims[i < FILE_MAX_DIMS ? i : FILE_MAX_DIMS - 1];
        if (d->type != JSON_INT || d->u.integer < 0)
            return FAIL(r, INFER_ERROR_FORMAT, t, place_of(d), "a dimension that is not a number from 0 to 2^63 - 1");
        if (!checked_mul(*into, (uint64_t)d->u.integer, into) || !checked_mul(t->n, (uint64_t)d->u.integer, &t->n) ||
            t->n > INT64_MAX)
            return FAIL(r, INFER_ERROR_FORMAT, t, place_of(v), "the tensor has too many elements");
    }
    t->n_dims = v->n == 0 ? 1 : v->n < FILE_MAX_DIMS ? (uint32_t)v->n : FILE_MAX_DIMS;
    return INFER_OK;
}

static infer_status read_span(struct reader *r, const struct json *v, struct file_tensor *t)
{
    uint64_t wanted;
    bool two = v && v->type == JSON_ARRAY && v->n == 2 && v->u.items[0].type == JSON_INT && v->u.items[1].type == JSON_INT;
    uint64_t at = v ? place_of(v) : ERR_NO_OFFSET;
    if (!two || v->u.items[0].u.integer < 0 || v->u.items[1].u.integer < v->u.items[0].u.integer)
        return FAIL(r, INFER_ERROR_FORMAT, t, at, "the tensor's data_offsets are not a begin and an end");
    t->offset = (uint64_t)v->u.items[0].u.integer;
    t->bytes = (uint64_t)v->u.items[1].u.integer - t->offset;
    if (!dtype_size(t->type, t->n, &wanted) || wanted != t->bytes)
        return FAIL(r, INFER_ERROR_FORMAT, t, at, "the tensor's data_offsets span %llu bytes; its shape and dtype call for another size",
                    (unsigned long long)t->bytes);
    if (t->offset + t->bytes > r->size)
        return FAIL(r, INFER_ERROR_TRUNCATED, t, at, "the tensor's data ends at byte %llu of the data, but the file has %llu",
                    (unsigned long long)(t->offset + t->bytes), (unsigned long long)r->size);
    return INFER_OK;
}

static infer_status read_tensor(struct reader *r, const struct json_member *m, struct file_tensor *t)
{
    infer_status st = keep_name(r, &m->key, FILE_MAX_NAME, place_of(&m->value), &t->name);
    if (st == INFER_OK && m->value.type != JSON_OBJECT)
        st = FAIL(r, INFER_ERROR_FORMAT, t, place_of(&m->value), "the tensor's description is not an object");
    if (st == INFER_OK)
        st = read_type(r, json_get(&m->value, "dtype"), t);
    if (st == INFER_OK)
        st = read_shape(r, json_get(&m->value, "shape"), t);
    return st == INFER_OK ? read_span(r, json_get(&m->value, "data_offsets"), t) : st;
}

static infer_status read_entries(struct reader *r, const struct json *root)
{
    struct infer_file *f = r->f;
    if (root->n > FILE_MAX_TENSORS)
        return err_at(r->err, INFER_ERROR_LIMIT, NULL, 0, LENGTH_BYTES, "the file has more than %llu tensors",
                      (unsigned long long)FILE_MAX_TENSORS);
    f->tensors = mem_zarray(&f->env->alloc, root->n, sizeof *f->tensors);
    if (!f->tensors || !map_reserve(&f->tensor_map, root->n))
        return err_no_memory(r->err);
    for (size_t i = 0; i < root->n; i++) {
        const struct json_member *m = &root->u.members[i];
        bool is_meta = m->key.len == strlen(METADATA) && !memcmp(m->key.p, METADATA, m->key.len);
        struct file_tensor *t = &f->tensors[f->n_tensors];
        infer_status st = is_meta ? read_metadata(r, &m->value) : read_tensor(r, m, t);
        if (st != INFER_OK)
            return st;
        if (!is_meta && map_add(&f->tensor_map, t->name.data, (size_t)t->name.len, (uint32_t)f->n_tensors++) < 0)
            return err_no_memory(r->err);
        if ((i & 4095) == 4095 && cancel_is_set(r->cancel))
            return err_set(r->err, INFER_ERROR_CANCELLED, "cancelled while reading the file's header");
    }
    return INFER_OK;
}

static infer_status read_header(struct reader *r)
{
    const struct blob *b = &r->f->parts[0];
    uint64_t n = header_length(b);
    struct arena ar;
    struct json root;
    if (n > SAFETENSORS_MAX_HEADER)
        return err_at(r->err, INFER_ERROR_LIMIT, NULL, 0, 0, "a header of %llu bytes (at most %llu)", (unsigned long long)n,
                      (unsigned long long)SAFETENSORS_MAX_HEADER);
    if (n > b->size - LENGTH_BYTES)
        return err_at(r->err, INFER_ERROR_TRUNCATED, NULL, 0, 0, "the header's %llu bytes do not fit into the file's %llu",
                      (unsigned long long)n, (unsigned long long)b->size);
    r->start = LENGTH_BYTES + n;
    r->size = b->size - r->start;
    arena_init(&ar, &r->f->env->alloc, HEADER_MEMORY(n));
    infer_status st = json_parse(&ar, (const char *)b->data + LENGTH_BYTES, (size_t)n,
                                 &(struct json_limits){.max_depth = 3, .unique_keys = true}, &root, r->err);
    if (st == INFER_OK)
        st = read_entries(r, &root);
    else if (st == INFER_ERROR_SYNTAX && r->err) { /* the text of the error stays */
        st = r->err->code = INFER_ERROR_FORMAT;
        r->err->offset += LENGTH_BYTES;
    }
    arena_free(&ar);
    return st;
}

/* ---- The data ---- */

/* Tensors follow one another without gaps. */
static infer_status check_place(void *arg, const struct file_tensor *before, const struct file_tensor *t)
{
    struct reader *r = arg;
    uint64_t expected = before ? before->offset + before->bytes : 0;
    if (t->offset == expected)
        return INFER_OK;
    bool gap = t->offset > expected;
    return FAIL(r, INFER_ERROR_FORMAT, t, r->start + t->offset, "the tensor's data %s%.*s%s",
                gap ? "begins behind a gap of bytes that belong to no tensor" : "overlaps that of '",
                gap ? 0 : before->name.len < 64 ? (int)before->name.len : 64, gap ? "" : before->name.data, gap ? "" : "'");
}

static infer_status check_end(struct reader *r)
{
    uint64_t end = 0;
    for (uint64_t i = 0; i < r->f->n_tensors; i++)
        if (r->f->tensors[i].offset + r->f->tensors[i].bytes > end)
            end = r->f->tensors[i].offset + r->f->tensors[i].bytes;
    if (end != r->size)
        return err_at(r->err, INFER_ERROR_FORMAT, NULL, 0, r->start + end, "%llu bytes behind the data belong to no tensor",
                      (unsigned long long)(r->size - end));
    return INFER_OK;
}

static bool is_aligned(const struct file_tensor *t)
{
    return t->bytes == 0 || t->offset % dtype_of(t->type)->bytes == 0;
}

static infer_status copy_tensors(struct reader *r, struct blob *to)
{
    uint64_t at = 0;
    for (uint64_t i = 0; i < r->f->n_tensors; i++) {
        struct file_tensor *t = &r->f->tensors[i];
        if (is_aligned(t))
            continue;
        for (uint64_t from = 0, n; from < t->bytes; from += n) {
            n = t->bytes - from < COPY_PIECE ? t->bytes - from : COPY_PIECE;
            if (cancel_is_set(r->cancel))
                return err_set(r->err, INFER_ERROR_CANCELLED, "cancelled while copying tensors");
            memcpy((uint8_t *)to->owned + at + from, (const uint8_t *)t->data + from, (size_t)n);
        }
        t->part = 1;
        t->offset = at;
        t->data = to->data + at;
        at += (t->bytes + COPY_ALIGN - 1) / COPY_ALIGN * COPY_ALIGN;
    }
    return INFER_OK;
}

/* Makes offsets places in the file, and copies what cannot be used where it is. */
static infer_status place_tensors(struct reader *r)
{
    struct infer_file *f = r->f;
    uint64_t copied = 0;
    struct blob own;
    for (uint64_t i = 0; i < f->n_tensors; i++) {
        struct file_tensor *t = &f->tensors[i];
        t->offset += r->start;
        t->data = f->parts[0].data + t->offset;
        if (!is_aligned(t))
            copied += (t->bytes + COPY_ALIGN - 1) / COPY_ALIGN * COPY_ALIGN; /* all together: at most the file's size and a line each */
    }
    if (!copied)
        return INFER_OK;
    infer_status st = blob_alloc(f->env, copied, &own, r->err);
    if (st != INFER_OK)
        return st;
    st = copy_tensors(r, &own);
    if (st != INFER_OK)
        blob_close(&own);
    return st == INFER_OK ? file_add_part(f, &own, r->err) : st;
}

infer_status safetensors_open(const struct env *env, const char *name, size_t name_len, struct blob *blob,
                              const infer_cancel *cancel, struct infer_file **out, infer_error *err)
{
    struct reader r = {.cancel = cancel, .err = err};
    infer_status st = file_create(env, name, name_len, blob, &r.f, err);
    if (st != INFER_OK)
        return st;
    st = read_header(&r);
    if (st == INFER_OK)
        st = file_in_order(r.f, check_place, &r, err);
    if (st == INFER_OK)
        st = check_end(&r);
    if (st == INFER_OK)
        st = place_tensors(&r);
    if (st != INFER_OK) {
        file_failed(r.f, err, st);
        file_release(r.f);
        return st;
    }
    *out = r.f;
    return INFER_OK;
}
