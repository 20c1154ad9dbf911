/* A bounded reader of untrusted little-endian bytes. Failure is sticky: after the first read past the end every further
 * read gives zero and `bad` stays set, so a parser may check once per record. */
#ifndef BASE_CURSOR_H
#define BASE_CURSOR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct cursor {
    const uint8_t *data;
    uint64_t len, pos;
    bool bad;
};

static inline struct cursor cursor_of(const void *data, uint64_t len)
{
    return (struct cursor){data, len, 0, false};
}

static inline uint64_t cursor_left(const struct cursor *c)
{
    return c->bad ? 0 : c->len - c->pos;
}

/* The next n bytes, or NULL. */
static inline const uint8_t *cursor_take(struct cursor *c, uint64_t n)
{
    if (c->bad || n > c->len - c->pos) {
        c->bad = true;
        return NULL;
    }
    const uint8_t *p = c->data + c->pos;
    c->pos += n;
    return p;
}

#define CURSOR_READ(name, type)                                                                                        \
    static inline type cursor_##name(struct cursor *c)                                                                 \
    {                                                                                                                  \
        type v = 0;                                                                                                    \
        const uint8_t *p = cursor_take(c, sizeof v);                                                                   \
        if (p)                                                                                                         \
            memcpy(&v, p, sizeof v); /* hosts are little-endian: configure refuses others */                           \
        return v;                                                                                                      \
    }
CURSOR_READ(u8, uint8_t)
CURSOR_READ(i8, int8_t)
CURSOR_READ(u16, uint16_t)
CURSOR_READ(i16, int16_t)
CURSOR_READ(u32, uint32_t)
CURSOR_READ(i32, int32_t)
CURSOR_READ(u64, uint64_t)
CURSOR_READ(i64, int64_t)
CURSOR_READ(f32, float)
CURSOR_READ(f64, double)
#undef CURSOR_READ

#endif
