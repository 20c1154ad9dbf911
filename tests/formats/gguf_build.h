/* Writes GGUF files in memory, valid or deliberately not: every field is written as told. For tests. */
#ifndef GGUF_BUILD_H
#define GGUF_BUILD_H

#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "formats/file.h"

static inline void gb_u32(struct buf *b, uint32_t v)
{
    buf_put(b, &v, 4);
}

static inline void gb_u64(struct buf *b, uint64_t v)
{
    buf_put(b, &v, 8);
}

static inline void gb_str(struct buf *b, const char *s)
{
    gb_u64(b, strlen(s));
    buf_puts(b, s);
}

static inline void gb_header(struct buf *b, uint32_t version, uint64_t n_tensors, uint64_t n_meta)
{
    buf_init(b, &alloc_default, 0);
    buf_puts(b, "GGUF");
    gb_u32(b, version);
    gb_u64(b, n_tensors);
    gb_u64(b, n_meta);
}

static inline void gb_key(struct buf *b, const char *key, uint32_t type)
{
    gb_str(b, key);
    gb_u32(b, type);
}

static inline void gb_meta_u32(struct buf *b, const char *key, uint32_t v)
{
    gb_key(b, key, FILE_U32);
    gb_u32(b, v);
}

static inline void gb_meta_str(struct buf *b, const char *key, const char *v)
{
    gb_key(b, key, FILE_STRING);
    gb_str(b, v);
}

/* Then the items. */
static inline void gb_meta_array(struct buf *b, const char *key, uint32_t item, uint64_t count)
{
    gb_key(b, key, FILE_ARRAY);
    gb_u32(b, item);
    gb_u64(b, count);
}

static inline void gb_tensor(struct buf *b, const char *name, uint32_t type, uint32_t n_dims, const uint64_t *dims,
                             uint64_t offset)
{
    gb_str(b, name);
    gb_u32(b, n_dims);
    for (uint32_t i = 0; i < n_dims; i++)
        gb_u64(b, dims[i]);
    gb_u32(b, type);
    gb_u64(b, offset);
}

static inline void gb_align(struct buf *b, size_t alignment)
{
    while (b->len % alignment)
        buf_putc(b, 0);
}

/* A value of each scalar type: 13 with the string. */
static inline void gb_scalars(struct buf *b)
{
    const double f64 = -1.0 / 3;
    const float f32 = 0.1f;
    gb_key(b, "t.u8", FILE_U8), buf_putc(b, (char)200);
    gb_key(b, "t.i8", FILE_I8), buf_putc(b, (char)-100);
    gb_key(b, "t.u16", FILE_U16), buf_put(b, &(uint16_t){60000}, 2);
    gb_key(b, "t.i16", FILE_I16), buf_put(b, &(int16_t){-30000}, 2);
    gb_key(b, "t.u32", FILE_U32), gb_u32(b, 4000000000u);
    gb_key(b, "t.i32", FILE_I32), gb_u32(b, (uint32_t)-2000000000);
    gb_key(b, "t.f32", FILE_F32), buf_put(b, &f32, 4);
    gb_key(b, "t.bool", FILE_BOOL), buf_putc(b, 1);
    gb_key(b, "t.u64", FILE_U64), gb_u64(b, UINT64_MAX);
    gb_key(b, "t.i64", FILE_I64), gb_u64(b, (uint64_t)INT64_MIN);
    gb_key(b, "t.f64", FILE_F64), buf_put(b, &f64, 8);
    gb_meta_str(b, "t.string", "caf\xc3\xa9");
}
#define GB_SCALARS 12

/* Arrays: numbers, bools, strings, 200 strings (more than an index stride), arrays of arrays. */
static inline void gb_arrays(struct buf *b)
{
    gb_meta_array(b, "a.i16", FILE_I16, 3);
    for (int i = -1; i < 2; i++)
        buf_put(b, &(int16_t){(int16_t)(i * 1000)}, 2);
    gb_meta_array(b, "a.f32", FILE_F32, 2);
    buf_put(b, (float[]){0.5f, -2.0f}, 8);
    gb_meta_array(b, "a.bool", FILE_BOOL, 2);
    buf_put(b, "\1", 2);
    gb_meta_array(b, "a.empty", FILE_STRING, 0);
    gb_meta_array(b, "a.strings", FILE_STRING, 200);
    for (int i = 0; i < 200; i++) { /* item i is i % 7 letters */
        gb_u64(b, (uint64_t)i % 7);
        for (int k = 0; k < i % 7; k++)
            buf_putc(b, (char)('a' + i % 26));
    }
    gb_meta_array(b, "a.nested", FILE_ARRAY, 2); /* [[7, 8], ["x", ""]] */
    gb_u32(b, FILE_U8), gb_u64(b, 2), buf_put(b, "\7\10", 2);
    gb_u32(b, FILE_STRING), gb_u64(b, 2), gb_str(b, "x"), gb_str(b, "");
}
#define GB_ARRAYS 6

/* A small valid file: every type of value, and five tensors (out of order in the data): F32 [2, 3], Q4_0 [64], a scalar, BF16 [1, 2, 1, 2],
 * Q2_K [256]. */
#define GB_SAMPLE_TENSORS 5
#define GB_SAMPLE_META (GB_SCALARS + GB_ARRAYS + 2)
static inline void gb_sample(struct buf *b, uint32_t version)
{
    gb_header(b, version, GB_SAMPLE_TENSORS, GB_SAMPLE_META);
    gb_meta_str(b, "general.architecture", "test");
    gb_meta_u32(b, "general.alignment", 16);
    gb_scalars(b);
    gb_arrays(b);
    gb_tensor(b, "matrix", INFER_TYPE_F32, 2, (uint64_t[]){2, 3}, 0);
    gb_tensor(b, "packed", INFER_TYPE_Q4_0, 1, (uint64_t[]){64}, 48); /* 36 bytes */
    gb_tensor(b, "scalar", INFER_TYPE_F32, 0, NULL, 32);
    gb_tensor(b, "four", INFER_TYPE_BF16, 4, (uint64_t[]){1, 2, 1, 2}, 96);
    gb_tensor(b, "k", INFER_TYPE_Q2_K, 1, (uint64_t[]){256}, 112);
    gb_align(b, 16);
    for (int i = 0; i < 6; i++)
        buf_put(b, &(float){(float)i + 0.25f}, 4);
    for (int i = 24; i < 112 + 84; i++) /* bytes 0x3c00... make plausible scales */
        buf_putc(b, i % 2 ? 0x3c : 0);
}

#endif
