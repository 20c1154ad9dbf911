/* SentencePiece's BPE: characters are joined wherever the result is a token, the one with the highest score first. Spaces are
 * U+2581, and a token may hold several words' ends, so a whole text is one "word"; it is cut where no token can reach across. */
#include <string.h>

#include "base/utf8.h"
#include "text/tokenizer_impl.h"

/* ---- Normalisation (Normalizer::Normalize in google/sentencepiece) */

/* The replacement of what begins at s, or that character itself. Returns bytes read. */
static size_t normalize_prefix(const struct infer_tokenizer *t, const char *s, size_t len, const char **to, size_t *to_len)
{
    size_t n = charsmap_match(&t->charsmap, s, len, to, to_len);
    if (n)
        return n;
    (void)utf8_decode(s, len, &n);
    *to = s;
    *to_len = n;
    return n;
}

static void put_spaced(struct buf *out, const char *s, size_t len)
{
    for (size_t i = 0; i < len;) {
        const char *space = memchr(s + i, ' ', len - i);
        size_t n = space ? (size_t)(space - s) - i : len - i;
        if (n)
            buf_put(out, s + i, n);
        i += n;
        if (space) {
            buf_put(out, SPACE_MARK, 3);
            i++;
        }
    }
}

static void trim_end(struct buf *out, size_t from)
{
    while (out->len >= from + 3 && !memcmp(out->data + out->len - 3, SPACE_MARK, 3))
        out->len -= 3;
}

void spm_normalize(struct encoder *e, const char *s, size_t len, bool prefix)
{
    const struct infer_tokenizer *t = e->t;
    struct buf *out = &e->text;
    out->len = 0;
    if (!t->merge_spaces && !t->charsmap.units) {
        if (prefix)
            buf_put(out, SPACE_MARK, 3);
        put_spaced(out, s, len);
        return;
    }
    bool after_space = t->merge_spaces, begun = false;
    for (size_t i = 0; i < len && buf_ok(out);) {
        const char *to;
        size_t n;
        i += normalize_prefix(t, s + i, len - i, &to, &n);
        for (; after_space && n && *to == ' '; n--)
            to++;
        if (!n)
            continue;
        if (!begun && prefix)
            buf_put(out, SPACE_MARK, 3);
        begun = true;
        put_spaced(out, to, n);
        after_space = t->merge_spaces && to[n - 1] == ' ';
    }
    if (t->merge_spaces)
        trim_end(out, 0);
}

/* ---- Merging */

/* Scores as ranks: the order of floats reversed in the order of integers. */
static uint32_t rank_of(float score)
{
    uint32_t bits;
    score += 0.0f; /* -0 */
    memcpy(&bits, &score, 4);
    return bits & 0x80000000u ? bits : ~(bits | 0x80000000u);
}

/* User-defined tokens are joined to nothing. */
static bool is_frozen(const struct vocab *v, uint32_t id)
{
    return id != MERGE_NONE && vocab_kind(v, id) == INFER_TOKEN_USER_DEFINED;
}

static bool find_pair(const void *user, const char *word, const struct merge_symbol *l, const struct merge_symbol *r,
                      uint32_t *rank, uint32_t *id)
{
    const struct vocab *v = &((const struct infer_tokenizer *)user)->v;
    *id = vocab_find(v, word + l->start, l->len + r->len);
    if (*id == VOCAB_NONE || !vocab_is_text(v, *id) || is_frozen(v, l->id) || is_frozen(v, r->id))
        return false;
    *rank = rank_of(file_array_f32(&v->scores, *id));
    return true;
}

/* The longest user-defined token of U+2581 alone that s begins with, or VOCAB_NONE. Those of text were found before spaces became U+2581. */
static uint32_t mark_run(const struct infer_tokenizer *t, const char *s, size_t len, size_t *used)
{
    uint32_t id = VOCAB_NONE;
    for (size_t n = 1; n <= SPM_MARK_RUN && n * 3 <= len && !memcmp(s + n * 3 - 3, SPACE_MARK, 3); n++)
        if (t->mark_run[n] != VOCAB_NONE) {
            id = t->mark_run[n];
            *used = n * 3;
        }
    return id;
}

