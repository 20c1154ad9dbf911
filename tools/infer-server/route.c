#include <stdlib.h>
#include <string.h>

#include "call.h"

/* Whether a path fits a pattern. *arg: where {id} begins in it, *len: how long it is. */
static bool fits(const char *pattern, const char *path, const char **arg, size_t *len)
{
    *arg = NULL;
    while (*pattern) {
        if (*pattern == '{') {
            *arg = path;
            *len = strcspn(path, "/");
            if (*len == 0)
                return false;
            path += *len;
            pattern += strcspn(pattern, "}") + 1;
        } else if (*pattern++ != *path++)
            return false;
    }
    return *path == 0;
}

static void allow_method(struct bytes *allow, const char *method)
{
    if (strcmp(method, "WS") == 0)
        return;
    bytes_printf(allow, "%s%s", allow->len ? ", " : "", method);
    if (strcmp(method, "GET") == 0)
        bytes_puts(allow, ", HEAD");
}

const struct route *route_find(const char *method, const char *path, char **arg, int *status, struct bytes *allow)
{
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method, *at;
    size_t len = 0;
    *arg = NULL;
    *status = 404;
    for (size_t t = 0; route_tables[t]; t++) {
        for (const struct route *r = route_tables[t]; r->method; r++) {
            if (!fits(r->path, path, &at, &len))
                continue;
            if (strcmp(r->method, wanted) == 0) {
                *arg = at ? strndup(at, len) : NULL;
                return r;
            }
            *status = 405;
            allow_method(allow, r->method);
        }
    }
    return NULL;
}

enum api route_api(const char *path)
{
    return strncmp(path, "/v1/messages", 12) == 0 ? API_ANTHROPIC : strncmp(path, "/v1/", 4) == 0 ? API_OPENAI : API_NATIVE;
}
