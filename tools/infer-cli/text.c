#include "text.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void text_put(struct text *t, const char *bytes, size_t n)
{
    if (t->failed || n >= SIZE_MAX / 2 - t->len) {
        t->failed = true;
        return;
    }
    if (t->len + n + 1 > t->cap) {
        size_t cap = t->len + n + 1 + t->cap / 2 + 64;
        char *p = realloc(t->data, cap);
        if (!p) {
            t->failed = true;
            return;
        }
        t->data = p;
        t->cap = cap;
    }
    if (n)
        memcpy(t->data + t->len, bytes, n);
    t->len += n;
    t->data[t->len] = 0;
}

void text_puts(struct text *t, const char *s)
{
    text_put(t, s, strlen(s));
}

/* Length of the well-formed character at s (RFC 3629), or 0. */
static size_t utf8_length(const unsigned char *s, size_t n)
{
    static const struct {
        unsigned char first_lo, first_hi, second_lo, second_hi, length;
    } forms[] = {
        {0x00, 0x7F, 0, 0, 1},          {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
        {0xE1, 0xEC, 0x80, 0xBF, 3},    {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
        {0xF0, 0xF0, 0x90, 0xBF, 4},    {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
    };
    for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
        size_t len = forms[f].length;
        if (s[0] < forms[f].first_lo || s[0] > forms[f].first_hi)
            continue;
        if (len > n || (len > 1 && (s[1] < forms[f].second_lo || s[1] > forms[f].second_hi)))
            return 0;
        for (size_t i = 2; i < len; i++)
            if ((s[i] & 0xC0) != 0x80)
                return 0;
        return len;
    }
    return 0;
}

void text_put_json(struct text *t, const char *bytes, size_t n)
{
    const unsigned char *s = (const unsigned char *)bytes;
    text_put(t, "\"", 1);
    for (size_t i = 0; i < n;) {
        size_t len = utf8_length(s + i, n - i);
        if (len == 0)
            text_puts(t, "\xEF\xBF\xBD");
        else if (s[i] == '"' || s[i] == '\\')
            text_putf(t, "\\%c", s[i]);
        else if (s[i] == '\n')
            text_puts(t, "\\n");
        else if (s[i] < 0x20 || s[i] == 0x7F)
            text_putf(t, "\\u%04x", s[i]);
        else
            text_put(t, bytes + i, len);
        i += len ? len : 1;
    }
    text_put(t, "\"", 1);
}

void text_putf(struct text *t, const char *fmt, ...)
{
    char small[512];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(small, sizeof small, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof small)
        t->failed = true; /* only short things are formatted */
    else
        text_put(t, small, (size_t)n);
}

void text_clear(struct text *t)
{
    t->len = 0;
    if (t->data)
        t->data[0] = 0;
}

void text_free(struct text *t)
{
    free(t->data);
    *t = (struct text){0};
}
