/* Tokens -> statements, and the compiled template as a whole. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "text/jinja.h"
#include "text/jinja_ast.h"
#include "text/jinja_str.h"

/* ---- places and errors ---- */

uint32_t jinja_line(const struct jinja *t, uint32_t pos)
{
    uint32_t line = 1;
    for (size_t i = 0; i < pos && i < t->len; i++)
        line += t->text[i] == '\n';
    return line;
}

uint64_t jinja_offset(const struct jinja *t, uint32_t pos)
{
    size_t i = 0;
    if (!t->had_cr)
        return pos;
    for (size_t seen = 0; i < t->original_len && seen < pos; i++, seen++)
        if (t->original[i] == '\r' && i + 1 < t->original_len && t->original[i + 1] == '\n')
            i++;
    return i;
}

bool jp_fail(struct jparse *p, uint32_t pos, const char *fmt, ...)
{
    char text[360];
    va_list ap;
    if (p->status != INFER_OK)
        return false;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    p->status = err_at(p->err, INFER_ERROR_SYNTAX, NULL, 0, jinja_offset(p->t, pos), "template line %lu: %.*s",
                       (unsigned long)jinja_line(p->t, pos), (int)utf8_complete(text, strlen(text)), text);
    return false;
}

bool jp_no_memory(struct jparse *p)
{
    if (p->status == INFER_OK)
        p->status = err_no_memory(p->err);
    return false;
}

bool jp_limit(struct jparse *p, uint32_t pos, const char *what)
{
    if (p->status == INFER_OK)
        p->status = err_at(p->err, INFER_ERROR_LIMIT, NULL, 0, jinja_offset(p->t, pos), "template line %lu: %s",
                           (unsigned long)jinja_line(p->t, pos), what);
    return false;
}

/* ---- strings ---- */

const struct jstr *jp_string(struct jparse *p, const char *s, size_t len)
{
    struct jstr *str = arena_alloc(&p->t->arena, sizeof *str);
    char *copy = arena_strdup(&p->t->arena, s, len);
    if (!str || !copy) {
        jp_no_memory(p);
        return NULL;
    }
    *str = (struct jstr){copy, len, js_count(s, len), false};
    return str;
}

const struct jstr *jp_intern(struct jparse *p, const char *s, size_t len)
{
    struct jinja *t = p->t;
    uint32_t *at = map_find(&t->names, s, len);
    if (at)
        return t->name_list[*at];
    if (t->n_names == t->cap_names) {
        size_t cap = t->cap_names ? t->cap_names * 2 : 64;
        const struct jstr **grown = mem_grow(&t->alloc, t->name_list, cap * sizeof *grown);
        if (!grown) {
            jp_no_memory(p);
            return NULL;
        }
        t->name_list = grown;
        t->cap_names = cap;
    }
    const struct jstr *str = jp_string(p, s, len);
    if (!str)
        return NULL;
    if (map_add(&t->names, str->p, len, (uint32_t)t->n_names) != 1) {
        jp_no_memory(p);
        return NULL;
    }
    t->name_list[t->n_names++] = str;
    return str;
}

/* ---- statements ---- */

static const char *const end_for[] = {"endfor", NULL}, *const for_ends[] = {"endfor", "else", NULL},
                   *const if_ends[] = {"elif", "else", "endif", NULL}, *const end_if[] = {"endif", NULL},
                   *const end_set[] = {"endset", NULL}, *const end_macro[] = {"endmacro", NULL},
                   *const end_call[] = {"endcall", NULL}, *const end_filter[] = {"endfilter", NULL},
                   *const end_with[] = {"endwith", NULL}, *const end_block[] = {"endblock", NULL},
                   *const end_generation[] = {"endgeneration", NULL}, *const end_autoescape[] = {"endautoescape", NULL};

/* The rest of the opening tag and the statements up to one of `ends`, which becomes the current token. */
static struct node *parse_block(struct jparse *p, const char *const *ends)
{
    jp_skip(p, T_COLON);
    if (!jp_expect(p, T_BLOCK_END, NULL))
        return NULL;
    return jp_body(p, ends);
}

/* The same, and takes the end's name (its tag's end is left). */
static struct node *parse_block_drop(struct jparse *p, const char *const *ends)
{
    struct node *n = parse_block(p, ends);
    if (n)
        jp_next(p);
    return n;
}

