/* tokenizer.json that is wrong, hostile or unsupported: refused with the place named, in bounded time; failing memory at every call. */
#include <time.h>

#include "toktest.h"

#include "base/json_scan.h"
#include "formats/file.h"
#include "text/tokenizer.h"

static infer_status open_text(const char *text, size_t len, infer_tokenizer **t, infer_error *err)
{
    infer_source source;
    INFER_INIT(err);
    infer_source_memory(&source, text, len);
    *t = NULL;
    return infer_tokenizer_open(NULL, &source, NULL, t, err);
}

struct bad {
    const char *text;
    infer_status status;
    const char *name, *what; /* parts of the error's name and text */
};

#define MODEL(members) "{\"model\":{" members "}}"
#define BPE(vocab, merges) MODEL("\"type\":\"BPE\",\"vocab\":{" vocab "},\"merges\":[" merges "]")
#define AB "\"a\":0,\"b\":1,\"ab\":2"
#define WITH(member) "{" member ",\"model\":{\"type\":\"BPE\",\"vocab\":{" AB "},\"merges\":[\"a b\"]}}"
#define NORM(x) WITH("\"normalizer\":" x)
#define PRE(x) WITH("\"pre_tokenizer\":" x)
#define DEC(x) WITH("\"decoder\":" x)
#define POST(x) WITH("\"post_processor\":" x)
#define ADDED(x) WITH("\"added_tokens\":[" x "]")

