/* UTF-8 (RFC 3629): no surrogates, no overlong forms, at most U+10FFFF. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UTF8_BAD UINT32_MAX

/* Decodes one character at s (n >= 1 bytes left). *used is its length; on malformed input the result is UTF8_BAD and *used
 * is the length of the maximal ill-formed prefix (at least 1), as Unicode recommends for replacement. */
uint32_t utf8_decode(const char *s, size_t n, size_t *used);
/* Writes 1-4 bytes and returns how many; cp must be a scalar value. */
size_t utf8_encode(uint32_t cp, char out[4]);
bool utf8_valid(const char *s, size_t n);
/* The length of the longest prefix of s that does not end inside a character that later bytes could complete. */
size_t utf8_complete(const char *s, size_t n);

#endif
