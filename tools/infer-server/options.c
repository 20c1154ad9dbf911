#include "options.h"

#include <errno.h>
#include <infer/infer.h>
#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { FLAG, MODE /* a flag that may have a value */, TEXT, LIST, COUNT, CONTEXT /* a count, or "auto": 0 */, SIZE, REAL, KV };

struct option {
    const char *name;
    char letter; /* 0: none */
    enum kind kind;
    size_t offset;
    double lo, hi;     /* of numbers */
    const char *value; /* how --help names it */
    const char *help;  /* lines */
};

#define AT(field) offsetof(struct options, field)

static const struct option what_options[] = {
    {"model", 'm', TEXT, AT(model), 0, 0, "MODEL", "a GGUF file or a Hugging Face folder"},
    {"alias", 0, TEXT, AT(alias), 0, 0, "NAME", "what the model is called (default: the file's name)"},
    {"lora", 0, LIST, AT(loras), 0, 0, "NAME=FILE", "a LoRA adapter that requests may name; may be repeated"},
    {"steer", 0, LIST, AT(steers), 0, 0, "NAME=FILE", "a steering vector that requests may name; may be repeated"},
    {"lora-dir", 0, TEXT, AT(lora_dir), 0, 0, "DIR", "let clients load and unload adapters: files and folders\nbelow DIR (POST /lora/load)"},
    {"warm", 0, LIST, AT(warms), 0, 0, "FILE", "compute this prompt before the first request comes: a text, or\nmessages (FILE.json); may be repeated"},
    {"ctx", 'c', CONTEXT, AT(ctx), 0, 4294967295.0, "N", "room for N tokens in each answer's context (default, and\nauto: what the model was trained for; with --memory what fits)"},
    {"memory", 0, SIZE, AT(memory), 0, 0, "SIZE",
     "take at most SIZE, such as 900M or 4G, mapped weights\nincluded: one answer with a whole context fits; further ones\nwait for memory when it is short (default: no limit)"},
    {"parallel", 'p', COUNT, AT(parallel), 1, 256, "N", "compute up to N answers at once (default 16)"},
    {"threads", 't', COUNT, AT(threads), 0, 256, "N", "threads that compute (default: the number of physical cores)"},
    {"kv-type", 0, KV, AT(kv_type), 0, 0, "TYPE", "keep attention state as f16 (default), bf16, f32, int8,\nint8-64, mixed-f16 or mixed-f32"},
    {"cache-bytes", 0, SIZE, AT(cache_bytes), 0, 0, "SIZE",
     "keep up to so much computed state for prompts that begin\nalike; 0: none (default: a quarter of the memory that is\nfree at the start, at most 8G and a quarter of --memory)"},
    {"kv-budget", 0, SIZE, AT(kv_budget), 0, 0, "SIZE", "most memory for attention state, cache included (default:\nno limit)"},
    {"kv-dir", 0, TEXT, AT(kv_dir), 0, 0, "DIR", "keep state on disk too, beyond the end of the process:\nDIR/cache, DIR/checkpoints, DIR/responses"},
    {"checkpoint-bytes", 0, SIZE, AT(checkpoint_bytes), 0, 0, "SIZE",
     "most bytes of checkpoints that clients save, each counted as\nif it were alone; 0: no limit (default: half of the memory\nthat is free at the start, at most a quarter of --memory; with\n--kv-dir no limit)"},
    {"kv-dir-bytes", 0, SIZE, AT(kv_dir_bytes), 0, 0, "SIZE", "most bytes in DIR/cache (default: no limit)"},
    {"max-responses", 0, COUNT, AT(max_responses), 1, 1e7, "N", "keep N responses of the Responses API, the newest (default\n10000)"},
    {"responses-bytes", 0, SIZE, AT(responses_bytes), 0, 0, "SIZE", "... and so many bytes of them (default 1G)"},
    {"response-states-bytes", 0, SIZE, AT(response_states_bytes), 0, 0, "SIZE",
     "... and so many of the computed state that continues them\n(default: 8G in --kv-dir; in memory 1G, at most a quarter of\n--kv-budget and of --memory)"},
};

