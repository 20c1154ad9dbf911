/* Tokenizers as Hugging Face's tokenizer.json declares them: text goes through normalizers, is cut by pre-tokenizers, and a model makes
 * ids of each piece; decoders turn spellings of tokens back into text. The meaning of each part is what the `tokenizers` library does;
 * what is not built is refused by its name. docs/tokenizers.md lists the parts.
 *
 * tokjson.c opens; tokjson_vocab.c reads the long lists; tokjson_norm.c, tokjson_cut.c, tokjson_model.c, tokjson_decode.c are the parts;
 * tokjson_added.c finds added tokens and tells which ids have a role. */
#ifndef TEXT_TOKJSON_H
#define TEXT_TOKJSON_H

#include "base/arena.h"
#include "base/json_scan.h"
#include "text/pattern.h"
#include "text/tokenizer_impl.h"

#define TJ_MAX_STEPS 24   /* of normalizers, pre-tokenizers or decoders, Sequences flattened */
#define TJ_MAX_STRING 512 /* bytes of a pattern that is a string, a prefix, a replacement and so on */
#define TJ_MAX_TEXT ((size_t)1 << 20) /* bytes that decoders may make of a token, or normalizers of an added token */
#define TJ_MAX_STRIP 64   /* characters in front of a text that a decoder drops */
#define TJ_MAX_AFFIX 16   /* ids that the post-processor puts in front or behind */

enum norm_kind {
    NORM_NFC, NORM_NFD, NORM_NFKC, NORM_NFKD, NORM_LOWERCASE, NORM_STRIP_ACCENTS, NORM_STRIP, NORM_PREPEND, NORM_REPLACE,
    NORM_BERT, NORM_PRECOMPILED, NORM_NMT, NORM_BYTE_LEVEL
};

struct norm_step {
    enum norm_kind kind;
    bool left, right;                      /* Strip */
    bool clean, ideographs, accents, lower; /* BertNormalizer */
    struct pattern pattern;                /* Replace */
    struct json_text content;              /* Replace, Prepend */
    struct charsmap charsmap;              /* Precompiled */
};

enum cut_kind {
    CUT_BYTE_LEVEL, CUT_SPLIT, CUT_METASPACE, CUT_WHITESPACE, CUT_WHITESPACE_SPLIT, CUT_PUNCTUATION, CUT_DIGITS, CUT_BERT, CUT_CHAR,
    CUT_FIXED_LENGTH
};
enum cut_behavior { CUT_REMOVED, CUT_ISOLATED, CUT_MERGED_WITH_PREVIOUS, CUT_MERGED_WITH_NEXT, CUT_CONTIGUOUS };
enum prepend { PREPEND_NEVER, PREPEND_FIRST, PREPEND_ALWAYS };

struct cut_step {
    enum cut_kind kind;
    enum cut_behavior behavior;
    bool invert;                 /* Split */
    bool prefix_space, use_regex; /* ByteLevel */
    bool split;                  /* Metaspace */
    enum prepend prepend;        /* Metaspace */
    struct json_text mark;       /* Metaspace: what stands for a space */
    struct pattern pattern;      /* Split; Metaspace: mark */
    uint32_t cp, length;         /* CharDelimiterSplit; FixedLength */
};

enum decode_kind {
    DECODE_BYTE_LEVEL, DECODE_REPLACE, DECODE_METASPACE, DECODE_WORDPIECE, DECODE_BYTE_FALLBACK, DECODE_STRIP, DECODE_BPE
};

struct decode_step {
    enum decode_kind kind;
    struct json_text from, to;  /* Replace; Metaspace: mark; WordPiece: prefix; BPEDecoder: suffix; Strip: the character */
    struct pattern pattern;     /* Replace */
    bool flag;                  /* Metaspace: the first token loses its marks; WordPiece: cleanup */
    uint32_t start, stop;       /* Strip */
};

enum { ADDED_LSTRIP = 1, ADDED_RSTRIP = 2, ADDED_SINGLE_WORD = 4, ADDED_NORMALIZED = 8, ADDED_SPECIAL = 16 };

struct added_token {
    uint32_t id, flags;
    uint32_t off, len; /* of the content in the pool of spellings */
    struct json_text shown; /* the content as normalizers leave it, which is what decodes; NULL: as it is */
};

struct affix {
    uint32_t n, ids[TJ_MAX_AFFIX];
};

enum tj_model { TJ_BPE, TJ_UNIGRAM, TJ_WORDPIECE, TJ_WORDLEVEL };

struct tokjson {
    struct arena arena;    /* steps and their strings */
    struct norm_step *norms;
    struct cut_step *cuts;
    struct decode_step *decodes;
    uint32_t n_norms, n_cuts, n_decodes;

    enum tj_model model;
    bool byte_fallback, fuse_unk, ignore_merges;
    struct json_text prefix, suffix; /* continuing_subword_prefix, end_of_word_suffix */
    uint32_t max_chars;    /* WordPiece: of a word */
    uint32_t prefix_node;  /* WordPiece: the trie's node behind prefix */
    uint32_t low_id[512];  /* BPE: the token of each of the first characters, or VOCAB_NONE */
    double *scores;        /* [n] Unigram */
    uint32_t n_scores;     /* of the vocabulary itself */
    double unk_score;      /* Unigram */
    char *pool;            /* spellings */
    uint32_t pool_len;

