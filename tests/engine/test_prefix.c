/* The prefix cache as hosts see it: what goes on from stored state has the bits of what was computed cold, whoever left the state behind,
 * wherever it was cut, and whatever was evicted meanwhile (hostile inputs N16, N30). */
#include "testutil.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "golden.h"
#include "ok.h"

enum { ALONE = INFER_CACHE_NO_LOOKUP | INFER_CACHE_NO_INSERT };
struct setting {
    infer_engine *engine;
    infer_model *model;
    struct golden g;
};

static struct setting open_with(const char *fixture, uint64_t cache_bytes, uint64_t kv_budget)
{
    struct setting x;
    infer_engine_options o;
    INFER_INIT(&error);
    INFER_INIT(&o);
    o.threads = 1;
    o.cache_bytes = cache_bytes;
    o.kv_budget = kv_budget;
    x.g = golden_read(fixture);
    ok(infer_engine_create(&o, &x.engine, &error));
    ok(infer_model_open_path(x.engine, fixture_path(fixture), &x.model, &error));
    return x;
}

static void close_all(struct setting *x)
{
    infer_model_release(x->model);
    infer_engine_release(x->engine);
    golden_free(&x->g);
}

static infer_session *session_with(const struct setting *x, int32_t kv_type, uint32_t flags, const char *salt)
{
    infer_session *s;
    infer_session_options o;
    INFER_INIT(&o);
    o.n_ctx = 4096;
    o.kv_type = kv_type;
    o.cache_flags = flags;
    o.salt = salt;
    o.salt_len = salt ? (uint32_t)strlen(salt) : 0;
    ok(infer_session_create(x->model, &o, &s, &error));
    return s;
}

/* Elements of text number `which`, [from, from + n): the prompt over and over, text 0 as it is. */
static void append(const struct setting *x, infer_session *s, int32_t which, uint64_t from, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        int32_t id = (x->g.prompt[(from + i) % x->g.n_prompt] + which * 7) % (int32_t)x->g.n_vocab;
        ok(infer_session_append(s, &id, 1, &error));
    }
}

static void step(infer_session *s)
{
    infer_step_item it;
    INFER_INIT(&it);
    it.session = s;
    ok(infer_step(&it, 1, NULL, &error));
}

static infer_cache_report report_of(const infer_session *s)
{
    infer_cache_report r;
    INFER_INIT(&r);
    ok(infer_session_cache_report(s, &r, &error));
    return r;
}

static infer_cache_stats stats_of(infer_engine *e)
{
    infer_cache_stats st;
    INFER_INIT(&st);
    ok(infer_engine_cache_stats(e, &st, &error));
    return st;
}

static void keep_logits(const infer_session *s, uint32_t n_vocab, float *out)
{
    const float *row;
    ok(infer_session_logits(s, 0, &row, NULL, &error));
    memcpy(out, row, n_vocab * sizeof *out);
}

static void has_logits(const infer_session *s, uint32_t n_vocab, const float *want)
{
    const float *row;
    ok(infer_session_logits(s, 0, &row, NULL, &error));
    assert_memory_equal(row, want, n_vocab * sizeof *want);
}

enum { MORE = 3 };

/* The prompt whole, and MORE elements one by one: logits of each. */
static void run(const struct setting *x, infer_session *s, uint64_t n, float *rows, bool compare)
{
    append(x, s, 0, 0, n);
    for (int k = 0; k <= MORE; k++) {
        if (k)
            append(x, s, 2, n + (uint64_t)k, 1);
        step(s);
        if (compare)
            has_logits(s, x->g.n_vocab, rows + (size_t)k * x->g.n_vocab);
        else
            keep_logits(s, x->g.n_vocab, rows + (size_t)k * x->g.n_vocab);
    }
}

/* Somebody shares the first `split` elements and then goes on otherwise for `tail` elements. */
static void leave(const struct setting *x, int32_t kv_type, uint64_t split, uint64_t tail)
{
    infer_session *s = session_with(x, kv_type, 0, NULL);
    append(x, s, 0, 0, split);
    append(x, s, 1, split, tail);
    step(s);
    infer_session_release(s);
}

