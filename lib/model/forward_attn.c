/* Attention over the KV pages of each sequence: projections, QK norm, rope, the pages' write, attention, the output projection. */
#include "kernels/math_scalar.h"
#include "model/forward_pass.h"

/* QK norm and rope of the heads in x [n_row][n_head][head_dim]. */
static void prepare_heads(const struct pass *p, uint32_t layer, struct dev_ref x, uint32_t n_head, enum slot norm_slot)
{
    const struct dev_weight *w = net_layer(p->net, layer, norm_slot);
    uint32_t width = n_head * p->h->head_dim;
    if (w->data.buf) /* [head_dim], [n_head][head_dim], or over all heads together */
        p->ops->norm(p->dev, &(struct dev_norm){.kind = p->net->arch->norm, .dst = x, .src = x, .weight = w->data,
                                                .n_outer = p->b->n_row, .n_inner = width / w->n_in, .width = w->n_in,
                                                .weight_stride = w->n_out > 1 ? w->n_in : 0,
                                                .dst_stride = width, .src_stride = width, .eps = p->h->eps});
    if (p->net->arch->positions == POSITIONS_ROPE)
        p->ops->rope(p->dev, &(struct dev_rope){.kind = p->h->rope, .x = x,
                                                .table = p->rope[p->net->layers[layer].group], .n_row = p->b->n_row,
                                                .n_head = n_head, .head_dim = p->h->head_dim, .n_rot = p->h->n_rot,
                                                .stride = width});
}

/* What a layer of a mixed session keeps beside its int8. */
static struct dev_exact exact_of(const struct pass *p, uint32_t layer)
{
    const struct batch *b = p->b;
    if (!net_kv_is_mixed(b->kv_type))
        return (struct dev_exact){.pages = NULL};
    return (struct dev_exact){net_kv(p->net, b->kv_type, layer, true), b->seqs[NET_KV_EXACT(p->net->layers[layer].group)],
                              b->exact_pages};
}

static struct dev_kv kv_of(const struct pass *p, uint32_t layer)
{
    struct dev_kv kv = net_kv(p->net, p->b->kv_type, layer, false);
    if (p->b->one_layer) {
        kv.v_off -= kv.k_off;
        kv.k_off = 0;
    }
    return kv;
}

/* Queries far beyond the original context, where scores would get too even: rows that share a factor lie together. */
static void grow_queries(const struct pass *p)
{
    const uint32_t *positions = p->b->positions, first = (uint32_t)p->h->rope_orig_ctx;
    for (uint32_t r = 0, n; r < p->b->n_row; r += n) {
        uint32_t times = positions[r] / first;
        for (n = 1; r + n < p->b->n_row && positions[r + n] / first == times;)
            n++;
        float factor = (float)(1 + (double)p->h->query_growth * math_log_d(1.0 + times));
        if (times)
            p->ops->scale(p->dev, dev_at(p->q, (uint64_t)r * p->q_width * 4), (uint64_t)n * p->q_width, factor);
    }
}

/* q, k and v of `in`. */
static void project(const struct pass *p, uint32_t layer, struct dev_ref in)
{
    struct product qkv[3] = {{SLOT_Q, SLOT_Q_B, p->q, p->q_width},
                             {SLOT_K, SLOT_K_B, p->k, p->kv_width},
                             {SLOT_V, SLOT_V_B, p->v, p->kv_width}};
    pass_multiply(p, layer, in, p->h->n_embd, qkv, 3);
    prepare_heads(p, layer, p->q, p->h->n_head, SLOT_Q_NORM);
    prepare_heads(p, layer, p->k, p->h->n_head_kv, SLOT_K_NORM);
    if (p->h->query_growth != 0)
        grow_queries(p);
}

void pass_project(const struct pass *p, uint32_t layer)
{
    const struct net *net = p->net;
    const struct batch *b = p->b;
    struct dev_kv kv = kv_of(p, layer);
    struct dev_exact exact = exact_of(p, layer);
    struct dev_ref in = p->x;
    if (!net->arch->post_norm)
        in = pass_input(p, layer, SLOT_ATTN_NORM, SLOT_ATTN_NORM_B, pass_is_parallel(p, layer) ? p->norm : p->hid,
                        layer ? p->hid : (struct dev_ref){0});
    if (net->layers[layer].latent)
        mla_project(p, layer, in);
    else
        project(p, layer, in);
    p->ops->kv_write(p->dev, &kv, p->k, p->kv_width, p->v, p->kv_width, b->seqs[net->layers[layer].group], b->n_seq);
    if (exact.pages)
        p->ops->kv_write(p->dev, &exact.kv, p->k, p->kv_width, p->v, p->kv_width, exact.seqs, b->n_seq);
}

void pass_attend(const struct pass *p, uint32_t layer)
{
    const struct net *net = p->net;
    const struct batch *b = p->b;
    uint32_t group = net->layers[layer].group;
    p->ops->attention(p->dev, &(struct dev_attention){.dst = p->a, .q = p->q, .q_stride = p->q_width,
                                                      .dst_stride = p->q_width, .n_head = p->h->n_head,
                                                      .scale = p->h->attn_scale, .softcap = p->h->attn_softcap,
                                                      .kv = kv_of(p, layer), .seqs = b->seqs[group], .n_seq = b->n_seq,
                                                      .lo = b->lo[group], .hi = b->hi[group], .exact = exact_of(p, layer)});
    if (net->layers[layer].latent)
        mla_output(p, layer);
    else
        pass_multiply(p, layer, p->a, p->q_width, &(struct product){SLOT_ATTN_OUT, SLOT_ATTN_OUT_B, p->hid, p->h->n_embd}, 1);
    pass_output(p, layer, SLOT_ATTN_POST_NORM);
}
