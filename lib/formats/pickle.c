#include "formats/pickle.h"

#include <string.h>

#include "base/cursor.h"
#include "base/err.h"
#include "base/utf8.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define FAIL(m, st, ...) err_at((m)->err, st, NULL, 0, (m)->at, __VA_ARGS__)

/* All that may be named in a file. */
static const struct {
    const char *module, *name;
    int32_t global, dtype;
} globals[] = {
    {"collections", "OrderedDict", GLOBAL_ORDERED_DICT, -1},
    {"torch._utils", "_rebuild_tensor_v2", GLOBAL_REBUILD_TENSOR, -1},
    {"torch._utils", "_rebuild_tensor_v3", GLOBAL_REBUILD_TENSOR_V3, -1},
    {"torch._utils", "_rebuild_parameter", GLOBAL_REBUILD_PARAMETER, -1},
    {"torch", "Size", GLOBAL_SIZE, -1},
    {"torch", "FloatStorage", GLOBAL_STORAGE, INFER_TYPE_F32},
    {"torch", "DoubleStorage", GLOBAL_STORAGE, INFER_TYPE_F64},
    {"torch", "HalfStorage", GLOBAL_STORAGE, INFER_TYPE_F16},
    {"torch", "BFloat16Storage", GLOBAL_STORAGE, INFER_TYPE_BF16},
    {"torch", "LongStorage", GLOBAL_STORAGE, INFER_TYPE_I64},
    {"torch", "IntStorage", GLOBAL_STORAGE, INFER_TYPE_I32},
    {"torch", "ShortStorage", GLOBAL_STORAGE, INFER_TYPE_I16},
    {"torch", "CharStorage", GLOBAL_STORAGE, INFER_TYPE_I8},
    {"torch", "ByteStorage", GLOBAL_STORAGE, INFER_TYPE_U8},
    {"torch", "BoolStorage", GLOBAL_STORAGE, INFER_TYPE_BOOL},
    {"torch", "UntypedStorage", GLOBAL_STORAGE, -1},
    {"torch.storage", "UntypedStorage", GLOBAL_STORAGE, -1},
    {"torch", "float32", GLOBAL_DTYPE, INFER_TYPE_F32},
    {"torch", "float64", GLOBAL_DTYPE, INFER_TYPE_F64},
    {"torch", "float16", GLOBAL_DTYPE, INFER_TYPE_F16},
    {"torch", "bfloat16", GLOBAL_DTYPE, INFER_TYPE_BF16},
    {"torch", "float8_e4m3fn", GLOBAL_DTYPE, INFER_TYPE_F8_E4M3},
    {"torch", "float8_e5m2", GLOBAL_DTYPE, INFER_TYPE_F8_E5M2},
    {"torch", "int64", GLOBAL_DTYPE, INFER_TYPE_I64},
    {"torch", "int32", GLOBAL_DTYPE, INFER_TYPE_I32},
    {"torch", "int16", GLOBAL_DTYPE, INFER_TYPE_I16},
    {"torch", "int8", GLOBAL_DTYPE, INFER_TYPE_I8},
    {"torch", "uint8", GLOBAL_DTYPE, INFER_TYPE_U8},
    {"torch", "uint16", GLOBAL_DTYPE, INFER_TYPE_U16},
    {"torch", "uint32", GLOBAL_DTYPE, INFER_TYPE_U32},
    {"torch", "uint64", GLOBAL_DTYPE, INFER_TYPE_U64},
    {"torch", "bool", GLOBAL_DTYPE, INFER_TYPE_BOOL},
};

