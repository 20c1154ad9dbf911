/* Speed of the quantised matrix product, per format, columns, CPU level and threads, beside the machine's own limits measured in the same
 * run: a read-only loop over the same bytes, and the dot instruction alone. Not a test: run it by hand.
 *     bench_mm [-t TYPE] [-l LEVEL] [-c COLUMNS] [-j THREADS] [-m MIB of weights for one column] [-r REPEATS]
 * Prints the median of the repeats. G/s: 10^9 multiply-adds a second; GB/s: bytes of weights. */
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "mm_data.h"

/* Processor time of the calling thread: on a busy machine the only time that means anything. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct job {
    struct mm_kernels k;
    struct mm_args a;
    uint32_t n_out, threads;
    uint32_t next; /* row, claimed atomically */
    void *scratch[8];
    const uint8_t *bytes;
    size_t n_bytes;
    uint64_t sink;
    void (*work)(struct job *, uint32_t worker);
};

static void rows_work(struct job *j, uint32_t worker)
{
    const uint32_t step = j->a.n_col == 1 ? 128 : 64;
    struct mm_args a = j->a;
    a.scratch = j->scratch[worker];
    for (;;) {
        a.row0 = __atomic_fetch_add(&j->next, step, __ATOMIC_RELAXED);
        if (a.row0 >= j->n_out)
            return;
        a.row1 = a.row0 + step < j->n_out ? a.row0 + step : j->n_out;
        mm_rows(&j->k, &a);
    }
}

static uint64_t sum_plain(const uint8_t *p, size_t n)
{
    uint64_t s[8] = {0};
    for (size_t i = 0; i + 64 <= n; i += 64)
        for (int k = 0; k < 8; k++) {
            uint64_t v;
            memcpy(&v, p + i + 8 * k, 8);
            s[k] += v;
        }
    return s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
}

