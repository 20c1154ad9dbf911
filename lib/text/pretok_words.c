/* The alternation that most pre-tokenizers share: contractions, letters, digits, punctuation, newlines, spaces. */
#include <string.h>

#include "text/pretok_impl.h"

#define UPPER (UC_BIT(UC_LU) | UC_BIT(UC_LT) | UC_BIT(UC_LM) | UC_BIT(UC_LO) | UC_MARK)
#define LOWER (UC_BIT(UC_LL) | UC_BIT(UC_LM) | UC_BIT(UC_LO) | UC_MARK)

/* The character at s; at the end its props are in no set, and it is no newline or space. */
struct look {
    uint32_t cp, props;
    const char *next;
};

static struct look look(const char *s, const char *end)
{
    struct look l = {UINT32_MAX, UC_CN, s};
    if (s < end) {
        l.cp = next_cp(&l.next);
        l.props = uc_props(l.cp);
    }
    return l;
}

/* The end of the run of characters in set, and not Han if no_han, of at most max. */
static const char *run_of(const char *s, const char *end, uint32_t set, bool no_han, uint32_t max)
{
    for (uint32_t n = 0; n < max && s < end; n++) {
        struct look l = look(s, end);
        if (!uc_in(l.props, set) || (no_han && (l.props & UC_HAN)))
            break;
        s = l.next;
    }
    return s;
}

