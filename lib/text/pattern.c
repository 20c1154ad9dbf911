#include "text/pattern.h"

#include <string.h>


infer_status pattern_compile(struct pattern *p, const struct alloc *alloc, const char *text, size_t len, char *why, size_t size)
{
    *p = (struct pattern){.stage = pretok_expression(text, len)};
    return p->stage ? INFER_OK : pattern_other_compile(p, alloc, text, len, why, size);
}

void pattern_begin(struct pattern_walk *w, const struct pattern *p, struct pattern_scratch *scratch, const char *s, size_t len)
{
    *w = (struct pattern_walk){.p = p, .scratch = scratch, .s = s, .len = len, .last_end = SIZE_MAX,
                               .budget = 1000000 + 64 * (uint64_t)len};
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
        return pattern_other_next(w, from, to);
    if (!w->p->stage)
        return next_string(w, from, to);
    const char *stop, *hit = pretok_next(w->p->stage, &w->memo, w->s + w->at, w->s + w->len, &stop);
    if (!hit)
        return false;
    *from = (size_t)(hit - w->s);
    *to = w->at = (size_t)(stop - w->s);
    return true;
}
