/* Embeddings: against transformers, alone and in batches, with every CPU variant and number of threads; and what is refused. */
#include "testutil.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "embed_golden.h"
#include "engine/engine.h"
#include "gguf_edit.h"
#include "golden.h"
#include "infer/infer.h"
#include "ok.h"
#include "recording_device.h"
#include "tempdir.h"

static const char *const names[] = {"bert", "nomic-bert", "qwen3-embedding", "gemma-embedding", NULL};

static infer_model *open_with(const char *path, int32_t cpu, uint32_t threads)
{
    infer_engine_options eo;
    infer_engine *engine;
    infer_model *m;
    INFER_INIT(&error);
    INFER_INIT(&eo);
    eo.cpu = cpu;
    eo.threads = threads;
    ok(infer_engine_create(&eo, &engine, &error));
    ok(infer_model_open_path(engine, path, &m, &error));
    infer_engine_release(engine);
    return m;
}

static infer_model *open_fixture(const char *name)
{
    return open_with(fixture_path(name), INFER_CPU_AUTO, 2);
}

static infer_model_info info_of(const infer_model *m)
{
    infer_model_info i;
    INFER_INIT(&i);
    ok(infer_model_get_info(m, &i, &error));
    return i;
}

static infer_embed_item item_of(const struct embed_text *t, float *out, uint64_t capacity)
{
    infer_embed_item it;
    INFER_INIT(&it);
    it.ids = t->ids;
    it.id_count = t->n;
    it.out = out;
    it.capacity = capacity;
    return it;
}

static infer_embed_options options_of(int32_t pooling, uint32_t flags)
{
    infer_embed_options o;
    INFER_INIT(&o);
    o.pooling = pooling;
    o.flags = flags;
    return o;
}

static void check_golden(const char *name, const char *path)
{
    struct embed_golden g = embed_golden_read(name);
    infer_model *m = open_with(path, INFER_CPU_AUTO, 2);
    infer_model_info info = info_of(m);
    infer_embed_options rows = options_of(INFER_POOLING_NONE, 0);
    infer_embed_options one = options_of(0, 0);
    double worst = 0;
    one.max_tokens = rows.max_tokens = info.n_ctx_train;
    assert_int_equal(info.embedding_width, g.width);
    assert_int_equal(info.pooling, g.pooling);
    assert_int_equal(info.encoder, strncmp(name, "qwen3", 5) != 0);
    for (uint32_t t = 0; t < g.n_text; t++) {
        size_t n = (size_t)g.texts[t].n * g.n_embd;
        float *hidden = malloc(n * sizeof *hidden), vector[64];
        infer_embed_item it = item_of(&g.texts[t], hidden, n);
        ok(infer_embed(m, &it, 1, &rows, NULL, &error));
        assert_int_equal(it.rows, g.texts[t].n);
        double e = embed_error(hidden, g.texts[t].hidden, n);
        it = item_of(&g.texts[t], vector, g.width);
        ok(infer_embed(m, &it, 1, &one, NULL, &error));
        assert_int_equal(it.rows, 1);
        double v = embed_error(vector, g.texts[t].vector, g.width);
        worst = e > worst ? e : worst;
        if (e > 1e-4 || v > 1e-4)
            fail_msg("%s: text of %u tokens: hidden states within %g of range, vector within %g", name, g.texts[t].n, e, v);
        free(hidden);
    }
    print_message("# %s: within %g of range\n", name, worst);
    infer_model_release(m);
    free(g.data);
}

static void test_golden(void **state)
{
    (void)state;
    for (int i = 0; names[i]; i++)
        check_golden(names[i], fixture_path(names[i]));
}

static const char *folder_path(const char *name)
{
    static char path[512];
    (void)snprintf(path, sizeof path, INFER_SOURCE_DIR "/tests/data/fixtures/%s", name);
    return path;
}

