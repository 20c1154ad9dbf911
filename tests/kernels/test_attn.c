/* Attention kernels: every variant equals scalar to the bit whatever queries are computed together, reads nothing outside a page's head, ignores what
 * is not visible; and scalar is close to softmax in double precision. */
#include "testutil.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "kernels/attn.h"
#include "kernels/cpu.h"
#include "kernels/math_scalar.h"
#include "parity.h"

struct variant {
    const char *name;
    int32_t level;
    struct attn_kernels k;
};

static const struct variant variants[] = {
#define VARIANT(name, level) {#name, level, {attn_block_##name, attn_widen_##name, attn_round8_##name, attn_merge_##name, attn_finish_##name}},
    ATTN_VARIANTS(VARIANT)
#undef VARIANT
};
#define N_VARIANTS (sizeof variants / sizeof *variants)

/* The kernels of the level that the test is about; skips what is not here. */
static struct attn_kernels kernels_of(void **state)
{
    struct attn_kernels k;
    int32_t level = *(const int32_t *)*state;
    if (!cpu_level_supported(level))
        skip();
    assert_int_equal(attn_kernels_init(&k, level, NULL), INFER_OK);
    return k;
}

enum { MAX_Q = 60 };

/* A page's head and queries, on guard pages. */
struct scene {
    int32_t type;
    uint32_t dim, n;
    size_t bytes;
    void *k, *v;
    float *q[MAX_Q];
    uint32_t j0[MAX_Q], j1[MAX_Q];
};

static size_t elem_of(int32_t type)
{
    return dev_kv_elem_bytes(type);
}

static size_t bytes_of(int32_t type, uint32_t dim)
{
    return (size_t)dim * 64 * elem_of(type) + dev_kv_groups(type, dim) * 128;
}

static uint16_t *scale_at(void *p, int32_t type, uint32_t dim, uint32_t j, uint32_t d)
{
    return (uint16_t *)(void *)((char *)p + (size_t)dim * 64) + d / (type == INFER_KV_INT8 ? 32 : 64) * 64 + j;
}

static void put_element(void *p, int32_t type, size_t i, float x)
{
    uint16_t h = type == INFER_KV_F16 ? f32_to_f16(x) : f32_to_bf16(x);
    if (type == INFER_KV_F32)
        ((float *)p)[i] = x;
    else
        ((uint16_t *)p)[i] = h;
}

/* Position j of a page's keys, or of its values. */
static void put(void *p, int32_t type, uint32_t dim, bool keys, uint32_t j, const float *x)
{
    int8_t codes[ATTN_MAX_HEAD_DIM];
    uint16_t scales[ATTN_MAX_HEAD_DIM / DEV_KV_MIN_GROUP];
    uint32_t group = dev_kv_group(type);
    if (group)
        attn_round8_scalar(codes, scales, x, dim, group);
    for (uint32_t d = 0; d < dim; d++) {
        size_t i = keys ? (size_t)d * 64 + j : (size_t)j * dim + d;
        if (!group) {
            put_element(p, type, i, x[d]);
            continue;
        }
        ((int8_t *)p)[i] = codes[d];
        *scale_at(p, type, dim, j, d) = scales[d / group];
    }
}

static void put_random(void *p, int32_t type, uint32_t dim, bool keys, uint32_t j, uint64_t *seed)
{
    float x[ATTN_MAX_HEAD_DIM];
    for (uint32_t d = 0; d < dim; d++)
        x[d] = test_rand_f32(seed);
    put(p, type, dim, keys, j, x);
}

static void put_all(void *p, int32_t type, uint32_t dim, bool keys, uint32_t j, float what)
{
    float x[ATTN_MAX_HEAD_DIM];
    for (uint32_t d = 0; d < dim; d++)
        x[d] = what;
    put(p, type, dim, keys, j, x);
}

static double get(void *p, int32_t type, uint32_t dim, bool keys, uint32_t j, uint32_t d)
{
    size_t i = keys ? (size_t)d * 64 + j : (size_t)j * dim + d;
    if (type == INFER_KV_F32)
        return ((const float *)p)[i];
    if (dev_kv_group(type))
        return (double)((const int8_t *)p)[i] * f16_to_f32(*scale_at(p, type, dim, j, d));
    uint16_t h = ((const uint16_t *)p)[i];
    return type == INFER_KV_F16 ? f16_to_f32(h) : bf16_to_f32(h);
}

