/* The place of each layer's keys and values in a page. */
#include "model/net.h"

static uint64_t layer_bytes(const struct net *net, int32_t kv_type)
{
    return net->h.n_head_kv * dev_kv_head_bytes(kv_type, net->h.head_dim);
}

struct dev_kv net_kv(const struct net *net, int32_t kv_type, uint32_t layer)
{
    uint64_t bytes = layer_bytes(net, kv_type), at = 2 * bytes * net->layers[layer].group_index;
    return (struct dev_kv){kv_type, net->h.n_head_kv, net->h.head_dim, at, at + bytes};
}

uint64_t net_kv_page_bytes(const struct net *net, int32_t kv_type, uint32_t group)
{
    return 2 * layer_bytes(net, kv_type) * net->group_layers[group];
}
