/* POST /v1/completions: one request of the scheduler for each prompt; the last one to end answers. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bytes.h"
#include "fim.h"
#include "metrics.h"
#include "openai.h"
#include "token_log.h"

#define MAX_PROMPTS 256
#define MAX_CHOICES 1024 /* of all prompts */
#define MAX_LOGPROBS 5

static const struct param keys[] = {
    {"prompt", PARAM_TAKEN}, {"max_tokens", PARAM_TAKEN}, {"logprobs", PARAM_TAKEN}, {"echo", PARAM_TAKEN}, {"suffix", PARAM_TAKEN},
    {"best_of", PARAM_TAKEN}, {"stream_options", PARAM_TAKEN}, {"user", PARAM_NO_EFFECT}, {NULL, PARAM_TAKEN}};

/* Clients take headers of 16 KiB in all, some of 8. */
#define MOST_REASONS 32

struct choice {
    struct token_log log;
    struct bytes text;      /* the whole, or in a stream what has not been sent yet */
    json_t *logprobs;       /* of text, likewise: {tokens, token_logprobs, top_logprobs, text_offset}; NULL: not asked for */
    double logprob;         /* sum over all tokens */
    uint64_t n_tokens;
    int32_t finish_reason, stop_index;
    bool echoed;            /* the prompt has been put before it */
};

/* One prompt. */
struct prompt {
    struct completion *c;
    uint32_t index;
    int32_t *ids;
    uint64_t n_ids;
    struct bytes text;      /* what echo shows, and offsets count from */
    size_t characters;      /* of text */
    struct token_log log;   /* with echo and logprobs: the prompt's tokens */
    infer_request *request; /* under the lock */
    struct choice *choices; /* [best_of] */
    bool started;
    char cache_reason[160]; /* when it has ended */
};

struct completion {
    struct server *server;
    struct call *call;
    struct params p;
    struct prompt *prompts;
    uint32_t n_prompts, best_of;
    uint64_t n_logprobs;
    bool echo, logprobs, usage;
    int64_t created;
    char fingerprint[16];

    pthread_mutex_t lock;   /* the handler submits while callbacks come already */
    uint32_t open;          /* prompts that have not ended, and one for the handler while it submits */
    bool failed, cancelled;
    infer_error err;

    bool streaming;
    uint64_t n_prompt, n_cached, n_generated;
};

static void completion_free(void *data)
{
    struct completion *c = data;
    for (uint32_t i = 0; i < c->n_prompts; i++) {
        struct prompt *p = &c->prompts[i];
        for (uint32_t k = 0; p->choices && k < c->best_of; k++) {
            token_log_free(&p->choices[k].log);
            bytes_free(&p->choices[k].text);
            json_decref(p->choices[k].logprobs);
        }
        free(p->choices);
        free(p->ids);
        bytes_free(&p->text);
        token_log_free(&p->log);
        infer_request_release(p->request);
    }
    free(c->prompts);
    params_free(&c->p);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

static bool no_memory(struct call *call)
{
    call_error(call, 500, NULL, NULL, NULL, "out of memory");
    return false;
}

/* ---- Parameters -------------------------------------------------------------------------------------------------------- */

static bool read_numbers(struct completion *c, const json_t *body)
{
    uint64_t max_tokens = 16, best_of = c->p.n;
    const char *user = NULL;
    c->n_logprobs = UINT64_MAX;
    if (!param_uint(c->call, body, "max_tokens", 0, INT64_MAX, &max_tokens) || !param_uint(c->call, body, "best_of", 1, 128, &best_of) ||
        !param_uint(c->call, body, "logprobs", 0, MAX_LOGPROBS, &c->n_logprobs) || !param_bool(c->call, body, "echo", &c->echo) ||
        !param_string(c->call, body, "user", &user) || !openai_stream_options(c->call, body, c->p.stream, &c->usage))
        return false;
    if (best_of < c->p.n)
        return param_wrong(c->call, "best_of", "must be at least n");
    if (best_of > c->p.n && c->p.stream)
        return param_wrong(c->call, "best_of", "must be n in a stream: the best is known at the end only");
    if (!max_tokens && best_of > 1)
        return param_wrong(c->call, "n", "must be 1 when max_tokens is 0");
    c->best_of = (uint32_t)best_of;
    c->p.generate.max_tokens = max_tokens;
    c->logprobs = c->n_logprobs != UINT64_MAX;
    c->p.sampling.logprobs = c->logprobs || c->best_of > c->p.n;
    c->p.sampling.top_logprobs = c->logprobs ? (uint32_t)c->n_logprobs : 0;
    return true;
}

/* Log-probabilities have the old shape: parallel arrays. */
static json_t *new_logprobs(const struct completion *c)
{
    if (!c->logprobs)
        return NULL;
    return json_pack("{s:[], s:[], s:o, s:[]}", "tokens", "token_logprobs", "top_logprobs", c->n_logprobs ? json_array() : json_null(), "text_offset");
}

/* ---- Prompts ----------------------------------------------------------------------------------------------------------- */

static size_t count_characters(const struct bytes *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->len; i++)
        n += ((unsigned char)b->data[i] & 0xC0) != 0x80;
    return n;
}

