/* Scenarios: adapters, embeddings, scoring, the scheduler. */
#include "scenes.h"

#include <string.h>

/* ---- adapters */

static const char *const adapters[] = {
    DATA "adapters/lora-r4.gguf", DATA "adapters/steering.safetensors", DATA "adapters/soft-prompt", DATA "adapters/prefix", DATA "adapters/alora",
    DATA "adapters/lora-bin",
};

static infer_status open_adapter(struct world *w, int which)
{
    infer_adapter_info i;
    infer_status st = oom_made(infer_adapter_open_path(w->model, adapters[which], &w->a[which], &w->err), w->a[which]);
    if (st != INFER_OK)
        return st;
    INFER_INIT(&i);
    assert_int_equal(infer_adapter_get_info(w->a[which], &i, NULL), INFER_OK);
    oom_add(w, i.hash, sizeof i.hash);
    return st;
}

static infer_status find_adapter(struct world *w, int which)
{
    infer_adapter_info i;
    infer_adapter *found = NULL;
    INFER_INIT(&i);
    assert_int_equal(infer_adapter_get_info(w->a[which], &i, NULL), INFER_OK);
    infer_status st = oom_made(infer_adapter_find(w->model, i.hash, &found, &w->err), found);
    if (st == INFER_OK)
        assert_ptr_equal(found, w->a[which]);
    infer_adapter_release(found);
    return st;
}

static infer_status append_adapter(struct world *w, int which)
{
    return infer_session_append_adapter(w->s[0], w->a[which], &w->err);
}

static infer_status set_adapters(struct world *w, int second)
{
    infer_adapter_use use[3];
    const int which[] = {0, second, 4};
    for (int i = 0; i < 3; i++) {
        INFER_INIT(&use[i]);
        use[i].adapter = w->a[which[i]];
        use[i].scale = 0.5f;
    }
    return infer_session_set_adapters(w->s[0], use, 3, &w->err);
}

static infer_status invoke(struct world *w, int arg)
{
    (void)arg;
    return infer_session_append(w->s[0], (int32_t[]){17, 4, 99, 6}, 4, &w->err);
}

static infer_status fork_session(struct world *w, int arg)
{
    (void)arg;
    return oom_made(infer_session_fork(w->s[0], &w->s[1], &w->err), w->s[1]);
}

/* ---- embeddings */

static infer_status embed(struct world *w, int text)
{
    static const int32_t ids[2][12] = {{2, 5, 9, 4, 8, 7, 1, 3, 6, 11, 12, 13}, {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8}};
    static float out[2][12 * 64];
    infer_embed_item it[2];
    infer_embed_options o;
    INFER_INIT(&o);
    o.pooling = text == 2 ? INFER_POOLING_NONE : INFER_POOLING_MEAN;
    for (int i = 0; i < 2; i++) {
        INFER_INIT(&it[i]);
        it[i].ids = text == 1 ? NULL : ids[i];
        it[i].id_count = text == 1 ? 0 : 12;
        it[i].text = text == 1 ? "Hello there, W\xc3\xb6rld!" : NULL;
        it[i].text_len = text == 1 ? INFER_ZSTR : 0;
        it[i].out = out[i];
        it[i].capacity = sizeof out[i] / sizeof out[i][0];
    }
    infer_status st = infer_embed(w->model, it, 2, &o, NULL, &w->err);
    if (st != INFER_OK)
        return st;
    for (int i = 0; i < 2; i++)
        oom_add(w, out[i], 32 * sizeof out[i][0]);
    return st;
}

/* ---- scoring */

static infer_status score(struct world *w, int count)
{
    int32_t ids[80];
    float logprobs[80];
    infer_logprob top[80 * 3];
    infer_score s;
    INFER_INIT(&s);
    s.logprobs = logprobs;
    s.top = top;
    s.top_logprobs = 3;
    for (int i = 0; i < count; i++)
        ids[i] = (i * 3 + 1) % 80;
    infer_status st = infer_session_score(w->s[0], ids, (uint64_t)count, &s, NULL, &w->err);
    if (st != INFER_OK)
        return st;
    oom_add(w, logprobs, (uint64_t)count * sizeof logprobs[0]);
    oom_add(w, top, (uint64_t)count * 3 * sizeof top[0]);
    oom_add(w, &s.sum, sizeof s.sum);
    return st;
}

static infer_status truncate_to(struct world *w, int length)
{
    return infer_session_truncate(w->s[0], (uint64_t)length, NULL, &w->err);
}

/* ---- the scheduler */

#define SPILL_BUDGET (135168) /* 5 pages of the model and a half; two answers of 126 elements and one of 64 come to need 7 */

