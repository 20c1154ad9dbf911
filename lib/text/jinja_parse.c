/* Tokens -> expressions. Precedence and odd corners are those of Jinja2's parser: `~` binds tighter than +, ** associates to
 * the left, a filter binds tighter than any operator but the sign. */
#include <string.h>

#include "text/jinja_ast.h"
#include "text/jinja_run.h"
#include "text/jinja_str.h"

/* ---- helpers ---- */

const struct token *jp_peek(const struct jparse *p)
{
    return &p->tokens[p->at];
}

const struct token *jp_look(const struct jparse *p)
{
    return &p->tokens[p->at + 1 < p->n_tokens ? p->at + 1 : p->at];
}

const struct token *jp_next(struct jparse *p)
{
    const struct token *t = &p->tokens[p->at];
    if (p->at + 1 < p->n_tokens)
        p->at++;
    return t;
}

bool jp_is_name(const struct token *t, const char *name)
{
    return t->type == T_NAME && js_is(t->value.u.s, name);
}

bool jp_skip_name(struct jparse *p, const char *name)
{
    if (!jp_is_name(jp_peek(p), name))
        return false;
    jp_next(p);
    return true;
}

bool jp_skip(struct jparse *p, enum token_type type)
{
    if (jp_peek(p)->type != type)
        return false;
    jp_next(p);
    return true;
}

static const char *token_text(uint8_t type)
{
    static const char *const names[] = {
        [T_EOF] = "end of template", [T_DATA] = "text", [T_VAR_BEGIN] = "{{", [T_VAR_END] = "}}", [T_BLOCK_BEGIN] = "{%",
        [T_BLOCK_END] = "%}", [T_NAME] = "name", [T_STRING] = "string", [T_INT] = "integer", [T_FLOAT] = "float",
        [T_ADD] = "+", [T_SUB] = "-", [T_MUL] = "*", [T_DIV] = "/", [T_FLOORDIV] = "//", [T_MOD] = "%", [T_POW] = "**",
        [T_TILDE] = "~", [T_EQ] = "==", [T_NE] = "!=", [T_LT] = "<", [T_LE] = "<=", [T_GT] = ">", [T_GE] = ">=",
        [T_ASSIGN] = "=", [T_DOT] = ".", [T_COMMA] = ",", [T_COLON] = ":", [T_PIPE] = "|", [T_SEMICOLON] = ";",
        [T_LPAREN] = "(", [T_RPAREN] = ")", [T_LBRACKET] = "[", [T_RBRACKET] = "]", [T_LBRACE] = "{", [T_RBRACE] = "}"};
    return names[type];
}

static bool unexpected(struct jparse *p, const struct token *t, const char *wanted)
{
    if (t->type == T_NAME)
        return jp_fail(p, t->pos, "expected %s, got '%.*s'", wanted, (int)(t->len < 60 ? t->len : 60), p->t->text + t->pos);
    return jp_fail(p, t->pos, "expected %s, got '%s'", wanted, token_text(t->type));
}

bool jp_expect(struct jparse *p, enum token_type type, const struct token **out)
{
    const struct token *t = jp_peek(p);
    if (t->type != type)
        return unexpected(p, t, token_text((uint8_t)type));
    jp_next(p);
    if (out)
        *out = t;
    return true;
}

bool jp_enter(struct jparse *p)
{
    if (p->depth >= JINJA_MAX_PARSE_DEPTH)
        return jp_limit(p, jp_peek(p)->pos, "template is nested too deep");
    p->depth++;
    return true;
}

struct node *jp_node(struct jparse *p, uint8_t kind, uint32_t pos)
{
    struct node *n = arena_zalloc(&p->t->arena, sizeof *n);
    if (!n) {
        jp_no_memory(p);
        return NULL;
    }
    n->kind = kind;
    n->pos = pos;
    return n;
}

bool jp_push(struct jparse *p, struct node_list *l, struct node *n)
{
    if (!n)
        return false;
    if (l->n == l->cap) {
        uint32_t cap = l->cap ? l->cap * 2 : 4;
        struct node **v = arena_zarray(&p->t->arena, cap, sizeof *v);
        if (!v)
            return jp_no_memory(p);
        if (l->n)
            memcpy(v, l->v, l->n * sizeof *v);
        l->v = v;
        l->cap = cap;
    }
    l->v[l->n++] = n;
    return true;
}

static struct node *with_list(struct node *n, const struct node_list *l)
{
    if (n) {
        n->list = l->v;
        n->n = l->n;
    }
    return n;
}

