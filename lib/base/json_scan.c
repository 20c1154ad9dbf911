#include "base/json_scan.h"

#include <string.h>

#include "base/cancel.h"
#include "base/num.h"
#include "base/utf8.h"

void json_scan_init(struct json_scan *s, const struct alloc *alloc, const char *text, size_t len, size_t pos, infer_error *err)
{
    *s = (struct json_scan){.text = text, .len = len, .pos = pos, .err = err};
    buf_init(&s->scratch, alloc, 0);
}

bool json_scan_utf8(struct json_scan *s)
{
    size_t used;
    if (utf8_valid(s->text, s->len))
        return true;
    while (utf8_decode(s->text + s->at, s->len - s->at, &used) != UTF8_BAD)
        s->at += used;
    (void)json_scan_fail(s, INFER_ERROR_SYNTAX, "invalid UTF-8");
    return false;
}

void json_scan_free(struct json_scan *s)
{
    buf_free(&s->scratch);
}

infer_status json_scan_fail(struct json_scan *s, infer_status code, const char *what)
{
    if (s->st == INFER_OK)
        s->st = err_at(s->err, code, NULL, 0, s->at, "JSON: %s at byte %llu", what, (unsigned long long)s->at);
    return s->st;
}

static bool fail(struct json_scan *s, const char *what)
{
    s->at = s->pos;
    (void)json_scan_fail(s, INFER_ERROR_SYNTAX, s->pos >= s->len ? "unexpected end of text" : what);
    return false;
}

static void skip_space(struct json_scan *s)
{
    while (s->pos < s->len) {
        char c = s->text[s->pos];
        if (c != ' ' && c != '\n' && c != '\t' && c != '\r')
            return;
        s->pos++;
    }
}

char json_scan_peek(struct json_scan *s)
{
    if (s->st != INFER_OK)
        return 0;
    skip_space(s);
    char c = s->pos < s->len ? s->text[s->pos] : 0;
    return (c >= '0' && c <= '9') || c == '-' ? '0' : c;
}

bool json_scan_open(struct json_scan *s, char bracket)
{
    if (json_scan_peek(s) != bracket)
        return s->st == INFER_OK ? fail(s, bracket == '{' ? "an object is expected" : "an array is expected") : false;
    s->at = s->pos;
    if (++s->depth > JSON_SCAN_DEPTH) {
        (void)json_scan_fail(s, INFER_ERROR_LIMIT, "nested too deep");
        return false;
    }
    s->pos++;
    s->first = true;
    return true;
}

bool json_scan_more(struct json_scan *s, char bracket)
{
    char c = json_scan_peek(s);
    if ((++s->looks & 1023) == 0 && s->st == INFER_OK && cancel_is_set(s->cancel))
        s->st = err_set(s->err, INFER_ERROR_CANCELLED, "cancelled while reading JSON");
    if (s->st != INFER_OK)
        return false;
    bool first = s->first;
    s->first = false;
    if (c == bracket) {
        s->pos++;
        s->depth--;
        return false;
    }
    if (first)
        return true;
    if (c != ',')
        return fail(s, bracket == '}' ? "',' or '}' expected" : "',' or ']' expected");
    s->pos++;
    c = json_scan_peek(s);
    return c == bracket ? fail(s, "invalid value") : true;
}

/* At the backslash of \uXXXX; a pair of surrogates is one character. */
static bool unicode_escape(struct json_scan *s)
{
    int hi = s->len - s->pos >= 6 ? json_hex4(s->text + s->pos + 2) : -1, lo = -1;
    if (hi < 0)
        return fail(s, "invalid \\u escape");
    uint32_t cp = (uint32_t)hi;
    bool pair = cp >= 0xD800 && cp <= 0xDBFF;
    if (pair && s->len - s->pos >= 12 && s->text[s->pos + 6] == '\\' && s->text[s->pos + 7] == 'u')
        lo = json_hex4(s->text + s->pos + 8);
    if ((pair && (lo < 0xDC00 || lo > 0xDFFF)) || (cp >= 0xDC00 && cp <= 0xDFFF))
        return fail(s, "lone surrogate escape");
    if (pair)
        cp = 0x10000 + ((cp - 0xD800) << 10) + ((uint32_t)lo - 0xDC00);
    char utf8[4];
    buf_put(&s->scratch, utf8, utf8_encode(cp, utf8));
    s->pos += pair ? 12 : 6;
    return true;
}

static bool escape(struct json_scan *s)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char c = s->pos + 1 < s->len ? s->text[s->pos + 1] : 0;
    if (c == 'u')
        return unicode_escape(s);
    const char *hit = c ? strchr(from, c) : NULL;
    if (!hit)
        return fail(s, "invalid escape");
    buf_putc(&s->scratch, to[hit - from]);
    s->pos += 2;
    return true;
}

/* Moves to the next quote, backslash or mistake. */
static bool plain(struct json_scan *s)
{
    const char *p = s->text + s->pos, *end = s->text + s->len;
    while (p < end && *p != '"' && *p != '\\' && (uint8_t)*p >= 0x20)
        p++;
    s->pos = (size_t)(p - s->text);
    return p < end && (uint8_t)*p >= 0x20 ? true : fail(s, "control character in a string");
}

