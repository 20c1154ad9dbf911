/* Template text -> tokens. The rules of white space are Jinja2's: trim_blocks and lstrip_blocks are on, `-` strips, `+` keeps. */
#include <string.h>

#include "base/num.h"
#include "base/utf8.h"
#include "text/jinja_ast.h"
#include "text/jinja_str.h"

#define MAX_TOKENS 2000000u

struct lexer {
    struct jparse *p;
    const char *s;
    size_t len, pos;
    bool line_start; /* the last tag ended with a line's end, or nothing came yet */
    uint8_t open[256]; /* closing brackets that are due */
    size_t n_open;
};

static bool push(struct lexer *l, uint8_t type, size_t pos, size_t len, struct jv value)
{
    struct jparse *p = l->p;
    if (p->n_tokens == p->cap_tokens) {
        size_t cap = p->cap_tokens ? p->cap_tokens * 2 : 256;
        struct token *grown = cap > MAX_TOKENS ? NULL : mem_grow(&p->t->alloc, p->tokens, cap * sizeof *grown);
        if (!grown)
            return cap > MAX_TOKENS ? jp_limit(p, (uint32_t)pos, "template has too many tokens") : jp_no_memory(p);
        p->tokens = grown;
        p->cap_tokens = cap;
    }
    p->tokens[p->n_tokens++] = (struct token){type, (uint32_t)pos, (uint32_t)len, value};
    return true;
}

static bool push_plain(struct lexer *l, uint8_t type, size_t pos, size_t len)
{
    return push(l, type, pos, len, (struct jv){.type = J_MISSING});
}

static bool push_data(struct lexer *l, size_t start, size_t end)
{
    if (start == end)
        return true;
    const struct jstr *s = jp_string(l->p, l->s + start, end - start);
    return s && push(l, T_DATA, start, end - start, jv_str(s));
}

static bool at(const struct lexer *l, size_t pos, const char *what)
{
    size_t n = strlen(what);
    return pos <= l->len && l->len - pos >= n && !memcmp(l->s + pos, what, n);
}

static size_t skip_space(const struct lexer *l, size_t pos)
{
    return pos + js_skip_space(l->s + pos, l->len - pos);
}

/* The end of a tag at pos ("%}" or "#}", with + or - before it): the position behind it, or 0 when there is none. */
static size_t tag_end(struct lexer *l, size_t pos, const char *close)
{
    char sign = pos < l->len ? l->s[pos] : 0;
    if ((sign == '-' || sign == '+') && at(l, pos + 1, close)) {
        pos += 1 + strlen(close);
        if (sign == '-')
            pos = skip_space(l, pos);
    } else if (at(l, pos, close)) {
        pos += strlen(close);
        if (pos < l->len && l->s[pos] == '\n') /* trim_blocks */
            pos++;
    } else {
        return 0;
    }
    l->line_start = l->s[pos - 1] == '\n';
    return pos;
}

/* Data [start, end) before a tag whose sign is + or - or neither. */
static bool data_before(struct lexer *l, size_t start, size_t end, char sign, bool is_variable)
{
    if (sign == '-') {
        end = start + js_trim_end(l->s + start, end - start);
    } else if (sign != '+' && !is_variable) {
        size_t line = end;
        while (line > start && l->s[line - 1] != '\n')
            line--;
        if ((line > start || l->line_start) && js_skip_space(l->s + line, end - line) == end - line) /* lstrip_blocks */
            end = line;
    }
    return push_data(l, start, end);
}

static char sign_at(const struct lexer *l, size_t pos)
{
    return pos < l->len && (l->s[pos] == '-' || l->s[pos] == '+') ? l->s[pos] : 0;
}

/* {% raw %}: its length when the tag at pos is one, else 0. */
static size_t raw_begin(struct lexer *l, size_t pos)
{
    size_t i = pos + 2 + (sign_at(l, pos + 2) != 0);
    i = skip_space(l, i);
    if (!at(l, i, "raw"))
        return 0;
    i = skip_space(l, i + 3);
    if (at(l, i, "-%}")) {
        i = skip_space(l, i + 3);
    } else if (at(l, i, "%}")) {
        i += 2;
    } else {
        return 0;
    }
    l->line_start = l->s[i - 1] == '\n';
    return i - pos;
}

