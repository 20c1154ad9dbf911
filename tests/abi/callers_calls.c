#include "callers_calls.h"

#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "golden.h"
#include "ok.h"
#include "tempdir.h"

#define TINY INFER_SOURCE_DIR "/models/tiny.gguf"
#define LORA INFER_SOURCE_DIR "/tests/data/adapters/lora-r4"

static const int32_t ids[3] = {5, 6, 7};
static infer_engine *engine;
static infer_model *model;
static infer_adapter *adapter;
static infer_session *session; /* the three ids, stepped; the adapter comes into force for what is appended next */
static infer_session *stepped; /* a fork, for call_infer_step_item */
static infer_checkpoint *checkpoint;
static infer_store *store; /* with the checkpoint in it */
static infer_scheduler *scheduler;
static infer_file *file;
static infer_tokenizer *tokenizer;
static infer_template *tmpl;
static char saved[512];
static float floats[4096];

infer_model *callers_model(void)
{
    return model;
}

infer_adapter *callers_adapter(void)
{
    return adapter;
}

infer_session *callers_session(void)
{
    infer_session *s;
    ok(infer_session_fork(session, &s, &error));
    return s;
}

static void step(infer_session *s)
{
    infer_step_item it;
    INFER_INIT(&it);
    it.session = s;
    ok(infer_step(&it, 1, NULL, &error));
}

void callers_open(void)
{
    infer_source source;
    infer_adapter_use use;
    INFER_INIT(&error);
    ok(infer_engine_create(NULL, &engine, &error));
    ok(infer_model_open_path(engine, fixture_path("llama"), &model, &error));
    ok(infer_adapter_open_path(model, LORA, &adapter, &error));
    ok(infer_session_create(model, NULL, &session, &error));
    ok(infer_session_append(session, ids, 3, &error));
    step(session);
    INFER_INIT(&use);
    use.adapter = adapter;
    use.scale = 0.5f;
    ok(infer_session_set_adapters(session, &use, 1, &error));
    ok(infer_session_fork(session, &stepped, &error));
    ok(infer_checkpoint_create(session, &checkpoint, &error));
    ok(infer_store_open(engine, NULL, 0, NULL, &store, &error));
    ok(infer_store_put(store, "one", 3, checkpoint, 0, NULL, &error));
    ok(infer_scheduler_create(model, NULL, &scheduler, &error));
    infer_source_path(&source, TINY, INFER_ZSTR);
    ok(infer_file_open(NULL, &source, NULL, &file, &error));
    ok(infer_tokenizer_open(NULL, &source, NULL, &tokenizer, &error));
    ok(infer_template_parse(NULL, "{{ messages|length }}", INFER_ZSTR, &tmpl, &error));
    tempdir_make();
    (void)strcpy(saved, tempdir_path("saved"));
}

void callers_close(void)
{
    tempdir_remove();
    infer_template_release(tmpl);
    infer_tokenizer_release(tokenizer);
    infer_file_release(file);
    infer_scheduler_release(scheduler);
    infer_store_release(store);
    infer_checkpoint_release(checkpoint);
    infer_session_release(stepped);
    infer_session_release(session);
    infer_adapter_release(adapter);
    infer_model_release(model);
    infer_engine_release(engine);
}

/* ---- Engines and files ---- */

static void *host_alloc(void *user, uint64_t bytes, uint64_t align)
{
    (void)user;
    void *p = NULL;
    return posix_memalign(&p, align < sizeof p ? sizeof p : (size_t)align, (size_t)bytes) ? NULL : p;
}

static void host_free(void *user, void *block, uint64_t bytes, uint64_t align)
{
    (void)user, (void)bytes, (void)align;
    free(block);
}

static int32_t host_run(void *user, uint32_t count, infer_task_fn task, void *task_arg)
{
    (void)user;
    for (uint32_t i = 0; i < count; i++)
        task(task_arg, i);
    return 0;
}

static infer_status call_infer_engine_options(void *x, infer_error *err)
{
    infer_engine *e = NULL;
    infer_status st = infer_engine_create(x, &e, err);
    infer_engine_release(e);
    return st;
}

