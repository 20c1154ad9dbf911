/* The scheduler as a host sees it: events, choices, ends, order, limits. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_request),
        cmocka_unit_test(test_polling),
        cmocka_unit_test(test_choices),
    };
    return cmocka_run_group_tests_name("scheduler", tests, setup, teardown);
}
