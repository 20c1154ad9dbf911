/* infer_tokenizer_*, infer_tokenize, infer_detokenize*. */
#include <string.h>

#include "api/api.h"
#include "text/tokenizer.h"

infer_status infer_tokenizer_open(infer_engine *engine, const infer_source *source, const infer_open_options *options,
                                  infer_tokenizer **out, infer_error *err)
{
    infer_error e;
    infer_source src;
    infer_open_options opt = {0};
    struct infer_file *file = NULL;
    infer_engine *held = infer_engine_ref(engine); /* a source's callback may release it */
    infer_status st = api_not_null(out, "out", &e);
    if (st == INFER_OK)
        st = api_open_args(source, options, &src, &opt, &e);
    if (st == INFER_OK)
        st = hf_open(api_env(engine), &src, &(struct hf_options){HF_AS_TEXT, opt.map, opt.cancel, NULL}, &file, &e);
    if (st == INFER_OK)
        st = tokenizer_create(file->env, file, opt.cancel, out, &e);
    file_release(file);
    st = api_done_in(api_env(held), err, &e, st);
    infer_engine_release(held);
    return st;
}

static const struct env *env_of(const infer_tokenizer *t)
{
    return t ? tokenizer_env(t) : NULL;
}

infer_tokenizer *infer_tokenizer_ref(infer_tokenizer *tokenizer)
{
    return tokenizer ? tokenizer_ref(tokenizer) : NULL;
}

void infer_tokenizer_release(infer_tokenizer *tokenizer)
{
    tokenizer_release(tokenizer);
}

infer_status infer_tokenizer_get_info(const infer_tokenizer *tokenizer, infer_tokenizer_info *out, infer_error *err)
{
    infer_error e;
    infer_tokenizer_info info = {.size = (uint32_t)sizeof info};
    infer_status st = api_not_null(tokenizer, "tokenizer", &e);
    if (st == INFER_OK)
        st = API_CHECK_OUT(out, infer_tokenizer_info, &e);
    if (st == INFER_OK) {
        tokenizer_info(tokenizer, &info);
        API_PUT_OUT(out, &info);
    }
    return api_done(err, &e, st);
}

infer_status infer_tokenizer_token(const infer_tokenizer *tokenizer, int32_t id, infer_token_info *out, infer_error *err)
{
    infer_error e;
    infer_token_info info = {.size = (uint32_t)sizeof info};
    infer_status st = api_not_null(tokenizer, "tokenizer", &e);
    if (st == INFER_OK)
        st = API_CHECK_OUT(out, infer_token_info, &e);
    if (st == INFER_OK)
        st = tokenizer_token(tokenizer, id, &info, &e);
    if (st == INFER_OK)
        API_PUT_OUT(out, &info);
    return api_done(err, &e, st);
}

static infer_status check_flags(uint32_t flags, uint32_t known, infer_error *err)
{
    if (flags & ~known)
        return err_at(err, INFER_ERROR_ARGUMENT, "flags", 5, ERR_NO_OFFSET, "unknown flags %#x", flags & ~known);
    return INFER_OK;
}

static infer_status too_small(uint64_t need, uint64_t capacity, infer_error *err)
{
    return err_set(err, INFER_ERROR_BUFFER, "the buffer has room for %llu, %llu are needed",
                   (unsigned long long)capacity, (unsigned long long)need);
}

/* ---- Text to ids */

static infer_status tokenize(const infer_tokenizer *t, const char *text, uint64_t text_len, uint32_t flags,
                             int32_t *ids, uint64_t capacity, uint64_t *count, infer_error *err)
{
    uint64_t len;
    infer_status st = api_not_null(t, "tokenizer", err);
    if (st == INFER_OK)
        st = api_text(text, text_len, &len, "text", err);
    if (st == INFER_OK && capacity)
        st = api_not_null(ids, "ids", err);
    if (st == INFER_OK)
        st = api_not_null(count, "count", err);
    if (st == INFER_OK)
        st = check_flags(flags, INFER_TOKENIZE_ADD_SPECIAL | INFER_TOKENIZE_PARSE_SPECIAL, err);
    if (st != INFER_OK)
        return st;
    struct token_ids list;
    token_ids_init(&list, &tokenizer_env(t)->alloc);
    st = tokenizer_encode(t, text, len, flags, &list, err);
    if (st == INFER_OK) {
        *count = list.len;
        if (list.len > capacity)
            st = too_small(list.len, capacity, err);
        else if (list.len)
            memcpy(ids, list.data, list.len * sizeof *ids);
    }
    token_ids_free(&list);
    return st;
}

infer_status infer_tokenize(const infer_tokenizer *tokenizer, const char *text, uint64_t text_len, uint32_t flags,
                            int32_t *ids, uint64_t capacity, uint64_t *count, infer_error *err)
{
    infer_error e;
    return api_done_in(env_of(tokenizer), err, &e, tokenize(tokenizer, text, text_len, flags, ids, capacity, count, &e));
}

