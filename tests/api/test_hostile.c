/* Rows of hostile-inputs that cut across the interface: token ids that do not exist, in every place where an id enters (N18); numbers that no field takes
 * (N17); restores of one checkpoint at once, and an adapter released while threads use it (N29); callbacks that call the library and release what they run for
 * (N31). */
#define _DEFAULT_SOURCE
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/hash.h"
#include "golden.h"
#include "infer/scheduler.h"
#include "ok.h"

#define TINY INFER_SOURCE_DIR "/models/tiny.gguf"
#define LORA INFER_SOURCE_DIR "/tests/data/adapters/lora-r4"

static infer_model *tiny, *llama;

static int setup(void **state)
{
    (void)state;
    infer_engine *e;
    infer_engine_options o;
#ifdef __GLIBC__
    (void)mallopt(M_PERTURB, 0x5a); /* who uses what was freed, sees it */
#endif
    INFER_INIT(&error);
    INFER_INIT(&o);
    o.threads = 2;
    ok(infer_engine_create(&o, &e, &error));
    ok(infer_model_open_path(e, TINY, &tiny, &error));
    ok(infer_model_open_path(e, fixture_path("llama"), &llama, &error));
    infer_engine_release(e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    infer_model_release(tiny);
    infer_model_release(llama);
    return 0;
}

static infer_session *session_of(infer_model *m)
{
    infer_session *s;
    ok(infer_session_create(m, NULL, &s, &error));
    ok(infer_session_append(s, (int32_t[]){5, 6, 7, 8}, 4, &error));
    return s;
}

static void refused(infer_status got, infer_status want, int line)
{
    if (got != want || error.code != want || !error.text[0])
        fail_msg("line %d: %s (%s): %s", line, infer_status_name(got), error.name, error.text);
    error.code = 0;
    error.text[0] = 0;
}
#define REFUSED(call, status) refused(call, status, __LINE__)

static void test_ids_everywhere(void **state)
{
    (void)state;
    infer_model_info i;
    INFER_INIT(&i);
    ok(infer_model_get_info(tiny, &i, &error));
    const infer_tokenizer *t = infer_model_tokenizer(tiny);
    const int32_t bad[] = {-1, -2, INT32_MIN, INT32_MAX, (int32_t)i.vocab_size};
    infer_session *s = session_of(tiny);
    infer_scheduler *scheduler;
    ok(infer_scheduler_create(tiny, NULL, &scheduler, &error));
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        int32_t ids[] = {1, bad[k], 2};
        char text[64];
        float out[2048];
        uint64_t n;
        infer_detokenizer d;
        infer_token_info token;
        infer_score score;
        infer_embed_item item;
        infer_sampling sampling;
        infer_generate_options generate;
        infer_request_options request;
        const infer_bias bias = {bad[k], 1};
        REFUSED(infer_detokenize(t, ids, 3, 0, text, sizeof text, &n, &error), INFER_ERROR_TOKEN);
        INFER_INIT(&d);
        if (bad[k] != -1) /* the end of the text */
            REFUSED(infer_detokenizer_next(t, &d, bad[k], text, sizeof text, &n, &error), INFER_ERROR_TOKEN);
        INFER_INIT(&token);
        REFUSED(infer_tokenizer_token(t, bad[k], &token, &error), INFER_ERROR_TOKEN);
        REFUSED(infer_session_append(s, ids, 3, &error), INFER_ERROR_TOKEN);
        INFER_INIT(&score);
        REFUSED(infer_session_score(s, ids, 3, &score, NULL, &error), INFER_ERROR_TOKEN);
        INFER_INIT(&item);
        item.ids = ids;
        item.id_count = 3;
        item.out = out;
        item.capacity = 2048;
        REFUSED(infer_embed(tiny, &item, 1, NULL, NULL, &error), INFER_ERROR_TOKEN);
        assert_int_equal(item.status, INFER_ERROR_TOKEN);
        INFER_INIT(&sampling);
        sampling.bias = &bias;
        sampling.bias_count = 1;
        REFUSED(infer_session_set_sampling(s, &sampling, &error), INFER_ERROR_TOKEN);
        INFER_INIT(&generate);
        generate.stop_ids = &bad[k];
        generate.stop_id_count = 1;
        REFUSED(infer_generate_begin(s, &generate, &error), INFER_ERROR_TOKEN);
        for (int where = 0; where < 3; where++) {
            INFER_INIT(&request);
            request.ids = where ? (const int32_t[]){1, 2} : ids;
            request.id_count = where ? 2 : 3;
            request.sampling = where == 1 ? &sampling : NULL;
            request.generate = where == 2 ? &generate : NULL;
            infer_request *r = NULL;
            REFUSED(infer_scheduler_submit(scheduler, &request, &r, &error), INFER_ERROR_TOKEN);
            assert_null(r);
        }
        infer_session_info now;
        INFER_INIT(&now);
        ok(infer_session_get_info(s, &now, &error));
        assert_int_equal(now.length, 4);
    }
    infer_scheduler_release(scheduler);
    infer_session_release(s);
}

