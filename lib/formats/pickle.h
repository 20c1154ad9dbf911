/* The part of Python's pickle format (protocols 2 to 5) that files of tensors need, as data: no code is ever run, nothing is imported. An
 * opcode or global outside the lists in pickle.c is refused by its name. Format: Lib/pickletools.py of CPython. */
#ifndef FORMATS_PICKLE_H
#define FORMATS_PICKLE_H

#include "base/arena.h"
#include "base/cancel.h"
#include "formats/file.h"

#define PICKLE_MAX_STACK 65536u /* values on the stack at once */
#define PICKLE_MAX_MEMO ((uint32_t)1 << 22)

enum pickle_type {
    PICKLE_NONE,
    PICKLE_BOOL,    /* integer 0 or 1 */
    PICKLE_INT,
    PICKLE_FLOAT,   /* its value is of no use here */
    PICKLE_STRING,  /* text or bytes */
    PICKLE_TUPLE,
    PICKLE_LIST,
    PICKLE_DICT,    /* items: key, value, key, value... in the order of insertion */
    PICKLE_GLOBAL,  /* global */
    PICKLE_STORAGE, /* items: type, key, numel, from a persistent id */
    PICKLE_TENSOR   /* items: storage, offset, sizes, strides; type: what its numbers are, or -1: the storage's */
};

enum pickle_global {
    GLOBAL_ORDERED_DICT,
    GLOBAL_REBUILD_TENSOR,    /* _rebuild_tensor_v2 */
    GLOBAL_REBUILD_TENSOR_V3,
    GLOBAL_REBUILD_PARAMETER,
    GLOBAL_SIZE,              /* torch.Size: a tuple */
    GLOBAL_STORAGE,           /* type: INFER_TYPE_*, or -1: untyped bytes */
    GLOBAL_DTYPE              /* type */
};

struct pickle_value {
    enum pickle_type type;
    int32_t global; /* enum pickle_global */
    int32_t dtype;  /* INFER_TYPE_* of a global or tensor; -1: none */
    uint32_t n, cap; /* items */
    int64_t integer;
    struct file_str text;
    struct pickle_value **items;
};

/* The value that data holds; everything is in the arena, whose limit bounds memory, and data (texts point into it). Errors carry the
 * offset in data: FORMAT, TRUNCATED, UNSUPPORTED (by name), LIMIT, NO_MEMORY, CANCELLED. */
infer_status pickle_read(struct arena *ar, const void *data, uint64_t size, const infer_cancel *cancel, struct pickle_value **out,
                         infer_error *err);

#endif
