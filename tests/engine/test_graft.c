/* Context shift and graft: exact where they say so, close where the relation is known, marked everywhere else; refused clearly, and all or nothing. */
#include "testutil.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/checkpoint.h"
#include "golden.h"
#include "infer/state.h"
#include "recording_device.h"

enum { LEN = 1400 };

static infer_error error;
static int32_t ids[LEN];
static uint32_t n_vocab;

static void ok(infer_status st)
{
    if (st != INFER_OK)
        fail_msg("%s: %s (%s)", infer_status_name(st), error.text, error.name);
}

static void refused(infer_status got, infer_status want, const char *name)
{
    if (got != want || (name && strcmp(error.name, name)))
        fail_msg("%s (%s), wanted %s (%s): %s", infer_status_name(got), error.name, infer_status_name(want), name ? name : "", error.text);
}

static struct test_alloc counted;

/* On a recording device, with an allocator that can fail. */
static infer_model *open_model(const char *name, infer_engine **engine)
{
    struct env env = test_env_of(&counted);
    struct cpu_device_options o = {INFER_CPU_AUTO, INFER_NUMERICS_EXACT, 2, NULL, NULL};
    struct golden g = golden_read(name);
    struct device *cpu, *rec;
    infer_model *m;
    uint64_t rng = 41;
    n_vocab = g.n_vocab;
    golden_free(&g);
    for (int i = 0; i < LEN; i++)
        ids[i] = (int32_t)(test_rand(&rng) % n_vocab);
    INFER_INIT(&error);
    ok(cpu_device_create(&env.alloc, &o, &cpu, &error));
    rec = recording_device_create(cpu);
    assert_non_null(rec);
    ok(engine_create_on(&env, rec, 0, engine, &error));
    ok(infer_model_open_path(*engine, fixture_path(name), &m, &error));
    return m;
}

static void close_model(infer_model *m, infer_engine *e)
{
    const struct recording *r = recording_of(e->dev);
    if (r->n_errors)
        fail_msg("%s", r->first_error);
    infer_model_release(m);
    infer_engine_release(e);
}

