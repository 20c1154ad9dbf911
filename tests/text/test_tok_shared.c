/* The published vocabularies and their expected ids: more data than the checkout holds; skipped, visibly, where it is absent. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "infer/infer.h"
#include "testutil.h"

#define SEPARATOR "\n__ggml_vocab_test__\n"

static infer_tokenizer *open_path(const char *path)
{
    infer_tokenizer *t = NULL;
    infer_source source;
    infer_error err;
    INFER_INIT(&err);
    infer_source_path(&source, path, INFER_ZSTR);
    infer_status st = infer_tokenizer_open(NULL, &source, NULL, &t, &err);
    if (st != INFER_OK)
        print_error("%s: %s\n", path, err.text);
    assert_int_equal(st, INFER_OK);
    return t;
}

/* Reads a line of ids. */
static uint64_t read_ids(char **line, int32_t *ids, uint64_t cap)
{
    uint64_t n = 0;
    char *end = strchr(*line, '\n');
    for (char *p = *line; *p && p != end && n < cap;) {
        if (*p == ' ')
            p++;
        else
            ids[n++] = (int32_t)strtol(p, &p, 10);
    }
    *line = end ? end + 1 : *line + strlen(*line);
    return n;
}

static void check_case(const infer_tokenizer *t, const char *text, size_t len, const int32_t *want, uint64_t want_n,
                       int round_trip)
{
    int32_t ids[1024];
    char back[8192];
    uint64_t n, back_n;
    assert_int_equal(infer_tokenize(t, text, len, 0, ids, 1024, &n, NULL), INFER_OK);
    assert_int_equal(n, want_n);
    assert_memory_equal(ids, want, n * sizeof *ids);
    assert_int_equal(infer_detokenize(t, ids, n, 0, back, sizeof back, &back_n, NULL), INFER_OK);
    if (round_trip) {
        assert_int_equal(back_n, len);
        assert_memory_equal(back, text, len);
    }
}

static void check_vocabulary(const char *name, int round_trip)
{
    char path[512];
    size_t len;
    int cases = 0;
    snprintf(path, sizeof path, "%s/data/tokenizers/ggml-vocab-%s.gguf", INFER_SHARED_DIR, name);
    infer_tokenizer *t = open_path(path);
    strcat(path, ".inp");
    char *inp = test_read_file(path, &len);
    strcpy(path + strlen(path) - 4, ".out");
    char *out = test_read_file(path, NULL), *line = out;
    assert_non_null(inp);
    assert_non_null(out);
    for (char *text = inp; text; cases++) {
        char *next = strstr(text, SEPARATOR);
        size_t n = next ? (size_t)(next - text) : strlen(text);
        int32_t want[1024];
        uint64_t want_n = read_ids(&line, want, 1024);
        check_case(t, text, n, want, want_n, round_trip);
        text = next ? next + strlen(SEPARATOR) : NULL;
    }
    assert_true(cases > 40);
    free(inp);
    free(out);
    infer_tokenizer_release(t);
}

#define VOCABULARY(fn, name, round_trip)                                                                               \
    static void fn(void **state)                                                                                       \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        TEST_NEEDS_SHARED();                                                                                           \
        check_vocabulary(name, round_trip);                                                                            \
    }
VOCABULARY(test_llama, "llama-spm", 1)
VOCABULARY(test_gpt2, "gpt-2", 1)
VOCABULARY(test_phi3, "phi-3", 1)
VOCABULARY(test_deepseek_coder, "deepseek-coder", 1)
VOCABULARY(test_falcon, "falcon", 1)
VOCABULARY(test_bert, "bert-bge", 0)

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_llama),          cmocka_unit_test(test_gpt2),
                                       cmocka_unit_test(test_phi3),           cmocka_unit_test(test_deepseek_coder),
                                       cmocka_unit_test(test_falcon),         cmocka_unit_test(test_bert)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
