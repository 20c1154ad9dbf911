#include "model/forward.h"

#include "base/checked.h"

/* Lays one f32 matrix after another, each at a multiple of 64 bytes. */
static bool place(uint64_t *at, uint64_t *end, uint64_t rows, uint64_t width)
{
    uint64_t n;
    *at = *end;
    return checked_mul(rows, width, &n) && checked_mul(n, 4, &n) && checked_align(n, 64, &n) && checked_add(*end, n, end);
}

infer_status workspace_fit(struct workspace *ws, const struct net *net, uint32_t rows, infer_error *err)
{
    const struct hparams *h = &net->h;
    struct workspace w = {0};
    uint64_t end = 0, q_width = (uint64_t)h->n_head * h->head_dim, kv_width = (uint64_t)h->n_head_kv * h->head_dim;
    bool ok = place(&w.x, &end, rows, h->n_embd) && place(&w.h, &end, rows, h->n_embd) &&
              place(&w.q, &end, rows, q_width) && place(&w.k, &end, rows, kv_width) &&
              place(&w.v, &end, rows, kv_width) && place(&w.a, &end, rows, q_width) &&
              place(&w.g, &end, rows, h->n_ff) && place(&w.u, &end, rows, h->n_ff) &&
              place(&w.rope[0], &end, rows, h->n_rot) && place(&w.rope[1], &end, rows, h->n_rot) &&
              place(&w.picked, &end, LOGIT_ROWS, h->n_embd) && place(&w.logits, &end, LOGIT_ROWS, h->n_logits);
    if (!ok)
        return err_no_memory(err);
    w.buf = ws->buf;
    w.bytes = ws->bytes;
    if (end > ws->bytes) {
        struct dev_buffer *buf;
        infer_status st = net->dev->ops->alloc(net->dev, end, &buf, err);
        if (st != INFER_OK)
            return st;
        net->dev->ops->free(net->dev, ws->buf);
        w.buf = buf;
        w.bytes = end;
    }
    *ws = w;
    return INFER_OK;
}

void workspace_free(struct workspace *ws, struct device *dev)
{
    if (ws->buf)
        dev->ops->free(dev, ws->buf);
    *ws = (struct workspace){0};
}

/* What the steps of one pass share. */
struct pass {
    const struct net *net;
    const struct hparams *h;
    struct device *dev;
    const struct device_ops *ops;
    const struct batch *b;
    struct dev_ref x, hid, q, k, v, a, g, u, rope[NET_LAYER_GROUPS], picked, logits;
    uint32_t q_width, kv_width;
};

static struct pass pass_of(const struct net *net, const struct workspace *ws, const struct batch *b)
{
#define AT(name) {ws->buf, ws->name}
    struct pass p = {.net = net, .h = &net->h, .dev = net->dev, .ops = net->dev->ops, .b = b, .x = AT(x), .hid = AT(h),
                     .q = AT(q), .k = AT(k), .v = AT(v), .a = AT(a), .g = AT(g), .u = AT(u),
                     .rope = {AT(rope[0]), AT(rope[1])}, .picked = AT(picked), .logits = AT(logits),
                     .q_width = net->h.n_head * net->h.head_dim, .kv_width = net->h.n_head_kv * net->h.head_dim};
#undef AT
    return p;
}

static void embed(const struct pass *p)
{
    const struct batch *b = p->b;
    p->ops->embed(p->dev, p->x, &p->net->global[SLOT_TOKEN_EMBD], b->ids, b->n_row, p->h->embed_scale, 0);
    for (uint32_t i = 0; i < b->n_embeddings; i++) {
        uint64_t width = (uint64_t)p->h->n_embd * 4;
        p->ops->write(p->dev, dev_at(p->x, b->embeddings[i].row * width), b->embeddings[i].data, width);
    }
    if (p->net->arch->positions == POSITIONS_LEARNED)
        p->ops->embed(p->dev, p->x, &p->net->global[SLOT_POS_EMBD], b->positions, b->n_row, 1.0f, 1);
    else
        for (uint32_t group = 0; group < NET_LAYER_GROUPS; group++)
            if (p->net->group_layers[group])
                p->ops->rope_table(p->dev, p->rope[group], p->net->inv_freq[group], p->h->n_rot / 2, b->positions,
                                   b->n_row, p->net->rope_mscale[group]);
}

