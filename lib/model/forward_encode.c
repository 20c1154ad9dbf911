/* Encoders: every element sees those behind it too, so a text must be there whole. To keep long ones small the pass goes layer by layer: first the
 * queries, keys and values of all rows, some rows at a time, then attention and the rest, some rows at a time. Keys and values are kept for one
 * layer only, in f32. */
#include "model/forward_pass.h"

#include <string.h>

#include "base/checked.h"

/* The rows that are computed together: rows [row, row + n) of all texts, which belong to n_seq texts. */
struct chunk {
    uint32_t row, n;
    uint32_t seq, n_seq; /* in plan.seqs */
};

/* What the host knows of the whole. Rows of texts follow each other; each text begins a page, so that its bits do not depend on the others. */
struct plan {
    uint64_t n_row, n_page;
    uint32_t n_chunk;
    uint32_t *ids, *positions;          /* [n_row] */
    uint64_t *lo[NET_LAYER_GROUPS], *hi[NET_LAYER_GROUPS]; /* [n_row] */
    struct dev_ref *pages;              /* [n_page] */
    struct dev_seq *seqs;               /* rows counted within the chunk */
    struct chunk *chunks;
    void *memory;                       /* all of the above */
};

static uint64_t pages_of(uint32_t n)
{
    return (n + (uint64_t)DEV_KV_PAGE - 1) / DEV_KV_PAGE;
}

static bool plan_bytes(const struct plan *p, uint64_t n_seq, uint64_t *bytes)
{
    uint64_t refs = p->n_page * sizeof *p->pages, seqs = n_seq * sizeof *p->seqs;
    uint64_t each = 2 * sizeof *p->ids + 2 * NET_LAYER_GROUPS * sizeof **p->lo;
    return checked_mul(p->n_row, each, bytes) && checked_add(*bytes, refs + seqs + p->n_chunk * sizeof *p->chunks, bytes);
}

static infer_status plan_alloc(struct plan *p, const struct net *net, uint32_t n_text, infer_error *err)
{
    uint64_t n_seq = n_text + p->n_chunk, bytes;
    if (!plan_bytes(p, n_seq, &bytes) || bytes > SIZE_MAX)
        return err_no_memory(err);
    char *at = p->memory = mem_alloc(&net->env->alloc, (size_t)bytes);
    if (!at)
        return err_no_memory(err);
#define TAKE(field, n) (p->field = (void *)at, at += (n) * sizeof *p->field)
    for (uint32_t g = 0; g < NET_LAYER_GROUPS; g++) {
        TAKE(lo[g], p->n_row);
        TAKE(hi[g], p->n_row);
    }
    TAKE(pages, p->n_page);
    TAKE(seqs, n_seq);
    TAKE(chunks, p->n_chunk);
    TAKE(ids, p->n_row);
    TAKE(positions, p->n_row);
#undef TAKE
    return INFER_OK;
}

/* Element i of n sees the whole text; in window layers those at most half a window away. */
static void plan_row(struct plan *p, const struct hparams *h, uint64_t row, uint32_t i, uint32_t n)
{
    uint32_t half = h->window / 2;
    bool window = h->window != 0;
    p->positions[row] = i;
    p->lo[0][row] = 0;
    p->hi[0][row] = n;
    p->lo[1][row] = window && i > half ? i - half : 0;
    p->hi[1][row] = window && n - i > half ? (uint64_t)i + half + 1 : n;
}

static void plan_texts(struct plan *p, const struct net *net, const struct encode_text *texts, uint32_t n_text)
{
    uint64_t row = 0;
    uint32_t n_seq = 0, c = 0;
    const struct dev_ref *pages = p->pages;
    p->chunks[0] = (struct chunk){0};
    for (uint32_t t = 0; t < n_text; t++) {
        uint32_t n = texts[t].n;
        memcpy(p->ids + row, texts[t].ids, n * sizeof *p->ids);
        for (uint32_t i = 0, part; i < n; i += part, row += part) {
            if (p->chunks[c].n == ENCODE_ROWS)
                p->chunks[++c] = (struct chunk){(uint32_t)row, 0, n_seq, 0};
            part = ENCODE_ROWS - p->chunks[c].n < n - i ? ENCODE_ROWS - p->chunks[c].n : n - i;
            for (uint32_t k = 0; k < part; k++)
                plan_row(p, &net->h, row + k, i + k, n);
            p->seqs[n_seq++] = (struct dev_seq){p->chunks[c].n, part, i, pages};
            p->chunks[c].n_seq++;
            p->chunks[c].n += part;
        }
        pages += pages_of(n);
    }
}