static void every_split(const char *fixture, int32_t kv_type, uint64_t n)
{
    struct setting x = open_with(fixture, 1 << 26, 0);
    float *rows = malloc((MORE + 1) * x.g.n_vocab * sizeof *rows);
    infer_session *s = session_with(&x, kv_type, ALONE, NULL);
    run(&x, s, n, rows, false);
    assert_int_equal(report_of(s).reason, INFER_CACHE_REASON_OFF);
    infer_session_release(s);
    for (uint64_t split = 0; split <= n; split++) {
        uint64_t most = split < n ? split : n - 1;
        ok(infer_engine_cache_clear(x.engine, &error));
        leave(&x, kv_type, split, split % 4 ? 66 : 190); /* behind 190, windows before the split are gone */
        for (int again = 0; again < (kv_type == INFER_KV_F16 ? 2 : 1); again++) {
            s = session_with(&x, kv_type, INFER_CACHE_NO_INSERT * (split % 3 == 1), NULL);
            run(&x, s, n, rows, true);
            infer_cache_report r = report_of(s);
            assert_int_equal(r.wanted, n);
            if (!again || split % 3 == 1) {
                assert_int_equal(r.reused + r.rerun, most);
                assert_int_equal(r.reason, split < n - 1 ? INFER_CACHE_REASON_DIFFERS : INFER_CACHE_REASON_HIT);
                assert_int_equal(r.difference, split);
                assert_true(!strcmp(fixture, "gemma3") || kv_type >= INFER_KV_MIXED_F16 || !r.rerun);
            } else {
                assert_true(r.reused >= most); /* the first one left its windows there */
            }
            infer_session_release(s);
        }
    }
    assert_true(stats_of(x.engine).saved > n * n / 8);
    free(rows);
    close_all(&x);
}

static void test_splits_full(void **state)
{
    (void)state;
    for (int32_t t = INFER_KV_F16; t <= INFER_KV_MIXED_F32; t++)
        every_split("llama", t, t == INFER_KV_F16 ? 150 : 80);
}

static void test_splits_window(void **state)
{
    (void)state;
    for (int32_t t = INFER_KV_F16; t <= INFER_KV_MIXED_F32; t++)
        every_split("gemma3", t, t == INFER_KV_F16 ? 140 : 80);
}

/* The session's next elements come under a set of adapters that only its identity tells from others; 0: none. */
static void under(infer_session *s, uint64_t id)
{
    s->sets.current = 0;
    if (!id)
        return;
    struct adapter_set *set = mem_zalloc(&s->model->engine->env->alloc, sizeof *set);
    assert_non_null(set);
    ref_init(&set->ref);
    set->model = model_ref(s->model);
    set->id.lo = 1;
    set->id.hi = id;
    ok(session_add_set(s, set, &s->sets.current, &error));
    adapter_set_release(set);
}

/* What one look-up for the first n elements of text 0 says. */
static infer_cache_report ask(const struct setting *x, int32_t kv_type, uint64_t n, const char *salt, uint64_t adapters)
{
    infer_session *s = session_with(x, kv_type, INFER_CACHE_NO_INSERT, salt);
    under(s, adapters);
    append(x, s, 0, 0, n);
    step(s);
    infer_cache_report r = report_of(s);
    infer_session_release(s);
    return r;
}

