/* The place of each layer's keys and values in a page. */
#include "model/net.h"

#include <string.h>

/* The type of a group's pages. */
static int32_t group_type(int32_t kv_type, bool exact)
{
    if (!net_kv_is_mixed(kv_type))
        return kv_type;
    return !exact ? INFER_KV_INT8 : kv_type == INFER_KV_MIXED_F16 ? INFER_KV_F16 : INFER_KV_F32;
}

static uint64_t layer_bytes(const struct net *net, int32_t type)
{
    return net->h.n_head_kv * dev_kv_head_bytes(type, net->h.head_dim);
}

/* Keys and values; or the latent, which is both. */
static uint64_t kinds(const struct net *net)
{
    return net->h.kv_lora ? 1 : 2;
}

struct dev_kv net_kv(const struct net *net, int32_t kv_type, uint32_t layer, bool exact)
{
    int32_t type = group_type(kv_type, exact);
    uint64_t bytes = layer_bytes(net, type), at = kinds(net) * bytes * net->layers[layer].group_index;
    return (struct dev_kv){type, net->h.n_head_kv, net->h.head_dim, at, at + (kinds(net) - 1) * bytes};
}

uint64_t net_kv_page_bytes(const struct net *net, int32_t kv_type, uint32_t kv_group)
{
    bool exact = kv_group >= NET_LAYER_GROUPS;
    if (exact && !net_kv_is_mixed(kv_type))
        return 0;
    return kinds(net) * layer_bytes(net, group_type(kv_type, exact)) * net->group_layers[kv_group % NET_LAYER_GROUPS];
}

uint64_t net_kv_window(const struct net *net, uint64_t kv_recent, uint32_t kv_group)
{
    uint64_t window = kv_group % NET_LAYER_GROUPS ? net->h.window : 0;
    if (kv_group < NET_LAYER_GROUPS)
        return window;
    return window && window < kv_recent ? window : kv_recent;
}

void net_kv_move(const struct net *net, int32_t kv_type, uint32_t kv_group, const struct net_kv_span *span)
{
    uint32_t group = kv_group % NET_LAYER_GROUPS;
    for (uint32_t l = 0; l < net->h.n_layer; l++)
        if (net->layers[l].group == group)
            net->dev->ops->kv_move(net->dev, &(struct dev_kv_move){.kv = net_kv(net, kv_type, l, kv_group != group),
                                                                   .kind = net->h.rope, .n_rot = net->h.n_rot,
                                                                   .inv_freq = net->inv_freq[group], .delta = span->delta,
                                                                   .src_pages = span->src_pages, .dst_pages = span->dst_pages,
                                                                   .src = span->src, .dst = span->dst, .n = span->n});
}

/* Of one head: keys [head_dim][64] or values [64][head_dim], then scales [groups][64]. */
static void blank_head(const struct dev_kv *kv, uint8_t *head, uint32_t used, bool is_key)
{
    size_t elem = dev_kv_elem_bytes(kv->type), left = DEV_KV_PAGE - used, dim = kv->head_dim;
    if (!is_key)
        memset(head + used * dim * elem, 0, left * dim * elem);
    for (size_t d = 0; is_key && d < dim; d++)
        memset(head + (d * DEV_KV_PAGE + used) * elem, 0, left * elem);
    uint8_t *scales = head + dim * DEV_KV_PAGE * elem;
    for (size_t i = 0; i < dev_kv_groups(kv->type, kv->head_dim); i++)
        memset(scales + (i * DEV_KV_PAGE + used) * 2, 0, left * 2);
}

void net_kv_blank(const struct net *net, int32_t kv_type, uint32_t kv_group, void *page, uint32_t used)
{
    uint32_t group = kv_group % NET_LAYER_GROUPS;
    for (uint32_t l = 0; l < net->h.n_layer; l++) {
        if (net->layers[l].group != group)
            continue;
        struct dev_kv kv = net_kv(net, kv_type, l, kv_group != group);
        uint64_t bytes = dev_kv_head_bytes(kv.type, kv.head_dim);
        for (uint32_t h = 0; h < kv.n_head_kv; h++) {
            blank_head(&kv, (uint8_t *)page + kv.k_off + h * bytes, used, true);
            if (!dev_kv_is_shared(&kv))
                blank_head(&kv, (uint8_t *)page + kv.v_off + h * bytes, used, false);
        }
    }
}
