#include "text/tokenizer.h"

#include <string.h>

#include "base/fpenv.h"
#include "base/utf8.h"
#include "formats/tokenizer_json.h"
#include "text/tokenizer_impl.h"
#include "text/unicode.h"

#define KEY_MODEL    "tokenizer.ggml.model"
#define KEY_PRE      "tokenizer.ggml.pre"
#define KEY_JSON     FILE_KEY_TOKENIZER_JSON
#define KEY_CHARSMAP "tokenizer.ggml.precompiled_charsmap"

/* ---- Opening */

static bool is(struct file_str s, const char *name)
{
    return s.len == strlen(name) && !memcmp(s.data, name, s.len);
}

static infer_status find_kind(struct infer_tokenizer *t, infer_error *err)
{
    struct file_str model, pre;
    infer_status st = file_get_string(t->file, KEY_MODEL, &model, err);
    if (st == INFER_OK)
        st = file_get_string_or(t->file, KEY_PRE, "", &pre, err);
    if (st != INFER_OK)
        return st;
    if (is(model, "llama"))
        t->kind = INFER_TOKENIZER_SPM;
    else if (is(model, "bert"))
        t->kind = INFER_TOKENIZER_WORDPIECE;
    else if (is(model, "t5"))
        t->kind = INFER_TOKENIZER_UNIGRAM;
    else if (is(model, "gpt2") || is(model, "gemma4"))
        t->kind = INFER_TOKENIZER_BPE;
    else
        return TOK_FAIL(t, err, INFER_ERROR_UNSUPPORTED, KEY_MODEL, "unknown kind of tokenizer \"%.*s\"",
                        (int)(model.len > 64 ? 64 : model.len), model.data);
    if (t->kind != INFER_TOKENIZER_BPE)
        return INFER_OK;
    if (is(model, "gemma4"))
        pre = (struct file_str){"gemma4", 6};
    t->pre = pretok_find(pre.data, (size_t)pre.len);
    if (!t->pre) /* a wrong guess would be a silent error */
        return TOK_FAIL(t, err, INFER_ERROR_UNSUPPORTED, KEY_PRE, "unknown pre-tokenizer \"%.*s\"",
                        (int)(pre.len > 64 ? 64 : pre.len), pre.data);
    return INFER_OK;
}

static infer_status load_charsmap(struct infer_tokenizer *t, infer_error *err)
{
    struct file_array a;
    if (!file_has(t->file, KEY_CHARSMAP))
        return INFER_OK;
    infer_status st = file_get_ints(t->file, KEY_CHARSMAP, &a, err);
    if (st != INFER_OK)
        return st;
    if ((a.item != FILE_U8 && a.item != FILE_I8) || (a.count && !charsmap_open(&t->charsmap, a.data, (size_t)a.count)))
        return TOK_FAIL(t, err, INFER_ERROR_VALUE, KEY_CHARSMAP, "malformed character map");
    return INFER_OK;
}

static infer_status load(struct infer_tokenizer *t, infer_error *err)
{
    if (!file_has(t->file, KEY_MODEL) && file_has(t->file, KEY_JSON))
        return tokjson_open(t, err);
    infer_status st = find_kind(t, err);
    if (st != INFER_OK)
        return st;
    bool spm = t->kind == INFER_TOKENIZER_SPM, unigram = t->kind == INFER_TOKENIZER_UNIGRAM;
    enum vocab_form form = t->kind == INFER_TOKENIZER_WORDPIECE                           ? FORM_WORDPIECE
                           : spm || unigram || (t->pre && (t->pre->flags & PRETOK_RAW)) ? FORM_SPACED
                                                                                          : FORM_BYTE_LEVEL;
    st = vocab_load(&t->v, &t->env->alloc, t->file, form, spm || unigram, err);
    if (st == INFER_OK)
        st = tokenizer_goes_on(t, err);
    if (st == INFER_OK)
        st = special_load(t, err);
    if (st == INFER_OK)
        st = vocab_index(&t->v, t->file, err);
    if (st == INFER_OK)
        st = tokenizer_goes_on(t, err);
    if (st == INFER_OK)
        st = special_build(t, err);
    if (st == INFER_OK)
        st = tokenizer_goes_on(t, err);
    if (st == INFER_OK && (spm || unigram))
        st = load_charsmap(t, err);
    if (st != INFER_OK)
        return st;
    switch (t->kind) {
    case INFER_TOKENIZER_BPE: return bpe_open(t, err);
    case INFER_TOKENIZER_WORDPIECE: return wordpiece_open(t, err);
    case INFER_TOKENIZER_UNIGRAM: return unigram_open(t, err);
    default:
        spm_find_joins(t);
        spm_find_mark_runs(t);
        return INFER_OK;
    }
}

