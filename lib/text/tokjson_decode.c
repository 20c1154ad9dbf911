/* Decoders: the text of each token by itself, so that decoding can stream. What needs the whole text is either simple (a few characters
 * in front go, a space at the very end goes) or refused. */
#include <string.h>

#include "base/utf8.h"
#include "text/tokjson.h"

/* ---- Reading the declaration */

static infer_status read_replace(struct tj_reader *r, const struct json *step, struct decode_step *d)
{
    infer_status st = tj_pattern(r, step, "pattern", &d->pattern);
    if (st == INFER_OK && !d->pattern.text.len)
        st = tj_fail(r, INFER_ERROR_UNSUPPORTED, step, "a decoder's Replace needs a String as its pattern");
    return st == INFER_OK ? tj_string(r, step, "content", NULL, &d->to) : st;
}

static infer_status read_metaspace(struct tj_reader *r, const struct json *step, struct decode_step *d)
{
    enum prepend prepend;
    infer_status st = tj_metaspace(r, step, &d->from, &prepend);
    d->flag = prepend != PREPEND_NEVER;
    return st;
}

static infer_status read_word_piece(struct tj_reader *r, const struct json *step, struct decode_step *d)
{
    infer_status st = tj_string(r, step, "prefix", "##", &d->from);
    return st == INFER_OK ? tj_bool(r, step, "cleanup", true, &d->flag) : st;
}

static infer_status read_strip(struct tj_reader *r, const struct json *step, struct decode_step *d)
{
    infer_status st = tj_string(r, step, "content", NULL, &d->from);
    if (st == INFER_OK)
        st = tj_u32(r, step, "start", 0, &d->start);
    return st == INFER_OK ? tj_u32(r, step, "stop", 0, &d->stop) : st;
}

static infer_status read_bpe(struct tj_reader *r, const struct json *step, struct decode_step *d)
{
    return tj_string(r, step, "suffix", "</w>", &d->from);
}

static const struct {
    const char *type;
    enum decode_kind kind;
    infer_status (*read)(struct tj_reader *r, const struct json *step, struct decode_step *d);
} kinds[] = {{"ByteLevel", DECODE_BYTE_LEVEL, NULL}, {"Replace", DECODE_REPLACE, read_replace}, {"Metaspace", DECODE_METASPACE, read_metaspace},
             {"WordPiece", DECODE_WORDPIECE, read_word_piece}, {"ByteFallback", DECODE_BYTE_FALLBACK, NULL},
             {"Strip", DECODE_STRIP, read_strip}, {"BPEDecoder", DECODE_BPE, read_bpe}};

/* A step behind Fuse sees the whole text. */
static infer_status take_whole(struct tj_reader *r, const struct json *step, const struct decode_step *d)
{
    struct tokjson *j = r->j;
    bool ascii = d->kind == DECODE_STRIP && d->from.len == 1 && (uint8_t)d->from.p[0] < 0x80;
    if (!ascii || d->stop || d->start > TJ_MAX_STRIP || j->strip_start)
        return tj_fail(r, INFER_ERROR_UNSUPPORTED, step, "behind Fuse only one Strip of an ASCII character at the start is supported");
    j->strip_start = d->start;
    j->strip_char = d->from.p[0];
    return INFER_OK;
}

static infer_status decode_add(struct tj_reader *r, const struct json *step)
{
    struct tokjson *j = r->j;
    if (tj_type_is(step, "Fuse")) {
        j->fused = true;
        return INFER_OK;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct decode_step *d = &j->decodes[j->n_decodes];
        if (!tj_type_is(step, kinds[i].type))
            continue;
        if (j->n_decodes == TJ_MAX_STEPS - 1)
            return tj_fail(r, INFER_ERROR_LIMIT, step, "more than %d decoders", TJ_MAX_STEPS - 1);
        d->kind = kinds[i].kind;
        infer_status st = kinds[i].read ? kinds[i].read(r, step, d) : INFER_OK;
        if (st == INFER_OK && j->fused)
            return take_whole(r, step, d);
        j->hold_space = j->hold_space || d->kind == DECODE_BPE;
        j->n_decodes++;
        return st;
    }
    return tj_unsupported(r, step, "decoder");
}