/* The same model as a folder: the same bits. */
static void test_folders(void **state)
{
    (void)state;
    for (int k = 0; names[k]; k++) {
        check_golden(names[k], folder_path(names[k]));
        struct embed_golden g = embed_golden_read(names[k]);
        infer_model *m[2] = {open_fixture(names[k]), open_with(folder_path(names[k]), INFER_CPU_AUTO, 2)};
        float got[2][64];
        for (int i = 0; i < 2; i++) {
            infer_embed_item it = item_of(&g.texts[4], got[i], g.width);
            ok(infer_embed(m[i], &it, 1, NULL, NULL, &error));
            it = (infer_embed_item){.size = (uint32_t)sizeof it, .text = "The cat, isn't it red?", .text_len = INFER_ZSTR, .out = got[i] + g.width,
                                    .capacity = 64 - g.width};
            if (k == 0)
                ok(infer_embed(m[i], &it, 1, NULL, NULL, &error));
        }
        assert_memory_equal(got[0], got[1], g.width * 4 * (k == 0 ? 2 : 1));
        if (k == 0)
            assert_int_equal(info_of(m[1]).embed_tokens, 200); /* sentence_bert_config.json */
        infer_model_release(m[0]);
        infer_model_release(m[1]);
        free(g.data);
    }
}

/* Every kind of pooling is made of the hidden states of the text. */
static void test_pooling(void **state)
{
    (void)state;
    for (int k = 0; names[k]; k++) {
        struct embed_golden g = embed_golden_read(names[k]);
        infer_model *m = open_fixture(names[k]);
        const struct embed_text *t = &g.texts[3];
        float *hidden = malloc((size_t)t->n * g.n_embd * sizeof *hidden), got[3][64], cut[8];
        infer_embed_item it = item_of(t, hidden, (uint64_t)t->n * g.n_embd);
        infer_embed_options o = options_of(INFER_POOLING_NONE, 0);
        ok(infer_embed(m, &it, 1, &o, NULL, &error));
        for (int p = 0; p < 3; p++) {
            it = item_of(t, got[p], g.width);
            o = options_of(INFER_POOLING_MEAN + p, INFER_EMBED_RAW);
            ok(infer_embed(m, &it, 1, &o, NULL, &error));
        }
        for (uint32_t i = 0; i < g.n_embd && strcmp(names[k], "gemma-embedding") != 0; i++) { /* there dense layers follow */
            double sum = 0;
            for (uint32_t r = 0; r < t->n; r++)
                sum += (double)hidden[(size_t)r * g.n_embd + i];
            assert_true(got[0][i] == (float)(sum / t->n));
            assert_true(got[1][i] == hidden[i]);
            assert_true(got[2][i] == hidden[(size_t)(t->n - 1) * g.n_embd + i]);
        }
        assert_true(memcmp(got[0], got[1], g.width * 4) && memcmp(got[1], got[2], g.width * 4));
        o = options_of(INFER_POOLING_MEAN, 0); /* the first numbers of it, made of length 1 */
        o.dimensions = 8;
        it = item_of(t, cut, 8);
        ok(infer_embed(m, &it, 1, &o, NULL, &error));
        double length = 0, whole = 0;
        for (int i = 0; i < 8; i++) {
            length += (double)cut[i] * cut[i];
            whole += (double)got[0][i] * got[0][i];
        }
        assert_true(fabs(length - 1) < 1e-6);
        for (int i = 0; i < 8; i++)
            assert_true(fabs(cut[i] - got[0][i] / sqrt(whole)) < 1e-6);
        free(hidden);
        infer_model_release(m);
        free(g.data);
    }
}

/* All texts several times over, in an order and in batches that the seed says: each has the bits of the text alone. */
static void check_batches(infer_model *m, const struct embed_golden *g, const float *alone, uint32_t seed)
{
    enum { N = 90 };
    static infer_embed_item items[N];
    static float out[N][64];
    uint32_t which[N];
    for (uint32_t i = 0; i < N; i++) {
        seed = seed * 1664525u + 1013904223u;
        which[i] = (seed >> 16) % g->n_text;
        items[i] = item_of(&g->texts[which[i]], out[i], g->width);
    }
    for (uint32_t i = 0, n; i < N; i += n) {
        seed = seed * 1664525u + 1013904223u;
        n = 1 + (seed >> 16) % 40;
        n = n < N - i ? n : N - i;
        ok(infer_embed(m, items + i, n, NULL, NULL, &error));
    }
    for (uint32_t i = 0; i < N; i++)
        assert_memory_equal(out[i], alone + (size_t)which[i] * g->width, g->width * 4);
}

