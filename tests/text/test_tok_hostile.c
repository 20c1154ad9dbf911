/* Hostile vocabularies (N09) and texts: refused with the key named, or handled; bounded time whatever the text. */
#include "toktest.h"

#include "formats/gguf_build.h"
#include "text/charsmap.h"
#include "text/merge.h"
#include "text/trie.h"

/* A small vocabulary that each case spoils in one way. */
struct spec {
    const char *model, *pre;
    const char *const *tokens;
    uint32_t n_tokens;
    const char *const *merges; /* ends with NULL */
    const int32_t *types;
    uint32_t n_types;
    const float *scores;
    uint32_t n_scores;
    const char *id_key; /* a special id */
    int64_t id;
};

static const char *const tokens[] = {"<unk>", "<s>", "</s>", "<0x41>", "a", "b", "ab", "abab"};
static const int32_t types[] = {2, 3, 3, 6, 1, 1, 1, 1};
static const float scores[] = {0, 0, 0, 0, -1, -2, -3, -4};
static const char *const merges[] = {"a b", "ab ab", NULL};

#define N 8
static const struct spec spm = {"llama", "default", tokens, N, NULL, types, N, scores, N, NULL, 0};
static const struct spec bpe = {"gpt2", "gpt-2", tokens, N, merges, types, N, NULL, 0, NULL, 0};
static const struct spec unigram = {"t5", "default", tokens, N, NULL, types, N, scores, N, NULL, 0};

static uint32_t count(const struct spec *s)
{
    return 3u + (s->merges != NULL) + (s->types != NULL) + (s->scores != NULL) + (s->id_key != NULL);
}

static void build(struct buf *b, const struct spec *s)
{
    gb_header(b, 3, 0, count(s));
    gb_meta_str(b, "tokenizer.ggml.model", s->model);
    gb_meta_str(b, "tokenizer.ggml.pre", s->pre);
    gb_meta_array(b, "tokenizer.ggml.tokens", FILE_STRING, s->n_tokens);
    for (uint32_t i = 0; i < s->n_tokens; i++)
        gb_str(b, s->tokens[i]);
    if (s->merges) {
        uint32_t n = 0;
        while (s->merges[n])
            n++;
        gb_meta_array(b, "tokenizer.ggml.merges", FILE_STRING, n);
        for (uint32_t i = 0; i < n; i++)
            gb_str(b, s->merges[i]);
    }
    if (s->types) {
        gb_meta_array(b, "tokenizer.ggml.token_type", FILE_I32, s->n_types);
        buf_put(b, s->types, s->n_types * sizeof *s->types);
    }
    if (s->scores) {
        gb_meta_array(b, "tokenizer.ggml.scores", FILE_F32, s->n_scores);
        buf_put(b, s->scores, s->n_scores * sizeof *s->scores);
    }
    if (s->id_key) {
        gb_key(b, s->id_key, FILE_I64);
        gb_u64(b, (uint64_t)s->id);
    }
}

static infer_status open_bytes(const struct buf *b, infer_tokenizer **t, infer_error *err)
{
    infer_source source;
    INFER_INIT(err);
    infer_source_memory(&source, b->data, b->len);
    return infer_tokenizer_open(NULL, &source, NULL, t, err);
}

static infer_tokenizer *open_spec(const struct spec *s, struct buf *b)
{
    infer_tokenizer *t = NULL;
    infer_error err;
    build(b, s);
    if (open_bytes(b, &t, &err) != INFER_OK)
        fail_msg("%s: %s", err.name, err.text);
    return t;
}

static void refused(const struct spec *s, infer_status status, const char *key)
{
    struct buf b;
    infer_tokenizer *t = NULL;
    infer_error err;
    build(&b, s);
    infer_status st = open_bytes(&b, &t, &err);
    if (st != status || strcmp(err.name, key))
        fail_msg("%s: status %d, %s: %s", key, st, err.name, err.text);
    assert_null(t);
    buf_free(&b);
}

