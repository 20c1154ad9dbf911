/* Counts what an allocator has given out, and refuses what would go beyond a limit. One atomic addition an allocation; any threads. */
#ifndef BASE_BUDGET_H
#define BASE_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/alloc.h"
#include "base/err.h"

struct budget {
    struct alloc from; /* where the memory comes from */
    uint64_t limit;    /* bytes; 0: none */
    atomic_uint_fast64_t used, peak;
    /* Of the last refusal, for messages alone; wanted 0: it was not the limit that memory ran out at. */
    atomic_uint_fast64_t wanted, left;
};

void budget_init(struct budget *b, const struct alloc *from, uint64_t limit);
/* An allocator that takes from `from` and counts in b, which has to stay where it is; b may lie in memory that came from it. */
struct alloc budget_alloc(struct budget *b);

/* Counts bytes as given out, or back, that come from elsewhere or are only planned. False: beyond the limit; nothing has changed. */
bool budget_take(struct budget *b, uint64_t bytes);
void budget_give(struct budget *b, uint64_t bytes);

uint64_t budget_used(struct budget *b);
uint64_t budget_peak(struct budget *b); /* the most that was ever used at once */

/* Whether what was refused last would be refused again. */
bool budget_short(struct budget *b);

/* Where err says that an allocation failed, and that was the limit, it comes to name it, with what was wanted and what was left. b and err may be NULL. */
void budget_explain(struct budget *b, infer_error *err);

#endif
