/* Clock and memory of this process. */
#ifndef BENCH_HOST_H
#define BENCH_HOST_H

#include <stdbool.h>
#include <stdint.h>

double bench_seconds(void);     /* monotonic */
double bench_cpu_seconds(void); /* processor time of this process so far */

/* Bytes. What the system does not tell is 0. */
struct memory_use {
    uint64_t peak;       /* most resident so far, or since memory_reset_peak */
    uint64_t anon, file; /* resident now: own pages, and pages of mapped files */
};
struct memory_use memory_now(void);
void memory_reset_peak(void); /* where the system allows it */
uint64_t memory_available(void);
/* How many bytes to read for the read limit: mib if given, else `want`, within 1 to 4 GiB and half of what is available. */
uint64_t memory_to_read(uint32_t mib, uint64_t want);

#endif
