/* The exactness contract on real models, as published: SmolLM2-135M-Instruct (Q4_1; scripts/fetch_model.py fetches it) and Gemma 3 270M
 * (Q4_K_M). They are looked for in the folder INFER_TEST_MODELS, then in the cache of scripts/quickstart; a model that is not there is
 * skipped. Logits of every 16th element and of the last are compared to the bit. */
#include "testutil.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "infer/state.h"
#include "ok.h"
#include "real_model.h"

#define EVERY 16u
#define LEN 300u       /* more than a batch */
#define LEN_SHORT 72u  /* for variants: scalar is slow */

static bool wanted(uint64_t pos)
{
    return pos % EVERY == EVERY - 1 || pos + 1 == LEN || pos + 1 == LEN_SHORT;
}

struct run {
    const char *path;
    int32_t cpu, numerics;
    uint32_t threads;
    infer_model *model;
    uint32_t n_vocab;
    const char *cache_dir; /* NULL: no prefix cache */
};

static void run_open(struct run *r)
{
    infer_engine_options eo;
    infer_engine *e;
    infer_model_info info;
    INFER_INIT(&error);
    INFER_INIT(&eo);
    eo.cpu = r->cpu;
    eo.threads = r->threads;
    eo.numerics = r->numerics;
    eo.cache_bytes = r->cache_dir ? 1u << 30 : 0;
    eo.cache_dir = r->cache_dir;
    eo.cache_dir_len = INFER_ZSTR;
    ok(infer_engine_create(&eo, &e, &error));
    ok(infer_model_open_path(e, r->path, &r->model, &error));
    infer_engine_release(e);
    INFER_INIT(&info);
    ok(infer_model_get_info(r->model, &info, &error));
    r->n_vocab = info.vocab_size;
}

/* A sequence and the rows that it has given so far, [LEN / EVERY + 2][n_vocab]. */
struct seq {
    infer_session *s;
    uint64_t at, len;
    float *rows;
    bool seen[LEN];
};

static size_t slot_of(uint64_t pos)
{
    return (size_t)(pos + 1 == LEN ? LEN / EVERY + 1 : pos + 1 == LEN_SHORT ? LEN / EVERY : pos / EVERY);
}

static size_t rows_bytes(const struct run *r)
{
    return (LEN / EVERY + 2) * (size_t)r->n_vocab * sizeof(float);
}

static struct seq seq_new(const struct run *r, const int32_t *ids, uint64_t len)
{
    struct seq q = {.len = len, .rows = malloc(rows_bytes(r))};
    assert_non_null(q.rows);
    ok(infer_session_create(r->model, NULL, &q.s, &error));
    ok(infer_session_append(q.s, ids, len, &error));
    return q;
}

static void seq_free(struct seq *q)
{
    infer_session_release(q->s);
    free(q->rows);
}

/* Steps n sequences together, at most max[i] elements of each. */
static void step(const struct run *r, struct seq *q, uint32_t n, const uint64_t *max)
{
    static uint8_t mask[16][LEN];
    infer_step_item it[16];
    for (uint32_t i = 0; i < n; i++) {
        INFER_INIT(&it[i]);
        it[i].session = q[i].s;
        it[i].max_elements = max[i];
        it[i].logits = INFER_ROWS_MASK;
        it[i].mask = mask[i];
        for (uint64_t k = 0; q[i].at + k < q[i].len; k++)
            mask[i][k] = wanted(q[i].at + k);
    }
    ok(infer_step(it, n, NULL, &error));
    for (uint32_t i = 0; i < n; i++) {
        infer_session_info info;
        INFER_INIT(&info);
        ok(infer_session_get_info(q[i].s, &info, &error));
        for (uint64_t k = 0; k < info.logits_rows && it[i].done; k++) {
            const float *row;
            uint64_t pos;
            ok(infer_session_logits(q[i].s, k, &row, &pos, &error));
            memcpy(q[i].rows + slot_of(pos) * r->n_vocab, row, r->n_vocab * sizeof *row);
            q[i].seen[pos] = true;
        }
        q[i].at += it[i].done;
    }
}

