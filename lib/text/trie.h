/* A trie over byte strings: finds every string that begins at a place of a text, shortest first. Children of a node lie together and
 * the nodes in breadth-first order, so a node is 9 bytes. */
#ifndef TEXT_TRIE_H
#define TEXT_TRIE_H

#include <stdbool.h>

#include "base/alloc.h"

#define TRIE_NONE UINT32_MAX

struct trie {
    const struct alloc *alloc;
    uint8_t *label;   /* [n] the byte that leads to the node */
    uint32_t *first;  /* [n + 1] children of node i: first[i] .. first[i + 1] - 1 */
    uint32_t *value;  /* [n] of the string that ends here, or TRIE_NONE */
    uint32_t n;       /* nodes; 0: an empty trie */
};

struct trie_key {
    const char *text;
    uint32_t len; /* at least 1 */
    uint32_t value;
};

/* Of equal keys the least value wins. keys are reordered. False: no memory. */
bool trie_build(struct trie *t, const struct alloc *alloc, struct trie_key *keys, uint32_t count);
void trie_free(struct trie *t);

/* The child of node by byte c, or TRIE_NONE. The root is node 0; an empty trie has none. */
uint32_t trie_child(const struct trie *t, uint32_t node, uint8_t c);

/* The longest string that s begins with: its value, or TRIE_NONE. */
uint32_t trie_longest(const struct trie *t, const char *s, size_t n, size_t *len);

#endif
