/* Hidden states of a step: against transformers, whatever the chunks and batches, and beside logits, rollback and the prefix cache. */
#include "testutil.h"

#include <stdlib.h>
#include <string.h>

#include "embed_golden.h"
#include "golden.h"
#include "infer/state.h"
#include "ok.h"

static const int32_t layers[] = {0, 1, INFER_HIDDEN_FINAL};
enum { N_LAYERS = 3 };

static struct embed_golden g;
static const struct embed_text *text;
static uint64_t row; /* floats of an element's states */

static infer_model *open_model(uint64_t cache_bytes)
{
    infer_engine_options eo;
    infer_engine *engine;
    infer_model *m;
    INFER_INIT(&eo);
    eo.threads = 2;
    eo.cache_bytes = cache_bytes;
    ok(infer_engine_create(&eo, &engine, &error));
    ok(infer_model_open_path(engine, fixture_path("qwen3-embedding"), &m, &error));
    infer_engine_release(engine);
    return m;
}

static infer_session *session_of(infer_model *m, uint32_t n)
{
    infer_session *s;
    infer_session_options so;
    INFER_INIT(&so);
    so.kv_type = INFER_KV_F32;
    ok(infer_session_create(m, &so, &s, &error));
    ok(infer_session_append(s, text->ids, n, &error));
    return s;
}

static infer_hidden hidden_of(float *out, uint64_t rows, int32_t elements)
{
    infer_hidden h;
    INFER_INIT(&h);
    h.elements = elements;
    h.layers = layers;
    h.layer_count = N_LAYERS;
    h.out = out;
    h.capacity = rows * row;
    return h;
}

static infer_step_item item_of(infer_session *s, infer_hidden *h, int32_t logits)
{
    infer_step_item it;
    INFER_INIT(&it);
    it.session = s;
    it.logits = logits;
    it.hidden = h;
    return it;
}

/* All states of the text at once: the reference for the other tests. */
static float *whole(infer_model *m)
{
    float *out = malloc(text->n * row * sizeof *out);
    infer_session *s = session_of(m, text->n);
    infer_hidden h = hidden_of(out, text->n, INFER_ROWS_ALL);
    infer_step_item it = item_of(s, &h, INFER_ROWS_NONE);
    ok(infer_step(&it, 1, NULL, &error));
    assert_int_equal(h.rows, text->n);
    infer_session_release(s);
    return out;
}

static int setup(void **state)
{
    (void)state;
    INFER_INIT(&error);
    g = embed_golden_read("qwen3-embedding");
    text = &g.texts[EMBED_LAYERS_TEXT];
    row = (uint64_t)N_LAYERS * g.n_embd;
    return g.n_layer == 2 ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    free(g.data);
    return 0;
}

static void test_golden(void **state)
{
    (void)state;
    infer_model *m = open_model(0);
    float *all = whole(m), *one = malloc((size_t)text->n * g.n_embd * sizeof *one);
    for (uint32_t l = 0; l < N_LAYERS; l++) {
        for (uint32_t i = 0; i < text->n; i++)
            memcpy(one + (size_t)i * g.n_embd, all + i * row + (size_t)l * g.n_embd, g.n_embd * sizeof *one);
        uint64_t n = (uint64_t)text->n * g.n_embd;
        assert_true(embed_error(one, l < 2 ? g.layers + l * n : text->hidden, n) < 1e-4);
    }
    free(one);
    free(all);
    infer_model_release(m);
}

