#include "chat.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conversation.h"
#include "generate.h"
#include "line.h"
#include "output.h"

#define KEEP_TURNS 2           /* /compact keeps this many last turns word for word */
#define SUMMARY_TOKENS 300
#define RAW_TURN_TOKENS 64     /* a model without a template never ends its turn */

struct chat {
    struct cli *c;
    struct conversation talk;  /* with a template */
    struct text transcript;    /* without one: everything so far */
    struct answer last;
    bool terminal;
    bool ended;
};

static void chat_note(const struct chat *ch, const char *text)
{
    if (ch->terminal)
        remark("%s", text);
}

/* The session's elements follow from the conversation; an empty one starts over. */
static bool start_over(struct chat *ch)
{
    const char *system = ch->c->opt.system;
    conversation_cut(&ch->talk, 0);
    text_clear(&ch->transcript);
    return !system || ch->c->raw || conversation_add(&ch->talk, "system", system, strlen(system));
}

static int encode(struct chat *ch, int32_t **ids, uint64_t *count)
{
    if (ch->c->raw)
        return encode_text(ch->c, ch->transcript.data, ch->transcript.len, true, ids, count);
    return conversation_encode(ch->c, &ch->talk, ids, count);
}

static bool remember(struct chat *ch, const char *role, const char *text, size_t len)
{
    if (!ch->c->raw)
        return conversation_add(&ch->talk, role, text, len);
    text_put(&ch->transcript, text, len);
    return !ch->transcript.failed;
}

static uint64_t turn_tokens(const struct chat *ch)
{
    uint64_t n = ch->c->opt.max_tokens;
    return n ? n : ch->c->raw ? RAW_TURN_TOKENS : 0;
}

/* Takes back a question that could not be answered. */
static void forget_question(struct chat *ch, size_t len)
{
    if (!ch->c->raw) {
        conversation_cut(&ch->talk, ch->talk.count - 1);
    } else {
        ch->transcript.len -= len;
        ch->transcript.data[ch->transcript.len] = 0;
    }
}

/* One question and its answer. An exit code; only those that end the conversation are not EXIT_OK. */
static int turn(struct chat *ch, const char *question, size_t len)
{
    int32_t *ids = NULL;
    uint64_t count = 0;
    if (!remember(ch, "user", question, len)) {
        complain(INFER_ERROR_NO_MEMORY, "out of memory");
        return EXIT_LIMIT;
    }
    text_free(&ch->last.text);
    int code = encode(ch, &ids, &count);
    if (code == EXIT_OK)
        code = generate(ch->c, ch->c->session, ids, count, turn_tokens(ch), false, &ch->last);
    free(ids);
    if (out_failed())
        return EXIT_GENERATION;
    if (!ch->c->opt.json)
        out_puts("\n");
    if (code != EXIT_OK) {
        forget_question(ch, len);
        if (code == EXIT_LIMIT)
            note("the conversation may be too long: /compact or /reset");
        return ch->terminal ? EXIT_OK : code;
    }
    if (!remember(ch, "assistant", ch->last.text.data ? ch->last.text.data : "", ch->last.text.len)) {
        complain(INFER_ERROR_NO_MEMORY, "out of memory");
        return EXIT_LIMIT;
    }
    if (ch->last.finish == INFER_FINISH_CONTEXT)
        note("the context is full: /compact or /reset");
    if (ch->c->opt.stats)
        show_stats(ch->c, &ch->last);
    return EXIT_OK;
}

/* ---- /compact ---- */

