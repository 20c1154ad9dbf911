/* Filters on text, numbers and single values. */
#include <string.h>

#include "base/num.h"
#include "base/utf8.h"
#include "text/jinja_run.h"
#include "text/jinja_str.h"

/* soft_str(): strings as they are (also marked ones), the rest by str(). */
static bool self_text(struct jcall *c, const struct jstr **out)
{
    return jx_to_str(c->x, &c->self, out) && jx_spend_bytes(c->x, (*out)->len);
}

static bool take(struct jcall *c, size_t mark, const struct jstr *like, struct jv *out)
{
    return jx_take_like(c->x, mark, like, out);
}

/* ---- case and white space ---- */

static bool f_upper(struct jcall *c, struct jv *out)
{
    const struct jstr *s;
    size_t mark = c->x->tmp.len;
    if (!self_text(c, &s))
        return false;
    js_upper(&c->x->tmp, s->p, s->len);
    return take(c, mark, s, out);
}

static bool f_lower(struct jcall *c, struct jv *out)
{
    const struct jstr *s;
    size_t mark = c->x->tmp.len;
    if (!self_text(c, &s))
        return false;
    js_lower(&c->x->tmp, s->p, s->len);
    return take(c, mark, s, out);
}

static void put_capitalized(struct buf *b, const char *p, size_t len)
{
    size_t first = len ? js_char_len(p) : 0;
    size_t used;
    if (len)
        js_put_upper(b, utf8_decode(p, len, &used), true);
    js_lower(b, p + first, len - first);
}

static bool f_capitalize(struct jcall *c, struct jv *out)
{
    const struct jstr *s;
    size_t mark = c->x->tmp.len;
    if (!self_text(c, &s))
        return false;
    put_capitalized(&c->x->tmp, s->p, s->len);
    return take(c, mark, s, out);
}

static bool is_word_break(uint32_t cp)
{
    return js_is_space(cp) || (cp < 0x80 && cp && strchr("-({[<", (int)cp));
}

static bool f_title(struct jcall *c, struct jv *out)
{
    const struct jstr *s;
    size_t mark = c->x->tmp.len, used;
    if (!self_text(c, &s))
        return false;
    for (size_t i = 0; i < s->len;) {
        size_t end = i;
        while (end < s->len && !is_word_break(utf8_decode(s->p + end, s->len - end, &used)))
            end += used;
        put_capitalized(&c->x->tmp, s->p + i, end - i);
        for (i = end; i < s->len && is_word_break(utf8_decode(s->p + i, s->len - i, &used)); i += used)
            buf_put(&c->x->tmp, s->p + i, used);
    }
    return take(c, mark, NULL, out);
}

static bool f_trim(struct jcall *c, struct jv *out)
{
    const struct jstr *s, *chars;
    if (!self_text(c, &s) || !jx_arg_str(c, 0, &chars))
        return false;
    struct jv text = jv_str(s), set = chars ? jv_str(chars) : jv_none();
    struct jargs args = {.pos = &set, .n = 1};
    return jx_call_builtin(c->x, jx_method(J_STR, "strip", 5), "method", &text, &args, out);
}

static bool f_center(struct jcall *c, struct jv *out)
{
    const struct jstr *s;
    if (!self_text(c, &s))
        return false;
    struct jv text = jv_str(s), width = c->arg[0].type == J_MISSING ? jv_int(80) : c->arg[0];
    struct jargs args = {.pos = &width, .n = 1};
    return jx_call_builtin(c->x, jx_method(J_STR, "center", 6), "method", &text, &args, out);
}

static bool f_replace(struct jcall *c, struct jv *out)
{
    struct jv text, args[3] = {c->arg[0], c->arg[1], c->arg[2]};
    const struct jstr *s;
    size_t mark = c->x->tmp.len;
    if (!jx_print(c->x, &c->x->tmp, &c->self) || !jx_take(c->x, mark, &text)) /* str(): no longer marked */
        return false;
    for (int i = 0; i < 2; i++) {
        if (!jx_to_str(c->x, &args[i], &s))
            return false;
        args[i] = jv_str(s);
    }
    struct jargs a = {.pos = args, .n = jx_given(c, 2) ? 3 : 2};
    return jx_call_builtin(c->x, jx_method(J_STR, "replace", 7), "method", &text, &a, out);
}

