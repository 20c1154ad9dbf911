#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { FLAG, TEXT, COUNT, LIST, CPU, CHOICE };

struct choice {
    const char *name;
    int32_t value;
};

static const struct choice kv_types[] = {
    {"f16", INFER_KV_F16}, {"f32", INFER_KV_F32}, {"bf16", INFER_KV_BF16},
    {"int8", INFER_KV_INT8}, {"int8-64", INFER_KV_INT8_64},
    {"mixed-f16", INFER_KV_MIXED_F16}, {"mixed-f32", INFER_KV_MIXED_F32},
    {NULL, 0}};
static const struct choice numerics_modes[] = {
    {"exact", INFER_NUMERICS_EXACT}, {"precise", INFER_NUMERICS_PRECISE},
#ifdef BENCH_NUMERICS_FAST
    {"fast", BENCH_NUMERICS_FAST},
#endif
    {NULL, 0}};
static const struct choice map_modes[] = {{"auto", INFER_MAP_AUTO}, {"mmap", INFER_MAP_MMAP}, {"read", INFER_MAP_READ}, {NULL, 0}};

struct option {
    const char *name;
    char letter; /* 0: none */
    enum kind kind;
    size_t offset;
    uint32_t lo, hi;              /* of numbers */
    const struct choice *choices; /* of CHOICE */
    const char *value;            /* how --help names it */
    const char *help;             /* lines */
};

#define AT(field) offsetof(struct options, field)
#define MAX_TOKENS (1u << 22)

static const struct option options[] = {
    {"model", 'm', TEXT, AT(model), 0, 0, NULL, "FILE", "a GGUF file"},
    {"prompt", 'p', LIST, AT(prompts), 0, MAX_TOKENS, NULL, "N,...", "prompt tokens (default 512); 0: no prompt"},
    {"generate", 'n', COUNT, AT(generate), 0, MAX_TOKENS, NULL, "N", "tokens generated after it (default 64); 0: none"},
    {"depth", 'd', LIST, AT(depths), 0, MAX_TOKENS, NULL, "N,...", "tokens that the session holds before the prompt (default 0)"},
    {"batch", 'b', LIST, AT(batches), 1, 4096, NULL, "N,...", "sessions stepped together (default 1)"},
    {"threads", 't', COUNT, AT(threads), 0, 256, NULL, "N", "threads (default: the number of physical cores)"},
    {"rounds", 'r', COUNT, AT(rounds), 1, MAX_ROUNDS, NULL, "N", "repeat everything N times (default 5)"},
    {"cpu", 0, CPU, AT(cpu), 0, 0, NULL, "NAME",
     "force a CPU variant: scalar, avx2, avxvnni, avx512,\navx512vnni, neon, dotprod, i8mm (default: the best)"},
    {"kv", 0, CHOICE, AT(kv_type), 0, 0, kv_types, "TYPE", "keep attention state as f16 (default), f32, bf16, int8,\nint8-64, mixed-f16 or mixed-f32"},
    {"kv-recent", 0, COUNT, AT(kv_recent), 0, 4096, NULL, "N", "... of the mixed types: the last N tokens in f16 or f32,\nthe others in int8 (default 64)"},
    {"numerics", 0, CHOICE, AT(numerics), 0, 0, numerics_modes, "MODE", "exact (default), precise or fast"},
    {"map", 0, CHOICE, AT(map), 0, 0, map_modes, "HOW", "mmap the file (default) or read it into memory"},
    {"limits", 0, FLAG, AT(limits), 0, 0, NULL, NULL, "measure the machine's limits alone; needs no model"},
    {"no-limits", 0, FLAG, AT(no_limits), 0, 0, NULL, NULL, "leave the limits out; shares are then 0"},
    {"limit-mib", 0, COUNT, AT(limit_mib), 256, 1u << 20, NULL, "N",
     "read a buffer of N MiB for the limit (default: as large\nas the weights, 1024 to 4096, half of the free memory)"},
    {"kernels", 0, FLAG, AT(kernels), 0, 0, NULL, NULL, "measure every kernel in every CPU variant; needs no model"},
    {"only", 0, TEXT, AT(only), 0, 0, NULL, "TEXT", "... whose name contains TEXT"},
    {"ppl", 0, TEXT, AT(ppl), 0, 0, NULL, "FILE", "perplexity of a text file instead of speed"},
    {"kl", 0, TEXT, AT(kl), 0, 0, NULL, "REF", "KL divergence from reference logits instead of speed"},
    {"save-logits", 0, TEXT, AT(save_logits), 0, 0, NULL, "REF", "write reference logits of the text of --text"},
    {"text", 0, TEXT, AT(text), 0, 0, NULL, "FILE", "... this text file"},
    {"window", 'c', COUNT, AT(window), 2, 1u << 20, NULL, "N", "texts are cut into windows of N tokens (default 512)"},
    {"windows", 0, COUNT, AT(windows), 0, MAX_TOKENS, NULL, "N", "use only the first N windows (default, and 0: all)"},
    {"score-all", 0, FLAG, AT(score_all), 0, 0, NULL, NULL, "score all of a window, not only its second half"},
    {"json", 0, FLAG, AT(json), 0, 0, NULL, NULL, "one JSON object, or an array when lists give several"},
    {"csv", 0, FLAG, AT(csv), 0, 0, NULL, NULL, "comma-separated values, one line a combination"},
    {"help", 'h', FLAG, AT(help), 0, 0, NULL, NULL, "this text"},
    {"version", 0, FLAG, AT(version), 0, 0, NULL, NULL, "the version of infer-bench and of the library"},
};
#define N_OPTIONS (sizeof options / sizeof options[0])

