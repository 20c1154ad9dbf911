#include "base/pool.h"

#include <stdatomic.h>

#include "base/fpenv.h"
#include "base/os_cpu.h"
#include "base/os_thread.h"

/* How a job runs. The caller fills in the job, opens it in `gate` and raises `generation`; threads that see the new generation enter by
 * counting themselves in `gate`, claim tasks until none is left, and count themselves out. When the caller finds no more tasks it closes the
 * gate and waits for those inside: a thread that wakes late finds the gate closed and costs the job nothing.
 *
 * An idle thread spins for SPINS pauses (some hundred microseconds: the gaps in a forward pass; a sleeper would begin its share 25 to 50
 * microseconds late), then sleeps on `wake`. One that has spun in vain MISSES times in a row, because jobs are rare or the machine is busy
 * with something else, sleeps almost at once, and spins only every MISSES-th time, to see whether the times have changed.
 *
 * With a host's executor the same gate keeps out calls that come too late, and `taken` those that come twice. */

#define GATE_OPEN 0x80000000u
#define GATE_WAIT 0x40000000u /* the caller sleeps on `done` */
#define GATE_COUNT 0x3FFFFFFFu

#define SPINS 12000u
#define SPINS_LEAST 20u
#define MISSES 8u
#define SPINS_CROWDED 20u /* more threads than processors: spinning takes time from the one we wait for */

struct worker {
    struct pool *pool;
    struct os_thread thread;
    uint32_t index; /* 1 ..; the caller is 0 */
    uint32_t misses; /* how often in a row spinning was in vain */
};

/* The tasks of a job are shared out evenly in order, a range to each worker. One that is done with its own goes on with the others': so
 * workers stay in separate parts of memory (weights stream, and what is prefetched is what the same worker reads next) and still end together. */
struct range {
    _Alignas(64) atomic_uint_fast64_t next;
    uint64_t end;
};

struct pool {
    struct alloc alloc;
    uint32_t threads; /* asked for, the caller included */
    uint32_t running; /* threads that run, the caller not included */
    uint32_t spins;
    uint64_t process;
    struct worker *workers; /* [threads]; the caller's is unused */
    infer_executor host;    /* run NULL: own threads */
    struct range *ranges;   /* [threads] */
    atomic_uchar *taken;    /* [threads] worker has been started in this run; with an executor only */
    struct os_mutex mutex;  /* for `wake` and `done` */
    struct os_cond wake, done;

    /* Each on its own cache line. */
    _Alignas(64) atomic_uint generation;
    atomic_uint parked;
    atomic_uint quit;
    _Alignas(64) atomic_uint gate;
    _Alignas(64) atomic_uchar misused; /* the executor started a worker twice, or one that does not exist */
    _Alignas(64) pool_fn fn;
    void *arg;
};

uint32_t pool_default_threads(void)
{
    uint32_t cores = os_cpu_cores(&os_cpu_paths_default), quota = os_cpu_quota(&os_cpu_paths_default);
    uint32_t n = cores < quota ? cores : quota;
    return n < POOL_MAX_THREADS ? n : POOL_MAX_THREADS;
}

static bool sync_init(struct pool *p)
{
    if (!os_mutex_init(&p->mutex))
        return false;
    if (os_cond_init(&p->wake)) {
        if (os_cond_init(&p->done))
            return true;
        os_cond_destroy(&p->wake);
    }
    os_mutex_destroy(&p->mutex);
    return false;
}

static bool memory_init(struct pool *p)
{
    p->ranges = mem_alloc_aligned(&p->alloc, p->threads * sizeof *p->ranges, 64);
    if (!p->ranges)
        return false;
    if (p->host.run) {
        p->taken = mem_zarray(&p->alloc, p->threads, sizeof *p->taken);
        return p->taken != NULL;
    }
    p->workers = mem_zarray(&p->alloc, p->threads, sizeof *p->workers);
    return p->workers != NULL;
}

static void free_memory(struct pool *p)
{
    struct alloc alloc = p->alloc;
    mem_free(&alloc, p->ranges);
    mem_free(&alloc, p->workers);
    mem_free(&alloc, p->taken);
    mem_free(&alloc, p);
}

static infer_status create(const struct alloc *alloc, uint32_t threads, infer_executor host, struct pool **out, infer_error *err)
{
    if (threads < 1 || threads > POOL_MAX_THREADS)
        return err_set(err, INFER_ERROR_ARGUMENT, "%u threads: must be 1 to %u", (unsigned)threads, POOL_MAX_THREADS);
    struct pool *p = mem_alloc_aligned(alloc, sizeof *p, 64);
    if (!p)
        return err_no_memory(err);
    *p = (struct pool){.alloc = *alloc, .threads = threads, .host = host};
    if (!memory_init(p) || !sync_init(p)) {
        free_memory(p);
        return err_no_memory(err);
    }
    p->spins = threads > os_cpu_logical() ? SPINS_CROWDED : SPINS;
    *out = p;
    return INFER_OK;
}

