/* Row kernels in vectors of 4 or 8 lanes: the text of x86/vec_avx2.c and arm/vec_neon.c, which hold the rotations besides and define before they include
 * it
 *
 *   NAME(x)                      x with the variant's suffix
 *   LANES, VF                    lanes and type of a vector of f32
 *   V_SET, V_LOAD, V_STORE       (aligned or not)
 *   V_ADD, V_SUB, V_MUL, V_DIV, V_NEG, V_FMA(a, b, c): a * b + c
 *   V_GREATER(x, m)              x where it is greater than m, else m
 *   V_EXP, V_TANH, V_ERF         of math_*.h
 *   V_SUM(v), V_MAX(v)           over the lanes by the tree: lane i + LANES / 2, ... + 1
 *   V_LOAD_F16, V_LOAD_BF16 (p), V_STORE_F16, V_STORE_BF16 (p, v): LANES elements
 *
 * The orders are in vec.h. Sums keep their 16 partials in registers. Tails are scalar. */
#include "base/half.h"
#include "kernels/vec.h"

enum { PARTS = 16 / LANES };

/* Sixteen lanes: q[0] holds the first partials. */
struct v16 {
    VF q[PARTS];
};

static inline struct v16 fill16(float c)
{
    struct v16 p;
    for (int i = 0; i < PARTS; i++)
        p.q[i] = V_SET(c);
    return p;
}

static inline struct v16 load16(const float *x)
{
    struct v16 p;
    for (int i = 0; i < PARTS; i++)
        p.q[i] = V_LOAD(x + i * LANES);
    return p;
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
    for (int w = PARTS / 2; w > 0; w /= 2)
        for (int i = 0; i < w; i++)
            p.q[i] = V_ADD(p.q[i], p.q[i + w]);
    return V_SUM(p.q[0]);
}

static inline struct v16 add16(struct v16 p, struct v16 v)
{
    for (int i = 0; i < PARTS; i++)
        p.q[i] = V_ADD(p.q[i], v.q[i]);
    return p;
}

static inline struct v16 add_squares(struct v16 p, struct v16 v)
{
    for (int i = 0; i < PARTS; i++)
        p.q[i] = V_FMA(v.q[i], v.q[i], p.q[i]);
    return p;
}

static inline struct v16 minus(struct v16 v, float mean)
{
    for (int i = 0; i < PARTS; i++)
        v.q[i] = V_SUB(v.q[i], V_SET(mean));
    return v;
}

