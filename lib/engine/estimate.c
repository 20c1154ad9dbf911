/* What a model will take. The model is opened in an engine of its own whose device only counts, with a file whose weights are not read: what
 * that takes is exact, with the tokenizer and all tables. What comes when it runs follows from its sizes: the functions that make something
 * say how much it takes (workspace_bytes, kv_pool_most, cpu_use_*, ...); here they are added up. Upper bounds throughout. */
#include "engine/engine.h"

#include <string.h>

#include "base/budget.h"
#include "base/pool.h"
#include "kernels/cpu_use.h"

#define BLOCK_BYTES 64u         /* what an allocation takes beyond what it is for */
#define SESSION_BYTES 4096u     /* text of the last event, stop strings */
#define APPEND_BYTES 48u        /* an element that is appended: its id in a growing list, and some of the text that it comes from */
#define APPEND_LEAST 65536u
#define TOO_MUCH ((uint64_t)1 << 60) /* bytes of keys and values: refused, and far from where sums would wrap */

/* One model, and for whom. */
struct plan {
    const infer_estimate_options *o;
    const struct net *net;
    uint32_t sessions;
    uint32_t threads;
    int32_t numerics;
    uint64_t kv_budget;
    uint64_t session_bytes; /* of a session without elements */
    uint32_t kv_recent;     /* as the session has it */
    infer_estimate fixed;   /* what does not depend on the context */
};

static uint64_t pages_of(uint64_t n)
{
    return (n + DEV_KV_PAGE - 1) / DEV_KV_PAGE;
}

/* A power of two, as session.c makes room for. */
static uint64_t roomy(uint64_t n)
{
    uint64_t cap = 256;
    while (cap < n)
        cap *= 2;
    return cap;
}

/* A list that doubles: while it does, the old one is there too. */
static uint64_t doubling(uint64_t n, uint64_t item)
{
    return roomy(n) * item * 3 / 2 + 2 * BLOCK_BYTES;
}

/* ---- Scratch of the device */

static void use_weight(struct cpu_use *u, const struct dev_weight *w, uint64_t rows)
{
    if (w->data.buf)
        cpu_use_matmul(u, w->type, w->n_in, rows);
}

static void use_layer(struct cpu_use *u, const struct net *net, const struct layer *l, uint64_t rows)
{
    uint64_t chosen = rows * net->h.n_expert_used;
    for (uint32_t s = 0; s < SLOT_LAYER_COUNT; s++)
        if (l->w[s].n_out > 1 || s + SLOT_GLOBAL_COUNT == SLOT_SHARED_ROUTER) /* the others are vectors */
            use_weight(u, &l->w[s], rows);
    for (uint32_t e = 0; l->experts && e < net->h.n_expert; e++) {
        use_weight(u, &l->experts->each[e].gate, chosen);
        use_weight(u, &l->experts->each[e].up, chosen);
        use_weight(u, &l->experts->each[e].down, chosen);
    }
    for (uint32_t i = 0; l->latent && i < net->h.n_head; i++) { /* some heads make a call; all at most */
        use_weight(u, &l->latent->heads[i].k, rows * net->h.n_head);
        use_weight(u, &l->latent->heads[i].v, rows * net->h.n_head);
    }
}

/* Batches of at most so many rows, of at most so many sequences, that see at most so many elements. */
static uint64_t device_scratch(const struct plan *p, uint64_t n_seq, uint64_t rows, uint64_t n_seen)
{
    const struct net *net = p->net;
    struct cpu_use u = {.threads = p->threads, .numerics = p->numerics, .worker = net->h.n_embd * sizeof(float)};
    for (uint32_t l = 0; l < net->h.n_layer; l++)
        use_layer(&u, net, &net->layers[l], rows);
    use_weight(&u, &net->global[SLOT_OUTPUT], rows < LOGIT_ROWS ? rows : LOGIT_ROWS);
    use_weight(&u, &net->global[SLOT_DENSE_2], 1);
    use_weight(&u, &net->global[SLOT_DENSE_3], 1);
    cpu_use_attention(&u, &(struct dev_kv){.n_head_kv = net->h.n_head_kv, .head_dim = net->h.head_dim}, net->h.n_head, n_seq, rows, n_seen);
    return cpu_use_bytes(&u);
}

