/* Expressions: evaluation, access, calls. */
#include <string.h>

#include "text/jinja_run.h"
#include "text/jinja_str.h"

/* ---- names ---- */

bool jx_lookup(struct jx *x, struct jscope *s, const struct node *n, struct jv *out)
{
    for (; s; s = s->parent) {
        if (s->n > 32 && !jx_spend(x, s->n / 32))
            return false;
        for (uint32_t i = s->n; i-- > 0;)
            if (s->vars[i].name == n->name) {
                *out = s->vars[i].value.type != J_MISSING ? s->vars[i].value : jv_undef(UNDEF_NAME, 0, n->name);
                return true;
            }
    }
    struct jv key = jv_str(n->name);
    int found = jx_dict_find(x, x->context, &key, out);
    if (found < 0)
        return false;
    if (!found)
        *out = n->u.value.type == J_GLOBAL ? n->u.value : jv_undef(UNDEF_NAME, 0, n->name);
    return true;
}

/* ---- attributes and items ---- */

static bool is_dunder(const struct jstr *s)
{
    return s->len >= 2 && s->p[0] == '_' && s->p[1] == '_';
}

static bool bind_method(struct jx *x, const struct jv *obj, const struct jbuiltin *fn, struct jv *out)
{
    struct jmethod *m = jx_alloc(x, sizeof *m);
    if (!m)
        return false;
    *m = (struct jmethod){*obj, fn};
    *out = (struct jv){.type = J_METHOD, .u.method = m};
    return true;
}

static bool macro_attr(struct jx *x, const struct jmacro *m, const struct jstr *name, struct jv *out)
{
    const struct jsig *sig = m->node->u.sig;
    struct jlb b = {.x = x};
    if (js_is(name, "name")) {
        *out = m->node->name ? jv_str(m->node->name) : jv_none();
        return true;
    }
    if (js_is(name, "arguments")) {
        for (uint32_t i = 0; i < sig->n; i++)
            if (!jlb_push(&b, jv_str(sig->names[i])))
                return false;
        return jlb_done(&b, J_TUPLE, out);
    }
    if (js_is(name, "catch_kwargs") || js_is(name, "catch_varargs") || js_is(name, "caller")) {
        *out = jv_bool(js_is(name, "caller") ? sig->uses_caller
                                             : js_is(name, "catch_kwargs") ? sig->uses_kwargs : sig->uses_varargs);
        return true;
    }
    *out = jv_undef(UNDEF_ATTR, J_MACRO, name);
    return true;
}

/* What Python finds by getattr(): methods and a few properties. *found false: nothing. */
static bool find_attribute(struct jx *x, const struct jv *obj, const struct jstr *name, bool *found, struct jv *out)
{
    *found = true;
    if (is_dunder(name) || jx_is_mutator(obj->type, name->p, name->len)) {
        *out = jv_undef(UNDEF_UNSAFE, obj->type, name);
        return true;
    }
    const struct jbuiltin *fn = jx_method(obj->type, name->p, name->len);
    if (fn)
        return bind_method(x, obj, fn, out);
    if (obj->type == J_TUPLE && obj->u.list->group && (js_is(name, "grouper") || js_is(name, "list"))) {
        *out = obj->u.list->v[name->p[0] == 'l'];
        return true;
    }
    if (obj->type == J_CYCLER && js_is(name, "current")) {
        *out = obj->u.cycler->items->v[obj->u.cycler->pos];
        return true;
    }
    if (jv_is_whole(obj) && (js_is(name, "real") || js_is(name, "numerator"))) {
        *out = jv_int(jv_whole(obj));
        return true;
    }
    *found = false;
    return true;
}

