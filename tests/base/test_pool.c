#define _DEFAULT_SOURCE
#include "testutil.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* ThreadSanitizer refuses threads in a child of a process that had some. */
#if defined(__SANITIZE_THREAD__)
#define NO_FORK 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define NO_FORK 1
#endif
#endif
#ifndef NO_FORK
#define NO_FORK 0
#endif

#include "base/os_cpu.h"
#include "base/os_thread.h"
#include "base/pool.h"

#define MAX_TASKS 1000

struct job {
    struct pool *pool;
    atomic_int runs[MAX_TASKS];
    uint64_t out[MAX_TASKS];
    atomic_int bad_worker, bad_env;
    int spin;
};

static uint64_t value_of(uint64_t task)
{
    return task * 0x9E3779B97F4A7C15u + 1;
}

static void job_fn(void *arg, uint32_t worker, uint64_t task)
{
    struct job *j = arg;
    atomic_fetch_add_explicit(&j->runs[task], 1, memory_order_relaxed);
    j->out[task] = value_of(task);
    if (worker >= pool_threads(j->pool))
        atomic_store(&j->bad_worker, 1);
    for (volatile int i = 0; i < j->spin; i++)
        ;
#if defined(__x86_64__)
    if ((_mm_getcsr() & ~0x3Fu) != 0x1F80) /* the low bits say which exceptions happened */
        atomic_store(&j->bad_env, 1);
#endif
}

/* Runs n tasks and checks that each ran once. */
static int run_once(struct pool *p, uint64_t n, int spin)
{
    static struct job j;
    j.pool = p;
    j.spin = spin;
    for (uint64_t i = 0; i < MAX_TASKS; i++) {
        atomic_store_explicit(&j.runs[i], 0, memory_order_relaxed);
        j.out[i] = 0;
    }
    pool_run(p, n, job_fn, &j);
    for (uint64_t i = 0; i < MAX_TASKS; i++)
        if (atomic_load(&j.runs[i]) != (i < n) || j.out[i] != (i < n ? value_of(i) : 0))
            return 0;
    return !atomic_load(&j.bad_worker) && !atomic_load(&j.bad_env);
}

static void test_runs(void **state)
{
    (void)state;
    struct test_alloc t = {0};
    struct alloc a = test_alloc_of(&t);
    uint64_t seed = 1;
    for (uint32_t threads = 1; threads <= 8; threads++) {
        struct pool *p;
        assert_int_equal(pool_create(&a, threads, &p, NULL), INFER_OK);
        assert_int_equal(pool_threads(p), threads);
        for (int i = 0; i < 300; i++) {
            uint64_t n = test_rand(&seed) % 40;
            if (i % 50 == 0)
                n = MAX_TASKS;
            assert_true(run_once(p, n, (int)(test_rand(&seed) % 300)));
            if (i % 60 == 59)
                usleep(2000); /* long enough for the threads to park */
        }
        pool_destroy(p);
    }
    assert_int_equal(t.live, 0);
}

static void test_start_and_destroy(void **state)
{
    (void)state;
    struct pool *p;
    infer_error err;
    assert_int_equal(pool_create(&alloc_default, 0, &p, &err), INFER_ERROR_ARGUMENT);
    assert_int_equal(pool_create(&alloc_default, POOL_MAX_THREADS + 1, &p, &err), INFER_ERROR_ARGUMENT);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(pool_create(&alloc_default, 4, &p, NULL), INFER_OK);
        if (i % 3 != 0)
            assert_int_equal(pool_start(p, NULL), INFER_OK);
        if (i % 3 == 2)
            assert_true(run_once(p, 9, 10));
        pool_destroy(p);
    }
    pool_destroy(NULL);
    for (uint64_t n = 1; n <= 2; n++) {
        struct test_alloc t = {.fail_at = n};
        struct alloc a = test_alloc_of(&t);
        assert_int_equal(pool_create(&a, 4, &p, &err), INFER_ERROR_NO_MEMORY);
        assert_int_equal(t.live, 0);
    }
}

