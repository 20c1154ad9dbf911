/* Adapters in the forward pass. A batch's rows come in runs that have the same adapters in force; what a run adds to its rows depends on nothing
 * else in the batch. LoRA: for the products of one source, all runs' t = scale * A x are made in one call, and B t is added to each product by
 * the device while that is being made. Steering: the run's rows of the residual stream change after the layer. */
#include "model/forward_pass.h"

#include "base/checked.h"

/* What a run's adapters take of a row of t: for each product the ranks of all. */
static uint64_t run_width(const struct batch_run *r)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < r->n_uses; i++)
        n += r->uses[i].adapter->max_rank;
    return n * PASS_PRODUCTS;
}

static infer_status fit_lists(struct adapter_workspace *w, const struct alloc *a, uint64_t n, infer_error *err)
{
    if (n <= w->room)
        return INFER_OK;
    struct dev_matmul *ops = n > SIZE_MAX ? NULL : mem_array(a, (size_t)n, sizeof *ops);
    struct dev_addend *addends = n > SIZE_MAX ? NULL : mem_array(a, (size_t)n, sizeof *addends);
    if (!ops || !addends) {
        mem_free(a, ops);
        mem_free(a, addends);
        return err_no_memory(err);
    }
    mem_free(a, w->ops);
    mem_free(a, w->addends);
    w->ops = ops;
    w->addends = addends;
    w->room = n;
    return INFER_OK;
}

infer_status adapter_workspace_fit(struct adapter_workspace *w, const struct net *net, const struct batch *b, infer_error *err)
{
    uint64_t width = 0, uses = 0, bytes;
    for (uint32_t i = 0; i < b->n_runs; i++) {
        uint64_t n = run_width(&b->runs[i]);
        width = n > width ? n : width;
        uses += b->runs[i].n_uses;
    }
    if (!uses)
        return INFER_OK;
    width = (width + 15) / 16 * 16;
    if (width > UINT32_MAX || !checked_mul(width * 4, b->n_row, &bytes))
        return err_no_memory(err);
    infer_status st = fit_lists(w, &net->env->alloc, uses * PASS_PRODUCTS, err);
    w->stride = (uint32_t)width;
    if (st != INFER_OK || bytes <= w->bytes)
        return st;
    struct dev_buffer *t;
    st = net->dev->ops->alloc(net->dev, bytes, &t, err);
    if (st != INFER_OK)
        return st;
    net->dev->ops->free(net->dev, w->t);
    w->t = t;
    w->bytes = bytes;
    return INFER_OK;
}

void adapter_workspace_free(struct adapter_workspace *w, struct device *dev, const struct alloc *a)
{
    dev->ops->free(dev, w->t);
    mem_free(a, w->ops);
    mem_free(a, w->addends);
    *w = (struct adapter_workspace){0};
}

/* The products of one source that adapters add to. */
struct site {
    const struct pass *p;
    uint32_t layer;
    const struct batch_run *runs;
    uint32_t n_runs;
    uint32_t n_first;   /* products t = scale * A x so far, in w->ops */
    uint32_t n_addends; /* in w->addends */
};

/* The column of t where A's product goes; one that is there already when another weight shares A. */
static uint32_t first_half(struct site *s, const struct batch_run *r, const struct net_lora *l, float scale, uint32_t column)
{
    const struct adapter_workspace *w = s->p->adapt;
    struct dev_matmul op = {.w = l->a, .dst = {w->t, column * 4ull}, .dst_stride = w->stride, .scale = scale, .row = r->row, .n_row = r->n_row};
    for (uint32_t i = s->n_first; l->shares_a && i--;) {
        const struct dev_matmul *o = &w->ops[i];
        if (o->w.data.buf == l->a.data.buf && o->w.data.off == l->a.data.off && o->row == r->row && o->scale >= scale && o->scale <= scale)
            return (uint32_t)(o->dst.off / 4);
    }
    w->ops[s->n_first++] = op;
    return column;
}

/* One run's share of product number k. */
static void add_run(struct site *s, const struct batch_run *r, enum slot slot, uint32_t k)
{
    const struct adapter_workspace *w = s->p->adapt;
    uint32_t column = (uint32_t)(run_width(r) / PASS_PRODUCTS * k);
    for (uint32_t i = 0; i < r->n_uses; i++) {
        const struct net_adapter_use *u = &r->uses[i];
        const struct net_lora *l = net_adapter_lora(s->p->net, u, s->layer, slot);
        float scale = l ? l->scale * u->strength : 0;
        if (scale != 0) {
            uint32_t t = first_half(s, r, l, scale, column);
            w->addends[s->n_addends++] = (struct dev_addend){l->b, {w->t, t * 4ull}, w->stride, r->row, r->n_row};
        }
        column += u->adapter->max_rank;
    }
}

