/* Each step against a naive double-precision twin, and what the sampler promises about ties, extremes and repeatability. */
#include "testutil.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sampling/sample_filter.h"
#include "sampling/sample_math.h"
#include "sampling/sample_random.h"
#include "sampling/sampler.h"

static infer_sampling greedy(void)
{
    return (infer_sampling){.size = (uint32_t)sizeof(infer_sampling)};
}

static infer_sampling plain(void)
{
    infer_sampling s = greedy();
    s.temperature = 1;
    return s;
}

/* One token from a row, with everything else default. */
static infer_status sample_row(struct sampler *s, const float *row, uint64_t position, infer_sample_result *out)
{
    struct sample_input in = {.logits = row, .position = position};
    infer_error err;
    return sampler_sample(s, &in, out, &err);
}

static void setup(struct sampler *s, uint32_t n, const infer_sampling *set)
{
    infer_error err;
    assert_int_equal(sampler_init(s, &alloc_default, n, n, &err), INFER_OK);
    assert_int_equal(sampler_set(s, set, &err), INFER_OK);
}

/* Known answers published with Random123 (kat_vectors, philox4x32 10). */
static void test_philox(void **state)
{
    (void)state;
    static const uint32_t cases[3][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb, 0x5001e420,
         0x24126ea1},
    };
    for (int i = 0; i < 3; i++) {
        uint32_t out[4];
        sample_philox(cases[i], cases[i] + 4, out);
        assert_memory_equal(out, cases[i] + 6, sizeof out);
    }
}

static void test_uniform(void **state)
{
    (void)state;
    double sum = 0, low = 1, high = 0;
    for (uint64_t p = 0; p < 100000; p++) {
        double u = sample_uniform(42, 0, p);
        assert_true(u >= 0 && u < 1);
        sum += u;
        low = u < low ? u : low;
        high = u > high ? u : high;
    }
    assert_true(fabs(sum / 100000 - 0.5) < 0.004 && low < 1e-4 && high > 1 - 1e-4);
    assert_true(sample_uniform(1, 0, 5) == sample_uniform(1, 0, 5));
    assert_true(sample_uniform(1, 0, 5) != sample_uniform(1, 1, 5));
    assert_true(sample_uniform(1, 0, 5) != sample_uniform(UINT64_C(1) << 40 | 1, 0, 5));
    assert_true(sample_uniform(1, 0, 5) != sample_uniform(1, 0, UINT64_C(1) << 40 | 5));
}

static void test_math(void **state)
{
    (void)state;
    assert_true(sample_exp(0) == 1.0);
    assert_true(sample_log(1) == 0.0);
    uint64_t seed = 1;
    for (int i = 0; i < 200000; i++) {
        double x = -(double)(test_rand(&seed) >> 11) * 0x1p-53 * (i % 2 ? 700 : 1);
        assert_true(fabs(sample_exp(x) / exp(x) - 1) < 1e-15);
        double y = exp((double)(test_rand(&seed) >> 11) * 0x1p-53 * 1400 - 700);
        double z = 1 + x / 2048;
        assert_true(fabs(sample_log(y) - log(y)) <= 4e-16 * fabs(log(y)));
        assert_true(fabs(sample_log(z) - log(z)) <= 1e-15 * fabs(log(z)) + 1e-300);
    }
}

static void test_greedy(void **state)
{
    (void)state;
    struct sampler s;
    infer_sampling set = greedy();
    infer_sample_result out = {0};
    float row[6] = {-3, 2, -INFINITY, 2, 1, 0};
    setup(&s, 6, &set);
    assert_int_equal(sample_row(&s, row, 0, &out), INFER_OK);
    assert_int_equal(out.id, 1); /* the tie goes to the lower id */
    assert_null(s.work.row);     /* and needs no copy */
    float zeros[3] = {-INFINITY, -0.0f, 0.0f};
    sampler_free(&s);
    setup(&s, 3, &set);
    assert_int_equal(sample_row(&s, zeros, 0, &out), INFER_OK);
    assert_int_equal(out.id, 1);
    sampler_free(&s);
}