infer_status tokenizer_create(const struct env *env, struct infer_file *file, const infer_cancel *cancel, infer_tokenizer **out, infer_error *err)
{
    infer_tokenizer *t = mem_zalloc(&env->alloc, sizeof *t);
    if (!t)
        return err_no_memory(err);
    ref_init(&t->ref);
    t->env = env_ref(env);
    t->file = file_ref(file);
    t->cancel = cancel;
    struct fpenv fp = fpenv_enter(); /* scores are floats */
    infer_status st = load(t, err);
    fpenv_leave(fp);
    t->cancel = NULL;
    if (st == INFER_OK)
        *out = t;
    else
        tokenizer_release(t);
    return st;
}

infer_tokenizer *tokenizer_ref(infer_tokenizer *t)
{
    ref_get(&t->ref);
    return t;
}

void tokenizer_release(infer_tokenizer *t)
{
    if (!t || !ref_put(&t->ref))
        return;
    const struct env *env = t->env;
    special_free(t);
    tokjson_free(t);
    trie_free(&t->trie);
    mem_free(&env->alloc, t->pairs.slots);
    vocab_free(&t->v);
    file_release(t->file);
    mem_free(&env->alloc, t);
    env_release(env);
}

/* ---- Information */

const struct env *tokenizer_env(const infer_tokenizer *t)
{
    return t->env;
}

uint32_t tokenizer_vocab_size(const infer_tokenizer *t)
{
    return t->v.n;
}

bool tokenizer_ends_turn(const infer_tokenizer *t, int32_t id)
{
    return id >= 0 && (uint32_t)id < t->v.n && (t->v.attr[id] & ATTR_ENDS_TURN);
}

void tokenizer_info(const infer_tokenizer *t, infer_tokenizer_info *out)
{
    bool bert = t->kind == INFER_TOKENIZER_WORDPIECE;
    *out = (infer_tokenizer_info){.size = out->size, .kind = t->kind, .vocab_size = t->v.n};
    out->bos = (int32_t)t->bos; /* VOCAB_NONE becomes -1 */
    out->eos = (int32_t)t->eos;
    out->eot = (int32_t)t->eot;
    out->unk = (int32_t)t->unk;
    out->sep = (int32_t)t->sep;
    out->pad = (int32_t)t->pad;
    out->mask = (int32_t)t->mask;
    out->add_bos = t->add_bos && t->bos != VOCAB_NONE;
    out->add_eos = bert ? t->add_sep && t->sep != VOCAB_NONE : t->add_eos && t->eos != VOCAB_NONE;
}

static infer_status bad_id(const infer_tokenizer *t, int32_t id, infer_error *err)
{
    return err_set(err, INFER_ERROR_TOKEN, "token id %d: the vocabulary has %u tokens", id, t->v.n);
}

infer_status tokenizer_token(const infer_tokenizer *t, int32_t id, infer_token_info *out, infer_error *err)
{
    const struct vocab *v = &t->v;
    if (id < 0 || (uint32_t)id >= v->n)
        return bad_id(t, id, err);
    *out = (infer_token_info){.size = out->size,
                              .kind = vocab_kind(v, (uint32_t)id),
                              .score = v->scores.count ? file_array_f32(&v->scores, (uint64_t)id) : 0,
                              .ends_turn = (v->attr[id] & ATTR_ENDS_TURN) != 0,
                              .piece = str_of(&v->pieces, (uint32_t)id),
                              .piece_len = v->pieces.at[id].len,
                              .bytes = str_of(&v->bytes, (uint32_t)id),
                              .bytes_len = v->bytes.at[id].len};
    return INFER_OK;
}

/* ---- Lists of ids */

void token_ids_init(struct token_ids *ids, const struct alloc *alloc)
{
    *ids = (struct token_ids){.alloc = alloc};
}

void token_ids_put(struct token_ids *ids, int32_t id)
{
    if (ids->len == ids->cap) {
        size_t cap = ids->cap ? ids->cap * 2 : 64;
        int32_t *data = cap > SIZE_MAX / sizeof *data ? NULL : mem_grow(ids->alloc, ids->data, cap * sizeof *data);
        if (!data) {
            ids->no_memory = true;
            return;
        }
        ids->data = data;
        ids->cap = cap;
    }
    ids->data[ids->len++] = id;
}

