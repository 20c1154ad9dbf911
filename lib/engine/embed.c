/* Embeddings: texts to tokens, tokens to hidden states (encoders by encode, others by sessions that live for one call), hidden states to vectors. */
#include "engine/engine.h"

#include <string.h>

#include "base/fpenv.h"
#include "kernels/math_scalar.h"

/* One text of a call. */
struct job {
    infer_embed_item *it;
    struct token_ids ids;
    bool ready; /* tokens are there, nothing has failed, and it is not done */
};

struct call {
    infer_model *m;
    const infer_embed_options *o;
    int32_t pooling;
    uint32_t width;  /* floats of a vector */
    uint64_t max_tokens;
    const infer_cancel *cancel;
    infer_status st; /* the first failure, which err tells */
    infer_error *err;
};

static void job_failed(struct call *c, struct job *j, infer_status st, const infer_error *e)
{
    j->it->status = st;
    j->ready = false;
    if (c->st != INFER_OK)
        return;
    c->st = st;
    if (c->err)
        *c->err = *e;
}

/* How many tokens at the end of a text are special ones that were added there: what an empty text ends with too. */
static infer_status added_end(const struct call *c, const struct token_ids *ids, size_t *n, infer_error *err)
{
    struct token_ids empty;
    *n = 0;
    token_ids_init(&empty, &c->m->engine->env->alloc);
    infer_status st = tokenizer_encode(c->m->tokenizer, "", 0, INFER_TOKENIZE_ADD_SPECIAL, &empty, err);
    while (st == INFER_OK && *n < empty.len && *n < ids->len && empty.data[empty.len - 1 - *n] == ids->data[ids->len - 1 - *n])
        ++*n;
    token_ids_free(&empty);
    return st;
}

/* Keeps the first tokens and the special ones at the end. */
static infer_status truncate(const struct call *c, struct job *j, infer_error *err)
{
    size_t end = 0, max = (size_t)c->max_tokens;
    if (j->it->text && !(c->o->flags & INFER_EMBED_NO_SPECIAL)) {
        infer_status st = added_end(c, &j->ids, &end, err);
        if (st != INFER_OK)
            return st;
    }
    end = end < max ? end : 0;
    for (size_t i = 0; i < end; i++)
        j->ids.data[max - end + i] = j->ids.data[j->ids.len - end + i];
    j->ids.len = max;
    j->it->truncated = 1;
    return INFER_OK;
}

static infer_status read_ids(const struct call *c, struct job *j, infer_error *err)
{
    uint32_t vocab = c->m->net->h.n_vocab;
    for (uint64_t i = 0; i < j->it->id_count; i++) {
        int32_t id = j->it->ids[i];
        if (id < 0 || (uint32_t)id >= vocab)
            return err_set(err, INFER_ERROR_TOKEN, "token %llu of a text has id %d; the model has ids 0 to %u", (unsigned long long)i,
                           (int)id, vocab - 1);
        token_ids_put(&j->ids, id);
    }
    return j->ids.no_memory ? err_no_memory(err) : INFER_OK;
}

static infer_status read_text(const struct call *c, struct job *j, infer_error *err)
{
    uint32_t flags = c->o->flags & INFER_EMBED_NO_SPECIAL ? 0 : INFER_TOKENIZE_ADD_SPECIAL;
    if (c->o->flags & INFER_EMBED_PARSE_SPECIAL)
        flags |= INFER_TOKENIZE_PARSE_SPECIAL;
    if (!c->m->tokenizer)
        return err_set(err, INFER_ERROR_STATE, "the model has no tokenizer: %s", c->m->tokenizer_problem);
    infer_status st = tokenizer_encode(c->m->tokenizer, j->it->text, j->it->text_len, flags, &j->ids, err);
    for (size_t i = 0; i < j->ids.len && st == INFER_OK; i++)
        if ((uint32_t)j->ids.data[i] >= c->m->net->h.n_vocab)
            st = err_set(err, INFER_ERROR_TOKEN, "the tokenizer gave id %d; the model has ids 0 to %u", (int)j->ids.data[i],
                         c->m->net->h.n_vocab - 1);
    return st;
}