static infer_status create_scheduler(struct world *w, int spill)
{
    infer_scheduler_options o;
    INFER_INIT(&o);
    o.max_active = 8;
    if (spill) { /* so short of memory that answers are set aside */
        o.kv_budget = SPILL_BUDGET;
        o.reserve_tokens = 1;
        o.spill_path = oom_path("spill");
        o.spill_path_len = INFER_ZSTR;
    }
    return oom_made(infer_scheduler_create(w->model, &o, &w->scheduler, &w->err), w->scheduler);
}

/* One request's answers, by callback or asked for. A failed request is a failed step: the host submits it again. */
struct answer {
    uint64_t digests[2];
    char text[2][1024];
    uint64_t lens[2];
    infer_status failed;
    infer_error err;
    int ended;
};

static void note(struct answer *a, const infer_request_event *ev)
{
    struct world w = {.digest = a->digests[ev->choice]};
    switch (ev->kind) {
    case INFER_REQUEST_EVENT_TOKEN:
        oom_add_u64(&w, (uint64_t)ev->id);
        oom_add(&w, &ev->logprob, sizeof ev->logprob);
        break;
    case INFER_REQUEST_EVENT_DONE:
        oom_add_u64(&w, (uint64_t)ev->finish_reason);
        if (ev->finish_reason == INFER_FINISH_ERROR) {
            a->failed = ev->error->code;
            a->err = *ev->error;
        }
        break;
    case INFER_REQUEST_EVENT_END:
        a->ended++;
        break;
    default:
        break;
    }
    assert_true(a->lens[ev->choice] + ev->text_len < sizeof a->text[0]);
    memcpy(a->text[ev->choice] + a->lens[ev->choice], ev->text, ev->text_len);
    a->lens[ev->choice] += ev->text_len;
    a->digests[ev->choice] = w.digest;
}

static void on_event(void *user, infer_request *request, const infer_request_event *ev)
{
    (void)request;
    note(user, ev);
}

static infer_status submit(struct world *w, uint64_t n_ids, uint32_t n, infer_request_fn callback, struct answer *a, infer_request **out)
{
    int32_t ids[200];
    infer_request_options o;
    infer_sampling sampling;
    infer_generate_options g;
    INFER_INIT(&o);
    INFER_INIT(&sampling);
    INFER_INIT(&g);
    sampling.temperature = 0.7f;
    sampling.logprobs = 1;
    sampling.seed = n_ids;
    g.max_tokens = 4;
    for (uint64_t i = 0; i < n_ids; i++)
        ids[i] = (int32_t)((i * 11 + 2) % 90);
    o.ids = ids;
    o.id_count = n_ids;
    o.n = n;
    o.flags = INFER_REQUEST_IGNORE_EOS | INFER_REQUEST_ECHO | INFER_REQUEST_KEEP;
    o.sampling = &sampling;
    o.generate = &g;
    o.callback = callback;
    o.callback_user = a;
    return infer_scheduler_submit(w->scheduler, &o, out, &w->err);
}

static infer_status serve(struct world *w, int n_ids)
{
    struct answer by_callback = {.digests = {1, 2}}, asked = {.digests = {3, 4}};
    infer_request *request = NULL;
    infer_request_event ev;
    infer_checkpoint *kept = NULL;
    int32_t more = 1;
    bool second = false;
    infer_status st = submit(w, (uint64_t)n_ids, 2, on_event, &by_callback, NULL);
    bool first = st == INFER_OK;
    if (first) {
        st = submit(w, (uint64_t)n_ids / 2 + 1, 1, NULL, NULL, &request);
        second = st == INFER_OK;
    }
    oom_made(second ? INFER_OK : INFER_ERROR_NO_MEMORY, request);
    infer_status stepped = INFER_OK;
    for (int i = 0; more; i++) {
        assert_true(i < 1000);
        infer_status step = infer_scheduler_step(w->scheduler, &more, NULL, &w->err);
        if (step != INFER_OK) {
            stepped = step;
            w->seam->arm(0, false); /* what has begun ends */
        }
        INFER_INIT(&ev);
        while (request && infer_request_next(request, &ev, NULL) == INFER_OK)
            note(&asked, &ev);
    }
    assert_int_equal(by_callback.ended, first);
    assert_int_equal(asked.ended, second);
    struct answer *bad = by_callback.failed ? &by_callback : asked.failed ? &asked : NULL;
    if (st == INFER_OK && bad) {
        st = bad->failed;
        w->err = bad->err;
    }
    if (st == INFER_OK)
        st = stepped;
    if (st == INFER_OK)
        st = oom_made(infer_request_checkpoint(request, 0, &kept, &w->err), kept);
    infer_checkpoint_release(kept);
    infer_request_release(request);
    if (st != INFER_OK)
        return st;
    oom_add(w, by_callback.digests, sizeof by_callback.digests);
    oom_add(w, by_callback.text, sizeof by_callback.text);
    oom_add(w, asked.digests, sizeof asked.digests);
    oom_add(w, asked.text, sizeof asked.text);
    return st;
}

