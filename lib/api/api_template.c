/* infer_template_*. */
#include <string.h>

#include "api/api.h"
#include "text/template.h"

infer_status infer_template_parse(infer_engine *engine, const char *text, uint64_t text_len, infer_template **out,
                                  infer_error *err)
{
    infer_error e;
    uint64_t len = 0;
    infer_template *t = NULL;
    infer_status st = api_not_null(out, "out", &e);
    if (st == INFER_OK)
        st = api_text(text, text_len, &len, "text", &e);
    if (st == INFER_OK && len > JINJA_MAX_SOURCE)
        st = err_set(&e, INFER_ERROR_LIMIT, "template is longer than %llu bytes", (unsigned long long)JINJA_MAX_SOURCE);
    if (st == INFER_OK)
        st = template_create(api_env(engine), text ? text : "", (size_t)len, &t, &e);
    if (st == INFER_OK)
        *out = t;
    return api_done_in(api_env(engine), err, &e, st);
}

infer_status infer_template_open(infer_engine *engine, const infer_source *source, const infer_open_options *options,
                                 infer_template **out, infer_error *err)
{
    infer_error e;
    struct infer_file *file = NULL;
    infer_template *t = NULL;
    infer_engine *held = infer_engine_ref(engine); /* a source's callback may release it */
    infer_status st = api_not_null(out, "out", &e);
    if (st == INFER_OK)
        st = api_open_file(engine, source, options, HF_AS_TEXT, &file, &e);
    if (st == INFER_OK)
        st = template_create_from_file(api_env(engine), file, &t, &e);
    file_release(file);
    if (st == INFER_OK)
        *out = t;
    st = api_done_in(api_env(held), err, &e, st);
    infer_engine_release(held);
    return st;
}

infer_template *infer_template_ref(infer_template *tmpl)
{
    return tmpl ? template_ref(tmpl) : NULL;
}

void infer_template_release(infer_template *tmpl)
{
    template_release(tmpl);
}

int32_t infer_template_is_fallback(const infer_template *tmpl)
{
    return tmpl && tmpl->fallback;
}

void infer_template_text(const infer_template *tmpl, const char **text, uint64_t *text_len)
{
    if (text)
        *text = tmpl ? tmpl->text : "";
    if (text_len)
        *text_len = tmpl ? tmpl->len : 0;
}

/* Renders to a buffer of the library's and copies: what a host's buffer holds changes on success only. */
static infer_status render(const infer_template *t, const char *json, uint64_t len, const infer_render_options *o,
                           char *out, uint64_t capacity, uint64_t *out_len, infer_error *err)
{
    struct jinja_options options = {o->now, o->max_output, o->max_steps, o->max_memory, o->cancel};
    struct buf text;
    buf_init(&text, &t->env->alloc, 0);
    infer_status st = template_render(t, json, (size_t)len, &options, &text, err);
    if (st == INFER_OK) {
        *out_len = text.len;
        if (text.len > capacity)
            st = err_set(err, INFER_ERROR_BUFFER, "the rendered text needs %llu bytes", (unsigned long long)text.len);
        else if (text.len)
            memcpy(out, text.data, text.len);
    }
    buf_free(&text);
    return st;
}

infer_status infer_template_render(const infer_template *tmpl, const char *json, uint64_t json_len,
                                   const infer_render_options *options, char *out, uint64_t capacity,
                                   uint64_t *out_len, infer_error *err)
{
    infer_error e;
    infer_render_options o;
    uint64_t len = 0;
    infer_status st = api_not_null(tmpl, "tmpl", &e);
    if (st == INFER_OK)
        st = api_not_null(out_len, "out_len", &e);
    if (st == INFER_OK && capacity)
        st = api_not_null(out, "out", &e);
    if (st == INFER_OK)
        st = api_text(json, json_len, &len, "json", &e);
    if (st == INFER_OK)
        st = API_IN(options, &o, infer_render_options, &e);
    if (st == INFER_OK)
        st = api_not_cancelled(o.cancel, &e);
    if (st == INFER_OK)
        st = render(tmpl, json ? json : "", len, &o, out, capacity, out_len, &e);
    return api_done_in(tmpl ? tmpl->env : NULL, err, &e, st);
}
