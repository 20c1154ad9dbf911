#include "text/jinja_value.h"

#include <string.h>

#include "base/map.h"
#include "base/num.h"
#include "base/utf8.h"
#include "text/jinja_run.h"
#include "text/jinja_str.h"

#define SMALL_DICT 8

const char *jv_type_text(uint8_t type)
{
    static const char *const names[] = {
        [J_MISSING] = "missing", [J_UNDEF] = "Undefined", [J_NONE] = "NoneType", [J_BOOL] = "bool", [J_INT] = "int",
        [J_BIG] = "int", [J_FLOAT] = "float", [J_STR] = "str", [J_LIST] = "list", [J_TUPLE] = "tuple", [J_DICT] = "dict",
        [J_RANGE] = "range", [J_ITER] = "generator", [J_VIEW] = "dict view", [J_NS] = "Namespace", [J_MACRO] = "Macro",
        [J_METHOD] = "builtin_function_or_method", [J_GLOBAL] = "function", [J_LOOP] = "LoopContext",
        [J_CYCLER] = "Cycler", [J_JOINER] = "Joiner"};
    return names[type];
}

const char *jv_type_name(const struct jv *v)
{
    if (v->type == J_VIEW)
        return v->sub == VIEW_KEYS ? "dict_keys" : v->sub == VIEW_VALUES ? "dict_values" : "dict_items";
    if (v->type == J_STR && v->u.s->markup)
        return "Markup";
    return v->type == J_ITER ? v->u.gen->name : jv_type_text(v->type);
}

/* ---- strings ---- */

const struct jstr *jx_str_ref(struct jx *x, const char *p, size_t len)
{
    struct jstr *s = jx_alloc(x, sizeof *s);
    if (!s || !jx_spend_bytes(x, len))
        return NULL;
    *s = (struct jstr){p, len, js_count(p, len), false};
    return s;
}

const struct jstr *jx_str(struct jx *x, const char *p, size_t len)
{
    char *copy = jx_alloc(x, len);
    if (!copy)
        return NULL;
    if (len)
        memcpy(copy, p, len);
    return jx_str_ref(x, copy, len);
}

bool jx_put_str(struct jx *x, const char *p, size_t len, struct jv *out)
{
    const struct jstr *s = jx_str(x, p, len);
    if (s)
        *out = jv_str(s);
    return s != NULL;
}

bool jx_put_cstr(struct jx *x, const char *zstr, struct jv *out)
{
    return jx_put_str(x, zstr, strlen(zstr), out);
}

bool jx_take_like(struct jx *x, size_t mark, const struct jstr *like, struct jv *out)
{
    if (!buf_ok(&x->tmp))
        return jx_buf_failed(x, &x->tmp);
    const struct jstr *s = jx_str(x, x->tmp.data ? x->tmp.data + mark : "", x->tmp.len - mark);
    x->tmp.len = mark;
    if (!s)
        return false;
    if (like && like->markup)
        ((struct jstr *)(uintptr_t)s)->markup = true; /* just made: nobody else has it */
    *out = jv_str(s);
    return true;
}

bool jx_take(struct jx *x, size_t mark, struct jv *out)
{
    return jx_take_like(x, mark, NULL, out);
}