static struct node *unary_node(struct jparse *p, uint8_t kind, uint32_t pos, struct node *a)
{
    struct node *n = a ? jp_node(p, kind, pos) : NULL;
    if (n)
        n->a = a;
    return n;
}

static struct node *binary_node(struct jparse *p, uint8_t kind, uint8_t op, uint32_t pos, struct node *a, struct node *b)
{
    struct node *n = a && b ? jp_node(p, kind, pos) : NULL;
    if (n) {
        n->op = op;
        n->a = a;
        n->b = b;
    }
    return n;
}

static struct node *const_node(struct jparse *p, uint32_t pos, struct jv v)
{
    struct node *n = jp_node(p, N_CONST, pos);
    if (n)
        n->u.value = v;
    return n;
}

/* ---- primaries ---- */

static struct node *parse_unary(struct jparse *p, bool with_filter);
static struct node *parse_or(struct jparse *p);

static void note_special_name(struct jparse *p, const struct jstr *name)
{
    for (uint32_t i = 0; i < p->n_sigs; i++) {
        p->sigs[i]->uses_caller |= name == p->t->n_caller;
        p->sigs[i]->uses_varargs |= name == p->t->n_varargs;
        p->sigs[i]->uses_kwargs |= name == p->t->n_kwargs;
    }
}

static struct node *parse_name(struct jparse *p, bool with_namespace)
{
    const struct token *t = jp_next(p);
    const struct jstr *s = t->value.u.s;
    if (js_is(s, "true") || js_is(s, "True"))
        return const_node(p, t->pos, jv_bool(true));
    if (js_is(s, "false") || js_is(s, "False"))
        return const_node(p, t->pos, jv_bool(false));
    if (js_is(s, "none") || js_is(s, "None"))
        return const_node(p, t->pos, jv_none());
    struct node *n = jp_node(p, N_NAME, t->pos);
    if (!n)
        return NULL;
    n->name = s;
    note_special_name(p, s);
    const struct jbuiltin *global = jx_global(s->p, s->len);
    n->u.value = global ? (struct jv){.type = J_GLOBAL, .u.global = global} : (struct jv){.type = J_MISSING};
    if (with_namespace && jp_skip(p, T_DOT)) {
        const struct token *attr = NULL;
        if (!jp_expect(p, T_NAME, &attr))
            return NULL;
        n->kind = N_NSREF;
        n->b = const_node(p, attr->pos, attr->value);
        return n->b ? n : NULL;
    }
    return n;
}

static struct node *parse_string(struct jparse *p)
{
    const struct token *t = jp_next(p);
    struct jv v = t->value;
    while (jp_peek(p)->type == T_STRING) { /* adjacent literals join */
        const struct jstr *a = v.u.s, *b = jp_next(p)->value.u.s;
        char *joined = arena_alloc(&p->t->arena, a->len + b->len + 1);
        if (!joined) {
            jp_no_memory(p);
            return NULL;
        }
        memcpy(joined, a->p, a->len);
        memcpy(joined + a->len, b->p, b->len);
        const struct jstr *s = jp_string(p, joined, a->len + b->len);
        if (!s)
            return NULL;
        v = jv_str(s);
    }
    return const_node(p, t->pos, v);
}

/* [a, b] and {k: v}, up to the closing bracket. */
static struct node *parse_display(struct jparse *p, uint8_t kind, enum token_type close)
{
    struct node_list items = {0};
    uint32_t pos = jp_next(p)->pos;
    while (jp_peek(p)->type != close) {
        if (items.n && !jp_expect(p, T_COMMA, NULL))
            return NULL;
        if (jp_peek(p)->type == close)
            break;
        if (!jp_push(p, &items, jp_expression(p, true)))
            return NULL;
        if (kind == N_DICT && (!jp_expect(p, T_COLON, NULL) || !jp_push(p, &items, jp_expression(p, true))))
            return NULL;
    }
    jp_next(p);
    return with_list(jp_node(p, kind, pos), &items);
}

static struct node *parse_tuple_inside(struct jparse *p, bool simplified, bool with_cond, bool parens, bool with_namespace,
                                       const char *end_name);

