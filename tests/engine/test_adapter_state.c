/* Adapters and state: the prefix cache never crosses them (N16), checkpoints and files carry them, forks inherit them, every allocation may fail. */
#include "adapter_tests.h"

#include "base/hash.h"
#include "tempdir.h"

static infer_cache_report report_of(const infer_session *s)
{
    infer_cache_report r;
    INFER_INIT(&r);
    ok(infer_session_cache_report(s, &r, &error));
    return r;
}

/* ---- N16 */

enum { SETS = 8, SHARED = 130 };

static void shared_prompt(int32_t *ids)
{
    for (int i = 0; i < SHARED; i++)
        ids[i] = i * 37 % 157;
}

/* Under set number k: none, five adapters, one of them at another scale, steered. */
static void attach_set(infer_session *s, infer_adapter *const *a, int k)
{
    if (k < 6)
        attach(s, k ? a[k - 1] : NULL, 1);
    else
        attach(s, k == 6 ? a[0] : a[5], 0.5f);
}

static void close_set(infer_adapter **a)
{
    for (int i = 0; i < 6; i++)
        infer_adapter_release(a[i]);
}

static void open_set(infer_model *m, infer_adapter **a)
{
    static const char *const names[] = {"batch1", "batch2", "batch4", "batch7", "batch8", "steering.gguf"};
    for (int i = 0; i < 6; i++)
        a[i] = adapter_of(m, names[i]);
}

/* 10,000 sessions on one shared prefix, under alternating adapters: the logits are always those of a session without a cache, and what is kept in
 * memory stays. */
static void test_alternations(void **state)
{
    (void)state;
    struct test_alloc counted = {0};
    infer_allocator host = test_infer_allocator(&counted);
    infer_engine_options eo;
    infer_engine *engine;
    infer_model *m, *plain = model_with("llama", 1, 0, 0);
    infer_adapter *a[6], *b[6];
    struct golden g = golden_read("llama");
    float *want = malloc(SETS * g.n_vocab * 4), *got = malloc(g.n_vocab * 4);
    int32_t ids[SHARED];
    uint64_t seed = 16, hits = 0;
    int64_t after_warmup = 0;
    INFER_INIT(&eo);
    eo.allocator = &host;
    eo.cache_bytes = 1 << 26;
    eo.threads = 1;
    ok(infer_engine_create(&eo, &engine, &error));
    ok(infer_model_open_path(engine, fixture_path("llama"), &m, &error));
    shared_prompt(ids);
    open_set(plain, b);
    for (int k = 0; k < SETS; k++) {
        infer_session *s = session_of(plain);
        attach_set(s, b, k);
        ok(infer_session_append(s, ids, SHARED, &error));
        last_logits(s, g.n_vocab, want + (size_t)k * g.n_vocab);
        infer_session_release(s);
        for (int i = 0; i < k; i++)
            assert_memory_not_equal(want + (size_t)k * g.n_vocab, want + (size_t)i * g.n_vocab, g.n_vocab * 4);
    }
    open_set(m, a);
    for (int i = 0; i < 10000; i++) {
        int k = (int)(test_rand(&seed) % SETS);
        if (i % 1000 == 999) { /* opened anew, they are the same still */
            close_set(a);
            open_set(m, a);
        }
        infer_session *s = session_of(m);
        attach_set(s, a, k);
        ok(infer_session_append(s, ids, SHARED, &error));
        last_logits(s, g.n_vocab, got);
        assert_memory_equal(got, want + (size_t)k * g.n_vocab, g.n_vocab * 4);
        infer_cache_report r = report_of(s);
        assert_true(r.reused == 0 || r.reused == SHARED - 1);
        hits += r.reused != 0;
        infer_session_release(s);
        if (i == 1000)
            after_warmup = counted.live_bytes;
    }
    assert_int_equal(hits, 10000 - SETS);
    assert_true(counted.live_bytes <= after_warmup + 65536);
    close_set(a);
    close_set(b);
    infer_model_release(m);
    infer_model_release(plain);
    infer_engine_release(engine);
    assert_int_equal(counted.live, 0);
    free(want);
    free(got);
    golden_free(&g);
}

