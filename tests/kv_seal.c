#include "kv_seal.h"

#include <stddef.h>

static struct kv_section *table_of(uint8_t *data, size_t n)
{
    const struct kv_file_header *h = (const struct kv_file_header *)data;
    bool inside = n >= KV_FILE_HEADER && h->table_offset < n && h->n_sections * sizeof(struct kv_section) <= n - h->table_offset;
    return inside ? (struct kv_section *)(data + h->table_offset) : NULL;
}

void kv_seal(uint8_t *data, size_t n)
{
    struct kv_file_header *h = (struct kv_file_header *)data;
    struct kv_section *t = table_of(data, n);
    if (n < KV_FILE_HEADER)
        return;
    for (uint32_t i = 0; t && i < h->n_sections; i++)
        if (t[i].kind != KV_SECTION_PAGES && t[i].offset < n && t[i].stored < n - t[i].offset)
            t[i].hash = hash_64(data + t[i].offset, t[i].stored);
    if (t) {
        h->table_hash = hash_64(t, h->n_sections * sizeof *t);
        h->id = kv_file_make_id(h, t);
    }
    h->hash = hash_64(h, offsetof(struct kv_file_header, hash));
}

struct kv_section *kv_seal_find(uint8_t *data, size_t n, uint32_t kind, uint64_t tag)
{
    const struct kv_file_header *h = (const struct kv_file_header *)data;
    struct kv_section *t = table_of(data, n);
    for (uint32_t i = 0; t && i < h->n_sections; i++)
        if (t[i].kind == kind && t[i].tag == tag)
            return &t[i];
    return NULL;
}
