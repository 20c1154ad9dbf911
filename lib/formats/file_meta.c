/* Typed access to metadata. */
#include <math.h>
#include <string.h>

#include "base/cursor.h"
#include "formats/file.h"

static const struct {
    const char *name;
    uint32_t size;
} value_types[FILE_TYPE_COUNT] = {
    [FILE_U8] = {"u8", 1},   [FILE_I8] = {"i8", 1},     [FILE_U16] = {"u16", 2},       [FILE_I16] = {"i16", 2},
    [FILE_U32] = {"u32", 4}, [FILE_I32] = {"i32", 4},   [FILE_F32] = {"f32", 4},       [FILE_BOOL] = {"bool", 1},
    [FILE_U64] = {"u64", 8}, [FILE_I64] = {"i64", 8},   [FILE_F64] = {"f64", 8},       [FILE_STRING] = {"string", 0},
    [FILE_ARRAY] = {"array", 0},
};

uint32_t file_type_size(uint32_t type)
{
    return type < FILE_TYPE_COUNT ? value_types[type].size : 0;
}

const char *file_type_name(uint32_t type)
{
    return type < FILE_TYPE_COUNT ? value_types[type].name : "unknown type";
}

static bool is_int(uint32_t type)
{
    return type <= FILE_I32 || type == FILE_U64 || type == FILE_I64;
}

static bool is_float(uint32_t type)
{
    return type == FILE_F32 || type == FILE_F64;
}

/* An integer as sign and 64 bits. */
struct whole {
    bool negative;
    uint64_t bits; /* two's complement when negative */
};

static struct whole whole_of(uint32_t type, const uint8_t *p)
{
    struct cursor c = cursor_of(p, file_type_size(type));
    int64_t i;
    switch (type) {
    case FILE_U8:
    case FILE_BOOL: return (struct whole){false, cursor_u8(&c)};
    case FILE_U16: return (struct whole){false, cursor_u16(&c)};
    case FILE_U32: return (struct whole){false, cursor_u32(&c)};
    case FILE_U64: return (struct whole){false, cursor_u64(&c)};
    case FILE_I8: i = cursor_i8(&c); break;
    case FILE_I16: i = cursor_i16(&c); break;
    case FILE_I32: i = cursor_i32(&c); break;
    default: i = cursor_i64(&c); break;
    }
    return (struct whole){i < 0, (uint64_t)i};
}

static double float_of(uint32_t type, const uint8_t *p)
{
    struct cursor c = cursor_of(p, 8);
    return type == FILE_F32 ? (double)cursor_f32(&c) : cursor_f64(&c);
}

/* ---- Failures. The offset is that of the value. ---- */

static infer_status absent(const struct infer_file *f, const char *key, infer_error *err)
{
    return file_failed(f, err, err_at(err, INFER_ERROR_MISSING, key, strlen(key), ERR_NO_OFFSET,
                                      "the metadata key is absent"));
}

static uint64_t value_offset(const struct infer_file *f, const struct file_value *v)
{
    uintptr_t p = (uintptr_t)v->data, begin = (uintptr_t)f->parts[0].data;
    return p >= begin && p - begin <= f->parts[0].size ? p - begin : ERR_NO_OFFSET;
}

static infer_status wrong_type(const struct infer_file *f, const char *key, const struct file_value *v,
                               const char *wanted, infer_error *err)
{
    bool array = v->type == FILE_ARRAY;
    return file_failed(f, err, err_at(err, INFER_ERROR_VALUE, key, strlen(key), value_offset(f, v),
                                      "the metadata value is of type %s%s; expected %s", array ? "array of " : "",
                                      file_type_name(array ? v->item : v->type), wanted));
}

static infer_status out_of_range(const struct infer_file *f, const char *key, const struct file_value *v,
                                 infer_error *err)
{
    return file_failed(f, err, err_at(err, INFER_ERROR_VALUE, key, strlen(key), value_offset(f, v),
                                      "the metadata value is out of range"));
}

/* ---- Scalars ---- */

static const struct file_value *find(const struct infer_file *f, const char *key)
{
    const struct file_meta *m = file_find_meta(f, key, strlen(key));
    return m ? &m->value : NULL;
}

bool file_has(const struct infer_file *f, const char *key)
{
    return find(f, key) != NULL;
}

static infer_status get_whole(const struct infer_file *f, const char *key, struct whole *out,
                              const struct file_value **v, infer_error *err)
{
    *v = find(f, key);
    if (!*v)
        return absent(f, key, err);
    if (!is_int((*v)->type))
        return wrong_type(f, key, *v, "an integer", err);
    *out = whole_of((*v)->type, (*v)->data);
    return INFER_OK;
}