/* Opcodes; the names are pickletools'. */
enum {
    OP_MARK = '(', OP_STOP = '.', OP_POP = '0', OP_POP_MARK = '1', OP_DUP = '2', OP_BINFLOAT = 'G', OP_BININT = 'J', OP_BININT1 = 'K',
    OP_BININT2 = 'M', OP_NONE = 'N', OP_BINPERSID = 'Q', OP_REDUCE = 'R', OP_BINSTRING = 'T', OP_SHORT_BINSTRING = 'U', OP_BINUNICODE = 'X',
    OP_EMPTY_LIST = ']', OP_APPEND = 'a', OP_BUILD = 'b', OP_GLOBAL = 'c', OP_DICT = 'd', OP_EMPTY_DICT = '}', OP_APPENDS = 'e', OP_BINGET = 'h',
    OP_LONG_BINGET = 'j', OP_LIST = 'l', OP_BINPUT = 'q', OP_LONG_BINPUT = 'r', OP_SETITEM = 's', OP_TUPLE = 't', OP_EMPTY_TUPLE = ')',
    OP_SETITEMS = 'u', OP_BINBYTES = 'B', OP_SHORT_BINBYTES = 'C', OP_PROTO = 0x80, OP_TUPLE1 = 0x85, OP_TUPLE2, OP_TUPLE3, OP_NEWTRUE, OP_NEWFALSE,
    OP_LONG1 = 0x8a, OP_SHORT_BINUNICODE = 0x8c, OP_BINUNICODE8 = 0x8d, OP_STACK_GLOBAL = 0x93, OP_MEMOIZE = 0x94, OP_FRAME = 0x95
};

/* For the refusal of others. */
static const struct {
    uint8_t op;
    const char *name;
} others[] = {{'i', "INST"}, {'o', "OBJ"}, {'P', "PERSID"}, {'I', "INT"}, {'L', "LONG"}, {'S', "STRING"}, {'V', "UNICODE"}, {'F', "FLOAT"},
              {'g', "GET"}, {'p', "PUT"}, {'2', "DUP"}, {0x81, "NEWOBJ"}, {0x82, "EXT1"}, {0x83, "EXT2"}, {0x84, "EXT4"}, {0x8b, "LONG4"},
              {0x8e, "BINBYTES8"}, {0x8f, "EMPTY_SET"}, {0x90, "ADDITEMS"}, {0x91, "FROZENSET"}, {0x92, "NEWOBJ_EX"}, {0x96, "BYTEARRAY8"},
              {0x97, "NEXT_BUFFER"}, {0x98, "READONLY_BUFFER"}};

struct machine {
    struct arena *ar;
    struct cursor c;
    uint64_t at; /* of the opcode at hand */
    size_t wanted; /* bytes that were asked for last */
    const infer_cancel *cancel;
    infer_error *err;
    struct pickle_value **stack; /* NULL: a mark */
    uint32_t depth, cap;
    struct pickle_value **memo; /* NULL: not set */
    uint32_t n_memo, cap_memo;
};

/* ---- Memory ---- */

static infer_status no_room(struct machine *m)
{
    if (m->ar->limit && m->wanted > m->ar->limit - m->ar->used)
        return FAIL(m, INFER_ERROR_LIMIT, "the pickle needs too much memory for its size");
    return err_no_memory(m->err);
}

static void *take(struct machine *m, size_t n, size_t size) /* n * size is far from overflow: counts are bounded by the file's size */
{
    m->wanted = n * size + 16;
    return arena_zarray(m->ar, n, size);
}

static struct pickle_value *value(struct machine *m, enum pickle_type type)
{
    struct pickle_value *v = take(m, 1, sizeof *v);
    if (v) {
        v->type = type;
        v->dtype = -1;
    }
    return v;
}

/* An array of pointers with room for one more than n: twice as large when it is full. */
static bool grow(struct machine *m, struct pickle_value ***list, uint32_t n, uint32_t *cap)
{
    if (n < *cap)
        return true;
    uint32_t more = *cap ? *cap * 2 : 8;
    struct pickle_value **p = take(m, more, sizeof *p);
    if (!p)
        return false;
    if (n)
        memcpy(p, *list, n * sizeof *p);
    *list = p;
    *cap = more;
    return true;
}

static infer_status push(struct machine *m, struct pickle_value *v)
{
    if (m->depth == PICKLE_MAX_STACK)
        return FAIL(m, INFER_ERROR_LIMIT, "more than %u values on the pickle's stack", PICKLE_MAX_STACK);
    if (!grow(m, &m->stack, m->depth, &m->cap))
        return no_room(m);
    m->stack[m->depth++] = v;
    return INFER_OK;
}

static infer_status push_new(struct machine *m, struct pickle_value *v)
{
    return v ? push(m, v) : no_room(m);
}

static infer_status add(struct machine *m, struct pickle_value *list, struct pickle_value *v)
{
    if (list->n == UINT32_MAX / 2 || !grow(m, &list->items, list->n, &list->cap))
        return no_room(m);
    list->items[list->n++] = v;
    return INFER_OK;
}

