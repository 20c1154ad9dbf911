#include <immintrin.h>
#define LIMITS_REGISTER "x"
#include "limits_peak.h"

#define DOT(sum, x, y) sum = _mm256_dpbusd_avx_epi32(sum, x, y)
PEAK_LOOP(peak_int8, LIMIT_ACCUMULATORS, __m256i, _mm256_set1_epi32, _mm256_set1_epi8(3), _mm256_set1_epi8(5), DOT, 32)

const struct limit_variant limits_avxvnni = {.name = "avxvnni", .level = INFER_CPU_AVXVNNI, .int8 = peak_int8};
