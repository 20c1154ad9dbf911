/* The feed-forward part of a layer. */
#include "model/forward_pass.h"

void pass_feed_forward(const struct pass *p, uint32_t layer)
{
    const struct net *net = p->net;
    uint32_t n_row = p->b->n_row, n_ff = p->h->n_ff;
    bool behind = net->arch->post_norm;
    struct dev_ref in = pass_input(p, layer, SLOT_FFN_NORM, SLOT_FFN_NORM_B, behind ? p->x : p->hid, p->hid);
    if (pass_is_parallel(p, layer))
        in = p->norm;
    struct product products[2] = {{SLOT_UP, SLOT_UP_B, p->u, n_ff}, {SLOT_GATE, SLOT_GATE_B, p->g, n_ff}};
    bool gated = net->arch->gated;
    pass_multiply(p, layer, in, p->h->n_embd, products, gated ? 2 : 1);
    p->ops->act(p->dev, net->arch->act, p->u, gated ? p->g : p->u, gated ? p->u : (struct dev_ref){0}, n_row, n_ff, n_ff);
    pass_multiply(p, layer, p->u, n_ff, &(struct product){SLOT_DOWN, SLOT_DOWN_B, p->hid, p->h->n_embd}, 1);
    pass_output(p, layer, SLOT_FFN_POST_NORM);
    if (behind)
        pass_add_norm(p, p->x, p->x, p->hid, n_row, net_layer(net, layer, SLOT_LAYER_NORM),
                      net_layer(net, layer, SLOT_LAYER_NORM_B));
}
