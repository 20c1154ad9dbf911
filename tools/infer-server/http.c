#include "http_core.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "metrics.h"
#include "ws.h"

#define PIECE 65536            /* bytes given to the kernel at once */
#define HEADER_ROOM 32768      /* for a request's headers; of longer ones the library closes the connection without a word */
#define LINGER 5               /* seconds that a client may take to close its side too */
#define FOREVER 86400          /* seconds: the library's own time limits are set aside; ours are below */

uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

bool http_draining(const struct http *http)
{
    return atomic_load_explicit(&http->phase, memory_order_relaxed) > 0;
}

/* ---- Time limits: a list for each thing that is waited for, in order of deadlines, and one timer for all ---- */

static void tick(lws_sorted_usec_list_t *timer);

static void schedule(struct http *http)
{
    uint64_t first = UINT64_MAX, now = now_us();
    for (int w = 1; w < N_WAITS; w++)
        if (http->waits[w].first && http->waits[w].first->deadline < first)
            first = http->waits[w].first->deadline;
    lws_sul_schedule(http->context, 0, &http->timer, tick, first == UINT64_MAX ? LWS_SET_TIMER_USEC_CANCEL : first > now ? (lws_usec_t)(first - now) : 1);
}

static void wait_for(struct conn *c, enum wait what)
{
    struct http *http = c->http;
    if (c->wait != WAIT_NOTHING) {
        struct waits *list = &http->waits[c->wait];
        *(c->wait_prev ? &c->wait_prev->wait_next : &list->first) = c->wait_next;
        *(c->wait_next ? &c->wait_next->wait_prev : &list->last) = c->wait_prev;
    }
    c->wait = what;
    if (what == WAIT_NOTHING)
        return; /* the timer may come for nothing */
    struct waits *list = &http->waits[what];
    bool alone = !list->first;
    c->deadline = now_us() + 1000000ull * (what == WAIT_IDLE ? http->options->keep_alive : what == WAIT_CLOSE ? LINGER : http->options->timeout);
    c->wait_next = NULL;
    c->wait_prev = list->last;
    *(list->last ? &list->last->wait_next : &list->first) = c;
    list->last = c;
    if (alone)
        schedule(http);
}

static void conn_lost(struct conn *c);

static void conn_close(struct conn *c)
{
    c->closing = true;
    wait_for(c, WAIT_CLOSE);
    lws_set_timeout(c->wsi, PENDING_TIMEOUT_CLOSE_SEND, LWS_TO_KILL_ASYNC);
}

/* Gives the client up. The library may take a while to close: it tries to send what it has. The answer ends now. */
static void conn_drop(struct conn *c)
{
    conn_lost(c);
    conn_close(c);
}

static void expired(struct conn *c)
{
    static const char late[] = "HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    enum wait what = c->wait;
    wait_for(c, WAIT_NOTHING);
    if (what == WAIT_BODY) {
        call_error(c->call, 408, NULL, NULL, NULL, "the body did not arrive within %u s", c->http->options->timeout);
        return;
    }
    if (what == WAIT_HEADER) {
        unsigned char text[LWS_PRE + sizeof late];
        memcpy(text + LWS_PRE, late, sizeof late);
        (void)lws_write(c->wsi, text + LWS_PRE, sizeof late - 1, LWS_WRITE_HTTP_HEADERS);
    }
    conn_drop(c);
}

static void tick(lws_sorted_usec_list_t *timer)
{
    struct http *http = lws_container_of(timer, struct http, timer);
    uint64_t now = now_us();
    for (int w = 1; w < N_WAITS; w++)
        while (http->waits[w].first && http->waits[w].first->deadline <= now)
            expired(http->waits[w].first);
    schedule(http);
}

/* ---- Connections ---- */

