#define _GNU_SOURCE /* copy_file_range, flock */
#include "base/os_file.h"

#include "base/os_memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h> /* rename */
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/fs.h>
#include <sys/ioctl.h>
#endif
#ifndef INFER_NO_MMAP
#include <sys/mman.h>
#endif

/* Opens a file. Numbers 0 to 2 are not for us: in a host that has closed one of them, whatever still prints there would write into our file. */
int os_open_file(const char *path, int flags)
{
    int fd;
    do
        fd = open(path, flags | O_CLOEXEC | O_NOCTTY, 0666);
    while (fd < 0 && errno == EINTR);
    if (fd < 0 || fd > 2)
        return fd;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, 3), e = errno;
    if (high < 0 && (flags & O_CREAT))
        (void)unlink(path);
    (void)close(fd);
    errno = e;
    return high;
}

static infer_status file_open(const char *path, int *fd, int *os_error)
{
    *fd = os_open_file(path, O_RDONLY | O_NONBLOCK); /* a FIFO must not make us wait for its writer */
    if (*fd >= 0)
        return INFER_OK;
    *os_error = errno;
    return errno == ENOENT || errno == ENOTDIR ? INFER_ERROR_NOT_FOUND : INFER_ERROR_IO;
}

static infer_status file_dup(int fd, int *copy, int *os_error)
{
    *copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    *os_error = errno;
    return *copy >= 0 ? INFER_OK : INFER_ERROR_IO;
}

static void file_close(int fd)
{
    (void)close(fd);
}

static infer_status file_stat(int fd, struct os_stat *out, int *os_error)
{
    struct stat st;
    if (fstat(fd, &st) != 0) {
        *os_error = errno;
        return INFER_ERROR_IO;
    }
    if (!S_ISREG(st.st_mode)) {
        *os_error = 0;
        return INFER_ERROR_UNSUPPORTED;
    }
    out->size = (uint64_t)st.st_size;
    out->mtime_s = (int64_t)st.st_mtim.tv_sec;
    out->mtime_ns = (int64_t)st.st_mtim.tv_nsec;
    return INFER_OK;
}

static infer_status file_read(int fd, uint64_t offset, void *dst, size_t n, int *os_error)
{
    char *p = dst;
    while (n > 0) {
        size_t chunk = n < ((size_t)1 << 30) ? n : (size_t)1 << 30;
        ssize_t got = pread(fd, p, chunk, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            *os_error = got < 0 ? errno : 0;
            return got < 0 ? INFER_ERROR_IO : INFER_ERROR_TRUNCATED;
        }
        p += got;
        offset += (uint64_t)got;
        n -= (size_t)got;
    }
    return INFER_OK;
}

static infer_status file_map(int fd, size_t n, const void **out, int *os_error)
{
#ifdef INFER_NO_MMAP
    (void)fd;
    (void)n;
    (void)out;
    *os_error = 0;
    return INFER_ERROR_UNSUPPORTED;
#else
    void *p = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED) {
        *os_error = errno;
        return errno == ENOMEM ? INFER_ERROR_NO_MEMORY : INFER_ERROR_IO;
    }
    if (n >= OS_HUGE_BYTES)
        os_memory_huge(p, n); /* a file that is not in memory yet comes in by large pages, and is mapped by them from then on */
    *out = p;
    return INFER_OK;
#endif
}

static void file_unmap(const void *p, size_t n)
{
#ifdef INFER_NO_MMAP
    (void)p;
    (void)n;
#else
    (void)munmap((void *)(uintptr_t)p, n);
#endif
}

/* ---- writing */

static infer_status failed(int *os_error)
{
    *os_error = errno;
    return errno == ENOENT || errno == ENOTDIR ? INFER_ERROR_NOT_FOUND : INFER_ERROR_IO;
}

