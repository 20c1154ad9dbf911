#include <arm_neon.h>
#define LIMITS_REGISTER "w"
#include "limits_peak.h"

#define PRODUCT(sum, x, y) sum = vmmlaq_s32(sum, x, y)
PEAK_LOOP(peak_int8, LIMIT_ACCUMULATORS, int32x4_t, vdupq_n_s32, vdupq_n_s8(3), vdupq_n_s8(5), PRODUCT, 32)

const struct limit_variant limits_i8mm = {.name = "i8mm", .level = INFER_CPU_I8MM, .int8 = peak_int8};
