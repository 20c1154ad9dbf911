/* The safetensors reader: a file of the safetensors package with every dtype, and hostile ones (N10 of hostile-inputs). */
#include "testutil.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "formats/safetensors.h"
#include "formats/st_build.h"
#include "kernels/dequant.h"

#define GOLDEN INFER_SOURCE_DIR "/tests/data/types.safetensors"
#define MEMORY_BOUND(n) ((int64_t)(n) * 50 + 300000) /* stated in safetensors.h; an arena's block, the smallest tables */

static infer_status open_bytes(const void *data, size_t len, struct infer_file **out, infer_error *err, const struct env *env)
{
    void *p = NULL;
    assert_int_equal(posix_memalign(&p, 32, len ? len : 1), 0); /* of the exact size, so that ASan sees a read past the end */
    memcpy(p, data, len);
    infer_source s = {.size = sizeof s, .kind = INFER_SOURCE_MEMORY, .name = "bad.st", .name_len = 6, .data = p, .length = len};
    infer_status st = file_open(env, &s, INFER_MAP_AUTO, NULL, out, err);
    if (st != INFER_OK)
        free(p);
    return st;
}

static void close_bytes(struct infer_file *f)
{
    void *p = (void *)(uintptr_t)f->parts[0].data;
    file_release(f);
    free(p);
}

static void expect_bytes(struct buf *b, infer_status status, const char *name, const char *says)
{
    struct test_alloc ta = {0};
    struct env env = test_env_of(&ta);
    struct infer_file *f = NULL;
    infer_error err;
    assert_true(buf_ok(b));
    infer_status st = open_bytes(b->data, b->len, &f, &err, &env);
    if (st == INFER_OK)
        close_bytes(f);
    if (st != status)
        fail_msg("%s: status %d (%s), not %d", says, st, st ? err.text : "", status);
    if (status != INFER_OK) {
        assert_int_equal(err.code, status);
        assert_string_equal(err.file, "bad.st");
        assert_string_equal(err.name, name);
        if (!strstr(err.text, says))
            fail_msg("'%s' does not say '%s'", err.text, says);
    }
    assert_int_equal(ta.live, 0);
    if (ta.peak_bytes > MEMORY_BOUND(b->len))
        fail_msg("%s: %lld bytes of memory for %zu", says, (long long)ta.peak_bytes, b->len);
    buf_free(b);
}

/* A file of this header and n_data bytes of data. */
static void expect(const char *header, size_t n_data, infer_status status, const char *name, const char *says)
{
    struct buf b;
    st_build(&b, header, UINT64_MAX, n_data);
    expect_bytes(&b, status, name, says);
}

/* ---- What the safetensors package writes ---- */

static void check_values(const struct infer_file *f, const char *name)
{
    char other[64];
    (void)snprintf(other, sizeof other, "%s.f32", name);
    const struct file_tensor *t = file_find_tensor(f, name, strlen(name)), *want = file_find_tensor(f, other, strlen(other));
    assert_true(t && want && want->type == INFER_TYPE_F32 && want->n == t->n);
    float *x = malloc((t->n + 1) * sizeof *x), *y = malloc((t->n + 1) * sizeof *y);
    dequant_row(t->type, t->data, x, t->n);
    dequant_row(want->type, want->data, y, t->n);
    for (uint64_t i = 0; i < t->n; i++)
        if (isnan(y[i]) ? !isnan(x[i]) : memcmp(&x[i], &y[i], 4) != 0)
            fail_msg("%s[%d]: %a, not %a", name, (int)i, (double)x[i], (double)y[i]);
    free(x);
    free(y);
}

