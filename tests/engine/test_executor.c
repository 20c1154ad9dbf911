/* A host's executor in place of the engine's threads: the same bits however it runs the work, and an error when it breaks its contract. */
#include "testutil.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "infer/infer.h"
#include "ok.h"

struct host {
    uint64_t runs;
    uint64_t fail_from; /* runs from this one on are not carried out; 0: none */
};

static int32_t run_serial(void *user, uint32_t count, infer_task_fn task, void *task_arg)
{
    ((struct host *)user)->runs++;
    for (uint32_t i = 0; i < count; i++)
        task(task_arg, i);
    return 0;
}

static int32_t run_reverse(void *user, uint32_t count, infer_task_fn task, void *task_arg)
{
    ((struct host *)user)->runs++;
    while (count-- > 0)
        task(task_arg, count);
    return 0;
}

struct call {
    infer_task_fn task;
    void *task_arg;
    uint32_t i;
};

static void *call_main(void *arg)
{
    struct call *c = arg;
    c->task(c->task_arg, c->i);
    return NULL;
}

static int32_t run_threads(void *user, uint32_t count, infer_task_fn task, void *task_arg)
{
    pthread_t thread[8];
    struct call call[8];
    ((struct host *)user)->runs++;
    for (uint32_t i = 0; i < count; i++) {
        call[i] = (struct call){task, task_arg, i};
        if (pthread_create(&thread[i], NULL, call_main, &call[i]))
            abort();
    }
    for (uint32_t i = 0; i < count; i++)
        pthread_join(thread[i], NULL);
    return 0;
}

static int32_t run_first_only(void *user, uint32_t count, infer_task_fn task, void *task_arg)
{
    struct host *h = user;
    h->runs++;
    bool bad = h->fail_from && h->runs >= h->fail_from;
    for (uint32_t i = 0; i < (bad ? 1 : count); i++)
        task(task_arg, i);
    return 0;
}

static int32_t run_failing(void *user, uint32_t count, infer_task_fn task, void *task_arg)
{
    struct host *h = user;
    if (h->fail_from && ++h->runs >= h->fail_from)
        return -1;
    for (uint32_t i = 0; i < count; i++)
        task(task_arg, i);
    return 0;
}

typedef int32_t run_fn(void *user, uint32_t count, infer_task_fn task, void *task_arg);

/* run NULL: two threads of the engine's own. */
static infer_session *open_session(const char *name, run_fn *run, uint32_t concurrency, struct host *h)
{
    infer_engine_options o;
    infer_executor x;
    infer_engine *e;
    infer_model *m;
    infer_session *s;
    infer_engine_info info;
    INFER_INIT(&error);
    INFER_INIT(&o);
    INFER_INIT(&x);
    x.concurrency = concurrency;
    x.user = h;
    x.run = run;
    if (run)
        o.executor = &x;
    else
        o.threads = 2;
    ok(infer_engine_create(&o, &e, &error));
    INFER_INIT(&info);
    ok(infer_engine_get_info(e, &info, &error));
    assert_int_equal(info.threads, run ? concurrency : 2);
    ok(infer_model_open_path(e, fixture_path(name), &m, &error));
    ok(infer_session_create(m, NULL, &s, &error));
    infer_model_release(m);
    infer_engine_release(e);
    return s;
}

static void run_prompt(infer_session *s, const struct golden *g, float *out)
{
    infer_step_item it;
    INFER_INIT(&it);
    it.session = s;
    it.logits = INFER_ROWS_ALL;
    ok(infer_session_append(s, g->prompt, g->n_prompt, &error));
    ok(infer_step(&it, 1, NULL, &error));
    for (uint32_t i = 0; i < g->n_prompt; i++) {
        const float *row;
        ok(infer_session_logits(s, i, &row, NULL, &error));
        memcpy(out + (size_t)i * g->n_vocab, row, g->n_vocab * sizeof *out);
    }
}

