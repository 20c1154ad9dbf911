/* Where responses are kept: in memory, or each in a file of a folder. A kept response is a JSON object that is never changed:
 *   tenant    whose it is (store_tenant)
 *   response  the object that clients see
 *   history   the items of the responses before it in its chain, whole: each response stands alone, whatever is deleted
 *   input     its own input items
 *   setting   what its checkpoint was computed under (model and adapters)
 * Its checkpoint lies in an infer_store beside it. All may be called from any thread. */
#ifndef SERVER_RESPONSES_STORE_H
#define SERVER_RESPONSES_STORE_H

#include <infer/state.h>
#include <jansson.h>
#include <stdbool.h>

#include "responses.h"

#define RESPONSE_DIGITS 48                  /* 24 random bytes */
#define RESPONSE_ID (5 + RESPONSE_DIGITS + 1) /* "resp_", digits, zero */
#define TENANT_SIZE 65

struct store;

infer_status store_open(struct server *server, const struct responses_options *options, struct store **out, infer_error *err);
/* Does the jobs that wait first. */
void store_close(struct store *store);

/* false: the system has no random bytes. */
bool response_id_make(char id[RESPONSE_ID]);
/* Exactly the form that response_id_make gives: nothing else is ever part of a path. */
bool response_id_valid(const char *id);
/* A name for a salt that does not tell it. */
void store_tenant(const char *salt, char out[TENANT_SIZE]);

/* A reference, or NULL: none of that id, or not of that tenant, or damaged (which is reported on standard error). */
json_t *store_find(struct store *store, const char *id, const char *tenant);
/* Whole and synced when it returns. When the disk does not take it, the response is kept in memory, which is reported. */
void store_put(struct store *store, const char *id, json_t *doc, infer_checkpoint *state);
/* The state that store_put was given goes to the checkpoints. Slow. */
void store_put_state(struct store *store, const char *id);
infer_checkpoint *store_state(struct store *store, const char *id); /* a reference, or NULL */
void store_drop_state(struct store *store, const char *id);         /* it was found damaged */
bool store_remove(struct store *store, const char *id);
/* Kept early, and its maker has not told its end (yet). */
bool doc_unfinished(const json_t *doc);
/* Whether something is kept under this id. */
bool store_has(struct store *store, const char *id);
/* A response that is kept before it has ended: who makes it holds a lock on its file until then (a descriptor to be closed, or -1), so that others can see
 * whether somebody still does. Only other processes may ask. */
int store_hold(struct store *store, const char *id);
bool store_held(struct store *store, const char *id);

/* Work that may wait for the disk. Each kind has a thread that does it in order: a client that waits for its response does not wait for the checkpoints of
 * others, which are large. task lives until run is called. */
enum work { WORK_RESPONSES, WORK_STATES, N_WORKS };
struct task {
    struct task *next;
    void (*run)(struct task *task);
};
void store_queue(struct store *store, enum work work, struct task *task);
uint32_t store_backlog(struct store *store, enum work work);

#endif
