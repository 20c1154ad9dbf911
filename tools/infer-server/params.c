#include "params.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "adapters.h"
#include "checkpoints.h"
#include "options.h"

#define SEED_BITS 53 /* random seeds are numbers that every JSON reader keeps exactly */

/* ---- Fields -------------------------------------------------------------------------------------------------------- */

bool param_wrong(struct call *call, const char *name, const char *format, ...)
{
    char reason[512];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    call_error(call, 400, "invalid_request_error", NULL, name, "%s: %s", name, reason);
    return false;
}

/* NULL: absent or null. */
static json_t *field(const json_t *body, const char *name)
{
    const char *dot = strrchr(name, '.');
    json_t *v = json_object_get(body, dot ? dot + 1 : name);
    return json_is_null(v) ? NULL : v;
}

bool param_int(struct call *call, const json_t *body, const char *name, int64_t min, int64_t max, int64_t *out)
{
    const json_t *v = field(body, name);
    if (!v)
        return true;
    if (!json_is_integer(v))
        return param_wrong(call, name, "must be an integer");
    if (json_integer_value(v) < min || json_integer_value(v) > max)
        return param_wrong(call, name, "must be from %lld to %lld", (long long)min, (long long)max);
    *out = json_integer_value(v);
    return true;
}

bool param_uint(struct call *call, const json_t *body, const char *name, uint64_t min, uint64_t max, uint64_t *out)
{
    int64_t v = -1;
    if (!param_int(call, body, name, (int64_t)min, max > INT64_MAX ? INT64_MAX : (int64_t)max, &v))
        return false;
    if (v >= 0)
        *out = (uint64_t)v;
    return true;
}

static bool check_number(struct call *call, const json_t *v, const char *name, double min, double max, double *out)
{
    if (!json_is_number(v))
        return param_wrong(call, name, "must be a number");
    double x = json_number_value(v);
    if (!(x >= min && x <= max))
        return param_wrong(call, name, "must be from %g to %g", min, max);
    *out = x;
    return true;
}

bool param_number(struct call *call, const json_t *body, const char *name, double min, double max, double *out)
{
    const json_t *v = field(body, name);
    return !v || check_number(call, v, name, min, max, out);
}

static bool param_float(struct call *call, const json_t *body, const char *name, double min, double max, float *out)
{
    double x = (double)*out;
    bool ok = param_number(call, body, name, min, max, &x);
    *out = (float)x;
    return ok;
}

bool param_bool(struct call *call, const json_t *body, const char *name, bool *out)
{
    const json_t *v = field(body, name);
    if (v && !json_is_boolean(v))
        return param_wrong(call, name, "must be true or false");
    if (v)
        *out = json_is_true(v);
    return true;
}

bool param_string(struct call *call, const json_t *body, const char *name, const char **out)
{
    const json_t *v = field(body, name);
    if (v && !json_is_string(v))
        return param_wrong(call, name, "must be a string");
    if (v)
        *out = json_string_value(v);
    return true;
}

bool param_object(struct call *call, const json_t *body, const char *name, json_t **out)
{
    json_t *v = field(body, name);
    if (v && !json_is_object(v))
        return param_wrong(call, name, "must be an object");
    if (v)
        *out = v;
    return true;
}

bool param_array(struct call *call, const json_t *body, const char *name, json_t **out)
{
    json_t *v = field(body, name);
    if (v && !json_is_array(v))
        return param_wrong(call, name, "must be an array");
    if (v)
        *out = v;
    return true;
}

/* ---- Which keys there are ------------------------------------------------------------------------------------------ */

static const char *const common_keys[] = {
    "model", "stream", "n", "temperature", "top_p", "top_k", "min_p", "typical_p", "seed", "presence_penalty",
    "frequency_penalty", "repetition_penalty", "logit_bias", "stop", "priority", "timeout", "repetition_guard",
    "adapters", "checkpoint", "salt"};

static bool is_common(const char *key)
{
    for (size_t i = 0; i < sizeof common_keys / sizeof *common_keys; i++)
        if (strcmp(key, common_keys[i]) == 0)
            return true;
    return false;
}

/* Values of a refused parameter that ask for nothing. */
static bool asks_nothing(const json_t *v)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    if (json_is_null(v) || json_is_false(v))
        return true;
    if (json_is_string(v))
        return strcmp(json_string_value(v), "none") == 0;
    if (json_is_array(v)) {
        const char *only = json_string_value(json_array_get(v, 0));
        return json_array_size(v) == 0 || (json_array_size(v) == 1 && only && strcmp(only, "text") == 0);
    }
    return json_is_object(v) && (json_object_size(v) == 0 || (json_object_size(v) == 1 && type && strcmp(type, "text") == 0));
}

