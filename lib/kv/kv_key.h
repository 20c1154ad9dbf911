/* What identifies one element of a sequence: equal keys, in order, from the first element on, mean equal computed state. Prefixes are
 * compared by whole keys, never by a hash alone. */
#ifndef KV_KV_KEY_H
#define KV_KV_KEY_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct kv_key {
    int32_t id;             /* token id; -1: an embedding row; -2: keys and values of a prefix adapter */
    uint32_t adapters_more; /* identity of the set in force when the element was appended, 96 bits of a hash; 0: none */
    uint64_t adapters;
    uint64_t row[2];        /* the content key of an embedding row; of a prefix its row's number; 0 for tokens */
};
_Static_assert(sizeof(struct kv_key) == 32, "no padding: keys lie in files");

/* Whether they are the same but for the adapters. */
static inline bool kv_key_same_input(const struct kv_key *a, const struct kv_key *b)
{
    return a->id == b->id && a->row[0] == b->row[0] && a->row[1] == b->row[1];
}

static inline bool kv_key_equal(const struct kv_key *a, const struct kv_key *b)
{
    return kv_key_same_input(a, b) && a->adapters == b->adapters && a->adapters_more == b->adapters_more;
}

/* A list of keys that lies with its owner in another form: get writes keys [first, first + count). */
struct kv_keys {
    void (*get)(const void *user, uint64_t first, uint64_t count, struct kv_key *out);
    const void *user;
};

static inline void kv_keys_copy(const void *user, uint64_t first, uint64_t count, struct kv_key *out)
{
    memcpy(out, (const struct kv_key *)user + first, (size_t)count * sizeof *out);
}

/* Of an array. */
static inline struct kv_keys kv_keys_of(const struct kv_key *keys)
{
    return (struct kv_keys){kv_keys_copy, keys};
}

#endif
