/* Byte-level BPE (R. Sennrich et al., 2016; the byte alphabet is GPT-2's): text is cut into words, each word's bytes are joined by
 * the vocabulary's list of merges, the earliest in the list first. Here merges join token ids, so no text is compared. */
#include <string.h>

#include "base/utf8.h"
#include "text/tokenizer_impl.h"
#include "text/unicode.h"

#define KEY_MERGES "tokenizer.ggml.merges"
#define MAX_PROBES 1024

static uint32_t pair_hash(uint32_t left, uint32_t right)
{
    uint64_t x = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u;
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9u;
    return (uint32_t)(x >> 32);
}

static const struct pair_slot *pair_find(const struct pair_table *t, uint32_t left, uint32_t right)
{
    for (uint32_t i = pair_hash(left, right) & t->mask;; i = (i + 1) & t->mask) {
        const struct pair_slot *s = &t->slots[i];
        if (s->left == VOCAB_NONE)
            return NULL;
        if (s->left == left && s->right == right)
            return s;
    }
}

/* False: too many collisions for an honest file. */
static bool pair_add(struct pair_table *t, struct pair_slot p)
{
    uint32_t i = pair_hash(p.left, p.right) & t->mask;
    for (int probes = 0; probes < MAX_PROBES; probes++, i = (i + 1) & t->mask) {
        struct pair_slot *s = &t->slots[i];
        if (s->left == VOCAB_NONE)
            *s = p;
        if (s->left == p.left && s->right == p.right)
            return true; /* of equal merges the first counts */
    }
    return false;
}

/* The bytes of a part of a merge as the table knows them. */
static size_t part_bytes(const struct infer_tokenizer *t, const char *s, size_t len, char *out)
{
    size_t n;
    if (t->v.form == FORM_BYTE_LEVEL && byte_level_decode(s, len, out, &n))
        return n;
    memcpy(out, s, len);
    return len;
}

/* One merge, "left right". buf has room for twice the longest piece. A merge that makes a control token is left out. */
static infer_status add_merge(struct infer_tokenizer *t, uint32_t rank, struct file_str s, char *buf, infer_error *err)
{
    const struct vocab *v = &t->v;
    const char *gap = s.len > 2 ? memchr(s.data + 1, ' ', (size_t)s.len - 1) : NULL;
    if (!gap || gap + 1 == s.data + s.len || s.len > 2 * (uint64_t)v->max_piece + 1)
        return TOK_FAIL(t, err, INFER_ERROR_VALUE, KEY_MERGES, "merge %u is not two tokens", rank);
    size_t a = part_bytes(t, s.data, (size_t)(gap - s.data), buf);
    size_t b = part_bytes(t, gap + 1, (size_t)(s.data + s.len - gap) - 1, buf + a);
    struct pair_slot p = {vocab_find(v, buf, a), vocab_find(v, buf + a, b), rank, vocab_find(v, buf, a + b)};
    if (p.left == VOCAB_NONE || p.right == VOCAB_NONE || p.id == VOCAB_NONE)
        return TOK_FAIL(t, err, INFER_ERROR_VALUE, KEY_MERGES, "merge %u names a token that is not in the vocabulary",
                        rank);
    if (!vocab_is_text(v, p.id))
        return INFER_OK;
    if (!pair_add(&t->pairs, p))
        return TOK_FAIL(t, err, INFER_ERROR_LIMIT, KEY_MERGES, "the merges collide: not a vocabulary");
    return INFER_OK;
}

