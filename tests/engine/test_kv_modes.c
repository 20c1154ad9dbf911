/* KV types: what a session computes does not depend on chunks, company, threads, CPU variants, forks or rolling back, in the compact and mixed
 * types too; a mixed session whose window holds everything is one of the exact type. */
#include "testutil.h"

#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "infer/infer.h"

static infer_error error;

static void ok(infer_status st)
{
    if (st != INFER_OK)
        fail_msg("%s: %s (%s)", infer_status_name(st), error.text, error.name);
}

enum { LEN = 1500 };
static const char *const models[] = {"llama", "gemma3"}; /* without and with sliding windows */

struct mode {
    int32_t type;
    uint32_t recent;
};
static const struct mode modes[] = {{INFER_KV_INT8_64, 0}, {INFER_KV_MIXED_F16, 0}, {INFER_KV_MIXED_F32, 100}, {INFER_KV_INT8, 0}};
#define N_MODES (sizeof modes / sizeof *modes)

static int32_t ids[LEN];
static uint32_t n_vocab;

static infer_model *open_model(const char *name, int32_t cpu, uint32_t threads)
{
    infer_engine_options eo;
    infer_engine *engine;
    infer_model *m;
    struct golden g = golden_read(name);
    uint64_t rng = 31;
    n_vocab = g.n_vocab;
    golden_free(&g);
    for (int i = 0; i < LEN; i++)
        ids[i] = (int32_t)(test_rand(&rng) % n_vocab);
    INFER_INIT(&error);
    INFER_INIT(&eo);
    eo.cpu = cpu;
    eo.threads = threads;
    ok(infer_engine_create(&eo, &engine, &error));
    ok(infer_model_open_path(engine, fixture_path(name), &m, &error));
    infer_engine_release(engine);
    return m;
}

static infer_session *new_session(infer_model *m, struct mode mode)
{
    infer_session_options so;
    infer_session *s;
    INFER_INIT(&so);
    so.n_ctx = LEN;
    so.kv_type = mode.type;
    so.kv_recent = mode.recent;
    ok(infer_session_create(m, &so, &s, &error));
    return s;
}

static infer_session_info info_of(const infer_session *s)
{
    infer_session_info i;
    INFER_INIT(&i);
    ok(infer_session_get_info(s, &i, &error));
    return i;
}

/* Grows to n elements, in one step or several; the logits of the last. */
static const float *grow(infer_session *s, uint64_t n, uint64_t chunk)
{
    infer_step_item it;
    const float *row;
    uint64_t at = info_of(s).length;
    ok(infer_session_append(s, ids + at, n - at, &error));
    do {
        INFER_INIT(&it);
        it.session = s;
        it.max_elements = chunk;
        ok(infer_step(&it, 1, NULL, &error));
    } while (info_of(s).computed < n);
    ok(infer_session_logits(s, 0, &row, NULL, &error));
    return row;
}

static void same(const float *got, const float *want, const char *what, struct mode mode)
{
    if (memcmp(got, want, n_vocab * sizeof *got))
        fail_msg("%s: KV type %d, recent %u: logits differ", what, (int)mode.type, mode.recent);
}

/* Logits after n elements of a session of its own; the caller frees. */
static float *cold(infer_model *m, struct mode mode, uint64_t n, uint64_t chunk)
{
    infer_session *s = new_session(m, mode);
    float *out = malloc(n_vocab * sizeof *out);
    memcpy(out, grow(s, n, chunk), n_vocab * sizeof *out);
    infer_session_release(s);
    return out;
}

/* Scalar on one thread in one go, against every variant on some threads in pieces. */
static void test_variants(void **state)
{
    (void)state;
    static const int32_t levels[] = {INFER_CPU_SCALAR, INFER_CPU_AVX2, INFER_CPU_AVX512, INFER_CPU_AVX512VNNI, INFER_CPU_NEON};
    enum { N = 330 };
    int ran = 0;
    for (int i = 0; i < 2; i++) {
        float *want[N_MODES];
        for (size_t l = 0; l < sizeof levels / sizeof *levels; l++) {
            infer_engine_options eo;
            infer_engine *e;
            INFER_INIT(&eo);
            eo.cpu = levels[l];
            if (infer_engine_create(&eo, &e, NULL) != INFER_OK)
                continue;
            infer_engine_release(e);
            infer_model *m = open_model(models[i], levels[l], l ? 1 + (uint32_t)l % 3 : 1);
            for (size_t k = 0; k < N_MODES; k++) {
                float *got = cold(m, modes[k], N, l ? 37 + 20 * l : 0);
                if (l)
                    same(got, want[k], infer_cpu_name(levels[l]), modes[k]);
                else
                    want[k] = got;
                if (l)
                    free(got);
                ran++;
            }
            infer_model_release(m);
        }
        for (size_t k = 0; k < N_MODES; k++) /* they are different modes; heads of 16 are one group in both int8 types */
            for (size_t o = 0; o < k; o++)
                assert_true((memcmp(want[k], want[o], n_vocab * 4) == 0) == (modes[o].type == INFER_KV_INT8_64 && modes[k].type == INFER_KV_INT8));
        for (size_t k = 0; k < N_MODES; k++)
            free(want[k]);
    }
    assert_true(ran >= 8);
    print_message("# %d runs compared\n", ran);
}

