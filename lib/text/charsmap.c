/* Layout: a u32 with the byte length of the trie, the trie, zero-terminated replacement texts (Normalizer::DecodePrecompiledCharsMap
 * in google/sentencepiece). The trie is darts-clone's: a unit holds a label (bits 0-7), "has leaf" (bit 8), and the offset to its
 * children (bits 10-30, shifted by 8 when bit 9 is set); a leaf unit holds a value in bits 0-30 and has bit 31 set. */
#include "text/charsmap.h"

#include <string.h>

static uint32_t unit(const struct charsmap *m, size_t i)
{
    uint32_t u = 0;
    memcpy(&u, m->units + i * 4, 4);
    return u;
}

static size_t children(uint32_t u)
{
    return (size_t)(u >> 10) << ((u & 512) >> 6);
}

bool charsmap_open(struct charsmap *m, const uint8_t *data, size_t len)
{
    uint32_t bytes;
    *m = (struct charsmap){0};
    if (len < 4)
        return false;
    memcpy(&bytes, data, 4);
    if (bytes % 4 || bytes < 4 || bytes > len - 4 || len - 4 - bytes == 0 || data[len - 1])
        return false;
    *m = (struct charsmap){data + 4, bytes / 4, (const char *)data + 4 + bytes, len - 4 - bytes};
    return true;
}

/* Walks along s, to the first mapped sequence or to the longest. */
static size_t find(const struct charsmap *m, const char *s, size_t n, bool shortest, const char **to, size_t *to_len)
{
    size_t found = 0;
    if (!m->units)
        return 0;
    size_t at = children(unit(m, 0));
    for (size_t i = 0; i < n; i++) {
        uint8_t c = (uint8_t)s[i];
        at ^= c;
        if (!c || at >= m->n_units)
            break;
        uint32_t u = unit(m, at);
        if ((u & 0x800000FFu) != c)
            break;
        at ^= children(u);
        if (at >= m->n_units)
            break;
        if (u & 256) {
            uint32_t value = unit(m, at) & 0x7FFFFFFFu;
            if (value >= m->pool_len)
                break;
            found = i + 1;
            *to = m->pool + value;
            *to_len = strlen(*to); /* the pool ends with a zero */
            if (shortest)
                break;
        }
    }
    return found;
}

size_t charsmap_match(const struct charsmap *m, const char *s, size_t n, const char **to, size_t *to_len)
{
    return find(m, s, n, false, to, to_len);
}

bool charsmap_shortest(const struct charsmap *m, const char *s, size_t n, const char **to, size_t *to_len)
{
    return find(m, s, n, true, to, to_len) != 0;
}
