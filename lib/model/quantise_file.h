/* Quantising the matrices of an opened file in memory, for big models in F32, F16 or BF16. */
#ifndef MODEL_QUANTISE_FILE_H
#define MODEL_QUANTISE_FILE_H

#include "base/pool.h"
#include "formats/file.h"

#define QUANTISE_TASK ((uint64_t)65536) /* elements of one task: what a cancel flag waits for */

/* How tasks are run: as pool_run, but all of them or failing. Called once for each tensor. */
struct quantise_run {
    infer_status (*run)(void *arg, uint64_t n_tasks, pool_fn fn, void *job, infer_error *err);
    void *arg;
};

/* Every matrix of a layer (names "blk.*.weight", experts too) and the token embeddings become `type`, one of kernels/quantise.h, where they are
 * F32, F16 or BF16. The output matrix (the embeddings where there is none) takes Q6_K unless the type is Q8_0. Rows that are not whole
 * blocks of a type take Q8_0, or stay. Stay as well: vectors, routers of experts, position and type embeddings, and what is quantised
 * already. The new bytes are one more part of the file, so a file's map is not read again.
 * Errors: VALUE names a tensor with values that are not finite or too large; NO_MEMORY, those of run: the file is only to be released.
 * run NULL: for an estimate. Nothing is computed; the new bytes are counted in plan, and not there. */
infer_status quantise_file(struct infer_file *f, int32_t type, const struct quantise_run *run, struct budget *plan, infer_error *err);

#endif
