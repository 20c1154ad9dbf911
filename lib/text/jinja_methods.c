/* Methods of dicts, lists and the engine's own objects; global functions. */
#include "text/jinja_methods.h"

#include <string.h>

#include "text/jinja_str.h"
#include "text/strftime.h"

/* ---- dict ---- */

static bool d_get(struct jcall *c, struct jv *out)
{
    int found = jx_dict_find(c->x, c->self.u.dict, &c->arg[0], out);
    if (!found)
        *out = c->arg[1].type == J_MISSING ? jv_none() : c->arg[1];
    return found >= 0;
}

static bool view(struct jcall *c, enum jview sub, struct jv *out)
{
    *out = c->self;
    out->type = J_VIEW;
    out->sub = (uint8_t)sub;
    return true;
}

static bool d_keys(struct jcall *c, struct jv *out) { return view(c, VIEW_KEYS, out); }
static bool d_values(struct jcall *c, struct jv *out) { return view(c, VIEW_VALUES, out); }
static bool d_items(struct jcall *c, struct jv *out) { return view(c, VIEW_ITEMS, out); }

static bool m_copy(struct jcall *c, struct jv *out) /* nothing changes, so a copy may be shared */
{
    *out = c->self;
    return true;
}

/* ---- list, tuple, range ---- */

static bool l_index(struct jcall *c, struct jv *out)
{
    struct jiter it;
    struct jv item;
    size_t len;
    int64_t start, end, i = 0;
    int got;
    if (!jx_length(c->x, &c->self, &len) || !jx_arg_int(c, 1, 0, &start) || !jx_arg_int(c, 2, (int64_t)len, &end) ||
        !jx_iter(c->x, &c->self, &it))
        return false;
    start = start < 0 ? start + (int64_t)len : start;
    end = end < 0 ? end + (int64_t)len : end;
    for (; (got = jx_next(c->x, &it, &item)) > 0; i++) {
        bool same;
        if (i < start || i >= end)
            continue;
        if (!jx_equal(c->x, &item, &c->arg[0], &same))
            return false;
        if (same) {
            *out = jv_int(i);
            return true;
        }
    }
    return got == 0 && jx_fail(c->x, "%s is not in %s", jx_brief(c->x, &c->arg[0]), jv_type_name(&c->self));
}

static bool l_count(struct jcall *c, struct jv *out)
{
    struct jiter it;
    struct jv item;
    int64_t n = 0;
    int got;
    if (!jx_iter(c->x, &c->self, &it))
        return false;
    while ((got = jx_next(c->x, &it, &item)) > 0) {
        bool same;
        if (!jx_equal(c->x, &item, &c->arg[0], &same))
            return false;
        n += same;
    }
    *out = jv_int(n);
    return got == 0;
}

/* ---- loop, cycler ---- */

static bool loop_cycle(struct jcall *c, struct jv *out)
{
    if (!c->raw->n)
        return jx_fail(c->x, "no items for cycling given");
    *out = c->raw->pos[(size_t)c->self.u.loop->index0 % c->raw->n];
    return true;
}

static bool loop_changed(struct jcall *c, struct jv *out)
{
    struct jloop *l = c->self.u.loop;
    struct jlist *args = jx_list(c->x, c->raw->pos, c->raw->n);
    struct jv now = jv_tuple(args);
    bool same = false;
    if (!args || (l->changed.type == J_TUPLE && !jx_equal(c->x, &l->changed, &now, &same)))
        return false;
    l->changed = now;
    *out = jv_bool(!same);
    return true;
}

static bool cycler_next(struct jcall *c, struct jv *out)
{
    struct jcycler *y = c->self.u.cycler;
    *out = y->items->v[y->pos];
    y->pos = (y->pos + 1) % y->items->n;
    return true;
}

static bool cycler_reset(struct jcall *c, struct jv *out)
{
    c->self.u.cycler->pos = 0;
    *out = jv_none();
    return true;
}

static const struct jbuiltin dict_methods[] = {
    {"copy", m_copy, "", 0}, {"get", d_get, "key default", 1}, {"items", d_items, "", 0},
    {"keys", d_keys, "", 0}, {"values", d_values, "", 0},      {NULL, NULL, NULL, 0}};

static const struct jbuiltin list_methods[] = {
    {"copy", m_copy, "", 0}, {"count", l_count, "value", 1}, {"index", l_index, "value start end", 1}, {NULL, NULL, NULL, 0}};

static const struct jbuiltin tuple_methods[] = {
    {"count", l_count, "value", 1}, {"index", l_index, "value start end", 1}, {NULL, NULL, NULL, 0}};

static const struct jbuiltin loop_methods[] = {
    {"changed", loop_changed, NULL, 0}, {"cycle", loop_cycle, NULL, 0}, {NULL, NULL, NULL, 0}};

static const struct jbuiltin cycler_methods[] = {
    {"next", cycler_next, "", 0}, {"reset", cycler_reset, "", 0}, {NULL, NULL, NULL, 0}};

const struct jbuiltin *jx_method(uint8_t type, const char *name, size_t len)
{
    switch (type) {
    case J_STR:
        return jx_find(jx_str_methods, name, len);
    case J_DICT:
        return jx_find(dict_methods, name, len);
    case J_LIST:
        return jx_find(list_methods, name, len);
    case J_TUPLE:
    case J_RANGE:
        return jx_find(tuple_methods, name, len);
    case J_LOOP:
        return jx_find(loop_methods, name, len);
    case J_CYCLER:
        return jx_find(cycler_methods, name, len);
    default:
        return NULL;
    }
}

