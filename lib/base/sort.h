/* Sorting in place, without memory and in n log n steps whatever comes. Not stable. */
#ifndef BASE_SORT_H
#define BASE_SORT_H

#include <stdbool.h>
#include <stddef.h>

/* items [n]: pointers to what is sorted; after(a, b): whether a belongs behind b. */
void sort_pointers(const void **items, size_t n, bool (*after)(const void *a, const void *b));

#endif
