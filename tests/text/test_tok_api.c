/* The exported tokenizer functions: information, flags, buffers, bad arguments (N17, N18), streaming, failing allocations (N30). */
#define _DEFAULT_SOURCE
#include "toktest.h"

#include <sys/mman.h>

#include "text/tokenizer.h"

#define IDS(...) (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t)

static void expect(const infer_tokenizer *t, const char *text, uint64_t len, uint32_t flags, const int32_t *want, uint64_t n)
{
    int32_t ids[64];
    uint64_t got;
    assert_int_equal(infer_tokenize(t, text, len, flags, ids, 64, &got, NULL), INFER_OK);
    assert_int_equal(got, n);
    assert_memory_equal(ids, want, n * sizeof *ids);
}

/* The ids of text alone, for building expectations. */
static uint64_t plain(const infer_tokenizer *t, const char *text, int32_t *ids)
{
    uint64_t n;
    assert_int_equal(infer_tokenize(t, text, INFER_ZSTR, 0, ids, 64, &n, NULL), INFER_OK);
    return n;
}

static void test_info(void **state)
{
    (void)state;
    infer_tokenizer *t = open_tokenizer(DATA_DIR "bpe.gguf");
    infer_tokenizer_info info;
    INFER_INIT(&info);
    assert_int_equal(infer_tokenizer_get_info(t, &info, NULL), INFER_OK);
    assert_int_equal(info.kind, INFER_TOKENIZER_BPE);
    assert_int_equal(info.bos, 0);
    assert_int_equal(info.eos, 1);
    assert_int_equal(info.eot, 1); /* <|end|> */
    assert_int_equal(info.unk, -1);
    assert_int_equal(info.add_bos, 1);
    assert_int_equal(info.add_eos, 0);
    int kinds[8] = {0};
    for (int32_t i = 0; (uint32_t)i < info.vocab_size; i++) {
        infer_token_info token;
        INFER_INIT(&token);
        assert_int_equal(infer_tokenizer_token(t, i, &token, NULL), INFER_OK);
        kinds[token.kind]++;
        assert_int_equal(token.ends_turn, i == 1);
        assert_true(token.piece_len > 0 && token.bytes_len > 0);
        if (token.kind == INFER_TOKEN_NORMAL && token.bytes_len == 1 && (uint8_t)*token.bytes < 0x80)
            expect(t, token.bytes, 1, 0, &i, 1); /* the byte's token */
    }
    assert_int_equal(kinds[INFER_TOKEN_CONTROL], 2);
    assert_int_equal(kinds[INFER_TOKEN_USER_DEFINED], 1);
    infer_tokenizer *again = infer_tokenizer_ref(t);
    infer_tokenizer_release(t);
    assert_int_equal(infer_tokenizer_get_info(again, &info, NULL), INFER_OK);
    infer_tokenizer_release(again);
    infer_tokenizer_release(NULL);
    assert_null(infer_tokenizer_ref(NULL));
}

static void test_special(void **state)
{
    (void)state;
    infer_tokenizer *t = open_tokenizer(DATA_DIR "bpe.gguf");
    infer_tokenizer_info info;
    INFER_INIT(&info);
    assert_int_equal(infer_tokenizer_get_info(t, &info, NULL), INFER_OK);
    int32_t tool = (int32_t)info.vocab_size - 1, ids[64];
    expect(t, "", 0, 0, NULL, 0);
    expect(t, NULL, 0, INFER_TOKENIZE_ADD_SPECIAL, IDS(0));
    expect(t, "<|begin|><|end|>", INFER_ZSTR, INFER_TOKENIZE_PARSE_SPECIAL, IDS(0, 1));
    expect(t, "<|end|><tool>", INFER_ZSTR, INFER_TOKENIZE_PARSE_SPECIAL | INFER_TOKENIZE_ADD_SPECIAL, IDS(0, 1, tool));
    uint64_t n = plain(t, "<|end|>", ids); /* not parsed: text */
    assert_true(n > 1);
    assert_int_equal(plain(t, "<tool>", ids), 1); /* user-defined: always */
    assert_int_equal(ids[0], tool);
    n = plain(t, "<tool><tool>a<tool", ids);
    assert_true(n > 4 && ids[0] == tool && ids[1] == tool);
    char text[256];
    uint64_t len;
    assert_int_equal(infer_detokenize(t, IDS(0, tool, 1), 0, text, sizeof text, &len, NULL), INFER_OK);
    assert_int_equal(len, 6);
    assert_memory_equal(text, "<tool>", 6);
    assert_int_equal(infer_detokenize(t, IDS(0, tool, 1), INFER_DETOKENIZE_SHOW_SPECIAL, text, sizeof text, &len, NULL), INFER_OK);
    assert_int_equal(len, 22);
    assert_memory_equal(text, "<|begin|><tool><|end|>", 22);
    infer_tokenizer_release(t);
    t = open_tokenizer(DATA_DIR "wordpiece.gguf");
    n = plain(t, "the book", ids);
    memmove(ids + 1, ids, n * sizeof *ids);
    ids[0] = 2;
    ids[n + 1] = 3;
    expect(t, "the book", 8, INFER_TOKENIZE_ADD_SPECIAL, ids, n + 2);
    infer_tokenizer_release(t);
    t = open_tokenizer(DATA_DIR "unigram.gguf");
    n = plain(t, "the book", ids);
    ids[n] = 2; /* EOS */
    expect(t, "the book", 8, INFER_TOKENIZE_ADD_SPECIAL, ids, n + 1);
    infer_tokenizer_release(t);
}

