/* --isolate fork: the parent accepts, and forks a child for each connection; the child has its own event loop, workers and scheduler's thread, and ends with its
 * connection. Children share what the parent has loaded and computed (docs/state.md), and what lies in shared memory: metrics, limits of rate, nonces.
 *
 * The parent has no other threads than the library's, which sleep: so fork() is safe. It reads nothing that clients send. */
#define _GNU_SOURCE /* accept4 and its like in headers; pthread_getattr_default_np */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "metrics.h"
#include "sandbox.h"
#include "serve.h"
#include "shared.h"

enum {
    FULL_PAUSE = 50,        /* milliseconds between looks for an idle child when there are as many as may be */
    IDLE_LEAST = 1000000,   /* microseconds: a child that has just begun waits for its request */
    LAST_GRACE = 5          /* seconds that children have beyond --drain before they are killed */
};

struct child {
    pid_t pid;   /* 0: none */
    bool retired;
};

struct nursery {
    struct http *http;
    uint32_t most, running;
    struct child *children;         /* [most] */
    _Atomic uint64_t *idle_since;   /* [most], shared: see http_core.h */
    uint64_t started, lost;
    int signals;                    /* a descriptor */
    int stop;                       /* how often we were told to end */
    uint64_t kill_at;               /* now_us() */
    rlim_t data;                    /* bytes of data segments that a child may have; RLIM_INFINITY */
};

/* ---- The child ---- */

/* Bytes of private writable memory that the process has mapped; 0: unknown. */
static rlim_t mapped_data(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f) {
        if (fscanf(f, "%*u %*u %*u %*u %*u %lu", &pages) != 1)
            pages = 0;
        fclose(f);
    }
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* --child-memory beyond what the parent has, and not counting the stacks of a child's threads, of which most is never touched. */
static rlim_t data_limit(const struct options *o)
{
    pthread_attr_t a;
    size_t stack = 8 << 20;
    rlim_t have = mapped_data();
    if (o->child_memory == 0 || have == 0)
        return RLIM_INFINITY;
    if (pthread_getattr_default_np(&a) == 0) {
        (void)pthread_attr_getstacksize(&a, &stack);
        pthread_attr_destroy(&a);
    }
    uint32_t threads = 4 + (o->access_log != NULL) + (o->threads > 1 ? o->threads - 1 : 0); /* event loop, scheduler, 2 workers; log; the library's */
    return have + o->child_memory + (rlim_t)stack * threads;
}

static bool limit_child(const struct nursery *n)
{
    const struct options *o = n->http->options;
    struct rlimit data = {n->data, n->data}, time = {o->child_time, o->child_time + 1};
    return (n->data == RLIM_INFINITY || setrlimit(RLIMIT_DATA, &data) == 0) && (o->child_time == 0 || setrlimit(RLIMIT_CPU, &time) == 0);
}

/* What the child does not have in common with its parent. */
static bool become_child(struct nursery *n, pid_t parent)
{
    struct http *http = n->http;
    char error[256];
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        return false; /* it died before that */
    close(http->listener);
    close(n->signals);
    if (http->spare >= 0)
        close(http->spare);
    http->listener = http->spare = -1;
    if (!limit_child(n)) {
        fprintf(stderr, "infer-server: a child's limits cannot be set: %s\n", strerror(errno));
        return false;
    }
    if (sandbox_child(error, sizeof error))
        return true;
    fprintf(stderr, "infer-server: %s\n", error);
    return false;
}

static _Noreturn void child(struct nursery *n, uint32_t slot, pid_t parent, int fd, const struct peer *peer)
{
    struct http *http = n->http;
    sigset_t signals;
    int code = 1;
    sigemptyset(&signals); /* without SIGINT: a terminal sends that to all, and the parent will say what to do */
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGUSR1);
    sigaddset(&signals, SIGUSR2);
    http->single = true;
    http->idle_since = &n->idle_since[slot];
    if (become_child(n, parent) && http_open(http)) {
        infer_error err;
        INFER_INIT(&err);
        conn_open(http, fd, peer);
        code = serve(http, &signals);
        serve_end(http);
        if (http->options->kv_dir && infer_engine_cache_flush(http->server->engine, NULL, &err) != INFER_OK)
            fprintf(stderr, "infer-server: %s: %s\n", http->options->kv_dir, err.text);
    } else
        listen_refuse(http, fd);
    _exit(code); /* what the parent has registered for its own end is not the child's */
}

/* ---- The parent ---- */

static void tell_metrics(const struct nursery *n)
{
    metrics_children(n->http->server->metrics, n->running, n->started, n->lost);
}

