#include "engine/engine.h"

#include <string.h>

#include "base/checked.h"
#include "base/shared.h"

#define MAX_CTX ENGINE_MAX_CTX
#define MAX_RECENT 4096u

static const struct alloc *session_alloc(const infer_session *s)
{
    return &s->model->engine->env->alloc;
}

uint32_t session_vocab(const infer_session *s)
{
    return s->model->net->h.n_vocab;
}

static infer_status check_options(const infer_model *m, const infer_session_options *o, infer_error *err)
{
    uint32_t trained = m->net->h.n_ctx_train;
    if (m->net->h.encoder)
        return err_set(err, INFER_ERROR_UNSUPPORTED, "this model is an encoder (%s): it makes embeddings, it does not generate",
                       m->net->arch->name);
    if (o->kv_type < INFER_KV_F16 || o->kv_type > INFER_KV_MIXED_F32)
        return err_at(err, INFER_ERROR_ARGUMENT, "kv_type", 7, ERR_NO_OFFSET, "unknown KV type %d", (int)o->kv_type);
    if (o->kv_recent && !net_kv_is_mixed(o->kv_type))
        return err_at(err, INFER_ERROR_ARGUMENT, "kv_recent", 9, ERR_NO_OFFSET, "belongs to the mixed KV types only");
    if (o->kv_recent > MAX_RECENT)
        return err_at(err, INFER_ERROR_ARGUMENT, "kv_recent", 9, ERR_NO_OFFSET, "at most %u elements", MAX_RECENT);
    if (o->n_ctx > MAX_CTX)
        return err_at(err, INFER_ERROR_ARGUMENT, "n_ctx", 5, ERR_NO_OFFSET, "at most %u elements", MAX_CTX);
    if (m->n_ctx && o->n_ctx > m->n_ctx && net_has_long_rope(m->net))
        return err_at(err, INFER_ERROR_ARGUMENT, "n_ctx", 5, ERR_NO_OFFSET, "the model was opened for sessions of %u elements", m->n_ctx);
    if (m->net->arch->positions == POSITIONS_LEARNED && o->n_ctx > trained)
        return err_at(err, INFER_ERROR_ARGUMENT, "n_ctx", 5, ERR_NO_OFFSET,
                      "this model has learned positions for %u elements only", trained);
    return INFER_OK;
}

infer_status session_create(infer_model *model, const infer_session_options *options, infer_session **out,
                            infer_error *err)
{
    const struct net *net = model->net;
    infer_status st = check_options(model, options, err);
    if (st != INFER_OK)
        return st;
    infer_session *s;
    do
        s = mem_zalloc(&model->engine->env->alloc, sizeof *s);
    while (!s && prefix_give_way(model->engine));
    if (!s)
        return err_no_memory(err);
    ref_init(&s->ref);
    s->model = model_ref(model);
    buf_init(&s->text, session_alloc(s), 0);
    s->n_ctx = options->n_ctx ? options->n_ctx : net->h.n_ctx_train < MAX_CTX ? net->h.n_ctx_train : MAX_CTX;
    if (!options->n_ctx && model->n_ctx && s->n_ctx > model->n_ctx)
        s->n_ctx = model->n_ctx;
    s->kv_type = options->kv_type;
    if (net_kv_is_mixed(s->kv_type))
        s->kv_recent = options->kv_recent ? (options->kv_recent + DEV_KV_PAGE - 1) / DEV_KV_PAGE * DEV_KV_PAGE : DEV_KV_PAGE;
    s->approximate_from = UINT64_MAX;
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++)
        kv_seq_init(&s->kv[g], net_kv_page_bytes(net, s->kv_type, g), net_kv_window(net, s->kv_recent, g));
    st = prefix_options(&s->prefix, options, err);
    if (st == INFER_OK)
        st = sampler_init(&s->sampler, session_alloc(s), net->h.n_logits, net->h.n_vocab, err);
    if (st != INFER_OK) {
        session_release(s);
        return st;
    }
    *out = s;
    return INFER_OK;
}