static infer_session *new_session(infer_model *m, int32_t kv_type)
{
    infer_session_options so;
    infer_session *s;
    INFER_INIT(&so);
    so.n_ctx = m->net->arch->positions == POSITIONS_LEARNED ? 0 : LEN;
    so.kv_type = kv_type;
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

static const float *step(infer_session *s)
{
    infer_step_item it;
    const float *row;
    INFER_INIT(&it);
    it.session = s;
    ok(infer_step(&it, 1, NULL, &error));
    ok(infer_session_logits(s, 0, &row, NULL, &error));
    return row;
}

/* Appends ids[from, to) and computes them; the logits of the last. */
static const float *feed(infer_session *s, uint64_t from, uint64_t to)
{
    ok(infer_session_append(s, ids + from, to - from, &error));
    return step(s);
}

static infer_checkpoint *checkpoint_of(infer_session *s)
{
    infer_checkpoint *c;
    ok(infer_checkpoint_create(s, &c, &error));
    return c;
}

static void same(const float *got, const float *want, const char *what)
{
    if (memcmp(got, want, n_vocab * sizeof *got))
        fail_msg("%s: logits differ", what);
}

static void check_ids(infer_session *s, uint64_t at, uint64_t from, uint64_t n)
{
    int32_t *got = malloc(n * sizeof *got);
    ok(infer_session_tokens(s, at, n, got, &error));
    assert_memory_equal(got, ids + from, n * sizeof *got);
    free(got);
}

/* At the same place behind the same elements a graft is what a session would compute. */
static void test_exact(void **state)
{
    (void)state;
    static const char *const names[] = {"llama", "gemma3", "gpt2"};
    static const int32_t types[] = {INFER_KV_F16, INFER_KV_INT8, INFER_KV_MIXED_F16};
    for (int i = 0; i < 9; i++) {
        infer_engine *e;
        infer_model *m = open_model(names[i / 3], &e);
        uint32_t unit = i / 3 == 2 ? 20 : 100; /* gpt2's context is short */
        infer_session *whole = new_session(m, types[i % 3]), *s = new_session(m, types[i % 3]), *cold = new_session(m, types[i % 3]);
        (void)feed(whole, 0, 6 * unit);
        infer_checkpoint *c = checkpoint_of(whole);
        (void)feed(s, 0, 3 * unit);
        uint64_t rerun = 99;
        ok(infer_session_graft(s, c, 3 * unit, 2 * unit, 10, &rerun, NULL, &error));
        assert_int_equal(info_of(s).length, 5 * unit);
        assert_int_equal(info_of(s).approximate, 0);
        assert_int_equal(info_of(s).computed + rerun, 5 * unit);
        assert_true(rerun == 0 || i / 3 == 1 || types[i % 3] == INFER_KV_MIXED_F16);
        assert_true(i % 3 || i / 3 == 1 || rerun == 0);
        check_ids(s, 0, 0, 5 * unit);
        const float *got = feed(s, 5 * unit, 5 * unit + 7);
        same(got, feed(cold, 0, 5 * unit + 7), names[i / 3]);
        infer_session_release(cold), infer_session_release(s), infer_session_release(whole);
        infer_checkpoint_release(c);
        close_model(m, e);
    }
}

/* Rows are told apart by their keys. */
static void test_exact_rows(void **state)
{
    (void)state;
    infer_engine *e;
    infer_model *m = open_model("llama", &e);
    infer_session *a = new_session(m, INFER_KV_F16), *b = new_session(m, INFER_KV_F16), *other = new_session(m, INFER_KV_F16);
    uint64_t rng = 5, keys[8] = {1, 2, 3, 4, 5, 6, 7, 8}, strange[8] = {1, 2, 3, 4, 5, 6, 7, 9};
    size_t width = m->net->h.n_embd;
    float *rows = malloc(4 * width * sizeof *rows);
    for (size_t i = 0; i < 4 * width; i++)
        rows[i] = test_rand_f32(&rng) * 0.02f;
    infer_session *all[3] = {a, b, other};
    for (int i = 0; i < 3; i++) {
        ok(infer_session_append_rows(all[i], rows, i == 2 ? strange : keys, 4, &error));
        (void)feed(all[i], 0, 10);
    }
    ok(infer_session_append_rows(a, rows, keys, 4, &error));
    (void)feed(a, 10, 80);
    infer_checkpoint *c = checkpoint_of(a);
    ok(infer_session_graft(b, c, 14, 40, 0, NULL, NULL, &error));
    assert_int_equal(info_of(b).approximate, 0);
    ok(infer_session_graft(other, c, 14, 40, 0, NULL, NULL, &error));
    assert_int_equal(info_of(other).approximate, 1);
    int32_t got[6];
    ok(infer_session_tokens(other, 13, 6, got, &error));
    assert_true(got[0] == ids[9] && got[1] == -1 && got[4] == -1 && got[5] == ids[10]);
    (void)feed(other, 0, 3);
    for (int i = 0; i < 3; i++)
        infer_session_release(all[i]);
    free(rows);
    infer_checkpoint_release(c);
    close_model(m, e);
}

/* Elements that are embedding rows lose and keep theirs. Nothing is computed before the shift, so it is exact. */
static void test_shift_rows(void **state)
{
    (void)state;
    infer_engine *e;
    infer_model *m = open_model("llama", &e);
    infer_session *s = new_session(m, INFER_KV_F16), *fork, *cold = new_session(m, INFER_KV_F16);
    uint64_t rng = 6, keys[20];
    size_t width = m->net->h.n_embd;
    float *rows = malloc(10 * width * sizeof *rows), *want = malloc(n_vocab * sizeof *want);
    for (size_t i = 0; i < 10 * width; i++)
        rows[i] = test_rand_f32(&rng) * 0.02f;
    for (uint64_t i = 0; i < 20; i++)
        keys[i] = i;
    /* rows 0-2, ids 0-1, rows 3-5, ids 2-3, rows 6-9: rows 2-4 and the ids between them go */
    ok(infer_session_append_rows(s, rows, keys, 3, &error)), ok(infer_session_append(s, ids, 2, &error));
    ok(infer_session_append_rows(s, rows + 3 * width, keys + 6, 3, &error)), ok(infer_session_append(s, ids + 2, 2, &error));
    ok(infer_session_append_rows(s, rows + 6 * width, keys + 12, 4, &error));
    ok(infer_session_fork(s, &fork, &error));
    memcpy(want, step(fork), n_vocab * sizeof *want);
    infer_session_release(fork);
    ok(infer_session_fork(s, &fork, &error));
    ok(infer_session_shift(fork, 2, 5, &error));
    assert_int_equal(fork->n_rows, 7);
    ok(infer_session_append_rows(cold, rows, keys, 2, &error)), ok(infer_session_append_rows(cold, rows + 5 * width, keys + 10, 1, &error));
    ok(infer_session_append(cold, ids + 2, 2, &error)), ok(infer_session_append_rows(cold, rows + 6 * width, keys + 12, 4, &error));
    same(step(fork), step(cold), "rows kept");
    for (uint64_t i = 0; i < cold->length; i++)
        assert_int_equal(fork->elements[i].row, cold->elements[i].row);
    assert_memory_equal(fork->keys, cold->keys, 7 * 16);
    assert_int_equal(info_of(fork).approximate, 0);
    same(step(s), want, "what it was forked from");
    infer_session_release(fork), infer_session_release(cold), infer_session_release(s);
    free(rows), free(want);
    close_model(m, e);
}

/* Layer 0's key or value of an element in an f32 session, all heads. */
static float *read_layer0(infer_session *s, bool keys, uint64_t e)
{
    struct dev_kv kv = net_kv(s->model->net, INFER_KV_F32, 0, false);
    uint32_t dim = kv.head_dim, j = (uint32_t)(e % 64);
    float *out = malloc(kv.n_head_kv * dim * sizeof *out);
    struct device *d = s->model->engine->dev;
    for (uint32_t h = 0; h < kv.n_head_kv; h++)
        for (uint32_t i = 0; i < dim; i++) {
            uint64_t at = (keys ? kv.k_off : kv.v_off) + h * dev_kv_head_bytes(kv.type, dim) + 4ull * (keys ? i * 64 + j : j * dim + i);
            d->ops->read(d, out + h * dim + i, dev_at(s->kv[s->model->net->layers[0].group].refs[e / 64], at), 4);
        }
    return out;
}

/* In layer 0 keys and values depend on the token and its position alone: those moved there are those computed there. */
static void check_layer0(infer_session *got, infer_session *want, uint64_t from, uint64_t to)
{
    uint32_t n = got->model->net->h.n_head_kv * got->model->net->h.head_dim;
    double worst = 0, size = 0;
    for (uint64_t e = from; e < to; e++) {
        float *k = read_layer0(got, true, e), *v = read_layer0(got, false, e), *wk = read_layer0(want, true, e),
              *wv = read_layer0(want, false, e);
        assert_memory_equal(v, wv, n * sizeof *v);
        for (uint32_t i = 0; i < n; i++) {
            double off = fabs((double)k[i] - (double)wk[i]), one = fabs((double)wk[i]);
            if (off > worst) /* with fmax gcc 12 for AArch64 stops by an internal error */
                worst = off;
            if (one > size)
                size = one;
        }
        free(k), free(v), free(wk), free(wv);
    }
    print_message("# keys up to %.3g, off by at most %.3g\n", size, worst);
    assert_true(size > 0.01 && worst < 1e-4 * size);
}

/* llama rotates pairs, qwen2 halves; llama-yarn scales what it rotates, llama-linear positions. */
static const char *const rotating[] = {"llama", "qwen2", "llama-yarn", "llama-linear"};

static void test_layer0(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rotating / sizeof *rotating; i++) {
        infer_engine *e;
        infer_model *m = open_model(rotating[i], &e);
        infer_session *doc = new_session(m, INFER_KV_F32), *s = new_session(m, INFER_KV_F32), *cold = new_session(m, INFER_KV_F32);
        (void)feed(doc, 0, 300);
        infer_checkpoint *c = checkpoint_of(doc);
        uint64_t rerun;
        (void)feed(s, 500, 613), (void)feed(cold, 500, 613);
        ok(infer_session_graft(s, c, 20, 250, i % 2 ? 16 : 0, &rerun, NULL, &error)); /* up by 93, off by 29 in the page */
        assert_int_equal(rerun, i % 2 ? 16 : 0);
        assert_int_equal(info_of(s).computed, 363);
        assert_int_equal(info_of(s).approximate, 1);
        check_ids(s, 113, 20, 250);
        (void)feed(cold, 20, 270);
        check_layer0(s, cold, 0, 363);
        infer_session_release(cold);
        cold = new_session(m, INFER_KV_F32);
        (void)feed(cold, 500, 504), (void)feed(cold, 20 + 150 - 113, 270);
        ok(infer_session_shift(s, 4, 146, &error)); /* down again */
        check_ids(s, 4, 57, 213);
        assert_int_equal(info_of(s).computed, 217);
        check_layer0(s, cold, 0, 217);
        (void)feed(s, 0, 5);
        infer_session_release(cold), infer_session_release(s), infer_session_release(doc);
        infer_checkpoint_release(c);
        close_model(m, e);
    }
}

