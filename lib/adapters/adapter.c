#include "adapters/adapter.h"

#include <string.h>

#include "adapters/adapter_read.h"
#include "base/os_file.h"
#include "base/outfile.h"

#define CONFIG_NAME "adapter_config.json"
#define MAX_CONFIG ((uint64_t)16 << 20) /* bytes */

struct infer_adapter *adapter_ref(struct infer_adapter *a)
{
    ref_get(&a->ref);
    return a;
}

void adapter_release(struct infer_adapter *a)
{
    if (!a || !ref_put(&a->ref))
        return;
    const struct env *env = a->env;
    if (a->unbind)
        a->unbind(a->bound);
    file_release(a->file);
    arena_free(&a->arena);
    mem_free(&env->alloc, a);
    env_release(env);
}

infer_status adapter_check(const struct infer_adapter *a, infer_error *err)
{
    return file_check(a->file, err);
}

const struct adapter_target *adapter_find_target(const struct infer_adapter *a, const char *name)
{
    size_t lo = 0, hi = (size_t)a->n_targets;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int order = strcmp(a->targets[mid].name, name);
        if (order == 0)
            return &a->targets[mid];
        if (order < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

static infer_status create(const struct env *env, struct infer_adapter **out, infer_error *err)
{
    struct infer_adapter *a = mem_zalloc(&env->alloc, sizeof *a);
    if (!a)
        return err_no_memory(err);
    ref_init(&a->ref);
    a->env = env_ref(env);
    arena_init(&a->arena, &env->alloc, 0);
    a->arch = "";
    a->base = "";
    *out = a;
    return INFER_OK;
}

/* ---- The files: an adapter's own and the JSON beside it ---- */

/* The source with another name, which lives in r->temp. */
static infer_status renamed(struct adapter_reader *r, const char *dir, size_t dir_len, const char *name, infer_source *out)
{
    size_t n = strlen(name);
    char *path = arena_alloc(&r->temp, dir_len + n + 1);
    if (!path)
        return err_no_memory(r->err);
    if (dir_len)
        memcpy(path, dir, dir_len);
    memcpy(path + dir_len, name, n + 1);
    *out = *r->source;
    out->name = path;
    out->name_len = dir_len + n;
    return INFER_OK;
}

/* Bytes of the name up to and with its last separator. */
static size_t dir_of(const infer_source *s)
{
    size_t n = s->name ? (size_t)s->name_len : 0;
    while (n && s->name[n - 1] != '/' && !(s->kind == INFER_SOURCE_PATH && s->name[n - 1] == '\\'))
        n--;
    return n;
}

static infer_status parse_config(struct adapter_reader *r, const infer_source *source, const struct blob *blob)
{
    infer_status st;
    if (blob->size > MAX_CONFIG)
        st = err_set(r->err, INFER_ERROR_LIMIT, "more than %llu bytes", (unsigned long long)MAX_CONFIG);
    else
        st = peft_config_read(r, (const char *)blob->data, (size_t)blob->size);
    if (st != INFER_OK)
        err_file(r->err, source->name, (size_t)source->name_len);
    return st;
}

/* The JSON in the folder `dir`, if the source can look there and there is one. */
static infer_status read_config(struct adapter_reader *r, const char *dir, size_t dir_len)
{
    infer_source s;
    struct blob blob;
    if (r->source->kind != INFER_SOURCE_PATH && r->source->kind != INFER_SOURCE_CALLBACK)
        return INFER_OK;
    infer_status st = renamed(r, dir, dir_len, CONFIG_NAME, &s);
    if (st != INFER_OK)
        return st;
    st = blob_open(r->a->env, &s, s.name, s.name_len, INFER_MAP_READ, r->cancel, &blob, r->err);
    if (st == INFER_ERROR_NOT_FOUND)
        return INFER_OK;
    if (st != INFER_OK)
        return st;
    st = parse_config(r, &s, &blob);
    blob_close(&blob);
    return st;
}

static bool any_name(void *arg, const char *name)
{
    (void)arg, (void)name;
    return false;
}

static infer_status is_folder(struct adapter_reader *r, bool *out)
{
    const infer_source *s = r->source;
    int os_error = 0;
    *out = s->kind == INFER_SOURCE_CALLBACK && s->name && s->name_len && s->name[s->name_len - 1] == '/';
    if (s->kind != INFER_SOURCE_PATH || !s->name || s->name_len == 0 || s->name_len > 65535)
        return INFER_OK;
    char *path = arena_strdup(&r->temp, s->name, (size_t)s->name_len);
    if (!path)
        return err_no_memory(r->err);
    infer_status st = r->a->env->io->list(path, any_name, NULL, &os_error);
    *out = st == INFER_OK;
    return st == INFER_ERROR_IO ? outfile_failed(r->err, st, os_error, "look whether it is a folder") : INFER_OK;
}

static infer_status open_folder(struct adapter_reader *r)
{
    static const char *const names[] = {"adapter_model.safetensors", "adapter_model.bin"};
    infer_source s;
    size_t n = (size_t)r->source->name_len;
    char *dir = arena_alloc(&r->temp, n + 1);
    if (!dir)
        return err_no_memory(r->err);
    memcpy(dir, r->source->name, n);
    if (dir[n - 1] != '/')
        dir[n++] = '/';
    infer_status st = read_config(r, dir, n);
    if (st == INFER_OK && r->config.method == PEFT_NONE)
        st = err_set(r->err, INFER_ERROR_MISSING, "the folder has no " CONFIG_NAME ": it is not one that PEFT wrote");
    for (size_t i = 0; i < sizeof names / sizeof *names && st == INFER_OK; i++) {
        st = renamed(r, dir, n, names[i], &s);
        if (st == INFER_OK)
            st = file_open(r->a->env, &s, r->map, r->cancel, &r->a->file, r->err);
        if (st != INFER_ERROR_NOT_FOUND)
            return st;
        if (i == 0)
            st = INFER_OK;
    }
    return st == INFER_ERROR_NOT_FOUND ? err_set(r->err, INFER_ERROR_MISSING, "the folder has no %s", names[0]) : st;
}

static infer_status open_files(struct adapter_reader *r)
{
    bool folder = false;
    infer_status st = is_folder(r, &folder);
    if (st != INFER_OK || folder)
        return st == INFER_OK ? open_folder(r) : st;
    st = file_open(r->a->env, r->source, r->map, r->cancel, &r->a->file, r->err);
    if (st != INFER_OK || file_has(r->a->file, "general.architecture"))
        return st; /* GGUF says everything itself */
    return read_config(r, r->source->name, dir_of(r->source));
}

/* ---- What kind it is ---- */

static bool has_half(const struct infer_file *f)
{
    for (uint64_t i = 0; i < f->n_tensors; i++)
        for (uint64_t k = 0; k + 6 <= f->tensors[i].name.len; k++)
            if (!memcmp(f->tensors[i].name.data + k, "lora_A", 6))
                return true;
    return false;
}

static infer_status read_content(struct adapter_reader *r)
{
    const struct infer_file *f = r->a->file;
    if (f->n_tensors == 0)
        return err_set(r->err, INFER_ERROR_MISSING, "the file has no tensors");
    if (file_has(f, "adapter.type"))
        return adapter_read_gguf_lora(r);
    if (adapter_has_directions(f)) /* whatever lies beside it */
        return adapter_read_steering(r);
    if (r->config.method == PEFT_LORA)
        return adapter_read_peft_lora(r);
    if (r->config.method != PEFT_NONE || file_find_tensor(f, "prompt_embeddings", 17))
        return adapter_read_rows(r);
    if (has_half(f))
        return err_set(r->err, INFER_ERROR_MISSING, "a LoRA of PEFT needs its " CONFIG_NAME " beside it: open the folder, or the file by path or callback");
    return err_set(r->err, INFER_ERROR_UNSUPPORTED, "not an adapter: neither a LoRA, nor a control vector, nor a soft prompt");
}

static infer_status read_all(struct adapter_reader *r)
{
    infer_status st = open_files(r);
    if (st != INFER_OK)
        return st;
    st = read_content(r);
    if (st == INFER_OK)
        st = adapter_hash(r);
    if (st != INFER_OK)
        file_failed(r->a->file, r->err, st);
    return st;
}

infer_status adapter_open(const struct env *env, const infer_source *source, int32_t map, const infer_cancel *cancel,
                          struct infer_adapter **out, infer_error *err)
{
    struct infer_adapter *a = NULL;
    if (!hash_available())
        return err_set(err, INFER_ERROR_UNSUPPORTED, "this build has no xxHash, by which adapters are told apart");
    infer_status st = create(env, &a, err);
    if (st != INFER_OK)
        return st;
    struct adapter_reader r = {.a = a, .source = source, .map = map, .cancel = cancel, .err = err};
    arena_init(&r.temp, &env->alloc, (size_t)256 << 20);
    st = read_all(&r);
    arena_free(&r.temp);
    if (st != INFER_OK) {
        err_file(err, source->name, source->name ? (size_t)source->name_len : 0);
        adapter_release(a);
        return st;
    }
    *out = a;
    return INFER_OK;
}
