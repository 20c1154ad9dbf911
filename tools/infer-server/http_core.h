/* The event loop and its connections: http.c, request.c, listen.c. */
#ifndef SERVER_HTTP_CORE_H
#define SERVER_HTTP_CORE_H

#include <libwebsockets.h>
#include <stdatomic.h>

#include "access_log.h"
#include "auth.h"
#include "call.h"
#include "hmac.h"
#include "limits.h"
#include "options.h"

/* What a connection waits for. Each has its time limit. */
enum wait { WAIT_NOTHING, WAIT_HEADER, WAIT_BODY, WAIT_READER /* the client reads too slowly */, WAIT_IDLE, WAIT_CLOSE /* what was closed on our side */, N_WAITS };

struct conn {
    struct http *http;
    struct lws *wsi;
    struct call *call;
    struct conn *next, *prev;             /* all connections */
    enum wait wait;
    uint64_t deadline;                    /* microseconds */
    struct conn *wait_next, *wait_prev;   /* those that wait for the same: the earliest deadline first */
    uint64_t address;                     /* a hash of the peer's */
    char peer[48];
    bool closing;                         /* close when everything has been sent */
    bool web_socket;
    bool unused;                          /* closing between two requests, so nothing is on its way: nobody waits for the client to close too */
    int body_ends;                        /* how often the library has said that the present request's body has ended */
};

struct waits { struct conn *first, *last; };

struct http {
    struct server *server;
    const struct options *options;
    struct auth auth;
    struct limits *limits;        /* NULL: no limit of rate */
    struct hmac *hmac;            /* NULL: requests are not signed */
    struct access_log *log;       /* or NULL */
    struct workers *workers;
    struct workers *long_workers; /* for ROUTE_LONG; NULL: the others do that too */

    struct lws_context *context;
    struct lws_vhost *vhost;
    int listener;                 /* descriptor; -1: none */
    struct lws *listener_wsi;
    int spare;                    /* a descriptor to give up when there are no more */
    char address[160];            /* what is listened on: "http://127.0.0.1:8080" */
    bool local;                   /* at an address that only this machine reaches */

    struct conn *conns;
    uint32_t n_conns, n_calls, n_generating;
    _Atomic uint64_t body_bytes;  /* of the bodies of calls: until the last reference has gone, also when the client has */
    struct waits waits[N_WAITS];
    lws_sorted_usec_list_t timer, drain_timer;

    pthread_mutex_t lock;         /* guards the list of calls that have something to send */
    struct call *wakes;
    atomic_int phase;             /* 0: serving; 1: draining; 2: over */
    bool drained;
    atomic_bool retiring;         /* see http_retire */
    bool single;                  /* the end of its connection is the end of everything: a child of --isolate fork */
    _Atomic uint64_t *idle_since; /* ... tells its parent since when it has nothing to do (now_us); 0: it has */
};

/* listen.c: opens the socket that the options name. 0, or an exit status after a message on standard error. */
int listen_open(struct http *http);
void listen_start(struct http *http); /* the event loop takes the socket over */
void listen_stop(struct http *http);
void listen_accept(struct http *http);
struct peer { uint64_t address; char name[48]; };
/* One connection; -1: none now. */
int listen_take(struct http *http, struct peer *peer);
void listen_refuse(struct http *http, int fd); /* with 503 */

/* request.c: the call of a request whose headers have come; answered already when it was refused. NULL: out of memory. */
struct call *request_begin(struct conn *conn, const char *method);
const char *request_method(struct lws *wsi);
/* Its body is whole: to the handler. */
void request_dispatch(struct call *call);

/* http.c */
void conn_open(struct http *http, int fd, const struct peer *peer);

/* The same in this order; each returns false after a message on standard error. create reads keys and opens files; open makes the event loop, in the process that
 * will run it; start makes the threads. The listener is listen.c's. */
bool http_create(struct http *http, struct server *server, const struct options *o);
bool http_open(struct http *http);
bool http_start(struct http *http);
void http_run(struct http *http);             /* until http_stop has had its effect */
void http_stop(struct http *http);            /* any thread: drain; called again: at once */
void http_quit(struct http *http);            /* ends workers and the listening socket; calls may still be answered, to nobody */
void http_retire(struct http *http);          /* any thread: connections are closed as soon as they are idle */
void http_free(struct http *http);

#endif
