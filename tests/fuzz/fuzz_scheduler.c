/* Reads the input as a program of scheduler calls: requests of all kinds, good and bad, steps, cancelling, letting go. Each request must hear of its events in
 * order and once, and of just the tokens that a session alone would give it, whatever else runs. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "infer/scheduler.h"

#define MAX_REQUESTS 10
#define MAX_CHOICES  3
#define MAX_TOKENS   8
#define MAX_PROMPT   90
#define MAX_OPS      48
#define MAX_STEPS    20000

static void demand(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "fuzz_scheduler: %s\n", what);
    abort();
}

struct choice {
    int32_t ids[MAX_TOKENS];
    float logprobs[MAX_TOKENS];
    uint64_t n;
    int32_t reason; /* 0: it has not ended */
};

struct asked {
    infer_request *handle; /* NULL: let go, or never taken */
    infer_request_options o;
    infer_sampling sampling;
    infer_generate_options generate;
    int32_t ids[MAX_PROMPT], stop;
    struct choice choices[MAX_CHOICES];
    bool used, pulled, started, ended, cancelled, gone;
};

struct world {
    infer_scheduler *scheduler;
    struct asked requests[MAX_REQUESTS];
    int n;
    const uint8_t *at, *end;
};

static infer_model *model;
static infer_model_info about;

static void start(void)
{
    infer_engine_options o;
    infer_engine *engine;
    char path[4096];
    INFER_INIT(&o);
    INFER_INIT(&about);
    o.threads = 1;
    o.cache_bytes = 1 << 20;
    snprintf(path, sizeof path, "%s/tests/data/fixtures/llama-q4_0.gguf", INFER_SOURCE_DIR);
    demand(infer_engine_create(&o, &engine, NULL) == INFER_OK, "no engine");
    demand(infer_model_open_path(engine, path, &model, NULL) == INFER_OK, "the model does not open");
    demand(infer_model_get_info(model, &about, NULL) == INFER_OK, "no model info");
    infer_engine_release(engine);
}

static uint8_t next_byte(struct world *w)
{
    return w->at < w->end ? *w->at++ : 0;
}

/* ---- What a request hears */

static void hear(struct asked *r, const infer_request_event *e)
{
    struct choice *c = &r->choices[e->choice];
    demand(!r->ended, "an event after the end");
    demand(e->text != NULL && e->choice < (r->o.n ? r->o.n : 1), "an odd event");
    switch (e->kind) {
    case INFER_REQUEST_EVENT_STARTED:
        demand(!r->started && e->total == r->o.id_count && e->done <= e->total, "an odd start");
        r->started = true;
        return;
    case INFER_REQUEST_EVENT_TOKEN:
        demand(r->started && !c->reason && c->n < r->generate.max_tokens && e->id >= 0, "a token out of place");
        c->ids[c->n] = e->id;
        c->logprobs[c->n++] = e->logprob;
        return;
    case INFER_REQUEST_EVENT_DONE:
        demand(!c->reason && e->finish_reason, "a choice ends twice");
        demand((e->finish_reason == INFER_FINISH_ERROR) == (e->error != NULL), "an error that is none");
        demand(e->finish_reason != INFER_FINISH_CANCELLED || r->cancelled || r->gone, "cancelled by nobody");
        c->reason = e->finish_reason;
        return;
    case INFER_REQUEST_EVENT_END:
        for (uint32_t i = 0; i < (r->o.n ? r->o.n : 1); i++)
            demand(r->choices[i].reason != 0, "the end before all choices have ended");
        r->ended = true;
        return;
    default:
        demand(0, "an event of no kind");
    }
}

static void on_event(void *user, infer_request *request, const infer_request_event *e)
{
    struct asked *r = user;
    demand(request != NULL && (!r->handle || r->handle == request), "an event of another request");
    hear(r, e);
    if (e->kind == INFER_REQUEST_EVENT_TOKEN && r->o.client == 3 && e->choice == 0 && r->choices[0].n == 3) { /* from inside */
        r->cancelled = true;
        infer_request_cancel(request);
    }
}

