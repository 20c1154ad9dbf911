/* The GGUF reader on good files: every value type, tensors, split files, all kinds of sources. */
#include "testutil.h"

#include <stdio.h>
#include <string.h>

#include "formats/gguf_build.h"

static infer_status open_memory(const struct buf *b, struct infer_file **out, infer_error *err)
{
    infer_source s = {.size = sizeof s, .kind = INFER_SOURCE_MEMORY, .data = b->data, .length = b->len};
    return file_open(&env_default, &s, INFER_MAP_AUTO, NULL, out, err);
}

static infer_status open_path(const char *path, int32_t map, struct infer_file **out, infer_error *err)
{
    infer_source s = {.size = sizeof s, .kind = INFER_SOURCE_PATH, .name = path, .name_len = strlen(path)};
    return file_open(&env_default, &s, map, NULL, out, err);
}

static void test_shared_vocabularies(void **state)
{
    (void)state;
    TEST_NEEDS_SHARED();
    static const struct {
        const char *name;
        uint64_t tokens;
    } files[] = {{"llama-spm", 32000}, {"gpt-2", 50257},  {"phi-3", 32064}, {"deepseek-coder", 32256},
                 {"bert-bge", 30522},  {"falcon", 65024}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[512];
        infer_error err;
        struct infer_file *f;
        struct file_strings it;
        struct file_str s;
        snprintf(path, sizeof path, INFER_SHARED_DIR "/data/tokenizers/ggml-vocab-%s.gguf", files[i].name);
        assert_int_equal(open_path(path, i % 2 ? INFER_MAP_READ : INFER_MAP_MMAP, &f, &err), INFER_OK);
        assert_int_equal(file_get_strings(f, "tokenizer.ggml.tokens", &it, &err), INFER_OK);
        assert_int_equal(it.left, files[i].tokens);
        const struct file_meta *m = file_find_meta(f, "tokenizer.ggml.tokens", 21);
        for (uint64_t k = 0; file_strings_next(&it, &s); k++) {
            struct file_value v;
            assert_true(file_array_item(f, &m->value, k, &v));
            assert_true(v.type == FILE_STRING && v.count == s.len && (const char *)v.data == s.data);
        }
        assert_int_equal(f->n_tensors, 0);
        file_release(f);
    }
}

static void test_shared_model(void **state)
{
    (void)state;
    TEST_NEEDS_SHARED();
    infer_error err;
    struct infer_file *f;
    uint32_t n;
    assert_int_equal(open_path(INFER_SHARED_DIR "/data/models/stories260K.gguf", INFER_MAP_AUTO, &f, &err), INFER_OK);
    assert_int_equal(file_get_u32(f, "llama.block_count", &n, &err), INFER_OK);
    assert_int_equal(n, 5);
    const struct file_tensor *t = file_find_tensor(f, "token_embd.weight", 17);
    assert_non_null(t);
    assert_int_equal(t->dims[0], 64);
    assert_int_equal(t->dims[1], 512);
    assert_int_equal(t->bytes, 64 * 512 * 4);
    file_release(f);
}


static void check_scalars(struct infer_file *f)
{
    infer_error err;
    uint32_t u32;
    uint64_t u64;
    int64_t i64;
    float f32;
    bool flag;
    struct file_str s;
    assert_int_equal(file_get_u32(f, "t.u8", &u32, &err), INFER_OK);
    assert_int_equal(u32, 200);
    assert_int_equal(file_get_u32(f, "t.u16", &u32, &err), INFER_OK);
    assert_int_equal(u32, 60000);
    assert_int_equal(file_get_u32(f, "t.u32", &u32, &err), INFER_OK);
    assert_true(u32 == 4000000000u);
    assert_int_equal(file_get_u64(f, "t.u64", &u64, &err), INFER_OK);
    assert_true(u64 == UINT64_MAX);
    assert_int_equal(file_get_i64(f, "t.i8", &i64, &err), INFER_OK);
    assert_int_equal(i64, -100);
    assert_int_equal(file_get_i64(f, "t.i16", &i64, &err), INFER_OK);
    assert_int_equal(i64, -30000);
    assert_int_equal(file_get_i64(f, "t.i32", &i64, &err), INFER_OK);
    assert_int_equal(i64, -2000000000);
    assert_int_equal(file_get_i64(f, "t.i64", &i64, &err), INFER_OK);
    assert_true(i64 == INT64_MIN);
    assert_int_equal(file_get_f32(f, "t.f32", &f32, &err), INFER_OK);
    assert_true(f32 == 0.1f);
    assert_int_equal(file_get_f32(f, "t.f64", &f32, &err), INFER_OK);
    assert_true(f32 == (float)(-1.0 / 3));
    assert_int_equal(file_get_bool(f, "t.bool", &flag, &err), INFER_OK);
    assert_true(flag);
    assert_int_equal(file_get_string(f, "t.string", &s, &err), INFER_OK);
    assert_int_equal(s.len, 5);
}

