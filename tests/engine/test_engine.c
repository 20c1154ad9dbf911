/* The library as a guest: failing allocations, no allocation per token, a host with odd floating-point settings, closed standard
 * streams, several threads, and a device whose memory nobody else can touch. */
#define _DEFAULT_SOURCE
#include "testutil.h"

#include <fcntl.h>
#include <fenv.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/engine.h"
#include "golden.h"
#include "infer/infer.h"
#include "ok.h"
#include "recording_device.h"

#define TINY INFER_SOURCE_DIR "/models/tiny.gguf"
#define CHAT "{\"messages\":[{\"role\":\"user\",\"content\":\"Tell me a tale.\"}],\"add_generation_prompt\":true}"

static infer_status engine_on(struct test_alloc *t, uint32_t threads, int32_t map, infer_engine **e, infer_model **m,
                              const char *path)
{
    infer_allocator a = test_infer_allocator(t);
    infer_engine_options o;
    infer_open_options oo;
    infer_source src;
    INFER_INIT(&o);
    INFER_INIT(&oo);
    o.allocator = &a; /* copied: may lie on the stack */
    o.threads = threads;
    oo.map = map;
    infer_status st = infer_engine_create(&o, e, &error);
    if (st != INFER_OK)
        return st;
    infer_source_path(&src, path, INFER_ZSTR);
    return infer_model_open(*e, &src, &oo, m, &error);
}

/* Open, render, tokenize, prefill, fork, generate, roll back, close. */
static infer_status scenario(struct test_alloc *t, char text[256])
{
    infer_engine *e = NULL;
    infer_model *m = NULL;
    infer_session *s = NULL, *f = NULL;
    char prompt[2048];
    uint64_t n = 0, len = 0;
    infer_event ev;
    infer_sampling sampling;
    infer_status st = engine_on(t, 1, INFER_MAP_READ, &e, &m, TINY);
    if (st == INFER_OK)
        st = infer_template_render(infer_model_template(m), CHAT, sizeof CHAT - 1, NULL, prompt, sizeof prompt, &n, &error);
    if (st == INFER_OK)
        st = infer_session_create(m, NULL, &s, &error);
    if (st == INFER_OK)
        st = infer_session_append_text(s, prompt, n, INFER_TOKENIZE_ADD_SPECIAL | INFER_TOKENIZE_PARSE_SPECIAL, &error);
    INFER_INIT(&sampling);
    if (st == INFER_OK)
        st = infer_sampling_default(&sampling, &error);
    sampling.top_logprobs = 2;
    if (st == INFER_OK)
        st = infer_session_set_sampling(s, &sampling, &error);
    if (st == INFER_OK)
        st = infer_session_append_chat(s, &(infer_message){"user", 4, "More.", 5}, 1, NULL, &error);
    if (st == INFER_OK)
        st = infer_session_fork(s, &f, &error);
    if (st == INFER_OK)
        st = infer_generate_begin(f, NULL, &error);
    for (int i = 0; st == INFER_OK && i < 12; i++) {
        INFER_INIT(&ev);
        st = infer_generate_next(f, &ev, NULL, &error);
        if (st == INFER_OK && len + ev.text_len < 255) {
            memcpy(text + len, ev.text, (size_t)ev.text_len);
            len += ev.text_len;
        }
        if (st == INFER_OK && ev.kind == INFER_EVENT_DONE)
            break;
    }
    text[len] = 0;
    if (st == INFER_OK)
        st = infer_session_truncate(f, 3, NULL, &error);
    infer_session_release(f);
    infer_model_release(m); /* in an order that a host may well take */
    infer_engine_release(e);
    infer_session_release(s);
    return st;
}

