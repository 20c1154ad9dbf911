#include "ws.h"

#include <libwebsockets.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "http_core.h"

#define MAX_WAITING 64                    /* messages that no worker has taken yet */
#define OUT_LIMIT ((size_t)4 << 20)       /* bytes that the client has not read yet */
#define MAX_REASON 123                    /* bytes of a close frame's reason (RFC 6455) */

struct frame {
    struct frame *next;
    size_t len;
    unsigned char data[]; /* of answers: LWS_PRE bytes of room, then the text; of messages: the text and a zero */
};

/* Under the call's lock, but rx. */
struct ws {
    ws_fn fn;
    void *user;
    struct frame *in, **in_last, *out, **out_last;
    size_t n_in, out_bytes, max_message;
    bool running;       /* a worker is at it, or will be */
    bool ended, told;   /* the connection has closed; fn knows */
    int close_code;     /* 0: stays open */
    char close_reason[MAX_REASON + 1];
    void (*error_fn)(void *user, int status, json_t *body);
    void *error_user;
    struct bytes rx;    /* a message that is not whole yet: the event loop's */
};

static struct frame *frame_new(const void *data, size_t len, size_t room)
{
    struct frame *f = malloc(sizeof *f + room + len + 1);
    if (!f)
        return NULL;
    f->next = NULL;
    f->len = len;
    memcpy(f->data + room, data, len);
    f->data[room + len] = 0;
    return f;
}

static void free_frames(struct frame *f)
{
    while (f) {
        struct frame *next = f->next;
        free(f);
        f = next;
    }
}

void ws_free(struct ws *ws)
{
    if (!ws)
        return;
    free_frames(ws->in);
    free_frames(ws->out);
    bytes_free(&ws->rx);
    free(ws);
}

/* ---- Messages to the endpoint, on a worker ---- */

/* The next thing to tell: a message, or (*ended) the end. NULL and not ended: nothing; the worker is free then. */
static struct frame *next_message(struct call *call, bool *ended)
{
    struct ws *ws = call->ws;
    pthread_mutex_lock(&call->lock);
    struct frame *f = ws->in;
    *ended = false;
    if (f) {
        ws->in = f->next;
        ws->n_in--;
        if (!ws->in)
            ws->in_last = &ws->in;
    } else if (ws->ended && !ws->told)
        *ended = ws->told = true;
    else
        ws->running = false;
    pthread_mutex_unlock(&call->lock);
    return f;
}

static void pump(struct job *job)
{
    struct call *call = (struct call *)job;
    struct ws *ws = call->ws;
    bool ended;
    for (;;) {
        struct frame *f = next_message(call, &ended);
        if (!f && !ended)
            break;
        if (ws->fn)
            ws->fn(ws->user, f ? (char *)f->data : NULL, f ? f->len : 0);
        free(f);
    }
    call_release(call);
}

static void first(struct job *job)
{
    struct call *call = (struct call *)job;
    call->route->handler(call->server, call);
    if (!call->ws->fn)
        ws_close(call, 1011, "not served");
    pump(job);
}

int ws_begin(struct call *call, size_t max_message)
{
    struct ws *ws = calloc(1, sizeof *ws);
    if (!ws)
        return 0;
    ws->in_last = &ws->in;
    ws->out_last = &ws->out;
    ws->max_message = max_message;
    ws->running = true;
    call->ws = ws;
    call->job.run = first;
    workers_add(call->http->workers, &call_ref(call)->job);
    return 1;
}

/* Under the lock. */
static void wake_worker(struct call *call)
{
    if (call->ws->running)
        return;
    call->ws->running = true;
    call->job.run = pump;
    workers_add(call->http->workers, &call_ref(call)->job);
}

/* ---- The connection, on the event loop ---- */

static int refuse(struct lws *wsi, enum lws_close_status code, const char *reason)
{
    lws_close_reason(wsi, code, (unsigned char *)(uintptr_t)reason, strlen(reason));
    return -1;
}