static const struct option where_options[] = {
    {"host", 0, TEXT, AT(host), 0, 0, "ADDRESS", "listen there (default 127.0.0.1; 0.0.0.0 or :: for all)"},
    {"port", 0, COUNT, AT(port), 0, 65535, "N", "on this port (default 8080; 0: any free one)"},
    {"unix", 0, TEXT, AT(unix_path), 0, 0, "PATH", "listen on a Unix socket instead, for this user alone"},
    {"tls-cert", 0, TEXT, AT(tls_cert), 0, 0, "FILE", "serve HTTPS with this certificate (PEM, chain included)"},
    {"tls-key", 0, TEXT, AT(tls_key), 0, 0, "FILE", "... and its private key (PEM)"},
};

static const struct option who_options[] = {
    {"api-key", 0, LIST, AT(api_keys), 0, 0, "KEY", "serve only requests with this key; may be repeated. Other\nusers see the command line: --api-key-file is better"},
    {"api-key-file", 0, TEXT, AT(api_key_file), 0, 0, "FILE", "keys, one a line: KEY [NAME [SALT]]; keys with a SALT\nshare no cached state with others"},
    {"hmac-key", 0, TEXT, AT(hmac_key), 0, 0, "FILE", "serve only requests that are signed with this key\n(docs/hmac.md)"},
    {"hmac-skew", 0, COUNT, AT(hmac_skew), 1, 3600, "SECONDS", "... within so much of this machine's clock (default 60)"},
    {"hmac-nonces", 0, COUNT, AT(hmac_nonces), 1, 1 << 24, "N", "... at most N of them in that time (default 65536)"},
    {"cors-origin", 0, TEXT, AT(cors_origin), 0, 0, "ORIGIN", "let pages of this origin call (*: of all)"},
    {"allow-host", 0, LIST, AT(allow_hosts), 0, 0, "NAME", "answer to this name too where there are no keys and the\naddress is this machine's alone; may be repeated"},
    {"rate-limit", 0, REAL, AT(rate_limit), 0, 1e6, "X", "most requests a second of one client (default: no limit)"},
    {"max-queue", 0, COUNT, AT(max_queue), 0, 1e6, "N", "let N generating requests wait; further ones are refused\nwith 503 (default 1024)"},
    {"max-body", 0, SIZE, AT(max_body), 0, 0, "SIZE", "most bytes of a request's body (default 16M)"},
    {"max-conns", 0, COUNT, AT(max_conns), 1, 1e6, "N", "most connections at once (default 4096)"},
    {"timeout", 0, COUNT, AT(timeout), 1, 86400, "SECONDS", "how long a request may take to arrive, and a client may\nleave its answer unread (default 60)"},
    {"keep-alive", 0, COUNT, AT(keep_alive), 1, 86400, "SECONDS", "close idle connections after this time (default 300)"},
    {"drain", 0, COUNT, AT(drain), 0, 86400, "SECONDS", "at the end let running answers finish for so long\n(default 30)"},
    {"workers", 0, COUNT, AT(workers), 1, 256, "N", "threads that prepare requests (default 4)"},
    {"isolate", 0, TEXT, AT(isolate), 0, 0, "fork", "serve each connection in a process of its own, which shares\nthe model and the prompts of --warm"},
    {"max-children", 0, COUNT, AT(max_children), 1, 65536, "N", "... in N processes at most (default 64)"},
    {"child-memory", 0, SIZE, AT(child_memory), 0, 0, "SIZE", "... each with so much memory of its own at most (default: no\nlimit)"},
    {"child-time", 0, COUNT, AT(child_time), 0, 1e9, "SECONDS", "... and so much processor time (default: no limit)"},
    {"sandbox", 0, MODE, AT(sandbox), 0, 0, "", "after loading give up new sockets, programs, most of the\nfile system, and writing outside --kv-dir;\n--sandbox=best-effort: what this kernel has of that"},
    {"move-header", 0, LIST, AT(move_headers), 0, 0, "PREFIX",
     "move leading lines of a system prompt that begin with\nPREFIX to its end, so that what changes with each request\nis no part of the cached prefix (Anthropic's Messages);\nmay be repeated"},
};