/* Tokens, and room for what becomes of them. */
static infer_status prepare(const struct call *c, struct job *j, infer_error *err)
{
    infer_embed_item *it = j->it;
    infer_status st = it->text ? read_text(c, j, err) : read_ids(c, j, err);
    if (st != INFER_OK)
        return st;
    it->tokens = j->ids.len;
    if (!j->ids.len)
        return err_set(err, INFER_ERROR_VALUE, "a text has no tokens: nothing to make an embedding of");
    if (j->ids.len > c->max_tokens && !(c->o->flags & INFER_EMBED_TRUNCATE))
        return err_set(err, INFER_ERROR_CONTEXT_FULL, "a text has %llu tokens, and at most %llu are taken",
                       (unsigned long long)j->ids.len, (unsigned long long)c->max_tokens);
    if (j->ids.len > c->max_tokens)
        st = truncate(c, j, err);
    if (st != INFER_OK)
        return st;
    it->rows = c->pooling == INFER_POOLING_NONE ? j->ids.len : 1;
    if (it->capacity / c->width < it->rows)
        return err_set(err, INFER_ERROR_BUFFER, "out has room for %llu floats, %llu are needed", (unsigned long long)it->capacity,
                       (unsigned long long)(it->rows * c->width));
    return INFER_OK;
}

/* ---- From hidden states to vectors */

/* Sums in double, in the order of the rows: one text's vector is one fixed array of bits. */
static infer_status mean_of(const struct alloc *a, const float *rows, uint64_t n, uint32_t width, float *out, infer_error *err)
{
    double *sum = mem_zarray(a, width, sizeof *sum);
    if (!sum)
        return err_no_memory(err);
    for (uint64_t r = 0; r < n; r++)
        for (uint32_t i = 0; i < width; i++)
            sum[i] += (double)rows[r * width + i];
    for (uint32_t i = 0; i < width; i++)
        out[i] = (float)(sum[i] / (double)n);
    mem_free(a, sum);
    return INFER_OK;
}

/* To length 1; a vector of zeros stays. The squares are summed in order, in double. */
static void normalise(float *x, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    float length = math_sqrt((float)sum);
    for (uint32_t i = 0; i < n && length > 0; i++)
        x[i] /= length;
}

/* rows [n_row][n_embd]: all of the text's, or the last one. dense [net_embedding_width] is scratch. */
static infer_status pool(const struct call *c, const struct job *j, const float *rows, uint64_t n_row, float *pooled, float *dense,
                         infer_error *err)
{
    const struct net *net = c->m->net;
    uint32_t n_embd = net->h.n_embd;
    infer_status st = INFER_OK;
    if (c->pooling == INFER_POOLING_NONE) {
        for (uint64_t r = 0; r < n_row; r++)
            memcpy(j->it->out + r * c->width, rows + r * n_embd, c->width * sizeof *rows);
        return INFER_OK;
    }
    if (c->pooling == INFER_POOLING_MEAN)
        st = mean_of(&net->env->alloc, rows, n_row, n_embd, pooled, err);
    else
        memcpy(pooled, rows + (c->pooling == INFER_POOLING_LAST ? n_row - 1 : 0) * n_embd, n_embd * sizeof *rows);
    if (st == INFER_OK && net->global[SLOT_DENSE_2].data.buf) {
        st = encode_dense(net, &c->m->engine->ws, pooled, dense, err);
        pooled = dense;
    }
    if (st != INFER_OK)
        return st;
    memcpy(j->it->out, pooled, c->width * sizeof *pooled);
    if (!(c->o->flags & INFER_EMBED_RAW))
        normalise(j->it->out, c->width);
    return INFER_OK;
}

/* ---- A group of texts */

struct group {
    struct job *jobs[EMBED_GROUP_TEXTS];
    float *rows[EMBED_GROUP_TEXTS]; /* of each, [n_row][n_embd] */
    uint64_t n_row[EMBED_GROUP_TEXTS];
    uint32_t n;
};

static void fail_all(struct call *c, struct group *g, infer_status st, const infer_error *e)
{
    for (uint32_t i = 0; i < g->n; i++)
        if (g->jobs[i]->ready)
            job_failed(c, g->jobs[i], st, e);
}

