/* The elementary functions of math_scalar.h on 16 lanes: the same operations, so the same bits. Needs AVX-512 F and DQ. */
#ifndef KERNELS_MATH_AVX512_H
#define KERNELS_MATH_AVX512_H

#include <immintrin.h>

#include "kernels/math_const.h"
#include "kernels/math_scalar.h"

#define V16(c) _mm512_set1_ps(c)
#define D8(c)  _mm512_set1_pd(c)

static inline __m512 math_exp_avx512(__m512 x)
{
    x = _mm512_min_ps(V16(EXP_MAX), x); /* of a NaN: the second operand */
    x = _mm512_max_ps(V16(EXP_MIN), x);
    __m512 n = _mm512_sub_ps(_mm512_fmadd_ps(x, V16(LOG2EF), V16(MAGICF)), V16(MAGICF));
    __m512 r = _mm512_fmadd_ps(n, V16(-LN2F_0), x);
    r = _mm512_fmadd_ps(n, V16(-LN2F_1), r);
    __m512 p = _mm512_fmadd_ps(V16(EXP_C_4), r, V16(EXP_C_3));
    p = _mm512_fmadd_ps(p, r, V16(EXP_C_2));
    p = _mm512_fmadd_ps(p, r, V16(EXP_C_1));
    p = _mm512_fmadd_ps(p, r, V16(EXP_C_0));
    __m512 y = _mm512_add_ps(V16(1.0f), _mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r));
    return _mm512_scalef_ps(y, n); /* y * 2^n rounded once, as the two steps of the scalar form */
}

static inline __m512 math_sign_avx512(__m512 x, __m512 s)
{
    const __m512i sign = _mm512_set1_epi32(INT32_MIN);
    /* x where the sign mask is 0, s where it is 1 */
    return _mm512_castsi512_ps(
        _mm512_ternarylogic_epi32(sign, _mm512_castps_si512(s), _mm512_castps_si512(x), 0xCA));
}

static inline __m512 math_tanh_avx512(__m512 x)
{
    __m512 a = _mm512_abs_ps(x), z = _mm512_mul_ps(x, x);
    __m512 p = _mm512_fmadd_ps(V16(TANH_C_5), z, V16(TANH_C_4));
    p = _mm512_fmadd_ps(p, z, V16(TANH_C_3));
    p = _mm512_fmadd_ps(p, z, V16(TANH_C_2));
    p = _mm512_fmadd_ps(p, z, V16(TANH_C_1));
    p = _mm512_fmadd_ps(p, z, V16(TANH_C_0));
    p = _mm512_fmadd_ps(p, _mm512_mul_ps(z, a), a);
    __m512 e = _mm512_add_ps(math_exp_avx512(_mm512_add_ps(a, a)), V16(1.0f));
    __m512 big = _mm512_sub_ps(V16(1.0f), _mm512_div_ps(V16(2.0f), e));
    return math_sign_avx512(_mm512_mask_mov_ps(big, _mm512_cmp_ps_mask(a, V16(TANH_SPLIT), _CMP_LT_OQ), p), x);
}

