/* Tokens and syntax tree of a template. All in the template's arena; immutable once compiled. */
#ifndef TEXT_JINJA_AST_H
#define TEXT_JINJA_AST_H

#include "base/arena.h"
#include "base/err.h"
#include "base/map.h"
#include "text/jinja_value.h"

#define JINJA_MAX_PARSE_DEPTH 120 /* nested expressions and blocks */
#define JINJA_MAX_NAMED 1000      /* keyword arguments of a call, parameters of a macro */

enum token_type {
    T_EOF,
    T_DATA,
    T_VAR_BEGIN,
    T_VAR_END,
    T_BLOCK_BEGIN,
    T_BLOCK_END,
    T_NAME,
    T_STRING,
    T_INT,
    T_FLOAT,
    T_ADD,
    T_SUB,
    T_MUL,
    T_DIV,
    T_FLOORDIV,
    T_MOD,
    T_POW,
    T_TILDE,
    T_EQ,
    T_NE,
    T_LT,
    T_LE,
    T_GT,
    T_GE,
    T_ASSIGN,
    T_DOT,
    T_COMMA,
    T_COLON,
    T_PIPE,
    T_SEMICOLON,
    T_LPAREN,
    T_RPAREN,
    T_LBRACKET,
    T_RBRACKET,
    T_LBRACE,
    T_RBRACE
};

struct token {
    uint8_t type;
    uint32_t pos;  /* in the normalised source */
    uint32_t len;  /* of the text at pos: names, numbers, strings with their quotes */
    struct jv value; /* T_DATA, T_STRING: a string; T_INT, T_FLOAT: the number; T_NAME: interned string */
};

enum node_kind {
    /* expressions */
    N_CONST, /* value */
    N_NAME,  /* name; value: the global function of that name or J_MISSING */
    N_TUPLE, /* list */
    N_LIST,  /* list */
    N_DICT,  /* list: key, value, key, value, ... */
    N_ATTR,  /* a.name */
    N_ITEM,  /* a[b] */
    N_SLICE, /* a[list0 : list1 : list2], each may be NULL */
    N_CALL,  /* a(args) */
    N_FILTER, /* a|name(args); a is NULL in filter blocks */
    N_TEST,  /* a is name(args) */
    N_NOT,
    N_NEG,
    N_POS,
    N_AND,
    N_OR,
    N_BINARY,  /* op: the token type */
    N_CONCAT,  /* list, joined as strings */
    N_COMPARE, /* a, then list of N_OPERAND */
    N_OPERAND, /* op, a */
    N_COND,    /* b if a else c; c may be NULL */
    N_NSREF,   /* name.list0's attribute: only as target of set; b is an N_CONST with the attribute */
    /* statements */
    S_BODY,  /* list */
    S_DATA,  /* value */
    S_PRINT, /* a */
    S_FOR,   /* a: target, b: iterated, c: body, list[0]: test or NULL, list[1]: else or NULL; op: recursive */
    S_IF,    /* list: test, body, test, body ...; c: else or NULL */
    S_SET,   /* a: target, b: value */
    S_SET_BLOCK, /* a: target, b: filter or NULL, c: body */
    S_MACRO,     /* name, sig, c: body */
    S_CALL,      /* a: the N_CALL, b: an S_MACRO with the block */
    S_FILTER,    /* b: filter, c: body */
    S_WITH,      /* list: target, value, ...; c: body */
    S_SCOPE,     /* c: body; op: 1 when the scope is the template's (a block) */
    S_BREAK,
    S_CONTINUE,
    S_DO,         /* a */
    S_AUTOESCAPE, /* a, c: body */
    S_UNSUPPORTED /* name: include, import, extends: fail when reached */
};

enum { OP_IN = 200, OP_NOT_IN = 201 }; /* beside token types in N_OPERAND.op */

struct jkwarg {
    const struct jstr *name;
    struct node *value;
};

struct jcallargs {
    struct node **pos;
    struct jkwarg *kw;
    uint32_t n, n_kw;
    struct node *star, *star2; /* *args, **kwargs */
};

