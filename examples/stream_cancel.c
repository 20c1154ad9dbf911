/* Streams an answer and stops it from another thread: stream_cancel MODEL.gguf "TEXT" [SECONDS]
 *
 * infer_generate_next does a bounded piece of work, so a host keeps control between calls; the cancel flag also ends a call that is
 * under way (a long prompt). A cancelled call may be repeated: nothing is lost. */
#include <infer/infer.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct alarm {
    infer_cancel *cancel;
    double seconds;
};

static void *ring(void *arg)
{
    struct alarm *a = arg;
    struct timespec t = {(time_t)a->seconds, (long)((a->seconds - (double)(time_t)a->seconds) * 1e9)};
    nanosleep(&t, NULL);
    infer_cancel_set(a->cancel);
    return NULL;
}

/* Prints events until the end or the cancel flag. */
static infer_status stream(infer_session *session, infer_cancel *cancel, infer_error *err)
{
    infer_event ev;
    infer_status st = infer_generate_begin(session, NULL, err);
    while (st == INFER_OK) {
        INFER_INIT(&ev);
        st = infer_generate_next(session, &ev, cancel, err);
        if (st != INFER_OK)
            break;
        fwrite(ev.text, 1, ev.text_len, stdout);
        fflush(stdout);
        if (ev.kind == INFER_EVENT_DONE)
            break;
    }
    return st;
}

static int fail(const infer_error *err)
{
    fprintf(stderr, "%s%s%s\n", err->file, err->file[0] ? ": " : "", err->text);
    return 1;
}

int main(int argc, char **argv)
{
    infer_error err;
    infer_model *model = NULL;
    infer_session *session = NULL;
    infer_sampling sampling;
    struct alarm alarm = {NULL, 1.0};
    pthread_t thread;
    if (argc < 3) {
        fprintf(stderr, "usage: stream_cancel MODEL.gguf TEXT [SECONDS]\n");
        return 1;
    }
    if (argc > 3)
        alarm.seconds = atof(argv[3]);
    INFER_INIT(&err);
    INFER_INIT(&sampling);
    if (infer_model_open_path(NULL, argv[1], &model, &err) != INFER_OK ||
        infer_session_create(model, NULL, &session, &err) != INFER_OK ||
        infer_cancel_create(&alarm.cancel, &err) != INFER_OK ||
        infer_sampling_default(&sampling, &err) != INFER_OK ||
        infer_session_set_sampling(session, &sampling, &err) != INFER_OK ||
        infer_session_append_text(session, argv[2], strlen(argv[2]), INFER_TOKENIZE_ADD_SPECIAL, &err) != INFER_OK)
        return fail(&err);
    if (pthread_create(&thread, NULL, ring, &alarm) != 0)
        return fail(&err);
    infer_status st = stream(session, alarm.cancel, &err);
    infer_cancel_set(alarm.cancel);
    pthread_join(thread, NULL);

    infer_session_info info;
    INFER_INIT(&info);
    infer_session_get_info(session, &info, NULL);
    printf("\n[%s; the session holds %llu tokens]\n", st == INFER_ERROR_CANCELLED ? "cancelled" : "finished",
           (unsigned long long)info.length);
    infer_session_release(session);
    infer_model_release(model);
    infer_cancel_release(alarm.cancel);
    return st == INFER_OK || st == INFER_ERROR_CANCELLED ? 0 : fail(&err);
}
