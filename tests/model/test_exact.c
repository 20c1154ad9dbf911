/* The exactness contract on whole models: the logits of a position are one array of bits, whatever the chunking, the company in the
 * batch, the threads, the CPU variant, or the way the state came about. */
#include "testutil.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/file.h"
#include "golden.h"
#include "infer/infer.h"
#include "ok.h"

static infer_model *open_model_as(const char *name, int32_t cpu, uint32_t threads, int32_t numerics)
{
    infer_engine_options eo;
    infer_engine *engine;
    infer_model *model;
    INFER_INIT(&error);
    INFER_INIT(&eo);
    eo.cpu = cpu;
    eo.threads = threads;
    eo.numerics = numerics;
    ok(infer_engine_create(&eo, &engine, &error));
    ok(infer_model_open_path(engine, fixture_path(name), &model, &error));
    infer_engine_release(engine);
    return model;
}

static infer_model *open_model(const char *name, int32_t cpu, uint32_t threads)
{
    return open_model_as(name, cpu, threads, INFER_NUMERICS_EXACT);
}

static infer_session *new_session(infer_model *model)
{
    infer_session *s;
    ok(infer_session_create(model, NULL, &s, &error));
    return s;
}

/* Copies the rows of the last step to their places in out [n_prompt][n_vocab]. */
static void collect(infer_session *s, const struct golden *g, float *out)
{
    infer_session_info info;
    INFER_INIT(&info);
    ok(infer_session_get_info(s, &info, &error));
    for (uint64_t r = 0; r < info.logits_rows; r++) {
        const float *row;
        uint64_t pos;
        ok(infer_session_logits(s, r, &row, &pos, &error));
        assert_true(pos < g->n_prompt);
        memcpy(out + pos * g->n_vocab, row, g->n_vocab * sizeof(float));
    }
}

/* Computes at most max pending elements (0: all), with all their logits. */
static void step(infer_session *s, uint64_t max, const struct golden *g, float *out)
{
    infer_step_item it;
    INFER_INIT(&it);
    it.session = s;
    it.max_elements = max;
    it.logits = INFER_ROWS_ALL;
    ok(infer_step(&it, 1, NULL, &error));
    collect(s, g, out);
}

struct fixture {
    struct golden g;
    size_t bytes;
    float *want, *got; /* [n_prompt][n_vocab] */
};

static struct fixture fixture_open(const char *name)
{
    struct fixture f = {.g = golden_read(name)};
    f.bytes = (size_t)f.g.n_prompt * f.g.n_vocab * sizeof(float);
    f.want = malloc(f.bytes);
    f.got = malloc(f.bytes);
    infer_model *m = open_model(name, INFER_CPU_AUTO, 1);
    infer_session *s = new_session(m);
    ok(infer_session_append(s, f.g.prompt, f.g.n_prompt, &error));
    step(s, 0, &f.g, f.want);
    infer_session_release(s);
    infer_model_release(m);
    return f;
}

static void fixture_close(struct fixture *f)
{
    free(f->want);
    free(f->got);
    golden_free(&f->g);
}

static void forget(struct fixture *f)
{
    memset(f->got, 0xFF, f->bytes);
}

static void same(const struct fixture *f, const char *what)
{
    for (uint32_t p = 0; p < f->g.n_prompt; p++)
        if (memcmp(f->want + (size_t)p * f->g.n_vocab, f->got + (size_t)p * f->g.n_vocab, f->g.n_vocab * sizeof(float)))
            fail_msg("%s: logits of element %u differ", what, p);
}

/* Random cuts of the prompt, and one element at a time. */
static void test_chunks(void **state)
{
    struct fixture f = fixture_open(*state);
    infer_model *m = open_model(*state, INFER_CPU_AUTO, 2);
    uint64_t rng = 11;
    for (int round = 0; round < 8; round++) {
        infer_session *s = new_session(m);
        forget(&f);
        for (uint32_t at = 0; at < f.g.n_prompt;) {
            uint32_t n = round == 0 ? 1 : 1 + (uint32_t)(test_rand(&rng) % 70);
            n = n < f.g.n_prompt - at ? n : f.g.n_prompt - at;
            ok(infer_session_append(s, f.g.prompt + at, n, &error));
            at += n;
            if (round % 2 == 0 || at == f.g.n_prompt) /* else it stays pending a while, and is cut otherwise */
                step(s, 0, &f.g, f.got);
            else
                step(s, 1 + test_rand(&rng) % 40, &f.g, f.got);
        }
        same(&f, "chunks");
        infer_session_release(s);
    }
    infer_model_release(m);
    fixture_close(&f);
}

