/* The experts' part of a layer. The router's products come to the host, which chooses; then the rows of the batch are laid out expert by expert, each
 * expert that is used multiplies its rows, and each row's results are added by rank. So a weight is read once for all rows of the batch that use it, and
 * what a row gets depends on that row alone. */
#include <string.h>

#include "base/checked.h"
#include "model/forward_pass.h"
#include "model/router.h"

/* Takes n items of `size` bytes from the block; with a NULL block it counts. */
static void *take(char *block, size_t *end, uint64_t n, size_t size)
{
    size_t at = *end;
    *end = (at + (size_t)n * size + 63) & ~(size_t)63;
    return block ? block + at : NULL;
}

static size_t lay_out(struct routing *r, const struct hparams *h, uint32_t rows, char *block)
{
    size_t end = 0;
    uint64_t chosen = (uint64_t)rows * h->n_expert_used;
    r->products = take(block, &end, rows, (h->n_expert + 1) * sizeof *r->products);
    r->weights = take(block, &end, chosen, sizeof *r->weights);
    r->shared = take(block, &end, rows, sizeof *r->shared);
    r->place = take(block, &end, chosen, sizeof *r->place);
    r->row_of = take(block, &end, chosen, sizeof *r->row_of);
    r->parts = take(block, &end, 2ull * h->n_expert, sizeof *r->parts);
    r->chosen = take(block, &end, chosen * h->n_layer, sizeof *r->chosen);
    return end;
}

infer_status routing_fit(struct routing *r, const struct net *net, uint32_t rows, infer_error *err)
{
    struct routing w = *r;
    if (!net->h.n_expert)
        return INFER_OK;
    size_t bytes = lay_out(&w, &net->h, rows, NULL); /* rows: at most some hundreds; the rest has limits: no overflow */
    if (bytes > r->bytes) {
        if (r->alloc) /* what lies in it is not kept */
            mem_free(r->alloc, r->block);
        *r = (struct routing){0};
        w.block = mem_alloc_aligned(&net->env->alloc, bytes, 64);
        if (!w.block)
            return err_no_memory(err);
        w.alloc = &net->env->alloc;
        w.bytes = bytes;
    }
    (void)lay_out(&w, &net->h, rows, w.block);
    w.rows = rows;
    *r = w;
    return INFER_OK;
}

uint64_t routing_bytes(const struct hparams *h, uint32_t rows)
{
    struct routing w;
    return h->n_expert ? lay_out(&w, h, rows, NULL) + 64 : 0;
}

static bool shared_is_weighed(const struct pass *p, uint32_t layer)
{
    return net_layer(p->net, layer, SLOT_SHARED_ROUTER)->data.buf != NULL;
}

/* The router's products of all rows, on the host; behind a row's the one that weighs the shared expert. */
static infer_status route(const struct pass *p, uint32_t layer, uint32_t width, infer_error *err)
{
    uint32_t n_expert = p->h->n_expert;
    struct product router[2] = {{SLOT_ROUTER, SLOT_NONE, p->products, width},
                                {SLOT_SHARED_ROUTER, SLOT_NONE, dev_at(p->products, n_expert * 4ull), width}};
    pass_multiply(p, layer, p->hid, p->h->n_embd, router, width - n_expert + 1);
    p->ops->read(p->dev, p->routing->products, p->products, (uint64_t)p->b->n_row * width * sizeof(float));
    return p->ops->sync(p->dev, err);
}

/* The experts of each row, and their weights. */
static void choose(const struct pass *p, uint32_t layer, uint32_t width, uint16_t *chosen)
{
    const struct routing *r = p->routing;
    for (uint32_t row = 0; row < p->b->n_row; row++) {
        const float *products = r->products + (size_t)row * width;
        size_t at = (size_t)row * p->h->n_expert_used;
        router_choose(p->h, products, p->net->layers[layer].experts->bias, chosen + at, r->weights + at);
        if (width > p->h->n_expert)
            r->shared[row] = router_sigmoid(products[p->h->n_expert]);
    }
}

/* Lays the rows out expert by expert: place and row_of. first[e]: the first row of expert e, first[n_expert]: their number. */
static void group_rows(const struct pass *p, const uint16_t *chosen, uint32_t *first)
{
    uint32_t n = p->b->n_row * p->h->n_expert_used, next[MODEL_MAX_EXPERTS];
    memset(first, 0, (p->h->n_expert + 1) * sizeof *first);
    for (uint32_t i = 0; i < n; i++)
        first[chosen[i] + 1]++;
    for (uint32_t e = 0; e < p->h->n_expert; e++) {
        first[e + 1] += first[e];
        next[e] = first[e];
    }
    for (uint32_t i = 0; i < n; i++) {
        p->routing->place[i] = next[chosen[i]]++;
        p->routing->row_of[p->routing->place[i]] = i / p->h->n_expert_used;
    }
}

