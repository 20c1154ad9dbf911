/* The state of one rendering, and what its parts (jinja_eval.c, _exec.c, _ops.c, _print.c, _filters*.c, ...) offer each other.
 * Functions that can fail return false after recording the error in the state; callers just pass the failure on. */
#ifndef TEXT_JINJA_RUN_H
#define TEXT_JINJA_RUN_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/cancel.h"
#include "base/err.h"
#include "text/jinja.h"
#include "text/jinja_ast.h"
#include "text/jinja_value.h"

#define JX_MAX_DEPTH 1000    /* nested evaluations: expressions, blocks, macro calls, values being printed or compared */
#define JX_MAX_RANGE 100000  /* elements of a range(), as in Jinja2's sandbox */
#define JX_MAX_WIDTH 1000000 /* widths of format, center, ljust, indent and the like */

struct jvar {
    const struct jstr *name; /* interned: compared by address */
    struct jv value;
};

/* Variables of a loop body, macro, with-block ...; the outermost one holds what the template sets at its top level. */
struct jscope {
    struct jscope *parent;
    struct jvar *vars;
    uint32_t n, cap;
    bool captured; /* a macro refers to it: must not be reused for the next iteration */
};

struct jiter {
    struct jv src;
    size_t pos, byte;
};

struct jloop {
    struct jiter it;
    const struct node *node; /* its |for| */
    struct jscope *outer;
    struct jlist *rest; /* the remaining items once the length was asked for */
    size_t rest_pos;
    struct jv current, before, after, changed;
    bool have_after, drained;
    int64_t index0, length; /* length -1: unknown */
    int64_t depth0;
};

struct jmacro {
    const struct node *node;
    struct jscope *scope;
};

struct jmethod {
    struct jv self;
    const struct jbuiltin *fn;
};

struct jkw {
    const struct jstr *name;
    struct jv value;
};

struct jargs {
    struct jv *pos;
    struct jkw *kw;
    size_t n, n_kw;
};

struct jx {
    const struct jinja *tmpl;
    struct arena arena;
    struct buf *out; /* the output; captured blocks use its end for a while */
    struct buf tmp;  /* a stack of strings being built */
    size_t out_limit;
    uint64_t steps, max_steps, next_poll;
    uint32_t depth;
    uint32_t pos; /* of the node being evaluated, for messages */
    struct jscope root;
    struct jdict *context;
    const infer_cancel *cancel;
    int64_t now;
    infer_status status;
    infer_error *err;
};

/* A call of a built-in filter, test, method or function with its arguments bound to parameters. */
#define JX_MAX_PARAMS 6
struct jcall {
    struct jx *x;
    struct jv self;                /* the filtered or tested value, the method's object */
    struct jv arg[JX_MAX_PARAMS];  /* J_MISSING when not given */
    const struct jargs *raw;
    const char *name;
};

typedef bool jbuiltin_fn(struct jcall *c, struct jv *out);

struct jbuiltin {
    const char *name;
    jbuiltin_fn *fn;
    const char *params; /* names, separated by blanks; NULL: the function looks at `raw` itself */
    uint8_t required;   /* how many of them must be given */
};

/* ---- errors, limits, memory (jinja_exec.c) ---- */
bool jx_fail(struct jx *x, const char *fmt, ...) BASE_PRINTF(2, 3); /* false; INFER_ERROR_TEMPLATE at x->pos */
bool jx_limit(struct jx *x, const char *what);                       /* false; INFER_ERROR_LIMIT */
bool jx_buf_failed(struct jx *x, const struct buf *b);                /* false; for a buffer that is not ok */
bool jx_spend_slow(struct jx *x);
static inline bool jx_spend(struct jx *x, uint64_t n) /* counts work; false when the step limit is reached or on cancel */
{
    x->steps += n;
    return x->steps < x->next_poll || jx_spend_slow(x);
}
/* Work on n bytes or n/8 elements: cheap, but not free. */
static inline bool jx_spend_bytes(struct jx *x, size_t n) { return jx_spend(x, n / 64 + 1); }
void *jx_alloc(struct jx *x, size_t size); /* NULL: failure recorded */
void *jx_array(struct jx *x, size_t n, size_t size);
bool jx_enter(struct jx *x); /* one level deeper; pairs with x->depth-- */

/* ---- strings (jinja_value.c) ---- */
const struct jstr *jx_str(struct jx *x, const char *p, size_t len);     /* copies */
const struct jstr *jx_str_ref(struct jx *x, const char *p, size_t len); /* borrows p */
bool jx_put_str(struct jx *x, const char *p, size_t len, struct jv *out);
bool jx_put_cstr(struct jx *x, const char *zstr, struct jv *out);
/* Strings under construction: mark = x->tmp.len; append to x->tmp; jx_take gives what lies behind the mark. */
bool jx_take(struct jx *x, size_t mark, struct jv *out);
bool jx_take_like(struct jx *x, size_t mark, const struct jstr *like, struct jv *out); /* markup when `like` is */
void jx_escape(struct buf *b, const char *p, size_t len);                              /* HTML */

/* ---- containers (jinja_value.c) ---- */
struct jlb { /* a list being built */
    struct jx *x;
    struct jv *v;
    size_t n, cap;
};
bool jlb_push(struct jlb *b, struct jv v);
struct jlist *jlb_list(struct jlb *b); /* NULL: failure recorded */
bool jlb_done(struct jlb *b, uint8_t type, struct jv *out);
bool jlb_done_iter(struct jlb *b, const char *type_name, struct jv *out);
struct jlist *jx_list(struct jx *x, struct jv *v, size_t n);
bool jx_pair(struct jx *x, struct jv a, struct jv b, struct jv *out); /* a tuple of two */
bool jx_list_concat(struct jx *x, const struct jlist *a, const struct jlist *b, uint8_t type, struct jv *out);
bool jx_str_concat(struct jx *x, const struct jstr *a, const struct jstr *b, struct jv *out);

