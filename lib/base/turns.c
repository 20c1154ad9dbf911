#include "base/turns.h"

/* One who waits; on its stack. */
struct turn {
    const infer_cancel *cancel;
    struct turn *next;           /* of the queue */
    struct turn *before, *after; /* of those with a flag */
    bool mine;                   /* its turn has come */
    bool woken;                  /* for its flag: once is enough */
};

bool turns_hall_init(struct turns_hall *h)
{
    *h = (struct turns_hall){.flagged = NULL};
    if (!os_mutex_init(&h->lock))
        return false;
    if (os_cond_init(&h->moved))
        return true;
    os_mutex_destroy(&h->lock);
    return false;
}

void turns_hall_destroy(struct turns_hall *h)
{
    os_cond_destroy(&h->moved);
    os_mutex_destroy(&h->lock);
}

static void come(struct turns *t, struct turn *me)
{
    struct turns_hall *h = t->hall;
    if (t->last)
        t->last->next = me;
    else
        t->first = me;
    t->last = me;
    if (!me->cancel)
        return;
    me->after = h->flagged;
    if (h->flagged)
        h->flagged->before = me;
    h->flagged = me;
    atomic_fetch_add_explicit(&h->n_flagged, 1, memory_order_relaxed);
}

static void leave_queue(struct turns *t, const struct turn *me)
{
    struct turn *before = NULL;
    for (struct turn *i = t->first; i != me; i = i->next)
        before = i;
    if (before)
        before->next = me->next;
    else
        t->first = me->next;
    if (t->last == me)
        t->last = before;
}

static void leave_flagged(struct turns_hall *h, const struct turn *me)
{
    if (!me->cancel)
        return;
    if (me->before)
        me->before->after = me->after;
    else
        h->flagged = me->after;
    if (me->after)
        me->after->before = me->before;
    atomic_fetch_sub_explicit(&h->n_flagged, 1, memory_order_relaxed);
}

bool turns_take(struct turns *t, const infer_cancel *cancel)
{
    struct turns_hall *h = t->hall;
    struct turn me = {.cancel = cancel};
    if (cancel_is_set(cancel))
        return false;
    os_mutex_lock(&h->lock);
    if (!t->taken) {
        t->taken = me.mine = true;
        t->cancel = cancel;
    } else {
        come(t, &me);
        while (!me.mine && !cancel_is_set(cancel)) {
            me.woken = false;
            os_cond_wait(&h->moved, &h->lock);
        }
        leave_flagged(h, &me);
        if (!me.mine)
            leave_queue(t, &me);
    }
    os_mutex_unlock(&h->lock);
    return me.mine;
}

void turns_give(struct turns *t)
{
    struct turns_hall *h = t->hall;
    os_mutex_lock(&h->lock);
    struct turn *next = t->first;
    t->taken = next != NULL;
    t->cancel = next ? next->cancel : NULL;
    if (next) {
        t->first = next->next;
        if (!t->first)
            t->last = NULL;
        next->mine = true;
        os_cond_broadcast(&h->moved);
    }
    os_mutex_unlock(&h->lock);
}

bool turns_wanted(struct turns *t)
{
    os_mutex_lock(&t->hall->lock);
    bool wanted = t->first != NULL;
    os_mutex_unlock(&t->hall->lock);
    return wanted;
}

void turns_wake_flagged(struct turns_hall *h)
{
    bool any = false;
    os_mutex_lock(&h->lock);
    for (struct turn *i = h->flagged; i; i = i->after) {
        bool now = cancel_is_set(i->cancel) && !i->woken;
        i->woken = i->woken || now;
        any = any || now;
    }
    if (any)
        os_cond_broadcast(&h->moved);
    os_mutex_unlock(&h->lock);
}
