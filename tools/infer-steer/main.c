/* infer-steer: a steering vector from two files of prompts that differ in what it shall steer. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "steer.h"

infer_cancel *steer_cancel;

int complain(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fprintf(stderr, "infer-steer: ");
    vfprintf(stderr, fmt, args);
    fprintf(stderr, "\n");
    va_end(args);
    return EXIT_FAILED;
}

int complain_error(const char *what, const infer_error *err)
{
    if (err->code == INFER_ERROR_CANCELLED) {
        (void)complain("interrupted");
        return EXIT_INTERRUPTED;
    }
    const char *file = what ? what : err->file;
    return complain("%s%s%s%s%s", file, file[0] ? ": " : "", err->name, err->name[0] ? ": " : "", err->text);
}

static void on_interrupt(int number)
{
    (void)number;
    infer_cancel_set(steer_cancel);
}

/* ---- Options ---- */

static const char help[] =
    "Usage: infer-steer -m MODEL -p FILE -n FILE -o OUT [OPTION...]\n"
    "Makes a steering vector (control vector): for each layer the direction from what the prompts of one file leave there\n"
    "to what those of another file leave, at each prompt's last token.\n\n"
    "  -m, --model FILE       the model\n"
    "  -p, --positive FILE    prompts that have what is wanted, one a line\n"
    "  -n, --negative FILE    prompts that lack it; line i belongs to line i of the other file\n"
    "  -o, --output FILE      GGUF, or safetensors where the name ends so\n"
    "      --method NAME      mean: the difference of the means (default)\n"
    "                         pca: the first principal component of the differences of the pairs\n"
    "      --layers A-B       which layers, from 0 (default 1-: all but the first)\n"
    "      --unit             each direction of length 1, instead of as far as the prompts lie apart\n"
    "      --ids              lines hold token ids instead of text\n"
    "  -t, --threads N        threads (default: the number of physical cores)\n"
    "  -h, --help             this text\n"
    "      --version          the version of infer-steer and of the library\n";

static bool parse_number(const char *s, char **end, uint32_t *out)
{
    unsigned long v = strtoul(s, end, 10);
    *out = (uint32_t)v;
    return *s >= '0' && *s <= '9' && v < 65536;
}

/* "A-B", "A-" or "A". */
static bool parse_layers(const char *s, struct options *o)
{
    char *end;
    if (!parse_number(s, &end, &o->first_layer))
        return false;
    o->last_layer = o->first_layer;
    if (!*end)
        return true;
    if (*end != '-')
        return false;
    s = end + 1;
    o->last_layer = UINT32_MAX;
    return !*s || (parse_number(s, &end, &o->last_layer) && !*end);
}

static int bad(const char *name, const char *value)
{
    (void)complain("%s: bad value \"%s\"", name, value);
    return EXIT_USAGE;
}

/* An option with a value; EXIT_USAGE with a message when it is not one. */
static int set(struct options *o, const char *name, const char *value)
{
    static const struct {
        const char *name, *letter;
        size_t at;
    } texts[] = {{"--model", "-m", offsetof(struct options, model)},
                 {"--positive", "-p", offsetof(struct options, positive)},
                 {"--negative", "-n", offsetof(struct options, negative)},
                 {"--output", "-o", offsetof(struct options, output)}};
    char *end;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!strcmp(name, texts[i].name) || !strcmp(name, texts[i].letter)) {
            *(const char **)(void *)((char *)o + texts[i].at) = value;
            return EXIT_OK;
        }
    if (!strcmp(name, "--method") && (!strcmp(value, "mean") || !strcmp(value, "pca"))) {
        o->method = value[0] == 'm' ? METHOD_MEAN : METHOD_PCA;
        return EXIT_OK;
    }
    if (!strcmp(name, "--layers"))
        return parse_layers(value, o) ? EXIT_OK : bad(name, value);
    if (!strcmp(name, "--threads") || !strcmp(name, "-t"))
        return parse_number(value, &end, &o->threads) && !*end && o->threads <= 256 ? EXIT_OK : bad(name, value);
    return bad(name, value);
}

static bool is_flag(struct options *o, const char *name)
{
    bool *flag = !strcmp(name, "--ids")                            ? &o->ids
                 : !strcmp(name, "--unit")                         ? &o->unit
                 : !strcmp(name, "--help") || !strcmp(name, "-h") ? &o->help
                 : !strcmp(name, "--version")                      ? &o->version
                                                                   : NULL;
    if (flag)
        *flag = true;
    return flag != NULL;
}

