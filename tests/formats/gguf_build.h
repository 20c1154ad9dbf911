/* Writes GGUF files in memory, valid or deliberately not: every field is written as told. For tests. */
#ifndef GGUF_BUILD_H
#define GGUF_BUILD_H

#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "formats/file.h"

static inline void gb_u32(struct buf *b, uint32_t v)
{
    buf_put(b, &v, 4);
}

static inline void gb_u64(struct buf *b, uint64_t v)
{
    buf_put(b, &v, 8);
}

static inline void gb_str(struct buf *b, const char *s)
{
    gb_u64(b, strlen(s));
    buf_puts(b, s);
}

static inline void gb_header(struct buf *b, uint32_t version, uint64_t n_tensors, uint64_t n_meta)
{
    buf_init(b, &alloc_default, 0);
    buf_puts(b, "GGUF");
    gb_u32(b, version);
    gb_u64(b, n_tensors);
    gb_u64(b, n_meta);
}

static inline void gb_key(struct buf *b, const char *key, uint32_t type)
{
    gb_str(b, key);
    gb_u32(b, type);
}

static inline void gb_meta_u32(struct buf *b, const char *key, uint32_t v)
{
    gb_key(b, key, FILE_U32);
    gb_u32(b, v);
}

static inline void gb_meta_str(struct buf *b, const char *key, const char *v)
{
    gb_key(b, key, FILE_STRING);
    gb_str(b, v);
}

/* Then the items. */
static inline void gb_meta_array(struct buf *b, const char *key, uint32_t item, uint64_t count)
{
    gb_key(b, key, FILE_ARRAY);
    gb_u32(b, item);
    gb_u64(b, count);
}

static inline void gb_tensor(struct buf *b, const char *name, uint32_t type, uint32_t n_dims, const uint64_t *dims,
                             uint64_t offset)
{
    gb_str(b, name);
    gb_u32(b, n_dims);
    for (uint32_t i = 0; i < n_dims; i++)
        gb_u64(b, dims[i]);
    gb_u32(b, type);
    gb_u64(b, offset);
}

static inline void gb_align(struct buf *b, size_t alignment)
{
    while (b->len % alignment)
        buf_putc(b, 0);
}

#endif
