/* The second process: it waits for requests on one pipe and answers on another, and ends when its pipe does. */
#include "limits.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "limits_run.h"

struct request {
    int32_t what;
    uint32_t threads;
    uint64_t read_bytes;
};

struct reply {
    int32_t ok;
    struct limit_result result;
};

struct limits {
    pid_t pid;
    int to, from;
};

static bool read_all(int fd, void *into, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t got = read(fd, (char *)into + done, n - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

static bool write_all(int fd, const void *from, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t put = write(fd, (const char *)from + done, n - done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        done += (size_t)put;
    }
    return true;
}

static void serve(int from, int to)
{
    struct limits_runner r;
    struct request q;
    bool ready = false;
    while (read_all(from, &q, sizeof q)) {
        struct reply a = {0};
        if (!ready)
            limits_runner_init(&r);
        ready = true;
        a.ok = limits_run(&r, (enum limit)q.what, q.threads, q.read_bytes, &a.result);
        if (!write_all(to, &a, sizeof a))
            break;
    }
    _exit(0);
}

struct limits *limits_start(void)
{
    int down[2], up[2];
    struct limits *l = calloc(1, sizeof *l);
    if (!l || pipe(down) != 0) {
        free(l);
        return NULL;
    }
    if (pipe(up) == 0) {
        l->pid = fork();
        if (l->pid == 0) {
            close(down[1]);
            close(up[0]);
            signal(SIGINT, SIG_DFL);
            serve(down[0], up[1]);
        }
        close(up[1]);
        close(down[0]);
        l->to = down[1];
        l->from = up[0];
        if (l->pid > 0)
            return l;
        close(up[0]);
    } else {
        close(down[0]);
    }
    close(down[1]);
    free(l);
    return NULL;
}

bool limits_measure(struct limits *l, enum limit what, uint32_t threads, uint64_t read_bytes, struct limit_result *out)
{
    struct request q = {what, threads, read_bytes};
    struct reply a;
    if (!write_all(l->to, &q, sizeof q) || !read_all(l->from, &a, sizeof a) || !a.ok)
        return false;
    *out = a.result;
    return true;
}

void limits_stop(struct limits *l)
{
    if (!l)
        return;
    close(l->to);
    close(l->from);
    while (waitpid(l->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    free(l);
}