/* The last value, or NULL: there is none, or a mark. */
static struct pickle_value *top(struct machine *m)
{
    return m->depth ? m->stack[m->depth - 1] : NULL;
}

static struct pickle_value *pop(struct machine *m)
{
    struct pickle_value *v = top(m);
    m->depth -= v != NULL;
    return v;
}

/* Where the values behind the last mark begin; 0: there is no mark. */
static uint32_t behind_mark(const struct machine *m)
{
    uint32_t i = m->depth;
    while (i && m->stack[i - 1])
        i--;
    return i;
}

static infer_status underflow(struct machine *m)
{
    return FAIL(m, INFER_ERROR_FORMAT, "the pickle takes a value that is not there");
}

static infer_status wrong(struct machine *m, const char *what)
{
    return FAIL(m, INFER_ERROR_FORMAT, "the pickle %s", what);
}

/* ---- Opcodes that push ---- */

static infer_status push_int(struct machine *m, enum pickle_type type, int64_t i)
{
    struct pickle_value *v = value(m, type);
    if (v)
        v->integer = i;
    return push_new(m, v);
}

/* A two's complement number of n bytes, least first. */
static infer_status push_long(struct machine *m, uint8_t n)
{
    const uint8_t *p = cursor_take(&m->c, n);
    uint64_t bits = 0;
    if (n > 8)
        return p ? FAIL(m, INFER_ERROR_UNSUPPORTED, "the pickle holds an integer of %u bytes", n) : INFER_OK;
    for (uint8_t i = 0; p && i < n; i++)
        bits |= (uint64_t)p[i] << (8 * i);
    if (p && n && n < 8 && p[n - 1] & 0x80)
        bits |= UINT64_MAX << (8 * n);
    int64_t i;
    memcpy(&i, &bits, sizeof i);
    return push_int(m, PICKLE_INT, i);
}

static infer_status push_text(struct machine *m, uint64_t len, bool utf8)
{
    const char *s = (const char *)cursor_take(&m->c, len);
    if (!s)
        return INFER_OK; /* the loop sees that the end was passed */
    if (utf8 && !utf8_valid(s, (size_t)len))
        return wrong(m, "holds a text that is not UTF-8");
    struct pickle_value *v = value(m, PICKLE_STRING);
    if (v)
        v->text = (struct file_str){s, len};
    return push_new(m, v);
}

/* Up to a line feed, which is taken too. */
static bool take_line(struct machine *m, struct file_str *out)
{
    const char *s = (const char *)m->c.data + m->c.pos;
    const char *end = cursor_left(&m->c) ? memchr(s, '\n', (size_t)cursor_left(&m->c)) : NULL;
    if (!end) {
        m->c.bad = true;
        return false;
    }
    *out = (struct file_str){s, (uint64_t)(end - s)};
    cursor_take(&m->c, out->len + 1);
    return true;
}

static bool is_text(const struct file_str *s, const char *text)
{
    return s->len == strlen(text) && !memcmp(s->data, text, (size_t)s->len);
}

static infer_status push_global(struct machine *m, const struct file_str *module, const struct file_str *name)
{
    for (size_t i = 0; i < COUNT(globals); i++) {
        if (!is_text(module, globals[i].module) || !is_text(name, globals[i].name))
            continue;
        struct pickle_value *v = value(m, PICKLE_GLOBAL);
        if (v) {
            v->global = globals[i].global;
            v->dtype = globals[i].dtype;
        }
        return push_new(m, v);
    }
    return FAIL(m, INFER_ERROR_UNSUPPORTED, "the file calls for '%.*s.%.*s': only tensors in plain containers are read, no code is ever run",
                module->len < 100 ? (int)module->len : 100, module->data, name->len < 100 ? (int)name->len : 100, name->data);
}

static infer_status op_global(struct machine *m)
{
    struct file_str module, name;
    return take_line(m, &module) && take_line(m, &name) ? push_global(m, &module, &name) : INFER_OK;
}

static infer_status op_stack_global(struct machine *m)
{
    struct pickle_value *name = pop(m), *module = pop(m);
    if (!name || !module)
        return underflow(m);
    if (name->type != PICKLE_STRING || module->type != PICKLE_STRING)
        return wrong(m, "names a global by something else than texts");
    return push_global(m, &module->text, &name->text);
}

