/* str(), repr() and json.dumps() as Python prints them. */
#include <string.h>

#include "base/num.h"
#include "base/utf8.h"
#include "text/jinja_run.h"
#include "text/jinja_str.h"

static bool room(struct jx *x, struct buf *b)
{
    return buf_ok(b) || jx_buf_failed(x, b);
}

static void put_hex(struct buf *b, const char *prefix, uint32_t cp, int digits)
{
    static const char hex[] = "0123456789abcdef";
    buf_puts(b, prefix);
    for (int shift = (digits - 1) * 4; shift >= 0; shift -= 4)
        buf_putc(b, hex[cp >> shift & 15]);
}

static void repr_char(struct buf *b, uint32_t cp, const char *p, size_t n, char quote)
{
    if (cp == (uint32_t)quote || cp == '\\') {
        buf_putc(b, '\\');
        buf_putc(b, (char)cp);
    } else if (cp == '\n' || cp == '\r' || cp == '\t') {
        buf_puts(b, cp == '\n' ? "\\n" : cp == '\r' ? "\\r" : "\\t");
    } else if (js_is_printable(cp)) {
        buf_put(b, p, n);
    } else if (cp < 0x100) {
        put_hex(b, "\\x", cp, 2);
    } else if (cp < 0x10000) {
        put_hex(b, "\\u", cp, 4);
    } else {
        put_hex(b, "\\U", cp, 8);
    }
}

static void repr_string(struct buf *b, const struct jstr *s)
{
    bool single = memchr(s->p, '\'', s->len), twice = memchr(s->p, '"', s->len);
    char quote = single && !twice ? '"' : '\'';
    size_t used;
    if (s->markup)
        buf_puts(b, "Markup(");
    buf_putc(b, quote);
    for (size_t i = 0; i < s->len; i += used) {
        uint32_t cp = utf8_decode(s->p + i, s->len - i, &used);
        repr_char(b, cp, s->p + i, used, quote);
    }
    buf_putc(b, quote);
    if (s->markup)
        buf_putc(b, ')');
}

static bool repr_items(struct jx *x, struct buf *b, const struct jv *v, size_t n, const char *open, const char *close)
{
    struct jiter it = {.src = *v};
    struct jv item;
    int got;
    buf_puts(b, open);
    for (size_t i = 0; (got = jx_next(x, &it, &item)) > 0; i++) {
        if (i)
            buf_puts(b, ", ");
        if (!jx_repr(x, b, &item))
            return false;
    }
    if (v->type == J_TUPLE && n == 1)
        buf_putc(b, ',');
    buf_puts(b, close);
    return got == 0;
}

static bool repr_dict(struct jx *x, struct buf *b, const struct jdict *d)
{
    buf_putc(b, '{');
    for (size_t i = 0; i < d->n; i++) {
        if (i)
            buf_puts(b, ", ");
        if (!jx_spend(x, 1) || !jx_repr(x, b, &d->items[i].key))
            return false;
        buf_puts(b, ": ");
        if (!jx_repr(x, b, &d->items[i].value))
            return false;
    }
    buf_putc(b, '}');
    return true;
}

static void put_int(struct buf *b, int64_t v)
{
    char text[NUM_REPR_MAX];
    buf_put(b, text, num_format_i64(v, text));
}

static void repr_range(struct buf *b, const struct jrange *r)
{
    buf_puts(b, "range(");
    put_int(b, r->start);
    buf_puts(b, ", ");
    put_int(b, r->stop);
    if (r->step != 1) {
        buf_puts(b, ", ");
        put_int(b, r->step);
    }
    buf_putc(b, ')');
}

/* Things that Python shows with an address: here without. */
static void repr_object(struct buf *b, const struct jv *v)
{
    buf_putc(b, '<');
    buf_puts(b, jv_type_name(v));
    if (v->type == J_MACRO) {
        const struct jstr *name = v->u.macro->node->name;
        if (name) {
            buf_puts(b, " '");
            buf_put(b, name->p, name->len);
            buf_putc(b, '\'');
        } else {
            buf_puts(b, " anonymous");
        }
    } else if (v->type == J_LOOP) {
        buf_putc(b, ' ');
        put_int(b, v->u.loop->index0 + 1);
        buf_putc(b, '/');
        put_int(b, v->u.loop->length);
    } else {
        buf_puts(b, " object");
    }
    buf_putc(b, '>');
}

static bool repr_container(struct jx *x, struct buf *b, const struct jv *v)
{
    bool ok;
    switch (v->type) {
    case J_LIST:
        return repr_items(x, b, v, v->u.list->n, "[", "]");
    case J_TUPLE:
        return repr_items(x, b, v, v->u.list->n, "(", ")");
    case J_DICT:
        return repr_dict(x, b, v->u.dict);
    case J_NS:
        buf_puts(b, "<Namespace ");
        ok = repr_dict(x, b, v->u.dict);
        buf_putc(b, '>');
        return ok;
    default:
        buf_puts(b, jv_type_name(v));
        return repr_items(x, b, v, 0, "([", "])");
    }
}

