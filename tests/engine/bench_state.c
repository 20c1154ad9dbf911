/* What state costs: time and memory of a fork, a checkpoint, a restore, of a session with many elements.
 *
 *     build-dir/tests/engine/bench_state MODEL.gguf [elements [f16|f32|bf16|int8]]
 *
 * The session's pages are allocated, not computed: what is measured does not look into them, and computing 8,192 elements of a large model
 * would take minutes.
 *
 *     build-dir/tests/engine/bench_state MODEL.gguf sessions [sessions [prompt [own]]]
 *
 * KV memory of many sessions (1,000) that go on from one prompt (2,000 elements), with 20 elements of their own each; all are computed.
 * By hand; not tests. */
#define _DEFAULT_SOURCE
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/checkpoint.h"
#include "infer/state.h"

#define ROUNDS 1001

static infer_error error;
static _Atomic int64_t live; /* bytes from the allocator */

static void *get(void *user, uint64_t bytes, uint64_t align)
{
    void *p = NULL;
    (void)user;
    if (posix_memalign(&p, align < 16 ? 16 : (size_t)align, (size_t)bytes))
        return NULL;
    atomic_fetch_add(&live, (int64_t)bytes);
    return p;
}

static void put(void *user, void *block, uint64_t bytes, uint64_t align)
{
    (void)user;
    (void)align;
    atomic_fetch_sub(&live, (int64_t)bytes);
    free(block);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void ok(infer_status st)
{
    if (st != INFER_OK) {
        fprintf(stderr, "%s: %s (%s)\n", infer_status_name(st), error.text, error.name);
        exit(1);
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double times[ROUNDS];

static void report(const char *what, int64_t bytes, uint64_t kv)
{
    double first = times[0];
    qsort(times, ROUNDS, sizeof *times, by_value);
    printf("%-28s first %6.1f us, median %6.1f us, worst of %d %6.1f us; %lld bytes, %.4f %% of the KV\n", what, first * 1e6,
           times[ROUNDS / 2] * 1e6, ROUNDS, times[ROUNDS - 1] * 1e6, (long long)bytes, 100.0 * (double)bytes / (double)kv);
}

static infer_session *session_with(infer_model *m, int32_t kv_type, uint32_t n)
{
    infer_session *s;
    infer_session_options o;
    INFER_INIT(&o);
    o.n_ctx = n + 1024;
    o.kv_type = kv_type;
    ok(infer_session_create(m, &o, &s, &error));
    for (uint32_t i = 0; i < n; i++) {
        int32_t id = (int32_t)(i % 1000);
        ok(infer_session_append(s, &id, 1, &error));
    }
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++)
        for (uint64_t i = 0; i < n; i += DEV_KV_PAGE) {
            uint64_t end = i + DEV_KV_PAGE < n ? i + DEV_KV_PAGE : n;
            ok(kv_seq_reserve(&s->kv[g], m->engine->kv, m->engine->env, m->engine->dev, i, end, &error));
            kv_seq_drop(&s->kv[g], m->engine->kv, end);
        }
    ok(session_reserve_logits(s, 1, &error));
    memset(s->logits, 0, (size_t)m->net->h.n_logits * sizeof *s->logits);
    s->logits_pos[0] = n - 1;
    s->n_logits_rows = 1;
    s->computed = n;
    return s;
}

static void measure_forks(infer_session *s, uint64_t kv)
{
    static infer_session *f[ROUNDS];
    int64_t before = live;
    for (int i = 0; i < ROUNDS; i++) {
        double t = now();
        ok(infer_session_fork(s, &f[i], &error));
        times[i] = now() - t;
    }
    report("fork", (live - before) / ROUNDS, kv);
    before = live;
    for (int i = 0; i < ROUNDS; i++) {
        int32_t id = 5;
        double t = now();
        ok(infer_session_append(f[i], &id, 1, &error));
        times[i] = now() - t;
    }
    report("first append of a fork", (live - before) / ROUNDS, kv);
    for (int i = 0; i < ROUNDS; i++) {
        double t = now();
        infer_session_release(f[i]);
        times[i] = now() - t;
    }
    report("release of a fork", 0, kv);
}

static void measure_checkpoints(infer_session *s, uint64_t kv)
{
    static infer_checkpoint *c[ROUNDS];
    infer_session *t;
    int64_t before = live;
    ok(infer_session_create(s->model, NULL, &t, &error));
    for (int i = 0; i < ROUNDS; i++) {
        double at = now();
        ok(infer_checkpoint_create(s, &c[i], &error));
        times[i] = now() - at;
    }
    report("checkpoint", (live - before) / ROUNDS, kv);
    for (int i = 0; i < ROUNDS; i++) {
        double at = now();
        ok(infer_session_restore(t, c[i], &error));
        times[i] = now() - at;
    }
    report("restore", 0, kv);
    for (int i = 0; i < ROUNDS; i++)
        infer_checkpoint_release(c[i]);
    infer_session_release(t);
}

static uint64_t kv_bytes(infer_engine *e)
{
    infer_engine_info info;
    INFER_INIT(&info);
    ok(infer_engine_get_info(e, &info, &error));
    return info.kv_bytes;
}

static void append_some(infer_session *s, uint32_t n, uint32_t salt)
{
    for (uint32_t i = 0; i < n; i++) {
        int32_t id = (int32_t)((i * 7919 + salt * 104729 + 5) % session_vocab(s));
        ok(infer_session_append(s, &id, 1, &error));
    }
}

static uint64_t session_bytes(infer_session *s)
{
    infer_session_info info;
    INFER_INIT(&info);
    ok(infer_session_get_info(s, &info, &error));
    return info.kv_bytes;
}

static void measure_sessions(infer_model *m, uint32_t count, uint32_t prompt, uint32_t own)
{
    infer_engine *e = infer_model_engine(m);
    infer_step_item *it = calloc(count, sizeof *it), one;
    infer_session *s;
    infer_session_options o;
    INFER_INIT(&o);
    INFER_INIT(&one);
    o.n_ctx = prompt + own;
    ok(infer_session_create(m, &o, &s, &error));
    append_some(s, prompt, 0);
    one.session = s;
    ok(infer_step(&one, 1, NULL, &error));
    const uint64_t first = session_bytes(s), page = first / ((prompt + DEV_KV_PAGE - 1) / DEV_KV_PAGE), with_prompt = kv_bytes(e);
    const int64_t before = live;
    for (uint32_t i = 0; i < count; i++) {
        INFER_INIT(&it[i]);
        ok(infer_session_fork(s, &it[i].session, &error));
        append_some(it[i].session, own, i + 1);
        it[i].logits = INFER_ROWS_NONE;
    }
    const int64_t beside = live - before;
    ok(infer_step(it, count, NULL, &error));
    uint64_t apart = session_bytes(s) * (count + 1), took = kv_bytes(e);
    printf("%u sessions on a prompt of %u, %u elements of their own each\n", count, prompt, own);
    printf("KV of the prompt %.1f MiB, a page %.3f MiB\n", (double)first / 1048576, (double)page / 1048576);
    printf("at most (prompt and two pages a session) %.1f MiB; expected (prompt and a page a session) %.1f MiB; apart %.1f MiB\n",
           (double)(first + 2 * page * count) / 1048576, (double)(first + page * count) / 1048576, (double)apart / 1048576);
    printf("taken from the budget %.1f MiB, of which for the prompt %.1f; beside KV, once forked and appended to, %.2f KiB a session\n",
           (double)took / 1048576, (double)with_prompt / 1048576, (double)beside / 1024 / count);
    for (uint32_t i = 0; i < count; i++)
        infer_session_release(it[i].session);
    infer_session_release(s);
    free(it);
}

static uint32_t number(int argc, char **argv, int i, uint32_t otherwise)
{
    return argc > i ? (uint32_t)strtoul(argv[i], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int32_t type;
    } types[] = {{"f16", INFER_KV_F16}, {"f32", INFER_KV_F32}, {"bf16", INFER_KV_BF16}, {"int8", INFER_KV_INT8}};
    infer_allocator a = {.size = (uint32_t)sizeof a, .alloc = get, .free = put};
    infer_engine_options o;
    infer_engine *e;
    infer_model *m;
    int32_t type = INFER_KV_F16;
    if (argc < 2) {
        fprintf(stderr, "usage: bench_state MODEL.gguf [elements [f16|f32|bf16|int8]]\n");
        return 2;
    }
    uint32_t n = number(argc, argv, 2, 8192);
    for (size_t i = 0; argc > 3 && i < sizeof types / sizeof *types; i++)
        type = strcmp(argv[3], types[i].name) ? type : types[i].type;
    INFER_INIT(&error);
    INFER_INIT(&o);
    o.allocator = &a;
    o.threads = 2;
    ok(infer_engine_create(&o, &e, &error));
    ok(infer_model_open_path(e, argv[1], &m, &error));
    if (argc > 2 && !strcmp(argv[2], "sessions")) {
        measure_sessions(m, number(argc, argv, 3, 1000), number(argc, argv, 4, 2000), number(argc, argv, 5, 20));
        infer_model_release(m);
        infer_engine_release(e);
        return 0;
    }
    infer_session *s = session_with(m, type, n);
    infer_session_info info;
    INFER_INIT(&info);
    ok(infer_session_get_info(s, &info, &error));
    printf("%u elements, %.1f MiB of KV\n", n, (double)info.kv_bytes / 1048576);
    measure_forks(s, info.kv_bytes);
    measure_checkpoints(s, info.kv_bytes);
    infer_session_release(s);
    infer_model_release(m);
    infer_engine_release(e);
    return 0;
}
