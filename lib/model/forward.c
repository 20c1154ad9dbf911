#include "model/forward_pass.h"

#include "base/checked.h"

bool workspace_place(uint64_t *at, uint64_t *end, uint64_t rows, uint64_t width)
{
    uint64_t n;
    *at = *end;
    return checked_mul(rows, width, &n) && checked_mul(n, 4, &n) && checked_align(n, 64, &n) && checked_add(*end, n, end);
}

/* Floats of a row of g and u: of the widest feed-forward part that the model has. */
static uint64_t ff_width(const struct hparams *h)
{
    uint64_t n = !h->n_expert || h->n_dense ? h->n_ff : 0, experts = (uint64_t)h->n_expert_used * h->n_ff_exp;
    n = experts > n ? experts : n;
    return h->n_ff_shared > n ? h->n_ff_shared : n;
}

infer_status workspace_take(struct workspace *ws, struct workspace w, const struct net *net, uint64_t bytes, infer_error *err)
{
    w.buf = ws->buf;
    w.bytes = ws->bytes;
    w.routing = ws->routing;
    w.adapt = ws->adapt;
    if (bytes > ws->bytes) { /* what lies in it is not kept, so the old one goes first */
        net->dev->ops->free(net->dev, ws->buf);
        ws->buf = NULL;
        ws->bytes = 0;
        infer_status st = net->dev->ops->alloc(net->dev, bytes, &w.buf, err);
        if (st != INFER_OK)
            return st;
        w.bytes = bytes;
    }
    *ws = w;
    return INFER_OK;
}

/* Places everything for batches of so many rows; the bytes that takes. False: more than there are. */
static bool lay_out(struct workspace *w, const struct net *net, uint32_t rows, uint64_t *end)
{
    const struct hparams *h = &net->h;
    uint64_t q_width = (uint64_t)h->n_head * h->head_dim, kv_width = (uint64_t)h->n_head_kv * h->head_dim;
    uint64_t chosen = (uint64_t)rows * h->n_expert_used, ff = ff_width(h);
    *end = 0;
    return workspace_place(&w->x, end, rows, h->n_embd) && workspace_place(&w->h, end, rows, h->n_embd) &&
           workspace_place(&w->n, end, h->parallel ? rows : 0, h->n_embd) &&
           workspace_place(&w->q, end, rows, q_width) && workspace_place(&w->k, end, rows, kv_width) &&
           workspace_place(&w->v, end, rows, kv_width) && workspace_place(&w->a, end, rows, q_width) &&
           workspace_place(&w->g, end, rows, ff) && workspace_place(&w->u, end, rows, ff) &&
           workspace_place(&w->rope[0], end, rows, h->n_rot) && workspace_place(&w->rope[1], end, rows, h->n_rot) &&
           workspace_place(&w->picked, end, LOGIT_ROWS, h->n_embd) &&
           workspace_place(&w->tapped, end, LOGIT_ROWS, h->n_embd) && workspace_place(&w->logits, end, LOGIT_ROWS, h->n_logits) &&
           workspace_place(&w->experts, end, chosen, h->n_embd) &&
           workspace_place(&w->products, end, chosen ? rows : 0, h->n_expert + 1) &&
           workspace_place(&w->heads, end, h->kv_lora ? rows : 0, mla_heads_width(h)) &&
           workspace_place(&w->narrow, end, h->kv_lora ? rows : 0, mla_narrow_width(h));
}

infer_status workspace_fit(struct workspace *ws, const struct net *net, uint32_t rows, infer_error *err)
{
    struct workspace w = {0};
    uint64_t bytes;
    infer_status st = routing_fit(&ws->routing, net, rows, err);
    if (st != INFER_OK)
        return st;
    return lay_out(&w, net, rows, &bytes) ? workspace_take(ws, w, net, bytes, err) : err_no_memory(err);
}

uint64_t workspace_bytes(const struct net *net, uint32_t rows)
{
    struct workspace w = {0};
    uint64_t bytes;
    return lay_out(&w, net, rows, &bytes) ? bytes + routing_bytes(&net->h, rows) : UINT64_MAX;
}

void workspace_free(struct workspace *ws, struct device *dev)
{
    if (ws->buf)
        dev->ops->free(dev, ws->buf);
    if (ws->routing.alloc)
        mem_free(ws->routing.alloc, ws->routing.block);
    *ws = (struct workspace){0};
}

