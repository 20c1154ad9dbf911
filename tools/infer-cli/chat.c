#include "chat.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adapters.h"
#include "line.h"
#include "output.h"

#define RAW_TURN_TOKENS 64 /* a model without a template never ends its turn */

static void chat_note(const struct chat *ch, const char *text)
{
    if (ch->terminal)
        remark("%s", text);
}

/* The session's elements follow from the conversation; an empty one starts over. */
static bool start_over(struct chat *ch)
{
    const char *system = ch->c->opt.system;
    talk_free(&ch->talk);
    return !system || ch->c->raw || conversation_add(&ch->talk.said, "system", system, strlen(system));
}

static int encode(struct chat *ch, int32_t **ids, uint64_t *count)
{
    if (ch->c->raw)
        return encode_text(ch->c, ch->talk.transcript.data, ch->talk.transcript.len, true, ids, count);
    return conversation_encode(ch->c, &ch->talk.said, ids, count);
}

static uint64_t session_length(const struct chat *ch)
{
    infer_session_info info;
    INFER_INIT(&info);
    return infer_session_get_info(ch->c->session, &info, NULL) == INFER_OK ? info.length : 0;
}

static uint64_t turn_tokens(const struct chat *ch)
{
    uint64_t n = ch->c->opt.max_tokens;
    return n ? n : ch->c->raw ? RAW_TURN_TOKENS : 0;
}

/* One question and its answer. An exit code; only those that end the conversation are not EXIT_OK. */
static int turn(struct chat *ch, const char *question, size_t len)
{
    int32_t *ids = NULL;
    uint64_t count = 0;
    if (!talk_ask(&ch->talk, ch->c->raw, question, len, session_length(ch))) {
        complain(INFER_ERROR_NO_MEMORY, "out of memory");
        return EXIT_LIMIT;
    }
    text_free(&ch->last.text);
    int code = encode(ch, &ids, &count);
    if (code == EXIT_OK && !ch->started)
        prompt_cache_take(&ch->cache, ch->c, ids, count);
    ch->started = true;
    if (code == EXIT_OK)
        code = generate(ch->c, ch->c->session, ids, count, turn_tokens(ch), false, &ch->last);
    free(ids);
    if (out_failed())
        return EXIT_GENERATION;
    if (!ch->c->opt.json)
        out_puts("\n");
    if (code != EXIT_OK) {
        (void)talk_undo(&ch->talk, 1);
        if (code == EXIT_LIMIT)
            note("the conversation may be too long: /compact or /reset");
        return ch->terminal ? EXIT_OK : code;
    }
    if (!talk_answer(&ch->talk, ch->c->raw, ch->last.text.data ? ch->last.text.data : "", ch->last.text.len)) {
        complain(INFER_ERROR_NO_MEMORY, "out of memory");
        return EXIT_LIMIT;
    }
    if (ch->last.finish == INFER_FINISH_CONTEXT)
        note("the context is full: /compact or /reset");
    if (ch->c->opt.stats)
        show_stats(ch->c, &ch->last);
    return EXIT_OK;
}

/* ---- Commands ---- */

static void cmd_help(struct chat *ch, const char *arg);

static void cmd_stats(struct chat *ch, const char *arg)
{
    (void)arg;
    show_stats(ch->c, ch->last.prompt_tokens ? &ch->last : NULL);
}

static void cmd_reset(struct chat *ch, const char *arg)
{
    (void)arg;
    if (!start_over(ch))
        note("out of memory");
    else
        chat_note(ch, "the conversation starts anew");
}

static void cmd_exit(struct chat *ch, const char *arg)
{
    (void)arg;
    ch->ended = true;
}

static const struct command {
    const char *name, *arg, *help;
    bool takes_arg;
    void (*run)(struct chat *ch, const char *arg);
} commands[] = {
    {"/help", "", "this list", false, cmd_help},
    {"/undo", "[N]", "take back the last exchange, or the last N", true, chat_undo},
    {"/fork", "[NAME]", "go on in a new branch; this one stays as it is", true, chat_fork},
    {"/branches", "", "list the branches", false, chat_branches},
    {"/switch", "NAME", "go on in another branch", true, chat_switch},
    {"/save", "FILE", "write the conversation and its state to files", true, chat_save},
    {"/load", "FILE", "go on with what /save wrote; what was said here is gone", true, chat_load},
    {"/lora", "[FILE[:SCALE]]", "attach a LoRA adapter, or change its scale; off: none; list them", true, chat_lora},
    {"/steer", "[FILE[:STRENGTH[:LAYERS]]]", "the same for steering vectors", true, chat_steer},
    {"/stats", "", "speeds of the last answer, sizes of the state", false, cmd_stats},
    {"/compact", "", "replace older turns by a summary that the model writes", false, chat_compact},
    {"/reset", "", "start anew; the system message stays", false, cmd_reset},
    {"/exit", "", "leave (so does Ctrl-D)", false, cmd_exit},
};
#define N_COMMANDS (sizeof commands / sizeof commands[0])

static void cmd_help(struct chat *ch, const char *arg)
{
    (void)ch;
    (void)arg;
    for (size_t i = 0; i < N_COMMANDS; i++)
        remark("%-9s %-6s  %s", commands[i].name, commands[i].arg, commands[i].help);
    remark("A line that ends in a backslash goes on in the next one. Ctrl-C ends an answer.");
}

/* line is changed: white space at its end goes. */
static void run_command(struct chat *ch, char *line)
{
    size_t len = strcspn(line, " \t\r"), end = strlen(line);
    while (end > len && strchr(" \t\r", line[end - 1]))
        line[--end] = 0;
    const char *arg = line + len + strspn(line + len, " \t");
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strlen(commands[i].name) != len || memcmp(commands[i].name, line, len) != 0)
            continue;
        if (arg[0] && !commands[i].takes_arg)
            note("%s takes nothing behind it", commands[i].name);
        else
            commands[i].run(ch, arg);
        return;
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
    if (code == EXIT_OK)
        prompt_cache_keep(&ch.cache, c);
    prompt_cache_free(&ch.cache);
    text_free(&question);
    text_free(&ch.last.text);
    chat_free_branches(&ch);
    talk_free(&ch.talk);
    return code;
}
