/* Elementary functions, the same bits on every CPU: IEEE additions, multiplications, divisions and fma in a fixed order, never
 * the C library's. The vector forms in x86/math_*.h and arm/math_neon.h carry out the same operations lane by lane. Error bounds
 * (measured by tests/kernels/test_math.c) in ulp of the result: exp 1.02, tanh 1.5, erf 1.1, sin and cos 0.501, log 0.501.
 * A NaN argument gives a NaN, whose sign and payload are unspecified. */
#ifndef KERNELS_MATH_SCALAR_H
#define KERNELS_MATH_SCALAR_H

#include <stdint.h>
#include <string.h>

#include "kernels/fma.h"
#include "kernels/math_const.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

static inline uint32_t math_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}

static inline float math_float(uint32_t u)
{
    float x;
    memcpy(&x, &u, 4);
    return x;
}

static inline uint64_t math_bits_d(double x)
{
    uint64_t u;
    memcpy(&u, &x, 8);
    return u;
}

static inline double math_double(uint64_t u)
{
    double x;
    memcpy(&x, &u, 8);
    return x;
}

static inline float math_abs(float x)
{
    return math_float(math_bits(x) & 0x7FFFFFFFu);
}

/* |x| with the sign of s */
static inline float math_sign(float x, float s)
{
    return math_float((math_bits(x) & 0x7FFFFFFFu) | (math_bits(s) & 0x80000000u));
}

/* Correctly rounded; an instruction, not a call that sets errno. */
static inline float math_sqrt(float x)
{
#if defined(__SSE2__)
    return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x)));
#elif defined(__aarch64__)
    return vget_lane_f32(vsqrt_f32(vdup_n_f32(x)), 0);
#else
    return __builtin_sqrtf(x);
#endif
}

/* The end of every strided sum: 16 partials, p[l] += p[l + 8], then + 4, + 2, + 1. */
static inline float math_tree(float p[16])
{
    for (int step = 8; step; step /= 2)
        for (int l = 0; l < step; l++)
            p[l] += p[l + step];
    return p[0];
}

/* exp(+inf) = inf, exp(-inf) = 0, subnormal results rounded once. */
static inline float math_exp(float x)
{
    x = EXP_MAX < x ? EXP_MAX : x;
    x = EXP_MIN > x ? EXP_MIN : x;
    float t = fma_f32(x, LOG2EF, MAGICF), n = t - MAGICF;
    float r = fma_f32(n, -LN2F_0, x);
    r = fma_f32(n, -LN2F_1, r);
    float p = fma_f32(EXP_C_4, r, EXP_C_3);
    p = fma_f32(p, r, EXP_C_2);
    p = fma_f32(p, r, EXP_C_1);
    p = fma_f32(p, r, EXP_C_0);
    float y = 1.0f + fma_f32(p, r * r, r);
    /* times 2^n in two steps: the first is exact, the second rounds when the result is subnormal */
    uint32_t k = math_bits(t) - math_bits(MAGICF);
    uint32_t half = (uint32_t)((int32_t)k >> 1);
    return y * math_float((half + 127) << 23) * math_float((k - half + 127) << 23);
}

/* Odd, exact at 0; 1 from about 9.01 on. */
static inline float math_tanh(float x)
{
    float a = math_abs(x), z = x * x;
    if (a < TANH_SPLIT) {
        float p = fma_f32(TANH_C_5, z, TANH_C_4);
        p = fma_f32(p, z, TANH_C_3);
        p = fma_f32(p, z, TANH_C_2);
        p = fma_f32(p, z, TANH_C_1);
        p = fma_f32(p, z, TANH_C_0);
        return math_sign(fma_f32(p, z * a, a), x);
    }
    return math_sign(1.0f - 2.0f / (math_exp(a + a) + 1.0f), x);
}

