/* Filters on sequences and mappings. Lazy ones of Jinja2 run at once here, and give an iterator that can be walked once. */
#include <string.h>

#include "base/num.h"
#include "base/utf8.h"
#include "text/jinja_run.h"
#include "text/jinja_str.h"

/* ---- attribute paths: "a.b.0" ---- */

struct path {
    struct jv part[16];
    size_t n;
    struct jv fallback; /* J_MISSING: none */
};

static bool add_part(struct jx *x, struct path *p, const char *s, size_t n)
{
    int64_t i;
    if (p->n == sizeof p->part / sizeof *p->part)
        return jx_limit(x, "attribute path is too long");
    bool digits = n > 0;
    for (size_t k = 0; k < n; k++)
        digits &= s[k] >= '0' && s[k] <= '9';
    if (digits && num_parse_i64(s, n, &i)) {
        p->part[p->n++] = jv_int(i);
        return true;
    }
    return jx_put_str(x, s, n, &p->part[p->n++]);
}

static bool path_of_text(struct jx *x, const char *s, size_t n, struct path *out)
{
    *out = (struct path){.fallback = {.type = J_MISSING}};
    for (size_t i = 0;;) {
        size_t dot = js_find(s, i, n, ".", 1), end = dot == JS_NONE ? n : dot;
        if (!add_part(x, out, s + i, end - i))
            return false;
        if (end == n)
            return true;
        i = end + 1;
    }
}

static bool path_of(struct jx *x, const struct jv *attribute, struct path *out)
{
    *out = (struct path){.fallback = {.type = J_MISSING}};
    if (attribute->type == J_MISSING || attribute->type == J_NONE)
        return true;
    if (attribute->type == J_STR)
        return path_of_text(x, attribute->u.s->p, attribute->u.s->len, out);
    out->part[out->n++] = *attribute;
    return true;
}

static bool follow(struct jx *x, const struct path *p, const struct jv *item, struct jv *out)
{
    *out = *item;
    for (size_t i = 0; i < p->n; i++) {
        struct jv obj = *out;
        if (!jx_getitem(x, &obj, &p->part[i], out))
            return false;
        if (out->type == J_UNDEF && p->fallback.type != J_MISSING && p->fallback.type != J_NONE)
            *out = p->fallback;
    }
    return true;
}

static bool fold_case(struct jx *x, struct jv *v)
{
    size_t mark = x->tmp.len;
    if (v->type != J_STR)
        return true;
    js_lower(&x->tmp, v->u.s->p, v->u.s->len);
    return jx_take_like(x, mark, v->u.s, v);
}

static bool key_of(struct jx *x, const struct path *p, const struct jv *item, bool case_sensitive, struct jv *out)
{
    return follow(x, p, item, out) && (case_sensitive || fold_case(x, out));
}

/* ---- sorting ---- */

struct keyed {
    struct jv key, item;
};

static bool goes_first(struct jx *x, const struct keyed *a, const struct keyed *b, bool reverse, bool *out)
{
    return jx_spend(x, 1) && (reverse ? jx_less(x, &b->key, &a->key, "<", out) : jx_less(x, &a->key, &b->key, "<", out));
}

/* Stable merge sort, bottom up; reverse keeps the order of equals, as Python does. */
static bool sort_keyed(struct jx *x, struct keyed **items, size_t n, bool reverse)
{
    struct keyed *p = *items, *q = jx_array(x, n, sizeof *q);
    if (!q)
        return false;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t lo = 0; lo < n; lo += 2 * width) {
            size_t mid = lo + width < n ? lo + width : n, hi = mid + width < n ? mid + width : n;
            for (size_t i = lo, j = mid, k = lo; k < hi; k++) {
                bool right = i >= mid;
                if (!right && j < hi && !goes_first(x, &p[j], &p[i], reverse, &right))
                    return false;
                q[k] = right ? p[j++] : p[i++];
            }
        }
        struct keyed *swap = p;
        p = q;
        q = swap;
    }
    *items = p;
    return true;
}

