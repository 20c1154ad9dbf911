#include "responses.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "responses_ws.h"

/* ---- The list ---------------------------------------------------------------------------------------------------- */

infer_status responses_open(struct server *server, const struct responses_options *options, struct response_list **out, infer_error *err)
{
    struct response_list *list = calloc(1, sizeof *list);
    if (!list)
        return INFER_ERROR_NO_MEMORY;
    infer_status status = store_open(server, options, &list->store, err);
    if (status != INFER_OK) {
        free(list);
        return status;
    }
    list->server = server;
    list->tags = reasoning_of(server->tmpl, server->tokenizer);
    (void)pthread_mutex_init(&list->lock, NULL);
    *out = list;
    return INFER_OK;
}

bool responses_running(struct response_list *list)
{
    (void)pthread_mutex_lock(&list->lock);
    bool some = list->turns != NULL;
    (void)pthread_mutex_unlock(&list->lock);
    return some;
}

void responses_stop(struct response_list *list)
{
    for (;;) {
        (void)pthread_mutex_lock(&list->lock);
        struct turn *t = list->turns;
        while (t && t->stopped)
            t = t->next;
        if (t) {
            t->stopped = true;
            (void)turn_ref(t);
        }
        (void)pthread_mutex_unlock(&list->lock);
        if (!t)
            return;
        turn_cancel(t);
        turn_release(t);
    }
}

void responses_close(struct response_list *list)
{
    if (!list)
        return;
    store_close(list->store);
    for (unsigned i = 0; i < TURNS_KEPT; i++)
        turn_release(list->kept[i]);
    (void)pthread_mutex_destroy(&list->lock);
    free(list);
}

/* ---- Finding ----------------------------------------------------------------------------------------------------- */

static void not_found(struct call *call, const char *id)
{
    call_error(call, 404, "invalid_request_error", NULL, NULL, "Response with id '%.80s' not found.", id);
}

/* What is kept of the response that the path names; NULL: answered with 404, in the same words whether it is another tenant's or nobody's. */
static json_t *find(struct server *server, struct call *call)
{
    char tenant[TENANT_SIZE];
    store_tenant(call_salt(call), tenant);
    json_t *doc = store_find(server->responses->store, call_arg(call), tenant);
    if (!doc)
        not_found(call, call_arg(call));
    return doc;
}

/* A reference to the turn that the path names, or NULL. */
static struct turn *running(struct server *server, struct call *call, bool kept)
{
    char tenant[TENANT_SIZE];
    store_tenant(call_salt(call), tenant);
    return turn_find(server->responses, call_arg(call), tenant, kept);
}

/* The response of doc, which this process does not make: one that had not ended when its maker did has failed. */
static json_t *response_of(const struct server *server, const json_t *doc)
{
    json_t *response = json_object_get(doc, "response");
    if (!doc_unfinished(doc) || store_held(server->responses->store, json_string_value(json_object_get(response, "id"))))
        return json_incref(response);
    json_t *failed = json_copy(response);
    (void)json_object_set_new(failed, "status", json_string("failed"));
    (void)json_object_set_new(failed, "error", json_pack("{s:s, s:s}", "code", "server_error", "message", "the server ended before this response did"));
    return failed;
}

/* ---- Handlers ---------------------------------------------------------------------------------------------------- */

static void create(struct server *server, struct call *call)
{
    json_t *body = call_json_body(call);
    if (body)
        turn_release(responses_create(server, call, json_incref(body), NULL, NULL));
}

static bool query_number(struct call *call, const char *name, int64_t min, int64_t max, int64_t *out)
{
    const char *text = call_query(call, name);
    char *end;
    if (!text)
        return true;
    long long n = strtoll(text, &end, 10);
    if (!*text || *end || n < min || n > max)
        return param_wrong(call, name, "must be an integer from %lld to %lld", (long long)min, (long long)max);
    *out = n;
    return true;
}

static void retrieve(struct server *server, struct call *call)
{
    const char *stream = call_query(call, "stream");
    int64_t after = -1;
    if (stream && strcmp(stream, "true") != 0 && strcmp(stream, "false") != 0) {
        (void)param_wrong(call, "stream", "must be true or false");
        return;
    }
    if (!query_number(call, "starting_after", 0, INT32_MAX, &after))
        return;
    bool streams = stream && strcmp(stream, "true") == 0;
    struct turn *t = running(server, call, streams);
    if (t && streams) {
        turn_follow(t, call, after);
        turn_release(t);
        return;
    }
    if (t) {
        call_json(call, 200, turn_snapshot(t));
        turn_release(t);
        return;
    }
    json_t *doc = find(server, call);
    if (doc && streams)
        call_error(call, 400, "invalid_request_error", NULL, "stream", "stream: the events of this response are not kept (those of background responses are, for a while)");
    else if (doc)
        call_json(call, 200, response_of(server, doc));
    json_decref(doc);
}

