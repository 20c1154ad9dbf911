#include "base/sort.h"

/* items [n] is a heap with its last on top, but for item i. */
static void sift(const void **items, size_t i, size_t n, bool (*after)(const void *a, const void *b))
{
    for (;;) {
        size_t big = i;
        for (size_t k = 2 * i + 1; k <= 2 * i + 2 && k < n; k++)
            if (after(items[k], items[big]))
                big = k;
        if (big == i)
            return;
        const void *item = items[i];
        items[i] = items[big];
        items[big] = item;
        i = big;
    }
}

void sort_pointers(const void **items, size_t n, bool (*after)(const void *a, const void *b))
{
    for (size_t i = n / 2; i-- > 0;)
        sift(items, i, n, after);
    for (size_t end = n; end-- > 1;) {
        const void *last = items[0];
        items[0] = items[end];
        items[end] = last;
        sift(items, 0, end, after);
    }
}
