#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#include <malloc.h>
#endif

/* Lies directly before the pointer that the caller holds. */
struct header {
    size_t size;  /* bytes that the caller asked for */
    size_t shift; /* from the start of the block to the caller's pointer; also the block's alignment */
};

static void *default_get(void *user, size_t size, size_t align)
{
    (void)user;
#ifdef _WIN32 /* what free can release is aligned to 16 at most */
    return _aligned_malloc(size, align);
#else
    if (align <= _Alignof(max_align_t))
        return malloc(size);
    if (size > SIZE_MAX - align)
        return NULL;
    return aligned_alloc(align, (size + align - 1) & ~(align - 1));
#endif
}

static void default_put(void *user, void *block, size_t size, size_t align)
{
    (void)user;
    (void)size;
    (void)align;
#ifdef _WIN32
    _aligned_free(block);
#else
    free(block);
#endif
}

const struct alloc alloc_default = {NULL, default_get, default_put};

static struct header *header_of(const void *p)
{
    return (struct header *)((uintptr_t)p - sizeof(struct header));
}

void *mem_alloc_aligned(const struct alloc *a, size_t size, size_t align)
{
    if (align < 16)
        align = 16;
    if (!size) /* not a pointer behind the block: leak checkers would not know whose it is */
        size = 1;
    if (size > SIZE_MAX - align)
        return NULL;
    char *block = a->get(a->user, size + align, align);
    if (!block)
        return NULL;
    struct header *h = header_of(block + align);
    h->size = size;
    h->shift = align;
    return block + align;
}

void *mem_alloc(const struct alloc *a, size_t size)
{
    return mem_alloc_aligned(a, size, 16);
}

void *mem_zalloc(const struct alloc *a, size_t size)
{
    void *p = mem_alloc(a, size);
    if (p)
        memset(p, 0, size);
    return p;
}

void *mem_array(const struct alloc *a, size_t count, size_t size)
{
    if (size && count > SIZE_MAX / size)
        return NULL;
    return mem_alloc(a, count * size);
}

void *mem_zarray(const struct alloc *a, size_t count, size_t size)
{
    if (size && count > SIZE_MAX / size)
        return NULL;
    return mem_zalloc(a, count * size);
}

void *mem_grow(const struct alloc *a, void *old, size_t size)
{
    void *p = mem_alloc(a, size);
    if (p && old) {
        size_t had = mem_size(old);
        memcpy(p, old, had < size ? had : size);
        mem_free(a, old);
    }
    return p;
}

char *mem_strdup(const struct alloc *a, const char *s, size_t len)
{
    char *p = len == SIZE_MAX ? NULL : mem_alloc(a, len + 1);
    if (p) {
        if (len)
            memcpy(p, s, len);
        p[len] = 0;
    }
    return p;
}

size_t mem_size(const void *p)
{
    return header_of(p)->size;
}

void mem_free(const struct alloc *a, void *p)
{
    if (!p)
        return;
    struct header h = *header_of(p);
    a->put(a->user, (char *)p - h.shift, h.size + h.shift, h.shift);
}
