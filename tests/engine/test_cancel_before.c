/* A flag that is set before the call: every function that takes one, itself or in its options, says CANCELLED at once, and nothing has been done; once it is
 * cleared the same call succeeds. The headers say which functions these are. */
#include "cancel_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

static infer_engine *engine;
static infer_model *model, *llama; /* the first with a tokenizer, the second with adapters */
static infer_store *in_memory, *in_folder;

/* ---- What a row works on: made anew for each */

static struct {
    infer_session *session, *start; /* 20 elements computed, 5 pending; as a document begins, for a graft */
    infer_checkpoint *checkpoint;
    infer_scheduler *scheduler;
    infer_request *request;
} world;

/* What a call gives; as it was unless it succeeds. */
static struct outputs {
    infer_file *file;
    infer_model *model;
    infer_tokenizer *tokenizer;
    infer_template *tmpl;
    infer_adapter *adapter;
    infer_checkpoint *checkpoint;
    infer_estimate estimate;
    uint8_t print[32];
    float logprobs[4], vector[2048];
    char text[512];
    uint64_t text_len, rerun;
    infer_event event;
    int events;
} made;

static void begin(void)
{
    infer_request_options o;
    infer_scheduler_options so;
    infer_session *s;
    INFER_INIT(&o);
    INFER_INIT(&so);
    memset(&made, 0, sizeof made);
    INFER_INIT(&made.estimate);
    INFER_INIT(&made.event);
    world.session = cancel_session(model, 200, 20);
    ok(cancel_step(world.session, NULL));
    ok(infer_session_append(world.session, cancel_ids() + 20, 5, &error));
    world.start = cancel_session(model, 200, 10);
    ok(cancel_step(world.start, NULL));
    s = cancel_session(model, 200, 30);
    ok(cancel_step(s, NULL));
    ok(infer_checkpoint_create(s, &world.checkpoint, &error));
    infer_session_release(s);
    ok(infer_scheduler_create(model, &so, &world.scheduler, &error));
    o.ids = cancel_ids();
    o.id_count = 9;
    ok(infer_scheduler_submit(world.scheduler, &o, &world.request, &error));
}

static void end(void)
{
    infer_file_release(made.file);
    infer_model_release(made.model);
    infer_tokenizer_release(made.tokenizer);
    infer_template_release(made.tmpl);
    infer_adapter_release(made.adapter);
    infer_checkpoint_release(made.checkpoint);
    infer_request_release(world.request);
    infer_scheduler_release(world.scheduler);
    infer_checkpoint_release(world.checkpoint);
    infer_session_release(world.start);
    infer_session_release(world.session);
}

static int setup(void **state)
{
    (void)cancel_setup(state);
    engine = watched_engine();
    ok(infer_model_open_path(engine, INFER_SOURCE_DIR "/models/tiny.gguf", &model, &error));
    ok(infer_model_open_path(engine, fixture_path("llama"), &llama, &error));
    ok(infer_store_open(engine, NULL, 0, NULL, &in_memory, &error));
    if (!hash_available())
        return 0;
    ok(infer_store_open(engine, tempdir_path("store"), INFER_ZSTR, NULL, &in_folder, &error));
    begin();
    ok(infer_store_put(in_memory, "there", INFER_ZSTR, world.checkpoint, 0, NULL, &error));
    ok(infer_store_put(in_folder, "there", INFER_ZSTR, world.checkpoint, 0, NULL, &error));
    ok(infer_checkpoint_save(world.checkpoint, tempdir_path("there"), INFER_ZSTR, NULL, NULL, &error));
    end();
    return 0;
}

static int teardown(void **state)
{
    infer_store_release(in_memory);
    infer_store_release(in_folder);
    infer_model_release(llama);
    infer_model_release(model);
    return cancel_teardown(state);
}

/* ---- The calls */

static infer_source source;
static infer_open_options opening;

