/* Adapters by name. A client may load files below --lora-dir only, by names that lead nowhere else: no "..", no absolute path, no link, and neither
 * devices nor pipes. Whatever is wrong with a name, the answer is the same: it tells nothing of what else is on the disk. */
#include "adapters.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "native.h"
#include "options.h"

enum { MAX_ADAPTERS = 1024, MAX_NAME = 64, MAX_PATH_TEXT = 1024 };

struct entry {
    char name[MAX_NAME + 1];
    infer_adapter *adapter;
};

struct adapter_list {
    pthread_mutex_t lock;
    struct entry *entries; /* in order of names */
    size_t n;
};

struct adapter_list *adapters_create(void)
{
    struct adapter_list *list = calloc(1, sizeof *list);
    if (list && pthread_mutex_init(&list->lock, NULL) != 0) {
        free(list);
        return NULL;
    }
    return list;
}

void adapters_free(struct adapter_list *list)
{
    if (!list)
        return;
    for (size_t i = 0; i < list->n; i++)
        infer_adapter_release(list->entries[i].adapter);
    free(list->entries);
    (void)pthread_mutex_destroy(&list->lock);
    free(list);
}

static infer_status fail(infer_error *err, infer_status code, const char *name, const char *text)
{
    if (err) {
        uint32_t size = err->size;
        infer_init(err, size);
        err->code = code;
        err->offset = UINT64_MAX;
        (void)snprintf(err->name, sizeof err->name, "%s", name);
        (void)snprintf(err->text, sizeof err->text, "%s", text);
    }
    return code;
}