static void test_threads(void **state)
{
    struct fixture f = fixture_open(*state);
    for (uint32_t threads = 2; threads <= 8; threads++) { /* f.want is of one */
        infer_model *m = open_model(*state, INFER_CPU_AUTO, threads);
        infer_session *s = new_session(m);
        forget(&f);
        ok(infer_session_append(s, f.g.prompt, f.g.n_prompt, &error));
        step(s, 0, &f.g, f.got);
        same(&f, "threads");
        infer_session_release(s);
        infer_model_release(m);
    }
    fixture_close(&f);
}

/* Five sessions at different places of the prompt stepped together, in changing company. */
static void test_batches(void **state)
{
    enum { N = 5 };
    struct fixture f = fixture_open(*state);
    infer_model *m = open_model(*state, INFER_CPU_AUTO, 2);
    infer_session *s[N];
    float *got[N];
    uint32_t at[N] = {0};
    uint64_t rng = 5;
    for (int i = 0; i < N; i++) {
        s[i] = new_session(m);
        got[i] = malloc(f.bytes);
        memset(got[i], 0xFF, f.bytes);
    }
    for (int left = N; left > 0;) {
        infer_step_item it[N];
        uint64_t n_items = 0;
        int who[N];
        left = 0;
        for (int i = 0; i < N; i++) {
            uint32_t rest = f.g.n_prompt - at[i], n = 1 + (uint32_t)(test_rand(&rng) % 30);
            n = n < rest ? n : rest;
            left += rest > n;
            if (!n || test_rand(&rng) % 4 == 0) {
                left += n > 0;
                continue;
            }
            ok(infer_session_append(s[i], f.g.prompt + at[i], n, &error));
            at[i] += n;
            INFER_INIT(&it[n_items]);
            it[n_items].session = s[i];
            it[n_items].logits = INFER_ROWS_ALL;
            who[n_items++] = i;
        }
        ok(infer_step(it, n_items, NULL, &error));
        for (uint64_t k = 0; k < n_items; k++)
            collect(s[who[k]], &f.g, got[who[k]]);
    }
    for (int i = 0; i < N; i++) {
        memcpy(f.got, got[i], f.bytes);
        same(&f, "batch");
        free(got[i]);
        infer_session_release(s[i]);
    }
    infer_model_release(m);
    fixture_close(&f);
}

/* Two prompts and six sessions that decode, in the same steps: more rows than a batch holds, so prompts are cut where the others leave
 * room, and one row stands beside hundreds. */
static void test_mixed(void **state)
{
    enum { N = 8, PROMPTS = 2 };
    struct fixture f = fixture_open(*state);
    infer_model *m = open_model(*state, INFER_CPU_AUTO, 2);
    infer_session *s[N];
    infer_step_item it[N];
    float *got[N];
    for (int i = 0; i < N; i++) {
        got[i] = malloc(f.bytes);
        memset(got[i], 0xFF, f.bytes);
        s[i] = new_session(m);
    }
    for (uint32_t at = 0; at < f.g.n_prompt; at++) {
        for (int i = 0; i < N; i++) {
            INFER_INIT(&it[i]);
            it[i].session = s[i];
            it[i].logits = INFER_ROWS_ALL;
            if (i >= PROMPTS) {
                ok(infer_session_append(s[i], f.g.prompt + at, 1, &error));
            } else if (at % 29 == 0) { /* a new one takes the place of the last */
                infer_session_release(s[i]);
                it[i].session = s[i] = new_session(m);
                memset(got[i], 0xFF, f.bytes);
                ok(infer_session_append(s[i], f.g.prompt, f.g.n_prompt, &error));
            }
        }
        ok(infer_step(it, N, NULL, &error));
        for (int i = 0; i < N; i++)
            if (i >= PROMPTS || at % 29 == 0)
                collect(s[i], &f.g, got[i]);
    }
    for (int i = 0; i < N; i++) {
        memcpy(f.got, got[i], f.bytes);
        same(&f, i < PROMPTS ? "prompt beside decoding" : "decoding beside prompts");
        free(got[i]);
        infer_session_release(s[i]);
    }
    infer_model_release(m);
    fixture_close(&f);
}

