#include "speed.h"

#include <stdlib.h>
#include <string.h>

#define WARM_PROMPT 64u
#define WARM_TOKENS 4u
#define MAX_REREAD_BYTES ((uint64_t)512 << 20) /* no cache is larger */

/* The sessions of a combination, and the ids that each of them gets. */
struct run {
    const struct model *m;
    const struct options *o;
    struct limits *limits;
    struct speed *s;
    uint32_t n; /* sessions */
    uint64_t length; /* of a session when all is done */
    infer_session **sessions;
    infer_step_item *items;
    int32_t *ids; /* [n][length] */
    infer_error err;
    double busy, elapsed; /* processor time and time of this round's measurements */
};

/* Both clocks, to be added to a round by stop. */
struct watch {
    double cpu, time;
};

static struct watch watch_start(void)
{
    return (struct watch){bench_cpu_seconds(), bench_seconds()};
}

/* Seconds since. */
static double watch_stop(struct run *r, struct watch w)
{
    double seconds = bench_seconds() - w.time;
    r->busy += bench_cpu_seconds() - w.cpu;
    r->elapsed += seconds;
    return seconds;
}

static void run_free(struct run *r)
{
    for (uint32_t i = 0; r->sessions && i < r->n; i++)
        infer_session_release(r->sessions[i]);
    free(r->sessions);
    free(r->items);
    free(r->ids);
}

static int run_init(struct run *r, const struct model *m, const struct options *o, struct speed *s)
{
    infer_session_options so;
    *r = (struct run){.m = m, .o = o, .s = s, .n = s->batch};
    INFER_INIT(&r->err);
    INFER_INIT(&so);
    r->length = (uint64_t)s->depth + s->prompt + o->generate;
    r->sessions = calloc(r->n, sizeof *r->sessions);
    r->items = calloc(r->n, sizeof *r->items);
    r->ids = calloc(r->n, r->length * sizeof *r->ids);
    if (!r->sessions || !r->items || !r->ids) {
        complain("out of memory");
        return EXIT_FAILED;
    }
    so.n_ctx = (uint32_t)r->length;
    so.kv_type = o->kv_type;
    so.kv_recent = o->kv_recent;
    for (uint32_t i = 0; i < r->n; i++) {
        model_tokens(m, i + 1, r->ids + i * r->length, r->length);
        if (infer_session_create(m->model, &so, &r->sessions[i], &r->err) != INFER_OK)
            return complain_error(NULL, &r->err);
        INFER_INIT(&r->items[i]);
        r->items[i].session = r->sessions[i];
    }
    return EXIT_OK;
}

/* Gives each session its ids [from, from + count) and computes them; the logits of the last are there afterwards. */
static int feed(struct run *r, uint64_t from, uint64_t count)
{
    const float *logits;
    infer_status st = INFER_OK;
    for (uint32_t i = 0; i < r->n && st == INFER_OK; i++)
        st = infer_session_append(r->sessions[i], r->ids + i * r->length + from, count, &r->err);
    if (st == INFER_OK)
        st = infer_step(r->items, r->n, bench_cancel, &r->err);
    for (uint32_t i = 0; i < r->n && st == INFER_OK; i++)
        st = infer_session_logits(r->sessions[i], 0, &logits, NULL, &r->err);
    return st == INFER_OK ? EXIT_OK : complain_error(NULL, &r->err);
}

static int rewind_to(struct run *r, uint64_t length)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (infer_session_truncate(r->sessions[i], length, NULL, &r->err) != INFER_OK)
            return complain_error(NULL, &r->err);
    return EXIT_OK;
}

/* The likeliest next token of each session: what a user waits for. */
static int choose(struct run *r)
{
    infer_sample_result token;
    INFER_INIT(&token);
    for (uint32_t i = 0; i < r->n; i++)
        if (infer_session_sample(r->sessions[i], &token, &r->err) != INFER_OK)
            return complain_error(NULL, &r->err);
    return EXIT_OK;
}

/* The limit now, into its series. 0: not measured. */
static double limit_now(struct run *r, enum limit what)
{
    struct limit_result result;
    struct speed *s = r->s;
    uint64_t bytes = what == LIMIT_REREAD ? r->m->bytes : memory_to_read(r->o->limit_mib, r->m->bytes);
    if (!r->limits || !limits_measure(r->limits, what, r->m->engine_info.threads, bytes, &result))
        return 0;
    if (result.rate > series_max(&s->limit[what]))
        memcpy(s->how[what], result.how, sizeof result.how);
    series_add(&s->limit[what], result.rate);
    return result.rate;
}

