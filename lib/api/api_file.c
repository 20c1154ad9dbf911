/* infer_source_* and infer_file_*. */
#include <string.h>

#include "api/api.h"
#include "base/dtype.h"
#include "base/fpenv.h"
#include "kernels/dequant.h"

const char *infer_type_name(int32_t type)
{
    const struct dtype *d = dtype_of(type);
    return d ? d->name : NULL;
}

/* ---- Sources ---- */

static void set_source(infer_source *source, infer_source value)
{
    value.size = (uint32_t)sizeof value;
    if (source)
        *source = value;
}

void infer_source_path(infer_source *source, const char *path, uint64_t path_len)
{
    set_source(source, (infer_source){.kind = INFER_SOURCE_PATH, .name = path, .name_len = path_len});
}

void infer_source_descriptor(infer_source *source, int32_t descriptor)
{
    set_source(source, (infer_source){.kind = INFER_SOURCE_DESCRIPTOR, .descriptor = descriptor});
}

void infer_source_memory(infer_source *source, const void *data, uint64_t length)
{
    set_source(source, (infer_source){.kind = INFER_SOURCE_MEMORY, .data = data, .length = length});
}

void infer_source_callback(infer_source *source, const char *name, uint64_t name_len, infer_open_fn open, void *user)
{
    set_source(source, (infer_source){
                           .kind = INFER_SOURCE_CALLBACK, .name = name, .name_len = name_len, .user = user, .open = open});
}

/* ---- Files ---- */

infer_status infer_file_open(infer_engine *engine, const infer_source *source, const infer_open_options *options,
                             infer_file **out, infer_error *err)
{
    infer_error e;
    infer_file *f;
    infer_engine *held = infer_engine_ref(engine); /* a source's callback may release it */
    infer_status st = api_not_null(out, "out", &e);
    if (st == INFER_OK)
        st = api_open_file(engine, source, options, HF_AS_FILE, &f, &e);
    if (st == INFER_OK)
        *out = f;
    st = api_done_in(api_env(held), err, &e, st);
    infer_engine_release(held);
    return st;
}

infer_file *infer_file_ref(infer_file *file)
{
    return file ? file_ref(file) : NULL;
}

void infer_file_release(infer_file *file)
{
    file_release(file);
}

/* ---- Tensors ---- */

uint64_t infer_file_tensor_count(const infer_file *file)
{
    return file ? file->n_tensors : 0;
}

static infer_status out_of_range(uint64_t index, uint64_t count, const char *what, infer_error *err)
{
    return err_at(err, INFER_ERROR_ARGUMENT, "index", 5, ERR_NO_OFFSET, "index %llu: there are %llu %s",
                  (unsigned long long)index, (unsigned long long)count, what);
}

static infer_status get_tensor(const infer_file *file, uint64_t index, const struct file_tensor **out, infer_error *err)
{
    infer_status st = api_not_null(file, "file", err);
    if (st != INFER_OK)
        return st;
    if (index >= file->n_tensors)
        return out_of_range(index, file->n_tensors, "tensors", err);
    *out = &file->tensors[index];
    return INFER_OK;
}

infer_status infer_file_tensor(const infer_file *file, uint64_t index, infer_tensor_info *out, infer_error *err)
{
    infer_error e;
    const struct file_tensor *t = NULL;
    infer_status st = API_CHECK_OUT(out, infer_tensor_info, &e);
    if (st == INFER_OK)
        st = get_tensor(file, index, &t, &e);
    if (st != INFER_OK)
        return api_done(err, &e, st);
    infer_tensor_info info = {
        .type = t->type,
        .name = t->name.data,
        .name_len = t->name.len,
        .shape = {t->dims[0], t->dims[1], t->dims[2], t->dims[3]},
        .dims = t->n_dims,
        .part = t->part,
        .offset = t->offset,
        .data = t->data,
        .data_len = t->bytes,
    };
    API_PUT_OUT(out, &info);
    return INFER_OK;
}

