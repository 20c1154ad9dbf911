/* Stop strings against a naive search over the whole text, however the text is cut: what is given out, what is held back, and when. */
#include "testutil.h"

#include <string.h>

#include "base/utf8.h"
#include "naive_stops.h"
#include "text/stops.h"

static infer_error error;
static struct test_alloc counted;
static struct alloc memory;

static int setup(void **state)
{
    (void)state;
    INFER_INIT(&error);
    memory = test_alloc_of(&counted);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return counted.live != 0;
}

#define MAX_BYTES 4096

struct text {
    size_t len;
    char s[MAX_BYTES];
};

static struct stops *make(const infer_text *texts, uint64_t n)
{
    struct stops *s = NULL;
    infer_status st = stops_create(&memory, texts, n, NULL, 0, &s, &error);
    if (st != INFER_OK)
        fail_msg("%s", error.text);
    return s;
}

/* How long the longest end of text is that a stop string begins with, but is not. */
static size_t naive_held(const infer_text *stops, uint64_t n, const char *text, size_t len)
{
    size_t held = 0;
    for (uint64_t i = 0; i < n; i++)
        for (size_t k = held + 1; k < stops[i].text_len && k <= len; k++)
            if (!memcmp(text + len - k, stops[i].text, k))
                held = k;
    return held;
}

/* The state survives being written out as text and read again. */
static void check_resume(const struct stops *s, const struct stops_state *state)
{
    struct stops_state again;
    struct buf held;
    buf_init(&held, &memory, 0);
    stops_held(s, state, &held);
    assert_int_equal(held.len, stops_held_len(s, state));
    assert_true(stops_resume(s, held.data, state->lead_len, held.len - state->lead_len, &again));
    assert_int_equal(again.node, state->node);
    assert_memory_equal(again.lead, state->lead, state->lead_len);
    buf_free(&held);
}

/* Feeds text in pieces that end at the places of cuts, which is increasing and ends with the length, and compares each step with the search. */
static void feed_all(const infer_text *stops, uint64_t n, const char *text, const size_t *cuts)
{
    struct stops *s = make(stops, n);
    struct stops_state state = {0};
    struct buf b;
    struct text out = {0};
    size_t from = 0;
    int32_t want, found = -1;
    buf_init(&b, &memory, 0);
    for (bool last = false; !last && found < 0; cuts++) {
        size_t held = 0, len, end;
        b.len = 0;
        stops_held(s, &state, &b);
        held = b.len;
        buf_put(&b, text + from, *cuts - from);
        from = *cuts;
        last = cuts[1] == 0;
        len = b.len;
        found = stops_feed(s, &state, b.data ? b.data : "", len - held, &len, last);
        assert_true(len <= b.len && out.len + len <= sizeof out.s);
        memcpy(out.s + out.len, b.data, len);
        out.len += len;
        end = naive_find(stops, n, text, from, &want);
        assert_int_equal(found, end ? want : -1);
        size_t all = end ? end - (size_t)stops[want].text_len : last ? from : from - naive_held(stops, n, text, from);
        size_t given = last ? all : utf8_complete(text, all);
        assert_int_equal(out.len, given);
        assert_memory_equal(out.s, text, given);
        check_resume(s, &state);
        assert_int_equal(stops_held_len(s, &state), end ? all - given : from - given);
    }
    buf_free(&b);
    stops_release(s);
}

/* A text and stop strings made to meet: few letters, some of more bytes, stop strings cut out of the text or made of the letters. */
static void make_case(uint64_t *rng, struct text *text, struct text *pool, infer_text *stops, uint64_t n)
{
    static const char *const letters[] = {"a", "b", "a", "\xC3\xA9", "\xC3\xA8", "\xE2\x82\xAC", "\xE2\x82\xAD", "\xF0\x9F\x98\x80", "\xA9", "\xFF"};
    uint64_t kinds = 1 + test_rand(rng) % (sizeof letters / sizeof *letters), want = 1 + test_rand(rng) % 120;
    text->len = pool->len = 0;
    for (uint64_t i = 0; i < want; i++) {
        const char *l = letters[test_rand(rng) % kinds];
        memcpy(text->s + text->len, l, strlen(l));
        text->len += strlen(l);
    }
    for (uint64_t i = 0; i < n; i++) {
        size_t len = 1 + test_rand(rng) % 9, at;
        len = len > text->len ? text->len : len;
        at = test_rand(rng) % (text->len - len + 1);
        memcpy(pool->s + pool->len, text->s + at, len);
        if (test_rand(rng) % 4) /* or not in the text, most likely */
            pool->s[pool->len + test_rand(rng) % len] = letters[test_rand(rng) % kinds][0];
        stops[i] = (infer_text){pool->s + pool->len, len};
        pool->len += len;
    }
}