static void test_malformed_text(void **state)
{
    (void)state;
    infer_tokenizer *t = open_tokenizer(DATA_DIR "bpe.gguf");
    /* Each maximal ill-formed part is one U+FFFD. */
    static const char *const bad[] = {"a\377b", "a\xe2\x82", "\xed\xa0\x80", "\xf0\x9f\x99", "\xc0\xaf", "x\x80y"};
    static const char *const good[] = {"a\357\277\275b", "a\xef\xbf\xbd", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", "\xef\xbf\xbd",
                                       "\xef\xbf\xbd\xef\xbf\xbd", "x\xef\xbf\xbdy"};
    for (size_t i = 0; i < 6; i++) {
        int32_t ids[64];
        uint64_t n = plain(t, good[i], ids);
        expect(t, bad[i], strlen(bad[i]), 0, ids, n);
    }
    infer_tokenizer_release(t);
}

static void test_buffers(void **state)
{
    (void)state;
    infer_tokenizer *t = open_tokenizer(DATA_DIR "spm.gguf");
    const char *text = "Alice was beginning to get very tired \xf0\x9f\x99\x82";
    int32_t ids[128], small[128];
    char out[256], cut[256];
    uint64_t n, need, len;
    assert_int_equal(infer_tokenize(t, text, INFER_ZSTR, INFER_TOKENIZE_ADD_SPECIAL, ids, 128, &n, NULL), INFER_OK);
    memset(small, 0x55, sizeof small);
    infer_error err;
    INFER_INIT(&err);
    assert_int_equal(infer_tokenize(t, text, INFER_ZSTR, INFER_TOKENIZE_ADD_SPECIAL, small, n - 1, &need, &err), INFER_ERROR_BUFFER);
    assert_int_equal(err.code, INFER_ERROR_BUFFER);
    assert_int_equal(need, n);
    assert_int_equal(small[0], 0x55555555);
    assert_int_equal(infer_tokenize(t, text, INFER_ZSTR, INFER_TOKENIZE_ADD_SPECIAL, NULL, 0, &need, NULL), INFER_ERROR_BUFFER);
    assert_int_equal(need, n);
    assert_int_equal(infer_tokenize(t, text, INFER_ZSTR, INFER_TOKENIZE_ADD_SPECIAL, small, n, &need, NULL), INFER_OK);
    assert_memory_equal(small, ids, n * sizeof *ids);
    assert_int_equal(infer_detokenize(t, ids, n, 0, out, sizeof out, &len, NULL), INFER_OK);
    assert_int_equal(len, strlen(text));
    assert_memory_equal(out, text, len);
    memset(cut, 0x55, sizeof cut);
    assert_int_equal(infer_detokenize(t, ids, n, 0, cut, len - 1, &need, NULL), INFER_ERROR_BUFFER);
    assert_int_equal(need, len);
    assert_int_equal(cut[0], 0x55);
    assert_int_equal(infer_detokenize(t, ids, n, 0, NULL, 0, &need, NULL), INFER_ERROR_BUFFER);
    assert_int_equal(infer_detokenize(t, NULL, 0, 0, NULL, 0, &need, NULL), INFER_OK);
    assert_int_equal(need, 0);
    infer_tokenizer_release(t);
}

