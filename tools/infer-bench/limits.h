/* What the machine can do at most: read bandwidth, 8-bit and f32 multiply-adds. Measured by a second process, so that the buffer it
 * reads does not count as this one's memory, a moment before each thing that is compared with them, with as many threads as the engine. */
#ifndef BENCH_LIMITS_H
#define BENCH_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

enum limit { LIMIT_READ, LIMIT_INT8, LIMIT_F32, N_LIMITS };

/* One measurement. */
struct limit_result {
    double rate;  /* bytes a second, or multiply-adds a second */
    char how[32]; /* the loop that was the fastest */
};

struct limits; /* the process */

/* Starts the process: before this one has threads. read_bytes 0: as large as limits_measure is told. NULL: it could not be started. */
struct limits *limits_start(void);
/* What: a limit; the best of its loops. read_bytes: of the buffer, made at the first LIMIT_READ. False: the process is gone. */
bool limits_measure(struct limits *l, enum limit what, uint32_t threads, uint64_t read_bytes, struct limit_result *out);
void limits_stop(struct limits *l); /* l may be NULL */

#endif