static bool check(struct call *call, const char *where, const json_t *body, const struct param *table, bool common)
{
    const char *key;
    char name[128];
    json_t *v;
    json_object_foreach ((json_t *)body, key, v) {
        const struct param *p = table;
        if (common && is_common(key))
            continue;
        while (p->name && strcmp(p->name, key) != 0)
            p++;
        const char *shown = key;
        if (where) {
            snprintf(name, sizeof name, "%s.%s", where, key);
            shown = name;
        }
        if (!p->name) {
            call_error(call, 400, "invalid_request_error", "unknown_parameter", shown, "%s: unknown parameter", shown);
            return false;
        }
        if (p->use == PARAM_REFUSED && !asks_nothing(v)) {
            call_error(call, 400, "invalid_request_error", "unsupported_parameter", shown, "%s: this server does not support it", shown);
            return false;
        }
    }
    return true;
}

bool params_check(struct call *call, const json_t *body, const struct param *table, bool common)
{
    return check(call, NULL, body, table, common);
}

bool params_check_in(struct call *call, const char *where, const json_t *object, const struct param *table)
{
    return check(call, where, object, table, false);
}

/* ---- Sampling ------------------------------------------------------------------------------------------------------ */

static bool read_seed(struct call *call, const json_t *body, infer_sampling *s)
{
    int64_t seed = -1;
    if (field(body, "seed")) {
        if (!param_int(call, body, "seed", INT64_MIN, INT64_MAX, &seed))
            return false;
        s->seed = (uint64_t)seed;
        return true;
    }
    if (getrandom(&s->seed, sizeof s->seed, 0) != (ssize_t)sizeof s->seed) {
        call_error(call, 500, NULL, NULL, NULL, "the system gave no random seed");
        return false;
    }
    s->seed >>= 64 - SEED_BITS;
    return true;
}

static bool read_sampling(struct call *call, const json_t *body, infer_sampling *s)
{
    int64_t top_k = 0;
    INFER_INIT(s);
    s->temperature = 1;
    s->top_p = 1;
    bool ok = param_float(call, body, "temperature", 0, 2, &s->temperature) && param_float(call, body, "top_p", 0, 1, &s->top_p) &&
              param_float(call, body, "min_p", 0, 1, &s->min_p) && param_float(call, body, "typical_p", 0, 1, &s->typical_p) &&
              param_float(call, body, "presence_penalty", -2, 2, &s->presence_penalty) &&
              param_float(call, body, "frequency_penalty", -2, 2, &s->frequency_penalty) &&
              param_int(call, body, "top_k", -1, INT32_MAX, &top_k) && read_seed(call, body, s);
    if (ok && field(body, "repetition_penalty"))
        ok = param_float(call, body, "repetition_penalty", 0.001, 1000, &s->repetition_penalty);
    if (s->top_p <= 0)
        s->top_p = 1e-9F; /* the most likely token: 0 means "all" to the library */
    s->top_k = top_k > 0 ? (uint32_t)top_k : 0; /* -1 is 0 in some clients */
    return ok;
}

/* Reads a token id from a key of logit_bias. */
static bool bias_id(const struct server *server, const char *key, int32_t *id)
{
    char *end;
    if (*key < '0' || *key > '9')
        return false;
    unsigned long v = strtoul(key, &end, 10);
    *id = (int32_t)v;
    return !*end && v < server->info.vocab_size;
}

static bool read_bias(struct server *server, struct call *call, const json_t *body, struct params *p)
{
    json_t *object = NULL, *v;
    const char *key;
    if (!param_object(call, body, "logit_bias", &object))
        return false;
    size_t n = json_object_size(object);
    if (!n)
        return true;
    p->bias = calloc(n, sizeof *p->bias);
    if (!p->bias) {
        call_error(call, 500, NULL, NULL, NULL, "out of memory");
        return false;
    }
    p->sampling.bias = p->bias;
    json_object_foreach (object, key, v) {
        infer_bias *b = &p->bias[p->sampling.bias_count++];
        double bias = 0;
        if (!bias_id(server, key, &b->id))
            return param_wrong(call, "logit_bias", "'%s' is not a token id below %u", key, server->info.vocab_size);
        if (!check_number(call, v, "logit_bias", -100, 100, &bias))
            return false;
        b->bias = (float)bias;
    }
    return true;
}

