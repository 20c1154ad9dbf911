#include "anthropic.h"

#include <stdio.h>
#include <string.h>

#include "bytes.h"
#include "options.h"
#include "reasoning.h"

enum { PLACE = 96, MAX_MESSAGES = 100000, MIN_BUDGET = 1024 };

static const struct param messages_params[] = {
    {"max_tokens", PARAM_TAKEN},
    {"messages", PARAM_TAKEN},
    {"system", PARAM_TAKEN},
    {"stop_sequences", PARAM_TAKEN},
    {"thinking", PARAM_TAKEN},
    {"cache_control", PARAM_TAKEN},
    {"output_config", PARAM_TAKEN},
    {"service_tier", PARAM_TAKEN},
    {"speed", PARAM_TAKEN},
    {"tool_choice", PARAM_TAKEN},
    {"metadata", PARAM_TAKEN},
    {"chat_template_kwargs", PARAM_TAKEN},
    {"user_profile_id", PARAM_NO_EFFECT},
    {"tools", PARAM_REFUSED},
    {"container", PARAM_REFUSED},
    {"mcp_servers", PARAM_REFUSED},
    {"context_management", PARAM_REFUSED},
    {"diagnostics", PARAM_REFUSED},
    {"inference_geo", PARAM_REFUSED},
    {"output_format", PARAM_REFUSED},
    {"compaction", PARAM_REFUSED},
    {"fallbacks", PARAM_REFUSED},
    {"fallback_credit_token", PARAM_REFUSED},
    {"billing_policy", PARAM_REFUSED},
    {"thread", PARAM_REFUSED},
    {NULL, PARAM_TAKEN},
};

/* Always false, as param_wrong is. */
static bool no_memory(struct call *call)
{
    call_error(call, 500, "api_error", NULL, NULL, "out of memory");
    return false;
}

static bool given(const json_t *value)
{
    return value && !json_is_null(value);
}

/* ---- Content ---- */

/* What becomes of one message, or of the system prompt. */
struct content {
    struct bytes text;
    struct bytes reasoning;
    struct bytes moved; /* lines of the system prompt that go to its end */
    size_t last, hour;  /* where breakpoints lie in text */
    bool has_last, has_hour;
};

static void content_free(struct content *c)
{
    bytes_free(&c->text);
    bytes_free(&c->reasoning);
    bytes_free(&c->moved);
}

/* Blocks stand on lines of their own. */
static void put_block(struct bytes *t, const char *bytes, size_t n)
{
    if (t->len && n)
        bytes_puts(t, "\n");
    bytes_put(t, bytes, n);
}

static bool only_keys(struct call *call, const json_t *object, const char *place, const char *const *keys)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        size_t i = 0;
        while (keys[i] && strcmp(keys[i], key) != 0)
            i++;
        if (!keys[i])
            return param_wrong(call, place, "%.64s: extra inputs are not permitted", key);
    }
    return true;
}

/* A string that a block must have. */
static const char *field(struct call *call, const json_t *block, const char *place, const char *name, size_t *len)
{
    json_t *value = json_object_get(block, name);
    if (!json_is_string(value)) {
        char at[PLACE + 32];
        (void)snprintf(at, sizeof at, "%s.%s", place, name);
        param_wrong(call, at, value ? "must be a string" : "field required");
        return NULL;
    }
    *len = json_string_length(value);
    return json_string_value(value);
}

/* {"type": "ephemeral", "ttl": "5m" or "1h"}. */
static bool read_cache_control(struct call *call, const json_t *value, const char *place, bool *hour)
{
    static const char *const keys[] = {"type", "ttl", NULL};
    char at[PLACE + 32];
    (void)snprintf(at, sizeof at, "%s%scache_control", place, *place ? "." : "");
    *hour = false;
    if (!json_is_object(value))
        return param_wrong(call, at, "must be an object");
    const char *type = json_string_value(json_object_get(value, "type"));
    if (!type || strcmp(type, "ephemeral") != 0)
        return param_wrong(call, at, "type must be \"ephemeral\"");
    const json_t *ttl = json_object_get(value, "ttl");
    const char *text = json_string_value(ttl);
    if (given(ttl) && (!text || (strcmp(text, "5m") != 0 && strcmp(text, "1h") != 0)))
        return param_wrong(call, at, "ttl must be \"5m\" or \"1h\"");
    *hour = text && strcmp(text, "1h") == 0;
    return only_keys(call, value, at, keys);
}

