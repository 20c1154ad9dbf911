/* Checkpoints. */
#include "api/api.h"
#include "engine/checkpoint.h"

static infer_status create(const infer_session *s, infer_checkpoint **out, infer_error *err)
{
    infer_status st = api_not_null(s, "session", err);
    if (st == INFER_OK)
        st = api_not_null(out, "out", err);
    return st == INFER_OK ? checkpoint_create(s, out, err) : st;
}

infer_status infer_checkpoint_create(const infer_session *session, infer_checkpoint **out, infer_error *err)
{
    infer_error e;
    return api_done_in(api_session_env(session), err, &e, create(session, out, &e));
}

infer_checkpoint *infer_checkpoint_ref(infer_checkpoint *checkpoint)
{
    return checkpoint ? checkpoint_ref(checkpoint) : NULL;
}

void infer_checkpoint_release(infer_checkpoint *checkpoint)
{
    checkpoint_release(checkpoint);
}

infer_model *infer_checkpoint_model(const infer_checkpoint *checkpoint)
{
    return checkpoint ? checkpoint->frozen->model : NULL;
}

static infer_status info(const infer_checkpoint *c, infer_checkpoint_info *out, infer_error *err)
{
    infer_status st = api_not_null(c, "checkpoint", err);
    if (st == INFER_OK)
        st = API_CHECK_OUT(out, infer_checkpoint_info, err);
    if (st != INFER_OK)
        return st;
    const infer_session *s = c->frozen;
    struct session_kv_use use = session_kv_use(s);
    infer_checkpoint_info i = {.n_ctx = s->n_ctx, .kv_type = s->kv_type, .approximate = session_is_approximate(s),
                               .length = s->length, .computed = s->computed, .kv_bytes = use.bytes,
                               .kv_shared_bytes = use.shared, .kv_mapped_bytes = use.mapped,
                               .logits_rows = s->n_logits_rows, .generating = s->gen.active, .bytes = checkpoint_bytes(c),
                               .kv_recent = s->kv_recent, .adapters = session_set_id(&s->sets, s->sets.current).lo};
    API_PUT_OUT(out, &i);
    return INFER_OK;
}

infer_status infer_checkpoint_get_info(const infer_checkpoint *checkpoint, infer_checkpoint_info *out, infer_error *err)
{
    infer_error e;
    return api_done(err, &e, info(checkpoint, out, &e));
}

infer_status infer_checkpoint_tokens(const infer_checkpoint *checkpoint, uint64_t first, uint64_t count, int32_t *ids,
                                     infer_error *err)
{
    infer_error e;
    infer_status st = api_not_null(checkpoint, "checkpoint", &e);
    return st == INFER_OK ? infer_session_tokens(checkpoint->frozen, first, count, ids, err) : api_done(err, &e, st);
}

static infer_status restore(infer_session *s, const infer_checkpoint *c, infer_error *err)
{
    infer_status st = api_not_null(s, "session", err);
    if (st == INFER_OK)
        st = api_not_null(c, "checkpoint", err);
    return st == INFER_OK ? checkpoint_restore(c, s, err) : st;
}

infer_status infer_session_restore(infer_session *session, const infer_checkpoint *checkpoint, infer_error *err)
{
    infer_error e;
    return api_done_in(api_session_env(session), err, &e, restore(session, checkpoint, &e));
}

static infer_status new_session(const infer_checkpoint *c, infer_session **out, infer_error *err)
{
    infer_status st = api_not_null(c, "checkpoint", err);
    if (st == INFER_OK)
        st = api_not_null(out, "out", err);
    return st == INFER_OK ? session_copy(c->frozen, out, err) : st;
}

infer_status infer_checkpoint_session(const infer_checkpoint *checkpoint, infer_session **out, infer_error *err)
{
    infer_error e;
    return api_done_in(checkpoint ? api_session_env(checkpoint->frozen) : NULL, err, &e, new_session(checkpoint, out, &e));
}
