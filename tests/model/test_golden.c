/* The forward pass against transformers in f32: every architecture, every position. */
#include "testutil.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "golden.h"
#include "infer/infer.h"
#include "ok.h"

static infer_session *open_session_at(const char *path, int32_t numerics, int32_t kv_type)
{
    infer_engine_options eo;
    infer_engine *engine;
    infer_model *model;
    infer_session *session;
    infer_session_options so;
    INFER_INIT(&error);
    INFER_INIT(&eo);
    eo.numerics = numerics;
    eo.threads = 2;
    ok(infer_engine_create(&eo, &engine, &error));
    ok(infer_model_open_path(engine, path, &model, &error));
    INFER_INIT(&so);
    so.kv_type = kv_type;
    ok(infer_session_create(model, &so, &session, &error));
    infer_model_release(model);
    infer_engine_release(engine);
    return session;
}

static infer_session *open_session(const char *name, int32_t numerics, int32_t kv_type)
{
    return open_session_at(fixture_path(name), numerics, kv_type);
}

/* Logits of every prompt position into out [n_prompt][n_vocab]. */
static void run_prompt(infer_session *s, const struct golden *g, float *out)
{
    infer_step_item it;
    INFER_INIT(&it);
    it.session = s;
    it.logits = INFER_ROWS_ALL;
    ok(infer_session_append(s, g->prompt, g->n_prompt, &error));
    ok(infer_step(&it, 1, NULL, &error));
    assert_int_equal(it.done, g->n_prompt);
    for (uint32_t i = 0; i < g->n_prompt; i++) {
        const float *row;
        uint64_t pos;
        ok(infer_session_logits(s, i, &row, &pos, &error));
        assert_int_equal(pos, i);
        memcpy(out + (size_t)i * g->n_vocab, row, g->n_vocab * sizeof(float));
    }
}

/* The largest error at a position, as a share of the reference's range there. */
static double error_at(const struct golden *g, const float *got, uint32_t p)
{
    const float *ref = g->logits + (size_t)p * g->n_vocab, *x = got + (size_t)p * g->n_vocab;
    double lo = ref[0], hi = ref[0], err = 0;
    for (uint32_t i = 0; i < g->n_vocab; i++) {
        double d = (double)x[i] - ref[i];
        lo = ref[i] < lo ? ref[i] : lo;
        hi = ref[i] > hi ? ref[i] : hi;
        err = d > err ? d : -d > err ? -d : err;
    }
    return err / (hi - lo);
}

static double worst_error(const struct golden *g, const float *got)
{
    double worst = 0;
    for (uint32_t p = 0; p < g->n_prompt; p++)
        worst = error_at(g, got, p) > worst ? error_at(g, got, p) : worst;
    return worst;
}

/* Of a model with experts, rounding makes an element choose another one now and then, which is another function altogether: there the error that
 * three quarters of the positions keep to. */
static double rounding_error(const struct golden *g, const float *got)
{
    double *all = malloc(g->n_prompt * sizeof *all);
    uint32_t n = g->n_prompt, at = g->has_experts ? n * 3 / 4 : n - 1;
    for (uint32_t p = 0; p < n; p++) {
        uint32_t i = p;
        double e = error_at(g, got, p);
        for (; i && all[i - 1] > e; i--)
            all[i] = all[i - 1];
        all[i] = e;
    }
    double e = all[at];
    free(all);
    return e;
}

static void check_greedy(infer_session *s, const struct golden *g)
{
    infer_event ev;
    infer_generate_options o;
    INFER_INIT(&o);
    o.max_tokens = g->n_greedy;
    ok(infer_generate_begin(s, &o, &error));
    for (uint32_t i = 0; i < g->n_greedy; i++) {
        INFER_INIT(&ev);
        ok(infer_generate_next(s, &ev, NULL, &error));
        assert_int_equal(ev.kind, INFER_EVENT_TOKEN);
        if (ev.id != g->greedy[i])
            fail_msg("greedy token %u is %d, expected %d", i, ev.id, g->greedy[i]);
    }
    ok(infer_generate_next(s, &ev, NULL, &error));
    assert_int_equal(ev.kind, INFER_EVENT_DONE);
    assert_int_equal(ev.finish_reason, INFER_FINISH_LENGTH);
    assert_int_equal(infer_generate_next(s, &ev, NULL, NULL), INFER_ERROR_STATE);
}

/* The bits of numerics version 1: hashes of all logits of a fixture's prompt, default settings. The same on every processor; a change
 * needs a new numerics version. */
