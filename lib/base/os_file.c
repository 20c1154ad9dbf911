#include "base/os_file.h"

#include "base/os_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#ifndef INFER_NO_MMAP
#include <sys/mman.h>
#endif

static infer_status file_open(const char *path, int *fd, int *os_error)
{
    do
        *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* a FIFO must not make us wait for its writer */
    while (*fd < 0 && errno == EINTR);
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

const struct os_io os_io_default = {file_open, file_dup, file_close, file_stat, file_read, file_map, file_unmap};
