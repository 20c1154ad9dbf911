/* /undo, /save and /load. */
#include "chat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "state_file.h"

#define CHAT_SUFFIX ".chat" /* the file beside a state that has the words */

static unsigned long long session_length(const struct chat *ch)
{
    infer_session_info info;
    INFER_INIT(&info);
    (void)infer_session_get_info(ch->c->session, &info, NULL);
    return info.length;
}

void chat_undo(struct chat *ch, const char *arg)
{
    char *end;
    infer_error err;
    unsigned long long n = arg[0] ? strtoull(arg, &end, 10) : 1;
    INFER_INIT(&err);
    if (arg[0] && (arg[0] < '0' || arg[0] > '9' || *end || n == 0)) {
        complain(INFER_ERROR_ARGUMENT, "/undo: \"%s\" is not a number of exchanges", arg);
        return;
    }
    if (n > ch->talk.count) {
        complain(INFER_ERROR_ARGUMENT, "/undo: there %s %zu exchange%s to take back", ch->talk.count == 1 ? "is" : "are", ch->talk.count, ch->talk.count == 1 ? "" : "s");
        return;
    }
    uint64_t length = ch->talk.exchanges[ch->talk.count - (size_t)n].elements;
    if (length > session_length(ch))
        length = session_length(ch);
    if (infer_session_truncate(ch->c->session, length, NULL, &err) != INFER_OK) {
        note_error("/undo", &err);
        return;
    }
    (void)talk_undo(&ch->talk, (size_t)n);
    remark("took back %llu exchange%s; %llu tokens are left", n, n == 1 ? "" : "s", (unsigned long long)length);
}

static bool with_suffix(struct text *path, const char *arg)
{
    text_puts(path, arg);
    text_puts(path, CHAT_SUFFIX);
    if (path->failed)
        complain(INFER_ERROR_NO_MEMORY, "out of memory");
    return !path->failed;
}

/* The state first: a crash in between leaves words that are older than the state, and those still fit its beginning. */
static bool save(struct chat *ch, const infer_checkpoint *state, const char *path, const char *words, infer_error *err)
{
    struct text text = {0};
    if (state_save(state, path, NULL, err) != INFER_OK) {
        note_error("/save", err);
        return false;
    }
    talk_write(&ch->talk, ch->c->raw, &text);
    bool ok = file_write(words, &text);
    if (!ok)
        complain(INFER_ERROR_IO, "/save: %s: %s", words, strerror(errno));
    text_free(&text);
    return ok;
}

void chat_save(struct chat *ch, const char *arg)
{
    infer_error err;
    infer_checkpoint *state = NULL;
    struct text words = {0};
    INFER_INIT(&err);
    if (!arg[0]) {
        complain(INFER_ERROR_ARGUMENT, "/save needs the name of a file");
        return;
    }
    if (!with_suffix(&words, arg))
        return;
    if (infer_checkpoint_create(ch->c->session, &state, &err) != INFER_OK)
        note_error("/save", &err);
    else if (save(ch, state, arg, words.data, &err))
        remark("saved %llu tokens of state in %s, the words in %s", session_length(ch), arg, words.data);
    infer_checkpoint_release(state);
    text_free(&words);
}

/* The words of a saved conversation. */
static bool load_words(const struct chat *ch, const char *path, struct talk *talk)
{
    struct text text = {0};
    const char *problem = file_read(path, &text) ? talk_read(talk, ch->c->raw, text.data ? text.data : "", text.len) : strerror(errno);
    if (problem)
        complain(INFER_ERROR_FORMAT, "/load: %s: %s", path, problem);
    text_free(&text);
    return !problem;
}

static bool load_state(struct chat *ch, const char *path)
{
    infer_error err;
    infer_checkpoint *state = NULL;
    INFER_INIT(&err);
    infer_status st = state_open(ch->c, path, &state, &err);
    if (st == INFER_OK)
        st = state_restore(ch->c, state, &err);
    infer_checkpoint_release(state);
    if (st != INFER_OK)
        note_error(err.file[0] ? "/load" : path, &err);
    return st == INFER_OK;
}

void chat_load(struct chat *ch, const char *arg)
{
    struct talk talk = {0};
    struct text words = {0};
    if (!arg[0]) {
        complain(INFER_ERROR_ARGUMENT, "/load needs the name of a file that /save wrote");
        return;
    }
    if (with_suffix(&words, arg) && load_words(ch, words.data, &talk)) {
        if (load_state(ch, arg)) {
            talk_free(&ch->talk);
            ch->talk = talk;
            ch->started = true; /* its state is newer than any --prompt-cache */
            remark("loaded %zu exchange%s, %llu tokens of state", talk.count, talk.count == 1 ? "" : "s", session_length(ch));
        } else {
            talk_free(&talk);
        }
    }
    text_free(&words);
}