static void add_site(struct site *s, struct dev_ref src, uint32_t src_stride, uint32_t n_row, const enum slot *slots, struct dev_matmul *ops,
                     uint32_t n)
{
    const struct pass *p = s->p;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t first = s->n_addends;
        for (uint32_t i = 0; i < s->n_runs; i++)
            add_run(s, &s->runs[i], slots[k], k);
        ops[k].addends = p->adapt->addends + first;
        ops[k].n_addends = s->n_addends - first;
    }
    if (s->n_first)
        p->ops->matmul(p->dev, src, src_stride, n_row, p->adapt->ops, s->n_first);
}

void pass_adapt(const struct pass *p, uint32_t layer, struct dev_ref src, uint32_t src_stride, const struct product *products,
                struct dev_matmul *ops, uint32_t n)
{
    enum slot slots[PASS_PRODUCTS];
    struct site s = {.p = p, .layer = layer, .runs = p->b->runs, .n_runs = p->b->n_runs};
    for (uint32_t k = 0; k < n; k++)
        slots[k] = products[k].weight;
    if (s.n_runs)
        add_site(&s, src, src_stride, p->b->n_row, slots, ops, n);
}

void pass_adapt_output(const struct pass *p, struct dev_ref src, const uint32_t *rows, uint32_t n, struct dev_matmul *op)
{
    struct batch_run picked[LOGIT_ROWS];
    struct site s = {.p = p, .layer = p->h->n_layer, .runs = picked};
    uint32_t at = 0;
    for (uint32_t i = 0; i < n; i++) { /* rows ascend, and so do runs */
        while (at < p->b->n_runs && rows[i] >= p->b->runs[at].row + p->b->runs[at].n_row)
            at++;
        if (at == p->b->n_runs || rows[i] < p->b->runs[at].row)
            continue;
        struct batch_run *last = s.n_runs ? &picked[s.n_runs - 1] : NULL;
        if (last && last->uses == p->b->runs[at].uses && last->row + last->n_row == i)
            last->n_row++;
        else
            picked[s.n_runs++] = (struct batch_run){i, 1, p->b->runs[at].uses, p->b->runs[at].n_uses};
    }
    if (s.n_runs)
        add_site(&s, src, p->h->n_embd, n, &(enum slot){SLOT_OUTPUT}, op, 1);
}

/* ---- Steering ---- */

static struct dev_ref rows_of(const struct pass *p, struct dev_ref x, const struct batch_run *r)
{
    return dev_at(x, (uint64_t)r->row * p->h->n_embd * 4);
}

static void steer_run(const struct pass *p, uint32_t layer, const struct batch_run *r)
{
    uint32_t width = p->h->n_embd;
    struct dev_ref x = rows_of(p, p->x, r), hid = rows_of(p, p->hid, r);
    bool whole = false; /* what the layer left in hid is in x */
    for (uint32_t i = 0; i < r->n_uses; i++) {
        struct dev_ref v = net_adapter_direction(&r->uses[i], layer);
        if (!v.buf)
            continue;
        if (!whole) {
            p->ops->add(p->dev, x, hid, (uint64_t)r->n_row * width);
            p->ops->scale(p->dev, hid, (uint64_t)r->n_row * width, 0);
            whole = true;
        }
        p->ops->steer(p->dev, &(struct dev_steer){r->uses[i].mode == NET_STEER_PROJECT ? DEV_STEER_PROJECT : DEV_STEER_ADD, x, v, r->n_row,
                                                  width, r->uses[i].strength});
    }
}

void pass_steer(const struct pass *p, uint32_t layer)
{
    for (uint32_t i = 0; i < p->b->n_runs; i++)
        steer_run(p, layer, &p->b->runs[i]);
}

/* ---- Prefixes ---- */

void prefix_write(const struct net *net, const struct net_adapter *a, uint32_t first, int32_t kv_type, const struct dev_seq *seqs)
{
    uint32_t width = net->h.n_head_kv * net->h.head_dim;
    uint64_t matrix = (uint64_t)a->n_rows * width * 4;
    for (uint32_t l = 0; l < net->h.n_layer; l++) {
        struct dev_ref k = dev_at(a->rows, 2 * l * matrix + (uint64_t)first * width * 4), v = dev_at(k, matrix);
        uint32_t group = net->layers[l].group;
        struct dev_kv kv = net_kv(net, kv_type, l, false);
        net->dev->ops->kv_write(net->dev, &kv, k, width, v, width, &seqs[group], 1);
        if (!net_kv_is_mixed(kv_type))
            continue;
        kv = net_kv(net, kv_type, l, true);
        net->dev->ops->kv_write(net->dev, &kv, k, width, v, width, &seqs[NET_KV_EXACT(group)], 1);
    }
}