/* Messages become what the template and the tokenizer make of them. */
static void test_chat(void **state)
{
    (void)state;
    infer_model *m;
    infer_session *a, *b;
    infer_session_info ia, ib;
    infer_message talk[3] = {{"system", 6, "Be \"brief\".\n\x01", INFER_ZSTR}, {"user", INFER_ZSTR, "caf\xc3\xa9 \\", INFER_ZSTR},
                             {"user", 4, NULL, 0}};
    int32_t ids[2][256];
    char text[2048];
    uint64_t n;
    static const char json[] = "{\"messages\":[{\"role\":\"system\",\"content\":\"Be \\\"brief\\\".\\n\\u0001\"},"
                               "{\"role\":\"user\",\"content\":\"caf\xc3\xa9 \\\\\"},{\"role\":\"user\",\"content\":\"\"}],"
                               "\"add_generation_prompt\":true}";
    INFER_INIT(&error);
    ok(infer_model_open_path(NULL, TINY, &m, &error));
    ok(infer_session_create(m, NULL, &a, &error));
    ok(infer_session_create(m, NULL, &b, &error));
    ok(infer_session_append_chat(a, talk, 3, NULL, &error));
    ok(infer_template_render(infer_model_template(m), json, sizeof json - 1, NULL, text, sizeof text, &n, &error));
    ok(infer_session_append_text(b, text, n, INFER_TOKENIZE_ADD_SPECIAL | INFER_TOKENIZE_PARSE_SPECIAL, &error));
    INFER_INIT(&ia);
    INFER_INIT(&ib);
    ok(infer_session_get_info(a, &ia, &error));
    ok(infer_session_get_info(b, &ib, &error));
    assert_int_equal(ia.length, ib.length);
    assert_in_range(ia.length, 20, 256);
    ok(infer_session_tokens(a, 0, ia.length, ids[0], &error));
    ok(infer_session_tokens(b, 0, ib.length, ids[1], &error));
    assert_memory_equal(ids[0], ids[1], ia.length * sizeof ids[0][0]);
    talk[1].content = "\xff";
    assert_int_equal(infer_session_append_chat(a, talk, 3, NULL, &error), INFER_ERROR_ENCODING);
    assert_int_equal(infer_session_append_chat(a, NULL, 1, NULL, &error), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_session_append_chat(NULL, talk, 1, NULL, &error), INFER_ERROR_ARGUMENT);
    ok(infer_session_get_info(a, &ib, &error));
    assert_int_equal(ia.length, ib.length); /* nothing was appended */
    infer_session_release(a);
    infer_session_release(b);
    infer_model_release(m);
}

/* Every allocation of the scenario fails once: always an error, never a leak. */
static void test_every_allocation_fails(void **state)
{
    (void)state;
    struct test_alloc t = {0};
    char want[256], got[256];
    INFER_INIT(&error);
    ok(scenario(&t, want));
    assert_int_equal(t.live, 0);
    uint64_t total = t.calls;
    assert_true(total > 50);
    for (uint64_t k = 1; k <= total; k++) {
        for (int rest = 0; rest < 2; rest++) {
            t = (struct test_alloc){.fail_at = k, .fail_rest = rest};
            infer_status st = scenario(&t, got);
            /* without memory for it a fallback may stand in, but nothing is silently wrong */
            if (st != INFER_ERROR_NO_MEMORY && !(st == INFER_OK && !strcmp(want, got)))
                fail_msg("allocation %llu of %llu: %s, '%s'", (unsigned long long)k, (unsigned long long)total,
                         infer_status_name(st), error.text);
            if (t.live)
                fail_msg("allocation %llu: %lld blocks leak", (unsigned long long)k, (long long)t.live);
        }
    }
    t = (struct test_alloc){0};
    ok(scenario(&t, got));
    assert_string_equal(want, got);
    print_message("# each of %llu allocations failed, alone and with all later ones\n", (unsigned long long)total);
}

/* Within a page, decoding takes nothing from the allocator. */
static void test_no_allocation_per_token(void **state)
{
    (void)state;
    struct test_alloc t = {0};
    infer_engine *e;
    infer_model *m;
    infer_session *s;
    infer_event ev;
    INFER_INIT(&error);
    ok(engine_on(&t, 2, INFER_MAP_AUTO, &e, &m, TINY));
    ok(infer_session_create(m, NULL, &s, &error));
    ok(infer_session_append_text(s, "Once upon a time", INFER_ZSTR, INFER_TOKENIZE_ADD_SPECIAL, &error));
    infer_generate_options o;
    INFER_INIT(&o);
    o.flags = INFER_GENERATE_IGNORE_EOS;
    ok(infer_generate_begin(s, &o, &error));
    uint64_t before = 0;
    for (int i = 0; i < 50; i++) {
        INFER_INIT(&ev);
        ok(infer_generate_next(s, &ev, NULL, &error));
        if (i == 3)
            before = t.calls;
    }
    assert_int_equal(t.calls - before, 0);
    infer_session_release(s);
    infer_model_release(m);
    infer_engine_release(e);
    assert_int_equal(t.live, 0);
}

