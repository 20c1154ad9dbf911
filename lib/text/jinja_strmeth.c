/* Methods of strings. */
#include <string.h>

#include "base/utf8.h"
#include "text/jinja_methods.h"
#include "text/jinja_run.h"
#include "text/jinja_str.h"

static bool part(struct jcall *c, size_t from, size_t to, struct jv *out)
{
    const struct jstr *self = c->self.u.s, *s = jx_str_ref(c->x, self->p + from, to - from);
    if (!s)
        return false;
    ((struct jstr *)(uintptr_t)s)->markup = self->markup; /* just made */
    *out = jv_str(s);
    return true;
}

static bool push_part(struct jcall *c, struct jlb *b, size_t from, size_t to)
{
    struct jv v;
    return part(c, from, to, &v) && jlb_push(b, v);
}

static bool need_text(struct jcall *c, size_t i, const struct jstr **out)
{
    if (!jx_arg_str(c, i, out))
        return false;
    return *out || jx_fail(c->x, "%s: a string is required", c->name);
}

/* ---- case ---- */

static bool by_filter(struct jcall *c, const char *name, struct jv *out)
{
    return jx_call_builtin(c->x, jx_filter(name, strlen(name)), "filter", &c->self, NULL, out);
}

static bool m_upper(struct jcall *c, struct jv *out) { return by_filter(c, "upper", out); }
static bool m_lower(struct jcall *c, struct jv *out) { return by_filter(c, "lower", out); }
static bool m_capitalize(struct jcall *c, struct jv *out) { return by_filter(c, "capitalize", out); }

static void put_cp(struct buf *b, uint32_t cp)
{
    char u[4];
    buf_put(b, u, utf8_encode(cp, u));
}

static bool m_title(struct jcall *c, struct jv *out)
{
    const struct jstr *s = c->self.u.s;
    size_t mark = c->x->tmp.len, used;
    bool inside = false;
    for (size_t i = 0; i < s->len; i += used) {
        uint32_t cp = utf8_decode(s->p + i, s->len - i, &used);
        if (inside)
            put_cp(&c->x->tmp, js_lower_cp(cp));
        else
            js_put_upper(&c->x->tmp, cp, true);
        inside = js_is_cased(cp);
    }
    return jx_take_like(c->x, mark, s, out);
}

static bool m_swapcase(struct jcall *c, struct jv *out)
{
    const struct jstr *s = c->self.u.s;
    size_t mark = c->x->tmp.len, used;
    for (size_t i = 0; i < s->len; i += used) {
        uint32_t cp = utf8_decode(s->p + i, s->len - i, &used), low = js_lower_cp(cp);
        if (low != cp)
            put_cp(&c->x->tmp, low);
        else
            js_put_upper(&c->x->tmp, cp, false);
    }
    return jx_take_like(c->x, mark, s, out);
}

/* ---- strip ---- */

static bool in_set(const struct jstr *set, const char *p, size_t n)
{
    if (set)
        return js_find(set->p, 0, set->len, p, n) != JS_NONE;
    size_t used;
    return js_is_space(utf8_decode(p, n, &used));
}

static bool strip(struct jcall *c, bool left, bool right, struct jv *out)
{
    const struct jstr *s = c->self.u.s, *set;
    size_t from = 0, to = s->len;
    if (!jx_arg_str(c, 0, &set) || !jx_spend_bytes(c->x, s->len))
        return false;
    while (left && from < to && in_set(set, s->p + from, js_char_len(s->p + from))) {
        from += js_char_len(s->p + from);
        if (set && !jx_spend_bytes(c->x, set->len))
            return false;
    }
    while (right && to > from) {
        size_t at = js_char_back(s->p, to);
        if (set && !jx_spend_bytes(c->x, set->len))
            return false;
        if (!in_set(set, s->p + at, to - at))
            break;
        to = at;
    }
    return part(c, from, to, out);
}

static bool m_strip(struct jcall *c, struct jv *out) { return strip(c, true, true, out); }
static bool m_lstrip(struct jcall *c, struct jv *out) { return strip(c, true, false, out); }
static bool m_rstrip(struct jcall *c, struct jv *out) { return strip(c, false, true, out); }