/* The answer after a shift, and whether it is approximate; it must not depend on how the state came about. */
static void check_shift(infer_model *m, int32_t type, uint64_t length, uint64_t computed, uint64_t keep, uint64_t drop)
{
    infer_session *a = new_session(m, type), *b = new_session(m, type), *fork, *cold = new_session(m, type);
    (void)feed(a, 0, computed);
    for (uint64_t at = 0; at < computed; at += 77)
        (void)feed(b, at, at + 77 < computed ? at + 77 : computed);
    ok(infer_session_fork(a, &fork, &error));
    infer_session *all[3] = {a, b, fork};
    float *want = malloc(n_vocab * sizeof *want);
    bool approximate = false;
    for (int i = 0; i < 3; i++) {
        ok(infer_session_append(all[i], ids + computed, length - computed, &error));
        ok(infer_session_shift(all[i], keep, drop, &error));
        infer_session_info info = info_of(all[i]);
        assert_int_equal(info.length, length - drop);
        assert_int_equal(info.logits_rows, 0);
        if (keep)
            check_ids(all[i], 0, 0, keep);
        check_ids(all[i], keep, keep + drop, length - keep - drop);
        approximate = info.approximate;
        const float *row = step(all[i]);
        if (i)
            same(row, want, "shift");
        memcpy(want, row, n_vocab * sizeof *want);
    }
    if (!approximate) { /* then it is exact */
        ok(infer_session_append(cold, ids, keep, &error));
        same(want, feed(cold, keep + drop, length), "exact shift");
    }
    assert_true(approximate == (computed > keep + drop) || m->net->h.window);
    for (int i = 0; i < 3; i++)
        infer_session_release(all[i]);
    infer_session_release(cold);
    free(want);
}

