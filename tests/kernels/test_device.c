/* The CPU device: each operation against a plain double-precision computation, and a whole layer to the bit across threads, batches, chunks and CPU
 * levels. */
#include "testutil.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/half.h"
#include "kernels/cpu.h"
#include "kernels/dequant.h"
#include "kernels/device.h"
#include "recording_device.h"

static struct device *make(int32_t cpu, int32_t numerics, uint32_t threads)
{
    struct device *d = NULL;
    infer_error err;
    struct cpu_device_options o = {cpu, numerics, threads, NULL, NULL};
    assert_int_equal(cpu_device_create(&alloc_default, &o, &d, &err), INFER_OK);
    return d;
}

static struct device *plain(void)
{
    return make(INFER_CPU_AUTO, INFER_NUMERICS_EXACT, 2);
}

static struct dev_ref buffer(struct device *d, uint64_t bytes)
{
    struct dev_ref r = {NULL, 0};
    assert_int_equal(d->ops->alloc(d, bytes, &r.buf, NULL), INFER_OK);
    return r;
}

static struct dev_ref upload(struct device *d, const void *p, uint64_t bytes)
{
    struct dev_ref r = buffer(d, bytes);
    d->ops->write(d, r, p, bytes);
    return r;
}

static void drop(struct device *d, struct dev_ref r)
{
    d->ops->free(d, r.buf);
}

static float *randoms(uint64_t *seed, size_t n)
{
    float *p = malloc(n * sizeof *p + 1);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        p[i] = test_rand_f32(seed);
    return p;
}

static void near(const float *got, const float *want, size_t n, double tolerance)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - (double)want[i]) <= tolerance * (1 + fabs((double)want[i]))))
            fail_msg("element %zu: %g, wanted %g", i, (double)got[i], (double)want[i]);
}

/* Random bytes of a type, with scales that give values of a sensible size. */
static uint8_t *random_weights(uint64_t *seed, int32_t type, uint32_t rows, uint32_t n_in, uint64_t *row_bytes)
{
    assert_true(dtype_size(type, n_in, row_bytes));
    uint8_t *w = malloc(rows * *row_bytes);
    assert_non_null(w);
    for (uint64_t i = 0; i < rows * *row_bytes; i++)
        w[i] = (uint8_t)(test_rand(seed) >> 24);
    for (uint64_t at = 0; at < rows * *row_bytes; at += dtype_of(type)->bytes) {
        uint16_t d = f32_to_f16(test_rand_f32(seed) * 0.01f), m = f32_to_f16(test_rand_f32(seed) * 0.01f);
        float f = test_rand_f32(seed);
        uint16_t h = type == INFER_TYPE_BF16 ? f32_to_bf16(f) : f32_to_f16(f);
        switch (type) {
        case INFER_TYPE_F32: memcpy(w + at, &f, 4); break;
        case INFER_TYPE_F16:
        case INFER_TYPE_BF16: memcpy(w + at, &h, 2); break;
        case INFER_TYPE_Q6_K: memcpy(w + at + 208, &d, 2); break;
        case INFER_TYPE_Q4_1:
        case INFER_TYPE_Q4_K: memcpy(w + at + 2, &m, 2); /* fall through */
        default: memcpy(w + at, &d, 2);
        }
    }
    return w;
}

static void test_memory(void **state)
{
    (void)state;
    struct device *d = plain();
    const struct device_ops *o = d->ops;
    char data[100], got[100];
    for (int i = 0; i < 100; i++)
        data[i] = (char)i;
    struct dev_ref a = upload(d, data, 100), b = buffer(d, 200), host = {NULL, 0};
    assert_int_equal(o->import(d, data, sizeof data, &host.buf, NULL), INFER_OK);
    o->copy(d, dev_at(b, 50), dev_at(a, 10), 90);
    o->read(d, got, dev_at(b, 50), 90);
    assert_memory_equal(got, data + 10, 90);
    o->read(d, got, dev_at(host, 3), 5);
    assert_memory_equal(got, data + 3, 5);
    float rows[4][3] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {10, 11, 12}}, out[3][3];
    struct dev_ref r = upload(d, rows, sizeof rows), g = buffer(d, sizeof out);
    o->gather(d, g, r, (uint32_t[]){3, 0, 3}, 3, 3);
    o->read(d, out, g, sizeof out);
    assert_true(out[0][0] == 10 && out[1][2] == 3 && out[2][1] == 11);
    assert_int_equal(o->sync(d, NULL), INFER_OK);
    drop(d, a), drop(d, b), drop(d, host), drop(d, r), drop(d, g);
    o->free(d, NULL);
    o->destroy(d);
}

static void test_embed(void **state)
{
    (void)state;
    static const int32_t types[] = {INFER_TYPE_F32, INFER_TYPE_F16, INFER_TYPE_BF16, INFER_TYPE_Q8_0, INFER_TYPE_Q4_K, INFER_TYPE_Q6_K};
    struct device *d = plain();
    uint64_t seed = 5;
    enum { N = 256, ROWS = 7, IDS = 300 };
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        struct dev_weight w = {.type = types[t], .n_in = N, .n_out = ROWS};
        uint8_t *bytes = random_weights(&seed, types[t], ROWS, N, &w.row_bytes);
        assert_int_equal(d->ops->import(d, bytes, ROWS * w.row_bytes, &w.data.buf, NULL), INFER_OK);
        uint32_t ids[IDS];
        for (int i = 0; i < IDS; i++)
            ids[i] = (uint32_t)(test_rand(&seed) % ROWS);
        struct dev_ref dst = buffer(d, IDS * N * 4);
        d->ops->embed(d, dst, &w, ids, IDS, 1.0f, 0);
        d->ops->embed(d, dst, &w, ids, IDS, 3.0f, 1);
        static float got[IDS * N];
        d->ops->read(d, got, dst, sizeof got);
        for (int i = 0; i < IDS; i++) {
            float row[N];
            dequant_row(types[t], bytes + ids[i] * w.row_bytes, row, N);
            for (int j = 0; j < N; j++)
                row[j] = row[j] + row[j] * 3.0f;
            assert_memory_equal(got + i * N, row, sizeof row);
        }
        drop(d, w.data), drop(d, dst);
        free(bytes);
    }
    assert_int_equal(d->ops->sync(d, NULL), INFER_OK);
    d->ops->destroy(d);
}

