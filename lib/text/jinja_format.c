/* "..." % values and "...".format(...). */
#include <string.h>

#include "base/num.h"
#include "base/utf8.h"
#include "text/jinja_run.h"
#include "text/jinja_str.h"

/* What stands between % or : and the conversion letter. */
struct spec {
    char fill[4];
    size_t fill_len;
    char align; /* < > = ^ or 0 */
    char sign;  /* + - blank or 0 */
    bool alt, zero;
    int64_t width, prec; /* -1: none */
    char group;          /* , _ or 0 */
    char type;
};

static void put_fill(struct buf *b, const struct spec *s, int64_t n)
{
    for (; n > 0; n--)
        buf_put(b, s->fill_len ? s->fill : " ", s->fill_len ? s->fill_len : 1);
}

/* body (with `sign_len` bytes of sign and prefix before its digits), padded to the width. */
static bool put_padded(struct jx *x, const struct spec *s, const char *body, size_t len, size_t sign_len, char align)
{
    int64_t pad = s->width - (int64_t)js_count(body, len);
    struct buf *b = &x->tmp;
    if (s->width > JX_MAX_WIDTH)
        return jx_limit(x, "format width is too large");
    if (!jx_spend_bytes(x, len + (pad > 0 ? (size_t)pad : 0)))
        return false;
    if (s->align)
        align = s->align;
    int64_t left = pad <= 0 || align == '<' || align == '=' ? 0 : align == '^' ? pad / 2 : pad;
    put_fill(b, s, left);
    buf_put(b, body, sign_len);
    if (align == '=')
        put_fill(b, s, pad);
    buf_put(b, body + sign_len, len - sign_len);
    if (pad > 0 && align != '=')
        put_fill(b, s, pad - left);
    return true;
}

static size_t put_sign(char *out, bool negative, char sign)
{
    if (negative)
        out[0] = '-';
    else if (sign == '+' || sign == ' ')
        out[0] = sign;
    return negative || sign == '+' || sign == ' ';
}

/* Digits of u in a base, most significant first. */
static size_t digits_of(uint64_t u, unsigned base, bool upper, char *out)
{
    char tmp[64];
    size_t n = 0;
    do
        tmp[n++] = (upper ? "0123456789ABCDEF" : "0123456789abcdef")[u % base];
    while (u /= base);
    for (size_t i = 0; i < n; i++)
        out[i] = tmp[n - 1 - i];
    return n;
}

static size_t grouped(const char *digits, size_t n, size_t whole, char group, size_t every, char *out)
{
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        if (i && i < whole && (whole - i) % every == 0)
            out[len++] = group;
        out[len++] = digits[i];
    }
    return len;
}

static bool format_int(struct jx *x, const struct spec *s, int64_t v, bool percent_style)
{
    char body[256], digits[128], type = s->type ? s->type : 'd';
    uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    unsigned base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
    size_t len = put_sign(body, v < 0, s->sign), n = digits_of(u, base, type == 'X', digits);
    if (s->alt && base != 10) {
        body[len++] = '0';
        body[len++] = type;
    }
    size_t head = len;
    if (percent_style && s->prec > 0)
        for (int64_t i = (int64_t)n; i < s->prec && i < 100; i++)
            body[len++] = '0';
    if (s->group) {
        len += grouped(digits, n, n, s->group, base == 10 ? 3 : 4, body + len);
    } else {
        memcpy(body + len, digits, n);
        len += n;
    }
    return put_padded(x, s, body, len, head, '>');
}

