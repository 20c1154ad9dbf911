#include "formats/gguf.h"

#include <string.h>

#define KEY_ALIGNMENT "general.alignment"
#define DEFAULT_ALIGNMENT 32
#define MIN_PAIR 14 /* bytes of the shortest entry: key length 8 + key 1 + type 4 + value 1 */

bool gguf_is(const struct blob *blob)
{
    return blob->size >= 4 && (memcmp(blob->data, "GGUF", 4) == 0 || memcmp(blob->data, "FUGG", 4) == 0);
}

/* The writers of big-endian files swap the version, and some the magic number. */
static infer_status check_version(struct gguf_reader *r)
{
    bool swapped = r->c->data[0] == 'F';
    cursor_take(r->c, 4);
    uint32_t version = cursor_u32(r->c);
    if (r->c->bad)
        return gguf_truncated(r, 4);
    if (swapped || (version && (version & 0xFFFF) == 0))
        return err_at(r->err, INFER_ERROR_UNSUPPORTED, NULL, 0, 4,
                      "a big-endian GGUF file: only little-endian ones are supported (gguf-convert-endian converts)");
    if (version == 2 || version == 3)
        return INFER_OK;
    return err_at(r->err, INFER_ERROR_UNSUPPORTED, NULL, 0, 4, "GGUF version %lu: versions 2 and 3 are supported",
                  (unsigned long)version);
}

static infer_status reserve_meta(struct gguf_reader *r, uint64_t n)
{
    struct infer_file *f = r->f;
    if (n > FILE_MAX_KEYS)
        return err_at(r->err, INFER_ERROR_LIMIT, NULL, 0, 16, "the file declares %llu metadata keys (at most %llu)",
                      (unsigned long long)n, (unsigned long long)FILE_MAX_KEYS);
    if (n > cursor_left(r->c) / MIN_PAIR)
        return err_at(r->err, INFER_ERROR_TRUNCATED, NULL, 0, 16,
                      "the file declares %llu metadata keys, too many for its %llu bytes", (unsigned long long)n,
                      (unsigned long long)r->c->len);
    f->meta = mem_zarray(&f->env->alloc, (size_t)n, sizeof *f->meta);
    if (!f->meta || !map_reserve(&f->meta_map, (size_t)n))
        return err_no_memory(r->err);
    return INFER_OK;
}

static infer_status read_pair(struct gguf_reader *r, struct file_meta *m)
{
    infer_status st = gguf_read_name(r, FILE_MAX_KEY, &m->key);
    if (st != INFER_OK)
        return st;
    uint64_t at = r->c->pos;
    uint32_t type = cursor_u32(r->c);
    return r->c->bad ? gguf_truncated(r, at) : gguf_read_value(r, type, &m->value);
}

static infer_status read_meta(struct gguf_reader *r, uint64_t n)
{
    struct infer_file *f = r->f;
    infer_status st = reserve_meta(r, n);
    for (uint64_t i = 0; i < n && st == INFER_OK; i++) {
        struct file_meta *m = &f->meta[i];
        uint64_t at = r->c->pos;
        st = gguf_step(r);
        if (st == INFER_OK)
            st = read_pair(r, m);
        if (st != INFER_OK)
            return st;
        int added = map_add(&f->meta_map, m->key.data, (size_t)m->key.len, (uint32_t)i);
        if (added < 0)
            return err_no_memory(r->err);
        if (!added)
            return GGUF_FAIL(r, INFER_ERROR_FORMAT, at, "two metadata entries with this key");
        f->n_meta = i + 1;
    }
    return st;
}

static infer_status read_alignment(struct gguf_reader *r, uint64_t *out)
{
    const size_t len = sizeof KEY_ALIGNMENT - 1;
    infer_status st = file_get_u64_or(r->f, KEY_ALIGNMENT, DEFAULT_ALIGNMENT, out, r->err);
    if (st != INFER_OK)
        return st;
    if (*out < FILE_MIN_ALIGNMENT || *out > FILE_MAX_ALIGNMENT || (*out & (*out - 1)))
        return err_at(r->err, INFER_ERROR_VALUE, KEY_ALIGNMENT, len, ERR_NO_OFFSET,
                      "alignment %llu is not a power of two from %d to %llu", (unsigned long long)*out,
                      FILE_MIN_ALIGNMENT, (unsigned long long)FILE_MAX_ALIGNMENT);
    return INFER_OK;
}