static void test_norm(void **state)
{
    (void)state;
    struct device *d = plain();
    uint64_t seed = 6;
    enum { OUTER = 40, INNER = 3, WIDTH = 72, STRIDE = 250 };
    float *x = randoms(&seed, OUTER * STRIDE), *w = randoms(&seed, INNER * WIDTH), *b = randoms(&seed, WIDTH), *got = randoms(&seed, OUTER * STRIDE);
    for (int kind = 0; kind < 6; kind++) { /* layer norm or not; a bias; weights that differ from one inner row to the next */
        struct dev_ref rx = upload(d, x, OUTER * STRIDE * 4);
        struct dev_norm op = {.kind = kind & 1 ? DEV_NORM_LAYER : DEV_NORM_RMS, .dst = rx, .src = rx, .weight = upload(d, w, INNER * WIDTH * 4),
                              .weight_stride = kind & 4 ? WIDTH : 0, .n_outer = OUTER, .n_inner = INNER, .width = WIDTH, .dst_stride = STRIDE, .src_stride = STRIDE, .eps = 1e-5f};
        if (kind & 2)
            op.bias = upload(d, b, WIDTH * 4);
        d->ops->norm(d, &op);
        d->ops->read(d, got, rx, OUTER * STRIDE * 4);
        for (int o = 0; o < OUTER; o++) {
            float want[STRIDE];
            memcpy(want, x + o * STRIDE, sizeof want); /* what is between rows stays */
            for (int i = 0; i < INNER; i++) {
                float *row = want + i * WIDTH;
                double mean = 0, var = 0;
                for (int j = 0; j < WIDTH && (kind & 1); j++)
                    mean += row[j] / (double)WIDTH;
                for (int j = 0; j < WIDTH; j++)
                    var += (row[j] - mean) * (row[j] - mean) / WIDTH;
                for (int j = 0; j < WIDTH; j++)
                    row[j] = (float)((row[j] - mean) / sqrt(var + 1e-5) * w[j + (kind & 4 ? i * WIDTH : 0)] + (kind & 2 ? b[j] : 0));
            }
            near(got + o * STRIDE, want, STRIDE, 2e-6);
        }
        drop(d, rx), drop(d, op.weight), drop(d, op.bias);
    }
    assert_int_equal(d->ops->sync(d, NULL), INFER_OK);
    free(x), free(w), free(b), free(got);
    d->ops->destroy(d);
}

enum { MM_IN = 512 };

/* The product in double, from decoded weights. */
static void product(float *want, const float *x, const uint8_t *w, int32_t type, uint64_t row_bytes, const float *bias, uint32_t n_row,
                    uint32_t n_out, uint32_t stride)
{
    float row[MM_IN];
    for (uint32_t o = 0; o < n_out; o++) {
        dequant_row(type, w + o * row_bytes, row, MM_IN);
        for (uint32_t r = 0; r < n_row; r++) {
            double sum = bias ? bias[o] : 0;
            for (uint32_t i = 0; i < MM_IN; i++)
                sum += (double)row[i] * (double)x[r * MM_IN + i];
            want[r * stride + o] = (float)sum;
        }
    }
}

static double spread(const float *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sqrt(sum / (double)n);
}

static void check_products(struct device *d, int precise, uint32_t n_row, uint64_t *seed)
{
    static const int32_t types[] = {INFER_TYPE_F32, INFER_TYPE_Q8_0, INFER_TYPE_F16, INFER_TYPE_Q4_1, INFER_TYPE_BF16, INFER_TYPE_Q4_K,
                                    INFER_TYPE_Q6_K};
    enum { N = sizeof types / sizeof *types };
    float *x = randoms(seed, n_row * MM_IN), *bias = randoms(seed, 200);
    struct dev_ref src = upload(d, x, n_row * MM_IN * 4), rb = upload(d, bias, 200 * 4);
    struct dev_matmul ops[N];
    uint8_t *w[N];
    for (int t = 0; t < N; t++) { /* all of them in one call */
        uint32_t n_out = (uint32_t[]){1, 16, 37, 200, 64, 130, 111}[t], stride = n_out + (uint32_t)(t % 3);
        struct dev_weight dw = {.type = types[t], .n_in = MM_IN, .n_out = n_out};
        w[t] = random_weights(seed, types[t], n_out, MM_IN, &dw.row_bytes);
        assert_int_equal(d->ops->import(d, w[t], n_out * dw.row_bytes, &dw.data.buf, NULL), INFER_OK);
        ops[t] = (struct dev_matmul){.w = dw, .bias = t & 1 ? rb : (struct dev_ref){NULL, 0}, .dst = buffer(d, n_row * stride * 4), .dst_stride = stride};
    }
    d->ops->matmul(d, src, MM_IN, n_row, ops, N);
    assert_int_equal(d->ops->sync(d, NULL), INFER_OK);
    for (int t = 0; t < N; t++) {
        uint32_t stride = ops[t].dst_stride, n_out = ops[t].w.n_out;
        size_t n = (size_t)n_row * stride;
        float *got = calloc(n, 4), *want = calloc(n, 4);
        d->ops->read(d, got, ops[t].dst, n * 4);
        product(want, x, w[t], types[t], ops[t].w.row_bytes, t & 1 ? bias : NULL, n_row, n_out, stride);
        int packed = types[t] != INFER_TYPE_F32 && types[t] != INFER_TYPE_F16 && types[t] != INFER_TYPE_BF16;
        double tolerance = (packed && !precise ? 0.05 : 1e-5) * (spread(want, n) + 0.01);
        for (uint32_t r = 0; r < n_row; r++)
            for (uint32_t o = 0; o < n_out; o++)
                if (!(fabs((double)(got[r * stride + o] - want[r * stride + o])) <= tolerance))
                    fail_msg("type %d row %u output %u: %g, wanted %g", types[t], r, o, (double)got[r * stride + o],
                             (double)want[r * stride + o]);
        free(got), free(want), free(w[t]);
        drop(d, ops[t].dst), drop(d, ops[t].w.data);
    }
    drop(d, src), drop(d, rb);
    free(x), free(bias);
}

static void test_matmul(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (int precise = 0; precise < 2; precise++) {
        struct device *d = make(INFER_CPU_AUTO, precise ? INFER_NUMERICS_PRECISE : INFER_NUMERICS_EXACT, 2);
        check_products(d, precise, 1, &seed);
        check_products(d, precise, 3, &seed);
        check_products(d, precise, 50, &seed);
        d->ops->destroy(d);
    }
}

