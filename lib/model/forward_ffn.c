/* The feed-forward part of a layer. */
#include "model/forward_pass.h"

static void one_for_all(const struct pass *p, uint32_t layer, struct dev_ref src)
{
    uint32_t n_row = p->b->n_row, n_ff = p->h->n_ff;
    struct product in[2] = {{SLOT_UP, SLOT_UP_B, p->u, n_ff}, {SLOT_GATE, SLOT_GATE_B, p->g, n_ff}};
    bool gated = p->net->arch->gated;
    pass_multiply(p, layer, src, p->h->n_embd, in, gated ? 2 : 1);
    p->ops->act(p->dev, p->net->arch->act, p->u, gated ? p->g : p->u, gated ? p->u : (struct dev_ref){0}, n_row, n_ff, n_ff);
    pass_multiply(p, layer, p->u, n_ff, &(struct product){SLOT_DOWN, SLOT_DOWN_B, p->hid, p->h->n_embd}, 1);
}

infer_status pass_feed_forward(const struct pass *p, uint32_t layer, infer_error *err)
{
    const struct net *net = p->net;
    infer_status st = INFER_OK;
    bool behind = net->arch->post_norm;
    struct dev_ref in = pass_input(p, layer, SLOT_FFN_NORM, SLOT_FFN_NORM_B, behind ? p->x : p->hid, p->hid);
    if (net->layers[layer].experts)
        st = pass_experts(p, layer, err);
    else
        one_for_all(p, layer, pass_is_parallel(p, layer) ? p->norm : in);
    if (st == INFER_OK)
        pass_output(p, layer, SLOT_FFN_POST_NORM);
    if (behind)
        pass_add_norm(p, p->x, p->x, p->hid, p->b->n_row, net_layer(net, layer, SLOT_LAYER_NORM),
                      net_layer(net, layer, SLOT_LAYER_NORM_B));
    return st;
}
