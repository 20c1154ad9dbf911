/* Models that are structurally wrong are refused at open, with the field named (hostile inputs N07 and N08); every tensor counts. */
#include "testutil.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/checkpoint_file.h"
#include "golden.h"
#include "gguf_edit.h"

static infer_engine *engine;

static int setup(void **state)
{
    (void)state;
    infer_engine_options o;
    INFER_INIT(&o);
    o.threads = 1;
    return infer_engine_create(&o, &engine, NULL);
}

static int teardown(void **state)
{
    (void)state;
    infer_engine_release(engine);
    return 0;
}

static infer_file *open_fixture(const char *name)
{
    infer_source src;
    infer_file *f;
    infer_source_path(&src, fixture_path(name), INFER_ZSTR);
    assert_int_equal(infer_file_open(NULL, &src, NULL, &f, NULL), INFER_OK);
    return f;
}

/* 32-byte aligned, so that it is used in place. */
static infer_status open_bytes(const void *data, size_t len, infer_model **out, infer_error *err)
{
    infer_source src;
    INFER_INIT(err);
    infer_source_memory(&src, data, len);
    return infer_model_open(engine, &src, NULL, out, err);
}

static infer_status open_edited(const char *fixture, const struct gguf_edit *e, infer_error *err)
{
    infer_model *m = NULL;
    infer_file *f = open_fixture(fixture);
    struct buf b = gguf_edit(f, e);
    infer_status st = open_bytes(b.data, b.len, &m, err);
    assert_true((st == INFER_OK) == (m != NULL));
    infer_model_release(m);
    buf_free(&b);
    infer_file_release(f);
    return st;
}

static void test_unchanged_copy_opens(void **state)
{
    (void)state;
    infer_error err;
    for (size_t i = 0; golden_f32[i]; i++)
        assert_int_equal(open_edited(golden_f32[i], &(struct gguf_edit){0}, &err), INFER_OK);
}

#define U32(key, n, status) {{.set_key = key, .set_type = FILE_U32, .number = n}, status, key}
#define F32(key, n, status) {{.set_key = key, .set_type = FILE_F32, .number = n}, status, key}
#define STR(key, s, status) {{.set_key = key, .set_type = FILE_STRING, .string = s}, status, key}

