/* Patterns of tokenizer.json: a plain string, a regular expression that is built in (pretok.h), or any other through PCRE2. */
#ifndef TEXT_PATTERN_H
#define TEXT_PATTERN_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "text/pretok.h"

struct pattern_code; /* a compiled expression */
struct pattern_walk;

struct pattern {
    struct json_text text; /* kind string */
    const struct pretok_stage *stage; /* built in */
    struct pattern_code *code;        /* PCRE2 */
};

/* pattern_pcre2.c: expressions that are not built in. */
infer_status pattern_other_compile(struct pattern *p, const struct alloc *alloc, const char *text, size_t len, char *why, size_t size);
bool pattern_other_next(struct pattern_walk *w, size_t *from, size_t *to);
/* pattern_oniguruma.c: an expression of Oniguruma's syntax as one of PCRE2's (options UTF, UCP, MULTILINE, newline LF). Errors: UNSUPPORTED
 * and VALUE (why tells); out's flags tell of failures to grow. */
infer_status pattern_translate(const char *text, size_t len, struct buf *out, char *why, size_t size);

/* What matching needs; shared by the patterns of one encoding. */
struct pattern_scratch {
    const struct alloc *alloc;
    void *match_data, *context, *general; /* PCRE2's; NULL until the first match */
};
void pattern_scratch_init(struct pattern_scratch *s, const struct alloc *alloc);
void pattern_scratch_free(struct pattern_scratch *s);

/* A regular expression in Oniguruma's syntax. why (of size bytes) says what is not supported. Errors: UNSUPPORTED, VALUE, NO_MEMORY. */
infer_status pattern_compile(struct pattern *p, const struct alloc *alloc, const char *text, size_t len, char *why, size_t size);
void pattern_free(struct pattern *p, const struct alloc *alloc);

/* Going through the matches of a text, which is valid UTF-8. */
struct pattern_walk {
    const struct pattern *p;
    struct pattern_scratch *scratch;
    const char *s;
    size_t len, at;
    size_t last_end; /* of the last match, or SIZE_MAX */
    struct pretok_memo memo;
    uint64_t budget; /* PCRE2: backtracking that is left */
    infer_status st; /* LIMIT: matching took too long; NO_MEMORY */
};
void pattern_begin(struct pattern_walk *w, const struct pattern *p, struct pattern_scratch *scratch, const char *s, size_t len);
/* The next match, leftmost; false: none, or st is set. An empty match cuts. */
bool pattern_next(struct pattern_walk *w, size_t *from, size_t *to);

#endif