infer_status file_get_u64(const struct infer_file *f, const char *key, uint64_t *out, infer_error *err)
{
    struct whole w = {0};
    const struct file_value *v;
    infer_status st = get_whole(f, key, &w, &v, err);
    if (st != INFER_OK)
        return st;
    if (w.negative)
        return out_of_range(f, key, v, err);
    *out = w.bits;
    return INFER_OK;
}

infer_status file_get_u32(const struct infer_file *f, const char *key, uint32_t *out, infer_error *err)
{
    struct whole w = {0};
    const struct file_value *v;
    infer_status st = get_whole(f, key, &w, &v, err);
    if (st != INFER_OK)
        return st;
    if (w.negative || w.bits > UINT32_MAX)
        return out_of_range(f, key, v, err);
    *out = (uint32_t)w.bits;
    return INFER_OK;
}

infer_status file_get_i64(const struct infer_file *f, const char *key, int64_t *out, infer_error *err)
{
    struct whole w = {0};
    const struct file_value *v;
    infer_status st = get_whole(f, key, &w, &v, err);
    if (st != INFER_OK)
        return st;
    if (!w.negative && w.bits > INT64_MAX)
        return out_of_range(f, key, v, err);
    *out = (int64_t)w.bits;
    return INFER_OK;
}

infer_status file_get_f32(const struct infer_file *f, const char *key, float *out, infer_error *err)
{
    const struct file_value *v = find(f, key);
    if (!v)
        return absent(f, key, err);
    if (!is_float(v->type))
        return wrong_type(f, key, v, "a float", err);
    float x = (float)float_of(v->type, v->data);
    if (!isfinite(x))
        return out_of_range(f, key, v, err);
    *out = x;
    return INFER_OK;
}

infer_status file_get_bool(const struct infer_file *f, const char *key, bool *out, infer_error *err)
{
    const struct file_value *v = find(f, key);
    if (!v)
        return absent(f, key, err);
    if (v->type != FILE_BOOL)
        return wrong_type(f, key, v, "a bool", err);
    *out = v->data[0] != 0;
    return INFER_OK;
}

infer_status file_get_string(const struct infer_file *f, const char *key, struct file_str *out, infer_error *err)
{
    const struct file_value *v = find(f, key);
    if (!v)
        return absent(f, key, err);
    if (v->type != FILE_STRING)
        return wrong_type(f, key, v, "a string", err);
    *out = (struct file_str){(const char *)v->data, v->count};
    return INFER_OK;
}

#define GET_OR(name, type)                                                                                             \
    infer_status file_get_##name##_or(const struct infer_file *f, const char *key, type absent_value, type *out,       \
                                      infer_error *err)                                                                \
    {                                                                                                                  \
        if (file_has(f, key))                                                                                          \
            return file_get_##name(f, key, out, err);                                                                  \
        *out = absent_value;                                                                                           \
        return INFER_OK;                                                                                               \
    }
GET_OR(u32, uint32_t)
GET_OR(u64, uint64_t)
GET_OR(i64, int64_t)
GET_OR(f32, float)
GET_OR(bool, bool)

infer_status file_get_string_or(const struct infer_file *f, const char *key, const char *absent_value,
                                struct file_str *out, infer_error *err)
{
    if (file_has(f, key))
        return file_get_string(f, key, out, err);
    *out = (struct file_str){absent_value, strlen(absent_value)};
    return INFER_OK;
}

/* ---- Arrays ---- */

static infer_status get_array(const struct infer_file *f, const char *key, bool (*accepts)(uint32_t type),
                              const char *wanted, struct file_array *out, infer_error *err)
{
    const struct file_value *v = find(f, key);
    if (!v)
        return absent(f, key, err);
    if (v->type != FILE_ARRAY || !accepts(v->item))
        return wrong_type(f, key, v, wanted, err);
    *out = (struct file_array){v->data, v->count, v->item};
    return INFER_OK;
}

infer_status file_get_ints(const struct infer_file *f, const char *key, struct file_array *out, infer_error *err)
{
    return get_array(f, key, is_int, "an array of integers", out, err);
}

infer_status file_get_floats(const struct infer_file *f, const char *key, struct file_array *out, infer_error *err)
{
    return get_array(f, key, is_float, "an array of floats", out, err);
}