static void check_golden(const struct infer_file *f)
{
    static const char *const names[] = {"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2", "I64", "I32", "I16",
                                        "I8",  "U64", "U32", "U16",  "U8",      "BOOL",    "one", "five"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check_values(f, names[i]);
    for (size_t i = 0; i < 15; i++) /* these are named as their types */
        assert_string_equal(infer_type_name(file_find_tensor(f, names[i], strlen(names[i]))->type), names[i]);
    assert_int_equal(f->n_tensors, 36);
    const struct file_tensor *t = file_find_tensor(f, "F64", 3);
    assert_true(t->n_dims == 2 && t->dims[0] == 5 && t->dims[1] == 7 && t->dims[2] == 1);
    t = file_find_tensor(f, "empty", 5);
    assert_true(t->n == 0 && t->bytes == 0 && t->data && t->n_dims == 3 && t->dims[0] == 2 && t->dims[1] == 0 && t->dims[2] == 3);
    t = file_find_tensor(f, "one", 3);
    assert_true(t->n == 1 && t->n_dims == 1 && t->dims[0] == 1);
    t = file_find_tensor(f, "five", 4); /* 2 x 3 x 1 x 4 x 5 */
    assert_true(t->n_dims == 4 && t->dims[0] == 5 && t->dims[1] == 4 && t->dims[2] == 1 && t->dims[3] == 6);
    struct file_str s;
    assert_int_equal(file_get_string(f, "format", &s, NULL), INFER_OK);
    assert_true(s.len == 2 && !memcmp(s.data, "pt", 2));
    assert_int_equal(file_get_string(f, "quoted \"key\"", &s, NULL), INFER_OK);
    assert_true(s.len == 7 && !memcmp(s.data, "line\n\xc3\xbc", 7));
    uint32_t u;
    infer_error err;
    assert_int_equal(file_get_u32(f, "format", &u, &err), INFER_ERROR_VALUE);
}

static void test_golden(void **state)
{
    (void)state;
    size_t len;
    struct infer_file *f = NULL;
    infer_error err;
    static const int32_t maps[] = {INFER_MAP_AUTO, INFER_MAP_READ};
    for (int i = 0; i < 2; i++) {
        infer_source s = {.size = sizeof s, .kind = INFER_SOURCE_PATH, .name = GOLDEN, .name_len = strlen(GOLDEN)};
        assert_int_equal(file_open(&env_default, &s, maps[i], NULL, &f, &err), INFER_OK);
        assert_int_equal(f->n_parts, 1); /* all in place */
        check_golden(f);
        file_release(f);
    }
    char *text = test_read_file(GOLDEN, &len);
    assert_non_null(text);
    assert_int_equal(open_bytes(text, len, &f, &err, &env_default), INFER_OK);
    check_golden(f);
    close_bytes(f);
    /* the same with the header one to seven bytes longer: nothing is where it can be read in place */
    uint64_t header;
    memcpy(&header, text, 8);
    for (size_t pad = 1; pad < 8; pad++) {
        struct buf b;
        uint64_t n = header + pad;
        buf_init(&b, &alloc_default, 0);
        buf_put(&b, &n, 8);
        buf_put(&b, text + 8, (size_t)header);
        buf_put(&b, "       ", pad);
        buf_put(&b, text + 8 + header, len - 8 - (size_t)header);
        assert_int_equal(open_bytes(b.data, b.len, &f, &err, &env_default), INFER_OK);
        assert_int_equal(f->n_parts, 2);
        check_golden(f);
        for (uint64_t i = 0; i < f->n_tensors; i++) {
            const struct file_tensor *t = &f->tensors[i];
            assert_true(t->bytes == 0 || (uintptr_t)t->data % dtype_of(t->type)->bytes == 0);
            assert_true(t->data == f->parts[t->part].data + t->offset && t->offset + t->bytes <= f->parts[t->part].size);
        }
        close_bytes(f);
        buf_free(&b);
    }
    free(text);
}

static void test_names(void **state)
{
    (void)state;
    struct buf b;
    static const char *const names[] = {"model.safetensors", "weights.pt", "x.gguf", ""};
    st_build(&b, "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}   ", UINT64_MAX, 3);
    for (size_t i = 0; i < 4; i++) { /* whatever it is called */
        struct infer_file *f;
        infer_source s = {.size = sizeof s, .kind = INFER_SOURCE_MEMORY, .name = names[i], .name_len = strlen(names[i]),
                          .data = b.data, .length = b.len};
        assert_int_equal(file_open(&env_default, &s, INFER_MAP_AUTO, NULL, &f, NULL), INFER_OK);
        assert_true(f->n_tensors == 1 && f->n_meta == 0 && ((const uint8_t *)f->tensors[0].data)[2] == 2);
        file_release(f);
    }
    buf_free(&b);
}

/* ---- N10 ---- */

static void test_header(void **state)
{
    (void)state;
    struct buf b;
    static const uint64_t lengths[] = {3, 100, 1000, SAFETENSORS_MAX_HEADER, SAFETENSORS_MAX_HEADER + 1, (uint64_t)1 << 55};
    for (size_t i = 0; i < 6; i++) {
        st_build(&b, "{}", lengths[i], 0);
        expect_bytes(&b, i < 4 ? INFER_ERROR_TRUNCATED : INFER_ERROR_LIMIT, "", i < 4 ? "do not fit" : "a header of");
    }
    st_build(&b, "{}", UINT64_MAX - 1, 0); /* 2^64 - 2 */
    expect_bytes(&b, INFER_ERROR_FORMAT, "", "not a GGUF, safetensors");
    st_build(&b, "{}", 1, 0);
    expect_bytes(&b, INFER_ERROR_FORMAT, "", "unexpected end");
    st_build(&b, "{}", 0, 0);
    expect_bytes(&b, INFER_ERROR_FORMAT, "", "unexpected end");
    expect("{}", 0, INFER_OK, "", "");
    expect("{}      ", 0, INFER_OK, "", "");
    expect("{} x", 0, INFER_ERROR_FORMAT, "", "text after the value");
    expect("{}", 1, INFER_ERROR_FORMAT, "", "belong to no tensor");
    expect("{\"a\":\"\xff\"}", 0, INFER_ERROR_FORMAT, "", "invalid UTF-8");
    st_build(&b, "[]", UINT64_MAX, 0);
    expect_bytes(&b, INFER_ERROR_FORMAT, "", "not a GGUF, safetensors");
    char deep[8192] = "{\"a\":";
    for (size_t i = 5; i < 5000; i++)
        deep[i] = '[';
    expect(deep, 0, INFER_ERROR_LIMIT, "", "nested");
    for (size_t i = 5; i < 5000; i += 5)
        memcpy(deep + i, "{\"a\":", 6);
    expect(deep, 0, INFER_ERROR_LIMIT, "", "nested");
}

static void test_metadata(void **state)
{
    (void)state;
    expect("{\"__metadata__\":{\"a\":\"b\"}}", 0, INFER_OK, "", "");
    expect("{\"__metadata__\":{}}", 0, INFER_OK, "", "");
    expect("{\"__metadata__\":[]}", 0, INFER_ERROR_FORMAT, "__metadata__", "not an object");
    expect("{\"__metadata__\":{\"a\":1}}", 0, INFER_ERROR_FORMAT, "a", "not a string");
    expect("{\"__metadata__\":{\"\":\"b\"}}", 0, INFER_ERROR_FORMAT, "", "empty");
    expect("{\"__metadata__\":{\"a\\u0000\":\"b\"}}", 0, INFER_ERROR_FORMAT, "", "zero byte");
    expect("{\"__metadata__\":{\"a\":\"b\",\"a\":\"c\"}}", 0, INFER_ERROR_FORMAT, "", "repeated key");
    expect("{\"__metadata__\":{},\"__metadata__\":{}}", 0, INFER_ERROR_FORMAT, "", "repeated key");
}

#define TENSOR(name, dtype, shape, span) "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" span "}"
#define ONE(dtype, shape, span) "{" TENSOR("w", dtype, shape, span) "}"

static void test_tensors(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        infer_status status;
        const char *says;
    } cases[] = { /* 8 bytes of data */
        {ONE("F32", "[2]", "[0,8]"), INFER_OK, ""},
        {ONE("F32", "[2,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,8]"), INFER_OK, ""},
        {ONE("F32", "[2,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,8]"), INFER_ERROR_LIMIT, "16 dimensions"},
        {ONE("F32", "[2]", "[0,4]"), INFER_ERROR_FORMAT, "call for another size"},
        {ONE("F32", "[3]", "[0,8]"), INFER_ERROR_FORMAT, "call for another size"},
        {ONE("F16", "[2]", "[0,8]"), INFER_ERROR_FORMAT, "call for another size"},
        {ONE("F32", "[4]", "[0,16]"), INFER_ERROR_TRUNCATED, "the file has 8"},
        {ONE("F32", "[2]", "[8,0]"), INFER_ERROR_FORMAT, "begin and an end"},
        {ONE("F32", "[2]", "[-8,0]"), INFER_ERROR_FORMAT, "begin and an end"},
        {ONE("F32", "[2]", "[0,8.0]"), INFER_ERROR_FORMAT, "begin and an end"},
        {ONE("F32", "[2]", "[0]"), INFER_ERROR_FORMAT, "begin and an end"},
        {ONE("F32", "[2]", "[0,8,8]"), INFER_ERROR_FORMAT, "begin and an end"},
        {ONE("F32", "[2]", "8"), INFER_ERROR_FORMAT, "begin and an end"},
        {ONE("F32", "[2]", "[0,18446744073709551615]"), INFER_ERROR_FORMAT, "begin and an end"},
        {ONE("F32", "[2]", "[18446744073709551608,0]"), INFER_ERROR_FORMAT, "begin and an end"},
        {ONE("U8", "[9223372036854775807]", "[0,9223372036854775807]"), INFER_ERROR_TRUNCATED, "the file has 8"},
        {ONE("U8", "[8]", "[9223372036854775799,9223372036854775807]"), INFER_ERROR_TRUNCATED, "the file has 8"},
        {ONE("F32", "[-2]", "[0,8]"), INFER_ERROR_FORMAT, "dimension"},
        {ONE("F32", "[2.0]", "[0,8]"), INFER_ERROR_FORMAT, "dimension"},
        {ONE("F32", "[\"2\"]", "[0,8]"), INFER_ERROR_FORMAT, "dimension"},
        {ONE("F32", "[9223372036854775808]", "[0,8]"), INFER_ERROR_FORMAT, "dimension"},
        {ONE("F32", "[4294967296,4294967296]", "[0,8]"), INFER_ERROR_FORMAT, "too many"},
        {ONE("F32", "[4294967296,4294967296,4294967296,4294967296,1,1,1]", "[0,8]"), INFER_ERROR_FORMAT, "too many"},
        {ONE("F64", "[4611686018427387904]", "[0,8]"), INFER_ERROR_FORMAT, "another size"}, /* overflows in bytes */
        {ONE("F32", "2", "[0,8]"), INFER_ERROR_FORMAT, "no shape"},
        {ONE("F8_E8M0", "[8]", "[0,8]"), INFER_ERROR_UNSUPPORTED, "F8_E8M0"},
        {ONE("F4", "[16]", "[0,8]"), INFER_ERROR_UNSUPPORTED, "F4"},
        {ONE("", "[2]", "[0,8]"), INFER_ERROR_UNSUPPORTED, "dtype"},
        {"{\"w\":{\"shape\":[2],\"data_offsets\":[0,8]}}", INFER_ERROR_FORMAT, "no dtype"},
        {"{\"w\":{\"dtype\":3,\"shape\":[2],\"data_offsets\":[0,8]}}", INFER_ERROR_FORMAT, "no dtype"},
        {"{\"w\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", INFER_ERROR_FORMAT, "no shape"},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2]}}", INFER_ERROR_FORMAT, "begin and an end"},
        {"{\"w\":[]}", INFER_ERROR_FORMAT, "not an object"},
        {"{\"w\":null}", INFER_ERROR_FORMAT, "not an object"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect(cases[i].header, 8, cases[i].status, "w", cases[i].says);
    expect("{\"\":{}}", 8, INFER_ERROR_FORMAT, "", "empty");
    expect("{\"a\\u0000b\":{}}", 8, INFER_ERROR_FORMAT, "", "zero byte");
    expect("{\"w\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, INFER_ERROR_FORMAT, "", "repeated key");
    expect("{" TENSOR("w", "F32", "[1]", "[0,4]") "," TENSOR("w", "F32", "[1]", "[4,8]") "}", 8, INFER_ERROR_FORMAT, "", "repeated key");
    char name[FILE_MAX_NAME + 2], header[2 * FILE_MAX_NAME];
    for (int more = 0; more < 2; more++) {
        memset(name, 'n', sizeof name);
        name[FILE_MAX_NAME + more] = 0;
        (void)snprintf(header, sizeof header, "{\"%s\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}", name);
        expect(header, 8, more ? INFER_ERROR_LIMIT : INFER_OK, "", "a name of");
    }
}

static void test_layout(void **state)
{
    (void)state;
    expect("{" TENSOR("a", "U8", "[4]", "[0,4]") "," TENSOR("b", "U8", "[4]", "[4,8]") "}", 8, INFER_OK, "", "");
    expect("{" TENSOR("b", "U8", "[4]", "[4,8]") "," TENSOR("a", "U8", "[4]", "[0,4]") "}", 8, INFER_OK, "", "");
    expect("{" TENSOR("e", "U8", "[0]", "[4,4]") "," TENSOR("b", "U8", "[4]", "[4,8]") "," TENSOR("a", "U8", "[4]", "[0,4]") "}", 8,
           INFER_OK, "", "");
    expect("{" TENSOR("e", "U8", "[0]", "[8,8]") "," TENSOR("a", "U8", "[8]", "[0,8]") "}", 8, INFER_OK, "", "");
    expect("{" TENSOR("e", "U8", "[0]", "[2,2]") "," TENSOR("a", "U8", "[8]", "[0,8]") "}", 8, INFER_ERROR_FORMAT, "e", "overlaps");
    expect("{" TENSOR("a", "U8", "[5]", "[0,5]") "," TENSOR("b", "U8", "[4]", "[4,8]") "}", 8, INFER_ERROR_FORMAT, "b", "overlaps that of 'a'");
    expect("{" TENSOR("b", "U8", "[4]", "[4,8]") "," TENSOR("a", "U8", "[5]", "[0,5]") "}", 8, INFER_ERROR_FORMAT, "b", "overlaps that of 'a'");
    expect("{" TENSOR("a", "U8", "[8]", "[0,8]") "," TENSOR("b", "U8", "[8]", "[0,8]") "}", 8, INFER_ERROR_FORMAT, "b", "overlaps");
    expect("{" TENSOR("a", "U8", "[3]", "[0,3]") "," TENSOR("b", "U8", "[4]", "[4,8]") "}", 8, INFER_ERROR_FORMAT, "b", "gap");
    expect("{" TENSOR("b", "U8", "[4]", "[4,8]") "}", 8, INFER_ERROR_FORMAT, "b", "gap");
    expect("{" TENSOR("a", "U8", "[4]", "[0,4]") "}", 8, INFER_ERROR_FORMAT, "", "4 bytes behind the data");
}

/* Headers that take much memory for their size, and many honest tensors in reverse order. */
static void test_large(void **state)
{
    (void)state;
    enum { N = 50000 };
    struct buf header;
    buf_init(&header, &alloc_default, 0);
    buf_puts(&header, "{\"w\":{\"shape\":[0");
    for (int i = 0; i < N; i++)
        buf_puts(&header, ",0");
    buf_puts(&header, "]}}");
    buf_putc(&header, 0);
    expect(header.data, 0, INFER_ERROR_LIMIT, "", "memory");
    header.len = 0;
    buf_putc(&header, '{');
    for (int i = 0; i < N; i++) {
        char line[128];
        (void)snprintf(line, sizeof line, "%s\"model.layers.%d.weight\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
                       i ? "," : "", i, (N - 1 - i) * 4, (N - i) * 4);
        buf_puts(&header, line);
    }
    buf_puts(&header, "}");
    buf_putc(&header, 0);
    expect(header.data, N * 4, INFER_OK, "", "");
    buf_free(&header);
}

static void touch_all(const struct infer_file *f)
{
    for (uint64_t i = 0; i < f->n_tensors; i++) {
        const struct file_tensor *t = &f->tensors[i];
        float *x = malloc((t->n + 1) * sizeof *x);
        dequant_row(t->type, t->data, x, t->n);
        free(x);
        assert_true(file_find_tensor(f, t->name.data, (size_t)t->name.len) == t);
    }
}

static void test_flips(void **state)
{
    (void)state;
    struct buf b;
    uint64_t seed = 20240602;
    int opened = 0, refused = 0;
    st_build(&b, "{\"__metadata__\":{\"format\":\"pt\"}," TENSOR("a", "F32", "[2,3]", "[0,24]") "," TENSOR("b", "BF16", "[3]", "[24,30]") ","
             TENSOR("c", "F8_E4M3", "[1,0]", "[30,30]") "," TENSOR("d", "I64", "[2]", "[30,46]") "}", UINT64_MAX, 46);
    for (int round = 0; round < 20000; round++) {
        struct test_alloc ta = {0};
        struct env env = test_env_of(&ta);
        struct infer_file *f = NULL;
        infer_error err;
        char *copy = malloc(b.len);
        memcpy(copy, b.data, b.len);
        for (int k = round % 3; k >= 0; k--)
            copy[8 + test_rand(&seed) % (b.len - 8)] = (char)test_rand(&seed);
        size_t len = round % 8 ? b.len : test_rand(&seed) % b.len; /* or cut */
        infer_status st = open_bytes(copy, len, &f, &err, &env);
        if (st == INFER_OK) {
            opened++;
            touch_all(f);
            close_bytes(f);
        } else {
            refused++;
            assert_true(err.text[0] && !strcmp(err.file, "bad.st"));
        }
        assert_int_equal(ta.live, 0);
        free(copy);
    }
    print_message("# %d damaged files opened, %d refused\n", opened, refused);
    assert_true(opened > 100 && refused > 1000);
    buf_free(&b);
}

/* Every allocation fails in turn. */
static void test_no_memory(void **state)
{
    (void)state;
    struct buf b;
    st_build(&b, "{\"__metadata__\":{\"format\":\"pt\"}," TENSOR("b", "U8", "[1]", "[4,5]") "," TENSOR("a", "F32", "[1]", "[0,4]") "," TENSOR("c", "I64", "[1]", "[5,13]") "}",
             UINT64_MAX, 13);
    for (uint64_t n = 1;; n++) {
        struct test_alloc ta = {.fail_at = n};
        struct env env = test_env_of(&ta);
        struct infer_file *f = NULL;
        infer_error err;
        infer_status st = open_bytes(b.data, b.len, &f, &err, &env);
        if (st == INFER_OK) {
            assert_int_equal(f->n_parts, 2);
            close_bytes(f);
            assert_true(n > 8 && ta.live == 0);
            break;
        }
        assert_int_equal(st, INFER_ERROR_NO_MEMORY);
        assert_int_equal(ta.live, 0);
    }
    buf_free(&b);
}

static void test_cancel(void **state)
{
    (void)state;
    struct buf b;
    struct infer_file *f = NULL;
    infer_cancel *cancel;
    infer_error err;
    assert_int_equal(infer_cancel_create(&cancel, NULL), INFER_OK);
    infer_cancel_set(cancel);
    st_build(&b, "{ " TENSOR("w", "F64", "[1]", "[0,8]") "}", UINT64_MAX, 8); /* to be copied */
    infer_source s = {.size = sizeof s, .kind = INFER_SOURCE_MEMORY, .data = b.data, .length = b.len};
    assert_true((8 + b.len - 8) % 8 != 0);
    assert_int_equal(file_open(&env_default, &s, INFER_MAP_AUTO, cancel, &f, &err), INFER_ERROR_CANCELLED);
    infer_cancel_release(cancel);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),  cmocka_unit_test(test_names),  cmocka_unit_test(test_header), cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_tensors), cmocka_unit_test(test_layout), cmocka_unit_test(test_large),  cmocka_unit_test(test_flips),
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
