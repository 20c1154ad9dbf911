/* From f32 to storage types: what quantising a model while opening it needs. Scalar and deterministic: the same bytes on every machine.
 *
 * Q8_0 and Q4_0 give the bytes of the `gguf` package's quantize (and of ggml's reference). Q4_K and Q6_K have no such definition:
 * every writer searches for good scales in its own way. Here each group of 32 (16) elements takes the scale (and minimum) that
 * minimise its squared error by least squares over a few candidate roundings; the scales are rounded to their codes, and the elements are then
 * rounded to the nearest code under the rounded scales. */
#ifndef KERNELS_QUANTISE_H
#define KERNELS_QUANTISE_H

#include <stdbool.h>
#include <stdint.h>

/* INFER_TYPE_x, function. */
#define QUANTISE_LIST(X) X(Q8_0, quantise_q8_0) X(Q4_0, quantise_q4_0) X(Q4_K, quantise_q4_k) X(Q6_K, quantise_q6_k)

/* n elements, a multiple of the type's block. False: a value is not finite, or too large for the type. */
typedef bool (*quantise_fn)(const float *src, uint8_t *dst, uint64_t n);

/* NULL: not a type of the list. */
quantise_fn quantise_of(int32_t type);

#define QUANTISE_PROTOTYPE(type, fn) bool fn(const float *src, uint8_t *dst, uint64_t n);
QUANTISE_LIST(QUANTISE_PROTOTYPE)
#undef QUANTISE_PROTOTYPE

#endif
