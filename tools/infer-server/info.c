/* GET /info, /props, /v1/system, /api/version: what is served, how, and on what. */
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "adapters.h"
#include "checkpoints.h"
#include "options.h"
#include "reasoning.h"
#include "sandbox.h"

static const char *numerics_name(int32_t n)
{
    return n == INFER_NUMERICS_PRECISE ? "precise" : n == INFER_NUMERICS_FAST ? "fast" : "exact";
}

static const char *kv_name(int32_t type)
{
    static const char *const names[] = {"f16", "f32", "bf16", "int8", "int8_64", "mixed_f16", "mixed_f32"};
    return type >= 0 && type < (int32_t)(sizeof names / sizeof *names) ? names[type] : "unknown";
}

static const char *pooling_name(int32_t pooling)
{
    static const char *const names[] = {"model", "none", "mean", "cls", "last", "rank"};
    return pooling >= 0 && pooling < (int32_t)(sizeof names / sizeof *names) ? names[pooling] : "unknown";
}

/* NULL becomes null. */
static json_t *text(const char *s)
{
    return s ? json_string(s) : json_null();
}

static uint64_t context(const struct server *s)
{
    return s->encoder ? s->info.embed_tokens : s->options->ctx ? s->options->ctx : s->info.n_ctx_train;
}

static json_t *model_json(const struct server *s)
{
    const infer_model_info *m = &s->info;
    json_t *o = json_pack("{s:s,s:o,s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:b,s:b}", "name", s->name, "title", m->name[0] ? json_string(m->name) : json_null(),
                          "architecture", m->architecture, "parameters", (json_int_t)m->n_params, "weight_bytes", (json_int_t)m->weight_bytes, "layers",
                          (json_int_t)m->n_layer, "width", (json_int_t)m->n_embd, "vocabulary", (json_int_t)m->vocab_size, "trained_context",
                          (json_int_t)m->n_ctx_train, "encoder", s->encoder, "tokenizer", s->tokenizer != NULL);
    (void)json_object_set_new(o, "template", json_string(infer_template_is_fallback(s->tmpl) ? "fallback" : "model"));
    (void)json_object_set_new(o, "pooling", json_string(pooling_name(m->pooling)));
    (void)json_object_set_new(o, "embedding_width", json_integer(m->embedding_width));
    return o;
}

static json_t *features_json(const struct options *o)
{
    return json_pack("{s:b,s:s,s:b,s:b,s:b,s:b,s:b}", "sandbox", o->sandbox != NULL, "isolation", o->isolate ? o->isolate : "none", "hmac", o->hmac_key != NULL, "tls",
                     o->tls_cert != NULL, "keys", o->api_keys.n || o->api_key_file, "cors", o->cors_origin != NULL, "lora_load", o->lora_dir && !o->isolate);
}

static void info(struct server *server, struct call *call)
{
    const struct options *o = server->options;
    infer_engine_info e;
    infer_cache_stats c;
    INFER_INIT(&e);
    INFER_INIT(&c);
    (void)infer_engine_get_info(server->engine, &e, NULL);
    (void)infer_engine_cache_stats(server->engine, &c, NULL);
    json_t *out = json_pack("{s:s,s:i,s:i,s:s}", "version", infer_version(), "abi", infer_abi_version(), "numerics_version", infer_numerics_version(), "numerics",
                            numerics_name(e.numerics));
    (void)json_object_set_new(out, "model", model_json(server));
    (void)json_object_set_new(out, "context", json_integer((json_int_t)context(server)));
    (void)json_object_set_new(out, "kv_type", json_string(kv_name(o->kv_type)));
    (void)json_object_set_new(out, "features", features_json(o));
    (void)json_object_set_new(out, "sandbox", sandbox_json());
    (void)json_object_set_new(out, "limits", json_pack("{s:I,s:I,s:I,s:I,s:I,s:f}", "parallel", (json_int_t)o->parallel, "queue", (json_int_t)o->max_queue,
                                                       "body_bytes", (json_int_t)o->max_body, "connections", (json_int_t)o->max_conns, "timeout_seconds",
                                                       (json_int_t)o->timeout, "requests_per_second", o->rate_limit));
    (void)json_object_set_new(out, "cache", json_pack("{s:I,s:I,s:b,s:I}", "bytes", (json_int_t)c.bytes, "prefixes", (json_int_t)c.nodes, "disk",
                                                      o->kv_dir != NULL, "disk_bytes", (json_int_t)c.disk_bytes));
    call_json(call, 200, out);
}

