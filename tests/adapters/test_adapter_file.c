/* Adapters as data: what PEFT, the gguf package and safetensors wrote in tests/data/adapters. */
#include "testutil.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapters/adapter.h"
#include "adapters/adapter_read.h"
#include "kernels/dequant.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define DATA INFER_SOURCE_DIR "/tests/data/adapters/"

static struct infer_adapter *open_as(const char *path, int32_t map)
{
    struct infer_adapter *a = NULL;
    infer_error err;
    if (!hash_available()) /* such a build has no adapters */
        skip();
    infer_source s = {.size = sizeof s, .kind = INFER_SOURCE_PATH, .name = path, .name_len = strlen(path)};
    infer_status st = adapter_open(&env_default, &s, map, NULL, &a, &err);
    if (st != INFER_OK)
        fail_msg("%s: %s %s: %s", path, err.file, err.name, err.text);
    return a;
}

static struct infer_adapter *open_path(const char *path)
{
    return open_as(path, INFER_MAP_AUTO);
}

static const struct adapter_target *target(const struct infer_adapter *a, const char *name)
{
    const struct adapter_target *t = adapter_find_target(a, name);
    if (!t)
        fail_msg("no target %s", name);
    return t;
}

static void expect_target(const struct infer_adapter *a, const char *name, uint32_t layer, uint32_t rank, uint64_t n_in,
                          uint64_t n_out, float scale)
{
    const struct adapter_target *t = target(a, name);
    assert_int_equal(t->layer, layer);
    assert_int_equal(t->rank, rank);
    assert_true(t->a.n_rows == rank && t->a.n_cols == n_in);
    assert_true(t->b.n_rows == n_out && t->b.n_cols == rank);
    assert_memory_equal(&t->scale, &scale, 4);
}

static void test_peft(void **state)
{
    (void)state;
    struct infer_adapter *a = open_path(DATA "lora-r4");
    assert_int_equal(a->kind, ADAPTER_LORA);
    assert_int_equal(a->order, ADAPTER_ORDER_HF);
    assert_int_equal(a->n_targets, 3 * 7 + 1);
    assert_int_equal(a->max_rank, 4);
    assert_int_equal(a->n_invocation, 0);
    assert_string_equal(a->base, "libinfer fixture");
    expect_target(a, "blk.0.attn_q.weight", 0, 4, 64, 64, 1.5f);
    expect_target(a, "blk.2.attn_k.weight", 2, 4, 64, 32, 1.5f);
    expect_target(a, "blk.1.ffn_down.weight", 1, 4, 64, 64, 1.5f);
    expect_target(a, "output.weight", ADAPTER_NO_LAYER, 4, 64, 160, 1.5f);
    assert_null(adapter_find_target(a, "blk.3.attn_q.weight"));
    assert_null(adapter_find_target(a, ""));
    assert_string_equal(target(a, "blk.1.ffn_down.weight")->stored, "base_model.model.model.layers.1.mlp.down_proj.lora_A.weight");
    for (uint64_t i = 1; i < a->n_targets; i++)
        assert_true(strcmp(a->targets[i - 1].name, a->targets[i].name) < 0);
    adapter_release(adapter_ref(a));
    assert_int_equal(adapter_check(a, NULL), INFER_OK);
    adapter_release(a);
    adapter_release(NULL);
}

/* Numbers stay where the file has them, and PEFT's patterns give the scales. */
static void test_pattern(void **state)
{
    (void)state;
    struct infer_adapter *a = open_path(DATA "lora-pattern/adapter_model.safetensors"); /* the file: its JSON is found beside it */
    expect_target(a, "blk.0.attn_q.weight", 0, 3, 64, 64, (float)(4.0 / 3));
    expect_target(a, "blk.1.attn_q.weight", 1, 7, 64, 64, (float)(4.0 / 7));
    expect_target(a, "blk.2.attn_q.weight", 2, 3, 64, 64, (float)(2.5 / 3));
    expect_target(a, "blk.1.attn_k.weight", 1, 2, 64, 32, 2.0f);
    expect_target(a, "blk.1.attn_output.weight", 1, 3, 64, 64, 3.0f);
    expect_target(a, "blk.0.ffn_up.weight", 0, 1, 64, 64, 4.0f);
    expect_target(a, "blk.1.ffn_up.weight", 1, 3, 64, 64, (float)(4.0 / 3));
    expect_target(a, "blk.2.ffn_up.weight", 2, 1, 64, 64, 4.0f);
    assert_int_equal(a->max_rank, 7);
    const struct adapter_target *t = target(a, "blk.1.attn_k.weight");
    const struct file_tensor *f = file_find_tensor(a->file, t->stored, strlen(t->stored));
    assert_true(t->a.type == INFER_TYPE_F16 && f->data == t->a.data && t->a.bytes == 2 * 64 * 2);
    adapter_release(a);
}

