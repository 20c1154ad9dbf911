/* The file seam: every read of a file goes through a `struct os_io`, so that tests can fail each call. */
#ifndef BASE_OS_FILE_H
#define BASE_OS_FILE_H

#include <stdbool.h>

#include "base/err.h"

struct os_stat {
    uint64_t size;
    int64_t mtime_s, mtime_ns;
};

/* Functions return 0 or an infer_status; the text of the failure is set by the callers, which know the name. *os_error
 * receives the system's error number where there is one. */
struct os_io {
    infer_status (*open)(const char *path, int *fd, int *os_error); /* read-only */
    infer_status (*dup)(int fd, int *copy, int *os_error);
    void (*close)(int fd);
    infer_status (*stat)(int fd, struct os_stat *out, int *os_error); /* UNSUPPORTED: not a regular file */
    /* Reads exactly n bytes. TRUNCATED: the file ends before. */
    infer_status (*read)(int fd, uint64_t offset, void *dst, size_t n, int *os_error);
    /* Maps the whole file read-only and private. UNSUPPORTED: the system has no maps. */
    infer_status (*map)(int fd, size_t n, const void **out, int *os_error);
    void (*unmap)(const void *p, size_t n);
};

extern const struct os_io os_io_default;

#endif