static void fill_infer_allocator(void *x)
{
    infer_allocator *a = x;
    a->alloc = host_alloc;
    a->free = host_free;
}

static infer_status call_infer_allocator(void *x, infer_error *err)
{
    infer_engine_options o;
    INFER_INIT(&o);
    o.allocator = x;
    return call_infer_engine_options(&o, err);
}

static void fill_infer_executor(void *x)
{
    infer_executor *e = x;
    e->concurrency = 2;
    e->run = host_run;
}

static infer_status call_infer_executor(void *x, infer_error *err)
{
    infer_engine_options o;
    INFER_INIT(&o);
    o.executor = x;
    return call_infer_engine_options(&o, err);
}

static infer_status call_infer_engine_info(void *x, infer_error *err)
{
    return infer_engine_get_info(engine, x, err);
}

static void fill_infer_source(void *x)
{
    infer_source_path(x, TINY, INFER_ZSTR);
}

static infer_status call_infer_source(void *x, infer_error *err)
{
    infer_file *f = NULL;
    infer_status st = infer_file_open(NULL, x, NULL, &f, err);
    infer_file_release(f);
    return st;
}

static infer_status call_infer_open_options(void *x, infer_error *err)
{
    infer_source s;
    infer_file *f = NULL;
    infer_source_path(&s, TINY, INFER_ZSTR);
    infer_status st = infer_file_open(NULL, &s, x, &f, err);
    infer_file_release(f);
    return st;
}

static infer_status call_infer_tensor_info(void *x, infer_error *err)
{
    return infer_file_tensor(file, 0, x, err);
}

static infer_status call_infer_value(void *x, infer_error *err)
{
    const char *key;
    uint64_t len;
    return infer_file_meta(file, 0, &key, &len, x, err);
}

static void fill_array(void *x)
{
    infer_value *v = x;
    v->size = (uint32_t)sizeof *v;
    ok(infer_file_find_meta(file, "tokenizer.ggml.tokens", INFER_ZSTR, v, &error));
}

static infer_status call_array(void *x, infer_error *err)
{
    infer_value item;
    INFER_INIT(&item);
    return infer_file_value_item(file, x, 1, &item, err);
}

/* ---- Text ---- */

static infer_status call_infer_tokenizer_info(void *x, infer_error *err)
{
    return infer_tokenizer_get_info(tokenizer, x, err);
}

static infer_status call_infer_detokenizer(void *x, infer_error *err)
{
    char text[256];
    uint64_t len;
    return infer_detokenizer_next(tokenizer, x, 5, text, sizeof text, &len, err);
}

static infer_status call_infer_token_info(void *x, infer_error *err)
{
    return infer_tokenizer_token(tokenizer, 5, x, err);
}

static infer_status call_infer_render_options(void *x, infer_error *err)
{
    char text[16];
    uint64_t len;
    return infer_template_render(tmpl, "{\"messages\":[]}", INFER_ZSTR, x, text, sizeof text, &len, err);
}

static infer_status call_chat(void *x, infer_error *err)
{
    infer_model *m = NULL;
    infer_session *s = NULL;
    infer_message message = {"user", INFER_ZSTR, "Hello", INFER_ZSTR};
    ok(infer_model_open_path(engine, TINY, &m, &error));
    ok(infer_session_create(m, NULL, &s, &error));
    infer_status st = infer_session_append_chat(s, &message, 1, x, err);
    infer_session_release(s);
    infer_model_release(m);
    return st;
}

/* ---- Models and sessions ---- */

static infer_status call_infer_estimate_options(void *x, infer_error *err)
{
    infer_source s;
    infer_estimate out;
    INFER_INIT(&out);
    infer_source_path(&s, TINY, INFER_ZSTR);
    return infer_model_estimate(engine, &s, NULL, x, &out, err);
}

static infer_status call_infer_estimate(void *x, infer_error *err)
{
    infer_source s;
    infer_source_path(&s, TINY, INFER_ZSTR);
    return infer_model_estimate(engine, &s, NULL, NULL, x, err);
}

static infer_status call_infer_model_info(void *x, infer_error *err)
{
    return infer_model_get_info(model, x, err);
}