/* dst = norm(src) over rows of n_embd; dst may be src. With add: src += add first. */
static void add_norm(const struct pass *p, struct dev_ref dst, struct dev_ref src, struct dev_ref add, uint32_t n_row,
                     const struct dev_weight *weight, const struct dev_weight *bias)
{
    uint32_t width = p->h->n_embd;
    p->ops->norm(p->dev, &(struct dev_norm){.kind = p->net->arch->norm, .dst = dst, .src = src, .add = add, .weight = weight->data,
                                            .bias = bias->data, .n_outer = n_row, .n_inner = 1, .width = width,
                                            .dst_stride = width, .src_stride = width, .eps = p->h->eps});
}

static void norm(const struct pass *p, struct dev_ref x, uint32_t n_row, const struct dev_weight *weight,
                 const struct dev_weight *bias)
{
    add_norm(p, x, x, (struct dev_ref){0}, n_row, weight, bias);
}

static struct dev_matmul product(const struct net *net, uint32_t layer, enum slot w, enum slot bias, struct dev_ref dst,
                                 uint32_t dst_stride)
{
    return (struct dev_matmul){*net_layer(net, layer, w), net_layer(net, layer, bias)->data, dst, dst_stride};
}

/* QK norm and rope of the heads in x [n_row][n_head][head_dim]. */
static void prepare_heads(const struct pass *p, uint32_t layer, struct dev_ref x, uint32_t n_head, enum slot norm_slot)
{
    const struct dev_weight *w = net_layer(p->net, layer, norm_slot);
    uint32_t width = n_head * p->h->head_dim;
    if (w->data.buf)
        p->ops->norm(p->dev, &(struct dev_norm){.kind = p->net->arch->norm, .dst = x, .src = x, .weight = w->data,
                                                .n_outer = p->b->n_row, .n_inner = n_head, .width = p->h->head_dim,
                                                .dst_stride = width, .src_stride = width, .eps = p->h->eps});
    if (p->net->arch->positions == POSITIONS_ROPE)
        p->ops->rope(p->dev, &(struct dev_rope){.kind = p->net->arch->rope, .x = x,
                                                .table = p->rope[p->net->layers[layer].group], .n_row = p->b->n_row,
                                                .n_head = n_head, .head_dim = p->h->head_dim, .n_rot = p->h->n_rot,
                                                .stride = width});
}

/* What a layer of a mixed session keeps beside its int8. */
static struct dev_exact exact_of(const struct pass *p, uint32_t layer)
{
    const struct batch *b = p->b;
    if (!net_kv_is_mixed(b->kv_type))
        return (struct dev_exact){.pages = NULL};
    return (struct dev_exact){net_kv(p->net, b->kv_type, layer, true), b->seqs[NET_KV_EXACT(p->net->layers[layer].group)],
                              b->exact_pages};
}

/* hid = attention(norm(x)), after x += hid of the layer before: whoever reads x next adds hid to it first. */
static void attention_block(const struct pass *p, uint32_t layer)
{
    const struct net *net = p->net;
    const struct batch *b = p->b;
    uint32_t group = net->layers[layer].group;
    struct dev_kv kv = net_kv(net, b->kv_type, layer, false);
    struct dev_exact exact = exact_of(p, layer);
    add_norm(p, p->hid, p->x, layer ? p->hid : (struct dev_ref){0}, b->n_row, net_layer(net, layer, SLOT_ATTN_NORM),
             net_layer(net, layer, SLOT_ATTN_NORM_B));
    struct dev_matmul qkv[3] = {product(net, layer, SLOT_Q, SLOT_Q_B, p->q, p->q_width),
                                product(net, layer, SLOT_K, SLOT_K_B, p->k, p->kv_width),
                                product(net, layer, SLOT_V, SLOT_V_B, p->v, p->kv_width)};
    p->ops->matmul(p->dev, p->hid, p->h->n_embd, b->n_row, qkv, 3);
    prepare_heads(p, layer, p->q, p->h->n_head, SLOT_Q_NORM);
    prepare_heads(p, layer, p->k, p->h->n_head_kv, SLOT_K_NORM);
    p->ops->kv_write(p->dev, &kv, p->k, p->kv_width, p->v, p->kv_width, b->seqs[group], b->n_seq);
    if (exact.pages)
        p->ops->kv_write(p->dev, &exact.kv, p->k, p->kv_width, p->v, p->kv_width, exact.seqs, b->n_seq);
    p->ops->attention(p->dev, &(struct dev_attention){.dst = p->a, .q = p->q, .q_stride = p->q_width,
                                                      .dst_stride = p->q_width, .n_head = p->h->n_head,
                                                      .scale = p->h->attn_scale, .softcap = p->h->attn_softcap,
                                                      .kv = kv, .seqs = b->seqs[group], .n_seq = b->n_seq,
                                                      .lo = b->lo[group], .hi = b->hi, .exact = exact});
    struct dev_matmul out = product(net, layer, SLOT_ATTN_OUT, SLOT_ATTN_OUT_B, p->hid, p->h->n_embd);
    p->ops->matmul(p->dev, p->a, p->q_width, b->n_row, &out, 1);
    const struct dev_weight *post = net_layer(net, layer, SLOT_ATTN_POST_NORM);
    if (post->data.buf)
        norm(p, p->hid, b->n_row, post, &(struct dev_weight){0});
}