static struct node *parse_for(struct jparse *p, uint32_t pos)
{
    struct node *n = jp_node(p, S_FOR, pos);
    if (!n)
        return NULL;
    n->list = arena_zarray(&p->t->arena, 2, sizeof *n->list);
    if (!n->list) {
        jp_no_memory(p);
        return NULL;
    }
    n->a = jp_target(p, false, "in");
    if (!n->a)
        return NULL;
    if (!jp_skip_name(p, "in")) {
        jp_fail(p, jp_peek(p)->pos, "expected 'in' in a for statement");
        return NULL;
    }
    n->b = jp_tuple(p, false, "recursive");
    if (!n->b)
        return NULL;
    if (jp_skip_name(p, "if")) {
        n->list[0] = jp_expression(p, true);
        if (!n->list[0])
            return NULL;
    }
    n->op = jp_skip_name(p, "recursive");
    p->loop_depth++;
    n->c = parse_block(p, for_ends);
    p->loop_depth--;
    if (!n->c)
        return NULL;
    if (jp_is_name(jp_next(p), "else")) {
        n->list[1] = parse_block_drop(p, end_for);
        if (!n->list[1])
            return NULL;
    }
    return n;
}

static struct node *parse_if(struct jparse *p, uint32_t pos)
{
    struct node *n = jp_node(p, S_IF, pos);
    struct node_list branches = {0};
    const struct token *unknown = p->unknown;
    if (!n)
        return NULL;
    for (;;) {
        struct node *test = jp_tuple(p, false, NULL);
        if (!jp_push(p, &branches, test) || !jp_push(p, &branches, parse_block(p, if_ends)))
            return NULL;
        const struct token *t = jp_next(p);
        if (jp_is_name(t, "elif"))
            continue;
        if (jp_is_name(t, "else")) {
            n->c = parse_block_drop(p, end_if);
            if (!n->c)
                return NULL;
        }
        break;
    }
    n->list = branches.v;
    n->n = branches.n;
    p->unknown = unknown;
    return n;
}

static struct node *parse_set(struct jparse *p, uint32_t pos)
{
    struct node *n = jp_node(p, S_SET, pos);
    if (!n)
        return NULL;
    n->a = jp_target(p, true, NULL);
    if (!n->a)
        return NULL;
    if (jp_skip(p, T_ASSIGN)) {
        n->b = jp_tuple(p, true, NULL);
        return n->b ? n : NULL;
    }
    n->kind = S_SET_BLOCK;
    if (jp_peek(p)->type == T_PIPE) {
        n->b = jp_filter_chain(p, NULL, false);
        if (!n->b)
            return NULL;
    }
    n->c = parse_block_drop(p, end_set);
    return n->c ? n : NULL;
}

static bool parse_signature(struct jparse *p, struct jsig *sig)
{
    struct node_list defaults = {0}, names = {0};
    if (!jp_expect(p, T_LPAREN, NULL))
        return false;
    bool had_default = false;
    while (jp_peek(p)->type != T_RPAREN) {
        const struct token *t = NULL;
        if (names.n && !jp_expect(p, T_COMMA, NULL))
            return false;
        if (!jp_expect(p, T_NAME, &t))
            return false;
        struct node *name = jp_node(p, N_NAME, t->pos), *value = NULL;
        if (jp_skip(p, T_ASSIGN)) {
            had_default = true;
            value = jp_expression(p, true);
            if (!value)
                return false;
        } else if (had_default) {
            return jp_fail(p, t->pos, "non-default argument follows default argument");
        }
        if (!jp_push(p, &names, name) || !jp_push(p, &defaults, value ? value : name))
            return false;
        name->name = t->value.u.s;
        if (names.n > JINJA_MAX_NAMED)
            return jp_limit(p, t->pos, "too many parameters");
        for (uint32_t i = 0; i + 1 < names.n; i++)
            if (names.v[i]->name == name->name)
                return jp_fail(p, t->pos, "duplicate parameter '%.*s'", (int)name->name->len, name->name->p);
    }
    jp_next(p);
    sig->n = names.n;
    sig->names = arena_zarray(&p->t->arena, names.n, sizeof *sig->names);
    sig->defaults = arena_zarray(&p->t->arena, names.n, sizeof *sig->defaults);
    if (!sig->names || !sig->defaults)
        return jp_no_memory(p);
    for (uint32_t i = 0; i < names.n; i++) {
        sig->names[i] = names.v[i]->name;
        sig->defaults[i] = defaults.v[i] == names.v[i] ? NULL : defaults.v[i];
    }
    return true;
}