/* Everything up to {% endraw %} is data. */
static bool lex_raw(struct lexer *l, size_t tag)
{
    size_t start = l->pos;
    bool line_start = l->line_start;
    for (size_t i = start;; i += 2) {
        i = js_find(l->s, i, l->len, "{%", 2);
        if (i == JS_NONE)
            return jp_fail(l->p, (uint32_t)tag, "Missing end of raw directive");
        char sign = sign_at(l, i + 2);
        size_t j = skip_space(l, i + 2 + (sign != 0));
        if (!at(l, j, "endraw"))
            continue;
        size_t end = tag_end(l, skip_space(l, j + 6), "%}");
        if (!end)
            continue;
        bool after = l->line_start;
        l->line_start = line_start;
        bool ok = data_before(l, start, i, sign, false);
        l->line_start = after;
        l->pos = end;
        return ok;
    }
}

static bool lex_comment(struct lexer *l)
{
    size_t tag = l->pos;
    /* the sign after {# is part of the opening: {#-#} is a whole comment */
    for (size_t i = tag + 2 + (sign_at(l, tag + 2) != 0); i < l->len; i++) {
        size_t end = l->s[i] == '#' || l->s[i] == '-' || l->s[i] == '+' ? tag_end(l, i, "#}") : 0;
        if (end) {
            l->pos = end;
            return true;
        }
    }
    return jp_fail(l->p, (uint32_t)tag, "Missing end of comment tag");
}

/* ---- inside tags ---- */

static bool is_name_byte(unsigned char c, bool first)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c >= 0x80 || (!first && c >= '0' && c <= '9');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* (\d+_)*\d+ at pos: its end, or pos. */
static size_t digits_end(const struct lexer *l, size_t pos)
{
    size_t i = pos;
    while (i < l->len && (is_digit(l->s[i]) || (l->s[i] == '_' && i > pos && i + 1 < l->len && is_digit(l->s[i + 1]))))
        i++;
    return i;
}

static size_t without_underscores(const struct lexer *l, size_t start, size_t end, char *out, size_t cap)
{
    size_t n = 0;
    for (size_t i = start; i < end && n < cap; i++)
        if (l->s[i] != '_')
            out[n++] = l->s[i];
    return n;
}

/* A float at pos: true when there is one (or a failure is recorded). */
static bool lex_float(struct lexer *l, bool *failed)
{
    size_t i = digits_end(l, l->pos), start = l->pos;
    char text[400];
    double v;
    if (i == start || (start && l->s[start - 1] == '.'))
        return false;
    size_t whole = i;
    if (i + 1 < l->len && l->s[i] == '.' && is_digit(l->s[i + 1]))
        i = digits_end(l, i + 1);
    if (i < l->len && (l->s[i] == 'e' || l->s[i] == 'E')) {
        size_t e = i + 1 + (i + 1 < l->len && (l->s[i + 1] == '+' || l->s[i + 1] == '-'));
        if (e < l->len && is_digit(l->s[e]))
            i = digits_end(l, e);
    }
    if (i == whole)
        return false;
    l->pos = i;
    if (i - start > sizeof text) {
        *failed = !jp_limit(l->p, (uint32_t)start, "number literal is too long");
        return true;
    }
    size_t n = without_underscores(l, start, i, text, sizeof text);
    *failed = !num_parse_double(text, n, &v) || !push(l, T_FLOAT, start, i - start, jv_float(v));
    return true;
}

static int digit_value(char c, int base)
{
    int v = is_digit(c) ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : 99;
    return v < base ? v : -1;
}

static bool lex_int(struct lexer *l)
{
    size_t start = l->pos, i = start;
    int base = 10;
    char kind = i + 1 < l->len ? (char)(l->s[i + 1] | 32) : 0;
    if (l->s[i] == '0' && (kind == 'b' || kind == 'o' || kind == 'x')) {
        int b = kind == 'b' ? 2 : kind == 'o' ? 8 : 16;
        size_t d = i + 2 + (i + 2 < l->len && l->s[i + 2] == '_');
        if (d < l->len && digit_value(l->s[d], b) >= 0) {
            base = b;
            i = d;
        }
    }
    int64_t v = 0;
    bool zero = base == 10 && l->s[i] == '0'; /* 0, 00, 0_0, but not 07 */
    for (; i < l->len; i++) {
        int d = digit_value(l->s[i], zero ? 1 : base);
        if (d < 0) {
            if (l->s[i] == '_' && i + 1 < l->len && digit_value(l->s[i + 1], zero ? 1 : base) >= 0)
                continue;
            break;
        }
        if (v > (INT64_MAX - d) / base)
            return jp_limit(l->p, (uint32_t)start, "integer literal beyond 64 bits");
        v = v * base + d;
    }
    l->pos = i;
    return push(l, T_INT, start, i - start, jv_int(v));
}

