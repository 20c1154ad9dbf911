/* Python's operators on template values. */
#include <string.h>

#include "base/num.h"
#include "text/jinja_run.h"
#include "text/jinja_str.h"

bool jx_undef_error(struct jx *x, const struct jv *v)
{
    const char *type = v->obj == J_NONE ? "None" : jv_type_text(v->obj);
    int n = v->u.s ? (int)(v->u.s->len < 200 ? v->u.s->len : 200) : 0;
    const char *p = v->u.s ? v->u.s->p : "";
    switch (v->sub) {
    case UNDEF_NAME:
        return jx_fail(x, "'%.*s' is undefined", n, p);
    case UNDEF_ATTR:
        return jx_fail(x, "'%s%s' has no attribute '%.*s'", type, v->obj == J_NONE ? "" : " object", n, p);
    case UNDEF_ITEM:
        return jx_fail(x, "%s object has no element %.*s", type, n, p);
    case UNDEF_UNSAFE:
        return jx_fail(x, "access to attribute '%.*s' of '%s' object is unsafe.", n, p, type);
    default:
        return jx_fail(x, "%.*s", n, p);
    }
}

static const char *op_text(uint8_t op)
{
    switch (op) {
    case T_ADD:
        return "+";
    case T_SUB:
        return "-";
    case T_MUL:
        return "*";
    case T_DIV:
        return "/";
    case T_FLOORDIV:
        return "//";
    case T_MOD:
        return "%";
    case T_POW:
        return "** or pow()";
    case T_LT:
        return "<";
    case T_LE:
        return "<=";
    case T_GT:
        return ">";
    default:
        return ">=";
    }
}

static bool overflow(struct jx *x)
{
    return jx_limit(x, "integer result beyond 64 bits");
}

static bool put_int(int64_t v, struct jv *out)
{
    *out = jv_int(v);
    return true;
}

static bool put_float(double v, struct jv *out)
{
    *out = jv_float(v);
    return true;
}

/* ---- integers ---- */

static bool add_i64(int64_t a, int64_t b, int64_t *out)
{
    if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b)
        return false;
    *out = a + b;
    return true;
}

static bool mul_i64(int64_t a, int64_t b, int64_t *out)
{
    uint64_t ua = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, ub = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    bool minus = (a < 0) != (b < 0);
    uint64_t limit = (uint64_t)INT64_MAX + minus;
    if (ub && ua > limit / ub)
        return false;
    *out = minus ? (int64_t)(0 - ua * ub) : (int64_t)(ua * ub);
    return true;
}

static void floor_divide(int64_t a, int64_t b, int64_t *q, int64_t *r) /* b != 0, no overflow */
{
    *q = a / b;
    *r = a % b;
    if (*r && (*r < 0) != (b < 0)) {
        *r += b;
        --*q;
    }
}

/* base^exp for exp >= 0 in double-double, rounded once: the error stays far below half a unit. */
static double pow_whole(double base, uint64_t exp)
{
    double hi = 1, lo = 0, bh = base, bl = 0;
    for (; exp; exp >>= 1) {
        for (int square = 0; square < 2; square++) {
            double *h = square ? &bh : &hi, *l = square ? &bl : &lo;
            if (!square && !(exp & 1))
                continue;
            /* exact product of *h and bh by splitting (Dekker 1971) */
            const double split = 134217729.0;
            double a = *h, b = bh, p = a * b;
            if (!num_is_finite(p) || p == 0 || a > 1e150 || a < -1e150 || b > 1e150 || b < -1e150) {
                *l = 0;
                *h = p;
                continue;
            }
            double ta = split * a, tb = split * b, ah = ta - (ta - a), bhh = tb - (tb - b);
            double al = a - ah, bll = b - bhh;
            double e = ((ah * bhh - p) + ah * bll + al * bhh) + al * bll + (a * bl + *l * b);
            *h = p + e;
            *l = e - (*h - p);
        }
    }
    return hi;
}

static bool power(struct jx *x, const struct jv *a, const struct jv *b, struct jv *out)
{
    if (jv_is_whole(a) && jv_is_whole(b) && jv_whole(b) >= 0) {
        int64_t r = 1, base = jv_whole(a);
        uint64_t e = (uint64_t)jv_whole(b);
        while (e) {
            if ((e & 1) && !mul_i64(r, base, &r))
                return overflow(x);
            e >>= 1;
            if (e && !mul_i64(base, base, &base))
                return overflow(x);
        }
        return put_int(r, out);
    }
    double base = jv_double(a), e = jv_double(b);
    if (!num_is_finite(e) || num_floor(e) != e || e > 1e15 || e < -1e15)
        return jx_fail(x, "fractional powers are not supported");
    if (base == 0 && e < 0)
        return jx_fail(x, "0.0 cannot be raised to a negative power");
    double r = pow_whole(base, (uint64_t)(e < 0 ? -e : e));
    r = e < 0 ? 1 / r : r;
    if (num_is_finite(base) && !num_is_finite(r))
        return jx_fail(x, "Numerical result out of range");
    return put_float(r, out);
}