/* ---- The naive twin ---- */

struct naive {
    int32_t id;
    double p, order;
};

static int by_order(const void *a, const void *b)
{
    const struct naive *x = a, *y = b;
    return x->order != y->order ? (x->order > y->order ? -1 : 1) : (x->id > y->id) - (x->id < y->id);
}

static void normalise(struct naive *c, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += c[i].p;
    for (uint32_t i = 0; i < n; i++)
        c[i].p /= sum;
}

/* The shortest run with share p; *close is set when rounding could move its end. */
static uint32_t naive_share(struct naive *c, uint32_t n, double p, bool *close)
{
    double sum = 0;
    uint32_t kept = 0;
    qsort(c, n, sizeof *c, by_order);
    while (kept < n && (kept == 0 || sum < p)) {
        sum += c[kept++].p;
        if (fabs(sum - p) < 1e-8)
            *close = true;
    }
    normalise(c, kept);
    return kept;
}

static uint32_t naive_filter(const infer_sampling *set, const float *row, uint32_t n, struct naive *c, bool *close)
{
    double max = -INFINITY, entropy = 0;
    uint32_t left = 0;
    for (uint32_t i = 0; i < n; i++)
        max = row[i] > max ? row[i] : max;
    for (uint32_t i = 0; i < n; i++)
        if (row[i] > -INFINITY)
            c[left++] = (struct naive){(int32_t)i, exp((row[i] - max) / set->temperature), row[i]};
    qsort(c, left, sizeof *c, by_order);
    if (set->top_k && set->top_k < left)
        left = set->top_k;
    normalise(c, left);
    if (set->top_p > 0 && set->top_p < 1)
        left = naive_share(c, left, set->top_p, close);
    if (set->min_p > 0) {
        uint32_t kept = 0;
        double top = c[0].p;
        for (uint32_t i = 0; i < left; i++) {
            if (fabs(c[i].p / top - set->min_p) < 1e-6)
                *close = true;
            if (c[i].p >= set->min_p * top)
                c[kept++] = c[i];
        }
        left = kept;
        normalise(c, left);
    }
    if (set->typical_p > 0 && set->typical_p < 1) {
        for (uint32_t i = 0; i < left; i++)
            entropy -= c[i].p > 0 ? c[i].p * log(c[i].p) : 0;
        for (uint32_t i = 0; i < left; i++)
            c[i].order = -fabs(-log(c[i].p) - entropy);
        qsort(c, left, sizeof *c, by_order);
        for (uint32_t i = 1; i < left; i++) /* neighbours that float cannot tell apart */
            if (c[i - 1].order - c[i].order < 1e-6 && set->typical_p < 1)
                *close = *close || left < 200;
        left = naive_share(c, left, set->typical_p, close);
    }
    return left;
}