/* The body of a macro or call block: breaks do not leave it, and it may name caller, varargs and kwargs. */
static struct node *parse_macro_body(struct jparse *p, struct node *n, const char *const *ends)
{
    uint32_t loops = p->loop_depth;
    p->loop_depth = 0;
    p->sigs[p->n_sigs++] = n->u.sig; /* as deep as parse depth at most */
    n->c = parse_block_drop(p, ends);
    p->n_sigs--;
    p->loop_depth = loops;
    return n->c ? n : NULL;
}

static struct node *macro_node(struct jparse *p, uint32_t pos)
{
    struct node *n = jp_node(p, S_MACRO, pos);
    if (!n)
        return NULL;
    n->u.sig = arena_zalloc(&p->t->arena, sizeof *n->u.sig);
    if (!n->u.sig) {
        jp_no_memory(p);
        return NULL;
    }
    return n;
}

static struct node *parse_macro(struct jparse *p, uint32_t pos)
{
    const struct token *name = NULL;
    struct node *n = macro_node(p, pos);
    if (!n || !jp_expect(p, T_NAME, &name) || !parse_signature(p, n->u.sig))
        return NULL;
    n->name = name->value.u.s;
    return parse_macro_body(p, n, end_macro);
}

static struct node *parse_call_block(struct jparse *p, uint32_t pos)
{
    struct node *n = jp_node(p, S_CALL, pos), *block = macro_node(p, pos);
    if (!n || !block || (jp_peek(p)->type == T_LPAREN && !parse_signature(p, block->u.sig)))
        return NULL;
    n->a = jp_expression(p, true);
    if (!n->a)
        return NULL;
    if (n->a->kind != N_CALL) {
        jp_fail(p, pos, "expected call");
        return NULL;
    }
    n->b = parse_macro_body(p, block, end_call);
    return n->b ? n : NULL;
}

static struct node *parse_filter_block(struct jparse *p, uint32_t pos)
{
    struct node *n = jp_node(p, S_FILTER, pos);
    if (!n)
        return NULL;
    n->b = jp_filter_chain(p, NULL, true);
    n->c = n->b ? parse_block_drop(p, end_filter) : NULL;
    return n->c ? n : NULL;
}

static struct node *parse_with(struct jparse *p, uint32_t pos)
{
    struct node *n = jp_node(p, S_WITH, pos);
    struct node_list pairs = {0};
    if (!n)
        return NULL;
    while (jp_peek(p)->type != T_BLOCK_END && jp_peek(p)->type != T_COLON) {
        if (pairs.n && !jp_expect(p, T_COMMA, NULL))
            return NULL;
        /* a target without parentheses ends at the comma, so only one name or one tuple in parentheses */
        if (!jp_push(p, &pairs, jp_target(p, false, NULL)) || !jp_expect(p, T_ASSIGN, NULL) ||
            !jp_push(p, &pairs, jp_expression(p, true)))
            return NULL;
    }
    n->list = pairs.v;
    n->n = pairs.n;
    n->c = parse_block_drop(p, end_with);
    return n->c ? n : NULL;
}

static struct node *parse_named_block(struct jparse *p, uint32_t pos)
{
    struct node *n = jp_node(p, S_SCOPE, pos);
    const struct token *name = NULL;
    if (!n || !jp_expect(p, T_NAME, &name))
        return NULL;
    n->op = !jp_skip_name(p, "scoped");
    jp_skip_name(p, "required");
    n->c = parse_block_drop(p, end_block);
    if (jp_peek(p)->type == T_NAME && jp_peek(p)->value.u.s == name->value.u.s)
        jp_next(p);
    return n->c ? n : NULL;
}

