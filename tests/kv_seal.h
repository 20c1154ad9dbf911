/* Forging files of computed state: damage with good checksums. */
#ifndef KV_SEAL_H
#define KV_SEAL_H

#include "kv/kv_file.h"

/* Makes the checksums of sections, table and header fit again. */
void kv_seal(uint8_t *data, size_t n);
/* The table's entry; NULL: there is none. */
struct kv_section *kv_seal_find(uint8_t *data, size_t n, uint32_t kind, uint64_t tag);

#endif
