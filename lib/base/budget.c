#include "base/budget.h"

#include <string.h>

bool budget_take(struct budget *b, uint64_t bytes)
{
    uint_fast64_t used = atomic_load_explicit(&b->used, memory_order_relaxed), after;
    do { /* not an addition that is taken back: that would refuse others meanwhile what fits */
        uint64_t left = !b->limit ? UINT64_MAX - used : used < b->limit ? b->limit - used : 0;
        if (bytes > left) {
            atomic_store_explicit(&b->wanted, bytes, memory_order_relaxed);
            atomic_store_explicit(&b->left, left, memory_order_relaxed);
            return false;
        }
        after = used + bytes;
    } while (!atomic_compare_exchange_weak_explicit(&b->used, &used, after, memory_order_relaxed, memory_order_relaxed));
    uint_fast64_t peak = atomic_load_explicit(&b->peak, memory_order_relaxed);
    while (after > peak && !atomic_compare_exchange_weak_explicit(&b->peak, &peak, after, memory_order_relaxed, memory_order_relaxed))
        ;
    return true;
}

void budget_give(struct budget *b, uint64_t bytes)
{
    atomic_fetch_sub_explicit(&b->used, bytes, memory_order_relaxed);
}

static void *get(void *user, size_t size, size_t align)
{
    struct budget *b = user;
    if (!budget_take(b, size))
        return NULL;
    void *p = b->from.get(b->from.user, size, align);
    if (!p) {
        budget_give(b, size);
        atomic_store_explicit(&b->wanted, 0, memory_order_relaxed);
    }
    return p;
}

static void put(void *user, void *block, size_t size, size_t align)
{
    struct budget *b = user;
    struct alloc from = b->from;
    bool inside = (uintptr_t)b - (uintptr_t)block < size; /* b lies in the block, and goes with it */
    from.put(from.user, block, size, align);
    if (!inside) /* not before: others would take it while the allocator has not got it back */
        budget_give(b, size);
}

void budget_init(struct budget *b, const struct alloc *from, uint64_t limit)
{
    b->from = *from;
    b->limit = limit;
    atomic_init(&b->used, 0);
    atomic_init(&b->peak, 0);
    atomic_init(&b->wanted, 0);
    atomic_init(&b->left, 0);
}

struct alloc budget_alloc(struct budget *b)
{
    return (struct alloc){b, get, put};
}

uint64_t budget_used(struct budget *b)
{
    return atomic_load_explicit(&b->used, memory_order_relaxed);
}

uint64_t budget_peak(struct budget *b)
{
    return atomic_load_explicit(&b->peak, memory_order_relaxed);
}

bool budget_short(struct budget *b)
{
    uint64_t used = budget_used(b), left = used < b->limit ? b->limit - used : 0;
    return b->limit && atomic_load_explicit(&b->wanted, memory_order_relaxed) > left;
}

void budget_explain(struct budget *b, infer_error *err)
{
    uint64_t wanted = err && b && b->limit ? atomic_load_explicit(&b->wanted, memory_order_relaxed) : 0;
    if (!wanted || !err_is_no_memory(err))
        return;
    infer_error before = *err;
    (void)err_at(err, before.code, before.name[0] ? before.name : "memory_limit", before.name[0] ? strlen(before.name) : 12, before.offset,
                 "the memory_limit of %llu bytes is reached: %llu more were wanted, %llu are left", (unsigned long long)b->limit,
                 (unsigned long long)wanted, (unsigned long long)atomic_load_explicit(&b->left, memory_order_relaxed));
    err_file(err, before.file, strlen(before.file));
}