static void check_refusals(struct infer_file *f)
{
    infer_error err;
    uint32_t u32 = 77, each[3];
    uint64_t u64;
    int64_t i64;
    float f32;
    bool flag;
    struct file_str s;
    struct file_array a;
    struct file_strings it;
    assert_int_equal(file_get_u32(f, "absent", &u32, &err), INFER_ERROR_MISSING);
    assert_string_equal(err.name, "absent");
    assert_string_equal(err.file, "sample");
    assert_int_equal(file_get_u32(f, "t.u64", &u32, &err), INFER_ERROR_VALUE);
    assert_true(err.offset > 0 && err.offset < 1000);
    assert_int_equal(file_get_u32(f, "t.i8", &u32, &err), INFER_ERROR_VALUE);
    assert_int_equal(file_get_u32(f, "t.f32", &u32, &err), INFER_ERROR_VALUE);
    assert_int_equal(file_get_u32(f, "t.bool", &u32, &err), INFER_ERROR_VALUE);
    assert_int_equal(file_get_u32(f, "t.string", &u32, &err), INFER_ERROR_VALUE);
    assert_int_equal(file_get_u32(f, "a.i16", &u32, &err), INFER_ERROR_VALUE);
    assert_int_equal(u32, 77);
    assert_int_equal(file_get_u64(f, "t.i64", &u64, &err), INFER_ERROR_VALUE);
    assert_int_equal(file_get_i64(f, "t.u64", &i64, &err), INFER_ERROR_VALUE);
    assert_int_equal(file_get_f32(f, "t.u32", &f32, &err), INFER_ERROR_VALUE);
    assert_int_equal(file_get_bool(f, "t.u8", &flag, &err), INFER_ERROR_VALUE);
    assert_int_equal(file_get_string(f, "a.strings", &s, &err), INFER_ERROR_VALUE);
    assert_int_equal(file_get_strings(f, "a.i16", &it, &err), INFER_ERROR_VALUE);
    assert_int_equal(file_get_ints(f, "a.f32", &a, &err), INFER_ERROR_VALUE);
    assert_int_equal(file_get_floats(f, "a.i16", &a, &err), INFER_ERROR_VALUE);
    assert_int_equal(file_get_floats(f, "t.f32", &a, &err), INFER_ERROR_VALUE);
    assert_int_equal(file_get_u32_each(f, "a.i16", 3, each, &err), INFER_ERROR_VALUE); /* -1000 */
    assert_int_equal(file_get_u32_each(f, "a.bool", 3, each, &err), INFER_ERROR_VALUE); /* 2 items */
    assert_int_equal(file_get_u32_each(f, "a.bool", 2, each, &err), INFER_OK);
    assert_true(each[0] == 1 && each[1] == 0);
    assert_int_equal(file_get_u32_each(f, "t.u8", 3, each, &err), INFER_OK);
    assert_true(each[0] == 200 && each[2] == 200);
    assert_int_equal(file_get_u32_or(f, "absent", 5, &u32, &err), INFER_OK);
    assert_int_equal(u32, 5);
    assert_int_equal(file_get_u32_or(f, "t.f32", 5, &u32, &err), INFER_ERROR_VALUE);
    assert_int_equal(file_get_string_or(f, "absent", "x", &s, &err), INFER_OK);
    assert_int_equal(s.len, 1);
    assert_int_equal(file_get_u32(f, "absent", &u32, NULL), INFER_ERROR_MISSING);
}