static void expect_ids(const infer_tokenizer *t, const char *text, uint32_t flags, const int32_t *want, uint64_t n)
{
    int32_t ids[64];
    uint64_t got;
    assert_int_equal(infer_tokenize(t, text, INFER_ZSTR, flags, ids, 64, &got, NULL), INFER_OK);
    assert_int_equal(got, n);
    assert_memory_equal(ids, want, n * sizeof *ids);
}
#define IDS(...) (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t)

static void test_valid(void **state)
{
    (void)state;
    struct buf b;
    infer_tokenizer *t = open_spec(&bpe, &b);
    expect_ids(t, "ababab", 0, IDS(7, 6));
    infer_tokenizer_release(t);
    buf_free(&b);
    struct spec plain = spm;
    plain.types = NULL; /* byte tokens are known by their spelling */
    t = open_spec(&plain, &b);
    expect_ids(t, "A", 0, IDS(0, 3)); /* the space in front is not in this vocabulary */
    infer_tokenizer_release(t);
    buf_free(&b);
    t = open_spec(&unigram, &b);
    expect_ids(t, "abx", 0, IDS(6, 2)); /* of equal sums the one found first; 2: unknown */
    infer_tokenizer_release(t);
    buf_free(&b);
}

static void test_lengths(void **state)
{
    (void)state;
    struct spec s = spm;
    s.n_scores = N - 1;
    refused(&s, INFER_ERROR_VALUE, "tokenizer.ggml.scores");
    s = spm, s.n_types = N - 1;
    refused(&s, INFER_ERROR_VALUE, "tokenizer.ggml.token_type");
    s = bpe, s.n_tokens = N - 1; /* now one type too many */
    refused(&s, INFER_ERROR_VALUE, "tokenizer.ggml.token_type");
    s = spm, s.scores = NULL;
    refused(&s, INFER_ERROR_MISSING, "tokenizer.ggml.scores");
    s = bpe, s.merges = NULL;
    refused(&s, INFER_ERROR_MISSING, "tokenizer.ggml.merges");
    s = spm, s.n_tokens = 0;
    refused(&s, INFER_ERROR_VALUE, "tokenizer.ggml.tokens");
    s = spm, s.model = "wolpertinger";
    refused(&s, INFER_ERROR_UNSUPPORTED, "tokenizer.ggml.model");
    s = bpe, s.pre = "gpt-17";
    refused(&s, INFER_ERROR_UNSUPPORTED, "tokenizer.ggml.pre");
    s = unigram, s.scores = (const float[N]){0, 0, 0, 0, -1, -1.0f / 0.0f, 0, 0};
    refused(&s, INFER_ERROR_VALUE, "tokenizer.ggml.scores");
    s.scores = (const float[N]){0, 0, 0, 0, -1, 0.0f / 0.0f, 0, 0};
    refused(&s, INFER_ERROR_VALUE, "tokenizer.ggml.scores");
    s = spm, s.types = (const int32_t[N]){2, 3, 3, 6, 1, 7, 1, 1};
    refused(&s, INFER_ERROR_VALUE, "tokenizer.ggml.token_type");
    s.types = (const int32_t[N]){2, 3, 3, 6, 1, -1, 1, 1};
    refused(&s, INFER_ERROR_VALUE, "tokenizer.ggml.token_type");
}

static void test_byte_tokens(void **state)
{
    (void)state;
    static const char *const bad[] = {"<0x-1>", "<0xGG>", "<0x1>", "<0x100>", "", "0x41", "<0X41>", "<0x4 >"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *t[N];
        memcpy(t, tokens, sizeof t);
        t[3] = bad[i];
        struct spec s = spm;
        s.tokens = t;
        refused(&s, INFER_ERROR_VALUE, "tokenizer.ggml.tokens");
    }
}