void token_ids_free(struct token_ids *ids)
{
    mem_free(ids->alloc, ids->data);
    token_ids_init(ids, ids->alloc);
}

/* ---- Encoding */

void emit_unknown(struct encoder *e, const char *s, size_t len, bool *after_unknown)
{
    const struct infer_tokenizer *t = e->t;
    bool bytes = true;
    for (size_t i = 0; i < len; i++)
        bytes = bytes && t->v.byte_id[(uint8_t)s[i]] != VOCAB_NONE;
    for (size_t i = 0; bytes && i < len; i++)
        emit(e, t->v.byte_id[(uint8_t)s[i]]);
    /* A byte-level vocabulary without some byte drops it: its "unknown" token is seldom meant for that. */
    if (!bytes && !*after_unknown && t->unk != VOCAB_NONE && t->v.form != FORM_BYTE_LEVEL)
        emit(e, t->unk);
    *after_unknown = !bytes;
}

static void encode_text(struct encoder *e, const char *s, size_t len)
{
    const struct infer_tokenizer *t = e->t;
    if (!len)
        return;
    switch (t->kind) {
    case INFER_TOKENIZER_BPE: bpe_encode(e, s, len); break;
    case INFER_TOKENIZER_WORDPIECE: wordpiece_encode(e, s, len); break;
    case INFER_TOKENIZER_SPM:
        spm_normalize(e, s, len, t->space_prefix);
        if (buf_ok(&e->text))
            spm_encode(e);
        break;
    default:
        spm_normalize(e, s, len, t->space_prefix);
        if (buf_ok(&e->text))
            unigram_encode(e);
        break;
    }
}

static bool encoder_failed(const struct encoder *e)
{
    return e->no_memory || e->ids->no_memory || !buf_ok(&e->text) || !buf_ok(&e->extra);
}

static bool is_space(const char *s, size_t len, size_t *used)
{
    return (uc_props(utf8_decode(s, len, used)) & UC_SPACE) != 0;
}

size_t strip_end(const char *s, size_t from, size_t to)
{
    for (size_t used; to > from;) {
        size_t at = to - 1;
        while (at > from && ((uint8_t)s[at] & 0xC0) == 0x80)
            at--;
        if (!is_space(s + at, to - at, &used))
            break;
        to = at;
    }
    return to;
}

size_t strip_begin(const char *s, size_t from, size_t len)
{
    size_t used;
    while (from < len && is_space(s + from, len - from, &used))
        from += used;
    return from;
}

/* s is valid UTF-8. */
static void encode_parts(struct encoder *e, const char *s, size_t len, uint32_t flags)
{
    const struct infer_tokenizer *t = e->t;
    const struct special_set *set = flags & INFER_TOKENIZE_PARSE_SPECIAL ? &t->all : &t->user;
    size_t from = 0, at, n;
    uint32_t id;
    while (!encoder_failed(e) && special_find(set, s, len, from, &at, &n, &id)) {
        size_t to = t->v.attr[id] & ATTR_LSTRIP ? strip_end(s, from, at) : at;
        encode_text(e, s + from, to - from);
        emit(e, id);
        from = at + n;
        if (t->v.attr[id] & ATTR_RSTRIP)
            from = strip_begin(s, from, len);
    }
    if (!encoder_failed(e) && from < len)
        encode_text(e, s + from, len - from);
}

static void encode_whole(struct encoder *e, const char *s, size_t len, uint32_t flags)
{
    const struct infer_tokenizer *t = e->t;
    bool bert = t->kind == INFER_TOKENIZER_WORDPIECE;
    uint32_t last = bert ? (t->add_sep ? t->sep : VOCAB_NONE) : t->add_eos ? t->eos : VOCAB_NONE;
    if ((flags & INFER_TOKENIZE_ADD_SPECIAL) && t->add_bos && t->bos != VOCAB_NONE)
        emit(e, t->bos);
    encode_parts(e, s, len, flags);
    if ((flags & INFER_TOKENIZE_ADD_SPECIAL) && last != VOCAB_NONE)
        emit(e, last);
}

static void replace_malformed(const char *s, size_t len, struct buf *out)
{
    size_t used, from = 0;
    for (size_t i = 0; i < len; i += used) {
        if (utf8_decode(s + i, len - i, &used) != UTF8_BAD)
            continue;
        if (i > from)
            buf_put(out, s + from, i - from);
        buf_put(out, "\xEF\xBF\xBD", 3);
        from = i + used;
    }
    if (len > from)
        buf_put(out, s + from, len - from);
}