static void test_reasons(void **state)
{
    (void)state;
    struct setting x = open_with("llama", 1 << 26, 0), none = open_with("llama", 0, 0);
    assert_int_equal(ask(&none, 0, 100, NULL, 0).reason, INFER_CACHE_REASON_OFF);
    assert_int_equal(stats_of(none.engine).lookups, 0);
    close_all(&none);
    assert_int_equal(ask(&x, 0, 100, NULL, 0).reason, INFER_CACHE_REASON_EMPTY);
    leave(&x, 0, 130, 0);
    infer_cache_report r = ask(&x, 0, 130, NULL, 0);
    assert_int_equal(r.reason, INFER_CACHE_REASON_HIT);
    assert_int_equal(r.reused, 129);
    r = ask(&x, 0, 140, NULL, 0);
    assert_int_equal(r.reason, INFER_CACHE_REASON_ENDS);
    assert_int_equal(r.difference, 130);
    r = ask(&x, 0, 130, "tenant", 0);
    assert_int_equal(r.reason, INFER_CACHE_REASON_OTHER_SALT);
    assert_int_equal(r.reused, 0);
    r = ask(&x, INFER_KV_F32, 130, NULL, 0);
    assert_int_equal(r.reason, INFER_CACHE_REASON_OTHER_KV_TYPE);
    assert_int_equal(r.reused, 0);
    r = ask(&x, 0, 130, NULL, 5);
    assert_int_equal(r.reason, INFER_CACHE_REASON_OTHER_ADAPTERS);
    assert_int_equal(r.reused, 0);
    assert_int_equal(ask(&x, INFER_KV_F32, 130, "tenant", 0).reason, INFER_CACHE_REASON_EMPTY); /* differs in two ways: tells nothing */
    leave(&x, 0, 50, 80);
    r = ask(&x, 0, 130, NULL, 0);
    assert_int_equal(r.reason, INFER_CACHE_REASON_HIT);
    infer_session *s = session_with(&x, 0, INFER_CACHE_NO_INSERT, NULL);
    append(&x, s, 0, 0, 90);
    append(&x, s, 3, 0, 10);
    step(s);
    r = report_of(s);
    assert_int_equal(r.reason, INFER_CACHE_REASON_DIFFERS);
    assert_int_equal(r.difference, 90);
    assert_int_equal(r.reused, 90);
    assert_int_equal(r.near_length, 0); /* too short to tell */
    infer_session_release(s);
    infer_cache_stats st = stats_of(x.engine);
    assert_int_equal(st.lookups, 11); /* two by those that left something */
    assert_int_equal(st.hits, 2);
    assert_int_equal(st.partial_hits, 3);
    assert_true(st.nodes == 3 && st.bytes > 0 && !st.evictions);
    ok(infer_engine_cache_clear(x.engine, &error));
    assert_int_equal(stats_of(x.engine).nodes, 0);
    assert_int_equal(ask(&x, 0, 130, NULL, 0).reason, INFER_CACHE_REASON_EMPTY);
    close_all(&x);
}

/* Each own_reason is what the tenant is told while the others are not there, too. */
static void test_own_reason(void **state)
{
    (void)state;
    for (int others = 0; others < 2; others++) {
        struct setting x = open_with("llama", 1 << 26, 0);
        if (others)
            leave(&x, 0, 130, 0);
        infer_cache_report r = ask(&x, 0, 130, "tenant", 0);
        assert_int_equal(r.reason, others ? INFER_CACHE_REASON_OTHER_SALT : INFER_CACHE_REASON_EMPTY);
        assert_int_equal(r.own_reason, INFER_CACHE_REASON_EMPTY);
        infer_session *s = session_with(&x, 0, 0, "tenant");
        append(&x, s, 0, 0, 90);
        append(&x, s, 3, 0, 10);
        step(s);
        infer_session_release(s);
        r = ask(&x, 0, 130, "tenant", 0);
        assert_int_equal(r.reason, others ? INFER_CACHE_REASON_OTHER_SALT : INFER_CACHE_REASON_DIFFERS);
        assert_int_equal(r.own_reason, INFER_CACHE_REASON_DIFFERS);
        assert_int_equal(r.difference, 90);
        s = session_with(&x, 0, 0, "tenant2");
        append(&x, s, 0, 0, 90);
        step(s);
        infer_session_release(s);
        r = ask(&x, 0, 130, "tenant2", 0);
        assert_int_equal(r.reason, others ? INFER_CACHE_REASON_OTHER_SALT : INFER_CACHE_REASON_ENDS);
        assert_int_equal(r.own_reason, INFER_CACHE_REASON_ENDS);
        r = ask(&x, 0, 90, "tenant2", 0);
        assert_true(r.reason == INFER_CACHE_REASON_HIT && r.own_reason == INFER_CACHE_REASON_HIT);
        r = ask(&x, INFER_KV_F32, 90, "tenant2", 0);
        assert_true(r.reason == INFER_CACHE_REASON_OTHER_KV_TYPE && r.own_reason == INFER_CACHE_REASON_OTHER_KV_TYPE);
        close_all(&x);
    }
}

