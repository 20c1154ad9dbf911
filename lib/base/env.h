/* What the library may use of its host: memory, files, log. Passed down explicitly; there are no globals. */
#ifndef BASE_ENV_H
#define BASE_ENV_H

#include "base/alloc.h"
#include "base/err.h"
#include "base/ref.h"

struct os_io; /* base/os_file.h */
struct budget;

struct env {
    struct alloc alloc;
    const struct os_io *io; /* the file seam; os_io_default in production, a failing one in tests */
    infer_log_fn log;       /* may be NULL */
    void *log_user;
    int32_t log_level;
    struct budget *budget; /* of alloc; NULL: nobody counts */
    struct ref ref; /* count 0: static, not counted */
};

extern const struct env env_default;

/* A counted copy of e, made with its own allocator; NULL: no memory. Handles that keep an env hold a reference on it. */
const struct env *env_create(const struct env *e);
const struct env *env_ref(const struct env *e); /* returns e */
void env_release(const struct env *e);

/* Integers and strings only in fmt. */
void env_log(const struct env *env, int32_t level, const char *fmt, ...) BASE_PRINTF(3, 4);

#endif