static void source_of(const char *path, int32_t map, infer_cancel *cancel)
{
    infer_source_path(&source, path, INFER_ZSTR);
    INFER_INIT(&opening);
    opening.map = map;
    opening.cancel = cancel;
}

static infer_status file_mapped(infer_cancel *cancel)
{
    source_of(fixture_path("llama"), INFER_MAP_AUTO, cancel);
    return infer_file_open(engine, &source, &opening, &made.file, &error);
}

static infer_status file_read(infer_cancel *cancel)
{
    source_of(fixture_path("llama"), INFER_MAP_READ, cancel);
    return infer_file_open(engine, &source, &opening, &made.file, &error);
}

static infer_status file_in_memory(infer_cancel *cancel)
{
    static char *data; /* as long as the file */
    static size_t n;
    free(data);
    data = test_read_file(fixture_path("llama"), &n);
    source_of("", INFER_MAP_AUTO, cancel);
    infer_source_memory(&source, data, n);
    infer_status st = infer_file_open(engine, &source, &opening, &made.file, &error);
    infer_file_release(made.file);
    made.file = NULL;
    free(data);
    data = NULL;
    return st;
}

static infer_status model_open_mapped(infer_cancel *cancel)
{
    source_of(fixture_path("llama"), INFER_MAP_AUTO, cancel);
    return infer_model_open(engine, &source, &opening, &made.model, &error);
}

static infer_status model_open_folder(infer_cancel *cancel)
{
    source_of(INFER_SOURCE_DIR "/tests/data/fixtures/llama", INFER_MAP_AUTO, cancel);
    return infer_model_open(engine, &source, &opening, &made.model, &error);
}

static infer_status model_estimate(infer_cancel *cancel)
{
    source_of(fixture_path("llama"), INFER_MAP_AUTO, cancel);
    return infer_model_estimate(engine, &source, &opening, NULL, &made.estimate, &error);
}

static infer_status tokenizer_open(infer_cancel *cancel)
{
    source_of(INFER_SOURCE_DIR "/models/tiny.gguf", INFER_MAP_AUTO, cancel);
    return infer_tokenizer_open(engine, &source, &opening, &made.tokenizer, &error);
}

static infer_status template_open(infer_cancel *cancel)
{
    source_of(INFER_SOURCE_DIR "/models/tiny.gguf", INFER_MAP_AUTO, cancel);
    return infer_template_open(engine, &source, &opening, &made.tmpl, &error);
}

static infer_status adapter_open_file(infer_cancel *cancel)
{
    source_of(INFER_SOURCE_DIR "/tests/data/adapters/lora-r4.gguf", INFER_MAP_AUTO, cancel);
    return infer_adapter_open(llama, &source, &opening, &made.adapter, &error);
}

static infer_status render(infer_cancel *cancel)
{
    infer_render_options o;
    INFER_INIT(&o);
    o.cancel = cancel;
    return infer_template_render(infer_model_template(model), "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", INFER_ZSTR, &o, made.text, sizeof made.text,
                                 &made.text_len, &error);
}

static infer_status append_chat(infer_cancel *cancel)
{
    infer_message message = {"user", INFER_ZSTR, "Who?", INFER_ZSTR};
    infer_render_options o;
    INFER_INIT(&o);
    o.cancel = cancel;
    return infer_session_append_chat(world.session, &message, 1, &o, &error);
}

static infer_status step_of(infer_session *session, infer_cancel *cancel)
{
    infer_step_item it;
    INFER_INIT(&it);
    it.session = session;
    infer_status st = infer_step(&it, 1, cancel, &error);
    assert_int_equal(it.status, st);
    return st;
}

static infer_status step(infer_cancel *cancel)
{
    return step_of(world.session, cancel);
}

static infer_status step_ready(infer_cancel *cancel) /* nothing to do */
{
    return step_of(world.start, cancel);
}

static infer_status score(infer_cancel *cancel)
{
    infer_score o;
    INFER_INIT(&o);
    o.logprobs = made.logprobs;
    return infer_session_score(world.session, cancel_ids() + 30, 4, &o, cancel, &error);
}

