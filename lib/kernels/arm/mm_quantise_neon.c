/* Activations to 8 bits: see mm_scalar.c, whose bits these are. */
#include <arm_neon.h>
#include <string.h>

#include "base/half.h"
#include "kernels/mm_list.h"

static inline uint32_t amax_bits(const float *x)
{
    uint32x4_t m = vdupq_n_u32(0);
    for (int i = 0; i < 8; i++) /* |x| compares like its bits; a NaN is above infinity */
        m = vmaxq_u32(m, vreinterpretq_u32_f32(vabsq_f32(vld1q_f32(x + 4 * i))));
    return vmaxvq_u32(m);
}

/* 16 codes and their sum. */
static inline int32_t quantise16(const float *x, float inverse, int8_t *out)
{
    int16x4_t h[4];
    for (int i = 0; i < 4; i++) /* to nearest, ties to even */
        h[i] = vmovn_s32(vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4 * i), inverse)));
    int16x8_t a = vcombine_s16(h[0], h[1]), b = vcombine_s16(h[2], h[3]);
    vst1q_s8(out, vcombine_s8(vmovn_s16(a), vmovn_s16(b)));
    return vaddvq_s16(vaddq_s16(a, b)); /* at most 16 * 127 */
}

static inline void quantise_block(const float *x, struct mm_xblock *out)
{
    uint32_t amax = amax_bits(x);
    if (amax >= 0x7F800000 || amax < 0x0D800000) { /* not finite, or below 2^-100 */
        memset(out, 0, sizeof *out);
        if (amax >= 0x7F800000)
            out->d = out->dsum = f32_of_bits(0x7FC00000);
        return;
    }
    float inverse = 127.0f / f32_of_bits(amax);
    int32_t s0 = quantise16(x, inverse, out->q), s1 = quantise16(x + 16, inverse, out->q + 16), sum = s0 + s1;
    out->d = f32_of_bits(amax) / 127.0f;
    out->dsum = out->d * (float)sum;
    out->s[0] = (int16_t)s0;
    out->s[1] = (int16_t)s1;
    out->nz[0] = -8 * sum;
    out->nz[1] = -16 * sum;
    out->nz[2] = -128 * sum;
    out->nz32[0] = -32 * s0;
    out->nz32[1] = -32 * s1;
}

void mm_quantise_neon(const float *x, uint32_t n, struct mm_xblock *out)
{
    for (uint32_t b = 0; b < n / 32; b++)
        quantise_block(x + 32 * b, out + b);
}
