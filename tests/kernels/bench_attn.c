/* Speed of attention on the CPU device, beside the machine's own limits measured in the same run. Not a test: run it by hand.
 *     bench_attn [-j THREADS] [-d DEPTH] [-r REPEATS] [-t f16|f32|bf16|int8] [-k KV_HEADS] [-g GROUP] [-e HEAD_DIM] [-l CPU LEVEL]
 * Prefill: 256 rows that end at DEPTH, causal, one layer. Decode: one row at DEPTH, each layer of a model with its own keys and values.
 * Crowd: 16 sequences of 256 positions, one row each. Elapsed time, medians; G fma/s counts what is visible only. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/alloc.h"
#include "base/pool.h"
#include "infer/infer.h"
#include "kernels/cpu.h"
#include "kernels/device.h"

enum { ROWS = 256, LAYERS = 16, MAX_REPEATS = 64, SEQS = 16, SEQ_LENGTH = 256 };

struct bench {
    uint32_t threads, repeats, group;
    uint64_t depth;
    int32_t level;
    struct dev_kv kv;
    uint64_t page_bytes;
    struct device *dev;
    struct dev_ref q, dst, pages_at;
    struct dev_ref *pages;
    uint64_t lo[ROWS], hi[ROWS];
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const struct bench *b, void (*fn)(void *arg), void *arg)
{
    double t[MAX_REPEATS];
    for (uint32_t i = 0; i < b->repeats; i++) {
        t[i] = now();
        fn(arg);
        t[i] = now() - t[i];
    }
    qsort(t, b->repeats, sizeof *t, by_value);
    return t[b->repeats / 2];
}

/* ---- the machine's limits */

static struct pool *pool;
static uint64_t sink[POOL_MAX_THREADS];

#define FMA_STEPS 2000000u
#define UNROLL _Pragma("GCC unroll 12")
#if defined(__x86_64__)
__attribute__((target("avx512f"))) static void fma_512(void *arg, uint32_t worker, uint64_t task)
{
    (void)arg, (void)task;
    __m512 a[12], x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(1e-3f);
    UNROLL
    for (int i = 0; i < 12; i++)
        a[i] = _mm512_set1_ps((float)i);
    for (uint32_t n = 0; n < FMA_STEPS; n++) {
        UNROLL
        for (int i = 0; i < 12; i++) {
            a[i] = _mm512_fmadd_ps(a[i], x, y);
            __asm__("" : "+v"(a[i]));
        }
    }
    UNROLL
    for (int i = 1; i < 12; i++)
        a[0] = _mm512_add_ps(a[0], a[i]);
    sink[worker] += (uint64_t)_mm512_cvtss_f32(a[0]);
}

__attribute__((target("avx2,fma"))) static void fma_256(void *arg, uint32_t worker, uint64_t task)
{
    (void)arg, (void)task;
    __m256 a[12], x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(1e-3f);
    UNROLL
    for (int i = 0; i < 12; i++)
        a[i] = _mm256_set1_ps((float)i);
    for (uint32_t n = 0; n < FMA_STEPS; n++) {
        UNROLL
        for (int i = 0; i < 12; i++) {
            a[i] = _mm256_fmadd_ps(a[i], x, y);
            __asm__("" : "+x"(a[i]));
        }
    }
    UNROLL
    for (int i = 1; i < 12; i++)
        a[0] = _mm256_add_ps(a[0], a[i]);
    sink[worker] += (uint64_t)_mm256_cvtss_f32(a[0]);
}

struct peak {
    pool_fn fn;
    uint32_t threads;
};

static void peak_run(void *arg)
{
    const struct peak *p = arg;
    pool_run(pool, p->threads, p->fn, NULL);
}
#endif

static void print_peak(const struct bench *b, int32_t level)
{
#if defined(__x86_64__)
    bool wide = cpu_level_includes(level, INFER_CPU_AVX512);
    if (!cpu_level_includes(level, INFER_CPU_AVX2))
        return;
    struct peak p = {wide ? fma_512 : fma_256, b->threads};
    double t = median(b, peak_run, &p);
    printf("peak     %.1f G fma/s\n", (double)b->threads * FMA_STEPS * 12 * (wide ? 16 : 8) / t * 1e-9);
#else
    (void)b, (void)level;
#endif
}

struct span {
    const char *data;
    uint64_t bytes, chunk;
    bool wide;
};

