/* What an adapter costs. Usage: bench_adapter MODEL.gguf ADAPTER [ROUNDS]
 *
 * Alternately without and with the adapter, so that a machine whose speed wanders changes both alike: a prompt of 512 tokens, and 32 tokens one by one.
 * Prints the median of the ratios of neighbours, and how long opening and attaching take. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "infer/infer.h"

enum { PROMPT = 512, DECODE = 32, MOST = 64 };

static infer_error error;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void ok(infer_status st)
{
    if (st == INFER_OK)
        return;
    fprintf(stderr, "%s: %s (%s)\n", infer_status_name(st), error.text, error.name);
    exit(1);
}

static void step(infer_session *s)
{
    infer_step_item it;
    INFER_INIT(&it);
    it.session = s;
    ok(infer_step(&it, 1, NULL, &error));
}

/* Seconds for the prompt and for the tokens behind it. */
static void measure(infer_model *m, infer_adapter *a, double *prefill, double *decode, double *attach)
{
    infer_session *s;
    infer_adapter_use u;
    int32_t ids[PROMPT];
    INFER_INIT(&u);
    u.adapter = a;
    u.scale = 1;
    ok(infer_session_create(m, NULL, &s, &error));
    double t = now();
    ok(infer_session_set_adapters(s, &u, a != NULL, &error));
    *attach = now() - t;
    for (int i = 0; i < PROMPT; i++)
        ids[i] = (int32_t)(((uint32_t)i * 2654435761u) >> 18);
    ok(infer_session_append(s, ids, PROMPT, &error));
    t = now();
    step(s);
    *prefill = now() - t;
    t = now();
    for (int i = 0; i < DECODE; i++) {
        ok(infer_session_append(s, &ids[i], 1, &error));
        step(s);
    }
    *decode = now() - t;
    infer_session_release(s);
}

static int order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, order);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

int main(int argc, char **argv)
{
    infer_model *m;
    infer_adapter *a;
    infer_adapter_info info;
    double ratio[2][MOST], plain[2][MOST], attach[MOST];
    int rounds = argc > 3 ? atoi(argv[3]) : 5;
    INFER_INIT(&error);
    if (argc < 3 || rounds < 1 || rounds > MOST) {
        fprintf(stderr, "usage: bench_adapter MODEL.gguf ADAPTER [ROUNDS]\n");
        return 2;
    }
    ok(infer_model_open_path(NULL, argv[1], &m, &error));
    double t = now();
    ok(infer_adapter_open_path(m, argv[2], &a, &error));
    double opened = now() - t;
    INFER_INIT(&info);
    ok(infer_adapter_get_info(a, &info, &error));
    for (int i = -1; i < rounds; i++) { /* the first one only warms up */
        double p[2], d[2], none;
        measure(m, NULL, &p[0], &d[0], &none);
        measure(m, a, &p[1], &d[1], &attach[i < 0 ? 0 : i]);
        if (i < 0)
            continue;
        ratio[0][i] = p[1] / p[0], plain[0][i] = p[0];
        ratio[1][i] = d[1] / d[0], plain[1][i] = d[0];
    }
    printf("adapter: %llu targets, rank %u, %.1f MB (%.1f MB copied); open %.2f ms, attach %.4f ms\n", (unsigned long long)info.targets, info.rank,
           (double)info.bytes * 1e-6, (double)info.own_bytes * 1e-6, opened * 1e3, median(attach, rounds) * 1e3);
    double p = median(ratio[0], rounds), d = median(ratio[1], rounds);
    printf("prompt of %d: %.1f tokens/s without, %+.1f %% time with the adapter\n", PROMPT, PROMPT / median(plain[0], rounds), (p - 1) * 100);
    printf("decode: %.1f tokens/s without, %+.1f %% time with the adapter\n", DECODE / median(plain[1], rounds), (d - 1) * 100);
    infer_adapter_release(a);
    infer_model_release(m);
    return 0;
}
