/* Hands option and output structs to the library as a careless host might: sizes that no struct has, fields of odd values, tails of a newer version.
 * The input is a program: each call reads what its structs look like. A struct is a block of just the size that it tells, so that a sanitizer sees a byte
 * read or written behind it. Pointers are good or NULL, and counts fit them where the library has to trust them. Each call works, or refuses with a
 * status and a reason; what no version can mean is ARGUMENT. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "infer/scheduler.h"

#define MAX_CALLS 12
#define MAX_BLOCKS 64
#define MAX_STRUCT 65536 /* what infer.h's STRUCTS allows is far below */
#define ROOM 8192        /* floats of a result */

static void demand(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "fuzz_options: %s\n", what);
    abort();
}

/* ---- The program */

static const uint8_t *at, *end;

static uint8_t next(void)
{
    return at < end ? *at++ : 0;
}

static uint64_t odd(uint8_t v)
{
    static const uint64_t values[] = {0, 1, 2, 3, 4, 5, 7, 8, 16, 17, 20, 21, 32, 64, 65, 100, 127, 128, 129, 255, 256, 257, 400, 1000, 4096, 4097, 65535, 65536,
                                      1u << 24, (1u << 24) + 1, INT32_MAX, (uint64_t)INT32_MAX + 1, UINT32_MAX, (uint64_t)UINT32_MAX + 1, (uint64_t)1 << 48,
                                      INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX - 1, UINT64_MAX, 0x3F800000, 0x3F000000, 0x42C80000, 0x7FC00000,
                                      0x7F800000, 0xFF800000, 0xBF800000, 0x80000000, 0x3F8000003F800000, 0x7F7FFFFF, 0x00000001};
    return v < 200 ? values[v % (sizeof values / sizeof *values)] : v - 199u;
}

/* ---- Structs */

static void *blocks[MAX_BLOCKS];
static int n_blocks;
static int refuse; /* a struct of this call is one that must be refused */

static void *block(size_t bytes)
{
    demand(n_blocks < MAX_BLOCKS, "too many blocks");
    void *p = calloc(1, bytes ? bytes : 1);
    demand(p != NULL, "no memory");
    return blocks[n_blocks++] = p;
}

static void free_blocks(void)
{
    while (n_blocks)
        free(blocks[--n_blocks]);
}

static uint32_t choose_size(uint8_t how, uint32_t full)
{
    switch (how % 8) {
    case 4: return (uint32_t)odd(next());
    case 5: return full - next() % full;
    case 6:
    case 7: return full + next() % 64u;
    default: return full;
    }
}

/* Some fields of a struct whose others are 0. */
static void set_fields(uint8_t *x, uint32_t full, int n)
{
    for (int i = 0; i < n; i++) {
        uint32_t place = next() * 4u % full, width = full - place < 8 || next() & 1 ? 4 : 8;
        uint64_t v = odd(next());
        memcpy(x + place, &v, width);
    }
}

/* `count` structs in a row, all of one size; fix puts pointers into each. NULL now and then. */
static void *structs(uint32_t full, int count, void (*fix)(void *x))
{
    uint8_t how = next();
    if (how == 255)
        return NULL;
    uint32_t size = choose_size(how, full);
    size_t room = size < 4 || size > MAX_STRUCT ? 4 : size;
    uint8_t *host = block(room * (size_t)count), *x = block(full);
    for (int i = 0; i < count; i++) {
        memset(x, 0, full);
        set_fields(x, full, how >> 4);
        if (fix)
            fix(x);
        memcpy(x, &size, 4);
        if (room < full) /* no half of a pointer */
            memset(x + (room & ~(size_t)7), 0, full - (room & ~(size_t)7));
        memcpy(x, &size, 4);
        memcpy(host + room * (size_t)i, x, room < full ? room : full);
        if (how % 8 == 7 && size > full) {
            host[room * (size_t)i + full + next() % (size - full)] = 1;
            refuse = 1;
        }
    }
    refuse = refuse || size < 4 || size > MAX_STRUCT;
    return host;
}

