/* Values of the template language: Python's, as far as templates meet them. Everything lives in an arena (the
 * template's for constants, the rendering's for the rest) and nothing but namespaces, iterators, loops, cyclers and joiners ever
 * changes after it was made: the sandbox forbids list.append and the like, so sharing is free. */
#ifndef TEXT_JINJA_VALUE_H
#define TEXT_JINJA_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum jtype {
    J_MISSING, /* an argument that was not given; never seen by templates */
    J_UNDEF,
    J_NONE,
    J_BOOL,
    J_INT,
    J_BIG, /* an integer beyond int64 that came from JSON: prints and compares equal, no arithmetic */
    J_FLOAT,
    J_STR,
    J_LIST,
    J_TUPLE,
    J_DICT,
    J_RANGE,
    J_ITER, /* a generator: can be walked once */
    J_VIEW, /* dict.keys(), .values(), .items() */
    J_NS,
    J_MACRO,
    J_METHOD, /* a method with its object */
    J_GLOBAL, /* a built-in function */
    J_LOOP,
    J_CYCLER,
    J_JOINER
};

enum jundef { UNDEF_NAME, UNDEF_ATTR, UNDEF_ITEM, UNDEF_HINT, UNDEF_UNSAFE };
enum jview { VIEW_KEYS, VIEW_VALUES, VIEW_ITEMS };

struct jstr {
    const char *p; /* UTF-8, valid, not terminated */
    size_t len;    /* bytes */
    size_t cps;    /* code points */
    bool markup;   /* made by |escape or |safe: concatenation escapes the other side */
};

struct jv {
    uint8_t type;     /* enum jtype */
    uint8_t sub;      /* enum jundef, enum jview */
    uint8_t obj;      /* J_UNDEF: the type that lacks the attribute */
    union {
        bool b;
        int64_t i;
        double d;
        const struct jstr *s; /* J_STR, J_BIG; J_UNDEF: the name or hint */
        struct jlist *list;   /* J_LIST, J_TUPLE */
        struct jdict *dict;   /* J_DICT, J_VIEW, J_NS */
        struct jrange *range;
        struct jgen *gen;
        struct jmacro *macro;
        struct jmethod *method;
        const struct jbuiltin *global;
        struct jloop *loop;
        struct jcycler *cycler;
        struct jjoiner *joiner;
    } u;
};

struct jlist {
    struct jv *v;
    size_t n;
    struct jback *back; /* set when v lies in a block that has room behind its end: see jx_list_concat */
    bool group;         /* a tuple of |groupby, whose parts have names */
};

struct jpair {
    struct jv key, value;
};

struct jdict {
    struct jpair *items; /* in order of insertion */
    size_t n, cap;
    uint32_t *index; /* open addressing, positions + 1; NULL while small */
    size_t mask;
};

struct jrange {
    int64_t start, step;
    int64_t stop;
    size_t n;
};

struct jgen {
    struct jlist *items;
    size_t pos;
    const char *name; /* of the Python type */
};

struct jcycler {
    struct jlist *items;
    size_t pos;
};

struct jjoiner {
    struct jv sep;
    bool used;
};

static inline struct jv jv_none(void) { return (struct jv){.type = J_NONE}; }
static inline struct jv jv_bool(bool b) { return (struct jv){.type = J_BOOL, .u.b = b}; }
static inline struct jv jv_int(int64_t i) { return (struct jv){.type = J_INT, .u.i = i}; }
static inline struct jv jv_float(double d) { return (struct jv){.type = J_FLOAT, .u.d = d}; }
static inline struct jv jv_str(const struct jstr *s) { return (struct jv){.type = J_STR, .u.s = s}; }
static inline struct jv jv_list(struct jlist *l) { return (struct jv){.type = J_LIST, .u.list = l}; }
static inline struct jv jv_tuple(struct jlist *l) { return (struct jv){.type = J_TUPLE, .u.list = l}; }
static inline struct jv jv_dict(struct jdict *d) { return (struct jv){.type = J_DICT, .u.dict = d}; }

/* "the value is not there": by name, or as attribute or item of a value of type `obj`, or for a reason in words. */
static inline struct jv jv_undef(enum jundef why, uint8_t obj, const struct jstr *name)
{
    return (struct jv){.type = J_UNDEF, .sub = (uint8_t)why, .obj = obj, .u.s = name};
}

static inline bool jv_is_number(const struct jv *v) { return v->type == J_INT || v->type == J_BOOL || v->type == J_FLOAT; }
static inline bool jv_is_whole(const struct jv *v) { return v->type == J_INT || v->type == J_BOOL; }
static inline int64_t jv_whole(const struct jv *v) { return v->type == J_BOOL ? v->u.b : v->u.i; }
static inline double jv_double(const struct jv *v) { return v->type == J_FLOAT ? v->u.d : (double)jv_whole(v); }

/* The name of the Python type, for messages and for str() of odd objects. */
const char *jv_type_name(const struct jv *v);
const char *jv_type_text(uint8_t type); /* of an enum jtype, when there is no value at hand */

#endif