static void mark(struct content *c, bool hour)
{
    c->last = c->text.len;
    c->has_last = true;
    if (hour) {
        c->hour = c->text.len;
        c->has_hour = true;
    }
}

/* The leading lines of a block that begin with one of --move-header's prefixes go aside: bytes. */
static size_t move_lines(const struct server *server, struct content *c, const char *text, size_t len)
{
    size_t at = 0;
    while (at < len) {
        size_t i = 0, end = at;
        while (i < server->options->move_headers.n) {
            size_t n = strlen(server->options->move_headers.items[i]);
            if (n <= len - at && memcmp(text + at, server->options->move_headers.items[i], n) == 0)
                break;
            i++;
        }
        if (i == server->options->move_headers.n)
            break;
        while (end < len && text[end] != '\n')
            end++;
        put_block(&c->moved, text + at, end - at);
        at = end < len ? end + 1 : len;
    }
    return at;
}

static bool read_text_block(struct server *server, struct call *call, const json_t *block, const char *place, bool system, struct content *c)
{
    static const char *const keys[] = {"type", "text", "cache_control", "citations", NULL};
    size_t len, skip = 0;
    bool hour;
    const char *text = field(call, block, place, "text", &len);
    const json_t *cache = json_object_get(block, "cache_control"), *citations = json_object_get(block, "citations");
    if (!text || !only_keys(call, block, place, keys))
        return false;
    if (len == 0)
        return param_wrong(call, place, "text content blocks must be non-empty");
    if (given(citations) && !(json_is_array(citations) && json_array_size(citations) == 0))
        return param_wrong(call, place, "citations: this server has none");
    if (system)
        skip = move_lines(server, c, text, len);
    put_block(&c->text, text + skip, len - skip);
    if (given(cache)) {
        if (!read_cache_control(call, cache, place, &hour))
            return false;
        mark(c, hour);
    }
    return true;
}

/* Reasoning of earlier turns goes to the template, which shows it or not. What is redacted nobody can show. */
static bool read_thinking_block(struct call *call, const json_t *block, const char *place, bool redacted, struct content *c)
{
    static const char *const plain[] = {"type", "thinking", "signature", NULL}, *const hidden[] = {"type", "data", NULL};
    size_t len;
    const char *text = field(call, block, place, redacted ? "data" : "thinking", &len);
    if (!text || !only_keys(call, block, place, redacted ? hidden : plain))
        return false;
    if (!redacted && !field(call, block, place, "signature", &(size_t){0}))
        return false;
    if (!redacted)
        put_block(&c->reasoning, text, len);
    return true;
}

static bool read_block(struct server *server, struct call *call, const json_t *block, const char *place, const char *role, struct content *c)
{
    size_t len;
    if (!json_is_object(block))
        return param_wrong(call, place, "must be an object");
    const char *type = field(call, block, place, "type", &len);
    if (!type)
        return false;
    if (strcmp(type, "text") == 0)
        return read_text_block(server, call, block, place, strcmp(role, "system") == 0, c);
    bool redacted = strcmp(type, "redacted_thinking") == 0;
    if (strcmp(role, "assistant") == 0 && (redacted || strcmp(type, "thinking") == 0))
        return read_thinking_block(call, block, place, redacted, c);
    enum { N_NEVER = 7 };
    static const char *const known[] = {"image", "document", "search_result", "tool_use", "tool_result", "server_tool_use", "container_upload",
                                        "thinking", "redacted_thinking"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(type, known[i]) == 0)
            return param_wrong(call, place, "blocks of type %s are not supported%s%s", type, i < N_NEVER ? "" : " in a message of role ", i < N_NEVER ? "" : role);
    return param_wrong(call, place, "unknown type of block: %.64s", type);
}

