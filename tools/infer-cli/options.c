#include "options.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"

enum kind { FLAG, TEXT, COUNT32, COUNT64, CONTEXT, SIZE, REAL, CPU, KV, NUMERICS, QUANTISE, POOLING, PAIR, ADAPTER, STOP };

struct option {
    const char *name;
    char letter; /* 0: none */
    enum kind kind;
    size_t offset;
    double lo, hi; /* of numbers; COUNT64 takes all */
    const char *value; /* how --help names it */
    const char *help;  /* lines; NULL: not listed */
};

struct group {
    const char *title;
    const struct option *options;
    size_t count;
};

#define AT(field) offsetof(struct options, field)
#define U32_MAX 4294967295.0

static const struct option model_options[] = {
    {"model", 'm', TEXT, AT(model), 0, 0, "FILE",
     "a GGUF file or a Hugging Face folder; else the model that\nscripts/quickstart fetched, else the small one that comes\nwith infer-cli"},
    {"ctx", 'c', CONTEXT, AT(ctx), 0, U32_MAX, "N", "room for N tokens (default, and auto: what the model was\ntrained for; with --memory what fits)"},
    {"memory", 0, SIZE, AT(memory), 0, 0, "SIZE", "take at most SIZE, such as 900M or 4G, mapped weights\nincluded (default: no limit)"},
    {"threads", 't', COUNT32, AT(threads), 0, 256, "N", "threads (default: the number of physical cores)"},
    {"cpu", 0, CPU, AT(cpu), 0, 0, "NAME",
     "force a CPU variant: scalar, avx2, avxvnni, avx512,\navx512vnni, neon, dotprod, i8mm (default: the best)"},
    {"kv", 0, KV, AT(kv_type), 0, 0, "TYPE", "keep attention state as f16 (default), bf16, f32, int8,\nint8-64, mixed-f16 or mixed-f32"},
    {"kv-type", 0, KV, AT(kv_type), 0, 0, "TYPE", NULL}, /* another name for --kv */
    {"kv-recent", 0, COUNT32, AT(kv_recent), 0, 4096, "N", "... of the mixed types: the last N tokens in f16 or f32,\nthe others in int8 (default 64)"},
    {"cache", 0, COUNT32, AT(cache_mib), 0, U32_MAX, "MIB",
     "keep up to so much computed state and reuse it where\nprompts begin alike (for --chat; default 0: none)"},
    {"lora", 0, ADAPTER, ARG_LORA, 0, 0, "FILE[:SCALE]", "attach a LoRA adapter (GGUF, or a PEFT folder), its effect\ntimes SCALE (default 1); may be repeated"},
    {"steer", 0, ADAPTER, ARG_STEER, 0, 0, "FILE[:STRENGTH[:LAYERS]]",
     "add a steering vector times STRENGTH (default 1) behind\nLAYERS (A-B, from 0; default all it has); with :project at\nthe end take out what points its way; may be repeated"},
    {"soft-prompt", 0, ADAPTER, ARG_SOFT_PROMPT, 0, 0, "FILE", "begin with a learned soft prompt or prefix; may be repeated"},
    {"quantise", 0, QUANTISE, AT(quantise), 0, 0, "TYPE", "quantise weights that are f32, f16 or bf16 while opening:\nq8_0, q4_0, q4_k or q6_k"},
    {"numerics", 0, NUMERICS, AT(numerics), 0, 0, "MODE", "exact (default), precise (slower: activations stay f32) or fast"},
};

static const struct option prompt_options[] = {
    {"system", 0, TEXT, AT(system), 0, 0, "TEXT", "the system message"},
    {"template-arg", 0, PAIR, AT(template_args), 0, 0, "KEY=JSON",
     "a variable for the chat template, such as\nenable_thinking=false; may be repeated"},
    {"raw", 0, FLAG, AT(raw), 0, 0, NULL, "continue the text as it is, without the chat template"},
    {"chat", 0, FLAG, AT(chat), 0, 0, NULL, "a conversation; /help lists its commands"},
    {"prompt-cache", 0, TEXT, AT(prompt_cache), 0, 0, "FILE",
     "go on from the state in FILE as far as the prompt agrees\nwith it, and keep the new state there and in FILE.delta"},
    {"prompt-cache-ro", 0, FLAG, AT(prompt_cache_ro), 0, 0, NULL, "only read what --prompt-cache names"},
};

