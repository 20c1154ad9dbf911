/* Products with float weights on 16 lanes: one register is the 16 partials of one output. */
#include <immintrin.h>

#define NAME(x)          x##_avx512
#define LANES            16
#define VF               __m512
#define V_ZERO()         _mm512_setzero_ps()
#define V_LOAD(p)        _mm512_loadu_ps(p)
#define V_STORE(p, v)    _mm512_storeu_ps(p, v)
#define V_FMA(a, b, c)   _mm512_fmadd_ps(a, b, c)
#define LOAD_16(p)       _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define V_LOAD_F16(p)    _mm512_cvtph_ps(LOAD_16(p))
#define V_LOAD_BF16(p)   _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(LOAD_16(p)), 16))
#define V_SUM_4(dst, p)  sum_4(dst, p)
#define TILE_COLS        6
#define FEW_COLS         6
#define FEW_ROWS         4
#define ONE_ROWS         4

/* Four trees at once: + 8, + 4, + 2, + 1 in each. */
static inline void sum_4(float *dst, const float *p)
{
    __m512 a = _mm512_loadu_ps(p), b = _mm512_loadu_ps(p + 16), c = _mm512_loadu_ps(p + 32), d = _mm512_loadu_ps(p + 48);
    __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
    __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xEE));
    __m512 t = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xDD));
    t = _mm512_add_ps(t, _mm512_permute_ps(t, 0x4E));
    t = _mm512_add_ps(t, _mm512_permute_ps(t, 0xB1));
    /* the first lane of each quarter */
    _mm_storeu_ps(dst, _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, t)));
}

#include "kernels/fmm_simd.h"