static void test_shift(void **state)
{
    (void)state;
    static const char *const names[] = {"llama", "gemma3"};
    static const int32_t types[] = {INFER_KV_F16, INFER_KV_BF16, INFER_KV_INT8_64, INFER_KV_MIXED_F32};
    for (int i = 0; i < 2; i++) {
        infer_engine *e;
        infer_model *m = open_model(names[i], &e);
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            check_shift(m, types[t], 700, 700, 4, 300);
            check_shift(m, types[t], 400, 390, 70, 1);
            check_shift(m, types[t], 130, 100, 90, 20);  /* the gap reaches into what is pending */
            check_shift(m, types[t], 130, 80, 90, 20);   /* and lies there */
            check_shift(m, types[t], 1300, 1300, 0, 64); /* behind a resume point; no sinks */
            check_shift(m, types[t], 200, 200, 150, 30); /* windows want what lies before the gap */
        }
        close_model(m, e);
    }
}

static void test_mark(void **state)
{
    (void)state;
    infer_engine *e;
    infer_model *m = open_model("llama", &e);
    infer_session *doc = new_session(m, INFER_KV_F16), *s = new_session(m, INFER_KV_F16), *fork, *back;
    infer_checkpoint_info ci;
    (void)feed(doc, 0, 200);
    infer_checkpoint *c = checkpoint_of(doc), *marked;
    (void)feed(s, 300, 340);
    ok(infer_session_graft(s, c, 0, 100, 8, NULL, NULL, &error));
    assert_int_equal(info_of(s).approximate, 1);
    (void)feed(s, 0, 10);
    assert_int_equal(info_of(s).approximate, 1);
    ok(infer_session_fork(s, &fork, &error));
    assert_int_equal(info_of(fork).approximate, 1);
    marked = checkpoint_of(s);
    INFER_INIT(&ci);
    ok(infer_checkpoint_get_info(marked, &ci, &error));
    assert_int_equal(ci.approximate, 1);
    ok(infer_checkpoint_session(marked, &back, &error));
    assert_int_equal(info_of(back).approximate, 1);
    ok(infer_session_truncate(fork, 49, NULL, &error)); /* one element of the graft is left */
    assert_int_equal(info_of(fork).approximate, 1);
    ok(infer_session_truncate(fork, 48, NULL, &error)); /* the seam, which was computed here */
    assert_int_equal(info_of(fork).approximate, 0);
    infer_session *cold = new_session(m, INFER_KV_F16);
    (void)feed(cold, 300, 340), (void)feed(cold, 0, 8);
    const float *row = feed(fork, 600, 620);
    same(row, feed(cold, 600, 620), "rolled back to before the graft");
    ok(infer_session_restore(cold, marked, &error));
    assert_int_equal(info_of(cold).approximate, 1);
    ok(infer_session_graft(cold, c, 150, 50, 0, NULL, NULL, &error)); /* a second one changes nothing about it */
    ok(infer_session_truncate(cold, 60, NULL, &error));
    assert_int_equal(info_of(cold).approximate, 1);
    ok(infer_session_restore(cold, c, &error));
    assert_int_equal(info_of(cold).approximate, 0);
    /* what was taken from marked state is not exact either, wherever it lies */
    infer_session *again = new_session(m, INFER_KV_F16);
    (void)feed(again, 300, 340);
    ok(infer_session_graft(again, marked, 40, 50, 0, NULL, NULL, &error));
    assert_int_equal(info_of(again).approximate, 1);
    infer_session_release(again), infer_session_release(cold), infer_session_release(back), infer_session_release(fork);
    infer_session_release(s), infer_session_release(doc);
    infer_checkpoint_release(c), infer_checkpoint_release(marked);
    close_model(m, e);
}

