/* What OpenAI's endpoints share. */
#ifndef SERVER_OPENAI_H
#define SERVER_OPENAI_H

#include "params.h"

/* "fp_" and 12 hexadecimal digits of the model's fingerprint; "" where the library makes none. */
void openai_fingerprint(const struct server *server, char out[16]);
/* stream_options: false: answered. */
bool openai_stream_options(struct call *call, const json_t *body, bool stream, bool *usage);
/* service_tier: false: answered with 400. */
bool openai_service_tier(struct call *call, const json_t *body);
/* Completions' and chats' usage. */
json_t *openai_usage(uint64_t prompt, uint64_t cached, uint64_t generated, uint64_t reasoning);
/* An error as an event of a stream that runs: clients raise it. */
void openai_stream_error(struct call *call, int32_t status, const infer_error *err);
/* Whether the server can generate at all; false: answered. */
bool openai_generates(struct server *server, struct call *call);
/* Adds x-cache-reason. */
void openai_cache_header(struct call *call, infer_request *request);

#endif
