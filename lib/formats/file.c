#include "formats/file.h"

#include <string.h>

#include "formats/gguf.h"
#include "formats/tokenizer_json.h"
#include "formats/safetensors.h"
#include "formats/torch.h"

infer_status file_create(const struct env *env, const char *name, size_t name_len, struct blob *blob,
                         struct infer_file **out, infer_error *err)
{
    struct infer_file *f = mem_zalloc(&env->alloc, sizeof *f);
    struct blob *parts = mem_zalloc(&env->alloc, sizeof *parts);
    char *copy = mem_strdup(&env->alloc, name ? name : "", name ? name_len : 0);
    if (!f || !parts || !copy) {
        mem_free(&env->alloc, f);
        mem_free(&env->alloc, parts);
        mem_free(&env->alloc, copy);
        blob_close(blob);
        return err_no_memory(err);
    }
    ref_init(&f->ref);
    f->env = env_ref(env);
    f->name = copy;
    f->name_len = name ? name_len : 0;
    f->parts = parts;
    f->parts[0] = *blob;
    f->n_parts = 1;
    map_init(&f->tensor_map, &env->alloc);
    map_init(&f->meta_map, &env->alloc);
    arena_init(&f->arena, &env->alloc, 0);
    *out = f;
    return INFER_OK;
}

struct infer_file *file_ref(struct infer_file *f)
{
    ref_get(&f->ref);
    return f;
}

void file_release(struct infer_file *f)
{
    if (!f || !ref_put(&f->ref))
        return;
    const struct env *env = f->env;
    for (uint32_t i = 0; i < f->n_parts; i++)
        blob_close(&f->parts[i]);
    map_free(&f->tensor_map);
    map_free(&f->meta_map);
    arena_free(&f->arena);
    mem_free(&env->alloc, f->indexes);
    mem_free(&env->alloc, f->tensors);
    mem_free(&env->alloc, f->meta);
    mem_free(&env->alloc, f->parts);
    mem_free(&env->alloc, f->name);
    mem_free(&env->alloc, f);
    env_release(env);
}

infer_status file_failed(const struct infer_file *f, infer_error *err, infer_status st)
{
    err_file(err, f->name, f->name_len);
    return st;
}

infer_status file_check(const struct infer_file *f, infer_error *err)
{
    infer_status st = INFER_OK;
    for (uint32_t i = 0; i < f->n_parts && st == INFER_OK; i++)
        st = blob_check(&f->parts[i], err);
    return st == INFER_OK ? st : file_failed(f, err, st);
}

const struct file_tensor *file_find_tensor(const struct infer_file *f, const char *name, size_t len)
{
    const uint32_t *i = map_find(&f->tensor_map, name, len);
    return i ? &f->tensors[*i] : NULL;
}

const struct file_meta *file_find_meta(const struct infer_file *f, const char *key, size_t len)
{
    const uint32_t *i = map_find(&f->meta_map, key, len);
    return i ? &f->meta[*i] : NULL;
}

infer_status file_add_part(struct infer_file *f, struct blob *blob, infer_error *err)
{
    struct blob *parts = mem_grow(&f->env->alloc, f->parts, (f->n_parts + (size_t)1) * sizeof *parts);
    if (!parts) {
        blob_close(blob);
        return err_no_memory(err);
    }
    f->parts = parts;
    f->parts[f->n_parts++] = *blob;
    return INFER_OK;
}

/* Room for the other's tensors and blobs. */
static bool join_reserve(struct infer_file *f, const struct infer_file *part)
{
    const struct alloc *a = &f->env->alloc;
    uint64_t n = f->n_tensors + part->n_tensors;
    struct file_tensor *tensors = n > SIZE_MAX / sizeof *tensors ? NULL : mem_grow(a, f->tensors, (n ? n : 1) * sizeof *tensors);
    if (!tensors)
        return false;
    f->tensors = tensors;
    struct blob *parts = mem_grow(a, f->parts, ((size_t)f->n_parts + part->n_parts) * sizeof *parts);
    if (!parts)
        return false;
    f->parts = parts;
    return map_reserve(&f->tensor_map, (size_t)n);
}