static void test_refused(void **state)
{
    (void)state;
    infer_engine *e, *e2;
    infer_model *m = open_model("llama", &e);
    infer_session *doc = new_session(m, INFER_KV_F16), *s = new_session(m, INFER_KV_F16), *other = new_session(m, INFER_KV_INT8);
    (void)feed(doc, 0, 1300);
    ok(infer_session_append(doc, ids, 10, &error)); /* pending: no state to take */
    infer_checkpoint *c = checkpoint_of(doc);
    (void)feed(s, 0, 200), (void)feed(other, 0, 20);
    const uint64_t huge[] = {201, UINT64_MAX, UINT64_MAX - 100, (uint64_t)INT64_MAX + 1};
    for (int i = 0; i < 4; i++) {
        refused(infer_session_shift(s, huge[i], 1, &error), INFER_ERROR_ARGUMENT, "keep");
        refused(infer_session_shift(s, 150, huge[i], &error), INFER_ERROR_ARGUMENT, "drop");
        refused(infer_session_graft(s, c, huge[i] < 1301 ? 1301 : huge[i], 1, 0, NULL, NULL, &error), INFER_ERROR_ARGUMENT, "first");
        refused(infer_session_graft(s, c, 1200, huge[i], 0, NULL, NULL, &error), INFER_ERROR_ARGUMENT, "count");
        refused(infer_session_graft(s, c, 0, 10, huge[i], NULL, NULL, &error), INFER_ERROR_ARGUMENT, "recompute");
    }
    refused(infer_session_graft(s, c, 1250, 51, 0, NULL, NULL, &error), INFER_ERROR_ARGUMENT, "count");
    refused(infer_session_graft(s, c, 0, 1201, 0, NULL, NULL, &error), INFER_ERROR_CONTEXT_FULL, NULL);
    refused(infer_session_graft(other, c, 0, 10, 0, NULL, NULL, &error), INFER_ERROR_ARGUMENT, "checkpoint");
    refused(infer_session_graft(NULL, c, 0, 10, 0, NULL, NULL, &error), INFER_ERROR_ARGUMENT, NULL);
    refused(infer_session_graft(s, NULL, 0, 10, 0, NULL, NULL, &error), INFER_ERROR_ARGUMENT, NULL);
    refused(infer_session_shift(NULL, 0, 0, &error), INFER_ERROR_ARGUMENT, NULL);
    assert_int_equal(info_of(s).length, 200);
    assert_int_equal(info_of(s).logits_rows, 1); /* not even the logits are gone */
    ok(infer_session_graft(s, c, 1300, 0, 0, NULL, NULL, &error)); /* nothing */
    ok(infer_session_shift(s, 200, 0, &error));
    ok(infer_session_shift(s, 0, 0, &error));
    assert_int_equal(info_of(s).logits_rows, 1);
    ok(infer_session_append(s, ids, 1, &error));
    refused(infer_session_graft(s, c, 0, 10, 0, NULL, NULL, &error), INFER_ERROR_STATE, NULL);
    ok(infer_session_shift(s, 0, 201, &error));
    assert_int_equal(info_of(s).length, 0);
    infer_model *gpt2 = open_model("gpt2", &e2);
    infer_session *a = new_session(gpt2, INFER_KV_F16);
    (void)feed(a, 0, 60);
    infer_checkpoint *ca = checkpoint_of(a);
    refused(infer_session_shift(a, 4, 10, &error), INFER_ERROR_UNSUPPORTED, NULL);
    refused(infer_session_graft(a, ca, 0, 10, 0, NULL, NULL, &error), INFER_ERROR_UNSUPPORTED, NULL);
    refused(infer_session_graft(a, c, 0, 10, 0, NULL, NULL, &error), INFER_ERROR_ARGUMENT, "checkpoint");
    assert_int_equal(info_of(a).length, 60);
    infer_session_release(a), infer_checkpoint_release(ca), infer_checkpoint_release(c);
    infer_session_release(s), infer_session_release(doc), infer_session_release(other);
    close_model(gpt2, e2);
    close_model(m, e);
}

