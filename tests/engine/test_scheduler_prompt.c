/* Prompts of the scheduler's requests: told again with log-probabilities, from checkpoints, computed once for all that begin alike, in bounded pieces. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "engine/scheduler_state.h"
#include "sched_util.h"

static infer_model *model, *cached, *gemma, *gemma_cached;

static int setup(void **state)
{
    (void)state;
    model = sched_model(0, 0);
    cached = sched_model(64u << 20, 0);
    gemma = sched_model_of(fixture_path("gemma3"), 1, 0, 0);
    gemma_cached = sched_model_of(fixture_path("gemma3"), 1, 64u << 20, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    infer_model_release(model);
    infer_model_release(cached);
    infer_model_release(gemma);
    infer_model_release(gemma_cached);
    return 0;
}

/* ---- Echo ---- */

/* Log-probabilities of the prompt's tokens by one step of a session alone, in double. */
static void score(infer_model *m, const struct sched_case *c, double *out)
{
    infer_session *s;
    infer_step_item it;
    uint32_t v = sched_vocab(m);
    INFER_INIT(&it);
    ok(infer_session_create(m, &c->session, &s, &error));
    ok(infer_session_append(s, c->ids, c->n_ids, &error));
    it.session = s;
    it.logits = INFER_ROWS_ALL;
    ok(infer_step(&it, 1, NULL, &error));
    for (uint64_t i = 1; i < c->n_ids; i++) {
        const float *row;
        double sum = 0, max = -INFINITY;
        ok(infer_session_logits(s, i - 1, &row, NULL, &error));
        for (uint32_t k = 0; k < v; k++)
            max = row[k] > max ? row[k] : max;
        for (uint32_t k = 0; k < v; k++)
            sum += exp(row[k] - max);
        out[i] = row[c->ids[i]] - max - log(sum);
    }
    infer_session_release(s);
}

static void test_echo(void **state)
{
    (void)state;
    static struct sched_case c;
    static struct sched_answer want, got, again;
    static double logprobs[SCHED_PROMPT];
    for (int way = 0; way < 4; way++) {
        infer_model *m = way & 1 ? cached : model;
        bool scored = way & 2;
        infer_scheduler_options so;
        infer_request_options o;
        infer_adapter_use use;
        infer_request *r;
        sched_case_of(&c, 41, sched_vocab(m)); /* with 4 alternatives */
        c.flags |= INFER_REQUEST_ECHO;
        sched_alone(m, &c, 0, &want);
        score(m, &c, logprobs);
        INFER_INIT(&so);
        so.step_elements = 50;
        infer_scheduler *s = sched_new(m, &so);
        memset(&got, 0, sizeof got);
        sched_options(&c, &got, &o, &use);
        o.flags |= scored ? INFER_REQUEST_PROMPT_LOGPROBS : 0;
        ok(infer_scheduler_submit(s, &o, &r, &error));
        sched_run(s);
        sched_same(&want, &got);
        assert_int_equal(got.n_told, c.n_ids);
        assert_memory_equal(got.told, c.ids, c.n_ids * sizeof c.ids[0]);
        double sum = 0;
        for (uint64_t i = 0; i < c.n_ids; i++) {
            sum += (double)got.told_logprobs[i];
            assert_true(fabs((double)got.told_logprobs[i] - (scored && i ? logprobs[i] : 0)) < 1e-4);
            assert_int_equal(got.told_top[i].id >= 0, scored && i);
            assert_true(!scored || !i || got.told_top[i].logprob >= got.told_logprobs[i]);
        }
        assert_true(sched_request_info(r).prompt_logprob == sum);
        infer_request_release(r);
        /* by asking: the same */
        memset(&again, 0, sizeof again);
        o.callback = NULL;
        ok(infer_scheduler_submit(s, &o, &r, &error));
        sched_run(s);
        infer_request_event ev;
        INFER_INIT(&ev);
        while (infer_request_next(r, &ev, NULL) == INFER_OK)
            sched_event(&again, r, &ev);
        infer_request_release(r);
        infer_scheduler_release(s);
        sched_same(&want, &again);
        assert_memory_equal(got.told_logprobs, again.told_logprobs, sizeof got.told_logprobs);
        assert_int_equal(got.told_len, again.told_len);
        assert_memory_equal(got.told_text, again.told_text, (size_t)got.told_len);
    }
}

