/* How much scratch a CPU device comes to need for what it will be asked: upper bounds, from sizes alone. */
#ifndef KERNELS_CPU_USE_H
#define KERNELS_CPU_USE_H

#include "kernels/device.h"

struct cpu_use {
    uint32_t threads;
    int32_t numerics;
    uint64_t columns, items, partials, worker; /* the most that any operation needs; worker: each */
};

/* A product with a matrix of this INFER_TYPE_*, of at most n_row rows in all. */
void cpu_use_matmul(struct cpu_use *u, int32_t type, uint32_t n_in, uint64_t n_row);
/* Attention of at most n_row rows, of at most n_seq sequences, that see at most n_seen elements each. */
void cpu_use_attention(struct cpu_use *u, const struct dev_kv *kv, uint32_t n_head, uint64_t n_seq, uint64_t n_row, uint64_t n_seen);
/* Bytes that an allocator is asked for, the device's first scratch not included. */
uint64_t cpu_use_bytes(const struct cpu_use *u);
/* The same of a buffer: what it takes beyond its own bytes. */
#define CPU_BUFFER_EXTRA 128u

#endif