static size_t line_end(const struct jstr *s, size_t i, size_t *next)
{
    size_t used;
    for (; i < s->len; i += used) {
        uint32_t cp = utf8_decode(s->p + i, s->len - i, &used);
        if (!js_is_line_end(cp))
            continue;
        *next = i + used + (cp == '\r' && i + 1 < s->len && s->p[i + 1] == '\n');
        return i;
    }
    *next = s->len;
    return s->len;
}

static bool indent_text(struct jcall *c, struct jstr *s, struct jv *out)
{
    struct buf *b = &c->x->tmp;
    size_t mark = b->len, next, i = 0;
    const struct jstr *by = NULL;
    int64_t width = 4;
    bool first = jx_arg_bool(c, 1, false), blank = jx_arg_bool(c, 2, false);
    if (c->arg[0].type == J_STR)
        by = c->arg[0].u.s;
    else if (!jx_arg_int(c, 0, 4, &width))
        return false;
    if (width > JX_MAX_WIDTH)
        return jx_limit(c->x, "indent is too large");
    for (bool start = true; i < s->len; start = false, i = next) {
        size_t end = line_end(s, i, &next);
        if (!start)
            buf_putc(b, '\n');
        if ((start && first) || (!start && (blank || end > i))) {
            for (int64_t k = 0; !by && k < width; k++)
                buf_putc(b, ' ');
            if (by)
                buf_put(b, by->p, by->len);
            if (!jx_spend_bytes(c->x, by ? by->len : (size_t)(width > 0 ? width : 0)))
                return false;
        }
        buf_put(b, s->p + i, end - i);
    }
    return take(c, mark, s, out);
}

static bool f_indent(struct jcall *c, struct jv *out)
{
    struct jv text;
    size_t mark = c->x->tmp.len;
    if (c->self.type == J_UNDEF)
        return jx_undef_error(c->x, &c->self);
    if (c->self.type != J_STR)
        return jx_fail(c->x, "unsupported operand type(s) for +=: '%s' and 'str'", jv_type_name(&c->self));
    buf_put(&c->x->tmp, c->self.u.s->p, c->self.u.s->len);
    buf_putc(&c->x->tmp, '\n'); /* so that a last newline keeps its empty line */
    if (!jx_take_like(c->x, mark, c->self.u.s, &text))
        return false;
    struct jstr line = *text.u.s;
    return indent_text(c, &line, out);
}

static bool f_truncate(struct jcall *c, struct jv *out)
{
    int64_t length, leeway;
    const struct jstr *end, *s;
    static const struct jstr dots = {"...", 3, 3, false};
    size_t n, mark = c->x->tmp.len;
    if (!jx_arg_int(c, 0, 255, &length) || !jx_arg_str(c, 2, &end) || !jx_arg_int(c, 3, 5, &leeway))
        return false;
    end = end ? end : &dots;
    if (length < (int64_t)end->cps || leeway < 0)
        return jx_fail(c->x, "truncate: length or leeway is too small");
    if (!jx_length(c->x, &c->self, &n))
        return false;
    if ((uint64_t)n <= (uint64_t)length + (uint64_t)leeway) {
        *out = c->self;
        return true;
    }
    if (c->self.type != J_STR)
        return jx_fail(c->x, "truncate: a string is required, not '%s'", jv_type_name(&c->self));
    s = c->self.u.s;
    if (!jx_spend_bytes(c->x, s->len))
        return false;
    size_t cut = js_offset(s, (size_t)length - end->cps);
    if (!jx_arg_bool(c, 1, false)) {
        size_t blank = js_rfind(s->p, 0, cut, " ", 1);
        cut = blank == JS_NONE ? cut : blank;
    }
    buf_put(&c->x->tmp, s->p, cut);
    buf_put(&c->x->tmp, end->p, end->len);
    return take(c, mark, s, out);
}

static bool is_word_char(uint32_t cp)
{
    return js_is_alpha(cp) || js_is_numeric(cp) || cp == '_';
}

static bool f_wordcount(struct jcall *c, struct jv *out)
{
    const struct jstr *s;
    int64_t n = 0;
    bool in_word = false;
    size_t used;
    if (!self_text(c, &s))
        return false;
    for (size_t i = 0; i < s->len; i += used) {
        bool word = is_word_char(utf8_decode(s->p + i, s->len - i, &used));
        n += word && !in_word;
        in_word = word;
    }
    *out = jv_int(n);
    return true;
}

