/* What the native endpoints share. */
#ifndef SERVER_NATIVE_H
#define SERVER_NATIVE_H

#include "bytes.h"
#include "params.h"
#include "server.h"

#define EMBEDDINGS_BATCH 64u /* texts that are computed at once */

/* For work on a worker: a flag that is set when the client goes. It lives as long as the call. NULL: answered with 500. */
infer_cancel *native_cancel(struct call *call);

/* Token ids of a field: from a string, by the tokenizer with these flags (INFER_TOKENIZE_ADD_SPECIAL ...), or a list of ids as they are. */
struct native_ids {
    int32_t *ids; /* free() */
    uint64_t n;
};
bool native_ids_read(struct server *server, struct call *call, const json_t *value, const char *param, uint32_t flags, struct native_ids *out);
bool native_ids_list(struct server *server, struct call *call, const json_t *list, const char *param, struct native_ids *out);
bool native_ids_text(struct server *server, struct call *call, const char *text, size_t len, const char *param, uint32_t flags, struct native_ids *out);

/* What INFER_TOKENIZE_ADD_SPECIAL and INFER_TOKENIZE_PARSE_SPECIAL are in a body: add_special and parse_special. */
bool native_text_flags(struct call *call, const json_t *body, uint32_t *flags);

/* "float" or "base64" in encoding_format. */
bool native_encoding(struct call *call, const json_t *body, bool *base64);

/* Whether body's model, if there is one, is the server's. false: answered with 404. */
bool native_model(struct server *server, struct call *call, const json_t *body);

/* false: answered with 400: the model is an encoder, or has no tokenizer. */
bool native_needs_decoder(struct server *server, struct call *call);
bool native_needs_tokenizer(struct server *server, struct call *call);

/* A session for work beside the scheduler: context, KV type and salt as the scheduler's have them, p's adapters in force, holding what p's checkpoint does.
 * NULL: answered. */
infer_session *native_session(struct server *server, struct call *call, const struct params *p);
/* What its first step took from the prefix cache, as native_cache. length: of the prompt. */
json_t *native_session_cache(struct call *call, const infer_session *session, uint64_t held, uint64_t length);

/* [n] floats as a JSON array of numbers (9 digits: every float comes back with its bits), or as a JSON string: base64 of the little-endian bytes. */
void native_put_floats(struct bytes *out, const float *x, size_t n, bool base64);
void native_put_json(struct bytes *out, json_t *value); /* steals */
/* Answers with what was put, or with 500 when memory ran out. Frees it. */
void native_answer(struct call *call, struct bytes *body);

/* The field, which has to be there. NULL: answered with 400. */
json_t *native_required(struct call *call, const json_t *body, const char *name);

/* The text of one token, for people: {"id":, "text":, "bytes": [...] if it is no whole character}. */
json_t *native_token(struct server *server, int32_t id);
/* {"token": .., "logprob": .., "top": [..]}; top_count 0: no "top". */
json_t *native_token_logprob(struct server *server, int32_t id, bool has_logprob, float logprob, const infer_logprob *top, uint32_t top_count);

/* {"reason", "reused", "prompt", "text", ...} and the header x-cache-reason: what the prefix cache gave, as a tenant may know it. */
json_t *native_cache(struct call *call, const infer_request_info *info);

#endif