bool jx_repr(struct jx *x, struct buf *b, const struct jv *v)
{
    static const struct jstr length = {"length", 6, 6, false};
    struct jv n;
    char text[NUM_REPR_MAX];
    bool ok = true;
    switch (v->type) {
    case J_UNDEF:
        buf_puts(b, "Undefined");
        break;
    case J_NONE:
        buf_puts(b, "None");
        break;
    case J_BOOL:
        buf_puts(b, v->u.b ? "True" : "False");
        break;
    case J_INT:
        put_int(b, v->u.i);
        break;
    case J_FLOAT:
        buf_put(b, text, num_repr(v->u.d, text));
        ok = jx_spend(x, 8);
        break;
    case J_BIG:
        buf_put(b, v->u.s->p, v->u.s->len);
        break;
    case J_STR:
        ok = jx_spend_bytes(x, v->u.s->len);
        if (ok)
            repr_string(b, v->u.s);
        break;
    case J_RANGE:
        repr_range(b, v->u.range);
        break;
    case J_LIST:
    case J_TUPLE:
    case J_DICT:
    case J_NS:
    case J_VIEW:
        if (x->depth >= JX_MAX_DEPTH)
            return jx_limit(x, "value is nested too deep");
        x->depth++;
        ok = repr_container(x, b, v);
        x->depth--;
        break;
    case J_LOOP:
        ok = jx_loop_attr(x, v->u.loop, &length, &n); /* finds it out when it is not known */
        repr_object(b, v);
        break;
    default:
        repr_object(b, v);
    }
    return ok && room(x, b);
}

bool jx_print(struct jx *x, struct buf *b, const struct jv *v)
{
    if (v->type == J_STR) {
        buf_put(b, v->u.s->p, v->u.s->len);
        return jx_spend_bytes(x, v->u.s->len) && room(x, b);
    }
    return v->type == J_UNDEF || jx_repr(x, b, v);
}

bool jx_to_str(struct jx *x, const struct jv *v, const struct jstr **out)
{
    struct jv s;
    size_t mark = x->tmp.len;
    if (v->type == J_STR) {
        *out = v->u.s;
        return true;
    }
    if (!jx_print(x, &x->tmp, v) || !jx_take(x, mark, &s))
        return false;
    *out = s.u.s;
    return true;
}

const char *jx_brief(struct jx *x, const struct jv *v)
{
    const struct jstr *s;
    if (!jx_to_str(x, v, &s))
        return "";
    size_t n = s->len > 300 ? 300 : s->len;
    while (n && n < s->len && ((unsigned char)s->p[n] & 0xC0) == 0x80)
        n--;
    char *z = jx_alloc(x, n + 1);
    if (!z)
        return "";
    memcpy(z, s->p, n);
    z[n] = 0;
    return z;
}

/* ---- JSON ---- */