struct pass pass_of(const struct net *net, const struct workspace *ws, const struct batch *b)
{
#define AT(name) {ws->buf, ws->name}
    struct pass p = {.net = net, .h = &net->h, .dev = net->dev, .ops = net->dev->ops, .b = b, .x = AT(x), .hid = AT(h), .norm = AT(n),
                     .q = AT(q), .k = AT(k), .v = AT(v), .a = AT(a), .g = AT(g), .u = AT(u),
                     .rope = {AT(rope[0]), AT(rope[1])}, .picked = AT(picked), .tapped = AT(tapped), .logits = AT(logits),
                     .experts = AT(experts), .products = AT(products), .heads = AT(heads), .narrow = AT(narrow), .routing = &ws->routing,
                     .q_width = net->h.n_head * net->h.head_dim, .kv_width = net->h.n_head_kv * net->h.head_dim, .adapt = &ws->adapt};
#undef AT
    return p;
}

/* Every row is of the first segment. */
static void add_token_type(const struct pass *p)
{
    const uint32_t none[ENCODE_ROWS] = {0};
    uint64_t width = (uint64_t)p->h->n_embd * 4;
    for (uint32_t r = 0, n; r < p->b->n_row; r += n) {
        n = p->b->n_row - r < ENCODE_ROWS ? p->b->n_row - r : ENCODE_ROWS;
        p->ops->embed(p->dev, dev_at(p->x, r * width), &p->net->global[SLOT_TOKEN_TYPES], none, n, 1.0f, 1);
    }
}

void pass_embed(const struct pass *p)
{
    const struct batch *b = p->b;
    const struct dev_weight *global = p->net->global;
    p->ops->embed(p->dev, p->x, &global[SLOT_TOKEN_EMBD], b->ids, b->n_row, p->h->embed_scale, 0);
    for (uint32_t i = 0; i < b->n_embeddings; i++) {
        uint64_t width = (uint64_t)p->h->n_embd * 4;
        p->ops->write(p->dev, dev_at(p->x, b->embeddings[i].row * width), b->embeddings[i].data, width);
    }
    if (global[SLOT_TOKEN_TYPES].data.buf)
        add_token_type(p);
    if (p->net->arch->positions == POSITIONS_LEARNED)
        p->ops->embed(p->dev, p->x, &global[SLOT_POS_EMBD], b->positions, b->n_row, 1.0f, 1);
    else
        for (uint32_t group = 0; group < NET_LAYER_GROUPS; group++)
            if (p->net->group_layers[group])
                p->ops->rope_table(p->dev, p->rope[group], p->net->inv_freq[group], p->h->n_rot / 2, b->positions,
                                   b->n_row, p->net->rope_mscale[group]);
    if (global[SLOT_EMBD_NORM].data.buf)
        pass_norm(p, p->x, b->n_row, &global[SLOT_EMBD_NORM], &global[SLOT_EMBD_NORM_B]);
}

void pass_add_norm(const struct pass *p, struct dev_ref dst, struct dev_ref src, struct dev_ref add, uint32_t n_row,
                     const struct dev_weight *weight, const struct dev_weight *bias)
{
    uint32_t width = p->h->n_embd;
    p->ops->norm(p->dev, &(struct dev_norm){.kind = p->net->arch->norm, .dst = dst, .src = src, .add = add, .weight = weight->data,
                                            .bias = bias->data, .n_outer = n_row, .n_inner = 1, .width = width,
                                            .dst_stride = width, .src_stride = width, .eps = p->h->eps});
}

void pass_norm(const struct pass *p, struct dev_ref x, uint32_t n_row, const struct dev_weight *weight,
                 const struct dev_weight *bias)
{
    pass_add_norm(p, x, x, (struct dev_ref){0}, n_row, weight, bias);
}

struct dev_ref pass_input(const struct pass *p, uint32_t layer, enum slot norm, enum slot bias, struct dev_ref dst, struct dev_ref add)
{
    const struct dev_weight *w = net_layer(p->net, layer, norm);
    if (w->data.buf)
        pass_add_norm(p, dst, p->x, add, p->b->n_row, w, net_layer(p->net, layer, bias));
    else if (add.buf)
        p->ops->add(p->dev, p->x, add, (uint64_t)p->b->n_row * p->h->n_embd);
    return w->data.buf ? dst : p->x;
}

void pass_output(const struct pass *p, uint32_t layer, enum slot post_norm)
{
    const struct dev_weight *post = net_layer(p->net, layer, post_norm);
    if (post->data.buf)
        pass_norm(p, p->hid, p->b->n_row, post, &(struct dev_weight){0});
    if (p->h->residual_scale != 1.0f)
        p->ops->scale(p->dev, p->hid, (uint64_t)p->b->n_row * p->h->n_embd, p->h->residual_scale);
}

