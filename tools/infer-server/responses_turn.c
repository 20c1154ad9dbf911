#include "responses_turn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "metrics.h"
#include "responses_ws.h"

#define DUMP (JSON_COMPACT | JSON_REAL_PRECISION(9))
#define LEAST_LOGPROB -9999.0 /* JSON has no infinity */
#define BACKLOG 8             /* checkpoints that wait for the disk hold KV memory: with more waiting, further ones are not kept */

/* ---- Lifetime ---------------------------------------------------------------------------------------------------- */

struct turn *turn_create(struct response_list *list, json_t *body)
{
    struct turn *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    atomic_init(&t->refs, 1);
    (void)pthread_mutex_init(&t->lock, NULL);
    t->list = list;
    t->held = -1;
    t->body = json_incref(body);
    t->pending = json_array();
    t->shown = json_array();
    INFER_INIT(&t->error);
    INFER_INIT(&t->info);
    if (!t->pending || !t->shown || !response_id_make(t->id)) {
        turn_release(t);
        return NULL;
    }
    memcpy(t->ids.digits, t->id + 5, sizeof t->ids.digits);
    return t;
}

struct turn *turn_ref(struct turn *t)
{
    atomic_fetch_add(&t->refs, 1);
    return t;
}

static void followers_release(struct follower *f)
{
    while (f) {
        struct follower *next = f->next;
        call_release(f->call);
        free(f);
        f = next;
    }
}

void turn_release(struct turn *t)
{
    if (!t || atomic_fetch_sub(&t->refs, 1) != 1)
        return;
    json_t *const objects[] = {t->body, t->history, t->input, t->setting, t->response, t->item, t->pending, t->shown};
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++)
        json_decref(objects[i]);
    if (t->has_params)
        params_free(&t->params);
    chat_prompt_free(&t->prompt);
    if (t->held >= 0)
        (void)close(t->held);
    infer_checkpoint_release(t->state);
    infer_request_release(t->request);
    if (t->call)
        call_release(t->call);
    connection_release(t->ws);
    free(t->lane);
    followers_release(t->followers);
    followers_release(t->waiters);
    for (size_t i = 0; i < t->n_events; i++)
        free(t->events[i]);
    free(t->events);
    bytes_free(&t->text);
    (void)pthread_mutex_destroy(&t->lock);
    free(t);
}

static void own_release(void *t)
{
    turn_release(t);
}

/* ---- Who runs ---------------------------------------------------------------------------------------------------- */

static void enlist(struct turn *t)
{
    struct response_list *list = t->list;
    (void)pthread_mutex_lock(&list->lock);
    t->next = list->turns;
    t->at = &list->turns;
    if (t->next)
        t->next->at = &t->next;
    list->turns = t;
    (void)pthread_mutex_unlock(&list->lock);
}

/* Background turns stay to be listened to for a while. */
static void delist(struct turn *t, bool keep)
{
    struct response_list *list = t->list;
    struct turn *old = NULL;
    (void)pthread_mutex_lock(&list->lock);
    if (t->at) {
        *t->at = t->next;
        if (t->next)
            t->next->at = t->at;
        t->at = NULL;
    }
    if (keep) {
        struct turn **place = &list->kept[list->next_kept++ % TURNS_KEPT];
        old = *place;
        *place = turn_ref(t);
    }
    (void)pthread_mutex_unlock(&list->lock);
    turn_release(old);
}

struct turn *turn_find(struct response_list *list, const char *id, const char *tenant, bool kept)
{
    (void)pthread_mutex_lock(&list->lock);
    struct turn *t = list->turns;
    while (t && (t->deleted || strcmp(t->id, id) != 0 || strcmp(t->tenant, tenant) != 0))
        t = t->next;
    for (unsigned i = 0; kept && !t && i < TURNS_KEPT; i++) {
        struct turn *k = list->kept[i];
        if (k && !k->deleted && strcmp(k->id, id) == 0 && strcmp(k->tenant, tenant) == 0)
            t = k;
    }
    if (t)
        (void)turn_ref(t);
    (void)pthread_mutex_unlock(&list->lock);
    return t;
}