/* ---- When to stop -------------------------------------------------------------------------------------------------- */

static bool take_stop(struct call *call, const json_t *v, const char *name, struct params *p)
{
    size_t len = json_string_length(v);
    if (!json_is_string(v))
        return param_wrong(call, name, "must be a string or an array of strings");
    if (!len || len > 1024)
        return param_wrong(call, name, "a stop string has 1 to 1,024 bytes");
    if (p->generate.stop_count == PARAMS_STOPS)
        return param_wrong(call, name, "at most %d stop strings", PARAMS_STOPS);
    p->stops[p->generate.stop_count++] = (infer_text){json_string_value(v), len};
    p->generate.stops = p->stops;
    return true;
}

bool params_stops(struct call *call, const json_t *body, const char *name, struct params *p)
{
    const json_t *v = field(body, name), *item;
    size_t i;
    if (!v)
        return true;
    if (!json_is_array(v))
        return take_stop(call, v, name, p);
    json_array_foreach (v, i, item)
        if (!take_stop(call, item, name, p))
            return false;
    return true;
}

static bool read_guard(struct call *call, const json_t *body, struct params *p)
{
    uint64_t guard = 0;
    if (!param_uint(call, body, "repetition_guard", 0, 4096, &guard))
        return false;
    if (guard && guard < 16)
        return param_wrong(call, "repetition_guard", "must be 0, or from 16 to 4096 tokens");
    p->generate.repeat_guard = guard;
    return true;
}

/* ---- Adapters, checkpoint, salt -------------------------------------------------------------------------------------- */

/* Takes the reference. */
static bool take_adapter(struct call *call, infer_adapter *adapter, const infer_adapter_use *use, const char *name, struct params *p)
{
    infer_adapter_info info;
    INFER_INIT(&info);
    (void)infer_adapter_get_info(adapter, &info, NULL);
    bool appended = info.kind == INFER_ADAPTER_SOFT_PROMPT || info.kind == INFER_ADAPTER_PREFIX;
    if ((appended ? p->n_prompts : p->n_adapters) == PARAMS_ADAPTERS) {
        infer_adapter_release(adapter);
        return param_wrong(call, name, "at most %d adapters", PARAMS_ADAPTERS);
    }
    if (appended) {
        p->prompts[p->n_prompts++] = adapter;
        return true;
    }
    p->adapters[p->n_adapters] = *use;
    p->adapters[p->n_adapters++].adapter = adapter;
    return true;
}

static bool read_mode(struct call *call, const json_t *item, const char *name, int32_t *mode)
{
    const char *text = "add";
    if (!param_string(call, item, name, &text))
        return false;
    if (strcmp(text, "add") != 0 && strcmp(text, "project") != 0)
        return param_wrong(call, name, "must be \"add\" or \"project\"");
    *mode = strcmp(text, "project") == 0 ? INFER_ADAPTER_PROJECT : INFER_ADAPTER_ADD;
    return true;
}

static bool read_adapter(struct server *server, struct call *call, const json_t *item, size_t index, struct params *p)
{
    static const struct param keys[] = {{"name", PARAM_TAKEN}, {"scale", PARAM_TAKEN}, {"mode", PARAM_TAKEN},
                                        {"first_layer", PARAM_TAKEN}, {"layer_count", PARAM_TAKEN}, {NULL, PARAM_TAKEN}};
    static const char *const names[] = {"name", "scale", "mode", "first_layer", "layer_count"};
    char at[5][64], where[32];
    const char *name = NULL;
    uint64_t first = 0, count = 0;
    infer_adapter_use use;
    INFER_INIT(&use);
    use.scale = 1;
    for (size_t i = 0; i < 5; i++)
        snprintf(at[i], sizeof at[i], "adapters[%zu].%s", index, names[i]);
    if (!json_is_object(item))
        return param_wrong(call, "adapters", "must be an array of {name, scale}");
    snprintf(where, sizeof where, "adapters[%zu]", index);
    if (!params_check_in(call, where, item, keys) || !param_string(call, item, at[0], &name) ||
        !param_float(call, item, at[1], -65536, 65536, &use.scale) || !read_mode(call, item, at[2], &use.mode) ||
        !param_uint(call, item, at[3], 0, server->info.n_layer ? server->info.n_layer - 1 : 0, &first) ||
        !param_uint(call, item, at[4], 0, server->info.n_layer - first, &count))
        return false;
    if (!name)
        return param_wrong(call, at[0], "is missing");
    infer_adapter *adapter = adapters_find(server, name);
    if (!adapter) {
        call_error(call, 404, NULL, "adapter_not_found", at[0], "%s: there is no adapter '%s'", at[0], name);
        return false;
    }
    use.first_layer = (uint32_t)first;
    use.layer_count = (uint32_t)count;
    return take_adapter(call, adapter, &use, "adapters", p);
}

