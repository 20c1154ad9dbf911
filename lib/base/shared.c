#include "base/shared.h"

#include <stdatomic.h>
#include <string.h>

#include "base/ref.h"

/* Stands before the items. */
struct head {
    _Alignas(16) struct ref ref;
    uint64_t cap;       /* items; as many bytes fit into a size_t */
    atomic_size_t used; /* items that some owner has written, or may be writing */
};

static struct head *head_of(void *data)
{
    return (struct head *)data - 1;
}

static bool only_owner(struct head *h)
{
    return atomic_load_explicit(&h->ref.count, memory_order_acquire) == 1; /* nobody else can add a reference then */
}

static bool block_bytes(size_t item, uint64_t cap, size_t *out)
{
    if (cap > (SIZE_MAX - sizeof(struct head)) / item)
        return false;
    *out = sizeof(struct head) + (size_t)cap * item;
    return true;
}

/* A block of cap items for one owner that begins with length items of data. */
static void *copy_block(const struct alloc *a, const void *data, size_t item, uint64_t length, uint64_t cap)
{
    size_t bytes;
    struct head *h = block_bytes(item, cap, &bytes) ? mem_alloc(a, bytes) : NULL;
    if (!h)
        return NULL;
    ref_init(&h->ref);
    h->cap = cap;
    if (length)
        memcpy(h + 1, data, (size_t)length * item);
    return h + 1;
}

static void *grow_block(const struct alloc *a, struct head *h, size_t item, uint64_t cap)
{
    size_t bytes;
    h = block_bytes(item, cap, &bytes) ? mem_grow(a, h, bytes) : NULL;
    if (!h)
        return NULL;
    h->cap = cap;
    return h + 1;
}

void *shared_reserve(const struct alloc *a, void *data, size_t item, uint64_t length, uint64_t more, uint64_t want)
{
    uint64_t end = length + more;
    size_t expected = (size_t)length;
    struct head *h = data ? head_of(data) : NULL;
    void *result = data;
    bool alone = h && only_owner(h);
    if (h && !alone && end <= h->cap && atomic_compare_exchange_strong(&h->used, &expected, (size_t)end))
        return data;
    want = h && !alone ? end + end / 8 : want > end ? want : end; /* many forks copy: little room for each */
    if (!alone)
        result = copy_block(a, data, item, length, want);
    else if (end > h->cap)
        result = length ? grow_block(a, h, item, want) : copy_block(a, NULL, item, 0, want);
    if (!result)
        return NULL;
    atomic_store(&head_of(result)->used, (size_t)end);
    if (data && result != data && (!alone || !length))
        shared_unref(a, data);
    return result;
}

void *shared_own(const struct alloc *a, void *data, size_t item, uint64_t length)
{
    if (only_owner(head_of(data)))
        return data;
    void *copy = copy_block(a, data, item, length, length);
    if (copy) {
        atomic_store(&head_of(copy)->used, (size_t)length);
        shared_unref(a, data);
    }
    return copy;
}

void *shared_ref(void *data)
{
    if (data)
        ref_get(&head_of(data)->ref);
    return data;
}

void shared_unref(const struct alloc *a, void *data)
{
    if (data && ref_put(&head_of(data)->ref))
        mem_free(a, head_of(data));
}
