/* Generation: the pull, and the callback form that sits on it. Scoring. */
#include "api/api.h"
#include "engine/engine.h"

static infer_status begin(infer_session *s, const infer_generate_options *options, infer_error *err)
{
    infer_generate_options o;
    infer_status st = api_not_null(s, "session", err);
    if (st == INFER_OK)
        st = API_IN(options, &o, infer_generate_options, err);
    return st == INFER_OK ? generate_begin(s, &o, err) : st;
}

infer_status infer_generate_begin(infer_session *session, const infer_generate_options *options, infer_error *err)
{
    infer_error e;
    return api_done_in(api_session_env(session), err, &e, begin(session, options, &e));
}

static infer_status next(infer_session *s, infer_event *event, infer_cancel *cancel, infer_error *err)
{
    infer_event ev;
    infer_status st = api_not_null(s, "session", err);
    if (st == INFER_OK)
        st = API_CHECK_OUT(event, infer_event, err);
    if (st != INFER_OK)
        return st;
    infer_session *held = infer_session_ref(s); /* a logits callback may release its own handle */
    st = generate_next(held, &ev, cancel, err);
    if (st == INFER_OK)
        API_PUT_OUT(event, &ev);
    return api_let_go(held, err, st);
}

infer_status infer_generate_next(infer_session *session, infer_event *event, infer_cancel *cancel, infer_error *err)
{
    infer_error e;
    return api_done(err, &e, next(session, event, cancel, &e));
}

static infer_status run(infer_session *s, const infer_generate_options *options, infer_event_fn callback, void *user,
                        infer_cancel *cancel, infer_error *err)
{
    infer_event ev;
    infer_status st = api_not_null((const void *)(uintptr_t)callback, "callback", err);
    if (st == INFER_OK)
        st = api_not_null(s, "session", err);
    if (st != INFER_OK)
        return st;
    infer_session *held = infer_session_ref(s); /* the callback may release its own handle */
    ev.kind = 0;
    st = begin(held, options, err);
    while (st == INFER_OK && ev.kind != INFER_EVENT_DONE) {
        st = generate_next(held, &ev, cancel, err);
        if (st == INFER_OK && callback(user, &ev) != 0) /* at DONE too: a host that could not take the last text says so here */
            st = err_set(err, INFER_ERROR_CANCELLED, "stopped by the callback");
    }
    return api_let_go(held, err, st);
}

infer_status infer_generate(infer_session *session, const infer_generate_options *options, infer_event_fn callback,
                            void *user, infer_cancel *cancel, infer_error *err)
{
    infer_error e;
    return api_done(err, &e, run(session, options, callback, user, cancel, &e));
}

static infer_status score_ids(infer_session *s, const int32_t *ids, uint64_t count, infer_score *out, infer_cancel *cancel, infer_error *err)
{
    infer_score o;
    infer_status st = api_not_null(s, "session", err);
    if (st == INFER_OK)
        st = api_not_null(out, "infer_score", err);
    if (st == INFER_OK)
        st = API_IN(out, &o, infer_score, err);
    if (st == INFER_OK && count)
        st = api_not_null(ids, "ids", err);
    if (st == INFER_OK && o.top_logprobs > SAMPLER_MAX_TOP)
        st = err_at(err, INFER_ERROR_ARGUMENT, "top_logprobs", 12, ERR_NO_OFFSET, "top_logprobs: at most %u", SAMPLER_MAX_TOP);
    if (st == INFER_OK)
        st = api_not_cancelled(cancel, err);
    if (st == INFER_OK)
        st = session_score(s, ids, count, &o, cancel, err);
    if (st == INFER_OK)
        API_PUT_OUT(out, &o);
    return st;
}

infer_status infer_session_score(infer_session *session, const int32_t *ids, uint64_t count, infer_score *score, infer_cancel *cancel, infer_error *err)
{
    infer_error e;
    return api_done_in(api_session_env(session), err, &e, score_ids(session, ids, count, score, cancel, &e));
}
