/* What tests of adapters share: a fixture model with the adapters of tests/data/adapters. */
#ifndef ADAPTER_TESTS_H
#define ADAPTER_TESTS_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "ok.h"

static inline const char *adapter_path(const char *name)
{
    static char path[512];
    (void)snprintf(path, sizeof path, INFER_SOURCE_DIR "/tests/data/adapters/%s", name);
    return path;
}

static inline struct golden adapter_golden(const char *name)
{
    char path[128];
    (void)snprintf(path, sizeof path, "../adapters/%s", name);
    return golden_read(path);
}

static inline infer_model *model_with(const char *base, uint32_t threads, int32_t cpu, uint64_t cache_bytes)
{
    infer_engine_options eo;
    infer_engine *engine;
    infer_model *model;
    INFER_INIT(&error);
    INFER_INIT(&eo);
    eo.threads = threads;
    eo.cpu = cpu;
    eo.cache_bytes = cache_bytes;
    ok(infer_engine_create(&eo, &engine, &error));
    ok(infer_model_open_path(engine, fixture_path(base), &model, &error));
    infer_engine_release(engine);
    return model;
}

static inline infer_adapter *adapter_of(infer_model *m, const char *name)
{
    infer_adapter *a;
    ok(infer_adapter_open_path(m, adapter_path(name), &a, &error));
    return a;
}

static inline infer_session *session_of(infer_model *m)
{
    infer_session_options so;
    infer_session *s;
    INFER_INIT(&so);
    so.kv_type = INFER_KV_F32;
    ok(infer_session_create(m, &so, &s, &error));
    return s;
}

/* One adapter in force, over all layers; NULL: none. */
static inline void attach(infer_session *s, infer_adapter *a, float scale)
{
    infer_adapter_use u;
    INFER_INIT(&u);
    u.adapter = a;
    u.scale = scale;
    ok(infer_session_set_adapters(s, &u, a != NULL, &error));
}

static inline infer_step_item item_of(infer_session *s, int32_t logits)
{
    infer_step_item it;
    INFER_INIT(&it);
    it.session = s;
    it.logits = logits;
    return it;
}

/* Steps everything; logits of the last `rows` of all rows into out [rows][vocab]. */
static inline void step_rows(infer_session *s, uint64_t rows, uint32_t n_vocab, float *out)
{
    infer_step_item it = item_of(s, INFER_ROWS_ALL);
    infer_session_info info;
    ok(infer_step(&it, 1, NULL, &error));
    INFER_INIT(&info);
    ok(infer_session_get_info(s, &info, &error));
    assert_true(info.logits_rows >= rows);
    for (uint64_t i = 0; i < rows; i++) {
        const float *row;
        ok(infer_session_logits(s, info.logits_rows - rows + i, &row, NULL, &error));
        memcpy(out + i * n_vocab, row, n_vocab * sizeof *row);
    }
}

/* The prompt's logits under whatever is in force. malloc'ed. */
static inline float *prompt_logits(infer_session *s, const struct golden *g)
{
    float *out = malloc((size_t)g->n_prompt * g->n_vocab * sizeof *out);
    assert_non_null(out);
    ok(infer_session_append(s, g->prompt, g->n_prompt, &error));
    step_rows(s, g->n_prompt, g->n_vocab, out);
    return out;
}

static inline void last_logits(infer_session *s, uint32_t n_vocab, float *out)
{
    infer_step_item it = item_of(s, INFER_ROWS_LAST);
    const float *row;
    ok(infer_step(&it, 1, NULL, &error));
    ok(infer_session_logits(s, 0, &row, NULL, &error));
    memcpy(out, row, n_vocab * sizeof *out);
}

/* ---- Against a golden ---- */

static inline double worst_error(const struct golden *g, const float *got)
{
    double worst = 0;
    for (uint32_t p = 0; p < g->n_prompt; p++) {
        const float *ref = g->logits + (size_t)p * g->n_vocab, *x = got + (size_t)p * g->n_vocab;
        double lo = ref[0], hi = ref[0], err = 0;
        for (uint32_t i = 0; i < g->n_vocab; i++) {
            double d = fabs((double)x[i] - (double)ref[i]);
            lo = ref[i] < lo ? ref[i] : lo;
            hi = ref[i] > hi ? ref[i] : hi;
            err = d <= err || isnan(err) ? err : d; /* a NaN stays: it fails. With fmax gcc 12 for AArch64 stops by an internal error */
        }
        worst = err / (hi - lo) <= worst || isnan(worst) ? worst : err / (hi - lo);
    }
    return worst;
}

static inline void check_greedy(infer_session *s, const struct golden *g)
{
    for (uint32_t i = 0; i < g->n_greedy; i++) {
        infer_sample_result r;
        INFER_INIT(&r);
        ok(infer_session_sample(s, &r, &error));
        assert_int_equal(r.id, g->greedy[i]);
        ok(infer_session_append(s, &r.id, 1, &error));
        infer_step_item it = item_of(s, INFER_ROWS_LAST);
        ok(infer_step(&it, 1, NULL, &error));
    }
}

/* The session, which has its adapters, gives the golden's logits and greedy tokens. */
static inline void matches(infer_session *s, const char *name)
{
    struct golden g = adapter_golden(name);
    float *got = prompt_logits(s, &g);
    double e = worst_error(&g, got);
    if (!(e <= 1e-4))
        fail_msg("%s: %g of the range", name, e);
    check_greedy(s, &g);
    free(got);
    golden_free(&g);
    infer_session_release(s);
}

#endif