static void json_string(struct buf *b, const struct jstr *s, bool ascii)
{
    size_t used;
    buf_putc(b, '"');
    for (size_t i = 0; i < s->len; i += used) {
        static const char special[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
        uint32_t cp = utf8_decode(s->p + i, s->len - i, &used);
        const char *hit = cp && cp < 0x80 ? strchr(special, (int)cp) : NULL;
        if (hit) {
            buf_putc(b, '\\');
            buf_putc(b, letter[hit - special]);
        } else if (cp < 0x20 || (ascii && cp > 0x7E && cp < 0x10000)) {
            put_hex(b, "\\u", cp, 4);
        } else if (ascii && cp >= 0x10000) {
            put_hex(b, "\\u", 0xD800 + ((cp - 0x10000) >> 10), 4);
            put_hex(b, "\\u", 0xDC00 + (cp & 0x3FF), 4);
        } else {
            buf_put(b, s->p + i, used);
        }
    }
    buf_putc(b, '"');
}

static void json_float(struct buf *b, double d)
{
    char text[NUM_REPR_MAX];
    if (num_is_finite(d))
        buf_put(b, text, num_repr(d, text));
    else
        buf_puts(b, d != d ? "NaN" : d > 0 ? "Infinity" : "-Infinity");
}

static void json_break(struct buf *b, const struct json_style *style, uint32_t level)
{
    buf_putc(b, '\n');
    for (uint32_t i = 0; i < level; i++)
        buf_put(b, style->indent->p, style->indent->len);
}

static bool json_value(struct jx *x, struct buf *b, const struct jv *v, const struct json_style *style, uint32_t level);

static bool json_key(struct jx *x, struct buf *b, const struct jv *k, const struct json_style *style)
{
    char text[NUM_REPR_MAX];
    if (k->type == J_STR) {
        json_string(b, k->u.s, style->ascii);
        return jx_spend_bytes(x, k->u.s->len);
    }
    buf_putc(b, '"');
    if (k->type == J_BOOL)
        buf_puts(b, k->u.b ? "true" : "false");
    else if (k->type == J_NONE)
        buf_puts(b, "null");
    else if (k->type == J_INT)
        buf_put(b, text, num_format_i64(k->u.i, text));
    else if (k->type == J_BIG)
        buf_put(b, k->u.s->p, k->u.s->len);
    else if (k->type == J_FLOAT)
        json_float(b, k->u.d);
    else
        return jx_fail(x, "keys must be str, int, float, bool or None, not %s", jv_type_name(k));
    buf_putc(b, '"');
    return true;
}

static bool sorted_pairs(struct jx *x, const struct jdict *d, struct jpair **out)
{
    struct jpair *p = jx_array(x, d->n, sizeof *p), *q = jx_array(x, d->n, sizeof *q);
    if (!p || !q)
        return false;
    memcpy(p, d->items, d->n * sizeof *p);
    for (size_t width = 1; width < d->n; width *= 2) { /* merge sort, bottom up */
        for (size_t lo = 0; lo < d->n; lo += 2 * width) {
            size_t mid = lo + width < d->n ? lo + width : d->n, hi = mid + width < d->n ? mid + width : d->n;
            for (size_t i = lo, j = mid, k = lo; k < hi; k++) {
                bool right = i >= mid;
                if (!right && j < hi && (!jx_spend(x, 1) || !jx_less(x, &p[j].key, &p[i].key, "<", &right)))
                    return false;
                q[k] = right ? p[j++] : p[i++];
            }
        }
        struct jpair *swap = p;
        p = q;
        q = swap;
    }
    *out = p;
    return true;
}

static bool json_dict(struct jx *x, struct buf *b, const struct jdict *d, const struct json_style *style, uint32_t level)
{
    struct jpair *items = d->items;
    if (!d->n) {
        buf_puts(b, "{}");
        return true;
    }
    if (style->sort_keys && !sorted_pairs(x, d, &items))
        return false;
    buf_putc(b, '{');
    for (size_t i = 0; i < d->n; i++) {
        if (i)
            buf_put(b, style->item_sep->p, style->item_sep->len);
        if (style->indent)
            json_break(b, style, level + 1);
        if (!json_key(x, b, &items[i].key, style))
            return false;
        buf_put(b, style->key_sep->p, style->key_sep->len);
        if (!json_value(x, b, &items[i].value, style, level + 1))
            return false;
    }
    if (style->indent)
        json_break(b, style, level);
    buf_putc(b, '}');
    return true;
}

static bool json_list(struct jx *x, struct buf *b, const struct jlist *l, const struct json_style *style, uint32_t level)
{
    if (!l->n) {
        buf_puts(b, "[]");
        return true;
    }
    buf_putc(b, '[');
    for (size_t i = 0; i < l->n; i++) {
        if (i)
            buf_put(b, style->item_sep->p, style->item_sep->len);
        if (style->indent)
            json_break(b, style, level + 1);
        if (!json_value(x, b, &l->v[i], style, level + 1))
            return false;
    }
    if (style->indent)
        json_break(b, style, level);
    buf_putc(b, ']');
    return true;
}

static bool json_value(struct jx *x, struct buf *b, const struct jv *v, const struct json_style *style, uint32_t level)
{
    bool ok = true;
    if (!jx_spend(x, 1 + (style->indent ? level * style->indent->len / 64 : 0)) || !room(x, b))
        return false;
    switch (v->type) {
    case J_NONE:
        buf_puts(b, "null");
        break;
    case J_BOOL:
        buf_puts(b, v->u.b ? "true" : "false");
        break;
    case J_INT:
        put_int(b, v->u.i);
        break;
    case J_BIG:
        buf_put(b, v->u.s->p, v->u.s->len);
        break;
    case J_FLOAT:
        json_float(b, v->u.d);
        ok = jx_spend(x, 8);
        break;
    case J_STR:
        ok = jx_spend_bytes(x, v->u.s->len);
        if (ok)
            json_string(b, v->u.s, style->ascii);
        break;
    case J_LIST:
    case J_TUPLE:
    case J_DICT:
        if (x->depth >= JX_MAX_DEPTH)
            return jx_limit(x, "value is nested too deep");
        x->depth++;
        ok = v->type == J_DICT ? json_dict(x, b, v->u.dict, style, level) : json_list(x, b, v->u.list, style, level);
        x->depth--;
        break;
    default:
        return jx_fail(x, "Object of type %s is not JSON serializable", jv_type_name(v));
    }
    return ok && room(x, b);
}

bool jx_json(struct jx *x, struct buf *b, const struct jv *v, const struct json_style *style)
{
    return json_value(x, b, v, style, 0);
}
