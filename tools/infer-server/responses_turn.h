/* One response while it is made: its request, its events, and who listens. */
#ifndef SERVER_RESPONSES_TURN_H
#define SERVER_RESPONSES_TURN_H

#include <pthread.h>
#include <stdatomic.h>

#include "bytes.h"
#include "params.h"
#include "reasoning.h"
#include "responses_items.h"

#define TURNS_KEPT 64 /* finished background responses whose events can still be streamed */

struct connection; /* responses_ws.h */

struct response_list {
    struct server *server;
    struct store *store;
    struct reasoning_tags tags;
    pthread_mutex_t lock;          /* of what follows */
    struct turn *turns;            /* running */
    struct turn *kept[TURNS_KEPT]; /* a ring of references */
    unsigned next_kept;
};

struct follower {
    struct follower *next;
    struct call *call; /* a reference */
};

struct turn {
    atomic_uint refs;
    struct response_list *list;
    struct turn *next, **at;       /* in list->turns; at NULL: not there */
    atomic_bool stopped;           /* by responses_stop */
    struct task task, state_task;

    /* What was asked: fixed when it is submitted. */
    char id[RESPONSE_ID], tenant[TENANT_SIZE];
    json_t *body;                  /* params points into it */
    struct params params;
    bool has_params, stream, background, store, logprobs;
    bool no_output;                /* "generate": false */
    json_t *history, *input, *setting;
    struct chat_prompt prompt;
    int held;                      /* store_hold; or -1 */
    char from[RESPONSE_ID];        /* whose checkpoint it begins with; "": none */
    infer_checkpoint *state;       /* that; after the end, its own */
    struct reasoning split;
    struct connection *ws;         /* a reference; or NULL */
    char *lane;                    /* stream_id on ws, or NULL */
    struct turn *ws_next;          /* in the connection; its lock */
    bool ws_ended;

    pthread_mutex_t lock;          /* of what follows */
    struct call *call;             /* who asked: a reference, until the end */
    bool answers;                  /* call gets the answer */
    infer_request *request;
    bool begun, cancelled, ended;
    atomic_bool deleted;
    json_t *response;              /* as it stands; with the last item that has ended */
    struct item_ids ids;
    json_t *item;                  /* being written, or NULL */
    enum reasoning_part part;
    struct bytes text;             /* of item */
    json_t *pending, *shown;       /* log-probabilities of tokens whose text has not come out yet; of item's text */
    uint64_t n_tokens, n_reasoning;
    int32_t finish;
    infer_error error;
    infer_request_info info;
    unsigned sequence;
    bool keeps_events;
    char **events;                 /* [n_events] as server-sent events, for followers */
    size_t n_events, room_events;
    struct follower *followers, *waiters; /* streams; calls that get the response when it has ended */
};

/* A reference. NULL: out of memory or random bytes. */
struct turn *turn_create(struct response_list *list, json_t *body);
struct turn *turn_ref(struct turn *t);
void turn_release(struct turn *t);

/* From here on others find it, and events come. status: of infer_scheduler_submit; the turn has then not begun, and answers nobody. */
infer_status turn_start(struct turn *t, infer_error *err);
/* Ends it before the next batch. From any thread. */
void turn_cancel(struct turn *t);

/* A reference to one that runs (kept: or has lately ended), or NULL. */
struct turn *turn_find(struct response_list *list, const char *id, const char *tenant, bool kept);
json_t *turn_snapshot(struct turn *t);
/* Its call is answered by somebody else now. false: it has been answered. */
bool turn_detach(struct turn *t);
/* call gets the events after number `after` (-1: all), then those to come; answered with 400 when this turn keeps none. */
void turn_follow(struct turn *t, struct call *call, int64_t after);
/* call gets the response when it has ended. */
void turn_wait(struct turn *t, struct call *call);
/* Cancels it, and keeps nothing of it. */
void turn_delete(struct turn *t);

/* What is kept of a response (responses_store.h). NULL: out of memory. */
json_t *turn_doc(struct turn *t);

/* responses_create.c: checks body (whose reference it steals) and starts. ws NULL: answers on call. NULL: answered with an error. */
void responses_count(struct server *server, struct call *call); /* POST /v1/responses/input_tokens */
struct turn *responses_create(struct server *server, struct call *call, json_t *body, struct connection *ws, const char *lane);

#endif
