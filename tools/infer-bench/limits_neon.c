#include <arm_neon.h>
#define LIMITS_REGISTER "w"
#include "limits_peak.h"

/* The reads of the plain variant are 16 bytes wide already. */
#define WIDENING(sum, x, y)                                                                                            \
    do {                                                                                                               \
        HIDE(x, y);                                                                                                    \
        int16x8_t p = vmull_s8(vget_low_s8(x), vget_low_s8(y));                                                        \
        p = vmlal_s8(p, vget_high_s8(x), vget_high_s8(y));                                                             \
        sum = vpadalq_s16(sum, p);                                                                                     \
    } while (0)
#define FMA(sum, x, y)   sum = vfmaq_f32(sum, x, y) /* stops growing at 2^22 or so: finite */
#define FLOAT_START(k)   vdupq_n_f32((float)(k))

PEAK_LOOP(peak_int8, LIMIT_ACCUMULATORS, int32x4_t, vdupq_n_s32, vdupq_n_s8(3), vdupq_n_s8(5), WIDENING, 16)
PEAK_LOOP(peak_f32, LIMIT_ACCUMULATORS, float32x4_t, FLOAT_START, vdupq_n_f32(0.5f), vdupq_n_f32(0.25f), FMA, 4)

const struct limit_variant limits_neon = {.name = "neon", .level = INFER_CPU_NEON, .int8 = peak_int8, .f32 = peak_f32};
