/* A pool of threads that run the tasks of one job at a time. The caller works too; idle threads spin briefly, then park. With a host's
 * executor the pool has no threads of its own: each run hands the executor as many workers as there is concurrency, and they share out
 * the tasks between them. */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/alloc.h"
#include "base/err.h"

struct pool;

/* Runs one task; worker is 0 .. threads - 1 and names the scratch that the task may use. */
typedef void (*pool_fn)(void *arg, uint32_t worker, uint64_t task);

#define POOL_MAX_THREADS 256u

/* Physical cores that this process may use (affinity mask, cgroup quota), at least 1. */
uint32_t pool_default_threads(void);

/* threads: 1 .. POOL_MAX_THREADS, the caller included. Threads start at the first run with more than one task and again after fork(). */
infer_status pool_create(const struct alloc *alloc, uint32_t threads, struct pool **out, infer_error *err);
/* Without threads of its own; executor is copied. */
infer_status pool_create_on_host(const struct alloc *alloc, const infer_executor *executor, struct pool **out, infer_error *err);
uint32_t pool_threads(const struct pool *p); /* workers that a run may have */
/* Starts the threads if they do not run in this process yet. THREAD: none could be started; fewer than asked is no error. */
infer_status pool_start(struct pool *p, infer_error *err);
/* Runs tasks 0 .. n_tasks - 1, claimed dynamically, and returns when all are done. Results must not depend on which worker ran what. One run at a
 * time: the engine's lock sees to it. Every worker computes under the floating-point guard.
 * HOST: the executor failed or broke its contract. THREAD, NO_MEMORY: those of pool_start. All tasks have been run nevertheless. */
infer_status pool_run(struct pool *p, uint64_t n_tasks, pool_fn fn, void *arg);
void pool_destroy(struct pool *p); /* may be NULL */

#endif
