#include <stdio.h>
#include "testutil.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"

static infer_status parse_len(struct arena *ar, const char *text, size_t len, struct json *out, infer_error *err)
{
    arena_init(ar, &alloc_default, 0);
    return json_parse(ar, text, len, NULL, out, err);
}

static void check_bad(const char *text, size_t len, uint64_t offset)
{
    struct arena ar;
    struct json v;
    infer_error err;
    char *copy = malloc(len ? len : 1); /* exactly as long, for the sanitizer */
    memcpy(copy, text, len);
    assert_int_equal(parse_len(&ar, copy, len, &v, &err), INFER_ERROR_SYNTAX);
    if (err.offset != offset)
        print_error("%.*s: offset %d, expected %d\n", (int)len, text, (int)err.offset, (int)offset);
    assert_int_equal(err.offset, offset);
    free(copy);
    arena_free(&ar);
}

#define BAD(text, offset) check_bad(text, sizeof(text) - 1, offset)

static void test_refused(void **state)
{
    (void)state;
    BAD("", 0);
    BAD(" ", 1);
    BAD("{", 1);
    BAD("[", 1);
    BAD("[1", 2);
    BAD("[1,", 3);
    BAD("[1,]", 3);
    BAD("[,1]", 1);
    BAD("[1 2]", 3);
    BAD("{\"a\"}", 4);
    BAD("{\"a\":}", 5);
    BAD("{\"a\":1,}", 7);
    BAD("{a:1}", 1);
    BAD("{1:1}", 1);
    BAD("{\"a\":1]", 6);
    BAD("[1}", 2);
    BAD("1 1", 2);
    BAD("tru", 0);
    BAD("True", 0);
    BAD("nul", 0);
    BAD("NaN", 0);
    BAD("Infinity", 0);
    BAD("-", 1);
    BAD("+1", 0);
    BAD(".5", 0);
    BAD("01", 0);
    BAD("-01", 0);
    BAD("1.", 2);
    BAD("1.e5", 2);
    BAD("1e", 2);
    BAD("1e+", 3);
    BAD("0x1", 1);
    BAD("'a'", 0);
    BAD("\"", 1);
    BAD("\"a", 2);
    BAD("\"\\", 2);
    BAD("\"\\q\"", 1);
    BAD("\"\\u12\"", 1);
    BAD("\"\\u12G4\"", 1);
    BAD("\"\\ud800\"", 1);
    BAD("\"\\ud800\\n\"", 1);
    BAD("\"\\ud800\\ud800\"", 1);
    BAD("\"\\udc00\"", 1);
    BAD("\"a\nb\"", 2);
    BAD("\"a\0b\"", 2);
    BAD("\"\xC3\"", 1);
    BAD("\"\xED\xA0\x80\"", 1);
    BAD("\"\xF8\x88\x80\x80\x80\"", 1);
    BAD("\xEF\xBB\xBF{}", 0);
    BAD("// c\n1", 0);
    BAD("[1]\0", 3);
}

static void test_values(void **state)
{
    (void)state;
    struct arena ar;
    struct json v;
    const char *text = " {\"a\" : [1, -0, 2.5, -1e3, 1E400, 12345678901234567890, true, false, null, \"x\"],\"\":{},"
                       "\"s\":\"\\u00e9\\ud83d\\ude00\\n\\\"\\/\\\\\\u0000z\", \"e\":[] }\r\n\t";
    assert_int_equal(parse_len(&ar, text, strlen(text), &v, NULL), INFER_OK);
    assert_int_equal(v.type, JSON_OBJECT);
    assert_int_equal(v.n, 4);
    assert_int_equal(v.offset, 1);
    const struct json *a = json_get(&v, "a");
    assert_int_equal(a->n, 10);
    const struct json *i = a->u.items;
    assert_true(i[0].type == JSON_INT && i[0].u.integer == 1 && i[0].offset == 9);
    assert_true(i[1].type == JSON_INT && i[1].u.integer == 0);
    assert_true(i[2].type == JSON_DOUBLE && i[2].u.number == 2.5);
    assert_true(i[3].type == JSON_DOUBLE && i[3].u.number == -1000);
    assert_true(i[4].type == JSON_DOUBLE && i[4].u.number > 1e308);
    assert_true(i[5].type == JSON_BIG && i[5].u.text.len == 20);
    assert_true(i[6].type == JSON_BOOL && i[6].u.boolean && i[7].type == JSON_BOOL && !i[7].u.boolean);
    assert_int_equal(i[8].type, JSON_NULL);
    assert_string_equal(i[9].u.text.p, "x");
    const struct json *s = json_get(&v, "s");
    assert_int_equal(s->u.text.len, 12);
    assert_memory_equal(s->u.text.p, "\xC3\xA9\xF0\x9F\x98\x80\n\"/\\\0z", 12);
    assert_int_equal(json_get(&v, "")->type, JSON_OBJECT);
    assert_int_equal(json_get(&v, "e")->n, 0);
    assert_null(json_get(&v, "zz"));
    assert_null(json_get(a, "a"));
    assert_null(json_get(NULL, "a"));
    arena_free(&ar);
}

