/* What the files of the tokenizer share. */
#ifndef TEXT_TOKENIZER_IMPL_H
#define TEXT_TOKENIZER_IMPL_H

#include "base/buf.h"
#include "base/cancel.h"
#include "text/charsmap.h"
#include "text/merge.h"
#include "text/pairs.h"
#include "text/pretok.h"
#include "text/tokenizer.h"
#include "text/trie.h"
#include "text/vocab.h"

/* Tokens found in the text before it is split: a trie, and the bytes that one can begin with. */
struct special_set {
    struct trie trie;
    uint8_t first[32];
};

#define SPM_MARK_RUN 64

struct infer_tokenizer {
    struct ref ref;
    const struct env *env;
    struct infer_file *file;
    int32_t kind; /* INFER_TOKENIZER_* */
    struct vocab v;
    uint32_t bos, eos, eot, unk, sep, pad, mask; /* VOCAB_NONE: none */
    bool add_bos, add_eos, add_sep;
    bool space_prefix;  /* text begins with a space that is not in it */
    bool merge_spaces;  /* leading, trailing and repeated spaces go */
    struct special_set user, all; /* user-defined tokens; these and control tokens */

    const struct pretok *pre;  /* BPE */
    struct pair_table pairs;   /* BPE */
    uint8_t joins[16];         /* SPM: bit c: some token has the ASCII character c before a U+2581 */
    bool joins_other;          /* SPM: some token has another character there */
    bool mark_runs;            /* SPM: there are user-defined tokens of spaces alone; */
    uint32_t mark_run[SPM_MARK_RUN + 1]; /* by their number of spaces, or VOCAB_NONE */
    struct trie trie;          /* Unigram, WordPiece: what words are made of */
    struct charsmap charsmap;  /* SPM, Unigram */
    float unk_score;           /* Unigram */
    bool lowercase, strip_accents; /* WordPiece */
    struct tokjson *json;          /* tokenizer.json: NULL when the tokenizer is GGUF's */
    const infer_cancel *cancel;    /* while it is made */
};

/* Between pieces of the work of making one. */
static inline infer_status tokenizer_goes_on(const struct infer_tokenizer *t, infer_error *err)
{
    return cancel_is_set(t->cancel) ? err_set(err, INFER_ERROR_CANCELLED, "cancelled while reading the tokenizer") : INFER_OK;
}

/* Where one encoding keeps its scratch memory. */
struct encoder {
    const struct infer_tokenizer *t;
    struct token_ids *ids;
    struct merger merger;
    struct buf text, extra;
    bool no_memory;
};

static inline void emit(struct encoder *e, uint32_t id)
{
    token_ids_put(e->ids, (int32_t)id);
}

/* s up to `to`, or from `from` on, without white space at that end. */
size_t strip_end(const char *s, size_t from, size_t to);
size_t strip_begin(const char *s, size_t from, size_t len);

/* A character without a token: its bytes where the vocabulary has them, else the unknown token, one for a run of them. */
void emit_unknown(struct encoder *e, const char *s, size_t len, bool *after_unknown);

/* Encoding one stretch of text without special tokens. */
infer_status bpe_open(struct infer_tokenizer *t, infer_error *err);
void bpe_encode(struct encoder *e, const char *s, size_t len);
void spm_encode(struct encoder *e); /* of e->text, made by spm_normalize */
infer_status unigram_open(struct infer_tokenizer *t, infer_error *err);
void unigram_encode(struct encoder *e); /* of e->text */
/* A trie of the tokens that text can become. */
infer_status trie_of_text(struct infer_tokenizer *t, infer_error *err);
infer_status wordpiece_open(struct infer_tokenizer *t, infer_error *err);
void wordpiece_encode(struct encoder *e, const char *s, size_t len);

/* SentencePiece's normalisation of a stretch of text, into e->text: character map, spaces, U+2581. prefix: add a space in front. */
void spm_normalize(struct encoder *e, const char *s, size_t len, bool prefix);
/* Finds which characters some token has in front of a U+2581. */
void spm_find_joins(struct infer_tokenizer *t);
/* Finds the user-defined tokens of spaces alone. */
void spm_find_mark_runs(struct infer_tokenizer *t);
/* The first place after `from` in front of a U+2581 where no token reaches across, or len. */
size_t spm_next_cut(const struct infer_tokenizer *t, const char *s, size_t len, size_t from);

/* tokenizer.json (tokjson.h). What open leaves behind on failure, free takes too. */
infer_status tokjson_open(struct infer_tokenizer *t, infer_error *err);
void tokjson_free(struct infer_tokenizer *t);
infer_status tokjson_encode(struct encoder *e, const char *s, size_t len, uint32_t flags, infer_error *err);
/* The id of an added token, or of a token of the vocabulary, with this spelling; or VOCAB_NONE. */
uint32_t tokjson_find_added(const struct infer_tokenizer *t, const char *s, size_t len);
/* Whether a space at the very end of a text is dropped. */
bool tokjson_holds_space(const struct infer_tokenizer *t);
/* Appends the text of the next token. */
void tokjson_text(const struct infer_tokenizer *t, infer_detokenizer *state, uint32_t id, struct buf *out);

/* Special tokens: ids, kinds and attributes; the sets come once kinds are final. */
infer_status special_load(struct infer_tokenizer *t, infer_error *err);
infer_status special_build(struct infer_tokenizer *t, infer_error *err);
/* The same for a tokenizer.json, whose ids and flags are set already: the file's metadata may say otherwise. */
infer_status special_load_json(struct infer_tokenizer *t, infer_error *err);
/* The longest token of set at the first place at or after `from` where there is one. False: none. */
bool special_find(const struct special_set *set, const char *s, size_t len, size_t from, size_t *at, size_t *n,
                  uint32_t *id);
void special_free(struct infer_tokenizer *t);

#define TOK_FAIL(t, err, code, key, ...)                                                                               \
    (err_at(err, code, key, strlen(key), ERR_NO_OFFSET, __VA_ARGS__), file_failed((t)->file, err, code))

#endif
