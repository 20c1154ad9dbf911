/* The dispatch table: every kernel of the CPU device, for one CPU level. */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include "kernels/attn.h"
#include "kernels/mm.h"
#include "kernels/vec.h"

struct kernels {
    int32_t level; /* INFER_CPU_*, never AUTO */
    struct mm_kernels mm;
    struct vec_kernels vec;
    struct attn_kernels attn;
};

/* level: INFER_CPU_*; AUTO: the best one here. ARGUMENT: not a level. UNSUPPORTED: the machine or the build lacks it. */
infer_status kernels_init(struct kernels *k, int32_t level, infer_error *err);

#endif
