/* What the process serves, made at start and read by all endpoints. */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include <infer/state.h>
#include <infer/scheduler.h>

#include "http.h"

struct server {
    const struct options *options;
    const char *name;            /* --alias, or the file's name: what "model" is called */
    int64_t created;             /* seconds since 1970: of models in listings */
    infer_engine *engine;
    infer_model *model;
    const infer_tokenizer *tokenizer; /* borrowed; NULL: the model has none */
    const infer_template *tmpl;
    infer_model_info info;
    bool encoder;                /* only embeddings can be asked of it; scheduler is NULL */
    infer_scheduler *scheduler;
    struct adapter_list *adapters; /* adapters.h: by name */
    infer_store *store;          /* checkpoints by name: in memory, or in --kv-dir/checkpoints */
    struct response_list *responses; /* responses.h */
    struct metrics *metrics;     /* metrics.h */
    uint64_t memory_limit;       /* of the engine: --memory without what is mapped; 0: none */
};

#endif