static const struct {
    struct gguf_edit edit;
    infer_status status;
    const char *name; /* that the error must give; NULL: any */
} wrong[] = {
    {{.drop_key = "general.architecture"}, INFER_ERROR_MISSING, "general.architecture"},
    STR("general.architecture", "lama", INFER_ERROR_ARCHITECTURE), /* the name is the architecture's */
    STR("general.architecture", "", INFER_ERROR_ARCHITECTURE),
    U32("general.architecture", 7, INFER_ERROR_VALUE),
    STR("general.type", "adapter", INFER_ERROR_VALUE), /* a LoRA, whose architecture is its base's */
    STR("general.architecture", "controlvector", INFER_ERROR_ARCHITECTURE),
    U32("llama.block_count", 0, INFER_ERROR_VALUE),
    U32("llama.block_count", 513, INFER_ERROR_VALUE),
    U32("llama.block_count", 2147483648.0, INFER_ERROR_VALUE),
    STR("llama.block_count", "2", INFER_ERROR_VALUE),
    {{.set_key = "llama.block_count", .set_type = FILE_I32, .number = -1}, INFER_ERROR_VALUE, "llama.block_count"},
    {{.set_key = "llama.block_count", .set_type = FILE_U32, .number = 9}, INFER_ERROR_MISSING, NULL},
    {{.set_key = "llama.block_count", .set_type = FILE_U32, .number = 1}, INFER_ERROR_UNSUPPORTED, NULL},
    {{.drop_key = "llama.block_count"}, INFER_ERROR_MISSING, "llama.block_count"},
    U32("llama.embedding_length", 0, INFER_ERROR_VALUE),
    U32("llama.embedding_length", 4294967295.0, INFER_ERROR_VALUE),
    {{.set_key = "llama.embedding_length", .set_type = FILE_U32, .number = 128}, INFER_ERROR_SHAPE, NULL},
    U32("llama.context_length", 0, INFER_ERROR_VALUE),
    U32("llama.attention.head_count", 0, INFER_ERROR_VALUE),
    U32("llama.attention.head_count", 4294967295.0, INFER_ERROR_VALUE),
    U32("llama.attention.head_count_kv", 0, INFER_ERROR_VALUE),
    U32("llama.attention.head_count_kv", 3, INFER_ERROR_VALUE),
    {{.set_key = "llama.attention.key_length", .set_type = FILE_U32, .number = 20}, INFER_ERROR_UNSUPPORTED, NULL},
    {{.set_key = "llama.attention.key_length", .set_type = FILE_U32, .number = 8}, INFER_ERROR_VALUE, "llama.rope.dimension_count"},
    U32("llama.attention.key_length", 4096, INFER_ERROR_VALUE),
    U32("llama.rope.dimension_count", 1024, INFER_ERROR_VALUE),
    U32("llama.rope.dimension_count", 18, INFER_ERROR_VALUE),
    U32("llama.rope.dimension_count", 7, INFER_ERROR_VALUE),
    F32("llama.rope.freq_base", 0, INFER_ERROR_VALUE),
    F32("llama.rope.freq_base", NAN, INFER_ERROR_VALUE),
    F32("llama.rope.freq_base", INFINITY, INFER_ERROR_VALUE),
    F32("llama.rope.scaling.factor", -1, INFER_ERROR_VALUE),
    STR("llama.rope.scaling.type", "spiral", INFER_ERROR_UNSUPPORTED),
    F32("llama.attention.layer_norm_rms_epsilon", NAN, INFER_ERROR_VALUE),
    F32("llama.attention.layer_norm_rms_epsilon", -1, INFER_ERROR_VALUE),
    {{.drop_key = "llama.attention.layer_norm_rms_epsilon"}, INFER_ERROR_MISSING, NULL},
    U32("llama.feed_forward_length", 0, INFER_ERROR_VALUE),
    U32("llama.expert_used_count", 2, INFER_ERROR_VALUE),
    {{.set_key = "llama.expert_count", .set_type = FILE_U32, .number = 4}, INFER_ERROR_MISSING, "llama.expert_used_count"},
    {{.set_key = "llama.vocab_size", .set_type = FILE_U32, .number = 161}, INFER_ERROR_SHAPE, "token_embd.weight"},
    {{.set_key = "llama.vocab_size", .set_type = FILE_U32, .number = 0}, INFER_ERROR_VALUE, NULL},
    {{.rename_tensor = "blk.1.ffn_up.weight", .new_name = "blk.2147483648.ffn_up.weight"}, INFER_ERROR_MISSING,
     "blk.1.ffn_up.weight"},
    {{.rename_tensor = "output.weight", .new_name = "blk.0.attn_q_norm.weight"}, INFER_ERROR_UNSUPPORTED,
     "blk.0.attn_q_norm.weight"},
    {{.reshape_tensor = "output_norm.weight", .d0 = 32, .d1 = 2}, INFER_ERROR_SHAPE, "output_norm.weight"},
    {{.reshape_tensor = "blk.0.attn_output.weight", .d0 = 32, .d1 = 128}, INFER_ERROR_SHAPE, "blk.0.attn_output.weight"},
};

static void test_wrong(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        infer_error err;
        infer_status st = open_edited("llama", &wrong[i].edit, &err);
        const char *name = wrong[i].name;
        if (wrong[i].status == INFER_ERROR_ARCHITECTURE)
            name = wrong[i].edit.string;
        if (st != wrong[i].status || (name && strcmp(name, err.name)) || !err.text[0])
            fail_msg("case %zu: status %s, name '%s', text '%s'", i, infer_status_name(st), err.name, err.text);
    }
}

/* Values at the edge of what is allowed: odd, but they open. */
static void test_edges(void **state)
{
    (void)state;
    static const struct gguf_edit edges[] = {
        {.set_key = "llama.rope.freq_base", .set_type = FILE_F32, .number = 1}, /* YaRN divides by its logarithm */
        {.set_key = "llama.rope.scaling.yarn_beta_fast", .set_type = FILE_F32, .number = 1e-3},
        {.set_key = "llama.rope.scaling.yarn_beta_slow", .set_type = FILE_F32, .number = 1e6},
    };
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        infer_error err;
        infer_status st = open_edited("llama-yarn", &edges[i], &err);
        if (st != INFER_OK)
            fail_msg("case %zu: status %s, text '%s'", i, infer_status_name(st), err.text);
    }
}

