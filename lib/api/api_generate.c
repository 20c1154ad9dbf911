/* Generation: the pull, and the callback form that sits on it. */
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
    return api_done(err, &e, begin(session, options, &e));
}

static infer_status next(infer_session *s, infer_event *event, infer_cancel *cancel, infer_error *err)
{
    infer_event ev;
    infer_status st = api_not_null(s, "session", err);
    if (st == INFER_OK)
        st = API_CHECK_OUT(event, infer_event, err);
    if (st == INFER_OK)
        st = generate_next(s, &ev, cancel, err);
    if (st == INFER_OK)
        API_PUT_OUT(event, &ev);
    return st;
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
        st = begin(s, options, err);
    if (st != INFER_OK)
        return st;
    infer_session *held = infer_session_ref(s); /* the callback may release its own handle */
    do {
        st = generate_next(held, &ev, cancel, err);
        if (st == INFER_OK && callback(user, &ev) != 0 && ev.kind != INFER_EVENT_DONE)
            st = err_set(err, INFER_ERROR_CANCELLED, "stopped by the callback");
    } while (st == INFER_OK && ev.kind != INFER_EVENT_DONE);
    session_release(held);
    return st;
}

infer_status infer_generate(infer_session *session, const infer_generate_options *options, infer_event_fn callback,
                            void *user, infer_cancel *cancel, infer_error *err)
{
    infer_error e;
    return api_done(err, &e, run(session, options, callback, user, cancel, &e));
}
