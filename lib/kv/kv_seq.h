/* The page table of one sequence for one layer group.
 *
 * Recovery. A full group keeps every element. A windowed group (window W) keeps the pages of the last W + 64 elements, and, so that
 * it can go back further without starting over, those of the W elements before each resume point: every multiple of
 * kv_resume_interval(W). kv_seq_resume tells the deepest element at or before p from which computing can go on. */
#ifndef KV_KV_SEQ_H
#define KV_KV_SEQ_H

#include "kv/kv_page.h"

struct kv_seq {
    struct kv_page **pages;  /* [cap]; page i holds elements [64 i, 64 i + 64); NULL: none */
    struct dev_ref *refs;    /* [cap]; the same as the device wants them; buf NULL: none */
    uint64_t n, cap;         /* pages in use lie below n */
    uint64_t dropped;        /* pages below this were looked at by kv_seq_drop */
    uint64_t page_bytes;     /* 0: the group has no layers, and nothing is stored */
    uint64_t window;         /* 0: full */
    bool foreign;            /* some page may be of foreign memory */
};

void kv_seq_init(struct kv_seq *s, uint64_t page_bytes, uint64_t window);
/* Makes elements [from, to) writable: adds pages, and copies those that others share. On failure some of it may be done, which
 * changes nothing that can be seen. The pool's device must not be in use by another thread. */
infer_status kv_seq_reserve(struct kv_seq *s, struct kv_pool *pool, const struct env *env, struct device *dev, uint64_t from,
                            uint64_t to, infer_error *err);
/* Bytes of the pages that it would have to make for that; without the copies of shared ones, when copies is false. */
uint64_t kv_seq_wanted(const struct kv_seq *s, struct kv_pool *pool, uint64_t from, uint64_t to, bool copies);
/* Frees the pages of a windowed group that are no longer seen once `length` elements are computed. */
void kv_seq_drop(struct kv_seq *s, struct kv_pool *pool, uint64_t length);
/* The deepest r <= p such that elements from r on can be computed from what is stored; p <= the computed length. */
uint64_t kv_seq_resume(const struct kv_seq *s, uint64_t p);
/* Frees the pages that hold no element below length. */
void kv_seq_truncate(struct kv_seq *s, struct kv_pool *pool, uint64_t length);
/* dst, freshly initialised, shares all pages of src. */
infer_status kv_seq_share(struct kv_seq *dst, const struct kv_seq *src, struct kv_pool *pool, const struct env *env,
                          infer_error *err);
/* s, freshly initialised, takes over the references on pages [n]; entries may be NULL. On failure they stay the caller's. */
infer_status kv_seq_adopt(struct kv_seq *s, const struct env *env, struct kv_page *const *pages, uint64_t n, infer_error *err);
/* kv_pages_ready of all pages: before a step, or anything else that reads them. */
infer_status kv_seq_ready(const struct kv_seq *s, const infer_cancel *cancel, infer_error *err);
uint64_t kv_seq_bytes(const struct kv_seq *s);
struct kv_counts kv_seq_count(const struct kv_seq *s, struct kv_pool *pool);
void kv_seq_free(struct kv_seq *s, struct kv_pool *pool, const struct env *env);

/* The most pages that a sequence of a group with this window (0: none) holds at once until it has so many elements, computed in batches of at most
 * `batch`. */
uint64_t kv_seq_most_pages(uint64_t window, uint64_t length, uint64_t batch);
uint64_t kv_resume_interval(uint64_t window);

#endif
