/* Metadata in GGUF's encoding, tensors that have to be made, and both as the first part of a file: a GGUF file in memory, which the reader
 * of those opens and checks as any other. The weights that are used where they lie are its further parts. */
#include <stdio.h>
#include <string.h>

#include "base/cancel.h"
#include "base/checked.h"
#include "base/dtype.h"
#include "formats/gguf.h"
#include "kernels/dequant.h"
#include "model/hf_read.h"
#include "model/hparams.h"

#define ALIGNMENT 64u
#define MAX_KEY 128

static void put_u32(struct buf *b, uint32_t v)
{
    buf_put(b, &v, sizeof v);
}

static void put_u64(struct buf *b, uint64_t v)
{
    buf_put(b, &v, sizeof v);
}

static void put_key(struct hf_reader *r, const char *key, uint32_t type)
{
    const char *arch = key[0] == '.' && r->arch ? r->arch->arch : "";
    put_u64(&r->meta, strlen(arch) + strlen(key));
    buf_puts(&r->meta, arch);
    buf_puts(&r->meta, key);
    put_u32(&r->meta, type);
    r->n_meta++;
}

void hf_put_u32(struct hf_reader *r, const char *key, uint32_t v)
{
    put_key(r, key, FILE_U32);
    put_u32(&r->meta, v);
}

void hf_put_f32(struct hf_reader *r, const char *key, float v)
{
    put_key(r, key, FILE_F32);
    buf_put(&r->meta, &v, sizeof v);
}

void hf_put_bool(struct hf_reader *r, const char *key, bool v)
{
    put_key(r, key, FILE_BOOL);
    buf_putc(&r->meta, v);
}

void hf_put_text(struct hf_reader *r, const char *key, const char *text, size_t len)
{
    put_key(r, key, FILE_STRING);
    put_u64(&r->meta, len);
    if (len)
        buf_put(&r->meta, text, len);
}

void hf_put_array(struct hf_reader *r, const char *key, uint32_t item, uint64_t n)
{
    put_key(r, key, FILE_ARRAY);
    put_u32(&r->meta, item);
    put_u64(&r->meta, n);
}

/* ---- Names ---- */

struct numbers {
    const char *p[2]; /* digits of each %u */
    size_t len[2];
    int n;
};

static size_t digits(const char *s, size_t len)
{
    size_t n = 0;
    while (n < len && s[n] >= '0' && s[n] <= '9')
        n++;
    return n > 1 && s[0] == '0' ? 0 : n; /* 007 is no number here: two names must not become one */
}

static bool matches(const char *pattern, const char *s, size_t len, struct numbers *out)
{
    size_t i = 0;
    out->n = 0;
    for (; *pattern; pattern++) {
        if (pattern[0] == '*' && !pattern[1])
            return true;
        if (pattern[0] == '%' && out->n < 2) {
            size_t n = digits(s + i, len - i);
            if (n == 0)
                return false;
            out->p[out->n] = s + i;
            out->len[out->n++] = n;
            i += n;
            pattern++;
        } else if (i == len || s[i++] != *pattern) {
            return false;
        }
    }
    return i == len;
}

/* Writes the new name. False: no memory. */
static bool rename_to(struct hf_reader *r, const char *pattern, const struct numbers *num, struct file_str *out)
{
    size_t room = strlen(pattern) + num->len[0] * (num->n > 0) + num->len[1] * (num->n > 1) + 1, n = 0;
    char *name = arena_alloc(&r->weights->arena, room);
    if (!name)
        return false;
    for (int k = 0; *pattern; pattern++) {
        if (pattern[0] == '%' && k < num->n) {
            memcpy(name + n, num->p[k], num->len[k]);
            n += num->len[k++];
            pattern++;
        } else {
            name[n++] = *pattern;
        }
    }
    *out = (struct file_str){name, n};
    return true;
}

/* Takes off each prefix at most once, in any order. */
static void strip(const struct hf_reader *r, const char **s, size_t *len)
{
    const char *all = r->arch->prefixes ? r->arch->prefixes : "model.|transformer.|language_model.";
    for (int round = 0; round < 3; round++)
        for (const char *p = all; *p; p += strcspn(p, "|"), p += *p == '|') {
            size_t n = strcspn(p, "|");
            if (n && *len > n && !memcmp(*s, p, n)) {
                *s += n;
                *len -= n;
                break;
            }
        }
}

