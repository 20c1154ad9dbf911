/* Row kernels on 16 lanes; the orders are in vec.h. Tails go through masks: absent elements are neither read nor written. */
#include "kernels/vec.h"
#include "kernels/x86/math_avx512.h"

#define V16(c) _mm512_set1_ps(c)

/* Lanes of the last, partial vector. */
static inline __mmask16 tail_mask(size_t n)
{
    return (__mmask16)((1u << (n & 15)) - 1);
}

/* The tree of math_tree: + 8, + 4, + 2, + 1. */
static inline float tree(__m512 p)
{
    __m256 a = _mm256_add_ps(_mm512_castps512_ps256(p), _mm512_extractf32x8_ps(p, 1));
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}

void vec_rms_norm_avx512(float *dst, const float *x, const float *weight, uint32_t n, float eps)
{
    uint32_t full = n & ~15u;
    __mmask16 tail = tail_mask(n);
    __m512 p = _mm512_setzero_ps();
    for (uint32_t i = 0; i < full; i += 16) {
        __m512 v = _mm512_loadu_ps(x + i);
        p = _mm512_fmadd_ps(v, v, p);
    }
    if (tail) {
        __m512 v = _mm512_maskz_loadu_ps(tail, x + full);
        p = _mm512_fmadd_ps(v, v, p);
    }
    __m512 s = V16(1.0f / math_sqrt(tree(p) / (float)n + eps));
    for (uint32_t i = 0; i < full; i += 16)
        _mm512_storeu_ps(dst + i, _mm512_mul_ps(_mm512_mul_ps(_mm512_loadu_ps(x + i), s), _mm512_loadu_ps(weight + i)));
    if (tail) {
        __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(tail, x + full), s);
        _mm512_mask_storeu_ps(dst + full, tail, _mm512_mul_ps(v, _mm512_maskz_loadu_ps(tail, weight + full)));
    }
}

static float mean_of(const float *x, uint32_t n)
{
    uint32_t full = n & ~15u;
    __m512 p = _mm512_setzero_ps();
    for (uint32_t i = 0; i < full; i += 16)
        p = _mm512_add_ps(p, _mm512_loadu_ps(x + i));
    if (tail_mask(n))
        p = _mm512_add_ps(p, _mm512_maskz_loadu_ps(tail_mask(n), x + full));
    return tree(p) / (float)n;
}

static float variance_of(const float *x, uint32_t n, float mean)
{
    uint32_t full = n & ~15u;
    __m512 p = _mm512_setzero_ps();
    for (uint32_t i = 0; i < full; i += 16) {
        __m512 d = _mm512_sub_ps(_mm512_loadu_ps(x + i), V16(mean));
        p = _mm512_fmadd_ps(d, d, p);
    }
    if (tail_mask(n)) {
        __m512 d = _mm512_sub_ps(_mm512_maskz_loadu_ps(tail_mask(n), x + full), V16(mean));
        p = _mm512_mask3_fmadd_ps(d, d, p, tail_mask(n));
    }
    return tree(p) / (float)n;
}

void vec_layer_norm_avx512(float *dst, const float *x, const float *weight, const float *bias, uint32_t n, float eps)
{
    float mean = mean_of(x, n);
    __m512 s = V16(1.0f / math_sqrt(variance_of(x, n, mean) + eps));
    for (uint32_t i = 0; i < n; i += 16) {
        __mmask16 m = n - i < 16 ? tail_mask(n) : 0xFFFF;
        __m512 d = _mm512_mul_ps(_mm512_sub_ps(_mm512_maskz_loadu_ps(m, x + i), V16(mean)), s);
        __m512 w = _mm512_maskz_loadu_ps(m, weight + i);
        d = bias ? _mm512_fmadd_ps(d, w, _mm512_maskz_loadu_ps(m, bias + i)) : _mm512_mul_ps(d, w);
        _mm512_mask_storeu_ps(dst + i, m, d);
    }
}

void vec_rope_table_avx512(float *table, const float *inv_freq, uint32_t n_half, uint32_t position, float mscale)
{
    const __m256 pos = _mm256_set1_ps((float)position), abs = _mm256_castsi256_ps(_mm256_set1_epi32(INT32_MAX));
    const __m512i weave = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    uint32_t i = 0;
    for (; i + 8 <= n_half; i += 8) {
        __m256 a = _mm256_mul_ps(pos, _mm256_loadu_ps(inv_freq + i)), s, c;
        __m256 ok = _mm256_cmp_ps(_mm256_and_ps(a, abs), _mm256_set1_ps(TRIG_MAX), _CMP_LT_OQ);
        if (_mm256_movemask_ps(ok) != 0xFF) {
            vec_rope_table_scalar(table + 2 * i, inv_freq + i, 8, position, mscale);
            continue;
        }
        math_sincos_avx512(a, &s, &c);
        __m512 t = _mm512_permutex2var_ps(_mm512_castps256_ps512(c), weave, _mm512_castps256_ps512(s));
        _mm512_storeu_ps(table + 2 * i, _mm512_mul_ps(t, V16(mscale)));
    }
    vec_rope_table_scalar(table + 2 * i, inv_freq + i, n_half - i, position, mscale);
}