void conn_open(struct http *http, int fd, const struct peer *peer)
{
    lws_sock_file_fd_type d;
    struct conn *c = calloc(1, sizeof *c);
    d.sockfd = fd;
    if (!c) {
        close(fd);
        return;
    }
    c->wsi = lws_adopt_descriptor_vhost(http->vhost, LWS_ADOPT_SOCKET | LWS_ADOPT_HTTP | (http->options->tls_cert ? LWS_ADOPT_ALLOW_SSL : 0), d,
                                        NULL, NULL); /* closes fd when it fails */
    if (!c->wsi) {
        free(c);
        return;
    }
    lws_set_opaque_user_data(c->wsi, c);
    c->http = http;
    c->address = peer->address;
    memcpy(c->peer, peer->name, sizeof c->peer);
    c->next = http->conns;
    if (c->next)
        c->next->prev = c;
    http->conns = c;
    http->n_conns++;
    wait_for(c, WAIT_HEADER);
}

static void log_call(struct http *http, const struct call *call, int status)
{
    struct bytes line = {0};
    struct timespec now;
    struct tm t;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &t);
    bytes_printf(&line, "{\"time\":\"%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ\",\"id\":\"%s\",\"client\":", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday,
                 t.tm_hour, t.tm_min, t.tm_sec, now.tv_nsec / 1000000, call->id);
    bytes_json_string(&line, call->peer, strlen(call->peer));
    if (call->key) {
        bytes_puts(&line, ",\"key\":");
        bytes_json_string(&line, call->key->name, strlen(call->key->name));
    }
    bytes_printf(&line, ",\"method\":\"%s\",\"path\":", call->method);
    bytes_json_string(&line, call->path, strlen(call->path));
    bytes_printf(&line, ",\"status\":%d,\"ms\":%.3f,\"bytes_in\":%zu,\"bytes_out\":%llu", status, (double)(now_us() - call->begun) * 1e-3,
                 call->body.len, (unsigned long long)call->sent_bytes);
    if (call->prompt_tokens || call->generated_tokens)
        bytes_printf(&line, ",\"prompt_tokens\":%llu,\"cached_tokens\":%llu,\"generated_tokens\":%llu", (unsigned long long)call->prompt_tokens,
                     (unsigned long long)call->cached_tokens, (unsigned long long)call->generated_tokens);
    bytes_puts(&line, "}\n");
    if (!line.failed)
        access_log_put(http->log, line.data, line.len);
    bytes_free(&line);
}

/* Of a child: when it began to have nothing to do. */
static void note_idle(struct http *http)
{
    if (http->idle_since)
        atomic_store(http->idle_since, http->n_calls ? 0 : now_us());
}

/* The connection and its call part: everything has been sent, or the client has gone (499 in the log). */
static void finish_call(struct conn *c, bool lost)
{
    struct http *http = c->http;
    struct call *call = c->call;
    c->call = NULL;
    call->conn = NULL;
    http->n_calls--;
    note_idle(http);
    if (call->generates)
        http->n_generating--;
    if (lost) {
        ws_closed(call);
        call_lost(call);
    }
    pthread_mutex_lock(&call->lock);
    int status = lost && !c->web_socket ? 499 : call->status ? call->status : 101;
    metrics_answered(http->server->metrics, call->route ? call->route->path : "", status, (double)(now_us() - call->begun) * 1e-6);
    if (http->log)
        log_call(http, call, status);
    pthread_mutex_unlock(&call->lock);
    call_release(call);
}

static void conn_lost(struct conn *c)
{
    struct call *call = c->call;
    wait_for(c, WAIT_NOTHING);
    if (!call)
        return;
    bool dispatched = call->job.run != NULL;
    finish_call(c, true);
    if (!dispatched) /* nobody has it who would answer */
        call_bytes(call, 499, NULL, "", 0);
}

static void conn_free(struct conn *c)
{
    struct http *http = c->http;
    conn_lost(c);
    *(c->prev ? &c->prev->next : &http->conns) = c->next;
    if (c->next)
        c->next->prev = c->prev;
    http->n_conns--;
    lws_set_opaque_user_data(c->wsi, NULL);
    free(c);
}

/* ---- Requests ---- */

static int on_writable(struct conn *c);