/* Without any one of its tensors a model is refused by that name (or the output matrix is tied). */
static void test_missing_tensors(void **state)
{
    (void)state;
    static const char *const names[] = {"llama", "qwen2", "qwen3", "gemma3", "gpt2",     "mistral",           "olmo2",
                                        "gemma2", "phi3", "stablelm-parallel", "llama-bias", "nemotron", "granite", "starcoder2", "stablelm", NULL};
    for (size_t k = 0; names[k]; k++) {
        infer_file *f = open_fixture(names[k]);
        for (uint64_t i = 0; i < f->n_tensors; i++) {
            char name[64];
            infer_error err;
            (void)snprintf(name, sizeof name, "%.*s", (int)f->tensors[i].name.len, f->tensors[i].name.data);
            infer_status st = open_edited(names[k], &(struct gguf_edit){.drop_tensor = name}, &err);
            if (!strcmp(name, "output.weight"))
                assert_int_equal(st, INFER_OK);
            else if (st != INFER_ERROR_MISSING || strcmp(err.name, name))
                fail_msg("%s without %s: %s, '%s'", names[k], name, infer_status_name(st), err.name);
        }
        infer_file_release(f);
    }
}

/* The logits of the last prompt element. */
static void last_logits(const void *data, size_t len, const struct golden *g, float *out)
{
    infer_model *m;
    infer_session *s;
    infer_error err;
    infer_step_item it;
    const float *row;
    if (open_bytes(data, len, &m, &err) != INFER_OK)
        fail_msg("%s", err.text);
    assert_int_equal(infer_session_create(m, NULL, &s, NULL), INFER_OK);
    assert_int_equal(infer_session_append(s, g->prompt, g->n_prompt, NULL), INFER_OK);
    INFER_INIT(&it);
    it.session = s;
    assert_int_equal(infer_step(&it, 1, NULL, NULL), INFER_OK);
    assert_int_equal(infer_session_logits(s, 0, &row, NULL, NULL), INFER_OK);
    memcpy(out, row, g->n_vocab * sizeof *out);
    infer_session_release(s);
    infer_model_release(m);
}

/* LongRoPE's other factors: phi3's context is longer than the original one, phi3-window's is not. */
static bool not_in_force(const char *fixture, const struct file_tensor *t)
{
    const char *other = !strcmp(fixture, "phi3") ? "rope_factors_short.weight" : !strcmp(fixture, "phi3-window") ? "rope_factors_long.weight" : "";
    return t->name.len == strlen(other) && !memcmp(t->name.data, other, (size_t)t->name.len);
}

/* A router's bias: only the order of experts counts. */
static bool is_order(const struct file_tensor *t)
{
    static const char end[] = "exp_probs_b.bias";
    uint64_t n = sizeof end - 1;
    return t->name.len > n && !memcmp(t->name.data + (t->name.len - n), end, (size_t)n);
}

/* Changing any one tensor changes the logits: nothing in the file goes unread. */
static void test_every_tensor_counts(void **state)
{
    (void)state;
    size_t changed = 0;
    for (size_t k = 0; golden_f32[k]; k++) {
        struct golden g = golden_read(golden_f32[k]);
        float *want = malloc(g.n_vocab * sizeof *want), *got = malloc(g.n_vocab * sizeof *got);
        infer_file *f = open_fixture(golden_f32[k]);
        struct buf b = gguf_edit(f, &(struct gguf_edit){0});
        char *data = mem_alloc_aligned(&alloc_default, b.len, 64);
        memcpy(data, b.data, b.len);
        infer_source src;
        infer_file *copy;
        infer_source_memory(&src, data, b.len);
        assert_int_equal(infer_file_open(NULL, &src, NULL, &copy, NULL), INFER_OK);
        last_logits(data, b.len, &g, want);
        for (uint64_t i = 0; i < copy->n_tensors; i++) {
            const struct file_tensor *t = &copy->tensors[i];
            float *w = (float *)(void *)(data + ((const char *)t->data - data));
            assert_int_equal(t->type, INFER_TYPE_F32);
            char *saved = malloc((size_t)t->bytes);
            memcpy(saved, w, (size_t)t->bytes);
            for (uint64_t j = 0; j < t->n; j++)
                w[j] = is_order(t) ? -3 * w[j] : w[j] * 1.25f + 0.01f;
            last_logits(data, b.len, &g, got);
            if (!memcmp(want, got, g.n_vocab * sizeof *got) != not_in_force(golden_f32[k], t))
                fail_msg("%s: does %.*s make a difference?", golden_f32[k], (int)t->name.len, t->name.data);
            memcpy(w, saved, (size_t)t->bytes);
            free(saved);
            changed++;
        }
        infer_file_release(copy);
        infer_file_release(f);
        mem_free(&alloc_default, data);
        buf_free(&b);
        free(want);
        free(got);
        golden_free(&g);
    }
    print_message("# %zu tensors changed one by one\n", changed);
    assert_true(changed > 100);
}