static void test_fork(void **state)
{
    (void)state;
    if (NO_FORK)
        skip();
    for (uint32_t threads = 1; threads <= 4; threads++) {
        for (int parked = 0; parked < 2; parked++) {
            struct pool *p;
            assert_int_equal(pool_create(&alloc_default, threads, &p, NULL), INFER_OK);
            assert_true(run_once(p, 50, 100));
            if (parked)
                usleep(20000);
            pid_t child = fork();
            assert_true(child >= 0);
            if (child == 0) {
                int ok = 1;
                for (int i = 0; i < 50; i++)
                    ok = ok && run_once(p, 50, 100);
                pool_destroy(p);
                _exit(ok ? 0 : 1);
            }
            int status = -1;
            assert_true(run_once(p, 50, 100));
            assert_int_equal(waitpid(child, &status, 0), child);
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
            assert_true(run_once(p, 50, 100));
            pool_destroy(p);
        }
    }
    /* A pool that the child never uses is destroyed there without its threads. */
    struct pool *p;
    assert_int_equal(pool_create(&alloc_default, 3, &p, NULL), INFER_OK);
    assert_true(run_once(p, 50, 100));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        pool_destroy(p);
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    pool_destroy(p);
}

static void test_host_fpenv(void **state)
{
    (void)state;
#if defined(__x86_64__)
    struct pool *p;
    assert_int_equal(pool_create(&alloc_default, 3, &p, NULL), INFER_OK);
    unsigned before = _mm_getcsr(), host = 0x1F80 | 0x8040 | 0x6000; /* flush to zero, denormals are zero, toward zero */
    _mm_setcsr(host);
    int ok = run_once(p, 100, 50);
    unsigned after = _mm_getcsr();
    _mm_setcsr(before);
    assert_true(ok);
    assert_int_equal(after & ~0x3Fu, host);
    pool_destroy(p);
#else
    skip();
#endif
}

/* What an executor does with its workers. The order is i = 0 .. count - 1 unless said. */
enum habit { SERIAL, REVERSE, ONLY_LAST, FAILS, FAILS_AFTER, LEAVES_OUT_LAST, TWICE, BEYOND, STALE, N_HABITS };

struct host {
    enum habit habit;
    int calls;
    uint32_t most;
    infer_task_fn task; /* of the last run */
    void *task_arg;
};

static int32_t host_run(void *user, uint32_t count, infer_task_fn task, void *task_arg)
{
    struct host *h = user;
    h->calls++;
    h->most = count > h->most ? count : h->most;
    h->task = task;
    h->task_arg = task_arg;
    if (h->habit == FAILS)
        return -1;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t k = h->habit == REVERSE ? count - 1 - i : i;
        if ((h->habit == ONLY_LAST && k + 1 < count) || (h->habit == LEAVES_OUT_LAST && k + 1 == count))
            continue;
        task(task_arg, k);
        if (h->habit == TWICE)
            task(task_arg, k);
    }
    if (h->habit == BEYOND)
        task(task_arg, count);
    return h->habit == FAILS_AFTER ? 1 : 0;
}

static void test_executor(void **state)
{
    (void)state;
    static struct job j;
    for (uint32_t threads = 1; threads <= 5; threads += 2) {
        for (int habit = 0; habit < N_HABITS; habit++) {
            struct test_alloc t = {0};
            struct alloc a = test_alloc_of(&t);
            struct host h = {.habit = (enum habit)habit};
            infer_executor x = {(uint32_t)sizeof x, threads, &h, host_run};
            infer_status want = habit == SERIAL || habit == REVERSE || habit == STALE ? INFER_OK : INFER_ERROR_HOST;
            if (threads == 1 && habit == ONLY_LAST)
                want = INFER_OK; /* it is the only one */
            assert_int_equal(pool_create_on_host(&a, &x, &j.pool, NULL), INFER_OK);
            assert_int_equal(pool_threads(j.pool), threads);
            for (uint64_t n = 2; n < 40; n++) {
                memset(j.runs, 0, sizeof j.runs);
                infer_status st = pool_run(j.pool, n, job_fn, &j);
                assert_int_equal(st, want);
                for (uint64_t i = 0; i < MAX_TASKS; i++) /* whatever the executor did, each task ran once */
                    assert_int_equal(atomic_load(&j.runs[i]), i < n);
                if (habit == STALE) /* long after: does nothing */
                    h.task(h.task_arg, 0);
            }
            assert_int_equal(h.calls, 38);
            assert_int_equal(h.most, threads);
            assert_false(atomic_load(&j.bad_worker) || atomic_load(&j.bad_env));
            pool_destroy(j.pool);
            assert_int_equal(t.live, 0);
        }
    }
}

