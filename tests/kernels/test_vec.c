/* Every float kernel at every CPU level equals the scalar variant to the bit: random and special values, odd lengths, unaligned rows,
 * against guard pages on both sides. The scalar variant itself is pinned by a hash that all architectures must give. */
#include "testutil.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "infer/infer.h"
#include "kernels/cpu.h"
#include "kernels/math_scalar.h"
#include "kernels/vec.h"
#include "parity.h"

/* A row of n bytes that touches an unmapped page: behind it (end) or before it. */
struct room {
    char *base;
    size_t size;
};

static struct room room_of(size_t size)
{
    size = (size + 4095) / 4096 * 4096;
    struct room r = {test_guard_alloc(size), size};
    assert_non_null(r.base);
    return r;
}

static void *place(struct room r, size_t n, int end)
{
    assert_true(n <= r.size);
    return end ? r.base + (r.size - n) : r.base;
}

static void room_free(struct room r)
{
    test_guard_free(r.base, r.size);
}

/* Kinds of values: 0 like activations, 1 any finite bits, 2 mostly special ones, 3 small and subnormal. */
enum { N_KINDS = 4 };

static float value(uint64_t *seed, int kind)
{
    static const float special[] = {0.0f, -0.0f, 0x1p-149f, -0x1p-149f, 0x1p-126f, 1.0f, -1.0f, 0x1.fffffep127f, -0x1.fffffep127f,
                                    INFINITY, -INFINITY, NAN, 65504.0f, 65520.0f, 0x1p-24f, 0x1p-25f, 88.7228f, -103.97f, 0.625f, 0.925f};
    uint64_t r = test_rand(seed);
    if (kind == 1 || (kind == 2 && r >> 60 < 4)) {
        uint32_t u = (uint32_t)r;
        return math_float((u >> 23 & 0xFF) == 0xFF ? u & 0xBFFFFFFF : u);
    }
    if (kind == 2)
        return special[r % (sizeof special / sizeof *special)];
    if (kind == 3)
        return test_rand_f32(seed) * (r & 1 ? 0x1p-140f : 0x1p-70f);
    return test_rand_f32(seed) * 3.0f;
}

static void fill(float *x, size_t n, uint64_t *seed, int kind)
{
    for (size_t i = 0; i < n; i++)
        x[i] = value(seed, kind);
}

static void same_floats(const float *got, const float *want, size_t n)
{
    parity_case();
    for (size_t i = 0; i < n; i++) {
        if (isnan(want[i]) ? !isnan(got[i]) : math_bits(got[i]) != math_bits(want[i])) {
            print_message("element %zu of %zu: %a, scalar %a\n", i, n, (double)got[i], (double)want[i]);
            fail();
        }
    }
}

static const uint32_t lengths[] = {1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 47, 48, 63, 64, 65, 100, 128, 255, 256, 577, 1000, 1023};
enum { N_LENGTHS = sizeof lengths / sizeof *lengths, MAX_LEN = 1024 };

/* Runs `body` for every length, kind of values and side of the guard page; a, b, c, want are rows of n floats, got and a lie at guards. */
#define FOR_ROWS(body)                                                                                                 \
    struct room ra = room_of(MAX_LEN * 8), rb = room_of(MAX_LEN * 8), rg = room_of(MAX_LEN * 8);                         \
    static float c[2 * MAX_LEN], want[2 * MAX_LEN];                                                                     \
    uint64_t seed = 3;                                                                                                  \
    for (int t = 0; t < N_LENGTHS * N_KINDS * 2; t++) {                                                                 \
        uint32_t n = lengths[t % N_LENGTHS];                                                                            \
        int kind = t / N_LENGTHS % N_KINDS, end = t / N_LENGTHS / N_KINDS;                                              \
        float *a = place(ra, n * sizeof *a, end), *b = place(rb, n * sizeof *b, end), *got = place(rg, n * sizeof *got, end); \
        memset(rg.base, 0x5A, rg.size);                                                                                 \
        fill(a, n, &seed, kind);                                                                                        \
        fill(b, n, &seed, kind);                                                                                        \
        fill(c, n, &seed, kind);                                                                                        \
        body;                                                                                                           \
        if (!end)                                                                                                       \
            check_untouched((const char *)(got + n), rg.base + rg.size);                                                \
        (void)want;                                                                                                     \
    }                                                                                                                   \
    room_free(ra);                                                                                                      \
    room_free(rb);                                                                                                      \
    room_free(rg)

