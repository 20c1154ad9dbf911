/* Coefficients of the elementary functions, found by scripts/fit-math.py: part of the numerics version. Errors are those of the
 * polynomial in exact arithmetic, relative to the function. */
#ifndef KERNELS_MATH_CONST_H
#define KERNELS_MATH_CONST_H

/* exp(r) = 1 + r + r^2 * p(r), |r| <= ln(2)/2; error 2^-28.2 */
#define EXP_C_0 0x1.fffffcp-2f
#define EXP_C_1 0x1.55548cp-3f
#define EXP_C_2 0x1.55585ap-5f
#define EXP_C_3 0x1.123d7p-7f
#define EXP_C_4 0x1.6ab89ep-10f

/* tanh(x) = x + x^3 * p(x^2), |x| <= 0.625; error 2^-32.5 */
#define TANH_C_0 -0x1.555554p-2f
#define TANH_C_1 0x1.11107cp-3f
#define TANH_C_2 -0x1.b9f212p-5f
#define TANH_C_3 0x1.63abd6p-6f
#define TANH_C_4 -0x1.0c801ep-7f
#define TANH_C_5 0x1.1aa266p-9f

/* erf(x) = x + x * p(x^2), |x| <= 0.925; error 2^-29.9 */
#define ERF_C_0 0x1.06eba8p-3f
#define ERF_C_1 -0x1.81274p-2f
#define ERF_C_2 0x1.ce2d6p-4f
#define ERF_C_3 -0x1.b8007ep-6f
#define ERF_C_4 0x1.54423ep-8f
#define ERF_C_5 -0x1.a5b7c4p-11f
#define ERF_C_6 0x1.4e382ap-14f

/* erf(x) = 1 - exp(-p(x)), 0.925 <= x <= 3.925; error 2^-34.1 */
#define ERFC_C_0 -0x1.5603d4p-13f
#define ERFC_C_1 0x1.21238cp+0f
#define ERFC_C_2 0x1.445b62p-1f
#define ERFC_C_3 0x1.ba98b8p-4f
#define ERFC_C_4 -0x1.9873e8p-6f
#define ERFC_C_5 0x1.0ac6acp-8f
#define ERFC_C_6 -0x1.a56c0cp-12f
#define ERFC_C_7 0x1.fd8e3ap-17f
#define ERFC_C_8 0x1.ece90cp-22f

/* sin(r) = r + r^3 * p(r^2), |r| <= pi/4; error 2^-47.6 */
#define SIN_C_0 -0x1.5555555552425p-3
#define SIN_C_1 0x1.1111110ca4adp-7
#define SIN_C_2 -0x1.a019f95cdc30cp-13
#define SIN_C_3 0x1.71d77df65dd09p-19
#define SIN_C_4 -0x1.a9672e8b9f48cp-26

/* cos(r) = 1 - r^2/2 + r^4 * p(r^2), |r| <= pi/4; error 2^-53.5 */
#define COS_C_0 0x1.55555555531ap-5
#define COS_C_1 -0x1.6c16c16776ff1p-10
#define COS_C_2 0x1.a019fab4b1599p-16
#define COS_C_3 -0x1.27e02e849b64ap-22
#define COS_C_4 0x1.1bc8e0eded00ep-29

/* log(m) = 2s + s^3 * p(s^2), s = (m - 1) / (m + 1), sqrt(1/2) <= m <= sqrt(2); error 2^-65.6 */
#define LOG_C_0 0x1.5555555555555p-1
#define LOG_C_1 0x1.9999999999d16p-2
#define LOG_C_2 0x1.2492492438e46p-2
#define LOG_C_3 0x1.c71c724c46c8cp-3
#define LOG_C_4 0x1.745ce179c9579p-3
#define LOG_C_5 0x1.3b203323b632bp-3
#define LOG_C_6 0x1.0f65e60cc52e7p-3
#define LOG_C_7 0x1.0f1ad6b0dae09p-3

/* the same in double; error 2^-52.2 */
#define EXPD_C_0 0x1p-1
#define EXPD_C_1 0x1.555555555555dp-3
#define EXPD_C_2 0x1.555555555556cp-5
#define EXPD_C_3 0x1.111111110e569p-7
#define EXPD_C_4 0x1.6c16c16c0a53dp-10
#define EXPD_C_5 0x1.a01a01b5d379p-13
#define EXPD_C_6 0x1.a01a01e746aeap-16
#define EXPD_C_7 0x1.71ddeb5646b48p-19
#define EXPD_C_8 0x1.27e45f2faa598p-22
#define EXPD_C_9 0x1.af93f3f2e9c73p-26
#define EXPD_C_10 0x1.1d03cad683f85p-29

/* pi/2 = the sum; the first three have 21 bits, so that their products with 32-bit integers are exact in double */
#define PIO2_0 0x1.921fbp+0
#define PIO2_1 0x1.5110bp-22
#define PIO2_2 0x1.18469p-44
#define PIO2_3 0x1.13198a2e03707p-65

/* ln 2 = the sum, for float (the first has 15 bits) and for double (32 bits) */
#define LN2F_0 0x1.62e4p-1f
#define LN2F_1 0x1.7f7d1cp-20f
#define LN2D_0 0x1.62e42feep-1
#define LN2D_1 0x1.a39ef35793c76p-33

#define TWO_OVER_PI 0x1.45f306dc9c883p-1
#define LOG2E 0x1.71547652b82fep+0
#define LOG2EF 0x1.715476p+0f

/* Adding and subtracting these rounds to an integer (nearest, ties to even), whose low bits then are the sum's low bits. */
#define MAGICF 0x1.8p+23f
#define MAGICD 0x1.8p+52

#define EXP_MAX 89.0f    /* exp is infinite from below this */
#define EXP_MIN -104.0f  /* exp is 0 from above this */
#define TANH_SPLIT 0.625f
#define ERF_SPLIT 0.925f
#define ERF_MAX 3.925f   /* erf rounds to 1 from below this */
#define GELU_1 0x1.988454p+0f /* 2 sqrt(2/pi) */
#define GELU_3 0x1.2444f2p-4f /* 2 sqrt(2/pi) 0.044715 */
#define SQRT_HALF 0x1.6a09e6p-1f
#define TRIG_MAX 0x1p+31f /* from here on the quadrant comes from integer arithmetic */

#endif
