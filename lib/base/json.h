/* A bounded JSON reader: UTF-8 text -> a tree in an arena. Strict RFC 8259, with what it leaves open decided so: lone
 * surrogate escapes are refused (they have no UTF-8), a repeated key keeps its first place and takes the last value (as
 * Python's dict does), and integers beyond int64 are kept as text. Strings and keys are decoded, zero-terminated copies. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"

enum json_type {
    JSON_NULL,
    JSON_BOOL,
    JSON_INT,    /* written without fraction and exponent, fits int64 */
    JSON_BIG,    /* the same, but does not fit: text holds the digits */
    JSON_DOUBLE, /* written with a fraction or an exponent */
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT
};

struct json_text {
    const char *p;
    size_t len;
};

struct json {
    enum json_type type;
    size_t offset; /* in the text, bytes */
    size_t n;      /* items or members */
    union {
        bool boolean;
        int64_t integer;
        double number;
        struct json_text text; /* JSON_STRING, JSON_BIG */
        struct json *items;
        struct json_member *members;
    } u;
};

struct json_member {
    struct json_text key;
    struct json value;
};

struct json_limits {
    size_t max_depth; /* nested arrays and objects; 0: 200 */
    size_t max_bytes; /* of text; 0: 1 GiB */
    bool unique_keys; /* a repeated key is refused */
};

/* limits may be NULL. The memory limit is the arena's. Errors: SYNTAX (offset set), LIMIT, NO_MEMORY. On failure the arena may hold
 * parts of the tree. */
infer_status json_parse(struct arena *ar, const char *text, size_t len, const struct json_limits *limits, struct json *out,
                        infer_error *err);

/* The member of this (zero-terminated) key, or NULL, also when `object` is not an object. Linear. */
const struct json *json_get(const struct json *object, const char *key);

int json_hex4(const char *digits); /* the number of four hexadecimal digits, or -1 */

#endif
