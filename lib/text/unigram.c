/* Unigram (T. Kudo, 2018): the split of the text whose tokens have the greatest sum of scores, found by Viterbi's algorithm over the
 * places of the text. Sums are doubles, as in huggingface/tokenizers. */
#include <float.h>
#include <string.h>

#include "base/utf8.h"
#include "text/tokenizer_impl.h"

#define UNKNOWN_PENALTY 10.0f /* below the least score (kUnkPenalty) */

/* The best way to reach a place. */
struct place {
    double score;
    uint32_t from, id; /* the last token and where it begins; id VOCAB_NONE: an unknown character */
};

infer_status trie_of_text(struct infer_tokenizer *t, infer_error *err)
{
    const struct vocab *v = &t->v;
    struct trie_key *keys = mem_array(&t->env->alloc, v->n, sizeof *keys);
    uint32_t n = 0;
    if (!keys)
        return err_no_memory(err);
    for (uint32_t i = 0; i < v->n; i++)
        if (v->pieces.at[i].len && vocab_is_text(v, i) && vocab_kind(v, i) != INFER_TOKEN_UNUSED)
            keys[n++] = (struct trie_key){str_of(&v->pieces, i), v->pieces.at[i].len, i};
    bool ok = trie_build(&t->trie, &t->env->alloc, keys, n);
    mem_free(&t->env->alloc, keys);
    return ok ? INFER_OK : err_no_memory(err);
}

infer_status unigram_open(struct infer_tokenizer *t, infer_error *err)
{
    float least = FLT_MAX;
    for (uint32_t i = 0; i < t->v.n; i++)
        if (vocab_kind(&t->v, i) == INFER_TOKEN_NORMAL && file_array_f32(&t->v.scores, i) < least)
            least = file_array_f32(&t->v.scores, i);
    t->unk_score = (least == FLT_MAX ? 0 : least) - UNKNOWN_PENALTY;
    spm_find_joins(t);
    return trie_of_text(t, err);
}

static void reach(struct place *p, double score, size_t from, uint32_t id)
{
    if (score > p->score)
        *p = (struct place){score, (uint32_t)from, id};
}

static void search(const struct infer_tokenizer *t, const char *s, size_t len, struct place *best)
{
    size_t used;
    best[0] = (struct place){0, 0, VOCAB_NONE};
    for (size_t i = 1; i <= len; i++)
        best[i].score = -DBL_MAX;
    for (size_t i = 0; i < len; i += used) {
        double here = best[i].score;
        bool single = false;
        (void)utf8_decode(s + i, len - i, &used);
        uint32_t node = t->trie.n ? 0 : TRIE_NONE;
        for (size_t j = i; j < len && node != TRIE_NONE;) {
            node = trie_child(&t->trie, node, (uint8_t)s[j++]);
            if (node == TRIE_NONE || t->trie.value[node] == TRIE_NONE)
                continue;
            uint32_t id = t->trie.value[node];
            bool user = vocab_kind(&t->v, id) == INFER_TOKEN_USER_DEFINED;
            single = single || j - i == used;
            reach(&best[j], here + (user ? 0.0 : (double)file_array_f32(&t->v.scores, id)), i, id);
        }
        if (!single)
            reach(&best[i + used], here + (double)t->unk_score, i, VOCAB_NONE);
    }
}

/* Turns the chain of predecessors round, so that it can be read forwards: from becomes the end of the token that begins there. */
static void reverse(struct place *best, size_t len)
{
    uint32_t to = (uint32_t)len, end = (uint32_t)len, id = VOCAB_NONE;
    for (bool first = true;; first = false) {
        uint32_t from = best[to].from, own = best[to].id;
        if (!first) {
            best[to].from = end;
            best[to].id = id;
        }
        if (!to)
            break;
        end = to;
        id = own;
        to = from;
    }
}

static bool encode_run(struct encoder *e, const char *s, size_t len, bool *after_unknown)
{
    struct buf *b = &e->extra;
    b->len = 0;
    if (len >= UINT32_MAX / sizeof(struct place) || !buf_reserve(b, (len + 1) * sizeof(struct place)))
        return false;
    struct place *best = (struct place *)(void *)b->data;
    search(e->t, s, len, best);
    reverse(best, len);
    for (size_t i = 0; i < len; i = best[i].from) {
        if (best[i].id != VOCAB_NONE) {
            emit(e, best[i].id);
            *after_unknown = false;
        } else
            emit_unknown(e, s + i, best[i].from - i, after_unknown);
    }
    return true;
}

void unigram_encode(struct encoder *e)
{
    const struct buf *b = &e->text;
    bool after_unknown = false;
    for (size_t from = 0, to; from < b->len && !e->no_memory; from = to) {
        to = spm_next_cut(e->t, b->data, b->len, from);
        e->no_memory = !encode_run(e, b->data + from, to - from, &after_unknown);
    }
}
