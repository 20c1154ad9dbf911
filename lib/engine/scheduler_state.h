/* The scheduler: requests wait, become active, are set aside and come back; one engine_step a step computes what all active answers need.
 *
 * Who owns what. `lock` guards the lists of requests, the counters, what requests tell of themselves and their queues of events; it is held for
 * moments, never over computing, files or callbacks. Sessions and answers belong to the thread that steps (step_lock): between steps nobody
 * touches them. A request is in one of the two lists from submission to its end, and the list has a reference on it.
 *
 * The order. Requests of higher priority go first, then clients take turns (tag), then the earlier one goes first (seq). A request that STARVED_AFTER
 * later ones have overtaken goes before all others: so everything that was submitted ends. What was set aside goes before what never ran. */
#ifndef ENGINE_SCHEDULER_STATE_H
#define ENGINE_SCHEDULER_STATE_H

#include "engine/checkpoint.h"
#include "engine/store.h"
#include "infer/scheduler.h"

#define SCHEDULER_MAX_ACTIVE ENGINE_BATCH_ROWS
#define SCHEDULER_MAX_CHOICES 128u
#define STARVED_AFTER 256u
#define ECHO_ROWS 32u /* prompt elements at once whose logits are kept: each takes 4 bytes for every token of the vocabulary */
#define SHARE_LEAST ((uint64_t)DEV_KV_PAGE) /* prompts that share fewer elements than this are computed each for itself */

/* An event of a request without a callback, until it is asked for. */
struct event_node {
    struct event_node *next;
    infer_request_event event; /* text and top lie behind the node */
};

enum answer_state {
    ANSWER_UNBORN, /* its request waits, or the prompt that choices share is not computed yet */
    ANSWER_ACTIVE,
    ANSWER_ASIDE,
    ANSWER_DONE
};

/* One choice of a request. */
struct answer {
    infer_request *request;
    infer_session *session; /* of choice 0 from submission on, of others from their fork on; NULL when done, but for INFER_REQUEST_KEEP */
    enum answer_state state;
    uint32_t choice;
    bool spilled;          /* its computed state lies in the spill store only */
    bool has_file;         /* something of its name is there */
    bool approximate;      /* of what was spilled: computing it again would give something else */
    uint32_t failed;       /* steps in a row in which nothing had memory, and nothing was left to set aside */
    uint64_t piece;        /* elements of this step */
    struct answer *next;   /* aside */
    infer_event event;     /* what generate_take gave in this step, */
    infer_status status;   /* or why it failed, with error */
    infer_error error;
    struct event_node done; /* the DONE event of a request without a callback: there whatever memory does */
    char *tail;             /* its text */
};

struct infer_request {
    struct ref ref; /* the host's, and one of the list that it is in */
    infer_scheduler *scheduler;
    infer_request *prev, *next;
    uint64_t seq, tag, client;
    int32_t priority;
    uint32_t passed;    /* how many later requests overtook it */
    uint64_t passed_by; /* the last of them */
    uint32_t flags;
    bool generates, logprobs;
    uint64_t max_tokens; /* UINT64_MAX: no limit */
    uint64_t time_limit;
    infer_request_fn callback;
    void *callback_user;
    /* the prompt */
    uint64_t prompt_length;    /* elements */
    uint64_t told;             /* with INFER_REQUEST_ECHO: PROMPT was told of the elements below; begins where the prompt does, behind a checkpoint */
    infer_detokenizer echo;
    bool started;
    /* see scheduler_share.c */
    infer_request *leader; /* NULL: waits for nobody's prompt */
    uint64_t shared;       /* elements in common with the leader's */
    uint64_t lead_to;      /* as a leader: where the first of those who wait parts from it; 0: nobody waits */
    uint64_t began;        /* as a leader: elements that it did not have to compute; UINT64_MAX: not known yet */
    /* under the scheduler's lock */
    bool cancelled, ended, end_told, admitted;
    infer_request_info info;
    struct event_node *events, **events_end;
    struct event_node *borrowed; /* what the last event borrows from */
    /* of the thread that steps */
    uint32_t n, n_done;
    bool failed; /* one of them at least */
    struct answer answers[];
};

struct request_list {
    infer_request *first, *last;
};

struct infer_scheduler {
    struct ref handles; /* the host's, and those of calls in progress; the last ends everything */
    struct ref all;     /* one of all handles together, one of each request: the last frees */
    infer_model *model;
    uint32_t max_active, max_waiting, step_elements;
    uint64_t kv_budget; /* UINT64_MAX: none */
    uint64_t reserve_tokens;
    infer_clock_fn clock;
    void *clock_user;
    struct os_mutex lock;
    struct turns step_lock; /* in the engine's hall */
    struct os_cond wake;
    /* under lock */
    bool woken, closing;
    struct request_list waiting, admitted;
    uint64_t next_seq;
    infer_scheduler_info info;
    /* of the thread that steps */
    struct answer *active[SCHEDULER_MAX_ACTIVE];
    uint32_t n_active;
    struct answer *aside; /* in no order */
    uint32_t turn;        /* which prompt's turn it is to be first */
    bool short_of_memory; /* a step failed for want of memory: nothing becomes active until something has ended */
    infer_store *spill;   /* or NULL */
    infer_step_item items[SCHEDULER_MAX_ACTIVE];
    struct answer *stepped[SCHEDULER_MAX_ACTIVE]; /* whose items those are */
};