/* Every float of the interface that has bounds. */
static void test_numbers(void **state)
{
    (void)state;
    if (!hash_available())
        skip();
    infer_session *s = session_of(llama);
    infer_adapter *a;
    ok(infer_adapter_open_path(llama, LORA, &a, &error));
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY, 3e38f, -3e38f};
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        for (int field = 0; field < 9; field++) {
            infer_sampling o;
            infer_bias bias = {1, bad[k]};
            INFER_INIT(&o);
            float *const at[] = {&o.temperature, &o.top_p, &o.min_p, &o.typical_p, &o.repetition_penalty, &o.presence_penalty, &o.frequency_penalty, &bias.bias,
                                 NULL};
            if (at[field])
                *at[field] = bad[k];
            o.bias = &bias;
            o.bias_count = field == 7;
            bool takes = field == 8 || (field == 7 && bad[k] == -INFINITY); /* nothing set; the token is forbidden */
            if (takes)
                ok(infer_session_set_sampling(s, &o, &error));
            else
                REFUSED(infer_session_set_sampling(s, &o, &error), INFER_ERROR_ARGUMENT);
        }
        infer_adapter_use use;
        INFER_INIT(&use);
        use.adapter = a;
        use.scale = bad[k];
        REFUSED(infer_session_set_adapters(s, &use, 1, &error), INFER_ERROR_ARGUMENT);
        float rows[64] = {0};
        rows[63] = bad[k];
        if (!isfinite(bad[k]))
            REFUSED(infer_session_append_rows(s, rows, (const uint64_t[]){1, 2}, 1, &error), INFER_ERROR_VALUE);
    }
    infer_adapter_release(a);
    infer_session_release(s);
}

/* ---- threads */

struct job {
    infer_checkpoint *checkpoint;
    infer_adapter *adapter;
    pthread_barrier_t *start;
    float logits[160];
};

static void step(infer_session *s, float logits[160])
{
    infer_step_item it;
    const float *row;
    INFER_INIT(&it);
    it.session = s;
    assert_int_equal(infer_step(&it, 1, NULL, NULL), INFER_OK);
    assert_int_equal(infer_session_logits(s, 0, &row, NULL, NULL), INFER_OK);
    memcpy(logits, row, 160 * sizeof *row);
}

static void *restore_often(void *arg)
{
    struct job *j = arg;
    infer_session *s;
    assert_int_equal(infer_session_create(llama, NULL, &s, NULL), INFER_OK);
    (void)pthread_barrier_wait(j->start);
    for (int i = 0; i < 30; i++) {
        assert_int_equal(infer_session_restore(s, j->checkpoint, NULL), INFER_OK);
        assert_int_equal(infer_session_append(s, (const int32_t[]){9, 3}, 2, NULL), INFER_OK);
        step(s, j->logits);
    }
    infer_session_release(s);
    return NULL;
}