static void read_chunk(void *arg, uint32_t worker, uint64_t task)
{
    const struct span *s = arg;
    const char *p = s->data + task * s->chunk;
    uint64_t a[8] = {0}, w[8];
    for (uint64_t i = 0; i < s->chunk; i += 64) {
        memcpy(w, p + i, 64);
        for (int k = 0; k < 8; k++)
            a[k] += w[k];
    }
    for (int k = 0; k < 8; k++)
        sink[worker] += a[k];
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void read_chunk_256(void *arg, uint32_t worker, uint64_t task)
{
    const struct span *s = arg;
    const char *p = s->data + task * s->chunk;
    __m256i a[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    for (uint64_t i = 0; i < s->chunk; i += 128) {
        UNROLL
        for (int k = 0; k < 4; k++)
            a[k] = _mm256_add_epi64(a[k], _mm256_loadu_si256((const __m256i *)(const void *)(p + i) + k));
    }
    a[0] = _mm256_add_epi64(_mm256_add_epi64(a[0], a[1]), _mm256_add_epi64(a[2], a[3]));
    sink[worker] += (uint64_t)_mm256_extract_epi64(a[0], 0);
}
#else
#define read_chunk_256 read_chunk
#endif

static void read_run(void *arg)
{
    const struct span *s = arg;
    pool_run(pool, s->bytes / s->chunk, s->wide ? read_chunk_256 : read_chunk, arg);
}

/* ---- attention */

static struct dev_attention op_of(const struct bench *b, const struct dev_seq *seqs, uint32_t n_seq, uint32_t layer)
{
    uint32_t width = b->kv.n_head_kv * b->group * b->kv.head_dim;
    struct dev_kv kv = b->kv;
    uint64_t each = b->page_bytes / LAYERS;
    kv.k_off = layer * each;
    kv.v_off = kv.k_off + each / 2;
    return (struct dev_attention){.dst = b->dst, .q = b->q, .q_stride = width, .dst_stride = width, .n_head = kv.n_head_kv * b->group,
                                  .scale = 0.125f, .kv = kv, .seqs = seqs, .n_seq = n_seq, .lo = b->lo, .hi = b->hi};
}

static void prefill(void *arg)
{
    struct bench *b = arg;
    struct dev_seq seq = {0, ROWS, b->depth - ROWS, b->pages};
    for (uint32_t r = 0; r < ROWS; r++)
        b->hi[r] = b->depth - ROWS + r + 1;
    struct dev_attention op = op_of(b, &seq, 1, 0);
    b->dev->ops->attention(b->dev, &op);
}

static void decode(void *arg)
{
    struct bench *b = arg;
    struct dev_seq seq = {0, 1, b->depth - 1, b->pages};
    b->hi[0] = b->depth;
    for (uint32_t l = 0; l < LAYERS; l++) {
        struct dev_attention op = op_of(b, &seq, 1, l);
        b->dev->ops->attention(b->dev, &op);
    }
}

static void crowd(void *arg)
{
    struct bench *b = arg;
    struct dev_seq seqs[SEQS];
    uint32_t n = 0;
    for (uint64_t s = 0; s < SEQS && (s + 1) * SEQ_LENGTH <= b->depth; s++, n++) {
        seqs[s] = (struct dev_seq){(uint32_t)s, 1, SEQ_LENGTH - 1, b->pages + s * (SEQ_LENGTH / DEV_KV_PAGE)};
        b->hi[s] = SEQ_LENGTH;
    }
    for (uint32_t l = 0; l < LAYERS; l++) {
        struct dev_attention op = op_of(b, seqs, n, l);
        b->dev->ops->attention(b->dev, &op);
    }
}

static void run(struct bench *b)
{
    double heads = (double)b->kv.n_head_kv * b->group * b->kv.head_dim * 2;
    double seen = (double)ROWS * (double)b->depth - ROWS * (ROWS - 1) / 2.0;
    double t = median(b, prefill, b);
    printf("prefill  %.1f G fma/s, %.2f ms\n", seen * heads / t * 1e-9, t * 1e3);
    t = median(b, decode, b);
    printf("decode   %.1f GB/s, %.1f G fma/s, %.3f ms\n", (double)b->depth / DEV_KV_PAGE * (double)b->page_bytes / t * 1e-9,
           (double)b->depth * heads * LAYERS / t * 1e-9, t * 1e3);
    t = median(b, crowd, b);
    printf("crowd    %.1f GB/s, %.3f ms\n", SEQS * SEQ_LENGTH / DEV_KV_PAGE * (double)b->page_bytes / t * 1e-9, t * 1e3);
}

static struct dev_ref memory(const struct bench *b, uint64_t bytes)
{
    struct dev_ref r = {0};
    if (b->dev->ops->alloc(b->dev, bytes, &r.buf, NULL))
        exit(1);
    return r;
}

/* Keys, values and queries of an ordinary size. */
static void fill(struct bench *b)
{
    uint32_t width = b->kv.n_head_kv * b->group * b->kv.head_dim, kv_width = b->kv.n_head_kv * b->kv.head_dim, x = 1;
    float *f = malloc((size_t)ROWS * width * sizeof *f);
    for (size_t i = 0; i < (size_t)ROWS * width; i++) {
        x = x * 1664525u + 1013904223u;
        f[i] = (float)(int32_t)x * 0x1p-30f;
    }
    b->q = memory(b, (uint64_t)ROWS * width * 4);
    b->dst = memory(b, (uint64_t)ROWS * width * 4);
    b->dev->ops->write(b->dev, b->q, f, (uint64_t)ROWS * width * 4);
    for (uint64_t at = 0; at < b->depth; at += ROWS)
        for (uint32_t l = 0; l < LAYERS; l++) {
            struct dev_seq seq = {0, ROWS, at, b->pages};
            struct dev_kv kv = op_of(b, &seq, 1, l).kv;
            b->dev->ops->kv_write(b->dev, &kv, b->q, kv_width, dev_at(b->q, 256), kv_width, &seq, 1);
        }
    free(f);
}

int main(int argc, char **argv)
{
    struct bench b = {.threads = 2, .repeats = 5, .group = 4, .depth = 8192, .level = INFER_CPU_AUTO,
                      .kv = {INFER_KV_F16, 8, 64, 0, 0}};
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *v = argv[i + 1];
        uint32_t n = (uint32_t)strtoul(v, NULL, 0);
        switch (argv[i][1]) {
        case 'j': b.threads = n; break;
        case 'd': b.depth = n / ROWS * ROWS; break;
        case 'r': b.repeats = n < MAX_REPEATS ? n : MAX_REPEATS; break;
        case 'k': b.kv.n_head_kv = n; break;
        case 'g': b.group = n; break;
        case 'e': b.kv.head_dim = n; break;
        case 'l': b.level = (int32_t)n; break;
        case 't': b.kv.type = !strcmp(v, "f32") ? INFER_KV_F32 : !strcmp(v, "bf16") ? INFER_KV_BF16 : !strcmp(v, "int8") ? INFER_KV_INT8 : INFER_KV_F16; break;
        default: return 2;
        }
    }
    struct cpu_device_options o = {.cpu = b.level, .numerics = INFER_NUMERICS_EXACT, .threads = b.threads};
    if (cpu_device_create(&alloc_default, &o, &b.dev, NULL) || pool_create(&alloc_default, b.threads, &pool, NULL))
        return 1;
    uint64_t n_pages = b.depth / DEV_KV_PAGE;
    b.page_bytes = 2ull * LAYERS * b.kv.n_head_kv * dev_kv_head_bytes(b.kv.type, b.kv.head_dim);
    b.pages = malloc(n_pages * sizeof *b.pages);
    struct dev_ref slab = {0}; /* 16 pages in one, as kv_page.c gives them out */
    for (uint64_t p = 0; p < n_pages; p++) {
        if (p % 16 == 0)
            slab = memory(&b, 16 * b.page_bytes);
        b.pages[p] = dev_at(slab, p % 16 * b.page_bytes);
    }
    fill(&b);
    print_peak(&b, cpu_device_level(b.dev));
    uint64_t bytes = (b.page_bytes * n_pages) >> 16 << 16;
    struct span s = {malloc(bytes), bytes, 1 << 16, cpu_level_supported(INFER_CPU_AVX2)};
    memset((char *)(uintptr_t)s.data, 1, bytes);
    printf("read     %.1f GB/s\n", (double)bytes / median(&b, read_run, &s) * 1e-9);
    run(&b);
    infer_status st = b.dev->ops->sync(b.dev, NULL);
    pool_destroy(pool);
    for (uint64_t p = 0; p < n_pages; p += 16)
        b.dev->ops->free(b.dev, b.pages[p].buf);
    b.dev->ops->free(b.dev, b.q.buf);
    b.dev->ops->free(b.dev, b.dst.buf);
    b.dev->ops->destroy(b.dev);
    free((char *)(uintptr_t)s.data), free(b.pages);
    return st ? 1 : 0;
}
