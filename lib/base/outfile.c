#include "base/outfile.h"

#include <stdio.h>
#include <string.h>

#include "base/cancel.h"
#include "base/os_file.h"
#include "base/os_thread.h"

#define MAX_PATH_BYTES 65535
#define TEMP_TRIES 100000u
#define COPY_CHUNK ((size_t)1 << 20)
#define PIECE ((uint64_t)1 << 20) /* between looks at the cancel flag */
#define AHEAD (4 * PIECE)         /* on its way to the disk while a piece is waited for */

infer_status outfile_failed(infer_error *err, infer_status st, int os_error, const char *what)
{
    if (st == INFER_ERROR_NOT_FOUND)
        return err_set(err, st, "cannot %s: no such file or folder", what);
    if (st == INFER_ERROR_TRUNCATED)
        return err_set(err, st, "cannot %s: it became shorter meanwhile", what);
    if (os_error_full(os_error))
        return err_set(err, st, "cannot %s: the disk or quota is full", what);
    return err_set(err, st, "cannot %s%s (system error %d)", what, os_error_text(os_error), os_error);
}

infer_status outfile_unsynced(infer_error *err, int os_error)
{
    return err_set(err, INFER_ERROR_IO, "done, but the folder could not be synced%s (system error %d): it may not survive a crash",
                   os_error_full(os_error) ? ": the disk or quota is full" : os_error_text(os_error), os_error);
}

static bool separator(char c)
{
#ifdef _WIN32
    return c == '/' || c == '\\' || c == ':';
#else
    return c == '/';
#endif
}

/* Bytes of path up to its last separator, that included. */
static size_t dir_len(const char *path, size_t len)
{
    while (len > 0 && !separator(path[len - 1]))
        len--;
    return len;
}

char *outfile_dir(const struct env *env, const char *path, uint64_t len)
{
    size_t n = dir_len(path, (size_t)len);
    return n ? mem_strdup(&env->alloc, path, n) : mem_strdup(&env->alloc, ".", 1);
}

struct cleaning {
    const struct env *env;
    const char *dir;
};

static bool clean_one(void *arg, const char *name)
{
    const struct cleaning *c = arg;
    size_t n = strlen(name), prefix = strlen(OUTFILE_PREFIX), suffix = strlen(OUTFILE_SUFFIX), dir = strlen(c->dir);
    if (n < prefix + suffix || memcmp(name, OUTFILE_PREFIX, prefix) != 0 || memcmp(name + n - suffix, OUTFILE_SUFFIX, suffix) != 0)
        return true;
    char *path = mem_alloc(&c->env->alloc, dir + n + 2);
    if (!path)
        return false;
    snprintf(path, dir + n + 2, "%s%s%s", c->dir, dir && separator(c->dir[dir - 1]) ? "" : "/", name);
    c->env->io->reap(path);
    mem_free(&c->env->alloc, path);
    return true;
}

void outfile_clean(const struct env *env, const char *dir)
{
    struct cleaning c = {env, dir};
    int os_error = 0;
    (void)env->io->list(dir, clean_one, &c, &os_error);
}

static void forget(struct outfile *o)
{
    const struct alloc *a = &o->env->alloc;
    mem_free(a, o->path);
    mem_free(a, o->temp);
    mem_free(a, o->dir);
    *o = (struct outfile){.fd = -1};
}

/* The first free temporary name. */
static infer_status create_temp(struct outfile *o, size_t base, size_t cap, infer_error *err)
{
    int os_error = 0;
    infer_status st = INFER_ERROR_IO;
    for (uint32_t i = 0; i < TEMP_TRIES; i++) {
        snprintf(o->temp + base, cap - base, OUTFILE_PREFIX "%llu-%u" OUTFILE_SUFFIX,
                 (unsigned long long)os_process_id(), i);
        st = o->env->io->create(o->temp, &o->fd, &os_error);
        if (st == INFER_OK)
            return st;
        o->fd = -1;
        if (!os_error_exists(os_error))
            break;
    }
    return outfile_failed(err, st, os_error, "create a file there");
}

