/* POST /v1/chat/completions. The handler reads the request and submits it; everything else happens in the callback, on the scheduler's thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bytes.h"
#include "metrics.h"
#include "openai.h"
#include "reasoning.h"
#include "token_log.h"

static const struct param keys[] = {
    {"messages", PARAM_TAKEN}, {"max_tokens", PARAM_TAKEN}, {"max_completion_tokens", PARAM_TAKEN}, {"logprobs", PARAM_TAKEN},
    {"top_logprobs", PARAM_TAKEN}, {"stream_options", PARAM_TAKEN}, {"chat_template_kwargs", PARAM_TAKEN},
    {"reasoning_effort", PARAM_TAKEN}, {"service_tier", PARAM_TAKEN}, {"verbosity", PARAM_TAKEN},
    {"user", PARAM_NO_EFFECT}, {"metadata", PARAM_NO_EFFECT}, {"safety_identifier", PARAM_NO_EFFECT}, {"parallel_tool_calls", PARAM_NO_EFFECT},
    {"prompt_cache_key", PARAM_NO_EFFECT}, {"prompt_cache_options", PARAM_NO_EFFECT}, {"prompt_cache_retention", PARAM_NO_EFFECT},
    {"response_format", PARAM_REFUSED}, {"modalities", PARAM_REFUSED}, {"tools", PARAM_REFUSED}, {"tool_choice", PARAM_REFUSED},
    {"functions", PARAM_REFUSED}, {"function_call", PARAM_REFUSED}, {"audio", PARAM_REFUSED}, {"prediction", PARAM_REFUSED},
    {"web_search_options", PARAM_REFUSED}, {"moderation", PARAM_REFUSED}, {"store", PARAM_REFUSED}, {NULL, PARAM_TAKEN}};

struct choice {
    struct reasoning split;
    struct token_log log;
    struct bytes content, reasoning; /* the whole, or in a stream what has not been sent yet */
    json_t *logprobs;                /* of content, likewise; NULL: not asked for */
    int32_t finish_reason, stop_index;
};

struct chat {
    struct server *server;
    struct call *call;
    struct params p;
    json_t *kwargs;
    infer_request *request;
    struct choice *choices;    /* [p.n] */
    uint64_t reasoning_tokens;
    bool usage, logprobs, started, streaming, failed;
    infer_error err;           /* what failed */
    int64_t created;
    char fingerprint[16];
};

static void chat_free(void *data)
{
    struct chat *c = data;
    for (uint32_t i = 0; c->choices && i < c->p.n; i++) {
        token_log_free(&c->choices[i].log);
        bytes_free(&c->choices[i].content);
        bytes_free(&c->choices[i].reasoning);
        json_decref(c->choices[i].logprobs);
    }
    free(c->choices);
    infer_request_release(c->request);
    json_decref(c->kwargs);
    params_free(&c->p);
    free(c);
}

/* ---- The request ----------------------------------------------------------------------------------------------------- */

static bool check_message(struct call *call, const json_t *message, size_t index)
{
    static const char *const roles[] = {"system", "user", "assistant", "developer"}, *const refused[] = {"tool_calls", "function_call", "audio"};
    char at[64];
    const char *role = json_string_value(json_object_get(message, "role"));
    bool known = !role; /* chat_prompt.c tells what is missing */
    for (size_t i = 0; role && i < sizeof roles / sizeof *roles; i++)
        known = known || strcmp(role, roles[i]) == 0;
    snprintf(at, sizeof at, "messages[%zu].role", index);
    if (!known)
        return param_wrong(call, at, "'%s' is not supported: system, developer, user or assistant", role);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const json_t *v = json_object_get(message, refused[i]);
        snprintf(at, sizeof at, "messages[%zu].%s", index, refused[i]);
        if (v && !json_is_null(v) && !(json_is_array(v) && !json_array_size(v)))
            return param_wrong(call, at, "this server does not support it");
    }
    return true;
}

