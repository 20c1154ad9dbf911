/* Experts: one tensor with the matrices of all of a layer's experts, one after another, or a tensor for each. They stay where they are in the file. */
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "kernels/dequant.h"
#include "model/net_bind.h"

static struct experts *experts_of(struct binder *b, uint32_t layer)
{
    struct layer *l = &b->net->layers[layer];
    uint64_t n = b->net->h.n_expert, size = sizeof(struct experts) + n * (sizeof(struct expert) + sizeof(float));
    if (!l->experts)
        l->experts = mem_zalloc(&b->net->env->alloc, (size_t)size);
    return l->experts;
}

static struct dev_weight *weight_of(struct experts *e, enum slot slot, uint32_t i)
{
    return slot == SLOT_EXP_GATE ? &e->each[i].gate : slot == SLOT_EXP_UP ? &e->each[i].up : &e->each[i].down;
}

static infer_status wrong_shape(const struct binder *b, const struct file_tensor *t, struct shape want, uint64_t n)
{
    char why[200];
    (void)snprintf(why, sizeof why, "shape is %llu x %llu x %llu, the model's sizes call for %llu x %llu x %llu",
                   (unsigned long long)t->dims[0], (unsigned long long)t->dims[1], (unsigned long long)t->dims[2],
                   (unsigned long long)want.width, (unsigned long long)want.rows, (unsigned long long)n);
    return tensor_error(b, INFER_ERROR_SHAPE, t->name.data, t->name.len, why);
}

/* Experts [first, first + n) of a tensor that holds n. */
static infer_status bind_experts(struct binder *b, const struct file_tensor *t, enum slot slot, struct experts *e, uint32_t first, uint32_t n)
{
    struct shape want = shape_wanted(&b->net->h, slot);
    infer_status st = INFER_OK;
    if (t->dims[0] != want.width || t->dims[1] != want.rows || t->dims[2] != n || t->dims[3] != 1)
        return wrong_shape(b, t, want, n);
    for (uint32_t i = 0; i < n && st == INFER_OK; i++)
        st = bind_matrix(b, t, i * want.rows, want.rows, weight_of(e, slot, first + i));
    return st;
}

/* Of none of a slot's names is there a tensor: the error tells the first name, today's. */
static infer_status missing(struct binder *b, enum slot slot, uint32_t layer)
{
    const struct slot_name *sn = b->net->arch->slots;
    char name[NAME_MAX_LEN];
    while (sn->slot != slot)
        sn++;
    (void)snprintf(name, sizeof name, sn->name, layer, 0u);
    return tensor_error(b, INFER_ERROR_MISSING, name, strlen(name), "required tensor is missing");
}

static infer_status bind_each(struct binder *b, const struct slot_name *sn, uint32_t layer, struct experts *e)
{
    infer_status st = INFER_OK;
    for (uint32_t i = 0; i < b->net->h.n_expert && st == INFER_OK; i++) {
        char name[NAME_MAX_LEN];
        (void)snprintf(name, sizeof name, sn->name, layer, i);
        const struct file_tensor *t = file_find_tensor(b->file, name, strlen(name));
        if (!t && !i)
            return missing(b, sn->slot, layer);
        if (!t)
            return tensor_error(b, INFER_ERROR_MISSING, name, strlen(name), "required tensor is missing");
        st = bind_experts(b, t, sn->slot, e, i, 1);
    }
    return st;
}

/* Behind the experts in their block. */
static infer_status bind_bias(struct binder *b, const struct file_tensor *t, struct experts *e)
{
    uint32_t n = b->net->h.n_expert;
    if (t->n != n || t->dims[0] != n || (t->type != INFER_TYPE_F32 && t->type != INFER_TYPE_F16 && t->type != INFER_TYPE_BF16))
        return tensor_error(b, INFER_ERROR_SHAPE, t->name.data, t->name.len, "is not a float for each expert");
    e->bias = (float *)(void *)&e->each[n];
    if (!b->file->planned)
        dequant_row(t->type, t->data, e->bias, n);
    return INFER_OK;
}

bool net_tensor_is_experts(const struct file_tensor *t)
{
    char name[NAME_MAX_LEN];
    (void)snprintf(name, sizeof name, "%.*s", t->name.len < sizeof name ? (int)t->name.len : 0, t->name.data);
    const char *end = strstr(name, ".weight"); /* one each: blk.0.ffn_up.7.weight */
    return strstr(name, "_exps.weight") || (strstr(name, ".ffn_") && end && end[-1] >= '0' && end[-1] <= '9');
}

static bool one_each(const struct slot_name *sn)
{
    const char *first = strstr(sn->name, "%u");
    return first && strstr(first + 2, "%u");
}

infer_status bind_expert_slot(struct binder *b, const struct slot_name *sn, uint32_t layer)
{
    struct experts *e = experts_of(b, layer);
    char name[NAME_MAX_LEN];
    if (!e)
        return err_no_memory(b->err);
    if (sn->slot != SLOT_ROUTER_BIAS && weight_of(e, sn->slot, 0)->data.buf)
        return INFER_OK; /* filled under an earlier name */
    if (one_each(sn))
        return bind_each(b, sn, layer, e);
    (void)snprintf(name, sizeof name, sn->name, layer);
    const struct file_tensor *t = file_find_tensor(b->file, name, strlen(name));
    if (!t) /* of experts the names that follow are tried: the last one's error tells */
        return INFER_OK;
    return sn->slot == SLOT_ROUTER_BIAS ? bind_bias(b, t, e) : bind_experts(b, t, sn->slot, e, 0, b->net->h.n_expert);
}
