/* Anthropic's API: what a body of POST /v1/messages asks for. anthropic_request.c reads it, anthropic_prompt.c makes tokens of it, anthropic.c answers. */
#ifndef SERVER_ANTHROPIC_H
#define SERVER_ANTHROPIC_H

#include "params.h"

/* A place behind a text block that has cache_control: an offset in bytes in the content of one of messages. */
struct anthropic_break {
    bool set;
    size_t message;
    size_t offset;
};

struct anthropic_request {
    json_t *messages;   /* for the template, [{role, content, reasoning_content?}]; owned */
    json_t *kwargs;     /* further variables for the template; owned */
    uint64_t max_tokens;
    json_t *stops;      /* borrowed: strings; or NULL */
    bool prefill;       /* the last message is the beginning of the answer */
    bool hide_thinking; /* thinking.display "omitted" */
    uint64_t thinking_budget; /* tokens; 0: none */
    struct anthropic_break last, last_hour; /* the last of all breakpoints, and of those with a ttl of 1h */
};
/* counting: for count_tokens, which needs no max_tokens. false: answered with 400, and r holds nothing. */
bool anthropic_read(struct server *server, struct call *call, const json_t *body, bool counting, struct anthropic_request *r);
void anthropic_free(struct anthropic_request *r);

/* The prompt's tokens, and how many of them lie before the breakpoints. false: answered with an error. */
struct anthropic_prompt {
    struct chat_prompt chat;
    uint64_t last, last_hour; /* tokens; 0: no breakpoint */
};
bool anthropic_prompt_make(struct server *server, struct call *call, const struct anthropic_request *r, struct anthropic_prompt *out);

/* GET /v1/models and /v1/models/{id} for clients that send anthropic-version: openai_models.c has the routes. */
void anthropic_list_models(struct server *server, struct call *call);
void anthropic_get_model(struct server *server, struct call *call);

extern const struct route anthropic_routes[];

#endif
