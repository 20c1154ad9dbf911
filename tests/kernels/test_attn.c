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

enum { MAX_Q = 40 };

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
    return type == INFER_KV_F32 ? 4 : 2;
}

static void put(void *p, int32_t type, size_t i, float x)
{
    uint16_t h = type == INFER_KV_F16 ? f32_to_f16(x) : f32_to_bf16(x);
    if (type == INFER_KV_F32)
        ((float *)p)[i] = x;
    else
        ((uint16_t *)p)[i] = h;
}

static double get(const void *p, int32_t type, size_t i)
{
    if (type == INFER_KV_F32)
        return ((const float *)p)[i];
    uint16_t h = ((const uint16_t *)p)[i];
    return type == INFER_KV_F16 ? f16_to_f32(h) : bf16_to_f32(h);
}

static void scene_make(struct scene *s, uint64_t *seed, int32_t type, uint32_t dim, uint32_t n)
{
    *s = (struct scene){.type = type, .dim = dim, .n = n, .bytes = (size_t)dim * 64 * elem_of(type)};
    s->k = test_guard_alloc(s->bytes);
    s->v = test_guard_alloc(s->bytes);
    for (size_t i = 0; i < (size_t)dim * 64; i++) {
        put(s->k, type, i, test_rand_f32(seed));
        put(s->v, type, i, test_rand_f32(seed));
    }
    uint32_t union0 = 64, union1 = 0;
    for (uint32_t i = 0; i < n; i++) {
        s->q[i] = test_guard_alloc(dim * 4);
        for (uint32_t d = 0; d < dim; d++)
            s->q[i][d] = test_rand_f32(seed) * (i % 5 == 4 ? 30.0f : 1.0f);
        s->j0[i] = i % 3 ? 0 : (uint32_t)(test_rand(seed) % 64);
        s->j1[i] = i % 7 == 1 ? 64 : s->j0[i] + 1 + (uint32_t)(test_rand(seed) % (64 - s->j0[i]));
        union0 = s->j0[i] < union0 ? s->j0[i] : union0;
        union1 = s->j1[i] > union1 ? s->j1[i] : union1;
    }
    for (uint32_t j = 0; j < 64; j++) /* nobody sees it: anything may lie there */
        for (uint32_t d = 0; d < dim && (j < union0 || j >= union1); d++) {
            put(s->k, type, (size_t)d * 64 + j, NAN);
            put(s->v, type, (size_t)j * dim + d, -INFINITY);
        }
}

static void scene_free(struct scene *s)
{
    test_guard_free(s->k, s->bytes);
    test_guard_free(s->v, s->bytes);
    for (uint32_t i = 0; i < s->n; i++)
        test_guard_free(s->q[i], s->dim * 4);
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
    struct attn_block_args a = {.kv_type = s->type, .head_dim = s->dim, .k = s->k, .v = s->v, .scale = 0.125f, .softcap = softcap};
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
}

static void test_variants(void **state)
{
    (void)state;
    static const uint32_t dims[] = {8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 96, 112, 120, 128, 192, 256, 512};
    uint64_t seed = 21;
    int tested = 0;
    for (size_t t = 0; t < 3; t++)
        for (size_t d = 0; d < sizeof dims / sizeof *dims; d++) {
            struct scene s;
            scene_make(&s, &seed, (int32_t)t, dims[d], dims[d] > 128 ? 7 : 1 + (uint32_t)(test_rand(&seed) % 20));
            float softcap = d % 3 ? 0.0f : 5.0f;
            float *want = run(&s, attn_block_scalar, 1, softcap);
            for (size_t v = 0; v < N_VARIANTS; v++) {
                if (!cpu_level_supported(variants[v].level))
                    continue;
                for (uint32_t together = 1; together <= 8; together++) {
                    float *got = run(&s, variants[v].k.block, together, softcap);
                    same_states(&s, got, want, variants[v].name);
                    free(got);
                    tested++;
                }
            }
            free(want);
            scene_free(&s);
        }
    assert_true(tested > 0);
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
        k->merge(total, part, dim);
    }
    k->finish(dst, total, dim);
    free(total), free(part);
}

