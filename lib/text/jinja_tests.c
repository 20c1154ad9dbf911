/* Tests: `x is name(args)`. */
#include <string.h>

#include "base/num.h"
#include "base/utf8.h"
#include "text/jinja_run.h"
#include "text/jinja_str.h"

static bool put(struct jv *out, bool yes)
{
    *out = jv_bool(yes);
    return true;
}

static bool t_defined(struct jcall *c, struct jv *out) { return put(out, c->self.type != J_UNDEF); }
static bool t_undefined(struct jcall *c, struct jv *out) { return put(out, c->self.type == J_UNDEF); }
static bool t_none(struct jcall *c, struct jv *out) { return put(out, c->self.type == J_NONE); }
static bool t_boolean(struct jcall *c, struct jv *out) { return put(out, c->self.type == J_BOOL); }
static bool t_true(struct jcall *c, struct jv *out) { return put(out, c->self.type == J_BOOL && c->self.u.b); }
static bool t_false(struct jcall *c, struct jv *out) { return put(out, c->self.type == J_BOOL && !c->self.u.b); }
static bool t_integer(struct jcall *c, struct jv *out) { return put(out, c->self.type == J_INT || c->self.type == J_BIG); }
static bool t_float(struct jcall *c, struct jv *out) { return put(out, c->self.type == J_FLOAT); }
static bool t_string(struct jcall *c, struct jv *out) { return put(out, c->self.type == J_STR); }
static bool t_mapping(struct jcall *c, struct jv *out) { return put(out, c->self.type == J_DICT); }
static bool t_iterable(struct jcall *c, struct jv *out) { return put(out, jx_is_iterable(&c->self)); }
static bool t_escaped(struct jcall *c, struct jv *out) { return put(out, c->self.type == J_STR && c->self.u.s->markup); }

static bool t_number(struct jcall *c, struct jv *out)
{
    return put(out, jv_is_number(&c->self) || c->self.type == J_BIG);
}

static bool t_sequence(struct jcall *c, struct jv *out) /* has a length and items: also mappings and undefined */
{
    uint8_t t = c->self.type;
    return put(out, t == J_STR || t == J_LIST || t == J_TUPLE || t == J_DICT || t == J_RANGE || t == J_UNDEF);
}

static bool t_callable(struct jcall *c, struct jv *out)
{
    uint8_t t = c->self.type;
    return put(out, t == J_MACRO || t == J_METHOD || t == J_GLOBAL || t == J_LOOP || t == J_JOINER || t == J_UNDEF);
}

static bool divides(struct jcall *c, const struct jv *by, int64_t rest, struct jv *out)
{
    struct jv mod, want = jv_int(rest);
    bool same;
    if (!jx_binary(c->x, T_MOD, &c->self, by, &mod) || !jx_equal(c->x, &mod, &want, &same))
        return false;
    return put(out, same);
}

static bool t_odd(struct jcall *c, struct jv *out)
{
    struct jv two = jv_int(2);
    return divides(c, &two, 1, out);
}

static bool t_even(struct jcall *c, struct jv *out)
{
    struct jv two = jv_int(2);
    return divides(c, &two, 0, out);
}

static bool t_divisibleby(struct jcall *c, struct jv *out)
{
    return divides(c, &c->arg[0], 0, out);
}

/* str.islower() and .isupper(): some characters have the case, and none has another. */
static bool has_case(struct jcall *c, enum js_case want, struct jv *out)
{
    const struct jstr *s;
    bool any = false;
    size_t used;
    if (!jx_to_str(c->x, &c->self, &s) || !jx_spend_bytes(c->x, s->len))
        return false;
    for (size_t i = 0; i < s->len; i += used) {
        enum js_case is = js_case_of(utf8_decode(s->p + i, s->len - i, &used));
        if (is != JS_UNCASED && is != want)
            return put(out, false);
        any |= is == want;
    }
    return put(out, any);
}

