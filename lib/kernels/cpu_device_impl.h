/* Inside the CPU device: what its files share. */
#ifndef KERNELS_CPU_DEVICE_IMPL_H
#define KERNELS_CPU_DEVICE_IMPL_H

#include <stdatomic.h>
#include <stddef.h>

#include "base/budget.h"
#include "base/pool.h"
#include "kernels/device.h"
#include "kernels/kernels.h"

struct dev_buffer {
    char *data;
    uint64_t bytes;
    void *block; /* what data lies in, if not in this struct's own block or the host's memory */
    bool planned; /* counted, and not there: data is NULL */
};

/* Memory that grows to the largest size asked for and is kept, so that steady decoding allocates nothing. */
struct cpu_scratch {
    void *data;
    size_t bytes;
};

struct cpu_device {
    struct device base;
    struct alloc alloc;
    struct kernels k;
    int32_t numerics;
    struct pool *pool;
    struct budget *plan; /* not NULL: buffers are only counted */
    infer_status failed; /* the first failure since the last sync */
    dev_stop_fn stop;    /* or NULL */
    void *stop_user;
    atomic_bool stopped; /* it said yes since the last sync */
    struct cpu_scratch columns;  /* quantised activations */
    struct cpu_scratch items;    /* attention's work list */
    struct cpu_scratch partials; /* attention states of parts that several threads share */
    struct cpu_scratch workers;  /* [threads][worker_bytes] */
    size_t worker_bytes;
};

static inline struct cpu_device *cpu_of(struct device *d)
{
    return (struct cpu_device *)d;
}

static inline void *cpu_ptr(struct dev_ref r)
{
    return r.buf ? r.buf->data + r.off : NULL;
}

static inline float *cpu_f32(struct dev_ref r)
{
    return (float *)cpu_ptr(r);
}

void cpu_fail(struct cpu_device *d, infer_status s);
/* At least `bytes`, aligned to 64, contents undefined; NULL: the device has failed. */
void *cpu_scratch_get(struct cpu_device *d, struct cpu_scratch *s, uint64_t bytes);
/* Sees to it that each worker has that much scratch. */
bool cpu_workers_need(struct cpu_device *d, uint64_t bytes);
static inline void *cpu_worker(const struct cpu_device *d, uint32_t worker)
{
    return (char *)d->workers.data + worker * d->worker_bytes;
}

/* Asked between pieces of work: whether to leave the rest. Results are of no use then: the device fails when the tasks that run are through. */
static inline bool cpu_stop(struct cpu_device *d)
{
    if (atomic_load_explicit(&d->stopped, memory_order_relaxed))
        return true;
    if (!d->stop || !d->stop(d->stop_user))
        return false;
    atomic_store_explicit(&d->stopped, true, memory_order_relaxed);
    return true;
}

/* Runs the tasks; `work` is about the number of simple float operations of them all: little of it does not wake the pool. */
void cpu_run(struct cpu_device *d, uint64_t n_tasks, uint64_t work, pool_fn fn, void *arg);

/* The operations of cpu_matmul.c, cpu_attention.c and cpu_kv_write.c. */
void cpu_matmul(struct device *d, struct dev_ref src, uint32_t src_stride, uint32_t n_row, const struct dev_matmul *ops,
                uint32_t n_ops);
void cpu_matmul_parts(struct device *d, const struct dev_rows *src, const struct dev_part *parts, uint32_t n_parts);
void cpu_kv_write(struct device *d, const struct dev_kv *kv, struct dev_ref k, uint32_t k_stride, struct dev_ref v,
                  uint32_t v_stride, const struct dev_seq *seqs, uint32_t n_seq);
void cpu_attention(struct device *d, const struct dev_attention *op);
void cpu_kv_move(struct device *d, const struct dev_kv_move *op);

#endif
