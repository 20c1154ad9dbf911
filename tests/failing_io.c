#include "failing_io.h"

#include <string.h>

struct failing_io failing_io;

void failing_io_set(uint64_t fail_at, int os_error)
{
    int64_t open = failing_io.open, maps = failing_io.maps;
    memset(&failing_io, 0, sizeof failing_io);
    failing_io.open = open;
    failing_io.maps = maps;
    failing_io.fail_at = fail_at;
    failing_io.os_error = os_error;
}

static bool fails(int *os_error)
{
    failing_io.calls++;
    if (!failing_io.fail_at
        || !(failing_io.calls == failing_io.fail_at || (failing_io.fail_rest && failing_io.calls > failing_io.fail_at)))
        return false;
    *os_error = failing_io.os_error;
    return true;
}

static infer_status open_(const char *path, int *fd, int *os_error)
{
    infer_status st = fails(os_error) ? INFER_ERROR_IO : os_io_default.open(path, fd, os_error);
    failing_io.open += st == INFER_OK;
    return st;
}

static infer_status dup_(int fd, int *copy, int *os_error)
{
    infer_status st = fails(os_error) ? INFER_ERROR_IO : os_io_default.dup(fd, copy, os_error);
    failing_io.open += st == INFER_OK;
    return st;
}

static void close_(int fd)
{
    failing_io.open--;
    os_io_default.close(fd);
}

static infer_status stat_(int fd, struct os_stat *out, int *os_error)
{
    return fails(os_error) ? INFER_ERROR_IO : os_io_default.stat(fd, out, os_error);
}

static infer_status read_(int fd, uint64_t offset, void *dst, size_t n, int *os_error)
{
    return fails(os_error) ? INFER_ERROR_IO : os_io_default.read(fd, offset, dst, n, os_error);
}

static infer_status map_(int fd, size_t n, const void **out, int *os_error)
{
    infer_status st = fails(os_error) ? INFER_ERROR_IO : os_io_default.map(fd, n, out, os_error);
    failing_io.maps += st == INFER_OK;
    return st;
}

static void unmap_(const void *p, size_t n)
{
    failing_io.maps--;
    os_io_default.unmap(p, n);
}

static infer_status create_(const char *path, int *fd, int *os_error)
{
    infer_status st = fails(os_error) ? INFER_ERROR_IO : os_io_default.create(path, fd, os_error);
    failing_io.open += st == INFER_OK;
    return st;
}

/* A failing write leaves half of its bytes, as a disk that fills up does. */
static infer_status write_(int fd, uint64_t offset, const void *src, size_t n, int *os_error)
{
    int ignored;
    if (fails(os_error)) {
        (void)os_io_default.write(fd, offset, src, n / 2, &ignored);
        return INFER_ERROR_IO;
    }
    failing_io.written += n;
    return os_io_default.write(fd, offset, src, n, os_error);
}

static infer_status sync_(int fd, int *os_error)
{
    if (fails(os_error))
        return INFER_ERROR_IO;
    return failing_io.real_sync ? os_io_default.sync(fd, os_error) : INFER_OK;
}

static infer_status rename_(int fd, const char *from, const char *to, int *os_error)
{
    if (fails(os_error)) {
        if (fd >= 0)
            close_(fd);
        return INFER_ERROR_IO;
    }
    failing_io.open -= fd >= 0;
    return os_io_default.rename(fd, from, to, os_error);
}

static infer_status link_(const char *from, const char *to, int *os_error)
{
    if (failing_io.no_clone)
        return INFER_ERROR_UNSUPPORTED;
    return fails(os_error) ? INFER_ERROR_IO : os_io_default.link(from, to, os_error);
}

static infer_status sync_dir_(const char *dir, int *os_error)
{
    if (fails(os_error))
        return INFER_ERROR_IO;
    return failing_io.real_sync ? os_io_default.sync_dir(dir, os_error) : INFER_OK;
}

static infer_status unlink_(const char *path, int *os_error)
{
    return os_io_default.unlink(path, os_error); /* does not fail: else temporary files would stay, which is no error */
}

static void reap_(const char *path)
{
    os_io_default.reap(path);
}

static infer_status make_dir_(const char *path, int *os_error)
{
    return fails(os_error) ? INFER_ERROR_IO : os_io_default.make_dir(path, os_error);
}

static infer_status list_(const char *dir, bool (*fn)(void *arg, const char *name), void *arg, int *os_error)
{
    return fails(os_error) ? INFER_ERROR_IO : os_io_default.list(dir, fn, arg, os_error);
}

static infer_status clone_(int from, int to, uint64_t *done, uint64_t size, int *os_error)
{
    if (failing_io.no_clone)
        return INFER_ERROR_UNSUPPORTED;
    return fails(os_error) ? INFER_ERROR_IO : os_io_default.clone(from, to, done, size, os_error);
}

static bool replaceable_(const char *path)
{
    return !os_io_default.replaceable || os_io_default.replaceable(path);
}

static bool leads_to_(const char *path, const char *entry)
{
    return os_io_default.leads_to && os_io_default.leads_to(path, entry);
}

const struct os_io failing_io_ops = {.open = open_, .dup = dup_, .close = close_, .stat = stat_, .read = read_, .map = map_,
                                     .unmap = unmap_, .create = create_, .write = write_, .sync = sync_, .rename = rename_,
                                     .link = link_, .sync_dir = sync_dir_, .unlink = unlink_, .reap = reap_,
                                     .make_dir = make_dir_, .list = list_, .clone = clone_, .replaceable = replaceable_,
                                     .leads_to = leads_to_};