/* An executor that returns while a worker is still inside. */
struct hasty {
    struct os_thread thread;
    bool started;
    infer_task_fn task;
    void *task_arg;
};

static void hasty_main(void *arg)
{
    struct hasty *h = arg;
    h->task(h->task_arg, 1);
}

static void wait_inside(void *arg, uint32_t worker, uint64_t task)
{
    struct job *j = arg;
    (void)worker;
    usleep(task == 0 ? 20000 : 2000);
    atomic_fetch_add(&j->runs[task], 1);
}

static int32_t hasty_run(void *user, uint32_t count, infer_task_fn task, void *task_arg)
{
    struct hasty *h = user;
    (void)count;
    h->task = task;
    h->task_arg = task_arg;
    h->started = os_thread_start(&h->thread, hasty_main, h);
    usleep(5000); /* it is inside a task now */
    return 0;
}

static void test_executor_returns_early(void **state)
{
    (void)state;
    static struct job j;
    struct hasty h = {0};
    infer_executor x = {(uint32_t)sizeof x, 2, &h, hasty_run};
    assert_int_equal(pool_create_on_host(&alloc_default, &x, &j.pool, NULL), INFER_OK);
    infer_status st = pool_run(j.pool, 4, wait_inside, &j);
    if (h.started)
        os_thread_join(&h.thread);
    assert_int_equal(st, INFER_ERROR_HOST);
    for (int i = 0; i < 4; i++)
        assert_int_equal(atomic_load(&j.runs[i]), 1);
    pool_destroy(j.pool);
    if (!h.started)
        skip(); /* a build without threads */
}

struct counter {
    struct os_mutex mutex;
    struct os_cond cond;
    int count;
};

static void count_up(void *arg)
{
    struct counter *c = arg;
    for (int i = 0; i < 1000; i++) {
        os_mutex_lock(&c->mutex);
        c->count++;
        os_mutex_unlock(&c->mutex);
    }
    os_mutex_lock(&c->mutex);
    c->count += 1000000;
    os_cond_broadcast(&c->cond);
    os_mutex_unlock(&c->mutex);
}

static void test_threads(void **state)
{
    (void)state;
    struct counter c = {.count = 0};
    struct os_thread t[3];
    assert_true(os_mutex_init(&c.mutex));
    assert_true(os_cond_init(&c.cond));
    if (!os_thread_start(&t[0], count_up, &c))
        skip(); /* a build without threads */
    assert_true(os_thread_start(&t[1], count_up, &c));
    assert_true(os_thread_start(&t[2], count_up, &c));
    os_mutex_lock(&c.mutex);
    while (c.count < 3000000)
        os_cond_wait(&c.cond, &c.mutex);
    assert_int_equal(c.count, 3003000);
    os_mutex_unlock(&c.mutex);
    for (int i = 0; i < 3; i++)
        os_thread_join(&t[i]);
    os_cond_destroy(&c.cond);
    os_mutex_destroy(&c.mutex);
}