static infer_status call_infer_model_memory(void *x, infer_error *err)
{
    return infer_model_get_memory(model, x, err);
}

static infer_status call_infer_session_options(void *x, infer_error *err)
{
    infer_session *s = NULL;
    infer_status st = infer_session_create(model, x, &s, err);
    infer_session_release(s);
    return st;
}

static infer_status call_infer_session_info(void *x, infer_error *err)
{
    return infer_session_get_info(session, x, err);
}

static void fill_infer_hidden(void *x)
{
    infer_hidden *h = x;
    h->out = floats;
    h->capacity = sizeof floats / sizeof *floats;
}

static infer_status call_infer_hidden(void *x, infer_error *err)
{
    infer_step_item it;
    INFER_INIT(&it);
    it.session = callers_session();
    it.hidden = x;
    infer_status st = infer_step(&it, 1, NULL, err);
    infer_session_release(it.session);
    return st;
}

static void fill_infer_step_item(void *x)
{
    ((infer_step_item *)x)->session = stepped;
}

/* The same two elements each time. */
static infer_status call_infer_step_item(void *x, infer_error *err)
{
    ok(infer_session_truncate(stepped, 1, NULL, &error));
    ok(infer_session_append(stepped, ids + 1, 2, &error));
    return infer_step(x, 1, NULL, err);
}

static infer_status call_infer_sampling(void *x, infer_error *err)
{
    infer_session *s = callers_session();
    infer_status st = infer_session_set_sampling(s, x, err);
    infer_session_release(s);
    return st;
}

static infer_status call_sampling_default(void *x, infer_error *err)
{
    return infer_sampling_default(x, err);
}

static infer_status call_infer_sample_result(void *x, infer_error *err)
{
    return infer_session_sample(session, x, err);
}

static infer_status call_infer_score(void *x, infer_error *err)
{
    infer_session *s = callers_session();
    infer_status st = infer_session_score(s, ids, 2, x, NULL, err);
    infer_session_release(s);
    return st;
}

static infer_status call_infer_event(void *x, infer_error *err)
{
    infer_session *s = callers_session();
    ok(infer_generate_begin(s, NULL, &error));
    infer_status st = infer_generate_next(s, x, NULL, err);
    infer_session_release(s);
    return st;
}

static infer_status call_infer_generate_options(void *x, infer_error *err)
{
    infer_session *s = callers_session();
    infer_status st = infer_generate_begin(s, x, err);
    infer_session_release(s);
    return st;
}

static infer_status call_infer_adapter_info(void *x, infer_error *err)
{
    return infer_adapter_get_info(adapter, x, err);
}

static void fill_infer_adapter_use(void *x)
{
    ((infer_adapter_use *)x)->adapter = adapter;
    ((infer_adapter_use *)x)->scale = 1;
}

static infer_status call_infer_adapter_use(void *x, infer_error *err)
{
    infer_session *s = callers_session();
    infer_status st = infer_session_set_adapters(s, x, 1, err);
    infer_session_release(s);
    return st;
}

static infer_status call_adapter_of_session(void *x, infer_error *err)
{
    return infer_session_adapter(session, 0, x, err);
}

static infer_status call_infer_embed_item(void *x, infer_error *err)
{
    return infer_embed(model, x, 1, NULL, NULL, err);
}

static void fill_infer_embed_item(void *x)
{
    infer_embed_item *it = x;
    it->ids = ids;
    it->id_count = 3;
    it->out = floats;
    it->capacity = sizeof floats / sizeof *floats;
}

static infer_status call_infer_embed_options(void *x, infer_error *err)
{
    infer_embed_item it;
    INFER_INIT(&it);
    fill_infer_embed_item(&it);
    return infer_embed(model, &it, 1, x, NULL, err);
}

/* ---- State ---- */

static infer_status call_infer_checkpoint_info(void *x, infer_error *err)
{
    return infer_checkpoint_get_info(checkpoint, x, err);
}

static infer_status call_infer_store_options(void *x, infer_error *err)
{
    infer_store *s = NULL;
    infer_status st = infer_store_open(engine, NULL, 0, x, &s, err);
    infer_store_release(s);
    return st;
}