/* The index of the first message that stays as it is. */
static size_t first_kept(const struct chat *ch)
{
    size_t i = ch->talk.count, users = 0;
    while (i > 0 && users < KEEP_TURNS)
        users += strcmp(ch->talk.messages[--i].role, "user") == 0;
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
        text_putf(&request, "\n%s: ", strcmp(ch->talk.messages[i].role, "user") == 0 ? "User" : "Assistant");
        text_put(&request, ch->talk.messages[i].content, ch->talk.messages[i].len);
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
        ok = conversation_add(&shorter, ch->talk.messages[i].role, ch->talk.messages[i].content, ch->talk.messages[i].len);
    ok = ok && !user.failed && conversation_add(&shorter, "user", user.data, user.len) &&
         conversation_add(&shorter, "assistant", "I will keep that in mind.", 25);
    for (size_t i = to; i < ch->talk.count && ok; i++)
        ok = conversation_add(&shorter, ch->talk.messages[i].role, ch->talk.messages[i].content, ch->talk.messages[i].len);
    text_free(&user);
    if (ok) {
        conversation_free(&ch->talk);
        ch->talk = shorter;
    } else {
        conversation_free(&shorter);
    }
    return ok;
}

static void compact(struct chat *ch)
{
    struct answer a = {0};
    size_t from = ch->talk.count && strcmp(ch->talk.messages[0].role, "system") == 0, to = first_kept(ch);
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

/* ---- Commands ---- */

static void cmd_help(struct chat *ch);

static void cmd_stats(struct chat *ch)
{
    if (ch->last.completion_tokens)
        show_stats(ch->c, &ch->last);
    else
        remark("no answer yet");
}

static void cmd_reset(struct chat *ch)
{
    if (!start_over(ch))
        note("out of memory");
    else
        chat_note(ch, "the conversation starts anew");
}

static void cmd_exit(struct chat *ch)
{
    ch->ended = true;
}

static const struct command {
    const char *name, *help;
    void (*run)(struct chat *ch);
} commands[] = {
    {"/help", "this list", cmd_help},
    {"/stats", "speeds and sizes of the last answer", cmd_stats},
    {"/compact", "replace older turns by a summary that the model writes", compact},
    {"/reset", "start anew; the system message stays", cmd_reset},
    {"/exit", "leave (so does Ctrl-D)", cmd_exit},
};
#define N_COMMANDS (sizeof commands / sizeof commands[0])

static void cmd_help(struct chat *ch)
{
    (void)ch;
    for (size_t i = 0; i < N_COMMANDS; i++)
        remark("%-10s %s", commands[i].name, commands[i].help);
    remark("A line that ends in a backslash goes on in the next one. Ctrl-C ends an answer.");
}

static void run_command(struct chat *ch, const char *line)
{
    size_t len = strcspn(line, " \t\r");
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strlen(commands[i].name) == len && memcmp(commands[i].name, line, len) == 0) {
            commands[i].run(ch);
            return;
        }
    }
    remark("unknown command %.*s; /help lists them", (int)len, line);
}

/* A question: one line, or several of which all but the last end in a backslash. false: end of input. */
static bool read_question(struct text *q, bool *failed)
{
    text_clear(q);
    for (const char *prompt = "> ";; prompt = "... ") {
        char *line = line_read(prompt, failed);
        interrupt_forget(); /* a Ctrl-C before this line no longer counts */
        if (!line)
            return q->len > 0 && !*failed;
        size_t len = strlen(line);
        bool more = len > 0 && line[len - 1] == '\\';
        text_put(q, line, more ? len - 1 : len);
        if (more)
            text_puts(q, "\n");
        free(line);
        *failed = q->failed;
        if (!more || *failed)
            return !*failed;
    }
}

int run_chat(struct cli *c)
{
    struct chat ch = {.c = c, .terminal = isatty(STDIN_FILENO)};
    struct text question = {0};
    bool failed = false;
    int code = EXIT_OK;
    if (!start_over(&ch)) {
        complain(INFER_ERROR_NO_MEMORY, "out of memory");
        return EXIT_LIMIT;
    }
    chat_note(&ch, "/help lists commands, /exit leaves");
    while (code == EXIT_OK && !ch.ended && read_question(&question, &failed)) {
        if (question.len && question.data[0] == '/')
            run_command(&ch, question.data);
        else if (question.len)
            code = turn(&ch, question.data, question.len);
    }
    if (failed) {
        complain(INFER_ERROR_IO, "cannot read standard input");
        code = EXIT_GENERATION;
    }
    text_free(&question);
    text_free(&ch.transcript);
    text_free(&ch.last.text);
    conversation_free(&ch.talk);
    return code;
}
