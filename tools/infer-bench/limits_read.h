/* The read loops for vectors of LIMITS_VECTOR bytes; included once by a variant that has its own. */
#ifndef BENCH_LIMITS_READ_H
#define BENCH_LIMITS_READ_H

#include <string.h>

#include "limits_impl.h"

#define READ_STEP 256u /* bytes of a stream at a time: four lines */

typedef uint64_t read_vector __attribute__((vector_size(LIMITS_VECTOR)));

#define READ_AHEAD(q, ahead, locality)                                                                                 \
    do {                                                                                                               \
        __builtin_prefetch((q) + (ahead), 0, locality);                                                                \
        __builtin_prefetch((q) + (ahead) + 64, 0, locality);                                                           \
        __builtin_prefetch((q) + (ahead) + 128, 0, locality);                                                          \
        __builtin_prefetch((q) + (ahead) + 192, 0, locality);                                                          \
    } while (0)

static uint64_t read_total(const read_vector *sums)
{
    read_vector all = sums[0] + sums[1] + sums[2] + sums[3];
    uint64_t lanes[LIMITS_VECTOR / 8], total = 0;
    memcpy(lanes, &all, sizeof lanes);
    for (size_t i = 0; i < sizeof lanes / sizeof *lanes; i++)
        total += lanes[i];
    return total;
}

#define READ_LOOP(name, streams, ahead, locality)                                                                      \
    static uint64_t read_##name(const uint8_t *p, size_t n)                                                            \
    {                                                                                                                  \
        const size_t part = n / (streams);                                                                             \
        read_vector sums[4] = {{0}, {0}, {0}, {0}};                                                                    \
        for (size_t i = 0; i < part; i += READ_STEP)                                                                   \
            for (size_t s = 0; s < (streams); s++) {                                                                   \
                const uint8_t *q = p + s * part + i;                                                                   \
                if ((ahead) > 0)                                                                                       \
                    READ_AHEAD(q, ahead, locality);                                                                    \
                for (size_t k = 0; k < READ_STEP / LIMITS_VECTOR; k++)                                                 \
                    sums[k % 4] += *(const read_vector *)(const void *)(q + k * LIMITS_VECTOR);                        \
            }                                                                                                          \
        return read_total(sums);                                                                                       \
    }
LIMIT_READS(READ_LOOP)

#define READ_ENTRY(name, streams, ahead, locality) [READ_##name] = read_##name,
#define READ_ENTRIES {LIMIT_READS(READ_ENTRY)}

#endif
