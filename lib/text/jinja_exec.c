/* Statements, macros, loops, and a rendering as a whole. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/utf8.h"
#include "text/jinja_run.h"
#include "text/jinja_str.h"

enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE, FLOW_FAIL };

static enum flow exec(struct jx *x, struct jscope *s, const struct node *n);

/* ---- errors, limits, memory ---- */

static void record(struct jx *x, infer_status code, const char *text)
{
    if (x->status == INFER_OK)
        x->status = err_at(x->err, code, NULL, 0, jinja_offset(x->tmpl, x->pos), "template line %lu: %.*s",
                           (unsigned long)jinja_line(x->tmpl, x->pos), (int)utf8_complete(text, strlen(text)), text);
}

bool jx_fail(struct jx *x, const char *fmt, ...)
{
    char text[440];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    record(x, INFER_ERROR_TEMPLATE, text);
    return false;
}

bool jx_limit(struct jx *x, const char *what)
{
    record(x, INFER_ERROR_LIMIT, what);
    return false;
}

bool jx_buf_failed(struct jx *x, const struct buf *b)
{
    if (b->over_limit)
        return jx_limit(x, b == x->out ? "output is too long" : "too much memory");
    if (x->status == INFER_OK)
        x->status = err_no_memory(x->err);
    return false;
}

bool jx_spend_slow(struct jx *x)
{
    if (x->steps >= x->max_steps)
        return jx_limit(x, "too many steps");
    if (cancel_is_set(x->cancel)) {
        if (x->status == INFER_OK)
            x->status = err_set(x->err, INFER_ERROR_CANCELLED, "cancelled");
        return false;
    }
    x->next_poll = x->steps + 1024 < x->max_steps ? x->steps + 1024 : x->max_steps;
    return true;
}

void *jx_alloc(struct jx *x, size_t size)
{
    void *p = arena_alloc(&x->arena, size);
    if (!p) {
        size_t whole = size > SIZE_MAX - 15 ? SIZE_MAX : (size + 15) & ~(size_t)15; /* as the arena counts */
        if (whole > x->arena.limit || x->arena.used > x->arena.limit - whole)
            jx_limit(x, "too much memory");
        else if (x->status == INFER_OK)
            x->status = err_no_memory(x->err);
    }
    return p;
}

void *jx_array(struct jx *x, size_t n, size_t size)
{
    if (n > SIZE_MAX / 2 / size) {
        jx_limit(x, "too much memory");
        return NULL;
    }
    return jx_alloc(x, n * size);
}

bool jx_enter(struct jx *x)
{
    if (x->depth >= JX_MAX_DEPTH)
        return jx_limit(x, "nested too deep (recursion)");
    x->depth++;
    return true;
}

/* ---- variables ---- */

bool jx_set_var(struct jx *x, struct jscope *s, const struct jstr *name, struct jv v)
{
    if (s->n > 32 && !jx_spend(x, s->n / 32))
        return false;
    for (uint32_t i = s->n; i-- > 0;)
        if (s->vars[i].name == name) {
            s->vars[i].value = v;
            return true;
        }
    if (s->n == s->cap) {
        uint32_t cap = s->cap ? s->cap * 2 : 4;
        struct jvar *grown = jx_array(x, cap, sizeof *grown);
        if (!grown)
            return false;
        if (s->n)
            memcpy(grown, s->vars, s->n * sizeof *grown);
        s->vars = grown;
        s->cap = cap;
    }
    s->vars[s->n++] = (struct jvar){name, v};
    return true;
}

static struct jscope *new_scope(struct jx *x, struct jscope *parent)
{
    struct jscope *s = jx_alloc(x, sizeof *s);
    if (s)
        *s = (struct jscope){.parent = parent};
    return s;
}

static bool assign(struct jx *x, struct jscope *s, const struct node *target, const struct jv *v);