static bool format_float(struct jx *x, const struct spec *s, double v)
{
    char *text = jx_alloc(x, 3 * NUM_FIXED_MAX), *body;
    char type = s->type ? s->type : 'g';
    int prec = s->prec < 0 ? 6 : s->prec > NUM_PREC_MAX ? NUM_PREC_MAX : (int)s->prec;
    size_t n, len;
    if (!text || !jx_spend(x, 16 + (uint64_t)prec)) /* digits are slow to make */
        return false;
    body = text + NUM_FIXED_MAX;
    if (s->prec > NUM_PREC_MAX)
        return jx_limit(x, "format precision is too large");
    if (type == '%')
        v *= 100;
    bool negative = v < 0 || (v == 0 && 1 / v < 0);
    double a = negative ? -v : v;
    if (!s->type && s->prec < 0)
        n = num_repr(a, text);
    else if (type == 'f' || type == 'F' || type == '%')
        n = num_fixed(a, prec, text);
    else if (type == 'e' || type == 'E')
        n = num_exp(a, prec, text);
    else
        n = num_general(a, prec, s->alt, text);
    if (!s->type && s->prec >= 0 && !memchr(text, '.', n) && !memchr(text, 'e', n) && num_is_finite(a)) {
        text[n++] = '.'; /* format(5.0, ".3") is 5.0 */
        text[n++] = '0';
    }
    len = put_sign(body, negative, s->sign);
    size_t head = len, whole = 0;
    while (whole < n && text[whole] >= '0' && text[whole] <= '9')
        whole++;
    len += s->group ? grouped(text, n, whole, s->group, 3, body + len) : (memcpy(body + len, text, n), n);
    if (type == '%')
        body[len++] = '%';
    for (size_t i = 0; (type == 'E' || type == 'F' || type == 'G') && i < len; i++)
        if (body[i] >= 'a' && body[i] <= 'z')
            body[i] = (char)(body[i] - 32);
    return put_padded(x, s, body, len, head, '>');
}

static bool format_text(struct jx *x, const struct spec *s, const struct jstr *t)
{
    size_t len = t->len;
    if (s->prec >= 0 && (uint64_t)s->prec < t->cps)
        len = js_offset(t, (size_t)s->prec);
    return put_padded(x, s, t->p, len, 0, '<');
}

static bool scan_number(const struct jstr *f, size_t *i, int64_t *out)
{
    bool any = false;
    for (*out = 0; *i < f->len && f->p[*i] >= '0' && f->p[*i] <= '9'; ++*i, any = true)
        if (*out < 100000000)
            *out = *out * 10 + (f->p[*i] - '0');
    return any;
}

/* ---- "..." % values ---- */

struct percent {
    struct jx *x;
    const struct jargs *args;
    const struct jv *mapping; /* the single value, when it may be a mapping */
    size_t used;
    bool by_name;
};

static bool take_arg(struct percent *p, struct jv *out)
{
    if (p->used >= p->args->n)
        return jx_fail(p->x, "not enough arguments for format string");
    *out = p->args->pos[p->used++];
    return true;
}

/* (name) after the percent sign. */
static bool named_arg(struct percent *p, const struct jstr *f, size_t *i, struct jv *out)
{
    size_t start = ++*i, depth = 1;
    for (; *i < f->len && depth; ++*i)
        depth += (f->p[*i] == '(') - (f->p[*i] == ')');
    if (depth)
        return jx_fail(p->x, "incomplete format key");
    if (!p->mapping || p->mapping->type != J_DICT)
        return jx_fail(p->x, "format requires a mapping");
    struct jv key;
    if (!jx_put_str(p->x, f->p + start, *i - 1 - start, &key))
        return false;
    p->by_name = true;
    int found = jx_dict_find(p->x, p->mapping->u.dict, &key, out);
    return found > 0 || (found == 0 && jx_fail(p->x, "key not found: %s", jx_brief(p->x, &key)));
}

static bool scan_percent_spec(struct percent *p, const struct jstr *f, size_t *i, struct spec *s)
{
    struct jv v = {.type = J_MISSING};
    const char *hit;
    for (; *i < f->len && (hit = f->p[*i] ? strchr("-+ #0", f->p[*i]) : NULL) != NULL; ++*i) {
        if (*hit == '-')
            s->align = '<';
        else if (*hit == '+' || (*hit == ' ' && s->sign != '+'))
            s->sign = *hit;
        s->alt |= *hit == '#';
        s->zero |= *hit == '0';
    }
    for (int part = 0; part < 2; part++) { /* width, then .precision */
        int64_t *out = part ? &s->prec : &s->width;
        if (part && !(*i < f->len && f->p[*i] == '.'))
            break;
        *i += (size_t)part;
        if (*i < f->len && f->p[*i] == '*') {
            ++*i;
            if (!take_arg(p, &v))
                return false;
            if (!jv_is_whole(&v))
                return jx_fail(p->x, "* wants int");
            *out = jv_whole(&v);
            if (!part && *out < 0) {
                s->align = '<';
                *out = *out == INT64_MIN ? INT64_MAX : -*out;
            }
            if (part && *out < 0)
                *out = 0;
        } else {
            scan_number(f, i, out);
        }
    }
    while (*i < f->len && f->p[*i] && strchr("hlL", f->p[*i]))
        ++*i;
    if (*i >= f->len)
        return jx_fail(p->x, "incomplete format");
    s->type = f->p[(*i)++];
    return true;
}

