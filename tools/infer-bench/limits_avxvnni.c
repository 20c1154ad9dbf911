#include <immintrin.h>
#include "limits_impl.h"

static double peak_int8(uint64_t repeats)
{
    __m256i sum[LIMIT_ACCUMULATORS], x = _mm256_set1_epi8(3), y = _mm256_set1_epi8(5);
    for (int k = 0; k < LIMIT_ACCUMULATORS; k++)
        sum[k] = _mm256_set1_epi32(k);
    for (uint64_t r = 0; r < repeats; r++) {
#pragma GCC unroll 14
        for (int k = 0; k < LIMIT_ACCUMULATORS; k++)
            sum[k] = _mm256_dpbusd_avx_epi32(sum[k], x, y);
        __asm__ __volatile__("" : "+x"(x), "+x"(y));
    }
    for (int k = 0; k < LIMIT_ACCUMULATORS; k++)
        __asm__ __volatile__("" : : "x"(sum[k]));
    return (double)repeats * LIMIT_ACCUMULATORS * 32;
}

const struct limit_variant limits_avxvnni = {.name = "avxvnni", .level = INFER_CPU_AVXVNNI, .int8 = peak_int8};
