/* Parameters that generating endpoints have in common, from JSON to the library's structs. */
#ifndef SERVER_PARAMS_H
#define SERVER_PARAMS_H

#include "server.h"

/* What an endpoint does with a key of its body. Keys that no table has are refused by name; so are REFUSED ones, unless they are null or the value
 * that means nothing ("tools": [], "response_format": {"type": "text"}). */
enum param_use { PARAM_TAKEN, PARAM_NO_EFFECT /* accepted: changes nothing that could be observed */, PARAM_REFUSED };
struct param { const char *name; enum param_use use; };
/* Checks the keys of body against a table that ends with name NULL, after the keys that params_read takes itself (common: true). false: answered with 400. */
bool params_check(struct call *call, const json_t *body, const struct param *table, bool common);

/* Typed fields: false: answered with 400 that names the field. Absent or null leaves *out. */
bool param_uint(struct call *call, const json_t *body, const char *name, uint64_t min, uint64_t max, uint64_t *out);
bool param_number(struct call *call, const json_t *body, const char *name, double min, double max, double *out);
bool param_bool(struct call *call, const json_t *body, const char *name, bool *out);
bool param_string(struct call *call, const json_t *body, const char *name, const char **out); /* borrowed from body */

#define PARAMS_STOPS 64
struct params {
    infer_sampling sampling;           /* bias: owned */
    infer_generate_options generate;   /* stops point into stops below */
    infer_text stops[PARAMS_STOPS];    /* borrowed from body, which belongs to the call */
    uint32_t n;
    int32_t priority;
    uint64_t time_limit;
    infer_adapter_use adapters[16];    /* each adapter a reference */
    uint32_t n_adapters;
    infer_adapter *prompts[16];
    uint32_t n_prompts;
    infer_checkpoint *checkpoint;      /* of body.checkpoint; or NULL */
    char salt[INFER_CACHE_SALT_MAX];
    uint32_t salt_len;
    infer_bias *bias;
    bool stream;
};
/* Reads from body: model (checked against the server's name; adapters' names are models too), stream, n, temperature, top_p, top_k, min_p, typical_p, seed, presence_penalty, frequency_penalty,
 * repetition_penalty, logit_bias, stop, priority, timeout (seconds), repetition_guard, adapters [{name, scale}], checkpoint (a name), salt. What the body does not say is the server's
 * default. max_tokens has another name in each API: the endpoint reads it. false: answered with 400, and p holds nothing. */
bool params_read(struct server *server, struct call *call, const json_t *body, struct params *p);
void params_free(struct params *p);
/* Fills what is common of a request's options; the prompt, flags and callback are the endpoint's. session must live as long as o. */
void params_request(struct server *server, struct call *call, const struct params *p, infer_request_options *o, infer_session_options *session);

/* The tokens of a conversation: template variables (messages, tools, add_generation_prompt, and what else the template is to see: kwargs, or NULL) to ids.
 * false: answered with 400. *out: free(). */
struct chat_prompt {
    int32_t *ids;
    uint64_t n;
    bool reasons;       /* the prompt ends inside a block of reasoning */
};
bool chat_prompt_make(struct server *server, struct call *call, json_t *messages, json_t *kwargs, bool add_generation_prompt, struct chat_prompt *out);
void chat_prompt_free(struct chat_prompt *p);

/* "stop", "length"... : each API has its own words. */
const char *openai_finish_reason(int32_t reason); /* stop, length, ... */

/* x-cache-reason, from what is known when a request has started: "hit", "ends; 128 of 200 tokens", ... for people and programs: docs/server.md. */
void cache_reason_text(const infer_request_info *info, char *out, size_t capacity);

#endif
