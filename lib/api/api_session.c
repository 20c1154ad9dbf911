/* Sessions, steps and sampling. */
#include "api/api.h"
#include "base/budget.h"
#include "engine/engine.h"

#include <string.h>

static infer_status create_session(infer_model *model, const infer_session_options *options, infer_session **out,
                                   infer_error *err)
{
    infer_session_options o;
    infer_status st = api_not_null(model, "model", err);
    if (st == INFER_OK)
        st = api_not_null(out, "out", err);
    if (st == INFER_OK)
        st = API_IN(options, &o, infer_session_options, err);
    return st == INFER_OK ? session_create(model, &o, out, err) : st;
}

infer_status infer_session_create(infer_model *model, const infer_session_options *options, infer_session **out,
                                  infer_error *err)
{
    infer_error e;
    return api_done_in(api_model_env(model), err, &e, create_session(model, options, out, &e));
}

infer_session *infer_session_ref(infer_session *session)
{
    if (session)
        ref_get(&session->ref);
    return session;
}

void infer_session_release(infer_session *session)
{
    session_release(session);
}

infer_model *infer_session_model(const infer_session *session)
{
    return session ? session->model : NULL;
}

static infer_status append_ids(infer_session *s, const int32_t *ids, uint64_t count, infer_error *err)
{
    infer_status st = api_not_null(s, "session", err);
    if (st == INFER_OK && count)
        st = api_not_null(ids, "ids", err);
    return st == INFER_OK ? session_append(s, ids, count, err) : st;
}

infer_status infer_session_append(infer_session *session, const int32_t *ids, uint64_t count, infer_error *err)
{
    infer_error e;
    return api_done_in(api_session_env(session), err, &e, append_ids(session, ids, count, &e));
}

static infer_status append_text(infer_session *s, const char *text, uint64_t text_len, uint32_t flags, infer_error *err)
{
    uint64_t len;
    infer_status st = api_not_null(s, "session", err);
    if (st == INFER_OK)
        st = api_text(text, text_len, &len, "text", err);
    if (st != INFER_OK)
        return st;
    if (flags & ~(uint32_t)(INFER_TOKENIZE_ADD_SPECIAL | INFER_TOKENIZE_PARSE_SPECIAL))
        return err_at(err, INFER_ERROR_ARGUMENT, "flags", 5, ERR_NO_OFFSET, "unknown flags");
    if (!s->model->tokenizer)
        return err_set(err, INFER_ERROR_STATE, "the model has no tokenizer: %s", s->model->tokenizer_problem);
    struct token_ids ids;
    token_ids_init(&ids, &s->model->engine->env->alloc);
    st = tokenizer_encode(s->model->tokenizer, text, len, flags, &ids, err);
    if (st == INFER_OK)
        st = session_append(s, ids.data, ids.len, err);
    token_ids_free(&ids);
    return st;
}

infer_status infer_session_append_text(infer_session *session, const char *text, uint64_t text_len, uint32_t flags,
                                       infer_error *err)
{
    infer_error e;
    return api_done_in(api_session_env(session), err, &e, append_text(session, text, text_len, flags, &e));
}

static infer_status append_rows(infer_session *s, const float *rows, const uint64_t *keys, uint64_t count,
                                infer_error *err)
{
    infer_status st = api_not_null(s, "session", err);
    if (st == INFER_OK && count)
        st = api_not_null(rows, "rows", err);
    if (st == INFER_OK && count)
        st = api_not_null(keys, "keys", err);
    return st == INFER_OK ? session_append_rows(s, rows, keys, count, err) : st;
}

infer_status infer_session_append_rows(infer_session *session, const float *rows, const uint64_t *keys, uint64_t count,
                                       infer_error *err)
{
    infer_error e;
    return api_done_in(api_session_env(session), err, &e, append_rows(session, rows, keys, count, &e));
}

