#include "formats/torch.h"

#include <string.h>

#include "base/checked.h"
#include "base/dtype.h"
#include "base/utf8.h"
#include "formats/pickle.h"
#include "formats/safetensors.h"
#include "formats/zip.h"

#define MAX_PICKLE ((uint64_t)256 << 20)
#define PICKLE_MEMORY(n) ((size_t)(n) * 160 + 65536)
#define MAX_DEPTH 16u    /* of containers within containers */
#define MAX_RANK 16u     /* dimensions; beyond FILE_MAX_DIMS the outermost of contiguous tensors are multiplied into one */
#define COPY_ALIGN ((uint64_t)64)
#define COPY_MORE ((uint64_t)1 << 16) /* bytes that may be copied beyond twice the file's size */
#define IN_COPY UINT32_MAX /* a tensor's part until the copies are made */

struct reader {
    const struct env *env;
    const infer_cancel *cancel;
    infer_error *err;
    struct infer_file *f;
    struct zip zip;
    struct file_str root; /* of the entries' names, with the slash: "archive/" */
    uint64_t visits;      /* of values; a value may be in many places */
    uint64_t max_visits;
    uint64_t copied;      /* bytes of copies, aligned */
    uint64_t cap;         /* tensors that f->tensors has room for */
    struct strided *strided;
    uint64_t n_strided, cap_strided;
};

/* How to gather what is not contiguous or not aligned. */
struct strided {
    uint64_t tensor; /* its number */
    const uint8_t *from;
    uint64_t sizes[FILE_MAX_DIMS], strides[FILE_MAX_DIMS]; /* innermost first, elements */
};

#define FAIL(r, st, t, ...) err_at((r)->err, st, (t)->name.data, (size_t)(t)->name.len, ERR_NO_OFFSET, __VA_ARGS__)

bool torch_is(const struct blob *blob)
{
    return zip_is(blob);
}

static bool ends_with(const struct file_str *s, const char *end)
{
    size_t n = strlen(end);
    return s->len >= n && !memcmp(s->data + s->len - n, end, n);
}

static infer_status check_stored(struct reader *r, const struct zip_entry *e)
{
    if (e->method == 0)
        return INFER_OK;
    return err_at(r->err, INFER_ERROR_UNSUPPORTED, e->name.data, (size_t)e->name.len, e->header,
                  "a compressed zip entry (method %u): save the file without compression", e->method);
}

static const uint8_t *bytes_of(const struct reader *r, const struct zip_entry *e)
{
    return r->zip.blob->data + e->offset;
}

/* An entry beside data.pkl. */
static const struct zip_entry *find_entry(const struct reader *r, const char *name, const struct file_str *more)
{
    char path[FILE_MAX_NAME];
    size_t root = (size_t)r->root.len, n = strlen(name), extra = more ? (size_t)more->len : 0;
    if (extra > sizeof path - n - root)
        return NULL;
    memcpy(path, r->root.data, root);
    memcpy(path + root, name, n);
    if (extra)
        memcpy(path + root + n, more->data, extra);
    return zip_find(&r->zip, path, root + n + extra);
}

/* ---- Tensors ---- */

static bool keep_room(struct reader *r)
{
    const struct alloc *a = &r->env->alloc;
    if (r->f->n_tensors < r->cap)
        return true;
    uint64_t more = r->cap ? r->cap * 2 : 64;
    struct file_tensor *t = mem_grow(a, r->f->tensors, (size_t)(more * sizeof *t));
    if (!t)
        return false;
    r->f->tensors = t;
    r->cap = more;
    return true;
}

