/* Conversations to tokens, as infer_session_append_chat makes them, but safe against what strangers write: control tokens come from the template alone.
 *
 * What a client sends is searched for spellings of control tokens. Each gets a mark behind its first character: a noncharacter of Unicode that nothing
 * else has in this conversation. The marked text goes through the template; what comes out is cut at the marks, and the pieces are tokenized one by
 * one. So the spelling reaches the model as the plain text that it is, and a conversation without any is tokenized as ever. */
#define _DEFAULT_SOURCE /* tm_gmtoff under every _POSIX_C_SOURCE */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "params.h"
#include "reasoning.h"

#define MARK_BYTES 3  /* U+FDD0 to U+FDEF: EF B7 90 to EF B7 AF */
#define MARK_COUNT 32
#define PASSES 16     /* a mark may show a spelling that another one covered */

struct guard {
    struct server *server;
    struct call *call;
    char mark[MARK_BYTES + 1];
    struct reasoning_tags tags;
    bool tags_allowed;    /* in an assistant's message: the template looks for them */
    char at[64];          /* of what is at hand: "messages[3].content" */
};

/* ---- Marks ------------------------------------------------------------------------------------------------------------- */

static bool no_memory(struct call *call)
{
    call_error(call, 500, NULL, NULL, NULL, "out of memory");
    return false;
}

/* The first mark that text has not. */
static bool choose_mark(struct guard *g, const char *text)
{
    memcpy(g->mark, "\xEF\xB7\x90", MARK_BYTES + 1);
    for (int i = 0; i < MARK_COUNT; i++, g->mark[2]++)
        if (!strstr(text, g->mark))
            return true;
    return param_wrong(g->call, "messages", "has all 32 noncharacters of Unicode from U+FDD0 on: one has to be free");
}

static const char *find_bytes(const char *text, size_t len, const char *word, size_t n)
{
    for (const char *at = text, *end = text + len; n && (size_t)(end - at) >= n; at++) {
        at = memchr(at, word[0], (size_t)(end - at) - n + 1);
        if (!at || memcmp(at, word, n) == 0)
            return at;
    }
    return NULL;
}

static bool is_word(const infer_token_info *t, const char *word)
{
    return word && strlen(word) == t->piece_len && memcmp(t->piece, word, t->piece_len) == 0;
}

/* Whether a token means something to the model's turns: control tokens, and what the template writes as such although the file calls it text. */
static bool is_structure(const struct guard *g, const infer_token_info *t)
{
    const char *text;
    uint64_t len;
    if (g->tags_allowed && (is_word(t, g->tags.open) || is_word(t, g->tags.close)))
        return false;
    if (t->kind == INFER_TOKEN_CONTROL || t->ends_turn)
        return true;
    if (t->kind != INFER_TOKEN_USER_DEFINED || t->piece_len < 3 || !strchr("<[", t->piece[0]) || !strchr(">]", t->piece[t->piece_len - 1]))
        return false;
    infer_template_text(g->server->tmpl, &text, &len);
    return find_bytes(text, (size_t)len, t->piece, (size_t)t->piece_len) != NULL;
}

/* Puts the mark behind the first character of each place that has word. *text is replaced. false: out of memory. */
static bool mark_word(const struct guard *g, char **text, size_t *len, const char *word, size_t n, bool *found)
{
    size_t first = 1, count = 0, to = 0, from = 0;
    while (first < n && ((unsigned char)word[first] & 0xC0) == 0x80)
        first++;
    for (const char *at = *text; (at = find_bytes(at, *len - (size_t)(at - *text), word, n)); at += n)
        count++;
    *found = count > 0;
    if (!count)
        return true;
    char *marked = malloc(*len + count * MARK_BYTES + 1);
    if (!marked)
        return false;
    for (const char *at = *text; (at = find_bytes(at, *len - (size_t)(at - *text), word, n)); at += n) {
        size_t end = (size_t)(at - *text) + first;
        memcpy(marked + to, *text + from, end - from);
        memcpy(marked + to + (end - from), g->mark, MARK_BYTES);
        to += end - from + MARK_BYTES;
        from = end;
    }
    memcpy(marked + to, *text + from, *len - from + 1);
    *len += count * MARK_BYTES;
    free(*text);
    *text = marked;
    return true;
}