/* x += hid; hid = feed_forward(norm(x)) */
static void feed_forward_block(const struct pass *p, uint32_t layer)
{
    const struct net *net = p->net;
    uint32_t n_row = p->b->n_row, n_ff = p->h->n_ff;
    add_norm(p, p->hid, p->x, p->hid, n_row, net_layer(net, layer, SLOT_FFN_NORM), net_layer(net, layer, SLOT_FFN_NORM_B));
    struct dev_matmul in[2] = {product(net, layer, SLOT_UP, SLOT_UP_B, p->u, n_ff),
                               product(net, layer, SLOT_GATE, SLOT_GATE_B, p->g, n_ff)};
    if (net->arch->gated) {
        p->ops->matmul(p->dev, p->hid, p->h->n_embd, n_row, in, 2);
        p->ops->act(p->dev, net->arch->act, p->u, p->g, p->u, n_row, n_ff, n_ff);
    } else {
        p->ops->matmul(p->dev, p->hid, p->h->n_embd, n_row, in, 1);
        p->ops->act(p->dev, net->arch->act, p->u, p->u, (struct dev_ref){0}, n_row, n_ff, n_ff);
    }
    struct dev_matmul down = product(net, layer, SLOT_DOWN, SLOT_DOWN_B, p->hid, p->h->n_embd);
    p->ops->matmul(p->dev, p->u, n_ff, n_row, &down, 1);
    const struct dev_weight *post = net_layer(net, layer, SLOT_FFN_POST_NORM);
    if (post->data.buf)
        norm(p, p->hid, n_row, post, &(struct dev_weight){0});
}

/* Logits of `n` wanted rows, from number `first` of them. */
static void head(const struct pass *p, uint32_t first, uint32_t n)
{
    const struct net *net = p->net;
    uint64_t n_logits = p->h->n_logits;
    p->ops->gather(p->dev, p->picked, p->x, p->b->out_rows + first, n, p->h->n_embd);
    norm(p, p->picked, n, &net->global[SLOT_OUT_NORM], &net->global[SLOT_OUT_NORM_B]);
    struct dev_matmul out = {net->global[SLOT_OUTPUT], {0}, p->logits, (uint32_t)n_logits};
    p->ops->matmul(p->dev, p->picked, p->h->n_embd, n, &out, 1);
    if (p->h->logit_scale != 1.0f)
        p->ops->scale(p->dev, p->logits, n * n_logits, p->h->logit_scale);
    if (p->h->final_softcap != 0)
        p->ops->softcap(p->dev, p->logits, n * n_logits, p->h->final_softcap);
    p->ops->read_rows(p->dev, p->b->out + first, p->logits, n, (uint32_t)n_logits, p->b->finite + first);
}

infer_status forward(const struct net *net, struct workspace *ws, const struct batch *b, const infer_cancel *cancel,
                     infer_error *err)
{
    struct pass p = pass_of(net, ws, b);
    infer_status st;
    embed(&p);
    for (uint32_t layer = 0; layer < net->h.n_layer; layer++) {
        if (cancel_is_set(cancel)) {
            (void)net->dev->ops->sync(net->dev, NULL);
            return err_set(err, INFER_ERROR_CANCELLED, "cancelled");
        }
        attention_block(&p, layer);
        feed_forward_block(&p, layer);
    }
    if (b->n_out)
        p.ops->add(p.dev, p.x, p.hid, (uint64_t)b->n_row * net->h.n_embd);
    for (uint32_t first = 0; first < b->n_out; first += LOGIT_ROWS)
        head(&p, first, b->n_out - first < LOGIT_ROWS ? b->n_out - first : LOGIT_ROWS);
    st = net->dev->ops->sync(net->dev, err);
    return st;
}
