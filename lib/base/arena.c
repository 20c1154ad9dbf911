#include "base/arena.h"

#include <string.h>

#define BLOCK_SIZE ((size_t)16384)

struct arena_block {
    struct arena_block *next;
    size_t used, cap; /* of the bytes that follow */
    size_t pad;       /* keeps the data aligned to 16 */
};

void arena_init(struct arena *ar, const struct alloc *alloc, size_t limit)
{
    *ar = (struct arena){.alloc = alloc, .limit = limit};
}

static struct arena_block *add_block(struct arena *ar, size_t size)
{
    size_t cap = size > BLOCK_SIZE / 4 ? size : BLOCK_SIZE;
    if (cap > SIZE_MAX - sizeof(struct arena_block))
        return NULL;
    struct arena_block *b = mem_alloc(ar->alloc, sizeof *b + cap);
    if (!b)
        return NULL;
    b->used = 0;
    b->cap = cap;
    /* A block made for one large request goes behind the current one, which may have room left. */
    if (cap != BLOCK_SIZE && ar->blocks) {
        b->next = ar->blocks->next;
        ar->blocks->next = b;
    } else {
        b->next = ar->blocks;
        ar->blocks = b;
    }
    return b;
}

void *arena_alloc(struct arena *ar, size_t size)
{
    if (size > SIZE_MAX - 15)
        return NULL;
    size = (size + 15) & ~(size_t)15;
    if (ar->limit && (size > ar->limit || ar->used > ar->limit - size))
        return NULL;
    struct arena_block *b = ar->blocks;
    if (!b || b->cap - b->used < size)
        b = add_block(ar, size);
    if (!b)
        return NULL;
    void *p = (char *)(b + 1) + b->used;
    b->used += size;
    ar->used += size;
    return p;
}

void *arena_zalloc(struct arena *ar, size_t size)
{
    void *p = arena_alloc(ar, size);
    if (p)
        memset(p, 0, size);
    return p;
}

void *arena_zarray(struct arena *ar, size_t count, size_t size)
{
    if (size && count > SIZE_MAX / size)
        return NULL;
    return arena_zalloc(ar, count * size);
}

char *arena_strdup(struct arena *ar, const char *s, size_t len)
{
    char *p = len == SIZE_MAX ? NULL : arena_alloc(ar, len + 1);
    if (p) {
        if (len)
            memcpy(p, s, len);
        p[len] = 0;
    }
    return p;
}

void arena_join(struct arena *ar, struct arena *src)
{
    struct arena_block **last = &ar->blocks;
    while (*last)
        last = &(*last)->next;
    *last = src->blocks;
    ar->used += src->used;
    src->blocks = NULL;
    src->used = 0;
}

void arena_free(struct arena *ar)
{
    for (struct arena_block *b = ar->blocks; b;) {
        struct arena_block *next = b->next;
        mem_free(ar->alloc, b);
        b = next;
    }
    ar->blocks = NULL;
    ar->used = 0;
}