static infer_status next(infer_cancel *cancel)
{
    return infer_generate_next(world.start, &made.event, cancel, &error);
}

static void before_token(void) /* which needs no step */
{
    ok(infer_generate_begin(world.start, NULL, &error));
}

static void before_done(void)
{
    infer_generate_options o;
    infer_event event;
    INFER_INIT(&o);
    INFER_INIT(&event);
    o.max_tokens = 1;
    ok(infer_generate_begin(world.start, &o, &error));
    ok(infer_generate_next(world.start, &event, NULL, &error));
    assert_int_equal(event.kind, INFER_EVENT_TOKEN);
}

static int32_t on_event(void *user, const infer_event *event)
{
    (void)user;
    (void)event;
    made.events++;
    return 0;
}

static infer_status generate(infer_cancel *cancel)
{
    infer_generate_options o;
    INFER_INIT(&o);
    o.max_tokens = 3;
    o.flags = INFER_GENERATE_IGNORE_EOS;
    return infer_generate(world.session, &o, on_event, NULL, cancel, &error);
}

static infer_status embed(infer_cancel *cancel)
{
    infer_embed_options o;
    infer_embed_item it;
    INFER_INIT(&o);
    INFER_INIT(&it);
    o.pooling = INFER_POOLING_MEAN;
    it.ids = cancel_ids();
    it.id_count = 5;
    it.out = made.vector;
    it.capacity = sizeof made.vector / sizeof *made.vector;
    infer_status st = infer_embed(model, &it, 1, &o, cancel, &error);
    assert_int_equal(it.status, st);
    return st;
}

static infer_status scheduler_step(infer_cancel *cancel)
{
    int32_t more = 0;
    infer_status st = infer_scheduler_step(world.scheduler, &more, cancel, &error);
    assert_int_equal(more, 1);
    return st;
}

static infer_status graft(infer_cancel *cancel)
{
    return infer_session_graft(world.start, world.checkpoint, 10, 15, 0, &made.rerun, cancel, &error);
}

static infer_status graft_elsewhere(infer_cancel *cancel)
{
    return infer_session_graft(world.start, world.checkpoint, 5, 15, 2, &made.rerun, cancel, &error);
}

static infer_status put_in_memory(infer_cancel *cancel)
{
    return infer_store_put(in_memory, "new", INFER_ZSTR, world.checkpoint, INFER_STORE_REPLACE, cancel, &error);
}

static infer_status get_from_memory(infer_cancel *cancel)
{
    return infer_store_get(in_memory, model, "there", INFER_ZSTR, cancel, &made.checkpoint, &error);
}

static infer_status put_in_folder(infer_cancel *cancel)
{
    return infer_store_put(in_folder, "new", INFER_ZSTR, world.checkpoint, INFER_STORE_REPLACE, cancel, &error);
}

static infer_status get_from_folder(infer_cancel *cancel)
{
    return infer_store_get(in_folder, model, "there", INFER_ZSTR, cancel, &made.checkpoint, &error);
}

static infer_status flush(infer_cancel *cancel)
{
    return infer_engine_cache_flush(engine, cancel, &error);
}

static infer_status save(infer_cancel *cancel)
{
    return infer_checkpoint_save(world.checkpoint, tempdir_path("saved"), INFER_ZSTR, NULL, cancel, &error);
}

static infer_status load(infer_cancel *cancel)
{
    return infer_checkpoint_open(model, tempdir_path("there"), INFER_ZSTR, NULL, cancel, &made.checkpoint, &error);
}

static infer_status clone(infer_cancel *cancel)
{
    return infer_checkpoint_clone_file(engine, tempdir_path("there"), INFER_ZSTR, tempdir_path("cloned"), INFER_ZSTR, cancel, &error);
}

static infer_status quick_print(infer_cancel *cancel)
{
    return infer_model_fingerprint(model, INFER_FINGERPRINT_QUICK, made.print, cancel, &error);
}

