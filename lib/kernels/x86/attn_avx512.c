#include "kernels/x86/math_avx512.h"

#define NAME(x)            x##_avx512
#define LANES              16u
#define VF                 __m512
#define V_LOAD(p)          _mm512_loadu_ps(p)
#define V_STORE(p, v)      _mm512_storeu_ps(p, v)
#define V_SET1(x)          _mm512_set1_ps(x)
#define V_FMA(a, b, c)     _mm512_fmadd_ps(a, b, c)
#define V_ADD(a, b)        _mm512_add_ps(a, b)
#define V_SUB(a, b)        _mm512_sub_ps(a, b)
#define V_MUL(a, b)        _mm512_mul_ps(a, b)
#define V_DIV(a, b)        _mm512_div_ps(a, b)
#define V_MAX(a, b)        _mm512_max_ps(a, b)
#define V_REDUCE_MAX(a)    _mm512_reduce_max_ps(a)
#define V_EXP(a)           math_exp_avx512(a)
#define V_TANH(a)          math_tanh_avx512(a)
#define V_LOAD_F16(p)      _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(p)))
#define BF16_16(h)         _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16))
#define V_LOAD_BF16(p)     BF16_16(_mm256_loadu_si256((const __m256i *)(const void *)(p)))
#define I8_16(c)           _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(c))
#define V_LOAD_I8(p)       I8_16(_mm_loadu_si128((const __m128i *)(const void *)(p)))
#define V_HALF_I8(p)       I8_16(_mm_loadl_epi64((const __m128i *)(const void *)(p)))
#define WIDE(rows)         4u
#define HALF_LOADS
#define LOAD_8(p)          _mm256_zextsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)(p)))
#define V_HALF_F32(p)      _mm512_zextps256_ps512(_mm256_loadu_ps(p))
#define V_HALF_F16(p)      _mm512_cvtph_ps(LOAD_8(p))
#define V_HALF_BF16(p)     BF16_16(LOAD_8(p))

#include "kernels/attn_simd.h"
