/* Prints a model's answer: simple MODEL.gguf "QUESTION" */
#include <infer/infer.h>
#include <stdio.h>
#include <string.h>

static int32_t print(void *user, const infer_event *event)
{
    (void)user;
    fwrite(event->text, 1, event->text_len, stdout);
    return fflush(stdout); /* not 0 stops the answer */
}

int main(int argc, char **argv)
{
    infer_error err;
    infer_model *model = NULL;
    infer_session *session = NULL;
    infer_generate_options options;
    INFER_INIT(&err);
    INFER_INIT(&options);
    options.max_tokens = 200;
    if (argc != 3)
        return fprintf(stderr, "usage: simple MODEL.gguf TEXT\n"), 1;
    if (infer_model_open_path(NULL, argv[1], &model, &err) != INFER_OK ||
        infer_session_create(model, NULL, &session, &err) != INFER_OK ||
        infer_session_append_text(session, argv[2], strlen(argv[2]), INFER_ADD_SPECIAL | INFER_PARSE_SPECIAL, &err) != INFER_OK ||
        infer_generate(session, &options, print, NULL, NULL, &err) != INFER_OK)
        fprintf(stderr, "%s: %s\n", argv[1], err.text);
    infer_session_release(session);
    infer_model_release(model);
    putchar('\n');
    return err.code != INFER_OK;
}