static bool ascii_punct(char c)
{
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

static bool ascii_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* 's 't 'm 'd 're 've 'll. Matching without case knows one letter beyond ASCII: the long s, U+017F, is an s. */
static const char *contraction(const char *s, const char *end, bool any_case)
{
    size_t n = (size_t)(end - s);
    if (n < 2 || s[0] != '\'')
        return s;
    if (any_case && n >= 3 && !memcmp(s + 1, "\xC5\xBF", 2))
        return s + 3;
    char a = s[1], b = n > 2 ? s[2] : 0;
    if (any_case) {
        a = ascii_letter(a) ? (char)(a | 32) : a;
        b = ascii_letter(b) ? (char)(b | 32) : b;
    }
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return s + 2;
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l'))
        return s + 3;
    return s;
}

static const char *phrase(const char *s, const char *end)
{
    for (;;) {
        struct look l = look(s, end);
        if (!uc_in(l.props, UC_LETTER))
            break;
        s = run_of(l.next, end, UC_MARK, false, UINT32_MAX);
        if (s < end && *s == ' ' && uc_in(look(s + 1, end).props, UC_LETTER))
            s++;
    }
    return s;
}

/* U*L+: of what U* took the last character that is in L is given back. */
static const char *cased_lower(const char *s, const char *end, bool no_han)
{
    const char *last = s, *u = s;
    for (;;) {
        struct look l = look(u, end);
        if (!uc_in(l.props, UPPER) || (no_han && (l.props & UC_HAN)))
            break;
        u = l.next;
        if (uc_in(l.props, LOWER))
            last = u;
    }
    const char *e = run_of(u, end, LOWER, no_han, UINT32_MAX);
    return e > u ? e : last;
}

/* U+L* */
static const char *cased_upper(const char *s, const char *end, bool no_han)
{
    const char *u = run_of(s, end, UPPER, no_han, UINT32_MAX);
    return u > s ? run_of(u, end, LOWER, no_han, UINT32_MAX) : s;
}

static const char *letters_body(const struct words *w, bool first, const char *s, const char *end)
{
    switch (w->letters) {
    case LETTERS_MARKS:
    case LETTERS_DEEPSEEK:
        return run_of(s, end, UC_LETTER | UC_MARK, false, UINT32_MAX);
    case LETTERS_PHRASE:
        return phrase(s, end);
    case LETTERS_CASED:
    case LETTERS_CASED_NO_HAN:
        return (first ? cased_lower : cased_upper)(s, end, w->letters == LETTERS_CASED_NO_HAN);
    default:
        return run_of(s, end, UC_LETTER, false, UINT32_MAX);
    }
}

/* An optional character that is no letter, number (or, for DeepSeek, punctuation), or newline, then the body; without it if that fails. */
static const char *letters_prefixed(const struct words *w, bool first, const char *s, const char *end)
{
    struct look l = look(s, end);
    uint32_t not_prefix = w->letters == LETTERS_DEEPSEEK ? UC_LETTER | UC_PUNCTUATION | UC_SYMBOL : UC_LETTER | UC_NUMBER;
    if (l.next > s && l.cp != '\r' && l.cp != '\n' && !uc_in(l.props, not_prefix)) {
        const char *e = letters_body(w, first, l.next, end);
        if (e > l.next)
            return e;
    }
    return letters_body(w, first, s, end);
}

static const char *letters(const struct words *w, const char *s, const char *end)
{
    const char *e = s;
    if (w->letters == LETTERS_SPACE) {
        const char *q = *s == ' ' ? s + 1 : s;
        e = run_of(q, end, UC_LETTER, false, UINT32_MAX);
        return e > q ? e : s;
    }
    if (w->letters == LETTERS_CASED_NO_HAN) {
        for (struct look l = look(s, end); l.next > e && (l.props & UC_HAN); l = look(e, end))
            e = l.next;
        if (e > s)
            return e;
    }
    if (w->letters == LETTERS_DEEPSEEK && ascii_punct(*s) && s + 1 < end && ascii_letter(s[1])) {
        for (e = s + 1; e < end && ascii_letter(*e);)
            e++;
        return e;
    }
    e = letters_prefixed(w, true, s, end);
    if (e == s && (w->letters == LETTERS_CASED || w->letters == LETTERS_CASED_NO_HAN))
        e = letters_prefixed(w, false, s, end);
    return e > s && w->suffix ? contraction(e, end, true) : e;
}

static const char *digits(const struct words *w, const char *s, const char *end)
{
    if (w->digits == DIGITS_NONE)
        return s;
    if (w->digits == DIGITS_SPACE) {
        const char *q = *s == ' ' ? s + 1 : s, *e = run_of(q, end, UC_NUMBER, false, UINT32_MAX);
        return e > q ? e : s;
    }
    return run_of(s, end, UC_NUMBER, false, w->digits == DIGITS_1 ? 1 : w->digits == DIGITS_3 ? 3 : UINT32_MAX);
}

static bool is_punctuation(const struct words *w, struct look l)
{
    if (w->punct == PUNCT_SYMBOLS)
        return uc_in(l.props, UC_PUNCTUATION | UC_SYMBOL);
    return !(l.props & UC_SPACE) &&
           !uc_in(l.props, w->punct == PUNCT_NO_MARKS ? UC_LETTER | UC_MARK | UC_NUMBER : UC_LETTER | UC_NUMBER);
}

static const char *punctuation(const struct words *w, const char *s, const char *end)
{
    const char *q = *s == ' ' ? s + 1 : s, *e = q;
    while (e < end) {
        struct look l = look(e, end);
        if (!is_punctuation(w, l))
            break;
        e = l.next;
    }
    if (e == q)
        return s;
    bool slash = w->tail == TAIL_NEWLINES_SLASH || w->tail == TAIL_ONE;
    while (w->tail != TAIL_NONE && e < end && (*e == '\r' || *e == '\n' || (slash && *e == '/'))) {
        e++;
        if (w->tail == TAIL_ONE)
            break;
    }
    return e;
}

/* The run of white space at s: its end, and the place after its last newline. Found once per run. */
static void space_run(struct pretok_memo *memo, const char *s, const char *end)
{
    if (s < memo->end)
        return;
    memo->mark = memo->end = s;
    for (struct look l = look(s, end); l.next > memo->end && (l.props & UC_SPACE); l = look(l.next, end)) {
        memo->end = l.next;
        if (l.cp == '\r' || l.cp == '\n')
            memo->mark = l.next;
    }
}

/* \s{512}(?!\S)|\s{256}(?!\S)|...|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1} */
static const char *spaces_powers(const char *s, const char *end)
{
    uint32_t n = 0;
    const char *at[514] = {s};
    for (struct look l = look(s, end); n < 513 && l.next > at[n] && (l.props & UC_SPACE); l = look(l.next, end))
        at[++n] = l.next;
    for (uint32_t k = 512; k; k /= 2)
        if (n > k || (n == k && at[n] == end))
            return at[k];
    return n ? at[1] : s;
}

static const char *spaces(const struct words *w, const struct pretok_memo *memo, const char *s, const char *end)
{
    if (w->spaces == SPACES_POWERS)
        return spaces_powers(s, end);
    const char *e = memo->end;
    if (e == end || e == s)
        return e;
    const char *last = e - 1;
    while (((uint8_t)*last & 0xC0) == 0x80)
        last--;
    return last > s ? last : e; /* the last one belongs to the word that follows */
}

const char *match_words(const struct pretok_stage *st, struct pretok_memo *memo, const char *s, const char *end)
{
    const struct words *w = st->words;
    const char *e = s;
    if (w->contraction != CONTRACT_NONE)
        e = contraction(s, end, w->contraction == CONTRACT_ANY);
    if (e == s)
        e = letters(w, s, end);
    if (e == s)
        e = digits(w, s, end);
    if (e == s)
        e = punctuation(w, s, end);
    if (e > s)
        return e;
    space_run(memo, s, end);
    if (w->newlines && memo->mark > s)
        return memo->mark;
    if (w->single_newline && (*s == '\r' || *s == '\n'))
        return s + 1;
    return spaces(w, memo, s, end);
}
