/* The inside of a call, for http.c and its neighbours only. */
#ifndef SERVER_CALL_H
#define SERVER_CALL_H

#include <pthread.h>
#include <stdatomic.h>

#include "bytes.h"
#include "server.h"

struct conn;
struct http;
struct ws;
struct api_key;

struct pair {
    struct pair *next;
    const char *name, *value;
    bool bare; /* a query without "=" */
};

struct owned {
    struct owned *next;
    void *data;
    void (*release)(void *data);
};

/* Something that a worker does. It lies in what it is about. */
struct job {
    struct job *next;
    void (*run)(struct job *job);
};

enum call_state { CALL_OPEN, CALL_STREAMING, CALL_ENDED };

struct call {
    struct job job; /* first: a job's address is its call's */
    struct later {
        struct job job;
        struct call *call;
        void (*fn)(void *user);
        void *user;
    } later; /* of call_later */
    atomic_uint refs; /* one is the answer's: it goes when the answer has ended */
    struct server *server;
    struct http *http;

    /* The request; does not change once the handler has been called. */
    const struct route *route; /* NULL: none */
    enum api api;
    char id[32];
    const char *method;  /* static */
    char *path;
    const char *arg;     /* into path's own copy */
    char *arg_copy;
    struct pair *headers, *queries;
    struct bytes body;
    uint64_t body_wanted; /* content-length */
    uint64_t body_counted; /* of these, in http's body_bytes */
    json_t *json;
    uint64_t client;
    const struct api_key *key; /* NULL: none was needed */
    char peer[48];
    const char *origin;  /* for CORS: what to allow; NULL: nothing */
    bool head_only, old; /* HEAD; HTTP/1.0 */
    bool last;           /* the client wants the connection closed behind it */
    uint64_t begun;      /* microseconds, monotonic */

    pthread_mutex_t lock; /* guards the following */
    enum call_state state;
    bool gone;           /* the client has */
    bool broken;         /* the connection is to be given up */
    bool close;          /* ... to be closed after the answer */
    bool chunked;
    int status;
    struct bytes added;  /* headers of the answer */
    struct bytes out;    /* what waits to be sent, behind LWS_PRE bytes of room */
    struct owned *owned;
    void (*close_fn)(void *user);
    void *close_user;
    uint64_t prompt_tokens, cached_tokens, generated_tokens;
    struct ws *ws;       /* NULL: not a WebSocket, or not accepted yet */

    /* Of the event loop. */
    struct conn *conn;   /* NULL: the client has gone, or all has been sent */
    struct bytes sending;
    size_t sent;         /* of sending, LWS_PRE included */
    uint64_t sent_bytes; /* in all */
    bool generates;      /* counts in http's limit */

    bool waking;         /* under http's lock: it is in the list of calls that have something to send */
    struct call *next_wake;
};

/* call.c */
struct call *call_create(struct http *http, struct server *server);
void call_add_header(struct call *call, const char *name, const char *value, size_t len);
void call_add_query(struct call *call, const char *text, size_t len);
/* The client has gone: what waits for that hears of it. */
void call_lost(struct call *call);
/* The body, whose length is known, counts in http->body_bytes for as long as the call lives. */
void call_count_body(struct call *call);
/* The answer has ended: its reference goes. The lock must not be held. */
void call_answered(struct call *call);

/* answer.c */
const char *status_text(int status);
/* An error as bytes of a JSON object. */
void error_body(struct bytes *out, enum api api, const char *request_id, int status, const char *type, const char *code, const char *param, const char *text);

/* route.c: the route of a method and a path. NULL: *status is 404 or 405, and allow lists the methods there are. *arg (free it): what {id} matched. */
const struct route *route_find(const char *method, const char *path, char **arg, int *status, struct bytes *allow);
enum api route_api(const char *path); /* whose shape errors on paths that nobody serves have */

/* workers.c */
struct workers *workers_start(uint32_t n);
void workers_add(struct workers *w, struct job *job);
void workers_stop(struct workers *w); /* when the queue is empty; joins */

/* http.c: from any thread: the call has something to send. */
void http_wake(struct call *call);
bool http_draining(const struct http *http);

uint64_t now_us(void); /* monotonic */

#endif
