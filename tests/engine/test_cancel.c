/* A set cancel flag ends what computes, opens or waits, at whatever moment it is set. See cancel_tests.h for what a moment is; files are in
 * test_cancel_files.c. */
#define _DEFAULT_SOURCE
#include "cancel_tests.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/checkpoint.h"

static infer_engine *engine;
static infer_model *llama, *bert;

static int setup(void **state)
{
    (void)cancel_setup(state);
    engine = watched_engine();
    ok(infer_model_open_path(engine, fixture_path("llama"), &llama, &error));
    ok(infer_model_open_path(engine, fixture_path("bert"), &bert, &error));
    return 0;
}

static int teardown(void **state)
{
    infer_model_release(llama);
    infer_model_release(bert);
    return cancel_teardown(state);
}

/* ---- Steps */

enum { LONG = 300, SHORT = 30, WHOLE = ENGINE_BATCH_ROWS };
static infer_session *first, *second;
static infer_step_item items[2];

static void begin_step(void)
{
    first = cancel_session(llama, LONG + 10, LONG);
    second = cancel_session(llama, LONG + 10, SHORT);
}

static infer_status call_step(infer_cancel *cancel)
{
    INFER_INIT(&items[0]);
    INFER_INIT(&items[1]);
    items[0].session = first;
    items[1].session = second;
    return infer_step(items, 2, cancel, &error);
}

/* Whole batches: 256 of the one; its rest, and the other. */
static void check_step(infer_status st)
{
    assert_int_equal(items[0].done, cancel_info(first).computed);
    assert_int_equal(items[1].done, cancel_info(second).computed);
    assert_int_equal(items[0].status, st);
    if (st == INFER_OK)
        assert_true(items[0].done == LONG && items[1].done == SHORT);
    else
        assert_true((items[0].done == 0 || items[0].done == WHOLE) && items[1].done == 0);
    cancel_same(first);
    cancel_same(second);
}

static void end_two(void)
{
    infer_session_release(first);
    infer_session_release(second);
    first = second = NULL;
}

static void test_step(void **state)
{
    (void)state;
    run_scene(&(struct scene){"step", begin_step, call_step, check_step, end_two, .least = 200, .after = 4, .every = 3});
}

/* A session that has what it needs, and one that does not: the flag hurts the second alone. */
static void begin_other(void)
{
    first = cancel_session(llama, LONG, SHORT);
    second = cancel_session(llama, LONG, SHORT + 7);
    ok(cancel_step(first, NULL));
}

static void check_other(infer_status st)
{
    const float *row;
    assert_int_equal(items[0].status, INFER_OK);
    assert_int_equal(items[1].status, st);
    assert_int_equal(cancel_info(second).computed, st == INFER_OK ? SHORT + 7 : 0);
    assert_int_equal(cancel_info(first).computed, SHORT);
    ok(infer_session_logits(first, 0, &row, NULL, &error)); /* still those of its last step */
    cancel_same(first);
    cancel_same(second);
}

static void test_other_items(void **state)
{
    (void)state;
    run_scene(&(struct scene){"step beside a ready one", begin_other, call_step, check_other, end_two, .least = 50, .after = 4});
}

/* ---- Generation, with a context that shifts */

static int32_t wanted[64], got[64];
static uint32_t n_wanted, n_got;

static void begin_generate(void)
{
    infer_generate_options o;
    INFER_INIT(&o);
    o.max_tokens = 30;
    o.shift_keep = 4;
    o.shift_drop = 16;
    o.flags = INFER_GENERATE_IGNORE_EOS;
    first = cancel_session(llama, 48, 40);
    ok(infer_generate_begin(first, &o, &error));
    n_got = 0;
}

static infer_status call_generate(infer_cancel *cancel)
{
    infer_event ev;
    infer_status st;
    INFER_INIT(&ev);
    do {
        st = infer_generate_next(first, &ev, cancel, &error);
        if (st == INFER_OK && ev.kind == INFER_EVENT_TOKEN)
            got[n_got++] = ev.id;
    } while (st == INFER_OK && ev.kind != INFER_EVENT_DONE);
    return st;
}

static void check_generate(infer_status st)
{
    if (st != INFER_OK)
        ok(call_generate(NULL)); /* a cancelled call may be repeated */
    if (!n_wanted) {
        memcpy(wanted, got, sizeof wanted);
        n_wanted = n_got;
    }
    assert_int_equal(n_got, 30);
    assert_int_equal(n_got, n_wanted);
    assert_memory_equal(got, wanted, n_got * sizeof *got);
}