/* The lock is held. */
static infer_status encode_group(struct call *c, struct group *g, infer_error *err)
{
    struct encode_text texts[EMBED_GROUP_TEXTS];
    for (uint32_t i = 0; i < g->n; i++) /* ids are checked: not negative */
        texts[i] = (struct encode_text){(const uint32_t *)g->jobs[i]->ids.data, (uint32_t)g->jobs[i]->ids.len, g->rows[i], true};
    infer_status st = encode(c->m->net, &c->m->engine->ws, texts, g->n, err);
    for (uint32_t i = 0; i < g->n && st == INFER_OK; i++)
        if (!texts[i].finite) {
            infer_error e = {0};
            job_failed(c, g->jobs[i], err_set(&e, INFER_ERROR_NONFINITE, "a hidden state of a text is not finite"), &e);
        }
    return st;
}

static infer_status pool_group(struct call *c, struct group *g, infer_error *err)
{
    const struct alloc *a = &c->m->engine->env->alloc;
    uint32_t n_embd = c->m->net->h.n_embd, dense = net_embedding_width(c->m->net);
    float *scratch = mem_array(a, (size_t)n_embd + dense, sizeof *scratch);
    if (!scratch)
        return err_no_memory(err);
    for (uint32_t i = 0; i < g->n; i++) {
        infer_error e = {0};
        if (!g->jobs[i]->ready)
            continue;
        infer_status st = pool(c, g->jobs[i], g->rows[i], g->n_row[i], scratch, scratch + n_embd, &e);
        if (st != INFER_OK)
            job_failed(c, g->jobs[i], st, &e);
        g->jobs[i]->ready = false;
    }
    mem_free(a, scratch);
    return INFER_OK;
}

/* Sessions, one a text, without the prefix cache. */
static infer_status make_sessions(struct call *c, struct group *g, infer_step_item *items, infer_hidden *hidden, infer_error *err)
{
    for (uint32_t i = 0; i < g->n; i++) {
        const struct token_ids *ids = &g->jobs[i]->ids;
        infer_session_options so = {.size = (uint32_t)sizeof so, .n_ctx = (uint32_t)ids->len, .kv_type = INFER_KV_F32,
                                    .cache_flags = INFER_CACHE_NO_LOOKUP | INFER_CACHE_NO_INSERT};
        hidden[i] = (infer_hidden){.size = (uint32_t)sizeof *hidden, .out = g->rows[i],
                                   .elements = c->pooling == INFER_POOLING_LAST ? INFER_ROWS_LAST : INFER_ROWS_ALL};
        items[i] = (infer_step_item){.size = (uint32_t)sizeof *items, .logits = INFER_ROWS_NONE, .hidden = &hidden[i]};
        infer_status st = session_create(c->m, &so, &items[i].session, err);
        if (st == INFER_OK)
            st = session_append(items[i].session, ids->data, ids->len, err);
        if (st != INFER_OK)
            return st;
    }
    return INFER_OK;
}

static infer_status step_group(struct call *c, struct group *g, infer_error *err)
{
    infer_step_item items[EMBED_GROUP_TEXTS] = {{0}};
    infer_hidden hidden[EMBED_GROUP_TEXTS];
    infer_status st = make_sessions(c, g, items, hidden, err);
    if (st == INFER_OK) {
        infer_status one = engine_step(items, g->n, c->cancel, err);
        for (uint32_t i = 0; i < g->n; i++)
            if (one != INFER_OK && items[i].status != INFER_OK)
                job_failed(c, g->jobs[i], items[i].status, err);
    }
    for (uint32_t i = 0; i < g->n; i++)
        session_release(items[i].session);
    return st;
}

/* Hidden states, then vectors. */
static infer_status compute_group(struct call *c, struct group *g, infer_error *err)
{
    infer_engine *engine = c->m->engine;
    bool encoder = c->m->net->h.encoder;
    infer_status st = file_check(c->m->file, err);
    if (st == INFER_OK && !encoder)
        st = step_group(c, g, err);
    if (st == INFER_OK)
        st = engine_take(engine, c->cancel, err); /* for the workspace and the device */
    if (st != INFER_OK)
        return st;
    struct fpenv fp = fpenv_enter();
    if (encoder)
        st = encode_group(c, g, err);
    if (st == INFER_OK)
        st = pool_group(c, g, err);
    fpenv_leave(fp);
    engine_give(engine);
    return st;
}