void session_release(infer_session *s)
{
    if (!s || !ref_put(&s->ref))
        return;
    infer_model *model = s->model;
    const struct alloc *a = session_alloc(s);
    prefix_leave(s);
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++)
        kv_seq_free(&s->kv[g], model->engine->kv, model->engine->env);
    prefix_left(model->engine);
    sampler_free(&s->sampler);
    session_sets_free(&s->sets, a);
    stops_release(s->gen.stops);
    shared_unref(a, s->elements);
    shared_unref(a, s->rows);
    shared_unref(a, s->keys);
    shared_unref(a, s->logits);
    shared_unref(a, s->logits_pos);
    mem_free(a, s->history);
    buf_free(&s->text);
    mem_free(a, s);
    model_release(model);
}

/* Capacity for `need` (at most MAX_CTX) items when an array has to be allocated: a power of two. */
static uint64_t roomy(uint64_t need)
{
    uint64_t cap = 256;
    while (cap < need)
        cap *= 2;
    return cap;
}

static infer_status check_room(const infer_session *s, uint64_t count, infer_error *err)
{
    if (count > s->n_ctx - s->length)
        return err_set(err, INFER_ERROR_CONTEXT_FULL, "%llu elements do not fit: the context holds %u and %llu are used",
                       (unsigned long long)count, s->n_ctx, (unsigned long long)s->length);
    return INFER_OK;
}

/* Elements [length, length + count) may be written then. */
static infer_status reserve_elements(infer_session *s, uint64_t count, infer_error *err)
{
    struct element *p;
    do
        p = shared_reserve(session_alloc(s), s->elements, sizeof *p, s->length, count, roomy(s->length + count));
    while (!p && prefix_give_way(s->model->engine));
    if (!p)
        return err_no_memory(err);
    s->elements = p;
    return INFER_OK;
}

infer_status session_check_ids(const infer_session *s, const int32_t *ids, uint64_t count, infer_error *err)
{
    infer_status st = check_room(s, count, err); /* first: a count beyond all reason is refused before ids are read */
    if (st != INFER_OK)
        return st;
    for (uint64_t i = 0; i < count; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= session_vocab(s))
            return err_set(err, INFER_ERROR_TOKEN, "token %llu of the call has id %d; the model has ids 0 to %u",
                           (unsigned long long)i, (int)ids[i], session_vocab(s) - 1);
    return INFER_OK;
}

infer_status session_append(infer_session *s, const int32_t *ids, uint64_t count, infer_error *err)
{
    infer_status st = session_check_ids(s, ids, count, err);
    if (st == INFER_OK && count)
        st = reserve_elements(s, count, err);
    if (st != INFER_OK)
        return st;
    for (uint64_t i = 0; i < count; i++)
        s->elements[s->length + i] = (struct element){ids[i], (uint32_t)(s->length + i), s->sets.current, 0};
    s->length += count;
    do
        st = session_invoke(s, s->length - count, err);
    while (prefix_retry(s->model->engine, st, err));
    if (st != INFER_OK)
        s->length -= count;
    return st;
}

static bool all_finite(const float *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, 4);
        if ((bits & 0x7F800000u) == 0x7F800000u)
            return false;
    }
    return true;
}

/* Embedding rows and keys [n_rows, n_rows + count) may be written then. */
static infer_status reserve_rows(infer_session *s, uint64_t count, infer_error *err)
{
    const struct alloc *a = session_alloc(s);
    size_t width = s->model->net->h.n_embd;
    float *rows = shared_reserve(a, s->rows, width * sizeof *rows, s->n_rows, count, 0);
    if (!rows)
        return err_no_memory(err);
    s->rows = rows;
    uint64_t *keys = shared_reserve(a, s->keys, 16, s->n_rows, count, 0);
    if (!keys)
        return err_no_memory(err);
    s->keys = keys;
    return INFER_OK;
}