int64_t file_array_int(const struct file_array *a, uint64_t i)
{
    struct whole w = whole_of(a->item, a->data + i * file_type_size(a->item));
    return !w.negative && w.bits > INT64_MAX ? INT64_MAX : (int64_t)w.bits;
}

uint64_t file_array_uint(const struct file_array *a, uint64_t i)
{
    return whole_of(a->item, a->data + i * file_type_size(a->item)).bits;
}

double file_array_f64(const struct file_array *a, uint64_t i)
{
    return float_of(a->item, a->data + i * file_type_size(a->item));
}

float file_array_f32(const struct file_array *a, uint64_t i)
{
    return (float)file_array_f64(a, i);
}

infer_status file_get_u32_each(const struct infer_file *f, const char *key, uint32_t n, uint32_t *out, infer_error *err)
{
    const struct file_value *v = find(f, key);
    if (!v)
        return absent(f, key, err);
    bool array = v->type == FILE_ARRAY;
    uint32_t type = array ? v->item : v->type, step = array ? file_type_size(type) : 0;
    if (!is_int(type) && type != FILE_BOOL)
        return wrong_type(f, key, v, "an integer or an array of integers", err);
    if (array && v->count != n)
        return file_failed(f, err, err_at(err, INFER_ERROR_VALUE, key, strlen(key), value_offset(f, v),
                                          "the array has %llu items; expected %lu", (unsigned long long)v->count,
                                          (unsigned long)n));
    for (uint32_t i = 0; i < n; i++) {
        struct whole w = whole_of(type, v->data + (size_t)i * step);
        if (w.negative || w.bits > UINT32_MAX)
            return out_of_range(f, key, v, err);
        out[i] = (uint32_t)w.bits;
    }
    return INFER_OK;
}

infer_status file_get_strings(const struct infer_file *f, const char *key, struct file_strings *out, infer_error *err)
{
    const struct file_value *v = find(f, key);
    if (!v)
        return absent(f, key, err);
    if (v->type != FILE_ARRAY || v->item != FILE_STRING)
        return wrong_type(f, key, v, "an array of strings", err);
    *out = (struct file_strings){v->data, v->count};
    return INFER_OK;
}

bool file_strings_next(struct file_strings *it, struct file_str *out)
{
    if (!it->left)
        return false;
    it->left--;
    memcpy(&out->len, it->at, 8); /* checked when the file was opened */
    out->data = (const char *)it->at + 8;
    it->at += 8 + out->len;
    return true;
}

static const struct file_index *find_index(const struct infer_file *f, const struct file_value *array)
{
    size_t lo = 0, hi = f->n_indexes;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if ((uintptr_t)f->indexes[mid].data < (uintptr_t)array->data)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < f->n_indexes && f->indexes[lo].data == array->data ? &f->indexes[lo] : NULL;
}

/* Item i of an array of strings or arrays. The array may be a forgery of the host's: everything is bounded by the file. */
static bool sized_item(const struct infer_file *f, const struct file_value *array, uint64_t i, struct cursor *c,
                       struct file_value *out)
{
    const struct file_index *x = find_index(f, array);
    if (x && i >= x->count)
        return false;
    if (x) {
        cursor_take(c, x->offsets[i / x->stride]);
        i %= x->stride;
    } else if (array->item == FILE_ARRAY) {
        return false;
    }
    if (array->item == FILE_ARRAY) {
        out->type = FILE_ARRAY;
        out->item = cursor_u32(c);
        out->count = cursor_u64(c);
        out->data = c->data + c->pos;
        return !c->bad && out->item < FILE_TYPE_COUNT;
    }
    for (; i > 0 && !c->bad; i--)
        cursor_take(c, cursor_u64(c));
    out->type = FILE_STRING;
    out->count = cursor_u64(c);
    out->data = cursor_take(c, out->count);
    return !c->bad;
}

bool file_array_item(const struct infer_file *f, const struct file_value *array, uint64_t i, struct file_value *out)
{
    const struct blob *b = &f->parts[0]; /* metadata is the first part's */
    uintptr_t p = (uintptr_t)array->data, begin = (uintptr_t)b->data;
    if (array->type != FILE_ARRAY || i >= array->count || p < begin || p - begin > b->size)
        return false;
    uint64_t at = p - begin;
    struct cursor c = cursor_of(b->data + at, b->size - at);
    uint32_t size = file_type_size(array->item);
    *out = (struct file_value){.type = array->item};
    if (!size)
        return array->item < FILE_TYPE_COUNT && sized_item(f, array, i, &c, out);
    if (array->count > c.len / size)
        return false;
    out->data = c.data + i * size;
    return true;
}
