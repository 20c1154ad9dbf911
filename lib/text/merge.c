#include "text/merge.h"

void merge_init(struct merger *m, const struct alloc *alloc)
{
    *m = (struct merger){.alloc = alloc};
}

void merge_free(struct merger *m)
{
    mem_free(m->alloc, m->symbols);
    mem_free(m->alloc, m->heap);
    *m = (struct merger){.alloc = m->alloc};
}

bool merge_reserve(struct merger *m, size_t n)
{
    m->n = 0;
    if (n <= m->cap)
        return true;
    if (n >= MERGE_NONE)
        return false;
    size_t cap = n < 128 ? 128 : n;
    mem_free(m->alloc, m->symbols);
    m->cap = 0;
    m->symbols = mem_array(m->alloc, cap, sizeof *m->symbols);
    if (!m->symbols)
        return false;
    m->cap = cap;
    return true;
}

#define ARITY 4 /* children of a node of the heap: half the levels of a binary one, and they share cache lines */

static bool heap_put(struct merger *m, struct merge_candidate c)
{
    if (m->heap_n == m->heap_cap) {
        size_t cap = m->heap_cap ? m->heap_cap * 2 : 256;
        struct merge_candidate *heap =
            cap > SIZE_MAX / sizeof *heap ? NULL : mem_grow(m->alloc, m->heap, cap * sizeof *heap);
        if (!heap)
            return false;
        m->heap = heap;
        m->heap_cap = cap;
    }
    size_t i = m->heap_n++;
    while (i && m->heap[(i - 1) / ARITY].order > c.order) {
        m->heap[i] = m->heap[(i - 1) / ARITY];
        i = (i - 1) / ARITY;
    }
    m->heap[i] = c;
    return true;
}

static struct merge_candidate heap_take(struct merger *m)
{
    struct merge_candidate best = m->heap[0], last = m->heap[--m->heap_n];
    size_t i = 0, n = m->heap_n;
    for (size_t first = 1; first < n; first = ARITY * i + 1) {
        size_t end = first + ARITY < n ? first + ARITY : n, least = first;
        for (size_t k = first + 1; k < end; k++)
            if (m->heap[k].order < m->heap[least].order)
                least = k;
        if (m->heap[least].order >= last.order)
            break;
        m->heap[i] = m->heap[least];
        i = least;
    }
    m->heap[i] = last;
    return best;
}

static bool try_pair(struct merger *m, const char *word, merge_find find, const void *user, uint32_t left)
{
    uint32_t rank, id;
    if (left == MERGE_NONE)
        return true;
    const struct merge_symbol *l = &m->symbols[left];
    if (l->next == MERGE_NONE)
        return true;
    const struct merge_symbol *r = &m->symbols[l->next];
    m->steps++;
    if (!find(user, word, l, r, &rank, &id))
        return true;
    return heap_put(m, (struct merge_candidate){(uint64_t)rank << 32 | left, l->len + r->len, id});
}

bool merge_run(struct merger *m, const char *word, merge_find find, const void *user)
{
    m->heap_n = 0;
    for (size_t i = 0; i + 1 < m->n; i++)
        if (!try_pair(m, word, find, user, (uint32_t)i))
            return false;
    while (m->heap_n) {
        struct merge_candidate c = heap_take(m);
        uint32_t at = (uint32_t)c.order;
        struct merge_symbol *l = &m->symbols[at];
        if (!l->len || l->next == MERGE_NONE)
            continue;
        struct merge_symbol *r = &m->symbols[l->next];
        if (l->len + r->len != c.len)
            continue;
        l->len = c.len;
        l->id = c.id;
        l->next = r->next;
        r->len = 0;
        if (l->next != MERGE_NONE)
            m->symbols[l->next].prev = at;
        if (!try_pair(m, word, find, user, l->prev) || !try_pair(m, word, find, user, at))
            return false;
    }
    return true;
}