static infer_status file_create(const char *path, int *fd, int *os_error)
{
    *fd = os_open_file(path, O_RDWR | O_CREAT | O_EXCL);
    if (*fd < 0)
        return failed(os_error);
    /* The lock says that the writer lives (see `reap`). One who thinks that this is a file of the dead may be quicker,
     * and hold the lock or have removed the name already: then another name is wanted. */
    struct stat st;
    if ((flock(*fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) || (fstat(*fd, &st) == 0 && st.st_nlink == 0)) {
        (void)close(*fd);
        *os_error = EEXIST;
        return INFER_ERROR_IO;
    }
    return INFER_OK;
}

static infer_status file_write(int fd, uint64_t offset, const void *src, size_t n, int *os_error)
{
    const char *p = src;
    while (n > 0) {
        size_t chunk = n < ((size_t)1 << 30) ? n : (size_t)1 << 30;
        ssize_t put = pwrite(fd, p, chunk, (off_t)offset);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0) {
            *os_error = put < 0 ? errno : ENOSPC;
            return INFER_ERROR_IO;
        }
        p += put;
        offset += (uint64_t)put;
        n -= (size_t)put;
    }
    return INFER_OK;
}

static infer_status file_sync(int fd, int *os_error)
{
    int r;
    do
        r = fsync(fd);
    while (r != 0 && errno == EINTR);
    return r == 0 ? INFER_OK : failed(os_error);
}

static infer_status file_rename(int fd, const char *from, const char *to, int *os_error)
{
    infer_status st = rename(from, to) == 0 ? INFER_OK : failed(os_error);
    if (fd >= 0)
        (void)close(fd); /* only now: until the name is gone the lock has to say that it is in use */
    return st;
}

static infer_status file_link(const char *from, const char *to, int *os_error)
{
    if (link(from, to) == 0)
        return INFER_OK;
    infer_status st = failed(os_error);
    return *os_error == EPERM || *os_error == ENOTSUP || *os_error == ENOSYS || *os_error == EMLINK ? INFER_ERROR_UNSUPPORTED : st;
}

static infer_status file_sync_dir(const char *dir, int *os_error)
{
    int fd = os_open_file(dir, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return failed(os_error);
    infer_status st = file_sync(fd, os_error);
    (void)close(fd);
    return st != INFER_OK && (*os_error == EINVAL || *os_error == ENOTSUP) ? INFER_OK : st; /* no such thing on this file system */
}

static infer_status file_unlink(const char *path, int *os_error)
{
    return unlink(path) == 0 ? INFER_OK : failed(os_error);
}

static void file_reap(const char *path)
{
    struct stat a, b;
    int fd = os_open_file(path, O_RDWR | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0)
        return;
    /* Under the lock, and while the name still leads to this file, no writer of it lives: nobody else gives or takes this name. */
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &a) == 0 && S_ISREG(a.st_mode) && lstat(path, &b) == 0
        && a.st_ino == b.st_ino && a.st_dev == b.st_dev)
        (void)unlink(path);
    (void)close(fd);
}

