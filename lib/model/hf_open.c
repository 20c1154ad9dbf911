/* Finding a folder and its files by what the source names. */
#include <string.h>

#include "base/fpenv.h"
#include "base/os_file.h"
#include "base/outfile.h"
#include "formats/safetensors.h"
#include "formats/tokenizer_json.h"
#include "formats/torch.h"
#include "model/hf_read.h"

#define CONFIG "config.json"
#define MAX_CONFIG ((size_t)64 << 20)

static bool opens_by_name(const infer_source *s)
{
    return s->kind == INFER_SOURCE_PATH || s->kind == INFER_SOURCE_CALLBACK;
}

infer_status hf_open_companion(struct hf_reader *r, const char *name, struct blob *out, bool *found)
{
    size_t n = strlen(name);
    char *path = arena_alloc(&r->ar, r->dir_len + n + 1);
    *found = false;
    if (!path)
        return err_no_memory(r->err);
    if (r->dir_len)
        memcpy(path, r->dir, r->dir_len);
    memcpy(path + r->dir_len, name, n + 1);
    infer_status st = blob_open(r->env, r->source, path, r->dir_len + n, r->o->map, r->o->cancel, out, r->err);
    *found = st == INFER_OK;
    return st == INFER_ERROR_NOT_FOUND ? INFER_OK : st;
}

void hf_err_file(const struct hf_reader *r, const char *name)
{
    char path[sizeof r->err->file];
    size_t n = strlen(name), dir = r->dir_len + n < sizeof path ? r->dir_len : 0;
    if (dir)
        memcpy(path, r->dir, dir);
    memcpy(path + dir, name, n);
    err_file(r->err, path, dir + n);
}

static infer_status parse(struct hf_reader *r, const char *name, const struct blob *b, struct json *out)
{
    const char *text = (const char *)b->data;
    size_t skip = b->size >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0; /* a byte order mark */
    infer_status st = json_parse(&r->ar, text + skip, (size_t)b->size - skip,
                                 &(struct json_limits){.max_depth = 64, .max_bytes = MAX_CONFIG}, out, r->err);
    if (st != INFER_OK)
        hf_err_file(r, name);
    return st;
}

infer_status hf_read_json(struct hf_reader *r, const char *name, struct json *out)
{
    struct blob b;
    bool found;
    *out = (struct json){.type = JSON_NULL};
    infer_status st = hf_open_companion(r, name, &b, &found);
    if (st != INFER_OK || !found)
        return st;
    st = parse(r, name, &b, out);
    blob_close(&b);
    return st;
}

/* ---- Reading a folder ---- */

static infer_status no_config(const struct hf_reader *r)
{
    infer_status st = err_at(r->err, INFER_ERROR_NOT_FOUND, CONFIG, strlen(CONFIG), ERR_NO_OFFSET, "the folder has no " CONFIG);
    err_file(r->err, r->dir, r->dir_len);
    return st;
}

static infer_status read_parts(struct hf_reader *r, struct blob *first, struct infer_file **out)
{
    bool text_only = r->o->use == HF_AS_TEXT;
    infer_status st = hf_read_json(r, "generation_config.json", &r->generation);
    if (st == INFER_OK)
        st = hf_read_json(r, "tokenizer_config.json", &r->tokenizer);
    if (st == INFER_OK && (r->config.type != JSON_NULL || !text_only))
        st = hf_read_config(r);
    if (st == INFER_OK)
        st = hf_read_text(r);
    if (st == INFER_OK && !text_only) {
        st = hf_open_weights(r, first);
        first = NULL;
    }
    if (first)
        blob_close(first);
    if (st == INFER_OK && r->weights && r->arch)
        st = hf_read_modules(r);
    if (st == INFER_OK && r->weights && r->arch)
        st = hf_check_output(r);
    if (st == INFER_OK && r->weights && r->arch)
        st = hf_map_tensors(r);
    if (st == INFER_OK && r->weights && r->arch)
        st = hf_check_tensors(r);
    return st == INFER_OK ? hf_build(r, out) : st;
}

/* first: the weights' file that was named, taken over; or NULL. */
static infer_status read_folder(struct hf_reader *r, struct blob *first, struct infer_file **out)
{
    r->model = &r->config;
    buf_init(&r->meta, &r->env->alloc, 0);
    infer_status st = read_parts(r, first, out);
    buf_free(&r->meta);
    file_release(r->weights);
    mem_free(&r->env->alloc, r->made);
    return st;
}

/* ---- What was named ---- */

/* The name up to and with its last separator. */
static void folder_of(struct hf_reader *r)
{
    const infer_source *s = r->source;
    size_t n = s->name ? (size_t)s->name_len : 0;
    while (n && s->name[n - 1] != '/' && !(s->kind == INFER_SOURCE_PATH && s->name[n - 1] == '\\'))
        n--;
    r->dir = s->name;
    r->dir_len = n;
}

/* The source's name as that of a folder. */
static infer_status folder_itself(struct hf_reader *r)
{
    const infer_source *s = r->source;
    size_t n = s->name ? (size_t)s->name_len : 0;
    char *dir = arena_zalloc(&r->ar, n + 2);
    if (!dir)
        return err_no_memory(r->err);
    if (n)
        memcpy(dir, s->name, n);
    if (n && dir[n - 1] != '/')
        dir[n++] = '/';
    r->dir = dir;
    r->dir_len = n;
    return INFER_OK;
}

static bool any_name(void *arg, const char *name)
{
    (void)arg, (void)name;
    return false;
}

