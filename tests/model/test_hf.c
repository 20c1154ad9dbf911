/* Folders as transformers saves them against the GGUF files of the same weights, and against the golden logits. */
#include "testutil.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "infer/infer.h"
#include "ok.h"

static char *folder_path(const char *name)
{
    static char path[512];
    (void)snprintf(path, sizeof path, INFER_SOURCE_DIR "/tests/data/fixtures/%s", name);
    return path;
}

static infer_session *open_session(const char *path)
{
    infer_engine_options eo;
    infer_engine *engine;
    infer_model *model;
    infer_session *session;
    infer_session_options so;
    INFER_INIT(&error);
    INFER_INIT(&eo);
    INFER_INIT(&so);
    eo.threads = 2;
    so.kv_type = INFER_KV_F32; /* f16 would round what differs in the last bit to its neighbour */
    ok(infer_engine_create(&eo, &engine, &error));
    ok(infer_model_open_path(engine, path, &model, &error));
    ok(infer_session_create(model, &so, &session, &error));
    infer_model_release(model);
    infer_engine_release(engine);
    return session;
}

/* Logits of every prompt position into out [n_prompt][n_vocab]. */
static void run_prompt(infer_session *s, const struct golden *g, float *out)
{
    infer_step_item it;
    INFER_INIT(&it);
    it.session = s;
    it.logits = INFER_LOGITS_ALL;
    ok(infer_session_append(s, g->prompt, g->n_prompt, &error));
    ok(infer_step(&it, 1, NULL, &error));
    for (uint32_t i = 0; i < g->n_prompt; i++) {
        const float *row;
        uint64_t pos;
        ok(infer_session_logits(s, i, &row, &pos, &error));
        memcpy(out + (size_t)i * g->n_vocab, row, g->n_vocab * sizeof *out);
    }
}

/* The largest difference, as a share of the golden's range at its position. */
static double difference(const struct golden *g, const float *a, const float *b)
{
    double worst = 0;
    for (size_t p = 0; p < g->n_prompt; p++) {
        const float *ref = g->logits + p * g->n_vocab;
        double lo = ref[0], hi = ref[0], err = 0;
        for (uint32_t i = 0; i < g->n_vocab; i++) {
            double d = (double)a[p * g->n_vocab + i] - b[p * g->n_vocab + i];
            lo = ref[i] < lo ? ref[i] : lo;
            hi = ref[i] > hi ? ref[i] : hi;
            err = d > err ? d : -d > err ? -d : err;
        }
        worst = err / (hi - lo) > worst ? err / (hi - lo) : worst;
    }
    return worst;
}

static void check_greedy(infer_session *s, const struct golden *g)
{
    infer_event ev;
    infer_generate_options o;
    INFER_INIT(&o);
    o.max_tokens = g->n_greedy;
    ok(infer_generate_begin(s, &o, &error));
    for (uint32_t i = 0; i < g->n_greedy; i++) {
        INFER_INIT(&ev);
        ok(infer_generate_next(s, &ev, NULL, &error));
        assert_int_equal(ev.kind, INFER_EVENT_TOKEN);
        assert_int_equal(ev.id, g->greedy[i]);
    }
}

static void test_golden(void **state)
{
    (void)state;
    for (size_t i = 0; golden_f32[i]; i++) {
        size_t len;
        char config[600];
        (void)snprintf(config, sizeof config, "%s/config.json", folder_path(golden_f32[i]));
        char *text = test_read_file(config, &len);
        if (!text) {
            print_message("# %s: SKIPPED, no folder\n", golden_f32[i]);
            continue;
        }
        free(text);
        struct golden g = golden_read(golden_f32[i]);
        size_t n = (size_t)g.n_prompt * g.n_vocab;
        float *gguf = malloc(n * sizeof *gguf), *folder = malloc(n * sizeof *folder);
        infer_session *s = open_session(fixture_path(golden_f32[i]));
        run_prompt(s, &g, gguf);
        infer_session_release(s);
        s = open_session(folder_path(golden_f32[i]));
        run_prompt(s, &g, folder);
        check_greedy(s, &g);
        infer_value v;
        INFER_INIT(&v);
        bool same_layout = infer_file_find_meta(infer_model_file(infer_session_model(s)), "libinfer.rope_halves", INFER_ZSTR, &v, NULL) != INFER_OK;
        double between = difference(&g, gguf, folder), off = difference(&g, g.logits, folder);
        print_message("# %s: within %.1e of GGUF, %.1e of transformers\n", golden_f32[i], between, off);
        assert_true(off <= 1e-4 && between <= 1e-5);
        if (same_layout && memcmp(gguf, folder, n * sizeof *gguf))
            fail_msg("%s: not the bits of the GGUF file", golden_f32[i]);
        infer_session_release(s);
        free(gguf);
        free(folder);
        golden_free(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
