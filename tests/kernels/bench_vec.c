/* Times of every float kernel at every CPU level of this machine: `meson test --benchmark`, or run it by hand. CPU time of the best of
 * several runs: other load on the machine disturbs it less than elapsed time. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "infer/infer.h"
#include "kernels/cpu.h"
#include "kernels/vec.h"

enum { N = 2048, N_OUT = 512, N_COL = 64 };

static float a[N * N_COL], b[N], c[N], y[N_OUT * N_COL > N ? N_OUT * N_COL : N];
static uint16_t half[N];
static float turn[N];
static _Alignas(64) char scratch[FMM_SCRATCH_BYTES];
static float weights[N_OUT * N];

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void run_vec_rms_norm_fn(vec_rms_norm_fn *f) { f(y, a, b, N, 1e-5f); }
static void run_vec_layer_norm_fn(vec_layer_norm_fn *f) { f(y, a, b, c, N, 1e-5f); }
static void run_vec_rope_table_fn(vec_rope_table_fn *f) { f(y, b, N / 2, 1000, 1.0f); }
static void run_vec_rope_fn(vec_rope_fn *f) { f(y, turn, N); }
static void run_vec_act_fn(vec_act_fn *f) { f(y, a, b, N); }
static void run_vec_add_fn(vec_add_fn *f) { f(y, a, N); }
static void run_vec_scale_fn(vec_scale_fn *f) { f(y, N, 1.0f); }
static void run_vec_softcap_fn(vec_softcap_fn *f) { f(y, N, 30.0f); }
static void run_vec_max_fn(vec_max_fn *f) { y[0] = f(a, N); }
static void run_vec_narrow_fn(vec_narrow_fn *f) { f(half, a, N); }
static void run_vec_widen_fn(vec_widen_fn *f) { f(y, half, N); }

static void run_vec_matmul_fn(vec_matmul_fn *f)
{
    struct fmm_args m = {weights, N * 2, N, 0, N_OUT, N_COL, a, N, y, N_OUT, scratch};
    f(&m); /* rows of 2 bytes an input; F32 rows overlap, which serves here */
}

/* Elements, or multiply-adds, of one run. */
static double work_of(const char *name)
{
    return name[0] == 'm' && name[1] == 'a' && name[2] == 't' ? (double)N * N_OUT * N_COL : N;
}

#define RUN(name, type)                                                                                                \
    static void run_##name(const struct vec_kernels *k) { run_##type(k->name); }
VEC_SLOTS(RUN)

static const struct {
    const char *name;
    void (*run)(const struct vec_kernels *k);
} slots[] = {
#define ROW(name, type) {#name, run_##name},
    VEC_SLOTS(ROW)
};

static const int32_t levels[] = {
#define LEVEL(id, name) id,
    CPU_LEVELS(LEVEL)
};

static double best_time(void (*run)(const struct vec_kernels *k), const struct vec_kernels *k)
{
    double best = 1e9, start = cpu_seconds();
    do {
        double t = cpu_seconds();
        run(k);
        t = cpu_seconds() - t;
        best = t < best ? t : best;
    } while (cpu_seconds() - start < 0.05);
    return best;
}

int main(void)
{
    for (int i = 0; i < N * N_COL; i++)
        a[i] = (float)(i % 37) * 0.125f - 2.0f;
    for (int i = 0; i < N; i++) {
        b[i] = 1.0f / (float)(i + 1);
        c[i] = 0.5f;
    }
    vec_rope_table_scalar(turn, b, N / 2, 1000, 1.0f);
    for (size_t s = 0; s < sizeof slots / sizeof *slots; s++) {
        printf("%-12s", slots[s].name);
        for (size_t l = 0; l < sizeof levels / sizeof *levels; l++) {
            struct vec_kernels k;
            if (!cpu_level_supported(levels[l]) || vec_kernels_init(&k, levels[l], NULL))
                continue;
            printf("  %s %.4f", cpu_level_name(levels[l]), best_time(slots[s].run, &k) / work_of(slots[s].name) * 1e9);
        }
        printf("  ns\n");
    }
    return 0;
}
