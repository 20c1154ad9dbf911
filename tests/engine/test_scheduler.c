/* The scheduler as a host sees it: events, choices, ends, order, limits. */
#include <math.h>

#include "sched_util.h"

static infer_model *model;
static uint32_t n_vocab;

static int setup(void **state)
{
    (void)state;
    model = sched_model(0, 0);
    n_vocab = sched_vocab(model);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    infer_model_release(model);
    return 0;
}

/* A request's answer is what a session of its own gives. */
static void test_one_request(void **state)
{
    (void)state;
    static struct sched_case c;
    static struct sched_answer want, got;
    for (uint32_t k = 0; k < 8; k++) {
        sched_case_of(&c, k, n_vocab);
        sched_alone(model, &c, 0, &want);
        memset(&got, 0, sizeof got);
        infer_scheduler *s = sched_new(model, NULL);
        infer_request *r = sched_submit(s, &c, &got);
        sched_run(s);
        assert_int_equal(sched_request_info(r).generated_tokens, got.n);
        assert_int_equal(sched_request_info(r).prompt_tokens, c.n_ids);
        infer_request_release(r);
        infer_scheduler_release(s);
        assert_int_equal(got.started, 1);
        assert_int_equal(got.ended, 1);
        sched_same(&want, &got);
    }
}

/* The same by asking. */
static void test_polling(void **state)
{
    (void)state;
    static struct sched_case c;
    static struct sched_answer want, got;
    sched_case_of(&c, 1, n_vocab);
    sched_alone(model, &c, 0, &want);
    memset(&got, 0, sizeof got);
    infer_request_options o;
    infer_adapter_use use;
    infer_request *r;
    infer_request_event ev;
    infer_scheduler *s = sched_new(model, NULL);
    sched_options(&c, &got, &o, &use);
    o.callback = NULL;
    assert_int_equal(infer_scheduler_submit(s, &o, NULL, &error), INFER_ERROR_ARGUMENT);
    ok(infer_scheduler_submit(s, &o, &r, &error));
    INFER_INIT(&ev);
    assert_int_equal(infer_request_next(r, &ev, NULL), INFER_ERROR_NOT_FOUND);
    for (int32_t more = 1; more;) {
        ok(infer_scheduler_step(s, &more, NULL, &error));
        while (infer_request_next(r, &ev, NULL) == INFER_OK)
            sched_event(&got, r, &ev);
    }
    assert_int_equal(infer_request_next(r, &ev, NULL), INFER_ERROR_STATE);
    infer_request_release(r);
    infer_scheduler_release(s);
    sched_same(&want, &got);
}

/* n choices are n requests with seeds one apart. */
static void test_choices(void **state)
{
    (void)state;
    enum { N = 5 };
    static struct sched_case c;
    static struct sched_answer want, got[N];
    for (uint32_t k = 0; k < 4; k++) {
        infer_scheduler_options so;
        INFER_INIT(&so);
        so.max_active = k % 2 ? 2 : 0; /* fewer places than choices */
        infer_scheduler *s = sched_new(model, &so);
        sched_case_of(&c, 11 + k, n_vocab);
        c.n = N;
        c.generate.max_tokens = 10;
        memset(got, 0, sizeof got);
        infer_request_release(sched_submit(s, &c, got));
        sched_run(s);
        infer_scheduler_release(s);
        assert_int_equal(got[0].ended, 1);
        for (uint32_t i = 0; i < N; i++) {
            sched_alone(model, &c, i, &want);
            sched_same(&want, &got[i]);
        }
    }
}

/* A case with a prompt of n elements and an answer of `tokens`. */
static struct sched_case *plain_case(uint32_t k, uint64_t n, uint64_t tokens)
{
    static struct sched_case c;
    sched_case_of(&c, k, n_vocab);
    uint64_t seed = 1000 + k;
    for (uint64_t i = 0; i < n; i++)
        c.ids[i] = (int32_t)(test_rand(&seed) % n_vocab);
    c.n_ids = n;
    c.generate.max_tokens = tokens;
    c.flags = INFER_REQUEST_IGNORE_EOS;
    return &c;
}