static void test_special_ids(void **state)
{
    (void)state;
    static const char *const keys[] = {"bos", "eos", "unknown", "seperator", "padding", "mask", "eot"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char key[64];
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", keys[i]);
        static const int64_t bad[] = {N, 1 << 30, -2, INT64_MIN, INT64_MAX, (int64_t)UINT32_MAX + 1};
        struct spec s = spm;
        s.id_key = key;
        for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
            s.id = bad[k];
            refused(&s, INFER_ERROR_VALUE, key);
        }
        static const int64_t none[] = {-1, UINT32_MAX};
        for (size_t k = 0; k < 2; k++) {
            struct buf b;
            s.id = none[k];
            infer_tokenizer *t = open_spec(&s, &b);
            infer_tokenizer_info info;
            INFER_INIT(&info);
            assert_int_equal(infer_tokenizer_get_info(t, &info, NULL), INFER_OK);
            const int32_t ids[] = {info.bos, info.eos, info.unk, info.sep, info.pad, info.mask, info.eot};
            assert_int_equal(ids[i], -1);
            uint64_t n;
            int32_t out[16];
            assert_int_equal(infer_tokenize(t, "ab!", 3, INFER_TOKENIZE_ADD_SPECIAL, out, 16, &n, NULL), INFER_OK);
            infer_tokenizer_release(t);
            buf_free(&b);
        }
    }
}

static void test_merges(void **state)
{
    (void)state;
    static const char *const bad[][2] = {{"a c", NULL}, {"c a", NULL}, {"b a", NULL}, {"ab", NULL}, {"", NULL},
                                         {" ", NULL},   {"a ", NULL},  {" a", NULL},  {"a  b", NULL}, {"a b c", NULL}};
    struct spec s = bpe;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        s.merges = bad[i];
        refused(&s, INFER_ERROR_VALUE, "tokenizer.ggml.merges");
    }
    /* In any order and twice over, merges end: each shortens the word. */
    static const char *const odd[] = {"ab ab", "a b", "ab ab", "a b", NULL};
    struct buf b;
    s.merges = odd;
    infer_tokenizer *t = open_spec(&s, &b);
    expect_ids(t, "abababab", 0, IDS(7, 7));
    infer_tokenizer_release(t);
    buf_free(&b);
    /* A merge that would make a control token makes none. */
    static const char *const ctl_tokens[] = {"<", "x", ">", "<x", "<x>"};
    static const char *const ctl_merges[] = {"< x", "<x >", NULL};
    struct spec c = {"gpt2", "gpt-2", ctl_tokens, 5, ctl_merges, (const int32_t[]){1, 1, 1, 1, 3}, 5, NULL, 0, NULL, 0};
    c.pre = "bloom"; /* one word */
    t = open_spec(&c, &b);
    expect_ids(t, "<x>", 0, IDS(3, 2));
    expect_ids(t, "<x>", INFER_TOKENIZE_PARSE_SPECIAL, IDS(4));
    infer_tokenizer_release(t);
    buf_free(&b);
}

static void test_huge_token(void **state)
{
    (void)state;
    static char huge[5001];
    const char *t[N];
    memcpy(t, tokens, sizeof t);
    memset(huge, 'a', 5000);
    t[7] = huge;
    struct spec s = spm;
    s.tokens = t;
    refused(&s, INFER_ERROR_LIMIT, "tokenizer.ggml.tokens");
    huge[4096] = 0; /* the longest that is taken */
    struct buf b;
    infer_tokenizer *k = open_spec(&s, &b);
    infer_token_info info;
    INFER_INIT(&info);
    assert_int_equal(infer_tokenizer_token(k, 7, &info, NULL), INFER_OK);
    assert_int_equal(info.piece_len, 4096);
    infer_tokenizer_release(k);
    buf_free(&b);
}