/* One session whose adapters change with every element: the same bits without a cache and with one; its table does not grow without need. */
static void test_changing(void **state)
{
    (void)state;
    infer_model *m[2] = {model_with("llama", 2, 0, 0), model_with("llama", 1, 0, 1 << 26)};
    struct golden g = golden_read("llama");
    float *want = malloc(g.n_vocab * 4), *got = malloc(g.n_vocab * 4);
    for (int round = 0; round < 3; round++) {
        infer_model *in = m[round > 0];
        infer_adapter *a = adapter_of(in, "batch1");
        infer_session *s = session_of(in), *f;
        for (int i = 0; i < 150; i++) {
            attach(s, a, 0.01f * (float)(i % 100));
            ok(infer_session_append(s, &g.prompt[i % 40], 1, &error));
            if (i % 50 == 49 && round == 0)
                last_logits(s, g.n_vocab, got);
        }
        ok(infer_session_fork(s, &f, &error));
        infer_session_release(s);
        last_logits(f, g.n_vocab, round ? got : want);
        if (round)
            assert_memory_equal(got, want, g.n_vocab * 4);
        if (round == 2)
            assert_int_equal(report_of(f).reused, 149);
        infer_session_release(f);
        infer_adapter_release(a);
    }
    infer_session *s = session_of(m[0]); /* 10,000 changes without an element */
    infer_adapter *a = adapter_of(m[0], "batch1");
    for (int i = 0; i < 10000; i++)
        attach(s, a, 1 + (float)i);
    infer_adapter_release(a);
    infer_session_release(s);
    infer_model_release(m[0]);
    infer_model_release(m[1]);
    free(want);
    free(got);
    golden_free(&g);
}

static void test_reason(void **state)
{
    (void)state;
    infer_model *m = model_with("llama", 1, 0, 1 << 26);
    infer_adapter *a = adapter_of(m, "lora-r4");
    int32_t ids[SHARED];
    float logits[512];
    shared_prompt(ids);
    for (int i = 0; i < 3; i++) {
        infer_session *s = session_of(m);
        if (i == 1)
            attach(s, a, 1);
        ok(infer_session_append(s, ids, 64, &error));
        if (i == 2)
            attach(s, a, 1);
        ok(infer_session_append(s, ids + 64, SHARED - 64, &error));
        struct golden g = golden_read("llama");
        assert_true(g.n_vocab <= 512);
        last_logits(s, g.n_vocab, logits);
        golden_free(&g);
        infer_cache_report r = report_of(s);
        assert_int_equal(r.reason, i ? INFER_CACHE_REASON_OTHER_ADAPTERS : INFER_CACHE_REASON_EMPTY);
        assert_int_equal(r.reused, i == 2 ? 64 : 0);
        assert_int_equal(r.difference, i == 2 ? 64 : 0);
        infer_session_release(s);
    }
    infer_adapter_release(a);
    infer_model_release(m);
}

/* ---- checkpoints */

/* A session with everything: a prefix, a soft prompt, elements under two sets, a third in force and pending elements. */
static infer_session *rich(infer_model *m, infer_adapter **held)
{
    static const char *const names[] = {"prefix", "soft-prompt", "lora-r4", "steering.gguf", "alora"};
    struct golden g = golden_read("llama");
    infer_session *s = session_of(m);
    infer_adapter_use u[2];
    float logits[512];
    for (int i = 0; i < 5; i++)
        held[i] = adapter_of(m, names[i]);
    ok(infer_session_append_adapter(s, held[0], &error));
    ok(infer_session_append_adapter(s, held[1], &error));
    attach(s, held[2], 0.75f);
    ok(infer_session_append(s, g.prompt, 20, &error));
    for (int i = 0; i < 2; i++) {
        INFER_INIT(&u[i]);
        u[i].adapter = held[3 + i];
        u[i].scale = 1;
    }
    ok(infer_session_set_adapters(s, u, 2, &error));
    ok(infer_session_append(s, g.prompt + 20, 10, &error));
    last_logits(s, g.n_vocab, logits);
    ok(infer_session_append(s, (int32_t[]){17, 4, 99, 5}, 4, &error)); /* the aLoRA comes into force */
    golden_free(&g);
    return s;
}

static void goes_on(infer_session *s, float *out, uint32_t n_vocab)
{
    ok(infer_session_append(s, (int32_t[]){3, 1, 4}, 3, &error));
    last_logits(s, n_vocab, out);
}

