/* Input items of the Responses API: what clients send, the form in which they are kept and listed, and the messages that a chat template sees. */
#ifndef SERVER_RESPONSES_ITEMS_H
#define SERVER_RESPONSES_ITEMS_H

#include "responses_store.h"

/* Gives items their ids: a prefix, the digits of the response, and a number; so an item's id leads to its response (item_reference). */
struct item_ids {
    char digits[RESPONSE_DIGITS + 1];
    unsigned next;
};
void item_id(struct item_ids *ids, const char *prefix, char out[RESPONSE_ID + 8]); /* "msg_", "rs_" */

/* What references may lead to: the items before these, and other responses of the tenant. */
struct item_source {
    struct server *server;
    struct store *store;
    const char *tenant;
    const json_t *history;
};
/* body.input, a string or an array of items, checked, in the form in which they are kept: an array, which the caller owns. NULL: answered with 400 (404: a
 * reference that leads nowhere), which names the place ("input[2].content[0].type"). */
json_t *items_read(struct call *call, json_t *input, struct item_ids *ids, const struct item_source *source);

/* The messages of items [first, end of both lists) of history and input together, after instructions (or NULL). Leading system messages become one:
 * many templates know only one. NULL: out of memory. */
json_t *items_messages(const char *instructions, const json_t *history, const json_t *input, size_t first);
/* Whether a conversation that is cut there begins as conversations do: with a user's message. */
bool items_may_begin(const json_t *history, const json_t *input, size_t at);

#endif
