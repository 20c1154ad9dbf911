/* The expressions of tokenizer.json are written for Oniguruma with its Ruby-like syntax. This writes the same for PCRE2, part by part, and
 * refuses what it does not know: nothing is passed on unseen. A class of characters is written out where the two disagree. */
#include "text/pattern.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

#define MAX_NESTING 50

/* Inside brackets. White space is Unicode's property White_Space; \w is Alphabetic, marks, decimal digits and connectors. */
#define SPACE "\\x09-\\x0d\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define WORD  "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}\\x{200c}\\x{200d}"
#define BOUNDARY "(?<=[" WORD "])(?![" WORD "])|(?<![" WORD "])(?=[" WORD "])"

struct translator {
    const char *text;
    size_t len, pos;
    struct buf *out;
    char *why;
    size_t size;
    size_t atom;                 /* where the last part that can be repeated begins in out; SIZE_MAX: none */
    size_t groups[MAX_NESTING];  /* where the open groups begin in out */
    int depth;
};

static infer_status refuse(struct translator *t, const char *what)
{
    snprintf(t->why, t->size, "has %s at byte %zu, which is not supported", what, t->pos);
    return INFER_ERROR_UNSUPPORTED;
}

static char peek(const struct translator *t, size_t ahead)
{
    return t->len - t->pos > ahead ? t->text[t->pos + ahead] : 0;
}

