/* A growable byte string with a sticky failure: write freely, check once at the end. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdbool.h>

#include "base/alloc.h"

struct buf {
    const struct alloc *alloc;
    char *data; /* NULL until the first byte */
    size_t len, cap;
    size_t limit;     /* 0: none */
    bool no_memory;   /* an allocation failed: contents are incomplete */
    bool over_limit;  /* the limit was hit: contents are incomplete */
};

void buf_init(struct buf *b, const struct alloc *alloc, size_t limit);
bool buf_reserve(struct buf *b, size_t extra); /* room for `extra` more bytes; false sets the sticky flags */
void buf_put(struct buf *b, const void *bytes, size_t n);
void buf_putc(struct buf *b, char c);
void buf_puts(struct buf *b, const char *zstr);
void buf_free(struct buf *b);
static inline bool buf_ok(const struct buf *b) { return !b->no_memory && !b->over_limit; }

#endif