infer_status infer_file_find_tensor(const infer_file *file, const char *name, uint64_t name_len, uint64_t *index,
                                    infer_error *err)
{
    infer_error e;
    uint64_t len = 0;
    infer_status st = api_not_null(file, "file", &e);
    if (st == INFER_OK)
        st = api_not_null(index, "index", &e);
    if (st == INFER_OK)
        st = api_text(name, name_len, &len, "name", &e);
    if (st != INFER_OK)
        return api_done(err, &e, st);
    const struct file_tensor *t = len > FILE_MAX_NAME ? NULL : file_find_tensor(file, name, (size_t)len);
    if (!t) {
        st = err_at(&e, INFER_ERROR_NOT_FOUND, name, (size_t)(len > 1024 ? 1024 : len), ERR_NO_OFFSET,
                    "the file has no tensor of this name");
        return api_done(err, &e, file_failed(file, &e, st));
    }
    *index = (uint64_t)(t - file->tensors);
    return INFER_OK;
}

static infer_status check_range(const struct file_tensor *t, uint64_t first, uint64_t count, infer_error *err)
{
    const struct dtype *d = dtype_of(t->type);
    if (first > t->n || count > t->n - first)
        return err_at(err, INFER_ERROR_ARGUMENT, t->name.data, (size_t)t->name.len, ERR_NO_OFFSET,
                      "elements beyond the tensor's %llu", (unsigned long long)t->n);
    if (first % d->block || count % d->block)
        return err_at(err, INFER_ERROR_ARGUMENT, t->name.data, (size_t)t->name.len, ERR_NO_OFFSET,
                      "first and count must be multiples of %d, the block of %s", (int)d->block, d->name);
    return INFER_OK;
}

infer_status infer_file_tensor_f32(const infer_file *file, uint64_t index, uint64_t first, uint64_t count, float *out,
                                   infer_error *err)
{
    infer_error e;
    const struct file_tensor *t = NULL;
    infer_status st = get_tensor(file, index, &t, &e);
    if (st == INFER_OK && count)
        st = api_not_null(out, "out", &e);
    if (st == INFER_OK)
        st = check_range(t, first, count, &e);
    if (st != INFER_OK)
        return api_done(err, &e, st);
    if (count) {
        const struct dtype *d = dtype_of(t->type);
        struct fpenv fp = fpenv_enter();
        dequant_row(t->type, (const uint8_t *)t->data + first / d->block * d->bytes, out, count);
        fpenv_leave(fp);
    }
    return INFER_OK;
}

/* ---- Metadata ---- */

static const struct {
    int32_t kind;
    enum file_type type; /* its numbers, narrowest first */
    uint32_t width;
} kinds[] = {
    {INFER_VALUE_UINT, FILE_U8, 1},     {INFER_VALUE_UINT, FILE_U16, 2},    {INFER_VALUE_UINT, FILE_U32, 4},
    {INFER_VALUE_UINT, FILE_U64, 8},    {INFER_VALUE_INT, FILE_I8, 1},      {INFER_VALUE_INT, FILE_I16, 2},
    {INFER_VALUE_INT, FILE_I32, 4},     {INFER_VALUE_INT, FILE_I64, 8},     {INFER_VALUE_FLOAT, FILE_F32, 4},
    {INFER_VALUE_FLOAT, FILE_F64, 8},   {INFER_VALUE_BOOL, FILE_BOOL, 1},   {INFER_VALUE_STRING, FILE_STRING, 0},
    {INFER_VALUE_ARRAY, FILE_ARRAY, 0},
};
#define N_KINDS (sizeof kinds / sizeof *kinds)

static int32_t kind_of(uint32_t type)
{
    for (size_t i = 0; i < N_KINDS; i++)
        if (kinds[i].type == type)
            return kinds[i].kind;
    return 0;
}

/* FILE_TYPE_COUNT: no such type. */
static uint32_t type_of(int32_t kind, uint32_t width)
{
    for (size_t i = 0; i < N_KINDS; i++)
        if (kinds[i].kind == kind && kinds[i].width == width)
            return kinds[i].type;
    return FILE_TYPE_COUNT;
}

