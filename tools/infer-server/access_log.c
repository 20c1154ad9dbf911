#include "access_log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bytes.h"

#define MAX_WAITING ((size_t)1 << 20)

struct access_log {
    pthread_mutex_t lock;
    pthread_cond_t more;
    pthread_t thread;
    struct bytes waiting;
    unsigned long dropped;
    bool running, stop;
    int fd;
};

static void write_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t w = write(fd, p, n);
        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0)
            return; /* a full disk costs lines, not service */
        p += w;
        n -= (size_t)w;
    }
}

static void *run(void *arg)
{
    struct access_log *log = arg;
    struct bytes now = {0};
    pthread_mutex_lock(&log->lock);
    while (!log->stop || log->waiting.len) {
        if (!log->waiting.len) {
            pthread_cond_wait(&log->more, &log->lock);
            continue;
        }
        struct bytes empty = now;
        now = log->waiting;
        log->waiting = empty;
        log->waiting.len = 0;
        if (log->dropped)
            bytes_printf(&now, "{\"dropped_lines\":%lu}\n", log->dropped);
        log->dropped = 0;
        pthread_mutex_unlock(&log->lock);
        write_all(log->fd, now.data, now.len);
        now.failed = false;
        pthread_mutex_lock(&log->lock);
    }
    pthread_mutex_unlock(&log->lock);
    bytes_free(&now);
    return NULL;
}

struct access_log *access_log_open(const char *path)
{
    struct access_log *log = calloc(1, sizeof *log);
    int fd = strcmp(path, "-") == 0 ? STDERR_FILENO : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
    if (!log || fd < 0) {
        fprintf(stderr, "infer-server: --access-log %s: %s\n", path, strerror(log ? errno : ENOMEM));
        free(log);
        return NULL;
    }
    log->fd = fd;
    pthread_mutex_init(&log->lock, NULL);
    pthread_cond_init(&log->more, NULL);
    return log;
}

bool access_log_start(struct access_log *log)
{
    log->running = pthread_create(&log->thread, NULL, run, log) == 0;
    return log->running;
}

void access_log_put(struct access_log *log, const char *line, size_t len)
{
    pthread_mutex_lock(&log->lock);
    if (log->waiting.len + len > MAX_WAITING)
        log->dropped++;
    else {
        bytes_put(&log->waiting, line, len);
        log->waiting.failed = false;
    }
    pthread_cond_signal(&log->more);
    pthread_mutex_unlock(&log->lock);
}

void access_log_close(struct access_log *log)
{
    if (!log)
        return;
    pthread_mutex_lock(&log->lock);
    log->stop = true;
    pthread_cond_signal(&log->more);
    pthread_mutex_unlock(&log->lock);
    if (log->running)
        pthread_join(log->thread, NULL);
    bytes_free(&log->waiting);
    if (log->fd != STDERR_FILENO)
        close(log->fd);
    pthread_cond_destroy(&log->more);
    pthread_mutex_destroy(&log->lock);
    free(log);
}