/* Tells the device which experts come, so that what is not in memory yet is fetched together: once each, or, where the model is larger than
 * the memory that could keep it, every time. */
static void announce(const struct pass *p, uint32_t layer, const uint32_t *first)
{
    struct experts *x = p->net->layers[layer].experts;
    for (uint32_t e = 0; e < p->h->n_expert; e++) {
        if (first[e] == first[e + 1] || (x->each[e].announced && !p->net->is_large))
            continue;
        x->each[e].announced = true;
        const struct dev_weight *w[3] = {&x->each[e].gate, &x->each[e].up, &x->each[e].down};
        for (int i = 0; i < 3; i++)
            p->ops->will_need(p->dev, w[i]->data, w[i]->n_out * w[i]->row_bytes);
    }
}

static uint32_t add_part(struct dev_part *parts, uint32_t n, const struct dev_weight *w, struct dev_ref dst, uint32_t row, uint32_t n_row)
{
    parts[n] = (struct dev_part){.w = *w, .dst = dev_at(dst, (uint64_t)row * w->n_out * 4), .dst_stride = w->n_out, .first_row = row, .n_row = n_row};
    return n + 1;
}

/* down(act(gate x) * up x) of every expert that is used, to p->experts [rows * n_expert_used][n_embd]. */
static void run_experts(const struct pass *p, uint32_t layer, const uint32_t *first)
{
    const struct hparams *h = p->h;
    const struct expert *each = p->net->layers[layer].experts->each;
    struct dev_part *parts = p->routing->parts;
    uint32_t total = first[h->n_expert], n = 0;
    p->ops->gather(p->dev, p->experts, p->hid, p->routing->row_of, total, h->n_embd);
    struct dev_rows src = {.src = p->experts, .n_group = 1, .n_row = total, .row_stride = h->n_embd};
    for (uint32_t e = 0; e < h->n_expert; e++)
        if (first[e + 1] > first[e]) {
            n = add_part(parts, n, &each[e].gate, p->g, first[e], first[e + 1] - first[e]);
            n = add_part(parts, n, &each[e].up, p->u, first[e], first[e + 1] - first[e]);
        }
    p->ops->matmul_parts(p->dev, &src, parts, n);
    p->ops->act(p->dev, p->net->arch->act, p->u, p->g, p->u, total, h->n_ff_exp, h->n_ff_exp);
    src = (struct dev_rows){.src = p->u, .n_group = 1, .n_row = total, .row_stride = h->n_ff_exp};
    n = 0;
    for (uint32_t e = 0; e < h->n_expert; e++)
        if (first[e + 1] > first[e])
            n = add_part(parts, n, &each[e].down, p->experts, first[e], first[e + 1] - first[e]);
    p->ops->matmul_parts(p->dev, &src, parts, n);
}

/* hid = the shared expert of hid, before its weight. */
static void run_shared(const struct pass *p, uint32_t layer)
{
    uint32_t n_ff = p->h->n_ff_shared;
    struct product in[2] = {{SLOT_SHARED_UP, SLOT_NONE, p->u, n_ff}, {SLOT_SHARED_GATE, SLOT_NONE, p->g, n_ff}};
    pass_multiply(p, layer, p->hid, p->h->n_embd, in, 2);
    p->ops->act(p->dev, p->net->arch->act, p->u, p->g, p->u, p->b->n_row, n_ff, n_ff);
    pass_multiply(p, layer, p->u, n_ff, &(struct product){SLOT_SHARED_DOWN, SLOT_NONE, p->hid, p->h->n_embd}, 1);
}

infer_status pass_experts(const struct pass *p, uint32_t layer, infer_error *err)
{
    const struct hparams *h = p->h;
    const struct routing *r = p->routing;
    uint32_t first[MODEL_MAX_EXPERTS + 1];
    uint16_t *chosen = r->chosen + (size_t)layer * r->rows * h->n_expert_used;
    bool weighed = shared_is_weighed(p, layer);
    infer_status st = route(p, layer, h->n_expert + weighed, err);
    if (st != INFER_OK)
        return st;
    choose(p, layer, h->n_expert + weighed, chosen);
    group_rows(p, chosen, first);
    announce(p, layer, first);
    run_experts(p, layer, first);
    if (h->n_ff_shared)
        run_shared(p, layer);
    p->ops->combine(p->dev, &(struct dev_combine){.dst = p->hid, .src = p->experts, .n_row = p->b->n_row, .n_each = h->n_expert_used,
                                                  .width = h->n_embd, .rows = r->place, .weights = r->weights,
                                                  .add = h->n_ff_shared != 0, .dst_weights = weighed ? r->shared : NULL});
    return INFER_OK;
}