/* ---- Containers ---- */

/* The values from `first` on, and the mark before them, become one container. */
static infer_status collect(struct machine *m, enum pickle_type type, uint32_t first, bool marked)
{
    struct pickle_value *v = value(m, type);
    uint32_t n = m->depth - first;
    if (v && n)
        v->items = take(m, n, sizeof *v->items);
    if (!v || (n && !v->items))
        return no_room(m);
    if (n)
        memcpy(v->items, m->stack + first, n * sizeof *v->items);
    v->n = v->cap = n;
    m->depth = first - marked;
    return push(m, v);
}

static infer_status op_marked(struct machine *m, enum pickle_type type)
{
    uint32_t first = behind_mark(m);
    if (!first)
        return underflow(m);
    if (type == PICKLE_DICT && (m->depth - first) % 2)
        return wrong(m, "gives a key without a value");
    return collect(m, type, first, true);
}

static infer_status op_tuple(struct machine *m, uint32_t n)
{
    if (m->depth < n)
        return underflow(m);
    for (uint32_t i = 0; i < n; i++)
        if (!m->stack[m->depth - 1 - i])
            return underflow(m);
    return collect(m, PICKLE_TUPLE, m->depth - n, false);
}

/* Adds the values behind the mark, or the last n of them, to the container before them. */
static infer_status op_add(struct machine *m, enum pickle_type type, uint32_t n)
{
    uint32_t first = n ? m->depth - n : behind_mark(m), owner = n ? first : first - 1;
    if (n ? m->depth <= n : first < 2)
        return underflow(m);
    for (uint32_t i = first; i < m->depth; i++)
        if (!m->stack[i])
            return underflow(m);
    struct pickle_value *list = m->stack[owner - 1];
    if (!list || list->type != type)
        return wrong(m, type == PICKLE_DICT ? "sets items of what is no dictionary" : "appends to what is no list");
    if (type == PICKLE_DICT && (m->depth - first) % 2)
        return wrong(m, "gives a key without a value");
    infer_status st = INFER_OK;
    for (uint32_t i = first; i < m->depth && st == INFER_OK; i++)
        st = add(m, list, m->stack[i]);
    m->depth = owner;
    return st;
}

/* ---- Memo ---- */

static infer_status memo_put(struct machine *m, uint32_t i)
{
    if (!top(m))
        return underflow(m);
    if (i >= PICKLE_MAX_MEMO || i > m->n_memo + 1024)
        return FAIL(m, INFER_ERROR_LIMIT, "the pickle remembers too many values");
    while (m->cap_memo <= i)
        if (!grow(m, &m->memo, m->cap_memo, &m->cap_memo))
            return no_room(m);
    m->memo[i] = top(m);
    m->n_memo = i >= m->n_memo ? i + 1 : m->n_memo;
    return INFER_OK;
}

static infer_status memo_get(struct machine *m, uint32_t i)
{
    if (m->c.bad)
        return INFER_OK;
    if (i >= m->n_memo || !m->memo[i])
        return wrong(m, "recalls a value that it has not remembered");
    return push(m, m->memo[i]);
}

/* ---- What is built ---- */

static bool is_int(const struct pickle_value *v)
{
    return v->type == PICKLE_INT;
}

/* ("storage", type, key, location, numel) */
static infer_status op_persistent(struct machine *m)
{
    struct pickle_value *id = pop(m), *v = value(m, PICKLE_STORAGE);
    if (!id)
        return underflow(m);
    bool ok = id->type == PICKLE_TUPLE && id->n == 5 && id->items[0]->type == PICKLE_STRING && is_text(&id->items[0]->text, "storage") &&
              id->items[1]->type == PICKLE_GLOBAL && id->items[1]->global == GLOBAL_STORAGE && id->items[2]->type == PICKLE_STRING &&
              is_int(id->items[4]) && id->items[4]->integer >= 0;
    if (!ok)
        return wrong(m, "refers to something else than a storage");
    if (v) {
        v->dtype = id->items[1]->dtype;
        v->text = id->items[2]->text;
        v->integer = id->items[4]->integer;
    }
    return push_new(m, v);
}

