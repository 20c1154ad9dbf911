/* A growing array of bytes. When memory is short it takes no more and remembers that (failed). */
#ifndef SERVER_BYTES_H
#define SERVER_BYTES_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct bytes {
    char *data; /* zero-terminated unless NULL */
    size_t len, capacity;
    bool failed;
};

void bytes_put(struct bytes *b, const void *data, size_t n);
void bytes_puts(struct bytes *b, const char *text);
void bytes_printf(struct bytes *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void bytes_vprintf(struct bytes *b, const char *format, va_list args);
/* A string as JSON, quotes included; what is no UTF-8 becomes U+FFFD. */
void bytes_json_string(struct bytes *b, const char *text, size_t n);
void bytes_free(struct bytes *b);

#endif
