/* Row kernels on 4 lanes; the orders are in vec.h. Sums keep their 16 partials in four registers. Tails are scalar. */
#include "base/half.h"
#include "kernels/arm/math_neon.h"
#include "kernels/vec.h"

#define V4(c) vdupq_n_f32(c)

/* Sixteen lanes: q[0] holds the partials 0..3. */
struct v16 {
    float32x4_t q[4];
};

static inline struct v16 fill16(float c)
{
    return (struct v16){{V4(c), V4(c), V4(c), V4(c)}};
}

static inline struct v16 load16(const float *x)
{
    return (struct v16){{vld1q_f32(x), vld1q_f32(x + 4), vld1q_f32(x + 8), vld1q_f32(x + 12)}};
}

/* n < 16 elements and `fill` behind them. */
static inline struct v16 load_tail(const float *x, uint32_t n, float fill)
{
    float buf[16];
    for (uint32_t l = 0; l < 16; l++)
        buf[l] = l < n ? x[l] : fill;
    return load16(buf);
}

/* The tree of math_tree: + 8, + 4, + 2, + 1. */
static inline float tree(struct v16 p)
{
    float32x4_t a = vaddq_f32(vaddq_f32(p.q[0], p.q[2]), vaddq_f32(p.q[1], p.q[3]));
    float32x2_t b = vadd_f32(vget_low_f32(a), vget_high_f32(a));
    return vget_lane_f32(b, 0) + vget_lane_f32(b, 1);
}

static inline struct v16 add16(struct v16 p, struct v16 v)
{
    for (int i = 0; i < 4; i++)
        p.q[i] = vaddq_f32(p.q[i], v.q[i]);
    return p;
}

static inline struct v16 add_squares(struct v16 p, struct v16 v)
{
    for (int i = 0; i < 4; i++)
        p.q[i] = vfmaq_f32(p.q[i], v.q[i], v.q[i]);
    return p;
}

static inline struct v16 minus(struct v16 v, float mean)
{
    for (int i = 0; i < 4; i++)
        v.q[i] = vsubq_f32(v.q[i], V4(mean));
    return v;
}

void vec_rms_norm_neon(float *dst, const float *x, const float *weight, uint32_t n, float eps)
{
    struct v16 p = fill16(0.0f);
    uint32_t i = 0;
    for (; n - i >= 16; i += 16)
        p = add_squares(p, load16(x + i));
    if (i < n)
        p = add_squares(p, load_tail(x + i, n - i, 0.0f));
    float s = 1.0f / math_sqrt(tree(p) / (float)n + eps);
    for (i = 0; n - i >= 4; i += 4)
        vst1q_f32(dst + i, vmulq_f32(vmulq_f32(vld1q_f32(x + i), V4(s)), vld1q_f32(weight + i)));
    for (; i < n; i++)
        dst[i] = (x[i] * s) * weight[i];
}

static float mean_of(const float *x, uint32_t n)
{
    struct v16 p = fill16(0.0f);
    uint32_t i = 0;
    for (; n - i >= 16; i += 16)
        p = add16(p, load16(x + i));
    if (i < n)
        p = add16(p, load_tail(x + i, n - i, 0.0f));
    return tree(p) / (float)n;
}

static float variance_of(const float *x, uint32_t n, float mean)
{
    struct v16 p = fill16(0.0f);
    uint32_t i = 0;
    for (; n - i >= 16; i += 16)
        p = add_squares(p, minus(load16(x + i), mean));
    if (i < n)
        p = add_squares(p, minus(load_tail(x + i, n - i, mean), mean)); /* absent ones add +0 */
    return tree(p) / (float)n;
}

void vec_layer_norm_neon(float *dst, const float *x, const float *weight, const float *bias, uint32_t n, float eps)
{
    float mean = mean_of(x, n), s = 1.0f / math_sqrt(variance_of(x, n, mean) + eps);
    uint32_t i = 0;
    for (; n - i >= 4; i += 4) {
        float32x4_t d = vmulq_f32(vsubq_f32(vld1q_f32(x + i), V4(mean)), V4(s)), w = vld1q_f32(weight + i);
        vst1q_f32(dst + i, bias ? vfmaq_f32(vld1q_f32(bias + i), d, w) : vmulq_f32(d, w));
    }
    for (; i < n; i++) {
        float d = (x[i] - mean) * s;
        dst[i] = bias ? fma_f32(d, weight[i], bias[i]) : d * weight[i];
    }
}

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