/* The storage's entry, with at least as many elements as the pickle says. */
static infer_status find_storage(struct reader *r, const struct file_tensor *t, const struct pickle_value *storage, uint64_t element,
                                 const struct zip_entry **out)
{
    const struct zip_entry *e = find_entry(r, "data/", &storage->text);
    uint64_t bytes, numel = (uint64_t)storage->integer;
    if (!e)
        return FAIL(r, INFER_ERROR_MISSING, t, "the archive has no storage '%.*s'", storage->text.len < 64 ? (int)storage->text.len : 64,
                    storage->text.data);
    infer_status st = check_stored(r, e);
    if (st != INFER_OK)
        return st;
    if (!checked_mul(numel, storage->dtype < 0 ? 1 : element, &bytes) || bytes > e->size)
        return FAIL(r, INFER_ERROR_TRUNCATED, t, "the storage '%.*s' has %llu bytes, too few for its %llu elements",
                    storage->text.len < 64 ? (int)storage->text.len : 64, storage->text.data, (unsigned long long)e->size,
                    (unsigned long long)numel);
    *out = e;
    return INFER_OK;
}

/* Sizes and strides, innermost first; whether the elements lie in order without gaps; one beyond the last of them. */
static infer_status read_layout(struct reader *r, struct file_tensor *t, const struct pickle_value *v, struct strided *s, bool *contiguous,
                                uint64_t *end)
{
    const struct pickle_value *sizes = v->items[2], *strides = v->items[3];
    uint64_t expected = 1, last = 0;
    if (sizes->n > MAX_RANK)
        return FAIL(r, INFER_ERROR_LIMIT, t, "more than %u dimensions", MAX_RANK);
    *contiguous = true;
    t->n = 1;
    for (uint32_t i = 0; i < FILE_MAX_DIMS; i++)
        t->dims[i] = s->sizes[i] = s->strides[i] = 1;
    for (uint32_t i = 0; i < sizes->n; i++) {
        uint64_t size = (uint64_t)sizes->items[sizes->n - 1 - i]->integer, stride = (uint64_t)strides->items[sizes->n - 1 - i]->integer;
        uint64_t *dim = &t->dims[i < FILE_MAX_DIMS ? i : FILE_MAX_DIMS - 1], reach;
        if (!checked_mul(*dim, size, dim) || !checked_mul(t->n, size, &t->n) || t->n > INT64_MAX ||
            !checked_mul(size ? size - 1 : 0, stride, &reach) || !checked_add(last, reach, &last))
            return FAIL(r, INFER_ERROR_FORMAT, t, "the tensor has too many elements");
        *contiguous &= size <= 1 || stride == expected;
        expected = size ? expected * size : expected; /* below t->n, or of no use */
        if (i < FILE_MAX_DIMS) {
            s->sizes[i] = size;
            s->strides[i] = stride;
        }
    }
    *contiguous |= t->n == 0;
    t->n_dims = sizes->n == 0 ? 1 : sizes->n < FILE_MAX_DIMS ? sizes->n : FILE_MAX_DIMS;
    if (!*contiguous && sizes->n > FILE_MAX_DIMS)
        return FAIL(r, INFER_ERROR_UNSUPPORTED, t, "a tensor of %lu dimensions that is not contiguous", (unsigned long)sizes->n);
    if (t->n && !checked_add(last, 1, &last))
        return FAIL(r, INFER_ERROR_FORMAT, t, "the tensor's strides overflow");
    *end = t->n ? last : 0;
    if (*contiguous)
        *s = (struct strided){.tensor = s->tensor, .sizes = {t->n, 1, 1, 1}, .strides = {1, 1, 1, 1}};
    return INFER_OK;
}

/* Notes that t is to be gathered. */
static infer_status plan_copy(struct reader *r, struct file_tensor *t, const struct strided *s)
{
    uint64_t aligned;
    if (!checked_align(t->bytes, COPY_ALIGN, &aligned) || !checked_add(r->copied, aligned, &r->copied) ||
        r->copied > 2 * r->f->parts[0].size + COPY_MORE)
        return FAIL(r, INFER_ERROR_LIMIT, t, "tensors that are not contiguous would need more than twice the file's size");
    if (r->n_strided == r->cap_strided) {
        uint64_t more = r->cap_strided ? r->cap_strided * 2 : 16;
        struct strided *p = mem_grow(&r->env->alloc, r->strided, (size_t)(more * sizeof *p));
        if (!p)
            return err_no_memory(r->err);
        r->strided = p;
        r->cap_strided = more;
    }
    t->part = IN_COPY;
    r->strided[r->n_strided++] = *s;
    return INFER_OK;
}

