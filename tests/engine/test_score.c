/* Log-probabilities of given ids against a log-softmax in double over the rows that infer_session_logits gives. */
#include "ckpt_tests.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TINY  INFER_SOURCE_DIR "/models/tiny.gguf"
#define MOST  300
#define N_TOP 5

struct scores {
    float p[MOST];
    infer_logprob top[MOST * N_TOP];
    infer_score o;
};

static infer_status try_score(infer_session *s, const int32_t *ids, uint64_t n, struct scores *out, infer_cancel *cancel)
{
    INFER_INIT(&out->o);
    out->o.logprobs = out->p;
    out->o.top = out->top;
    out->o.top_logprobs = N_TOP;
    return infer_session_score(s, ids, n, &out->o, cancel, &error);
}

static infer_session_info info_of(const infer_session *s)
{
    infer_session_info i;
    INFER_INIT(&i);
    ok(infer_session_get_info(s, &i, &error));
    return i;
}

/* The fixture's prompt, over and over. */
static void fill(const struct ckpt_model *m, int32_t *ids, uint64_t from, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        ids[i] = m->g.prompt[(from + i) % m->g.n_prompt];
}

struct reference {
    double p[MOST];
    int32_t top[MOST][N_TOP];
    double top_p[MOST][N_TOP];
};

static void reference_row(const float *row, uint32_t n, int32_t id, double *p, int32_t *top, double *top_p)
{
    double max = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < n; i++)
        max = row[i] > max ? (double)row[i] : max;
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)row[i] - max);
    *p = (double)row[id] - max - log(sum);
    for (int k = 0; k < N_TOP; k++) {
        top[k] = -1;
        for (uint32_t i = 0; i < n; i++) {
            bool used = false;
            for (int j = 0; j < k; j++)
                used = used || top[j] == (int32_t)i;
            if (!used && (top[k] < 0 || row[i] > row[top[k]]))
                top[k] = (int32_t)i;
        }
        top_p[k] = (double)row[top[k]] - max - log(sum);
    }
}

/* Of ids[from .. n), each after all before it: one step with all logits. */
static void make_reference(const struct ckpt_model *m, int32_t kv_type, const int32_t *ids, uint64_t n, struct reference *r)
{
    infer_session *s = ckpt_session(m, kv_type);
    infer_step_item it;
    ok(infer_session_append(s, ids, n, &error));
    INFER_INIT(&it);
    it.session = s;
    it.logits = INFER_ROWS_ALL;
    ok(infer_step(&it, 1, NULL, &error));
    for (uint64_t i = 1; i < n; i++) {
        const float *row;
        ok(infer_session_logits(s, i - 1, &row, NULL, &error));
        reference_row(row, session_vocab(s), ids[i], &r->p[i], r->top[i], r->top_p[i]);
    }
    infer_session_release(s);
}

/* got is of ids[from .. from + n). */
static void compare(const struct scores *got, const struct reference *r, uint64_t from, uint64_t n)
{
    double sum = 0;
    assert_int_equal(got->o.first, from == 0);
    if (from == 0) {
        assert_true(got->p[0] == 0);
        for (int k = 0; k < N_TOP; k++)
            assert_true(got->top[k].id == -1 && got->top[k].logprob == 0);
    }
    for (uint64_t i = from ? 0 : 1; i < n; i++) {
        double p = r->p[from + i];
        assert_true(fabs((double)got->p[i] - p) <= 1e-7 * (1 + fabs(p)));
        sum += p;
        for (int k = 0; k < N_TOP; k++) {
            assert_int_equal(got->top[i * N_TOP + k].id, r->top[from + i][k]);
            assert_true(fabs((double)got->top[i * N_TOP + k].logprob - r->top_p[from + i][k]) <= 1e-7 * (1 + fabs(r->top_p[from + i][k])));
        }
    }
    assert_true(fabs(got->o.sum - sum) <= 1e-10 * (1 + fabs(sum)));
}

