/* Forks and checkpoints: what goes on from them has the bits of the session they were made of, and costs next to nothing. */
#include "gemma_state.h"

#include <math.h>
#include <string.h>

static void same_logits(const infer_session *a, const infer_session *b)
{
    const float *x, *y;
    uint64_t p, q;
    ok(infer_session_logits(a, 0, &x, &p, &error));
    ok(infer_session_logits(b, 0, &y, &q, &error));
    assert_int_equal(p, q);
    assert_memory_equal(x, y, g.n_vocab * sizeof *x);
}

static infer_event next(infer_session *s)
{
    infer_event ev;
    do {
        INFER_INIT(&ev);
        ok(infer_generate_next(s, &ev, NULL, &error));
    } while (ev.kind == INFER_EVENT_PREFILL);
    return ev;
}

/* A checkpoint keeps what was, whatever becomes of the session; restored, it goes on as that one did. */
static void test_restore(void **state)
{
    (void)state;
    infer_session *s = session_of(INFER_KV_F32, 0), *t = session_of(INFER_KV_INT8, 8), *u;
    infer_checkpoint *c;
    int32_t ids[150];
    append(s, 0, 150);
    step(s);
    append(s, 3, 2); /* pending ones too */
    ok(infer_checkpoint_create(s, &c, &error));
    infer_checkpoint_info i = about(c);
    assert_int_equal(i.length, 152);
    assert_int_equal(i.computed, 150);
    assert_int_equal(i.kv_type, INFER_KV_F32);
    assert_int_equal(i.logits_rows, 1);
    assert_int_equal(i.generating, 0);
    assert_int_equal(i.approximate, 0);
    assert_int_equal(i.kv_bytes, info_of(s).kv_bytes);
    assert_int_equal(i.kv_shared_bytes, i.kv_bytes);
    assert_int_equal(info_of(s).kv_shared_bytes, i.kv_bytes);
    assert_int_equal(i.kv_mapped_bytes, 0);
    ok(infer_checkpoint_tokens(c, 2, 150, ids, &error));
    assert_int_equal(ids[0], g.prompt[2]);
    assert_int_equal(infer_checkpoint_tokens(c, 3, 150, ids, &error), INFER_ERROR_ARGUMENT);
    assert_ptr_equal(infer_checkpoint_model(c), model);

    append(t, 5, 7); /* a session with a life of its own */
    step(t);
    ok(infer_session_restore(t, c, &error));
    ok(infer_checkpoint_session(c, &u, &error));
    assert_int_equal(info_of(t).n_ctx, info_of(s).n_ctx);
    assert_int_equal(info_of(t).length, 152);
    same_logits(s, t); /* those of the step before */
    for (int k = 0; k < 3; k++) {
        infer_session *const all[3] = {s, t, u};
        append(all[k], 17, 20); /* first the original: its pages are shared with the checkpoint */
        step(all[k]);
    }
    same_logits(s, t);
    same_logits(s, u);
    assert_int_equal(about(c).length, 152);
    ok(infer_session_truncate(s, 0, NULL, &error));
    infer_session_release(s);
    infer_session_release(t);
    ok(infer_session_truncate(u, 1, NULL, &error));
    ok(infer_session_restore(u, c, &error)); /* a second time, and the session it came from is gone */
    s = session_of(INFER_KV_F32, 0);
    append(s, 0, 150);
    append(s, 3, 2);
    step(s);
    step(u);
    same_logits(s, u);
    infer_checkpoint_release(c);
    append(u, 1, 70);
    append(s, 1, 70);
    step(s);
    step(u);
    same_logits(s, u);
    infer_session_release(s);
    infer_session_release(u);
}