static void test_bits(void **state)
{
    (void)state;
    static const int32_t levels[] = {INFER_CPU_AUTO, INFER_CPU_SCALAR, INFER_CPU_AVX2, INFER_CPU_AVX512, INFER_CPU_AVX512VNNI,
                                     INFER_CPU_NEON};
    static const char *const all[] = {"bert", "nomic-bert", "qwen3-embedding", "gemma-embedding", "bert-q8_0"};
    for (int k = 0; k < 5; k++) {
        struct embed_golden g = embed_golden_read(k < 4 ? all[k] : "bert");
        float first[EMBED_MAX_TEXTS * 64], alone[EMBED_MAX_TEXTS * 64];
        int done = 0;
        for (size_t l = 0; l < sizeof levels / sizeof *levels; l++) {
            infer_engine_options eo;
            infer_engine *probe;
            INFER_INIT(&eo);
            eo.cpu = levels[l];
            if (infer_engine_create(&eo, &probe, NULL) != INFER_OK)
                continue;
            infer_engine_release(probe);
            for (uint32_t threads = 1; threads <= 4; threads += 3) {
                infer_model *m = open_with(fixture_path(all[k]), levels[l], threads);
                for (uint32_t t = 0; t < g.n_text; t++) {
                    infer_embed_item it = item_of(&g.texts[t], alone + (size_t)t * g.width, g.width);
                    ok(infer_embed(m, &it, 1, NULL, NULL, &error));
                }
                if (done++)
                    assert_memory_equal(alone, first, g.n_text * g.width * 4);
                memcpy(first, alone, sizeof first);
                if (levels[l] == INFER_CPU_AUTO)
                    check_batches(m, &g, alone, threads);
                infer_model_release(m);
            }
        }
        assert_true(done >= 4);
        free(g.data);
    }
}

/* ---- texts */

static void test_texts(void **state)
{
    (void)state;
    infer_model *m = open_fixture("bert");
    float a[64], b[64];
    infer_embed_item it;
    INFER_INIT(&it);
    it.text = "The cat sat on the mat.";
    it.text_len = INFER_ZSTR;
    it.out = a;
    it.capacity = 32;
    ok(infer_embed(m, &it, 1, NULL, NULL, &error));
    assert_int_equal(it.text_len, INFER_ZSTR);
    int32_t ids[64];
    uint64_t n;
    ok(infer_tokenize(infer_model_tokenizer(m), it.text, INFER_ZSTR, INFER_TOKENIZE_ADD_SPECIAL, ids, 64, &n, &error));
    assert_int_equal(it.tokens, n);
    assert_int_equal(ids[0], 2); /* [CLS], [SEP] */
    assert_int_equal(ids[n - 1], 3);
    struct embed_text same = {(uint32_t)n, ids, NULL, NULL};
    infer_embed_item by_ids = item_of(&same, b, 32);
    ok(infer_embed(m, &by_ids, 1, NULL, NULL, &error));
    assert_memory_equal(a, b, 32 * 4);
    infer_embed_options o = options_of(0, INFER_EMBED_NO_SPECIAL);
    ok(infer_embed(m, &it, 1, &o, NULL, &error));
    assert_int_equal(it.tokens, n - 2);
    assert_true(memcmp(a, b, 32 * 4));
    infer_model_release(m);
}

