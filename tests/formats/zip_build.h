/* Writes zip archives in memory, valid or deliberately not, and the pickles in them. For tests. */
#ifndef ZIP_BUILD_H
#define ZIP_BUILD_H

#include <stdint.h>
#include <string.h>

#include "base/buf.h"

struct zip_build {
    struct buf b;       /* the archive */
    struct buf central; /* its directory so far */
    uint16_t n;
};

static inline void zb_u16(struct buf *b, uint16_t v)
{
    buf_put(b, &v, 2);
}

static inline void zb_u32(struct buf *b, uint32_t v)
{
    buf_put(b, &v, 4);
}

static inline void zb_begin(struct zip_build *z)
{
    buf_init(&z->b, &alloc_default, 0);
    buf_init(&z->central, &alloc_default, 0);
    z->n = 0;
}

/* The 30 or, in the directory, 46 bytes of an entry and its name. */
static inline void zb_header(struct buf *b, int central, const char *name, uint16_t flags, uint16_t method, uint32_t size, uint32_t where)
{
    zb_u32(b, central ? 0x02014b50 : 0x04034b50);
    if (central)
        zb_u16(b, 20);
    zb_u16(b, 20), zb_u16(b, flags), zb_u16(b, method);
    zb_u32(b, 0), zb_u32(b, 0); /* time, checksum */
    zb_u32(b, size), zb_u32(b, size);
    zb_u16(b, (uint16_t)strlen(name)), zb_u16(b, 0);
    if (central) {
        zb_u16(b, 0), zb_u32(b, 0), zb_u32(b, 0); /* comment, disk, attributes */
        zb_u32(b, where);
    }
    buf_puts(b, name);
}

static inline void zb_entry(struct zip_build *z, const char *name, const void *data, size_t size)
{
    uint32_t where = (uint32_t)z->b.len;
    zb_header(&z->b, 0, name, 0, 0, (uint32_t)size, 0);
    buf_put(&z->b, data, size);
    zb_header(&z->central, 1, name, 0, 0, (uint32_t)size, where);
    z->n++;
}

/* The directory and its end. */
static inline void zb_end(struct zip_build *z)
{
    uint32_t where = (uint32_t)z->b.len;
    buf_put(&z->b, z->central.data ? z->central.data : "", z->central.len);
    zb_u32(&z->b, 0x06054b50), zb_u32(&z->b, 0);
    zb_u16(&z->b, z->n), zb_u16(&z->b, z->n);
    zb_u32(&z->b, (uint32_t)z->central.len), zb_u32(&z->b, where);
    zb_u16(&z->b, 0);
    buf_free(&z->central);
}

/* A torch file of this pickle and one storage "0" of n bytes 0, 1, 2... */
static inline void zb_torch(struct buf *out, const void *pickle, size_t len, size_t n)
{
    struct zip_build z;
    uint8_t data[256];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)i;
    zb_begin(&z);
    zb_entry(&z, "archive/data.pkl", pickle, len);
    zb_entry(&z, "archive/data/0", data, n);
    zb_end(&z);
    *out = z.b;
}

#endif
