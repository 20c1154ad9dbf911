/* Adapters: numbers against PEFT and PyTorch, and bits: base bits without effect, alone and in any batch, in chunks, with threads and CPU variants. */
#include "adapter_tests.h"
#include "tempdir.h"

static void test_lora(void **state)
{
    (void)state;
    static const struct {
        const char *base, *file, *golden;
    } cases[] = {{"llama", "lora-r4", "lora-r4"},           {"llama", "lora-r4.gguf", "lora-r4"},      {"llama", "lora-rslora", "lora-rslora"},
                 {"llama", "lora-pattern", "lora-pattern"}, {"llama", "lora-layers", "lora-layers"},   {"gpt2", "lora-gpt2", "lora-gpt2"},
                 {"gpt2", "lora-gpt2.gguf", "lora-gpt2"},   {"qwen2", "lora-qwen2", "lora-qwen2"},     {"qwen2", "lora-qwen2.gguf", "lora-qwen2"},
                 {"gemma3", "lora-gemma3", "lora-gemma3"},  {"llama", "alora", "alora"},               {"llama", "batch1", "batch1"},
                 {"llama", "batch2", "batch2"},             {"llama", "batch3", "batch3"},             {"llama", "batch4", "batch4"},
                 {"llama", "batch5", "batch5"},             {"llama", "batch6", "batch6"},             {"llama", "batch7", "batch7"},
                 {"llama", "batch8", "batch8"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        infer_model *m = model_with(cases[i].base, 2, 0, 0);
        infer_adapter *a = adapter_of(m, cases[i].file);
        infer_session *s = session_of(m);
        attach(s, a, 1);
        infer_adapter_release(a);
        infer_model_release(m);
        matches(s, cases[i].golden);
    }
}

/* Two at once, with scales, in the order of the list. */
static void test_two(void **state)
{
    (void)state;
    infer_model *m = model_with("llama", 2, 0, 0);
    infer_adapter_use u[2];
    infer_session *s = session_of(m);
    for (int i = 0; i < 2; i++) {
        INFER_INIT(&u[i]);
        u[i].adapter = adapter_of(m, i ? "lora-rslora" : "lora-r4");
        u[i].scale = i ? 1 : 0.5f;
    }
    ok(infer_session_set_adapters(s, u, 2, &error));
    infer_adapter_release(u[0].adapter);
    infer_adapter_release(u[1].adapter);
    infer_model_release(m);
    matches(s, "lora-two");
}

static void test_steering(void **state)
{
    (void)state;
    static const struct {
        const char *golden;
        int32_t mode;
        float scale;
        uint32_t first, count;
    } cases[] = {{"steer-add", INFER_ADAPTER_ADD, 0.75f, 0, 0},
                 {"steer-layer", INFER_ADAPTER_ADD, -1.5f, 2, 1},
                 {"steer-project", INFER_ADAPTER_PROJECT, 1, 0, 0}};
    for (size_t i = 0; i < 6; i++) {
        infer_model *m = model_with("llama", 2, 0, 0);
        infer_adapter *a = adapter_of(m, i < 3 ? "steering.safetensors" : "steering.gguf");
        infer_session *s = session_of(m);
        infer_adapter_use u;
        INFER_INIT(&u);
        u.adapter = a;
        u.mode = cases[i % 3].mode;
        u.scale = cases[i % 3].scale;
        u.first_layer = cases[i % 3].first;
        u.layer_count = cases[i % 3].count;
        ok(infer_session_set_adapters(s, &u, 1, &error));
        infer_adapter_release(a);
        infer_model_release(m);
        matches(s, cases[i % 3].golden);
    }
}

static void test_appended(void **state)
{
    (void)state;
    static const char *const names[] = {"soft-prompt", "prefix"};
    for (int i = 0; i < 2; i++) {
        infer_model *m = model_with("llama", 2, 0, 0);
        infer_adapter *a = adapter_of(m, names[i]);
        infer_session *s = session_of(m);
        infer_adapter_info info;
        INFER_INIT(&info);
        ok(infer_adapter_get_info(a, &info, &error));
        assert_int_equal(info.kind, i ? INFER_ADAPTER_PREFIX : INFER_ADAPTER_SOFT_PROMPT);
        assert_int_equal(info.rows, i ? 4 : 5);
        ok(infer_session_append_adapter(s, a, &error));
        infer_adapter_release(a);
        infer_model_release(m);
        matches(s, names[i]);
    }
}

/* ---- bits */

/* Nothing in force, a scale of 0, and detaching again: the base's bits. */
static void test_no_effect(void **state)
{
    (void)state;
    infer_model *m = model_with("llama", 2, 0, 0);
    struct golden g = golden_read("llama");
    infer_session *s = session_of(m);
    size_t bytes = (size_t)g.n_prompt * g.n_vocab * 4;
    float *base = prompt_logits(s, &g), *got;
    infer_session_release(s);
    static const char *const names[] = {"lora-r4", "steering.gguf"};
    for (int k = 0; k < 6; k++) {
        infer_adapter *a = adapter_of(m, names[k % 2]);
        s = session_of(m);
        if (k < 2)
            attach(s, a, 0);
        if (k >= 2 && k < 4) {
            attach(s, a, 1);
            attach(s, NULL, 0);
        }
        if (k >= 4) { /* attached, used, rolled back, detached */
            attach(s, a, 1);
            got = prompt_logits(s, &g);
            assert_memory_not_equal(got, base, bytes);
            free(got);
            ok(infer_session_truncate(s, 0, NULL, &error));
            attach(s, NULL, 0);
        }
        got = prompt_logits(s, &g);
        assert_memory_equal(got, base, bytes);
        free(got);
        infer_session_release(s);
        infer_adapter_release(a);
    }
    free(base);
    golden_free(&g);
    infer_model_release(m);
}

enum { N = 10, PROMPT = 40 };

static infer_adapter *batch_adapter(infer_model *m, int i)
{
    char name[16];
    (void)snprintf(name, sizeof name, "batch%d", i + 1);
    return i == 8 ? adapter_of(m, "steering.gguf") : adapter_of(m, name);
}

/* Sessions 0-7 have adapters of their own, 8 is steered, 9 has none. */
static void open_all(infer_model *m, infer_session **s, const struct golden *g)
{
    for (int i = 0; i < N; i++) {
        s[i] = session_of(m);
        if (i < 9) {
            infer_adapter *a = batch_adapter(m, i);
            attach(s[i], a, i == 3 ? 0.5f : 1);
            infer_adapter_release(a);
        }
        ok(infer_session_append(s[i], g->prompt, g->n_prompt, &error));
    }
}

/* Each one's logits after the prompt and after 3 more tokens, stepped in chunks of `chunk` (0: whole), all in one batch or alone. */
static void run_all(infer_model *m, const struct golden *g, uint64_t chunk, int together, float *out)
{
    infer_session *s[N];
    infer_step_item it[N];
    open_all(m, s, g);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < N; i++) {
            if (round)
                ok(infer_session_append(s[i], &g->greedy[round], 1, &error));
            it[i] = item_of(s[i], INFER_ROWS_LAST);
            it[i].max_elements = chunk;
        }
        for (uint64_t done = 0; done < (round ? 1 : g->n_prompt); done += it[0].done) {
            for (int i = 0; i < N && !together; i++)
                ok(infer_step(&it[i], 1, NULL, &error));
            if (together)
                ok(infer_step(it, N, NULL, &error));
        }
        for (int i = 0; i < N; i++) {
            const float *row;
            ok(infer_session_logits(s[i], 0, &row, NULL, &error));
            memcpy(out + (size_t)(round * N + i) * g->n_vocab, row, g->n_vocab * 4);
        }
    }
    for (int i = 0; i < N; i++)
        infer_session_release(s[i]);
}