static const struct hf_tensor *find_entry(const struct hf_reader *r, const struct file_str *name, struct numbers *num)
{
    const char *s = name->data;
    size_t len = (size_t)name->len;
    strip(r, &s, &len);
    for (size_t l = 0; r->arch->tensors[l]; l++)
        for (const struct hf_tensor *t = r->arch->tensors[l]; t->hf; t++)
            if (matches(t->hf, s, len, num))
                return t;
    return NULL;
}

/* ---- Which tensors go where ---- */

static struct hf_made *add_made(struct hf_reader *r)
{
    if (r->n_made == r->cap_made) {
        size_t cap = r->cap_made ? r->cap_made * 2 : 64;
        struct hf_made *grown = cap > SIZE_MAX / sizeof *grown ? NULL : mem_grow(&r->env->alloc, r->made, cap * sizeof *grown);
        if (!grown) {
            err_no_memory(r->err);
            return NULL;
        }
        r->made = grown;
        r->cap_made = cap;
    }
    struct hf_made *m = &r->made[r->n_made++];
    *m = (struct hf_made){.dims = {1, 1, 1, 1}, .n_dims = 1};
    return m;
}

infer_status hf_add_values(struct hf_reader *r, const char *name, const float *values, uint32_t n)
{
    struct hf_made *m = add_made(r);
    if (!m)
        return INFER_ERROR_NO_MEMORY;
    m->name = (struct file_str){name, strlen(name)};
    m->values = values;
    m->type = INFER_TYPE_F32;
    m->dims[0] = n;
    m->bytes = (uint64_t)n * 4;
    return INFER_OK;
}

static infer_status tensor_fail(const struct hf_reader *r, const struct file_tensor *t, infer_status code, const char *why)
{
    return file_failed(r->weights, r->err, err_at(r->err, code, t->name.data, (size_t)t->name.len, ERR_NO_OFFSET, "%s", why));
}

/* from keeps its old name: see compact. */
static infer_status plan(struct hf_reader *r, const struct file_tensor *from, const struct file_str *name, uint8_t how)
{
    struct hf_made *m = add_made(r);
    if (!m)
        return INFER_ERROR_NO_MEMORY;
    const struct dtype *d = dtype_of(from->type);
    m->name = *name;
    m->from = from;
    m->how = how;
    m->n_dims = from->n_dims;
    memcpy(m->dims, from->dims, sizeof m->dims);
    bool expands = how == HF_PLUS_ONE || how == HF_STACK;
    m->type = expands ? INFER_TYPE_F32 : from->type;
    if (expands && from->type != INFER_TYPE_F32 && from->type != INFER_TYPE_F16 && from->type != INFER_TYPE_BF16 &&
        from->type != INFER_TYPE_F64)
        return tensor_fail(r, from, INFER_ERROR_SHAPE, "a norm's weight must have a float type");
    if (how == HF_TRANSPOSE && (from->n_dims != 2 || d->block != 1))
        return tensor_fail(r, from, INFER_ERROR_SHAPE, "a matrix was expected");
    if (how == HF_TRANSPOSE) {
        m->dims[0] = from->dims[1];
        m->dims[1] = from->dims[0];
    }
    if (from->n == 0 || !dtype_size(m->type, from->n, &m->bytes))
        return tensor_fail(r, from, INFER_ERROR_SHAPE, "the tensor is empty or too large");
    return INFER_OK;
}

