/* How sessions use the engine's prefix cache: they look up before they compute, and leave behind what they computed. */
#ifndef ENGINE_PREFIX_H
#define ENGINE_PREFIX_H

#include "kv/kv_cache.h"
#include "infer/state.h"

/* Fewer elements than this are neither looked for (once something is computed) nor left behind: one page. */
#define PREFIX_LEAST ((uint64_t)DEV_KV_PAGE)

/* A session's part. */
struct prefix {
    uint32_t flags; /* INFER_CACHE_NO_* */
    uint32_t salt_len;
    uint8_t salt[KV_SALT_MAX];
    uint64_t kept;  /* elements that were found in the cache or given to it */
    uint64_t asked; /* length at the last look-up; 0: none */
    uint64_t stop;  /* a batch ends here, so that the cache gets a place where windowed layers can go on; 0: nowhere */
    uint64_t taken; /* by the present step */
    infer_cache_report report;
};

infer_status prefix_setup(infer_engine *e, const infer_engine_options *o, infer_error *err);
/* Memory has run out: drops some of what the cache alone keeps, so much that what memory_limit refused last fits. False: there is nothing left. The
 * pool's lock is not held. */
bool prefix_give_way(struct infer_engine *e);
/* After something that came to st and has changed nothing: whether it is worth another try, since an allocation failed and the cache gave way. */
bool prefix_retry(struct infer_engine *e, infer_status st, const infer_error *err);
void prefix_teardown(infer_engine *e); /* nothing of it is in use any more */
void prefix_model_gone(infer_model *m);
infer_status prefix_options(struct prefix *p, const infer_session_options *o, infer_error *err);

/* Before a step: takes over what is stored of the session's elements below at_most, when that is more than is computed. */
void prefix_find(infer_session *s, uint64_t at_most, const infer_cancel *cancel);
/* After elements were committed. */
void prefix_committed(infer_session *s);
/* After a step that computed `count` elements of the session. */
void prefix_stepped(infer_session *s, uint64_t count);
/* After anything that may have evicted, without the step lock: writes what is to be written. What a set flag leaves waits for the next call. */
void prefix_disk_write(infer_engine *e, const infer_cancel *cancel);
void prefix_disk_write_now(infer_engine *e, const infer_cancel *cancel); /* also waits for others that write */
infer_status prefix_disk_flush(infer_engine *e, const infer_cancel *cancel, infer_error *err); /* everything that is kept */
struct kv_spill_stats;
void prefix_disk_get_stats(infer_engine *e, struct kv_spill_stats *out);
/* For prefix.c. */
infer_status prefix_disk_open(infer_engine *e, const infer_engine_options *o, infer_error *err);
void prefix_disk_close(infer_engine *e);
void prefix_disk_read(infer_session *s, const struct kv_domain *d, const struct kv_keys *keys, uint64_t length,
                      const infer_cancel *cancel);

/* Leaves what is computed to others now, in the middle of a prompt: somebody waits for it. */
void prefix_share(infer_session *s);
/* Before computed state is lost; and after its pages were dropped. */
void prefix_leave(infer_session *s);
void prefix_left(infer_engine *e);

#endif
