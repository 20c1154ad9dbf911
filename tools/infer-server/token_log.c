#include "token_log.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void token_log_begin(struct token_log *log, const infer_tokenizer *tokenizer)
{
    *log = (struct token_log){.tokenizer = tokenizer};
    INFER_INIT(&log->detokenizer);
}

void token_log_free(struct token_log *log)
{
    free(log->items);
    *log = (struct token_log){.tokenizer = NULL};
}

static struct logged_token *new_item(struct token_log *log)
{
    if (log->n == log->capacity) {
        size_t capacity = log->capacity ? log->capacity * 2 : 32;
        struct logged_token *items = realloc(log->items, capacity * sizeof *items);
        if (!items) {
            log->failed = true;
            return NULL;
        }
        log->items = items;
        log->capacity = capacity;
    }
    return &log->items[log->n++];
}

static uint64_t count(struct token_log *log, const char *text, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        log->characters += ((unsigned char)text[i] & 0xC0) != 0x80;
    return n;
}

/* Bytes of text that a further token makes. */
static uint64_t decode(struct token_log *log, int32_t id)
{
    char text[1024];
    uint64_t n = 0;
    infer_detokenizer before = log->detokenizer;
    if (!log->tokenizer)
        return 0;
    if (infer_detokenizer_next(log->tokenizer, &log->detokenizer, id, text, sizeof text, &n, NULL) == INFER_OK)
        return count(log, text, n);
    char *longer = n > sizeof text ? malloc((size_t)n) : NULL;
    log->detokenizer = before;
    if (!longer || infer_detokenizer_next(log->tokenizer, &log->detokenizer, id, longer, n, &n, NULL) != INFER_OK)
        n = 0;
    n = count(log, longer, n);
    free(longer);
    return n;
}

void token_log_add(struct token_log *log, const infer_request_event *event, bool known)
{
    uint64_t start = log->n ? log->items[log->n - 1].end : 0;
    struct logged_token *t = new_item(log);
    if (!t)
        return;
    *t = (struct logged_token){.id = event->id, .logprob = event->logprob, .known = known, .start = start, .characters = log->characters};
    t->end = start + decode(log, event->id);
    t->n_top = event->top_count < TOKEN_LOG_TOP ? event->top_count : TOKEN_LOG_TOP;
    if (t->n_top)
        memcpy(t->top, event->top, t->n_top * sizeof *t->top);
}

/* The last token stays when it has no text of its own: it may be the one that ends the answer. */
size_t token_log_show(struct token_log *log, size_t text_len)
{
    size_t n = log->told;
    log->shown += text_len;
    while (n < log->n && (log->items[n].start < log->shown || (log->items[n].end == log->shown && n + 1 < log->n)))
        n++;
    return n - log->told;
}

size_t token_log_done(struct token_log *log, int32_t finish_reason)
{
    size_t n = log->n - (finish_reason == INFER_FINISH_STOP && log->n);
    while (finish_reason == INFER_FINISH_STOP_STRING && n && log->items[n - 1].start >= log->shown)
        n--;
    return n > log->told ? n - log->told : 0;
}

/* The bytes that a token stands for; of a control token its spelling. */
static const char *token_text(const infer_tokenizer *tokenizer, int32_t id, size_t *len, bool *has_bytes)
{
    infer_token_info t;
    INFER_INIT(&t);
    *len = 0;
    *has_bytes = false;
    if (!tokenizer || infer_tokenizer_token(tokenizer, id, &t, NULL) != INFER_OK)
        return "";
    *has_bytes = t.kind != INFER_TOKEN_CONTROL && t.bytes_len;
    *len = (size_t)(*has_bytes ? t.bytes_len : t.piece_len);
    return *has_bytes ? t.bytes : t.piece;
}

json_t *token_string(const infer_tokenizer *tokenizer, int32_t id, const char *prefix)
{
    size_t len, to;
    bool has_bytes;
    const char *text = token_text(tokenizer, id, &len, &has_bytes);
    json_t *plain = json_stringn(text, len); /* NULL when it is not UTF-8 */
    if (plain)
        return plain;
    char *escaped = malloc(strlen(prefix) + len * 4 + 1);
    if (!escaped)
        return NULL;
    to = (size_t)sprintf(escaped, "%s", prefix);
    for (size_t i = 0; i < len; i++)
        to += (size_t)sprintf(escaped + to, "\\x%02x", (unsigned char)text[i]);
    plain = json_stringn(escaped, to);
    free(escaped);
    return plain;
}

static json_t *bytes_json(const infer_tokenizer *tokenizer, int32_t id)
{
    size_t len;
    bool has_bytes;
    const char *text = token_text(tokenizer, id, &len, &has_bytes);
    if (!has_bytes)
        return json_null();
    json_t *out = json_array();
    for (size_t i = 0; i < len; i++)
        json_array_append_new(out, json_integer((unsigned char)text[i]));
    return out;
}

/* JSON has no infinity: forbidden tokens have OpenAI's least value. */
static json_t *logprob_json(float logprob)
{
    return json_real(isfinite(logprob) ? (double)logprob : -9999.0);
}

static json_t *one(const infer_tokenizer *tokenizer, int32_t id, float logprob)
{
    return json_pack("{s:o, s:o, s:o}", "token", token_string(tokenizer, id, ""), "logprob", logprob_json(logprob), "bytes",
                     bytes_json(tokenizer, id));
}

json_t *token_json(const infer_tokenizer *tokenizer, const struct logged_token *t)
{
    json_t *out = one(tokenizer, t->id, t->logprob), *top = json_array();
    for (uint32_t i = 0; i < t->n_top; i++)
        json_array_append_new(top, one(tokenizer, t->top[i].id, t->top[i].logprob));
    json_object_set_new(out, "top_logprobs", top);
    return out;
}