/* Ends a request in each of its phases; another one, beside it, does not notice. */
static void test_cancel(void **state)
{
    (void)state;
    static struct sched_case other, c;
    static struct sched_answer want, got, ended[3];
    other = *plain_case(1, 40, 30);
    sched_alone(model, &other, 0, &want);
    for (int phase = 0; phase < 5; phase++) {
        infer_scheduler_options so;
        INFER_INIT(&so);
        so.step_elements = 16;
        so.max_active = phase == 0 ? 1 : 4;
        infer_scheduler *s = sched_new(model, &so);
        memset(&got, 0, sizeof got);
        memset(ended, 0, sizeof ended);
        infer_request_release(sched_submit(s, &other, &got));
        for (int i = 0; i < 4; i++)
            ok(infer_scheduler_step(s, NULL, NULL, &error));
        c = *plain_case(2, 100, 50);
        c.n = phase == 3 ? 3 : 1;
        ended[0].cancel_after = phase == 2 || phase == 3 ? 3 : 0;
        infer_request *r = sched_submit(s, &c, ended);
        if (phase == 0 || phase == 1) { /* while it waits; in its prompt */
            ok(infer_scheduler_step(s, NULL, NULL, &error));
            infer_request_cancel(r);
        } else if (phase == 4) { /* set aside */
            for (int i = 0; i < 9; i++)
                ok(infer_scheduler_step(s, NULL, NULL, &error));
            assert_true(ended[0].n > 0 && ended[0].n < 5);
            static struct sched_case four;
            four = *plain_case(3, 5, 4);
            four.n = 4;
            four.priority = 1;
            infer_request_release(sched_submit(s, &four, (struct sched_answer[4]){{.n = 0}}));
            ok(infer_scheduler_step(s, NULL, NULL, &error));
            assert_int_equal(sched_info(s).suspended, 2);
            infer_request_cancel(r);
            ok(infer_scheduler_step(s, NULL, NULL, &error));
            assert_int_equal(ended[0].ended, 1);
            assert_int_equal(sched_info(s).suspended, 1);
            sched_run(s);
        }
        sched_run(s);
        infer_request_cancel(r); /* too late: nothing happens */
        infer_request_release(r);
        assert_int_equal(sched_info(s).cancelled, 1);
        infer_scheduler_release(s);
        assert_int_equal(ended[0].ended, 1);
        for (uint32_t i = 0; i < c.n; i++) {
            assert_int_equal(ended[i].done, 1);
            assert_int_equal(ended[i].reason, INFER_FINISH_CANCELLED);
        }
        if (phase == 2)
            assert_int_equal(ended[0].n, 3);
        assert_int_equal(ended[0].started, phase > 1);
        sched_same(&want, &got);
    }
}

static uint64_t the_time;
static uint64_t tell_time(void *user)
{
    (void)user;
    return the_time;
}

static void test_time_limits(void **state)
{
    (void)state;
    static struct sched_answer a, b, w;
    infer_scheduler_options so;
    INFER_INIT(&so);
    so.clock = tell_time;
    so.max_active = 2;
    the_time = 1000;
    infer_scheduler *s = sched_new(model, &so);
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    memset(&w, 0, sizeof w);
    struct sched_case *c = plain_case(1, 10, 60);
    c->time_limit = 50;
    infer_request *ra = sched_submit(s, c, &a);
    c->time_limit = 0;
    infer_request *rb = sched_submit(s, c, &b);
    c->time_limit = 20;
    infer_request *rw = sched_submit(s, c, &w); /* never gets a place */
    for (int i = 0; i < 10; i++, the_time += 10)
        ok(infer_scheduler_step(s, NULL, NULL, &error));
    assert_int_equal(a.reason, INFER_FINISH_TIME);
    assert_int_equal(a.n, 5);
    assert_int_equal(w.reason, INFER_FINISH_TIME);
    assert_int_equal(w.n, 0);
    assert_int_equal(b.done, 0);
    sched_run(s);
    assert_int_equal(b.n, 60);
    infer_request_info i = sched_request_info(ra);
    assert_int_equal(i.submitted, 1000);
    assert_int_equal(i.started, 1000);
    assert_int_equal(i.first_token, 1000);
    assert_int_equal(i.ended, 1050);
    assert_int_equal(sched_request_info(rw).started, 0);
    assert_int_equal(sched_info(s).finished, 3);
    infer_request_release(ra);
    infer_request_release(rb);
    infer_request_release(rw);
    infer_scheduler_release(s);
}