/* More embedding rows than the vocabulary are padding: refused as input, never sampled. */
static void test_padded_vocabulary(void **state)
{
    (void)state;
    infer_file *f = open_fixture("llama");
    struct buf b = gguf_edit(f, &(struct gguf_edit){.set_key = "llama.vocab_size", .set_type = FILE_U32, .number = 40});
    infer_model *m;
    infer_session *s;
    infer_error err;
    infer_model_info info;
    infer_event ev;
    int32_t id = 40;
    assert_int_equal(open_bytes(b.data, b.len, &m, &err), INFER_OK);
    INFER_INIT(&info);
    assert_int_equal(infer_model_get_info(m, &info, NULL), INFER_OK);
    assert_int_equal(info.vocab_size, 160);
    assert_int_equal(infer_session_create(m, NULL, &s, NULL), INFER_OK);
    assert_int_equal(infer_session_append(s, &id, 1, NULL), INFER_ERROR_TOKEN);
    id = 39;
    assert_int_equal(infer_session_append(s, &id, 1, NULL), INFER_OK);
    infer_sampling sampling;
    INFER_INIT(&sampling);
    sampling.temperature = 50; /* nearly uniform */
    assert_int_equal(infer_session_set_sampling(s, &sampling, NULL), INFER_OK);
    assert_int_equal(infer_generate_begin(s, NULL, NULL), INFER_OK);
    for (int i = 0; i < 100; i++) {
        INFER_INIT(&ev);
        assert_int_equal(infer_generate_next(s, &ev, NULL, NULL), INFER_OK);
        assert_true(ev.id >= 0 && ev.id < 40);
    }
    infer_session_release(s);
    infer_model_release(m);
    buf_free(&b);
    infer_file_release(f);
}

/* A weight that is not a number makes an error, not a token; other sessions go on. */
static void test_nonfinite(void **state)
{
    (void)state;
    struct golden g = golden_read("llama");
    infer_file *f = open_fixture("llama"), *copy;
    struct buf b = gguf_edit(f, &(struct gguf_edit){0});
    char *data = mem_alloc_aligned(&alloc_default, b.len, 64);
    memcpy(data, b.data, b.len);
    infer_source src;
    infer_model *m;
    infer_session *s[2];
    infer_error err;
    infer_source_memory(&src, data, b.len);
    assert_int_equal(infer_file_open(NULL, &src, NULL, &copy, NULL), INFER_OK);
    const struct file_tensor *t = file_find_tensor(copy, "token_embd.weight", 17);
    float *w = (float *)(void *)(data + ((const char *)t->data - data));
    w[5 * t->dims[0]] = NAN; /* of token 5 only */
    assert_int_equal(open_bytes(data, b.len, &m, &err), INFER_OK);
    infer_step_item it[2];
    for (int i = 0; i < 2; i++) {
        int32_t ids[2] = {i ? 5 : 6, 7};
        assert_int_equal(infer_session_create(m, NULL, &s[i], NULL), INFER_OK);
        assert_int_equal(infer_session_append(s[i], ids, 2, NULL), INFER_OK);
        INFER_INIT(&it[i]);
        it[i].session = s[i];
    }
    assert_int_equal(infer_step(it, 2, NULL, &err), INFER_ERROR_NONFINITE);
    assert_int_equal(it[0].status, INFER_OK);
    assert_int_equal(it[1].status, INFER_ERROR_NONFINITE);
    assert_int_equal(it[1].done, 0);
    infer_session_info info;
    INFER_INIT(&info);
    assert_int_equal(infer_session_get_info(s[1], &info, NULL), INFER_OK);
    assert_int_equal(info.computed, 0);
    assert_int_equal(info.length, 2);
    for (int i = 0; i < 2; i++)
        infer_session_release(s[i]);
    infer_model_release(m);
    infer_file_release(copy);
    infer_file_release(f);
    mem_free(&alloc_default, data);
    buf_free(&b);
    golden_free(&g);
}

