#include "base/json.h"

#include <string.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/num.h"
#include "base/utf8.h"

#define DEFAULT_DEPTH 200
#define DEFAULT_BYTES ((size_t)1 << 30)
#define SMALL_OBJECT 16 /* up to here repeated keys are found by comparing all pairs */

/* An open array or object: its values lie on the stack of pending values from `first` on. */
struct level {
    size_t first;
    size_t offset;
    struct json_text key; /* under which it goes into the container around it */
    bool object;
};

struct parser {
    struct arena *ar;
    const char *text;
    size_t len, pos;
    size_t max_depth;
    bool unique_keys;
    struct buf pending; /* struct json_member: values of open containers, with their keys */
    struct buf levels;  /* struct level */
    struct buf scratch; /* a string with escapes */
    struct json_text key; /* of the value that comes next */
    infer_error *err;
};

static infer_status fail_at(struct parser *p, size_t at, const char *what)
{
    return err_at(p->err, INFER_ERROR_SYNTAX, NULL, 0, at, "JSON: %s at byte %llu", what, (unsigned long long)at);
}

static infer_status fail(struct parser *p, const char *what)
{
    return fail_at(p, p->pos, p->pos >= p->len ? "unexpected end of text" : what);
}

static infer_status fail_memory(struct parser *p, size_t wanted)
{
    size_t whole = wanted > SIZE_MAX - 15 ? SIZE_MAX : (wanted + 15) & ~(size_t)15; /* as the arena counts */
    if (p->ar->limit && whole > p->ar->limit - p->ar->used)
        return err_at(p->err, INFER_ERROR_LIMIT, NULL, 0, p->pos, "JSON needs more memory than the limit allows");
    return err_no_memory(p->err);
}

static infer_status fail_buf(struct parser *p, const struct buf *b)
{
    return b->over_limit ? fail_memory(p, SIZE_MAX) : err_no_memory(p->err);
}

static void skip_space(struct parser *p)
{
    while (p->pos < p->len) {
        char c = p->text[p->pos];
        if (c != ' ' && c != '\t' && c != '\n' && c != '\r')
            return;
        p->pos++;
    }
}

static int peek(const struct parser *p)
{
    return p->pos < p->len ? (unsigned char)p->text[p->pos] : -1;
}

int json_hex4(const char *s)
{
    int v = 0;
    for (int i = 0; i < 4; i++) {
        char c = s[i];
        int d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (d < 0)
            return -1;
        v = v * 16 + d;
    }
    return v;
}

/* At the backslash of \uXXXX. */
static infer_status read_unicode_escape(struct parser *p)
{
    size_t at = p->pos;
    int hi = p->len - p->pos >= 6 ? json_hex4(p->text + p->pos + 2) : -1, lo;
    if (hi < 0)
        return fail_at(p, at, "invalid \\u escape");
    p->pos += 6;
    uint32_t cp = (uint32_t)hi;
    if (cp >= 0xDC00 && cp <= 0xDFFF)
        return fail_at(p, at, "lone surrogate escape");
    if (cp >= 0xD800 && cp <= 0xDBFF) {
        bool second = p->len - p->pos >= 6 && p->text[p->pos] == '\\' && p->text[p->pos + 1] == 'u';
        lo = second ? json_hex4(p->text + p->pos + 2) : -1;
        if (lo < 0xDC00 || lo > 0xDFFF)
            return fail_at(p, at, "lone surrogate escape");
        p->pos += 6;
        cp = 0x10000 + ((cp - 0xD800) << 10) + ((uint32_t)lo - 0xDC00);
    }
    char utf8[4];
    buf_put(&p->scratch, utf8, utf8_encode(cp, utf8));
    return INFER_OK;
}

static infer_status read_escape(struct parser *p)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (p->len - p->pos < 2) {
        p->pos = p->len;
        return fail(p, "");
    }
    char c = p->text[p->pos + 1];
    if (c == 'u')
        return read_unicode_escape(p);
    const char *hit = c ? strchr(from, c) : NULL;
    if (!hit)
        return fail(p, "invalid escape");
    buf_putc(&p->scratch, to[hit - from]);
    p->pos += 2;
    return INFER_OK;
}

/* The plain characters up to the next quote, backslash or mistake. */
static infer_status read_plain(struct parser *p)
{
    size_t start = p->pos;
    while (p->pos < p->len) {
        unsigned char c = (unsigned char)p->text[p->pos];
        size_t used = 1;
        if (c == '"' || c == '\\')
            break;
        if (c < 0x20)
            return fail(p, "control character in a string");
        if (c >= 0x80 && utf8_decode(p->text + p->pos, p->len - p->pos, &used) == UTF8_BAD)
            return fail_at(p, p->pos, "invalid UTF-8");
        p->pos += used;
    }
    buf_put(&p->scratch, p->text + start, p->pos - start);
    return INFER_OK;
}