/* A query ends at an unmapped page, or begins right after one. */
static size_t q_room(uint32_t dim, uint32_t i)
{
    return i % 2 ? 4096 : dim * 4;
}

static void scene_make(struct scene *s, uint64_t *seed, int32_t type, uint32_t dim, uint32_t n)
{
    *s = (struct scene){.type = type, .dim = dim, .n = n, .bytes = bytes_of(type, dim)};
    s->k = test_guard_alloc(s->bytes);
    s->v = test_guard_alloc(s->bytes);
    for (uint32_t j = 0; j < 64; j++) {
        put_random(s->k, type, dim, true, j, seed);
        put_random(s->v, type, dim, false, j, seed);
    }
    uint32_t union0 = 64, union1 = 0;
    for (uint32_t i = 0; i < n; i++) {
        s->q[i] = test_guard_alloc(q_room(dim, i));
        for (uint32_t d = 0; d < dim; d++)
            s->q[i][d] = test_rand_f32(seed) * (i % 5 == 4 ? 30.0f : 1.0f);
        s->j0[i] = i % 3 ? 0 : (uint32_t)(test_rand(seed) % 64);
        s->j1[i] = i % 7 == 1 ? 64 : s->j0[i] + 1 + (uint32_t)(test_rand(seed) % (64 - s->j0[i]));
        union0 = s->j0[i] < union0 ? s->j0[i] : union0;
        union1 = s->j1[i] > union1 ? s->j1[i] : union1;
    }
    for (uint32_t j = 0; j < 64; j++) /* nobody sees it: anything may lie there */
        if (j < union0 || j >= union1) {
            put_all(s->k, type, dim, true, j, NAN);
            put_all(s->v, type, dim, false, j, -INFINITY);
        }
}

static void scene_free(struct scene *s)
{
    test_guard_free(s->k, s->bytes);
    test_guard_free(s->v, s->bytes);
    for (uint32_t i = 0; i < s->n; i++)
        test_guard_free(s->q[i], q_room(s->dim, i));
}

/* The states after the block was taken in twice, `together` queries a call; freed by the caller. */
static float *run(const struct scene *s, attn_block_fn block, uint32_t together, float softcap)
{
    size_t each = attn_state_floats(s->dim);
    float *states = aligned_alloc(64, s->n * each * 4);
    struct attn_query q[MAX_Q];
    for (uint32_t i = 0; i < s->n; i++) {
        attn_begin(states + i * each, s->dim);
        q[i] = (struct attn_query){s->q[i], states + i * each, s->j0[i], s->j1[i]};
    }
    struct attn_block_args a = {.kv_type = s->type, .head_dim = s->dim, .k = s->k, .v = s->v, .scale = 0.125f, .softcap = softcap,
                                .ahead_k = together % 2 ? s->k : NULL, .ahead_v = s->v, .ahead_bytes = s->bytes};
    for (int round = 0; round < 2; round++)
        for (uint32_t i = 0; i < s->n; i += together) {
            a.queries = q + i;
            a.n_query = s->n - i < together ? s->n - i : together;
            block(&a);
        }
    for (uint32_t i = 0; i < s->n; i++)
        attn_close(states + i * each);
    return states;
}

static void same_states(const struct scene *s, const float *a, const float *b, const char *name)
{
    size_t each = attn_state_floats(s->dim);
    for (uint32_t i = 0; i < s->n; i++, a += each, b += each)
        if (memcmp(a, b, 2 * 4) || memcmp(a + ATTN_STATE_L, b + ATTN_STATE_L, (16 + s->dim) * 4))
            fail_msg("%s: type %d, head_dim %u, query %u of %u differs from scalar", name, (int)s->type, s->dim, i, s->n);
    parity_case();
}