static struct node *parse_primary(struct jparse *p, bool with_namespace)
{
    const struct token *t = jp_peek(p);
    struct node *n = NULL;
    if (!jp_enter(p))
        return NULL;
    switch (t->type) {
    case T_NAME:
        n = parse_name(p, with_namespace);
        break;
    case T_STRING:
        n = parse_string(p);
        break;
    case T_INT:
    case T_FLOAT:
        jp_next(p);
        n = const_node(p, t->pos, t->value);
        break;
    case T_LPAREN:
        jp_next(p);
        n = parse_tuple_inside(p, false, true, true, false, NULL);
        if (n && !jp_expect(p, T_RPAREN, NULL))
            n = NULL;
        break;
    case T_LBRACKET:
        n = parse_display(p, N_LIST, T_RBRACKET);
        break;
    case T_LBRACE:
        n = parse_display(p, N_DICT, T_RBRACE);
        break;
    default:
        unexpected(p, t, "an expression");
    }
    p->depth--;
    return n;
}

/* ---- postfix: attributes, items, calls, filters, tests ---- */

/* One index: an expression or a slice. */
static struct node *parse_index(struct jparse *p)
{
    struct node *part[3] = {NULL, NULL, NULL};
    uint32_t pos = jp_peek(p)->pos;
    if (jp_peek(p)->type != T_COLON) {
        part[0] = jp_expression(p, true);
        if (!part[0] || jp_peek(p)->type != T_COLON)
            return part[0];
    }
    for (int i = 1; i < 3 && jp_skip(p, T_COLON); i++) {
        uint8_t next = jp_peek(p)->type;
        if (next == T_COLON || next == T_RBRACKET || next == T_COMMA)
            continue;
        part[i] = jp_expression(p, true);
        if (!part[i])
            return NULL;
    }
    struct node *n = jp_node(p, N_SLICE, pos);
    if (!n)
        return NULL;
    n->list = arena_zarray(&p->t->arena, 3, sizeof *n->list);
    if (!n->list) {
        jp_no_memory(p);
        return NULL;
    }
    memcpy(n->list, part, sizeof part);
    return n;
}

static struct node *parse_subscript(struct jparse *p, struct node *a)
{
    const struct token *t = jp_next(p);
    if (t->type == T_DOT) {
        const struct token *attr = jp_next(p);
        if (attr->type == T_NAME) {
            struct node *n = unary_node(p, N_ATTR, t->pos, a);
            if (n)
                n->name = attr->value.u.s;
            return n;
        }
        if (attr->type != T_INT) {
            unexpected(p, attr, "name or number");
            return NULL;
        }
        return binary_node(p, N_ITEM, 0, t->pos, a, const_node(p, attr->pos, attr->value));
    }
    struct node_list index = {0};
    while (jp_peek(p)->type != T_RBRACKET) {
        if (index.n && !jp_expect(p, T_COMMA, NULL))
            return NULL;
        if (!jp_push(p, &index, parse_index(p)))
            return NULL;
    }
    jp_next(p);
    if (index.n == 1 && index.v[0]->kind == N_SLICE && !index.v[0]->a) { /* a bare slice, not an index that is one */
        index.v[0]->a = a;
        return index.v[0];
    }
    for (uint32_t i = 0; i < index.n; i++)
        if (index.v[i]->kind == N_SLICE && !index.v[i]->a) {
            jp_fail(p, index.v[i]->pos, "slices of several dimensions are not supported");
            return NULL;
        }
    return binary_node(p, N_ITEM, 0, t->pos, a, index.n == 1 ? index.v[0] : with_list(jp_node(p, N_TUPLE, t->pos), &index));
}

static bool push_kwarg(struct jparse *p, struct jcallargs *a, uint32_t *cap, const struct jstr *name)
{
    if (a->n_kw == *cap) {
        uint32_t grown = *cap ? *cap * 2 : 4;
        struct jkwarg *kw = arena_zarray(&p->t->arena, grown, sizeof *kw);
        if (!kw)
            return jp_no_memory(p);
        if (a->n_kw)
            memcpy(kw, a->kw, a->n_kw * sizeof *kw);
        a->kw = kw;
        *cap = grown;
    }
    if (a->n_kw >= JINJA_MAX_NAMED)
        return jp_limit(p, jp_peek(p)->pos, "too many keyword arguments");
    for (uint32_t i = 0; i < a->n_kw; i++)
        if (a->kw[i].name == name)
            return jp_fail(p, jp_peek(p)->pos, "keyword argument repeated: %.*s", (int)name->len, name->p);
    a->kw[a->n_kw].name = name;
    a->kw[a->n_kw].value = jp_expression(p, true);
    return a->kw[a->n_kw++].value != NULL;
}