bool jx_getattr(struct jx *x, const struct jv *obj, const struct jstr *name, struct jv *out)
{
    bool found;
    int has;
    struct jv key = jv_str(name);
    switch (obj->type) {
    case J_UNDEF:
        if (!js_is(name, "__class__")) /* the one that Python finds */
            return jx_undef_error(x, obj);
        *out = jv_undef(UNDEF_UNSAFE, J_UNDEF, name);
        return true;
    case J_NS:
        has = jx_dict_find(x, obj->u.dict, &key, out);
        if (!has)
            *out = jv_undef(is_dunder(name) ? UNDEF_UNSAFE : UNDEF_ATTR, J_NS, name);
        return has >= 0;
    case J_LOOP:
        return jx_loop_attr(x, obj->u.loop, name, out);
    case J_MACRO:
        return macro_attr(x, obj->u.macro, name, out);
    default:
        if (!find_attribute(x, obj, name, &found, out))
            return false;
        if (found && !(obj->type == J_DICT && out->type == J_UNDEF && is_dunder(name)))
            return true;
    }
    if (obj->type == J_DICT) {
        struct jv value;
        has = jx_dict_find(x, obj->u.dict, &key, &value);
        if (has < 0)
            return false;
        if (has) {
            *out = value;
            return true;
        }
        if (found)
            return true; /* the unsafe attribute */
    }
    *out = jv_undef(UNDEF_ATTR, obj->type, name);
    return true;
}

static bool no_element(struct jx *x, const struct jv *obj, const struct jv *key, struct jv *out)
{
    if (key->type == J_STR) {
        *out = jv_undef(UNDEF_ATTR, obj->type, key->u.s);
        return true;
    }
    struct jv text;
    size_t mark = x->tmp.len;
    if (key->type == J_INT || key->type == J_FLOAT) {
        if (!jx_repr(x, &x->tmp, key) || !jx_take(x, mark, &text))
            return false;
    } else if (!jx_put_cstr(x, jv_type_name(key), &text)) {
        return false;
    }
    *out = jv_undef(UNDEF_ITEM, obj->type, text.u.s);
    return true;
}

static bool is_indexable(const struct jv *v)
{
    return v->type == J_LIST || v->type == J_TUPLE || v->type == J_STR || v->type == J_RANGE;
}

bool jx_getitem(struct jx *x, const struct jv *obj, const struct jv *key, struct jv *out)
{
    bool found;
    if (obj->type == J_UNDEF)
        return jx_undef_error(x, obj);
    if (obj->type == J_DICT && key->type != J_LIST && key->type != J_DICT) {
        int has = jx_dict_find(x, obj->u.dict, key, out);
        if (has)
            return has > 0;
    }
    if (is_indexable(obj) && jv_is_whole(key)) {
        size_t n;
        int64_t i = jv_whole(key);
        if (!jx_length(x, obj, &n))
            return false;
        if (i < 0)
            i += (int64_t)n;
        return i >= 0 && (uint64_t)i < n ? jx_item_at(x, obj, (size_t)i, out) : no_element(x, obj, key, out);
    }
    if (key->type == J_STR && obj->type != J_DICT)
        return jx_getattr(x, obj, key->u.s, out);
    if (key->type == J_STR) {
        if (!find_attribute(x, obj, key->u.s, &found, out))
            return false;
        if (found)
            return true;
    }
    return no_element(x, obj, key, out);
}

/* ---- slices ---- */

static bool slice_index(struct jx *x, const struct jv *v, int64_t missing, int64_t n, int64_t lo, int64_t hi, int64_t *out)
{
    if (v->type == J_NONE || v->type == J_MISSING) {
        *out = missing;
        return true;
    }
    if (!jv_is_whole(v))
        return jx_fail(x, "slice indices must be integers or None or have an __index__ method");
    int64_t i = jv_whole(v);
    if (i < 0)
        i = i < -n ? lo : i + n;
    *out = i < lo ? lo : i > hi ? hi : i;
    return true;
}

static bool slice_string(struct jx *x, const struct jstr *s, int64_t start, int64_t step, int64_t count, struct jv *out)
{
    if (!jx_spend_bytes(x, s->len))
        return false;
    if (step == 1) {
        size_t from = js_offset(s, (size_t)start), to = js_offset(s, (size_t)(start + count));
        const struct jstr *part = jx_str_ref(x, s->p + from, to - from);
        if (!part)
            return false;
        ((struct jstr *)(uintptr_t)part)->markup = s->markup;
        *out = jv_str(part);
        return true;
    }
    size_t mark = x->tmp.len, at = js_offset(s, (size_t)start);
    for (int64_t i = 0; i < count; i++) {
        buf_put(&x->tmp, s->p + at, js_char_len(s->p + at));
        for (int64_t k = 0; i + 1 < count && k < (step < 0 ? -step : step); k++)
            at = step < 0 ? js_char_back(s->p, at) : at + js_char_len(s->p + at);
    }
    return jx_take_like(x, mark, s, out);
}