/* ---- HTML and URLs ---- */

static bool mark_safe(struct jcall *c, size_t mark, struct jv *out)
{
    static const struct jstr marked = {"", 0, 0, true};
    return jx_take_like(c->x, mark, &marked, out);
}

static bool f_escape(struct jcall *c, struct jv *out)
{
    const struct jstr *s;
    size_t mark = c->x->tmp.len;
    if (c->self.type == J_STR && c->self.u.s->markup) {
        *out = c->self;
        return true;
    }
    if (!self_text(c, &s))
        return false;
    jx_escape(&c->x->tmp, s->p, s->len);
    return mark_safe(c, mark, out);
}

static bool f_forceescape(struct jcall *c, struct jv *out)
{
    const struct jstr *s;
    size_t mark = c->x->tmp.len;
    if (!self_text(c, &s))
        return false;
    jx_escape(&c->x->tmp, s->p, s->len);
    return mark_safe(c, mark, out);
}

static bool f_safe(struct jcall *c, struct jv *out)
{
    size_t mark = c->x->tmp.len;
    return jx_print(c->x, &c->x->tmp, &c->self) && mark_safe(c, mark, out);
}

static bool f_string(struct jcall *c, struct jv *out)
{
    const struct jstr *s;
    if (!self_text(c, &s))
        return false;
    *out = jv_str(s);
    return true;
}

static bool f_striptags(struct jcall *c, struct jv *out)
{
    const struct jstr *s;
    struct buf *b = &c->x->tmp;
    size_t mark = b->len;
    bool blank = false, ends[2] = {true, true}; /* whether ">" and "-->" may still come: else looking again would be quadratic */
    if (!self_text(c, &s))
        return false;
    for (size_t i = 0, used; i < s->len; i += used) {
        used = js_char_len(s->p + i);
        bool comment = s->len - i >= 4 && !memcmp(s->p + i, "<!--", 4);
        if (s->p[i] == '<' && ends[comment]) {
            size_t close = comment ? js_find(s->p, i + 4, s->len, "-->", 3) : js_find(s->p, i, s->len, ">", 1);
            ends[comment] = close != JS_NONE;
            if (close != JS_NONE) {
                used = close + (comment ? 3 : 1) - i;
                continue;
            }
        }
        size_t unused;
        if (js_is_space(utf8_decode(s->p + i, s->len - i, &unused))) {
            blank = true;
            continue;
        }
        if (blank && b->len > mark)
            buf_putc(b, ' ');
        blank = false;
        buf_put(b, s->p + i, used);
    }
    return take(c, mark, NULL, out);
}

static void put_quoted(struct buf *b, const struct jstr *s, bool query)
{
    static const char hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < s->len; i++) {
        unsigned char ch = (unsigned char)s->p[i];
        bool plain = (ch >= '0' && ch <= '9') || ((ch | 32) >= 'a' && (ch | 32) <= 'z') || (ch && strchr("_.-~", ch));
        if (plain || (ch == '/' && !query)) {
            buf_putc(b, (char)ch);
        } else if (ch == ' ' && query) {
            buf_putc(b, '+');
        } else {
            buf_putc(b, '%');
            buf_putc(b, hex[ch >> 4]);
            buf_putc(b, hex[ch & 15]);
        }
    }
}

static bool f_urlencode(struct jcall *c, struct jv *out)
{
    struct jx *x = c->x;
    const struct jstr *s;
    struct jiter it;
    struct jv items = c->self, pair;
    size_t mark = x->tmp.len;
    int got;
    if (c->self.type == J_STR || !jx_is_iterable(&c->self)) {
        if (!self_text(c, &s))
            return false;
        put_quoted(&x->tmp, s, false);
        return jx_take(x, mark, out);
    }
    if (items.type == J_DICT) {
        items.type = J_VIEW;
        items.sub = VIEW_ITEMS;
    }
    if (!jx_iter(x, &items, &it))
        return false;
    while ((got = jx_next(x, &it, &pair)) > 0) {
        struct jlist *l;
        if (!jx_to_list(x, &pair, &l))
            return false;
        if (l->n != 2)
            return jx_fail(x, "urlencode needs pairs");
        if (x->tmp.len > mark)
            buf_putc(&x->tmp, '&');
        for (int i = 0; i < 2; i++) {
            if (!jx_to_str(x, &l->v[i], &s))
                return false;
            put_quoted(&x->tmp, s, true);
            if (!i)
                buf_putc(&x->tmp, '=');
        }
    }
    return got == 0 && jx_take(x, mark, out);
}

