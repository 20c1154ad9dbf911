/* A vocabulary: spellings, kinds, scores and text bytes of its tokens, and finding a token by its bytes. Spellings and scores stay in
 * the file. */
#ifndef TEXT_VOCAB_H
#define TEXT_VOCAB_H

#include "formats/file.h"

/* Limits: beyond them a vocabulary is refused. */
#define VOCAB_MAX_TOKENS ((uint32_t)1 << 24)
#define VOCAB_MAX_MERGES ((uint32_t)1 << 25)
#define VOCAB_MAX_PIECE  4096 /* bytes of a spelling */

#define VOCAB_NONE UINT32_MAX

/* Many strings near each other. */
struct strs {
    const char *base;
    struct str_at {
        uint32_t off, len;
    } *at; /* [n] */
};

static inline const char *str_of(const struct strs *s, uint32_t i)
{
    return s->base + s->at[i].off;
}

/* Token attributes: the kind (INFER_TOKEN_*) and flags. */
enum { ATTR_KIND = 7, ATTR_ENDS_TURN = 8, ATTR_LSTRIP = 16, ATTR_RSTRIP = 32, ATTR_WORD_START = 64,
       ATTR_SHOWN = 128 /* an unknown token that gives text */ };

/* How spellings stand for bytes. */
enum vocab_form {
    FORM_BYTE_LEVEL, /* each byte is a character: GPT-2's table */
    FORM_SPACED,     /* UTF-8, U+2581 is a space (SentencePiece) */
    FORM_WORDPIECE,  /* UTF-8, U+2581 in front begins a word */
    FORM_JSON        /* as a tokenizer.json's decoder has it */
};

/* From a token's bytes to its id. Only tokens of the wanted kinds are in it. Slots: tag << 32 | id + 1, 0: empty. */
struct id_table {
    uint64_t *slots;
    uint32_t mask;
};

struct vocab {
    const struct alloc *alloc;
    enum vocab_form form;
    uint32_t n;
    uint32_t max_piece;     /* bytes of the longest spelling */
    struct strs pieces;     /* spellings */
    struct strs bytes;      /* text bytes in the middle of a text */
    char *byte_pool;
    uint8_t *attr;          /* [n] */
    struct file_array scores; /* count 0: none */
    struct id_table table;  /* by bytes for FORM_BYTE_LEVEL, else by spelling */
    bool duplicates;        /* two tokens have the same bytes: the first counts */
    uint32_t byte_id[256];  /* the token of a single byte, or VOCAB_NONE */
};

/* Reads tokens, token types and scores. need_scores: refuse when they are missing or not finite. On failure vocab_free is due too. */
infer_status vocab_load(struct vocab *v, const struct alloc *alloc, const struct infer_file *f, enum vocab_form form,
                        bool need_scores, infer_error *err);
/* Makes bytes, table and byte_id, once the attributes are final. */
infer_status vocab_index(struct vocab *v, const struct infer_file *f, infer_error *err);
/* The table alone, of the spellings that are there now (those without are left out). Of equal ones the last counts. Errors: LIMIT (they
 * collide, without a text), NO_MEMORY. */
infer_status vocab_make_table(struct vocab *v);
void vocab_free(struct vocab *v);

static inline int32_t vocab_kind(const struct vocab *v, uint32_t id)
{
    return v->attr[id] & ATTR_KIND;
}
static inline void vocab_set_kind(struct vocab *v, uint32_t id, int32_t kind)
{
    v->attr[id] = (uint8_t)((v->attr[id] & ~ATTR_KIND) | kind);
}
/* Tokens that text can become without being parsed as a control token. */
static inline bool vocab_is_text(const struct vocab *v, uint32_t id)
{
    int32_t k = vocab_kind(v, id);
    return k == INFER_TOKEN_NORMAL || k == INFER_TOKEN_USER_DEFINED || k == INFER_TOKEN_UNUSED;
}

/* The token with these bytes (see table), or VOCAB_NONE. */
uint32_t vocab_find(const struct vocab *v, const char *s, size_t len);
/* The same for many at once: their memory accesses overlap, which is several times as fast when the table is cold. */
struct vocab_query {
    const char *s;
    uint32_t len, id; /* id: the result */
    uint64_t hash;    /* scratch */
};
void vocab_find_many(const struct vocab *v, struct vocab_query *q, size_t n);
/* GPT-2's table. Decodes a spelling; false (and nothing written) when a character is not in the table. out has room for len bytes. */
bool byte_level_decode(const char *s, size_t len, char *out, size_t *out_len);

#define SPACE_MARK "\xE2\x96\x81" /* U+2581 */

#endif
