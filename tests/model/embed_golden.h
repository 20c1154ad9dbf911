/* Golden files of embedding models: texts, their hidden states and vectors. scripts/make_embedding_fixtures.py tells the format. */
#ifndef EMBED_GOLDEN_H
#define EMBED_GOLDEN_H

#include <stdint.h>

#define EMBED_MAX_TEXTS   16
#define EMBED_LAYERS_TEXT 3

struct embed_text {
    uint32_t n;
    const int32_t *ids;
    const float *hidden; /* [n][n_embd] */
    const float *vector; /* [width] */
};

struct embed_golden {
    uint32_t n_text, n_embd, width;
    int32_t pooling; /* INFER_POOLING_* */
    struct embed_text texts[EMBED_MAX_TEXTS];
    uint32_t n_layer;    /* 0 for encoders */
    const float *layers; /* [n_layer][n][n_embd] of text number EMBED_LAYERS_TEXT */
    char *data;
};

/* Of tests/data/fixtures/NAME.embed; fails the test when it cannot be read. */
struct embed_golden embed_golden_read(const char *name);

/* The largest difference of n floats, as a share of ref's range. */
double embed_error(const float *x, const float *ref, uint64_t n);

#endif
