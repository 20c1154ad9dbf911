/* The file seam: every read and write of a file goes through a `struct os_io`, so that tests can fail each call. */
#ifndef BASE_OS_FILE_H
#define BASE_OS_FILE_H

#include <stdbool.h>
#include <stdint.h>

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

    /* ---- Writing. base/outfile.h puts these together so that a file appears whole or not at all.
     * A new file, readable and writable, locked as in use until it is closed. EXISTS below in *os_error: the name is taken. */
    infer_status (*create)(const char *path, int *fd, int *os_error);
    infer_status (*write)(int fd, uint64_t offset, const void *src, size_t n, int *os_error); /* all n bytes */
    infer_status (*sync)(int fd, int *os_error);                                             /* to the disk */
    /* Gives a file its final name, replacing what had it. fd: from `create`, closed here in any case; or -1. */
    infer_status (*rename)(int fd, const char *from, const char *to, int *os_error);
    /* A second name for a file, if nothing has that name (os_error_exists otherwise). UNSUPPORTED: this file system has no such thing. */
    infer_status (*link)(const char *from, const char *to, int *os_error);
    infer_status (*sync_dir)(const char *dir, int *os_error); /* makes renames and unlinks in it durable */
    infer_status (*unlink)(const char *path, int *os_error);  /* NOT_FOUND: no such file */
    /* Unlinks a file made by `create` whose writer is gone; leaves one alone whose writer lives, or of which that cannot be told. */
    void (*reap)(const char *path);
    infer_status (*make_dir)(const char *path, int *os_error); /* it may exist */
    /* Calls fn for each name in a directory, in no order, "." and ".." left out, until fn returns false. */
    infer_status (*list)(const char *dir, bool (*fn)(void *arg, const char *name), void *arg, int *os_error);
    /* Makes `to`, of which the first *done bytes are there, share the blocks of `from`, of all `size` bytes or of some more. UNSUPPORTED: this file
     * system cannot; copy the rest then. */
    infer_status (*clone)(int from, int to, uint64_t *done, uint64_t size, int *os_error);
    infer_status (*touch)(const char *path); /* its time of change becomes now; NULL: this system cannot */
    /* Whether nothing would be lost but a regular file or a symbolic link when a file is given this name. NULL: always. */
    bool (*replaceable)(const char *path);
    /* Whether `path` is the name `entry`, perhaps written otherwise, or a symbolic link that leads over it: so that whoever opens `path` gets what
     * has the name `entry`. NULL: this system has no such links. */
    bool (*leads_to)(const char *path, const char *entry);
    /* Begins to bring written bytes to the disk, or waits until they are there. Advice: only sync makes sure. NULL: this system has no such thing. */
    void (*write_out)(int fd, uint64_t offset, uint64_t n, bool wait);
};

/* What an error number of `create` and `write` means. */
bool os_error_exists(int os_error); /* the name is taken */
bool os_error_full(int os_error);   /* disk, quota or the largest size of a file */
/* What a user can do something about, in words that do not depend on the locale: ": permission denied". "" for others. */
const char *os_error_text(int os_error);

#ifndef _WIN32
int os_open_file(const char *path, int flags); /* as open, close-on-exec, and never number 0 to 2; -1 and errno */
#endif

extern const struct os_io os_io_default;

#endif