static uint64_t page_bytes(const struct net *net)
{
    return 2 * net->h.n_head_kv * dev_kv_head_bytes(INFER_KV_F32, net->h.head_dim);
}

static bool lay_out(struct workspace *w, const struct net *net, const struct plan *p, uint64_t *end)
{
    const struct hparams *h = &net->h;
    uint64_t rows = p->n_row, part = rows < ENCODE_ROWS ? rows : ENCODE_ROWS;
    uint64_t q = (uint64_t)h->n_head * h->head_dim, kv = (uint64_t)h->n_head_kv * h->head_dim;
    *end = 0;
    return workspace_place(&w->x, end, rows, h->n_embd) && workspace_place(&w->h, end, rows, h->n_embd) &&
           workspace_place(&w->q, end, rows, q) && workspace_place(&w->rope[0], end, rows, h->n_rot) &&
           workspace_place(&w->rope[1], end, rows, h->n_rot) && workspace_place(&w->k, end, part, kv) &&
           workspace_place(&w->v, end, part, kv) && workspace_place(&w->a, end, part, q) &&
           workspace_place(&w->g, end, part, h->n_ff) && workspace_place(&w->u, end, part, h->n_ff) &&
           workspace_place(&w->pages, end, p->n_page, page_bytes(net) / 4);
}

static infer_status fit(struct workspace *ws, const struct net *net, struct plan *p, infer_error *err)
{
    struct workspace w = {0};
    uint64_t bytes;
    infer_status st = lay_out(&w, net, p, &bytes) ? workspace_take(ws, w, net, bytes, err) : err_no_memory(err);
    for (uint64_t i = 0; i < p->n_page && st == INFER_OK; i++)
        p->pages[i] = (struct dev_ref){ws->buf, ws->pages + i * page_bytes(net)};
    return st;
}

static void plan_sizes(struct plan *p, uint64_t n_row, uint64_t n_page)
{
    p->n_row = n_row;
    p->n_page = n_page;
    p->n_chunk = (uint32_t)((n_row + ENCODE_ROWS - 1) / ENCODE_ROWS);
}

struct encode_bytes encode_bytes(const struct net *net, uint64_t n_row, uint64_t n_page, uint32_t n_text)
{
    struct plan p = {0};
    struct workspace w = {0};
    struct encode_bytes b = {0};
    plan_sizes(&p, n_row, n_page);
    if (!lay_out(&w, net, &p, &b.workspace) || !plan_bytes(&p, n_text + (uint64_t)p.n_chunk, &b.lists))
        return (struct encode_bytes){UINT64_MAX, 0, 0};
    b.kv = n_page * page_bytes(net);
    return b;
}

static struct batch batch_of(const struct plan *p, const struct chunk *c)
{
    struct batch b = {.n_row = c->n, .ids = p->ids + c->row, .positions = p->positions + c->row, .kv_type = INFER_KV_F32,
                      .n_seq = c->n_seq, .one_layer = true};
    for (uint32_t g = 0; g < NET_LAYER_GROUPS; g++) {
        b.seqs[g] = p->seqs + c->seq;
        b.lo[g] = p->lo[g] + c->row;
        b.hi[g] = p->hi[g] + c->row;
    }
    return b;
}

/* The part of the pass that works on one chunk. b must live as long. */
static struct pass pass_at(const struct net *net, const struct workspace *ws, const struct batch *b, const struct chunk *c)
{
    struct pass p = pass_of(net, ws, b);
    p.x = dev_at(p.x, (uint64_t)c->row * net->h.n_embd * 4);
    p.hid = dev_at(p.hid, (uint64_t)c->row * net->h.n_embd * 4);
    p.q = dev_at(p.q, (uint64_t)c->row * p.q_width * 4);
    for (uint32_t g = 0; g < NET_LAYER_GROUPS; g++)
        p.rope[g] = dev_at(p.rope[g], (uint64_t)c->row * net->h.n_rot * 4);
    return p;
}

enum stage { STAGE_EMBED, STAGE_PROJECT, STAGE_REST, STAGE_END };

static void run_chunk(const struct net *net, const struct workspace *ws, const struct plan *plan, uint32_t c, enum stage stage,
                      uint32_t layer)
{
    struct batch b = batch_of(plan, &plan->chunks[c]);
    struct pass p = pass_at(net, ws, &b, &plan->chunks[c]);
    switch (stage) {
    case STAGE_EMBED: pass_embed(&p); break;
    case STAGE_PROJECT: pass_project(&p, layer); break;
    case STAGE_REST:
        pass_attend(&p, layer);
        (void)pass_feed_forward(&p, layer, NULL); /* encoders have no experts: nothing fails */
        break;
    case STAGE_END: /* post-norm models have no final norm */
        if (!net->arch->post_norm)
            pass_add_norm(&p, p.x, p.x, p.hid, b.n_row, &net->global[SLOT_OUT_NORM], &net->global[SLOT_OUT_NORM_B]);
        break;
    }
}