bool json_scan_string(struct json_scan *s, struct json_text *out)
{
    if (json_scan_peek(s) != '"')
        return s->st == INFER_OK ? fail(s, "a string is expected") : false;
    s->at = s->pos++;
    size_t from = s->pos;
    if (!plain(s))
        return false;
    *out = (struct json_text){s->text + from, s->pos - from};
    if (s->text[s->pos] == '"') {
        s->pos++;
        return true;
    }
    size_t at = s->at;
    s->scratch.len = 0;
    while (s->text[s->pos] != '"') {
        buf_put(&s->scratch, s->text + from, s->pos - from);
        if (!escape(s))
            return false;
        from = s->pos;
        if (!plain(s))
            return false;
    }
    buf_put(&s->scratch, s->text + from, s->pos - from);
    s->pos++;
    s->at = at;
    if (!buf_ok(&s->scratch))
        s->st = err_no_memory(s->err);
    *out = (struct json_text){s->scratch.data, s->scratch.len};
    return s->st == INFER_OK;
}

bool json_scan_key(struct json_scan *s, struct json_text *out)
{
    if (!json_scan_string(s, out))
        return false;
    size_t at = s->at;
    if (json_scan_peek(s) != ':')
        return s->st == INFER_OK ? fail(s, "':' expected") : false;
    s->pos++;
    s->at = at;
    return true;
}

static size_t digits(struct json_scan *s)
{
    size_t from = s->pos;
    while (s->pos < s->len && s->text[s->pos] >= '0' && s->text[s->pos] <= '9')
        s->pos++;
    return s->pos - from;
}

/* Goes past a number; *whole: without fraction and exponent. */
static bool number(struct json_scan *s, bool *whole)
{
    *whole = true;
    s->at = s->pos;
    if (s->text[s->pos] == '-')
        s->pos++;
    bool zero = s->pos < s->len && s->text[s->pos] == '0';
    size_t n = digits(s);
    if (!n || (zero && n > 1))
        return fail(s, "invalid number");
    if (s->pos < s->len && s->text[s->pos] == '.') {
        *whole = false;
        s->pos++;
        if (!digits(s))
            return fail(s, "digit expected");
    }
    if (s->pos < s->len && (s->text[s->pos] | 32) == 'e') {
        *whole = false;
        s->pos++;
        if (s->pos < s->len && (s->text[s->pos] == '-' || s->text[s->pos] == '+'))
            s->pos++;
        if (!digits(s))
            return fail(s, "digit expected");
    }
    return true;
}

bool json_scan_int(struct json_scan *s, int64_t *out)
{
    bool whole = false;
    if (json_scan_peek(s) != '0')
        return s->st == INFER_OK ? fail(s, "a number is expected") : false;
    if (!number(s, &whole))
        return false;
    if (whole && num_parse_i64(s->text + s->at, s->pos - s->at, out))
        return true;
    (void)json_scan_fail(s, INFER_ERROR_VALUE, "an integer is expected");
    return false;
}

bool json_scan_double(struct json_scan *s, double *out)
{
    bool whole;
    if (json_scan_peek(s) != '0')
        return s->st == INFER_OK ? fail(s, "a number is expected") : false;
    return number(s, &whole) && (num_parse_double(s->text + s->at, s->pos - s->at, out) || fail(s, "invalid number"));
}

static bool skip_string(struct json_scan *s)
{
    for (s->pos++;; s->pos++) {
        if (!plain(s))
            return false;
        if (s->text[s->pos] == '"')
            break;
        if (s->pos + 1 < s->len) /* an escape; whoever reads the string checks it */
            s->pos++;
    }
    s->pos++;
    return true;
}

static bool skip_word(struct json_scan *s, const char *word)
{
    size_t n = strlen(word);
    if (s->len - s->pos < n || memcmp(s->text + s->pos, word, n))
        return fail(s, "invalid value");
    s->pos += n;
    return true;
}

static bool skip_scalar(struct json_scan *s, char c)
{
    bool whole;
    switch (c) {
    case '"': return skip_string(s);
    case '0': return number(s, &whole);
    case 't': return skip_word(s, "true");
    case 'f': return skip_word(s, "false");
    case 'n': return skip_word(s, "null");
    default: return fail(s, "invalid value");
    }
}

/* After a value or an opening bracket inside the containers of stack: leaves those that end here, and reads the next key. */
static bool skip_between(struct json_scan *s, const char *stack, uint32_t outside)
{
    while (s->depth > outside) {
        char close = stack[s->depth - outside - 1];
        struct json_text key;
        if (json_scan_more(s, close))
            return close == ']' || json_scan_key(s, &key);
        if (s->st != INFER_OK)
            return false;
    }
    return true;
}

bool json_scan_skip(struct json_scan *s, struct json_text *out)
{
    char stack[JSON_SCAN_DEPTH], c = json_scan_peek(s);
    uint32_t outside = s->depth;
    size_t from = s->pos;
    do {
        c = json_scan_peek(s);
        if (c == '{' || c == '[') {
            if (!json_scan_open(s, c))
                return false;
            stack[s->depth - outside - 1] = c == '{' ? '}' : ']';
        } else if (s->st != INFER_OK || !skip_scalar(s, c))
            return false;
        if (!skip_between(s, stack, outside))
            return false;
    } while (s->depth > outside);
    s->at = from;
    s->first = false;
    if (out)
        *out = (struct json_text){s->text + from, s->pos - from};
    return true;
}

bool json_scan_end(struct json_scan *s)
{
    (void)json_scan_peek(s);
    return s->st == INFER_OK && (s->pos == s->len || fail(s, "text after the value"));
}