static void end_one(void)
{
    infer_session_release(first);
    first = NULL;
}

static void test_generate(void **state)
{
    (void)state;
    run_scene(&(struct scene){"generate", begin_generate, call_generate, check_generate, end_one, .least = 1000, .after = 8, .every = 5});
}

/* ---- Scores */

static float logprobs[64], wanted_logprobs[64];
static bool have_logprobs;

static void begin_score(void)
{
    first = cancel_session(llama, LONG, 70);
}

static infer_status call_score(infer_cancel *cancel)
{
    infer_score o;
    INFER_INIT(&o);
    o.logprobs = logprobs;
    return infer_session_score(first, cancel_ids() + 70, 50, &o, cancel, &error);
}

static void check_score(infer_status st)
{
    if (st != INFER_OK) {
        assert_int_equal(cancel_info(first).length, 70);
        assert_int_equal(cancel_info(first).computed, 0);
        ok(call_score(NULL));
    }
    if (!have_logprobs)
        memcpy(wanted_logprobs, logprobs, sizeof logprobs);
    have_logprobs = true;
    assert_memory_equal(logprobs, wanted_logprobs, 50 * sizeof *logprobs);
    cancel_same(first);
}

static void test_score(void **state)
{
    (void)state;
    run_scene(&(struct scene){"score", begin_score, call_score, check_score, end_one, .least = 100, .after = 8});
}

/* ---- Embeddings: of an encoder, and of a model that generates */

static infer_model *embedder;
static float vectors[2][256], wanted_vectors[2][256];
static infer_embed_item texts[2];
static bool have_vectors;

static void begin_embed(void)
{
    memset(vectors, 0, sizeof vectors);
}

static infer_status call_embed(infer_cancel *cancel)
{
    infer_embed_options o;
    INFER_INIT(&o);
    o.pooling = INFER_POOLING_MEAN;
    for (int i = 0; i < 2; i++) {
        INFER_INIT(&texts[i]);
        texts[i].ids = cancel_ids() + i * 30;
        texts[i].id_count = 20 + 9 * (uint64_t)i;
        texts[i].out = vectors[i];
        texts[i].capacity = 256;
    }
    return infer_embed(embedder, texts, 2, &o, cancel, &error);
}

static void check_embed(infer_status st)
{
    if (st != INFER_OK) {
        assert_true(texts[0].status == st || texts[1].status == st);
        ok(call_embed(NULL));
    }
    if (!have_vectors)
        memcpy(wanted_vectors, vectors, sizeof vectors);
    have_vectors = true;
    assert_memory_equal(vectors, wanted_vectors, sizeof vectors);
}

static void nothing(void)
{
}

static void test_embed(void **state)
{
    (void)state;
    embedder = bert;
    have_vectors = false;
    run_scene(&(struct scene){"embed, encoder", begin_embed, call_embed, check_embed, nothing, .least = 50, .after = 10});
    embedder = llama;
    have_vectors = false;
    run_scene(&(struct scene){"embed, decoder", begin_embed, call_embed, check_embed, nothing, .least = 50, .after = 10});
}

/* ---- Graft */

static infer_checkpoint *donor;

static void begin_graft(void)
{
    first = cancel_session(llama, 400, 9);
    ok(cancel_step(first, NULL));
}

static infer_status call_graft(infer_cancel *cancel)
{
    return infer_session_graft(first, donor, 10, 200, 5, NULL, cancel, &error);
}

static float *grafted;

static void check_graft(infer_status st)
{
    const float *row;
    int32_t id = 3;
    size_t bytes = llama->net->h.n_logits * sizeof *row;
    if (st != INFER_OK) {
        assert_int_equal(cancel_info(first).length, 9);
        assert_int_equal(cancel_info(first).computed, 9);
        ok(call_graft(NULL));
    }
    assert_int_equal(cancel_info(first).length, 209);
    ok(infer_session_append(first, &id, 1, &error));
    ok(cancel_step(first, NULL));
    ok(infer_session_logits(first, 0, &row, NULL, &error));
    if (!grafted) {
        grafted = malloc(bytes);
        assert_non_null(grafted);
        memcpy(grafted, row, bytes);
    }
    assert_memory_equal(row, grafted, bytes);
}

