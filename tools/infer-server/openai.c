#include "openai.h"

#include <stdio.h>
#include <string.h>

void openai_fingerprint(const struct server *server, char out[16])
{
    uint8_t f[32];
    out[0] = 0;
    if (infer_model_fingerprint(server->model, INFER_FINGERPRINT_QUICK, f, NULL, NULL) == INFER_OK)
        snprintf(out, 16, "fp_%02x%02x%02x%02x%02x%02x", f[0] ^ f[16], f[1] ^ f[17], f[2] ^ f[18], f[3] ^ f[19], f[4] ^ f[20], f[5] ^ f[21]);
}

bool openai_stream_options(struct call *call, const json_t *body, bool stream, bool *usage)
{
    static const struct param keys[] = {{"include_usage", PARAM_TAKEN}, {"include_obfuscation", PARAM_REFUSED}, {NULL, PARAM_TAKEN}};
    json_t *options = NULL;
    if (!param_object(call, body, "stream_options", &options))
        return false;
    if (!options)
        return true;
    if (!stream)
        return param_wrong(call, "stream_options", "is only allowed when stream is true");
    return params_check_in(call, "stream_options", options, keys) && param_bool(call, options, "stream_options.include_usage", usage);
}

bool openai_service_tier(struct call *call, const json_t *body)
{
    static const char *const tiers[] = {"auto", "default", "flex", "scale", "priority", "fast"};
    const char *tier = NULL;
    if (!param_string(call, body, "service_tier", &tier))
        return false;
    for (size_t i = 0; tier && i < sizeof tiers / sizeof *tiers; i++)
        if (strcmp(tier, tiers[i]) == 0)
            return true;
    return !tier || param_wrong(call, "service_tier", "must be auto, default, flex, scale, priority or fast");
}

json_t *openai_usage(uint64_t prompt, uint64_t cached, uint64_t generated, uint64_t reasoning)
{
    return json_pack("{s:I, s:I, s:I, s:{s:I, s:i}, s:{s:I, s:i, s:i, s:i}}", "prompt_tokens", (json_int_t)prompt, "completion_tokens",
                     (json_int_t)generated, "total_tokens", (json_int_t)(prompt + generated), "prompt_tokens_details", "cached_tokens",
                     (json_int_t)cached, "audio_tokens", 0, "completion_tokens_details", "reasoning_tokens", (json_int_t)reasoning,
                     "audio_tokens", 0, "accepted_prediction_tokens", 0, "rejected_prediction_tokens", 0);
}

void openai_stream_error(struct call *call, int32_t status, const infer_error *err)
{
    const char *text = err && err->text[0] ? err->text : infer_status_message(status);
    json_t *message = text_json(text, strlen(text));
    call_stream_event(call, NULL, json_pack("{s:{s:o, s:s, s:n, s:s}}", "error", "message", message, "type", "server_error", "param",
                                            "code", infer_status_name(status)));
}

bool openai_generates(struct server *server, struct call *call)
{
    if (server->scheduler)
        return true;
    call_error(call, 400, "invalid_request_error", NULL, "model", "model: '%s' makes embeddings only", server->name);
    return false;
}

void openai_cache_header(struct call *call, infer_request *request)
{
    infer_request_info info;
    char text[160];
    INFER_INIT(&info);
    if (infer_request_get_info(request, &info, NULL) != INFER_OK)
        return;
    cache_reason_text(&info, text, sizeof text);
    call_header_add(call, "x-cache-reason", text);
}
