/* A folder's weights: one file, or shards with an index. */
#include <string.h>

#include "model/hf_read.h"

#define MAX_INDEX ((size_t)256 << 20)

infer_status hf_open_file(struct hf_reader *r, const char *name, struct blob *blob, struct infer_file **out)
{
    size_t n = strlen(name);
    char *path = arena_alloc(&r->ar, r->dir_len + n + 1);
    if (!path) {
        blob_close(blob);
        return err_no_memory(r->err);
    }
    if (r->dir_len)
        memcpy(path, r->dir, r->dir_len);
    memcpy(path + r->dir_len, name, n + 1);
    return file_open_blob(r->env, r->source, path, r->dir_len + n, blob, r->o->map, r->o->cancel, out, r->err);
}

/* ---- Shards ---- */

struct shards {
    struct hf_reader *r;
    const char *index; /* the index' name */
    const struct json *map; /* tensor name -> file name */
    struct map names;  /* file name -> number */
    struct map where;  /* tensor name -> number of its file */
    uint32_t *numbers; /* the same in the order of `map` */
    const char **files;
    uint32_t n;
};

static infer_status index_fail(struct shards *s, infer_status code, const struct json_text *name, const char *why)
{
    infer_status st = err_at(s->r->err, code, name ? name->p : NULL, name ? name->len : 0, ERR_NO_OFFSET, "%s", why);
    hf_err_file(s->r, s->index);
    return st;
}

/* A shard is a file of the folder itself: names that lead anywhere else are refused. */
static bool plain_name(const struct json_text *s)
{
    if (s->len == 0 || s->len > 255 || s->p[0] == '.')
        return false;
    for (size_t i = 0; i < s->len; i++)
        if ((unsigned char)s->p[i] < 0x20 || s->p[i] == '/' || s->p[i] == '\\' || s->p[i] == ':')
            return false;
    return true;
}

static infer_status list_shards(struct shards *s)
{
    s->files = arena_zarray(&s->r->ar, s->map->n, sizeof *s->files);
    s->numbers = arena_zarray(&s->r->ar, s->map->n, sizeof *s->numbers);
    if (!s->files || !s->numbers || !map_reserve(&s->where, s->map->n))
        return err_no_memory(s->r->err);
    for (size_t i = 0; i < s->map->n; i++) {
        const struct json_member *m = &s->map->u.members[i];
        if (m->value.type != JSON_STRING)
            return index_fail(s, INFER_ERROR_FORMAT, &m->key, "the name of the tensor's file is not a string");
        if (!plain_name(&m->value.u.text))
            return index_fail(s, INFER_ERROR_FORMAT, &m->key, "the tensor's file is not named as one in this folder");
        int added = map_add(&s->names, m->value.u.text.p, m->value.u.text.len, s->n);
        if (added > 0 && s->n == FILE_MAX_PARTS)
            return index_fail(s, INFER_ERROR_LIMIT, NULL, "too many files");
        if (added > 0)
            s->files[s->n++] = m->value.u.text.p;
        s->numbers[i] = added < 0 ? 0 : *map_find(&s->names, m->value.u.text.p, m->value.u.text.len);
        if (added < 0 || map_add(&s->where, m->key.p, m->key.len, s->numbers[i]) < 0)
            return err_no_memory(s->r->err);
    }
    return s->n ? INFER_OK : index_fail(s, INFER_ERROR_FORMAT, NULL, "names no files");
}

/* The tensors that the index places in file number `no` must be there, and those that it places in another must not. */
static infer_status check_shard(struct shards *s, const struct infer_file *f, uint32_t no)
{
    for (size_t i = 0; i < s->map->n; i++) {
        const struct json_text *name = &s->map->u.members[i].key;
        if (s->numbers[i] == no && !file_find_tensor(f, name->p, name->len))
            return file_failed(f, s->r->err, err_at(s->r->err, INFER_ERROR_MISSING, name->p, name->len, ERR_NO_OFFSET,
                                                    "the tensor is not in this file, where %s places it", s->index));
    }
    for (uint64_t i = 0; i < f->n_tensors; i++) {
        const struct file_str *name = &f->tensors[i].name;
        const uint32_t *there = map_find(&s->where, name->data, (size_t)name->len);
        if (there && *there != no)
            return file_failed(f, s->r->err, err_at(s->r->err, INFER_ERROR_FORMAT, name->data, (size_t)name->len, ERR_NO_OFFSET,
                                                    "the tensor is in this file, but %s places it in another", s->index));
    }
    return INFER_OK;
}