/* Whether a name that did not open may be that of a folder. A callback says NOT_FOUND of folders; whatever else it says ends the call. */
static bool may_be_folder(const infer_source *s, infer_status st)
{
    if (s->kind == INFER_SOURCE_CALLBACK)
        return st == INFER_ERROR_NOT_FOUND;
    return s->kind == INFER_SOURCE_PATH && st != INFER_ERROR_NO_MEMORY && st != INFER_ERROR_CANCELLED && st != INFER_ERROR_ARGUMENT;
}

/* st, r->err: of opening the name as a file. Hosts' callbacks are asked for what a folder of that name would hold. */
static infer_status try_folder(struct hf_reader *r, infer_status st, struct infer_file **out)
{
    infer_error as_file = r->err ? *r->err : (infer_error){0};
    bool path = r->source->kind == INFER_SOURCE_PATH;
    int os_error = 0;
    if (!may_be_folder(r->source, st))
        return st;
    infer_status f = folder_itself(r), listed = f == INFER_OK && path ? r->env->io->list(r->dir, any_name, NULL, &os_error) : f;
    if (f == INFER_OK && listed == INFER_ERROR_IO && st == INFER_ERROR_UNSUPPORTED) /* no file, and no descriptor to see what else it is */
        return outfile_failed(r->err, listed, os_error, "look into the folder");
    if (f == INFER_OK && listed != INFER_OK)
        return st;
    if (f == INFER_OK)
        f = hf_read_json(r, CONFIG, &r->config);
    if (f != INFER_OK)
        return f;
    if (r->config.type != JSON_NULL || (path && r->o->use == HF_AS_TEXT))
        return read_folder(r, NULL, out);
    if (path)
        return no_config(r);
    if (r->err)
        *r->err = as_file;
    return st;
}

static bool is_json(const struct blob *b)
{
    uint64_t i = b->size >= 3 && !memcmp(b->data, "\xef\xbb\xbf", 3) ? 3 : 0;
    while (i < b->size && (b->data[i] == ' ' || b->data[i] == '\n' || b->data[i] == '\r' || b->data[i] == '\t'))
        i++;
    return i < b->size && b->data[i] == '{';
}

static infer_status alone(struct hf_reader *r, struct blob *b, struct infer_file **out)
{
    const infer_source *s = r->source;
    return file_open_blob(r->env, s, s->name, s->name_len, b, r->o->map, r->o->cancel, out, r->err);
}

static bool named_like(const struct hf_reader *r, const char *suffix)
{
    size_t n = strlen(suffix), len = r->weights_name ? strlen(r->weights_name) : 0;
    return len >= n && !memcmp(r->weights_name + len - n, suffix, n);
}

/* JSON stands for the folder that it lies in, but for a tokenizer.json that was asked for as a file. */
static infer_status from_json(struct hf_reader *r, struct blob *b, struct infer_file **out)
{
    bool index = named_like(r, ".index.json");
    infer_status st = INFER_OK;
    if (!opens_by_name(r->source) || (r->o->use == HF_AS_FILE && !index && !named_like(r, CONFIG)))
        return alone(r, b, out);
    if (r->o->use == HF_AS_TEXT && !named_like(r, "tokenizer.json") && tokenizer_json_is(b))
        return alone(r, b, out); /* one under another name: that file is meant */
    st = hf_read_json(r, CONFIG, &r->config);
    if (st == INFER_OK && r->config.type == JSON_NULL)
        return r->o->use == HF_AS_TEXT || !index ? alone(r, b, out) : (blob_close(b), no_config(r));
    if (st != INFER_OK || !index)
        blob_close(b);
    return st == INFER_OK ? read_folder(r, index ? b : NULL, out) : st;
}

/* A file of weights that is no GGUF: as a model it needs the folder around it. */
static infer_status from_weights(struct hf_reader *r, struct blob *b, struct infer_file **out)
{
    infer_status st = INFER_OK;
    if (opens_by_name(r->source))
        st = hf_read_json(r, CONFIG, &r->config);
    if (st == INFER_OK && r->config.type == JSON_NULL)
        st = err_at(r->err, INFER_ERROR_NOT_FOUND, CONFIG, strlen(CONFIG), ERR_NO_OFFSET,
                    "weights alone are no model: " CONFIG " is missing beside them%s",
                    opens_by_name(r->source) ? "" : " (open the folder by path or callback)");
    if (st != INFER_OK) {
        err_file(r->err, r->source->name, (size_t)r->source->name_len);
        blob_close(b);
        return st;
    }
    return read_folder(r, b, out);
}

static infer_status open_any(struct hf_reader *r, struct infer_file **out)
{
    const infer_source *s = r->source;
    struct blob b;
    infer_status st = blob_open(r->env, s, s->name, s->name_len, r->o->map, r->o->cancel, &b, r->err);
    if (st != INFER_OK)
        return try_folder(r, st, out);
    folder_of(r);
    if (s->name) {
        char *name = arena_strdup(&r->ar, s->name + r->dir_len, (size_t)s->name_len - r->dir_len);
        if (!name) {
            blob_close(&b);
            return err_no_memory(r->err);
        }
        r->weights_name = name;
    }
    if (is_json(&b))
        return from_json(r, &b, out);
    if (r->o->use != HF_AS_FILE && (safetensors_is(&b) || torch_is(&b)))
        return from_weights(r, &b, out);
    return alone(r, &b, out);
}

infer_status hf_open(const struct env *env, const infer_source *source, const struct hf_options *options, struct infer_file **out,
                     infer_error *err)
{
    struct hf_reader r = {.env = env, .source = source, .o = options, .err = err};
    struct fpenv fp = fpenv_enter(); /* some tensors are computed */
    arena_init(&r.ar, &env->alloc, 0);
    infer_status st = open_any(&r, out);
    if (st == INFER_OK)
        (*out)->planned = options->plan != NULL;
    arena_free(&r.ar);
    fpenv_leave(fp);
    return st;
}