static void test_same_bits(void **state)
{
    static run_fn *const kinds[] = {run_serial, run_reverse, run_threads};
    struct golden g = golden_read(*state);
    size_t n = (size_t)g.n_prompt * g.n_vocab;
    float *want = malloc(n * sizeof *want), *got = malloc(n * sizeof *got);
    infer_session *s = open_session(*state, NULL, 0, NULL);
    run_prompt(s, &g, want);
    infer_session_release(s);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (uint32_t c = 1; c <= 4; c += 3) {
            struct host h = {0};
            s = open_session(*state, kinds[k], c, &h);
            memset(got, 0xFF, n * sizeof *got);
            run_prompt(s, &g, got);
            assert_memory_equal(want, got, n * sizeof *want);
            assert_true(h.runs > 2); /* it was used */
            infer_session_release(s);
        }
    free(want);
    free(got);
    golden_free(&g);
}

/* The first, a middle and the last run of a step go wrong: the step fails, and the session can go on as if nothing had happened. */
static void test_bad_executors(void **state)
{
    static run_fn *const kinds[] = {run_first_only, run_failing};
    struct golden g = golden_read(*state);
    size_t n = (size_t)g.n_prompt * g.n_vocab;
    float *want = malloc(n * sizeof *want), *got = malloc(n * sizeof *got);
    infer_session *s = open_session(*state, NULL, 0, NULL);
    run_prompt(s, &g, want);
    infer_session_release(s);
    struct host count = {0};
    s = open_session(*state, run_serial, 3, &count);
    run_prompt(s, &g, got);
    infer_session_release(s);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const uint64_t at[] = {1, count.runs / 2, count.runs};
        for (int i = 0; i < 3; i++) {
            struct host h = {.fail_from = at[i]};
            infer_step_item it;
            infer_session_info info;
            s = open_session(*state, kinds[k], 3, &h);
            ok(infer_session_append(s, g.prompt, g.n_prompt, &error));
            INFER_INIT(&it);
            it.session = s;
            it.logits = INFER_ROWS_ALL;
            assert_int_equal(infer_step(&it, 1, NULL, &error), INFER_ERROR_HOST);
            assert_int_equal(it.status, INFER_ERROR_HOST);
            assert_non_null(strstr(error.text, "executor"));
            INFER_INIT(&info);
            ok(infer_session_get_info(s, &info, &error));
            assert_int_equal(info.computed, 0);
            assert_int_equal(info.length, g.n_prompt);
            h.fail_from = 0;
            ok(infer_session_truncate(s, 0, NULL, &error));
            run_prompt(s, &g, got);
            assert_memory_equal(want, got, n * sizeof *want);
            infer_session_release(s);
        }
    }
    free(want);
    free(got);
    golden_free(&g);
}

static void test_bad_options(void **state)
{
    (void)state;
    struct host h = {0};
    infer_engine_options o;
    infer_engine *e;
    infer_executor good = {(uint32_t)sizeof good, 2, &h, run_serial}, x;
    INFER_INIT(&error);
    INFER_INIT(&o);
    o.executor = &x;
    x = good;
    x.size--;
    assert_int_equal(infer_engine_create(&o, &e, &error), INFER_ERROR_ARGUMENT);
    x = good;
    x.run = NULL;
    assert_int_equal(infer_engine_create(&o, &e, &error), INFER_ERROR_ARGUMENT);
    assert_string_equal(error.name, "executor");
    for (int i = 0; i < 2; i++) {
        x = good;
        x.concurrency = i ? 257 : 0;
        assert_int_equal(infer_engine_create(&o, &e, &error), INFER_ERROR_ARGUMENT);
        assert_string_equal(error.name, "concurrency");
    }
    x = good;
    o.threads = 2;
    assert_int_equal(infer_engine_create(&o, &e, &error), INFER_ERROR_ARGUMENT);
    assert_string_equal(error.name, "threads");
    o.threads = 0;
    o.size = (uint32_t)offsetof(infer_engine_options, executor); /* an older program: the field is not looked at */
    ok(infer_engine_create(&o, &e, &error));
    infer_engine_release(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_same_bits, (void *)"llama"),
        cmocka_unit_test_prestate(test_same_bits, (void *)"gemma3"),
        cmocka_unit_test_prestate(test_same_bits, (void *)"llama-mix32"),
        cmocka_unit_test_prestate(test_bad_executors, (void *)"llama"),
        cmocka_unit_test_prestate(test_bad_executors, (void *)"llama-mix256"),
        cmocka_unit_test(test_bad_options),
    };
    return cmocka_run_group_tests_name("executor", tests, NULL, NULL);
}