static void test_block(void **state)
{
    int32_t level = *(const int32_t *)*state;
    struct attn_kernels kernels = kernels_of(state);
    static const uint32_t dims[] = {8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 96, 112, 120, 128, 192, 256, 512};
    uint64_t seed = 21;
    for (size_t t = 0; t <= INFER_KV_INT8_64; t++)
        for (size_t d = 0; d < sizeof dims / sizeof *dims; d++) {
            struct scene s;
            scene_make(&s, &seed, (int32_t)t, dims[d], dims[d] > 128 ? 7 : dims[d] == 24 ? MAX_Q : 1 + (uint32_t)(test_rand(&seed) % 20));
            float softcap = d % 3 ? 0.0f : 5.0f;
            float *want = run(&s, attn_block_scalar, 1, softcap);
            for (uint32_t together = 1; together <= MAX_Q; together = together == 8 ? MAX_Q : together + 1) {
                float *got = run(&s, kernels.block, together, softcap);
                same_states(&s, got, want, cpu_level_name(level));
                free(got);
            }
            free(want);
            scene_free(&s);
        }
    parity_report("blocks", level);
}

/* A page widened beforehand is the same page: its f32 form has the elements of the others, to the bit. */
static void test_widen(void **state)
{
    int32_t level = *(const int32_t *)*state;
    struct attn_kernels kernels = kernels_of(state);
    static const uint32_t dims[] = {8, 16, 24, 40, 64, 72, 128, 200, 256};
    uint64_t seed = 25;
    for (int32_t t = 0; t <= INFER_KV_INT8_64; t++)
        for (size_t d = 0; d < sizeof dims / sizeof *dims; d++) {
            struct scene s;
            scene_make(&s, &seed, t, dims[d], 3);
            size_t n = (size_t)dims[d] * 64;
            struct attn_block_args a = {.kv_type = t, .head_dim = dims[d], .k = s.k, .v = s.v};
            float *want_k = test_guard_alloc(n * 4), *want_v = test_guard_alloc(n * 4), *k = test_guard_alloc(n * 4),
                  *v = test_guard_alloc(n * 4);
            for (uint32_t j = 0; j < 64; j++) { /* NaNs are not compared */
                put_random(s.k, t, dims[d], true, j, &seed);
                put_random(s.v, t, dims[d], false, j, &seed);
            }
            attn_widen_scalar(want_k, want_v, &a);
            for (uint32_t j = 0; j < 64; j++)
                for (uint32_t i = 0; i < dims[d]; i++) {
                    assert_true((double)want_k[i * 64 + j] == get(s.k, t, dims[d], true, j, i));
                    assert_true((double)want_v[j * dims[d] + i] == get(s.v, t, dims[d], false, j, i));
                }
            memset(k, 0x55, n * 4), memset(v, 0x55, n * 4);
            kernels.widen(k, v, &a);
            assert_memory_equal(k, want_k, n * 4);
            assert_memory_equal(v, want_v, n * 4);
            parity_case();
            test_guard_free(want_k, n * 4), test_guard_free(want_v, n * 4), test_guard_free(k, n * 4), test_guard_free(v, n * 4);
            scene_free(&s);
        }
    parity_report("pages widened", level);
}

/* What a group of int8 becomes. */
static void check_group(const float *x, uint32_t n, const int8_t *codes, uint16_t scale)
{
    double amax = 0, d = f16_to_f32(scale);
    for (uint32_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) {
            assert_true(isnan(d));
            return;
        }
        amax = fabs((double)x[i]) > amax ? fabs((double)x[i]) : amax;
    }
    assert_int_equal(scale, f32_to_f16((float)amax / 127) < 0x7C00 ? f32_to_f16((float)amax / 127) : 0x7E00);
    for (uint32_t i = 0; i < n && !isnan(d); i++) {
        assert_true(codes[i] >= -127);
        double off = fabs((double)x[i] - codes[i] * d), past = fabs((double)x[i]) - 127 * d;
        assert_true(off <= (past > 0 && codes[i] * (x[i] < 0 ? -1 : 1) == 127 ? past : d * 0.5000001) || (d == 0 && codes[i] == 0));
    }
}