/* What is cut is the text; the tokens behind it stay. */
static void test_truncate(void **state)
{
    (void)state;
    infer_model *m = open_fixture("bert");
    char text[2001];
    float a[32], b[32];
    for (int i = 0; i < 1000; i++)
        memcpy(text + 2 * i, "a ", 3);
    infer_embed_item it;
    INFER_INIT(&it);
    it.text = text;
    it.text_len = INFER_ZSTR;
    it.out = a;
    it.capacity = 32;
    assert_int_equal(infer_embed(m, &it, 1, NULL, NULL, &error), INFER_ERROR_CONTEXT_FULL);
    assert_int_equal(it.status, INFER_ERROR_CONTEXT_FULL);
    assert_int_equal(it.tokens, 1002);
    infer_embed_options o = options_of(0, INFER_EMBED_TRUNCATE);
    o.max_tokens = 40;
    ok(infer_embed(m, &it, 1, &o, NULL, &error));
    assert_int_equal(it.truncated, 1);
    assert_int_equal(it.tokens, 1002);
    text[2 * 38] = 0; /* 38 and the two special ones */
    it.out = b;
    ok(infer_embed(m, &it, 1, NULL, NULL, &error));
    assert_int_equal(it.truncated, 0);
    assert_int_equal(it.tokens, 40);
    assert_memory_equal(a, b, sizeof a);
    o.max_tokens = 321; /* learned positions: 320 */
    assert_int_equal(infer_embed(m, &it, 1, &o, NULL, &error), INFER_ERROR_ARGUMENT);
    assert_string_equal(error.name, "max_tokens");
    infer_model_release(m);
}

/* ---- what is refused */

/* A text that fails does not fail the others. */
static void test_one_bad(void **state)
{
    (void)state;
    struct embed_golden g = embed_golden_read("nomic-bert");
    infer_model *m = open_fixture("nomic-bert");
    float out[5][64], want[64];
    int32_t bad = 160;
    infer_embed_item it[5];
    for (int i = 0; i < 5; i++)
        it[i] = item_of(&g.texts[1], out[i], g.width);
    it[1].ids = &bad;
    it[1].id_count = 1;
    it[2].id_count = 0;
    it[3].capacity = g.width - 1;
    assert_int_equal(infer_embed(m, it, 5, NULL, NULL, &error), INFER_ERROR_TOKEN);
    assert_int_equal(it[0].status, INFER_OK);
    assert_int_equal(it[1].status, INFER_ERROR_TOKEN);
    assert_int_equal(it[2].status, INFER_ERROR_VALUE);
    assert_int_equal(it[3].status, INFER_ERROR_BUFFER);
    assert_int_equal(it[3].rows, 1);
    assert_int_equal(it[4].status, INFER_OK);
    infer_embed_item alone = item_of(&g.texts[1], want, g.width);
    ok(infer_embed(m, &alone, 1, NULL, NULL, &error));
    assert_memory_equal(out[0], want, g.width * 4);
    assert_memory_equal(out[4], want, g.width * 4);
    it[0].ids = NULL;
    it[0].id_count = 0;
    it[0].text = "a";
    it[0].text_len = 1;
    assert_int_equal(infer_embed(m, it, 1, NULL, NULL, &error), INFER_ERROR_STATE); /* no tokenizer */
    infer_model_release(m);
    free(g.data);
}

static void test_arguments(void **state)
{
    (void)state;
    struct embed_golden g = embed_golden_read("bert");
    infer_model *m = open_fixture("bert");
    infer_cancel *cancel;
    infer_session *s = NULL;
    float out[64];
    infer_embed_item it = item_of(&g.texts[0], out, 32), two[2] = {it, it};
    infer_embed_options o = options_of(INFER_POOLING_RANK, 0);
    assert_int_equal(infer_embed(NULL, &it, 1, NULL, NULL, &error), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_embed(m, NULL, 1, NULL, NULL, &error), INFER_ERROR_ARGUMENT);
    ok(infer_embed(m, NULL, 0, NULL, NULL, &error));
    assert_int_equal(infer_embed(m, &it, 1, &o, NULL, &error), INFER_ERROR_ARGUMENT);
    o = options_of(0, 16);
    assert_int_equal(infer_embed(m, &it, 1, &o, NULL, &error), INFER_ERROR_ARGUMENT);
    o = options_of(0, 0);
    o.dimensions = 33;
    assert_int_equal(infer_embed(m, &it, 1, &o, NULL, &error), INFER_ERROR_ARGUMENT);
    assert_string_equal(error.name, "dimensions");
    it.text = "a";
    assert_int_equal(infer_embed(m, &it, 1, NULL, NULL, &error), INFER_ERROR_ARGUMENT); /* text and ids */
    it.text = NULL;
    it.ids = NULL;
    assert_int_equal(infer_embed(m, &it, 1, NULL, NULL, &error), INFER_ERROR_ARGUMENT);
    it = item_of(&g.texts[0], NULL, 32);
    assert_int_equal(infer_embed(m, &it, 1, NULL, NULL, &error), INFER_ERROR_ARGUMENT);
    two[1].size = 8;
    assert_int_equal(infer_embed(m, two, 2, NULL, NULL, &error), INFER_ERROR_ARGUMENT);
    it = item_of(&g.texts[5], out, 32);
    ok(infer_cancel_create(&cancel, &error));
    infer_cancel_set(cancel);
    assert_int_equal(infer_embed(m, &it, 1, NULL, cancel, &error), INFER_ERROR_CANCELLED);
    infer_cancel_release(cancel);
    assert_int_equal(infer_session_create(m, NULL, &s, &error), INFER_ERROR_UNSUPPORTED);
    assert_non_null(strstr(error.text, "encoder"));
    infer_model_release(m);
    free(g.data);
}