/* A request that is given up in the middle. */
static infer_status serve_and_cancel(struct world *w, int n_ids)
{
    struct answer a = {.digests = {1, 2}};
    infer_request *request = NULL;
    int32_t more = 1;
    infer_status st = submit(w, (uint64_t)n_ids, 1, on_event, &a, &request);
    if (st != INFER_OK)
        return oom_made(st, request);
    st = infer_scheduler_step(w->scheduler, &more, NULL, &w->err);
    infer_request_cancel(request);
    for (int i = 0; more; i++) {
        assert_true(i < 100);
        infer_status step = infer_scheduler_step(w->scheduler, &more, NULL, &w->err);
        if (step != INFER_OK) {
            st = step;
            w->seam->arm(0, false);
        }
    }
    infer_request_release(request);
    assert_int_equal(a.ended, 1);
    return st;
}

static infer_status was_set_aside(struct world *w, int arg)
{
    infer_scheduler_info i;
    (void)arg;
    INFER_INIT(&i);
    infer_status st = infer_scheduler_get_info(w->scheduler, &i, &w->err);
    assert_true(i.preemptions > 0); /* else nothing was written */
    return st;
}

/* ---- the scenarios */

#define ENGINE {"create the engine", scene_engine, 0, 0}
#define MODEL(which) {"open the model", scene_model, which, 0}
#define SESSION(slot) {"create a session", scene_session, slot, 0}
#define APPEND(slot, n) {"append", scene_append, SLOT(slot, n), 0}
#define PREFILL(slot) {"prefill", scene_prefill, slot, STEP_ADVANCES}
#define ADAPTER(which) {"open an adapter", open_adapter, which, 0}

static const struct step with_adapters[] = {ENGINE, MODEL(MODEL_LLAMA), ADAPTER(0), ADAPTER(1), ADAPTER(2), ADAPTER(3), ADAPTER(4), ADAPTER(5),
    {"find", find_adapter, 0, 0}, SESSION(0), {"append a prefix", append_adapter, 3, 0}, {"append a soft prompt", append_adapter, 2, 0},
    {"set adapters", set_adapters, 1, 0}, APPEND(0, 20), {"invoke", invoke, 0, 0}, PREFILL(0), {"fork", fork_session, 0, 0},
    {"set others", set_adapters, 5, 0}, APPEND(0, 3), PREFILL(0), APPEND(1, 3), PREFILL(1), {0}};
static const struct step encoder[] = {ENGINE, MODEL(MODEL_BERT_FOLDER), {"embed texts", embed, 1, 0}, {"embed ids", embed, 0, 0}, {"embed rows", embed, 2, 0}, {0}};
static const struct step decoder[] = {ENGINE, MODEL(MODEL_LLAMA), {"embed ids", embed, 0, 0}, {"embed rows", embed, 2, 0}, {0}};
static const struct step scoring[] = {ENGINE, MODEL(MODEL_LLAMA), SESSION(0), {"score", score, 70, 0}, {"roll back", truncate_to, 8, 0}, {"score again", score, 40, 0},
    APPEND(0, 3), PREFILL(0), {0}};
#define SERVE(spill) ENGINE, MODEL(MODEL_LLAMA), {"create a scheduler", create_scheduler, spill, 0}, {"serve", serve, 126, 0}, \
    {"serve and cancel", serve_and_cancel, 40, 0}, {"serve again", serve, 70, 0}
static const struct step serving[] = {SERVE(0), {0}}, spilling[] = {SERVE(1), {"was any set aside", was_set_aside, 0, 0}, {0}};

const struct scenario oom_more[] = {
    {"adapters", with_adapters, 0, 0, 0, 0, 0, 1}, {"embeddings of an encoder", encoder, 0, 0, 0, 0, 0, 0}, {"embeddings of a decoder", decoder, 0, 0, 0, 0, 0, 0},
    {"score", scoring, 0, 0, 0, 0, 0, 0}, {"scheduler", serving, 0, 0, 0, 0, 0, 0}, {"scheduler with a cache", serving, 0, 1, 0, 0, 0, 0},
    {"scheduler that spills", spilling, 0, 0, 0, 0, 1, 1}, {0},
};
