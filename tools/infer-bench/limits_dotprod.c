#include <arm_neon.h>
#include "limits_impl.h"

static double peak_int8(uint64_t repeats)
{
    int32x4_t sum[LIMIT_ACCUMULATORS];
    int8x16_t x = vdupq_n_s8(3), y = vdupq_n_s8(5);
    for (int k = 0; k < LIMIT_ACCUMULATORS; k++)
        sum[k] = vdupq_n_s32(k);
    for (uint64_t r = 0; r < repeats; r++) {
#pragma GCC unroll 14
        for (int k = 0; k < LIMIT_ACCUMULATORS; k++)
            sum[k] = vdotq_s32(sum[k], x, y);
        __asm__ __volatile__("" : "+w"(x), "+w"(y));
    }
    for (int k = 0; k < LIMIT_ACCUMULATORS; k++)
        __asm__ __volatile__("" : : "w"(sum[k]));
    return (double)repeats * LIMIT_ACCUMULATORS * 16;
}

const struct limit_variant limits_dotprod = {.name = "dotprod", .level = INFER_CPU_DOTPROD, .int8 = peak_int8};
