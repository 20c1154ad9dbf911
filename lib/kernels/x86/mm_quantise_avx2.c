/* Activations to 8 bits. */
#include <immintrin.h>
#include <stdint.h>

static inline __m256i abs_bits(const float *x)
{
    return _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(const void *)x), _mm256_set1_epi32(0x7FFFFFFF));
}

static inline uint32_t amax_bits(const float *x)
{
    __m256i a = _mm256_max_epi32(_mm256_max_epi32(abs_bits(x), abs_bits(x + 8)),
                                 _mm256_max_epi32(abs_bits(x + 16), abs_bits(x + 24)));
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4E));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xB1));
    return (uint32_t)_mm_cvtsi128_si32(m);
}

/* The sum of the 8 lanes. */
static inline int32_t sum8(__m256i v)
{
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4E));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xB1));
    return _mm_cvtsi128_si32(s);
}

static inline void codes32(const float *x, float inverse, int8_t *out, int32_t s[2])
{
    __m256i q[4];
    for (int i = 0; i < 4; i++)
        q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), _mm256_set1_ps(inverse)));
    s[0] = sum8(_mm256_add_epi32(q[0], q[1]));
    s[1] = sum8(_mm256_add_epi32(q[2], q[3]));
    __m256i words01 = _mm256_packs_epi32(q[0], q[1]), words23 = _mm256_packs_epi32(q[2], q[3]);
    __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(words01, words23),
                                                _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256((__m256i *)(void *)out, bytes);
}

#define MM_QUANTISE mm_quantise_avx2
#include "kernels/mm_quantise.h"