/* A string or blocks. */
static bool read_content(struct server *server, struct call *call, const json_t *value, const char *place, const char *role, struct content *c)
{
    char at[PLACE];
    size_t i;
    json_t *block;
    if (json_is_string(value)) {
        const char *text = json_string_value(value);
        size_t len = json_string_length(value), skip = 0;
        if (strcmp(role, "system") == 0)
            skip = move_lines(server, c, text, len);
        bytes_put(&c->text, text + skip, len - skip);
    } else if (json_is_array(value)) {
        json_array_foreach(value, i, block) {
            (void)snprintf(at, sizeof at, "%s.%zu", place, i);
            if (!read_block(server, call, block, at, role, c))
                return false;
        }
    } else
        return param_wrong(call, place, value ? "must be a string or an array of blocks" : "field required");
    if (c->moved.len)
        put_block(&c->text, c->moved.data, c->moved.len);
    if (c->text.failed || c->reasoning.failed || c->moved.failed)
        return no_memory(call);
    return true;
}

/* ---- Messages ---- */

static void set_break(struct anthropic_break *b, size_t message, size_t offset)
{
    *b = (struct anthropic_break){true, message, offset};
}

static bool put_string(json_t *object, const char *key, const struct bytes *before, const struct bytes *t)
{
    struct bytes joined = {0};
    put_block(&joined, before->data, before->len);
    put_block(&joined, t->data, t->len);
    json_t *value = joined.failed ? NULL : json_stringn(joined.len ? joined.data : "", joined.len);
    bytes_free(&joined);
    return json_object_set_new(object, key, value) == 0;
}

/* Adds a message, or what it says to the one before when both are of the same side: the API's rule that turns of one side are one turn. */
static bool add_message(struct call *call, struct anthropic_request *r, const char *role, const struct content *c)
{
    size_t n = json_array_size(r->messages);
    json_t *message = n ? json_array_get(r->messages, n - 1) : NULL;
    const char *last = json_string_value(json_object_get(message, "role"));
    struct bytes text = {0}, reasoning = {0}; /* borrow what the message holds */
    if (last && strcmp(last, role) == 0 && strcmp(role, "system") != 0) {
        json_t *value = json_object_get(message, "content"), *thought = json_object_get(message, "reasoning_content");
        text = (struct bytes){(char *)json_string_value(value), json_string_length(value), 0, false};
        reasoning = (struct bytes){(char *)json_string_value(thought), json_string_length(thought), 0, false};
        n--;
    } else {
        message = json_pack("{s:s}", "role", role);
        if (!message || json_array_append_new(r->messages, message) != 0)
            return no_memory(call);
    }
    size_t shift = text.len && c->text.len ? text.len + 1 : text.len;
    if (c->has_last)
        set_break(&r->last, n, shift + c->last);
    if (c->has_hour)
        set_break(&r->last_hour, n, shift + c->hour);
    if (!put_string(message, "content", &text, &c->text) ||
        ((reasoning.len || c->reasoning.len) && !put_string(message, "reasoning_content", &reasoning, &c->reasoning)))
        return no_memory(call);
    return true;
}

static bool read_system(struct server *server, struct call *call, const json_t *value, struct anthropic_request *r)
{
    struct content c = {0};
    bool ok = !given(value) || (read_content(server, call, value, "system", "system", &c) &&
                                (c.text.len == 0 || add_message(call, r, "system", &c)));
    content_free(&c);
    return ok;
}

static bool ends_in_space(const struct bytes *t)
{
    return t->len && strchr(" \t\r\n\v\f", t->data[t->len - 1]);
}