static void test_rope(void **state)
{
    (void)state;
    struct device *d = plain();
    uint64_t seed = 8;
    enum { ROWS = 50, HEADS = 3, DIM = 32, ROT = 24, STRIDE = 100 };
    float *x = randoms(&seed, ROWS * STRIDE), inv[ROT / 2], *got = malloc(ROWS * STRIDE * 4), *want = malloc(ROWS * STRIDE * 4);
    uint32_t pos[ROWS];
    for (int i = 0; i < ROT / 2; i++)
        inv[i] = (float)pow(10000.0, -2.0 * i / ROT);
    for (int i = 0; i < ROWS; i++)
        pos[i] = (uint32_t)(test_rand(&seed) % 5000);
    for (int kind = 0; kind < 2; kind++) {
        struct dev_ref rx = upload(d, x, ROWS * STRIDE * 4), table = buffer(d, ROWS * ROT * 4), ri = upload(d, inv, sizeof inv);
        d->ops->rope_table(d, table, ri, ROT / 2, pos, ROWS, 1.25f);
        struct dev_rope op = {kind ? DEV_ROPE_HALVES : DEV_ROPE_PAIRS, rx, table, ROWS, HEADS, DIM, ROT, STRIDE};
        d->ops->rope(d, &op);
        d->ops->read(d, got, rx, ROWS * STRIDE * 4);
        memcpy(want, x, ROWS * STRIDE * 4);
        for (int r = 0; r < ROWS; r++)
            for (int h = 0; h < HEADS; h++)
                for (int i = 0; i < ROT / 2; i++) {
                    float *a = want + r * STRIDE + h * DIM + (kind ? i : 2 * i), *b = a + (kind ? ROT / 2 : 1);
                    double angle = (double)((float)pos[r] * inv[i]), c = cos(angle) * 1.25, s = sin(angle) * 1.25, u = *a, v = *b;
                    *a = (float)(u * c - v * s);
                    *b = (float)(u * s + v * c);
                }
        near(got, want, ROWS * STRIDE, 2e-6);
        drop(d, rx), drop(d, table), drop(d, ri);
    }
    assert_int_equal(d->ops->sync(d, NULL), INFER_OK);
    free(x), free(got), free(want);
    d->ops->destroy(d);
}

static double act_of(int act, double x)
{
    switch (act) {
    case DEV_ACT_SILU: return x / (1 + exp(-x));
    case DEV_ACT_GELU_TANH: return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    case DEV_ACT_GELU_ERF: return 0.5 * x * (1 + erf(x / sqrt(2)));
    case DEV_ACT_RELU: return x > 0 ? x : 0;
    default: return x > 0 ? x * x : 0;
    }
}

static void test_elements(void **state)
{
    (void)state;
    struct device *d = plain();
    uint64_t seed = 9;
    enum { ROWS = 60, WIDTH = 333 };
    for (int packed = 0; packed < 2; packed++) {
        uint32_t stride = packed ? WIDTH : WIDTH + 7;
        size_t n = ROWS * stride;
        float *g = randoms(&seed, n), *u = randoms(&seed, n), *got = malloc(n * 4), *want = malloc(n * 4);
        for (int act = 0; act <= DEV_ACT_RELU2; act++)
            for (int gated = 0; gated < 2; gated++) {
                struct dev_ref rg = upload(d, g, n * 4), ru = upload(d, u, n * 4), none = {NULL, 0};
                d->ops->act(d, (enum dev_act)act, rg, rg, gated ? ru : none, ROWS, WIDTH, stride);
                d->ops->read(d, got, rg, n * 4);
                for (size_t i = 0; i < n; i++)
                    want[i] = i % stride < WIDTH ? (float)(act_of(act, g[i]) * (gated ? u[i] : 1)) : g[i];
                near(got, want, n, 2e-6);
                drop(d, rg), drop(d, ru);
            }
        struct dev_ref rg = upload(d, g, n * 4), ru = upload(d, u, n * 4);
        d->ops->add(d, rg, ru, n - 1);
        d->ops->scale(d, rg, n - 1, 0.75f);
        d->ops->softcap(d, rg, n - 1, 2.0f);
        d->ops->read(d, got, rg, n * 4);
        for (size_t i = 0; i < n; i++)
            want[i] = i < n - 1 ? (float)(2 * tanh((double)((g[i] + u[i]) * 0.75f) / 2)) : g[i];
        near(got, want, n, 2e-6);
        drop(d, rg), drop(d, ru);
        free(g), free(u), free(got), free(want);
    }
    assert_int_equal(d->ops->sync(d, NULL), INFER_OK);
    d->ops->destroy(d);
}

/* ---- attention over several sequences, groups and ranges */

struct crowd {
    uint32_t n_head, n_kv, dim, n_seq;
    struct dev_seq seqs[4];
    struct dev_ref pages[4][40], q, dst;
    uint32_t rows;
    uint64_t lo[80], hi[80];
    float *k[4], *v[4], *qs; /* [elements][n_kv][dim], [rows][n_head][dim] */
};

/* Each row belongs to one sequence, but for some that belong to none. The first sees all before it, the second anything, the others windows. */
static void crowd_rows(struct crowd *c, uint32_t s, uint64_t *seed)
{
    uint64_t before = s == 1 ? 0 : test_rand(seed) % (s == 2 ? 2400 : 300);
    uint32_t n = 1 + (uint32_t)(test_rand(seed) % 14);
    c->seqs[s] = (struct dev_seq){c->rows, n, before, c->pages[s]};
    for (uint32_t i = 0; i < n; i++) {
        uint64_t *lo = &c->lo[c->rows + i], *hi = &c->hi[c->rows + i];
        *hi = s == 1 ? 1 + test_rand(seed) % n : before + i + 1;
        *lo = s == 0 ? 0 : test_rand(seed) % *hi;
    }
    c->rows += n + 1;
}

static void crowd_make(struct device *d, struct crowd *c, uint64_t *seed, const struct dev_kv *kv)
{
    uint32_t width = c->n_kv * c->dim;
    c->rows = 3;
    for (uint32_t s = 0; s < c->n_seq; s++) {
        crowd_rows(c, s, seed);
        uint32_t len = (uint32_t)c->seqs[s].index + c->seqs[s].n_row;
        for (uint32_t p = 0; p < (len + 63) / 64; p++)
            c->pages[s][p] = buffer(d, 2 * kv->v_off);
        c->k[s] = randoms(seed, (size_t)len * width);
        c->v[s] = randoms(seed, (size_t)len * width);
        struct dev_ref k = upload(d, c->k[s], (uint64_t)len * width * 4), v = upload(d, c->v[s], (uint64_t)len * width * 4);
        struct dev_seq all = {0, len, 0, c->pages[s]};
        d->ops->kv_write(d, kv, k, width, v, width, &all, 1);
        drop(d, k), drop(d, v);
    }
    uint64_t n = (uint64_t)c->rows * c->n_head * c->dim;
    c->qs = randoms(seed, n);
    c->q = upload(d, c->qs, n * 4);
    c->dst = buffer(d, n * 4);
}

static void crowd_free(struct device *d, struct crowd *c)
{
    for (uint32_t s = 0; s < c->n_seq; s++) {
        for (uint32_t p = 0; p < 40; p++) {
            drop(d, c->pages[s][p]);
            c->pages[s][p].buf = NULL;
        }
        free(c->k[s]), free(c->v[s]);
    }
    free(c->qs);
    drop(d, c->q), drop(d, c->dst);
}

