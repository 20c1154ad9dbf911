#include <immintrin.h>
#define LIMITS_VECTOR 64
#define LIMITS_REGISTER "v"
#include "limits_peak.h"
#include "limits_read.h"

/* As AVX2's, twice as wide. */
#define MADDUBS(sum, x, y)                                                                                             \
    do {                                                                                                               \
        HIDE(x, y);                                                                                                    \
        __m512i p = _mm512_maddubs_epi16(x, y);                                                                        \
        HIDE(x, y);                                                                                                    \
        p = _mm512_add_epi16(p, _mm512_maddubs_epi16(x, y));                                                           \
        sum = _mm512_add_epi32(sum, _mm512_madd_epi16(p, _mm512_set1_epi16(1)));                                       \
    } while (0)
#define FMA(sum, x, y)   sum = _mm512_fmadd_ps(sum, x, y)
#define FLOAT_START(k)   _mm512_set1_ps((float)(k))

PEAK_LOOP(peak_int8, 8, __m512i, _mm512_set1_epi32, _mm512_set1_epi8(3), _mm512_set1_epi8(5), MADDUBS, 128)
PEAK_LOOP(peak_f32, LIMIT_ACCUMULATORS, __m512, FLOAT_START, _mm512_set1_ps(0.5f), _mm512_set1_ps(0.25f), FMA, 16)

const struct limit_variant limits_avx512 = {"avx512", INFER_CPU_AVX512, READ_ENTRIES, peak_int8, peak_f32};