static bool starts(const struct jstr *s, const struct jstr *with)
{
    return with->len <= s->len && !memcmp(s->p, with->p, with->len);
}

static bool ends(const struct jstr *s, const struct jstr *with)
{
    return with->len <= s->len && !memcmp(s->p + s->len - with->len, with->p, with->len);
}

static bool m_removeprefix(struct jcall *c, struct jv *out)
{
    const struct jstr *s = c->self.u.s, *with;
    return need_text(c, 0, &with) && part(c, starts(s, with) ? with->len : 0, s->len, out);
}

static bool m_removesuffix(struct jcall *c, struct jv *out)
{
    const struct jstr *s = c->self.u.s, *with;
    return need_text(c, 0, &with) && part(c, 0, s->len - (ends(s, with) ? with->len : 0), out);
}

/* ---- search ---- */

/* The bytes [from, to) of the code points [start, end) given by two arguments; false in *inside: start lies behind the end. */
static bool bounds(struct jcall *c, size_t first, size_t *from, size_t *to, bool *inside)
{
    const struct jstr *s = c->self.u.s;
    int64_t n = (int64_t)s->cps, start, end;
    if (!jx_arg_int(c, first, 0, &start) || !jx_arg_int(c, first + 1, n, &end))
        return false;
    start = start < -n ? 0 : start < 0 ? start + n : start;
    end = end < -n ? 0 : end < 0 ? end + n : end > n ? n : end;
    *inside = start <= n && start <= end;
    *from = *inside ? js_offset(s, (size_t)start) : 0;
    *to = *inside ? js_offset(s, (size_t)end) : 0;
    return jx_spend_bytes(c->x, s->len);
}

static bool affix(struct jcall *c, bool (*has)(const struct jstr *, const struct jstr *), struct jv *out)
{
    size_t from, to;
    bool inside, yes = false;
    const struct jv *v = &c->arg[0];
    struct jlist one = {(struct jv *)(uintptr_t)v, 1, NULL, false};
    const struct jlist *l = v->type == J_TUPLE ? v->u.list : &one;
    if (!bounds(c, 1, &from, &to, &inside))
        return false;
    struct jstr range = {c->self.u.s->p + from, to - from, 0, false};
    for (size_t i = 0; i < l->n && !yes; i++) {
        if (l->v[i].type != J_STR)
            return jx_fail(c->x, "%s first arg must be str or a tuple of str, not %s", c->name, jv_type_name(&l->v[i]));
        yes = inside && has(&range, l->v[i].u.s);
    }
    *out = jv_bool(yes);
    return true;
}

static bool m_startswith(struct jcall *c, struct jv *out) { return affix(c, starts, out); }
static bool m_endswith(struct jcall *c, struct jv *out) { return affix(c, ends, out); }

static bool find(struct jcall *c, bool last, bool must, struct jv *out)
{
    const struct jstr *s = c->self.u.s, *needle;
    size_t from, to, at = JS_NONE;
    bool inside;
    if (!need_text(c, 0, &needle) || !bounds(c, 1, &from, &to, &inside))
        return false;
    if (inside)
        at = last ? js_rfind(s->p, from, to, needle->p, needle->len) : js_find(s->p, from, to, needle->p, needle->len);
    if (at == JS_NONE && must)
        return jx_fail(c->x, "substring not found");
    *out = jv_int(at == JS_NONE ? -1 : (int64_t)js_count(s->p, at));
    return true;
}

static bool m_find(struct jcall *c, struct jv *out) { return find(c, false, false, out); }
static bool m_rfind(struct jcall *c, struct jv *out) { return find(c, true, false, out); }
static bool m_index(struct jcall *c, struct jv *out) { return find(c, false, true, out); }
static bool m_rindex(struct jcall *c, struct jv *out) { return find(c, true, true, out); }