static void test_restores_at_once(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    struct job jobs[THREADS];
    float want[160];
    pthread_t t[THREADS];
    pthread_barrier_t start;
    infer_session *s = session_of(llama);
    infer_checkpoint *c;
    step(s, want);
    ok(infer_checkpoint_create(s, &c, &error));
    ok(infer_session_append(s, (const int32_t[]){9, 3}, 2, &error));
    step(s, want);
    assert_int_equal(pthread_barrier_init(&start, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (struct job){.checkpoint = c, .start = &start};
        assert_int_equal(pthread_create(&t[i], NULL, restore_often, &jobs[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(t[i], NULL), 0);
        assert_memory_equal(jobs[i].logits, want, sizeof want);
    }
    pthread_barrier_destroy(&start);
    infer_checkpoint_release(c);
    infer_session_release(s);
}

static infer_session *adapted(infer_adapter *a)
{
    infer_session *s;
    infer_adapter_use use;
    INFER_INIT(&use);
    use.adapter = a;
    use.scale = 1;
    assert_int_equal(infer_session_create(llama, NULL, &s, NULL), INFER_OK);
    assert_int_equal(infer_session_set_adapters(s, &use, 1, NULL), INFER_OK);
    return s;
}

static void *use_adapter(void *arg)
{
    struct job *j = arg;
    infer_session *s = adapted(j->adapter);
    (void)pthread_barrier_wait(j->start); /* from here on the session alone holds it */
    for (int i = 0; i < 40; i++) {
        assert_int_equal(infer_session_append(s, &(const int32_t){(i * 7) % 150}, 1, NULL), INFER_OK);
        step(s, j->logits);
    }
    infer_session_release(s);
    return NULL;
}

static void test_adapter_released_in_use(void **state)
{
    (void)state;
    if (!hash_available())
        skip();
    enum { THREADS = 3 };
    struct job jobs[THREADS];
    float want[160] = {0};
    for (int round = 0; round < 4; round++) {
        pthread_t t[THREADS];
        pthread_barrier_t start;
        infer_adapter *a;
        ok(infer_adapter_open_path(llama, LORA, &a, &error));
        if (round == 0) {
            infer_session *s = adapted(a);
            for (int i = 0; i < 40; i++) {
                ok(infer_session_append(s, &(const int32_t){(i * 7) % 150}, 1, &error));
                step(s, want);
            }
            infer_session_release(s);
        }
        assert_int_equal(pthread_barrier_init(&start, NULL, THREADS + 1), 0);
        for (int i = 0; i < THREADS; i++) {
            jobs[i] = (struct job){.adapter = a, .start = &start};
            assert_int_equal(pthread_create(&t[i], NULL, use_adapter, &jobs[i]), 0);
        }
        (void)pthread_barrier_wait(&start);
        infer_adapter_release(a);
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_join(t[i], NULL), 0);
            assert_memory_equal(jobs[i].logits, want, sizeof want);
        }
        pthread_barrier_destroy(&start);
    }
}

/* ---- callbacks */

struct again {
    infer_session *own; /* to be released, once */
    int calls;
};

/* Uses the model and another session, asks about its own, and lets go of that. */
static infer_status from_logits(void *user, float *logits, uint64_t n, const int32_t *ids, uint64_t count)
{
    struct again *a = user;
    int32_t got[64];
    uint64_t n_got;
    infer_session_info i;
    (void)ids;
    a->calls++;
    assert_int_equal(infer_tokenize(infer_model_tokenizer(tiny), "Once upon", 9, 0, got, 64, &n_got, NULL), INFER_OK);
    infer_session *other = session_of(llama);
    float row[160];
    if (a->own) { /* steps take turns: the one that samples has had its own */
        step(other, row);
        INFER_INIT(&i);
        assert_int_equal(infer_session_get_info(a->own, &i, NULL), INFER_OK);
        assert_int_equal(i.length, count);
        infer_session_release(a->own);
        a->own = NULL;
    }
    infer_session_release(other);
    logits[n - 1] = -INFINITY;
    return INFER_OK;
}

static void test_logits_callback_releases_its_session(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++) {
        infer_session *s = session_of(tiny);
        struct again a = {.own = s};
        infer_sampling o;
        INFER_INIT(&o);
        o.callback = from_logits;
        o.callback_user = &a;
        ok(infer_session_set_sampling(s, &o, &error));
        if (way == 0) {
            infer_sample_result r;
            infer_step_item it;
            INFER_INIT(&r);
            INFER_INIT(&it);
            it.session = s;
            ok(infer_step(&it, 1, NULL, &error));
            ok(infer_session_sample(s, &r, &error));
        } else {
            infer_event ev;
            INFER_INIT(&ev);
            ok(infer_generate_begin(s, NULL, &error));
            for (int i = 0; a.own; i++) {
                assert_true(i < 10);
                ok(infer_generate_next(s, &ev, NULL, &error));
            }
        }
        assert_int_equal(a.calls, 1);
    }
}

/* What the host has of an engine and all that is made with it: the last handle, which a callback lets go of. */
struct last {
    infer_session *session;
    infer_scheduler *scheduler;
};

static void *take(void *user, uint64_t bytes, uint64_t align)
{
    void *p = NULL;
    (void)user;
    return posix_memalign(&p, (size_t)(align < sizeof p ? sizeof p : align), (size_t)bytes) == 0 ? p : NULL;
}