void pass_multiply(const struct pass *p, uint32_t layer, struct dev_ref src, uint32_t src_stride,
                   const struct product *products, uint32_t n)
{
    struct dev_matmul ops[PASS_PRODUCTS];
    for (uint32_t i = 0; i < n; i++)
        ops[i] = (struct dev_matmul){.w = *net_layer(p->net, layer, products[i].weight),
                                     .bias = net_layer(p->net, layer, products[i].bias)->data, .dst = products[i].dst,
                                     .dst_stride = products[i].dst_stride};
    pass_adapt(p, layer, src, src_stride, products, ops, n);
    p->ops->matmul(p->dev, src, src_stride, p->b->n_row, ops, n);
}

/* Logits of `n` wanted rows, from number `first` of them. */
static void head(const struct pass *p, uint32_t first, uint32_t n)
{
    const struct net *net = p->net;
    uint64_t n_logits = p->h->n_logits;
    p->ops->gather(p->dev, p->picked, p->x, p->b->out_rows + first, n, p->h->n_embd);
    pass_norm(p, p->picked, n, &net->global[SLOT_OUT_NORM], &net->global[SLOT_OUT_NORM_B]);
    struct dev_matmul out = {.w = net->global[SLOT_OUTPUT], .dst = p->logits, .dst_stride = (uint32_t)n_logits};
    pass_adapt_output(p, p->picked, p->b->out_rows + first, n, &out);
    p->ops->matmul(p->dev, p->picked, p->h->n_embd, n, &out, 1);
    if (p->h->logit_scale != 1.0f)
        p->ops->scale(p->dev, p->logits, n * n_logits, p->h->logit_scale);
    if (p->h->final_softcap != 0)
        p->ops->softcap(p->dev, p->logits, n * n_logits, p->h->final_softcap);
    p->ops->read_rows(p->dev, p->b->out + first, p->logits, n, (uint32_t)n_logits, p->b->finite + first);
}

/* Up to LOGIT_ROWS rows of a tap: x + hid, what the residual stream is when the layer is done; or that behind the final norm. */
static void read_tap_rows(const struct pass *p, struct batch_tap *tap, uint32_t first, uint32_t n, uint32_t column, bool final)
{
    uint64_t width = p->h->n_embd;
    float *out[LOGIT_ROWS];
    bool finite[LOGIT_ROWS] = {false};
    for (uint32_t i = 0; i < n; i++)
        out[i] = tap->out + ((uint64_t)(first + i) * tap->n_place + column) * width;
    p->ops->gather(p->dev, p->picked, p->x, tap->rows + first, n, p->h->n_embd);
    p->ops->gather(p->dev, p->tapped, p->hid, tap->rows + first, n, p->h->n_embd);
    p->ops->add(p->dev, p->picked, p->tapped, n * width);
    if (final)
        pass_norm(p, p->picked, n, &p->net->global[SLOT_OUT_NORM], &p->net->global[SLOT_OUT_NORM_B]);
    p->ops->read_rows(p->dev, out, p->picked, n, p->h->n_embd, finite);
    for (uint32_t i = 0; i < n; i++)
        tap->finite = tap->finite && finite[i];
}

static void read_taps(const struct pass *p, int32_t place)
{
    for (uint32_t t = 0; t < p->b->n_tap; t++) {
        struct batch_tap *tap = &p->b->taps[t];
        for (uint32_t column = 0; column < tap->n_place; column++)
            for (uint32_t r = 0; r < tap->n_row && tap->places[column] == place; r += LOGIT_ROWS)
                read_tap_rows(p, tap, r, tap->n_row - r < LOGIT_ROWS ? tap->n_row - r : LOGIT_ROWS, column,
                              place == INFER_HIDDEN_FINAL);
    }
}

infer_status forward(const struct net *net, struct workspace *ws, const struct batch *b, infer_error *err)
{
    struct pass p = pass_of(net, ws, b);
    infer_status st;
    for (uint32_t t = 0; t < b->n_tap; t++)
        b->taps[t].finite = true;
    pass_embed(&p);
    for (uint32_t layer = 0; layer < net->h.n_layer; layer++) {
        pass_project(&p, layer);
        pass_attend(&p, layer);
        st = pass_feed_forward(&p, layer, err);
        if (st != INFER_OK)
            return st;
        pass_steer(&p, layer);
        read_taps(&p, (int32_t)layer);
    }
    read_taps(&p, INFER_HIDDEN_FINAL);
    if (b->n_out)
        p.ops->add(p.dev, p.x, p.hid, (uint64_t)b->n_row * net->h.n_embd);
    for (uint32_t first = 0; first < b->n_out; first += LOGIT_ROWS)
        head(&p, first, b->n_out - first < LOGIT_ROWS ? b->n_out - first : LOGIT_ROWS);
    return net->dev->ops->sync(net->dev, err);
}
