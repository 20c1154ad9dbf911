/* The GGUF reader on hostile bytes: hostile-inputs N01-N07, and random damage. Nothing here may crash, leak, or take memory out of
 * proportion to the file; every refusal names its place. */
#include "testutil.h"

#include <stdlib.h>
#include <string.h>

#include "formats/gguf_build.h"
#include "kernels/dequant.h"

/* Memory that opening n bytes may take: stated in file.h as a small multiple. */
#define MEMORY_BOUND(n) ((int64_t)(n) * 16 + 65536)

static infer_status open_bytes(const void *data, size_t len, struct infer_file **out, infer_error *err,
                               struct test_alloc *ta, const struct env *env)
{
    void *p = NULL;
    assert_int_equal(posix_memalign(&p, 32, len ? len : 1), 0); /* of the exact size, so that ASan sees a read past the end */
    memcpy(p, data, len);
    infer_source s = {.size = sizeof s, .kind = INFER_SOURCE_MEMORY, .name = "bad.gguf", .name_len = 8, .data = p,
                      .length = len};
    infer_status st = file_open(env, &s, INFER_MAP_AUTO, NULL, out, err);
    assert_true(ta->peak_bytes <= MEMORY_BOUND(len));
    if (st != INFER_OK) {
        free(p);
        assert_int_equal(ta->live, 0);
    }
    return st; /* when OK the caller frees parts[0].data */
}

static void close_bytes(struct infer_file *f)
{
    void *p = (void *)(uintptr_t)f->parts[0].data;
    file_release(f);
    free(p);
}

/* Opens b, wants this status, name and text, and frees b. */
static void expect(struct buf *b, infer_status status, const char *name, const char *says)
{
    struct test_alloc ta = {0};
    struct env env = test_env_of(&ta);
    struct infer_file *f = NULL;
    infer_error err;
    assert_true(buf_ok(b));
    infer_status st = open_bytes(b->data, b->len, &f, &err, &ta, &env);
    if (st == INFER_OK)
        close_bytes(f);
    if (st != status)
        fail_msg("%s: status %d (%s), not %d", says, st, st ? err.text : "", status);
    if (status != INFER_OK) {
        assert_int_equal(err.code, status);
        assert_string_equal(err.file, "bad.gguf");
        assert_string_equal(err.name, name);
        if (!strstr(err.text, says))
            fail_msg("'%s' does not say '%s'", err.text, says);
    }
    assert_int_equal(ta.live, 0);
    buf_free(b);
}

static void test_n01_truncated(void **state)
{
    (void)state;
    struct buf b;
    gb_sample(&b, 3);
    for (size_t len = 0; len < b.len; len++) {
        struct test_alloc ta = {0};
        struct env env = test_env_of(&ta);
        struct infer_file *f = NULL;
        infer_error err;
        infer_status st = open_bytes(b.data, len, &f, &err, &ta, &env);
        if (len > 3 && st != INFER_ERROR_TRUNCATED)
            fail_msg("cut at %zu: status %d", len, st);
        assert_true(st == INFER_ERROR_TRUNCATED || st == INFER_ERROR_FORMAT);
        assert_true(err.offset <= len || err.name[0]);
    }
    buf_free(&b);
}

static void test_n02_counts(void **state)
{
    (void)state;
    static const uint64_t counts[] = {1000, (uint64_t)1 << 31, (uint64_t)1 << 32, (uint64_t)1 << 63, UINT64_MAX,
                                      UINT64_MAX / 96 + 1};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct buf b;
        infer_status st = counts[i] == 1000 ? INFER_ERROR_TRUNCATED : INFER_ERROR_LIMIT;
        gb_header(&b, 3, counts[i], 0);
        expect(&b, st, "", "tensors");
        gb_header(&b, 3, 0, counts[i]);
        expect(&b, st, "", "metadata keys");
    }
}

