/* Pages of computed state. A page holds the keys and values of 64 consecutive elements for all layers of one group; its bytes lie on
 * the device, its header (reference count) in host memory apart from them, so that looking at counts touches no data.
 *
 * Pages come from slabs, one device buffer each, under the byte budget of the pool. A page with one reference may be written by its
 * owner; a shared one is copied first. Pages of foreign memory (a mapped file) are read-only: they count as shared whatever their
 * references are, and not against the budget. Thread-safe. */
#ifndef KV_KV_PAGE_H
#define KV_KV_PAGE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/cancel.h"
#include "base/env.h"
#include "kernels/device.h"

struct kv_pool;

struct kv_page {
    struct dev_ref data;
    /* private to kv_page.c */
    struct kv_slab *slab;
    struct kv_page *next_free;
    uint32_t refs; /* under the pool's lock, as the next */
    uint32_t counted; /* the number of the last count that it was in */
    atomic_bool unverified; /* of a foreign page whose content nobody has looked at */
    uint32_t cached; /* kv_tree.c, under the cache's lock: references of the prefix cache */
};

/* budget: bytes of slabs; 0: no limit. The device outlives the pool. */
infer_status kv_pool_create(const struct env *env, struct device *dev, uint64_t budget, struct kv_pool **out,
                            infer_error *err);
void kv_pool_destroy(struct kv_pool *pool); /* all pages must be back; may be NULL */
uint64_t kv_pool_bytes(struct kv_pool *pool);

/* Pages of one size, and the most that are in use at once. */
struct kv_demand {
    uint64_t page_bytes, pages;
};
/* The most that a pool without a budget takes for them: of the device for slabs, and, added to *host, of host memory for lists of n pages. */
uint64_t kv_pool_most(const struct kv_demand *demands, uint32_t n, uint64_t *host);

/* Asked for pages back when the budget is used up or the device has no memory. Returns whether it dropped any page reference; it is
 * called again as long as it does and that was not enough. Called without the pool's lock, by any thread that needs a page, which may
 * hold the engine's step lock: it takes neither that lock nor calls kv_page_new. */
typedef bool (*kv_reclaim_fn)(void *user);
void kv_pool_set_reclaim(struct kv_pool *pool, kv_reclaim_fn reclaim, void *user);

/* A page of this many bytes with one reference, contents undefined. LIMIT: the budget is used up. */
infer_status kv_page_new(struct kv_pool *pool, uint64_t bytes, struct kv_page **out, infer_error *err);

/* Host memory that somebody else owns and nobody writes, aligned to 64. */
struct kv_foreign {
    const void *memory;
    uint64_t bytes;
    void (*release)(void *user); /* once, when the last page of it went, without the pool's lock, from any thread */
    void *user;
    /* Before pages are used (see kv_pages_ready). Each may be NULL, and is called by any thread, also by several at once. */
    infer_status (*check)(void *user, infer_error *err);              /* is the memory still there? Each time */
    infer_status (*verify)(void *user, uint64_t i, infer_error *err); /* is page i undamaged? Until it succeeded once */
};
/* n >= 1 read-only pages in it, one reference each, at these offsets (multiples of 64, the caller checked that they lie inside). On failure
 * release is not called. */
infer_status kv_pages_import(struct kv_pool *pool, const struct kv_foreign *foreign, uint64_t page_bytes, const uint64_t *offsets,
                             uint64_t n, struct kv_page **out, infer_error *err);

/* One reference more, or less, on each of n pages, under one lock; entries may be NULL. */
void kv_pages_ref(struct kv_pool *pool, struct kv_page *const *pages, uint64_t n);
void kv_pages_unref(struct kv_pool *pool, struct kv_page *const *pages, uint64_t n);
void kv_page_ref(struct kv_pool *pool, struct kv_page *page);
void kv_page_unref(struct kv_pool *pool, struct kv_page *page); /* may be NULL */
uint32_t kv_page_refs(struct kv_pool *pool, const struct kv_page *page);
/* Whether the prefix cache alone refers to any of them. */
bool kv_pages_any_idle(struct kv_pool *pool, struct kv_page *const *pages, uint64_t n);
/* Whether a write has to copy it first. */
bool kv_page_shared(struct kv_pool *pool, const struct kv_page *page);

/* Whoever reads the data of pages that may be foreign calls this first; entries may be NULL, as cancel may. Errors: of check and verify, and CANCELLED
 * where a page has yet to be verified. */
infer_status kv_pages_ready(struct kv_page *const *pages, uint64_t n, const infer_cancel *cancel, infer_error *err);
bool kv_page_foreign(const struct kv_page *page);
/* The user of the foreign memory that was imported with this release function, and which of its pages this is; NULL: it is no such page. */
void *kv_page_origin(const struct kv_page *page, void (*release)(void *user), uint64_t *i);

struct kv_counts {
    uint64_t pages;   /* entries that are not NULL */
    uint64_t shared;  /* of these, with other references than the caller's one */
    uint64_t foreign; /* of these, in foreign memory */
};
/* Bytes of the pages in all lists that `next` gives, one after the other until it says false; a page that is in several is counted once, one in
 * foreign memory not at all. next is called under the pool's lock. */
typedef bool (*kv_next_pages_fn)(void *user, struct kv_page *const **pages, uint64_t *n);
uint64_t kv_pages_count_once(struct kv_pool *pool, kv_next_pages_fn next, void *user);
struct kv_counts kv_pages_count(struct kv_pool *pool, struct kv_page *const *pages, uint64_t n);

#endif