static bool m_count(struct jcall *c, struct jv *out)
{
    const struct jstr *s = c->self.u.s, *needle;
    size_t from, to;
    int64_t n = 0;
    bool inside;
    if (!need_text(c, 0, &needle) || !bounds(c, 1, &from, &to, &inside))
        return false;
    if (!needle->len && inside)
        n = (int64_t)js_count(s->p + from, to - from) + 1;
    while (inside && needle->len && (from = js_find(s->p, from, to, needle->p, needle->len)) != JS_NONE) {
        n++;
        from += needle->len;
    }
    *out = jv_int(n);
    return true;
}

/* ---- split and join ---- */

static bool split_space(struct jcall *c, int64_t max, struct jlb *b)
{
    const struct jstr *s = c->self.u.s;
    for (size_t i = js_skip_space(s->p, s->len); i < s->len;) {
        size_t end = i, used;
        if (max >= 0 && (int64_t)b->n == max)
            return push_part(c, b, i, s->len);
        while (end < s->len && !js_is_space(utf8_decode(s->p + end, s->len - end, &used)))
            end += used;
        if (!push_part(c, b, i, end))
            return false;
        i = end + js_skip_space(s->p + end, s->len - end);
    }
    return true;
}

static bool reverse_list(struct jlb *b)
{
    for (size_t i = 0; i < b->n / 2; i++) {
        struct jv v = b->v[i];
        b->v[i] = b->v[b->n - 1 - i];
        b->v[b->n - 1 - i] = v;
    }
    return true;
}

static bool rsplit_space(struct jcall *c, int64_t max, struct jlb *b)
{
    const struct jstr *s = c->self.u.s;
    for (size_t end = js_trim_end(s->p, s->len); end;) {
        size_t i = end, used;
        if (max >= 0 && (int64_t)b->n == max)
            return push_part(c, b, 0, end) && reverse_list(b);
        while (i) {
            size_t at = js_char_back(s->p, i);
            if (js_is_space(utf8_decode(s->p + at, i - at, &used)))
                break;
            i = at;
        }
        if (!push_part(c, b, i, end))
            return false;
        end = js_trim_end(s->p, i);
    }
    return reverse_list(b);
}

static bool split_by(struct jcall *c, const struct jstr *sep, int64_t max, bool from_right, struct jlb *b)
{
    const struct jstr *s = c->self.u.s;
    size_t lo = 0, hi = s->len;
    while (max < 0 || (int64_t)b->n < max) {
        size_t at = from_right ? js_rfind(s->p, lo, hi, sep->p, sep->len) : js_find(s->p, lo, hi, sep->p, sep->len);
        if (at == JS_NONE)
            break;
        if (!(from_right ? push_part(c, b, at + sep->len, hi) : push_part(c, b, lo, at)))
            return false;
        if (from_right)
            hi = at;
        else
            lo = at + sep->len;
    }
    return push_part(c, b, lo, hi) && (!from_right || reverse_list(b));
}

static bool split(struct jcall *c, bool from_right, struct jv *out)
{
    struct jlb b = {.x = c->x};
    const struct jstr *sep;
    int64_t max;
    if (!jx_arg_str(c, 0, &sep) || !jx_arg_int(c, 1, -1, &max) || !jx_spend_bytes(c->x, c->self.u.s->len))
        return false;
    if (sep && !sep->len)
        return jx_fail(c->x, "empty separator");
    bool ok = sep ? split_by(c, sep, max, from_right, &b) : from_right ? rsplit_space(c, max, &b) : split_space(c, max, &b);
    return ok && jlb_done(&b, J_LIST, out);
}

static bool m_split(struct jcall *c, struct jv *out) { return split(c, false, out); }
static bool m_rsplit(struct jcall *c, struct jv *out) { return split(c, true, out); }

static bool m_splitlines(struct jcall *c, struct jv *out)
{
    const struct jstr *s = c->self.u.s;
    struct jlb b = {.x = c->x};
    bool keep = jx_arg_bool(c, 0, false);
    size_t start = 0, used;
    for (size_t i = 0; i < s->len; i += used) {
        uint32_t cp = utf8_decode(s->p + i, s->len - i, &used);
        if (!js_is_line_end(cp))
            continue;
        size_t end = i;
        if (cp == '\r' && i + 1 < s->len && s->p[i + 1] == '\n')
            used++;
        if (!push_part(c, &b, start, keep ? i + used : end))
            return false;
        start = i + used;
    }
    return (start == s->len || push_part(c, &b, start, s->len)) && jlb_done(&b, J_LIST, out);
}