static bool read_message(struct server *server, struct call *call, const json_t *value, size_t index, bool final, struct anthropic_request *r)
{
    static const char *const keys[] = {"role", "content", NULL};
    char place[PLACE], at[PLACE];
    size_t len;
    struct content c = {0};
    (void)snprintf(place, sizeof place, "messages.%zu", index);
    (void)snprintf(at, sizeof at, "messages.%zu.content", index);
    if (!json_is_object(value))
        return param_wrong(call, place, "must be an object");
    const char *role = field(call, value, place, "role", &len);
    if (!role || !only_keys(call, value, place, keys))
        return false;
    bool assistant = strcmp(role, "assistant") == 0;
    if (!assistant && strcmp(role, "user") != 0 && strcmp(role, "system") != 0)
        return param_wrong(call, place, "role must be \"user\", \"assistant\" or \"system\"");
    bool ok = read_content(server, call, json_object_get(value, "content"), at, role, &c);
    if (ok && c.text.len == 0 && c.reasoning.len == 0 && !(assistant && final)) {
        param_wrong(call, place, "all messages must have non-empty content except for the optional final assistant message");
        ok = false;
    }
    if (ok && assistant && final && ends_in_space(&c.text)) {
        param_wrong(call, "messages", "final assistant content cannot end with trailing whitespace");
        ok = false;
    }
    if (ok && (c.text.len || c.reasoning.len)) {
        ok = add_message(call, r, role, &c);
        r->prefill = assistant && final && c.text.len;
    }
    content_free(&c);
    return ok;
}

static bool read_messages(struct server *server, struct call *call, const json_t *value, struct anthropic_request *r)
{
    size_t i, n = json_array_size(value);
    json_t *message;
    if (!json_is_array(value))
        return param_wrong(call, "messages", value ? "must be an array" : "field required");
    if (n == 0 || n > MAX_MESSAGES)
        return param_wrong(call, "messages", n ? "at most 100,000 messages are allowed" : "at least one message is required");
    json_array_foreach(value, i, message)
        if (!read_message(server, call, message, i, i + 1 == n, r))
            return false;
    return true;
}

/* ---- Other parameters ---- */

static bool template_reasons(const struct server *server)
{
    const char *text;
    uint64_t len;
    infer_template_text(server->tmpl, &text, &len);
    return chat_template_has(server, "enable_thinking") || reasoning_find(text, (size_t)len).open;
}

/* Templates call the switch one or the other. */
static bool switch_thinking(struct anthropic_request *r, bool on)
{
    return json_object_set_new(r->kwargs, "enable_thinking", json_boolean(on)) == 0 &&
           json_object_set_new(r->kwargs, "thinking", json_boolean(on)) == 0;
}

static bool read_budget(struct call *call, const json_t *thinking, bool counting, struct anthropic_request *r)
{
    uint64_t budget = 0;
    const json_t *value = json_object_get(thinking, "budget_tokens");
    if (!json_is_integer(value) || json_integer_value(value) < MIN_BUDGET)
        return param_wrong(call, "thinking.enabled.budget_tokens", given(value) ? "must be an integer of at least 1024" : "field required");
    budget = (uint64_t)json_integer_value(value);
    if (!counting && budget >= r->max_tokens)
        return param_wrong(call, "max_tokens", "must be greater than thinking.budget_tokens");
    r->thinking_budget = budget;
    return true;
}

