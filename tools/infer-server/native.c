#include "native.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "adapters.h"


static void set_flag(void *user)
{
    infer_cancel_set(user);
}

static void release_flag(void *user)
{
    infer_cancel_release(user);
}

infer_cancel *native_cancel(struct call *call)
{
    infer_cancel *cancel;
    infer_error err;
    INFER_INIT(&err);
    infer_status st = infer_cancel_create(&cancel, &err);
    if (st != INFER_OK) {
        call_status(call, st, &err, NULL);
        return NULL;
    }
    call_own(call, cancel, release_flag);
    call_on_close(call, set_flag, cancel);
    return cancel;
}

bool native_ids_text(struct server *server, struct call *call, const char *text, size_t len, const char *param, uint32_t flags, struct native_ids *out)
{
    infer_error err;
    uint64_t capacity = len + 8; /* a token is at least a byte, but for what marks begin and end */
    INFER_INIT(&err);
    *out = (struct native_ids){0};
    if (!native_needs_tokenizer(server, call))
        return false;
    for (;;) {
        out->ids = malloc((size_t)capacity * sizeof *out->ids);
        infer_status st = out->ids ? infer_tokenize(server->tokenizer, text, len, flags, out->ids, capacity, &out->n, &err) : INFER_ERROR_NO_MEMORY;
        if (st == INFER_OK)
            return true;
        free(out->ids);
        out->ids = NULL;
        if (st != INFER_ERROR_BUFFER) {
            call_status(call, st, &err, param);
            return false;
        }
        capacity = out->n;
    }
}

bool native_ids_list(struct server *server, struct call *call, const json_t *list, const char *param, struct native_ids *out)
{
    size_t n = json_array_size(list);
    *out = (struct native_ids){.ids = malloc((n ? n : 1) * sizeof *out->ids), .n = n};
    if (!out->ids) {
        call_error(call, 500, NULL, NULL, NULL, "out of memory");
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        json_int_t id = json_is_integer(v) ? json_integer_value(v) : -1;
        if (id < 0 || id >= (json_int_t)server->info.vocab_size) {
            free(out->ids);
            out->ids = NULL;
            call_error(call, 400, NULL, NULL, param, "%s[%zu] is not a token id: expected an integer from 0 to %u", param, i, server->info.vocab_size - 1);
            return false;
        }
        out->ids[i] = (int32_t)id;
    }
    return true;
}

bool native_ids_read(struct server *server, struct call *call, const json_t *value, const char *param, uint32_t flags, struct native_ids *out)
{
    if (json_is_string(value))
        return native_ids_text(server, call, json_string_value(value), json_string_length(value), param, flags, out);
    if (json_is_array(value))
        return native_ids_list(server, call, value, param, out);
    return param_wrong(call, param, "expected a string or a list of token ids");
}

bool native_text_flags(struct call *call, const json_t *body, uint32_t *flags)
{
    bool add = true, parse = true;
    if (!param_bool(call, body, "add_special", &add) || !param_bool(call, body, "parse_special", &parse))
        return false;
    *flags = (add ? INFER_TOKENIZE_ADD_SPECIAL : 0) | (parse ? INFER_TOKENIZE_PARSE_SPECIAL : 0);
    return true;
}

bool native_encoding(struct call *call, const json_t *body, bool *base64)
{
    const char *name = "float";
    if (!param_string(call, body, "encoding_format", &name))
        return false;
    *base64 = !strcmp(name, "base64");
    if (*base64 || !strcmp(name, "float"))
        return true;
    return param_wrong(call, "encoding_format", "expected \"float\" or \"base64\"");
}

bool native_model(struct server *server, struct call *call, const json_t *body)
{
    const char *name = server->name;
    if (!param_string(call, body, "model", &name))
        return false;
    if (!strcmp(name, server->name))
        return true;
    infer_adapter *adapter = adapters_find(server, name);
    if (adapter)
        call_error(call, 400, NULL, NULL, "model", "model: adapters take no part here; the model is %s", server->name);
    else
        call_error(call, 404, NULL, "model_not_found", "model", "the model `%s` does not exist; this server has %s", name, server->name);
    infer_adapter_release(adapter);
    return false;
}

bool native_needs_decoder(struct server *server, struct call *call)
{
    if (!server->encoder)
        return true;
    call_error(call, 400, NULL, "model_not_supported", "model", "%s is an encoder: only embeddings can be asked of it", server->name);
    return false;
}

bool native_needs_tokenizer(struct server *server, struct call *call)
{
    if (server->tokenizer)
        return true;
    call_error(call, 400, NULL, "model_not_supported", "model", "%s has no tokenizer that is known (%s): use token ids", server->name,
               server->info.tokenizer_problem);
    return false;
}

void native_put_floats(struct bytes *out, const float *x, size_t n, bool base64)
{
    if (base64) {
        /* In pieces of whole triples of bytes, so that the padding comes at the end only. */
        enum { PIECE = 1536 };
        const unsigned char *p = (const unsigned char *)x;
        char text[PIECE / 3 * 4 + 1];
        bytes_puts(out, "\"");
        for (size_t left = n * sizeof *x; left;) {
            size_t now = left < PIECE ? left : PIECE;
            bytes_puts(out, sodium_bin2base64(text, sizeof text, p, now, sodium_base64_VARIANT_ORIGINAL));
            p += now;
            left -= now;
        }
        bytes_puts(out, "\"");
        return;
    }
    bytes_puts(out, "[");
    for (size_t i = 0; i < n; i++) {
        char number[32];
        int len = snprintf(number, sizeof number, "%s%.9g", i ? "," : "", (double)x[i]);
        bytes_put(out, number, (size_t)len);
    }
    bytes_puts(out, "]");
}