static const char *choice_name(const struct choice *c, int32_t value)
{
    for (; c->name; c++)
        if (c->value == value)
            return c->name;
    return "?";
}

const char *kv_type_name(int32_t kv_type)
{
    return choice_name(kv_types, kv_type);
}

const char *numerics_name(int32_t numerics)
{
    return choice_name(numerics_modes, numerics);
}

/* By name (len bytes) or, with len 0, by letter. */
static const struct option *find(const char *name, size_t len, char letter)
{
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option *o = &options[i];
        if (len ? strlen(o->name) == len && memcmp(o->name, name, len) == 0 : o->letter && o->letter == letter)
            return o;
    }
    return NULL;
}

/* One number up to a comma or the end; *end is where it stopped. */
static int parse_number(const struct option *o, const char *text, const char **end, uint32_t *out)
{
    char *stop;
    errno = 0;
    unsigned long long v = strtoull(text, &stop, 10);
    if (text[0] < '0' || text[0] > '9' || (*stop && (*stop != ',' || o->kind != LIST))) {
        complain("--%s: \"%s\" is not a whole number%s", o->name, text, o->kind == LIST ? " or a list of them" : "");
        return EXIT_USAGE;
    }
    if (errno || v < o->lo || v > o->hi) {
        complain("--%s: %.*s is out of range (%u to %u)", o->name, (int)(stop - text), text, (unsigned)o->lo, (unsigned)o->hi);
        return EXIT_USAGE;
    }
    *out = (uint32_t)v;
    *end = stop;
    return EXIT_OK;
}

static int set_list(const struct option *o, struct list *list, const char *text)
{
    list->n = 0;
    for (;;) {
        if (list->n == MAX_LIST) {
            complain("--%s: more than %d values", o->name, MAX_LIST);
            return EXIT_USAGE;
        }
        int code = parse_number(o, text, &text, &list->v[list->n++]);
        if (code != EXIT_OK || !*text)
            return code;
        text++;
    }
}

static int set_choice(const struct option *o, int32_t *field, const char *value)
{
    for (const struct choice *c = o->choices; c->name; c++) {
        if (strcmp(c->name, value) == 0) {
            *field = c->value;
            return EXIT_OK;
        }
    }
    char known[64] = "";
    for (const struct choice *c = o->choices; c->name; c++)
        (void)snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", known[0] ? ", " : "", c->name);
    complain("--%s: \"%s\" is none of %s", o->name, value, known);
    return EXIT_USAGE;
}

static int set_cpu(const struct option *o, int32_t *field, const char *value)
{
    int32_t cpu = strcmp(value, "auto") == 0 ? INFER_CPU_AUTO : infer_cpu_from_name(value, INFER_ZSTR);
    if (cpu < 0) {
        complain("--%s: \"%s\" is not a CPU variant (see --help)", o->name, value);
        return EXIT_USAGE;
    }
    *field = cpu;
    return EXIT_OK;
}

