/* HTTP as the endpoints see it. One thread runs the event loop (http.c); handlers run on workers, one call at a time each, and may take long. Every
 * function here may be called from any thread. A call is alive while somebody holds a reference; when its client has gone, writing does nothing. */
#ifndef SERVER_HTTP_H
#define SERVER_HTTP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct server;
struct call;

/* Which protocol's shape errors have. */
enum api { API_NATIVE, API_OPENAI, API_ANTHROPIC };

enum {
    ROUTE_OPEN = 1,      /* needs no key */
    ROUTE_NO_BODY = 2,   /* a body is ignored */
    ROUTE_GENERATES = 4, /* counts for the limit of concurrent requests */
    ROUTE_QUICK = 8,     /* the handler runs on the event loop: it must not wait for anything */
    ROUTE_PURE = 32,     /* gives an answer and changes nothing: need not run when the client has gone */
    ROUTE_LONG = 16      /* the handler computes for long: it runs on workers for such handlers, so that others need not wait for them */
};

/* Owns nothing: what it is given it has for itself until it has answered (call_json, call_error or call_stream_end), now or from another thread later. */
typedef void (*handler_fn)(struct server *server, struct call *call);

struct route {
    const char *method; /* "GET" */
    const char *path;   /* "/v1/responses/{id}/cancel": {id} matches one segment */
    enum api api;
    unsigned flags;
    handler_fn handler;
};
/* Ends with a method of NULL. routes.c lists the tables. */
extern const struct route *const route_tables[];

struct call *call_ref(struct call *call);
void call_release(struct call *call);
/* release(data) is called when the call's last reference goes: what call_on_close's fn uses belongs here, so that it lives while fn may run. May be used
 * several times; the last one is released first. */
void call_own(struct call *call, void *data, void (*release)(void *data));

/* Runs fn(user) on a worker: for what takes long (writing a file) and follows from a callback that must be quick. One at a time for a call, which lives as long. */
void call_later(struct call *call, void (*fn)(void *user), void *user);

/* The request; borrowed from the call. */
const char *call_id(const struct call *call);     /* "req_" and 24 letters: sent as x-request-id */
const char *call_method(const struct call *call);
const char *call_path(const struct call *call);   /* decoded, without query */
const char *call_arg(const struct call *call);    /* what {id} matched; NULL */
const char *call_query(struct call *call, const char *name);  /* decoded; NULL: not given */
const char *call_header(struct call *call, const char *name); /* lower case; NULL: not given */
const char *call_body(const struct call *call, size_t *len);
uint64_t call_client(const struct call *call);    /* by key, or by address where there are no keys: equal for equal clients, never 0 */
const char *call_salt(const struct call *call);   /* a tenant's salt for the prefix cache, from its key's configuration; "": none */
enum api call_api(const struct call *call);
/* The body as a JSON object (reference stolen by nobody: it lives as long as the call); NULL: the call has been answered with 400, which names line and column. */
json_t *call_json_body(struct call *call);

/* The answer, whole. body's reference is stolen. */
void call_json(struct call *call, int status, json_t *body);
void call_bytes(struct call *call, int status, const char *type, const void *data, size_t len);
/* An error in the shape of the route's API. type: OpenAI's or Anthropic's name ("invalid_request_error", "authentication_error", "not_found_error",
 * "rate_limit_error", "server_error"/"api_error", "overloaded_error"): NULL: what fits the status. param: the parameter at fault, or NULL. code: or NULL. */
void call_error(struct call *call, int status, const char *type, const char *code, const char *param, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
/* The same for an error of the library: 400 for the caller's faults, 404, 503 (LIMIT), 500. */
struct infer_error;
void call_status(struct call *call, int32_t status, const struct infer_error *err, const char *param);
/* A header of the answer; before it begins. */
void call_header_add(struct call *call, const char *name, const char *value);

/* The answer in pieces. begin sends status 200 and the headers. write copies; false: the client has gone, or has not read for so long that it was given
 * up. end finishes. After begin, errors can only be told in the stream's own way. */
void call_stream_begin(struct call *call, const char *type);
bool call_stream_write(struct call *call, const void *data, size_t len);
void call_stream_end(struct call *call);
/* Server-sent events: "event: NAME\ndata: JSON\n\n" (no event line when name is NULL). body's reference is stolen. */
bool call_stream_event(struct call *call, const char *name, json_t *body);
/* "data: TEXT\n\n". */
bool call_stream_text(struct call *call, const char *text);
/* fn is called once, from the event loop, when the client goes before the answer has ended (at once if it has gone already). It must be quick: cancel
 * something. NULL: forget it. After the answer has ended it is not called. */
void call_on_close(struct call *call, void (*fn)(void *user), void *user);
bool call_gone(const struct call *call);

/* A WebSocket connection. A route with method "WS" accepts the upgrade of a GET on its path: handler is called once with the connection's call. messages
 * are then given to fn one after the other on a worker (text frames, whole; data is zero-terminated); data NULL: the connection has closed. */
typedef void (*ws_fn)(void *user, const char *data, size_t len);
void ws_accept(struct call *call, ws_fn fn, void *user);
bool ws_send(struct call *call, const char *data, size_t len); /* one text frame; copies */
bool ws_send_json(struct call *call, json_t *body);            /* steals */
void ws_close(struct call *call, int code, const char *reason);
/* Before ws_accept: what call_error and call_status say of this connection goes to fn, in the shape of the route's API (body's reference is fn's), and is not
 * sent: so that code which answers calls can serve messages too. May come often. Without fn it is sent as a frame. */
void ws_on_error(struct call *call, void (*fn)(void *user, int status, json_t *body), void *user);

#endif