json_t *turn_snapshot(struct turn *t)
{
    (void)pthread_mutex_lock(&t->lock);
    json_t *copy = json_deep_copy(t->response);
    (void)pthread_mutex_unlock(&t->lock);
    return copy;
}

void turn_cancel(struct turn *t)
{
    (void)pthread_mutex_lock(&t->lock);
    t->cancelled = true;
    infer_request *request = t->request ? infer_request_ref(t->request) : NULL;
    (void)pthread_mutex_unlock(&t->lock);
    if (request)
        infer_request_cancel(request);
    infer_request_release(request);
}

void turn_delete(struct turn *t)
{
    t->deleted = true;
    turn_cancel(t);
}

static void client_gone(void *user)
{
    turn_cancel(user);
}

/* ---- Events ------------------------------------------------------------------------------------------------------ */

static bool listens(const struct turn *t)
{
    return t->ws || (t->stream && t->answers) || t->keeps_events || t->followers;
}

static json_t *event_new(struct turn *t, const char *type)
{
    return json_pack("{s:s, s:I}", "type", type, "sequence_number", (json_int_t)t->sequence++);
}

static void keep_event(struct turn *t, const char *text)
{
    if (t->n_events == t->room_events) {
        size_t room = t->room_events ? 2 * t->room_events : 64;
        char **more = realloc(t->events, room * sizeof *more);
        t->keeps_events = more != NULL;
        if (!more)
            return;
        t->events = more;
        t->room_events = room;
    }
    char *copy = strdup(text);
    t->keeps_events = copy != NULL; /* what has a hole cannot be given again */
    if (copy)
        t->events[t->n_events++] = copy;
}

/* Steals event. */
static void send_event(struct turn *t, json_t *event)
{
    if (t->ws) {
        connection_send(t->ws, t->lane, event);
        return;
    }
    char *body = json_dumps(event, DUMP);
    struct bytes text = {0};
    if (body)
        bytes_printf(&text, "event: %s\ndata: %s\n\n", json_string_value(json_object_get(event, "type")), body);
    free(body);
    json_decref(event);
    if (!body || text.failed) {
        bytes_free(&text);
        return;
    }
    if (t->stream && t->answers)
        (void)call_stream_write(t->call, text.data, text.len);
    for (const struct follower *f = t->followers; f; f = f->next)
        (void)call_stream_write(f->call, text.data, text.len);
    if (t->keeps_events)
        keep_event(t, text.data);
    bytes_free(&text);
}

static void send_response(struct turn *t, const char *type)
{
    if (!listens(t))
        return;
    json_t *event = event_new(t, type);
    (void)json_object_set(event, "response", t->response);
    send_event(t, event);
}

/* response.created and what follows at once. By whoever comes first: the thread that submitted, or the first callback. */
static void begin(struct turn *t)
{
    if (t->begun)
        return;
    t->begun = true;
    if (t->stream && t->answers)
        call_stream_begin(t->call, "text/event-stream");
    send_response(t, "response.created");
    send_response(t, t->background ? "response.queued" : "response.in_progress");
}

static void progress(struct turn *t)
{
    const char *status = json_string_value(json_object_get(t->response, "status"));
    if (status && strcmp(status, "queued") == 0) {
        (void)json_object_set_new(t->response, "status", json_string("in_progress"));
        send_response(t, "response.in_progress");
    }
}

/* ---- Items ------------------------------------------------------------------------------------------------------- */

static json_t *item_event(struct turn *t, const char *type, bool in_content)
{
    json_t *event = event_new(t, type);
    (void)json_object_set_new(event, "output_index", json_integer((json_int_t)json_array_size(json_object_get(t->response, "output"))));
    if (in_content) {
        (void)json_object_set(event, "item_id", json_object_get(t->item, "id"));
        (void)json_object_set_new(event, "content_index", json_integer(0));
    }
    return event;
}

/* Steals value. */
static void send_item_event(struct turn *t, const char *type, bool in_content, const char *key, json_t *value)
{
    if (!listens(t)) {
        json_decref(value);
        return;
    }
    json_t *event = item_event(t, type, in_content);
    (void)json_object_set_new(event, key, value);
    send_event(t, event);
}