static void delete(struct server *server, struct call *call)
{
    struct turn *t = running(server, call, true);
    json_t *doc = t ? NULL : find(server, call);
    if (!t && !doc)
        return;
    if (t)
        turn_delete(t);
    (void)store_remove(server->responses->store, call_arg(call));
    turn_release(t);
    json_decref(doc);
    call_json(call, 200, json_pack("{s:s, s:s, s:b}", "id", call_arg(call), "object", "response", "deleted", 1));
}

/* The answer comes when the response has ended. One that has is given as it is. */
static void cancel(struct server *server, struct call *call)
{
    struct turn *t = running(server, call, false);
    if (t) {
        turn_cancel(t);
        turn_wait(t, call);
        turn_release(t);
        return;
    }
    json_t *doc = find(server, call);
    if (!doc)
        return;
    json_t *response = response_of(server, doc);
    const char *status = json_string_value(json_object_get(response, "status"));
    if (doc_unfinished(doc) && store_held(server->responses->store, call_arg(call))) {
        json_decref(response);
        call_error(call, 409, "invalid_request_error", NULL, NULL, "This response is made by the process of another connection (--isolate fork), where alone it can be cancelled.");
    } else if (json_is_true(json_object_get(response, "background")) || (status && strcmp(status, "cancelled") == 0)) {
        call_json(call, 200, response);
    } else {
        json_decref(response);
        call_error(call, 400, "invalid_request_error", NULL, NULL, "This response has ended; only background responses may be cancelled then.");
    }
    json_decref(doc);
}

/* ---- Input items ------------------------------------------------------------------------------------------------- */

struct page { int64_t limit; bool descending; const char *after; };

static const char *id_of(const json_t *item)
{
    const char *id = json_string_value(json_object_get(item, "id"));
    return id ? id : "";
}

/* One page of items, which are in the order of the conversation. NULL: answered; `after` is none of them. */
static json_t *page_of(struct call *call, const json_t *items, const struct page *p)
{
    size_t n = json_array_size(items), first = 0;
    json_t *data = json_array();
    for (size_t i = 0; p->after && i < n && !first; i++)
        if (strcmp(id_of(json_array_get(items, p->descending ? n - 1 - i : i)), p->after) == 0)
            first = i + 1;
    if (p->after && !first) {
        json_decref(data);
        (void)param_wrong(call, "after", "this response has no item '%.80s'", p->after);
        return NULL;
    }
    for (size_t i = first; i < n && json_array_size(data) < (size_t)p->limit; i++)
        (void)json_array_append(data, json_array_get(items, p->descending ? n - 1 - i : i));
    size_t got = json_array_size(data);
    return json_pack("{s:s, s:o, s:s, s:s, s:b}", "object", "list", "data", data, "first_id", id_of(json_array_get(data, 0)), "last_id",
                     got ? id_of(json_array_get(data, got - 1)) : "", "has_more", first + got < n);
}

/* All that the response was made from: what came with it and the items of the responses before it. */
static void input_items(struct server *server, struct call *call)
{
    struct page page = {20, true, call_query(call, "after")};
    const char *order = call_query(call, "order");
    if (!query_number(call, "limit", 1, 100, &page.limit))
        return;
    if (order && strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0) {
        (void)param_wrong(call, "order", "must be asc or desc");
        return;
    }
    page.descending = !order || strcmp(order, "desc") == 0;
    struct turn *t = running(server, call, false);
    json_t *items = json_array(), *doc = t ? NULL : find(server, call);
    if (t || doc) {
        (void)json_array_extend(items, t ? t->history : json_object_get(doc, "history"));
        (void)json_array_extend(items, t ? t->input : json_object_get(doc, "input"));
        json_t *list = page_of(call, items, &page);
        if (list)
            call_json(call, 200, list);
    }
    json_decref(items);
    json_decref(doc);
    turn_release(t);
}

const struct route responses_routes[] = {
    {"POST", "/v1/responses", API_OPENAI, ROUTE_GENERATES, create},
    {"WS", "/v1/responses", API_OPENAI, 0, responses_ws},
    {"POST", "/v1/responses/input_tokens", API_OPENAI, ROUTE_PURE, responses_count},
    {"GET", "/v1/responses/{id}", API_OPENAI, ROUTE_NO_BODY, retrieve},
    {"DELETE", "/v1/responses/{id}", API_OPENAI, ROUTE_NO_BODY, delete},
    {"POST", "/v1/responses/{id}/cancel", API_OPENAI, ROUTE_NO_BODY, cancel},
    {"GET", "/v1/responses/{id}/input_items", API_OPENAI, ROUTE_NO_BODY, input_items},
    {NULL, NULL, API_OPENAI, 0, NULL}};
