/* Checksums of files: XXH3 (xxHash), the same on every machine. They find damage; they are no defence against somebody who builds two
 * files with one checksum, so nothing that must not be confused is told apart by them alone where a forger has something to win. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hash_128 {
    uint64_t lo, hi;
};

/* False: this build has no xxHash. The functions below then give 0, and what needs them has to answer UNSUPPORTED first. */
bool hash_available(void);
uint64_t hash_64(const void *data, size_t n);                         /* XXH3_64bits */
struct hash_128 hash_128(const void *data, size_t n, uint64_t seed);  /* XXH3_128bits_withSeed */

/* The same numbers, in pieces of a millisecond or less (more where the bytes come from a disk). False: the flag, which may be NULL, is set. */
struct infer_cancel;
bool hash_64_polled(const void *data, size_t n, const struct infer_cancel *cancel, uint64_t *out);
bool hash_128_polled(const void *data, size_t n, uint64_t seed, const struct infer_cancel *cancel, struct hash_128 *out);

static inline bool hash_128_equal(struct hash_128 a, struct hash_128 b)
{
    return a.lo == b.lo && a.hi == b.hi;
}

#endif
