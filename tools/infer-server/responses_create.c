/* POST /v1/responses and response.create: from the body to a turn. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "openai.h"
#include "responses_ws.h"

#define ROOM_LEFT 256 /* tokens that truncation leaves for an answer when the request does not say how many it wants */

static const struct param create_keys[] = {
    {"input", PARAM_TAKEN}, {"instructions", PARAM_TAKEN}, {"max_output_tokens", PARAM_TAKEN}, {"metadata", PARAM_TAKEN}, {"user", PARAM_TAKEN},
    {"safety_identifier", PARAM_TAKEN}, {"prompt_cache_key", PARAM_TAKEN}, {"store", PARAM_TAKEN}, {"previous_response_id", PARAM_TAKEN},
    {"truncation", PARAM_TAKEN}, {"text", PARAM_TAKEN}, {"include", PARAM_TAKEN}, {"top_logprobs", PARAM_TAKEN}, {"reasoning", PARAM_TAKEN},
    {"background", PARAM_TAKEN}, {"stream_options", PARAM_TAKEN}, {"service_tier", PARAM_TAKEN}, {"tool_choice", PARAM_TAKEN},
    {"parallel_tool_calls", PARAM_TAKEN}, {"chat_template_kwargs", PARAM_TAKEN}, {"max_tool_calls", PARAM_NO_EFFECT}, {"prompt_cache_retention", PARAM_NO_EFFECT},
    {"prompt_cache_options", PARAM_NO_EFFECT}, {"background_options", PARAM_NO_EFFECT}, {"image", PARAM_NO_EFFECT}, {"tools", PARAM_REFUSED},
    {"conversation", PARAM_REFUSED}, {"prompt", PARAM_REFUSED}, {"context_management", PARAM_REFUSED}, {"moderation", PARAM_REFUSED},
    {"access_programs", PARAM_REFUSED}, {NULL, PARAM_TAKEN}};
static const struct param socket_keys[] = {{"type", PARAM_TAKEN}, {"stream_id", PARAM_TAKEN}, {"generate", PARAM_TAKEN}, {NULL, PARAM_TAKEN}};
static const struct param count_keys[] = {
    {"model", PARAM_TAKEN}, {"input", PARAM_TAKEN}, {"instructions", PARAM_TAKEN}, {"previous_response_id", PARAM_TAKEN}, {"truncation", PARAM_TAKEN},
    {"text", PARAM_TAKEN}, {"reasoning", PARAM_TAKEN}, {"tool_choice", PARAM_TAKEN}, {"parallel_tool_calls", PARAM_TAKEN}, {"chat_template_kwargs", PARAM_TAKEN}, {"tools", PARAM_REFUSED},
    {"conversation", PARAM_REFUSED}, {"personality", PARAM_REFUSED}, {NULL, PARAM_TAKEN}};

/* What a body says beside params_read's. */
struct asked {
    const char *instructions, *previous, *truncation, *effort, *verbosity, *tool_choice;
    json_t *metadata, *text, *reasoning, *include, *kwargs;
    uint64_t max_output_tokens, top_logprobs;
    bool store, background, parallel, logprobs;
};

/* ---- Fields ------------------------------------------------------------------------------------------------------ */

static bool one_of(struct call *call, const char *name, const char *value, const char *const *words)
{
    for (const char *const *w = words; value && *w; w++)
        if (strcmp(*w, value) == 0)
            return true;
    return !value || param_wrong(call, name, "'%.40s' is not among what this server knows", value);
}

static bool read_metadata(struct call *call, const json_t *body, struct asked *a)
{
    const char *key;
    json_t *value;
    if (!param_object(call, body, "metadata", &a->metadata))
        return false;
    if (json_object_size(a->metadata) > 16)
        return param_wrong(call, "metadata", "at most 16 keys");
    json_object_foreach (a->metadata, key, value) {
        if (strlen(key) > 64 || !json_is_string(value) || json_string_length(value) > 4 * 512)
            return param_wrong(call, "metadata", "keys have at most 64 characters, values are strings of at most 512");
    }
    return true;
}

