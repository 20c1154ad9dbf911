/* The models: ids of one piece of text. */
#include <float.h>
#include <string.h>

#include "base/utf8.h"
#include "text/pretok_impl.h"
#include "text/tokjson.h"

static void emit_unk(struct tj_run *run)
{
    if (run->t->unk != VOCAB_NONE)
        emit(run->e, run->t->unk);
}

/* The token of a piece as a whole; control tokens are no text. */
static uint32_t find_text(const struct infer_tokenizer *t, const char *s, size_t len)
{
    uint32_t id = vocab_find(&t->v, s, len);
    return id != VOCAB_NONE && !tj_is_text(&t->v, id) ? VOCAB_NONE : id;
}

/* ---- BPE */

/* A character without a token waits here, in case it is fused with the next. */
struct waiting {
    uint32_t start, len; /* len 0: none */
};

static void put_waiting(struct tj_run *run, struct waiting *w)
{
    if (w->len)
        merge_add(&run->e->merger, w->start, w->len, run->t->unk);
    w->len = 0;
}

/* The bytes of what has no token, when the vocabulary has them all. */
static bool add_bytes(struct tj_run *run, const char *s, size_t len, uint32_t start)
{
    const uint32_t *id = run->t->v.byte_id;
    for (size_t i = 0; i < len; i++)
        if (id[(uint8_t)s[i]] == VOCAB_NONE)
            return false;
    for (size_t i = 0; i < len; i++)
        merge_add(&run->e->merger, start, 1, id[(uint8_t)s[i]]);
    return true;
}

/* The symbol that a character begins as, with the prefix and suffix that mark its place in the word. */
static void add_symbol(struct tj_run *run, const char *s, size_t len, uint32_t start, bool is_first, bool is_last, struct waiting *w)
{
    const struct tokjson *j = run->j;
    uint32_t n = (uint32_t)len;
    if ((!is_first && j->prefix.len) || (is_last && j->suffix.len)) {
        struct buf *b = &run->e->extra;
        b->len = 0;
        if (!is_first)
            buf_put(b, j->prefix.p, j->prefix.len);
        buf_put(b, s, len);
        if (is_last)
            buf_put(b, j->suffix.p, j->suffix.len);
        if (!buf_ok(b))
            return;
        s = b->data;
        len = b->len;
    }
    uint32_t id = find_text(run->t, s, len);
    if (id != VOCAB_NONE) {
        put_waiting(run, w);
        merge_add(&run->e->merger, start, n, id);
    } else if (!j->byte_fallback || !add_bytes(run, s, len, start)) {
        if (run->t->unk == VOCAB_NONE)
            return;
        if (!j->fuse_unk)
            put_waiting(run, w);
        *w = (struct waiting){w->len ? w->start : start, w->len + n};
    }
}

static void add_symbols(struct tj_run *run, const char *s, size_t len)
{
    const struct tokjson *j = run->j;
    bool plain = !j->prefix.len && !j->suffix.len;
    struct waiting w = {0, 0};
    const char *end = s + len, *at = s;
    while (at < end) {
        const char *from = at;
        uint32_t cp = next_cp(&at), start = (uint32_t)(from - s), n = (uint32_t)(at - from);
        if (plain && cp < 512 && j->low_id[cp] != VOCAB_NONE) {
            put_waiting(run, &w);
            merge_add(&run->e->merger, start, n, j->low_id[cp]);
        } else
            add_symbol(run, from, n, start, from == s, at == end, &w);
    }
    put_waiting(run, &w);
}

static bool find_merge(const void *user, const char *word, const struct merge_symbol *l, const struct merge_symbol *r,
                       uint32_t *rank, uint32_t *id)
{
    (void)word;
    const struct pair_slot *p = pair_find(user, l->id, r->id);
    if (!p)
        return false;
    *rank = p->rank;
    *id = p->id;
    return true;
}