/* Sessions of all modes, mixed ones with different windows among them, at different places, in the same steps. */
static void test_batches(void **state)
{
    (void)state;
    enum { N = 6 };
    static const struct mode who[N] = {{INFER_KV_MIXED_F16, 64},  {INFER_KV_MIXED_F16, 256}, {INFER_KV_INT8_64, 0},
                                       {INFER_KV_MIXED_F16, 128}, {INFER_KV_F16, 0},         {INFER_KV_MIXED_F32, 64}};
    for (int i = 0; i < 2; i++) {
        infer_model *m = open_model(models[i], INFER_CPU_AUTO, 2);
        infer_session *s[N];
        uint64_t length[N], rng = 6;
        for (int k = 0; k < N; k++) {
            s[k] = new_session(m, who[k]);
            length[k] = 0;
        }
        for (int round = 0; round < 14; round++) {
            infer_step_item it[N];
            for (int k = 0; k < N; k++) {
                uint64_t n = 1 + test_rand(&rng) % (round % 3 ? 5 : 120);
                ok(infer_session_append(s[k], ids + length[k], n, &error));
                length[k] += n;
                INFER_INIT(&it[k]);
                it[k].session = s[k];
            }
            ok(infer_step(it, N, NULL, &error));
        }
        for (int k = 0; k < N; k++) {
            const float *row;
            ok(infer_session_logits(s[k], 0, &row, NULL, &error));
            float *want = cold(m, who[k], length[k], 0);
            same(row, want, "batch", who[k]);
            free(want);
            infer_session_release(s[k]);
        }
        infer_model_release(m);
    }
}

/* Forks, rolled back and grown again, over what a window no longer holds. */
static void test_rollback(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        infer_model *m = open_model(models[i], INFER_CPU_AUTO, 2);
        for (size_t k = 0; k < N_MODES; k++) {
            infer_session *s = new_session(m, modes[k]), *f;
            uint64_t rng = 7, rerun, total = 0, most = 0;
            (void)grow(s, LEN, 0);
            for (int round = 0; round < 5; round++) {
                uint64_t to = round == 0 ? 1100 : 1 + test_rand(&rng) % (LEN - 1), n = to + 1 + test_rand(&rng) % (LEN - to);
                float *want = cold(m, modes[k], n, 0);
                ok(infer_session_fork(s, &f, &error));
                ok(infer_session_truncate(f, to, &rerun, &error));
                same(grow(f, n, 90), want, "rollback", modes[k]);
                total += rerun;
                most = rerun > most ? rerun : most;
                free(want);
                infer_session_release(f);
            }
            assert_true(most <= 1024 + 64);
            assert_true(modes[k].type < INFER_KV_MIXED_F16 || total > 0);
            infer_session_release(s);
        }
        infer_model_release(m);
    }
}

/* A window over everything is the exact type; and a usual one is cheaper. */
static void test_whole_window(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        infer_model *m = open_model(models[i], INFER_CPU_AUTO, 2);
        for (int f32 = 0; f32 < 2; f32++) {
            struct mode exact = {f32 ? INFER_KV_F32 : INFER_KV_F16, 0}, whole = {f32 ? INFER_KV_MIXED_F32 : INFER_KV_MIXED_F16, 700};
            float *want = cold(m, exact, 700, 0), *got = cold(m, whole, 700, 50);
            same(got, want, "whole window", whole);
            free(want), free(got);
            struct mode usual = {whole.type, 64};
            infer_session *a = new_session(m, exact), *b = new_session(m, usual);
            (void)grow(a, LEN, 0), (void)grow(b, LEN, 0);
            print_message("# %s, %d elements: %llu bytes exact, %llu mixed\n", models[i], LEN, (unsigned long long)info_of(a).kv_bytes,
                          (unsigned long long)info_of(b).kv_bytes);
            assert_true(i == 1 || info_of(b).kv_bytes * 4 < info_of(a).kv_bytes * 3); /* gemma3's windows are shorter than the mixed one */
            infer_session_release(a), infer_session_release(b);
        }
        infer_model_release(m);
    }
}

static void test_options(void **state)
{
    (void)state;
    infer_model *m = open_model("llama", INFER_CPU_AUTO, 1);
    static const struct mode bad[] = {{INFER_KV_MIXED_F32 + 1, 0}, {-1, 0}, {INFER_KV_MIXED_F16, 4097}, {INFER_KV_MIXED_F16, UINT32_MAX}, {INFER_KV_F16, 64}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        infer_session_options so;
        infer_session *s = NULL;
        INFER_INIT(&so);
        so.kv_type = bad[i].type;
        so.kv_recent = bad[i].recent;
        assert_int_equal(infer_session_create(m, &so, &s, &error), INFER_ERROR_ARGUMENT);
        assert_string_equal(error.name, i < 2 ? "kv_type" : "kv_recent");
        assert_null(s);
    }
    infer_session_release(new_session(m, (struct mode){INFER_KV_MIXED_F32, 4096}));
    infer_model_release(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_variants), cmocka_unit_test(test_batches), cmocka_unit_test(test_rollback),
                                       cmocka_unit_test(test_whole_window), cmocka_unit_test(test_options)};
    return cmocka_run_group_tests_name("kv_modes", tests, NULL, NULL);
}
