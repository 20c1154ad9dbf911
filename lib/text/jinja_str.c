#include "text/jinja_str.h"

#include <string.h>

#include "base/utf8.h"
#include "text/jinja_case.h"
#include "text/unicode.h"

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

/* ---- search ---- */

/* A byte string read from either end. */
struct view {
    const unsigned char *p;
    size_t n;
    bool back;
};

static unsigned at(const struct view *v, size_t i)
{
    return v->p[v->back ? v->n - 1 - i : i];
}

/* Where the greatest suffix of x begins, by the order of bytes or its reverse, and its period. */
static size_t greatest_suffix(const struct view *x, bool reverse, size_t *period)
{
    size_t start = 0, j = 1, k = 0, p = 1; /* x[j..] is compared with x[start..], k bytes are equal */
    while (j + k < x->n) {
        unsigned a = at(x, j + k), b = at(x, start + k);
        if (a == b) {
            k++;
            if (k == p) {
                j += p;
                k = 0;
            }
        } else if (reverse ? a > b : a < b) {
            j += k + 1;
            k = 0;
            p = j - start;
        } else {
            start = j++;
            k = 0;
            p = 1;
        }
    }
    *period = p;
    return start;
}

/* The first place of x (at least 2 bytes) in y. M. Crochemore and D. Perrin, "Two-way string-matching", 1991: linear time whatever
 * the texts, which a plain search is not. */
static size_t two_way(const struct view *y, const struct view *x)
{
    size_t p1, p2, s1 = greatest_suffix(x, false, &p1), s2 = greatest_suffix(x, true, &p2);
    size_t cut = s1 > s2 ? s1 : s2, period = s1 > s2 ? p1 : p2, known = 0, i;
    bool periodic = cut + period <= x->n;
    for (i = 0; periodic && i < cut; i++)
        periodic = at(x, i) == at(x, i + period);
    if (!periodic)
        period = (cut > x->n - cut ? cut : x->n - cut) + 1;
    for (size_t j = 0; j + x->n <= y->n;) {
        for (i = cut > known ? cut : known; i < x->n && at(x, i) == at(y, i + j);)
            i++;
        if (i < x->n) {
            j += i - cut + 1;
            known = 0;
            continue;
        }
        for (i = cut; i > known && at(x, i - 1) == at(y, i - 1 + j);)
            i--;
        if (i <= known)
            return j;
        j += period;
        known = periodic ? x->n - period : 0;
    }
    return JS_NONE;
}

#define PLAIN_NEEDLE 16 /* up to here the plain search is quick enough on any text */

size_t js_find(const char *p, size_t from, size_t to, const char *needle, size_t n)
{
    if (from > to || n > to - from)
        return JS_NONE;
    if (!n)
        return from;
    if (n > PLAIN_NEEDLE) {
        struct view y = {(const unsigned char *)p + from, to - from, false}, x = {(const unsigned char *)needle, n, false};
        size_t hit = two_way(&y, &x);
        return hit == JS_NONE ? JS_NONE : from + hit;
    }
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
    if (n > PLAIN_NEEDLE) {
        struct view y = {(const unsigned char *)p + from, to - from, true}, x = {(const unsigned char *)needle, n, true};
        size_t hit = two_way(&y, &x);
        return hit == JS_NONE ? JS_NONE : to - hit - n;
    }
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
    if (cp < 0x80)
        return cp >= 'A' && cp <= 'Z' ? cp + 32 : cp;
    return uc_lower(cp);
}

