/* Running the loops on several threads. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, madvise */
#include "limits_run.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "host.h"
#include "limits_impl.h"

#define MAX_THREADS 256
#define PIECE ((size_t)4 << 20)      /* what a thread claims at a time */
#define HUGE_PAGE ((size_t)2 << 20)
#define PASS_BYTES ((size_t)256 << 20) /* of one loop; the next one goes on behind, so that nothing is read twice from a cache */
#define REREAD_BYTES ((size_t)128 << 20) /* at least, of one loop */
#define PEAK_SECONDS 0.015
#define PEAK_TRIES 2

static const struct limit_variant *const variants[] = {
    &limits_plain,
#if LIMITS_HAVE_AVX2
    &limits_avx2,
#endif
#if LIMITS_HAVE_AVXVNNI
    &limits_avxvnni,
#endif
#if LIMITS_HAVE_AVX512
    &limits_avx512,
#endif
#if LIMITS_HAVE_AVX512VNNI
    &limits_avx512vnni,
#endif
#if LIMITS_HAVE_NEON
    &limits_neon,
#endif
#if LIMITS_HAVE_DOTPROD
    &limits_dotprod,
#endif
#if LIMITS_HAVE_I8MM
    &limits_i8mm,
#endif
};
#define N_VARIANTS (sizeof variants / sizeof *variants)

static bool runs_here(const struct limit_variant *v)
{
    infer_engine_options o;
    infer_engine *e = NULL;
    INFER_INIT(&o);
    o.cpu = v->level;
    o.threads = 1;
    bool ok = infer_engine_create(&o, &e, NULL) == INFER_OK;
    infer_engine_release(e);
    return ok;
}

void limits_runner_init(struct limits_runner *r)
{
    *r = (struct limits_runner){0};
    for (size_t i = 0; i < N_VARIANTS; i++)
        r->usable |= runs_here(variants[i]) ? 1u << i : 0;
}

/* ---- Threads ---- */

struct job {
    limit_read_fn *read;
    limit_peak_fn *peak;
    const uint8_t *bytes;
    size_t n, span; /* bytes to read, beginning anew after span; multiples of PIECE */
    size_t next;    /* claimed atomically */
};

struct worker {
    struct job *job;
    pthread_t thread;
    uint64_t sum;
    double rate; /* of a peak loop */
};

static void read_pieces(struct worker *w)
{
    for (;;) {
        size_t at = __atomic_fetch_add(&w->job->next, PIECE, __ATOMIC_RELAXED);
        if (at >= w->job->n)
            return;
        w->sum += w->job->read(w->job->bytes + at % w->job->span, PIECE);
    }
}

static void repeat_peak(struct worker *w)
{
    double done = 0, start = bench_seconds(), t;
    uint64_t repeats = 16;
    do {
        done += w->job->peak(repeats);
        repeats = repeats < 16384 ? repeats * 2 : repeats;
        t = bench_seconds() - start;
    } while (t < PEAK_SECONDS);
    w->rate = done / t;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    if (w->job->read)
        read_pieces(w);
    else
        repeat_peak(w);
    return NULL;
}

/* The rate of a peak loop over all threads, or of a read. */
static double run(struct job *job, uint32_t threads)
{
    struct worker w[MAX_THREADS];
    uint32_t started = 1;
    double start = bench_seconds(), rate = 0;
    memset(w, 0, sizeof w);
    for (w[0].job = job; started < threads; started++) {
        w[started].job = job;
        if (pthread_create(&w[started].thread, NULL, work, &w[started]) != 0)
            break;
    }
    work(&w[0]);
    for (uint32_t i = 1; i < started; i++)
        pthread_join(w[i].thread, NULL);
    double seconds = bench_seconds() - start;
    for (uint32_t i = 0; i < started; i++)
        rate += w[i].rate;
    return job->read ? (double)job->n / seconds : rate;
}

/* ---- Reading ---- */

