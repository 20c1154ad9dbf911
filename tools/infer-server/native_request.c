#include "native_request.h"

#include <stdlib.h>
#include <string.h>

#include "checkpoints.h"
#include "metrics.h"

/* ---- Reading ---- */

static void free_request(void *user)
{
    struct native_request *r = user;
    for (uint32_t i = 0; r->choices && i < r->params.n; i++) {
        struct native_choice *c = &r->choices[i];
        bytes_free(&c->text);
        bytes_free(&c->reasoning);
        bytes_free(&c->new_text);
        bytes_free(&c->new_reasoning);
        json_decref(c->tokens);
    }
    free(r->choices);
    free(r->ids);
    json_decref(r->cache);
    json_decref(r->save_error);
    infer_request_release(r->request);
    infer_checkpoint_release(r->checkpoint);
    params_free(&r->params);
    free(r);
}

static bool read_generation(struct native_request *r, const json_t *body)
{
    struct call *call = r->call;
    uint64_t max_tokens = 0, top = 0;
    bool ignore_eos = false, special = false;
    if (!param_uint(call, body, "max_tokens", 1, 1u << 24, &max_tokens) || !param_bool(call, body, "logprobs", &r->logprobs) ||
        !param_uint(call, body, "top_logprobs", 0, 20, &top) || !param_bool(call, body, "ignore_eos", &ignore_eos) ||
        !param_bool(call, body, "special", &special) || !param_string(call, body, "save", &r->save))
        return false;
    if (top && !r->logprobs)
        return param_wrong(call, "top_logprobs", "needs \"logprobs\": true");
    if (r->save && r->params.n > 1)
        return param_wrong(call, "save", "one answer can be saved: n must be 1");
    r->params.generate.max_tokens = max_tokens;
    r->params.sampling.logprobs = r->logprobs;
    r->params.sampling.top_logprobs = (uint32_t)top;
    r->flags |= (ignore_eos ? INFER_REQUEST_IGNORE_EOS : 0) | (special ? INFER_REQUEST_SHOW_SPECIAL : 0);
    return true;
}

static bool read_save(struct native_request *r, const json_t *body)
{
    if (!param_bool(r->call, body, "replace", &r->replace))
        return false;
    if (r->prompt_only && (!native_required(r->call, body, "name") || !param_string(r->call, body, "name", &r->save)))
        return false;
    return !r->save || checkpoints_may_put(r->server, r->call, r->save, r->replace, r->prompt_only ? "name" : "save");
}

static bool make_choices(struct native_request *r)
{
    r->choices = calloc(r->params.n, sizeof *r->choices);
    for (uint32_t i = 0; r->choices && i < r->params.n; i++) {
        r->choices[i].stop_index = -1;
        r->choices[i].tokens = r->logprobs ? json_array() : NULL;
    }
    if (!r->choices)
        call_error(r->call, 500, NULL, NULL, NULL, "out of memory");
    return r->choices != NULL;
}

struct native_request *native_request_read(struct server *server, struct call *call, const json_t *body, const struct param *table, bool prompt_only)
{
    if (!native_needs_decoder(server, call) || !params_check(call, body, table, !prompt_only))
        return NULL;
    struct native_request *r = calloc(1, sizeof *r);
    if (!r || !params_read(server, call, body, &r->params)) {
        if (!r)
            call_error(call, 500, NULL, NULL, NULL, "out of memory");
        free(r);
        return NULL;
    }
    r->server = server;
    r->call = call;
    r->prompt_only = prompt_only;
    r->stream = r->params.stream;
    INFER_INIT(&r->info);
    INFER_INIT(&r->error);
    call_own(call, r, free_request);
    return (prompt_only || read_generation(r, body)) && read_save(r, body) && make_choices(r) ? r : NULL;
}

/* ---- The answer ---- */

static json_t *usage(const struct native_request *r)
{
    const infer_request_info *i = &r->info;
    return json_pack("{s:I,s:I,s:I,s:I}", "prompt_tokens", (json_int_t)i->prompt_tokens, "cached_tokens", (json_int_t)i->cached_tokens, "completion_tokens",
                     (json_int_t)i->generated_tokens, "total_tokens", (json_int_t)(i->prompt_tokens + i->generated_tokens));
}

static json_t *timings(const struct native_request *r)
{
    const infer_request_info *i = &r->info;
    uint64_t begun = i->started ? i->started : i->ended, prompt = i->first_token ? i->first_token : i->ended, generating = i->ended - prompt;
    json_t *o = json_pack("{s:f,s:f,s:f}", "queue_ms", (double)(begun - i->submitted) / 1e3, "prompt_ms", (double)(prompt - begun) / 1e3, "generation_ms",
                          (double)generating / 1e3);
    if (i->first_token)
        (void)json_object_set_new(o, "first_token_ms", json_real((double)(i->first_token - i->submitted) / 1e3));
    if (generating && i->generated_tokens > r->params.n) /* the first of each comes with the prompt */
        (void)json_object_set_new(o, "tokens_per_second", json_real((double)(i->generated_tokens - r->params.n) * 1e6 / (double)generating));
    return o;
}

