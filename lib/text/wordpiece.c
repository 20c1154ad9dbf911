/* WordPiece as BERT uses it: clean the text, cut it at spaces, punctuation and ideographs, then take the longest token from the left of
 * each word. What BertNormalizer, BertPreTokenizer and WordPiece in huggingface/tokenizers do. */
#include <string.h>

#include "base/utf8.h"
#include "text/tokenizer_impl.h"
#include "text/unicode_hf.h"

#define MAX_WORD 100 /* characters; longer words are unknown (max_input_chars_per_word) */

infer_status wordpiece_open(struct infer_tokenizer *t, infer_error *err)
{
    return trie_of_text(t, err);
}

/* The word in e->extra, behind a U+2581. */
static void flush_word(struct encoder *e, uint32_t *chars)
{
    const struct infer_tokenizer *t = e->t;
    const struct buf *b = &e->extra;
    size_t first = e->ids->len, n;
    bool known = *chars <= MAX_WORD;
    for (size_t i = 0; known && i < b->len; i += n) {
        uint32_t id = trie_longest(&t->trie, b->data + i, b->len - i, &n);
        known = id != TRIE_NONE && i + n > 3;
        if (known)
            emit(e, id);
    }
    if (!known) {
        e->ids->len = first;
        if (t->unk != VOCAB_NONE)
            emit(e, t->unk);
    }
    *chars = 0;
}

static void add_char(struct encoder *e, uint32_t cp, uint32_t *chars)
{
    char utf8[4];
    if (!*chars) {
        e->extra.len = 0;
        buf_put(&e->extra, SPACE_MARK, 3);
    }
    if (++*chars <= MAX_WORD)
        buf_put(&e->extra, utf8, utf8_encode(cp, utf8));
}

static void take_char(struct encoder *e, uint32_t cp, uint32_t *chars)
{
    const struct infer_tokenizer *t = e->t;
    uint32_t props = uc_props(cp);
    bool space = cp == '\t' || cp == '\n' || cp == '\r';
    if (!space && (!cp || cp == 0xFFFD || hf_is_control(cp)))
        return;
    if (t->strip_accents && hf_is_nonspacing(cp))
        return;
    bool alone = hf_is_ideograph(cp) || hf_is_punct(cp);
    if (*chars && (alone || space || (props & UC_SPACE)))
        flush_word(e, chars);
    if (space || (props & UC_SPACE))
        return;
    add_char(e, t->lowercase ? hf_lower(cp) : cp, chars);
    if (t->lowercase && cp == 0x130) /* the one letter whose lower case is two characters */
        add_char(e, 0x307, chars);
    if (alone)
        flush_word(e, chars);
}

void wordpiece_encode(struct encoder *e, const char *s, size_t len)
{
    uint32_t chars = 0;
    size_t used;
    e->text.len = 0;
    if (e->t->strip_accents) {
        uc_normalize_old(UC_FORM_D, s, len, &e->text);
        s = e->text.data;
        len = e->text.len;
    }
    for (size_t i = 0; i < len && buf_ok(&e->text) && buf_ok(&e->extra); i += used)
        take_char(e, utf8_decode(s + i, len - i, &used), &chars);
    if (chars)
        flush_word(e, &chars);
}
