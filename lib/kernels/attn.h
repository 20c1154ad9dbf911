/* Attention over one KV page and the pieces around it. The scalar variant (scalar/attn_scalar.c) defines the bits; every other equals
 * it to the bit for finite inputs.
 *
 * THE BITS. One query (a row and a head) sees the positions lo <= e < hi of its sequence. Positions form blocks of 64 (a KV page) and parts of
 * 1,024. Within a part, from m = -inf, L[0..15] = +0, o[d] = +0, block by block in increasing order, over the block's visible positions j:
 *
 *   s[j] = dot * scale, where dot = fma(q[d], k[j][d], dot) over d in increasing order from +0
 *   softcap, where the model has one: s[j] = softcap * tanh(s[j] / softcap)
 *   m' = max(m, max s[j]); c = exp(m - m'); L[l] *= c; o[d] *= c; m = m'
 *   p[j] = exp(s[j] - m); L[j % 16] += p[j] in increasing j; o[d] = fma(p[j], v[j][d], o[d]) in increasing j
 *
 * At the end of a part L = math_tree(L). Parts that hold a visible position are merged into the first such part, in increasing order:
 *
 *   m' = max(M, m); a = exp(M - m'); b = exp(m - m'); L = fma(L, a, l * b); O[d] = fma(O[d], a, o[d] * b); M = m'
 *
 * and the result is O[d] / L. Positions that are not visible are skipped, never multiplied by zero: what lies there may be anything.
 * Neither the number of queries that are computed together nor who computes which part changes a bit.
 *
 * KV types are widened exactly, so one order serves all. head_dim: a multiple of 8, at most ATTN_MAX_HEAD_DIM.
 *
 * INT8. A group is 32 (INT8_64: 64) dimensions of one position's key or value in one head (the last is shorter where that does not divide head_dim), with a scale
 * d in f16: an element is code * d, exact in f32. Rounding a group: amax = max |x|; d = f16(amax / 127), nearest even; code = nearest even of
 * x * (1 / d), the division in f32, limited to -127 .. 127. Where d is 0 (amax up to 127 * 2^-25) all codes are 0; where it is not finite, or x
 * is not, d is NaN and all codes are 0, so that the answer is NaN. A head's codes lie in a page as the elements of the other types; behind them its scales,
 * [group][64 positions] for keys and for values. */
#ifndef KERNELS_ATTN_H
#define KERNELS_ATTN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kernels/device.h"
#include "kernels/kernels_config.h"

#define ATTN_BLOCK 64u
#define ATTN_PART 1024u
#define ATTN_MAX_HEAD_DIM 1024u

static inline bool attn_supports_head_dim(uint32_t head_dim)
{
    return head_dim > 0 && head_dim <= ATTN_MAX_HEAD_DIM && head_dim % 8 == 0;
}

/* The running state of one query in one part: floats [0] m, [1] L summed (after attn_close), [16 .. 31] L[16], [32 ..] o[head_dim]. Aligned to 64. */
#define ATTN_STATE_M 0
#define ATTN_STATE_SUM 1
#define ATTN_STATE_L 16
#define ATTN_STATE_O 32
static inline size_t attn_state_floats(uint32_t head_dim)
{
    return ATTN_STATE_O + (((size_t)head_dim + 15u) & ~(size_t)15u);
}

struct attn_query {
    const float *q; /* [head_dim] */
    float *state;
    uint32_t j0, j1; /* visible positions of the block: j0 <= j < j1 <= 64, at least one */
};

struct attn_block_args {
    int32_t kv_type; /* as in struct dev_kv */
    uint32_t head_dim;
    const void *k; /* [head_dim][64], aligned to 64; int8: then scales [dev_kv_groups][64] */
    const void *v; /* [64][head_dim], aligned to 64; int8: then scales [dev_kv_groups][64] */
    float scale, softcap;
    const struct attn_query *queries;
    uint32_t n_query;
    /* What will be wanted next, two spans to fetch into the cache meanwhile; NULL: nothing. */
    const char *ahead_k, *ahead_v;
    size_t ahead_bytes; /* of each */
};

/* Takes one block into the states of the queries. */
typedef void (*attn_block_fn)(const struct attn_block_args *a);

/* Merges a closed part into the closed parts before it, for n queries whose states follow each other; a part without a visible position changes
 * nothing, and the first that has one is copied. */
typedef void (*attn_merge_fn)(float *into, const float *parts, uint32_t head_dim, uint32_t n);
/* The result, after the last merge. */
typedef void (*attn_finish_fn)(float *dst, const float *state, uint32_t head_dim);

/* Keys and values of a page widened to f32, k [head_dim][64] and v [64][head_dim]: what was in a->k and a->v. */
typedef void (*attn_widen_fn)(float *k, float *v, const struct attn_block_args *a);
/* n floats to int8 and the scales of their groups, `group` (32 or 64) floats each. */
typedef void (*attn_round8_fn)(int8_t *codes, uint16_t *scales, const float *x, uint32_t n, uint32_t group);

struct attn_kernels {
    attn_block_fn block;
    attn_widen_fn widen;
    attn_round8_fn round8;
    attn_merge_fn merge;
    attn_finish_fn finish;
};

/* Fills k for a level that cpu_level_supported. INTERNAL: a slot stayed empty. */
infer_status attn_kernels_init(struct attn_kernels *k, int32_t level, infer_error *err);

void attn_begin(float *state, uint32_t head_dim); /* at the start of a part */
void attn_close(float *state);                    /* at its end */
/* A part with a visible position has a sum of at least 1, or NaN. */
static inline bool attn_is_empty(const float *state)
{
    return state[ATTN_STATE_SUM] == 0;
}

/* Every variant: X(name, CPU level it requires). */
#define ATTN_VARIANTS(X) X(scalar, INFER_CPU_SCALAR) ATTN_VARIANT_avx2(X) ATTN_VARIANT_avx512(X) ATTN_VARIANT_neon(X)

#if KERNELS_HAVE_AVX2
#define ATTN_VARIANT_avx2(X) X(avx2, INFER_CPU_AVX2)
#else
#define ATTN_VARIANT_avx2(X)
#endif
#if KERNELS_HAVE_AVX512
#define ATTN_VARIANT_avx512(X) X(avx512, INFER_CPU_AVX512)
#else
#define ATTN_VARIANT_avx512(X)
#endif
#if KERNELS_HAVE_NEON
#define ATTN_VARIANT_neon(X) X(neon, INFER_CPU_NEON)
#else
#define ATTN_VARIANT_neon(X)
#endif

#define ATTN_PROTOTYPE(name, level)                                                                                    \
    void attn_block_##name(const struct attn_block_args *a);                                                           \
    void attn_widen_##name(float *k, float *v, const struct attn_block_args *a);                                       \
    void attn_round8_##name(int8_t *codes, uint16_t *scales, const float *x, uint32_t n, uint32_t group);              \
    void attn_merge_##name(float *into, const float *parts, uint32_t head_dim, uint32_t n);                            \
    void attn_finish_##name(float *dst, const float *state, uint32_t head_dim);
ATTN_VARIANTS(ATTN_PROTOTYPE)
#undef ATTN_PROTOTYPE

#endif