static void test_duplicates_and_odd_bytes(void **state)
{
    (void)state;
    /* Duplicates, empty tokens, tokens that are not UTF-8. */
    static const char *const odd[] = {"a", "a", "", "\xff\xfe", "\xe2\x96", "b", "a", "ab"};
    struct spec s = spm;
    struct buf b;
    s.tokens = odd;
    s.types = (const int32_t[N]){1, 1, 1, 1, 1, 1, 4, 1};
    infer_tokenizer *t = open_spec(&s, &b);
    int32_t ids[64];
    uint64_t n, len;
    char text[256];
    assert_int_equal(infer_tokenize(t, "aab \xff\xfe", 6, INFER_TOKENIZE_PARSE_SPECIAL, ids, 64, &n, NULL), INFER_OK);
    for (int32_t i = 0; i < N; i++)
        ids[i] = i;
    assert_int_equal(infer_detokenize(t, ids, N, INFER_DETOKENIZE_SHOW_SPECIAL, text, sizeof text, &len, NULL), INFER_OK);
    infer_tokenizer_release(t);
    buf_free(&b);
}

/* ---- Bounded work */

static bool join_all(const void *user, const char *word, const struct merge_symbol *l, const struct merge_symbol *r,
                     uint32_t *rank, uint32_t *id)
{
    (void)word;
    *rank = user ? l->len + r->len : 0; /* by length, or all alike */
    *id = 1;
    return true;
}

static void test_merge_is_linear(void **state)
{
    (void)state;
    struct merger m;
    const uint32_t n = 300000;
    for (int kind = 0; kind < 2; kind++) {
        merge_init(&m, &alloc_default);
        assert_true(merge_reserve(&m, n));
        for (uint32_t i = 0; i < n; i++)
            merge_add(&m, i, 1, 1);
        assert_true(merge_run(&m, "", join_all, kind ? &m : NULL));
        assert_int_equal(m.symbols[0].len, n);
        assert_true(m.steps <= 3 * (uint64_t)n);
        assert_true(m.heap_cap <= 4 * (size_t)n);
        merge_free(&m);
    }
}

/* A quarter of a megabyte of each, with each kind of vocabulary; the suite's time-out is the bound. */
static void test_long_texts(void **state)
{
    (void)state;
    static const char *const names[] = {"bpe", "spm", "unigram", "wordpiece"};
    static const char *const units[] = {"a", " ", "1", " \n", "<", "\xCC\x81\xCC\xA7", "\xE2\x96\x81", "aB", "\xff", "\xf0\x9f"};
    const size_t n = 1 << 18;
    char *text = malloc(n);
    int32_t *ids = malloc(n * 4 * sizeof *ids);
    for (size_t v = 0; v < 4; v++) {
        char path[512];
        snprintf(path, sizeof path, DATA_DIR "%s.gguf", names[v]);
        infer_tokenizer *t = open_tokenizer(path);
        for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
            uint64_t count_ids;
            for (size_t i = 0, k = strlen(units[u]); i < n; i++)
                text[i] = units[u][i % k];
            assert_int_equal(infer_tokenize(t, text, n, INFER_TOKENIZE_PARSE_SPECIAL, ids, n * 4, &count_ids, NULL), INFER_OK);
        }
        infer_tokenizer_release(t);
    }
    free(text);
    free(ids);
}

/* Every pre-tokenizer on runs that tempt a naive one into quadratic time. */
static void test_long_runs_in_pretokenizers(void **state)
{
    (void)state;
    static const char *const pres[] = {"default",  "gpt-2",    "llama-bpe",  "qwen35",   "falcon",    "deepseek-llm", "deepseek-v3",
                                       "gpt-4o",   "kimi-k2",  "jais-2",     "tiny_aya", "superbpe",  "afmoe",        "chameleon",
                                       "youtu",    "bloom",    "exaone-moe", "spark2_5", "minicpm5",  "laguna"};
    static const char *const units[] = {" ", "1", "A", "\343\201\202A", "\n ", "'", "<sentinel:1", "IMGIMGA", "a b", "\xE4\xB8\xAD"};
    const size_t n = 1 << 16;
    char *text = malloc(n);
    for (size_t p = 0; p < sizeof pres / sizeof *pres; p++) {
        struct spec s = bpe;
        struct buf b;
        s.pre = pres[p];
        infer_tokenizer *t = open_spec(&s, &b);
        for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
            uint64_t count_ids;
            for (size_t i = 0, k = strlen(units[u]); i < n; i++)
                text[i] = units[u][i % k];
            infer_status st = infer_tokenize(t, text, n, 0, NULL, 0, &count_ids, NULL);
            assert_true(st == INFER_OK || st == INFER_ERROR_BUFFER);
        }
        infer_tokenizer_release(t);
        buf_free(&b);
    }
    free(text);
}