/* One row and head in double. */
static void crowd_exact(const struct crowd *c, uint32_t s, uint32_t row, uint32_t head, double *out)
{
    uint32_t at = head / (c->n_head / c->n_kv) * c->dim, width = c->n_kv * c->dim;
    const float *q = c->qs + ((size_t)row * c->n_head + head) * c->dim;
    double max = -INFINITY, sum = 0, w[2600];
    for (uint64_t e = c->lo[row]; e < c->hi[row]; e++) {
        double dot = 0;
        for (uint32_t d = 0; d < c->dim; d++)
            dot += (double)q[d] * (double)c->k[s][e * width + at + d];
        w[e] = 3 * tanh(dot * 0.2 / 3);
        max = w[e] > max ? w[e] : max;
    }
    memset(out, 0, c->dim * sizeof *out);
    for (uint64_t e = c->lo[row]; e < c->hi[row]; e++)
        sum += w[e] = exp(w[e] - max);
    for (uint64_t e = c->lo[row]; e < c->hi[row]; e++)
        for (uint32_t d = 0; d < c->dim; d++)
            out[d] += w[e] / sum * (double)c->v[s][e * width + at + d];
}

static void crowd_near(const struct crowd *c, const float *got, double tolerance)
{
    for (uint32_t s = 0; s < c->n_seq; s++)
        for (uint32_t r = c->seqs[s].row; r < c->seqs[s].row + c->seqs[s].n_row; r++)
            for (uint32_t h = 0; h < c->n_head; h++) {
                double want[128];
                const float *g = got + ((size_t)r * c->n_head + h) * c->dim;
                crowd_exact(c, s, r, h, want);
                for (uint32_t j = 0; j < c->dim; j++)
                    if (!(fabs((double)g[j] - want[j]) < tolerance))
                        fail_msg("sequence %u row %u head %u: %g, wanted %g", s, r, h, (double)g[j], want[j]);
            }
}

/* All rows in one call, or each in its own; the caller frees. */
static float *crowd_run(struct device *d, struct crowd *c, const struct dev_kv *kv, int alone)
{
    uint32_t width = c->n_head * c->dim;
    size_t bytes = (size_t)c->rows * width * 4;
    float *out = malloc(bytes);
    memset(out, 0x11, bytes);
    d->ops->write(d, c->dst, out, bytes);
    struct dev_attention op = {c->dst, c->q, width, width, c->n_head, 0.2f, 3.0f, *kv, c->seqs, c->n_seq, c->lo, c->hi, {.pages = NULL}};
    if (!alone)
        d->ops->attention(d, &op);
    for (uint32_t s = 0; s < c->n_seq && alone; s++)
        for (uint32_t i = 0; i < c->seqs[s].n_row; i++) {
            struct dev_seq one = {c->seqs[s].row + i, 1, c->seqs[s].index + i, c->seqs[s].pages};
            op.seqs = &one, op.n_seq = 1;
            d->ops->attention(d, &op);
        }
    d->ops->read(d, out, c->dst, bytes);
    return out;
}

/* How far answers may lie from exact ones, by KV type. */
static const double near_of[] = {[INFER_KV_F16] = 4e-3, [INFER_KV_F32] = 1e-5, [INFER_KV_BF16] = 3e-2, [INFER_KV_INT8] = 3e-2, [INFER_KV_INT8_64] = 3e-2};

static void crowd_check(struct crowd *c, int32_t type, uint64_t first_seed)
{
    struct dev_kv kv = {type, c->n_kv, c->dim, 0, c->n_kv * dev_kv_head_bytes(type, c->dim)};
    float *want = NULL;
    for (uint32_t threads = 1; threads <= 3; threads++) {
        struct device *d = make(INFER_CPU_AUTO, INFER_NUMERICS_EXACT, threads);
        uint64_t seed = first_seed;
        crowd_make(d, c, &seed, &kv);
        size_t bytes = (size_t)c->rows * c->n_head * c->dim * 4;
        float *got = crowd_run(d, c, &kv, 0), *alone = crowd_run(d, c, &kv, 1);
        assert_int_equal(d->ops->sync(d, NULL), INFER_OK);
        assert_memory_equal(got, alone, bytes);
        if (want)
            assert_memory_equal(got, want, bytes);
        else
            crowd_near(c, got, near_of[type]);
        free(alone), free(want);
        want = got;
        crowd_free(d, c);
        d->ops->destroy(d);
    }
    free(want);
}

static void test_attention(void **state)
{
    (void)state;
    static const uint32_t shapes[][3] = {{1, 1, 8}, {71, 1, 16}, {8, 8, 24}, {100, 1, 8}, {9, 3, 64}, {10, 2, 120}, {24, 2, 32}};
    for (uint32_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct crowd c = {.n_head = shapes[i][0], .n_kv = shapes[i][1], .dim = shapes[i][2], .n_seq = 1 + i % 4};
        static const int32_t types[] = {INFER_KV_F32, INFER_KV_F16, INFER_KV_BF16};
        crowd_check(&c, types[i % 3], 31 + i);
        crowd_check(&c, i % 2 ? INFER_KV_INT8_64 : INFER_KV_INT8, 41 + i);
    }
}

/* ---- a layer, to the bit */

enum { HIDDEN = 256, HEADS = 6, KV_HEADS = 2, DIM = 32, Q_WIDTH = HEADS * DIM, KV_WIDTH = KV_HEADS * DIM, FF = 300, LEN = 2200, MAX_PAGES = 40 };

struct layer {
    uint8_t *w[6];
    struct dev_weight dw[6];
    float *norm, *inv;
};

static const int32_t layer_types[6] = {INFER_TYPE_Q4_0, INFER_TYPE_Q8_0, INFER_TYPE_F16, INFER_TYPE_F32, INFER_TYPE_Q4_K, INFER_TYPE_BF16};
static const uint32_t layer_in[6] = {HIDDEN, HIDDEN, HIDDEN, Q_WIDTH, HIDDEN, FF};
static const uint32_t layer_out[6] = {Q_WIDTH, KV_WIDTH, KV_WIDTH, HIDDEN, FF, HIDDEN};

static void layer_make(struct layer *l)
{
    uint64_t seed = 11;
    for (int i = 0; i < 6; i++)
        l->w[i] = random_weights(&seed, layer_types[i], layer_out[i], layer_in[i], &l->dw[i].row_bytes);
    l->norm = randoms(&seed, HIDDEN);
    l->inv = randoms(&seed, DIM / 2);
}

static void layer_free(struct layer *l)
{
    for (int i = 0; i < 6; i++)
        free(l->w[i]);
    free(l->norm), free(l->inv);
}

/* One sequence in flight. */
struct flow {
    struct dev_ref pages[MAX_PAGES];
    uint64_t length;
};

struct run {
    struct device *d;
    struct layer l;
    struct dev_kv kv;
    uint64_t window;
};

