/* Signals: the host's handlers and masks are left alone, the library's threads take none of the host's signals, and calls that a signal interrupts go on. */
#define _GNU_SOURCE
#undef _FILE_OFFSET_BITS /* both open and open64 are defined here */
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

static const char *scenario(infer_logits_fn logits, void *user, struct guest_text *out)
{
    struct guest_setup s = {.api = &guest_linked, .folder = guest_folder(), .threads = 3, .logits = logits, .user = user};
    return guest_scenario(&s, out);
}

/* ---- Handlers, mask, alternate stack ---- */

struct signals {
    struct sigaction handlers[65];
    sigset_t mask;
    stack_t stack;
};

static void on_signal(int number)
{
    (void)number;
}

static void take_signals(struct signals *s)
{
    memset(s, 0, sizeof *s);
    for (int i = 1; i <= 64; i++)
        (void)sigaction(i, NULL, &s->handlers[i]); /* fails for two of the C library's own: they stay zero */
    (void)sigprocmask(SIG_SETMASK, NULL, &s->mask);
    (void)sigaltstack(NULL, &s->stack);
}

static const char *same_signals(const struct signals *a, const struct signals *b)
{
    for (int i = 1; i <= 64; i++) {
        CHECK(a->handlers[i].sa_handler == b->handlers[i].sa_handler && a->handlers[i].sa_flags == b->handlers[i].sa_flags, "the handler of signal %d changed", i);
        for (int j = 1; j <= 64; j++) {
            CHECK(sigismember(&a->handlers[i].sa_mask, j) == sigismember(&b->handlers[i].sa_mask, j), "the mask of signal %d's handler changed", i);
            CHECK(sigismember(&a->mask, j) == sigismember(&b->mask, j), "the host's mask changed: signal %d", j);
        }
    }
    CHECK(a->stack.ss_sp == b->stack.ss_sp && a->stack.ss_flags == b->stack.ss_flags, "the stack for signals changed");
    return NULL;
}

static const char *handlers(void)
{
    static const int kinds[] = {SIGHUP, SIGPIPE, SIGFPE, SIGALRM, SIGTERM, SIGCHLD, SIGUSR1, SIGIO, SIGSYS};
    static char stack[1 << 16];
    struct signals before, after;
    struct guest_text out = {NULL, 0, 0};
    for (int round = 0; round < 2; round++) { /* as they are by default; then with what a host may have set */
        if (round) {
            struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_NODEFER};
            stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
            sigset_t some;
            (void)sigaddset(&a.sa_mask, SIGUSR2);
            for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
                CHECK(sigaction(kinds[i], &a, NULL) == 0, "sigaction");
            (void)signal(SIGINT, SIG_IGN);
            (void)sigemptyset(&some);
            (void)sigaddset(&some, SIGUSR2);
            (void)sigaddset(&some, SIGRTMIN + 3);
            CHECK(sigprocmask(SIG_BLOCK, &some, NULL) == 0 && (GUEST_SANITIZED || sigaltstack(&alternate, NULL) == 0), "setting up");
        }
        take_signals(&before);
        RUN(scenario(NULL, NULL, &out));
        take_signals(&after);
        RUN(same_signals(&before, &after));
    }
    guest_text_free(&out);
    return NULL;
}

/* ---- The library's threads ---- */

struct masks {
    int threads; /* that were seen beside the host's */
    int taken;   /* a signal that one of them takes; 0: none */
};

static bool all_blocked(int thread, void *arg)
{
    struct masks *m = arg;
    uint64_t blocked = guest_signals_blocked(thread);
    m->threads++;
    for (int i = 1; i <= 64; i++) {
        bool cannot = i == SIGKILL || i == SIGSTOP || i == 32 || i == 33; /* the C library keeps two for itself */
        bool own = i == SIGSEGV || i == SIGBUS || i == SIGFPE || i == SIGILL || i == SIGTRAP; /* a fault of the thread itself: blocked or not, it ends the process */
        if (!cannot && !own && !(blocked >> (i - 1) & 1)) {
            m->taken = i;
            return false;
        }
    }
    return true;
}

static infer_status look_at_threads(void *user, float *logits, uint64_t vocab_size, const int32_t *ids, uint64_t count)
{
    (void)logits;
    (void)vocab_size;
    (void)ids;
    (void)count;
    return guest_other_threads(all_blocked, user) ? INFER_OK : INFER_ERROR_HOST;
}

