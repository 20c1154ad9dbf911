/* Float kernels: rows of f32, and products with float weights. The scalar variants (scalar/vec_scalar.c, scalar/fmm_scalar.c) define the
 * bits; every other one equals them to the bit, subnormals included. Orders:
 *
 *   sums         16 partials: partial l takes the elements i with i % 16 == l, in increasing order, from +0; then the tree
 *                p[l] += p[l + 8] for l < 8, then + 4, + 2, + 1 (math_tree). Squares and products enter by fma.
 *   rms_norm     s = 1 / sqrt(sum(x*x) / n + eps); dst = (x * s) * weight
 *   layer_norm   mean = sum(x) / n; s = 1 / sqrt(sum(d*d) / n + eps), d = x - mean; dst = fma(d * s, weight, bias), without bias
 *                (d * s) * weight
 *   rope_table   a = (float)position * inv_freq[i]; table[i] = cos(a) * mscale, sin(a) * mscale
 *   rope_*       (a, b) -> fma(a, cos, -(b * sin)), fma(b, cos, a * sin)
 *   silu         x / (1 + exp(-x))
 *   gelu_tanh    x / (1 + exp(-2u)), 2u = x * fma(2 sqrt(2/pi) 0.044715, x*x, 2 sqrt(2/pi)): the same function as
 *                x/2 (1 + tanh u), without its cancellation
 *   gelu_erf     (0.5 * x) * (1 + erf(x * sqrt(1/2)))
 *   relu         x > 0 ? x : +0 (NaN and -0 give +0)
 *   relu2        r * r, r = relu(x)
 *   softcap      cap * tanh(x / cap)
 *   max          m = x > m ? x : m in 16 strided partials from -inf, then the tree of the same select: NaNs are passed over
 *   expand       a = fma(w[k][i], t[k], a) over k in increasing order, from +0; then y[i] += a
 *   matmul       16 partials with fma over the inputs, then the tree. Inputs beyond n_in up to a multiple of 16 count as +0 * +0.
 *
 * Results for NaN and inf are those of the formulas; sign and payload of a NaN are unspecified, except in conversions, which keep them
 * (base/half.h). Pointers need the alignment of their type only; dst is a source itself or overlaps none. */
#ifndef KERNELS_VEC_H
#define KERNELS_VEC_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Rows [row0, row1) of a float matrix w [..][n_in], row_bytes apart, times the columns x [n_col][x_stride]:
 * y[c * y_stride + row] = sum over i of w[row][i] * x[c][i]. Neither the number of columns nor the split of rows changes a bit.
 * Good shapes of a call with many columns: FMM_COLS columns, some FMM_ROWS rows; a stride of columns that is no multiple of a page. */
#define FMM_COLS          96u
#define FMM_ROWS          128u
#define FMM_SCRATCH_BYTES (16384u + FMM_ROWS * FMM_COLS * 64u)

struct fmm_args {
    const void *w; /* row 0 of the matrix */
    uint64_t row_bytes;
    uint32_t n_in; /* > 0 */
    uint32_t row0, row1;
    uint32_t n_col;
    const float *x;
    size_t x_stride; /* floats, at least n_in */
    float *y;
    size_t y_stride; /* floats */
    void *scratch;   /* FMM_SCRATCH_BYTES, aligned to 64: of more than one column */
};