static const struct option answer_options[] = {
    {"max-tokens", 'n', COUNT64, AT(max_tokens), 0, 0, "N",
     "stop after N tokens (default, and 0: at the end of the\nanswer; after 256 when there is no chat template)"},
    {"temp", 0, REAL, AT(sampling.temperature), 0, 1000, "X", "temperature; 0 always takes the likeliest token (default 0.7)"},
    {"top-k", 0, COUNT32, AT(sampling.top_k), 0, U32_MAX, "N", "choose among the N likeliest tokens; 0: all (default 40)"},
    {"top-p", 0, REAL, AT(sampling.top_p), 0, 1, "X", "... among the likeliest that make up X (default 0.95)"},
    {"min-p", 0, REAL, AT(sampling.min_p), 0, 1, "X", "... at least X times as likely as the likeliest (default 0.05)"},
    {"typical", 0, REAL, AT(sampling.typical_p), 0, 1, "X", "... locally typical ones that make up X (default: off)"},
    {"repetition-penalty", 0, REAL, AT(sampling.repetition_penalty), 0, 1000, "X", "make used tokens less likely (default: off)"},
    {"presence-penalty", 0, REAL, AT(sampling.presence_penalty), -1000, 1000, "X", "subtract X from used tokens' logits (default 0)"},
    {"frequency-penalty", 0, REAL, AT(sampling.frequency_penalty), -1000, 1000, "X", "... X for every use (default 0)"},
    {"seed", 's', COUNT64, AT(sampling.seed), 0, 0, "N",
     "another seed, another answer (default 0: the same\ncommand gives the same answer)"},
    {"ignore-eos", 0, FLAG, AT(ignore_eos), 0, 0, NULL, "go on after the end of the answer"},
    {"stop", 0, STOP, AT(stops), 0, 0, "TEXT", "end the answer before TEXT; may be repeated"},
    {"repeat-guard", 0, COUNT32, AT(repeat_guard), 0, 4096, "N", "end an answer whose last N tokens (16 to 4096) repeat\nthemselves four times or more (default: off)"},
};

static const struct option embed_options[] = {
    {"embed", 0, FLAG, AT(embed), 0, 0, NULL,
     "print the embedding of the prompt, or of each line of\nstandard input: numbers on a line, or JSON lines with --json"},
    {"pooling", 0, POOLING, AT(pooling), 0, 0, "KIND", "how a text's tokens become one vector: mean, cls, last, or\nnone: a vector for each (default: as the model says)"},
    {"dimensions", 0, COUNT32, AT(dimensions), 0, U32_MAX, "N", "only the first N numbers, for models trained for that"},
    {"no-normalise", 0, FLAG, AT(embed_raw), 0, 0, NULL, "vectors as they come (default: of length 1)"},
    {"truncate", 0, FLAG, AT(truncate), 0, 0, NULL, "cut texts that are too long (default: refuse them)"},
};

static const struct option score_options[] = {
    {"score", 0, FLAG, AT(score), 0, 0, NULL,
     "print how likely the model finds the text, as it is: its\nlog-likelihood and perplexity; with --json of each token too"},
};

static const struct option output_options[] = {
    {"json", 0, FLAG, AT(json), 0, 0, NULL, "one JSON object a line instead of text"},
    {"stats", 0, FLAG, AT(stats), 0, 0, NULL, "speeds and sizes on standard error at the end"},
    {"tokenize", 0, FLAG, AT(tokenize), 0, 0, NULL, "print the prompt's token ids and pieces, generate nothing"},
    {"info", 0, FLAG, AT(info), 0, 0, NULL, "print what the model file holds, generate nothing"},
    {"help", 'h', FLAG, AT(help), 0, 0, NULL, "this text"},
    {"version", 0, FLAG, AT(version), 0, 0, NULL, "the version of infer-cli and of the library"},
};

#define GROUP(title, list) {title, list, sizeof list / sizeof list[0]}
static const struct group groups[] = {
    GROUP("Model", model_options),
    GROUP("Prompt", prompt_options),
    GROUP("Answer", answer_options),
    GROUP("Embeddings", embed_options),
    GROUP("Scoring", score_options),
    GROUP("Output", output_options),
};
#define N_GROUPS (sizeof groups / sizeof groups[0])

/* By name (len bytes) or, with len 0, by letter. */
static const struct option *find(const char *name, size_t len, char letter)
{
    for (size_t g = 0; g < N_GROUPS; g++) {
        for (size_t i = 0; i < groups[g].count; i++) {
            const struct option *o = &groups[g].options[i];
            if (len ? strlen(o->name) == len && memcmp(o->name, name, len) == 0 : o->letter && o->letter == letter)
                return o;
        }
    }
    return NULL;
}

