/* From fork() to a usable child: it has made a session of the warmed prompt and is ready to step. Also how long fork() holds the parent, and when the child
 * has its first token.
 *
 *     build-dir/tests/engine/bench_prefork MODEL.gguf [children] [prompt] [threads] [quiet] [read]
 *
 * Children come one after the other. quiet: they end without computing a token, so the kernel's tables stay in the processor's caches (a step of a large
 * model drives them out). read: the weights are read into memory instead of being mapped. By hand, on Linux; not a test. */
#define _DEFAULT_SOURCE
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "infer/state.h"

enum { MOST = 10000 };
enum { RUNS, PARENT, SESSION, LOGITS, TOKEN, N_FIGURES };
static const char *const figures[] = {"child runs", "parent goes on", "session made", "logits read", "next token"};
static double (*seen)[N_FIGURES]; /* [children], shared; microseconds since the fork */
static infer_error error;
static bool quiet, mapped = true;

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void ok(infer_status st)
{
    if (st != INFER_OK) {
        fprintf(stderr, "%s: %s (%s)\n", infer_status_name(st), error.text, error.name);
        _exit(1);
    }
}

static infer_checkpoint *warm_up(infer_model *model, uint32_t n)
{
    infer_session *s;
    infer_checkpoint *c;
    infer_step_item it;
    INFER_INIT(&it);
    ok(infer_session_create(model, NULL, &s, &error));
    for (uint32_t i = 0; i < n; i++) {
        int32_t id = (int32_t)((i * 7919 + 13) % 1500);
        ok(infer_session_append(s, &id, 1, &error));
    }
    it.session = s;
    ok(infer_step(&it, 1, NULL, &error));
    ok(infer_checkpoint_create(s, &c, &error));
    infer_session_release(s);
    return c;
}

static void child(const infer_checkpoint *warm, double start, double *at)
{
    infer_session *s;
    infer_generate_options go;
    infer_event ev;
    const float *logits;
    INFER_INIT(&go);
    INFER_INIT(&ev);
    at[RUNS] = now_us() - start;
    ok(infer_checkpoint_session(warm, &s, &error));
    at[SESSION] = now_us() - start;
    ok(infer_session_logits(s, 0, &logits, NULL, &error)); /* everything that a first token is drawn from */
    volatile float first = logits[0];
    (void)first;
    at[LOGITS] = now_us() - start;
    if (quiet)
        _exit(0);
    go.max_tokens = 2;
    go.flags = INFER_GENERATE_IGNORE_EOS;
    ok(infer_generate_begin(s, &go, &error));
    for (int tokens = 0; tokens < 2; tokens += ev.kind == INFER_EVENT_TOKEN) /* the second one needs a step */
        ok(infer_generate_next(s, &ev, NULL, &error));
    at[TOKEN] = now_us() - start;
    _exit(0);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(unsigned n)
{
    static double sorted[MOST];
    printf("%-16s %10s %10s %10s %10s %10s   us after the fork, %u children\n", "", "min", "median", "p95", "p99", "max", n);
    for (int f = 0; f < N_FIGURES - quiet; f++) {
        for (unsigned i = 0; i < n; i++)
            sorted[i] = seen[i][f];
        qsort(sorted, n, sizeof sorted[0], by_value);
        printf("%-16s %10.0f %10.0f %10.0f %10.0f %10.0f\n", figures[f], sorted[0], sorted[n / 2], sorted[n * 95 / 100], sorted[n * 99 / 100], sorted[n - 1]);
    }
}

int main(int argc, char **argv)
{
    uint32_t arg[3] = {200, 512, 1};
    infer_engine_options eo;
    infer_open_options oo;
    infer_source source;
    infer_engine *engine;
    infer_model *model;
    int status;
    if (argc < 2)
        return 2;
    for (int i = 2; i < argc && i < 5; i++)
        arg[i - 2] = (uint32_t)strtoul(argv[i], NULL, 10);
    if (arg[0] < 1 || arg[0] > MOST)
        return 2;
    INFER_INIT(&error);
    INFER_INIT(&eo);
    INFER_INIT(&oo);
    eo.threads = arg[2];
    for (int i = 5; i < argc; i++) {
        quiet |= strcmp(argv[i], "quiet") == 0;
        mapped &= strcmp(argv[i], "read") != 0;
    }
    if (!mapped)
        oo.map = INFER_MAP_READ;
    ok(infer_engine_create(&eo, &engine, &error));
    infer_source_path(&source, argv[1], INFER_ZSTR);
    ok(infer_model_open(engine, &source, &oo, &model, &error));
    infer_checkpoint *warm = warm_up(model, arg[1]);
    seen = mmap(NULL, arg[0] * sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (seen == MAP_FAILED)
        return 1;
    memset(seen, 0, arg[0] * sizeof *seen);
    for (uint32_t i = 0; i < arg[0]; i++) {
        double start = now_us();
        pid_t pid = fork();
        if (pid == 0)
            child(warm, start, seen[i]);
        seen[i][PARENT] = now_us() - start;
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
            return fprintf(stderr, "child %u ended with %#x\n", i, (unsigned)status), 1;
    }
    report(arg[0]);
    infer_checkpoint_release(warm);
    infer_model_release(model);
    infer_engine_release(engine);
    return 0;
}