/* The ids of text with control tokens parsed; free(). NULL: answered. */
static int32_t *tokens_of(struct server *server, struct call *call, const char *text, size_t len, uint64_t *count)
{
    infer_error err;
    INFER_INIT(&err);
    uint64_t room = len / 2 + 16;
    for (;;) {
        int32_t *ids = malloc(room * sizeof *ids);
        if (!ids) {
            (void)no_memory(call);
            return NULL;
        }
        infer_status st = infer_tokenize(server->tokenizer, text, len, INFER_TOKENIZE_PARSE_SPECIAL, ids, room, count, &err);
        if (st == INFER_OK)
            return ids;
        free(ids);
        if (st != INFER_ERROR_BUFFER || *count <= room) {
            call_status(call, st, &err, "messages");
            return NULL;
        }
        room = *count;
    }
}

static bool seen_before(const int32_t *ids, uint64_t i)
{
    uint64_t k = 0;
    while (ids[k] != ids[i])
        k++;
    return k < i;
}

/* One look at the text: marks what its structure tokens are spelled as. *clean: there were none. One that is not found shows again in the next pass,
 * unless another one's mark has broken it. */
static bool mark_pass(const struct guard *g, char **text, size_t *len, bool *clean)
{
    uint64_t n = 0;
    bool ok = true;
    infer_tokenizer_info special;
    INFER_INIT(&special);
    (void)infer_tokenizer_get_info(g->server->tokenizer, &special, NULL);
    int32_t *ids = tokens_of(g->server, g->call, *text, *len, &n);
    if (!ids)
        return false;
    *clean = true;
    for (uint64_t i = 0; ok && i < n; i++) {
        infer_token_info t;
        bool found = false;
        INFER_INIT(&t);
        if (ids[i] == special.unk || infer_tokenizer_token(g->server->tokenizer, ids[i], &t, NULL) != INFER_OK || !is_structure(g, &t) ||
            seen_before(ids, i))
            continue;
        *clean = false;
        ok = mark_word(g, text, len, t.bytes, (size_t)t.bytes_len, &found) &&
             (found || mark_word(g, text, len, t.piece, (size_t)t.piece_len, &found));
        if (!ok)
            (void)no_memory(g->call);
    }
    free(ids);
    return ok;
}

static json_t *guard_string(const struct guard *g, const json_t *value)
{
    size_t len = json_string_length(value);
    char *text = malloc(len + 1);
    bool ok = text != NULL, clean = false;
    if (!text) {
        (void)no_memory(g->call);
        return NULL;
    }
    memcpy(text, json_string_value(value), len + 1);
    for (int i = 0; ok && !clean && i < PASSES; i++)
        ok = mark_pass(g, &text, &len, &clean);
    if (ok && !clean)
        ok = param_wrong(g->call, g->at, "has control tokens that cannot be told from text");
    json_t *out = ok ? json_stringn(text, len) : NULL;
    if (ok && !out)
        (void)no_memory(g->call);
    free(text);
    return out;
}

/* ---- Messages and variables ---------------------------------------------------------------------------------------------- */

static json_t *guard_value(const struct guard *g, json_t *value);

static bool guard_put(const struct guard *g, json_t *copy, const char *key, json_t *item)
{
    json_t *v = guard_value(g, item);
    if (!v)
        return false;
    return (key ? json_object_set_new(copy, key, v) : json_array_append_new(copy, v)) == 0 || no_memory(g->call);
}

/* A copy in which every string is guarded. NULL: answered. */
static json_t *guard_value(const struct guard *g, json_t *value)
{
    if (json_is_string(value))
        return guard_string(g, value);
    json_t *copy = json_is_object(value) ? json_object() : json_is_array(value) ? json_array() : json_incref(value), *item;
    const char *key;
    size_t i;
    bool ok = copy || no_memory(g->call);
    json_object_foreach (value, key, item)
        ok = ok && guard_put(g, copy, key, item);
    json_array_foreach (value, i, item)
        ok = ok && guard_put(g, copy, NULL, item);
    if (ok)
        return copy;
    json_decref(copy);
    return NULL;
}

