#include "base/env.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/os_file.h"

static void *default_get(void *user, size_t size, size_t align)
{
    return alloc_default.get(user, size, align);
}

static void default_put(void *user, void *block, size_t size, size_t align)
{
    alloc_default.put(user, block, size, align);
}

const struct env env_default = {.alloc = {NULL, default_get, default_put}, .io = &os_io_default};

const struct env *env_create(const struct env *e)
{
    struct env *copy = mem_alloc(&e->alloc, sizeof *copy);
    if (copy) {
        *copy = (struct env){e->alloc, e->io, e->log, e->log_user, e->log_level, e->budget, {0}};
        ref_init(&copy->ref);
    }
    return copy;
}

static struct ref *counter(const struct env *e)
{
    struct ref *r = &((struct env *)(uintptr_t)e)->ref;
    return atomic_load_explicit(&r->count, memory_order_relaxed) ? r : NULL;
}

const struct env *env_ref(const struct env *e)
{
    struct ref *r = counter(e);
    if (r)
        ref_get(r);
    return e;
}

void env_release(const struct env *e)
{
    struct ref *r = e ? counter(e) : NULL;
    if (r && ref_put(r)) {
        struct alloc a = e->alloc;
        mem_free(&a, (void *)(uintptr_t)e);
    }
}

void env_log(const struct env *env, int32_t level, const char *fmt, ...)
{
    if (!env->log || level > env->log_level)
        return;
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    if (n < 0)
        return;
    if ((size_t)n >= sizeof line)
        n = (int)sizeof line - 1;
    env->log(env->log_user, level, line, (uint64_t)n);
}
