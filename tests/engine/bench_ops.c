/* Where the time of a step goes, by operation of the device seam:
 *
 *     build-dir/tests/bench_ops MODEL.gguf [threads] [prompt] [depth] [sessions] [tokens] [cpu] [numerics] [map]
 *
 * Prints three tables: a prompt of that many tokens, one session decoding at that depth, and that many sessions stepped together. "outside"
 * is what the seam's calls do not account for: the engine's own work. By hand; not a test. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/engine.h"
#include "infer/infer.h"
#include "kernels/cpu.h"

enum { EMBED, NORM, MATMUL, MATMUL_OUT, ROPE_TABLE, ROPE, KV_WRITE, ATTENTION, ACT, ADD, SCALE, SOFTCAP, GATHER, READ, WRITE, N_OPS };
static const char *const names[N_OPS] = {"embed", "norm", "matmul", "matmul (vocabulary)", "rope_table", "rope", "kv_write", "attention",
                                         "act", "add", "scale", "softcap", "gather", "read", "write"};

struct timing {
    struct device base;
    struct device *inner;
    uint32_t n_logits;
    double t[N_OPS];
    uint64_t calls[N_OPS];
};

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

#define INNER(d) (((struct timing *)(d))->inner)
#define TIMED(d, op, call)                                                                                             \
    do {                                                                                                               \
        struct timing *t_ = (struct timing *)(d);                                                                      \
        double from_ = now();                                                                                          \
        call;                                                                                                          \
        t_->t[op] += now() - from_;                                                                                    \
        t_->calls[op]++;                                                                                               \
    } while (0)

static void t_destroy(struct device *d)
{
    INNER(d)->ops->destroy(INNER(d));
}
static infer_status t_alloc(struct device *d, uint64_t n, struct dev_buffer **o, infer_error *e)
{
    return INNER(d)->ops->alloc(INNER(d), n, o, e);
}
static infer_status t_import(struct device *d, const void *h, uint64_t n, struct dev_buffer **o, infer_error *e)
{
    return INNER(d)->ops->import(INNER(d), h, n, o, e);
}
static void t_free(struct device *d, struct dev_buffer *b)
{
    INNER(d)->ops->free(INNER(d), b);
}
static void t_write(struct device *d, struct dev_ref a, const void *h, uint64_t n)
{
    TIMED(d, WRITE, INNER(d)->ops->write(INNER(d), a, h, n));
}
static void t_read(struct device *d, void *h, struct dev_ref a, uint64_t n)
{
    TIMED(d, READ, INNER(d)->ops->read(INNER(d), h, a, n));
}
static void t_read_rows(struct device *d, float *const *h, struct dev_ref a, uint32_t n, uint32_t w, bool *f)
{
    TIMED(d, READ, INNER(d)->ops->read_rows(INNER(d), h, a, n, w, f));
}
static void t_copy(struct device *d, struct dev_ref a, struct dev_ref b, uint64_t n)
{
    TIMED(d, WRITE, INNER(d)->ops->copy(INNER(d), a, b, n));
}
static void t_embed(struct device *d, struct dev_ref a, const struct dev_weight *w, const uint32_t *ids, uint32_t n, float s, int add)
{
    TIMED(d, EMBED, INNER(d)->ops->embed(INNER(d), a, w, ids, n, s, add));
}
static void t_norm(struct device *d, const struct dev_norm *op)
{
    TIMED(d, NORM, INNER(d)->ops->norm(INNER(d), op));
}
static void t_matmul(struct device *d, struct dev_ref s, uint32_t stride, uint32_t n, const struct dev_matmul *ops, uint32_t k)
{
    int which = ops[0].w.n_out == ((struct timing *)d)->n_logits ? MATMUL_OUT : MATMUL;
    TIMED(d, which, INNER(d)->ops->matmul(INNER(d), s, stride, n, ops, k));
}
static void t_rope_table(struct device *d, struct dev_ref t, struct dev_ref f, uint32_t h, const uint32_t *p, uint32_t n, float m)
{
    TIMED(d, ROPE_TABLE, INNER(d)->ops->rope_table(INNER(d), t, f, h, p, n, m));
}
static void t_rope(struct device *d, const struct dev_rope *op)
{
    TIMED(d, ROPE, INNER(d)->ops->rope(INNER(d), op));
}
static void t_kv_write(struct device *d, const struct dev_kv *kv, struct dev_ref k, uint32_t ks, struct dev_ref v, uint32_t vs,
                       const struct dev_seq *s, uint32_t n)
{
    TIMED(d, KV_WRITE, INNER(d)->ops->kv_write(INNER(d), kv, k, ks, v, vs, s, n));
}
static void t_attention(struct device *d, const struct dev_attention *op)
{
    TIMED(d, ATTENTION, INNER(d)->ops->attention(INNER(d), op));
}
static void t_act(struct device *d, enum dev_act act, struct dev_ref a, struct dev_ref g, struct dev_ref u, uint32_t n, uint32_t w, uint32_t s)
{
    TIMED(d, ACT, INNER(d)->ops->act(INNER(d), act, a, g, u, n, w, s));
}
static void t_add(struct device *d, struct dev_ref a, struct dev_ref b, uint64_t n)
{
    TIMED(d, ADD, INNER(d)->ops->add(INNER(d), a, b, n));
}
static void t_scale(struct device *d, struct dev_ref x, uint64_t n, float f)
{
    TIMED(d, SCALE, INNER(d)->ops->scale(INNER(d), x, n, f));
}
static void t_softcap(struct device *d, struct dev_ref x, uint64_t n, float c)
{
    TIMED(d, SOFTCAP, INNER(d)->ops->softcap(INNER(d), x, n, c));
}
static void t_gather(struct device *d, struct dev_ref a, struct dev_ref b, const uint32_t *r, uint32_t n, uint32_t w)
{
    TIMED(d, GATHER, INNER(d)->ops->gather(INNER(d), a, b, r, n, w));
}
static void t_steer(struct device *d, const struct dev_steer *op)
{
    TIMED(d, ADD, INNER(d)->ops->steer(INNER(d), op));
}
static infer_status t_sync(struct device *d, infer_error *e)
{
    return INNER(d)->ops->sync(INNER(d), e);
}

static void t_watch(struct device *d, dev_stop_fn stop, void *user)
{
    INNER(d)->ops->watch(INNER(d), stop, user);
}

static bool t_stopped(struct device *d)
{
    return INNER(d)->ops->stopped(INNER(d));
}

static const struct device_ops timed_ops = {
    .name = "timing", .destroy = t_destroy, .alloc = t_alloc, .import = t_import, .free = t_free, .write = t_write, .read = t_read,
    .read_rows = t_read_rows, .copy = t_copy, .embed = t_embed, .norm = t_norm, .matmul = t_matmul, .rope_table = t_rope_table,
    .rope = t_rope, .kv_write = t_kv_write, .attention = t_attention, .act = t_act, .add = t_add, .scale = t_scale,
    .softcap = t_softcap, .steer = t_steer, .gather = t_gather, .sync = t_sync, .watch = t_watch, .stopped = t_stopped,
};

static infer_error error;

static void ok(infer_status st)
{
    if (st != INFER_OK) {
        fprintf(stderr, "%s: %s (%s)\n", infer_status_name(st), error.text, error.name);
        exit(1);
    }
}

static struct timing timing;

static void begin(void)
{
    memset(timing.t, 0, sizeof timing.t);
    memset(timing.calls, 0, sizeof timing.calls);
}

static void table(const char *title, double wall, double tokens)
{
    double sum = 0;
    printf("%s: %.1f tokens/s, %.3f ms a token\n", title, tokens / wall, wall / tokens * 1e3);
    for (int i = 0; i < N_OPS; i++) {
        sum += timing.t[i];
        if (timing.calls[i])
            printf("  %-20s %6.2f %%  %9.3f ms  %6llu calls  %8.2f us each\n", names[i], timing.t[i] / wall * 100, timing.t[i] * 1e3,
                   (unsigned long long)timing.calls[i], timing.t[i] / (double)timing.calls[i] * 1e6);
    }
    printf("  %-20s %6.2f %%  %9.3f ms\n", "outside", (wall - sum) / wall * 100, (wall - sum) * 1e3);
    double rest = wall - timing.t[MATMUL] - timing.t[MATMUL_OUT] - timing.t[ATTENTION];
    printf("  all but matmul and attention: %.2f %%\n", rest / wall * 100);
}

/* Appends n pseudo-random tokens. */
static void append(infer_session *s, uint32_t n, uint32_t vocab)
{
    static uint64_t seed = 1;
    for (uint32_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        int32_t id = (int32_t)((seed >> 33) % vocab);
        ok(infer_session_append(s, &id, 1, &error));
    }
}