static bool put_items(struct jx *x, const struct keyed *k, size_t n, struct jv *out)
{
    struct jv *v = jx_array(x, n, sizeof *v);
    struct jlist *l = v ? jx_list(x, v, n) : NULL;
    for (size_t i = 0; l && i < n; i++)
        v[i] = k[i].item;
    *out = jv_list(l);
    return l != NULL;
}

/* The keys of "a,b" paths as a list, as Jinja2 compares them: equal parts are passed over, even those without an order. */
static bool sort_key(struct jx *x, const struct path *paths, size_t n, const struct jv *item, bool cs, struct jv *out)
{
    struct jlb b = {.x = x};
    for (size_t i = 0; i < n; i++) {
        struct jv part;
        if (!key_of(x, &paths[i], item, cs, &part) || !jlb_push(&b, part))
            return false;
    }
    return jlb_done(&b, J_LIST, out);
}

static bool split_paths(struct jx *x, const struct jv *attribute, struct path *paths, size_t max, size_t *n)
{
    *n = 0;
    if (attribute->type != J_STR) {
        *n = 1;
        return path_of(x, attribute, &paths[0]);
    }
    const struct jstr *s = attribute->u.s;
    for (size_t i = 0;;) {
        size_t comma = js_find(s->p, i, s->len, ",", 1), end = comma == JS_NONE ? s->len : comma;
        if (*n == max)
            return jx_limit(x, "too many sort keys");
        if (!path_of_text(x, s->p + i, end - i, &paths[(*n)++]))
            return false;
        if (end == s->len)
            return true;
        i = end + 1;
    }
}

/* n_paths 0: the key is that of paths[0] itself. */
static bool keyed_items(struct jx *x, const struct jv *seq, const struct path *paths, size_t n_paths, bool cs,
                        struct keyed **out, size_t *n)
{
    struct jlist *l;
    if (!jx_to_list(x, seq, &l))
        return false;
    struct keyed *k = jx_array(x, l->n, sizeof *k);
    if (!k)
        return false;
    for (size_t i = 0; i < l->n; i++) {
        k[i].item = l->v[i];
        if (!jx_spend(x, 1) || !(n_paths ? sort_key(x, paths, n_paths, &l->v[i], cs, &k[i].key)
                                         : key_of(x, paths, &l->v[i], cs, &k[i].key)))
            return false;
    }
    *out = k;
    *n = l->n;
    return true;
}

/* sorted() takes whole numbers only for `reverse`. */
static bool arg_reverse(struct jcall *c, size_t i, bool *out)
{
    const struct jv *v = &c->arg[i];
    *out = v->type != J_MISSING && jx_truth(v);
    return v->type == J_MISSING || jv_is_whole(v) ||
           jx_fail(c->x, "'%s' object cannot be interpreted as an integer", jv_type_name(v));
}

static bool f_sort(struct jcall *c, struct jv *out)
{
    struct path paths[8];
    struct keyed *k;
    size_t n_paths, n;
    bool reverse;
    return arg_reverse(c, 0, &reverse) && split_paths(c->x, &c->arg[2], paths, 8, &n_paths) &&
           keyed_items(c->x, &c->self, paths, n_paths, jx_arg_bool(c, 1, false), &k, &n) &&
           sort_keyed(c->x, &k, n, reverse) && put_items(c->x, k, n, out);
}

static bool f_dictsort(struct jcall *c, struct jv *out)
{
    struct jx *x = c->x;
    bool cs = jx_arg_bool(c, 0, false), reverse;
    size_t pos = 0;
    if (!arg_reverse(c, 2, &reverse))
        return false;
    if (c->arg[1].type != J_MISSING) {
        pos = c->arg[1].type == J_STR && js_is(c->arg[1].u.s, "value");
        if (c->arg[1].type != J_STR || (!pos && !js_is(c->arg[1].u.s, "key")))
            return jx_fail(x, "You can only sort by either \"key\" or \"value\"");
    }
    if (c->self.type == J_UNDEF)
        return jx_undef_error(x, &c->self);
    if (c->self.type != J_DICT)
        return jx_fail(x, "'%s' object has no attribute 'items'", jv_type_name(&c->self));
    struct jdict *d = c->self.u.dict;
    struct keyed *k = jx_array(x, d->n, sizeof *k);
    for (size_t i = 0; k && i < d->n; i++) {
        k[i].key = pos ? d->items[i].value : d->items[i].key;
        if ((!cs && !fold_case(x, &k[i].key)) || !jx_pair(x, d->items[i].key, d->items[i].value, &k[i].item))
            return false;
    }
    return k && sort_keyed(x, &k, d->n, reverse) && put_items(x, k, d->n, out);
}

