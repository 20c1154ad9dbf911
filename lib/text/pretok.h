/* Pre-tokenizers: how a byte-level BPE vocabulary cuts text into words before it merges. Each published one is a regular expression,
 * or several applied one after the other; here they are written by hand, from a few parts that they share. docs/tokenizers.md lists
 * them. All take linear time. */
#ifndef TEXT_PRETOK_H
#define TEXT_PRETOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pretok_stage;

enum {
    PRETOK_WHOLE_WORDS = 1, /* a word that is a token is not merged up from bytes ("ignore_merges") */
    PRETOK_ADD_BOS = 2,     /* BOS by default */
    PRETOK_NFC = 4,         /* text is brought to normal form C first */
    PRETOK_RAW = 8          /* pieces are plain UTF-8 with U+2581 for the space, and bytes are <0xXX>, as in SentencePiece */
};

struct pretok {
    const char *name;                  /* the value of tokenizer.ggml.pre */
    const struct pretok_stage *stages; /* ends with a stage without function */
    uint32_t flags;
};

/* What a stage remembers between matches, so that long runs are scanned once. */
struct pretok_memo {
    const char *end;  /* of the run that the last match looked at */
    const char *mark; /* a place in it: after its last newline */
    uint64_t left;    /* digits from the current position to its end */
};

/* The stage that stands for this regular expression (Oniguruma's syntax, as tokenizer.json has it), or NULL: it is not built in. */
const struct pretok_stage *pretok_expression(const char *text, size_t len);
const struct pretok_stage *pretok_gpt2(void); /* GPT-2's expression */
/* The next match in [s, end): its beginning, and its end in *stop. NULL: none. memo is zeroed at the beginning of a text. */
const char *pretok_next(const struct pretok_stage *st, struct pretok_memo *memo, const char *s, const char *end, const char **stop);

/* NULL: unknown name. An empty name is "default". */
const struct pretok *pretok_find(const char *name, size_t len);

/* Calls emit for each word, in order; together they are the text. Stops when emit returns false, and returns that. text is valid UTF-8. */
typedef bool (*pretok_emit)(void *user, const char *word, size_t len);
bool pretok_split(const struct pretok *p, const char *text, size_t len, pretok_emit emit, void *user);

#endif
