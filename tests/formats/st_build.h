/* Writes safetensors files in memory from the text of their header, valid or deliberately not. For tests. */
#ifndef ST_BUILD_H
#define ST_BUILD_H

#include <string.h>

#include "base/buf.h"

/* n_data bytes 0, 1, 2... follow the header. length: what the file says, or UINT64_MAX: the truth. */
static inline void st_build(struct buf *b, const char *header, uint64_t length, size_t n_data)
{
    uint64_t n = length == UINT64_MAX ? strlen(header) : length;
    buf_init(b, &alloc_default, 0);
    buf_put(b, &n, 8);
    buf_puts(b, header);
    for (size_t i = 0; i < n_data; i++)
        buf_putc(b, (char)i);
}

#endif