static bool parse_argument(struct jparse *p, struct jcallargs *a, struct node_list *pos, uint32_t *cap, uint32_t where)
{
    const struct token *t = jp_peek(p);
    bool order_ok = true;
    if (jp_skip(p, T_MUL)) {
        order_ok = !a->star && !a->star2;
        a->star = jp_expression(p, true);
        if (!a->star)
            return false;
    } else if (jp_skip(p, T_POW)) {
        order_ok = !a->star2;
        a->star2 = jp_expression(p, true);
        if (!a->star2)
            return false;
    } else if (t->type == T_NAME && jp_look(p)->type == T_ASSIGN) {
        order_ok = !a->star2;
        jp_next(p);
        jp_next(p);
        if (!push_kwarg(p, a, cap, t->value.u.s))
            return false;
    } else {
        order_ok = !a->star && !a->star2 && !a->n_kw;
        if (!jp_push(p, pos, jp_expression(p, true)))
            return false;
    }
    return order_ok || jp_fail(p, where, "invalid syntax for function call expression");
}

static struct jcallargs *parse_call_args(struct jparse *p)
{
    struct jcallargs *a = arena_zalloc(&p->t->arena, sizeof *a);
    struct node_list pos = {0};
    const struct token *open = NULL;
    uint32_t cap = 0;
    if (!a) {
        jp_no_memory(p);
        return NULL;
    }
    if (!jp_expect(p, T_LPAREN, &open))
        return NULL;
    for (bool first = true; jp_peek(p)->type != T_RPAREN; first = false) {
        if (!first && !jp_expect(p, T_COMMA, NULL))
            return NULL;
        if (!first && jp_peek(p)->type == T_RPAREN)
            break;
        if (!parse_argument(p, a, &pos, &cap, open->pos))
            return NULL;
    }
    jp_next(p);
    a->pos = pos.v;
    a->n = pos.n;
    return a;
}

static struct node *parse_call(struct jparse *p, struct node *a)
{
    struct node *n = unary_node(p, N_CALL, jp_peek(p)->pos, a);
    if (!n)
        return NULL;
    n->u.call.args = parse_call_args(p);
    return n->u.call.args ? n : NULL;
}

/* The dotted name of a filter or test. */
static const struct jstr *parse_dotted(struct jparse *p)
{
    const struct token *t = NULL;
    if (!jp_expect(p, T_NAME, &t))
        return NULL;
    if (jp_peek(p)->type != T_DOT)
        return t->value.u.s;
    size_t start = t->pos, end = t->pos + t->len;
    while (jp_skip(p, T_DOT)) {
        if (!jp_expect(p, T_NAME, &t))
            return NULL;
        end = t->pos + t->len;
    }
    return jp_intern(p, p->t->text + start, end - start);
}

static void note_unknown(struct jparse *p, const struct token *t, bool is_test)
{
    if (!p->unknown) {
        p->unknown = t;
        p->unknown_is_test = is_test;
    }
}

struct node *jp_filter_chain(struct jparse *p, struct node *a, bool start_inline)
{
    while (start_inline || jp_peek(p)->type == T_PIPE) {
        if (!start_inline)
            jp_next(p);
        start_inline = false;
        const struct token *t = jp_peek(p);
        const struct jstr *name = parse_dotted(p);
        struct node *n = name ? jp_node(p, N_FILTER, t->pos) : NULL;
        if (!n)
            return NULL;
        n->a = a;
        n->name = name;
        n->u.call.fn = jx_filter(name->p, name->len);
        if (!n->u.call.fn)
            note_unknown(p, t, false);
        if (jp_peek(p)->type == T_LPAREN) {
            n->u.call.args = parse_call_args(p);
            if (!n->u.call.args)
                return NULL;
        }
        a = n;
    }
    return a;
}