/* Opens b for sessions of at most n_ctx elements: the last logits, and what tells the model from others. */
static void long_rope(const struct buf *b, uint32_t n_ctx, const struct golden *g, float *out, uint8_t fingerprint[48])
{
    infer_source src;
    infer_open_options oo;
    infer_model *m;
    infer_session *s;
    infer_session_options so;
    infer_session_info info;
    infer_step_item it;
    const float *row;
    struct model_fingerprint f;
    INFER_INIT(&oo);
    INFER_INIT(&so);
    INFER_INIT(&it);
    INFER_INIT(&info);
    oo.n_ctx = n_ctx;
    infer_source_memory(&src, b->data, b->len);
    assert_int_equal(infer_model_open(engine, &src, &oo, &m, NULL), INFER_OK);
    so.n_ctx = n_ctx ? n_ctx + 1 : 5000;
    assert_int_equal(infer_session_create(m, &so, &s, NULL), n_ctx ? INFER_ERROR_ARGUMENT : INFER_OK);
    if (!n_ctx)
        infer_session_release(s);
    assert_int_equal(infer_session_create(m, NULL, &s, NULL), INFER_OK);
    assert_int_equal(infer_session_get_info(s, &info, NULL), INFER_OK);
    assert_int_equal(info.n_ctx, n_ctx && n_ctx < 1024 ? n_ctx : 1024);
    assert_int_equal(infer_session_append(s, g->prompt, g->n_prompt, NULL), INFER_OK);
    it.session = s;
    assert_int_equal(infer_step(&it, 1, NULL, NULL), INFER_OK);
    assert_int_equal(infer_session_logits(s, 0, &row, NULL, NULL), INFER_OK);
    memcpy(out, row, g->n_vocab * sizeof *out);
    assert_int_equal(sizeof f, 48);
    memset(&f, 0, sizeof f);
    if (hash_available())
        assert_int_equal(model_quick_fingerprint(m, &f, NULL), INFER_OK);
    memcpy(fingerprint, &f, sizeof f);
    infer_session_release(s);
    infer_model_release(m);
}

/* LongRoPE: a model of 1,024 elements made from one of 256, opened for short contexts, has the rotations of that. */
static void test_long_rope(void **state)
{
    (void)state;
    struct golden g = golden_read("phi3-window");
    infer_file *f = open_fixture("phi3-window");
    struct buf whole = gguf_edit(f, &(struct gguf_edit){0});
    struct buf b = gguf_edit(f, &(struct gguf_edit){.set_key = "phi3.context_length", .set_type = FILE_U32, .number = 1024});
    enum { SHORT, AT_LIMIT, BEYOND, DEFAULT };
    static const uint32_t n_ctx[] = {200, 256, 257, 0};
    float rows[4][96], want[96];
    uint8_t fingerprint[4][48];
    assert_int_equal(g.n_vocab, 96);
    last_logits(whole.data, whole.len, &g, want);
    for (int i = 0; i < 4; i++)
        long_rope(&b, n_ctx[i], &g, rows[i], fingerprint[i]);
    assert_memory_equal(rows[SHORT], want, sizeof want);
    assert_memory_equal(rows[AT_LIMIT], want, sizeof want);
    assert_memory_not_equal(rows[BEYOND], want, sizeof want);
    assert_memory_equal(rows[DEFAULT], rows[BEYOND], sizeof want);
    assert_memory_equal(fingerprint[SHORT], fingerprint[AT_LIMIT], 48);
    assert_memory_equal(fingerprint[BEYOND], fingerprint[DEFAULT], 48);
    if (hash_available())
        assert_memory_not_equal(fingerprint[SHORT], fingerprint[BEYOND], 48);
    buf_free(&whole);
    buf_free(&b);
    infer_file_release(f);
    golden_free(&g);
}