/* {% generation %}: marks the assistant's text for training; here only a scope. */
static struct node *parse_generation(struct jparse *p, uint32_t pos)
{
    struct node *n = jp_node(p, S_SCOPE, pos);
    uint32_t loops = p->loop_depth;
    if (!n)
        return NULL;
    p->loop_depth = 0;
    n->c = parse_block_drop(p, end_generation);
    p->loop_depth = loops;
    return n->c ? n : NULL;
}

static struct node *parse_jump(struct jparse *p, uint32_t pos, uint8_t kind)
{
    if (p->loop_depth)
        return jp_node(p, kind, pos);
    jp_fail(p, pos, "break or continue outside of a loop");
    return NULL;
}

static struct node *parse_do(struct jparse *p, uint32_t pos)
{
    struct node *n = jp_node(p, S_DO, pos);
    if (!n)
        return NULL;
    n->a = jp_tuple(p, true, NULL);
    return n->a ? n : NULL;
}

static struct node *parse_autoescape(struct jparse *p, uint32_t pos)
{
    struct node *n = jp_node(p, S_AUTOESCAPE, pos);
    if (!n)
        return NULL;
    n->a = jp_expression(p, true);
    n->c = n->a ? parse_block_drop(p, end_autoescape) : NULL;
    return n->c ? n : NULL;
}

static struct node *parse_unsupported(struct jparse *p, const struct token *tag)
{
    struct node *n = jp_node(p, S_UNSUPPORTED, tag->pos);
    if (!n)
        return NULL;
    n->name = tag->value.u.s;
    while (jp_peek(p)->type != T_BLOCK_END && jp_peek(p)->type != T_EOF)
        jp_next(p);
    return n;
}

static struct node *parse_print(struct jparse *p, uint32_t pos)
{
    struct node_list parts = {0};
    while (jp_peek(p)->type != T_BLOCK_END) {
        struct node *n = jp_node(p, S_PRINT, pos);
        if (parts.n && !jp_expect(p, T_COMMA, NULL))
            return NULL;
        if (n)
            n->a = jp_expression(p, true);
        if (!n || !n->a || !jp_push(p, &parts, n))
            return NULL;
    }
    struct node *body = jp_node(p, S_BODY, pos);
    if (body) {
        body->list = parts.v;
        body->n = parts.n;
    }
    return body;
}

static struct node *parse_statement(struct jparse *p)
{
    static const struct {
        const char *name;
        struct node *(*parse)(struct jparse *p, uint32_t pos);
    } tags[] = {
        {"if", parse_if},       {"for", parse_for},           {"set", parse_set},       {"macro", parse_macro},
        {"call", parse_call_block}, {"filter", parse_filter_block}, {"with", parse_with}, {"block", parse_named_block},
        {"generation", parse_generation}, {"do", parse_do}, {"print", parse_print}, {"autoescape", parse_autoescape},
    };
    const struct token *t = jp_next(p);
    if (t->type != T_NAME) {
        jp_fail(p, t->pos, "tag name expected");
        return NULL;
    }
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (jp_is_name(t, tags[i].name))
            return tags[i].parse(p, t->pos);
    if (jp_is_name(t, "break") || jp_is_name(t, "continue"))
        return parse_jump(p, t->pos, jp_is_name(t, "break") ? S_BREAK : S_CONTINUE);
    if (jp_is_name(t, "include") || jp_is_name(t, "import") || jp_is_name(t, "from") || jp_is_name(t, "extends"))
        return parse_unsupported(p, t);
    jp_fail(p, t->pos, "Encountered unknown tag '%.*s'", (int)(t->len < 60 ? t->len : 60), t->value.u.s->p);
    return NULL;
}

static bool is_end(const struct jparse *p, const char *const *ends)
{
    for (; ends && *ends; ends++)
        if (jp_is_name(jp_peek(p), *ends))
            return true;
    return false;
}

static struct node *parse_part(struct jparse *p, const struct token *t)
{
    struct node *n;
    if (t->type == T_DATA) {
        n = jp_node(p, S_DATA, t->pos);
        if (n)
            n->u.value = t->value;
        return n;
    }
    if (t->type == T_VAR_BEGIN) {
        n = jp_node(p, S_PRINT, t->pos);
        if (!n)
            return NULL;
        n->a = jp_tuple(p, true, NULL);
        return n->a && jp_expect(p, T_VAR_END, NULL) ? n : NULL;
    }
    n = parse_statement(p);
    return n && jp_expect(p, T_BLOCK_END, NULL) ? n : NULL;
}