bool jx_is_mutator(uint8_t type, const char *name, size_t len)
{
    static const char *const of_list[] = {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort", NULL};
    static const char *const of_dict[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};
    const char *const *p = type == J_LIST ? of_list : type == J_DICT ? of_dict : of_list + 8;
    for (; *p; p++)
        if (strlen(*p) == len && !memcmp(*p, name, len))
            return true;
    return false;
}

/* ---- global functions ---- */

static bool g_range(struct jcall *c, struct jv *out)
{
    struct jrange *r = jx_alloc(c->x, sizeof *r);
    for (int i = 0; i < 3; i++) {
        if (c->arg[i].type == J_UNDEF)
            return jx_undef_error(c->x, &c->arg[i]);
        if (c->arg[i].type != J_MISSING && !jv_is_whole(&c->arg[i]))
            return jx_fail(c->x, "'%s' object cannot be interpreted as an integer", jv_type_name(&c->arg[i]));
    }
    bool one = c->arg[1].type == J_MISSING;
    int64_t start = one ? 0 : jv_whole(&c->arg[0]), stop = jv_whole(&c->arg[!one]);
    int64_t step = c->arg[2].type == J_MISSING ? 1 : jv_whole(&c->arg[2]);
    if (!r)
        return false;
    if (step == 0)
        return jx_fail(c->x, "range() arg 3 must not be zero");
    uint64_t span = step > 0 ? (stop > start ? (uint64_t)stop - (uint64_t)start : 0)
                             : (start > stop ? (uint64_t)start - (uint64_t)stop : 0);
    uint64_t by = step > 0 ? (uint64_t)step : 0 - (uint64_t)step, n = span ? (span - 1) / by + 1 : 0;
    if (n > JX_MAX_RANGE)
        return jx_limit(c->x, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
    *r = (struct jrange){start, step, stop, (size_t)n};
    *out = (struct jv){.type = J_RANGE, .u.range = r};
    return true;
}

static bool add_pairs(struct jx *x, struct jdict *d, const struct jv *from)
{
    struct jiter it;
    struct jv pair;
    int got;
    if (from->type == J_DICT) {
        for (size_t i = 0; i < from->u.dict->n; i++)
            if (!jx_dict_set(x, d, from->u.dict->items[i].key, from->u.dict->items[i].value))
                return false;
        return true;
    }
    if (!jx_iter(x, from, &it))
        return false;
    while ((got = jx_next(x, &it, &pair)) > 0) {
        struct jlist *l;
        if (!jx_to_list(x, &pair, &l))
            return false;
        if (l->n != 2)
            return jx_fail(x, "dictionary update sequence element has length %d; 2 is required", (int)l->n);
        if (!jx_dict_set(x, d, l->v[0], l->v[1]))
            return false;
    }
    return got == 0;
}

static bool g_dict(struct jcall *c, struct jv *out)
{
    struct jdict *d = jx_dict(c->x, c->raw->n_kw);
    if (c->raw->n > 1)
        return jx_fail(c->x, "dict expected at most 1 argument, got %d", (int)c->raw->n);
    if (!d || (c->raw->n && !add_pairs(c->x, d, &c->raw->pos[0])))
        return false;
    for (size_t i = 0; i < c->raw->n_kw; i++)
        if (!jx_dict_set(c->x, d, jv_str(c->raw->kw[i].name), c->raw->kw[i].value))
            return false;
    *out = jv_dict(d);
    return true;
}

static bool g_namespace(struct jcall *c, struct jv *out)
{
    if (!g_dict(c, out))
        return false;
    out->type = J_NS;
    return true;
}

static bool g_cycler(struct jcall *c, struct jv *out)
{
    struct jcycler *y = jx_alloc(c->x, sizeof *y);
    struct jlist *l = jx_list(c->x, c->raw->pos, c->raw->n);
    if (!y || !l)
        return false;
    if (!l->n)
        return jx_fail(c->x, "at least one item has to be provided");
    *y = (struct jcycler){l, 0};
    *out = (struct jv){.type = J_CYCLER, .u.cycler = y};
    return true;
}

static bool g_joiner(struct jcall *c, struct jv *out)
{
    struct jjoiner *j = jx_alloc(c->x, sizeof *j);
    if (!j)
        return false;
    *j = (struct jjoiner){.sep = c->arg[0]};
    if (c->arg[0].type == J_MISSING && !jx_put_cstr(c->x, ", ", &j->sep))
        return false;
    *out = (struct jv){.type = J_JOINER, .u.joiner = j};
    return true;
}

static bool g_raise_exception(struct jcall *c, struct jv *out)
{
    (void)out;
    return jx_fail(c->x, "%s", jx_brief(c->x, &c->arg[0]));
}

static bool g_strftime_now(struct jcall *c, struct jv *out)
{
    const struct jstr *fmt;
    size_t mark = c->x->tmp.len;
    if (!jx_arg_str(c, 0, &fmt) || !fmt)
        return c->x->status == INFER_OK && jx_fail(c->x, "strftime_now: a string is required");
    text_strftime(&c->x->tmp, fmt->p, fmt->len, c->x->now);
    return jx_spend_bytes(c->x, fmt->len) && jx_take(c->x, mark, out);
}

static const struct jbuiltin globals[] = {
    {"cycler", g_cycler, NULL, 0},
    {"dict", g_dict, NULL, 0},
    {"joiner", g_joiner, "sep", 0},
    {"namespace", g_namespace, NULL, 0},
    {"raise_exception", g_raise_exception, "message", 1},
    {"range", g_range, "start stop step", 1},
    {"strftime_now", g_strftime_now, "format", 1},
    {NULL, NULL, NULL, 0},
};

const struct jbuiltin *jx_global(const char *name, size_t len)
{
    return jx_find(globals, name, len);
}
