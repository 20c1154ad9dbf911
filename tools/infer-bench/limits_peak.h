/* The arithmetic loops. A variant defines LIMITS_REGISTER, how inline assembly calls its vector registers, before it includes this. */
#ifndef BENCH_LIMITS_PEAK_H
#define BENCH_LIMITS_PEAK_H

#include "limits_impl.h"

/* Makes the compiler believe that two vectors changed, so that no product is taken out of a loop. */
#define HIDE(x, y) __asm__ __volatile__("" : "+" LIMITS_REGISTER(x), "+" LIMITS_REGISTER(y))

/* Defines a limit_peak_fn. It keeps n sums (at most 14) of type `vector`; sum k begins as START(k), lest equal sums become one; each repeat is a STEP(sum, x, y)
 * of each, which does `macs` multiply-adds. */
#define PEAK_LOOP(name, n, vector, START, x0, y0, STEP, macs)                                                          \
    static double name(uint64_t repeats)                                                                               \
    {                                                                                                                  \
        vector sum[n];                                                                                                 \
        __typeof__(x0) x = x0, y = y0;                                                                                 \
        for (int k = 0; k < (n); k++)                                                                                  \
            sum[k] = START(k);                                                                                         \
        for (uint64_t r = 0; r < repeats; r++) {                                                                       \
            _Pragma("GCC unroll 14") for (int k = 0; k < (n); k++) STEP(sum[k], x, y);                                 \
            HIDE(x, y);                                                                                                \
        }                                                                                                              \
        for (int k = 0; k < (n); k++)                                                                                  \
            __asm__ __volatile__("" : : LIMITS_REGISTER(sum[k]));                                                      \
        return (double)repeats * (n) * (macs);                                                                         \
    }

#endif