static infer_status bad_logits(void *user, float *logits, uint64_t n, const int32_t *ids, uint64_t count)
{
    (void)n;
    (void)ids;
    if (count < 12)
        return INFER_OK;
    if (user)
        return INFER_ERROR_HOST;
    logits[3] = NAN;
    return INFER_OK;
}

/* What goes wrong in one request ends that one. */
static void test_errors(void **state)
{
    (void)state;
    static struct sched_answer want, fine, failed, full;
    static struct sched_case c;
    int set = 0;
    for (int way = 0; way < 2; way++) {
        infer_scheduler *s = sched_new(model, NULL);
        memset(&fine, 0, sizeof fine);
        memset(&failed, 0, sizeof failed);
        memset(&full, 0, sizeof full);
        c = *plain_case(5, 10, 20);
        sched_alone(model, &c, 0, &want);
        infer_request_release(sched_submit(s, &c, &fine));
        c.sampling.callback = bad_logits;
        c.sampling.callback_user = way ? &set : NULL;
        infer_request_release(sched_submit(s, &c, &failed));
        c = *plain_case(6, 100, 0);
        c.session.n_ctx = 110;
        infer_request_release(sched_submit(s, &c, &full));
        sched_run(s);
        assert_int_equal(failed.reason, INFER_FINISH_ERROR);
        assert_int_equal(failed.status, INFER_ERROR_HOST);
        assert_int_equal(failed.n, 2);
        assert_int_equal(failed.ended, 1);
        assert_int_equal(full.reason, INFER_FINISH_CONTEXT);
        assert_int_equal(full.n, 10);
        sched_same(&want, &fine);
        infer_scheduler_info i = sched_info(s);
        assert_int_equal(i.failed, 1);
        assert_int_equal(i.finished, 2);
        infer_scheduler_release(s);
    }
}

/* An answer that outgrows the budget, the scheduler's or the engine's, ends. */
static void test_outgrown(void **state)
{
    (void)state;
    static struct sched_case c;
    static struct sched_answer want, got;
    for (int way = 0; way < 2; way++) {
        infer_scheduler_options so;
        INFER_INIT(&so);
        uint64_t budget = sched_page_bytes(model);
        infer_model *m = sched_model(0, way ? budget : 0);
        so.kv_budget = way ? 0 : budget;
        so.reserve_tokens = 1;
        infer_scheduler *s = sched_new(m, &so);
        memset(&got, 0, sizeof got);
        c = *plain_case(4, 60, 60);
        sched_alone(model, &c, 0, &want);
        infer_request_release(sched_submit(s, &c, &got));
        sched_run(s);
        infer_scheduler_release(s);
        infer_model_release(m);
        assert_int_equal(got.reason, INFER_FINISH_ERROR);
        assert_int_equal(got.status, INFER_ERROR_LIMIT);
        assert_int_equal(got.n, 5); /* the 65th element has no page */
        assert_memory_equal(got.ids, want.ids, 5 * sizeof want.ids[0]);
    }
}

/* What fits just so is not refused, whatever the cache holds of it. */
static void test_fits_exactly(void **state)
{
    (void)state;
    static struct sched_answer want, got;
    for (int way = 0; way < 4; way++) {
        infer_scheduler_options so;
        INFER_INIT(&so);
        infer_model *m = sched_model_of(way & 1 ? fixture_path("gemma3") : SCHED_TINY, 1, way & 2 ? 16u << 20 : 0, 0);
        struct sched_case *c = plain_case(3, 300, 40);
        c->session.n_ctx = 512;
        for (uint64_t i = 0; i < c->n_ids; i++)
            c->ids[i] = c->ids[i] % (int32_t)sched_vocab(m);
        so.kv_budget = 6 * sched_page_bytes(m); /* 340 elements */
        sched_alone(m, c, 0, &want);
        infer_scheduler *s = sched_new(m, &so);
        for (int again = 0; again < 3; again++) {
            c->n_ids -= again == 2 ? 30 : 0; /* ends within a page of the cache's */
            if (again == 2)
                sched_alone(m, c, 0, &want);
            memset(&got, 0, sizeof got);
            infer_request_release(sched_submit(s, c, &got));
            sched_run(s);
            sched_same(&want, &got);
        }
        infer_scheduler_release(s);
        infer_model_release(m);
    }
}