static bool slice_range(struct jx *x, const struct jrange *r, int64_t start, int64_t stop, int64_t step, int64_t count,
                        struct jv *out)
{
    struct jrange *made = jx_alloc(x, sizeof *made);
    if (!made)
        return false;
    /* unsigned: ends and steps that no element reaches may wrap */
    uint64_t by = (uint64_t)r->step, first = (uint64_t)r->start + by * (uint64_t)start;
    *made = (struct jrange){(int64_t)first, (int64_t)(by * (uint64_t)step), (int64_t)((uint64_t)r->start + by * (uint64_t)stop),
                            (size_t)count};
    *out = (struct jv){.type = J_RANGE, .u.range = made};
    return true;
}

bool jx_slice(struct jx *x, const struct jv *obj, const struct jv *start, const struct jv *stop, const struct jv *step,
              struct jv *out)
{
    size_t len;
    int64_t from = 0, to = 0, by = 1;
    if (obj->type == J_UNDEF)
        return jx_undef_error(x, obj);
    if (!is_indexable(obj))
        return obj->type == J_DICT ? jx_fail(x, "unhashable type: 'slice'")
                                   : jx_fail(x, "'%s' object is not subscriptable", jv_type_name(obj));
    if (!jx_length(x, obj, &len))
        return false;
    int64_t n = (int64_t)len;
    if (step->type != J_NONE && step->type != J_MISSING) {
        if (!jv_is_whole(step))
            return jx_fail(x, "slice indices must be integers or None or have an __index__ method");
        by = jv_whole(step);
        if (by == 0)
            return jx_fail(x, "slice step cannot be zero");
    }
    if (by > n + 1)
        by = n + 1; /* as good as any larger one */
    if (by < -n - 1)
        by = -n - 1;
    int64_t lo = by > 0 ? 0 : -1, hi = by > 0 ? n : n - 1;
    if (!slice_index(x, start, by > 0 ? 0 : n - 1, n, lo, hi, &from) ||
        !slice_index(x, stop, by > 0 ? n : -1, n, lo, hi, &to))
        return false;
    int64_t count = by > 0 ? (to > from ? (to - from - 1) / by + 1 : 0) : (from > to ? (from - to - 1) / -by + 1 : 0);
    if (obj->type == J_STR)
        return slice_string(x, obj->u.s, count ? from : 0, count ? by : 1, count, out);
    if (obj->type == J_RANGE)
        return slice_range(x, obj->u.range, from, to, by, count, out);
    struct jv *v = jx_spend(x, (uint64_t)count / 8 + 1) ? jx_array(x, (size_t)count, sizeof *v) : NULL;
    struct jlist *l = v ? jx_list(x, v, (size_t)count) : NULL;
    for (int64_t i = 0; l && i < count; i++)
        v[i] = obj->u.list->v[from + i * by];
    *out = (struct jv){.type = obj->type, .u.list = l};
    return l != NULL;
}

/* ---- calls ---- */

const struct jbuiltin *jx_find(const struct jbuiltin *table, const char *name, size_t len)
{
    for (; table->name; table++)
        if (!strncmp(table->name, name, len) && !table->name[len])
            return table;
    return NULL;
}

/* The position of a parameter in a list of blank-separated names, or -1; counts them all when name is NULL. */
static int param_index(const char *params, const struct jstr *name)
{
    int i = 0;
    for (const char *p = params; *p; i++) {
        size_t n = strcspn(p, " ");
        if (name && name->len == n && !memcmp(name->p, p, n))
            return i;
        p += n + (p[n] == ' ');
    }
    return name ? -1 : i;
}