static bool assign_tuple(struct jx *x, struct jscope *s, const struct node *target, const struct jv *v)
{
    struct jlist *l;
    if (!jx_is_iterable(v))
        return jx_fail(x, "cannot unpack non-iterable %s object", jv_type_name(v));
    if (!jx_to_list(x, v, &l))
        return false;
    if (l->n < target->n)
        return jx_fail(x, "not enough values to unpack (expected %d, got %d)", (int)target->n, (int)l->n);
    if (l->n > target->n)
        return jx_fail(x, "too many values to unpack (expected %d)", (int)target->n);
    for (uint32_t i = 0; i < target->n; i++)
        if (!assign(x, s, target->list[i], &l->v[i]))
            return false;
    return true;
}

static bool assign(struct jx *x, struct jscope *s, const struct node *target, const struct jv *v)
{
    if (target->kind == N_NAME)
        return jx_set_var(x, s, target->name, *v);
    x->pos = target->pos;
    if (target->kind == N_TUPLE)
        return assign_tuple(x, s, target, v);
    struct jv ns;
    if (!jx_lookup(x, s, target, &ns))
        return false;
    if (ns.type != J_NS)
        return jx_fail(x, "cannot assign attribute on non-namespace object");
    return jx_dict_set(x, ns.u.dict, target->b->u.value, *v);
}

/* ---- captured output ---- */

/* Turns what was written since the mark into a string value. */
static bool take_output(struct jx *x, size_t mark, struct jv *out)
{
    if (!buf_ok(x->out))
        return jx_buf_failed(x, x->out);
    bool ok = jx_put_str(x, x->out->data ? x->out->data + mark : "", x->out->len - mark, out);
    x->out->len = mark;
    return ok;
}

static bool capture(struct jx *x, struct jscope *s, const struct node *body, struct jv *out)
{
    size_t mark = x->out->len;
    struct jscope *inner = new_scope(x, s);
    return inner && exec(x, inner, body) != FLOW_FAIL && take_output(x, mark, out);
}

/* ---- loops ---- */

/* The next item that passes the loop's test: 1, 0: end, -1: failure. */
static int loop_fetch(struct jx *x, struct jloop *l, struct jv *out)
{
    int got;
    if (l->drained) {
        if (l->rest_pos >= l->rest->n)
            return 0;
        *out = l->rest->v[l->rest_pos++];
        return 1;
    }
    const struct node *test = l->node->list[0];
    struct jscope *s = NULL;
    while ((got = jx_next(x, &l->it, out)) > 0 && test) {
        struct jv yes;
        struct jlist *parts;
        if (l->node->a->kind == N_TUPLE && jx_is_iterable(out)) { /* a filter hands on what it unpacked, as a tuple */
            if (!jx_to_list(x, out, &parts))
                return -1;
            *out = jv_tuple(parts);
        }
        if (!s)
            s = new_scope(x, l->outer);
        if (!s || !assign(x, s, l->node->a, out) || !jx_eval(x, s, test, &yes))
            return -1;
        if (jx_truth(&yes))
            break;
        if (s->captured)
            s = NULL;
    }
    return got;
}

static int loop_peek(struct jx *x, struct jloop *l)
{
    if (l->have_after)
        return 1;
    int got = loop_fetch(x, l, &l->after);
    l->have_after = got > 0;
    return got;
}

static bool loop_length(struct jx *x, struct jloop *l)
{
    size_t n;
    struct jlb b = {.x = x};
    struct jv item;
    int got;
    if (l->length >= 0)
        return true;
    if (!l->node->list[0] && l->it.src.type != J_ITER) {
        if (!jx_length(x, &l->it.src, &n))
            return false;
        l->length = (int64_t)n;
        return true;
    }
    while ((got = loop_fetch(x, l, &item)) > 0)
        if (!jlb_push(&b, item))
            return false;
    if (got < 0)
        return false;
    l->rest = jlb_list(&b);
    l->drained = true;
    l->length = (int64_t)b.n + l->index0 + 1 + l->have_after;
    return l->rest != NULL;
}