static void run_open(struct run *r, int32_t cpu, int32_t numerics, uint32_t threads, int32_t kv_type, uint64_t window)
{
    memset(r, 0, sizeof *r);
    r->d = make(cpu, numerics, threads);
    layer_make(&r->l);
    for (int i = 0; i < 6; i++) {
        r->l.dw[i].type = layer_types[i];
        r->l.dw[i].n_in = layer_in[i];
        r->l.dw[i].n_out = layer_out[i];
        assert_int_equal(r->d->ops->import(r->d, r->l.w[i], layer_out[i] * r->l.dw[i].row_bytes, &r->l.dw[i].data.buf, NULL), INFER_OK);
    }
    uint64_t half = KV_HEADS * dev_kv_head_bytes(kv_type, DIM);
    r->kv = (struct dev_kv){kv_type, KV_HEADS, DIM, 64, 64 + half};
    r->window = window;
}

/* The same through a recording device. */
static void run_record(struct run *r, int32_t kv_type, uint64_t window)
{
    run_open(r, INFER_CPU_AUTO, INFER_NUMERICS_EXACT, 2, kv_type, window);
    for (int i = 0; i < 6; i++)
        drop(r->d, r->l.dw[i].data);
    r->d = recording_device_create(r->d);
    assert_non_null(r->d);
    for (int i = 0; i < 6; i++)
        assert_int_equal(r->d->ops->import(r->d, r->l.w[i], layer_out[i] * r->l.dw[i].row_bytes, &r->l.dw[i].data.buf, NULL), INFER_OK);
}

static void run_close(struct run *r)
{
    for (int i = 0; i < 6; i++)
        drop(r->d, r->l.dw[i].data);
    layer_free(&r->l);
    r->d->ops->destroy(r->d);
}

static void flow_room(struct run *r, struct flow *f, uint64_t length)
{
    for (uint64_t p = 0; p < (length + 63) / 64; p++)
        if (!f->pages[p].buf) {
            uint64_t bytes = 64 + 2 * (r->kv.v_off - r->kv.k_off);
            f->pages[p] = buffer(r->d, bytes);
            void *nan = malloc(bytes); /* what no one has written must not matter */
            memset(nan, 0xFF, bytes);
            r->d->ops->write(r->d, f->pages[p], nan, bytes);
            free(nan);
        }
}

/* One step: n elements of each flow from its inputs x[i] [n][HIDDEN]; outputs to y[i]. */
static void step(struct run *r, struct flow **flows, const float **x, float **y, const uint32_t *n, uint32_t n_flow)
{
    struct device *d = r->d;
    const struct device_ops *o = d->ops;
    uint32_t rows = 0;
    struct dev_seq seqs[8];
    for (uint32_t i = 0; i < n_flow; i++) {
        flow_room(r, flows[i], flows[i]->length + n[i]);
        seqs[i] = (struct dev_seq){rows, n[i], flows[i]->length, flows[i]->pages};
        rows += n[i];
    }
    uint64_t *lo = malloc(rows * sizeof *lo), *hi = malloc(rows * sizeof *hi);
    uint32_t *pos = malloc(rows * sizeof *pos);
    struct dev_ref rx = buffer(d, rows * HIDDEN * 4), rn = buffer(d, rows * HIDDEN * 4), q = buffer(d, rows * Q_WIDTH * 4),
                   k = buffer(d, rows * KV_WIDTH * 4), v = buffer(d, rows * KV_WIDTH * 4), at = buffer(d, rows * Q_WIDTH * 4),
                   ff = buffer(d, rows * FF * 4), table = buffer(d, rows * DIM * 4), inv = upload(d, r->l.inv, DIM / 2 * 4),
                   norm = upload(d, r->l.norm, HIDDEN * 4), none = {NULL, 0};
    for (uint32_t i = 0; i < n_flow; i++) {
        o->write(d, dev_at(rx, (uint64_t)seqs[i].row * HIDDEN * 4), x[i], (uint64_t)n[i] * HIDDEN * 4);
        for (uint32_t j = 0; j < n[i]; j++) {
            uint64_t e = seqs[i].index + j;
            pos[seqs[i].row + j] = (uint32_t)e;
            hi[seqs[i].row + j] = e + 1;
            lo[seqs[i].row + j] = r->window && e + 1 > r->window ? e + 1 - r->window : 0;
        }
    }
    o->rope_table(d, table, inv, DIM / 2, pos, rows, 1.0f);
    struct dev_norm nn = {DEV_NORM_RMS, rn, rx, norm, none, rows, 1, HIDDEN, HIDDEN, HIDDEN, 1e-6f, none, 0};
    o->norm(d, &nn);
    struct dev_matmul qkv[3] = {{.w = r->l.dw[0], .dst = q, .dst_stride = Q_WIDTH}, {.w = r->l.dw[1], .dst = k, .dst_stride = KV_WIDTH},
                                {.w = r->l.dw[2], .dst = v, .dst_stride = KV_WIDTH}};
    o->matmul(d, rn, HIDDEN, rows, qkv, 3);
    o->rope(d, &(struct dev_rope){DEV_ROPE_HALVES, q, table, rows, HEADS, DIM, DIM, Q_WIDTH});
    o->rope(d, &(struct dev_rope){DEV_ROPE_HALVES, k, table, rows, KV_HEADS, DIM, DIM, KV_WIDTH});
    o->kv_write(d, &r->kv, k, KV_WIDTH, v, KV_WIDTH, seqs, n_flow);
    o->attention(d, &(struct dev_attention){at, q, Q_WIDTH, Q_WIDTH, HEADS, 0.05f, r->window ? 20.0f : 0.0f, r->kv, seqs, n_flow, lo, hi, {.pages = NULL}});
    o->matmul(d, at, Q_WIDTH, rows, &(struct dev_matmul){.w = r->l.dw[3], .dst = rn, .dst_stride = HIDDEN}, 1);
    o->add(d, rx, rn, (uint64_t)rows * HIDDEN);
    nn.dst = rn;
    o->norm(d, &nn);
    o->matmul(d, rn, HIDDEN, rows, &(struct dev_matmul){.w = r->l.dw[4], .dst = ff, .dst_stride = FF}, 1);
    o->act(d, DEV_ACT_SILU, ff, ff, ff, rows, FF, FF);
    o->matmul(d, ff, FF, rows, &(struct dev_matmul){.w = r->l.dw[5], .dst = rn, .dst_stride = HIDDEN}, 1);
    o->add(d, rx, rn, (uint64_t)rows * HIDDEN);
    for (uint32_t i = 0; i < n_flow; i++) {
        o->read(d, y[i], dev_at(rx, (uint64_t)seqs[i].row * HIDDEN * 4), (uint64_t)n[i] * HIDDEN * 4);
        flows[i]->length += n[i];
    }
    assert_int_equal(o->sync(d, NULL), INFER_OK);
    drop(d, rx), drop(d, rn), drop(d, q), drop(d, k), drop(d, v), drop(d, at), drop(d, ff), drop(d, table), drop(d, inv), drop(d, norm);
    free(lo), free(hi), free(pos);
}

