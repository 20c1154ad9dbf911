/* The matrices of multi-head latent attention that go with each head. They lie in the file as this library multiplies them, or, in older files and in those of
 * Hugging Face, keys and values of a head one after the other: then the keys' part, which is needed transposed, is copied at open. */
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "kernels/dequant.h"
#include "model/net_bind.h"

static struct latent *latent_of(struct binder *b, uint32_t layer)
{
    struct layer *l = &b->net->layers[layer];
    if (!l->latent)
        l->latent = mem_zalloc(&b->net->env->alloc, sizeof *l->latent + b->net->h.n_head * sizeof *l->latent->heads);
    return l->latent;
}

static infer_status wrong_shape(const struct binder *b, const struct file_tensor *t, uint64_t d0, uint64_t d1, uint64_t d2)
{
    char why[200];
    (void)snprintf(why, sizeof why, "shape is %llu x %llu x %llu, the model's sizes call for %llu x %llu x %llu",
                   (unsigned long long)t->dims[0], (unsigned long long)t->dims[1], (unsigned long long)t->dims[2], (unsigned long long)d0,
                   (unsigned long long)d1, (unsigned long long)d2);
    return tensor_error(b, INFER_ERROR_SHAPE, t->name.data, t->name.len, why);
}

/* A matrix for each head. */
static infer_status bind_heads(struct binder *b, const struct file_tensor *t, enum slot slot, struct latent *l)
{
    struct shape want = shape_wanted(&b->net->h, slot);
    uint32_t n = b->net->h.n_head;
    infer_status st = INFER_OK;
    if (t->dims[0] != want.width || t->dims[1] != want.rows || t->dims[2] != n || t->dims[3] != 1)
        return wrong_shape(b, t, want.width, want.rows, n);
    for (uint32_t i = 0; i < n && st == INFER_OK; i++)
        st = bind_matrix(b, t, i * want.rows, want.rows, slot == SLOT_MLA_K ? &l->heads[i].k : &l->heads[i].v);
    return st;
}

/* dst [kv_lora][qk_nope] = the first qk_nope of a head's rows, transposed; widened to f32 unless they are floats of 16 bits. row: room for one. */
static void transpose_keys(const struct hparams *h, const struct file_tensor *t, uint32_t head, void *dst, float *row)
{
    uint64_t row_bytes = t->bytes / t->dims[1], first = (uint64_t)head * (h->qk_nope + h->v_dim);
    bool half = t->type == INFER_TYPE_F16 || t->type == INFER_TYPE_BF16;
    for (uint32_t i = 0; i < h->qk_nope; i++) {
        const uint8_t *src = (const uint8_t *)t->data + (first + i) * row_bytes;
        if (!half)
            dequant_row(t->type, src, row, h->kv_lora);
        for (uint32_t j = 0; j < h->kv_lora; j++)
            if (half)
                memcpy((char *)dst + ((size_t)j * h->qk_nope + i) * 2, src + (size_t)j * 2, 2);
            else
                ((float *)dst)[(size_t)j * h->qk_nope + i] = row[j];
    }
}

/* The keys of all heads into memory of the device's own. */
static infer_status copy_keys(struct binder *b, const struct file_tensor *t, struct latent *l)
{
    const struct hparams *h = &b->net->h;
    const struct device_ops *ops = b->net->dev->ops;
    bool half = t->type == INFER_TYPE_F16 || t->type == INFER_TYPE_BF16;
    size_t elem = half ? 2 : 4, n = (size_t)h->kv_lora * h->qk_nope; /* both at most some thousands */
    infer_status st = ops->alloc(b->net->dev, h->n_head * (uint64_t)n * elem, &l->own, b->err);
    if (st != INFER_OK)
        return st;
    b->net->own_bytes += h->n_head * (uint64_t)n * elem;
    float *host = mem_alloc(&b->net->env->alloc, (n + h->kv_lora) * sizeof *host);
    if (!host)
        return err_no_memory(b->err);
    for (uint32_t i = 0; i < h->n_head; i++) {
        struct dev_ref at = {l->own, i * (uint64_t)n * elem};
        if (!b->file->planned)
            transpose_keys(h, t, i, host, host + n);
        ops->write(b->net->dev, at, host, n * elem);
        l->heads[i].k = (struct dev_weight){at, half ? t->type : INFER_TYPE_F32, h->qk_nope, h->kv_lora, h->qk_nope * (uint64_t)elem};
    }
    mem_free(&b->net->env->alloc, host);
    return INFER_OK;
}

/* Keys and values of each head, [n_head][qk_nope + v_dim] rows of kv_lora. */
static infer_status bind_both(struct binder *b, const struct file_tensor *t, struct latent *l)
{
    const struct hparams *h = &b->net->h;
    struct shape want = shape_wanted(h, SLOT_MLA_KV);
    infer_status st = INFER_OK;
    if (t->dims[0] != want.width || t->dims[1] != want.rows || t->n != want.width * want.rows)
        return wrong_shape(b, t, want.width, want.rows, 1);
    for (uint32_t i = 0; i < h->n_head && st == INFER_OK; i++)
        st = bind_matrix(b, t, (uint64_t)i * (h->qk_nope + h->v_dim) + h->qk_nope, h->v_dim, &l->heads[i].v);
    return st == INFER_OK ? copy_keys(b, t, l) : st;
}

infer_status bind_mla_slot(struct binder *b, const struct slot_name *sn, uint32_t layer)
{
    struct latent *l = latent_of(b, layer);
    char name[NAME_MAX_LEN];
    if (!l)
        return err_no_memory(b->err);
    (void)snprintf(name, sizeof name, sn->name, layer);
    const struct file_tensor *t = file_find_tensor(b->file, name, strlen(name));
    bool have_k = l->heads[0].k.data.buf != NULL, have_v = l->heads[0].v.data.buf != NULL;
    if (sn->slot != SLOT_MLA_KV)
        return t ? bind_heads(b, t, sn->slot, l) : INFER_OK; /* then the one tensor is there, or is missed */
    if (have_k && have_v)
        return t ? tensor_error(b, INFER_ERROR_UNSUPPORTED, name, strlen(name), "is there beside attn_k_b and attn_v_b") : INFER_OK;
    if (t && !have_k && !have_v)
        return bind_both(b, t, l);
    if (have_k != have_v)
        (void)snprintf(name, sizeof name, have_k ? "blk.%u.attn_v_b.weight" : "blk.%u.attn_k_b.weight", layer);
    return tensor_error(b, INFER_ERROR_MISSING, name, strlen(name), "required tensor is missing");
}