struct jdict *jx_dict(struct jx *x, size_t room);
bool jx_dict_set(struct jx *x, struct jdict *d, struct jv key, struct jv value);
/* 1: found, 0: not, -1: failure (the key cannot be hashed). */
int jx_dict_find(struct jx *x, const struct jdict *d, const struct jv *key, struct jv *out);

/* ---- semantics (jinja_value.c) ---- */
bool jx_truth(const struct jv *v);
bool jx_length(struct jx *x, const struct jv *v, size_t *out); /* fails like len() */
bool jx_equal(struct jx *x, const struct jv *a, const struct jv *b, bool *out);
bool jx_less(struct jx *x, const struct jv *a, const struct jv *b, const char *op, bool *out); /* op only for the message */
bool jx_contains(struct jx *x, const struct jv *item, const struct jv *seq, bool *out);
bool jx_is_iterable(const struct jv *v);
bool jx_iter(struct jx *x, const struct jv *v, struct jiter *it);
int jx_next(struct jx *x, struct jiter *it, struct jv *out);           /* 1, 0: end, -1: failure */
bool jx_to_list(struct jx *x, const struct jv *v, struct jlist **out); /* may share */
bool jx_item_at(struct jx *x, const struct jv *v, size_t i, struct jv *out); /* of list, tuple, range, str: i < length */

/* ---- printing (jinja_print.c) ---- */
bool jx_print(struct jx *x, struct buf *b, const struct jv *v); /* str(v) appended */
bool jx_repr(struct jx *x, struct buf *b, const struct jv *v);
bool jx_to_str(struct jx *x, const struct jv *v, const struct jstr **out); /* str(v); strings as they are */
struct json_style {
    bool ascii, sort_keys;
    const struct jstr *item_sep, *key_sep, *indent; /* indent NULL: one line */
};
bool jx_json(struct jx *x, struct buf *b, const struct jv *v, const struct json_style *style);
/* One-line text of a value for messages, cut to a reasonable length; lives in the arena. */
const char *jx_brief(struct jx *x, const struct jv *v);

/* ---- operators (jinja_ops.c) ---- */
bool jx_binary(struct jx *x, uint8_t op, const struct jv *a, const struct jv *b, struct jv *out);
bool jx_negate(struct jx *x, const struct jv *a, struct jv *out);
bool jx_positive(struct jx *x, const struct jv *a, struct jv *out);
bool jx_compare(struct jx *x, uint8_t op, const struct jv *a, const struct jv *b, bool *out);
bool jx_undef_error(struct jx *x, const struct jv *v); /* fails with the undefined value's message */

/* ---- formatting (jinja_format.c) ---- */
bool jx_percent(struct jx *x, const struct jstr *fmt, const struct jargs *args, const struct jv *mapping, struct jv *out);
bool jx_format(struct jx *x, const struct jstr *fmt, const struct jargs *args, struct jv *out);

/* ---- access and calls (jinja_eval.c) ---- */
bool jx_eval(struct jx *x, struct jscope *s, const struct node *n, struct jv *out);
bool jx_getattr(struct jx *x, const struct jv *obj, const struct jstr *name, struct jv *out);
bool jx_getitem(struct jx *x, const struct jv *obj, const struct jv *key, struct jv *out);
bool jx_slice(struct jx *x, const struct jv *obj, const struct jv *start, const struct jv *stop, const struct jv *step,
              struct jv *out);
bool jx_call(struct jx *x, const struct jv *fn, const struct jargs *args, struct jv *out);
bool jx_call_builtin(struct jx *x, const struct jbuiltin *fn, const char *what, const struct jv *self,
                     const struct jargs *args, struct jv *out);
bool jx_eval_args(struct jx *x, struct jscope *s, const struct jcallargs *a, struct jargs *out);
bool jx_lookup(struct jx *x, struct jscope *s, const struct node *name, struct jv *out);

/* ---- statements (jinja_exec.c) ---- */
bool jx_set_var(struct jx *x, struct jscope *s, const struct jstr *name, struct jv v);
bool jx_call_macro(struct jx *x, const struct jmacro *m, const struct jargs *args, struct jv *out);
bool jx_call_loop(struct jx *x, struct jloop *l, const struct jv *items, struct jv *out);
bool jx_loop_attr(struct jx *x, struct jloop *l, const struct jstr *name, struct jv *out);
bool jx_apply_filter(struct jx *x, struct jscope *s, const struct node *n, const struct jv *in, struct jv *out);

/* ---- tables ---- */
const struct jbuiltin *jx_find(const struct jbuiltin *table, const char *name, size_t len); /* ends with a NULL name */
const struct jbuiltin *jx_filter(const char *name, size_t len);
const struct jbuiltin *jx_test(const char *name, size_t len);
const struct jbuiltin *jx_global(const char *name, size_t len);
const struct jbuiltin *jx_method(uint8_t type, const char *name, size_t len);
bool jx_is_mutator(uint8_t type, const char *name, size_t len); /* methods that the sandbox withholds */
extern const struct jbuiltin jx_filters_text[], jx_filters_seq[];

/* ---- arguments ---- */
bool jx_arg_int(struct jcall *c, size_t i, int64_t missing, int64_t *out); /* fails unless an integer; None counts as missing */
bool jx_arg_bool(struct jcall *c, size_t i, bool missing);
bool jx_arg_str(struct jcall *c, size_t i, const struct jstr **out); /* a string, or NULL when missing or None */
bool jx_given(const struct jcall *c, size_t i);                      /* there, and not None */

#endif