static infer_status session_info(const infer_session *s, infer_session_info *out, infer_error *err)
{
    infer_status st = api_not_null(s, "session", err);
    if (st == INFER_OK)
        st = API_CHECK_OUT(out, infer_session_info, err);
    if (st != INFER_OK)
        return st;
    struct session_kv_use use = session_kv_use(s);
    infer_session_info i = {.n_ctx = s->n_ctx, .length = s->length, .computed = s->computed, .kv_bytes = use.bytes,
                            .logits_rows = s->n_logits_rows, .kv_shared_bytes = use.shared, .kv_mapped_bytes = use.mapped,
                            .approximate = session_is_approximate(s), .kv_recent = s->kv_recent, .adapters = session_set_id(&s->sets, s->sets.current).lo};
    API_PUT_OUT(out, &i);
    return INFER_OK;
}

infer_status infer_session_get_info(const infer_session *session, infer_session_info *out, infer_error *err)
{
    infer_error e;
    return api_done(err, &e, session_info(session, out, &e));
}

static infer_status session_tokens(const infer_session *s, uint64_t first, uint64_t count, int32_t *ids, infer_error *err)
{
    infer_status st = api_not_null(s, "session", err);
    if (st == INFER_OK && count)
        st = api_not_null(ids, "ids", err);
    if (st != INFER_OK)
        return st;
    if (first > s->length || count > s->length - first)
        return err_at(err, INFER_ERROR_ARGUMENT, "first", 5, ERR_NO_OFFSET, "the session has %llu elements",
                      (unsigned long long)s->length);
    for (uint64_t i = 0; i < count; i++)
        ids[i] = s->elements[first + i].id < 0 ? -1 : s->elements[first + i].id;
    return INFER_OK;
}

infer_status infer_session_tokens(const infer_session *session, uint64_t first, uint64_t count, int32_t *ids,
                                  infer_error *err)
{
    infer_error e;
    return api_done(err, &e, session_tokens(session, first, count, ids, &e));
}

infer_status infer_session_truncate(infer_session *session, uint64_t length, uint64_t *rerun, infer_error *err)
{
    infer_error e;
    infer_status st = api_not_null(session, "session", &e);
    return api_done_in(api_session_env(session), err, &e, st == INFER_OK ? session_truncate(session, length, rerun, &e) : st);
}

infer_status infer_session_fork(infer_session *session, infer_session **out, infer_error *err)
{
    infer_error e;
    infer_status st = api_not_null(session, "session", &e);
    if (st == INFER_OK)
        st = api_not_null(out, "out", &e);
    return api_done_in(api_session_env(session), err, &e, st == INFER_OK ? session_fork(session, out, &e) : st);
}

static infer_status logits_row(const infer_session *s, uint64_t row, const float **logits, uint64_t *position,
                               infer_error *err)
{
    infer_status st = api_not_null(s, "session", err);
    if (st == INFER_OK)
        st = api_not_null(logits, "logits", err);
    if (st != INFER_OK)
        return st;
    if (!s->n_logits_rows)
        return err_set(err, INFER_ERROR_STATE, "the session has no logits: step it first");
    if (row >= s->n_logits_rows)
        return err_at(err, INFER_ERROR_ARGUMENT, "row", 3, ERR_NO_OFFSET, "the last step gave %llu rows",
                      (unsigned long long)s->n_logits_rows);
    *logits = s->logits + row * s->model->net->h.n_logits;
    if (position)
        *position = s->logits_pos[row];
    return INFER_OK;
}

infer_status infer_session_logits(const infer_session *session, uint64_t row, const float **logits, uint64_t *position,
                                  infer_error *err)
{
    infer_error e;
    return api_done(err, &e, logits_row(session, row, logits, position, &e));
}

/* The items of a call may have another size than ours: `stride` apart. */
static infer_step_item *item_at(infer_step_item *items, uint64_t stride, uint64_t i)
{
    return (infer_step_item *)(void *)((char *)items + stride * i);
}

static infer_status check_item(const infer_step_item *it, const infer_model *model, infer_error *err)
{
    infer_status st = api_not_null(it->session, "session", err);
    if (st != INFER_OK)
        return st;
    if (it->session->model != model)
        return err_at(err, INFER_ERROR_ARGUMENT, "session", 7, ERR_NO_OFFSET, "sessions of one step share one model");
    if (it->logits < INFER_ROWS_LAST || it->logits > INFER_ROWS_MASK)
        return err_at(err, INFER_ERROR_ARGUMENT, "logits", 6, ERR_NO_OFFSET, "unknown choice of logits");
    if (it->logits == INFER_ROWS_MASK && !it->mask && it->session->length != it->session->computed)
        return err_at(err, INFER_ERROR_ARGUMENT, "mask", 4, ERR_NO_OFFSET, "is NULL");
    return INFER_OK;
}