static void test_round8(void **state)
{
    int32_t level = *(const int32_t *)*state;
    struct attn_kernels kernels = kernels_of(state);
    enum { MAX = 256 };
    static const float kinds[] = {1, 1e-3f, 6e-6f, 1e-7f, 1e-30f, 0, 1e4f, 8.3e6f, 3e38f};
    uint64_t seed = 26;
    float *x = test_guard_alloc(MAX * 4);
    for (uint32_t n = 8; n <= MAX; n += n < 80 ? 8 : 88)
        for (size_t kind = 0; kind < 22; kind++) {
            uint32_t group = kind < 11 ? 32 : 64;
            float *from = x + MAX - n; /* up to the guard page */
            int8_t *want = test_guard_alloc(n), *got = test_guard_alloc(n);
            uint16_t want_scales[MAX / 32 + 1] = {0}, scales[MAX / 32 + 1] = {0};
            for (uint32_t i = 0; i < n; i++)
                from[i] = test_rand_f32(&seed) * kinds[kind % 11 < 9 ? kind % 11 : 0];
            if (kind % 11 >= 9)
                from[test_rand(&seed) % n] = kind % 11 == 9 ? NAN : -INFINITY;
            if (kind % 11 == 0) /* ties */
                for (uint32_t i = 0; i < n; i++)
                    from[i] = i % 32 ? (float)(int)(test_rand(&seed) % 250) * 0.5f - 62.0f : 127.0f;
            attn_round8_scalar(want, want_scales, from, n, group);
            for (uint32_t at = 0; at < n; at += group)
                check_group(from + at, n - at < group ? n - at : group, want + at, want_scales[at / group]);
            memset(got, 0x55, n);
            kernels.round8(got, scales, from, n, group);
            assert_memory_equal(got, want, n);
            assert_memory_equal(scales, want_scales, sizeof scales);
            parity_case();
            test_guard_free(want, n), test_guard_free(got, n);
        }
    test_guard_free(x, MAX * 4);
    parity_report("groups of int8", level);
}

/* One query over many pages with one variant, by parts; dst [dim]. Pages hold `len` positions. */
static void attend(const struct attn_kernels *k, const struct scene *pages, const float *q, uint64_t lo, uint64_t hi, float *dst)
{
    uint32_t dim = pages[0].dim;
    size_t each = attn_state_floats(dim);
    float *total = aligned_alloc(64, each * 4), *part = aligned_alloc(64, each * 4);
    attn_begin(total, dim);
    for (uint64_t p = 0; p * ATTN_PART < hi; p++) {
        attn_begin(part, dim);
        for (uint64_t b = p * 16; b < p * 16 + 16; b++) {
            uint64_t first = b * 64;
            if (first >= hi || first + 64 <= lo)
                continue;
            struct attn_query one = {q, part, lo > first ? (uint32_t)(lo - first) : 0, hi - first < 64 ? (uint32_t)(hi - first) : 64};
            struct attn_block_args a = {.kv_type = pages[b].type, .head_dim = dim, .k = pages[b].k, .v = pages[b].v, .scale = 0.25f,
                                        .queries = &one, .n_query = 1};
            k->block(&a);
        }
        attn_close(part);
        k->merge(total, part, dim, 1);
    }
    k->finish(dst, total, dim);
    free(total), free(part);
}

static void exact(struct scene *pages, const float *q, uint64_t lo, uint64_t hi, double *dst)
{
    uint32_t dim = pages[0].dim;
    double *s = malloc(hi * sizeof *s), max = -INFINITY, sum = 0;
    for (uint64_t e = lo; e < hi; e++) {
        s[e] = 0;
        for (uint32_t d = 0; d < dim; d++)
            s[e] += (double)q[d] * get(pages[e / 64].k, pages[0].type, dim, true, e % 64, d);
        s[e] *= 0.25;
        max = s[e] > max ? s[e] : max;
    }
    memset(dst, 0, dim * sizeof *dst);
    for (uint64_t e = lo; e < hi; e++)
        sum += s[e] = exp(s[e] - max);
    for (uint64_t e = lo; e < hi; e++)
        for (uint32_t d = 0; d < dim; d++)
            dst[d] += s[e] / sum * get(pages[e / 64].v, pages[0].type, dim, false, e % 64, d);
    free(s);
}