/* Who uses what was freed, sees it. */
static void spoil(void *user, void *block, uint64_t bytes, uint64_t align)
{
    (void)user, (void)align;
    for (uint64_t i = 0; i < bytes; i++) /* memset would be dropped, as nobody may read it */
        ((volatile char *)block)[i] = 0x5a;
    free(block);
}

static infer_model *lone_model(const char *path)
{
    infer_engine *e;
    infer_model *m;
    infer_engine_options o;
    infer_allocator a;
    INFER_INIT(&o);
    INFER_INIT(&a);
    a.alloc = take;
    a.free = spoil;
    o.allocator = &a;
    o.threads = 1;
    o.memory_limit = (uint64_t)64 << 20;
    ok(infer_engine_create(&o, &e, &error));
    ok(infer_model_open_path(e, path, &m, &error));
    infer_engine_release(e);
    return m;
}

static infer_status last_from_logits(void *user, float *logits, uint64_t n, const int32_t *ids, uint64_t count)
{
    struct last *l = user;
    (void)logits, (void)n, (void)ids, (void)count;
    infer_session_release(l->session);
    l->session = NULL;
    return INFER_ERROR_NO_MEMORY;
}

static int32_t last_from_event(void *user, const infer_event *event)
{
    struct last *l = user;
    (void)event;
    infer_session_release(l->session);
    l->session = NULL;
    return 0;
}

static void last_from_request(void *user, infer_request *request, const infer_request_event *event)
{
    struct last *l = user;
    (void)request, (void)event;
    infer_scheduler_release(l->scheduler);
    l->scheduler = NULL;
}

/* Engine, model and session end inside the call, which has nobody left to ask when it tells what happened. */
static void test_callback_releases_the_last(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        infer_model *m = lone_model(TINY);
        struct last l = {.session = session_of(m)};
        infer_session *s = l.session;
        infer_sampling o;
        infer_sample_result r;
        infer_step_item it;
        infer_event ev;
        INFER_INIT(&o);
        INFER_INIT(&r);
        INFER_INIT(&it);
        INFER_INIT(&ev);
        infer_model_release(m);
        o.callback = last_from_logits;
        o.callback_user = &l;
        ok(infer_session_set_sampling(s, &o, &error));
        it.session = s;
        if (way < 2) /* else the first event tells of the prompt */
            ok(infer_step(&it, 1, NULL, &error));
        if (way == 0) {
            REFUSED(infer_session_sample(s, &r, &error), INFER_ERROR_NO_MEMORY);
        } else if (way == 1) {
            ok(infer_generate_begin(s, NULL, &error));
            REFUSED(infer_generate_next(s, &ev, NULL, &error), INFER_ERROR_NO_MEMORY);
        } else {
            REFUSED(infer_generate(s, NULL, last_from_event, &l, NULL, &error), INFER_ERROR_NO_MEMORY);
        }
        assert_null(l.session);
    }
    infer_model *m = lone_model(TINY);
    struct last l = {0};
    int32_t more = 1;
    infer_generate_options go;
    infer_request_options ro;
    INFER_INIT(&go);
    INFER_INIT(&ro);
    ok(infer_scheduler_create(m, NULL, &l.scheduler, &error));
    infer_model_release(m);
    go.max_tokens = 2;
    ro.ids = (int32_t[]){5, 6};
    ro.id_count = 2;
    ro.generate = &go;
    ro.callback = last_from_request;
    ro.callback_user = &l;
    ok(infer_scheduler_submit(l.scheduler, &ro, NULL, &error));
    ok(infer_scheduler_step(l.scheduler, &more, NULL, &error));
    assert_null(l.scheduler);
}

/* A file in memory whose open callback lets go of the engine or the model that the call was given. */
struct leaving {
    infer_engine *engine;
    infer_model *model;
    infer_status status; /* of read */
    char *data;
    size_t len;
};

static infer_status read_leaving(void *user, uint64_t offset, void *dst, uint64_t n)
{
    struct leaving *w = user;
    assert_true(offset <= w->len && n <= w->len - offset);
    memcpy(dst, w->data + offset, n);
    return w->status;
}

static infer_status open_leaving(void *user, const char *name, uint64_t len, infer_stream *out)
{
    struct leaving *w = user;
    (void)name, (void)len;
    infer_engine_release(w->engine);
    infer_model_release(w->model);
    w->engine = NULL;
    w->model = NULL;
    *out = (infer_stream){.size = sizeof *out, .length = w->len, .user = w, .read = read_leaving};
    return INFER_OK;
}