/* Models with windows, padded vocabularies and experts; continuations of all lengths around the size of a piece, from every state of the session. */
static void test_reference(void **state)
{
    (void)state;
    static const char *const fixtures[] = {"llama", "gemma3", "gpt2", "qwen3moe", "deepseek2"};
    static const uint64_t lengths[] = {1, 2, 31, 32, 33, 34, 64, 65, 66, 150};
    static struct scores got;
    static struct reference want;
    int32_t ids[MOST];
    for (size_t f = 0; f < sizeof fixtures / sizeof *fixtures; f++) {
        struct ckpt_model m = ckpt_open(fixtures[f]);
        fill(&m, ids, 0, 100 + 150);
        for (int kv = 0; kv < 2; kv++) {
            int32_t type = kv ? INFER_KV_INT8 : INFER_KV_F16;
            make_reference(&m, type, ids, 250, &want);
            for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
                for (int way = 0; way < 4; way++) {
                    static const uint64_t prompts[] = {0, 1, 70, 100};
                    uint64_t prompt = prompts[(l + (size_t)way) % 4], n = lengths[l];
                    infer_session *s = ckpt_session(&m, type);
                    ok(infer_session_append(s, ids, prompt, &error));
                    if (way == 1)
                        ckpt_step(s);
                    if (way == 2 && prompt) { /* logits of all, or none */
                        infer_step_item it;
                        INFER_INIT(&it);
                        it.session = s;
                        it.logits = l % 2 ? INFER_ROWS_ALL : INFER_ROWS_NONE;
                        ok(infer_step(&it, 1, NULL, &error));
                    }
                    uint64_t first = way == 3 ? n / 2 : n; /* in two calls */
                    ok(try_score(s, ids + prompt, first, &got, NULL));
                    if (first)
                        compare(&got, &want, prompt, first);
                    ok(try_score(s, ids + prompt + first, n - first, &got, NULL));
                    if (n > first)
                        compare(&got, &want, prompt + first, n - first);
                    else
                        assert_true(got.o.first == 0 && got.o.sum == 0);
                    infer_session_info i = info_of(s);
                    assert_int_equal(i.length, prompt + n);
                    assert_int_equal(i.computed, prompt + n - 1);
                    assert_true(i.logits_rows <= 32 || (n == 1 && way == 2));
                    infer_session_release(s);
                }
        }
        ckpt_close(&m);
    }
}

/* Nothing is asked for but the sum; a NULL array is not written. */
static void test_sum_only(void **state)
{
    (void)state;
    struct ckpt_model m = ckpt_open("llama");
    static struct scores got;
    infer_score o;
    int32_t ids[60];
    infer_session *s = ckpt_session(&m, INFER_KV_F16), *t = ckpt_session(&m, INFER_KV_F16);
    fill(&m, ids, 0, 60);
    ok(try_score(s, ids, 60, &got, NULL));
    INFER_INIT(&o);
    o.top_logprobs = 20;
    ok(infer_session_score(t, ids, 60, &o, NULL, &error));
    assert_true(o.sum == got.o.sum && o.first == 1 && o.sum < 0);
    infer_session_release(s);
    infer_session_release(t);
    ckpt_close(&m);
}