/* Where the name is, or would be. Under the lock. */
static size_t place(const struct adapter_list *list, const char *name, bool *found)
{
    size_t low = 0, high = list->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (strcmp(list->entries[mid].name, name) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    *found = low < list->n && !strcmp(list->entries[low].name, name);
    return low;
}

static bool name_ok(const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < n; i++) {
        char c = name[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.' || c == ':'))
            return false;
    }
    return n > 0 && n <= MAX_NAME;
}

/* Whether an adapter may come under this name. */
static infer_status check_name(struct server *server, const char *name, infer_error *err)
{
    struct adapter_list *list = server->adapters;
    bool found;
    if (!name_ok(name))
        return fail(err, INFER_ERROR_ARGUMENT, "name", "a name has 1 to 64 letters, digits, '_', '-', '.' and ':'");
    (void)pthread_mutex_lock(&list->lock);
    (void)place(list, name, &found);
    size_t n = list->n;
    (void)pthread_mutex_unlock(&list->lock);
    if (found || !strcmp(name, server->name))
        return fail(err, INFER_ERROR_EXISTS, "name", "an adapter or the model has this name");
    return n < MAX_ADAPTERS ? INFER_OK : fail(err, INFER_ERROR_LIMIT, "name", "as many adapters are loaded as may be: unload one");
}

/* Takes the reference. */
static infer_status add(struct adapter_list *list, const char *name, infer_adapter *adapter, infer_error *err)
{
    bool found;
    (void)pthread_mutex_lock(&list->lock);
    size_t at = place(list, name, &found);
    struct entry *grown = found ? NULL : realloc(list->entries, (list->n + 1) * sizeof *grown);
    if (grown) {
        list->entries = grown;
        memmove(grown + at + 1, grown + at, (list->n - at) * sizeof *grown);
        grown[at] = (struct entry){.adapter = adapter};
        memcpy(grown[at].name, name, strlen(name) + 1);
        list->n++;
    }
    (void)pthread_mutex_unlock(&list->lock);
    if (grown)
        return INFER_OK;
    infer_adapter_release(adapter);
    return found ? fail(err, INFER_ERROR_EXISTS, "name", "an adapter has this name")
                 : fail(err, INFER_ERROR_NO_MEMORY, "", infer_status_message(INFER_ERROR_NO_MEMORY));
}

infer_status adapters_load(struct server *server, const char *name, const char *path, infer_error *err)
{
    infer_adapter *adapter;
    infer_status st = check_name(server, name, err);
    if (st == INFER_OK)
        st = infer_adapter_open_path(server->model, path, &adapter, err);
    return st == INFER_OK ? add(server->adapters, name, adapter, err) : st;
}

infer_status adapters_unload(struct server *server, const char *name, infer_error *err)
{
    struct adapter_list *list = server->adapters;
    infer_adapter *adapter = NULL;
    bool found;
    (void)pthread_mutex_lock(&list->lock);
    size_t at = place(list, name, &found);
    if (found) {
        adapter = list->entries[at].adapter;
        memmove(list->entries + at, list->entries + at + 1, (list->n - at - 1) * sizeof *list->entries);
        list->n--;
    }
    (void)pthread_mutex_unlock(&list->lock);
    infer_adapter_release(adapter);
    return found ? INFER_OK : fail(err, INFER_ERROR_NOT_FOUND, "name", "no adapter has this name");
}

infer_adapter *adapters_find(struct server *server, const char *name)
{
    struct adapter_list *list = server->adapters;
    bool found;
    (void)pthread_mutex_lock(&list->lock);
    size_t at = place(list, name, &found);
    infer_adapter *adapter = found ? infer_adapter_ref(list->entries[at].adapter) : NULL;
    (void)pthread_mutex_unlock(&list->lock);
    return adapter;
}

static json_t *describe(const char *name, const infer_adapter *adapter)
{
    static const char *const kinds[] = {"", "lora", "steering", "soft_prompt", "prefix"};
    char hash[33];
    infer_adapter_info info;
    INFER_INIT(&info);
    if (infer_adapter_get_info(adapter, &info, NULL) != INFER_OK)
        return json_pack("{s:s}", "name", name);
    for (size_t i = 0; i < sizeof info.hash; i++)
        (void)snprintf(hash + 2 * i, 3, "%02x", info.hash[i]);
    json_t *o = json_pack("{s:s,s:s,s:s,s:I}", "name", name, "kind", info.kind >= 1 && info.kind <= 4 ? kinds[info.kind] : "unknown", "hash", hash, "bytes",
                          (json_int_t)(info.bytes + info.own_bytes));
    if (info.kind == INFER_ADAPTER_LORA)
        (void)json_object_set_new(o, "rank", json_integer(info.rank));
    if (info.targets)
        (void)json_object_set_new(o, "targets", json_integer((json_int_t)info.targets));
    if (info.rows)
        (void)json_object_set_new(o, "rows", json_integer(info.rows));
    if (info.invocation_count)
        (void)json_object_set_new(o, "invocation_tokens", json_integer(info.invocation_count));
    if (info.base[0])
        (void)json_object_set_new(o, "base", json_string(info.base));
    return o;
}

json_t *adapters_json(struct server *server)
{
    struct adapter_list *list = server->adapters;
    json_t *out = json_array();
    (void)pthread_mutex_lock(&list->lock);
    for (size_t i = 0; i < list->n; i++)
        (void)json_array_append_new(out, describe(list->entries[i].name, list->entries[i].adapter));
    (void)pthread_mutex_unlock(&list->lock);
    return out;
}

/* ---- Files of clients ---- */

/* Opens what path names below the folder dir, one segment after the other, never through a link. -1: there is no such file, or none that may be used. */
static int open_below(int dir, const char *path, bool folder)
{
    int at = dup(dir);
    while (at >= 0) {
        const char *slash = strchr(path, '/');
        size_t n = slash ? (size_t)(slash - path) : strlen(path);
        char part[256];
        int next = -1;
        if (n && n < sizeof part && path[0] != '.') { /* hidden files, "." and ".." */
            memcpy(part, path, n);
            part[n] = 0;
            /* O_NONBLOCK: a pipe without a writer must not hold the worker */
            next = openat(at, part, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | (slash || folder ? O_DIRECTORY : 0));
        }
        (void)close(at);
        at = next;
        if (!slash)
            break;
        path = slash + 1;
    }
    struct stat st;
    if (at >= 0 && (fstat(at, &st) != 0 || !(folder ? S_ISDIR(st.st_mode) : S_ISREG(st.st_mode)))) {
        (void)close(at);
        at = -1;
    }
    return at;
}

static infer_status read_at(void *user, uint64_t offset, void *dst, uint64_t bytes)
{
    int fd = *(const int *)user;
    for (uint64_t done = 0; done < bytes;) {
        ssize_t n = pread(fd, (char *)dst + done, (size_t)(bytes - done), (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? INFER_ERROR_IO : INFER_ERROR_TRUNCATED;
        done += (uint64_t)n;
    }
    return INFER_OK;
}

static void close_file(void *user)
{
    (void)close(*(int *)user);
    free(user);
}

/* The library asks for the file, and for what lies beside it (a PEFT folder's configuration). */
static infer_status open_stream(void *user, const char *name, uint64_t name_len, infer_stream *out)
{
    char path[MAX_PATH_TEXT + 64];
    struct stat st;
    if (name_len >= sizeof path)
        return INFER_ERROR_NOT_FOUND;
    memcpy(path, name, (size_t)name_len);
    path[name_len] = 0;
    int *fd = malloc(sizeof *fd);
    if (!fd)
        return INFER_ERROR_NO_MEMORY;
    *fd = open_below(*(const int *)user, path, false);
    if (*fd < 0 || fstat(*fd, &st) != 0) {
        if (*fd >= 0)
            (void)close(*fd);
        free(fd);
        return INFER_ERROR_NOT_FOUND;
    }
    INFER_INIT(out);
    out->length = (uint64_t)st.st_size;
    out->user = fd;
    out->read = read_at;
    out->release = close_file;
    return INFER_OK;
}

/* name: as the library is to ask for it; a folder's ends with '/'. Whether there is something that may be used. */
static bool find_below(int dir, const char *path, char *name, size_t capacity)
{
    bool folder = false;
    int fd = open_below(dir, path, false);
    if (fd < 0) {
        folder = true;
        fd = open_below(dir, path, true);
    }
    if (fd < 0)
        return false;
    (void)close(fd);
    int n = snprintf(name, capacity, "%s%s", path, folder ? "/" : "");
    return n > 0 && (size_t)n < capacity;
}

static void load_below(struct server *server, struct call *call, int dir, const char *name, const json_t *path)
{
    const char *text = json_string_value(path);
    char file[MAX_PATH_TEXT + 2];
    infer_adapter *adapter = NULL;
    infer_source source;
    infer_error err;
    INFER_INIT(&err);
    infer_status st = check_name(server, name, &err);
    if (st == INFER_OK && (strlen(text) != json_string_length(path) || strlen(text) > MAX_PATH_TEXT || !find_below(dir, text, file, sizeof file))) {
        call_error(call, 404, "not_found_error", "adapter_file_not_found", "path", "no adapter can be loaded from this path: name a file or folder below --lora-dir");
        return;
    }
    if (st == INFER_OK) {
        infer_source_callback(&source, file, INFER_ZSTR, open_stream, &dir);
        st = infer_adapter_open(server->model, &source, NULL, &adapter, &err);
    }
    if (st == INFER_OK) {
        (void)infer_adapter_ref(adapter);
        st = add(server->adapters, name, adapter, &err);
    }
    if (st == INFER_OK)
        call_json(call, 200, json_pack("{s:s,s:o}", "object", "adapter", "adapter", describe(name, adapter)));
    else if (st == INFER_ERROR_EXISTS)
        call_error(call, 409, "invalid_request_error", "adapter_exists", "name", "an adapter or the model is called %s: unload it first", name);
    else
        call_status(call, st, &err, strcmp(err.name, "name") != 0 ? "path" : "name");
    infer_adapter_release(adapter);
}

static bool read_name(struct call *call, const json_t *body, const char **name)
{
    *name = NULL;
    if (!native_required(call, body, "name") || !param_string(call, body, "name", name))
        return false;
    if (name_ok(*name) && strlen(*name) == json_string_length(json_object_get(body, "name")))
        return true;
    call_error(call, 400, NULL, NULL, "name", "a name has 1 to %d letters, digits, '_', '-', '.' and ':'", MAX_NAME);
    return false;
}

/* Whether clients may change the list at all. false: answered. */
static bool may_change(struct server *server, struct call *call)
{
    if (!server->options->lora_dir)
        call_error(call, 403, "permission_error", "lora_dir_not_set", NULL, "adapters cannot be loaded or unloaded: the server was started without --lora-dir");
    else if (server->options->isolate)
        call_error(call, 400, NULL, "isolated", NULL, "with --isolate each connection has a process of its own, and an adapter would be gone with it: --lora "
                                                      "loads adapters for all");
    else
        return true;
    return false;
}

static void lora_load(struct server *server, struct call *call)
{
    static const struct param table[] = {{"name", PARAM_TAKEN}, {"path", PARAM_TAKEN}, {0}};
    const char *name, *path = NULL;
    json_t *body = call_json_body(call);
    if (!body || !params_check(call, body, table, false) || !read_name(call, body, &name))
        return;
    if (!native_required(call, body, "path") || !param_string(call, body, "path", &path))
        return;
    if (!may_change(server, call))
        return;
    int dir = open(server->options->lora_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) {
        call_error(call, 500, NULL, NULL, NULL, "--lora-dir cannot be opened");
        return;
    }
    load_below(server, call, dir, name, json_object_get(body, "path"));
    (void)close(dir);
}

static void lora_unload(struct server *server, struct call *call)
{
    static const struct param table[] = {{"name", PARAM_TAKEN}, {0}};
    const char *name;
    infer_error err;
    INFER_INIT(&err);
    json_t *body = call_json_body(call);
    if (!body || !params_check(call, body, table, false) || !read_name(call, body, &name))
        return;
    if (!may_change(server, call))
        return;
    if (adapters_unload(server, name, &err) == INFER_OK)
        call_json(call, 200, json_pack("{s:s,s:s,s:b}", "object", "adapter", "name", name, "unloaded", 1));
    else
        call_error(call, 404, "not_found_error", "adapter_not_found", "name", "no adapter is called %s", name);
}

static void lora_list(struct server *server, struct call *call)
{
    call_json(call, 200, json_pack("{s:s,s:o,s:b}", "object", "list", "data", adapters_json(server), "loading", server->options->lora_dir && !server->options->isolate));
}

const struct route adapter_routes[] = {
    {"POST", "/lora/load", API_NATIVE, 0, lora_load},
    {"POST", "/lora/unload", API_NATIVE, 0, lora_unload},
    {"GET", "/lora", API_NATIVE, ROUTE_NO_BODY, lora_list},
    {0},
};
