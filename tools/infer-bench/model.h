/* The model under test, and what a token costs in it. */
#ifndef BENCH_MODEL_H
#define BENCH_MODEL_H

#include "bench.h"

#define MAX_TYPES 64

/* Matrices of one storage type. A token that is generated reads all of them once; a token of a prompt, whose logits nobody wants, takes
 * no part in the output matrix. The look-up in the embedding table is not counted. */
struct type_work {
    int32_t type;        /* INFER_TYPE_* */
    uint64_t bytes;      /* read for a generated token */
    uint64_t macs;       /* multiply-adds for a generated token */
    uint64_t prompt_macs; /* for a token of a prompt */
};

struct model {
    infer_engine *engine;
    infer_model *model;
    infer_model_info info;
    infer_engine_info engine_info;
    uint64_t file_bytes; /* of all parts */
    struct type_work types[MAX_TYPES];
    uint32_t n_types;
    uint64_t bytes, int8_macs, f32_macs;        /* for a prompt's token; macs as the numerics mode does them */
    double load_ms;
};

/* Opens engine and model; says what is wrong. An exit code. */
int model_open(struct model *m, const struct options *o);
void model_close(struct model *m);

/* Milliseconds to open engine and model once more, which are then released; below 0: it failed. */
double model_time_open(const struct options *o);

/* Bytes of keys and values read for one token that sees `visible` positions; a sliding window counts as if every layer had it. */
uint64_t model_kv_bytes(const struct model *m, const struct options *o, uint64_t visible);
/* Multiply-adds of attention for it. */
uint64_t model_attention_macs(const struct model *m, uint64_t visible);

/* n pseudo-random ids of ordinary tokens, the same for the same seed. */
void model_tokens(const struct model *m, uint64_t seed, int32_t *ids, uint64_t n);

#endif