static bool bind_arguments(struct jx *x, struct jcall *c, const struct jbuiltin *fn, const struct jargs *args)
{
    size_t count = (size_t)param_index(fn->params, NULL);
    for (size_t i = 0; i < JX_MAX_PARAMS; i++)
        c->arg[i] = (struct jv){.type = J_MISSING};
    if (args->n > count)
        return jx_fail(x, "%s takes at most %d arguments, %d given", c->name, (int)count, (int)args->n);
    for (size_t i = 0; i < args->n; i++)
        c->arg[i] = args->pos[i];
    for (size_t i = 0; i < args->n_kw; i++) {
        int at = param_index(fn->params, args->kw[i].name);
        int n = (int)(args->kw[i].name->len < 80 ? args->kw[i].name->len : 80);
        if (at < 0)
            return jx_fail(x, "%s got an unexpected keyword argument '%.*s'", c->name, n, args->kw[i].name->p);
        if (c->arg[at].type != J_MISSING)
            return jx_fail(x, "%s got multiple values for argument '%.*s'", c->name, n, args->kw[i].name->p);
        c->arg[at] = args->kw[i].value;
    }
    for (size_t i = 0; i < fn->required; i++)
        if (c->arg[i].type == J_MISSING)
            return jx_fail(x, "%s misses a required argument", c->name);
    return true;
}

bool jx_call_builtin(struct jx *x, const struct jbuiltin *fn, const char *what, const struct jv *self,
                     const struct jargs *args, struct jv *out)
{
    static const struct jargs none;
    struct jcall c;
    (void)what;
    if (!args)
        args = &none;
    c.x = x;
    c.self = self ? *self : (struct jv){.type = J_MISSING};
    c.raw = args;
    c.name = fn->name;
    if (!jx_spend(x, 1) || (fn->params && !bind_arguments(x, &c, fn, args)))
        return false;
    return fn->fn(&c, out);
}

bool jx_call(struct jx *x, const struct jv *fn, const struct jargs *args, struct jv *out)
{
    switch (fn->type) {
    case J_UNDEF:
        return jx_undef_error(x, fn);
    case J_MACRO:
        return jx_call_macro(x, fn->u.macro, args, out);
    case J_METHOD:
        return jx_call_builtin(x, fn->u.method->fn, "method", &fn->u.method->self, args, out);
    case J_GLOBAL:
        return jx_call_builtin(x, fn->u.global, "function", NULL, args, out);
    case J_LOOP:
        if (args->n != 1 || args->n_kw)
            return jx_fail(x, "loop() takes one argument");
        return jx_call_loop(x, fn->u.loop, &args->pos[0], out);
    case J_JOINER:
        if (args->n || args->n_kw)
            return jx_fail(x, "a joiner takes no arguments");
        if (fn->u.joiner->used) {
            *out = fn->u.joiner->sep;
            return true;
        }
        fn->u.joiner->used = true;
        return jx_put_str(x, "", 0, out);
    default:
        return jx_fail(x, "'%s' object is not callable", jv_type_name(fn));
    }
}

static bool add_star(struct jx *x, const struct jv *star, struct jargs *a)
{
    struct jlist *l;
    if (!jx_to_list(x, star, &l))
        return false;
    struct jv *v = jx_array(x, a->n + l->n, sizeof *v);
    if (!v)
        return false;
    if (a->n)
        memcpy(v, a->pos, a->n * sizeof *v);
    if (l->n)
        memcpy(v + a->n, l->v, l->n * sizeof *v);
    a->pos = v;
    a->n += l->n;
    return true;
}