static void test_random(void **unused)
{
    (void)unused;
    static struct text text, pool;
    uint64_t rng = 1, founds = 0;
    for (int round = 0; round < 20000; round++) {
        infer_text stops[64];
        size_t cuts[MAX_BYTES + 2], n_cuts = 0;
        int32_t which;
        uint64_t n = round % 50 == 0 ? 64 : 1 + test_rand(&rng) % 4;
        make_case(&rng, &text, &pool, stops, n);
        uint64_t step = 1 + test_rand(&rng) % 9;
        for (size_t at = 0; at < text.len;) {
            at += test_rand(&rng) % (step + 1); /* empty pieces too */
            cuts[n_cuts++] = at < text.len ? at : text.len;
            if (n_cuts == MAX_BYTES)
                at = text.len;
        }
        for (size_t i = 0; i < n_cuts; i++) /* 0 ends the list: no piece ends there */
            if (cuts[i] == 0)
                cuts[i] = 1;
        cuts[n_cuts - 1] = text.len;
        cuts[n_cuts] = 0;
        founds += naive_find(stops, n, text.s, text.len, &which) != 0;
        feed_all(stops, n, text.s, cuts);
    }
    print_message("# a stop string in %d of 20000 texts\n", (int)founds);
    assert_true(founds > 5000 && founds < 18000);
}

/* Every way to cut a text in three, with stop strings that overlap, and that begin and end inside characters. */
static void test_every_cut(void **unused)
{
    (void)unused;
    static const char text[] = "xaa\xE2\x82\xAC" "aaab ab\xC3\xA9z";
    static const infer_text lists[][2] = {
        {{"aab", 3}, {"ab", 2}}, {{"ab", 2}, {"aab", 3}}, {{"aaab ab", 7}, {"b a", 3}}, {{"\xAC" "a", 2}, {"aaaa", 4}}, {{"b\xC3", 2}, {"bb", 2}},
        {{"\x82", 1}, {"q", 1}}, {{"\xA9z!", 3}, {"\xC3\xA9z!", 4}}, {{"ab", 2}, {"ab", 2}}, {{"xaa\xE2\x82\xAC" "aaab ab\xC3\xA9z", 16}, {"z", 1}}};
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
        for (size_t a = 1; a < sizeof text - 1; a++)
            for (size_t b = a; b < sizeof text - 1; b++) {
                size_t cuts[] = {a, b, sizeof text - 1, 0};
                feed_all(lists[l], 2, text, cuts);
            }
}

/* 64 stop strings of 1,024 bytes that begin alike, and texts that fall back from deep inside them. */
static void test_long(void **unused)
{
    (void)unused;
    static char pool[64][1024], text[3000];
    infer_text stops[64];
    size_t cuts[] = {1000, 1023, 1024, 2100, sizeof text, 0};
    for (int i = 0; i < 64; i++) {
        memset(pool[i], 'a', sizeof pool[i]);
        pool[i][1023 - i] = 'b';
        pool[i][1023] = (char)('0' + i);
        stops[i] = (infer_text){pool[i], sizeof pool[i]};
    }
    memset(text, 'a', sizeof text);
    text[2050] = 'b';
    feed_all(stops, 64, text, cuts);
    memcpy(text + 1500, pool[40], 1024);
    feed_all(stops, 64, text, cuts);
    memcpy(text, pool[63], 1024);
    feed_all(stops, 64, text, cuts);
}

static void test_resume_bad(void **unused)
{
    (void)unused;
    static const infer_text stops[] = {{"abcab", 5}, {"ca", 2}, {"\xA9x", 2}};
    struct stops *s = make(stops, 3);
    struct stops_state state;
    assert_true(stops_resume(s, "", 0, 0, &state));
    assert_true(stops_resume(s, "abc", 0, 3, &state));
    assert_true(stops_resume(s, "\xC3\xA9", 1, 1, &state));
    assert_false(stops_resume(s, "abca", 0, 4, &state));     /* has a stop string in it */
    assert_false(stops_resume(s, "abcab", 0, 5, &state));
    assert_false(stops_resume(s, "xab", 0, 3, &state));      /* would have been given out */
    assert_false(stops_resume(s, "aab", 0, 3, &state));
    assert_false(stops_resume(s, "x", 1, 0, &state));        /* a whole character */
    assert_false(stops_resume(s, "\xF0\x9F\x98\x80", 4, 0, &state));
    stops_release(s);
}