static void test_echo_is_the_text(void **state)
{
    (void)state;
    static const char text[] = "Once upon a time, a caf\xC3\xA9 in \xF0\x9F\x90\xB1 town";
    static struct sched_answer got;
    infer_request_options o;
    infer_scheduler *s = sched_new(model, NULL);
    memset(&got, 0, sizeof got);
    INFER_INIT(&o);
    o.text = text;
    o.text_len = INFER_ZSTR;
    o.text_flags = INFER_TOKENIZE_ADD_SPECIAL;
    o.flags = INFER_REQUEST_ECHO;
    o.flags |= INFER_REQUEST_PROMPT_ONLY;
    o.callback = sched_event;
    o.callback_user = &got;
    ok(infer_scheduler_submit(s, &o, NULL, &error));
    sched_run(s);
    infer_scheduler_release(s);
    assert_int_equal(got.told_len, sizeof text - 1);
    assert_memory_equal(got.told_text, text, sizeof text - 1);
    assert_int_equal(got.reason, INFER_FINISH_LENGTH);
    assert_int_equal(got.n, 0);
    assert_int_equal(got.ended, 1);
}

/* ---- Checkpoints ---- */

static infer_request *submit_from(infer_scheduler *s, const struct sched_case *c, uint64_t first, uint32_t flags, infer_checkpoint *from,
                                  struct sched_answer *got)
{
    infer_request_options o;
    infer_adapter_use use;
    infer_request *r;
    memset(got, 0, sizeof *got);
    sched_options(c, got, &o, &use);
    o.ids += first;
    o.id_count -= first;
    o.flags |= flags;
    o.checkpoint = from;
    ok(infer_scheduler_submit(s, &o, &r, &error));
    return r;
}

/* An answer that is kept, and what follows it: appended to the checkpoint, or given whole, when what both have in common is not computed again. */
static void test_checkpoints(void **state)
{
    (void)state;
    infer_model *models[] = {model, cached, gemma, gemma_cached};
    static struct sched_case c, longer;
    static struct sched_answer first, want, got;
    for (int i = 0; i < 4; i++) {
        infer_scheduler *s = sched_new(models[i], NULL);
        infer_checkpoint *ckpt = NULL, *none = NULL;
        uint32_t v = sched_vocab(models[i]);
        sched_case_of(&c, 21, v);
        c.n_ids = 150;
        c.flags = INFER_REQUEST_IGNORE_EOS | INFER_REQUEST_KEEP;
        c.generate.max_tokens = 10;
        memset(&first, 0, sizeof first);
        infer_request *r = sched_submit(s, &c, &first);
        assert_int_equal(infer_request_checkpoint(r, 0, &none, NULL), INFER_ERROR_STATE);
        sched_run(s);
        ok(infer_request_checkpoint(r, 0, &ckpt, &error));
        assert_int_equal(infer_request_checkpoint(r, 1, &none, NULL), INFER_ERROR_ARGUMENT);
        infer_request_release(r);
        /* the conversation so far and 20 more */
        longer = c;
        longer.flags = INFER_REQUEST_IGNORE_EOS;
        longer.generate.max_tokens = 16;
        memcpy(longer.ids + c.n_ids, first.ids, 10 * sizeof c.ids[0]);
        for (int k = 0; k < 20; k++)
            longer.ids[c.n_ids + 10 + (uint64_t)k] = (k * 7 + 1) % (int32_t)v;
        longer.n_ids = c.n_ids + 30;
        sched_alone(models[i], &longer, 0, &want);
        r = submit_from(s, &longer, c.n_ids + 10, INFER_REQUEST_CONTINUE, ckpt, &got);
        sched_run(s);
        sched_same(&want, &got);
        assert_int_equal(got.prompt_total, longer.n_ids);
        assert_int_equal(got.prompt_done, c.n_ids + 9); /* the last token of the answer was never computed */
        infer_request_release(r);
        r = submit_from(s, &longer, 0, 0, ckpt, &got);
        sched_run(s);
        sched_same(&want, &got);
        assert_int_equal(got.prompt_done, c.n_ids + 9);
        infer_request_release(r);
        /* another beginning: nothing in common but the first 100 */
        longer.ids[100] = (longer.ids[100] + 1) % (int32_t)v;
        longer.session.cache_flags = INFER_CACHE_NO_LOOKUP;
        sched_alone(models[i], &longer, 0, &want);
        r = submit_from(s, &longer, 0, 0, ckpt, &got);
        sched_run(s);
        sched_same(&want, &got);
        assert_true(got.prompt_done <= 100 && (i >= 2 || got.prompt_done == 100));
        infer_request_release(r);
        /* echoed from where the checkpoint ends, with the log-probability of the first one too */
        struct sched_case echoed = longer;
        echoed.n_ids = 5;
        echoed.flags |= INFER_REQUEST_ECHO;
        infer_request_options o;
        infer_adapter_use use;
        memset(&got, 0, sizeof got);
        sched_options(&echoed, &got, &o, &use);
        o.flags |= INFER_REQUEST_CONTINUE;
        o.checkpoint = ckpt;
        o.flags |= INFER_REQUEST_PROMPT_LOGPROBS;
        ok(infer_scheduler_submit(s, &o, NULL, &error));
        sched_run(s);
        assert_int_equal(got.n_told, 5);
        assert_true(got.told_logprobs[0] < 0);
        /* from the checkpoint as it stands, without more */
        memset(&got, 0, sizeof got);
        sched_options(&longer, &got, &o, &use);
        o.ids = NULL;
        o.id_count = 0;
        o.flags |= INFER_REQUEST_CONTINUE;
        o.checkpoint = ckpt;
        ok(infer_scheduler_submit(s, &o, NULL, &error));
        sched_run(s);
        longer = c;
        longer.generate.max_tokens = 26;
        sched_alone(models[i], &longer, 0, &want);
        assert_memory_equal(want.ids + 10, got.ids, 16 * sizeof got.ids[0]);
        infer_scheduler_release(s);
        infer_checkpoint_release(ckpt);
    }
}