static void run_group(struct call *c, struct group *g)
{
    const struct alloc *a = &c->m->engine->env->alloc;
    uint64_t n_embd = c->m->net->h.n_embd, total = 0;
    bool last = !c->m->net->h.encoder && c->pooling == INFER_POOLING_LAST;
    infer_error e = {0};
    for (uint32_t i = 0; i < g->n; i++)
        total += g->n_row[i] = last ? 1 : g->jobs[i]->ids.len;
    float *rows = total > SIZE_MAX / n_embd / 4 ? NULL : mem_array(a, (size_t)(total * n_embd), sizeof *rows);
    for (uint64_t i = 0, at = 0; i < g->n && rows; at += g->n_row[i] * n_embd, i++)
        g->rows[i] = rows + at;
    infer_status st = rows ? compute_group(c, g, &e) : err_no_memory(&e);
    if (st != INFER_OK)
        fail_all(c, g, st, &e);
    mem_free(a, rows);
}

/* The next texts that are computed together, from job *at on. */
static void fill_group(struct group *g, struct job *jobs, uint64_t n, uint64_t *at)
{
    uint64_t tokens = 0, pages = 0;
    for (g->n = 0; *at < n && g->n < EMBED_GROUP_TEXTS; ++*at) {
        struct job *j = &jobs[*at];
        if (!j->ready)
            continue;
        tokens += j->ids.len;
        pages += (j->ids.len + DEV_KV_PAGE - 1) / DEV_KV_PAGE;
        if (g->n && (tokens > EMBED_GROUP_TOKENS || pages > EMBED_GROUP_PAGES))
            return;
        g->jobs[g->n++] = j;
    }
}

static void run_jobs(struct call *c, struct job *jobs, uint64_t n)
{
    struct group g;
    for (uint64_t i = 0; i < n; i++) {
        infer_error e = {0};
        infer_status st = cancel_is_set(c->cancel) ? err_set(&e, INFER_ERROR_CANCELLED, "cancelled") : prepare(c, &jobs[i], &e);
        jobs[i].ready = st == INFER_OK;
        if (st != INFER_OK)
            job_failed(c, &jobs[i], st, &e);
    }
    for (uint64_t at = 0; at < n;) {
        fill_group(&g, jobs, n, &at);
        if (g.n)
            run_group(c, &g);
    }
}

static infer_status check_call(struct call *c, infer_error *err)
{
    const struct hparams *h = &c->m->net->h;
    uint32_t full = c->pooling == INFER_POOLING_NONE ? h->n_embd : net_embedding_width(c->m->net);
    if (c->pooling == INFER_POOLING_RANK)
        return err_set(err, INFER_ERROR_UNSUPPORTED, "the model is a reranker: its scores cannot be computed; choose another pooling");
    if (c->o->dimensions > full)
        return err_at(err, INFER_ERROR_ARGUMENT, "dimensions", 10, ERR_NO_OFFSET, "the model's vectors have %u", full);
    c->width = c->o->dimensions ? c->o->dimensions : full;
    c->max_tokens = c->o->max_tokens ? c->o->max_tokens : h->embed_tokens;
    uint64_t most = c->m->net->arch->positions == POSITIONS_LEARNED ? h->n_ctx_train : ENGINE_MAX_CTX;
    if (c->o->max_tokens > most)
        return err_at(err, INFER_ERROR_ARGUMENT, "max_tokens", 10, ERR_NO_OFFSET, "this model takes at most %llu tokens",
                      (unsigned long long)most);
    if (c->max_tokens > most)
        c->max_tokens = most;
    return INFER_OK;
}

infer_status embed_texts(infer_model *m, infer_embed_item *items, uint64_t count, const infer_embed_options *o, const infer_cancel *cancel,
                         infer_error *err)
{
    const struct alloc *a = &m->engine->env->alloc;
    struct call c = {.m = m, .o = o, .cancel = cancel, .err = err};
    c.pooling = o->pooling == INFER_POOLING_MODEL ? m->net->h.pooling : o->pooling;
    infer_status st = check_call(&c, err);
    if (st != INFER_OK || !count)
        return st;
    struct job *jobs = count > SIZE_MAX ? NULL : mem_zarray(a, (size_t)count, sizeof *jobs);
    if (!jobs)
        return err_no_memory(err);
    for (uint64_t i = 0; i < count; i++) {
        jobs[i].it = &items[i];
        token_ids_init(&jobs[i].ids, a);
        items[i].status = INFER_OK;
        items[i].rows = items[i].tokens = 0;
        items[i].truncated = 0;
    }
    run_jobs(&c, jobs, count);
    for (uint64_t i = 0; i < count; i++)
        token_ids_free(&jobs[i].ids);
    mem_free(a, jobs);
    return c.st;
}
