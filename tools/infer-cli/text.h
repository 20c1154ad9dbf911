/* A growing byte string; failure (no memory) is sticky. And JSON strings. */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct text {
    char *data; /* zero-terminated once anything was put */
    size_t len, cap;
    bool failed;
};

void text_put(struct text *t, const char *bytes, size_t n);
void text_puts(struct text *t, const char *s);
/* "..." with JSON's escapes; malformed UTF-8 becomes U+FFFD, so that the result is always valid JSON. */
void text_put_json(struct text *t, const char *bytes, size_t n);
void text_putf(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void text_clear(struct text *t); /* keeps the memory */
void text_free(struct text *t);

#endif
