/* Row kernels on 4 lanes: vec_simd.h with AArch64's vectors, and the rotations. */
#include "kernels/arm/math_neon.h"

static inline float sum_4(float32x4_t v)
{
    float32x2_t b = vadd_f32(vget_low_f32(v), vget_high_f32(v));
    return vget_lane_f32(b, 0) + vget_lane_f32(b, 1);
}

static inline float32x4_t greater_4(float32x4_t x, float32x4_t m)
{
    return vbslq_f32(vcgtq_f32(x, m), x, m);
}

static inline float max_4(float32x4_t v)
{
    float32x2_t lo = vget_low_f32(v), hi = vget_high_f32(v), m = vbsl_f32(vcgt_f32(hi, lo), hi, lo);
    float a = vget_lane_f32(m, 0), b = vget_lane_f32(m, 1);
    return b > a ? b : a;
}

static inline void store_f16(uint16_t *p, float32x4_t v)
{
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(v)));
}

static inline void store_bf16(uint16_t *p, float32x4_t v)
{
    uint32x4_t u = vreinterpretq_u32_f32(v), top = vshrq_n_u32(u, 16);
    uint32x4_t r = vaddq_u32(vaddq_u32(u, vdupq_n_u32(0x7FFF)), vandq_u32(top, vdupq_n_u32(1)));
    r = vbslq_u32(vceqq_f32(v, v), vshrq_n_u32(r, 16), vorrq_u32(top, vdupq_n_u32(0x40)));
    vst1_u16(p, vmovn_u32(r));
}

#define NAME(x)            x##_neon
#define LANES              4u
#define VF                 float32x4_t
#define V_SET(c)           vdupq_n_f32(c)
#define V_LOAD(p)          vld1q_f32(p)
#define V_STORE(p, v)      vst1q_f32(p, v)
#define V_ADD(a, b)        vaddq_f32(a, b)
#define V_SUB(a, b)        vsubq_f32(a, b)
#define V_MUL(a, b)        vmulq_f32(a, b)
#define V_DIV(a, b)        vdivq_f32(a, b)
#define V_NEG(a)           vnegq_f32(a)
#define V_FMA(a, b, c)     vfmaq_f32(c, a, b)
#define V_GREATER(x, m)    greater_4(x, m)
#define V_EXP(x)           math_exp_neon(x)
#define V_TANH(x)          math_tanh_neon(x)
#define V_ERF(x)           math_erf_neon(x)
#define V_SUM(v)           sum_4(v)
#define V_MAX(v)           max_4(v)
#define V_LOAD_F16(p)      vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)))
#define V_LOAD_BF16(p)     vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16))
#define V_STORE_F16(p, v)  store_f16(p, v)
#define V_STORE_BF16(p, v) store_bf16(p, v)

#include "kernels/vec_simd.h"

void vec_rope_table_neon(float *table, const float *inv_freq, uint32_t n_half, uint32_t position, float mscale)
{
    uint32_t i = 0;
    for (; n_half - i >= 2; i += 2) {
        float32x2_t a = vmul_n_f32(vld1_f32(inv_freq + i), (float)position);
        uint32x2_t ok = vclt_f32(vabs_f32(a), vdup_n_f32(TRIG_MAX));
        float32x2x2_t cs;
        if (!(vget_lane_u32(ok, 0) & vget_lane_u32(ok, 1))) {
            vec_rope_table_scalar(table + 2 * i, inv_freq + i, 2, position, mscale);
            continue;
        }
        math_sincos_neon(a, &cs.val[1], &cs.val[0]);
        cs.val[0] = vmul_n_f32(cs.val[0], mscale);
        cs.val[1] = vmul_n_f32(cs.val[1], mscale);
        vst2_f32(table + 2 * i, cs);
    }
    vec_rope_table_scalar(table + 2 * i, inv_freq + i, n_half - i, position, mscale);
}

static inline void rotate4(float32x4_t *a, float32x4_t *b, float32x4x2_t t)
{
    float32x4_t x = *a, y = *b;
    *a = vfmaq_f32(vnegq_f32(vmulq_f32(y, t.val[1])), x, t.val[0]);
    *b = vfmaq_f32(vmulq_f32(x, t.val[1]), y, t.val[0]);
}

void vec_rope_pairs_neon(float *x, const float *table, uint32_t n_rot)
{
    uint32_t i = 0;
    n_rot &= ~1u;
    for (; n_rot - i >= 8; i += 8) {
        float32x4x2_t v = vld2q_f32(x + i);
        rotate4(&v.val[0], &v.val[1], vld2q_f32(table + i));
        vst2q_f32(x + i, v);
    }
    for (; i < n_rot; i += 2)
        rotate(x + i, x + i + 1, table + i);
}

void vec_rope_halves_neon(float *x, const float *table, uint32_t n_rot)
{
    uint32_t half = n_rot / 2, i = 0;
    for (; half - i >= 4; i += 4) {
        float32x4_t a = vld1q_f32(x + i), b = vld1q_f32(x + half + i);
        rotate4(&a, &b, vld2q_f32(table + 2 * i));
        vst1q_f32(x + i, a);
        vst1q_f32(x + half + i, b);
    }
    for (; i < half; i++)
        rotate(x + i, x + half + i, table + 2 * i);
}