static bool float_divide(struct jx *x, uint8_t op, double a, double b, struct jv *out)
{
    if (b == 0)
        return jx_fail(x, op == T_DIV ? "float division by zero" : op == T_MOD ? "float modulo" : "float floor division by zero");
    if (op == T_DIV)
        return put_float(a / b, out);
    double mod = num_fmod(a, b), div = (a - mod) / b;
    if (mod != 0) {
        if ((b < 0) != (mod < 0)) {
            mod += b;
            div -= 1;
        }
    } else {
        mod = b < 0 ? -0.0 : 0.0;
    }
    if (op == T_MOD)
        return put_float(mod, out);
    if (div == 0)
        return put_float(a / b < 0 || 1 / (a / b) < 0 ? -0.0 : 0.0, out);
    double whole = num_floor(div);
    return put_float(div - whole > 0.5 ? whole + 1 : whole, out);
}

static bool int_divide(struct jx *x, uint8_t op, int64_t a, int64_t b, struct jv *out)
{
    int64_t q, r;
    if (b == 0)
        return jx_fail(x, op == T_DIV ? "division by zero" : "integer division or modulo by zero");
    if (op == T_DIV)
        return put_float(num_divide_i64(a, b), out);
    if (b == -1) /* INT64_MIN / -1 overflows */
        return op == T_MOD ? put_int(0, out) : a == INT64_MIN ? overflow(x) : put_int(-a, out);
    floor_divide(a, b, &q, &r);
    return put_int(op == T_MOD ? r : q, out);
}

static bool arithmetic(struct jx *x, uint8_t op, const struct jv *a, const struct jv *b, struct jv *out)
{
    bool whole = jv_is_whole(a) && jv_is_whole(b);
    double m = jv_double(a), n = jv_double(b);
    int64_t r;
    switch (op) {
    case T_ADD:
        return !whole ? put_float(m + n, out) : add_i64(jv_whole(a), jv_whole(b), &r) ? put_int(r, out) : overflow(x);
    case T_SUB:
        if (!whole)
            return put_float(m - n, out);
        if (jv_whole(b) == INT64_MIN)
            return jv_whole(a) < 0 ? put_int(jv_whole(a) - INT64_MIN, out) : overflow(x);
        return add_i64(jv_whole(a), -jv_whole(b), &r) ? put_int(r, out) : overflow(x);
    case T_MUL:
        return !whole ? put_float(m * n, out) : mul_i64(jv_whole(a), jv_whole(b), &r) ? put_int(r, out) : overflow(x);
    case T_POW:
        return power(x, a, b, out);
    default:
        return whole ? int_divide(x, op, jv_whole(a), jv_whole(b), out) : float_divide(x, op, m, n, out);
    }
}

/* ---- sequences ---- */

static bool repeat(struct jx *x, const struct jv *seq, int64_t times, struct jv *out)
{
    if (times < 0)
        times = 0;
    if (seq->type == J_STR) {
        const struct jstr *s = seq->u.s;
        size_t mark = x->tmp.len;
        if (s->len && (uint64_t)times > ((uint64_t)1 << 40) / s->len)
            return jx_limit(x, "repeated string is too long");
        if (!jx_spend_bytes(x, s->len * (size_t)times) || !buf_reserve(&x->tmp, s->len * (size_t)times))
            return x->status == INFER_OK && jx_buf_failed(x, &x->tmp);
        for (int64_t i = 0; s->len && i < times; i++)
            buf_put(&x->tmp, s->p, s->len);
        return jx_take_like(x, mark, s, out);
    }
    const struct jlist *l = seq->u.list;
    if (l->n && (uint64_t)times > ((uint64_t)1 << 36) / l->n)
        return jx_limit(x, "repeated list is too long");
    size_t n = l->n * (size_t)times;
    struct jv *v = jx_spend(x, n / 8 + 1) ? jx_array(x, n, sizeof *v) : NULL;
    if (!v)
        return false;
    for (size_t i = 0; i < n; i++)
        v[i] = l->v[i % l->n];
    struct jlist *made = jx_list(x, v, n);
    *out = (struct jv){.type = seq->type, .u.list = made};
    return made != NULL;
}