static bool all_ints(const struct pickle_value *v)
{
    for (uint32_t i = 0; i < v->n; i++)
        if (!is_int(v->items[i]) || v->items[i]->integer < 0)
            return false;
    return v->type == PICKLE_TUPLE;
}

/* (storage, offset, sizes, strides, requires_grad, hooks, [dtype,] [metadata]) */
static infer_status build_tensor(struct machine *m, const struct pickle_value *args, bool v3)
{
    struct pickle_value *v = value(m, PICKLE_TENSOR), *const *a = args->items;
    uint32_t fixed = v3 ? 7 : 6;
    bool ok = (args->n == fixed || args->n == fixed + 1) && a[0]->type == PICKLE_STORAGE && is_int(a[1]) && a[1]->integer >= 0 &&
              all_ints(a[2]) && all_ints(a[3]) && a[2]->n == a[3]->n &&
              (!v3 || (a[6]->type == PICKLE_GLOBAL && a[6]->global == GLOBAL_DTYPE));
    if (!ok)
        return wrong(m, "builds a tensor of other arguments than a storage, an offset, sizes and strides");
    if (v) {
        v->dtype = v3 ? a[6]->dtype : -1;
        v->items = args->items;
        v->n = 4;
    }
    return push_new(m, v);
}

static infer_status op_reduce(struct machine *m)
{
    struct pickle_value *args = pop(m), *fn = pop(m);
    if (!args || !fn)
        return underflow(m);
    if (fn->type != PICKLE_GLOBAL || args->type != PICKLE_TUPLE)
        return wrong(m, "calls what cannot be called");
    switch (fn->global) {
    case GLOBAL_ORDERED_DICT: return args->n ? wrong(m, "makes an OrderedDict of something") : push_new(m, value(m, PICKLE_DICT));
    case GLOBAL_REBUILD_TENSOR: return build_tensor(m, args, false);
    case GLOBAL_REBUILD_TENSOR_V3: return build_tensor(m, args, true);
    case GLOBAL_REBUILD_PARAMETER:
        return args->n == 3 && args->items[0]->type == PICKLE_TENSOR ? push(m, args->items[0]) : wrong(m, "makes a parameter of what is no tensor");
    case GLOBAL_SIZE:
        return args->n == 1 && args->items[0]->type == PICKLE_TUPLE ? push(m, args->items[0]) : wrong(m, "makes a torch.Size of what is no tuple");
    default: return wrong(m, "calls what cannot be called");
    }
}

/* The attributes of a dictionary (a state dictionary's _metadata) are of no use here. */
static infer_status op_build(struct machine *m)
{
    if (!pop(m) || !top(m))
        return underflow(m);
    return top(m)->type == PICKLE_DICT ? INFER_OK : FAIL(m, INFER_ERROR_UNSUPPORTED, "the opcode BUILD sets attributes of what is no dictionary");
}

/* ---- The machine ---- */

static infer_status refuse(struct machine *m, uint8_t op)
{
    for (size_t i = 0; i < COUNT(others); i++)
        if (others[i].op == op)
            return FAIL(m, INFER_ERROR_UNSUPPORTED, "the opcode %s: only tensors in plain containers are read, no code is ever run", others[i].name);
    return FAIL(m, INFER_ERROR_UNSUPPORTED, "the opcode 0x%02x is not one that tensors need", op);
}

static infer_status op_proto(struct machine *m)
{
    uint8_t version = cursor_u8(&m->c);
    return version >= 2 && version <= 5 ? INFER_OK : FAIL(m, INFER_ERROR_UNSUPPORTED, "pickle protocol %u", version);
}

static infer_status op_pop_mark(struct machine *m)
{
    uint32_t first = behind_mark(m);
    if (!first)
        return underflow(m);
    m->depth = first - 1;
    return INFER_OK;
}