static infer_status read_tensor(struct reader *r, const struct pickle_value *v, struct file_tensor *t)
{
    const struct pickle_value *storage = v->items[0];
    const struct zip_entry *e = NULL;
    struct strided s = {.tensor = r->f->n_tensors};
    uint64_t offset = (uint64_t)v->items[1]->integer, end = 0, first, limit;
    bool contiguous = false;
    t->type = v->dtype >= 0 ? v->dtype : storage->dtype;
    if (t->type < 0)
        return FAIL(r, INFER_ERROR_FORMAT, t, "a tensor of an untyped storage, without a type of its own");
    uint64_t element = dtype_of(t->type)->bytes;
    infer_status st = read_layout(r, t, v, &s, &contiguous, &end);
    if (st == INFER_OK)
        st = find_storage(r, t, storage, element, &e);
    if (st != INFER_OK)
        return st;
    limit = storage->dtype < 0 ? (uint64_t)storage->integer / element : (uint64_t)storage->integer;
    if (offset > limit || end > limit - offset)
        return FAIL(r, INFER_ERROR_FORMAT, t, "the tensor's strides lead past its storage of %llu elements", (unsigned long long)limit);
    if (!checked_mul(t->n, element, &t->bytes))
        return FAIL(r, INFER_ERROR_FORMAT, t, "the tensor has too many elements");
    if (t->n > limit)
        return FAIL(r, INFER_ERROR_UNSUPPORTED, t, "an expanded tensor: it has more elements than its storage");
    first = t->n ? e->offset + offset * element : 0;
    t->offset = first;
    t->data = s.from = r->f->parts[0].data + first;
    if (contiguous && ((uintptr_t)t->data % element == 0 || t->n == 0))
        return INFER_OK;
    return plan_copy(r, t, &s);
}

/* ---- The tree ---- */

/* The path of names down to a value. */
struct path {
    char text[FILE_MAX_NAME];
    size_t len;
};

static bool path_add(struct path *p, const char *s, size_t len)
{
    size_t dot = p->len > 0;
    if (len > sizeof p->text - p->len - dot || len == 0 || memchr(s, 0, len))
        return false;
    if (dot)
        p->text[p->len] = '.';
    memcpy(p->text + p->len + dot, s, len);
    p->len += dot + len;
    return true;
}

static bool path_add_number(struct path *p, uint64_t v)
{
    char d[20];
    size_t n = sizeof d;
    do
        d[--n] = (char)('0' + v % 10);
    while ((v /= 10) != 0);
    return path_add(p, d + n, sizeof d - n);
}

static infer_status add_tensor(struct reader *r, const struct pickle_value *v, const struct path *p)
{
    struct infer_file *f = r->f;
    const char *name = p->len ? p->text : "tensor"; /* a file of one tensor alone */
    size_t len = p->len ? p->len : 6;
    if (f->n_tensors == FILE_MAX_TENSORS)
        return err_set(r->err, INFER_ERROR_LIMIT, "the file has more than %llu tensors", (unsigned long long)FILE_MAX_TENSORS);
    if (!keep_room(r))
        return err_no_memory(r->err);
    struct file_tensor *t = &f->tensors[f->n_tensors];
    *t = (struct file_tensor){.name = {arena_strdup(&f->arena, name, len), len}};
    if (!t->name.data)
        return err_no_memory(r->err);
    if (!utf8_valid(name, len))
        return err_set(r->err, INFER_ERROR_FORMAT, "a tensor's name that is not UTF-8");
    infer_status st = read_tensor(r, v, t);
    if (st != INFER_OK)
        return st;
    int added = map_add(&f->tensor_map, t->name.data, len, (uint32_t)f->n_tensors);
    if (added < 0)
        return err_no_memory(r->err);
    if (!added)
        return FAIL(r, INFER_ERROR_FORMAT, t, "two tensors of this name");
    f->n_tensors++;
    return INFER_OK;
}

