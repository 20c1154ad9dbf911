/* What tests of state have in common. */
#ifndef STATE_UTIL_H
#define STATE_UTIL_H

#include "ok.h"

static inline infer_session *session_of_model(infer_model *m, int32_t kv_type, uint32_t n_ctx)
{
    infer_session *s;
    infer_session_options o;
    INFER_INIT(&o);
    o.kv_type = kv_type;
    o.n_ctx = n_ctx;
    ok(infer_session_create(m, &o, &s, &error));
    return s;
}

static inline infer_session_info info_of(const infer_session *s)
{
    infer_session_info i;
    INFER_INIT(&i);
    ok(infer_session_get_info(s, &i, &error));
    return i;
}

static inline infer_checkpoint_info about(const infer_checkpoint *c)
{
    infer_checkpoint_info i;
    INFER_INIT(&i);
    ok(infer_checkpoint_get_info(c, &i, &error));
    return i;
}

static inline void step(infer_session *s)
{
    infer_step_item it;
    INFER_INIT(&it);
    it.session = s;
    ok(infer_step(&it, 1, NULL, &error));
}

#endif