static bool next_is(const struct translator *t, const char *zstr)
{
    size_t n = strlen(zstr);
    return t->len - t->pos >= n && !memcmp(t->text + t->pos, zstr, n);
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* A character for itself, in brackets or not. */
static void put_literal(struct buf *out, const char *s, size_t n)
{
    bool special = n == 1 && !is_letter(*s) && !(*s >= '0' && *s <= '9') && (uint8_t)*s > 0x20 && (uint8_t)*s < 0x7F;
    if (special)
        buf_putc(out, '\\');
    if (n == 1 && !*s)
        buf_puts(out, "\\x00");
    else
        buf_put(out, s, n);
}

/* ---- Escapes that mean a set: its members as they stand in brackets */

struct set {
    char text[256]; /* "": no set */
    bool negated;
};

static bool name_is(const char *s, size_t n, const char *zstr)
{
    return strlen(zstr) == n && !memcmp(s, zstr, n);
}

/* \p{Name}, \P{Name}, \p{^Name}: general categories, a few names of Oniguruma, scripts. */
static infer_status read_property(struct translator *t, struct set *out)
{
    static const struct {
        const char *name, *set;
    } names[] = {{"Digit", "\\p{Nd}"}, {"Space", SPACE}, {"Word", WORD}, {"Upper", "\\p{Uppercase}"},
                 {"Lower", "\\p{Lowercase}"}, {"Letter", "\\p{L}"}, {"Mark", "\\p{M}"}, {"Number", "\\p{N}"}, {"Punctuation", "\\p{P}"},
                 {"Symbol", "\\p{S}"}, {"Any", "\\x{0}-\\x{10ffff}"}};
    out->negated = peek(t, 1) == 'P';
    if (peek(t, 2) != '{')
        return refuse(t, "a property without braces");
    t->pos += 3;
    if (peek(t, 0) == '^') {
        out->negated = !out->negated;
        t->pos++;
    }
    const char *name = t->text + t->pos;
    size_t n = 0;
    while (t->pos + n < t->len && (is_letter(name[n]) || name[n] == '_'))
        n++;
    if (!n || n > 32 || peek(t, n) != '}')
        return refuse(t, "a property");
    t->pos += n + 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (name_is(name, n, names[i].name)) {
            snprintf(out->text, sizeof out->text, "%s", names[i].set);
            return INFER_OK;
        }
    snprintf(out->text, sizeof out->text, n <= 2 ? "\\p{%.*s}" : "\\p{sc:%.*s}", (int)n, name);
    return INFER_OK;
}

/* The set at a backslash, which is then passed; out->text is "" and nothing is passed when there is none. */
static infer_status read_set(struct translator *t, struct set *out)
{
    static const struct {
        char c;
        const char *set;
    } sets[] = {{'d', "\\p{Nd}"}, {'s', SPACE}, {'w', WORD}, {'h', "0-9A-Fa-f"}};
    char c = peek(t, 1);
    *out = (struct set){.negated = false};
    if (c == 'p' || c == 'P')
        return read_property(t, out);
    for (int i = 0; i < 4; i++)
        if ((c | 32) == sets[i].c && is_letter(c)) {
            snprintf(out->text, sizeof out->text, "%s", sets[i].set);
            out->negated = c != sets[i].c;
            t->pos += 2;
        }
    return INFER_OK;
}

/* A hexadecimal character at \x or \u, as \x{...}. */
static infer_status read_hex(struct translator *t)
{
    size_t digits = 0;
    char text[16] = "";
    bool brace = peek(t, 1) == 'x' && peek(t, 2) == '{', unicode = peek(t, 1) == 'u';
    size_t from = brace ? 3 : 2, most = brace ? 6 : unicode ? 4 : 2;
    while (digits < most && is_hex(peek(t, from + digits)))
        digits++;
    if (!digits || (brace && peek(t, from + digits) != '}') || (unicode && digits != 4))
        return refuse(t, "a malformed character code");
    if (!brace && !unicode && digits == 2 && peek(t, from) >= '8')
        return refuse(t, "a byte code");
    snprintf(text, sizeof text, "\\x{%.*s}", (int)digits, t->text + t->pos + from);
    buf_puts(t->out, text);
    t->pos += from + digits + brace;
    return INFER_OK;
}

/* A backslash that stands for one character. */
static infer_status read_char(struct translator *t, bool in_class)
{
    static const char from[] = "nrtfvae", *const to[] = {"\\x0a", "\\x0d", "\\x09", "\\x0c", "\\x0b", "\\x07", "\\x1b"};
    char c = peek(t, 1);
    const char *hit = c ? strchr(from, c) : NULL;
    if (t->len - t->pos < 2)
        return refuse(t, "a lone backslash");
    if (c == 'x' || c == 'u')
        return read_hex(t);
    if (hit || (in_class && c == 'b')) {
        buf_puts(t->out, hit ? to[hit - from] : "\\x08");
        t->pos += 2;
        return INFER_OK;
    }
    if (is_letter(c) || (c >= '0' && c <= '9'))
        return refuse(t, c <= '9' ? "a back reference" : "an escape");
    size_t used;
    (void)utf8_decode(t->text + t->pos + 1, t->len - t->pos - 1, &used);
    put_literal(t->out, t->text + t->pos + 1, used);
    t->pos += 1 + used;
    return INFER_OK;
}

/* ---- Classes. One becomes something that matches a single character: brackets where it is plain; alternatives where classes stand in it;
 * looking ahead for intersections. */

static infer_status read_class(struct translator *t, int depth);

/* What stands between && or the brackets. Members are collected in brackets, inner classes behind them. */
static infer_status read_operand(struct translator *t, int depth)
{
    struct buf inner, *outer = t->out;
    struct set set;
    infer_status st = INFER_OK;
    bool members = false, ended = false;
    buf_init(&inner, outer->alloc, outer->limit);
    buf_puts(outer, "(?:[");
    for (bool begin = true; st == INFER_OK && !ended; begin = false) {
        size_t used;
        char c = peek(t, 0);
        if (t->pos >= t->len) {
            st = refuse(t, "an unfinished class");
        } else if ((c == ']' && !begin) || next_is(t, "&&")) {
            ended = true;
        } else if (next_is(t, "[:")) {
            st = refuse(t, "a POSIX bracket");
        } else if (c == '[') {
            buf_putc(&inner, '|');
            t->out = &inner;
            st = read_class(t, depth + 1);
            t->out = outer;
        } else if (c == '\\' && (st = read_set(t, &set)) == INFER_OK && set.text[0]) {
            if (set.negated) {
                buf_puts(&inner, "|[^");
                buf_puts(&inner, set.text);
                buf_putc(&inner, ']');
            } else
                buf_puts(outer, set.text);
            members = members || !set.negated;
        } else if (c == '\\' && st == INFER_OK) {
            st = read_char(t, true);
            members = true;
        } else if (st == INFER_OK) {
            (void)utf8_decode(t->text + t->pos, t->len - t->pos, &used);
            bool range = c == '-' && members && peek(t, 1) != ']';
            if (range)
                buf_putc(outer, '-');
            else
                put_literal(outer, t->text + t->pos, used);
            t->pos += used;
            members = true;
        }
    }
    if (!members && buf_ok(outer))
        outer->len -= 1; /* "(?:" and the alternatives */
    else
        buf_putc(outer, ']');
    if (inner.len)
        buf_put(outer, inner.data + !members, inner.len - !members);
    buf_putc(outer, ')');
    outer->no_memory = outer->no_memory || inner.no_memory;
    if (st == INFER_OK && !members && !inner.len)
        st = refuse(t, "an empty class");
    buf_free(&inner);
    return st;
}

/* At the bracket. */
static infer_status read_class(struct translator *t, int depth)
{
    if (depth > 8)
        return refuse(t, "classes nested too deep");
    t->pos++;
    bool negated = peek(t, 0) == '^';
    t->pos += negated;
    buf_puts(t->out, negated ? "(?:(?!" : "(?:");
    infer_status st;
    for (;;) {
        size_t from = t->out->len;
        st = read_operand(t, depth);
        if (st != INFER_OK || !next_is(t, "&&"))
            break;
        t->pos += 2;
        /* all operands but the last are looked ahead for: (?:A) becomes (?=A) */
        if (buf_ok(t->out))
            t->out->data[from + 2] = '=';
    }
    if (st == INFER_OK)
        t->pos++;
    buf_puts(t->out, negated ? ")(?s:.))" : ")");
    return st;
}

/* Brackets without inner brackets, && or negated sets: written as they are, which is quicker to match. */
static bool class_is_plain(const struct translator *t)
{
    for (size_t i = t->pos + 1; i < t->len; i++) {
        char c = t->text[i];
        if (c == '[' || (c == '&' && i + 1 < t->len && t->text[i + 1] == '&'))
            return false;
        if (c == ']' && i > t->pos + 1 + (t->text[t->pos + 1] == '^'))
            return true;
        if (c == '\\' && i + 1 < t->len) {
            c = t->text[++i];
            bool negated_name = c == 'p' && i + 2 < t->len && t->text[i + 2] == '^';
            if (c == 'D' || c == 'S' || c == 'W' || c == 'H' || c == 'P' || negated_name)
                return false;
        }
    }
    return true;
}

static infer_status read_plain_class(struct translator *t)
{
    size_t from = t->out->len;
    t->pos++;
    bool negated = peek(t, 0) == '^';
    t->pos += negated;
    infer_status st = read_operand(t, 0); /* (?:[...]) */
    if (st == INFER_OK)
        t->pos++;
    if (st != INFER_OK || !buf_ok(t->out))
        return st;
    char *s = t->out->data + from;
    size_t n = t->out->len - from - 4; /* "[...]" */
    memmove(s, s + 3, n);
    t->out->len = from + n;
    if (negated) {
        buf_putc(t->out, '^');
        if (buf_ok(t->out)) {
            s = t->out->data + from;
            memmove(s + 2, s + 1, n - 1);
            s[1] = '^';
        }
    }
    return st;
}

/* ---- Groups and repeats */

static infer_status open_group(struct translator *t)
{
    static const char *const known[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:"};
    const char *what = NULL;
    if (t->depth == MAX_NESTING)
        return refuse(t, "groups nested too deep");
    if (next_is(t, "(?i)")) { /* elsewhere it would reach over alternatives in Oniguruma */
        if (t->pos)
            return refuse(t, "(?i) in the middle");
        buf_puts(t->out, "(?i)");
        t->pos += 4;
        return INFER_OK;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (next_is(t, known[i]))
            what = known[i];
    if (!what && (peek(t, 1) == '?' || peek(t, 1) == '*'))
        return refuse(t, "a kind of group");
    t->groups[t->depth++] = t->out->len;
    t->atom = SIZE_MAX;
    buf_puts(t->out, what ? what : "(?:");
    t->pos += what ? strlen(what) : 1;
    return INFER_OK;
}

static infer_status close_group(struct translator *t)
{
    if (!t->depth)
        return refuse(t, "a lone parenthesis");
    t->atom = t->groups[--t->depth];
    buf_putc(t->out, ')');
    t->pos++;
    return INFER_OK;
}

/* {n}, {n,}, {n,m}, {,m}: its length, or 0. */
static size_t interval(const struct translator *t)
{
    size_t i = 1, low = 0, high = 0;
    while (peek(t, i) >= '0' && peek(t, i) <= '9')
        i++, low++;
    bool comma = peek(t, i) == ',';
    i += comma;
    while (comma && peek(t, i) >= '0' && peek(t, i) <= '9')
        i++, high++;
    return peek(t, i) == '}' && (low || high) ? i + 1 : 0;
}

/* Wraps what was written from the last part on, so that it can be repeated again. */
static void wrap_atom(struct translator *t)
{
    struct buf *out = t->out;
    size_t n = out->len - t->atom;
    if (!buf_reserve(out, 4))
        return;
    memmove(out->data + t->atom + 3, out->data + t->atom, n);
    memcpy(out->data + t->atom, "(?:", 3);
    out->len += 3;
    buf_putc(out, ')');
}

static infer_status read_interval(struct translator *t, size_t n)
{
    const char *s = t->text + t->pos;
    if (t->atom == SIZE_MAX)
        return refuse(t, "a repeat of nothing");
    buf_put(t->out, s[1] == ',' ? "{0" : "{", s[1] == ',' ? 2 : 1);
    buf_put(t->out, s + 1, n - 1);
    t->pos += n;
    if (peek(t, 0) == '?' && !memchr(s, ',', n))
        return refuse(t, "{n}?");
    if (peek(t, 0) == '?') {
        buf_putc(t->out, '?');
        t->pos++;
    }
    if (peek(t, 0) == '+' || peek(t, 0) == '*' || peek(t, 0) == '?' || (peek(t, 0) == '{' && interval(t))) /* not possessive here: the repeat is repeated */
        wrap_atom(t);
    return INFER_OK;
}

static infer_status read_repeat(struct translator *t)
{
    if (t->atom == SIZE_MAX)
        return refuse(t, "a repeat of nothing");
    buf_putc(t->out, peek(t, 0));
    t->pos++;
    if (peek(t, 0) == '?' || peek(t, 0) == '+') {
        buf_putc(t->out, peek(t, 0));
        t->pos++;
    }
    if (peek(t, 0) == '+' || peek(t, 0) == '*' || peek(t, 0) == '?' || (peek(t, 0) == '{' && interval(t)))
        wrap_atom(t);
    return INFER_OK;
}

static infer_status read_escape(struct translator *t)
{
    struct set set;
    char c = peek(t, 1);
    t->atom = t->out->len;
    if (c == 'b' || c == 'B') {
        buf_puts(t->out, c == 'b' ? "(?:" BOUNDARY ")" : "(?!" BOUNDARY ")");
        t->pos += 2;
        return INFER_OK;
    }
    if (c == 'A' || c == 'z' || c == 'Z') {
        buf_put(t->out, t->text + t->pos, 2);
        t->pos += 2;
        return INFER_OK;
    }
    infer_status st = read_set(t, &set);
    if (st != INFER_OK || !set.text[0])
        return st == INFER_OK ? read_char(t, false) : st;
    buf_puts(t->out, set.negated ? "[^" : "[");
    buf_puts(t->out, set.text);
    buf_putc(t->out, ']');
    return INFER_OK;
}

static infer_status read_part(struct translator *t)
{
    size_t used;
    char c = peek(t, 0);
    switch (c) {
    case '(': return open_group(t);
    case ')': return close_group(t);
    case '\\': return read_escape(t);
    case '?': case '*': case '+': return read_repeat(t);
    case '{':
        if (interval(t))
            return read_interval(t, interval(t));
        break;
    case '[':
        t->atom = t->out->len;
        return class_is_plain(t) ? read_plain_class(t) : read_class(t, 0);
    case '|': case '^': case '$': case '.':
        t->atom = c == '.' ? t->out->len : SIZE_MAX;
        buf_putc(t->out, c);
        t->pos++;
        return INFER_OK;
    default: break;
    }
    t->atom = t->out->len;
    (void)utf8_decode(t->text + t->pos, t->len - t->pos, &used);
    put_literal(t->out, t->text + t->pos, used);
    t->pos += used;
    return INFER_OK;
}

infer_status pattern_translate(const char *text, size_t len, struct buf *out, char *why, size_t size)
{
    struct translator t = {.text = text, .len = len, .out = out, .why = why, .size = size, .atom = SIZE_MAX};
    infer_status st = INFER_OK;
    while (st == INFER_OK && t.pos < len && buf_ok(out))
        st = read_part(&t);
    if (st == INFER_OK && t.depth && buf_ok(out))
        st = refuse(&t, "a group without end");
    return st;
}