/* What a request is made of; the scheduler copies it and takes over the session when it succeeds. */
struct submission {
    const infer_request_options *options; /* full size; of its pointers only the callback's are used */
    infer_session *session;               /* holds the prompt; generation has begun, unless INFER_REQUEST_PROMPT_ONLY says that there is none */
    uint64_t prompt_from;                 /* where the prompt begins in it */
    uint64_t cached;                      /* elements that a checkpoint has computed */
    uint64_t max_tokens;                  /* 0: no limit */
};

/* scheduler.c: the life of schedulers and requests. */
infer_status scheduler_create(infer_model *m, const infer_scheduler_options *o, infer_scheduler **out, infer_error *err);
infer_scheduler *scheduler_ref(infer_scheduler *s);
void scheduler_release(infer_scheduler *s);
void scheduler_wait(infer_scheduler *s);
void scheduler_wake(infer_scheduler *s);
infer_status scheduler_submit(infer_scheduler *s, const struct submission *sub, infer_request **out, infer_error *err);
void scheduler_get_info(infer_scheduler *s, infer_scheduler_info *out);
uint64_t scheduler_now(const infer_scheduler *s);
infer_request *request_ref(infer_request *r);
void request_release(infer_request *r);
void request_cancel(infer_request *r);
infer_status request_next(infer_request *r, infer_request_event *out, infer_error *err);
void request_get_info(infer_request *r, infer_request_info *out);
infer_status request_checkpoint(infer_request *r, uint32_t choice, infer_checkpoint **out, infer_error *err);
void request_list_add(struct request_list *l, infer_request *r);
void request_list_remove(struct request_list *l, infer_request *r);

/* scheduler_event.c: what requests hear (request_echo: scheduler_echo.c). */
/* Calls the host, or keeps the event; NO_MEMORY in the latter case only. */
infer_status request_tell(infer_request *r, const infer_request_event *ev, infer_error *err);
/* Tells of the prompt's elements that are computed, with log-probabilities as far as the last step gave the logits for them. */
infer_status request_echo(infer_request *r, infer_error *err);
/* The last event of a choice: its generation told DONE. */
void answer_done(infer_scheduler *s, struct answer *a, const infer_event *last);
/* The last event of a choice that did not get so far: the reason, and what text was held back. why: with INFER_FINISH_ERROR. */
void answer_finish(infer_scheduler *s, struct answer *a, int32_t reason, const infer_error *why);
/* The same for all choices that have not ended. */
void request_finish(infer_scheduler *s, infer_request *r, int32_t reason, const infer_error *why);

/* Something failed for this choice, or, while the prompt that all share is computed, for all. */
void answer_fail(infer_scheduler *s, struct answer *a, infer_status st, infer_error *why);

/* scheduler_share.c: prompts with the same beginning. */
/* Whether the request, which waits, had better go on waiting for a prompt that is under way; it is the follower of that then. */
bool share_follow(infer_scheduler *s, infer_request *r);
/* A leader got further, or (leads false) does not go on computing its prompt: who need not wait any more does not. */
void share_update(infer_scheduler *s, infer_request *leader, bool leads);
/* A request becomes active: without a prefix cache it takes over what another answer has computed of its prompt. */
void share_take(infer_scheduler *s, infer_request *r);

/* scheduler_plan.c: who is active, and what each computes in this step. */
/* Fills items and stepped; returns how many. */
uint32_t scheduler_plan(infer_scheduler *s);
/* A step had no memory for some answer. stuck: nor for any other. */
void scheduler_make_room(infer_scheduler *s, infer_error *why, bool stuck);
/* The answer leaves the batch, its state stays as it is. */
void answer_set_aside(infer_scheduler *s, struct answer *a);
void answer_activate(infer_scheduler *s, struct answer *a);
void answer_leave(infer_scheduler *s, struct answer *a); /* whatever list it is in */
uint32_t scheduler_slots(const infer_scheduler *s);      /* in use, those kept for choices included */
uint64_t scheduler_kv_bytes(infer_scheduler *s);         /* of all answers' sessions, what they share counted once */
/* Lower bound of the KV that the request needs to finish alone. */
uint64_t scheduler_least_bytes(const infer_scheduler *s, const infer_session *session, uint64_t max_tokens);

/* scheduler_spill.c */
/* Whether setting it aside can give memory back. */
bool answer_can_free(const infer_scheduler *s, const struct answer *a);
/* Its session has nothing computed any more, and the memory is free. A failure (of what cannot be computed again) leaves it as it was. */
infer_status answer_free_state(infer_scheduler *s, struct answer *a, infer_error *err);
/* What was written is read back. An error only when the answer cannot go on without; else the rest is computed again. */
infer_status answer_bring_back(infer_scheduler *s, struct answer *a, infer_error *err);
void answer_forget_file(infer_scheduler *s, struct answer *a);

/* scheduler_sample.c: generate_take of n different answers, on all threads of the engine; see answer.event. CANCELLED of some: their sessions are as they were. */
void scheduler_sample(infer_scheduler *s, struct answer *const *answers, uint32_t n, const infer_cancel *cancel);

/* scheduler_step.c */
infer_status scheduler_step(infer_scheduler *s, int32_t *more, const infer_cancel *cancel, infer_error *err);

#endif