/* Sampler, and an answer in the middle: the next events are the same ones. */
static void test_generating(void **state)
{
    (void)state;
    infer_session *s = session_of(INFER_KV_F16, 0), *t = session_of(INFER_KV_F16, 0), *f;
    infer_sampling sampling;
    infer_generate_options o;
    infer_checkpoint *c;
    infer_event e = {0};
    int32_t ids[10];
    INFER_INIT(&sampling);
    INFER_INIT(&o);
    const infer_bias bias = {7, -INFINITY};
    sampling.temperature = 2;
    sampling.seed = 5;
    sampling.bias = &bias;
    sampling.bias_count = 1;
    o.max_tokens = 10;
    o.flags = INFER_GENERATE_IGNORE_EOS;
    ok(infer_session_set_sampling(s, &sampling, &error));
    append(s, 0, 30);
    ok(infer_generate_begin(s, &o, &error));
    for (int i = 0; i < 4; i++)
        (void)next(s);
    ok(infer_checkpoint_create(s, &c, &error));
    assert_int_equal(about(c).generating, 1);
    for (int i = 0; i < 6; i++)
        ids[i] = next(s).id;
    e = next(s);
    assert_int_equal(e.kind, INFER_EVENT_DONE);
    for (int round = 0; round < 2; round++) { /* into a stranger, and into the session itself, whose answer is over */
        infer_session *to = round ? s : t;
        ok(infer_session_restore(to, c, &error));
        for (int i = 0; i < 6; i++)
            assert_int_equal(next(to).id, ids[i]);
        e = next(to);
        assert_int_equal(e.kind, INFER_EVENT_DONE);
        assert_int_equal(e.finish_reason, INFER_FINISH_LENGTH);
    }
    ok(infer_session_fork(t, &f, &error)); /* a fork is not generating */
    INFER_INIT(&e);
    assert_int_equal(infer_generate_next(f, &e, NULL, NULL), INFER_ERROR_STATE);
    infer_session_release(f);
    infer_session_release(s);
    infer_session_release(t);
    infer_checkpoint_release(c);
}

