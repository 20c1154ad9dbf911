#include "base/utf8.h"

/* The length that a first byte announces and the allowed range of the second byte; 0: not a first byte. */
static size_t lead(uint8_t c, uint8_t *lo, uint8_t *hi)
{
    *lo = 0x80;
    *hi = 0xBF;
    if (c < 0x80)
        return 1;
    if (c >= 0xC2 && c <= 0xDF)
        return 2;
    if (c >= 0xE0 && c <= 0xEF) {
        if (c == 0xE0)
            *lo = 0xA0;
        if (c == 0xED)
            *hi = 0x9F;
        return 3;
    }
    if (c >= 0xF0 && c <= 0xF4) {
        if (c == 0xF0)
            *lo = 0x90;
        if (c == 0xF4)
            *hi = 0x8F;
        return 4;
    }
    return 0;
}

uint32_t utf8_decode(const char *s, size_t n, size_t *used)
{
    const uint8_t *p = (const uint8_t *)s;
    uint8_t lo, hi;
    size_t len = lead(p[0], &lo, &hi);
    *used = 1;
    if (len <= 1)
        return len ? p[0] : UTF8_BAD;
    uint32_t cp = p[0] & (0xFFu >> (len + 1));
    for (size_t i = 1; i < len; i++) {
        if (i >= n || p[i] < lo || p[i] > hi)
            return UTF8_BAD;
        cp = cp << 6 | (p[i] & 0x3Fu);
        lo = 0x80;
        hi = 0xBF;
        *used = i + 1;
    }
    return cp;
}

size_t utf8_encode(uint32_t cp, char out[4])
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xC0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3F));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xE0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3F));
        out[2] = (char)(0x80 | (cp & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3F));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3F));
    out[3] = (char)(0x80 | (cp & 0x3F));
    return 4;
}

bool utf8_valid(const char *s, size_t n)
{
    for (size_t i = 0, used; i < n; i += used)
        if (utf8_decode(s + i, n - i, &used) == UTF8_BAD)
            return false;
    return true;
}

size_t utf8_complete(const char *s, size_t n)
{
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        uint8_t lo, hi;
        uint8_t c = (uint8_t)s[n - back];
        if ((c & 0xC0) == 0x80)
            continue;
        size_t used;
        if (lead(c, &lo, &hi) > back) {
            (void)utf8_decode(s + (n - back), back, &used);
            return used == back ? n - back : n; /* already ill-formed: later bytes cannot mend it */
        }
        break;
    }
    return n;
}
