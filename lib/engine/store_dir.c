/* A store in a directory: one checkpoint file a name, and nothing else, so that whoever copies, snapshots or rolls back the directory has a store. A
 * file is never changed once it has its name: put writes a new one, branch gives a second name (or a clone). All files are whole ones, no deltas: any
 * of them can go without harm to the others. Other processes may use the directory at the same time. */
#include "engine/store.h"

#include <stdio.h>
#include <string.h>

#include "base/os_file.h"
#include "base/os_thread.h"
#include "base/outfile.h"
#include "engine/checkpoint_file.h"

/* File names: PREFIX escaped-name SUFFIX. The prefix keeps names apart from hidden files and from those that Windows reserves. */
#define PREFIX "c_"
#define SUFFIX ".infer"
#define ESCAPED_MAX (255u - sizeof PREFIX - sizeof SUFFIX + 2)

struct dir_store {
    infer_store head;
    struct os_mutex lock; /* held by what changes the directory */
    char *path;
};

static struct dir_store *dir_of(infer_store *s)
{
    return (struct dir_store *)(void *)s;
}

static const struct env *env_of(const struct dir_store *d)
{
    return d->head.engine->env;
}

/* ---- Names */

/* Upper case is escaped too: some file systems do not tell it from lower case. */
static bool plain(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.' || c >= 0x80;
}