/* Odd; 1 from about 3.92 on. */
static inline float math_erf(float x)
{
    float a = math_abs(x), z = x * x, p;
    if (a < ERF_SPLIT) {
        p = fma_f32(ERF_C_6, z, ERF_C_5);
        p = fma_f32(p, z, ERF_C_4);
        p = fma_f32(p, z, ERF_C_3);
        p = fma_f32(p, z, ERF_C_2);
        p = fma_f32(p, z, ERF_C_1);
        p = fma_f32(p, z, ERF_C_0);
        return fma_f32(p, x, x);
    }
    a = ERF_MAX < a ? ERF_MAX : a;
    p = fma_f32(ERFC_C_8, a, ERFC_C_7);
    p = fma_f32(p, a, ERFC_C_6);
    p = fma_f32(p, a, ERFC_C_5);
    p = fma_f32(p, a, ERFC_C_4);
    p = fma_f32(p, a, ERFC_C_3);
    p = fma_f32(p, a, ERFC_C_2);
    p = fma_f32(p, a, ERFC_C_1);
    p = fma_f32(p, a, ERFC_C_0);
    return math_sign(1.0f - math_exp(-p), x);
}

static inline float math_silu(float x)
{
    return x / (1.0f + math_exp(-x));
}

static inline float math_gelu_tanh(float x)
{
    return x / (1.0f + math_exp(-(x * fma_f32(GELU_3, x * x, GELU_1))));
}

static inline float math_gelu_erf(float x)
{
    return (0.5f * x) * (1.0f + math_erf(x * SQRT_HALF));
}

static inline float math_relu(float x)
{
    return x > 0.0f ? x : 0.0f;
}

static inline float math_relu2(float x)
{
    return math_relu(x) * math_relu(x);
}

static inline float math_softcap(float x, float cap)
{
    return cap * math_tanh(x / cap);
}

/* x * 2/pi for |x| >= 2^31: the quadrant and the rest of the quotient in [-1/2, 1/2], by multiplication with the 96 bits of 2/pi
 * that matter: those above only add whole turns. (Payne and Hanek, "Radian reduction for trigonometric functions", 1983.) */
static inline double math_reduce_huge(float x, uint32_t *quadrant)
{
    static const uint32_t two_over_pi[6] = {0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041};
    uint32_t u = math_bits(x) & 0x7FFFFFFFu;
    uint64_t m = (u & 0x7FFFFFu) | 0x800000u; /* |x| = m * 2^e, 8 <= e <= 104 */
    uint32_t e = (u >> 23) - 150;
    /* The 96 bits of weight 2^-(e-1) and below: times m modulo 4, in units of 2^-94. */
    uint32_t skip = e - 2, word = skip / 32, shift = skip % 32, w[3];
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t next = word + i + 1 < 6 ? two_over_pi[word + i + 1] : 0;
        w[i] = (uint32_t)((((uint64_t)two_over_pi[word + i] << 32 | next) << shift) >> 32);
    }
    uint64_t p2 = m * w[2], p1 = m * w[1] + (p2 >> 32), p0 = m * w[0] + (p1 >> 32);
    uint64_t q = p0 << 32 | (p1 & 0xFFFFFFFFu); /* the quotient modulo 4 in units of 2^-62 */
    uint64_t k = (q + ((uint64_t)1 << 61)) >> 62;
    *quadrant = (uint32_t)k;
    double f = (double)(int64_t)(q - (k << 62)) * 0x1p-62;
    if (math_bits(x) >> 31) {
        *quadrant = (uint32_t)-k;
        f = -f;
    }
    return f;
}

/* x = n * pi/2 + r, |r| <= pi/4 (and a rounding error); returns r in double and n modulo 4. */
static inline double math_reduce(float x, uint32_t *quadrant)
{
    if (math_abs(x) >= TRIG_MAX) {
        if ((math_bits(x) & 0x7F800000u) == 0x7F800000u) {
            *quadrant = 0;
            return (double)(x - x); /* inf and NaN give NaN */
        }
        double f = math_reduce_huge(x, quadrant);
        return f * (1 / TWO_OVER_PI);
    }
    double d = (double)x, t = d * TWO_OVER_PI + MAGICD, n = t - MAGICD;
    *quadrant = (uint32_t)math_bits_d(t);
    return ((d - n * PIO2_0) - n * PIO2_1) - n * PIO2_2 - n * PIO2_3;
}