infer_status session_append_rows(infer_session *s, const float *rows, const uint64_t *keys, uint64_t count,
                                 infer_error *err)
{
    uint64_t width = s->model->net->h.n_embd;
    infer_status st = check_room(s, count, err);
    if (st != INFER_OK || !count)
        return st;
    if (!all_finite(rows, count * width)) /* count is at most MAX_CTX now */
        return err_at(err, INFER_ERROR_VALUE, "rows", 4, ERR_NO_OFFSET, "an embedding value is not finite");
    do
        st = reserve_rows(s, count, err);
    while (prefix_retry(s->model->engine, st, err));
    if (st == INFER_OK)
        st = reserve_elements(s, count, err);
    if (st != INFER_OK)
        return st;
    memcpy(s->rows + s->n_rows * width, rows, (size_t)(count * width) * 4);
    memcpy(s->keys + (size_t)s->n_rows * 2, keys, (size_t)count * 16);
    for (uint64_t i = 0; i < count; i++)
        s->elements[s->length + i] =
            (struct element){ELEMENT_ROW, (uint32_t)(s->length + i), s->sets.current, s->n_rows + (uint32_t)i};
    s->n_rows += (uint32_t)count;
    s->length += count;
    return INFER_OK;
}

infer_status session_append_prefix(infer_session *s, struct adapter_set *set, uint32_t first, uint32_t count, infer_error *err)
{
    uint32_t number;
    infer_status st = check_room(s, count, err);
    if (st == INFER_OK)
        st = reserve_elements(s, count, err);
    if (st == INFER_OK)
        st = session_add_set(s, set, &number, err);
    if (st != INFER_OK)
        return st;
    for (uint32_t i = 0; i < count; i++)
        s->elements[s->length + i] = (struct element){ELEMENT_PREFIX, (uint32_t)(s->length + i), number, first + i};
    s->length += count;
    return INFER_OK;
}

/* The deepest element at or before p from which every group can go on. */
static uint64_t resume_point(const infer_session *s, uint64_t p)
{
    uint64_t r = p;
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++) {
        uint64_t at = kv_seq_resume(&s->kv[g], r);
        if (at < r) {
            r = at;
            g = UINT32_MAX; /* the others have to agree: start over */
        }
    }
    return r;
}

void session_rewind(infer_session *s, uint64_t length)
{
    s->n_logits_rows = 0;
    if (length >= s->computed)
        return;
    s->computed = resume_point(s, length);
    if (s->prefix.kept > s->computed)
        s->prefix.kept = s->computed;
    if (s->computed <= s->approximate_from)
        s->approximate_from = UINT64_MAX;
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++)
        kv_seq_truncate(&s->kv[g], s->model->engine->kv, s->computed);
}

void session_want_last_logits(infer_session *s)
{
    bool there = s->n_logits_rows && s->logits_pos[s->n_logits_rows - 1] + 1 == s->length;
    if (s->computed == s->length && s->length && !there)
        session_rewind(s, s->length - 1);
}

infer_status session_truncate(infer_session *s, uint64_t length, uint64_t *rerun, infer_error *err)
{
    if (length > s->length)
        return err_at(err, INFER_ERROR_ARGUMENT, "length", 6, ERR_NO_OFFSET, "the session has %llu elements",
                      (unsigned long long)s->length);
    infer_status st;
    do
        st = session_uninvoke(s, length, err);
    while (prefix_retry(s->model->engine, st, err));
    if (st != INFER_OK)
        return st;
    uint64_t keep = length < s->computed ? length : s->computed;
    if (keep < s->computed)
        prefix_leave(s);
    session_rewind(s, keep);
    s->prefix.asked = 0;
    for (uint64_t i = length; i < s->length; i++)
        if (s->elements[i].id == ELEMENT_ROW) { /* rows lie in element order */
            s->n_rows = s->elements[i].row;
            break;
        }
    s->length = length;
    s->gen.active = false;
    if (rerun)
        *rerun = keep - s->computed;
    return INFER_OK;
}

void session_mark_approximate(infer_session *s, uint64_t from)
{
    if (from < s->approximate_from)
        s->approximate_from = from;
}

