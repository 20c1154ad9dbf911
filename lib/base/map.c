#include "base/map.h"

#include <string.h>

static uint64_t rotl(uint64_t x, int n)
{
    return (x << n) | (x >> (64 - n));
}

struct sip {
    uint64_t a, b, c, d;
};

static void sip_round(struct sip *s)
{
    s->a += s->b;
    s->b = rotl(s->b, 13) ^ s->a;
    s->a = rotl(s->a, 32);
    s->c += s->d;
    s->d = rotl(s->d, 16) ^ s->c;
    s->a += s->d;
    s->d = rotl(s->d, 21) ^ s->a;
    s->c += s->b;
    s->b = rotl(s->b, 17) ^ s->c;
    s->c = rotl(s->c, 32);
}

/* SipHash: J.-P. Aumasson and D. J. Bernstein, "SipHash: a fast short-input PRF", 2012; here with 1 and 3 rounds. */
uint64_t hash_bytes(const void *data, size_t len)
{
    const uint64_t k0 = 0x6c6962696e666572u, k1 = 0x9e3779b97f4a7c15u;
    struct sip s = {k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du, k0 ^ 0x6c7967656e657261u,
                    k1 ^ 0x7465646279746573u};
    const unsigned char *p = data;
    uint64_t tail = (uint64_t)len << 56, w;
    size_t i = 0;
    for (; i + 8 <= len; i += 8) {
        memcpy(&w, p + i, 8);
        s.d ^= w;
        sip_round(&s);
        s.a ^= w;
    }
    for (int shift = 0; i < len; i++, shift += 8)
        tail |= (uint64_t)p[i] << shift;
    s.d ^= tail;
    sip_round(&s);
    s.a ^= tail;
    s.c ^= 0xff;
    for (int r = 0; r < 3; r++)
        sip_round(&s);
    return s.a ^ s.b ^ s.c ^ s.d;
}

void map_init(struct map *m, const struct alloc *alloc)
{
    *m = (struct map){.alloc = alloc};
}

static struct map_slot *find_slot(struct map_slot *slots, size_t mask, const char *key, size_t len)
{
    size_t i = (size_t)hash_bytes(key, len) & mask;
    while (slots[i].key && (slots[i].len != len || memcmp(slots[i].key, key, len)))
        i = (i + 1) & mask;
    return &slots[i];
}

bool map_reserve(struct map *m, size_t count)
{
    size_t cap = 16;
    if (count > SIZE_MAX / (4 * sizeof *m->slots))
        return false;
    while (cap < count * 2)
        cap *= 2;
    if (m->slots && cap <= m->mask + 1)
        return true;
    struct map_slot *slots = mem_zarray(m->alloc, cap, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; m->slots && i <= m->mask; i++)
        if (m->slots[i].key)
            *find_slot(slots, cap - 1, m->slots[i].key, m->slots[i].len) = m->slots[i];
    mem_free(m->alloc, m->slots);
    m->slots = slots;
    m->mask = cap - 1;
    return true;
}

int map_add(struct map *m, const char *key, size_t len, uint32_t value)
{
    if (len > UINT32_MAX || !map_reserve(m, m->count + 1))
        return -1;
    struct map_slot *s = find_slot(m->slots, m->mask, key ? key : "", len);
    if (s->key)
        return 0;
    *s = (struct map_slot){key ? key : "", (uint32_t)len, value};
    m->count++;
    return 1;
}

uint32_t *map_find(const struct map *m, const char *key, size_t len)
{
    if (!m->slots)
        return NULL;
    struct map_slot *s = find_slot(m->slots, m->mask, key ? key : "", len);
    return s->key ? &s->value : NULL;
}

void map_free(struct map *m)
{
    mem_free(m->alloc, m->slots);
    m->slots = NULL;
    m->mask = m->count = 0;
}
