/* POST /tokenize, /detokenize, /apply-template. */
#include <stdlib.h>
#include <string.h>

#include "native.h"

static json_t *id_list(const int32_t *ids, uint64_t n)
{
    json_t *list = json_array();
    for (uint64_t i = 0; i < n; i++)
        (void)json_array_append_new(list, json_integer(ids[i]));
    return list;
}

static json_t *piece(struct server *server, int32_t id)
{
    static const char *const kinds[] = {"", "normal", "unknown", "control", "user_defined", "unused", "byte"};
    infer_token_info t;
    INFER_INIT(&t);
    json_t *o = native_token(server, id);
    if (infer_tokenizer_token(server->tokenizer, id, &t, NULL) == INFER_OK) {
        (void)json_object_set_new(o, "piece", text_json(t.piece, (size_t)t.piece_len));
        (void)json_object_set_new(o, "kind", json_string(t.kind >= 1 && t.kind <= 6 ? kinds[t.kind] : "unknown"));
    }
    return o;
}

static void tokenize(struct server *server, struct call *call)
{
    static const struct param table[] = {
        {"model", PARAM_TAKEN}, {"text", PARAM_TAKEN}, {"add_special", PARAM_TAKEN}, {"parse_special", PARAM_TAKEN}, {"pieces", PARAM_TAKEN}, {0}};
    struct native_ids ids;
    uint32_t flags;
    bool pieces = false;
    const char *text = NULL;
    json_t *body = call_json_body(call);
    if (!body || !params_check(call, body, table, false) || !native_model(server, call, body) || !native_required(call, body, "text"))
        return;
    if (!param_string(call, body, "text", &text) || !native_text_flags(call, body, &flags) || !param_bool(call, body, "pieces", &pieces))
        return;
    if (!native_ids_text(server, call, text, json_string_length(json_object_get(body, "text")), "text", flags, &ids))
        return;
    json_t *o = json_pack("{s:o,s:I}", "tokens", id_list(ids.ids, ids.n), "count", (json_int_t)ids.n);
    if (pieces) {
        json_t *list = json_array();
        for (uint64_t i = 0; i < ids.n; i++)
            (void)json_array_append_new(list, piece(server, ids.ids[i]));
        (void)json_object_set_new(o, "pieces", list);
    }
    free(ids.ids);
    call_json(call, 200, o);
}

/* free(); NULL: answered. */
static char *text_of(struct server *server, struct call *call, const struct native_ids *ids, uint32_t flags, uint64_t *len)
{
    infer_error err;
    INFER_INIT(&err);
    char *text = NULL;
    *len = 0;
    infer_status st = infer_detokenize(server->tokenizer, ids->ids, ids->n, flags, NULL, 0, len, &err);
    if (st == INFER_ERROR_BUFFER || st == INFER_OK) {
        text = malloc((size_t)*len + 1);
        st = text ? infer_detokenize(server->tokenizer, ids->ids, ids->n, flags, text, *len, len, &err) : INFER_ERROR_NO_MEMORY;
    }
    if (st == INFER_OK)
        return text;
    free(text);
    call_status(call, st, &err, "tokens");
    return NULL;
}

static void detokenize(struct server *server, struct call *call)
{
    static const struct param table[] = {{"model", PARAM_TAKEN}, {"tokens", PARAM_TAKEN}, {"special", PARAM_TAKEN}, {0}};
    struct native_ids ids;
    bool special = true;
    uint64_t len;
    json_t *body = call_json_body(call), *list = NULL;
    if (!body || !params_check(call, body, table, false) || !native_model(server, call, body) || !native_required(call, body, "tokens"))
        return;
    if (!param_array(call, body, "tokens", &list) || !param_bool(call, body, "special", &special) || !native_needs_tokenizer(server, call))
        return;
    if (!native_ids_list(server, call, list, "tokens", &ids))
        return;
    char *text = text_of(server, call, &ids, special ? INFER_DETOKENIZE_SHOW_SPECIAL : 0, &len);
    free(ids.ids);
    if (!text)
        return;
    json_t *o = json_pack("{s:o}", "text", text_json(text, (size_t)len)), *whole = json_stringn(text, (size_t)len);
    (void)json_object_set_new(o, "complete", json_boolean(whole != NULL)); /* false: half a character became U+FFFD */
    json_decref(whole);
    free(text);
    call_json(call, 200, o);
}

static void apply_template(struct server *server, struct call *call)
{
    static const struct param table[] = {{"model", PARAM_TAKEN}, {"messages", PARAM_TAKEN}, {"add_generation_prompt", PARAM_TAKEN},
                                         {"chat_template_kwargs", PARAM_TAKEN}, {"tokens", PARAM_TAKEN}, {0}};
    bool generation = true, tokens = false;
    struct chat_prompt prompt;
    size_t len;
    json_t *body = call_json_body(call), *messages = NULL, *kwargs = NULL;
    if (!body || !params_check(call, body, table, false) || !native_model(server, call, body) || !native_required(call, body, "messages"))
        return;
    if (!param_array(call, body, "messages", &messages) || !param_bool(call, body, "add_generation_prompt", &generation) ||
        !param_object(call, body, "chat_template_kwargs", &kwargs) || !param_bool(call, body, "tokens", &tokens) || !native_needs_tokenizer(server, call))
        return;
    char *text = chat_prompt_text(server, call, messages, kwargs, generation, &len);
    if (!text)
        return;
    if (chat_prompt_make(server, call, messages, kwargs, generation, &prompt)) {
        json_t *o = json_pack("{s:o,s:I,s:b}", "prompt", text_json(text, len), "count", (json_int_t)prompt.n, "reasons", prompt.reasons);
        if (tokens)
            (void)json_object_set_new(o, "tokens", id_list(prompt.ids, prompt.n));
        chat_prompt_free(&prompt);
        call_json(call, 200, o);
    }
    free(text);
}

const struct route native_text_routes[] = {
    {"POST", "/tokenize", API_NATIVE, ROUTE_PURE, tokenize},
    {"POST", "/detokenize", API_NATIVE, ROUTE_PURE, detokenize},
    {"POST", "/apply-template", API_NATIVE, ROUTE_PURE, apply_template},
    {0},
};
