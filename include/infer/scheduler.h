/* libinfer's scheduler: many requests on one model, computed together.
 *
 * A host submits requests from any thread; one thread calls infer_scheduler_step again and again (infer_scheduler_wait sleeps while there is nothing to
 * do). Each step computes one batch: a token of every running answer, and a piece of the prompts that wait. Requests hear of their tokens by a
 * callback, or are asked with infer_request_next.
 *
 * A request's tokens and log-probabilities depend on the request alone: not on what runs beside it, in which order requests came, what is in
 * the prefix cache, or whether it was set aside in between. The exceptions are limits of time and cancelling, which end it earlier. docs/scheduling.md
 * tells how requests are chosen, and what happens when memory is short.
 *
 * THREADS
 *
 * Schedulers and requests may be used from any thread at once; steps of one scheduler queue in order. Callbacks run on the thread that steps. They may
 * call what this header offers for requests and schedulers, but not infer_scheduler_step and infer_scheduler_wait. A fork() is allowed while no thread is inside.
 */
#ifndef INFER_SCHEDULER_H
#define INFER_SCHEDULER_H

#include <infer/state.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct infer_scheduler infer_scheduler; /* the queue of one model's requests */
typedef struct infer_request infer_request;     /* one prompt and its answers */

/* Microseconds of a clock that never goes back. Called from any thread. */
typedef uint64_t (*infer_clock_fn)(void *user);

/* How a scheduler is made. */
typedef struct infer_scheduler_options {
    uint32_t size;
    uint32_t max_active;     /* answers in a batch at most (a request with n choices counts n); 0: 16; at most 256 */
    uint32_t max_waiting;    /* requests that wait for their first step; further ones are refused with LIMIT; 0: 1,024 */
    uint32_t step_elements;  /* most prompt elements computed in one step while answers are running: bounds the time between two tokens; 0: 64; at most 256.
                                While none is running a step takes 256 */
    uint64_t kv_budget;      /* bytes of KV memory that active requests may take; 0: infer_engine_options.kv_budget; that 0 too: no limit */
    uint64_t reserve_tokens; /* a request becomes active when its prompt and min(max_tokens, this) tokens of each answer fit the budget; 0: 256 */
    infer_clock_fn clock;    /* NULL: no limits of time, and all times are told as 0 */
    void *clock_user;
    const char *spill_path;  /* a folder, this process's own, for the KV of answers that are set aside when memory is short: read back later. NULL: it is computed
                                again. Made when it is not there */
    uint64_t spill_path_len;
} infer_scheduler_options;

/* options may be NULL. Errors: ARGUMENT, UNSUPPORTED (an encoder), NO_MEMORY; of spill_path those of infer_store_open. */
INFER_API infer_status infer_scheduler_create(infer_model *model, const infer_scheduler_options *options, infer_scheduler **out, infer_error *err);
INFER_API infer_scheduler *infer_scheduler_ref(infer_scheduler *scheduler);
/* The last release ends all requests as cancelled; their callbacks are called from here. */
INFER_API void infer_scheduler_release(infer_scheduler *scheduler);

/* One batch. *more (may be NULL): 1 while there is work left. Failures of single requests end those requests (INFER_FINISH_ERROR) and are no errors of the step.
 * Errors: CANCELLED (nothing is lost: step again). */
INFER_API infer_status infer_scheduler_step(infer_scheduler *scheduler, int32_t *more, infer_cancel *cancel, infer_error *err);
/* Sleeps until there is work or infer_scheduler_wake is called. In a build without threads: returns at once. */
INFER_API infer_status infer_scheduler_wait(infer_scheduler *scheduler, infer_error *err);
/* Lets the present or the next infer_scheduler_wait return. From any thread. */
INFER_API void infer_scheduler_wake(infer_scheduler *scheduler);