/* Cut into steps, beside other sessions, and with logits: the same bits, and the logits too. */
static void test_chunks(void **state)
{
    (void)state;
    infer_model *m = open_model(0);
    float *all = whole(m), *out = malloc(text->n * row * sizeof *out), other[160];
    infer_session *s = session_of(m, text->n), *t = session_of(m, 40), *plain = session_of(m, text->n);
    const float *logits, *want;
    uint64_t at = 0;
    while (at < text->n) {
        infer_hidden h = hidden_of(out + at * row, text->n - at, INFER_ROWS_ALL);
        infer_step_item it[2] = {item_of(s, &h, INFER_ROWS_LAST), item_of(t, NULL, INFER_ROWS_LAST)};
        it[0].max_elements = 1 + at % 23;
        it[1].max_elements = 3;
        ok(infer_step(it, 2, NULL, &error));
        assert_int_equal(h.rows, it[0].done);
        assert_ptr_equal(it[0].hidden, &h);
        at += it[0].done;
    }
    assert_memory_equal(out, all, text->n * row * sizeof *out);
    infer_step_item it = item_of(plain, NULL, INFER_ROWS_LAST);
    ok(infer_step(&it, 1, NULL, &error));
    ok(infer_session_logits(s, 0, &logits, NULL, &error));
    ok(infer_session_logits(plain, 0, &want, NULL, &error));
    memcpy(other, logits, sizeof other);
    assert_memory_equal(other, want, sizeof other);
    infer_session_release(s);
    infer_session_release(t);
    infer_session_release(plain);
    free(out);
    free(all);
    infer_model_release(m);
}

static void test_choices(void **state)
{
    (void)state;
    infer_model *m = open_model(0);
    float *all = whole(m), out[8 * 96], final[64];
    uint8_t mask[65] = {0};
    mask[0] = mask[17] = mask[64] = 1;
    infer_session *s = session_of(m, text->n);
    infer_hidden h = hidden_of(out, 3, INFER_ROWS_MASK);
    h.mask = mask;
    infer_step_item it = item_of(s, &h, INFER_ROWS_NONE);
    assert_int_equal(text->n, 65);
    ok(infer_step(&it, 1, NULL, &error));
    assert_int_equal(h.rows, 3);
    assert_memory_equal(out, all, row * 4);
    assert_memory_equal(out + row, all + 17 * row, row * 4);
    assert_memory_equal(out + 2 * row, all + 64 * row, row * 4);
    /* nothing is pending: the last one is computed again; of no list of layers it is the final state */
    h = hidden_of(final, 1, INFER_ROWS_LAST);
    h.layers = NULL;
    h.layer_count = 0;
    ok(infer_step(&it, 1, NULL, &error));
    assert_int_equal(h.rows, 1);
    assert_memory_equal(final, all + 64 * row + 2 * g.n_embd, g.n_embd * 4);
    h = hidden_of(out, 0, INFER_ROWS_ALL);
    ok(infer_step(&it, 1, NULL, &error)); /* nothing pending, nothing to give */
    assert_int_equal(h.rows, 0);
    ok(infer_session_truncate(s, 30, NULL, &error));
    ok(infer_session_append(s, text->ids + 30, 8, &error));
    h = hidden_of(out, 8, INFER_ROWS_ALL);
    ok(infer_step(&it, 1, NULL, &error));
    assert_int_equal(h.rows, 8);
    assert_memory_equal(out, all + 30 * row, 8 * row * 4);
    infer_session_release(s);
    free(all);
    infer_model_release(m);
}

/* What is wanted is computed, not taken from the cache. */
static void test_prefix_cache(void **state)
{
    (void)state;
    infer_model *m = open_model(64 << 20);
    float *all = whole(m), *out = malloc(text->n * row * sizeof *out);
    for (int round = 0; round < 3; round++) {
        infer_session *s = session_of(m, text->n);
        infer_hidden h = hidden_of(out, text->n, round < 2 ? INFER_ROWS_ALL : INFER_ROWS_LAST);
        infer_step_item it = item_of(s, &h, INFER_ROWS_NONE);
        infer_cache_report r;
        INFER_INIT(&r);
        ok(infer_step(&it, 1, NULL, &error));
        ok(infer_session_cache_report(s, &r, &error));
        assert_true(round < 2 ? r.reused == 0 : r.reused == text->n - 1);
        assert_int_equal(it.done, text->n);
        assert_int_equal(h.rows, round < 2 ? text->n : 1);
        assert_memory_equal(out, all + (text->n - h.rows) * row, h.rows * row * 4);
        infer_session_release(s);
    }
    free(out);
    free(all);
    infer_model_release(m);
}

