/* Binding tensors to slots: what net.c and its parts share. Private to net*.c. */
#ifndef MODEL_NET_BIND_H
#define MODEL_NET_BIND_H

#include "model/net.h"

#define NAME_MAX_LEN 96

/* What binding needs at hand. */
struct binder {
    struct net *net;
    const struct infer_file *file;
    float *own;          /* host copy of net->own while it is put together */
    uint64_t own_n, own_cap; /* floats */
    infer_error *err;
};

struct shape {
    uint64_t rows, width; /* rows 1 and vector: a vector of `width` */
    bool vector;
};

struct shape shape_wanted(const struct hparams *h, enum slot slot);
infer_status tensor_error(const struct binder *b, infer_status st, const char *name, size_t len, const char *why);
/* Rows [first, first + rows) of a tensor whose shape has been checked, counted through all its dimensions. */
infer_status bind_matrix(struct binder *b, const struct file_tensor *t, uint64_t first, uint64_t rows, struct dev_weight *w);

/* The slots from SLOT_ROUTER_BIAS on, of a layer with experts (net_experts.c). */
infer_status bind_expert_slot(struct binder *b, const struct slot_name *sn, uint32_t layer);

/* SLOT_MLA_K to SLOT_MLA_KV (net_mla.c). */
infer_status bind_mla_slot(struct binder *b, const struct slot_name *sn, uint32_t layer);

#endif
