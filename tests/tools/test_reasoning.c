/* Reasoning split from answers (tools/infer-server/reasoning.c): the parts are the same however the text is cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "infer-server/reasoning.h"

struct parts {
    char text[2][512];
    size_t len[2];
};

static void gather(void *user, enum reasoning_part part, const char *text, size_t len)
{
    struct parts *p = user;
    assert_true(len > 0);
    assert_true(((unsigned char)text[0] & 0xC0) != 0x80); /* whole characters only */
    memcpy(p->text[part] + p->len[part], text, len);
    p->len[part] += len;
    p->text[part][p->len[part]] = 0;
}

static const struct reasoning_tags think = {"<think>", "</think>", -1, -1};

static void check(struct reasoning_tags tags, bool inside, const char *text, const char *reasoning, const char *answer)
{
    size_t len = strlen(text);
    for (size_t first = 0; first <= len; first++) /* cut in three, at characters */
        for (size_t second = first; second <= len; second++) {
            struct parts p = {.len = {0}};
            struct reasoning r;
            if ((text[first] & 0xC0) == 0x80 || (text[second] & 0xC0) == 0x80)
                continue;
            reasoning_begin(&r, tags, inside);
            reasoning_feed(&r, text, first, gather, &p);
            reasoning_feed(&r, text + first, second - first, gather, &p);
            reasoning_feed(&r, text + second, len - second, gather, &p);
            reasoning_end(&r, gather, &p);
            assert_string_equal(p.text[PART_REASONING], reasoning);
            assert_string_equal(p.text[PART_ANSWER], answer);
        }
}

static void test_split(void **state)
{
    (void)state;
    check(think, false, "<think>\nwhy\n\nso\n</think>\n\nBecause.", "why\n\nso", "Because.");
    check(think, false, " \n<think>a</think>b", "a", "b");
    check(think, true, "a < b </thin k</think> c <think>d</think>", "a < b </thin k", "c <think>d</think>");
    check(think, true, "</think>only", "", "only");
    check(think, false, "<think></think>", "", "");
    check(think, false, "<think>\n\n</think>\n\nx", "", "x");
    check(think, true, "\n\xC3\xA9 \xE2\x82\xAC </</</think>\xF0\x9F\x98\x80", "\xC3\xA9 \xE2\x82\xAC </</", "\xF0\x9F\x98\x80");
}

static void test_no_block(void **state)
{
    (void)state;
    check(think, false, "Plain <think>text</think>", "", "Plain <think>text</think>");
    check(think, false, "  \n leading", "", "  \n leading");
    check(think, false, "<thin", "", "<thin");
    check(think, false, "<thinker>", "", "<thinker>");
    check(think, false, "\xC3\xA9", "", "\xC3\xA9");
    check(think, false, " <th\xC3\xA9", "", " <th\xC3\xA9");
    check((struct reasoning_tags){NULL, NULL, -1, -1}, false, "<think>a</think>", "", "<think>a</think>");
}

/* An answer that ends in the middle, and more white space than can be held. */
static void test_ends(void **state)
{
    char text[300], long_space[201];
    (void)state;
    check(think, true, "cut off </thi", "cut off </thi", "");
    check(think, true, "trailing \n", "trailing \n", "");
    check(think, false, "", "", "");
    memset(long_space, ' ', 200);
    long_space[200] = 0;
    snprintf(text, sizeof text, "a%sb</think>c", long_space);
    char reasoning[300];
    snprintf(reasoning, sizeof reasoning, "a%sb", long_space);
    check(think, true, text, reasoning, "c");
    snprintf(text, sizeof text, "%s<think>", long_space); /* beyond what is held: no block, nothing lost */
    check(think, false, text, "", text);
}

static void token(struct reasoning *r, int32_t id, const char *text, struct parts *p)
{
    reasoning_token(r, id, text, strlen(text), gather, p);
}

static void test_control_tokens(void **state)
{
    const struct reasoning_tags tags = {"[THINK]", "[/THINK]", 7, 8};
    struct parts p = {.len = {0}};
    struct reasoning r;
    (void)state;
    reasoning_begin(&r, tags, false);
    token(&r, 7, "", &p);
    assert_int_equal(r.state, REASONING_SKIP);
    token(&r, 3, "why", &p);
    token(&r, 7, "", &p); /* a second one says nothing */
    token(&r, 8, "", &p);
    token(&r, 4, " so", &p);
    token(&r, 8, "", &p);
    reasoning_end(&r, gather, &p);
    assert_string_equal(p.text[PART_REASONING], "why");
    assert_string_equal(p.text[PART_ANSWER], "so");
}

static void test_templates(void **state)
{
    const char *qwen = "{%- set content = content.split('</think>')[-1] %}", *magistral = "[/THINK]", *none = "<think> alone, {{ content }}";
    (void)state;
    assert_string_equal(reasoning_find(qwen, strlen(qwen)).open, "<think>");
    assert_string_equal(reasoning_find(magistral, strlen(magistral)).close, "[/THINK]");
    assert_null(reasoning_find(none, strlen(none)).open);
    assert_null(reasoning_find("", 0).open);
    assert_true(reasoning_opened(&think, "x<think>\n", 9));
    assert_true(reasoning_opened(&think, "<think>", 7));
    assert_false(reasoning_opened(&think, "<think>\n\n</think>\n\n", 19));
    assert_false(reasoning_opened(&think, "think>", 6));
    assert_false(reasoning_opened(&think, "", 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_split), cmocka_unit_test(test_no_block), cmocka_unit_test(test_ends),
                                       cmocka_unit_test(test_control_tokens), cmocka_unit_test(test_templates)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