static bool loop_number(struct jx *x, struct jloop *l, const struct jstr *name, bool *found, struct jv *out)
{
    *found = true;
    if (js_is(name, "index0"))
        *out = jv_int(l->index0);
    else if (js_is(name, "index"))
        *out = jv_int(l->index0 + 1);
    else if (js_is(name, "first"))
        *out = jv_bool(l->index0 == 0);
    else if (js_is(name, "depth0"))
        *out = jv_int(l->depth0);
    else if (js_is(name, "depth"))
        *out = jv_int(l->depth0 + 1);
    else if (!js_is(name, "length") && !js_is(name, "revindex") && !js_is(name, "revindex0"))
        *found = false;
    else if (!loop_length(x, l))
        return false;
    else
        *out = jv_int(js_is(name, "length") ? l->length : l->length - l->index0 - js_is(name, "revindex0"));
    return true;
}

static bool loop_undef(struct jx *x, const char *hint, struct jv *out)
{
    const struct jstr *s = jx_str_ref(x, hint, strlen(hint));
    *out = jv_undef(UNDEF_HINT, 0, s);
    return s != NULL;
}

bool jx_loop_attr(struct jx *x, struct jloop *l, const struct jstr *name, struct jv *out)
{
    bool found;
    if (!loop_number(x, l, name, &found, out))
        return false;
    if (found)
        return true;
    if (js_is(name, "last") || js_is(name, "nextitem")) {
        int more = loop_peek(x, l);
        if (more < 0)
            return false;
        if (name->p[0] == 'n' && !more)
            return loop_undef(x, "there is no next item", out);
        *out = name->p[0] == 'n' ? l->after : jv_bool(!more);
        return true;
    }
    if (js_is(name, "previtem")) {
        if (l->index0 == 0)
            return loop_undef(x, "there is no previous item", out);
        *out = l->before;
        return true;
    }
    const struct jbuiltin *fn = jx_method(J_LOOP, name->p, name->len);
    if (!fn) {
        *out = jv_undef(UNDEF_ATTR, J_LOOP, name);
        return true;
    }
    struct jmethod *m = jx_alloc(x, sizeof *m);
    if (!m)
        return false;
    *m = (struct jmethod){{.type = J_LOOP, .u.loop = l}, fn};
    *out = (struct jv){.type = J_METHOD, .u.method = m};
    return true;
}

static enum flow run_loop(struct jx *x, struct jscope *outer, const struct node *n, const struct jv *items, int64_t depth0)
{
    struct jloop *l = jx_alloc(x, sizeof *l);
    struct jscope *s = NULL;
    struct jv item;
    int got;
    bool completed = false;
    if (!l)
        return FLOW_FAIL;
    *l = (struct jloop){.node = n, .outer = outer, .index0 = -1, .length = -1, .depth0 = depth0};
    if (!jx_iter(x, items, &l->it))
        return FLOW_FAIL;
    for (;;) {
        got = l->have_after ? 1 : loop_fetch(x, l, &item);
        if (l->have_after)
            item = l->after;
        l->have_after = false;
        if (got <= 0)
            break;
        l->index0++;
        l->before = l->current;
        l->current = item;
        if (!s || s->captured)
            s = new_scope(x, outer);
        if (!s)
            return FLOW_FAIL;
        s->n = 0;
        if (!jx_set_var(x, s, x->tmpl->n_loop, (struct jv){.type = J_LOOP, .u.loop = l}) || !assign(x, s, n->a, &item))
            return FLOW_FAIL;
        enum flow f = exec(x, s, n->c);
        if (f == FLOW_FAIL)
            return f;
        if (f == FLOW_BREAK)
            break;
        completed |= f == FLOW_ON;
    }
    if (got < 0)
        return FLOW_FAIL;
    if (!completed && n->list[1]) { /* also when every pass ended by break or continue, as in Jinja2 */
        s = new_scope(x, outer);
        return s ? exec(x, s, n->list[1]) : FLOW_FAIL;
    }
    return FLOW_ON;
}