static json_t *part_new(struct turn *t, json_t *text)
{
    if (t->part == PART_REASONING)
        return json_pack("{s:s, s:o}", "type", "reasoning_text", "text", text);
    return json_pack("{s:s, s:[], s:O, s:o}", "type", "output_text", "annotations", "logprobs", t->shown, "text", text);
}

static void item_open(struct turn *t, enum reasoning_part part)
{
    char id[RESPONSE_ID + 8];
    bool reasons = part == PART_REASONING;
    t->part = part;
    t->text.len = 0;
    item_id(&t->ids, reasons ? "rs_" : "msg_", id);
    t->item = reasons ? json_pack("{s:s, s:s, s:[], s:[], s:s}", "id", id, "type", "reasoning", "summary", "content", "status", "in_progress")
                      : json_pack("{s:s, s:s, s:s, s:[], s:s}", "id", id, "type", "message", "role", "assistant", "content", "status", "in_progress");
    send_item_event(t, "response.output_item.added", false, "item", json_incref(t->item));
    send_item_event(t, "response.content_part.added", true, "part", part_new(t, json_string("")));
}

static void item_close(struct turn *t, bool complete)
{
    if (!t->item)
        return;
    bool reasons = t->part == PART_REASONING;
    json_t *text = text_json(t->text.data ? t->text.data : "", t->text.len), *part = part_new(t, text);
    if (listens(t)) {
        json_t *event = item_event(t, reasons ? "response.reasoning_text.done" : "response.output_text.done", true);
        (void)json_object_set(event, "text", text);
        if (!reasons)
            (void)json_object_set(event, "logprobs", t->shown);
        send_event(t, event);
        send_item_event(t, "response.content_part.done", true, "part", json_incref(part));
    }
    (void)json_array_append_new(json_object_get(t->item, "content"), part);
    (void)json_object_set_new(t->item, "status", json_string(complete ? "completed" : "incomplete"));
    send_item_event(t, "response.output_item.done", false, "item", json_incref(t->item));
    (void)json_array_append_new(json_object_get(t->response, "output"), t->item);
    t->item = NULL;
}

static void on_text(void *user, enum reasoning_part part, const char *text, size_t len)
{
    struct turn *t = user;
    if (t->item && t->part != part)
        item_close(t, true);
    if (!t->item)
        item_open(t, part);
    bool reasons = part == PART_REASONING;
    bytes_put(&t->text, text, len);
    json_t *logprobs = t->pending;
    t->pending = json_array();
    if (!reasons)
        (void)json_array_extend(t->shown, logprobs);
    if (listens(t)) {
        json_t *event = item_event(t, reasons ? "response.reasoning_text.delta" : "response.output_text.delta", true);
        (void)json_object_set_new(event, "delta", text_json(text, len));
        if (!reasons)
            (void)json_object_set(event, "logprobs", logprobs);
        send_event(t, event);
    }
    json_decref(logprobs);
    if (reasons)
        t->n_reasoning = t->n_tokens;
}

/* {token, logprob, bytes} */
static json_t *token_json(const struct turn *t, int32_t id, float logprob)
{
    infer_token_info info;
    INFER_INIT(&info);
    if (infer_tokenizer_token(t->list->server->tokenizer, id, &info, NULL) != INFER_OK || !info.bytes) {
        info.bytes = "";
        info.bytes_len = 0;
    }
    json_t *bytes = json_array();
    for (uint64_t i = 0; i < info.bytes_len; i++)
        (void)json_array_append_new(bytes, json_integer((unsigned char)info.bytes[i]));
    double value = (double)logprob;
    return json_pack("{s:o, s:f, s:o}", "token", text_json(info.bytes, info.bytes_len), "logprob", value >= LEAST_LOGPROB ? value : LEAST_LOGPROB, "bytes",
                     bytes);
}

static void pend_logprob(struct turn *t, const infer_request_event *e)
{
    json_t *entry = token_json(t, e->id, e->logprob), *top = json_array();
    for (uint32_t i = 0; i < e->top_count; i++)
        (void)json_array_append_new(top, token_json(t, e->top[i].id, e->top[i].logprob));
    (void)json_object_set_new(entry, "top_logprobs", top);
    (void)json_array_append_new(t->pending, entry);
}

/* ---- The end ----------------------------------------------------------------------------------------------------- */