/* The text of a part; NULL: answered. */
static json_t *part_text(const struct guard *g, const json_t *part, size_t index)
{
    char at[96];
    const char *type = json_string_value(json_object_get(part, "type"));
    snprintf(at, sizeof at, "%s[%zu]", g->at, index);
    if (!json_is_object(part) || !type)
        (void)param_wrong(g->call, at, "must be an object with a type");
    else if (strcmp(type, "text") != 0 && strcmp(type, "refusal") != 0)
        (void)param_wrong(g->call, at, "parts of type '%s' are not supported: this model reads text", type);
    else if (!json_is_string(json_object_get(part, type)))
        (void)param_wrong(g->call, at, "must have a string '%s'", type);
    else
        return json_object_get(part, type);
    return NULL;
}

/* Parts as one string, joined by newlines. */
static json_t *join_parts(const struct guard *g, const json_t *parts)
{
    size_t i, len = 0;
    char *text = NULL;
    const json_t *part;
    json_array_foreach (parts, i, part) {
        const json_t *s = part_text(g, part, i);
        size_t n = json_string_length(s);
        char *longer = s ? realloc(text, len + n + 2) : NULL;
        if (!longer) {
            if (s)
                (void)no_memory(g->call);
            free(text);
            return NULL;
        }
        text = longer;
        if (i)
            text[len++] = '\n';
        memcpy(text + len, json_string_value(s), n);
        len += n;
    }
    json_t *joined = json_stringn(text ? text : "", len);
    free(text);
    if (!joined)
        (void)no_memory(g->call);
    return joined;
}

/* A message's content as a string: a new reference. NULL: answered. */
static json_t *content_of(const struct guard *g, const json_t *message, bool assistant)
{
    json_t *content = json_object_get(message, "content");
    if (json_is_string(content))
        return json_incref(content);
    if (json_is_array(content))
        return join_parts(g, content);
    if (assistant && (!content || json_is_null(content)))
        return json_string("");
    (void)param_wrong(g->call, g->at, content ? "must be a string or an array of parts" : "is missing");
    return NULL;
}

/* Roles and contents as templates read them; the rest as it is. A new reference. NULL: answered. */
static json_t *plain_message(const struct guard *g, const json_t *message, size_t index, bool developers)
{
    char at[64];
    snprintf(at, sizeof at, "messages[%zu]", index);
    const char *role = json_string_value(json_object_get(message, "role"));
    if (!json_is_object(message) || !role) {
        (void)param_wrong(g->call, at, "must be an object with a role and content");
        return NULL;
    }
    json_t *content = content_of(g, message, strcmp(role, "assistant") == 0), *copy = content ? json_copy((json_t *)message) : NULL;
    if (!content)
        return NULL;
    bool ok = copy && json_object_set_new(copy, "content", content) == 0;
    if (ok && !developers && strcmp(role, "developer") == 0)
        ok = json_object_set_new(copy, "role", json_string("system")) == 0;
    if (ok)
        return copy;
    json_decref(copy);
    (void)no_memory(g->call);
    return NULL;
}

static json_t *plain_messages(struct guard *g, const json_t *messages)
{
    json_t *out = json_array();
    const json_t *message;
    size_t i;
    bool developers = chat_template_has(g->server, "developer"), ok = out || no_memory(g->call);
    json_array_foreach (messages, i, message) {
        snprintf(g->at, sizeof g->at, "messages[%zu].content", i);
        json_t *m = ok ? plain_message(g, message, i, developers) : NULL;
        ok = m && (json_array_append_new(out, m) == 0 || no_memory(g->call));
    }
    if (ok)
        return out;
    json_decref(out);
    return NULL;
}

/* What may hold spellings, guarded; steals messages. NULL: answered. */
static json_t *guard_variables(struct guard *g, json_t *messages, json_t *kwargs)
{
    json_t *out = json_object(), *list = json_array(), *message;
    size_t i;
    bool ok = (out && json_object_set(out, "messages", list) == 0) || no_memory(g->call);
    json_array_foreach (messages, i, message) {
        const char *role = json_string_value(json_object_get(message, "role"));
        snprintf(g->at, sizeof g->at, "messages[%zu]", i);
        g->tags_allowed = g->tags.open && strcmp(role, "assistant") == 0;
        ok = ok && guard_put(g, list, NULL, message);
    }
    g->tags_allowed = false;
    snprintf(g->at, sizeof g->at, "chat_template_kwargs");
    const char *key;
    json_t *item;
    json_object_foreach (kwargs, key, item)
        ok = ok && guard_put(g, out, key, item);
    json_decref(list);
    json_decref(messages);
    if (ok)
        return out;
    json_decref(out);
    return NULL;
}