static infer_status call_infer_store_entry(void *x, infer_error *err)
{
    return infer_store_next(store, NULL, 0, x, err);
}

static infer_status call_infer_store_info(void *x, infer_error *err)
{
    return infer_store_get_info(store, x, err);
}

static infer_status call_infer_cache_report(void *x, infer_error *err)
{
    return infer_session_cache_report(session, x, err);
}

static infer_status call_infer_cache_stats(void *x, infer_error *err)
{
    return infer_engine_cache_stats(engine, x, err);
}

/* Builds without xxHash write no checkpoint files, but check what they are asked for first. */
static infer_status call_infer_save_options(void *x, infer_error *err)
{
    infer_status st = infer_checkpoint_save(checkpoint, saved, INFER_ZSTR, x, NULL, err);
    return st == INFER_ERROR_UNSUPPORTED ? INFER_OK : st;
}

static infer_status call_infer_load_options(void *x, infer_error *err)
{
    infer_checkpoint *c = NULL;
    infer_status st = infer_checkpoint_save(checkpoint, saved, INFER_ZSTR, NULL, NULL, &error);
    if (st != INFER_ERROR_UNSUPPORTED)
        ok(st);
    st = infer_checkpoint_open(model, saved, INFER_ZSTR, x, NULL, &c, err);
    infer_checkpoint_release(c);
    return st == INFER_ERROR_UNSUPPORTED ? INFER_OK : st;
}

/* ---- The scheduler ---- */

static infer_status call_infer_scheduler_options(void *x, infer_error *err)
{
    infer_scheduler *s = NULL;
    infer_status st = infer_scheduler_create(model, x, &s, err);
    infer_scheduler_release(s);
    return st;
}

static infer_status call_infer_scheduler_info(void *x, infer_error *err)
{
    return infer_scheduler_get_info(scheduler, x, err);
}

static void fill_infer_request_options(void *x)
{
    infer_request_options *o = x;
    o->ids = ids;
    o->id_count = 3;
    o->flags = INFER_REQUEST_PROMPT_ONLY;
}

static infer_status submit(const void *options, infer_request **out, infer_error *err)
{
    int32_t more = 1;
    infer_status st = infer_scheduler_submit(scheduler, options, out, err);
    while (st == INFER_OK && more)
        ok(infer_scheduler_step(scheduler, &more, NULL, &error));
    return st;
}

static infer_status call_infer_request_options(void *x, infer_error *err)
{
    infer_request *r = NULL;
    infer_status st = submit(x, &r, err);
    infer_request_release(r);
    return st;
}

static infer_request *finished_request(void)
{
    infer_request *r = NULL;
    infer_request_options o;
    INFER_INIT(&o);
    fill_infer_request_options(&o);
    ok(submit(&o, &r, &error));
    return r;
}

static infer_status call_infer_request_event(void *x, infer_error *err)
{
    infer_request *r = finished_request();
    infer_status st = infer_request_next(r, x, err);
    infer_request_release(r);
    return st;
}

static infer_status call_infer_request_info(void *x, infer_error *err)
{
    infer_request *r = finished_request();
    infer_status st = infer_request_get_info(r, x, err);
    infer_request_release(r);
    return st;
}

static infer_status call_nested(infer_request_options *o, infer_error *err)
{
    fill_infer_request_options(o);
    return call_infer_request_options(o, err);
}

static infer_status call_session_of_request(void *x, infer_error *err)
{
    infer_request_options o;
    INFER_INIT(&o);
    o.session = x;
    return call_nested(&o, err);
}

static infer_status call_sampling_of_request(void *x, infer_error *err)
{
    infer_request_options o;
    INFER_INIT(&o);
    o.sampling = x;
    return call_nested(&o, err);
}

static infer_status call_generate_of_request(void *x, infer_error *err)
{
    infer_request_options o;
    INFER_INIT(&o);
    o.generate = x;
    return call_nested(&o, err);
}

static infer_status call_adapters_of_request(void *x, infer_error *err)
{
    infer_request_options o;
    INFER_INIT(&o);
    o.adapters = x;
    o.adapter_count = 1;
    return call_nested(&o, err);
}

