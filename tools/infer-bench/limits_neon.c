#include <arm_neon.h>
#include "limits_impl.h"

/* The reads of the plain variant are 16 bytes wide already. */
static double peak_int8(uint64_t repeats)
{
    int32x4_t sum[LIMIT_ACCUMULATORS];
    int8x16_t x = vdupq_n_s8(3), y = vdupq_n_s8(5);
    for (int k = 0; k < LIMIT_ACCUMULATORS; k++)
        sum[k] = vdupq_n_s32(k);
    for (uint64_t r = 0; r < repeats; r++) {
#pragma GCC unroll 14
        for (int k = 0; k < LIMIT_ACCUMULATORS; k++) {
            __asm__ __volatile__("" : "+w"(x), "+w"(y));
            int16x8_t p = vmull_s8(vget_low_s8(x), vget_low_s8(y));
            p = vmlal_s8(p, vget_high_s8(x), vget_high_s8(y));
            sum[k] = vpadalq_s16(sum[k], p);
        }
    }
    for (int k = 0; k < LIMIT_ACCUMULATORS; k++)
        __asm__ __volatile__("" : : "w"(sum[k]));
    return (double)repeats * LIMIT_ACCUMULATORS * 16;
}

static double peak_f32(uint64_t repeats)
{
    float32x4_t sum[LIMIT_ACCUMULATORS], x = vdupq_n_f32(0.5f), y = vdupq_n_f32(0.25f);
    for (int k = 0; k < LIMIT_ACCUMULATORS; k++)
        sum[k] = vdupq_n_f32(0);
    for (uint64_t r = 0; r < repeats; r++) {
#pragma GCC unroll 14
        for (int k = 0; k < LIMIT_ACCUMULATORS; k++)
            sum[k] = vfmaq_f32(sum[k], x, y); /* stops growing at 2^22 or so: finite */
        __asm__ __volatile__("" : "+w"(x), "+w"(y));
    }
    for (int k = 0; k < LIMIT_ACCUMULATORS; k++)
        __asm__ __volatile__("" : : "w"(sum[k]));
    return (double)repeats * LIMIT_ACCUMULATORS * 4;
}

const struct limit_variant limits_neon = {.name = "neon", .level = INFER_CPU_NEON, .int8 = peak_int8, .f32 = peak_f32};