static void drain(struct asked *r)
{
    infer_status st = INFER_OK;
    infer_request_event e;
    if (!r->handle || !r->pulled)
        return;
    while (st == INFER_OK) {
        INFER_INIT(&e);
        st = infer_request_next(r->handle, &e, NULL);
        if (st == INFER_OK)
            hear(r, &e);
    }
    demand(st == (r->ended ? INFER_ERROR_STATE : INFER_ERROR_NOT_FOUND), "another reason for no event");
}

/* ---- Calls */

static void op_submit(struct world *w)
{
    if (w->n == MAX_REQUESTS)
        return;
    struct asked *r = &w->requests[w->n];
    uint8_t a = next_byte(w), b = next_byte(w), c = next_byte(w), d = next_byte(w);
    memset(r, 0, sizeof *r);
    INFER_INIT(&r->o);
    INFER_INIT(&r->sampling);
    INFER_INIT(&r->generate);
    r->o.ids = r->ids;
    r->o.id_count = a % 90u;
    for (uint64_t i = 0; i < r->o.id_count; i++)
        r->ids[i] = (int32_t)((i < 64 ? i * 5 : i * 3 + b) % 50); /* prompts begin alike */
    r->o.n = b % 4u;
    r->o.priority = (int8_t)c / 32;
    r->o.client = c % 4u;
    r->o.flags = d & 1 ? INFER_REQUEST_IGNORE_EOS : 0;
    r->sampling.seed = b;
    r->sampling.temperature = d & 2 ? 0.9f : 0;
    r->sampling.logprobs = 1;
    r->generate.max_tokens = 1 + d / 4u % MAX_TOKENS;
    r->stop = d % 50;
    r->generate.stop_ids = d & 32 ? &r->stop : NULL;
    r->generate.stop_id_count = d & 32 ? 1 : 0;
    r->generate.repeat_guard = d & 64 ? 16 : 0;
    r->o.sampling = &r->sampling;
    r->o.generate = &r->generate;
    r->pulled = c & 4;
    r->o.callback = r->pulled ? NULL : on_event;
    r->o.callback_user = r;
    bool bad = false;
    if (a == 255) {
        r->ids[0] = INT32_MAX;
        bad = true;
    } else if (a == 254) {
        r->o.n = 129;
        bad = true;
    } else if (a == 253) {
        r->generate.repeat_guard = 3;
        bad = true;
    } else if (a == 252) {
        r->o.flags |= 1u << 30;
        bad = true;
    }
    infer_status st = infer_scheduler_submit(w->scheduler, &r->o, &r->handle, NULL);
    demand(!bad || st != INFER_OK, "a bad request is taken");
    if (st != INFER_OK) {
        demand(bad || r->o.id_count == 0 || st == INFER_ERROR_LIMIT, "a good request is refused");
        memset(r, 0, sizeof *r);
        return;
    }
    r->used = true;
    w->n++;
}

static struct asked *pick(struct world *w)
{
    uint8_t a = next_byte(w);
    return w->n ? &w->requests[a % w->n] : NULL;
}

static void step(struct world *w, int32_t *more)
{
    infer_scheduler_info i;
    INFER_INIT(&i);
    demand(infer_scheduler_step(w->scheduler, more, NULL, NULL) == INFER_OK, "a step failed");
    demand(infer_scheduler_get_info(w->scheduler, &i, NULL) == INFER_OK, "no info");
    demand(i.finished + i.cancelled + i.failed <= i.submitted, "more ends than requests");
}

