/* The variants of the matrix product: one list, which expands to prototypes, table entries, parity tests and bench rows. */
#ifndef KERNELS_MM_LIST_H
#define KERNELS_MM_LIST_H

#include "kernels/kernels_config.h"
#include "kernels/mm.h"

/* Those in this build, least capable first: X(name, level that it requires). */
#if KERNELS_HAVE_AVX2
#define MM_IF_AVX2(X) X(avx2, INFER_CPU_AVX2)
#else
#define MM_IF_AVX2(X)
#endif
#if KERNELS_HAVE_AVXVNNI
#define MM_IF_AVXVNNI(X) X(avxvnni, INFER_CPU_AVXVNNI)
#else
#define MM_IF_AVXVNNI(X)
#endif
#if KERNELS_HAVE_AVX512
#define MM_IF_AVX512(X) X(avx512, INFER_CPU_AVX512)
#else
#define MM_IF_AVX512(X)
#endif
#if KERNELS_HAVE_AVX512VNNI
#define MM_IF_AVX512VNNI(X) X(avx512vnni, INFER_CPU_AVX512VNNI)
#else
#define MM_IF_AVX512VNNI(X)
#endif
#if KERNELS_HAVE_I8MM
#define MM_IF_I8MM(X) X(i8mm, INFER_CPU_I8MM)
#else
#define MM_IF_I8MM(X)
#endif
#if KERNELS_HAVE_DOTPROD
#define MM_IF_DOTPROD(X) X(dotprod, INFER_CPU_DOTPROD)
#else
#define MM_IF_DOTPROD(X)
#endif
#if KERNELS_HAVE_NEON
#define MM_IF_NEON(X) X(neon, INFER_CPU_NEON)
#else
#define MM_IF_NEON(X)
#endif
#define MM_VARIANTS(X)                                                                                                 \
    MM_IF_AVX2(X) MM_IF_AVXVNNI(X) MM_IF_AVX512(X) MM_IF_AVX512VNNI(X) MM_IF_NEON(X) MM_IF_DOTPROD(X) MM_IF_I8MM(X)

/* Formats with a one-column product: X(INFER_TYPE_ suffix, name, bytes of 16 rows of 32 inputs, v). The others decode to a
 * tile for one column too. */
#define MM_FUSED_TYPES(X, v)                                                                                           \
    X(Q4_0, q4_0, 288, v)                                                                                              \
    X(Q4_1, q4_1, 320, v)                                                                                              \
    X(Q5_0, q5_0, 352, v)                                                                                              \
    X(Q5_1, q5_1, 384, v)                                                                                              \
    X(Q8_0, q8_0, 544, v)                                                                                              \
    X(Q2_K, q2_k, 168, v)                                                                                              \
    X(Q3_K, q3_k, 220, v)                                                                                              \
    X(Q4_K, q4_k, 288, v)                                                                                              \
    X(Q5_K, q5_k, 352, v)                                                                                              \
    X(Q6_K, q6_k, 420, v)                                                                                              \
    X(IQ4_NL, iq4_nl, 288, v)                                                                                          \
    X(IQ4_XS, iq4_xs, 272, v)

#define MM_PROTOTYPE_DOT(id, name, form, zero, max, v) void mm_dot_##name##_##v(const struct mm_dot *a);
#define MM_PROTOTYPE_DECODE(id, name, class, v)                                                                        \
    void mm_decode_##name##_##v(const uint8_t *w, uint64_t row_bytes, uint32_t n_block, struct mm_tile *t);
#define MM_PROTOTYPE_ONE(id, name, panel, v)                                                                           \
    void mm_one_##name##_##v(const uint8_t *w, uint64_t row_bytes, uint32_t n_block, const struct mm_xblock *x,        \
                             float acc[16], uintptr_t ahead);

MM_CLASSES(MM_PROTOTYPE_DOT, scalar)
MM_TYPES(MM_PROTOTYPE_DECODE, scalar)
void mm_quantise_scalar(const float *x, uint32_t n, struct mm_xblock *out);

#define MM_PROTOTYPES(v, level) MM_CLASSES(MM_PROTOTYPE_DOT, v)
MM_VARIANTS(MM_PROTOTYPES)

/* Variants with one-column products. AVX-512 without VNNI does with AVX2's: memory is the limit there; i8mm with
 * dotprod's. */
#define MM_FUSED_VARIANTS(X) MM_IF_AVX2(X) MM_IF_AVXVNNI(X) MM_IF_AVX512VNNI(X) MM_IF_NEON(X) MM_IF_DOTPROD(X)
#define MM_PROTOTYPES_ONE(v, level) MM_FUSED_TYPES(MM_PROTOTYPE_ONE, v)
MM_FUSED_VARIANTS(MM_PROTOTYPES_ONE)

/* Variants with decoders to tiles; those with a dot instruction share them. */
#define MM_DECODING_VARIANTS(X) MM_IF_AVX2(X) MM_IF_AVX512(X) MM_IF_NEON(X)
#define MM_PROTOTYPES_DECODE(v, level) MM_TYPES(MM_PROTOTYPE_DECODE, v)
MM_DECODING_VARIANTS(MM_PROTOTYPES_DECODE)
#if KERNELS_HAVE_AVX2
void mm_quantise_avx2(const float *x, uint32_t n, struct mm_xblock *out); /* wider registers gain nothing */
#endif
#if KERNELS_HAVE_NEON
void mm_quantise_neon(const float *x, uint32_t n, struct mm_xblock *out);
#endif

#endif
