/* A network: an architecture, its hyper-parameters and the weights of one file, bound to a device. Immutable after net_open. */
#ifndef MODEL_NET_H
#define MODEL_NET_H

#include "base/cancel.h"
#include "base/env.h"
#include "formats/file.h"
#include "model/arch.h"

struct expert {
    struct dev_weight gate, up, down;
    bool announced; /* to the device; under the lock that guards it */
};

struct experts {
    float *bias; /* host memory, [n_expert]: added to the router's scores for the choice alone; or NULL */
    struct expert each[]; /* [n_expert] */
};

/* Of multi-head latent attention: what makes a head's query one on the latent, and its values of it. */
struct latent_head {
    struct dev_weight k; /* [kv_lora][qk_nope] */
    struct dev_weight v; /* [v_dim][kv_lora] */
};

struct latent {
    struct dev_buffer *own; /* keys that had to be transposed; or NULL */
    struct latent_head heads[]; /* [n_head] */
};

struct layer {
    struct dev_weight w[SLOT_LAYER_COUNT]; /* by slot - SLOT_GLOBAL_COUNT; vectors have n_out 1; data.buf NULL: absent */
    uint32_t group;                        /* layer group: 0 full, 1 windowed */
    uint32_t group_index;                  /* number of this layer within its group */
    struct experts *experts;               /* NULL: there are none */
    struct latent *latent;                 /* NULL: attention has separate keys and values */
};

#define NET_LAYER_GROUPS 2
/* Page tables of a session: one a layer group, and in a mixed session for each a second one, with what is kept in the exact type. */
#define NET_KV_GROUPS    (2 * NET_LAYER_GROUPS)
#define NET_KV_EXACT(layer_group) ((layer_group) + NET_LAYER_GROUPS)

struct net {
    const struct env *env;
    struct device *dev;
    const struct arch *arch;
    struct hparams h;
    struct dev_weight global[SLOT_GLOBAL_COUNT];
    struct layer *layers; /* [n_layer] */
    struct dev_buffer **parts; /* imported parts of the file */
    uint32_t n_parts;
    bool is_large; /* memory may not keep all of the file */
    uint64_t own_bytes; /* of own, and of what layers own */
    struct dev_buffer *own;    /* vectors that had to be converted to f32, and the rope frequencies */
    struct dev_ref inv_freq[NET_LAYER_GROUPS]; /* f32 [n_rot / 2]: of full and windowed layers */
    float rope_mscale[NET_LAYER_GROUPS];
    uint32_t group_layers[NET_LAYER_GROUPS];   /* layers in each group */
};

/* The file must outlive the net. env is kept. CANCELLED: the device was stopped. n_ctx: the longest context that it will be used for; 0: what the file declares. */
infer_status net_open(const struct env *env, struct device *dev, const struct infer_file *file, uint32_t n_ctx,
                      struct net **out, infer_error *err);
void net_close(struct net *net); /* may be NULL */

bool net_tensor_is_experts(const struct file_tensor *t); /* the matrices of one or all experts of a layer */
/* Do results depend on n_ctx? */
static inline bool net_has_long_rope(const struct net *net)
{
    return net->global[SLOT_ROPE_LONG].data.buf || net->global[SLOT_ROPE_SHORT].data.buf;
}

static inline const struct dev_weight *net_layer(const struct net *net, uint32_t layer, enum slot slot)
{
    return &net->layers[layer].w[slot - SLOT_GLOBAL_COUNT];
}

/* Floats of an embedding: those of a hidden state, or what the matrices behind the pooling make of them. */
static inline uint32_t net_embedding_width(const struct net *net)
{
    const struct dev_weight *w = net->global;
    return w[SLOT_DENSE_3].data.buf ? w[SLOT_DENSE_3].n_out : w[SLOT_DENSE_2].data.buf ? w[SLOT_DENSE_2].n_out : net->h.n_embd;
}

/* How the KV groups of a session store elements. kv_type: INFER_KV_*. Mixed types keep all elements as INT8 in the layer groups, and those within
 * kv_recent elements (a multiple of 64) as F16 or F32 in the exact groups. Element q reads the pages from net_kv_exact_page(q) on, those that hold
 * anything of the last kv_recent elements up to q, in the exact type, the others in INT8: a function of q and the page alone. */
static inline bool net_kv_is_mixed(int32_t kv_type)
{
    return kv_type == INFER_KV_MIXED_F16 || kv_type == INFER_KV_MIXED_F32;
}

static inline uint64_t net_kv_exact_page(uint64_t q, uint64_t kv_recent)
{
    return q + 1 > kv_recent ? (q + 1 - kv_recent) / DEV_KV_PAGE : 0;
}

/* One group's page of 64 elements: its layers in order, each with all K heads, then all V heads; with latent attention, K alone (dev_kv_is_shared): the
 * rotated part, then the latent. */
struct dev_kv net_kv(const struct net *net, int32_t kv_type, uint32_t layer, bool exact);
uint64_t net_kv_page_bytes(const struct net *net, int32_t kv_type, uint32_t kv_group); /* 0: nothing is stored there */
uint64_t net_kv_window(const struct net *net, uint64_t kv_recent, uint32_t kv_group);   /* 0: all elements are kept */

/* In one KV group, elements [src, src + n) of a sequence become elements [dst, dst + n) of another one, at positions `delta` further. See dev_kv_move. */
struct net_kv_span {
    const struct dev_ref *src_pages, *dst_pages;
    uint64_t src, dst, n;
    int64_t delta; /* 0 where positions are learned */
};
void net_kv_move(const struct net *net, int32_t kv_type, uint32_t kv_group, const struct net_kv_span *span);

/* Zeroes what a page in host memory holds of its elements from `used` on: leftovers of whoever had the page before. */
void net_kv_blank(const struct net *net, int32_t kv_type, uint32_t kv_group, void *page, uint32_t used);

#endif