static void batches_of(const char *base, int all_levels)
{
    struct golden g = golden_read("llama");
    size_t bytes = (size_t)4 * N * g.n_vocab * 4;
    float *alone = malloc(bytes), *got = malloc(bytes);
    static const int32_t levels[] = {INFER_CPU_AUTO, INFER_CPU_SCALAR, INFER_CPU_AVX2, INFER_CPU_AVXVNNI, INFER_CPU_AVX512, INFER_CPU_AVX512VNNI,
                                     INFER_CPU_NEON, INFER_CPU_DOTPROD, INFER_CPU_I8MM};
    infer_model *m = model_with(base, 1, 0, 0);
    run_all(m, &g, 0, 0, alone);
    for (int i = 1; i < N; i++) /* the adapters are not without effect */
        assert_memory_not_equal(alone, alone + (size_t)i * g.n_vocab, g.n_vocab * 4);
    infer_model_release(m);
    for (size_t l = 0; l < (all_levels ? sizeof levels / sizeof *levels : 1); l++)
        for (uint32_t threads = 1; threads < 4; threads += 2) {
            infer_engine_options eo;
            infer_engine *engine;
            INFER_INIT(&eo);
            eo.cpu = levels[l];
            if (infer_engine_create(&eo, &engine, &error) != INFER_OK)
                continue; /* not on this machine */
            infer_engine_release(engine);
            m = model_with(base, threads, levels[l], 0);
            run_all(m, &g, 0, 1, got);
            assert_memory_equal(got, alone, bytes);
            run_all(m, &g, threads == 1 ? 7 : 1, threads == 1, got);
            assert_memory_equal(got, alone, bytes);
            infer_model_release(m);
        }
    free(alone);
    free(got);
    golden_free(&g);
}