static double step(infer_session **s, uint32_t n)
{
    infer_step_item it[256];
    for (uint32_t i = 0; i < n; i++) {
        INFER_INIT(&it[i]);
        it[i].session = s[i];
    }
    double from = now();
    ok(infer_step(it, n, NULL, &error));
    return now() - from;
}

static void decode(const char *title, infer_session **s, uint32_t n, uint32_t tokens, uint32_t vocab)
{
    double wall = 0;
    for (uint32_t k = 0; k < tokens + 2; k++) {
        if (k == 2) {
            begin();
            wall = 0;
        }
        for (uint32_t i = 0; i < n; i++)
            append(s[i], 1, vocab);
        wall += step(s, n);
    }
    table(title, wall, (double)tokens * n);
}

int main(int argc, char **argv)
{
    uint32_t arg[9] = {0, 2, 512, 256, 16, 16, 0, 0, 0};
    for (int i = 2; i < argc && i < 10; i++)
        arg[i - 1] = (uint32_t)strtoul(argv[i], NULL, 10);
    if (argc < 2)
        return 2;
    struct env env = env_default;
    struct cpu_device_options o = {.cpu = (int32_t)arg[6], .numerics = (int32_t)arg[7], .threads = arg[1]};
    infer_engine *e;
    infer_model *m;
    infer_session *s[256];
    infer_model_info info;
    INFER_INIT(&error);
    INFER_INIT(&info);
    ok(cpu_device_create(&env.alloc, &o, &timing.inner, &error));
    timing.base.ops = &timed_ops;
    ok(engine_create_on(&env, &timing.base, 0, &e, &error));
    infer_source source;
    infer_open_options oo;
    INFER_INIT(&oo);
    oo.map = (int32_t)arg[8];
    infer_source_path(&source, argv[1], INFER_ZSTR);
    ok(infer_model_open(e, &source, &oo, &m, &error));
    ok(infer_model_get_info(m, &info, &error));
    timing.n_logits = info.vocab_size;
    uint32_t vocab = m->net->h.n_vocab;
    ok(infer_session_create(m, NULL, &s[0], &error));
    append(s[0], 16, vocab);
    step(s, 1); /* warm */
    for (int round = 0; round < 2 && arg[2]; round++) {
        ok(infer_session_truncate(s[0], 0, NULL, &error));
        append(s[0], arg[2], vocab);
        begin();
        double wall = step(s, 1);
        if (round)
            table("prompt", wall, arg[2]);
    }
    ok(infer_session_truncate(s[0], 0, NULL, &error));
    append(s[0], arg[3], vocab);
    step(s, 1);
    decode("one session", s, 1, arg[5] * 2, vocab);
    if (arg[4] > 1) {
        ok(infer_session_truncate(s[0], arg[3], NULL, &error));
        for (uint32_t i = 1; i < arg[4]; i++)
            ok(infer_session_fork(s[0], &s[i], &error));
        decode("together", s, arg[4], arg[5], vocab);
        for (uint32_t i = 1; i < arg[4]; i++)
            infer_session_release(s[i]);
    }
    infer_session_release(s[0]);
    infer_model_release(m);
    infer_engine_release(e);
    return 0;
}