/* ---- Sessions */

static uint64_t session_lists(const struct plan *p, uint32_t n_ctx)
{
    uint64_t bytes = p->session_bytes + SESSION_BYTES + doubling(n_ctx, sizeof(struct element)) + doubling(n_ctx, sizeof(int32_t));
    uint64_t entry = sizeof(struct kv_page *) + sizeof(struct dev_ref);
    bytes += p->net->h.n_logits * sizeof(float) + sizeof(uint64_t) + 2 * BLOCK_BYTES + sampler_most_bytes(p->net->h.n_logits);
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++)
        if (net_kv_page_bytes(p->net, p->o->kv_type, g)) /* a list that grows by half */
            bytes += (pages_of(n_ctx) * 5 / 2 + 16) * entry + 4 * BLOCK_BYTES;
    return bytes;
}

/* Adds the pages of all sessions to e; what they hold alone, without the rest of their slabs, or TOO_MUCH. */
static uint64_t add_pages(const struct plan *p, uint32_t n_ctx, infer_estimate *e)
{
    struct kv_demand demands[NET_KV_GROUPS];
    uint64_t pages = 0;
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++) {
        uint64_t each = kv_seq_most_pages(net_kv_window(p->net, p->kv_recent, g), n_ctx, ENGINE_BATCH_ROWS);
        demands[g] = (struct kv_demand){net_kv_page_bytes(p->net, p->o->kv_type, g), p->sessions * each};
        if (demands[g].page_bytes && demands[g].pages >= (TOO_MUCH - pages) / demands[g].page_bytes)
            return e->kv_bytes = TOO_MUCH;
        pages += demands[g].page_bytes * demands[g].pages;
    }
    e->kv_bytes = kv_pool_most(demands, NET_KV_GROUPS, &e->scratch_bytes);
    if (p->kv_budget && e->kv_bytes > p->kv_budget)
        e->kv_bytes = p->kv_budget;
    return pages;
}

/* False: the KV budget is too small, or no budget would do. */
static bool of_sessions(const struct plan *p, uint32_t n_ctx, infer_estimate *e)
{
    uint64_t all = (uint64_t)n_ctx * p->sessions, rows = all < ENGINE_BATCH_ROWS ? all : ENGINE_BATCH_ROWS;
    uint64_t pages = add_pages(p, n_ctx, e);
    e->scratch_bytes += p->sessions * session_lists(p, n_ctx) + (uint64_t)n_ctx * APPEND_BYTES + APPEND_LEAST +
                        workspace_bytes(p->net, (uint32_t)rows) + CPU_BUFFER_EXTRA + device_scratch(p, p->sessions, rows, n_ctx);
    return pages < TOO_MUCH && (!p->kv_budget || pages <= p->kv_budget);
}

/* ---- Texts of an encoder: see embed.c */

static void of_texts(const struct plan *p, uint32_t n, infer_estimate *e)
{
    uint64_t all = (uint64_t)n * p->sessions, tokens = all < EMBED_GROUP_TOKENS ? all : EMBED_GROUP_TOKENS, pages = pages_of(n) * p->sessions;
    uint32_t texts = p->sessions < EMBED_GROUP_TEXTS ? p->sessions : EMBED_GROUP_TEXTS;
    uint64_t width = p->net->h.n_embd, out = net_embedding_width(p->net);
    pages = pages < EMBED_GROUP_PAGES ? pages : EMBED_GROUP_PAGES;
    tokens = tokens > n ? tokens : n; /* a longer text goes alone */
    pages = pages > pages_of(n) ? pages : pages_of(n);
    struct encode_bytes b = encode_bytes(p->net, tokens, pages, texts);
    e->kv_bytes = b.kv;
    e->scratch_bytes = b.workspace - b.kv + CPU_BUFFER_EXTRA + b.lists + device_scratch(p, texts, tokens < ENCODE_ROWS ? tokens : ENCODE_ROWS, n) +
                       tokens * width * sizeof(float) + (width + out) * sizeof(float) + width * sizeof(double) +
                       p->sessions * (2 * BLOCK_BYTES + doubling(n, sizeof(int32_t))) + n * (uint64_t)APPEND_BYTES + APPEND_LEAST;
}

