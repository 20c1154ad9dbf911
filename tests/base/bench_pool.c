/* What one run of the pool costs, by hand: build-dir/tests/base/bench_pool [threads]
 * Back to back, and with the gaps that serial work between two operations leaves. */
#define _POSIX_C_SOURCE 200809L
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/pool.h"

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void wait_for(double seconds)
{
    double until = now() + seconds;
    while (now() < until)
        ;
}

static double task_seconds;

static void task(void *arg, uint32_t worker, uint64_t i)
{
    (void)i;
    atomic_fetch_add_explicit(&((atomic_uint *)arg)[worker * 16], 1, memory_order_relaxed);
    if (task_seconds > 0)
        wait_for(task_seconds);
}

static void measure(struct pool *p, uint64_t n_tasks, double gap, double length, int runs)
{
    static atomic_uint counts[POOL_MAX_THREADS * 16];
    uint32_t threads = pool_threads(p);
    for (uint32_t i = 0; i < threads; i++)
        atomic_store(&counts[i * 16], 0);
    task_seconds = length;
    double sum = 0, worst = 0;
    for (int i = 0; i < runs; i++) {
        wait_for(gap);
        double from = now();
        pool_run(p, n_tasks, task, counts);
        double t = now() - from;
        sum += t;
        worst = t > worst ? t : worst;
    }
    printf("%5llu tasks of %5.1f us, gap %7.1f us: %7.2f us a run, worst %8.1f; caller ran %4.1f %%\n", (unsigned long long)n_tasks,
           length * 1e6, gap * 1e6, sum / runs * 1e6, worst * 1e6,
           100.0 * atomic_load(&counts[0]) / ((double)runs * (double)n_tasks));
}

int main(int argc, char **argv)
{
    struct pool *p;
    uint32_t threads = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 2;
    if (pool_create(&alloc_default, threads, &p, NULL) != INFER_OK)
        return 1;
    static const double gaps[] = {0, 2e-6, 10e-6, 40e-6, 100e-6, 1e-3};
    for (size_t g = 0; g < sizeof gaps / sizeof *gaps; g++) {
        int runs = gaps[g] > 5e-4 ? 500 : 5000;
        measure(p, threads, gaps[g], 0, runs);
        measure(p, 16, gaps[g], 1e-6, runs);
        measure(p, 16, gaps[g], 10e-6, runs);
    }
    pool_destroy(p);
    return 0;
}
