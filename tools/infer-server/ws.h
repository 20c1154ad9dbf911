/* WebSocket connections, as http.c sees them. The functions for endpoints are in http.h. */
#ifndef SERVER_WS_H
#define SERVER_WS_H

#include <stddef.h>

struct call;
struct lws;
struct ws;

/* The upgrade was made: the handler runs on a worker, then messages are given on as they come. false: out of memory. */
int ws_begin(struct call *call, size_t max_message);
/* Events of the connection, on the event loop: what lws wants back. */
int ws_receive(struct call *call, struct lws *wsi, const void *data, size_t len);
int ws_writable(struct call *call, struct lws *wsi); /* 1: there is more to send */
void ws_closed(struct call *call);
/* What call_error says of a connection: to whom ws_on_error named, else to the client. */
void ws_error(struct call *call, int status, const char *body, size_t len);
void ws_free(struct ws *ws);

#endif
