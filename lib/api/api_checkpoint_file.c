/* Checkpoint files. */
#include "api/api.h"
#include "base/outfile.h"
#include "engine/checkpoint_file.h"

#include <string.h>

static infer_status bad_option(infer_error *err, const char *name, const char *text)
{
    return err_at(err, INFER_ERROR_ARGUMENT, name, strlen(name), ERR_NO_OFFSET, "%s", text);
}

static infer_status save_options(const infer_save_options *in, struct checkpoint_save_options *out, infer_error *err)
{
    infer_save_options o;
    infer_status st = API_IN(in, &o, infer_save_options, err);
    if (st == INFER_OK)
        st = api_text(o.parent, o.parent_len, &o.parent_len, "parent", err);
    if (st != INFER_OK)
        return st;
    if (o.flags & ~(uint32_t)(INFER_SAVE_ZSTD | INFER_SAVE_FULL_MODEL))
        return bad_option(err, "flags", "unknown flags");
    if (o.level < 0 || o.level > PACK_MAX_LEVEL)
        return bad_option(err, "level", "level must be 1 to 19, or 0");
    bool pack = o.flags & INFER_SAVE_ZSTD;
    *out = (struct checkpoint_save_options){.level = !pack ? 0 : o.level ? o.level : 3, .full_model = o.flags & INFER_SAVE_FULL_MODEL,
                                            .parent = o.parent, .parent_len = o.parent_len};
    return INFER_OK;
}

static infer_status save(const infer_checkpoint *c, const char *path, uint64_t len, const infer_save_options *options,
                         const infer_cancel *cancel, infer_error *err)
{
    struct checkpoint_save_options o;
    infer_status st = api_not_null(c, "checkpoint", err);
    if (st == INFER_OK)
        st = api_not_null(path, "path", err);
    if (st == INFER_OK)
        st = api_text(path, len, &len, "path", err);
    if (st == INFER_OK)
        st = save_options(options, &o, err);
    if (st == INFER_OK)
        st = api_not_cancelled(cancel, err);
    return st == INFER_OK ? checkpoint_save(c, path, len, &o, cancel, err) : st;
}

infer_status infer_checkpoint_save(const infer_checkpoint *checkpoint, const char *path, uint64_t path_len,
                                   const infer_save_options *options, infer_cancel *cancel, infer_error *err)
{
    infer_error e;
    return api_done_in(checkpoint ? api_session_env(checkpoint->frozen) : NULL, err, &e, save(checkpoint, path, path_len, options, cancel, &e));
}

static infer_status open_checked(infer_model *m, const char *path, uint64_t len, const infer_load_options *options,
                                 const infer_cancel *cancel, infer_checkpoint **out, infer_error *err)
{
    infer_load_options o;
    infer_status st = api_not_null(m, "model", err);
    if (st == INFER_OK)
        st = api_not_null(path, "path", err);
    if (st == INFER_OK)
        st = api_not_null(out, "out", err);
    if (st == INFER_OK)
        st = api_text(path, len, &len, "path", err);
    if (st == INFER_OK)
        st = API_IN(options, &o, infer_load_options, err);
    if (st != INFER_OK)
        return st;
    if (o.map < INFER_MAP_AUTO || o.map > INFER_MAP_READ)
        return bad_option(err, "map", "map is not an INFER_MAP_* value");
    if (o.verify < INFER_VERIFY_FIRST_USE || o.verify > INFER_VERIFY_LOAD)
        return bad_option(err, "verify", "verify is not an INFER_VERIFY_* value");
    struct checkpoint_open_options full = {o.map, o.verify == INFER_VERIFY_LOAD, o.adapters};
    st = api_not_cancelled(cancel, err);
    return st == INFER_OK ? checkpoint_open(m, path, len, &full, cancel, out, err) : st;
}

infer_status infer_checkpoint_open(infer_model *model, const char *path, uint64_t path_len, const infer_load_options *options,
                                   infer_cancel *cancel, infer_checkpoint **out, infer_error *err)
{
    infer_error e;
    return api_done_in(api_model_env(model), err, &e, open_checked(model, path, path_len, options, cancel, out, &e));
}

static infer_status clone(infer_engine *engine, const char *from, uint64_t from_len, const char *to, uint64_t to_len,
                          const infer_cancel *cancel, infer_error *err)
{
    infer_status st = api_not_null(from, "from", err);
    if (st == INFER_OK)
        st = api_not_null(to, "to", err);
    if (st == INFER_OK)
        st = api_text(from, from_len, &from_len, "from", err);
    if (st == INFER_OK)
        st = api_text(to, to_len, &to_len, "to", err);
    if (st == INFER_OK)
        st = api_not_cancelled(cancel, err);
    return st == INFER_OK ? outfile_clone(api_env(engine), from, from_len, to, to_len, true, cancel, err) : st;
}

infer_status infer_checkpoint_clone_file(infer_engine *engine, const char *from, uint64_t from_len, const char *to,
                                         uint64_t to_len, infer_cancel *cancel, infer_error *err)
{
    infer_error e;
    return api_done_in(api_env(engine), err, &e, clone(engine, from, from_len, to, to_len, cancel, &e));
}

static infer_status fingerprint(infer_model *m, int32_t kind, uint8_t *out, const infer_cancel *cancel, infer_error *err)
{
    struct model_fingerprint quick;
    struct hash_128 full[2];
    infer_status st = api_not_null(m, "model", err);
    if (st == INFER_OK)
        st = api_not_null(out, "out", err);
    if (st == INFER_OK && kind != INFER_FINGERPRINT_QUICK && kind != INFER_FINGERPRINT_FULL)
        st = bad_option(err, "kind", "kind is not an INFER_FINGERPRINT_* value");
    if (st == INFER_OK)
        st = api_not_cancelled(cancel, err);
    if (st != INFER_OK)
        return st;
    if (kind == INFER_FINGERPRINT_FULL)
        st = model_full_fingerprint(m, cancel, full, err);
    else
        st = model_quick_fingerprint(m, &quick, err);
    if (st == INFER_OK)
        memcpy(out, kind == INFER_FINGERPRINT_FULL ? full : quick.model, 32);
    return st;
}

infer_status infer_model_fingerprint(infer_model *model, int32_t kind, uint8_t out[32], infer_cancel *cancel,
                                     infer_error *err)
{
    infer_error e;
    return api_done_in(api_model_env(model), err, &e, fingerprint(model, kind, out, cancel, &e));
}