static const int32_t cpu_levels[] = {INFER_CPU_SCALAR, INFER_CPU_AVX2, INFER_CPU_AVXVNNI, INFER_CPU_AVX512,
                                     INFER_CPU_AVX512VNNI, INFER_CPU_NEON, INFER_CPU_DOTPROD, INFER_CPU_I8MM};
#define N_LEVELS (sizeof cpu_levels / sizeof *cpu_levels)

static bool runs_here(int32_t cpu)
{
    infer_engine_options eo;
    infer_engine *engine;
    INFER_INIT(&eo);
    eo.cpu = cpu;
    if (infer_engine_create(&eo, &engine, NULL) == INFER_ERROR_UNSUPPORTED)
        return false;
    infer_engine_release(engine);
    return true;
}

static void test_variants(void **state)
{
    struct fixture f = fixture_open(*state);
    char names[128] = "";
    int ran = 0;
    for (size_t i = 0; i < N_LEVELS; i++) {
        if (!runs_here(cpu_levels[i]))
            continue;
        infer_model *m = open_model(*state, cpu_levels[i], 2);
        infer_session *s = new_session(m);
        forget(&f);
        ok(infer_session_append(s, f.g.prompt, f.g.n_prompt, &error));
        step(s, 0, &f.g, f.got);
        same(&f, infer_cpu_name(cpu_levels[i]));
        infer_session_release(s);
        infer_model_release(m);
        strcat(strcat(names, " "), infer_cpu_name(cpu_levels[i]));
        ran++;
    }
    assert_true(ran >= 1);
    print_message("# %d CPU variants:%s\n", ran, names);
    fixture_close(&f);
}

/* The other modes and KV types are as independent of variant, threads and chunks as the default: scalar on one thread in one go
 * against each variant on a number of threads in pieces. */
static void test_modes(void **state)
{
    static const int32_t modes[] = {INFER_NUMERICS_EXACT, INFER_NUMERICS_PRECISE, INFER_NUMERICS_FAST}, kv[] = {INFER_KV_F16, INFER_KV_F32, INFER_KV_BF16};
    struct fixture f = fixture_open(*state);
    uint64_t rng = 9;
    for (size_t mode = 0; mode < sizeof modes / sizeof *modes; mode++)
        for (size_t k = mode ? 0 : 1; k < sizeof kv / sizeof *kv; k++)
            for (size_t i = 0; i < N_LEVELS; i++) {
                if (!runs_here(cpu_levels[i]))
                    continue;
                bool scalar = cpu_levels[i] == INFER_CPU_SCALAR;
                infer_model *m = open_model_as(*state, cpu_levels[i], scalar ? 1 : 2 + (uint32_t)(i % 3), modes[mode]);
                infer_session_options so;
                infer_session *s;
                INFER_INIT(&so);
                so.kv_type = kv[k];
                ok(infer_session_create(m, &so, &s, &error));
                ok(infer_session_append(s, f.g.prompt, f.g.n_prompt, &error));
                forget(&f);
                for (uint64_t at = 0; at < f.g.n_prompt;) {
                    uint64_t n = scalar ? f.g.n_prompt : 1 + test_rand(&rng) % 50;
                    step(s, n, &f.g, scalar ? f.want : f.got);
                    at += n;
                }
                if (!scalar)
                    same(&f, infer_cpu_name(cpu_levels[i]));
                infer_session_release(s);
                infer_model_release(m);
            }
    fixture_close(&f);
}