static bool put_group(struct jx *x, struct jv key, struct jlb *members, struct jlb *groups)
{
    struct jv list, pair;
    if (!jlb_done(members, J_LIST, &list) || !jx_pair(x, key, list, &pair))
        return false;
    pair.u.list->group = true;
    *members = (struct jlb){.x = x};
    return jlb_push(groups, pair);
}

static bool f_groupby(struct jcall *c, struct jv *out)
{
    struct jx *x = c->x;
    struct path path;
    struct keyed *k;
    struct jlb groups = {.x = x}, members = {.x = x};
    bool cs = jx_arg_bool(c, 2, false);
    size_t n;
    if (!path_of(x, &c->arg[0], &path))
        return false;
    path.fallback = c->arg[1];
    if (!keyed_items(x, &c->self, &path, 0, cs, &k, &n) || !sort_keyed(x, &k, n, false))
        return false;
    for (size_t i = 0; i < n; i++) {
        bool same = false;
        struct jv name;
        if (!jlb_push(&members, k[i].item) || (i + 1 < n && !jx_equal(x, &k[i].key, &k[i + 1].key, &same)))
            return false;
        if (same)
            continue;
        if (!follow(x, &path, &members.v[0], &name) || !put_group(x, name, &members, &groups))
            return false;
    }
    return jlb_done(&groups, J_LIST, out);
}

static bool f_unique(struct jcall *c, struct jv *out)
{
    struct jx *x = c->x;
    struct path path;
    struct jiter it;
    struct jv item, key, seen;
    struct jlb b = {.x = x};
    struct jdict *d = jx_dict(x, 0);
    int got;
    if (!d || !path_of(x, &c->arg[1], &path) || !jx_iter(x, &c->self, &it))
        return false;
    while ((got = jx_next(x, &it, &item)) > 0) {
        if (!key_of(x, &path, &item, jx_arg_bool(c, 0, false), &key))
            return false;
        int found = jx_dict_find(x, d, &key, &seen);
        if (found < 0 || (!found && (!jx_dict_set(x, d, key, jv_none()) || !jlb_push(&b, item))))
            return false;
    }
    return got == 0 && jlb_done_iter(&b, "generator", out);
}

static bool put_empty(struct jx *x, const char *hint, struct jv *out)
{
    const struct jstr *s = jx_str_ref(x, hint, strlen(hint));
    *out = jv_undef(UNDEF_HINT, 0, s);
    return s != NULL;
}

static bool extreme(struct jcall *c, bool want_max, struct jv *out)
{
    struct jx *x = c->x;
    struct path path;
    struct jiter it;
    struct jv item, key, best;
    bool any = false, better, cs = jx_arg_bool(c, 0, false);
    int got;
    if (!path_of(x, &c->arg[1], &path) || !jx_iter(x, &c->self, &it))
        return false;
    while ((got = jx_next(x, &it, &item)) > 0) {
        if (!key_of(x, &path, &item, cs, &key))
            return false;
        if (any && !(want_max ? jx_less(x, &best, &key, ">", &better) : jx_less(x, &key, &best, "<", &better)))
            return false;
        if (!any || better) {
            best = key;
            *out = item;
        }
        any = true;
    }
    return got == 0 && (any || put_empty(x, "No aggregated item, sequence was empty.", out));
}

static bool f_min(struct jcall *c, struct jv *out)
{
    return extreme(c, false, out);
}

static bool f_max(struct jcall *c, struct jv *out)
{
    return extreme(c, true, out);
}

