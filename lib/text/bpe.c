/* Byte-level BPE (R. Sennrich et al., 2016; the byte alphabet is GPT-2's): text is cut into words, each word's bytes are joined by
 * the vocabulary's list of merges, the earliest in the list first. Here merges join token ids, so no text is compared. */
#include <string.h>

#include "base/utf8.h"
#include "text/tokenizer_impl.h"
#include "text/unicode.h"

#define KEY_MERGES "tokenizer.ggml.merges"

/* The bytes of a part of a merge as the table knows them. */
static size_t part_bytes(const struct infer_tokenizer *t, const char *s, size_t len, char *out)
{
    size_t n;
    if (t->v.form == FORM_BYTE_LEVEL && byte_level_decode(s, len, out, &n))
        return n;
    memcpy(out, s, len);
    return len;
}

#define BATCH 32

/* Merges are read a few at a time, so that their look-ups overlap. */
struct merge_batch {
    char *text;      /* [BATCH][stride] the bytes of both parts */
    size_t stride;
    uint32_t n, rank; /* of the first */
    uint32_t touched; /* see flush_merges */
    struct vocab_query q[BATCH * 3];
};

/* Takes one merge, "left right". */
static infer_status take_merge(const struct infer_tokenizer *t, struct merge_batch *b, struct file_str s, infer_error *err)
{
    const char *gap = s.len > 2 ? memchr(s.data + 1, ' ', (size_t)s.len - 1) : NULL;
    if (!gap || gap + 1 == s.data + s.len || s.len > 2 * (uint64_t)t->v.max_piece + 1)
        return TOK_FAIL(t, err, INFER_ERROR_VALUE, KEY_MERGES, "merge %u is not two tokens", b->rank + b->n);
    char *text = b->text + b->n * b->stride;
    uint32_t left = (uint32_t)part_bytes(t, s.data, (size_t)(gap - s.data), text);
    uint32_t right = (uint32_t)part_bytes(t, gap + 1, (size_t)(s.data + s.len - gap) - 1, text + left);
    struct vocab_query *q = b->q + b->n++ * 3;
    q[0] = (struct vocab_query){.s = text, .len = left};
    q[1] = (struct vocab_query){.s = text + left, .len = right};
    q[2] = (struct vocab_query){.s = text, .len = left + right};
    return INFER_OK;
}

/* Adds what the batch holds. A merge that makes a control token is left out. */
static infer_status flush_merges(struct infer_tokenizer *t, struct merge_batch *b, infer_error *err)
{
    uint32_t touched = 0;
    vocab_find_many(&t->v, b->q, (size_t)b->n * 3);
    for (uint32_t i = 0; i < b->n; i++)
        touched |= t->pairs.slots[pair_hash(b->q[i * 3].id, b->q[i * 3 + 1].id) & t->pairs.mask].rank;
    for (uint32_t i = 0; i < b->n; i++) {
        const struct vocab_query *q = b->q + i * 3;
        struct pair_slot p = {q[0].id, q[1].id, b->rank + i, q[2].id};
        if (p.left == VOCAB_NONE || p.right == VOCAB_NONE || p.id == VOCAB_NONE)
            return TOK_FAIL(t, err, INFER_ERROR_VALUE, KEY_MERGES,
                            "merge %u names a token that is not in the vocabulary", p.rank);
        if (vocab_is_text(&t->v, p.id) && !pair_add(&t->pairs, p, false))
            return TOK_FAIL(t, err, INFER_ERROR_LIMIT, KEY_MERGES, "the merges collide: not a vocabulary");
    }
    b->rank += b->n;
    b->n = 0;
    b->touched = touched; /* keeps the loads above, which bring the slots into the cache */
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
    const struct alloc *a = &t->env->alloc;
    bool pairs = pair_table_init(&t->pairs, a, (uint32_t)it.left);
    struct merge_batch *b = mem_zalloc(a, sizeof *b);
    if (b) {
        b->stride = 2 * (size_t)t->v.max_piece + 2;
        b->text = mem_array(a, BATCH, b->stride);
    }
    if (!pairs || !b || !b->text)
        st = err_no_memory(err);
    while (st == INFER_OK && file_strings_next(&it, &s)) {
        st = take_merge(t, b, s, err);
        if (st == INFER_OK && b->n == BATCH)
            st = flush_merges(t, b, err);
        if (st == INFER_OK && b->n == 0)
            st = tokenizer_goes_on(t, err);
    }
    if (st == INFER_OK)
        st = flush_merges(t, b, err);
    if (b)
        mem_free(a, b->text);
    mem_free(a, b);
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
        uc_normalize_old(UC_FORM_C, s, len, &e->text);
        s = e->text.data;
        len = e->text.len;
    }
    if (buf_ok(&e->text) && len)
        (void)pretok_split(t->pre, s, len, encode_word, e);
}