static bool put_cp(struct lexer *l, struct buf *b, size_t where, uint32_t cp)
{
    char u[4];
    if (cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF))
        return jp_fail(l->p, (uint32_t)where, "escape of a surrogate or beyond Unicode in a string");
    buf_put(b, u, utf8_encode(cp, u));
    return true;
}

static bool hex_escape(struct lexer *l, struct buf *b, size_t *i, size_t end, int digits)
{
    uint32_t cp = 0;
    size_t start = *i;
    for (int k = 0; k < digits; k++, ++*i) {
        int d = *i < end ? digit_value(l->s[*i], 16) : -1;
        if (d < 0)
            return jp_fail(l->p, (uint32_t)start, "truncated \\x, \\u or \\U escape in a string");
        cp = cp * 16 + (uint32_t)d;
    }
    return put_cp(l, b, start, cp);
}

/* The escape behind the backslash at *i - 1: Python's, without \N{...}. */
static bool string_escape(struct lexer *l, struct buf *b, size_t *i, size_t end)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    char c = l->s[(*i)++];
    const char *hit = c ? strchr(from, c) : NULL;
    if (hit) {
        buf_putc(b, to[hit - from]);
        return true;
    }
    if (c == '\n')
        return true;
    if (c == 'x' || c == 'u' || c == 'U')
        return hex_escape(l, b, i, end, c == 'x' ? 2 : c == 'u' ? 4 : 8);
    if (c == 'N')
        return jp_fail(l->p, (uint32_t)*i, "\\N escapes are not supported");
    if (c >= '0' && c <= '7') {
        uint32_t cp = (uint32_t)(c - '0');
        for (int k = 0; k < 2 && *i < end && l->s[*i] >= '0' && l->s[*i] <= '7'; k++)
            cp = cp * 8 + (uint32_t)(l->s[(*i)++] - '0');
        return put_cp(l, b, *i, cp);
    }
    buf_putc(b, '\\');
    buf_putc(b, c); /* of a longer character the rest follows as it is */
    return true;
}

static bool lex_string(struct lexer *l)
{
    size_t start = l->pos, end = start + 1;
    char quote = l->s[start];
    while (end < l->len && l->s[end] != quote)
        end += l->s[end] == '\\' ? 2 : 1;
    if (end >= l->len)
        return jp_fail(l->p, (uint32_t)start, "unexpected char %c: the string does not end", quote);
    struct buf b;
    buf_init(&b, &l->p->t->alloc, 0);
    bool ok = true;
    for (size_t i = start + 1; ok && i < end;) {
        char c = l->s[i++];
        if (c == '\\')
            ok = string_escape(l, &b, &i, end);
        else
            buf_putc(&b, c);
    }
    const struct jstr *s = NULL;
    if (ok && !buf_ok(&b))
        ok = jp_no_memory(l->p);
    if (ok)
        s = jp_string(l->p, b.data ? b.data : "", b.len);
    buf_free(&b);
    l->pos = end + 1;
    return s && push(l, T_STRING, start, l->pos - start, jv_str(s));
}

static bool lex_name(struct lexer *l)
{
    size_t start = l->pos, i = start;
    while (i < l->len && is_name_byte((unsigned char)l->s[i], i == start)) {
        size_t used = 1;
        uint32_t cp = utf8_decode(l->s + i, l->len - i, &used);
        if (js_is_space(cp))
            break;
        i += used;
    }
    const struct jstr *name = jp_intern(l->p, l->s + start, i - start);
    l->pos = i;
    return name && push(l, T_NAME, start, i - start, jv_str(name));
}

static const struct operator_text {
    char text[3];
    uint8_t type;
} operators[] = { /* longest first */
    {"**", T_POW},     {"//", T_FLOORDIV}, {"==", T_EQ},      {"!=", T_NE},      {">=", T_GE},     {"<=", T_LE},
    {"+", T_ADD},      {"-", T_SUB},       {"*", T_MUL},      {"/", T_DIV},      {"%", T_MOD},     {"~", T_TILDE},
    {"<", T_LT},       {">", T_GT},        {"=", T_ASSIGN},   {".", T_DOT},      {",", T_COMMA},   {":", T_COLON},
    {"|", T_PIPE},     {";", T_SEMICOLON}, {"(", T_LPAREN},   {")", T_RPAREN},   {"[", T_LBRACKET}, {"]", T_RBRACKET},
    {"{", T_LBRACE},   {"}", T_RBRACE},
};

