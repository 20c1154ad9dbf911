/* Checkpoints by name. What a client calls NAME lies in the store under its tenant's prefix, so that tenants (keys with a salt) neither see nor reach
 * each other's. Names are 1 to 64 letters, digits, '_', '-' and '.', the first no '.'. */
#ifndef SERVER_CHECKPOINTS_H
#define SERVER_CHECKPOINTS_H

#include "server.h"

enum { CHECKPOINT_NAME_MAX = 64 };

/* Whether what is saved is there for later requests. */
bool checkpoints_last(const struct server *server);
/* The checkpoint of a name in a field `param` of the body: a reference. NULL: answered with 400 (no such name can be), 404 or the store's error. */
infer_checkpoint *checkpoints_get(struct server *server, struct call *call, const char *name, const char *param);
/* Whether a checkpoint may have the name that field `param` gives, before anything is computed for it: 400 if it cannot be one, 409 if it is taken and
 * must not be replaced. false: answered. */
bool checkpoints_may_put(struct server *server, struct call *call, const char *name, bool replace, const char *param);
/* Keeps it. May take long (a file is written and synced): on a worker. */
infer_status checkpoints_put(struct server *server, struct call *call, const char *name, infer_checkpoint *checkpoint, bool replace, infer_error *err);
/* Answers what checkpoints_put said. */
void checkpoints_put_error(struct call *call, const char *name, infer_status status, const infer_error *err);
/* {name, length, computed, bytes, kv_type, approximate}. */
json_t *checkpoints_describe(const char *name, const infer_checkpoint *checkpoint);
json_t *checkpoints_list(struct server *server, struct call *call); /* those of the call's tenant, in order of names */
/* A second name for it. false: answered. */
bool checkpoints_branch(struct server *server, struct call *call, const char *from, const char *to, bool replace);
bool checkpoints_delete(struct server *server, struct call *call, const char *name); /* false: answered */

#endif
