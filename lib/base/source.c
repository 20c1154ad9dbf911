#include "base/source.h"

#include <string.h>

#include "base/budget.h"
#include "base/cancel.h"
#include "base/os_file.h"
#include "base/os_memory.h"

#define BLOB_ALIGN ((size_t)64)
#define READ_CHUNK ((uint64_t)1 << 20) /* between looks at the cancel flag: some milliseconds of a slow disk */
#define EMPTY ((const uint8_t *)"")

static infer_status read_failed(infer_error *err, infer_status st, int os_error)
{
    if (st == INFER_ERROR_NOT_FOUND)
        return err_set(err, st, "no such file");
    if (st == INFER_ERROR_TRUNCATED)
        return err_set(err, st, "file became shorter while it was read");
    if (st == INFER_ERROR_UNSUPPORTED)
        return err_set(err, st, "not a regular file");
    if (st == INFER_ERROR_NO_MEMORY)
        return err_set(err, st, "the system has no memory left to read or map the file (system error %d)", os_error);
    return err_set(err, st, "cannot read the file%s (system error %d)", os_error_text(os_error), os_error);
}

static void *blob_memory(const struct env *env, uint64_t size, infer_error *err)
{
    void *p = size > SIZE_MAX ? NULL : mem_alloc_aligned(&env->alloc, (size_t)size, BLOB_ALIGN);
    if (!p)
        err_no_memory(err);
    else if (size >= OS_HUGE_BYTES) /* a step walks through all of it */
        os_memory_huge(p, (size_t)size);
    return p;
}

struct reader {
    const struct os_io *io;
    int fd;
    const infer_stream *stream; /* instead of io and fd */
};

static infer_status read_all(const struct reader *r, uint8_t *dst, uint64_t size, const infer_cancel *cancel,
                             infer_error *err)
{
    for (uint64_t at = 0; at < size;) {
        uint64_t n = size - at < READ_CHUNK ? size - at : READ_CHUNK;
        int os_error = 0;
        if (cancel_is_set(cancel))
            return err_set(err, INFER_ERROR_CANCELLED, "cancelled while reading the file");
        infer_status st = r->stream ? r->stream->read(r->stream->user, at, dst + at, n)
                                    : r->io->read(r->fd, at, dst + at, (size_t)n, &os_error);
        if (st != INFER_OK && r->stream) /* NOT_FOUND is an answer of open alone: files that need not be there go by it */
            return err_at(err, st < 0 && st != INFER_ERROR_NOT_FOUND ? st : INFER_ERROR_HOST, NULL, 0, at, "the source's read function failed");
        if (st != INFER_OK)
            return read_failed(err, st, os_error);
        at += n;
    }
    return INFER_OK;
}

static infer_status from_memory(const struct env *env, const void *data, uint64_t size, struct blob *out,
                                infer_error *err)
{
    if (size && !data)
        return err_set(err, INFER_ERROR_ARGUMENT, "source memory is NULL");
    if (size > SIZE_MAX)
        return err_no_memory(err);
    out->size = size;
    out->data = size ? data : EMPTY;
    if (size && (uintptr_t)data % 32 != 0) { /* kernels read floats in place */
        out->owned = blob_memory(env, size, err);
        if (!out->owned)
            return INFER_ERROR_NO_MEMORY;
        memcpy(out->owned, data, (size_t)size);
        out->data = out->owned;
    }
    return INFER_OK;
}

static infer_status from_descriptor(const struct env *env, int fd, int32_t map, const infer_cancel *cancel,
                                    struct blob *out, infer_error *err)
{
    int os_error = 0;
    struct os_stat st;
    infer_status s = env->io->stat(fd, &st, &os_error);
    if (s != INFER_OK)
        return read_failed(err, s, os_error);
    if (st.size > SIZE_MAX)
        return err_no_memory(err);
    out->size = st.size;
    out->data = EMPTY;
    if (st.size == 0)
        return INFER_OK;
    if (map != INFER_MAP_READ) {
        s = env->io->map(fd, (size_t)st.size, &out->mapped, &os_error);
        if (s == INFER_OK) {
            out->data = out->mapped;
            return INFER_OK;
        }
        if (map == INFER_MAP_MMAP)
            return s == INFER_ERROR_UNSUPPORTED ? err_set(err, s, "files cannot be mapped here")
                                                : read_failed(err, s, os_error);
    }
    out->owned = blob_memory(env, st.size, err);
    if (!out->owned)
        return INFER_ERROR_NO_MEMORY;
    out->data = out->owned;
    return read_all(&(struct reader){env->io, fd, NULL}, out->owned, st.size, cancel, err);
}

/* The host may close its descriptor after the open: blob_check looks at a copy. Without one (too many are open) it does not look. */
static infer_status from_host_descriptor(const struct env *env, int64_t descriptor, int32_t map, const infer_cancel *cancel,
                                         struct blob *out, infer_error *err)
{
    int os_error = 0, copy = -1;
    if (descriptor < 0 || descriptor > INT32_MAX)
        return err_set(err, INFER_ERROR_ARGUMENT, "descriptor out of range");
    infer_status st = from_descriptor(env, (int)descriptor, map, cancel, out, err);
    if (st == INFER_OK && out->mapped && env->io->dup((int)descriptor, &copy, &os_error) == INFER_OK)
        out->fd = copy;
    return st;
}

