#if defined(__linux__) && !defined(_DEFAULT_SOURCE)
#define _DEFAULT_SOURCE /* madvise */
#endif
#include "base/os_memory.h"

#include <stdint.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#define HUGE_PAGE ((uintptr_t)1 << 21)

void os_advise_huge(void *p, size_t n)
{
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    uintptr_t first = ((uintptr_t)p + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1), end = ((uintptr_t)p + n) & ~(HUGE_PAGE - 1);
    if (first < end)
        (void)madvise((char *)p + (first - (uintptr_t)p), end - first, MADV_HUGEPAGE);
#else
    (void)p;
    (void)n;
#endif
}
