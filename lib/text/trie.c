#include "text/trie.h"

#include <string.h>

/* Keys lo .. hi - 1 share their first `depth` bytes: one node. */
struct node_range {
    uint32_t lo, hi, depth;
};

struct builder {
    struct trie *t;
    struct trie_key *keys, *spare;
    struct node_range *nodes; /* [cap], parallel to the trie's arrays */
    uint32_t cap;
};

static bool grow(struct builder *b)
{
    struct trie *t = b->t;
    if (b->cap > UINT32_MAX / 4)
        return false;
    uint32_t cap = b->cap ? b->cap * 2 : 256;
    uint8_t *label = mem_grow(t->alloc, t->label, cap);
    if (label)
        t->label = label;
    uint32_t *first = mem_grow(t->alloc, t->first, ((size_t)cap + 1) * sizeof *first);
    if (first)
        t->first = first;
    uint32_t *value = mem_grow(t->alloc, t->value, (size_t)cap * sizeof *value);
    if (value)
        t->value = value;
    struct node_range *nodes = mem_grow(t->alloc, b->nodes, (size_t)cap * sizeof *nodes);
    if (nodes)
        b->nodes = nodes;
    b->cap = cap;
    return label && first && value && nodes;
}

static bool add_node(struct builder *b, uint8_t label, struct node_range r)
{
    struct trie *t = b->t;
    if (t->n == b->cap && !grow(b))
        return false;
    t->label[t->n] = label;
    t->value[t->n] = TRIE_NONE;
    b->nodes[t->n++] = r;
    return true;
}

/* Sorts keys lo .. hi - 1 by the byte at depth. */
static void sort_keys(struct builder *b, uint32_t lo, uint32_t hi, uint32_t depth)
{
    struct trie_key *k = b->keys;
    if (hi - lo <= 24) {
        for (uint32_t i = lo + 1; i < hi; i++) {
            struct trie_key x = k[i];
            uint32_t j = i;
            for (; j > lo && (uint8_t)k[j - 1].text[depth] > (uint8_t)x.text[depth]; j--)
                k[j] = k[j - 1];
            k[j] = x;
        }
        return;
    }
    uint32_t at[257] = {0};
    for (uint32_t i = lo; i < hi; i++)
        at[(uint8_t)k[i].text[depth] + 1]++;
    for (int c = 1; c < 257; c++)
        at[c] += at[c - 1];
    for (uint32_t i = lo; i < hi; i++)
        b->spare[at[(uint8_t)k[i].text[depth]]++] = k[i];
    memcpy(k + lo, b->spare, (size_t)(hi - lo) * sizeof *k);
}

/* Moves keys that end at depth to the front; returns where the others begin. */
static uint32_t take_ended(struct builder *b, struct node_range r, uint32_t *value)
{
    uint32_t n = r.lo;
    for (uint32_t i = r.lo; i < r.hi; i++)
        if (b->keys[i].len == r.depth) {
            struct trie_key x = b->keys[i];
            if (x.value < *value)
                *value = x.value;
            b->keys[i] = b->keys[n];
            b->keys[n++] = x;
        }
    return n;
}

static bool expand(struct builder *b, uint32_t node)
{
    struct trie *t = b->t;
    struct node_range r = b->nodes[node];
    t->first[node] = t->n;
    uint32_t lo = take_ended(b, r, &t->value[node]);
    if (lo == r.hi)
        return true;
    sort_keys(b, lo, r.hi, r.depth);
    while (lo < r.hi) {
        uint8_t c = (uint8_t)b->keys[lo].text[r.depth];
        uint32_t hi = lo + 1;
        while (hi < r.hi && (uint8_t)b->keys[hi].text[r.depth] == c)
            hi++;
        if (!add_node(b, c, (struct node_range){lo, hi, r.depth + 1}))
            return false;
        lo = hi;
    }
    return true;
}

bool trie_build(struct trie *t, const struct alloc *alloc, struct trie_key *keys, uint32_t count)
{
    *t = (struct trie){.alloc = alloc};
    if (!count)
        return true;
    struct builder b = {.t = t, .keys = keys, .spare = mem_array(alloc, count, sizeof *keys)};
    bool ok = b.spare && add_node(&b, 0, (struct node_range){0, count, 0});
    for (uint32_t i = 0; ok && i < t->n; i++)
        ok = expand(&b, i);
    if (ok)
        t->first[t->n] = t->n;
    mem_free(alloc, b.spare);
    mem_free(alloc, b.nodes);
    if (!ok)
        trie_free(t);
    return ok;
}

void trie_free(struct trie *t)
{
    if (!t->alloc)
        return;
    mem_free(t->alloc, t->label);
    mem_free(t->alloc, t->first);
    mem_free(t->alloc, t->value);
    *t = (struct trie){.alloc = NULL};
}

uint32_t trie_child(const struct trie *t, uint32_t node, uint8_t c)
{
    uint32_t first = t->first[node], n = t->first[node + 1] - first;
    const uint8_t *p = n ? memchr(t->label + first, c, n) : NULL;
    return p ? (uint32_t)(p - t->label) : TRIE_NONE;
}

uint32_t trie_longest(const struct trie *t, const char *s, size_t n, size_t *len)
{
    uint32_t found = TRIE_NONE, node = 0;
    *len = 0;
    for (size_t i = 0; t->n && i < n; i++) {
        node = trie_child(t, node, (uint8_t)s[i]);
        if (node == TRIE_NONE)
            break;
        if (t->value[node] != TRIE_NONE) {
            found = t->value[node];
            *len = i + 1;
        }
    }
    return found;
}
