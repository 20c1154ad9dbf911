/* POST /v1/messages and /v1/messages/count_tokens. */
#include "anthropic.h"

#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "metrics.h"
#include "reasoning.h"

/* One message that is being written. Lives as long as its call. After the handler only the scheduler's thread uses it, except for what lock guards. */
struct answer {
    struct server *server;
    struct call *call; /* a reference until the answer has ended */
    struct params params;
    struct anthropic_prompt prompt;
    const json_t *stops; /* borrowed from the body */
    uint64_t max_tokens, budget;
    bool hide_thinking;
    char id[64];

    pthread_mutex_t lock;
    infer_request *requests[2]; /* the second goes on behind thinking that has used up its budget */
    bool gone;

    struct reasoning split;
    bool begun;            /* the stream */
    bool open;             /* a block is */
    bool pinged;
    enum reasoning_part part; /* of the open block */
    size_t n_blocks;
    struct bytes text;     /* of the open block, unless it has been streamed */
    json_t *content;       /* finished blocks; NULL in a stream */
    crypto_generichash_state hash; /* of the open block's thinking */

    uint64_t prompt_tokens, cached_tokens; /* of the first request */
    bool cache_off;
    uint64_t generated, thinking, maybe_thinking;
    int32_t *ids;          /* with a budget: what was generated */
    size_t n_ids, ids_capacity;
    bool cut, went_on;     /* the budget is used up; the second request has begun */
    bool no_memory;
    int32_t finish;
    int32_t stop_index;
    infer_error error;
};

static void answer_free(void *data)
{
    struct answer *a = data;
    infer_request_release(a->requests[0]);
    infer_request_release(a->requests[1]);
    params_free(&a->params);
    chat_prompt_free(&a->prompt.chat);
    bytes_free(&a->text);
    json_decref(a->content);
    free(a->ids);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

static void on_close(void *user)
{
    struct answer *a = user;
    pthread_mutex_lock(&a->lock);
    a->gone = true;
    for (int i = 0; i < 2; i++)
        if (a->requests[i])
            infer_request_cancel(a->requests[i]);
    pthread_mutex_unlock(&a->lock);
}

static void keep_request(struct answer *a, int which, infer_request *request)
{
    pthread_mutex_lock(&a->lock);
    a->requests[which] = request;
    if (a->gone)
        infer_request_cancel(request);
    pthread_mutex_unlock(&a->lock);
}

/* ---- Usage ---- */

#define CACHE_LEAST 64 /* the library keeps nothing new of a prompt that goes on for less than this behind what it had (docs/state.md) */

/* What lay before a breakpoint, was computed for this request, and is in the cache now. */
static uint64_t created(const struct answer *a, uint64_t before)
{
    if (before > a->prompt_tokens)
        before = a->prompt_tokens;
    if (a->cache_off || a->prompt_tokens - a->cached_tokens < CACHE_LEAST || before <= a->cached_tokens)
        return 0;
    return before - a->cached_tokens;
}

/* whole: as a message has it; else as message_delta. */
static json_t *usage_json(const struct answer *a, bool whole)
{
    json_int_t all = (json_int_t)created(a, a->prompt.last), hour = (json_int_t)created(a, a->prompt.last_hour);
    json_t *o = json_pack("{s:I, s:I, s:I}", "input_tokens", (json_int_t)(a->prompt_tokens - a->cached_tokens) - all,
                          "cache_creation_input_tokens", all, "cache_read_input_tokens", (json_int_t)a->cached_tokens);
    if (whole)
        (void)json_object_set_new(o, "cache_creation", json_pack("{s:I, s:I}", "ephemeral_5m_input_tokens", all - hour,
                                                                 "ephemeral_1h_input_tokens", hour));
    (void)json_object_set_new(o, "output_tokens", json_integer((json_int_t)a->generated));
    (void)json_object_set_new(o, "output_tokens_details", json_pack("{s:I}", "thinking_tokens", (json_int_t)a->thinking));
    (void)json_object_set_new(o, "server_tool_use", json_null());
    if (whole) {
        (void)json_object_set_new(o, "service_tier", json_string("standard"));
        (void)json_object_set_new(o, "inference_geo", json_null());
        (void)json_object_set_new(o, "speed", json_string("standard"));
    }
    return o;
}

/* time: a turn that may be continued by sending it back. What runs in circles is cut off as by max_tokens. */
static const char *stop_reason(int32_t finish)
{
    switch (finish) {
    case INFER_FINISH_STOP: return "end_turn";
    case INFER_FINISH_STOP_STRING: return "stop_sequence";
    case INFER_FINISH_CONTEXT: return "model_context_window_exceeded";
    case INFER_FINISH_TIME: return "pause_turn";
    default: return "max_tokens";
    }
}

static json_t *stop_json(const struct answer *a)
{
    const json_t *stop = a->finish == INFER_FINISH_STOP_STRING && a->stop_index >= 0
                             ? json_array_get(a->stops, (size_t)a->stop_index) : NULL;
    return stop ? json_incref((json_t *)stop) : json_null();
}

/* content's reference is stolen. finished: with a reason to stop. */
static json_t *message_json(const struct answer *a, json_t *content, bool finished)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:n, s:n, s:n, s:o}", "id", a->id, "type", "message", "role", "assistant",
                     "model", a->params.model, "content", content, "stop_reason",
                     finished ? json_string(stop_reason(a->finish)) : json_null(), "stop_sequence", finished ? stop_json(a) : json_null(),
                     "stop_details", "container", "diagnostics", "usage", usage_json(a, true));
}

