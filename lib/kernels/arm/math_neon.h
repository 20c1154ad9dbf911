/* The elementary functions of math_scalar.h on 4 lanes: the same operations, so the same bits. AArch64. */
#ifndef KERNELS_MATH_NEON_H
#define KERNELS_MATH_NEON_H

#include <arm_neon.h>

#include "kernels/math_const.h"
#include "kernels/math_scalar.h"

#define V4(c) vdupq_n_f32(c)
#define D2(c) vdupq_n_f64(c)

/* p * x + c with one rounding */
static inline float32x4_t math_step_neon(float32x4_t p, float32x4_t x, float c)
{
    return vfmaq_f32(V4(c), p, x);
}

static inline float32x4_t math_exp_neon(float32x4_t x)
{
    x = vbslq_f32(vcltq_f32(V4(EXP_MAX), x), V4(EXP_MAX), x);
    x = vbslq_f32(vcgtq_f32(V4(EXP_MIN), x), V4(EXP_MIN), x);
    float32x4_t t = math_step_neon(x, V4(LOG2EF), MAGICF), n = vsubq_f32(t, V4(MAGICF));
    float32x4_t r = vfmaq_f32(x, n, V4(-LN2F_0));
    r = vfmaq_f32(r, n, V4(-LN2F_1));
    float32x4_t p = math_step_neon(V4(EXP_C_4), r, EXP_C_3);
    p = math_step_neon(p, r, EXP_C_2);
    p = math_step_neon(p, r, EXP_C_1);
    p = math_step_neon(p, r, EXP_C_0);
    float32x4_t y = vaddq_f32(V4(1.0f), vfmaq_f32(r, p, vmulq_f32(r, r)));
    int32x4_t k = vsubq_s32(vreinterpretq_s32_f32(t), vreinterpretq_s32_f32(V4(MAGICF)));
    int32x4_t half = vshrq_n_s32(k, 1), bias = vdupq_n_s32(127);
    int32x4_t rest = vaddq_s32(vsubq_s32(k, half), bias);
    half = vaddq_s32(half, bias);
    y = vmulq_f32(y, vreinterpretq_f32_s32(vshlq_n_s32(half, 23)));
    return vmulq_f32(y, vreinterpretq_f32_s32(vshlq_n_s32(rest, 23)));
}

static inline float32x4_t math_sign_neon(float32x4_t x, float32x4_t s)
{
    return vbslq_f32(vdupq_n_u32(0x80000000u), s, x);
}

static inline float32x4_t math_tanh_neon(float32x4_t x)
{
    float32x4_t a = vabsq_f32(x), z = vmulq_f32(x, x);
    float32x4_t p = math_step_neon(V4(TANH_C_5), z, TANH_C_4);
    p = math_step_neon(p, z, TANH_C_3);
    p = math_step_neon(p, z, TANH_C_2);
    p = math_step_neon(p, z, TANH_C_1);
    p = math_step_neon(p, z, TANH_C_0);
    p = vfmaq_f32(a, p, vmulq_f32(z, a));
    float32x4_t e = vaddq_f32(math_exp_neon(vaddq_f32(a, a)), V4(1.0f));
    float32x4_t big = vsubq_f32(V4(1.0f), vdivq_f32(V4(2.0f), e));
    return math_sign_neon(vbslq_f32(vcltq_f32(a, V4(TANH_SPLIT)), p, big), x);
}

static inline float32x4_t math_erf_neon(float32x4_t x)
{
    float32x4_t a = vabsq_f32(x), z = vmulq_f32(x, x);
    uint32x4_t small = vcltq_f32(a, V4(ERF_SPLIT));
    float32x4_t q = math_step_neon(V4(ERF_C_6), z, ERF_C_5);
    q = math_step_neon(q, z, ERF_C_4);
    q = math_step_neon(q, z, ERF_C_3);
    q = math_step_neon(q, z, ERF_C_2);
    q = math_step_neon(q, z, ERF_C_1);
    q = math_step_neon(q, z, ERF_C_0);
    q = vfmaq_f32(x, q, x);
    a = vbslq_f32(vcltq_f32(V4(ERF_MAX), a), V4(ERF_MAX), a);
    float32x4_t p = math_step_neon(V4(ERFC_C_8), a, ERFC_C_7);
    p = math_step_neon(p, a, ERFC_C_6);
    p = math_step_neon(p, a, ERFC_C_5);
    p = math_step_neon(p, a, ERFC_C_4);
    p = math_step_neon(p, a, ERFC_C_3);
    p = math_step_neon(p, a, ERFC_C_2);
    p = math_step_neon(p, a, ERFC_C_1);
    p = math_step_neon(p, a, ERFC_C_0);
    float32x4_t big = vsubq_f32(V4(1.0f), math_exp_neon(vnegq_f32(p)));
    return vbslq_f32(small, q, math_sign_neon(big, x));
}

/* p * z + c in two roundings */
static inline float64x2_t math_step_d_neon(float64x2_t p, float64x2_t z, double c)
{
    return vaddq_f64(vmulq_f64(p, z), D2(c));
}

/* Two angles; those of 2^31 or more, inf and NaN are left to the caller (math_sincos). */
static inline void math_sincos_neon(float32x2_t x, float32x2_t *sin, float32x2_t *cos)
{
    float64x2_t d = vcvt_f64_f32(x);
    float64x2_t t = math_step_d_neon(d, D2(TWO_OVER_PI), MAGICD), n = vsubq_f64(t, D2(MAGICD));
    float64x2_t r = vsubq_f64(d, vmulq_f64(n, D2(PIO2_0)));
    r = vsubq_f64(r, vmulq_f64(n, D2(PIO2_1)));
    r = vsubq_f64(r, vmulq_f64(n, D2(PIO2_2)));
    r = vsubq_f64(r, vmulq_f64(n, D2(PIO2_3)));
    float64x2_t z = vmulq_f64(r, r);
    float64x2_t p = math_step_d_neon(D2(SIN_C_4), z, SIN_C_3);
    p = math_step_d_neon(p, z, SIN_C_2);
    p = math_step_d_neon(p, z, SIN_C_1);
    p = math_step_d_neon(p, z, SIN_C_0);
    float64x2_t q = math_step_d_neon(D2(COS_C_4), z, COS_C_3);
    q = math_step_d_neon(q, z, COS_C_2);
    q = math_step_d_neon(q, z, COS_C_1);
    q = math_step_d_neon(q, z, COS_C_0);
    p = vmulq_f64(vaddq_f64(D2(1.0), vmulq_f64(p, z)), r);
    q = vsubq_f64(vmulq_f64(vmulq_f64(q, z), z), vmulq_f64(D2(0.5), z));
    q = vaddq_f64(D2(1.0), q);
    uint64x2_t k = vreinterpretq_u64_f64(t), one = vdupq_n_u64(1), minus = vdupq_n_u64((uint64_t)1 << 63);
    uint64x2_t swap = vtstq_u64(k, one);
    uint64x2_t ys = vreinterpretq_u64_f64(vbslq_f64(swap, q, p)), yc = vreinterpretq_u64_f64(vbslq_f64(swap, p, q));
    ys = veorq_u64(ys, vandq_u64(vshlq_n_u64(k, 62), minus));
    yc = veorq_u64(yc, vandq_u64(vshlq_n_u64(vaddq_u64(k, one), 62), minus));
    *sin = vcvt_f32_f64(vreinterpretq_f64_u64(ys));
    *cos = vcvt_f32_f64(vreinterpretq_f64_u64(yc));
}

#undef V4
#undef D2

#endif