static enum flow exec_for(struct jx *x, struct jscope *s, const struct node *n)
{
    struct jv items;
    if (!jx_eval(x, s, n->b, &items))
        return FLOW_FAIL;
    x->pos = n->pos;
    return run_loop(x, s, n, &items, 0);
}

bool jx_call_loop(struct jx *x, struct jloop *l, const struct jv *items, struct jv *out)
{
    size_t mark = x->out->len;
    if (!l->node->op)
        return jx_fail(x, "The loop must have the 'recursive' marker to be called recursively.");
    return jx_enter(x) && run_loop(x, l->outer, l->node, items, l->depth0 + 1) != FLOW_FAIL && (x->depth--, true) &&
           take_output(x, mark, out);
}

/* ---- macros ---- */

static const struct jkw *find_kw(const struct jargs *args, const struct jstr *name)
{
    for (size_t i = 0; i < args->n_kw; i++)
        if (js_same(args->kw[i].name, name))
            return &args->kw[i];
    return NULL;
}

static bool is_param(const struct jsig *sig, const struct jstr *name)
{
    for (uint32_t i = 0; i < sig->n; i++)
        if (js_same(sig->names[i], name))
            return true;
    return false;
}

static bool missing_param(struct jx *x, const struct jstr *name, struct jv *out)
{
    size_t mark = x->tmp.len;
    struct jv text;
    buf_puts(&x->tmp, "parameter '");
    buf_put(&x->tmp, name->p, name->len);
    buf_puts(&x->tmp, "' was not provided");
    if (!jx_take(x, mark, &text))
        return false;
    *out = jv_undef(UNDEF_HINT, 0, text.u.s);
    return true;
}

static bool bind_params(struct jx *x, const struct jsig *sig, struct jscope *s, const struct jargs *args)
{
    if (!jx_spend(x, (uint64_t)sig->n * (args->n_kw + 1) / 8)) /* each parameter looks through the keywords */
        return false;
    for (uint32_t i = 0; i < sig->n; i++) {
        struct jv v;
        const struct jkw *kw = i < args->n ? NULL : find_kw(args, sig->names[i]);
        if (i < args->n)
            v = args->pos[i];
        else if (kw)
            v = kw->value;
        else if (sig->defaults[i] ? !jx_eval(x, s, sig->defaults[i], &v) : !missing_param(x, sig->names[i], &v))
            return false;
        if (!jx_set_var(x, s, sig->names[i], v))
            return false;
    }
    return true;
}