static int by_id(const void *a, const void *b)
{
    const struct naive *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* Whether the sampler's survivors and weights are the twin's. */
static void compare_filter(const infer_sampling *set, const float *row, uint32_t n, int *compared, int *close_calls)
{
    struct sample_work w = {0};
    struct naive *c = malloc(n * sizeof *c);
    uint32_t left = 0;
    bool close = false;
    double total = 0;
    w.row = malloc(n * sizeof *w.row);
    memcpy(w.row, row, n * sizeof *row);
    assert_true(sample_filter(&alloc_default, &w, set, n, row[sample_best(row, n)], &left));
    uint32_t expect = naive_filter(set, row, n, c, &close);
    if (close) {
        ++*close_calls;
    } else {
        ++*compared;
        assert_int_equal(left, expect);
        qsort(c, expect, sizeof *c, by_id);
        for (uint32_t i = 0; i < left; i++)
            total += (double)w.weight[i];
        for (uint32_t i = 0; i < left; i++) {
            assert_int_equal(w.ids[i], c[i].id);
            assert_true(fabs((double)w.weight[i] / total - c[i].p) < 1e-6);
        }
    }
    free(w.row);
    mem_free(&alloc_default, w.ids);
    mem_free(&alloc_default, w.x);
    mem_free(&alloc_default, w.key);
    mem_free(&alloc_default, w.weight);
    free(c);
}

static void test_filters(void **state)
{
    (void)state;
    uint64_t seed = 7;
    int compared = 0, close_calls = 0;
    static const float shares[6] = {0, 0.1f, 0.5f, 0.9f, 0.99f, 1};
    for (int round = 0; round < 3000; round++) {
        uint32_t n = 1 + (uint32_t)(test_rand(&seed) % (round % 10 ? 60 : round % 100 ? 3000 : 30000));
        float *row = malloc(n * sizeof *row);
        for (uint32_t i = 0; i < n; i++)
            row[i] = test_rand(&seed) % 9 ? 3 * test_rand_f32(&seed) : -INFINITY;
        row[test_rand(&seed) % n] = 1;
        infer_sampling set = plain();
        set.temperature = 0.3f + (float)(test_rand(&seed) % 100) / 50;
        set.top_k = (uint32_t)(test_rand(&seed) % 3 ? 0 : test_rand(&seed) % 100);
        set.top_p = shares[test_rand(&seed) % 6];
        set.min_p = test_rand(&seed) % 2 ? 0 : (float)(test_rand(&seed) % 100) / 300;
        set.typical_p = round % 3 ? 0 : shares[test_rand(&seed) % 6];
        compare_filter(&set, row, n, &compared, &close_calls);
        free(row);
    }
    assert_true(compared > 2800);
    assert_true(close_calls < 200);
}

/* Ties at every cut go to the lower ids. */
static void test_ties(void **state)
{
    (void)state;
    float row[100];
    struct sample_work w = {.row = row};
    infer_sampling set = plain();
    uint32_t left = 0;
    for (int i = 0; i < 100; i++)
        row[i] = i % 2 ? 0.0f : -0.0f;
    set.top_k = 7;
    assert_true(sample_filter(&alloc_default, &w, &set, 100, 0, &left));
    assert_int_equal(left, 7);
    for (int i = 0; i < 7; i++)
        assert_int_equal(w.ids[i], i);
    set.top_k = 0;
    set.top_p = 0.25f;
    assert_true(sample_filter(&alloc_default, &w, &set, 100, 0, &left));
    assert_int_equal(left, 25);
    assert_int_equal(w.ids[24], 24);
    set.top_p = 0;
    set.typical_p = 0.5f;
    assert_true(sample_filter(&alloc_default, &w, &set, 100, 0, &left));
    assert_int_equal(left, 50);
    assert_int_equal(w.ids[49], 49);
    mem_free(&alloc_default, w.ids);
    mem_free(&alloc_default, w.x);
    mem_free(&alloc_default, w.key);
    mem_free(&alloc_default, w.weight);
}

/* ---- Distribution ---- */

static void test_distribution(void **state)
{
    (void)state;
    struct sampler s;
    infer_sampling set = plain();
    infer_sample_result out = {0};
    enum { N = 12, DRAWS = 60000 };
    float row[N];
    double p[N], sum = 0, chi = 0;
    int count[N] = {0};
    for (int i = 0; i < N; i++) {
        row[i] = (float)(i * 5 % N) / 4;
        sum += p[i] = exp((double)row[i]);
    }
    set.seed = 2024;
    setup(&s, N, &set);
    for (uint64_t k = 0; k < DRAWS; k++) {
        assert_int_equal(sample_row(&s, row, k, &out), INFER_OK);
        count[out.id]++;
    }
    for (int i = 0; i < N; i++) {
        double e = p[i] / sum * DRAWS;
        chi += (count[i] - e) * (count[i] - e) / e;
    }
    assert_true(chi < 31.3); /* 11 degrees of freedom, p = 0.001; the seed is fixed */
    sampler_free(&s);
}

/* The token of a position depends on (seed, position) only, not on what was drawn before. */
static void test_counter_based(void **state)
{
    (void)state;
    struct sampler a, b;
    infer_sampling set = plain();
    infer_sample_result x = {0}, y = {0};
    float row[50] = {0};
    int differ = 0;
    set.seed = 9;
    setup(&a, 50, &set);
    infer_error err;
    assert_int_equal(sampler_copy(&b, &a, &err), INFER_OK);
    for (uint64_t p = 0; p < 200; p++) {
        assert_int_equal(sample_row(&a, row, p, &x), INFER_OK);
        assert_int_equal(sample_row(&b, row, 199 - p, &y), INFER_OK);
        assert_int_equal(sample_row(&b, row, p, &y), INFER_OK);
        assert_int_equal(x.id, y.id);
    }
    set.seed = 10;
    assert_int_equal(sampler_set(&b, &set, &err), INFER_OK);
    for (uint64_t p = 0; p < 200; p++) {
        sample_row(&a, row, p, &x);
        sample_row(&b, row, p, &y);
        differ += x.id != y.id;
    }
    assert_true(differ > 180);
    sampler_free(&a);
    sampler_free(&b);
}

/* ---- Bias, penalties, callback, constraint ---- */

static void expect_logits(struct sampler *s, const struct sample_input *in, const double *want, uint32_t n)
{
    infer_sample_result out = {0};
    infer_error err;
    assert_int_equal(sampler_sample(s, in, &out, &err), INFER_OK);
    for (uint32_t i = 0; i < n; i++) {
        if (isinf(want[i]))
            assert_true(s->work.row[i] == -INFINITY);
        else
            assert_true(fabs((double)s->work.row[i] - want[i]) <= 1e-6 * (1 + fabs(want[i])));
    }
}

static void test_bias_and_penalties(void **state)
{
    (void)state;
    struct sampler s;
    infer_sampling set = greedy();
    infer_bias bias[4] = {{0, 2}, {3, -INFINITY}, {0, 0.5f}, {5, 7}};
    float row[6] = {1, 2, -3, 9, 0.5f, -INFINITY};
    int32_t ids[7] = {1, 2, 2, -1, 4, 2, 1};
    struct sample_input in = {.logits = row, .ids = ids, .count = 7};
    set.bias = bias;
    set.bias_count = 4;
    set.repetition_penalty = 2;
    set.presence_penalty = 0.25f;
    set.frequency_penalty = 0.125f;
    setup(&s, 6, &set);
    bias[0].bias = 100; /* it was copied */
    const double all[6] = {3.5, 1 - 0.25 - 2 * 0.125, -6 - 0.25 - 3 * 0.125, -INFINITY, 0.25 - 0.25 - 0.125, -INFINITY};
    expect_logits(&s, &in, all, 6);
    for (int i = 0; i < 6; i++)
        assert_int_equal(s.work.seen[i], 0);
    bias[0].bias = 2;
    set.penalty_last_n = 2; /* only ids 2 and 1 */
    infer_error err;
    assert_int_equal(sampler_set(&s, &set, &err), INFER_OK);
    const double two[6] = {3.5, 1 - 0.25 - 0.125, -6 - 0.25 - 0.125, -INFINITY, 0.5, -INFINITY};
    expect_logits(&s, &in, two, 6);
    sampler_free(&s);
}

static infer_status double_logits(void *user, float *logits, uint64_t n, const int32_t *ids, uint64_t count)
{
    assert_int_equal(count, 2);
    assert_int_equal(ids[1], 1);
    ++*(int *)user;
    for (uint64_t i = 0; i < n; i++)
        logits[i] = logits[i] == -INFINITY ? 50 : 2 * logits[i]; /* tries to allow what is forbidden */
    return 0;
}

static infer_status failing(void *user, float *logits, uint64_t n, const int32_t *ids, uint64_t count)
{
    (void)ids, (void)count, (void)n;
    int mode = *(int *)user;
    if (mode == 1)
        logits[2] = NAN;
    if (mode == 2)
        logits[2] = INFINITY;
    return mode == 3 ? INFER_ERROR_LIMIT : mode == 4 ? 17 : 0;
}

static void test_callback(void **state)
{
    (void)state;
    struct sampler s;
    infer_sampling set = greedy();
    int calls = 0;
    float row[5] = {1, 2, 3, 9, 9};
    int32_t ids[2] = {0, 1};
    uint32_t allowed = 0x1F & ~(1u << 2);
    infer_bias bias = {0, 5};
    struct sample_input in = {.logits = row, .allowed = &allowed, .ids = ids, .count = 2};
    set.callback = double_logits;
    set.callback_user = &calls;
    set.bias = &bias;
    set.bias_count = 1;
    infer_error err;
    assert_int_equal(sampler_init(&s, &alloc_default, 5, 4, &err), INFER_OK);
    assert_int_equal(sampler_set(&s, &set, &err), INFER_OK);
    const double want[5] = {7, 4, -INFINITY, 18, -INFINITY}; /* callback first, then bias */
    expect_logits(&s, &in, want, 5);
    assert_int_equal(calls, 1);
    static const infer_status expect[5] = {INFER_OK, INFER_ERROR_HOST, INFER_ERROR_HOST, INFER_ERROR_LIMIT, INFER_ERROR_HOST};
    for (int mode = 0; mode < 5; mode++) {
        infer_sample_result out = {.id = -7};
        set.callback = failing;
        set.callback_user = &mode;
        assert_int_equal(sampler_set(&s, &set, &err), INFER_OK);
        assert_int_equal(sampler_sample(&s, &in, &out, &err), expect[mode]);
        assert_true((out.id == -7) == (mode != 0)); /* written on success only */
    }
    sampler_free(&s);
}

/* Ids that have no token are never chosen, however likely. */
static void test_padding_ids(void **state)
{
    (void)state;
    struct sampler s;
    infer_sampling set = plain();
    infer_sample_result out = {0};
    float row[40];
    infer_error err;
    for (int i = 0; i < 40; i++)
        row[i] = i < 10 ? 0.0f : i < 20 ? 80.0f : NAN; /* and what they hold is not looked at */
    assert_int_equal(sampler_init(&s, &alloc_default, 40, 10, &err), INFER_OK);
    for (int t = 0; t < 2; t++) {
        set.temperature = (float)t;
        assert_int_equal(sampler_set(&s, &set, &err), INFER_OK);
        for (uint64_t p = 0; p < 100; p++) {
            assert_int_equal(sample_row(&s, row, p, &out), INFER_OK);
            assert_in_range(out.id, 0, 9);
        }
    }
    sampler_free(&s);
}

/* ---- Log-probabilities ---- */

static void test_logprobs(void **state)
{
    (void)state;
    struct sampler s;
    enum { N = 500 };
    float row[N];
    double lp[N], sum = 0;
    uint64_t seed = 3;
    infer_bias bias = {77, 3};
    infer_sampling set = plain();
    infer_sample_result out = {0};
    for (int i = 0; i < N; i++)
        row[i] = i % 7 ? 4 * test_rand_f32(&seed) : -INFINITY;
    row[400] = row[401] = row[402] = 12;
    for (int i = 0; i < N; i++)
        sum += exp(lp[i] = (double)row[i] + (i == 77 ? 3 : 0));
    set.temperature = 0.5f; /* has no influence, nor have filters */
    set.top_k = 5;
    set.bias = &bias;
    set.bias_count = 1;
    set.logprobs = 1;
    set.top_logprobs = 20;
    for (int t = 0; t < 2; t++) {
        setup(&s, N, &set);
        for (uint64_t p = 0; p < 20; p++) {
            assert_int_equal(sample_row(&s, row, p, &out), INFER_OK);
            assert_true(fabs((double)out.logprob - (lp[out.id] - log(sum))) < 2e-6);
            assert_int_equal(out.top_count, 20);
            assert_int_equal(out.top[0].id, 400);
            assert_int_equal(out.top[2].id, 402);
            for (uint32_t i = 0; i < 20; i++) {
                uint32_t better = 0;
                for (int j = 0; j < N; j++)
                    better += lp[j] > lp[out.top[i].id];
                assert_true(better <= i && better + 3 > i);
                assert_true(fabs((double)out.top[i].logprob - (lp[out.top[i].id] - log(sum))) < 2e-6);
            }
        }
        sampler_free(&s);
        set.temperature = 0;
    }
    float few[3] = {-INFINITY, 1, 0};
    set.bias_count = 0;
    setup(&s, 3, &set);
    assert_int_equal(sample_row(&s, few, 0, &out), INFER_OK);
    assert_int_equal(out.top_count, 2); /* the forbidden one is no alternative */
    assert_int_equal(out.top[1].id, 2);
    sampler_free(&s);
}

/* ---- Bad values ---- */

static void test_bad_logits(void **state)
{
    (void)state;
    struct sampler s;
    static const float bad[2] = {NAN, INFINITY};
    for (int t = 0; t < 2; t++) {
        infer_sampling set = plain();
        set.temperature = (float)t;
        setup(&s, 4, &set);
        for (int b = 0; b < 2; b++) {
            float row[4] = {0, 1, bad[b], 2};
            struct sample_input in = {.logits = row};
            infer_sample_result out = {.id = -7};
            infer_error err;
            assert_int_equal(sampler_sample(&s, &in, &out, &err), INFER_ERROR_NONFINITE);
            assert_non_null(strstr(err.text, "token 2"));
            assert_int_equal(out.id, -7);
        }
        float none[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
        infer_sample_result out = {.id = -7};
        assert_int_equal(sample_row(&s, none, 0, &out), INFER_ERROR_STATE);
        assert_int_equal(out.id, -7);
        sampler_free(&s);
    }
}

static void test_bad_settings(void **state)
{
    (void)state;
    struct sampler s;
    infer_sampling good = plain();
    good.seed = 5;
    setup(&s, 100, &good);
    static const float bad[5] = {NAN, INFINITY, -INFINITY, FLT_MAX, -1e5f};
    static const struct {
        const char *name;
        size_t offset;
    } fields[7] = {
        {"temperature", offsetof(infer_sampling, temperature)},
        {"top_p", offsetof(infer_sampling, top_p)},
        {"min_p", offsetof(infer_sampling, min_p)},
        {"typical_p", offsetof(infer_sampling, typical_p)},
        {"repetition_penalty", offsetof(infer_sampling, repetition_penalty)},
        {"presence_penalty", offsetof(infer_sampling, presence_penalty)},
        {"frequency_penalty", offsetof(infer_sampling, frequency_penalty)},
    };
    for (size_t f = 0; f < 7; f++) {
        for (size_t b = 0; b < 5; b++) {
            infer_sampling set = plain();
            infer_error err = {0};
            memcpy((char *)&set + fields[f].offset, &bad[b], sizeof(float));
            assert_int_equal(sampler_set(&s, &set, &err), INFER_ERROR_ARGUMENT);
            assert_string_equal(err.name, fields[f].name);
            assert_non_null(strstr(err.text, fields[f].name));
            assert_int_equal(s.set.seed, 5); /* the old settings stay */
        }
    }
    sampler_free(&s);
}

static infer_status try_set(const infer_sampling *set)
{
    struct sampler s;
    infer_error err;
    assert_int_equal(sampler_init(&s, &alloc_default, 100, 90, &err), INFER_OK);
    infer_status st = sampler_set(&s, set, &err);
    sampler_free(&s);
    return st;
}

static void test_bad_lists(void **state)
{
    (void)state;
    infer_bias bias = {0, 0};
    infer_sampling set = plain();
    set.top_logprobs = 21;
    assert_int_equal(try_set(&set), INFER_ERROR_ARGUMENT);
    set.top_logprobs = 20;
    set.logprobs = 2;
    assert_int_equal(try_set(&set), INFER_ERROR_ARGUMENT);
    set.logprobs = 1;
    set.top_k = UINT32_MAX;
    set.penalty_last_n = UINT32_MAX;
    assert_int_equal(try_set(&set), INFER_OK);
    set.bias_count = 1;
    assert_int_equal(try_set(&set), INFER_ERROR_ARGUMENT); /* NULL list */
    set.bias = &bias;
    assert_int_equal(try_set(&set), INFER_OK);
    set.bias_count = UINT64_MAX;
    assert_int_equal(try_set(&set), INFER_ERROR_ARGUMENT);
    set.bias_count = 1;
    static const int32_t ids[4] = {-1, 90, 100, INT32_MAX};
    for (int i = 0; i < 4; i++) {
        bias.id = ids[i];
        assert_int_equal(try_set(&set), INFER_ERROR_TOKEN);
    }
    bias.id = 89;
    static const float values[4] = {NAN, INFINITY, FLT_MAX, -FLT_MAX};
    for (int i = 0; i < 4; i++) {
        bias.bias = values[i];
        assert_int_equal(try_set(&set), INFER_ERROR_ARGUMENT);
    }
    struct sampler s;
    infer_error err;
    assert_int_equal(sampler_init(&s, &alloc_default, 0, 0, &err), INFER_ERROR_ARGUMENT);
    assert_int_equal(sampler_init(&s, &alloc_default, 10, 11, &err), INFER_ERROR_ARGUMENT);
    assert_int_equal(sampler_init(&s, &alloc_default, UINT32_MAX, 1, &err), INFER_ERROR_ARGUMENT);
}

/* Rows and settings at the edge of float give a token, not a NaN. */
static void test_extremes(void **state)
{
    (void)state;
    struct sampler s;
    infer_bias bias[2] = {{0, 1e6f}, {1, -1e6f}};
    int32_t ids[3] = {0, 1, 2};
    float rows[5][4] = {{FLT_MAX, -FLT_MAX, FLT_MAX, 0},
                        {FLT_MIN, -FLT_MIN, 1e-45f, -1e-45f},
                        {-FLT_MAX, -FLT_MAX, -FLT_MAX, -INFINITY},
                        {-INFINITY, -INFINITY, -INFINITY, -FLT_MAX},
                        {1000, 999, -1000, 0}};
    static const float temperatures[4] = {1e-45f, 1e-6f, 1, 1000};
    static const float repetition[3] = {0.001f, 1000, 0};
    for (int i = 0; i < 5 * 4 * 3 * 2; i++) {
        infer_sampling set = plain();
        infer_sample_result out = {.id = -7};
        infer_error err;
        set.temperature = temperatures[i / 5 % 4];
        set.repetition_penalty = repetition[i / 20 % 3];
        set.presence_penalty = i / 60 ? 1000 : -1000;
        set.top_p = 0.9f;
        set.min_p = 0.01f;
        set.typical_p = 0.5f;
        set.logprobs = 1;
        set.bias = bias;
        set.bias_count = 2;
        struct sample_input in = {.logits = rows[i % 5], .ids = ids, .count = 3, .position = UINT64_MAX};
        setup(&s, 4, &set);
        assert_int_equal(sampler_sample(&s, &in, &out, &err), INFER_OK);
        assert_in_range(out.id, 0, 3);
        assert_true(rows[i % 5][out.id] > -INFINITY);
        assert_true(out.logprob <= 0 && out.logprob == out.logprob);
        sampler_free(&s);
    }
}

/* Top-p of a uniform row keeps whole counts; the end of the draw's range is reachable. */
static void test_draw_ends(void **state)
{
    (void)state;
    int32_t ids[4] = {3, 5, 8, 9};
    uint64_t weight[4] = {0, UINT64_C(1) << 40, UINT64_C(1) << 40, 0};
    struct sample_work w = {.ids = ids, .weight = weight};
    assert_int_equal(sample_draw(&w, 4, 0.0), 5);
    assert_int_equal(sample_draw(&w, 4, 0.49999999), 5);
    assert_int_equal(sample_draw(&w, 4, 0.5), 8);
    assert_int_equal(sample_draw(&w, 4, 1.0 - 0x1p-53), 8);
}

/* ---- Memory ---- */

static infer_status whole_life(struct alloc *a, const infer_sampling *set)
{
    struct sampler s, copy;
    infer_error err;
    static float row[1000];
    int32_t ids[3] = {1, 2, 3};
    struct sample_input in = {.logits = row, .ids = ids, .count = 3};
    infer_sample_result out = {0};
    infer_status st = sampler_init(&s, a, 1000, 1000, &err);
    if (st == INFER_OK)
        st = sampler_set(&s, set, &err);
    if (st == INFER_OK)
        st = sampler_copy(&copy, &s, &err);
    if (st == INFER_OK) {
        st = sampler_sample(&copy, &in, &out, &err);
        if (st == INFER_ERROR_NO_MEMORY) { /* the failed call may be repeated */
            infer_sample_result again = {0};
            assert_int_equal(sampler_sample(&copy, &in, &again, &err), INFER_OK);
        }
        sampler_free(&copy);
    }
    sampler_free(&s);
    return st;
}

static void test_alloc_failure(void **state)
{
    (void)state;
    infer_bias bias = {5, 1};
    infer_sampling set = plain();
    set.bias = &bias;
    set.bias_count = 1;
    set.presence_penalty = 1;
    set.typical_p = 0.9f;
    uint64_t n = 1;
    for (;; n++) {
        struct test_alloc t = {.fail_at = n};
        struct alloc a = test_alloc_of(&t);
        infer_status st = whole_life(&a, &set);
        assert_int_equal(t.live, 0);
        if (t.calls < n) {
            assert_int_equal(st, INFER_OK);
            break;
        }
        assert_int_equal(st, INFER_ERROR_NO_MEMORY);
    }
    assert_int_equal(n, 9); /* two copies of the bias, row, seen, four of survivors; then none fails */
}

static void test_steady_state(void **state)
{
    (void)state;
    struct test_alloc t = {0};
    struct alloc a = test_alloc_of(&t);
    struct sampler s;
    infer_error err;
    infer_sampling set = {.size = sizeof set};
    infer_sample_result out = {0};
    static float row[50000];
    uint64_t seed = 11;
    for (int i = 0; i < 50000; i++)
        row[i] = 5 * test_rand_f32(&seed);
    sampler_default(&set);
    assert_int_equal(set.size, sizeof set);
    set.frequency_penalty = 0.1f;
    assert_int_equal(sampler_init(&s, &a, 50000, 50000, &err), INFER_OK);
    assert_int_equal(sampler_set(&s, &set, &err), INFER_OK);
    assert_int_equal(sample_row(&s, row, 0, &out), INFER_OK);
    uint64_t calls = t.calls;
    for (uint64_t p = 1; p < 100; p++)
        assert_int_equal(sample_row(&s, row, p, &out), INFER_OK);
    assert_int_equal(t.calls, calls);
    assert_true(t.live_bytes < 50000 * 8 + 5000); /* survivors take room for top_k, not for the vocabulary */
    sampler_free(&s);
    assert_int_equal(t.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_philox),        cmocka_unit_test(test_uniform),
        cmocka_unit_test(test_math),          cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_filters),       cmocka_unit_test(test_ties),
        cmocka_unit_test(test_distribution),  cmocka_unit_test(test_counter_based),
        cmocka_unit_test(test_bias_and_penalties), cmocka_unit_test(test_callback),
        cmocka_unit_test(test_padding_ids),   cmocka_unit_test(test_logprobs),
        cmocka_unit_test(test_bad_logits),    cmocka_unit_test(test_bad_settings),
        cmocka_unit_test(test_bad_lists),     cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_draw_ends),     cmocka_unit_test(test_alloc_failure),
        cmocka_unit_test(test_steady_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
