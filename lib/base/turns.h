/* Locks that threads take in the order in which they came. One that gives a lock back and takes it again lets in whoever waits.
 *
 * A cancel flag ends the wait. It is set where nothing can be woken (in a signal handler), and nobody here looks at a clock: so whoever holds
 * a lock asks turns_stop between pieces of its work, for its own flag, and that wakes those whose flags are set meanwhile. */
#ifndef BASE_TURNS_H
#define BASE_TURNS_H

#include "base/cancel.h"
#include "base/os_thread.h"

struct turn;

/* What locks share of which one may be held while another is taken: whoever asks for one of them wakes those who wait for any. */
struct turns_hall {
    struct os_mutex lock; /* guards the following and the queues; held for moments */
    struct os_cond moved;
    struct turn *flagged; /* those who wait and have a flag */
    atomic_uint n_flagged;
};

struct turns {
    struct turns_hall *hall;
    bool taken;
    const infer_cancel *cancel; /* of the one who has it */
    struct turn *first, *last;  /* those who wait */
};

bool turns_hall_init(struct turns_hall *h); /* false: no memory */
void turns_hall_destroy(struct turns_hall *h);
static inline struct turns turns_in(struct turns_hall *h)
{
    return (struct turns){.hall = h};
}

/* False: the flag is set, and the lock is not taken. cancel may be NULL; else it must last until the lock is given back. */
bool turns_take(struct turns *t, const infer_cancel *cancel);
void turns_give(struct turns *t);
bool turns_wanted(struct turns *t); /* by the one whose turn it is: whether somebody waits */

void turns_wake_flagged(struct turns_hall *h);
/* By the one whose turn it is, or threads that work for it: whether its flag is set. */
static inline bool turns_stop(struct turns *t)
{
    if (atomic_load_explicit(&t->hall->n_flagged, memory_order_relaxed))
        turns_wake_flagged(t->hall);
    return cancel_is_set(t->cancel);
}

#endif
