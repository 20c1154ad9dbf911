#include <arm_neon.h>
#define LIMITS_REGISTER "w"
#include "limits_peak.h"

#define DOT(sum, x, y) sum = vdotq_s32(sum, x, y)
PEAK_LOOP(peak_int8, LIMIT_ACCUMULATORS, int32x4_t, vdupq_n_s32, vdupq_n_s8(3), vdupq_n_s8(5), DOT, 16)

const struct limit_variant limits_dotprod = {.name = "dotprod", .level = INFER_CPU_DOTPROD, .int8 = peak_int8};