/* The whole sequence in chunks of the given sizes (repeating); with `other`, each step carries rows of another sequence before it. */
static float *run_sequence(struct run *r, const float *x, uint32_t len, const uint32_t *chunks, uint32_t n_chunk, int other)
{
    struct flow f = {.length = 0}, g = {.length = 0};
    float *y = malloc((size_t)len * HIDDEN * 4), *junk = malloc((size_t)len * HIDDEN * 4);
    for (uint32_t at = 0, i = 0; at < len; i++) {
        uint32_t n = chunks[i % n_chunk] < len - at ? chunks[i % n_chunk] : len - at;
        const float *in = x + (size_t)at * HIDDEN;
        float *out = y + (size_t)at * HIDDEN;
        if (other && g.length + 5 < LEN)
            step(r, (struct flow *[]){&g, &f}, (const float *[]){x + 17, in}, (float *[]){junk, out}, (uint32_t[]){5, n}, 2);
        else
            step(r, (struct flow *[]){&f}, &in, &out, &n, 1);
        at += n;
    }
    for (int p = 0; p < MAX_PAGES; p++)
        drop(r->d, f.pages[p]), drop(r->d, g.pages[p]);
    free(junk);
    return y;
}

static const uint32_t whole[] = {LEN}, odd[] = {1, 63, 64, 65, 1, 1, 500, 7}, small[] = {97}, ones[] = {1};

static void test_layer(void **state)
{
    (void)state;
    uint64_t seed = 12;
    float *x = randoms(&seed, (size_t)(LEN + 1) * HIDDEN);
    for (int variant = 0; variant < 5; variant++) {
        static const int32_t kvs[] = {INFER_KV_F16, INFER_KV_BF16, INFER_KV_F32, INFER_KV_F16, INFER_KV_INT8};
        int32_t kv = kvs[variant];
        int32_t numerics = variant == 3 ? INFER_NUMERICS_PRECISE : INFER_NUMERICS_EXACT;
        uint64_t window = variant == 2 ? 100 : variant == 1 ? 1500 : 0;
        uint32_t len = variant > 1 || cpu_best_level() == INFER_CPU_SCALAR ? 300 : variant == 0 ? LEN : 1700; /* scalar takes its time */
        size_t bytes = (size_t)len * HIDDEN * 4;
        struct run r;
        run_open(&r, INFER_CPU_AUTO, numerics, 1, kv, window);
        float *want = run_sequence(&r, x, len, whole, 1, 0);
        run_close(&r);
        for (uint32_t threads = 1; threads <= 4; threads *= 2) {
            run_open(&r, INFER_CPU_AUTO, numerics, threads, kv, window);
            for (int split = 0; split < 3; split++) {
                const uint32_t *chunks = split == 0 ? whole : split == 1 ? odd : small;
                float *got = run_sequence(&r, x, len, chunks, split == 1 ? 8 : 1, split == 2);
                assert_memory_equal(got, want, bytes);
                free(got);
            }
            if (variant == 2) {
                float *got = run_sequence(&r, x, len, ones, 1, threads == 2);
                assert_memory_equal(got, want, bytes);
                free(got);
            }
            run_close(&r);
        }
        free(want);
    }
    free(x);
}

/* Every CPU level that this machine has gives the bits of scalar. */
static void test_levels(void **state)
{
    (void)state;
    uint64_t seed = 13;
    enum { N = 200 };
    float *x = randoms(&seed, (size_t)(N + 1) * HIDDEN);
    struct run r;
    for (int kv = INFER_KV_F16; kv <= INFER_KV_INT8_64; kv++) {
        run_open(&r, INFER_CPU_SCALAR, INFER_NUMERICS_EXACT, 2, kv, kv == INFER_KV_F32 ? 90 : 0);
        assert_int_equal(cpu_device_level(r.d), INFER_CPU_SCALAR);
        float *want = run_sequence(&r, x, N, whole, 1, 0);
        run_close(&r);
#define CHECK(level, name)                                                                                             \
    if (cpu_level_supported(level)) {                                                                                  \
        run_open(&r, level, INFER_NUMERICS_EXACT, 2, kv, kv == INFER_KV_F32 ? 90 : 0);                                 \
        float *got = run_sequence(&r, x, N, small, 1, 1);                                                              \
        assert_memory_equal(got, want, N * HIDDEN * 4);                                                                \
        free(got);                                                                                                     \
        run_close(&r);                                                                                                 \
    }
        CPU_LEVELS(CHECK)
#undef CHECK
        free(want);
    }
    free(x);
}

/* The recording device changes nothing, and sees what is wrong. */
static void test_recording(void **state)
{
    (void)state;
    uint64_t seed = 14;
    enum { N = 150 };
    float *x = randoms(&seed, (size_t)(N + 1) * HIDDEN);
    struct run r;
    run_open(&r, INFER_CPU_AUTO, INFER_NUMERICS_EXACT, 1, INFER_KV_F16, 70);
    float *want = run_sequence(&r, x, N, whole, 1, 0);
    run_close(&r);
    run_record(&r, INFER_KV_F16, 70);
    float *got = run_sequence(&r, x, N, small, 1, 1);
    assert_memory_equal(got, want, N * HIDDEN * 4);
    assert_int_equal(recording_of(r.d)->n_errors, 0);
    assert_int_equal(recording_count(r.d, "attention"), 2);
    assert_int_equal(recording_count(r.d, "matmul"), 8);
    assert_int_equal(recording_of(r.d)->live_buffers, 6);
    free(got), free(want), free(x);

    struct device *d = r.d;
    const struct device_ops *o = d->ops;
    struct dev_ref a = buffer(d, 1000), gone = buffer(d, 1000), w = r.l.dw[3].data, none = {NULL, 0};
    drop(d, gone);
    infer_error err;
    char byte = 0;
    struct dev_weight bad = r.l.dw[3];
    uint64_t lo[1] = {0}, hi[1] = {2};
    struct dev_seq seq = {0, 1, 0, &a};
    struct dev_attention at = {a, a, 32, 32, 1, 1, 0, {INFER_KV_F32, 1, 8, 0, 2048}, &seq, 1, lo, hi, {.pages = NULL}};
    bad.row_bytes--;
    for (int i = 0; i < 12; i++) {
        recording_clear(d);
        switch (i) {
        case 0: o->add(d, a, dev_at(a, 4), 250); break;                                          /* past the end */
        case 1: o->add(d, gone, a, 10); break;                                                   /* freed */
        case 2: o->scale(d, w, 10, 1.0f); break;                                                 /* writes weights */
        case 3: o->scale(d, dev_at(a, 2), 10, 1.0f); break;                                      /* misaligned */
        case 4: o->write(d, none, &byte, 1); break;                                              /* absent */
        case 5: o->read(d, &byte, dev_at(a, 1000), 1); break;
        case 6: o->embed(d, a, &r.l.dw[3], (uint32_t[]){HIDDEN}, 1, 1.0f, 0); break;             /* no such id */
        case 7: o->matmul(d, a, Q_WIDTH, 1, &(struct dev_matmul){.w = bad, .dst = a, .dst_stride = HIDDEN}, 1); break; /* short rows */
        case 8: o->gather(d, a, a, (uint32_t[]){3}, 1, 100); break;
        case 9: o->free(d, gone.buf); break;                                                     /* twice */
        case 10: o->attention(d, &at); break;                                                    /* sees more than there is */
        case 11: o->free(d, (struct dev_buffer *)(void *)&r); break;                             /* not a handle */
        }
        assert_true(recording_of(d)->n_errors >= 1 && recording_of(d)->first_error[0]);
        assert_int_equal(o->sync(d, &err), INFER_ERROR_INTERNAL);
        assert_int_equal(o->sync(d, &err), INFER_OK);
    }
    drop(d, a);
    run_close(&r);
}