static void check_untouched(const char *from, const char *to)
{
    for (; from < to; from++)
        assert_int_equal(*from, 0x5A);
}

static void check_vec_rms_norm_fn(vec_rms_norm_fn *ref, vec_rms_norm_fn *f)
{
    FOR_ROWS({
        ref(want, a, b, n, 1e-5f);
        f(got, a, b, n, 1e-5f);
        same_floats(got, want, n);
        memcpy(got, a, n * sizeof *a);
        f(got, got, b, n, 1e-5f);
        same_floats(got, want, n);
    });
}

static void check_vec_layer_norm_fn(vec_layer_norm_fn *ref, vec_layer_norm_fn *f)
{
    FOR_ROWS({
        ref(want, a, b, c, n, 1e-5f);
        f(got, a, b, c, n, 1e-5f);
        same_floats(got, want, n);
        ref(want, a, b, NULL, n, 0.0f);
        memcpy(got, a, n * sizeof *a);
        f(got, got, b, NULL, n, 0.0f);
        same_floats(got, want, n);
    });
}

static void check_vec_rope_table_fn(vec_rope_table_fn *ref, vec_rope_table_fn *f)
{
    static const uint32_t positions[] = {0, 1, 2, 1000, 131071, 16777216, 16777217, 2147483647, 4294967295u};
    FOR_ROWS({
        uint32_t half = n / 2;
        for (uint32_t i = 0; i < half && kind == 0; i++)
            a[i] = 1.0f / (1.0f + (float)i * fabsf(b[i]));
        for (int p = 0; p < 9; p++) {
            ref(want, a, half, positions[p], 1.25f);
            f(got, a, half, positions[p], 1.25f);
            same_floats(got, want, 2 * half);
        }
        if (n & 1)
            memset(got + n - 1, 0x5A, sizeof *got);
    });
}

static void check_vec_rope_fn(vec_rope_fn *ref, vec_rope_fn *f)
{
    FOR_ROWS({
        uint32_t even = n & ~1u;
        memcpy(want, a, n * sizeof *a);
        memcpy(got, a, n * sizeof *a);
        ref(want, b, even);
        f(got, b, even);
        same_floats(got, want, n);
    });
}

static void check_vec_act_fn(vec_act_fn *ref, vec_act_fn *f)
{
    FOR_ROWS({
        ref(want, a, b, n);
        f(got, a, b, n);
        same_floats(got, want, n);
        memcpy(got, a, n * sizeof *a);
        f(got, got, b, n);
        same_floats(got, want, n);
        ref(want, a, NULL, n);
        f(got, a, NULL, n);
        same_floats(got, want, n);
    });
    static float x[4096], y[4096], z[4096];
    for (uint64_t u = 0; u <= UINT32_MAX;) { /* a million arguments over all bit patterns */
        for (int i = 0; i < 4096; i++, u += 4099)
            x[i] = math_float((uint32_t)u);
        ref(y, x, NULL, 4096);
        f(z, x, NULL, 4096);
        same_floats(z, y, 4096);
    }
}

static void check_vec_add_fn(vec_add_fn *ref, vec_add_fn *f)
{
    FOR_ROWS({
        memcpy(want, a, n * sizeof *a);
        memcpy(got, a, n * sizeof *a);
        ref(want, b, n);
        f(got, b, n);
        same_floats(got, want, n);
    });
}

static void check_vec_scale_fn(vec_scale_fn *ref, vec_scale_fn *f)
{
    FOR_ROWS({
        memcpy(want, a, n * sizeof *a);
        memcpy(got, a, n * sizeof *a);
        ref(want, n, c[0]);
        f(got, n, c[0]);
        same_floats(got, want, n);
    });
}

static void check_vec_expand_fn(vec_expand_fn *ref, vec_expand_fn *f)
{
    static const uint32_t ranks[] = {1, 3, 16, 33};
    FOR_ROWS({
        for (int r = 0; r < 4; r++) {
            size_t wide = n / ranks[r]; /* the rows of w lie in b */
            memcpy(want, a, n * sizeof *a);
            memcpy(got, a, n * sizeof *a);
            ref(want, b, wide, c, n ? ranks[r] : 0, wide);
            f(got, b, wide, c, n ? ranks[r] : 0, wide);
            same_floats(got, want, n);
        }
    });
}

