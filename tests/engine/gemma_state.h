/* Gemma 3's fixture (full and windowed layers) on an engine of one thread whose memory is counted: what test_checkpoint and test_store work on.
 * Included by the one source of each. */
#ifndef GEMMA_STATE_H
#define GEMMA_STATE_H

#include "golden.h"
#include "state_util.h"

static infer_engine *engine;
static infer_model *model;
static struct golden g;
static struct test_alloc counted;

static int setup(void **state)
{
    (void)state;
    infer_engine_options o;
    infer_allocator a = test_infer_allocator(&counted);
    INFER_INIT(&error);
    INFER_INIT(&o);
    o.threads = 1; /* the counting allocator knows no threads */
    o.allocator = &a;
    g = golden_read("gemma3");
    ok(infer_engine_create(&o, &engine, &error));
    ok(infer_model_open_path(engine, fixture_path("gemma3"), &model, &error));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    infer_model_release(model);
    infer_engine_release(engine);
    golden_free(&g);
    return counted.live != 0;
}

static infer_session *session_of(int32_t kv_type, uint32_t n_ctx)
{
    return session_of_model(model, kv_type, n_ctx);
}

/* n elements from the prompt, over and over, from its element `from` on. */
static void append(infer_session *s, uint64_t from, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        ok(infer_session_append(s, g.prompt + (from + i) % g.n_prompt, 1, &error));
}

#endif
