/* By hand: bench_scheduler MODEL [STEPS]. Milliseconds of a scheduler's step with 1, 4, 16 and 64 running answers, greedy and as infer-cli samples (with
 * and without log-probabilities), beside a bare infer_step of as many sessions, which chooses no tokens. Medians. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "infer/scheduler.h"

enum { MAX = 64, PROMPT = 32 };

static infer_error error;

static void ok(infer_status st)
{
    if (st != INFER_OK) {
        fprintf(stderr, "%s: %s\n", infer_status_name(st), error.text);
        exit(1);
    }
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[n / 2];
}

static void on_event(void *user, infer_request *r, const infer_request_event *ev)
{
    (void)r;
    *(uint64_t *)user += ev->kind == INFER_REQUEST_EVENT_TOKEN;
}

static void prompt_of(int32_t *ids, int k)
{
    for (int i = 0; i < PROMPT; i++)
        ids[i] = (k * 131 + i * 17 + 5) % 20000;
}

static double bare(infer_model *m, int n, int steps, double *ms)
{
    infer_session *s[MAX];
    infer_step_item it[MAX];
    int32_t ids[PROMPT];
    for (int k = 0; k < n; k++) {
        prompt_of(ids, k);
        ok(infer_session_create(m, NULL, &s[k], &error));
        ok(infer_session_append(s[k], ids, PROMPT, &error));
        INFER_INIT(&it[k]);
        it[k].session = s[k];
    }
    ok(infer_step(it, (uint64_t)n, NULL, &error));
    for (int i = 0; i < steps; i++) {
        for (int k = 0; k < n; k++)
            ok(infer_session_append(s[k], &ids[i % PROMPT], 1, &error));
        double t = now();
        ok(infer_step(it, (uint64_t)n, NULL, &error));
        ms[i] = now() - t;
    }
    for (int k = 0; k < n; k++)
        infer_session_release(s[k]);
    return median(ms, steps);
}

static double scheduled(infer_model *m, int n, int steps, const infer_sampling *sampling, double *ms)
{
    infer_scheduler_options o;
    infer_scheduler *s;
    uint64_t tokens = 0, before;
    INFER_INIT(&o);
    o.max_active = MAX;
    ok(infer_scheduler_create(m, &o, &s, &error));
    for (int k = 0; k < n; k++) {
        infer_request_options r;
        infer_generate_options g;
        int32_t ids[PROMPT];
        prompt_of(ids, k);
        INFER_INIT(&r);
        INFER_INIT(&g);
        g.max_tokens = (uint64_t)steps + 200;
        r.ids = ids;
        r.id_count = PROMPT;
        r.flags = INFER_REQUEST_IGNORE_EOS;
        r.generate = &g;
        r.sampling = sampling;
        r.callback = on_event;
        r.callback_user = &tokens;
        ok(infer_scheduler_submit(s, &r, NULL, &error));
    }
    do {
        before = tokens;
        ok(infer_scheduler_step(s, NULL, NULL, &error));
    } while (tokens - before < (uint64_t)n);
    for (int i = 0; i < steps; i++) {
        double t = now();
        ok(infer_scheduler_step(s, NULL, NULL, &error));
        ms[i] = now() - t;
    }
    infer_scheduler_release(s);
    return median(ms, steps);
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    double *ms = malloc((size_t)steps * sizeof *ms);
    infer_model *m;
    infer_sampling greedy, sampled, top;
    if (argc < 2 || !ms)
        return 2;
    INFER_INIT(&error);
    INFER_INIT(&greedy);
    INFER_INIT(&sampled);
    ok(infer_sampling_default(&sampled, &error));
    top = sampled;
    top.logprobs = 1;
    top.top_logprobs = 5;
    ok(infer_model_open_path(NULL, argv[1], &m, &error));
    printf("answers    bare  greedy  sampled  sampled, 5 logprobs (ms a step)\n");
    for (int n = 1; n <= MAX; n *= 4)
        printf("%7d %7.2f %7.2f %8.2f %8.2f\n", n, bare(m, n, steps, ms), scheduled(m, n, steps, &greedy, ms), scheduled(m, n, steps, &sampled, ms),
               scheduled(m, n, steps, &top, ms));
    infer_model_release(m);
    free(ms);
    return 0;
}
