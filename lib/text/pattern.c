#include "text/pattern.h"

#include <stdio.h>
#include <string.h>

#include "text/pretok_impl.h"

void pattern_scratch_init(struct pattern_scratch *s, const struct alloc *alloc)
{
    *s = (struct pattern_scratch){.alloc = alloc};
}

#ifndef INFER_HAVE_PCRE2

void pattern_scratch_free(struct pattern_scratch *s)
{
    (void)s;
}

static infer_status compile_other(struct pattern *p, const struct alloc *alloc, const char *text, size_t len, char *why, size_t size)
{
    (void)p, (void)alloc, (void)text, (void)len;
    snprintf(why, size, "is not built in, and this build has no PCRE2");
    return INFER_ERROR_UNSUPPORTED;
}

void pattern_free(struct pattern *p, const struct alloc *alloc)
{
    (void)p, (void)alloc;
}

static bool next_other(struct pattern_walk *w, size_t *from, size_t *to)
{
    (void)w, (void)from, (void)to;
    return false;
}

#endif

infer_status pattern_compile(struct pattern *p, const struct alloc *alloc, const char *text, size_t len, char *why, size_t size)
{
    *p = (struct pattern){.stage = pretok_expression(text, len)};
    return p->stage ? INFER_OK : compile_other(p, alloc, text, len, why, size);
}

void pattern_begin(struct pattern_walk *w, const struct pattern *p, struct pattern_scratch *scratch, const char *s, size_t len)
{
    *w = (struct pattern_walk){.p = p, .scratch = scratch, .s = s, .len = len, .last_end = SIZE_MAX};
}

static bool next_string(struct pattern_walk *w, size_t *from, size_t *to)
{
    const struct json_text *t = &w->p->text;
    while (t->len && w->len - w->at >= t->len) {
        const char *hit = memchr(w->s + w->at, t->p[0], w->len - w->at - t->len + 1);
        if (!hit)
            return false;
        w->at = (size_t)(hit - w->s);
        if (!memcmp(hit, t->p, t->len)) {
            *from = w->at;
            *to = w->at += t->len;
            return true;
        }
        w->at++;
    }
    return false;
}

bool pattern_next(struct pattern_walk *w, size_t *from, size_t *to)
{
    if (w->p->code)
        return next_other(w, from, to);
    if (!w->p->stage)
        return next_string(w, from, to);
    const char *stop, *hit = pretok_next(w->p->stage, &w->memo, w->s + w->at, w->s + w->len, &stop);
    if (!hit)
        return false;
    *from = (size_t)(hit - w->s);
    *to = w->at = (size_t)(stop - w->s);
    return true;
}
