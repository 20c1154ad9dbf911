/* What the tests of cancellation share: an engine that is watched, and a loop over all moments of a call.
 *
 * A moment is a look of the device between two pieces of work, a call of the file seam, an allocation, or a read of the host's source. In each
 * moment of a call the flag is set right there; and again with the flag cleared at the next moment, as no host should: then the call may
 * succeed or not, but not with other bits. */
#ifndef CANCEL_TESTS_H
#define CANCEL_TESTS_H

#include "engine/engine.h"
#include "golden.h"
#include "infer/scheduler.h"
#include "ok.h"
#include "tempdir.h"

struct moments {
    infer_cancel *flag;
    uint64_t n, at; /* moments so far; at which one the flag is set, 0: at none */
    bool clears;    /* at the next one */
};
extern struct moments moments;
void moments_pass(void);
/* Begins to count; the flag is cleared. */
void moments_from(uint64_t at, bool clears);

struct scene {
    const char *name;
    void (*begin)(void);
    infer_status (*call)(infer_cancel *cancel);
    /* What is promised after CANCELLED, or OK; then goes on undisturbed, and has the bits of a run that was never disturbed. */
    void (*check)(infer_status st);
    void (*end)(void);
    uint64_t least; /* moments that the call has, at least: it would not be cancelled soon otherwise */
    uint64_t after; /* and at most between the flag and the call's end */
    uint64_t every; /* of long calls the flag is set at every so manieth moment */
};
void run_scene(const struct scene *s);

/* What is not given back yet: blocks of the engines' allocator, and open files. */
struct held {
    int64_t blocks, files;
};
struct held cancel_held(void);

/* One thread, so that moments come in one order; a prefix cache with a folder in the temporary one. */
infer_engine *watched_engine(void);
int cancel_setup(void **state);
int cancel_teardown(void **state); /* checks that nothing leaked */

#define CANCEL_IDS 700
/* Ids of a text, all below 128. */
const int32_t *cancel_ids(void);
/* Without the cache. */
infer_session *cancel_session(infer_model *m, uint32_t n_ctx, uint64_t n_ids);
infer_session_info cancel_info(const infer_session *s);
infer_status cancel_step(infer_session *s, infer_cancel *cancel);
/* Fails unless the last logits of s are those of its ids computed by a session that nobody disturbed. */
void cancel_same(infer_session *s);

#endif