typedef void vec_rms_norm_fn(float *dst, const float *x, const float *weight, uint32_t n, float eps);
/* bias may be NULL */
typedef void vec_layer_norm_fn(float *dst, const float *x, const float *weight, const float *bias, uint32_t n, float eps);
/* table [n_half][2]: cos, sin */
typedef void vec_rope_table_fn(float *table, const float *inv_freq, uint32_t n_half, uint32_t position, float mscale);
/* x [n_rot] in place by table [n_rot/2][2]; pairs are (2i, 2i+1) or (i, i + n_rot/2) */
typedef void vec_rope_fn(float *x, const float *table, uint32_t n_rot);
/* dst = act(gate) * up; up may be NULL: dst = act(gate) */
typedef void vec_act_fn(float *dst, const float *gate, const float *up, size_t n);
typedef void vec_add_fn(float *dst, const float *src, size_t n);    /* dst += src */
typedef void vec_scale_fn(float *x, size_t n, float factor);        /* x *= factor */
typedef void vec_softcap_fn(float *x, size_t n, float cap);
typedef float vec_max_fn(const float *x, size_t n);                 /* -inf when n is 0 */
typedef void vec_narrow_fn(uint16_t *dst, const float *src, size_t n); /* nearest, ties to even */
typedef void vec_widen_fn(float *dst, const uint16_t *src, size_t n);
/* y[i] += sum over k < rank of w[k * stride + i] * t[k] */
typedef void vec_expand_fn(float *y, const float *w, size_t stride, const float *t, uint32_t rank, size_t n);
typedef void vec_matmul_fn(const struct fmm_args *a);

/* Every slot of the table: X(name, function type). */
#define VEC_SLOTS(X)                                                                                                   \
    X(rms_norm, vec_rms_norm_fn)                                                                                       \
    X(layer_norm, vec_layer_norm_fn)                                                                                   \
    X(rope_table, vec_rope_table_fn)                                                                                   \
    X(rope_pairs, vec_rope_fn)                                                                                         \
    X(rope_halves, vec_rope_fn)                                                                                        \
    X(silu, vec_act_fn)                                                                                                \
    X(gelu_tanh, vec_act_fn)                                                                                           \
    X(gelu_erf, vec_act_fn)                                                                                            \
    X(relu, vec_act_fn)                                                                                                \
    X(relu2, vec_act_fn)                                                                                               \
    X(add, vec_add_fn)                                                                                                 \
    X(scale, vec_scale_fn)                                                                                             \
    X(softcap, vec_softcap_fn)                                                                                         \
    X(max, vec_max_fn)                                                                                                 \
    X(expand, vec_expand_fn)                                                                                           \
    X(f32_to_f16, vec_narrow_fn)                                                                                       \
    X(f32_to_bf16, vec_narrow_fn)                                                                                      \
    X(f16_to_f32, vec_widen_fn)                                                                                        \
    X(bf16_to_f32, vec_widen_fn)                                                                                       \
    X(matmul_f32, vec_matmul_fn)                                                                                       \
    X(matmul_f16, vec_matmul_fn)                                                                                       \
    X(matmul_bf16, vec_matmul_fn)

struct vec_kernels {
#define VEC_FIELD(name, type) type *name;
    VEC_SLOTS(VEC_FIELD)
#undef VEC_FIELD
};

/* Fills k for a level that cpu_level_supported: every scalar pointer first, then each variant that the level includes, upwards.
 * INTERNAL: a slot stayed empty. */
infer_status vec_kernels_init(struct vec_kernels *k, int32_t level, infer_error *err);

/* The variants. Each has every slot that its list names: vec_<slot>_<variant>. */
#define VEC_SLOTS_scalar VEC_SLOTS
#define VEC_SLOTS_avx2   VEC_SLOTS
#define VEC_SLOTS_avx512 VEC_SLOTS
#define VEC_SLOTS_neon   VEC_SLOTS

#define VEC_PROTO_scalar(name, type) type vec_##name##_scalar;
VEC_SLOTS_scalar(VEC_PROTO_scalar)
#define VEC_PROTO_avx2(name, type) type vec_##name##_avx2;
VEC_SLOTS_avx2(VEC_PROTO_avx2)
#define VEC_PROTO_avx512(name, type) type vec_##name##_avx512;
VEC_SLOTS_avx512(VEC_PROTO_avx512)
#define VEC_PROTO_neon(name, type) type vec_##name##_neon;
VEC_SLOTS_neon(VEC_PROTO_neon)

#endif
