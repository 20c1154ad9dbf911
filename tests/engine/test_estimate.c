/* What a model takes, estimated before it is opened and counted while it runs: sessions are filled to their last element and generate. The estimate is
 * never below, and with itself as the limit everything runs. */
#include "testutil.h"

#include <stdio.h>
#include <string.h>

#include "golden.h"
#include "infer/infer.h"
#include "ok.h"

#define TINY INFER_SOURCE_DIR "/models/tiny.gguf"
#define MAX_SESSIONS 8

struct trial {
    const char *path;
    int32_t kv_type;
    uint32_t n_ctx, sessions, threads, kv_recent;
    int32_t map, quantise;
    bool turns; /* sessions grow token by token, one after the other in turn, instead of by whole prompts */
};

static infer_estimate estimate_of(const struct trial *t)
{
    infer_source src;
    infer_open_options open;
    infer_estimate_options o;
    infer_estimate e;
    INFER_INIT(&error);
    INFER_INIT(&open);
    INFER_INIT(&o);
    INFER_INIT(&e);
    open.map = t->map;
    open.quantise = t->quantise;
    o.kv_type = t->kv_type;
    o.n_ctx = t->n_ctx;
    o.sessions = t->sessions;
    o.threads = t->threads;
    o.kv_recent = t->kv_recent;
    infer_source_path(&src, t->path, INFER_ZSTR);
    ok(infer_model_estimate(NULL, &src, &open, &o, &e, &error));
    return e;
}

static infer_model *open_trial(const struct trial *t, infer_engine *engine)
{
    infer_source src;
    infer_open_options open;
    infer_model *m;
    INFER_INIT(&open);
    open.map = t->map;
    open.quantise = t->quantise;
    infer_source_path(&src, t->path, INFER_ZSTR);
    ok(infer_model_open(engine, &src, &open, &m, &error));
    return m;
}

/* Sampling that uses every list there is. */
static void sample_all(infer_session *s)
{
    infer_sampling set;
    INFER_INIT(&set);
    set.temperature = 1.5f;
    set.typical_p = 0.9f;
    set.repetition_penalty = 1.1f;
    set.logprobs = 1;
    set.top_logprobs = 5;
    ok(infer_session_set_sampling(s, &set, &error));
}

static void append_some(infer_session *s, uint32_t n, uint32_t vocab)
{
    int32_t ids[256];
    for (uint32_t i = 0; i < n; i++)
        ids[i] = (int32_t)((i * 37 + n * 11) % vocab);
    ok(infer_session_append(s, ids, n, &error));
}

static void generate_to_end(infer_session *s)
{
    infer_generate_options g;
    infer_event ev;
    INFER_INIT(&g);
    INFER_INIT(&ev);
    g.flags = INFER_GENERATE_IGNORE_EOS;
    ok(infer_generate_begin(s, &g, &error));
    do
        ok(infer_generate_next(s, &ev, NULL, &error));
    while (ev.kind != INFER_EVENT_DONE);
    assert_int_equal(ev.finish_reason, INFER_FINISH_CONTEXT);
}

/* All sessions, to their last element. */
static void fill(const struct trial *t, infer_session **s, uint32_t vocab)
{
    uint32_t prompt = t->n_ctx > 24 ? t->n_ctx - 20 : t->n_ctx / 2;
    infer_step_item it[MAX_SESSIONS];
    if (t->turns)
        for (uint32_t n = 0; n < prompt; n++) {
            for (uint32_t i = 0; i < t->sessions; i++) {
                append_some(s[i], 1, vocab);
                INFER_INIT(&it[i]);
                it[i].session = s[i];
            }
            ok(infer_step(it, t->sessions, NULL, &error));
        }
    for (uint32_t i = 0; i < t->sessions; i++) {
        for (uint32_t n = 0, k; !t->turns && n < prompt; n += k) {
            k = prompt - n < 200 ? prompt - n : 200;
            append_some(s[i], k, vocab);
        }
        sample_all(s[i]);
        generate_to_end(s[i]);
    }
}

static infer_engine_info info_of(infer_engine *e)
{
    infer_engine_info i;
    INFER_INIT(&i);
    ok(infer_engine_get_info(e, &i, &error));
    return i;
}