/* What other architectures' files can have wrong. */
static void test_wrong_elsewhere(void **state)
{
    (void)state;
    static const struct {
        const char *fixture;
        struct gguf_edit edit;
        infer_status status;
        const char *name;
    } cases[] = {
        {"phi3", {.set_key = "phi3.rope.scaling.type", .set_type = FILE_STRING, .string = "longrope"}, INFER_OK, ""},
        {"phi3", {.set_key = "phi3.feed_forward_length", .set_type = FILE_U32, .number = 47}, INFER_ERROR_SHAPE, "blk.0.ffn_up.weight"},
        {"phi3", {.reshape_tensor = "blk.1.attn_qkv.weight", .d0 = 128, .d1 = 64}, INFER_ERROR_SHAPE, "blk.1.attn_qkv.weight"},
        {"phi3", {.reshape_tensor = "rope_factors_long.weight", .d0 = 3, .d1 = 2}, INFER_ERROR_SHAPE, "rope_factors_long.weight"},
        {"phi3", {.set_key = "phi3.rope.dimension_count", .set_type = FILE_U32, .number = 8}, INFER_ERROR_SHAPE, "rope_factors_short.weight"},
        {"phi3", {.set_key = "phi3.rope.scaling.attn_factor", .set_type = FILE_F32, .number = NAN}, INFER_ERROR_VALUE,
         "phi3.rope.scaling.attn_factor"},
        {"stablelm", {.drop_tensor = "blk.1.ffn_norm.weight"}, INFER_ERROR_MISSING, "blk.1.ffn_norm.weight"},
        {"stablelm", {.reshape_tensor = "blk.0.attn_q_norm.weight", .d0 = 64}, INFER_ERROR_SHAPE, "blk.0.attn_q_norm.weight"},
        {"stablelm", {.reshape_tensor = "blk.0.attn_k_norm.weight", .d0 = 8, .d1 = 4}, INFER_ERROR_SHAPE, "blk.0.attn_k_norm.weight"},
        {"stablelm", {.set_key = "stablelm.use_parallel_residual", .set_type = FILE_STRING, .string = "yes"}, INFER_ERROR_VALUE,
         "stablelm.use_parallel_residual"},
        {"stablelm-parallel", {.drop_key = "stablelm.use_parallel_residual"}, INFER_ERROR_MISSING, NULL},
        {"olmo2", {.set_key = "olmo2.use_parallel_residual", .set_type = FILE_BOOL, .number = 1}, INFER_OK, ""}, /* not of this architecture */
        {"olmo2", {.reshape_tensor = "blk.0.attn_k_norm.weight", .d0 = 16, .d1 = 2}, INFER_ERROR_SHAPE, "blk.0.attn_k_norm.weight"},
        {"granite", {.set_key = "granite.logit_scale", .set_type = FILE_F32, .number = 0}, INFER_ERROR_VALUE, "granite.logit_scale"},
        {"granite", {.set_key = "granite.residual_scale", .set_type = FILE_F32, .number = INFINITY}, INFER_ERROR_VALUE, "granite.residual_scale"},
        {"gemma2", {.set_key = "gemma2.attn_logit_softcapping", .set_type = FILE_F32, .number = -1}, INFER_ERROR_VALUE,
         "gemma2.attn_logit_softcapping"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        infer_error err;
        infer_status st = open_edited(cases[i].fixture, &cases[i].edit, &err);
        if (st != cases[i].status || (cases[i].name && strcmp(cases[i].name, err.name)))
            fail_msg("case %zu: status %s, name '%s', text '%s'", i, infer_status_name(st), err.name, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unchanged_copy_opens), cmocka_unit_test(test_wrong), cmocka_unit_test(test_edges),
        cmocka_unit_test(test_missing_tensors),      cmocka_unit_test(test_every_tensor_counts),
        cmocka_unit_test(test_padded_vocabulary),    cmocka_unit_test(test_nonfinite),
        cmocka_unit_test(test_long_rope),            cmocka_unit_test(test_wrong_elsewhere),
    };
    return cmocka_run_group_tests_name("net", tests, setup, teardown);
}