/* What sampling tells of a drawn token, under no settings, is what scoring tells of it; and the session goes on as if the ids had been appended. */
static void test_sampled(void **state)
{
    (void)state;
    static struct scores got;
    struct ckpt_model m = ckpt_open("gemma3");
    int32_t ids[50];
    float p[50];
    infer_sampling so;
    infer_event ev;
    infer_session *s = ckpt_session(&m, INFER_KV_F16), *t = ckpt_session(&m, INFER_KV_F16), *all[2] = {s, t};
    INFER_INIT(&so);
    so.temperature = 1.0f;
    so.logprobs = 1;
    ok(infer_session_set_sampling(s, &so, &error));
    so.temperature = 0.3f; /* scoring does not care */
    so.presence_penalty = 3;
    ok(infer_session_set_sampling(t, &so, &error));
    infer_generate_options go;
    INFER_INIT(&go);
    go.flags = INFER_GENERATE_IGNORE_EOS;
    ckpt_append(&m, s, 0, 20);
    ckpt_append(&m, t, 0, 20);
    ok(infer_generate_begin(s, &go, &error));
    for (int i = 0; i < 50;) {
        INFER_INIT(&ev);
        ok(infer_generate_next(s, &ev, NULL, &error));
        if (ev.kind == INFER_EVENT_TOKEN) {
            ids[i] = ev.id;
            p[i++] = ev.logprob;
        }
    }
    ok(infer_generate_begin(t, &go, &error)); /* an answer goes on over it */
    ok(try_score(t, ids, 50, &got, NULL));
    assert_memory_equal(got.p, p, sizeof p);
    INFER_INIT(&so);
    ok(infer_session_set_sampling(s, &so, &error));
    ok(infer_session_set_sampling(t, &so, &error));
    int32_t next[2][10];
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 10;) {
            INFER_INIT(&ev);
            ok(infer_generate_next(all[k], &ev, NULL, &error));
            if (ev.kind == INFER_EVENT_TOKEN)
                next[k][i++] = ev.id;
        }
    assert_memory_equal(next[0], next[1], sizeof next[0]);
    infer_session_release(s);
    infer_session_release(t);
    ckpt_close(&m);
}

/* One continuation after another behind one prompt: roll back, or fork. */
static void test_continuations(void **state)
{
    (void)state;
    static struct scores got, again;
    struct ckpt_model m = ckpt_open("gemma3");
    int32_t ids[40];
    infer_session *s = ckpt_session(&m, INFER_KV_F16), *f;
    ckpt_append(&m, s, 0, 90);
    ckpt_step(s);
    for (uint64_t k = 0; k < 4; k++) {
        fill(&m, ids, 7 * k, 40);
        ok(infer_session_fork(s, &f, &error));
        ok(try_score(f, ids, 40, &got, NULL));
        ok(try_score(s, ids, 40, &again, NULL));
        assert_memory_equal(got.p, again.p, 40 * sizeof *got.p);
        assert_true(got.o.sum == again.o.sum);
        ok(infer_session_truncate(s, 90, NULL, &error));
        infer_session_release(f);
    }
    infer_session_release(s);
    ckpt_close(&m);
}

static void test_bad(void **state)
{
    (void)state;
    static struct scores got;
    struct ckpt_model m = ckpt_open("llama");
    infer_session *s = ckpt_session(&m, INFER_KV_F16);
    int32_t ids[40];
    infer_score o;
    fill(&m, ids, 0, 40);
    ckpt_append(&m, s, 0, 10);
    INFER_INIT(&o);
    assert_int_equal(infer_session_score(NULL, ids, 1, &o, NULL, &error), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_session_score(s, NULL, 1, &o, NULL, &error), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_session_score(s, ids, 1, NULL, NULL, &error), INFER_ERROR_ARGUMENT);
    ok(infer_session_score(s, NULL, 0, &o, NULL, &error));
    o.size = 0;
    assert_int_equal(infer_session_score(s, ids, 1, &o, NULL, &error), INFER_ERROR_ARGUMENT);
    INFER_INIT(&o);
    o.top_logprobs = 21;
    assert_int_equal(infer_session_score(s, ids, 1, &o, NULL, &error), INFER_ERROR_ARGUMENT);
    assert_string_equal(error.name, "top_logprobs");
    assert_int_equal(try_score(s, ids, UINT64_MAX, &got, NULL), INFER_ERROR_CONTEXT_FULL);
    assert_int_equal(try_score(s, ids, 100000, &got, NULL), INFER_ERROR_CONTEXT_FULL);
    ids[39] = -1;
    assert_int_equal(try_score(s, ids, 40, &got, NULL), INFER_ERROR_TOKEN);
    ids[39] = INT32_MAX;
    assert_int_equal(try_score(s, ids, 40, &got, NULL), INFER_ERROR_TOKEN);
    infer_session_info i = info_of(s);
    assert_int_equal(i.length, 10);
    assert_int_equal(i.computed, 0); /* nothing was begun */
    infer_session_release(s);
    ckpt_close(&m);
}

