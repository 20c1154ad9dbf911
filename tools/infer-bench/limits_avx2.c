#include <immintrin.h>
#define LIMITS_VECTOR 32
#define LIMITS_REGISTER "x"
#include "limits_peak.h"
#include "limits_read.h"

/* Two unsigned by signed byte products, added in 16 bits, widened once: 64 multiply-adds in 5 instructions. */
#define MADDUBS(sum, x, y)                                                                                             \
    do {                                                                                                               \
        HIDE(x, y);                                                                                                    \
        __m256i p = _mm256_maddubs_epi16(x, y);                                                                        \
        HIDE(x, y);                                                                                                    \
        p = _mm256_add_epi16(p, _mm256_maddubs_epi16(x, y));                                                           \
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(p, _mm256_set1_epi16(1)));                                       \
    } while (0)
#define FMA(sum, x, y)   sum = _mm256_fmadd_ps(sum, x, y) /* stays bounded: no subnormals, no overflow */
#define FLOAT_START(k)   _mm256_set1_ps((float)(k))

/* 8 sums: it needs registers for its steps. */
PEAK_LOOP(peak_int8, 8, __m256i, _mm256_set1_epi32, _mm256_set1_epi8(3), _mm256_set1_epi8(5), MADDUBS, 64)
PEAK_LOOP(peak_f32, LIMIT_ACCUMULATORS, __m256, FLOAT_START, _mm256_set1_ps(0.5f), _mm256_set1_ps(0.25f), FMA, 8)

const struct limit_variant limits_avx2 = {"avx2", INFER_CPU_AVX2, READ_ENTRIES, peak_int8, peak_f32};
