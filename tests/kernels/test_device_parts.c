/* The CPU device's products of parts (experts, heads) and the sums of their rows: to the bit what single products and a plain loop give. */
#include "testutil.h"

#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/half.h"
#include "kernels/cpu.h"
#include "kernels/device.h"

static struct device *make(int32_t cpu, int32_t numerics, uint32_t threads)
{
    struct device *d = NULL;
    struct cpu_device_options o = {cpu, numerics, threads, NULL, NULL};
    assert_int_equal(cpu_device_create(&alloc_default, &o, &d, NULL), INFER_OK);
    return d;
}

static struct dev_ref upload(struct device *d, const void *p, uint64_t bytes)
{
    struct dev_ref r = {NULL, 0};
    assert_int_equal(d->ops->alloc(d, bytes, &r.buf, NULL), INFER_OK);
    if (p)
        d->ops->write(d, r, p, bytes);
    return r;
}

/* f32, f16 or Q8_0 rows of small random values. */
static void *weights(uint64_t *seed, int32_t type, uint32_t rows, uint32_t n_in, uint64_t *row_bytes)
{
    assert_true(dtype_size(type, n_in, row_bytes));
    char *w = malloc(rows * *row_bytes);
    for (uint64_t at = 0; at < rows * *row_bytes; at += dtype_of(type)->bytes) {
        float f = test_rand_f32(seed);
        uint16_t h = f32_to_f16(f * (type == INFER_TYPE_Q8_0 ? 0.01f : 1.0f));
        memcpy(w + at, type == INFER_TYPE_F32 ? (void *)&f : (void *)&h, type == INFER_TYPE_F32 ? 4 : 2);
        for (uint64_t i = 2; type == INFER_TYPE_Q8_0 && i < dtype_of(type)->bytes; i++)
            w[at + i] = (char)(test_rand(seed) >> 20);
    }
    return w;
}

enum { IN = 96, MAX_ROWS = 96, GROUP_GAP = 7, ROW_GAP = 5, N_PARTS = 5 };

/* Five parts of different lengths and matrices on rows that lie apart, against one product each of the packed rows. */
static void check_parts(struct device *d, int32_t type, uint32_t n_group, uint32_t n_row, bool even)
{
    uint64_t seed = 7 + n_row;
    uint32_t row_stride = IN + ROW_GAP, group_stride = n_row * row_stride + GROUP_GAP, total = n_group * n_row;
    float *src = malloc(((size_t)n_group * group_stride) * 4), *packed = malloc((size_t)total * IN * 4);
    for (size_t i = 0; i < (size_t)n_group * group_stride; i++)
        src[i] = test_rand_f32(&seed);
    for (uint32_t r = 0; r < total; r++)
        memcpy(packed + (size_t)r * IN, src + (size_t)(r / n_row) * group_stride + (size_t)(r % n_row) * row_stride, IN * 4);
    struct dev_ref s = upload(d, src, (uint64_t)n_group * group_stride * 4), p = upload(d, packed, (uint64_t)total * IN * 4);
    struct dev_part parts[N_PARTS];
    void *w[N_PARTS];
    for (uint32_t i = 0; i < N_PARTS; i++) {
        uint32_t group = i % n_group, first = (uint32_t)(test_rand(&seed) % n_row), n_out = even ? 40 : 17 + 16 * i;
        parts[i] = (struct dev_part){.w = {.type = type, .n_in = IN, .n_out = n_out}, .dst_stride = n_out + 3, .first_row = group * n_row + first,
                                     .n_row = 1 + (uint32_t)(test_rand(&seed) % (n_row - first))};
        w[i] = weights(&seed, type, n_out, IN, &parts[i].w.row_bytes);
        parts[i].w.data = upload(d, w[i], n_out * parts[i].w.row_bytes);
        parts[i].dst = upload(d, NULL, (uint64_t)parts[i].n_row * parts[i].dst_stride * 4);
    }
    d->ops->matmul_parts(d, &(struct dev_rows){s, n_group, n_row, group_stride, row_stride}, parts, N_PARTS);
    assert_int_equal(d->ops->sync(d, NULL), INFER_OK);
    for (uint32_t i = 0; i < N_PARTS; i++) {
        uint32_t n = parts[i].n_row, n_out = parts[i].w.n_out;
        float *want = malloc((size_t)n * n_out * 4), *got = malloc((size_t)n_out * 4);
        struct dev_ref dst = upload(d, NULL, (uint64_t)n * n_out * 4);
        d->ops->matmul(d, dev_at(p, (uint64_t)parts[i].first_row * IN * 4), IN, n, &(struct dev_matmul){.w = parts[i].w, .dst = dst, .dst_stride = n_out}, 1);
        d->ops->read(d, want, dst, (uint64_t)n * n_out * 4);
        for (uint32_t r = 0; r < n; r++) {
            d->ops->read(d, got, dev_at(parts[i].dst, (uint64_t)r * parts[i].dst_stride * 4), n_out * 4ull);
            if (memcmp(got, want + (size_t)r * n_out, n_out * 4ull))
                fail_msg("type %d, %u groups of %u: part %u, row %u differs", (int)type, n_group, n_row, i, r);
        }
        d->ops->free(d, dst.buf);
        d->ops->free(d, parts[i].dst.buf);
        d->ops->free(d, parts[i].w.data.buf);
        free(w[i]);
        free(want);
        free(got);
    }
    d->ops->free(d, s.buf);
    d->ops->free(d, p.buf);
    free(src);
    free(packed);
}

