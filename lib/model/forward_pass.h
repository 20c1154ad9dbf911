/* One forward pass as its parts see it: the activations and the steps that several parts share. Private to forward*.c. */
#ifndef MODEL_FORWARD_PASS_H
#define MODEL_FORWARD_PASS_H

#include "model/forward.h"

/* x: the residual stream. hid: what the part before left to be added to it. norm: what both parts of a parallel layer read. All f32
 * [n_row][width]. */
struct pass {
    const struct net *net;
    const struct hparams *h;
    struct device *dev;
    const struct device_ops *ops;
    const struct batch *b;
    struct dev_ref x, hid, norm, q, k, v, a, g, u, rope[NET_LAYER_GROUPS], picked, tapped, logits, experts, products, heads, narrow;
    const struct routing *routing;
    uint32_t q_width, kv_width;
    const struct adapter_workspace *adapt;
};

/* Putting a workspace together: one f32 matrix behind another, each at a multiple of 64 bytes; then ws takes over w, with room for `bytes`. */
bool workspace_place(uint64_t *at, uint64_t *end, uint64_t rows, uint64_t width);
infer_status workspace_take(struct workspace *ws, struct workspace w, const struct net *net, uint64_t bytes, infer_error *err);
struct pass pass_of(const struct net *net, const struct workspace *ws, const struct batch *b);

/* x = embeddings of the batch's rows, and the tables of rope. */
void pass_embed(const struct pass *p);

/* dst = norm(src) over rows of n_embd; dst may be src. With add: src += add first. */
void pass_add_norm(const struct pass *p, struct dev_ref dst, struct dev_ref src, struct dev_ref add, uint32_t n_row,
                   const struct dev_weight *weight, const struct dev_weight *bias);
void pass_norm(const struct pass *p, struct dev_ref x, uint32_t n_row, const struct dev_weight *weight,
               const struct dev_weight *bias);

/* What a part of a layer reads: norm(x) in dst, or x itself where the layer has no such norm; after x += add, unless that is absent. */
struct dev_ref pass_input(const struct pass *p, uint32_t layer, enum slot norm, enum slot bias, struct dev_ref dst, struct dev_ref add);
/* Does the feed-forward part read what attention reads? */
static inline bool pass_is_parallel(const struct pass *p, uint32_t layer)
{
    return p->h->parallel && !net_layer(p->net, layer, SLOT_FFN_NORM)->data.buf;
}
/* What a part did to hid when its products are done: the post norm, if there is one, and the residual scale. */
void pass_output(const struct pass *p, uint32_t layer, enum slot post_norm);

#define PASS_PRODUCTS 3u

/* One weight of a layer and where its product goes. */
struct product {
    enum slot weight, bias; /* of an architecture without biases: a slot that no tensor fills */
    struct dev_ref dst;
    uint32_t dst_stride;
};

/* The products of the batch's rows of src [n_row][src_stride] with n weights (at most PASS_PRODUCTS) of one layer. */
void pass_multiply(const struct pass *p, uint32_t layer, struct dev_ref src, uint32_t src_stride,
                   const struct product *products, uint32_t n);

/* forward_adapter.c: gives ops, the products to come of src with n weights of a layer, what the batch's adapters add to them. */
void pass_adapt(const struct pass *p, uint32_t layer, struct dev_ref src, uint32_t src_stride, const struct product *products,
                struct dev_matmul *ops, uint32_t n);
/* Of the output matrix: its row i is row rows[i] of the batch. */
void pass_adapt_output(const struct pass *p, struct dev_ref src, const uint32_t *rows, uint32_t n, struct dev_matmul *op);
/* After a layer: x + hid of the rows that are steered there changes. */
void pass_steer(const struct pass *p, uint32_t layer);

/* hid = attention(norm(x)), after x += hid of the layer before: whoever reads x next adds hid to it first. Where norms come behind (arch.post_norm),
 * hid = attention(x). Two steps, so that keys and values of all elements can be there before any is attended to: */
void pass_project(const struct pass *p, uint32_t layer); /* q; keys and values to the pages */
void pass_attend(const struct pass *p, uint32_t layer);  /* hid */
/* x += hid; hid = feed_forward(norm(x)). Where norms come behind: x = norm(x + hid); x = norm(x + feed_forward(x)). Fails only where experts are chosen,
 * which waits for the device. */
infer_status pass_feed_forward(const struct pass *p, uint32_t layer, infer_error *err);
/* hid = the experts' part of a layer, of hid. */
infer_status pass_experts(const struct pass *p, uint32_t layer, infer_error *err);

/* Room for the routing of `rows` rows; forward_moe.c. */
infer_status routing_fit(struct routing *r, const struct net *net, uint32_t rows, infer_error *err);
uint64_t routing_bytes(const struct hparams *h, uint32_t rows);

/* The parts of latent attention: from `in` to q and k; and from a to hid. Floats of a row of `heads` and of `narrow`, what is between. */
void mla_project(const struct pass *p, uint32_t layer, struct dev_ref in);
void mla_output(const struct pass *p, uint32_t layer);
uint32_t mla_heads_width(const struct hparams *h);
uint32_t mla_narrow_width(const struct hparams *h);

#endif