static const char *threads(void)
{
    struct masks m = {0, 0};
    struct guest_text out = {NULL, 0, 0};
    const char *why = scenario(look_at_threads, &m, &out);
    CHECK(m.taken == 0, "a thread of the library takes signal %d", m.taken);
    RUN(why);
    guest_text_free(&out);
    CHECK(m.threads > 10, "no thread of the library was seen");
    return NULL;
}

/* ---- Interrupted calls. The storm alone would hardly ever meet one: files on a disk do not wait. So the host's own open, pread, ... stand before the C library's, and
 * each second call of them is "interrupted". ---- */

static bool interrupting;
static unsigned long calls, interrupted;

static bool interrupt(void)
{
    if (!interrupting || ++calls % 2)
        return false;
    interrupted++;
    errno = EINTR;
    return true;
}

#define HOST __attribute__((visibility("default")))
#define OPEN(name)                                                                      \
    HOST int name(const char *path, int flags, ...);                                     \
    HOST int name(const char *path, int flags, ...)                                      \
    {                                                                                    \
        va_list args;                                                                    \
        va_start(args, flags);                                                           \
        unsigned mode = flags & O_CREAT ? va_arg(args, unsigned) : 0;                    \
        va_end(args);                                                                    \
        return interrupt() ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode); \
    }
#define TRANSFER(name, call, pointer)                                      \
    HOST ssize_t name(int fd, pointer data, size_t n, off_t at);           \
    HOST ssize_t name(int fd, pointer data, size_t n, off_t at)            \
    {                                                                      \
        if (interrupt())                                                   \
            return -1;                                                     \
        return (ssize_t)syscall(call, fd, data, n > 1 ? n - n / 3 : n, at); /* and short */ \
    }
OPEN(open)
OPEN(open64)
TRANSFER(pread, SYS_pread64, void *)
TRANSFER(pread64, SYS_pread64, void *)
TRANSFER(pwrite, SYS_pwrite64, const void *)
TRANSFER(pwrite64, SYS_pwrite64, const void *)
HOST int fsync(int fd)
{
    return interrupt() ? -1 : (int)syscall(SYS_fsync, fd);
}
HOST ssize_t read(int fd, void *data, size_t n)
{
    return interrupt() ? -1 : (ssize_t)syscall(SYS_read, fd, data, n);
}

static const char *interruptions(void)
{
    struct guest_text plain = {NULL, 0, 0}, other = {NULL, 0, 0};
    RUN(scenario(NULL, NULL, &plain));
    interrupting = true;
    const char *why = scenario(NULL, NULL, &other);
    interrupting = false;
    RUN(why);
    RUN(guest_differs(&plain, &other, "with interrupted calls"));
    guest_text_free(&plain);
    guest_text_free(&other);
    CHECK(interrupted > 15, "%lu calls were interrupted: the library does not go by the host's functions here", interrupted);
    return NULL;
}

static volatile sig_atomic_t alarms;

static void on_alarm(int number)
{
    (void)number;
    alarms++;
}

static const char *storm(void)
{
    struct guest_text plain = {NULL, 0, 0}, other = {NULL, 0, 0};
    struct sigaction a = {.sa_handler = on_alarm}; /* no SA_RESTART */
    struct itimerval every = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    RUN(scenario(NULL, NULL, &plain));
    CHECK(sigaction(SIGALRM, &a, NULL) == 0 && setitimer(ITIMER_REAL, &every, NULL) == 0, "no timer");
    const char *why = NULL;
    for (int i = 0; i < 5 && !why; i++) {
        guest_text_free(&other);
        why = scenario(NULL, NULL, &other);
        why = why ? why : guest_differs(&plain, &other, "in a storm of signals");
    }
    (void)setitimer(ITIMER_REAL, &never, NULL);
    RUN(why);
    guest_text_free(&plain);
    guest_text_free(&other);
    CHECK(alarms > 50, "%d alarms only", (int)alarms);
    return NULL;
}

/* A pipe as a model: refused, and no SIGPIPE or wait for a writer. */
static const char *pipes(void)
{
    infer_model *model = NULL;
    infer_error err = {.size = sizeof err};
    const char *path = guest_path("fifo");
    CHECK(mkfifo(path, 0600) == 0, "no fifo");
    infer_status st = infer_model_open_path(NULL, path, &model, &err);
    CHECK(st == INFER_ERROR_UNSUPPORTED, "%s: %s", infer_status_name(st), err.text);
    (void)unlink(path);
    return NULL;
}

static const struct guest_case cases[] = {
    {"handlers, mask and stack of the host", handlers},
    {"threads of the library take no signals", threads},
    {"interrupted calls go on", interruptions},
    {"a storm of alarms", storm},
    {"a pipe is refused at once", pipes},
};
GUEST_MAIN(cases)
