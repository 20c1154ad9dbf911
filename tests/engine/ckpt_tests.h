/* What the tests of checkpoint files share: an engine whose files and memory can fail, fixtures, sessions. */
#ifndef CKPT_TESTS_H
#define CKPT_TESTS_H

#include "testutil.h"

#include "engine/checkpoint_file.h"
#include "failing_io.h"
#include "golden.h"
#include "tempdir.h"

extern infer_error error;
extern struct test_alloc counted;
extern infer_engine *engine;

void ok(infer_status st); /* fails the test with the error's text */
int ckpt_setup(void **state);    /* engine, temporary folder */
int ckpt_teardown(void **state); /* checks that nothing leaked */

/* Opens a fixture; closed by ckpt_close. */
struct ckpt_model {
    infer_model *m;
    struct golden g;
};
struct ckpt_model ckpt_open(const char *fixture);
void ckpt_close(struct ckpt_model *m);

infer_session *ckpt_session(const struct ckpt_model *m, int32_t kv_type);
/* n elements of the fixture's prompt, over and over, from its element `from` on. */
void ckpt_append(const struct ckpt_model *m, infer_session *s, uint64_t from, uint64_t n);
infer_status ckpt_try_step(infer_session *s);
void ckpt_step(infer_session *s);
void ckpt_same_logits(const infer_session *a, const infer_session *b);
/* A checkpoint of s, saved in the temporary folder. parent may be NULL. */
infer_status ckpt_save(const infer_session *s, const char *name, uint32_t flags, const char *parent);
infer_status ckpt_load(const struct ckpt_model *m, const char *name, int32_t map, int32_t verify, infer_checkpoint **out);
/* A session from a file, opened with defaults. */
infer_session *ckpt_restored(const struct ckpt_model *m, const char *name);

#define NEEDS_HASH()                                                                                                   \
    do {                                                                                                               \
        if (!hash_available())                                                                                         \
            skip();                                                                                                    \
    } while (0)

#endif