static bool f_sum(struct jcall *c, struct jv *out)
{
    struct jx *x = c->x;
    struct path path;
    struct jiter it;
    struct jv item, part;
    int got;
    *out = c->arg[1].type == J_MISSING ? jv_int(0) : c->arg[1];
    if (out->type == J_STR)
        return jx_fail(x, "sum() can't sum strings [use ''.join(seq) instead]");
    if (!path_of(x, &c->arg[0], &path) || !jx_iter(x, &c->self, &it))
        return false;
    while ((got = jx_next(x, &it, &item)) > 0) {
        struct jv so_far = *out;
        if (!follow(x, &path, &item, &part) || !jx_binary(x, T_ADD, &so_far, &part, out))
            return false;
    }
    return got == 0;
}

/* ---- map, select, reject ---- */

static bool map_attribute(struct jcall *c, struct jlb *b)
{
    struct jx *x = c->x;
    struct path path = {.n = 0};
    struct jv item, value, attribute = {.type = J_MISSING}, fallback = {.type = J_MISSING};
    struct jiter it;
    int got;
    for (size_t i = 0; i < c->raw->n_kw; i++) {
        const struct jstr *name = c->raw->kw[i].name;
        if (js_is(name, "attribute"))
            attribute = c->raw->kw[i].value;
        else if (js_is(name, "default"))
            fallback = c->raw->kw[i].value;
        else
            return jx_fail(x, "Unexpected keyword argument '%.*s'", (int)(name->len < 80 ? name->len : 80), name->p);
    }
    if (attribute.type == J_MISSING)
        return jx_fail(x, "map requires a filter argument");
    if (!path_of(x, &attribute, &path) || !jx_iter(x, &c->self, &it))
        return false;
    path.fallback = fallback;
    while ((got = jx_next(x, &it, &item)) > 0)
        if (!follow(x, &path, &item, &value) || !jlb_push(b, value))
            return false;
    return got == 0;
}

static bool map_filter(struct jcall *c, struct jlb *b)
{
    struct jx *x = c->x;
    const struct jv *name = &c->raw->pos[0];
    struct jargs args = {c->raw->pos + 1, c->raw->kw, c->raw->n - 1, c->raw->n_kw};
    struct jiter it;
    struct jv item, value;
    int got;
    const struct jbuiltin *f = name->type == J_STR ? jx_filter(name->u.s->p, name->u.s->len) : NULL;
    if (!f)
        return jx_fail(x, "No filter named '%s'.", jx_brief(x, name));
    if (!jx_iter(x, &c->self, &it))
        return false;
    while ((got = jx_next(x, &it, &item)) > 0) {
        if (!jx_enter(x) || !jx_call_builtin(x, f, "filter", &item, &args, &value) || !jlb_push(b, value))
            return false;
        x->depth--;
    }
    return got == 0;
}

static bool f_map(struct jcall *c, struct jv *out)
{
    struct jlb b = {.x = c->x};
    if (jx_truth(&c->self) && !(c->raw->n ? map_filter(c, &b) : map_attribute(c, &b)))
        return false;
    return jlb_done_iter(&b, "generator", out);
}

/* select and reject, on the items (by_attr false) or on an attribute of theirs. */
static bool choose(struct jcall *c, bool keep, bool by_attr, struct jv *out)
{
    struct jx *x = c->x;
    struct jlb b = {.x = x};
    struct path path = {.n = 0, .fallback = {.type = J_MISSING}};
    const struct jbuiltin *test = NULL;
    struct jargs args = {.kw = c->raw->kw, .n_kw = c->raw->n_kw};
    struct jiter it;
    struct jv item, value, yes;
    int got;
    if (!jx_truth(&c->self))
        return jlb_done_iter(&b, "generator", out);
    if (by_attr && !c->raw->n)
        return jx_fail(x, "Missing parameter for attribute name");
    if (by_attr && !path_of(x, &c->raw->pos[0], &path))
        return false;
    if (c->raw->n > by_attr) {
        const struct jv *name = &c->raw->pos[by_attr];
        test = name->type == J_STR ? jx_test(name->u.s->p, name->u.s->len) : NULL;
        if (!test)
            return jx_fail(x, "No test named '%s'.", jx_brief(x, name));
        args.pos = c->raw->pos + by_attr + 1;
        args.n = c->raw->n - by_attr - 1;
    }
    if (!jx_iter(x, &c->self, &it))
        return false;
    while ((got = jx_next(x, &it, &item)) > 0) {
        if (!follow(x, &path, &item, &value))
            return false;
        yes = value;
        if (test && !jx_call_builtin(x, test, "test", &value, &args, &yes))
            return false;
        if (jx_truth(&yes) == keep && !jlb_push(&b, item))
            return false;
    }
    return got == 0 && jlb_done_iter(&b, "generator", out);
}

