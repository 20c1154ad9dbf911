/* Schedulers and requests: checks what comes from the host, and makes the session that a request begins with. */
#include "api/api.h"
#include "engine/checkpoint.h"
#include "engine/scheduler_state.h"

static infer_status create(infer_model *model, const infer_scheduler_options *options, infer_scheduler **out, infer_error *err)
{
    infer_scheduler_options o;
    infer_status st = api_not_null(model, "model", err);
    if (st == INFER_OK)
        st = api_not_null(out, "out", err);
    if (st == INFER_OK)
        st = API_IN(options, &o, infer_scheduler_options, err);
    if (st == INFER_OK)
        st = api_text(o.spill_path, o.spill_path_len, &o.spill_path_len, "spill_path", err);
    return st == INFER_OK ? scheduler_create(model, &o, out, err) : st;
}

infer_status infer_scheduler_create(infer_model *model, const infer_scheduler_options *options, infer_scheduler **out, infer_error *err)
{
    infer_error e;
    return api_done_in(api_model_env(model), err, &e, create(model, options, out, &e));
}

infer_scheduler *infer_scheduler_ref(infer_scheduler *scheduler)
{
    return scheduler ? scheduler_ref(scheduler) : NULL;
}

void infer_scheduler_release(infer_scheduler *scheduler)
{
    scheduler_release(scheduler);
}

infer_status infer_scheduler_step(infer_scheduler *scheduler, int32_t *more, infer_cancel *cancel, infer_error *err)
{
    infer_error e;
    infer_status st = api_not_null(scheduler, "scheduler", &e);
    if (st != INFER_OK)
        return api_done(err, &e, st);
    infer_model *model = infer_model_ref(scheduler->model); /* a callback may release the scheduler */
    st = api_done_in(api_model_env(model), err, &e, scheduler_step(scheduler, more, cancel, &e));
    infer_model_release(model);
    return st;
}

infer_status infer_scheduler_wait(infer_scheduler *scheduler, infer_error *err)
{
    infer_error e;
    infer_status st = api_not_null(scheduler, "scheduler", &e);
    if (st == INFER_OK)
        scheduler_wait(scheduler);
    return api_done(err, &e, st);
}

void infer_scheduler_wake(infer_scheduler *scheduler)
{
    if (scheduler)
        scheduler_wake(scheduler);
}

static infer_status get_info(infer_scheduler *s, infer_scheduler_info *out, infer_error *err)
{
    infer_scheduler_info i;
    infer_status st = api_not_null(s, "scheduler", err);
    if (st == INFER_OK)
        st = API_CHECK_OUT(out, infer_scheduler_info, err);
    if (st != INFER_OK)
        return st;
    scheduler_get_info(s, &i);
    API_PUT_OUT(out, &i);
    return INFER_OK;
}

infer_status infer_scheduler_get_info(infer_scheduler *scheduler, infer_scheduler_info *out, infer_error *err)
{
    infer_error e;
    return api_done(err, &e, get_info(scheduler, out, &e));
}

/* ---- Submitting ---- */

#define REQUEST_FLAGS                                                                                                                          \
    ((uint32_t)(INFER_REQUEST_IGNORE_EOS | INFER_REQUEST_SHOW_SPECIAL | INFER_REQUEST_ECHO | INFER_REQUEST_CONTINUE | INFER_REQUEST_KEEP |     \
                INFER_REQUEST_PROMPT_ONLY | INFER_REQUEST_PROMPT_LOGPROBS))

static infer_status bad_field(infer_error *err, const char *field, size_t len, const char *problem)
{
    return err_at(err, INFER_ERROR_ARGUMENT, field, len, ERR_NO_OFFSET, "%s", problem);
}
#define BAD(err, field, problem) bad_field((err), (field), sizeof(field) - 1, (problem))

