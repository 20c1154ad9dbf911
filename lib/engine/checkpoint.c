/* Checkpoints: a session's whole state, frozen. It is held as a session that nobody steps, so that everything is shared, and the same code
 * copies it out again. */
#include "engine/checkpoint.h"

infer_status checkpoint_create(const infer_session *s, infer_checkpoint **out, infer_error *err)
{
    infer_session *frozen = NULL;
    infer_status st = session_copy(s, &frozen, err);
    if (st == INFER_OK)
        st = checkpoint_wrap(frozen, out, err);
    if (st != INFER_OK)
        session_release(frozen);
    return st;
}

infer_status checkpoint_wrap(infer_session *frozen, infer_checkpoint **out, infer_error *err)
{
    infer_engine *engine = frozen->model->engine;
    infer_checkpoint *c;
    do
        c = mem_zalloc(&engine->env->alloc, sizeof *c);
    while (!c && prefix_give_way(engine));
    if (!c)
        return err_no_memory(err);
    ref_init(&c->ref);
    c->frozen = frozen;
    *out = c;
    return INFER_OK;
}

infer_checkpoint *checkpoint_ref(infer_checkpoint *c)
{
    ref_get(&c->ref);
    return c;
}

void checkpoint_release(infer_checkpoint *c)
{
    if (!c || !ref_put(&c->ref))
        return;
    infer_session *frozen = c->frozen;
    mem_free(&frozen->model->engine->env->alloc, c);
    session_release(frozen);
}

infer_status checkpoint_check_model(const infer_checkpoint *c, const infer_model *model, infer_error *err)
{
    if (model && model != c->frozen->model)
        return err_at(err, INFER_ERROR_ARGUMENT, "model", 5, ERR_NO_OFFSET, "the checkpoint belongs to another model");
    return INFER_OK;
}

uint64_t checkpoint_bytes(const infer_checkpoint *c)
{
    const infer_session *s = c->frozen;
    const struct hparams *h = &s->model->net->h;
    return session_kv_use(s).bytes + s->length * sizeof *s->elements + s->n_rows * ((uint64_t)h->n_embd * 4 + 16) +
           s->n_logits_rows * ((uint64_t)h->n_logits * 4 + 8) + sizeof *s + (s->gen.stops ? stops_bytes(s->gen.stops) : 0);
}

infer_status checkpoint_restore(const infer_checkpoint *c, infer_session *s, infer_error *err)
{
    infer_session *copy = NULL;
    infer_status st = checkpoint_check_model(c, s->model, err);
    if (st == INFER_OK)
        st = session_copy(c->frozen, &copy, err);
    if (st != INFER_OK)
        return st;
    session_swap(s, copy);
    /* Who may share with the session is the session's own, also when what it leaves behind now goes to the cache. */
    struct prefix own = copy->prefix;
    own.kept = own.asked = 0;
    s->prefix = own;
    session_release(copy); /* what s was */
    return INFER_OK;
}