static bool is_sequence(const struct jv *v)
{
    return v->type == J_STR || v->type == J_LIST || v->type == J_TUPLE;
}

static bool bad_operands(struct jx *x, uint8_t op, const struct jv *a, const struct jv *b)
{
    if (op == T_ADD && a->type == J_STR)
        return jx_fail(x, "can only concatenate str (not \"%s\") to str", jv_type_name(b));
    if (op == T_ADD && (a->type == J_LIST || a->type == J_TUPLE))
        return jx_fail(x, "can only concatenate %s (not \"%s\") to %s", jv_type_name(a), jv_type_name(b), jv_type_name(a));
    if (op == T_MUL && (is_sequence(a) || is_sequence(b)))
        return jx_fail(x, "can't multiply sequence by non-int of type '%s'", jv_type_name(is_sequence(a) ? b : a));
    return jx_fail(x, "unsupported operand type(s) for %s: '%s' and '%s'", op_text(op), jv_type_name(a), jv_type_name(b));
}

bool jx_binary(struct jx *x, uint8_t op, const struct jv *a, const struct jv *b, struct jv *out)
{
    if (jv_is_number(a) && jv_is_number(b))
        return arithmetic(x, op, a, b, out);
    if (op == T_MOD && a->type == J_STR) {
        struct jargs args = {.pos = (struct jv *)(uintptr_t)b, .n = 1};
        if (b->type == J_TUPLE)
            args = (struct jargs){.pos = b->u.list->v, .n = b->u.list->n};
        return jx_percent(x, a->u.s, &args, b->type == J_TUPLE ? NULL : b, out);
    }
    if (a->type == J_UNDEF || b->type == J_UNDEF)
        return jx_undef_error(x, a->type == J_UNDEF ? a : b);
    if (a->type == J_BIG || b->type == J_BIG)
        return overflow(x);
    if (op == T_ADD && a->type == b->type && a->type == J_STR)
        return jx_str_concat(x, a->u.s, b->u.s, out);
    if (op == T_ADD && a->type == b->type && (a->type == J_LIST || a->type == J_TUPLE))
        return jx_list_concat(x, a->u.list, b->u.list, a->type, out);
    if (op == T_MUL && is_sequence(a) && jv_is_whole(b))
        return repeat(x, a, jv_whole(b), out);
    if (op == T_MUL && is_sequence(b) && jv_is_whole(a))
        return repeat(x, b, jv_whole(a), out);
    return bad_operands(x, op, a, b);
}

bool jx_negate(struct jx *x, const struct jv *a, struct jv *out)
{
    if (a->type == J_FLOAT)
        return put_float(-a->u.d, out);
    if (jv_is_whole(a))
        return jv_whole(a) == INT64_MIN ? overflow(x) : put_int(-jv_whole(a), out);
    if (a->type == J_UNDEF)
        return jx_undef_error(x, a);
    return a->type == J_BIG ? overflow(x) : jx_fail(x, "bad operand type for unary -: '%s'", jv_type_name(a));
}

bool jx_positive(struct jx *x, const struct jv *a, struct jv *out)
{
    *out = *a;
    if (a->type == J_FLOAT || a->type == J_INT || a->type == J_BIG)
        return true;
    if (a->type == J_BOOL)
        return put_int(a->u.b, out);
    return a->type == J_UNDEF ? jx_undef_error(x, a) : jx_fail(x, "bad operand type for unary +: '%s'", jv_type_name(a));
}

bool jx_compare(struct jx *x, uint8_t op, const struct jv *a, const struct jv *b, bool *out)
{
    bool less, same;
    switch (op) {
    case OP_IN:
        return jx_contains(x, a, b, out);
    case OP_NOT_IN:
        if (!jx_contains(x, a, b, out))
            return false;
        *out = !*out;
        return true;
    case T_EQ:
        return jx_equal(x, a, b, out);
    case T_NE:
        if (!jx_equal(x, a, b, out))
            return false;
        *out = !*out;
        return true;
    case T_LT:
        return jx_less(x, a, b, "<", out);
    case T_GT:
        return jx_less(x, b, a, ">", out);
    default: /* <= and >=: not "not >", because of NaN */
        if (!jx_less(x, op == T_LE ? a : b, op == T_LE ? b : a, op_text(op), &less) || !jx_equal(x, a, b, &same))
            return false;
        *out = less || same;
        return true;
    }
}
