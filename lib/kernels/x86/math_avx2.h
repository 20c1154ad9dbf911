/* The elementary functions of math_scalar.h on 8 lanes: the same operations, so the same bits. Needs AVX2 and FMA. */
#ifndef KERNELS_MATH_AVX2_H
#define KERNELS_MATH_AVX2_H

#include <immintrin.h>

#include "kernels/math_const.h"
#include "kernels/math_scalar.h"

#define V8(c) _mm256_set1_ps(c)
#define D4(c) _mm256_set1_pd(c)

static inline __m256 math_exp_avx2(__m256 x)
{
    x = _mm256_min_ps(V8(EXP_MAX), x); /* of a NaN: the second operand */
    x = _mm256_max_ps(V8(EXP_MIN), x);
    __m256 t = _mm256_fmadd_ps(x, V8(LOG2EF), V8(MAGICF)), n = _mm256_sub_ps(t, V8(MAGICF));
    __m256 r = _mm256_fmadd_ps(n, V8(-LN2F_0), x);
    r = _mm256_fmadd_ps(n, V8(-LN2F_1), r);
    __m256 p = _mm256_fmadd_ps(V8(EXP_C_4), r, V8(EXP_C_3));
    p = _mm256_fmadd_ps(p, r, V8(EXP_C_2));
    p = _mm256_fmadd_ps(p, r, V8(EXP_C_1));
    p = _mm256_fmadd_ps(p, r, V8(EXP_C_0));
    __m256 y = _mm256_add_ps(V8(1.0f), _mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r));
    __m256i k = _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_castps_si256(V8(MAGICF)));
    __m256i half = _mm256_srai_epi32(k, 1), bias = _mm256_set1_epi32(127);
    __m256i rest = _mm256_add_epi32(_mm256_sub_epi32(k, half), bias);
    half = _mm256_add_epi32(half, bias);
    y = _mm256_mul_ps(y, _mm256_castsi256_ps(_mm256_slli_epi32(half, 23)));
    return _mm256_mul_ps(y, _mm256_castsi256_ps(_mm256_slli_epi32(rest, 23)));
}

static inline __m256 math_sign_avx2(__m256 x, __m256 s)
{
    const __m256 sign = V8(-0.0f);
    return _mm256_or_ps(_mm256_andnot_ps(sign, x), _mm256_and_ps(sign, s));
}

static inline __m256 math_tanh_avx2(__m256 x)
{
    __m256 a = _mm256_andnot_ps(V8(-0.0f), x), z = _mm256_mul_ps(x, x);
    __m256 p = _mm256_fmadd_ps(V8(TANH_C_5), z, V8(TANH_C_4));
    p = _mm256_fmadd_ps(p, z, V8(TANH_C_3));
    p = _mm256_fmadd_ps(p, z, V8(TANH_C_2));
    p = _mm256_fmadd_ps(p, z, V8(TANH_C_1));
    p = _mm256_fmadd_ps(p, z, V8(TANH_C_0));
    p = _mm256_fmadd_ps(p, _mm256_mul_ps(z, a), a);
    __m256 e = _mm256_add_ps(math_exp_avx2(_mm256_add_ps(a, a)), V8(1.0f));
    __m256 big = _mm256_sub_ps(V8(1.0f), _mm256_div_ps(V8(2.0f), e));
    return math_sign_avx2(_mm256_blendv_ps(big, p, _mm256_cmp_ps(a, V8(TANH_SPLIT), _CMP_LT_OQ)), x);
}