static void check_vec_softcap_fn(vec_softcap_fn *ref, vec_softcap_fn *f)
{
    FOR_ROWS({
        memcpy(want, a, n * sizeof *a);
        memcpy(got, a, n * sizeof *a);
        ref(want, n, kind == 3 ? 0x1p-70f : 30.0f);
        f(got, n, kind == 3 ? 0x1p-70f : 30.0f);
        same_floats(got, want, n);
    });
    static float x[4096], y[4096];
    for (uint64_t u = 0; u <= UINT32_MAX;) {
        for (int i = 0; i < 4096; i++, u += 4099)
            x[i] = y[i] = math_float((uint32_t)u);
        ref(x, 4096, 1.0f);
        f(y, 4096, 1.0f);
        same_floats(y, x, 4096);
    }
}

static void check_vec_max_fn(vec_max_fn *ref, vec_max_fn *f)
{
    FOR_ROWS({
        float w = ref(a, n);
        float g = f(a, n);
        same_floats(&g, &w, 1);
        for (uint32_t i = 0; i < n; i++)
            a[i] = test_rand(&seed) & 1 ? 0.0f : -0.0f;
        w = ref(a, n);
        g = f(a, n);
        same_floats(&g, &w, 1);
    });
    float none = f(NULL, 0);
    assert_true(none == -INFINITY);
}

/* Conversions keep NaNs to the bit. */
static void check_vec_narrow_fn(vec_narrow_fn *ref, vec_narrow_fn *f)
{
    static uint16_t w[4096], g[4096];
    static float x[4096];
    FOR_ROWS({
        uint16_t *h = place(rg, n * sizeof *h, end);
        ref(w, a, n);
        f(h, a, n);
        assert_memory_equal(h, w, n * sizeof *h);
        parity_case();
        memset(h, 0x5A, n * sizeof *h);
    });
    for (uint64_t u = 0; u <= UINT32_MAX;) {
        for (int i = 0; i < 4096; i++, u += i % 3 == 2 ? 2047 : 1) /* ties and their neighbours */
            x[i] = math_float((uint32_t)u);
        ref(w, x, 4096);
        f(g, x, 4096);
        assert_memory_equal(g, w, sizeof w);
    }
}

static void check_vec_widen_fn(vec_widen_fn *ref, vec_widen_fn *f)
{
    static uint16_t all[65536];
    static float w[65536], g[65536];
    for (uint32_t i = 0; i < 65536; i++)
        all[i] = (uint16_t)i;
    ref(w, all, 65536);
    f(g, all, 65536);
    assert_memory_equal(g, w, sizeof w);
    FOR_ROWS({
        uint16_t *h = place(ra, n * sizeof *h, end);
        for (uint32_t i = 0; i < n; i++)
            h[i] = (uint16_t)test_rand(&seed);
        ref(want, h, n);
        f(got, h, n);
        assert_memory_equal(got, want, n * sizeof *got);
        parity_case();
    });
}

/* Weights of `elem` bytes: random values of the kind in that format. */
static void fill_weights(uint8_t *w, size_t n, size_t elem, int f16, uint64_t *seed, int kind)
{
    for (size_t i = 0; i < n; i++) {
        float v = value(seed, kind);
        uint16_t h;
        if (elem == 4) {
            memcpy(w + 4 * i, &v, 4);
            continue;
        }
        if (f16)
            vec_f32_to_f16_scalar(&h, &v, 1);
        else
            vec_f32_to_bf16_scalar(&h, &v, 1);
        memcpy(w + 2 * i, &h, 2);
    }
}

static _Alignas(64) char fmm_scratch[FMM_SCRATCH_BYTES];

struct fmm_case {
    uint32_t n_in, n_out, n_col, row0, row1;
    uint32_t shift; /* bytes by which rows are misaligned */
};