static void test_evicted(void **state)
{
    (void)state;
    struct setting x = open_with("llama", 400000, 0); /* about 12 pages of 32 KiB, and 6,250 bytes of ghosts: 190 elements */
    leave(&x, 0, 0, 130);
    leave(&x, 0, 130, 0);
    assert_int_equal(ask(&x, 0, 130, NULL, 0).reason, INFER_CACHE_REASON_HIT);
    for (int i = 2; i < 6; i++) {
        infer_session *s = session_with(&x, 0, 0, NULL);
        append(&x, s, i, 0, 400 - (uint64_t)i * 50);
        step(s);
        infer_session_release(s);
        assert_true(stats_of(x.engine).bytes <= 400000);
        assert_true(stats_of(x.engine).ghost_bytes <= 6250);
    }
    infer_cache_stats st = stats_of(x.engine);
    assert_true(st.evictions >= 2);
    infer_cache_report r = ask(&x, 0, 130, NULL, 0);
    assert_true(r.reason == INFER_CACHE_REASON_EVICTED || r.reason == INFER_CACHE_REASON_ENDS || r.reason == INFER_CACHE_REASON_DIFFERS);
    print_message("# reason after eviction: %d; ghosts %llu\n", r.reason, (unsigned long long)st.ghosts);
    assert_int_equal(r.reused, 0);
    close_all(&x);
    x = open_with("llama", 4000000, 0); /* room for ghosts: 2,000 elements */
    leave(&x, 0, 130, 0);
    for (int i = 1; i < 25; i++) {
        infer_session *s = session_with(&x, 0, 0, NULL);
        append(&x, s, i, 0, 400);
        step(s);
        infer_session_release(s);
    }
    r = ask(&x, 0, 130, NULL, 0);
    assert_int_equal(r.reason, INFER_CACHE_REASON_EVICTED);
    assert_int_equal(r.difference, 0);
    close_all(&x);
}

static void test_near_miss(void **state)
{
    (void)state;
    struct setting x = open_with("llama", 1 << 28, 0);
    leave(&x, 0, 1200, 0);
    infer_session *s = session_with(&x, 0, INFER_CACHE_NO_INSERT, NULL);
    append(&x, s, 0, 0, 1100);
    append(&x, s, 1, 1100, 50);
    step(s);
    infer_cache_report r = report_of(s);
    assert_int_equal(r.reason, INFER_CACHE_REASON_DIFFERS);
    assert_int_equal(r.reused, 1100);
    assert_int_equal(r.difference, 1100);
    assert_int_equal(r.near_length, 1200);
    assert_int_equal(r.wanted, 1150);
    infer_session_release(s);
    s = session_with(&x, 0, INFER_CACHE_NO_INSERT, NULL);
    append(&x, s, 0, 0, 1070); /* less than 90 % */
    append(&x, s, 1, 1070, 50);
    step(s);
    assert_int_equal(report_of(s).near_length, 0);
    infer_session_release(s);
    close_all(&x);
}

/* Another tenant's salt gives no hit, and forks and restored checkpoints stay with theirs. */
static void test_salts(void **state)
{
    (void)state;
    struct setting x = open_with("llama", 1 << 26, 0);
    infer_session *a = session_with(&x, 0, 0, "a"), *f, *b;
    infer_checkpoint *c;
    append(&x, a, 0, 0, 100);
    step(a);
    ok(infer_session_fork(a, &f, &error));
    append(&x, f, 1, 0, 70);
    step(f);
    infer_session_release(f);
    assert_int_equal(ask(&x, 0, 100, "b", 0).reused, 0);
    assert_int_equal(ask(&x, 0, 100, "ab", 0).reused, 0);
    assert_int_equal(ask(&x, 0, 100, NULL, 0).reused, 0);
    assert_int_equal(ask(&x, 0, 100, "a", 0).reused, 99);
    /* b's content goes to b although a checkpoint of a replaces it */
    b = session_with(&x, 0, 0, "b");
    append(&x, b, 2, 0, 40);
    step(b);
    append(&x, b, 2, 40, 40);
    step(b);
    ok(infer_checkpoint_create(a, &c, &error));
    infer_session_release(a);
    ok(infer_session_restore(b, c, &error));
    infer_checkpoint_release(c);
    append(&x, b, 3, 0, 80);
    step(b);
    infer_session_release(b);
    struct setting y = x;
    const char *const salts[] = {"a", "b"};
    for (int i = 0; i < 2; i++) {
        infer_session *s = session_with(&y, 0, INFER_CACHE_NO_INSERT, salts[i]);
        append(&y, s, 2, 0, 80);
        step(s);
        assert_int_equal(report_of(s).reused, i ? 79 : 0);
        infer_session_release(s);
    }
    assert_int_equal(ask(&x, 0, 100, "b", 0).reused, 99); /* the host gave it to b */
    infer_session *s;
    infer_session_options o;
    INFER_INIT(&o);
    o.salt_len = INFER_CACHE_SALT_MAX + 1;
    o.salt = &o;
    assert_int_equal(infer_session_create(x.model, &o, &s, NULL), INFER_ERROR_ARGUMENT);
    o.salt_len = 1;
    o.salt = NULL;
    assert_int_equal(infer_session_create(x.model, &o, &s, NULL), INFER_ERROR_ARGUMENT);
    o.salt_len = 0;
    o.cache_flags = 4;
    assert_int_equal(infer_session_create(x.model, &o, &s, NULL), INFER_ERROR_ARGUMENT);
    close_all(&x);
}