static void test_softmax(void **state)
{
    int32_t level = *(const int32_t *)*state;
    struct attn_kernels kernels = kernels_of(state);
    enum { PAGES = 40, DIM = 40 };
    uint64_t seed = 22;
    static const uint64_t ranges[][2] = {{0, 1},      {0, 63},      {0, 64},      {0, 65},     {5, 6},       {0, 1023},   {0, 1024},
                                         {0, 1025},   {0, 2048},    {0, 2500},    {1000, 2000}, {1023, 1025}, {1024, 2048}, {1100, 1200},
                                         {2047, 2048}, {100, 2500}, {2048, 2049}, {63, 65}};
    for (int32_t type = 0; type <= INFER_KV_INT8_64; type++) {
        struct scene pages[PAGES];
        for (int p = 0; p < PAGES; p++) {
            scene_make(&pages[p], &seed, type, DIM, 2);
            for (uint32_t j = 0; j < 64; j++) { /* all visible */
                put_random(pages[p].k, type, DIM, true, j, &seed);
                put_random(pages[p].v, type, DIM, false, j, &seed);
            }
        }
        for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++) {
            float q[DIM], got[DIM], other[DIM];
            double want[DIM];
            for (int d = 0; d < DIM; d++)
                q[d] = test_rand_f32(&seed);
            attend(&variants[0].k, pages, q, ranges[r][0], ranges[r][1], got);
            exact(pages, q, ranges[r][0], ranges[r][1], want);
            for (int d = 0; d < DIM; d++)
                assert_true(fabs((double)got[d] - want[d]) < 3e-6);
            attend(&kernels, pages, q, ranges[r][0], ranges[r][1], other);
            assert_memory_equal(got, other, sizeof got);
            parity_case();
        }
        for (int p = 0; p < PAGES; p++)
            scene_free(&pages[p]);
    }
    parity_report("ranges of positions", level);
}

/* Scores so far apart that weights vanish, and that the maximum comes late. */
static void test_extremes(void **state)
{
    int32_t level = *(const int32_t *)*state;
    struct attn_kernels kernels = kernels_of(state);
    uint64_t seed = 23;
    for (int kind = 0; kind < 3; kind++) {
        struct scene s;
        scene_make(&s, &seed, INFER_KV_F32, 16, 3);
        for (uint32_t i = 0; i < 3; i++) {
            s.j0[i] = 0, s.j1[i] = 64;
            for (uint32_t d = 0; d < 16; d++)
                s.q[i][d] = d ? 0.0f : 8.0f;
        }
        for (uint32_t i = 0; i < 16 * 64; i++) {
            ((float *)s.k)[i] = kind == 0 ? (float)(i % 64) * 20.0f : kind == 1 ? -(float)(i % 64) * 20.0f : 1e30f;
            ((float *)s.v)[i] = test_rand_f32(&seed);
        }
        float *want = run(&s, attn_block_scalar, 1, 0), out[16];
        attn_finish_scalar(out, want, 16);
        for (uint32_t d = 0; d < 16; d++) {
            double mean = 0;
            for (uint32_t j = 0; j < 64; j++)
                mean += (double)((float *)s.v)[j * 16 + d] / 64;
            double expect = kind == 0 ? ((float *)s.v)[63 * 16 + d] : kind == 1 ? ((float *)s.v)[d] : mean;
            assert_true(fabs((double)out[d] - expect) < 1e-5);
        }
        float *got = run(&s, kernels.block, 3, 0);
        same_states(&s, got, want, cpu_level_name(level));
        free(got);
        free(want);
        scene_free(&s);
    }
    parity_report("extremes", level);
}

/* A part that sees nothing leaves the others as they are, to the bit. */
static void check_merge(const struct attn_kernels *k)
{
    enum { DIM = 24 };
    float a[64], b[64], empty[64], into[64];
    uint64_t seed = 24;
    assert_true(attn_state_floats(DIM) == 64);
    attn_begin(empty, DIM);
    attn_close(empty);
    for (int i = 0; i < 64; i++) {
        a[i] = test_rand_f32(&seed);
        b[i] = test_rand_f32(&seed);
    }
    a[ATTN_STATE_SUM] = 3, b[ATTN_STATE_SUM] = 2;
    attn_begin(into, DIM);
    attn_close(into);
    k->merge(into, empty, DIM, 1);
    assert_memory_equal(into, empty, sizeof into);
    k->merge(into, a, DIM, 1);
    assert_memory_equal(into, a, sizeof into);
    k->merge(into, empty, DIM, 1);
    assert_memory_equal(into, a, sizeof into);
    k->merge(into, b, DIM, 1);
    float m = a[0] > b[0] ? a[0] : b[0], *dst = test_guard_alloc(DIM * 4);
    double wa = exp((double)(a[0] - m)), wb = exp((double)(b[0] - m));
    assert_true(into[ATTN_STATE_M] == m);
    assert_true(fabs(into[ATTN_STATE_SUM] - (3 * wa + 2 * wb)) < 1e-5);
    k->finish(dst, into, DIM);
    float scalar[DIM];
    attn_finish_scalar(scalar, into, DIM);
    assert_memory_equal(dst, scalar, sizeof scalar);
    parity_case();
    for (int d = 0; d < DIM; d++) {
        assert_true(fabs(into[ATTN_STATE_O + d] - (a[ATTN_STATE_O + d] * wa + b[ATTN_STATE_O + d] * wb)) < 1e-5);
        assert_true(dst[d] == into[ATTN_STATE_O + d] / into[ATTN_STATE_SUM]);
    }
    test_guard_free(dst, DIM * 4);
}

