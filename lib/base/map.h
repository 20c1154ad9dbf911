/* A hash map from byte strings to 32-bit values. Keys are not copied: they must outlive the map. The hash is SipHash-1-3 with
 * a fixed key: order of insertion is irrelevant to results, and iteration is not offered, so nothing depends on it. */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stdbool.h>

#include "base/alloc.h"

struct map_slot {
    const char *key; /* NULL: empty */
    uint32_t len;
    uint32_t value;
};

struct map {
    const struct alloc *alloc;
    struct map_slot *slots;
    size_t mask, count;
};

void map_init(struct map *m, const struct alloc *alloc);
bool map_reserve(struct map *m, size_t count); /* false: no memory */
/* Adds key -> value. 1: added; 0: the key was there and keeps its value; -1: no memory or key of 4 GiB or more. */
int map_add(struct map *m, const char *key, size_t len, uint32_t value);
/* The place of the value of an existing key, or NULL. */
uint32_t *map_find(const struct map *m, const char *key, size_t len);
void map_free(struct map *m);

uint64_t hash_bytes(const void *data, size_t len); /* SipHash-1-3, fixed key */

#endif
