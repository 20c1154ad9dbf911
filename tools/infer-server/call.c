#include "call.h"

#include <libwebsockets.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "auth.h"
#include "http_core.h"
#include "ws.h"

static void make_id(char out[32])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEF"; /* 32: no letter is likelier */
    uint8_t draw[24];
    randombytes_buf(draw, sizeof draw);
    memcpy(out, "req_", 4);
    for (size_t i = 0; i < sizeof draw; i++)
        out[4 + i] = letters[draw[i] % 32];
    out[28] = 0;
}

struct call *call_create(struct http *http, struct server *server)
{
    struct call *call = calloc(1, sizeof *call);
    if (!call)
        return NULL;
    if (pthread_mutex_init(&call->lock, NULL)) {
        free(call);
        return NULL;
    }
    atomic_init(&call->refs, 1);
    call->http = http;
    call->server = server;
    make_id(call->id);
    call->begun = now_us();
    return call;
}

struct call *call_ref(struct call *call)
{
    atomic_fetch_add_explicit(&call->refs, 1, memory_order_relaxed);
    return call;
}

static void free_pairs(struct pair *p)
{
    while (p) {
        struct pair *next = p->next;
        free(p);
        p = next;
    }
}

void call_release(struct call *call)
{
    if (!call || atomic_fetch_sub_explicit(&call->refs, 1, memory_order_acq_rel) != 1)
        return;
    while (call->owned) {
        struct owned *o = call->owned;
        call->owned = o->next;
        o->release(o->data);
        free(o);
    }
    if (call->body_counted)
        atomic_fetch_sub(&call->http->body_bytes, call->body_counted);
    ws_free(call->ws);
    free_pairs(call->headers);
    free_pairs(call->queries);
    json_decref(call->json);
    bytes_free(&call->body);
    bytes_free(&call->added);
    bytes_free(&call->out);
    bytes_free(&call->sending);
    free(call->path);
    free(call->arg_copy);
    pthread_mutex_destroy(&call->lock);
    free(call);
}

void call_count_body(struct call *call)
{
    call->body_counted = call->body_wanted;
    atomic_fetch_add(&call->http->body_bytes, call->body_counted);
}

void call_own(struct call *call, void *data, void (*release)(void *data))
{
    struct owned *o = malloc(sizeof *o);
    if (!o) { /* kept for ever rather than released too early */
        return;
    }
    *o = (struct owned){NULL, data, release};
    pthread_mutex_lock(&call->lock);
    o->next = call->owned;
    call->owned = o;
    pthread_mutex_unlock(&call->lock);
}

void call_answered(struct call *call)
{
    http_wake(call);
    call_release(call);
}

void call_lost(struct call *call)
{
    pthread_mutex_lock(&call->lock);
    void (*fn)(void *) = call->state != CALL_ENDED ? call->close_fn : NULL;
    void *user = call->close_user;
    call->gone = true;
    call->close_fn = NULL;
    bytes_free(&call->out);
    pthread_mutex_unlock(&call->lock);
    if (fn)
        fn(user);
}

void call_on_close(struct call *call, void (*fn)(void *user), void *user)
{
    pthread_mutex_lock(&call->lock);
    bool now = fn && call->gone && call->state != CALL_ENDED;
    call->close_fn = now ? NULL : fn;
    call->close_user = user;
    pthread_mutex_unlock(&call->lock);
    if (now)
        fn(user);
}

bool call_gone(const struct call *call)
{
    struct call *c = (struct call *)(uintptr_t)call;
    pthread_mutex_lock(&c->lock);
    bool gone = call->gone || call->broken;
    pthread_mutex_unlock(&c->lock);
    return gone;
}

/* ---- The request ---- */

/* name and value as they are; one block. */
static void add_pair(struct pair **list, const char *name, size_t name_len, const char *value, size_t len, bool bare)
{
    struct pair *p = malloc(sizeof *p + name_len + len + 2);
    if (!p)
        return;
    char *text = (char *)(p + 1);
    memcpy(text, name, name_len);
    text[name_len] = 0;
    memcpy(text + name_len + 1, value, len);
    text[name_len + 1 + len] = 0;
    *p = (struct pair){*list, text, text + name_len + 1, bare};
    *list = p;
}

void call_add_header(struct call *call, const char *name, const char *value, size_t len)
{
    add_pair(&call->headers, name, strlen(name), value, len, false);
}

/* "name=value", or "name" alone; decoded by the parser. */
void call_add_query(struct call *call, const char *text, size_t len)
{
    const char *eq = memchr(text, '=', len);
    size_t n = eq ? (size_t)(eq - text) : len;
    add_pair(&call->queries, text, n, eq ? eq + 1 : "", eq ? len - n - 1 : 0, !eq);
}

static const char *find_pair(const struct pair *p, const char *name)
{
    for (; p; p = p->next)
        if (strcmp(p->name, name) == 0)
            return p->value;
    return NULL;
}

const char *call_id(const struct call *call) { return call->id; }
const char *call_method(const struct call *call) { return call->method; }
const char *call_path(const struct call *call) { return call->path; }
const char *call_arg(const struct call *call) { return call->arg; }
uint64_t call_client(const struct call *call) { return call->client; }
enum api call_api(const struct call *call) { return call->api; }

const char *call_query(struct call *call, const char *name) { return find_pair(call->queries, name); }
const char *call_header(struct call *call, const char *name) { return find_pair(call->headers, name); }

const char *call_body(const struct call *call, size_t *len)
{
    *len = call->body.len;
    return call->body.data ? call->body.data : "";
}

const char *call_salt(const struct call *call)
{
    return call->key ? call->key->salt : "";
}

json_t *call_json_body(struct call *call)
{
    json_error_t err;
    if (call->json)
        return call->json;
    if (call->body.len == 0) {
        call_error(call, 400, NULL, NULL, NULL, "the request has no body; a JSON object is wanted");
        return NULL;
    }
    json_t *v = json_loadb(call->body.data, call->body.len, JSON_REJECT_DUPLICATES, &err);
    if (!v) {
        call_error(call, 400, NULL, "invalid_json", NULL, "the body is not valid JSON: line %d, column %d: %s", err.line, err.column, err.text);
        return NULL;
    }
    if (!json_is_object(v)) {
        json_decref(v);
        call_error(call, 400, NULL, "invalid_json", NULL, "the body is not a JSON object");
        return NULL;
    }
    return call->json = v;
}
