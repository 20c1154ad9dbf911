/* Adapters. */
#include "api/api.h"
#include "engine/engine.h"

#include <string.h>

static infer_status open_adapter(infer_model *m, const infer_source *source, const infer_open_options *options, infer_adapter **out,
                                 infer_error *err)
{
    infer_source s;
    infer_open_options o;
    infer_status st = api_not_null(m, "model", err);
    if (st == INFER_OK)
        st = api_not_null(out, "out", err);
    if (st == INFER_OK)
        st = api_open_args(source, options, &s, &o, err);
    return st == INFER_OK ? model_adapter_open(m, &s, &o, out, err) : st;
}

infer_status infer_adapter_open(infer_model *model, const infer_source *source, const infer_open_options *options, infer_adapter **out,
                                infer_error *err)
{
    infer_error e;
    infer_model *held = infer_model_ref(model); /* a source's callback may release it */
    infer_status st = open_adapter(model, source, options, out, &e);
    st = api_done_in(api_model_env(held), err, &e, st);
    infer_model_release(held);
    return st;
}

infer_status infer_adapter_open_path(infer_model *model, const char *path, infer_adapter **out, infer_error *err)
{
    infer_error e;
    infer_source source;
    if (!path)
        return api_done(err, &e, api_not_null(path, "path", &e));
    infer_source_path(&source, path, INFER_ZSTR);
    return infer_adapter_open(model, &source, NULL, out, err);
}

infer_adapter *infer_adapter_ref(infer_adapter *adapter)
{
    return adapter ? adapter_ref(adapter) : NULL;
}

void infer_adapter_release(infer_adapter *adapter)
{
    adapter_release(adapter);
}

infer_model *infer_adapter_model(const infer_adapter *adapter)
{
    return adapter ? adapter_bound(adapter)->model : NULL;
}

/* The hash as bytes: its two words, the lower first, each with its lowest byte first. */
static void put_hash(uint8_t out[16], struct hash_128 h)
{
    for (int i = 0; i < 8; i++) {
        out[i] = (uint8_t)(h.lo >> (8 * i));
        out[8 + i] = (uint8_t)(h.hi >> (8 * i));
    }
}

static infer_status find(infer_model *m, const uint8_t hash[16], infer_adapter **out, infer_error *err)
{
    struct hash_128 h = {0, 0};
    infer_status st = api_not_null(m, "model", err);
    if (st == INFER_OK)
        st = api_not_null(hash, "hash", err);
    if (st == INFER_OK)
        st = api_not_null(out, "out", err);
    if (st != INFER_OK)
        return st;
    for (int i = 0; i < 8; i++) {
        h.lo |= (uint64_t)hash[i] << (8 * i);
        h.hi |= (uint64_t)hash[8 + i] << (8 * i);
    }
    infer_adapter *a = model_adapter_find(m, h);
    if (!a)
        return err_set(err, INFER_ERROR_NOT_FOUND, "no adapter with that content is open for the model");
    *out = a;
    return INFER_OK;
}

infer_status infer_adapter_find(infer_model *model, const uint8_t hash[16], infer_adapter **out, infer_error *err)
{
    infer_error e;
    return api_done(err, &e, find(model, hash, out, &e));
}

static uint64_t stored_bytes(const infer_adapter *a)
{
    uint64_t n = a->rows.bytes;
    for (uint64_t i = 0; i < a->n_targets; i++)
        n += a->targets[i].a.bytes + a->targets[i].b.bytes;
    for (uint32_t i = 0; i < a->n_directions; i++)
        n += a->directions[i].v.bytes;
    return n;
}

static infer_status get_info(const infer_adapter *a, infer_adapter_info *out, infer_error *err)
{
    infer_status st = api_not_null(a, "adapter", err);
    if (st == INFER_OK)
        st = API_CHECK_OUT(out, infer_adapter_info, err);
    if (st != INFER_OK)
        return st;
    infer_adapter_info i = {.kind = a->kind, .targets = a->kind == ADAPTER_LORA ? a->n_targets : a->n_directions, .bytes = stored_bytes(a),
                            .own_bytes = adapter_bound(a)->net->bytes, .rank = a->max_rank, .rows = (uint32_t)a->rows.n_rows,
                            .invocation_count = a->n_invocation};
    size_t len = strlen(a->base);
    put_hash(i.hash, a->hash);
    memcpy(i.base, a->base, len < sizeof i.base ? len : sizeof i.base - 1);
    API_PUT_OUT(out, &i);
    return INFER_OK;
}

infer_status infer_adapter_get_info(const infer_adapter *adapter, infer_adapter_info *out, infer_error *err)
{
    infer_error e;
    return api_done(err, &e, get_info(adapter, out, &e));
}