static void test_batch(void **state)
{
    (void)state;
    batches_of("llama", 1);
}

/* ---- swapping */

/* Elements keep the adapters that they were appended under, whenever they are computed. */
static void test_swap(void **state)
{
    (void)state;
    infer_model *m = model_with("llama", 2, 0, 0);
    struct golden g = golden_read("llama");
    infer_adapter *a = adapter_of(m, "lora-r4"), *b = adapter_of(m, "batch7");
    float *want = malloc(g.n_vocab * 4), *got = malloc(g.n_vocab * 4);
    infer_session *s = session_of(m), *t = session_of(m), *f;
    attach(s, a, 1);
    ok(infer_session_append(s, g.prompt, 20, &error));
    last_logits(s, g.n_vocab, got); /* computed before the swap */
    attach(s, b, 2);
    ok(infer_session_append(s, g.prompt + 20, 10, &error));
    last_logits(s, g.n_vocab, want);
    attach(t, a, 1);
    ok(infer_session_append(t, g.prompt, 20, &error));
    attach(t, b, 2);
    ok(infer_session_append(t, g.prompt + 20, 10, &error));
    attach(t, NULL, 0);
    last_logits(t, g.n_vocab, got); /* all at once, and nothing in force now */
    assert_memory_equal(got, want, g.n_vocab * 4);
    ok(infer_session_fork(s, &f, &error));
    ok(infer_session_truncate(f, 25, NULL, &error)); /* b is in force in the fork too */
    ok(infer_session_append(f, g.prompt + 25, 5, &error));
    last_logits(f, g.n_vocab, got);
    assert_memory_equal(got, want, g.n_vocab * 4);
    infer_session_release(s);
    infer_session_release(t);
    infer_session_release(f);
    infer_adapter_release(a);
    infer_adapter_release(b);
    free(want);
    free(got);
    golden_free(&g);
    infer_model_release(m);
}

/* The elements of a graft that are computed anew stay under the adapters that they have in the checkpoint, whatever is in force in the session. */
static void test_graft(void **state)
{
    (void)state;
    infer_model *m = model_with("llama", 2, 0, 0);
    struct golden g = golden_read("llama");
    infer_adapter *a = adapter_of(m, "lora-r4"), *b = adapter_of(m, "batch7");
    infer_session *from = session_of(m), *s = session_of(m), *plain = session_of(m);
    float *want = malloc(g.n_vocab * 4), *got = malloc(g.n_vocab * 4);
    infer_checkpoint *c;
    attach(from, a, 1);
    ok(infer_session_append(from, g.prompt, 12, &error));
    last_logits(from, g.n_vocab, got);
    ok(infer_checkpoint_create(from, &c, &error));
    attach(s, b, 1);
    ok(infer_session_append(s, g.prompt + 12, 6, &error));
    last_logits(s, g.n_vocab, got);
    ok(infer_session_graft(s, c, 0, 12, 12, NULL, NULL, &error)); /* all of it is computed anew: so it is exact */
    ok(infer_session_append(s, g.prompt + 18, 1, &error));
    last_logits(s, g.n_vocab, got);
    attach(plain, b, 1);
    ok(infer_session_append(plain, g.prompt + 12, 6, &error));
    attach(plain, a, 1);
    ok(infer_session_append(plain, g.prompt, 12, &error));
    attach(plain, b, 1);
    ok(infer_session_append(plain, g.prompt + 18, 1, &error));
    last_logits(plain, g.n_vocab, want);
    assert_memory_equal(got, want, g.n_vocab * 4);
    infer_checkpoint_release(c);
    infer_session_release(from);
    infer_session_release(s);
    infer_session_release(plain);
    infer_adapter_release(a);
    infer_adapter_release(b);
    free(want);
    free(got);
    golden_free(&g);
    infer_model_release(m);
}