static infer_status add_shard(struct shards *s, uint32_t no)
{
    struct hf_reader *r = s->r;
    struct blob blob;
    struct infer_file *f;
    bool found;
    infer_status st = hf_open_companion(r, s->files[no], &blob, &found);
    if (st != INFER_OK)
        return st;
    if (!found)
        return index_fail(s, INFER_ERROR_NOT_FOUND, &(struct json_text){s->files[no], strlen(s->files[no])}, "a file that it names is missing");
    st = hf_open_file(r, s->files[no], &blob, &f);
    if (st != INFER_OK)
        return st;
    st = check_shard(s, f, no);
    if (st == INFER_OK && !r->weights) {
        r->weights = f;
        return INFER_OK;
    }
    if (st == INFER_OK) {
        st = file_join(r->weights, f, r->err);
        if (st != INFER_OK)
            file_failed(f, r->err, st);
    }
    file_release(f);
    return st;
}

static infer_status read_index(struct hf_reader *r, const char *name, const struct blob *blob, struct json *root)
{
    infer_status st = json_parse(&r->ar, (const char *)blob->data, (size_t)blob->size,
                                 &(struct json_limits){.max_depth = 16, .max_bytes = MAX_INDEX, .unique_keys = true}, root, r->err);
    if (st == INFER_ERROR_SYNTAX && r->err)
        st = r->err->code = INFER_ERROR_FORMAT;
    if (st != INFER_OK)
        hf_err_file(r, name);
    return st;
}

static infer_status open_shards(struct hf_reader *r, const char *index, struct blob *blob)
{
    struct shards s = {.r = r, .index = index};
    struct json root;
    infer_status st = read_index(r, index, blob, &root);
    blob_close(blob);
    if (st != INFER_OK)
        return st;
    s.map = hf_member(&root, "weight_map");
    if (!s.map || s.map->type != JSON_OBJECT)
        return index_fail(&s, INFER_ERROR_FORMAT, NULL, "has no weight_map");
    if (s.map->n > FILE_MAX_TENSORS)
        return index_fail(&s, INFER_ERROR_LIMIT, NULL, "too many tensors");
    map_init(&s.names, &r->env->alloc);
    map_init(&s.where, &r->env->alloc);
    st = list_shards(&s);
    for (uint32_t i = 0; i < s.n && st == INFER_OK; i++)
        st = add_shard(&s, i);
    map_free(&s.names);
    map_free(&s.where);
    return st;
}

/* ---- Which file ---- */

static bool is_index(const struct blob *b)
{
    uint64_t i = 0;
    while (i < b->size && (b->data[i] == ' ' || b->data[i] == '\n' || b->data[i] == '\r' || b->data[i] == '\t'))
        i++;
    return i < b->size && b->data[i] == '{';
}

static infer_status open_named(struct hf_reader *r, const char *name, struct blob *blob)
{
    return is_index(blob) ? open_shards(r, name, blob) : hf_open_file(r, name, blob, &r->weights);
}

infer_status hf_open_weights(struct hf_reader *r, struct blob *first)
{
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                                        "pytorch_model.bin.index.json"};
    if (first)
        return open_named(r, r->weights_name, first);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct blob blob;
        bool found;
        infer_status st = hf_open_companion(r, names[i], &blob, &found);
        if (st != INFER_OK || found)
            return st == INFER_OK ? open_named(r, names[i], &blob) : st;
    }
    infer_status st = err_at(r->err, INFER_ERROR_NOT_FOUND, names[0], strlen(names[0]), ERR_NO_OFFSET,
                             "the folder has no weights: neither %s, nor %s, nor PyTorch's", names[0], names[1]);
    err_file(r->err, r->dir, r->dir_len);
    return st;
}