/* ---- The same beginning ---- */

/* Eight requests with 200 elements in common, at once: those are computed once, with and without the cache, with sliding windows too. */
static void test_computed_once(void **state)
{
    (void)state;
    enum { N = 8 };
    infer_model *models[] = {model, cached, gemma, gemma_cached};
    static struct sched_case c[N];
    static struct sched_answer want[N], got[N];
    for (int way = 0; way < 8; way++) {
        infer_model *m = models[way / 2];
        uint64_t needed = 0, shared = 200 + 30 * (uint64_t)(way / 2);
        infer_scheduler_options so;
        INFER_INIT(&so);
        so.max_active = N;
        infer_scheduler *s = sched_new(m, &so);
        memset(got, 0, sizeof got);
        for (uint32_t k = 0; k < N; k++) {
            uint64_t seed = 500 + (uint64_t)way;
            sched_case_of(&c[k], k, sched_vocab(m));
            c[k].flags = INFER_REQUEST_IGNORE_EOS;
            c[k].session.kv_type = way % 2 ? INFER_KV_INT8 : INFER_KV_F16;
            c[k].session.n_ctx = 512;
            c[k].n_ids = shared + (way % 2 ? 1 + 10 * (uint64_t)k : 20);
            for (uint64_t i = 0; i < c[k].n_ids; i++)
                c[k].ids[i] = i < shared ? (int32_t)(test_rand(&seed) % sched_vocab(m)) : (int32_t)(k + 1);
            needed += c[k].n_ids - shared + c[k].generate.max_tokens - 1;
            if (way % 4 < 2) /* in the others it would fill the cache */
                sched_alone(m, &c[k], 0, &want[k]);
        }
        for (uint32_t k = 0; k < N; k++)
            infer_request_release(sched_submit(s, &c[k], &got[k]));
        sched_run(s);
        infer_scheduler_info i = sched_info(s);
        infer_scheduler_release(s);
        assert_in_range(i.computed, needed + shared, needed + shared + 2 * N);
        assert_in_range(i.cached_tokens, (N - 1) * shared - 2 * N, (N - 1) * shared + 2 * N);
        for (uint32_t k = 0; k < N; k++) {
            if (way % 4 >= 2)
                sched_alone(m, &c[k], 0, &want[k]);
            sched_same(&want[k], &got[k]);
        }
    }
}