static void copy_file(const char *from, const char *name)
{
    size_t n;
    char *data = test_read_file(from, &n);
    assert_non_null(data);
    tempdir_write(name, data, n);
    free(data);
}

/* An adapter's file that changes while pending elements need it, whatever is in force by now: the step says so, before it reads. */
static void test_changed(void **state)
{
    (void)state;
    infer_model *m = model_with("llama", 1, 0, 0);
    infer_open_options o;
    infer_source source;
    infer_adapter *a;
    infer_session *s = session_of(m);
    const char *dir = tempdir_make();
    copy_file(adapter_path("lora-r4/adapter_config.json"), "adapter_config.json");
    copy_file(adapter_path("lora-r4/adapter_model.safetensors"), "adapter_model.safetensors");
    INFER_INIT(&o);
    o.map = INFER_MAP_MMAP;
    infer_source_path(&source, dir, INFER_ZSTR);
    if (infer_adapter_open(m, &source, &o, &a, &error) == INFER_OK) { /* a build without mapping has nothing to test */
        attach(s, a, 1);
        ok(infer_session_append(s, (const int32_t[]){1, 2, 3, 4}, 4, &error));
        attach(s, NULL, 0);
        tempdir_write("adapter_model.safetensors", "", 0);
        infer_step_item it = item_of(s, INFER_ROWS_LAST);
        assert_int_equal(infer_step(&it, 1, NULL, &error), INFER_ERROR_CHANGED);
        ok(infer_session_truncate(s, 0, NULL, &error));
        ok(infer_session_append(s, (const int32_t[]){1, 2}, 2, &error)); /* those need it not */
        ok(infer_step(&it, 1, NULL, &error));
        infer_adapter_release(a);
    }
    infer_session_release(s);
    infer_model_release(m);
    tempdir_remove();
}

/* ---- values */

static void refused(infer_session *s, infer_adapter_use u, const char *name)
{
    INFER_INIT(&error);
    assert_int_equal(infer_session_set_adapters(s, &u, 1, &error), INFER_ERROR_ARGUMENT);
    assert_string_equal(error.name, name);
}

static void test_values(void **state)
{
    (void)state;
    infer_model *m = model_with("llama", 1, 0, 0), *other = model_with("llama", 1, 0, 0);
    infer_adapter *a = adapter_of(m, "lora-r4"), *soft = adapter_of(m, "soft-prompt"), *theirs = adapter_of(other, "lora-r4");
    infer_session *s = session_of(m);
    infer_session_info info;
    infer_adapter_use u, many[17], got;
    INFER_INIT(&u);
    u.adapter = a;
    u.scale = 1;
    for (int i = 0; i < 17; i++)
        many[i] = u;
    ok(infer_session_set_adapters(s, many, 16, &error));
    assert_int_equal(infer_session_set_adapters(s, many, 17, &error), INFER_ERROR_ARGUMENT);
    INFER_INIT(&got);
    ok(infer_session_adapter(s, 15, &got, &error));
    assert_ptr_equal(got.adapter, a);
    assert_int_equal(got.layer_count, 3);
    assert_int_equal(infer_session_adapter(s, 16, &got, &error), INFER_ERROR_NOT_FOUND);
    INFER_INIT(&info);
    ok(infer_session_get_info(s, &info, &error));
    uint64_t before = info.adapters;
    assert_true(before != 0);
    static const float scales[] = {NAN, INFINITY, -INFINITY, 65537.0f, -1e30f};
    for (int i = 0; i < 5; i++) {
        infer_adapter_use v = u;
        v.scale = scales[i];
        refused(s, v, "scale");
    }
    infer_adapter_use v = u;
    v.first_layer = 3, refused(s, v, "first_layer");
    v.first_layer = 1, v.layer_count = 3, refused(s, v, "first_layer");
    v.layer_count = UINT32_MAX, refused(s, v, "first_layer");
    v = u, v.mode = INFER_ADAPTER_PROJECT, refused(s, v, "mode");
    v = u, v.mode = 7, refused(s, v, "mode");
    v = u, v.adapter = soft, refused(s, v, "adapter");
    v = u, v.adapter = theirs, refused(s, v, "adapter");
    v = u, v.adapter = NULL, refused(s, v, "adapter");
    v = u, v.reserved = 1, refused(s, v, "reserved");
    v = u, v.size = 3, refused(s, v, "infer_adapter_use");
    assert_int_equal(infer_session_append_adapter(s, a, &error), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_session_append_adapter(s, NULL, &error), INFER_ERROR_ARGUMENT);
    ok(infer_session_get_info(s, &info, &error)); /* a failed call changes nothing */
    assert_int_equal(info.adapters, before);
    infer_session_release(s);
    infer_adapter_release(a);
    infer_adapter_release(soft);
    infer_adapter_release(theirs);
    infer_model_release(m);
    infer_model_release(other);
}

