/* A conversation into a session: messages to JSON, through the chat template, to tokens. */
#include "api/api.h"
#include "base/utf8.h"
#include "engine/engine.h"

/* A JSON string of valid UTF-8. */
static void put_json_string(struct buf *b, const char *s, size_t len)
{
    static const char hex[] = "0123456789abcdef";
    buf_putc(b, '"');
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '"' || c == '\\') {
            buf_putc(b, '\\');
            buf_putc(b, (char)c);
        } else if (c < 0x20) {
            buf_puts(b, "\\u00");
            buf_putc(b, hex[c >> 4]);
            buf_putc(b, hex[c & 15]);
        } else {
            buf_putc(b, (char)c);
        }
    }
    buf_putc(b, '"');
}

static infer_status put_text(struct buf *b, const char *s, uint64_t len, const char *what, uint64_t index,
                             infer_error *err)
{
    uint64_t n;
    infer_status st = api_text(s, len, &n, what, err);
    if (st != INFER_OK)
        return st;
    if (n > INFER_MAX_TEXT)
        return err_set(err, INFER_ERROR_LIMIT, "the %s of message %llu is too long", what, (unsigned long long)index);
    if (!utf8_valid(s ? s : "", (size_t)n))
        return err_set(err, INFER_ERROR_ENCODING, "the %s of message %llu is not UTF-8", what,
                       (unsigned long long)index);
    put_json_string(b, s, (size_t)n);
    return INFER_OK;
}

/* The spelling of a special token as a variable of the template. */
static void put_token(struct buf *b, const infer_tokenizer *t, const char *key, int32_t id)
{
    infer_token_info info = {.size = (uint32_t)sizeof info};
    if (id < 0 || tokenizer_token(t, id, &info, NULL) != INFER_OK || !utf8_valid(info.piece, (size_t)info.piece_len))
        return;
    buf_puts(b, ",\"");
    buf_puts(b, key);
    buf_puts(b, "\":");
    put_json_string(b, info.piece, (size_t)info.piece_len);
}

static infer_status put_variables(struct buf *b, const infer_tokenizer *t, const infer_tokenizer_info *special,
                                  const infer_message *messages, uint64_t count, infer_error *err)
{
    buf_puts(b, "{\"messages\":[");
    for (uint64_t i = 0; i < count; i++) {
        buf_puts(b, i ? ",{\"role\":" : "{\"role\":");
        infer_status st = put_text(b, messages[i].role, messages[i].role_len, "role", i, err);
        buf_puts(b, ",\"content\":");
        if (st == INFER_OK)
            st = put_text(b, messages[i].content, messages[i].content_len, "content", i, err);
        if (st != INFER_OK)
            return st;
        buf_putc(b, '}');
    }
    buf_puts(b, "],\"add_generation_prompt\":true");
    put_token(b, t, "bos_token", special->bos);
    put_token(b, t, "eos_token", special->eos);
    buf_putc(b, '}');
    return buf_ok(b) ? INFER_OK : err_no_memory(err);
}

/* Tokens of the rendered text, after BOS unless the text begins with its spelling. */
static infer_status append_rendered(infer_session *s, const infer_tokenizer_info *special, const struct buf *text,
                                    infer_error *err)
{
    struct token_ids ids;
    int32_t bos = special->bos;
    bool wanted = special->add_bos && bos >= 0 && s->length == 0;
    token_ids_init(&ids, &s->model->engine->env->alloc);
    if (wanted)
        token_ids_put(&ids, bos);
    infer_status st = tokenizer_encode(s->model->tokenizer, text->data ? text->data : "", text->len,
                                       INFER_TOKENIZE_PARSE_SPECIAL, &ids, err);
    size_t skip = wanted && ids.len > 1 && ids.data[1] == bos;
    if (st == INFER_OK)
        st = session_append(s, ids.data + skip, ids.len - skip, err);
    token_ids_free(&ids);
    return st;
}

static infer_status append_chat(infer_session *s, const infer_message *messages, uint64_t count,
                                const infer_render_options *options, infer_error *err)
{
    infer_render_options o;
    infer_tokenizer_info special = {.size = (uint32_t)sizeof special};
    infer_status st = api_not_null(s, "session", err);
    if (st == INFER_OK)
        st = api_not_null(messages, "messages", err);
    if (st == INFER_OK)
        st = API_IN(options, &o, infer_render_options, err);
    if (st == INFER_OK)
        st = api_not_cancelled(o.cancel, err);
    if (st != INFER_OK)
        return st;
    if (!s->model->tokenizer)
        return err_set(err, INFER_ERROR_STATE, "the model has no tokenizer: %s", s->model->tokenizer_problem);
    tokenizer_info(s->model->tokenizer, &special);
    struct jinja_options jo = {o.now, o.max_output, o.max_steps, o.max_memory, o.cancel};
    struct buf json, text;
    buf_init(&json, &s->model->engine->env->alloc, 0);
    buf_init(&text, &s->model->engine->env->alloc, 0);
    st = put_variables(&json, s->model->tokenizer, &special, messages, count, err);
    if (st == INFER_OK)
        st = template_render(s->model->tmpl, json.data, json.len, &jo, &text, err);
    if (st == INFER_OK)
        st = append_rendered(s, &special, &text, err);
    buf_free(&json);
    buf_free(&text);
    return st;
}

infer_status infer_session_append_chat(infer_session *session, const infer_message *messages, uint64_t count,
                                       const infer_render_options *options, infer_error *err)
{
    infer_error e;
    return api_done_in(api_session_env(session), err, &e, append_chat(session, messages, count, options, &e));
}
