/* The feed-forward part of a layer. */
#include "model/forward_pass.h"

void pass_feed_forward(const struct pass *p, uint32_t layer)
{
    const struct net *net = p->net;
    uint32_t n_row = p->b->n_row, n_ff = p->h->n_ff;
    bool behind = net->arch->post_norm;
    struct dev_ref src = behind ? p->x : p->hid;
    pass_add_norm(p, src, p->x, p->hid, n_row, net_layer(net, layer, SLOT_FFN_NORM),
                  net_layer(net, layer, SLOT_FFN_NORM_B));
    struct product in[2] = {{SLOT_UP, SLOT_UP_B, p->u, n_ff}, {SLOT_GATE, SLOT_GATE_B, p->g, n_ff}};
    bool gated = net->arch->gated;
    pass_multiply(p, layer, src, p->h->n_embd, in, gated ? 2 : 1);
    p->ops->act(p->dev, net->arch->act, p->u, gated ? p->g : p->u, gated ? p->u : (struct dev_ref){0}, n_row, n_ff, n_ff);
    pass_multiply(p, layer, p->u, n_ff, &(struct product){SLOT_DOWN, SLOT_DOWN_B, p->hid, p->h->n_embd}, 1);
    const struct dev_weight *post = net_layer(net, layer, SLOT_FFN_POST_NORM);
    if (post->data.buf)
        pass_norm(p, p->hid, n_row, post, &(struct dev_weight){0});
    if (behind)
        pass_add_norm(p, p->x, p->x, p->hid, n_row, net_layer(net, layer, SLOT_LAYER_NORM),
                      net_layer(net, layer, SLOT_LAYER_NORM_B));
}
