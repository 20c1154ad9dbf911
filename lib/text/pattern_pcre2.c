/* Regular expressions that are not built in, by PCRE2. Its memory comes from the host's allocator; backtracking has a budget that grows with
 * the text, so a bad expression ends with an error. */
#include "text/pattern.h"

#include <stdio.h>

#ifndef INFER_HAVE_PCRE2

void pattern_scratch_init(struct pattern_scratch *s, const struct alloc *alloc)
{
    *s = (struct pattern_scratch){.alloc = alloc};
}

void pattern_scratch_free(struct pattern_scratch *s)
{
    (void)s;
}

infer_status pattern_other_compile(struct pattern *p, const struct alloc *alloc, const char *text, size_t len, char *why, size_t size)
{
    (void)p, (void)alloc, (void)text, (void)len;
    snprintf(why, size, "is not built in, and this build has no PCRE2");
    return INFER_ERROR_UNSUPPORTED;
}

void pattern_free(struct pattern *p, const struct alloc *alloc)
{
    (void)p, (void)alloc;
}

bool pattern_other_next(struct pattern_walk *w, size_t *from, size_t *to)
{
    (void)w, (void)from, (void)to;
    return false;
}

#else

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/utf8.h"

static void *get_memory(PCRE2_SIZE size, void *alloc)
{
    return mem_alloc(alloc, size);
}

static void put_memory(void *block, void *alloc)
{
    mem_free(alloc, block);
}

/* alloc outlives the context; PCRE2 takes it without const and hands it back. */
static pcre2_general_context *general_context(const struct alloc *alloc)
{
    union {
        const struct alloc *given;
        void *user;
    } u = {alloc};
    return pcre2_general_context_create(get_memory, put_memory, u.user);
}

/* ---- Compiling */

struct pattern_code {
    pcre2_code *code;
    pcre2_general_context *general;
};

static infer_status compile(struct pattern_code *c, const struct buf *text, char *why, size_t size)
{
    pcre2_compile_context *context = pcre2_compile_context_create(c->general);
    int error = 0;
    PCRE2_SIZE at = 0;
    if (!context)
        return INFER_ERROR_NO_MEMORY;
    (void)pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    (void)pcre2_set_parens_nest_limit(context, 100);
    c->code = pcre2_compile((PCRE2_SPTR)(text->data ? text->data : ""), text->len,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &at, context);
    pcre2_compile_context_free(context);
    if (c->code)
        return INFER_OK;
    if (error == PCRE2_ERROR_HEAP_FAILED)
        return INFER_ERROR_NO_MEMORY;
    PCRE2_UCHAR message[96] = {0};
    (void)pcre2_get_error_message(error, message, sizeof message);
    snprintf(why, size, "does not compile: %s", (const char *)message);
    return INFER_ERROR_UNSUPPORTED;
}

infer_status pattern_other_compile(struct pattern *p, const struct alloc *alloc, const char *text, size_t len, char *why, size_t size)
{
    struct buf translated;
    buf_init(&translated, alloc, (size_t)1 << 20);
    infer_status st = pattern_translate(text, len, &translated, why, size);
    if (st == INFER_OK && translated.over_limit) {
        snprintf(why, size, "is too long");
        st = INFER_ERROR_LIMIT;
    }
    struct pattern_code *c = st == INFER_OK && buf_ok(&translated) ? mem_zalloc(alloc, sizeof *c) : NULL;
    if (st == INFER_OK && !c)
        st = INFER_ERROR_NO_MEMORY;
    if (c) {
        p->code = c;
        c->general = general_context(alloc);
        st = c->general ? compile(c, &translated, why, size) : INFER_ERROR_NO_MEMORY;
    }
    buf_free(&translated);
    if (st != INFER_OK)
        pattern_free(p, alloc);
    return st;
}

void pattern_free(struct pattern *p, const struct alloc *alloc)
{
    if (!p->code)
        return;
    pcre2_code_free(p->code->code);
    pcre2_general_context_free(p->code->general);
    mem_free(alloc, p->code);
    p->code = NULL;
}

/* ---- Matching */

#define HEAP_KIB    65536 /* for backtracking */
#define FIRST_LIMIT 1000  /* steps of backtracking from one place that cost nothing */

void pattern_scratch_init(struct pattern_scratch *s, const struct alloc *alloc)
{
    *s = (struct pattern_scratch){.alloc = alloc};
}

void pattern_scratch_free(struct pattern_scratch *s)
{
    pcre2_match_data_free(s->match_data);
    pcre2_match_context_free(s->context);
    pcre2_general_context_free(s->general);
}

static bool prepare(struct pattern_scratch *s)
{
    if (!s->general)
        s->general = general_context(s->alloc);
    if (s->general && !s->context) {
        s->context = pcre2_match_context_create(s->general);
        if (s->context)
            (void)pcre2_set_heap_limit(s->context, HEAP_KIB);
    }
    if (s->general && !s->match_data)
        s->match_data = pcre2_match_data_create(1, s->general);
    return s->context && s->match_data;
}

/* A match from w->at on. Where backtracking takes long it is tried again with a higher limit, which the budget pays for. */
static int match(struct pattern_walk *w)
{
    struct pattern_scratch *s = w->scratch;
    for (uint32_t limit = FIRST_LIMIT;; limit *= 8) {
        (void)pcre2_set_match_limit(s->context, limit);
        int rc = pcre2_match(w->p->code->code, (PCRE2_SPTR)w->s, w->len, w->at, PCRE2_NO_UTF_CHECK, s->match_data, s->context);
        if (rc != PCRE2_ERROR_MATCHLIMIT)
            return rc;
        if (limit >= UINT32_MAX / 8 || w->budget < (uint64_t)limit * 8)
            return rc;
        w->budget -= (uint64_t)limit * 8;
    }
}

static void step(struct pattern_walk *w)
{
    size_t used = 1;
    if (w->at < w->len)
        (void)utf8_decode(w->s + w->at, w->len - w->at, &used);
    w->at += used;
}

/* An empty match directly behind a match does not count, as the library has it. */
bool pattern_other_next(struct pattern_walk *w, size_t *from, size_t *to)
{
    if (!prepare(w->scratch)) {
        w->st = INFER_ERROR_NO_MEMORY;
        return false;
    }
    while (w->at <= w->len) {
        int rc = match(w);
        if (rc == PCRE2_ERROR_NOMATCH)
            return false;
        if (rc < 0) {
            w->st = rc == PCRE2_ERROR_NOMEMORY ? INFER_ERROR_NO_MEMORY : INFER_ERROR_LIMIT;
            return false;
        }
        const PCRE2_SIZE *place = pcre2_get_ovector_pointer(w->scratch->match_data);
        *from = place[0];
        *to = place[1];
        if (*to < *from || (*from == *to && w->last_end == *to)) { /* the first: \K in a lookahead, which is refused */
            step(w);
            continue;
        }
        w->at = w->last_end = *to;
        return true;
    }
    return false;
}

#endif