infer_status session_own_elements(infer_session *s, infer_error *err)
{
    if (!s->length)
        return INFER_OK;
    struct element *p;
    do
        p = shared_own(session_alloc(s), s->elements, sizeof *p, s->length);
    while (!p && prefix_give_way(s->model->engine));
    if (!p)
        return err_no_memory(err);
    s->elements = p;
    return INFER_OK;
}

infer_status session_ready(const infer_session *s, const infer_cancel *cancel, infer_error *err)
{
    infer_status st = INFER_OK;
    for (uint32_t g = 0; g < NET_KV_GROUPS && st == INFER_OK; g++)
        st = kv_seq_ready(&s->kv[g], cancel, err);
    return st;
}

infer_status session_reserve_logits(infer_session *s, uint64_t count, infer_error *err)
{
    const struct alloc *a = session_alloc(s);
    uint64_t n = s->n_logits_rows;
    if (!count)
        return INFER_OK;
    float *logits = shared_reserve(a, s->logits, s->model->net->h.n_logits * sizeof *logits, n, count, 2 * n);
    if (!logits)
        return err_no_memory(err);
    s->logits = logits;
    uint64_t *pos = shared_reserve(a, s->logits_pos, sizeof *pos, n, count, 2 * n);
    if (!pos)
        return err_no_memory(err);
    s->logits_pos = pos;
    return INFER_OK;
}

/* f, new, comes to share everything that s has, but for the state of generation. */
static infer_status fork_into(infer_session *f, const infer_session *s, infer_error *err)
{
    infer_status st = INFER_OK;
    for (uint32_t g = 0; g < NET_KV_GROUPS && st == INFER_OK; g++)
        st = kv_seq_share(&f->kv[g], &s->kv[g], s->model->engine->kv, s->model->engine->env, err);
    if (st == INFER_OK)
        st = sampler_set(&f->sampler, &s->sampler.set, err);
    if (st != INFER_OK)
        return st;
    st = session_sets_copy(&f->sets, &s->sets, session_alloc(s), err);
    if (st != INFER_OK)
        return st;
    f->prefix = s->prefix;
    f->elements = shared_ref(s->elements);
    f->length = s->length;
    f->computed = s->computed;
    f->approximate_from = s->approximate_from;
    f->rows = shared_ref(s->rows);
    f->keys = shared_ref(s->keys);
    f->n_rows = s->n_rows;
    if (s->n_logits_rows) {
        f->logits = shared_ref(s->logits);
        f->logits_pos = shared_ref(s->logits_pos);
        f->n_logits_rows = s->n_logits_rows;
    }
    return INFER_OK;
}

static infer_status try_fork(const infer_session *s, infer_session **out, infer_error *err)
{
    infer_session *f = NULL;
    infer_session_options o = {.size = (uint32_t)sizeof o, .n_ctx = s->n_ctx, .kv_type = s->kv_type, .kv_recent = s->kv_recent};
    infer_status st = session_create(s->model, &o, &f, err);
    if (st != INFER_OK)
        return st;
    st = fork_into(f, s, err);
    if (st != INFER_OK) {
        session_release(f);
        return st;
    }
    *out = f;
    return INFER_OK;
}

static infer_status fork_session(const infer_session *s, infer_session **out, infer_error *err)
{
    infer_status st;
    do
        st = try_fork(s, out, err);
    while (prefix_retry(s->model->engine, st, err));
    return st;
}

infer_status session_fork(infer_session *s, infer_session **out, infer_error *err)
{
    return fork_session(s, out, err);
}

infer_status session_copy(const infer_session *s, infer_session **out, infer_error *err)
{
    infer_status st = fork_session(s, out, err);
    if (st != INFER_OK)
        return st;
    (*out)->gen = s->gen;
    stops_ref(s->gen.stops);
    return INFER_OK;
}