static bool f_xmlattr(struct jcall *c, struct jv *out)
{
    struct jx *x = c->x;
    size_t mark = x->tmp.len;
    bool space = jx_arg_bool(c, 0, true);
    if (c->self.type != J_DICT)
        return jx_fail(x, "'%s' object has no attribute 'items'", jv_type_name(&c->self));
    for (size_t i = 0; i < c->self.u.dict->n; i++) {
        const struct jpair *p = &c->self.u.dict->items[i];
        const struct jstr *k, *v;
        if (p->value.type == J_NONE || p->value.type == J_UNDEF)
            continue;
        if (p->key.type != J_STR || !jx_to_str(x, &p->key, &k) || !jx_to_str(x, &p->value, &v))
            return x->status == INFER_OK && jx_fail(x, "expected string keys");
        for (size_t j = 0; j < k->len; j++)
            if (k->p[j] && strchr(" \t\n\r\f\v/>=", k->p[j]))
                return jx_fail(x, "Invalid character in attribute name: '%.*s'", (int)(k->len < 80 ? k->len : 80), k->p);
        if (space || x->tmp.len > mark)
            buf_putc(&x->tmp, ' ');
        jx_escape(&x->tmp, k->p, k->len);
        buf_puts(&x->tmp, "=\"");
        if (v->markup)
            buf_put(&x->tmp, v->p, v->len);
        else
            jx_escape(&x->tmp, v->p, v->len);
        buf_putc(&x->tmp, '"');
    }
    return jx_take(x, mark, out);
}

/* ---- numbers ---- */

static bool f_abs(struct jcall *c, struct jv *out)
{
    const struct jv *v = &c->self;
    if (v->type == J_UNDEF)
        return jx_undef_error(c->x, v);
    if (!jv_is_number(v))
        return jx_fail(c->x, "bad operand type for abs(): '%s'", jv_type_name(v));
    if (v->type == J_FLOAT ? v->u.d < 0 : jv_whole(v) < 0)
        return jx_negate(c->x, v, out);
    *out = v->type == J_BOOL ? jv_int(v->u.b) : v->type == J_FLOAT && v->u.d == 0 ? jv_float(0) : *v;
    return true;
}

/* Text without white space around it and without the underscores that Python allows between digits. False: too long, or
 * an underscore elsewhere. */
static bool number_text(const struct jstr *s, char *out, size_t cap, size_t *n)
{
    size_t start = js_skip_space(s->p, s->len), end = js_trim_end(s->p, s->len);
    *n = 0;
    for (size_t i = start; i < end; i++) {
        if (s->p[i] == '_') {
            if (i == start || i + 1 == end || s->p[i - 1] == '_' || (unsigned char)s->p[i - 1] < '0' || s->p[i + 1] < '0')
                return false;
            continue;
        }
        if (*n == cap)
            return false;
        out[(*n)++] = s->p[i];
    }
    return true;
}

static bool same_word(const char *p, size_t n, const char *word)
{
    if (n != strlen(word))
        return false;
    for (size_t i = 0; i < n; i++)
        if ((p[i] | 32) != word[i])
            return false;
    return true;
}

static double infinity(void)
{
    double v = 0;
    num_parse_double("1e999", 5, &v);
    return v;
}

static bool parse_float(const struct jstr *s, double *out)
{
    char text[1000];
    size_t n;
    if (!number_text(s, text, sizeof text, &n) || !n)
        return false;
    size_t sign = text[0] == '-' || text[0] == '+';
    if (same_word(text + sign, n - sign, "inf") || same_word(text + sign, n - sign, "infinity"))
        *out = text[0] == '-' ? -infinity() : infinity();
    else if (same_word(text + sign, n - sign, "nan"))
        *out = infinity() - infinity();
    else
        return num_parse_double(text, n, out);
    return true;
}