static bool tokenize(struct completion *c, struct prompt *p, const char *text, size_t len)
{
    infer_error err;
    INFER_INIT(&err);
    if (!c->server->tokenizer)
        return param_wrong(c->call, "prompt", "the model has no tokenizer: %s", c->server->info.tokenizer_problem);
    uint64_t room = len / 2 + 16;
    for (;;) {
        free(p->ids);
        p->ids = malloc((size_t)room * sizeof *p->ids);
        if (!p->ids)
            return no_memory(c->call);
        infer_status st = infer_tokenize(c->server->tokenizer, text, len, INFER_TOKENIZE_ADD_SPECIAL | INFER_TOKENIZE_PARSE_SPECIAL, p->ids, room, &p->n_ids, &err);
        if (st == INFER_OK)
            return p->n_ids || param_wrong(c->call, "prompt", "is empty");
        if (st != INFER_ERROR_BUFFER || p->n_ids <= room) {
            call_status(c->call, st, &err, "prompt");
            return false;
        }
        room = p->n_ids;
    }
}

static bool take_text(struct completion *c, struct prompt *p, const json_t *text)
{
    bytes_put(&p->text, text ? json_string_value(text) : "", json_string_length(text));
    if (p->text.failed)
        return no_memory(c->call);
    return tokenize(c, p, p->text.data ? p->text.data : "", p->text.len);
}

/* The text that ids stand for. */
static bool show_ids(struct completion *c, struct prompt *p)
{
    uint64_t n = 0;
    if (!c->server->tokenizer || infer_detokenize(c->server->tokenizer, p->ids, p->n_ids, 0, NULL, 0, &n, NULL) == INFER_OK)
        return true;
    char *text = malloc((size_t)n + 1);
    if (!text)
        return no_memory(c->call);
    if (infer_detokenize(c->server->tokenizer, p->ids, p->n_ids, 0, text, n, &n, NULL) == INFER_OK)
        bytes_put(&p->text, text, (size_t)n);
    free(text);
    return !p->text.failed || no_memory(c->call);
}

static bool take_ids(struct completion *c, struct prompt *p, const json_t *list)
{
    size_t n = json_array_size(list), i;
    const json_t *id;
    if (!n)
        return param_wrong(c->call, "prompt", "is empty");
    p->ids = malloc(n * sizeof *p->ids);
    if (!p->ids)
        return no_memory(c->call);
    json_array_foreach (list, i, id) {
        if (!json_is_integer(id))
            return param_wrong(c->call, "prompt", "must be a string, an array of strings, an array of token ids, or an array of those");
        if (json_integer_value(id) < 0 || json_integer_value(id) >= c->server->info.vocab_size)
            return param_wrong(c->call, "prompt", "%lld is not a token id below %u", (long long)json_integer_value(id), c->server->info.vocab_size);
        p->ids[p->n_ids++] = (int32_t)json_integer_value(id);
    }
    return show_ids(c, p);
}