/* A container whose items are next to be looked at. */
struct level {
    const struct pickle_value *v;
    uint32_t next;
    size_t path; /* its length before the item's name */
};

/* Adds the name of item i. */
static infer_status name_item(struct reader *r, const struct pickle_value *v, uint32_t i, struct path *p)
{
    const struct pickle_value *key = v->type == PICKLE_DICT ? v->items[2 * i] : NULL;
    bool ok;
    if (!key)
        ok = path_add_number(p, i);
    else if (key->type == PICKLE_INT && key->integer >= 0)
        ok = path_add_number(p, (uint64_t)key->integer);
    else
        ok = key->type == PICKLE_STRING && path_add(p, key->text.data, (size_t)key->text.len);
    return ok ? INFER_OK
              : err_at(r->err, INFER_ERROR_FORMAT, p->text, p->len, ERR_NO_OFFSET, "a key below this one that cannot be a part of a tensor's name");
}

static bool holds(const struct pickle_value *v)
{
    return v->type == PICKLE_TENSOR || ((v->type == PICKLE_DICT || v->type == PICKLE_LIST || v->type == PICKLE_TUPLE) && v->n);
}

/* Depth first, in order. A list may hold itself, and a value many others many times: depth and visits are bounded. */
static infer_status walk(struct reader *r, const struct pickle_value *root)
{
    struct level levels[MAX_DEPTH];
    struct path p = {.len = 0};
    uint32_t depth = 0;
    infer_status st = INFER_OK;
    if (root->type == PICKLE_TENSOR)
        return add_tensor(r, root, &p);
    levels[depth++] = (struct level){.v = root};
    while (depth && st == INFER_OK) {
        struct level *l = &levels[depth - 1];
        uint32_t n = l->v->type == PICKLE_DICT ? l->v->n / 2 : l->v->n, i = l->next++;
        p.len = l->path;
        if (i >= n || !holds(l->v)) {
            depth--;
            continue;
        }
        const struct pickle_value *item = l->v->type == PICKLE_DICT ? l->v->items[2 * i + 1] : l->v->items[i];
        if (++r->visits > r->max_visits)
            return err_set(r->err, INFER_ERROR_LIMIT, "the file's containers hold one another too many times");
        if (!holds(item))
            continue;
        st = name_item(r, l->v, i, &p);
        if (st == INFER_OK && item->type == PICKLE_TENSOR)
            st = add_tensor(r, item, &p);
        else if (st == INFER_OK && depth == MAX_DEPTH)
            st = err_at(r->err, INFER_ERROR_LIMIT, p.text, p.len, ERR_NO_OFFSET, "containers more than %u deep", MAX_DEPTH);
        else if (st == INFER_OK)
            levels[depth++] = (struct level){.v = item, .path = p.len};
    }
    return st;
}

/* ---- Copies ---- */

static void gather(const struct strided *s, uint8_t *to, uint64_t element, const infer_cancel *cancel)
{
    for (uint64_t d = 0; d < s->sizes[3]; d++)
        for (uint64_t c = 0; c < s->sizes[2]; c++)
            for (uint64_t b = 0; b < s->sizes[1] && !cancel_is_set(cancel); b++) {
                const uint8_t *row = s->from + (d * s->strides[3] + c * s->strides[2] + b * s->strides[1]) * element;
                for (uint64_t a = 0; a < s->sizes[0]; a++, to += element)
                    memcpy(to, row + a * s->strides[0] * element, (size_t)element);
            }
}