void NAME(vec_rms_norm)(float *dst, const float *x, const float *weight, uint32_t n, float eps)
{
    struct v16 p = fill16(0.0f);
    uint32_t i = 0;
    for (; n - i >= 16; i += 16)
        p = add_squares(p, load16(x + i));
    if (i < n)
        p = add_squares(p, load_tail(x + i, n - i, 0.0f));
    float s = 1.0f / math_sqrt(tree(p) / (float)n + eps);
    for (i = 0; n - i >= LANES; i += LANES)
        V_STORE(dst + i, V_MUL(V_MUL(V_LOAD(x + i), V_SET(s)), V_LOAD(weight + i)));
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

void NAME(vec_layer_norm)(float *dst, const float *x, const float *weight, const float *bias, uint32_t n, float eps)
{
    float mean = mean_of(x, n), s = 1.0f / math_sqrt(variance_of(x, n, mean) + eps);
    uint32_t i = 0;
    for (; n - i >= LANES; i += LANES) {
        VF d = V_MUL(V_SUB(V_LOAD(x + i), V_SET(mean)), V_SET(s)), w = V_LOAD(weight + i);
        V_STORE(dst + i, bias ? V_FMA(d, w, V_LOAD(bias + i)) : V_MUL(d, w));
    }
    for (; i < n; i++) {
        float d = (x[i] - mean) * s;
        dst[i] = bias ? fma_f32(d, weight[i], bias[i]) : d * weight[i];
    }
}

static inline void rotate(float *a, float *b, const float *cos_sin)
{
    float x = *a, y = *b, c = cos_sin[0], s = cos_sin[1];
    *a = fma_f32(x, c, -(y * s));
    *b = fma_f32(y, c, x * s);
}

static inline VF silu(VF x)
{
    return V_DIV(x, V_ADD(V_SET(1.0f), V_EXP(V_NEG(x))));
}

static inline VF gelu_tanh(VF x)
{
    VF u = V_MUL(x, V_FMA(V_SET(GELU_3), V_MUL(x, x), V_SET(GELU_1)));
    return V_DIV(x, V_ADD(V_SET(1.0f), V_EXP(V_NEG(u))));
}

static inline VF gelu_erf(VF x)
{
    VF e = V_ERF(V_MUL(x, V_SET(SQRT_HALF)));
    return V_MUL(V_MUL(V_SET(0.5f), x), V_ADD(V_SET(1.0f), e));
}

static inline VF relu(VF x)
{
    return V_GREATER(x, V_SET(0.0f));
}

static inline VF relu2(VF x)
{
    return V_MUL(relu(x), relu(x));
}

#define ACT(name)                                                                                                      \
    void NAME(vec_##name)(float *dst, const float *gate, const float *up, size_t n)                                    \
    {                                                                                                                  \
        size_t i = 0;                                                                                                  \
        for (; n - i >= LANES; i += LANES) {                                                                           \
            VF y = name(V_LOAD(gate + i));                                                                             \
            V_STORE(dst + i, up ? V_MUL(y, V_LOAD(up + i)) : y);                                                       \
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
ACT(relu2)

void NAME(vec_add)(float *dst, const float *src, size_t n)
{
    size_t i = 0;
    for (; n - i >= LANES; i += LANES)
        V_STORE(dst + i, V_ADD(V_LOAD(dst + i), V_LOAD(src + i)));
    for (; i < n; i++)
        dst[i] += src[i];
}

void NAME(vec_expand)(float *y, const float *w, size_t stride, const float *t, uint32_t rank, size_t n)
{
    enum { BLOCK = 4 * LANES };
    size_t i = 0;
    for (; n - i >= BLOCK; i += BLOCK) {
        VF a[4] = {V_SET(0), V_SET(0), V_SET(0), V_SET(0)};
        for (uint32_t k = 0; k < rank; k++)
            for (int v = 0; v < 4; v++)
                a[v] = V_FMA(V_LOAD(w + k * stride + i + v * LANES), V_SET(t[k]), a[v]);
        for (int v = 0; v < 4; v++)
            V_STORE(y + i + v * LANES, V_ADD(V_LOAD(y + i + v * LANES), a[v]));
    }
    vec_expand_scalar(y + i, w + i, stride, t, rank, n - i);
}

void NAME(vec_scale)(float *x, size_t n, float factor)
{
    size_t i = 0;
    for (; n - i >= LANES; i += LANES)
        V_STORE(x + i, V_MUL(V_LOAD(x + i), V_SET(factor)));
    for (; i < n; i++)
        x[i] *= factor;
}

void NAME(vec_softcap)(float *x, size_t n, float cap)
{
    size_t i = 0;
    for (; n - i >= LANES; i += LANES)
        V_STORE(x + i, V_MUL(V_SET(cap), V_TANH(V_DIV(V_LOAD(x + i), V_SET(cap)))));
    for (; i < n; i++)
        x[i] = math_softcap(x[i], cap);
}

static inline struct v16 greater16(struct v16 v, struct v16 p)
{
    for (int i = 0; i < PARTS; i++)
        p.q[i] = V_GREATER(v.q[i], p.q[i]);
    return p;
}

float NAME(vec_max)(const float *x, size_t n)
{
    const float low = -__builtin_inff();
    struct v16 p = fill16(low);
    size_t i = 0;
    for (; n - i >= 16; i += 16)
        p = greater16(load16(x + i), p);
    if (i < n)
        p = greater16(load_tail(x + i, (uint32_t)(n - i), low), p);
    for (int w = PARTS / 2; w > 0; w /= 2)
        for (int j = 0; j < w; j++)
            p.q[j] = V_GREATER(p.q[j + w], p.q[j]);
    return V_MAX(p.q[0]);
}

void NAME(vec_f32_to_f16)(uint16_t *dst, const float *src, size_t n)
{
    size_t i = 0;
    for (; n - i >= LANES; i += LANES)
        V_STORE_F16(dst + i, V_LOAD(src + i));
    for (; i < n; i++)
        dst[i] = f32_to_f16(src[i]);
}

void NAME(vec_f32_to_bf16)(uint16_t *dst, const float *src, size_t n)
{
    size_t i = 0;
    for (; n - i >= LANES; i += LANES)
        V_STORE_BF16(dst + i, V_LOAD(src + i));
    for (; i < n; i++)
        dst[i] = f32_to_bf16(src[i]);
}

void NAME(vec_f16_to_f32)(float *dst, const uint16_t *src, size_t n)
{
    size_t i = 0;
    for (; n - i >= LANES; i += LANES)
        V_STORE(dst + i, V_LOAD_F16(src + i));
    for (; i < n; i++)
        dst[i] = f16_to_f32(src[i]);
}

void NAME(vec_bf16_to_f32)(float *dst, const uint16_t *src, size_t n)
{
    size_t i = 0;
    for (; n - i >= LANES; i += LANES)
        V_STORE(dst + i, V_LOAD_BF16(src + i));
    for (; i < n; i++)
        dst[i] = bf16_to_f32(src[i]);
}