/* 1: done, 0: not an integer, -1: too large. */
static int parse_int(const struct jstr *s, int64_t base, int64_t *out)
{
    char text[1000];
    size_t n, i;
    uint64_t v = 0;
    if (!number_text(s, text, sizeof text, &n) || !n)
        return 0;
    bool minus = text[0] == '-';
    i = minus || text[0] == '+';
    if (n - i > 2 && text[i] == '0') {
        char kind = (char)(text[i + 1] | 32);
        int64_t b = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
        if (b && (base == b || base == 0)) {
            base = b;
            i += 2;
        }
    }
    base = base ? base : 10;
    if (i == n)
        return 0;
    for (; i < n; i++) {
        int d = text[i] >= '0' && text[i] <= '9' ? text[i] - '0' : (text[i] | 32) >= 'a' && (text[i] | 32) <= 'z' ? (text[i] | 32) - 'a' + 10 : 99;
        if (d >= base)
            return 0;
        if (v > ((uint64_t)INT64_MAX + minus - (uint64_t)d) / (uint64_t)base)
            return -1;
        v = v * (uint64_t)base + (uint64_t)d;
    }
    *out = minus ? (int64_t)(0 - v) : (int64_t)v;
    return 1;
}

static bool whole_of_double(struct jx *x, double d, struct jv *out)
{
    if (!(d >= -9223372036854775808.0 && d < 9223372036854775808.0))
        return jx_limit(x, "integer result beyond 64 bits");
    *out = jv_int((int64_t)d);
    return true;
}

/* Long decimals are slow to read. */
static bool spend_number(struct jcall *c)
{
    return c->self.type != J_STR || (jx_spend(c->x, 16) && jx_spend_bytes(c->x, c->self.u.s->len));
}

static bool f_int(struct jcall *c, struct jv *out)
{
    int64_t base, v;
    double d;
    if (!jx_arg_int(c, 1, 10, &base) || !spend_number(c))
        return false;
    *out = c->arg[0].type == J_MISSING ? jv_int(0) : c->arg[0];
    switch (c->self.type) {
    case J_UNDEF:
        return jx_undef_error(c->x, &c->self);
    case J_BOOL:
    case J_INT:
        *out = jv_int(jv_whole(&c->self));
        return true;
    case J_BIG:
        *out = c->self;
        return true;
    case J_FLOAT:
        if (c->self.u.d != c->self.u.d)
            return true;
        if (!num_is_finite(c->self.u.d))
            return jx_fail(c->x, "cannot convert float infinity to integer");
        return whole_of_double(c->x, c->self.u.d, out);
    case J_STR:
        if (base != 0 && (base < 2 || base > 36))
            return true;
        switch (parse_int(c->self.u.s, base, &v)) {
        case 1:
            *out = jv_int(v);
            return true;
        case -1:
            return jx_limit(c->x, "integer result beyond 64 bits");
        default:
            if (!parse_float(c->self.u.s, &d) || !num_is_finite(d))
                return true;
            return whole_of_double(c->x, d, out);
        }
    default:
        return true;
    }
}

static bool f_float(struct jcall *c, struct jv *out)
{
    double d;
    *out = c->arg[0].type == J_MISSING ? jv_float(0) : c->arg[0];
    if (c->self.type == J_UNDEF)
        return jx_undef_error(c->x, &c->self);
    if (!spend_number(c))
        return false;
    if (jv_is_number(&c->self))
        *out = jv_float(jv_double(&c->self));
    else if ((c->self.type == J_STR && parse_float(c->self.u.s, &d)) ||
             (c->self.type == J_BIG && num_parse_double(c->self.u.s->p, c->self.u.s->len, &d)))
        *out = jv_float(d);
    return true;
}

static double pow10_of(int64_t n)
{
    char text[NUM_REPR_MAX + 2] = "1e";
    double v = 0;
    size_t len = num_format_i64(n, text + 2);
    num_parse_double(text, len + 2, &v);
    return v;
}

static bool round_int(struct jx *x, int64_t v, int64_t precision, struct jv *out)
{
    int64_t unit = 1;
    *out = jv_int(v);
    if (precision >= 0)
        return true;
    if (precision < -18) {
        *out = jv_int(0);
        return true;
    }
    for (; precision < 0; precision++)
        unit *= 10;
    int64_t rest = v % unit, down = v - rest;
    if (rest < 0) {
        if (down < INT64_MIN + unit)
            return jx_limit(x, "integer result beyond 64 bits");
        rest += unit;
        down -= unit;
    }
    bool up = rest > unit - rest || (rest == unit - rest && (down / unit) % 2 != 0);
    if (up && down > INT64_MAX - unit)
        return jx_limit(x, "integer result beyond 64 bits");
    *out = jv_int(up ? down + unit : down);
    return true;
}

