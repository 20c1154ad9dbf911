#include "base/hash.h"

#include "base/cancel.h"

#ifdef INFER_HAVE_XXHASH
#define XXH_INLINE_ALL /* everything static: nothing is linked, no name is exported */
#include <xxhash.h>

bool hash_available(void)
{
    return true;
}

uint64_t hash_64(const void *data, size_t n)
{
    return XXH3_64bits(data, n);
}

struct hash_128 hash_128(const void *data, size_t n, uint64_t seed)
{
    XXH128_hash_t h = XXH3_128bits_withSeed(data, n, seed);
    return (struct hash_128){h.low64, h.high64};
}
#define PIECE ((size_t)1 << 20)

bool hash_64_polled(const void *data, size_t n, const infer_cancel *cancel, uint64_t *out)
{
    XXH3_state_t s = {.seed = 0}; /* reset looks at it */
    if (n <= PIECE) {
        *out = hash_64(data, n);
        return !cancel_is_set(cancel);
    }
    (void)XXH3_64bits_reset(&s);
    for (size_t at = 0; at < n; at += PIECE) {
        if (cancel_is_set(cancel))
            return false;
        (void)XXH3_64bits_update(&s, (const char *)data + at, n - at < PIECE ? n - at : PIECE);
    }
    *out = XXH3_64bits_digest(&s);
    return true;
}

bool hash_128_polled(const void *data, size_t n, uint64_t seed, const infer_cancel *cancel, struct hash_128 *out)
{
    XXH3_state_t s = {.seed = 0}; /* reset looks at it */
    (void)XXH3_128bits_reset_withSeed(&s, seed);
    for (size_t at = 0; at < n; at += PIECE) {
        if (cancel_is_set(cancel))
            return false;
        (void)XXH3_128bits_update(&s, (const char *)data + at, n - at < PIECE ? n - at : PIECE);
    }
    XXH128_hash_t h = XXH3_128bits_digest(&s);
    *out = (struct hash_128){h.low64, h.high64};
    return true;
}
#else
bool hash_available(void)
{
    return false;
}

uint64_t hash_64(const void *data, size_t n)
{
    (void)data;
    (void)n;
    return 0;
}

struct hash_128 hash_128(const void *data, size_t n, uint64_t seed)
{
    (void)data;
    (void)n;
    (void)seed;
    return (struct hash_128){0, 0};
}

bool hash_64_polled(const void *data, size_t n, const infer_cancel *cancel, uint64_t *out)
{
    *out = hash_64(data, n);
    return !cancel_is_set(cancel);
}

bool hash_128_polled(const void *data, size_t n, uint64_t seed, const infer_cancel *cancel, struct hash_128 *out)
{
    *out = hash_128(data, n, seed);
    return !cancel_is_set(cancel);
}
#endif
