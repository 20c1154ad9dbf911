/* Row kernels on 8 lanes: vec_simd.h with AVX2's vectors, and the rotations. */
#include "kernels/x86/math_avx2.h"

static inline float sum_8(__m256 v)
{
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}

static inline float max_8(__m256 v)
{
    __m128 b = _mm_max_ps(_mm256_extractf128_ps(v, 1), _mm256_castps256_ps128(v));
    b = _mm_max_ps(_mm_movehl_ps(b, b), b);
    return _mm_cvtss_f32(_mm_max_ss(_mm_movehdup_ps(b), b));
}

static inline __m128i halves(const uint16_t *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

static inline void store_f16(uint16_t *p, __m256 v)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

static inline void store_bf16(uint16_t *p, __m256 v)
{
    const __m256i one = _mm256_set1_epi32(1), half = _mm256_set1_epi32(0x7FFF), quiet = _mm256_set1_epi32(0x40);
    __m256i u = _mm256_castps_si256(v), top = _mm256_srli_epi32(u, 16);
    __m256i r = _mm256_add_epi32(_mm256_add_epi32(u, half), _mm256_and_si256(top, one));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    r = _mm256_blendv_epi8(_mm256_srli_epi32(r, 16), _mm256_or_si256(top, quiet), nan);
    _mm_storeu_si128((__m128i *)(void *)p, _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1)));
}

#define NAME(x)            x##_avx2
#define LANES              8u
#define VF                 __m256
#define V_SET(c)           _mm256_set1_ps(c)
#define V_LOAD(p)          _mm256_loadu_ps(p)
#define V_STORE(p, v)      _mm256_storeu_ps(p, v)
#define V_ADD(a, b)        _mm256_add_ps(a, b)
#define V_SUB(a, b)        _mm256_sub_ps(a, b)
#define V_MUL(a, b)        _mm256_mul_ps(a, b)
#define V_DIV(a, b)        _mm256_div_ps(a, b)
#define V_NEG(a)           _mm256_xor_ps(a, _mm256_set1_ps(-0.0f))
#define V_FMA(a, b, c)     _mm256_fmadd_ps(a, b, c)
#define V_GREATER(x, m)    _mm256_max_ps(x, m) /* of a NaN or two zeros: the second */
#define V_EXP(x)           math_exp_avx2(x)
#define V_TANH(x)          math_tanh_avx2(x)
#define V_ERF(x)           math_erf_avx2(x)
#define V_SUM(v)           sum_8(v)
#define V_MAX(v)           max_8(v)
#define V_LOAD_F16(p)      _mm256_cvtph_ps(halves(p))
#define V_LOAD_BF16(p)     _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves(p)), 16))
#define V_STORE_F16(p, v)  store_f16(p, v)
#define V_STORE_BF16(p, v) store_bf16(p, v)

#include "kernels/vec_simd.h"

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