/* A row of a matrix, which the first row that is found makes. */
static infer_status plan_row(struct hf_reader *r, const struct file_tensor *from, const struct file_str *name, const struct numbers *num)
{
    uint32_t heads = 0, row = 0;
    struct hf_made *m = NULL;
    infer_status st = hf_u32(r, r->model, "num_attention_heads", &heads);
    if (st != INFER_OK)
        return st;
    for (size_t i = 0; i < num->len[1] && row < MODEL_MAX_HEADS; i++)
        row = row * 10 + (uint32_t)(num->p[1][i] - '0');
    if (num->n < 2 || num->len[0] > 3 || row >= heads || row >= MODEL_MAX_HEADS) /* 3 digits: the search below stays short */
        return tensor_fail(r, from, INFER_ERROR_SHAPE, "there is no such layer or head");
    for (size_t i = 0; i < r->n_made && !m; i++)
        if (r->made[i].rows && r->made[i].name.len == name->len && !memcmp(r->made[i].name.data, name->data, (size_t)name->len))
            m = &r->made[i];
    if (!m) {
        st = plan(r, from, name, HF_STACK);
        if (st != INFER_OK)
            return st;
        m = &r->made[r->n_made - 1];
        m->rows = arena_zarray(&r->ar, heads < MODEL_MAX_HEADS ? heads : MODEL_MAX_HEADS, sizeof *m->rows);
        if (!m->rows)
            return err_no_memory(r->err);
        m->n_dims = 2;
    }
    if (from->n_dims != 1 || from->n != m->dims[0] || from->type != m->from->type || m->rows[row])
        return tensor_fail(r, from, INFER_ERROR_SHAPE, "not a row like the others of its matrix");
    m->rows[row] = from;
    m->dims[1] = row + 1 > m->dims[1] ? row + 1 : m->dims[1];
    m->bytes = m->dims[0] * m->dims[1] * 4;
    return INFER_OK;
}

/* Matrices put together of rows have all of them. */
static infer_status check_rows(const struct hf_reader *r)
{
    for (size_t i = 0; i < r->n_made; i++)
        for (uint64_t row = 0; r->made[i].rows && row < r->made[i].dims[1]; row++)
            if (!r->made[i].rows[row])
                return file_failed(r->weights, r->err, err_at(r->err, INFER_ERROR_MISSING, r->made[i].name.data,
                                                              (size_t)r->made[i].name.len, ERR_NO_OFFSET,
                                                              "the tensor of head %u is missing", (unsigned)row));
    return INFER_OK;
}

/* What becomes of one tensor; *keep: it stays where it lies, under the name in t. */
static infer_status map_tensor(struct hf_reader *r, struct file_tensor *t, bool *keep)
{
    struct numbers num = {0};
    struct file_str name;
    const struct hf_tensor *e = find_entry(r, &t->name, &num);
    *keep = false;
    if (!e)
        return tensor_fail(r, t, INFER_ERROR_UNSUPPORTED, "this architecture has no use for the tensor");
    if (e->how == HF_SKIP || (e->how == HF_HEAD && r->tied))
        return INFER_OK;
    if (!rename_to(r, e->gguf, &num, &name))
        return err_no_memory(r->err);
    *keep = e->how == HF_PLACE || e->how == HF_HEAD;
    if (e->how == HF_STACK)
        return plan_row(r, t, &name, &num);
    if (!*keep)
        return plan(r, t, &name, e->how);
    if (t->n == 0)
        return tensor_fail(r, t, INFER_ERROR_SHAPE, "the tensor is empty");
    t->name = name;
    return INFER_OK;
}

infer_status hf_map_tensors(struct hf_reader *r)
{
    struct infer_file *w = r->weights;
    for (uint64_t i = 0; i < w->n_tensors; i++) {
        struct file_tensor *t = &w->tensors[i];
        bool keep;
        infer_status st = map_tensor(r, t, &keep);
        if (st != INFER_OK)
            return st;
        if (!keep)
            t->name.len = 0; /* taken out in drop_unnamed; made tensors still read it */
    }
    return check_rows(r);
}

static void drop_unnamed(struct infer_file *w)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < w->n_tensors; i++)
        if (w->tensors[i].name.len)
            w->tensors[n++] = w->tensors[i];
    w->n_tensors = n;
}

/* ---- The first part ---- */

