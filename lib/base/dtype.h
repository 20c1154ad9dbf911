/* Storage types of tensors: INFER_TYPE_* of the public header. A row is stored in blocks of `block` elements,
 * `bytes` bytes each. */
#ifndef BASE_DTYPE_H
#define BASE_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

#include "infer/infer.h"

#define DTYPE_COUNT 43     /* GGUF's types are below: all that can be multiplied */
#define DTYPE_OTHER 64     /* those of other formats: from here */
#define DTYPE_END   71     /* all values are below */
#define DTYPE_MAX_BLOCK 256

struct dtype {
    const char *name; /* "Q4_K" */
    uint16_t block;   /* elements */
    uint16_t bytes;   /* of a block */
};

/* NULL for a value that is not a type. Static. */
const struct dtype *dtype_of(int32_t type);
/* Bytes of n elements. False: unknown type, n not a whole number of blocks, or overflow. */
bool dtype_size(int32_t type, uint64_t n, uint64_t *bytes);

#endif