static infer_status check_options(const infer_request_options *o, infer_request **out, infer_error *err)
{
    int prompts = (o->id_count > 0) + (o->text != NULL) + (o->message_count > 0);
    if (o->flags & ~REQUEST_FLAGS)
        return BAD(err, "flags", "unknown flags");
    if ((o->flags & INFER_REQUEST_CONTINUE) && !o->checkpoint)
        return BAD(err, "checkpoint", "INFER_REQUEST_CONTINUE needs one");
    if (prompts > 1 || (!prompts && !(o->flags & INFER_REQUEST_CONTINUE)))
        return BAD(err, "ids", "a request has exactly one of ids, text and messages");
    if (o->id_count && !o->ids)
        return BAD(err, "ids", "is NULL");
    if (o->prompt_count && !o->prompts)
        return BAD(err, "prompts", "is NULL");
    if (o->prompt_count && o->checkpoint)
        return BAD(err, "prompts", "not with a checkpoint");
    if ((o->flags & INFER_REQUEST_PROMPT_LOGPROBS) && !(o->flags & INFER_REQUEST_ECHO))
        return BAD(err, "flags", "INFER_REQUEST_PROMPT_LOGPROBS needs INFER_REQUEST_ECHO");
    if ((o->flags & INFER_REQUEST_PROMPT_ONLY) && o->n > 1)
        return BAD(err, "n", "without generation there is one choice");
    if (!o->callback && !out)
        return BAD(err, "callback", "is NULL, and so is out: nobody would hear of the request");
    return INFER_OK;
}

static infer_status append_prompt(infer_session *s, const infer_request_options *o, infer_error *err)
{
    infer_status st = INFER_OK;
    for (uint64_t i = 0; i < o->prompt_count && st == INFER_OK; i++)
        st = infer_session_append_adapter(s, o->prompts[i], err);
    if (st != INFER_OK)
        return st;
    if (o->text)
        return infer_session_append_text(s, o->text, o->text_len, o->text_flags, err);
    if (o->message_count)
        return infer_session_append_chat(s, o->messages, o->message_count, o->render, err);
    return infer_session_append(s, o->ids, o->id_count, err);
}

/* An empty session, or with INFER_REQUEST_CONTINUE what the checkpoint holds, under the request's salt and cache flags. */
static infer_status new_session(infer_model *model, const infer_request_options *o, infer_session **out, infer_error *err)
{
    infer_session_options so;
    infer_status st = API_IN(o->session, &so, infer_session_options, err);
    if (st == INFER_OK && o->checkpoint)
        st = checkpoint_check_model(o->checkpoint, model, err);
    if (st != INFER_OK)
        return st;
    if (o->checkpoint) {
        const infer_session *from = o->checkpoint->frozen;
        so.n_ctx = from->n_ctx;
        so.kv_type = from->kv_type;
        so.kv_recent = from->kv_recent;
    }
    st = session_create(model, &so, out, err);
    if (st == INFER_OK && (o->flags & INFER_REQUEST_CONTINUE))
        st = checkpoint_restore(o->checkpoint, *out, err);
    return st;
}

/* What generation needs, begun on the session. */
static infer_status begin(infer_session *s, const infer_request_options *o, uint64_t *max_tokens, infer_error *err)
{
    infer_generate_options g;
    infer_status st = API_IN(o->generate, &g, infer_generate_options, err);
    if (st == INFER_OK)
        st = infer_session_set_sampling(s, o->sampling, err);
    if (st != INFER_OK)
        return st;
    s->gen.active = false; /* an answer that the checkpoint is in the middle of is over */
    *max_tokens = g.max_tokens;
    g.flags = (o->flags & INFER_REQUEST_IGNORE_EOS ? INFER_GENERATE_IGNORE_EOS : 0) | (o->flags & INFER_REQUEST_SHOW_SPECIAL ? INFER_GENERATE_SHOW_SPECIAL : 0);
    return (o->flags & INFER_REQUEST_PROMPT_ONLY) || !s->length ? INFER_OK : generate_begin(s, &g, err);
}