static bool takes_value(const char *name)
{
    static const char *const names[] = {"--model", "-m", "--positive", "-p", "--negative", "-n", "--output", "-o", "--method", "--layers",
                                        "--threads", "-t"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

static int parse(struct options *o, int argc, char **argv)
{
    *o = (struct options){.first_layer = 1, .last_layer = UINT32_MAX};
    for (int i = 1; i < argc; i++) {
        char name[32];
        const char *equals = strchr(argv[i], '=');
        size_t len = equals && argv[i][0] == '-' && argv[i][1] == '-' ? (size_t)(equals - argv[i]) : strlen(argv[i]);
        (void)snprintf(name, sizeof name, "%.*s", (int)len, argv[i]);
        bool attached = len < strlen(argv[i]);
        if (!attached && is_flag(o, name))
            continue;
        if (!takes_value(name) || (!attached && i + 1 == argc)) {
            (void)complain(takes_value(name) ? "%s needs a value" : "unknown option %s (--help lists them)", argv[i]);
            return EXIT_USAGE;
        }
        int code = set(o, name, attached ? equals + 1 : argv[++i]);
        if (code != EXIT_OK)
            return code;
    }
    if (o->help || o->version || (o->model && o->positive && o->negative && o->output))
        return EXIT_OK;
    (void)complain("wants --model, --positive, --negative and --output (--help tells more)");
    return EXIT_USAGE;
}

/* ---- The work ---- */

struct work {
    const struct options *o;
    infer_engine *engine;
    infer_model *model;
    infer_model_info info;
    struct prompts a, b;
    uint32_t first, n; /* layers */
    float *states_a, *states_b, *out;
};

static int open_model(struct work *w)
{
    infer_error err;
    infer_engine_options eo;
    INFER_INIT(&err);
    INFER_INIT(&eo);
    INFER_INIT(&w->info);
    eo.threads = w->o->threads;
    if (infer_engine_create(&eo, &w->engine, &err) != INFER_OK)
        return complain_error(NULL, &err);
    if (infer_model_open_path(w->engine, w->o->model, &w->model, &err) != INFER_OK)
        return complain_error(w->o->model, &err);
    if (infer_model_get_info(w->model, &w->info, &err) != INFER_OK)
        return complain_error(w->o->model, &err);
    if (!w->o->ids && !infer_model_tokenizer(w->model))
        return complain("%s: has no tokenizer: %s", w->o->model, w->info.tokenizer_problem);
    return EXIT_OK;
}

static int choose_layers(struct work *w)
{
    uint32_t last = w->o->last_layer == UINT32_MAX ? w->info.n_layer - 1 : w->o->last_layer;
    w->first = w->o->first_layer;
    if (w->first > last || last >= w->info.n_layer)
        return complain("--layers: the model has layers 0 to %lu", (unsigned long)w->info.n_layer - 1);
    w->n = last - w->first + 1;
    return EXIT_OK;
}

static int read_prompts(struct work *w)
{
    const infer_tokenizer *t = infer_model_tokenizer(w->model);
    int code = prompts_read(w->o->positive, t, w->o->ids, &w->a);
    if (code == EXIT_OK)
        code = prompts_read(w->o->negative, t, w->o->ids, &w->b);
    if (code == EXIT_OK && w->o->method == METHOD_PCA && w->a.n != w->b.n)
        code = complain("--method pca wants pairs: %lu prompts in one file, %lu in the other", (unsigned long)w->a.n, (unsigned long)w->b.n);
    return code;
}

static int compute(struct work *w)
{
    uint32_t width = w->info.n_embd;
    size_t stride = (size_t)w->n * width;
    w->states_a = malloc(w->a.n * stride * sizeof *w->states_a);
    w->states_b = malloc(w->b.n * stride * sizeof *w->states_b);
    w->out = malloc(stride * sizeof *w->out);
    if (!w->states_a || !w->states_b || !w->out)
        return complain("out of memory");
    int code = states_compute(w->model, &w->a, w->first, w->n, width, w->states_a);
    if (code == EXIT_OK)
        code = states_compute(w->model, &w->b, w->first, w->n, width, w->states_b);
    for (uint32_t i = 0; i < w->n && code == EXIT_OK; i++) {
        const float *a = w->states_a + (size_t)i * width, *b = w->states_b + (size_t)i * width;
        float *out = w->out + (size_t)i * width;
        bool ok = w->o->method == METHOD_PCA ? direction_pca(a, b, w->a.n, stride, width, w->o->unit, out)
                                             : direction_mean(a, w->a.n, b, w->b.n, stride, width, w->o->unit, out);
        code = ok ? EXIT_OK : complain("out of memory");
    }
    return code;
}

static int run(const struct options *o)
{
    struct work w = {.o = o};
    int code = open_model(&w);
    if (code == EXIT_OK)
        code = choose_layers(&w);
    if (code == EXIT_OK)
        code = read_prompts(&w);
    if (code == EXIT_OK)
        code = compute(&w);
    if (code == EXIT_OK)
        code = write_directions(o->output, w.info.architecture, w.out, w.first, w.n, w.info.n_embd);
    if (code == EXIT_OK)
        printf("%s: layers %lu to %lu, %lu numbers each, from %lu and %lu prompts\n", o->output, (unsigned long)w.first,
               (unsigned long)(w.first + w.n - 1), (unsigned long)w.info.n_embd, (unsigned long)w.a.n, (unsigned long)w.b.n);
    prompts_free(&w.a);
    prompts_free(&w.b);
    free(w.states_a);
    free(w.states_b);
    free(w.out);
    infer_model_release(w.model);
    infer_engine_release(w.engine);
    return code;
}

int main(int argc, char **argv)
{
    struct options o;
    int code = parse(&o, argc, argv);
    if (code != EXIT_OK)
        return code;
    if (o.help)
        fputs(help, stdout);
    else if (o.version)
        printf("infer-steer %s, libinfer %s\n", INFER_VERSION_STRING, infer_version());
    else if (infer_cancel_create(&steer_cancel, NULL) != INFER_OK)
        return complain("out of memory");
    else {
        signal(SIGINT, on_interrupt);
        code = run(&o);
        signal(SIGINT, SIG_DFL);
        infer_cancel_release(steer_cancel);
    }
    if (fflush(stdout) != 0 && code == EXIT_OK)
        code = complain("cannot write: %s", strerror(errno));
    return code;
}
