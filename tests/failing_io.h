/* The file seam with failures on order. One at a time: it keeps its state in globals. */
#ifndef FAILING_IO_H
#define FAILING_IO_H

#include "base/os_file.h"

struct failing_io {
    uint64_t calls;    /* made so far, of those that can fail */
    uint64_t fail_at;  /* which of them fails, from 1; 0: none */
    int fail_rest;     /* and all after it */
    int os_error;      /* what it reports: EIO, ENOSPC ... */
    int real_sync;     /* else `sync` and `sync_dir` do nothing: tests would be slow */
    int no_clone;      /* `clone` and `link` answer UNSUPPORTED */
    int64_t open;      /* descriptors not yet closed */
    int64_t maps;
    uint64_t written;  /* bytes */
};

extern struct failing_io failing_io;
extern const struct os_io failing_io_ops;

/* Sets failing_io to zero, then fail_at and os_error. */
void failing_io_set(uint64_t fail_at, int os_error);

#endif
