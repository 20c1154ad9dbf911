/* Multi-head latent attention, in its absorbed form for prompts and decoding alike. Of each element one row is kept that serves all heads as key and as value:
 * [n_rot: the rotated part][kv_lora: the latent]. A head's query becomes one on that row: its own rotated part, and its other part through the head's
 * matrix to the latent. What attention gives, the head's other matrix makes values of. */
#include "model/forward_pass.h"

#define HEADS_AT_ONCE 64u /* of a call's list of products, on the stack */

static uint32_t qk_dim(const struct hparams *h)
{
    return h->qk_nope + h->n_rot;
}

uint32_t mla_heads_width(const struct hparams *h)
{
    return h->n_head * (qk_dim(h) > h->v_dim ? qk_dim(h) : h->v_dim);
}

uint32_t mla_narrow_width(const struct hparams *h)
{
    return h->q_lora > h->head_dim ? h->q_lora : h->head_dim;
}

static void norm_rows(const struct pass *p, struct dev_ref dst, uint32_t dst_stride, struct dev_ref src, uint32_t src_stride, const struct dev_weight *w)
{
    p->ops->norm(p->dev, &(struct dev_norm){.kind = p->net->arch->norm, .dst = dst, .src = src, .weight = w->data, .n_outer = p->b->n_row,
                                            .n_inner = 1, .width = w->n_in, .dst_stride = dst_stride, .src_stride = src_stride, .eps = p->h->eps});
}

static void rotate(const struct pass *p, uint32_t layer, struct dev_ref x, uint32_t n_head)
{
    p->ops->rope(p->dev, &(struct dev_rope){.kind = p->h->rope, .x = x, .table = p->rope[p->net->layers[layer].group], .n_row = p->b->n_row,
                                            .n_head = n_head, .head_dim = p->h->head_dim, .n_rot = p->h->n_rot,
                                            .stride = n_head * p->h->head_dim});
}

/* One product for each head: dst[r][head] = w * src[r][head]. Strides in floats, between rows and between heads. */
static void each_head(const struct pass *p, uint32_t layer, bool keys, struct dev_ref dst, uint32_t dst_row, uint32_t dst_head, struct dev_ref src,
                      uint32_t src_row, uint32_t src_head)
{
    const struct latent_head *heads = p->net->layers[layer].latent->heads;
    struct dev_part parts[HEADS_AT_ONCE];
    uint32_t n_row = p->b->n_row;
    for (uint32_t first = 0, n; first < p->h->n_head; first += n) {
        n = p->h->n_head - first < HEADS_AT_ONCE ? p->h->n_head - first : HEADS_AT_ONCE;
        struct dev_rows rows = {.src = dev_at(src, (uint64_t)first * src_head * 4), .n_group = n, .n_row = n_row, .group_stride = src_head,
                                .row_stride = src_row};
        for (uint32_t i = 0; i < n; i++)
            parts[i] = (struct dev_part){.w = keys ? heads[first + i].k : heads[first + i].v,
                                         .dst = dev_at(dst, (uint64_t)(first + i) * dst_head * 4), .dst_stride = dst_row,
                                         .first_row = i * n_row, .n_row = n_row};
        p->ops->matmul_parts(p->dev, &rows, parts, n);
    }
}

/* p->q [row][n_head][n_rot + kv_lora] */
static void make_queries(const struct pass *p, uint32_t layer, struct dev_ref in)
{
    const struct hparams *h = p->h;
    uint32_t qk = qk_dim(h), width = h->n_head * qk;
    if (h->q_lora) {
        pass_multiply(p, layer, in, h->n_embd, &(struct product){SLOT_MLA_Q_DOWN, SLOT_NONE, p->narrow, h->q_lora}, 1);
        norm_rows(p, p->narrow, h->q_lora, p->narrow, h->q_lora, net_layer(p->net, layer, SLOT_MLA_Q_NORM));
        pass_multiply(p, layer, p->narrow, h->q_lora, &(struct product){SLOT_MLA_Q_UP, SLOT_NONE, p->heads, width}, 1);
    } else {
        pass_multiply(p, layer, in, h->n_embd, &(struct product){SLOT_MLA_Q, SLOT_NONE, p->heads, width}, 1);
    }
    p->ops->copy_rows(p->dev, p->q, h->head_dim, dev_at(p->heads, h->qk_nope * 4ull), qk, p->b->n_row * h->n_head, h->n_rot);
    rotate(p, layer, p->q, h->n_head);
    each_head(p, layer, true, dev_at(p->q, h->n_rot * 4ull), p->q_width, h->head_dim, p->heads, width, qk);
}

/* p->k [row][n_rot + kv_lora] */
static void make_latents(const struct pass *p, uint32_t layer, struct dev_ref in)
{
    const struct hparams *h = p->h;
    pass_multiply(p, layer, in, h->n_embd, &(struct product){SLOT_MLA_KV_DOWN, SLOT_NONE, p->narrow, h->head_dim}, 1);
    norm_rows(p, dev_at(p->k, h->n_rot * 4ull), h->head_dim, p->narrow, h->head_dim, net_layer(p->net, layer, SLOT_MLA_KV_NORM));
    p->ops->copy_rows(p->dev, p->k, h->head_dim, dev_at(p->narrow, h->kv_lora * 4ull), h->head_dim, p->b->n_row, h->n_rot);
    rotate(p, layer, p->k, 1);
}

void mla_project(const struct pass *p, uint32_t layer, struct dev_ref in)
{
    make_queries(p, layer, in);
    make_latents(p, layer, in);
}

void mla_output(const struct pass *p, uint32_t layer)
{
    const struct hparams *h = p->h;
    uint32_t width = h->n_head * h->v_dim;
    each_head(p, layer, false, p->heads, width, h->v_dim, dev_at(p->a, h->n_rot * 4ull), p->q_width, h->head_dim);
    pass_multiply(p, layer, p->heads, width, &(struct product){SLOT_MLA_OUT, SLOT_NONE, p->hid, h->n_embd}, 1);
}