static void test_repeated_keys(void **state)
{
    (void)state;
    struct arena ar;
    struct json v;
    const char *text = "{\"a\":1,\"b\":{\"x\":1,\"x\":2},\"a\":[3]}";
    assert_int_equal(parse_len(&ar, text, strlen(text), &v, NULL), INFER_OK);
    assert_int_equal(v.n, 2);
    assert_string_equal(v.u.members[0].key.p, "a");
    assert_int_equal(v.u.members[0].value.type, JSON_ARRAY);
    assert_int_equal(json_get(json_get(&v, "b"), "x")->u.integer, 2);
    arena_free(&ar);
    /* many: found by a map */
    char *big = malloc(200000);
    size_t n = 0;
    big[n++] = '{';
    for (int i = 0; i < 5000; i++)
        n += (size_t)snprintf(big + n, 40, "%s\"k%d\":%d", i ? "," : "", i % 2500, i);
    big[n++] = '}';
    assert_int_equal(parse_len(&ar, big, n, &v, NULL), INFER_OK);
    assert_int_equal(v.n, 2500);
    assert_string_equal(v.u.members[7].key.p, "k7");
    assert_int_equal(v.u.members[7].value.u.integer, 2507);
    arena_free(&ar);
    free(big);
}

static void test_limits(void **state)
{
    (void)state;
    struct arena ar;
    struct json v;
    infer_error err;
    static char deep[200001];
    memset(deep, '[', 200000);
    assert_int_equal(parse_len(&ar, deep, 200000, &v, &err), INFER_ERROR_LIMIT);
    arena_free(&ar);
    memset(deep, '[', 200);
    memset(deep + 200, ']', 200);
    assert_int_equal(parse_len(&ar, deep, 400, &v, &err), INFER_OK);
    arena_free(&ar);
    struct json_limits tight = {.max_depth = 199};
    arena_init(&ar, &alloc_default, 0);
    assert_int_equal(json_parse(&ar, deep, 400, &tight, &v, &err), INFER_ERROR_LIMIT);
    tight = (struct json_limits){.max_bytes = 3};
    assert_int_equal(json_parse(&ar, "1234", 4, &tight, &v, &err), INFER_ERROR_LIMIT);
    arena_free(&ar);
    memset(deep, '1', 2000);
    for (int i = 0; i < 2000; i += 2)
        deep[i] = i ? ',' : '[';
    deep[2000] = ']';
    arena_init(&ar, &alloc_default, 10000);
    assert_int_equal(json_parse(&ar, deep, 2001, NULL, &v, &err), INFER_ERROR_LIMIT);
    arena_free(&ar);
}

/* Every allocation fails once: an error, and nothing left behind. */
static void test_no_memory(void **state)
{
    (void)state;
    static char text[40000];
    size_t n = 0;
    text[n++] = '[';
    for (int i = 0; i < 700; i++)
        n += (size_t)snprintf(text + n, 60, "%s{\"key\":\"some text %d\",\"n\":[%d,{}]}", i ? "," : "", i, i);
    text[n++] = ']';
    uint64_t total = 0;
    for (uint64_t k = 1;; k++) {
        struct test_alloc t = {.fail_at = k};
        struct alloc a = test_alloc_of(&t);
        struct arena ar;
        struct json v;
        infer_error err;
        arena_init(&ar, &a, 0);
        infer_status st = json_parse(&ar, text, n, NULL, &v, &err);
        arena_free(&ar);
        assert_int_equal(t.live, 0);
        if (st == INFER_OK) {
            total = k - 1;
            break;
        }
        assert_int_equal(st, INFER_ERROR_NO_MEMORY);
    }
    print_message("%d allocations failed in turn\n", (int)total);
    assert_true(total > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused), cmocka_unit_test(test_values), cmocka_unit_test(test_repeated_keys),
        cmocka_unit_test(test_limits),  cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