static infer_status read_part(struct infer_file *f, const infer_cancel *cancel, infer_error *err)
{
    struct cursor c = cursor_of(f->parts[0].data, f->parts[0].size);
    struct gguf_reader r = {.f = f, .c = &c, .cancel = cancel, .err = err};
    uint64_t alignment = 0;
    infer_status st = check_version(&r);
    if (st != INFER_OK)
        return st;
    uint64_t n_tensors = cursor_u64(&c), n_meta = cursor_u64(&c);
    if (c.bad)
        return gguf_truncated(&r, 8);
    st = read_meta(&r, n_meta);
    if (st == INFER_OK)
        st = read_alignment(&r, &alignment);
    return st == INFER_OK ? gguf_read_tensors(&r, n_tensors, alignment) : st;
}

/* Takes the blob over. */
static infer_status open_part(const struct env *env, const char *name, size_t name_len, struct blob *blob,
                              const infer_cancel *cancel, struct infer_file **out, infer_error *err)
{
    struct infer_file *f;
    infer_status st = file_create(env, name, name_len, blob, &f, err);
    if (st != INFER_OK)
        return st;
    st = read_part(f, cancel, err);
    if (st != INFER_OK) {
        file_failed(f, err, st);
        file_release(f);
        return st;
    }
    *out = f;
    return INFER_OK;
}

/* ---- Split files: keys split.no (from 0), split.count, split.tensors.count, as llama.cpp's gguf-split writes them. ---- */

static const char *digits5(uint32_t n, char out[5])
{
    for (int i = 4; i >= 0; i--, n /= 10)
        out[i] = (char)('0' + n % 10);
    return out;
}

bool gguf_split_name(const char *name, uint64_t len, uint32_t part, uint32_t count, char *out)
{
    char d[5];
    const uint64_t tail = sizeof "-00001-of-00003.gguf" - 1;
    if (!name || len < tail)
        return false;
    const char *end = name + len - tail;
    if (end[0] != '-' || memcmp(end + 6, "-of-", 4) || memcmp(end + 10, digits5(count, d), 5) ||
        memcmp(end + 15, ".gguf", 5))
        return false;
    for (int i = 1; i <= 5; i++)
        if (end[i] < '0' || end[i] > '9')
            return false;
    memcpy(out, name, (size_t)len);
    memcpy(out + (len - tail) + 1, digits5(part + 1, d), 5);
    return true;
}

struct split {
    const struct env *env;
    const infer_source *source;
    int32_t map;
    const infer_cancel *cancel;
    uint32_t count;
    char *name; /* of the part at hand */
    infer_error *err;
};

static infer_status check_part(const struct infer_file *part, uint32_t i, uint32_t count, infer_error *err)
{
    uint32_t no, n;
    infer_status st = file_get_u32(part, "split.no", &no, err);
    if (st == INFER_OK)
        st = file_get_u32(part, "split.count", &n, err);
    if (st != INFER_OK || (no == i && n == count))
        return st;
    return err_at(err, INFER_ERROR_FORMAT, "split.no", 8, ERR_NO_OFFSET,
                  "the file says that it is part %lu of %lu; expected part %lu of %lu", (unsigned long)no + 1,
                  (unsigned long)n, (unsigned long)i + 1, (unsigned long)count);
}

static infer_status add_part(const struct split *s, struct infer_file *f, uint32_t i)
{
    struct blob blob;
    struct infer_file *part;
    uint64_t len = s->source->name_len;
    (void)gguf_split_name(s->source->name, len, i, s->count, s->name);
    infer_status st = blob_open(s->env, s->source, s->name, len, s->map, s->cancel, &blob, s->err);
    if (st != INFER_OK)
        return st;
    if (!gguf_is(&blob)) {
        blob_close(&blob);
        st = err_at(s->err, INFER_ERROR_FORMAT, NULL, 0, 0, "part %lu of a split model is not a GGUF file",
                    (unsigned long)i + 1);
        err_file(s->err, s->name, (size_t)len);
        return st;
    }
    st = open_part(s->env, s->name, (size_t)len, &blob, s->cancel, &part, s->err);
    if (st != INFER_OK)
        return st;
    st = check_part(part, i, s->count, s->err);
    if (st == INFER_OK)
        st = file_join(f, part, s->err);
    if (st != INFER_OK)
        file_failed(part, s->err, st);
    file_release(part);
    return st;
}