static void exact(const struct scene *pages, const float *q, uint64_t lo, uint64_t hi, double *dst)
{
    uint32_t dim = pages[0].dim;
    double *s = malloc(hi * sizeof *s), max = -INFINITY, sum = 0;
    for (uint64_t e = lo; e < hi; e++) {
        s[e] = 0;
        for (uint32_t d = 0; d < dim; d++)
            s[e] += (double)q[d] * get(pages[e / 64].k, pages[0].type, (size_t)d * 64 + e % 64);
        s[e] *= 0.25;
        max = s[e] > max ? s[e] : max;
    }
    memset(dst, 0, dim * sizeof *dst);
    for (uint64_t e = lo; e < hi; e++)
        sum += s[e] = exp(s[e] - max);
    for (uint64_t e = lo; e < hi; e++)
        for (uint32_t d = 0; d < dim; d++)
            dst[d] += s[e] / sum * get(pages[e / 64].v, pages[0].type, (e % 64) * dim + d);
    free(s);
}

static void test_softmax(void **state)
{
    (void)state;
    enum { PAGES = 40, DIM = 40 };
    uint64_t seed = 22;
    static const uint64_t ranges[][2] = {{0, 1},      {0, 63},      {0, 64},      {0, 65},     {5, 6},       {0, 1023},   {0, 1024},
                                         {0, 1025},   {0, 2048},    {0, 2500},    {1000, 2000}, {1023, 1025}, {1024, 2048}, {1100, 1200},
                                         {2047, 2048}, {100, 2500}, {2048, 2049}, {63, 65}};
    for (int32_t type = 0; type < 3; type++) {
        struct scene pages[PAGES];
        for (int p = 0; p < PAGES; p++) {
            scene_make(&pages[p], &seed, type, DIM, 2);
            for (size_t i = 0; i < DIM * 64; i++) { /* all visible */
                put(pages[p].k, type, i, test_rand_f32(&seed));
                put(pages[p].v, type, i, test_rand_f32(&seed));
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
            for (size_t v = 0; v < N_VARIANTS; v++)
                if (cpu_level_supported(variants[v].level)) {
                    attend(&variants[v].k, pages, q, ranges[r][0], ranges[r][1], other);
                    assert_memory_equal(got, other, sizeof got);
                }
        }
        for (int p = 0; p < PAGES; p++)
            scene_free(&pages[p]);
    }
}

/* Scores so far apart that weights vanish, and that the maximum comes late. */
static void test_extremes(void **state)
{
    (void)state;
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
        for (size_t v = 0; v < N_VARIANTS; v++)
            if (cpu_level_supported(variants[v].level)) {
                float *got = run(&s, variants[v].k.block, 3, 0);
                same_states(&s, got, want, variants[v].name);
                free(got);
            }
        free(want);
        scene_free(&s);
    }
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
    k->merge(into, empty, DIM);
    assert_memory_equal(into, empty, sizeof into);
    k->merge(into, a, DIM);
    assert_memory_equal(into, a, sizeof into);
    k->merge(into, empty, DIM);
    assert_memory_equal(into, a, sizeof into);
    k->merge(into, b, DIM);
    float m = a[0] > b[0] ? a[0] : b[0], *dst = test_guard_alloc(DIM * 4);
    double wa = exp((double)(a[0] - m)), wb = exp((double)(b[0] - m));
    assert_true(into[ATTN_STATE_M] == m);
    assert_true(fabs(into[ATTN_STATE_SUM] - (3 * wa + 2 * wb)) < 1e-5);
    k->finish(dst, into, DIM);
    for (int d = 0; d < DIM; d++) {
        assert_true(fabs(into[ATTN_STATE_O + d] - (a[ATTN_STATE_O + d] * wa + b[ATTN_STATE_O + d] * wb)) < 1e-5);
        assert_true(dst[d] == into[ATTN_STATE_O + d] / into[ATTN_STATE_SUM]);
    }
    test_guard_free(dst, DIM * 4);
}

static void test_merge(void **state)
{
    (void)state;
    for (size_t v = 0; v < N_VARIANTS; v++)
        if (cpu_level_supported(variants[v].level))
            check_merge(&variants[v].k);
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_variants), cmocka_unit_test(test_softmax), cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_merge),    cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests_name("attn", tests, NULL, NULL);
}
