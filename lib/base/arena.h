/* An arena: many small allocations with one lifetime. Nothing is freed alone; arena_free drops all. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/alloc.h"

struct arena_block;

struct arena {
    const struct alloc *alloc;
    struct arena_block *blocks;
    size_t used;  /* bytes handed out in total */
    size_t limit; /* arena_alloc fails beyond this; 0: none */
};

void arena_init(struct arena *ar, const struct alloc *alloc, size_t limit);
void *arena_alloc(struct arena *ar, size_t size);  /* aligned to 16, not zeroed; NULL: no memory or limit */
void *arena_zalloc(struct arena *ar, size_t size); /* zeroed */
void *arena_zarray(struct arena *ar, size_t count, size_t size);
char *arena_strdup(struct arena *ar, const char *s, size_t len); /* adds a terminating zero */
/* Moves everything in src, of the same allocator, to ar. src is empty afterwards. */
void arena_join(struct arena *ar, struct arena *src);
void arena_free(struct arena *ar);                              /* usable again afterwards */

#endif