struct bits {
    const char *name;
    uint64_t hash;
};
static const struct bits bits_v1[] = {
    {"llama", 0x5d3a3d4d23f4c17e},
    {"llama-linear", 0x6c66a26eac6accba},
    {"llama3-rope", 0x1b6f6ba973209267},
    {"llama-yarn", 0xed9a588a0dc43058},
    {"llama-bias", 0xd424f7d02294a56c},
    {"smollm2", 0xb5231ab92214e413},
    {"qwen2", 0x6522ce362337a97f},
    {"qwen3", 0x986a59e7b6359fbd},
    {"gemma3", 0x534d0e7193bf63dc},
    {"gemma3-scaled", 0x6ee0668bf887acb4},
    {"gpt2", 0x830a4c3ea1a0281f},
    {"llama-q8_0", 0x67ca79e57e3946d8},
    {"llama-q4_0", 0xb8839520929e5613},
    {"llama-q4_1", 0x5ff51ff579cd1fb1},
    {"llama-mix32", 0x861cd297cf7ef13b},
    {"llama-mix256", 0x3b7468fc8133fecf},
    {"gemma2", 0x0678e9d63e415acf},
    {"phi3", 0xb0d0e167e13d6a3f},
    {"phi3-window", 0xb5c027959f12dafc},
    {"mistral", 0x081255628a87c3d8},
    {"granite", 0x659195fc27c1c69a},
    {"nemotron", 0x1eed25c8a50f0d70},
    {"olmo2", 0xfed337b365abde00},
    {"starcoder2", 0xe670d686faf09bd4},
    {"stablelm", 0x943e6272220c5c11},
    {"stablelm-parallel", 0x0eecdd47c176d6fc},
    {"mixtral", 0x70d9bc60d4beddab},
    {"deepseek3", 0x418c978225cd8db3},
    {"deepseek2-groups", 0x233867f456b3398f},
    {"deepseek2-kv_b", 0xed912acbb6e2a337},
    {"deepseek2", 0x575c00a5d3425d13},
    {"olmoe", 0x06ff0b174fe2967e},
    {"qwen2moe", 0xf8cd8996f426cbd4},
    {"qwen3moe", 0x6f02418d048e3f44},
    {"mixtral-q4_0", 0x00781cfb64bfe76e},
    {"deepseek2-q8_0-kv_b", 0x6cd2ceea35243a2d},
    {"qwen3moe-q4_k", 0x0da75108c2dea39c},
    {"olmo3", 0x77599cce80eaa475},
    {"mistral3", 0xe718e8b3b7b44b67},
};

/* The same with int8 KV. */
static const struct bits bits_int8_v1[] = {
    {"llama", 0xbf4d96bcb8cb313d},
    {"qwen3", 0x8ba6dfd4bc5e09cb},
    {"gemma3", 0xaaa0626aa284dff9},
    {"gpt2", 0x251c7ca78c77542a},
    {"llama-mix256", 0x0ff4892aea3061ae},
    {"deepseek2", 0x4a98750d34bc98ef},
};

/* The same with the other compact types. */
static const struct bits bits_int8_64_v1[] = {{"llama-mix256", 0x0ff4892aea3061ae}, {"llama", 0xbf4d96bcb8cb313d}}; /* small heads: as int8 */
static const struct bits bits_mixed_v1[] = {{"llama", 0x9d0324a302de4649}, {"gemma3", 0x968ca02ba1066d35}, {"deepseek2", 0xa9a5b22b2661dc33}};

static void check_bits(const struct bits *b, int32_t kv_type)
{
    struct golden g = golden_read(b->name);
    size_t n = (size_t)g.n_prompt * g.n_vocab;
    float *got = malloc(n * sizeof *got);
    infer_session *s = open_session(b->name, INFER_NUMERICS_EXACT, kv_type);
    run_prompt(s, &g, got);
    uint64_t hash = hash_bytes(got, n * sizeof *got);
    infer_session_release(s);
    free(got);
    golden_free(&g);
    if (hash != b->hash)
        fail_msg("%s, KV type %d: the logits hash to 0x%016llx", b->name, (int)kv_type, (unsigned long long)hash);
}

static void test_bits(void **state)
{
    (void)state;
    assert_int_equal(infer_numerics_version(), 1);
    for (size_t i = 0; i < sizeof bits_v1 / sizeof *bits_v1; i++)
        check_bits(&bits_v1[i], INFER_KV_F16);
    for (size_t i = 0; i < sizeof bits_int8_v1 / sizeof *bits_int8_v1; i++)
        check_bits(&bits_int8_v1[i], INFER_KV_INT8);
    for (size_t i = 0; i < sizeof bits_int8_64_v1 / sizeof *bits_int8_64_v1; i++)
        check_bits(&bits_int8_64_v1[i], INFER_KV_INT8_64);
    for (size_t i = 0; i < sizeof bits_mixed_v1 / sizeof *bits_mixed_v1; i++)
        check_bits(&bits_mixed_v1[i], INFER_KV_MIXED_F16);
}