static const struct bad bad[] = {
    {"{\"model\":", INFER_ERROR_SYNTAX, "", "end of text"},
    {"{\"model\":{}} x", INFER_ERROR_SYNTAX, "", "after the value"},
    {"{\"model\":{\"vocab\":{\"a\":0}},}", INFER_ERROR_SYNTAX, "", ""},
    {"{\"model\":{\"vocab\":{\"\\ud800\":0}}}", INFER_ERROR_SYNTAX, "", "surrogate"},
    {"{\"model\":{\"vocab\":{\"\xff\":0}}}", INFER_ERROR_SYNTAX, "", "UTF-8"},
    {"{\"model\":{\"type\":\"BPE\"}}", INFER_ERROR_MISSING, "", "no model"},
    {"{\"model\":[]}", INFER_ERROR_MISSING, "", "no model"},
    {MODEL("\"type\":\"Tiktoken\",\"vocab\":{" AB "}"), INFER_ERROR_UNSUPPORTED, "model", "Tiktoken"},
    {MODEL("\"type\":\"BPE\",\"dropout\":0.1,\"vocab\":{" AB "},\"merges\":[]"), INFER_ERROR_UNSUPPORTED, "model", "dropout"},
    {MODEL("\"type\":\"BPE\",\"fuse_unk\":1,\"vocab\":{" AB "},\"merges\":[]"), INFER_ERROR_VALUE, "model.fuse_unk", "true or false"},
    {MODEL("\"type\":\"WordLevel\",\"unk_token\":\"x\",\"vocab\":{" AB "}"), INFER_ERROR_VALUE, "model", "unk_token"},
    {MODEL("\"type\":\"Unigram\",\"unk_id\":7,\"vocab\":[[\"a\",-1.0]]"), INFER_ERROR_VALUE, "model", "unk_id 7"},
    {MODEL("\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\"]]"), INFER_ERROR_VALUE, "", "score"},
    {MODEL("\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\",-1.0,2]]"), INFER_ERROR_VALUE, "", "score"},
    {MODEL("\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\",1e999]]"), INFER_ERROR_VALUE, "", "finite"},
    {MODEL("\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":{\"a\":0}"), INFER_ERROR_SYNTAX, "", "array"},
    {MODEL("\"type\":\"WordLevel\",\"vocab\":{}"), INFER_ERROR_VALUE, "", "empty"},
    {BPE("\"a\":0,\"b\":0", ""), INFER_ERROR_VALUE, "", "\"b\" has the id of another"},
    {BPE("\"a\":0,\"a\":1", ""), INFER_ERROR_VALUE, "", "twice"},
    {BPE("\"a\":-1", ""), INFER_ERROR_VALUE, "", "out of range"},
    {BPE("\"a\":4294967296", ""), INFER_ERROR_VALUE, "", "out of range"},
    {BPE("\"a\":16777215", ""), INFER_ERROR_VALUE, "", "only 1 tokens"},
    {BPE("\"a\":1.5", ""), INFER_ERROR_VALUE, "", "integer"},
    {BPE("\"a\":\"b\"", ""), INFER_ERROR_SYNTAX, "", "number"},
    {BPE(AB, "\"a c\""), INFER_ERROR_VALUE, "model.merges", "merge 0: \"c\""},
    {BPE(AB, "\"b a\""), INFER_ERROR_VALUE, "model.merges", "\"ba\" is not"},
    {BPE(AB, "\"a\""), INFER_ERROR_VALUE, "", "two tokens"},
    {BPE(AB, "\"a b c\""), INFER_ERROR_VALUE, "", "two tokens"},
    {BPE(AB, "[\"a\",\"b\",\"c\"]"), INFER_ERROR_VALUE, "", "two tokens"},
    {BPE(AB, "[\"a\"]"), INFER_ERROR_VALUE, "", "two tokens"},
    {BPE(AB, "[\"a\",1]"), INFER_ERROR_SYNTAX, "", "string"},
    {BPE(AB, "{}"), INFER_ERROR_SYNTAX, "", ""},
    {NORM("{\"type\":\"Magic\"}"), INFER_ERROR_UNSUPPORTED, "normalizer", "normalizer \"Magic\""},
    {NORM("7"), INFER_ERROR_VALUE, "normalizer", "a type"},
    {NORM("{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"Prepend\"}]}"), INFER_ERROR_VALUE, "normalizer.normalizers[1].prepend", ""},
    {NORM("{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"!!\"}"), INFER_ERROR_VALUE, "normalizer", "base64"},
    {NORM("{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAAAA==\"}"), INFER_ERROR_VALUE, "normalizer", "character map"},
    {PRE("{\"type\":\"UnicodeScripts\"}"), INFER_ERROR_UNSUPPORTED, "pre_tokenizer", "UnicodeScripts"},
    {PRE("{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a)\\\\1\"},\"behavior\":\"Isolated\"}"), INFER_ERROR_UNSUPPORTED, "pre_tokenizer.pattern", "(a)\\1"},
    {PRE("{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":\"Isolated\"}"), INFER_ERROR_UNSUPPORTED, "pre_tokenizer.pattern", ""},
    {PRE("{\"type\":\"Split\",\"pattern\":\"a\",\"behavior\":\"Isolated\"}"), INFER_ERROR_VALUE, "pre_tokenizer.pattern", "Regex"},
    {PRE("{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Odd\"}"), INFER_ERROR_VALUE, "pre_tokenizer", "Odd"},
    {PRE("{\"type\":\"Metaspace\",\"replacement\":\"ab\"}"), INFER_ERROR_VALUE, "pre_tokenizer", "one character"},
    {PRE("{\"type\":\"FixedLength\",\"length\":0}"), INFER_ERROR_VALUE, "pre_tokenizer", "length"},
    {DEC("{\"type\":\"CTC\"}"), INFER_ERROR_UNSUPPORTED, "decoder", "CTC"},
    {DEC("{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"\"}]}"),
     INFER_ERROR_UNSUPPORTED, "decoder.decoders[1]", "Fuse"},
    {DEC("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"[\\\\r\\\\n]\"},\"content\":\"\"}"), INFER_ERROR_UNSUPPORTED, "decoder", "String"},
    {POST("{\"type\":\"Odd\"}"), INFER_ERROR_UNSUPPORTED, "post_processor", "Odd"},
    {POST("{\"type\":\"BertProcessing\",\"sep\":[\"a\",9],\"cls\":[\"a\",0]}"), INFER_ERROR_VALUE, "post_processor", "token id"},
    {POST("{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\"}}],\"special_tokens\":{}}"), INFER_ERROR_VALUE, "post_processor",
     "special_tokens"},
    {POST("{\"type\":\"TemplateProcessing\",\"single\":[]}"), INFER_ERROR_VALUE, "post_processor", "leaves the text out"},
    {ADDED("{\"id\":0}"), INFER_ERROR_VALUE, "", "id and content"},
    {ADDED("{\"id\":1,\"content\":\"a\"}"), INFER_ERROR_VALUE, "added_tokens", "another id"},
    {ADDED("{\"id\":1,\"content\":\"x\"}"), INFER_ERROR_VALUE, "added_tokens", "id of another"},
    {ADDED("{\"id\":99999999,\"content\":\"x\"}"), INFER_ERROR_VALUE, "", "out of range"},
};

#define GROW "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}"
#define BYTES "{\"type\":\"ByteLevel\",\"use_regex\":false}"

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        infer_tokenizer *t;
        infer_error err;
        infer_status st = open_text(bad[i].text, strlen(bad[i].text), &t, &err);
        if (st != bad[i].status || !strstr(err.name, bad[i].name) || !strstr(err.text, bad[i].what))
            print_error("%s\n gives %d \"%s\": %s\n", bad[i].text, st, err.name, err.text);
        assert_int_equal(st, bad[i].status);
        assert_non_null(strstr(err.name, bad[i].name));
        assert_non_null(strstr(err.text, bad[i].what));
        assert_null(t);
        if (st == INFER_ERROR_SYNTAX || strstr(err.text, "not in the vocabulary"))
            assert_true(err.offset <= strlen(bad[i].text));
    }
}