static void put_choice(const struct native_request *r, const struct native_choice *c, json_t *o)
{
    const infer_text *stop = c->stop_index >= 0 ? &r->params.stops[c->stop_index] : NULL;
    (void)json_object_set_new(o, "text", text_json(c->text.data ? c->text.data : "", c->text.len));
    if (r->splits)
        (void)json_object_set_new(o, "reasoning", c->reasoning.len ? text_json(c->reasoning.data, c->reasoning.len) : json_null());
    (void)json_object_set_new(o, "finish_reason", json_string(finish_detail(c->finish)));
    (void)json_object_set_new(o, "stop", stop ? text_json(stop->text, (size_t)stop->text_len) : json_null());
    if (c->tokens)
        (void)json_object_set(o, "tokens", c->tokens);
}

static json_t *whole(struct native_request *r)
{
    json_t *o = json_pack("{s:s,s:s}", "id", call_id(r->call), "model", r->params.model);
    if (!r->prompt_only && r->params.n == 1) {
        put_choice(r, &r->choices[0], o);
    } else if (!r->prompt_only) {
        json_t *list = json_array();
        for (uint32_t i = 0; i < r->params.n; i++) {
            json_t *choice = json_pack("{s:I}", "index", (json_int_t)i);
            put_choice(r, &r->choices[i], choice);
            (void)json_array_append_new(list, choice);
        }
        (void)json_object_set_new(o, "choices", list);
    }
    (void)json_object_set_new(o, "usage", usage(r));
    (void)json_object_set(o, "cache", r->cache ? r->cache : json_null());
    if (!r->prompt_only)
        (void)json_object_set_new(o, "seed", json_integer((json_int_t)r->params.sampling.seed));
    (void)json_object_set_new(o, "timings", timings(r));
    if (r->save_error)
        (void)json_object_set(o, "checkpoint_error", r->save_error);
    if (r->save)
        (void)json_object_set_new(o, "checkpoint", r->save_error || !r->checkpoint ? json_null() : checkpoints_describe(r->save, r->checkpoint));
    return o;
}

static void answer(struct native_request *r)
{
    struct call *call = r->call;
    if (!r->stream) {
        call_json(call, 200, whole(r));
        return;
    }
    (void)call_stream_event(call, "done", whole(r));
    call_stream_end(call);
}

/* An error when the stream may have begun. */
static void answer_error(struct native_request *r, infer_status st, const infer_error *err)
{
    struct call *call = r->call;
    if (!r->begun) {
        call_status(call, st, err, NULL);
        return;
    }
    (void)call_stream_event(call, "error", json_pack("{s:{s:s,s:s,s:s}}", "error", "message", err->text[0] ? err->text : infer_status_message(st), "type",
                                                     "server_error", "code", infer_status_name(st)));
    call_stream_end(call);
}

/* What was computed to be saved fails with that; an answer is given all the same, and says so. */
static void not_saved(struct native_request *r, infer_status st, const infer_error *err)
{
    if (r->prompt_only) {
        checkpoints_put_error(r->call, r->save, st, err);
        return;
    }
    r->save_error = json_pack("{s:s,s:s}", "status", infer_status_name(st), "message", err->text[0] ? err->text : infer_status_message(st));
    answer(r);
}

static void save_now(void *user)
{
    struct native_request *r = user;
    infer_error err;
    INFER_INIT(&err);
    infer_status st = checkpoints_put(r->server, r->call, r->save, r->checkpoint, r->replace, &err);
    if (st == INFER_OK)
        answer(r);
    else
        not_saved(r, st, &err);
}

/* Writing a checkpoint's file takes too long for the scheduler's thread. */
static void save(struct native_request *r)
{
    infer_error err;
    INFER_INIT(&err);
    infer_status st = infer_request_checkpoint(r->request, 0, &r->checkpoint, &err);
    if (st == INFER_OK)
        call_later(r->call, save_now, r);
    else
        not_saved(r, st, &err);
}

/* ---- Events, on the scheduler's thread ---- */

static void take_part(void *user, enum reasoning_part part, const char *text, size_t len)
{
    struct native_choice *c = user;
    bytes_put(part == PART_REASONING ? &c->new_reasoning : &c->new_text, text, len);
}

