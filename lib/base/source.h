/* Turns an infer_source into bytes in memory: mapped, borrowed or copied. */
#ifndef BASE_SOURCE_H
#define BASE_SOURCE_H

#include "base/env.h"

/* One file's whole content, aligned to at least 32 bytes. */
struct blob {
    const uint8_t *data;
    uint64_t size;
    /* private: how to give it back */
    const struct env *env;
    void *owned;             /* from env->alloc */
    const void *mapped;
    int fd;                  /* -1, or kept open with a map to watch for a file that shrinks */
    void (*release)(void *user);
    void *release_user;
    struct budget *plan;     /* counts what is not there: bytes from `there` on must not be read */
    uint64_t there;
};

struct infer_cancel;

/* Opens the source's file of this name (its own name, or a sibling's for split models). map is INFER_MAP_*. Errors carry the
 * file name. env must outlive the blob. */
infer_status blob_open(const struct env *env, const infer_source *source, const char *name, uint64_t name_len,
                       int32_t map, const infer_cancel *cancel, struct blob *out, infer_error *err);
/* `size` bytes of memory to be filled: out->owned, aligned to 64 bytes. */
infer_status blob_alloc(const struct env *env, uint64_t size, struct blob *out, infer_error *err);
/* For an estimate: only the first `there` bytes of out->owned exist, the others are counted in plan. */
infer_status blob_plan(const struct env *env, uint64_t size, uint64_t there, struct budget *plan, struct blob *out, infer_error *err);
/* CHANGED when a mapped file is shorter than it was (best effort). */
infer_status blob_check(const struct blob *b, infer_error *err);
void blob_close(struct blob *b);

#endif
