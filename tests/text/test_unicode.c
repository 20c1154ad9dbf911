/* Unicode tables and normalisation against figures from Python's unicodedata2 16.0.0. */
#include "testutil.h"

#include <string.h>

#include "base/map.h"
#include "base/utf8.h"
#include "text/unicode.h"

static uint32_t count(uint32_t set)
{
    uint32_t n = 0;
    for (uint32_t c = 0; c < 0x110000; c++)
        n += uc_in(uc_props(c), set);
    return n;
}

static void test_categories(void **state)
{
    (void)state;
    assert_int_equal(count(UC_LETTER), 141028); /* DerivedGeneralCategory.txt */
    assert_int_equal(count(UC_NUMBER), 1911);
    assert_int_equal(count(UC_MARK), 2501);
    assert_int_equal(count(UC_PUNCTUATION), 855);
    assert_int_equal(count(UC_SYMBOL), 8514);
    assert_int_equal(count(UC_BIT(UC_LU)), 1858);
    assert_int_equal(count(UC_BIT(UC_CS)), 2048);
    uint32_t spaces = 0, han = 0;
    for (uint32_t c = 0; c < 0x110000; c++) {
        spaces += (uc_props(c) & UC_SPACE) != 0;
        han += (uc_props(c) & UC_HAN) != 0;
    }
    assert_int_equal(spaces, 25);
    assert_int_equal(han, 99030); /* Scripts.txt */
    assert_int_equal(uc_props(0x110000), 0);
    assert_int_equal(uc_props(UINT32_MAX), 0);
}

static void test_lower(void **state)
{
    (void)state;
    static const uint32_t pairs[][2] = {{'A', 'a'},       {'z', 'z'},       {'@', '@'},         {0xC4, 0xE4},     {0xD7, 0xD7},
                                        {0x130, 'i'},     {0x178, 0xFF},    {0x1C4, 0x1C6},     {0x1C5, 0x1C6},   {0x3A3, 0x3C3},
                                        {0x410, 0x430},   {0x10A0, 0x2D00}, {0x1E9E, 0xDF},     {0x2126, 0x3C9},  {0x24B6, 0x24D0},
                                        {0x10400, 0x10428}, {0x1E921, 0x1E943}, {0x1D400, 0x1D400}, {0xA7CB, 0x264}, {0x10D50, 0x10D70}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        assert_int_equal(uc_lower(pairs[i][0]), pairs[i][1]);
    uint32_t n = 0;
    for (uint32_t c = 0; c < 0x110000; c++) {
        n += uc_lower(c) != c;
        assert_int_equal(uc_lower(uc_lower(c)), uc_lower(c));
    }
    assert_int_equal(n, 1460);
}

static void expect(enum uc_form form, const char *text, const char *want)
{
    struct buf out;
    buf_init(&out, &alloc_default, 0);
    uc_normalize(form, text, strlen(text), &out);
    assert_true(buf_ok(&out));
    assert_int_equal(out.len, strlen(want));
    assert_memory_equal(out.data, want, out.len);
    buf_free(&out);
}

static void test_normalize(void **state)
{
    (void)state;
    expect(UC_FORM_C, "plain", "plain");
    expect(UC_FORM_C, "e\u0301", "\u00e9");
    expect(UC_FORM_D, "\u00e9", "e\u0301");
    expect(UC_FORM_C, "a\u0323\u0302", "\u1ead");
    expect(UC_FORM_C, "a\u0302\u0323", "\u1ead");       /* reordered */
    expect(UC_FORM_D, "\u1ead", "a\u0323\u0302");
    expect(UC_FORM_C, "a\u0301\u0301", "\u00e1\u0301"); /* the second is blocked */
    expect(UC_FORM_C, "\u0301\u00e9", "\u0301\u00e9");
    expect(UC_FORM_C, "\u212b", "\u00c5");              /* a singleton */
    expect(UC_FORM_C, "\u0958", "\u0915\u093c");        /* an exclusion */
    expect(UC_FORM_D, "\uac01", "\u1100\u1161\u11a8");
    expect(UC_FORM_C, "\u1100\u1161\u11a8", "\uac01");
    expect(UC_FORM_C, "\uac00\u11a8", "\uac01");
    expect(UC_FORM_C, "\uac01\u11a8", "\uac01\u11a8");
    expect(UC_FORM_C, "a\u0315\u0300\u05ae\u0300b", "\u00e0\u05ae\u0300\u0315b"); /* NormalizationTest.txt */
    expect(UC_FORM_C, "", "");
}

/* Every code point, alone and between marks, in one number. */
static uint64_t digest(enum uc_form form)
{
    struct buf in, out;
    buf_init(&in, &alloc_default, 0);
    buf_init(&out, &alloc_default, 0);
    for (uint32_t c = 1; c < 0x110000; c++) {
        char utf8[4];
        if (c >= 0xD800 && c < 0xE000)
            continue;
        size_t n = utf8_encode(c, utf8);
        buf_put(&in, utf8, n);
        buf_puts(&in, "a\u0301");
        buf_put(&in, utf8, n);
        buf_puts(&in, "\u0323\u3099.");
    }
    uc_normalize(form, in.data, in.len, &out);
    assert_true(buf_ok(&out) && buf_ok(&in));
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < out.len; i++)
        h = (h ^ (uint8_t)out.data[i]) * 1099511628211u;
    buf_free(&in);
    buf_free(&out);
    return h;
}

static void test_all_code_points(void **state)
{
    (void)state;
    assert_true(digest(UC_FORM_C) == 5077754818876711178u);
    assert_true(digest(UC_FORM_D) == 17499325109377439988u);
}

static void test_plain(void **state)
{
    (void)state;
    static const char *const plain[] = {"", "abc", "\u00e9t\u00e9", "\u4e2d\uac00", "\U0001f600"};
    static const char *const not_plain[] = {"e\u0301", "\u212b", "\u0958", "\u1161", "x\u0300"};
    for (size_t i = 0; i < 5; i++) {
        assert_true(uc_is_plain_nfc(plain[i], strlen(plain[i])));
        assert_false(uc_is_plain_nfc(not_plain[i], strlen(not_plain[i])));
    }
}

/* A megabyte of marks in the worst order takes linear time, and running out of memory is told. */
static void test_many_marks(void **state)
{
    (void)state;
    struct test_alloc ta = {0};
    struct alloc a = test_alloc_of(&ta);
    struct buf in, out;
    buf_init(&in, &alloc_default, 0);
    for (int i = 0; i < 250000; i++)
        buf_puts(&in, i % 2 ? "\u0323" : "\u0301");
    for (uint64_t fail = 0; fail < 30; fail += 7) {
        ta = (struct test_alloc){.fail_at = fail};
        buf_init(&out, &a, 0);
        uc_normalize(UC_FORM_C, in.data, in.len, &out);
        assert_true(buf_ok(&out) == !fail);
        if (!fail) {
            assert_int_equal(out.len, in.len);
            assert_memory_equal(out.data, "\u0323\u0323", 4);
        }
        buf_free(&out);
        assert_int_equal(ta.live, 0);
    }
    buf_free(&in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_categories), cmocka_unit_test(test_lower),
                                       cmocka_unit_test(test_normalize),  cmocka_unit_test(test_all_code_points),
                                       cmocka_unit_test(test_plain),      cmocka_unit_test(test_many_marks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