static bool f_select(struct jcall *c, struct jv *out)
{
    return choose(c, true, false, out);
}

static bool f_reject(struct jcall *c, struct jv *out)
{
    return choose(c, false, false, out);
}

static bool f_selectattr(struct jcall *c, struct jv *out)
{
    return choose(c, true, true, out);
}

static bool f_rejectattr(struct jcall *c, struct jv *out)
{
    return choose(c, false, true, out);
}

/* ---- order and parts ---- */

static bool f_length(struct jcall *c, struct jv *out)
{
    size_t n;
    static const struct jstr name = {"length", 6, 6, false};
    if (c->self.type == J_LOOP)
        return jx_loop_attr(c->x, c->self.u.loop, &name, out);
    if (!jx_length(c->x, &c->self, &n))
        return false;
    *out = jv_int((int64_t)n);
    return true;
}

static bool f_list(struct jcall *c, struct jv *out)
{
    struct jlist *l;
    if (!jx_to_list(c->x, &c->self, &l))
        return false;
    *out = jv_list(l);
    return true;
}

static bool f_first(struct jcall *c, struct jv *out)
{
    struct jiter it;
    if (!jx_iter(c->x, &c->self, &it))
        return false;
    int got = jx_next(c->x, &it, out);
    return got > 0 || (got == 0 && put_empty(c->x, "No first item, sequence was empty.", out));
}

static bool f_last(struct jcall *c, struct jv *out)
{
    struct jlist *l;
    if (c->self.type == J_ITER)
        return jx_fail(c->x, "'%s' object is not reversible", jv_type_name(&c->self));
    if (c->self.type == J_STR && c->self.u.s->cps)
        return jx_item_at(c->x, &c->self, c->self.u.s->cps - 1, out);
    if (!jx_to_list(c->x, &c->self, &l))
        return false;
    if (!l->n)
        return put_empty(c->x, "No last item, sequence was empty.", out);
    *out = l->v[l->n - 1];
    return true;
}

static bool f_reverse(struct jcall *c, struct jv *out)
{
    struct jx *x = c->x;
    struct jlist *l;
    struct jlb b = {.x = x};
    struct jv none = jv_none(), back = jv_int(-1);
    if (c->self.type == J_STR)
        return jx_slice(x, &c->self, &none, &none, &back, out);
    if (!jx_is_iterable(&c->self))
        return jx_fail(x, "argument must be iterable");
    if (!jx_to_list(x, &c->self, &l))
        return false;
    for (size_t i = l->n; i-- > 0;)
        if (!jlb_push(&b, l->v[i]))
            return false;
    return c->self.type == J_ITER ? jlb_done(&b, J_LIST, out) : jlb_done_iter(&b, "list_reverseiterator", out);
}

static bool f_join(struct jcall *c, struct jv *out)
{
    struct jx *x = c->x;
    struct path path;
    struct jiter it;
    struct jv item, part;
    const struct jstr *sep = NULL;
    size_t mark;
    int got;
    if (c->arg[0].type != J_MISSING && !jx_to_str(x, &c->arg[0], &sep))
        return false;
    if (!path_of(x, &c->arg[1], &path) || !jx_iter(x, &c->self, &it))
        return false;
    mark = x->tmp.len;
    for (bool first = true; (got = jx_next(x, &it, &item)) > 0; first = false) {
        if (sep && !first)
            buf_put(&x->tmp, sep->p, sep->len);
        if (!jx_spend_bytes(x, sep ? sep->len : 0) || !follow(x, &path, &item, &part) || !jx_print(x, &x->tmp, &part))
            return false;
    }
    return got == 0 && jx_take(x, mark, out);
}