static int on_request(struct conn *c)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct call *call;
    wait_for(c, WAIT_NOTHING);
    if (c->call || c->closing)
        return -1;
    c->body_ends = 0;
    call = request_begin(c, request_method(c->wsi));
    if (!call)
        return -1;
    c->call = call_ref(call); /* the other reference is the answer's */
    c->http->n_calls++;
    lws_set_timeout(c->wsi, NO_PENDING_TIMEOUT, 0); /* ours are in force */
    note_idle(c->http);
    if (call->body_wanted > c->http->options->max_body)
        call->body_wanted = 0;
    call_count_body(call);
    if (call->state != CALL_OPEN) { /* refused: its reference has gone. What may come behind it must not keep the answer from being sent */
        if (call->close)
            return on_writable(c);
        lws_callback_on_writable(c->wsi);
        return 0;
    }
    if (call->body_wanted == 0) {
        request_dispatch(call);
        return 0;
    }
    const char *expect = call_header(call, "expect");
    if (expect && strcasecmp(expect, "100-continue") == 0) {
        unsigned char text[LWS_PRE + sizeof go_on];
        memcpy(text + LWS_PRE, go_on, sizeof go_on);
        if (lws_write(c->wsi, text + LWS_PRE, sizeof go_on - 1, LWS_WRITE_HTTP_HEADERS) < 0)
            return -1;
    }
    wait_for(c, WAIT_BODY);
    return 0;
}

static int on_body(struct conn *c, const void *data, size_t len)
{
    struct call *call = c->call;
    if (!call || c->wait != WAIT_BODY)
        return 0; /* of a request that has been refused: thrown away until the connection closes */
    if (call->body.len + len > call->body_wanted)
        return -1;
    bytes_put(&call->body, data, len);
    if (call->body.failed) {
        wait_for(c, WAIT_NOTHING);
        call_error(call, 503, NULL, NULL, NULL, "out of memory");
    }
    return 0;
}

/* The library calls this again and again, without end, when more bytes lie behind the body: a second time ends the connection. So nothing may be sent
 * behind a body before its answer has come. */
static int on_body_end(struct conn *c)
{
    struct call *call = c->call;
    if (c->body_ends++)
        return -1;
    if (!call || c->wait != WAIT_BODY)
        return 0; /* there is no body, or nobody wants it */
    if (call->body.len != call->body_wanted)
        return -1;
    wait_for(c, WAIT_NOTHING);
    call->close = call->last;
    request_dispatch(call);
    return 0;
}

/* What is to be sent next lies in call->sending. Returns whether everything has been sent and the answer has ended. */
static bool refill(struct call *call, bool *broken)
{
    pthread_mutex_lock(&call->lock);
    if (call->sent == call->sending.len && call->out.len) {
        struct bytes empty = call->sending;
        call->sending = call->out;
        call->out = empty;
        call->out.len = 0;
        call->sent = LWS_PRE;
    }
    bool done = call->sent == call->sending.len && call->state == CALL_ENDED;
    *broken = call->broken;
    pthread_mutex_unlock(&call->lock);
    return done;
}

static int end_transaction(struct conn *c)
{
    bool close = c->call->close;
    finish_call(c, false);
    wait_for(c, WAIT_NOTHING);
    if (close || http_draining(c->http) || atomic_load(&c->http->retiring)) {
        c->closing = true;
        lws_callback_on_writable(c->wsi); /* comes when the kernel has taken everything */
        return 0;
    }
    wait_for(c, WAIT_IDLE);
    return lws_http_transaction_completed(c->wsi) ? -1 : 0;
}

static int on_writable(struct conn *c)
{
    bool broken;
    if (c->closing) {
        wait_for(c, WAIT_CLOSE);
        return -1;
    }
    if (!c->call)
        return 0;
    struct call *call = c->call;
    bool done = refill(call, &broken);
    if (broken)
        return -1;
    size_t n = call->sending.len - call->sent;
    if (n > PIECE)
        n = PIECE;
    if (n) {
        if (lws_write(c->wsi, (unsigned char *)call->sending.data + call->sent, n, LWS_WRITE_HTTP) < 0)
            return -1;
        call->sent += n;
        call->sent_bytes += n;
        done = refill(call, &broken);
        if (broken)
            return -1;
    }
    if (done)
        return end_transaction(c);
    if (call->sent < call->sending.len || lws_partial_buffered(c->wsi)) {
        wait_for(c, WAIT_READER);
        lws_callback_on_writable(c->wsi);
    } else if (c->wait == WAIT_READER)
        wait_for(c, WAIT_NOTHING);
    return 0;
}

