/* Dispatch, and the types that are stored as plain numbers. */
#include <string.h>

#include "base/dtype.h"
#include "base/half.h"
#include "kernels/dequant.h"

#define TABLE_ENTRY(type, fn) [INFER_TYPE_##type] = fn,
static const dequant_fn decoders[DTYPE_END] = {DEQUANT_LIST(TABLE_ENTRY)};

dequant_fn dequant_of(int32_t type)
{
    return type >= 0 && type < DTYPE_END ? decoders[type] : NULL;
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

/* 1 sign, 4 exponent (bias 7), 3 mantissa bits; all ones: NaN; no infinities. */
static float f8_e4m3(uint8_t x)
{
    uint32_t sign = (uint32_t)(x & 0x80) << 24, e = x >> 3 & 15, m = x & 7, bits;
    float f = (float)m * 0x1p-9f; /* subnormal */
    if (e == 0) {
        memcpy(&bits, &f, 4);
    } else {
        bits = (x & 0x7f) == 0x7f ? UINT32_C(0x7fc00000) : (e + 120) << 23 | m << 20;
    }
    bits |= sign;
    memcpy(&f, &bits, 4);
    return f;
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
DECODE_EACH(u8, uint8_t, (float)x)
DECODE_EACH(u16, uint16_t, (float)x)
DECODE_EACH(u32, uint32_t, (float)x)
DECODE_EACH(u64, uint64_t, (float)x)
DECODE_EACH(f8_e4m3, uint8_t, f8_e4m3(x))
DECODE_EACH(f8_e5m2, uint8_t, f16_to_f32((uint16_t)(x << 8))) /* the upper half of an f16 */
DECODE_EACH(bool, uint8_t, x ? 1.0f : 0.0f)