/* Whether it succeeds or fails, the call has what it needs to the end. */
static void test_open_callback_releases_the_last(void **state)
{
    (void)state;
    enum { MODEL, ESTIMATE, ADAPTER, FILES, TOKENIZER, TEMPLATE, WAYS };
    for (int way = 0; way < 2 * WAYS; way++) {
        struct leaving w = {.status = way % 2 ? INFER_ERROR_NO_MEMORY : INFER_OK};
        infer_engine *e;
        infer_source s;
        infer_model *m;
        infer_adapter *a;
        infer_file *f;
        infer_tokenizer *t;
        infer_template *tmpl;
        infer_estimate est;
        infer_status st;
        INFER_INIT(&est);
        bool adapter = way / 2 == ADAPTER;
        w.model = lone_model(adapter ? fixture_path("llama") : TINY);
        w.engine = infer_engine_ref(infer_model_engine(w.model));
        w.data = test_read_file(adapter ? INFER_SOURCE_DIR "/tests/data/adapters/lora-r4.gguf" : TINY, &w.len);
        assert_non_null(w.data);
        m = w.model;
        e = w.engine;
        if (adapter) {
            infer_engine_release(e);
            w.engine = NULL;
        } else {
            infer_model_release(m);
            w.model = NULL;
        }
        infer_source_callback(&s, "leaving", INFER_ZSTR, open_leaving, &w);
        switch (way / 2) {
        case MODEL:
            if ((st = infer_model_open(e, &s, NULL, &m, &error)) == INFER_OK)
                infer_model_release(m);
            break;
        case ESTIMATE: st = infer_model_estimate(e, &s, NULL, NULL, &est, &error); break;
        case ADAPTER:
            if ((st = infer_adapter_open(m, &s, NULL, &a, &error)) == INFER_OK)
                infer_adapter_release(a);
            break;
        case FILES:
            if ((st = infer_file_open(e, &s, NULL, &f, &error)) == INFER_OK)
                infer_file_release(f);
            break;
        case TOKENIZER:
            if ((st = infer_tokenizer_open(e, &s, NULL, &t, &error)) == INFER_OK)
                infer_tokenizer_release(t);
            break;
        default:
            if ((st = infer_template_open(e, &s, NULL, &tmpl, &error)) == INFER_OK)
                infer_template_release(tmpl);
        }
        if (adapter && st == INFER_ERROR_UNSUPPORTED) /* a build without xxHash */
            st = w.status;
        assert_int_equal(st, w.status);
        assert_true(!w.engine && !w.model);
        free(w.data);
    }
}

struct nest {
    int depth, opened;
    char *data;
    size_t len;
};

static infer_status read_nested(void *user, uint64_t offset, void *dst, uint64_t n)
{
    struct nest *w = user;
    if (offset > w->len || n > w->len - offset)
        return INFER_ERROR_TRUNCATED;
    memcpy(dst, w->data + offset, n);
    return INFER_OK;
}

/* Opening a file opens a file opens a file. */
static infer_status open_nested(void *user, const char *name, uint64_t len, infer_stream *out)
{
    struct nest *w = user;
    (void)name;
    (void)len;
    if (++w->opened < w->depth) {
        infer_source s;
        infer_tokenizer *t;
        infer_source_callback(&s, "inner", INFER_ZSTR, open_nested, w);
        assert_int_equal(infer_tokenizer_open(NULL, &s, NULL, &t, NULL), INFER_OK);
        infer_tokenizer_release(t);
    }
    *out = (infer_stream){.size = sizeof *out, .length = w->len, .user = w, .read = read_nested};
    return INFER_OK;
}

static void test_open_callback_opens(void **state)
{
    (void)state;
    struct nest w = {.depth = 5};
    infer_source s;
    infer_tokenizer *t;
    w.data = test_read_file(INFER_SOURCE_DIR "/tests/data/tokenizers/spm.gguf", &w.len);
    assert_non_null(w.data);
    infer_source_callback(&s, "outer", INFER_ZSTR, open_nested, &w);
    ok(infer_tokenizer_open(NULL, &s, NULL, &t, &error));
    assert_true(w.opened >= 5);
    infer_tokenizer_release(t);
    free(w.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids_everywhere),          cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_restores_at_once),        cmocka_unit_test(test_adapter_released_in_use),
        cmocka_unit_test(test_logits_callback_releases_its_session), cmocka_unit_test(test_callback_releases_the_last),
        cmocka_unit_test(test_open_callback_opens), cmocka_unit_test(test_open_callback_releases_the_last),
    };
    return cmocka_run_group_tests_name("hostile", tests, setup, teardown);
}
