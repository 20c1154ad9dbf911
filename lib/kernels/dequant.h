/* Decoders of every storage type to f32: what the formats define, in the order of operations of the reference decoders (the `gguf`
 * package's, and ggml's where that has none), so that results are equal to theirs bit for bit. Scalar and slow: they define the values
 * that kernels must give, and serve infer_file_tensor_f32 and PRECISE mode's tests. */
#ifndef KERNELS_DEQUANT_H
#define KERNELS_DEQUANT_H

#include <stdint.h>

/* n elements, a multiple of the type's block; src packed, of any alignment. */
typedef void (*dequant_fn)(const uint8_t *src, float *dst, uint64_t n);

/* NULL for a value that is not a type; never for one that dtype_of knows. */
dequant_fn dequant_of(int32_t type);
/* Does nothing for an unknown type. */
void dequant_row(int32_t type, const void *src, float *dst, uint64_t n);

/* INFER_TYPE_x, function. */
#define DEQUANT_LIST(X)                                                                                                \
    X(F32, dequant_f32) X(F16, dequant_f16) X(BF16, dequant_bf16) X(F64, dequant_f64) X(I8, dequant_i8)                \
    X(I16, dequant_i16) X(I32, dequant_i32) X(I64, dequant_i64)                                                        \
    X(Q4_0, dequant_q4_0) X(Q4_1, dequant_q4_1) X(Q5_0, dequant_q5_0) X(Q5_1, dequant_q5_1) X(Q8_0, dequant_q8_0)      \
    X(Q8_1, dequant_q8_1) X(Q1_0, dequant_q1_0) X(Q2_0, dequant_q2_0) X(MXFP4, dequant_mxfp4)                          \
    X(NVFP4, dequant_nvfp4) X(TQ1_0, dequant_tq1_0) X(TQ2_0, dequant_tq2_0)                                            \
    X(Q2_K, dequant_q2_k) X(Q3_K, dequant_q3_k) X(Q4_K, dequant_q4_k) X(Q5_K, dequant_q5_k) X(Q6_K, dequant_q6_k)      \
    X(Q8_K, dequant_q8_k)                                                                                              \
    X(IQ1_S, dequant_iq1_s) X(IQ1_M, dequant_iq1_m) X(IQ2_XXS, dequant_iq2_xxs) X(IQ2_XS, dequant_iq2_xs)              \
    X(IQ2_S, dequant_iq2_s) X(IQ3_XXS, dequant_iq3_xxs) X(IQ3_S, dequant_iq3_s) X(IQ4_NL, dequant_iq4_nl)              \
    X(IQ4_XS, dequant_iq4_xs)                                                                                          \
    X(F8_E4M3, dequant_f8_e4m3) X(F8_E5M2, dequant_f8_e5m2) X(U8, dequant_u8) X(U16, dequant_u16)                      \
    X(U32, dequant_u32) X(U64, dequant_u64) X(BOOL, dequant_bool)

#define DEQUANT_PROTOTYPE(type, fn) void fn(const uint8_t *src, float *dst, uint64_t n);
DEQUANT_LIST(DEQUANT_PROTOTYPE)
#undef DEQUANT_PROTOTYPE

#endif