static bool read_adapters(struct server *server, struct call *call, const json_t *body, struct params *p)
{
    json_t *list = NULL, *item;
    size_t i;
    if (!param_array(call, body, "adapters", &list))
        return false;
    json_array_foreach (list, i, item)
        if (!read_adapter(server, call, item, i, p))
            return false;
    return true;
}

static bool read_model(struct server *server, struct call *call, const json_t *body, struct params *p)
{
    p->model = server->name;
    if (!param_string(call, body, "model", &p->model))
        return false;
    if (strcmp(p->model, server->name) == 0)
        return true;
    infer_adapter_use use;
    INFER_INIT(&use);
    use.scale = 1;
    infer_adapter *adapter = adapters_find(server, p->model);
    if (adapter)
        return take_adapter(call, adapter, &use, "model", p);
    call_error(call, 404, call_api(call) == API_ANTHROPIC ? NULL : "invalid_request_error", "model_not_found", "model",
               "The model '%s' does not exist; this server has '%s' (GET /v1/models lists all names)",
               p->model, server->name);
    return false;
}

static bool read_checkpoint(struct server *server, struct call *call, const json_t *body, struct params *p)
{
    const char *name = NULL;
    if (!param_string(call, body, "checkpoint", &name))
        return false;
    if (name)
        p->checkpoint = checkpoints_get(server, call, name, "checkpoint");
    return !name || p->checkpoint;
}

/* The tenant's salt, a zero byte (which neither can have inside), the request's own: so no two pairs give the same. */
static bool read_salt(struct call *call, const json_t *body, struct params *p)
{
    const char *tenant = call_salt(call), *own = "";
    if (!param_string(call, body, "salt", &own))
        return false;
    size_t n_tenant = strlen(tenant), n_own = strlen(own);
    if (!n_tenant && !n_own)
        return true;
    if (n_tenant + 1 + n_own > sizeof p->salt)
        return param_wrong(call, "salt", "has at most %zu bytes here", n_tenant < sizeof p->salt ? sizeof p->salt - 1 - n_tenant : 0);
    memcpy(p->salt, tenant, n_tenant + 1);
    memcpy(p->salt + n_tenant + 1, own, n_own);
    p->salt_len = (uint32_t)(n_tenant + 1 + n_own);
    return true;
}

/* ---- All of it ------------------------------------------------------------------------------------------------------- */

static bool read_limits(struct call *call, const json_t *body, struct params *p)
{
    uint64_t n = 1;
    int64_t priority = 0;
    double timeout = 0;
    if (!param_bool(call, body, "stream", &p->stream) || !param_uint(call, body, "n", 1, 128, &n) ||
        !param_int(call, body, "priority", -100, 100, &priority) || !param_number(call, body, "timeout", 0.001, 1e6, &timeout))
        return false;
    p->n = (uint32_t)n;
    p->priority = (int32_t)priority;
    p->time_limit = (uint64_t)(timeout * 1e6);
    return params_stops(call, body, "stop", p) && read_guard(call, body, p);
}

bool params_read(struct server *server, struct call *call, const json_t *body, struct params *p)
{
    *p = (struct params){.n = 1};
    INFER_INIT(&p->generate);
    bool ok = read_model(server, call, body, p) && read_limits(call, body, p) && read_sampling(call, body, &p->sampling) &&
              read_bias(server, call, body, p) && read_salt(call, body, p) && read_adapters(server, call, body, p) &&
              read_checkpoint(server, call, body, p);
    if (!ok)
        params_free(p);
    return ok;
}

void params_free(struct params *p)
{
    for (uint32_t i = 0; i < p->n_adapters; i++)
        infer_adapter_release(p->adapters[i].adapter);
    for (uint32_t i = 0; i < p->n_prompts; i++)
        infer_adapter_release(p->prompts[i]);
    infer_checkpoint_release(p->checkpoint);
    free(p->bias);
    *p = (struct params){.n = 0};
}