static infer_status full_print(infer_cancel *cancel)
{
    return infer_model_fingerprint(model, INFER_FINGERPRINT_FULL, made.print, cancel, &error);
}

static const struct row {
    const char *function;
    infer_status (*call)(infer_cancel *cancel);
    void (*before)(void); /* or NULL */
    uint64_t moments;     /* that it may have all the same: memory of the call's own */
    bool hashes;          /* needs a build with xxHash */
} rows[] = {
    {"infer_file_open", file_mapped, NULL, 0, false},
    {"infer_file_open", file_read, NULL, 0, false},
    {"infer_file_open", file_in_memory, NULL, 0, false},
    {"infer_model_open", model_open_mapped, NULL, 0, false},
    {"infer_model_open", model_open_folder, NULL, 0, false},
    {"infer_model_estimate", model_estimate, NULL, 0, false},
    {"infer_tokenizer_open", tokenizer_open, NULL, 0, false},
    {"infer_template_open", template_open, NULL, 0, false},
    {"infer_adapter_open", adapter_open_file, NULL, 0, true},
    {"infer_template_render", render, NULL, 0, false},
    {"infer_session_append_chat", append_chat, NULL, 0, false},
    {"infer_step", step, NULL, 0, false},
    {"infer_step", step_ready, NULL, 0, false},
    {"infer_session_score", score, NULL, 0, false},
    {"infer_generate_next", next, before_token, 0, false},
    {"infer_generate_next", next, before_done, 0, false},
    {"infer_generate", generate, NULL, 0, false},
    {"infer_embed", embed, NULL, 1, false},
    {"infer_scheduler_step", scheduler_step, NULL, 0, false},
    {"infer_session_graft", graft, NULL, 0, false},
    {"infer_session_graft", graft_elsewhere, NULL, 0, false},
    {"infer_store_put", put_in_memory, NULL, 0, false},
    {"infer_store_get", get_from_memory, NULL, 0, true},
    {"infer_store_put", put_in_folder, NULL, 0, true},
    {"infer_store_get", get_from_folder, NULL, 0, true},
    {"infer_engine_cache_flush", flush, NULL, 0, true},
    {"infer_checkpoint_save", save, NULL, 0, true},
    {"infer_checkpoint_open", load, NULL, 0, true},
    {"infer_checkpoint_clone_file", clone, NULL, 0, true},
    {"infer_model_fingerprint", quick_print, NULL, 0, true},
    {"infer_model_fingerprint", full_print, NULL, 0, true},
};
#define N_ROWS (sizeof rows / sizeof *rows)

/* ---- What must not change */

struct state {
    infer_session_info info[2];
    float logits[2][16]; /* of their first logits */
    infer_scheduler_info scheduled;
    infer_cache_stats cache;
    struct held held;
    int files, in_store;
};

static void look(struct state *s)
{
    infer_session *const sessions[] = {world.session, world.start};
    infer_store_info kept[2];
    memset(s, 0, sizeof *s);
    for (int i = 0; i < 2; i++) {
        const float *row;
        s->info[i] = cancel_info(sessions[i]);
        if (infer_session_logits(sessions[i], 0, &row, NULL, NULL) == INFER_OK)
            memcpy(s->logits[i], row, sizeof s->logits[i]);
        INFER_INIT(&kept[i]);
    }
    INFER_INIT(&s->scheduled);
    ok(infer_scheduler_get_info(world.scheduler, &s->scheduled, &error));
    INFER_INIT(&s->cache);
    ok(infer_engine_cache_stats(engine, &s->cache, &error));
    ok(infer_store_get_info(in_memory, &kept[0], &error));
    if (in_folder)
        ok(infer_store_get_info(in_folder, &kept[1], &error));
    s->in_store = (int)(kept[0].count * 100 + kept[1].count);
    s->files = tempdir_count("");
    s->held = cancel_held();
}

