/* infer-bench: how fast a model runs here, and how fast it could. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernel_speed.h"
#include "options.h"
#include "quality.h"
#include "report.h"
#include "speed_report.h"

infer_cancel *bench_cancel;
static volatile sig_atomic_t presses;

void complain(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fprintf(stderr, "infer-bench: ");
    vfprintf(stderr, fmt, args);
    fprintf(stderr, "\n");
    va_end(args);
}

int complain_error(const char *what, const infer_error *err)
{
    if (err->code == INFER_ERROR_CANCELLED) {
        complain("interrupted");
        return EXIT_INTERRUPTED;
    }
    const char *file = what ? what : err->file;
    complain("%s%s%s%s%s", file, file[0] ? ": " : "", err->name, err->name[0] ? ": " : "", err->text);
    return EXIT_FAILED;
}

static void on_interrupt(int number)
{
    (void)number;
    presses = presses + 1;
    if (presses > 1)
        _exit(EXIT_INTERRUPTED);
    infer_cancel_set(bench_cancel);
}

static bool install_signals(void)
{
    struct sigaction sa;
    if (infer_cancel_create(&bench_cancel, NULL) != INFER_OK)
        return false;
    memset(&sa, 0, sizeof sa);
    sigemptyset(&sa.sa_mask);
    sa.sa_flags = SA_RESTART;
    sa.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &sa, NULL); /* a closed pipe is a write error */
    sa.sa_handler = on_interrupt;
    sigaction(SIGINT, &sa, NULL);
    return true;
}

/* ---- Speed of a model ---- */

static struct speed *combinations(const struct options *o, uint32_t *n)
{
    *n = o->prompts.n * o->depths.n * o->batches.n;
    struct speed *s = calloc(*n, sizeof *s), *next = s;
    for (uint32_t d = 0; s && d < o->depths.n; d++)
        for (uint32_t p = 0; p < o->prompts.n; p++)
            for (uint32_t b = 0; b < o->batches.n; b++, next++) {
                next->prompt = o->prompts.v[p];
                next->depth = o->depths.v[d];
                next->batch = o->batches.v[b];
            }
    return s;
}

static int measure_all(struct run_info *info, const struct model *m, struct limits *limits, struct speed *speeds, uint32_t n)
{
    const struct options *o = info->o;
    int code = EXIT_OK;
    for (uint32_t i = 0; i < n && code == EXIT_OK; i++) {
        if (i)
            memory_reset_peak();
        code = speed_run(m, o, limits, &speeds[i]);
    }
    for (uint32_t i = 0; i < o->rounds && code == EXIT_OK; i++) {
        double ms = model_time_open(o); /* at the end: it takes memory */
        if (ms >= 0)
            series_add(&info->load_ms, ms);
    }
    return code;
}

static int run_speed(const struct options *o, double began)
{
    struct model m;
    struct run_info info = {.o = o, .m = &m};
    uint32_t n = 0;
    struct limits *limits = o->no_limits ? NULL : limits_start();
    int code = model_open(&m, o);
    struct speed *speeds = code == EXIT_OK ? combinations(o, &n) : NULL;
    if (code == EXIT_OK && !speeds) {
        complain("out of memory");
        code = EXIT_FAILED;
    }
    if (code == EXIT_OK)
        code = speed_start(&m, o, began, &info.start);
    if (code == EXIT_OK)
        code = measure_all(&info, &m, limits, speeds, n);
    if (code == EXIT_OK && !speed_report(&info, speeds, n)) {
        complain("out of memory");
        code = EXIT_FAILED;
    }
    limits_stop(limits);
    free(speeds);
    model_close(&m);
    return code;
}

/* ---- Limits alone ---- */

static uint32_t default_threads(void)
{
    infer_engine *e = NULL;
    infer_engine_info info;
    INFER_INIT(&info);
    if (infer_engine_create(NULL, &e, NULL) != INFER_OK || infer_engine_get_info(e, &info, NULL) != INFER_OK)
        info.threads = 1;
    infer_engine_release(e);
    return info.threads;
}

static int run_limits(const struct options *o)
{
    static const struct {
        enum limit what;
        const char *name, *loop;
    } kinds[] = {
        {LIMIT_READ, "limit_read_gbs", "limit_read_loop"},
        {LIMIT_INT8, "limit_int8_gmacs", "limit_int8_loop"},
        {LIMIT_F32, "limit_f32_gmacs", "limit_f32_loop"},
    };
    enum { N_KINDS = sizeof kinds / sizeof *kinds };
    struct series s[N_KINDS] = {{0}};
    struct limit_result best[N_KINDS] = {{0}}, one;
    struct row r = {0};
    struct limits *limits = limits_start();
    uint32_t threads = o->threads ? o->threads : default_threads();
    uint64_t bytes = memory_to_read(o->limit_mib, 0);
    bool ok = limits != NULL;
    for (uint32_t i = 0; i < o->rounds && !infer_cancel_is_set(bench_cancel); i++)
        for (int k = 0; k < N_KINDS && ok; k++) {
            ok = limits_measure(limits, kinds[k].what, threads, bytes, &one);
            series_add(&s[k], one.rate);
            if (one.rate > best[k].rate)
                best[k] = one;
        }
    limits_stop(limits);
    if (infer_cancel_is_set(bench_cancel) || !ok) {
        complain(ok ? "interrupted" : "the limits could not be measured");
        return infer_cancel_is_set(bench_cancel) ? EXIT_INTERRUPTED : EXIT_FAILED;
    }
    row_number(&r, "threads", threads, 0);
    for (int k = 0; k < N_KINDS; k++) {
        row_series(&r, kinds[k].name, &s[k], 1e-9, 2);
        row_text(&r, kinds[k].loop, best[k].how);
    }
    if (o->csv)
        row_print_csv_header(&r);
    (o->json ? row_print_json : o->csv ? row_print_csv : row_print_lines)(&r);
    printf("%s", o->json ? "\n" : "");
    ok = !r.failed;
    row_free(&r);
    return ok ? EXIT_OK : EXIT_FAILED;
}

/* ---- Start ---- */

static int finish_output(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    if (errno != EPIPE)
        complain("cannot write: %s", strerror(errno));
    return code == EXIT_OK ? EXIT_FAILED : code;
}

int main(int argc, char **argv)
{
    double began = bench_seconds() - bench_cpu_seconds(); /* what went before main was nearly all processor time */
    struct options o;
    if (!install_signals()) {
        complain("out of memory");
        return EXIT_FAILED;
    }
    int code = options_parse(&o, argc, argv);
    if (code == EXIT_OK) {
        if (o.help)
            options_help();
        else if (o.version)
            printf("infer-bench %s, libinfer %s\n", INFER_VERSION_STRING, infer_version());
        else if (o.limits)
            code = run_limits(&o);
        else if (o.kernels)
            code = kernel_speed(&o);
        else if (o.ppl)
            code = quality_ppl(&o);
        else if (o.kl)
            code = quality_kl(&o);
        else if (o.save_logits)
            code = quality_save(&o);
        else
            code = run_speed(&o, began);
    }
    infer_cancel_release(bench_cancel);
    return finish_output(code);
}