static const struct option other_options[] = {
    {"access-log", 0, TEXT, AT(access_log), 0, 0, "FILE", "a JSON line for each request, appended to FILE (-:\nstandard error)"},
    {"config", 0, TEXT, AT(config), 0, 0, "FILE", "a JSON object with the names above as keys; the command\nline wins"},
    {"help", 'h', FLAG, AT(help), 0, 0, NULL, "this text"},
    {"version", 0, FLAG, AT(version), 0, 0, NULL, "the version of infer-server and of the library"},
};

struct group {
    const char *title;
    const struct option *options;
    size_t count;
};
#define GROUP(title, list) {title, list, sizeof list / sizeof list[0]}
static const struct group groups[] = {
    GROUP("Model", what_options),
    GROUP("Where", where_options),
    GROUP("Clients", who_options),
    GROUP("Other", other_options),
};
#define N_GROUPS (sizeof groups / sizeof groups[0])

#define EXIT_USAGE 2

/* Where a value comes from, for messages: "--port", or "server.json: port". */
struct origin {
    const char *file; /* NULL: the command line */
    const char *name;
};

static int complain(struct origin from, const char *what)
{
    if (from.file)
        fprintf(stderr, "infer-server: %s: %s: %s\n", from.file, from.name, what);
    else
        fprintf(stderr, "infer-server: --%s: %s\n", from.name, what);
    return EXIT_USAGE;
}

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

/* ---- Values ---- */

static int set_number(struct origin from, const struct option *o, void *field, double v)
{
    char text[128];
    bool whole = o->kind != REAL;
    if (!(v >= o->lo && v <= o->hi) || (whole && v != floor(v))) {
        snprintf(text, sizeof text, "%g is not a %snumber from %g to %.10g", v, whole ? "whole " : "", o->lo, o->hi);
        return complain(from, text);
    }
    if (whole)
        *(uint32_t *)field = (uint32_t)v;
    else
        *(double *)field = v;
    return 0;
}

static int parse_number(struct origin from, const struct option *o, void *field, const char *value)
{
    char *end, text[160];
    double v = strtod(value, &end);
    if (!(value[0] >= '0' && value[0] <= '9') || *end || value[strspn(value, "0123456789.eE+-")]) {
        snprintf(text, sizeof text, "\"%.100s\" is not a number", value);
        return complain(from, text);
    }
    return set_number(from, o, field, v);
}

/* Bytes, or with K, M, G or T behind them. */
static int parse_size(struct origin from, uint64_t *field, const char *value)
{
    static const char units[] = "KMGT";
    char *end, text[160];
    errno = 0;
    unsigned long long v = strtoull(value, &end, 10);
    int shift = 0;
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (unit) {
        shift = 10 * (int)(unit - units + 1);
        end++;
    }
    if (!(value[0] >= '0' && value[0] <= '9') || *end || errno || v > (SIZE_DEFAULT - 1) >> shift) {
        snprintf(text, sizeof text, "\"%.100s\" is not a size (such as 512M or 8G)", value);
        return complain(from, text);
    }
    *field = (uint64_t)v << shift;
    return 0;
}

static int parse_kv(struct origin from, int32_t *field, const char *value)
{
    static const struct { const char *name; int32_t value; } types[] = {
        {"f16", INFER_KV_F16},           {"bf16", INFER_KV_BF16},           {"f32", INFER_KV_F32},
        {"int8", INFER_KV_INT8},         {"int8-64", INFER_KV_INT8_64},     {"mixed-f16", INFER_KV_MIXED_F16},
        {"mixed-f32", INFER_KV_MIXED_F32},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(types[i].name, value) == 0) {
            *field = types[i].value;
            return 0;
        }
    }
    return complain(from, "f16, bf16, f32, int8, int8-64, mixed-f16 or mixed-f32 is wanted");
}

static int append(struct origin from, struct text_list *list, const char *value)
{
    const char **items = realloc(list->items, (list->n + 1) * sizeof *items);
    if (!items)
        return complain(from, "out of memory");
    items[list->n++] = value;
    list->items = items;
    return 0;
}

