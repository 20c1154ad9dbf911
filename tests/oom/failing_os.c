#define _GNU_SOURCE
#include "failing_os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    unsigned kinds;
    int error, how;
    uint64_t fail_at;
    bool rest;
    atomic_bool paused;
    atomic_uint_fast64_t calls;
} os;

static struct {
    atomic_int_fast64_t blocks, descriptors, maps, folders, threads, mutexes, conds;
} held;

void failing_os_arm(unsigned kinds, int error, int how, uint64_t fail_at, bool rest)
{
    os.kinds = kinds;
    os.error = error;
    os.how = how;
    os.fail_at = fail_at;
    os.rest = rest;
    os.calls = 0;
}

uint64_t failing_os_calls(void)
{
    return os.calls;
}

void failing_os_pause(bool on)
{
    os.paused = on;
}

const char *failing_os_left(void)
{
    static char text[256];
    int64_t n[] = {held.blocks, held.descriptors, held.maps, held.folders, held.threads, held.mutexes, held.conds};
    static const char *const names[] = {"blocks", "descriptors", "maps", "open folders", "threads", "mutexes", "condition variables"};
    size_t len = 0;
    text[0] = 0;
    for (size_t i = 0; i < sizeof n / sizeof n[0]; i++)
        if (n[i])
            len += (size_t)snprintf(text + len, sizeof text - len, "%lld %s ", (long long)n[i], names[i]);
    held.blocks = held.descriptors = held.maps = held.folders = held.threads = held.mutexes = held.conds = 0;
    return text;
}

static bool fails(unsigned kind)
{
    if (!(os.kinds & kind) || os.paused)
        return false;
    uint64_t n = ++os.calls;
    if (!os.fail_at || n < os.fail_at || (n > os.fail_at && !os.rest) || (os.error == EINTR && (n - os.fail_at) % 2))
        return false;
    errno = os.error;
    return true;
}

/* The function that the program calls by this name, and the one that it called before. */
#define WRAP(type, name, ...)                                                                                          \
    type __real_##name(__VA_ARGS__);                                                                                   \
    type __wrap_##name(__VA_ARGS__);                                                                                   \
    type __wrap_##name(__VA_ARGS__)
#define REAL_OF(name) __real_##name
#define REAL(name) REAL_OF(name)
#define WRAP64(type, name, ...) WRAP(type, name, __VA_ARGS__)

/* With 64-bit offsets glibc calls them by other names. */
#ifdef __GLIBC__
#define OPEN open64
#define FCNTL fcntl64
#define FSTAT fstat64
#define STAT stat64
#define LSTAT lstat64
#define PREAD pread64
#define PWRITE pwrite64
#define MMAP mmap64
#define READDIR readdir64
typedef struct stat64 any_stat;
typedef struct dirent64 any_dirent;
#else
#define OPEN open
#define FCNTL fcntl
#define FSTAT fstat
#define STAT stat
#define LSTAT lstat
#define PREAD pread
#define PWRITE pwrite
#define MMAP mmap
#define READDIR readdir
typedef struct stat any_stat;
typedef struct dirent any_dirent;
#endif

/* ---- memory */

static void *counted(void *p)
{
    held.blocks += p && !os.paused;
    return p;
}

WRAP(void *, malloc, size_t n)
{
    return fails(OS_MALLOC) ? NULL : counted(__real_malloc(n));
}

WRAP(void *, aligned_alloc, size_t align, size_t n)
{
    return fails(OS_MALLOC) ? NULL : counted(__real_aligned_alloc(align, n));
}

WRAP(void, free, void *p)
{
    held.blocks -= p && !os.paused;
    __real_free(p);
}

/* ---- files */

static int opened(int fd)
{
    held.descriptors += fd >= 0 && !os.paused;
    return fd;
}

WRAP64(int, OPEN, const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    return fails(OS_OPEN) ? -1 : opened(REAL(OPEN)(path, flags, mode));
}

WRAP64(int, FCNTL, int fd, int command, ...)
{
    va_list ap;
    va_start(ap, command);
    void *arg = va_arg(ap, void *);
    va_end(ap);
    if (command != F_DUPFD_CLOEXEC)
        return REAL(FCNTL)(fd, command, arg);
    return fails(OS_OPEN) ? -1 : opened(REAL(FCNTL)(fd, command, arg));
}

WRAP(int, close, int fd)
{
    int r = __real_close(fd);
    held.descriptors -= !os.paused;
    return fails(OS_CLOSE) ? -1 : r;
}

WRAP64(int, FSTAT, int fd, any_stat *st)
{
    return fails(OS_STAT) ? -1 : REAL(FSTAT)(fd, st);
}