static void put_directory(struct hf_reader *r, struct buf *b, uint64_t *data)
{
    buf_puts(b, "GGUF");
    put_u32(b, 3);
    put_u64(b, r->n_made);
    put_u64(b, r->n_meta);
    if (r->meta.len)
        buf_put(b, r->meta.data, r->meta.len);
    *data = 0;
    for (size_t i = 0; i < r->n_made; i++) {
        struct hf_made *m = &r->made[i];
        put_u64(b, m->name.len);
        buf_put(b, m->name.data, (size_t)m->name.len);
        put_u32(b, m->n_dims);
        for (uint32_t k = 0; k < m->n_dims; k++)
            put_u64(b, m->dims[k]);
        put_u32(b, (uint32_t)m->type);
        put_u64(b, *data);
        m->offset = *data;
        *data += (m->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; /* tensors of files on this machine: no overflow */
    }
    while (b->len % ALIGNMENT && buf_ok(b))
        buf_putc(b, 0);
}

/* [rows][cols] -> [cols][rows], in squares that stay in the cache. */
static void transpose(uint8_t *dst, const uint8_t *src, uint64_t rows, uint64_t cols, size_t elem, const infer_cancel *cancel)
{
    const uint64_t side = 32;
    for (uint64_t r0 = 0; r0 < rows && !cancel_is_set(cancel); r0 += side)
        for (uint64_t c0 = 0; c0 < cols; c0 += side)
            for (uint64_t i = r0; i < rows && i < r0 + side; i++)
                for (uint64_t k = c0; k < cols && k < c0 + side; k++)
                    memcpy(dst + (k * rows + i) * elem, src + (i * cols + k) * elem, elem);
}

/* A set flag leaves the tensor undone. */
static void make_tensor(const struct hf_made *m, uint8_t *dst, const infer_cancel *cancel)
{
    const struct file_tensor *t = m->from;
    float *x = (float *)(void *)dst;
    if (!t) {
        memcpy(dst, m->values, (size_t)m->bytes);
        return;
    }
    if (m->how == HF_TRANSPOSE) {
        transpose(dst, t->data, t->dims[1], t->dims[0], dtype_of(t->type)->bytes, cancel);
        return;
    }
    for (uint64_t i = 0; m->rows && i < m->dims[1]; i++)
        dequant_row(t->type, m->rows[i]->data, x + i * m->dims[0], m->dims[0]);
    if (m->rows)
        return;
    dequant_row(t->type, t->data, x, t->n);
    for (uint64_t i = 0; i < t->n; i++)
        x[i] += 1.0f;
}

static infer_status make_part(struct hf_reader *r, struct buf *head, struct blob *out)
{
    uint64_t data;
    put_directory(r, head, &data);
    if (!buf_ok(head) || !buf_ok(&r->meta))
        return err_no_memory(r->err);
    if (r->o->plan) {
        infer_status planned = blob_plan(r->env, head->len + data, head->len, r->o->plan, out, r->err);
        if (planned == INFER_OK)
            memcpy(out->owned, head->data, head->len);
        return planned;
    }
    infer_status st = blob_alloc(r->env, head->len + data, out, r->err);
    if (st != INFER_OK)
        return st;
    memset(out->owned, 0, (size_t)out->size); /* the padding too */
    memcpy(out->owned, head->data, head->len);
    for (size_t i = 0; i < r->n_made; i++) {
        make_tensor(&r->made[i], (uint8_t *)out->owned + head->len + r->made[i].offset, r->o->cancel);
        if (cancel_is_set(r->o->cancel)) {
            blob_close(out);
            return err_set(r->err, INFER_ERROR_CANCELLED, "cancelled while opening the model");
        }
    }
    return INFER_OK;
}

infer_status hf_build(struct hf_reader *r, struct infer_file **out)
{
    struct buf head;
    struct blob blob;
    struct infer_file *f;
    infer_source s = {.size = (uint32_t)sizeof s, .kind = INFER_SOURCE_MEMORY, .name = r->dir, .name_len = r->dir_len};
    buf_init(&head, &r->env->alloc, 0);
    hf_put_u32(r, "general.alignment", ALIGNMENT);
    infer_status st = make_part(r, &head, &blob);
    buf_free(&head);
    if (st == INFER_OK)
        st = gguf_open(r->env, &s, &blob, r->o->map, r->o->cancel, &f, r->err);
    if (st != INFER_OK)
        return st;
    if (r->weights) {
        drop_unnamed(r->weights);
        st = file_join(f, r->weights, r->err);
    }
    if (st != INFER_OK) {
        file_failed(f, r->err, st);
        file_release(f);
        return st;
    }
    *out = f;
    return INFER_OK;
}
