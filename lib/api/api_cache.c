/* The prefix cache, as hosts see it. */
#include "api/api.h"
#include "engine/engine.h"
#include "kv/kv_spill.h"

static infer_status cache_report(const infer_session *s, infer_cache_report *out, infer_error *err)
{
    infer_status st = api_not_null(s, "session", err);
    if (st == INFER_OK)
        st = API_CHECK_OUT(out, infer_cache_report, err);
    if (st == INFER_OK)
        API_PUT_OUT(out, &s->prefix.report);
    return st;
}

infer_status infer_session_cache_report(const infer_session *session, infer_cache_report *out, infer_error *err)
{
    infer_error e;
    return api_done(err, &e, cache_report(session, out, &e));
}

static infer_status cache_stats(infer_engine *engine, infer_cache_stats *out, infer_error *err)
{
    infer_status st = api_not_null(engine, "engine", err);
    if (st == INFER_OK)
        st = API_CHECK_OUT(out, infer_cache_stats, err);
    if (st != INFER_OK)
        return st;
    struct kv_cache_stats k = {0};
    struct kv_spill_stats d;
    prefix_disk_get_stats(engine, &d);
    if (engine->cache)
        kv_cache_get_stats(engine->cache, &k);
    infer_cache_stats full = {.size = (uint32_t)sizeof full, .lookups = k.lookups, .hits = k.hits,
                              .partial_hits = k.partial_hits, .saved = k.saved, .rerun = k.rerun,
                              .insertions = k.insertions, .evictions = k.evictions, .bytes = k.bytes, .nodes = k.nodes,
                              .ghosts = k.ghosts, .ghost_bytes = k.ghost_bytes, .disk_files = d.files, .disk_bytes = d.bytes,
                              .disk_written = d.written, .disk_skipped = d.skipped, .disk_loaded = d.loaded,
                              .disk_damaged = d.damaged};
    API_PUT_OUT(out, &full);
    return INFER_OK;
}

infer_status infer_engine_cache_stats(infer_engine *engine, infer_cache_stats *out, infer_error *err)
{
    infer_error e;
    return api_done(err, &e, cache_stats(engine, out, &e));
}

infer_status infer_engine_cache_flush(infer_engine *engine, infer_cancel *cancel, infer_error *err)
{
    infer_error e;
    infer_status st = api_not_null(engine, "engine", &e);
    if (st == INFER_OK)
        st = api_not_cancelled(cancel, &e);
    return api_done_in(api_env(engine), err, &e, st == INFER_OK ? prefix_disk_flush(engine, cancel, &e) : st);
}

infer_status infer_engine_cache_clear(infer_engine *engine, infer_error *err)
{
    infer_error e;
    infer_status st = api_not_null(engine, "engine", &e);
    if (st == INFER_OK && engine->cache)
        kv_cache_drop(engine->cache, NULL);
    return api_done(err, &e, st);
}
