#include "text/pairs.h"

#include <string.h>

#define MAX_PROBES 1024

bool pair_table_init(struct pair_table *t, const struct alloc *alloc, uint32_t count)
{
    uint32_t cap = 16;
    while (cap < count + count / 2)
        cap *= 2;
    t->slots = mem_array(alloc, cap, sizeof *t->slots);
    t->mask = cap - 1;
    if (t->slots)
        memset(t->slots, 0xFF, (size_t)cap * sizeof *t->slots);
    return t->slots != NULL;
}

bool pair_add(struct pair_table *t, struct pair_slot p, bool last)
{
    uint32_t i = pair_hash(p.left, p.right) & t->mask;
    for (int probes = 0; probes < MAX_PROBES; probes++, i = (i + 1) & t->mask) {
        struct pair_slot *s = &t->slots[i];
        if (s->left == UINT32_MAX || (last && s->left == p.left && s->right == p.right))
            *s = p;
        if (s->left == p.left && s->right == p.right)
            return true;
    }
    return false;
}
