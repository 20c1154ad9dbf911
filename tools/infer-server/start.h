/* Opening and closing what is served. */
#ifndef SERVER_START_H
#define SERVER_START_H

#include "options.h"
#include "server.h"

/* Sets o->ctx where --memory says how much there is. 0, or an exit status after a message on standard error; then server_close all the same. */
int server_open(struct server *server, struct options *o);
void server_close(struct server *server);

#endif