static void check_arrays(struct infer_file *f)
{
    infer_error err;
    struct file_array a;
    struct file_value item, inner;
    struct file_strings it;
    struct file_str s;
    assert_int_equal(file_get_ints(f, "a.i16", &a, &err), INFER_OK);
    assert_int_equal(a.count, 3);
    assert_int_equal(file_array_int(&a, 0), -1000);
    assert_int_equal(file_array_int(&a, 2), 1000);
    assert_int_equal(file_get_floats(f, "a.f32", &a, &err), INFER_OK);
    assert_true(file_array_f32(&a, 1) == -2.0f);
    assert_int_equal(file_get_strings(f, "a.empty", &it, &err), INFER_OK);
    assert_false(file_strings_next(&it, &s));
    const struct file_value *strings = &file_find_meta(f, "a.strings", 9)->value;
    for (uint64_t i = 0; i < 200; i++) {
        assert_true(file_array_item(f, strings, i, &item));
        assert_int_equal(item.count, i % 7);
        assert_true(!item.count || item.data[0] == 'a' + i % 26);
    }
    assert_false(file_array_item(f, strings, 200, &item));
    const struct file_value *nested = &file_find_meta(f, "a.nested", 8)->value;
    assert_true(file_array_item(f, nested, 1, &item));
    assert_true(item.type == FILE_ARRAY && item.item == FILE_STRING && item.count == 2);
    assert_true(file_array_item(f, &item, 0, &inner));
    assert_true(inner.count == 1 && inner.data[0] == 'x');
    assert_true(file_array_item(f, nested, 0, &item));
    assert_true(file_array_item(f, &item, 1, &inner));
    assert_true(inner.type == FILE_U8 && inner.data[0] == 8);
}

static void check_tensors(struct infer_file *f)
{
    assert_int_equal(f->n_tensors, GB_SAMPLE_TENSORS);
    const struct file_tensor *t = file_find_tensor(f, "matrix", 6);
    assert_true(t == &f->tensors[0] && t->n_dims == 2 && t->dims[0] == 2 && t->dims[1] == 3 && t->dims[2] == 1);
    assert_true(t->n == 6 && t->bytes == 24 && ((const float *)t->data)[5] == 5.25f && t->offset % 16 == 0);
    t = file_find_tensor(f, "scalar", 6);
    assert_true(t->n_dims == 1 && t->n == 1 && t->bytes == 4 && t->dims[0] == 1);
    t = file_find_tensor(f, "packed", 6);
    assert_true(t->bytes == 36 && t->type == INFER_TYPE_Q4_0);
    assert_null(file_find_tensor(f, "matri", 5));
    assert_null(file_find_tensor(f, "", 0));
}

static void test_sample(void **state)
{
    (void)state;
    for (uint32_t version = 2; version <= 3; version++) {
        struct buf b;
        struct infer_file *f;
        infer_error err;
        gb_sample(&b, version);
        infer_source s = {.size = sizeof s, .kind = INFER_SOURCE_MEMORY, .name = "sample", .name_len = 6,
                          .data = b.data, .length = b.len};
        assert_int_equal(file_open(&env_default, &s, INFER_MAP_AUTO, NULL, &f, &err), INFER_OK);
        assert_int_equal(f->n_meta, GB_SAMPLE_META);
        check_scalars(f);
        check_refusals(f);
        check_arrays(f);
        check_tensors(f);
        assert_int_equal(file_check(f, &err), INFER_OK);
        file_release(file_ref(f));
        file_release(f);
        buf_free(&b);
    }
    file_release(NULL);
}

