/* The keys of rank_pattern and alpha_pattern are regular expressions of Python. Nearly all are plain ends of names ("q_proj",
 * "layers.0.self_attn.k_proj") or use a class; groups, alternatives and counts are refused. */
#include <string.h>

#include "adapters/adapter_read.h"

#define MAX_STEPS 100000

struct matcher {
    const char *end; /* of the pattern */
    uint32_t steps;
    bool bad; /* not understood, or too many steps */
};

/* Bytes of the single element at p (a character, an escape, a class); 0: malformed or not understood. */
static size_t element(struct matcher *m, const char *p)
{
    if (*p == '\\')
        return m->end - p >= 2 ? 2 : 0;
    if (strchr("()|{}*+?]", *p) || *p == 0)
        return 0;
    if (*p != '[')
        return 1;
    const char *q = p + 1;
    if (q < m->end && *q == '^')
        q++;
    if (q < m->end && *q == ']') /* a literal one */
        q++;
    while (q < m->end && *q != ']')
        q += *q == '\\' ? 2 : 1;
    return q < m->end ? (size_t)(q - p) + 1 : 0;
}

static bool in_escape(struct matcher *m, char escape, char c)
{
    bool digit = c >= '0' && c <= '9', letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (escape == 'd')
        return digit;
    if (escape == 'w')
        return digit || letter || c == '_';
    if ((escape >= '0' && escape <= '9') || (escape >= 'a' && escape <= 'z') || (escape >= 'A' && escape <= 'Z'))
        m->bad = true; /* another class, or a reference */
    return c == escape;
}

static bool in_class(struct matcher *m, const char *p, size_t n, char c)
{
    bool negated = n > 2 && p[1] == '^', found = false;
    for (size_t i = negated ? 2 : 1; i + 1 < n; i++) {
        if (p[i] == '\\' && i + 2 < n) {
            found |= in_escape(m, p[++i], c);
        } else if (i + 3 < n && p[i + 1] == '-') {
            found |= (unsigned char)c >= (unsigned char)p[i] && (unsigned char)c <= (unsigned char)p[i + 2];
            i += 2;
        } else {
            found |= p[i] == c;
        }
    }
    return found != negated;
}

static bool one(struct matcher *m, const char *p, size_t n, char c)
{
    if (*p == '.')
        return c != '\n';
    if (*p == '\\')
        return in_escape(m, p[1], c);
    return *p == '[' ? in_class(m, p, n, c) : *p == c;
}

/* Whether the pattern from p matches all of s. Recurses once an element of the pattern. start: of the whole name. */
static bool match(struct matcher *m, const char *p, const char *s, const char *start)
{
    for (;;) {
        if (m->bad || ++m->steps > MAX_STEPS)
            m->bad = true;
        if (m->bad)
            return false;
        if (p == m->end)
            return *s == 0;
        if (*p == '^' || *p == '$') {
            if (*p == '^' ? s != start : *s != 0)
                return false;
            p++;
            continue;
        }
        size_t n = element(m, p);
        if (!n) {
            m->bad = true;
            return false;
        }
        const char *next = p + n;
        char many = next < m->end && *next && strchr("*+?", *next) ? *next++ : 0;
        if (many && next < m->end && (*next == '?' || *next == '+')) /* lazy: the same whole matches. Possessive: other ones */
            m->bad |= *next++ == '+';
        if (!many) {
            if (!*s || !one(m, p, n, *s))
                return false;
            p = next;
            s++;
            continue;
        }
        size_t most = many == '?' ? 1 : SIZE_MAX, k = 0;
        if (many != '+' && match(m, next, s, start))
            return true;
        while (k < most && s[k] && one(m, p, n, s[k]))
            if (match(m, next, s + ++k, start))
                return true;
        return false;
    }
}

infer_status peft_pattern_match(const char *pattern, size_t len, const char *name, bool *out)
{
    struct matcher m = {.end = pattern + len};
    const char *s = name;
    bool found = len <= 256 && match(&m, pattern, s, name);
    m.bad |= len > 256;
    for (; *s && !found && !m.bad; s++)
        if (*s == '.')
            found = match(&m, pattern, s + 1, name);
    if (m.bad)
        return INFER_ERROR_UNSUPPORTED;
    *out = found;
    return INFER_OK;
}
