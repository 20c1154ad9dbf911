/* POST /chat, /chat/stream, /complete. */
#include <stdlib.h>
#include <string.h>

#include "native_request.h"

#define GENERATION_PARAMS                                                                                                                                     \
    {"max_tokens", PARAM_TAKEN}, {"logprobs", PARAM_TAKEN}, {"top_logprobs", PARAM_TAKEN}, {"ignore_eos", PARAM_TAKEN}, {"special", PARAM_TAKEN},             \
        {"save", PARAM_TAKEN}, {"replace", PARAM_TAKEN}

static bool split_reasoning(struct native_request *r, const json_t *body, bool inside)
{
    r->splits = true;
    if (!param_bool(r->call, body, "split_reasoning", &r->splits))
        return false;
    struct reasoning_tags tags = reasoning_of(r->server->tmpl, r->server->tokenizer);
    for (uint32_t i = 0; i < r->params.n; i++)
        reasoning_begin(&r->choices[i].split, tags, inside);
    return true;
}

static void chat(struct server *server, struct call *call, bool stream)
{
    static const struct param table[] = {GENERATION_PARAMS, {"messages", PARAM_TAKEN}, {"chat_template_kwargs", PARAM_TAKEN}, {"add_generation_prompt", PARAM_TAKEN},
                                         {"split_reasoning", PARAM_TAKEN}, {0}};
    json_t *body = call_json_body(call), *messages = NULL, *kwargs = NULL;
    bool generation_prompt = true;
    struct chat_prompt prompt;
    if (!body)
        return;
    struct native_request *r = native_request_read(server, call, body, table, false);
    if (!r || !native_required(call, body, "messages") || !param_array(call, body, "messages", &messages) ||
        !param_object(call, body, "chat_template_kwargs", &kwargs) || !param_bool(call, body, "add_generation_prompt", &generation_prompt) ||
        !native_needs_tokenizer(server, call))
        return;
    r->stream |= stream;
    if (!chat_prompt_make(server, call, messages, kwargs, generation_prompt, &prompt))
        return;
    r->ids = prompt.ids; /* kept; the rest of the prompt is numbers */
    r->n_ids = prompt.n;
    if (split_reasoning(r, body, prompt.reasons))
        native_request_submit(r);
}

static void chat_whole(struct server *server, struct call *call)
{
    chat(server, call, false);
}

static void chat_stream(struct server *server, struct call *call)
{
    chat(server, call, true);
}

/* With a checkpoint the prompt, which may then be absent, goes behind what that holds. */
static void complete(struct server *server, struct call *call)
{
    static const struct param table[] = {GENERATION_PARAMS, {"prompt", PARAM_TAKEN}, {"add_special", PARAM_TAKEN}, {"parse_special", PARAM_TAKEN}, {0}};
    json_t *body = call_json_body(call);
    struct native_ids ids = {0};
    uint32_t flags;
    if (!body)
        return;
    struct native_request *r = native_request_read(server, call, body, table, false);
    if (!r || !native_text_flags(call, body, &flags))
        return;
    json_t *prompt = json_object_get(body, "prompt");
    bool given = prompt && !json_is_null(prompt), goes_on = r->params.checkpoint != NULL;
    if (!given && !goes_on) {
        (void)native_required(call, body, "prompt");
        return;
    }
    if (given && !native_ids_read(server, call, prompt, "prompt", goes_on ? flags & ~(uint32_t)INFER_TOKENIZE_ADD_SPECIAL : flags, &ids))
        return;
    r->ids = ids.ids;
    r->n_ids = ids.n;
    r->flags |= goes_on ? INFER_REQUEST_CONTINUE : 0;
    if (ids.n || goes_on)
        native_request_submit(r);
    else
        (void)param_wrong(call, "prompt", "has no tokens");
}

const struct route native_chat_routes[] = {
    {"POST", "/chat", API_NATIVE, ROUTE_GENERATES, chat_whole},
    {"POST", "/chat/stream", API_NATIVE, ROUTE_GENERATES, chat_stream},
    {"POST", "/complete", API_NATIVE, ROUTE_GENERATES, complete},
    {0},
};