struct jsig { /* of a macro or call block */
    const struct jstr **names;
    struct node **defaults; /* one a name, NULL: none */
    uint32_t n;
    bool uses_caller, uses_varargs, uses_kwargs; /* the body mentions them */
};

struct jhidden { /* names that begin undefined in a scope: jinja_scope.c */
    const struct jstr **names;
    uint32_t n;
};

struct node {
    uint8_t kind, op;
    uint32_t pos;
    uint32_t n; /* in list */
    struct node *a, *b, *c;
    struct node **list;
    const struct jstr *name;
    union {
        struct jv value;
        struct jsig *sig;
        struct jhidden *hidden; /* S_BODY of a scope; may be NULL */
        struct {
            struct jcallargs *args;        /* N_CALL, N_FILTER, N_TEST; NULL: none */
            const struct jbuiltin *fn; /* NULL: unknown name, an error when reached */
        } call;
    } u;
};

struct jinja {
    struct alloc alloc; /* first used last freed */
    struct arena arena;
    const char *text;   /* normalised: \n only, one trailing newline dropped */
    size_t len;
    bool had_cr;        /* offsets differ from the caller's text */
    const char *original;
    size_t original_len;
    struct node *body;
    struct map names; /* while compiling: interned names */
    const struct jstr **name_list;
    size_t n_names, cap_names;
    const struct jstr *n_loop, *n_caller, *n_varargs, *n_kwargs;
};

/* Compile-time state, shared by lexer and parser. */
struct jparse {
    struct jinja *t;
    struct token *tokens;
    size_t n_tokens, cap_tokens, at;
    uint32_t depth, loop_depth;
    const struct token *unknown; /* the first unknown filter or test; one inside an if fails only when reached */
    bool unknown_is_test;
    struct jsig *sigs[JINJA_MAX_PARSE_DEPTH + 1]; /* macros around the current place */
    uint32_t n_sigs;
    infer_status status;
    infer_error *err;
};

/* All return NULL or false after recording the error. */
bool jp_fail(struct jparse *p, uint32_t pos, const char *fmt, ...) BASE_PRINTF(3, 4);
bool jp_no_memory(struct jparse *p);
bool jp_limit(struct jparse *p, uint32_t pos, const char *what);
const struct jstr *jp_string(struct jparse *p, const char *s, size_t len); /* copies */
const struct jstr *jp_intern(struct jparse *p, const char *s, size_t len);
bool jp_lex(struct jparse *p);
bool jp_resolve_scopes(struct jparse *p);
struct node *jp_body(struct jparse *p, const char *const *ends); /* up to a block tag named in ends (NULL: the end) */

/* expressions (jinja_parse.c), used by the statements (jinja_parse_stmt.c) */
struct node *jp_node(struct jparse *p, uint8_t kind, uint32_t pos);
struct node *jp_expression(struct jparse *p, bool with_cond);
struct node *jp_tuple(struct jparse *p, bool with_cond, const char *end_name);
struct node *jp_target(struct jparse *p, bool with_namespace, const char *end_name);
struct node *jp_filter_chain(struct jparse *p, struct node *a, bool start_inline);
const struct token *jp_peek(const struct jparse *p);
const struct token *jp_look(const struct jparse *p); /* one further */
const struct token *jp_next(struct jparse *p);
bool jp_is_name(const struct token *t, const char *name);
bool jp_skip_name(struct jparse *p, const char *name);
bool jp_skip(struct jparse *p, enum token_type type);
bool jp_expect(struct jparse *p, enum token_type type, const struct token **out);
bool jp_enter(struct jparse *p); /* pairs with p->depth-- */

struct node_list { /* grows in the arena */
    struct node **v;
    uint32_t n, cap;
};
bool jp_push(struct jparse *p, struct node_list *l, struct node *n); /* false also when n is NULL */

/* The line (from 1) of a place, and its offset in the text as the caller gave it. */
uint32_t jinja_line(const struct jinja *t, uint32_t pos);
uint64_t jinja_offset(const struct jinja *t, uint32_t pos);

#endif