static void test_parts(void **state)
{
    (void)state;
    static const int32_t types[] = {INFER_TYPE_F32, INFER_TYPE_F16, INFER_TYPE_Q8_0};
    static const int32_t modes[] = {INFER_NUMERICS_EXACT, INFER_NUMERICS_PRECISE};
    static const uint32_t rows[] = {1, 2, 9, MAX_ROWS};
    for (size_t m = 0; m < 2; m++)
        for (uint32_t threads = 1; threads <= 3; threads += 2) {
            struct device *d = make(INFER_CPU_AUTO, modes[m], threads);
            for (size_t t = 0; t < 3; t++)
                for (size_t r = 0; r < 4; r++)
                    for (uint32_t groups = 1; groups <= 3; groups += 2) {
                        check_parts(d, types[t], groups, rows[r], r % 2 == 0);
                        check_parts(d, types[t], groups, rows[r], r % 2 != 0);
                    }
            d->ops->destroy(d);
        }
}

/* Rows of sums, in order, each step rounded. */
static void test_combine(void **state)
{
    (void)state;
    enum { ROWS = 37, EACH = 3, WIDTH = 51 };
    static float src[ROWS * EACH * WIDTH], dst[ROWS * WIDTH], want[ROWS * WIDTH], got[ROWS * WIDTH];
    static uint32_t place[ROWS * EACH];
    static float weight[ROWS * EACH], own[ROWS];
    static const int32_t levels[] = {INFER_CPU_SCALAR, INFER_CPU_AUTO};
    uint64_t seed = 3;
    for (size_t i = 0; i < sizeof src / sizeof *src; i++)
        src[i] = test_rand_f32(&seed);
    for (size_t i = 0; i < sizeof dst / sizeof *dst; i++)
        dst[i] = test_rand_f32(&seed);
    for (uint32_t i = 0; i < ROWS * EACH; i++) {
        place[i] = i * 5 % (ROWS * EACH); /* 5 divides no 111: a permutation */
        weight[i] = test_rand_f32(&seed);
    }
    for (int mode = 0; mode < 3; mode++) { /* overwritten; added; added to a weighed one */
        for (uint32_t r = 0; r < ROWS; r++) {
            own[r] = test_rand_f32(&seed);
            for (uint32_t i = 0; i < WIDTH; i++) {
                volatile float sum = 0, product;
                for (uint32_t k = 0; k < EACH; k++) {
                    product = src[place[r * EACH + k] * WIDTH + i] * weight[r * EACH + k];
                    sum = k ? sum + product : product;
                }
                product = mode == 2 ? dst[r * WIDTH + i] * own[r] : dst[r * WIDTH + i];
                want[r * WIDTH + i] = mode ? product + sum : sum;
            }
        }
        for (size_t l = 0; l < 2; l++) {
            struct device *d = make(levels[l], INFER_NUMERICS_EXACT, 2);
            struct dev_ref a = upload(d, dst, sizeof dst), b = upload(d, src, sizeof src);
            d->ops->combine(d, &(struct dev_combine){a, b, ROWS, EACH, WIDTH, place, weight, mode > 0, mode == 2 ? own : NULL});
            d->ops->will_need(d, b, sizeof src);
            assert_int_equal(d->ops->sync(d, NULL), INFER_OK);
            d->ops->read(d, got, a, sizeof got);
            assert_memory_equal(got, want, sizeof got);
            d->ops->free(d, a.buf);
            d->ops->free(d, b.buf);
            d->ops->destroy(d);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_parts), cmocka_unit_test(test_combine)};
    return cmocka_run_group_tests_name("products of parts", tests, NULL, NULL);
}