static bool f_items(struct jcall *c, struct jv *out)
{
    struct jlb b = {.x = c->x};
    struct jlist *l;
    struct jv view = c->self;
    if (c->self.type == J_UNDEF)
        return jlb_done_iter(&b, "generator", out);
    if (c->self.type != J_DICT)
        return jx_fail(c->x, "Can only get item pairs from a mapping.");
    view.type = J_VIEW;
    view.sub = VIEW_ITEMS;
    if (!jx_to_list(c->x, &view, &l))
        return false;
    b = (struct jlb){c->x, l->v, l->n, l->n};
    return jlb_done_iter(&b, "generator", out);
}

static bool f_batch(struct jcall *c, struct jv *out)
{
    struct jx *x = c->x;
    struct jiter it;
    struct jv item, row;
    struct jlb rows = {.x = x}, b = {.x = x};
    int64_t count;
    int got;
    if (!jx_arg_int(c, 0, 0, &count) || !jx_iter(x, &c->self, &it))
        return false;
    while ((got = jx_next(x, &it, &item)) > 0) {
        if ((int64_t)b.n == count) {
            if (!jlb_done(&b, J_LIST, &row) || !jlb_push(&rows, row))
                return false;
            b = (struct jlb){.x = x};
        }
        if (!jlb_push(&b, item))
            return false;
    }
    while (got == 0 && b.n && jx_given(c, 1) && (int64_t)b.n < count)
        if (!jx_spend(x, 1) || !jlb_push(&b, c->arg[1]))
            return false;
    if (got < 0 || (b.n && (!jlb_done(&b, J_LIST, &row) || !jlb_push(&rows, row))))
        return false;
    return jlb_done_iter(&rows, "generator", out);
}

static bool f_slice(struct jcall *c, struct jv *out)
{
    struct jx *x = c->x;
    struct jlist *l;
    struct jlb rows = {.x = x};
    int64_t slices;
    size_t at = 0;
    if (!jx_arg_int(c, 0, 0, &slices) || !jx_to_list(x, &c->self, &l))
        return false;
    if (slices == 0)
        return jx_fail(x, "integer division or modulo by zero");
    for (int64_t i = 0; i < slices; i++) {
        struct jlb b = {.x = x};
        struct jv row;
        size_t each = l->n / (size_t)slices, extra = l->n % (size_t)slices, n = each + ((size_t)i < extra);
        for (size_t k = 0; k < n; k++)
            if (!jlb_push(&b, l->v[at++]))
                return false;
        if (jx_given(c, 1) && (size_t)i >= extra && !jlb_push(&b, c->arg[1]))
            return false;
        if (!jx_spend(x, 1) || !jlb_done(&b, J_LIST, &row) || !jlb_push(&rows, row))
            return false;
    }
    return jlb_done_iter(&rows, "generator", out);
}

const struct jbuiltin jx_filters_seq[] = {
    {"batch", f_batch, "linecount fill_with", 1},
    {"count", f_length, "", 0},
    {"dictsort", f_dictsort, "case_sensitive by reverse", 0},
    {"first", f_first, "", 0},
    {"groupby", f_groupby, "attribute default case_sensitive", 1},
    {"items", f_items, "", 0},
    {"join", f_join, "d attribute", 0},
    {"last", f_last, "", 0},
    {"length", f_length, "", 0},
    {"list", f_list, "", 0},
    {"map", f_map, NULL, 0},
    {"max", f_max, "case_sensitive attribute", 0},
    {"min", f_min, "case_sensitive attribute", 0},
    {"reject", f_reject, NULL, 0},
    {"rejectattr", f_rejectattr, NULL, 0},
    {"reverse", f_reverse, "", 0},
    {"select", f_select, NULL, 0},
    {"selectattr", f_selectattr, NULL, 0},
    {"slice", f_slice, "slices fill_with", 1},
    {"sort", f_sort, "reverse case_sensitive attribute", 0},
    {"sum", f_sum, "attribute start", 0},
    {"unique", f_unique, "case_sensitive attribute", 0},
    {NULL, NULL, NULL, 0},
};