static bool complete(const struct turn *t)
{
    return t->finish == INFER_FINISH_STOP || t->finish == INFER_FINISH_STOP_STRING || (t->no_output && t->finish == INFER_FINISH_LENGTH);
}

/* Why it is incomplete: OpenAI's word, or one of ours for what only our parameters can do. */
static const char *incomplete_reason(int32_t finish)
{
    switch (finish) {
    case INFER_FINISH_REPETITION: return "repetition";
    case INFER_FINISH_TIME: return "timeout";
    default: return "max_output_tokens";
    }
}

static json_t *usage_json(const struct turn *t)
{
    const infer_request_info *i = &t->info;
    return json_pack("{s:I, s:{s:I, s:I}, s:I, s:{s:I}, s:I}", "input_tokens", (json_int_t)i->prompt_tokens, "input_tokens_details", "cached_tokens",
                     (json_int_t)i->cached_tokens, "cache_write_tokens", (json_int_t)(i->prompt_tokens - i->cached_tokens), "output_tokens",
                     (json_int_t)i->generated_tokens, "output_tokens_details", "reasoning_tokens", (json_int_t)t->n_reasoning, "total_tokens",
                     (json_int_t)(i->prompt_tokens + i->generated_tokens));
}

static void set_status(struct turn *t)
{
    const char *status = complete(t) ? "completed" : "incomplete";
    if (t->finish == INFER_FINISH_CANCELLED && t->stopped) {
        t->finish = INFER_FINISH_ERROR;
        t->error.code = INFER_ERROR_CANCELLED;
        (void)snprintf(t->error.text, sizeof t->error.text, "the server was stopped");
    }
    if (t->finish == INFER_FINISH_ERROR)
        status = "failed";
    if (t->finish == INFER_FINISH_CANCELLED)
        status = "cancelled";
    (void)json_object_set_new(t->response, "status", json_string(status));
    (void)json_object_set_new(t->response, "usage", usage_json(t));
    if (complete(t))
        (void)json_object_set_new(t->response, "completed_at", json_integer((json_int_t)time(NULL)));
    else if (t->finish == INFER_FINISH_ERROR)
        (void)json_object_set_new(t->response, "error", json_pack("{s:s, s:o}", "code", "server_error", "message",
                                                                  text_json(t->error.text, strlen(t->error.text))));
    else if (t->finish != INFER_FINISH_CANCELLED)
        (void)json_object_set_new(t->response, "incomplete_details", json_pack("{s:s}", "reason", incomplete_reason(t->finish)));
}

json_t *turn_doc(struct turn *t)
{
    return json_pack("{s:s, s:O, s:O, s:O, s:O}", "tenant", t->tenant, "response", t->response, "history", t->history, "input", t->input, "setting",
                     t->setting);
}

static void answer_whole(struct turn *t, struct call *call)
{
    char reason[256];
    if (t->finish == INFER_FINISH_ERROR && call == t->call) {
        call_status(call, t->error.code, &t->error, NULL);
        return;
    }
    cache_reason_text(&t->info, reason, sizeof reason);
    call_header_add(call, "x-cache-reason", reason);
    call_json(call, 200, json_incref(t->response));
}

bool turn_detach(struct turn *t)
{
    (void)pthread_mutex_lock(&t->lock);
    bool answers = t->answers;
    t->answers = false;
    (void)pthread_mutex_unlock(&t->lock);
    return answers;
}

/* The last events, and all who wait. */
static void tell(struct turn *t)
{
    (void)pthread_mutex_lock(&t->lock);
    const char *status = json_string_value(json_object_get(t->response, "status"));
    send_response(t, strcmp(status, "completed") == 0 ? "response.completed" : strcmp(status, "failed") == 0 ? "response.failed" : "response.incomplete");
    t->ended = true;
    struct call *call = t->call;
    struct follower *followers = t->followers, *waiters = t->waiters;
    t->followers = t->waiters = NULL;
    if (t->answers && t->stream)
        call_stream_end(call);
    else if (t->answers)
        answer_whole(t, call);
    t->answers = false;
    t->call = NULL; /* which may own this turn */
    for (const struct follower *f = followers; f; f = f->next)
        call_stream_end(f->call);
    for (const struct follower *f = waiters; f; f = f->next)
        answer_whole(t, f->call);
    (void)pthread_mutex_unlock(&t->lock);
    followers_release(followers);
    followers_release(waiters);
    call_release(call);
}