static bool partition(struct jcall *c, bool last, struct jv *out)
{
    const struct jstr *s = c->self.u.s, *sep;
    struct jlb b = {.x = c->x};
    if (!need_text(c, 0, &sep))
        return false;
    if (!sep->len)
        return jx_fail(c->x, "empty separator");
    size_t at = last ? js_rfind(s->p, 0, s->len, sep->p, sep->len) : js_find(s->p, 0, s->len, sep->p, sep->len);
    size_t from = at == JS_NONE ? (last ? 0 : s->len) : at, to = at == JS_NONE ? from : at + sep->len;
    return jx_spend_bytes(c->x, s->len) && push_part(c, &b, 0, from) && push_part(c, &b, from, to) &&
           push_part(c, &b, to, s->len) && jlb_done(&b, J_TUPLE, out);
}

static bool m_partition(struct jcall *c, struct jv *out) { return partition(c, false, out); }
static bool m_rpartition(struct jcall *c, struct jv *out) { return partition(c, true, out); }

static void put_maybe_escaped(struct buf *b, const struct jstr *s, bool escape)
{
    if (escape && !s->markup)
        jx_escape(b, s->p, s->len);
    else
        buf_put(b, s->p, s->len);
}

static bool m_join(struct jcall *c, struct jv *out)
{
    const struct jstr *s = c->self.u.s;
    struct jx *x = c->x;
    struct jiter it;
    struct jv item;
    size_t mark = x->tmp.len;
    int got;
    if (!jx_iter(x, &c->arg[0], &it))
        return false;
    for (int64_t i = 0; (got = jx_next(x, &it, &item)) > 0; i++) {
        if (item.type != J_STR)
            return jx_fail(x, "sequence item %d: expected str instance, %s found", (int)i, jv_type_name(&item));
        if (i)
            buf_put(&x->tmp, s->p, s->len);
        put_maybe_escaped(&x->tmp, item.u.s, s->markup);
        if (!jx_spend_bytes(x, s->len + item.u.s->len))
            return false;
    }
    return got == 0 && jx_take_like(x, mark, s, out);
}

static bool m_replace(struct jcall *c, struct jv *out)
{
    const struct jstr *s = c->self.u.s, *old, *new;
    struct buf *b = &c->x->tmp;
    int64_t max;
    size_t mark = b->len, i = 0;
    if (!need_text(c, 0, &old) || !need_text(c, 1, &new) || !jx_arg_int(c, 2, -1, &max) || !jx_spend_bytes(c->x, s->len))
        return false;
    for (int64_t n = 0; max < 0 || n < max; n++) {
        size_t at = js_find(s->p, i, s->len, old->p, old->len);
        if (!old->len) /* between all characters */
            at = n == 0 ? 0 : i < s->len ? i + js_char_len(s->p + i) : JS_NONE;
        if (at == JS_NONE)
            break;
        buf_put(b, s->p + i, at - i);
        put_maybe_escaped(b, new, s->markup);
        i = at + old->len;
        if (!jx_spend_bytes(c->x, new->len))
            return false;
    }
    buf_put(b, s->p + i, s->len - i);
    return jx_take_like(c->x, mark, s, out);
}

/* ---- padding ---- */

static bool put_pad(struct jcall *c, const struct jstr *fill, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (fill)
            buf_put(&c->x->tmp, fill->p, fill->len);
        else
            buf_putc(&c->x->tmp, ' ');
    }
    return n <= 0 || jx_spend_bytes(c->x, (size_t)n);
}

