/* Responses over a WebSocket: the client sends {"type": "response.create", ...} with the fields of POST /v1/responses, and gets the events of a stream as
 * text frames. Responses of one lane (stream_id; none is one too) come one after the other, those of different lanes side by side. */
#include "responses_ws.h"

#include <stdlib.h>
#include <string.h>

#define WAITING_MAX 64 /* messages of a connection that wait for their lane */
#define WAITING_BYTES ((size_t)16 << 20) /* of them, as long as there is more than one: a message may have as much by itself */
#define LOCAL_MAX 16   /* responses that are not stored, but may be continued on this connection */
#define LANE_MAX 128

struct message {
    struct message *next;
    json_t *body;
    size_t len; /* bytes it came in */
};

struct local {
    char id[RESPONSE_ID];
    json_t *doc;
    infer_checkpoint *state;
};

struct connection {
    atomic_uint refs;
    struct server *server;
    struct call *call;        /* a reference */
    pthread_mutex_t starting; /* one message at a time is checked and started: lane is its */
    const char *lane;
    pthread_mutex_t lock;     /* of what follows */
    bool closed;
    struct turn *turns;       /* running, by ws_next */
    struct message *waiting;  /* in order */
    unsigned n_waiting;
    size_t waiting_bytes;
    struct local local[LOCAL_MAX]; /* a ring */
    unsigned next_local;
};

/* ---- Lifetime ---------------------------------------------------------------------------------------------------- */

struct connection *connection_ref(struct connection *c)
{
    atomic_fetch_add(&c->refs, 1);
    return c;
}

static void local_clear(struct local *l)
{
    json_decref(l->doc);
    infer_checkpoint_release(l->state);
    memset(l, 0, sizeof *l);
}

static void messages_free(struct message *m)
{
    while (m) {
        struct message *next = m->next;
        json_decref(m->body);
        free(m);
        m = next;
    }
}

void connection_release(struct connection *c)
{
    if (!c || atomic_fetch_sub(&c->refs, 1) != 1)
        return;
    for (unsigned i = 0; i < LOCAL_MAX; i++)
        local_clear(&c->local[i]);
    messages_free(c->waiting);
    call_release(c->call);
    (void)pthread_mutex_destroy(&c->lock);
    (void)pthread_mutex_destroy(&c->starting);
    free(c);
}

void connection_keep(struct connection *c, const char *id, json_t *doc, infer_checkpoint *state)
{
    (void)pthread_mutex_lock(&c->lock);
    struct local *l = &c->local[c->next_local++ % LOCAL_MAX];
    local_clear(l);
    memcpy(l->id, id, RESPONSE_ID);
    l->doc = json_incref(doc);
    l->state = state ? infer_checkpoint_ref(state) : NULL;
    (void)pthread_mutex_unlock(&c->lock);
}

json_t *connection_find(struct connection *c, const char *id, infer_checkpoint **state)
{
    json_t *doc = NULL;
    (void)pthread_mutex_lock(&c->lock);
    for (unsigned i = 0; i < LOCAL_MAX && !doc; i++)
        if (c->local[i].doc && strcmp(c->local[i].id, id) == 0) {
            doc = json_incref(c->local[i].doc);
            *state = c->local[i].state ? infer_checkpoint_ref(c->local[i].state) : NULL;
        }
    (void)pthread_mutex_unlock(&c->lock);
    return doc;
}

/* ---- Out --------------------------------------------------------------------------------------------------------- */

void connection_send(struct connection *c, const char *lane, json_t *event)
{
    if (lane)
        (void)json_object_set_new(event, "stream_id", json_string(lane));
    (void)ws_send_json(c->call, event);
}

/* What call_error says while a message is checked. body: {"error": {...}}. */
static void on_error(void *user, int status, json_t *body)
{
    struct connection *c = user;
    connection_send(c, c->lane, json_pack("{s:s, s:i, s:O}", "type", "error", "status", status, "error", json_object_get(body, "error")));
    json_decref(body);
}

static void refuse(struct connection *c, const char *lane, const char *param, const char *text)
{
    connection_send(c, lane, json_pack("{s:s, s:i, s:{s:s, s:n, s:s, s:s?}}", "type", "error", "status", 400, "error", "type", "invalid_request_error", "code",
                                       "message", text, "param", param));
}

/* ---- In ---------------------------------------------------------------------------------------------------------- */

static const char *lane_of(const json_t *body)
{
    return json_string_value(json_object_get(body, "stream_id"));
}