static bool check_messages(struct call *call, const json_t *body)
{
    json_t *messages = NULL, *message;
    size_t i;
    if (!param_array(call, body, "messages", &messages))
        return false;
    json_array_foreach (messages, i, message)
        if (!check_message(call, message, i))
            return false;
    return true;
}

/* What chat_template_kwargs says itself stays. Steals value. */
static void default_kwarg(struct chat *c, const char *key, json_t *value)
{
    if (json_object_get(c->kwargs, key))
        json_decref(value);
    else
        json_object_set_new(c->kwargs, key, value);
}

/* Effort goes to templates that have a word for it. Elsewhere "none" can be had where nothing is reasoned anyway; the rest cannot. */
static bool read_effort(struct chat *c, const json_t *body)
{
    static const char *const efforts[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};
    const char *effort = NULL;
    bool known = false;
    if (!param_string(c->call, body, "reasoning_effort", &effort))
        return false;
    if (!effort)
        return true;
    for (size_t i = 0; i < sizeof efforts / sizeof *efforts; i++)
        known = known || strcmp(effort, efforts[i]) == 0;
    if (!known)
        return param_wrong(c->call, "reasoning_effort", "must be none, minimal, low, medium, high, xhigh or max");
    bool none = strcmp(effort, "none") == 0;
    if (chat_template_has(c->server, "reasoning_effort"))
        default_kwarg(c, "reasoning_effort", json_string(effort));
    else if (chat_template_has(c->server, "enable_thinking"))
        default_kwarg(c, "enable_thinking", json_boolean(!none));
    else if (!none || reasoning_of(c->server->tmpl, c->server->tokenizer).open)
        return param_wrong(c->call, "reasoning_effort", "the template of this model has no switch for it");
    return true;
}

static bool read_kwargs(struct chat *c, const json_t *body)
{
    json_t *kwargs = NULL;
    if (!param_object(c->call, body, "chat_template_kwargs", &kwargs))
        return false;
    c->kwargs = kwargs ? json_copy(kwargs) : json_object();
    if (!c->kwargs)
        call_error(c->call, 500, NULL, NULL, NULL, "out of memory");
    return c->kwargs && read_effort(c, body);
}

static bool read_max_tokens(struct chat *c, const json_t *body)
{
    uint64_t old = 0, now = 0;
    if (!param_uint(c->call, body, "max_tokens", 1, INT64_MAX, &old) || !param_uint(c->call, body, "max_completion_tokens", 1, INT64_MAX, &now))
        return false;
    if (old && now)
        return param_wrong(c->call, "max_tokens", "cannot be given together with max_completion_tokens");
    c->p.generate.max_tokens = now ? now : old;
    return true;
}

static bool read_logprobs(struct chat *c, const json_t *body)
{
    uint64_t top = 0;
    if (!param_bool(c->call, body, "logprobs", &c->logprobs) || !param_uint(c->call, body, "top_logprobs", 0, TOKEN_LOG_TOP, &top))
        return false;
    if (top && !c->logprobs)
        return param_wrong(c->call, "top_logprobs", "needs logprobs to be true");
    c->p.sampling.logprobs = c->logprobs;
    c->p.sampling.top_logprobs = (uint32_t)top;
    return true;
}

/* Types of what has no effect. */
static bool check_unused(struct call *call, const json_t *body)
{
    const char *s = NULL;
    json_t *o = NULL;
    bool b = false;
    return param_string(call, body, "user", &s) && param_object(call, body, "metadata", &o) && param_string(call, body, "safety_identifier", &s) &&
           param_bool(call, body, "parallel_tool_calls", &b) && param_string(call, body, "prompt_cache_key", &s) &&
           param_object(call, body, "prompt_cache_options", &o) && param_string(call, body, "prompt_cache_retention", &s) &&
           openai_service_tier(call, body);
}

static bool read_verbosity(struct call *call, const json_t *body)
{
    const char *verbosity = NULL;
    if (!param_string(call, body, "verbosity", &verbosity))
        return false;
    return !verbosity || strcmp(verbosity, "medium") == 0 || param_wrong(call, "verbosity", "this server does not support it");
}