/* Everything is evicted while sessions hold it: they go on, and nobody's pages are written. */
static void test_evict_while_forked(void **state)
{
    (void)state;
    struct setting x = open_with("gemma3", 1 << 26, 0);
    float *rows = malloc((MORE + 1) * x.g.n_vocab * sizeof *rows);
    infer_session *cold = session_with(&x, 0, ALONE, NULL), *s[4];
    run(&x, cold, 130, rows, false);
    infer_session_release(cold);
    leave(&x, 0, 130, 0);
    for (int i = 0; i < 2; i++) {
        s[i] = session_with(&x, 0, 0, NULL);
        append(&x, s[i], 0, 0, 130);
        step(s[i]);
        assert_int_equal(report_of(s[i]).reused, 129);
        ok(infer_session_fork(s[i], &s[2 + i], &error));
    }
    ok(infer_engine_cache_clear(x.engine, &error));
    leave(&x, 0, 70, 90); /* takes the memory that went back, if any did */
    for (int i = 0; i < 4; i++) {
        has_logits(s[i], x.g.n_vocab, rows);
        for (int k = 1; k <= MORE; k++) {
            append(&x, s[i], 2, 130 + (uint64_t)k, 1);
            step(s[i]);
            has_logits(s[i], x.g.n_vocab, rows + (size_t)k * x.g.n_vocab);
        }
        infer_session_release(s[i]);
    }
    free(rows);
    close_all(&x);
}

/* Ten thousand sessions under changing adapters on the same tokens: none ever gets a page of another's. */
static void test_adapters(void **state)
{
    (void)state;
    enum { SETS = 7 };
    struct setting x = open_with("llama", 1 << 26, 0);
    struct kv_page *page[SETS] = {0};
    uint64_t seed = 16;
    for (int i = 0; i < 10000; i++) {
        uint64_t set = test_rand(&seed) % SETS;
        infer_session *s = session_with(&x, 0, 0, NULL);
        under(s, set);
        append(&x, s, 0, 0, 70);
        step(s);
        infer_cache_report r = report_of(s);
        if (page[set]) {
            assert_int_equal(r.reused, 69);
            assert_int_equal(r.reason, INFER_CACHE_REASON_HIT);
            assert_ptr_equal(s->kv[0].pages[0], page[set]);
        } else {
            assert_int_equal(r.reused, 0);
            assert_int_equal(r.reason, i ? INFER_CACHE_REASON_OTHER_ADAPTERS : INFER_CACHE_REASON_EMPTY);
            page[set] = s->kv[0].pages[0];
            for (uint64_t other = 0; other < SETS; other++)
                assert_true(other == set || page[other] != page[set]);
        }
        infer_session_release(s);
    }
    /* changed in the middle */
    infer_session *s = session_with(&x, 0, 0, NULL);
    under(s, 1);
    append(&x, s, 0, 0, 33);
    under(s, 2);
    append(&x, s, 0, 33, 37);
    step(s);
    assert_int_equal(report_of(s).reused, 33);
    assert_int_equal(report_of(s).reason, INFER_CACHE_REASON_OTHER_ADAPTERS);
    infer_session_release(s);
    close_all(&x);
}

/* KV memory is short: what only the cache holds gives way. */
static void test_budget(void **state)
{
    (void)state;
    struct setting x = open_with("llama", 1 << 26, 8 * 32768);
    for (int i = 0; i < 20; i++) {
        infer_session *s = session_with(&x, 0, 0, NULL);
        append(&x, s, i, 0, 300); /* five pages */
        step(s);
        infer_session_release(s);
    }
    infer_engine_info info;
    INFER_INIT(&info);
    ok(infer_engine_get_info(x.engine, &info, &error));
    assert_true(info.kv_bytes <= info.kv_budget);
    assert_true(stats_of(x.engine).evictions >= 15);
    /* what a session holds too is left alone: nothing is gained by evicting it */
    infer_session *s = session_with(&x, 0, 0, NULL), *t = session_with(&x, 0, 0, NULL);
    infer_step_item it;
    append(&x, s, 30, 0, 300);
    step(s);
    append(&x, t, 31, 0, 500);
    INFER_INIT(&it);
    it.session = t;
    assert_int_equal(infer_step(&it, 1, NULL, NULL), INFER_ERROR_LIMIT);
    infer_session_release(s);
    ok(infer_step(&it, 1, NULL, &error));
    infer_session_release(t);
    close_all(&x);
}