static double share(double rate, double limit)
{
    return limit > 0 ? rate / limit : 0;
}

static int time_prompt(struct run *r)
{
    struct speed *s = r->s;
    double int8 = limit_now(r, LIMIT_INT8), f32 = limit_now(r, LIMIT_F32);
    struct watch w = watch_start();
    int code = feed(r, s->depth, s->prompt);
    double tps = (double)s->prompt * r->n / watch_stop(r, w);
    if (code != EXIT_OK || (code = choose(r)) != EXIT_OK)
        return code;
    series_add(&s->ttft_ms, (bench_seconds() - w.time) * 1e3);
    series_add(&s->prompt_tps, tps);
    series_add(&s->int8_share, share(tps * (double)r->m->int8_macs, int8));
    series_add(&s->f32_share, share(tps * (double)r->m->f32_macs, f32));
    return EXIT_OK;
}

static int time_generation(struct run *r)
{
    struct speed *s = r->s;
    double read = limit_now(r, LIMIT_READ), seconds = 0;
    double reread = r->limits && r->m->bytes <= MAX_REREAD_BYTES ? limit_now(r, LIMIT_REREAD) : 0;
    for (uint32_t i = 0; i < r->o->generate; i++) {
        struct watch w = watch_start();
        int code = feed(r, (uint64_t)s->depth + s->prompt + i, 1);
        seconds += watch_stop(r, w);
        if (code != EXIT_OK)
            return code;
    }
    double steps = (double)r->o->generate / seconds, bytes = (double)(r->m->bytes + r->n * s->kv_bytes_token);
    series_add(&s->gen_tps, steps * r->n);
    series_add(&s->read_share, share(steps * bytes, read));
    if (reread > 0)
        series_add(&s->reread_share, share(steps * bytes, reread));
    return EXIT_OK;
}

static int one_round(struct run *r)
{
    int code = rewind_to(r, r->s->depth);
    r->busy = r->elapsed = 0;
    if (code == EXIT_OK && r->s->prompt)
        code = time_prompt(r);
    if (code == EXIT_OK && r->o->generate)
        code = time_generation(r);
    if (code == EXIT_OK)
        series_add(&r->s->cpu_share, r->busy / r->elapsed / r->m->engine_info.threads);
    return code;
}

/* Computes the depth, once, and a little more, so that the first round finds caches and threads as the others do. */
static int prepare(struct run *r)
{
    struct speed *s = r->s;
    uint64_t at = s->depth, some = s->prompt < WARM_PROMPT ? s->prompt : WARM_PROMPT;
    double start = bench_seconds();
    int code = at ? feed(r, 0, at) : EXIT_OK;
    s->depth_tps = at ? (double)at * r->n / (bench_seconds() - start) : 0;
    if (code == EXIT_OK && some)
        code = feed(r, at, some);
    for (uint32_t i = 0; i < WARM_TOKENS && i < r->o->generate && code == EXIT_OK; i++)
        code = feed(r, at + some + i, 1);
    return code;
}

int speed_run(const struct model *m, const struct options *o, struct limits *limits, struct speed *s)
{
    struct run r;
    infer_engine_info info;
    INFER_INIT(&info);
    int code = run_init(&r, m, o, s);
    r.limits = limits;
    s->kv_bytes_token = model_kv_bytes(m, o, (uint64_t)s->depth + s->prompt + o->generate / 2);
    s->attention_macs = model_attention_macs(m, (uint64_t)s->depth + s->prompt / 2);
    if (code == EXIT_OK)
        code = prepare(&r);
    for (uint32_t i = 0; i < o->rounds && code == EXIT_OK; i++)
        code = one_round(&r);
    s->memory = memory_now();
    if (infer_engine_get_info(m->engine, &info, NULL) == INFER_OK)
        s->kv_bytes = info.kv_bytes;
    run_free(&r);
    return code;
}

int speed_start(const struct model *m, const struct options *o, double began, struct start *out)
{
    struct speed s = {.prompt = o->prompts.v[0] ? o->prompts.v[0] : 1, .batch = 1};
    struct options one = *o;
    struct run r;
    double opened = bench_seconds();
    one.generate = 0;
    int code = run_init(&r, m, &one, &s);
    if (code == EXIT_OK)
        code = feed(&r, 0, s.prompt);
    if (code == EXIT_OK)
        code = choose(&r);
    double now = bench_seconds();
    out->first_ttft_ms = (now - opened) * 1e3;
    out->start_ms = (now - began) * 1e3;
    run_free(&r);
    return code;
}