static void fill(char **at, const char *what, size_t n)
{
    size_t len = strlen(what);
    for (size_t i = 0; i < n; i++, *at += len)
        memcpy(*at, what, len);
}

static void test_deep(void **state)
{
    (void)state;
    static const char *const opens[] = {"[", "{\"a\":", "{\"type\":\"Sequence\",\"normalizers\":["};
    for (int i = 0; i < 3; i++) {
        char *text = malloc(8000000), *at = text;
        infer_tokenizer *t;
        infer_error err;
        fill(&at, "{\"normalizer\":", 1);
        fill(&at, opens[i], 200000);
        fill(&at, ",\"model\":{}", 1);
        assert_int_equal(open_text(text, (size_t)(at - text), &t, &err), INFER_ERROR_LIMIT);
        free(text);
    }
}

/* A valid file cut at every byte is refused, or (after the last bracket) complete. */
static void test_truncated(void **state)
{
    (void)state;
    static const char *const names[] = {"roberta", "t5", "bert", "llama2"};
    for (int k = 0; k < 4; k++) {
        char path[512];
        size_t len;
        snprintf(path, sizeof path, DATA_DIR "json/%s.json", names[k]);
        char *text = test_read_file(path, &len);
        assert_non_null(text);
        for (size_t n = 0; n + 2 < len; n += k ? 7 : 1) {
            infer_tokenizer *t;
            infer_error err;
            assert_int_not_equal(open_text(text, n, &t, &err), INFER_OK);
            assert_null(t);
        }
        free(text);
    }
}

static void test_no_memory(void **state)
{
    (void)state;
    static const char *const names[] = {"roberta", "t5", "bert", "clip"};
    static const char sample[] = "Hello <mask> wordy\n  don't 123 \xC3\xA9t\xC3\xA9";
    for (int k = 0; k < 4; k++) {
        char path[512];
        size_t len;
        snprintf(path, sizeof path, DATA_DIR "json/%s.json", names[k]);
        char *text = test_read_file(path, &len);
        infer_status st = INFER_ERROR_NO_MEMORY;
        uint64_t n = 1;
        for (; st != INFER_OK; n++) {
            struct test_alloc counts = {.fail_at = n};
            struct env env = test_env_of(&counts);
            infer_source source;
            infer_error err;
            infer_tokenizer *t = NULL;
            struct infer_file *f = NULL;
            struct token_ids ids;
            infer_source_memory(&source, text, len);
            st = file_open(&env, &source, INFER_MAP_AUTO, NULL, &f, &err);
            if (st == INFER_OK)
                st = tokenizer_create(&env, f, NULL, &t, &err);
            if (st == INFER_OK) {
                token_ids_init(&ids, &tokenizer_env(t)->alloc);
                st = tokenizer_encode(t, sample, sizeof sample - 1, INFER_TOKENIZE_ADD_SPECIAL | INFER_TOKENIZE_PARSE_SPECIAL, &ids, &err);
                token_ids_free(&ids);
            }
            tokenizer_release(t);
            file_release(f);
            assert_true(st == INFER_OK || st == INFER_ERROR_NO_MEMORY || (k == 3 && st == INFER_ERROR_UNSUPPORTED));
            assert_int_equal(counts.live, 0);
            if (st == INFER_ERROR_UNSUPPORTED && n > 3)
                break; /* a build without PCRE2 */
        }
        assert_true(n > 20);
        free(text);
    }
}

