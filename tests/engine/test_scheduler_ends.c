/* How a scheduler's requests end: a full context, and requests that callbacks submit under a limit of time. */
#include "sched_util.h"

static infer_model *model;
static uint32_t n_vocab;

static int setup(void **state)
{
    (void)state;
    infer_model_info i;
    INFER_INIT(&error);
    INFER_INIT(&i);
    model = sched_model(0, 0);
    ok(infer_model_get_info(model, &i, &error));
    n_vocab = (uint32_t)i.vocab_size;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    infer_model_release(model);
    return 0;
}

/* The reason is told, and so is text that was held back: the stop strings are what the answer's end begins. */
static void test_context_full(void **state)
{
    (void)state;
    static struct sched_case c;
    static struct sched_answer want, got;
    for (uint32_t k = 0; k < 12; k++) {
        sched_case_of(&c, k, n_vocab);
        c.flags = INFER_REQUEST_IGNORE_EOS;
        c.generate.max_tokens = 0;
        c.session.n_ctx = (uint32_t)c.n_ids + 1 + k;
        sched_alone(model, &c, 0, &want);
        assert_int_equal(want.reason, INFER_FINISH_CONTEXT);
        char stop[16] = "";
        uint64_t n = want.text_len < 3 ? want.text_len : 3;
        memcpy(stop, want.text + want.text_len - n, (size_t)n);
        strcat(stop, " and more");
        infer_text stops[] = {{stop, INFER_ZSTR}};
        c.generate.stops = stops;
        c.generate.stop_count = 1;
        memset(&got, 0, sizeof got);
        infer_scheduler *s = sched_new(model, NULL);
        infer_request_release(sched_submit(s, &c, &got));
        sched_run(s);
        infer_scheduler_release(s);
        sched_same(&want, &got);
    }
}

static uint64_t tick(void *user)
{
    return ++*(uint64_t *)user;
}

struct chain {
    infer_scheduler *scheduler;
    struct sched_case *c;
    struct sched_answer second;
    int32_t first;
};

static void submit_limited(struct chain *chain, infer_request_fn fn, void *user)
{
    infer_request_options o;
    infer_adapter_use use;
    sched_options(chain->c, NULL, &o, &use);
    o.callback = fn;
    o.callback_user = user;
    o.time_limit = 1000000;
    ok(infer_scheduler_submit(chain->scheduler, &o, NULL, &error));
}

static void on_first(void *user, infer_request *r, const infer_request_event *ev)
{
    struct chain *chain = user;
    (void)r;
    if (ev->kind == INFER_REQUEST_EVENT_DONE)
        chain->first = ev->finish_reason;
    if (ev->kind == INFER_REQUEST_EVENT_TOKEN)
        infer_request_cancel(r);
    if (ev->kind == INFER_REQUEST_EVENT_END)
        submit_limited(chain, sched_event, &chain->second);
}

/* A request that a callback submits while the step ends others is younger than the moment at which the step began. */
static void test_submitted_while_ending(void **state)
{
    (void)state;
    static struct sched_case c;
    static struct sched_answer want;
    static struct chain chain;
    uint64_t now = 0;
    infer_scheduler_options so;
    INFER_INIT(&so);
    so.clock = tick;
    so.clock_user = &now;
    sched_case_of(&c, 3, n_vocab);
    c.generate.max_tokens = 8;
    sched_alone(model, &c, 0, &want);
    chain.scheduler = sched_new(model, &so);
    chain.c = &c;
    submit_limited(&chain, on_first, &chain);
    sched_run(chain.scheduler);
    infer_scheduler_release(chain.scheduler);
    assert_int_equal(chain.first, INFER_FINISH_CANCELLED);
    assert_int_equal(chain.second.ended, 1);
    sched_same(&want, &chain.second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_context_full),
        cmocka_unit_test(test_submitted_while_ending),
    };
    return cmocka_run_group_tests_name("scheduler ends", tests, setup, teardown);
}