/* A struct that another points to. The call may never look at it: the other may end before the pointer, or say something that needs it not. */
static void *part(uint32_t full, void (*fix)(void *x))
{
    int before = refuse;
    void *host = structs(full, 1, fix);
    refuse = before;
    return host;
}

/* An output struct; what is in it before does not matter. */
static void *output(uint32_t full, uint32_t *size)
{
    uint8_t how = next();
    *size = choose_size(how, full);
    size_t room = *size < 4 || *size > MAX_STRUCT ? 4 : *size;
    uint8_t *host = block(room);
    memset(host, how, room);
    memcpy(host, size, 4);
    refuse = *size < 4 || *size > MAX_STRUCT;
    return host;
}

/* ---- What calls are made on */

static infer_engine *engine;
static infer_model *model, *other; /* with a tokenizer, and without */
static infer_session *session;     /* of model */
static infer_checkpoint *checkpoint;
static infer_adapter *adapters[3]; /* of other: LoRA, steering, soft prompt */
static infer_store *store;
static infer_template *tmpl;
static infer_cancel *cancel;
static infer_value array; /* of model's file */
static uint8_t *model_data;
static size_t model_bytes;
static float floats[ROOM];
static infer_logprob logprobs[20 * 16];
static int32_t ids[64];
static uint8_t mask[1024];
static char folder[] = "/tmp/fuzz-options-XXXXXX", saved[64];
static const char json[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"add_generation_prompt\":true}";

static infer_error *error(void)
{
    static infer_error e;
    INFER_INIT(&e);
    return &e;
}

/* Of each call that was handed structs. */
static int judge(infer_status st, const infer_error *e)
{
    demand(strcmp(infer_status_name(st), "unknown") != 0, "a status that is none");
    demand(st == INFER_OK || (e->code == st && e->text[0]), "a refusal without a reason");
    demand(!refuse || st == INFER_ERROR_ARGUMENT, "a struct of no version was taken");
    return st == INFER_OK;
}

static void *pick(void *p)
{
    return next() & 1 ? p : NULL;
}

/* A count that the library trusts. */
static uint64_t fit(uint64_t n, uint64_t most)
{
    return n > most ? n % (most + 1) : n;
}

/* ---- Engines, files, models */

static void *take(void *user, uint64_t bytes, uint64_t align)
{
    void *p = NULL;
    (void)user;
    return bytes > (uint64_t)64 << 20 || posix_memalign(&p, align < sizeof p ? sizeof p : (size_t)align, (size_t)bytes) ? NULL : p;
}

static void give(void *user, void *p, uint64_t bytes, uint64_t align)
{
    (void)user;
    (void)bytes;
    (void)align;
    free(p);
}

static int32_t run_tasks(void *user, uint32_t count, infer_task_fn task, void *task_arg)
{
    (void)user;
    for (uint32_t i = 0; i < count; i++)
        task(task_arg, i);
    return 0;
}

static void hear_line(void *user, int32_t level, const char *text, uint64_t len)
{
    (void)user;
    demand(level >= INFER_LOG_ERROR && level <= INFER_LOG_DEBUG && text && len, "an odd line of the log");
}

static void fix_allocator(void *x)
{
    infer_allocator *a = x;
    a->alloc = next() % 8 ? take : NULL;
    a->free = next() % 8 ? give : NULL;
}

static void fix_executor(void *x)
{
    infer_executor *e = x;
    e->run = next() % 8 ? run_tasks : NULL;
}

static void fix_engine(void *x)
{
    static char none[] = "/dev/null/none";
    infer_engine_options *o = x;
    uint8_t how = next();
    o->allocator = how & 1 ? part(sizeof *o->allocator, fix_allocator) : NULL;
    o->executor = how & 2 ? part(sizeof *o->executor, fix_executor) : NULL;
    o->log = how & 4 ? hear_line : NULL;
    o->cache_dir = how & 8 ? none : NULL;
    if (o->cache_dir)
        o->cache_dir_len = next() & 1 ? INFER_ZSTR : fit(o->cache_dir_len, sizeof none - 1);
}

static void call_engine(void)
{
    infer_engine *e = NULL;
    infer_model *m = NULL;
    infer_session *s = NULL;
    infer_error *err = error();
    infer_engine_options *o = structs(sizeof *o, 1, fix_engine);
    if (!judge(infer_engine_create(o, &e, err), err)) {
        demand(e == NULL, "a failed call wrote its output");
        return;
    }
    infer_engine_info info;
    infer_source source;
    int32_t id = 1;
    infer_step_item item;
    INFER_INIT(&info);
    INFER_INIT(&item);
    infer_source_memory(&source, model_data, model_bytes);
    demand(infer_engine_get_info(e, &info, NULL) == INFER_OK, "no info of an engine");
    if (info.threads <= 2 && infer_model_open(e, &source, NULL, &m, NULL) == INFER_OK && infer_session_create(m, NULL, &s, NULL) == INFER_OK) {
        item.session = s;
        if (infer_session_append(s, &id, 1, NULL) == INFER_OK)
            (void)infer_step(&item, 1, NULL, NULL);
    }
    infer_session_release(s);
    infer_model_release(m);
    infer_engine_release(e);
}

static uint8_t stream_how;

static infer_status read_stream(void *user, uint64_t offset, void *dst, uint64_t bytes)
{
    (void)user;
    if (stream_how & 16)
        return stream_how & 32 ? INFER_ERROR_IO : 7; /* neither 0 nor a status */
    demand(bytes <= model_bytes && offset <= model_bytes - bytes, "a read beyond the end");
    memcpy(dst, model_data + offset, (size_t)bytes);
    return INFER_OK;
}

static infer_status open_stream(void *user, const char *name, uint64_t len, infer_stream *out)
{
    (void)user;
    (void)name;
    (void)len;
    uint8_t how = stream_how;
    demand(out->size == sizeof *out, "a stream without its size");
    out->length = how & 1 ? model_bytes : how & 2 ? 0 : model_bytes / 2;
    out->data = how & 4 ? model_data : NULL;
    out->read = how & 8 ? read_stream : NULL;
    return how & 64 ? INFER_ERROR_NOT_FOUND : how & 128 && how & 1 ? 3 : INFER_OK;
}

static void fix_source(void *x)
{
    static char name[] = "/dev/null/none-00001-of-00002.gguf";
    infer_source *s = x;
    uint8_t how = next();
    stream_how = next();
    s->kind = how & 7 ? 1 + how % 4 : s->kind;
    s->name = how & 8 ? name : NULL;
    if (s->name)
        s->name_len = how & 16 ? INFER_ZSTR : fit(s->name_len, sizeof name - 1);
    s->descriptor = how & 32 ? s->descriptor | (int64_t)1 << 40 : -1; /* none that is open */
    s->data = how & 64 ? model_data : NULL;
    if (s->data)
        s->length = how & 128 ? model_bytes : fit(s->length, model_bytes);
    s->open = how & 64 ? open_stream : NULL;
}

static void fix_open(void *x)
{
    infer_open_options *o = x;
    o->cancel = pick(cancel);
}

static void call_open(void)
{
    infer_error *err = error();
    uint8_t which = next();
    infer_source *s = structs(sizeof *s, 1, fix_source);
    infer_open_options *o = structs(sizeof *o, 1, fix_open);
    infer_file *f = NULL;
    infer_model *m = NULL;
    infer_tokenizer *t = NULL;
    infer_template *p = NULL;
    infer_adapter *a = NULL;
    infer_status st = which % 5 == 0 ? infer_file_open(engine, s, o, &f, err) : which % 5 == 1 ? infer_model_open(engine, s, o, &m, err)
                    : which % 5 == 2 ? infer_tokenizer_open(NULL, s, o, &t, err) : which % 5 == 3 ? infer_template_open(NULL, s, o, &p, err)
                    : infer_adapter_open(other, s, o, &a, err);
    demand(judge(st, err) == (f || m || t || p || a), "a failed call wrote its output, or the reverse");
    infer_file_release(f);
    infer_model_release(m);
    infer_tokenizer_release(t);
    infer_template_release(p);
    infer_adapter_release(a);
}

static void call_estimate(void)
{
    infer_error *err = error();
    infer_source *s = structs(sizeof *s, 1, fix_source);
    infer_open_options *open = structs(sizeof *open, 1, fix_open);
    infer_estimate_options *o = structs(sizeof *o, 1, NULL);
    int in = refuse;
    uint32_t size;
    infer_estimate *e = output(sizeof *e, &size);
    refuse = refuse || in;
    (void)judge(infer_model_estimate(pick(engine), s, open, o, e, err), err);
}

static void fix_value(void *x)
{
    infer_value *v = x;
    uint8_t how = next();
    infer_value good = array;
    v->kind = how & 3 ? good.kind : v->kind;
    v->item_kind = how & 12 ? good.item_kind : v->item_kind;
    v->width = how & 16 ? good.width : v->width;
    v->count = how & 32 ? good.count : v->count;
    v->data = how & 64 ? (const char *)good.data + (how & 128 ? (int)next() - 128 : 0) : v->data; /* the library knows its own */
}

static void call_value(void)
{
    infer_error *err = error();
    infer_value *v = structs(sizeof *v, 1, fix_value), out;
    INFER_INIT(&out);
    if (v)
        (void)judge(infer_file_value_item(infer_model_file(model), v, odd(next()), &out, err), err);
}

/* ---- Text */

static void fix_render(void *x)
{
    infer_render_options *o = x;
    o->cancel = pick(cancel);
}

static void call_render(void)
{
    char text[512];
    uint64_t len = 0, room = next() * 2u;
    infer_error *err = error();
    infer_render_options *o = structs(sizeof *o, 1, fix_render);
    (void)judge(infer_template_render(tmpl, json, sizeof json - 1, o, text, room, &len, err), err);
}

static void call_detokenizer(void)
{
    char text[512];
    uint64_t len = 0, room = next() * 2u;
    infer_error *err = error();
    infer_detokenizer *state = structs(sizeof *state, 1, NULL);
    if (state)
        (void)judge(infer_detokenizer_next(infer_model_tokenizer(model), state, (int32_t)odd(next()), text, room, &len, err), err);
}

/* ---- Sessions */

static void fix_session(void *x)
{
    infer_session_options *o = x;
    o->salt = pick(ids);
}

static void call_session(void)
{
    infer_session *s = NULL;
    infer_error *err = error();
    infer_session_options *o = structs(sizeof *o, 1, fix_session);
    demand(judge(infer_session_create(model, o, &s, err), err) == (s != NULL), "a failed call wrote its output, or the reverse");
    infer_session_release(s);
}

static infer_status host_logits(void *user, float *logits, uint64_t n, const int32_t *seen, uint64_t count)
{
    (void)user;
    demand(logits && n && seen && count, "a callback got nothing");
    return INFER_OK;
}

static void fix_sampling(void *x)
{
    static infer_bias bias[32];
    infer_sampling *s = x;
    for (int i = 0; i < 32; i++)
        bias[i] = (infer_bias){i, (float)i - 7};
    s->bias = pick(bias);
    if (s->bias)
        s->bias_count = fit(s->bias_count, 32);
    s->callback = next() & 1 ? host_logits : NULL;
}

static void call_sampling(void)
{
    infer_session *s = NULL;
    infer_sample_result r;
    infer_error *err = error();
    demand(infer_session_fork(session, &s, NULL) == INFER_OK, "no fork");
    infer_sampling *o = structs(sizeof *o, 1, fix_sampling);
    INFER_INIT(&r);
    if (o && judge(infer_session_set_sampling(s, o, err), err))
        (void)infer_session_sample(s, &r, NULL);
    infer_session_release(s);
}

static void fix_generate(void *x)
{
    static infer_text stops[64];
    infer_generate_options *o = x;
    for (int i = 0; i < 64; i++)
        stops[i] = (infer_text){"abcd", 1 + (uint64_t)i % 4};
    o->stops = pick(stops); /* more than 64 are refused before one is read */
    o->stop_ids = pick(ids);
}

static void call_generate(void)
{
    infer_session *s = NULL;
    infer_error *err = error();
    demand(infer_session_fork(session, &s, NULL) == INFER_OK, "no fork");
    infer_generate_options *o = structs(sizeof *o, 1, fix_generate);
    if (judge(infer_generate_begin(s, o, err), err))
        for (int i = 0; i < 3; i++) {
            uint32_t size;
            infer_event *e = output(sizeof *e, &size);
            if (!judge(infer_generate_next(s, e, NULL, err), err))
                break;
        }
    infer_session_release(s);
}

static infer_session *step_sessions[3];
static int n_stepped;

static void fix_hidden(void *x)
{
    static int32_t layers[32];
    infer_hidden *h = x;
    for (int i = 0; i < 32; i++)
        layers[i] = i % 3 - 1;
    layers[0] = next() & 1 ? (int32_t)odd(next()) : -1;
    h->mask = pick(mask);
    h->layers = pick(layers);
    h->out = pick(floats);
    if (h->out)
        h->capacity = next() & 1 ? ROOM : fit(h->capacity, ROOM);
}

static void fix_item(void *x)
{
    infer_step_item *it = x;
    it->session = next() % 8 ? step_sessions[n_stepped++ % 3] : next() & 1 ? step_sessions[0] : NULL;
    it->mask = pick(mask);
    it->hidden = next() & 1 ? part(sizeof *it->hidden, fix_hidden) : NULL;
}

static void call_step(void)
{
    infer_error *err = error();
    int count = 1 + next() % 3;
    n_stepped = 0;
    for (int i = 0; i < 3; i++) {
        demand(infer_session_fork(session, &step_sessions[i], NULL) == INFER_OK, "no fork");
        (void)infer_session_append(step_sessions[i], ids, next() % 8, NULL);
    }
    infer_step_item *items = structs(sizeof *items, count, fix_item);
    if (items)
        (void)judge(infer_step(items, (uint64_t)count, pick(cancel), err), err);
    for (int i = 0; i < 3; i++)
        infer_session_release(step_sessions[i]);
}

static void fix_score(void *x)
{
    infer_score *s = x;
    s->logprobs = pick(floats);
    s->top = pick(logprobs);
}

static void call_score(void)
{
    infer_session *s = NULL;
    infer_error *err = error();
    demand(infer_session_fork(session, &s, NULL) == INFER_OK, "no fork");
    infer_score *o = structs(sizeof *o, 1, fix_score);
    if (o)
        (void)judge(infer_session_score(s, ids, next() % 16, o, pick(cancel), err), err);
    infer_session_release(s);
}

/* Items share the result's room: what they give is not looked at here. */
static void fix_embed(void *x)
{
    infer_embed_item *it = x;
    static char text[] = "Tell me a story";
    it->text = pick(text);
    if (it->text)
        it->text_len = next() & 1 ? INFER_ZSTR : fit(it->text_len, sizeof text - 1);
    it->ids = pick(ids);
    if (it->ids)
        it->id_count = fit(it->id_count, 16);
    it->out = pick(floats);
    if (it->out)
        it->capacity = next() & 1 ? ROOM : fit(it->capacity, ROOM);
}

static void call_embed(void)
{
    infer_error *err = error();
    int count = 1 + next() % 2;
    infer_embed_options *o = structs(sizeof *o, 1, NULL);
    infer_embed_item *items = structs(sizeof *items, count, fix_embed);
    if (items)
        (void)judge(infer_embed(model, items, (uint64_t)count, o, pick(cancel), err), err);
}

static void fix_use(void *x)
{
    infer_adapter_use *u = x;
    u->adapter = next() % 8 ? adapters[next() % 3] : NULL;
}

static void call_adapters(void)
{
    infer_session *s = NULL;
    infer_error *err = error();
    int count = 1 + next() % 3;
    demand(infer_session_create(other, NULL, &s, NULL) == INFER_OK, "no session");
    infer_adapter_use *u = structs(sizeof *u, count, fix_use);
    if (u && judge(infer_session_set_adapters(s, u, (uint64_t)count, err), err)) {
        infer_step_item it;
        INFER_INIT(&it);
        it.session = s;
        if (infer_session_append(s, ids, 2, NULL) == INFER_OK)
            (void)infer_step(&it, 1, NULL, NULL);
    }
    infer_session_release(s);
}

/* ---- State */

static void call_store(void)
{
    infer_store *s = NULL;
    infer_error *err = error();
    infer_store_options *o = structs(sizeof *o, 1, NULL);
    demand(judge(infer_store_open(engine, NULL, 0, o, &s, err), err) == (s != NULL), "a failed call wrote its output, or the reverse");
    if (s)
        (void)infer_store_put(s, "a", 1, checkpoint, (uint32_t)odd(next()), NULL, NULL);
    infer_store_release(s);
}

static void fix_save(void *x)
{
    infer_save_options *o = x;
    o->parent = pick(saved);
    if (o->parent)
        o->parent_len = next() & 1 ? INFER_ZSTR : fit(o->parent_len, strlen(saved));
    o->level = o->level > 3 && o->level < 20 ? 3 : o->level; /* not for minutes */
}

static void call_save(void)
{
    char path[80];
    infer_error *err = error();
    infer_save_options *o = structs(sizeof *o, 1, fix_save);
    snprintf(path, sizeof path, next() & 1 ? "%s/again" : "%s/none/again", folder);
    (void)judge(infer_checkpoint_save(checkpoint, path, INFER_ZSTR, o, pick(cancel), err), err);
}

static void call_load(void)
{
    infer_checkpoint *c = NULL;
    infer_error *err = error();
    infer_load_options *o = structs(sizeof *o, 1, NULL);
    demand(judge(infer_checkpoint_open(model, saved, INFER_ZSTR, o, pick(cancel), &c, err), err) == (c != NULL),
           "a failed call wrote its output, or the reverse");
    infer_checkpoint_release(c);
}

/* ---- Scheduler */

static uint64_t tell_time(void *user)
{
    (void)user;
    return 1000;
}

static void fix_scheduler(void *x)
{
    static char none[] = "/dev/null/none";
    infer_scheduler_options *o = x;
    o->clock = next() & 1 ? tell_time : NULL;
    o->spill_path = next() % 4 ? NULL : none;
    if (o->spill_path)
        o->spill_path_len = next() & 1 ? INFER_ZSTR : fit(o->spill_path_len, sizeof none - 1);
}

static void on_request(void *user, infer_request *request, const infer_request_event *e)
{
    (void)user;
    (void)request;
    demand(e->kind >= INFER_REQUEST_EVENT_PROMPT && e->kind <= INFER_REQUEST_EVENT_END && e->text, "an odd event");
}

static void fix_request(void *x)
{
    static const infer_message messages[2] = {{"user", 4, "hi", 2}, {"user", 4, "you", 3}};
    static char text[] = "Once upon";
    infer_request_options *o = x;
    uint8_t how = next(), more = next();
    o->n = o->n <= 128 ? o->n % 4 : o->n;
    o->ids = how % 4 == 0 || how % 16 == 3 ? ids : NULL;
    o->text = how % 4 == 1 ? text : NULL;
    o->messages = how % 4 == 2 ? messages : NULL;
    if (o->ids)
        o->id_count = next() & 1 ? 5 : fit(o->id_count, 16);
    if (o->text)
        o->text_len = next() & 1 ? INFER_ZSTR : fit(o->text_len, sizeof text - 1);
    if (o->messages)
        o->message_count = fit(o->message_count, 2);
    o->render = how & 16 ? part(sizeof *o->render, fix_render) : NULL;
    o->session = how & 32 ? part(sizeof *o->session, fix_session) : NULL;
    o->sampling = how & 64 ? part(sizeof *o->sampling, fix_sampling) : NULL;
    o->generate = how & 128 ? part(sizeof *o->generate, fix_generate) : NULL;
    o->checkpoint = more & 1 ? checkpoint : NULL;
    o->adapters = more & 2 ? part(sizeof *o->adapters, fix_use) : NULL;
    if (o->adapters)
        o->adapter_count = o->adapter_count ? 1 : 0;
    o->prompts = more & 4 ? adapters + 2 : NULL;
    if (o->prompts)
        o->prompt_count = o->prompt_count ? 1 : 0;
    o->callback = more & 8 ? on_request : NULL;
}

static void call_scheduler(void)
{
    infer_scheduler *s = NULL;
    infer_request *r = NULL;
    infer_error *err = error();
    infer_scheduler_options *o = structs(sizeof *o, 1, fix_scheduler);
    if (!judge(infer_scheduler_create(next() & 3 ? model : other, o, &s, err), err))
        return;
    infer_request_options *q = structs(sizeof *q, 1, fix_request);
    infer_status st = q ? infer_scheduler_submit(s, q, &r, err) : INFER_ERROR_ARGUMENT;
    if (q && judge(st, err)) {
        int32_t left = 1;
        for (int i = 0; i < 12 && left; i++)
            demand(infer_scheduler_step(s, &left, NULL, NULL) == INFER_OK, "a step failed");
        for (int i = 0; i < 4; i++) {
            uint32_t size;
            infer_request_event *e = output(sizeof *e, &size);
            if (infer_request_next(r, e, err) == INFER_OK)
                demand(!refuse, "a struct of no version was taken");
        }
    }
    uint32_t size;
    infer_scheduler_info *about = output(sizeof *about, &size);
    (void)judge(infer_scheduler_get_info(s, about, err), err);
    if (r) {
        infer_request_info *of = output(sizeof *of, &size);
        (void)judge(infer_request_get_info(r, of, err), err);
    }
    infer_request_release(r);
    infer_scheduler_release(s);
}

/* ---- Output structs */

static void call_outputs(void)
{
    uint32_t size = 0, then;
    infer_error *err = error();
    infer_status st = INFER_OK;
    void *x = NULL;
    const infer_file *f = infer_model_file(model);
    const char *key;
    uint64_t len;
#define OUT(type) (x = output(sizeof(type), &size))
    switch (next() % 18) {
    case 0: st = infer_engine_get_info(engine, OUT(infer_engine_info), err); break;
    case 1: st = infer_file_tensor(f, 0, OUT(infer_tensor_info), err); break;
    case 2: st = infer_file_meta(f, 0, &key, &len, OUT(infer_value), err); break;
    case 3: st = infer_tokenizer_get_info(infer_model_tokenizer(model), OUT(infer_tokenizer_info), err); break;
    case 4: st = infer_tokenizer_token(infer_model_tokenizer(model), 5, OUT(infer_token_info), err); break;
    case 5: st = infer_model_get_info(model, OUT(infer_model_info), err); break;
    case 6: st = infer_model_get_memory(model, OUT(infer_model_memory), err); break;
    case 7: st = infer_session_get_info(session, OUT(infer_session_info), err); break;
    case 8: st = infer_session_sample(session, OUT(infer_sample_result), err); break;
    case 9: st = infer_adapter_get_info(adapters[next() % 3], OUT(infer_adapter_info), err); break;
    case 10: st = infer_checkpoint_get_info(checkpoint, OUT(infer_checkpoint_info), err); break;
    case 11: st = infer_store_next(store, NULL, 0, OUT(infer_store_entry), err); break;
    case 12: st = infer_store_get_info(store, OUT(infer_store_info), err); break;
    case 13: st = infer_session_cache_report(session, OUT(infer_cache_report), err); break;
    case 14: st = infer_engine_cache_stats(engine, OUT(infer_cache_stats), err); break;
    case 15: st = infer_sampling_default(OUT(infer_sampling), err); break;
    case 16: st = infer_file_value_item(f, &array, 1, OUT(infer_value), err); break;
    default: /* a place for the error itself, which a refusal must not overflow; one of a bad size is left alone */
        (void)infer_file_find_meta(f, "no such key", INFER_ZSTR, NULL, OUT(infer_error));
        refuse = 0;
    }
#undef OUT
    (void)judge(st, err);
    memcpy(&then, x, sizeof then);
    demand(then == size, "the size of a host's struct was changed");
}

static void (*const calls[])(void) = {call_engine, call_open,   call_open,     call_value,   call_render, call_detokenizer, call_session,
                                      call_sampling, call_generate, call_step, call_step,    call_score,  call_embed,       call_adapters,
                                      call_store,  call_save,   call_load,     call_scheduler, call_scheduler, call_outputs, call_outputs,
                                      call_estimate};

/* ---- */

static void clean(void)
{
    char path[80];
    remove(saved);
    snprintf(path, sizeof path, "%s/again", folder);
    remove(path);
    remove(folder);
}

static infer_model *open_path(const char *name)
{
    char path[4096];
    infer_model *m = NULL;
    snprintf(path, sizeof path, "%s%s", INFER_SOURCE_DIR, name);
    demand(infer_model_open_path(engine, path, &m, NULL) == INFER_OK, "a fixture does not open");
    return m;
}

static void open_adapters(void)
{
    static const char *const names[3] = {"lora-r4.gguf", "steering.gguf", "soft-prompt"};
    char path[4096];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/tests/data/adapters/%s", INFER_SOURCE_DIR, names[i]);
        demand(infer_adapter_open_path(other, path, &adapters[i], NULL) == INFER_OK, "an adapter does not open");
    }
}