static inline void math_sincos(float x, float *sin, float *cos)
{
    uint32_t n;
    double r = math_reduce(x, &n), z = r * r;
    double p = SIN_C_4 * z + SIN_C_3;
    p = p * z + SIN_C_2;
    p = p * z + SIN_C_1;
    p = p * z + SIN_C_0;
    double q = COS_C_4 * z + COS_C_3;
    q = q * z + COS_C_2;
    q = q * z + COS_C_1;
    q = q * z + COS_C_0;
    float s = (float)((1.0 + p * z) * r), c = (float)(1.0 + ((q * z) * z - 0.5 * z));
    float ys = n & 1 ? c : s, yc = n & 1 ? s : c;
    *sin = n & 2 ? -ys : ys;
    *cos = (n + 1) & 2 ? -yc : yc;
}

/* Natural logarithm in double, error at most 1 ulp; negative: NaN; 0: -inf. */
static inline double math_log_d(double x)
{
    uint64_t u = math_bits_d(x);
    if (!(x > 0))
        return x == 0 ? -math_double((uint64_t)0x7FF << 52) : math_double((uint64_t)0x7FF8 << 48);
    if (u >> 52 == 0x7FF)
        return x;
    int32_t k = 0;
    if (u >> 52 == 0) {
        u = math_bits_d(x * 0x1p54);
        k = -54;
    }
    /* x = m * 2^k, sqrt(1/2) <= m < sqrt(2) */
    uint64_t adjust = u + (((uint64_t)0x3FF << 52) - 0x3FE6A09E667F3BCDu);
    k += (int32_t)(adjust >> 52) - 0x3FF;
    double m = math_double((adjust & 0xFFFFFFFFFFFFFu) + 0x3FE6A09E667F3BCDu);
    double f = m - 1.0, s = f / (2.0 + f), z = s * s;
    double p = LOG_C_7 * z + LOG_C_6;
    p = p * z + LOG_C_5;
    p = p * z + LOG_C_4;
    p = p * z + LOG_C_3;
    p = p * z + LOG_C_2;
    p = p * z + LOG_C_1;
    p = p * z + LOG_C_0;
    /* 2s = f - s * f keeps f exact where the result is small */
    double n = (double)k;
    return n * LN2D_0 + (f - (s * (f - z * p) - n * LN2D_1));
}

static inline double math_exp_d(double x)
{
    if (x != x)
        return x;
    x = x > 710.0 ? 710.0 : x < -746.0 ? -746.0 : x;
    double t = x * LOG2E + MAGICD, n = t - MAGICD;
    double r = (x - n * LN2D_0) - n * LN2D_1;
    double p = EXPD_C_10 * r + EXPD_C_9;
    p = p * r + EXPD_C_8;
    p = p * r + EXPD_C_7;
    p = p * r + EXPD_C_6;
    p = p * r + EXPD_C_5;
    p = p * r + EXPD_C_4;
    p = p * r + EXPD_C_3;
    p = p * r + EXPD_C_2;
    p = p * r + EXPD_C_1;
    p = p * r + EXPD_C_0;
    double y = 1.0 + (r + (r * r) * p);
    uint64_t k = math_bits_d(t) - math_bits_d(MAGICD), half = (uint64_t)((int64_t)k >> 1);
    return y * math_double((half + 1023) << 52) * math_double((k - half + 1023) << 52);
}

/* base^e for base > 0, as exp(e * log(base)): relative error at most 2^-52 * (2 + 2 |e log(base)|), far more than the float that
 * rope frequencies are rounded to. Other bases: 0 gives 0, inf or 1 by the sign of e; negative ones give NaN. */
static inline double math_pow(double base, double e)
{
    if (e == 0 || base == 1.0)
        return 1.0;
    return math_exp_d(e * math_log_d(base));
}

/* Natural logarithm; negative: NaN; 0: -inf. */
static inline float math_log(float x)
{
    return (float)math_log_d((double)x);
}

#endif