void jx_escape(struct buf *b, const char *p, size_t len)
{
    static const char special[] = "&<>\"'";
    static const char *const text[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
    for (size_t i = 0; i < len; i++) {
        const char *hit = p[i] ? strchr(special, p[i]) : NULL;
        if (hit)
            buf_puts(b, text[hit - special]);
        else
            buf_putc(b, p[i]);
    }
}

bool jx_str_concat(struct jx *x, const struct jstr *a, const struct jstr *b, struct jv *out)
{
    size_t mark = x->tmp.len;
    const struct jstr *like = a->markup ? a : b->markup ? b : NULL;
    if (!jx_spend_bytes(x, a->len + b->len))
        return false;
    if (like && !a->markup)
        jx_escape(&x->tmp, a->p, a->len);
    else
        buf_put(&x->tmp, a->p, a->len);
    if (like && !b->markup)
        jx_escape(&x->tmp, b->p, b->len);
    else
        buf_put(&x->tmp, b->p, b->len);
    return jx_take_like(x, mark, like, out);
}

/* ---- lists ---- */

bool jlb_push(struct jlb *b, struct jv v)
{
    if (b->n == b->cap) {
        size_t cap = b->cap ? b->cap * 2 : 8;
        struct jv *grown = jx_array(b->x, cap, sizeof *grown);
        if (!grown)
            return false;
        if (b->n)
            memcpy(grown, b->v, b->n * sizeof *grown);
        b->v = grown;
        b->cap = cap;
    }
    b->v[b->n++] = v;
    return true;
}

struct jlist *jx_list(struct jx *x, struct jv *v, size_t n)
{
    struct jlist *l = jx_alloc(x, sizeof *l);
    if (l)
        *l = (struct jlist){.v = v, .n = n};
    return l;
}

struct jlist *jlb_list(struct jlb *b)
{
    return jx_list(b->x, b->v, b->n);
}

bool jlb_done(struct jlb *b, uint8_t type, struct jv *out)
{
    struct jlist *l = jlb_list(b);
    if (!l)
        return false;
    *out = (struct jv){.type = type, .u.list = l};
    return true;
}

bool jlb_done_iter(struct jlb *b, const char *type_name, struct jv *out)
{
    struct jgen *g = jx_alloc(b->x, sizeof *g);
    struct jlist *l = g ? jlb_list(b) : NULL;
    if (!l)
        return false;
    *g = (struct jgen){l, 0, type_name};
    *out = (struct jv){.type = J_ITER, .u.gen = g};
    return true;
}

bool jx_pair(struct jx *x, struct jv a, struct jv b, struct jv *out)
{
    struct jv *v = jx_array(x, 2, sizeof *v);
    struct jlist *l = v ? jx_list(x, v, 2) : NULL;
    if (!l)
        return false;
    v[0] = a;
    v[1] = b;
    *out = jv_tuple(l);
    return true;
}

/* A block of values that several lists may begin: `used` of `cap` are taken. A list whose end is the block's end can
 * be continued in place, so that `{% set ns.l = ns.l + [item] %}` in a loop is not quadratic. */
struct jback {
    size_t used, cap;
};

bool jx_list_concat(struct jx *x, const struct jlist *a, const struct jlist *b, uint8_t type, struct jv *out)
{
    size_t n = a->n + b->n;
    struct jback *back = a->back;
    struct jv *v = a->v;
    if (!jx_spend(x, 1 + b->n / 8))
        return false;
    if (!back || back->used != a->n || back->cap - back->used < b->n) {
        back = jx_alloc(x, sizeof *back);
        v = back && jx_spend(x, a->n / 8) ? jx_array(x, n + n / 2 + 4, sizeof *v) : NULL;
        if (!v)
            return false;
        back->cap = n + n / 2 + 4;
        if (a->n)
            memcpy(v, a->v, a->n * sizeof *v);
    }
    if (b->n)
        memcpy(v + a->n, b->v, b->n * sizeof *v);
    back->used = n;
    struct jlist *l = jx_list(x, v, n);
    if (!l)
        return false;
    l->back = back;
    *out = (struct jv){.type = type, .u.list = l};
    return true;
}

/* ---- dicts ---- */

static bool hash_value(struct jx *x, const struct jv *v, uint64_t *h)
{
    double d;
    switch (v->type) {
    case J_STR:
    case J_BIG:
        *h = hash_bytes(v->u.s->p, v->u.s->len);
        return jx_spend_bytes(x, v->u.s->len);
    case J_BOOL:
    case J_INT:
        *h = (uint64_t)jv_whole(v) * 0x9E3779B97F4A7C15u;
        return true;
    case J_FLOAT: /* whole floats hash as the integers they equal */
        d = v->u.d;
        if (d >= -9007199254740992.0 && d <= 9007199254740992.0 && (double)(int64_t)d == d)
            *h = (uint64_t)(int64_t)d * 0x9E3779B97F4A7C15u;
        else
            *h = hash_bytes(&d, sizeof d);
        return true;
    case J_NONE:
    case J_UNDEF:
        *h = v->type;
        return true;
    case J_TUPLE:
        *h = 7;
        if (x->depth >= JX_MAX_DEPTH)
            return jx_limit(x, "value is nested too deep");
        for (size_t i = 0; i < v->u.list->n; i++) {
            uint64_t part;
            x->depth++;
            bool ok = jx_spend(x, 1) && hash_value(x, &v->u.list->v[i], &part);
            x->depth--;
            if (!ok)
                return false;
            *h = (*h ^ part) * 0x9E3779B97F4A7C15u;
        }
        return true;
    case J_LIST:
    case J_DICT:
        return jx_fail(x, "unhashable type: '%s'", jv_type_name(v));
    default:
        *h = (uint64_t)(uintptr_t)v->u.list;
        return true;
    }
}

struct jdict *jx_dict(struct jx *x, size_t room)
{
    struct jdict *d = jx_alloc(x, sizeof *d);
    if (!d)
        return NULL;
    *d = (struct jdict){.cap = room};
    if (room) {
        d->items = jx_array(x, room, sizeof *d->items);
        if (!d->items)
            return NULL;
    }
    return d;
}

/* The slot of a key in the index: of the key itself, or the empty one where it would go. NULL: failure. */
static uint32_t *index_slot(struct jx *x, const struct jdict *d, const struct jv *key)
{
    uint64_t h;
    if (!hash_value(x, key, &h))
        return NULL;
    for (size_t i = (size_t)(h ^ h >> 32) & d->mask;; i = (i + 1) & d->mask) {
        bool same;
        if (!d->index[i])
            return &d->index[i];
        if (!jx_spend(x, 1) || !jx_equal(x, &d->items[d->index[i] - 1].key, key, &same))
            return NULL;
        if (same)
            return &d->index[i];
    }
}

static bool build_index(struct jx *x, struct jdict *d)
{
    size_t size = 32;
    while (size < d->n * 3)
        size *= 2;
    d->index = jx_array(x, size, sizeof *d->index);
    if (!d->index)
        return false;
    memset(d->index, 0, size * sizeof *d->index);
    d->mask = size - 1;
    for (size_t i = 0; i < d->n; i++) {
        uint32_t *slot = index_slot(x, d, &d->items[i].key);
        if (!slot)
            return false;
        *slot = (uint32_t)i + 1;
    }
    return true;
}

/* 1: found at *at, 0: not there, -1: failure. */
static int dict_place(struct jx *x, const struct jdict *d, const struct jv *key, size_t *at)
{
    if (d->index) {
        uint32_t *slot = index_slot(x, d, key);
        if (!slot)
            return -1;
        *at = *slot - 1;
        return *slot != 0;
    }
    uint64_t h;
    bool same;
    if (key->type != J_STR ? !hash_value(x, key, &h) : key->u.s->len > 64 && !jx_spend(x, key->u.s->len * d->n / 64))
        return -1;
    for (size_t i = 0; i < d->n; i++) {
        const struct jv *k = &d->items[i].key;
        if (key->type == J_STR && k->type == J_STR)
            same = js_same(key->u.s, k->u.s);
        else if (!jx_equal(x, k, key, &same))
            return -1;
        *at = i;
        if (same)
            return 1;
    }
    return 0;
}

int jx_dict_find(struct jx *x, const struct jdict *d, const struct jv *key, struct jv *out)
{
    size_t at;
    int found = dict_place(x, d, key, &at);
    if (found > 0)
        *out = d->items[at].value;
    return found;
}

bool jx_dict_set(struct jx *x, struct jdict *d, struct jv key, struct jv value)
{
    size_t at;
    int found = jx_spend(x, 1) ? dict_place(x, d, &key, &at) : -1;
    if (found < 0)
        return false;
    if (found) {
        d->items[at].value = value;
        return true;
    }
    if (d->n >= UINT32_MAX / 4)
        return jx_limit(x, "a dict has too many keys");
    if (d->n == d->cap) {
        size_t cap = d->cap ? d->cap * 2 : 4;
        struct jpair *grown = jx_array(x, cap, sizeof *grown);
        if (!grown)
            return false;
        if (d->n)
            memcpy(grown, d->items, d->n * sizeof *grown);
        d->items = grown;
        d->cap = cap;
    }
    d->items[d->n++] = (struct jpair){key, value};
    if (d->index && d->n * 2 <= d->mask) {
        uint32_t *slot = index_slot(x, d, &key);
        if (!slot)
            return false;
        *slot = (uint32_t)d->n;
        return true;
    }
    return d->n <= SMALL_DICT || build_index(x, d);
}

/* ---- truth, length, equality, order ---- */

bool jx_truth(const struct jv *v)
{
    switch (v->type) {
    case J_MISSING:
    case J_UNDEF:
    case J_NONE:
        return false;
    case J_BOOL:
        return v->u.b;
    case J_INT:
        return v->u.i != 0;
    case J_FLOAT:
        return v->u.d != 0;
    case J_STR:
        return v->u.s->len != 0;
    case J_LIST:
    case J_TUPLE:
        return v->u.list->n != 0;
    case J_DICT:
    case J_VIEW:
        return v->u.dict->n != 0;
    case J_RANGE:
        return v->u.range->n != 0;
    default:
        return true;
    }
}

bool jx_length(struct jx *x, const struct jv *v, size_t *out)
{
    switch (v->type) {
    case J_UNDEF:
        *out = 0;
        return true;
    case J_STR:
        *out = v->u.s->cps;
        return true;
    case J_LIST:
    case J_TUPLE:
        *out = v->u.list->n;
        return true;
    case J_DICT:
    case J_VIEW:
        *out = v->u.dict->n;
        return true;
    case J_RANGE:
        *out = v->u.range->n;
        return true;
    default:
        return jx_fail(x, "object of type '%s' has no len()", jv_type_name(v));
    }
}

static int compare_numbers(const struct jv *a, const struct jv *b) /* 2: unordered */
{
    if (a->type == J_FLOAT && b->type == J_FLOAT)
        return a->u.d < b->u.d ? -1 : a->u.d > b->u.d ? 1 : a->u.d == b->u.d ? 0 : 2;
    if (a->type == J_FLOAT) {
        int c = num_compare_i64_double(jv_whole(b), a->u.d);
        return c == 2 ? 2 : -c;
    }
    if (b->type == J_FLOAT)
        return num_compare_i64_double(jv_whole(a), b->u.d);
    int64_t m = jv_whole(a), n = jv_whole(b);
    return m < n ? -1 : m > n;
}

static bool equal_dicts(struct jx *x, const struct jdict *a, const struct jdict *b, bool *out)
{
    *out = a->n == b->n;
    for (size_t i = 0; *out && i < a->n; i++) {
        struct jv other;
        int found = jx_spend(x, 1) ? jx_dict_find(x, b, &a->items[i].key, &other) : -1;
        if (found < 0 || (found && !jx_equal(x, &a->items[i].value, &other, out)))
            return false;
        if (!found)
            *out = false;
    }
    return true;
}

static bool equal_lists(struct jx *x, const struct jlist *a, const struct jlist *b, bool *out)
{
    *out = a->n == b->n;
    for (size_t i = 0; *out && i < a->n; i++)
        if (!jx_spend(x, 1) || !jx_equal(x, &a->v[i], &b->v[i], out))
            return false;
    return true;
}

static bool equal_nested(struct jx *x, const struct jv *a, const struct jv *b, bool *out)
{
    bool ok;
    if (x->depth >= JX_MAX_DEPTH)
        return jx_limit(x, "value is nested too deep");
    x->depth++;
    ok = a->type == J_DICT ? equal_dicts(x, a->u.dict, b->u.dict, out) : equal_lists(x, a->u.list, b->u.list, out);
    x->depth--;
    return ok;
}

bool jx_equal(struct jx *x, const struct jv *a, const struct jv *b, bool *out)
{
    if (jv_is_number(a) && jv_is_number(b)) {
        *out = compare_numbers(a, b) == 0;
        return true;
    }
    *out = false;
    if (a->type != b->type)
        return true;
    switch (a->type) {
    case J_UNDEF:
    case J_NONE:
        *out = true;
        return true;
    case J_STR:
    case J_BIG:
        *out = js_same(a->u.s, b->u.s);
        return jx_spend_bytes(x, a->u.s->len == b->u.s->len ? a->u.s->len : 0);
    case J_LIST:
    case J_TUPLE:
    case J_DICT:
        if (a->u.list == b->u.list) {
            *out = true;
            return true;
        }
        return equal_nested(x, a, b, out);
    case J_RANGE:
        *out = a->u.range->n == b->u.range->n &&
               (!a->u.range->n || (a->u.range->start == b->u.range->start &&
                                   (a->u.range->n == 1 || a->u.range->step == b->u.range->step)));
        return true;
    case J_METHOD:
        return true; /* two bound methods: not the same object */
    default:
        *out = a->u.list == b->u.list && a->sub == b->sub;
        return true;
    }
}

static bool less_lists(struct jx *x, const struct jlist *a, const struct jlist *b, const char *op, bool *out)
{
    for (size_t i = 0; i < a->n && i < b->n; i++) {
        bool same;
        if (!jx_spend(x, 1) || !jx_equal(x, &a->v[i], &b->v[i], &same))
            return false;
        if (!same)
            return jx_less(x, &a->v[i], &b->v[i], op, out);
    }
    *out = a->n < b->n;
    return true;
}

bool jx_less(struct jx *x, const struct jv *a, const struct jv *b, const char *op, bool *out)
{
    if (jv_is_number(a) && jv_is_number(b)) {
        *out = compare_numbers(a, b) == -1;
        return true;
    }
    if (a->type == J_UNDEF || b->type == J_UNDEF)
        return jx_undef_error(x, a->type == J_UNDEF ? a : b);
    if (a->type == J_STR && b->type == J_STR) { /* UTF-8 sorts as code points do */
        size_t n = a->u.s->len < b->u.s->len ? a->u.s->len : b->u.s->len;
        int c = memcmp(a->u.s->p, b->u.s->p, n);
        *out = c < 0 || (c == 0 && a->u.s->len < b->u.s->len);
        return jx_spend_bytes(x, n);
    }
    if (a->type == b->type && (a->type == J_LIST || a->type == J_TUPLE)) {
        if (x->depth >= JX_MAX_DEPTH)
            return jx_limit(x, "value is nested too deep");
        x->depth++;
        bool ok = less_lists(x, a->u.list, b->u.list, op, out);
        x->depth--;
        return ok;
    }
    bool swapped = op[0] == '>'; /* a > b is asked as b < a */
    return jx_fail(x, "'%s' not supported between instances of '%s' and '%s'", op, jv_type_name(swapped ? b : a),
                   jv_type_name(swapped ? a : b));
}

/* ---- iteration ---- */

bool jx_is_iterable(const struct jv *v)
{
    switch (v->type) {
    case J_UNDEF:
    case J_STR:
    case J_LIST:
    case J_TUPLE:
    case J_DICT:
    case J_RANGE:
    case J_ITER:
    case J_VIEW:
    case J_LOOP:
        return true;
    default:
        return false;
    }
}

bool jx_iter(struct jx *x, const struct jv *v, struct jiter *it)
{
    if (!jx_is_iterable(v) || v->type == J_LOOP)
        return jx_fail(x, "'%s' object is not iterable", jv_type_name(v));
    *it = (struct jiter){.src = *v};
    return true;
}

static int next_char(struct jx *x, struct jiter *it, struct jv *out)
{
    const struct jstr *s = it->src.u.s;
    if (it->byte >= s->len)
        return 0;
    size_t n = js_char_len(s->p + it->byte);
    struct jstr *one = jx_alloc(x, sizeof *one);
    if (!one)
        return -1;
    *one = (struct jstr){s->p + it->byte, n, 1, false};
    it->byte += n;
    *out = jv_str(one);
    return 1;
}

static int next_of_dict(struct jx *x, struct jiter *it, struct jv *out)
{
    const struct jdict *d = it->src.u.dict;
    if (it->pos >= d->n)
        return 0;
    const struct jpair *p = &d->items[it->pos++];
    if (it->src.type == J_VIEW && it->src.sub == VIEW_ITEMS)
        return jx_pair(x, p->key, p->value, out) ? 1 : -1;
    *out = it->src.type == J_VIEW && it->src.sub == VIEW_VALUES ? p->value : p->key;
    return 1;
}

int jx_next(struct jx *x, struct jiter *it, struct jv *out)
{
    struct jgen *g;
    if (!jx_spend(x, 1))
        return -1;
    switch (it->src.type) {
    case J_STR:
        return next_char(x, it, out);
    case J_LIST:
    case J_TUPLE:
        if (it->pos >= it->src.u.list->n)
            return 0;
        *out = it->src.u.list->v[it->pos++];
        return 1;
    case J_DICT:
    case J_VIEW:
        return next_of_dict(x, it, out);
    case J_RANGE:
        if (it->pos >= it->src.u.range->n)
            return 0;
        return jx_item_at(x, &it->src, it->pos++, out) ? 1 : -1;
    case J_ITER:
        g = it->src.u.gen;
        if (g->pos >= g->items->n)
            return 0;
        *out = g->items->v[g->pos++];
        return 1;
    default:
        return 0;
    }
}

bool jx_to_list(struct jx *x, const struct jv *v, struct jlist **out)
{
    struct jlb b = {.x = x};
    struct jiter it;
    struct jv item;
    int got;
    if (v->type == J_LIST || v->type == J_TUPLE) {
        *out = v->u.list;
        return true;
    }
    if (!jx_iter(x, v, &it))
        return false;
    while ((got = jx_next(x, &it, &item)) > 0)
        if (!jlb_push(&b, item))
            return false;
    if (got == 0)
        *out = jlb_list(&b);
    return got == 0 && *out;
}

bool jx_item_at(struct jx *x, const struct jv *v, size_t i, struct jv *out)
{
    if (v->type == J_RANGE) {
        *out = jv_int((int64_t)((uint64_t)v->u.range->start + (uint64_t)v->u.range->step * i)); /* in range by construction */
        return true;
    }
    if (v->type == J_LIST || v->type == J_TUPLE) {
        *out = v->u.list->v[i];
        return true;
    }
    const struct jstr *s = v->u.s;
    size_t at = js_offset(s, i);
    if (s->cps != s->len && !jx_spend_bytes(x, i))
        return false;
    struct jstr *one = jx_alloc(x, sizeof *one);
    if (!one)
        return false;
    *one = (struct jstr){s->p + at, js_char_len(s->p + at), 1, s->markup};
    *out = jv_str(one);
    return true;
}

static bool range_contains(const struct jrange *r, const struct jv *item)
{
    int64_t v;
    if (jv_is_whole(item))
        v = jv_whole(item);
    else if (item->type == J_FLOAT && item->u.d > -9e18 && item->u.d < 9e18 && (double)(int64_t)item->u.d == item->u.d)
        v = (int64_t)item->u.d;
    else
        return false;
    for (size_t i = 0; i < r->n; i++) /* at most JX_MAX_RANGE */
        if (r->start + r->step * (int64_t)i == v)
            return true;
    return false;
}

bool jx_contains(struct jx *x, const struct jv *item, const struct jv *seq, bool *out)
{
    struct jiter it;
    struct jv v;
    int got;
    *out = false;
    if (seq->type == J_STR) {
        if (item->type == J_UNDEF)
            return jx_fail(x, "'in <string>' requires string as left operand, not Undefined");
        if (item->type != J_STR)
            return jx_fail(x, "'in <string>' requires string as left operand, not %s", jv_type_name(item));
        *out = js_find(seq->u.s->p, 0, seq->u.s->len, item->u.s->p, item->u.s->len) != JS_NONE;
        return jx_spend_bytes(x, seq->u.s->len);
    }
    if (seq->type == J_DICT || (seq->type == J_VIEW && seq->sub == VIEW_KEYS)) {
        got = jx_dict_find(x, seq->u.dict, item, &v);
        *out = got > 0;
        return got >= 0;
    }
    if (seq->type == J_RANGE) {
        *out = range_contains(seq->u.range, item);
        return jx_spend(x, seq->u.range->n / 8 + 1);
    }
    if (!jx_is_iterable(seq))
        return jx_fail(x, "argument of type '%s' is not iterable", jv_type_name(seq));
    if (!jx_iter(x, seq, &it))
        return false;
    while ((got = jx_next(x, &it, &v)) > 0 && !*out)
        if (!jx_equal(x, &v, item, out))
            return false;
    return got >= 0;
}
