/* tokenizer.json: small ones of each family against what the official library made of the same texts, and files that are wrong. */
#include "toktest.h"

#define JSON_DIR DATA_DIR "json/"

static void decode_streaming(const infer_tokenizer *t, const int32_t *ids, uint64_t n, char *out, uint64_t *len)
{
    infer_detokenizer state;
    INFER_INIT(&state);
    uint64_t part;
    *len = 0;
    for (uint64_t i = 0; i <= n; i++) {
        assert_int_equal(infer_detokenizer_next(t, &state, i < n ? ids[i] : -1, out + *len, 4096, &part, NULL), INFER_OK);
        *len += part;
    }
}

static int check_case(const infer_tokenizer *t, const char *name, struct cases *c, int line)
{
    static char text[65536], streamed[65536];
    int32_t ids[2048], want[2048];
    uint64_t n, len, streamed_len;
    int failed = 0, compare = strcmp(c->field[2], "-") != 0;
    size_t text_len = unhex(c->field[0]), want_len = compare ? unhex(c->field[2]) : 0;
    uint64_t want_n = read_numbers(c->field[1], want, 2048);
    assert_int_equal(infer_tokenize(t, c->field[0], text_len, INFER_TOKENIZE_ADD_SPECIAL | INFER_TOKENIZE_PARSE_SPECIAL, ids, 2048, &n, NULL), INFER_OK);
    if (n != want_n || memcmp(ids, want, n * sizeof *ids)) {
        uint64_t i = 0;
        while (i < n && i < want_n && ids[i] == want[i])
            i++;
        print_error("%s line %d: \"%.*s\": %d ids, expected %d; at %d: %d, expected %d\n", name, line, (int)text_len, c->field[0], (int)n,
                    (int)want_n, (int)i, i < n ? ids[i] : -1, i < want_n ? want[i] : -1);
        failed++;
    }
    assert_int_equal(infer_detokenize(t, want, want_n, 0, text, sizeof text, &len, NULL), INFER_OK);
    if (compare && (len != want_len || memcmp(text, c->field[2], len))) {
        print_error("%s line %d: decoded \"%.*s\", expected \"%.*s\"\n", name, line, (int)len, text, (int)want_len, c->field[2]);
        failed++;
    }
    decode_streaming(t, want, want_n, streamed, &streamed_len);
    assert_int_equal(streamed_len, len);
    assert_memory_equal(streamed, text, len);
    return failed;
}

static void check_family(const char *name)
{
    char path[512];
    struct cases c;
    int line = 0, failed = 0;
    snprintf(path, sizeof path, JSON_DIR "%s.json", name);
    infer_tokenizer *t = open_json(path);
    snprintf(path, sizeof path, JSON_DIR "%s.txt", name);
    for (cases_open(&c, path); cases_next(&c);)
        failed += check_case(t, name, &c, ++line);
    assert_true(line > 70);
    assert_int_equal(failed, 0);
    free(c.data);
    infer_tokenizer_release(t);
}

#define FAMILIES(F)                                                                                                    \
    F(gpt2) F(roberta) F(llama3) F(qwen2) F(llama2) F(mistral) F(gemma3) F(bert) F(bert_cased) F(t5) F(albert) F(unigram_bytes) F(wordlevel) \
        F(prefixed) F(clip) F(chars)
#define TEST(name)                                                                                                     \
    static void test_##name(void **state)                                                                              \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        check_family(#name);                                                                                           \
    }
FAMILIES(TEST)

int main(void)
{
    const struct CMUnitTest tests[] = {
#define ENTRY(name) cmocka_unit_test(test_##name),
        FAMILIES(ENTRY)
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