/* ---- Blocks ---- */

static void event(struct answer *a, const char *name, json_t *body)
{
    if (!body)
        a->no_memory = true;
    else
        (void)call_stream_event(a->call, name, body);
}

static json_t *signature(struct answer *a)
{
    unsigned char sum[crypto_generichash_BYTES];
    char text[sodium_base64_ENCODED_LEN(sizeof sum, sodium_base64_VARIANT_ORIGINAL)];
    crypto_generichash_final(&a->hash, sum, sizeof sum);
    sodium_bin2base64(text, sizeof text, sum, sizeof sum, sodium_base64_VARIANT_ORIGINAL);
    return json_string(text);
}

static void open_block(struct answer *a, enum reasoning_part part)
{
    bool thinks = part == PART_REASONING;
    a->open = true;
    a->part = part;
    if (thinks)
        crypto_generichash_init(&a->hash, NULL, 0, crypto_generichash_BYTES);
    if (a->content)
        return;
    event(a, "content_block_start",
          json_pack("{s:s, s:I, s:o}", "type", "content_block_start", "index", (json_int_t)a->n_blocks, "content_block",
                    thinks ? json_pack("{s:s, s:s, s:s}", "type", "thinking", "thinking", "", "signature", "")
                           : json_pack("{s:s, s:s, s:n}", "type", "text", "text", "", "citations")));
    if (!a->pinged)
        event(a, "ping", json_pack("{s:s}", "type", "ping"));
    a->pinged = true;
}

static void delta(struct answer *a, const char *type, const char *key, json_t *text)
{
    event(a, "content_block_delta", json_pack("{s:s, s:I, s:{s:s, s:o}}", "type", "content_block_delta", "index", (json_int_t)a->n_blocks,
                                              "delta", "type", type, key, text));
}

static void close_block(struct answer *a)
{
    bool thinks = a->part == PART_REASONING;
    if (!a->open)
        return;
    if (!a->content) {
        if (thinks)
            delta(a, "signature_delta", "signature", signature(a));
        event(a, "content_block_stop", json_pack("{s:s, s:I}", "type", "content_block_stop", "index", (json_int_t)a->n_blocks));
    } else {
        json_t *text = a->text.failed ? NULL : text_json(a->text.data ? a->text.data : "", a->text.len);
        json_t *block = thinks ? json_pack("{s:s, s:o, s:o}", "type", "thinking", "thinking", text, "signature", signature(a))
                               : json_pack("{s:s, s:o, s:n}", "type", "text", "text", text, "citations");
        if (json_array_append_new(a->content, block) != 0)
            a->no_memory = true;
        bytes_free(&a->text);
    }
    a->open = false;
    a->n_blocks++;
}