static infer_status check_total(const struct infer_file *f, infer_error *err)
{
    uint64_t n;
    infer_status st = file_get_u64_or(f, "split.tensors.count", f->n_tensors, &n, err);
    if (st != INFER_OK || n == f->n_tensors)
        return st;
    return err_at(err, INFER_ERROR_FORMAT, "split.tensors.count", 19, ERR_NO_OFFSET,
                  "the parts hold %llu tensors; the first part declares %llu", (unsigned long long)f->n_tensors,
                  (unsigned long long)n);
}

/* The first part must be opened, and the source must be able to open others. */
static infer_status check_first(const struct split *s, uint32_t no)
{
    const infer_source *src = s->source;
    bool named = gguf_split_name(src->name, src->name_len, 0, s->count, s->name);
    if (no != 0 && named)
        return err_at(s->err, INFER_ERROR_ARGUMENT, "split.no", 8, ERR_NO_OFFSET,
                      "this is part %lu of %lu of a split model: open its first part, %.*s", (unsigned long)no + 1,
                      (unsigned long)s->count, src->name_len < 400 ? (int)src->name_len : 400, s->name);
    if (no != 0)
        return err_at(s->err, INFER_ERROR_ARGUMENT, "split.no", 8, ERR_NO_OFFSET,
                      "this is part %lu of %lu of a split model: open its first part (...-00001-of-%05lu.gguf)",
                      (unsigned long)no + 1, (unsigned long)s->count, (unsigned long)s->count);
    if (src->kind != INFER_SOURCE_PATH && src->kind != INFER_SOURCE_CALLBACK)
        return err_at(s->err, INFER_ERROR_UNSUPPORTED, "split.count", 11, ERR_NO_OFFSET,
                      "the first of %lu parts: open a split model by path or callback, which find the others by name",
                      (unsigned long)s->count);
    if (!named)
        return err_at(s->err, INFER_ERROR_NOT_FOUND, "split.count", 11, ERR_NO_OFFSET,
                      "the first of %lu parts, but its name does not end in -00001-of-%05lu.gguf, so the others cannot be found",
                      (unsigned long)s->count, (unsigned long)s->count);
    return INFER_OK;
}

static infer_status open_parts(struct split *s, struct infer_file *f)
{
    uint32_t no;
    infer_status st = file_get_u32_or(f, "split.count", 1, &s->count, s->err);
    if (st == INFER_OK)
        st = file_get_u32_or(f, "split.no", 0, &no, s->err);
    if (st != INFER_OK || (s->count <= 1 && no == 0))
        return st;
    if (s->count > FILE_MAX_PARTS)
        return err_at(s->err, INFER_ERROR_LIMIT, "split.count", 11, ERR_NO_OFFSET, "%lu parts (at most %d)",
                      (unsigned long)s->count, FILE_MAX_PARTS);
    s->name = mem_strdup(&s->env->alloc, s->source->name ? s->source->name : "", (size_t)s->source->name_len);
    if (!s->name)
        return err_no_memory(s->err);
    st = check_first(s, no);
    for (uint32_t i = 1; i < s->count && st == INFER_OK; i++)
        st = add_part(s, f, i);
    mem_free(&s->env->alloc, s->name);
    return st == INFER_OK ? check_total(f, s->err) : st;
}

infer_status gguf_open(const struct env *env, const infer_source *source, struct blob *blob, int32_t map,
                       const infer_cancel *cancel, struct infer_file **out, infer_error *err)
{
    struct split s = {.env = env, .source = source, .map = map, .cancel = cancel, .err = err};
    struct infer_file *f;
    infer_status st = open_part(env, source->name, (size_t)source->name_len, blob, cancel, &f, err);
    if (st != INFER_OK)
        return st;
    st = open_parts(&s, f);
    if (st != INFER_OK) {
        file_failed(f, err, st);
        file_release(f);
        return st;
    }
    *out = f;
    return INFER_OK;
}