/* Writes text to root/name, making the folders between. */
static void put_file(const char *root, const char *name, const char *text)
{
    char path[512];
    int n = snprintf(path, sizeof path, "%s/%s", root, name);
    assert_true(n > 0 && (size_t)n < sizeof path);
    for (char *s = path + strlen(root) + 1; (s = strchr(s, '/')); *s++ = '/') {
        *s = 0;
        (void)mkdir(path, 0700);
        *s = '/';
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void remove_tree(const char *root)
{
    char cmd[256];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", root);
    assert_int_equal(system(cmd), 0);
}

static uint32_t quota_with(const char *cgroup, const char *file, const char *text, const char *file2, const char *text2)
{
    char root[] = "/tmp/infer-cpu-XXXXXX", self[64], groups[64];
    assert_non_null(mkdtemp(root));
    put_file(root, "self", cgroup);
    if (file)
        put_file(root, file, text);
    if (file2)
        put_file(root, file2, text2);
    snprintf(self, sizeof self, "%s/self", root);
    snprintf(groups, sizeof groups, "%s/cg", root);
    struct os_cpu_paths paths = {groups, self, groups};
    uint32_t n = os_cpu_quota(&paths);
    remove_tree(root);
    return n;
}

static void test_quota(void **state)
{
    (void)state;
    assert_int_equal(quota_with("0::/a/b\n", NULL, NULL, NULL, NULL), UINT32_MAX);
    assert_int_equal(quota_with("0::/a/b\n", "cg/a/b/cpu.max", "max 100000\n", NULL, NULL), UINT32_MAX);
    assert_int_equal(quota_with("0::/a/b\n", "cg/a/b/cpu.max", "300000 100000\n", NULL, NULL), 3);
    assert_int_equal(quota_with("0::/a/b\n", "cg/a/b/cpu.max", "400000 100000\n", "cg/a/cpu.max", "250000 100000"), 3);
    assert_int_equal(quota_with("0::/\n", "cg/cpu.max", "50000 100000\n", NULL, NULL), 1);
    assert_int_equal(quota_with("0::/gone/x\n", "cg/cpu.max", "200000 100000\n", NULL, NULL), 2);
    assert_int_equal(quota_with("3:cpuset:/\n4:cpu,cpuacct:/p\n", "cg/cpu,cpuacct/p/cpu.cfs_quota_us", "400000\n",
                                "cg/cpu,cpuacct/p/cpu.cfs_period_us", "100000\n"),
                     4);
    assert_int_equal(quota_with("1:cpu:/p\n", "cg/cpu/p/cpu.cfs_quota_us", "-1\n", "cg/cpu/p/cpu.cfs_period_us", "100000\n"),
                     UINT32_MAX);
    /* Garbage sets no limit. */
    assert_int_equal(quota_with("0::/a\n", "cg/a/cpu.max", "300000 0\n", NULL, NULL), UINT32_MAX);
    assert_int_equal(quota_with("0::/a\n", "cg/a/cpu.max", "99999999999999999999999 1", NULL, NULL), UINT32_MAX);
    assert_int_equal(quota_with("no colons here\n\n:::\n0::/../a", "cg/a/cpu.max", "x", NULL, NULL), UINT32_MAX);
}

static void test_cores(void **state)
{
    (void)state;
    uint32_t logical = os_cpu_logical();
    assert_true(logical >= 1);
    struct os_cpu_paths none = {"/nonexistent", "/nonexistent", "/nonexistent"};
    assert_int_equal(os_cpu_cores(&none), logical); /* unknown topology */
    assert_int_equal(os_cpu_quota(&none), UINT32_MAX);
    uint32_t cores = os_cpu_cores(&os_cpu_paths_default), n = pool_default_threads();
    assert_true(cores >= 1 && cores <= logical);
    assert_true(n >= 1 && n <= cores);
    /* All processors as threads of one core. */
    char root[] = "/tmp/infer-cpu-XXXXXX";
    assert_non_null(mkdtemp(root));
    for (unsigned cpu = 0; cpu < 1024; cpu++) {
        char name[64];
        snprintf(name, sizeof name, "cpu%u/topology/thread_siblings_list", cpu);
        put_file(root, name, "0-8000\n");
    }
    struct os_cpu_paths one = {root, "/nonexistent", "/nonexistent"};
    if (logical <= 1024)
        assert_int_equal(os_cpu_cores(&one), 1);
    remove_tree(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs),       cmocka_unit_test(test_start_and_destroy),
        cmocka_unit_test(test_fork),       cmocka_unit_test(test_host_fpenv),
        cmocka_unit_test(test_threads),    cmocka_unit_test(test_quota),
        cmocka_unit_test(test_cores),      cmocka_unit_test(test_executor),
        cmocka_unit_test(test_executor_returns_early),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