static infer_status load(infer_model *m, const char *name, uint64_t adapters, infer_session **out)
{
    infer_load_options lo;
    infer_checkpoint *c = NULL;
    INFER_INIT(&lo);
    lo.adapters = adapters;
    INFER_INIT(&error);
    infer_status st = infer_checkpoint_open(m, tempdir_path(name), INFER_ZSTR, &lo, NULL, &c, &error);
    if (st != INFER_OK)
        return st;
    ok(infer_checkpoint_session(c, out, &error));
    infer_checkpoint_release(c);
    return INFER_OK;
}

static void save(infer_session *s, const char *name, const char *parent)
{
    infer_checkpoint *c;
    infer_save_options so;
    INFER_INIT(&so);
    so.parent = parent ? tempdir_path(parent) : NULL;
    so.parent_len = parent ? INFER_ZSTR : 0;
    ok(infer_checkpoint_create(s, &c, &error));
    ok(infer_checkpoint_save(c, tempdir_path(name), INFER_ZSTR, &so, NULL, &error));
    infer_checkpoint_release(c);
}

static void test_files(void **state)
{
    (void)state;
    if (!hash_available())
        skip();
    infer_model *m = model_with("llama", 2, 0, 0), *later = model_with("llama", 1, 0, 0);
    infer_adapter *held[5], *again[5] = {0};
    struct golden g = golden_read("llama");
    float *want = malloc(g.n_vocab * 4), *got = malloc(g.n_vocab * 4);
    infer_session *s = rich(m, held), *t = NULL, *f;
    infer_session_info info;
    INFER_INIT(&info);
    (void)tempdir_make();
    save(s, "rich", NULL);
    ok(infer_session_get_info(s, &info, &error));
    ok(infer_session_fork(s, &f, &error));
    goes_on(f, want, g.n_vocab);
    save(f, "delta", "rich");
    infer_session_release(f);
    assert_int_equal(load(later, "rich", 0, &t), INFER_ERROR_VALUE); /* none of its adapters is open */
    assert_string_equal(error.name, "adapters");
    assert_non_null(strstr(error.text, "not open"));
    static const char *const names[] = {"prefix", "soft-prompt", "lora-r4", "steering.gguf", "alora"};
    for (int i = 0; i < 5; i++) {
        if (i)
            assert_int_equal(load(later, "rich", 0, &t), INFER_ERROR_VALUE);
        again[i] = adapter_of(later, names[i]);
    }
    assert_int_equal(load(later, "rich", info.adapters + 1, &t), INFER_ERROR_VALUE);
    for (int k = 0; k < 3; k++) {
        ok(load(later, k == 2 ? "delta" : "rich", k == 1 ? info.adapters : 0, &t));
        infer_session_info there;
        INFER_INIT(&there);
        ok(infer_session_get_info(t, &there, &error));
        assert_int_equal(there.adapters, info.adapters);
        if (k < 2) {
            goes_on(t, got, g.n_vocab);
        } else {
            const float *row;
            ok(infer_session_logits(t, 0, &row, NULL, &error));
            memcpy(got, row, g.n_vocab * 4);
        }
        assert_memory_equal(got, want, g.n_vocab * 4);
        infer_session_release(t);
    }
    infer_session *one = session_of(m), *two = session_of(m); /* rolled back to the middle of a prefix */
    for (int i = 0; i < 2; i++) {
        infer_session *p = i ? two : one;
        ok(infer_session_append_adapter(p, held[0], &error));
        ok(infer_session_append(p, g.prompt, 10, &error));
        last_logits(p, g.n_vocab, i ? got : want);
        ok(infer_session_truncate(p, 2, NULL, &error));
        if (i) /* makes the elements kept pending again: they are written a second time */
            ok(infer_session_fork(p, &f, &error));
        ok(infer_session_append(p, g.prompt + 10, 3, &error));
        last_logits(p, g.n_vocab, i ? got : want);
    }
    assert_memory_equal(got, want, g.n_vocab * 4);
    infer_session_release(f);
    infer_session_release(one);
    infer_session_release(two);
    infer_session_release(s);
    for (int i = 0; i < 5; i++) {
        infer_adapter_release(held[i]);
        infer_adapter_release(again[i]);
    }
    tempdir_remove();
    infer_model_release(m);
    infer_model_release(later);
    free(want);
    free(got);
    golden_free(&g);
}