infer_status pool_create(const struct alloc *alloc, uint32_t threads, struct pool **out, infer_error *err)
{
    return create(alloc, threads, (infer_executor){0}, out, err);
}

infer_status pool_create_on_host(const struct alloc *alloc, const infer_executor *executor, struct pool **out, infer_error *err)
{
    return create(alloc, executor->concurrency, *executor, out, err);
}

uint32_t pool_threads(const struct pool *p)
{
    return p->threads;
}

static void run_tasks(struct pool *p, uint32_t worker)
{
    pool_fn fn = p->fn;
    void *arg = p->arg;
    for (uint32_t i = 0; i < p->threads; i++) {
        struct range *r = &p->ranges[(worker + i) % p->threads];
        for (;;) {
            uint64_t task = atomic_fetch_add_explicit(&r->next, 1, memory_order_relaxed);
            if (task >= r->end)
                break;
            fn(arg, worker, task);
        }
    }
}

static bool spin_for_job(struct pool *p, struct worker *w, unsigned seen)
{
    bool full = w->misses < MISSES || w->misses % MISSES == 0;
    for (uint32_t i = full ? p->spins : SPINS_LEAST; i > 0; i--) {
        if (atomic_load_explicit(&p->generation, memory_order_acquire) != seen) {
            w->misses = 0;
            return true;
        }
        os_spin_pause();
    }
    w->misses++;
    return false;
}

/* Until the generation is no longer `seen`, or the pool ends. */
static void wait_for_job(struct pool *p, struct worker *w, unsigned seen)
{
    if (spin_for_job(p, w, seen))
        return;
    os_mutex_lock(&p->mutex);
    /* Sequentially consistent on both sides: either we see the new generation or the caller sees us parked. */
    atomic_fetch_add(&p->parked, 1);
    while (atomic_load(&p->generation) == seen)
        os_cond_wait(&p->wake, &p->mutex);
    atomic_fetch_sub(&p->parked, 1);
    os_mutex_unlock(&p->mutex);
}

static bool gate_enter(struct pool *p)
{
    unsigned g = atomic_load_explicit(&p->gate, memory_order_relaxed);
    while (g & GATE_OPEN)
        if (atomic_compare_exchange_weak_explicit(&p->gate, &g, g + 1, memory_order_acquire, memory_order_relaxed))
            return true;
    return false;
}

static void gate_leave(struct pool *p)
{
    unsigned g = atomic_fetch_sub_explicit(&p->gate, 1, memory_order_acq_rel);
    if ((g & GATE_COUNT) == 1 && (g & GATE_WAIT)) {
        os_mutex_lock(&p->mutex);
        os_cond_signal(&p->done);
        os_mutex_unlock(&p->mutex);
    }
}

static void worker_main(void *arg)
{
    struct worker *w = arg;
    struct pool *p = w->pool;
    (void)fpenv_enter();
    unsigned seen = 0;
    while (!atomic_load_explicit(&p->quit, memory_order_acquire)) {
        if (gate_enter(p)) {
            run_tasks(p, w->index);
            gate_leave(p);
        }
        wait_for_job(p, w, seen);
        seen = atomic_load_explicit(&p->generation, memory_order_acquire);
    }
}

/* After fork() only the calling thread exists; locks may be held by threads that do not. */
static bool forget_threads(struct pool *p)
{
    if (!sync_init(p)) /* as before the call: pool_destroy must not touch the locks */
        return false;
    p->running = 0;
    atomic_store(&p->generation, 0);
    atomic_store(&p->parked, 0);
    atomic_store(&p->gate, 0);
    return true;
}

infer_status pool_start(struct pool *p, infer_error *err)
{
    uint64_t process = os_process_id();
    if (p->process == process || p->threads == 1 || p->host.run)
        return INFER_OK;
    if (p->process && !forget_threads(p))
        return err_no_memory(err);
    atomic_store(&p->generation, 0);
    for (uint32_t i = 0; i + 1 < p->threads; i++) {
        struct worker *w = &p->workers[i];
        *w = (struct worker){.pool = p, .index = i + 1};
        if (!os_thread_start(&w->thread, worker_main, w))
            break;
        p->running++;
    }
#ifndef INFER_NO_THREADS
    if (!p->running)
        return err_set(err, INFER_ERROR_THREAD, "no thread could be started");
#endif
    p->process = process;
    return INFER_OK;
}