static infer_status fill_copies(struct reader *r, struct blob *to)
{
    uint64_t at = 0;
    for (uint64_t i = 0; i < r->n_strided; i++) {
        struct file_tensor *t = &r->f->tensors[r->strided[i].tensor];
        uint64_t element = dtype_of(t->type)->bytes;
        gather(&r->strided[i], (uint8_t *)to->owned + at, element, r->cancel);
        if (cancel_is_set(r->cancel))
            return err_set(r->err, INFER_ERROR_CANCELLED, "cancelled while copying tensors");
        t->part = 1;
        t->offset = at;
        t->data = to->data + at;
        at += (t->bytes + COPY_ALIGN - 1) / COPY_ALIGN * COPY_ALIGN;
    }
    return INFER_OK;
}

static infer_status make_copies(struct reader *r)
{
    struct blob own;
    if (!r->n_strided)
        return INFER_OK;
    infer_status st = blob_alloc(r->env, r->copied, &own, r->err);
    if (st != INFER_OK)
        return st;
    st = fill_copies(r, &own);
    if (st != INFER_OK)
        blob_close(&own);
    return st == INFER_OK ? file_add_part(r->f, &own, r->err) : st;
}

/* ---- The archive ---- */

/* data.pkl, and what stands before it in its name. */
static infer_status find_pickle(struct reader *r, const struct zip_entry **out)
{
    static const char name[] = "data.pkl";
    const struct zip_entry *found = NULL;
    for (uint64_t i = 0; i < r->zip.n; i++) {
        const struct zip_entry *e = &r->zip.entries[i];
        if (!ends_with(&e->name, name) || (e->name.len > 8 && e->name.data[e->name.len - 9] != '/'))
            continue;
        if (found)
            return err_at(r->err, INFER_ERROR_FORMAT, e->name.data, (size_t)e->name.len, e->header, "a second data.pkl in the archive");
        found = e;
    }
    if (found)
        r->root = (struct file_str){found->name.data, found->name.len - 8};
    *out = found;
    return INFER_OK;
}

static infer_status check_archive(struct reader *r)
{
    const struct zip_entry *order = find_entry(r, "byteorder", NULL);
    if (find_entry(r, "constants.pkl", NULL))
        return err_set(r->err, INFER_ERROR_UNSUPPORTED, "a TorchScript archive, which is a program: save its state_dict with torch.save");
    if (!order)
        return INFER_OK;
    infer_status st = check_stored(r, order);
    if (st != INFER_OK || (order->size == 6 && !memcmp(bytes_of(r, order), "little", 6)))
        return st;
    return err_at(r->err, INFER_ERROR_UNSUPPORTED, order->name.data, (size_t)order->name.len, order->offset,
                  "a big-endian PyTorch file: only little-endian ones are supported");
}

static infer_status read_pickle(struct reader *r, const struct zip_entry *e)
{
    struct arena ar;
    struct pickle_value *root = NULL;
    infer_status st = check_stored(r, e);
    if (st != INFER_OK)
        return st;
    if (e->size > MAX_PICKLE)
        return err_at(r->err, INFER_ERROR_LIMIT, e->name.data, (size_t)e->name.len, e->offset, "a pickle of %llu bytes (at most %llu)",
                      (unsigned long long)e->size, (unsigned long long)MAX_PICKLE);
    arena_init(&ar, &r->env->alloc, PICKLE_MEMORY(e->size));
    st = pickle_read(&ar, bytes_of(r, e), e->size, r->cancel, &root, r->err);
    if (st != INFER_OK && r->err && r->err->offset != ERR_NO_OFFSET)
        r->err->offset += e->offset;
    r->max_visits = 2 * e->size + 1024;
    if (st == INFER_OK)
        st = walk(r, root);
    if (st == INFER_OK && r->f->n_tensors == 0)
        st = err_at(r->err, INFER_ERROR_MISSING, e->name.data, (size_t)e->name.len, ERR_NO_OFFSET, "the file holds no tensors");
    arena_free(&ar);
    return st == INFER_OK ? make_copies(r) : st;
}