static void test_more_lora(void **state)
{
    (void)state;
    struct infer_adapter *a = open_path(DATA "lora-rslora/");
    expect_target(a, "blk.0.attn_v.weight", 0, 8, 64, 32, 0x1.c48c60p+0f); /* 5 / sqrt(8) */
    assert_int_equal(target(a, "blk.0.attn_v.weight")->b.type, INFER_TYPE_BF16);
    assert_int_equal(a->n_targets, 9);
    adapter_release(a);
    a = open_path(DATA "lora-gpt2");
    expect_target(a, "blk.1.attn_qkv.weight", 1, 4, 64, 192, 1.25f);
    expect_target(a, "blk.0.ffn_down.weight", 0, 4, 128, 64, 1.25f);
    assert_int_equal(a->n_targets, 8);
    adapter_release(a);
    a = open_path(DATA "lora-layers");
    assert_int_equal(a->n_targets, 2);
    struct infer_adapter *bin = open_path(DATA "lora-bin"); /* the same numbers in a PyTorch file */
    assert_true(hash_128_equal(bin->hash, a->hash));
    adapter_release(bin);
    adapter_release(a);
    a = open_path(DATA "alora");
    assert_int_equal(a->n_invocation, 3);
    assert_true(a->invocation[0] == 17 && a->invocation[1] == 4 && a->invocation[2] == 99);
    adapter_release(a);
}

/* The GGUF twin: the same names, shapes and scales, and for a model whose rows are not permuted the same numbers. */
static void test_gguf(void **state)
{
    (void)state;
    static const char *const names[] = {"lora-r4", "lora-qwen2", "lora-gpt2"};
    for (size_t i = 0; i < COUNT(names); i++) {
        char path[256];
        struct infer_adapter *peft, *gguf;
        (void)snprintf(path, sizeof path, DATA "%s", names[i]);
        peft = open_path(path);
        (void)snprintf(path, sizeof path, DATA "%s.gguf", names[i]);
        gguf = open_path(path);
        assert_int_equal(gguf->order, ADAPTER_ORDER_GGUF);
        assert_string_equal(gguf->arch, i == 0 ? "llama" : i == 1 ? "qwen2" : "gpt2");
        assert_int_equal(gguf->n_targets, peft->n_targets);
        for (uint64_t k = 0; k < peft->n_targets; k++) {
            const struct adapter_target *p = &peft->targets[k], *g = &gguf->targets[k];
            assert_string_equal(p->name, g->name);
            assert_true(p->scale == g->scale && p->rank == g->rank && p->b.n_rows == g->b.n_rows);
            assert_memory_equal(p->a.data, g->a.data, (size_t)p->a.bytes);
            if (i > 0)
                assert_memory_equal(p->b.data, g->b.data, (size_t)p->b.bytes);
        }
        adapter_release(peft);
        adapter_release(gguf);
    }
}

static void test_steering(void **state)
{
    (void)state;
    struct infer_adapter *g = open_path(DATA "steering.gguf"), *s = open_path(DATA "steering.safetensors");
    assert_true(g->kind == ADAPTER_STEERING && s->kind == ADAPTER_STEERING);
    assert_true(g->n_directions == 2 && s->n_directions == 2 && g->width == 64);
    assert_true(g->directions[0].layer == 1 && g->directions[1].layer == 2);
    assert_memory_equal(g->directions[1].v.data, s->directions[1].v.data, 64 * 4);
    assert_string_equal(g->arch, "llama");
    assert_true(hash_128_equal(g->hash, s->hash)); /* of the content, whatever the format */
    adapter_release(g);
    adapter_release(s);
}

static void test_rows(void **state)
{
    (void)state;
    struct infer_adapter *a = open_path(DATA "soft-prompt");
    assert_true(a->kind == ADAPTER_SOFT_PROMPT && a->width == 64 && a->rows.n_rows == 5 && a->rows.n_cols == 64);
    adapter_release(a);
    a = open_path(DATA "prefix");
    assert_true(a->kind == ADAPTER_PREFIX && a->n_layers == 3 && a->n_kv == 32 && a->n_head_kv == 2);
    assert_true(a->rows.n_rows == 4 && a->rows.n_cols == 3 * 2 * 32 && a->order == ADAPTER_ORDER_HF);
    adapter_release(a);
}