/* The last row of w, the last column of x, and y end at guard pages, or begin at them. */
static void check_fmm(vec_matmul_fn *ref, vec_matmul_fn *f, struct fmm_case t, int kind, int end)
{
    int f16 = ref == vec_matmul_f16_scalar;
    size_t elem = ref == vec_matmul_f32_scalar ? 4 : 2, row_bytes = t.n_in * elem + t.shift;
    size_t w_bytes = row_bytes * (t.n_out - 1) + t.n_in * elem, x_stride = t.n_in + 3, y_stride = t.n_out + 1;
    size_t n_x = x_stride * (t.n_col - 1) + t.n_in, n_y = y_stride * (t.n_col - 1) + t.n_out;
    struct room rw = room_of(w_bytes + t.shift), rx = room_of(n_x * 4), ry = room_of(n_y * 4), rz = room_of(n_y * 4);
    uint64_t seed = 5 + t.n_in;
    uint8_t *w = (uint8_t *)place(rw, w_bytes + (end ? 0 : t.shift), end) + (end ? 0 : t.shift);
    float *x = place(rx, n_x * 4, end), *y = place(ry, n_y * 4, end), *z = place(rz, n_y * 4, end);
    for (uint32_t r = 0; r < t.n_out; r++)
        fill_weights(w + r * row_bytes, t.n_in, elem, f16, &seed, kind);
    fill(x, n_x, &seed, kind == 1 ? 0 : kind);
    memset(ry.base, 0x5A, ry.size);
    memset(rz.base, 0x5A, rz.size);
    struct fmm_args a = {w, row_bytes, t.n_in, t.row0, t.row1, t.n_col, x, x_stride, z, y_stride, fmm_scratch};
    ref(&a);
    a.y = y;
    f(&a);
    same_floats(y, z, n_y); /* what no row writes holds the same filling */
    if (!end)
        check_untouched((const char *)(y + n_y), ry.base + ry.size);
    room_free(rw);
    room_free(rx);
    room_free(ry);
    room_free(rz);
}

static void check_vec_matmul_fn(vec_matmul_fn *ref, vec_matmul_fn *f)
{
    static const struct fmm_case cases[] = {
        {1, 1, 1, 0, 1, 0},      {15, 3, 2, 0, 3, 0},    {16, 8, 1, 0, 8, 0},    {17, 9, 1, 0, 9, 1},     {31, 13, 3, 0, 13, 3},
        {32, 4, 4, 0, 4, 0},     {33, 5, 5, 0, 5, 2},    {48, 16, 6, 0, 16, 0},  {64, 7, 7, 1, 6, 5},     {100, 11, 8, 2, 11, 0},
        {128, 12, 11, 0, 12, 0}, {130, 6, 13, 3, 6, 7},  {256, 20, 1, 5, 20, 0}, {576, 17, 18, 0, 17, 0}, {1023, 5, 12, 0, 5, 1},
        {2048, 9, 100, 0, 9, 0}, {20000, 4, 30, 0, 4, 0}, {700, 75, 13, 2, 75, 0}, {1281, 66, 9, 0, 66, 1},
        {2500, 140, 96, 0, 140, 0}, {4113, 11, 97, 3, 11, 2}, {513, 10, 7, 0, 10, 0}, {512, 2, 193, 0, 2, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int kind = 0; kind < (cases[i].n_in > 1000 ? 1 : N_KINDS); kind++)
            for (int end = 0; end < 2; end++)
                check_fmm(ref, f, cases[i], kind, end);
}

/* One column gives the same bits alone and among others, whole and in parts of rows. */
static void check_fmm_splits(const struct vec_kernels *k)
{
    enum { N_IN = 200, N_OUT = 37, N_COL = 23 };
    static float w[N_OUT * N_IN], x[N_COL * N_IN], y[N_COL * N_OUT], z[N_COL * N_OUT];
    uint64_t seed = 9;
    fill(w, N_OUT * N_IN, &seed, 0);
    fill(x, N_COL * N_IN, &seed, 0);
    struct fmm_args a = {w, N_IN * 4, N_IN, 0, N_OUT, N_COL, x, N_IN, y, N_OUT, fmm_scratch};
    k->matmul_f32(&a);
    for (uint32_t c = 0; c < N_COL; c++)
        for (uint32_t r = 0; r < N_OUT;) {
            uint32_t next = r + 1 + (uint32_t)(test_rand(&seed) % 11);
            next = next > N_OUT ? N_OUT : next;
            struct fmm_args b = {w, N_IN * 4, N_IN, r, next, 1, x + c * N_IN, N_IN, z + c * N_OUT, N_OUT, NULL};
            k->matmul_f32(&b);
            r = next;
        }
    assert_memory_equal(y, z, sizeof y);
    parity_case();
}

#define RUN(name, type)                                                                                                \
    static void run_##name(const struct vec_kernels *ref, const struct vec_kernels *k)                                 \
    {                                                                                                                  \
        check_##type(ref->name, k->name);                                                                              \
    }
VEC_SLOTS(RUN)

static const struct {
    const char *name;
    void (*run)(const struct vec_kernels *ref, const struct vec_kernels *k);
} slots[] = {
#define ROW(name, type) {#name, run_##name},
    VEC_SLOTS(ROW)
};
enum { N_SLOTS = sizeof slots / sizeof *slots };

static const struct {
    int32_t level;
    const char *name;
} levels[] = {
#define LEVEL(id, name) {id, name},
    CPU_LEVELS(LEVEL)
};
enum { N_LEVELS = sizeof levels / sizeof *levels };

struct parity {
    int32_t level;
    size_t slot; /* N_SLOTS: the splits */
};

static void test_parity(void **state)
{
    const struct parity *p = *state;
    struct vec_kernels ref, k;
    if (!cpu_level_supported(p->level))
        skip();
    assert_int_equal(vec_kernels_init(&ref, INFER_CPU_SCALAR, NULL), INFER_OK);
    assert_int_equal(vec_kernels_init(&k, p->level, NULL), INFER_OK);
    if (p->slot == N_SLOTS)
        check_fmm_splits(&k);
    else
        slots[p->slot].run(&ref, &k);
    parity_report(p->slot == N_SLOTS ? "matmul_splits" : slots[p->slot].name, p->level);
}

/* ---- The bits of the scalar variant ---- */

static uint64_t hash_floats(uint64_t h, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        h ^= isnan(x[i]) ? 0x7FC00000u : math_bits(x[i]);
        h *= 0x100000001B3u;
    }
    return h;
}

