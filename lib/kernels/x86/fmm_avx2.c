/* Products with float weights on 8 lanes: two registers are the 16 partials of one output. */
#include <immintrin.h>

#define NAME(x)          x##_avx2
#define LANES            8
#define VF               __m256
#define V_ZERO()         _mm256_setzero_ps()
#define V_LOAD(p)        _mm256_loadu_ps(p)
#define V_STORE(p, v)    _mm256_storeu_ps(p, v)
#define V_FMA(a, b, c)   _mm256_fmadd_ps(a, b, c)
#define LOAD_8(p)        _mm_loadu_si128((const __m128i *)(const void *)(p))
#define V_LOAD_F16(p)    _mm256_cvtph_ps(LOAD_8(p))
#define V_LOAD_BF16(p)   _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(LOAD_8(p)), 16))
#define V_SUM_4(dst, p)  sum_4(dst, p)
#define TILE_COLS        3
#define FEW_COLS         3
#define FEW_ROWS         2
#define ONE_ROWS         4

/* The tree's steps + 8 and + 4. */
static inline __m128 fold(const float *p)
{
    __m256 a = _mm256_add_ps(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8));
    return _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
}

static inline void sum_4(float *dst, const float *p)
{
    __m128 a = fold(p), b = fold(p + 16), c = fold(p + 32), d = fold(p + 48);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(dst, _mm_add_ps(_mm_add_ps(a, c), _mm_add_ps(b, d)));
}

#include "kernels/fmm_simd.h"
