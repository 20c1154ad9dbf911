/* From the headers of a request to its call: what may be refused is refused here, before the body is read. */
#include <arpa/inet.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "http_core.h"

enum { MAX_QUERIES = 64 };

/* Headers that the parser has no number for and that something here asks for. */
static const char *const custom_headers[] = {
    "x-api-key:", "anthropic-version:", "anthropic-beta:", "openai-beta:", "openai-organization:", "openai-project:", "idempotency-key:",
    "x-request-id:", "x-infer-timestamp:", "x-infer-nonce:", "x-infer-signature:", "x-stainless-retry-count:", "sec-fetch-site:",
    "access-control-request-method:", "last-event-id:",
};

const char *request_method(struct lws *wsi)
{
    static const struct { enum lws_token_indexes token; const char *method; } methods[] = {
        {WSI_TOKEN_GET_URI, "GET"},     {WSI_TOKEN_POST_URI, "POST"},       {WSI_TOKEN_HEAD_URI, "HEAD"},   {WSI_TOKEN_OPTIONS_URI, "OPTIONS"},
        {WSI_TOKEN_PUT_URI, "PUT"},     {WSI_TOKEN_PATCH_URI, "PATCH"},     {WSI_TOKEN_DELETE_URI, "DELETE"}, {WSI_TOKEN_CONNECT, "CONNECT"},
    };
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        if (lws_hdr_total_length(wsi, methods[i].token) > 0)
            return methods[i].method;
    return "";
}

static enum lws_token_indexes uri_token(const char *method)
{
    switch (method[0]) {
    case 'G':
    case 'W': return WSI_TOKEN_GET_URI;
    case 'H': return WSI_TOKEN_HEAD_URI;
    case 'O': return WSI_TOKEN_OPTIONS_URI;
    case 'D': return WSI_TOKEN_DELETE_URI;
    case 'C': return WSI_TOKEN_CONNECT;
    default: return method[1] == 'O' ? WSI_TOKEN_POST_URI : method[1] == 'U' ? WSI_TOKEN_PUT_URI : WSI_TOKEN_PATCH_URI;
    }
}

/* A copy of a header's value, pieces joined; NULL: not there. */
static char *header_text(struct lws *wsi, enum lws_token_indexes token, size_t *len)
{
    int n = lws_hdr_total_length(wsi, token);
    if (n <= 0)
        return NULL;
    size_t room = (size_t)n + 16; /* the parser puts commas between pieces */
    char *text = malloc(room);
    int got = text ? lws_hdr_copy(wsi, text, (int)room, token) : -1;
    if (got < 0) {
        free(text);
        return NULL;
    }
    *len = (size_t)got;
    return text;
}

static void copy_known_headers(struct call *call, struct lws *wsi)
{
    for (int t = 0; t < WSI_TOKEN_COUNT; t++) {
        char name[64];
        size_t len = 0;
        const char *spelt = (const char *)lws_token_to_string((enum lws_token_indexes)t);
        size_t n = spelt ? strlen(spelt) : 0;
        if (n < 2 || n > sizeof name || spelt[n - 1] != ':' || spelt[0] == ':')
            continue;
        char *value = header_text(wsi, (enum lws_token_indexes)t, &len);
        if (!value)
            continue;
        memcpy(name, spelt, n - 1);
        name[n - 1] = 0;
        call_add_header(call, name, value, len);
        free(value);
    }
}

static void copy_custom_headers(struct call *call, struct lws *wsi)
{
    for (size_t i = 0; i < sizeof custom_headers / sizeof custom_headers[0]; i++) {
        const char *spelt = custom_headers[i];
        char name[64], *value;
        int n = (int)strlen(spelt), len = lws_hdr_custom_length(wsi, spelt, n);
        if (len < 0 || !(value = malloc((size_t)len + 1)))
            continue;
        if (lws_hdr_custom_copy(wsi, value, len + 1, spelt, n) >= 0) {
            memcpy(name, spelt, (size_t)n - 1);
            name[n - 1] = 0;
            call_add_header(call, name, value, strlen(value));
        }
        free(value);
    }
}

static void copy_queries(struct call *call, struct lws *wsi)
{
    for (int i = 0; i < MAX_QUERIES; i++) {
        int n = lws_hdr_fragment_length(wsi, WSI_TOKEN_HTTP_URI_ARGS, i);
        char *text = n > 0 ? malloc((size_t)n + 1) : NULL;
        if (!text)
            return;
        if (lws_hdr_copy_fragment(wsi, text, n + 1, WSI_TOKEN_HTTP_URI_ARGS, i) >= 0)
            call_add_query(call, text, strlen(text));
        free(text);
    }
}