static uint64_t hash_rows(uint64_t h, const struct vec_kernels *k, uint64_t *seed, int kind, uint32_t n)
{
    static float a[MAX_LEN], b[MAX_LEN], c[MAX_LEN], y[MAX_LEN];
    static uint16_t half[MAX_LEN];
    vec_act_fn *const acts[] = {k->silu, k->gelu_tanh, k->gelu_erf, k->relu};
    fill(a, n, seed, kind);
    fill(b, n, seed, kind);
    fill(c, n, seed, kind);
    k->rms_norm(y, a, b, n, 1e-6f);
    h = hash_floats(h, y, n);
    k->layer_norm(y, a, b, c, n, 1e-6f);
    h = hash_floats(h, y, n);
    for (int i = 0; i < 4; i++) {
        acts[i](y, a, b, n);
        h = hash_floats(h, y, n);
    }
    k->rope_table(y, b, n / 2, 54321, 1.1f);
    h = hash_floats(h, y, n / 2 * 2);
    k->rope_pairs(a, y, n);
    k->rope_halves(a, y, n);
    h = hash_floats(h, a, n);
    k->add(a, c, n);
    k->scale(a, n, 0.3f);
    k->softcap(a, n, 30.0f);
    h = hash_floats(h, a, n);
    y[0] = k->max(a, n);
    h = hash_floats(h, y, 1);
    k->f32_to_f16(half, b, n);
    k->f16_to_f32(y, half, n);
    h = hash_floats(h, y, n);
    k->f32_to_bf16(half, b, n);
    k->bf16_to_f32(y, half, n);
    h = hash_floats(h, y, n);
    struct fmm_args m = {a, 4 * (n / 4), n / 4, 0, 4, 1, b, n, y, 4, NULL};
    k->matmul_f32(&m);
    for (uint32_t i = 0; i < n; i++)
        half[i] = (uint16_t)(test_rand(seed) & 0xBBFF);
    m.w = half;
    m.row_bytes = 2 * (n / 4);
    m.y = y + 4;
    k->matmul_f16(&m);
    m.y = y + 8;
    k->matmul_bf16(&m);
    return n < 12 ? h : hash_floats(h, y, 12);
}

/* The same on x86-64 and AArch64; it changes with the numerics version only. */
#define GOLDEN UINT64_C(0x376DB14599FC8269)

