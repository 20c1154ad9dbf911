/* What the command line and the configuration file say. One table in options.c serves both, and --help. */
#ifndef SERVER_OPTIONS_H
#define SERVER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct text_list { const char **items; uint32_t n; };

struct options {
    /* what is served */
    const char *model, *alias;
    struct text_list loras, steers; /* NAME=FILE */
    const char *lora_dir;   /* where POST /lora/load finds files; NULL: it loads none */
    struct text_list warms; /* files of prompts */
    uint32_t threads, parallel;
    uint32_t ctx;           /* of each answer; 0: what the model was trained for. server_open sets what fits into memory */
    uint64_t memory;        /* mapped weights included; SIZE_DEFAULT: no limit */
    int32_t kv_type;
    uint64_t cache_bytes;   /* SIZE_DEFAULT: from the memory that is there */
    uint64_t kv_budget;
    const char *kv_dir;
    uint64_t kv_dir_bytes;  /* of the cache there; 0: no limit */
    uint64_t checkpoint_bytes; /* of what clients save by name; 0: no limit; SIZE_DEFAULT: half of the memory that is there, with kv_dir no limit */
    uint32_t max_responses; /* that are kept */
    uint64_t responses_bytes, response_states_bytes; /* of them; of their checkpoints; SIZE_DEFAULT: as --help says */
    /* where */
    const char *host, *unix_path;
    uint32_t port;
    const char *tls_cert, *tls_key;
    /* who may, and how much */
    struct text_list api_keys;
    const char *api_key_file, *hmac_key;
    uint32_t hmac_skew, hmac_nonces; /* seconds; how many are remembered */
    const char *cors_origin;
    struct text_list allow_hosts;
    double rate_limit;      /* requests a second of one client; 0: no limit */
    uint32_t max_queue;     /* generating requests that wait beyond --parallel */
    uint64_t max_body;
    uint32_t max_conns, workers;
    uint32_t timeout;       /* seconds */
    uint32_t keep_alive;    /* seconds */
    uint32_t drain;         /* seconds */
    const char *isolate;    /* NULL or "fork" */
    uint32_t max_children, child_time; /* time: seconds of the processor; 0: no limit */
    uint64_t child_memory;  /* 0: no limit */
    const char *sandbox;    /* NULL, "strict" or "best-effort" */
    struct text_list move_headers; /* beginnings of lines that Anthropic's system prompt has at its end instead of its beginning */
    const char *access_log; /* a path, "-", or NULL */
    const char *config;
    bool help, version;
};

#define SIZE_DEFAULT UINT64_MAX

/* Fills o with the defaults, the configuration file's values and the command line's, the latter winning. 0, or the exit status after a message on
 * standard error. Strings live as long as the process. */
int options_parse(struct options *o, int argc, char **argv);
void options_help(void);

#endif