static double seconds(void)
{
    struct timespec ts;
    timespec_get(&ts, TIME_UTC);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Long texts of one kind: time grows with their length, not with its square. */
static void test_long_texts(void **state)
{
    (void)state;
    static const char *const names[] = {"gemma3", "llama3", "t5", "bert", "unigram_bytes", "wordlevel", "clip", "albert", "chars"};
    static const char *const units[] = {"a", " ", "ab ", "\n", "e\xCC\x81", "\xCC\x81", "<|", "1", "\xF0\x9F\x99\x82", "don't "};
    enum { LENGTH = 60000 };
    char *text = malloc(LENGTH + 16);
    int32_t *ids = malloc((LENGTH * 4 + 64) * sizeof *ids);
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        char path[512];
        snprintf(path, sizeof path, DATA_DIR "json/%s.json", names[k]);
        infer_tokenizer *t = open_json(path);
        for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
            char *at = text;
            uint64_t n;
            fill(&at, units[u], LENGTH / strlen(units[u]));
            double begin = seconds();
            assert_int_equal(infer_tokenize(t, text, (uint64_t)(at - text), INFER_TOKENIZE_PARSE_SPECIAL, ids, LENGTH * 4 + 64, &n, NULL), INFER_OK);
            if (seconds() - begin > 30)
                print_error("%s takes long with \"%s\"\n", names[k], units[u]);
            assert_true(seconds() - begin < 30); /* some 20 ms; squared it would be minutes */
        }
        infer_tokenizer_release(t);
    }
    free(text);
    free(ids);
}

/* Added tokens that take the white space around them in, in a text of nothing else; and normalizers that make much of little: both are quick. */
static void test_quick(void **state)
{
    (void)state;
    static const char *const files[] = {
        ADDED("{\"id\":2,\"content\":\"ab\"},{\"id\":3,\"content\":\" \",\"lstrip\":true,\"rstrip\":true}"),
        "{\"added_tokens\":[{\"id\":3,\"content\":\" \"},{\"id\":4,\"content\":\"\\n\",\"lstrip\":true,\"rstrip\":true}],\"model\":{\"type\":\"BPE\",\"vocab\":{" AB
        "},\"merges\":[]}}",
        NORM("{\"type\":\"Sequence\",\"normalizers\":[" GROW "," GROW "," GROW "," GROW "," GROW "," GROW "]}"),
        PRE("{\"type\":\"Sequence\",\"pretokenizers\":[" BYTES "," BYTES "," BYTES "," BYTES "," BYTES "," BYTES "," BYTES "," BYTES "," BYTES "," BYTES "," BYTES
            "," BYTES "," BYTES "," BYTES "]}")};
    enum { LENGTH = 200000 };
    char *text = malloc(LENGTH + 1);
    for (int i = 0; i < 4; i++) {
        char *at = text;
        infer_tokenizer *t;
        infer_error err;
        uint64_t n = 0;
        fill(&at, i == 1 ? "\n " : i == 2 ? "a" : " ", i == 1 ? LENGTH / 2 : LENGTH);
        assert_int_equal(open_text(files[i], strlen(files[i]), &t, &err), INFER_OK);
        double begin = seconds();
        infer_status st = infer_tokenize(t, text, LENGTH, 0, NULL, 0, &n, NULL);
        assert_int_equal(st, i < 2 ? INFER_ERROR_BUFFER : INFER_ERROR_LIMIT);
        assert_true(i >= 2 || n == LENGTH);
        assert_true(seconds() - begin < 4); /* it took a minute */
        infer_tokenizer_release(t);
    }
    free(text);
}