static infer_status create(const infer_text *texts, uint64_t n, const int32_t *ids, uint64_t n_ids)
{
    struct stops *s = NULL;
    infer_status st = stops_create(&memory, texts, n, ids, n_ids, &s, &error);
    stops_release(s);
    return st;
}

static void test_bad(void **unused)
{
    (void)unused;
    static char big[1026];
    infer_text many[65];
    int32_t ids[65] = {0};
    for (int i = 0; i < 65; i++)
        many[i] = (infer_text){"x", INFER_ZSTR};
    memset(big, 'x', 1025);
    assert_int_equal(create(many, 64, ids, 64), INFER_OK);
    assert_int_equal(create(many, 65, NULL, 0), INFER_ERROR_ARGUMENT);
    assert_string_equal(error.name, "stop_count");
    assert_int_equal(create(many, UINT64_MAX, NULL, 0), INFER_ERROR_ARGUMENT);
    assert_int_equal(create(NULL, 1, NULL, 0), INFER_ERROR_ARGUMENT);
    assert_string_equal(error.name, "stops");
    assert_int_equal(create(NULL, 0, ids, 65), INFER_ERROR_ARGUMENT);
    assert_string_equal(error.name, "stop_id_count");
    assert_int_equal(create(NULL, 0, NULL, 1), INFER_ERROR_ARGUMENT);
    assert_string_equal(error.name, "stop_ids");
    static const infer_text bad[] = {{"", 0}, {"", INFER_ZSTR}, {NULL, 1}, {NULL, 0}, {NULL, INFER_ZSTR}, {"x", 1025}, {"x", UINT64_MAX - 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        many[1] = bad[i];
        assert_int_equal(create(many, 2, NULL, 0), INFER_ERROR_ARGUMENT);
        assert_string_equal(error.name, "stops");
    }
    many[1] = (infer_text){big, INFER_ZSTR};
    assert_int_equal(create(many, 2, NULL, 0), INFER_ERROR_ARGUMENT);
    many[1].text_len = 1024;
    assert_int_equal(create(many, 2, NULL, 0), INFER_OK);
}

static void test_no_memory(void **unused)
{
    (void)unused;
    static const infer_text stops[] = {{"abc", 3}, {"bcd", 3}};
    int fails = 0;
    for (uint64_t i = 1;; i++) {
        counted.calls = 0;
        counted.fail_at = i;
        infer_status st = create(stops, 2, NULL, 0);
        counted.fail_at = 0;
        assert_int_equal(counted.live, 0);
        if (st == INFER_OK)
            break;
        assert_int_equal(st, INFER_ERROR_NO_MEMORY);
        fails++;
    }
    assert_true(fails >= 8);
}

static void test_ids(void **unused)
{
    (void)unused;
    static const int32_t ids[] = {5, 0, 99};
    struct stops *s;
    uint32_t n;
    assert_int_equal(stops_create(&memory, NULL, 0, ids, 3, &s, &error), INFER_OK);
    assert_true(stops_has_id(s, 0) && stops_has_id(s, 99) && !stops_has_id(s, 1) && !stops_has_id(s, -1));
    assert_memory_equal(stops_ids(s, &n), ids, sizeof ids);
    assert_int_equal(n, 3);
    struct stops_state state = {0};
    size_t len = 3; /* without strings everything goes out */
    assert_int_equal(stops_feed(s, &state, "xyz", 3, &len, false), -1);
    assert_int_equal(len, 3);
    assert_true(stops_ref(s) == s && stops_ref(NULL) == NULL);
    stops_release(s);
    stops_release(s);
    stops_release(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),     cmocka_unit_test(test_every_cut), cmocka_unit_test(test_long), cmocka_unit_test(test_resume_bad),
        cmocka_unit_test(test_bad),        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_ids),
    };
    return cmocka_run_group_tests_name("stops", tests, setup, teardown);
}
