/* All memory of the library comes from a `struct alloc`: the host's allocator or the default one. Every allocation can
 * fail; callers turn NULL into INFER_ERROR_NO_MEMORY. Blocks carry a small header with their size, so free needs none. */
#ifndef BASE_ALLOC_H
#define BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

struct alloc {
    void *user;
    void *(*get)(void *user, size_t size, size_t align); /* NULL when out of memory; align is a power of two */
    void (*put)(void *user, void *block, size_t size, size_t align);
};

/* The default: the C library's allocator. */
extern const struct alloc alloc_default;

/* Aligned to 16. size 0 gives a distinct pointer. */
void *mem_alloc(const struct alloc *a, size_t size);
void *mem_zalloc(const struct alloc *a, size_t size);
/* count * size, checked for overflow; contents zeroed. */
void *mem_zarray(const struct alloc *a, size_t count, size_t size);
/* count * size, checked for overflow; contents undefined. */
void *mem_array(const struct alloc *a, size_t count, size_t size);
/* Aligned to `align` (a power of two, at most 4096). */
void *mem_alloc_aligned(const struct alloc *a, size_t size, size_t align);
/* A block of the new size with the old contents; the old block is freed on success and untouched on failure.
 * old may be NULL. The result is aligned to 16. */
void *mem_grow(const struct alloc *a, void *old, size_t size);
char *mem_strdup(const struct alloc *a, const char *s, size_t len); /* adds a terminating zero */
size_t mem_size(const void *p);
void mem_free(const struct alloc *a, void *p); /* p may be NULL */

#endif
