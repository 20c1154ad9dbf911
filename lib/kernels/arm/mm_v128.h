/* Vectors of 4 rows for mm_simd.h: AArch64. Documented in x86/mm_v512.h. MM_DOT says what multiplies bytes: 0 the plain widening products
 * of every AArch64, 1 sdot too, 2 also usdot and usmmla. */
#ifndef KERNELS_MM_V128_H
#define KERNELS_MM_V128_H

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/mm_inline.h"

#define V_ROWS 4
#define MM_OWN_DOTS /* mm_dot.h */

typedef uint32x4_t vi __attribute__((may_alias)); /* tiles of bytes are read as vectors */
typedef float32x4_t vf;

INLINE vi of8(uint8x16_t a) { return vreinterpretq_u32_u8(a); }
INLINE vi of16(uint16x8_t a) { return vreinterpretq_u32_u16(a); }
INLINE uint8x16_t as8(vi a) { return vreinterpretq_u8_u32(a); }
INLINE int8x16_t as_s8(vi a) { return vreinterpretq_s8_u32(a); }
INLINE uint16x8_t as16(vi a) { return vreinterpretq_u16_u32(a); }

INLINE vi vset32(uint32_t v) { return vdupq_n_u32(v); }
INLINE vi vzero(void) { return vdupq_n_u32(0); }
INLINE vi vand(vi a, vi b) { return vandq_u32(a, b); }
INLINE vi vor(vi a, vi b) { return vorrq_u32(a, b); }
INLINE vi vxor(vi a, vi b) { return veorq_u32(a, b); }
INLINE vi vand_or(vi a, vi mask, vi b) { return vorrq_u32(vandq_u32(a, mask), b); }
/* By operators, which become immediate shifts when n is constant: the intrinsics take literals only. */
INLINE vi vsrl(vi a, unsigned n) { return a >> vdupq_n_u32(n); }
INLINE vi vsll(vi a, unsigned n) { return a << vdupq_n_u32(n); }
INLINE vi vsra(vi a, unsigned n) { return vreinterpretq_u32_s32(vreinterpretq_s32_u32(a) >> vdupq_n_s32((int)n)); }
INLINE vi vsll16(vi a, unsigned n) { return of16(as16(a) << vdupq_n_u16((uint16_t)n)); }
INLINE vi vadd32(vi a, vi b) { return vaddq_u32(a, b); }
INLINE vi vsub32(vi a, vi b) { return vsubq_u32(a, b); }
INLINE vi vadd8(vi a, vi b) { return of8(vaddq_u8(as8(a), as8(b))); }
INLINE vi vsub8(vi a, vi b) { return of8(vsubq_u8(as8(a), as8(b))); }
INLINE vi vadd16(vi a, vi b) { return of16(vaddq_u16(as16(a), as16(b))); }
INLINE vi vsub16(vi a, vi b) { return of16(vsubq_u16(as16(a), as16(b))); }
INLINE vi vmul16(vi a, vi b) { return of16(vmulq_u16(as16(a), as16(b))); }
INLINE vf vcvt(vi a) { return vcvtq_f32_s32(vreinterpretq_s32_u32(a)); }
INLINE vf vmul(vf a, vf b) { return vmulq_f32(a, b); }
INLINE vf vneg(vf a) { return vnegq_f32(a); }
INLINE vf vasfloat(vi a) { return vreinterpretq_f32_u32(a); }
INLINE vf vzerof(void) { return vdupq_n_f32(0.0f); }
INLINE vf vconstf(float v) { return vdupq_n_f32(v); }
INLINE vf vloadf(const float *p) { return vld1q_f32(p); }
INLINE void vstoref(float *p, vf v) { vst1q_f32(p, v); }
INLINE void vstore(void *p, vi v) { vst1q_u8((uint8_t *)p, as8(v)); }
INLINE vi vload(const void *p) { return of8(vld1q_u8((const uint8_t *)p)); }
INLINE vi vlut(const void *table, vi index) { return of8(vqtbl1q_u8(vld1q_u8((const uint8_t *)table), as8(index))); }
INLINE vf half4(uint16x4_t h) { return vcvt_f32_f16(vreinterpret_f16_u16(h)); }
INLINE vf vhalf_low(vi a) { return half4(vmovn_u32(a)); }
INLINE void vhalf_pair(vi a, vf *low, vf *high)
{
    *low = half4(vmovn_u32(a));
    *high = half4(vshrn_n_u32(a, 16));
}
INLINE vi vspread(vi a)
{
    const uint8x16_t bits = as8(vset32(0x08040201)); /* every byte of a lane is to see its lowest byte */
    vi low = vand(a, vset32(15));
    low = vor(low, vsll(low, 8));
    return of8(vtstq_u8(as8(vor(low, vsll(low, 16))), bits));
}
INLINE vi gather4(const uint8_t *base, vi index, unsigned scale)
{
    uint32_t i[4], v[4];
    vst1q_u32(i, index);
    for (int r = 0; r < 4; r++)
        __builtin_memcpy(&v[r], base + (size_t)i[r] * scale, 4);
    return vld1q_u32(v);
}
#define vgather(base, index, scale) gather4((const uint8_t *)(base), index, scale)
INLINE vi vzero_where(vi v, vi a, vi b) { return vbicq_u32(v, vceqq_u32(a, b)); }