static bool to_whole(struct jx *x, const struct jv *v, char type, int64_t *out)
{
    if (jv_is_whole(v)) {
        *out = jv_whole(v);
        return true;
    }
    if (v->type == J_FLOAT && type != 'x' && type != 'X' && type != 'o') {
        if (!(v->u.d > -9.2e18 && v->u.d < 9.2e18))
            return jx_limit(x, "integer result beyond 64 bits");
        *out = (int64_t)v->u.d;
        return true;
    }
    if (v->type == J_UNDEF)
        return jx_undef_error(x, v);
    return jx_fail(x, "%%%c format: a number is required, not %s", type, jv_type_name(v));
}

static bool percent_char(struct jx *x, const struct spec *s, const struct jv *v)
{
    char u[4];
    if (v->type == J_STR && v->u.s->cps == 1)
        return put_padded(x, s, v->u.s->p, v->u.s->len, 0, '>');
    if (!jv_is_whole(v) || jv_whole(v) < 0 || jv_whole(v) > 0x10FFFF || (jv_whole(v) >= 0xD800 && jv_whole(v) < 0xE000))
        return jx_fail(x, "%%c requires int or char");
    return put_padded(x, s, u, utf8_encode((uint32_t)jv_whole(v), u), 0, '>');
}

static bool percent_value(struct jx *x, struct spec *s, const struct jstr *f, const struct jv *v)
{
    const struct jstr *t;
    struct jv text;
    size_t mark = x->tmp.len;
    int64_t whole = 0;
    if (s->zero && !s->align && s->type != 's' && s->type != 'r' && s->type != 'a' && s->type != 'c') {
        s->align = '=';
        s->fill[0] = '0';
        s->fill_len = 1;
    }
    switch (s->type) {
    case 's':
        if (!jx_to_str(x, v, &t))
            return false;
        if (f->markup && !t->markup) {
            jx_escape(&x->tmp, t->p, t->len);
            if (!jx_take(x, mark, &text))
                return false;
            t = text.u.s;
        }
        break;
    case 'r':
    case 'a':
        if (!jx_repr(x, &x->tmp, v) || !jx_take(x, mark, &text))
            return false;
        t = text.u.s;
        break;
    case 'c':
        return percent_char(x, s, v);
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
        if (s->type == 'i' || s->type == 'u')
            s->type = 'd';
        return to_whole(x, v, s->type, &whole) && format_int(x, s, whole, true);
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
        if (v->type == J_UNDEF)
            return jx_undef_error(x, v);
        return jv_is_number(v) ? format_float(x, s, jv_double(v)) : jx_fail(x, "must be real number, not %s", jv_type_name(v));
    default:
        return jx_fail(x, "unsupported format character '%c'", s->type >= 32 && s->type < 127 ? s->type : '?');
    }
    /* %5s pads on the left */
    if (s->prec >= 0 && (uint64_t)s->prec < t->cps)
        return put_padded(x, s, t->p, js_offset(t, (size_t)s->prec), 0, '>');
    return put_padded(x, s, t->p, t->len, 0, '>');
}

bool jx_percent(struct jx *x, const struct jstr *f, const struct jargs *args, const struct jv *mapping, struct jv *out)
{
    struct percent p = {.x = x, .args = args, .mapping = mapping};
    size_t mark = x->tmp.len;
    for (size_t i = 0; i < f->len;) {
        struct spec s = {.width = -1, .prec = -1};
        struct jv v;
        size_t plain = js_find(f->p, i, f->len, "%", 1);
        size_t end = plain == JS_NONE ? f->len : plain, from = i;
        buf_put(&x->tmp, f->p + i, end - i);
        i = end + 1;
        if (!jx_spend_bytes(x, end - from))
            return false;
        if (end == f->len)
            break;
        bool named = i < f->len && f->p[i] == '(';
        if ((named && !named_arg(&p, f, &i, &v)) || !scan_percent_spec(&p, f, &i, &s))
            return false;
        if (s.type == '%') {
            buf_putc(&x->tmp, '%');
            continue;
        }
        if ((!named && !take_arg(&p, &v)) || !percent_value(x, &s, f, &v))
            return false;
    }
    bool is_map = mapping && (mapping->type == J_DICT || mapping->type == J_LIST || mapping->type == J_RANGE ||
                              mapping->type == J_UNDEF); /* what Python can subscript, strings and tuples apart */
    if (p.used < args->n && !p.by_name && !is_map)
        return jx_fail(x, "not all arguments converted during string formatting");
    return jx_take_like(x, mark, f, out);
}

