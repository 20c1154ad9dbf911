/* The tiny vocabularies of tests/data/tokenizers against what the official libraries made of the same texts. */
#include "toktest.h"

#include "text/pretok.h"

static void stream(const infer_tokenizer *t, const int32_t *ids, uint64_t n, char *out, uint64_t *len)
{
    infer_detokenizer state;
    INFER_INIT(&state);
    uint64_t part;
    *len = 0;
    for (uint64_t i = 0; i <= n; i++) {
        assert_int_equal(infer_detokenizer_next(t, &state, i < n ? ids[i] : -1, out + *len, 4096, &part, NULL), INFER_OK);
        *len += part;
        assert_true(state.pending_len < 4);
        if (i < n) /* never half a character */
            for (uint64_t k = *len, back = 1; back <= 3 && back <= k; back++)
                if (((uint8_t)out[k - back] & 0xC0) == 0xC0) {
                    assert_true((uint8_t)out[k - back] < (back == 1 ? 0xC0 : back == 2 ? 0xE0 : 0xF0));
                    break;
                }
    }
}

static void check_file(const char *name, int decode)
{
    char path[512];
    struct cases c;
    int n_cases = 0, failed = 0;
    snprintf(path, sizeof path, DATA_DIR "%s.gguf", name);
    infer_tokenizer *t = open_tokenizer(path);
    snprintf(path, sizeof path, DATA_DIR "%s.txt", name);
    cases_open(&c, path);
    for (; cases_next(&c); n_cases++) {
        static char text[65536], streamed[65536];
        int32_t ids[2048], want[2048];
        uint64_t n, len, streamed_len;
        size_t text_len = unhex(c.field[0]), want_len = unhex(c.field[2]);
        uint64_t want_n = read_numbers(c.field[1], want, 2048);
        assert_int_equal(infer_tokenize(t, c.field[0], text_len, 0, ids, 2048, &n, NULL), INFER_OK);
        if (n != want_n || memcmp(ids, want, n * sizeof *ids)) {
            failed++;
            print_error("%s: \"%.*s\" (line %d): %d ids, expected %d\n", name, (int)text_len, c.field[0], n_cases + 1, (int)n,
                        (int)want_n);
            for (uint64_t i = 0; i < n && i < want_n; i++)
                if (ids[i] != want[i]) {
                    print_error("   at %d: %d, expected %d\n", (int)i, ids[i], want[i]);
                    break;
                }
        }
        assert_int_equal(infer_detokenize(t, want, want_n, 0, text, sizeof text, &len, NULL), INFER_OK);
        if (decode && (len != want_len || memcmp(text, c.field[2], len))) {
            failed++;
            print_error("%s line %d: decoded \"%.*s\", expected \"%.*s\"\n", name, n_cases + 1, (int)len, text, (int)want_len,
                        c.field[2]);
        }
        stream(t, want, want_n, streamed, &streamed_len);
        assert_int_equal(streamed_len, len);
        assert_memory_equal(streamed, text, len);
    }
    assert_true(n_cases > 40);
    assert_int_equal(failed, 0);
    free(c.data);
    infer_tokenizer_release(t);
}

static void test_bpe(void **state)
{
    (void)state;
    check_file("bpe", 1);
}

static void test_spm(void **state)
{
    (void)state;
    check_file("spm", 1);
}

static void test_unigram(void **state)
{
    (void)state;
    check_file("unigram", 1);
}

static void test_wordpiece(void **state)
{
    (void)state;
    check_file("wordpiece", 1);
}

struct words {
    int32_t len[2048];
    uint64_t n;
};

static bool take_word(void *user, const char *word, size_t len)
{
    struct words *w = user;
    (void)word;
    assert_true(w->n < 2048);
    w->len[w->n++] = (int32_t)len;
    return true;
}

static void test_pretok(void **state)
{
    (void)state;
    struct cases c;
    int n_cases = 0, failed = 0;
    cases_open(&c, DATA_DIR "pretok.txt");
    for (; cases_next(&c); n_cases++) {
        static struct words got;
        int32_t want[2048];
        size_t len = unhex(c.field[1]);
        uint64_t want_n = read_numbers(c.field[2], want, 2048);
        const struct pretok *p = pretok_find(c.field[0], strlen(c.field[0]));
        assert_non_null(p);
        got.n = 0;
        assert_true(pretok_split(p, c.field[1], len, take_word, &got));
        if (got.n != want_n || memcmp(got.len, want, want_n * sizeof *want)) {
            failed++;
            print_error("%s: \"%.*s\": %d words, expected %s\n", c.field[0], (int)len, c.field[1], (int)got.n, c.field[2]);
        }
    }
    assert_true(n_cases > 1000);
    assert_int_equal(failed, 0);
    free(c.data);
    assert_null(pretok_find("gpt-5", 5));
    assert_non_null(pretok_find("", 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bpe), cmocka_unit_test(test_spm), cmocka_unit_test(test_unigram),
                                       cmocka_unit_test(test_wordpiece), cmocka_unit_test(test_pretok)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