/* Steps that want logits of elements which are stored compute those. */
static void test_wanted_logits(void **state)
{
    (void)state;
    struct setting x = open_with("llama", 1 << 26, 0);
    const float *row;
    uint64_t pos;
    static float all[130][160];
    infer_session *s = session_with(&x, 0, 0, NULL);
    infer_step_item it;
    INFER_INIT(&it);
    assert_int_equal(x.g.n_vocab, 160);
    append(&x, s, 0, 0, 130);
    it.session = s;
    it.logits = INFER_ROWS_ALL;
    ok(infer_step(&it, 1, NULL, &error));
    for (uint64_t i = 0; i < 130; i++) {
        ok(infer_session_logits(s, i, &row, &pos, &error));
        memcpy(all[i], row, sizeof all[i]);
    }
    infer_session_release(s);
    uint8_t mask[130] = {0};
    mask[70] = mask[100] = 1;
    s = session_with(&x, 0, 0, NULL);
    append(&x, s, 0, 0, 130);
    it.session = s;
    it.logits = INFER_ROWS_MASK;
    it.mask = mask;
    ok(infer_step(&it, 1, NULL, &error));
    assert_int_equal(it.done, 130);
    assert_int_equal(report_of(s).reused, 70);
    for (uint64_t i = 0; i < 2; i++) {
        ok(infer_session_logits(s, i, &row, &pos, &error));
        assert_int_equal(pos, i ? 100 : 70);
        assert_memory_equal(row, all[pos], sizeof all[0]);
    }
    infer_session_release(s);
    s = session_with(&x, 0, 0, NULL);
    append(&x, s, 0, 0, 130);
    it = (infer_step_item){.size = (uint32_t)sizeof it, .session = s, .logits = INFER_ROWS_ALL};
    ok(infer_step(&it, 1, NULL, &error));
    assert_int_equal(stats_of(x.engine).saved, 70);
    infer_session_release(s);
    s = session_with(&x, 0, 0, NULL);
    append(&x, s, 0, 0, 130);
    it = (infer_step_item){.size = (uint32_t)sizeof it, .session = s, .max_elements = 1}; /* of those it computes */
    ok(infer_step(&it, 1, NULL, &error));
    assert_int_equal(it.done, 130);
    has_logits(s, 160, all[129]);
    infer_session_release(s);
    close_all(&x);
}

/* Generated text and rolled back text are kept; approximate state is not; the model takes everything with it. */
static void test_lives(void **state)
{
    (void)state;
    struct setting x = open_with("llama", 1 << 26, 0);
    infer_session *s = session_with(&x, 0, 0, NULL);
    infer_event ev;
    infer_generate_options go;
    int32_t ids[400];
    INFER_INIT(&go);
    INFER_INIT(&ev);
    go.max_tokens = 150;
    append(&x, s, 0, 0, 20); /* too short to be kept */
    ok(infer_generate_begin(s, &go, &error));
    while (ev.kind != INFER_EVENT_DONE)
        ok(infer_generate_next(s, &ev, NULL, &error));
    assert_int_equal(stats_of(x.engine).insertions, 2); /* whole pages */
    ok(infer_session_tokens(s, 0, 170, ids, &error));
    infer_session *t = session_with(&x, 0, INFER_CACHE_NO_INSERT, NULL);
    ok(infer_session_append(t, ids, 170, &error));
    step(t);
    assert_int_equal(report_of(t).reused, 128);
    assert_int_equal(report_of(t).reason, INFER_CACHE_REASON_ENDS);
    infer_session_release(t);
    append(&x, s, 4, 0, 30);
    step(s);
    ok(infer_session_truncate(s, 140, NULL, &error)); /* 169 to 200 are kept now */
    append(&x, s, 5, 0, 100);
    step(s);
    assert_true(report_of(s).reused == 0); /* all that is stored was computed already */
    t = session_with(&x, 0, INFER_CACHE_NO_INSERT, NULL);
    ok(infer_session_append(t, ids, 170, &error));
    step(t);
    assert_int_equal(report_of(t).reused, 169);
    infer_session_release(t);
    ok(infer_session_truncate(s, 0, NULL, &error));
    ok(infer_session_append(s, ids, 170, &error));
    step(s);
    assert_int_equal(report_of(s).reused, 169); /* what it left behind itself */
    infer_session_release(s);
    uint64_t before = stats_of(x.engine).nodes;
    s = session_with(&x, 0, 0, NULL);
    append(&x, s, 6, 0, 20);
    step(s);
    session_mark_approximate(s, 10);
    append(&x, s, 6, 20, 200);
    step(s);
    infer_session_release(s);
    assert_int_equal(stats_of(x.engine).nodes, before);
    infer_model_release(x.model);
    assert_int_equal(stats_of(x.engine).nodes, 0);
    assert_int_equal(stats_of(x.engine).bytes, 0);
    x.model = NULL;
    close_all(&x);
}

