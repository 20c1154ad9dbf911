/* The cap: whatever goes beyond memory_limit is refused in order, by name, and all that is there goes on. */
#include "testutil.h"

#include <stdio.h>
#include <string.h>

#include "base/budget.h"
#include "base/os_thread.h"
#include "golden.h"
#include "infer/infer.h"
#include "infer/state.h"
#include "ok.h"

#define TINY INFER_SOURCE_DIR "/models/tiny.gguf"
#define N_CTX 2048u

static infer_engine_info info_of(infer_engine *e)
{
    infer_engine_info i;
    INFER_INIT(&i);
    ok(infer_engine_get_info(e, &i, &error));
    return i;
}

static infer_estimate estimate_tiny(uint32_t sessions)
{
    infer_source src;
    infer_estimate_options o;
    infer_estimate e;
    INFER_INIT(&error);
    INFER_INIT(&o);
    INFER_INIT(&e);
    o.n_ctx = N_CTX;
    o.sessions = sessions;
    o.threads = 1;
    o.kv_type = INFER_KV_F32;
    infer_source_path(&src, TINY, INFER_ZSTR);
    ok(infer_model_estimate(NULL, &src, NULL, &o, &e, &error));
    return e;
}

/* The error names the limit, what was wanted, and what is left: less than that. */
static void assert_refused(infer_status st, uint64_t limit)
{
    unsigned long long says, wanted, left;
    assert_int_equal(st, INFER_ERROR_NO_MEMORY);
    if (sscanf(error.text, "the memory_limit of %llu bytes is reached: %llu more were wanted, %llu are left", &says, &wanted, &left) != 3)
        fail_msg("%s (%s)", error.text, error.name);
    assert_int_equal(says, limit);
    assert_true(wanted > left && left <= limit);
}

static infer_session *session_of(infer_model *m)
{
    infer_session *s;
    infer_session_options so;
    INFER_INIT(&so);
    so.n_ctx = N_CTX;
    so.kv_type = INFER_KV_F32;
    ok(infer_session_create(m, &so, &s, &error));
    return s;
}

/* Elements [from, to), one step each 8; the status of the first that fails. */
static infer_status grow(infer_session *s, uint32_t from, uint32_t to)
{
    infer_status st = INFER_OK;
    for (uint32_t n = from; n < to && st == INFER_OK; n += 8) {
        int32_t ids[8];
        infer_step_item it;
        INFER_INIT(&it);
        it.session = s;
        for (uint32_t i = 0; i < 8; i++)
            ids[i] = (int32_t)((n + i) * 31 % 200);
        st = infer_session_append(s, ids, 8, &error);
        if (st == INFER_OK)
            st = infer_step(&it, 1, NULL, &error);
    }
    return st;
}

static const float *last_logits(infer_session *s)
{
    const float *row;
    uint64_t position;
    ok(infer_session_logits(s, 0, &row, &position, &error));
    assert_int_equal(position, N_CTX - 1);
    return row;
}

/* Two sessions where there is room for one: the second is refused, stays as it was, and comes to the same bits when the first is gone. */
static void test_goes_on(void **state)
{
    (void)state;
    infer_engine_options o;
    infer_engine *engine;
    infer_model *m, *free_model;
    infer_model_info mi;
    infer_session_info before, after;
    INFER_INIT(&error);
    INFER_INIT(&o);
    INFER_INIT(&mi);
    INFER_INIT(&before);
    INFER_INIT(&after);
    o.threads = 1;
    o.memory_limit = estimate_tiny(1).memory_bytes;
    ok(infer_engine_create(&o, &engine, &error));
    ok(infer_model_open_path(engine, TINY, &m, &error));
    infer_session *a = session_of(m), *b = session_of(m);
    ok(grow(a, 0, N_CTX));
    infer_status st = grow(b, 0, N_CTX);
    assert_refused(st, o.memory_limit);
    ok(infer_session_get_info(b, &before, &error));
    for (int i = 0; i < 3; i++) { /* again and again: nothing is lost */
        uint64_t used = info_of(engine).memory_bytes;
        infer_step_item it;
        INFER_INIT(&it);
        it.session = b;
        assert_refused(infer_step(&it, 1, NULL, &error), o.memory_limit);
        assert_int_equal(info_of(engine).memory_bytes, used);
        ok(infer_session_get_info(b, &after, &error));
        assert_int_equal(before.length, after.length);
        assert_int_equal(before.computed, after.computed);
    }
    assert_true(before.computed < N_CTX);
    infer_session_release(a);
    infer_step_item rest;
    INFER_INIT(&rest);
    rest.session = b;
    ok(infer_step(&rest, 1, NULL, &error));
    ok(infer_session_get_info(b, &after, &error));
    ok(grow(b, (uint32_t)after.length, N_CTX));
    /* the same without a limit */
    ok(infer_model_open_path(NULL, TINY, &free_model, &error));
    infer_session *c = session_of(free_model);
    ok(grow(c, 0, N_CTX));
    ok(infer_model_get_info(m, &mi, &error));
    assert_memory_equal(last_logits(b), last_logits(c), mi.vocab_size * sizeof(float));
    assert_true(info_of(engine).memory_peak <= o.memory_limit);
    infer_session_release(b);
    infer_session_release(c);
    infer_model_release(free_model);
    infer_model_release(m);
    infer_engine_release(engine);
}