static void on_piece(void *user, enum reasoning_part part, const char *text, size_t len)
{
    struct answer *a = user;
    bool thinks = part == PART_REASONING;
    if (a->open && a->part != part)
        close_block(a);
    if (!a->open)
        open_block(a, part);
    if (thinks)
        crypto_generichash_update(&a->hash, (const unsigned char *)text, len);
    if (thinks && a->hide_thinking)
        return;
    if (a->content)
        bytes_put(&a->text, text, len);
    else if (thinks)
        delta(a, "thinking_delta", "thinking", text_json(text, len));
    else
        delta(a, "text_delta", "text", text_json(text, len));
}

/* ---- Events of the scheduler ---- */

static void started(struct answer *a, infer_request *request)
{
    char reason[128];
    infer_request_info info;
    INFER_INIT(&info);
    if (infer_request_get_info(request, &info, NULL) == INFER_OK) {
        a->prompt_tokens = info.prompt_tokens;
        a->cached_tokens = info.cached_tokens;
        a->cache_off = info.cache_reason == INFER_CACHE_REASON_OFF || info.cache_reason == INFER_CACHE_REASON_FAILED;
        cache_reason_text(&info, reason, sizeof reason);
        call_header_add(a->call, "x-cache-reason", reason);
    }
    if (a->content)
        return;
    call_stream_begin(a->call, "text/event-stream");
    a->begun = true;
    event(a, "message_start", json_pack("{s:s, s:o}", "type", "message_start", "message", message_json(a, json_array(), false)));
}

static bool inside_thinking(const struct answer *a)
{
    return a->split.state == REASONING_SKIP || a->split.state == REASONING_INSIDE;
}

/* The tokens of tags count too. Whether those before the first character of an answer are thinking shows later. */
static void count_thinking(struct answer *a, bool was_inside)
{
    if (was_inside || inside_thinking(a)) {
        a->thinking += 1 + a->maybe_thinking;
        a->maybe_thinking = 0;
    } else {
        a->maybe_thinking = a->split.state == REASONING_BEGIN ? a->maybe_thinking + 1 : 0;
    }
}

static void keep_id(struct answer *a, int32_t id)
{
    if (a->n_ids == a->ids_capacity) {
        size_t capacity = a->ids_capacity * 2 + 256;
        int32_t *ids = realloc(a->ids, capacity * sizeof *ids);
        if (!ids) {
            a->budget = 0; /* it cannot be kept */
            return;
        }
        a->ids = ids;
        a->ids_capacity = capacity;
    }
    a->ids[a->n_ids++] = id;
}

static void token(struct answer *a, infer_request *request, const infer_request_event *e)
{
    bool was_inside = inside_thinking(a);
    reasoning_token(&a->split, e->id, e->text, (size_t)e->text_len, on_piece, a);
    a->generated++;
    count_thinking(a, was_inside);
    if (!a->budget || a->cut)
        return;
    keep_id(a, e->id);
    if (a->thinking >= a->budget && a->n_ids < a->max_tokens && inside_thinking(a)) {
        a->cut = true;
        infer_request_cancel(request);
    }
}

static void finish_stream(struct answer *a)
{
    if (a->no_memory || a->finish == INFER_FINISH_ERROR || a->finish == INFER_FINISH_CANCELLED) {
        const char *text = a->no_memory ? "out of memory" : a->finish == INFER_FINISH_ERROR ? a->error.text : "the server has ended the request";
        bool overloaded = a->finish == INFER_FINISH_CANCELLED || (a->finish == INFER_FINISH_ERROR && a->error.code == INFER_ERROR_LIMIT);
        json_t *body = json_pack("{s:s, s:{s:s, s:s}, s:s}", "type", "error", "error", "type", overloaded ? "overloaded_error" : "api_error",
                                 "message", text, "request_id", call_id(a->call));
        if (body)
            (void)call_stream_event(a->call, "error", body);
    } else {
        if (!a->pinged)
            event(a, "ping", json_pack("{s:s}", "type", "ping"));
        event(a, "message_delta",
              json_pack("{s:s, s:{s:s, s:o, s:n, s:n}, s:o}", "type", "message_delta", "delta", "stop_reason", stop_reason(a->finish),
                        "stop_sequence", stop_json(a), "stop_details", "container", "usage", usage_json(a, false)));
        event(a, "message_stop", json_pack("{s:s}", "type", "message_stop"));
    }
    call_stream_end(a->call);
}

