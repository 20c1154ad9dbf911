/* Dates as Python's strftime writes them in the C locale, without a time zone: proleptic Gregorian, no leap seconds. */
#ifndef TEXT_STRFTIME_H
#define TEXT_STRFTIME_H

#include <stdint.h>

#include "base/buf.h"

/* t: seconds since 1970-01-01 00:00:00 of the zone to be shown. Unknown conversions are copied as they are. Covers the
 * conversions of POSIX and glibc's flags - _ 0 ^ #. */
void text_strftime(struct buf *b, const char *fmt, size_t len, int64_t t);

#endif
