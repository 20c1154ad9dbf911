/* Advice on memory that this process already has. */
#ifndef BASE_OS_MEMORY_H
#define BASE_OS_MEMORY_H

#include <stddef.h>

/* Asks for huge pages where whole ones fit in: long reads through small pages spend much of their time on address translation (attention at
 * depth 8,192: half). Does nothing where the system cannot. */
void os_advise_huge(void *p, size_t n);

#endif