static bool same_lane(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool lane_busy(const struct connection *c, const char *lane)
{
    for (const struct turn *t = c->turns; t; t = t->ws_next)
        if (same_lane(t->lane, lane))
            return true;
    return false;
}

/* The first waiting message whose lane is free, taken out. With the lock. */
static struct message *next_message(struct connection *c)
{
    struct message **at = &c->waiting;
    while (*at && lane_busy(c, lane_of((*at)->body)))
        at = &(*at)->next;
    struct message *m = *at;
    if (m) {
        *at = m->next;
        c->n_waiting--;
        c->waiting_bytes -= m->len;
    }
    return m;
}

/* Starts what can start. The lock `starting` makes the turn known before anything else may start in its lane. */
static void start_waiting(struct connection *c)
{
    (void)pthread_mutex_lock(&c->starting);
    for (;;) {
        (void)pthread_mutex_lock(&c->lock);
        struct message *m = c->closed ? NULL : next_message(c);
        (void)pthread_mutex_unlock(&c->lock);
        if (!m)
            break;
        c->lane = lane_of(m->body);
        struct turn *t = responses_create(c->server, c->call, json_incref(m->body), c, c->lane);
        c->lane = NULL;
        json_decref(m->body);
        free(m);
        if (!t)
            continue;
        (void)pthread_mutex_lock(&c->lock);
        bool gone = c->closed;
        if (!t->ws_ended) {
            t->ws_next = c->turns;
            c->turns = turn_ref(t);
        }
        (void)pthread_mutex_unlock(&c->lock);
        if (gone)
            turn_cancel(t);
        turn_release(t);
    }
    (void)pthread_mutex_unlock(&c->starting);
}

void connection_ended(struct connection *c, struct turn *t)
{
    struct turn *mine = NULL;
    (void)pthread_mutex_lock(&c->lock);
    t->ws_ended = true; /* it may end before start_waiting has put it into the list */
    for (struct turn **at = &c->turns; *at; at = &(*at)->ws_next)
        if (*at == t) {
            *at = t->ws_next;
            mine = t;
            break;
        }
    (void)pthread_mutex_unlock(&c->lock);
    turn_release(mine);
    start_waiting(c);
}

static void queue(struct connection *c, json_t *body, size_t len)
{
    struct message *m = calloc(1, sizeof *m);
    (void)pthread_mutex_lock(&c->lock);
    bool taken = m && (c->n_waiting == 0 || (c->n_waiting < WAITING_MAX && c->waiting_bytes + len <= WAITING_BYTES));
    if (taken) {
        struct message **at = &c->waiting;
        while (*at)
            at = &(*at)->next;
        m->body = json_incref(body);
        m->len = len;
        *at = m;
        c->n_waiting++;
        c->waiting_bytes += len;
    }
    (void)pthread_mutex_unlock(&c->lock);
    if (taken) {
        start_waiting(c);
        return;
    }
    free(m);
    refuse(c, lane_of(body), NULL, "too many responses wait on this connection");
}

/* response.steer is known, and refused in its own form. */
static void refuse_steer(struct connection *c, const json_t *body)
{
    json_t *input = json_object_get(body, "input"), *previous = json_object_get(body, "previous_response_id");
    connection_send(c, NULL, json_pack("{s:s, s:i, s:{s:s, s:s, s:s}, s:{s:O?, s:O?}}", "type", "response.steer.failed", "sequence_number", 0, "error", "type",
                                       "invalid_request_error", "code", "steering_not_supported", "message", "this server does not steer responses",
                                       "steer", "input", input, "previous_response_id", previous));
}

static void take(struct connection *c, const char *data, size_t len)
{
    json_error_t wrong;
    json_t *body = json_loadb(data, len, JSON_REJECT_DUPLICATES, &wrong);
    const char *type = json_string_value(json_object_get(body, "type"));
    const json_t *lane = json_object_get(body, "stream_id");
    if (!json_is_object(body))
        refuse(c, NULL, NULL, "the message is no JSON object");
    else if (!type)
        refuse(c, NULL, "type", "type: is missing");
    else if (strcmp(type, "response.steer") == 0)
        refuse_steer(c, body);
    else if (strcmp(type, "response.create") != 0)
        refuse(c, NULL, "type", "type: this server takes response.create");
    else if (lane && !json_is_null(lane) && (!json_is_string(lane) || json_string_length(lane) > LANE_MAX))
        refuse(c, NULL, "stream_id", "stream_id: must be a string of at most 128 bytes");
    else
        queue(c, body, len);
    json_decref(body);
}

static void closed(struct connection *c)
{
    (void)pthread_mutex_lock(&c->lock);
    c->closed = true;
    messages_free(c->waiting);
    c->waiting = NULL;
    c->n_waiting = 0;
    c->waiting_bytes = 0;
    for (struct turn *t = c->turns; t; t = t->ws_next)
        turn_cancel(t);
    (void)pthread_mutex_unlock(&c->lock);
    connection_release(c);
}

static void on_message(void *user, const char *data, size_t len)
{
    if (data)
        take(user, data, len);
    else
        closed(user);
}

void responses_ws(struct server *server, struct call *call)
{
    struct connection *c = calloc(1, sizeof *c);
    if (!c) {
        call_error(call, 500, NULL, NULL, NULL, "out of memory");
        return;
    }
    atomic_init(&c->refs, 1);
    c->server = server;
    c->call = call_ref(call);
    (void)pthread_mutex_init(&c->lock, NULL);
    (void)pthread_mutex_init(&c->starting, NULL);
    ws_on_error(call, on_error, c);
    ws_accept(call, on_message, c);
}
