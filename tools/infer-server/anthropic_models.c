/* GET /v1/models as Anthropic's clients read it, in pages. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "adapters.h"
#include "anthropic.h"
#include "options.h"

enum { DEFAULT_PAGE = 20, MAX_PAGE = 1000 };

static json_t *model_json(const struct server *server, const char *name)
{
    char created[32] = "1970-01-01T00:00:00Z";
    struct tm tm;
    time_t t = (time_t)server->created;
    if (gmtime_r(&t, &tm))
        (void)strftime(created, sizeof created, "%Y-%m-%dT%H:%M:%SZ", &tm);
    json_int_t context = server->options->ctx ? server->options->ctx : server->info.n_ctx_train;
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:n, s:n, s:n, s:n}", "type", "model", "id", name, "display_name", name, "created_at", created,
                     "lifecycle", "active", "max_input_tokens", context, "max_tokens", context, "capabilities", "line", "deprecated_at", "retires_at");
}

/* The served model first, then its adapters by name. NULL: out of memory. */
static json_t *all_names(struct server *server)
{
    json_t *names = json_pack("[s]", server->name), *adapters = adapters_json(server), *adapter;
    size_t i;
    bool ok = names && adapters;
    json_array_foreach (adapters, i, adapter)
        ok = ok && json_array_append(names, json_object_get(adapter, "name")) == 0;
    json_decref(adapters);
    if (ok)
        return names;
    json_decref(names);
    return NULL;
}

/* Where name stands in names. false: answered with 400. */
static bool find_cursor(struct call *call, const json_t *names, const char *param, const char *name, size_t *at)
{
    size_t i;
    json_t *one;
    json_array_foreach (names, i, one)
        if (strcmp(json_string_value(one), name) == 0) {
            *at = i;
            return true;
        }
    return param_wrong(call, param, "there is no model '%s'", name);
}

static bool read_limit(struct call *call, size_t *limit)
{
    const char *text = call_query(call, "limit");
    char *end;
    *limit = DEFAULT_PAGE;
    if (!text)
        return true;
    unsigned long value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || value < 1 || value > MAX_PAGE)
        return param_wrong(call, "limit", "must be a whole number from 1 to %d", MAX_PAGE);
    *limit = (size_t)value;
    return true;
}

/* Which of names to tell: first to end. false: answered with 400. */
static bool read_page(struct call *call, const json_t *names, size_t *first, size_t *end)
{
    const char *after = call_query(call, "after_id"), *before = call_query(call, "before_id");
    size_t n = json_array_size(names), limit, at = 0;
    *first = 0;
    *end = n;
    if (after && before)
        return param_wrong(call, "before_id", "excludes after_id");
    if (!read_limit(call, &limit) || (after && !find_cursor(call, names, "after_id", after, &at)) ||
        (before && !find_cursor(call, names, "before_id", before, &at)))
        return false;
    if (after)
        *first = at + 1;
    if (before) {
        *end = at;
        *first = at > limit ? at - limit : 0;
    }
    if (*end - *first > limit)
        *end = *first + limit;
    return true;
}

void anthropic_list_models(struct server *server, struct call *call)
{
    json_t *names = all_names(server), *data = json_array();
    size_t first, end;
    if (!names || !data) {
        call_error(call, 500, "api_error", NULL, NULL, "out of memory");
    } else if (read_page(call, names, &first, &end)) {
        bool more = call_query(call, "before_id") ? first > 0 : end < json_array_size(names);
        for (size_t i = first; i < end; i++)
            json_array_append_new(data, model_json(server, json_string_value(json_array_get(names, i))));
        json_t *one = json_array_get(names, first), *last = end > first ? json_array_get(names, end - 1) : NULL;
        call_json(call, 200, json_pack("{s:O, s:b, s:O?, s:O?}", "data", data, "has_more", more, "first_id", last ? one : json_null(), "last_id",
                                       last ? last : json_null()));
    }
    json_decref(names);
    json_decref(data);
}

void anthropic_get_model(struct server *server, struct call *call)
{
    const char *name = call_arg(call);
    infer_adapter *adapter = strcmp(name, server->name) == 0 ? NULL : adapters_find(server, name);
    if (adapter || strcmp(name, server->name) == 0)
        call_json(call, 200, model_json(server, name));
    else
        call_error(call, 404, "not_found_error", NULL, NULL, "model: %s", name);
    infer_adapter_release(adapter);
}