infer_status file_join(struct infer_file *f, struct infer_file *part, infer_error *err)
{
    if (f->n_tensors + part->n_tensors > FILE_MAX_TENSORS)
        return err_set(err, INFER_ERROR_LIMIT, "more than %llu tensors", (unsigned long long)FILE_MAX_TENSORS);
    if (!join_reserve(f, part))
        return err_no_memory(err);
    for (uint64_t i = 0; i < part->n_tensors; i++) {
        struct file_tensor t = part->tensors[i];
        t.part += f->n_parts;
        int added = map_add(&f->tensor_map, t.name.data, (size_t)t.name.len, (uint32_t)f->n_tensors);
        if (added < 0)
            return err_no_memory(err);
        if (!added)
            return err_at(err, INFER_ERROR_FORMAT, t.name.data, (size_t)t.name.len, t.offset,
                          "tensor is in two parts of the model");
        f->tensors[f->n_tensors++] = t;
    }
    memcpy(f->parts + f->n_parts, part->parts, part->n_parts * sizeof *part->parts);
    f->n_parts += part->n_parts;
    arena_join(&f->arena, &part->arena);
    part->n_parts = 0;
    part->n_tensors = 0;
    return INFER_OK;
}

static bool starts(const struct blob *b, const char *text)
{
    size_t n = strlen(text);
    return b->size >= n && memcmp(b->data, text, n) == 0;
}

static infer_status refuse_unknown(const struct blob *b, infer_error *err)
{
    const char *what = "";
    if (b->size == 0)
        return err_at(err, INFER_ERROR_TRUNCATED, NULL, 0, 0, "the file is empty");
    if (starts(b, "lmgg") || starts(b, "fmgg") || starts(b, "tjgg"))
        what = " (it is an old GGML file; convert it to GGUF)";
    else if (starts(b, "\x80\2\x8a\nl\xfc\x9c" "F\xf9 j\xa8P\x19.") || starts(b, "\x80\2}q") || starts(b, "\x80\2ccollections"))
        what = " (it is a PyTorch file of the old format, before 1.6: load it and save it again)";
    else if (starts(b, "version https://git-lfs"))
        what = " (it is a Git LFS pointer: the real file was not downloaded)";
    else if (starts(b, "<!") || starts(b, "<html"))
        what = " (it looks like an HTML page: the download gave a web page)";
    else if (starts(b, "{"))
        what = " (it is JSON: a Hugging Face folder is opened by path or callback)";
    return err_at(err, INFER_ERROR_FORMAT, NULL, 0, 0, "not a GGUF, safetensors or PyTorch file%s", what);
}

infer_status file_open_blob(const struct env *env, const infer_source *source, const char *name, uint64_t name_len, struct blob *blob,
                            int32_t map, const infer_cancel *cancel, struct infer_file **out, infer_error *err)
{
    if (gguf_is(blob))
        return gguf_open(env, source, blob, map, cancel, out, err);
    if (safetensors_is(blob))
        return safetensors_open(env, name, (size_t)name_len, blob, cancel, out, err);
    if (torch_is(blob))
        return torch_open(env, name, (size_t)name_len, blob, cancel, out, err);
    if (tokenizer_json_is(blob))
        return tokenizer_json_open(env, name, (size_t)name_len, blob, out, err);
    infer_status st = refuse_unknown(blob, err);
    err_file(err, name, (size_t)name_len);
    blob_close(blob);
    return st;
}

infer_status file_open(const struct env *env, const infer_source *source, int32_t map, const infer_cancel *cancel,
                       struct infer_file **out, infer_error *err)
{
    struct blob blob;
    infer_status st = blob_open(env, source, source->name, source->name_len, map, cancel, &blob, err);
    if (st != INFER_OK)
        return st;
    return file_open_blob(env, source, source->name, source->name_len, &blob, map, cancel, out, err);
}