infer_status outfile_begin(struct outfile *o, const struct env *env, const char *path, uint64_t len, infer_error *err)
{
    *o = (struct outfile){.fd = -1};
    if (!path || len == 0 || len > MAX_PATH_BYTES || memchr(path, 0, (size_t)len) || separator(path[len - 1]))
        return err_set(err, INFER_ERROR_ARGUMENT, "path is empty, too long, names a folder, or holds a zero byte");
    o->env = env;
    size_t base = dir_len(path, (size_t)len), cap = base + 64;
    o->path = mem_strdup(&env->alloc, path, (size_t)len);
    o->temp = mem_alloc(&env->alloc, cap);
    o->dir = outfile_dir(env, path, len);
    infer_status st = o->path && o->temp && o->dir ? INFER_OK : err_no_memory(err);
    if (st == INFER_OK && env->io->replaceable && !env->io->replaceable(o->path))
        st = err_set(err, INFER_ERROR_UNSUPPORTED, "what has this name is not a regular file, and is not replaced");
    if (st == INFER_OK) {
        memcpy(o->temp, path, base);
        outfile_clean(env, o->dir);
        st = create_temp(o, base, cap, err);
    }
    if (st != INFER_OK)
        forget(o);
    return st;
}

static infer_status cancelled(infer_error *err)
{
    return err_set(err, INFER_ERROR_CANCELLED, "cancelled while writing the file");
}

infer_status outfile_put_at(struct outfile *o, uint64_t offset, const void *data, uint64_t n, infer_error *err)
{
    for (uint64_t at = 0, piece; at < n; at += piece) {
        int os_error = 0;
        piece = n - at < PIECE ? n - at : PIECE;
        if (cancel_is_set(o->cancel))
            return cancelled(err);
        infer_status st = o->env->io->write(o->fd, offset + at, (const char *)data + at, (size_t)piece, &os_error);
        if (st != INFER_OK)
            return outfile_failed(err, st, os_error, "write the file");
    }
    return INFER_OK;
}

infer_status outfile_put(struct outfile *o, const void *data, uint64_t n, infer_error *err)
{
    infer_status st = outfile_put_at(o, o->at, data, n, err);
    if (st == INFER_OK)
        o->at += n;
    return st;
}

infer_status outfile_skip(struct outfile *o, uint64_t align, infer_error *err)
{
    static const char zeros[4096];
    uint64_t over = o->at % align;
    return over ? outfile_put(o, zeros, align - over, err) : INFER_OK;
}

void outfile_abort(struct outfile *o)
{
    int os_error = 0;
    if (!o->env)
        return;
#ifdef _WIN32
    o->env->io->close(o->fd); /* an open file cannot be removed */
    (void)o->env->io->unlink(o->temp, &os_error);
#else
    (void)o->env->io->unlink(o->temp, &os_error); /* before its lock is gone, with which a stranger could remove it */
    o->env->io->close(o->fd);
#endif
    forget(o);
}

/* Most of what a sync waits for, piece by piece: a sync of it all could not be cancelled. False: cancelled. */
static bool sync_pieces(const struct outfile *o)
{
    void (*write_out)(int, uint64_t, uint64_t, bool) = o->env->io->write_out;
    for (uint64_t at = 0; write_out && o->cancel && at < o->at + AHEAD; at += PIECE) {
        if (cancel_is_set(o->cancel))
            return false;
        if (at < o->at)
            write_out(o->fd, at, PIECE, false);
        if (at >= AHEAD)
            write_out(o->fd, at - AHEAD, PIECE, true);
    }
    return !cancel_is_set(o->cancel);
}

/* On the disk before it gets its name. */
static infer_status sync_content(struct outfile *o, bool durable, infer_error *err)
{
    int os_error = 0;
    if (durable && !sync_pieces(o)) {
        outfile_abort(o);
        return cancelled(err);
    }
    infer_status st = durable ? o->env->io->sync(o->fd, &os_error) : INFER_OK;
    if (st == INFER_OK)
        return st;
    st = outfile_failed(err, st, os_error, "sync the file");
    outfile_abort(o);
    return st;
}

static infer_status sync_name(const struct outfile *o, bool durable, infer_error *err)
{
    int os_error = 0;
    infer_status st = durable ? o->env->io->sync_dir(o->dir, &os_error) : INFER_OK;
    return st == INFER_OK ? st : outfile_unsynced(err, os_error);
}

infer_status outfile_commit(struct outfile *o, bool durable, infer_error *err)
{
    const struct os_io *io = o->env->io;
    int os_error = 0, ignored;
    infer_status st = sync_content(o, durable, err);
    if (st != INFER_OK)
        return st;
    st = io->rename(o->fd, o->temp, o->path, &os_error);
    if (st != INFER_OK) {
        (void)io->unlink(o->temp, &ignored);
        st = outfile_failed(err, st, os_error, "rename the file to its name");
    } else {
        st = sync_name(o, durable, err);
    }
    forget(o);
    return st;
}

/* Without second names on this file system: somebody else may take the name between the look and the rename. */
static infer_status commit_if_free(struct outfile *o, bool durable, infer_error *err)
{
    int fd, os_error = 0;
    if (o->env->io->open(o->path, &fd, &os_error) == INFER_OK) {
        o->env->io->close(fd);
        outfile_abort(o);
        return err_set(err, INFER_ERROR_EXISTS, "a file of this name exists");
    }
    return outfile_commit(o, durable, err);
}

