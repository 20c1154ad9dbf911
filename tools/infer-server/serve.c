#include "serve.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "loop.h"
#include "responses.h"

static void *run_http(void *arg)
{
    http_run(arg);
    kill(getpid(), SIGUSR2); /* the main thread waits for it */
    return NULL;
}

/* Responses in the background have no connection that the event loop would wait for. A signal ends the wait. A child that was not told to end takes the time
 * that they need. */
static void finish_background(struct http *http, const sigset_t *signals)
{
    struct response_list *list = http->server->responses;
    const struct timespec tick = {0, 20000000};
    bool for_ever = http->single && !http_draining(http);
    for (uint64_t n = 0; (for_ever || n < (uint64_t)http->options->drain * 50) && responses_running(list); n++)
        if (sigtimedwait(signals, NULL, &tick) >= 0)
            break;
    responses_stop(list);
}

static int run(struct http *http, const sigset_t *signals)
{
    pthread_t thread;
    int which = 0, ends = 0;
    if (pthread_create(&thread, NULL, run_http, http) != 0) {
        fputs("infer-server: the event loop's thread cannot be started\n", stderr);
        return 1;
    }
    if (!http->single) {
        printf("infer-server: listening on %s\n", http->address);
        fflush(stdout);
    }
    while (sigwait(signals, &which) == 0 && which != SIGUSR2) {
        if (which == SIGUSR1)
            http_retire(http);
        else if (++ends < 3)
            http_stop(http);
        else
            _exit(1); /* whatever hangs: who sends three signals means it */
    }
    pthread_join(thread, NULL);
    return 0;
}

int serve(struct http *http, const sigset_t *signals)
{
    infer_scheduler *scheduler = http->server->scheduler;
    struct loop *loop = scheduler ? loop_start(scheduler) : NULL;
    int code = http_start(http) && (loop || !scheduler) ? run(http, signals) : 1;
    if (code == 0)
        finish_background(http, signals);
    http_quit(http);
    loop_stop(loop);
    return code;
}

void serve_end(struct http *http)
{
    struct server *server = http->server;
    http_quit(http);
    infer_scheduler_release(server->scheduler); /* requests that still run end here, and tell their calls */
    server->scheduler = NULL;
    responses_close(server->responses); /* ... and these on their way by the disk */
    server->responses = NULL;
    http_free(http);
}