static void test_bad_arguments(void **state)
{
    (void)state;
    infer_tokenizer *t = open_tokenizer(DATA_DIR "bpe.gguf");
    infer_tokenizer_info info;
    INFER_INIT(&info);
    assert_int_equal(infer_tokenizer_get_info(t, &info, NULL), INFER_OK);
    int32_t ids[8] = {0}, n_vocab = (int32_t)info.vocab_size;
    uint64_t n;
    char text[64];
    infer_error err;
    INFER_INIT(&err);
    assert_int_equal(infer_tokenize(NULL, "a", 1, 0, ids, 8, &n, &err), INFER_ERROR_ARGUMENT);
    assert_string_equal(err.name, "tokenizer");
    assert_int_equal(infer_tokenize(t, NULL, 1, 0, ids, 8, &n, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_tokenize(t, "a", 1, 0, NULL, 8, &n, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_tokenize(t, "a", 1, 0, ids, 8, NULL, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_tokenize(t, "a", 1, 4, ids, 8, &n, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_detokenize(t, NULL, 1, 0, text, 64, &n, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_detokenize(t, ids, 1, 2, text, 64, &n, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_detokenize(t, ids, 1, 0, NULL, 64, &n, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_detokenize(NULL, ids, 1, 0, text, 64, &n, NULL), INFER_ERROR_ARGUMENT);
    const int32_t bad[] = {-1, -2, INT32_MIN, n_vocab, n_vocab + 7, INT32_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        infer_token_info token;
        infer_detokenizer s;
        INFER_INIT(&token);
        INFER_INIT(&s);
        ids[2] = bad[i];
        assert_int_equal(infer_detokenize(t, ids, 3, 0, text, 64, &n, &err), INFER_ERROR_TOKEN);
        assert_int_equal(infer_tokenizer_token(t, bad[i], &token, &err), INFER_ERROR_TOKEN);
        assert_int_equal(infer_detokenizer_next(t, &s, bad[i], text, 64, &n, &err),
                         bad[i] == -1 ? INFER_OK : INFER_ERROR_TOKEN);
    }
    infer_detokenizer s;
    INFER_INIT(&s);
    s.size = 3;
    assert_int_equal(infer_detokenizer_next(t, &s, 5, text, 64, &n, NULL), INFER_ERROR_ARGUMENT);
    INFER_INIT(&s);
    s.pending_len = 17;
    assert_int_equal(infer_detokenizer_next(t, &s, 5, text, 64, &n, NULL), INFER_ERROR_ARGUMENT);
    INFER_INIT(&s);
    s.flags = 8;
    assert_int_equal(infer_detokenizer_next(t, &s, 5, text, 64, &n, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_detokenizer_next(t, NULL, 5, text, 64, &n, NULL), INFER_ERROR_ARGUMENT);
    info.size = 0;
    assert_int_equal(infer_tokenizer_get_info(t, &info, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_tokenizer_open(NULL, NULL, NULL, &t, NULL), INFER_ERROR_ARGUMENT);
    infer_tokenizer_release(t);
}

/* Beyond the limit, through a mapping without pages: refused before it is read. */
static void test_limit(void **state)
{
    (void)state;
    infer_tokenizer *t = open_tokenizer(DATA_DIR "spm.gguf");
    size_t len = (size_t)INFER_MAX_TEXT + 1;
    uint64_t n;
    char *text = mmap(NULL, len, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(text != MAP_FAILED);
    infer_error err;
    INFER_INIT(&err);
    assert_int_equal(infer_tokenize(t, text, len, 0, NULL, 0, &n, &err), INFER_ERROR_LIMIT);
    assert_int_equal(err.code, INFER_ERROR_LIMIT);
    assert_int_equal(infer_tokenize(t, text, UINT64_MAX - 1, 0, NULL, 0, &n, NULL), INFER_ERROR_LIMIT);
    munmap(text, len);
    infer_tokenizer_release(t);
}

static uint64_t next(const infer_tokenizer *t, infer_detokenizer *s, int32_t id, char *out, uint64_t cap)
{
    uint64_t n = 0;
    assert_int_equal(infer_detokenizer_next(t, s, id, out, cap, &n, NULL), INFER_OK);
    return n;
}

static void test_streaming(void **state)
{
    (void)state;
    infer_tokenizer *t = open_tokenizer(DATA_DIR "spm.gguf");
    int32_t ids[64], first[256];
    char out[64];
    infer_detokenizer s;
    /* A character of four byte tokens comes out whole, with the last. */
    INFER_INIT(&s);
    uint64_t n = plain(t, "\xf0\x9f\xa7\x99", ids);
    assert_int_equal(n, 5);
    assert_int_equal(next(t, &s, ids[0], out, 64), 0); /* the space in front */
    for (int i = 1; i < 4; i++)
        assert_int_equal(next(t, &s, ids[i], out, 64), 0);
    assert_int_equal(s.pending_len, 3);
    uint64_t need;
    assert_int_equal(infer_detokenizer_next(t, &s, ids[4], out, 3, &need, NULL), INFER_ERROR_BUFFER);
    assert_int_equal(need, 4);
    assert_int_equal(s.pending_len, 3); /* as it was: the call may be repeated */
    assert_int_equal(next(t, &s, ids[4], out, 64), 4);
    assert_memory_equal(out, "\xf0\x9f\xa7\x99", 4);
    /* Unfinished at the end: the bytes there are. */
    assert_int_equal(next(t, &s, ids[1], out, 64), 0);
    assert_int_equal(next(t, &s, ids[2], out, 64), 0);
    assert_int_equal(next(t, &s, -1, out, 64), 2);
    assert_memory_equal(out, "\xf0\x9f", 2);
    assert_int_equal(next(t, &s, -1, out, 64), 0);
    /* Interrupted by another character: nothing is lost. */
    n = plain(t, "a", first);
    assert_int_equal(next(t, &s, ids[1], out, 64), 0);
    assert_int_equal(next(t, &s, first[n - 1], out, 64), n == 1 ? 3 : 2);
    assert_true(out[0] == '\xf0');
    infer_tokenizer_release(t);
}

/* Random ids, valid UTF-8 or not: the stream equals the whole, with every kind of vocabulary. */
static void test_streaming_random(void **state)
{
    (void)state;
    static const char *const names[] = {"bpe", "spm", "unigram", "wordpiece"};
    uint64_t seed = 7;
    for (size_t v = 0; v < 4; v++) {
        char path[512];
        snprintf(path, sizeof path, DATA_DIR "%s.gguf", names[v]);
        infer_tokenizer *t = open_tokenizer(path);
        infer_tokenizer_info info;
        INFER_INIT(&info);
        assert_int_equal(infer_tokenizer_get_info(t, &info, NULL), INFER_OK);
        for (int round = 0; round < 400; round++) {
            int32_t ids[24];
            char whole[2048], parts[2048];
            uint64_t len, at = 0, n = test_rand(&seed) % 24;
            infer_detokenizer s;
            INFER_INIT(&s);
            s.flags = (uint32_t)(round & 1);
            for (uint64_t i = 0; i < n; i++)
                ids[i] = (int32_t)(test_rand(&seed) % (round & 2 || info.vocab_size < 262 ? info.vocab_size : 262));
            assert_int_equal(infer_detokenize(t, ids, n, s.flags, whole, sizeof whole, &len, NULL), INFER_OK);
            for (uint64_t i = 0; i <= n; i++)
                at += next(t, &s, i < n ? ids[i] : -1, parts + at, sizeof parts - at);
            assert_int_equal(at, len);
            assert_memory_equal(whole, parts, len);
        }
        infer_tokenizer_release(t);
    }
}

/* ---- The n-th allocation fails, for every n, over open, encode and decode. */

static infer_status scenario(struct test_alloc *ta, const char *path)
{
    struct env env = test_env_of(ta);
    struct infer_file *file = NULL;
    infer_tokenizer *t = NULL;
    infer_error err;
    infer_source source;
    infer_source_path(&source, path, strlen(path));
    infer_status st = file_open(&env, &source, INFER_MAP_AUTO, NULL, &file, &err);
    if (st == INFER_OK)
        st = tokenizer_create(&env, file, NULL, &t, &err);
    file_release(file);
    struct token_ids ids;
    struct buf out;
    token_ids_init(&ids, &env.alloc);
    buf_init(&out, &env.alloc, 0);
    static const char text[] = "It's e\xcc\x81tat \xff <tool> \xf0\x9f\x99\x82 12345  supercalifragilistic";
    for (int i = 0; st == INFER_OK && i < 4; i++)
        st = tokenizer_encode(t, text, sizeof text - 1, (uint32_t)i, &ids, &err);
    infer_detokenizer s = {.size = sizeof s};
    for (size_t i = 0; st == INFER_OK && i <= ids.len; i++) {
        st = tokenizer_decode_next(t, &s, i < ids.len ? ids.data[i] : -1, &out, &err);
        if (st == INFER_OK && !buf_ok(&out))
            st = INFER_ERROR_NO_MEMORY;
    }
    token_ids_free(&ids);
    buf_free(&out);
    tokenizer_release(t);
    return st;
}

static void test_failing_allocations(void **state)
{
    (void)state;
    static const char *const names[] = {"bpe", "spm", "unigram", "wordpiece"};
    for (size_t v = 0; v < 4; v++) {
        char path[512];
        snprintf(path, sizeof path, DATA_DIR "%s.gguf", names[v]);
        uint64_t n = 1;
        for (;; n++) {
            struct test_alloc ta = {.fail_at = n, .fail_rest = n % 2};
            infer_status st = scenario(&ta, path);
            assert_int_equal(ta.live, 0);
            if (st == INFER_OK && ta.calls < n)
                break;
            assert_true(st == INFER_ERROR_NO_MEMORY);
        }
        print_message("%s: %d allocations failed one by one\n", names[v], (int)n - 1);
        assert_true(n > 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_info),      cmocka_unit_test(test_special),       cmocka_unit_test(test_malformed_text),
        cmocka_unit_test(test_buffers),   cmocka_unit_test(test_bad_arguments), cmocka_unit_test(test_limit),
        cmocka_unit_test(test_streaming), cmocka_unit_test(test_streaming_random), cmocka_unit_test(test_failing_allocations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
