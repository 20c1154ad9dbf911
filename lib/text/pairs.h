/* The merges of BPE: a hash table from two tokens to the rank of their merge and its result. */
#ifndef TEXT_PAIRS_H
#define TEXT_PAIRS_H

#include <stdbool.h>

#include "base/alloc.h"

/* A merge of two tokens. left UINT32_MAX: an empty slot. */
struct pair_slot {
    uint32_t left, right, rank, id;
};

struct pair_table {
    struct pair_slot *slots;
    uint32_t mask;
};

/* Room for count merges (at most 2^25). False: no memory. mem_free(slots) frees it. */
bool pair_table_init(struct pair_table *t, const struct alloc *alloc, uint32_t count);
/* Of equal merges the first counts, or with last the last. False: too many collisions for an honest file. */
bool pair_add(struct pair_table *t, struct pair_slot p, bool last);

static inline uint32_t pair_hash(uint32_t left, uint32_t right)
{
    uint64_t x = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u;
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9u;
    return (uint32_t)(x >> 32);
}

/* NULL: the two do not merge. */
static inline const struct pair_slot *pair_find(const struct pair_table *t, uint32_t left, uint32_t right)
{
    for (uint32_t i = pair_hash(left, right) & t->mask;; i = (i + 1) & t->mask) {
        const struct pair_slot *s = &t->slots[i];
        if (s->left == UINT32_MAX)
            return NULL;
        if (s->left == left && s->right == right)
            return s;
    }
}

#endif