infer_status tokenizer_encode(const infer_tokenizer *t, const char *text, uint64_t len, uint32_t flags,
                              struct token_ids *ids, infer_error *err)
{
    const struct alloc *a = &t->env->alloc;
    if (len > INFER_MAX_TEXT)
        return err_set(err, INFER_ERROR_LIMIT, "the text has %llu bytes: at most %llu are supported",
                       (unsigned long long)len, (unsigned long long)INFER_MAX_TEXT);
    struct encoder e = {.t = t, .ids = ids};
    struct buf clean;
    merge_init(&e.merger, a);
    buf_init(&e.text, a, 0);
    buf_init(&e.extra, a, 0);
    buf_init(&clean, a, 0);
    if (len && !utf8_valid(text, (size_t)len)) {
        replace_malformed(text, (size_t)len, &clean);
        e.no_memory = !buf_ok(&clean);
        text = clean.data;
        len = clean.len;
    }
    struct fpenv fp = fpenv_enter();
    infer_status st = INFER_OK;
    if (encoder_failed(&e) || !t->json)
        encode_whole(&e, text, (size_t)len, flags);
    else
        st = tokjson_encode(&e, text, (size_t)len, flags, err);
    fpenv_leave(fp);
    bool failed = encoder_failed(&e);
    merge_free(&e.merger);
    buf_free(&e.text);
    buf_free(&e.extra);
    buf_free(&clean);
    return st == INFER_OK && failed ? err_no_memory(err) : st;
}

/* ---- Decoding */

/* The bytes of a token, the first of a text or not. */
static void token_text(const infer_tokenizer *t, uint32_t id, uint32_t flags, bool first, const char **s, size_t *len)
{
    const struct vocab *v = &t->v;
    int32_t kind = vocab_kind(v, id);
    *s = str_of(&v->bytes, id);
    *len = v->bytes.at[id].len;
    if (!(flags & INFER_DETOKENIZE_SHOW_SPECIAL) && (kind == INFER_TOKEN_CONTROL || kind == INFER_TOKEN_UNKNOWN))
        *len = 0;
    bool strip = t->space_prefix || t->kind == INFER_TOKENIZER_WORDPIECE;
    if (first && strip && *len && **s == ' ') {
        ++*s;
        --*len;
    }
}

/* Where a space at the very end of a text is none, one is held back until a token follows. */
static bool is_held_space(const infer_detokenizer *state)
{
    return state->pending_len == 1 && state->pending[0] == ' ';
}

/* Keeps an unfinished character at the end for later. */
static void hold_back(const infer_tokenizer *t, infer_detokenizer *state, struct buf *out, size_t before)
{
    if (!buf_ok(out) || out->len == before)
        return;
    size_t whole = utf8_complete(out->data + before, out->len - before);
    if (t->json && tokjson_holds_space(t) && out->data[out->len - 1] == ' ')
        whole = out->len - before - 1;
    state->pending_len = (uint32_t)(out->len - before - whole);
    memcpy(state->pending, out->data + before + whole, state->pending_len);
    out->len = before + whole;
}

infer_status tokenizer_decode_next(const infer_tokenizer *t, infer_detokenizer *state, int32_t id, struct buf *out,
                                   infer_error *err)
{
    if (id == -1) {
        if (!is_held_space(state))
            buf_put(out, state->pending, state->pending_len);
        state->pending_len = 0;
        state->started = 0;
        return INFER_OK;
    }
    if (id < 0 || (uint32_t)id >= t->v.n)
        return bad_id(t, id, err);
    const char *s;
    size_t len = 0, before = out->len;
    if (t->json) {
        buf_put(out, state->pending, state->pending_len);
        state->pending_len = 0;
        tokjson_text(t, state, (uint32_t)id, out);
        hold_back(t, state, out, before);
        return INFER_OK;
    }
    token_text(t, (uint32_t)id, state->flags, !state->started, &s, &len);
    /* A piece that was one space, now nothing, is the beginning too, unless the vocabulary has no repeated spaces. */
    if (len || (!t->merge_spaces && s != str_of(&t->v.bytes, (uint32_t)id)))
        state->started = 1;
    buf_put(out, state->pending, state->pending_len);
    state->pending_len = 0;
    if (len)
        buf_put(out, s, len);
    hold_back(t, state, out, before);
    return INFER_OK;
}