/* ---- WebSocket ---- */

/* 0: upgrade; 1: refused, and said so. */
static int on_upgrade(struct conn *c, char *to)
{
    bool broken;
    struct call *call;
    if (strcasecmp(to, "websocket") != 0) { /* h2c: the request is served as if it had not asked, which the library does for names it does not know */
        to[0] = '-';
        return 0;
    }
    wait_for(c, WAIT_NOTHING);
    if (c->call)
        return -1;
    call = request_begin(c, "WS");
    if (!call)
        return -1;
    c->call = call_ref(call);
    c->http->n_calls++;
    note_idle(c->http);
    if (call->state == CALL_OPEN) {
        c->web_socket = true;
        return 0;
    }
    (void)refill(call, &broken);
    size_t n = call->sending.len - call->sent;
    int wrote = broken ? -1 : lws_write(c->wsi, (unsigned char *)call->sending.data + call->sent, n, LWS_WRITE_HTTP);
    call->sent_bytes = n;
    finish_call(c, false);
    wait_for(c, WAIT_IDLE);
    return wrote < 0 ? -1 : 1;
}

static int on_ws_writable(struct conn *c)
{
    int more = c->call && !c->closing ? ws_writable(c->call, c->wsi) : -1;
    wait_for(c, more > 0 ? WAIT_READER : WAIT_NOTHING);
    return more < 0 ? -1 : 0;
}

/* ---- Other threads ---- */

void http_wake(struct call *call)
{
    struct http *http = call->http;
    pthread_mutex_lock(&http->lock);
    bool first = !http->wakes;
    bool fresh = !call->waking;
    if (fresh) {
        call->waking = true;
        call->next_wake = http->wakes;
        http->wakes = call_ref(call);
    }
    pthread_mutex_unlock(&http->lock);
    if (fresh && first)
        lws_cancel_service(http->context);
}

static bool is_broken(struct call *call)
{
    pthread_mutex_lock(&call->lock);
    bool broken = call->broken;
    pthread_mutex_unlock(&call->lock);
    return broken;
}

static void take_wakes(struct http *http)
{
    pthread_mutex_lock(&http->lock);
    struct call *list = http->wakes;
    http->wakes = NULL;
    pthread_mutex_unlock(&http->lock);
    while (list) {
        struct call *call = list;
        pthread_mutex_lock(&http->lock);
        list = call->next_wake;
        call->waking = false;
        pthread_mutex_unlock(&http->lock);
        if (call->conn && is_broken(call))
            conn_drop(call->conn); /* who does not read may never be writable again */
        else if (call->conn) {
            lws_callback_on_writable(call->conn->wsi);
            if (call->conn->wait == WAIT_NOTHING)
                wait_for(call->conn, WAIT_READER); /* until it is writable */
        }
        call_release(call);
    }
}

/* ---- The end ---- */

static void drain_over(lws_sorted_usec_list_t *timer)
{
    struct http *http = lws_container_of(timer, struct http, drain_timer);
    atomic_store(&http->phase, 2);
    lws_cancel_service(http->context);
}

static void close_idle(struct http *http)
{
    for (struct conn *c = http->conns, *next; c; c = next) {
        next = c->next;
        if (!c->call && !c->closing) {
            conn_close(c);
            c->unused = true;
        }
    }
}

/* Whether there is a connection whose client still has something to get. */
static bool in_use(const struct http *http)
{
    const struct conn *c = http->conns;
    while (c && c->unused)
        c = c->next;
    return c != NULL;
}