#define HEADER_LIMIT 16384

/* Of what has a number: names that the parser does not know are bounded by the room that it has. */
static size_t header_bytes(struct lws *wsi)
{
    size_t sum = 0;
    for (int t = 0; t < WSI_TOKEN_COUNT; t++) {
        int n = lws_hdr_total_length(wsi, (enum lws_token_indexes)t);
        sum += n > 0 ? (size_t)n : 0;
    }
    return sum;
}

/* ---- Checks: each answers and returns false when it refuses ---- */

static bool check_framing(struct call *call, struct lws *wsi)
{
    const char *length = call_header(call, "content-length");
    if (header_bytes(wsi) > HEADER_LIMIT) {
        call->close = true;
        call_error(call, 431, NULL, NULL, NULL, "the headers are longer than %d bytes", HEADER_LIMIT);
        return false;
    }
    if (call_header(call, "transfer-encoding")) {
        call->close = true;
        call_error(call, 411, NULL, NULL, NULL, "a request's body needs a content-length; transfer-encoding is not supported");
        return false;
    }
    if (lws_hdr_fragment_length(wsi, WSI_TOKEN_HTTP_URI_ARGS, MAX_QUERIES) > 0) { /* what is not copied would not be signed either */
        call->close = true;
        call_error(call, 400, NULL, NULL, NULL, "the query has more than %d parts", MAX_QUERIES);
        return false;
    }
    if (!length) {
        if (call->method[0] == 'P') /* POST, PUT, PATCH: the library takes what follows for their body */
            call->close = call->last = true;
        return true;
    }
    if (lws_hdr_fragment_length(wsi, WSI_TOKEN_HTTP_CONTENT_LENGTH, 1) > 0 || !length[0] || length[strspn(length, "0123456789")] || strlen(length) > 18) {
        call->close = true;
        call_error(call, 400, NULL, NULL, NULL, "content-length is not one number");
        return false;
    }
    call->body_wanted = strtoull(length, NULL, 10);
    if (call->body_wanted && strcmp(call->method, "WS") == 0) { /* it would count as one that arrives for as long as the connection stays */
        call->body_wanted = 0;
        call->close = true;
        call_error(call, 400, NULL, NULL, NULL, "an upgrade to WebSocket has no body");
        return false;
    }
    if (call->body_wanted)
        call->close = true; /* until it has been read, only closing leaves the connection in order */
    return true;
}

static bool is_listed(const struct text_list *names, const char *name)
{
    for (uint32_t i = 0; i < names->n; i++)
        if (strcasecmp(names->items[i], name) == 0)
            return true;
    return false;
}

/* Any site can let a name of its own lead to 127.0.0.1, and then its pages are no other site's to the browser (DNS rebinding). What is served to this machine alone,
 * to everyone on it, is served under the names that this machine has by itself, and those of --allow-host. */
static bool check_host(struct call *call)
{
    const struct options *o = call->http->options;
    const char *host = call_header(call, "host");
    unsigned char address[sizeof(struct in6_addr)];
    char name[256];
    if (!call->http->local || call->http->auth.n || o->hmac_key || !host || !call->route || (call->route->flags & ROUTE_OPEN))
        return true;
    size_t len = host[0] == '[' ? strcspn(host, "]") : strcspn(host, ":");
    const char *from = host[0] == '[' && len ? host + 1 : host;
    len -= (size_t)(from - host);
    if (len < sizeof name) {
        memcpy(name, from, len);
        name[len] = 0;
        const char *tail = len > 10 ? name + len - 10 : "";
        if (inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1 || strcasecmp(name, "localhost") == 0 ||
            strcasecmp(tail, ".localhost") == 0 || strcasecmp(name, o->host) == 0 || is_listed(&o->allow_hosts, name))
            return true;
    }
    call_error(call, 403, NULL, NULL, NULL, "this server is not called %s; --allow-host would let it be", host);
    return false;
}

/* Pages of other sites may not call, unless --cors-origin lets them. */
static bool check_origin(struct call *call)
{
    const char *allowed = call->http->options->cors_origin, *origin = call_header(call, "origin"), *host = call_header(call, "host");
    if (!origin)
        return true;
    if (allowed && (strcmp(allowed, "*") == 0 || strcasecmp(allowed, origin) == 0)) {
        call->origin = strcmp(allowed, "*") == 0 ? "*" : allowed;
        return true;
    }
    const char *p = strstr(origin, "://");
    if ((p && host && strcasecmp(p + 3, host) == 0) || strcmp(call->method, "GET") == 0 || call->http->auth.n)
        return true; /* a page of this server; or nothing that a page could do or, without CORS headers, read */
    call_error(call, 403, NULL, NULL, NULL, "pages of %s may not call this server; --cors-origin would let them", origin);
    return false;
}