void vec_rope_pairs_avx512(float *x, const float *table, uint32_t n_rot)
{
    n_rot &= ~1u;
    for (uint32_t i = 0; i < n_rot; i += 16) {
        __mmask16 m = n_rot - i < 16 ? tail_mask(n_rot) : 0xFFFF;
        __m512 v = _mm512_maskz_loadu_ps(m, x + i), t = _mm512_maskz_loadu_ps(m, table + i);
        __m512 other = _mm512_mul_ps(_mm512_permute_ps(v, 0xB1), _mm512_movehdup_ps(t));
        _mm512_mask_storeu_ps(x + i, m, _mm512_fmaddsub_ps(v, _mm512_moveldup_ps(t), other));
    }
}

void vec_rope_halves_avx512(float *x, const float *table, uint32_t n_rot)
{
    const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    uint32_t half = n_rot / 2;
    for (uint32_t i = 0; i < half; i += 16) {
        uint32_t left = half - i < 16 ? half - i : 16;
        __mmask16 m = left < 16 ? tail_mask(left) : 0xFFFF;
        __mmask16 m0 = left < 8 ? tail_mask(2 * left) : 0xFFFF, m1 = left < 8 ? 0 : left < 16 ? tail_mask(2 * left) : 0xFFFF;
        __m512 t0 = _mm512_maskz_loadu_ps(m0, table + 2 * i), t1 = _mm512_maskz_loadu_ps(m1, table + 2 * i + 16);
        __m512 c = _mm512_permutex2var_ps(t0, even, t1), s = _mm512_permutex2var_ps(t0, odd, t1);
        __m512 a = _mm512_maskz_loadu_ps(m, x + i), b = _mm512_maskz_loadu_ps(m, x + half + i);
        _mm512_mask_storeu_ps(x + i, m, _mm512_fmsub_ps(a, c, _mm512_mul_ps(b, s)));
        _mm512_mask_storeu_ps(x + half + i, m, _mm512_fmadd_ps(b, c, _mm512_mul_ps(a, s)));
    }
}

static inline __m512 silu(__m512 x)
{
    __m512 e = math_exp_avx512(_mm512_xor_ps(x, V16(-0.0f)));
    return _mm512_div_ps(x, _mm512_add_ps(V16(1.0f), e));
}

static inline __m512 gelu_tanh(__m512 x)
{
    __m512 u = _mm512_mul_ps(x, _mm512_fmadd_ps(V16(GELU_3), _mm512_mul_ps(x, x), V16(GELU_1)));
    __m512 e = math_exp_avx512(_mm512_xor_ps(u, V16(-0.0f)));
    return _mm512_div_ps(x, _mm512_add_ps(V16(1.0f), e));
}

static inline __m512 gelu_erf(__m512 x)
{
    __m512 e = math_erf_avx512(_mm512_mul_ps(x, V16(SQRT_HALF)));
    return _mm512_mul_ps(_mm512_mul_ps(V16(0.5f), x), _mm512_add_ps(V16(1.0f), e));
}

static inline __m512 relu(__m512 x)
{
    return _mm512_max_ps(x, _mm512_setzero_ps()); /* of a NaN or two zeros: the second operand */
}

static inline __m512 relu2(__m512 x)
{
    return _mm512_mul_ps(relu(x), relu(x));
}

#define ACT(name)                                                                                                      \
    void vec_##name##_avx512(float *dst, const float *gate, const float *up, size_t n)                                 \
    {                                                                                                                  \
        for (size_t i = 0; i < n; i += 16) {                                                                           \
            __mmask16 m = n - i < 16 ? tail_mask(n) : 0xFFFF;                                                          \
            __m512 y = name(_mm512_maskz_loadu_ps(m, gate + i));                                                       \
            if (up)                                                                                                    \
                y = _mm512_mul_ps(y, _mm512_maskz_loadu_ps(m, up + i));                                                \
            _mm512_mask_storeu_ps(dst + i, m, y);                                                                      \
        }                                                                                                              \
    }
ACT(silu)
ACT(gelu_tanh)
ACT(gelu_erf)
ACT(relu)
ACT(relu2)

void vec_add_avx512(float *dst, const float *src, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 m = n - i < 16 ? tail_mask(n) : 0xFFFF;
        __m512 v = _mm512_add_ps(_mm512_maskz_loadu_ps(m, dst + i), _mm512_maskz_loadu_ps(m, src + i));
        _mm512_mask_storeu_ps(dst + i, m, v);
    }
}