uint32_t js_upper_cp(uint32_t cp)
{
    if (cp < 0x80)
        return cp >= 'a' && cp <= 'z' ? cp - 32 : cp;
    size_t lo = 0, hi = sizeof case_upper / sizeof *case_upper;
    while (lo < hi) { /* the last range that begins at or before cp */
        size_t mid = (lo + hi) / 2;
        if (case_upper[mid].first <= cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (!lo || cp > case_upper[lo - 1].last || (cp - case_upper[lo - 1].first) % (uint32_t)case_upper[lo - 1].step)
        return cp;
    return (uint32_t)((int32_t)cp + case_upper[lo - 1].delta);
}

static const uint32_t *special_of(uint32_t cp)
{
    for (size_t i = 0; cp >= 0xDF && i < sizeof case_special / sizeof *case_special; i++)
        if (case_special[i].cp == cp)
            return case_special[i].to;
    return NULL;
}

static void put_cp(struct buf *b, uint32_t cp)
{
    char u[4];
    buf_put(b, u, utf8_encode(cp, u));
}

void js_put_upper(struct buf *b, uint32_t cp, bool title)
{
    const uint32_t *several = special_of(cp);
    if (!several) {
        put_cp(b, js_upper_cp(cp));
        return;
    }
    for (int i = 0; i < 3 && several[i]; i++) /* \u00DF: SS, as a title Ss */
        put_cp(b, title && i ? js_lower_cp(several[i]) : several[i]);
}

enum js_case js_case_of(uint32_t cp)
{
    if (cp < 0x80)
        return cp >= 'a' && cp <= 'z' ? JS_LOWER : cp >= 'A' && cp <= 'Z' ? JS_UPPER : JS_UNCASED;
    switch (uc_props(cp) & UC_CAT_MASK) {
    case UC_LU:
        return JS_UPPER;
    case UC_LL:
        return JS_LOWER;
    case UC_LT:
        return JS_TITLE;
    default:
        return js_lower_cp(cp) != cp ? JS_UPPER : js_upper_cp(cp) != cp ? JS_LOWER : JS_UNCASED;
    }
}

bool js_is_cased(uint32_t cp)
{
    return js_case_of(cp) != JS_UNCASED;
}

/* A capital sigma at the end of a word: after a cased letter and not before one. */
static bool is_final(const char *p, size_t at, size_t len)
{
    size_t next = at + 2, back = at ? js_char_back(p, at) : 0;
    return at && js_is_cased(cp_at(p + back, at - back)) && !(next < len && js_is_cased(cp_at(p + next, len - next)));
}

void js_lower(struct buf *b, const char *p, size_t len)
{
    size_t used;
    for (size_t i = 0; i < len; i += used) {
        uint32_t cp = utf8_decode(p + i, len - i, &used);
        if (cp == 0x3A3 && is_final(p, i, len)) {
            put_cp(b, 0x3C2);
        } else if (cp == 0x130) { /* I with a dot: i and a combining dot */
            put_cp(b, 'i');
            put_cp(b, 0x307);
        } else {
            put_cp(b, js_lower_cp(cp));
        }
    }
}

void js_upper(struct buf *b, const char *p, size_t len)
{
    size_t used;
    for (size_t i = 0; i < len; i += used)
        js_put_upper(b, utf8_decode(p + i, len - i, &used), false);
}

bool js_is_alpha(uint32_t cp)
{
    if (cp < 0x80)
        return (cp >= 'a' && cp <= 'z') || (cp >= 'A' && cp <= 'Z');
    return uc_in(uc_props(cp), UC_LETTER);
}

bool js_is_decimal(uint32_t cp)
{
    return cp < 0x80 ? cp >= '0' && cp <= '9' : uc_in(uc_props(cp), UC_BIT(UC_ND));
}

bool js_is_digit(uint32_t cp)
{
    return js_is_decimal(cp) || cp == 0xB2 || cp == 0xB3 || cp == 0xB9 || cp == 0x2070 || (cp >= 0x2074 && cp <= 0x2079) ||
           (cp >= 0x2080 && cp <= 0x2089) || (cp >= 0x2460 && cp <= 0x2468);
}

bool js_is_numeric(uint32_t cp)
{
    return cp < 0x80 ? cp >= '0' && cp <= '9' : uc_in(uc_props(cp), UC_NUMBER);
}

bool js_is_printable(uint32_t cp)
{
    const uint32_t not_shown = UC_BIT(UC_CN) | UC_BIT(UC_CC) | UC_BIT(UC_CF) | UC_BIT(UC_CO) | UC_BIT(UC_CS) | UC_BIT(UC_ZS) |
                               UC_BIT(UC_ZL) | UC_BIT(UC_ZP);
    return cp < 0x7F ? cp >= 0x20 : !uc_in(uc_props(cp), not_shown);
}
