/* Numbers as text without locale, libm or rounding mode: exact big-integer arithmetic, correctly rounded (nearest, ties to even). */
#ifndef BASE_NUM_H
#define BASE_NUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NUM_REPR_MAX 32   /* bytes that num_repr and num_format_i64 write at most */
#define NUM_PREC_MAX 1000 /* largest precision of num_fixed and num_exp */
#define NUM_FIXED_MAX (330 + NUM_PREC_MAX)

/* [+-] digits [. digits] [e [+-] digits], the whole of s, with at least one digit before the exponent. Out of range
 * gives infinity or zero. False: not a number of this form. */
bool num_parse_double(const char *s, size_t n, double *out);

/* [+-] digits, the whole of s. False: not of this form, or beyond int64. */
bool num_parse_i64(const char *s, size_t n, int64_t *out);

size_t num_format_i64(int64_t v, char out[NUM_REPR_MAX]);

/* The shortest decimal that reads back as v, as Python's repr prints it: 1.0, 1e+16, 1e-05, inf, -inf, nan. */
size_t num_repr(double v, char out[NUM_REPR_MAX]);

/* C's %.*f and %.*e (the exponent has at least two digits). prec at most NUM_PREC_MAX, out NUM_FIXED_MAX bytes. */
size_t num_fixed(double v, int prec, char *out);
size_t num_exp(double v, int prec, char *out);
/* C's %.*g; alt keeps trailing zeros, as # does. */
size_t num_general(double v, int prec, bool alt, char *out);

/* a / b of the exact integers, rounded once; 0 / -1 is -0.0, as in Python. b is not 0. */
double num_divide_i64(int64_t a, int64_t b);

/* x - y * trunc(x / y), exact, as C's fmod; and the floor, both without libm. */
double num_fmod(double x, double y);
double num_floor(double x);
bool num_is_finite(double x);

/* -1, 0, 1 of the exact values, or 2 when d is NaN. */
int num_compare_i64_double(int64_t i, double d);

#endif