/* Embedding rows count by their keys. */
static void test_rows(void **state)
{
    (void)state;
    struct setting x = open_with("llama", 1 << 26, 0);
    infer_model_info mi;
    INFER_INIT(&mi);
    ok(infer_model_get_info(x.model, &mi, &error));
    float *rows = calloc(80u * mi.n_embd, sizeof *rows);
    uint64_t keys[80][2];
    for (int i = 0; i < 80; i++) {
        keys[i][0] = (uint64_t)i;
        keys[i][1] = 9;
        rows[(uint32_t)i * mi.n_embd] = (float)i;
    }
    static const uint64_t want[] = {0, 79, 40};
    for (int round = 0; round < 3; round++) {
        infer_session *s = session_with(&x, 0, 0, NULL);
        keys[40][1] = round == 2 ? 10 : 9;
        ok(infer_session_append_rows(s, rows, keys[0], 80, &error));
        step(s);
        assert_int_equal(report_of(s).reused, want[round]);
        infer_session_release(s);
    }
    free(rows);
    close_all(&x);
}

/* Leaves something behind, finds it, splits it, evicts it. The logits of the last step, when there are any. */
static infer_status scenario(infer_model *m, const struct golden *g, float *logits)
{
    infer_status st = INFER_OK;
    for (int i = 0; i < 4 && st == INFER_OK; i++) {
        infer_session *s = NULL;
        infer_step_item it;
        INFER_INIT(&it);
        st = infer_session_create(m, NULL, &s, &error);
        if (st == INFER_OK)
            st = infer_session_append(s, g->prompt, 100, &error);
        if (st == INFER_OK && i < 3)
            st = infer_session_append(s, g->prompt + i, 130, &error);
        it.session = s;
        if (st == INFER_OK)
            st = infer_step(&it, 1, NULL, &error);
        const float *row;
        if (st == INFER_OK)
            st = infer_session_logits(s, 0, &row, NULL, &error);
        if (st == INFER_OK)
            memcpy(logits, row, g->n_vocab * sizeof *logits);
        infer_session_release(s);
    }
    return st;
}

static void test_no_memory(void **state)
{
    (void)state;
    struct test_alloc t = {0};
    struct golden g = golden_read("gemma3");
    float *want = malloc(g.n_vocab * sizeof *want), *got = malloc(g.n_vocab * sizeof *got);
    infer_allocator a = test_infer_allocator(&t);
    infer_engine_options o;
    infer_engine *e;
    infer_model *m;
    INFER_INIT(&error);
    INFER_INIT(&o);
    o.allocator = &a;
    o.threads = 1;
    o.cache_bytes = 600000;
    ok(infer_engine_create(&o, &e, &error));
    ok(infer_model_open_path(e, fixture_path("gemma3"), &m, &error));
    ok(scenario(m, &g, want));
    assert_true(stats_of(e).saved > 0);
    uint64_t failed = 0, survived = 0;
    for (int rest = 0; rest < 2; rest++)
        for (uint64_t k = 1;; k++) {
            ok(infer_engine_cache_clear(e, &error));
            t.calls = 0;
            t.fail_at = k;
            t.fail_rest = rest;
            infer_status st = scenario(m, &g, got);
            bool reached = t.calls >= k;
            t.fail_at = 0;
            if (!reached)
                break;
            if (st == INFER_OK)
                assert_memory_equal(want, got, g.n_vocab * sizeof *got);
            else
                assert_int_equal(st, INFER_ERROR_NO_MEMORY);
            failed += st != INFER_OK;
            survived += st == INFER_OK;
            assert_true(kv_cache_check(e->cache));
        }
    print_message("# %llu failed allocations failed the call, %llu only the cache\n", (unsigned long long)failed,
                  (unsigned long long)survived);
    assert_true(failed > 10 && survived > 10);
    infer_model_release(m);
    infer_engine_release(e);
    assert_int_equal(t.live, 0);
    t = (struct test_alloc){0};
    for (uint64_t k = 1;; k++) { /* creating the engine */
        t.fail_at = t.calls + k;
        infer_status st = infer_engine_create(&o, &e, &error);
        t.fail_at = 0;
        if (st == INFER_OK)
            break;
        assert_int_equal(st, INFER_ERROR_NO_MEMORY);
        assert_int_equal(t.live, 0);
    }
    infer_engine_release(e);
    assert_int_equal(t.live, 0);
    free(want);
    free(got);
    golden_free(&g);
}

