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

/* True when this was the last reference. */
static inline bool ref_put(struct ref *r)
{
    return atomic_fetch_sub_explicit(&r->count, 1, memory_order_acq_rel) == 1;
}

#endif