static int set(const struct option *o, struct options *opt, const char *value)
{
    void *field = (char *)opt + o->offset;
    switch (o->kind) {
    case FLAG: *(bool *)field = true; return EXIT_OK;
    case TEXT: *(const char **)field = value; return EXIT_OK;
    case COUNT: return parse_number(o, value, &value, field);
    case LIST: return set_list(o, field, value);
    case CPU: return set_cpu(o, field, value);
    case CHOICE: return set_choice(o, field, value);
    }
    return EXIT_USAGE;
}

/* One argument, and the next one when it is its value (*used then counts 2). */
static int parse_option(struct options *opt, const char *arg, const char *next, int *used)
{
    const char *value = NULL;
    const struct option *o = NULL;
    if (arg[0] == '-' && arg[1] == '-' && arg[2]) {
        size_t len = strcspn(arg + 2, "=");
        o = len ? find(arg + 2, len, 0) : NULL;
        if (arg[2 + len] == '=')
            value = arg + 2 + len + 1;
    } else if (arg[0] == '-' && arg[1] && arg[1] != '-') {
        o = find(NULL, 0, arg[1]);
        if (arg[2])
            value = arg + 2;
    }
    if (!o) {
        complain("unknown option %s; infer-bench --help lists them", arg);
        return EXIT_USAGE;
    }
    if (o->kind == FLAG && value) {
        complain("--%s takes no value", o->name);
        return EXIT_USAGE;
    }
    if (o->kind != FLAG && !value) {
        if (!next) {
            complain("--%s needs a value", o->name);
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
    if (o->json && o->csv) {
        complain("--json and --csv exclude each other");
        return EXIT_USAGE;
    }
    if (o->limits + o->kernels + (o->ppl != NULL) + (o->kl != NULL) + (o->save_logits != NULL) > 1) {
        complain("--limits, --kernels, --ppl, --kl and --save-logits exclude each other");
        return EXIT_USAGE;
    }
    if (!o->model && !o->limits && !o->kernels) {
        complain("no model: give one with -m FILE; infer-bench --help tells more");
        return EXIT_USAGE;
    }
    if (o->model && (o->limits || o->kernels)) {
        complain("--%s takes no model", o->limits ? "limits" : "kernels");
        return EXIT_USAGE;
    }
    if ((o->save_logits != NULL) != (o->text != NULL)) {
        complain("--save-logits and --text belong together");
        return EXIT_USAGE;
    }
    if (o->limits && o->no_limits) {
        complain("--limits and --no-limits exclude each other");
        return EXIT_USAGE;
    }
    if (o->only && !o->kernels) {
        complain("--only belongs to --kernels");
        return EXIT_USAGE;
    }
    for (uint32_t i = 0; i < o->prompts.n; i++)
        if (!o->prompts.v[i] && !o->generate) {
            complain("neither a prompt nor tokens to generate");
            return EXIT_USAGE;
        }
    return EXIT_OK;
}

int options_parse(struct options *o, int argc, char **argv)
{
    *o = (struct options){.prompts = {1, {512}}, .depths = {1, {0}}, .batches = {1, {1}}, .generate = 64, .rounds = 5,
                          .window = 512};
    for (int i = 1; i < argc;) {
        int used = 1, code = parse_option(o, argv[i], i + 1 < argc ? argv[i + 1] : NULL, &used);
        if (code != EXIT_OK)
            return code;
        i += used;
    }
    return check_together(o);
}

static void help_option(const struct option *o)
{
    int at = printf("  ");
    if (o->letter)
        at += printf("-%c, ", o->letter);
    at += printf("--%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
    for (const char *line = o->help; line; at = 0) {
        size_t len = strcspn(line, "\n");
        if (at > 24) {
            printf("\n");
            at = 0;
        }
        printf("%*s%.*s\n", 26 - at, "", (int)len, line);
        line = line[len] ? line + len + 1 : NULL;
    }
}

void options_help(void)
{
    printf("Usage: infer-bench -m FILE [OPTION]...\n\n"
           "Measures how fast a model runs on this computer, beside what the computer can do at\n"
           "most: its read bandwidth and its 8-bit and f32 arithmetic, measured in the same run.\n"
           "Also how close the model is to a text or to reference logits.\n\n"
           "  infer-bench -m model.gguf\n"
           "  infer-bench -m model.gguf -p 512 -n 64 -d 0,4096 -t 2 -r 5 --json\n"
           "  infer-bench -m model.gguf --ppl text.txt\n\n");
    for (size_t i = 0; i < N_OPTIONS; i++)
        help_option(&options[i]);
    printf("\nExit status: 0 success, 1 failure, 2 usage, 130 interrupted.\n");
}
