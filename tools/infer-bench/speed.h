/* Speed of a model by prompt length, depth and batch. */
#ifndef BENCH_SPEED_H
#define BENCH_SPEED_H

#include "host.h"
#include "limits.h"
#include "model.h"
#include "series.h"

/* One combination. Rates are tokens a second over all sessions. */
struct speed {
    uint32_t prompt, depth, batch;
    struct series prompt_tps, gen_tps, ttft_ms;
    struct series limit[N_LIMITS];                /* bytes or multiply-adds a second, before each thing they are compared with */
    char how[N_LIMITS][32];                       /* the loop that was the fastest in the best round */
    struct series read_share, reread_share, int8_share, f32_share;
    struct series cpu_share;     /* processor time of prompt and generation, of threads times elapsed time: low on a machine busy otherwise */
    double depth_tps;    /* of computing the depth, once; 0: no depth */
    uint64_t kv_bytes_token; /* keys and values read for a generated token, in the middle of the generation */
    uint64_t attention_macs; /* of a prompt's token, in its middle */
    uint64_t kv_bytes;       /* KV memory of the engine at the end */
    struct memory_use memory;
};

/* What happened once in the process. */
struct start {
    double first_ttft_ms; /* from after opening the model to the first token of the first prompt */
    double start_ms;      /* from the start of the process to then */
};

/* The first prompt after opening; began: bench_seconds at the start of main. An exit code. */
int speed_start(const struct model *m, const struct options *o, double began, struct start *out);
/* Measures one combination; limits may be NULL: shares are then 0. An exit code. */
int speed_run(const struct model *m, const struct options *o, struct limits *limits, struct speed *s);

#endif