/* The spelling of a special token as a variable of the template. */
static bool put_token(const struct server *server, json_t *variables, const char *key, int32_t id)
{
    infer_token_info t;
    INFER_INIT(&t);
    if (id < 0 || infer_tokenizer_token(server->tokenizer, id, &t, NULL) != INFER_OK)
        return true;
    json_t *piece = json_stringn(t.piece, (size_t)t.piece_len); /* NULL: not UTF-8 */
    return !piece || json_object_set_new(variables, key, piece) == 0;
}

/* Everything that the template sees, as JSON text; free(). NULL: answered. */
static char *variables_text(struct guard *g, json_t *messages, json_t *kwargs, bool add_generation_prompt)
{
    infer_tokenizer_info special;
    INFER_INIT(&special);
    (void)infer_tokenizer_get_info(g->server->tokenizer, &special, NULL);
    json_t *plain = plain_messages(g, messages);
    if (!plain)
        return NULL;
    json_t *all = json_pack("[O,O?]", plain, kwargs);
    char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    json_decref(all);
    bool chosen = text ? choose_mark(g, text) : no_memory(g->call);
    free(text);
    if (!chosen) {
        json_decref(plain);
        return NULL;
    }
    json_t *variables = guard_variables(g, plain, kwargs);
    if (!variables)
        return NULL;
    if (!json_object_get(variables, "add_generation_prompt"))
        json_object_set_new(variables, "add_generation_prompt", json_boolean(add_generation_prompt));
    bool ok = put_token(g->server, variables, "bos_token", special.bos) && put_token(g->server, variables, "eos_token", special.eos);
    text = ok ? json_dumps(variables, JSON_COMPACT) : NULL;
    json_decref(variables);
    if (!text)
        (void)no_memory(g->call);
    return text;
}

/* ---- Rendering and tokenizing --------------------------------------------------------------------------------------------- */

static int64_t local_time(void)
{
    struct tm tm;
    time_t t = time(NULL);
    return localtime_r(&t, &tm) ? (int64_t)t + tm.tm_gmtoff : (int64_t)t;
}

/* free(). NULL: answered. */
static char *render(const struct guard *g, const char *variables, size_t *len)
{
    infer_error err;
    infer_render_options o;
    INFER_INIT(&err);
    INFER_INIT(&o);
    o.now = local_time();
    uint64_t room = strlen(variables) + 4096, n = 0;
    for (;;) {
        char *text = malloc((size_t)room + 1);
        if (!text) {
            (void)no_memory(g->call);
            return NULL;
        }
        infer_status st = infer_template_render(g->server->tmpl, variables, INFER_ZSTR, &o, text, room, &n, &err);
        if (st == INFER_OK) {
            text[n] = 0;
            *len = (size_t)n;
            return text;
        }
        free(text);
        if (st == INFER_ERROR_NO_MEMORY)
            (void)no_memory(g->call);
        else if (st != INFER_ERROR_BUFFER || n <= room)
            (void)param_wrong(g->call, "messages", "the model's chat template: %s", err.text);
        if (st != INFER_ERROR_BUFFER || n <= room)
            return NULL;
        room = n;
    }
}

/* The rendered text with its marks; free(). NULL: answered. */
static char *guarded_text(struct guard *g, json_t *messages, json_t *kwargs, bool add_generation_prompt, size_t *len)
{
    if (!g->server->tokenizer) {
        (void)param_wrong(g->call, "messages", "the model has no tokenizer: %s", g->server->info.tokenizer_problem);
        return NULL;
    }
    if (!json_is_array(messages) || !json_array_size(messages)) {
        (void)param_wrong(g->call, "messages", messages ? "must be an array with at least one message" : "is missing");
        return NULL;
    }
    if (json_object_get(kwargs, "messages")) {
        (void)param_wrong(g->call, "chat_template_kwargs.messages", "messages have their own parameter");
        return NULL;
    }
    char *variables = variables_text(g, messages, kwargs, add_generation_prompt);
    char *text = variables ? render(g, variables, len) : NULL;
    free(variables);
    return text;
}

