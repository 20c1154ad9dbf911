/* Python's string operations on UTF-8, by code points. No failure but those of the buffers written to. */
#ifndef TEXT_JINJA_STR_H
#define TEXT_JINJA_STR_H

#include "base/buf.h"
#include "text/jinja_value.h"

#define JS_NONE SIZE_MAX

bool js_is_space(uint32_t cp); /* as str.isspace() */
bool js_is_line_end(uint32_t cp); /* as str.splitlines() splits */
size_t js_skip_space(const char *p, size_t len); /* bytes of leading white space */
size_t js_trim_end(const char *p, size_t len);   /* length without trailing white space */
size_t js_count(const char *p, size_t len);      /* code points */
size_t js_offset(const struct jstr *s, size_t cp); /* byte offset of the cp-th code point; cp at most s->cps */
size_t js_char_len(const char *p);                 /* bytes of the code point that starts at p */
size_t js_char_back(const char *p, size_t end);    /* start of the code point that ends at `end` */
/* Byte offset of the first or last place of needle within [from, to), or JS_NONE. */
size_t js_find(const char *p, size_t from, size_t to, const char *needle, size_t n);
size_t js_rfind(const char *p, size_t from, size_t to, const char *needle, size_t n);
bool js_same(const struct jstr *a, const struct jstr *b);
bool js_is(const struct jstr *s, const char *zstr);

/* Case: as str.lower() and .upper(), also where one character becomes several. The _cp forms are the simple mappings. */
uint32_t js_lower_cp(uint32_t cp);
uint32_t js_upper_cp(uint32_t cp);
void js_lower(struct buf *b, const char *p, size_t len);
void js_upper(struct buf *b, const char *p, size_t len);
void js_put_upper(struct buf *b, uint32_t cp, bool title);
enum js_case { JS_UNCASED, JS_LOWER, JS_UPPER, JS_TITLE };
enum js_case js_case_of(uint32_t cp);
bool js_is_cased(uint32_t cp);
bool js_is_alpha(uint32_t cp);
bool js_is_decimal(uint32_t cp);
bool js_is_digit(uint32_t cp);
bool js_is_numeric(uint32_t cp);
bool js_is_printable(uint32_t cp); /* for repr() */

#endif