int ws_receive(struct call *call, struct lws *wsi, const void *data, size_t len)
{
    struct ws *ws = call->ws;
    if (lws_frame_is_binary(wsi))
        return refuse(wsi, LWS_CLOSE_STATUS_UNACCEPTABLE_OPCODE, "text is wanted");
    if (ws->rx.len + len > ws->max_message)
        return refuse(wsi, LWS_CLOSE_STATUS_MESSAGE_TOO_LARGE, "the message is too long");
    bytes_put(&ws->rx, data, len);
    if (ws->rx.failed)
        return refuse(wsi, LWS_CLOSE_STATUS_UNEXPECTED_CONDITION, "out of memory");
    if (!lws_is_final_fragment(wsi))
        return 0;
    struct frame *f = frame_new(ws->rx.data ? ws->rx.data : "", ws->rx.len, 0);
    bytes_free(&ws->rx);
    pthread_mutex_lock(&call->lock);
    bool full = !f || ws->n_in >= MAX_WAITING;
    if (!full) {
        *ws->in_last = f;
        ws->in_last = &f->next;
        ws->n_in++;
        wake_worker(call);
    }
    pthread_mutex_unlock(&call->lock);
    if (!full)
        return 0;
    free(f);
    return refuse(wsi, LWS_CLOSE_STATUS_POLICY_VIOLATION, "too many messages wait");
}

int ws_writable(struct call *call, struct lws *wsi)
{
    struct ws *ws = call->ws;
    pthread_mutex_lock(&call->lock);
    struct frame *f = ws->out;
    bool broken = call->broken;
    int code = f ? 0 : ws->close_code;
    if (f) {
        ws->out = f->next;
        ws->out_bytes -= f->len;
        if (!ws->out)
            ws->out_last = &ws->out;
    }
    bool more = ws->out || ws->close_code;
    pthread_mutex_unlock(&call->lock);
    if (broken)
        free(f);
    if (broken)
        return -1;
    if (!f)
        return code ? refuse(wsi, (enum lws_close_status)code, ws->close_reason) : 0;
    call->sent_bytes += f->len;
    int sent = lws_write(wsi, f->data + LWS_PRE, f->len, LWS_WRITE_TEXT);
    free(f);
    if (more)
        lws_callback_on_writable(wsi);
    return sent < 0 ? -1 : more;
}

void ws_closed(struct call *call)
{
    pthread_mutex_lock(&call->lock);
    bool first_time = call->ws && !call->ws->ended;
    if (first_time) {
        call->ws->ended = true;
        wake_worker(call);
    }
    pthread_mutex_unlock(&call->lock);
    if (first_time)
        call_release(call); /* the answer's */
}

/* ---- For endpoints ---- */

void ws_accept(struct call *call, ws_fn fn, void *user)
{
    call->ws->fn = fn;
    call->ws->user = user;
}

void ws_on_error(struct call *call, void (*fn)(void *user, int status, json_t *body), void *user)
{
    call->ws->error_fn = fn;
    call->ws->error_user = user;
}

void ws_error(struct call *call, int status, const char *body, size_t len)
{
    json_t *v = call->ws->error_fn ? json_loadb(body, len, 0, NULL) : NULL;
    if (v)
        call->ws->error_fn(call->ws->error_user, status, v);
    else
        (void)ws_send(call, body, len);
}

bool ws_send(struct call *call, const char *data, size_t len)
{
    struct ws *ws = call->ws;
    struct frame *f = frame_new(data, len, LWS_PRE);
    pthread_mutex_lock(&call->lock);
    bool ok = !call->gone && !call->broken && !ws->ended && !ws->close_code;
    if (ok && (!f || ws->out_bytes > OUT_LIMIT)) {
        call->broken = true;
        ok = false;
    } else if (ok) {
        *ws->out_last = f;
        ws->out_last = &f->next;
        ws->out_bytes += len;
        f = NULL;
    }
    pthread_mutex_unlock(&call->lock);
    free(f);
    http_wake(call);
    return ok;
}

bool ws_send_json(struct call *call, json_t *body)
{
    char *text = body ? json_dumps(body, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    bool ok = text && ws_send(call, text, strlen(text));
    if (!text)
        ws_close(call, 1011, "out of memory");
    json_decref(body);
    free(text);
    return ok;
}

void ws_close(struct call *call, int code, const char *reason)
{
    pthread_mutex_lock(&call->lock);
    if (!call->ws->close_code) {
        call->ws->close_code = code;
        strncpy(call->ws->close_reason, reason ? reason : "", MAX_REASON);
    }
    pthread_mutex_unlock(&call->lock);
    http_wake(call);
}