/* Answers whose shifted state can neither be computed again nor written anywhere, and no memory for any: the last ones end, the first goes on. */
static void test_outgrown_by_shifted_ones(void **state)
{
    (void)state;
    enum { SHIFTED = 3 };
    static struct sched_answer want, got[SHIFTED];
    for (int way = 0; way < 2; way++) {
        infer_scheduler_options so;
        INFER_INIT(&so);
        uint64_t budget = 4 * sched_page_bytes(model);
        infer_model *m = sched_model(0, way ? budget : 0);
        so.kv_budget = way ? 0 : budget;
        so.reserve_tokens = 1;
        infer_scheduler *s = sched_new(m, &so);
        memset(got, 0, sizeof got);
        for (uint32_t k = 0; k < SHIFTED; k++) {
            struct sched_case *c = plain_case(k, 30, 60);
            c->session.n_ctx = 80; /* of two pages; shifted when full, to a page and a little */
            c->generate.shift_drop = 10;
            if (k == 0)
                sched_alone(model, c, 0, &want);
            infer_request_release(sched_submit(s, c, &got[k]));
        }
        sched_run(s);
        infer_scheduler_release(s);
        infer_model_release(m);
        sched_same(&want, &got[0]);
        for (int k = 0; k < SHIFTED; k++) {
            assert_int_equal(got[k].ended, 1);
            assert_true(got[k].reason == INFER_FINISH_LENGTH || (got[k].reason == INFER_FINISH_ERROR && got[k].status == INFER_ERROR_LIMIT));
        }
    }
}

static void test_arguments(void **state)
{
    (void)state;
    static struct sched_case c;
    static struct sched_answer a;
    infer_request_options o, bad;
    infer_adapter_use use;
    infer_request *r = NULL;
    infer_scheduler_options so;
    infer_scheduler *s, *none = NULL;
    INFER_INIT(&so);
    so.max_active = 257;
    assert_int_equal(infer_scheduler_create(model, &so, &none, &error), INFER_ERROR_ARGUMENT);
    assert_string_equal(error.name, "max_active");
    so.max_active = 1;
    so.step_elements = 257;
    assert_int_equal(infer_scheduler_create(model, &so, &none, &error), INFER_ERROR_ARGUMENT);
    so.step_elements = 0;
    so.max_waiting = 2;
    so.kv_budget = 3 * 64 * 1024; /* some pages */
    assert_int_equal(infer_scheduler_create(NULL, &so, &none, &error), INFER_ERROR_ARGUMENT);
    s = sched_new(model, &so);
    c = *plain_case(1, 4, 4);
    sched_options(&c, &a, &o, &use);
    memset(&a, 0, sizeof a);
#define REFUSED(change, status, field)                                                                                                         \
    do {                                                                                                                                       \
        bad = o;                                                                                                                               \
        change;                                                                                                                                \
        assert_int_equal(infer_scheduler_submit(s, &bad, &r, &error), status);                                                                 \
        if ((const char *)(field) != NULL)                                                                                                     \
            assert_string_equal(error.name, field);                                                                                            \
        assert_null(r);                                                                                                                        \
    } while (0)
    REFUSED(bad.flags = 64, INFER_ERROR_ARGUMENT, "flags");
    REFUSED(bad.ids = NULL, INFER_ERROR_ARGUMENT, "ids");
    REFUSED(bad.id_count = 0, INFER_ERROR_ARGUMENT, "ids");
    REFUSED((bad.text = "x", bad.text_len = 1), INFER_ERROR_ARGUMENT, "ids");
    REFUSED((bad.id_count = 0, bad.text = "", bad.text_len = 0), INFER_ERROR_ARGUMENT, "ids"); /* empty */
    REFUSED(bad.n = 129, INFER_ERROR_ARGUMENT, "n");
    REFUSED((bad.n = 2, bad.flags = INFER_REQUEST_PROMPT_ONLY), INFER_ERROR_ARGUMENT, "n");
    REFUSED(bad.flags = INFER_REQUEST_PROMPT_LOGPROBS, INFER_ERROR_ARGUMENT, "flags");
    REFUSED(bad.flags = INFER_REQUEST_CONTINUE, INFER_ERROR_ARGUMENT, "checkpoint");
    infer_sampling hot = c.sampling;
    hot.temperature = -1;
    REFUSED(bad.sampling = &hot, INFER_ERROR_ARGUMENT, "temperature");
    infer_generate_options guard = c.generate;
    guard.repeat_guard = 3;
    REFUSED(bad.generate = &guard, INFER_ERROR_ARGUMENT, "repeat_guard");
    infer_session_options tight = c.session;
    tight.n_ctx = 3;
    REFUSED(bad.session = &tight, INFER_ERROR_CONTEXT_FULL, NULL);
    int32_t big = (int32_t)n_vocab;
    REFUSED((bad.ids = &big, bad.id_count = 1), INFER_ERROR_TOKEN, NULL);
    infer_generate_options endless = c.generate;
    endless.max_tokens = 0; /* 256 tokens are set apart: they never fit */
    REFUSED(bad.generate = &endless, INFER_ERROR_LIMIT, NULL);
    bad = o;
    bad.size = 8;
    assert_int_equal(infer_scheduler_submit(s, &bad, &r, &error), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_scheduler_submit(s, NULL, &r, &error), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_scheduler_submit(NULL, &o, &r, &error), INFER_ERROR_ARGUMENT);
    o.callback = NULL;
    for (int i = 0; i < 2; i++) { /* all wait until a step */
        ok(infer_scheduler_submit(s, &o, &r, &error));
        infer_request_release(r);
    }
    r = NULL;
    REFUSED(bad.priority = 1, INFER_ERROR_LIMIT, NULL);
    infer_scheduler_release(s);
    infer_scheduler_release(NULL);
    infer_request_release(NULL);
    infer_request_cancel(NULL);
}

