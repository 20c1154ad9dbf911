#include "bytes.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reserve(struct bytes *b, size_t n)
{
    if (b->failed || n >= SIZE_MAX / 2 - b->len) {
        b->failed = true;
        return false;
    }
    if (b->len + n + 1 <= b->capacity)
        return true;
    size_t capacity = b->len + n + 1 + b->capacity / 2 + 64;
    char *p = realloc(b->data, capacity);
    if (!p) {
        b->failed = true;
        return false;
    }
    b->data = p;
    b->capacity = capacity;
    return true;
}

void bytes_put(struct bytes *b, const void *data, size_t n)
{
    if (!reserve(b, n))
        return;
    if (n)
        memcpy(b->data + b->len, data, n);
    b->len += n;
    b->data[b->len] = 0;
}

void bytes_puts(struct bytes *b, const char *text)
{
    bytes_put(b, text, strlen(text));
}

void bytes_vprintf(struct bytes *b, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    if (n < 0)
        b->failed = true;
    else if (reserve(b, (size_t)n)) {
        vsnprintf(b->data + b->len, (size_t)n + 1, format, again);
        b->len += (size_t)n;
    }
    va_end(again);
}

void bytes_printf(struct bytes *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    bytes_vprintf(b, format, args);
    va_end(args);
}

/* Length of the well-formed character at s (RFC 3629), or 0. */
static size_t utf8_length(const unsigned char *s, size_t n)
{
    size_t len = s[0] < 0x80 ? 1 : s[0] >= 0xC2 && s[0] < 0xE0 ? 2 : s[0] >= 0xE0 && s[0] < 0xF0 ? 3 : s[0] >= 0xF0 && s[0] < 0xF5 ? 4 : 0;
    if (len == 0 || len > n)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return len;
}

void bytes_json_string(struct bytes *b, const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text;
    bytes_put(b, "\"", 1);
    for (size_t i = 0; i < n;) {
        size_t len = utf8_length(s + i, n - i);
        if (len == 0)
            bytes_puts(b, "\xEF\xBF\xBD");
        else if (s[i] == '"' || s[i] == '\\')
            bytes_printf(b, "\\%c", s[i]);
        else if (s[i] < 0x20 || s[i] == 0x7F)
            bytes_printf(b, "\\u%04x", s[i]);
        else
            bytes_put(b, text + i, len);
        i += len ? len : 1;
    }
    bytes_put(b, "\"", 1);
}

void bytes_free(struct bytes *b)
{
    free(b->data);
    *b = (struct bytes){0};
}