static void test_n03_strings(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {100, (uint64_t)1 << 31, (uint64_t)1 << 63, UINT64_MAX, UINT64_MAX - 7};
    struct buf b;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        gb_header(&b, 3, 0, 1); /* as a key */
        gb_u64(&b, lengths[i]), buf_puts(&b, "a key that is shorter");
        expect(&b, lengths[i] == 100 ? INFER_ERROR_TRUNCATED : INFER_ERROR_LIMIT, "", i ? "a name of" : "ends");
        gb_header(&b, 3, 0, 1); /* as a value */
        gb_key(&b, "key", FILE_STRING), gb_u64(&b, lengths[i]), buf_puts(&b, "short");
        expect(&b, INFER_ERROR_TRUNCATED, "key", "string");
        gb_header(&b, 3, 0, 1); /* as an item */
        gb_meta_array(&b, "key", FILE_STRING, 1), gb_u64(&b, lengths[i]), buf_puts(&b, "short");
        expect(&b, INFER_ERROR_TRUNCATED, "key", "string");
    }
    gb_header(&b, 3, 0, 1);
    gb_meta_u32(&b, "", 1);
    expect(&b, INFER_ERROR_FORMAT, "", "empty name");
    gb_header(&b, 3, 0, 2);
    gb_meta_u32(&b, "twice", 1), gb_meta_str(&b, "twice", "x");
    expect(&b, INFER_ERROR_FORMAT, "twice", "two metadata entries");
    gb_header(&b, 3, 0, 1);
    gb_u64(&b, 3), buf_put(&b, "a\0b", 3), gb_u32(&b, FILE_U8), buf_putc(&b, 1);
    expect(&b, INFER_ERROR_FORMAT, "", "zero byte");
    gb_header(&b, 3, 0, 1);
    gb_meta_u32(&b, "a\xC0\x80", 1);
    expect(&b, INFER_ERROR_FORMAT, "", "not UTF-8");
    gb_header(&b, 3, 0, 1); /* values may hold any bytes */
    gb_key(&b, "key", FILE_STRING), gb_u64(&b, 3), buf_put(&b, "\xFF\0\x80", 3);
    expect(&b, INFER_OK, "", "");
}

static void nested(struct buf *b, int depth)
{
    gb_header(b, 3, 0, 1);
    gb_key(b, "deep", FILE_ARRAY);
    for (int i = 1; i < depth; i++)
        gb_u32(b, FILE_ARRAY), gb_u64(b, 1);
    gb_u32(b, FILE_U8), gb_u64(b, 1), buf_putc(b, 1);
}

static void test_n04_arrays(void **state)
{
    (void)state;
    struct buf b;
    nested(&b, FILE_MAX_DEPTH);
    expect(&b, INFER_OK, "", "");
    nested(&b, FILE_MAX_DEPTH + 1);
    expect(&b, INFER_ERROR_LIMIT, "deep", "nested");
    nested(&b, 100000);
    expect(&b, INFER_ERROR_LIMIT, "deep", "nested");
    for (uint32_t item = 0; item < FILE_TYPE_COUNT; item++) {
        const uint64_t size = file_type_size(item) ? file_type_size(item) : 8;
        const uint64_t counts[] = {1000, UINT64_MAX, size > 1 ? UINT64_MAX / size + 1 : 1001, (uint64_t)1 << 63, (uint64_t)1 << 61};
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            gb_header(&b, 3, 0, 1);
            gb_meta_array(&b, "wraps", item, counts[i]), gb_u64(&b, 0), gb_u64(&b, 0);
            expect(&b, INFER_ERROR_TRUNCATED, "wraps", "do not fit");
        }
    }
    gb_header(&b, 3, 0, 1);
    gb_meta_array(&b, "odd", FILE_TYPE_COUNT, 1), gb_u64(&b, 0);
    expect(&b, INFER_ERROR_FORMAT, "odd", "item type 13");
    gb_header(&b, 3, 0, 1);
    gb_key(&b, "odd", UINT32_MAX), gb_u64(&b, 0);
    expect(&b, INFER_ERROR_FORMAT, "odd", "value type");
    gb_header(&b, 3, 0, 1);
    gb_key(&b, "odd", FILE_BOOL), buf_putc(&b, 2);
    expect(&b, INFER_ERROR_FORMAT, "odd", "bool");
    gb_header(&b, 3, 0, 1);
    gb_meta_array(&b, "odd", FILE_BOOL, 2), buf_put(&b, "\1\377", 2);
    expect(&b, INFER_ERROR_FORMAT, "odd", "bool");
    gb_header(&b, 3, 0, 1); /* the reader's own key, of another type */
    gb_meta_str(&b, "general.alignment", "32");
    expect(&b, INFER_ERROR_VALUE, "general.alignment", "expected an integer");
}

