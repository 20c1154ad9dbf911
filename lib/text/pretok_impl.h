/* The parts that pre-tokenizers are made of; private to pretok*.c. */
#ifndef TEXT_PRETOK_IMPL_H
#define TEXT_PRETOK_IMPL_H

#include "text/pretok.h"
#include "text/unicode.h"

/* Returns the end of the match at s, or s. */
typedef const char *(*pretok_match)(const struct pretok_stage *st, struct pretok_memo *memo, const char *s, const char *end);

enum lead { LEAD_NONE, LEAD_SPACE /* \s? */, LEAD_BLANK /* ' '? */ };

/* Between min and max (0: no limit) characters of a class, after an optional leading one. */
struct char_class {
    bool (*is)(uint32_t cp);
    uint32_t min, max;
    enum lead lead;
};

enum contraction { CONTRACT_NONE, CONTRACT_EXACT /* 's|'t|'re|'ve|'m|'ll|'d */, CONTRACT_ANY /* in any case */ };
enum letters {
    LETTERS_SPACE,        /*  ?\p{L}+ */
    LETTERS_ANY,          /* [^\r\n\p{L}\p{N}]?\p{L}+ */
    LETTERS_MARKS,        /* [^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+ */
    LETTERS_PHRASE,       /* [^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+ */
    LETTERS_CASED,        /* U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], L = [\p{Ll}\p{Lm}\p{Lo}\p{M}]:
                             [^\r\n\p{L}\p{N}]?U*L+|[^\r\n\p{L}\p{N}]?U+L* */
    LETTERS_CASED_NO_HAN, /* [\p{Han}]+ first, then the same without Han characters */
    LETTERS_DEEPSEEK      /* [!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+ */
};
enum digits { DIGITS_NONE, DIGITS_SPACE /*  ?\p{N}+ */, DIGITS_1, DIGITS_3, DIGITS_RUN };
enum punct {
    PUNCT_REST,     /*  ?[^\s\p{L}\p{N}]+ */
    PUNCT_NO_MARKS, /*  ?[^\s\p{L}\p{M}\p{N}]+ */
    PUNCT_SYMBOLS   /*  ?[\p{P}\p{S}]+ */
};
enum tail { TAIL_NONE, TAIL_NEWLINES /* [\r\n]* */, TAIL_NEWLINES_SLASH /* [\r\n/]* */, TAIL_ONE /* [\r\n/]? */ };
enum spaces { SPACES_REST /* \s+(?!\S)|\s+ */, SPACES_POWERS /* \s{512}(?!\S)|...|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1} */ };

/* Words, numbers, punctuation, newlines and spaces as alternatives, in this order. */
struct words {
    enum contraction contraction;
    enum letters letters;
    bool suffix; /* letters end with an optional contraction in any case */
    enum digits digits;
    enum punct punct;
    enum tail tail; /* after punctuation */
    bool newlines;  /* \s*[\r\n]+ */
    bool single_newline; /* [\r\n] */
    enum spaces spaces;
};

enum groups {
    GROUPS_NUMBER,   /* \p{N} in threes counted from the right */
    GROUPS_WORD_END, /* \d{1,3}(?=(?:\d{3})*\b) */
    GROUPS_BEFORE    /* the text is cut before each three digits counted from the right */
};

struct pretok_stage {
    pretok_match match;
    const struct words *words;
    struct char_class cls;
    const struct char_class *classes; /* alternatives; ends with one without function */
    enum groups groups;
};

/* Decodes valid UTF-8 and moves on. */
static inline uint32_t next_cp(const char **s)
{
    const uint8_t *p = (const uint8_t *)*s;
    uint32_t c = p[0];
    if (c < 0x80) {
        *s += 1;
        return c;
    }
    if (c < 0xE0) {
        *s += 2;
        return (c & 31) << 6 | (p[1] & 63u);
    }
    if (c < 0xF0) {
        *s += 3;
        return (c & 15) << 12 | (p[1] & 63u) << 6 | (p[2] & 63u);
    }
    *s += 4;
    return (c & 7) << 18 | (p[1] & 63u) << 12 | (p[2] & 63u) << 6 | (p[3] & 63u);
}

/* pretok_words.c */
const char *match_words(const struct pretok_stage *st, struct pretok_memo *memo, const char *s, const char *end);

/* pretok_class.c */
const char *match_class(const struct pretok_stage *st, struct pretok_memo *memo, const char *s, const char *end);
const char *match_first_class(const struct pretok_stage *st, struct pretok_memo *memo, const char *s, const char *end);
const char *match_lines(const struct pretok_stage *st, struct pretok_memo *memo, const char *s, const char *end);
const char *match_final_space(const struct pretok_stage *st, struct pretok_memo *memo, const char *s, const char *end);
const char *match_digit_groups(const struct pretok_stage *st, struct pretok_memo *memo, const char *s, const char *end);
const char *match_chameleon_image(const struct pretok_stage *st, struct pretok_memo *memo, const char *s, const char *end);
const char *match_chameleon_space(const struct pretok_stage *st, struct pretok_memo *memo, const char *s, const char *end);
extern const struct char_class youtu_classes[];

bool is_letter(uint32_t cp);
bool is_number(uint32_t cp);
bool is_punct(uint32_t cp);
bool is_ascii_digit(uint32_t cp);
bool is_newline(uint32_t cp);
bool is_punct_default(uint32_t cp);
bool is_punct_falcon(uint32_t cp);
bool is_punct_ascii_too(uint32_t cp);
bool is_cased_deepseek(uint32_t cp);
bool is_punct_deepseek(uint32_t cp);
bool is_cjk_kana(uint32_t cp);
bool is_cjk_hangul(uint32_t cp);
bool is_bloom_word(uint32_t cp);
bool is_asian_afmoe(uint32_t cp);

#endif