static infer_status submit_session(infer_scheduler *scheduler, const infer_request_options *o, infer_session *s, infer_request **out, infer_error *err)
{
    struct submission sub = {.options = o, .session = s, .prompt_from = s->length};
    infer_status st = INFER_OK;
    if (o->adapter_count || (o->checkpoint && s->sets.wanted))
        st = infer_session_set_adapters(s, o->adapters, o->adapter_count, err);
    if (st == INFER_OK)
        st = append_prompt(s, o, err);
    if (st == INFER_OK && o->checkpoint && !(o->flags & INFER_REQUEST_CONTINUE) && !(o->flags & INFER_REQUEST_PROMPT_LOGPROBS))
        st = session_take_state(s, o->checkpoint->frozen, s->length, err);
    if (st == INFER_OK && (o->flags & INFER_REQUEST_PROMPT_LOGPROBS) && sub.prompt_from) /* the first one's depends on the element before it */
        session_rewind(s, sub.prompt_from - 1);
    sub.cached = s->computed;
    if (st == INFER_OK)
        st = begin(s, o, &sub.max_tokens, err);
    return st == INFER_OK ? scheduler_submit(scheduler, &sub, out, err) : st;
}

static infer_status submit(infer_scheduler *scheduler, const infer_request_options *options, infer_request **out, infer_error *err)
{
    infer_request_options o;
    infer_session *s = NULL;
    infer_status st = api_not_null(scheduler, "scheduler", err);
    if (st == INFER_OK)
        st = api_not_null(options, "options", err);
    if (st == INFER_OK)
        st = API_IN(options, &o, infer_request_options, err);
    if (st == INFER_OK)
        st = check_options(&o, out, err);
    if (st == INFER_OK)
        st = new_session(scheduler->model, &o, &s, err);
    if (st == INFER_OK)
        st = submit_session(scheduler, &o, s, out, err);
    if (st != INFER_OK)
        session_release(s);
    return st;
}

infer_status infer_scheduler_submit(infer_scheduler *scheduler, const infer_request_options *options, infer_request **out, infer_error *err)
{
    infer_error e = {.size = (uint32_t)sizeof e}; /* other exported functions fill it */
    return api_done_in(scheduler ? api_model_env(scheduler->model) : NULL, err, &e, submit(scheduler, options, out, &e));
}

infer_request *infer_request_ref(infer_request *request)
{
    return request ? request_ref(request) : NULL;
}

void infer_request_release(infer_request *request)
{
    request_release(request);
}

void infer_request_cancel(infer_request *request)
{
    if (request)
        request_cancel(request);
}

static infer_status next(infer_request *r, infer_request_event *out, infer_error *err)
{
    infer_request_event ev;
    infer_status st = api_not_null(r, "request", err);
    if (st == INFER_OK)
        st = API_CHECK_OUT(out, infer_request_event, err);
    if (st == INFER_OK)
        st = request_next(r, &ev, err);
    if (st == INFER_OK)
        API_PUT_OUT(out, &ev);
    return st;
}

infer_status infer_request_next(infer_request *request, infer_request_event *out, infer_error *err)
{
    infer_error e;
    return api_done(err, &e, next(request, out, &e));
}

static infer_status request_info(infer_request *r, infer_request_info *out, infer_error *err)
{
    infer_request_info i;
    infer_status st = api_not_null(r, "request", err);
    if (st == INFER_OK)
        st = API_CHECK_OUT(out, infer_request_info, err);
    if (st != INFER_OK)
        return st;
    request_get_info(r, &i);
    API_PUT_OUT(out, &i);
    return INFER_OK;
}

infer_status infer_request_get_info(infer_request *request, infer_request_info *out, infer_error *err)
{
    infer_error e;
    return api_done(err, &e, request_info(request, out, &e));
}

infer_status infer_request_checkpoint(infer_request *request, uint32_t choice, infer_checkpoint **out, infer_error *err)
{
    infer_error e;
    infer_status st = api_not_null(request, "request", &e);
    if (st == INFER_OK)
        st = api_not_null(out, "out", &e);
    const struct env *env = request ? api_model_env(request->scheduler->model) : NULL;
    return api_done_in(env, err, &e, st == INFER_OK ? request_checkpoint(request, choice, out, &e) : st);
}
