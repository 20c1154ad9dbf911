/* Context shift and graft. */
#include "api/api.h"
#include "engine/checkpoint.h"

infer_status infer_session_shift(infer_session *session, uint64_t keep, uint64_t drop, infer_error *err)
{
    infer_error e;
    infer_status st = api_not_null(session, "session", &e);
    return api_done_in(api_session_env(session), err, &e, st == INFER_OK ? session_shift(session, keep, drop, NULL, &e) : st);
}

infer_status infer_session_graft(infer_session *session, const infer_checkpoint *checkpoint, uint64_t first, uint64_t count,
                                 uint64_t recompute, uint64_t *rerun, infer_cancel *cancel, infer_error *err)
{
    infer_error e;
    infer_status st = api_not_null(session, "session", &e);
    if (st == INFER_OK)
        st = api_not_null(checkpoint, "checkpoint", &e);
    if (st == INFER_OK)
        st = api_not_cancelled(cancel, &e);
    return api_done_in(api_session_env(session), err, &e, st == INFER_OK ? session_graft(session, checkpoint, first, count, recompute, rerun, cancel, &e) : st);
}
