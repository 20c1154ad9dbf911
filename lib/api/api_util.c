#include "api/api.h"
#include "base/budget.h"
#include "base/cancel.h"
#include "engine/engine.h"
#include "kernels/quantise.h"

#include <string.h>

/* Copies a text field as far as it lies within size bytes; what is cut ends in a zero. */
static void put_text(char *host, const char *local, size_t offset, size_t field, uint32_t size)
{
    size_t room = size > offset ? size - offset : 0;
    if (room > field)
        room = field;
    if (!room)
        return;
    memcpy(host + offset, local + offset, room);
    host[offset + room - 1] = 0;
}

infer_status api_done(infer_error *host, const infer_error *local, infer_status st)
{
    if (st == INFER_OK || !host)
        return st;
    uint32_t size = host->size;
    if (size < API_END(infer_error, code) || size > API_MAX_STRUCT)
        return st;
    host->code = st;
    if (size >= API_END(infer_error, offset))
        host->offset = local->offset;
    put_text((char *)host, (const char *)local, offsetof(infer_error, file), sizeof local->file, size);
    put_text((char *)host, (const char *)local, offsetof(infer_error, name), sizeof local->name, size);
    put_text((char *)host, (const char *)local, offsetof(infer_error, text), sizeof local->text, size);
    if (size > sizeof *local)
        memset((char *)host + sizeof *local, 0, size - sizeof *local);
    return st;
}

infer_status api_done_in(const struct env *env, infer_error *host, infer_error *local, infer_status st)
{
    if (st == INFER_ERROR_NO_MEMORY && env)
        budget_explain(env->budget, local);
    return api_done(host, local, st);
}

infer_status api_let_go(infer_session *held, infer_error *local, infer_status st)
{
    if (st == INFER_ERROR_NO_MEMORY)
        budget_explain(api_session_env(held)->budget, local);
    session_release(held);
    return st;
}

const struct env *api_session_env(const infer_session *session)
{
    return session ? session->model->engine->env : NULL;
}

const struct env *api_model_env(const infer_model *model)
{
    return model ? model->engine->env : NULL;
}

static infer_status bad_argument(infer_error *err, const char *what, const char *problem)
{
    return err_at(err, INFER_ERROR_ARGUMENT, what, strlen(what), ERR_NO_OFFSET, "%s: %s", what, problem);
}

infer_status api_not_null(const void *p, const char *what, infer_error *err)
{
    return p ? INFER_OK : bad_argument(err, what, "must not be NULL");
}

infer_status api_not_cancelled(const infer_cancel *cancel, infer_error *err)
{
    return cancel_is_set(cancel) ? err_set(err, INFER_ERROR_CANCELLED, "cancelled before it began") : INFER_OK;
}

static infer_status check_size(const void *host, uint32_t min, uint32_t *size, const char *what, infer_error *err)
{
    memcpy(size, host, sizeof *size);
    if (*size < min)
        return bad_argument(err, what, *size ? "its size field is too small" : "its size field is 0; use INFER_INIT");
    if (*size > API_MAX_STRUCT)
        return bad_argument(err, what, "its size field is not plausible; use INFER_INIT");
    return INFER_OK;
}

infer_status api_in_struct(const void *in, uint32_t min, uint32_t reserved, void *full, uint32_t full_size, const char *what,
                           infer_error *err)
{
    uint32_t size, zero = 0;
    memset(full, 0, full_size);
    if (in) {
        infer_status st = check_size(in, min, &size, what, err);
        if (st != INFER_OK)
            return st;
        for (uint32_t i = full_size; i < size; i++)
            if (((const char *)in)[i])
                return bad_argument(err, what, "a field is set that this version of the library does not know");
        memcpy(full, in, size < full_size ? size : full_size);
        if (reserved && memcmp((const char *)full + reserved, &zero, sizeof zero) != 0)
            return err_at(err, INFER_ERROR_ARGUMENT, "reserved", 8, ERR_NO_OFFSET, "%s: reserved must be 0", what);
    }
    memcpy(full, &full_size, sizeof full_size);
    return INFER_OK;
}

infer_status api_check_out(const void *out, uint32_t min, const char *what, infer_error *err)
{
    uint32_t size;
    return out ? check_size(out, min, &size, what, err) : bad_argument(err, what, "must not be NULL");
}

void api_put_out(void *out, const void *full, uint32_t full_size)
{
    uint32_t size;
    memcpy(&size, out, sizeof size);
    if (size > full_size)
        memset((char *)out + full_size, 0, size - full_size);
    memcpy(out, full, size < full_size ? size : full_size);
    memcpy(out, &size, sizeof size);
}

infer_status api_text(const char *s, uint64_t len, uint64_t *out_len, const char *what, infer_error *err)
{
    if (!s && len && len != INFER_ZSTR)
        return bad_argument(err, what, "is NULL, but its length is not 0");
    if (len != INFER_ZSTR)
        *out_len = len;
    else
        *out_len = s ? strlen(s) : 0;
    return INFER_OK;
}

const struct env *api_env(const infer_engine *engine)
{
    return engine_env(engine);
}

infer_status api_open_args(const infer_source *source, const infer_open_options *options, infer_source *src,
                           infer_open_options *opt, infer_error *err)
{
    infer_status st = api_not_null(source, "infer_source", err);
    if (st == INFER_OK)
        st = API_IN(source, src, infer_source, err);
    if (st == INFER_OK)
        st = API_IN(options, opt, infer_open_options, err);
    if (st == INFER_OK)
        st = api_text(src->name, src->name_len, &src->name_len, "infer_source", err);
    if (st == INFER_OK && (opt->map < INFER_MAP_AUTO || opt->map > INFER_MAP_READ))
        st = bad_argument(err, "infer_open_options", "map is not an INFER_MAP_* value");
    if (st == INFER_OK && opt->quantise && !quantise_of(opt->quantise))
        st = bad_argument(err, "infer_open_options", "quantise is not a type that matrices can be quantised to");
    return st == INFER_OK ? api_not_cancelled(opt->cancel, err) : st;
}

infer_status api_open_file(const infer_engine *engine, const infer_source *source, const infer_open_options *options,
                           enum hf_use use, struct infer_file **out, infer_error *err)
{
    infer_source src;
    infer_open_options opt;
    infer_status st = api_open_args(source, options, &src, &opt, err);
    struct hf_options how = {use, opt.map, opt.cancel, NULL};
    return st == INFER_OK ? hf_open(api_env(engine), &src, &how, out, err) : st;
}
