#include "responses_items.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "bytes.h"
#include "params.h"

#define ITEMS_MAX 100000
#define REFERENCES_MAX 1000 /* of a request: each may mean reading a file */
#define AT 160 /* of a place's name */

struct reader {
    struct call *call;
    struct item_ids *ids;
    const struct item_source *source;
    size_t index, n_references;
    json_t *doc; /* the response that the last reference led to, or NULL */
};

void item_id(struct item_ids *ids, const char *prefix, char out[RESPONSE_ID + 8])
{
    (void)snprintf(out, RESPONSE_ID + 8, "%s%s%06x", prefix, ids->digits, ids->next++ & 0xFFFFFFU);
}

static void place(char out[AT], const char *format, ...) __attribute__((format(printf, 2, 3)));
static void place(char out[AT], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(out, AT, format, args);
    va_end(args);
}

/* Keys that an object may have besides those that are null: items come back as clients' own objects, with fields that mean nothing set to null. */
static bool keys_known(struct call *call, json_t *object, const char *at, const char *const *keys)
{
    const char *key;
    json_t *value;
    json_object_foreach (object, key, value) {
        const char *const *k = keys;
        while (*k && strcmp(*k, key) != 0)
            k++;
        if (!*k && !json_is_null(value)) {
            char name[AT];
            place(name, "%s.%.40s", at, key);
            return param_wrong(call, name, "unknown parameter");
        }
    }
    return true;
}

static const char *text_of(struct call *call, const json_t *object, const char *at, const char *key)
{
    const json_t *text = json_object_get(object, key);
    char name[AT];
    if (json_is_string(text))
        return json_string_value(text);
    place(name, "%s.%s", at, key);
    (void)param_wrong(call, name, text ? "must be a string" : "is missing");
    return NULL;
}

/* ---- Messages ---------------------------------------------------------------------------------------------------- */

static json_t *text_part(bool assistant, json_t *text)
{
    return assistant ? json_pack("{s:s, s:[], s:[], s:O}", "type", "output_text", "annotations", "logprobs", "text", text)
                     : json_pack("{s:s, s:O}", "type", "input_text", "text", text);
}

static json_t *read_part(const struct reader *r, json_t *part, const char *at, bool assistant)
{
    static const char *const input_keys[] = {"type", "text", "prompt_cache_breakpoint", NULL};
    static const char *const output_keys[] = {"type", "text", "annotations", "logprobs", NULL};
    static const char *const refusal_keys[] = {"type", "refusal", NULL};
    char name[AT];
    if (!json_is_object(part)) {
        (void)param_wrong(r->call, at, "must be an object");
        return NULL;
    }
    const char *type = text_of(r->call, part, at, "type");
    if (!type)
        return NULL;
    if (strcmp(type, "refusal") == 0 && assistant) {
        if (!keys_known(r->call, part, at, refusal_keys) || !text_of(r->call, part, at, "refusal"))
            return NULL;
        return json_pack("{s:s, s:O}", "type", "refusal", "refusal", json_object_get(part, "refusal"));
    }
    if (strcmp(type, assistant ? "output_text" : "input_text") == 0) {
        if (!keys_known(r->call, part, at, assistant ? output_keys : input_keys) || !text_of(r->call, part, at, "text"))
            return NULL;
        return text_part(assistant, json_object_get(part, "text"));
    }
    place(name, "%s.type", at);
    (void)param_wrong(r->call, name, "'%.40s': this server takes %s here", type, assistant ? "output_text and refusal" : "input_text");
    return NULL;
}

static json_t *read_content(const struct reader *r, json_t *content, const char *at, bool assistant)
{
    json_t *parts = json_array(), *part;
    size_t i;
    if (json_is_string(content)) {
        (void)json_array_append_new(parts, text_part(assistant, content));
        return parts;
    }
    if (!json_is_array(content)) {
        json_decref(parts);
        (void)param_wrong(r->call, at, content ? "must be a string or an array" : "is missing");
        return NULL;
    }
    json_array_foreach (content, i, part) {
        char name[AT];
        place(name, "%s[%zu]", at, i);
        json_t *made = read_part(r, part, name, assistant);
        if (!made) {
            json_decref(parts);
            return NULL;
        }
        (void)json_array_append_new(parts, made);
    }
    return parts;
}

static json_t *read_message(const struct reader *r, json_t *item, const char *at)
{
    static const char *const keys[] = {"type", "id", "role", "content", "status", "phase", NULL};
    static const char *const roles[] = {"user", "system", "developer", "assistant", NULL};
    char name[AT], id[RESPONSE_ID + 8];
    const char *role = text_of(r->call, item, at, "role");
    const char *const *known = roles;
    if (!role || !keys_known(r->call, item, at, keys))
        return NULL;
    while (*known && strcmp(*known, role) != 0)
        known++;
    if (!*known) {
        place(name, "%s.role", at);
        (void)param_wrong(r->call, name, "'%.40s' is none of user, assistant, system and developer", role);
        return NULL;
    }
    place(name, "%s.content", at);
    json_t *content = read_content(r, json_object_get(item, "content"), name, strcmp(role, "assistant") == 0);
    if (!content)
        return NULL;
    item_id(r->ids, "msg_", id);
    return json_pack("{s:s, s:s, s:s, s:s, s:o}", "id", id, "type", "message", "status", "completed", "role", role, "content", content);
}

