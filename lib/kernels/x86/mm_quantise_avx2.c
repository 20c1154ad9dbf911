/* Activations to 8 bits: see mm_scalar.c, whose bits these are. */
#include <immintrin.h>
#include <string.h>

#include "base/half.h"
#include "kernels/mm_list.h"

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

static inline void quantise_block(const float *x, struct mm_xblock *out)
{
    uint32_t amax = amax_bits(x);
    if (amax >= 0x7F800000 || amax < 0x0D800000) { /* not finite, or below 2^-100 */
        memset(out, 0, sizeof *out);
        if (amax >= 0x7F800000)
            out->d = out->dsum = f32_of_bits(0x7FC00000);
        return;
    }
    __m256 inverse = _mm256_set1_ps(127.0f / f32_of_bits(amax));
    __m256i q[4];
    for (int i = 0; i < 4; i++)
        q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), inverse));
    int32_t s0 = sum8(_mm256_add_epi32(q[0], q[1])), s1 = sum8(_mm256_add_epi32(q[2], q[3])), sum = s0 + s1;
    __m256i words01 = _mm256_packs_epi32(q[0], q[1]), words23 = _mm256_packs_epi32(q[2], q[3]);
    __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(words01, words23),
                                                _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256((__m256i *)(void *)out->q, bytes);
    out->d = f32_of_bits(amax) / 127.0f;
    out->dsum = out->d * (float)sum;
    out->s[0] = (int16_t)s0;
    out->s[1] = (int16_t)s1;
    out->nz[0] = -8 * sum;
    out->nz[1] = -16 * sum;
    out->nz[2] = -128 * sum;
    out->nz32[0] = -32 * s0;
    out->nz32[1] = -32 * s1;
}

void mm_quantise_avx2(const float *x, uint32_t n, struct mm_xblock *out)
{
    for (uint32_t b = 0; b < n / 32; b++)
        quantise_block(x + 32 * b, out + b);
}