/* N13: an adapter for another base. */
static void test_wrong_base(void **state)
{
    (void)state;
    static const struct {
        const char *base, *file;
        infer_status st;
    } cases[] = {{"qwen2", "lora-r4.gguf", INFER_ERROR_VALUE},   {"gpt2", "lora-r4", INFER_ERROR_MISSING}, {"llama", "lora-gpt2", INFER_ERROR_MISSING},
                 {"llama-mix256", "lora-r4", INFER_ERROR_SHAPE}, {"gpt2", "prefix", INFER_ERROR_SHAPE},   {"llama-mix256", "soft-prompt", INFER_ERROR_SHAPE},
                 {"llama-mix256", "steering.gguf", INFER_ERROR_VALUE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        infer_model *m = model_with(cases[i].base, 1, 0, 0);
        infer_adapter *a = NULL;
        infer_status st = infer_adapter_open_path(m, adapter_path(cases[i].file), &a, &error);
        if (st != cases[i].st)
            fail_msg("%s on %s: %s %s (%s)", cases[i].file, cases[i].base, infer_status_name(st), error.text, error.name);
        assert_null(a);
        assert_true(error.name[0] != 0);
        assert_non_null(strstr(error.file, cases[i].file));
        infer_model_release(m);
    }
}

static void test_info(void **state)
{
    (void)state;
    infer_model *m = model_with("llama", 1, 0, 0);
    infer_adapter *a = adapter_of(m, "lora-r4"), *twin = adapter_of(m, "lora-r4"), *found, *s = adapter_of(m, "steering.gguf"), *al = adapter_of(m, "alora");
    infer_adapter_info i, j;
    uint64_t n;
    INFER_INIT(&i);
    INFER_INIT(&j);
    ok(infer_adapter_get_info(a, &i, &error));
    ok(infer_adapter_get_info(twin, &j, &error));
    assert_memory_equal(i.hash, j.hash, 16);
    assert_int_equal(i.kind, INFER_ADAPTER_LORA);
    assert_int_equal(i.targets, 22);
    assert_int_equal(i.rank, 4);
    assert_true(i.bytes > 0);
    assert_string_equal(i.base, "libinfer fixture");
    assert_string_equal(infer_adapter_target(a, 0), "blk.0.attn_k.weight");
    assert_null(infer_adapter_target(a, 22));
    assert_ptr_equal(infer_adapter_model(a), m);
    ok(infer_adapter_find(m, i.hash, &found, &error));
    infer_adapter_release(found);
    infer_adapter_release(a);
    infer_adapter_release(twin);
    assert_int_equal(infer_adapter_find(m, i.hash, &found, &error), INFER_ERROR_NOT_FOUND);
    ok(infer_adapter_get_info(s, &i, &error));
    assert_int_equal(i.kind, INFER_ADAPTER_STEERING);
    assert_int_equal(i.targets, 2);
    assert_non_null(infer_adapter_invocation(al, &n));
    assert_int_equal(n, 3);
    assert_null(infer_adapter_invocation(s, &n));
    infer_adapter_release(s);
    infer_model_release(m);
    infer_adapter_release(al); /* holds the model */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lora),      cmocka_unit_test(test_two),   cmocka_unit_test(test_steering),        cmocka_unit_test(test_appended),
        cmocka_unit_test(test_no_effect), cmocka_unit_test(test_batch), cmocka_unit_test(test_swap),
        cmocka_unit_test(test_graft), cmocka_unit_test(test_changed), cmocka_unit_test(test_values),    cmocka_unit_test(test_info),  cmocka_unit_test(test_wrong_base),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
