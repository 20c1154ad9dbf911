/* State of every architecture: what goes on from the prefix cache, from a checkpoint file opened by another model, or from a graft that is
 * exact, has the bits of what was computed cold. The corners of each are tested on llama and gemma3 (test_prefix, test_checkpoint_file,
 * test_graft); here are the fixtures' windows, rotations and sizes. */
#include "testutil.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "golden.h"
#include "ok.h"
#include "tempdir.h"

enum { MORE = 3, N_KV = 3 };
static const int32_t kv_types[N_KV] = {INFER_KV_F16, INFER_KV_INT8, INFER_KV_MIXED_F16};

struct setting {
    infer_engine *engine;
    infer_model *model;
    struct golden g;
};

static struct setting open_fixture(const char *name)
{
    struct setting x;
    infer_engine_options o;
    INFER_INIT(&error);
    INFER_INIT(&o);
    o.threads = 1;
    o.cache_bytes = 1 << 26;
    x.g = golden_read(name);
    ok(infer_engine_create(&o, &x.engine, &error));
    ok(infer_model_open_path(x.engine, fixture_path(name), &x.model, &error));
    return x;
}

static void close_fixture(struct setting *x)
{
    infer_model_release(x->model);
    infer_engine_release(x->engine);
    golden_free(&x->g);
}

static infer_session *new_session(const struct setting *x, int32_t kv_type, uint32_t cache_flags)
{
    infer_session *s;
    infer_session_options o;
    INFER_INIT(&o);
    o.kv_type = kv_type;
    o.cache_flags = cache_flags;
    ok(infer_session_create(x->model, &o, &s, &error));
    return s;
}

/* Elements [from, to) of a text: the prompt, or another one. */
static void feed(const struct setting *x, infer_session *s, bool other, uint64_t from, uint64_t to)
{
    infer_step_item it;
    INFER_INIT(&it);
    it.session = s;
    for (uint64_t i = from; i < to; i++) {
        int32_t id = (x->g.prompt[i % x->g.n_prompt] + (other ? 7 : 0)) % (int32_t)x->g.n_vocab;
        ok(infer_session_append(s, &id, 1, &error));
    }
    ok(infer_step(&it, 1, NULL, &error));
}

/* Logits of the prompt's last element and of MORE after it, from what the session has on. */
static void go_on(const struct setting *x, infer_session *s, uint64_t from, float *rows)
{
    const float *row;
    for (uint64_t k = 0; k <= MORE; k++) {
        feed(x, s, false, k ? x->g.n_prompt + k - 1 : from, x->g.n_prompt + k);
        ok(infer_session_logits(s, 0, &row, NULL, &error));
        memcpy(rows + k * x->g.n_vocab, row, x->g.n_vocab * sizeof *row);
    }
}

struct logits {
    float *want, *got; /* [MORE + 1][n_vocab] */
    size_t bytes;
};

static struct logits cold_logits(const struct setting *x, int32_t kv_type)
{
    struct logits l = {.bytes = (MORE + 1) * x->g.n_vocab * sizeof(float)};
    infer_session *s = new_session(x, kv_type, INFER_CACHE_NO_LOOKUP | INFER_CACHE_NO_INSERT);
    l.want = malloc(l.bytes);
    l.got = malloc(l.bytes);
    go_on(x, s, 0, l.want);
    infer_session_release(s);
    return l;
}

static void same(const struct logits *l, const char *what, int32_t kv_type, uint64_t at)
{
    if (memcmp(l->want, l->got, l->bytes))
        fail_msg("%s at %llu, KV type %d: logits differ", what, (unsigned long long)at, (int)kv_type);
    memset(l->got, 0xFF, l->bytes);
}

static void free_logits(struct logits *l)
{
    free(l->want);
    free(l->got);
}