static int set(struct origin from, const struct option *o, struct options *all, const char *value)
{
    void *field = (char *)all + o->offset;
    switch (o->kind) {
    case FLAG: *(bool *)field = true; return 0;
    case MODE:
    case TEXT: *(const char **)field = value; return value[0] ? 0 : complain(from, "is empty");
    case LIST: return value[0] ? append(from, field, value) : complain(from, "is empty");
    case CONTEXT:
    case COUNT:
    case REAL: return parse_number(from, o, field, o->kind == CONTEXT && strcmp(value, "auto") == 0 ? "0" : value);
    case SIZE: return parse_size(from, field, value);
    case KV: return parse_kv(from, field, value);
    }
    return EXIT_USAGE;
}

/* ---- Configuration file ---- */

static int set_json(struct origin from, const struct option *o, struct options *all, const json_t *v)
{
    void *field = (char *)all + o->offset;
    if (o->kind == FLAG) {
        if (!json_is_boolean(v))
            return complain(from, "true or false is wanted");
        *(bool *)field = json_is_true(v);
        return 0;
    }
    if (o->kind == MODE && json_is_boolean(v)) {
        *(const char **)field = json_is_true(v) ? "strict" : NULL;
        return 0;
    }
    bool number = o->kind == COUNT || o->kind == CONTEXT || o->kind == REAL;
    if (number && json_is_number(v))
        return set_number(from, o, field, json_number_value(v));
    if (o->kind == SIZE && json_is_integer(v) && json_integer_value(v) >= 0) {
        *(uint64_t *)field = (uint64_t)json_integer_value(v);
        return 0;
    }
    if (o->kind == LIST && json_is_array(v)) {
        int code = 0;
        size_t i;
        json_t *item;
        json_array_foreach(v, i, item)
            code = code ? code : json_is_string(item) ? set(from, o, all, json_string_value(item)) : complain(from, "a list of strings is wanted");
        return code;
    }
    if ((!number || o->kind == CONTEXT) && json_is_string(v))
        return set(from, o, all, json_string_value(v));
    return complain(from, number ? "a number is wanted" : "a string is wanted");
}

static int read_config(struct options *all, const char *path)
{
    json_error_t err;
    static json_t *root; /* lives as long as the process: options point into it */
    root = json_load_file(path, JSON_REJECT_DUPLICATES, &err);
    if (!root || !json_is_object(root)) {
        if (!root && err.line < 0)
            fprintf(stderr, "infer-server: %s: %s\n", path, err.text);
        else
            fprintf(stderr, "infer-server: %s:%d:%d: %s\n", path, root ? 1 : err.line, root ? 1 : err.column, root ? "an object is wanted" : err.text);
        json_decref(root);
        return EXIT_USAGE;
    }
    const char *key;
    json_t *v;
    json_object_foreach(root, key, v) {
        struct origin from = {path, key};
        const struct option *o = find(key, strlen(key), 0);
        if (!o || o->offset == AT(config) || o->offset == AT(help) || o->offset == AT(version))
            return complain(from, "unknown key; infer-server --help lists the options");
        int code = set_json(from, o, all, v);
        if (code)
            return code;
    }
    return 0;
}

/* ---- Command line ---- */

/* argv[*i], and the next one when it is its value. only: NULL, or the one option that is taken now. */
static int parse_option(struct options *all, int argc, char **argv, int *i, const char *only)
{
    const char *arg = argv[*i], *value = NULL;
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
        fprintf(stderr, "infer-server: %s %s; infer-server --help lists the options\n", arg[0] == '-' ? "unknown option" : "unexpected argument", arg);
        return EXIT_USAGE;
    }
    struct origin from = {NULL, o->name};
    if (o->kind == FLAG && value)
        return complain(from, "takes no value");
    if (o->kind == MODE && !value)
        value = "strict";
    if (o->kind != FLAG && !value) {
        if (*i + 1 == argc)
            return complain(from, "needs a value");
        value = argv[++*i];
    }
    return only && strcmp(only, o->name) != 0 ? 0 : set(from, o, all, value);
}