/* Many queries at once, some of whose parts are empty. */
static void check_merge_many(const struct attn_kernels *k)
{
    enum { N = 37, DIM = 40, EACH = 80 };
    uint64_t seed = 27;
    float *into = test_guard_alloc(N * EACH * 4), *parts = test_guard_alloc(N * EACH * 4), want[N * EACH];
    assert_true(attn_state_floats(DIM) == EACH);
    for (uint32_t i = 0; i < N; i++) {
        float *both[2] = {into + i * EACH, parts + i * EACH};
        for (int b = 0; b < 2; b++) {
            attn_begin(both[b], DIM);
            if ((i + (uint32_t)b) % 5 == 0)
                continue;
            for (uint32_t d = 0; d < EACH; d++)
                both[b][d] = test_rand_f32(&seed) * (d ? 1.0f : 20.0f);
            both[b][ATTN_STATE_SUM] = 1.5f;
        }
    }
    memcpy(want, into, sizeof want);
    attn_merge_scalar(want, parts, DIM, N);
    k->merge(into, parts, DIM, N);
    for (uint32_t i = 0; i < N; i++) {
        assert_memory_equal(into + i * EACH, want + i * EACH, 2 * 4);
        assert_memory_equal(into + i * EACH + ATTN_STATE_O, want + i * EACH + ATTN_STATE_O, DIM * 4);
        parity_case();
    }
    test_guard_free(into, N * EACH * 4), test_guard_free(parts, N * EACH * 4);
}

static void test_merge(void **state)
{
    struct attn_kernels kernels = kernels_of(state);
    check_merge_many(&kernels);
    check_merge(&kernels);
    parity_report("merges", *(const int32_t *)*state);
}

static void test_limits(void **state)
{
    (void)state;
    assert_true(attn_supports_head_dim(8) && attn_supports_head_dim(80) && attn_supports_head_dim(ATTN_MAX_HEAD_DIM));
    assert_false(attn_supports_head_dim(0) || attn_supports_head_dim(4) || attn_supports_head_dim(100) || attn_supports_head_dim(1032));
    struct attn_kernels k;
    assert_int_equal(attn_kernels_init(&k, INFER_CPU_SCALAR, NULL), INFER_OK);
    assert_true(k.block == attn_block_scalar);
    for (size_t v = 0; v < N_VARIANTS; v++)
        if (cpu_level_supported(variants[v].level)) {
            assert_int_equal(attn_kernels_init(&k, variants[v].level, NULL), INFER_OK);
            assert_true(k.block == variants[v].k.block);
        }
}

int main(void)
{
#define PER_LEVEL(level, name)                                                                                         \
    {"block " name, test_block, NULL, NULL, (void *)&(const int32_t){level}},                                          \
        {"softmax " name, test_softmax, NULL, NULL, (void *)&(const int32_t){level}},                                  \
        {"extremes " name, test_extremes, NULL, NULL, (void *)&(const int32_t){level}},                                \
        {"merge " name, test_merge, NULL, NULL, (void *)&(const int32_t){level}},                                      \
        {"widen " name, test_widen, NULL, NULL, (void *)&(const int32_t){level}},                                      \
        {"round8 " name, test_round8, NULL, NULL, (void *)&(const int32_t){level}},
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_limits), CPU_LEVELS(PER_LEVEL)};
    return cmocka_run_group_tests_name("attn", tests, NULL, parity_table);
}