static bool read_text(struct call *call, const json_t *body, struct asked *a)
{
    static const struct param keys[] = {{"format", PARAM_TAKEN}, {"verbosity", PARAM_TAKEN}, {NULL, PARAM_TAKEN}};
    static const char *const levels[] = {"medium", NULL};
    json_t *format = NULL;
    const char *type = "text", *verbosity = NULL;
    if (!param_object(call, body, "text", &a->text))
        return false;
    if (a->text && (!params_check_in(call, "text", a->text, keys) || !param_object(call, a->text, "text.format", &format) ||
                    !param_string(call, a->text, "text.verbosity", &verbosity) || !one_of(call, "text.verbosity", verbosity, levels)))
        return false;
    if (format && !param_string(call, format, "text.format.type", &type))
        return false;
    return strcmp(type, "text") == 0 || param_wrong(call, "text.format", "'%.40s': this server has no structured output, only text", type);
}

static bool read_reasoning(struct server *server, struct call *call, const json_t *body, struct asked *a)
{
    static const struct param keys[] = {{"effort", PARAM_TAKEN}, {"summary", PARAM_TAKEN}, {"generate_summary", PARAM_TAKEN}, {"context", PARAM_TAKEN},
                                        {"mode", PARAM_TAKEN}, {NULL, PARAM_TAKEN}};
    static const char *const efforts[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max", NULL};
    static const char *const automatic[] = {"auto", NULL}, *const standard[] = {"standard", NULL};
    const char *summary = NULL, *old = NULL, *context = NULL, *mode = NULL;
    if (!param_object(call, body, "reasoning", &a->reasoning))
        return false;
    if (!a->reasoning)
        return true;
    if (!params_check_in(call, "reasoning", a->reasoning, keys) || !param_string(call, a->reasoning, "reasoning.effort", &a->effort) ||
        !param_string(call, a->reasoning, "reasoning.summary", &summary) || !param_string(call, a->reasoning, "reasoning.generate_summary", &old) ||
        !param_string(call, a->reasoning, "reasoning.context", &context) || !param_string(call, a->reasoning, "reasoning.mode", &mode))
        return false;
    if (!one_of(call, "reasoning.effort", a->effort, efforts) || !one_of(call, "reasoning.summary", summary, automatic) ||
        !one_of(call, "reasoning.generate_summary", old, automatic) || !one_of(call, "reasoning.context", context, automatic) ||
        !one_of(call, "reasoning.mode", mode, standard))
        return false;
    bool none = a->effort && strcmp(a->effort, "none") == 0;
    if (a->effort && !chat_template_has(server, "reasoning_effort") && !chat_template_has(server, "enable_thinking") &&
        !(none && !server->responses->tags.open))
        return param_wrong(call, "reasoning.effort", "this model's template has no setting for it");
    return true;
}

static bool read_include(struct call *call, const json_t *body, struct asked *a)
{
    static const char *const known[] = {"message.output_text.logprobs", "reasoning.encrypted_content", "web_search_call.action.sources",
                                        "web_search_call.results", "code_interpreter_call.outputs", "computer_call_output.output.image_url",
                                        "file_search_call.results", "message.input_image.image_url", NULL};
    const json_t *item;
    size_t i;
    if (!param_array(call, body, "include", &a->include))
        return false;
    json_array_foreach (a->include, i, item) {
        const char *word = json_string_value(item);
        if (!word)
            return param_wrong(call, "include", "must be an array of strings");
        if (!one_of(call, "include", word, known))
            return false;
        a->logprobs = a->logprobs || strcmp(word, known[0]) == 0;
    }
    return true;
}

static bool read_tools(struct call *call, const json_t *body, struct asked *a)
{
    static const char *const choices[] = {"auto", "none", NULL};
    const json_t *choice = json_object_get(body, "tool_choice");
    if (choice && !json_is_null(choice) && !json_is_string(choice))
        return param_wrong(call, "tool_choice", "this server has no tools: only \"auto\" and \"none\"");
    return param_string(call, body, "tool_choice", &a->tool_choice) && one_of(call, "tool_choice", a->tool_choice, choices) &&
           param_bool(call, body, "parallel_tool_calls", &a->parallel);
}

static bool read_labels(struct call *call, const json_t *body)
{
    static const char *const tiers[] = {"auto", "default", "flex", "priority", "fast", NULL};
    static const char *const names[] = {"user", "safety_identifier", "prompt_cache_key", NULL};
    static const struct param stream_keys[] = {{"include_obfuscation", PARAM_REFUSED}, {NULL, PARAM_TAKEN}};
    const char *text = NULL, *tier = NULL;
    json_t *stream = NULL;
    for (const char *const *n = names; *n; n++)
        if (!param_string(call, body, *n, &text))
            return false;
    return param_string(call, body, "service_tier", &tier) && one_of(call, "service_tier", tier, tiers) &&
           param_object(call, body, "stream_options", &stream) && (!stream || params_check_in(call, "stream_options", stream, stream_keys));
}

/* What creating and counting have in common. */
static bool read_prompt_fields(struct server *server, struct call *call, const json_t *body, struct asked *a)
{
    static const char *const ways[] = {"auto", "disabled", NULL};
    *a = (struct asked){.truncation = "disabled", .tool_choice = "auto", .parallel = true, .store = true};
    return param_string(call, body, "instructions", &a->instructions) && param_string(call, body, "previous_response_id", &a->previous) &&
           param_string(call, body, "truncation", &a->truncation) && one_of(call, "truncation", a->truncation, ways) && param_object(call, body, "chat_template_kwargs", &a->kwargs) &&
           read_text(call, body, a) && read_reasoning(server, call, body, a) && read_tools(call, body, a);
}

static bool read_asked(struct server *server, struct call *call, const json_t *body, struct asked *a)
{
    return read_prompt_fields(server, call, body, a) && param_uint(call, body, "max_output_tokens", 1, UINT32_MAX, &a->max_output_tokens) &&
           param_uint(call, body, "top_logprobs", 0, 20, &a->top_logprobs) && param_bool(call, body, "store", &a->store) &&
           param_bool(call, body, "background", &a->background) && read_metadata(call, body, a) && read_include(call, body, a) && read_labels(call, body) &&
           (a->store || !a->background || param_wrong(call, "background", "needs \"store\": true: how else would the response be fetched?"));
}

static uint64_t context_of(const struct server *server, const infer_session_options *session)
{
    return session->n_ctx ? session->n_ctx : server->info.n_ctx_train;
}

/* ---- What came before -------------------------------------------------------------------------------------------- */

/* The items of a response with all that was before it. */
static json_t *items_after(const json_t *doc)
{
    json_t *all = json_array();
    (void)json_array_extend(all, json_object_get(doc, "history"));
    (void)json_array_extend(all, json_object_get(doc, "input"));
    (void)json_array_extend(all, json_object_get(json_object_get(doc, "response"), "output"));
    return all;
}

static bool no_previous(struct call *call, const char *id)
{
    call_error(call, 400, "invalid_request_error", "previous_response_not_found", "previous_response_id", "Previous response with id '%.80s' not found.", id);
    return false;
}

/* A request takes context length and KV type from the checkpoint that it begins with: they must be what the server has now. */
static bool state_fits(const struct turn *t, const infer_checkpoint *state, const infer_session_options *session)
{
    infer_checkpoint_info info;
    INFER_INIT(&info);
    return infer_checkpoint_get_info(state, &info, NULL) == INFER_OK && info.kv_type == session->kv_type && !info.approximate &&
           info.n_ctx == context_of(t->list->server, session);
}

/* Fills t's history, and the checkpoint to begin with when it was computed under the same model and adapters. */
static bool read_previous(struct call *call, struct turn *t, const char *id, const infer_session_options *session)
{
    struct store *store = t->list->store;
    t->history = NULL;
    if (!id) {
        t->history = json_array();
        return true;
    }
    struct turn *running = turn_find(t->list, id, t->tenant, false);
    if (running) {
        turn_release(running);
        return param_wrong(call, "previous_response_id", "this response has not ended yet");
    }
    infer_checkpoint *state = NULL;
    json_t *doc = t->ws ? connection_find(t->ws, id, &state) : NULL;
    if (!doc && (doc = store_find(store, id, t->tenant)))
        state = store_state(store, id);
    if (!doc)
        return no_previous(call, id);
    if (doc_unfinished(doc) && store_held(store, id)) {
        json_decref(doc);
        infer_checkpoint_release(state);
        return param_wrong(call, "previous_response_id", "this response has not ended yet");
    }
    t->history = items_after(doc);
    bool fits = state && json_equal(json_object_get(doc, "setting"), t->setting) && !t->params.n_prompts && !t->params.checkpoint;
    if (fits && state_fits(t, state, session)) {
        t->state = state;
        (void)snprintf(t->from, sizeof t->from, "%s", id);
    } else {
        infer_checkpoint_release(state);
    }
    json_decref(doc);
    return true;
}

/* ---- The prompt -------------------------------------------------------------------------------------------------- */

/* What the template sees beside the messages: chat_template_kwargs, and where those do not say it, the effort in the template's own words. */
static json_t *template_extras(struct server *server, const struct asked *a)
{
    json_t *extras = a->kwargs ? json_copy(a->kwargs) : json_object();
    if (a->effort && chat_template_has(server, "reasoning_effort"))
        (void)json_object_set_new(extras, "reasoning_effort", json_string(a->effort));
    else if (a->effort && chat_template_has(server, "enable_thinking"))
        (void)json_object_set_new(extras, "enable_thinking", json_boolean(strcmp(a->effort, "none") != 0));
    if (a->kwargs)
        (void)json_object_update(extras, a->kwargs);
    return extras;
}

/* The prompt without the first `drop` items. */
static bool render(struct server *server, struct call *call, struct turn *t, const struct asked *a, size_t drop)
{
    json_t *messages = items_messages(a->instructions, t->history, t->input, drop);
    json_t *extras = template_extras(server, a);
    bool ok = messages != NULL;
    chat_prompt_free(&t->prompt);
    memset(&t->prompt, 0, sizeof t->prompt);
    if (!ok)
        call_error(call, 500, NULL, NULL, NULL, "out of memory");
    ok = ok && chat_prompt_make(server, call, messages, extras, true, &t->prompt);
    json_decref(messages);
    json_decref(extras);
    return ok;
}

static bool too_long(struct call *call, uint64_t n, uint64_t limit)
{
    call_error(call, 400, "invalid_request_error", "context_length_exceeded", "input",
               "input: the prompt has %" PRIu64 " tokens, the context %" PRIu64 "; \"truncation\": \"auto\" drops the oldest items", n, limit);
    return false;
}

/* With truncation, drops items from the start until the prompt leaves room for an answer: always whole turns, as few as possible. */
static bool make_prompt(struct server *server, struct call *call, struct turn *t, const struct asked *a, uint64_t context)
{
    size_t n = json_array_size(t->history) + json_array_size(t->input), low = 0, high = 0;
    uint64_t room = a->max_output_tokens ? a->max_output_tokens : ROOM_LEFT;
    uint64_t limit = context - (room < context / 4 ? room : context / 4);
    bool truncates = strcmp(a->truncation, "auto") == 0;
    if (!render(server, call, t, a, 0))
        return false;
    if (!truncates || t->prompt.n <= limit)
        return t->prompt.n < context || too_long(call, t->prompt.n, context);
    size_t *starts = calloc(n + 1, sizeof *starts); /* where the conversation may begin: [0, high) */
    for (size_t i = 1; starts && i < n; i++)
        if (items_may_begin(t->history, t->input, i))
            starts[high++] = i;
    if (!high) {
        free(starts);
        return t->prompt.n < context || too_long(call, t->prompt.n, context);
    }
    bool ok = true;
    high--;
    while (ok && low < high) {
        size_t middle = low + (high - low) / 2;
        ok = render(server, call, t, a, starts[middle]);
        if (t->prompt.n <= limit)
            high = middle;
        else
            low = middle + 1;
    }
    ok = ok && render(server, call, t, a, starts[low]);
    free(starts);
    return ok && (t->prompt.n < context || too_long(call, t->prompt.n, context));
}

/* ---- The response object ----------------------------------------------------------------------------------------- */

static json_t *given(const json_t *body, const char *key)
{
    json_t *v = json_object_get(body, key);
    return v && !json_is_null(v) ? json_incref(v) : json_null();
}

static json_t *given_or(const json_t *body, const char *key, json_t *standard)
{
    json_t *v = given(body, key);
    if (!json_is_null(v)) {
        json_decref(standard);
        return v;
    }
    return standard;
}

static json_t *response_new(const struct turn *t, const struct asked *a)
{
    const json_t *b = t->body;
    return json_pack("{s:s, s:s, s:I, s:s, s:b, s:n, s:n, s:n, s:o, s:o, s:n, s:s, s:[], s:b, s:o, s:o, s:{s:o, s:n}, s:o, s:s, s:b, s:o, s:{s:{s:s}, s:s}, "
                     "s:s, s:[], s:I, s:o, s:s, s:n, s:o, s:o}",
                     "id", t->id, "object", "response", "created_at", (json_int_t)time(NULL), "status", t->background ? "queued" : "in_progress",
                     "background", t->background, "completed_at", "error", "incomplete_details", "instructions", given(b, "instructions"),
                     "max_output_tokens", given(b, "max_output_tokens"), "max_tool_calls", "model", t->params.model, "output", "parallel_tool_calls",
                     a->parallel, "previous_response_id", given(b, "previous_response_id"), "prompt_cache_key", given(b, "prompt_cache_key"), "reasoning",
                     "effort", a->effort ? json_string(a->effort) : json_null(), "summary", "safety_identifier", given(b, "safety_identifier"),
                     "service_tier", "default", "store", a->store, "temperature", given_or(b, "temperature", json_real(1)), "text", "format", "type", "text",
                     "verbosity", "medium", "tool_choice", a->tool_choice, "tools", "top_logprobs", (json_int_t)a->top_logprobs, "top_p",
                     given_or(b, "top_p", json_real(1)), "truncation", a->truncation, "usage", "user", given(b, "user"), "metadata",
                     given_or(b, "metadata", json_object()));
}

/* ---- Together ---------------------------------------------------------------------------------------------------- */

/* Keys of response.create beside those of the body. */
static bool check_keys(struct call *call, json_t *body, bool socket)
{
    if (!socket)
        return params_check(call, body, create_keys, true);
    json_t *rest = json_copy(body);
    for (const struct param *p = socket_keys; p->name; p++)
        (void)json_object_del(rest, p->name);
    bool ok = params_check(call, rest, create_keys, true);
    json_decref(rest);
    return ok;
}

static bool read_socket(struct call *call, struct turn *t, const struct asked *a)
{
    bool generate = true;
    if (!t->ws)
        return true;
    if (a->background)
        return param_wrong(call, "background", "there is none on a WebSocket");
    if (json_is_false(json_object_get(t->body, "stream")))
        return param_wrong(call, "stream", "a WebSocket always streams");
    if (!param_bool(call, t->body, "generate", &generate))
        return false;
    t->no_output = !generate;
    return true;
}

static bool prepare(struct server *server, struct call *call, struct turn *t, struct asked *a)
{
    json_t *input = json_object_get(t->body, "input");
    struct params *p = &t->params;
    infer_request_options o;
    infer_session_options session;
    store_tenant(call_salt(call), t->tenant);
    if (!check_keys(call, t->body, t->ws != NULL) || !read_asked(server, call, t->body, a) || !read_socket(call, t, a))
        return false;
    if ((!input || json_is_null(input)) && !a->previous && !t->no_output)
        return param_wrong(call, "input", "is missing");
    if (json_is_array(input) && !json_array_size(input) && !a->previous && !a->instructions && !t->no_output)
        return param_wrong(call, "input", "has no items");
    if (!params_read(server, call, t->body, p))
        return false;
    t->has_params = true;
    if (p->n != 1)
        return param_wrong(call, "n", "a response has one answer");
    t->logprobs = a->logprobs || a->top_logprobs;
    p->generate.max_tokens = a->max_output_tokens;
    p->sampling.logprobs = t->logprobs;
    p->sampling.top_logprobs = (uint32_t)a->top_logprobs;
    t->store = a->store;
    t->background = a->background;
    t->stream = p->stream && !t->ws;
    t->keeps_events = t->background;
    t->setting = json_pack("{s:s, s:o}", "model", p->model, "adapters", given(t->body, "adapters"));
    params_request(server, call, p, &o, &session);
    if (!read_previous(call, t, a->previous, &session))
        return false;
    struct item_source source = {server, t->list->store, t->tenant, t->history};
    t->input = input && !json_is_null(input) ? items_read(call, input, &t->ids, &source) : json_array();
    if (!t->input)
        return false;
    if (!make_prompt(server, call, t, a, context_of(server, &session)))
        return false;
    reasoning_begin(&t->split, t->list->tags, t->prompt.reasons);
    t->response = response_new(t, a);
    return t->response || (call_error(call, 500, NULL, NULL, NULL, "out of memory"), false);
}

/* A background response is on disk before its id is told: after a crash it is not unknown, but failed. */
static void keep_early(struct turn *t)
{
    json_t *doc = turn_doc(t);
    if (doc)
        store_put(t->list->store, t->id, doc, NULL);
    t->held = store_hold(t->list->store, t->id);
    json_decref(doc);
}

struct turn *responses_create(struct server *server, struct call *call, json_t *body, struct connection *ws, const char *lane)
{
    struct asked a;
    infer_error err;
    INFER_INIT(&err);
    if (!openai_generates(server, call)) {
        json_decref(body);
        return NULL;
    }
    struct turn *t = turn_create(server->responses, body);
    json_decref(body);
    if (!t) {
        call_error(call, 500, NULL, NULL, NULL, "out of memory");
        return NULL;
    }
    t->call = call_ref(call);
    t->answers = !ws;
    t->ws = ws ? connection_ref(ws) : NULL;
    t->lane = lane ? strdup(lane) : NULL;
    if (!prepare(server, call, t, &a)) {
        turn_release(t);
        return NULL;
    }
    if (t->background)
        keep_early(t);
    json_t *early = t->background && !t->stream ? json_deep_copy(t->response) : NULL;
    infer_status status = turn_start(t, &err);
    if (status != INFER_OK) {
        json_decref(early);
        if (t->background)
            (void)store_remove(t->list->store, t->id);
        call_status(call, status, &err, status == INFER_ERROR_CONTEXT_FULL ? "input" : NULL);
        turn_release(t);
        return NULL;
    }
    if (early && turn_detach(t))
        call_json(call, 200, json_incref(early));
    json_decref(early);
    return t;
}

/* ---- POST /v1/responses/input_tokens ------------------------------------------------------------------------------ */

void responses_count(struct server *server, struct call *call)
{
    struct asked a;
    infer_request_options o;
    infer_session_options session;
    json_t *body = call_json_body(call);
    if (!body || !openai_generates(server, call))
        return;
    struct turn *t = turn_create(server->responses, body);
    if (!t) {
        call_error(call, 500, NULL, NULL, NULL, "out of memory");
        return;
    }
    json_t *input = json_object_get(body, "input");
    store_tenant(call_salt(call), t->tenant);
    bool ok = params_check(call, body, count_keys, false) && read_prompt_fields(server, call, body, &a) && params_read(server, call, body, &t->params);
    t->has_params = ok;
    if (ok)
        params_request(server, call, &t->params, &o, &session);
    ok = ok && read_previous(call, t, a.previous, &session);
    struct item_source source = {server, t->list->store, t->tenant, t->history};
    if (ok)
        t->input = input && !json_is_null(input) ? items_read(call, input, &t->ids, &source) : json_array();
    if (t->input && render(server, call, t, &a, 0))
        call_json(call, 200, json_pack("{s:s, s:I}", "object", "response.input_tokens", "input_tokens", (json_int_t)t->prompt.n));
    turn_release(t);
}