static int parse_all(struct options *all, int argc, char **argv, const char *only)
{
    for (int i = 1; i < argc; i++) {
        int code = parse_option(all, argc, argv, &i, only);
        if (code)
            return code;
    }
    return 0;
}

static int check_together(const struct options *o)
{
    const char *problem = NULL;
    if (o->help || o->version)
        return 0;
    if (!o->model)
        problem = "no model: give one with -m FILE";
    else if (!o->tls_cert != !o->tls_key)
        problem = "--tls-cert and --tls-key go together";
    else if (o->unix_path && o->tls_cert)
        problem = "--tls-cert has no place on a Unix socket";
    else if (o->isolate && strcmp(o->isolate, "fork") != 0)
        problem = "--isolate: fork is wanted";
    else if (!o->isolate && (o->max_children || o->child_memory || o->child_time))
        problem = "--max-children, --child-memory and --child-time go with --isolate fork";
    else if (o->sandbox && strcmp(o->sandbox, "strict") != 0 && strcmp(o->sandbox, "best-effort") != 0)
        problem = "--sandbox: strict or best-effort is wanted";
    else if (o->warms.n && o->cache_bytes == 0)
        problem = "--warm needs a cache: --cache-bytes is 0";
    else if (o->memory == 0)
        problem = "--memory is 0";
    else if (o->memory != SIZE_DEFAULT && o->isolate)
        problem = "--memory does not bound processes of their own: with --isolate there is --child-memory";
    else if (o->kv_dir_bytes && !o->kv_dir)
        problem = "--kv-dir-bytes goes with --kv-dir";
    else if (o->max_body == 0)
        problem = "--max-body is 0";
    if (problem)
        fprintf(stderr, "infer-server: %s\n", problem);
    return problem ? EXIT_USAGE : 0;
}

int options_parse(struct options *o, int argc, char **argv)
{
    *o = (struct options){.host = "127.0.0.1", .port = 8080, .parallel = 16, .memory = SIZE_DEFAULT, .cache_bytes = SIZE_DEFAULT, .checkpoint_bytes = SIZE_DEFAULT, .max_queue = 1024,
                          .max_body = 16 << 20, .max_conns = 4096, .timeout = 60, .keep_alive = 300, .drain = 30, .workers = 4,
                          .hmac_skew = 60, .hmac_nonces = 65536,
                          .max_responses = 10000, .responses_bytes = 1 << 30, .response_states_bytes = SIZE_DEFAULT};
    int code = parse_all(o, argc, argv, "config");
    if (code == 0 && o->config)
        code = read_config(o, o->config);
    if (code == 0)
        code = parse_all(o, argc, argv, NULL);
    if (code == 0)
        code = check_together(o);
    if (!o->max_children)
        o->max_children = 64;
    return code;
}

void options_help(void)
{
    puts("Usage: infer-server -m MODEL [OPTION]...\n"
         "Serves a model over HTTP: the protocols of OpenAI and Anthropic, and its own.");
    for (size_t g = 0; g < N_GROUPS; g++) {
        printf("\n%s:\n", groups[g].title);
        for (size_t i = 0; i < groups[g].count; i++) {
            const struct option *o = &groups[g].options[i];
            char left[80];
            snprintf(left, sizeof left, "%s%c%s--%s %s", o->letter ? "-" : " ", o->letter ? o->letter : ' ', o->letter ? ", " : "  ", o->name,
                     o->value ? o->value : "");
            printf("  %-27s ", left);
            for (const char *p = o->help; *p; p++) {
                putchar(*p);
                if (*p == '\n')
                    printf("%30s", "");
            }
            putchar('\n');
        }
    }
    puts("\nSIZE is in bytes, or with K, M, G or T behind it. SIGTERM and SIGINT end the server when\n"
         "running answers have finished; a second signal ends it at once.\n"
         "Exit status: 0 orderly end, 1 failure while running, 2 wrong usage, 3 the model or an adapter\n"
         "cannot be opened, 4 the address cannot be listened on.");
}
