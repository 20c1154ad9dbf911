#include "engine/engine.h"

#include <string.h>

#include "base/checked.h"

#define MAX_CTX ((uint32_t)1 << 24) /* positions are exact in f32 */
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
    if (o->kv_type < INFER_KV_F16 || o->kv_type > INFER_KV_MIXED_F32)
        return err_at(err, INFER_ERROR_ARGUMENT, "kv_type", 7, ERR_NO_OFFSET, "unknown KV type %d", (int)o->kv_type);
    if (o->kv_recent && !net_kv_is_mixed(o->kv_type))
        return err_at(err, INFER_ERROR_ARGUMENT, "kv_recent", 9, ERR_NO_OFFSET, "belongs to the mixed KV types only");
    if (o->kv_recent > MAX_RECENT)
        return err_at(err, INFER_ERROR_ARGUMENT, "kv_recent", 9, ERR_NO_OFFSET, "at most %u elements", MAX_RECENT);
    if (o->n_ctx > MAX_CTX)
        return err_at(err, INFER_ERROR_ARGUMENT, "n_ctx", 5, ERR_NO_OFFSET, "at most %u elements", MAX_CTX);
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
    infer_session *s = mem_zalloc(&model->engine->env->alloc, sizeof *s);
    if (!s)
        return err_no_memory(err);
    ref_init(&s->ref);
    s->model = model_ref(model);
    buf_init(&s->text, session_alloc(s), 0);
    s->n_ctx = options->n_ctx ? options->n_ctx : net->h.n_ctx_train < MAX_CTX ? net->h.n_ctx_train : MAX_CTX;
    s->kv_type = options->kv_type;
    if (net_kv_is_mixed(s->kv_type))
        s->kv_recent = options->kv_recent ? (options->kv_recent + DEV_KV_PAGE - 1) / DEV_KV_PAGE * DEV_KV_PAGE : DEV_KV_PAGE;
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++)
        kv_seq_init(&s->kv[g], net_kv_page_bytes(net, s->kv_type, g), net_kv_window(net, s->kv_recent, g));
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
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++)
        kv_seq_free(&s->kv[g], model->engine->kv, model->engine->env);
    sampler_free(&s->sampler);
    mem_free(a, s->elements);
    mem_free(a, s->rows);
    mem_free(a, s->keys);
    mem_free(a, s->logits);
    mem_free(a, s->logits_pos);
    mem_free(a, s->history);
    buf_free(&s->text);
    mem_free(a, s);
    model_release(model);
}

/* Room for `count` more elements. */
static infer_status reserve_elements(infer_session *s, uint64_t count, infer_error *err)
{
    if (count > s->n_ctx - s->length)
        return err_set(err, INFER_ERROR_CONTEXT_FULL, "%llu elements do not fit: the context holds %u and %llu are used",
                       (unsigned long long)count, s->n_ctx, (unsigned long long)s->length);
    uint64_t need = s->length + count;
    if (need <= s->cap)
        return INFER_OK;
    uint64_t cap = s->cap * 2 > need ? s->cap * 2 : need;
    cap = cap < 256 ? 256 : cap;
    struct element *p = mem_grow(session_alloc(s), s->elements, (size_t)cap * sizeof *p);
    if (!p)
        return err_no_memory(err);
    s->elements = p;
    s->cap = cap;
    return INFER_OK;
}