static bool read_request(struct chat *c, const json_t *body)
{
    return params_check(c->call, body, keys, true) && params_read(c->server, c->call, body, &c->p) && read_max_tokens(c, body) &&
           read_logprobs(c, body) && openai_stream_options(c->call, body, c->p.stream, &c->usage) && check_unused(c->call, body) &&
           read_verbosity(c->call, body) && check_messages(c->call, body) && read_kwargs(c, body);
}

/* ---- The answer ------------------------------------------------------------------------------------------------------ */

static json_t *answer_frame(const struct chat *c, const char *object)
{
    char id[64];
    snprintf(id, sizeof id, "chatcmpl-%s", call_id(c->call) + 4);
    json_t *o = json_pack("{s:s, s:s, s:I, s:s, s:o}", "id", id, "object", object, "created", (json_int_t)c->created, "model", c->p.model,
                          "choices", json_array());
    json_object_set_new(o, "service_tier", json_string("default"));
    json_object_set_new(o, "system_fingerprint", c->fingerprint[0] ? json_string(c->fingerprint) : json_null());
    if (!c->streaming) /* a whole answer, or a stream's first chunks */
        json_object_set_new(o, "seed", json_integer((json_int_t)c->p.sampling.seed));
    return o;
}

/* Takes what has been gathered. */
static json_t *take_text(struct bytes *b)
{
    json_t *text = b->failed ? NULL : text_json(b->data ? b->data : "", b->len);
    bytes_free(b);
    return text;
}

static json_t *take_logprobs(struct choice *ch)
{
    if (!ch->logprobs)
        return json_null();
    json_t *out = json_pack("{s:o, s:n}", "content", ch->logprobs, "refusal");
    ch->logprobs = json_array();
    return out;
}

static void put_finish(const struct chat *c, json_t *o, const struct choice *ch)
{
    json_object_set_new(o, "finish_reason", json_string(openai_finish_reason(ch->finish_reason)));
    json_object_set_new(o, "finish_detail", json_string(finish_detail(ch->finish_reason)));
    if (ch->stop_index >= 0 && (uint64_t)ch->stop_index < c->p.generate.stop_count)
        json_object_set_new(o, "stop_reason", json_stringn(c->p.stops[ch->stop_index].text, c->p.stops[ch->stop_index].text_len));
    else
        json_object_set_new(o, "stop_reason", json_null());
}

static json_t *usage_json(const struct chat *c, const infer_request_info *info)
{
    return openai_usage(info->prompt_tokens, info->cached_tokens, info->generated_tokens, c->reasoning_tokens);
}

/* Steals delta and logprobs. */
static void send_chunk(struct chat *c, uint32_t index, json_t *delta, json_t *logprobs, bool last)
{
    json_t *o = answer_frame(c, "chat.completion.chunk");
    json_t *choice = json_pack("{s:i, s:o, s:o, s:n}", "index", (int)index, "delta", delta, "logprobs", logprobs, "finish_reason");
    if (last)
        put_finish(c, choice, &c->choices[index]);
    json_array_append_new(json_object_get(o, "choices"), choice);
    if (c->usage)
        json_object_set_new(o, "usage", json_null());
    if (!call_stream_event(c->call, NULL, o))
        infer_request_cancel(c->request);
}

/* Sends what has been gathered of a choice, in a stream. */
static void flush(struct chat *c, uint32_t index)
{
    struct choice *ch = &c->choices[index];
    if (ch->reasoning.len)
        send_chunk(c, index, json_pack("{s:o}", "reasoning_content", take_text(&ch->reasoning)), json_null(), false);
    if (ch->content.len || json_array_size(ch->logprobs))
        send_chunk(c, index, json_pack("{s:o}", "content", take_text(&ch->content)), take_logprobs(ch), false);
}

/* The prompt has been computed: now it is known what the headers say. */
static void started(struct chat *c)
{
    c->started = true;
    openai_cache_header(c->call, c->request);
    if (!c->p.stream)
        return;
    call_stream_begin(c->call, "text/event-stream");
    for (uint32_t i = 0; i < c->p.n; i++)
        send_chunk(c, i, json_pack("{s:s, s:s, s:n}", "role", "assistant", "content", "", "refusal"), json_null(), false);
    c->streaming = true;
}

