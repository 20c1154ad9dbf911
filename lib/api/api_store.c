/* Named stores of checkpoints. */
#include "api/api.h"
#include "engine/store.h"

static infer_status open_store(infer_engine *engine, const char *path, uint64_t path_len, const infer_store_options *options,
                               infer_store **out, infer_error *err)
{
    infer_store_options o;
    uint64_t len = 0;
    infer_status st = api_not_null(engine, "engine", err);
    if (st == INFER_OK)
        st = api_not_null(out, "out", err);
    if (st == INFER_OK)
        st = api_text(path, path_len, &len, "path", err);
    if (st == INFER_OK)
        st = API_IN(options, &o, infer_store_options, err);
    return st == INFER_OK ? store_open(engine, path, len, &o, out, err) : st;
}

infer_status infer_store_open(infer_engine *engine, const char *path, uint64_t path_len, const infer_store_options *options,
                              infer_store **out, infer_error *err)
{
    infer_error e;
    return api_done_in(api_env(engine), err, &e, open_store(engine, path, path_len, options, out, &e));
}

infer_store *infer_store_ref(infer_store *store)
{
    return store ? store_ref(store) : NULL;
}

void infer_store_release(infer_store *store)
{
    store_release(store);
}

static const struct env *env_of(const infer_store *store)
{
    return store ? store->engine->env : NULL;
}

/* Checks a name; what the caller gave is not copied. */
static infer_status read_name(const char *name, uint64_t name_len, struct store_name *out, infer_error *err)
{
    infer_status st = api_not_null(name, "name", err);
    if (st == INFER_OK)
        st = api_text(name, name_len, &out->len, "name", err);
    out->data = name;
    return st == INFER_OK ? store_check_name(*out, err) : st;
}

static infer_status check_flags(uint32_t flags, infer_error *err)
{
    if (flags & ~STORE_FLAGS)
        return err_at(err, INFER_ERROR_ARGUMENT, "flags", 5, ERR_NO_OFFSET, "unknown flags");
    return INFER_OK;
}

static infer_status put(infer_store *s, const char *name, uint64_t name_len, infer_checkpoint *c, uint32_t flags,
                        const infer_cancel *cancel, infer_error *err)
{
    struct store_name n;
    infer_status st = api_not_null(s, "store", err);
    if (st == INFER_OK)
        st = api_not_null(c, "checkpoint", err);
    if (st == INFER_OK)
        st = read_name(name, name_len, &n, err);
    if (st == INFER_OK)
        st = check_flags(flags, err);
    if (st == INFER_OK)
        st = api_not_cancelled(cancel, err);
    return st == INFER_OK ? s->ops->put(s, n, c, flags, cancel, err) : st;
}

infer_status infer_store_put(infer_store *store, const char *name, uint64_t name_len, infer_checkpoint *checkpoint,
                             uint32_t flags, infer_cancel *cancel, infer_error *err)
{
    infer_error e;
    return api_done_in(env_of(store), err, &e, put(store, name, name_len, checkpoint, flags, cancel, &e));
}

static infer_status get(infer_store *s, infer_model *model, const char *name, uint64_t name_len, const infer_cancel *cancel,
                        infer_checkpoint **out, infer_error *err)
{
    struct store_name n;
    infer_status st = api_not_null(s, "store", err);
    if (st == INFER_OK)
        st = api_not_null(model, "model", err);
    if (st == INFER_OK)
        st = api_not_null(out, "out", err);
    if (st == INFER_OK)
        st = read_name(name, name_len, &n, err);
    if (st == INFER_OK)
        st = api_not_cancelled(cancel, err);
    return st == INFER_OK ? s->ops->get(s, model, n, cancel, out, err) : st;
}

infer_status infer_store_get(infer_store *store, infer_model *model, const char *name, uint64_t name_len,
                             infer_cancel *cancel, infer_checkpoint **out, infer_error *err)
{
    infer_error e;
    return api_done_in(env_of(store), err, &e, get(store, model, name, name_len, cancel, out, &e));
}

static infer_status two_names(infer_store *s, const char *from, uint64_t from_len, const char *to, uint64_t to_len,
                              uint32_t flags, struct store_name names[2], infer_error *err)
{
    infer_status st = api_not_null(s, "store", err);
    if (st == INFER_OK)
        st = read_name(from, from_len, &names[0], err);
    if (st == INFER_OK)
        st = read_name(to, to_len, &names[1], err);
    return st == INFER_OK ? check_flags(flags, err) : st;
}

infer_status infer_store_branch(infer_store *store, const char *from, uint64_t from_len, const char *to, uint64_t to_len,
                                uint32_t flags, infer_error *err)
{
    infer_error e;
    struct store_name n[2];
    infer_status st = two_names(store, from, from_len, to, to_len, flags, n, &e);
    return api_done_in(env_of(store), err, &e, st == INFER_OK ? store->ops->branch(store, n[0], n[1], flags, &e) : st);
}

infer_status infer_store_rename(infer_store *store, const char *from, uint64_t from_len, const char *to, uint64_t to_len,
                                uint32_t flags, infer_error *err)
{
    infer_error e;
    struct store_name n[2];
    infer_status st = two_names(store, from, from_len, to, to_len, flags, n, &e);
    return api_done_in(env_of(store), err, &e, st == INFER_OK ? store->ops->rename(store, n[0], n[1], flags, &e) : st);
}

infer_status infer_store_delete(infer_store *store, const char *name, uint64_t name_len, infer_error *err)
{
    infer_error e;
    struct store_name n;
    infer_status st = api_not_null(store, "store", &e);
    if (st == INFER_OK)
        st = read_name(name, name_len, &n, &e);
    return api_done_in(env_of(store), err, &e, st == INFER_OK ? store->ops->remove(store, n, &e) : st);
}

static infer_status next(infer_store *s, const char *after, uint64_t after_len, infer_store_entry *out, infer_error *err)
{
    struct store_name n = {after, 0};
    infer_store_entry full;
    infer_status st = api_not_null(s, "store", err);
    if (st == INFER_OK)
        st = api_text(after, after_len, &n.len, "after", err);
    if (st == INFER_OK)
        st = API_CHECK_OUT(out, infer_store_entry, err);
    if (st == INFER_OK)
        st = s->ops->next(s, n, &full, err);
    if (st == INFER_OK)
        API_PUT_OUT(out, &full);
    return st;
}

infer_status infer_store_next(infer_store *store, const char *after, uint64_t after_len, infer_store_entry *out,
                              infer_error *err)
{
    infer_error e;
    return api_done_in(env_of(store), err, &e, next(store, after, after_len, out, &e));
}

static infer_status store_info(infer_store *s, infer_store_info *out, infer_error *err)
{
    infer_store_info full = {.size = (uint32_t)sizeof full};
    infer_status st = api_not_null(s, "store", err);
    if (st == INFER_OK)
        st = API_CHECK_OUT(out, infer_store_info, err);
    if (st == INFER_OK)
        st = s->ops->get_info(s, &full, err);
    if (st == INFER_OK)
        API_PUT_OUT(out, &full);
    return st;
}

infer_status infer_store_get_info(infer_store *store, infer_store_info *out, infer_error *err)
{
    infer_error e;
    return api_done_in(env_of(store), err, &e, store_info(store, out, &e));
}