WRAP64(int, STAT, const char *path, any_stat *st)
{
    return fails(OS_STAT) ? -1 : REAL(STAT)(path, st);
}

WRAP64(int, LSTAT, const char *path, any_stat *st)
{
    return fails(OS_STAT) ? -1 : REAL(LSTAT)(path, st);
}

WRAP64(ssize_t, PREAD, int fd, void *to, size_t n, off_t at)
{
    if (!fails(OS_READ))
        return REAL(PREAD)(fd, to, n, at);
    return os.how == HOW_ERROR ? -1 : os.how == HOW_END ? 0 : REAL(PREAD)(fd, to, n > 1 ? n / 2 : n, at);
}

/* A failing write leaves half of its bytes, as a disk that fills up does. */
WRAP64(ssize_t, PWRITE, int fd, const void *from, size_t n, off_t at)
{
    if (!fails(OS_WRITE))
        return REAL(PWRITE)(fd, from, n, at);
    ssize_t half = REAL(PWRITE)(fd, from, n > 1 ? n / 2 : n, at);
    errno = os.error;
    return os.how == HOW_ERROR ? -1 : os.how == HOW_END ? 0 : half;
}

WRAP64(void *, MMAP, void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    void *p = fails(OS_MAP) ? MAP_FAILED : REAL(MMAP)(at, n, protection, flags, fd, offset);
    held.maps += p != MAP_FAILED && !os.paused;
    return p;
}

WRAP(int, munmap, void *p, size_t n)
{
    held.maps -= !os.paused;
    return __real_munmap(p, n);
}

WRAP(int, fsync, int fd)
{
    return fails(OS_SYNC) ? -1 : __real_fsync(fd);
}

WRAP(int, rename, const char *from, const char *to)
{
    return fails(OS_RENAME) ? -1 : __real_rename(from, to);
}

WRAP(int, link, const char *from, const char *to)
{
    return fails(OS_LINK) ? -1 : __real_link(from, to);
}

WRAP(int, unlink, const char *path)
{
    return fails(OS_UNLINK) ? -1 : __real_unlink(path);
}

WRAP(int, mkdir, const char *path, mode_t mode)
{
    return fails(OS_MKDIR) ? -1 : __real_mkdir(path, mode);
}

/* Takes the descriptor over. */
WRAP(DIR *, fdopendir, int fd)
{
    DIR *d = fails(OS_LIST) ? NULL : __real_fdopendir(fd);
    held.folders += d && !os.paused;
    held.descriptors -= d && !os.paused;
    return d;
}

WRAP(int, closedir, DIR *d)
{
    held.folders -= !os.paused;
    return __real_closedir(d);
}

WRAP64(any_dirent *, READDIR, DIR *d)
{
    return fails(OS_LIST) ? NULL : REAL(READDIR)(d);
}

WRAP(int, flock, int fd, int how)
{
    return fails(OS_LOCK) ? -1 : __real_flock(fd, how);
}

WRAP(ssize_t, copy_file_range, int from, off_t *from_at, int to, off_t *to_at, size_t n, unsigned flags)
{
    if (!fails(OS_CLONE))
        return __real_copy_file_range(from, from_at, to, to_at, n, flags);
    return os.how == HOW_ERROR ? -1 : os.how == HOW_END ? 0 : __real_copy_file_range(from, from_at, to, to_at, n > 1 ? n / 2 : n, flags);
}

/* ---- threads */

WRAP(int, pthread_create, pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
    int r = fails(OS_THREAD) ? os.error : __real_pthread_create(t, attr, fn, arg);
    held.threads += r == 0;
    return r;
}

WRAP(int, pthread_join, pthread_t t, void **result)
{
    held.threads--;
    return __real_pthread_join(t, result);
}

WRAP(int, pthread_mutex_init, pthread_mutex_t *m, const pthread_mutexattr_t *attr)
{
    int r = fails(OS_MUTEX) ? os.error : __real_pthread_mutex_init(m, attr);
    held.mutexes += r == 0;
    return r;
}

WRAP(int, pthread_mutex_destroy, pthread_mutex_t *m)
{
    held.mutexes--;
    return __real_pthread_mutex_destroy(m);
}

WRAP(int, pthread_cond_init, pthread_cond_t *c, const pthread_condattr_t *attr)
{
    int r = fails(OS_MUTEX) ? os.error : __real_pthread_cond_init(c, attr);
    held.conds += r == 0;
    return r;
}

WRAP(int, pthread_cond_destroy, pthread_cond_t *c)
{
    held.conds--;
    return __real_pthread_cond_destroy(c);
}