static void gather(void *user, enum reasoning_part part, const char *text, size_t len)
{
    struct choice *ch = user;
    bytes_put(part == PART_REASONING ? &ch->reasoning : &ch->content, text, len);
}

/* Tells tokens of the content; those of the reasoning and its tags are dropped. */
static void tell(struct chat *c, struct choice *ch, size_t n)
{
    if (ch->split.state == REASONING_BEGIN)
        return;
    for (; n; n--, ch->log.told++)
        if (ch->split.state == REASONING_ANSWER)
            json_array_append_new(ch->logprobs, token_json(c->server->tokenizer, &ch->log.items[ch->log.told]));
}

static void token(struct chat *c, const infer_request_event *e)
{
    struct choice *ch = &c->choices[e->choice];
    enum reasoning_state before = ch->split.state;
    reasoning_token(&ch->split, e->id, e->text, (size_t)e->text_len, gather, ch);
    bool opened = before == REASONING_BEGIN && ch->split.state != REASONING_BEGIN && ch->split.state != REASONING_ANSWER;
    if (before == REASONING_SKIP || before == REASONING_INSIDE || opened)
        c->reasoning_tokens++;
    if (c->logprobs) {
        token_log_add(&ch->log, e, true);
        tell(c, ch, token_log_show(&ch->log, (size_t)e->text_len));
    }
    if (c->streaming)
        flush(c, e->choice);
}

static void fail(struct chat *c, const infer_error *err)
{
    if (!c->failed && err)
        c->err = *err;
    c->failed = true;
    infer_request_cancel(c->request);
}

/* Its time ran out in the queue. */
static void fail_late(struct chat *c)
{
    c->err.code = INFER_ERROR_LIMIT;
    snprintf(c->err.text, sizeof c->err.text, "the request's time ran out before it could begin");
    c->failed = true;
}

static void done(struct chat *c, const infer_request_event *e)
{
    struct choice *ch = &c->choices[e->choice];
    ch->finish_reason = e->finish_reason;
    ch->stop_index = e->stop_index;
    reasoning_feed(&ch->split, e->text, (size_t)e->text_len, gather, ch);
    reasoning_end(&ch->split, gather, ch);
    if (c->logprobs) {
        (void)token_log_show(&ch->log, (size_t)e->text_len);
        tell(c, ch, token_log_done(&ch->log, e->finish_reason));
    }
    if (e->finish_reason == INFER_FINISH_ERROR || ch->log.failed || ch->content.failed || ch->reasoning.failed)
        fail(c, e->error);
    else if (e->finish_reason == INFER_FINISH_CANCELLED)
        fail(c, NULL);
    else if (!c->started)
        fail_late(c);
    else if (c->streaming) {
        flush(c, e->choice);
        send_chunk(c, e->choice, json_object(), json_null(), true);
    }
}

static json_t *choice_json(struct chat *c, uint32_t index)
{
    struct choice *ch = &c->choices[index];
    json_t *message = json_pack("{s:s, s:o, s:n, s:[]}", "role", "assistant", "content", take_text(&ch->content), "refusal", "annotations");
    if (ch->reasoning.len)
        json_object_set_new(message, "reasoning_content", take_text(&ch->reasoning));
    json_t *o = json_pack("{s:i, s:o, s:o}", "index", (int)index, "message", message, "logprobs", take_logprobs(ch));
    put_finish(c, o, ch);
    return o;
}

static void answer_whole(struct chat *c, const infer_request_info *info)
{
    json_t *o = answer_frame(c, "chat.completion");
    for (uint32_t i = 0; i < c->p.n; i++)
        json_array_append_new(json_object_get(o, "choices"), choice_json(c, i));
    json_object_set_new(o, "usage", usage_json(c, info));
    call_json(c->call, 200, o);
}