static void run_op(struct world *w)
{
    uint8_t op = next_byte(w) % 10;
    int32_t more;
    if (op < 3) {
        op_submit(w);
    } else if (op < 6) {
        for (int i = next_byte(w) % 6; i >= 0; i--)
            step(w, &more);
    } else {
        struct asked *r = pick(w);
        infer_request_info i;
        INFER_INIT(&i);
        if (!r || !r->handle)
            return;
        if (op == 6) {
            r->cancelled = true;
            infer_request_cancel(r->handle);
        } else if (op == 7) {
            drain(r);
        } else if (op == 8) {
            demand(infer_request_get_info(r->handle, &i, NULL) == INFER_OK && i.cached_tokens <= i.prompt_tokens, "odd info");
        } else {
            infer_request_release(r->handle); /* it goes on */
            r->handle = NULL;
            r->gone = r->pulled;
        }
    }
}

/* ---- Alone */

static void compare_alone(const struct asked *r, uint32_t number)
{
    const struct choice *c = &r->choices[number];
    infer_session *s;
    infer_sampling sampling = r->sampling;
    infer_generate_options g = r->generate;
    infer_event e;
    uint64_t n = 0;
    int32_t reason = 0;
    sampling.seed += number;
    g.flags = r->o.flags & INFER_REQUEST_IGNORE_EOS ? INFER_GENERATE_IGNORE_EOS : 0;
    demand(infer_session_create(model, NULL, &s, NULL) == INFER_OK && infer_session_append(s, r->ids, r->o.id_count, NULL) == INFER_OK
               && infer_session_set_sampling(s, &sampling, NULL) == INFER_OK && infer_generate_begin(s, &g, NULL) == INFER_OK,
           "no session");
    while (!reason) {
        INFER_INIT(&e);
        demand(infer_generate_next(s, &e, NULL, NULL) == INFER_OK, "no event alone");
        if (e.kind == INFER_EVENT_TOKEN && n < c->n)
            demand(e.id == c->ids[n] && e.logprob == c->logprobs[n], "another token than alone");
        n += e.kind == INFER_EVENT_TOKEN;
        reason = e.kind == INFER_EVENT_DONE ? e.finish_reason : 0;
    }
    if (c->reason == INFER_FINISH_CANCELLED || c->reason == INFER_FINISH_ERROR)
        demand(c->n <= n, "more tokens than alone");
    else
        demand(c->n == n && c->reason == reason, "another end than alone");
    infer_session_release(s);
}

static void finish(struct world *w)
{
    int32_t more = 1;
    int steps = 0;
    for (; more && steps < MAX_STEPS; steps++)
        step(w, &more);
    demand(!more, "it does not end");
    for (int i = 0; i < w->n; i++) {
        struct asked *r = &w->requests[i];
        drain(r);
        if (r->gone)
            continue; /* nobody asked it for its events */
        demand(r->ended, "a request has not ended");
        for (uint32_t k = 0; k < (r->o.n ? r->o.n : 1); k++)
            compare_alone(r, k);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct world w;
    static const uint64_t budgets[] = {0, 0, 40000, 150000, 600000, 1};
    infer_scheduler_options o;
    if (size < 2)
        return 0;
    if (!model)
        start();
    memset(&w, 0, sizeof w);
    w.at = data + 2;
    w.end = data + size;
    INFER_INIT(&o);
    o.max_active = 1 + data[0] % 4u;
    o.max_waiting = 1 + data[0] / 4u % 8;
    o.step_elements = data[0] & 128 ? 7 : 0;
    o.kv_budget = budgets[data[1] % 6];
    o.reserve_tokens = data[1] & 64 ? 2 : 0;
    demand(infer_scheduler_create(model, &o, &w.scheduler, NULL) == INFER_OK, "no scheduler");
    for (int i = 0; i < MAX_OPS && w.at < w.end; i++)
        run_op(&w);
    bool whole = !(data[1] & 128);
    if (whole)
        finish(&w);
    else /* released with requests in it: the rest is cancelled */
        for (int i = 0; i < w.n; i++)
            w.requests[i].cancelled = true;
    infer_scheduler_release(w.scheduler);
    for (int i = 0; i < w.n; i++) {
        drain(&w.requests[i]);
        infer_request_release(w.requests[i].handle);
    }
    return 0;
}
