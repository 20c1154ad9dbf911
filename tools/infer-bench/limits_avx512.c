#include <immintrin.h>
#define LIMITS_VECTOR 64
#include "limits_read.h"

enum { N = 8 };

/* As AVX2's, twice as wide. */
static double peak_int8(uint64_t repeats)
{
    __m512i sum[N], x = _mm512_set1_epi8(3), y = _mm512_set1_epi8(5), one = _mm512_set1_epi16(1);
    for (int k = 0; k < N; k++)
        sum[k] = _mm512_set1_epi32(k);
    for (uint64_t r = 0; r < repeats; r++) {
#pragma GCC unroll 8
        for (int k = 0; k < N; k++) {
            __asm__ __volatile__("" : "+v"(x), "+v"(y));
            __m512i p = _mm512_maddubs_epi16(x, y);
            __asm__ __volatile__("" : "+v"(x), "+v"(y));
            p = _mm512_add_epi16(p, _mm512_maddubs_epi16(x, y));
            sum[k] = _mm512_add_epi32(sum[k], _mm512_madd_epi16(p, one));
        }
    }
    for (int k = 0; k < N; k++)
        __asm__ __volatile__("" : : "v"(sum[k]));
    return (double)repeats * N * 128;
}

static double peak_f32(uint64_t repeats)
{
    __m512 sum[LIMIT_ACCUMULATORS], x = _mm512_set1_ps(0.5f), y = _mm512_set1_ps(0.25f);
    for (int k = 0; k < LIMIT_ACCUMULATORS; k++)
        sum[k] = _mm512_set1_ps((float)k);
    for (uint64_t r = 0; r < repeats; r++) {
#pragma GCC unroll 14
        for (int k = 0; k < LIMIT_ACCUMULATORS; k++)
            sum[k] = _mm512_fmadd_ps(sum[k], x, y);
        __asm__ __volatile__("" : "+v"(x), "+v"(y));
    }
    for (int k = 0; k < LIMIT_ACCUMULATORS; k++)
        __asm__ __volatile__("" : : "v"(sum[k]));
    return (double)repeats * LIMIT_ACCUMULATORS * 16;
}

const struct limit_variant limits_avx512 = {"avx512", INFER_CPU_AVX512, READ_ENTRIES, peak_int8, peak_f32};