static int bad_value(const struct option *o, const char *value, const char *want)
{
    complain(INFER_ERROR_ARGUMENT, "--%s: \"%s\" is not %s", o->name, value, want);
    return EXIT_USAGE;
}

static int set_count(const struct option *o, void *field, const char *value)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(value, &end, 10), most = o->kind != COUNT64 ? (unsigned long long)o->hi : UINT64_MAX;
    if (value[0] < '0' || value[0] > '9' || *end)
        return bad_value(o, value, "a whole number");
    if (errno || v > most) {
        complain(INFER_ERROR_ARGUMENT, "--%s: %s is too large (at most %llu)", o->name, value, most);
        return EXIT_USAGE;
    }
    if (o->kind != COUNT64)
        *(uint32_t *)field = (uint32_t)v;
    else
        *(uint64_t *)field = v;
    return EXIT_OK;
}

/* A number of bytes, or of KiB, MiB, GiB, TiB. */
static int set_size(const struct option *o, uint64_t *field, const char *value)
{
    static const char units[] = "KMGT";
    char *end;
    errno = 0;
    unsigned long long v = strtoull(value, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    if (value[0] < '0' || value[0] > '9' || end[unit != NULL] || errno || !v || v > (unsigned long long)INT64_MAX >> shift)
        return bad_value(o, value, "a size (such as 900M or 4G)");
    *field = (uint64_t)v << shift;
    return EXIT_OK;
}

static int set_real(const struct option *o, float *field, const char *value)
{
    char *end;
    double v = strtod(value, &end);
    if (!value[0] || *end || !(fabs(v) <= DBL_MAX))
        return bad_value(o, value, "a number");
    if (v < o->lo || v > o->hi) {
        complain(INFER_ERROR_ARGUMENT, "--%s: %s is out of range (%g to %g)", o->name, value, o->lo, o->hi);
        return EXIT_USAGE;
    }
    *field = (float)v;
    return EXIT_OK;
}

struct choice {
    const char *name;
    int32_t value;
};

static int set_choice(const struct option *o, int32_t *field, const char *value, const struct choice *c, const char *want)
{
    for (; c->name; c++) {
        if (strcmp(c->name, value) == 0) {
            *field = c->value;
            return EXIT_OK;
        }
    }
    return bad_value(o, value, want);
}

static int set_cpu(const struct option *o, int32_t *field, const char *value)
{
    int32_t cpu = strcmp(value, "auto") == 0 ? INFER_CPU_AUTO : infer_cpu_from_name(value, INFER_ZSTR);
    if (cpu < 0)
        return bad_value(o, value, "a CPU variant (see --help)");
    *field = cpu;
    return EXIT_OK;
}

static int add_pair(const struct option *o, struct options *opt, const char *value)
{
    const char *eq = strchr(value, '=');
    if (!eq || eq == value || !eq[1])
        return bad_value(o, value, "of the form KEY=JSON");
    if (opt->n_template_args == CLI_MAX_TEMPLATE_ARGS) {
        complain(INFER_ERROR_ARGUMENT, "--%s: too many of them (at most %d)", o->name, CLI_MAX_TEMPLATE_ARGS);
        return EXIT_USAGE;
    }
    opt->template_args[opt->n_template_args++] = value;
    return EXIT_OK;
}

static int add_adapter(const struct option *o, struct options *opt, const char *value)
{
    if (!value[0])
        return bad_value(o, value, "a file's name");
    if (opt->n_adapters == CLI_MAX_ADAPTERS) {
        complain(INFER_ERROR_ARGUMENT, "--%s: too many adapters (at most %d)", o->name, CLI_MAX_ADAPTERS);
        return EXIT_USAGE;
    }
    opt->adapters[opt->n_adapters++] = (struct adapter_arg){(int32_t)o->offset, value};
    return EXIT_OK;
}

static int add_stop(const struct option *o, struct options *opt, const char *value)
{
    size_t len = strlen(value);
    if (len < 1 || len > 1024)
        return bad_value(o, value, "a text of 1 to 1024 bytes");
    if (opt->n_stops == CLI_MAX_STOPS) {
        complain(INFER_ERROR_ARGUMENT, "--%s: too many of them (at most %d)", o->name, CLI_MAX_STOPS);
        return EXIT_USAGE;
    }
    opt->stops[opt->n_stops++] = (infer_text){value, len};
    return EXIT_OK;
}

static int set(const struct option *o, struct options *opt, const char *value)
{
    static const struct choice kv[] = {{"f16", INFER_KV_F16},          {"bf16", INFER_KV_BF16},           {"f32", INFER_KV_F32},
                                       {"int8", INFER_KV_INT8},        {"int8-64", INFER_KV_INT8_64},     {"mixed-f16", INFER_KV_MIXED_F16},
                                       {"mixed-f32", INFER_KV_MIXED_F32}, {NULL, 0}};
    static const struct choice quantise[] = {{"q8_0", INFER_TYPE_Q8_0}, {"q4_0", INFER_TYPE_Q4_0}, {"q4_k", INFER_TYPE_Q4_K},
                                             {"q6_k", INFER_TYPE_Q6_K}, {NULL, 0}};
    static const struct choice numerics[] = {{"exact", INFER_NUMERICS_EXACT}, {"precise", INFER_NUMERICS_PRECISE},
                                             {"fast", INFER_NUMERICS_FAST}, {NULL, 0}};
    static const struct choice pooling[] = {{"mean", INFER_POOLING_MEAN}, {"cls", INFER_POOLING_CLS}, {"last", INFER_POOLING_LAST},
                                            {"none", INFER_POOLING_NONE}, {NULL, 0}};
    void *field = (char *)opt + (o->kind == ADAPTER ? 0 : o->offset);
    switch (o->kind) {
    case FLAG: *(bool *)field = true; return EXIT_OK;
    case TEXT: *(const char **)field = value; return EXIT_OK;
    case COUNT32:
    case COUNT64: return set_count(o, field, value);
    case CONTEXT:
        *(uint32_t *)field = 0;
        return strcmp(value, "auto") == 0 ? EXIT_OK : set_count(o, field, value);
    case SIZE: return set_size(o, field, value);
    case REAL: return set_real(o, field, value);
    case CPU: return set_cpu(o, field, value);
    case KV: return set_choice(o, field, value, kv, "f16, bf16, f32, int8, int8-64, mixed-f16 or mixed-f32");
    case QUANTISE: return set_choice(o, field, value, quantise, "q8_0, q4_0, q4_k or q6_k");
    case NUMERICS: return set_choice(o, field, value, numerics, "exact, precise or fast");
    case POOLING: return set_choice(o, field, value, pooling, "mean, cls, last or none");
    case PAIR: return add_pair(o, opt, value);
    case ADAPTER: return add_adapter(o, opt, value);
    case STOP: return add_stop(o, opt, value);
    }
    return EXIT_USAGE;
}

/* One argument that begins with '-', and the next one when it is its value (*used then counts 2). */
static int parse_option(struct options *opt, const char *arg, const char *next, int *used)
{
    const char *value = NULL;
    const struct option *o;
    if (arg[1] == '-') {
        size_t len = strcspn(arg + 2, "=");
        o = find(arg + 2, len, 0);
        if (arg[2 + len] == '=')
            value = arg + 2 + len + 1;
    } else {
        o = find(NULL, 0, arg[1]);
        if (arg[2])
            value = arg + 2;
    }
    if (!o) {
        complain(INFER_ERROR_ARGUMENT, "unknown option %s; infer-cli --help lists them", arg);
        return EXIT_USAGE;
    }
    if (o->kind == FLAG && value) {
        complain(INFER_ERROR_ARGUMENT, "--%s takes no value", o->name);
        return EXIT_USAGE;
    }
    if (o->kind != FLAG && !value) {
        if (!next) {
            complain(INFER_ERROR_ARGUMENT, "--%s needs a value", o->name);
            return EXIT_USAGE;
        }
        value = next;
        *used = 2;
    }
    return set(o, opt, value);
}

static int check_together(const struct options *o)
{
    if (o->help || o->version)
        return EXIT_OK;
    if (o->chat && o->prompt) {
        complain(INFER_ERROR_ARGUMENT, "--chat reads from the keyboard: leave the prompt out");
        return EXIT_USAGE;
    }
    if (o->chat + o->tokenize + o->info + o->embed + o->score > 1) {
        complain(INFER_ERROR_ARGUMENT, "--chat, --tokenize, --info, --embed and --score exclude each other");
        return EXIT_USAGE;
    }
    if (o->info && o->prompt) {
        complain(INFER_ERROR_ARGUMENT, "--info takes no prompt");
        return EXIT_USAGE;
    }
    if (o->prompt_cache_ro && !o->prompt_cache) {
        complain(INFER_ERROR_ARGUMENT, "--prompt-cache-ro goes with --prompt-cache FILE");
        return EXIT_USAGE;
    }
    if (!o->embed && (o->pooling || o->dimensions || o->embed_raw || o->truncate)) {
        complain(INFER_ERROR_ARGUMENT, "--pooling, --dimensions, --no-normalise and --truncate go with --embed");
        return EXIT_USAGE;
    }
    if (o->repeat_guard && o->repeat_guard < 16) {
        complain(INFER_ERROR_ARGUMENT, "--repeat-guard: at least 16 tokens");
        return EXIT_USAGE;
    }
    if (o->score && (o->system || o->n_template_args)) {
        complain(INFER_ERROR_ARGUMENT, "--score leaves the chat template out, so --system and --template-arg have no effect");
        return EXIT_USAGE;
    }
    if (o->prompt_cache && (o->tokenize || o->info || o->embed || o->score)) {
        complain(INFER_ERROR_ARGUMENT, "--prompt-cache has no effect on --tokenize, --info, --embed and --score");
        return EXIT_USAGE;
    }
    if (o->n_adapters && (o->tokenize || o->info || o->embed)) {
        complain(INFER_ERROR_ARGUMENT, "--lora, --steer and --soft-prompt have no effect on --tokenize, --info and --embed");
        return EXIT_USAGE;
    }
    for (uint32_t i = 0; i < o->n_adapters && o->prompt_cache; i++)
        if (o->adapters[i].kind == ARG_SOFT_PROMPT) {
            complain(INFER_ERROR_ARGUMENT, "--prompt-cache and --soft-prompt exclude each other");
            return EXIT_USAGE;
        }
    if (o->raw && (o->system || o->n_template_args)) {
        complain(INFER_ERROR_ARGUMENT, "--raw leaves the chat template out, so --system and --template-arg have no effect");
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

int options_parse(struct options *o, int argc, char **argv)
{
    bool only_prompt = false; /* after "--" */
    *o = (struct options){0};
    INFER_INIT(&o->sampling);
    (void)infer_sampling_default(&o->sampling, NULL);
    for (int i = 1; i < argc;) {
        int used = 1, code = EXIT_OK;
        if (!only_prompt && strcmp(argv[i], "--") == 0) {
            only_prompt = true;
        } else if (!only_prompt && argv[i][0] == '-' && argv[i][1]) {
            code = parse_option(o, argv[i], i + 1 < argc ? argv[i + 1] : NULL, &used);
        } else if (o->prompt) {
            complain(INFER_ERROR_ARGUMENT, "more than one prompt; put it in quotes");
            code = EXIT_USAGE;
        } else {
            o->prompt = argv[i];
        }
        output_json(o->json); /* from here on errors are events too */
        if (code != EXIT_OK)
            return code;
        i += used;
    }
    if (o->prompt && strcmp(o->prompt, "-") == 0 && !only_prompt)
        o->prompt = NULL;
    return check_together(o);
}

static void help_option(struct text *t, const struct option *o)
{
    size_t at = t->len;
    if (!o->help)
        return;
    text_puts(t, "  ");
    if (o->letter)
        text_putf(t, "-%c, ", o->letter);
    text_putf(t, "--%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
    at = t->len - at;
    for (const char *line = o->help; line; at = 0) {
        size_t len = strcspn(line, "\n");
        if (at > 26) {
            text_puts(t, "\n");
            at = 0;
        }
        text_putf(t, "%*s", (int)(28 - at), "");
        text_put(t, line, len);
        text_puts(t, "\n");
        line = line[len] ? line + len + 1 : NULL;
    }
}

bool options_help(void)
{
    struct text t = {0};
    text_puts(&t, "Usage: infer-cli [OPTION]... [PROMPT]\n\n"
                  "Runs a language model on this computer. The prompt comes from the command line or\n"
                  "from standard input; the answer, and nothing else, goes to standard output.\n\n"
                  "  infer-cli \"Give three tips for staying healthy.\"\n"
                  "  infer-cli -m model.gguf --temp 0 -n 100 < question.txt\n"
                  "  infer-cli --chat\n");
    for (size_t g = 0; g < N_GROUPS; g++) {
        text_putf(&t, "\n%s:\n", groups[g].title);
        for (size_t i = 0; i < groups[g].count; i++)
            help_option(&t, &groups[g].options[i]);
    }
    text_puts(&t, "\nCtrl-C ends an answer; twice quits.\n\n"
                  "Exit status: 0 success, 1 usage, 2 model or file, 3 generation, 4 memory or limit,\n"
                  "130 interrupted.\n");
    bool ok = out_text(&t);
    text_free(&t);
    return ok;
}