static bool read_thinking(struct server *server, struct call *call, const json_t *value, bool counting, struct anthropic_request *r)
{
    static const char *const keys[] = {"type", "budget_tokens", "display", NULL};
    if (!given(value))
        return true;
    const char *type = json_string_value(json_object_get(value, "type"));
    const json_t *display = json_object_get(value, "display");
    const char *shown = json_string_value(display);
    if (!type)
        return param_wrong(call, "thinking.type", "field required");
    if (!only_keys(call, value, "thinking", keys))
        return false;
    bool enabled = strcmp(type, "enabled") == 0, adaptive = strcmp(type, "adaptive") == 0;
    if (!enabled && !adaptive && strcmp(type, "disabled") != 0 && strcmp(type, "between_tools") != 0)
        return param_wrong(call, "thinking.type", "must be \"enabled\", \"disabled\", \"adaptive\" or \"between_tools\"");
    if (given(display) && (!shown || (strcmp(shown, "summarized") != 0 && strcmp(shown, "omitted") != 0)))
        return param_wrong(call, "thinking.display", "must be \"summarized\" or \"omitted\"");
    r->hide_thinking = shown && strcmp(shown, "omitted") == 0;
    if (enabled && !template_reasons(server))
        return param_wrong(call, "thinking.type", "the chat template of this model knows no reasoning: \"enabled\" is not possible");
    if (enabled && !read_budget(call, value, counting, r))
        return false;
    if (!switch_thinking(r, enabled || adaptive))
        return no_memory(call);
    return true;
}

/* effort goes to templates that ask for it. format would need structured output. */
static bool read_output_config(struct server *server, struct call *call, const json_t *value, struct anthropic_request *r)
{
    static const char *const keys[] = {"effort", "format", NULL}, *const efforts[] = {"low", "medium", "high", "xhigh", "max", NULL};
    if (!given(value))
        return true;
    if (!json_is_object(value))
        return param_wrong(call, "output_config", "must be an object");
    if (!only_keys(call, value, "output_config", keys))
        return false;
    if (given(json_object_get(value, "format")))
        return param_wrong(call, "output_config.format", "not supported by this server: it has no structured output");
    const json_t *effort = json_object_get(value, "effort");
    size_t i = 0;
    while (given(effort) && efforts[i] && !(json_is_string(effort) && strcmp(efforts[i], json_string_value(effort)) == 0))
        i++;
    if (!efforts[i])
        return param_wrong(call, "output_config.effort", "must be \"low\", \"medium\", \"high\", \"xhigh\" or \"max\"");
    if (given(effort) && chat_template_has(server, "reasoning_effort") &&
        json_object_set_new(r->kwargs, "reasoning_effort", json_string(efforts[i < 2 ? i : 2])) != 0)
        return no_memory(call);
    return true;
}

static bool read_stops(struct call *call, const json_t *body, struct anthropic_request *r)
{
    json_t *list = json_object_get(body, "stop_sequences"), *stop;
    size_t i;
    char place[PLACE];
    if (!given(list))
        return true;
    if (!json_is_array(list) || json_array_size(list) > PARAMS_STOPS)
        return param_wrong(call, "stop_sequences", "must be an array of at most %d strings", PARAMS_STOPS);
    json_array_foreach(list, i, stop) {
        (void)snprintf(place, sizeof place, "stop_sequences.%zu", i);
        size_t len = json_string_length(stop);
        if (!json_is_string(stop) || len > 1024)
            return param_wrong(call, place, "must be a string of at most 1024 bytes");
        if (strspn(json_string_value(stop), " \t\r\n\v\f") == len)
            return param_wrong(call, place, "each stop sequence must contain non-whitespace");
    }
    r->stops = list;
    return true;
}

/* One of words, or absent. */
static bool read_word(struct call *call, const json_t *body, const char *name, const char *const *words)
{
    const json_t *value = json_object_get(body, name);
    if (!given(value))
        return true;
    for (size_t i = 0; words[i]; i++)
        if (json_is_string(value) && strcmp(words[i], json_string_value(value)) == 0)
            return true;
    return param_wrong(call, name, "\"%s\" is the only value that this server knows", words[0]);
}

