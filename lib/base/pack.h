/* Compression of single blocks by zstd, with the library's allocator. A build without zstd has the same calls, which answer UNSUPPORTED. */
#ifndef BASE_PACK_H
#define BASE_PACK_H

#include <stdbool.h>

#include "base/alloc.h"
#include "base/err.h"

#define PACK_MAX_LEVEL 19

struct packer; /* for one thread */

bool pack_available(void);
/* level: 1 to PACK_MAX_LEVEL; 0: for pack_expand only. */
infer_status pack_create(const struct alloc *alloc, int level, struct packer **out, infer_error *err);
void pack_free(struct packer *p); /* may be NULL */
/* Most bytes that n bytes may need; 0: n is beyond all limits. */
size_t pack_bound(size_t n);
infer_status pack_block(struct packer *p, void *dst, size_t cap, const void *src, size_t n, size_t *out, infer_error *err);
/* Exactly n bytes come out, or FORMAT. */
infer_status pack_expand(struct packer *p, void *dst, size_t n, const void *src, size_t packed, infer_error *err);

#endif