infer_status session_append(infer_session *s, const int32_t *ids, uint64_t count, infer_error *err)
{
    infer_status st = reserve_elements(s, count, err); /* first: a count beyond all reason is refused before ids are read */
    if (st != INFER_OK)
        return st;
    for (uint64_t i = 0; i < count; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= session_vocab(s))
            return err_set(err, INFER_ERROR_TOKEN, "token %llu of the call has id %d; the model has ids 0 to %u",
                           (unsigned long long)i, (int)ids[i], session_vocab(s) - 1);
    for (uint64_t i = 0; i < count; i++)
        s->elements[s->length + i] = (struct element){ids[i], (uint32_t)(s->length + i), 0};
    s->length += count;
    return INFER_OK;
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

/* Room for `count` more embedding rows. */
static infer_status reserve_rows(infer_session *s, uint64_t count, infer_error *err)
{
    uint64_t need = s->n_rows + count, bytes, width = s->model->net->h.n_embd;
    if (need <= s->rows_cap)
        return INFER_OK;
    if (!checked_mul(need, width * 4, &bytes) || bytes > SIZE_MAX || need > UINT32_MAX)
        return err_no_memory(err);
    float *rows = mem_grow(session_alloc(s), s->rows, (size_t)bytes);
    if (!rows)
        return err_no_memory(err);
    s->rows = rows;
    uint64_t *keys = mem_grow(session_alloc(s), s->keys, (size_t)need * 16);
    if (!keys)
        return err_no_memory(err);
    s->keys = keys;
    s->rows_cap = (uint32_t)need;
    return INFER_OK;
}

infer_status session_append_rows(infer_session *s, const float *rows, const uint64_t *keys, uint64_t count,
                                 infer_error *err)
{
    uint64_t width = s->model->net->h.n_embd;
    infer_status st = reserve_elements(s, count, err);
    if (st != INFER_OK)
        return st;
    if (!all_finite(rows, count * width)) /* count is at most MAX_CTX now */
        return err_at(err, INFER_ERROR_VALUE, "rows", 4, ERR_NO_OFFSET, "an embedding value is not finite");
    st = reserve_rows(s, count, err);
    if (st != INFER_OK || !count)
        return st;
    memcpy(s->rows + s->n_rows * width, rows, (size_t)(count * width) * 4);
    memcpy(s->keys + (size_t)s->n_rows * 2, keys, (size_t)count * 16);
    for (uint64_t i = 0; i < count; i++)
        s->elements[s->length + i] =
            (struct element){-1, (uint32_t)(s->length + i), s->n_rows + (uint32_t)i};
    s->n_rows += (uint32_t)count;
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
    uint64_t keep = length < s->computed ? length : s->computed;
    session_rewind(s, keep);
    for (uint64_t i = length; i < s->length; i++)
        if (s->elements[i].id < 0) { /* rows lie in element order */
            s->n_rows = s->elements[i].row;
            break;
        }
    s->length = length;
    s->gen.active = false;
    if (rerun)
        *rerun = keep - s->computed;
    return INFER_OK;
}

static infer_status copy_memory(const struct alloc *a, void **dst, const void *src, size_t bytes)
{
    if (!src || !bytes)
        return INFER_OK;
    *dst = mem_alloc(a, bytes);
    if (!*dst)
        return INFER_ERROR_NO_MEMORY;
    memcpy(*dst, src, bytes);
    return INFER_OK;
}

static infer_status fork_into(infer_session *f, const infer_session *s, infer_error *err)
{
    const struct alloc *a = session_alloc(s);
    size_t n_logits = s->model->net->h.n_logits, n_embd = s->model->net->h.n_embd;
    void *elements = NULL, *rows = NULL, *keys = NULL, *logits = NULL, *pos = NULL;
    infer_status st = copy_memory(a, &elements, s->elements, (size_t)s->length * sizeof *s->elements);
    if (st == INFER_OK)
        st = copy_memory(a, &rows, s->rows, s->n_rows * n_embd * sizeof(float));
    if (st == INFER_OK)
        st = copy_memory(a, &keys, s->keys, (size_t)s->n_rows * 16);
    if (st == INFER_OK)
        st = copy_memory(a, &logits, s->logits, (size_t)s->n_logits_rows * n_logits * sizeof(float));
    if (st == INFER_OK)
        st = copy_memory(a, &pos, s->logits_pos, (size_t)s->n_logits_rows * sizeof(uint64_t));
    f->elements = elements;
    f->rows = rows;
    f->keys = keys;
    f->logits = logits;
    f->logits_pos = pos;
    if (st != INFER_OK)
        return err_no_memory(err);
    f->length = f->cap = s->length;
    f->computed = s->computed;
    f->n_rows = f->rows_cap = s->n_rows;
    f->n_logits_rows = f->logits_cap = s->n_logits_rows;
    for (uint32_t g = 0; g < NET_KV_GROUPS && st == INFER_OK; g++)
        st = kv_seq_share(&f->kv[g], &s->kv[g], s->model->engine->kv, s->model->engine->env, err);
    if (st != INFER_OK)
        return st;
    struct sampler copy;
    st = sampler_copy(&copy, &s->sampler, err);
    if (st == INFER_OK) {
        sampler_free(&f->sampler);
        f->sampler = copy;
    }
    return st;
}

infer_status session_fork(infer_session *s, infer_session **out, infer_error *err)
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

uint64_t session_kv_bytes(const infer_session *s)
{
    uint64_t n = 0;
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++)
        n += kv_seq_bytes(&s->kv[g]);
    return n;
}

infer_status session_sample(infer_session *s, infer_sample_result *out, infer_error *err)
{
    if (!s->n_logits_rows)
        return err_set(err, INFER_ERROR_STATE, "the session has no logits: step it first");
    uint64_t last = s->n_logits_rows - 1, n = s->logits_pos[last] + 1;
    if (n > s->history_cap) {
        uint64_t cap = n < s->cap ? s->cap : n;
        int32_t *p = mem_alloc(session_alloc(s), (size_t)cap * sizeof *p);
        if (!p)
            return err_no_memory(err);
        mem_free(session_alloc(s), s->history);
        s->history = p;
        s->history_cap = cap;
    }
    for (uint64_t i = 0; i < n; i++)
        s->history[i] = s->elements[i].id;
    struct sample_input in = {.logits = s->logits + last * s->model->net->h.n_logits, .ids = s->history, .count = n,
                              .position = n};
    return sampler_sample(&s->sampler, &in, out, err);
}