static double round_double(double v, int64_t precision)
{
    char text[NUM_FIXED_MAX];
    double r = v;
    if (!num_is_finite(v) || precision > 400)
        return v;
    if (precision >= 0) {
        num_parse_double(text, num_fixed(v, (int)precision, text), &r);
        return r;
    }
    if (precision < -308)
        return v < 0 ? -0.0 : 0.0;
    double unit = pow10_of(-precision), q = v / unit, f = num_floor(q);
    f += q - f > 0.5 || (q - f == 0.5 && num_fmod(f, 2) != 0);
    return f == 0 && v < 0 ? -0.0 : f * unit;
}

static bool f_round(struct jcall *c, struct jv *out)
{
    int64_t precision;
    const struct jstr *method;
    const struct jv *v = &c->self;
    if (!jx_arg_int(c, 0, 0, &precision) || !jx_arg_str(c, 1, &method))
        return false;
    bool common = !method || js_is(method, "common");
    if (!common && !js_is(method, "ceil") && !js_is(method, "floor"))
        return jx_fail(c->x, "method must be common, ceil or floor");
    if (v->type == J_UNDEF)
        return jx_undef_error(c->x, v);
    if (!jv_is_number(v))
        return jx_fail(c->x, "type %s doesn't define __round__ method", jv_type_name(v));
    if (common) {
        if (jv_is_whole(v))
            return round_int(c->x, jv_whole(v), precision, out);
        *out = jv_float(round_double(v->u.d, precision));
        return jx_spend(c->x, 16 + (precision > 0 ? (uint64_t)(precision < 400 ? precision : 400) : 0));
    }
    double unit = pow10_of(precision), scaled = jv_double(v) * unit, f = num_floor(scaled);
    if (!num_is_finite(scaled))
        return jx_fail(c->x, "cannot convert float infinity or NaN to integer");
    if (js_is(method, "ceil") && f < scaled)
        f += 1;
    *out = jv_float((f == 0 ? 0.0 : f) / unit);
    return true;
}

static bool f_filesizeformat(struct jcall *c, struct jv *out)
{
    static const char units[] = "kMGTPEZY";
    bool binary = jx_arg_bool(c, 0, false);
    double base = binary ? 1024 : 1000, unit = base, bytes;
    char text[NUM_FIXED_MAX];
    size_t mark = c->x->tmp.len, i = 0;
    if (jv_is_number(&c->self))
        bytes = jv_double(&c->self);
    else if (c->self.type != J_STR || !parse_float(c->self.u.s, &bytes))
        return jx_fail(c->x, "could not convert to float");
    if (bytes == 1)
        return jx_put_cstr(c->x, "1 Byte", out);
    if (bytes < base) {
        buf_put(&c->x->tmp, text, num_format_i64((int64_t)bytes, text));
        buf_puts(&c->x->tmp, " Bytes");
        return jx_take(c->x, mark, out);
    }
    for (unit = base * base; bytes >= unit && i < 7; i++)
        unit *= base;
    buf_put(&c->x->tmp, text, num_fixed(base * bytes / unit, 1, text));
    buf_putc(&c->x->tmp, ' ');
    buf_putc(&c->x->tmp, binary && i == 0 ? 'K' : units[i]);
    buf_puts(&c->x->tmp, binary ? "iB" : "B");
    return jx_take(c->x, mark, out);
}

/* ---- other ---- */

static bool f_default(struct jcall *c, struct jv *out)
{
    bool use = c->self.type == J_UNDEF || (jx_arg_bool(c, 1, false) && !jx_truth(&c->self));
    if (use && c->arg[0].type == J_MISSING)
        return jx_put_str(c->x, "", 0, out);
    *out = use ? c->arg[0] : c->self;
    return true;
}

static bool f_attr(struct jcall *c, struct jv *out)
{
    const struct jstr *name;
    if (!jx_arg_str(c, 0, &name) || !name)
        return c->x->status == INFER_OK && jx_fail(c->x, "attribute name must be string");
    if (c->self.type == J_DICT && !jx_method(J_DICT, name->p, name->len)) { /* no fallback to items */
        *out = jv_undef(UNDEF_ATTR, J_DICT, name);
        return true;
    }
    return jx_getattr(c->x, &c->self, name, out);
}

