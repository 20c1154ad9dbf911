/* Vectors of 16 rows for mm_simd.h: AVX-512 F/BW/VL/DQ, with VNNI when MM_VNNI is 1. */
#ifndef KERNELS_MM_V512_H
#define KERNELS_MM_V512_H

#include <immintrin.h>
#include <stdint.h>

#include "kernels/mm_inline.h"

#define V_ROWS 16
#define V_COLS 8 /* columns in registers */

typedef __m512i vi;
typedef __m512 vf;

INLINE vi vset32(uint32_t v) { return _mm512_set1_epi32((int)v); }
INLINE vi vzero(void) { return _mm512_setzero_si512(); }
INLINE vi vand(vi a, vi b) { return _mm512_and_si512(a, b); }
INLINE vi vor(vi a, vi b) { return _mm512_or_si512(a, b); }
INLINE vi vxor(vi a, vi b) { return _mm512_xor_si512(a, b); }
INLINE vi vand_or(vi a, vi mask, vi b) { return _mm512_ternarylogic_epi32(a, mask, b, 0xEA); } /* (a & mask) | b */
INLINE vi vsrl(vi a, unsigned n) { return _mm512_srl_epi32(a, _mm_cvtsi32_si128((int)n)); } /* constant counts become immediate */
INLINE vi vsll(vi a, unsigned n) { return _mm512_slli_epi32(a, n); }
INLINE vi vsra(vi a, unsigned n) { return _mm512_srai_epi32(a, n); }
INLINE vi vadd32(vi a, vi b) { return _mm512_add_epi32(a, b); }
INLINE vi vsub32(vi a, vi b) { return _mm512_sub_epi32(a, b); }
INLINE vi vadd8(vi a, vi b) { return _mm512_add_epi8(a, b); }
INLINE vi vsub8(vi a, vi b) { return _mm512_sub_epi8(a, b); }
INLINE vi vadd16(vi a, vi b) { return _mm512_add_epi16(a, b); }
INLINE vi vsub16(vi a, vi b) { return _mm512_sub_epi16(a, b); }
INLINE vi vsll16(vi a, unsigned n) { return _mm512_slli_epi16(a, n); }
INLINE vi vmul16(vi a, vi b) { return _mm512_mullo_epi16(a, b); }
INLINE vi vmadd16(vi a, vi b) { return _mm512_madd_epi16(a, b); }
INLINE vi vmaddubs(vi u, vi s) { return _mm512_maddubs_epi16(u, s); }
INLINE vf vcvt(vi a) { return _mm512_cvtepi32_ps(a); }
INLINE vf vmul(vf a, vf b) { return _mm512_mul_ps(a, b); }
INLINE vf vfma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
INLINE vf vneg(vf a) { return _mm512_castsi512_ps(vxor(_mm512_castps_si512(a), vset32(0x80000000))); }
INLINE vf vasfloat(vi a) { return _mm512_castsi512_ps(a); }
INLINE vf vzerof(void) { return _mm512_setzero_ps(); }
INLINE vf vsetf(const float *p) { return _mm512_set1_ps(*p); }
INLINE vf vconstf(float v) { return _mm512_set1_ps(v); }
INLINE vf vloadf(const float *p) { return _mm512_loadu_ps(p); }
INLINE void vstoref(float *p, vf v) { _mm512_storeu_ps(p, v); }
INLINE void vstore(void *p, vi v) { _mm512_storeu_si512(p, v); }
INLINE vi vload(const void *p) { return _mm512_loadu_si512(p); }
INLINE vi vset_at(const void *p) { int v; __builtin_memcpy(&v, p, 4); return _mm512_set1_epi32(v); }
/* 16 bytes looked up by the low nibbles of `index`, whose other bits are 0. */
INLINE vi vlut(const void *table, vi index)
{
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)table)), index);
}
/* The halves in the low and the high 16 bits of the lanes. */
INLINE void vhalf_pair(vi a, vf *low, vf *high)
{
    const vi order = _mm512_set_epi16(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1,
                                      30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    vi w = _mm512_permutexvar_epi16(order, a);
    *low = _mm512_cvtph_ps(_mm512_castsi512_si256(w));
    *high = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(w, 1));
}
INLINE vf vhalf_low(vi a) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(a)); }
/* Bits 0..3 of each lane to whole bytes; other bits do not matter. */
INLINE vi vspread(vi a)
{
    const vi table = _mm512_setr_epi32(0, 0xff, 0xff00, 0xffff, 0xff0000, 0xff00ff, 0xffff00, 0xffffff, (int)0xff000000,
                                       (int)0xff0000ff, (int)0xff00ff00, (int)0xff00ffff, (int)0xffff0000, (int)0xffff00ff,
                                       (int)0xffffff00, -1);
    return _mm512_permutexvar_epi32(a, table);
}
/* Dwords at base + scale * index. */
#define vgather(base, index, scale) _mm512_i32gather_epi32(index, base, scale)
INLINE vi vzero_where(vi v, vi a, vi b) { return _mm512_mask_mov_epi32(v, _mm512_cmpeq_epi32_mask(a, b), vzero()); } /* a == b */