/* Reads the host's struct to full, which the item then points to. */
static infer_status check_hidden(infer_step_item *it, infer_hidden *full, infer_error *err)
{
    const struct net *net = it->session->model->net;
    infer_status st = API_IN(it->hidden, full, infer_hidden, err);
    if (st != INFER_OK)
        return st;
    if (full->elements < INFER_ROWS_LAST || full->elements > INFER_ROWS_MASK)
        return err_at(err, INFER_ERROR_ARGUMENT, "elements", 8, ERR_NO_OFFSET, "unknown choice of elements");
    if (full->elements == INFER_ROWS_MASK && !full->mask && it->session->length != it->session->computed)
        return err_at(err, INFER_ERROR_ARGUMENT, "mask", 4, ERR_NO_OFFSET, "is NULL");
    if (full->layer_count > net->h.n_layer + 1 || (full->layer_count && !full->layers))
        return err_at(err, INFER_ERROR_ARGUMENT, "layers", 6, ERR_NO_OFFSET, "is NULL, or has more entries than there are layers");
    for (uint32_t i = 0; i < full->layer_count; i++)
        if (full->layers[i] < INFER_HIDDEN_FINAL || full->layers[i] >= (int32_t)net->h.n_layer)
            return err_at(err, INFER_ERROR_ARGUMENT, "layers", 6, ERR_NO_OFFSET, "the model has layers 0 to %u", net->h.n_layer - 1);
    it->hidden = full;
    uint64_t row = (uint64_t)(full->layer_count ? full->layer_count : 1) * net->h.n_embd, n = step_count_hidden(it);
    if (full->capacity / row < n)
        return err_at(err, INFER_ERROR_BUFFER, "capacity", 8, ERR_NO_OFFSET, "room for %llu floats, %llu rows of %llu are needed",
                      (unsigned long long)full->capacity, (unsigned long long)n, (unsigned long long)row);
    if (n && !full->out)
        return err_at(err, INFER_ERROR_ARGUMENT, "out", 3, ERR_NO_OFFSET, "is NULL");
    return INFER_OK;
}

/* No session twice: marks each, and takes the marks off again. */
static infer_status check_distinct(const infer_step_item *items, uint64_t count, infer_error *err)
{
    uint64_t marked = 0;
    infer_status st = INFER_OK;
    for (; marked < count && st == INFER_OK; marked++) {
        if (items[marked].session->in_step) {
            st = err_at(err, INFER_ERROR_ARGUMENT, "session", 7, ERR_NO_OFFSET, "a session stands in the step twice");
            break;
        }
        items[marked].session->in_step = true;
    }
    while (marked > 0)
        items[--marked].session->in_step = false;
    return st;
}

static infer_status read_items(infer_step_item *host, uint64_t count, infer_step_item *items, infer_hidden *hidden, infer_error *err)
{
    for (uint64_t i = 0; i < count; i++) {
        const infer_step_item *h = item_at(host, host->size, i);
        infer_status st = h->size == host->size ? API_IN(h, &items[i], infer_step_item, err)
                                                : err_at(err, INFER_ERROR_ARGUMENT, "size", 4, ERR_NO_OFFSET,
                                                         "the items of a step differ in size");
        if (st == INFER_OK)
            st = check_item(&items[i], items[0].session ? items[0].session->model : NULL, err);
        if (st == INFER_OK && items[i].hidden)
            st = check_hidden(&items[i], &hidden[i], err);
        if (st != INFER_OK)
            return st;
    }
    return check_distinct(items, count, err);
}

