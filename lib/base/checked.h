/* Overflow-safe arithmetic on sizes that come from files. Each returns false, and leaves *out alone, on overflow. */
#ifndef BASE_CHECKED_H
#define BASE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

static inline bool checked_add(uint64_t a, uint64_t b, uint64_t *out)
{
    if (a > UINT64_MAX - b)
        return false;
    *out = a + b;
    return true;
}

static inline bool checked_mul(uint64_t a, uint64_t b, uint64_t *out)
{
    if (b && a > UINT64_MAX / b)
        return false;
    *out = a * b;
    return true;
}

/* Rounds up to a multiple of align, a power of two. */
static inline bool checked_align(uint64_t a, uint64_t align, uint64_t *out)
{
    if (!checked_add(a, align - 1, &a))
        return false;
    *out = a & ~(align - 1);
    return true;
}

#endif