/* Other salts, KV types and adapters are others' state. */
static void test_not_shared(void **state)
{
    (void)state;
    static struct sched_case c;
    static struct sched_answer got[4];
    infer_model *models[] = {model, cached};
    for (int i = 0; i < 2; i++) {
        infer_scheduler *s = sched_new(models[i], NULL);
        memset(got, 0, sizeof got);
        for (int k = 0; k < 4; k++) {
            sched_case_of(&c, 1, sched_vocab(model));
            uint64_t seed = 900;
            c.n_ids = 150;
            for (uint64_t e = 0; e < c.n_ids; e++)
                c.ids[e] = (int32_t)(test_rand(&seed) % sched_vocab(model));
            c.session.salt = k == 1 ? "tenant" : NULL;
            c.session.salt_len = k == 1 ? 6 : 0;
            c.session.kv_type = k == 2 ? INFER_KV_F32 : INFER_KV_F16;
            c.session.cache_flags = k == 3 ? INFER_CACHE_NO_LOOKUP : 0;
            infer_request_release(sched_submit(s, &c, &got[k]));
        }
        sched_run(s);
        infer_scheduler_release(s);
        for (int k = 0; k < 4; k++)
            assert_int_equal(got[k].prompt_done, 0);
    }
}

/* ---- Pieces ---- */

/* While an answer runs no step computes more than step_elements of the prompts that come, and it gets a token every step; and prompts get on equally. */
static void test_bounded_delay(void **state)
{
    (void)state;
    static struct sched_case c;
    static struct sched_answer running, prompts[3];
    infer_scheduler_options so;
    INFER_INIT(&so);
    so.step_elements = 24;
    infer_scheduler *s = sched_new(model, &so);
    memset(&running, 0, sizeof running);
    memset(prompts, 0, sizeof prompts);
    sched_case_of(&c, 2, sched_vocab(model));
    c.n_ids = 200;
    c.generate.max_tokens = 60;
    c.flags = INFER_REQUEST_IGNORE_EOS;
    infer_request_release(sched_submit(s, &c, &running));
    ok(infer_scheduler_step(s, NULL, NULL, &error));
    assert_int_equal(sched_info(s).computed, 200); /* nobody waits: all at once */
    for (uint32_t k = 0; k < 3; k++) {
        sched_case_of(&c, 4 + 2 * k, sched_vocab(model)); /* these begin differently */
        c.n_ids = 240;
        infer_request_release(sched_submit(s, &c, &prompts[k]));
    }
    uint64_t most = 0, steps = 0;
    while (!prompts[0].started || !prompts[1].started || !prompts[2].started) {
        uint64_t before = running.n, answers = 1 + (uint64_t)(prompts[0].started + prompts[1].started + prompts[2].started);
        uint64_t computed = sched_info(s).computed;
        ok(infer_scheduler_step(s, NULL, NULL, &error));
        computed = sched_info(s).computed - computed - answers;
        most = computed > most ? computed : most;
        assert_int_equal(running.n, before + 1);
        uint64_t least = UINT64_MAX, top = 0;
        for (uint32_t i = 0; i < s->n_active; i++)
            if (!s->active[i]->request->started) {
                uint64_t done = s->active[i]->session->computed;
                least = done < least ? done : least;
                top = done > top ? done : top;
            }
        assert_true(least == UINT64_MAX || top - least <= 8);
        steps++;
    }
    assert_int_equal(most, 24);
    assert_in_range(steps, 30, 32); /* 3 x 240 elements */
    sched_run(s);
    infer_scheduler_release(s);
    assert_int_equal(running.n, 60);
}

/* ---- Callbacks that use the scheduler ---- */

struct chain {
    infer_scheduler *s;
    int left, ended, cancelled;
    bool release;
};

static void submit_link(struct chain *c);