static void same(const struct run *r, const struct seq *want, const struct seq *got, const char *what)
{
    uint32_t compared = 0;
    for (uint64_t p = 0; p < got->len; p++) {
        if (!wanted(p))
            continue;
        assert_true(want->seen[p] && got->seen[p]);
        if (memcmp(want->rows + slot_of(p) * r->n_vocab, got->rows + slot_of(p) * r->n_vocab, r->n_vocab * sizeof(float)))
            fail_msg("%s: logits of element %llu differ", what, (unsigned long long)p);
        compared++;
    }
    assert_true(compared >= got->len / EVERY);
}

/* The whole, in one step. */
static struct seq whole(const struct run *r, const int32_t *ids, uint64_t len)
{
    struct seq q = seq_new(r, ids, len);
    step(r, &q, 1, (uint64_t[]){0});
    return q;
}

static void chunks_and_company(const struct run *r, const int32_t *ids, const struct seq *want)
{
    enum { N = 6 };
    uint64_t seed = 3, max[N];
    struct seq q[N] = {seq_new(r, ids, LEN)};
    while (q[0].at < LEN)
        step(r, q, 1, (uint64_t[]){1 + test_rand(&seed) % 90});
    same(r, want, &q[0], "chunks");
    seq_free(&q[0]);
    for (int i = 0; i < N; i++) /* some decode, some take their prompt in pieces, all together */
        q[i] = seq_new(r, ids, i < 3 ? 40 + 16 * (uint64_t)i : LEN - 20 * (uint64_t)i);
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < N; i++) {
            max[i] = i < 3 ? 1 : 1 + test_rand(&seed) % 120;
            more = more || q[i].at + max[i] < q[i].len;
        }
        step(r, q, N, max);
    }
    for (int i = 0; i < N; i++) {
        same(r, want, &q[i], "batch");
        seq_free(&q[i]);
    }
}

static void test_model(void **state)
{
    static const int32_t levels[] = {INFER_CPU_SCALAR, INFER_CPU_AVX2, INFER_CPU_AVXVNNI, INFER_CPU_AVX512,
                                     INFER_CPU_AVX512VNNI, INFER_CPU_NEON, INFER_CPU_DOTPROD, INFER_CPU_I8MM};
    char path[1024];
    int32_t ids[LEN];
    if (!real_model(*state, path)) {
        print_message("# %s is not there\n", (const char *)*state);
        skip();
    }
    struct run r = {.path = path, .threads = 2};
    run_open(&r);
    real_ids(r.model, ids, LEN);
    struct seq want = whole(&r, ids, LEN), shorter = whole(&r, ids, LEN_SHORT);
    chunks_and_company(&r, ids, &want);
    infer_model_release(r.model);
    for (r.threads = 1; r.threads <= 8; r.threads++) {
        run_open(&r);
        struct seq got = whole(&r, ids, LEN);
        same(&r, &want, &got, "threads");
        seq_free(&got);
        infer_model_release(r.model);
    }
    r.threads = 2;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        infer_engine_options eo;
        infer_engine *e;
        INFER_INIT(&eo);
        eo.cpu = levels[i];
        if (infer_engine_create(&eo, &e, NULL) != INFER_OK)
            continue;
        infer_engine_release(e);
        r.cpu = levels[i];
        time_t from = time(NULL);
        run_open(&r);
        struct seq got = whole(&r, ids, LEN_SHORT);
        same(&r, &shorter, &got, infer_cpu_name(levels[i]));
        seq_free(&got);
        infer_model_release(r.model);
        print_message("# %s: %u elements in %d s\n", infer_cpu_name(levels[i]), LEN_SHORT, (int)(time(NULL) - from));
    }
    seq_free(&want);
    seq_free(&shorter);
}