static bool pad(struct jcall *c, char where, struct jv *out)
{
    const struct jstr *s = c->self.u.s, *fill;
    size_t mark = c->x->tmp.len;
    int64_t width;
    if (!jx_arg_int(c, 0, 0, &width) || !jx_arg_str(c, 1, &fill))
        return false;
    if (fill && fill->cps != 1)
        return jx_fail(c->x, "The fill character must be exactly one character long");
    if (width > JX_MAX_WIDTH)
        return jx_limit(c->x, "width is too large");
    int64_t n = width - (int64_t)s->cps, left = 0;
    if (n < 0)
        n = 0;
    if (where == '>')
        left = n;
    else if (where == '^')
        left = n / 2 + (n & width & 1); /* Python puts the odd one left when the width is odd */
    if (!put_pad(c, fill, left))
        return false;
    buf_put(&c->x->tmp, s->p, s->len);
    return put_pad(c, fill, n - left) && jx_take_like(c->x, mark, s, out);
}

static bool m_ljust(struct jcall *c, struct jv *out) { return pad(c, '<', out); }
static bool m_rjust(struct jcall *c, struct jv *out) { return pad(c, '>', out); }
static bool m_center(struct jcall *c, struct jv *out) { return pad(c, '^', out); }

static bool m_zfill(struct jcall *c, struct jv *out)
{
    static const struct jstr zero = {"0", 1, 1, false};
    const struct jstr *s = c->self.u.s;
    size_t mark = c->x->tmp.len, sign = s->len && (s->p[0] == '-' || s->p[0] == '+');
    int64_t width;
    if (!jx_arg_int(c, 0, 0, &width))
        return false;
    if (width > JX_MAX_WIDTH)
        return jx_limit(c->x, "width is too large");
    buf_put(&c->x->tmp, s->p, sign);
    if (!put_pad(c, &zero, width - (int64_t)s->cps))
        return false;
    buf_put(&c->x->tmp, s->p + sign, s->len - sign);
    return jx_take_like(c->x, mark, s, out);
}

static bool m_expandtabs(struct jcall *c, struct jv *out)
{
    const struct jstr *s = c->self.u.s;
    size_t mark = c->x->tmp.len, used;
    int64_t size, column = 0;
    if (!jx_arg_int(c, 0, 8, &size))
        return false;
    if (size > 1000)
        return jx_limit(c->x, "tab size is too large");
    for (size_t i = 0; i < s->len; i += used) {
        used = js_char_len(s->p + i);
        if (s->p[i] == '\t') {
            int64_t n = size > 0 ? size - column % size : 0;
            column += n;
            if (!put_pad(c, NULL, n))
                return false;
            continue;
        }
        column = s->p[i] == '\n' || s->p[i] == '\r' ? 0 : column + 1;
        buf_put(&c->x->tmp, s->p + i, used);
    }
    return jx_take_like(c->x, mark, s, out);
}

/* ---- kinds of characters ---- */

static bool all_are(struct jcall *c, bool (*is)(uint32_t), struct jv *out)
{
    const struct jstr *s = c->self.u.s;
    bool yes = s->len > 0;
    size_t used;
    for (size_t i = 0; yes && i < s->len; i += used)
        yes = is(utf8_decode(s->p + i, s->len - i, &used));
    *out = jv_bool(yes);
    return jx_spend_bytes(c->x, s->len);
}

static bool is_alnum(uint32_t cp)
{
    return js_is_alpha(cp) || js_is_digit(cp) || js_is_numeric(cp);
}

static bool m_isalpha(struct jcall *c, struct jv *out) { return all_are(c, js_is_alpha, out); }
static bool m_isdigit(struct jcall *c, struct jv *out) { return all_are(c, js_is_digit, out); }
static bool m_isdecimal(struct jcall *c, struct jv *out) { return all_are(c, js_is_decimal, out); }
static bool m_isnumeric(struct jcall *c, struct jv *out) { return all_are(c, js_is_numeric, out); }
static bool m_isalnum(struct jcall *c, struct jv *out) { return all_are(c, is_alnum, out); }
static bool m_isspace(struct jcall *c, struct jv *out) { return all_are(c, js_is_space, out); }

static bool m_isascii(struct jcall *c, struct jv *out)
{
    *out = jv_bool(c->self.u.s->cps == c->self.u.s->len);
    return true;
}

static bool m_isprintable(struct jcall *c, struct jv *out)
{
    if (!all_are(c, js_is_printable, out))
        return false;
    if (!c->self.u.s->len)
        *out = jv_bool(true);
    return true;
}

