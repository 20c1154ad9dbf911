/* A long run: fork, checkpoint, generate, roll back, restore, drop, for minutes; resident memory stays within 5 % of what it was after the
 * first tenth of the time.
 *
 *     test_flat_memory [SECONDS]      (600) */
#define _DEFAULT_SOURCE
#include "state_util.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "golden.h"

enum { PROMPT = 600, WAITING = 16 };

static double seconds = 600;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint64_t resident(void)
{
    unsigned long long size = 0, pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    int n = f ? fscanf(f, "%llu %llu", &size, &pages) : 0;
    if (f)
        fclose(f);
    return n == 2 ? pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

/* One life of a fork. Some are kept for a while, so that pages of different ages lie side by side. */
static void live(infer_session *prompt, infer_checkpoint *at, infer_session **kept, uint64_t *rng)
{
    infer_session *f;
    infer_checkpoint *c;
    infer_sampling sampling;
    infer_generate_options o;
    infer_event ev;
    INFER_INIT(&sampling);
    INFER_INIT(&o);
    sampling.temperature = 1;
    sampling.seed = test_rand(rng);
    o.flags = INFER_GENERATE_IGNORE_EOS;
    o.max_tokens = 1 + test_rand(rng) % 80;
    if (test_rand(rng) % 2)
        ok(infer_session_fork(prompt, &f, &error));
    else
        ok(infer_checkpoint_session(at, &f, &error));
    ok(infer_session_set_sampling(f, &sampling, &error));
    ok(infer_generate_begin(f, &o, &error));
    do {
        INFER_INIT(&ev);
        ok(infer_generate_next(f, &ev, NULL, &error));
    } while (ev.kind != INFER_EVENT_DONE);
    ok(infer_checkpoint_create(f, &c, &error));
    ok(infer_session_truncate(f, test_rand(rng) % PROMPT, NULL, &error));
    if (test_rand(rng) % 2)
        ok(infer_session_restore(f, c, &error));
    infer_checkpoint_release(c);
    infer_session **place = &kept[test_rand(rng) % WAITING];
    infer_session_release(*place);
    *place = f;
}

static void test_flat(void **state)
{
    (void)state;
    infer_engine *e;
    infer_model *m;
    infer_engine_options o;
    infer_checkpoint *c;
    infer_session *kept[WAITING] = {NULL};
    uint64_t rng = 7, lives = 0, least = UINT64_MAX, most = 0, begin = 0;
    if (!resident())
        skip();
    INFER_INIT(&o);
    o.threads = 1;
    ok(infer_engine_create(&o, &e, &error));
    ok(infer_model_open_path(e, fixture_path("gemma3"), &m, &error));
    infer_session *s = session_of_model(m, INFER_KV_F16, 1024);
    for (int32_t i = 0; i < PROMPT; i++)
        ok(infer_session_append(s, &(int32_t){i * 7 % 150}, 1, &error));
    step(s);
    ok(infer_checkpoint_create(s, &c, &error));
    for (double start = now(), t = 0, look = 0; t < seconds; t = now() - start, lives++) {
        live(s, c, kept, &rng);
        if (t < seconds / 10 || t < look)
            continue;
        look = t + 0.05;
        uint64_t r = resident();
        begin = begin ? begin : r;
        least = r < least ? r : least;
        most = r > most ? r : most;
    }
    print_message("# %llu forks lived in %.0f s; resident %.2f MiB after a tenth of it, then %.2f to %.2f\n", (unsigned long long)lives, seconds,
                  (double)begin / 1048576, (double)least / 1048576, (double)most / 1048576);
    assert_true(begin && lives > (uint64_t)seconds);
    assert_true(most <= begin + begin / 20);
    assert_true(least >= begin - begin / 20);
    for (int i = 0; i < WAITING; i++)
        infer_session_release(kept[i]);
    infer_checkpoint_release(c);
    infer_session_release(s);
    infer_model_release(m);
    infer_engine_release(e);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_flat)};
    if (argc > 1)
        seconds = strtod(argv[1], NULL);
    return cmocka_run_group_tests_name("flat memory", tests, NULL, NULL);
}