/* Priority before turns before order. */
static void test_order(void **state)
{
    (void)state;
    static struct sched_answer a[10];
    static const struct {
        uint64_t client;
        int32_t priority;
    } who[10] = {{1, 0}, {1, 0}, {1, 0}, {1, 0}, {2, 0}, {2, 0}, {3, -1}, {1, 5}, {3, 0}, {2, 5}};
    static const int want[11] = {10, 7, 9, 0, 4, 8, 1, 5, 2, 3, 6};
    int order[11] = {0};
    infer_scheduler_options so;
    INFER_INIT(&so);
    so.max_active = 1;
    infer_scheduler *s = sched_new(model, &so);
    memset(a, 0, sizeof a);
    for (int i = 0; i < 10; i++) {
        struct sched_case *c = plain_case((uint32_t)i, 5, 2);
        c->client = who[i].client;
        c->priority = who[i].priority;
        a[i].order = order;
        a[i].at = i;
        infer_request_release(sched_submit(s, c, &a[i]));
    }
    sched_run(s);
    infer_scheduler_release(s);
    assert_memory_equal(order, want, sizeof want);
}

/* A request of higher priority takes the place of a lower one, which loses nothing. */
static void test_priority_sets_aside(void **state)
{
    (void)state;
    static struct sched_case low, high;
    static struct sched_answer want[2], a, b;
    low = *plain_case(1, 30, 40);
    high = *plain_case(2, 20, 10);
    high.priority = 1;
    sched_alone(model, &low, 0, &want[0]);
    sched_alone(model, &high, 0, &want[1]);
    infer_scheduler_options so;
    INFER_INIT(&so);
    so.max_active = 1;
    infer_scheduler *s = sched_new(model, &so);
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    infer_request *r = sched_submit(s, &low, &a);
    for (int i = 0; i < 10; i++)
        ok(infer_scheduler_step(s, NULL, NULL, &error));
    uint64_t n = a.n;
    assert_int_equal(n, 10);
    infer_request_release(sched_submit(s, &high, &b));
    while (!b.ended)
        ok(infer_scheduler_step(s, NULL, NULL, &error));
    assert_int_equal(a.n, n);
    sched_run(s);
    assert_int_equal(sched_request_info(r).preemptions, 1);
    infer_request_release(r);
    infer_scheduler_release(s);
    sched_same(&want[0], &a);
    sched_same(&want[1], &b);
}