static void open_job(struct pool *p, uint64_t n_tasks, pool_fn fn, void *arg)
{
    p->fn = fn;
    p->arg = arg;
    for (uint64_t i = 0, first = 0; i < p->threads; i++) {
        uint64_t n = n_tasks / p->threads + (i < n_tasks % p->threads);
        atomic_store_explicit(&p->ranges[i].next, first, memory_order_relaxed);
        p->ranges[i].end = first += n;
    }
    atomic_store_explicit(&p->gate, GATE_OPEN, memory_order_release);
    atomic_fetch_add(&p->generation, 1);
    if (atomic_load(&p->parked) > 0) {
        os_mutex_lock(&p->mutex); /* who counted as parked is then asleep */
        os_mutex_unlock(&p->mutex);
        os_cond_broadcast(&p->wake);
    }
}

static void close_job(struct pool *p)
{
    unsigned g = atomic_fetch_and_explicit(&p->gate, ~GATE_OPEN, memory_order_acq_rel);
    for (uint32_t i = 0; i < p->spins && (g & GATE_COUNT); i++) {
        os_spin_pause();
        g = atomic_load_explicit(&p->gate, memory_order_acquire);
    }
    if (!(g & GATE_COUNT))
        return;
    os_mutex_lock(&p->mutex);
    atomic_fetch_or(&p->gate, GATE_WAIT);
    while (atomic_load(&p->gate) & GATE_COUNT)
        os_cond_wait(&p->done, &p->mutex);
    os_mutex_unlock(&p->mutex);
}

/* What the executor runs: worker number index of the job. A call that comes twice, or when the job is over, does nothing. */
static void host_worker(void *arg, uint32_t index)
{
    struct pool *p = arg;
    if (index >= p->threads) {
        atomic_store_explicit(&p->misused, 1, memory_order_relaxed);
        return;
    }
    if (!gate_enter(p))
        return;
    if (!atomic_exchange_explicit(&p->taken[index], 1, memory_order_relaxed)) {
        struct fpenv guard = fpenv_enter();
        run_tasks(p, index);
        fpenv_leave(guard);
    } else {
        atomic_store_explicit(&p->misused, 1, memory_order_relaxed);
    }
    gate_leave(p);
}

/* The executor's contract is checked, not trusted: it must have run each worker once, and none may be inside when it returns. Whatever it
 * did, no worker is inside and no task is left when we return. */
static infer_status run_on_host(struct pool *p, uint64_t n_tasks, pool_fn fn, void *arg)
{
    uint32_t n = n_tasks < p->threads ? (uint32_t)n_tasks : p->threads;
    for (uint32_t i = 0; i < p->threads; i++)
        atomic_store_explicit(&p->taken[i], 0, memory_order_relaxed);
    atomic_store_explicit(&p->misused, 0, memory_order_relaxed);
    open_job(p, n_tasks, fn, arg);
    bool good = p->host.run(p->host.user, n, host_worker, p) == 0;
    good = (atomic_load(&p->gate) & GATE_COUNT) == 0 && good;
    close_job(p);
    run_tasks(p, 0);
    for (uint32_t i = 0; i < p->threads; i++)
        good = good && atomic_load_explicit(&p->taken[i], memory_order_relaxed) == (i < n);
    return good && !atomic_load_explicit(&p->misused, memory_order_relaxed) ? INFER_OK : INFER_ERROR_HOST;
}

infer_status pool_run(struct pool *p, uint64_t n_tasks, pool_fn fn, void *arg)
{
    infer_status st = INFER_OK;
    struct fpenv guard = fpenv_enter();
    if (n_tasks > 1 && p->host.run) {
        st = run_on_host(p, n_tasks, fn, arg);
    } else {
        if (n_tasks > 1 && p->threads > 1)
            st = pool_start(p, NULL);
        if (n_tasks > 1 && st == INFER_OK && p->running > 0) {
            open_job(p, n_tasks, fn, arg);
            run_tasks(p, 0);
            close_job(p);
        } else {
            for (uint64_t i = 0; i < n_tasks; i++)
                fn(arg, 0, i);
        }
    }
    fpenv_leave(guard);
    return st;
}

void pool_destroy(struct pool *p)
{
    if (!p)
        return;
    /* In a child that never used the pool, threads that do not exist here still count as waiting: the C library would wait for them. */
    bool ours = !p->running || p->process == os_process_id();
    if (ours && p->running) {
        atomic_store(&p->quit, 1);
        os_mutex_lock(&p->mutex);
        atomic_fetch_add(&p->generation, 1);
        os_cond_broadcast(&p->wake);
        os_mutex_unlock(&p->mutex);
        for (uint32_t i = 0; i < p->running; i++)
            os_thread_join(&p->workers[i].thread);
    }
    if (ours) {
        os_cond_destroy(&p->wake);
        os_cond_destroy(&p->done);
        os_mutex_destroy(&p->mutex);
    }
    free_memory(p);
}