static infer_status from_path(const struct env *env, const char *name, uint64_t len, int32_t map,
                              const infer_cancel *cancel, struct blob *out, infer_error *err)
{
    int os_error = 0, fd = -1;
    if (!name || len == 0 || len > 65535 || memchr(name, 0, (size_t)len))
        return err_set(err, INFER_ERROR_ARGUMENT, "path is empty, too long or holds a zero byte");
    char *path = mem_strdup(&env->alloc, name, (size_t)len);
    if (!path)
        return err_no_memory(err);
    infer_status st = env->io->open(path, &fd, &os_error);
    mem_free(&env->alloc, path);
    if (st != INFER_OK)
        return read_failed(err, st, os_error);
    st = from_descriptor(env, fd, map, cancel, out, err);
    if (st == INFER_OK && out->mapped)
        out->fd = fd; /* blob_check looks at it */
    else
        env->io->close(fd);
    return st;
}

static infer_status from_callback(const struct env *env, const infer_source *source, const char *name, uint64_t len,
                                  const infer_cancel *cancel, struct blob *out, infer_error *err)
{
    infer_stream s = {.size = (uint32_t)sizeof s};
    if (!source->open)
        return err_set(err, INFER_ERROR_ARGUMENT, "source has no open function");
    infer_status st = source->open(source->user, name, len, &s);
    if (st != INFER_OK)
        return err_set(err, st < 0 ? st : INFER_ERROR_HOST, "the source's open function failed");
    out->release = s.release;
    out->release_user = s.user;
    if (s.size > sizeof s || s.reserved)
        return err_set(err, INFER_ERROR_ARGUMENT, "infer_stream: the source's open function changed size or reserved");
    if (s.data || s.length == 0)
        return from_memory(env, s.data, s.length, out, err);
    if (!s.read)
        return err_set(err, INFER_ERROR_ARGUMENT, "the source's stream has neither data nor a read function");
    out->owned = blob_memory(env, s.length, err);
    if (!out->owned)
        return INFER_ERROR_NO_MEMORY;
    out->size = s.length;
    out->data = out->owned;
    return read_all(&(struct reader){NULL, -1, &s}, out->owned, s.length, cancel, err);
}

infer_status blob_open(const struct env *env, const infer_source *source, const char *name, uint64_t name_len,
                       int32_t map, const infer_cancel *cancel, struct blob *out, infer_error *err)
{
    infer_status st;
    struct blob b = {.env = env, .fd = -1};
    switch (source->kind) {
    case INFER_SOURCE_PATH: st = from_path(env, name, name_len, map, cancel, &b, err); break;
    case INFER_SOURCE_DESCRIPTOR: st = from_host_descriptor(env, source->descriptor, map, cancel, &b, err); break;
    case INFER_SOURCE_MEMORY: st = from_memory(env, source->data, source->length, &b, err); break;
    case INFER_SOURCE_CALLBACK: st = from_callback(env, source, name, name_len, cancel, &b, err); break;
    default: st = err_set(err, INFER_ERROR_ARGUMENT, "unknown kind of source");
    }
    if (st != INFER_OK) {
        blob_close(&b);
        err_file(err, name, (size_t)name_len);
        return st;
    }
    *out = b;
    return INFER_OK;
}

infer_status blob_alloc(const struct env *env, uint64_t size, struct blob *out, infer_error *err)
{
    struct blob b = {.env = env, .fd = -1, .size = size};
    b.owned = blob_memory(env, size ? size : 1, err);
    if (!b.owned)
        return INFER_ERROR_NO_MEMORY;
    b.data = b.owned;
    *out = b;
    return INFER_OK;
}

infer_status blob_plan(const struct env *env, uint64_t size, uint64_t there, struct budget *plan, struct blob *out, infer_error *err)
{
    infer_status st = blob_alloc(env, there, out, err);
    if (st != INFER_OK)
        return st;
    if (!budget_take(plan, size - there)) {
        blob_close(out);
        return err_no_memory(err);
    }
    out->plan = plan;
    out->size = size;
    out->there = there;
    return INFER_OK;
}

infer_status blob_check(const struct blob *b, infer_error *err)
{
    struct os_stat st;
    int os_error = 0;
    if (b->fd < 0 || b->env->io->stat(b->fd, &st, &os_error) != INFER_OK || st.size >= b->size)
        return INFER_OK;
    return err_set(err, INFER_ERROR_CHANGED, "the mapped file has become shorter");
}

void blob_close(struct blob *b)
{
    if (!b->env)
        return;
    if (b->mapped)
        b->env->io->unmap(b->mapped, (size_t)b->size);
    if (b->fd >= 0)
        b->env->io->close(b->fd);
    mem_free(&b->env->alloc, b->owned);
    if (b->plan)
        budget_give(b->plan, b->size - b->there);
    if (b->release)
        b->release(b->release_user);
    memset(b, 0, sizeof *b);
    b->fd = -1;
}
