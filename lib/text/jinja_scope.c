/* Which names are "not yet set" in a scope. Jinja2 decides statically: a name that a scope assigns outside of any `if` before it reads
 * it (loops, macros and other inner scopes do not count as reading), and that no scope around it mentions, is a variable of that scope
 * from its beginning, and undefined until it is assigned, even when the host gave a variable of that name. Such names are
 * listed at the scope's body; the rest resolves outwards when it is met. */
#include <string.h>

#include "text/jinja_ast.h"

struct frame {
    struct jparse *p;
    const struct frame *parent;
    struct map seen; /* names that the scope mentions; value 1: hidden at first */
    uint32_t branches; /* ifs around the current place */
    uint32_t n_hidden;
    bool ok;
};

static bool seen_around(const struct frame *f, const struct jstr *name)
{
    for (; f; f = f->parent)
        if (map_find(&f->seen, name->p, name->len))
            return true;
    return false;
}

static void mention(struct frame *f, const struct jstr *name, bool hidden)
{
    int added = map_add(&f->seen, name->p, name->len, hidden);
    if (added < 0)
        f->ok = jp_no_memory(f->p);
    f->n_hidden += added > 0 && hidden;
}

static void see_load(struct frame *f, const struct jstr *name)
{
    if (!seen_around(f, name))
        mention(f, name, false);
}

static void see_store(struct frame *f, const struct jstr *name)
{
    mention(f, name, !f->branches && !seen_around(f->parent, name));
}

static void see_args(struct frame *f, const struct jcallargs *a);

/* All names in an expression. What hangs on `a` (or, in conditionals, on b) may be a chain of any length: so a loop. */
static void see_expr(struct frame *f, const struct node *n)
{
    while (n && f->ok) {
        const struct node *next = n->kind == N_COND ? n->b : n->a;
        if (n->kind == N_NAME || n->kind == N_NSREF)
            see_load(f, n->name);
        if (n->kind == N_CALL || n->kind == N_FILTER || n->kind == N_TEST)
            see_args(f, n->u.call.args);
        for (uint32_t i = 0; i < (n->kind == N_SLICE ? 3 : n->n); i++)
            see_expr(f, n->list[i]);
        see_expr(f, n->kind == N_COND ? n->a : n->kind == N_NSREF ? NULL : n->b);
        see_expr(f, n->c);
        n = next;
    }
}

static void see_args(struct frame *f, const struct jcallargs *a)
{
    if (!a)
        return;
    for (uint32_t i = 0; i < a->n; i++)
        see_expr(f, a->pos[i]);
    for (uint32_t i = 0; i < a->n_kw; i++)
        see_expr(f, a->kw[i].value);
    see_expr(f, a->star);
    see_expr(f, a->star2);
}

static void see_target(struct frame *f, const struct node *n, bool param)
{
    if (n->kind == N_NSREF)
        see_load(f, n->name);
    else if (n->kind == N_NAME && param)
        mention(f, n->name, false);
    else if (n->kind == N_NAME)
        see_store(f, n->name);
    else
        for (uint32_t i = 0; i < n->n; i++)
            see_target(f, n->list[i], param);
}

/* A statement as the scope that it stands in sees it: inner scopes only by what they take from it. */
static void see_statement(struct frame *f, const struct node *n)
{
    switch (n->kind) {
    case S_BODY:
        for (uint32_t i = 0; i < n->n && f->ok; i++)
            see_statement(f, n->list[i]);
        return;
    case S_FOR:
        see_expr(f, n->b);
        return;
    case S_IF:
        see_expr(f, n->list[0]); /* the first test is not in a branch */
        f->branches++;
        for (uint32_t i = 1; i < n->n; i++) {
            if (i % 2)
                see_statement(f, n->list[i]);
            else
                see_expr(f, n->list[i]);
        }
        if (n->c)
            see_statement(f, n->c);
        f->branches--;
        return;
    case S_SET:
        see_expr(f, n->b);
        see_target(f, n->a, false);
        return;
    case S_SET_BLOCK:
        see_target(f, n->a, false);
        return;
    case S_MACRO:
        see_store(f, n->name);
        return;
    case S_WITH:
        for (uint32_t i = 1; i < n->n; i += 2)
            see_expr(f, n->list[i]);
        return;
    case S_FILTER:
        see_expr(f, n->b);
        return;
    case S_PRINT:
    case S_DO:
    case S_CALL:
    case S_AUTOESCAPE:
        see_expr(f, n->a);
        return;
    default:
        return;
    }
}

static bool keep_hidden(struct frame *f, struct node *body)
{
    const struct jinja *t = f->p->t;
    struct jhidden *h = f->n_hidden ? arena_zalloc(&f->p->t->arena, sizeof *h) : NULL;
    if (!f->n_hidden)
        return true;
    if (h)
        h->names = arena_zarray(&f->p->t->arena, f->n_hidden, sizeof *h->names);
    if (!h || !h->names)
        return jp_no_memory(f->p);
    for (size_t i = 0; i <= f->seen.mask; i++) { /* the order is of no consequence */
        const struct map_slot *slot = &f->seen.slots[i];
        if (!slot->key || !slot->value)
            continue;
        uint32_t *at = map_find(&t->names, slot->key, slot->len);
        if (at)
            h->names[h->n++] = t->name_list[*at];
    }
    body->u.hidden = h;
    return true;
}

static bool descend(struct frame *f, const struct node *n);

/* A scope with this body; intro: the node that brings parameters, or NULL. */
static bool scope(struct jparse *p, const struct frame *parent, const struct node *intro, struct node *body)
{
    struct frame f = {.p = p, .parent = parent, .ok = true};
    if (!body)
        return true;
    map_init(&f.seen, &p->t->alloc);
    if (intro && intro->kind == S_FOR) {
        mention(&f, p->t->n_loop, false);
        see_target(&f, intro->a, true);
    } else if (intro && intro->kind == S_WITH) {
        for (uint32_t i = 0; i < intro->n; i += 2)
            see_target(&f, intro->list[i], true);
    } else if (intro && intro->kind == S_MACRO) {
        const struct jsig *sig = intro->u.sig;
        for (uint32_t i = 0; i < sig->n; i++)
            mention(&f, sig->names[i], false);
        for (uint32_t i = 0; i < sig->n; i++)
            see_expr(&f, sig->defaults[i]);
    }
    see_statement(&f, body);
    bool ok = f.ok && keep_hidden(&f, body) && descend(&f, body);
    map_free(&f.seen);
    return ok;
}

/* The scopes inside a scope that has been looked through. */
static bool descend(struct frame *f, const struct node *n)
{
    switch (n->kind) {
    case S_BODY:
        for (uint32_t i = 0; i < n->n; i++)
            if (!descend(f, n->list[i]))
                return false;
        return true;
    case S_IF:
        for (uint32_t i = 1; i < n->n; i += 2)
            if (!descend(f, n->list[i]))
                return false;
        return !n->c || descend(f, n->c);
    case S_FOR:
        return scope(f->p, f, n, n->c) && scope(f->p, f, NULL, n->list[1]);
    case S_CALL:
        return scope(f->p, f, n->b, n->b->c);
    case S_SCOPE:
        return scope(f->p, n->op ? NULL : f, NULL, n->c);
    case S_MACRO:
    case S_WITH:
        return scope(f->p, f, n, n->c);
    case S_SET_BLOCK:
    case S_FILTER:
    case S_AUTOESCAPE:
        return scope(f->p, f, NULL, n->c);
    default:
        return true;
    }
}

bool jp_resolve_scopes(struct jparse *p)
{
    return scope(p, NULL, NULL, p->t->body);
}