static bool make_prompts(struct completion *c, size_t n)
{
    if (n > MAX_PROMPTS || n * c->best_of > MAX_CHOICES)
        return param_wrong(c->call, "prompt", "at most %d prompts, and %d choices of all together", MAX_PROMPTS, MAX_CHOICES);
    c->prompts = calloc(n, sizeof *c->prompts);
    if (!c->prompts)
        return no_memory(c->call);
    c->n_prompts = (uint32_t)n;
    for (uint32_t i = 0; i < c->n_prompts; i++) {
        struct prompt *p = &c->prompts[i];
        p->c = c;
        p->index = i;
        token_log_begin(&p->log, c->server->tokenizer);
        p->choices = calloc(c->best_of, sizeof *p->choices);
        if (!p->choices)
            return no_memory(c->call);
        for (uint32_t k = 0; k < c->best_of; k++) {
            token_log_begin(&p->choices[k].log, c->server->tokenizer);
            p->choices[k].stop_index = -1;
            p->choices[k].logprobs = new_logprobs(c);
        }
    }
    return true;
}

/* A string, token ids, or an array of either. Absent or null: an empty one, which BOS may fill. */
static bool read_prompts(struct completion *c, const json_t *body)
{
    const json_t *prompt = json_object_get(body, "prompt"), *item;
    size_t i;
    if (!prompt || json_is_null(prompt))
        return make_prompts(c, 1) && take_text(c, &c->prompts[0], NULL);
    if (json_is_string(prompt))
        return make_prompts(c, 1) && take_text(c, &c->prompts[0], prompt);
    if (!json_is_array(prompt))
        return param_wrong(c->call, "prompt", "must be a string, an array of strings, an array of token ids, or an array of those");
    if (!json_array_size(prompt))
        return param_wrong(c->call, "prompt", "is empty");
    if (json_is_integer(json_array_get(prompt, 0)))
        return make_prompts(c, 1) && take_ids(c, &c->prompts[0], prompt);
    if (!make_prompts(c, json_array_size(prompt)))
        return false;
    json_array_foreach (prompt, i, item) {
        bool ok = json_is_string(item)  ? take_text(c, &c->prompts[i], item)
                  : json_is_array(item) ? take_ids(c, &c->prompts[i], item)
                                        : param_wrong(c->call, "prompt", "item %zu is neither a string nor an array of token ids", i);
        if (!ok)
            return false;
    }
    return true;
}

/* With a suffix: the prompts become what the model was trained to fill in between. */
static bool read_suffix(struct completion *c, const json_t *body)
{
    const char *suffix = NULL;
    if (!param_string(c->call, body, "suffix", &suffix))
        return false;
    if (!suffix || !*suffix)
        return true;
    if (c->echo)
        return param_wrong(c->call, "suffix", "cannot be given together with echo");
    for (uint32_t i = 0; i < c->n_prompts; i++) {
        struct prompt *p = &c->prompts[i];
        infer_error err;
        INFER_INIT(&err);
        infer_status st = fim_prompt(c->server->tokenizer, p->text.data ? p->text.data : "", p->text.len, suffix, &p->ids, &p->n_ids, &err);
        if (st == INFER_ERROR_UNSUPPORTED)
            return param_wrong(c->call, "suffix", "%s", err.text);
        if (st != INFER_OK) {
            call_status(c->call, st, &err, "suffix");
            return false;
        }
    }
    return true;
}

static bool read_request(struct completion *c, const json_t *body)
{
    if (!params_check(c->call, body, keys, true) || !params_read(c->server, c->call, body, &c->p) || !read_numbers(c, body) ||
        !read_prompts(c, body) || !read_suffix(c, body))
        return false;
    for (uint32_t i = 0; i < c->n_prompts; i++)
        c->prompts[i].characters = count_characters(&c->prompts[i].text);
    return true;
}

/* ---- The answer -------------------------------------------------------------------------------------------------------- */

/* A key for each alternative, and for the token itself. Two tokens may be spelled alike: the likelier one stays. */
static void put_alternative(const struct completion *c, json_t *top, int32_t id, float logprob)
{
    json_t *name = token_string(c->server->tokenizer, id, "bytes:");
    const char *key = json_string_value(name);
    if (key && !json_object_get(top, key))
        json_object_set_new(top, key, json_real((double)logprob));
    json_decref(name);
}

