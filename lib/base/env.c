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

const struct env env_default = {{NULL, default_get, default_put}, &os_io_default, NULL, NULL, 0};

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
