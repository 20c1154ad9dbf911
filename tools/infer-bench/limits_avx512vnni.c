#include <immintrin.h>
#define LIMITS_REGISTER "v"
#include "limits_peak.h"

#define DOT(sum, x, y) sum = _mm512_dpbusd_epi32(sum, x, y)
PEAK_LOOP(peak_int8, LIMIT_ACCUMULATORS, __m512i, _mm512_set1_epi32, _mm512_set1_epi8(3), _mm512_set1_epi8(5), DOT, 64)

const struct limit_variant limits_avx512vnni = {.name = "avx512vnni", .level = INFER_CPU_AVX512VNNI, .int8 = peak_int8};