/* After a failure the session is as it was, and scoring again gives what it should. */
static void check_failed(infer_session *s, const struct ckpt_model *m, const float *logits)
{
    const float *row;
    uint64_t pos;
    infer_session_info i = info_of(s);
    assert_int_equal(i.length, 92);
    assert_int_equal(i.computed, 90);
    assert_int_equal(i.logits_rows, 1);
    ok(infer_session_logits(s, 0, &row, &pos, &error));
    assert_int_equal(pos, 89);
    assert_memory_equal(row, logits, m->g.n_vocab * sizeof *row);
}

static void test_failures(void **state)
{
    (void)state;
    static struct scores got, want;
    struct ckpt_model m = ckpt_open("gemma3");
    int32_t ids[100];
    infer_session *s = ckpt_session(&m, INFER_KV_F16), *f;
    const float *row;
    infer_cancel *cancel;
    fill(&m, ids, 3, 100);
    ckpt_append(&m, s, 0, 90);
    ckpt_step(s);
    ckpt_append(&m, s, 50, 2); /* pending ones too */
    ok(infer_session_logits(s, 0, &row, NULL, &error));
    float *logits = malloc(m.g.n_vocab * sizeof *logits);
    memcpy(logits, row, m.g.n_vocab * sizeof *logits);
    ok(infer_session_fork(s, &f, &error));
    ok(try_score(f, ids, 100, &want, NULL));
    infer_session_release(f);
    ok(infer_cancel_create(&cancel, &error));
    infer_cancel_set(cancel);
    assert_int_equal(try_score(s, ids, 100, &got, cancel), INFER_ERROR_CANCELLED);
    check_failed(s, &m, logits);
    infer_cancel_release(cancel);
    uint64_t at = 1;
    for (;; at++) {
        counted.calls = 0;
        counted.fail_at = at;
        infer_status st = try_score(s, ids, 100, &got, NULL);
        counted.fail_at = 0;
        if (st == INFER_OK)
            break;
        assert_int_equal(st, INFER_ERROR_NO_MEMORY);
        check_failed(s, &m, logits);
    }
    assert_true(at > 5);
    assert_memory_equal(got.p, want.p, 100 * sizeof *got.p);
    infer_session_release(s);
    free(logits);
    ckpt_close(&m);
}

/* Ten times the ids take no more rows of logits. */
static void test_memory(void **state)
{
    (void)state;
    static struct scores got;
    infer_model *m;
    int64_t peak[2];
    int32_t ids[MOST];
    ok(infer_model_open_path(engine, TINY, &m, &error));
    for (int i = 0; i < MOST; i++)
        ids[i] = 100 + i;
    for (int round = 0; round < 2; round++) {
        infer_session *s;
        ok(infer_session_create(m, NULL, &s, &error));
        ok(infer_session_append(s, ids, MOST, &error)); /* so that the KV is the same */
        ckpt_step(s);
        ok(infer_session_truncate(s, 1, NULL, &error));
        int64_t before = counted.live_bytes;
        counted.peak_bytes = before;
        ok(try_score(s, ids, round ? MOST - 1 : 33, &got, NULL));
        peak[round] = counted.peak_bytes - before;
        infer_session_release(s);
    }
    print_message("# peak of %lld bytes for 33 ids, %lld for %d\n", (long long)peak[0], (long long)peak[1], MOST - 1);
    assert_true(peak[1] < peak[0] + 400000 && peak[1] < 40 * 1536 * 4 + 1000000); /* 299 rows of logits would be 1.8 MB */
    infer_model_release(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),     cmocka_unit_test(test_sum_only), cmocka_unit_test(test_sampled),
        cmocka_unit_test(test_continuations), cmocka_unit_test(test_bad),      cmocka_unit_test(test_failures),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests_name("score", tests, ckpt_setup, ckpt_teardown);
}
