/* Row kernels on 8 lanes; the orders are in vec.h. Sums keep their 16 partials in two registers. Tails are scalar. */
#include "base/half.h"
#include "kernels/vec.h"
#include "kernels/x86/math_avx2.h"

#define V8(c) _mm256_set1_ps(c)

/* Sixteen lanes: lo holds the partials 0..7. */
struct v16 {
    __m256 lo, hi;
};

static inline struct v16 load16(const float *x)
{
    return (struct v16){_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8)};
}

/* The tree of math_tree: + 8, + 4, + 2, + 1. */
static inline float tree(struct v16 p)
{
    __m256 a = _mm256_add_ps(p.lo, p.hi);
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}

/* n < 16 elements and `fill` behind them. */
static inline struct v16 load_tail(const float *x, uint32_t n, float fill)
{
    float buf[16];
    for (uint32_t l = 0; l < 16; l++)
        buf[l] = l < n ? x[l] : fill;
    return load16(buf);
}

static inline struct v16 add_squares(struct v16 p, struct v16 v)
{
    return (struct v16){_mm256_fmadd_ps(v.lo, v.lo, p.lo), _mm256_fmadd_ps(v.hi, v.hi, p.hi)};
}

static inline struct v16 minus(struct v16 v, float mean)
{
    return (struct v16){_mm256_sub_ps(v.lo, V8(mean)), _mm256_sub_ps(v.hi, V8(mean))};
}

static inline struct v16 zero16(void)
{
    return (struct v16){_mm256_setzero_ps(), _mm256_setzero_ps()};
}

void vec_rms_norm_avx2(float *dst, const float *x, const float *weight, uint32_t n, float eps)
{
    struct v16 p = zero16();
    uint32_t i = 0;
    for (; n - i >= 16; i += 16)
        p = add_squares(p, load16(x + i));
    if (i < n)
        p = add_squares(p, load_tail(x + i, n - i, 0.0f));
    float s = 1.0f / math_sqrt(tree(p) / (float)n + eps);
    for (i = 0; n - i >= 8; i += 8)
        _mm256_storeu_ps(dst + i, _mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(x + i), V8(s)), _mm256_loadu_ps(weight + i)));
    for (; i < n; i++)
        dst[i] = (x[i] * s) * weight[i];
}

static float mean_of(const float *x, uint32_t n)
{
    struct v16 p = zero16();
    uint32_t i = 0;
    for (; n - i >= 16; i += 16) {
        p.lo = _mm256_add_ps(p.lo, _mm256_loadu_ps(x + i));
        p.hi = _mm256_add_ps(p.hi, _mm256_loadu_ps(x + i + 8));
    }
    if (i < n) {
        struct v16 v = load_tail(x + i, n - i, 0.0f);
        p.lo = _mm256_add_ps(p.lo, v.lo);
        p.hi = _mm256_add_ps(p.hi, v.hi);
    }
    return tree(p) / (float)n;
}

static float variance_of(const float *x, uint32_t n, float mean)
{
    struct v16 p = zero16();
    uint32_t i = 0;
    for (; n - i >= 16; i += 16)
        p = add_squares(p, minus(load16(x + i), mean));
    if (i < n)
        p = add_squares(p, minus(load_tail(x + i, n - i, mean), mean)); /* absent ones add +0 */
    return tree(p) / (float)n;
}

void vec_layer_norm_avx2(float *dst, const float *x, const float *weight, const float *bias, uint32_t n, float eps)
{
    float mean = mean_of(x, n), s = 1.0f / math_sqrt(variance_of(x, n, mean) + eps);
    uint32_t i = 0;
    for (; n - i >= 8; i += 8) {
        __m256 d = _mm256_mul_ps(_mm256_sub_ps(_mm256_loadu_ps(x + i), V8(mean)), V8(s)), w = _mm256_loadu_ps(weight + i);
        d = bias ? _mm256_fmadd_ps(d, w, _mm256_loadu_ps(bias + i)) : _mm256_mul_ps(d, w);
        _mm256_storeu_ps(dst + i, d);
    }
    for (; i < n; i++) {
        float d = (x[i] - mean) * s;
        dst[i] = bias ? fma_f32(d, weight[i], bias[i]) : d * weight[i];
    }
}