/* ---- generation that goes on past the end of the context */

static void test_generate(void **state)
{
    (void)state;
    infer_engine *e;
    infer_model *m = open_model("llama", &e);
    infer_session_options so;
    infer_session *s;
    infer_generate_options go;
    infer_event ev;
    INFER_INIT(&so);
    so.n_ctx = 64;
    ok(infer_session_create(m, &so, &s, &error));
    ok(infer_session_append(s, ids, 30, &error));
    INFER_INIT(&go);
    go.flags = INFER_GENERATE_IGNORE_EOS;
    go.max_tokens = 200;
    const uint64_t bad[][2] = {{64, 1}, {60, 4}, {0, 64}, {UINT64_MAX, 1}, {1, UINT64_MAX}};
    for (int i = 0; i < 5; i++) {
        go.shift_keep = bad[i][0];
        go.shift_drop = bad[i][1];
        refused(infer_generate_begin(s, &go, &error), INFER_ERROR_ARGUMENT, "shift_drop");
    }
    go.shift_keep = 4;
    go.shift_drop = 20;
    ok(infer_generate_begin(s, &go, &error));
    uint32_t tokens = 0, shifts = 0;
    uint64_t length = 30;
    for (;;) {
        INFER_INIT(&ev);
        ok(infer_generate_next(s, &ev, NULL, &error));
        if (ev.kind == INFER_EVENT_DONE)
            break;
        if (ev.kind == INFER_EVENT_TOKEN)
            tokens++, length++;
        if (ev.kind == INFER_EVENT_SHIFT) {
            shifts++;
            assert_int_equal(length, 64);
            assert_int_equal(ev.done, 20);
            length -= ev.done;
            assert_int_equal(ev.total, length);
            assert_int_equal(ev.text_len, 0);
            assert_int_equal(info_of(s).approximate, 1);
        }
        assert_int_equal(info_of(s).length, length);
    }
    assert_int_equal(ev.finish_reason, INFER_FINISH_LENGTH);
    assert_int_equal(tokens, 200);
    assert_int_equal(shifts, 9); /* 34 tokens, then one shift for every 20 */
    check_ids(s, 0, 0, 4);
    go.shift_drop = 0; /* off */
    ok(infer_generate_begin(s, &go, &error));
    do {
        INFER_INIT(&ev);
        ok(infer_generate_next(s, &ev, NULL, &error));
        assert_true(ev.kind != INFER_EVENT_SHIFT);
    } while (ev.kind != INFER_EVENT_DONE);
    assert_int_equal(ev.finish_reason, INFER_FINISH_CONTEXT);
    infer_session_release(s);
    close_model(m, e);
    m = open_model("gpt2", &e);
    s = new_session(m, INFER_KV_F16);
    ok(infer_session_append(s, ids, 5, &error));
    go.shift_drop = 4;
    refused(infer_generate_begin(s, &go, &error), INFER_ERROR_UNSUPPORTED, NULL);
    infer_session_release(s);
    close_model(m, e);
}

