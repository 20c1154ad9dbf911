/* The variants of the matrix product: one list, which expands to prototypes, table entries, parity tests and bench rows. */
#ifndef KERNELS_MM_LIST_H
#define KERNELS_MM_LIST_H

#include "kernels/kernels_config.h"
#include "kernels/mm.h"

#define MM_PROTOTYPE_DOT(id, name, form, zero, max) void mm_dot_##name##_scalar(const struct mm_dot *a);
MM_CLASSES(MM_PROTOTYPE_DOT)
#undef MM_PROTOTYPE_DOT
#define MM_PROTOTYPE_DECODE(id, name, class)                                                                           \
    void mm_decode_##name##_scalar(const uint8_t *w, uint64_t row_bytes, uint32_t n_block, struct mm_tile *t);
MM_TYPES(MM_PROTOTYPE_DECODE)
#undef MM_PROTOTYPE_DECODE
void mm_quantise_scalar(const float *x, uint32_t n, struct mm_xblock *out);

#endif