static void finish_whole(struct answer *a)
{
    if (a->finish == INFER_FINISH_ERROR) {
        call_status(a->call, a->error.code, &a->error, NULL);
        return;
    }
    if (a->finish == INFER_FINISH_CANCELLED) {
        call_error(a->call, 503, "overloaded_error", NULL, NULL, "the server has ended the request");
        return;
    }
    json_t *body = a->no_memory || !a->content ? NULL : message_json(a, json_incref(a->content), true);
    if (body)
        call_json(a->call, 200, body);
    else
        call_error(a->call, 500, "api_error", NULL, NULL, "out of memory");
}

static bool submit(struct answer *a, int which, const int32_t *ids, uint64_t n, uint64_t max_tokens, infer_error *err);

/* Ends thinking that has used up its budget: the model goes on as if it had closed the block itself. false: it could not. */
static bool go_on(struct answer *a)
{
    int32_t close[64];
    uint64_t n_close = 0, n = a->prompt.chat.n;
    char text[64];
    (void)snprintf(text, sizeof text, "\n%s\n\n", a->split.tags.close);
    INFER_INIT(&a->error);
    if (infer_tokenize(a->server->tokenizer, text, INFER_ZSTR, INFER_TOKENIZE_PARSE_SPECIAL, close, 64, &n_close, &a->error) != INFER_OK)
        return false;
    int32_t *ids = malloc((size_t)(n + a->n_ids + n_close) * sizeof *ids);
    if (!ids) {
        a->no_memory = true;
        return false;
    }
    memcpy(ids, a->prompt.chat.ids, (size_t)n * sizeof *ids);
    memcpy(ids + n, a->ids, a->n_ids * sizeof *ids);
    memcpy(ids + n + a->n_ids, close, (size_t)n_close * sizeof *ids);
    reasoning_feed(&a->split, text, strlen(text), on_piece, a);
    bool ok = submit(a, 1, ids, n + a->n_ids + n_close, a->max_tokens - a->n_ids, &a->error);
    free(ids);
    return ok;
}

static void ended(struct answer *a, infer_request *request)
{
    infer_request_info info;
    INFER_INIT(&info);
    if (infer_request_get_info(request, &info, NULL) == INFER_OK)
        metrics_request(a->server, a->call, &info);
    if (a->cut && !a->went_on && a->finish == INFER_FINISH_CANCELLED && !call_gone(a->call)) {
        a->went_on = true;
        if (go_on(a))
            return;
        a->finish = INFER_FINISH_ERROR;
    }
    reasoning_end(&a->split, on_piece, a);
    close_block(a);
    if (a->begun)
        finish_stream(a);
    else
        finish_whole(a);
    call_release(a->call);
}

static void on_event(void *user, infer_request *request, const infer_request_event *e)
{
    struct answer *a = user;
    switch (e->kind) {
    case INFER_REQUEST_EVENT_STARTED:
        if (!a->went_on)
            started(a, request);
        break;
    case INFER_REQUEST_EVENT_TOKEN: token(a, request, e); break;
    case INFER_REQUEST_EVENT_DONE:
        reasoning_feed(&a->split, e->text, (size_t)e->text_len, on_piece, a);
        a->finish = e->finish_reason;
        a->stop_index = e->stop_index;
        if (e->error)
            a->error = *e->error;
        break;
    case INFER_REQUEST_EVENT_END: ended(a, request); break;
    default: break;
    }
}

/* ---- Requests ---- */