/* One tensor "w" with 4096 bytes of data behind the header. */
static void one_tensor(struct buf *b, uint32_t type, uint32_t n_dims, const uint64_t *dims, uint64_t offset)
{
    gb_header(b, 3, 1, 0);
    gb_str(b, "w");
    gb_u32(b, n_dims);
    for (uint32_t i = 0; i < n_dims && i < 6; i++)
        gb_u64(b, dims[i]);
    gb_u32(b, type);
    gb_u64(b, offset);
    gb_align(b, 32);
    for (int i = 0; i < 512; i++)
        gb_u64(b, 0x3c003c003c003c00u);
}

static void test_n05_tensors(void **state)
{
    (void)state;
    struct buf b;
    const uint64_t ones[6] = {1, 1, 1, 1, 1, 1};
    one_tensor(&b, INFER_TYPE_F32, 0, ones, 0); /* a scalar */
    expect(&b, INFER_OK, "", "");
    one_tensor(&b, INFER_TYPE_F32, 4, ones, 0);
    expect(&b, INFER_OK, "", "");
    one_tensor(&b, INFER_TYPE_F32, 5, ones, 0);
    expect(&b, INFER_ERROR_FORMAT, "w", "5 dimensions");
    one_tensor(&b, INFER_TYPE_F32, UINT32_MAX, ones, 0);
    expect(&b, INFER_ERROR_FORMAT, "w", "4294967295 dimensions");
    static const struct {
        uint32_t type, n;
        uint64_t dims[4];
        infer_status status;
        const char *says;
    } cases[] = {
        {INFER_TYPE_F32, 1, {0}, INFER_ERROR_FORMAT, "zero or negative"},
        {INFER_TYPE_F32, 3, {4, 0, 4}, INFER_ERROR_FORMAT, "zero or negative"},
        {INFER_TYPE_F32, 2, {4, UINT64_MAX}, INFER_ERROR_FORMAT, "zero or negative"},
        {INFER_TYPE_F32, 1, {(uint64_t)1 << 63}, INFER_ERROR_FORMAT, "zero or negative"},
        {INFER_TYPE_F32, 2, {(uint64_t)1 << 32, (uint64_t)1 << 32}, INFER_ERROR_FORMAT, "too many"},
        {INFER_TYPE_I8, 2, {(uint64_t)1 << 32, (uint64_t)1 << 31}, INFER_ERROR_FORMAT, "too many"},
        {INFER_TYPE_F32, 4, {65536, 65536, 65536, 65536}, INFER_ERROR_FORMAT, "too many"},
        {INFER_TYPE_F32, 1, {(uint64_t)1 << 62}, INFER_ERROR_FORMAT, "overflows"}, /* only in bytes */
        {INFER_TYPE_F64, 2, {(uint64_t)1 << 31, (uint64_t)1 << 30}, INFER_ERROR_FORMAT, "overflows"},
        {INFER_TYPE_Q8_0, 1, {0x7FFFFFFFFFFFFFE0u}, INFER_ERROR_TRUNCATED, "ends at byte"},
        {INFER_TYPE_Q4_0, 1, {31}, INFER_ERROR_FORMAT, "whole blocks of Q4_0"},
        {INFER_TYPE_Q4_0, 2, {16, 2}, INFER_ERROR_FORMAT, "whole blocks of Q4_0"},
        {INFER_TYPE_Q4_K, 1, {128}, INFER_ERROR_FORMAT, "whole blocks of Q4_K"},
        {4, 1, {32}, INFER_ERROR_UNSUPPORTED, "type 4"}, /* once Q4_2 */
        {33, 1, {32}, INFER_ERROR_UNSUPPORTED, "type 33"},
        {43, 1, {32}, INFER_ERROR_UNSUPPORTED, "type 43"},
        {UINT32_MAX, 1, {32}, INFER_ERROR_UNSUPPORTED, "type 4294967295"},
        {0x80000000u, 1, {32}, INFER_ERROR_UNSUPPORTED, "type 2147483648"},
        {INFER_TYPE_F32, 1, {1025}, INFER_ERROR_TRUNCATED, "ends at byte"},
        {INFER_TYPE_F32, 1, {1024}, INFER_OK, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        one_tensor(&b, cases[i].type, cases[i].n, cases[i].dims, 0);
        expect(&b, cases[i].status, "w", cases[i].says);
    }
}

static void test_n06_layout(void **state)
{
    (void)state;
    struct buf b;
    static const uint32_t bad[] = {0, 1, 3, 4, 24, 33, 0x80000000u, 0xFFFFFFFFu, (1u << 21) + 32, 1u << 22};
    static const uint32_t good[] = {8, 16, 32, 64, 4096, 1u << 21};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gb_header(&b, 3, 0, 1);
        gb_meta_u32(&b, "general.alignment", bad[i]);
        expect(&b, INFER_ERROR_VALUE, "general.alignment", "power of two");
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        gb_header(&b, 3, 1, 1);
        gb_meta_u32(&b, "general.alignment", good[i]);
        gb_tensor(&b, "w", INFER_TYPE_F32, 0, NULL, 0);
        gb_align(&b, good[i]), gb_u32(&b, 0);
        expect(&b, INFER_OK, "", "");
    }
    const uint64_t eight[] = {8}, big[] = {1024};
    static const struct {
        uint64_t offset;
        infer_status status;
        const char *says;
    } offsets[] = {
        {4, INFER_ERROR_FORMAT, "not a multiple of 32"},
        {33, INFER_ERROR_FORMAT, "not a multiple of 32"},
        {4096, INFER_ERROR_TRUNCATED, "ends at byte"},
        {(uint64_t)1 << 40, INFER_ERROR_TRUNCATED, "ends at byte"},
        {UINT64_MAX - 31, INFER_ERROR_FORMAT, "overflows"},
        {UINT64_MAX - 95, INFER_ERROR_FORMAT, "overflows"},
        {(uint64_t)1 << 63, INFER_ERROR_TRUNCATED, "ends at byte"},
        {4064, INFER_OK, ""},
    };
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        one_tensor(&b, INFER_TYPE_F32, 1, eight, offsets[i].offset);
        expect(&b, offsets[i].status, "w", offsets[i].says);
    }
    gb_header(&b, 3, 3, 0); /* the sum of their sizes wraps, that of no two */
    for (uint64_t i = 0; i < 3; i++)
        gb_tensor(&b, (const char *const[]){"x", "y", "z"}[i], INFER_TYPE_I8, 1, (uint64_t[]){0x6000000000000000u}, i * 0x6000000000000000u);
    gb_align(&b, 32), gb_u64(&b, 0);
    expect(&b, INFER_ERROR_TRUNCATED, "x", "ends at byte");
    for (int order = 0; order < 3; order++) { /* overlap: in order, reversed, the same place */
        const uint64_t at[3][2] = {{0, 4064}, {4064, 0}, {0, 0}};
        gb_header(&b, 3, 2, 0);
        gb_tensor(&b, "one", INFER_TYPE_F32, 1, order == 1 ? eight : big, at[order][0]);
        gb_tensor(&b, "two", INFER_TYPE_F32, 1, order == 1 ? big : eight, at[order][1]);
        gb_align(&b, 32);
        for (int i = 0; i < 1024; i++)
            gb_u64(&b, 0);
        expect(&b, INFER_ERROR_FORMAT, order == 1 ? "one" : "two", "overlaps");
    }
}

