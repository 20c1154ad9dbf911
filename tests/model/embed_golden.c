#include "embed_golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "testutil.h"

struct embed_golden embed_golden_read(const char *name)
{
    char path[512];
    size_t len = 0, at = 24;
    struct embed_golden g = {0};
    (void)snprintf(path, sizeof path, INFER_SOURCE_DIR "/tests/data/fixtures/%s.embed", name);
    g.data = test_read_file(path, &len);
    assert_non_null(g.data);
    assert_true(len > 24 && !memcmp(g.data, "IEMBD\0\0\1", 8));
    memcpy(&g.n_text, g.data + 8, 4);
    memcpy(&g.n_embd, g.data + 12, 4);
    memcpy(&g.width, g.data + 16, 4);
    memcpy(&g.pooling, g.data + 20, 4);
    g.pooling++;
    assert_true(g.n_text > 0 && g.n_text <= EMBED_MAX_TEXTS);
    for (uint32_t t = 0; t < g.n_text; t++) {
        struct embed_text *x = &g.texts[t];
        memcpy(&x->n, g.data + at, 4);
        x->ids = (const int32_t *)(const void *)(g.data + at + 4);
        x->hidden = (const float *)(const void *)(x->ids + x->n);
        x->vector = x->hidden + (size_t)x->n * g.n_embd;
        at += 4 + 4 * ((size_t)x->n + (size_t)x->n * g.n_embd + g.width);
    }
    memcpy(&g.n_layer, g.data + at, 4);
    g.layers = (const float *)(const void *)(g.data + at + 4);
    assert_int_equal(at + 4 + 4 * ((size_t)g.n_layer * g.texts[EMBED_LAYERS_TEXT].n * g.n_embd), len);
    return g;
}

double embed_error(const float *x, const float *ref, uint64_t n)
{
    double lo = ref[0], hi = ref[0], worst = 0;
    for (uint64_t i = 0; i < n; i++) {
        double d = (double)x[i] - ref[i];
        lo = ref[i] < lo ? ref[i] : lo;
        hi = ref[i] > hi ? ref[i] : hi;
        worst = d > worst ? d : -d > worst ? -d : worst;
    }
    return worst / (hi - lo);
}