static bool answer_options(struct call *call, const struct bytes *allow)
{
    const char *wanted = call_header(call, "access-control-request-headers");
    call_header_add(call, "allow", allow->len ? allow->data : "OPTIONS");
    if (call->origin) {
        call_header_add(call, "access-control-allow-methods", allow->len ? allow->data : "OPTIONS");
        call_header_add(call, "access-control-allow-headers", wanted ? wanted : "authorization, content-type, x-api-key, anthropic-version");
        call_header_add(call, "access-control-max-age", "86400");
    }
    call_bytes(call, 204, NULL, "", 0);
    return false;
}

/* --hmac-key: method, path, query and body are what the holder of the key has sent, now and once. */
static bool check_signature(struct call *call)
{
    struct hmac_arg args[MAX_QUERIES];
    struct hmac_message m = {.method = call->method, .path = call->path, .body = call->body.data, .body_len = call->body.len,
                             .timestamp = call_header(call, "x-infer-timestamp"), .nonce = call_header(call, "x-infer-nonce"),
                             .signature = call_header(call, "x-infer-signature")};
    if (!call->http->hmac || (call->route && call->route->flags & ROUTE_OPEN))
        return true;
    for (const struct pair *p = call->queries; p; p = p->next) /* the last one is first */
        m.n_args++;
    m.args = args;
    size_t at = m.n_args;
    for (const struct pair *p = call->queries; p; p = p->next)
        args[--at] = (struct hmac_arg){p->name, p->bare ? NULL : p->value};
    if (strcmp(m.method, "WS") == 0)
        m.method = "GET";
    enum hmac_verdict verdict = hmac_check(call->http->hmac, &m, (int64_t)time(NULL));
    if (verdict == HMAC_OK)
        return true;
    if (verdict == HMAC_FULL)
        call_header_add(call, "retry-after", "1");
    call_error(call, hmac_status(verdict), NULL, verdict == HMAC_FULL ? NULL : "invalid_signature", NULL, "%s", hmac_text(verdict));
    return false;
}

/* Before a body is read there is nothing to compare, but a request without a signature goes at once. */
static bool check_signed(struct call *call)
{
    if (call->body_wanted == 0)
        return check_signature(call);
    if (!call->http->hmac || call_header(call, "x-infer-signature") || (call->route && call->route->flags & ROUTE_OPEN))
        return true;
    call_error(call, hmac_status(HMAC_BAD), NULL, "invalid_signature", NULL, "%s", hmac_text(HMAC_BAD));
    return false;
}

static bool check_key(struct call *call)
{
    const struct auth *auth = &call->http->auth;
    const char *authorization = call_header(call, "authorization"), *x_api_key = call_header(call, "x-api-key");
    if (auth->n == 0 || (call->route && call->route->flags & ROUTE_OPEN))
        return true;
    call->key = auth_find(auth, authorization, x_api_key);
    if (call->key) {
        call->client = call->key->client;
        return true;
    }
    call_header_add(call, "www-authenticate", "Bearer");
    call_error(call, 401, NULL, "invalid_api_key", NULL, authorization || x_api_key ? "the API key is not valid" : "an API key is needed: Authorization: Bearer KEY, or x-api-key: KEY");
    return false;
}

static bool check_route(struct call *call, int status, const struct bytes *allow)
{
    if (call->route)
        return true;
    if (status == 405) {
        call_header_add(call, "allow", allow->data);
        call_error(call, 405, NULL, NULL, NULL, "%s is not possible on %s; %s is", call->method, call->path, allow->data);
    } else
        call_error(call, 404, NULL, NULL, NULL, "there is nothing at %s", call->path);
    return false;
}

static bool check_rate(struct call *call)
{
    char text[16];
    uint32_t wait = call->http->limits && !(call->route->flags & ROUTE_OPEN) ? limits_take(call->http->limits, call->client, now_us()) : 0;
    if (wait == 0)
        return true;
    snprintf(text, sizeof text, "%u", wait);
    call_header_add(call, "retry-after", text);
    call_error(call, 429, NULL, "rate_limit_exceeded", NULL, "too many requests; the next one may come in %u s", wait);
    return false;
}