static void run(const struct net *net, const struct workspace *ws, const struct plan *plan)
{
    for (uint32_t c = 0; c < plan->n_chunk; c++)
        run_chunk(net, ws, plan, c, STAGE_EMBED, 0);
    for (uint32_t layer = 0; layer < net->h.n_layer; layer++)
        for (uint32_t i = 0; i < 2 * plan->n_chunk; i++)
            run_chunk(net, ws, plan, i % plan->n_chunk, i < plan->n_chunk ? STAGE_PROJECT : STAGE_REST, layer);
    for (uint32_t c = 0; c < plan->n_chunk; c++)
        run_chunk(net, ws, plan, c, STAGE_END, 0);
}

/* The texts' rows, from x to the host. */
static void read_texts(const struct net *net, const struct workspace *ws, struct encode_text *texts, uint32_t n_text)
{
    uint64_t row = 0, width = net->h.n_embd;
    for (uint32_t t = 0; t < n_text; t++) {
        texts[t].finite = true;
        for (uint32_t i = 0, n; i < texts[t].n; i += n, row += n) {
            float *out[DEV_READ_ROWS];
            bool finite[DEV_READ_ROWS] = {false};
            n = texts[t].n - i < DEV_READ_ROWS ? texts[t].n - i : DEV_READ_ROWS;
            for (uint32_t k = 0; k < n; k++)
                out[k] = texts[t].out + (i + (uint64_t)k) * width;
            net->dev->ops->read_rows(net->dev, out, (struct dev_ref){ws->buf, ws->x + row * width * 4}, n, (uint32_t)width, finite);
            for (uint32_t k = 0; k < n; k++)
                texts[t].finite = texts[t].finite && finite[k];
        }
    }
}

infer_status encode(const struct net *net, struct workspace *ws, struct encode_text *texts, uint32_t n, infer_error *err)
{
    struct plan plan = {0};
    uint64_t n_row = 0, n_page = 0;
    for (uint32_t t = 0; t < n; t++) {
        n_row += texts[t].n;
        n_page += pages_of(texts[t].n);
    }
    if (n_row > UINT32_MAX)
        return err_set(err, INFER_ERROR_LIMIT, "the texts of one pass have more than 2^32 elements");
    plan_sizes(&plan, n_row, n_page);
    infer_status st = plan_alloc(&plan, net, n, err);
    if (st != INFER_OK)
        return st;
    plan_texts(&plan, net, texts, n);
    st = fit(ws, net, &plan, err);
    if (st == INFER_OK) {
        run(net, ws, &plan);
        read_texts(net, ws, texts, n);
        st = net->dev->ops->sync(net->dev, err);
    }
    mem_free(&net->env->alloc, plan.memory);
    return st;
}

infer_status encode_dense(const struct net *net, struct workspace *ws, const float *in, float *out, infer_error *err)
{
    const struct device_ops *ops = net->dev->ops;
    const struct dev_weight *dense[2] = {&net->global[SLOT_DENSE_2], &net->global[SLOT_DENSE_3]};
    struct workspace w = {0};
    uint64_t end = 0, at[3];
    uint32_t width = net->h.n_embd, n = 0;
    bool ok = workspace_place(&at[0], &end, 1, width);
    for (; n < 2 && dense[n]->data.buf; n++)
        ok = ok && workspace_place(&at[n + 1], &end, 1, dense[n]->n_out);
    infer_status st = ok ? workspace_take(ws, w, net, end, err) : err_no_memory(err);
    if (st != INFER_OK)
        return st;
    ops->write(net->dev, (struct dev_ref){ws->buf, at[0]}, in, (uint64_t)width * 4);
    for (uint32_t i = 0; i < n; i++, width = dense[i - 1]->n_out)
        ops->matmul(net->dev, (struct dev_ref){ws->buf, at[i]}, width, 1,
                    &(struct dev_matmul){.w = *dense[i], .dst = {ws->buf, at[i + 1]}, .dst_stride = dense[i]->n_out}, 1);
    ops->read(net->dev, out, (struct dev_ref){ws->buf, at[n]}, (uint64_t)width * 4);
    return ops->sync(net->dev, err);
}
