/* --kernels: the speed of every operation of the CPU device in every variant that runs here. */
#ifndef BENCH_KERNEL_SPEED_H
#define BENCH_KERNEL_SPEED_H

#include "bench.h"

/* An exit code. */
int kernel_speed(const struct options *o);

#endif