/* A scheduler as it is now, and what it has done. */
typedef struct infer_scheduler_info {
    uint32_t size;
    uint32_t active;            /* answers in the batch now */
    uint64_t waiting;           /* requests that wait for their first step */
    uint64_t suspended;         /* answers set aside */
    uint64_t submitted, finished, cancelled, failed; /* requests so far */
    uint64_t steps; /* so far */
    uint64_t prompt_tokens;     /* computed or taken from the cache */
    uint64_t cached_tokens;     /* of these, taken from the cache or a checkpoint */
    uint64_t generated_tokens; /* of all answers */
    uint64_t preemptions; /* answers set aside so far */
    uint64_t kv_bytes;          /* of active and suspended requests now; what they share is counted once */
    uint64_t kv_budget;         /* in force; 0: none */
    uint64_t computed;          /* elements that steps computed: of prompts, of answers, and what was computed again */
} infer_scheduler_info;
/* Counts and memory. */
INFER_API infer_status infer_scheduler_get_info(infer_scheduler *scheduler, infer_scheduler_info *out, infer_error *err);

/* ---- Requests ---------------------------------------------------------------------------------------------------- */

enum {
    INFER_REQUEST_EVENT_PROMPT = 1,  /* a token of the prompt, in order: id, text; with INFER_REQUEST_PROMPT_LOGPROBS its logprob and alternatives (none of the first
                                  element). Only with INFER_REQUEST_ECHO. choice is 0: they are told once */
    INFER_REQUEST_EVENT_STARTED = 2, /* the prompt has been computed: total elements, done of them from cache or checkpoint */
    INFER_REQUEST_EVENT_TOKEN = 3,   /* a token was chosen: id, text (may be empty: half a character, or what may become a stop string), logprob, top */
    INFER_REQUEST_EVENT_DONE = 4,    /* one choice has ended: finish_reason, text (what was held back), stop_index, error */
    INFER_REQUEST_EVENT_END = 5      /* all choices have ended: the last event of every request */
};

/* What happened to a request. */
typedef struct infer_request_event {
    uint32_t size;
    int32_t kind;            /* INFER_REQUEST_EVENT_* */
    uint32_t choice;         /* from 0 */
    int32_t id;              /* token id; -1: none */
    int32_t finish_reason;   /* DONE: INFER_FINISH_* */
    int32_t stop_index;      /* DONE with INFER_FINISH_STOP_STRING: which of the stop strings; else -1 */
    const char *text;        /* never NULL, whole characters; borrowed: until the callback returns, or the next infer_request_next of this request */
    uint64_t text_len;
    uint64_t done, total;    /* STARTED */
    float logprob;           /* when asked for */
    uint32_t top_count; /* items of top */
    const infer_logprob *top; /* borrowed as text is */
    const infer_error *error; /* DONE with INFER_FINISH_ERROR: what failed; else NULL. Borrowed as text is */
} infer_request_event;

/* Hears of a request's events, on the thread that steps. */
typedef void (*infer_request_fn)(void *user, infer_request *request, const infer_request_event *event);

enum {
    INFER_REQUEST_IGNORE_EOS = 1,
    INFER_REQUEST_SHOW_SPECIAL = 2, /* control tokens are shown as text */
    INFER_REQUEST_ECHO = 4,         /* events PROMPT */
    INFER_REQUEST_CONTINUE = 8,     /* with a checkpoint: the prompt is appended to what it holds. Without this flag the prompt is everything, and what the
                                       checkpoint has in common with it from the start on is reused */
    INFER_REQUEST_KEEP = 16,        /* keeps each choice's state for infer_request_checkpoint */
    INFER_REQUEST_PROMPT_ONLY = 32, /* ends when the prompt has been computed (finish reason LENGTH): scoring, warming the cache. n must be 0 or 1 */
    INFER_REQUEST_PROMPT_LOGPROBS = 64 /* with ECHO: log-probabilities of the prompt's tokens, with sampling's top_logprobs alternatives */
};