/* ---- Other items ------------------------------------------------------------------------------------------------- */

/* Texts of [{type, text}]. */
static bool texts_known(const struct reader *r, json_t *item, const char *at, const char *key, const char *type)
{
    static const char *const keys[] = {"type", "text", NULL};
    json_t *list = json_object_get(item, key), *part;
    char name[AT];
    size_t i;
    if (!list || json_is_null(list))
        return true;
    place(name, "%s.%s", at, key);
    if (!json_is_array(list))
        return param_wrong(r->call, name, "must be an array");
    json_array_foreach (list, i, part) {
        const char *own;
        place(name, "%s.%s[%zu]", at, key, i);
        if (!json_is_object(part))
            return param_wrong(r->call, name, "must be an object");
        if (!(own = text_of(r->call, part, name, "type")) || !text_of(r->call, part, name, "text") || !keys_known(r->call, part, name, keys))
            return false;
        if (strcmp(own, type) != 0)
            return param_wrong(r->call, name, "must be of type %s", type);
    }
    return true;
}

static json_t *array_or_empty(const json_t *object, const char *key)
{
    json_t *v = json_object_get(object, key);
    return json_is_array(v) ? json_incref(v) : json_array();
}

static json_t *read_reasoning(const struct reader *r, json_t *item, const char *at)
{
    static const char *const keys[] = {"type", "id", "summary", "content", "status", NULL};
    char id[RESPONSE_ID + 8];
    if (json_is_string(json_object_get(item, "encrypted_content"))) {
        char name[AT];
        place(name, "%s.encrypted_content", at);
        (void)param_wrong(r->call, name, "this server has encrypted none and cannot read it");
        return NULL;
    }
    if (!keys_known(r->call, item, at, keys) || !texts_known(r, item, at, "content", "reasoning_text") || !texts_known(r, item, at, "summary", "summary_text"))
        return NULL;
    item_id(r->ids, "rs_", id);
    return json_pack("{s:s, s:s, s:s, s:o, s:o}", "id", id, "type", "reasoning", "status", "completed", "summary", array_or_empty(item, "summary"),
                     "content", array_or_empty(item, "content"));
}

static json_t *find_item(const json_t *items, const char *id)
{
    json_t *item;
    size_t i;
    json_array_foreach (items, i, item) {
        const char *own = json_string_value(json_object_get(item, "id"));
        if (own && strcmp(own, id) == 0)
            return json_incref(item);
    }
    return NULL;
}

/* In the conversation, else in the response whose digits the id has. */
static json_t *read_reference(struct reader *r, json_t *item, const char *at)
{
    static const char *const keys[] = {"type", "id", NULL};
    const char *id = text_of(r->call, item, at, "id");
    char response[RESPONSE_ID] = "resp_", name[AT];
    if (!id || !keys_known(r->call, item, at, keys))
        return NULL;
    if (++r->n_references > REFERENCES_MAX) {
        (void)param_wrong(r->call, at, "at most %d references", REFERENCES_MAX);
        return NULL;
    }
    json_t *found = find_item(r->source->history, id);
    const char *digits = strchr(id, '_');
    if (!found && digits && strlen(digits + 1) == RESPONSE_DIGITS + 6) {
        memcpy(response + 5, digits + 1, RESPONSE_DIGITS);
        response[RESPONSE_ID - 1] = 0;
        const char *last = json_string_value(json_object_get(json_object_get(r->doc, "response"), "id"));
        if (!last || strcmp(last, response) != 0) {
            json_decref(r->doc);
            r->doc = store_find(r->source->store, response, r->source->tenant);
        }
        found = find_item(json_object_get(r->doc, "input"), id);
        if (!found)
            found = find_item(json_object_get(json_object_get(r->doc, "response"), "output"), id);
    }
    place(name, "%s.id", at);
    if (!found)
        call_error(r->call, 404, "invalid_request_error", NULL, name,
                   "%s: there is no item '%.80s'. Items of responses with \"store\": false are not kept", name, id);
    return found;
}

static json_t *read_item(struct reader *r, json_t *item)
{
    char at[AT], name[AT];
    place(at, "input[%zu]", r->index);
    if (!json_is_object(item)) {
        (void)param_wrong(r->call, at, "must be an object");
        return NULL;
    }
    const json_t *type = json_object_get(item, "type");
    const char *kind = json_string_value(type);
    place(name, "%s.type", at);
    if (type && !json_is_null(type) && !kind) {
        (void)param_wrong(r->call, name, "must be a string");
        return NULL;
    }
    if (!kind)
        kind = json_object_get(item, "role") || !json_object_get(item, "id") ? "message" : "item_reference";
    if (strcmp(kind, "message") == 0)
        return read_message(r, item, at);
    if (strcmp(kind, "reasoning") == 0)
        return read_reasoning(r, item, at);
    if (strcmp(kind, "item_reference") == 0)
        return read_reference(r, item, at);
    (void)param_wrong(r->call, name, "'%.40s': this server takes messages, reasoning and item_reference", kind);
    return NULL;
}