static void test_f32(void **state)
{
    const char *name = *state;
    struct golden g = golden_read(name);
    float *got = malloc((size_t)g.n_prompt * g.n_vocab * sizeof *got);
    infer_session *s = open_session(name, INFER_NUMERICS_EXACT, INFER_KV_F32);
    run_prompt(s, &g, got);
    double worst = worst_error(&g, got);
    print_message("# %s: worst error %.2e of the range\n", name, worst);
    assert_true(worst <= 1e-4);
    check_greedy(s, &g);
    infer_session_release(s);
    /* the default KV type rounds keys and values to f16 */
    s = open_session(name, INFER_NUMERICS_EXACT, INFER_KV_F16);
    run_prompt(s, &g, got);
    worst = rounding_error(&g, got);
    print_message("# %s, f16 KV: worst error %.2e of the range\n", name, worst);
    assert_true(worst <= 5e-3);
    infer_session_release(s);
    s = open_session(name, INFER_NUMERICS_EXACT, INFER_KV_INT8);
    run_prompt(s, &g, got);
    worst = rounding_error(&g, got);
    print_message("# %s, int8 KV: worst error %.2e of the range\n", name, worst);
    assert_true(worst <= 5e-2);
    infer_session_release(s);
    free(got);
    golden_free(&g);
}

/* PRECISE with quantised weights equals the same weights expanded to F32, to the bit: both run in the float product's order. EXACT rounds
 * activations to 8 bits and comes close. */
static void test_quantised(void **state)
{
    const char *name = *state;
    char twin[64];
    struct golden g = golden_read(name);
    size_t n = (size_t)g.n_prompt * g.n_vocab;
    float *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b);
    (void)snprintf(twin, sizeof twin, "%s-f32", name);
    infer_session *s = open_session(name, INFER_NUMERICS_PRECISE, INFER_KV_F32);
    run_prompt(s, &g, a);
    check_greedy(s, &g);
    infer_session_release(s);
    s = open_session(twin, INFER_NUMERICS_PRECISE, INFER_KV_F32);
    run_prompt(s, &g, b);
    infer_session_release(s);
    assert_memory_equal(a, b, n * sizeof *a);
    assert_true(worst_error(&g, a) <= 1e-4);
    s = open_session(name, INFER_NUMERICS_EXACT, INFER_KV_F32);
    run_prompt(s, &g, a);
    infer_session_release(s);
    print_message("# %s: int8 activations: worst error %.2e of the range\n", name, worst_error(&g, a));
    assert_true(worst_error(&g, a) <= 0.05);
    assert_memory_not_equal(a, b, n * sizeof *a);
    free(a);
    free(b);
    golden_free(&g);
}

/* The bundled model continues as torch did in f32 (tests/data/tiny-greedy.json, from scripts/train_tiny.py). PRECISE: where the two best
 * tokens are close, rounded activations may choose the other. */
static void test_tiny(void **state)
{
    (void)state;
    char *json = test_read_file(INFER_SOURCE_DIR "/tests/data/tiny-greedy.json", NULL);
    assert_non_null(json);
    char *prompt = strstr(json, "\"prompt_ids\""), *ids = strstr(json, "\"ids\"");
    assert_non_null(prompt);
    assert_non_null(ids);
    int32_t want[64], head[32];
    int n = 0, n_head = 0;
    for (char *p = strchr(prompt, '['); *p != ']' && n_head < 32; p++)
        if (*p == '[' || *p == ',')
            head[n_head++] = (int32_t)strtol(p + 1, NULL, 10);
    for (char *p = strchr(ids, '['); *p != ']' && n < 64; p++)
        if (*p == '[' || *p == ',')
            want[n++] = (int32_t)strtol(p + 1, NULL, 10);
    assert_int_equal(n, 64);
    infer_session *s = open_session_at(INFER_SOURCE_DIR "/models/tiny.gguf", INFER_NUMERICS_PRECISE, INFER_KV_F32);
    ok(infer_session_append_text(s, "Once upon a time", INFER_ZSTR, INFER_TOKENIZE_ADD_SPECIAL, &error));
    int32_t got[32];
    ok(infer_session_tokens(s, 0, (uint64_t)n_head, got, &error));
    assert_memory_equal(head, got, (size_t)n_head * sizeof *got);
    infer_step_item it;
    INFER_INIT(&it);
    it.session = s;
    ok(infer_step(&it, 1, NULL, &error));
    check_greedy(s, &(struct golden){.n_greedy = 64, .greedy = want});
    infer_session_release(s);
    free(json);
}

int main(void)
{
    struct CMUnitTest tests[96];
    size_t n = 0;
    for (size_t i = 0; golden_f32[i]; i++)
        tests[n++] = (struct CMUnitTest){golden_f32[i], test_f32, NULL, NULL, (void *)(uintptr_t)golden_f32[i]};
    for (size_t i = 0; golden_quantised[i]; i++)
        tests[n++] =
            (struct CMUnitTest){golden_quantised[i], test_quantised, NULL, NULL, (void *)(uintptr_t)golden_quantised[i]};
    tests[n++] = (struct CMUnitTest){"bundled model", test_tiny, NULL, NULL, NULL};
    tests[n++] = (struct CMUnitTest){"bits of numerics version 1", test_bits, NULL, NULL, NULL};
    return _cmocka_run_group_tests("golden", tests, n, NULL, NULL);
}
