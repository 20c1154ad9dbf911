/* A request of the scheduler whose answer has the native shape: /chat, /chat/stream, /complete, /checkpoints/save. */
#ifndef SERVER_NATIVE_REQUEST_H
#define SERVER_NATIVE_REQUEST_H

#include "bytes.h"
#include "native.h"
#include "reasoning.h"

struct native_choice {
    struct bytes text, reasoning;
    struct bytes new_text, new_reasoning; /* of the token at hand: for a stream */
    struct reasoning split;
    json_t *tokens;        /* with logprobs; else NULL */
    int32_t finish;        /* INFER_FINISH_*; 0: not yet */
    int32_t stop_index;
};

/* Belongs to its call: it lives until the last reference on that goes. */
struct native_request {
    struct server *server;
    struct call *call;
    struct params params;
    infer_request *request;
    int32_t *ids;            /* the prompt */
    uint64_t n_ids;
    uint32_t flags;          /* INFER_REQUEST_* beside what is read here */
    bool prompt_only;        /* nothing is generated */
    bool splits;             /* reasoning is split from the answer */
    bool stream, begun;
    bool computed;           /* the prompt */
    bool logprobs;
    const char *save;        /* the name for the state after the answer, or NULL: borrowed from the body */
    bool replace;
    struct native_choice *choices; /* [params.n] */
    json_t *cache;
    infer_request_info info; /* at the end */
    infer_error error;       /* of the first choice that failed */
    infer_checkpoint *checkpoint; /* saved, or to be */
    json_t *save_error;      /* why not: an answer is not lost for that */
};

/* Reads what all of them take: the common parameters and max_tokens, logprobs, top_logprobs, ignore_eos, special, save, replace. table: what else the body may
 * have. prompt_only: nothing is generated, and the body's name is where the state goes. NULL: answered. */
struct native_request *native_request_read(struct server *server, struct call *call, const json_t *body, const struct param *table, bool prompt_only);
/* Hands it to the scheduler, the prompt being in ids. Answers, now or later. */
void native_request_submit(struct native_request *r);

#endif