json_t *items_read(struct call *call, json_t *input, struct item_ids *ids, const struct item_source *source)
{
    struct reader r = {.call = call, .ids = ids, .source = source};
    json_t *items = json_array();
    if (json_is_string(input)) {
        char id[RESPONSE_ID + 8];
        item_id(ids, "msg_", id);
        (void)json_array_append_new(items, json_pack("{s:s, s:s, s:s, s:s, s:[o]}", "id", id, "type", "message", "status", "completed", "role", "user",
                                                     "content", text_part(false, input)));
        return items;
    }
    bool ok = json_is_array(input) || param_wrong(call, "input", "must be a string or an array of items");
    if (ok && json_array_size(input) > ITEMS_MAX)
        ok = param_wrong(call, "input", "at most %d items", ITEMS_MAX);
    for (; ok && r.index < json_array_size(input); r.index++) {
        json_t *item = read_item(&r, json_array_get(input, r.index));
        ok = item != NULL;
        if (item)
            (void)json_array_append_new(items, item);
    }
    json_decref(r.doc);
    if (ok)
        return items;
    json_decref(items);
    return NULL;
}

/* ---- Messages for a template ------------------------------------------------------------------------------------- */

static const json_t *item_at(const json_t *history, const json_t *input, size_t i)
{
    size_t before = json_array_size(history);
    return i < before ? json_array_get(history, i) : json_array_get(input, i - before);
}

static const char *string_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* The texts of [{type, text}], a newline between them. NULL: out of memory. */
static json_t *content_of(const json_t *parts)
{
    struct bytes all = {0};
    json_t *part;
    size_t i;
    json_array_foreach (parts, i, part) {
        const json_t *text = json_object_get(part, "text");
        if (!text)
            text = json_object_get(part, "refusal");
        if (i)
            bytes_puts(&all, "\n");
        bytes_put(&all, json_string_value(text), json_string_length(text));
    }
    json_t *out = all.failed ? NULL : json_stringn(all.data ? all.data : "", all.len);
    bytes_free(&all);
    return out;
}

static bool is_system(const char *role)
{
    return strcmp(role, "system") == 0 || strcmp(role, "developer") == 0;
}

static json_t *joined(const json_t *a, const json_t *b)
{
    struct bytes all = {0};
    bytes_put(&all, json_string_value(a), json_string_length(a));
    bytes_puts(&all, "\n\n");
    bytes_put(&all, json_string_value(b), json_string_length(b));
    json_t *out = all.failed ? NULL : json_stringn(all.data, all.len);
    bytes_free(&all);
    return out;
}

/* Steals content. false: out of memory. */
static bool add_message(json_t *messages, const char *role, json_t *content, json_t *reasoning)
{
    json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    if (content && json_array_size(messages) == 1 && is_system(string_at(last, "role")) && is_system(role)) {
        bool ok = json_object_set_new(last, "content", joined(json_object_get(last, "content"), content)) == 0;
        json_decref(content);
        return ok;
    }
    json_t *message = json_pack("{s:s, s:o}", "role", role, "content", content);
    if (reasoning)
        (void)json_object_set(message, "reasoning_content", reasoning);
    return json_array_append_new(messages, message) == 0;
}

json_t *items_messages(const char *instructions, const json_t *history, const json_t *input, size_t first)
{
    json_t *messages = json_array(), *reasoning = NULL;
    size_t n = json_array_size(history) + json_array_size(input);
    bool ok = messages && (!instructions || add_message(messages, "system", json_string(instructions), NULL));
    for (size_t i = first; ok && i < n; i++) {
        const json_t *item = item_at(history, input, i);
        const char *role = string_at(item, "role");
        if (strcmp(string_at(item, "type"), "reasoning") == 0) {
            json_decref(reasoning);
            reasoning = content_of(json_object_get(item, "content"));
            ok = reasoning != NULL;
            continue;
        }
        bool answer = strcmp(role, "assistant") == 0;
        if (reasoning && !answer) /* an answer that ended while it reasoned */
            ok = add_message(messages, "assistant", json_string(""), reasoning);
        ok = ok && add_message(messages, role, content_of(json_object_get(item, "content")), answer ? reasoning : NULL);
        json_decref(reasoning);
        reasoning = NULL;
    }
    if (ok && reasoning)
        ok = add_message(messages, "assistant", json_string(""), reasoning);
    json_decref(reasoning);
    if (ok)
        return messages;
    json_decref(messages);
    return NULL;
}

bool items_may_begin(const json_t *history, const json_t *input, size_t at)
{
    return strcmp(string_at(item_at(history, input, at), "role"), "user") == 0;
}