infer_status bpe_open(struct infer_tokenizer *t, infer_error *err)
{
    struct file_strings it;
    struct file_str s;
    infer_status st = file_get_strings(t->file, KEY_MERGES, &it, err);
    if (st != INFER_OK)
        return st;
    if (it.left > VOCAB_MAX_MERGES)
        return TOK_FAIL(t, err, INFER_ERROR_LIMIT, KEY_MERGES, "%llu merges: at most %u are supported",
                        (unsigned long long)it.left, VOCAB_MAX_MERGES);
    uint32_t cap = 16;
    while (cap < it.left + it.left / 2)
        cap *= 2;
    t->pairs.slots = mem_array(&t->env->alloc, cap, sizeof *t->pairs.slots);
    t->pairs.mask = cap - 1;
    char *buf = mem_alloc(&t->env->alloc, 2 * (size_t)t->v.max_piece + 2);
    if (!t->pairs.slots || !buf)
        st = err_no_memory(err);
    else
        memset(t->pairs.slots, 0xFF, (size_t)cap * sizeof *t->pairs.slots);
    for (uint32_t rank = 0; st == INFER_OK && file_strings_next(&it, &s); rank++)
        st = add_merge(t, rank, s, buf, err);
    mem_free(&t->env->alloc, buf);
    return st;
}

static bool find_merge(const void *user, const char *word, const struct merge_symbol *l, const struct merge_symbol *r,
                       uint32_t *rank, uint32_t *id)
{
    const struct infer_tokenizer *t = user;
    (void)word;
    const struct pair_slot *p =
        l->id == MERGE_NONE || r->id == MERGE_NONE ? NULL : pair_find(&t->pairs, l->id, r->id);
    if (!p)
        return false;
    *rank = p->rank;
    *id = p->id;
    return true;
}

/* The symbols that a word begins as: bytes, or (in SentencePiece's spelling) characters. */
static void add_symbols(struct encoder *e, const char *s, size_t len)
{
    const struct vocab *v = &e->t->v;
    size_t used = 1;
    for (size_t i = 0; i < len; i += used) {
        uint32_t id = v->byte_id[(uint8_t)s[i]];
        if (v->form != FORM_BYTE_LEVEL) {
            (void)utf8_decode(s + i, len - i, &used);
            id = vocab_find(v, s + i, used);
            if (id != VOCAB_NONE && !vocab_is_text(v, id))
                id = VOCAB_NONE;
        }
        merge_add(&e->merger, (uint32_t)i, (uint32_t)used, id);
    }
}

static bool encode_word(void *user, const char *s, size_t len)
{
    struct encoder *e = user;
    const struct infer_tokenizer *t = e->t;
    bool newlines = t->v.form == FORM_SPACED && s[0] == '\n'; /* such a run is one token when there is one */
    if ((t->pre->flags & PRETOK_WHOLE_WORDS) || newlines) {
        uint32_t id = vocab_find(&t->v, s, len);
        if (id != VOCAB_NONE && vocab_is_text(&t->v, id)) {
            emit(e, id);
            return true;
        }
    }
    if (!merge_reserve(&e->merger, len)) {
        e->no_memory = true;
        return false;
    }
    add_symbols(e, s, len);
    if (!merge_run(&e->merger, s, find_merge, t)) {
        e->no_memory = true;
        return false;
    }
    bool after_unknown = false;
    for (uint32_t i = 0; i != MERGE_NONE; i = e->merger.symbols[i].next) {
        const struct merge_symbol *m = &e->merger.symbols[i];
        if (m->id != MERGE_NONE) {
            emit(e, m->id);
            after_unknown = false;
        } else
            emit_unknown(e, s + m->start, m->len, &after_unknown);
    }
    return true;
}

void bpe_encode(struct encoder *e, const char *s, size_t len)
{
    const struct infer_tokenizer *t = e->t;
    e->text.len = 0;
    if (t->v.form == FORM_SPACED) {
        spm_normalize(e, s, len, false);
        s = e->text.data;
        len = e->text.len;
    } else if ((t->pre->flags & PRETOK_NFC) && !uc_is_plain_nfc(s, len)) {
        uc_normalize(UC_FORM_C, s, len, &e->text);
        s = e->text.data;
        len = e->text.len;
    }
    if (buf_ok(&e->text) && len)
        (void)pretok_split(t->pre, s, len, encode_word, e);
}
