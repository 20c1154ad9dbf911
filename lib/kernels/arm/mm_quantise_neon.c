/* Activations to 8 bits. */
#include <arm_neon.h>
#include <stdint.h>

static inline uint32_t amax_bits(const float *x)
{
    uint32x4_t m = vdupq_n_u32(0);
    for (int i = 0; i < 8; i++)
        m = vmaxq_u32(m, vreinterpretq_u32_f32(vabsq_f32(vld1q_f32(x + 4 * i))));
    return vmaxvq_u32(m);
}

/* 16 codes and their sum. */
static inline int32_t codes16(const float *x, float inverse, int8_t *out)
{
    int16x4_t h[4];
    for (int i = 0; i < 4; i++)
        h[i] = vmovn_s32(vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4 * i), inverse)));
    int16x8_t a = vcombine_s16(h[0], h[1]), b = vcombine_s16(h[2], h[3]);
    vst1q_s8(out, vcombine_s8(vmovn_s16(a), vmovn_s16(b)));
    return vaddvq_s16(vaddq_s16(a, b)); /* at most 16 * 127 */
}

static inline void codes32(const float *x, float inverse, int8_t *q, int32_t s[2])
{
    s[0] = codes16(x, inverse, q);
    s[1] = codes16(x + 16, inverse, q + 16);
}

#define MM_QUANTISE mm_quantise_neon
#include "kernels/mm_quantise.h"