enum { TEXTS = 6, THREADS = 4, ROUNDS = 40 };
struct crowd {
    struct setting x;
    float *want[TEXTS];
    int thread;
};

static infer_session *crowd_run(const struct setting *x, int text, uint32_t flags)
{
    infer_session *s = session_with(x, 0, flags, NULL);
    append(x, s, 0, 0, 40 + (uint64_t)(text % 3) * 35);
    append(x, s, text, 0, 100);
    step(s);
    return s;
}

static void *crowd_thread(void *arg)
{
    struct crowd *c = arg;
    uint64_t seed = 77 + (uint64_t)c->thread;
    for (int i = 0; i < ROUNDS; i++) {
        int text = (int)(test_rand(&seed) % TEXTS);
        infer_session *s = crowd_run(&c->x, text, 0), *f;
        infer_error e;
        INFER_INIT(&e);
        has_logits(s, c->x.g.n_vocab, c->want[text]);
        if (i % 4 == 0 && infer_session_fork(s, &f, &e) == INFER_OK)
            infer_session_release(f);
        infer_session_release(s);
        if (i % 16 == c->thread)
            infer_engine_cache_clear(c->x.engine, NULL);
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    struct setting x = open_with("gemma3", 250000, 0); /* evicts all the time */
    struct crowd c[THREADS];
    float *want[TEXTS];
    pthread_t threads[THREADS];
    for (int i = 0; i < TEXTS; i++) {
        infer_session *s = crowd_run(&x, i, ALONE);
        want[i] = malloc(x.g.n_vocab * sizeof(float));
        keep_logits(s, x.g.n_vocab, want[i]);
        infer_session_release(s);
    }
    for (int i = 0; i < THREADS; i++) {
        c[i] = (struct crowd){.x = x, .thread = i};
        memcpy(c[i].want, want, sizeof want);
        assert_int_equal(pthread_create(&threads[i], NULL, crowd_thread, &c[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    infer_cache_stats st = stats_of(x.engine);
    print_message("# %llu look-ups, %llu elements saved, %llu evictions\n", (unsigned long long)st.lookups,
                  (unsigned long long)st.saved, (unsigned long long)st.evictions);
    assert_int_equal(st.lookups, THREADS * ROUNDS);
    assert_true(st.saved > 0 && st.evictions > 0);
    assert_true(kv_cache_check(x.engine->cache));
    for (int i = 0; i < TEXTS; i++)
        free(want[i]);
    close_all(&x);
}

static void test_arguments(void **state)
{
    (void)state;
    struct setting x = open_with("llama", 0, 0);
    infer_cache_report r;
    infer_cache_stats st;
    INFER_INIT(&r);
    INFER_INIT(&st);
    assert_int_equal(infer_session_cache_report(NULL, &r, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_engine_cache_stats(NULL, &st, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_engine_cache_stats(x.engine, NULL, NULL), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_engine_cache_clear(NULL, NULL), INFER_ERROR_ARGUMENT);
    ok(infer_engine_cache_clear(x.engine, &error));
    close_all(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_splits_full), cmocka_unit_test(test_splits_window), cmocka_unit_test(test_reasons), cmocka_unit_test(test_own_reason),
        cmocka_unit_test(test_evicted),     cmocka_unit_test(test_near_miss),     cmocka_unit_test(test_salts),
        cmocka_unit_test(test_evict_while_forked),                                cmocka_unit_test(test_adapters),
        cmocka_unit_test(test_budget),      cmocka_unit_test(test_wanted_logits), cmocka_unit_test(test_lives),
        cmocka_unit_test(test_rows),        cmocka_unit_test(test_no_memory),     cmocka_unit_test(test_threads),
        cmocka_unit_test(test_arguments),
    };
    return cmocka_run_group_tests_name("prefix", tests, NULL, NULL);
}