/* Steps that blow a text up end with an error. */
static void test_growth(void **state)
{
    (void)state;
    static const char step[] = "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}";
    char text[4096], *at = text;
    fill(&at, "{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[", 1);
    for (int i = 0; i < 8; i++) {
        fill(&at, i ? "," : "", 1);
        fill(&at, step, 1);
    }
    fill(&at, "]},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}", 1);
    infer_tokenizer *t;
    infer_error err;
    assert_int_equal(open_text(text, (size_t)(at - text), &t, &err), INFER_ERROR_LIMIT);
}

/* Roles that the file declares or implies. */
static void test_info(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int32_t kind, bos, eos, unk, sep, pad, mask, add_bos, add_eos;
    } want[] = {{"llama3", INFER_TOKENIZER_BPE, 0, -1, -1, -1, -1, -1, 1, 0},      {"roberta", INFER_TOKENIZER_BPE, 0, 2, -1, -1, 1, 4, 1, 1},
                {"bert", INFER_TOKENIZER_WORDPIECE, 2, -1, 1, 3, 0, 4, 1, 1},      {"t5", INFER_TOKENIZER_UNIGRAM, -1, 1, 2, -1, 0, -1, 0, 1},
                {"wordlevel", INFER_TOKENIZER_WORDLEVEL, -1, -1, 0, -1, 1, -1, 0, 0}, {"llama2", INFER_TOKENIZER_BPE, 1, -1, 0, -1, -1, -1, 1, 0}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        char path[512];
        infer_tokenizer_info info;
        INFER_INIT(&info);
        snprintf(path, sizeof path, DATA_DIR "json/%s.json", want[i].name);
        infer_tokenizer *t = open_tokenizer(path);
        assert_int_equal(infer_tokenizer_get_info(t, &info, NULL), INFER_OK);
        int32_t got[] = {info.kind, info.bos, info.eos, info.unk, info.sep, info.pad, info.mask, info.add_bos, info.add_eos};
        const int32_t *expected = &want[i].kind;
        for (int k = 0; k < 9; k++)
            if (got[k] != expected[k])
                print_error("%s: value %d is %d, expected %d\n", want[i].name, k, got[k], expected[k]);
        assert_memory_equal(got, expected, sizeof got);
        infer_tokenizer_release(t);
    }
}

/* Control tokens stay out of plain text, whatever the model. */
static void test_control(void **state)
{
    (void)state;
    static const char *const files[][2] = {{"qwen2", "<|im_end|>"}, {"t5", "</s>"}, {"bert", "[SEP]"}, {"wordlevel", "[PAD]"}, {"llama2", "</s>"}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[512], text[64];
        int32_t plain[64], parsed[64];
        uint64_t n, m, control = 0;
        infer_token_info info;
        snprintf(path, sizeof path, DATA_DIR "json/%s.json", files[i][0]);
        infer_tokenizer *t = open_tokenizer(path);
        snprintf(text, sizeof text, "a %s b", files[i][1]);
        assert_int_equal(infer_tokenize(t, text, INFER_ZSTR, 0, plain, 64, &n, NULL), INFER_OK);
        assert_int_equal(infer_tokenize(t, text, INFER_ZSTR, INFER_TOKENIZE_PARSE_SPECIAL, parsed, 64, &m, NULL), INFER_OK);
        for (uint64_t k = 0; k < n + m; k++) {
            INFER_INIT(&info);
            assert_int_equal(infer_tokenizer_token(t, k < n ? plain[k] : parsed[k - n], &info, NULL), INFER_OK);
            if (info.kind != INFER_TOKEN_CONTROL)
                continue;
            assert_true(k >= n);
            control++;
        }
        assert_int_equal(control, 1);
        infer_tokenizer_release(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),   cmocka_unit_test(test_deep),       cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_long_texts), cmocka_unit_test(test_quick), cmocka_unit_test(test_growth),
        cmocka_unit_test(test_info),      cmocka_unit_test(test_control),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
