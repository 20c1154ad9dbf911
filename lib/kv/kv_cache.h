/* The prefix cache: computed state that sequences leave behind for others that begin with the same elements.
 *
 * A radix tree with compressed edges for each domain (model, KV type, salt); nodes hold references to pages, not copies. A look-up gives
 * page tables for the deepest prefix that all layer groups can go on from. The least recently used leaves are evicted to stay under a
 * byte budget; nodes whose pages sequences hold anyway are left alone, since evicting them gives nothing back. Thread-safe under one
 * lock; page data is never touched. */
#ifndef KV_KV_CACHE_H
#define KV_KV_CACHE_H

#include "base/os_thread.h"
#include "kv/kv_key.h"
#include "kv/kv_seq.h"

#define KV_CACHE_GROUPS 8u
#define KV_SALT_MAX 64u

struct kv_cache;

/* Who may share with whom. */
struct kv_domain {
    const void *owner; /* the model; not followed */
    uint64_t type;     /* everything that decides the layout of pages */
    uint32_t salt_len;
    uint8_t salt[KV_SALT_MAX]; /* zero beyond salt_len */
};

struct kv_cache_options {
    uint64_t bytes;       /* of pages and keys that are kept */
    uint64_t ghost_bytes; /* of keys of what was evicted */
    bool spill;           /* hand out what is evicted (kv_cache_evicted) */
    uint64_t max_buckets; /* for tests: few make keys collide; 0: as many as it takes */
};

struct kv_cache_stats {
    uint64_t lookups, hits, partial_hits, saved, rerun; /* saved, rerun: elements */
    uint64_t insertions, evictions;
    uint64_t bytes, nodes, ghosts, ghost_bytes; /* now */
};

struct kv_cache_query {
    const struct kv_domain *domain;
    const struct kv_keys *keys;
    uint64_t length;  /* keys */
    uint64_t at_most; /* how many may be reused; at most length */
    uint64_t have;    /* computed already: no more than that is of no use */
    bool quiet;       /* asked before: counts only when it is of use */
};

struct kv_cache_found {
    uint64_t reused;      /* elements in the page tables; have or less: none were made */
    uint64_t matched;     /* elements that are stored, of at_most */
    int32_t reason;       /* INFER_CACHE_REASON_* */
    int32_t own_reason;   /* the same without a look at other salts */
    uint64_t difference;  /* the first element that is not stored (or was evicted) */
    uint64_t near_length; /* of a stored prefix that is nearly this one; 0: none */
};

/* Prefixes that share at least this many elements, and 9 of 10 of the stored one's, are nearly the same. */
#define KV_NEAR_LEAST 1024u

infer_status kv_cache_create(const struct env *env, struct kv_pool *pool, const struct kv_cache_options *o,
                             struct kv_cache **out, infer_error *err);
void kv_cache_destroy(struct kv_cache *c); /* may be NULL */

/* tables: [n_groups], fresh from kv_seq_init; filled when found->reused > query->have. NO_MEMORY: they are empty. */
infer_status kv_cache_find(struct kv_cache *c, const struct kv_cache_query *q, struct kv_seq *tables, uint32_t n_groups,
                           struct kv_cache_found *found, infer_error *err);
/* Keeps the first `length` elements of a sequence whose page tables these are. Quietly keeps less when there is no memory. spilled: they come
 * from where evicted ones are kept, and need not be handed out again; tables may then lack pages of elements that are kept already. */
void kv_cache_add(struct kv_cache *c, const struct kv_domain *d, const struct kv_keys *keys, uint64_t length,
                  const struct kv_seq *tables, uint32_t n_groups, bool spilled);
/* How many of the keys are kept. */
uint64_t kv_cache_matched(struct kv_cache *c, const struct kv_domain *d, const struct kv_keys *keys, uint64_t length);
/* Evicts until at least one page has gone back to the pool; false when there is nothing to evict. */
bool kv_cache_reclaim(struct kv_cache *c);
void kv_cache_trim(struct kv_cache *c); /* to the budget: after sequences let go of pages */
void kv_cache_drop(struct kv_cache *c, const void *owner); /* all domains of a model; NULL: everything */
void kv_cache_get_stats(struct kv_cache *c, struct kv_cache_stats *out);
/* A piece of a prefix on its way out, with a reference on each page. */
struct kv_evicted {
    struct kv_evicted *next;
    struct kv_domain domain;
    uint32_t n_groups;
    uint64_t page_bytes[KV_CACHE_GROUPS];
    uint64_t a, b;          /* its elements */
    struct kv_key *keys;    /* [b], from the first element on */
    struct kv_page **pages; /* [n_groups][per] those that overlap [a, b); entries may be NULL */
    uint64_t per;
};
/* The next piece that was evicted for want of bytes, NULL: none. Its pages are still held: soon give it back with kv_evicted_free. What is
 * evicted because the pool needs pages is not handed out. */
struct kv_evicted *kv_cache_evicted(struct kv_cache *c);
bool kv_cache_has_evicted(struct kv_cache *c);
/* The next piece that is kept and was never handed out, as if it had been evicted; *out NULL: none. */
infer_status kv_cache_unspilled(struct kv_cache *c, struct kv_evicted **out, infer_error *err);
void kv_cache_put_back(struct kv_cache *c, struct kv_evicted *e); /* it is the next again */
/* It was not written: what of it is kept counts as never handed out. */
void kv_cache_unwritten(struct kv_cache *c, const struct kv_evicted *e);
void kv_evicted_free(struct kv_cache *c, struct kv_evicted *e);

/* For tests: whether everything that must hold about the tree holds. */
bool kv_cache_check(struct kv_cache *c);

#endif