static void read_model(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/data/fixtures/llama-q4_0.gguf", INFER_SOURCE_DIR);
    FILE *f = fopen(path, "rb");
    demand(f && posix_memalign((void **)&model_data, 64, 1 << 20) == 0, "a fixture is missing");
    model_bytes = fread(model_data, 1, 1 << 20, f);
    fclose(f);
}

static int start(void)
{
    infer_engine_options o;
    infer_step_item it;
    INFER_INIT(&o);
    INFER_INIT(&it);
    INFER_INIT(&array);
    o.threads = 1;
    o.cache_bytes = 1 << 20;
    for (int i = 0; i < 64; i++)
        ids[i] = i * 3 + 1;
    for (int i = 0; i < 1024; i++)
        mask[i] = i % 3 == 0;
    read_model();
    demand(infer_engine_create(&o, &engine, NULL) == INFER_OK && infer_cancel_create(&cancel, NULL) == INFER_OK, "no engine");
    model = open_path("/models/tiny.gguf");
    other = open_path("/tests/data/fixtures/llama.gguf");
    tmpl = infer_model_template(model);
    open_adapters();
    demand(infer_file_find_meta(infer_model_file(model), "tokenizer.ggml.tokens", INFER_ZSTR, &array, NULL) == INFER_OK, "no tokens");
    demand(infer_session_create(model, NULL, &session, NULL) == INFER_OK && infer_session_append(session, ids, 6, NULL) == INFER_OK, "no session");
    it.session = session;
    demand(infer_step(&it, 1, NULL, NULL) == INFER_OK && infer_checkpoint_create(session, &checkpoint, NULL) == INFER_OK, "no checkpoint");
    demand(infer_store_open(engine, NULL, 0, NULL, &store, NULL) == INFER_OK && infer_store_put(store, "x", 1, checkpoint, 0, NULL, NULL) == INFER_OK, "no store");
    demand(mkdtemp(folder) != NULL, "no temporary folder");
    snprintf(saved, sizeof saved, "%s/saved", folder);
    atexit(clean);
    infer_status st = infer_checkpoint_save(checkpoint, saved, INFER_ZSTR, NULL, NULL, NULL);
    demand(st == INFER_OK || st == INFER_ERROR_UNSUPPORTED, "cannot save"); /* a build without xxHash */
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int ready;
    ready = ready || start();
    at = data;
    end = data + size;
    for (int i = 0; i < MAX_CALLS && at < end; i++) {
        refuse = 0;
        infer_cancel_clear(cancel);
        if (at[0] >= 250)
            infer_cancel_set(cancel);
        calls[next() % (sizeof calls / sizeof *calls)]();
        free_blocks();
    }
    return 0;
}