/* Rolling back by any amount and growing again; forks that go different ways. */
static void test_rollback(void **state)
{
    struct fixture f = fixture_open(*state);
    infer_model *m = open_model(*state, INFER_CPU_AUTO, 2);
    infer_session *s = new_session(m), *fork;
    uint64_t rng = 3, rerun, total = 0;
    int32_t other[20];
    for (int i = 0; i < 20; i++)
        other[i] = (int32_t)(test_rand(&rng) % f.g.n_vocab);
    ok(infer_session_append(s, f.g.prompt, f.g.n_prompt, &error));
    forget(&f);
    step(s, 0, &f.g, f.got);
    for (int round = 0; round < 12; round++) {
        uint64_t to = round == 0 ? 0 : test_rand(&rng) % f.g.n_prompt, wrong = f.g.n_prompt - to < 20 ? f.g.n_prompt - to : 20;
        ok(infer_session_truncate(s, to, &rerun, &error));
        assert_true(rerun <= to);
        total += rerun;
        ok(infer_session_fork(s, &fork, &error));
        ok(infer_session_append(s, other, wrong, &error)); /* a wrong continuation must leave nothing behind */
        step(s, 0, &f.g, f.got);
        ok(infer_session_truncate(s, to, &rerun, &error));
        for (int twice = 0; twice < 2; twice++) {
            infer_session *t = twice ? fork : s;
            forget(&f);
            ok(infer_session_append(t, f.g.prompt + to, f.g.n_prompt - to, &error));
            step(t, 0, &f.g, f.got);
            for (uint64_t p = 0; p < to; p++) /* what was not computed again is as it was */
                memcpy(f.got + p * f.g.n_vocab, f.want + p * f.g.n_vocab, f.g.n_vocab * sizeof(float));
            same(&f, twice ? "fork" : "rollback");
        }
        infer_session_release(fork);
    }
    print_message("# %llu elements were computed again because a window had passed\n", (unsigned long long)total);
    infer_session_release(s);
    infer_model_release(m);
    fixture_close(&f);
}

/* Logits of the last element once the session has the first n ids. */
static const float *grow_to(infer_session *s, const int32_t *ids, uint64_t n)
{
    infer_session_info info;
    infer_step_item it;
    const float *row;
    INFER_INIT(&info);
    INFER_INIT(&it);
    ok(infer_session_get_info(s, &info, &error));
    ok(infer_session_append(s, ids + info.length, n - info.length, &error));
    it.session = s;
    ok(infer_step(&it, 1, NULL, &error));
    ok(infer_session_logits(s, 0, &row, NULL, &error));
    return row;
}

/* Sequences far longer than the window: what was dropped is computed again from a resume point, and gives the same bits. */
static void test_windows(void **state)
{
    enum { LEN = 2300 };
    static int32_t ids[LEN];
    struct golden g = golden_read(*state);
    infer_model *m = open_model(*state, INFER_CPU_AUTO, 2);
    infer_session *cold, *s, *f;
    infer_session_options o;
    uint64_t rng = 77, rerun, total = 0, most = 0;
    INFER_INIT(&o);
    o.n_ctx = LEN;
    for (int i = 0; i < LEN; i++)
        ids[i] = (int32_t)(test_rand(&rng) % g.n_vocab);
    ok(infer_session_create(m, &o, &s, &error));
    (void)grow_to(s, ids, LEN);
    for (int round = 0; round < 10; round++) {
        uint64_t to = round == 0 ? 1030 : 1 + test_rand(&rng) % (LEN - 1);
        uint64_t n = to + 1 + test_rand(&rng) % (LEN - to);
        ok(infer_session_create(m, &o, &cold, &error));
        const float *want = grow_to(cold, ids, n);
        ok(infer_session_fork(s, &f, &error));
        ok(infer_session_truncate(f, to, &rerun, &error));
        total += rerun;
        most = rerun > most ? rerun : most;
        const float *got = grow_to(f, ids, n);
        if (memcmp(want, got, g.n_vocab * sizeof *got))
            fail_msg("back to %llu, on to %llu: logits differ", (unsigned long long)to, (unsigned long long)n);
        infer_session_release(cold);
        infer_session_release(f);
    }
    print_message("# %llu elements computed again, at most %llu at once\n", (unsigned long long)total,
                  (unsigned long long)most);
    assert_true(total > 0 && most < 1024); /* never from the start: resume points lie 1,024 apart */
    infer_session_release(s);
    infer_model_release(m);
    golden_free(&g);
}

