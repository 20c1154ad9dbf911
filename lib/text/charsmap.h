/* SentencePiece's precompiled character map: what each sequence of characters is replaced by before tokenization. The file holds a
 * double-array trie and a pool of replacement texts; it is untrusted, so every step is checked. */
#ifndef TEXT_CHARSMAP_H
#define TEXT_CHARSMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct charsmap {
    const uint8_t *units; /* unaligned 32-bit words; NULL: no map */
    size_t n_units;
    const char *pool;
    size_t pool_len;
};

/* False: malformed. */
bool charsmap_open(struct charsmap *m, const uint8_t *data, size_t len);
/* The longest sequence at s that is replaced: its length, or 0. */
/* What the shortest mapped sequence at s stands for. False: none. */
bool charsmap_shortest(const struct charsmap *m, const char *s, size_t n, const char **to, size_t *to_len);
size_t charsmap_match(const struct charsmap *m, const char *s, size_t n, const char **to, size_t *to_len);

#endif
