/* The loops of one instruction set. Each limits_VARIANT.c is compiled with that set's flags and holds nothing else. */
#ifndef BENCH_LIMITS_IMPL_H
#define BENCH_LIMITS_IMPL_H

#include <stddef.h>
#include <stdint.h>

#include <infer/infer.h>

#include "limits.h"

/* How a piece of the buffer is walked: streams side by side, bytes of software prefetch ahead, into the first or second cache.
 * X(name, streams, ahead, locality as __builtin_prefetch has it). No loop is the best everywhere: on some machines the prefetchers of the
 * hardware do best alone, on others they want help: on a Xeon where the best of these read 33 GB/s, the plain loop read 21 to 28, prefetch 16 KiB ahead 28
 * and non-temporal prefetch 12 to 20. */
#define LIMIT_READS(X)                                                                                                 \
    X(s1, 1, 0, 0)                                                                                                     \
    X(s1_near, 1, 1024, 3)                                                                                             \
    X(s1_l2, 1, 1024, 2)                                                                                               \
    X(s1_l2_far, 1, 2048, 2)                                                                                           \
    X(s2_l2, 2, 1024, 2)                                                                                               \
    X(s4, 4, 0, 0)                                                                                                     \
    X(s4_near, 4, 1024, 3)                                                                                             \
    X(s4_l2, 4, 1024, 2)

enum {
#define LIMIT_READ_ID(name, streams, ahead, locality) READ_##name,
    LIMIT_READS(LIMIT_READ_ID)
#undef LIMIT_READ_ID
    N_LIMIT_READS
};

/* Sums n bytes (a multiple of 16 KiB) at p, aligned to 64. */
typedef uint64_t limit_read_fn(const uint8_t *p, size_t n);
/* Repeats the arithmetic, from registers, and returns the number of multiply-adds it did. */
typedef double limit_peak_fn(uint64_t repeats);

struct limit_variant {
    const char *name;
    int32_t level; /* the INFER_CPU_* that has these instructions */
    limit_read_fn *read[N_LIMIT_READS]; /* NULL: as the variant before it */
    limit_peak_fn *int8, *f32;          /* NULL: none */
};

extern const struct limit_variant limits_plain, limits_avx2, limits_avxvnni, limits_avx512, limits_avx512vnni, limits_neon,
    limits_dotprod, limits_i8mm;

#define LIMIT_ACCUMULATORS 14 /* more than latency times ports of any core, and they fit 16 registers beside the two factors */

#endif
