/* The engine's lock: steps of different threads take turns, batch by batch, and each has the bits that it has alone. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/turns.h"
#include "golden.h"
#include "ok.h"

/* ---- The lock ---- */

enum { TAKERS = 8, ROUNDS = 200 };

static struct turns_hall hall;
static struct turns turns;
static atomic_int inside;
static int order[TAKERS * ROUNDS], n_order;

static void *take_many(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        if (!turns_take(&turns, NULL))
            abort();
        if (atomic_fetch_add(&inside, 1) != 0)
            abort();
        order[n_order++] = *(const int *)arg;
        atomic_fetch_sub(&inside, 1);
        turns_give(&turns);
    }
    return NULL;
}

static void test_one_at_a_time(void **state)
{
    (void)state;
    pthread_t threads[TAKERS];
    int names[TAKERS], seen[TAKERS] = {0};
    assert_true(turns_hall_init(&hall));
    turns = turns_in(&hall);
    for (int i = 0; i < TAKERS; i++) {
        names[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, take_many, &names[i]), 0);
    }
    for (int i = 0; i < TAKERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < n_order; i++)
        seen[order[i]]++;
    for (int i = 0; i < TAKERS; i++)
        assert_int_equal(seen[i], ROUNDS);
    turns_hall_destroy(&hall);
}

static atomic_int came;

static void *take_once(void *arg)
{
    if (!turns_take(&turns, NULL))
        abort();
    atomic_store((atomic_int *)arg, 1 + atomic_fetch_add(&came, 1));
    turns_give(&turns);
    return NULL;
}

static const void *last_waiter(void)
{
    os_mutex_lock(&hall.lock);
    const void *last = turns.last;
    os_mutex_unlock(&hall.lock);
    return last;
}

/* Until somebody else than `before` is the last who waits. */
static void wait_for_waiter(const void *before)
{
    while (last_waiter() == before)
        os_thread_yield();
}

/* Who gives back and takes again comes behind those that wait. */
static void test_in_order(void **state)
{
    (void)state;
    pthread_t threads[3];
    atomic_int places[3];
    assert_true(turns_hall_init(&hall));
    turns = turns_in(&hall);
    assert_true(turns_take(&turns, NULL));
    assert_false(turns_wanted(&turns));
    for (int i = 0; i < 3; i++) {
        atomic_init(&places[i], 0);
        const void *before = last_waiter();
        assert_int_equal(pthread_create(&threads[i], NULL, take_once, &places[i]), 0);
        wait_for_waiter(before);
    }
    assert_true(turns_wanted(&turns));
    turns_give(&turns);
    assert_true(turns_take(&turns, NULL));
    assert_int_equal(atomic_load(&came), 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(atomic_load(&places[i]), i + 1);
    turns_give(&turns);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    turns_hall_destroy(&hall);
}

/* ---- Steps ---- */

enum { LONG = 6000 };

static infer_model *model;
static atomic_int running;

/* The host's executor sees whose jobs come when. It is called under the engine's lock. */
static pthread_t long_thread;
static bool begun, other_came;
static int between; /* how often the other thread's work came between two jobs of the long prompt */

static int32_t run_job(void *user, uint32_t count, infer_task_fn task, void *arg)
{
    (void)user;
    if (!pthread_equal(pthread_self(), long_thread)) {
        other_came = true;
    } else {
        between += begun && other_came;
        begun = true;
        other_came = false;
    }
    for (uint32_t i = 0; i < count; i++)
        task(arg, i);
    return 0;
}

static infer_session *session_of(uint64_t n)
{
    infer_session_options so;
    infer_model_info info;
    infer_session *s;
    int32_t *ids = malloc(n * sizeof *ids);
    INFER_INIT(&so);
    INFER_INIT(&info);
    so.n_ctx = (uint32_t)n + 1;
    if (!ids || infer_model_get_info(model, &info, NULL) != INFER_OK || infer_session_create(model, &so, &s, NULL) != INFER_OK)
        abort();
    for (uint64_t i = 0; i < n; i++)
        ids[i] = (int32_t)((i * 31 + i / 7) % info.vocab_size);
    if (infer_session_append(s, ids, n, NULL) != INFER_OK)
        abort();
    free(ids);
    return s;
}

static void step_one(infer_session *s)
{
    infer_step_item item;
    INFER_INIT(&item);
    item.session = s;
    if (infer_step(&item, 1, NULL, NULL) != INFER_OK)
        abort();
}

static void *step_many(void *arg)
{
    (void)arg;
    while (atomic_load(&running)) {
        infer_session *s = session_of(40);
        step_one(s);
        infer_session_release(s);
    }
    return NULL;
}

static void test_a_long_prompt_lets_others_in(void **state)
{
    (void)state;
    infer_engine *engine;
    infer_engine_options eo;
    infer_executor executor;
    infer_model_info info;
    infer_source source;
    const float *logits, *mine;
    int most = 0;
    INFER_INIT(&error);
    INFER_INIT(&eo);
    INFER_INIT(&executor);
    INFER_INIT(&info);
    executor.concurrency = 2;
    executor.run = run_job;
    eo.executor = &executor;
    infer_source_path(&source, fixture_path("llama"), INFER_ZSTR);
    ok(infer_engine_create(&eo, &engine, &error));
    ok(infer_model_open(engine, &source, NULL, &model, &error));
    ok(infer_model_get_info(model, &info, &error));
    long_thread = pthread_self();
    infer_session *alone = session_of(LONG);
    step_one(alone);
    ok(infer_session_logits(alone, 0, &logits, NULL, &error));
    for (int round = 0; round < 20 && most < 3; round++) { /* the other thread may get no processor for a while */
        pthread_t other;
        infer_session *s = session_of(LONG);
        begun = other_came = false;
        between = 0;
        atomic_store(&running, 1);
        assert_int_equal(pthread_create(&other, NULL, step_many, NULL), 0);
        step_one(s);
        atomic_store(&running, 0);
        assert_int_equal(pthread_join(other, NULL), 0);
        most = between > most ? between : most;
        ok(infer_session_logits(s, 0, &mine, NULL, &error));
        assert_memory_equal(logits, mine, info.vocab_size * sizeof *logits);
        infer_session_release(s);
    }
    print_message("# %d times between two batches of a prompt of %d\n", most, LONG);
    assert_true(most >= 3);
    infer_session_release(alone);
    infer_model_release(model);
    infer_engine_release(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_at_a_time), cmocka_unit_test(test_in_order), cmocka_unit_test(test_a_long_prompt_lets_others_in)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
