/* The cancel flag: set by any thread or a signal handler, polled by long loops. */
#ifndef BASE_CANCEL_H
#define BASE_CANCEL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/ref.h"
#include "infer/infer.h"

struct infer_cancel {
    struct ref ref;
    atomic_int flag;
};

static inline bool cancel_is_set(const infer_cancel *c)
{
    return c && atomic_load_explicit(&((struct infer_cancel *)(uintptr_t)c)->flag, memory_order_relaxed) != 0;
}

#endif