/* No memory at any point: an error, nothing leaks, and the next call works. */
static void test_no_memory(void **state)
{
    (void)state;
    static const char *const two[] = {"bert", "qwen3-embedding", "gemma-embedding"};
    for (int k = 0; k < 3; k++) {
        struct embed_golden g = embed_golden_read(two[k]);
        struct test_alloc counted = {0};
        infer_allocator a = test_infer_allocator(&counted);
        infer_engine_options eo;
        float want[64], out[2][64];
        infer_status st = INFER_ERROR_NO_MEMORY;
        INFER_INIT(&eo);
        eo.allocator = &a;
        eo.threads = 1;
        for (uint64_t n = 1; st != INFER_OK; n++) {
            infer_engine *engine;
            infer_model *m;
            ok(infer_engine_create(&eo, &engine, &error));
            ok(infer_model_open_path(engine, fixture_path(two[k]), &m, &error));
            infer_engine_release(engine);
            infer_embed_item it[2] = {item_of(&g.texts[1], out[0], g.width), item_of(&g.texts[3], out[1], g.width)};
            counted.calls = 0;
            counted.fail_at = n;
            st = infer_embed(m, it, 2, NULL, NULL, &error);
            assert_true(st == INFER_ERROR_NO_MEMORY || (st == INFER_OK && counted.calls < n));
            counted.fail_at = 0;
            infer_embed_item again = item_of(&g.texts[1], want, g.width);
            ok(infer_embed(m, &again, 1, NULL, NULL, &error));
            if (it[0].rows && it[0].status == INFER_OK)
                assert_memory_equal(want, out[0], g.width * 4);
            infer_model_release(m);
            assert_int_equal(counted.live, 0);
        }
        free(g.data);
    }
}

/* ---- files that are wrong */

static infer_status open_edited(const char *fixture, const struct gguf_edit *e)
{
    infer_source src;
    infer_file *f;
    infer_model *m = NULL;
    infer_source_path(&src, fixture_path(fixture), INFER_ZSTR);
    ok(infer_file_open(NULL, &src, NULL, &f, &error));
    struct buf b = gguf_edit(f, e);
    INFER_INIT(&error);
    infer_source_memory(&src, b.data, b.len);
    infer_status st = infer_model_open(NULL, &src, NULL, &m, &error);
    infer_model_release(m);
    buf_free(&b);
    infer_file_release(f);
    return st;
}

