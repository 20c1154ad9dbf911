/* What the files of infer-cli share. The tool is a host like any other: it sees <infer/infer.h> and the system, nothing else. */
#ifndef CLI_H
#define CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infer/state.h>

/* Exit codes: part of the tool's contract, listed in the manual page. */
enum { EXIT_OK = 0, EXIT_USAGE = 1, EXIT_MODEL = 2, EXIT_GENERATION = 3, EXIT_LIMIT = 4, EXIT_INTERRUPTED = 130 };

#define CLI_MAX_TEMPLATE_ARGS 64
#define CLI_MAX_ADAPTERS 16
#define CLI_MAX_STOPS 64 /* as in the library */

/* --lora, --steer, --soft-prompt, as they came. */
enum { ARG_LORA, ARG_STEER, ARG_SOFT_PROMPT };
struct adapter_arg {
    int32_t kind; /* ARG_* */
    const char *value;
};

struct cli_adapter {
    int32_t kind;
    char *path;
    infer_adapter_use use; /* of a soft prompt only the adapter counts */
};

struct options {
    const char *model;  /* NULL: the default model */
    const char *prompt; /* NULL: standard input */
    const char *system;
    const char *prompt_cache;
    const char *template_args[CLI_MAX_TEMPLATE_ARGS]; /* "key=json" */
    uint32_t n_template_args;
    struct adapter_arg adapters[CLI_MAX_ADAPTERS];
    uint32_t n_adapters;
    infer_text stops[CLI_MAX_STOPS];
    uint32_t n_stops;
    uint32_t repeat_guard;
    uint64_t max_tokens; /* 0: the default of the mode */
    uint64_t memory;     /* bytes; 0: no limit */
    uint32_t threads, ctx, kv_recent, cache_mib;
    uint32_t dimensions;
    int32_t cpu, kv_type, numerics, quantise, pooling;
    infer_sampling sampling;
    bool chat, raw, prompt_cache_ro, json, stats, tokenize, info, ignore_eos, score, embed, embed_raw, truncate, help, version;
};

struct cli {
    struct options opt;
    char *model_path;
    bool bundled; /* the fallback model that ships with the tool */
    bool raw;     /* no template: asked for, or the model has none */
    uint64_t memory_limit; /* of the engine; 0: none */
    infer_engine *engine;
    infer_model *model;
    infer_session *session;
    struct cli_adapter adapters[CLI_MAX_ADAPTERS];
    uint32_t n_adapters;
    uint64_t n_rows; /* elements of soft prompts, which every session begins with */
    infer_tokenizer *tokenizer; /* borrowed from model */
    infer_tokenizer_info tok;
    double load_s;
};

double seconds_now(void);

/* main.c: a flag that Ctrl-C sets while it is armed; arming clears it. A second Ctrl-C, also later, ends the process, unless
 * the first one was forgotten. */
infer_cancel *interrupt_arm(void);
void interrupt_disarm(void);
void interrupt_forget(void);
bool interrupted(void);

#endif