static void on_link(void *user, infer_request *r, const infer_request_event *ev)
{
    struct chain *c = user;
    infer_request_info i;
    INFER_INIT(&i);
    ok(infer_request_get_info(r, &i, &error));
    if (ev->kind == INFER_REQUEST_EVENT_TOKEN && c->left == 2)
        infer_request_cancel(r);
    if (ev->kind == INFER_REQUEST_EVENT_DONE)
        c->cancelled += ev->finish_reason == INFER_FINISH_CANCELLED;
    if (ev->kind != INFER_REQUEST_EVENT_END)
        return;
    c->ended++;
    if (--c->left > 0)
        submit_link(c);
    else if (c->release)
        infer_scheduler_release(c->s);
}

static void submit_link(struct chain *c)
{
    infer_request_options o;
    infer_generate_options g;
    INFER_INIT(&o);
    INFER_INIT(&g);
    g.max_tokens = 5;
    o.text = "Once";
    o.text_len = 4;
    o.generate = &g;
    o.callback = on_link;
    o.callback_user = c;
    ok(infer_scheduler_submit(c->s, &o, NULL, &error));
}

static void test_callbacks_use_the_scheduler(void **state)
{
    (void)state;
    struct chain c = {.s = sched_new(model, NULL), .left = 4, .release = true};
    submit_link(&c);
    for (int32_t more = 1; more;)
        ok(infer_scheduler_step(c.s, &more, NULL, &error)); /* the last one releases it */
    assert_int_equal(c.ended, 4);
    assert_int_equal(c.cancelled, 1);
}

/* The last release ends everything; what is still submitted from there is refused. */
static void on_end(void *user, infer_request *r, const infer_request_event *ev)
{
    struct chain *c = user;
    infer_request_options o;
    (void)r;
    c->cancelled += ev->kind == INFER_REQUEST_EVENT_DONE && ev->finish_reason == INFER_FINISH_CANCELLED;
    c->ended += ev->kind == INFER_REQUEST_EVENT_END;
    INFER_INIT(&o);
    o.text = "Once";
    o.text_len = 4;
    o.callback = on_end;
    if (ev->kind == INFER_REQUEST_EVENT_END)
        assert_int_equal(infer_scheduler_submit(c->s, &o, NULL, NULL), INFER_ERROR_STATE);
}

static void test_release_ends_all(void **state)
{
    (void)state;
    infer_scheduler_options so;
    INFER_INIT(&so);
    so.max_active = 2;
    struct chain c = {.s = sched_new(model, &so)};
    infer_request_options o;
    infer_request *kept;
    infer_request_event ev;
    INFER_INIT(&o);
    o.text = "Once upon a time";
    o.text_len = INFER_ZSTR;
    o.callback = on_end;
    o.callback_user = &c;
    o.n = 2;
    for (int i = 0; i < 3; i++)
        ok(infer_scheduler_submit(c.s, &o, NULL, &error));
    o.callback = NULL;
    ok(infer_scheduler_submit(c.s, &o, &kept, &error));
    for (int i = 0; i < 3; i++)
        ok(infer_scheduler_step(c.s, NULL, NULL, &error));
    infer_scheduler_release(c.s);
    assert_int_equal(c.cancelled, 6);
    assert_int_equal(c.ended, 3);
    INFER_INIT(&ev);
    for (int i = 0; i < 3; i++) { /* a request outlives its scheduler */
        ok(infer_request_next(kept, &ev, &error));
        assert_int_equal(ev.kind, i < 2 ? INFER_REQUEST_EVENT_DONE : INFER_REQUEST_EVENT_END);
    }
    assert_int_equal(sched_request_info(kept).generated_tokens, 0);
    infer_request_release(kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_echo),
        cmocka_unit_test(test_echo_is_the_text),
        cmocka_unit_test(test_checkpoints),
        cmocka_unit_test(test_computed_once),
        cmocka_unit_test(test_not_shared),
        cmocka_unit_test(test_bounded_delay),
        cmocka_unit_test(test_callbacks_use_the_scheduler),
        cmocka_unit_test(test_release_ends_all),
    };
    return cmocka_run_group_tests_name("scheduler_prompt", tests, setup, teardown);
}
