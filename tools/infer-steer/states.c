#include <stdlib.h>
#include <string.h>

#include "steer.h"

#define BATCH 16u /* prompts in one step */

struct batch {
    infer_session *sessions[BATCH];
    infer_step_item items[BATCH];
    infer_hidden hidden[BATCH];
};

/* Keys and values stay f32: prompts are short, and nothing is lost. */
static infer_status start(infer_model *model, struct batch *b, uint32_t i, const int32_t *ids, uint64_t count, infer_error *err)
{
    infer_session_options so;
    INFER_INIT(&so);
    so.kv_type = INFER_KV_F32;
    infer_status st = infer_session_create(model, &so, &b->sessions[i], err);
    return st == INFER_OK ? infer_session_append(b->sessions[i], ids, count, err) : st;
}

static infer_status run(infer_model *model, const struct prompts *p, uint32_t from, uint32_t n, const int32_t *layers, uint32_t n_layers,
                        uint64_t floats, float *out, struct batch *b, infer_error *err)
{
    infer_status st = INFER_OK;
    for (uint32_t i = 0; i < n && st == INFER_OK; i++) {
        st = start(model, b, i, p->ids[from + i], p->counts[from + i], err);
        INFER_INIT(&b->items[i]);
        INFER_INIT(&b->hidden[i]);
        b->hidden[i].elements = INFER_ROWS_LAST;
        b->hidden[i].layers = layers;
        b->hidden[i].layer_count = n_layers;
        b->hidden[i].out = out + i * floats;
        b->hidden[i].capacity = floats;
        b->items[i].session = b->sessions[i];
        b->items[i].logits = INFER_ROWS_NONE;
        b->items[i].hidden = &b->hidden[i];
    }
    return st == INFER_OK ? infer_step(b->items, n, steer_cancel, err) : st;
}

int states_compute(infer_model *model, const struct prompts *p, uint32_t first, uint32_t n, uint32_t n_embd, float *out)
{
    infer_error err;
    int code = EXIT_OK;
    uint64_t floats = (uint64_t)n * n_embd;
    int32_t *layers = malloc(n * sizeof *layers);
    if (!layers)
        return complain("out of memory");
    for (uint32_t i = 0; i < n; i++)
        layers[i] = (int32_t)(first + i);
    INFER_INIT(&err);
    for (uint32_t from = 0; from < p->n && code == EXIT_OK; from += BATCH) {
        struct batch b;
        uint32_t count = p->n - from < BATCH ? p->n - from : BATCH;
        memset(&b, 0, sizeof b);
        if (run(model, p, from, count, layers, n, floats, out + from * floats, &b, &err) != INFER_OK)
            code = complain_error(NULL, &err);
        for (uint32_t i = 0; i < count; i++)
            infer_session_release(b.sessions[i]);
    }
    free(layers);
    return code;
}
