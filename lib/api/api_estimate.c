/* Memory planning. */
#include "api/api.h"
#include "engine/engine.h"

static infer_status estimate(infer_engine *engine, const infer_source *source, const infer_open_options *open,
                             const infer_estimate_options *options, infer_estimate *out, infer_error *err)
{
    infer_source s;
    infer_open_options oo;
    infer_estimate_options eo;
    infer_estimate full;
    infer_status st = API_CHECK_OUT(out, infer_estimate, err);
    if (st == INFER_OK)
        st = API_IN(options, &eo, infer_estimate_options, err);
    if (st == INFER_OK)
        st = api_open_args(source, open, &s, &oo, err);
    if (st == INFER_OK)
        st = estimate_model(engine, &s, &oo, &eo, &full, err);
    if (st == INFER_OK)
        API_PUT_OUT(out, &full);
    return st;
}

infer_status infer_model_estimate(infer_engine *engine, const infer_source *source, const infer_open_options *open,
                                  const infer_estimate_options *options, infer_estimate *out, infer_error *err)
{
    infer_error e;
    infer_engine *held = infer_engine_ref(engine); /* a source's callback may release it */
    infer_status st = estimate(engine, source, open, options, out, &e);
    st = api_done_in(api_env(held), err, &e, st);
    infer_engine_release(held);
    return st;
}