/* Zero-terminated into out; false: too long. */
static bool escape(struct store_name name, char out[ESCAPED_MAX + 1])
{
    static const char hex[] = "0123456789abcdef";
    size_t n = 0;
    for (uint64_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.data[i];
        if (n + (plain(c) ? 1 : 3) > ESCAPED_MAX)
            return false;
        if (plain(c)) {
            out[n++] = (char)c;
            continue;
        }
        out[n++] = '%';
        out[n++] = hex[c >> 4];
        out[n++] = hex[c & 15];
    }
    out[n] = 0;
    return true;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The name that a file stands for; false: it is none of ours. */
static bool unescape(const char *file, char out[STORE_NAME_MAX + 1], uint32_t *len)
{
    size_t n = strlen(file), prefix = sizeof PREFIX - 1, suffix = sizeof SUFFIX - 1, k = 0;
    char again[ESCAPED_MAX + 1];
    if (n <= prefix + suffix || memcmp(file, PREFIX, prefix) != 0 || memcmp(file + n - suffix, SUFFIX, suffix) != 0)
        return false;
    for (size_t i = prefix; i < n - suffix; i++) {
        int hi = file[i] == '%' ? hex_digit(file[i + 1]) : -1, lo = hi >= 0 ? hex_digit(file[i + 2]) : -1;
        if (k == STORE_NAME_MAX || (file[i] == '%' && lo < 0))
            return false;
        out[k++] = (char)(lo >= 0 ? hi << 4 | lo : file[i]);
        i += lo >= 0 ? 2 : 0;
    }
    out[k] = 0;
    *len = (uint32_t)k;
    struct store_name name = {out, k};
    return store_check_name(name, NULL) == INFER_OK && escape(name, again) && strlen(again) == n - prefix - suffix
           && memcmp(again, file + prefix, n - prefix - suffix) == 0;
}

/* A file's path, to be freed. */
static infer_status path_of(const struct dir_store *d, struct store_name name, char **out, infer_error *err)
{
    char escaped[ESCAPED_MAX + 1];
    if (!escape(name, escaped))
        return err_at(err, INFER_ERROR_ARGUMENT, "name", 4, ERR_NO_OFFSET,
                      "in a directory a name has at most %u bytes, of which all but a-z, 0-9, _-. and letters beyond ASCII count three times",
                      (unsigned)ESCAPED_MAX);
    size_t cap = strlen(d->path) + strlen(escaped) + sizeof PREFIX + sizeof SUFFIX + 1;
    *out = mem_alloc(&env_of(d)->alloc, cap);
    if (!*out)
        return err_no_memory(err);
    snprintf(*out, cap, "%s/%s%s%s", d->path, PREFIX, escaped, SUFFIX);
    return INFER_OK;
}

/* Bytes of a file. NOT_FOUND: there is none of this name, or what has it is no file. */
static infer_status file_bytes(const struct dir_store *d, const char *path, uint64_t *bytes, infer_error *err)
{
    const struct os_io *io = env_of(d)->io;
    struct os_stat about = {0};
    int fd, os_error = 0;
    infer_status st = io->open(path, &fd, &os_error);
    if (st == INFER_OK) {
        st = io->stat(fd, &about, &os_error);
        io->close(fd);
    }
    *bytes = about.size;
    if (st == INFER_OK || st == INFER_ERROR_NOT_FOUND)
        return st;
    if (st == INFER_ERROR_UNSUPPORTED)
        return INFER_ERROR_NOT_FOUND;
    st = outfile_failed(err, st, os_error, "look at a file of the store");
    err_file(err, path, strlen(path));
    return st;
}

/* ---- Looking through the directory */

struct scan {
    const struct dir_store *d;
    struct store_name after; /* the least name greater than this is wanted */
    char best[STORE_NAME_MAX + 1];
    uint32_t best_len; /* 0: none yet */
    bool sizes;
    uint64_t count, bytes;
    infer_status status; /* other than that of reading the directory */
    infer_error *err;
};

static bool scan_one(void *arg, const char *file)
{
    struct scan *c = arg;
    char name[STORE_NAME_MAX + 1], *path = NULL;
    uint32_t len;
    uint64_t bytes = 0;
    if (!unescape(file, name, &len))
        return true;
    struct store_name this = {name, len}, best = {c->best, c->best_len};
    c->count++;
    if (c->sizes) {
        c->status = path_of(c->d, this, &path, c->err);
        if (c->status == INFER_OK)
            c->status = file_bytes(c->d, path, &bytes, c->err);
        if (c->status == INFER_ERROR_NOT_FOUND) /* it is gone by now */
            c->status = INFER_OK;
        c->bytes += bytes;
        mem_free(&env_of(c->d)->alloc, path);
        return c->status == INFER_OK;
    }
    if (store_compare(this, c->after) > 0 && (!c->best_len || store_compare(this, best) < 0)) {
        memcpy(c->best, name, sizeof name);
        c->best_len = len;
    }
    return true;
}

static infer_status scan(struct scan *c, infer_error *err)
{
    int os_error = 0;
    c->err = err;
    infer_status st = env_of(c->d)->io->list(c->d->path, scan_one, c, &os_error);
    if (c->status != INFER_OK)
        return c->status;
    if (st != INFER_OK) {
        if (st == INFER_ERROR_NOT_FOUND) /* which means "no more" to callers: a directory that went away is no empty store */
            st = INFER_ERROR_IO;
        st = outfile_failed(err, st, os_error, "read the store's directory");
        err_file(err, c->d->path, strlen(c->d->path));
    }
    return st;
}

/* Whether there may be one more checkpoint at this path, or another in its place; *left: how many bytes it may have (0: any number). */
static infer_status room_for(const struct dir_store *d, const char *path, uint64_t *left, infer_error *err)
{
    struct scan c = {.d = d, .sizes = true};
    uint64_t old = 0;
    *left = 0;
    if (d->head.max_bytes == UINT64_MAX && d->head.max_count == UINT64_MAX)
        return INFER_OK;
    infer_status st = scan(&c, err), replaced = st == INFER_OK ? file_bytes(d, path, &old, err) : st;
    if (replaced != INFER_ERROR_NOT_FOUND)
        st = replaced;
    if (st == INFER_OK)
        st = store_check_limits(&d->head, c.count - (replaced == INFER_OK && c.count), c.bytes - (old < c.bytes ? old : c.bytes), 1, 1, err);
    if (st == INFER_OK && d->head.max_bytes != UINT64_MAX)
        *left = d->head.max_bytes - (c.bytes - (old < c.bytes ? old : c.bytes));
    return st;
}

static infer_status sync_store(const struct dir_store *d, infer_error *err)
{
    int os_error = 0;
    infer_status st = env_of(d)->io->sync_dir(d->path, &os_error);
    return st == INFER_OK ? st : outfile_unsynced(err, os_error);
}

/* ---- The calls */

static infer_status dir_put(infer_store *s, struct store_name name, infer_checkpoint *c, uint32_t flags, const infer_cancel *cancel,
                            infer_error *err)
{
    struct dir_store *d = dir_of(s);
    struct checkpoint_save_options o = {.keep = !(flags & INFER_STORE_REPLACE)};
    char *path = NULL;
    uint64_t bytes;
    infer_status st = path_of(d, name, &path, err);
    if (st != INFER_OK)
        return st;
    os_mutex_lock(&d->lock);
    if (o.keep) { /* before much is written */
        st = file_bytes(d, path, &bytes, err);
        st = st == INFER_OK ? INFER_ERROR_EXISTS : st == INFER_ERROR_NOT_FOUND ? INFER_OK : st;
    }
    if (st == INFER_OK)
        st = room_for(d, path, &o.max_bytes, err);
    if (st == INFER_OK)
        st = checkpoint_save(c, path, strlen(path), &o, cancel, err);
    os_mutex_unlock(&d->lock);
    mem_free(&env_of(d)->alloc, path);
    return st == INFER_ERROR_EXISTS ? store_exists(name, err) : st;
}

static infer_status dir_get(infer_store *s, infer_model *model, struct store_name name, const infer_cancel *cancel,
                            infer_checkpoint **out, infer_error *err)
{
    struct dir_store *d = dir_of(s);
    struct checkpoint_open_options o = {.map = INFER_MAP_AUTO};
    char *path = NULL;
    if (!model)
        return err_at(err, INFER_ERROR_ARGUMENT, "model", 5, ERR_NO_OFFSET, "a store in a directory needs the model");
    infer_status st = path_of(d, name, &path, err);
    if (st == INFER_OK)
        st = checkpoint_open(model, path, strlen(path), &o, cancel, out, err);
    mem_free(&env_of(d)->alloc, path);
    return st == INFER_ERROR_NOT_FOUND ? store_not_found(name, err) : st;
}

/* A second name, or, where the file system has no such thing or a file is to be replaced at once, a clone. */
static infer_status add_name(const struct dir_store *d, const char *from, const char *to, bool replace, infer_error *err)
{
    int os_error = 0;
    infer_status st = env_of(d)->io->link(from, to, &os_error);
    if (st == INFER_OK)
        return sync_store(d, err);
    if (st == INFER_ERROR_UNSUPPORTED || (os_error_exists(os_error) && replace))
        return outfile_clone(env_of(d), from, strlen(from), to, strlen(to), replace, NULL, err);
    if (os_error_exists(os_error))
        return err_set(err, INFER_ERROR_EXISTS, "a file of this name exists");
    return outfile_failed(err, st, os_error, "give the file a second name");
}

static infer_status branch_paths(struct dir_store *d, const char *from, const char *to, bool replace, infer_error *err)
{
    uint64_t left = 0, bytes;
    infer_status st = file_bytes(d, from, &bytes, err);
    if (st == INFER_OK)
        st = room_for(d, to, &left, err);
    if (st == INFER_OK && left && bytes > left)
        st = err_set(err, INFER_ERROR_LIMIT, "the store has room for %llu bytes more, and this takes %llu", (unsigned long long)left,
                     (unsigned long long)bytes);
    return st == INFER_OK ? add_name(d, from, to, replace, err) : st;
}

/* The file gets the new name; the old one goes. Without `replace` it has both for a moment. */
static infer_status rename_paths(struct dir_store *d, const char *from, const char *to, bool replace, infer_error *err)
{
    const struct os_io *io = env_of(d)->io;
    int os_error = 0, ignored;
    uint64_t bytes;
    infer_status st = file_bytes(d, from, &bytes, err);
    if (st == INFER_OK && !replace) {
        st = file_bytes(d, to, &bytes, err);
        st = st == INFER_OK ? INFER_ERROR_EXISTS : st == INFER_ERROR_NOT_FOUND ? INFER_OK : st;
    }
    if (st != INFER_OK)
        return st;
    st = replace ? INFER_ERROR_UNSUPPORTED : io->link(from, to, &os_error);
    if (st == INFER_ERROR_UNSUPPORTED)
        st = io->rename(-1, from, to, &os_error);
    if (st != INFER_OK)
        return os_error_exists(os_error) ? INFER_ERROR_EXISTS : outfile_failed(err, st, os_error, "rename the file");
    st = io->unlink(from, &os_error); /* also when both were names of one file: rename leaves them alone then */
    if (st == INFER_OK || st == INFER_ERROR_NOT_FOUND)
        return sync_store(d, err);
    st = outfile_failed(err, st, os_error, "remove the old name");
    if (replace || io->unlink(to, &ignored) != INFER_OK)
        st = err_set(err, INFER_ERROR_IO, "cannot remove the old name%s (system error %d): the checkpoint has both names now", os_error_text(os_error),
                     os_error);
    return st;
}

typedef infer_status (*pair_fn)(struct dir_store *d, const char *from, const char *to, bool replace, infer_error *err);

static infer_status with_paths(infer_store *s, struct store_name from, struct store_name to, uint32_t flags, pair_fn fn, infer_error *err)
{
    struct dir_store *d = dir_of(s);
    const struct alloc *a = &env_of(d)->alloc;
    char *a_path = NULL, *b_path = NULL;
    infer_status st = path_of(d, from, &a_path, err);
    if (st == INFER_OK)
        st = path_of(d, to, &b_path, err);
    if (st == INFER_OK) {
        os_mutex_lock(&d->lock);
        st = fn(d, a_path, b_path, flags & INFER_STORE_REPLACE, err);
        os_mutex_unlock(&d->lock);
        if (st == INFER_ERROR_NOT_FOUND)
            st = store_not_found(from, err);
        else if (st == INFER_ERROR_EXISTS)
            st = store_exists(to, err);
        else if (st == INFER_ERROR_IO)
            err_file(err, b_path, strlen(b_path));
    }
    mem_free(a, a_path);
    mem_free(a, b_path);
    return st;
}

static infer_status dir_branch(infer_store *s, struct store_name from, struct store_name to, uint32_t flags, infer_error *err)
{
    return with_paths(s, from, to, flags, branch_paths, err);
}

/* Same name: only that it exists is asked. */
static infer_status stay(struct dir_store *d, const char *from, const char *to, bool replace, infer_error *err)
{
    uint64_t bytes;
    (void)to;
    (void)replace;
    return file_bytes(d, from, &bytes, err);
}

static infer_status dir_rename(infer_store *s, struct store_name from, struct store_name to, uint32_t flags, infer_error *err)
{
    return with_paths(s, from, to, flags, store_compare(from, to) ? rename_paths : stay, err);
}

static infer_status dir_remove(infer_store *s, struct store_name name, infer_error *err)
{
    struct dir_store *d = dir_of(s);
    char *path = NULL;
    int os_error = 0;
    infer_status st = path_of(d, name, &path, err);
    if (st != INFER_OK)
        return st;
    os_mutex_lock(&d->lock);
    st = env_of(d)->io->unlink(path, &os_error);
    if (st == INFER_OK)
        st = sync_store(d, err);
    else
        st = st == INFER_ERROR_NOT_FOUND ? store_not_found(name, err) : outfile_failed(err, st, os_error, "remove the file");
    if (st == INFER_ERROR_IO)
        err_file(err, path, strlen(path));
    os_mutex_unlock(&d->lock);
    mem_free(&env_of(d)->alloc, path);
    return st;
}

static infer_status describe_once(const struct dir_store *d, const char *path, infer_store_entry *out, infer_error *err)
{
    struct kv_file *f;
    struct ckpt_state state;
    infer_status st = file_bytes(d, path, &out->bytes, err);
    if (st == INFER_OK)
        st = kv_file_open(env_of(d), path, strlen(path), &ckpt_read_auto, NULL, &f, err);
    if (st != INFER_OK)
        return st;
    st = ckpt_read_state(f, &state, err);
    if (st == INFER_OK) {
        out->length = state.length;
        out->computed = state.computed;
        out->kv_type = state.kv_type;
        out->approximate = state.approximate_from != UINT64_MAX;
    }
    kv_file_release(f);
    return st;
}

/* What the file says of itself; a damaged one says nothing: its numbers stay 0. One that cannot be read now (no memory, no descriptor) is not damaged;
 * one that can be opened and still not be read is. */
static infer_status describe(const struct dir_store *d, const char *path, infer_store_entry *out, infer_error *err)
{
    uint64_t bytes;
    infer_status st = describe_once(d, path, out, err);
    if (st == INFER_ERROR_IO && file_bytes(d, path, &bytes, err) == INFER_OK)
        st = describe_once(d, path, out, err) == INFER_ERROR_NO_MEMORY ? INFER_ERROR_NO_MEMORY : INFER_OK;
    return st == INFER_ERROR_IO || st == INFER_ERROR_NO_MEMORY ? st : INFER_OK;
}

static infer_status dir_next(infer_store *s, struct store_name after, infer_store_entry *out, infer_error *err)
{
    struct dir_store *d = dir_of(s);
    struct scan c = {.d = d, .after = after};
    char *path = NULL;
    infer_status st = scan(&c, err);
    if (st == INFER_OK && !c.best_len)
        return err_set(err, INFER_ERROR_NOT_FOUND, "no further checkpoint");
    if (st == INFER_OK)
        st = path_of(d, (struct store_name){c.best, c.best_len}, &path, err);
    if (st != INFER_OK)
        return st;
    *out = (infer_store_entry){.size = (uint32_t)sizeof *out, .name_len = c.best_len};
    memcpy(out->name, c.best, sizeof c.best);
    st = describe(d, path, out, err);
    mem_free(&env_of(d)->alloc, path);
    return st;
}

static infer_status dir_info(infer_store *s, infer_store_info *out, infer_error *err)
{
    struct scan c = {.d = dir_of(s), .sizes = true};
    infer_status st = scan(&c, err);
    if (st == INFER_OK) {
        out->count = c.count;
        out->bytes = c.bytes;
    }
    return st;
}

static void dir_destroy(infer_store *s)
{
    struct dir_store *d = dir_of(s);
    const struct alloc *a = &env_of(d)->alloc;
    os_mutex_destroy(&d->lock);
    mem_free(a, d->path);
    mem_free(a, d);
}

static const struct store_ops dir_ops = {dir_put, dir_get, dir_branch, dir_rename, dir_remove, dir_next, dir_info, dir_destroy};

infer_status store_dir_open(infer_engine *engine, const char *path, uint64_t len, const infer_store_options *options, infer_store **out,
                            infer_error *err)
{
    const struct env *env = engine->env;
    int os_error = 0;
    if (!hash_available())
        return err_set(err, INFER_ERROR_UNSUPPORTED, "this build of libinfer has no xxHash, so it keeps no checkpoints in files");
    if (len == 0 || len > 65535 || memchr(path, 0, (size_t)len))
        return err_at(err, INFER_ERROR_ARGUMENT, "path", 4, ERR_NO_OFFSET, "path is empty, too long or holds a zero byte");
    struct dir_store *d = mem_zalloc(&env->alloc, sizeof *d);
    char *copy = mem_strdup(&env->alloc, path, (size_t)len);
    if (!d || !copy || !os_mutex_init(&d->lock)) {
        mem_free(&env->alloc, d);
        mem_free(&env->alloc, copy);
        return err_no_memory(err);
    }
    infer_status st = env->io->make_dir(copy, &os_error);
    if (st != INFER_OK) {
        st = outfile_failed(err, st, os_error, "make the store's directory");
        err_file(err, path, (size_t)len);
        os_mutex_destroy(&d->lock);
        mem_free(&env->alloc, d);
        mem_free(&env->alloc, copy);
        return st;
    }
    outfile_clean(env, copy);
    d->path = copy;
    store_init(&d->head, &dir_ops, engine, options);
    *out = &d->head;
    return INFER_OK;
}
