/* Sessions as a host sees them: limits, steps, cancellation, generation events, bad arguments (hostile inputs N17 to N19, N31). */
#include "testutil.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "infer/infer.h"
#include "ok.h"

static infer_engine *engine;
static infer_model *model;
static struct golden g;

static int setup(void **state)
{
    (void)state;
    infer_engine_options o;
    INFER_INIT(&error);
    INFER_INIT(&o);
    o.threads = 2;
    g = golden_read("llama");
    ok(infer_engine_create(&o, &engine, &error));
    ok(infer_model_open_path(engine, fixture_path("llama"), &model, &error));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    infer_model_release(model);
    infer_engine_release(engine);
    golden_free(&g);
    return 0;
}

static infer_session *session_of(uint32_t n_ctx)
{
    infer_session *s;
    infer_session_options o;
    INFER_INIT(&o);
    o.n_ctx = n_ctx;
    ok(infer_session_create(model, &o, &s, &error));
    return s;
}

static infer_session_info info_of(const infer_session *s)
{
    infer_session_info i;
    INFER_INIT(&i);
    ok(infer_session_get_info(s, &i, &error));
    return i;
}

static infer_status step_one(infer_session *s, int32_t logits, uint64_t max, infer_cancel *cancel, uint64_t *done)
{
    infer_step_item it;
    INFER_INIT(&it);
    it.session = s;
    it.logits = logits;
    it.max_elements = max;
    infer_status st = infer_step(&it, 1, cancel, &error);
    assert_int_equal(st, it.status);
    if (done)
        *done = it.done;
    return st;
}

