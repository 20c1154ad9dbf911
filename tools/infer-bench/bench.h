/* What the files of infer-bench share. A host like any other: <infer/infer.h> and the system; kernels.c alone sees more. */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infer/infer.h>

/* Part of the tool's contract, listed in the manual page. */
enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

#define MAX_LIST 32
#define MAX_ROUNDS 100

struct list {
    uint32_t n;
    uint32_t v[MAX_LIST];
};

enum output { OUTPUT_TABLE, OUTPUT_JSON, OUTPUT_CSV };

struct options {
    const char *model, *ppl, *kl, *save_logits, *text, *only;
    struct list prompts, depths, batches;
    uint32_t generate, threads, rounds, kv_recent;
    int32_t cpu, kv_type, numerics, map;
    uint32_t window, windows, limit_mib;
    bool json, csv, limits, no_limits, kernels, score_all, help, version;
};

/* One line on standard error, after "infer-bench: ". */
void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The same with an error of the library and its place; EXIT_FAILED, or EXIT_INTERRUPTED for a cancelled call. */
int complain_error(const char *what, const infer_error *err);

extern infer_cancel *bench_cancel; /* main.c: set by Ctrl-C */

#endif