static void test_n07_names(void **state)
{
    (void)state;
    struct buf b;
    char *name = malloc(70000);
    memset(name, 'n', 70000);
    gb_header(&b, 3, 2, 0);
    gb_tensor(&b, "w", INFER_TYPE_F32, 0, NULL, 0);
    gb_tensor(&b, "w", INFER_TYPE_F32, 0, NULL, 32);
    gb_align(&b, 32), gb_u64(&b, 0), gb_align(&b, 32), gb_u64(&b, 0);
    expect(&b, INFER_ERROR_FORMAT, "w", "two tensors");
    for (int i = 0; i < 3; i++) {
        const size_t len[] = {FILE_MAX_NAME, FILE_MAX_NAME + 1, 65536};
        name[len[i]] = 0;
        gb_header(&b, 3, 1, 0);
        gb_tensor(&b, name, INFER_TYPE_F32, 0, NULL, 0);
        gb_align(&b, 32), gb_u64(&b, 0);
        expect(&b, i ? INFER_ERROR_LIMIT : INFER_OK, "", "a name of");
        name[len[i]] = 'n';
    }
    for (int i = 0; i < 2; i++) {
        name[FILE_MAX_KEY + i] = 0;
        gb_header(&b, 3, 0, 1);
        gb_meta_u32(&b, name, 1);
        expect(&b, i ? INFER_ERROR_LIMIT : INFER_OK, "", "a name of");
        name[FILE_MAX_KEY + i] = 'n';
    }
    gb_header(&b, 3, 1, 0); /* a name is a name: layer numbers are the model's business */
    gb_tensor(&b, "blk.2147483648.attn_q.weight", INFER_TYPE_F32, 0, NULL, 0);
    gb_align(&b, 32), gb_u64(&b, 0);
    expect(&b, INFER_OK, "", "");
    gb_header(&b, 3, 1, 0);
    gb_tensor(&b, "", INFER_TYPE_F32, 0, NULL, 0);
    gb_u64(&b, 0);
    expect(&b, INFER_ERROR_FORMAT, "", "empty name");
    free(name);
}