void vec_rope_table_avx2(float *table, const float *inv_freq, uint32_t n_half, uint32_t position, float mscale)
{
    const __m128 pos = _mm_set1_ps((float)position), m = _mm_set1_ps(mscale), sign = _mm_set1_ps(-0.0f);
    uint32_t i = 0;
    for (; n_half - i >= 4; i += 4) {
        __m128 a = _mm_mul_ps(pos, _mm_loadu_ps(inv_freq + i)), s, c;
        __m128 ok = _mm_cmp_ps(_mm_andnot_ps(sign, a), _mm_set1_ps(TRIG_MAX), _CMP_LT_OQ);
        if (_mm_movemask_ps(ok) != 0xF) {
            vec_rope_table_scalar(table + 2 * i, inv_freq + i, 4, position, mscale);
            continue;
        }
        math_sincos_avx2(a, &s, &c);
        s = _mm_mul_ps(s, m);
        c = _mm_mul_ps(c, m);
        _mm_storeu_ps(table + 2 * i, _mm_unpacklo_ps(c, s));
        _mm_storeu_ps(table + 2 * i + 4, _mm_unpackhi_ps(c, s));
    }
    vec_rope_table_scalar(table + 2 * i, inv_freq + i, n_half - i, position, mscale);
}

static inline void rotate(float *a, float *b, const float *cos_sin)
{
    float x = *a, y = *b, c = cos_sin[0], s = cos_sin[1];
    *a = fma_f32(x, c, -(y * s));
    *b = fma_f32(y, c, x * s);
}

void vec_rope_pairs_avx2(float *x, const float *table, uint32_t n_rot)
{
    uint32_t i = 0;
    n_rot &= ~1u;
    for (; n_rot - i >= 8; i += 8) {
        __m256 v = _mm256_loadu_ps(x + i), t = _mm256_loadu_ps(table + i);
        __m256 other = _mm256_mul_ps(_mm256_permute_ps(v, 0xB1), _mm256_movehdup_ps(t));
        _mm256_storeu_ps(x + i, _mm256_fmaddsub_ps(v, _mm256_moveldup_ps(t), other));
    }
    for (; i < n_rot; i += 2)
        rotate(x + i, x + i + 1, table + i);
}

void vec_rope_halves_avx2(float *x, const float *table, uint32_t n_rot)
{
    const __m256i order = _mm256_set_epi32(7, 6, 3, 2, 5, 4, 1, 0);
    uint32_t half = n_rot / 2, i = 0;
    for (; half - i >= 8; i += 8) {
        __m256 t0 = _mm256_loadu_ps(table + 2 * i), t1 = _mm256_loadu_ps(table + 2 * i + 8);
        __m256 c = _mm256_permutevar8x32_ps(_mm256_shuffle_ps(t0, t1, 0x88), order);
        __m256 s = _mm256_permutevar8x32_ps(_mm256_shuffle_ps(t0, t1, 0xDD), order);
        __m256 a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(x + half + i);
        _mm256_storeu_ps(x + i, _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)));
        _mm256_storeu_ps(x + half + i, _mm256_fmadd_ps(b, c, _mm256_mul_ps(a, s)));
    }
    for (; i < half; i++)
        rotate(x + i, x + half + i, table + 2 * i);
}

static inline __m256 silu(__m256 x)
{
    return _mm256_div_ps(x, _mm256_add_ps(V8(1.0f), math_exp_avx2(_mm256_xor_ps(x, V8(-0.0f)))));
}

static inline __m256 gelu_tanh(__m256 x)
{
    __m256 u = _mm256_mul_ps(x, _mm256_fmadd_ps(V8(GELU_3), _mm256_mul_ps(x, x), V8(GELU_1)));
    return _mm256_div_ps(x, _mm256_add_ps(V8(1.0f), math_exp_avx2(_mm256_xor_ps(u, V8(-0.0f)))));
}

static inline __m256 gelu_erf(__m256 x)
{
    __m256 e = math_erf_avx2(_mm256_mul_ps(x, V8(SQRT_HALF)));
    return _mm256_mul_ps(_mm256_mul_ps(V8(0.5f), x), _mm256_add_ps(V8(1.0f), e));
}

static inline __m256 relu(__m256 x)
{
    return _mm256_max_ps(x, _mm256_setzero_ps()); /* of a NaN or two zeros: the second operand */
}

