/* Memory that fails at any of the scheduler's allocations: calls fail, or requests end with NO_MEMORY, or nothing is noticed; nothing is lost. */
#include <stdbool.h>
#include <stdio.h>

#include "sched_util.h"
#include "tempdir.h"

static struct sched_case cases[3];
static struct sched_answer want[5], got[5]; /* two of the first request, one of each other: 0, 1; 2; 4 */

static struct test_alloc counted;

/* Two requests by callback, one of them of two choices, and one that is asked; with a prefix cache. Every request that was taken ends; what ended well
 * has the bits of always. Returns whether all went well. */
static bool scenario(infer_model *m, const infer_scheduler_options *o)
{
    infer_scheduler *s;
    infer_status st = infer_scheduler_create(m, o, &s, &error);
    bool good = st == INFER_OK;
    infer_request *polled = NULL;
    uint32_t n = 0;
    if (!good) {
        assert_int_equal(st, INFER_ERROR_NO_MEMORY);
        return false;
    }
    memset(got, 0, sizeof got);
    for (uint32_t k = 0; k < 3; k++) {
        infer_request_options ro;
        infer_adapter_use use;
        sched_options(&cases[k], &got[2 * k], &ro, &use);
        ro.flags |= k ? INFER_REQUEST_ECHO : 0;
        ro.flags |= k == 1 ? INFER_REQUEST_PROMPT_LOGPROBS : 0;
        ro.callback = k == 2 ? NULL : ro.callback;
        st = infer_scheduler_submit(s, &ro, k == 2 ? &polled : NULL, &error);
        assert_true(st == INFER_OK || st == INFER_ERROR_NO_MEMORY);
        got[2 * k].at = st == INFER_OK;
        n += st == INFER_OK;
    }
    int32_t more = 1;
    for (int i = 0; more; i++) {
        assert_true(i < 1000);
        ok(infer_scheduler_step(s, &more, NULL, &error));
        infer_request_event ev;
        INFER_INIT(&ev);
        while (polled && infer_request_next(polled, &ev, NULL) == INFER_OK)
            sched_event(&got[4], polled, &ev);
    }
    infer_scheduler_info i = sched_info(s);
    assert_int_equal(i.finished + i.failed, n);
    assert_int_equal(i.kv_bytes, 0);
    infer_request_release(polled);
    infer_scheduler_release(s);
    good = n == 3;
    for (uint32_t k = 0; k < 5; k++) {
        if (k == 1 || k == 3 ? !got[k - 1].at : !got[k].at)
            continue;
        if (k == 3)
            continue; /* there is no second choice */
        assert_int_equal(got[k].done, 1);
        assert_int_equal(got[k == 1 ? 0 : k].ended, 1);
        if (got[k].reason == INFER_FINISH_ERROR)
            assert_int_equal(got[k].status, INFER_ERROR_NO_MEMORY);
        else
            sched_same(&want[k], &got[k]);
        good &= got[k].reason != INFER_FINISH_ERROR;
    }
    return good;
}

static void test_no_memory(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        const char *folder = tempdir_make();
        infer_allocator a = test_infer_allocator(&counted);
        infer_engine_options eo;
        infer_engine *engine;
        infer_model *m;
        infer_scheduler_options o;
        INFER_INIT(&o);
        INFER_INIT(&eo);
        INFER_INIT(&error);
        eo.threads = 1;
        eo.allocator = &a;
        eo.cache_bytes = way ? 0 : 1u << 20;
        ok(infer_engine_create(&eo, &engine, &error));
        ok(infer_model_open_path(engine, way == 1 ? SCHED_TINY : fixture_path("gemma3"), &m, &error));
        for (uint32_t k = 0; k < 3; k++) {
            sched_case_of(&cases[k], 2 * k + 1, sched_vocab(m)); /* they begin alike */
            cases[k].n_ids = 66 + k;
            cases[k].generate.max_tokens = way == 1 ? 2 : 3;
            cases[k].n = k ? 1 : 2;
            cases[k].sampling.top_logprobs = k == 1 ? 3 : 0;
            cases[k].flags = INFER_REQUEST_IGNORE_EOS;
            sched_alone(m, &cases[k], 0, &want[2 * k]);
        }
        sched_alone(m, &cases[0], 1, &want[1]);
        ok(infer_engine_cache_clear(engine, &error));
        if (way == 2) { /* answers go to files and come back */
            o.kv_budget = 4 * sched_page_bytes(m);
            o.reserve_tokens = 1;
            o.spill_path = folder;
            o.spill_path_len = INFER_ZSTR;
        }
        int64_t live = counted.live;
        bool good = false;
        uint64_t failed = 0;
        for (uint64_t k = 1;; k++) { /* until none fails any more */
            counted.calls = 0;
            counted.fail_at = k;
            good = scenario(m, &o);
            bool over = counted.calls < k;
            counted.fail_at = 0;
            failed += !good;
            ok(infer_engine_cache_clear(engine, &error));
            assert_true(counted.live <= live + 8); /* what the engine keeps for the next step */
            live = counted.live > live ? counted.live : live;
            if (over)
                break;
        }
        assert_true(good && failed > 20);
        counted.fail_rest = 1; /* and when nothing is given any more */
        for (uint64_t k = 1; k < 400; k += 23) {
            counted.calls = 0;
            counted.fail_at = k;
            (void)scenario(m, &o);
            counted.fail_at = 0;
        }
        counted.fail_rest = 0;
        assert_true(scenario(m, &o));
        infer_model_release(m);
        infer_engine_release(engine);
        assert_int_equal(counted.live, 0);
        tempdir_remove();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("scheduler_memory", tests, NULL, NULL);
}
