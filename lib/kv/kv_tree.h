/* The radix tree behind kv_cache: nodes, matching, splitting, and the order of last use. Everything here runs under the cache's lock.
 *
 * A node covers elements [a, b) of its path, b > a, and holds its own reference to every page that overlaps them. Where a boundary cuts
 * a page, the nodes on both sides hold their version of it: the upper one's is good up to its b, the lower one's holds the upper one's
 * elements too, because both were computed along the same path. The end of a node is where a sequence once stood: all windows before
 * it were stored then, so that windowed groups can go on from there.
 *
 * A ghost is a node that was evicted: its keys without its pages, so that a miss can tell that it was there (and where it went). Children of
 * ghosts are ghosts.
 *
 * Both lists of last use keep every parent before (newer than) its children: the oldest node is always a leaf. */
#ifndef KV_KV_TREE_H
#define KV_KV_TREE_H

#include "kv/kv_cache.h"

struct kv_tree;

struct kv_node {
    struct kv_tree *tree;
    struct kv_node *parent;      /* NULL: the root */
    struct kv_node *child;       /* the first of its children */
    struct kv_node *next, *prev; /* siblings */
    struct kv_node *chain;       /* the next one in its bucket */
    struct kv_node *newer, *older;
    uint64_t a, b;
    struct kv_key *keys;    /* [b - a] */
    struct kv_page **pages; /* [group][node_pages]; NULL: a ghost (and the root) */
    uint32_t n_live;        /* children that are no ghosts */
    bool spilled;           /* was handed out, or need not be */
};

struct kv_use_list {
    struct kv_node *newest, *oldest;
    uint64_t count, key_bytes;
};

/* One tree for each (model, KV type, salt). */
struct kv_tree {
    struct kv_node root;
    struct kv_domain domain;
    struct kv_tree *chain;       /* bucket */
    struct kv_tree *newer, *older;
    uint32_t n_groups;
    uint64_t page_bytes[KV_CACHE_GROUPS], window[KV_CACHE_GROUPS];
};

#define KV_TREE_BUCKETS 256u

struct kv_cache {
    const struct env *env;
    struct kv_pool *pool;
    struct os_mutex lock;
    struct kv_cache_options o;
    struct kv_node **buckets; /* [n_buckets] children by (parent, first key) */
    uint64_t n_buckets;
    struct kv_tree *trees[KV_TREE_BUCKETS];
    struct kv_tree *newest_tree, *oldest_tree;
    struct kv_use_list live, ghosts;
    struct kv_evicted *evicted, **evicted_end;
    uint64_t page_bytes; /* of different pages */
    struct kv_cache_stats stats;
};

/* How far a list of keys goes along a tree. */
struct kv_match {
    struct kv_node *node;  /* the deepest with an element that matches, or the root */
    uint64_t at;           /* elements that match: node->a < at <= node->b */
    struct kv_node *live;  /* the deepest on the way that is no ghost */
    uint64_t live_at;
};

struct kv_tree *tree_find(struct kv_cache *c, const struct kv_domain *d);
struct kv_tree *tree_new(struct kv_cache *c, const struct kv_domain *d, const struct kv_seq *shape, uint32_t n_groups);
void tree_touch(struct kv_cache *c, struct kv_tree *t);
void tree_drop(struct kv_cache *c, struct kv_tree *t);        /* with all its nodes */
void tree_drop_empty(struct kv_cache *c, struct kv_tree *t); /* when it has none */

struct kv_match tree_match(struct kv_cache *c, struct kv_tree *t, const struct kv_keys *keys, uint64_t length);
/* The deepest r <= p from which all groups can go on with the pages on the way to n; p <= n->b. */
uint64_t tree_resume(const struct kv_node *n, uint64_t p);
/* The version of page i of group g, on the way to n, that holds all of its elements below r; NULL: none. */
struct kv_page *tree_page(const struct kv_node *n, uint32_t g, uint64_t i, uint64_t r);

/* Cuts n at p, a < p < b; returns the new upper part, NULL: no memory (nothing has changed). */
struct kv_node *node_split(struct kv_cache *c, struct kv_node *n, uint64_t p);
/* A child of parent for keys [parent->b, length) with the pages of seqs (NULL: a ghost). NULL: no memory. */
struct kv_node *node_new(struct kv_cache *c, struct kv_node *parent, const struct kv_keys *keys, uint64_t length,
                         const struct kv_seq *seqs);
/* Gives n, whose parent is no ghost, the pages of seqs where it has none; false: no memory. */
bool node_fill(struct kv_cache *c, struct kv_node *n, const struct kv_seq *seqs);
void node_touch(struct kv_cache *c, struct kv_node *n); /* with all above it */
/* A leaf among the live ones becomes a ghost; returns the bytes of pages that nobody holds now. */
uint64_t node_evict(struct kv_cache *c, struct kv_node *n);
void node_remove(struct kv_cache *c, struct kv_node *n); /* no children */
/* n as it would be handed out; NULL: no memory. */
struct kv_evicted *node_copy(struct kv_cache *c, const struct kv_node *n);
/* Whether evicting n would give nothing back because sequences hold all its pages. */
bool node_pinned(const struct kv_cache *c, const struct kv_node *n);

static inline bool node_is_live(const struct kv_node *n)
{
    return n->pages || !n->parent;
}

#endif
