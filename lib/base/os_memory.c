#define _DEFAULT_SOURCE
#include "base/os_memory.h"

#include <stdint.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#define PAGE ((uintptr_t)4096)

void os_memory_huge(void *p, size_t n)
{
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    uintptr_t from = ((uintptr_t)p + PAGE - 1) & ~(PAGE - 1), to = ((uintptr_t)p + n) & ~(PAGE - 1);
    if (to > from)
        (void)madvise((void *)from, to - from, MADV_HUGEPAGE); /* fails where pages are larger than 4 KiB and the range is askew */
#else
    (void)p;
    (void)n;
#endif
}
