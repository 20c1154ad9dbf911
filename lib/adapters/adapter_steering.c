/* Control vectors: "direction.N", one vector a layer, in GGUF (general.architecture "controlvector") or safetensors; or one tensor "directions"
 * of a row a layer. Direction N is for what layer N, counted from 0, has made: as llama.cpp counts. */
#include <string.h>

#include "adapters/adapter_read.h"

static const char one[] = "direction.", all[] = "directions";

static bool is_one(const struct file_tensor *t)
{
    return t->name.len >= sizeof one && !memcmp(t->name.data, one, sizeof one - 1);
}

bool adapter_has_directions(const struct infer_file *f)
{
    for (uint64_t i = 0; i < f->n_tensors; i++)
        if (is_one(&f->tensors[i]))
            return true;
    return file_find_tensor(f, all, sizeof all - 1) != NULL;
}

static infer_status failed(struct adapter_reader *r, const struct file_tensor *t, infer_status st, const char *what)
{
    return err_at(r->err, st, t->name.data, (size_t)t->name.len, ERR_NO_OFFSET, "%s", what);
}

/* Row `row` of t is for this layer. */
static infer_status add(struct adapter_reader *r, const struct file_tensor *t, uint64_t row, uint32_t layer)
{
    struct infer_adapter *a = r->a;
    uint32_t at = a->n_directions;
    if (layer >= ADAPTER_MAX_LAYERS)
        return failed(r, t, INFER_ERROR_VALUE, "the layer's number is out of range");
    if (t->dims[0] > 1u << 20 || (a->width && t->dims[0] != a->width))
        return failed(r, t, INFER_ERROR_SHAPE, "its length differs from that of the others");
    for (; at > 0 && a->directions[at - 1].layer >= layer; at--)
        if (a->directions[at - 1].layer == layer)
            return failed(r, t, INFER_ERROR_FORMAT, "two directions for one layer");
    struct adapter_direction d = {.layer = layer, .stored = arena_strdup(&a->arena, t->name.data, (size_t)t->name.len)};
    if (!d.stored)
        return err_no_memory(r->err);
    infer_status st = adapter_matrix_of(r, t, row, 1, false, &d.v);
    if (st != INFER_OK)
        return st;
    memmove(a->directions + at + 1, a->directions + at, (a->n_directions - at) * sizeof d);
    a->directions[at] = d;
    a->n_directions++;
    a->width = (uint32_t)t->dims[0];
    return INFER_OK;
}

static infer_status add_one(struct adapter_reader *r, const struct file_tensor *t)
{
    size_t used, head = sizeof one - 1;
    if (!is_one(t))
        return failed(r, t, INFER_ERROR_UNSUPPORTED, "no part of a control vector: not direction.N");
    uint32_t layer = adapter_number(t->name.data + head, (size_t)t->name.len - head, &used);
    if (head + used != t->name.len)
        return failed(r, t, INFER_ERROR_FORMAT, "the layer's number is malformed");
    if (t->n == 0 || t->n != t->dims[0])
        return failed(r, t, INFER_ERROR_SHAPE, "a direction must have 1 dimension");
    return add(r, t, 0, layer);
}

static infer_status add_all(struct adapter_reader *r, const struct file_tensor *t)
{
    infer_status st = INFER_OK;
    if (t->n_dims != 2 || t->n == 0 || t->dims[1] > ADAPTER_MAX_LAYERS || r->a->file->n_tensors != 1)
        return failed(r, t, INFER_ERROR_SHAPE, "expected one tensor of a row a layer, alone in its file");
    for (uint64_t i = 0; i < t->dims[1] && st == INFER_OK; i++)
        st = add(r, t, i, (uint32_t)i);
    r->a->n_layers = (uint32_t)t->dims[1];
    return st;
}

static infer_status read_keys(struct adapter_reader *r)
{
    const struct infer_file *f = r->a->file;
    struct file_str hint;
    infer_status st = file_get_string_or(f, "controlvector.model_hint", "", &hint, r->err);
    if (st == INFER_OK)
        st = file_get_u32_or(f, "controlvector.layer_count", 0, &r->a->n_layers, r->err);
    if (st != INFER_OK)
        return st;
    r->a->arch = arena_strdup(&r->a->arena, hint.data, (size_t)hint.len);
    return r->a->arch ? INFER_OK : err_no_memory(r->err);
}

infer_status adapter_read_steering(struct adapter_reader *r)
{
    struct infer_adapter *a = r->a;
    const struct file_tensor *matrix = file_find_tensor(a->file, all, sizeof all - 1);
    a->kind = ADAPTER_STEERING;
    a->directions = arena_zarray(&a->arena, ADAPTER_MAX_LAYERS, sizeof *a->directions);
    if (!a->directions)
        return err_no_memory(r->err);
    infer_status st = read_keys(r);
    if (st == INFER_OK && matrix)
        return add_all(r, matrix);
    for (uint64_t i = 0; i < a->file->n_tensors && st == INFER_OK; i++)
        st = add_one(r, &a->file->tensors[i]);
    return st;
}