static infer_status constant(struct machine *m, uint8_t op)
{
    struct cursor *c = &m->c;
    switch (op) {
    case OP_NONE: return push_new(m, value(m, PICKLE_NONE));
    case OP_NEWTRUE: return push_int(m, PICKLE_BOOL, 1);
    case OP_NEWFALSE: return push_int(m, PICKLE_BOOL, 0);
    case OP_BININT: return push_int(m, PICKLE_INT, cursor_i32(c));
    case OP_BININT1: return push_int(m, PICKLE_INT, cursor_u8(c));
    case OP_BININT2: return push_int(m, PICKLE_INT, cursor_u16(c));
    case OP_LONG1: return push_long(m, cursor_u8(c));
    case OP_BINFLOAT: return cursor_take(c, 8) ? push_new(m, value(m, PICKLE_FLOAT)) : INFER_OK;
    case OP_BINUNICODE: return push_text(m, cursor_u32(c), true);
    case OP_SHORT_BINUNICODE: return push_text(m, cursor_u8(c), true);
    case OP_BINUNICODE8: return push_text(m, cursor_u64(c), true);
    case OP_BINBYTES:
    case OP_BINSTRING: return push_text(m, cursor_u32(c), false);
    case OP_SHORT_BINBYTES:
    case OP_SHORT_BINSTRING: return push_text(m, cursor_u8(c), false);
    default: return refuse(m, op);
    }
}

static infer_status step(struct machine *m, uint8_t op)
{
    struct cursor *c = &m->c;
    switch (op) {
    case OP_PROTO: return op_proto(m);
    case OP_FRAME: return cursor_take(c, 8), INFER_OK; /* how much to read at once */
    case OP_MARK: return push(m, NULL);
    case OP_POP: return pop(m) ? INFER_OK : op_pop_mark(m); /* of a mark too, as Python has it */
    case OP_POP_MARK: return op_pop_mark(m);
    case OP_GLOBAL: return op_global(m);
    case OP_STACK_GLOBAL: return op_stack_global(m);
    case OP_EMPTY_TUPLE: return push_new(m, value(m, PICKLE_TUPLE));
    case OP_EMPTY_LIST: return push_new(m, value(m, PICKLE_LIST));
    case OP_EMPTY_DICT: return push_new(m, value(m, PICKLE_DICT));
    case OP_TUPLE: return op_marked(m, PICKLE_TUPLE);
    case OP_LIST: return op_marked(m, PICKLE_LIST);
    case OP_DICT: return op_marked(m, PICKLE_DICT);
    case OP_TUPLE1: return op_tuple(m, 1);
    case OP_TUPLE2: return op_tuple(m, 2);
    case OP_TUPLE3: return op_tuple(m, 3);
    case OP_APPEND: return op_add(m, PICKLE_LIST, 1);
    case OP_APPENDS: return op_add(m, PICKLE_LIST, 0);
    case OP_SETITEM: return op_add(m, PICKLE_DICT, 2);
    case OP_SETITEMS: return op_add(m, PICKLE_DICT, 0);
    case OP_BINPUT: return memo_put(m, cursor_u8(c));
    case OP_LONG_BINPUT: return memo_put(m, cursor_u32(c));
    case OP_MEMOIZE: return memo_put(m, m->n_memo);
    case OP_BINGET: return memo_get(m, cursor_u8(c));
    case OP_LONG_BINGET: return memo_get(m, cursor_u32(c));
    case OP_BINPERSID: return op_persistent(m);
    case OP_REDUCE: return op_reduce(m);
    case OP_BUILD: return op_build(m);
    default: return constant(m, op);
    }
}

static infer_status finish(struct machine *m, struct pickle_value **out)
{
    if (m->depth != 1 || !top(m))
        return wrong(m, "ends with other than one value");
    *out = top(m);
    return INFER_OK;
}

infer_status pickle_read(struct arena *ar, const void *data, uint64_t size, const infer_cancel *cancel, struct pickle_value **out,
                         infer_error *err)
{
    struct machine m = {.ar = ar, .c = cursor_of(data, size), .cancel = cancel, .err = err};
    infer_status st = INFER_OK;
    for (uint32_t n = 1; st == INFER_OK; n++) {
        m.at = m.c.pos;
        uint8_t op = cursor_u8(&m.c);
        if (op == OP_STOP && !m.c.bad)
            return finish(&m, out);
        if (!m.c.bad)
            st = step(&m, op);
        if (m.c.bad)
            return FAIL(&m, INFER_ERROR_TRUNCATED, "the pickle ends early");
        if ((n & 65535) == 0 && cancel_is_set(cancel))
            return err_set(err, INFER_ERROR_CANCELLED, "cancelled while reading the file's header");
    }
    return st;
}
