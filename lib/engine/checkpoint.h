/* Checkpoints: a session's whole state, frozen. Used by any number of threads at once. */
#ifndef ENGINE_CHECKPOINT_H
#define ENGINE_CHECKPOINT_H

#include "engine/engine.h"

struct infer_checkpoint {
    struct ref ref;
    infer_session *frozen; /* nobody changes it, and nobody else has a reference */
};

/* No KV is copied. */
infer_status checkpoint_create(const infer_session *s, infer_checkpoint **out, infer_error *err);
/* Takes over a session that nobody else knows; on failure it stays the caller's. */
infer_status checkpoint_wrap(infer_session *frozen, infer_checkpoint **out, infer_error *err);
infer_checkpoint *checkpoint_ref(infer_checkpoint *c);
void checkpoint_release(infer_checkpoint *c);
/* s gets the checkpoint's state in place of its own, whole or not at all. ARGUMENT: another model's. */
infer_status checkpoint_restore(const infer_checkpoint *c, infer_session *s, infer_error *err);
/* Whether the checkpoint can be used with this model (NULL: with any); else ARGUMENT. */
infer_status checkpoint_check_model(const infer_checkpoint *c, const infer_model *model, infer_error *err);
/* Memory that its state takes, were it alone. */
uint64_t checkpoint_bytes(const infer_checkpoint *c);

#endif