infer_status outfile_commit_new(struct outfile *o, bool durable, infer_error *err)
{
    int os_error = 0;
    infer_status st = sync_content(o, durable, err);
    if (st != INFER_OK)
        return st;
    st = o->env->io->link(o->temp, o->path, &os_error);
    if (st == INFER_ERROR_UNSUPPORTED)
        return commit_if_free(o, durable, err);
    if (st == INFER_OK)
        st = sync_name(o, durable, err);
    else if (os_error_exists(os_error))
        st = err_set(err, INFER_ERROR_EXISTS, "a file of this name exists");
    else
        st = outfile_failed(err, st, os_error, "give the file its name");
    outfile_abort(o); /* the temporary name goes */
    return st;
}

/* ---- clone */

/* What is copied. */
struct original {
    const char *path;
    size_t len;
    int fd;
    uint64_t size;
};

static infer_status read_failed(const struct original *from, infer_status st, int os_error, infer_error *err)
{
    (void)outfile_failed(err, st, os_error, "read the file");
    err_file(err, from->path, from->len);
    return st;
}

static infer_status copy_bytes(struct outfile *o, const struct original *from, infer_error *err)
{
    infer_status st = INFER_OK;
    char *chunk = mem_alloc(&o->env->alloc, COPY_CHUNK);
    if (!chunk)
        return err_no_memory(err);
    while (o->at < from->size && st == INFER_OK) {
        size_t n = from->size - o->at < COPY_CHUNK ? (size_t)(from->size - o->at) : COPY_CHUNK;
        int os_error = 0;
        if (cancel_is_set(o->cancel))
            st = cancelled(err);
        else if ((st = o->env->io->read(from->fd, o->at, chunk, n, &os_error)) != INFER_OK)
            st = read_failed(from, st, os_error, err);
        else
            st = outfile_put(o, chunk, n, err);
    }
    mem_free(&o->env->alloc, chunk);
    return st;
}

static infer_status clone_open(struct outfile *o, const struct original *from, infer_error *err)
{
    int os_error = 0;
    infer_status st = INFER_OK;
    while (o->at < from->size && st == INFER_OK)
        st = cancel_is_set(o->cancel) ? cancelled(err) : o->env->io->clone(from->fd, o->fd, &o->at, from->size, &os_error);
    if (st == INFER_ERROR_UNSUPPORTED)
        return copy_bytes(o, from, err);
    return st == INFER_OK || st == INFER_ERROR_CANCELLED ? st : outfile_failed(err, st, os_error, "write the file");
}

/* A regular file to read from: fd and size. */
static infer_status open_original(const struct env *env, struct original *from, infer_error *err)
{
    struct os_stat about = {0};
    int os_error = 0;
    char *path = mem_strdup(&env->alloc, from->path, from->len);
    if (!path)
        return err_no_memory(err);
    infer_status st = env->io->open(path, &from->fd, &os_error);
    mem_free(&env->alloc, path);
    if (st == INFER_OK) {
        st = env->io->stat(from->fd, &about, &os_error);
        from->size = about.size;
        if (st != INFER_OK)
            env->io->close(from->fd);
    }
    if (st == INFER_OK)
        return st;
    if (st != INFER_ERROR_UNSUPPORTED)
        return read_failed(from, st, os_error, err);
    (void)err_set(err, st, "not a regular file");
    err_file(err, from->path, from->len);
    return st;
}

infer_status outfile_clone(const struct env *env, const char *from, uint64_t from_len, const char *to, uint64_t to_len, bool replace,
                           const infer_cancel *cancel, infer_error *err)
{
    struct outfile o;
    struct original original = {from, (size_t)from_len, -1, 0};
    if (!from || from_len == 0 || from_len > MAX_PATH_BYTES || memchr(from, 0, (size_t)from_len))
        return err_set(err, INFER_ERROR_ARGUMENT, "path is empty, too long or holds a zero byte");
    infer_status st = open_original(env, &original, err);
    if (st != INFER_OK)
        return st;
    st = outfile_begin(&o, env, to, to_len, err);
    o.cancel = cancel;
    if (st == INFER_OK)
        st = clone_open(&o, &original, err);
    if (st == INFER_OK)
        st = replace ? outfile_commit(&o, true, err) : outfile_commit_new(&o, true, err);
    else
        outfile_abort(&o);
    env->io->close(original.fd);
    if (st != INFER_OK)
        err_file(err, to, (size_t)to_len);
    return st;
}