static void test_graft(void **state)
{
    (void)state;
    infer_session *s = cancel_session(llama, 400, 250);
    ok(cancel_step(s, NULL));
    ok(infer_checkpoint_create(s, &donor, &error));
    infer_session_release(s);
    run_scene(&(struct scene){"graft", begin_graft, call_graft, check_graft, end_one, .least = 50, .after = 8});
    infer_checkpoint_release(donor);
    free(grafted);
    grafted = NULL;
}

/* ---- Opening */

static struct {
    const char *path;
    int32_t map, quantise;
    bool callback;
    infer_model *model;
    float *logits; /* of the first that was opened */
    char *data;
    size_t size;
} opening;

static infer_status source_read(void *user, uint64_t offset, void *dst, uint64_t n)
{
    (void)user;
    moments_pass();
    memcpy(dst, opening.data + offset, (size_t)n);
    return INFER_OK;
}

static infer_status source_open(void *user, const char *name, uint64_t len, infer_stream *out)
{
    (void)user;
    (void)name;
    (void)len;
    moments_pass();
    out->length = opening.size;
    out->read = source_read;
    return INFER_OK;
}

static infer_status call_open(infer_cancel *cancel)
{
    infer_source source;
    infer_open_options o;
    INFER_INIT(&o);
    o.map = opening.map;
    o.quantise = opening.quantise;
    o.cancel = cancel;
    infer_source_path(&source, opening.path, INFER_ZSTR);
    if (opening.callback) {
        source.kind = INFER_SOURCE_CALLBACK;
        source.open = source_open;
    }
    opening.model = NULL;
    return infer_model_open(engine, &source, &o, &opening.model, &error);
}

static void check_open(infer_status st)
{
    bool same = !strcmp(opening.path, fixture_path("llama"));
    if (st != INFER_OK) {
        assert_null(opening.model);
        ok(call_open(NULL));
    }
    if (same) /* not left out as one of a kind that is not known */
        assert_true(!infer_model_tokenizer(opening.model) == !infer_model_tokenizer(llama));
    infer_session *x = cancel_session(opening.model, 40, 0);
    const float *row;
    int32_t ids[20];
    size_t bytes = opening.model->net->h.n_logits * sizeof *row;
    for (int i = 0; i < 20; i++)
        ids[i] = cancel_ids()[i] % 90; /* all have as many */
    ok(infer_session_append(x, ids, 20, &error));
    ok(cancel_step(x, NULL));
    ok(infer_session_logits(x, 0, &row, NULL, &error));
    if (!opening.logits) {
        opening.logits = malloc(bytes);
        assert_non_null(opening.logits);
        memcpy(opening.logits, row, bytes);
    }
    assert_memory_equal(row, opening.logits, bytes);
    infer_session_release(x);
    infer_model_release(opening.model);
}

static void open_scene(const char *name, const char *path, int32_t map, int32_t quantise, bool callback, uint64_t after)
{
    char kept[512];
    snprintf(kept, sizeof kept, "%s", path);
    opening.path = kept;
    opening.map = map;
    opening.quantise = quantise;
    opening.callback = callback;
    run_scene(&(struct scene){name, nothing, call_open, check_open, nothing, .least = 60, .after = after});
    free(opening.logits);
    opening.logits = NULL;
}

static void test_open(void **state)
{
    (void)state;
    open_scene("open, mapped", fixture_path("llama"), INFER_MAP_AUTO, 0, false, 20);
    open_scene("open, read", fixture_path("llama"), INFER_MAP_READ, 0, false, 20);
    open_scene("open, Q8_0", fixture_path("llama"), INFER_MAP_AUTO, INFER_TYPE_Q8_0, false, 20);
    open_scene("open, Q4_K", fixture_path("llama"), INFER_MAP_AUTO, INFER_TYPE_Q4_K, false, 20);
    open_scene("open, latent attention", fixture_path("deepseek2-kv_b"), INFER_MAP_AUTO, 0, false, 20);
    open_scene("open, Hugging Face", INFER_SOURCE_DIR "/tests/data/fixtures/llama", INFER_MAP_READ, 0, false, 100); /* a config.json is one piece */
    opening.data = test_read_file(fixture_path("llama"), &opening.size);
    open_scene("open, callback", fixture_path("llama"), INFER_MAP_AUTO, 0, true, 20);
    free(opening.data);
}

enum { WORDS = 20000 };
static infer_tokenizer *tokenizer;
static char *tokenizer_json;