static void test_prefix(void **state)
{
    struct setting x = open_fixture(*state);
    uint64_t reused = 0;
    for (int k = 0; k < N_KV; k++) {
        struct logits l = cold_logits(&x, kv_types[k]);
        for (uint64_t split = 9; split < x.g.n_prompt; split += 27) {
            infer_cache_report r;
            INFER_INIT(&r);
            ok(infer_engine_cache_clear(x.engine, &error));
            infer_session *s = new_session(&x, kv_types[k], 0);
            feed(&x, s, false, 0, split);
            feed(&x, s, true, split, split + 66);
            infer_session_release(s);
            s = new_session(&x, kv_types[k], 0);
            go_on(&x, s, 0, l.got);
            same(&l, "prefix", kv_types[k], split);
            ok(infer_session_cache_report(s, &r, &error));
            assert_int_equal(r.reused + r.rerun, split);
            reused += r.reused;
            infer_session_release(s);
        }
        free_logits(&l);
    }
    assert_true(reused > 0);
    close_fixture(&x);
}

static void test_file(void **state)
{
    if (!hash_available())
        skip();
    struct setting x = open_fixture(*state), y = open_fixture(*state);
    for (int k = 0; k < N_KV; k++) {
        struct logits l = cold_logits(&x, kv_types[k]);
        for (uint64_t at = 40; at < x.g.n_prompt; at += 60) {
            infer_checkpoint *c;
            infer_session *s = new_session(&x, kv_types[k], 0);
            feed(&x, s, false, 0, at);
            ok(infer_checkpoint_create(s, &c, &error));
            infer_session_release(s);
            ok(infer_checkpoint_save(c, tempdir_path("state"), INFER_ZSTR, NULL, NULL, &error));
            infer_checkpoint_release(c);
            ok(infer_checkpoint_open(y.model, tempdir_path("state"), INFER_ZSTR, NULL, NULL, &c, &error));
            ok(infer_checkpoint_session(c, &s, &error));
            infer_checkpoint_release(c);
            go_on(&y, s, at, l.got);
            same(&l, "file", kv_types[k], at);
            infer_session_release(s);
        }
        free_logits(&l);
    }
    close_fixture(&x);
    close_fixture(&y);
}

/* The same elements behind the same ones. */
static void test_graft(void **state)
{
    struct setting x = open_fixture(*state);
    for (int k = 0; k < N_KV; k++) {
        struct logits l = cold_logits(&x, kv_types[k]);
        infer_session *whole = new_session(&x, kv_types[k], INFER_CACHE_NO_LOOKUP), *s = new_session(&x, kv_types[k], INFER_CACHE_NO_LOOKUP);
        infer_checkpoint *c;
        infer_session_info info;
        INFER_INIT(&info);
        feed(&x, whole, false, 0, 120);
        ok(infer_checkpoint_create(whole, &c, &error));
        feed(&x, s, false, 0, 50);
        ok(infer_session_graft(s, c, 50, 60, 10, NULL, NULL, &error));
        ok(infer_session_get_info(s, &info, &error));
        assert_int_equal(info.approximate, 0);
        assert_int_equal(info.length, 110);
        go_on(&x, s, 110, l.got);
        same(&l, "graft", kv_types[k], 50);
        infer_checkpoint_release(c);
        infer_session_release(whole);
        infer_session_release(s);
        free_logits(&l);
    }
    close_fixture(&x);
}

static int setup(void **state)
{
    (void)state;
    tempdir_make();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tempdir_remove();
    return 0;
}

int main(void)
{
    static const CMUnitTestFunction kinds[] = {test_prefix, test_file, test_graft};
    static const char *const names[] = {"prefix", "file", "graft"};
    static char titles[256][64];
    struct CMUnitTest tests[256];
    size_t n = 0;
    for (size_t k = 0; k < 3; k++)
        for (const char *const *f = golden_f32; *f && n < 256; f++, n++) {
            (void)snprintf(titles[n], sizeof titles[n], "%s: %s", names[k], *f);
            tests[n] = (struct CMUnitTest){titles[n], kinds[k], NULL, NULL, (void *)(uintptr_t)*f};
        }
    return _cmocka_run_group_tests("state of all architectures", tests, n, setup, teardown);
}