INLINE __m128i load16(const uint8_t *p) { return _mm_loadu_si128((const __m128i *)p); }

/* 16 bytes of rows 0, 4, 8, 12, where s4 is 4 rows. */
INLINE vi vpart(const uint8_t *p, uint64_t s4)
{
    vi v = _mm512_castsi128_si512(load16(p));
    v = _mm512_inserti32x4(v, load16(p + s4), 1);
    v = _mm512_inserti32x4(v, load16(p + 2 * s4), 2);
    return _mm512_inserti32x4(v, load16(p + 3 * s4), 3);
}

/* a, b, c, d: parts that begin at rows 0, 1, 2, 3. Lane r of o[j] is dword j of row r. */
INLINE void vtranspose(vi a, vi b, vi c, vi d, vi o[4])
{
    vi ab0 = _mm512_unpacklo_epi32(a, b), ab1 = _mm512_unpackhi_epi32(a, b);
    vi cd0 = _mm512_unpacklo_epi32(c, d), cd1 = _mm512_unpackhi_epi32(c, d);
    o[0] = _mm512_unpacklo_epi64(ab0, cd0);
    o[1] = _mm512_unpackhi_epi64(ab0, cd0);
    o[2] = _mm512_unpacklo_epi64(ab1, cd1);
    o[3] = _mm512_unpackhi_epi64(ab1, cd1);
}

INLINE int dword(const uint8_t *p) { int v; __builtin_memcpy(&v, p, 4); return v; }
INLINE short word(const uint8_t *p) { short v; __builtin_memcpy(&v, p, 2); return v; }

/* 4 bytes of each row. */
INLINE vi vrows4(const uint8_t *p, uint64_t s)
{
    __m128i v[4];
    for (int i = 0; i < 4; i++, p += 4 * s) {
        v[i] = _mm_cvtsi32_si128(dword(p));
        v[i] = _mm_insert_epi32(v[i], dword(p + s), 1);
        v[i] = _mm_insert_epi32(v[i], dword(p + 2 * s), 2);
        v[i] = _mm_insert_epi32(v[i], dword(p + 3 * s), 3);
    }
    __m256i lo = _mm256_inserti128_si256(_mm256_castsi128_si256(v[0]), v[1], 1);
    __m256i hi = _mm256_inserti128_si256(_mm256_castsi128_si256(v[2]), v[3], 1);
    return _mm512_inserti64x4(_mm512_castsi256_si512(lo), hi, 1);
}

INLINE uint64_t words4(const uint8_t *p, uint64_t s)
{
    return (uint64_t)(uint16_t)word(p) | (uint64_t)(uint16_t)word(p + s) << 16 |
           (uint64_t)(uint16_t)word(p + 2 * s) << 32 | (uint64_t)(uint16_t)word(p + 3 * s) << 48;
}

INLINE __m128i words8(const uint8_t *p, uint64_t s)
{
    return _mm_insert_epi64(_mm_cvtsi64_si128((long long)words4(p, s)), (long long)words4(p + 4 * s, s), 1);
}

/* A half of each row. Gathered in general registers: the vector ports are the bottleneck. */
INLINE vf vhalf(const uint8_t *p, uint64_t s)
{
    return _mm512_cvtph_ps(_mm256_inserti128_si256(_mm256_castsi128_si256(words8(p, s)), words8(p + 8 * s, s), 1));
}

/* A byte of each row. */
INLINE vi vrows1(const uint8_t *p, uint64_t s)
{
    uint8_t b[16];
    for (int i = 0; i < 16; i++)
        b[i] = p[i * s];
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)b));
}

INLINE void vprefetch(uintptr_t p) { _mm_prefetch((const char *)p, _MM_HINT_T1); }
INLINE void vprefetch_near(uintptr_t p) { _mm_prefetch((const char *)p, _MM_HINT_T0); }

#if MM_VNNI
INLINE vi vdpbusd(vi acc, vi u, vi s) { return _mm512_dpbusd_epi32(acc, u, s); }
/* acc + u * (the 4 bytes at q in every lane). gcc 12 does not fold the broadcast into the instruction by itself, and would spend a load of
 * the front end on it. */
INLINE vi vdpbusd_at(vi acc, vi u, const int8_t *q)
{
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(u), "m"(*(const int8_t(*)[4])q));
    return acc;
}
#endif

#endif