infer_status decode_open(struct tj_reader *r, const struct json *decoder)
{
    r->j->joined_by_space = decoder->type == JSON_NULL;
    size_t len = tj_enter(r, "decoder", SIZE_MAX);
    infer_status st = tj_each(r, decoder, "decoders", decode_add);
    tj_leave(r, len);
    return st;
}

/* ---- Steps. Each reads s and writes out. */

static void replace_all(const char *s, size_t len, struct json_text from, struct json_text to, struct buf *out)
{
    for (size_t i = 0; i < len;) {
        if (from.len && len - i >= from.len && !memcmp(s + i, from.p, from.len)) {
            buf_put(out, to.p, to.len);
            i += from.len;
        } else
            buf_putc(out, s[i++]);
    }
}

static bool starts_with(const char *s, size_t len, struct json_text t)
{
    return len >= t.len && !memcmp(s, t.p, t.len);
}

/* Spaces that English does not have: of one token, so mostly its own space in front of punctuation. */
static void clean_up(const char *s, size_t len, struct buf *out)
{
    static const char *const changes[][2] = {{" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"}, {" n't", "n't"},
                                             {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    struct buf work[2];
    buf_init(&work[0], out->alloc, 0);
    buf_init(&work[1], out->alloc, 0);
    for (int i = 0; i < 11; i++) {
        const struct json_text from = {changes[i][0], strlen(changes[i][0])}, to = {changes[i][1], strlen(changes[i][1])};
        work[i % 2].len = 0;
        replace_all(s, len, from, to, &work[i % 2]);
        s = work[i % 2].data ? work[i % 2].data : "";
        len = work[i % 2].len;
    }
    buf_put(out, s, len);
    out->no_memory = out->no_memory || !buf_ok(&work[0]) || !buf_ok(&work[1]);
    buf_free(&work[0]);
    buf_free(&work[1]);
}

static void word_piece(const struct decode_step *d, const char *s, size_t len, bool first, struct buf *out)
{
    struct buf word;
    buf_init(&word, out->alloc, 0);
    if (!first && starts_with(s, len, d->from)) {
        s += d->from.len;
        len -= d->from.len;
    } else if (!first)
        buf_putc(&word, ' ');
    buf_put(&word, s, len);
    if (!buf_ok(&word))
        out->no_memory = true;
    else if (d->flag && memchr(word.data ? word.data : "", ' ', word.len))
        clean_up(word.data, word.len, out);
    else if (word.len)
        buf_put(out, word.data, word.len);
    buf_free(&word);
}

static void strip(const struct decode_step *d, const char *s, size_t len, struct buf *out)
{
    size_t n = d->from.len;
    for (uint32_t i = 0; i < d->start && n && len >= n && !memcmp(s, d->from.p, n); i++) {
        s += n;
        len -= n;
    }
    for (uint32_t i = 0; i < d->stop && n && len >= n && !memcmp(s + len - n, d->from.p, n); i++)
        len -= n;
    buf_put(out, s, len);
}

static bool byte_of(const char *s, size_t len, char *out)
{
    int v = 0;
    if (len != 6 || memcmp(s, "<0x", 3) || s[5] != '>')
        return false;
    for (int i = 3; i < 5; i++) {
        char c = s[i];
        int d = c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (d < 0)
            return false;
        v = v * 16 + d;
    }
    *out = (char)v;
    return true;
}

static void byte_level(const char *s, size_t len, struct buf *out)
{
    size_t n;
    if (!buf_reserve(out, len))
        return;
    if (byte_level_decode(s, len, out->data + out->len, &n))
        out->len += n;
    else
        buf_put(out, s, len);
}

static void apply(const struct decode_step *d, const char *s, size_t len, bool first, struct buf *out)
{
    static const struct json_text space = {" ", 1}, none = {"", 0};
    char byte;
    switch (d->kind) {
    case DECODE_BYTE_LEVEL: byte_level(s, len, out); break;
    case DECODE_REPLACE: replace_all(s, len, d->pattern.text, d->to, out); break;
    case DECODE_METASPACE: replace_all(s, len, d->from, first && d->flag ? none : space, out); break;
    case DECODE_WORDPIECE: word_piece(d, s, len, first, out); break;
    case DECODE_STRIP: strip(d, s, len, out); break;
    case DECODE_BPE: replace_all(s, len, d->from, space, out); break;
    default: /* a byte token */
        if (byte_of(s, len, &byte))
            buf_putc(out, byte);
        else
            buf_put(out, s, len);
        break;
    }
}

void tj_token_text(const struct tokjson *j, const char *s, size_t len, bool first, struct buf *out)
{
    struct buf work[2];
    if (j->joined_by_space && !first)
        buf_putc(out, ' ');
    if (j->n_decodes == 1) {
        apply(&j->decodes[0], s, len, first, out);
        return;
    }
    for (int i = 0; i < 2; i++)
        buf_init(&work[i], out->alloc, TJ_MAX_TEXT);
    for (uint32_t i = 0; i < j->n_decodes && buf_ok(&work[0]) && buf_ok(&work[1]); i++) {
        struct buf *to = &work[i % 2];
        to->len = 0;
        apply(&j->decodes[i], s, len, first, to);
        s = to->data ? to->data : "";
        len = to->len;
    }
    buf_put(out, s, len);
    for (int i = 0; i < 2; i++) {
        out->no_memory = out->no_memory || work[i].no_memory;
        out->over_limit = out->over_limit || work[i].over_limit;
        buf_free(&work[i]);
    }
}

/* ---- One token after the other */

/* What infer_detokenizer.started holds: bit 0: a token was seen; above: how many characters were stripped, or all. */
enum { SEEN = 1, STRIPPED = 2, TEXT_BEGUN = TJ_MAX_STRIP * STRIPPED + SEEN };

/* Characters in front of the whole text that go. */
static void strip_begin_of_text(const struct tokjson *j, infer_detokenizer *state, const char **s, size_t *len)
{
    while (*len && state->started < TEXT_BEGUN && state->started / STRIPPED < j->strip_start && **s == j->strip_char) {
        ++*s;
        --*len;
        state->started += STRIPPED;
    }
    if (*len)
        state->started = TEXT_BEGUN;
}

void tokjson_text(const struct infer_tokenizer *t, infer_detokenizer *state, uint32_t id, struct buf *out)
{
    const struct tokjson *j = t->json;
    const struct vocab *v = &t->v;
    int32_t kind = vocab_kind(v, id);
    bool hidden = kind == INFER_TOKEN_CONTROL || (kind == INFER_TOKEN_UNKNOWN && !(v->attr[id] & ATTR_SHOWN));
    if (!v->pieces.at[id].len || (hidden && !(state->flags & INFER_DETOKENIZE_SHOW_SPECIAL)))
        return;
    size_t from = out->len;
    if (!(state->started & SEEN)) {
        struct json_text s = added_shown(t, id);
        tj_token_text(j, s.p, s.len, true, out);
        state->started = j->strip_start ? SEEN : TEXT_BEGUN;
    } else
        buf_put(out, str_of(&v->bytes, id), v->bytes.at[id].len);
    if (state->started == TEXT_BEGUN || !buf_ok(out))
        return;
    const char *s = out->data + from;
    size_t len = out->len - from;
    strip_begin_of_text(j, state, &s, &len);
    memmove(out->data + from, s, len);
    out->len = from + len;
}

bool tokjson_holds_space(const struct infer_tokenizer *t)
{
    return t->json->hold_space;
}