/* ---- failures */

static void test_options(void **state)
{
    (void)state;
    struct device *d = NULL;
    infer_error err;
    struct cpu_device_options o = {INFER_CPU_AUTO, INFER_NUMERICS_EXACT, 1, NULL, NULL};
    o.cpu = cpu_level_supported(INFER_CPU_NEON) ? INFER_CPU_AVX2 : INFER_CPU_NEON;
    assert_int_equal(cpu_device_create(&alloc_default, &o, &d, &err), INFER_ERROR_UNSUPPORTED);
    assert_non_null(strstr(err.text, cpu_level_name(o.cpu)));
    o.cpu = 77;
    assert_int_equal(cpu_device_create(&alloc_default, &o, &d, &err), INFER_ERROR_ARGUMENT);
    o.cpu = INFER_CPU_AUTO;
    o.threads = 0;
    assert_int_equal(cpu_device_create(&alloc_default, &o, &d, &err), INFER_ERROR_ARGUMENT);
    o.threads = 1;
    o.numerics = 9;
    assert_int_equal(cpu_device_create(&alloc_default, &o, &d, &err), INFER_ERROR_ARGUMENT);
    assert_null(d);
    assert_true(cpu_device_can_multiply(INFER_TYPE_F32) && cpu_device_can_multiply(INFER_TYPE_Q4_K));
    assert_false(cpu_device_can_multiply(INFER_TYPE_F64) || cpu_device_can_multiply(INFER_TYPE_I32) || cpu_device_can_multiply(-1)
                 || cpu_device_can_multiply(1000));
}

/* The n-th allocation fails, for every n: creation reports it, operations become a sticky failure that sync reports and clears. */
static void test_no_memory(void **state)
{
    (void)state;
    int failures = 0;
    for (uint64_t n = 1;; n++) {
        struct test_alloc t = {.fail_at = n};
        struct alloc a = test_alloc_of(&t);
        struct cpu_device_options o = {INFER_CPU_AUTO, INFER_NUMERICS_EXACT, 2, NULL, NULL};
        struct device *d = NULL;
        infer_status s = cpu_device_create(&a, &o, &d, NULL);
        if (s) {
            assert_int_equal(s, INFER_ERROR_NO_MEMORY);
            assert_int_equal(t.live, 0);
            failures++;
            continue;
        }
        static float x[64 * 4], w[64 * 64], y[64 * 4];
        struct dev_ref src = {NULL, 0}, dst = {NULL, 0}, kv = {NULL, 0};
        struct dev_weight dw = {.type = INFER_TYPE_Q8_0, .n_in = 64, .n_out = 32, .row_bytes = 68};
        int ok = !d->ops->import(d, w, sizeof w, &dw.data.buf, NULL) && !d->ops->import(d, x, sizeof x, &src.buf, NULL)
                 && !d->ops->alloc(d, sizeof y, &dst.buf, NULL) && !d->ops->alloc(d, 64 * 64 * 2 * 4, &kv.buf, NULL);
        if (ok) {
            struct dev_seq seq = {0, 1, 0, &kv};
            struct dev_kv l = {INFER_KV_F32, 1, 64, 0, 64 * 64 * 4};
            d->ops->matmul(d, src, 64, 4, &(struct dev_matmul){.w = dw, .dst = dst, .dst_stride = 64}, 1);
            d->ops->kv_write(d, &l, src, 64, src, 64, &seq, 1);
            d->ops->attention(d, &(struct dev_attention){dst, src, 64, 64, 1, 1, 0, l, &seq, 1, (uint64_t[]){0}, (uint64_t[]){1}, {.pages = NULL}});
            s = d->ops->sync(d, NULL);
            assert_true(s == INFER_OK || s == INFER_ERROR_NO_MEMORY);
            assert_int_equal(d->ops->sync(d, NULL), INFER_OK);
        }
        failures += !ok || s;
        drop(d, dw.data), drop(d, src), drop(d, dst), drop(d, kv);
        d->ops->destroy(d);
        assert_int_equal(t.live, 0);
        if (ok && !s && t.calls < n)
            break;
    }
    assert_true(failures >= 9);
}

static void test_unsupported(void **state)
{
    (void)state;
    struct device *d = plain();
    static float x[64 * 64];
    struct dev_ref r = {NULL, 0};
    assert_int_equal(d->ops->import(d, x, sizeof x, &r.buf, NULL), INFER_OK);
    struct dev_ref y = buffer(d, 256);
    struct dev_weight w = {.data = r, .type = INFER_TYPE_I32, .n_in = 32, .n_out = 32, .row_bytes = 128};
    d->ops->matmul(d, r, 32, 1, &(struct dev_matmul){.w = w, .dst = y, .dst_stride = 32}, 1);
    infer_error err;
    assert_int_equal(d->ops->sync(d, &err), INFER_ERROR_INTERNAL);
    assert_int_equal(d->ops->sync(d, &err), INFER_OK);
    drop(d, r), drop(d, y);
    d->ops->destroy(d);
}

/* After a few steps nothing is allocated any more. */
static void test_steady(void **state)
{
    (void)state;
    struct test_alloc t = {0};
    struct alloc a = test_alloc_of(&t);
    struct cpu_device_options o = {INFER_CPU_AUTO, INFER_NUMERICS_EXACT, 2, NULL, NULL};
    struct device *d = NULL;
    assert_int_equal(cpu_device_create(&a, &o, &d, NULL), INFER_OK);
    enum { N = 3000 };
    struct dev_ref pages[(N + 63) / 64], x = buffer(d, 4096), y = buffer(d, 4096);
    static const float zeros[1024];
    d->ops->write(d, x, zeros, sizeof zeros);
    struct dev_kv l = {INFER_KV_F16, 1, 64, 0, 64 * 64 * 2};
    for (size_t p = 0; p < sizeof pages / sizeof *pages; p++)
        pages[p] = buffer(d, 64 * 64 * 4);
    uint64_t calls = 0;
    for (uint64_t e = 0; e < N; e++) {
        struct dev_seq seq = {0, 1, e, pages};
        d->ops->kv_write(d, &l, x, 64, x, 64, &seq, 1);
        d->ops->attention(d, &(struct dev_attention){y, x, 64, 64, 1, 1, 0, l, &seq, 1, (uint64_t[]){0}, (uint64_t[]){e + 1}, {.pages = NULL}});
        if (e == 2500)
            calls = t.calls;
    }
    assert_int_equal(t.calls, calls);
    assert_int_equal(d->ops->sync(d, NULL), INFER_OK);
    for (size_t p = 0; p < sizeof pages / sizeof *pages; p++)
        drop(d, pages[p]);
    drop(d, x), drop(d, y);
    d->ops->destroy(d);
    assert_int_equal(t.live, 0);
}