/* Opens, fills and gives back; the peak, which both the library and the host have counted. limit: memory_limit. */
static uint64_t peak_of(const struct trial *t, uint64_t limit)
{
    struct test_alloc count = {0};
    infer_allocator a = test_infer_allocator(&count);
    infer_engine_options o;
    infer_engine *engine;
    infer_model_info mi;
    infer_session *s[MAX_SESSIONS];
    infer_session_options so;
    INFER_INIT(&error);
    INFER_INIT(&o);
    INFER_INIT(&mi);
    INFER_INIT(&so);
    o.allocator = &a;
    o.threads = t->threads;
    o.memory_limit = limit;
    so.kv_type = t->kv_type;
    so.n_ctx = t->n_ctx;
    so.kv_recent = t->kv_recent;
    ok(infer_engine_create(&o, &engine, &error));
    uint64_t at_first = info_of(engine).memory_bytes;
    infer_model *m = open_trial(t, engine);
    ok(infer_model_get_info(m, &mi, &error));
    for (uint32_t i = 0; i < t->sessions; i++)
        ok(infer_session_create(m, &so, &s[i], &error));
    fill(t, s, mi.vocab_size < 100 ? mi.vocab_size : 100);
    for (uint32_t i = 0; i < t->sessions; i++)
        infer_session_release(s[i]);
    infer_model_release(m);
    infer_engine_info end = info_of(engine);
    assert_int_equal(end.memory_limit, limit);
    assert_int_equal(end.memory_bytes, count.live_bytes);
    assert_int_equal(end.memory_peak, count.peak_bytes);
    assert_int_equal(end.kv_bytes, 0);
    assert_true(end.memory_bytes >= at_first);
    infer_engine_release(engine);
    assert_int_equal(count.live, 0);
    assert_int_equal(count.live_bytes, 0);
    return end.memory_peak;
}

/* Returns the peak in per cent of the estimate. */
static double check(const struct trial *t)
{
    infer_estimate e = estimate_of(t);
    uint64_t peak = peak_of(t, e.memory_bytes); /* nothing is refused */
    double share = 100.0 * (double)peak / (double)e.memory_bytes;
    const char *name = strrchr(t->path, '/') + 1;
    assert_int_equal(e.total_bytes, e.mapped_bytes + e.memory_bytes);
    assert_true(e.memory_bytes >= e.own_bytes + e.kv_bytes + e.scratch_bytes);
    assert_true(e.memory_bytes >= e.open_bytes);
    print_message("%-24s kv %d ctx %5u x%u threads %u%s: %9llu of %9llu (own %llu kv %llu scratch %llu open %llu): %.0f %%\n", name, (int)t->kv_type, t->n_ctx, t->sessions,
                  t->threads, t->turns ? " turns" : "", (unsigned long long)peak, (unsigned long long)e.memory_bytes,
                  (unsigned long long)e.own_bytes, (unsigned long long)e.kv_bytes, (unsigned long long)e.scratch_bytes, (unsigned long long)e.open_bytes, share);
    if (peak > e.memory_bytes)
        fail_msg("%s: the estimate is %llu bytes too low", name, (unsigned long long)(peak - e.memory_bytes));
    return share;
}

static void test_upper_bound(void **state)
{
    static const char *const names[] = {"llama", "gemma3", "gemma2", "gpt2", "qwen3moe", "deepseek2", "deepseek2-kv_b", "phi3", "starcoder2", "llama-q4_0", "mixtral"};
    static const uint32_t sessions[] = {1, 3}, threads[] = {1, 2, 4};
    (void)state;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        for (uint32_t i = 0; i < 6; i++) {
            struct trial t = {.path = fixture_path(names[n]), .kv_type = (int32_t)(n + i) % 7, .n_ctx = 96, .sessions = sessions[i % 2],
                              .threads = threads[i % 3], .turns = i >= 3};
            check(&t);
        }
}

static void test_tiny(void **state)
{
    (void)state;
    for (int32_t kv = INFER_KV_F16; kv <= INFER_KV_MIXED_F32; kv++)
        for (uint32_t i = 0; i < 4; i++) {
            struct trial t = {.path = TINY, .kv_type = kv, .n_ctx = i < 2 ? 512 : 1500, .sessions = i % 2 ? 3 : 1, .threads = 1u << (i + (uint32_t)kv) % 3, .turns = kv % 2};
            check(&t);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_upper_bound), cmocka_unit_test(test_tiny)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
