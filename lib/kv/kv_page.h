/* Pages of computed state. A page holds the keys and values of 64 consecutive elements for all layers of one group; its bytes lie on
 * the device, its header (reference count) in host memory apart from them, so that looking at counts touches no data.
 *
 * Pages come from slabs, one device buffer each, under the byte budget of the pool. A page with one reference may be written by its
 * owner; a shared one is copied first. Thread-safe. */
#ifndef KV_KV_PAGE_H
#define KV_KV_PAGE_H

#include "base/env.h"
#include "kernels/device.h"

struct kv_pool;

struct kv_page {
    struct dev_ref data;
    /* private to kv_page.c */
    struct kv_slab *slab;
    struct kv_page *next_free;
    uint32_t refs; /* under the pool's lock */
};

/* budget: bytes of slabs; 0: no limit. The device outlives the pool. */
infer_status kv_pool_create(const struct env *env, struct device *dev, uint64_t budget, struct kv_pool **out,
                            infer_error *err);
void kv_pool_destroy(struct kv_pool *pool); /* all pages must be back; may be NULL */
uint64_t kv_pool_bytes(struct kv_pool *pool);

/* A page of this many bytes with one reference, contents undefined. LIMIT: the budget is used up. */
infer_status kv_page_new(struct kv_pool *pool, uint64_t bytes, struct kv_page **out, infer_error *err);
void kv_page_ref(struct kv_pool *pool, struct kv_page *page);
void kv_page_unref(struct kv_pool *pool, struct kv_page *page); /* may be NULL */
int kv_page_shared(struct kv_pool *pool, const struct kv_page *page);

#endif