struct stopping {
    int asked, at; /* says yes the at-th time and from then on */
};

static bool stop_at(void *user)
{
    struct stopping *s = user;
    return ++s->asked >= s->at;
}

/* Whenever the device was told to stop, also within an operation too small for the pool, the next sync says so; then all is as before. */
static void test_stopped(void **state)
{
    (void)state;
    enum { N = 200 };
    struct device *d = make(INFER_CPU_AUTO, INFER_NUMERICS_EXACT, 1);
    struct dev_kv l = {INFER_KV_F32, 1, 8, 0, 64 * 8 * 4};
    struct dev_ref pages[(N + 63) / 64];
    static const float zeros[64 * 8 * 2];
    for (size_t p = 0; p < sizeof pages / sizeof *pages; p++)
        pages[p] = upload(d, zeros, sizeof zeros);
    struct dev_ref x = upload(d, zeros, 32), y = buffer(d, 32);
    struct dev_seq seq = {0, 1, N - 1, pages};
    struct stopping s = {0, 1};
    d->ops->watch(d, stop_at, &s);
    for (bool said = true; said; s.at++) {
        s.asked = 0;
        d->ops->attention(d, &(struct dev_attention){y, x, 8, 8, 1, 1, 0, l, &seq, 1, (uint64_t[]){0}, (uint64_t[]){N}, {.pages = NULL}});
        said = s.asked >= s.at;
        assert_int_equal(d->ops->sync(d, NULL), said ? INFER_ERROR_CANCELLED : INFER_OK);
    }
    assert_true(s.at > 4); /* it is asked block by block */
    d->ops->watch(d, NULL, NULL);
    for (size_t p = 0; p < sizeof pages / sizeof *pages; p++)
        drop(d, pages[p]);
    drop(d, x), drop(d, y);
    d->ops->destroy(d);
}

/* The sum and the norm in one are the sum, then the norm; the result may go over what was added. */
static void test_add_norm(void **state)
{
    (void)state;
    struct device *d = plain();
    uint64_t seed = 61;
    enum { ROWS = 70, WIDTH = 301, BYTES = ROWS * WIDTH * 4 };
    float *x = randoms(&seed, ROWS * WIDTH), *y = randoms(&seed, ROWS * WIDTH), *w = randoms(&seed, WIDTH);
    float *want[2] = {malloc(BYTES), malloc(BYTES)}, *got = malloc(BYTES);
    for (int kind = 0; kind < 2; kind++) {
        struct dev_ref rx = upload(d, x, BYTES), ry = upload(d, y, BYTES), rw = upload(d, w, WIDTH * 4);
        struct dev_norm op = {.kind = kind ? DEV_NORM_LAYER : DEV_NORM_RMS, .dst = ry, .src = rx, .weight = rw, .n_outer = ROWS, .n_inner = 1,
                              .width = WIDTH, .dst_stride = WIDTH, .src_stride = WIDTH, .eps = 1e-5f};
        d->ops->add(d, rx, ry, ROWS * WIDTH);
        d->ops->norm(d, &op);
        d->ops->read(d, want[0], rx, BYTES);
        d->ops->read(d, want[1], ry, BYTES);
        d->ops->write(d, rx, x, BYTES);
        d->ops->write(d, ry, y, BYTES);
        op.add = ry;
        d->ops->norm(d, &op);
        d->ops->read(d, got, rx, BYTES);
        assert_memory_equal(got, want[0], BYTES);
        d->ops->read(d, got, ry, BYTES);
        assert_memory_equal(got, want[1], BYTES);
        drop(d, rx), drop(d, ry), drop(d, rw);
    }
    assert_int_equal(d->ops->sync(d, NULL), INFER_OK);
    free(x), free(y), free(w), free(want[0]), free(want[1]), free(got);
    d->ops->destroy(d);
}

static void test_read_rows(void **state)
{
    (void)state;
    struct device *d = plain();
    uint64_t seed = 62;
    enum { ROWS = DEV_READ_ROWS };
    static const uint32_t widths[] = {1, 15, 160, 8192, 20011};
    for (size_t k = 0; k < sizeof widths / sizeof *widths; k++) {
        uint32_t width = widths[k];
        float *x = randoms(&seed, ROWS * width), *out = malloc(ROWS * (size_t)width * 4), *host[ROWS];
        bool want[ROWS], finite[ROWS];
        static const float bad[] = {INFINITY, -INFINITY, NAN};
        for (uint32_t i = 0; i < ROWS; i++) {
            host[i] = out + (size_t)(ROWS - 1 - i) * width; /* anywhere */
            want[i] = test_rand(&seed) % 2;
            x[(size_t)i * width] = 3.4e38f;
            if (!want[i])
                x[(size_t)i * width + test_rand(&seed) % width] = bad[i % 3];
        }
        struct dev_ref rx = upload(d, x, ROWS * (uint64_t)width * 4);
        for (uint32_t n = 1; n <= ROWS; n += 5) {
            memset(finite, 2, sizeof finite);
            d->ops->read_rows(d, host, rx, n, width, finite);
            for (uint32_t i = 0; i < n; i++) {
                assert_memory_equal(host[i], x + (size_t)i * width, width * 4);
                assert_int_equal(finite[i], want[i]);
            }
        }
        drop(d, rx);
        free(x), free(out);
    }
    assert_int_equal(d->ops->sync(d, NULL), INFER_OK);
    d->ops->destroy(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),  cmocka_unit_test(test_embed),       cmocka_unit_test(test_norm),
        cmocka_unit_test(test_matmul),  cmocka_unit_test(test_rope),        cmocka_unit_test(test_elements),
        cmocka_unit_test(test_attention), cmocka_unit_test(test_add_norm), cmocka_unit_test(test_read_rows),
        cmocka_unit_test(test_layer),   cmocka_unit_test(test_levels),      cmocka_unit_test(test_options),
        cmocka_unit_test(test_recording),
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_unsupported), cmocka_unit_test(test_steady),
        cmocka_unit_test(test_stopped),
    };
    return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