/* Restored into the middle of other things; the invocation rolled back and given again. */
static void test_memory(void **state)
{
    (void)state;
    infer_model *m = model_with("llama", 2, 0, 0);
    infer_adapter *held[5], *other = adapter_of(m, "batch3");
    struct golden g = golden_read("llama");
    float *want = malloc(g.n_vocab * 4), *got = malloc(g.n_vocab * 4);
    infer_session *s = rich(m, held), *t = session_of(m);
    infer_checkpoint *c;
    infer_session_info info;
    ok(infer_checkpoint_create(s, &c, &error));
    goes_on(s, want, g.n_vocab);
    attach(t, other, 2);
    ok(infer_session_append(t, g.prompt, 12, &error));
    last_logits(t, g.n_vocab, got);
    ok(infer_session_restore(t, c, &error));
    infer_checkpoint_release(c);
    for (int i = 0; i < 5; i++)
        infer_adapter_release(held[i]); /* sessions hold what they use */
    goes_on(t, got, g.n_vocab);
    assert_memory_equal(got, want, g.n_vocab * 4);
    INFER_INIT(&info);
    ok(infer_session_get_info(t, &info, &error));
    uint64_t invoked = info.adapters;
    ok(infer_session_truncate(t, 39, NULL, &error)); /* before 17 4 99 */
    ok(infer_session_get_info(t, &info, &error));
    assert_int_not_equal(info.adapters, invoked);
    for (int i = 0; i < 4; i++) /* one by one: the first two were appended before it was known, and pending */
        ok(infer_session_append(t, &(int32_t[]){17, 4, 99, 5}[i], 1, &error));
    ok(infer_session_get_info(t, &info, &error));
    assert_int_equal(info.adapters, invoked);
    goes_on(t, got, g.n_vocab);
    assert_memory_equal(got, want, g.n_vocab * 4);
    infer_session_release(s);
    infer_session_release(t);
    infer_adapter_release(other);
    infer_model_release(m);
    free(want);
    free(got);
    golden_free(&g);
}

/* An exact graft takes the sets along. */
static void test_graft(void **state)
{
    (void)state;
    infer_model *m = model_with("llama", 1, 0, 0);
    infer_adapter *held[5];
    struct golden g = golden_read("llama");
    float *want = malloc(g.n_vocab * 4), *got = malloc(g.n_vocab * 4);
    infer_session *s = rich(m, held), *t = session_of(m);
    infer_checkpoint *c;
    infer_session_info info;
    goes_on(s, want, g.n_vocab);
    ok(infer_checkpoint_create(s, &c, &error));
    INFER_INIT(&info);
    ok(infer_session_get_info(s, &info, &error));
    ok(infer_session_graft(t, c, 0, info.length, 0, NULL, NULL, &error));
    ok(infer_session_get_info(t, &info, &error));
    assert_int_equal(info.approximate, 0);
    last_logits(t, g.n_vocab, got); /* the last element again, under its own set */
    assert_memory_equal(got, want, g.n_vocab * 4);
    infer_checkpoint_release(c);
    infer_session_release(s);
    infer_session_release(t);
    for (int i = 0; i < 5; i++)
        infer_adapter_release(held[i]);
    infer_model_release(m);
    free(want);
    free(got);
    golden_free(&g);
}

/* ---- memory that fails */

static infer_status scenario(infer_model *m, float *out, uint32_t n_vocab)
{
    static const char *const names[] = {"lora-r4", "steering.gguf", "prefix", "soft-prompt", "alora"};
    infer_adapter *a[5] = {0};
    infer_session *s = NULL, *f = NULL;
    infer_adapter_use u[3];
    infer_status st = infer_session_create(m, NULL, &s, &error);
    for (int i = 0; i < 5 && st == INFER_OK; i++)
        st = infer_adapter_open_path(m, adapter_path(names[i]), &a[i], &error);
    for (int i = 0; i < 3; i++) {
        INFER_INIT(&u[i]);
        u[i].adapter = i < 2 ? a[i] : a[4];
        u[i].scale = 1;
    }
    if (st == INFER_OK)
        st = infer_session_append_adapter(s, a[2], &error);
    if (st == INFER_OK)
        st = infer_session_append_adapter(s, a[3], &error);
    if (st == INFER_OK)
        st = infer_session_set_adapters(s, u, 3, &error);
    if (st == INFER_OK)
        st = infer_session_append(s, (int32_t[]){1, 2, 17, 4, 99, 6}, 6, &error);
    if (st == INFER_OK)
        st = infer_session_fork(s, &f, &error);
    infer_step_item it = item_of(f, INFER_ROWS_LAST);
    if (st == INFER_OK)
        st = infer_step(&it, 1, NULL, &error);
    const float *row;
    if (st == INFER_OK) {
        ok(infer_session_logits(f, 0, &row, NULL, &error));
        memcpy(out, row, n_vocab * 4);
    }
    infer_session_release(s);
    infer_session_release(f);
    for (int i = 0; i < 5; i++)
        infer_adapter_release(a[i]);
    return st;
}

