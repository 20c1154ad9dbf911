/* Joins neighbouring symbols of a word, best pair first, until none can be joined: the heart of both kinds of BPE. A heap of
 * candidates over a linked list of symbols: O(n log n) for n symbols, whatever the word. */
#ifndef TEXT_MERGE_H
#define TEXT_MERGE_H

#include <stdbool.h>

#include "base/alloc.h"

#define MERGE_NONE UINT32_MAX

struct merge_symbol {
    uint32_t start, len; /* bytes in the word; len 0: joined to one before it */
    uint32_t prev, next; /* MERGE_NONE at the ends */
    uint32_t id;         /* MERGE_NONE: not a token */
};

struct merge_candidate {
    uint64_t order; /* rank and position: least first */
    uint32_t len;   /* of both symbols; when theirs differs the candidate is out of date */
    uint32_t id;    /* of the result */
};

/* Whether left and right can be joined: their rank (least is best) and result. */
typedef bool (*merge_find)(const void *user, const char *word, const struct merge_symbol *left,
                           const struct merge_symbol *right, uint32_t *rank, uint32_t *id);

struct merger {
    const struct alloc *alloc;
    struct merge_symbol *symbols; /* [n] */
    size_t n, cap;
    struct merge_candidate *heap;
    size_t heap_n, heap_cap;
    uint64_t steps; /* pairs looked up since merge_init: tests check that it grows linearly */
};

void merge_init(struct merger *m, const struct alloc *alloc);
void merge_free(struct merger *m);
/* Room for a word of n symbols; m->n becomes 0. False: no memory. */
bool merge_reserve(struct merger *m, size_t n);
/* Adds a symbol to the word. Room was reserved. */
static inline void merge_add(struct merger *m, uint32_t start, uint32_t len, uint32_t id)
{
    uint32_t i = (uint32_t)m->n++;
    m->symbols[i] = (struct merge_symbol){start, len, i ? i - 1 : MERGE_NONE, MERGE_NONE, id};
    if (i)
        m->symbols[i - 1].next = i;
}
/* Joins until nothing is left to join. The result is the symbols from 0 on along next. False: no memory. */
bool merge_run(struct merger *m, const char *word, merge_find find, const void *user);

#endif
