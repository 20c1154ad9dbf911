#include "kernels/x86/math_avx2.h"

static inline float reduce_max(__m256 x)
{
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    m = _mm_max_ss(m, _mm_movehdup_ps(m));
    return _mm_cvtss_f32(m);
}

#define NAME(x)            x##_avx2
#define LANES              8u
#define VF                 __m256
#define V_LOAD(p)          _mm256_loadu_ps(p)
#define V_STORE(p, v)      _mm256_storeu_ps(p, v)
#define V_SET1(x)          _mm256_set1_ps(x)
#define V_FMA(a, b, c)     _mm256_fmadd_ps(a, b, c)
#define V_ADD(a, b)        _mm256_add_ps(a, b)
#define V_SUB(a, b)        _mm256_sub_ps(a, b)
#define V_MUL(a, b)        _mm256_mul_ps(a, b)
#define V_DIV(a, b)        _mm256_div_ps(a, b)
#define V_MAX(a, b)        _mm256_max_ps(a, b)
#define V_REDUCE_MAX(a)    reduce_max(a)
#define V_EXP(a)           math_exp_avx2(a)
#define V_TANH(a)          math_tanh_avx2(a)
#define LOAD_8(p)          _mm_loadu_si128((const __m128i *)(const void *)(p))
#define V_LOAD_F16(p)      _mm256_cvtph_ps(LOAD_8(p))
#define V_LOAD_BF16(p)     _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(LOAD_8(p)), 16))
#define LOAD_8_BYTES(p)    _mm_loadl_epi64((const __m128i *)(const void *)(p))
#define V_LOAD_I8(p)       _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(LOAD_8_BYTES(p)))
#define WIDE(rows)         ((rows) <= 3 ? 4u : 2u)

#include "kernels/attn_simd.h"
