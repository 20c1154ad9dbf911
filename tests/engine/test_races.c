/* What a host does from other threads while a call runs (hostile inputs N29): cancelling a load, a prompt, a save and a restore at any moment, and
 * releasing handles that the call uses. */
#define _DEFAULT_SOURCE
#include "state_util.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/outfile.h"
#include "base/pack.h"
#include "golden.h"
#include "tempdir.h"

#define TINY INFER_SOURCE_DIR "/models/tiny.gguf"
enum { ROUNDS = 20, PROMPT = 1200, TOKENS = 30, CONTEXT = 2048 };

static infer_engine *engine;
static infer_model *model;
static infer_cancel *flag;
static infer_checkpoint *whole; /* of the prompt */

/* A call on a thread of its own. */
struct call {
    infer_status (*run)(struct call *c);
    infer_session *session;
    infer_checkpoint *checkpoint;
    infer_model *model;
    infer_status status;
    infer_error error;
    int32_t ids[TOKENS];
};

static void *run_call(void *arg)
{
    struct call *c = arg;
    INFER_INIT(&c->error);
    c->status = c->run(c);
    return NULL;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void append_prompt(infer_session *s)
{
    for (int32_t i = 0; i < PROMPT; i++) {
        int32_t id = 3 + (i * 37 + i / 11) % 400;
        ok(infer_session_append(s, &id, 1, &error));
    }
}

static infer_status prefill(struct call *c)
{
    infer_step_item it;
    INFER_INIT(&it);
    it.session = c->session;
    return infer_step(&it, 1, flag, &c->error);
}

static infer_status save(struct call *c)
{
    infer_save_options o;
    INFER_INIT(&o);
    o.flags = INFER_SAVE_FULL_MODEL | (pack_available() ? INFER_SAVE_ZSTD : 0);
    return infer_checkpoint_save(whole, tempdir_path("saved"), INFER_ZSTR, &o, flag, &c->error);
}

static infer_status load_state(struct call *c)
{
    infer_load_options o;
    INFER_INIT(&o);
    o.verify = INFER_VERIFY_LOAD;
    return infer_checkpoint_open(model, tempdir_path("kept"), INFER_ZSTR, &o, flag, &c->checkpoint, &c->error);
}

static infer_status load_model(struct call *c)
{
    infer_source src;
    infer_open_options o;
    INFER_INIT(&o);
    o.cancel = flag;
    infer_source_path(&src, TINY, INFER_ZSTR);
    return infer_model_open(engine, &src, &o, &c->model, &c->error);
}

/* The call, cancelled after `us`; negative: not at all. */
static void run_cancelled(struct call *c, double us)
{
    pthread_t t;
    infer_cancel_clear(flag);
    assert_int_equal(pthread_create(&t, NULL, run_call, c), 0);
    if (us >= 0) {
        usleep((useconds_t)us);
        infer_cancel_set(flag);
    }
    assert_int_equal(pthread_join(t, NULL), 0);
    infer_cancel_clear(flag);
    if (us < 0)
        assert_int_equal(c->status, INFER_OK);
    else
        assert_true(c->status == INFER_OK || c->status == INFER_ERROR_CANCELLED);
}

static void same_as_whole(infer_session *s)
{
    infer_session *w;
    infer_model_info mi;
    const float *x, *y;
    INFER_INIT(&mi);
    ok(infer_model_get_info(model, &mi, &error));
    ok(infer_checkpoint_session(whole, &w, &error));
    ok(infer_session_logits(s, 0, &x, NULL, &error));
    ok(infer_session_logits(w, 0, &y, NULL, &error));
    assert_memory_equal(x, y, mi.vocab_size * sizeof *x);
    infer_session_release(w);
}

/* After a call of prefill: the session can go on. */
static void after_prefill(struct call *c)
{
    infer_session_info i = info_of(c->session);
    assert_true(i.length == PROMPT && (i.computed == PROMPT || c->status != INFER_OK));
    if (i.computed < PROMPT)
        step(c->session);
    same_as_whole(c->session);
    ok(infer_session_truncate(c->session, 1, NULL, &error));
    ok(infer_session_truncate(c->session, 0, NULL, &error));
    append_prompt(c->session);
}

static void after_save(struct call *c)
{
    infer_checkpoint *k;
    infer_status st = infer_checkpoint_open(model, tempdir_path("saved"), INFER_ZSTR, NULL, NULL, &k, &error);
    assert_int_equal(st, c->status == INFER_OK ? INFER_OK : st == INFER_OK ? INFER_OK : INFER_ERROR_NOT_FOUND);
    if (st == INFER_OK)
        infer_checkpoint_release(k);
    assert_int_equal(tempdir_count(OUTFILE_PREFIX), 0);
}

static void after_load(struct call *c)
{
    if (c->status == INFER_OK) {
        infer_session *s;
        ok(infer_checkpoint_session(c->checkpoint, &s, &error));
        same_as_whole(s);
        infer_session_release(s);
        infer_checkpoint_release(c->checkpoint);
    }
    c->checkpoint = NULL;
}

static void after_model(struct call *c)
{
    if (c->status == INFER_OK)
        infer_model_release(c->model);
    c->model = NULL;
}

static void test_cancelled(void **state)
{
    static const struct {
        const char *name;
        infer_status (*run)(struct call *c);
        void (*after)(struct call *c);
        int files;
    } calls[] = {{"prompt", prefill, after_prefill, 0}, {"save", save, after_save, 1}, {"restore", load_state, after_load, 1},
                 {"load", load_model, after_model, 0}};
    (void)state;
    uint64_t seed = 5;
    for (size_t k = 0; k < sizeof calls / sizeof *calls; k++) {
        struct call c = {.run = calls[k].run};
        int cancelled = 0, n = 0;
        if (calls[k].files && !hash_available())
            continue;
        c.session = session_of_model(model, INFER_KV_F16, CONTEXT);
        append_prompt(c.session);
        double from = now();
        run_cancelled(&c, -1);
        double took = now() - from;
        calls[k].after(&c);
        bool slow = took > 1e6; /* sanitizers */
        for (; n < (slow ? 3 : ROUNDS) || (!cancelled && n < 10 * ROUNDS); n++) {
            run_cancelled(&c, took * (double)(test_rand(&seed) % 1000) / 1000);
            cancelled += c.status == INFER_ERROR_CANCELLED;
            calls[k].after(&c);
        }
        print_message("# %s (%.1f ms): %d of %d calls cancelled\n", calls[k].name, took / 1000, cancelled, n);
        assert_true(cancelled > 0 || took < 5000); /* what is that short may always be over */
        infer_session_release(c.session);
    }
}

/* ---- Releases */

static infer_status generate(struct call *c)
{
    infer_generate_options o;
    infer_event ev;
    uint64_t n = 0;
    INFER_INIT(&o);
    INFER_INIT(&ev);
    o.max_tokens = TOKENS;
    o.flags = INFER_GENERATE_IGNORE_EOS;
    infer_status st = infer_generate_begin(c->session, &o, &c->error);
    while (st == INFER_OK && ev.kind != INFER_EVENT_DONE) {
        INFER_INIT(&ev);
        st = infer_generate_next(c->session, &ev, NULL, &c->error);
        if (st == INFER_OK && ev.kind == INFER_EVENT_TOKEN && n < TOKENS)
            c->ids[n++] = ev.id;
    }
    return st;
}

/* Everything that an answer uses loses its other owners while it is generated, in any order. */
static void test_released(void **state)
{
    (void)state;
    int32_t want[TOKENS];
    uint64_t seed = 6;
    for (int round = 0; round < ROUNDS; round++) {
        infer_engine *e;
        infer_model *m;
        infer_checkpoint *k;
        infer_session *s;
        pthread_t t;
        infer_engine_options eo;
        INFER_INIT(&eo);
        eo.threads = 2;
        eo.cache_bytes = round % 2 ? 1 << 20 : 0;
        struct call c = {.run = generate};
        ok(infer_engine_create(&eo, &e, &error));
        ok(infer_model_open_path(e, TINY, &m, &error));
        ok(infer_session_create(m, NULL, &s, &error));
        int32_t id = 1;
        ok(infer_session_append(s, &id, 1, &error));
        step(s);
        ok(infer_checkpoint_create(s, &k, &error));
        ok(infer_checkpoint_session(k, &c.session, &error));
        assert_int_equal(pthread_create(&t, NULL, run_call, &c), 0);
        for (uint64_t i = 0, first = test_rand(&seed) % 4; i < 4; i++) {
            usleep((useconds_t)(test_rand(&seed) % 3000));
            switch ((first + i) % 4) {
            case 0: infer_engine_release(e); break;
            case 1: infer_model_release(m); break;
            case 2: infer_checkpoint_release(k); break;
            default: infer_session_release(s); break;
            }
        }
        assert_int_equal(pthread_join(t, NULL), 0);
        ok(c.status);
        if (round == 0)
            memcpy(want, c.ids, sizeof want);
        assert_memory_equal(want, c.ids, sizeof want);
        infer_session_release(c.session); /* the last handle: all of the model and the engine go with it */
    }
}

static int setup(void **state)
{
    (void)state;
    infer_engine_options o;
    infer_session *s;
    INFER_INIT(&o);
    INFER_INIT(&error);
    o.threads = 2;
    tempdir_make();
    ok(infer_engine_create(&o, &engine, &error));
    ok(infer_model_open_path(engine, TINY, &model, &error));
    ok(infer_cancel_create(&flag, &error));
    s = session_of_model(model, INFER_KV_F16, CONTEXT);
    append_prompt(s);
    step(s);
    ok(infer_checkpoint_create(s, &whole, &error));
    infer_session_release(s);
    if (hash_available())
        ok(infer_checkpoint_save(whole, tempdir_path("kept"), INFER_ZSTR, NULL, NULL, &error));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    infer_checkpoint_release(whole);
    infer_cancel_release(flag);
    infer_model_release(model);
    infer_engine_release(engine);
    tempdir_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cancelled), cmocka_unit_test(test_released)};
    return cmocka_run_group_tests_name("races", tests, setup, teardown);
}
