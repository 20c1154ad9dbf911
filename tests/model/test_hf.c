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

static infer_session *open_quantised(const char *path, int32_t type, uint32_t threads)
{
    infer_engine_options eo;
    infer_engine *engine;
    infer_model *model;
    infer_session *session;
    infer_session_options so;
    infer_open_options oo;
    infer_source source;
    INFER_INIT(&error);
    INFER_INIT(&eo);
    INFER_INIT(&so);
    INFER_INIT(&oo);
    oo.quantise = type;
    infer_source_path(&source, path, INFER_ZSTR);
    eo.threads = threads;
    so.kv_type = INFER_KV_F32; /* f16 would round what differs in the last bit to its neighbour */
    ok(infer_engine_create(&eo, &engine, &error));
    ok(infer_model_open(engine, &source, &oo, &model, &error));
    ok(infer_session_create(model, &so, &session, &error));
    infer_model_release(model);
    infer_engine_release(engine);
    return session;
}

static infer_session *open_session(const char *path)
{
    return open_quantised(path, 0, 2);
}

/* Logits of every prompt position into out [n_prompt][n_vocab]. */
static void run_prompt(infer_session *s, const struct golden *g, float *out)
{
    infer_step_item it;
    INFER_INIT(&it);
    it.session = s;
    it.logits = INFER_ROWS_ALL;
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

static int32_t type_in(infer_session *s, const char *name)
{
    infer_tensor_info t;
    uint64_t i;
    infer_file *f = infer_model_file(infer_session_model(s));
    INFER_INIT(&t);
    ok(infer_file_find_tensor(f, name, INFER_ZSTR, &i, &error));
    ok(infer_file_tensor(f, i, &t, &error));
    return t.type;
}

/* A file of weights that came from Q8_0 quantises to the bytes it came from. */
static void test_quantise_back(void **state)
{
    (void)state;
    struct golden g = golden_read("llama-q8_0");
    size_t n = (size_t)g.n_prompt * g.n_vocab;
    float *want = malloc(n * sizeof *want), *got = malloc(n * sizeof *got);
    infer_session *s = open_session(fixture_path("llama-q8_0"));
    run_prompt(s, &g, want);
    infer_session_release(s);
    for (uint32_t threads = 1; threads <= 3; threads++) {
        s = open_quantised(fixture_path("llama-q8_0-f32"), INFER_TYPE_Q8_0, threads);
        assert_int_equal(type_in(s, "blk.0.attn_q.weight"), INFER_TYPE_Q8_0);
        assert_int_equal(type_in(s, "token_embd.weight"), INFER_TYPE_Q8_0);
        assert_int_equal(type_in(s, "blk.0.attn_norm.weight"), INFER_TYPE_F32);
        run_prompt(s, &g, got);
        assert_memory_equal(want, got, n * sizeof *got);
        infer_session_release(s);
    }
    free(want);
    free(got);
    golden_free(&g);
}

/* Folders quantise too; rows of 64 are no whole blocks of the K types, which then give Q8_0. */
static void test_quantise_folders(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int32_t type, layer, output;
        double most;
    } cases[] = {
        {"llama", INFER_TYPE_Q8_0, INFER_TYPE_Q8_0, INFER_TYPE_Q8_0, 0.1},
        {"llama", INFER_TYPE_Q4_0, INFER_TYPE_Q4_0, INFER_TYPE_Q8_0, 0.8},
        {"llama", INFER_TYPE_Q4_K, INFER_TYPE_Q8_0, INFER_TYPE_Q8_0, 0.1},
        {"gemma3", INFER_TYPE_Q8_0, INFER_TYPE_Q8_0, 0, 0.1},
        {"llama-mix256-f32", INFER_TYPE_Q6_K, INFER_TYPE_Q6_K, INFER_TYPE_Q6_K, 0.15},
        {"llama-mix256-f32", INFER_TYPE_Q4_K, INFER_TYPE_Q4_K, INFER_TYPE_Q6_K, 0.8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool file = strstr(cases[i].name, "-f32") != NULL;
        struct golden g = golden_read(file ? "llama-mix256" : cases[i].name);
        float *got = malloc((size_t)g.n_prompt * g.n_vocab * sizeof *got);
        infer_session *s = open_quantised(file ? fixture_path(cases[i].name) : folder_path(cases[i].name), cases[i].type, 2);
        assert_int_equal(type_in(s, "blk.0.attn_q.weight"), cases[i].layer);
        if (cases[i].output)
            assert_int_equal(type_in(s, "output.weight"), cases[i].output);
        run_prompt(s, &g, got);
        double off = difference(&g, g.logits, got);
        print_message("# %s to %s: within %.4f\n", cases[i].name, infer_type_name(cases[i].type), off);
        assert_true(off > 1e-5 && off < cases[i].most);
        infer_session_release(s);
        free(got);
        golden_free(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden), cmocka_unit_test(test_quantise_back), cmocka_unit_test(test_quantise_folders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
