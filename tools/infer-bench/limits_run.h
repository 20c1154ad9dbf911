/* Measuring a limit in this process. */
#ifndef BENCH_LIMITS_RUN_H
#define BENCH_LIMITS_RUN_H

#include <stddef.h>

#include "limits.h"

struct limits_runner {
    uint32_t usable; /* bit i: variant i runs here */
    uint8_t *bytes;
    size_t n, at; /* of the buffer; where the next read begins */
};

void limits_runner_init(struct limits_runner *r);
/* The best rate of all loops. False: no memory. */
bool limits_run(struct limits_runner *r, enum limit what, uint32_t threads, uint64_t read_bytes, struct limit_result *out);

#endif