/* Large but honest headers take time in proportion: tensors in reverse order, and arrays of many small arrays. */
static void test_large_headers(void **state)
{
    (void)state;
    enum { TENSORS = 100000, ARRAYS = 200000 };
    struct buf b;
    char name[16] = "t0000000";
    gb_header(&b, 3, TENSORS, 1);
    gb_meta_array(&b, "many", FILE_ARRAY, ARRAYS);
    for (int i = 0; i < ARRAYS; i++)
        gb_u32(&b, FILE_U8), gb_u64(&b, 0);
    for (uint32_t i = 0; i < TENSORS; i++) {
        for (uint32_t k = 7, v = i; k > 0; k--, v /= 10)
            name[k] = (char)('0' + v % 10);
        gb_tensor(&b, name, INFER_TYPE_F32, 0, NULL, (uint64_t)(TENSORS - 1 - i) * 32);
    }
    gb_align(&b, 32);
    for (int i = 0; i < TENSORS * 4; i++)
        gb_u64(&b, 0);
    expect(&b, INFER_OK, "", "");
}

static void touch_value(const struct infer_file *f, const struct file_value *v, int depth, uint64_t *sum)
{
    struct file_value item;
    if (v->type == FILE_STRING)
        for (uint64_t i = 0; i < v->count; i++)
            *sum += v->data[i];
    for (uint64_t i = 0; v->type == FILE_ARRAY && i < v->count; i++) {
        assert_true(file_array_item(f, v, i, &item));
        assert_true(depth < FILE_MAX_DEPTH);
        touch_value(f, &item, depth + 1, sum);
    }
    if (file_type_size(v->type))
        *sum += v->data[0];
}

static void touch_all(const struct infer_file *f)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < f->n_meta; i++)
        touch_value(f, &f->meta[i].value, 0, &sum);
    for (uint64_t i = 0; i < f->n_tensors; i++) {
        const struct file_tensor *t = &f->tensors[i];
        float *x = malloc(t->n * sizeof *x);
        dequant_row(t->type, t->data, x, t->n);
        sum += x[t->n - 1] > 0;
        free(x);
        assert_true(file_find_tensor(f, t->name.data, t->name.len) == t);
    }
    assert_true(sum > 0);
}

static void test_flips(void **state)
{
    (void)state;
    struct buf b;
    uint64_t seed = 20240601;
    int opened = 0, refused = 0;
    gb_sample(&b, 3);
    for (int round = 0; round < 20000; round++) {
        struct test_alloc ta = {0};
        struct env env = test_env_of(&ta);
        struct infer_file *f = NULL;
        infer_error err;
        char *copy = malloc(b.len);
        memcpy(copy, b.data, b.len);
        for (int k = round % 4; k >= 0; k--)
            copy[test_rand(&seed) % b.len] = (char)test_rand(&seed);
        infer_status st = open_bytes(copy, b.len, &f, &err, &ta, &env);
        if (st == INFER_OK) {
            opened++;
            touch_all(f);
            close_bytes(f);
        } else {
            refused++;
            assert_true(err.text[0] && !strcmp(err.file, "bad.gguf"));
        }
        assert_int_equal(ta.live, 0);
        free(copy);
    }
    print_message("# %d damaged files opened, %d refused\n", opened, refused);
    assert_true(opened > 100 && refused > 1000);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_n01_truncated), cmocka_unit_test(test_n02_counts),  cmocka_unit_test(test_n03_strings),
        cmocka_unit_test(test_n04_arrays),    cmocka_unit_test(test_n05_tensors), cmocka_unit_test(test_n06_layout),
        cmocka_unit_test(test_n07_names),     cmocka_unit_test(test_large_headers), cmocka_unit_test(test_flips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