static infer_status file_make_dir(const char *path, int *os_error)
{
    struct stat st;
    if (mkdir(path, 0700) == 0) /* what sessions said is for this user alone, unless the host makes the folder itself */
        return INFER_OK;
    int e = errno;
    if (e == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return INFER_OK;
    errno = e;
    return failed(os_error);
}

static infer_status file_list(const char *dir, bool (*fn)(void *arg, const char *name), void *arg, int *os_error)
{
    int fd = os_open_file(dir, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return failed(os_error);
    DIR *d = fdopendir(fd);
    if (!d) {
        infer_status st = failed(os_error);
        (void)close(fd);
        return st;
    }
    const struct dirent *e;
    for (errno = 0; (e = readdir(d)) != NULL; errno = 0)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && !fn(arg, e->d_name))
            break;
    infer_status st = e || errno == 0 ? INFER_OK : failed(os_error);
    (void)closedir(d);
    return st;
}

#define CLONE_BYTES ((uint64_t)4 << 20) /* at once: some milliseconds where they have to be copied after all */

static infer_status file_clone(int from, int to, uint64_t *done, uint64_t size, int *os_error)
{
#ifdef __linux__
#ifdef FICLONE
    if (*done == 0 && ioctl(to, FICLONE, from) == 0) {
        *done = size;
        return INFER_OK;
    }
#endif
    ssize_t n;
    do {
        off_t in = (off_t)*done, out = in;
        errno = 0;
        n = copy_file_range(from, &in, to, &out, (size_t)(size - *done < CLONE_BYTES ? size - *done : CLONE_BYTES), 0);
    } while (n < 0 && errno == EINTR);
    if (n > 0) {
        *done += (uint64_t)n;
        return INFER_OK;
    }
    if (errno == ENOSPC || errno == EDQUOT || errno == EIO)
        return failed(os_error);
#else
    (void)from;
    (void)to;
    (void)done;
    (void)size;
#endif
    *os_error = 0;
    return INFER_ERROR_UNSUPPORTED;
}

bool os_error_exists(int os_error)
{
    return os_error == EEXIST;
}

bool os_error_full(int os_error)
{
    return os_error == ENOSPC || os_error == EDQUOT || os_error == EFBIG;
}

const char *os_error_text(int os_error)
{
    switch (os_error) {
    case EACCES:
    case EPERM: return ": permission denied";
    case EISDIR: return ": it is a folder";
    case ENOTDIR: return ": a part of the path is not a folder";
    case EMFILE:
    case ENFILE: return ": too many files are open";
    case EROFS: return ": the file system is read-only";
    case ENAMETOOLONG: return ": the name is too long";
    case ELOOP: return ": a symbolic link that leads back to itself, or may not be followed";
    case EIO: return ": the device failed";
    default: return "";
    }
}

static infer_status file_touch(const char *path)
{
    return utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW) == 0 ? INFER_OK : INFER_ERROR_IO;
}

static bool file_replaceable(const char *path)
{
    struct stat st;
    return lstat(path, &st) != 0 || S_ISREG(st.st_mode) || S_ISLNK(st.st_mode);
}

#define PATH_BYTES 4096

/* Bytes of path up to its last slash, that included. */
static size_t folder_len(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

static bool stat_folder(const char *path, struct stat *out)
{
    char folder[PATH_BYTES] = ".";
    size_t n = folder_len(path);
    if (n) {
        memcpy(folder, path, n);
        folder[n] = 0;
    }
    return stat(folder, out) == 0;
}

/* The same name in the same folder. */
static bool same_entry(const char *a, const char *b)
{
    struct stat x, y;
    return strcmp(a + folder_len(a), b + folder_len(b)) == 0 && stat_folder(a, &x) && stat_folder(b, &y) && x.st_dev == y.st_dev
           && x.st_ino == y.st_ino;
}

static bool file_leads_to(const char *path, const char *entry)
{
    char at[PATH_BYTES], to[PATH_BYTES];
    if (strlen(path) >= sizeof at || strlen(entry) >= sizeof at)
        return false;
    memcpy(at, path, strlen(path) + 1);
    for (int i = 0; i < 40; i++) { /* more links than systems follow */
        if (same_entry(at, entry))
            return true;
        ssize_t n = readlink(at, to, sizeof to - 1);
        size_t folder = n > 0 && to[0] == '/' ? 0 : folder_len(at);
        if (n <= 0 || folder + (size_t)n >= sizeof at)
            return false;
        memcpy(at + folder, to, (size_t)n);
        at[folder + (size_t)n] = 0;
    }
    return false;
}

static void file_write_out(int fd, uint64_t offset, uint64_t n, bool wait)
{
#ifdef __linux__
    unsigned flags = wait ? SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER : SYNC_FILE_RANGE_WRITE;
    (void)sync_file_range(fd, (off_t)offset, (off_t)n, flags);
#else
    (void)fd;
    (void)offset;
    (void)n;
    (void)wait;
#endif
}

const struct os_io os_io_default = {
    file_open, file_dup, file_close, file_stat, file_read, file_map, file_unmap,
    file_create, file_write, file_sync, file_rename, file_link, file_sync_dir, file_unlink, file_reap, file_make_dir, file_list, file_clone,
    file_touch, file_replaceable, file_leads_to, file_write_out,
};