static inline void rotate(float *a, float *b, const float *cos_sin)
{
    float x = *a, y = *b, c = cos_sin[0], s = cos_sin[1];
    *a = fma_f32(x, c, -(y * s));
    *b = fma_f32(y, c, x * s);
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

static inline float32x4_t silu(float32x4_t x)
{
    return vdivq_f32(x, vaddq_f32(V4(1.0f), math_exp_neon(vnegq_f32(x))));
}

static inline float32x4_t gelu_tanh(float32x4_t x)
{
    float32x4_t u = vmulq_f32(x, vfmaq_f32(V4(GELU_1), V4(GELU_3), vmulq_f32(x, x)));
    return vdivq_f32(x, vaddq_f32(V4(1.0f), math_exp_neon(vnegq_f32(u))));
}

static inline float32x4_t gelu_erf(float32x4_t x)
{
    float32x4_t e = math_erf_neon(vmulq_f32(x, V4(SQRT_HALF)));
    return vmulq_f32(vmulq_f32(V4(0.5f), x), vaddq_f32(V4(1.0f), e));
}

static inline float32x4_t relu(float32x4_t x)
{
    return vbslq_f32(vcgtq_f32(x, V4(0.0f)), x, V4(0.0f));
}

#define ACT(name)                                                                                                      \
    void vec_##name##_neon(float *dst, const float *gate, const float *up, size_t n)                                   \
    {                                                                                                                  \
        size_t i = 0;                                                                                                  \
        for (; n - i >= 4; i += 4) {                                                                                   \
            float32x4_t y = name(vld1q_f32(gate + i));                                                                 \
            vst1q_f32(dst + i, up ? vmulq_f32(y, vld1q_f32(up + i)) : y);                                              \
        }                                                                                                              \
        for (; i < n; i++) {                                                                                           \
            float y = math_##name(gate[i]);                                                                            \
            dst[i] = up ? y * up[i] : y;                                                                               \
        }                                                                                                              \
    }
ACT(silu)
ACT(gelu_tanh)
ACT(gelu_erf)
ACT(relu)

void vec_add_neon(float *dst, const float *src, size_t n)
{
    size_t i = 0;
    for (; n - i >= 4; i += 4)
        vst1q_f32(dst + i, vaddq_f32(vld1q_f32(dst + i), vld1q_f32(src + i)));
    for (; i < n; i++)
        dst[i] += src[i];
}

void vec_scale_neon(float *x, size_t n, float factor)
{
    size_t i = 0;
    for (; n - i >= 4; i += 4)
        vst1q_f32(x + i, vmulq_f32(vld1q_f32(x + i), V4(factor)));
    for (; i < n; i++)
        x[i] *= factor;
}

void vec_softcap_neon(float *x, size_t n, float cap)
{
    size_t i = 0;
    for (; n - i >= 4; i += 4)
        vst1q_f32(x + i, vmulq_f32(V4(cap), math_tanh_neon(vdivq_f32(vld1q_f32(x + i), V4(cap)))));
    for (; i < n; i++)
        x[i] = math_softcap(x[i], cap);
}

/* x where it is greater, else m */
static inline float32x4_t greater(float32x4_t x, float32x4_t m)
{
    return vbslq_f32(vcgtq_f32(x, m), x, m);
}

float vec_max_neon(const float *x, size_t n)
{
    const float low = -__builtin_inff();
    struct v16 p = fill16(low);
    for (size_t i = 0; i < n; i += 16) {
        struct v16 v = n - i < 16 ? load_tail(x + i, (uint32_t)(n - i), low) : load16(x + i);
        for (int l = 0; l < 4; l++)
            p.q[l] = greater(v.q[l], p.q[l]);
    }
    float r[4], m[4];
    vst1q_f32(r, greater(greater(p.q[3], p.q[1]), greater(p.q[2], p.q[0])));
    for (int l = 0; l < 2; l++)
        m[l] = r[l + 2] > r[l] ? r[l + 2] : r[l];
    return m[1] > m[0] ? m[1] : m[0];
}

void vec_f32_to_f16_neon(uint16_t *dst, const float *src, size_t n)
{
    size_t i = 0;
    for (; n - i >= 4; i += 4)
        vst1_u16(dst + i, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(src + i))));
    for (; i < n; i++)
        dst[i] = f32_to_f16(src[i]);
}

void vec_f32_to_bf16_neon(uint16_t *dst, const float *src, size_t n)
{
    size_t i = 0;
    for (; n - i >= 4; i += 4) {
        float32x4_t v = vld1q_f32(src + i);
        uint32x4_t u = vreinterpretq_u32_f32(v), top = vshrq_n_u32(u, 16);
        uint32x4_t r = vaddq_u32(vaddq_u32(u, vdupq_n_u32(0x7FFF)), vandq_u32(top, vdupq_n_u32(1)));
        r = vbslq_u32(vceqq_f32(v, v), vshrq_n_u32(r, 16), vorrq_u32(top, vdupq_n_u32(0x40)));
        vst1_u16(dst + i, vmovn_u32(r));
    }
    for (; i < n; i++)
        dst[i] = f32_to_bf16(src[i]);
}

void vec_f16_to_f32_neon(float *dst, const uint16_t *src, size_t n)
{
    size_t i = 0;
    for (; n - i >= 4; i += 4)
        vst1q_f32(dst + i, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(src + i))));
    for (; i < n; i++)
        dst[i] = f16_to_f32(src[i]);
}

void vec_bf16_to_f32_neon(float *dst, const uint16_t *src, size_t n)
{
    size_t i = 0;
    for (; n - i >= 4; i += 4)
        vst1q_f32(dst + i, vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(src + i), 16)));
    for (; i < n; i++)
        dst[i] = bf16_to_f32(src[i]);
}
