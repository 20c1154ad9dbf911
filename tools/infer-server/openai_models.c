/* GET /v1/models, GET /v1/models/{id}: the model, and its adapters, each of which is a model to clients. */
#include <string.h>

#include "adapters.h"
#include "anthropic.h"
#include "openai.h"
#include "options.h"

static json_t *model_json(const struct server *server, const char *name, bool adapter)
{
    json_t *o = json_pack("{s:s, s:s, s:I, s:s}", "id", name, "object", "model", "created", (json_int_t)server->created, "owned_by", "infer");
    if (adapter) {
        json_object_set_new(o, "parent", json_string(server->name));
        return o;
    }
    json_object_set_new(o, "parent", json_null());
    json_object_set_new(o, "context_length", json_integer(server->options->ctx ? server->options->ctx : server->info.n_ctx_train));
    json_object_set_new(o, "architecture", json_string(server->info.architecture));
    json_object_set_new(o, "parameters", json_integer((json_int_t)server->info.n_params));
    return o;
}

static void list_models(struct server *server, struct call *call)
{
    if (call_api(call) == API_ANTHROPIC) {
        anthropic_list_models(server, call);
        return;
    }
    json_t *data = json_array(), *adapters = adapters_json(server), *a;
    size_t i;
    json_array_append_new(data, model_json(server, server->name, false));
    json_array_foreach (adapters, i, a)
        json_array_append_new(data, model_json(server, json_string_value(json_object_get(a, "name")), true));
    json_decref(adapters);
    call_json(call, 200, json_pack("{s:s, s:o}", "object", "list", "data", data));
}

static void get_model(struct server *server, struct call *call)
{
    if (call_api(call) == API_ANTHROPIC) {
        anthropic_get_model(server, call);
        return;
    }
    const char *name = call_arg(call);
    infer_adapter *adapter = NULL;
    bool base = strcmp(name, server->name) == 0;
    if (!base)
        adapter = adapters_find(server, name);
    if (base || adapter)
        call_json(call, 200, model_json(server, name, !base));
    else
        call_error(call, 404, "invalid_request_error", "model_not_found", "model",
                   "The model '%s' does not exist; this server has '%s' (GET /v1/models lists all names)", name, server->name);
    infer_adapter_release(adapter);
}

const struct route openai_models_routes[] = {
    {"GET", "/v1/models", API_OPENAI, ROUTE_NO_BODY, list_models},
    {"GET", "/v1/models/{id}", API_OPENAI, ROUTE_NO_BODY, get_model},
    {NULL, NULL, API_OPENAI, 0, NULL}};
