#include <immintrin.h>
#define LIMITS_VECTOR 32
#include "limits_read.h"

enum { N = 8 }; /* accumulators of the 8-bit loop: it needs registers for its steps */

/* Two unsigned by signed byte products, added in 16 bits, widened once: 64 multiply-adds in 5 instructions. */
static double peak_int8(uint64_t repeats)
{
    __m256i sum[N], x = _mm256_set1_epi8(3), y = _mm256_set1_epi8(5), one = _mm256_set1_epi16(1);
    for (int k = 0; k < N; k++)
        sum[k] = _mm256_set1_epi32(k);
    for (uint64_t r = 0; r < repeats; r++) {
#pragma GCC unroll 8
        for (int k = 0; k < N; k++) {
            __asm__ __volatile__("" : "+x"(x), "+x"(y));
            __m256i p = _mm256_maddubs_epi16(x, y);
            __asm__ __volatile__("" : "+x"(x), "+x"(y));
            p = _mm256_add_epi16(p, _mm256_maddubs_epi16(x, y));
            sum[k] = _mm256_add_epi32(sum[k], _mm256_madd_epi16(p, one));
        }
    }
    for (int k = 0; k < N; k++)
        __asm__ __volatile__("" : : "x"(sum[k]));
    return (double)repeats * N * 64;
}

static double peak_f32(uint64_t repeats)
{
    __m256 sum[LIMIT_ACCUMULATORS], x = _mm256_set1_ps(0.5f), y = _mm256_set1_ps(0.25f);
    for (int k = 0; k < LIMIT_ACCUMULATORS; k++)
        sum[k] = _mm256_set1_ps((float)k);
    for (uint64_t r = 0; r < repeats; r++) {
#pragma GCC unroll 14
        for (int k = 0; k < LIMIT_ACCUMULATORS; k++)
            sum[k] = _mm256_fmadd_ps(sum[k], x, y); /* stays bounded: no subnormals, no overflow */
        __asm__ __volatile__("" : "+x"(x), "+x"(y));
    }
    for (int k = 0; k < LIMIT_ACCUMULATORS; k++)
        __asm__ __volatile__("" : : "x"(sum[k]));
    return (double)repeats * LIMIT_ACCUMULATORS * 8;
}

const struct limit_variant limits_avx2 = {"avx2", INFER_CPU_AVX2, READ_ENTRIES, peak_int8, peak_f32};
