/* An adapter bound to a network: each of its matrices found its product, each vector its layer, and all shapes fit. Immutable. */
#ifndef MODEL_NET_ADAPTER_H
#define MODEL_NET_ADAPTER_H

#include "adapters/adapter.h"
#include "model/net.h"

/* What is added to the product of one weight: scale * B (A x). */
struct net_lora {
    struct dev_weight a; /* [rank][n_in] */
    struct dev_weight b; /* [n_out][rank]: the rows that belong to this weight, where the file has several in one */
    float scale;
    bool shares_a;       /* other weights with the same source have the same A */
};

struct net_adapter {
    const struct env *env;
    struct device *dev;
    int32_t kind;              /* enum adapter_kind */
    struct dev_buffer **parts; /* [n_parts] imported matrices */
    uint64_t n_parts;
    struct dev_buffer *own;    /* what could not be used in place */
    /* LORA */
    struct net_lora *loras;
    uint32_t n_loras, max_rank;
    uint32_t *at;              /* [n_layer][SLOT_LAYER_COUNT], then the output matrix: number in loras + 1; 0: none */
    /* STEERING */
    struct dev_ref *directions; /* [n_layer][2]: f32 [n_embd] as it is, and with length 1; absent: none */
    /* PREFIX */
    uint32_t n_rows;
    struct dev_ref rows;       /* f32 [n_layer][2][n_rows][n_head_kv * head_dim]: keys, values; in the order that the network's rope takes */
    uint64_t bytes;            /* of device memory that is its own */
};

/* data outlives it, and so does net. The device is the caller's alone. Errors name the tensor: MISSING (the base has no such matrix), SHAPE, VALUE (another
 * architecture, a layer beyond the last, a direction of length 0), UNSUPPORTED, NO_MEMORY. */
infer_status net_adapter_bind(const struct net *net, const struct infer_adapter *data, struct net_adapter **out, infer_error *err);
void net_adapter_free(struct net_adapter *a); /* may be NULL */

enum { NET_STEER_ADD, NET_STEER_PROJECT };

/* An adapter in force. */
struct net_adapter_use {
    const struct net_adapter *adapter;
    float strength; /* finite, not 0 */
    int32_t mode;   /* NET_STEER_* */
    uint32_t first_layer, end_layer; /* acts on layers [first, end); the output matrix counts as the last layer */
};

/* The LoRA of a weight of a layer (or with layer n_layer the output matrix), NULL: none. */
const struct net_lora *net_adapter_lora(const struct net *net, const struct net_adapter_use *u, uint32_t layer, enum slot slot);
/* The vector that is in force after a layer, as its mode needs it; absent: none. */
struct dev_ref net_adapter_direction(const struct net_adapter_use *u, uint32_t layer);

#endif