static infer_status run_items(infer_step_item *host, uint64_t count, infer_step_item *items, infer_hidden *hidden,
                              infer_cancel *cancel, infer_error *err)
{
    infer_status st = read_items(host, count, items, hidden, err);
    if (st != INFER_OK)
        return st;
    st = engine_step(items, count, cancel, err);
    for (uint64_t i = 0; i < count; i++) {
        infer_step_item *h = item_at(host, host->size, i);
        if (items[i].hidden) {
            infer_step_item own; /* with the host's pointer, as far as its struct goes */
            (void)API_IN(h, &own, infer_step_item, err);
            API_PUT_OUT(own.hidden, items[i].hidden);
            items[i].hidden = own.hidden;
        }
        API_PUT_OUT(h, &items[i]);
    }
    return st;
}

static infer_status step(infer_step_item *host, uint64_t count, infer_cancel *cancel, infer_error *err)
{
    infer_step_item few[16], *items = few;
    infer_hidden few_hidden[16], *hidden = few_hidden;
    if (!count)
        return INFER_OK;
    infer_status st = api_not_null(host, "items", err);
    if (st == INFER_OK)
        st = API_CHECK_OUT(host, infer_step_item, err);
    if (st == INFER_OK)
        st = api_not_null(host->session, "session", err);
    if (st != INFER_OK)
        return st;
    if (count > 1 && host->size % _Alignof(infer_step_item)) /* the second would lie askew */
        return err_at(err, INFER_ERROR_ARGUMENT, "size", 4, ERR_NO_OFFSET, "not the size of a struct: use INFER_INIT");
    infer_model *model = model_ref(host->session->model); /* its allocator is used to the end */
    const struct alloc *a = &model->engine->env->alloc;
    if (count > sizeof few / sizeof *few) {
        items = count > SIZE_MAX / sizeof *items ? NULL : mem_array(a, (size_t)count, sizeof *items);
        hidden = items ? mem_array(a, (size_t)count, sizeof *hidden) : NULL;
    }
    st = hidden ? run_items(host, count, items, hidden, cancel, err) : err_no_memory(err);
    if (items != few) {
        mem_free(a, items);
        mem_free(a, hidden);
    }
    if (st == INFER_ERROR_NO_MEMORY)
        budget_explain(model->engine->env->budget, err);
    model_release(model);
    return st;
}

infer_status infer_step(infer_step_item *items, uint64_t count, infer_cancel *cancel, infer_error *err)
{
    infer_error e;
    return api_done(err, &e, step(items, count, cancel, &e));
}

infer_status infer_sampling_default(infer_sampling *sampling, infer_error *err)
{
    infer_error e;
    infer_sampling full;
    infer_status st = API_CHECK_OUT(sampling, infer_sampling, &e);
    if (st == INFER_OK) {
        memset(&full, 0, sizeof full);
        full.size = (uint32_t)sizeof full;
        sampler_default(&full);
        API_PUT_OUT(sampling, &full);
    }
    return api_done(err, &e, st);
}

static infer_status set_sampling(infer_session *s, const infer_sampling *sampling, infer_error *err)
{
    infer_sampling full;
    infer_status st = api_not_null(s, "session", err);
    if (st == INFER_OK)
        st = API_IN(sampling, &full, infer_sampling, err);
    return st == INFER_OK ? sampler_set(&s->sampler, &full, err) : st;
}

infer_status infer_session_set_sampling(infer_session *session, const infer_sampling *sampling, infer_error *err)
{
    infer_error e;
    return api_done_in(api_session_env(session), err, &e, set_sampling(session, sampling, &e));
}

static infer_status sample(infer_session *s, infer_sample_result *out, infer_error *err)
{
    infer_status st = api_not_null(s, "session", err);
    if (st == INFER_OK)
        st = API_CHECK_OUT(out, infer_sample_result, err);
    if (st != INFER_OK)
        return st;
    infer_sample_result r = {.size = (uint32_t)sizeof r};
    infer_session *held = infer_session_ref(s); /* a logits callback may release its own handle */
    st = session_sample(held, &r, err);
    if (st == INFER_OK)
        API_PUT_OUT(out, &r);
    return api_let_go(held, err, st);
}

infer_status infer_session_sample(infer_session *session, infer_sample_result *out, infer_error *err)
{
    infer_error e;
    return api_done(err, &e, sample(session, out, &e));
}