static void try_row(const struct row *row)
{
    struct state was, is;
    begin();
    if (row->before)
        row->before();
    struct outputs nothing = made;
    look(&was);
    moments_from(0, false);
    infer_cancel_set(moments.flag);
    INFER_INIT(&error);
    infer_status st = row->call(moments.flag);
    uint64_t n = moments.n;
    if (st != INFER_ERROR_CANCELLED)
        fail_msg("%s: %s, not CANCELLED", row->function, infer_status_name(st));
    assert_int_equal(error.code, st);
    assert_non_null(strstr(error.text, "cancelled"));
    if (n > row->moments)
        fail_msg("%s: %llu moments", row->function, (unsigned long long)n);
    look(&is);
    if (memcmp(&made, &nothing, sizeof made) != 0)
        fail_msg("%s: an output is written", row->function);
    if (memcmp(&is, &was, sizeof is) != 0)
        fail_msg("%s: something has changed: blocks %lld, files open %lld, in folders %d", row->function, (long long)(is.held.blocks - was.held.blocks),
                 (long long)(is.held.files - was.held.files), is.files - was.files);
    infer_cancel_clear(moments.flag);
    st = row->call(moments.flag);
    if (st != INFER_OK)
        fail_msg("%s, when the flag is cleared: %s: %s", row->function, infer_status_name(st), error.text);
    end();
}

static void test_set_before(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_ROWS; i++)
        if (!rows[i].hashes || hash_available())
            try_row(&rows[i]);
}

/* After infer_generate too there is an answer, of which nothing is made yet: it goes on. */
static void test_generate_goes_on(void **state)
{
    (void)state;
    infer_event event;
    int tokens = 0;
    INFER_INIT(&event);
    begin();
    moments_from(0, false);
    infer_cancel_set(moments.flag);
    assert_int_equal(generate(moments.flag), INFER_ERROR_CANCELLED);
    assert_int_equal(made.events, 0);
    infer_cancel_clear(moments.flag);
    while (event.kind != INFER_EVENT_DONE) {
        ok(infer_generate_next(world.session, &event, moments.flag, &error));
        tokens += event.kind == INFER_EVENT_TOKEN;
    }
    assert_int_equal(tokens, 3);
    end();
}

/* ---- No function is forgotten */

static bool takes_flag(const char *prototype)
{
    static const char *const flags[] = {"infer_cancel *cancel", "infer_open_options *", "infer_render_options *"};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (strstr(prototype, flags[i]))
            return true;
    return false;
}

/* Prototypes in a header that take a flag; each must have a row. */
static int check_header(const char *name)
{
    char path[512], prototype[1024], function[64];
    int n = 0;
    (void)snprintf(path, sizeof path, "%s/include/infer/%s", INFER_SOURCE_DIR, name);
    char *text = test_read_file(path, NULL);
    assert_non_null(text);
    for (const char *p = text, *stop; (p = strstr(p, "INFER_API infer_status infer_")) != NULL; p = stop) {
        stop = strchr(p, ';');
        assert_true(stop && stop - p < (int)sizeof prototype);
        (void)snprintf(prototype, sizeof prototype, "%.*s", (int)(stop - p), p);
        if (!takes_flag(prototype))
            continue;
        assert_int_equal(sscanf(prototype, "INFER_API infer_status %63[a-z0-9_]", function), 1);
        bool found = false;
        for (size_t i = 0; i < N_ROWS; i++)
            found = found || !strcmp(rows[i].function, function);
        if (!found)
            fail_msg("%s takes a cancel flag, and is not in the table", function);
        n++;
    }
    free(text);
    return n;
}

static void test_all_functions(void **state)
{
    (void)state;
    assert_true(check_header("infer.h") >= 13);
    assert_true(check_header("state.h") >= 8);
    assert_true(check_header("scheduler.h") >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_set_before), cmocka_unit_test(test_generate_goes_on), cmocka_unit_test(test_all_functions)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