static void begin_drain(struct http *http)
{
    http->drained = true;
    listen_stop(http);
    for (struct conn *c = http->conns; c; c = c->next)
        if (c->web_socket && c->call && c->call->ws)
            ws_close(c->call, 1001, "the server is stopping");
    close_idle(http);
    lws_sul_schedule(http->context, 0, &http->drain_timer, drain_over, (lws_usec_t)http->options->drain * 1000000 + 1);
}

void http_retire(struct http *http)
{
    atomic_store(&http->retiring, true);
    lws_cancel_service(http->context);
}

void http_stop(struct http *http)
{
    atomic_fetch_add(&http->phase, 1);
    lws_cancel_service(http->context);
}

void http_run(struct http *http)
{
    listen_start(http);
    while (lws_service(http->context, 0) >= 0) {
        int phase = atomic_load(&http->phase);
        if (phase && !http->drained)
            begin_drain(http);
        if (!phase && !http->drained && atomic_load(&http->retiring))
            close_idle(http);
        if (phase > 1 || ((phase || http->single) && !in_use(http)))
            break;
    }
    for (struct conn *c = http->conns; c; c = c->next) /* what is cut off now stops computing */
        conn_lost(c);
}

/* ---- The library's callback ---- */

static int event(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
    struct conn *c = wsi ? lws_get_opaque_user_data(wsi) : NULL;
    (void)user;
    if (reason == LWS_CALLBACK_EVENT_WAIT_CANCELLED) {
        struct http *http = lws_context_user(lws_get_context(wsi));
        take_wakes(http);
        return 0;
    }
    if (!c)
        return 0;
    switch (reason) {
    case LWS_CALLBACK_HTTP: return on_request(c);
    case LWS_CALLBACK_HTTP_BODY: return on_body(c, in, len);
    case LWS_CALLBACK_HTTP_BODY_COMPLETION: return on_body_end(c);
    case LWS_CALLBACK_HTTP_WRITEABLE: return on_writable(c);
    case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE: return on_upgrade(c, in);
    case LWS_CALLBACK_ESTABLISHED: return c->call && ws_begin(c->call, c->http->options->max_body) ? 0 : -1;
    case LWS_CALLBACK_RECEIVE: return c->call ? ws_receive(c->call, wsi, in, len) : -1;
    case LWS_CALLBACK_SERVER_WRITEABLE: return on_ws_writable(c);
    case LWS_CALLBACK_CLOSED_HTTP:
    case LWS_CALLBACK_CLOSED:
        conn_lost(c);
        return 0;
    case LWS_CALLBACK_WSI_DESTROY: conn_free(c); return 0;
    default: return 0;
    }
}

static int listener_event(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
    (void)user;
    (void)in;
    (void)len;
    if (reason == LWS_CALLBACK_RAW_RX_FILE)
        listen_accept(lws_context_user(lws_get_context(wsi)));
    return 0;
}

static const struct lws_protocols protocols[] = {
    {"http", event, 0, PIECE, 0, NULL, 0},
    {"listen", listener_event, 0, 0, 0, NULL, 0},
    {NULL, NULL, 0, 0, 0, NULL, 0},
};

/* ---- Start ---- */

static void on_log(int level, const char *line)
{
    (void)level;
    fprintf(stderr, "infer-server: %s", line);
}

/* Tables of the library are as long as the limit of descriptors: neither too short nor millions. */
static void set_descriptor_limit(const struct options *o)
{
    struct rlimit r;
    rlim_t want = (rlim_t)o->max_conns + 1024;
    if (getrlimit(RLIMIT_NOFILE, &r) != 0)
        return;
    r.rlim_cur = r.rlim_max == RLIM_INFINITY || want < r.rlim_max ? want : r.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &r);
}

/* libwebsockets says of a file that it cannot read no more than of one that holds something else. */
static bool can_read(const char *option, const char *path)
{
    FILE *f = path ? fopen(path, "r") : NULL;
    if (path && !f)
        fprintf(stderr, "infer-server: %s %s: %s\n", option, path, strerror(errno));
    if (f)
        fclose(f);
    return !path || f;
}