/* ---- "...".format(...) ---- */

static bool parse_spec(struct jx *x, const struct jstr *f, struct spec *s)
{
    size_t i = 0;
    *s = (struct spec){.width = -1, .prec = -1};
    if (f->len) {
        size_t n = js_char_len(f->p);
        if (n < f->len && strchr("<>=^", f->p[n]) && f->p[n]) {
            memcpy(s->fill, f->p, n);
            s->fill_len = n;
            s->align = f->p[n];
            i = n + 1;
        } else if (f->p[0] && strchr("<>=^", f->p[0])) {
            s->align = f->p[0];
            i = 1;
        }
    }
    if (i < f->len && (f->p[i] == '+' || f->p[i] == '-' || f->p[i] == ' '))
        s->sign = f->p[i++];
    if (i < f->len && f->p[i] == '#')
        s->alt = f->p[i++] == '#';
    if (i < f->len && f->p[i] == '0') {
        i++;
        if (!s->align)
            s->align = '=';
        if (!s->fill_len) {
            s->fill[0] = '0';
            s->fill_len = 1;
        }
    }
    if (i < f->len && f->p[i] >= '0' && f->p[i] <= '9')
        scan_number(f, &i, &s->width);
    if (i < f->len && (f->p[i] == ',' || f->p[i] == '_'))
        s->group = f->p[i++];
    if (i < f->len && f->p[i] == '.') {
        i++;
        if (!scan_number(f, &i, &s->prec))
            return jx_fail(x, "Format specifier missing precision");
    }
    if (i < f->len)
        s->type = f->p[i++];
    return i == f->len || jx_fail(x, "Invalid format specifier");
}

static bool format_value(struct jx *x, const struct jv *v, const struct jstr *spec_text)
{
    struct spec s;
    if (!spec_text->len)
        return jx_print(x, &x->tmp, v);
    if (!parse_spec(x, spec_text, &s))
        return false;
    if (s.group && s.type == 'n')
        return jx_fail(x, "Cannot specify '%c' with 'n'.", s.group);
    bool is_float_type = s.type && strchr("eEfFgG%", s.type);
    if (v->type == J_STR && (!s.type || s.type == 's') && !s.sign && s.align != '=' && !s.group)
        return format_text(x, &s, v->u.s);
    if (jv_is_whole(v)) {
        if (is_float_type)
            return format_float(x, &s, jv_double(v));
        if (s.type == 'c') {
            s.type = 0;
            return percent_char(x, &s, v);
        }
        if ((!s.type || strchr("dxXobn", s.type)) && s.prec < 0)
            return format_int(x, &s, jv_whole(v), false);
        return s.prec >= 0 ? jx_fail(x, "Precision not allowed in integer format specifier")
                           : jx_fail(x, "Unknown format code '%c' for object of type 'int'", s.type);
    }
    if (v->type == J_FLOAT && (!s.type || is_float_type || s.type == 'n'))
        return format_float(x, &s, v->u.d);
    if (v->type == J_STR || v->type == J_FLOAT)
        return jx_fail(x, "Invalid format specifier for object of type '%s'", jv_type_name(v));
    return jx_fail(x, "unsupported format string passed to %s.__format__", jv_type_name(v));
}

struct format {
    struct jx *x;
    const struct jargs *args;
    int64_t next; /* automatic numbering; -1: the fields carry numbers */
};

static bool first_value(struct format *f, const char *p, size_t n, struct jv *out)
{
    int64_t i;
    bool automatic = n == 0;
    if (automatic || num_parse_i64(p, n, &i)) {
        if (automatic ? f->next < 0 : f->next > 0)
            return jx_fail(f->x, "cannot switch between manual and automatic field numbering");
        if (automatic)
            i = f->next++;
        else
            f->next = -1;
        if (i < 0 || (uint64_t)i >= f->args->n)
            return jx_fail(f->x, "Replacement index %d out of range for positional args tuple", (int)(i < 100000 ? i : 100000));
        *out = f->args->pos[i];
        return true;
    }
    for (size_t k = 0; k < f->args->n_kw; k++)
        if (f->args->kw[k].name->len == n && !memcmp(f->args->kw[k].name->p, p, n)) {
            *out = f->args->kw[k].value;
            return true;
        }
    return jx_fail(f->x, "key not found: '%.*s'", (int)(n < 80 ? n : 80), p);
}