const char *infer_adapter_target(const infer_adapter *adapter, uint64_t index)
{
    return adapter && index < adapter->n_targets ? adapter->targets[index].name : NULL;
}

const int32_t *infer_adapter_invocation(const infer_adapter *adapter, uint64_t *count)
{
    uint32_t n = adapter ? adapter->n_invocation : 0;
    if (count)
        *count = n;
    return n ? adapter->invocation : NULL;
}

/* ---- Sessions ---- */

static infer_status read_use(const infer_session *s, const infer_adapter_use *u, struct adapter_entry *e, infer_error *err)
{
    uint32_t layers = s->model->net->h.n_layer;
    infer_status st = api_not_null(u->adapter, "adapter", err);
    if (st != INFER_OK)
        return st;
    if (u->first_layer >= layers || u->layer_count > layers - u->first_layer)
        return err_at(err, INFER_ERROR_ARGUMENT, "first_layer", 11, ERR_NO_OFFSET, "the model has %u layers", layers);
    *e = (struct adapter_entry){u->adapter, u->scale, u->mode, u->first_layer, u->layer_count ? u->first_layer + u->layer_count : layers};
    return INFER_OK;
}

static infer_status set_adapters(infer_session *s, const infer_adapter_use *uses, uint64_t count, infer_error *err)
{
    struct adapter_entry entries[ADAPTER_SET_MAX];
    infer_status st = api_not_null(s, "session", err);
    if (st == INFER_OK && count)
        st = api_not_null(uses, "uses", err);
    if (st == INFER_OK && count > ADAPTER_SET_MAX)
        st = err_at(err, INFER_ERROR_ARGUMENT, "count", 5, ERR_NO_OFFSET, "at most %u adapters at once", ADAPTER_SET_MAX);
    if (st == INFER_OK && count > 1 && uses->size % _Alignof(infer_adapter_use))
        st = err_at(err, INFER_ERROR_ARGUMENT, "size", 4, ERR_NO_OFFSET, "not the size of a struct: use INFER_INIT");
    for (uint64_t i = 0; i < count && st == INFER_OK; i++) {
        infer_adapter_use full;
        const infer_adapter_use *u = (const infer_adapter_use *)(const void *)((const char *)uses + i * uses->size);
        st = u->size == uses->size ? API_IN(u, &full, infer_adapter_use, err)
                                   : err_at(err, INFER_ERROR_ARGUMENT, "size", 4, ERR_NO_OFFSET, "the items of a list differ in size");
        if (st == INFER_OK)
            st = read_use(s, &full, &entries[i], err);
    }
    return st == INFER_OK ? session_set_adapters(s, entries, (uint32_t)count, err) : st;
}

infer_status infer_session_set_adapters(infer_session *session, const infer_adapter_use *uses, uint64_t count, infer_error *err)
{
    infer_error e;
    return api_done_in(api_session_env(session), err, &e, set_adapters(session, uses, count, &e));
}

static infer_status get_use(const infer_session *s, uint64_t index, infer_adapter_use *out, infer_error *err)
{
    infer_status st = api_not_null(s, "session", err);
    if (st == INFER_OK)
        st = API_CHECK_OUT(out, infer_adapter_use, err);
    if (st != INFER_OK)
        return st;
    const struct adapter_set *w = s->sets.wanted;
    if (!w || index >= w->n)
        return err_set(err, INFER_ERROR_NOT_FOUND, "the session has %u adapters", w ? w->n : 0);
    const struct net_adapter_use *u = &w->uses[index];
    infer_adapter_use full = {.mode = u->mode, .adapter = w->adapters[index], .scale = u->strength, .first_layer = u->first_layer,
                              .layer_count = u->end_layer - u->first_layer};
    API_PUT_OUT(out, &full);
    return INFER_OK;
}

infer_status infer_session_adapter(const infer_session *session, uint64_t index, infer_adapter_use *out, infer_error *err)
{
    infer_error e;
    return api_done(err, &e, get_use(session, index, out, &e));
}

static infer_status append_adapter(infer_session *s, infer_adapter *a, infer_error *err)
{
    infer_status st = api_not_null(s, "session", err);
    if (st == INFER_OK)
        st = api_not_null(a, "adapter", err);
    return st == INFER_OK ? session_append_adapter(s, a, err) : st;
}

infer_status infer_session_append_adapter(infer_session *session, infer_adapter *adapter, infer_error *err)
{
    infer_error e;
    return api_done_in(api_session_env(session), err, &e, append_adapter(session, adapter, &e));
}
