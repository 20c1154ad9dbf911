/* Threads that run handlers, first come first served. */
#include <pthread.h>
#include <stdlib.h>

#include "call.h"

struct workers {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct job *first, **last;
    bool stop;
    uint32_t n;
    pthread_t threads[];
};

static void *work(void *arg)
{
    struct workers *w = arg;
    pthread_mutex_lock(&w->lock);
    for (;;) {
        struct job *job = w->first;
        if (!job && w->stop)
            break;
        if (!job) {
            pthread_cond_wait(&w->more, &w->lock);
            continue;
        }
        w->first = job->next;
        if (!w->first)
            w->last = &w->first;
        pthread_mutex_unlock(&w->lock);
        job->run(job);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

struct workers *workers_start(uint32_t n)
{
    struct workers *w = calloc(1, sizeof *w + n * sizeof w->threads[0]);
    if (!w)
        return NULL;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->more, NULL);
    w->last = &w->first;
    while (w->n < n && pthread_create(&w->threads[w->n], NULL, work, w) == 0)
        w->n++;
    if (w->n == n)
        return w;
    workers_stop(w);
    return NULL;
}

void workers_add(struct workers *w, struct job *job)
{
    job->next = NULL;
    pthread_mutex_lock(&w->lock);
    *w->last = job;
    w->last = &job->next;
    pthread_cond_signal(&w->more);
    pthread_mutex_unlock(&w->lock);
}

void workers_stop(struct workers *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_broadcast(&w->more);
    pthread_mutex_unlock(&w->lock);
    for (uint32_t i = 0; i < w->n; i++)
        pthread_join(w->threads[i], NULL);
    pthread_cond_destroy(&w->more);
    pthread_mutex_destroy(&w->lock);
    free(w);
}