static infer_status read_string(struct parser *p, struct json_text *out)
{
    infer_status st = INFER_OK;
    p->pos++;
    p->scratch.len = 0;
    for (;;) {
        st = read_plain(p);
        if (st != INFER_OK)
            return st;
        int c = peek(p);
        if (c < 0)
            return fail(p, "");
        if (c == '"')
            break;
        st = read_escape(p);
        if (st != INFER_OK)
            return st;
    }
    p->pos++;
    if (!buf_ok(&p->scratch))
        return fail_buf(p, &p->scratch);
    out->len = p->scratch.len;
    out->p = arena_strdup(p->ar, p->scratch.data ? p->scratch.data : "", out->len);
    return out->p ? INFER_OK : fail_memory(p, out->len + 1);
}

static size_t skip_digits(struct parser *p)
{
    size_t start = p->pos;
    while (p->pos < p->len && p->text[p->pos] >= '0' && p->text[p->pos] <= '9')
        p->pos++;
    return p->pos - start;
}

static infer_status read_number(struct parser *p, struct json *v)
{
    size_t start = p->pos;
    bool whole = true;
    if (peek(p) == '-')
        p->pos++;
    bool zero = peek(p) == '0';
    size_t digits = skip_digits(p);
    if (!digits)
        return fail(p, "invalid value");
    if (zero && digits > 1)
        return fail_at(p, start, "number with a leading zero");
    if (peek(p) == '.') {
        whole = false;
        p->pos++;
        if (!skip_digits(p))
            return fail(p, "digit expected");
    }
    if (peek(p) == 'e' || peek(p) == 'E') {
        whole = false;
        p->pos++;
        if (peek(p) == '-' || peek(p) == '+')
            p->pos++;
        if (!skip_digits(p))
            return fail(p, "digit expected");
    }
    const char *s = p->text + start;
    size_t n = p->pos - start;
    if (!whole) {
        v->type = JSON_DOUBLE;
        return num_parse_double(s, n, &v->u.number) ? INFER_OK : fail_at(p, start, "invalid number");
    }
    v->type = JSON_INT;
    if (num_parse_i64(s, n, &v->u.integer))
        return INFER_OK;
    v->type = JSON_BIG;
    v->u.text.len = n;
    v->u.text.p = arena_strdup(p->ar, s, n);
    return v->u.text.p ? INFER_OK : fail_memory(p, n + 1);
}

static infer_status read_word(struct parser *p, const char *word, struct json *v, enum json_type type, bool value)
{
    size_t n = strlen(word);
    if (p->len - p->pos < n || memcmp(p->text + p->pos, word, n))
        return fail(p, "invalid value");
    p->pos += n;
    v->type = type;
    if (type == JSON_BOOL)
        v->u.boolean = value;
    return INFER_OK;
}

static infer_status open_level(struct parser *p, bool object)
{
    struct level l = {p->pending.len, p->pos, p->key, object};
    if (p->levels.len / sizeof l >= p->max_depth)
        return err_at(p->err, INFER_ERROR_LIMIT, NULL, 0, p->pos, "JSON is nested more than %llu deep",
                      (unsigned long long)p->max_depth);
    buf_put(&p->levels, &l, sizeof l);
    p->pos++;
    return buf_ok(&p->levels) ? INFER_OK : fail_buf(p, &p->levels);
}

/* Drops repeated keys: the first place, the last value. False: no memory. */
static bool merge_keys(const struct alloc *alloc, struct json_member *m, size_t *count)
{
    struct map seen;
    size_t n = 0;
    bool ok = true;
    map_init(&seen, alloc);
    for (size_t i = 0; i < *count && ok; i++) {
        struct json_member *same = NULL;
        if (*count > SMALL_OBJECT) {
            uint32_t *at = map_find(&seen, m[i].key.p, m[i].key.len);
            if (at)
                same = &m[*at];
            else
                ok = map_add(&seen, m[i].key.p, m[i].key.len, (uint32_t)n) == 1;
        } else {
            for (size_t j = 0; j < n && !same; j++)
                if (m[j].key.len == m[i].key.len && !memcmp(m[j].key.p, m[i].key.p, m[i].key.len))
                    same = &m[j];
        }
        if (same)
            same->value = m[i].value;
        else
            m[n++] = m[i];
    }
    map_free(&seen);
    *count = n;
    return ok;
}

static infer_status close_level(struct parser *p, struct json *v)
{
    struct level l;
    memcpy(&l, p->levels.data + p->levels.len - sizeof l, sizeof l);
    p->levels.len -= sizeof l;
    struct json_member *m = p->pending.data ? (struct json_member *)(void *)(p->pending.data + l.first) : NULL;
    size_t n = (p->pending.len - l.first) / sizeof *m, written = n;
    *v = (struct json){.type = l.object ? JSON_OBJECT : JSON_ARRAY, .offset = l.offset};
    if (l.object && n > 1 && !merge_keys(p->ar->alloc, m, &n))
        return err_no_memory(p->err);
    if (p->unique_keys && n < written)
        return fail_at(p, l.offset, "an object with a repeated key");
    v->n = n;
    size_t size = l.object ? sizeof *m : sizeof *v;
    void *copy = arena_zarray(p->ar, n, size);
    if (!copy)
        return fail_memory(p, n * size);
    if (l.object) {
        v->u.members = copy;
        if (n)
            memcpy(copy, m, n * size);
    } else {
        v->u.items = copy;
        for (size_t i = 0; i < n; i++)
            v->u.items[i] = m[i].value;
    }
    p->pending.len = l.first;
    p->key = l.key;
    return INFER_OK;
}