/* What is not a little-endian GGUF file of version 2 or 3 is refused with its reason. */
static void test_other_contents(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t len;
        infer_status status;
        const char *says;
    } cases[] = {
        {"", 0, INFER_ERROR_TRUNCATED, "empty"},
        {"GGU", 3, INFER_ERROR_FORMAT, "not a GGUF"},
        {"GGUF\3", 5, INFER_ERROR_TRUNCATED, "ends"},
        {"GGUF\1\0\0\0\0\0\0\0\0\0\0\0", 16, INFER_ERROR_UNSUPPORTED, "version 1:"},
        {"GGUF\0\0\0\0\0\0\0\0\0\0\0\0", 16, INFER_ERROR_UNSUPPORTED, "version 0:"},
        {"GGUF\4\0\0\0\0\0\0\0\0\0\0\0", 16, INFER_ERROR_UNSUPPORTED, "version 4:"},
        {"GGUF\0\0\0\3\0\0\0\0\0\0\0\0", 16, INFER_ERROR_UNSUPPORTED, "big-endian"},
        {"FUGG\0\0\0\3\0\0\0\0\0\0\0\0", 16, INFER_ERROR_UNSUPPORTED, "big-endian"},
        {"tjgg\1\0\0\0", 8, INFER_ERROR_FORMAT, "old GGML"},
        {"PK\3\4xxxx", 8, INFER_ERROR_TRUNCATED, "zip"},
        {"version https://git-lfs.github.com/spec/v1\n", 43, INFER_ERROR_FORMAT, "Git LFS"},
        {"<!DOCTYPE html>", 15, INFER_ERROR_FORMAT, "HTML"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf b = {.data = (char *)(uintptr_t)cases[i].bytes, .len = cases[i].len};
        struct infer_file *f = NULL;
        infer_error err;
        assert_int_equal(open_memory(&b, &f, &err), cases[i].status);
        assert_null(f);
        if (!strstr(err.text, cases[i].says))
            fail_msg("'%s' does not say '%s'", err.text, cases[i].says);
    }
}

/* A file without tensors needs no data section, not even padding up to it. */
static void test_no_tensors(void **state)
{
    (void)state;
    struct buf b;
    struct infer_file *f;
    infer_error err;
    gb_header(&b, 3, 0, 1);
    gb_meta_str(&b, "k", "v");
    assert_int_equal(open_memory(&b, &f, &err), INFER_OK);
    assert_int_equal(f->n_tensors, 0);
    file_release(f);
    buf_free(&b);
    gb_header(&b, 3, 0, 0);
    assert_int_equal(open_memory(&b, &f, &err), INFER_OK);
    assert_null(file_find_meta(f, "k", 1));
    file_release(f);
    buf_free(&b);
}

/* A vocabulary of 300,000 tokens: one pass to open, constant time for each item in any order. */
static void test_large_vocabulary(void **state)
{
    (void)state;
    enum { N = 300000 };
    struct buf b;
    struct infer_file *f;
    infer_error err;
    struct file_value v;
    uint64_t seed = 3;
    gb_header(&b, 3, 0, 1);
    gb_meta_array(&b, "tokens", FILE_STRING, N);
    for (uint32_t i = 0; i < N; i++) {
        gb_u64(&b, 4 + i % 5);
        gb_u32(&b, i);
        buf_put(&b, "xxxx", i % 5);
    }
    assert_int_equal(open_memory(&b, &f, &err), INFER_OK);
    const struct file_value *array = &file_find_meta(f, "tokens", 6)->value;
    for (int k = 0; k < N; k++) {
        uint32_t i = (uint32_t)(test_rand(&seed) % N), got;
        assert_true(file_array_item(f, array, i, &v) && v.count == 4 + i % 5);
        memcpy(&got, v.data, 4);
        assert_int_equal(got, i);
    }
    file_release(f);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sample),
        cmocka_unit_test(test_other_contents),
        cmocka_unit_test(test_no_tensors),
        cmocka_unit_test(test_large_vocabulary),
        cmocka_unit_test(test_shared_vocabularies),
        cmocka_unit_test(test_shared_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