static void test_refused(void **state)
{
    (void)state;
    infer_session *s = session_of(INFER_KV_F16, 0), *o, *none = NULL;
    infer_model *other;
    infer_checkpoint *c, *nc = NULL;
    infer_checkpoint_info i;
    const float *row;
    INFER_INIT(&i);
    append(s, 0, 10);
    ok(infer_checkpoint_create(s, &c, &error));
    ok(infer_model_open_path(engine, fixture_path("qwen2"), &other, &error));
    ok(infer_session_create(other, NULL, &o, &error));
    int32_t ids[5] = {1, 2, 3, 4, 5};
    ok(infer_session_append(o, ids, 5, &error));
    step(o);
    ok(infer_session_logits(o, 0, &row, NULL, &error));
    float was[8];
    memcpy(was, row, sizeof was);
    assert_int_equal(infer_session_restore(o, c, &error), INFER_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "another model"));
    assert_int_equal(info_of(o).length, 5);
    ok(infer_session_truncate(o, 4, NULL, &error));
    ok(infer_session_append(o, ids + 4, 1, &error));
    step(o);
    ok(infer_session_logits(o, 0, &row, NULL, &error));
    assert_memory_equal(was, row, sizeof was);
    assert_int_equal(infer_checkpoint_create(NULL, &nc, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_checkpoint_create(s, NULL, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_session_restore(NULL, c, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_session_restore(s, NULL, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_checkpoint_session(NULL, &none, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_checkpoint_session(c, NULL, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_checkpoint_get_info(NULL, &i, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_checkpoint_get_info(c, NULL, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_checkpoint_tokens(NULL, 0, 0, ids, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_checkpoint_tokens(c, 0, 1, NULL, NULL), INFER_ERROR_ARGUMENT);
    assert_null(infer_checkpoint_ref(NULL));
    assert_null(infer_checkpoint_model(NULL));
    infer_checkpoint_release(NULL);
    assert_null(nc);
    assert_null(none);
    infer_session_release(o);
    infer_model_release(other);
    infer_session_release(s);
    infer_checkpoint_release(c);
}

/* 8,192 elements: a fork, a checkpoint and a restore take less than a thousandth of the KV memory. */
static void test_fork_memory(void **state)
{
    (void)state;
    infer_model *m; /* a full-attention one: a window would not hold the KV of 8,192 elements */
    ok(infer_model_open_path(engine, fixture_path("qwen3"), &m, &error));
    for (int k = 0; k < 2; k++) {
        infer_session *s = session_of_model(m, k ? INFER_KV_F32 : INFER_KV_F16, 8193), *f;
        infer_session *t = session_of_model(m, INFER_KV_BF16, 8);
        infer_checkpoint *c;
        append(s, 0, 8192);
        step(s);
        const int64_t kv = (int64_t)info_of(s).kv_bytes, before = counted.live_bytes;
        ok(infer_session_fork(s, &f, &error));
        const int64_t fork = counted.live_bytes - before;
        ok(infer_checkpoint_create(s, &c, &error));
        const int64_t checkpoint = counted.live_bytes - before - fork;
        ok(infer_session_restore(t, c, &error));
        const int64_t restored = counted.live_bytes - before - fork - checkpoint;
        print_message("# %lld bytes of KV; fork %lld, checkpoint %lld, restore %lld\n", (long long)kv, (long long)fork,
                      (long long)checkpoint, (long long)restored);
        assert_true(fork * 1000 < kv);
        assert_true(checkpoint * 1000 < kv);
        assert_true(restored * 1000 < kv);
        assert_int_equal(info_of(f).kv_shared_bytes, kv);
        infer_session_release(s);
        infer_session_release(f);
        infer_session_release(t);
        infer_checkpoint_release(c);
    }
    infer_model_release(m);
}

/* Everything that makes state of state. Releases what it made, whatever failed. */
static infer_status scenario(infer_session *s, infer_session *to)
{
    infer_session *f = NULL, *n = NULL;
    infer_checkpoint *c = NULL, *d = NULL;
    infer_store *store = NULL;
    infer_step_item it;
    INFER_INIT(&it);
    infer_status st = infer_session_fork(s, &f, &error);
    if (st == INFER_OK)
        st = infer_session_append(f, g.prompt, 3, &error); /* copies what is shared */
    it.session = f;
    if (st == INFER_OK)
        st = infer_step(&it, 1, NULL, &error);
    if (st == INFER_OK)
        st = infer_checkpoint_create(s, &c, &error);
    if (st == INFER_OK)
        st = infer_store_open(engine, NULL, 0, NULL, &store, &error);
    if (st == INFER_OK)
        st = infer_store_put(store, "a", INFER_ZSTR, c, 0, NULL, &error);
    if (st == INFER_OK)
        st = infer_store_branch(store, "a", INFER_ZSTR, "b", INFER_ZSTR, 0, &error);
    if (st == INFER_OK)
        st = infer_store_rename(store, "b", INFER_ZSTR, "c", INFER_ZSTR, 0, &error);
    if (st == INFER_OK)
        st = infer_store_get(store, model, "c", INFER_ZSTR, NULL, &d, &error);
    if (st == INFER_OK)
        st = infer_checkpoint_session(d, &n, &error);
    if (st == INFER_OK)
        st = infer_session_restore(to, d, &error);
    infer_session_release(f);
    infer_session_release(n);
    infer_checkpoint_release(c);
    infer_checkpoint_release(d);
    infer_store_release(store);
    return st;
}

/* Every allocation fails once, alone and with all later ones: an error, no leak, and both sessions go on as if nothing had been. */
static void test_no_memory(void **state)
{
    (void)state;
    infer_session *s = session_of(INFER_KV_F16, 0), *ref = session_of(INFER_KV_F16, 0), *refto = session_of(INFER_KV_F16, 0);
    infer_sampling sampling;
    const infer_bias bias = {7, -1};
    uint64_t failures = 0;
    INFER_INIT(&sampling);
    sampling.bias = &bias;
    sampling.bias_count = 1;
    ok(infer_session_set_sampling(s, &sampling, &error));
    append(s, 0, 130);
    append(ref, 0, 130);
    append(refto, 5, 40);
    step(ref);
    step(refto);
    for (uint64_t k = 1;; k++) {
        for (int rest = 0; rest < 2; rest++) {
            infer_session *to = session_of(INFER_KV_F16, 0);
            append(to, 5, 40);
            step(to);
            step(s);
            const int64_t live = counted.live;
            counted.calls = 0;
            counted.fail_at = k;
            counted.fail_rest = rest;
            infer_status st = scenario(s, to);
            counted.fail_at = 0;
            if (st == INFER_OK) {
                same_logits(to, ref); /* restored */
                infer_session_release(to);
                infer_session_release(s);
                infer_session_release(ref);
                infer_session_release(refto);
                print_message("# each of %llu allocations failed, alone and with all later ones\n", (unsigned long long)failures / 2);
                assert_true(failures > 30);
                return;
            }
            failures++;
            assert_int_equal(st, INFER_ERROR_NO_MEMORY);
            assert_int_equal(counted.live, live);
            same_logits(to, refto);
            same_logits(s, ref);
            assert_int_equal(infer_session_truncate(to, 39, NULL, &error), INFER_OK);
            append(to, 44, 1);
            step(to);
            same_logits(to, refto);
            infer_session_release(to);
        }
    }
}

/* 1,000 sessions on one prompt of 2,000 elements, with 20 of their own each: KV memory is the prompt once and at most two pages each. */
static void test_thousand_sessions(void **state)
{
    (void)state;
    enum { N = 1000, PROMPT = 2000, OWN = 20 };
    static infer_session *all[N];
    static infer_step_item it[N];
    static const char *const models[] = {"qwen3", "gemma3"}; /* full attention, and windows with a few full layers */
    for (int k = 0; k < 2; k++) {
        infer_model *m;
        infer_engine_info info;
        ok(infer_model_open_path(engine, fixture_path(models[k]), &m, &error));
        infer_session *s = session_of_model(m, INFER_KV_F16, 2100);
        for (int i = 0; i < PROMPT; i++) {
            int32_t id = (i * 7 + i / 100) % 150;
            ok(infer_session_append(s, &id, 1, &error));
        }
        step(s);
        const uint64_t prompt = info_of(s).kv_bytes;
        INFER_INIT(&info);
        ok(infer_engine_get_info(engine, &info, &error));
        const uint64_t before = info.kv_bytes;
        for (int i = 0; i < N; i++) {
            int32_t own[OWN];
            for (int j = 0; j < OWN; j++)
                own[j] = (i * 13 + j * 3 + i * j) % 150;
            ok(infer_session_fork(s, &all[i], &error));
            ok(infer_session_append(all[i], own, OWN, &error));
            INFER_INIT(&it[i]);
            it[i].session = all[i];
        }
        ok(infer_step(it, N, NULL, &error));
        ok(infer_engine_get_info(engine, &info, &error));
        /* A page of a session: 64 elements of all layers, of every group. Both models have one page of each group in the first 64. */
        infer_session *one = session_of_model(m, INFER_KV_F16, 64);
        append(one, 0, 1);
        step(one);
        const uint64_t page = info_of(one).kv_bytes;
        print_message("# %s: prompt %llu bytes, a page %llu; %d sessions take %llu: %.3f pages each\n", models[k],
                      (unsigned long long)prompt, (unsigned long long)page, N, (unsigned long long)(info.kv_bytes - before),
                      (double)(info.kv_bytes - before) / (double)page / N);
        assert_true(info.kv_bytes - before <= 2 * N * page);
        infer_session *cold = session_of_model(m, INFER_KV_F16, 2100); /* one of them, computed alone */
        int32_t ids[PROMPT + OWN];
        ok(infer_session_tokens(all[777], 0, PROMPT + OWN, ids, &error));
        ok(infer_session_append(cold, ids, PROMPT + OWN, &error));
        step(cold);
        const float *x, *y;
        infer_model_info mi;
        INFER_INIT(&mi);
        ok(infer_model_get_info(m, &mi, &error));
        ok(infer_session_logits(cold, 0, &x, NULL, &error));
        ok(infer_session_logits(all[777], 0, &y, NULL, &error));
        assert_memory_equal(x, y, mi.vocab_size * sizeof *x);
        for (int i = 0; i < N; i++)
            infer_session_release(all[i]);
        infer_session_release(cold);
        infer_session_release(one);
        infer_session_release(s);
        infer_model_release(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_restore),
        cmocka_unit_test(test_generating),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_fork_memory),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_thousand_sessions),
    };
    return cmocka_run_group_tests_name("checkpoint", tests, setup, teardown);
}
