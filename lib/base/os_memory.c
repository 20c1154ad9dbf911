#define _DEFAULT_SOURCE
#include "base/os_memory.h"

#include <stdint.h>
#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
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

void os_memory_will_need(const void *p, size_t n)
{
#if defined(__linux__) && defined(MADV_WILLNEED)
    uintptr_t from = (uintptr_t)p & ~(PAGE - 1), to = ((uintptr_t)p + n + PAGE - 1) & ~(PAGE - 1);
    (void)madvise((void *)from, to - from, MADV_WILLNEED); /* fails where pages are larger than 4 KiB and the range is askew */
#else
    (void)p;
    (void)n;
#endif
}

uint64_t os_memory_physical(void)
{
#if defined(__linux__) && defined(_SC_PHYS_PAGES)
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
#else
    return 0;
#endif
}