/* A session that looks up in the prefix cache, and one that does not, agree about ids[300, 304) and what lies behind a gap of 30. */
static void check_cache(infer_model *m)
{
    infer_session_options so;
    infer_session *s[2];
    INFER_INIT(&so);
    for (int i = 0; i < 2; i++) {
        so.cache_flags = i ? INFER_CACHE_NO_LOOKUP | INFER_CACHE_NO_INSERT : INFER_CACHE_NO_INSERT;
        ok(infer_session_create(m, &so, &s[i], &error));
        ok(infer_session_append(s[i], ids + 300, 4, &error));
    }
    same(feed(s[0], 334, 400), feed(s[1], 334, 400), "with what the prefix cache has");
    infer_session_release(s[0]), infer_session_release(s[1]);
}

/* Every allocation of a graft or shift fails: the session goes on as if nothing had been, and nothing wrong gets into the prefix cache. */
static void test_no_memory(void **state)
{
    (void)state;
    infer_engine *e;
    infer_model *m = open_model("llama", &e);
    ok(prefix_setup(e, &(infer_engine_options){.cache_bytes = 1 << 24}, &error));
    infer_session *doc = new_session(m, INFER_KV_F16), *s = new_session(m, INFER_KV_F16), *fork;
    (void)feed(doc, 0, 300);
    infer_checkpoint *c = checkpoint_of(doc);
    (void)feed(s, 300, 400);
    ok(infer_session_fork(s, &fork, &error));
    float *want = malloc(n_vocab * sizeof *want);
    memcpy(want, feed(fork, 700, 705), n_vocab * sizeof *want);
    infer_session_release(fork);
    for (int what = 0; what < 2; what++) {
        uint64_t failed = 0;
        for (uint64_t k = 1;; k++) {
            ok(infer_session_fork(s, &fork, &error));
            counted.calls = 0;
            counted.fail_at = k;
            infer_status st = what ? infer_session_shift(fork, 4, 30, &error) : infer_session_graft(fork, c, 10, 200, 5, NULL, NULL, &error);
            counted.fail_at = 0;
            if (st != INFER_OK) {
                assert_int_equal(st, INFER_ERROR_NO_MEMORY);
                assert_int_equal(info_of(fork).length, 100);
                assert_int_equal(info_of(fork).approximate, 0);
                assert_int_equal(info_of(fork).logits_rows, 1);
                same(feed(fork, 700, 705), want, "after a failed call");
                failed++;
            }
            infer_session_release(fork);
            check_cache(m);
            if (st == INFER_OK)
                break;
        }
        print_message("# each of %llu allocations failed\n", (unsigned long long)failed);
        assert_true(failed > 2);
    }
    free(want);
    infer_session_release(s), infer_session_release(doc);
    infer_checkpoint_release(c);
    close_model(m, e);
    assert_int_equal(counted.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_exact),    cmocka_unit_test(test_exact_rows), cmocka_unit_test(test_layer0),
                                       cmocka_unit_test(test_shift_rows),
                                       cmocka_unit_test(test_shift),    cmocka_unit_test(test_mark),       cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_generate), cmocka_unit_test(test_no_memory)};
    return cmocka_run_group_tests_name("graft", tests, NULL, NULL);
}