    struct added_token *added;
    uint32_t n_added;
    struct special_set found[2][2]; /* [normalized][control tokens too]; values are places in added */
    struct affix before, after;

    bool fused;            /* while decoders are read: Fuse was seen */
    bool joined_by_space;  /* no decoder: tokens are joined by spaces */
    uint32_t strip_start;  /* of the whole text: this many strip_char in front go */
    char strip_char;
    bool hold_space;       /* BPEDecoder: a space at the very end goes */
    char byte_char[256][2]; /* GPT-2's characters of bytes, UTF-8 */
    uint8_t byte_char_len[256];
};

/* Where one encoding keeps what it needs beside the encoder. */
struct tj_run {
    const struct tokjson *j;
    const struct infer_tokenizer *t;
    struct encoder *e;
    struct buf norm[2];               /* normalised text */
    bool dropped;                     /* what the text began with is gone from it */
    struct buf level[TJ_MAX_STEPS][2]; /* text that a pre-tokenizer changed */
    struct pattern_scratch patterns;
    infer_status st;                  /* of patterns */
};

/* ---- Opening: what reads the declaration. Errors name the place in the file: path "pre_tokenizer.pretokenizers[1].pattern" and offset. */

struct tj_reader {
    struct infer_tokenizer *t;
    struct tokjson *j;
    const char *text;
    size_t len;
    size_t base; /* of the part that is looked at, in text */
    char path[160];
    infer_error *err;
};

infer_status tj_fail(struct tj_reader *r, infer_status code, const struct json *at, const char *fmt, ...) BASE_PRINTF(4, 5);
/* Adds to the path and returns its old length, to be given to tj_leave. */
size_t tj_enter(struct tj_reader *r, const char *member, size_t index); /* index SIZE_MAX: none */
void tj_leave(struct tj_reader *r, size_t len);
/* Members: absent or null gives the default. */
infer_status tj_bool(struct tj_reader *r, const struct json *o, const char *key, bool absent, bool *out);
infer_status tj_u32(struct tj_reader *r, const struct json *o, const char *key, uint32_t absent, uint32_t *out);
infer_status tj_string(struct tj_reader *r, const struct json *o, const char *key, const char *absent, struct json_text *out);
/* {"String": ...} or {"Regex": ...} */
infer_status tj_pattern(struct tj_reader *r, const struct json *o, const char *key, struct pattern *out);
bool tj_type_is(const struct json *o, const char *type);
/* Calls add for each of o's steps: itself, or those of a Sequence under `list`. null: none. */
typedef infer_status (*tj_add)(struct tj_reader *r, const struct json *step);
infer_status tj_each(struct tj_reader *r, const struct json *o, const char *list, tj_add add);
/* An unknown or unsupported type of step. */
infer_status tj_unsupported(struct tj_reader *r, const struct json *step, const char *what);

infer_status norm_add(struct tj_reader *r, const struct json *step);
infer_status cut_add(struct tj_reader *r, const struct json *step);
infer_status decode_open(struct tj_reader *r, const struct json *decoder);
infer_status affix_open(struct tj_reader *r, const struct json *post_processor);

/* The long lists: spans of the file's text. merges and added may be empty. */
struct tj_lists {
    struct json_text vocab, merges, added;
};
infer_status tj_read_vocab(struct tj_reader *r, const struct tj_lists *lists);
/* The spelling of a token that is decoded. */
struct json_text added_shown(const struct infer_tokenizer *t, uint32_t id);
infer_status tj_read_merges(struct tj_reader *r, struct json_text merges);
infer_status added_build(struct tj_reader *r);
infer_status tj_model_open(struct infer_tokenizer *t, infer_error *err);
/* What Metaspace has as pre-tokenizer and as decoder. */
infer_status tj_metaspace(struct tj_reader *r, const struct json *step, struct json_text *mark, enum prepend *prepend);

/* ---- Running */

/* Normalises s; the result is s itself or lies in run->norm. */
void tj_normalize(struct tj_run *run, const char **s, size_t *len);
/* Cuts a stretch of text and gives the pieces to the model. first: it begins the whole text. */
void tj_cut(struct tj_run *run, const char *s, size_t len, bool first);
void tj_model_encode(struct tj_run *run, const char *s, size_t len);
/* The text of a spelling that is the first of a text or not, appended to out. */
void tj_token_text(const struct tokjson *j, const char *s, size_t len, bool first, struct buf *out);

/* Tokens that text can become. */
static inline bool tj_is_text(const struct vocab *v, uint32_t id)
{
    int32_t kind = vocab_kind(v, id);
    return kind != INFER_TOKEN_CONTROL && (kind != INFER_TOKEN_UNKNOWN || (v->attr[id] & ATTR_SHOWN));
}

void tj_run_init(struct tj_run *run, const struct infer_tokenizer *t, struct encoder *e);
void tj_run_free(struct tj_run *run);
static inline bool tj_failed(const struct tj_run *run)
{
    return run->st != INFER_OK || run->e->no_memory || run->e->ids->no_memory || !buf_ok(&run->e->text) || !buf_ok(&run->e->extra);
}

#endif
