/* A sandboxed Jinja engine for chat templates: what it covers, its limits and where it differs from Jinja2 3.1 is in
 * docs/templates.md. A compiled template is immutable; everything a rendering changes lives in its own state, so that one
 * template may be rendered by many threads at once. */
#ifndef TEXT_JINJA_H
#define TEXT_JINJA_H

#include "base/buf.h"
#include "base/err.h"

#define JINJA_MAX_SOURCE ((size_t)4 << 20) /* bytes of template text */

struct jinja;

struct jinja_options {
    int64_t now;         /* for strftime_now: seconds since 1970 in the zone to be shown */
    uint64_t max_output; /* bytes; 0: 16 MiB */
    uint64_t max_steps;  /* 0: 10,000,000 */
    uint64_t max_memory; /* bytes; 0: 256 MiB */
    const infer_cancel *cancel;
};

/* Errors: SYNTAX (offset and line set), LIMIT, NO_MEMORY. */
infer_status jinja_compile(const struct alloc *alloc, const char *text, size_t len, struct jinja **out, infer_error *err);
void jinja_free(struct jinja *t); /* may be NULL */

/* Renders with the members of a JSON object as variables, appending to *out, which the caller has initialised.
 * Errors: SYNTAX (the JSON), TEMPLATE, LIMIT, NO_MEMORY, CANCELLED. */
infer_status jinja_render(const struct jinja *t, const struct alloc *alloc, const char *json, size_t json_len,
                          const struct jinja_options *options, struct buf *out, infer_error *err);

#endif
