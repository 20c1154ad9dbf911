/* /compact: older turns give way to a summary. */
#include "chat.h"

#include <stdlib.h>
#include <string.h>

#include "generate.h"
#include "output.h"

#define KEEP_TURNS 2 /* this many last turns stay word for word */
#define SUMMARY_TOKENS 300

/* The index of the first message that stays as it is. */
static size_t first_kept(const struct chat *ch)
{
    size_t i = ch->talk.said.count, users = 0;
    while (i > 0 && users < KEEP_TURNS)
        users += strcmp(ch->talk.said.messages[--i].role, "user") == 0;
    return i;
}

/* Asks the model, in a session of its own, for a summary of messages [from, to). */
static int summarise(struct chat *ch, size_t from, size_t to, struct answer *a)
{
    struct conversation ask = {0};
    struct text request = {0};
    infer_session *side = NULL;
    infer_error err;
    infer_session_options so;
    int32_t *ids = NULL;
    uint64_t count = 0;
    INFER_INIT(&err);
    INFER_INIT(&so);
    so.n_ctx = ch->c->opt.ctx;
    so.kv_type = ch->c->opt.kv_type;
    so.kv_recent = ch->c->opt.kv_recent;
    text_puts(&request, "Summarise the following conversation in a few sentences. Keep names, numbers and decisions.\n");
    for (size_t i = from; i < to; i++) {
        text_putf(&request, "\n%s: ", strcmp(ch->talk.said.messages[i].role, "user") == 0 ? "User" : "Assistant");
        text_put(&request, ch->talk.said.messages[i].content, ch->talk.said.messages[i].len);
    }
    int code = request.failed || !conversation_add(&ask, "user", request.data, request.len) ? EXIT_LIMIT : EXIT_OK;
    if (code == EXIT_OK)
        code = conversation_encode(ch->c, &ask, &ids, &count);
    if (code == EXIT_OK && infer_session_create(ch->c->model, &so, &side, &err) != INFER_OK) {
        note_error(NULL, &err);
        code = exit_code(err.code, true);
    }
    if (code == EXIT_OK) /* a new session is greedy: the likeliest summary */
        code = generate(ch->c, side, ids, count, SUMMARY_TOKENS, true, a);
    infer_session_release(side);
    free(ids);
    text_free(&request);
    conversation_free(&ask);
    return code;
}

/* Replaces messages [from, to) by the summary, as one exchange, because many templates insist on alternating roles. */
static bool replace_by_summary(struct chat *ch, size_t from, size_t to, const struct text *summary)
{
    struct conversation shorter = {0};
    struct text user = {0};
    bool ok = true;
    text_puts(&user, "Summary of our conversation so far: ");
    text_put(&user, summary->data, summary->len);
    for (size_t i = 0; i < from && ok; i++)
        ok = conversation_add(&shorter, ch->talk.said.messages[i].role, ch->talk.said.messages[i].content, ch->talk.said.messages[i].len);
    ok = ok && !user.failed && conversation_add(&shorter, "user", user.data, user.len) &&
         conversation_add(&shorter, "assistant", "I will keep that in mind.", 25);
    for (size_t i = to; i < ch->talk.said.count && ok; i++)
        ok = conversation_add(&shorter, ch->talk.said.messages[i].role, ch->talk.said.messages[i].content, ch->talk.said.messages[i].len);
    text_free(&user);
    if (ok) {
        conversation_free(&ch->talk.said);
        ch->talk.said = shorter;
        talk_recount(&ch->talk, from + 2);
    } else {
        conversation_free(&shorter);
    }
    return ok;
}

void chat_compact(struct chat *ch, const char *arg)
{
    (void)arg;
    struct answer a = {0};
    size_t from = ch->talk.said.count && strcmp(ch->talk.said.messages[0].role, "system") == 0, to = first_kept(ch);
    if (ch->c->raw) {
        note("/compact needs a model with a chat template");
        return;
    }
    if (to <= from) {
        remark("nothing to compact: the last %d turns stay as they are", KEEP_TURNS);
        return;
    }
    int code = summarise(ch, from, to, &a);
    if (a.interrupted)
        remark("interrupted; the conversation is unchanged");
    else if (code == EXIT_OK && a.text.len && !replace_by_summary(ch, from, to, &a.text))
        note("out of memory; the conversation is unchanged");
    else if (code == EXIT_OK && a.text.len)
        remark("%llu messages are now a summary of %llu tokens", (unsigned long long)(to - from),
               (unsigned long long)a.completion_tokens);
    else
        note("no summary was made; the conversation is unchanged");
    text_free(&a.text);
}