static void begin_tokenizer(void)
{
    size_t room = 200 + (size_t)WORDS * 20, n = 0;
    tokenizer_json = malloc(room);
    assert_non_null(tokenizer_json);
    n += (size_t)snprintf(tokenizer_json, room, "{\"version\":\"1.0\",\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"w0\",\"vocab\":{");
    for (int i = 0; i < WORDS; i++)
        n += (size_t)snprintf(tokenizer_json + n, room - n, "%s\"w%d\":%d", i ? "," : "", i, i);
    (void)snprintf(tokenizer_json + n, room - n, "}}}");
}

static void end_tokenizer(void)
{
    free(tokenizer_json);
}

static infer_status call_tokenizer(infer_cancel *cancel)
{
    infer_source source;
    infer_open_options o;
    INFER_INIT(&o);
    o.cancel = cancel;
    infer_source_memory(&source, tokenizer_json, strlen(tokenizer_json));
    source.name = "tokenizer.json";
    source.name_len = INFER_ZSTR;
    tokenizer = NULL;
    return infer_tokenizer_open(engine, &source, &o, &tokenizer, &error);
}

static void check_tokenizer(infer_status st)
{
    int32_t ids[4];
    uint64_t n;
    if (st != INFER_OK) {
        assert_null(tokenizer);
        ok(call_tokenizer(NULL));
    }
    ok(infer_tokenize(tokenizer, "w19999 w7 other", INFER_ZSTR, 0, ids, 4, &n, &error));
    assert_int_equal(n, 3);
    assert_true(ids[0] == 19999 && ids[1] == 7 && ids[2] == 0);
    infer_tokenizer_release(tokenizer);
}

static void test_tokenizer(void **state)
{
    (void)state;
    run_scene(&(struct scene){"open a tokenizer", begin_tokenizer, call_tokenizer, check_tokenizer, end_tokenizer, .least = 60, .after = 40});
}

static infer_adapter *adapter;
static const char *adapter_path;

static infer_status call_adapter(infer_cancel *cancel)
{
    infer_source source;
    infer_open_options o;
    INFER_INIT(&o);
    o.cancel = cancel;
    infer_source_path(&source, adapter_path, INFER_ZSTR);
    adapter = NULL;
    return infer_adapter_open(llama, &source, &o, &adapter, &error);
}

static void check_adapter(infer_status st)
{
    if (st != INFER_OK) {
        assert_null(adapter);
        ok(call_adapter(NULL));
    }
    infer_adapter_release(adapter);
}

static void test_adapter(void **state)
{
    (void)state;
    static const char *const names[] = {"lora-r4.gguf", "lora-r4", "lora-bin", "prefix", "steering.safetensors"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/tests/data/adapters/%s", INFER_SOURCE_DIR, names[i]);
        adapter_path = path;
        run_scene(&(struct scene){names[i], nothing, call_adapter, check_adapter, nothing, .least = 10, .after = 80});
    }
}

/* ---- A scheduler's step */

static infer_scheduler *scheduler;
static infer_request *requests[3];
static struct {
    int32_t ids[3][16];
    uint32_t n[3];
} told, wanted_told;
static bool have_told;

static void on_event(void *user, infer_request *request, const infer_request_event *ev)
{
    (void)request;
    size_t i = (size_t)((infer_request **)user - requests);
    if (ev->kind == INFER_REQUEST_EVENT_TOKEN && told.n[i] < 16)
        told.ids[i][told.n[i]++] = ev->id;
}

static void begin_scheduler(void)
{
    infer_scheduler_options so;
    INFER_INIT(&so);
    memset(&told, 0, sizeof told);
    ok(infer_scheduler_create(llama, &so, &scheduler, &error));
    for (int i = 0; i < 3; i++) {
        infer_request_options o;
        infer_generate_options g;
        infer_session_options s;
        INFER_INIT(&o);
        INFER_INIT(&g);
        INFER_INIT(&s);
        s.cache_flags = INFER_CACHE_NO_LOOKUP | INFER_CACHE_NO_INSERT;
        g.max_tokens = 6;
        o.flags = INFER_REQUEST_IGNORE_EOS;
        o.ids = cancel_ids() + i;
        o.id_count = 20 + 15 * (uint64_t)i;
        o.session = &s;
        o.generate = &g;
        o.callback = on_event;
        o.callback_user = &requests[i];
        ok(infer_scheduler_submit(scheduler, &o, &requests[i], &error));
    }
}