/* What a chat page wants to know before it asks anything. */
static void props(struct server *server, struct call *call)
{
    const struct options *o = server->options;
    struct reasoning_tags tags = reasoning_of(server->tmpl, server->tokenizer);
    json_t *out = json_pack("{s:s,s:s}", "version", infer_version(), "model", server->name);
    (void)json_object_set_new(out, "chat", json_boolean(!server->encoder && server->tokenizer));
    (void)json_object_set_new(out, "template", json_string(infer_template_is_fallback(server->tmpl) ? "fallback" : "model"));
    (void)json_object_set_new(out, "reasoning", json_boolean(tags.open != NULL));
    (void)json_object_set_new(out, "context", json_integer((json_int_t)context(server)));
    (void)json_object_set_new(out, "checkpoints", json_boolean(!server->encoder && checkpoints_last(server)));
    (void)json_object_set_new(out, "keys", json_boolean(o->api_keys.n || o->api_key_file));
    (void)json_object_set_new(out, "defaults", json_pack("{s:f,s:f,s:i,s:f,s:f}", "temperature", 1.0, "top_p", 1.0, "top_k", 0, "min_p", 0.0,
                                                         "repetition_penalty", 1.0));
    (void)json_object_set_new(out, "adapters", adapters_json(server));
    call_json(call, 200, out);
}

static json_t *scheduler_json(struct server *server)
{
    infer_scheduler_info i;
    INFER_INIT(&i);
    if (!server->scheduler || infer_scheduler_get_info(server->scheduler, &i, NULL) != INFER_OK)
        return json_null();
    return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "active", (json_int_t)i.active, "waiting", (json_int_t)i.waiting, "suspended",
                     (json_int_t)i.suspended, "finished", (json_int_t)i.finished, "cancelled", (json_int_t)i.cancelled, "failed", (json_int_t)i.failed,
                     "prompt_tokens", (json_int_t)i.prompt_tokens, "cached_tokens", (json_int_t)i.cached_tokens, "generated_tokens",
                     (json_int_t)i.generated_tokens, "kv_bytes", (json_int_t)i.kv_bytes, "kv_budget", (json_int_t)i.kv_budget);
}

static json_t *memory_json(struct server *server)
{
    infer_model_memory m;
    infer_engine_info e;
    INFER_INIT(&m);
    INFER_INIT(&e);
    (void)infer_model_get_memory(server->model, &m, NULL);
    (void)infer_engine_get_info(server->engine, &e, NULL);
    json_int_t page = sysconf(_SC_PAGESIZE);
    json_t *o = json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "weight_bytes", (json_int_t)m.weight_bytes, "weight_resident_bytes", (json_int_t)m.resident_bytes,
                          "own_bytes", (json_int_t)m.own_bytes, "kv_bytes", (json_int_t)e.kv_bytes, "memory_bytes", (json_int_t)e.memory_bytes, "memory_peak",
                          (json_int_t)e.memory_peak, "memory_limit", (json_int_t)e.memory_limit);
#ifdef _SC_PHYS_PAGES
    (void)json_object_set_new(o, "total_bytes", json_integer(page * sysconf(_SC_PHYS_PAGES)));
#endif
#ifdef _SC_AVPHYS_PAGES
    (void)json_object_set_new(o, "free_bytes", json_integer(page * sysconf(_SC_AVPHYS_PAGES)));
#endif
    return o;
}

static void system_(struct server *server, struct call *call)
{
    struct utsname u;
    infer_engine_info e;
    INFER_INIT(&e);
    (void)infer_engine_get_info(server->engine, &e, NULL);
    bool known = uname(&u) >= 0;
    json_t *out = json_pack("{s:o,s:o}", "os", text(known ? u.sysname : NULL), "machine", text(known ? u.machine : NULL));
    (void)json_object_set_new(out, "cpu", json_pack("{s:o,s:I}", "variant", text(infer_cpu_name(e.cpu)), "processors",
                                                    (json_int_t)sysconf(_SC_NPROCESSORS_ONLN)));
    (void)json_object_set_new(out, "threads", json_integer(e.threads));
    (void)json_object_set_new(out, "workers", json_integer(server->options->workers));
    (void)json_object_set_new(out, "memory", memory_json(server));
    (void)json_object_set_new(out, "scheduler", scheduler_json(server));
    call_json(call, 200, out);
}

static void version(struct server *server, struct call *call)
{
    (void)server;
    call_json(call, 200, json_pack("{s:s}", "version", infer_version()));
}

const struct route info_routes[] = {
    {"GET", "/info", API_NATIVE, ROUTE_OPEN | ROUTE_NO_BODY, info},
    {"GET", "/props", API_NATIVE, ROUTE_OPEN | ROUTE_NO_BODY, props},
    {"GET", "/v1/system", API_NATIVE, ROUTE_NO_BODY, system_},
    {"GET", "/api/version", API_NATIVE, ROUTE_NO_BODY | ROUTE_QUICK, version},
    {0},
};
