/* What a model takes beside what infer_model_estimate says; by hand: bench_memory FILE KV_TYPE N_CTX SESSIONS THREADS [read]. Sessions are filled to
 * the last element and generate, with the estimate as the limit. One line: the peak of the allocator, the estimate, and the share; then the process's
 * largest resident set. With `more` instead of `read`: what comes to a session of half that context, in bytes: forks, checkpoints, what the prefix
 * cache keeps of it, a scheduler. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "infer/scheduler.h"

static infer_error error;

static void ok(infer_status st)
{
    if (st == INFER_OK)
        return;
    fprintf(stderr, "%s: %s (%s)\n", infer_status_name(st), error.text, error.name);
    exit(1);
}

static void fill(infer_session *s, uint32_t n_ctx)
{
    infer_generate_options g;
    infer_event ev;
    infer_sampling set;
    int32_t *ids = malloc(n_ctx * sizeof *ids);
    INFER_INIT(&g);
    INFER_INIT(&ev);
    INFER_INIT(&set);
    for (uint32_t i = 0; ids && i < n_ctx; i++)
        ids[i] = (int32_t)(i * 37 % 2000 + 100);
    ok(infer_session_append(s, ids, n_ctx - 20, &error));
    free(ids);
    (void)infer_sampling_default(&set, NULL);
    ok(infer_session_set_sampling(s, &set, &error));
    g.flags = INFER_GENERATE_IGNORE_EOS;
    ok(infer_generate_begin(s, &g, &error));
    do
        ok(infer_generate_next(s, &ev, NULL, &error));
    while (ev.kind != INFER_EVENT_DONE);
}

static uint64_t used(infer_engine *engine)
{
    infer_engine_info i;
    INFER_INIT(&i);
    ok(infer_engine_get_info(engine, &i, &error));
    return i.memory_bytes;
}

static void generate(infer_session *s, uint64_t n)
{
    infer_generate_options g;
    infer_event ev;
    INFER_INIT(&g);
    INFER_INIT(&ev);
    g.flags = INFER_GENERATE_IGNORE_EOS;
    g.max_tokens = n;
    ok(infer_generate_begin(s, &g, &error));
    do
        ok(infer_generate_next(s, &ev, NULL, &error));
    while (ev.kind != INFER_EVENT_DONE);
}

static int more(const infer_source *src, const infer_session_options *so, uint32_t threads)
{
    infer_engine_options eo;
    infer_engine *engine;
    infer_model *model;
    infer_session *s, *fork;
    infer_checkpoint *c;
    infer_scheduler *scheduler;
    infer_session_info si;
    INFER_INIT(&eo);
    INFER_INIT(&si);
    eo.threads = threads;
    eo.cache_bytes = (uint64_t)1 << 40;
    ok(infer_engine_create(&eo, &engine, &error));
    ok(infer_model_open(engine, src, NULL, &model, &error));
    ok(infer_session_create(model, so, &s, &error));
    uint32_t n = so->n_ctx / 2;
    int32_t *ids = malloc(n * sizeof *ids);
    for (uint32_t i = 0; ids && i < n; i++)
        ids[i] = (int32_t)(i * 37 % 2000 + 100);
    uint64_t empty = used(engine);
    ok(infer_session_append(s, ids, n, &error));
    free(ids);
    generate(s, 8);
    uint64_t before = used(engine);
    ok(infer_session_get_info(s, &si, &error));
    printf("a session of %llu elements, workspace included %llu, its pages %llu\n", (unsigned long long)si.length, (unsigned long long)(before - empty),
           (unsigned long long)si.kv_bytes);
    ok(infer_session_fork(s, &fork, &error));
    printf("a fork %llu\n", (unsigned long long)(used(engine) - before));
    generate(fork, 100);
    printf("... that went on for 100 elements %llu\n", (unsigned long long)(used(engine) - before));
    infer_session_release(fork);
    ok(infer_engine_cache_clear(engine, &error));
    before = used(engine);
    ok(infer_checkpoint_create(s, &c, &error));
    printf("a checkpoint %llu\n", (unsigned long long)(used(engine) - before));
    infer_checkpoint_release(c);
    ok(infer_scheduler_create(model, NULL, &scheduler, &error));
    printf("a scheduler %llu\n", (unsigned long long)(used(engine) - before));
    infer_scheduler_release(scheduler);
    generate(s, 64); /* so that the cache has it again */
    infer_session_release(s);
    before = used(engine);
    infer_cache_stats cs;
    INFER_INIT(&cs);
    ok(infer_engine_cache_stats(engine, &cs, &error));
    ok(infer_engine_cache_clear(engine, &error));
    printf("the prefix cache %llu, it says %llu\n", (unsigned long long)(before - used(engine)), (unsigned long long)cs.bytes);
    infer_model_release(model);
    infer_engine_release(engine);
    return 0;
}

int main(int argc, char **argv)
{
    infer_source src;
    infer_open_options open;
    infer_estimate_options o;
    infer_estimate e;
    infer_engine_options eo;
    infer_engine_info i;
    infer_session_options so;
    infer_engine *engine;
    infer_model *model;
    infer_session *s[64];
    struct rusage r;
    INFER_INIT(&error);
    INFER_INIT(&open);
    INFER_INIT(&o);
    INFER_INIT(&e);
    INFER_INIT(&eo);
    INFER_INIT(&i);
    INFER_INIT(&so);
    if (argc < 6)
        return 2;
    so.kv_type = o.kv_type = atoi(argv[2]);
    so.n_ctx = o.n_ctx = (uint32_t)atoi(argv[3]);
    o.sessions = (uint32_t)atoi(argv[4]);
    eo.threads = o.threads = (uint32_t)atoi(argv[5]);
    open.map = argc > 6 && !strcmp(argv[6], "read") ? INFER_MAP_READ : INFER_MAP_AUTO;
    infer_source_path(&src, argv[1], INFER_ZSTR);
    if (argc > 6 && !strcmp(argv[6], "more"))
        return more(&src, &so, eo.threads);
    ok(infer_model_estimate(NULL, &src, &open, &o, &e, &error));
    eo.memory_limit = e.memory_bytes;
    ok(infer_engine_create(&eo, &engine, &error));
    ok(infer_model_open(engine, &src, &open, &model, &error));
    for (uint32_t k = 0; k < o.sessions && k < 64; k++) {
        ok(infer_session_create(model, &so, &s[k], &error));
        fill(s[k], so.n_ctx);
    }
    ok(infer_engine_get_info(engine, &i, &error));
    (void)getrusage(RUSAGE_SELF, &r);
    printf("kv %s ctx %s sessions %s threads %s: peak %.1f MiB of %.1f (own %.1f, kv %.1f, scratch %.1f): %.1f %%; mapped %.1f, total %.1f, resident %.1f MiB\n", argv[2],
           argv[3], argv[4], argv[5], (double)i.memory_peak / 1048576, (double)e.memory_bytes / 1048576, (double)e.own_bytes / 1048576,
           (double)e.kv_bytes / 1048576, (double)e.scratch_bytes / 1048576, 100.0 * (double)i.memory_peak / (double)e.memory_bytes,
           (double)e.mapped_bytes / 1048576, (double)e.total_bytes / 1048576, (double)r.ru_maxrss / 1024);
    return 0;
}