static void bpe(struct tj_run *run, const char *s, size_t len)
{
    struct merger *m = &run->e->merger;
    const struct tokjson *j = run->j;
    uint32_t id = j->ignore_merges ? find_text(run->t, s, len) : VOCAB_NONE;
    if (id != VOCAB_NONE) {
        emit(run->e, id);
        return;
    }
    size_t each = 1 + (j->byte_fallback ? j->prefix.len + j->suffix.len : 0); /* symbols of a byte at most */
    if (len > SIZE_MAX / each || !merge_reserve(m, len * each)) {
        run->e->no_memory = true;
        return;
    }
    add_symbols(run, s, len);
    if (!merge_run(m, s, find_merge, &run->t->pairs)) {
        run->e->no_memory = true;
        return;
    }
    for (uint32_t i = m->n ? 0 : MERGE_NONE; i != MERGE_NONE; i = m->symbols[i].next)
        emit(run->e, m->symbols[i].id);
}

/* ---- Unigram: the split with the greatest sum of scores, sums from the left in doubles */

struct place {
    double score;
    uint32_t from, id; /* the last token and where it begins; from UINT32_MAX: not reached */
};

static void reach(struct place *p, double score, size_t from, uint32_t id)
{
    if (p->from == UINT32_MAX || score > p->score)
        *p = (struct place){score, (uint32_t)from, id};
}

static void search(const struct infer_tokenizer *t, const char *s, size_t len, struct place *best)
{
    size_t used;
    best[0] = (struct place){0, 0, t->unk};
    for (size_t i = 1; i <= len; i++)
        best[i] = (struct place){0, UINT32_MAX, 0};
    for (size_t i = 0; i < len; i += used) {
        bool single = false;
        uint32_t node = t->trie.n ? 0 : TRIE_NONE;
        (void)utf8_decode(s + i, len - i, &used);
        for (size_t k = i; k < len && node != TRIE_NONE;) {
            node = trie_child(&t->trie, node, (uint8_t)s[k++]);
            if (node == TRIE_NONE || t->trie.value[node] == TRIE_NONE)
                continue;
            uint32_t id = t->trie.value[node];
            single = single || k - i == used;
            reach(&best[k], best[i].score + t->json->scores[id], i, id);
        }
        if (!single)
            reach(&best[i + used], best[i].score + t->json->unk_score, i, t->unk);
    }
}

/* Turns the chain of predecessors round: from becomes the end of the token that begins there. */
static void reverse(struct place *best, size_t len)
{
    uint32_t to = (uint32_t)len, end = to, id = VOCAB_NONE;
    while (to) {
        struct place here = best[to];
        best[to].from = end;
        best[to].id = id;
        end = to;
        id = here.id;
        to = here.from;
    }
    best[0].from = end;
    best[0].id = id;
}

static void put_unknown(struct tj_run *run, const char *s, size_t len)
{
    const uint32_t *id = run->t->v.byte_id;
    bool bytes = run->j->byte_fallback;
    for (size_t i = 0; i < len && bytes; i++)
        bytes = id[(uint8_t)s[i]] != VOCAB_NONE;
    for (size_t i = 0; i < len && bytes; i++)
        emit(run->e, id[(uint8_t)s[i]]);
    if (!bytes)
        emit_unk(run);
}

static void unigram(struct tj_run *run, const char *s, size_t len)
{
    struct buf *b = &run->e->extra;
    b->len = 0;
    if (len >= UINT32_MAX / sizeof(struct place) || !buf_reserve(b, (len + 1) * sizeof(struct place))) {
        run->e->no_memory = true;
        return;
    }
    struct place *best = (struct place *)(void *)b->data;
    search(run->t, s, len, best);
    reverse(best, len);
    size_t unknown = 0; /* bytes in front of i that have no token: one unknown token for all */
    for (size_t i = 0; i < len; i = best[i].from) {
        if (best[i].id == run->t->unk) {
            unknown += best[i].from - i;
            continue;
        }
        if (unknown)
            put_unknown(run, s + i - unknown, unknown);
        unknown = 0;
        emit(run->e, best[i].id);
    }
    if (unknown)
        put_unknown(run, s + len - unknown, unknown);
}