/* ---- Ids to text */

/* Decodes all and ends the text. */
static infer_status decode_all(const infer_tokenizer *t, const int32_t *ids, uint64_t count, uint32_t flags,
                               struct buf *out, infer_error *err)
{
    infer_detokenizer state = {.size = (uint32_t)sizeof state, .flags = flags};
    for (uint64_t i = 0; i < count && buf_ok(out); i++) {
        if (ids[i] == -1)
            return err_set(err, INFER_ERROR_TOKEN, "token id -1 at place %llu", (unsigned long long)i);
        infer_status st = tokenizer_decode_next(t, &state, ids[i], out, err);
        if (st != INFER_OK)
            return st;
    }
    return tokenizer_decode_next(t, &state, -1, out, err);
}

/* What out holds goes to the caller. */
static infer_status put_text(const struct buf *out, char *text, uint64_t capacity, uint64_t *text_len, infer_error *err)
{
    if (out->no_memory)
        return err_no_memory(err);
    if (out->over_limit)
        return err_set(err, INFER_ERROR_LIMIT, "the text is longer than %llu bytes", (unsigned long long)INFER_MAX_TEXT);
    *text_len = out->len;
    if (out->len > capacity)
        return too_small(out->len, capacity, err);
    if (out->len)
        memcpy(text, out->data, out->len);
    return INFER_OK;
}

static infer_status detokenize(const infer_tokenizer *t, const int32_t *ids, uint64_t count, uint32_t flags, char *text,
                               uint64_t capacity, uint64_t *text_len, infer_error *err)
{
    infer_status st = api_not_null(t, "tokenizer", err);
    if (st == INFER_OK && count)
        st = api_not_null(ids, "ids", err);
    if (st == INFER_OK && capacity)
        st = api_not_null(text, "text", err);
    if (st == INFER_OK)
        st = api_not_null(text_len, "text_len", err);
    if (st == INFER_OK)
        st = check_flags(flags, INFER_DETOKENIZE_SHOW_SPECIAL, err);
    if (st != INFER_OK)
        return st;
    struct buf out;
    buf_init(&out, &tokenizer_env(t)->alloc, (size_t)INFER_MAX_TEXT);
    st = decode_all(t, ids, count, flags, &out, err);
    if (st == INFER_OK)
        st = put_text(&out, text, capacity, text_len, err);
    buf_free(&out);
    return st;
}

infer_status infer_detokenize(const infer_tokenizer *tokenizer, const int32_t *ids, uint64_t count, uint32_t flags,
                              char *text, uint64_t capacity, uint64_t *text_len, infer_error *err)
{
    infer_error e;
    return api_done_in(env_of(tokenizer), err, &e, detokenize(tokenizer, ids, count, flags, text, capacity, text_len, &e));
}

static infer_status detokenizer_next(const infer_tokenizer *t, infer_detokenizer *state, int32_t id, char *text,
                                     uint64_t capacity, uint64_t *text_len, infer_error *err)
{
    infer_detokenizer full;
    infer_status st = api_not_null(t, "tokenizer", err);
    if (st == INFER_OK)
        st = api_not_null(state, "state", err);
    if (st == INFER_OK)
        st = API_IN(state, &full, infer_detokenizer, err);
    if (st == INFER_OK && capacity)
        st = api_not_null(text, "text", err);
    if (st == INFER_OK)
        st = api_not_null(text_len, "text_len", err);
    if (st == INFER_OK)
        st = check_flags(full.flags, INFER_DETOKENIZE_SHOW_SPECIAL, err);
    if (st == INFER_OK && (full.pending_len > sizeof full.pending || full.started > TOKENIZER_MAX_STARTED))
        st = err_at(err, INFER_ERROR_ARGUMENT, "state", 5, ERR_NO_OFFSET, "not a state that this function left");
    if (st != INFER_OK)
        return st;
    struct buf out;
    buf_init(&out, &tokenizer_env(t)->alloc, (size_t)INFER_MAX_TEXT);
    st = tokenizer_decode_next(t, &full, id, &out, err);
    if (st == INFER_OK)
        st = put_text(&out, text, capacity, text_len, err);
    buf_free(&out);
    if (st == INFER_OK)
        API_PUT_OUT(state, &full);
    return st;
}

infer_status infer_detokenizer_next(const infer_tokenizer *tokenizer, infer_detokenizer *state, int32_t id, char *text,
                                    uint64_t capacity, uint64_t *text_len, infer_error *err)
{
    infer_error e;
    return api_done_in(env_of(tokenizer), err, &e, detokenizer_next(tokenizer, state, id, text, capacity, text_len, &e));
}