static infer_status call_scheduler(infer_cancel *cancel)
{
    int32_t more = 1;
    infer_status st = INFER_OK;
    while (st == INFER_OK && more)
        st = infer_scheduler_step(scheduler, &more, cancel, &error);
    if (st == INFER_ERROR_CANCELLED)
        assert_int_equal(more, 1);
    return st;
}

static void check_scheduler(infer_status st)
{
    if (st != INFER_OK)
        ok(call_scheduler(NULL));
    if (!have_told)
        wanted_told = told;
    have_told = true;
    assert_memory_equal(&told, &wanted_told, sizeof told);
    assert_int_equal(told.n[2], 6);
}

static void end_scheduler(void)
{
    for (int i = 0; i < 3; i++)
        infer_request_release(requests[i]);
    infer_scheduler_release(scheduler);
}

static void test_scheduler(void **state)
{
    (void)state;
    run_scene(&(struct scene){"scheduler", begin_scheduler, call_scheduler, check_scheduler, end_scheduler, .least = 200, .after = 60, .every = 3});
}

/* ---- An executor of the host's: its contract holds when a job is cancelled before, in the middle and after */

static struct {
    uint64_t runs, at, workers;
    int when; /* 0: before the first worker, 1: after it, 2: after the last; 3: by a signal handler, before the first */
} host;

static void on_signal(int number)
{
    (void)number;
    infer_cancel_set(moments.flag);
}

static int32_t run_job(void *user, uint32_t count, infer_task_fn task, void *arg)
{
    (void)user;
    bool here = ++host.runs == host.at;
    if (here && host.when == 0)
        infer_cancel_set(moments.flag);
    if (here && host.when == 3)
        (void)raise(SIGUSR1);
    for (uint32_t i = 0; i < count; i++) {
        task(arg, i);
        host.workers++;
        if (here && host.when == 1)
            infer_cancel_set(moments.flag);
    }
    if (here && host.when == 2)
        infer_cancel_set(moments.flag);
    return 0;
}

static void test_executor(void **state)
{
    (void)state;
    infer_engine_options eo;
    infer_executor x;
    infer_engine *e;
    infer_model *m;
    struct sigaction action = {.sa_handler = on_signal}, before;
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    INFER_INIT(&eo);
    INFER_INIT(&x);
    x.concurrency = 3;
    x.run = run_job;
    eo.executor = &x;
    ok(infer_engine_create(&eo, &e, &error));
    ok(infer_model_open_path(e, fixture_path("llama"), &m, &error));
    uint64_t all = 0;
    for (host.when = 0; host.when < 4; host.when++)
        for (host.at = 0; host.at <= all; host.at++) {
            infer_session *s = cancel_session(m, LONG, LONG);
            host.runs = 0;
            infer_cancel_clear(moments.flag);
            infer_status st = cancel_step(s, moments.flag);
            assert_true(st == INFER_OK || st == INFER_ERROR_CANCELLED); /* never HOST */
            if (host.at == 0) {
                ok(st);
                all = host.runs;
            } else {
                assert_true(host.runs == host.at); /* no job comes after it */
                assert_int_equal(st, host.at < all || host.when == 0 || host.when == 3 ? INFER_ERROR_CANCELLED : st);
            }
            assert_true(cancel_info(s).computed == (st == INFER_OK ? LONG : host.at ? cancel_info(s).computed / WHOLE * WHOLE : 0));
            host.at += 1u << 20; /* undisturbed */
            cancel_same(s);
            host.at -= 1u << 20;
            infer_session_release(s);
        }
    print_message("executor: %llu jobs\n", (unsigned long long)all);
    assert_true(all > 20);
    infer_model_release(m);
    infer_engine_release(e);
    (void)sigaction(SIGUSR1, &before, NULL);
}

/* ---- Waiting for one's turn */

static struct {
    atomic_int jobs, returned;
    infer_engine *engine;
    infer_model *model;
    infer_cancel *flag;
} turn;

static bool somebody_waits(void)
{
    os_mutex_lock(&turn.engine->hall.lock);
    bool waits = turn.engine->hall.flagged != NULL;
    os_mutex_unlock(&turn.engine->hall.lock);
    return waits;
}

