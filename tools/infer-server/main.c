/* infer-server: start, signals, end. The threads: the event loop (http.c), the scheduler's (loop.c), workers, and this one, which waits for signals. */
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <unistd.h>

#include "http_core.h"
#include "loop.h"
#include "options.h"
#include "responses.h"
#include "start.h"

static void *run_http(void *arg)
{
    http_run(arg);
    kill(getpid(), SIGUSR2); /* the main thread waits for it */
    return NULL;
}

static void block_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, set, NULL); /* before the first thread: all have it */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a write beyond a limit fails */
}

/* Serves until a signal comes and what runs has ended. */
static int serve(struct http *http, const sigset_t *set)
{
    pthread_t thread;
    int which = 0;
    if (pthread_create(&thread, NULL, run_http, http) != 0) {
        fputs("infer-server: the event loop's thread cannot be started\n", stderr);
        return 1;
    }
    printf("infer-server: listening on %s\n", http->address);
    fflush(stdout);
    while (sigwait(set, &which) == 0 && which != SIGUSR2)
        http_stop(http);
    pthread_join(thread, NULL);
    return 0;
}

/* Responses in the background have no connection that the event loop would wait for. A second signal ends the wait. */
static void finish_background(struct response_list *list, const sigset_t *set, uint32_t seconds)
{
    const struct timespec tick = {0, 20000000};
    for (uint64_t n = 0; n < (uint64_t)seconds * 50 && responses_running(list); n++)
        if (sigtimedwait(set, NULL, &tick) >= 0)
            break;
    responses_stop(list);
}

static int run(const struct options *o, const sigset_t *set)
{
    struct server server = {0};
    struct http http;
    struct loop *loop = NULL;
    int code = server_open(&server, o);
    if (code == 0) {
        code = http_create(&http, &server, o) ? listen_open(&http) : 1;
        if (code == 0 && server.scheduler && !(loop = loop_start(server.scheduler)))
            code = 1;
        if (code == 0)
            code = serve(&http, set);
        if (code == 0)
            finish_background(server.responses, set, o->drain);
        http_quit(&http);
        loop_stop(loop);
        infer_scheduler_release(server.scheduler); /* requests that still run end here, and tell their calls */
        server.scheduler = NULL;
        responses_close(server.responses); /* ... and these on their way by the disk */
        server.responses = NULL;
        http_free(&http);
    }
    server_close(&server);
    return code;
}

int main(int argc, char **argv)
{
    struct options o;
    sigset_t set;
    int code = options_parse(&o, argc, argv);
    if (code)
        return code;
    if (o.help)
        options_help();
    else if (o.version)
        printf("infer-server %s, libinfer %s\n", INFER_VERSION_STRING, infer_version());
    if (o.help || o.version)
        return fflush(stdout) == 0 ? 0 : 1;
    if (sodium_init() < 0) {
        fputs("infer-server: the system has no random numbers\n", stderr);
        return 1;
    }
    block_signals(&set);
    return run(&o, &set);
}
