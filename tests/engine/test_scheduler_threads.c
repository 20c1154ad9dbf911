/* Requests from several threads while one steps and sleeps: every one ends once, with the bits of a session alone, unless it was cancelled. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "sched_util.h"

enum { THREADS = 4, EACH = 12 };

static struct sched_case cases[THREADS * EACH];
static struct sched_answer want[THREADS * EACH], got[THREADS * EACH];
static atomic_int ended, stop;

static void on_event(void *user, infer_request *r, const infer_request_event *ev)
{
    sched_event(user, r, ev);
    if (ev->kind == INFER_REQUEST_EVENT_END)
        atomic_fetch_add(&ended, 1);
}

struct submitter {
    infer_scheduler *s;
    uint32_t first;
};

/* Every third request is asked, every fifth is cancelled by this thread at some moment. No assertions of cmocka off the main thread. */
static void *submit_many(void *arg)
{
    struct submitter *t = arg;
    infer_request *r[EACH];
    for (uint32_t k = 0; k < EACH; k++) {
        infer_request_options o;
        infer_adapter_use use;
        infer_scheduler_info i;
        uint32_t n = t->first + k;
        sched_options(&cases[n], &got[n], &o, &use);
        o.callback = k % 3 ? on_event : NULL;
        o.callback_user = &got[n];
        if (infer_scheduler_submit(t->s, &o, &r[k], NULL) != INFER_OK)
            abort();
        INFER_INIT(&i);
        if (infer_scheduler_get_info(t->s, &i, NULL) != INFER_OK)
            abort();
        if (k && (k - 1) % 5 == 0)
            infer_request_cancel(r[k - 1]);
    }
    for (uint32_t k = 0; k < EACH; k++) {
        infer_request_event ev;
        infer_request_info i;
        INFER_INIT(&ev);
        INFER_INIT(&i);
        for (bool done = k % 3 != 0; !done;) {
            infer_status st = infer_request_next(r[k], &ev, NULL);
            if (st == INFER_OK)
                on_event(&got[t->first + k], r[k], &ev);
            done = st == INFER_OK && ev.kind == INFER_REQUEST_EVENT_END;
        }
        if (infer_request_get_info(r[k], &i, NULL) != INFER_OK)
            abort();
        infer_request_release(r[k]);
    }
    return NULL;
}

static void *step_on(void *arg)
{
    infer_scheduler *s = arg;
    for (int32_t more = 0; !atomic_load(&stop) || more;) {
        if (infer_scheduler_wait(s, NULL) != INFER_OK || infer_scheduler_step(s, &more, NULL, NULL) != INFER_OK)
            abort();
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++) {
        infer_model *m = sched_model_of(SCHED_TINY, 2, way ? 16u << 20 : 0, 0);
        infer_scheduler_options o;
        pthread_t stepper, threads[THREADS];
        struct submitter arg[THREADS];
        INFER_INIT(&o);
        o.max_active = way ? 4 : 16;
        o.kv_budget = way ? 30 * sched_page_bytes(m) : 0;
        o.reserve_tokens = 1;
        infer_scheduler *s = sched_new(m, &o);
        memset(got, 0, sizeof got);
        atomic_store(&ended, 0);
        atomic_store(&stop, 0);
        for (uint32_t k = 0; k < THREADS * EACH; k++) {
            sched_case_of(&cases[k], k, sched_vocab(m));
            cases[k].client = k / EACH;
            sched_alone(m, &cases[k], 0, &want[k]);
        }
        assert_int_equal(pthread_create(&stepper, NULL, step_on, s), 0);
        for (uint32_t i = 0; i < THREADS; i++) {
            arg[i] = (struct submitter){s, i * EACH};
            assert_int_equal(pthread_create(&threads[i], NULL, submit_many, &arg[i]), 0);
        }
        for (uint32_t i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        atomic_store(&stop, 1);
        infer_scheduler_wake(s);
        pthread_join(stepper, NULL);
        infer_scheduler_info i = sched_info(s);
        infer_scheduler_release(s);
        infer_model_release(m);
        assert_int_equal(atomic_load(&ended), THREADS * EACH);
        assert_int_equal(i.submitted, THREADS * EACH);
        assert_int_equal(i.finished + i.cancelled, THREADS * EACH);
        for (uint32_t k = 0; k < THREADS * EACH; k++) {
            assert_int_equal(got[k].ended, 1);
            if (k % EACH % 5)
                sched_same(&want[k], &got[k]);
            else /* cancelled, if it was not faster */
                assert_memory_equal(want[k].ids, got[k].ids, got[k].n * sizeof got[k].ids[0]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests_name("scheduler_threads", tests, NULL, NULL);
}
