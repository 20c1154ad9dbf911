/* What tests of the scheduler share: cases made from a number, their answer by a session alone, and what a request was told. */
#ifndef SCHED_UTIL_H
#define SCHED_UTIL_H

#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "infer/scheduler.h"
#include "ok.h"

#define SCHED_TINY INFER_SOURCE_DIR "/models/tiny.gguf"
#define SCHED_TOKENS 64
#define SCHED_PROMPT 400

struct sched_case {
    int32_t ids[SCHED_PROMPT];
    uint64_t n_ids;
    infer_sampling sampling;
    infer_generate_options generate;
    infer_session_options session;
    uint32_t n, flags;
    int32_t priority;
    uint64_t client, time_limit;
    infer_adapter *adapter;
    float scale;
};

/* What one choice was told. */
struct sched_answer {
    int32_t ids[SCHED_TOKENS];
    float logprobs[SCHED_TOKENS];
    infer_logprob top[SCHED_TOKENS][4];
    uint64_t n, text_len;
    char text[16384];
    int32_t reason, status;
    int started, done, ended; /* how often */
    uint64_t prompt_done, prompt_total;
    int32_t told[SCHED_PROMPT];
    float told_logprobs[SCHED_PROMPT];
    infer_logprob told_top[SCHED_PROMPT];
    char told_text[8192];
    uint64_t n_told, told_len;
    /* what the callback does in between */
    uint64_t cancel_after; /* tokens; 0: never */
    int *order, at;        /* where the order of ends is noted: order[0] of them, then each one's `at` */
};

static inline infer_model *sched_model_of(const char *path, uint32_t threads, uint64_t cache_bytes, uint64_t kv_budget)
{
    infer_engine_options eo;
    infer_engine *engine;
    infer_model *model;
    INFER_INIT(&error);
    INFER_INIT(&eo);
    eo.threads = threads;
    eo.cache_bytes = cache_bytes;
    eo.kv_budget = kv_budget;
    ok(infer_engine_create(&eo, &engine, &error));
    ok(infer_model_open_path(engine, path, &model, &error));
    infer_engine_release(engine);
    return model;
}

static inline infer_model *sched_model(uint64_t cache_bytes, uint64_t kv_budget)
{
    return sched_model_of(SCHED_TINY, 1, cache_bytes, kv_budget);
}

/* Case number k: prompts of 1 to 300 tokens of which every other shares its beginning with others, all kinds of sampling. */
static inline void sched_case_of(struct sched_case *c, uint32_t k, uint32_t n_vocab)
{
    uint64_t seed = 0x9E3779B97F4A7C15u * (k + 1), shared = 77;
    memset(c, 0, sizeof *c);
    INFER_INIT(&c->sampling);
    INFER_INIT(&c->generate);
    INFER_INIT(&c->session);
    c->n_ids = 1 + test_rand(&seed) % 300;
    for (uint64_t i = 0; i < c->n_ids; i++)
        c->ids[i] = (int32_t)(test_rand(k % 2 && i < 150 ? &shared : &seed) % n_vocab);
    c->generate.max_tokens = 1 + test_rand(&seed) % 24;
    c->flags = k % 3 ? INFER_REQUEST_IGNORE_EOS : 0;
    c->sampling.seed = k;
    c->sampling.logprobs = k % 4 != 0;
    c->sampling.top_logprobs = k % 4 == 1 ? 4 : 0;
    if (k % 5) {
        c->sampling.temperature = 0.8f;
        c->sampling.top_k = k % 2 ? 40 : 0;
        c->sampling.top_p = 0.95f;
        c->sampling.presence_penalty = k % 7 ? 0 : 0.5f;
    }
    c->n = 1;
}

static inline void sched_note(struct sched_answer *a, int32_t id, const char *text, uint64_t len, float logprob, const infer_logprob *top, uint32_t n_top)
{
    assert_true(a->text_len + len < sizeof a->text);
    memcpy(a->text + a->text_len, text, (size_t)len);
    a->text_len += len;
    if (id < 0)
        return;
    assert_true(a->n < SCHED_TOKENS && n_top <= 4);
    a->ids[a->n] = id;
    a->logprobs[a->n] = logprob;
    for (uint32_t i = 0; i < n_top; i++)
        a->top[a->n][i] = top[i];
    a->n++;
}

/* The answer of choice `choice` by a session that nobody else uses. */
static inline void sched_alone(infer_model *model, const struct sched_case *c, uint32_t choice, struct sched_answer *a)
{
    infer_session *s;
    infer_event ev;
    infer_sampling sampling = c->sampling;
    infer_generate_options g = c->generate;
    memset(a, 0, sizeof *a);
    sampling.seed += choice;
    g.flags = c->flags & INFER_REQUEST_IGNORE_EOS ? INFER_GENERATE_IGNORE_EOS : 0;
    ok(infer_session_create(model, &c->session, &s, &error));
    if (c->adapter) {
        infer_adapter_use u;
        INFER_INIT(&u);
        u.adapter = c->adapter;
        u.scale = c->scale;
        ok(infer_session_set_adapters(s, &u, 1, &error));
    }
    ok(infer_session_append(s, c->ids, c->n_ids, &error));
    ok(infer_session_set_sampling(s, &sampling, &error));
    ok(infer_generate_begin(s, &g, &error));
    INFER_INIT(&ev);
    do {
        ok(infer_generate_next(s, &ev, NULL, &error));
        if (ev.kind != INFER_EVENT_PREFILL)
            sched_note(a, ev.id, ev.text, ev.text_len, ev.logprob, ev.top, ev.top_count);
    } while (ev.kind != INFER_EVENT_DONE);
    a->reason = ev.finish_reason;
    infer_session_release(s);
}

