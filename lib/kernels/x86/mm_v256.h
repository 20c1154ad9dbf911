/* Vectors of 8 rows for mm_simd.h: AVX2, FMA and F16C, with AVX-VNNI when MM_VNNI is 1. Documented in mm_v512.h. */
#ifndef KERNELS_MM_V256_H
#define KERNELS_MM_V256_H

#include <immintrin.h>
#include <stdint.h>

#include "kernels/mm_inline.h"

#define V_ROWS 8
#define V_COLS 4

typedef __m256i vi;
typedef __m256 vf;

INLINE vi vset32(uint32_t v) { return _mm256_set1_epi32((int)v); }
INLINE vi vzero(void) { return _mm256_setzero_si256(); }
INLINE vi vand(vi a, vi b) { return _mm256_and_si256(a, b); }
INLINE vi vor(vi a, vi b) { return _mm256_or_si256(a, b); }
INLINE vi vxor(vi a, vi b) { return _mm256_xor_si256(a, b); }
INLINE vi vand_or(vi a, vi mask, vi b) { return vor(vand(a, mask), b); }
INLINE vi vsrl(vi a, unsigned n) { return _mm256_srl_epi32(a, _mm_cvtsi32_si128((int)n)); }
INLINE vi vsll(vi a, unsigned n) { return _mm256_slli_epi32(a, (int)n); }
INLINE vi vsra(vi a, unsigned n) { return _mm256_srai_epi32(a, (int)n); }
INLINE vi vadd32(vi a, vi b) { return _mm256_add_epi32(a, b); }
INLINE vi vsub32(vi a, vi b) { return _mm256_sub_epi32(a, b); }
INLINE vi vadd8(vi a, vi b) { return _mm256_add_epi8(a, b); }
INLINE vi vsub8(vi a, vi b) { return _mm256_sub_epi8(a, b); }
INLINE vi vadd16(vi a, vi b) { return _mm256_add_epi16(a, b); }
INLINE vi vsub16(vi a, vi b) { return _mm256_sub_epi16(a, b); }
INLINE vi vsll16(vi a, unsigned n) { return _mm256_slli_epi16(a, (int)n); }
INLINE vi vmul16(vi a, vi b) { return _mm256_mullo_epi16(a, b); }
INLINE vi vmadd16(vi a, vi b) { return _mm256_madd_epi16(a, b); }
INLINE vi vmaddubs(vi u, vi s) { return _mm256_maddubs_epi16(u, s); }
INLINE vf vcvt(vi a) { return _mm256_cvtepi32_ps(a); }
INLINE vf vmul(vf a, vf b) { return _mm256_mul_ps(a, b); }
INLINE vf vfma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
INLINE vf vneg(vf a) { return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f)); }
INLINE vf vasfloat(vi a) { return _mm256_castsi256_ps(a); }
INLINE vf vzerof(void) { return _mm256_setzero_ps(); }
INLINE vf vsetf(const float *p) { return _mm256_broadcast_ss(p); }
INLINE vf vconstf(float v) { return _mm256_set1_ps(v); }
INLINE vf vloadf(const float *p) { return _mm256_loadu_ps(p); }
INLINE void vstoref(float *p, vf v) { _mm256_storeu_ps(p, v); }
INLINE void vstore(void *p, vi v) { _mm256_storeu_si256((__m256i *)p, v); }
INLINE vi vload(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
INLINE vi vset_at(const void *p) { int v; __builtin_memcpy(&v, p, 4); return _mm256_set1_epi32(v); }
INLINE vi vlut(const void *table, vi index)
{
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table)), index);
}
INLINE vf vhalf_low(vi a)
{
    vi words = _mm256_packus_epi32(vand(a, vset32(0xffff)), vzero());
    return _mm256_cvtph_ps(_mm256_castsi256_si128(_mm256_permute4x64_epi64(words, 0x08)));
}
INLINE void vhalf_pair(vi a, vf *low, vf *high)
{
    vi words = _mm256_packus_epi32(vand(a, vset32(0xffff)), vsrl(a, 16));
    words = _mm256_permute4x64_epi64(words, 0xD8);
    *low = _mm256_cvtph_ps(_mm256_castsi256_si128(words));
    *high = _mm256_cvtph_ps(_mm256_extracti128_si256(words, 1));
}
INLINE vi vspread(vi a)
{
    vi copies = _mm256_shuffle_epi8(a, _mm256_set_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0, 0x0c0c0c0c, 0x08080808, 0x04040404, 0));
    vi bits = vset32(0x08040201);
    return _mm256_cmpeq_epi8(vand(copies, bits), bits);
}
#define vgather(base, index, scale) _mm256_i32gather_epi32((const int *)(base), index, scale)
INLINE vi vzero_where(vi v, vi a, vi b) { return _mm256_andnot_si256(_mm256_cmpeq_epi32(a, b), v); }

