/* OpenAI's Responses API: responses that are kept, chains of them, and those that run. */
#ifndef SERVER_RESPONSES_H
#define SERVER_RESPONSES_H

#include "server.h"

struct response_list;

/* dir: a folder that keeps responses and their checkpoints (made if there is none); NULL: they are kept in memory. The limits hold for both; what is oldest
 * goes first. Errors: IO, NO_MEMORY, those of infer_store_open. */
struct responses_options {
    const char *dir;
    uint64_t max_count;
    uint64_t max_bytes;       /* of responses */
    uint64_t max_state_bytes; /* of checkpoints */
};
infer_status responses_open(struct server *server, const struct responses_options *options, struct response_list **out, infer_error *err);
bool responses_running(struct response_list *list);
/* Cancels everything that runs: requests in the background have no connection whose end would stop them. */
void responses_stop(struct response_list *list);
/* Once the scheduler calls back no more: saves what has ended and frees the list. */
void responses_close(struct response_list *list);

extern const struct route responses_routes[];

#endif