static void test_wrong_files(void **state)
{
    (void)state;
    static const struct {
        const char *fixture;
        struct gguf_edit edit;
        infer_status status;
        const char *name;
    } wrong[] = {
        {"bert", {.drop_tensor = "token_embd_norm.weight"}, INFER_ERROR_MISSING, "token_embd_norm.weight"},
        {"bert", {.drop_tensor = "position_embd.weight"}, INFER_ERROR_MISSING, "position_embd.weight"},
        {"bert", {.drop_tensor = "blk.1.layer_output_norm.bias"}, INFER_ERROR_MISSING, "blk.1.layer_output_norm.bias"},
        {"bert", {.rename_tensor = "blk.0.attn_q.bias", .new_name = "blk.0.attn_x.bias"}, INFER_ERROR_UNSUPPORTED, "blk.0.attn_x.bias"},
        {"bert", {.reshape_tensor = "token_types.weight", .d0 = 16, .d1 = 4}, INFER_ERROR_SHAPE, "token_types.weight"},
        {"bert", {.set_key = "bert.pooling_type", .set_type = FILE_U32, .number = 5}, INFER_ERROR_VALUE, "bert.pooling_type"},
        {"bert", {.set_key = "bert.context_length", .set_type = FILE_U32, .number = 512}, INFER_ERROR_SHAPE, "position_embd.weight"},
        {"bert", {.drop_key = "bert.attention.layer_norm_epsilon"}, INFER_ERROR_MISSING, "bert.attention.layer_norm_epsilon"},
        {"nomic-bert", {.reshape_tensor = "blk.0.attn_qkv.weight", .d0 = 96, .d1 = 32}, INFER_ERROR_SHAPE, "blk.0.attn_qkv.weight"},
        {"nomic-bert", {.drop_tensor = "blk.1.ffn_gate.weight"}, INFER_ERROR_MISSING, "blk.1.ffn_gate.weight"},
        {"gemma-embedding", {.drop_tensor = "dense_2.weight"}, INFER_ERROR_SHAPE, "dense_3.weight"},
        {"gemma-embedding", {.reshape_tensor = "dense_3.weight", .d0 = 32, .d1 = 48}, INFER_ERROR_SHAPE, "dense_3.weight"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        infer_status st = open_edited(wrong[i].fixture, &wrong[i].edit);
        if (st != wrong[i].status || strcmp(error.name, wrong[i].name) != 0)
            fail_msg("case %zu: %s, %s: %s", i, infer_status_name(st), error.name, error.text);
    }
    ok(open_edited("bert", &(struct gguf_edit){.drop_tensor = "token_types.weight"}));
    ok(open_edited("gemma-embedding", &(struct gguf_edit){.drop_tensor = "dense_3.weight"}));
}

/* A reranker opens; what it is for cannot be computed, and that is said. */
static void test_reranker(void **state)
{
    (void)state;
    infer_source src;
    infer_file *f;
    infer_model *m;
    float out[32];
    int32_t id = 7;
    infer_source_path(&src, fixture_path("bert"), INFER_ZSTR);
    ok(infer_file_open(NULL, &src, NULL, &f, &error));
    struct buf b = gguf_edit(f, &(struct gguf_edit){.set_key = "bert.pooling_type", .set_type = FILE_U32, .number = 4});
    infer_source_memory(&src, b.data, b.len);
    ok(infer_model_open(NULL, &src, NULL, &m, &error));
    assert_int_equal(info_of(m).pooling, INFER_POOLING_RANK);
    struct embed_text t = {1, &id, NULL, NULL};
    infer_embed_item it = item_of(&t, out, 32);
    infer_embed_options o = options_of(INFER_POOLING_CLS, 0);
    assert_int_equal(infer_embed(m, &it, 1, NULL, NULL, &error), INFER_ERROR_UNSUPPORTED);
    ok(infer_embed(m, &it, 1, &o, NULL, &error));
    infer_model_release(m);
    buf_free(&b);
    infer_file_release(f);
}

static void copy_file(const char *from, const char *name)
{
    size_t n;
    char *data = test_read_file(from, &n);
    assert_non_null(data);
    tempdir_write(name, data, n);
    free(data);
}

/* A folder with another modules.json, and further files of its own. */
static infer_status open_modules(const char *modules, const char *extra, const char *text)
{
    char from[600];
    infer_model *m = NULL;
    (void)tempdir_make();
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "model.safetensors" : "config.json";
        (void)snprintf(from, sizeof from, "%s/%s", folder_path("bert"), name);
        copy_file(from, name);
    }
    tempdir_write("modules.json", modules, strlen(modules));
    if (extra)
        tempdir_write(extra, text, strlen(text));
    INFER_INIT(&error);
    infer_status st = infer_model_open_path(NULL, tempdir_path(""), &m, &error);
    infer_model_release(m);
    tempdir_remove();
    return st;
}