static bool read_small(struct call *call, const json_t *body)
{
    static const char *const tiers[] = {"auto", "standard_only", NULL}, *const speeds[] = {"standard", NULL};
    static const char *const metadata_keys[] = {"user_id", NULL}, *const choice_keys[] = {"type", "disable_parallel_tool_use", NULL};
    const json_t *metadata = json_object_get(body, "metadata"), *choice = json_object_get(body, "tool_choice");
    double ignored = 0;
    uint64_t one = 1, top_k = 0;
    if (given(json_object_get(body, "stop")))
        return param_wrong(call, "stop", "this API calls it stop_sequences");
    if (!param_uint(call, body, "n", 1, 1, &one) || !param_uint(call, body, "top_k", 0, INT32_MAX, &top_k) ||
        !read_word(call, body, "service_tier", tiers) || !read_word(call, body, "speed", speeds) ||
        !param_number(call, body, "temperature", 0, 1, &ignored))
        return false;
    if (given(metadata) && !json_is_object(metadata))
        return param_wrong(call, "metadata", "must be an object");
    if (given(metadata) && !only_keys(call, metadata, "metadata", metadata_keys))
        return false;
    if (!given(choice))
        return true;
    /* Without tools "auto" and "none" mean nothing. */
    const char *type = json_string_value(json_object_get(choice, "type"));
    if (!type || (strcmp(type, "auto") != 0 && strcmp(type, "none") != 0))
        return param_wrong(call, "tool_choice", "not supported by this server: it has no tools");
    return only_keys(call, choice, "tool_choice", choice_keys);
}

static bool read_kwargs(struct call *call, const json_t *body, struct anthropic_request *r)
{
    json_t *value = json_object_get(body, "chat_template_kwargs");
    if (!given(value))
        return true;
    if (!json_is_object(value))
        return param_wrong(call, "chat_template_kwargs", "must be an object");
    if (json_object_update(r->kwargs, value) != 0)
        return no_memory(call);
    return true;
}

/* cache_control of the whole request: as if the last block had it. */
static bool read_automatic_break(struct call *call, const json_t *body, struct anthropic_request *r)
{
    const json_t *value = json_object_get(body, "cache_control");
    bool hour;
    if (!given(value))
        return true;
    if (!read_cache_control(call, value, "", &hour))
        return false;
    size_t n = json_array_size(r->messages);
    size_t len = json_string_length(json_object_get(json_array_get(r->messages, n - 1), "content"));
    if (n) {
        set_break(&r->last, n - 1, len);
        if (hour)
            set_break(&r->last_hour, n - 1, len);
    }
    return true;
}

static bool read_max_tokens(struct call *call, const json_t *body, bool counting, struct anthropic_request *r)
{
    const char *model = NULL;
    if (!param_string(call, body, "model", &model))
        return false;
    if (!model)
        return param_wrong(call, "model", "field required");
    r->max_tokens = UINT64_MAX;
    if (!param_uint(call, body, "max_tokens", 0, UINT32_MAX, &r->max_tokens))
        return false;
    if (r->max_tokens == UINT64_MAX && !counting)
        return param_wrong(call, "max_tokens", "field required");
    return true;
}

bool anthropic_read(struct server *server, struct call *call, const json_t *body, bool counting, struct anthropic_request *r)
{
    *r = (struct anthropic_request){.messages = json_array(), .kwargs = json_object()};
    if (!r->messages || !r->kwargs)
        (void)no_memory(call);
    else if (params_check(call, body, messages_params, true) && read_max_tokens(call, body, counting, r) && read_small(call, body) &&
        read_stops(call, body, r) && read_thinking(server, call, json_object_get(body, "thinking"), counting, r) &&
        read_output_config(server, call, json_object_get(body, "output_config"), r) && read_kwargs(call, body, r) &&
        read_system(server, call, json_object_get(body, "system"), r) &&
        read_messages(server, call, json_object_get(body, "messages"), r) && read_automatic_break(call, body, r))
        return true;
    anthropic_free(r);
    return false;
}

void anthropic_free(struct anthropic_request *r)
{
    json_decref(r->messages);
    json_decref(r->kwargs);
    *r = (struct anthropic_request){0};
}