struct node *jp_body(struct jparse *p, const char *const *ends)
{
    struct node *body = jp_node(p, S_BODY, jp_peek(p)->pos);
    struct node_list parts = {0};
    if (!body || !jp_enter(p))
        return NULL;
    for (;;) {
        const struct token *t = jp_peek(p);
        if (t->type == T_EOF) {
            if (ends) {
                jp_fail(p, t->pos, "Unexpected end of template. Jinja was looking for '%s'", ends[0]);
                return NULL;
            }
            break;
        }
        jp_next(p);
        if (t->type == T_BLOCK_BEGIN && is_end(p, ends))
            break;
        if (!jp_push(p, &parts, parse_part(p, t)))
            return NULL;
    }
    p->depth--;
    body->list = parts.v;
    body->n = parts.n;
    return body;
}

/* ---- compiling ---- */

/* \r\n and \r become \n, and one newline at the end goes, as Jinja2 does. */
static bool normalise(struct jinja *t, const char *text, size_t len)
{
    char *copy = arena_strdup(&t->arena, text, len);
    if (!copy)
        return false;
    t->original = copy;
    t->original_len = len;
    t->text = copy;
    t->len = len;
    if (len && memchr(text, '\r', len)) {
        char *plain = arena_alloc(&t->arena, len);
        size_t n = 0;
        if (!plain)
            return false;
        for (size_t i = 0; i < len; i++) {
            plain[n++] = text[i] == '\r' ? '\n' : text[i];
            if (text[i] == '\r' && i + 1 < len && text[i + 1] == '\n')
                i++;
        }
        t->text = plain;
        t->len = n;
        t->had_cr = true;
    }
    if (t->len && t->text[t->len - 1] == '\n')
        t->len--;
    return true;
}

static bool compile(struct jparse *p)
{
    struct jinja *t = p->t;
    t->n_loop = jp_intern(p, "loop", 4);
    t->n_caller = jp_intern(p, "caller", 6);
    t->n_varargs = jp_intern(p, "varargs", 7);
    t->n_kwargs = jp_intern(p, "kwargs", 6);
    if (!t->n_loop || !t->n_caller || !t->n_varargs || !t->n_kwargs || !jp_lex(p))
        return false;
    t->body = jp_body(p, NULL);
    if (t->body && p->unknown)
        jp_fail(p, p->unknown->pos, "No %s named '%.*s'.", p->unknown_is_test ? "test" : "filter",
                (int)(p->unknown->len < 60 ? p->unknown->len : 60), t->text + p->unknown->pos);
    return p->status == INFER_OK && t->body && jp_resolve_scopes(p);
}

infer_status jinja_compile(const struct alloc *alloc, const char *text, size_t len, struct jinja **out, infer_error *err)
{
    if (len > JINJA_MAX_SOURCE)
        return err_set(err, INFER_ERROR_LIMIT, "template is longer than %lu bytes", (unsigned long)JINJA_MAX_SOURCE);
    for (size_t i = 0, used; i < len; i += used)
        if (utf8_decode(text + i, len - i, &used) == UTF8_BAD)
            return err_at(err, INFER_ERROR_SYNTAX, NULL, 0, i, "template is not valid UTF-8");
    struct jinja *t = mem_zalloc(alloc, sizeof *t);
    if (!t)
        return err_no_memory(err);
    t->alloc = *alloc;
    arena_init(&t->arena, &t->alloc, 0);
    map_init(&t->names, &t->alloc);
    struct jparse p = {.t = t, .err = err};
    if (!normalise(t, text, len))
        jp_no_memory(&p);
    else
        compile(&p);
    mem_free(alloc, p.tokens);
    mem_free(alloc, t->name_list);
    t->name_list = NULL;
    map_free(&t->names);
    if (p.status != INFER_OK) {
        jinja_free(t);
        return p.status;
    }
    *out = t;
    return INFER_OK;
}

void jinja_free(struct jinja *t)
{
    if (!t)
        return;
    struct alloc a = t->alloc;
    arena_free(&t->arena);
    mem_free(&a, t);
}