static bool t_lower(struct jcall *c, struct jv *out) { return has_case(c, JS_LOWER, out); }
static bool t_upper(struct jcall *c, struct jv *out) { return has_case(c, JS_UPPER, out); }

static bool t_sameas(struct jcall *c, struct jv *out)
{
    const struct jv *a = &c->self, *b = &c->arg[0];
    bool same;
    if (a->type != b->type)
        return put(out, false);
    if (a->type == J_LIST || a->type == J_DICT || a->type == J_TUPLE)
        return put(out, a->u.list == b->u.list);
    return jx_equal(c->x, a, b, &same) && put(out, same);
}

static bool compare(struct jcall *c, uint8_t op, struct jv *out)
{
    bool yes;
    return jx_compare(c->x, op, &c->self, &c->arg[0], &yes) && put(out, yes);
}

static bool t_eq(struct jcall *c, struct jv *out) { return compare(c, T_EQ, out); }
static bool t_ne(struct jcall *c, struct jv *out) { return compare(c, T_NE, out); }
static bool t_lt(struct jcall *c, struct jv *out) { return compare(c, T_LT, out); }
static bool t_le(struct jcall *c, struct jv *out) { return compare(c, T_LE, out); }
static bool t_gt(struct jcall *c, struct jv *out) { return compare(c, T_GT, out); }
static bool t_ge(struct jcall *c, struct jv *out) { return compare(c, T_GE, out); }
static bool t_in(struct jcall *c, struct jv *out) { return compare(c, OP_IN, out); }

static bool hashable(struct jcall *c)
{
    uint8_t t = c->self.type;
    return (t != J_LIST && t != J_DICT) || jx_fail(c->x, "unhashable type: '%s'", jv_type_name(&c->self));
}

static bool t_filter(struct jcall *c, struct jv *out)
{
    return hashable(c) && put(out, c->self.type == J_STR && jx_filter(c->self.u.s->p, c->self.u.s->len));
}

static bool t_test(struct jcall *c, struct jv *out)
{
    return hashable(c) && put(out, c->self.type == J_STR && jx_test(c->self.u.s->p, c->self.u.s->len));
}

static const struct jbuiltin tests[] = {
    {"!=", t_ne, "other", 1},
    {"<", t_lt, "other", 1},
    {"<=", t_le, "other", 1},
    {"==", t_eq, "other", 1},
    {">", t_gt, "other", 1},
    {">=", t_ge, "other", 1},
    {"boolean", t_boolean, "", 0},
    {"callable", t_callable, "", 0},
    {"defined", t_defined, "", 0},
    {"divisibleby", t_divisibleby, "num", 1},
    {"eq", t_eq, "other", 1},
    {"equalto", t_eq, "other", 1},
    {"escaped", t_escaped, "", 0},
    {"even", t_even, "", 0},
    {"false", t_false, "", 0},
    {"filter", t_filter, "", 0},
    {"float", t_float, "", 0},
    {"ge", t_ge, "other", 1},
    {"greaterthan", t_gt, "other", 1},
    {"gt", t_gt, "other", 1},
    {"in", t_in, "seq", 1},
    {"integer", t_integer, "", 0},
    {"iterable", t_iterable, "", 0},
    {"le", t_le, "other", 1},
    {"lessthan", t_lt, "other", 1},
    {"lower", t_lower, "", 0},
    {"lt", t_lt, "other", 1},
    {"mapping", t_mapping, "", 0},
    {"ne", t_ne, "other", 1},
    {"none", t_none, "", 0},
    {"number", t_number, "", 0},
    {"odd", t_odd, "", 0},
    {"sameas", t_sameas, "other", 1},
    {"sequence", t_sequence, "", 0},
    {"string", t_string, "", 0},
    {"test", t_test, "", 0},
    {"true", t_true, "", 0},
    {"undefined", t_undefined, "", 0},
    {"upper", t_upper, "", 0},
    {NULL, NULL, NULL, 0},
};

const struct jbuiltin *jx_test(const char *name, size_t len)
{
    return jx_find(tests, name, len);
}