/* The first job waits until the other thread waits, and sets that one's flag; the second one goes on only when that one has returned. */
static int32_t run_slowly(void *user, uint32_t count, infer_task_fn task, void *arg)
{
    (void)user;
    int n = atomic_fetch_add(&turn.jobs, 1);
    while (n == 0 && !somebody_waits())
        os_thread_yield();
    if (n == 0)
        infer_cancel_set(turn.flag);
    while (n == 1 && !atomic_load(&turn.returned))
        os_thread_yield();
    for (uint32_t i = 0; i < count; i++)
        task(arg, i);
    return 0;
}

static infer_status (*waiting_call)(void);

static void *wait_for_turn(void *arg)
{
    while (!atomic_load(&turn.jobs))
        os_thread_yield();
    *(infer_status *)arg = waiting_call();
    atomic_store(&turn.returned, 1);
    return NULL;
}

static infer_session *waiting_session;
static infer_scheduler *waiting_scheduler;

static infer_status waiting_step(void)
{
    infer_step_item it;
    INFER_INIT(&it);
    it.session = waiting_session;
    return infer_step(&it, 1, turn.flag, NULL);
}

static infer_status waiting_scheduler_step(void)
{
    int32_t more = 0;
    infer_status st = infer_scheduler_step(waiting_scheduler, &more, turn.flag, NULL);
    return more == 1 ? st : INFER_ERROR_INTERNAL;
}

static infer_status waiting_open(void)
{
    infer_source source;
    infer_open_options o;
    infer_model *m = NULL;
    INFER_INIT(&o);
    o.cancel = turn.flag;
    infer_source_path(&source, INFER_SOURCE_DIR "/tests/data/fixtures/gpt2.gguf", INFER_ZSTR);
    return infer_model_open(turn.engine, &source, &o, &m, NULL);
}

/* step: what the thread that computes does. */
static void wait_once(infer_status (*call)(void), void (*step)(void))
{
    pthread_t thread;
    infer_status st = INFER_OK;
    atomic_store(&turn.jobs, 0);
    atomic_store(&turn.returned, 0);
    infer_cancel_clear(turn.flag);
    waiting_call = call;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_turn, &st), 0);
    step();
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(st, INFER_ERROR_CANCELLED);
}

static infer_session *computing;

static void compute(void)
{
    computing = cancel_session(turn.model, LONG, 40);
    ok(cancel_step(computing, NULL)); /* not disturbed */
    cancel_same(computing);
    infer_session_release(computing);
}

static void compute_scheduled(void)
{
    int32_t more = 1;
    infer_request_options o;
    infer_request *r;
    INFER_INIT(&o);
    o.ids = cancel_ids();
    o.id_count = 30;
    o.flags = INFER_REQUEST_PROMPT_ONLY;
    ok(infer_scheduler_submit(waiting_scheduler, &o, &r, &error));
    while (more)
        ok(infer_scheduler_step(waiting_scheduler, &more, NULL, &error));
    infer_request_release(r);
}

static void test_turn(void **state)
{
    (void)state;
    infer_engine_options eo;
    infer_executor x;
    infer_scheduler_options so;
    INFER_INIT(&eo);
    INFER_INIT(&x);
    INFER_INIT(&so);
    x.concurrency = 2;
    x.run = run_slowly;
    eo.executor = &x;
    ok(infer_cancel_create(&turn.flag, &error));
    ok(infer_engine_create(&eo, &turn.engine, &error));
    atomic_store(&turn.jobs, 2); /* nobody waits for anybody */
    ok(infer_model_open_path(turn.engine, fixture_path("llama"), &turn.model, &error));
    ok(infer_scheduler_create(turn.model, &so, &waiting_scheduler, &error));
    waiting_session = cancel_session(turn.model, LONG, 20);
    wait_once(waiting_step, compute);
    assert_int_equal(cancel_info(waiting_session).computed, 0);
    cancel_same(waiting_session);
    wait_once(waiting_open, compute);
    wait_once(waiting_scheduler_step, compute_scheduled);
    infer_session_release(waiting_session);
    infer_scheduler_release(waiting_scheduler);
    infer_model_release(turn.model);
    infer_engine_release(turn.engine);
    infer_cancel_release(turn.flag);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step),  cmocka_unit_test(test_other_items), cmocka_unit_test(test_generate), cmocka_unit_test(test_score),
        cmocka_unit_test(test_embed), cmocka_unit_test(test_graft),       cmocka_unit_test(test_open),     cmocka_unit_test(test_adapter),
        cmocka_unit_test(test_tokenizer),
        cmocka_unit_test(test_scheduler), cmocka_unit_test(test_executor), cmocka_unit_test(test_turn),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