/* Everything that a program does, under limits from next to nothing to what the estimate says: it works, or it is refused by name; the host is
 * never asked for more, and gets all back. */
static infer_status run_under(uint64_t limit, struct test_alloc *count)
{
    infer_allocator a = test_infer_allocator(count);
    infer_engine_options o;
    infer_engine *engine = NULL;
    infer_model *m = NULL;
    infer_session *s = NULL, *fork = NULL;
    infer_checkpoint *checkpoint = NULL;
    infer_session_options so;
    infer_step_item it;
    infer_generate_options g;
    infer_event ev;
    INFER_INIT(&error);
    INFER_INIT(&o);
    INFER_INIT(&so);
    INFER_INIT(&it);
    INFER_INIT(&g);
    INFER_INIT(&ev);
    o.allocator = &a;
    o.threads = 1;
    o.memory_limit = limit;
    g.max_tokens = 20;
    so.n_ctx = N_CTX;
    infer_status st = infer_engine_create(&o, &engine, &error);
    if (st == INFER_OK)
        st = infer_model_open_path(engine, TINY, &m, &error);
    if (st == INFER_OK)
        st = infer_session_create(m, &so, &s, &error);
    if (st == INFER_OK)
        st = infer_session_append_text(s, "Once upon a time there was a limit.", INFER_ZSTR, 0, &error);
    it.session = s;
    if (st == INFER_OK)
        st = infer_step(&it, 1, NULL, &error);
    if (st == INFER_OK)
        st = infer_session_fork(s, &fork, &error);
    if (st == INFER_OK)
        st = infer_checkpoint_create(s, &checkpoint, &error);
    if (st == INFER_OK)
        st = infer_generate_begin(fork, &g, &error);
    while (st == INFER_OK && ev.kind != INFER_EVENT_DONE)
        st = infer_generate_next(fork, &ev, NULL, &error);
    if (st == INFER_OK)
        st = infer_session_restore(fork, checkpoint, &error);
    infer_checkpoint_release(checkpoint);
    infer_session_release(fork);
    infer_session_release(s);
    infer_model_release(m);
    infer_engine_release(engine);
    return st;
}

static void test_every_limit(void **state)
{
    (void)state;
    uint64_t enough = estimate_tiny(2).memory_bytes;
    uint32_t refused = 0, worked = 0;
    for (uint64_t limit = 1; limit < enough; limit += limit / 16 + 50) {
        struct test_alloc count = {0};
        infer_status st = run_under(limit, &count);
        if (st != INFER_OK) {
            assert_refused(st, limit);
            refused++;
        } else {
            worked++;
        }
        assert_true(count.peak_bytes <= (int64_t)limit);
        assert_int_equal(count.live, 0);
        assert_int_equal(count.live_bytes, 0);
    }
    struct test_alloc count = {0};
    ok(run_under(enough, &count));
    assert_true(refused > 50 && worked > 2);
    print_message("%u limits refused, %u were enough\n", refused, worked);
}

/* A failing host is no limit: the text is as it was. */
static void test_host_fails(void **state)
{
    (void)state;
    struct test_alloc count = {.fail_at = 40, .fail_rest = 1};
    infer_status st = run_under(1u << 30, &count);
    assert_int_equal(st, INFER_ERROR_NO_MEMORY);
    assert_null(strstr(error.text, "memory_limit"));
    assert_int_equal(count.live, 0);
}