enum { LONG = 700, MORE = 3 }; /* LONG: more than Gemma's window and slack */

/* Logits of the last element of ids [LONG], and of MORE that follow one by one: [MORE + 1][n_vocab]. Returns how many elements were reused. */
static uint64_t answer(const struct run *r, const int32_t *ids, uint32_t cache_flags, float *rows)
{
    infer_session *s;
    infer_session_options o;
    infer_cache_report report;
    infer_step_item it;
    INFER_INIT(&o);
    INFER_INIT(&it);
    INFER_INIT(&report);
    o.cache_flags = cache_flags;
    ok(infer_session_create(r->model, &o, &s, &error));
    it.session = s;
    for (uint32_t i = 0; i <= MORE; i++) {
        const float *row;
        ok(infer_session_append(s, ids + i, i ? 1 : LONG, &error));
        ok(infer_step(&it, 1, NULL, &error));
        ok(infer_session_logits(s, 0, &row, NULL, &error));
        memcpy(rows + (size_t)i * r->n_vocab, row, r->n_vocab * sizeof *row);
    }
    ok(infer_session_cache_report(s, &report, &error));
    infer_session_release(s);
    return report.reused;
}

/* Somebody leaves the first `split` elements behind, and others after them. */
static void leave(const struct run *r, const int32_t *ids, uint64_t split)
{
    infer_session *s;
    infer_step_item it;
    INFER_INIT(&it);
    ok(infer_session_create(r->model, NULL, &s, &error));
    ok(infer_session_append(s, ids, split, &error));
    ok(infer_session_append(s, ids + 300, 63, &error));
    it.session = s;
    ok(infer_step(&it, 1, NULL, &error));
    infer_session_release(s);
}

/* The prefix cache, in memory and on disk: as cold. */
static void test_cache(void **state)
{
    static const uint64_t splits[] = {1, 64, 100, 512, 575, 640, LONG - 1};
    char path[1024], dir[256];
    int32_t ids[LONG];
    if (!real_model(*state, path)) {
        print_message("# %s is not there\n", (const char *)*state);
        skip();
    }
    (void)snprintf(dir, sizeof dir, "%s/exact-cache-%ld", INFER_BUILD_DIR, (long)time(NULL));
    struct run r = {.path = path, .threads = 2, .cache_dir = dir};
    run_open(&r);
    real_ids(r.model, ids, LONG);
    size_t bytes = (MORE + 1) * (size_t)r.n_vocab * sizeof(float);
    float *want = malloc(bytes), *got = malloc(bytes);
    assert_true(want && got);
    answer(&r, ids, INFER_CACHE_NO_LOOKUP | INFER_CACHE_NO_INSERT, want);
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        ok(infer_engine_cache_clear(infer_model_engine(r.model), &error));
        leave(&r, ids, splits[i]);
        assert_int_equal(answer(&r, ids, 0, got), splits[i]);
        assert_memory_equal(want, got, bytes);
    }
    ok(infer_engine_cache_flush(infer_model_engine(r.model), NULL, &error));
    infer_model_release(r.model);
    run_open(&r); /* as after a restart */
    assert_int_equal(answer(&r, ids, 0, got), LONG - 1);
    assert_memory_equal(want, got, bytes);
    infer_model_release(r.model);
    free(want);
    free(got);
    char command[300];
    (void)snprintf(command, sizeof command, "rm -r '%s'", dir);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_cache, (void *)"SmolLM2-135M-Instruct.Q4_1.gguf"),
        cmocka_unit_test_prestate(test_cache, (void *)"gemma-3-270m-q4_k_m.gguf"),
        cmocka_unit_test_prestate(test_model, (void *)"SmolLM2-135M-Instruct.Q4_1.gguf"),
        cmocka_unit_test_prestate(test_model, (void *)"gemma-3-270m-q4_k_m.gguf"),
    };
    return cmocka_run_group_tests_name("exact on real models", tests, NULL, NULL);
}