static inline __m512 math_erf_avx512(__m512 x)
{
    __m512 a = _mm512_abs_ps(x), z = _mm512_mul_ps(x, x);
    __mmask16 small = _mm512_cmp_ps_mask(a, V16(ERF_SPLIT), _CMP_LT_OQ);
    __m512 q = _mm512_fmadd_ps(V16(ERF_C_6), z, V16(ERF_C_5));
    q = _mm512_fmadd_ps(q, z, V16(ERF_C_4));
    q = _mm512_fmadd_ps(q, z, V16(ERF_C_3));
    q = _mm512_fmadd_ps(q, z, V16(ERF_C_2));
    q = _mm512_fmadd_ps(q, z, V16(ERF_C_1));
    q = _mm512_fmadd_ps(q, z, V16(ERF_C_0));
    q = _mm512_fmadd_ps(q, x, x);
    a = _mm512_min_ps(V16(ERF_MAX), a);
    __m512 p = _mm512_fmadd_ps(V16(ERFC_C_8), a, V16(ERFC_C_7));
    p = _mm512_fmadd_ps(p, a, V16(ERFC_C_6));
    p = _mm512_fmadd_ps(p, a, V16(ERFC_C_5));
    p = _mm512_fmadd_ps(p, a, V16(ERFC_C_4));
    p = _mm512_fmadd_ps(p, a, V16(ERFC_C_3));
    p = _mm512_fmadd_ps(p, a, V16(ERFC_C_2));
    p = _mm512_fmadd_ps(p, a, V16(ERFC_C_1));
    p = _mm512_fmadd_ps(p, a, V16(ERFC_C_0));
    __m512 e = math_exp_avx512(_mm512_xor_ps(p, V16(-0.0f)));
    return _mm512_mask_mov_ps(math_sign_avx512(_mm512_sub_ps(V16(1.0f), e), x), small, q);
}

/* Eight angles; those of 2^31 or more, inf and NaN are left to the caller (math_sincos). Results of 8 lanes, low half. */
static inline void math_sincos_avx512(__m256 x, __m256 *sin, __m256 *cos)
{
    __m512d d = _mm512_cvtps_pd(x);
    __m512d t = _mm512_add_pd(_mm512_mul_pd(d, D8(TWO_OVER_PI)), D8(MAGICD)), n = _mm512_sub_pd(t, D8(MAGICD));
    __m512d r = _mm512_sub_pd(d, _mm512_mul_pd(n, D8(PIO2_0)));
    r = _mm512_sub_pd(r, _mm512_mul_pd(n, D8(PIO2_1)));
    r = _mm512_sub_pd(r, _mm512_mul_pd(n, D8(PIO2_2)));
    r = _mm512_sub_pd(r, _mm512_mul_pd(n, D8(PIO2_3)));
    __m512d z = _mm512_mul_pd(r, r);
    __m512d p = _mm512_add_pd(_mm512_mul_pd(D8(SIN_C_4), z), D8(SIN_C_3));
    p = _mm512_add_pd(_mm512_mul_pd(p, z), D8(SIN_C_2));
    p = _mm512_add_pd(_mm512_mul_pd(p, z), D8(SIN_C_1));
    p = _mm512_add_pd(_mm512_mul_pd(p, z), D8(SIN_C_0));
    __m512d q = _mm512_add_pd(_mm512_mul_pd(D8(COS_C_4), z), D8(COS_C_3));
    q = _mm512_add_pd(_mm512_mul_pd(q, z), D8(COS_C_2));
    q = _mm512_add_pd(_mm512_mul_pd(q, z), D8(COS_C_1));
    q = _mm512_add_pd(_mm512_mul_pd(q, z), D8(COS_C_0));
    p = _mm512_mul_pd(_mm512_add_pd(D8(1.0), _mm512_mul_pd(p, z)), r);
    q = _mm512_sub_pd(_mm512_mul_pd(_mm512_mul_pd(q, z), z), _mm512_mul_pd(D8(0.5), z));
    q = _mm512_add_pd(D8(1.0), q);
    __m512i k = _mm512_castpd_si512(t), one = _mm512_set1_epi64(1), two = _mm512_set1_epi64(2);
    __mmask8 swap = _mm512_test_epi64_mask(k, one);
    __m512d ys = _mm512_mask_mov_pd(p, swap, q), yc = _mm512_mask_mov_pd(q, swap, p);
    __m512d minus = D8(-0.0);
    ys = _mm512_mask_xor_pd(ys, _mm512_test_epi64_mask(k, two), ys, minus);
    yc = _mm512_mask_xor_pd(yc, _mm512_test_epi64_mask(_mm512_add_epi64(k, one), two), yc, minus);
    *sin = _mm512_cvtpd_ps(ys);
    *cos = _mm512_cvtpd_ps(yc);
}

#undef V16
#undef D8

#endif