/* The last event: answers, after which c may be gone. */
static void end(struct chat *c)
{
    infer_request_info info;
    INFER_INIT(&info);
    (void)infer_request_get_info(c->request, &info, NULL);
    metrics_request(c->server, c->call, &info);
    int32_t status = c->err.code ? c->err.code : INFER_ERROR_CANCELLED;
    if (c->failed && !c->streaming) {
        call_status(c->call, status, &c->err, NULL);
        return;
    }
    if (!c->streaming) {
        answer_whole(c, &info);
        return;
    }
    if (c->failed)
        openai_stream_error(c->call, status, &c->err);
    else if (c->usage) {
        json_t *o = answer_frame(c, "chat.completion.chunk");
        json_object_set_new(o, "usage", usage_json(c, &info));
        call_stream_event(c->call, NULL, o);
    }
    if (!c->failed)
        call_stream_text(c->call, "[DONE]");
    call_stream_end(c->call);
}

static void on_event(void *user, infer_request *request, const infer_request_event *e)
{
    struct chat *c = user;
    (void)request;
    switch (e->kind) {
    case INFER_REQUEST_EVENT_STARTED: started(c); break;
    case INFER_REQUEST_EVENT_TOKEN: token(c, e); break;
    case INFER_REQUEST_EVENT_DONE: done(c, e); break;
    case INFER_REQUEST_EVENT_END: end(c); break;
    default: break;
    }
}

static void on_close(void *user)
{
    infer_request_cancel(((struct chat *)user)->request);
}

/* ---- The handler ------------------------------------------------------------------------------------------------------- */

static bool make_choices(struct chat *c, bool reasons)
{
    struct reasoning_tags tags = reasoning_of(c->server->tmpl, c->server->tokenizer);
    c->choices = calloc(c->p.n, sizeof *c->choices);
    for (uint32_t i = 0; c->choices && i < c->p.n; i++) {
        reasoning_begin(&c->choices[i].split, tags, reasons);
        token_log_begin(&c->choices[i].log, c->server->tokenizer);
        c->choices[i].stop_index = -1;
        c->choices[i].logprobs = c->logprobs ? json_array() : NULL;
    }
    return c->choices;
}

static void submit(struct chat *c, const struct chat_prompt *prompt)
{
    infer_request_options o;
    infer_session_options session;
    if (!make_choices(c, prompt->reasons)) {
        call_error(c->call, 500, NULL, NULL, NULL, "out of memory");
        return;
    }
    params_request(c->server, c->call, &c->p, &o, &session);
    o.ids = prompt->ids;
    o.id_count = prompt->n;
    o.callback = on_event;
    o.callback_user = c;
    infer_status st = infer_scheduler_submit(c->server->scheduler, &o, &c->request, &c->err);
    if (st != INFER_OK)
        call_status(c->call, st, &c->err, st == INFER_ERROR_CONTEXT_FULL ? "messages" : NULL);
    else
        call_on_close(c->call, on_close, c);
}

static void chat_completions(struct server *server, struct call *call)
{
    json_t *body = openai_generates(server, call) ? call_json_body(call) : NULL;
    struct chat_prompt prompt;
    if (!body)
        return;
    struct chat *c = calloc(1, sizeof *c);
    if (!c) {
        call_error(call, 500, NULL, NULL, NULL, "out of memory");
        return;
    }
    *c = (struct chat){.server = server, .call = call, .created = (int64_t)time(NULL)};
    INFER_INIT(&c->err);
    openai_fingerprint(server, c->fingerprint);
    call_ref(call); /* the scheduler may have answered before submit returns */
    call_own(call, c, chat_free);
    if (read_request(c, body) && chat_prompt_make(server, call, json_object_get(body, "messages"), c->kwargs, true, &prompt)) {
        submit(c, &prompt);
        chat_prompt_free(&prompt);
    }
    call_release(call);
}

const struct route openai_chat_routes[] = {
    {"POST", "/v1/chat/completions", API_OPENAI, ROUTE_GENERATES | ROUTE_PURE, chat_completions},
    {NULL, NULL, API_OPENAI, 0, NULL}};