INLINE vi vpart(const uint8_t *p, uint64_t s4)
{
    (void)s4;
    return of8(vld1q_u8(p));
}

INLINE void vtranspose(vi a, vi b, vi c, vi d, vi o[4])
{
    uint64x2_t ab0 = vreinterpretq_u64_u32(vtrn1q_u32(a, b)), ab1 = vreinterpretq_u64_u32(vtrn2q_u32(a, b));
    uint64x2_t cd0 = vreinterpretq_u64_u32(vtrn1q_u32(c, d)), cd1 = vreinterpretq_u64_u32(vtrn2q_u32(c, d));
    o[0] = vreinterpretq_u32_u64(vtrn1q_u64(ab0, cd0));
    o[1] = vreinterpretq_u32_u64(vtrn1q_u64(ab1, cd1));
    o[2] = vreinterpretq_u32_u64(vtrn2q_u64(ab0, cd0));
    o[3] = vreinterpretq_u32_u64(vtrn2q_u64(ab1, cd1));
}

INLINE uint32_t dword(const uint8_t *p) { uint32_t v; __builtin_memcpy(&v, p, 4); return v; }
INLINE uint16_t word(const uint8_t *p) { uint16_t v; __builtin_memcpy(&v, p, 2); return v; }

INLINE vi vrows4(const uint8_t *p, uint64_t s)
{
    vi v = vdupq_n_u32(dword(p));
    v = vsetq_lane_u32(dword(p + s), v, 1);
    v = vsetq_lane_u32(dword(p + 2 * s), v, 2);
    return vsetq_lane_u32(dword(p + 3 * s), v, 3);
}

INLINE vf vhalf(const uint8_t *p, uint64_t s)
{
    uint16x4_t v = vdup_n_u16(word(p));
    v = vset_lane_u16(word(p + s), v, 1);
    v = vset_lane_u16(word(p + 2 * s), v, 2);
    return half4(vset_lane_u16(word(p + 3 * s), v, 3));
}

INLINE vi vrows1(const uint8_t *p, uint64_t s)
{
    vi v = vdupq_n_u32(p[0]);
    v = vsetq_lane_u32(p[s], v, 1);
    v = vsetq_lane_u32(p[2 * s], v, 2);
    return vsetq_lane_u32(p[3 * s], v, 3);
}

INLINE void vprefetch(uintptr_t p) { __builtin_prefetch((const void *)p, 0, 2); }
INLINE void vprefetch_near(uintptr_t p) { __builtin_prefetch((const void *)p, 0, 3); }

#endif