/* Modules in the folder itself (path ""), whose config.json is that of the model: no pooling mode. */
#define MODULE(type, path) "[{\"idx\":0,\"type\":\"x." type "\",\"path\":\"" path "\"}]"

static void test_wrong_folders(void **state)
{
    (void)state;
    ok(open_modules(MODULE("Normalize", "2_Normalize"), NULL, NULL));
    ok(open_modules("{}", NULL, NULL));
    assert_int_equal(open_modules(MODULE("Pooling", ""), NULL, NULL), INFER_ERROR_UNSUPPORTED);
    assert_string_equal(error.name, "pooling_mode");
    static const char *const outside[] = {"../x", "/etc", "a/b", "..", "a\\\\b", "c:d", "a\\u0001"};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        char modules[200];
        (void)snprintf(modules, sizeof modules, "[{\"type\":\"x.Pooling\",\"path\":\"%s\"}]", outside[i]);
        assert_int_equal(open_modules(modules, NULL, NULL), INFER_ERROR_FORMAT);
        assert_string_equal(error.name, "path");
    }
    assert_int_equal(open_modules("[{\"type\":\"x.Pooling\",\"path\":7}]", NULL, NULL), INFER_ERROR_FORMAT);
    assert_int_equal(open_modules("[7]", NULL, NULL), INFER_ERROR_UNSUPPORTED);
    assert_int_equal(open_modules(MODULE("WeightedLayerPooling", ""), NULL, NULL), INFER_ERROR_UNSUPPORTED);
    assert_int_equal(open_modules(MODULE("Dense", ""), NULL, NULL), INFER_ERROR_UNSUPPORTED);
    assert_int_equal(open_modules("[", NULL, NULL), INFER_ERROR_SYNTAX);
    assert_int_equal(open_modules("[]", "sentence_bert_config.json", "{\"max_seq_length\": -1}"), INFER_ERROR_VALUE);
    ok(open_modules("[]", "sentence_bert_config.json", "{\"max_seq_length\": null}"));
}

/* On a device whose buffers are opaque and come filled with NaNs: every reference is checked, and the vectors are the same. */
static void test_recording_device(void **state)
{
    (void)state;
    for (int k = 0; names[k]; k++) {
        struct embed_golden g = embed_golden_read(names[k]);
        struct test_alloc t = {0};
        struct env env = test_env_of(&t);
        struct cpu_device_options o = {INFER_CPU_AUTO, INFER_NUMERICS_EXACT, 1, NULL, NULL};
        float out[2][2][64];
        for (int i = 0; i < 2; i++) {
            struct device *cpu;
            infer_engine *e;
            infer_model *m;
            ok(cpu_device_create(&env.alloc, &o, &cpu, &error));
            struct device *dev = i ? recording_device_create(cpu) : cpu;
            if (i)
                recording_allow_ahead(dev);
            ok(engine_create_on(&env, dev, 0, &e, &error));
            ok(infer_model_open_path(e, fixture_path(names[k]), &m, &error));
            infer_embed_item it[2] = {item_of(&g.texts[5], out[i][0], g.width), item_of(&g.texts[2], out[i][1], g.width)};
            ok(infer_embed(m, it, 2, NULL, NULL, &error));
            if (i && recording_of(dev)->n_errors)
                fail_msg("%s: %s", names[k], recording_of(dev)->first_error);
            if (i)
                assert_true(recording_count(dev, "attention") >= 4);
            infer_model_release(m);
            infer_engine_release(e);
        }
        for (int i = 0; i < 2; i++)
            assert_memory_equal(out[0][i], out[1][i], g.width * 4);
        assert_int_equal(t.live, 0);
        free(g.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden), cmocka_unit_test(test_folders),   cmocka_unit_test(test_pooling), cmocka_unit_test(test_bits),     cmocka_unit_test(test_texts),
        cmocka_unit_test(test_truncate),  cmocka_unit_test(test_one_bad), cmocka_unit_test(test_arguments), cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_wrong_files), cmocka_unit_test(test_wrong_folders), cmocka_unit_test(test_reranker), cmocka_unit_test(test_recording_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
