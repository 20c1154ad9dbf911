/* What the tokenizer tests share. */
#ifndef TOKTEST_H
#define TOKTEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "infer/infer.h"
#include "testutil.h"

#define DATA_DIR INFER_SOURCE_DIR "/tests/data/tokenizers/"

static inline infer_tokenizer *open_tokenizer(const char *path)
{
    infer_tokenizer *t = NULL;
    infer_source source;
    infer_error err;
    INFER_INIT(&err);
    infer_source_path(&source, path, INFER_ZSTR);
    infer_status st = infer_tokenizer_open(NULL, &source, NULL, &t, &err);
    if (st != INFER_OK)
        print_error("%s: %s: %s\n", path, err.name, err.text);
    assert_int_equal(st, INFER_OK);
    return t;
}

/* The same, but the running test is skipped where the file needs PCRE2 and the build has none. */
static inline infer_tokenizer *open_json(const char *path)
{
    infer_tokenizer *t = NULL;
    infer_source source;
    infer_error err;
    INFER_INIT(&err);
    infer_source_path(&source, path, INFER_ZSTR);
    infer_status st = infer_tokenizer_open(NULL, &source, NULL, &t, &err);
    if (st == INFER_ERROR_UNSUPPORTED && strstr(err.text, "no PCRE2"))
        skip();
    return t ? t : open_tokenizer(path);
}

/* Reads the lines of a case file: fields separated by tabs. */
struct cases {
    char *data, *at;
    char *field[3];
};

static inline void cases_open(struct cases *c, const char *path)
{
    *c = (struct cases){.data = test_read_file(path, NULL)};
    assert_non_null(c->data);
    c->at = c->data;
}

static inline int cases_next(struct cases *c)
{
    if (!*c->at)
        return 0;
    for (int i = 0; i < 3; i++) {
        c->field[i] = c->at;
        c->at += strcspn(c->at, i < 2 ? "\t\n" : "\n");
        if (*c->at)
            *c->at++ = 0;
    }
    return 1;
}

/* Hex to bytes, in place. */
static inline size_t unhex(char *s)
{
    size_t n = 0;
    for (unsigned byte; s[2 * n] && sscanf(s + 2 * n, "%2x", &byte) == 1; n++)
        s[n] = (char)byte;
    return n;
}

static inline uint64_t read_numbers(const char *s, int32_t *out, uint64_t cap)
{
    uint64_t n = 0;
    for (char *end; n < cap; s = end) {
        long v = strtol(s, &end, 10);
        if (end == s)
            break;
        out[n++] = (int32_t)v;
    }
    return n;
}

#endif