static bool by_test(struct jcall *c, const char *name, struct jv *out)
{
    return jx_call_builtin(c->x, jx_test(name, strlen(name)), "test", &c->self, NULL, out);
}

static bool m_islower(struct jcall *c, struct jv *out) { return by_test(c, "lower", out); }
static bool m_isupper(struct jcall *c, struct jv *out) { return by_test(c, "upper", out); }

static bool m_istitle(struct jcall *c, struct jv *out)
{
    const struct jstr *s = c->self.u.s;
    bool inside = false, any = false, ok = true;
    size_t used;
    for (size_t i = 0; ok && i < s->len; i += used) {
        uint32_t cp = utf8_decode(s->p + i, s->len - i, &used);
        enum js_case is = js_case_of(cp);
        ok = is == JS_UNCASED || (is == JS_LOWER) == inside;
        inside = is != JS_UNCASED;
        any |= inside;
    }
    *out = jv_bool(ok && any);
    return jx_spend_bytes(c->x, s->len);
}

static bool m_isidentifier(struct jcall *c, struct jv *out)
{
    const struct jstr *s = c->self.u.s;
    bool yes = s->len && !js_is_digit((unsigned char)s->p[0]);
    size_t used;
    for (size_t i = 0; yes && i < s->len; i += used) {
        uint32_t cp = utf8_decode(s->p + i, s->len - i, &used);
        yes = cp == '_' || is_alnum(cp);
    }
    *out = jv_bool(yes);
    return jx_spend_bytes(c->x, s->len);
}

static bool m_format(struct jcall *c, struct jv *out)
{
    return jx_format(c->x, c->self.u.s, c->raw, out);
}

const struct jbuiltin jx_str_methods[] = {
    {"capitalize", m_capitalize, "", 0},
    {"casefold", m_lower, "", 0},
    {"center", m_center, "width fillchar", 1},
    {"count", m_count, "sub start end", 1},
    {"endswith", m_endswith, "suffix start end", 1},
    {"expandtabs", m_expandtabs, "tabsize", 0},
    {"find", m_find, "sub start end", 1},
    {"format", m_format, NULL, 0},
    {"index", m_index, "sub start end", 1},
    {"isalnum", m_isalnum, "", 0},
    {"isalpha", m_isalpha, "", 0},
    {"isascii", m_isascii, "", 0},
    {"isdecimal", m_isdecimal, "", 0},
    {"isdigit", m_isdigit, "", 0},
    {"isidentifier", m_isidentifier, "", 0},
    {"islower", m_islower, "", 0},
    {"isnumeric", m_isnumeric, "", 0},
    {"isprintable", m_isprintable, "", 0},
    {"isspace", m_isspace, "", 0},
    {"istitle", m_istitle, "", 0},
    {"isupper", m_isupper, "", 0},
    {"join", m_join, "iterable", 1},
    {"ljust", m_ljust, "width fillchar", 1},
    {"lower", m_lower, "", 0},
    {"lstrip", m_lstrip, "chars", 0},
    {"partition", m_partition, "sep", 1},
    {"removeprefix", m_removeprefix, "prefix", 1},
    {"removesuffix", m_removesuffix, "suffix", 1},
    {"replace", m_replace, "old new count", 2},
    {"rfind", m_rfind, "sub start end", 1},
    {"rindex", m_rindex, "sub start end", 1},
    {"rjust", m_rjust, "width fillchar", 1},
    {"rpartition", m_rpartition, "sep", 1},
    {"rsplit", m_rsplit, "sep maxsplit", 0},
    {"rstrip", m_rstrip, "chars", 0},
    {"split", m_split, "sep maxsplit", 0},
    {"splitlines", m_splitlines, "keepends", 0},
    {"startswith", m_startswith, "prefix start end", 1},
    {"strip", m_strip, "chars", 0},
    {"swapcase", m_swapcase, "", 0},
    {"title", m_title, "", 0},
    {"upper", m_upper, "", 0},
    {"zfill", m_zfill, "width", 1},
    {NULL, NULL, NULL, 0},
};