/* varargs, kwargs and caller, when the body mentions them; unexpected arguments otherwise. */
static bool bind_rest(struct jx *x, const struct node *n, struct jscope *s, const struct jargs *args)
{
    const struct jsig *sig = n->u.sig;
    struct jdict *extra = jx_dict(x, 0);
    struct jlb rest = {.x = x};
    struct jv v;
    const struct jkw *caller = find_kw(args, x->tmpl->n_caller);
    const struct jstr *name = n->name ? n->name : x->tmpl->n_caller; /* a call block is known as caller */
    int name_len = (int)(name->len < 80 ? name->len : 80);
    if (!extra || !jx_spend(x, (uint64_t)sig->n * args->n_kw / 8))
        return false;
    for (size_t i = 0; i < args->n_kw; i++) {
        const struct jstr *kw = args->kw[i].name;
        if (is_param(sig, kw)) {
            for (size_t k = 0; k < sig->n && k < args->n; k++)
                if (js_same(sig->names[k], kw) && !sig->uses_kwargs)
                    return jx_fail(x, "macro '%.*s' takes no keyword argument '%.*s'", name_len, name->p,
                                   (int)kw->len, kw->p);
        } else if (&args->kw[i] == caller && sig->uses_caller) {
            continue;
        } else if (!sig->uses_kwargs) {
            return jx_fail(x, "macro '%.*s' takes no keyword argument '%.*s'", name_len, name->p,
                           (int)(kw->len < 80 ? kw->len : 80), kw->p);
        } else if (!jx_dict_set(x, extra, jv_str(kw), args->kw[i].value)) {
            return false;
        }
    }
    for (size_t i = sig->n; i < args->n; i++)
        if (!jlb_push(&rest, args->pos[i]))
            return false;
    if (rest.n && !sig->uses_varargs)
        return jx_fail(x, "macro '%.*s' takes not more than %d argument(s)", name_len, name->p, (int)sig->n);
    if (sig->uses_kwargs && !is_param(sig, x->tmpl->n_kwargs) && !jx_set_var(x, s, x->tmpl->n_kwargs, jv_dict(extra)))
        return false;
    if (sig->uses_varargs && !is_param(sig, x->tmpl->n_varargs) &&
        (!jlb_done(&rest, J_TUPLE, &v) || !jx_set_var(x, s, x->tmpl->n_varargs, v)))
        return false;
    if (!sig->uses_caller || is_param(sig, x->tmpl->n_caller))
        return true;
    if (caller)
        v = caller->value;
    else if (!loop_undef(x, "No caller defined", &v))
        return false;
    return jx_set_var(x, s, x->tmpl->n_caller, v);
}

bool jx_call_macro(struct jx *x, const struct jmacro *m, const struct jargs *args, struct jv *out)
{
    size_t mark = x->out->len;
    struct jscope *s = new_scope(x, m->scope);
    if (!s || !jx_enter(x) || !bind_rest(x, m->node, s, args) || !bind_params(x, m->node->u.sig, s, args) ||
        exec(x, s, m->node->c) == FLOW_FAIL)
        return false;
    x->depth--;
    return take_output(x, mark, out);
}

static bool make_macro(struct jx *x, struct jscope *s, const struct node *n, struct jv *out)
{
    struct jmacro *m = jx_alloc(x, sizeof *m);
    if (!m)
        return false;
    *m = (struct jmacro){n, s};
    for (struct jscope *p = s; p; p = p->parent)
        p->captured = true;
    *out = (struct jv){.type = J_MACRO, .u.macro = m};
    return true;
}

static bool exec_call_block(struct jx *x, struct jscope *s, const struct node *n)
{
    struct jv fn, caller, text;
    struct jargs args;
    if (!jx_eval(x, s, n->a->a, &fn) || !jx_eval_args(x, s, n->a->u.call.args, &args) || !make_macro(x, s, n->b, &caller))
        return false;
    struct jkw *kw = jx_array(x, args.n_kw + 1, sizeof *kw);
    if (!kw)
        return false;
    if (args.n_kw)
        memcpy(kw, args.kw, args.n_kw * sizeof *kw);
    kw[args.n_kw++] = (struct jkw){x->tmpl->n_caller, caller};
    args.kw = kw;
    x->pos = n->pos;
    return jx_call(x, &fn, &args, &text) && jx_print(x, x->out, &text);
}

/* ---- other statements ---- */

static enum flow exec_body(struct jx *x, struct jscope *s, const struct node *n)
{
    if (!jx_enter(x))
        return FLOW_FAIL;
    enum flow f = FLOW_ON;
    for (uint32_t i = 0; n->u.hidden && i < n->u.hidden->n; i++)
        if (!jx_set_var(x, s, n->u.hidden->names[i], (struct jv){.type = J_MISSING}))
            return FLOW_FAIL;
    for (uint32_t i = 0; i < n->n && f == FLOW_ON; i++)
        f = exec(x, s, n->list[i]);
    x->depth--;
    return f;
}

static enum flow exec_if(struct jx *x, struct jscope *s, const struct node *n)
{
    for (uint32_t i = 0; i < n->n; i += 2) {
        struct jv test;
        if (!jx_eval(x, s, n->list[i], &test))
            return FLOW_FAIL;
        if (jx_truth(&test))
            return exec(x, s, n->list[i + 1]);
    }
    return n->c ? exec(x, s, n->c) : FLOW_ON;
}