/* ---- The whole */

/* False: the KV budget is too small. */
static bool estimate_at(const struct plan *p, uint32_t n_ctx, infer_estimate *e)
{
    bool fits = true;
    *e = p->fixed;
    e->n_ctx = n_ctx;
    if (p->net->h.encoder)
        of_texts(p, n_ctx, e);
    else
        fits = of_sessions(p, n_ctx, e);
    e->memory_bytes = e->own_bytes + e->kv_bytes + e->scratch_bytes;
    if (e->memory_bytes < e->open_bytes)
        e->memory_bytes = e->open_bytes;
    e->total_bytes = e->memory_bytes + e->mapped_bytes;
    return fits && (!p->o->budget || e->total_bytes <= p->o->budget);
}

static infer_status does_not_fit(const struct plan *p, const infer_estimate *e, infer_error *err)
{
    bool total = p->o->budget && e->total_bytes > p->o->budget;
    if (e->kv_bytes >= TOO_MUCH)
        return err_at(err, INFER_ERROR_LIMIT, "sessions", 8, ERR_NO_OFFSET, "keys and values of %u sessions of %u elements take more than 2^60 bytes",
                      p->sessions, e->n_ctx);
    return err_at(err, INFER_ERROR_LIMIT, total ? "budget" : "kv_budget", total ? 6 : 9, ERR_NO_OFFSET,
                  "%llu bytes are needed for a context of %u elements (%llu mapped, %llu for the model, %llu for keys and values, %llu to work "
                  "with): the %s is %llu",
                  (unsigned long long)e->total_bytes, e->n_ctx, (unsigned long long)e->mapped_bytes, (unsigned long long)e->own_bytes,
                  (unsigned long long)e->kv_bytes, (unsigned long long)e->scratch_bytes, total ? "budget" : "engine's kv_budget",
                  (unsigned long long)(total ? p->o->budget : p->kv_budget));
}

/* Contexts: all of `most`, or the most pages that fit. */
static infer_status choose_context(const struct plan *p, uint32_t most, infer_estimate *e, infer_error *err)
{
    uint32_t fits = most < DEV_KV_PAGE ? most : DEV_KV_PAGE, too_many = most;
    if (estimate_at(p, most, e))
        return INFER_OK;
    if (!estimate_at(p, fits, e))
        return does_not_fit(p, e, err);
    while (too_many - fits > DEV_KV_PAGE) { /* `fits` fits, and too_many does not */
        uint32_t middle = fits + (too_many - fits) / 2 / DEV_KV_PAGE * DEV_KV_PAGE;
        middle = middle == fits ? fits + DEV_KV_PAGE : middle;
        if (estimate_at(p, middle, e))
            fits = middle;
        else
            too_many = middle;
    }
    (void)estimate_at(p, fits, e);
    return INFER_OK;
}

/* What is there, and what was, when the model is open. map: as it will be opened. */
static void fixed_part(struct plan *p, const infer_model *m, int32_t map)
{
    const struct infer_file *f = m->file;
    uint64_t read = 0;
    for (uint64_t t = 0; t < f->n_tensors; t++)
        p->fixed.weight_bytes += f->tensors[t].bytes;
    for (uint32_t i = 0; i < f->n_parts; i++) {
        const struct blob *b = &f->parts[i];
        if (b->mapped && map == INFER_MAP_READ)
            read += b->size + BLOCK_BYTES;
        else if (!b->owned)
            p->fixed.mapped_bytes += b->size;
    }
    struct budget *count = m->engine->env->budget;
    p->fixed.own_bytes = budget_used(count) + read;
    p->fixed.open_bytes = budget_peak(count) + read;
}