static bool balance(struct lexer *l, char c)
{
    static const char opening[] = "([{", closing[] = ")]}";
    const char *o = strchr(opening, c), *z = strchr(closing, c);
    if (o) {
        if (l->n_open == sizeof l->open)
            return jp_limit(l->p, (uint32_t)l->pos, "brackets are nested too deep");
        l->open[l->n_open++] = (uint8_t)closing[o - opening];
    } else if (z) {
        if (!l->n_open)
            return jp_fail(l->p, (uint32_t)l->pos, "unexpected '%c'", c);
        char due = (char)l->open[--l->n_open];
        if (due != c)
            return jp_fail(l->p, (uint32_t)l->pos, "unexpected '%c', expected '%c'", c, due);
    }
    return true;
}

static bool lex_operator(struct lexer *l)
{
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (!at(l, l->pos, operators[i].text))
            continue;
        size_t n = strlen(operators[i].text);
        if (!balance(l, operators[i].text[0]) || !push_plain(l, operators[i].type, l->pos, n))
            return false;
        l->pos += n;
        return true;
    }
    size_t n = js_char_len(l->s + l->pos);
    return jp_fail(l->p, (uint32_t)l->pos, "unexpected char '%.*s'", (int)n, l->s + l->pos);
}

/* One token inside a tag; *done when it was the tag's end. */
static bool lex_inside(struct lexer *l, bool variable, bool *done)
{
    l->pos = skip_space(l, l->pos);
    *done = false;
    if (l->pos >= l->len)
        return true;
    if (!l->n_open) {
        size_t end = 0, here = l->pos;
        if (!variable) {
            end = tag_end(l, l->pos, "%}");
        } else if (at(l, l->pos, "-}}")) {
            end = skip_space(l, l->pos + 3);
        } else if (at(l, l->pos, "}}")) {
            end = l->pos + 2;
        }
        if (end) {
            l->line_start = l->s[end - 1] == '\n';
            l->pos = end;
            *done = true;
            return push_plain(l, variable ? T_VAR_END : T_BLOCK_END, here, 2);
        }
    }
    unsigned char c = (unsigned char)l->s[l->pos];
    bool failed = false;
    if (is_digit((char)c))
        return lex_float(l, &failed) ? !failed : lex_int(l);
    if (is_name_byte(c, true))
        return lex_name(l);
    if (c == '\'' || c == '"')
        return lex_string(l);
    return lex_operator(l);
}

static bool lex_tag(struct lexer *l, bool variable)
{
    l->n_open = 0;
    if (!push_plain(l, variable ? T_VAR_BEGIN : T_BLOCK_BEGIN, l->pos, 2))
        return false;
    l->pos += 2;
    if (sign_at(l, l->pos))
        l->pos++;
    for (bool done = false; !done && l->pos < l->len;)
        if (!lex_inside(l, variable, &done))
            return false;
    return true;
}

bool jp_lex(struct jparse *p)
{
    struct lexer l = {.p = p, .s = p->t->text, .len = p->t->len, .line_start = true};
    while (l.pos < l.len) {
        size_t start = l.pos, i = start;
        while (i < l.len && !(l.s[i] == '{' && i + 1 < l.len && strchr("{%#", l.s[i + 1]) && l.s[i + 1]))
            i++;
        if (i == l.len)
            return push_data(&l, start, i) && push_plain(&l, T_EOF, l.len, 0);
        char kind = l.s[i + 1];
        bool line_start = l.line_start;
        size_t raw = kind == '%' ? raw_begin(&l, i) : 0;
        bool after = l.line_start;
        l.line_start = line_start;
        if (!data_before(&l, start, i, sign_at(&l, i + 2), kind == '{'))
            return false;
        l.pos = i;
        if (raw) {
            l.line_start = after;
            l.pos = i + raw;
            if (!lex_raw(&l, i))
                return false;
        } else if (kind == '#') {
            if (!lex_comment(&l))
                return false;
        } else if (!lex_tag(&l, kind == '{')) {
            return false;
        }
    }
    return push_plain(&l, T_EOF, l.len, 0);
}
