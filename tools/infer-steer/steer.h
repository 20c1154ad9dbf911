/* What the files of infer-steer share. The tool is a host like any other: it sees <infer/infer.h> and the system, nothing else. */
#ifndef STEER_H
#define STEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infer/infer.h>

enum { EXIT_OK = 0, EXIT_USAGE = 1, EXIT_FAILED = 2, EXIT_INTERRUPTED = 130 };

enum method { METHOD_MEAN, METHOD_PCA };

struct options {
    const char *model, *positive, *negative, *output;
    enum method method;
    uint32_t threads;               /* 0: the engine's choice */
    uint32_t first_layer, last_layer; /* last: UINT32_MAX: the model's last */
    bool ids, unit, help, version;
};

/* Prompts as token ids. */
struct prompts {
    int32_t **ids;
    uint64_t *counts;
    uint32_t n;
};

/* On standard error, with the tool's name. Returns EXIT_FAILED. */
int complain(const char *fmt, ...);
int complain_error(const char *what, const infer_error *err);
extern infer_cancel *steer_cancel; /* set by Ctrl-C */

/* prompts.c: one a line, blank lines left out; with ids, numbers with spaces between. */
int prompts_read(const char *path, const infer_tokenizer *tokenizer, bool ids, struct prompts *out);
void prompts_free(struct prompts *p);

/* states.c: what has flowed through layers [first, first + n) at each prompt's last token: out [p->n][n][n_embd]. */
int states_compute(infer_model *model, const struct prompts *p, uint32_t first, uint32_t n, uint32_t n_embd, float *out);

/* direction.c: the direction [width] from states of one layer: rows of stride floats. n_a, n_b at least 1; PCA wants n_a == n_b. False: memory. */
bool direction_mean(const float *a, uint32_t n_a, const float *b, uint32_t n_b, size_t stride, uint32_t width, bool unit, float *out);
bool direction_pca(const float *a, const float *b, uint32_t n, size_t stride, uint32_t width, bool unit, float *out);

/* write.c: directions [n][width] of layers first, first + 1...; the format by the name's end: .safetensors, else GGUF. */
int write_directions(const char *path, const char *architecture, const float *v, uint32_t first, uint32_t n, uint32_t width);

#endif