static struct turn *turn_of(struct task *task, size_t offset)
{
    return (struct turn *)(void *)((char *)task - offset);
}

static void save_state(struct task *task)
{
    struct turn *t = turn_of(task, offsetof(struct turn, state_task));
    store_put_state(t->list->store, t->id);
    turn_release(t);
}

/* On the store's thread: first the disk, then the client, so that what a client has been told of is kept. */
static void finish(struct task *task)
{
    struct turn *t = turn_of(task, offsetof(struct turn, task));
    struct store *store = t->list->store;
    (void)pthread_mutex_lock(&t->lock);
    set_status(t);
    bool keep = t->store && !t->deleted && (!t->background || store_has(store, t->id)); /* another process may have deleted it */
    bool has_state = t->state != NULL;
    json_t *doc = keep || t->ws ? turn_doc(t) : NULL;
    (void)pthread_mutex_unlock(&t->lock);
    if (keep && doc)
        store_put(store, t->id, doc, t->state);
    else if (doc && t->ws && !t->store)
        connection_keep(t->ws, t->id, doc, t->state);
    json_decref(doc);
    delist(t, t->keeps_events);
    if (t->held >= 0)
        (void)close(t->held);
    t->held = -1;
    if (t->deleted)
        (void)store_remove(store, t->id);
    tell(t);
    chat_prompt_free(&t->prompt); /* one that is kept for its events needs neither these nor adapters */
    memset(&t->prompt, 0, sizeof t->prompt);
    params_free(&t->params);
    t->has_params = false;
    infer_checkpoint_release(t->state);
    t->state = NULL;
    if (keep && has_state) {
        t->state_task.run = save_state;
        (void)turn_ref(t);
        store_queue(store, WORK_STATES, &t->state_task);
    }
    if (t->ws)
        connection_ended(t->ws, t);
    turn_release(t);
}

/* A damaged checkpoint is no reason to fail: the prompt can be computed without it. */
static bool again_without_state(struct turn *t)
{
    int32_t code = t->error.code;
    bool damaged = code == INFER_ERROR_FORMAT || code == INFER_ERROR_TRUNCATED || code == INFER_ERROR_CHANGED || code == INFER_ERROR_IO;
    if (t->finish != INFER_FINISH_ERROR || !t->state || t->n_tokens || !damaged)
        return false;
    (void)fprintf(stderr, "infer-server: the checkpoint of %s: %s; skipped\n", t->from, t->error.text);
    store_drop_state(t->list->store, t->from);
    infer_checkpoint_release(t->state);
    t->state = NULL;
    if (t->cancelled) {
        t->finish = INFER_FINISH_CANCELLED;
        return false;
    }
    infer_error err;
    INFER_INIT(&err);
    infer_request_release(t->request);
    t->request = NULL;
    if (turn_start(t, &err) == INFER_OK)
        return true;
    t->error = err;
    return false;
}

/* On the scheduler's thread, with the lock. */
static void conclude(struct turn *t, infer_request *request)
{
    (void)infer_request_get_info(request, &t->info, NULL);
    reasoning_end(&t->split, on_text, t);
    if (complete(t) && !t->no_output && (!t->item || t->part == PART_REASONING)) {
        item_close(t, true);
        item_open(t, PART_ANSWER); /* an answer without text is one */
    }
    item_close(t, complete(t));
    infer_checkpoint_release(t->state);
    t->state = NULL;
    if (t->finish != INFER_FINISH_ERROR && !t->params.n_prompts && (t->store || t->ws) && store_backlog(t->list->store, WORK_STATES) < BACKLOG &&
        infer_request_checkpoint(request, 0, &t->state, NULL) != INFER_OK)
        t->state = NULL;
    metrics_request(t->list->server, t->call, &t->info);
}