/* The buffer, in huge pages if the system gives them, written once so that it is there. */
static bool make_buffer(struct limits_runner *r, uint64_t bytes)
{
    size_t n = (size_t)(bytes / PASS_BYTES + (bytes % PASS_BYTES != 0)) * PASS_BYTES;
    char *p = mmap(NULL, n + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return false;
    p += (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
#ifdef MADV_HUGEPAGE
    (void)madvise(p, n, MADV_HUGEPAGE);
#endif
    memset(p, 1, n);
    r->bytes = (uint8_t *)p;
    r->n = n;
    return true;
}

static const struct limit_variant *best_reader(const struct limits_runner *r)
{
    const struct limit_variant *best = variants[0];
    for (size_t i = 0; i < N_VARIANTS; i++)
        if (r->usable >> i & 1 && variants[i]->read[0])
            best = variants[i];
    return best;
}

/* The best of all read loops; `job` but for the loop. With `move` each goes on behind the one before. */
static void best_read(struct limits_runner *r, const struct job *job, bool move, uint32_t threads, struct limit_result *out)
{
    static const char *const names[] = {
#define NAME(name, streams, ahead, locality) #name,
        LIMIT_READS(NAME)
#undef NAME
    };
    const struct limit_variant *v = best_reader(r);
    for (size_t k = 0; k < N_LIMIT_READS; k++) {
        struct job one = *job;
        one.read = v->read[k];
        if (move) {
            one.bytes = r->bytes + r->at;
            r->at = (r->at + PASS_BYTES) % r->n;
        }
        double rate = run(&one, threads);
        if (rate > out->rate) {
            out->rate = rate;
            (void)snprintf(out->how, sizeof out->how, "%s %s", v->name, names[k]);
        }
    }
}

static bool measure_read(struct limits_runner *r, uint32_t threads, uint64_t bytes, struct limit_result *out)
{
    struct job job = {.n = PASS_BYTES, .span = PASS_BYTES};
    if (!r->bytes && !make_buffer(r, bytes))
        return false;
    best_read(r, &job, true, threads, out);
    return true;
}

static bool measure_reread(struct limits_runner *r, uint32_t threads, uint64_t bytes, struct limit_result *out)
{
    if (!r->bytes && !make_buffer(r, bytes))
        return false;
    size_t span = bytes > r->n ? r->n : (size_t)bytes / PIECE * PIECE;
    struct job job = {.read = best_reader(r)->read[0], .bytes = r->bytes, .span = span ? span : PIECE};
    job.n = job.span;
    (void)run(&job, threads); /* into the caches */
    job.n = (REREAD_BYTES / job.span + 1) * job.span;
    job.next = 0;
    best_read(r, &job, false, threads, out);
    return true;
}

/* ---- Arithmetic ---- */

static void measure_peak(const struct limits_runner *r, bool int8, uint32_t threads, struct limit_result *out)
{
    for (size_t i = 0; i < N_VARIANTS; i++) {
        struct job job = {.peak = int8 ? variants[i]->int8 : variants[i]->f32};
        for (int t = 0; t < PEAK_TRIES && job.peak && r->usable >> i & 1; t++) {
            double rate = run(&job, threads);
            if (rate > out->rate) {
                out->rate = rate;
                (void)snprintf(out->how, sizeof out->how, "%s", variants[i]->name);
            }
        }
    }
}

bool limits_run(struct limits_runner *r, enum limit what, uint32_t threads, uint64_t read_bytes, struct limit_result *out)
{
    memset(out, 0, sizeof *out);
    threads = threads < 1 ? 1 : threads > MAX_THREADS ? MAX_THREADS : threads;
    if (what == LIMIT_READ)
        return measure_read(r, threads, read_bytes, out);
    if (what == LIMIT_REREAD)
        return measure_reread(r, threads, read_bytes, out);
    measure_peak(r, what == LIMIT_INT8, threads, out);
    return true;
}