/* Logits of a short prompt. */
static void logits_of(const char *name, float *out, uint32_t n)
{
    infer_engine_options o;
    infer_engine *e;
    infer_model *m;
    infer_session *s;
    infer_step_item it;
    const float *row;
    const int32_t ids[] = {3, 14, 15, 92, 65, 35};
    INFER_INIT(&o);
    INFER_INIT(&error);
    o.threads = 2;
    ok(infer_engine_create(&o, &e, &error));
    ok(infer_model_open_path(e, fixture_path(name), &m, &error));
    ok(infer_session_create(m, NULL, &s, &error));
    ok(infer_session_append(s, ids, 6, &error));
    INFER_INIT(&it);
    it.session = s;
    ok(infer_step(&it, 1, NULL, &error));
    ok(infer_session_logits(s, 0, &row, NULL, &error));
    memcpy(out, row, n * sizeof *out);
    infer_session_release(s);
    infer_model_release(m);
    infer_engine_release(e);
}

#if defined(__SSE2__)
#include <xmmintrin.h>
static unsigned fp_get(void) { return _mm_getcsr() & 0xFFC0u; } /* without the sticky exception flags */
static void fp_set(unsigned v) { _mm_setcsr(v); }
static const unsigned fp_odd[] = {0x9FC0, 0x3F80, 0x5F80, 0xFFC0}; /* flush to zero, round down, up, all */
#elif defined(__aarch64__)
static unsigned fp_get(void)
{
    uint64_t v;
    __asm__ __volatile__("mrs %0, fpcr" : "=r"(v));
    return (unsigned)v;
}
static void fp_set(unsigned v)
{
    uint64_t w = v;
    __asm__ __volatile__("msr fpcr, %0" : : "r"(w));
}
static const unsigned fp_odd[] = {1u << 24, 1u << 22, 2u << 22, 1u << 24 | 3u << 22};
#endif

static void test_floating_point_guard(void **state)
{
    (void)state;
#if defined(__SSE2__) || defined(__aarch64__)
    float want[160], got[160];
    unsigned normal = fp_get();
    logits_of("llama", want, 160);
    for (size_t i = 0; i < sizeof fp_odd / sizeof *fp_odd; i++) {
        fp_set(fp_odd[i]);
        logits_of("llama", got, 160);
        unsigned after = fp_get();
        fp_set(normal);
        assert_int_equal(after, fp_odd[i]); /* the host's settings are as it left them */
        assert_memory_equal(want, got, sizeof want);
    }
#else
    skip();
#endif
}

/* Without standard streams: whatever the library opens or fails at, nothing lands in a host's file. */
static void test_closed_streams(void **state)
{
    (void)state;
    float want[160], got[160];
    int saved[3];
    logits_of("llama", want, 160);
    for (int i = 0; i < 3; i++) {
        saved[i] = fcntl(i, F_DUPFD, 100);
        close(i);
    }
    infer_model *m = NULL;
    infer_status missing = infer_model_open_path(NULL, "/nonexistent/x.gguf", &m, NULL);
    infer_status notgguf = infer_model_open_path(NULL, INFER_SOURCE_DIR "/LICENSE", &m, NULL);
    logits_of("llama", got, 160);
    for (int i = 0; i < 3; i++) {
        dup2(saved[i], i);
        close(saved[i]);
    }
    assert_int_equal(missing, INFER_ERROR_NOT_FOUND);
    assert_true(notgguf == INFER_ERROR_FORMAT);
    assert_memory_equal(want, got, sizeof want);
}