static infer_status read_torch(struct reader *r, const struct zip_entry *pickle)
{
    infer_status st = check_archive(r);
    return st == INFER_OK ? read_pickle(r, pickle) : st;
}

/* ---- A safetensors file in an archive ---- */

static infer_status find_inner(struct reader *r, const struct zip_entry **out)
{
    const struct zip_entry *found = NULL;
    for (uint64_t i = 0; i < r->zip.n; i++) {
        const struct zip_entry *e = &r->zip.entries[i];
        struct blob inner = {.data = bytes_of(r, e), .size = e->size};
        bool named = ends_with(&e->name, ".safetensors");
        if (!named && (e->method != 0 || !safetensors_is(&inner)))
            continue;
        if (found)
            return err_at(r->err, INFER_ERROR_UNSUPPORTED, e->name.data, (size_t)e->name.len, e->header,
                          "a second safetensors file in the archive: unpack it");
        found = e;
    }
    if (!found)
        return err_set(r->err, INFER_ERROR_FORMAT, "a zip archive without data.pkl: not a file that torch.save wrote");
    *out = found;
    return check_stored(r, found);
}

/* The entry's bytes as a blob: in place, or copied where floats could not be read there. The archive's blob is closed with the file. */
static infer_status open_inner(const struct env *env, const char *name, size_t name_len, struct blob *outer, const struct zip_entry *e,
                               const infer_cancel *cancel, struct infer_file **out, infer_error *err)
{
    struct blob inner = {.env = env, .fd = -1, .data = outer->data + e->offset, .size = e->size};
    infer_status st = INFER_OK;
    if ((uintptr_t)inner.data % 8) {
        st = blob_alloc(env, e->size, &inner, err);
        if (st == INFER_OK)
            memcpy(inner.owned, outer->data + e->offset, (size_t)e->size);
    }
    if (st == INFER_OK)
        st = safetensors_open(env, name, name_len, &inner, cancel, out, err);
    if (st != INFER_OK) {
        blob_close(outer);
        return st;
    }
    st = file_add_part(*out, outer, err);
    if (st != INFER_OK)
        file_release(*out);
    return st;
}

/* ---- */

/* Whether there is a data.pkl; if not, the safetensors file to read instead. */
static infer_status look(struct reader *r, const struct zip_entry **pickle, const struct zip_entry **inner)
{
    infer_status st = find_pickle(r, pickle);
    return st == INFER_OK && !*pickle ? find_inner(r, inner) : st;
}

static infer_status open_torch(struct reader *r, const char *name, size_t name_len, struct blob *blob, const struct zip_entry *pickle,
                               struct infer_file **out)
{
    infer_status st = file_create(r->env, name, name_len, blob, &r->f, r->err);
    if (st != INFER_OK)
        return st;
    st = read_torch(r, pickle);
    mem_free(&r->env->alloc, r->strided);
    if (st != INFER_OK) {
        file_failed(r->f, r->err, st);
        file_release(r->f);
        return st;
    }
    *out = r->f;
    return INFER_OK;
}

infer_status torch_open(const struct env *env, const char *name, size_t name_len, struct blob *blob, const infer_cancel *cancel,
                        struct infer_file **out, infer_error *err)
{
    struct reader r = {.env = env, .cancel = cancel, .err = err};
    const struct zip_entry *pickle = NULL, *inner = NULL;
    struct blob bytes = *blob; /* a copy for the zip to look at: the file moves its own */
    infer_status st = zip_open(env, &bytes, cancel, &r.zip, err);
    if (st == INFER_OK) {
        st = look(&r, &pickle, &inner);
        if (st != INFER_OK)
            blob_close(blob);
        else if (pickle)
            st = open_torch(&r, name, name_len, blob, pickle, out);
        else
            st = open_inner(env, name, name_len, blob, inner, cancel, out, err);
        zip_close(&r.zip);
    } else {
        blob_close(blob);
    }
    if (st != INFER_OK)
        err_file(err, name, name_len);
    return st;
}
