/* Parameters that generating endpoints have in common, from JSON to the library's structs, and what else they share. */
#ifndef SERVER_PARAMS_H
#define SERVER_PARAMS_H

#include "server.h"

/* What an endpoint does with a key of its body. Keys that no table has are refused by name; so are REFUSED ones, unless they are null or a value
 * that asks for nothing: [], {}, false, "none", ["text"], {"type": "text"}. */
enum param_use { PARAM_TAKEN, PARAM_NO_EFFECT /* accepted: changes nothing that could be observed */, PARAM_REFUSED };
struct param { const char *name; enum param_use use; };
/* Checks the keys of body against a table that ends with name NULL, after the keys that params_read takes itself (common: true). false: answered with 400. */
bool params_check(struct call *call, const json_t *body, const struct param *table, bool common);
/* The same of an object in the body, which errors call `where`: "stream_options". */
bool params_check_in(struct call *call, const char *where, const json_t *object, const struct param *table);

/* Typed fields: false: answered with 400 that names the field. Absent or null leaves *out. A name with dots is what the error says; the key is
 * what follows the last one: param_bool(call, options, "stream_options.include_usage", &usage). */
bool param_uint(struct call *call, const json_t *body, const char *name, uint64_t min, uint64_t max, uint64_t *out);
bool param_int(struct call *call, const json_t *body, const char *name, int64_t min, int64_t max, int64_t *out);
bool param_number(struct call *call, const json_t *body, const char *name, double min, double max, double *out);
bool param_bool(struct call *call, const json_t *body, const char *name, bool *out);
bool param_string(struct call *call, const json_t *body, const char *name, const char **out); /* borrowed from body */
bool param_object(struct call *call, const json_t *body, const char *name, json_t **out);     /* borrowed from body */
bool param_array(struct call *call, const json_t *body, const char *name, json_t **out);      /* borrowed from body */
/* Answers 400, "NAME: REASON". Always false. */
bool param_wrong(struct call *call, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));

#define PARAMS_STOPS 64
#define PARAMS_ADAPTERS 16
/* Must not be copied or moved: it points into itself. */
struct params {
    const char *model;                 /* what an answer calls it: the server's or an adapter's name. Borrowed */
    infer_sampling sampling;           /* bias: owned */
    infer_generate_options generate;   /* stops point into stops below */
    infer_text stops[PARAMS_STOPS];    /* borrowed from body, which belongs to the call */
    uint32_t n;
    int32_t priority;
    uint64_t time_limit;               /* microseconds; 0: none */
    infer_adapter_use adapters[PARAMS_ADAPTERS]; /* each adapter a reference */
    uint32_t n_adapters;
    infer_adapter *prompts[PARAMS_ADAPTERS]; /* soft prompts and prefixes: each a reference */
    uint32_t n_prompts;
    infer_checkpoint *checkpoint;      /* of body.checkpoint; or NULL */
    char salt[INFER_CACHE_SALT_MAX];
    uint32_t salt_len;
    infer_bias *bias;
    bool stream;
};
/* Reads from body: model (checked against the server's name; adapters' names are models too), stream, n, temperature, top_p, top_k, min_p, typical_p, seed, presence_penalty, frequency_penalty,
 * repetition_penalty, logit_bias, stop, priority, timeout (seconds), repetition_guard, adapters [{name, scale, mode, first_layer, layer_count}], checkpoint (a name), salt. What the body
 * does not say: temperature 1, top_p 1, a random seed below 2^53, and nothing else. max_tokens has another name in each API: the endpoint reads it. false: answered with 400
 * (404: no such model, adapter or checkpoint), and p holds nothing. */
bool params_read(struct server *server, struct call *call, const json_t *body, struct params *p);
void params_free(struct params *p);
/* body[name], a string or an array of them, to p's stops: for APIs that call it other than "stop". */
bool params_stops(struct call *call, const json_t *body, const char *name, struct params *p);
/* INFER_INITs both and fills what is common of a request's options; the prompt, flags and callback are the endpoint's. session and p must live as long as o. */
void params_request(struct server *server, struct call *call, const struct params *p, infer_request_options *o, infer_session_options *session);

/* The tokens of a conversation: messages (objects with role, content and what else the template reads of them; content is a string, or an array of
 * {"type": "text", "text"} parts, which are joined by newlines) and further variables of the template (kwargs, or NULL), rendered and tokenized as
 * infer_session_append_chat does: BOS before them where the model wants it and the template has not written it. Spellings of control tokens inside messages and
 * kwargs are plain text: clients cannot forge turns. A developer message is a system message where the template does not know developers.
 * false: answered with 400. */
struct chat_prompt {
    int32_t *ids;
    uint64_t n;
    bool reasons;       /* the prompt ends inside a block of reasoning */
};
bool chat_prompt_make(struct server *server, struct call *call, json_t *messages, json_t *kwargs, bool add_generation_prompt, struct chat_prompt *out);
/* The same, of the rendered text up to the last place that has end in it: what the caller has put into a message to find it again (a noncharacter of Unicode from
 * U+FDE0 to U+FDEF). Where the template does not show that: true, and out->ids is NULL. */
bool chat_prompt_until(struct server *server, struct call *call, json_t *messages, json_t *kwargs, bool add_generation_prompt, const char *end,
                       struct chat_prompt *out);
void chat_prompt_free(struct chat_prompt *p);
/* The rendered text alone, for /apply-template; free(). NULL: answered with 400. */
char *chat_prompt_text(struct server *server, struct call *call, json_t *messages, json_t *kwargs, bool add_generation_prompt, size_t *len);
/* Whether the template's text has this in it: "enable_thinking". */
bool chat_template_has(const struct server *server, const char *word);

/* A string of what a model wrote: what is not UTF-8 becomes U+FFFD. NULL: out of memory. */
json_t *text_json(const char *text, size_t len);

/* "stop" or "length": OpenAI's word. What cuts an answer off (limits, a full context, time, repetition) is "length". */
const char *openai_finish_reason(int32_t reason);
/* The whole truth, for extensions: "end_token", "stop_string", "max_tokens", "context", "repetition", "time", "cancelled", "error". */
const char *finish_detail(int32_t reason);

/* x-cache-reason, from what is known when a request has started: "hit; 128 of 129 tokens", "differs; 57 of 200 tokens", ...: docs/server.md. What is stored under
 * other salts is not told. */
void cache_reason_text(const infer_request_info *info, char *out, size_t capacity);

#endif
