/* infer-cli: asks a language model from the command line. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chat.h"
#include "conversation.h"
#include "embed.h"
#include "generate.h"
#include "info.h"
#include "model.h"
#include "options.h"
#include "output.h"
#include "prompt_cache.h"
#include "score.h"
#include "system.h"

#define RAW_TOKENS 256 /* a model without a template never ends by itself */

double seconds_now(void)
{
    return system_seconds();
}

/* ---- Ctrl-C ---- */

static infer_cancel *cancel;          /* set once, before the handler is installed */
static volatile sig_atomic_t armed;   /* something can be cancelled */
static volatile sig_atomic_t presses; /* since it was armed */

static void on_interrupt(void)
{
    static const char hint[] = "\r\n(once more to quit)\r\n";
    presses = presses + 1;
    if (presses > 1)
        system_quit(EXIT_INTERRUPTED);
    if (armed)
        infer_cancel_set(cancel);
    else if (write(STDERR_FILENO, hint, sizeof hint - 1) < 0)
        presses = 1;
}

infer_cancel *interrupt_arm(void)
{
    infer_cancel_clear(cancel);
    presses = 0;
    armed = 1;
    return cancel;
}

void interrupt_disarm(void)
{
    armed = 0;
}

void interrupt_forget(void)
{
    presses = 0;
}

bool interrupted(void)
{
    return infer_cancel_is_set(cancel) != 0;
}

static bool install_signals(void)
{
    return infer_cancel_create(&cancel, NULL) == INFER_OK && system_on_interrupt(on_interrupt);
}

/* ---- Prompt ---- */

static int read_stdin(struct text *t)
{
    char part[16384];
    if (isatty(STDIN_FILENO)) {
        complain(INFER_ERROR_ARGUMENT, "no prompt: give one, pipe one in, or use --chat; infer-cli --help tells more");
        return EXIT_USAGE;
    }
    for (;;) {
        ssize_t n = read(STDIN_FILENO, part, sizeof part);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            complain(INFER_ERROR_IO, "no prompt: cannot read standard input: %s", strerror(errno));
            return EXIT_USAGE;
        }
        if (n == 0)
            break;
        text_put(t, part, (size_t)n);
        if (t->failed || t->len > INFER_MAX_TEXT) {
            complain(INFER_ERROR_LIMIT, "the prompt is too long");
            return EXIT_LIMIT;
        }
    }
    if (t->len && t->data[t->len - 1] == '\n')
        t->data[--t->len] = 0;
    return EXIT_OK;
}

static int get_prompt(const struct options *o, struct text *t)
{
    if (o->prompt)
        text_puts(t, o->prompt);
    int code = o->prompt ? EXIT_OK : read_stdin(t);
    if (code == EXIT_OK && t->failed) {
        complain(INFER_ERROR_NO_MEMORY, "out of memory");
        code = EXIT_LIMIT;
    }
    if (code == EXIT_OK && t->len == 0 && !o->raw && !o->tokenize) {
        complain(INFER_ERROR_ARGUMENT, "empty prompt");
        code = EXIT_USAGE;
    }
    return code;
}

/* ---- One question ---- */

static int encode_prompt(const struct cli *c, const struct text *prompt, int32_t **ids, uint64_t *count)
{
    struct conversation v = {0};
    const char *text = prompt->data ? prompt->data : "", *system = c->opt.system;
    if (c->raw)
        return encode_text(c, text, prompt->len, true, ids, count);
    int code = EXIT_LIMIT;
    if ((!system || conversation_add(&v, "system", system, strlen(system))) &&
        conversation_add(&v, "user", text, prompt->len))
        code = conversation_encode(c, &v, ids, count);
    else
        complain(INFER_ERROR_NO_MEMORY, "out of memory");
    conversation_free(&v);
    return code;
}

static int run_once(struct cli *c, const struct text *prompt)
{
    struct answer a = {0};
    struct prompt_cache cache = {0};
    int32_t *ids = NULL;
    uint64_t count = 0, max = c->opt.max_tokens;
    int code = encode_prompt(c, prompt, &ids, &count);
    if (code == EXIT_OK)
        prompt_cache_take(&cache, c, ids, count);
    if (code == EXIT_OK && c->raw && !c->opt.json && isatty(STDOUT_FILENO) && prompt->data)
        out_write(prompt->data, prompt->len); /* the text to be continued, for a reader's eyes only */
    if (code == EXIT_OK)
        code = generate(c, c->session, ids, count, max ? max : c->raw ? RAW_TOKENS : 0, false, &a);
    if (!c->opt.json && !out_failed() && a.completion_tokens && !out_puts("\n") && code == EXIT_OK)
        code = EXIT_GENERATION;
    if (code == EXIT_OK && c->opt.stats)
        show_stats(c, &a);
    if (code == EXIT_OK)
        prompt_cache_keep(&cache, c);
    prompt_cache_free(&cache);
    free(ids);
    text_free(&a.text);
    return code == EXIT_OK && a.interrupted ? EXIT_INTERRUPTED : code;
}

/* ---- Start ---- */

static int run_model(struct cli *c, const struct text *prompt)
{
    const char *text = prompt->data ? prompt->data : "";
    if (c->opt.embed)
        return run_embed(c, text, prompt->len);
    if (c->opt.score)
        return run_score(c, text, prompt->len);
    return c->opt.chat ? run_chat(c) : run_once(c, prompt);
}

static int run(struct cli *c)
{
    struct text prompt = {0};
    int code = check_template_args(&c->opt);
    if (code == EXIT_OK && !c->opt.chat && !c->opt.info)
        code = get_prompt(&c->opt, &prompt);
    if (code == EXIT_OK)
        code = cli_model_find(c);
    if (code == EXIT_OK && c->opt.info)
        code = run_info(c);
    else if (code == EXIT_OK && c->opt.tokenize)
        code = run_tokenize(c, prompt.data ? prompt.data : "", prompt.len);
    else if (code == EXIT_OK && (code = cli_model_open(c)) == EXIT_OK)
        code = run_model(c, &prompt);
    cli_model_close(c);
    text_free(&prompt);
    return code;
}

static bool print_version(void)
{
    struct text t = {0};
    text_putf(&t, "infer-cli %s, libinfer %s\n", INFER_VERSION_STRING, infer_version());
    bool ok = out_text(&t);
    text_free(&t);
    return ok;
}

int main(int argc, char **argv)
{
    struct cli c = {0};
    system_start(&argc, &argv);
    if (!install_signals()) {
        complain(INFER_ERROR_NO_MEMORY, "out of memory");
        return EXIT_LIMIT;
    }
    int code = options_parse(&c.opt, argc, argv);
    if (code == EXIT_OK) {
        if (c.opt.help)
            code = options_help() ? EXIT_OK : EXIT_GENERATION;
        else if (c.opt.version)
            code = print_version() ? EXIT_OK : EXIT_GENERATION;
        else
            code = run(&c);
    }
    infer_cancel_release(cancel);
    return code;
}
