/* Keeps a prompt's computed state in a file: state MODEL.gguf FILE "PROMPT" "QUESTION"
 *
 * The first run computes PROMPT and saves it; later ones map FILE and compute only QUESTION. Both give the same answer, to the bit.
 * FILE is not compared with PROMPT: another prompt wants another file. */
#include <infer/state.h>
#include <stdio.h>

static int32_t print(void *user, const infer_event *event)
{
    (void)user;
    fwrite(event->text, 1, event->text_len, stdout);
    return fflush(stdout); /* not 0 stops the answer */
}

/* A session that has computed the prompt. */
static infer_status warm(infer_model *model, const char *prompt, infer_session **session, infer_error *err)
{
    infer_step_item item;
    INFER_INIT(&item);
    infer_status st = infer_session_create(model, NULL, session, err);
    if (st == INFER_OK)
        st = infer_session_append_text(*session, prompt, INFER_ZSTR, INFER_TOKENIZE_ADD_SPECIAL, err);
    item.session = *session;
    return st == INFER_OK ? infer_step(&item, 1, NULL, err) : st;
}

/* The same from the file; or computed, and saved there. */
static infer_status prepare(infer_model *model, const char *file, const char *prompt, infer_session **session, infer_error *err)
{
    infer_checkpoint *kept = NULL;
    infer_status st = infer_checkpoint_open(model, file, INFER_ZSTR, NULL, NULL, &kept, err);
    if (st == INFER_OK)
        st = infer_checkpoint_session(kept, session, err);
    else if (st == INFER_ERROR_NOT_FOUND) {
        st = warm(model, prompt, session, err);
        if (st == INFER_OK)
            st = infer_checkpoint_create(*session, &kept, err);
        if (st == INFER_OK)
            st = infer_checkpoint_save(kept, file, INFER_ZSTR, NULL, NULL, err);
    }
    infer_checkpoint_release(kept);
    return st;
}

int main(int argc, char **argv)
{
    infer_error err;
    infer_model *model = NULL;
    infer_session *session = NULL;
    infer_generate_options options;
    INFER_INIT(&err);
    INFER_INIT(&options);
    options.max_tokens = 40;
    if (argc != 5)
        return fprintf(stderr, "usage: state MODEL.gguf FILE PROMPT QUESTION\n"), 1;
    infer_status st = infer_model_open_path(NULL, argv[1], &model, &err);
    if (st == INFER_OK)
        st = prepare(model, argv[2], argv[3], &session, &err);
    if (st == INFER_OK)
        st = infer_session_append_text(session, argv[4], INFER_ZSTR, 0, &err);
    if (st == INFER_OK)
        st = infer_generate(session, &options, print, NULL, NULL, &err);
    if (st != INFER_OK)
        fprintf(stderr, "%s: %s\n", err.file[0] ? err.file : argv[1], err.text);
    infer_session_release(session);
    infer_model_release(model);
    putchar('\n');
    return st != INFER_OK;
}