/* name.attr[key]... */
static bool field_value(struct format *f, const char *p, size_t n, struct jv *out)
{
    size_t i = 0;
    struct jv key;
    while (i < n && p[i] != '.' && p[i] != '[')
        i++;
    if (!first_value(f, p, i, out))
        return false;
    while (i < n) {
        bool attr = p[i] == '.';
        size_t start = i + 1, end = start;
        while (end < n && (attr ? p[end] != '.' && p[end] != '[' : p[end] != ']'))
            end++;
        int64_t index;
        if (start == end || (!attr && end == n) || (!attr && p[i] != '['))
            return jx_fail(f->x, "Empty or malformed attribute in format string");
        struct jv obj = *out;
        if (!jx_put_str(f->x, p + start, end - start, &key))
            return false;
        if (!attr && num_parse_i64(p + start, end - start, &index) && p[start] >= '0' && p[start] <= '9')
            key = jv_int(index);
        if (attr ? !jx_getattr(f->x, &obj, key.u.s, out) : !jx_getitem(f->x, &obj, &key, out))
            return false;
        i = attr ? end : end + 1;
    }
    return true;
}

static bool expand(struct format *f, const struct jstr *t, int depth);

/* One {...}: p[0..n) is what stands between the braces. */
static bool replace_field(struct format *f, const struct jstr *t, const char *p, size_t n, int depth)
{
    struct jx *x = f->x;
    struct jv v, text, spec;
    size_t name = 0, mark;
    int bracket = 0;
    char conv = 0;
    while (name < n && (bracket || (p[name] != '!' && p[name] != ':'))) {
        bracket += (p[name] == '[') - (p[name] == ']' && bracket);
        name++;
    }
    size_t i = name;
    if (i < n && p[i] == '!') {
        if (i + 1 >= n || (i + 2 < n && p[i + 2] != ':'))
            return jx_fail(x, "malformed conversion in format string");
        conv = p[i + 1];
        i += 2;
    }
    if (!field_value(f, p, name, &v))
        return false;
    mark = x->tmp.len;
    const struct jstr *raw = jx_str_ref(x, p + i + (i < n), n - i - (i < n));
    if (!raw || !expand(f, raw, depth - 1) || !jx_take(x, mark, &spec))
        return false;
    if (conv) {
        if (conv != 's' && conv != 'r' && conv != 'a')
            return jx_fail(x, "Unknown conversion specifier '%c'", conv >= 32 && conv < 127 ? conv : '?');
        if (!(conv == 's' ? jx_print(x, &x->tmp, &v) : jx_repr(x, &x->tmp, &v)) || !jx_take(x, mark, &v))
            return false;
    }
    if (!format_value(x, &v, spec.u.s))
        return false;
    if (t->markup && !(v.type == J_STR && v.u.s->markup)) {
        if (!jx_take(x, mark, &text))
            return false;
        jx_escape(&x->tmp, text.u.s->p, text.u.s->len);
    }
    return true;
}

static bool expand(struct format *f, const struct jstr *t, int depth)
{
    struct buf *b = &f->x->tmp;
    if (!jx_spend_bytes(f->x, t->len))
        return false;
    for (size_t i = 0; i < t->len; i++) {
        char c = t->p[i];
        if (c != '{' && c != '}') {
            buf_putc(b, c);
            continue;
        }
        if (i + 1 < t->len && t->p[i + 1] == c) {
            buf_putc(b, c);
            i++;
            continue;
        }
        if (c == '}')
            return jx_fail(f->x, "Single '}' encountered in format string");
        size_t end = i + 1;
        for (int open = 1; end < t->len; end++) {
            open += (t->p[end] == '{') - (t->p[end] == '}');
            if (!open)
                break;
        }
        if (end >= t->len)
            return jx_fail(f->x, "expected '}' before end of string");
        if (depth <= 0)
            return jx_fail(f->x, "Max string recursion exceeded");
        if (!replace_field(f, t, t->p + i + 1, end - i - 1, depth))
            return false;
        i = end;
    }
    return true;
}

bool jx_format(struct jx *x, const struct jstr *fmt, const struct jargs *args, struct jv *out)
{
    struct format f = {x, args, 0};
    size_t mark = x->tmp.len;
    return expand(&f, fmt, 2) && jx_take_like(x, mark, fmt, out);
}
