/* The tokens of an answer with their log-probabilities, told in step with its text: text that may become a stop string is held back, and so are its tokens;
 * what a stop string takes away takes its tokens too. */
#ifndef SERVER_TOKEN_LOG_H
#define SERVER_TOKEN_LOG_H

#include "server.h"

#define TOKEN_LOG_TOP 20
struct logged_token {
    int32_t id;
    float logprob;
    bool known;          /* false: the first of a prompt has no probability */
    uint32_t n_top;
    infer_logprob top[TOKEN_LOG_TOP];
    uint64_t start, end; /* in the bytes of the answer's text, before stop strings are cut */
    uint64_t characters; /* before it */
};

struct token_log {
    const infer_tokenizer *tokenizer;
    infer_detokenizer detokenizer;
    struct logged_token *items;
    size_t n, capacity, told;
    uint64_t shown;      /* bytes of text that have been given out */
    uint64_t characters; /* of all tokens */
    bool failed;         /* out of memory: items are missing */
};
void token_log_begin(struct token_log *log, const infer_tokenizer *tokenizer);
void token_log_free(struct token_log *log);
/* A TOKEN or PROMPT event. */
void token_log_add(struct token_log *log, const infer_request_event *event, bool known);
/* Text has been given out: how many tokens, from items[told] on, may be told now. The caller tells them and adds to told. */
size_t token_log_show(struct token_log *log, size_t text_len);
/* The answer has ended, its last text is out: how many may still be told. */
size_t token_log_done(struct token_log *log, int32_t finish_reason);

/* A token as a string: what is not UTF-8 is written "\xe2\x82", behind prefix. NULL: out of memory. */
json_t *token_string(const infer_tokenizer *tokenizer, int32_t id, const char *prefix);
/* {token, logprob, bytes, top_logprobs}, as in OpenAI's chat. n_top: how many of the alternatives. */
json_t *token_json(const infer_tokenizer *tokenizer, const struct logged_token *t);

#endif
