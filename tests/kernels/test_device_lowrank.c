/* Addends, rows and scales of products, and steering: to the bit what the plain operations give, for every CPU level, number of threads and type. */
#include "testutil.h"

#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/half.h"
#include "kernels/device.h"
#include "kernels/fma.h"
#include "recording_device.h"

enum { IN = 96, OUT = 70, RANK = 5, WIDE = 70, ROWS = 40 };

static const int32_t levels[] = {INFER_CPU_SCALAR, INFER_CPU_AVX2, INFER_CPU_AVXVNNI, INFER_CPU_AVX512, INFER_CPU_AVX512VNNI, INFER_CPU_NEON,
                                 INFER_CPU_DOTPROD, INFER_CPU_I8MM};

/* Every level of this machine, NULL: not here. The recording device checks what is asked. */
static struct device *make(int32_t cpu, int32_t numerics, uint32_t threads)
{
    struct device *d = NULL;
    infer_error err;
    struct cpu_device_options o = {cpu, numerics, threads, NULL, NULL};
    if (cpu_device_create(&alloc_default, &o, &d, &err) != INFER_OK)
        return NULL;
    struct device *r = recording_device_create(d);
    assert_non_null(r);
    return r;
}

static struct dev_ref upload(struct device *d, const void *p, uint64_t bytes)
{
    struct dev_ref r = {NULL, 0};
    assert_int_equal(d->ops->alloc(d, bytes, &r.buf, NULL), INFER_OK);
    d->ops->write(d, r, p, bytes);
    return r;
}

static float *randoms(uint64_t *seed, size_t n)
{
    float *p = malloc(n * sizeof *p);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        p[i] = test_rand_f32(seed);
    return p;
}

/* A random matrix of a type, in place. */
static void *weights(uint64_t *seed, int32_t type, uint32_t n_out, uint32_t n_in, struct device *d, struct dev_weight *w)
{
    uint64_t row;
    assert_true(dtype_size(type, n_in, &row));
    uint8_t *p = malloc(n_out * row);
    for (uint64_t i = 0; i < n_out * row; i++)
        p[i] = (uint8_t)test_rand(seed);
    if (type == INFER_TYPE_F32)
        for (uint64_t i = 0; i < (uint64_t)n_out * n_in; i++)
            ((float *)(void *)p)[i] = test_rand_f32(seed);
    if (type == INFER_TYPE_F16 || type == INFER_TYPE_BF16)
        for (uint64_t i = 0; i < (uint64_t)n_out * n_in; i++)
            ((uint16_t *)(void *)p)[i] = (uint16_t)((test_rand(seed) & 0x83FF) | (type == INFER_TYPE_F16 ? 0x3800 : 0x3F00));
    if (type == INFER_TYPE_Q8_0)
        for (uint64_t b = 0; b < n_out * row; b += 34)
            p[b] = 0, p[b + 1] = 0x24; /* a scale of 0.0156 */
    *w = (struct dev_weight){.type = type, .n_in = n_in, .n_out = n_out, .row_bytes = row};
    assert_int_equal(d->ops->import(d, p, n_out * row, &w->data.buf, NULL), INFER_OK);
    return p;
}

/* Rows [0, 9) have one addend, [4, 30) another; rows [12, 20) alone of a second product are made and scaled. */
struct made {
    float y[ROWS * OUT], part[ROWS * RANK];
};

static void run(struct device *d, int32_t base, uint32_t n_row, struct made *got, struct made *want)
{
    uint64_t seed = 5;
    struct dev_weight w, a, b, b2;
    void *held[] = {weights(&seed, base, OUT, IN, d, &w), weights(&seed, INFER_TYPE_F16, RANK, IN, d, &a),
                    weights(&seed, INFER_TYPE_F16, OUT, RANK, d, &b), weights(&seed, INFER_TYPE_F32, OUT, WIDE, d, &b2)};
    float *x = randoms(&seed, ROWS * IN), *t2 = randoms(&seed, ROWS * WIDE), *zero = calloc(ROWS * OUT, 4);
    struct dev_ref src = upload(d, x, ROWS * IN * 4), wide = upload(d, t2, ROWS * WIDE * 4), t = upload(d, zero, ROWS * RANK * 4),
                   y = upload(d, zero, ROWS * OUT * 4);
    uint32_t first = n_row < 9 ? n_row : 9, second = n_row < 30 ? (n_row > 4 ? n_row - 4 : 0) : 26;
    /* as one does it: t = 0.5 A x of some rows, then all at once */
    uint32_t from = n_row > 12 ? 12 : 0, some = n_row - from < 8 ? n_row - from : 8;
    d->ops->matmul(d, src, IN, n_row, &(struct dev_matmul){.w = a, .dst = t, .dst_stride = RANK, .scale = 0.5f, .row = from, .n_row = some}, 1);
    d->ops->read(d, got->part, t, n_row * RANK * 4);
    d->ops->matmul(d, src, IN, n_row, &(struct dev_matmul){.w = a, .dst = t, .dst_stride = RANK}, 1);
    struct dev_addend add[] = {{b, t, RANK, 0, first}, {b2, wide, WIDE, n_row > 4 ? 4 : 0, second}};
    d->ops->matmul(d, src, IN, n_row, &(struct dev_matmul){.w = w, .dst = y, .dst_stride = OUT, .n_addends = second ? 2 : 1, .addends = add}, 1);
    d->ops->read(d, got->y, y, n_row * OUT * 4);
    /* and by hand */
    float *tt = calloc(ROWS * RANK, 4);
    d->ops->read(d, tt, t, n_row * RANK * 4);
    memset(want->part, 0, sizeof want->part);
    for (uint32_t i = from * RANK; i < (from + some) * RANK; i++)
        want->part[i] = tt[i] * 0.5f;
    d->ops->matmul(d, src, IN, n_row, &(struct dev_matmul){.w = w, .dst = y, .dst_stride = OUT}, 1);
    d->ops->read(d, want->y, y, n_row * OUT * 4);
    for (int k = 0; k < (second ? 2 : 1); k++) {
        for (uint32_t r = add[k].row; r < add[k].row + add[k].n_row; r++)
            for (uint32_t o = 0; o < OUT; o++) {
                float sum = 0;
                for (uint32_t i = 0; i < (k ? WIDE : RANK); i++) {
                    if (i == 64) { /* a sum of 64 inputs is added, then the next */
                        want->y[r * OUT + o] += sum;
                        sum = 0;
                    }
                    sum = fma_f32(k ? ((const float *)held[3])[o * WIDE + i] : f16_to_f32(((const uint16_t *)held[2])[o * RANK + i]),
                                  k ? t2[r * WIDE + i] : tt[r * RANK + i], sum);
                }
                want->y[r * OUT + o] += sum;
            }
    }
    assert_int_equal(d->ops->sync(d, NULL), INFER_OK);
    for (int i = 0; i < 4; i++)
        free(held[i]);
    free(x), free(t2), free(zero), free(tt);
}