static void test_arguments(void **state)
{
    (void)state;
    static const int32_t bad[] = {2, -2};
    infer_model *m = open_model(0);
    float out[96];
    infer_session *s = session_of(m, 2);
    infer_hidden h = hidden_of(out, 1, INFER_ROWS_ALL);
    infer_step_item it = item_of(s, &h, INFER_ROWS_NONE);
    assert_int_equal(infer_step(&it, 1, NULL, &error), INFER_ERROR_BUFFER); /* two are pending */
    it.max_elements = 1;
    h.out = NULL;
    assert_int_equal(infer_step(&it, 1, NULL, &error), INFER_ERROR_ARGUMENT);
    h = hidden_of(out, 1, INFER_ROWS_MASK);
    assert_int_equal(infer_step(&it, 1, NULL, &error), INFER_ERROR_ARGUMENT); /* no mask */
    h = hidden_of(out, 1, 4);
    assert_int_equal(infer_step(&it, 1, NULL, &error), INFER_ERROR_ARGUMENT);
    for (int i = 0; i < 2; i++) {
        h = hidden_of(out, 1, INFER_ROWS_ALL);
        h.layers = &bad[i];
        h.layer_count = 1;
        assert_int_equal(infer_step(&it, 1, NULL, &error), INFER_ERROR_ARGUMENT);
        assert_string_equal(error.name, "layers");
    }
    h = hidden_of(out, 1, INFER_ROWS_ALL);
    h.layer_count = 4; /* more than there are */
    assert_int_equal(infer_step(&it, 1, NULL, &error), INFER_ERROR_ARGUMENT);
    h.layer_count = N_LAYERS;
    h.size = 8;
    assert_int_equal(infer_step(&it, 1, NULL, &error), INFER_ERROR_ARGUMENT);
    h = hidden_of(out, 1, INFER_ROWS_ALL);
    ok(infer_step(&it, 1, NULL, &error));
    it.size = (uint32_t)offsetof(infer_step_item, hidden); /* a host that knows nothing of them */
    ok(infer_step(&it, 1, NULL, &error));
    infer_session_release(s);
    infer_model_release(m);
}

/* An embedding of any model that generates is the hidden state that a step gives, taken from f32 KV. */
static void test_every_decoder(void **state)
{
    (void)state;
    for (size_t k = 0; golden_f32[k]; k++) {
        struct golden gold = golden_read(golden_f32[k]);
        infer_model *m;
        infer_session *s;
        infer_session_options so;
        infer_model_info info;
        float final[2][512];
        INFER_INIT(&info);
        INFER_INIT(&so);
        so.kv_type = INFER_KV_F32;
        ok(infer_model_open_path(NULL, fixture_path(golden_f32[k]), &m, &error));
        ok(infer_model_get_info(m, &info, &error));
        assert_true(info.embedding_width == info.n_embd && info.n_embd <= 512 && !info.encoder);
        ok(infer_session_create(m, &so, &s, &error));
        ok(infer_session_append(s, gold.prompt, gold.n_prompt, &error));
        infer_hidden h;
        INFER_INIT(&h);
        h.out = final[0];
        h.capacity = 512;
        infer_step_item it = item_of(s, &h, INFER_ROWS_LAST);
        ok(infer_step(&it, 1, NULL, &error));
        infer_embed_item e;
        infer_embed_options o;
        INFER_INIT(&e);
        INFER_INIT(&o);
        o.flags = INFER_EMBED_RAW;
        e.ids = gold.prompt;
        e.id_count = gold.n_prompt;
        e.out = final[1];
        e.capacity = 512;
        ok(infer_embed(m, &e, 1, &o, NULL, &error));
        if (memcmp(final[0], final[1], info.n_embd * 4) != 0)
            fail_msg("%s: an embedding is not the hidden state", golden_f32[k]);
        infer_session_release(s);
        infer_model_release(m);
        golden_free(&gold);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),       cmocka_unit_test(test_chunks),    cmocka_unit_test(test_choices),
        cmocka_unit_test(test_prefix_cache), cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_every_decoder),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