static bool check_body(struct call *call)
{
    const char *encoding = call_header(call, "content-encoding");
    struct http *http = call->http;
    if (encoding && strcasecmp(encoding, "identity") != 0) {
        call_error(call, 415, NULL, NULL, NULL, "content-encoding %s is not supported", encoding);
        return false;
    }
    if (call->body_wanted > http->options->max_body) {
        call_error(call, 413, NULL, NULL, NULL, "the body is longer than %llu bytes", (unsigned long long)http->options->max_body);
        return false;
    }
    if (call->body_wanted && http->body_bytes + call->body_wanted > 16 * http->options->max_body) {
        call_header_add(call, "retry-after", "1");
        call_error(call, 503, NULL, NULL, NULL, "too many large requests at once");
        return false;
    }
    return true;
}

static bool check_load(struct call *call)
{
    struct http *http = call->http;
    bool draining = http_draining(http);
    if (!draining && (!(call->route->flags & ROUTE_GENERATES) || http->n_generating < http->options->parallel + http->options->max_queue))
        return true;
    if (draining)
        call->close = true;
    if (draining && call->route->flags & ROUTE_OPEN)
        return true;
    call_header_add(call, "retry-after", draining ? "5" : "1");
    call_error(call, 503, NULL, NULL, NULL, draining ? "the server is stopping" : "the server is busy: its queue is full");
    return false;
}

static void check_all(struct call *call, struct lws *wsi)
{
    struct bytes allow = {0};
    int status;
    bool ok = check_framing(call, wsi);
    call->route = route_find(call->method, call->path, &call->arg_copy, &status, &allow);
    call->arg = call->arg_copy;
    if (call->route)
        call->api = call->route->api;
    if (call->api == API_OPENAI && call_header(call, "anthropic-version")) /* paths that both have, and those that nobody serves */
        call->api = API_ANTHROPIC;
    ok = ok && check_host(call) && check_origin(call);
    if (ok && !call->route && strcmp(call->method, "OPTIONS") == 0)
        ok = answer_options(call, &allow);
    (void)(ok && check_signed(call) && check_key(call) && check_route(call, status, &allow) && check_rate(call) && check_body(call) && check_load(call));
    bytes_free(&allow);
}

struct call *request_begin(struct conn *conn, const char *method)
{
    struct call *call = call_create(conn->http, conn->http->server);
    struct lws *wsi = conn->wsi;
    size_t len = 0;
    if (!call)
        return NULL;
    call->method = method;
    call->head_only = strcmp(method, "HEAD") == 0;
    call->path = header_text(wsi, uri_token(method), &len);
    if (!call->path && !(call->path = strdup(""))) {
        call_release(call);
        return NULL;
    }
    call->api = route_api(call->path);
    call->client = conn->address;
    memcpy(call->peer, conn->peer, sizeof call->peer);
    copy_known_headers(call, wsi);
    copy_custom_headers(call, wsi);
    copy_queries(call, wsi);
    char *version = header_text(wsi, WSI_TOKEN_HTTP, &len);
    const char *connection = call_header(call, "connection");
    call->old = !version || strcmp(version, "HTTP/1.1") != 0;
    free(version);
    if (connection && strcasecmp(connection, "close") == 0)
        call->close = call->last = true;
    call->conn = conn;
    check_all(call, wsi);
    return call;
}

/* ---- To the handler ---- */

static void run_handler(struct call *call)
{
    if (call->route->flags & ROUTE_PURE && call_gone(call))
        call_bytes(call, 499, NULL, "", 0);
    else
        call->route->handler(call->server, call);
}

static void run(struct job *job)
{
    struct call *call = (struct call *)job;
    if (call->body_wanted == 0 || check_signature(call)) /* here, since a long body takes its time */
        run_handler(call);
    call_release(call);
}

static void run_later(struct job *job)
{
    struct later *later = (struct later *)(void *)job;
    struct call *call = later->call;
    later->fn(later->user);
    call_release(call);
}

void call_later(struct call *call, void (*fn)(void *user), void *user)
{
    struct http *http = call->http;
    call->later = (struct later){{NULL, run_later}, call_ref(call), fn, user};
    pthread_mutex_lock(&http->lock);
    bool taken = http->workers != NULL; /* at the end of the process the workers go before the scheduler's thread */
    if (taken)
        workers_add(http->workers, &call->later.job);
    pthread_mutex_unlock(&http->lock);
    if (!taken)
        run_later(&call->later.job);
}

void request_dispatch(struct call *call)
{
    if (call->route->flags & ROUTE_GENERATES) {
        call->generates = true;
        call->http->n_generating++;
    }
    call_ref(call);
    call->job.run = run;
    if (call->route->flags & ROUTE_QUICK)
        run(&call->job);
    else
        workers_add(call->route->flags & ROUTE_LONG && call->http->long_workers ? call->http->long_workers : call->http->workers, &call->job);
}
