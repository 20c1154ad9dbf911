#include "base/buf.h"

#include <string.h>

void buf_init(struct buf *b, const struct alloc *alloc, size_t limit)
{
    *b = (struct buf){.alloc = alloc, .limit = limit};
}

bool buf_reserve(struct buf *b, size_t extra)
{
    if (!buf_ok(b))
        return false;
    if (extra > SIZE_MAX / 2 - b->len || (b->limit && extra > b->limit - b->len)) {
        b->over_limit = true;
        return false;
    }
    if (b->len + extra <= b->cap)
        return true;
    size_t cap = b->cap ? b->cap + b->cap / 2 : 64;
    if (cap < b->len + extra)
        cap = b->len + extra;
    char *p = mem_grow(b->alloc, b->data, cap);
    if (!p) {
        b->no_memory = true;
        return false;
    }
    b->data = p;
    b->cap = cap;
    return true;
}

void buf_put(struct buf *b, const void *bytes, size_t n)
{
    if (n && buf_reserve(b, n)) {
        memcpy(b->data + b->len, bytes, n);
        b->len += n;
    }
}

void buf_putc(struct buf *b, char c)
{
    buf_put(b, &c, 1);
}

void buf_puts(struct buf *b, const char *zstr)
{
    buf_put(b, zstr, strlen(zstr));
}

void buf_free(struct buf *b)
{
    mem_free(b->alloc, b->data);
    b->data = NULL;
    b->len = b->cap = 0;
}