static void on_event(void *user, infer_request *request, const infer_request_event *e)
{
    struct turn *t = user;
    bool over = false;
    (void)pthread_mutex_lock(&t->lock);
    begin(t);
    switch (e->kind) {
    case INFER_REQUEST_EVENT_STARTED:
        progress(t);
        break;
    case INFER_REQUEST_EVENT_TOKEN:
        t->n_tokens++;
        if (t->logprobs)
            pend_logprob(t, e);
        reasoning_token(&t->split, e->id, e->text, e->text_len, on_text, t);
        break;
    case INFER_REQUEST_EVENT_DONE:
        t->finish = e->finish_reason;
        if (e->error)
            t->error = *e->error;
        if (t->finish == INFER_FINISH_STOP) /* the end token has no text */
            (void)json_array_remove(t->pending, json_array_size(t->pending) - 1);
        if (e->text_len)
            reasoning_feed(&t->split, e->text, e->text_len, on_text, t);
        break;
    case INFER_REQUEST_EVENT_END:
        over = !again_without_state(t);
        if (over)
            conclude(t, request);
        break;
    default:
        break;
    }
    (void)pthread_mutex_unlock(&t->lock);
    if (over) {
        t->task.run = finish;
        store_queue(t->list->store, WORK_RESPONSES, &t->task);
    }
}

/* ---- The beginning ----------------------------------------------------------------------------------------------- */

infer_status turn_start(struct turn *t, infer_error *err)
{
    struct server *server = t->list->server;
    infer_request_options o;
    infer_session_options session;
    bool first = !t->begun;
    infer_request *request = NULL;
    params_request(server, t->call, &t->params, &o, &session);
    o.ids = t->prompt.ids;
    o.id_count = t->prompt.n;
    o.checkpoint = t->state ? t->state : t->params.checkpoint;
    o.flags |= t->store || t->ws ? INFER_REQUEST_KEEP : 0U;
    o.flags |= t->no_output ? INFER_REQUEST_PROMPT_ONLY : 0U;
    o.callback = on_event;
    o.callback_user = t;
    if (!first) /* again, from a callback: the lock is held, and all that follows has been done */
        return infer_scheduler_submit(server->scheduler, &o, &t->request, err);
    enlist(t);
    (void)turn_ref(t); /* the callback's, until finish */
    infer_status status = infer_scheduler_submit(server->scheduler, &o, &request, err);
    if (status != INFER_OK) {
        delist(t, false);
        turn_release(t);
        return status;
    }
    (void)pthread_mutex_lock(&t->lock);
    if (t->request)
        infer_request_release(request); /* it has begun again meanwhile */
    else
        t->request = request;
    begin(t);
    struct call *call = t->answers && !t->background ? call_ref(t->call) : NULL;
    bool cancelled = t->cancelled;
    (void)pthread_mutex_unlock(&t->lock);
    if (cancelled)
        turn_cancel(t);
    if (call) {
        call_own(call, turn_ref(t), own_release);
        call_on_close(call, client_gone, t);
    }
    if (call)
        call_release(call);
    return INFER_OK;
}

void turn_follow(struct turn *t, struct call *call, int64_t after)
{
    struct follower *f = calloc(1, sizeof *f);
    (void)pthread_mutex_lock(&t->lock);
    if (!f || !t->keeps_events) {
        (void)pthread_mutex_unlock(&t->lock);
        free(f);
        call_error(call, 400, "invalid_request_error", NULL, "stream", "stream: the events of this response are not kept: it was not made in the background");
        return;
    }
    call_stream_begin(call, "text/event-stream");
    for (size_t i = after < 0 ? 0 : (size_t)after + 1; i < t->n_events; i++)
        (void)call_stream_write(call, t->events[i], strlen(t->events[i]));
    if (t->ended) {
        call_stream_end(call);
        free(f);
    } else {
        f->call = call_ref(call);
        f->next = t->followers;
        t->followers = f;
    }
    (void)pthread_mutex_unlock(&t->lock);
}

void turn_wait(struct turn *t, struct call *call)
{
    struct follower *f = calloc(1, sizeof *f);
    (void)pthread_mutex_lock(&t->lock);
    if (!f)
        call_error(call, 500, NULL, NULL, NULL, "out of memory");
    else if (t->ended) {
        answer_whole(t, call);
        free(f);
    } else {
        f->call = call_ref(call);
        f->next = t->waiters;
        t->waiters = f;
    }
    (void)pthread_mutex_unlock(&t->lock);
}