static bool submit(struct answer *a, int which, const int32_t *ids, uint64_t n, uint64_t max_tokens, infer_error *err)
{
    infer_request_options o;
    infer_session_options session;
    infer_request *request;
    infer_generate_options generate = a->params.generate;
    params_request(a->server, a->call, &a->params, &o, &session);
    generate.max_tokens = max_tokens;
    o.ids = ids;
    o.id_count = n;
    o.generate = &generate;
    o.flags |= max_tokens == 0 ? INFER_REQUEST_PROMPT_ONLY : 0U;
    o.callback = on_event;
    o.callback_user = a;
    if (infer_scheduler_submit(a->server->scheduler, &o, &request, err) != INFER_OK)
        return false;
    keep_request(a, which, request);
    return true;
}

static struct answer *answer_create(struct server *server, struct call *call)
{
    struct answer *a = calloc(1, sizeof *a);
    if (!a || pthread_mutex_init(&a->lock, NULL) != 0) {
        free(a);
        call_error(call, 500, "api_error", NULL, NULL, "out of memory");
        return NULL;
    }
    a->server = server;
    a->call = call;
    a->stop_index = -1;
    (void)snprintf(a->id, sizeof a->id, "msg_%s", strncmp(call_id(call), "req_", 4) == 0 ? call_id(call) + 4 : call_id(call));
    return a;
}

/* Reads body into a: all but what was there before is undone when it fails. */
static bool answer_read(struct answer *a, const json_t *body, bool counting, bool *prefill)
{
    struct anthropic_request r;
    if (!anthropic_read(a->server, a->call, body, counting, &r))
        return false;
    bool ok = params_read(a->server, a->call, body, &a->params);
    if (ok && (!params_stops(a->call, body, "stop_sequences", &a->params) || !anthropic_prompt_make(a->server, a->call, &r, &a->prompt))) {
        params_free(&a->params);
        memset(&a->params, 0, sizeof a->params);
        ok = false;
    }
    a->max_tokens = r.max_tokens;
    a->budget = r.thinking_budget;
    a->hide_thinking = r.hide_thinking;
    *prefill = r.prefill;
    anthropic_free(&r);
    return ok;
}

static void messages(struct server *server, struct call *call)
{
    json_t *body = call_json_body(call);
    struct answer *a = body ? answer_create(server, call) : NULL;
    bool prefill;
    infer_error err;
    INFER_INIT(&err);
    if (!a)
        return;
    call_own(call, a, answer_free);
    if (!answer_read(a, body, false, &prefill))
        return;
    a->stops = json_object_get(body, "stop_sequences");
    if (!a->params.stream && !(a->content = json_array())) {
        call_error(call, 500, "api_error", NULL, NULL, "out of memory");
        return;
    }
    struct reasoning_tags tags = reasoning_of(server->tmpl, server->tokenizer);
    if (prefill)
        tags.open = NULL; /* the answer has begun already */
    reasoning_begin(&a->split, tags, a->prompt.chat.reasons);
    call_ref(call); /* until the END event */
    call_ref(call); /* until here */
    if (submit(a, 0, a->prompt.chat.ids, a->prompt.chat.n, a->max_tokens, &err)) {
        call_on_close(call, on_close, a);
    } else {
        call_status(call, err.code, &err, NULL);
        call_release(call);
    }
    call_release(call);
}

static void count_tokens(struct server *server, struct call *call)
{
    json_t *body = call_json_body(call);
    struct answer *a = body ? answer_create(server, call) : NULL;
    bool prefill;
    if (!a)
        return;
    call_own(call, a, answer_free);
    if (!answer_read(a, body, true, &prefill))
        return;
    uint64_t n = a->prompt.chat.n;
    for (uint32_t i = 0; i < a->params.n_prompts; i++) {
        infer_adapter_info info;
        INFER_INIT(&info);
        if (infer_adapter_get_info(a->params.prompts[i], &info, NULL) == INFER_OK)
            n += info.rows;
    }
    call_json(call, 200, json_pack("{s:I}", "input_tokens", (json_int_t)n));
}

const struct route anthropic_routes[] = {
    {"POST", "/v1/messages", API_ANTHROPIC, ROUTE_GENERATES | ROUTE_PURE, messages},
    {"POST", "/v1/messages/count_tokens", API_ANTHROPIC, ROUTE_PURE, count_tokens},
    {NULL, NULL, API_ANTHROPIC, 0, NULL},
};