static void test_context_limits(void **state)
{
    (void)state;
    infer_session *s = session_of(10);
    ok(infer_session_append(s, g.prompt, 8, &error));
    assert_int_equal(infer_session_append(s, g.prompt, 3, &error), INFER_ERROR_CONTEXT_FULL);
    assert_non_null(strstr(error.text, "10"));
    assert_int_equal(info_of(s).length, 8);
    assert_int_equal(infer_session_truncate(s, 9, NULL, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_session_truncate(s, UINT64_MAX, NULL, NULL), INFER_ERROR_ARGUMENT);
    ok(infer_session_truncate(s, 8, NULL, &error));
    ok(infer_session_append(s, g.prompt, 2, &error));
    ok(step_one(s, INFER_ROWS_LAST, 0, NULL, NULL));
    infer_event ev;
    INFER_INIT(&ev);
    ok(infer_generate_begin(s, NULL, &error));
    ok(infer_generate_next(s, &ev, NULL, &error)); /* the context is full from the start */
    assert_int_equal(ev.kind, INFER_EVENT_DONE);
    assert_int_equal(ev.finish_reason, INFER_FINISH_CONTEXT);
    infer_session_release(s);
}

static void test_bad_ids(void **state)
{
    (void)state;
    infer_session *s = session_of(0);
    const int32_t bad[] = {-1, (int32_t)g.n_vocab, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 4; i++) {
        int32_t ids[3] = {1, bad[i], 2};
        assert_int_equal(infer_session_append(s, ids, 3, &error), INFER_ERROR_TOKEN);
        assert_int_equal(info_of(s).length, 0);
    }
    int32_t ids[2] = {1, 2};
    assert_int_equal(infer_session_append(s, ids, UINT64_MAX, &error), INFER_ERROR_CONTEXT_FULL); /* none is read */
    assert_int_equal(infer_session_tokens(s, 0, 1, ids, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_session_tokens(s, UINT64_MAX, 2, ids, NULL), INFER_ERROR_ARGUMENT);
    infer_session_release(s);
}

static void test_logits_choices(void **state)
{
    (void)state;
    infer_session *s = session_of(0);
    const float *row;
    uint64_t pos, done;
    assert_int_equal(infer_session_logits(s, 0, &row, &pos, NULL), INFER_ERROR_STATE);
    ok(infer_session_append(s, g.prompt, 20, &error));
    ok(step_one(s, INFER_ROWS_LAST, 5, NULL, &done)); /* not the last pending one: no logits */
    assert_int_equal(done, 5);
    assert_int_equal(info_of(s).logits_rows, 0);
    ok(step_one(s, INFER_ROWS_NONE, 5, NULL, &done));
    assert_int_equal(info_of(s).computed, 10);
    uint8_t mask[10] = {0, 1, 0, 0, 1, 1, 0, 0, 0, 0};
    infer_step_item it;
    INFER_INIT(&it);
    it.session = s;
    it.logits = INFER_ROWS_MASK;
    assert_int_equal(infer_step(&it, 1, NULL, NULL), INFER_ERROR_ARGUMENT); /* no mask */
    it.mask = mask;
    ok(infer_step(&it, 1, NULL, &error));
    assert_int_equal(info_of(s).logits_rows, 3);
    static const uint64_t want[] = {11, 14, 15};
    for (uint64_t r = 0; r < 3; r++) {
        ok(infer_session_logits(s, r, &row, &pos, &error));
        assert_int_equal(pos, want[r]);
    }
    assert_int_equal(infer_session_logits(s, 3, &row, &pos, NULL), INFER_ERROR_ARGUMENT);
    ok(infer_session_append(s, g.prompt, 1, &error));
    ok(step_one(s, INFER_ROWS_LAST, 0, NULL, NULL));
    ok(infer_session_logits(s, 0, &row, &pos, &error));
    assert_int_equal(pos, 20);
    float kept = row[3];
    ok(step_one(s, INFER_ROWS_LAST, 0, NULL, &done)); /* nothing pending: logits stay */
    assert_int_equal(done, 0);
    ok(infer_session_logits(s, 0, &row, &pos, &error));
    assert_memory_equal(&kept, &row[3], sizeof kept);
    ok(infer_session_truncate(s, 21, NULL, &error)); /* rolled back to where it is: a step gives the logits again */
    assert_int_equal(infer_session_logits(s, 0, &row, &pos, NULL), INFER_ERROR_STATE);
    ok(step_one(s, INFER_ROWS_LAST, 0, NULL, &done));
    assert_int_equal(done, 1);
    ok(infer_session_logits(s, 0, &row, &pos, &error));
    assert_int_equal(pos, 20);
    assert_memory_equal(&kept, &row[3], sizeof kept);
    infer_session_release(s);
}

static void test_cancel(void **state)
{
    (void)state;
    infer_session *s = session_of(0), *t = session_of(0);
    infer_cancel *c;
    uint64_t done;
    const float *a, *b;
    ok(infer_cancel_create(&c, &error));
    ok(infer_session_append(s, g.prompt, g.n_prompt, &error));
    ok(infer_session_append(t, g.prompt, g.n_prompt, &error));
    infer_cancel_set(c);
    assert_int_equal(step_one(s, INFER_ROWS_LAST, 0, c, &done), INFER_ERROR_CANCELLED);
    assert_int_equal(done, 0);
    assert_int_equal(info_of(s).computed, 0);
    assert_int_equal(info_of(s).length, g.n_prompt);
    infer_event ev;
    INFER_INIT(&ev);
    ok(infer_generate_begin(s, NULL, &error));
    assert_int_equal(infer_generate_next(s, &ev, c, NULL), INFER_ERROR_CANCELLED);
    infer_cancel_clear(c);
    ok(infer_generate_next(s, &ev, c, &error)); /* may be repeated */
    assert_int_equal(ev.kind, INFER_EVENT_PREFILL);
    assert_int_equal(ev.done, ev.total);
    ok(step_one(t, INFER_ROWS_LAST, 0, NULL, NULL));
    ok(infer_session_logits(s, 0, &a, NULL, &error));
    ok(infer_session_logits(t, 0, &b, NULL, &error));
    assert_memory_equal(a, b, g.n_vocab * sizeof *a);
    infer_source src;
    infer_open_options oo;
    infer_model *m = NULL;
    INFER_INIT(&oo);
    oo.cancel = c;
    infer_cancel_set(c);
    infer_source_path(&src, fixture_path("llama"), INFER_ZSTR);
    assert_int_equal(infer_model_open(engine, &src, &oo, &m, NULL), INFER_ERROR_CANCELLED);
    assert_null(m);
    infer_cancel_release(c);
    infer_session_release(s);
    infer_session_release(t);
}

static void test_step_arguments(void **state)
{
    (void)state;
    infer_session *s = session_of(0);
    infer_model *other;
    infer_session *o;
    infer_step_item it[2];
    ok(infer_model_open_path(engine, fixture_path("qwen2"), &other, &error));
    ok(infer_session_create(other, NULL, &o, &error));
    INFER_INIT(&it[0]);
    INFER_INIT(&it[1]);
    it[0].session = it[1].session = s;
    assert_int_equal(infer_step(it, 2, NULL, &error), INFER_ERROR_ARGUMENT); /* twice */
    it[1].session = o;
    assert_int_equal(infer_step(it, 2, NULL, &error), INFER_ERROR_ARGUMENT); /* two models */
    it[1].session = NULL;
    assert_int_equal(infer_step(it, 2, NULL, &error), INFER_ERROR_ARGUMENT);
    it[1] = it[0];
    it[0].logits = 77;
    assert_int_equal(infer_step(it, 1, NULL, &error), INFER_ERROR_ARGUMENT);
    assert_string_equal(error.name, "logits");
    it[1].size = (uint32_t)offsetof(infer_step_item, hidden) - 1; /* shorter than it ever was */
    assert_int_equal(infer_step(it + 1, 1, NULL, &error), INFER_ERROR_ARGUMENT);
    it[0] = it[1] = (infer_step_item){.size = (uint32_t)sizeof it[0] + 1, .session = s}; /* would put the second one askew */
    assert_int_equal(infer_step(it, 2, NULL, &error), INFER_ERROR_ARGUMENT);
    assert_string_equal(error.name, "size");
    assert_int_equal(infer_step(NULL, 1, NULL, &error), INFER_ERROR_ARGUMENT);
    ok(infer_step(NULL, 0, NULL, &error));
    infer_session_release(o);
    infer_model_release(other);
    infer_session_release(s);
}

/* More sessions than a batch has rows. */
static void test_many_sessions(void **state)
{
    (void)state;
    enum { N = 300 };
    static infer_session *s[N];
    static infer_step_item it[N];
    const float *first = NULL, *row;
    for (int i = 0; i < N; i++) {
        s[i] = session_of(8);
        ok(infer_session_append(s[i], g.prompt, 3, &error));
        INFER_INIT(&it[i]);
        it[i].session = s[i];
    }
    ok(infer_step(it, N, NULL, &error));
    for (int i = 0; i < N; i++) {
        assert_int_equal(it[i].done, 3);
        ok(infer_session_logits(s[i], 0, &row, NULL, &error));
        first = first ? first : row;
        assert_memory_equal(first, row, g.n_vocab * sizeof *row);
    }
    for (int i = 0; i < N; i++)
        infer_session_release(s[i]);
}

static void test_kv_budget(void **state)
{
    (void)state;
    infer_engine_options o;
    infer_engine *e;
    infer_model *m;
    infer_session *s, *t;
    infer_engine_info ei;
    INFER_INIT(&o);
    o.kv_budget = 2 * 64 * 1024; /* the fixture's page is 32 KiB: 3 layers, 2 heads of 16, f16 */
    o.threads = 1;
    ok(infer_engine_create(&o, &e, &error));
    ok(infer_model_open_path(e, fixture_path("llama"), &m, &error));
    ok(infer_session_create(m, NULL, &s, &error));
    ok(infer_session_create(m, NULL, &t, &error));
    ok(infer_session_append(s, g.prompt, g.n_prompt, &error));
    ok(step_one(s, INFER_ROWS_LAST, 0, NULL, NULL));
    uint64_t appended = 0, computed;
    infer_status st = INFER_OK;
    for (int i = 0; i < 20 && st == INFER_OK; i++) {
        ok(infer_session_append(t, g.prompt, 40, &error));
        appended += 40;
        computed = info_of(t).computed;
        st = step_one(t, INFER_ROWS_LAST, 0, NULL, NULL);
    }
    assert_int_equal(st, INFER_ERROR_LIMIT);
    assert_int_equal(info_of(t).computed, computed);
    assert_int_equal(info_of(t).length, appended);
    INFER_INIT(&ei);
    ok(infer_engine_get_info(e, &ei, &error));
    assert_true(ei.kv_bytes <= o.kv_budget && ei.kv_bytes > 0);
    infer_session_release(s); /* makes room */
    ok(step_one(t, INFER_ROWS_LAST, 0, NULL, NULL));
    infer_session_release(t);
    infer_model_release(m);
    infer_engine_release(e);
}

struct seen {
    int tokens, prefills, done, stop_after, stop_at_done;
    infer_session *release;
};

static int32_t on_event(void *user, const infer_event *ev)
{
    struct seen *seen = user;
    seen->tokens += ev->kind == INFER_EVENT_TOKEN;
    seen->prefills += ev->kind == INFER_EVENT_PREFILL;
    seen->done += ev->kind == INFER_EVENT_DONE;
    if (seen->release) {
        infer_session_release(seen->release); /* its own handle */
        seen->release = NULL;
    }
    return (seen->stop_after && seen->tokens >= seen->stop_after) || (seen->stop_at_done && ev->kind == INFER_EVENT_DONE);
}

static void test_generate_callback(void **state)
{
    (void)state;
    infer_session *s = session_of(0);
    struct seen seen = {0};
    infer_generate_options o;
    INFER_INIT(&o);
    o.max_tokens = 5;
    assert_int_equal(infer_generate(s, &o, on_event, &seen, NULL, NULL), INFER_ERROR_STATE); /* empty */
    assert_int_equal(infer_generate(s, &o, NULL, &seen, NULL, NULL), INFER_ERROR_ARGUMENT);
    ok(infer_session_append(s, g.prompt, 7, &error));
    ok(infer_generate(s, &o, on_event, &seen, NULL, &error));
    assert_int_equal(seen.tokens, 5);
    assert_int_equal(seen.prefills, 1);
    assert_int_equal(seen.done, 1);
    seen = (struct seen){.stop_after = 2};
    assert_int_equal(infer_generate(s, &o, on_event, &seen, NULL, NULL), INFER_ERROR_CANCELLED);
    assert_int_equal(seen.tokens, 2);
    infer_event event; /* the same answer goes on */
    INFER_INIT(&event);
    ok(infer_generate_next(s, &event, NULL, &error));
    assert_int_equal(event.kind, INFER_EVENT_TOKEN);
    seen = (struct seen){.stop_at_done = 1}; /* it is told all the same, and the answer has ended */
    assert_int_equal(infer_generate(s, &o, on_event, &seen, NULL, &error), INFER_ERROR_CANCELLED);
    assert_int_equal(error.code, INFER_ERROR_CANCELLED);
    assert_true(seen.tokens == 5 && seen.done == 1);
    assert_int_equal(infer_generate_next(s, &event, NULL, &error), INFER_ERROR_STATE);
    seen = (struct seen){.release = s};
    ok(infer_generate(s, &o, on_event, &seen, NULL, &error));
    assert_int_equal(seen.done, 1);
}

/* The next token follows from the last element, whatever logits the host's steps asked for. */
static void test_generate_after_steps(void **state)
{
    (void)state;
    int32_t want = -1;
    uint8_t mask[12] = {1};
    for (int round = 0; round < 5; round++) {
        infer_session *s = session_of(0);
        infer_step_item it;
        infer_event ev;
        ok(infer_session_append(s, g.prompt, 12, &error));
        INFER_INIT(&it);
        it.session = s;
        it.mask = mask;
        it.logits = round == 1 || round == 3 ? INFER_ROWS_MASK : INFER_ROWS_NONE;
        if (round == 1 || round == 2)
            ok(infer_step(&it, 1, NULL, &error));
        ok(infer_generate_begin(s, NULL, &error));
        if (round >= 3)
            ok(infer_step(&it, 1, NULL, &error));
        do {
            INFER_INIT(&ev);
            ok(infer_generate_next(s, &ev, NULL, &error));
        } while (ev.kind == INFER_EVENT_PREFILL);
        assert_int_equal(ev.kind, INFER_EVENT_TOKEN);
        want = round ? want : ev.id;
        assert_int_equal(ev.id, want);
        infer_session_release(s);
    }
}

/* What was rolled back is generated again: sampling is a function of seed and position. */
static void test_sampling_replays(void **state)
{
    (void)state;
    infer_session *s = session_of(0), *f;
    infer_sampling sampling;
    int32_t first[20], again[20];
    infer_event ev;
    INFER_INIT(&sampling);
    sampling.temperature = 1.5f;
    sampling.seed = 42;
    sampling.logprobs = 1;
    sampling.top_logprobs = 3;
    ok(infer_session_set_sampling(s, &sampling, &error));
    ok(infer_session_append(s, g.prompt, 30, &error));
    for (int round = 0; round < 3; round++) {
        infer_session *t = s;
        if (round == 1)
            ok(infer_session_truncate(s, 30, NULL, &error)); /* all computed: the last one is computed again */
        if (round == 2) {
            ok(infer_session_truncate(s, 25, NULL, &error));
            ok(infer_session_append(s, g.prompt + 25, 5, &error));
            ok(infer_session_fork(s, &f, &error));
            t = f;
        }
        ok(infer_generate_begin(t, NULL, &error));
        for (int i = 0; i < 20;) {
            INFER_INIT(&ev);
            ok(infer_generate_next(t, &ev, NULL, &error));
            if (ev.kind != INFER_EVENT_TOKEN)
                continue;
            (round ? again : first)[i++] = ev.id;
            assert_true(ev.logprob <= 0);
            assert_int_equal(ev.top_count, 3);
            assert_true(ev.top[0].logprob >= ev.top[1].logprob && ev.top[0].logprob >= ev.logprob);
        }
        if (round)
            assert_memory_equal(first, again, sizeof first);
    }
    infer_session_release(f);
    infer_session_release(s);
}

static void test_bad_options(void **state)
{
    (void)state;
    infer_session_options so;
    infer_session *s = NULL;
    infer_engine_options eo;
    infer_engine *e = NULL;
    INFER_INIT(&so);
    so.kv_type = 99;
    assert_int_equal(infer_session_create(model, &so, &s, &error), INFER_ERROR_ARGUMENT);
    assert_string_equal(error.name, "kv_type");
    INFER_INIT(&so);
    so.n_ctx = UINT32_MAX;
    assert_int_equal(infer_session_create(model, &so, &s, &error), INFER_ERROR_ARGUMENT);
    INFER_INIT(&so);
    so.size = 3;
    assert_int_equal(infer_session_create(model, &so, &s, &error), INFER_ERROR_ARGUMENT);
    struct {
        infer_session_options known;
        char more[16];
    } longer;
    infer_init(&longer, (uint32_t)sizeof longer);
    longer.more[15] = 1; /* a field from the future that is set */
    assert_int_equal(infer_session_create(model, (void *)&longer, &s, &error), INFER_ERROR_ARGUMENT);
    longer.more[15] = 0;
    ok(infer_session_create(model, (void *)&longer, &s, &error));
    infer_session_release(s);
    s = NULL;
    assert_int_equal(infer_session_create(NULL, NULL, &s, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_session_create(model, NULL, NULL, NULL), INFER_ERROR_ARGUMENT);
    assert_null(s);
    const int32_t bad_cpu[] = {-1, 5, 1000};
    for (int i = 0; i < 3; i++) {
        INFER_INIT(&eo);
        eo.cpu = bad_cpu[i];
        assert_true(infer_engine_create(&eo, &e, &error) < 0);
    }
    INFER_INIT(&eo);
    eo.threads = 257;
    assert_int_equal(infer_engine_create(&eo, &e, &error), INFER_ERROR_ARGUMENT);
    INFER_INIT(&eo);
    eo.numerics = 9;
    assert_int_equal(infer_engine_create(&eo, &e, &error), INFER_ERROR_ARGUMENT);
    INFER_INIT(&eo);
    eo.log_level = 9;
    assert_int_equal(infer_engine_create(&eo, &e, &error), INFER_ERROR_ARGUMENT);
    infer_allocator half = {.size = (uint32_t)sizeof half};
    INFER_INIT(&eo);
    eo.allocator = &half;
    assert_int_equal(infer_engine_create(&eo, &e, &error), INFER_ERROR_ARGUMENT);
    assert_null(e);
}

static void test_bad_sampling(void **state)
{
    (void)state;
    infer_session *s = session_of(0);
    infer_sampling good, bad;
    INFER_INIT(&good);
    ok(infer_sampling_default(&good, &error));
    ok(infer_session_set_sampling(s, &good, &error));
    float *const fields[] = {&bad.temperature, &bad.top_p, &bad.min_p, &bad.typical_p, &bad.repetition_penalty,
                             &bad.presence_penalty, &bad.frequency_penalty};
    const float values[] = {NAN, INFINITY, -INFINITY};
    for (size_t f = 0; f < sizeof fields / sizeof *fields; f++)
        for (size_t v = 0; v < 3; v++) {
            bad = good;
            *fields[f] = values[v];
            assert_int_equal(infer_session_set_sampling(s, &bad, &error), INFER_ERROR_ARGUMENT);
            assert_true(error.name[0]);
        }
    infer_bias bias = {(int32_t)g.n_vocab, 1.0f};
    bad = good;
    bad.bias = &bias;
    bad.bias_count = 1;
    assert_int_equal(infer_session_set_sampling(s, &bad, &error), INFER_ERROR_TOKEN);
    infer_sample_result r;
    INFER_INIT(&r);
    assert_int_equal(infer_session_sample(s, &r, &error), INFER_ERROR_STATE);
    infer_session_release(s);
}

/* Null handles are refused or ignored, never followed. */
static void test_null_handles(void **state)
{
    (void)state;
    infer_session_info si;
    infer_model_info mi;
    infer_engine_info ei;
    infer_event ev;
    INFER_INIT(&si);
    INFER_INIT(&mi);
    INFER_INIT(&ei);
    INFER_INIT(&ev);
    infer_session_release(NULL);
    infer_model_release(NULL);
    infer_engine_release(NULL);
    infer_cancel_release(NULL);
    assert_null(infer_session_ref(NULL));
    assert_null(infer_model_ref(NULL));
    assert_null(infer_engine_ref(NULL));
    assert_null(infer_model_tokenizer(NULL));
    assert_null(infer_session_model(NULL));
    assert_int_equal(infer_session_get_info(NULL, &si, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_model_get_info(NULL, &mi, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_engine_get_info(NULL, &ei, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_session_append(NULL, NULL, 0, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_session_append_rows(NULL, NULL, NULL, 0, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_session_truncate(NULL, 0, NULL, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_session_fork(NULL, NULL, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_generate_begin(NULL, NULL, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_generate_next(NULL, &ev, NULL, NULL), INFER_ERROR_ARGUMENT);
    infer_session *s = session_of(0);
    assert_int_equal(infer_session_append(s, NULL, 1, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_session_append_rows(s, NULL, NULL, 1, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_session_get_info(s, NULL, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_session_logits(s, 0, NULL, NULL, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_session_append_text(s, "x", 1, 0, NULL), INFER_ERROR_STATE); /* the fixture has no tokenizer */
    infer_session_release(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_context_limits),   cmocka_unit_test(test_bad_ids),
        cmocka_unit_test(test_logits_choices),   cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_step_arguments),   cmocka_unit_test(test_many_sessions),
        cmocka_unit_test(test_kv_budget),        cmocka_unit_test(test_generate_callback),
        cmocka_unit_test(test_generate_after_steps),
        cmocka_unit_test(test_sampling_replays), cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_bad_sampling),     cmocka_unit_test(test_null_handles),
    };
    return cmocka_run_group_tests_name("session", tests, setup, teardown);
}