#define ACT(name)                                                                                                      \
    void vec_##name##_avx2(float *dst, const float *gate, const float *up, size_t n)                                   \
    {                                                                                                                  \
        size_t i = 0;                                                                                                  \
        for (; n - i >= 8; i += 8) {                                                                                   \
            __m256 y = name(_mm256_loadu_ps(gate + i));                                                                \
            _mm256_storeu_ps(dst + i, up ? _mm256_mul_ps(y, _mm256_loadu_ps(up + i)) : y);                             \
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

void vec_add_avx2(float *dst, const float *src, size_t n)
{
    size_t i = 0;
    for (; n - i >= 8; i += 8)
        _mm256_storeu_ps(dst + i, _mm256_add_ps(_mm256_loadu_ps(dst + i), _mm256_loadu_ps(src + i)));
    for (; i < n; i++)
        dst[i] += src[i];
}

void vec_scale_avx2(float *x, size_t n, float factor)
{
    size_t i = 0;
    for (; n - i >= 8; i += 8)
        _mm256_storeu_ps(x + i, _mm256_mul_ps(_mm256_loadu_ps(x + i), V8(factor)));
    for (; i < n; i++)
        x[i] *= factor;
}

void vec_softcap_avx2(float *x, size_t n, float cap)
{
    size_t i = 0;
    for (; n - i >= 8; i += 8) {
        __m256 t = math_tanh_avx2(_mm256_div_ps(_mm256_loadu_ps(x + i), V8(cap)));
        _mm256_storeu_ps(x + i, _mm256_mul_ps(V8(cap), t));
    }
    for (; i < n; i++)
        x[i] = math_softcap(x[i], cap);
}

float vec_max_avx2(const float *x, size_t n)
{
    const float low = -__builtin_inff();
    struct v16 p = {V8(low), V8(low)};
    size_t i = 0;
    for (; n - i >= 16; i += 16) {
        p.lo = _mm256_max_ps(_mm256_loadu_ps(x + i), p.lo); /* the first when greater, else the second */
        p.hi = _mm256_max_ps(_mm256_loadu_ps(x + i + 8), p.hi);
    }
    if (i < n) {
        struct v16 v = load_tail(x + i, (uint32_t)(n - i), low);
        p.lo = _mm256_max_ps(v.lo, p.lo);
        p.hi = _mm256_max_ps(v.hi, p.hi);
    }
    __m256 a = _mm256_max_ps(p.hi, p.lo);
    __m128 b = _mm_max_ps(_mm256_extractf128_ps(a, 1), _mm256_castps256_ps128(a));
    b = _mm_max_ps(_mm_movehl_ps(b, b), b);
    return _mm_cvtss_f32(_mm_max_ss(_mm_movehdup_ps(b), b));
}

void vec_f32_to_f16_avx2(uint16_t *dst, const float *src, size_t n)
{
    size_t i = 0;
    for (; n - i >= 8; i += 8) {
        __m128i h = _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        _mm_storeu_si128((__m128i *)(void *)(dst + i), h);
    }
    for (; i < n; i++)
        dst[i] = f32_to_f16(src[i]);
}

void vec_f32_to_bf16_avx2(uint16_t *dst, const float *src, size_t n)
{
    const __m256i one = _mm256_set1_epi32(1), half = _mm256_set1_epi32(0x7FFF), quiet = _mm256_set1_epi32(0x40);
    size_t i = 0;
    for (; n - i >= 8; i += 8) {
        __m256 v = _mm256_loadu_ps(src + i);
        __m256i u = _mm256_castps_si256(v), top = _mm256_srli_epi32(u, 16);
        __m256i r = _mm256_add_epi32(_mm256_add_epi32(u, half), _mm256_and_si256(top, one));
        __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
        r = _mm256_blendv_epi8(_mm256_srli_epi32(r, 16), _mm256_or_si256(top, quiet), nan);
        __m128i h = _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1));
        _mm_storeu_si128((__m128i *)(void *)(dst + i), h);
    }
    for (; i < n; i++)
        dst[i] = f32_to_bf16(src[i]);
}

void vec_f16_to_f32_avx2(float *dst, const uint16_t *src, size_t n)
{
    size_t i = 0;
    for (; n - i >= 8; i += 8)
        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(src + i))));
    for (; i < n; i++)
        dst[i] = f16_to_f32(src[i]);
}

void vec_bf16_to_f32_avx2(float *dst, const uint16_t *src, size_t n)
{
    size_t i = 0;
    for (; n - i >= 8; i += 8) {
        __m256i u = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)(src + i)));
        _mm256_storeu_ps(dst + i, _mm256_castsi256_ps(_mm256_slli_epi32(u, 16)));
    }
    for (; i < n; i++)
        dst[i] = bf16_to_f32(src[i]);
}
