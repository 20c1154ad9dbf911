#include "base/hash.h"

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
#endif