/* However many come later with a higher priority: after 256 of them the first one's turn has come, also when it was set aside. */
static void test_nobody_starves(void **state)
{
    (void)state;
    static struct sched_answer low[2], high;
    infer_scheduler_options so;
    INFER_INIT(&so);
    so.max_active = 1;
    infer_scheduler *s = sched_new(model, &so);
    memset(low, 0, sizeof low);
    infer_request_release(sched_submit(s, plain_case(1, 5, 6), &low[0]));
    ok(infer_scheduler_step(s, NULL, NULL, &error)); /* it has begun when the others come */
    infer_request_release(sched_submit(s, plain_case(2, 5, 6), &low[1]));
    int n = 0;
    for (; !low[1].ended; n++) {
        assert_true(n < 600);
        memset(&high, 0, sizeof high);
        struct sched_case *c = plain_case(3, 1, 1);
        c->priority = INT32_MAX;
        infer_request_release(sched_submit(s, c, &high));
        while (!high.ended)
            ok(infer_scheduler_step(s, NULL, NULL, &error));
        if (low[0].ended) /* it ran to its end once its turn had come */
            assert_int_equal(low[0].n, 6);
    }
    assert_true(n >= 256 && n <= 260);
    infer_scheduler_release(s);
}

/* A cancelled step keeps what it has, and the next one goes on. */
static void test_cancelled_step(void **state)
{
    (void)state;
    static struct sched_answer want, got;
    infer_cancel *cancel;
    ok(infer_cancel_create(&cancel, &error));
    infer_scheduler *s = sched_new(model, NULL);
    memset(&got, 0, sizeof got);
    sched_alone(model, plain_case(8, 300, 12), 0, &want);
    infer_request_release(sched_submit(s, plain_case(8, 300, 12), &got));
    int32_t more = 1;
    for (int i = 0; more; i++) {
        uint64_t n = got.n;
        infer_cancel_set(cancel);
        assert_int_equal(infer_scheduler_step(s, &more, cancel, &error), INFER_ERROR_CANCELLED);
        assert_int_equal(error.code, INFER_ERROR_CANCELLED);
        assert_int_equal(got.n, n);
        infer_cancel_clear(cancel);
        ok(infer_scheduler_step(s, &more, cancel, &error));
    }
    infer_scheduler_release(s);
    infer_cancel_release(cancel);
    sched_same(&want, &got);
}

/* Neither sleeps when there is something to wake for (else this test never ends). */
static void test_wait(void **state)
{
    (void)state;
    static struct sched_answer got;
    int32_t more = 1;
    infer_scheduler *s = sched_new(model, NULL);
    infer_scheduler_wake(s);
    infer_scheduler_wake(NULL);
    ok(infer_scheduler_wait(s, &error)); /* nothing to do, but woken */
    ok(infer_scheduler_step(s, &more, NULL, &error));
    assert_int_equal(more, 0);
    memset(&got, 0, sizeof got);
    infer_request_release(sched_submit(s, plain_case(1, 4, 2), &got));
    for (more = 1; more;) {
        ok(infer_scheduler_wait(s, &error));
        ok(infer_scheduler_step(s, &more, NULL, &error));
    }
    assert_int_equal(got.ended, 1);
    assert_int_equal(infer_scheduler_wait(NULL, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_scheduler_step(NULL, NULL, NULL, NULL), INFER_ERROR_ARGUMENT);
    infer_scheduler_release(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_request),
        cmocka_unit_test(test_polling),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_time_limits),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_outgrown),
        cmocka_unit_test(test_fits_exactly),
        cmocka_unit_test(test_outgrown_by_shifted_ones),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_priority_sets_aside),
        cmocka_unit_test(test_nobody_starves),
        cmocka_unit_test(test_cancelled_step),
        cmocka_unit_test(test_wait),
    };
    return cmocka_run_group_tests_name("scheduler", tests, setup, teardown);
}
