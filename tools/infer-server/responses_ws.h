/* The WebSocket mode of the Responses API. */
#ifndef SERVER_RESPONSES_WS_H
#define SERVER_RESPONSES_WS_H

#include "responses_turn.h"

void responses_ws(struct server *server, struct call *call); /* the route's handler */

struct connection *connection_ref(struct connection *c);
void connection_release(struct connection *c);
/* Sends event (stolen), with the lane that it belongs to. */
void connection_send(struct connection *c, const char *lane, json_t *event);
/* A turn has sent its last event: the next one of its lane begins. */
void connection_ended(struct connection *c, struct turn *t);
/* Responses with "store": false live as long as their connection does: the latest of them. */
void connection_keep(struct connection *c, const char *id, json_t *doc, infer_checkpoint *state);
/* References; *state may be NULL. NULL: none of that id. */
json_t *connection_find(struct connection *c, const char *id, infer_checkpoint **state);

#endif
