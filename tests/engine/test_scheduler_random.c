/* Random schedules: requests of any kind come, are cancelled and end in any order, under budgets, priorities, files and caches that change from round to
 * round. Whatever was told is what a session alone gives, as far as it got; every request ends once; nothing is left over.
 *
 *     test_scheduler_random [rounds [seed]] */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "sched_util.h"
#include "tempdir.h"

enum { CASES = 24, CHOICES = 4, LIVE = 20 };

static uint64_t rounds = 30, first_seed = 1;
static infer_model *models[4];
static struct sched_case cases[2][CASES];
static struct sched_answer want[2][CASES][CHOICES];

static int setup(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        models[i] = sched_model_of(i & 1 ? SCHED_TINY : fixture_path("gemma3"), 1, i & 2 ? 4u << 20 : 0, 0);
    for (int i = 0; i < 2; i++)
        for (uint32_t k = 0; k < CASES; k++) {
            struct sched_case *c = &cases[i][k];
            sched_case_of(c, k, sched_vocab(models[i]));
            c->session.n_ctx = 512;
            c->n_ids = 1 + c->n_ids % (k % 3 ? 150 : 300);
            c->generate.max_tokens = 1 + k * 7 % 50;
            c->session.kv_type = k % 6 == 5 ? INFER_KV_INT8 : INFER_KV_F16;
            for (uint32_t n = 0; n < CHOICES; n++)
                sched_alone(models[i], c, n, &want[i][k][n]);
        }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        infer_model_release(models[i]);
    return 0;
}

/* A request and what it was told. */
struct live {
    infer_request *r; /* NULL: free */
    bool asked;
    int which;
    struct sched_case c;
    const struct sched_answer *want;
    struct sched_answer got[CHOICES];
};

static struct live live[LIVE];

static void poll(struct live *l)
{
    infer_request_event ev;
    INFER_INIT(&ev);
    while (l->asked && !l->got[0].ended && infer_request_next(l->r, &ev, &error) == INFER_OK)
        sched_event(l->got, l->r, &ev);
}

static void submit(infer_scheduler *s, struct live *l, int model, uint64_t *seed)
{
    infer_request_options o;
    infer_adapter_use use;
    uint32_t k = (uint32_t)(test_rand(seed) % CASES);
    memset(l, 0, sizeof *l);
    l->c = cases[model][k];
    l->want = want[model][k];
    l->c.n = 1 + (uint32_t)(test_rand(seed) % 8 == 0 ? test_rand(seed) % CHOICES : 0);
    l->c.priority = (int32_t)(test_rand(seed) % 4 == 0 ? test_rand(seed) % 3 : 0);
    l->c.client = test_rand(seed) % 3;
    l->c.flags |= (test_rand(seed) % 5 == 0 ? INFER_REQUEST_ECHO : 0) | (test_rand(seed) % 5 == 0 ? INFER_REQUEST_KEEP : 0);
    l->asked = test_rand(seed) % 3 == 0;
    sched_options(&l->c, l->got, &o, &use);
    o.flags |= (l->c.flags & INFER_REQUEST_ECHO) && test_rand(seed) % 2 ? INFER_REQUEST_PROMPT_LOGPROBS : 0;
    if (l->asked)
        o.callback = NULL;
    l->got[0].cancel_after = test_rand(seed) % 10 == 0 ? 3 : 0;
    infer_status st = infer_scheduler_submit(s, &o, &l->r, &error);
    if (st != INFER_OK) {
        assert_int_equal(st, INFER_ERROR_LIMIT);
        l->r = NULL;
    }
}

/* What it was told is the beginning of what it would have been told, or all of it. It ends for want of memory only when it needs more pages than there are. */
static void check(struct live *l, uint64_t pages)
{
    infer_checkpoint *c = NULL;
    for (uint32_t i = 0; i < l->c.n; i++) {
        const struct sched_answer *w = &l->want[i], *g = &l->got[i];
        assert_int_equal(g->done, 1);
        assert_true(g->n <= w->n);
        assert_memory_equal(w->ids, g->ids, g->n * sizeof g->ids[0]);
        if (g->reason == INFER_FINISH_ERROR) {
            assert_int_equal(g->status, INFER_ERROR_LIMIT);
            assert_true((l->c.n_ids + w->n - 1 + 63) / 64 > pages);
        } else if (g->reason != INFER_FINISH_CANCELLED) {
            sched_same(w, g);
        }
        infer_status st = infer_request_checkpoint(l->r, i, &c, NULL);
        if (!(l->c.flags & INFER_REQUEST_KEEP))
            assert_int_equal(st, INFER_ERROR_STATE);
        if (st == INFER_OK)
            infer_checkpoint_release(c);
    }
    infer_request_release(l->r);
    l->r = NULL;
}

static void one_round(uint64_t seed, const char *folder)
{
    int model = (int)(test_rand(&seed) % 4);
    infer_model *m = models[model];
    infer_scheduler_options o;
    INFER_INIT(&o);
    o.max_active = 1 + (uint32_t)(test_rand(&seed) % 9);
    o.step_elements = 1 + (uint32_t)(test_rand(&seed) % 80);
    o.max_waiting = 12;
    uint64_t pages = test_rand(&seed) % 3 ? 2 + test_rand(&seed) % 20 : 0;
    o.kv_budget = pages * sched_page_bytes(m);
    o.reserve_tokens = test_rand(&seed) % 2 ? 1 : 40;
    if (test_rand(&seed) % 2) {
        o.spill_path = folder;
        o.spill_path_len = INFER_ZSTR;
    }
    infer_scheduler *s = sched_new(m, &o);
    int32_t more = 1;
    for (int i = 0; i < 150 || more; i++) {
        assert_true(i < 20000);
        struct live *l = &live[test_rand(&seed) % LIVE];
        if (!l->r && i < 150)
            submit(s, l, model & 1, &seed);
        else if (l->r && test_rand(&seed) % 40 == 0)
            infer_request_cancel(l->r);
        ok(infer_scheduler_step(s, &more, NULL, &error));
        assert_true(!o.kv_budget || sched_info(s).kv_bytes <= o.kv_budget);
        for (int k = 0; k < LIVE; k++)
            if (live[k].r) {
                poll(&live[k]);
                if (live[k].got[0].ended)
                    check(&live[k], pages);
            }
    }
    infer_scheduler_info i = sched_info(s);
    assert_int_equal(i.active + i.waiting + i.suspended + i.kv_bytes, 0);
    assert_int_equal(i.submitted, i.finished + i.cancelled + i.failed);
    for (int k = 0; k < LIVE; k++)
        assert_null(live[k].r);
    infer_scheduler_release(s);
    assert_int_equal(tempdir_count(""), 0);
}

static void test_random(void **state)
{
    (void)state;
    const char *folder = tempdir_make();
    for (uint64_t i = 0; i < rounds; i++) {
        uint64_t seed = (first_seed + i) * 0x9E3779B97F4A7C15u;
        one_round(seed, folder);
    }
    tempdir_remove();
}

int main(int argc, char **argv)
{
    rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : rounds;
    first_seed = argc > 2 ? strtoull(argv[2], NULL, 10) : first_seed;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests_name("scheduler_random", tests, setup, teardown);
}
