/* Advice to the system about memory. */
#ifndef BASE_OS_MEMORY_H
#define BASE_OS_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* The size of a huge page: blocks of at least this, aligned to it, gain from os_memory_huge. */
#define OS_HUGE_BYTES ((size_t)2 << 20)

/* Asks that [p, p + n) be backed by huge pages when it is first touched: fewer misses of the address cache when much memory is walked
 * through. Only advice: where the system has no such thing, or it is switched off, nothing happens. */
void os_memory_huge(void *p, size_t n);

/* [p, p + n) will be read soon: where it is mapped from a file, the system may begin to fetch it. Only advice. */
void os_memory_will_need(const void *p, size_t n);

/* The machine's memory in bytes; 0: not known. */
uint64_t os_memory_physical(void);

/* How many of the bytes [p, p + n) are in memory now; n where the system does not tell. */
uint64_t os_memory_resident(const void *p, uint64_t n);

#endif