static void test_golden(void **state)
{
    (void)state;
    struct vec_kernels k;
    uint64_t h = 0xCBF29CE484222325u, seed = 11;
    assert_int_equal(vec_kernels_init(&k, INFER_CPU_SCALAR, NULL), INFER_OK);
    for (int kind = 0; kind < N_KINDS; kind++)
        for (int i = 0; i < N_LENGTHS; i++)
            h = hash_rows(h, &k, &seed, kind, lengths[i]);
    for (uint64_t u = 0; u <= UINT32_MAX; u += 65521) {
        float x = math_float((uint32_t)u), y[6] = {math_exp(x), math_tanh(x), math_erf(x), math_log(x)};
        math_sincos(x, &y[4], &y[5]);
        h = hash_floats(h, y, 6);
    }
    print_message("hash 0x%016llX\n", (unsigned long long)h);
    assert_true(h == GOLDEN);
}

/* ---- What the formulas are for ---- */

static void test_meaning(void **state)
{
    (void)state;
    enum { N = 333 };
    static float x[N], w[N], b[N], y[N];
    uint64_t seed = 21;
    double ss = 0, sum = 0, var = 0;
    fill(x, N, &seed, 0);
    fill(w, N, &seed, 0);
    fill(b, N, &seed, 0);
    for (int i = 0; i < N; i++) {
        ss += (double)x[i] * (double)x[i];
        sum += (double)x[i];
    }
    for (int i = 0; i < N; i++)
        var += ((double)x[i] - sum / N) * ((double)x[i] - sum / N);
    vec_rms_norm_scalar(y, x, w, N, 1e-5f);
    for (int i = 0; i < N; i++)
        assert_true(fabs((double)y[i] - (double)x[i] / sqrt(ss / N + 1e-5) * (double)w[i]) < 1e-5);
    vec_layer_norm_scalar(y, x, w, b, N, 1e-5f);
    for (int i = 0; i < N; i++)
        assert_true(fabs((double)y[i] - (((double)x[i] - sum / N) / sqrt(var / N + 1e-5) * (double)w[i] + (double)b[i])) < 2e-5);
    vec_silu_scalar(y, x, b, N);
    for (int i = 0; i < N; i++)
        assert_true(fabs((double)y[i] - (double)x[i] / (1 + exp(-(double)x[i])) * (double)b[i]) < 1e-5);
    vec_gelu_tanh_scalar(y, x, NULL, N);
    for (int i = 0; i < N; i++) {
        double v = (double)x[i], u = sqrt(2 / 3.14159265358979324) * (v + 0.044715 * v * v * v);
        assert_true(fabs((double)y[i] - 0.5 * v * (1 + tanh(u))) < 1e-6);
    }
    vec_gelu_erf_scalar(y, x, NULL, N);
    for (int i = 0; i < N; i++)
        assert_true(fabs((double)y[i] - 0.5 * (double)x[i] * (1 + erf((double)x[i] / sqrt(2)))) < 1e-6);
    float table[4], v[4] = {1, 2, 3, 4}, freq[2] = {1.0f, 0.01f};
    vec_rope_table_scalar(table, freq, 2, 7, 1.0f);
    vec_rope_halves_scalar(v, table, 4);
    assert_true(fabs((double)v[0] - (cos(7) - 3 * sin(7))) < 1e-6 && fabs((double)v[2] - (3 * cos(7) + sin(7))) < 1e-6);
    assert_true(fabs((double)v[1] - (2 * cos(.07) - 4 * sin(.07))) < 1e-6);
}

int main(void)
{
    static struct parity cases[(N_SLOTS + 1) * N_LEVELS];
    static char names[(N_SLOTS + 1) * N_LEVELS][64];
    static struct CMUnitTest tests[(N_SLOTS + 1) * N_LEVELS + 2];
    size_t n = 0;
    for (size_t l = 0; l < N_LEVELS; l++) {
        for (size_t s = 0; s <= N_SLOTS; s++) {
            if (levels[l].level == INFER_CPU_SCALAR && s < N_SLOTS)
                continue;
            cases[n] = (struct parity){levels[l].level, s};
            snprintf(names[n], sizeof names[n], "%s_%s", s < N_SLOTS ? slots[s].name : "matmul_splits", levels[l].name);
            tests[n] = (struct CMUnitTest){names[n], test_parity, NULL, NULL, &cases[n]};
            n++;
        }
    }
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_golden);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_meaning);
    return _cmocka_run_group_tests("vec", tests, n, NULL, parity_table);
}