/* All different, the same again however the file is read. */
static void test_hash(void **state)
{
    (void)state;
    static const char *const names[] = {"lora-r4",  "lora-r4.gguf", "lora-rslora", "lora-pattern", "lora-layers", "lora-gpt2", "lora-qwen2",
                                        "lora-gemma3", "alora", "batch1", "batch2", "batch3", "batch4", "batch5", "batch6",
                                        "batch7", "batch8", "soft-prompt", "prefix", "steering.gguf"};
    struct hash_128 hashes[COUNT(names)];
    for (size_t i = 0; i < COUNT(names); i++) {
        char path[256];
        (void)snprintf(path, sizeof path, DATA "%s", names[i]);
        struct infer_adapter *a = open_path(path), *b = open_as(path, INFER_MAP_READ);
        hashes[i] = a->hash;
        assert_true(hash_128_equal(a->hash, b->hash));
        assert_true(a->hash.lo || a->hash.hi);
        for (size_t k = 0; k < i; k++)
            assert_false(hash_128_equal(hashes[k], hashes[i]));
        adapter_release(a);
        adapter_release(b);
    }
}

/* Without files beside it: what says everything itself opens from memory, a LoRA of PEFT does not. */
static void test_memory(void **state)
{
    (void)state;
    if (!hash_available())
        skip();
    static const struct {
        const char *name;
        infer_status st;
    } cases[] = {{"lora-r4.gguf", INFER_OK}, {"steering.safetensors", INFER_OK}, {"soft-prompt/adapter_model.safetensors", INFER_OK},
                 {"lora-r4/adapter_model.safetensors", INFER_ERROR_MISSING}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char path[256];
        size_t len;
        struct infer_adapter *a;
        infer_error err;
        (void)snprintf(path, sizeof path, DATA "%s", cases[i].name);
        char *data = test_read_file(path, &len);
        infer_source s = {.size = sizeof s, .kind = INFER_SOURCE_MEMORY, .data = data, .length = len};
        assert_int_equal(adapter_open(&env_default, &s, INFER_MAP_AUTO, NULL, &a, &err), cases[i].st);
        if (cases[i].st == INFER_OK)
            adapter_release(a);
        else
            assert_non_null(strstr(err.text, "adapter_config.json"));
        free(data);
    }
}

static infer_status open_in_data(void *user, const char *name, uint64_t len, infer_stream *out)
{
    char path[512];
    char **held = user;
    size_t n;
    (void)snprintf(path, sizeof path, DATA "%.*s", (int)len, name);
    char *data = test_read_file(path, &n);
    if (!data)
        return INFER_ERROR_NOT_FOUND;
    for (; *held; held++)
        ;
    *held = data;
    out->data = data;
    out->length = n;
    return INFER_OK;
}

static void test_callback(void **state)
{
    (void)state;
    if (!hash_available())
        skip();
    static const char *const names[] = {"lora-r4/", "lora-r4/adapter_model.safetensors", "steering.gguf"};
    for (size_t i = 0; i < COUNT(names); i++) {
        char *held[4] = {0};
        struct infer_adapter *a = NULL;
        infer_error err;
        infer_source s = {.size = sizeof s, .kind = INFER_SOURCE_CALLBACK, .name = names[i], .name_len = strlen(names[i]),
                          .user = held, .open = open_in_data};
        infer_status st = adapter_open(&env_default, &s, INFER_MAP_AUTO, NULL, &a, &err);
        if (st != INFER_OK)
            fail_msg("%s: %s", names[i], err.text);
        adapter_release(a);
        for (size_t k = 0; k < COUNT(held); k++)
            free(held[k]);
    }
}