static bool add_star2(struct jx *x, const struct jv *map, struct jargs *a)
{
    if (map->type != J_DICT)
        return jx_fail(x, "argument after ** must be a mapping, not %s", jv_type_name(map));
    const struct jdict *d = map->u.dict;
    struct jkw *kw = jx_spend(x, d->n) ? jx_array(x, a->n_kw + d->n, sizeof *kw) : NULL;
    if (!kw)
        return false;
    if (a->n_kw)
        memcpy(kw, a->kw, a->n_kw * sizeof *kw);
    a->kw = kw;
    size_t written = a->n_kw; /* those of the dict differ among each other */
    for (size_t i = 0; i < d->n; i++) {
        if (d->items[i].key.type != J_STR)
            return jx_fail(x, "keywords must be strings");
        if (!jx_spend(x, written / 8))
            return false;
        for (size_t k = 0; k < written; k++)
            if (js_same(kw[k].name, d->items[i].key.u.s))
                return jx_fail(x, "got multiple values for a keyword argument");
        kw[a->n_kw++] = (struct jkw){d->items[i].key.u.s, d->items[i].value};
    }
    return true;
}

bool jx_eval_args(struct jx *x, struct jscope *s, const struct jcallargs *a, struct jargs *out)
{
    struct jv v;
    *out = (struct jargs){0};
    if (!a)
        return true;
    out->n = a->n;
    out->n_kw = a->n_kw;
    out->pos = a->n ? jx_array(x, a->n, sizeof *out->pos) : NULL;
    out->kw = a->n_kw ? jx_array(x, a->n_kw, sizeof *out->kw) : NULL;
    if ((a->n && !out->pos) || (a->n_kw && !out->kw))
        return false;
    for (uint32_t i = 0; i < a->n; i++)
        if (!jx_eval(x, s, a->pos[i], &out->pos[i]))
            return false;
    for (uint32_t i = 0; i < a->n_kw; i++) {
        out->kw[i].name = a->kw[i].name;
        if (!jx_eval(x, s, a->kw[i].value, &out->kw[i].value))
            return false;
    }
    if (a->star && (!jx_eval(x, s, a->star, &v) || !add_star(x, &v, out)))
        return false;
    return !a->star2 || (jx_eval(x, s, a->star2, &v) && add_star2(x, &v, out));
}

static bool eval_call(struct jx *x, struct jscope *s, const struct node *n, struct jv *out)
{
    struct jv fn, obj;
    struct jargs args;
    const struct jbuiltin *method = NULL;
    if (n->a->kind == N_ATTR) { /* obj.method(...): no bound method is made */
        if (!jx_eval(x, s, n->a->a, &obj))
            return false;
        method = jx_method(obj.type, n->a->name->p, n->a->name->len);
        x->pos = n->a->pos;
        if (!method && !jx_getattr(x, &obj, n->a->name, &fn))
            return false;
    } else if (!jx_eval(x, s, n->a, &fn)) {
        return false;
    }
    if (!jx_eval_args(x, s, n->u.call.args, &args))
        return false;
    x->pos = n->pos;
    return method ? jx_call_builtin(x, method, "method", &obj, &args, out) : jx_call(x, &fn, &args, out);
}

bool jx_apply_filter(struct jx *x, struct jscope *s, const struct node *n, const struct jv *in, struct jv *out)
{
    struct jv value = *in;
    struct jargs args;
    if (n->a) { /* a filter block with a chain: the innermost takes the text */
        if (!jx_enter(x) || !jx_apply_filter(x, s, n->a, in, &value))
            return false;
        x->depth--;
    }
    x->pos = n->pos;
    if (!n->u.call.fn)
        return jx_fail(x, "No filter named '%.*s' found.", (int)(n->name->len < 80 ? n->name->len : 80), n->name->p);
    if (!jx_eval_args(x, s, n->u.call.args, &args))
        return false;
    x->pos = n->pos;
    return jx_call_builtin(x, n->u.call.fn, "filter", &value, &args, out);
}

static bool eval_filter(struct jx *x, struct jscope *s, const struct node *n, struct jv *out)
{
    struct jv value;
    struct jargs args;
    if (!jx_eval(x, s, n->a, &value))
        return false;
    x->pos = n->pos;
    if (!n->u.call.fn)
        return jx_fail(x, "No filter named '%.*s' found.", (int)(n->name->len < 80 ? n->name->len : 80), n->name->p);
    if (!jx_eval_args(x, s, n->u.call.args, &args))
        return false;
    x->pos = n->pos;
    return jx_call_builtin(x, n->u.call.fn, "filter", &value, &args, out);
}