static inline uint32_t sched_vocab(infer_model *m)
{
    infer_model_info i;
    INFER_INIT(&i);
    ok(infer_model_get_info(m, &i, &error));
    return i.vocab_size;
}

/* An event goes to the answer of its choice. */
static inline void sched_event(void *user, infer_request *r, const infer_request_event *ev)
{
    struct sched_answer *a = (struct sched_answer *)user + ev->choice;
    assert_int_equal(a->ended, 0);
    switch (ev->kind) {
    case INFER_REQUEST_EVENT_STARTED:
        a->started++;
        a->prompt_done = ev->done;
        a->prompt_total = ev->total;
        break;
    case INFER_REQUEST_EVENT_TOKEN:
        sched_note(a, ev->id, ev->text, ev->text_len, ev->logprob, ev->top, ev->top_count);
        if (a->cancel_after && a->n >= a->cancel_after)
            infer_request_cancel(r);
        break;
    case INFER_REQUEST_EVENT_DONE:
        assert_int_equal(a->done, 0);
        sched_note(a, -1, ev->text, ev->text_len, 0, NULL, 0);
        a->done++;
        a->reason = ev->finish_reason;
        a->status = ev->error ? ev->error->code : 0;
        assert_int_equal(ev->finish_reason == INFER_FINISH_ERROR, ev->error != NULL);
        break;
    case INFER_REQUEST_EVENT_END:
        a->ended++;
        if (a->order)
            a->order[(*a->order)++ + 1] = a->at;
        break;
    case INFER_REQUEST_EVENT_PROMPT:
        assert_int_equal(a->started, 0);
        assert_true(a->n_told < SCHED_PROMPT);
        a->told[a->n_told] = ev->id;
        a->told_logprobs[a->n_told] = ev->logprob;
        a->told_top[a->n_told++] = ev->top_count ? ev->top[0] : (infer_logprob){-1, 0};
        assert_true(a->told_len + ev->text_len < sizeof a->told_text);
        memcpy(a->told_text + a->told_len, ev->text, (size_t)ev->text_len);
        a->told_len += ev->text_len;
        break;
    default:
        fail_msg("event %d", (int)ev->kind);
    }
}

/* KV bytes of up to 64 elements. */
static inline uint64_t sched_page_bytes(infer_model *m)
{
    infer_session *s;
    infer_step_item it;
    infer_session_info i;
    int32_t id = 1;
    INFER_INIT(&it);
    INFER_INIT(&i);
    ok(infer_session_create(m, NULL, &s, &error));
    ok(infer_session_append(s, &id, 1, &error));
    it.session = s;
    ok(infer_step(&it, 1, NULL, &error));
    ok(infer_session_get_info(s, &i, &error));
    infer_session_release(s);
    return i.kv_bytes;
}

static inline infer_scheduler *sched_new(infer_model *model, const infer_scheduler_options *o)
{
    infer_scheduler *s;
    ok(infer_scheduler_create(model, o, &s, &error));
    return s;
}

/* Options of a case; the adapter's use has to be the caller's. */
static inline void sched_options(const struct sched_case *c, struct sched_answer *answers, infer_request_options *o, infer_adapter_use *use)
{
    INFER_INIT(o);
    INFER_INIT(use);
    o->ids = c->ids;
    o->id_count = c->n_ids;
    o->sampling = &c->sampling;
    o->generate = &c->generate;
    o->session = &c->session;
    o->flags = c->flags;
    o->n = c->n;
    o->priority = c->priority;
    o->client = c->client;
    o->time_limit = c->time_limit;
    o->callback = sched_event;
    o->callback_user = answers;
    if (c->adapter) {
        use->adapter = c->adapter;
        use->scale = c->scale;
        o->adapters = use;
        o->adapter_count = 1;
    }
}

/* answers: one for each choice; cleared but for what the test has set (cancel_after, order). */
static inline infer_request *sched_submit(infer_scheduler *s, const struct sched_case *c, struct sched_answer *answers)
{
    infer_request_options o;
    infer_adapter_use use;
    infer_request *r;
    sched_options(c, answers, &o, &use);
    ok(infer_scheduler_submit(s, &o, &r, &error));
    return r;
}

static inline infer_scheduler_info sched_info(infer_scheduler *s)
{
    infer_scheduler_info i;
    INFER_INIT(&i);
    ok(infer_scheduler_get_info(s, &i, &error));
    return i;
}

static inline infer_request_info sched_request_info(infer_request *r)
{
    infer_request_info i;
    INFER_INIT(&i);
    ok(infer_request_get_info(r, &i, &error));
    return i;
}

/* Steps until nothing is left. */
static inline void sched_run(infer_scheduler *s)
{
    int32_t more = 1;
    for (int i = 0; more; i++) {
        assert_true(i < 100000);
        ok(infer_scheduler_step(s, &more, NULL, &error));
    }
}

static inline void sched_same(const struct sched_answer *want, const struct sched_answer *got)
{
    assert_int_equal(want->reason, got->reason);
    assert_int_equal(want->n, got->n);
    assert_memory_equal(want->ids, got->ids, want->n * sizeof want->ids[0]);
    assert_memory_equal(want->logprobs, got->logprobs, want->n * sizeof want->logprobs[0]);
    assert_memory_equal(want->top, got->top, want->n * sizeof want->top[0]);
    assert_int_equal(want->text_len, got->text_len);
    assert_memory_equal(want->text, got->text, (size_t)want->text_len);
}

#endif
