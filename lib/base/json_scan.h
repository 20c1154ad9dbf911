/* Reading JSON in place, value by value and without a tree: for files whose lists have millions of items. The reader goes through
 * objects and arrays itself:
 *
 *     for (json_scan_open(s, '{'); json_scan_more(s, '}');)
 *         if (json_scan_key(s, &key) && ...) json_scan_string(s, &value); else json_scan_skip(s);
 *
 * A mistake in the text is sticky: everything after it reads nothing, and json_scan_more says no. The texts of errors and what is
 * accepted are json.h's, but that a repeated key is the reader's to see. */
#ifndef BASE_JSON_SCAN_H
#define BASE_JSON_SCAN_H

#include "base/buf.h"
#include "base/json.h"

#define JSON_SCAN_DEPTH 64 /* nested arrays and objects, those inside a skipped value too */

struct json_scan {
    const char *text;
    size_t len, pos;
    size_t at;         /* where the last string, number or skipped value began */
    struct buf scratch; /* a string with escapes */
    infer_error *err;
    infer_status st;
    uint32_t depth;
    bool first; /* nothing was read yet in the innermost container */
    const struct infer_cancel *cancel; /* set after init, or NULL: ends it with CANCELLED */
    uint32_t looks;
};

/* Reads on from text[pos]. err may be NULL. */
void json_scan_init(struct json_scan *s, const struct alloc *alloc, const char *text, size_t len, size_t pos, infer_error *err);
/* Checks the whole text to be UTF-8, which the other functions take for granted. */
bool json_scan_utf8(struct json_scan *s);
void json_scan_free(struct json_scan *s);

/* The first character of the value that comes next, or 0 at the end or after a mistake. Digits and '-' are '0'. */
char json_scan_peek(struct json_scan *s);
/* Enters an object ('{') or array ('['). False: something else is there. */
bool json_scan_open(struct json_scan *s, char bracket);
/* Whether another member or item follows; else the container has been left. */
bool json_scan_more(struct json_scan *s, char bracket);
/* The next string; it lasts until the next one is read. */
bool json_scan_string(struct json_scan *s, struct json_text *out);
bool json_scan_key(struct json_scan *s, struct json_text *out);
bool json_scan_int(struct json_scan *s, int64_t *out); /* a number without fraction and exponent that fits */
bool json_scan_double(struct json_scan *s, double *out);
/* Goes past any value; out (may be NULL) is its text. */
bool json_scan_skip(struct json_scan *s, struct json_text *out);
/* Nothing but space follows. */
bool json_scan_end(struct json_scan *s);

/* A mistake found by the reader, at the last value. */
infer_status json_scan_fail(struct json_scan *s, infer_status code, const char *what);

static inline bool json_text_is(struct json_text t, const char *zstr)
{
    size_t i = 0;
    while (i < t.len && zstr[i] && t.p[i] == zstr[i])
        i++;
    return i == t.len && !zstr[i];
}

#endif