/* A request. */
typedef struct infer_request_options {
    uint32_t size;
    uint32_t flags;          /* INFER_REQUEST_* */
    int32_t priority;        /* higher goes first, and may set aside lower ones; but a request that 256 later ones overtook goes before all */
    uint32_t n;              /* choices; 0: 1; at most 128. They share the prompt. Choice i draws with seed + i */
    uint64_t client;         /* whose request it is: waiting requests of equal priority take turns by client; 0 is a client too */
    /* The prompt, exactly one of: ids; text; messages (rendered by the model's template as infer_session_append_chat does); none of them with
       INFER_REQUEST_CONTINUE. All is copied. */
    const int32_t *ids; /* [id_count] token ids */
    uint64_t id_count;
    const char *text; /* tokenized with text_flags */
    uint64_t text_len;
    const infer_message *messages; /* [message_count] of a conversation */
    uint64_t message_count;
    const infer_render_options *render; /* or NULL */
    uint32_t text_flags;     /* of text: as for infer_tokenize */
    uint32_t reserved;
    const infer_session_options *session; /* n_ctx, kv_type, salt, cache flags; NULL: defaults. With a checkpoint: only salt and cache flags count */
    infer_checkpoint *checkpoint; /* where to begin; or NULL */
    const infer_adapter_use *adapters; /* in force for prompt and answer; in place of the checkpoint's */
    uint64_t adapter_count;
    infer_adapter *const *prompts;     /* soft prompts and prefixes that go before the prompt; not with a checkpoint */
    uint64_t prompt_count;
    const infer_sampling *sampling;    /* NULL: greedy */
    const infer_generate_options *generate; /* max_tokens, stops, guards; its flags are not used. NULL: until the context is full.
                                               max_tokens is of each choice */
    uint64_t time_limit;     /* microseconds from submission; then each choice ends with INFER_FINISH_TIME; 0: none */
    infer_request_fn callback; /* or NULL: infer_request_next */
    void *callback_user;
} infer_request_options;

/* Checks the request, tokenizes, and puts it into the queue: *out is set before the first callback. out may be NULL with a callback. Errors: ARGUMENT
 * (names the field), LIMIT (the queue is full, or the request could never fit the budget), STATE (the last handle is being released), CONTEXT_FULL, those of infer_session_append_text and
 * infer_session_append_chat, infer_session_set_sampling, infer_session_set_adapters. */
INFER_API infer_status infer_scheduler_submit(infer_scheduler *scheduler, const infer_request_options *options, infer_request **out, infer_error *err);
INFER_API infer_request *infer_request_ref(infer_request *request);
INFER_API void infer_request_release(infer_request *request); /* does not cancel it */
/* Ends it before the next batch: DONE with INFER_FINISH_CANCELLED for each choice that runs, and END, come from the thread that steps. From any thread. */
INFER_API void infer_request_cancel(infer_request *request);
/* For requests without a callback: the next event. Errors: NOT_FOUND (none now: step, or wait), STATE (it has a callback, or END was told). */
INFER_API infer_status infer_request_next(infer_request *request, infer_request_event *out, infer_error *err);

/* How a request stands. */
typedef struct infer_request_info {
    uint32_t size;
    int32_t cache_reason;      /* INFER_CACHE_REASON_*: why no more of the prompt was in the cache */
    uint64_t prompt_tokens;    /* elements of the prompt, what a checkpoint holds included */
    uint64_t cached_tokens;    /* of these, not computed for this request: from the cache or the checkpoint */
    uint64_t generated_tokens; /* of all choices */
    uint64_t near_length;      /* as in infer_cache_report */
    uint64_t difference;       /* as in infer_cache_report */
    uint64_t preemptions; /* how often its answers were set aside */
    uint64_t submitted, started, first_token, ended; /* by the scheduler's clock; 0: not yet */
    double prompt_logprob;     /* with INFER_REQUEST_PROMPT_LOGPROBS: the sum over the prompt's tokens; else 0 */
    int32_t own_reason;        /* as in infer_cache_report: what a tenant may be told */
    uint32_t reserved;
} infer_request_info;
/* Counts and times so far. */
INFER_API infer_status infer_request_get_info(infer_request *request, infer_request_info *out, infer_error *err);
/* With INFER_REQUEST_KEEP, from a choice's DONE on: its state, as long as the request lives. Errors: STATE (not kept, not ended), ARGUMENT (no such choice). */
INFER_API infer_status infer_request_checkpoint(infer_request *request, uint32_t choice, infer_checkpoint **out, infer_error *err);

#ifdef __cplusplus
}
#endif

#endif