static struct node *parse_postfix(struct jparse *p, struct node *n)
{
    while (n) {
        uint8_t type = jp_peek(p)->type;
        if (type == T_DOT || type == T_LBRACKET)
            n = parse_subscript(p, n);
        else if (type == T_LPAREN)
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

/* The argument of a test without parentheses: `x is divisibleby 3`. */
static bool parse_bare_argument(struct jparse *p, struct node *test)
{
    const struct token *t = jp_peek(p);
    bool starts = t->type == T_NAME || t->type == T_STRING || t->type == T_INT || t->type == T_FLOAT ||
                  t->type == T_LBRACKET || t->type == T_LBRACE;
    if (!starts || jp_is_name(t, "else") || jp_is_name(t, "or") || jp_is_name(t, "and"))
        return true;
    if (jp_is_name(t, "is"))
        return jp_fail(p, t->pos, "You cannot chain multiple tests with is");
    struct node_list one = {0};
    struct node *arg = parse_primary(p, false);
    arg = parse_postfix(p, arg);
    struct jcallargs *a = arena_zalloc(&p->t->arena, sizeof *a);
    if (!arg || !jp_push(p, &one, arg))
        return false;
    if (!a)
        return jp_no_memory(p);
    a->pos = one.v;
    a->n = 1;
    test->u.call.args = a;
    return true;
}

static struct node *parse_test(struct jparse *p, struct node *a)
{
    uint32_t pos = jp_next(p)->pos;
    bool negated = jp_skip_name(p, "not");
    const struct token *t = jp_peek(p);
    const struct jstr *name = parse_dotted(p);
    struct node *n = name ? unary_node(p, N_TEST, pos, a) : NULL;
    if (!n)
        return NULL;
    n->name = name;
    n->u.call.fn = jx_test(name->p, name->len);
    if (!n->u.call.fn)
        note_unknown(p, t, true);
    if (jp_peek(p)->type == T_LPAREN) {
        n->u.call.args = parse_call_args(p);
        if (!n->u.call.args)
            return NULL;
    } else if (!parse_bare_argument(p, n)) {
        return NULL;
    }
    return negated ? unary_node(p, N_NOT, pos, n) : n;
}

static struct node *parse_filters(struct jparse *p, struct node *n)
{
    while (n) {
        const struct token *t = jp_peek(p);
        if (t->type == T_PIPE)
            n = jp_filter_chain(p, n, false);
        else if (jp_is_name(t, "is"))
            n = parse_test(p, n);
        else if (t->type == T_LPAREN)
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

/* ---- operators ---- */

static struct node *parse_unary(struct jparse *p, bool with_filter)
{
    const struct token *t = jp_peek(p);
    struct node *n;
    if (t->type == T_SUB || t->type == T_ADD) {
        jp_next(p);
        if (!jp_enter(p))
            return NULL;
        n = unary_node(p, t->type == T_SUB ? N_NEG : N_POS, t->pos, parse_unary(p, false));
        p->depth--;
    } else {
        n = parse_primary(p, false);
    }
    n = parse_postfix(p, n);
    return with_filter ? parse_filters(p, n) : n;
}

static bool is_product(uint8_t type)
{
    return type == T_MUL || type == T_DIV || type == T_FLOORDIV || type == T_MOD;
}

static struct node *parse_pow(struct jparse *p)
{
    struct node *n = parse_unary(p, true);
    while (n && jp_peek(p)->type == T_POW) {
        uint32_t pos = jp_next(p)->pos;
        n = binary_node(p, N_BINARY, T_POW, pos, n, parse_unary(p, true));
    }
    return n;
}

static struct node *parse_product(struct jparse *p)
{
    struct node *n = parse_pow(p);
    while (n && is_product(jp_peek(p)->type)) {
        const struct token *t = jp_next(p);
        n = binary_node(p, N_BINARY, t->type, t->pos, n, parse_pow(p));
    }
    return n;
}

static struct node *parse_concat(struct jparse *p)
{
    struct node_list parts = {0};
    uint32_t pos = jp_peek(p)->pos;
    struct node *n = parse_product(p);
    if (!n || jp_peek(p)->type != T_TILDE)
        return n;
    if (!jp_push(p, &parts, n))
        return NULL;
    while (jp_skip(p, T_TILDE))
        if (!jp_push(p, &parts, parse_product(p)))
            return NULL;
    return with_list(jp_node(p, N_CONCAT, pos), &parts);
}

static struct node *parse_sum(struct jparse *p)
{
    struct node *n = parse_concat(p);
    while (n && (jp_peek(p)->type == T_ADD || jp_peek(p)->type == T_SUB)) {
        const struct token *t = jp_next(p);
        n = binary_node(p, N_BINARY, t->type, t->pos, n, parse_concat(p));
    }
    return n;
}

/* The comparison operator at the current place, consumed; 0: none. */
static uint8_t take_comparison(struct jparse *p)
{
    const struct token *t = jp_peek(p);
    if (t->type >= T_EQ && t->type <= T_GE)
        return jp_next(p)->type;
    if (jp_skip_name(p, "in"))
        return OP_IN;
    if (jp_is_name(t, "not") && jp_is_name(jp_look(p), "in")) {
        jp_next(p);
        jp_next(p);
        return OP_NOT_IN;
    }
    return 0;
}

static struct node *parse_compare(struct jparse *p)
{
    struct node_list operands = {0};
    struct node *n = parse_sum(p);
    uint32_t pos = jp_peek(p)->pos;
    for (uint8_t op; n && (op = take_comparison(p)) != 0;) {
        struct node *operand = unary_node(p, N_OPERAND, pos, parse_sum(p));
        if (operand)
            operand->op = op;
        if (!jp_push(p, &operands, operand))
            return NULL;
    }
    return operands.n ? with_list(unary_node(p, N_COMPARE, pos, n), &operands) : n;
}

static struct node *parse_not(struct jparse *p)
{
    const struct token *t = jp_peek(p);
    if (!jp_is_name(t, "not"))
        return parse_compare(p);
    jp_next(p);
    if (!jp_enter(p))
        return NULL;
    struct node *n = unary_node(p, N_NOT, t->pos, parse_not(p));
    p->depth--;
    return n;
}

static struct node *parse_and(struct jparse *p)
{
    struct node *n = parse_not(p);
    while (n && jp_is_name(jp_peek(p), "and")) {
        uint32_t pos = jp_next(p)->pos;
        n = binary_node(p, N_AND, 0, pos, n, parse_not(p));
    }
    return n;
}

static struct node *parse_or(struct jparse *p)
{
    struct node *n = parse_and(p);
    while (n && jp_is_name(jp_peek(p), "or")) {
        uint32_t pos = jp_next(p)->pos;
        n = binary_node(p, N_OR, 0, pos, n, parse_and(p));
    }
    return n;
}

static struct node *parse_cond(struct jparse *p)
{
    const struct token *unknown = p->unknown;
    struct node *n = parse_or(p);
    while (n && jp_is_name(jp_peek(p), "if")) {
        uint32_t pos = jp_next(p)->pos;
        struct node *cond = jp_node(p, N_COND, pos);
        if (!cond)
            return NULL;
        cond->b = n;
        cond->a = parse_or(p);
        if (!cond->a)
            return NULL;
        if (jp_skip_name(p, "else")) {
            cond->c = jp_expression(p, true);
            if (!cond->c)
                return NULL;
        }
        n = cond;
        p->unknown = unknown;
    }
    return n;
}

struct node *jp_expression(struct jparse *p, bool with_cond)
{
    if (!jp_enter(p))
        return NULL;
    struct node *n = with_cond ? parse_cond(p) : parse_or(p);
    p->depth--;
    return n;
}

static bool tuple_ends(const struct jparse *p, const char *end_name)
{
    const struct token *t = jp_peek(p);
    return t->type == T_VAR_END || t->type == T_BLOCK_END || t->type == T_RPAREN || (end_name && jp_is_name(t, end_name));
}

static struct node *parse_tuple_inside(struct jparse *p, bool simplified, bool with_cond, bool parens, bool with_namespace,
                                       const char *end_name)
{
    struct node_list items = {0};
    uint32_t pos = jp_peek(p)->pos;
    bool is_tuple = false;
    for (;;) {
        if (items.n && !jp_expect(p, T_COMMA, NULL))
            return NULL;
        if (tuple_ends(p, end_name))
            break;
        if (!jp_push(p, &items, simplified ? parse_primary(p, with_namespace) : jp_expression(p, with_cond)))
            return NULL;
        if (jp_peek(p)->type != T_COMMA)
            break;
        is_tuple = true;
    }
    if (!is_tuple && items.n)
        return items.v[0];
    if (!is_tuple && !parens) {
        unexpected(p, jp_peek(p), "an expression");
        return NULL;
    }
    return with_list(jp_node(p, N_TUPLE, pos), &items);
}

struct node *jp_tuple(struct jparse *p, bool with_cond, const char *end_name)
{
    return parse_tuple_inside(p, false, with_cond, false, false, end_name);
}

static bool can_assign(struct jparse *p, const struct node *n)
{
    if (n->kind == N_TUPLE) {
        for (uint32_t i = 0; i < n->n; i++)
            if (!can_assign(p, n->list[i]))
                return false;
        return true;
    }
    return n->kind == N_NAME || n->kind == N_NSREF || jp_fail(p, n->pos, "can't assign to this expression");
}

struct node *jp_target(struct jparse *p, bool with_namespace, const char *end_name)
{
    struct node *n = parse_tuple_inside(p, true, true, false, with_namespace, end_name);
    return n && can_assign(p, n) ? n : NULL;
}
