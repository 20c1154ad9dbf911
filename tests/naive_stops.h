/* Stop strings by a search over the whole text: what the automaton of lib/text/stops.h is compared with. */
#ifndef NAIVE_STOPS_H
#define NAIVE_STOPS_H

#include <string.h>

#include "infer/infer.h"

/* The first end of a stop string in text, and the longest that ends there (of equal ones the first). 0: none. */
static inline size_t naive_find(const infer_text *stops, uint64_t n, const char *text, size_t len, int32_t *which)
{
    for (size_t end = 1; end <= len; end++) {
        *which = -1;
        for (uint64_t i = 0; i < n; i++)
            if (stops[i].text_len <= end && !memcmp(text + end - stops[i].text_len, stops[i].text, (size_t)stops[i].text_len)
                && (*which < 0 || stops[i].text_len > stops[*which].text_len))
                *which = (int32_t)i;
        if (*which >= 0)
            return end;
    }
    *which = -1;
    return 0;
}

#endif
