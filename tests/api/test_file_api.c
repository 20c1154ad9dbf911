/* The exported functions for files, sources, cancel flags and statuses: what they give, and what they refuse (N17). */
#include "testutil.h"

#include <math.h>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif
#include <string.h>

#include "formats/gguf_build.h"

static infer_file *open_sample(struct buf *b)
{
    infer_source s;
    infer_file *f = NULL;
    infer_error err;
    INFER_INIT(&err);
    gb_sample(b, 3);
    infer_source_memory(&s, b->data, b->len);
    assert_int_equal(infer_file_open(NULL, &s, NULL, &f, &err), INFER_OK);
    assert_int_equal(err.code, 0);
    return f;
}

static void test_statuses(void **state)
{
    (void)state;
#define CHECK(name, value, message)                                                                                    \
    assert_string_equal(infer_status_message(value), message);                                                         \
    assert_string_equal(infer_status_name(value), #name);
    INFER_STATUS_LIST(CHECK)
    assert_string_equal(infer_status_message(1), "unknown status");
    assert_string_equal(infer_status_name(INT32_MIN), "unknown");
    assert_string_equal(infer_version(), INFER_VERSION_STRING);
    assert_int_equal(infer_abi_version(), INFER_ABI_VERSION);
    assert_int_equal(infer_numerics_version(), INFER_NUMERICS_VERSION);
}

static void test_types(void **state)
{
    (void)state;
    assert_string_equal(infer_type_name(INFER_TYPE_Q4_K), "Q4_K");
    assert_string_equal(infer_type_name(INFER_TYPE_IQ2_XXS), "IQ2_XXS");
    assert_null(infer_type_name(4));
    assert_null(infer_type_name(-1));
    assert_null(infer_type_name(INT32_MAX));
    assert_null(infer_type_name(INT32_MIN));
}

static void test_init(void **state)
{
    (void)state;
    unsigned char bytes[16];
    memset(bytes, 0xAA, sizeof bytes);
    infer_init(bytes, 12);
    assert_int_equal(bytes[0], 12);
    assert_int_equal(bytes[11], 0);
    assert_int_equal(bytes[12], 0xAA);
    infer_init(bytes + 12, 3);
    assert_int_equal(bytes[12], 0xAA);
    infer_init(NULL, 100);
}

static void test_cancel_flag(void **state)
{
    (void)state;
    infer_cancel *c = NULL;
    infer_error err;
    INFER_INIT(&err);
    assert_int_equal(infer_cancel_create(NULL, &err), INFER_ERROR_ARGUMENT);
    assert_string_equal(err.name, "out");
    assert_int_equal(infer_cancel_create(NULL, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_cancel_create(&c, NULL), INFER_OK);
    assert_int_equal(infer_cancel_is_set(c), 0);
    infer_cancel_set(c);
    assert_int_equal(infer_cancel_is_set(c), 1);
    infer_cancel_clear(c);
    assert_int_equal(infer_cancel_is_set(c), 0);
    infer_cancel_release(infer_cancel_ref(c));
    infer_cancel_release(c);
    infer_cancel_release(NULL);
    infer_cancel_set(NULL);
    infer_cancel_clear(NULL);
    assert_int_equal(infer_cancel_is_set(NULL), 0);
    assert_null(infer_cancel_ref(NULL));
}

static void test_tensors(void **state)
{
    (void)state;
    struct buf b;
    infer_file *f = open_sample(&b);
    infer_tensor_info t;
    infer_error err;
    uint64_t i = 99;
    float x[64];
    INFER_INIT(&t);
    INFER_INIT(&err);
    assert_int_equal(infer_file_tensor_count(f), GB_SAMPLE_TENSORS);
    assert_int_equal(infer_file_find_tensor(f, "matrix", INFER_ZSTR, &i, &err), INFER_OK);
    assert_int_equal(i, 0);
    assert_int_equal(infer_file_tensor(f, i, &t, &err), INFER_OK);
    assert_true(t.size == sizeof t && t.type == INFER_TYPE_F32 && t.dims == 2 && t.shape[0] == 2 && t.shape[1] == 3);
    assert_true(t.shape[2] == 1 && t.name_len == 6 && t.data_len == 24 && t.part == 0 && t.offset % 16 == 0);
    assert_int_equal(infer_file_tensor_f32(f, i, 1, 5, x, &err), INFER_OK);
    assert_true(x[0] == 1.25f && x[4] == 5.25f);
    assert_int_equal(infer_file_tensor_f32(f, i, 6, 0, NULL, &err), INFER_OK);
    assert_int_equal(infer_file_tensor_f32(f, i, 6, 1, x, &err), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_file_tensor_f32(f, i, 1, UINT64_MAX, x, &err), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_file_tensor_f32(f, i, UINT64_MAX, 1, x, &err), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_file_tensor_f32(f, i, 0, 1, NULL, &err), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_file_tensor_f32(f, 99, 0, 1, x, &err), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_file_find_tensor(f, "packed", 6, &i, &err), INFER_OK);
    assert_int_equal(infer_file_tensor_f32(f, i, 32, 32, x, &err), INFER_OK);
    assert_int_equal(infer_file_tensor_f32(f, i, 16, 32, x, &err), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_file_tensor_f32(f, i, 0, 31, x, &err), INFER_ERROR_ARGUMENT);
    assert_string_equal(err.name, "packed");
    i = 99;
    assert_int_equal(infer_file_find_tensor(f, "nothing", 7, &i, &err), INFER_ERROR_NOT_FOUND);
    assert_string_equal(err.name, "nothing");
    assert_int_equal(infer_file_find_tensor(f, NULL, 7, &i, &err), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_file_find_tensor(f, NULL, 0, &i, &err), INFER_ERROR_NOT_FOUND);
    assert_int_equal(infer_file_find_tensor(f, b.data, b.len, &i, &err), INFER_ERROR_NOT_FOUND);
    assert_int_equal(infer_file_find_tensor(NULL, "x", 1, &i, &err), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_file_find_tensor(f, "x", 1, NULL, &err), INFER_ERROR_ARGUMENT);
    assert_int_equal(i, 99);
    assert_int_equal(infer_file_tensor(f, GB_SAMPLE_TENSORS, &t, &err), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_file_tensor(NULL, 0, &t, &err), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_file_tensor(f, 0, NULL, &err), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_file_tensor_count(NULL), 0);
    infer_file_release(infer_file_ref(f));
    infer_file_release(f);
    infer_file_release(NULL);
    assert_null(infer_file_ref(NULL));
    buf_free(&b);
}

static infer_value get(infer_file *f, const char *key)
{
    infer_value v;
    infer_error err;
    INFER_INIT(&v);
    INFER_INIT(&err);
    assert_int_equal(infer_file_find_meta(f, key, INFER_ZSTR, &v, &err), INFER_OK);
    assert_int_equal(v.size, sizeof v);
    return v;
}

static void test_scalars(void **state)
{
    (void)state;
    struct buf b;
    infer_file *f = open_sample(&b);
    infer_value v = get(f, "t.u8");
    assert_true(v.kind == INFER_VALUE_UINT && v.width == 1 && v.u == 200 && v.item_kind == 0);
    v = get(f, "t.u64");
    assert_true(v.kind == INFER_VALUE_UINT && v.width == 8 && v.u == UINT64_MAX);
    v = get(f, "t.i16");
    assert_true(v.kind == INFER_VALUE_INT && v.width == 2 && v.i == -30000);
    v = get(f, "t.i64");
    assert_true(v.kind == INFER_VALUE_INT && v.i == INT64_MIN);
    v = get(f, "t.f32");
    assert_true(v.kind == INFER_VALUE_FLOAT && v.width == 4 && v.f == (double)0.1f);
    v = get(f, "t.f64");
    assert_true(v.kind == INFER_VALUE_FLOAT && v.width == 8 && v.f == -1.0 / 3);
    v = get(f, "t.bool");
    assert_true(v.kind == INFER_VALUE_BOOL && v.u == 1);
    v = get(f, "t.string");
    assert_true(v.kind == INFER_VALUE_STRING && v.count == 5 && v.width == 0 && !memcmp(v.data, "caf\xc3\xa9", 5));
    infer_file_release(f);
    buf_free(&b);
}

static void test_arrays(void **state)
{
    (void)state;
    struct buf b;
    infer_file *f = open_sample(&b);
    infer_value item, deep, array = get(f, "a.i16");
    infer_error err;
    INFER_INIT(&item);
    INFER_INIT(&deep);
    INFER_INIT(&err);
    assert_true(array.kind == INFER_VALUE_ARRAY && array.item_kind == INFER_VALUE_INT && array.width == 2 && array.count == 3);
    assert_int_equal(infer_file_value_item(f, &array, 2, &item, &err), INFER_OK);
    assert_true(item.kind == INFER_VALUE_INT && item.i == 1000);
    assert_int_equal(infer_file_value_item(f, &array, 3, &item, &err), INFER_ERROR_ARGUMENT);
    array = get(f, "a.strings");
    for (uint64_t i = 0; i < array.count; i++) {
        assert_int_equal(infer_file_value_item(f, &array, i, &item, &err), INFER_OK);
        assert_true(item.kind == INFER_VALUE_STRING && item.count == i % 7);
    }
    array = get(f, "a.nested");
    assert_true(array.item_kind == INFER_VALUE_ARRAY && array.count == 2);
    assert_int_equal(infer_file_value_item(f, &array, 1, &item, &err), INFER_OK);
    assert_true(item.kind == INFER_VALUE_ARRAY && item.item_kind == INFER_VALUE_STRING && item.count == 2);
    assert_int_equal(infer_file_value_item(f, &item, 0, &deep, &err), INFER_OK);
    assert_true(deep.kind == INFER_VALUE_STRING && deep.count == 1);
    assert_int_equal(infer_file_value_item(f, &deep, 0, &item, &err), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_file_value_item(f, NULL, 0, &item, &err), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_file_value_item(NULL, &array, 0, &item, &err), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_file_value_item(f, &array, 0, NULL, &err), INFER_ERROR_ARGUMENT);
    infer_file_release(f);
    buf_free(&b);
}

/* A host may hand over an array that it made up: no read may leave the file. */
static void test_forged_arrays(void **state)
{
    (void)state;
    struct buf b;
    infer_file *f = open_sample(&b);
    infer_value strings = get(f, "a.strings"), item;
    infer_error err;
    uint64_t seed = 5;
    const char *data = (const char *)f->parts[0].data;
    INFER_INIT(&item);
    INFER_INIT(&err);
    for (int i = 0; i < 20000; i++) {
        infer_value a = strings;
        a.item_kind = (int32_t)(test_rand(&seed) % 8);
        a.width = (uint32_t)(test_rand(&seed) % 10);
        a.count = test_rand(&seed) % 2 ? test_rand(&seed) : test_rand(&seed) % 4096;
        a.data = data + test_rand(&seed) % (b.len + 64) - 32; /* ASan watches the file's ends */
        infer_status st = infer_file_value_item(f, &a, a.count ? test_rand(&seed) % a.count : 0, &item, &err);
        assert_true(st == INFER_OK || st == INFER_ERROR_ARGUMENT);
        const char *p = item.data;
        assert_true(st != INFER_OK || (p >= data && p <= data + b.len));
        assert_true(st != INFER_OK || item.kind != INFER_VALUE_STRING || item.count <= (uint64_t)(data + b.len - p));
    }
    strings.data = NULL;
    assert_int_equal(infer_file_value_item(f, &strings, 0, &item, &err), INFER_ERROR_ARGUMENT);
    infer_file_release(f);
    buf_free(&b);
}

static void test_meta_by_index(void **state)
{
    (void)state;
    struct buf b;
    infer_file *f = open_sample(&b);
    infer_value v;
    infer_error err;
    const char *key;
    uint64_t len;
    INFER_INIT(&v);
    INFER_INIT(&err);
    assert_int_equal(infer_file_meta_count(f), GB_SAMPLE_META);
    assert_int_equal(infer_file_meta(f, 0, &key, &len, &v, &err), INFER_OK);
    assert_true(len == 20 && !memcmp(key, "general.architecture", 20) && v.kind == INFER_VALUE_STRING);
    assert_int_equal(infer_file_meta(f, GB_SAMPLE_META, &key, &len, &v, &err), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_file_meta(NULL, 0, &key, &len, &v, &err), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_file_meta(f, 0, NULL, &len, &v, &err), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_file_meta(f, 0, &key, NULL, &v, &err), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_file_meta(f, 0, &key, &len, NULL, &err), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_file_find_meta(f, "nothing", 7, &v, &err), INFER_ERROR_NOT_FOUND);
    assert_int_equal(infer_file_find_meta(f, NULL, 7, &v, &err), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_file_find_meta(NULL, "x", 1, &v, &err), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_file_meta_count(NULL), 0);
    infer_file_release(f);
    buf_free(&b);
}

static void test_open_arguments(void **state)
{
    (void)state;
    struct buf b;
    infer_source s, good;
    infer_open_options o;
    infer_error err;
    infer_file *f = NULL;
    INFER_INIT(&err);
    INFER_INIT(&o);
    gb_sample(&b, 3);
    infer_source_memory(&good, b.data, b.len);
    assert_int_equal(infer_file_open(NULL, &good, &o, NULL, &err), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_file_open(NULL, NULL, &o, &f, &err), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_file_open(NULL, NULL, NULL, NULL, NULL), INFER_ERROR_ARGUMENT);
    static const uint32_t sizes[] = {0, 1, 4, 8, 15, 63, 65537, UINT32_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        s = good;
        s.size = sizes[i];
        assert_int_equal(infer_file_open(NULL, &s, NULL, &f, &err), INFER_ERROR_ARGUMENT);
        assert_string_equal(err.name, "infer_source");
        o.size = sizes[i] == 63 ? 3 : sizes[i];
        assert_int_equal(infer_file_open(NULL, &good, &o, &f, &err), INFER_ERROR_ARGUMENT);
        assert_string_equal(err.name, "infer_open_options");
    }
    static const int32_t maps[] = {-1, 3, INT32_MIN, INT32_MAX};
    INFER_INIT(&o);
    for (size_t i = 0; i < 4; i++) {
        o.map = maps[i];
        assert_int_equal(infer_file_open(NULL, &good, &o, &f, &err), INFER_ERROR_ARGUMENT);
    }
    s = good;
    s.kind = 77;
    assert_int_equal(infer_file_open(NULL, &s, NULL, &f, &err), INFER_ERROR_ARGUMENT);
    infer_source_memory(&s, NULL, 10);
    assert_int_equal(infer_file_open(NULL, &s, NULL, &f, &err), INFER_ERROR_ARGUMENT);
    infer_source_path(&s, NULL, INFER_ZSTR);
    assert_int_equal(infer_file_open(NULL, &s, NULL, &f, &err), INFER_ERROR_ARGUMENT);
    infer_source_path(&s, NULL, 3);
    assert_int_equal(infer_file_open(NULL, &s, NULL, &f, &err), INFER_ERROR_ARGUMENT);
    infer_source_path(&s, "a\0b", 3);
    assert_int_equal(infer_file_open(NULL, &s, NULL, &f, &err), INFER_ERROR_ARGUMENT);
    infer_source_path(&s, "/nothing/here", INFER_ZSTR);
    assert_int_equal(infer_file_open(NULL, &s, NULL, &f, &err), INFER_ERROR_NOT_FOUND);
    assert_string_equal(err.file, "/nothing/here");
    infer_source_descriptor(&s, -7);
    assert_int_equal(infer_file_open(NULL, &s, NULL, &f, &err), INFER_ERROR_ARGUMENT);
    infer_source_callback(&s, NULL, 0, NULL, NULL);
    assert_int_equal(infer_file_open(NULL, &s, NULL, &f, &err), INFER_ERROR_ARGUMENT);
    infer_source_path(NULL, "x", 1);
    assert_null(f);
    buf_free(&b);
}

/* A host that flushes denormals gets the same values, and its setting back. */
static void test_flush_to_zero(void **state)
{
    (void)state;
#ifdef __SSE2__
    struct buf b;
    infer_source s;
    infer_file *f = NULL;
    infer_value v;
    float x[32];
    INFER_INIT(&v);
    gb_header(&b, 3, 1, 1);
    gb_key(&b, "tiny", FILE_F32), gb_u32(&b, 1);
    gb_tensor(&b, "w", INFER_TYPE_MXFP4, 1, (uint64_t[]){32}, 0);
    gb_align(&b, 32);
    for (int i = 0; i < 17; i++)
        buf_putc(&b, i ? 0x11 : 0); /* scale 2^-128, codes 1 */
    infer_source_memory(&s, b.data, b.len);
    const unsigned before = _mm_getcsr(), host = before | 0x8040; /* flush to zero, denormals are zero */
    _mm_setcsr(host);
    infer_status opened = infer_file_open(NULL, &s, NULL, &f, NULL);
    infer_status decoded = infer_file_tensor_f32(f, 0, 0, 32, x, NULL);
    infer_status found = infer_file_find_meta(f, "tiny", INFER_ZSTR, &v, NULL);
    const unsigned after = _mm_getcsr();
    _mm_setcsr(before);
    assert_true(opened == INFER_OK && decoded == INFER_OK && found == INFER_OK);
    assert_int_equal(after & ~0x3Fu, host & ~0x3Fu);
    assert_true(x[0] == ldexpf(1, -128) && x[31] == x[0]);
    assert_true(v.f == ldexp(1, -149));
    infer_file_release(f);
    buf_free(&b);
#else
    skip();
#endif
}

/* A newer program's structs are longer: unknown option bytes must be zero, unknown output bytes become zero. */
static void test_longer_structs(void **state)
{
    (void)state;
    struct buf b;
    infer_file *f = open_sample(&b), *g = NULL;
    struct {
        infer_source s;
        uint64_t more;
    } source = {.more = 0};
    struct {
        infer_tensor_info t;
        uint64_t more, beyond;
    } info = {.more = 5, .beyond = 5};
    struct {
        infer_error e;
        uint64_t more, beyond;
    } err = {.more = 5, .beyond = 5};
    err.e.size = sizeof err - 8;
    infer_source_memory(&source.s, b.data, b.len);
    source.s.size = sizeof source;
    assert_int_equal(infer_file_open(NULL, &source.s, NULL, &g, &err.e), INFER_OK);
    assert_true(err.more == 5);
    infer_file_release(g);
    source.more = (uint64_t)1 << 60;
    assert_int_equal(infer_file_open(NULL, &source.s, NULL, &g, &err.e), INFER_ERROR_ARGUMENT);
    assert_true(err.e.code == INFER_ERROR_ARGUMENT && err.more == 0 && err.beyond == 5 && err.e.size == sizeof err - 8);
    assert_string_equal(err.e.name, "infer_source");
    info.t.size = sizeof info - 8;
    assert_int_equal(infer_file_tensor(f, 0, &info.t, &err.e), INFER_OK);
    assert_true(info.t.size == sizeof info - 8 && info.more == 0 && info.beyond == 5 && info.t.data_len == 24);
    info.t.size = sizeof info.t - 8;
    assert_int_equal(infer_file_tensor(f, 0, &info.t, &err.e), INFER_ERROR_ARGUMENT);
    infer_file_release(f);
    buf_free(&b);
}

/* An error struct of any size is filled as far as it reaches, and its texts end. */
static void test_short_errors(void **state)
{
    (void)state;
    unsigned char bytes[sizeof(infer_error) + 64];
    for (uint32_t size = 0; size <= sizeof bytes; size++) {
        infer_error *err = (infer_error *)(void *)bytes;
        memset(bytes, 0xAA, sizeof bytes);
        memcpy(bytes, &size, 4);
        assert_int_equal(infer_file_open(NULL, NULL, NULL, NULL, err), INFER_ERROR_ARGUMENT);
        for (size_t i = size > 4 ? size : 4; i < sizeof bytes; i++)
            assert_int_equal(bytes[i], 0xAA);
        if (size >= 8)
            assert_int_equal(err->code, INFER_ERROR_ARGUMENT);
        if (size >= 16)
            assert_true(err->offset == UINT64_MAX);
        if (size > offsetof(infer_error, text))
            assert_non_null(memchr(err->text, 0, size - offsetof(infer_error, text)));
        if (size >= offsetof(infer_error, text))
            assert_string_equal(err->name, "out");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_statuses),       cmocka_unit_test(test_types),         cmocka_unit_test(test_init),
        cmocka_unit_test(test_cancel_flag),    cmocka_unit_test(test_tensors),       cmocka_unit_test(test_scalars),
        cmocka_unit_test(test_arrays),         cmocka_unit_test(test_forged_arrays), cmocka_unit_test(test_meta_by_index),
        cmocka_unit_test(test_open_arguments), cmocka_unit_test(test_longer_structs), cmocka_unit_test(test_short_errors),
        cmocka_unit_test(test_flush_to_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