/* ---- WordPiece: the longest token from the left; a word that does not work out is unknown as a whole */

static uint32_t longest_from(const struct trie *t, uint32_t node, const char *s, size_t len, size_t *used)
{
    uint32_t found = TRIE_NONE;
    for (size_t i = 0; i < len && node != TRIE_NONE; i++) {
        node = trie_child(t, node, (uint8_t)s[i]);
        if (node != TRIE_NONE && t->value[node] != TRIE_NONE) {
            found = t->value[node];
            *used = i + 1;
        }
    }
    return found;
}

static bool longer_than(const char *s, size_t len, uint32_t chars)
{
    size_t n = 0;
    for (size_t i = 0; i < len && n <= chars; i++)
        n += ((uint8_t)s[i] & 0xC0) != 0x80;
    return n > chars;
}

static void word_piece(struct tj_run *run, const char *s, size_t len)
{
    const struct infer_tokenizer *t = run->t;
    size_t before = run->e->ids->len, used = 0;
    bool known = t->trie.n && !longer_than(s, len, run->j->max_chars);
    for (size_t i = 0; known && i < len; i += used) {
        uint32_t id = longest_from(&t->trie, i ? run->j->prefix_node : 0, s + i, len - i, &used);
        known = id != TRIE_NONE;
        if (known)
            emit(run->e, id);
    }
    if (!known) {
        run->e->ids->len = before;
        emit_unk(run);
    }
}

static void word_level(struct tj_run *run, const char *s, size_t len)
{
    uint32_t id = find_text(run->t, s, len);
    if (id != VOCAB_NONE)
        emit(run->e, id);
    else
        emit_unk(run);
}

void tj_model_encode(struct tj_run *run, const char *s, size_t len)
{
    switch (run->j->model) {
    case TJ_BPE: bpe(run, s, len); break;
    case TJ_UNIGRAM: unigram(run, s, len); break;
    case TJ_WORDPIECE: word_piece(run, s, len); break;
    default: word_level(run, s, len); break;
    }
}

/* ---- Opening */

static infer_status build_trie(struct infer_tokenizer *t, infer_error *err)
{
    const struct vocab *v = &t->v;
    struct trie_key *keys = mem_array(v->alloc, v->n, sizeof *keys);
    uint32_t n = 0;
    if (!keys)
        return err_no_memory(err);
    for (uint32_t i = 0; i < v->n; i++) {
        uint32_t len = v->pieces.at[i].len;
        if (len && tj_is_text(v, i) && vocab_find(v, str_of(&v->pieces, i), len) == i)
            keys[n++] = (struct trie_key){str_of(&v->pieces, i), len, i};
    }
    bool ok = trie_build(&t->trie, v->alloc, keys, n);
    mem_free(v->alloc, keys);
    return ok ? INFER_OK : err_no_memory(err);
}

#define UNKNOWN_PENALTY 10.0 /* below the least score (kUnkPenalty) */

infer_status tj_model_open(struct infer_tokenizer *t, infer_error *err)
{
    struct tokjson *j = t->json;
    if (j->model != TJ_UNIGRAM && j->model != TJ_WORDPIECE)
        return INFER_OK;
    double least = DBL_MAX;
    for (uint32_t i = 0; j->model == TJ_UNIGRAM && i < j->n_scores; i++)
        least = j->scores[i] < least ? j->scores[i] : least;
    j->unk_score = least - UNKNOWN_PENALTY;
    infer_status st = build_trie(t, err);
    j->prefix_node = t->trie.n ? 0 : TRIE_NONE;
    for (size_t i = 0; i < j->prefix.len && j->prefix_node != TRIE_NONE; i++)
        j->prefix_node = trie_child(&t->trie, j->prefix_node, (uint8_t)j->prefix.p[i]);
    return st;
}