void params_request(struct server *server, struct call *call, const struct params *p, infer_request_options *o, infer_session_options *session)
{
    INFER_INIT(session);
    session->n_ctx = server->options->ctx;
    session->kv_type = server->options->kv_type;
    session->salt = p->salt;
    session->salt_len = p->salt_len;
    INFER_INIT(o);
    o->priority = p->priority;
    o->n = p->n;
    o->client = call_client(call);
    o->session = session;
    o->checkpoint = p->checkpoint;
    o->adapters = p->adapters;
    o->adapter_count = p->n_adapters;
    o->prompts = p->prompts;
    o->prompt_count = p->n_prompts;
    o->sampling = &p->sampling;
    o->generate = &p->generate;
    o->time_limit = p->time_limit;
}

/* ---- Words of answers -------------------------------------------------------------------------------------------------- */

/* Bytes of the character at the beginning of s, or, when there is none, of the longest piece that begins one: what one U+FFFD stands for. */
static size_t utf8_step(const unsigned char *s, size_t len, bool *valid)
{
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xC2 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : s[0] < 0xF5 ? 4 : 0;
    unsigned least = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : 0x80, most = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : 0xBF;
    *valid = n > 0;
    for (size_t i = 1; i < n; i++) {
        if (i == len || s[i] < least || s[i] > most) {
            *valid = false;
            return i;
        }
        least = 0x80;
        most = 0xBF;
    }
    return n ? n : 1;
}

json_t *text_json(const char *text, size_t len)
{
    size_t n, to = 0;
    bool valid;
    json_t *whole = json_stringn(text, len); /* NULL when it is not UTF-8 */
    if (whole)
        return whole;
    char *clean = malloc(len * 3 + 1);
    for (size_t i = 0; clean && i < len; i += n) {
        n = utf8_step((const unsigned char *)text + i, len - i, &valid);
        memcpy(clean + to, valid ? text + i : "\xEF\xBF\xBD", valid ? n : 3);
        to += valid ? n : 3;
    }
    whole = clean ? json_stringn(clean, to) : NULL;
    free(clean);
    return whole;
}

const char *openai_finish_reason(int32_t reason)
{
    return reason == INFER_FINISH_STOP || reason == INFER_FINISH_STOP_STRING ? "stop" : "length";
}

const char *finish_detail(int32_t reason)
{
    static const char *const names[] = {
        [INFER_FINISH_STOP] = "end_token",         [INFER_FINISH_LENGTH] = "max_tokens",
        [INFER_FINISH_CONTEXT] = "context",        [INFER_FINISH_STOP_STRING] = "stop_string",
        [INFER_FINISH_REPETITION] = "repetition",  [INFER_FINISH_TIME] = "time",
        [INFER_FINISH_CANCELLED] = "cancelled",    [INFER_FINISH_ERROR] = "error",
    };
    return reason > 0 && (size_t)reason < sizeof names / sizeof *names ? names[reason] : "unknown";
}

void cache_reason_text(const infer_request_info *info, char *out, size_t capacity)
{
    static const char *const names[] = {
        [INFER_CACHE_REASON_OFF] = "off",
        [INFER_CACHE_REASON_HIT] = "hit",
        [INFER_CACHE_REASON_ENDS] = "ends",
        [INFER_CACHE_REASON_DIFFERS] = "differs",
        [INFER_CACHE_REASON_EVICTED] = "evicted",
        [INFER_CACHE_REASON_OTHER_ADAPTERS] = "other-adapters",
        [INFER_CACHE_REASON_OTHER_SALT] = "empty", /* never an own_reason */
        [INFER_CACHE_REASON_OTHER_KV_TYPE] = "other-kv-type",
        [INFER_CACHE_REASON_EMPTY] = "empty",
        [INFER_CACHE_REASON_FAILED] = "failed",
    };
    int32_t r = info->own_reason; /* tenants must not learn of each other */
    const char *name = r >= 0 && (size_t)r < sizeof names / sizeof *names ? names[r] : "unknown";
    if (r == INFER_CACHE_REASON_OFF && info->cached_tokens) /* nothing was looked up */
        name = "checkpoint";
    int n = snprintf(out, capacity, "%s; %llu of %llu tokens", name, (unsigned long long)info->cached_tokens,
                     (unsigned long long)info->prompt_tokens);
    if (r == INFER_CACHE_REASON_DIFFERS && info->near_length && n > 0 && (size_t)n < capacity)
        snprintf(out + n, capacity - (size_t)n, "; near miss: a prefix of %llu tokens differs from token %llu on",
                 (unsigned long long)info->near_length, (unsigned long long)info->difference);
}
