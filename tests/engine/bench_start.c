/* What a start costs: time, memory and page faults from the start of main to the engine, the open model, the first token, the last one.
 *
 *     build-dir/tests/engine/bench_start MODEL.gguf [threads] [prompt] [tokens]
 *
 * By hand, on Linux; not a test. */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "infer/infer.h"

static double start;
static infer_error error;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double status_mib(const char *field)
{
    char line[256];
    long kib = 0;
    size_t n = strlen(field);
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, field, n) && line[n] == ':')
            kib = strtol(line + n + 1, NULL, 10);
    if (f)
        fclose(f);
    return (double)kib / 1024;
}

static double ms(struct timeval t)
{
    return (double)t.tv_sec * 1e3 + (double)t.tv_usec * 1e-3;
}

static void report(const char *what)
{
    double t = now() - start;
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    printf("%-8s %8.1f ms, resident %7.1f MiB of its own + %7.1f of files, %6ld faults (%ld from disk), processor %.0f ms + %.0f in the kernel\n",
           what, t * 1e3, status_mib("RssAnon"), status_mib("RssFile"), u.ru_minflt, u.ru_majflt, ms(u.ru_utime), ms(u.ru_stime));
}

static void ok(infer_status st)
{
    if (st != INFER_OK) {
        fprintf(stderr, "%s: %s (%s)\n", infer_status_name(st), error.text, error.name);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    uint32_t arg[3] = {2, 10, 1};
    infer_engine_options eo;
    infer_generate_options go;
    infer_engine *e;
    infer_model *m;
    infer_session *s;
    infer_event ev;
    int tokens = 0;
    start = now();
    if (argc < 2)
        return 2;
    for (int i = 2; i < argc && i < 5; i++)
        arg[i - 2] = (uint32_t)strtoul(argv[i], NULL, 10);
    INFER_INIT(&error);
    INFER_INIT(&eo);
    eo.threads = arg[0];
    ok(infer_engine_create(&eo, &e, &error));
    report("engine");
    ok(infer_model_open_path(e, argv[1], &m, &error));
    report("open");
    ok(infer_session_create(m, NULL, &s, &error));
    for (uint32_t i = 0; i < arg[1]; i++) {
        int32_t id = (int32_t)((i * 7919 + 13) % 30000);
        ok(infer_session_append(s, &id, 1, &error));
    }
    INFER_INIT(&go);
    go.max_tokens = arg[2];
    go.flags = INFER_GENERATE_IGNORE_EOS;
    ok(infer_generate_begin(s, &go, &error));
    do {
        INFER_INIT(&ev);
        ok(infer_generate_next(s, &ev, NULL, &error));
        if (ev.kind == INFER_EVENT_TOKEN && tokens++ == 0)
            report("first");
    } while (ev.kind != INFER_EVENT_DONE);
    report("last");
    infer_session_release(s);
    infer_model_release(m);
    infer_engine_release(e);
    report("closed");
    return 0;
}
