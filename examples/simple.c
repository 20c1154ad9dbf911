/* Answers a question: simple MODEL.gguf "QUESTION" (a model without a chat template continues the text instead) */
#include <infer/infer.h>
#include <stdio.h>

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
    options.max_tokens = 300;
    if (argc != 3)
        return fprintf(stderr, "usage: simple MODEL.gguf QUESTION\n"), 1;
    infer_message question = {"user", INFER_ZSTR, argv[2], INFER_ZSTR};
    infer_status st = infer_model_open_path(NULL, argv[1], &model, &err);
    if (st == INFER_OK)
        st = infer_session_create(model, NULL, &session, &err);
    if (st == INFER_OK && infer_template_is_fallback(infer_model_template(model)))
        st = infer_session_append_text(session, argv[2], INFER_ZSTR, INFER_TOKENIZE_ADD_SPECIAL, &err);
    else if (st == INFER_OK)
        st = infer_session_append_chat(session, &question, 1, NULL, &err);
    if (st == INFER_OK)
        st = infer_generate(session, &options, print, NULL, NULL, &err);
    if (st != INFER_OK)
        fprintf(stderr, "%s: %s\n", argv[1], err.text);
    infer_session_release(session);
    infer_model_release(model);
    putchar('\n');
    return st != INFER_OK;
}