static void test_addends(void **state)
{
    (void)state;
    static const int32_t types[] = {INFER_TYPE_F32, INFER_TYPE_BF16, INFER_TYPE_Q8_0};
    static struct made got, want, scalar;
    int ran = 0;
    for (size_t type = 0; type < 3; type++)
        for (int numerics = INFER_NUMERICS_EXACT; numerics <= INFER_NUMERICS_PRECISE; numerics++)
            for (uint32_t rows = 1; rows <= ROWS; rows += rows < 3 ? 1 : 37)
                for (size_t l = 0; l < sizeof levels / sizeof *levels; l++)
                    for (uint32_t threads = 1; threads <= 3; threads += 2) {
                        struct device *d = make(levels[l], numerics, threads);
                        if (!d)
                            continue;
                        run(d, types[type], rows, &got, &want);
                        if (l == 0)
                            scalar = got;
                        assert_memory_equal(got.y, want.y, rows * OUT * 4);
                        assert_memory_equal(got.part, want.part, rows * RANK * 4);
                        assert_memory_equal(got.y, scalar.y, rows * OUT * 4);
                        d->ops->destroy(d);
                        ran++;
                    }
    assert_true(ran > 0);
}

static void test_steer(void **state)
{
    (void)state;
    enum { WIDTH = 77, N = 9 };
    static float scalar[2][N * WIDTH], got[N * WIDTH];
    uint64_t seed = 3;
    float *x = randoms(&seed, N * WIDTH), *v = randoms(&seed, WIDTH);
    for (size_t l = 0; l < sizeof levels / sizeof *levels; l++)
        for (int kind = 0; kind < 2; kind++) {
            struct device *d = make(levels[l], INFER_NUMERICS_EXACT, 1 + (uint32_t)l % 2);
            if (!d)
                continue;
            struct dev_ref rx = upload(d, x, N * WIDTH * 4), rv = upload(d, v, WIDTH * 4);
            d->ops->steer(d, &(struct dev_steer){kind ? DEV_STEER_PROJECT : DEV_STEER_ADD, rx, rv, N, WIDTH, -1.75f});
            assert_int_equal(d->ops->sync(d, NULL), INFER_OK);
            d->ops->read(d, got, rx, sizeof got);
            d->ops->destroy(d);
            if (l == 0)
                memcpy(scalar[kind], got, sizeof got);
            assert_memory_equal(got, scalar[kind], sizeof got);
            for (uint32_t r = 0; r < N; r++) {
                double dot = 0;
                for (uint32_t i = 0; i < WIDTH; i++)
                    dot += (double)x[r * WIDTH + i] * (double)v[i];
                for (uint32_t i = 0; i < WIDTH; i++) {
                    double step = kind ? 1.75 * dot * (double)v[i] : -1.75 * (double)v[i];
                    assert_float_equal(got[r * WIDTH + i], (float)((double)x[r * WIDTH + i] + step), 1e-4);
                }
            }
        }
    free(x), free(v);
}

/* What the CPU device cannot do fails the call, and nothing else. */
static void test_impossible(void **state)
{
    (void)state;
    struct cpu_device_options o = {INFER_CPU_AUTO, INFER_NUMERICS_EXACT, 1, NULL, NULL};
    struct device *d;
    uint64_t seed = 1;
    struct dev_weight w, q;
    assert_int_equal(cpu_device_create(&alloc_default, &o, &d, NULL), INFER_OK);
    void *a = weights(&seed, INFER_TYPE_F32, OUT, IN, d, &w), *b = weights(&seed, INFER_TYPE_Q8_0, OUT, 32, d, &q);
    float x[IN] = {0};
    struct dev_ref src = upload(d, x, sizeof x), y = upload(d, x, OUT * 4);
    struct dev_addend add = {q, src, 32, 0, 1};
    d->ops->matmul(d, src, IN, 1, &(struct dev_matmul){.w = w, .dst = y, .dst_stride = OUT, .n_addends = 1, .addends = &add}, 1);
    assert_int_equal(d->ops->sync(d, NULL), INFER_ERROR_INTERNAL);
    d->ops->free(d, src.buf), d->ops->free(d, y.buf), d->ops->free(d, w.data.buf), d->ops->free(d, q.data.buf);
    d->ops->destroy(d);
    free(a), free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_addends), cmocka_unit_test(test_steer), cmocka_unit_test(test_impossible)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
