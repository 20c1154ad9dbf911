#include "text/unicode_hf.h"

#include <stddef.h>

struct cp_range {
    uint32_t first, last;
};

#include "text/unicode_hf_tables.h"

#define FIRST 0x61D /* below it nothing differs */
#define IN(ranges, cp) ((cp) >= FIRST && in_ranges(ranges, sizeof(ranges) / sizeof *(ranges), cp))

static bool in_ranges(const struct cp_range *r, size_t n, uint32_t cp)
{
    size_t lo = 0;
    while (lo < n) {
        size_t mid = (lo + n) / 2;
        if (cp < r[mid].first)
            n = mid;
        else if (cp > r[mid].last)
            lo = mid + 1;
        else
            return true;
    }
    return false;
}

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