static bool exec_set_block(struct jx *x, struct jscope *s, const struct node *n)
{
    struct jv text;
    if (!capture(x, s, n->c, &text) || (n->b && !jx_apply_filter(x, s, n->b, &text, &text)))
        return false;
    return assign(x, s, n->a, &text);
}

static enum flow exec_with(struct jx *x, struct jscope *s, const struct node *n)
{
    struct jscope *inner = new_scope(x, s);
    if (!inner)
        return FLOW_FAIL;
    for (uint32_t i = 0; i < n->n; i += 2) {
        struct jv v;
        if (!jx_eval(x, s, n->list[i + 1], &v) || !assign(x, inner, n->list[i], &v))
            return FLOW_FAIL;
    }
    return exec(x, inner, n->c);
}

static enum flow exec_filter_block(struct jx *x, struct jscope *s, const struct node *n)
{
    struct jv text;
    size_t mark = x->out->len;
    struct jscope *inner = new_scope(x, s);
    enum flow f = inner ? exec(x, inner, n->c) : FLOW_FAIL;
    if (f == FLOW_FAIL || !take_output(x, mark, &text))
        return FLOW_FAIL;
    if (f != FLOW_ON) /* a break inside: what was written is lost, as in Python */
        return f;
    return jx_apply_filter(x, s, n->b, &text, &text) && jx_print(x, x->out, &text) ? FLOW_ON : FLOW_FAIL;
}

static enum flow exec_scope(struct jx *x, struct jscope *s, const struct node *n)
{
    struct jscope *inner = new_scope(x, n->op ? &x->root : s);
    return inner ? exec(x, inner, n->c) : FLOW_FAIL;
}

static enum flow exec_autoescape(struct jx *x, struct jscope *s, const struct node *n)
{
    struct jv on;
    if (!jx_eval(x, s, n->a, &on))
        return FLOW_FAIL;
    if (jx_truth(&on)) {
        jx_fail(x, "autoescape is not supported");
        return FLOW_FAIL;
    }
    return exec_scope(x, s, n);
}

static enum flow flow_of(bool ok)
{
    return ok ? FLOW_ON : FLOW_FAIL;
}

static enum flow exec(struct jx *x, struct jscope *s, const struct node *n)
{
    struct jv v;
    if (!jx_spend(x, 1))
        return FLOW_FAIL;
    x->pos = n->pos;
    switch (n->kind) {
    case S_BODY:
        return exec_body(x, s, n);
    case S_DATA:
        return flow_of(jx_print(x, x->out, &n->u.value));
    case S_PRINT:
        return flow_of(jx_eval(x, s, n->a, &v) && jx_print(x, x->out, &v));
    case S_FOR:
        return exec_for(x, s, n);
    case S_IF:
        return exec_if(x, s, n);
    case S_SET:
        return flow_of(jx_eval(x, s, n->b, &v) && assign(x, s, n->a, &v));
    case S_SET_BLOCK:
        return flow_of(exec_set_block(x, s, n));
    case S_MACRO:
        return flow_of(make_macro(x, s, n, &v) && jx_set_var(x, s, n->name, v));
    case S_CALL:
        return flow_of(exec_call_block(x, s, n));
    case S_FILTER:
        return exec_filter_block(x, s, n);
    case S_WITH:
        return exec_with(x, s, n);
    case S_SCOPE:
        return exec_scope(x, s, n);
    case S_BREAK:
        return FLOW_BREAK;
    case S_CONTINUE:
        return FLOW_CONTINUE;
    case S_DO:
        return flow_of(jx_eval(x, s, n->a, &v));
    case S_AUTOESCAPE:
        return exec_autoescape(x, s, n);
    default:
        jx_fail(x, "'%.*s' is not available: a chat template is one text", (int)n->name->len, n->name->p);
        return FLOW_FAIL;
    }
}