static inline __m256 math_erf_avx2(__m256 x)
{
    __m256 a = _mm256_andnot_ps(V8(-0.0f), x), z = _mm256_mul_ps(x, x);
    __m256 small = _mm256_cmp_ps(a, V8(ERF_SPLIT), _CMP_LT_OQ);
    __m256 q = _mm256_fmadd_ps(V8(ERF_C_6), z, V8(ERF_C_5));
    q = _mm256_fmadd_ps(q, z, V8(ERF_C_4));
    q = _mm256_fmadd_ps(q, z, V8(ERF_C_3));
    q = _mm256_fmadd_ps(q, z, V8(ERF_C_2));
    q = _mm256_fmadd_ps(q, z, V8(ERF_C_1));
    q = _mm256_fmadd_ps(q, z, V8(ERF_C_0));
    q = _mm256_fmadd_ps(q, x, x);
    a = _mm256_min_ps(V8(ERF_MAX), a);
    __m256 p = _mm256_fmadd_ps(V8(ERFC_C_8), a, V8(ERFC_C_7));
    p = _mm256_fmadd_ps(p, a, V8(ERFC_C_6));
    p = _mm256_fmadd_ps(p, a, V8(ERFC_C_5));
    p = _mm256_fmadd_ps(p, a, V8(ERFC_C_4));
    p = _mm256_fmadd_ps(p, a, V8(ERFC_C_3));
    p = _mm256_fmadd_ps(p, a, V8(ERFC_C_2));
    p = _mm256_fmadd_ps(p, a, V8(ERFC_C_1));
    p = _mm256_fmadd_ps(p, a, V8(ERFC_C_0));
    __m256 e = math_exp_avx2(_mm256_xor_ps(p, V8(-0.0f)));
    return _mm256_blendv_ps(math_sign_avx2(_mm256_sub_ps(V8(1.0f), e), x), q, small);
}

/* Four angles; those of 2^31 or more, inf and NaN are left to the caller (math_sincos). */
static inline void math_sincos_avx2(__m128 x, __m128 *sin, __m128 *cos)
{
    __m256d d = _mm256_cvtps_pd(x);
    __m256d t = _mm256_add_pd(_mm256_mul_pd(d, D4(TWO_OVER_PI)), D4(MAGICD)), n = _mm256_sub_pd(t, D4(MAGICD));
    __m256d r = _mm256_sub_pd(d, _mm256_mul_pd(n, D4(PIO2_0)));
    r = _mm256_sub_pd(r, _mm256_mul_pd(n, D4(PIO2_1)));
    r = _mm256_sub_pd(r, _mm256_mul_pd(n, D4(PIO2_2)));
    r = _mm256_sub_pd(r, _mm256_mul_pd(n, D4(PIO2_3)));
    __m256d z = _mm256_mul_pd(r, r);
    __m256d p = _mm256_add_pd(_mm256_mul_pd(D4(SIN_C_4), z), D4(SIN_C_3));
    p = _mm256_add_pd(_mm256_mul_pd(p, z), D4(SIN_C_2));
    p = _mm256_add_pd(_mm256_mul_pd(p, z), D4(SIN_C_1));
    p = _mm256_add_pd(_mm256_mul_pd(p, z), D4(SIN_C_0));
    __m256d q = _mm256_add_pd(_mm256_mul_pd(D4(COS_C_4), z), D4(COS_C_3));
    q = _mm256_add_pd(_mm256_mul_pd(q, z), D4(COS_C_2));
    q = _mm256_add_pd(_mm256_mul_pd(q, z), D4(COS_C_1));
    q = _mm256_add_pd(_mm256_mul_pd(q, z), D4(COS_C_0));
    p = _mm256_mul_pd(_mm256_add_pd(D4(1.0), _mm256_mul_pd(p, z)), r);
    q = _mm256_sub_pd(_mm256_mul_pd(_mm256_mul_pd(q, z), z), _mm256_mul_pd(D4(0.5), z));
    q = _mm256_add_pd(D4(1.0), q);
    /* bits 0 and 1 of the quadrant moved to the sign */
    __m256i k = _mm256_castpd_si256(t);
    __m256i k1 = _mm256_add_epi64(k, _mm256_set1_epi64x(1));
    __m256d swap = _mm256_castsi256_pd(_mm256_slli_epi64(k, 63)), minus = D4(-0.0);
    __m256d ys = _mm256_blendv_pd(p, q, swap), yc = _mm256_blendv_pd(q, p, swap);
    ys = _mm256_xor_pd(ys, _mm256_and_pd(minus, _mm256_castsi256_pd(_mm256_slli_epi64(k, 62))));
    yc = _mm256_xor_pd(yc, _mm256_and_pd(minus, _mm256_castsi256_pd(_mm256_slli_epi64(k1, 62))));
    *sin = _mm256_cvtpd_ps(ys);
    *cos = _mm256_cvtpd_ps(yc);
}

#undef V8
#undef D4

#endif