#define ROW(type, kind, pointer, fill, call) {#type, (uint32_t)sizeof(type), API_MIN_##type, API_RESERVED_##type, kind, pointer, fill, call}
#define OPTIONS(type) ROW(type, CALLER_OPTIONS, 0, NULL, call_##type)
#define FILLED_OPTIONS(type) ROW(type, CALLER_OPTIONS, 0, fill_##type, call_##type)
#define OUTPUT(type) ROW(type, CALLER_OUTPUT, 0, NULL, call_##type)
const struct caller callers[] = {
    FILLED_OPTIONS(infer_allocator),
    FILLED_OPTIONS(infer_executor),
    OPTIONS(infer_engine_options),
    ROW(infer_engine_info, CALLER_OUTPUT | CALLER_VARIES, 0, NULL, call_infer_engine_info), /* its peak of memory */
    FILLED_OPTIONS(infer_source),
    OPTIONS(infer_open_options),
    OUTPUT(infer_tensor_info),
    OUTPUT(infer_value),
    ROW(infer_value, CALLER_OPTIONS, 0, fill_array, call_array),
    OUTPUT(infer_tokenizer_info),
    ROW(infer_detokenizer, CALLER_OPTIONS | CALLER_OUTPUT, 0, NULL, call_infer_detokenizer),
    OUTPUT(infer_token_info),
    OPTIONS(infer_render_options),
    ROW(infer_render_options, CALLER_OPTIONS, 0, NULL, call_chat),
    OPTIONS(infer_estimate_options),
    OUTPUT(infer_estimate),
    OUTPUT(infer_model_info),
    ROW(infer_model_memory, CALLER_OUTPUT | CALLER_VARIES, 0, NULL, call_infer_model_memory), /* what is in memory */
    OPTIONS(infer_session_options),
    OUTPUT(infer_session_info),
    ROW(infer_hidden, CALLER_OPTIONS | CALLER_OUTPUT, 0, fill_infer_hidden, call_infer_hidden),
    ROW(infer_step_item, CALLER_OPTIONS | CALLER_OUTPUT, 0, fill_infer_step_item, call_infer_step_item),
    OPTIONS(infer_sampling),
    ROW(infer_sampling, CALLER_OUTPUT, 0, NULL, call_sampling_default),
    OUTPUT(infer_sample_result),
    ROW(infer_score, CALLER_OPTIONS | CALLER_OUTPUT, 0, NULL, call_infer_score),
    ROW(infer_event, CALLER_OUTPUT, offsetof(infer_event, text), NULL, call_infer_event),
    OPTIONS(infer_generate_options),
    OUTPUT(infer_adapter_info),
    FILLED_OPTIONS(infer_adapter_use),
    ROW(infer_adapter_use, CALLER_OUTPUT, 0, NULL, call_adapter_of_session),
    OPTIONS(infer_embed_options),
    ROW(infer_embed_item, CALLER_OPTIONS | CALLER_OUTPUT, 0, fill_infer_embed_item, call_infer_embed_item),
    OUTPUT(infer_checkpoint_info),
    OPTIONS(infer_store_options),
    OUTPUT(infer_store_entry),
    OUTPUT(infer_store_info),
    OUTPUT(infer_cache_report),
    OUTPUT(infer_cache_stats),
    OPTIONS(infer_save_options),
    OPTIONS(infer_load_options),
    OPTIONS(infer_scheduler_options),
    OUTPUT(infer_scheduler_info),
    ROW(infer_request_event, CALLER_OUTPUT, offsetof(infer_request_event, text), NULL, call_infer_request_event),
    FILLED_OPTIONS(infer_request_options),
    OUTPUT(infer_request_info),
    ROW(infer_session_options, CALLER_OPTIONS, 0, NULL, call_session_of_request),
    ROW(infer_sampling, CALLER_OPTIONS, 0, NULL, call_sampling_of_request),
    ROW(infer_generate_options, CALLER_OPTIONS, 0, NULL, call_generate_of_request),
    ROW(infer_adapter_use, CALLER_OPTIONS, 0, fill_infer_adapter_use, call_adapters_of_request),
};
const uint32_t n_callers = sizeof callers / sizeof *callers;