static int dump_to(const char *data, size_t len, void *user)
{
    bytes_put(user, data, len);
    return ((struct bytes *)user)->failed ? -1 : 0;
}

void native_put_json(struct bytes *out, json_t *value)
{
    if (!value || json_dump_callback(value, dump_to, out, JSON_COMPACT | JSON_ENCODE_ANY) != 0)
        out->failed = true;
    json_decref(value);
}

void native_answer(struct call *call, struct bytes *body)
{
    if (body->failed)
        call_error(call, 500, NULL, NULL, NULL, "out of memory");
    else
        call_bytes(call, 200, "application/json", body->data, body->len);
    bytes_free(body);
}

json_t *native_required(struct call *call, const json_t *body, const char *name)
{
    json_t *v = json_object_get(body, name);
    if (v && !json_is_null(v))
        return v;
    (void)param_wrong(call, name, "this is required");
    return NULL;
}

static json_t *byte_list(const char *bytes, size_t len)
{
    json_t *list = json_array();
    for (size_t i = 0; i < len; i++)
        (void)json_array_append_new(list, json_integer((unsigned char)bytes[i]));
    return list;
}

json_t *native_token(struct server *server, int32_t id)
{
    infer_token_info t;
    INFER_INIT(&t);
    json_t *o = json_pack("{s:i}", "id", (int)id);
    if (!server->tokenizer || infer_tokenizer_token(server->tokenizer, id, &t, NULL) != INFER_OK)
        return o;
    bool control = t.kind == INFER_TOKEN_CONTROL || t.kind == INFER_TOKEN_UNKNOWN;
    const char *text = control ? t.piece : t.bytes;
    size_t len = (size_t)(control ? t.piece_len : t.bytes_len);
    (void)json_object_set_new(o, "text", text_json(text, len));
    json_t *plain = json_stringn(text, len); /* jansson checks it */
    json_decref(plain);
    if (!plain)
        (void)json_object_set_new(o, "bytes", byte_list(text, len));
    return o;
}

json_t *native_token_logprob(struct server *server, int32_t id, bool has_logprob, float logprob, const infer_logprob *top, uint32_t top_count)
{
    json_t *o = native_token(server, id);
    (void)json_object_set_new(o, "logprob", has_logprob ? json_real((double)logprob) : json_null());
    if (!top_count)
        return o;
    json_t *list = json_array();
    for (uint32_t i = 0; i < top_count; i++) {
        json_t *alternative = native_token(server, top[i].id);
        (void)json_object_set_new(alternative, "logprob", json_real((double)top[i].logprob));
        (void)json_array_append_new(list, alternative);
    }
    (void)json_object_set_new(o, "top", list);
    return o;
}

json_t *native_cache(struct call *call, const infer_request_info *info)
{
    char text[192], *semicolon;
    cache_reason_text(info, text, sizeof text);
    call_header_add(call, "x-cache-reason", text);
    json_t *o = json_pack("{s:s,s:I,s:I}", "text", text, "reused", (json_int_t)info->cached_tokens, "prompt", (json_int_t)info->prompt_tokens);
    semicolon = strchr(text, ';');
    if (semicolon)
        *semicolon = 0;
    (void)json_object_set_new(o, "reason", json_string(text));
    if (info->near_length) {
        (void)json_object_set_new(o, "near_length", json_integer((json_int_t)info->near_length));
        (void)json_object_set_new(o, "difference", json_integer((json_int_t)info->difference));
    }
    return o;
}

infer_session *native_session(struct server *server, struct call *call, const struct params *p)
{
    infer_request_options o;
    infer_session_options so;
    infer_session *session = NULL;
    infer_error err;
    INFER_INIT(&err);
    params_request(server, call, p, &o, &so);
    infer_status st = infer_session_create(server->model, &so, &session, &err);
    if (st == INFER_OK && p->checkpoint)
        st = infer_session_restore(session, p->checkpoint, &err);
    if (st == INFER_OK && (p->n_adapters || p->checkpoint)) /* in place of the checkpoint's */
        st = infer_session_set_adapters(session, p->adapters, p->n_adapters, &err);
    for (uint32_t i = 0; st == INFER_OK && i < p->n_prompts; i++)
        st = infer_session_append_adapter(session, p->prompts[i], &err);
    if (st == INFER_OK)
        return session;
    infer_session_release(session);
    call_status(call, st, &err, NULL);
    return NULL;
}

json_t *native_session_cache(struct call *call, const infer_session *session, uint64_t held, uint64_t length)
{
    infer_cache_report report;
    infer_request_info info;
    INFER_INIT(&report);
    INFER_INIT(&info);
    if (infer_session_cache_report(session, &report, NULL) != INFER_OK)
        return json_null();
    info.cache_reason = report.reason;
    info.own_reason = report.own_reason;
    info.prompt_tokens = length;
    info.cached_tokens = held + report.reused;
    info.near_length = report.near_length;
    info.difference = report.difference;
    return native_cache(call, &info);
}
