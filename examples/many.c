/* Several questions at once: many MODEL.gguf "QUESTION" "QUESTION" ...
 *
 * All are submitted before the first step; each step computes one batch for all of them. Answers come in pieces, each with its number. */
#include <infer/scheduler.h>
#include <stdio.h>
#include <stdlib.h>

struct answer {
    int number;
    size_t len;
    char text[4096];
};

static void on_event(void *user, infer_request *request, const infer_request_event *event)
{
    struct answer *a = user;
    (void)request;
    if (event->error)
        fprintf(stderr, "%d: %s\n", a->number, event->error->text);
    for (uint64_t i = 0; i < event->text_len && a->len + 1 < sizeof a->text; i++)
        a->text[a->len++] = event->text[i];
    if (event->kind == INFER_REQUEST_EVENT_DONE)
        printf("%d: %s\n\n", a->number, a->text);
}

static infer_status submit(infer_scheduler *scheduler, const char *question, struct answer *answer, infer_error *err)
{
    infer_message message = {"user", INFER_ZSTR, question, INFER_ZSTR};
    infer_request_options options;
    infer_generate_options generate;
    INFER_INIT(&options);
    INFER_INIT(&generate);
    generate.max_tokens = 64;
    options.messages = &message;
    options.message_count = 1;
    options.generate = &generate;
    options.callback = on_event;
    options.callback_user = answer;
    return infer_scheduler_submit(scheduler, &options, NULL, err);
}

int main(int argc, char **argv)
{
    infer_error err;
    infer_model *model = NULL;
    infer_scheduler *scheduler = NULL;
    struct answer *answers = calloc((size_t)argc, sizeof *answers);
    INFER_INIT(&err);
    if (argc < 3 || !answers) {
        free(answers);
        return fprintf(stderr, "usage: many MODEL.gguf QUESTION ...\n"), 1;
    }
    infer_status st = infer_model_open_path(NULL, argv[1], &model, &err);
    if (st == INFER_OK)
        st = infer_scheduler_create(model, NULL, &scheduler, &err);
    for (int i = 2; i < argc && st == INFER_OK; i++) {
        answers[i].number = i - 1;
        st = submit(scheduler, argv[i], &answers[i], &err);
    }
    for (int32_t more = st == INFER_OK; more && st == INFER_OK;)
        st = infer_scheduler_step(scheduler, &more, NULL, &err);
    if (st != INFER_OK)
        fprintf(stderr, "%s: %s\n", argv[1], err.text);
    infer_scheduler_release(scheduler);
    infer_model_release(model);
    free(answers);
    return st != INFER_OK;
}