static bool f_format(struct jcall *c, struct jv *out)
{
    const struct jstr *s;
    if (!self_text(c, &s))
        return false;
    if (c->raw->n && c->raw->n_kw)
        return jx_fail(c->x, "can't handle positional and keyword arguments at the same time");
    if (!c->raw->n_kw)
        return jx_percent(c->x, s, c->raw, NULL, out);
    struct jdict *d = jx_dict(c->x, c->raw->n_kw);
    for (size_t i = 0; d && i < c->raw->n_kw; i++)
        if (!jx_dict_set(c->x, d, jv_str(c->raw->kw[i].name), c->raw->kw[i].value))
            return false;
    struct jv map = jv_dict(d);
    struct jargs args = {.pos = &map, .n = 1};
    return d && jx_percent(c->x, s, &args, &map, out);
}

/* json.dumps with Hugging Face's parameters: ensure_ascii, indent, separators, sort_keys. */
static bool f_tojson(struct jcall *c, struct jv *out)
{
    static const struct jstr comma = {", ", 2, 2, false}, colon = {": ", 2, 2, false}, bare = {",", 1, 1, false};
    struct json_style style = {.ascii = jx_arg_bool(c, 0, false), .sort_keys = jx_arg_bool(c, 3, false), .key_sep = &colon};
    struct jx *x = c->x;
    size_t mark = x->tmp.len;
    int64_t width;
    struct jv blanks;
    if (c->arg[1].type == J_STR) {
        style.indent = c->arg[1].u.s;
    } else if (jx_given(c, 1)) {
        if (!jx_arg_int(c, 1, 0, &width))
            return false;
        if (width > JX_MAX_WIDTH)
            return jx_limit(x, "indent is too large");
        for (int64_t i = 0; i < width; i++)
            buf_putc(&x->tmp, ' ');
        if (!jx_take(x, mark, &blanks))
            return false;
        style.indent = blanks.u.s;
    }
    style.item_sep = style.indent ? &bare : &comma;
    if (jx_given(c, 2)) {
        struct jlist *l = NULL;
        if (c->arg[2].type == J_LIST || c->arg[2].type == J_TUPLE)
            l = c->arg[2].u.list;
        if (!l || l->n != 2 || l->v[0].type != J_STR || l->v[1].type != J_STR)
            return jx_fail(x, "separators must be two strings");
        style.item_sep = l->v[0].u.s;
        style.key_sep = l->v[1].u.s;
    }
    return jx_json(x, &x->tmp, &c->self, &style) && jx_take(x, mark, out);
}

const struct jbuiltin jx_filters_text[] = {
    {"abs", f_abs, "", 0},
    {"attr", f_attr, "name", 1},
    {"capitalize", f_capitalize, "", 0},
    {"center", f_center, "width", 0},
    {"d", f_default, "default_value boolean", 0},
    {"default", f_default, "default_value boolean", 0},
    {"e", f_escape, "", 0},
    {"escape", f_escape, "", 0},
    {"filesizeformat", f_filesizeformat, "binary", 0},
    {"float", f_float, "default", 0},
    {"forceescape", f_forceescape, "", 0},
    {"format", f_format, NULL, 0},
    {"indent", f_indent, "width first blank", 0},
    {"int", f_int, "default base", 0},
    {"lower", f_lower, "", 0},
    {"replace", f_replace, "old new count", 2},
    {"round", f_round, "precision method", 0},
    {"safe", f_safe, "", 0},
    {"string", f_string, "", 0},
    {"striptags", f_striptags, "", 0},
    {"title", f_title, "", 0},
    {"tojson", f_tojson, "ensure_ascii indent separators sort_keys", 0},
    {"trim", f_trim, "chars", 0},
    {"truncate", f_truncate, "length killwords end leeway", 0},
    {"upper", f_upper, "", 0},
    {"urlencode", f_urlencode, "", 0},
    {"wordcount", f_wordcount, "", 0},
    {"xmlattr", f_xmlattr, "autospace", 0},
    {NULL, NULL, NULL, 0},
};

const struct jbuiltin *jx_filter(const char *name, size_t len)
{
    const struct jbuiltin *f = jx_find(jx_filters_text, name, len);
    return f ? f : jx_find(jx_filters_seq, name, len);
}
