/* Reference counts of handles. */
#ifndef BASE_REF_H
#define BASE_REF_H

#include <stdatomic.h>
#include <stdbool.h>

struct ref {
    atomic_uint count;
};

static inline void ref_init(struct ref *r)
{
    atomic_init(&r->count, 1);
}

static inline void ref_get(struct ref *r)
{
    atomic_fetch_add_explicit(&r->count, 1, memory_order_relaxed);
}

/* A reference on what may be about to go; false: too late. */
static inline bool ref_try(struct ref *r)
{
    unsigned n = atomic_load_explicit(&r->count, memory_order_relaxed);
    while (n && !atomic_compare_exchange_weak_explicit(&r->count, &n, n + 1, memory_order_relaxed, memory_order_relaxed))
        continue;
    return n != 0;
}

/* True when this was the last reference. */
static inline bool ref_put(struct ref *r)
{
    return atomic_fetch_sub_explicit(&r->count, 1, memory_order_acq_rel) == 1;
}

#endif