static uint64_t (*sum_bytes)(const uint8_t *p, size_t n) = sum_plain;
static double (*dot_peak)(uint64_t iterations); /* multiply-adds done */

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512bw"))) static uint64_t sum_avx512(const uint8_t *p, size_t n)
{
    __m512i s[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
    for (size_t i = 0; i + 256 <= n; i += 256)
        for (int k = 0; k < 4; k++) {
            _mm_prefetch((const char *)p + i + 4096 + 64 * k, _MM_HINT_T0);
            s[k] = _mm512_add_epi64(s[k], _mm512_loadu_si512(p + i + 64 * k));
        }
    return (uint64_t)_mm512_reduce_add_epi64(_mm512_add_epi64(_mm512_add_epi64(s[0], s[1]), _mm512_add_epi64(s[2], s[3])));
}

__attribute__((target("avx512f,avx512vnni"))) static double peak_avx512vnni(uint64_t iterations)
{
    __m512i a[16], x = _mm512_set1_epi8(3), y = _mm512_set1_epi8(5);
    for (int k = 0; k < 16; k++)
        a[k] = _mm512_set1_epi32(k);
    for (uint64_t i = 0; i < iterations; i++) {
#pragma GCC unroll 16
        for (int k = 0; k < 16; k++)
            a[k] = _mm512_dpbusd_epi32(a[k], x, y);
        __asm__ __volatile__("" : "+v"(x), "+v"(y));
    }
    for (int k = 0; k < 16; k++)
        __asm__ __volatile__("" : "+v"(a[k]));
    return (double)iterations * 16 * 64;
}
#endif

static double peak_macs[8];

static void read_work(struct job *j, uint32_t worker)
{
    size_t part = j->n_bytes / j->threads & ~(size_t)4095;
    uint64_t s = sum_bytes(j->bytes + worker * part, part);
    __atomic_fetch_add(&j->sink, s, __ATOMIC_RELAXED);
}

static void peak_work(struct job *j, uint32_t worker)
{
    (void)j;
    peak_macs[worker] = dot_peak(4000000);
}

struct worker {
    struct job *j;
    uint32_t id;
    double seconds;
};

static void *thread_main(void *arg)
{
    struct worker *w = arg;
    double t0 = now();
    w->j->work(w->j, w->id);
    w->seconds = now() - t0;
    return NULL;
}

/* Seconds of one run: the busiest thread's. */
static double run(struct job *j, void (*work)(struct job *, uint32_t))
{
    pthread_t t[8];
    struct worker w[8];
    j->work = work;
    j->next = 0;
    for (uint32_t i = 1; i < j->threads; i++) {
        w[i] = (struct worker){j, i, 0};
        pthread_create(&t[i], NULL, thread_main, &w[i]);
    }
    double t0 = now();
    work(j, 0);
    double longest = now() - t0;
    for (uint32_t i = 1; i < j->threads; i++) {
        pthread_join(t[i], NULL);
        longest = w[i].seconds > longest ? w[i].seconds : longest;
    }
    return longest;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[n / 2];
}

static void *big(size_t n)
{
    void *p = NULL;
    if (posix_memalign(&p, 4096, n + 8192) != 0)
        exit(1);
    return p;
}

/* One block's worth of data repeated: filling hundreds of megabytes with random numbers takes long. */
static void fill_weights(const struct mm_data_type *t, uint8_t *w, size_t rows, size_t row_bytes, uint32_t n_in)
{
    uint64_t seed = 9;
    size_t some = rows < 64 ? rows : 64;
    mm_data_weights(t, w, some * n_in / dtype_of(t->type)->block, -1, SCALES_USUAL, &seed);
    for (size_t r = some; r < rows; r++)
        memcpy(w + r * row_bytes, w + (r % some) * row_bytes, row_bytes);
}

struct options {
    const char *type, *level;
    uint32_t columns, threads, mib;
    int repeats;
};

static void bench(const struct options *o, const struct mm_data_type *t, int32_t level, uint32_t n_col, uint32_t threads)
{
    struct job j = {.threads = threads};
    infer_error err = {.size = sizeof err};
    uint32_t n_in = 2048;
    uint64_t row_bytes = 0;
    if (mm_kernels_init(&j.k, level, &err) != INFER_OK || !dtype_size(t->type, n_in, &row_bytes))
        exit(1);
    size_t rows = n_col < 8 ? ((size_t)o->mib << 20) / row_bytes / 64 * 64 : 2048;
    uint8_t *w = big(rows * row_bytes);
    fill_weights(t, w, rows, row_bytes, n_in);
    float *x = big(sizeof *x * n_in * n_col), *y = big(sizeof *y * rows * n_col);
    uint64_t seed = 11;
    mm_data_inputs(x, (size_t)n_in * n_col, INPUTS_USUAL, &seed);
    uint8_t *q = big(mm_columns_bytes(n_in, n_col));
    for (uint32_t c = 0; c < n_col; c++)
        mm_quantise(&j.k, x + (size_t)c * n_in, n_in, q, c, n_col);
    for (uint32_t i = 0; i < threads; i++)
        j.scratch[i] = big(MM_SCRATCH_BYTES);
    j.n_out = (uint32_t)rows;
    j.bytes = w;
    j.n_bytes = rows * row_bytes;
    j.a = (struct mm_args){.type = t->type, .w = w, .row_bytes = row_bytes, .n_in = n_in, .x = q, .x_cols = n_col, .n_col = n_col,
                           .y = y, .y_stride = rows};
    double macs = (double)rows * n_in * n_col, ts[64], limit[64];
    (void)run(&j, rows_work);
    int inner = macs < 2e8 ? (int)(2e8 / macs) + 1 : 1;
    for (int r = 0; r < o->repeats; r++) {
        if (n_col < 8)
            limit[r] = (double)j.n_bytes / run(&j, read_work);
        else if (dot_peak) {
            double s = run(&j, peak_work);
            limit[r] = peak_macs[0] * threads / s;
        } else
            limit[r] = 0;
        double s = 0;
        for (int i = 0; i < inner; i++)
            s += run(&j, rows_work);
        ts[r] = s / inner;
    }
    double s = median(ts, o->repeats), l = median(limit, o->repeats);
    printf("%-8s %-11s columns %4u threads %u: %7.1f G/s %6.2f GB/s", t->name, cpu_level_name(level), n_col, threads,
           macs / s * 1e-9, (double)j.n_bytes / s * 1e-9);
    if (n_col < 8)
        printf("   read limit %6.2f GB/s: %3.0f%%\n", l * 1e-9, 100 * (double)j.n_bytes / s / l);
    else
        printf("   int8 peak %6.1f G/s: %3.0f%%\n", l * 1e-9, l > 0 ? 100 * macs / s / l : 0.0);
    fflush(stdout);
    for (uint32_t i = 0; i < threads; i++)
        free(j.scratch[i]);
    free(w);
    free(x);
    free(y);
    free(q);
}

int main(int argc, char **argv)
{
    struct options o = {.mib = 192, .repeats = 5};
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *v = argv[i + 1];
        switch (argv[i][0] == '-' ? argv[i][1] : 0) {
        case 't': o.type = v; break;
        case 'l': o.level = v; break;
        case 'c': o.columns = (uint32_t)atoi(v); break;
        case 'j': o.threads = (uint32_t)atoi(v); break;
        case 'm': o.mib = (uint32_t)atoi(v); break;
        case 'r': o.repeats = atoi(v) < 1 ? 1 : atoi(v) > 64 ? 64 : atoi(v); break;
        default: fprintf(stderr, "unknown option %s\n", argv[i]); return 1;
        }
    }
#if defined(__x86_64__)
    if (cpu_level_supported(INFER_CPU_AVX512))
        sum_bytes = sum_avx512;
    if (cpu_level_supported(INFER_CPU_AVX512VNNI))
        dot_peak = peak_avx512vnni;
#endif
    static const int32_t levels[] = {
#define LEVEL(level, name) level,
        CPU_LEVELS(LEVEL)};
    static const uint32_t columns[] = {1, 8, 64, 512};
    for (size_t l = sizeof levels / sizeof *levels; l-- > 0;) {
        if (!cpu_level_supported(levels[l]) || (o.level && strcmp(o.level, cpu_level_name(levels[l])) != 0))
            continue;
        for (size_t t = 0; t < MM_DATA_TYPES; t++) {
            if (o.type && strcmp(o.type, mm_data_types[t].name) != 0)
                continue;
            for (size_t c = 0; c < (o.columns ? 1 : 4); c++)
                for (uint32_t j = 1; j <= 2; j++)
                    if (!o.threads || o.threads == j)
                        bench(&o, &mm_data_types[t], levels[l], o.columns ? o.columns : columns[c], j);
        }
    }
    return 0;
}