/* before: characters before the text that the token's offset counts in. */
static void put_token(const struct completion *c, json_t *logprobs, const struct logged_token *t, size_t before)
{
    json_t *tops = json_object_get(logprobs, "top_logprobs"), *top = t->known ? json_object() : json_null();
    json_array_append_new(json_object_get(logprobs, "tokens"), token_string(c->server->tokenizer, t->id, "bytes:"));
    json_array_append_new(json_object_get(logprobs, "token_logprobs"), t->known ? json_real((double)t->logprob) : json_null());
    json_array_append_new(json_object_get(logprobs, "text_offset"), json_integer((json_int_t)(before + t->characters)));
    for (uint32_t i = 0; t->known && i < t->n_top; i++)
        put_alternative(c, top, t->top[i].id, t->top[i].logprob);
    if (t->known)
        put_alternative(c, top, t->id, t->logprob);
    if (json_is_array(tops))
        json_array_append(tops, top);
    json_decref(top);
}

static void tell(const struct prompt *p, struct choice *ch, size_t n)
{
    for (; n; n--, ch->log.told++)
        put_token(p->c, ch->logprobs, &ch->log.items[ch->log.told], p->characters);
}

/* What echo puts before an answer. */
static void echo(const struct prompt *p, struct choice *ch)
{
    if (ch->echoed || !p->c->echo)
        return;
    ch->echoed = true;
    bytes_put(&ch->text, p->text.data ? p->text.data : "", p->text.len);
    for (size_t i = 0; ch->logprobs && i < p->log.n; i++)
        put_token(p->c, ch->logprobs, &p->log.items[i], 0);
}

static json_t *answer_frame(const struct completion *c)
{
    char id[64];
    snprintf(id, sizeof id, "cmpl-%s", call_id(c->call) + 4);
    json_t *o = json_pack("{s:s, s:s, s:I, s:s, s:[]}", "id", id, "object", "text_completion", "created", (json_int_t)c->created, "model",
                          c->p.model, "choices");
    json_object_set_new(o, "system_fingerprint", c->fingerprint[0] ? json_string(c->fingerprint) : json_null());
    json_object_set_new(o, "seed", json_integer((json_int_t)c->p.sampling.seed));
    return o;
}

/* Takes what has been gathered. */
static json_t *choice_json(const struct prompt *p, struct choice *ch, uint32_t index, bool last)
{
    json_t *text = ch->text.failed ? NULL : text_json(ch->text.data ? ch->text.data : "", ch->text.len);
    json_t *o = json_pack("{s:o, s:I, s:o?, s:n}", "text", text, "index", (json_int_t)p->index * p->c->p.n + index, "logprobs", ch->logprobs,
                          "finish_reason");
    bytes_free(&ch->text);
    ch->logprobs = new_logprobs(p->c);
    if (last) {
        json_object_set_new(o, "finish_reason", json_string(openai_finish_reason(ch->finish_reason)));
        json_object_set_new(o, "finish_detail", json_string(finish_detail(ch->finish_reason)));
        if (ch->stop_index >= 0 && (uint64_t)ch->stop_index < p->c->p.generate.stop_count) {
            const infer_text *stop = &p->c->p.stops[ch->stop_index];
            json_object_set_new(o, "stop_reason", json_stringn(stop->text, (size_t)stop->text_len));
        } else {
            json_object_set_new(o, "stop_reason", json_null());
        }
    }
    return o;
}

static void cancel_all(struct completion *c)
{
    pthread_mutex_lock(&c->lock);
    c->cancelled = true;
    pthread_mutex_unlock(&c->lock);
    for (uint32_t i = 0; i < c->n_prompts; i++) {
        pthread_mutex_lock(&c->lock);
        infer_request *r = c->prompts[i].request ? infer_request_ref(c->prompts[i].request) : NULL;
        pthread_mutex_unlock(&c->lock); /* cancelling may wait for a callback that waits for the lock */
        if (r)
            infer_request_cancel(r);
        infer_request_release(r);
    }
}

static void fail(struct completion *c, const infer_error *err)
{
    pthread_mutex_lock(&c->lock);
    if (!c->failed && err)
        c->err = *err;
    c->failed = true;
    pthread_mutex_unlock(&c->lock);
    cancel_all(c);
}

static void send_choice(struct prompt *p, uint32_t index, bool last)
{
    struct completion *c = p->c;
    struct choice *ch = &p->choices[index];
    if (!last && !ch->text.len && !json_array_size(json_object_get(ch->logprobs, "tokens")))
        return;
    json_t *o = answer_frame(c);
    json_array_append_new(json_object_get(o, "choices"), choice_json(p, ch, index, last));
    if (c->usage)
        json_object_set_new(o, "usage", json_null());
    if (!call_stream_event(c->call, NULL, o))
        cancel_all(c);
}

