/* Products with float weights on 4 lanes: four registers are the 16 partials of one output. */
#include <arm_neon.h>
#include <stdint.h>

#define NAME(x)          x##_neon
#define LANES            4
#define VF               float32x4_t
#define V_ZERO()         vdupq_n_f32(0.0f)
#define V_LOAD(p)        load_4(p)
#define V_STORE(p, v)    vst1q_f32(p, v)
#define V_FMA(a, b, c)   vfmaq_f32(c, a, b)
#define LOAD_HALVES(p)   vld1_u8((const uint8_t *)(const void *)(p))
#define V_LOAD_F16(p)    vcvt_f32_f16(vreinterpret_f16_u8(LOAD_HALVES(p)))
#define V_LOAD_BF16(p)   vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(LOAD_HALVES(p)), 16))
#define V_SUM_4(dst, p)  sum_4(dst, p)
#define TILE_COLS        6
#define FEW_COLS         3
#define FEW_ROWS         2
#define ONE_ROWS         4

/* Of any alignment. */
static inline float32x4_t load_4(const float *p)
{
    return vreinterpretq_f32_u8(vld1q_u8((const uint8_t *)p));
}

/* The tree's steps + 8 and + 4. */
static inline float32x4_t fold(const float *p)
{
    return vaddq_f32(vaddq_f32(vld1q_f32(p), vld1q_f32(p + 8)), vaddq_f32(vld1q_f32(p + 4), vld1q_f32(p + 12)));
}

static inline void sum_4(float *dst, const float *p)
{
    float32x4_t a = fold(p), b = fold(p + 16), c = fold(p + 32), d = fold(p + 48);
    float32x4_t ab0 = vtrn1q_f32(a, b), ab1 = vtrn2q_f32(a, b), cd0 = vtrn1q_f32(c, d), cd1 = vtrn2q_f32(c, d);
    /* ab0 = a0 b0 a2 b2, ab1 = a1 b1 a3 b3 */
    float32x4_t even = vaddq_f32(vcombine_f32(vget_low_f32(ab0), vget_low_f32(cd0)), vcombine_f32(vget_high_f32(ab0), vget_high_f32(cd0)));
    float32x4_t odd = vaddq_f32(vcombine_f32(vget_low_f32(ab1), vget_low_f32(cd1)), vcombine_f32(vget_high_f32(ab1), vget_high_f32(cd1)));
    vst1q_f32(dst, vaddq_f32(even, odd));
}

#include "kernels/fmm_simd.h"
