/* What the machine can do at most: read bandwidth, 8-bit and f32 multiply-adds. Measured by a second process, so that the buffer it
 * reads does not count as this one's memory, a moment before each thing that is compared with them, with as many threads as the engine. */
#ifndef BENCH_LIMITS_H
#define BENCH_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

enum limit {
    LIMIT_READ,   /* bytes from memory: a buffer far larger than any cache */
    LIMIT_REREAD, /* the same few bytes over and over: caches may hold them */
    LIMIT_INT8,   /* multiply-adds on vector units; matrix units (AMX, SME) are not used here */
    LIMIT_F32,
    N_LIMITS
};

/* One measurement. */
struct limit_result {
    double rate;  /* bytes a second, or multiply-adds a second */
    char how[32]; /* the loop that was the fastest */
};

struct limits; /* the process */

/* Starts the process: before this one has threads. NULL: it could not be started. */
struct limits *limits_start(void);
/* The best of the loops for a limit. read_bytes: LIMIT_READ, of the buffer, which is made at its first use; LIMIT_REREAD, what is read
 * again, at most the buffer. False: the process is gone, or has no memory. */
bool limits_measure(struct limits *l, enum limit what, uint32_t threads, uint64_t read_bytes, struct limit_result *out);
void limits_stop(struct limits *l); /* l may be NULL */

#endif
