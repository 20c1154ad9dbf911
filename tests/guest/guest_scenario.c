/* The scenario: whatever the library gives is written down in full, floats by their bits, so that two runs can be compared to the byte. The writing itself uses
 * integers only: it must not depend on the locale, or on how the host has set its floating-point unit. */
#include "guest.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct run {
    const struct guest_setup *s;
    const struct guest_api *a;
    struct guest_text *out;
    infer_engine *engine;
    infer_model *model;
    infer_error err;
};

static void put(struct guest_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(struct guest_text *t, const char *format, ...)
{
    char text[2048];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t len = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    if (t->len + len + 1 > t->capacity) {
        t->capacity = (t->len + len + 1) * 2 + 4096;
        t->data = realloc(t->data, t->capacity);
        if (!t->data)
            abort();
    }
    memcpy(t->data + t->len, text, len + 1);
    t->len += len;
}

static uint32_t bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static uint64_t bits64(double f)
{
    uint64_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static void put_floats(struct guest_text *t, const char *what, const float *f, uint64_t n)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (uint64_t i = 0; i < n; i++)
        for (int b = 0; b < 32; b += 8)
            h = (h ^ (bits(f[i]) >> b & 255)) * 0x100000001b3u;
    put(t, "%s: %llu floats %016llx\n", what, (unsigned long long)n, (unsigned long long)h);
}

void guest_text_free(struct guest_text *t)
{
    free(t->data);
    *t = (struct guest_text){NULL, 0, 0};
}

const char *guest_differs(const struct guest_text *a, const struct guest_text *b, const char *what)
{
    size_t i = 0, from;
    if (a->len == b->len && a->len && memcmp(a->data, b->data, a->len) == 0)
        return NULL;
    while (i < a->len && i < b->len && a->data[i] == b->data[i])
        i++;
    for (from = i; from > 0 && a->data[from - 1] != '\n'; from--)
        ;
    const char *left = a->len ? a->data + from : "", *right = b->len ? b->data + from : "";
    return fail("%s: %zu and %zu bytes, which differ at %zu: \"%.*s\" and \"%.*s\"", what, a->len, b->len, i, (int)strcspn(left, "\n"), left, (int)strcspn(right, "\n"), right);
}

/* ---- Calls ---- */

static const char *after(const struct run *r, const char *call)
{
    const char *why = r->s->after ? r->s->after(call) : NULL;
    return why ? fail("after %s: %s", call, why) : NULL;
}

static const char *expect(struct run *r, infer_status st, infer_status wanted, const char *call)
{
    if (st != wanted)
        return fail("%s: %s instead of %s: %s (%s)", call, r->a->status_name(st), r->a->status_name(wanted), r->err.text, r->err.name);
    if (st != INFER_OK)
        put(r->out, "%s: %d at %llu: %s: %s\n", r->a->status_name(st), (int)r->err.code, (unsigned long long)r->err.offset, r->err.name, r->err.text);
    return after(r, call);
}

#define OK(call) RUN(expect(r, r->a->call, INFER_OK, #call))
#define GIVES(status, call) RUN(expect(r, r->a->call, status, #call))
#define DO(call)            \
    do {                    \
        r->a->call;         \
        RUN(after(r, #call)); \
    } while (0)
#define TEXT(s) (s), sizeof(s) - 1

/* ---- Data, text, templates ---- */

static const char *see_file(struct run *r, infer_file *file)
{
    float f[256];
    for (uint64_t i = 0; i < r->a->file_meta_count(file); i++) {
        const char *key;
        uint64_t len;
        infer_value v = {.size = sizeof v};
        OK(file_meta(file, i, &key, &len, &v, &r->err));
        put(r->out, "meta %.*s %d %llx %016llx\n", (int)len, key, v.kind, (unsigned long long)v.u, (unsigned long long)bits64(v.f));
    }
    for (uint64_t i = 0; i < r->a->file_tensor_count(file); i++) {
        infer_tensor_info info = {.size = sizeof info};
        OK(file_tensor(file, i, &info, &r->err));
        uint64_t n = info.shape[0] * info.shape[1] < 256 ? info.shape[0] : 256;
        n = n > 256 ? 256 : n;
        OK(file_tensor_f32(file, i, 0, n, f, &r->err));
        put_floats(r->out, "tensor", f, n);
    }
    return NULL;
}

/* The model's file as data: mapped, and read into memory. */
static const char *files(struct run *r)
{
    infer_source source;
    infer_file *file = NULL;
    infer_open_options o = {.size = sizeof o, .map = INFER_MAP_READ};
    RUN(see_file(r, r->a->model_file(r->model)));
    DO(source_path(&source, guest_model(), INFER_ZSTR));
    OK(file_open(r->engine, &source, &o, &file, &r->err));
    RUN(see_file(r, file));
    DO(file_release(file));
    return NULL;
}

static const char *tokens(struct run *r)
{
    static const char text[] = "I\u0131\u0130i na\u00efve ISTANBUL 1.234,56 \u2014 0.5e-3 \U0001f600 Once upon a time";
    infer_tokenizer *t = r->a->model_tokenizer(r->model);
    int32_t ids[256];
    char back[1024];
    uint64_t n, len;
    OK(tokenize(t, TEXT(text), 0, ids, 256, &n, &r->err));
    for (uint64_t i = 0; i < n; i++) {
        infer_token_info info = {.size = sizeof info};
        OK(tokenizer_token(t, ids[i], &info, &r->err));
        put(r->out, "token %d %08x\n", ids[i], bits(info.score));
    }
    OK(detokenize(t, ids, n, 0, back, sizeof back, &len, &r->err));
    put(r->out, "text %.*s\n", (int)len, back);
    return NULL;
}

/* What a template makes of numbers, cases and dates. */
static const char *templates(struct run *r)
{
    static const char source[] =
        "{{ 1234567.891 }}|{{ 0.1 + 0.2 }}|{{ x * 3 }}|{{ (x / 7) | round(3) }}|{{ 1e-310 * 3 }}|{{ 1 / 3 }}|{{ 2.5 ** 3 }}|{{ 7 // 2 }}|{{ 1e22 }}|"
        "{{ 'TITLE I' | lower }}|{{ 'title i' | upper }}|{{ 'ISTANBUL iki' | capitalize }}|{{ 'istanbul' | title }}|{{ '%.2f %d' % (x, 3) }}|"
        "{{ [x, 1e300, 5e-324] | tojson }}|{{ '3,5' | float }}|{{ '3.5' | float }}|{{ '12' | int }}|{{ ['b', 'A', 'a'] | sort }}|"
        "{{ strftime_now('%A %d %B %Y, %H:%M') }}|{{ messages[0].content | trim }}";
    static const char json[] = "{\"x\": 2.675, \"y\": 1e-320, \"messages\": [{\"role\": \"user\", \"content\": \" I \\u0130 \"}]}";
    infer_template *t = NULL;
    infer_render_options o = {.size = sizeof o, .now = 1000000000};
    char out[2048];
    uint64_t len;
    OK(template_parse(r->engine, TEXT(source), &t, &r->err));
    OK(template_render(t, TEXT(json), &o, out, sizeof out, &len, &r->err));
    put(r->out, "rendered %.*s\n", (int)len, out);
    DO(template_release(t));
    OK(template_render(r->a->model_template(r->model), TEXT("{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"add_generation_prompt\":true}"), NULL, out,
                       sizeof out, &len, &r->err));
    put(r->out, "chat %.*s\n", (int)len, out);
    return NULL;
}

/* ---- Sessions ---- */

static int32_t on_event(void *user, const infer_event *e)
{
    struct guest_text *t = user;
    put(t, "event %d id %d reason %d %08x \"%.*s\"", e->kind, e->id, e->finish_reason, bits(e->logprob), (int)e->text_len, e->text);
    for (uint32_t i = 0; i < e->top_count; i++)
        put(t, " %d %08x", e->top[i].id, bits(e->top[i].logprob));
    put(t, "\n");
    return 0;
}

static const char *answer(struct run *r, infer_session *session, uint64_t n)
{
    infer_generate_options o = {.size = sizeof o, .max_tokens = n};
    OK(generate(session, &o, on_event, r->out, NULL, &r->err));
    return NULL;
}

static infer_sampling sampling_of(const struct run *r)
{
    return (infer_sampling){.size = sizeof(infer_sampling), .temperature = 0.8f, .top_p = 0.9f, .top_k = 30, .min_p = 0.01f, .typical_p = 0.95f,
                            .repetition_penalty = 1.1f, .presence_penalty = 0.1f, .frequency_penalty = 0.05f, .seed = 7, .logprobs = 1,
                            .top_logprobs = 3, .callback = r->s->logits, .callback_user = r->s->user};
}

static const char *session_with_prompt(struct run *r, int32_t kv_type, infer_session **out)
{
    static const infer_message question = {
        "user", INFER_ZSTR,
        "Tell me about the little girl who lived by the sea, and what the big red hen said to her when they met in the garden behind the old house. Did "
        "they go for a walk together, or did she have to go home to her mother and her brother, who had made a cake for them all?", INFER_ZSTR};
    infer_session_options o = {.size = sizeof o, .kv_type = kv_type};
    OK(session_create(r->model, &o, out, &r->err));
    OK(session_append_chat(*out, &question, 1, NULL, &r->err));
    return NULL;
}

static const char *logits(struct run *r, infer_session *session)
{
    infer_step_item item = {.size = sizeof item, .session = session};
    const float *row;
    uint64_t at;
    int32_t id = 5;
    OK(session_append(session, &id, 1, &r->err));
    OK(step(&item, 1, NULL, &r->err));
    OK(session_logits(session, 0, &row, &at, &r->err));
    put_floats(r->out, "logits", row, 256);
    return NULL;
}

static const char *sessions(struct run *r)
{
    for (int32_t kv_type = INFER_KV_F16; kv_type <= INFER_KV_INT8; kv_type++) {
        infer_session *session = NULL;
        infer_sampling sampling = sampling_of(r);
        RUN(session_with_prompt(r, kv_type, &session));
        RUN(answer(r, session, 6)); /* greedy */
        OK(session_set_sampling(session, &sampling, &r->err));
        RUN(answer(r, session, 8));
        RUN(logits(r, session));
        DO(session_release(session));
    }
    return NULL;
}

/* Forks, checkpoints in memory, rolling back, shifting. */
static const char *states(struct run *r)
{
    infer_session *session = NULL, *fork = NULL, *again = NULL;
    infer_checkpoint *checkpoint = NULL;
    RUN(session_with_prompt(r, INFER_KV_F16, &session));
    RUN(answer(r, session, 3));
    OK(checkpoint_create(session, &checkpoint, &r->err));
    OK(session_fork(session, &fork, &r->err));
    RUN(answer(r, fork, 4));
    OK(session_restore(fork, checkpoint, &r->err));
    RUN(answer(r, fork, 4));
    OK(checkpoint_session(checkpoint, &again, &r->err));
    OK(session_truncate(again, 20, NULL, &r->err));
    RUN(answer(r, again, 4));
    OK(session_shift(session, 4, 8, &r->err));
    RUN(answer(r, session, 4));
    DO(checkpoint_release(checkpoint));
    DO(session_release(fork));
    DO(session_release(again));
    DO(session_release(session));
    return NULL;
}

static const char *scores(struct run *r)
{
    static const int32_t ids[] = {10, 20, 30, 40, 50, 60};
    float logprobs[6], row[4096];
    infer_session *session = NULL;
    infer_score score = {.size = sizeof score, .logprobs = logprobs};
    infer_embed_item item = {.size = sizeof item, .text = "The sea is blue.", .text_len = INFER_ZSTR, .out = row, .capacity = 4096};
    RUN(session_with_prompt(r, INFER_KV_F32, &session));
    OK(session_score(session, ids, 6, &score, NULL, &r->err));
    put_floats(r->out, "scores", logprobs, 6);
    put(r->out, "sum %016llx\n", (unsigned long long)bits64(score.sum));
    DO(session_release(session));
    OK(embed(r->model, &item, 1, NULL, NULL, &r->err));
    put_floats(r->out, "embedding", row, 64);
    return NULL;
}

static const char *events(struct run *r, infer_request *request)
{
    for (;;) {
        infer_request_event e = {.size = sizeof e};
        infer_status st = r->a->request_next(request, &e, &r->err);
        if (st == INFER_ERROR_NOT_FOUND || st == INFER_ERROR_STATE)
            return NULL;
        RUN(expect(r, st, INFER_OK, "request_next"));
        put(r->out, "request %d id %d reason %d %08x \"%.*s\"\n", e.kind, e.id, e.finish_reason, bits(e.logprob), (int)e.text_len, e.text);
    }
}

static const char *scheduled(struct run *r)
{
    infer_scheduler *scheduler = NULL;
    infer_request *requests[2] = {NULL, NULL};
    infer_generate_options generate = {.size = sizeof generate, .max_tokens = 6};
    infer_sampling sampling = sampling_of(r);
    infer_request_options o = {.size = sizeof o, .text = "Once upon a time there was", .text_len = INFER_ZSTR, .generate = &generate, .sampling = &sampling};
    int32_t more = 1;
    OK(scheduler_create(r->model, NULL, &scheduler, &r->err));
    OK(scheduler_submit(scheduler, &o, &requests[0], &r->err));
    o.text = "The big red hen";
    OK(scheduler_submit(scheduler, &o, &requests[1], &r->err));
    while (more)
        OK(scheduler_step(scheduler, &more, NULL, &r->err));
    for (int i = 0; i < 2; i++) {
        RUN(events(r, requests[i]));
        DO(request_release(requests[i]));
    }
    DO(scheduler_release(scheduler));
    return NULL;
}

/* ---- Failures ---- */

static const char *failures(struct run *r)
{
    infer_source source;
    infer_model *model = NULL;
    infer_file *file = NULL;
    infer_template *t = NULL;
    infer_adapter *adapter = NULL;
    infer_checkpoint *checkpoint = NULL;
    infer_engine *engine = NULL;
    infer_engine_options bad = {.size = sizeof bad, .threads = 1, .log_level = 99};
    char out[64];
    uint64_t len;
    int32_t id = 1 << 30;
    GIVES(INFER_ERROR_NOT_FOUND, model_open_path(r->engine, "/no/such/model.gguf", &model, &r->err));
    GIVES(INFER_ERROR_UNSUPPORTED, model_open_path(NULL, "/dev/null", &model, &r->err));
    DO(source_memory(&source, "GGUF\3\0\0\0\377\377\377\377\377\377\377\177garbage", 32));
    GIVES(INFER_ERROR_LIMIT, file_open(r->engine, &source, NULL, &file, &r->err));
    DO(source_descriptor(&source, 9999)); /* closed */
    GIVES(INFER_ERROR_IO, model_open(r->engine, &source, NULL, &model, &r->err));
    GIVES(INFER_ERROR_SYNTAX, template_parse(NULL, TEXT("{% if %}"), &t, &r->err));
    OK(template_parse(NULL, TEXT("{{ raise_exception('no: ' ~ 1.5) }}"), &t, &r->err));
    GIVES(INFER_ERROR_TEMPLATE, template_render(t, TEXT("{}"), NULL, out, sizeof out, &len, &r->err));
    GIVES(INFER_ERROR_SYNTAX, template_render(t, TEXT("{\"a\": 1.}"), NULL, out, sizeof out, &len, &r->err));
    DO(template_release(t));
    GIVES(INFER_ERROR_TOKEN, detokenize(r->a->model_tokenizer(r->model), &id, 1, 0, out, sizeof out, &len, &r->err));
    GIVES(INFER_ERROR_NOT_FOUND, adapter_open_path(r->model, "/no/such/adapter", &adapter, &r->err));
    GIVES(INFER_ERROR_FORMAT, checkpoint_open(r->model, guest_model(), INFER_ZSTR, NULL, NULL, &checkpoint, &r->err));
    GIVES(INFER_ERROR_ARGUMENT, engine_create(&bad, &engine, &r->err));
    return NULL;
}

/* ---- Files that are written ---- */

static const char *name_in(const struct run *r, const char *name, char out[512])
{
    (void)snprintf(out, 512, "%s/%s", r->s->folder, name);
    return out;
}

static const char *saved(struct run *r)
{
    char path[512], copy[512], store_path[512];
    infer_session *session = NULL, *again = NULL;
    infer_checkpoint *checkpoint = NULL, *opened = NULL;
    infer_store *store = NULL;
    RUN(session_with_prompt(r, INFER_KV_F16, &session));
    RUN(answer(r, session, 3));
    OK(checkpoint_create(session, &checkpoint, &r->err));
    OK(checkpoint_save(checkpoint, name_in(r, "saved.ckpt", path), INFER_ZSTR, NULL, NULL, &r->err));
    OK(checkpoint_clone_file(r->engine, path, INFER_ZSTR, name_in(r, "copy.ckpt", copy), INFER_ZSTR, NULL, &r->err));
    OK(checkpoint_open(r->model, copy, INFER_ZSTR, NULL, NULL, &opened, &r->err));
    OK(checkpoint_session(opened, &again, &r->err));
    RUN(answer(r, again, 4));
    DO(checkpoint_release(opened));
    DO(session_release(again));
    opened = NULL;
    OK(store_open(r->engine, name_in(r, "store", store_path), INFER_ZSTR, NULL, &store, &r->err));
    OK(store_put(store, "one", INFER_ZSTR, checkpoint, INFER_STORE_REPLACE, NULL, &r->err));
    OK(store_get(store, r->model, "one", INFER_ZSTR, NULL, &opened, &r->err));
    DO(checkpoint_release(opened));
    OK(store_delete(store, "one", INFER_ZSTR, &r->err));
    DO(store_release(store));
    GIVES(INFER_ERROR_NOT_FOUND, checkpoint_save(checkpoint, "/no/such/folder/x.ckpt", INFER_ZSTR, NULL, NULL, &r->err));
    DO(checkpoint_release(checkpoint));
    DO(session_release(session));
    return NULL;
}

/* An engine that keeps computed state in a folder. */
static const char *cached(struct run *r)
{
    char path[512];
    infer_engine *kept = r->engine;
    infer_model *model = r->model;
    infer_session *session = NULL;
    infer_engine_options o = {.size = sizeof o, .threads = 1, .allocator = r->s->allocator, .cache_bytes = 1 << 24, .cache_dir = name_in(r, "cache", path),
                              .cache_dir_len = INFER_ZSTR};
    OK(engine_create(&o, &r->engine, &r->err));
    OK(model_open_path(r->engine, guest_model(), &r->model, &r->err));
    RUN(session_with_prompt(r, INFER_KV_F16, &session));
    RUN(answer(r, session, 3));
    DO(session_release(session));
    OK(engine_cache_flush(r->engine, NULL, &r->err));
    DO(model_release(r->model));
    DO(engine_release(r->engine));
    r->engine = kept;
    r->model = model;
    return NULL;
}

const char *guest_scenario(const struct guest_setup *setup, struct guest_text *out)
{
    struct run run = {.s = setup, .a = setup->api, .out = out, .err = {.size = sizeof(infer_error)}}, *r = &run;
    infer_engine_options o = {.size = sizeof o, .threads = setup->threads ? setup->threads : 2, .allocator = setup->allocator};
    uint8_t print[32];
    put(out, "version %s\n", r->a->version());
    OK(engine_create(&o, &r->engine, &r->err));
    OK(model_open_path(r->engine, guest_model(), &r->model, &r->err));
    OK(model_fingerprint(r->model, INFER_FINGERPRINT_QUICK, print, NULL, &r->err));
    put(out, "fingerprint %02x%02x%02x%02x\n", print[0], print[1], print[2], print[3]);
    RUN(files(r));
    RUN(tokens(r));
    RUN(templates(r));
    RUN(sessions(r));
    RUN(states(r));
    RUN(scores(r));
    RUN(scheduled(r));
    RUN(failures(r));
    if (setup->folder) {
        RUN(saved(r));
        RUN(cached(r));
    }
    DO(model_release(r->model));
    DO(engine_release(r->engine));
    return NULL;
}