static void test_names(void **state)
{
    (void)state;
    static const struct {
        const char *hf, *gguf;
        uint32_t layer;
    } cases[] = {
        {"model.layers.0.self_attn.q_proj", "blk.0.attn_q.weight", 0},
        {"layers.12.mlp.gate_up_proj", "blk.12.ffn_up.weight", 12},
        {"model.language_model.layers.3.mlp.down_proj", "blk.3.ffn_down.weight", 3},
        {"transformer.h.511.attn.c_attn", "blk.511.attn_qkv.weight", 511},
        {"model.layers.1.block_sparse_moe.experts.7.w3", "blk.1.ffn_up.7.weight", 1},
        {"model.layers.26.mlp.experts.63.down_proj", "blk.26.ffn_down.63.weight", 26},
        {"model.layers.2.mlp.shared_experts.up_proj", "blk.2.ffn_up_shexp.weight", 2},
        {"model.layers.2.self_attn.kv_a_proj_with_mqa", "blk.2.attn_kv_a_mqa.weight", 2},
        {"encoder.layer.5.attention.self.query", "blk.5.attn_q.weight", 5},
        {"encoder.layer.5.attention.output.dense", "blk.5.attn_output.weight", 5},
        {"encoder.layer.5.output.dense", "blk.5.ffn_down.weight", 5},
        {"lm_head", "output.weight", ADAPTER_NO_LAYER},
        {"model.layers.4294967296.mlp.up_proj", "blk.4294967294.ffn_up.weight", UINT32_MAX - 1},
        {"model.layers.0.self_attn", NULL, 0},
        {"model.layers..self_attn.q_proj", NULL, 0},
        {"model.layers.x.self_attn.q_proj", NULL, 0},
        {"model.layers.0.self_attn.q_proj.more", NULL, 0},
        {"model.layers.0.mlp.experts..up_proj", NULL, 0},
        {"vision_tower.layers.0.self_attn.q_proj", NULL, 0},
        {"model.embed_tokens", NULL, 0},
        {"", NULL, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char name[ADAPTER_NAME_MAX];
        uint32_t layer = 0;
        bool known = adapter_hf_name(cases[i].hf, strlen(cases[i].hf), name, &layer);
        if (known != (cases[i].gguf != NULL))
            fail_msg("'%s': %s", cases[i].hf, known ? name : "unknown");
        if (known) {
            assert_string_equal(name, cases[i].gguf);
            assert_int_equal(layer, cases[i].layer);
        }
    }
}

/* Against Python: re.match(rf"(.*\.)?({pattern})$", name). -1: refused here. */
static void test_regular(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *name;
        int matches;
    } cases[] = {
        {"q_proj", "model.layers.0.self_attn.q_proj", 1},
        {"proj", "model.layers.0.self_attn.q_proj", 0}, /* whole parts only */
        {"self_attn.q_proj", "model.layers.0.self_attn.q_proj", 1},
        {"self_attn.q_proj", "model.layers.0.self_attnxq_proj", 1}, /* a dot is any character */
        {"self_attn\\.q_proj", "model.layers.0.self_attnxq_proj", 0},
        {"^model.layers.0.q", "model.layers.0.q", 1},
        {"^layers.0.q", "model.layers.0.q", 0},
        {"layers\\.[02]\\..*q", "model.layers.2.self_attn.q", 1},
        {"layers\\.[02]\\..*q", "model.layers.1.self_attn.q", 0},
        {"layers.[^1-3].q", "layers.4.q", 1},
        {"layers.[^1-3].q", "layers.2.q", 0},
        {"layers\\.\\d+\\.q$", "layers.12.q", 1},
        {"layers\\.\\d+\\.q", "layers..q", 0},
        {"layers\\.1?2\\.q", "layers.2.q", 1},
        {"layers\\.1?2\\.q", "layers.112.q", 0},
        {"a*b", "aaab", 1},
        {"a*?b", "aaab", 1},
        {"", "abc", 0},
        {"", "", 1},
        {"q$x", "q", 0},
        {"(q|k)_proj", "q_proj", -1},
        {"q{2}", "qq", -1},
        {"a|b", "a", -1},
        {"[a", "a", -1},
        {"*a", "a", -1},
        {"\\", "a", -1},
        {"\\bq", "q", -1},
        {"a*+b", "aab", -1},
        {"a*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", -1}, /* too many steps */
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        bool found = false;
        infer_status st = peft_pattern_match(cases[i].pattern, strlen(cases[i].pattern), cases[i].name, &found);
        int got = st == INFER_OK ? found : -1;
        if (got != cases[i].matches)
            fail_msg("'%s' on '%s': %d", cases[i].pattern, cases[i].name, got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_peft),    cmocka_unit_test(test_pattern), cmocka_unit_test(test_more_lora),
        cmocka_unit_test(test_gguf),    cmocka_unit_test(test_steering), cmocka_unit_test(test_rows),
        cmocka_unit_test(test_hash),    cmocka_unit_test(test_memory),  cmocka_unit_test(test_callback),
        cmocka_unit_test(test_names),   cmocka_unit_test(test_regular),
    };
    return cmocka_run_group_tests_name("adapter_file", tests, NULL, NULL);
}