struct worker {
    infer_model *model;
    struct golden *g;
    uint64_t seed;
    int bad;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    infer_session *s, *f;
    for (int round = 0; round < 6; round++) {
        uint64_t cut = 1 + test_rand(&w->seed) % (w->g->n_prompt - 1);
        infer_event ev;
        infer_generate_options o;
        INFER_INIT(&o);
        o.max_tokens = 6;
        if (infer_session_create(w->model, NULL, &s, NULL) || infer_session_append(s, w->g->prompt, cut, NULL) ||
            infer_step(&(infer_step_item){.size = (uint32_t)sizeof(infer_step_item), .session = s}, 1, NULL, NULL) ||
            infer_session_fork(s, &f, NULL) ||
            infer_session_append(f, w->g->prompt + cut, w->g->n_prompt - cut, NULL) ||
            infer_generate_begin(f, &o, NULL)) {
            w->bad++;
            return NULL;
        }
        infer_session_release(s);
        for (uint32_t i = 0; i < 6;) {
            INFER_INIT(&ev);
            if (infer_generate_next(f, &ev, NULL, NULL)) {
                w->bad++;
                break;
            }
            if (ev.kind == INFER_EVENT_TOKEN)
                w->bad += ev.id != w->g->greedy[i++];
        }
        infer_session_release(f);
    }
    return NULL;
}

static void test_many_threads(void **state)
{
    (void)state;
#ifdef INFER_NO_THREADS
    skip(); /* such a build is for hosts with one thread */
#endif
    enum { N = 6 };
    struct golden g = golden_read("gemma3");
    pthread_t thread[N];
    struct worker w[N];
    infer_model *m;
    INFER_INIT(&error);
    ok(infer_model_open_path(NULL, fixture_path("gemma3"), &m, &error));
    for (int i = 0; i < N; i++) {
        w[i] = (struct worker){m, &g, (uint64_t)i + 1, 0};
        assert_int_equal(pthread_create(&thread[i], NULL, work, &w[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(w[i].bad, 0);
    }
    infer_model_release(m);
    golden_free(&g);
}

/* The model on a device whose buffers are opaque: every reference is checked, and the logits are the same. */
static void test_recording_device(void **state)
{
    (void)state;
    static const char *const names[] = {"llama", "llama-mix32", "gemma3", "gpt2", "mixtral", "qwen3moe-q4_k", "qwen2moe", "deepseek2-kv_b", "deepseek3", NULL};
    for (size_t k = 0; names[k]; k++) {
        struct golden g = golden_read(names[k]);
        struct test_alloc t = {0};
        struct env env = test_env_of(&t);
        struct device *cpu, *rec;
        infer_engine *e[2];
        float *out[2];
        struct cpu_device_options o = {INFER_CPU_AUTO, INFER_NUMERICS_EXACT, 1, NULL, NULL};
        INFER_INIT(&error);
        for (int i = 0; i < 2; i++) {
            infer_model *m;
            infer_session *s;
            infer_step_item it;
            infer_model_info info;
            const float *row;
            ok(cpu_device_create(&env.alloc, &o, &cpu, &error));
            rec = i ? recording_device_create(cpu) : cpu;
            assert_non_null(rec);
            ok(engine_create_on(&env, rec, 0, &e[i], &error));
            ok(infer_model_open_path(e[i], fixture_path(names[k]), &m, &error));
            INFER_INIT(&info);
            ok(infer_model_get_info(m, &info, &error));
            ok(infer_session_create(m, NULL, &s, &error));
            ok(infer_session_append(s, g.prompt, g.n_prompt, &error));
            INFER_INIT(&it);
            it.session = s;
            ok(infer_step(&it, 1, NULL, &error));
            ok(infer_session_logits(s, 0, &row, NULL, &error));
            out[i] = malloc(g.n_vocab * sizeof **out);
            memcpy(out[i], row, g.n_vocab * sizeof **out);
            if (i) {
                const struct recording *r = recording_of(rec);
                if (r->n_errors)
                    fail_msg("%s: %s", names[k], r->first_error);
                assert_true(r->n_calls > 20);
                assert_int_equal(recording_count(rec, "attention"), info.n_layer);
            }
            infer_session_release(s);
            infer_model_release(m);
            infer_engine_release(e[i]);
        }
        assert_memory_equal(out[0], out[1], g.n_vocab * sizeof **out);
        assert_int_equal(t.live, 0);
        free(out[0]);
        free(out[1]);
        golden_free(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chat),                   cmocka_unit_test(test_every_allocation_fails),
        cmocka_unit_test(test_no_allocation_per_token),
        cmocka_unit_test(test_floating_point_guard),   cmocka_unit_test(test_closed_streams),
        cmocka_unit_test(test_many_threads),           cmocka_unit_test(test_recording_device),
    };
    return cmocka_run_group_tests_name("engine", tests, NULL, NULL);
}
