/* Serving, when everything is loaded: in this process, or in a child for each connection. */
#ifndef SERVER_SERVE_H
#define SERVER_SERVE_H

#include <signal.h>

#include "http_core.h"

/* Starts the threads and serves until a signal of the set comes: SIGTERM or SIGINT drain (again: end at once), SIGUSR1 ends idle connections; SIGUSR2 is
 * our own. All are blocked. The event loop is open. Returns the exit status. */
int serve(struct http *http, const sigset_t *signals);
/* Ends what is left of requests and connections. */
void serve_end(struct http *http);
/* isolate.c: accepts connections and forks a child for each. */
int isolate(struct http *http);

#endif
