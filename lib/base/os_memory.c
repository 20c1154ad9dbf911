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

uint64_t os_memory_resident(const void *p, uint64_t n)
{
#if defined(__linux__)
    enum { AT_ONCE = 2048 };
    unsigned char in[AT_ONCE];
    long page = sysconf(_SC_PAGESIZE);
    uint64_t found = 0, begin = (uint64_t)(uintptr_t)p, end = begin + n;
    if (page <= 0)
        return n;
    for (uint64_t at = begin / (uint64_t)page * (uint64_t)page; at < end; at += AT_ONCE * (uint64_t)page) {
        uint64_t left = (end - at + (uint64_t)page - 1) / (uint64_t)page, pages = left < AT_ONCE ? left : AT_ONCE;
        if (mincore((void *)(uintptr_t)at, (size_t)(pages * (uint64_t)page), in))
            return n;
        for (uint64_t i = 0; i < pages; i++) {
            uint64_t from = at + i * (uint64_t)page, to = from + (uint64_t)page;
            from = from > begin ? from : begin;
            to = to < end ? to : end;
            found += in[i] & 1 ? to - from : 0;
        }
    }
    return found;
#else
    (void)p;
    return n;
#endif
}