/* A session fed with the rows of the embedding table (scaled as the model scales) equals one fed with the ids. */
static void test_rows(void **state)
{
    struct fixture f = fixture_open(*state);
    infer_model *m = open_model(*state, INFER_CPU_AUTO, 2);
    infer_session *s = new_session(m);
    infer_model_info info;
    uint64_t index, keys[2] = {1, 2};
    INFER_INIT(&info);
    ok(infer_model_get_info(m, &info, &error));
    ok(infer_file_find_tensor(infer_model_file(m), "token_embd.weight", INFER_ZSTR, &index, &error));
    float *row = malloc(info.n_embd * sizeof *row), scale = 1;
    bool by_width = !strncmp(info.architecture, "gemma", 5);
    ok(file_get_f32_or(infer_model_file(m), "granite.embedding_scale", 1, &scale, &error));
    if (by_width)
        for (scale = 1; (uint32_t)(scale * scale) < info.n_embd;)
            scale++; /* fixtures have square widths or are skipped */
    if (by_width && (uint32_t)(scale * scale) != info.n_embd) {
        free(row);
        infer_session_release(s);
        infer_model_release(m);
        fixture_close(&f);
        skip();
    }
    forget(&f);
    for (uint32_t p = 0; p < f.g.n_prompt; p++) {
        if (p % 3 == 0) {
            ok(infer_session_append(s, &f.g.prompt[p], 1, &error));
            continue;
        }
        ok(infer_file_tensor_f32(infer_model_file(m), index, (uint64_t)f.g.prompt[p] * info.n_embd, info.n_embd, row,
                                 &error));
        for (uint32_t i = 0; i < info.n_embd; i++)
            row[i] *= scale;
        ok(infer_session_append_rows(s, row, keys, 1, &error));
    }
    step(s, 0, &f.g, f.got);
    same(&f, "embedding rows");
    int32_t ids[3];
    ok(infer_session_tokens(s, 0, 3, ids, &error));
    assert_int_equal(ids[0], f.g.prompt[0]);
    assert_int_equal(ids[1], -1);
    uint32_t inf_bits = 0x7F800000u;
    memcpy(row, &inf_bits, 4);
    assert_int_equal(infer_session_append_rows(s, row, keys, 1, NULL), INFER_ERROR_VALUE);
    free(row);
    infer_session_release(s);
    infer_model_release(m);
    fixture_close(&f);
}

/* Is the kind, or this case of it ("chunks: llama"), among the arguments? Without any, all are. */
static bool chosen(const char *kind, const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], kind) || !strcmp(argv[i], name))
            return true;
    return argc < 2;
}

/* test_exact [KIND | CASE...] */
int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        CMUnitTestFunction fn;
    } kinds[] = {{"chunks", test_chunks},     {"threads", test_threads},   {"batches", test_batches},
                 {"mixed", test_mixed},       {"variants", test_variants}, {"modes", test_modes},
                 {"rollback", test_rollback}, {"rows", test_rows}};
    static char names[1024][64];
    struct CMUnitTest tests[1024];
    size_t n = 0;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int q = 0; q < 2; q++)
            for (const char *const *f = q ? golden_quantised : golden_f32; *f; f++) {
                (void)snprintf(names[n], sizeof names[n], "%s: %s", kinds[k].name, *f);
                if (chosen(kinds[k].name, names[n], argc, argv)) {
                    tests[n] = (struct CMUnitTest){names[n], kinds[k].fn, NULL, NULL, (void *)(uintptr_t)*f};
                    n++;
                }
            }
    static const char *const windowed[] = {"gemma3", "gemma3-scaled", "gemma2", "mistral", "olmo3"};
    for (size_t i = 0; i < sizeof windowed / sizeof *windowed && chosen("windows", "", argc, argv); i++, n++) {
        (void)snprintf(names[n], sizeof names[n], "windows: %s", windowed[i]);
        tests[n] = (struct CMUnitTest){names[n], test_windows, NULL, NULL, (void *)(uintptr_t)windowed[i]};
    }
    return _cmocka_run_group_tests("exact", tests, n, NULL, NULL);
}