static bool same_element(const infer_session *a, const infer_session *b, uint64_t i)
{
    const struct element *x = &a->elements[i], *y = &b->elements[i];
    if (x->id != y->id || x->position != y->position || !hash_128_equal(session_set_id(&a->sets, x->set), session_set_id(&b->sets, y->set)))
        return false;
    if (x->id == ELEMENT_ROW)
        return !memcmp(a->keys + 2 * (size_t)x->row, b->keys + 2 * (size_t)y->row, 16);
    return x->id != ELEMENT_PREFIX || x->row == y->row;
}

uint64_t session_common(const infer_session *a, const infer_session *b, uint64_t most)
{
    uint64_t n = 0;
    most = most < a->length ? most : a->length;
    most = most < b->length ? most : b->length;
    while (n < most && same_element(a, b, n))
        n++;
    return n;
}

infer_status session_take_state(infer_session *s, const infer_session *from, uint64_t most, infer_error *err)
{
    struct kv_pool *pool = s->model->engine->kv;
    struct kv_seq tables[NET_KV_GROUPS];
    infer_status st = INFER_OK;
    uint64_t n = session_common(s, from, most < from->computed ? most : from->computed);
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++)
        kv_seq_init(&tables[g], s->kv[g].page_bytes, s->kv[g].window);
    n = resume_point(from, n);
    if (n <= s->computed)
        return INFER_OK;
    for (uint32_t g = 0; g < NET_KV_GROUPS && st == INFER_OK; g++)
        do
            st = kv_seq_share(&tables[g], &from->kv[g], pool, s->model->engine->env, err);
        while (prefix_retry(s->model->engine, st, err));
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++) {
        struct kv_seq old = st == INFER_OK ? s->kv[g] : tables[g];
        if (st == INFER_OK) {
            kv_seq_truncate(&tables[g], pool, n);
            s->kv[g] = tables[g];
        }
        kv_seq_free(&old, pool, s->model->engine->env);
    }
    if (st != INFER_OK)
        return st;
    s->computed = n;
    s->n_logits_rows = 0;
    s->approximate_from = from->approximate_from < n ? from->approximate_from : UINT64_MAX;
    return INFER_OK;
}

void session_swap(infer_session *a, infer_session *b)
{
    infer_session t = *a;
    struct ref ra = a->ref, rb = b->ref;
    bool in_a = a->in_step, in_b = b->in_step;
    *a = *b;
    *b = t;
    a->ref = ra;
    b->ref = rb;
    a->in_step = in_a;
    b->in_step = in_b;
}

struct session_kv_use session_kv_use(const infer_session *s)
{
    struct session_kv_use u = {0};
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++) {
        struct kv_counts c = kv_seq_count(&s->kv[g], s->model->engine->kv);
        u.bytes += c.pages * s->kv[g].page_bytes;
        u.shared += c.shared * s->kv[g].page_bytes;
        u.mapped += c.foreign * s->kv[g].page_bytes;
    }
    return u;
}

infer_status session_sample(infer_session *s, infer_sample_result *out, infer_error *err)
{
    if (!s->n_logits_rows)
        return err_set(err, INFER_ERROR_STATE, "the session has no logits: step it first");
    uint64_t last = s->n_logits_rows - 1, n = s->logits_pos[last] + 1;
    if (n > s->history_cap) {
        uint64_t cap = roomy(n);
        int32_t *p;
        do
            p = mem_alloc(session_alloc(s), (size_t)cap * sizeof *p);
        while (!p && prefix_give_way(s->model->engine));
        if (!p)
            return err_no_memory(err);
        mem_free(session_alloc(s), s->history);
        s->history = p;
        s->history_cap = cap;
    }
    for (uint64_t i = 0; i < n; i++)
        s->history[i] = s->elements[i].id < 0 ? -1 : s->elements[i].id;
    struct sample_input in = {.logits = s->logits + last * s->model->net->h.n_logits, .ids = s->history, .count = n,
                              .position = n};
    infer_status st;
    do
        st = sampler_sample(&s->sampler, &in, out, err);
    while (!s->sampler.set.callback && prefix_retry(s->model->engine, st, err)); /* a host is not asked twice */
    return st;
}