static bool eval_test(struct jx *x, struct jscope *s, const struct node *n, struct jv *out)
{
    struct jv value;
    struct jargs args;
    if (!jx_eval(x, s, n->a, &value))
        return false;
    x->pos = n->pos;
    if (!n->u.call.fn)
        return jx_fail(x, "No test named '%.*s' found.", (int)(n->name->len < 80 ? n->name->len : 80), n->name->p);
    return jx_eval_args(x, s, n->u.call.args, &args) && jx_call_builtin(x, n->u.call.fn, "test", &value, &args, out);
}

/* ---- the rest of the expressions ---- */

static bool eval_items(struct jx *x, struct jscope *s, const struct node *n, uint8_t type, struct jv *out)
{
    struct jv *v = jx_array(x, n->n, sizeof *v);
    struct jlist *l = v ? jx_list(x, v, n->n) : NULL;
    if (!l)
        return false;
    for (uint32_t i = 0; i < n->n; i++)
        if (!jx_eval(x, s, n->list[i], &v[i]))
            return false;
    *out = (struct jv){.type = type, .u.list = l};
    return true;
}

static bool eval_dict(struct jx *x, struct jscope *s, const struct node *n, struct jv *out)
{
    struct jdict *d = jx_dict(x, n->n / 2);
    for (uint32_t i = 0; d && i < n->n; i += 2) {
        struct jv key, value;
        if (!jx_eval(x, s, n->list[i], &key) || !jx_eval(x, s, n->list[i + 1], &value) || !jx_dict_set(x, d, key, value))
            return false;
    }
    if (d)
        *out = jv_dict(d);
    return d != NULL;
}

static bool eval_slice(struct jx *x, struct jscope *s, const struct node *n, struct jv *out)
{
    struct jv obj, part[3];
    if (!jx_eval(x, s, n->a, &obj))
        return false;
    for (int i = 0; i < 3; i++) {
        part[i] = jv_none();
        if (n->list[i] && !jx_eval(x, s, n->list[i], &part[i]))
            return false;
    }
    x->pos = n->pos;
    return jx_slice(x, &obj, &part[0], &part[1], &part[2], out);
}

static bool eval_concat(struct jx *x, struct jscope *s, const struct node *n, struct jv *out)
{
    size_t mark = x->tmp.len;
    for (uint32_t i = 0; i < n->n; i++) {
        struct jv v;
        if (!jx_eval(x, s, n->list[i], &v) || !jx_print(x, &x->tmp, &v))
            return false;
    }
    return jx_take(x, mark, out);
}

static bool eval_compare(struct jx *x, struct jscope *s, const struct node *n, struct jv *out)
{
    struct jv left, right;
    bool yes = true;
    if (!jx_eval(x, s, n->a, &left))
        return false;
    for (uint32_t i = 0; yes && i < n->n; i++) {
        if (!jx_eval(x, s, n->list[i]->a, &right))
            return false;
        x->pos = n->pos;
        if (!jx_compare(x, n->list[i]->op, &left, &right, &yes))
            return false;
        left = right;
    }
    *out = jv_bool(yes);
    return true;
}

static bool eval_logic(struct jx *x, struct jscope *s, const struct node *n, struct jv *out)
{
    if (!jx_eval(x, s, n->a, out))
        return false;
    if (jx_truth(out) == (n->kind == N_OR))
        return true;
    return jx_eval(x, s, n->b, out);
}

static bool eval_cond(struct jx *x, struct jscope *s, const struct node *n, struct jv *out)
{
    struct jv test;
    static const char hint[] = "the inline if-expression evaluated to false and no else section was defined.";
    if (!jx_eval(x, s, n->a, &test))
        return false;
    if (jx_truth(&test))
        return jx_eval(x, s, n->b, out);
    if (n->c)
        return jx_eval(x, s, n->c, out);
    const struct jstr *text = jx_str_ref(x, hint, sizeof hint - 1);
    *out = jv_undef(UNDEF_HINT, 0, text);
    return text != NULL;
}