static void test_charsmap(void **state)
{
    (void)state;
    struct charsmap m;
    const char *to;
    size_t len;
    static const uint8_t bad[][12] = {{0}, {8, 0, 0, 0}, {255, 255, 255, 255}, {5, 0, 0, 0}, {4, 0, 0, 0, 0, 0, 0, 0}};
    for (size_t i = 0; i < 5; i++)
        for (size_t n = 0; n <= 8; n++)
            assert_false(charsmap_open(&m, bad[i], n));
    static const uint8_t unterminated[] = {4, 0, 0, 0, 0, 0, 0, 0, 'x'};
    assert_false(charsmap_open(&m, unterminated, sizeof unterminated));
    /* Random units: no step leaves the trie or the pool. */
    uint64_t seed = 9;
    for (int k = 0; k < 20000; k++) {
        uint8_t data[4 + 64 + 8];
        for (size_t i = 0; i < sizeof data; i++)
            data[i] = (uint8_t)(test_rand(&seed) & (i % 4 < 2 ? 0xFF : 1));
        memcpy(data, &(uint32_t){64}, 4);
        data[sizeof data - 1] = 0;
        assert_true(charsmap_open(&m, data, sizeof data));
        char text[4];
        for (size_t i = 0; i < 4; i++)
            text[i] = (char)test_rand(&seed);
        size_t n = charsmap_match(&m, text, 4, &to, &len);
        assert_true(n <= 4);
        if (n)
            assert_true(to >= (char *)data + 68 && to + len < (char *)data + sizeof data);
    }
}

static void test_trie(void **state)
{
    (void)state;
    struct trie t;
    size_t len;
    static const char *const words[] = {"b", "abc", "a", "abd", "abc", "\xff", "ab", "a"};
    struct trie_key keys[8];
    for (uint32_t i = 0; i < 8; i++)
        keys[i] = (struct trie_key){words[i], (uint32_t)strlen(words[i]), i};
    assert_true(trie_build(&t, &alloc_default, keys, 8));
    assert_int_equal(trie_longest(&t, "abcd", 4, &len), 1); /* the least of equal keys */
    assert_int_equal(len, 3);
    assert_int_equal(trie_longest(&t, "abx", 3, &len), 6);
    assert_int_equal(trie_longest(&t, "ax", 2, &len), 2);
    assert_int_equal(trie_longest(&t, "x", 1, &len), TRIE_NONE);
    assert_int_equal(trie_longest(&t, "\xff", 1, &len), 5);
    assert_int_equal(trie_longest(&t, "", 0, &len), TRIE_NONE);
    trie_free(&t);
    assert_true(trie_build(&t, &alloc_default, keys, 0));
    assert_int_equal(trie_longest(&t, "a", 1, &len), TRIE_NONE);
    trie_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_valid),          cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_byte_tokens),    cmocka_unit_test(test_special_ids),
        cmocka_unit_test(test_merges),         cmocka_unit_test(test_huge_token),
        cmocka_unit_test(test_duplicates_and_odd_bytes), cmocka_unit_test(test_merge_is_linear),
        cmocka_unit_test(test_long_texts),     cmocka_unit_test(test_long_runs_in_pretokenizers),
        cmocka_unit_test(test_charsmap),       cmocka_unit_test(test_trie)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
