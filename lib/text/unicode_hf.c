#include "text/unicode_hf.h"

#include "base/utf8.h"

#include "text/unicode_hf_tables.h"

#define FIRST 0x61D /* below it nothing differs */
#define ANY(ranges, cp) uc_in_ranges(ranges, sizeof(ranges) / sizeof *(ranges), cp)
#define IN(ranges, cp) ((cp) >= FIRST && ANY(ranges, cp))

bool hf_is_punct(uint32_t c)
{
    if (c < 0x80)
        return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
    return uc_in(uc_props(c), UC_PUNCTUATION) != IN(punct_differs, c);
}

bool hf_is_number(uint32_t cp)
{
    return uc_in(uc_props(cp), UC_NUMBER) != IN(number_differs, cp);
}

bool hf_is_control(uint32_t cp)
{
    return uc_in(uc_props(cp), UC_BIT(UC_CC) | UC_BIT(UC_CF) | UC_BIT(UC_CO)) != IN(control_differs, cp);
}

bool hf_is_mark(uint32_t cp)
{
    return uc_in(uc_props(cp), UC_MARK) != IN(mark_differs, cp);
}

bool hf_is_nonspacing(uint32_t cp)
{
    return uc_in(uc_props(cp), UC_BIT(UC_MN)) != IN(nonspacing_differs, cp);
}

uint32_t hf_lower(uint32_t cp)
{
    const size_t n = sizeof late_lower / sizeof *late_lower;
    for (size_t i = 0; cp >= late_lower[0].first && cp <= late_lower[n - 1].first && i < n; i++)
        if (late_lower[i].first == cp)
            return late_lower[i].last;
    return uc_lower(cp);
}

bool hf_is_inert(uint32_t cp)
{
    return IN(inert, cp);
}

/* Unicode Standard Annex #29, but for what makes clusters of 6 bytes and more only. */
size_t hf_cluster(const char *s, size_t len)
{
    size_t n, used, at = 0;
    if (len > 1 && ((uint8_t)s[0] | (uint8_t)s[1]) < 0x80 && s[0] != '\r')
        return 1;
    uint32_t cp = utf8_decode(s, len, &used);
    if (cp == '\r' && len > 1 && s[1] == '\n')
        return 2;
    n = used;
    while (ANY(joins_back, cp) && n < len) { /* a prefix takes the next character in, if that does not stand alone */
        cp = utf8_decode(s + n, len - n, &used);
        if (cp < 0x20 || ANY(stands_alone, cp))
            return n;
        at = n;
        n += used;
    }
    if (cp < 0x20 || cp == 0x7F || ANY(stands_alone, cp))
        return n;
    bool emoji = ANY(pictograph, utf8_decode(s + at, len - at, &used)), joined = false;
    while (n < len) {
        cp = utf8_decode(s + n, len - n, &used);
        if (!ANY(joins_front, cp) && !(emoji && joined && ANY(pictograph, cp)))
            break;
        joined = cp == 0x200D;
        n += used;
    }
    return n;
}
