/* What state costs: time and memory of a fork, a checkpoint, a restore, of a session with many elements.
 *
 *     build-dir/tests/engine/bench_state MODEL.gguf [elements [f16|f32|bf16|int8]]
 *
 * The session's pages are allocated, not computed: what is measured does not look into them, and computing 8,192 elements of a large model
 * would take minutes. By hand; not a test. */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/checkpoint.h"
#include "infer/infer.h"

#define ROUNDS 1001

static infer_error error;
static int64_t live; /* bytes from the allocator; one thread */

static void *get(void *user, uint64_t bytes, uint64_t align)
{
    void *p = NULL;
    (void)user;
    if (posix_memalign(&p, align < 16 ? 16 : (size_t)align, (size_t)bytes))
        return NULL;
    live += (int64_t)bytes;
    return p;
}

static void put(void *user, void *block, uint64_t bytes, uint64_t align)
{
    (void)user;
    (void)align;
    live -= (int64_t)bytes;
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
    before = live;
    for (int i = 0; i < ROUNDS; i++) {
        double t = now();
        infer_session_release(f[i]);
        times[i] = now() - t;
    }
    report("release of a fork", live - before, kv);
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
    uint32_t n = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 8192;
    for (size_t i = 0; argc > 3 && i < sizeof types / sizeof *types; i++)
        type = strcmp(argv[3], types[i].name) ? type : types[i].type;
    INFER_INIT(&error);
    INFER_INIT(&o);
    o.allocator = &a;
    o.threads = 1;
    ok(infer_engine_create(&o, &e, &error));
    ok(infer_model_open_path(e, argv[1], &m, &error));
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
