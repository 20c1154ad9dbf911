/* infer-server: from the command line to what is served, and back. The threads: the event loop (http.c), the scheduler's (loop.c), workers, the access log's, and this
 * one, which waits for signals (serve.c). They start when everything is loaded and the sandbox has been entered. */
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "options.h"
#include "sandbox.h"
#include "serve.h"
#include "start.h"
#include "warm.h"

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

static bool enter_sandbox(const struct options *o)
{
    struct sandbox_path write[2], read[3];
    struct sandbox_options so = {.writable = write, .readable = read, .forks = o->isolate != NULL};
    char error[512];
    if (!o->sandbox)
        return true;
    so.best_effort = strcmp(o->sandbox, "best-effort") == 0;
    if (o->kv_dir)
        write[so.n_writable++] = (struct sandbox_path){o->kv_dir, "--kv-dir"};
    if (o->access_log && strcmp(o->access_log, "-") != 0)
        write[so.n_writable++] = (struct sandbox_path){o->access_log, "--access-log"};
    if (o->lora_dir)
        read[so.n_readable++] = (struct sandbox_path){o->lora_dir, "--lora-dir"};
    if (o->tls_cert && o->isolate) { /* each child reads them */
        read[so.n_readable++] = (struct sandbox_path){o->tls_cert, "--tls-cert"};
        read[so.n_readable++] = (struct sandbox_path){o->tls_key, "--tls-key"};
    }
    if (sandbox_enter(&so, error, sizeof error))
        return true;
    fprintf(stderr, "infer-server: %s\n", error);
    return false;
}

static int run_http(struct http *http, const sigset_t *signals)
{
    const struct options *o = http->options;
    int code = listen_open(http);
    if (code)
        return code;
    if (!o->isolate && !http_open(http))
        return 1;
    struct warm warm;
    bool ok = warm_read(http->server, &warm) && enter_sandbox(o) && warm_compute(&warm);
    warm_free(&warm);
    if (!ok)
        return 1;
    return o->isolate ? isolate(http) : serve(http, signals);
}

static int run(struct options *o, const sigset_t *signals)
{
    struct server server = {0};
    struct http http;
    int code = server_open(&server, o);
    if (code == 0) {
        code = http_create(&http, &server, o) ? run_http(&http, signals) : 1;
        serve_end(&http);
    }
    server_close(&server);
    return code;
}

int main(int argc, char **argv)
{
    static struct options o; /* its lists live as long as the process */
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