/* ---- a rendering ---- */

static bool from_json(struct jx *x, const struct json *j, struct jv *out);

static bool list_from_json(struct jx *x, const struct json *j, struct jv *out)
{
    struct jv *v = jx_array(x, j->n, sizeof *v);
    struct jlist *l = v ? jx_list(x, v, j->n) : NULL;
    for (size_t i = 0; l && i < j->n; i++)
        if (!from_json(x, &j->u.items[i], &v[i]))
            return false;
    if (l)
        *out = jv_list(l);
    return l != NULL;
}

static bool dict_from_json(struct jx *x, const struct json *j, struct jv *out)
{
    struct jdict *d = jx_dict(x, j->n);
    for (size_t i = 0; d && i < j->n; i++) {
        struct jv value;
        const struct jstr *key = jx_str_ref(x, j->u.members[i].key.p, j->u.members[i].key.len);
        if (!key || !from_json(x, &j->u.members[i].value, &value) || !jx_dict_set(x, d, jv_str(key), value))
            return false;
    }
    if (d)
        *out = jv_dict(d);
    return d != NULL;
}

/* As deep as the JSON reader allows. */
static bool from_json(struct jx *x, const struct json *j, struct jv *out)
{
    const struct jstr *s;
    switch (j->type) {
    case JSON_NULL:
        *out = jv_none();
        return true;
    case JSON_BOOL:
        *out = jv_bool(j->u.boolean);
        return true;
    case JSON_INT:
        *out = jv_int(j->u.integer);
        return true;
    case JSON_DOUBLE:
        *out = jv_float(j->u.number);
        return true;
    case JSON_BIG:
    case JSON_STRING:
        s = jx_str_ref(x, j->u.text.p, j->u.text.len);
        *out = (struct jv){.type = j->type == JSON_BIG ? J_BIG : J_STR, .u.s = s};
        return s != NULL;
    case JSON_ARRAY:
        return list_from_json(x, j, out);
    default:
        return dict_from_json(x, j, out);
    }
}

static void run(struct jx *x, const char *json, size_t json_len)
{
    struct json vars;
    struct jv context;
    x->status = json_parse(&x->arena, json, json_len, NULL, &vars, x->err);
    if (x->status != INFER_OK)
        return;
    if (vars.type != JSON_OBJECT) {
        x->status = err_at(x->err, INFER_ERROR_SYNTAX, NULL, 0, vars.offset, "the template's variables must be a JSON object");
        return;
    }
    if (!dict_from_json(x, &vars, &context))
        return;
    x->context = context.u.dict;
    exec(x, &x->root, x->tmpl->body);
    if (x->status == INFER_OK && !buf_ok(x->out))
        jx_buf_failed(x, x->out);
}

infer_status jinja_render(const struct jinja *t, const struct alloc *alloc, const char *json, size_t json_len,
                          const struct jinja_options *options, struct buf *out, infer_error *err)
{
    static const struct jinja_options defaults;
    const struct jinja_options *o = options ? options : &defaults;
    uint64_t memory = o->max_memory ? o->max_memory : (uint64_t)256 << 20;
    uint64_t output = o->max_output ? o->max_output : (uint64_t)16 << 20;
    struct jx x = {.tmpl = t, .out = out, .cancel = o->cancel, .now = o->now, .err = err};
    x.max_steps = o->max_steps ? o->max_steps : 10000000;
    if (memory > SIZE_MAX / 4)
        memory = SIZE_MAX / 4;
    arena_init(&x.arena, alloc, (size_t)memory);
    buf_init(&x.tmp, alloc, (size_t)memory);
    out->limit = output < SIZE_MAX / 4 ? (size_t)output : SIZE_MAX / 4;
    run(&x, json, json_len);
    buf_free(&x.tmp);
    arena_free(&x.arena);
    return x.status;
}