static bool put_ids(const struct guard *g, const char *text, size_t len, struct chat_prompt *out)
{
    uint64_t n = 0;
    int32_t *ids = tokens_of(g->server, g->call, text, len, &n);
    if (!ids)
        return false;
    int32_t *longer = realloc(out->ids, (size_t)(out->n + n + 1) * sizeof *ids);
    if (longer) {
        memcpy(longer + out->n, ids, (size_t)n * sizeof *ids);
        out->ids = longer;
        out->n += n;
    }
    free(ids);
    return longer || no_memory(g->call);
}

/* BOS, unless the template has written it, and the pieces between marks. */
static bool tokenize(const struct guard *g, const char *text, size_t len, struct chat_prompt *out)
{
    infer_tokenizer_info special;
    INFER_INIT(&special);
    (void)infer_tokenizer_get_info(g->server->tokenizer, &special, NULL);
    const char *end = text + len;
    for (bool more = true; more;) {
        const char *mark = find_bytes(text, (size_t)(end - text), g->mark, MARK_BYTES);
        more = mark != NULL;
        if (!put_ids(g, text, (size_t)((more ? mark : end) - text), out))
            return false;
        if (more)
            text = mark + MARK_BYTES;
    }
    if (special.add_bos && special.bos >= 0 && !(out->n && out->ids[0] == special.bos)) {
        memmove(out->ids + 1, out->ids, (size_t)out->n * sizeof *out->ids); /* put_ids leaves room for one */
        out->ids[0] = special.bos;
        out->n++;
    }
    return true;
}

/* The last of these in text. */
static const char *find_last(const char *text, size_t len, const char *word)
{
    const char *last = NULL, *at = text;
    while ((at = find_bytes(at, len - (size_t)(at - text), word, strlen(word))))
        last = at++;
    return last;
}

static bool make(struct server *server, struct call *call, json_t *messages, json_t *kwargs, bool add_generation_prompt, const char *end, struct chat_prompt *out)
{
    struct guard g = {.server = server, .call = call, .tags = reasoning_of(server->tmpl, server->tokenizer)};
    size_t len = 0;
    *out = (struct chat_prompt){NULL, 0, false};
    char *text = guarded_text(&g, messages, kwargs, add_generation_prompt, &len);
    const char *last = text && end ? find_last(text, len, end) : NULL;
    if (last)
        len = (size_t)(last - text);
    bool shown = last || !end, ok = text && (!shown || tokenize(&g, text, len, out));
    if (ok && shown)
        out->reasons = reasoning_opened(&g.tags, text, len);
    else if (!ok)
        chat_prompt_free(out);
    free(text);
    return ok;
}

bool chat_prompt_make(struct server *server, struct call *call, json_t *messages, json_t *kwargs, bool add_generation_prompt, struct chat_prompt *out)
{
    return make(server, call, messages, kwargs, add_generation_prompt, NULL, out);
}

bool chat_prompt_until(struct server *server, struct call *call, json_t *messages, json_t *kwargs, bool add_generation_prompt, const char *end,
                       struct chat_prompt *out)
{
    return make(server, call, messages, kwargs, add_generation_prompt, end, out);
}

void chat_prompt_free(struct chat_prompt *p)
{
    free(p->ids);
    *p = (struct chat_prompt){NULL, 0, false};
}

char *chat_prompt_text(struct server *server, struct call *call, json_t *messages, json_t *kwargs, bool add_generation_prompt, size_t *len)
{
    struct guard g = {.server = server, .call = call, .tags = reasoning_of(server->tmpl, server->tokenizer)};
    size_t n = 0, to = 0;
    char *text = guarded_text(&g, messages, kwargs, add_generation_prompt, &n);
    for (size_t i = 0; text && i < n;) {
        if (n - i >= MARK_BYTES && memcmp(text + i, g.mark, MARK_BYTES) == 0)
            i += MARK_BYTES;
        else
            text[to++] = text[i++];
    }
    if (text) {
        text[to] = 0;
        *len = to;
    }
    return text;
}

bool chat_template_has(const struct server *server, const char *word)
{
    const char *text;
    uint64_t len;
    infer_template_text(server->tmpl, &text, &len);
    return find_bytes(text, (size_t)len, word, strlen(word)) != NULL;
}
