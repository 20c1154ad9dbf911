/* A network: an architecture, its hyper-parameters and the weights of one file, bound to a device. Immutable after net_open. */
#ifndef MODEL_NET_H
#define MODEL_NET_H

#include "base/cancel.h"
#include "base/env.h"
#include "formats/file.h"
#include "model/arch.h"

struct layer {
    struct dev_weight w[SLOT_LAYER_COUNT]; /* by slot - SLOT_GLOBAL_COUNT; vectors have n_out 1; data.buf NULL: absent */
    uint32_t group;                        /* KV group: 0 full, 1 windowed */
    uint32_t group_index;                  /* number of this layer within its group */
};

#define NET_KV_GROUPS 2

struct net {
    const struct env *env;
    struct device *dev;
    const struct arch *arch;
    struct hparams h;
    struct dev_weight global[SLOT_GLOBAL_COUNT];
    struct layer *layers; /* [n_layer] */
    struct dev_buffer **parts; /* imported parts of the file */
    uint32_t n_parts;
    struct dev_buffer *own;    /* vectors that had to be converted to f32, and the rope frequencies */
    struct dev_ref inv_freq[NET_KV_GROUPS]; /* f32 [n_rot / 2]: of full and windowed layers */
    float rope_mscale[NET_KV_GROUPS];
    uint32_t group_layers[NET_KV_GROUPS];   /* layers in each KV group */
};

/* The file must outlive the net. env is kept. */
infer_status net_open(const struct env *env, struct device *dev, const struct infer_file *file, const infer_cancel *cancel,
                      struct net **out, infer_error *err);
void net_close(struct net *net); /* may be NULL */

static inline const struct dev_weight *net_layer(const struct net *net, uint32_t layer, enum slot slot)
{
    return &net->layers[layer].w[slot - SLOT_GLOBAL_COUNT];
}

/* KV storage of one group in a page of 64 elements: layers in order, each with all K heads, then all V heads. */
struct dev_kv net_kv(const struct net *net, int32_t kv_type, uint32_t layer);
uint64_t net_kv_page_bytes(const struct net *net, int32_t kv_type, uint32_t group); /* 0: the group has no layers */

#endif
