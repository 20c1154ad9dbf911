/* Dispatch, and the types that are stored as plain numbers. */
#include <string.h>

#include "base/dtype.h"
#include "base/half.h"
#include "kernels/dequant.h"

#define TABLE_ENTRY(type, fn) [INFER_TYPE_##type] = fn,
static const dequant_fn decoders[DTYPE_COUNT] = {DEQUANT_LIST(TABLE_ENTRY)};

dequant_fn dequant_of(int32_t type)
{
    return type >= 0 && type < DTYPE_COUNT ? decoders[type] : NULL;
}

void dequant_row(int32_t type, const void *src, float *dst, uint64_t n)
{
    dequant_fn fn = dequant_of(type);
    if (fn)
        fn(src, dst, n);
}

void dequant_f32(const uint8_t *src, float *dst, uint64_t n)
{
    memcpy(dst, src, n * 4);
}

/* Each element x of the stored type to the value of `expr`. */
#define DECODE_EACH(name, type, expr)                                                                                  \
    void dequant_##name(const uint8_t *src, float *dst, uint64_t n)                                                    \
    {                                                                                                                  \
        for (uint64_t i = 0; i < n; i++) {                                                                             \
            type x;                                                                                                    \
            memcpy(&x, src + i * sizeof x, sizeof x);                                                                  \
            dst[i] = expr;                                                                                             \
        }                                                                                                              \
    }
DECODE_EACH(f16, uint16_t, f16_to_f32(x))
DECODE_EACH(bf16, uint16_t, bf16_to_f32(x))
DECODE_EACH(f64, double, (float)x)
DECODE_EACH(i8, int8_t, (float)x)
DECODE_EACH(i16, int16_t, (float)x)
DECODE_EACH(i32, int32_t, (float)x)
DECODE_EACH(i64, int64_t, (float)x)
