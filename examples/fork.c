/* One beginning, three ways on: fork MODEL.gguf "TEXT"
 *
 * The text is computed once; its forks share that state, and each round computes one token for all three in one batch. At the end the
 * last one is rolled back and takes the first one's seed: it says the same again, to the bit, although it now goes alone. */
#include <infer/infer.h>
#include <stdio.h>
#include <string.h>

enum { FORKS = 3, TOKENS = 24 };

#define TRY(call)                      \
    do {                               \
        infer_status st = (call);      \
        if (st != INFER_OK)            \
            return st;                 \
    } while (0)

/* TOKENS rounds: what is pending is computed for all sessions at once, then each draws its next token. */
static infer_status go_on(infer_session **sessions, uint64_t count, infer_error *err)
{
    for (int round = 0; round < TOKENS; round++) {
        infer_step_item items[FORKS];
        for (uint64_t i = 0; i < count; i++) {
            INFER_INIT(&items[i]);
            items[i].session = sessions[i];
        }
        TRY(infer_step(items, count, NULL, err));
        for (uint64_t i = 0; i < count; i++) {
            infer_sample_result drawn;
            INFER_INIT(&drawn);
            TRY(infer_session_sample(sessions[i], &drawn, err));
            TRY(infer_session_append(sessions[i], &drawn.id, 1, err));
        }
    }
    return INFER_OK;
}

static infer_status show(infer_session *session, uint64_t from, infer_error *err)
{
    int32_t ids[TOKENS];
    char text[4096];
    uint64_t len = 0;
    TRY(infer_session_tokens(session, from, TOKENS, ids, err));
    TRY(infer_detokenize(infer_model_tokenizer(infer_session_model(session)), ids, TOKENS, 0, text, sizeof text, &len, err));
    printf("...%.*s\n\n", (int)len, text);
    return INFER_OK;
}

static infer_status run(infer_session **s, const char *text, infer_error *err)
{
    infer_step_item prompt;
    infer_session_info info;
    infer_sampling sampling;
    INFER_INIT(&prompt);
    INFER_INIT(&info);
    INFER_INIT(&sampling);
    TRY(infer_sampling_default(&sampling, err));
    TRY(infer_session_append_text(s[0], text, strlen(text), INFER_TOKENIZE_ADD_SPECIAL, err));
    TRY(infer_session_get_info(s[0], &info, err));

    prompt.session = s[0];
    prompt.logits = INFER_ROWS_NONE;
    TRY(infer_step(&prompt, 1, NULL, err));
    for (int i = 0; i < FORKS; i++) {
        if (i > 0)
            TRY(infer_session_fork(s[0], &s[i], err));
        sampling.seed = (uint64_t)i;
        TRY(infer_session_set_sampling(s[i], &sampling, err));
    }
    TRY(go_on(s, FORKS, err));
    for (int i = 0; i < FORKS; i++)
        TRY(show(s[i], info.length, err));

    infer_session *again = s[FORKS - 1];
    sampling.seed = 0;
    TRY(infer_session_truncate(again, info.length, NULL, err));
    TRY(infer_session_set_sampling(again, &sampling, err));
    TRY(go_on(&again, 1, err));
    return show(again, info.length, err);
}

int main(int argc, char **argv)
{
    infer_error err;
    infer_model *model = NULL;
    infer_session *sessions[FORKS] = {NULL};
    INFER_INIT(&err);
    if (argc != 3)
        return fprintf(stderr, "usage: fork MODEL.gguf TEXT\n"), 1;
    infer_status st = infer_model_open_path(NULL, argv[1], &model, &err);
    if (st == INFER_OK)
        st = infer_session_create(model, NULL, &sessions[0], &err);
    if (st == INFER_OK)
        st = run(sessions, argv[2], &err);
    if (st != INFER_OK)
        fprintf(stderr, "%s: %s\n", argv[1], err.text);
    for (int i = 0; i < FORKS; i++)
        infer_session_release(sessions[i]);
    infer_model_release(model);
    return st != INFER_OK;
}