static void start_child(struct nursery *n)
{
    struct peer peer;
    uint32_t slot = 0;
    pid_t parent = getpid();
    int fd = listen_take(n->http, &peer);
    if (fd < 0)
        return;
    while (n->children[slot].pid)
        slot++;
    atomic_store(&n->idle_since[slot], now_us());
    n->started++;
    n->running++;
    tell_metrics(n); /* before the child can be asked */
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        child(n, slot, parent, fd, &peer);
    if (pid > 0) {
        n->children[slot] = (struct child){.pid = pid};
        close(fd);
        return;
    }
    fprintf(stderr, "infer-server: no child for a connection: %s\n", strerror(errno));
    listen_refuse(n->http, fd);
    n->started--;
    n->running--;
    tell_metrics(n);
}

static void note_end(struct nursery *n, pid_t pid, int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return;
    n->lost++;
    if (WIFEXITED(status))
        fprintf(stderr, "infer-server: child %ld ended with status %d\n", (long)pid, WEXITSTATUS(status));
    else
        fprintf(stderr, "infer-server: child %ld was ended by signal %d%s\n", (long)pid, WTERMSIG(status),
                WTERMSIG(status) == SIGXCPU ? " (it used up --child-time)" : "");
}

static void reap(struct nursery *n)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (uint32_t i = 0; i < n->most; i++) {
            if (n->children[i].pid == pid) {
                n->children[i].pid = 0;
                n->running--;
                note_end(n, pid, status);
            }
        }
    }
    tell_metrics(n);
}

static void signal_all(struct nursery *n, int number)
{
    for (uint32_t i = 0; i < n->most; i++)
        if (n->children[i].pid)
            kill(n->children[i].pid, number);
}

/* Somebody waits, and there are as many children as may be: the one that has been idle for longest makes room. */
static void retire_idle(struct nursery *n)
{
    uint64_t oldest = now_us() - IDLE_LEAST;
    struct child *found = NULL;
    for (uint32_t i = 0; i < n->most; i++) {
        uint64_t since = atomic_load(&n->idle_since[i]);
        if (n->children[i].pid && !n->children[i].retired && since && since < oldest) {
            oldest = since;
            found = &n->children[i];
        }
    }
    if (found) {
        found->retired = true;
        kill(found->pid, SIGUSR1);
    }
}

static void take_signals(struct nursery *n)
{
    struct signalfd_siginfo s;
    while (read(n->signals, &s, sizeof s) == (ssize_t)sizeof s) {
        if (s.ssi_signo == SIGCHLD)
            continue; /* several may come as one: reap looks at all */
        listen_stop(n->http);
        signal_all(n, SIGTERM);
        if (n->stop++ == 0)
            n->kill_at = now_us() + (n->http->options->drain + LAST_GRACE) * (uint64_t)1000000;
    }
    reap(n);
}

/* What to wait for, and how long. */
static void wait_once(struct nursery *n)
{
    struct pollfd p[2] = {{n->signals, POLLIN, 0}, {n->http->listener, POLLIN, 0}};
    bool full = n->running == n->most;
    int n_poll = full || n->stop ? 1 : 2, timeout = full && !n->stop ? FULL_PAUSE : n->stop ? 1000 : -1;
    if (poll(p, (nfds_t)n_poll, timeout) < 0)
        return;
    if (p[0].revents)
        take_signals(n);
    if (n->stop)
        return;
    if (full) {
        if (poll(&p[1], 1, 0) > 0 && n->running == n->most)
            retire_idle(n);
    } else if (p[1].revents)
        start_child(n);
}

int isolate(struct http *http)
{
    struct nursery n = {.http = http, .most = http->options->max_children, .data = data_limit(http->options)};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    n.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    sigaddset(&set, SIGUSR1); /* the children's, who have our mask */
    sigprocmask(SIG_BLOCK, &set, NULL);
    n.children = calloc(n.most, sizeof *n.children);
    n.idle_since = shared_alloc(n.most * sizeof *n.idle_since);
    int code = n.signals >= 0 && n.children && n.idle_since ? 0 : 1;
    if (code)
        fputs("infer-server: out of memory\n", stderr);
    else {
        printf("infer-server: listening on %s\n", http->address);
        fflush(stdout);
        while (!n.stop || n.running) {
            wait_once(&n);
            if (n.stop && now_us() > n.kill_at)
                signal_all(&n, SIGKILL);
        }
    }
    shared_free((void *)(uintptr_t)n.idle_since, n.most * sizeof *n.idle_since);
    free(n.children);
    if (n.signals >= 0)
        close(n.signals);
    return code;
}
