/* Counters and histograms of the process and of its children, and their text for Prometheus. All may be called from any thread. */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include "server.h"

struct bytes;
struct metrics *metrics_create(void);
void metrics_free(struct metrics *m);

/* Endpoints call this once for each request of the scheduler, at its END and before the answer ends: tokens and time to first token go to the metrics,
 * tokens to the access log. Calls of several requests (best_of, batches) add up. */
void metrics_request(struct server *server, struct call *call, const infer_request_info *info);
/* The same for what the scheduler did not see (embeddings, count_tokens). */
void metrics_tokens(struct server *server, struct call *call, uint64_t prompt, uint64_t cached, uint64_t generated);

/* http.c: a request has been answered. route: its path as in the table, or "" for paths that nobody serves. */
void metrics_answered(struct metrics *m, const char *route, int status, double seconds);
/* isolate.c: how many children there are, have been, and have been lost. */
void metrics_children(struct metrics *m, uint32_t running, uint64_t started, uint64_t lost);
/* Text in the format of Prometheus, version 0.0.4. */
void metrics_text(struct server *server, struct bytes *out);

#endif