static void started(struct prompt *p, infer_request *request)
{
    struct completion *c = p->c;
    p->started = true;
    if (c->n_prompts == 1)
        openai_cache_header(c->call, request);
    if (c->p.stream && !c->streaming) {
        c->streaming = true;
        call_stream_begin(c->call, "text/event-stream");
    }
}

static void token(struct prompt *p, const infer_request_event *e)
{
    struct choice *ch = &p->choices[e->choice];
    echo(p, ch);
    bytes_put(&ch->text, e->text, (size_t)e->text_len);
    ch->logprob += (double)e->logprob;
    ch->n_tokens++;
    if (ch->logprobs) {
        token_log_add(&ch->log, e, true);
        tell(p, ch, token_log_show(&ch->log, (size_t)e->text_len));
    }
    if (p->c->streaming)
        send_choice(p, e->choice, false);
}

/* Its time ran out in the queue. */
static void fail_late(struct completion *c)
{
    infer_error err;
    INFER_INIT(&err);
    err.code = INFER_ERROR_LIMIT;
    snprintf(err.text, sizeof err.text, "the request's time ran out before it could begin");
    fail(c, &err);
}

static void done(struct prompt *p, const infer_request_event *e)
{
    struct choice *ch = &p->choices[e->choice];
    echo(p, ch);
    ch->finish_reason = e->finish_reason;
    ch->stop_index = e->stop_index;
    bytes_put(&ch->text, e->text, (size_t)e->text_len);
    if (ch->logprobs) {
        (void)token_log_show(&ch->log, (size_t)e->text_len);
        tell(p, ch, token_log_done(&ch->log, e->finish_reason));
    }
    if (e->finish_reason == INFER_FINISH_ERROR || ch->log.failed || ch->text.failed)
        fail(p->c, e->error);
    else if (e->finish_reason == INFER_FINISH_CANCELLED)
        fail(p->c, NULL);
    else if (!p->started)
        fail_late(p->c);
    else if (p->c->streaming)
        send_choice(p, e->choice, true);
}

static double mean_logprob(const struct choice *ch)
{
    return ch->n_tokens ? ch->logprob / (double)ch->n_tokens : 0;
}

/* The n best of best_of, best first; all of them in order where that is n. */
static void put_choices(struct prompt *p, json_t *choices)
{
    bool taken[128] = {false};
    for (uint32_t i = 0; i < p->c->p.n; i++) {
        uint32_t best = UINT32_MAX;
        for (uint32_t k = 0; k < p->c->best_of; k++) {
            bool first = best == UINT32_MAX;
            if (!taken[k] && (first || (p->c->best_of > p->c->p.n && mean_logprob(&p->choices[k]) > mean_logprob(&p->choices[best]))))
                best = k;
        }
        taken[best] = true;
        json_array_append_new(choices, choice_json(p, &p->choices[best], i, true));
    }
}

static void answer_whole(struct completion *c)
{
    json_t *o = answer_frame(c);
    for (uint32_t i = 0; i < c->n_prompts; i++)
        put_choices(&c->prompts[i], json_object_get(o, "choices"));
    for (uint32_t i = 0; c->n_prompts > 1 && i < c->n_prompts && i < MOST_REASONS; i++)
        call_header_add(c->call, "x-cache-reason", c->prompts[i].cache_reason);
    json_object_set_new(o, "usage", openai_usage(c->n_prompt, c->n_cached, c->n_generated, 0));
    call_json(c->call, 200, o);
}

/* Everything has ended: answers, after which c may be gone. */
static void answer(struct completion *c)
{
    int32_t status = c->err.code ? c->err.code : INFER_ERROR_CANCELLED;
    if (c->failed && !c->streaming) {
        call_status(c->call, status, &c->err, status == INFER_ERROR_CONTEXT_FULL ? "prompt" : NULL);
        return;
    }
    if (!c->streaming) {
        answer_whole(c);
        return;
    }
    if (c->failed)
        openai_stream_error(c->call, status, &c->err);
    else if (c->usage) {
        json_t *o = answer_frame(c);
        json_object_set_new(o, "usage", openai_usage(c->n_prompt, c->n_cached, c->n_generated, 0));
        call_stream_event(c->call, NULL, o);
    }
    if (!c->failed)
        call_stream_text(c->call, "[DONE]");
    call_stream_end(c->call);
}