INLINE __m128i load16(const uint8_t *p) { return _mm_loadu_si128((const __m128i *)p); }

INLINE vi vpart(const uint8_t *p, uint64_t s4)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load16(p)), load16(p + s4), 1);
}

INLINE void vtranspose(vi a, vi b, vi c, vi d, vi o[4])
{
    vi ab0 = _mm256_unpacklo_epi32(a, b), ab1 = _mm256_unpackhi_epi32(a, b);
    vi cd0 = _mm256_unpacklo_epi32(c, d), cd1 = _mm256_unpackhi_epi32(c, d);
    o[0] = _mm256_unpacklo_epi64(ab0, cd0);
    o[1] = _mm256_unpackhi_epi64(ab0, cd0);
    o[2] = _mm256_unpacklo_epi64(ab1, cd1);
    o[3] = _mm256_unpackhi_epi64(ab1, cd1);
}

INLINE int dword(const uint8_t *p) { int v; __builtin_memcpy(&v, p, 4); return v; }
INLINE short word(const uint8_t *p) { short v; __builtin_memcpy(&v, p, 2); return v; }

INLINE vi vrows4(const uint8_t *p, uint64_t s)
{
    __m128i v[2];
    for (int i = 0; i < 2; i++, p += 4 * s) {
        v[i] = _mm_cvtsi32_si128(dword(p));
        v[i] = _mm_insert_epi32(v[i], dword(p + s), 1);
        v[i] = _mm_insert_epi32(v[i], dword(p + 2 * s), 2);
        v[i] = _mm_insert_epi32(v[i], dword(p + 3 * s), 3);
    }
    return _mm256_inserti128_si256(_mm256_castsi128_si256(v[0]), v[1], 1);
}

INLINE uint64_t words4(const uint8_t *p, uint64_t s)
{
    return (uint64_t)(uint16_t)word(p) | (uint64_t)(uint16_t)word(p + s) << 16 |
           (uint64_t)(uint16_t)word(p + 2 * s) << 32 | (uint64_t)(uint16_t)word(p + 3 * s) << 48;
}

INLINE vf vhalf(const uint8_t *p, uint64_t s)
{
    __m128i v = _mm_cvtsi64_si128((long long)words4(p, s));
    return _mm256_cvtph_ps(_mm_insert_epi64(v, (long long)words4(p + 4 * s, s), 1));
}

INLINE vi vrows1(const uint8_t *p, uint64_t s)
{
    uint8_t b[8];
    for (int i = 0; i < 8; i++)
        b[i] = p[i * s];
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)b));
}

INLINE void vprefetch(uintptr_t p) { _mm_prefetch((const char *)p, _MM_HINT_T1); }
INLINE void vprefetch_near(uintptr_t p) { _mm_prefetch((const char *)p, _MM_HINT_T0); }

#if MM_VNNI
INLINE vi vdpbusd_at(vi acc, vi u, const int8_t *q) { return _mm256_dpbusd_avx_epi32(acc, u, vset_at(q)); }
#endif

#endif
