#include "text/jinja_str.h"

#include <string.h>

#include "base/utf8.h"

bool js_is_space(uint32_t cp)
{
    return (cp >= 0x09 && cp <= 0x0D) || (cp >= 0x1C && cp <= 0x20) || cp == 0x85 || cp == 0xA0 || cp == 0x1680 ||
           (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 || cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

bool js_is_line_end(uint32_t cp)
{
    return (cp >= 0x0A && cp <= 0x0D) || (cp >= 0x1C && cp <= 0x1E) || cp == 0x85 || cp == 0x2028 || cp == 0x2029;
}

size_t js_char_len(const char *p)
{
    unsigned char c = (unsigned char)*p;
    return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

size_t js_char_back(const char *p, size_t end)
{
    do
        end--;
    while (end && ((unsigned char)p[end] & 0xC0) == 0x80);
    return end;
}

static uint32_t cp_at(const char *p, size_t len)
{
    size_t used;
    return utf8_decode(p, len, &used);
}

size_t js_skip_space(const char *p, size_t len)
{
    size_t i = 0;
    while (i < len && js_is_space(cp_at(p + i, len - i)))
        i += js_char_len(p + i);
    return i;
}

size_t js_trim_end(const char *p, size_t len)
{
    while (len) {
        size_t at = js_char_back(p, len);
        if (!js_is_space(cp_at(p + at, len - at)))
            break;
        len = at;
    }
    return len;
}

size_t js_count(const char *p, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)p[i] & 0xC0) != 0x80;
    return n;
}

size_t js_offset(const struct jstr *s, size_t cp)
{
    if (s->cps == s->len)
        return cp;
    size_t i = 0;
    if (cp > s->cps / 2) {
        i = s->len;
        for (size_t back = s->cps - cp; back; back--)
            i = js_char_back(s->p, i);
        return i;
    }
    for (; cp; cp--)
        i += js_char_len(s->p + i);
    return i;
}

size_t js_find(const char *p, size_t from, size_t to, const char *needle, size_t n)
{
    if (from > to || n > to - from)
        return JS_NONE;
    if (!n)
        return from;
    for (size_t i = from; i <= to - n; i++) {
        const char *hit = memchr(p + i, needle[0], to - n + 1 - i);
        if (!hit)
            return JS_NONE;
        i = (size_t)(hit - p);
        if (!memcmp(hit, needle, n))
            return i;
    }
    return JS_NONE;
}

size_t js_rfind(const char *p, size_t from, size_t to, const char *needle, size_t n)
{
    if (from > to || n > to - from)
        return JS_NONE;
    for (size_t i = to - n + 1; i-- > from;)
        if (!n || (p[i] == needle[0] && !memcmp(p + i, needle, n)))
            return i;
    return JS_NONE;
}

bool js_same(const struct jstr *a, const struct jstr *b)
{
    return a == b || (a->len == b->len && !memcmp(a->p, b->p, a->len));
}

bool js_is(const struct jstr *s, const char *zstr)
{
    return s->len == strlen(zstr) && !memcmp(s->p, zstr, s->len);
}

/* ---- case ---- */

uint32_t js_lower_cp(uint32_t cp)
{
    return cp >= 'A' && cp <= 'Z' ? cp + 32 : cp;
}

uint32_t js_upper_cp(uint32_t cp)
{
    return cp >= 'a' && cp <= 'z' ? cp - 32 : cp;
}

static void put_cp(struct buf *b, uint32_t cp)
{
    char u[4];
    buf_put(b, u, utf8_encode(cp, u));
}

static void map_case(struct buf *b, const char *p, size_t len, uint32_t (*map)(uint32_t))
{
    size_t used;
    for (size_t i = 0; i < len; i += used)
        put_cp(b, map(utf8_decode(p + i, len - i, &used)));
}

void js_lower(struct buf *b, const char *p, size_t len)
{
    map_case(b, p, len, js_lower_cp);
}

void js_upper(struct buf *b, const char *p, size_t len)
{
    map_case(b, p, len, js_upper_cp);
}

bool js_is_alpha(uint32_t cp)
{
    return (cp >= 'a' && cp <= 'z') || (cp >= 'A' && cp <= 'Z') || (cp >= 0xC0 && cp != 0xD7 && cp != 0xF7 && !js_is_space(cp));
}

bool js_is_digit(uint32_t cp)
{
    return cp >= '0' && cp <= '9';
}

bool js_is_printable(uint32_t cp)
{
    if (cp < 0xA1)
        return cp >= 0x20 && cp < 0x7F;
    return cp != 0xAD && !js_is_space(cp) && !(cp >= 0x200B && cp <= 0x200F) && !(cp >= 0x2028 && cp <= 0x202E) &&
           !(cp >= 0x2060 && cp <= 0x206F) && cp != 0xFEFF && !(cp >= 0xE000 && cp <= 0xF8FF) && cp < 0xE0000;
}