/* What the prefix cache keeps goes before anything is refused. */
static void test_cache_gives_way(void **state)
{
    (void)state;
    infer_engine_options o;
    infer_engine *engine;
    infer_model *m;
    infer_cache_stats cs;
    INFER_INIT(&error);
    INFER_INIT(&o);
    INFER_INIT(&cs);
    o.threads = 1;
    o.cache_bytes = 1u << 30;
    o.memory_limit = estimate_tiny(1).memory_bytes + (2u << 20);
    ok(infer_engine_create(&o, &engine, &error));
    ok(infer_model_open_path(engine, TINY, &m, &error));
    for (uint32_t round = 0; round < 12; round++) {
        infer_session *s = session_of(m);
        int32_t first[8] = {(int32_t)round + 1, 2, 3, 4, 5, 6, 7, 8};
        ok(infer_session_append(s, first, 8, &error));
        ok(grow(s, 8, N_CTX));
        infer_session_release(s);
    }
    ok(infer_engine_cache_stats(engine, &cs, &error));
    assert_true(cs.insertions >= 12 && cs.evictions > 0);
    assert_true(info_of(engine).memory_peak <= o.memory_limit);
    infer_model_release(m);
    infer_engine_release(engine);
}

/* ---- The counter itself */

enum { THREADS = 4, ROUNDS = 30000, BLOCK = 1000 };

static void *take_and_give(void *arg)
{
    struct budget *b = arg;
    struct alloc a = budget_alloc(b);
    for (int i = 0; i < ROUNDS; i++) {
        void *p = mem_alloc(&a, BLOCK - 32);
        if (!p || budget_used(b) > b->limit)
            return b;
        mem_free(&a, p);
    }
    return NULL;
}

struct thread_arg {
    struct budget *b;
    atomic_bool *stop;
    bool failed;
};

static void thread_main(void *arg)
{
    struct thread_arg *t = arg;
    t->failed = take_and_give(t->b) != NULL;
}

/* Asks for more than there is, as long as the others are at work. */
static void greedy_main(void *arg)
{
    struct thread_arg *t = arg;
    while (!t->failed && !atomic_load(t->stop))
        t->failed = budget_take(t->b, t->b->limit + 1);
}

/* What is being given back still counts: a host's allocator never sees more than the limit. */
static struct budget *watched;

static void *count_get(void *user, size_t size, size_t align)
{
    return alloc_default.get(user, size, align);
}

static void count_put(void *user, void *block, size_t size, size_t align)
{
    if (watched)
        assert_true(budget_used(watched) >= size);
    alloc_default.put(user, block, size, align);
}

static void test_given_back(void **state)
{
    (void)state;
    const struct alloc from = {NULL, count_get, count_put};
    struct budget b;
    budget_init(&b, &from, 1 << 20);
    struct alloc a = budget_alloc(&b);
    watched = &b;
    void *p = mem_alloc(&a, 1000);
    assert_non_null(p);
    mem_free(&a, p);
    assert_int_equal(budget_used(&b), 0);
    /* one that lies in memory of its own goes with that */
    watched = NULL;
    budget_init(&b, &from, 0);
    struct budget *own = mem_alloc(&a, sizeof *own);
    budget_init(own, &from, 0);
    a = budget_alloc(own);
    mem_free(&a, own);
}

/* There is just room for a block of each thread: none is ever refused, whatever else is, and in the end all is given back. */
static void test_threads(void **state)
{
    (void)state;
    struct budget b;
    struct os_thread threads[THREADS + 1];
    struct thread_arg args[THREADS + 1];
    atomic_bool stop = false;
    budget_init(&b, &alloc_default, (uint64_t)THREADS * BLOCK);
    for (int i = 0; i <= THREADS; i++) {
        args[i] = (struct thread_arg){&b, &stop, false};
        if (!os_thread_start(&threads[i], i ? thread_main : greedy_main, &args[i])) {
            assert_int_equal(i, 0); /* a build without threads */
            skip();
        }
    }
    for (int i = THREADS; i >= 0; i--) {
        if (!i)
            atomic_store(&stop, true);
        os_thread_join(&threads[i]);
        assert_false(args[i].failed);
    }
    assert_int_equal(budget_used(&b), 0);
    assert_true(budget_peak(&b) <= b.limit && budget_peak(&b) > 0);
    assert_true(budget_take(&b, b.limit));
    assert_false(budget_take(&b, 1));
    assert_false(budget_take(&b, UINT64_MAX));
    budget_give(&b, b.limit);
    assert_int_equal(budget_used(&b), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goes_on),         cmocka_unit_test(test_every_limit), cmocka_unit_test(test_host_fails),
        cmocka_unit_test(test_cache_gives_way), cmocka_unit_test(test_given_back), cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