static bool eval_unary(struct jx *x, struct jscope *s, const struct node *n, struct jv *out)
{
    struct jv v;
    if (!jx_eval(x, s, n->a, &v))
        return false;
    x->pos = n->pos;
    if (n->kind == N_NEG)
        return jx_negate(x, &v, out);
    if (n->kind == N_POS)
        return jx_positive(x, &v, out);
    *out = jv_bool(!jx_truth(&v));
    return true;
}

static bool eval_pairwise(struct jx *x, struct jscope *s, const struct node *n, struct jv *out)
{
    struct jv a, b;
    if (!jx_eval(x, s, n->a, &a) || !jx_eval(x, s, n->b, &b))
        return false;
    x->pos = n->pos;
    return n->kind == N_ITEM ? jx_getitem(x, &a, &b, out) : jx_binary(x, n->op, &a, &b, out);
}

static bool eval_attr(struct jx *x, struct jscope *s, const struct node *n, struct jv *out)
{
    struct jv obj;
    if (!jx_eval(x, s, n->a, &obj))
        return false;
    x->pos = n->pos;
    return jx_getattr(x, &obj, n->name, out);
}

static bool eval_inner(struct jx *x, struct jscope *s, const struct node *n, struct jv *out)
{
    switch (n->kind) {
    case N_TUPLE:
        return eval_items(x, s, n, J_TUPLE, out);
    case N_LIST:
        return eval_items(x, s, n, J_LIST, out);
    case N_DICT:
        return eval_dict(x, s, n, out);
    case N_ATTR:
        return eval_attr(x, s, n, out);
    case N_SLICE:
        return eval_slice(x, s, n, out);
    case N_CALL:
        return eval_call(x, s, n, out);
    case N_FILTER:
        return eval_filter(x, s, n, out);
    case N_TEST:
        return eval_test(x, s, n, out);
    case N_NOT:
    case N_NEG:
    case N_POS:
        return eval_unary(x, s, n, out);
    case N_AND:
    case N_OR:
        return eval_logic(x, s, n, out);
    case N_ITEM:
    case N_BINARY:
        return eval_pairwise(x, s, n, out);
    case N_CONCAT:
        return eval_concat(x, s, n, out);
    case N_COMPARE:
        return eval_compare(x, s, n, out);
    case N_COND:
        return eval_cond(x, s, n, out);
    default:
        return jx_fail(x, "this is not an expression");
    }
}

bool jx_eval(struct jx *x, struct jscope *s, const struct node *n, struct jv *out)
{
    if (!jx_spend(x, 1))
        return false;
    x->pos = n->pos;
    if (n->kind == N_CONST) {
        *out = n->u.value;
        return true;
    }
    if (n->kind == N_NAME)
        return jx_lookup(x, s, n, out);
    if (!jx_enter(x))
        return false;
    bool ok = eval_inner(x, s, n, out);
    x->depth--;
    return ok;
}

/* ---- arguments of built-ins ---- */

bool jx_given(const struct jcall *c, size_t i)
{
    return c->arg[i].type != J_MISSING && c->arg[i].type != J_NONE;
}

bool jx_arg_int(struct jcall *c, size_t i, int64_t missing, int64_t *out)
{
    *out = missing;
    if (!jx_given(c, i))
        return true;
    if (!jv_is_whole(&c->arg[i]))
        return jx_fail(c->x, "%s: an integer is required, not '%s'", c->name, jv_type_name(&c->arg[i]));
    *out = jv_whole(&c->arg[i]);
    return true;
}

bool jx_arg_bool(struct jcall *c, size_t i, bool missing)
{
    return c->arg[i].type == J_MISSING ? missing : jx_truth(&c->arg[i]);
}

bool jx_arg_str(struct jcall *c, size_t i, const struct jstr **out)
{
    *out = NULL;
    if (!jx_given(c, i))
        return true;
    if (c->arg[i].type != J_STR)
        return jx_fail(c->x, "%s: a string is required, not '%s'", c->name, jv_type_name(&c->arg[i]));
    *out = c->arg[i].u.s;
    return true;
}
