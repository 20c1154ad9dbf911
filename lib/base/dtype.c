#include "base/dtype.h"

#include "base/checked.h"

/* Sizes: the `gguf` package's constants (GGML_QUANT_SIZES, version 0.19.0); Q2_0 and Q8_1 (where gguf has kept an old size): ggml 0.25. */
static const struct dtype types[DTYPE_END] = {
    [INFER_TYPE_F32] = {"F32", 1, 4},
    [INFER_TYPE_F16] = {"F16", 1, 2},
    [INFER_TYPE_Q4_0] = {"Q4_0", 32, 2 + 16},
    [INFER_TYPE_Q4_1] = {"Q4_1", 32, 2 + 2 + 16},
    [INFER_TYPE_Q5_0] = {"Q5_0", 32, 2 + 4 + 16},
    [INFER_TYPE_Q5_1] = {"Q5_1", 32, 2 + 2 + 4 + 16},
    [INFER_TYPE_Q8_0] = {"Q8_0", 32, 2 + 32},
    [INFER_TYPE_Q8_1] = {"Q8_1", 32, 2 + 2 + 32},
    [INFER_TYPE_Q2_K] = {"Q2_K", 256, 16 + 64 + 2 + 2},
    [INFER_TYPE_Q3_K] = {"Q3_K", 256, 32 + 64 + 12 + 2},
    [INFER_TYPE_Q4_K] = {"Q4_K", 256, 2 + 2 + 12 + 128},
    [INFER_TYPE_Q5_K] = {"Q5_K", 256, 2 + 2 + 12 + 32 + 128},
    [INFER_TYPE_Q6_K] = {"Q6_K", 256, 128 + 64 + 16 + 2},
    [INFER_TYPE_Q8_K] = {"Q8_K", 256, 4 + 256 + 32},
    [INFER_TYPE_IQ2_XXS] = {"IQ2_XXS", 256, 2 + 64},
    [INFER_TYPE_IQ2_XS] = {"IQ2_XS", 256, 2 + 64 + 8},
    [INFER_TYPE_IQ3_XXS] = {"IQ3_XXS", 256, 2 + 64 + 32},
    [INFER_TYPE_IQ1_S] = {"IQ1_S", 256, 2 + 32 + 16},
    [INFER_TYPE_IQ4_NL] = {"IQ4_NL", 32, 2 + 16},
    [INFER_TYPE_IQ3_S] = {"IQ3_S", 256, 2 + 64 + 8 + 32 + 4},
    [INFER_TYPE_IQ2_S] = {"IQ2_S", 256, 2 + 32 + 32 + 8 + 8},
    [INFER_TYPE_IQ4_XS] = {"IQ4_XS", 256, 2 + 2 + 4 + 128},
    [INFER_TYPE_I8] = {"I8", 1, 1},
    [INFER_TYPE_I16] = {"I16", 1, 2},
    [INFER_TYPE_I32] = {"I32", 1, 4},
    [INFER_TYPE_I64] = {"I64", 1, 8},
    [INFER_TYPE_F64] = {"F64", 1, 8},
    [INFER_TYPE_IQ1_M] = {"IQ1_M", 256, 32 + 16 + 8},
    [INFER_TYPE_BF16] = {"BF16", 1, 2},
    [INFER_TYPE_TQ1_0] = {"TQ1_0", 256, 48 + 4 + 2},
    [INFER_TYPE_TQ2_0] = {"TQ2_0", 256, 64 + 2},
    [INFER_TYPE_MXFP4] = {"MXFP4", 32, 1 + 16},
    [INFER_TYPE_NVFP4] = {"NVFP4", 64, 4 + 32},
    [INFER_TYPE_Q1_0] = {"Q1_0", 128, 2 + 16},
    [INFER_TYPE_Q2_0] = {"Q2_0", 64, 2 + 16},
    [INFER_TYPE_F8_E4M3] = {"F8_E4M3", 1, 1},
    [INFER_TYPE_F8_E5M2] = {"F8_E5M2", 1, 1},
    [INFER_TYPE_BOOL] = {"BOOL", 1, 1},
    [INFER_TYPE_U8] = {"U8", 1, 1},
    [INFER_TYPE_U16] = {"U16", 1, 2},
    [INFER_TYPE_U32] = {"U32", 1, 4},
    [INFER_TYPE_U64] = {"U64", 1, 8},
};

const struct dtype *dtype_of(int32_t type)
{
    return type >= 0 && type < DTYPE_END && types[type].name ? &types[type] : NULL;
}

bool dtype_size(int32_t type, uint64_t n, uint64_t *bytes)
{
    const struct dtype *t = dtype_of(type);
    return t && n % t->block == 0 && checked_mul(n / t->block, t->bytes, bytes);
}