static bool encode_run(struct encoder *e, const char *s, size_t len, bool *after_unknown)
{
    const struct vocab *v = &e->t->v;
    size_t used;
    if (!merge_reserve(&e->merger, len))
        return false;
    for (size_t i = 0; i < len; i += used) {
        (void)utf8_decode(s + i, len - i, &used);
        uint32_t id = s[i] == SPACE_MARK[0] && e->t->mark_runs ? mark_run(e->t, s + i, len - i, &used) : VOCAB_NONE;
        if (id == VOCAB_NONE)
            id = vocab_find(v, s + i, used);
        merge_add(&e->merger, (uint32_t)i, (uint32_t)used, id != VOCAB_NONE && vocab_is_text(v, id) ? id : MERGE_NONE);
    }
    if (!merge_run(&e->merger, s, find_pair, e->t))
        return false;
    for (uint32_t i = 0; i != MERGE_NONE; i = e->merger.symbols[i].next) {
        const struct merge_symbol *m = &e->merger.symbols[i];
        if (m->id != MERGE_NONE) {
            emit(e, m->id);
            *after_unknown = false;
        } else
            emit_unknown(e, s + m->start, m->len, after_unknown);
    }
    return true;
}

/* Whether a cut before the U+2581 at s[i] changes nothing: no token has this character in front of one. */
static bool can_cut(const struct infer_tokenizer *t, const char *s, size_t i)
{
    uint8_t c = (uint8_t)s[i - 1];
    if (c < 0x80)
        return !(t->joins[c >> 3] >> (c & 7) & 1);
    return !t->joins_other && !(i >= 3 && !memcmp(s + i - 3, SPACE_MARK, 3));
}

size_t spm_next_cut(const struct infer_tokenizer *t, const char *s, size_t len, size_t from)
{
    for (size_t i = from + 1; i < len; i++) {
        const char *p = memchr(s + i, SPACE_MARK[0], len - i);
        if (!p)
            break;
        i = (size_t)(p - s);
        if (len - i >= 3 && !memcmp(p, SPACE_MARK, 3) && can_cut(t, s, i))
            return i;
    }
    return len;
}

void spm_encode(struct encoder *e)
{
    bool after_unknown = false;
    const struct buf *b = &e->text;
    for (size_t from = 0, to; from < b->len && !e->no_memory; from = to) {
        to = spm_next_cut(e->t, b->data, b->len, from);
        e->no_memory = !encode_run(e, b->data + from, to - from, &after_unknown);
    }
}

/* Files spell such tokens with spaces, or as SentencePiece does. */
void spm_find_mark_runs(struct infer_tokenizer *t)
{
    const struct vocab *v = &t->v;
    memset(t->mark_run, 0xFF, sizeof t->mark_run);
    for (uint32_t id = v->n; id-- > 0;) {
        const struct str_at *b = &v->bytes.at[id];
        if (vocab_kind(v, id) != INFER_TOKEN_USER_DEFINED || !b->len || b->len > SPM_MARK_RUN)
            continue;
        uint32_t n = 0;
        while (n < b->len && v->bytes.base[b->off + n] == ' ')
            n++;
        if (n == b->len) {
            t->mark_run[n] = id;
            t->mark_runs = true;
        }
    }
}

void spm_find_joins(struct infer_tokenizer *t)
{
    const struct vocab *v = &t->v;
    for (uint32_t id = 0; id < v->n; id++) {
        const char *s = str_of(&v->pieces, id);
        size_t len = v->pieces.at[id].len;
        for (size_t i = 1; vocab_is_text(v, id) && i + 3 <= len; i++) {
            if (memcmp(s + i, SPACE_MARK, 3))
                continue;
            uint8_t c = (uint8_t)s[i - 1];
            if (c < 0x80)
                t->joins[c >> 3] |= (uint8_t)(1 << (c & 7));
            else if (i < 3 || memcmp(s + i - 3, SPACE_MARK, 3))
                t->joins_other = true;
        }
    }
}
