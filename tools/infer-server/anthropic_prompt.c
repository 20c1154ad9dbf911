/* The prompt of a message, where the beginning of an answer ends in it, and where its breakpoints lie. Both are found by a mark in the content, at which the
 * rendered text is cut: what a template does to a content is its own affair. */
#include "anthropic.h"

#include <stdlib.h>
#include <string.h>

#define MARK_BYTES 3 /* noncharacters U+FDE0 to U+FDEF: EF B7 A0 to EF B7 AF. chat_prompt.c takes its own from U+FDD0 on */
#define MARK_COUNT 16

/* A mark that no message has. */
static bool choose_mark(struct call *call, const json_t *messages, char mark[MARK_BYTES + 1])
{
    char *text = json_dumps(messages, JSON_COMPACT);
    if (!text) {
        call_error(call, 500, "api_error", NULL, NULL, "out of memory");
        return false;
    }
    memcpy(mark, "\xEF\xB7\xA0", MARK_BYTES + 1);
    int i = 0;
    while (i < MARK_COUNT && strstr(text, mark)) {
        mark[2]++;
        i++;
    }
    free(text);
    return i < MARK_COUNT || param_wrong(call, "messages", "has all 16 noncharacters of Unicode from U+FDE0 on: one has to be free");
}

/* A copy of messages with the mark in one content. NULL: out of memory. */
static json_t *with_mark(const json_t *messages, size_t message, size_t offset, const char *mark)
{
    json_t *copy = json_deep_copy(messages), *at = json_array_get(copy, message), *content = json_object_get(at, "content");
    size_t len = json_string_length(content);
    char *text = malloc(len + MARK_BYTES);
    bool ok = text != NULL && json_is_string(content) && offset <= len;
    if (ok) {
        memcpy(text, json_string_value(content), offset);
        memcpy(text + offset, mark, MARK_BYTES);
        memcpy(text + offset + MARK_BYTES, json_string_value(content) + offset, len - offset);
        ok = json_object_set_new(at, "content", json_stringn(text, len + MARK_BYTES)) == 0;
    }
    free(text);
    if (ok)
        return copy;
    json_decref(copy);
    return NULL;
}

static bool make_until(struct server *server, struct call *call, const struct anthropic_request *r, size_t message, size_t offset, struct chat_prompt *out)
{
    char mark[MARK_BYTES + 1];
    if (!choose_mark(call, r->messages, mark))
        return false;
    json_t *marked = with_mark(r->messages, message, offset, mark);
    if (!marked) {
        call_error(call, 500, "api_error", NULL, NULL, "out of memory");
        return false;
    }
    bool ok = chat_prompt_until(server, call, marked, r->kwargs, !r->prefill, mark, out);
    json_decref(marked);
    return ok;
}

/* How many tokens of the prompt stay as they are when what follows the breakpoint changes: none where the template does not show its text. */
static bool find_break(struct server *server, struct call *call, const struct anthropic_request *r, const struct anthropic_break *b,
                       const struct chat_prompt *whole, uint64_t *tokens)
{
    struct chat_prompt part;
    if (!make_until(server, call, r, b->message, b->offset, &part))
        return false;
    uint64_t n = 0;
    while (n < part.n && n < whole->n && part.ids[n] == whole->ids[n])
        n++;
    chat_prompt_free(&part);
    *tokens = n;
    return true;
}

bool anthropic_prompt_make(struct server *server, struct call *call, const struct anthropic_request *r, struct anthropic_prompt *out)
{
    struct anthropic_prompt p = {0};
    size_t last = json_array_size(r->messages) - 1;
    bool same = r->last.message == r->last_hour.message && r->last.offset == r->last_hour.offset;
    if (r->prefill) {
        size_t len = json_string_length(json_object_get(json_array_get(r->messages, last), "content"));
        if (!make_until(server, call, r, last, len, &p.chat))
            return false;
        if (!p.chat.ids)
            return param_wrong(call, "messages", "the model's chat template does not show the last one: an answer that has begun cannot be continued");
        p.chat.reasons = false; /* the answer has begun */
    } else if (!chat_prompt_make(server, call, r->messages, r->kwargs, true, &p.chat)) {
        return false;
    }
    if ((r->last.set && !find_break(server, call, r, &r->last, &p.chat, &p.last)) ||
        (r->last_hour.set && !same && !find_break(server, call, r, &r->last_hour, &p.chat, &p.last_hour))) {
        chat_prompt_free(&p.chat);
        return false;
    }
    if (r->last_hour.set && same)
        p.last_hour = p.last;
    *out = p;
    return true;
}
