#include "kernels/arm/math_neon.h"

static inline float32x4_t load_f16(const uint16_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}

static inline float32x4_t load_bf16(const uint16_t *p)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}

static inline float32x4_t load_i8(const int8_t *p)
{
    uint32_t four;
    __builtin_memcpy(&four, p, 4);
    int16x8_t x = vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(four)));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(x)));
}

#define NAME(x)         x##_neon
#define LANES           4u
#define VF              float32x4_t
#define V_LOAD(p)       vld1q_f32(p)
#define V_STORE(p, v)   vst1q_f32(p, v)
#define V_SET1(x)       vdupq_n_f32(x)
#define V_FMA(a, b, c)  vfmaq_f32(c, a, b)
#define V_ADD(a, b)     vaddq_f32(a, b)
#define V_SUB(a, b)     vsubq_f32(a, b)
#define V_MUL(a, b)     vmulq_f32(a, b)
#define V_DIV(a, b)     vdivq_f32(a, b)
#define V_MAX(a, b)     vbslq_f32(vcgtq_f32(a, b), a, b)
#define V_REDUCE_MAX(a) vmaxvq_f32(a)
#define V_EXP(a)        math_exp_neon(a)
#define V_TANH(a)       math_tanh_neon(a)
#define V_LOAD_F16(p)   load_f16(p)
#define V_LOAD_BF16(p)  load_bf16(p)
#define V_LOAD_I8(p)    load_i8(p)
#define WIDE(rows)      4u

#include "kernels/attn_simd.h"