static void put_value(const struct file_value *v, infer_value *out)
{
    infer_value x = {.kind = kind_of(v->type), .count = v->count, .data = v->data};
    struct file_array one = {v->data, 1, v->type};
    x.item_kind = v->type == FILE_ARRAY ? kind_of(v->item) : 0;
    x.width = file_type_size(v->type == FILE_ARRAY ? v->item : v->type);
    if (x.kind == INFER_VALUE_FLOAT) {
        struct fpenv fp = fpenv_enter(); /* a host with denormals off must see them too */
        x.f = file_array_f64(&one, 0);
        fpenv_leave(fp);
    } else if (x.kind == INFER_VALUE_INT)
        x.i = file_array_int(&one, 0);
    else if (x.kind == INFER_VALUE_UINT || x.kind == INFER_VALUE_BOOL)
        x.u = file_array_uint(&one, 0);
    API_PUT_OUT(out, &x);
}

uint64_t infer_file_meta_count(const infer_file *file)
{
    return file ? file->n_meta : 0;
}

infer_status infer_file_meta(const infer_file *file, uint64_t index, const char **key, uint64_t *key_len,
                             infer_value *out, infer_error *err)
{
    infer_error e;
    infer_status st = api_not_null(file, "file", &e);
    if (st == INFER_OK && index >= file->n_meta)
        st = out_of_range(index, file->n_meta, "metadata entries", &e);
    if (st == INFER_OK)
        st = api_not_null(key, "key", &e);
    if (st == INFER_OK)
        st = api_not_null(key_len, "key_len", &e);
    if (st == INFER_OK)
        st = API_CHECK_OUT(out, infer_value, &e);
    if (st != INFER_OK)
        return api_done(err, &e, st);
    *key = file->meta[index].key.data;
    *key_len = file->meta[index].key.len;
    put_value(&file->meta[index].value, out);
    return INFER_OK;
}

infer_status infer_file_find_meta(const infer_file *file, const char *key, uint64_t key_len, infer_value *out,
                                  infer_error *err)
{
    infer_error e;
    uint64_t len = 0;
    infer_status st = api_not_null(file, "file", &e);
    if (st == INFER_OK)
        st = api_text(key, key_len, &len, "key", &e);
    if (st == INFER_OK)
        st = API_CHECK_OUT(out, infer_value, &e);
    if (st != INFER_OK)
        return api_done(err, &e, st);
    const struct file_meta *m = len > FILE_MAX_KEY ? NULL : file_find_meta(file, key, (size_t)len);
    if (!m) {
        st = err_at(&e, INFER_ERROR_NOT_FOUND, key, (size_t)(len > 1024 ? 1024 : len), ERR_NO_OFFSET,
                    "the file has no metadata of this key");
        return api_done(err, &e, file_failed(file, &e, st));
    }
    put_value(&m->value, out);
    return INFER_OK;
}

infer_status infer_file_value_item(const infer_file *file, const infer_value *array, uint64_t index, infer_value *out,
                                   infer_error *err)
{
    infer_error e;
    infer_value a;
    struct file_value item;
    infer_status st = api_not_null(file, "file", &e);
    if (st == INFER_OK)
        st = api_not_null(array, "array", &e);
    if (st == INFER_OK)
        st = API_IN(array, &a, infer_value, &e);
    if (st == INFER_OK)
        st = API_CHECK_OUT(out, infer_value, &e);
    if (st == INFER_OK && a.kind != INFER_VALUE_ARRAY)
        st = err_at(&e, INFER_ERROR_ARGUMENT, "array", 5, ERR_NO_OFFSET, "the value is not an array");
    if (st == INFER_OK && index >= a.count)
        st = out_of_range(index, a.count, "items", &e);
    if (st == INFER_OK) {
        struct file_value v = {FILE_ARRAY, type_of(a.item_kind, a.width), a.count, a.data};
        if (!file_array_item(file, &v, index, &item))
            st = err_at(&e, INFER_ERROR_ARGUMENT, "array", 5, ERR_NO_OFFSET, "the array is not one of this file");
    }
    if (st == INFER_OK)
        put_value(&item, out);
    return api_done(err, &e, st);
}