static bool start_lws(struct http *http)
{
    struct lws_context_creation_info info = {0};
    const struct options *o = http->options;
    if (!can_read("--tls-cert", o->tls_cert) || !can_read("--tls-key", o->tls_key))
        return false;
    set_descriptor_limit(o);
    lws_set_log_level(o->tls_cert ? LLL_ERR : 0, on_log); /* what is wrong with it */
    info.port = CONTEXT_PORT_NO_LISTEN_SERVER;
    info.protocols = protocols;
    info.options = LWS_SERVER_OPTION_EXPLICIT_VHOSTS | LWS_SERVER_OPTION_VALIDATE_UTF8 | LWS_SERVER_OPTION_DISABLE_IPV6 |
                   (o->tls_cert ? LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT : 0);
    info.user = http;
    info.gid = info.uid = (gid_t)-1;
    info.vhost_name = "infer";
    info.max_http_header_data2 = HEADER_ROOM;
    info.timeout_secs = info.timeout_secs_ah_idle = FOREVER;
    info.keepalive_timeout = FOREVER;
    info.pt_serv_buf_size = PIECE;
    info.alpn = "http/1.1";
    info.ssl_cert_filepath = o->tls_cert;
    info.ssl_private_key_filepath = o->tls_key;
    http->context = lws_create_context(&info);
    http->vhost = http->context ? lws_create_vhost(http->context, &info) : NULL;
    lws_set_log_level(0, on_log); /* from here on peers could fill the log */
    if (!http->vhost && o->tls_cert)
        fprintf(stderr, "infer-server: the TLS certificate %s and the key %s cannot be used: PEM is wanted, and the key must be the certificate's\n", o->tls_cert, o->tls_key);
    else if (!http->vhost)
        fputs("infer-server: the event loop cannot be started\n", stderr);
    return http->vhost != NULL;
}

bool http_create(struct http *http, struct server *server, const struct options *o)
{
    memset(http, 0, sizeof *http);
    http->server = server;
    http->options = o;
    http->listener = http->spare = -1;
    pthread_mutex_init(&http->lock, NULL);
    if (!auth_load(&http->auth, o) || (o->access_log && !(http->log = access_log_open(o->access_log))))
        return false;
    if (o->hmac_key) {
        struct hmac_options ho = {.key_file = o->hmac_key, .skew = o->hmac_skew, .nonces = o->hmac_nonces};
        char error[512];
        http->hmac = hmac_create(&ho, (int64_t)time(NULL), error, sizeof error);
        if (!http->hmac) {
            fprintf(stderr, "infer-server: %s\n", error);
            return false;
        }
    }
    if (o->rate_limit <= 0 || (http->limits = limits_create(o->rate_limit)))
        return true;
    fputs("infer-server: out of memory\n", stderr);
    return false;
}

bool http_open(struct http *http)
{
    return start_lws(http);
}

#define LONG_WORKERS 2 /* the library computes one pass at a time: more of them would only take turns */

bool http_start(struct http *http)
{
    const struct options *o = http->options;
    http->workers = workers_start(http->single && o->workers > 2 ? 2 : o->workers); /* one connection: more than one call only by WebSocket */
    if (http->workers && !http->single)
        http->long_workers = workers_start(LONG_WORKERS);
    if (http->workers && (http->long_workers || http->single) && (!http->log || access_log_start(http->log)))
        return true;
    fputs("infer-server: threads cannot be started\n", stderr);
    return false;
}

void http_quit(struct http *http)
{
    struct workers *workers = http->workers;
    pthread_mutex_lock(&http->lock); /* see call_later */
    http->workers = NULL;
    pthread_mutex_unlock(&http->lock);
    workers_stop(workers);
    workers_stop(http->long_workers);
    http->long_workers = NULL;
    listen_stop(http);
}

void http_free(struct http *http)
{
    if (http->context)
        take_wakes(http);
    if (http->context)
        lws_context_destroy(http->context);
    access_log_close(http->log);
    limits_free(http->limits);
    hmac_free(http->hmac);
    auth_free(&http->auth);
    pthread_mutex_destroy(&http->lock);
}