static void test_no_memory(void **state)
{
    (void)state;
    struct test_alloc counted = {0};
    infer_allocator host = test_infer_allocator(&counted);
    infer_engine_options eo;
    infer_engine *engine;
    infer_model *m;
    struct golden g = golden_read("llama");
    float *want = malloc(g.n_vocab * 4), *got = malloc(g.n_vocab * 4);
    uint64_t failures = 0;
    INFER_INIT(&error);
    INFER_INIT(&eo);
    eo.allocator = &host;
    eo.threads = 1;
    ok(infer_engine_create(&eo, &engine, &error));
    ok(infer_model_open_path(engine, fixture_path("llama"), &m, &error));
    ok(scenario(m, want, g.n_vocab));
    for (uint64_t k = 1;; k++) {
        const int64_t live = counted.live;
        counted.calls = 0;
        counted.fail_at = k;
        infer_status st = scenario(m, got, g.n_vocab);
        counted.fail_at = 0;
        if (st == INFER_OK && counted.calls < k)
            break;
        failures += st != INFER_OK;
        assert_true(st == INFER_OK || st == INFER_ERROR_NO_MEMORY);
        assert_true(counted.live <= live + 8); /* the engine's own scratch may have grown */
    }
    assert_memory_equal(got, want, g.n_vocab * 4);
    assert_true(failures > 50);
    print_message("# %llu allocations failed\n", (unsigned long long)failures);
    infer_model_release(m);
    infer_engine_release(engine);
    assert_int_equal(counted.live, 0);
    free(want);
    free(got);
    golden_free(&g);
}

/* A roll-back without memory for the set that comes into force leaves in force what was. */
static void test_truncate_without_memory(void **state)
{
    (void)state;
    static const char *const names[] = {"lora-r4", "alora"};
    struct test_alloc counted = {0};
    infer_allocator host = test_infer_allocator(&counted);
    infer_engine_options eo;
    infer_engine *engine;
    infer_model *m;
    infer_adapter_use u[2];
    infer_session_info before, info;
    uint64_t failures = 0;
    INFER_INIT(&eo);
    eo.allocator = &host;
    eo.threads = 1;
    ok(infer_engine_create(&eo, &engine, &error));
    ok(infer_model_open_path(engine, fixture_path("llama"), &m, &error));
    for (int i = 0; i < 2; i++) {
        INFER_INIT(&u[i]);
        u[i].adapter = adapter_of(m, names[i]);
        u[i].scale = 1;
    }
    for (uint64_t k = 1;; k++) {
        infer_session *s = session_of(m);
        ok(infer_session_set_adapters(s, u, 2, &error));
        ok(infer_session_append(s, (int32_t[]){1, 2, 17, 4, 99, 6}, 6, &error));
        INFER_INIT(&before);
        INFER_INIT(&info);
        ok(infer_session_get_info(s, &before, &error));
        counted.calls = 0;
        counted.fail_at = k;
        infer_status st = infer_session_truncate(s, 2, NULL, &error); /* before the invocation */
        counted.fail_at = 0;
        ok(infer_session_get_info(s, &info, &error));
        if (st == INFER_OK) {
            assert_int_not_equal(info.adapters, before.adapters);
            infer_session_release(s);
            break;
        }
        failures++;
        assert_int_equal(st, INFER_ERROR_NO_MEMORY);
        assert_memory_equal(&info, &before, sizeof info);
        infer_session_release(s);
    }
    assert_true(failures > 0);
    for (int i = 0; i < 2; i++)
        infer_adapter_release(u[i].adapter);
    infer_model_release(m);
    infer_engine_release(engine);
    assert_int_equal(counted.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_alternations), cmocka_unit_test(test_changing), cmocka_unit_test(test_reason),
                                       cmocka_unit_test(test_files),        cmocka_unit_test(test_memory),   cmocka_unit_test(test_graft),
                                       cmocka_unit_test(test_no_memory),    cmocka_unit_test(test_truncate_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