/* So many have ended; the last one answers. */
static void close_some(struct completion *c, uint32_t n)
{
    pthread_mutex_lock(&c->lock);
    c->open -= n;
    bool last = c->open == 0;
    pthread_mutex_unlock(&c->lock);
    if (last)
        answer(c);
}

static void end(struct prompt *p, infer_request *request)
{
    struct completion *c = p->c;
    infer_request_info info;
    INFER_INIT(&info);
    if (infer_request_get_info(request, &info, NULL) == INFER_OK) {
        metrics_request(c->server, c->call, &info);
        c->n_prompt += info.prompt_tokens;
        c->n_cached += info.cached_tokens;
        c->n_generated += info.generated_tokens;
        cache_reason_text(&info, p->cache_reason, sizeof p->cache_reason);
    }
    close_some(c, 1);
}

static void on_event(void *user, infer_request *request, const infer_request_event *e)
{
    struct prompt *p = user;
    switch (e->kind) {
    case INFER_REQUEST_EVENT_PROMPT: token_log_add(&p->log, e, p->log.n > 0); break;
    case INFER_REQUEST_EVENT_STARTED: started(p, request); break;
    case INFER_REQUEST_EVENT_TOKEN: token(p, e); break;
    case INFER_REQUEST_EVENT_DONE: done(p, e); break;
    case INFER_REQUEST_EVENT_END: end(p, request); break;
    default: break;
    }
}

static void on_close(void *user)
{
    cancel_all(user);
}

/* ---- The handler --------------------------------------------------------------------------------------------------------- */

static infer_status submit(struct prompt *p, infer_error *err)
{
    struct completion *c = p->c;
    infer_request_options o;
    infer_session_options session;
    infer_request *request = NULL;
    params_request(c->server, c->call, &c->p, &o, &session);
    o.n = c->best_of;
    o.ids = p->ids;
    o.id_count = p->n_ids;
    o.callback = on_event;
    o.callback_user = p;
    o.flags |= c->p.generate.max_tokens ? 0U : INFER_REQUEST_PROMPT_ONLY;
    if (c->echo && c->logprobs) {
        o.flags |= INFER_REQUEST_ECHO;
        o.flags |= INFER_REQUEST_PROMPT_LOGPROBS;
    }
    infer_status st = infer_scheduler_submit(c->server->scheduler, &o, &request, err);
    if (st != INFER_OK)
        return st;
    pthread_mutex_lock(&c->lock);
    p->request = request;
    bool cancelled = c->cancelled;
    pthread_mutex_unlock(&c->lock);
    if (cancelled)
        infer_request_cancel(request);
    return INFER_OK;
}

static void submit_all(struct completion *c)
{
    uint32_t i = 0;
    infer_error err;
    INFER_INIT(&err);
    c->open = c->n_prompts + 1;
    call_on_close(c->call, on_close, c);
    while (i < c->n_prompts && submit(&c->prompts[i], &err) == INFER_OK)
        i++;
    if (i < c->n_prompts)
        fail(c, &err);
    close_some(c, c->n_prompts - i + 1);
}

static void completions(struct server *server, struct call *call)
{
    json_t *body = openai_generates(server, call) ? call_json_body(call) : NULL;
    if (!body)
        return;
    struct completion *c = calloc(1, sizeof *c);
    if (!c || pthread_mutex_init(&c->lock, NULL)) {
        free(c);
        (void)no_memory(call);
        return;
    }
    c->server = server;
    c->call = call;
    c->created = (int64_t)time(NULL);
    INFER_INIT(&c->err);
    openai_fingerprint(server, c->fingerprint);
    call_ref(call); /* the scheduler may have answered before submit returns */
    call_own(call, c, completion_free);
    if (read_request(c, body))
        submit_all(c);
    call_release(call);
}

const struct route openai_completions_routes[] = {
    {"POST", "/v1/completions", API_OPENAI, ROUTE_GENERATES | ROUTE_PURE, completions},
    {NULL, NULL, API_OPENAI, 0, NULL}};