/* What has come since the last time goes to the whole, and to the stream. */
static void give(struct native_request *r, uint32_t choice, const infer_request_event *e)
{
    struct native_choice *c = &r->choices[choice];
    bool any = c->new_text.len || c->new_reasoning.len;
    json_t *token = r->logprobs && e->id >= 0 ? native_token_logprob(r->server, e->id, true, e->logprob, e->top, e->top_count) : NULL;
    if (token)
        (void)json_array_append(c->tokens, token);
    if (r->stream && (any || token)) {
        json_t *o = r->params.n > 1 ? json_pack("{s:I}", "index", (json_int_t)choice) : json_object();
        if (c->new_text.len || !c->new_reasoning.len)
            (void)json_object_set_new(o, "text", text_json(c->new_text.data ? c->new_text.data : "", c->new_text.len));
        if (c->new_reasoning.len)
            (void)json_object_set_new(o, "reasoning", text_json(c->new_reasoning.data, c->new_reasoning.len));
        if (token)
            (void)json_object_set(o, "token", token);
        (void)call_stream_event(r->call, "token", o);
    }
    json_decref(token);
    bytes_put(&c->text, c->new_text.data, c->new_text.len);
    bytes_put(&c->reasoning, c->new_reasoning.data, c->new_reasoning.len);
    c->new_text.len = c->new_reasoning.len = 0;
}

static void started(struct native_request *r, infer_request *request)
{
    infer_request_info info;
    INFER_INIT(&info);
    if (infer_request_get_info(request, &info, NULL) == INFER_OK)
        r->cache = native_cache(r->call, &info);
    r->computed = true;
    if (r->stream) {
        r->begun = true;
        call_stream_begin(r->call, "text/event-stream");
    }
}

static void token(struct native_request *r, const infer_request_event *e)
{
    struct native_choice *c = &r->choices[e->choice];
    if (r->splits)
        reasoning_token(&c->split, e->id, e->text, (size_t)e->text_len, take_part, c);
    else
        bytes_put(&c->new_text, e->text, (size_t)e->text_len);
    give(r, e->choice, e);
}

static void done(struct native_request *r, const infer_request_event *e)
{
    struct native_choice *c = &r->choices[e->choice];
    if (r->splits) {
        reasoning_feed(&c->split, e->text, (size_t)e->text_len, take_part, c);
        reasoning_end(&c->split, take_part, c);
    } else {
        bytes_put(&c->new_text, e->text, (size_t)e->text_len);
    }
    give(r, e->choice, e);
    c->finish = e->finish_reason;
    c->stop_index = e->stop_index;
    if (e->finish_reason == INFER_FINISH_ERROR && !r->error.code && e->error) {
        uint32_t size = r->error.size;
        memcpy(&r->error, e->error, size < e->error->size ? size : e->error->size);
        r->error.size = size;
    }
}

/* What there is no answer for: a failure; a prompt that was not computed to its end, since its time ran out in the queue, or the server ends. */
static void end_without(struct native_request *r, bool cancelled)
{
    if (!r->error.code) {
        r->error.code = cancelled ? INFER_ERROR_CANCELLED : r->computed ? INFER_ERROR_NO_MEMORY : INFER_ERROR_LIMIT;
        (void)snprintf(r->error.text, sizeof r->error.text, "%s", cancelled ? "cancelled" : r->computed ? "out of memory" : "the request's time ran out before its prompt was computed");
    }
    answer_error(r, r->error.code, &r->error);
}

static void end(struct native_request *r, infer_request *request)
{
    bool failed = !r->computed, cancelled = false;
    (void)infer_request_get_info(request, &r->info, NULL);
    metrics_request(r->server, r->call, &r->info);
    for (uint32_t i = 0; i < r->params.n; i++) {
        const struct native_choice *c = &r->choices[i];
        failed |= c->finish == INFER_FINISH_ERROR || c->text.failed || c->reasoning.failed || c->new_text.failed || c->new_reasoning.failed;
        cancelled |= c->finish == INFER_FINISH_CANCELLED;
    }
    if (failed || (r->prompt_only && cancelled))
        end_without(r, cancelled);
    else if (r->save && !cancelled)
        save(r);
    else
        answer(r);
}

static void on_event(void *user, infer_request *request, const infer_request_event *e)
{
    struct native_request *r = user;
    switch (e->kind) {
    case INFER_REQUEST_EVENT_STARTED: started(r, request); break;
    case INFER_REQUEST_EVENT_TOKEN: token(r, e); break;
    case INFER_REQUEST_EVENT_DONE: done(r, e); break;
    case INFER_REQUEST_EVENT_END: end(r, request); break;
    default: break;
    }
}

static void on_close(void *user)
{
    infer_request_cancel(((struct native_request *)user)->request);
}

void native_request_submit(struct native_request *r)
{
    infer_request_options o;
    infer_session_options session;
    infer_error err;
    struct call *call = call_ref(r->call); /* the answer may end before submit returns */
    INFER_INIT(&err);
    params_request(r->server, call, &r->params, &o, &session);
    o.flags |= r->flags | (r->save ? INFER_REQUEST_KEEP : 0);
    o.ids = r->n_ids ? r->ids : NULL;
    o.id_count = r->n_ids;
    o.flags |= r->prompt_only ? INFER_REQUEST_PROMPT_ONLY : 0U;
    o.callback = on_event;
    o.callback_user = r;
    infer_status st = infer_scheduler_submit(r->server->scheduler, &o, &r->request, &err);
    if (st == INFER_OK)
        call_on_close(call, on_close, r);
    else
        call_status(call, st, &err, NULL);
    call_release(call);
}
