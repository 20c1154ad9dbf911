#include <immintrin.h>
#include "limits_impl.h"

static double peak_int8(uint64_t repeats)
{
    __m512i sum[LIMIT_ACCUMULATORS], x = _mm512_set1_epi8(3), y = _mm512_set1_epi8(5);
    for (int k = 0; k < LIMIT_ACCUMULATORS; k++)
        sum[k] = _mm512_set1_epi32(k);
    for (uint64_t r = 0; r < repeats; r++) {
#pragma GCC unroll 14
        for (int k = 0; k < LIMIT_ACCUMULATORS; k++)
            sum[k] = _mm512_dpbusd_epi32(sum[k], x, y);
        __asm__ __volatile__("" : "+v"(x), "+v"(y));
    }
    for (int k = 0; k < LIMIT_ACCUMULATORS; k++)
        __asm__ __volatile__("" : : "v"(sum[k]));
    return (double)repeats * LIMIT_ACCUMULATORS * 64;
}

const struct limit_variant limits_avx512vnni = {.name = "avx512vnni", .level = INFER_CPU_AVX512VNNI, .int8 = peak_int8};
