#include "loop.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct loop {
    infer_scheduler *scheduler;
    pthread_t thread;
    atomic_bool stop;
};

static void *run(void *arg)
{
    struct loop *loop = arg;
    while (!atomic_load(&loop->stop)) {
        infer_error err;
        int32_t more = 0;
        INFER_INIT(&err);
        if (infer_scheduler_step(loop->scheduler, &more, NULL, &err) != INFER_OK) {
            struct timespec pause = {0, 100000000};
            fprintf(stderr, "infer-server: a step failed: %s\n", err.text);
            nanosleep(&pause, NULL); /* memory may come back */
        } else if (!more)
            (void)infer_scheduler_wait(loop->scheduler, NULL);
    }
    return NULL;
}

struct loop *loop_start(infer_scheduler *scheduler)
{
    struct loop *loop = calloc(1, sizeof *loop);
    if (!loop)
        return NULL;
    loop->scheduler = scheduler;
    if (pthread_create(&loop->thread, NULL, run, loop) == 0)
        return loop;
    free(loop);
    return NULL;
}

void loop_stop(struct loop *loop)
{
    if (!loop)
        return;
    atomic_store(&loop->stop, true);
    infer_scheduler_wake(loop->scheduler);
    pthread_join(loop->thread, NULL);
    free(loop);
}