/* Checks the options that sessions have; what one without elements takes. */
static infer_status try_session(struct plan *p, infer_model *m, uint32_t *most, infer_error *err)
{
    const infer_estimate_options *o = p->o;
    infer_session_options so = {.size = (uint32_t)sizeof so, .n_ctx = o->n_ctx, .kv_type = o->kv_type, .kv_recent = o->kv_recent};
    infer_session *s;
    struct budget *count = m->engine->env->budget;
    uint64_t before = budget_used(count);
    infer_status st = session_create(m, &so, &s, err);
    if (st != INFER_OK)
        return st;
    p->session_bytes = budget_used(count) - before;
    p->kv_recent = s->kv_recent;
    *most = s->n_ctx;
    session_release(s);
    return INFER_OK;
}

static infer_status text_tokens(const struct plan *p, uint32_t *most, infer_error *err)
{
    const struct hparams *h = &p->net->h;
    if (p->o->kv_type < INFER_KV_F16 || p->o->kv_type > INFER_KV_MIXED_F32)
        return err_at(err, INFER_ERROR_ARGUMENT, "kv_type", 7, ERR_NO_OFFSET, "unknown KV type %d", (int)p->o->kv_type);
    uint32_t limit = p->net->arch->positions == POSITIONS_LEARNED ? h->n_ctx_train : ENGINE_MAX_CTX;
    if (p->o->n_ctx > limit)
        return err_at(err, INFER_ERROR_ARGUMENT, "n_ctx", 5, ERR_NO_OFFSET, "this model takes texts of at most %u tokens", limit);
    *most = p->o->n_ctx ? p->o->n_ctx : h->embed_tokens < limit ? h->embed_tokens : limit;
    return INFER_OK;
}

static infer_status estimate_open(struct plan *p, infer_model *m, int32_t map, infer_estimate *out, infer_error *err)
{
    uint32_t most = 0;
    p->net = m->net;
    p->threads = m->engine->threads;
    p->numerics = m->engine->numerics;
    fixed_part(p, m, map);
    infer_status st = m->net->h.encoder ? text_tokens(p, &most, err) : try_session(p, m, &most, err);
    if (st != INFER_OK)
        return st;
    if (!p->o->n_ctx && p->o->budget)
        return choose_context(p, most, out, err);
    return estimate_at(p, most, out) ? INFER_OK : does_not_fit(p, out, err);
}

infer_status estimate_model(const infer_engine *engine, const infer_source *source, const infer_open_options *open,
                            const infer_estimate_options *o, infer_estimate *out, infer_error *err)
{
    struct plan p = {.o = o, .sessions = o->sessions ? o->sessions : 1, .kv_budget = engine ? engine->kv_budget : 0};
    infer_open_options as = *open;
    infer_engine *own;
    infer_model *m;
    infer_estimate e;
    if (p.sessions > ESTIMATE_MAX_SESSIONS)
        return err_at(err, INFER_ERROR_ARGUMENT, "sessions", 8, ERR_NO_OFFSET, "at most %u", ESTIMATE_MAX_SESSIONS);
    if (o->threads > POOL_MAX_THREADS)
        return err_at(err, INFER_ERROR_ARGUMENT, "threads", 7, ERR_NO_OFFSET, "at most %u threads", POOL_MAX_THREADS);
    infer_status st = engine_create_plan(engine, o->threads, &own, err);
    if (st != INFER_OK)
        return st;
    if (as.map == INFER_MAP_READ)
        as.map = INFER_MAP_AUTO; /* to look at the directory alone */
    st = model_open_plan(own, source, &as, &m, err);
    if (st == INFER_OK) {
        st = estimate_open(&p, m, open->map, &e, err);
        model_release(m);
    }
    engine_release(own);
    if (st == INFER_OK)
        *out = e;
    return st;
}