/* Reads a scalar, or opens a container, in which case *opened is set and there is no value yet. */
static infer_status read_value(struct parser *p, struct json *v, bool *opened)
{
    *opened = false;
    *v = (struct json){.offset = p->pos};
    switch (peek(p)) {
    case '{':
    case '[':
        *opened = true;
        return open_level(p, peek(p) == '{');
    case '"':
        v->type = JSON_STRING;
        return read_string(p, &v->u.text);
    case 't':
        return read_word(p, "true", v, JSON_BOOL, true);
    case 'f':
        return read_word(p, "false", v, JSON_BOOL, false);
    case 'n':
        return read_word(p, "null", v, JSON_NULL, false);
    default:
        return read_number(p, v);
    }
}

static infer_status read_key(struct parser *p)
{
    if (peek(p) != '"')
        return fail(p, "string expected as a key");
    infer_status st = read_string(p, &p->key);
    if (st != INFER_OK)
        return st;
    skip_space(p);
    if (peek(p) != ':')
        return fail(p, "':' expected");
    p->pos++;
    skip_space(p);
    return INFER_OK;
}

/* After a value inside a container: a comma, or the end of the container (and maybe of those around it). */
static infer_status after_value(struct parser *p, struct json *v, bool *done)
{
    for (;;) {
        skip_space(p);
        if (!p->levels.len) {
            *done = true;
            return INFER_OK;
        }
        struct level l;
        memcpy(&l, p->levels.data + p->levels.len - sizeof l, sizeof l);
        struct json_member m = {p->key, *v};
        buf_put(&p->pending, &m, sizeof m);
        if (!buf_ok(&p->pending))
            return fail_buf(p, &p->pending);
        int c = peek(p);
        if (c == ',') {
            p->pos++;
            skip_space(p);
            return l.object ? read_key(p) : INFER_OK;
        }
        if (c != (l.object ? '}' : ']'))
            return fail(p, l.object ? "',' or '}' expected" : "',' or ']' expected");
        p->pos++;
        infer_status st = close_level(p, v);
        if (st != INFER_OK)
            return st;
    }
}

/* Inside a container that has just begun: its first key, or its end, which gives a value. */
static infer_status after_open(struct parser *p, struct json *v, bool *closed)
{
    bool object = p->text[p->pos - 1] == '{';
    skip_space(p);
    *closed = peek(p) == (object ? '}' : ']');
    if (*closed) {
        p->pos++;
        return close_level(p, v);
    }
    return object ? read_key(p) : INFER_OK;
}

static infer_status parse_all(struct parser *p, struct json *v)
{
    for (bool done = false; !done;) {
        bool opened, have = true;
        infer_status st = read_value(p, v, &opened);
        if (st == INFER_OK && opened)
            st = after_open(p, v, &have);
        if (st == INFER_OK && have)
            st = after_value(p, v, &done);
        if (st != INFER_OK)
            return st;
    }
    return p->pos == p->len ? INFER_OK : fail(p, "text after the value");
}

infer_status json_parse(struct arena *ar, const char *text, size_t len, const struct json_limits *limits, struct json *out,
                        infer_error *err)
{
    struct parser p = {.ar = ar, .text = text, .len = len, .err = err};
    struct json v;
    p.max_depth = limits && limits->max_depth ? limits->max_depth : DEFAULT_DEPTH;
    p.unique_keys = limits && limits->unique_keys;
    if (len > (limits && limits->max_bytes ? limits->max_bytes : DEFAULT_BYTES))
        return err_set(err, INFER_ERROR_LIMIT, "JSON text is too long");
    buf_init(&p.pending, ar->alloc, ar->limit);
    buf_init(&p.levels, ar->alloc, ar->limit);
    buf_init(&p.scratch, ar->alloc, ar->limit);
    skip_space(&p);
    infer_status st = parse_all(&p, &v);
    buf_free(&p.pending);
    buf_free(&p.levels);
    buf_free(&p.scratch);
    if (st == INFER_OK)
        *out = v;
    return st;
}

const struct json *json_get(const struct json *object, const char *key)
{
    size_t n = strlen(key);
    if (object && object->type == JSON_OBJECT)
        for (size_t i = 0; i < object->n; i++)
            if (object->u.members[i].key.len == n && !memcmp(object->u.members[i].key.p, key, n))
                return &object->u.members[i].value;
    return NULL;
}