void vec_scale_avx512(float *x, size_t n, float factor)
{
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 m = n - i < 16 ? tail_mask(n) : 0xFFFF;
        _mm512_mask_storeu_ps(x + i, m, _mm512_mul_ps(_mm512_maskz_loadu_ps(m, x + i), V16(factor)));
    }
}

void vec_expand_avx512(float *y, const float *w, size_t stride, const float *t, uint32_t rank, size_t n)
{
    size_t i = 0;
    for (; n - i >= 64; i += 64) {
        __m512 a[4] = {V16(0), V16(0), V16(0), V16(0)};
        for (uint32_t k = 0; k < rank; k++)
            for (int v = 0; v < 4; v++)
                a[v] = _mm512_fmadd_ps(_mm512_loadu_ps(w + k * stride + i + 16 * v), V16(t[k]), a[v]);
        for (int v = 0; v < 4; v++)
            _mm512_storeu_ps(y + i + 16 * v, _mm512_add_ps(_mm512_loadu_ps(y + i + 16 * v), a[v]));
    }
    for (; i < n; i += 16) {
        __mmask16 m = n - i < 16 ? tail_mask(n) : 0xFFFF;
        __m512 a = V16(0);
        for (uint32_t k = 0; k < rank; k++)
            a = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(m, w + k * stride + i), V16(t[k]), a);
        _mm512_mask_storeu_ps(y + i, m, _mm512_add_ps(_mm512_maskz_loadu_ps(m, y + i), a));
    }
}

void vec_softcap_avx512(float *x, size_t n, float cap)
{
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 m = n - i < 16 ? tail_mask(n) : 0xFFFF;
        __m512 t = math_tanh_avx512(_mm512_div_ps(_mm512_maskz_loadu_ps(m, x + i), V16(cap)));
        _mm512_mask_storeu_ps(x + i, m, _mm512_mul_ps(V16(cap), t));
    }
}

float vec_max_avx512(const float *x, size_t n)
{
    const __m512 low = V16(-__builtin_inff());
    size_t full = n & ~(size_t)15;
    __m512 p = low;
    for (size_t i = 0; i < full; i += 16)
        p = _mm512_max_ps(_mm512_loadu_ps(x + i), p); /* the first when greater, else the second */
    if (tail_mask(n))
        p = _mm512_max_ps(_mm512_mask_loadu_ps(low, tail_mask(n), x + full), p);
    __m256 a = _mm256_max_ps(_mm512_extractf32x8_ps(p, 1), _mm512_castps512_ps256(p));
    __m128 b = _mm_max_ps(_mm256_extractf128_ps(a, 1), _mm256_castps256_ps128(a));
    b = _mm_max_ps(_mm_movehl_ps(b, b), b);
    return _mm_cvtss_f32(_mm_max_ss(_mm_movehdup_ps(b), b));
}

void vec_f32_to_f16_avx512(uint16_t *dst, const float *src, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 m = n - i < 16 ? tail_mask(n) : 0xFFFF;
        __m256i h = _mm512_cvtps_ph(_mm512_maskz_loadu_ps(m, src + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        _mm256_mask_storeu_epi16(dst + i, m, h);
    }
}

void vec_f32_to_bf16_avx512(uint16_t *dst, const float *src, size_t n)
{
    const __m512i one = _mm512_set1_epi32(1), half = _mm512_set1_epi32(0x7FFF), quiet = _mm512_set1_epi32(0x40);
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 m = n - i < 16 ? tail_mask(n) : 0xFFFF;
        __m512 v = _mm512_maskz_loadu_ps(m, src + i);
        __m512i u = _mm512_castps_si512(v), top = _mm512_srli_epi32(u, 16);
        __m512i r = _mm512_add_epi32(_mm512_add_epi32(u, half), _mm512_and_si512(top, one));
        r = _mm512_srli_epi32(r, 16);
        r = _mm512_mask_or_epi32(r, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), top, quiet);
        _mm256_mask_storeu_epi16(dst + i, m, _mm512_cvtepi32_epi16(r));
    }
}

void vec_f16_to_f32_avx512(float *dst, const uint16_t *src, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 m = n - i < 16 ? tail_mask(n) : 0xFFFF;
        _mm512_mask_storeu_ps(dst + i, m, _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m, src + i)));
    }
}

void vec_bf16_to_f32_avx512(float *dst, const uint16_t *src, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 m = n - i < 16 ? tail_mask(n) : 0xFFFF;
        __m512i u = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, src + i));
        _mm512_mask_storeu_epi32(dst + i, m, _mm512_slli_epi32(u, 16));
    }
}
