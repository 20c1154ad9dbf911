/* Adapters that are damaged, hostile (N13 of hostile-inputs) or of another method: refused by the name of the tensor or option. */
#include "testutil.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapters/adapter.h"
#include "failing_io.h"
#include "formats/gguf_build.h"
#include "formats/st_build.h"
#include "tempdir.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define DATA INFER_SOURCE_DIR "/tests/data/adapters/"
#define P "base_model.model.model.layers.0.self_attn.q_proj."
#define CONFIG "{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":4}"
/* A [2][4] and B [3][2] */
#define GOOD "{\"" P "lora_A.weight\":{\"dtype\":\"F32\",\"shape\":[2,4],\"data_offsets\":[0,32]},\"" P                                 \
             "lora_B.weight\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[32,56]}}"

/* What to change of one of the adapters above: the configuration, or the header of the file. */
static infer_status open_source(const infer_source *s, const struct env *env, infer_error *err)
{
    struct infer_adapter *a;
    infer_status st = adapter_open(env, s, INFER_MAP_AUTO, NULL, &a, err);
    if (st == INFER_OK)
        adapter_release(a);
    return st;
}

static infer_status open_folder(const char *config, const void *file, size_t len, infer_error *err)
{
    struct test_alloc ta = {0};
    struct env env = test_env_of(&ta);
    const char *dir = tempdir_make();
    infer_source s = {.size = sizeof s, .kind = INFER_SOURCE_PATH, .name = dir, .name_len = strlen(dir)};
    if (config)
        tempdir_write("adapter_config.json", config, strlen(config));
    if (file)
        tempdir_write("adapter_model.safetensors", file, len);
    infer_status st = open_source(&s, &env, err);
    tempdir_remove();
    assert_int_equal(ta.live, 0);
    return st;
}

static void expect(const char *config, const char *header, size_t n_data, infer_status status, const char *name, const char *says)
{
    struct buf b;
    infer_error err = {.text = ""};
    if (!hash_available())
        skip();
    st_build(&b, header, UINT64_MAX, n_data);
    infer_status st = open_folder(config, b.data, b.len, &err);
    if (st != status)
        fail_msg("%s: status %d (%s), not %d", says, st, st ? err.text : "", status);
    if (st != INFER_OK) {
        if (strcmp(err.name, name) || !strstr(err.text, says))
            fail_msg("'%s': '%s' is not '%s': '%s'", err.name, err.text, name, says);
        assert_non_null(strstr(err.file, "adapter_"));
    }
    buf_free(&b);
}

static void test_config(void **state)
{
    (void)state;
    static const struct {
        const char *config;
        infer_status st;
        const char *name, *says;
    } cases[] = {
        {CONFIG, INFER_OK, "", ""},
        {"{\"peft_type\":\"LORA\",\"lora_rank\":2,\"lora_alpha\":4.5,\"bias\":\"none\",\"modules_to_save\":null,\"use_dora\":false}", INFER_OK, "", ""},
        {"{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":4", INFER_ERROR_SYNTAX, "", "JSON"},
        {"[]", INFER_ERROR_FORMAT, "", "not a JSON object"},
        {"{}", INFER_ERROR_MISSING, "peft_type", "method"},
        {"{\"peft_type\":7}", INFER_ERROR_VALUE, "peft_type", "string"},
        {"{\"peft_type\":\"LOHA\"}", INFER_ERROR_UNSUPPORTED, "peft_type", "'LOHA'"},
        {"{\"peft_type\":\"ADALORA\"}", INFER_ERROR_UNSUPPORTED, "peft_type", "'ADALORA'"},
        {"{\"peft_type\":\"LORA\",\"lora_alpha\":4}", INFER_ERROR_MISSING, "r", "rank"},
        {"{\"peft_type\":\"LORA\",\"r\":2}", INFER_ERROR_MISSING, "lora_alpha", "scale"},
        {"{\"peft_type\":\"LORA\",\"r\":0,\"lora_alpha\":4}", INFER_ERROR_VALUE, "r", "rank"},
        {"{\"peft_type\":\"LORA\",\"r\":-2,\"lora_alpha\":4}", INFER_ERROR_VALUE, "r", "rank"},
        {"{\"peft_type\":\"LORA\",\"r\":4097,\"lora_alpha\":4}", INFER_ERROR_VALUE, "r", "rank"},
        {"{\"peft_type\":\"LORA\",\"r\":2.0,\"lora_alpha\":4}", INFER_ERROR_VALUE, "r", "rank"},
        {"{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":\"4\"}", INFER_ERROR_VALUE, "lora_alpha", "finite"},
        {"{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":1e999}", INFER_ERROR_VALUE, "lora_alpha", "finite"},
        {"{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":1e40}", INFER_ERROR_VALUE, P "lora_A.weight", "scale"},
        {"{\"peft_type\":\"LORA\",\"r\":3,\"lora_alpha\":4}", INFER_ERROR_SHAPE, P "lora_A.weight", "rank 2"},
        {"{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":4,\"use_dora\":true}", INFER_ERROR_UNSUPPORTED, "use_dora", "use_dora"},
        {"{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":4,\"bias\":\"all\"}", INFER_ERROR_UNSUPPORTED, "bias", "biases"},
        {"{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":4,\"modules_to_save\":[\"lm_head\"]}", INFER_ERROR_UNSUPPORTED, "modules_to_save", "option"},
        {"{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":4,\"lora_bias\":true}", INFER_ERROR_UNSUPPORTED, "lora_bias", "option"},
        {"{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":4,\"of_next_year\":{\"a\":1}}", INFER_ERROR_UNSUPPORTED, "of_next_year", "option"},
        {"{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":4,\"init_lora_weights\":\"pissa_niter_16\"}", INFER_ERROR_UNSUPPORTED,
         "init_lora_weights", "pissa_niter_16"},
        {"{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":4,\"rank_pattern\":[]}", INFER_ERROR_VALUE, "rank_pattern", "object"},
        {"{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":4,\"rank_pattern\":{\"q_proj\":0}}", INFER_ERROR_VALUE, "rank_pattern", "rank"},
        {"{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":4,\"alpha_pattern\":{\"q_proj\":null}}", INFER_ERROR_VALUE, "alpha_pattern", "finite"},
        {"{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":4,\"alpha_pattern\":{\"(q|v)_proj\":3}}", INFER_ERROR_UNSUPPORTED, "(q|v)_proj",
         "regular expression"},
        {"{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":4,\"alora_invocation_tokens\":[]}", INFER_ERROR_VALUE, "alora_invocation_tokens", "1 to 1024"},
        {"{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":4,\"alora_invocation_tokens\":[1,-1]}", INFER_ERROR_VALUE, "alora_invocation_tokens", "ids"},
        {"{\"peft_type\":\"PREFIX_TUNING\"}", INFER_ERROR_MISSING, "prompt_embeddings", "absent"},
        {"{\"peft_type\":\"PROMPT_TUNING\",\"num_virtual_tokens\":-1}", INFER_ERROR_VALUE, "num_virtual_tokens", "range"},
        {"{\"peft_type\":\"PROMPT_TUNING\",\"num_transformer_submodules\":2}", INFER_ERROR_UNSUPPORTED, "num_transformer_submodules", "encoder"},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        expect(cases[i].config, GOOD, 56, cases[i].st, cases[i].name, cases[i].says);
}

/* One more tensor, F32 [2][2], behind A and B. */
#define MORE(name)                                                                                                                         \
    "{\"" P "lora_A.weight\":{\"dtype\":\"F32\",\"shape\":[2,4],\"data_offsets\":[0,32]},\"" P                                             \
    "lora_B.weight\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[32,56]},\"" name                                                 \
    "\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[56,72]}}"
/* One pair of these shapes, F32. */
#define PAIR(module, type, a, a_end, b, b_end)                                                                                             \
    "{\"" module "lora_A.weight\":{\"dtype\":\"" type "\",\"shape\":" a ",\"data_offsets\":[0," a_end "]},\"" module                      \
    "lora_B.weight\":{\"dtype\":\"" type "\",\"shape\":" b ",\"data_offsets\":[" a_end "," b_end "]}}"

static void test_tensors(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t n_data;
        infer_status st;
        const char *name, *says;
    } cases[] = {
        {"{\"" P "lora_A.weight\":{\"dtype\":\"F32\",\"shape\":[600000,1,0],\"data_offsets\":[0,0]}}", 0, INFER_ERROR_LIMIT, "", "targets"},
        {MORE(P "lora_magnitude_vector"), 72, INFER_ERROR_UNSUPPORTED, P "lora_magnitude_vector", "DoRA"},
        {MORE(P "hada_w1_a"), 72, INFER_ERROR_UNSUPPORTED, P "hada_w1_a", "LoHa"},
        {MORE(P "lora_B.bias"), 72, INFER_ERROR_UNSUPPORTED, P "lora_B.bias", "biases"},
        {MORE("base_model.model.lm_head.weight"), 72, INFER_ERROR_UNSUPPORTED, "base_model.model.lm_head.weight", "no part of a LoRA"},
        {MORE("base_model.model.model.embed_tokens.lora_embedding_A"), 72, INFER_ERROR_UNSUPPORTED,
         "base_model.model.model.embed_tokens.lora_embedding_A", "embedding"},
        {MORE("model.layers.0.self_attn.q_proj.lora_A.weight"), 72, INFER_ERROR_FORMAT, "model.layers.0.self_attn.q_proj.lora_A.weight", "two tensors"},
        {MORE("base_model.model.model.layers.0.self_attn.k_proj.lora_A.weight"), 72, INFER_ERROR_FORMAT,
         "base_model.model.model.layers.0.self_attn.k_proj.lora_A.weight", "no B"},
        {MORE("base_model.model.model.layers.0.self_attn.k_proj.lora_B.weight"), 72, INFER_ERROR_FORMAT,
         "base_model.model.model.layers.0.self_attn.k_proj.lora_B.weight", "no A"},
        {MORE("base_model.model.model.layers.0.router.lora_A.weight"), 72, INFER_ERROR_UNSUPPORTED,
         "base_model.model.model.layers.0.router.lora_A.weight", "no known matrix"},
        {PAIR(P, "F32", "[2,4]", "32", "[2,3]", "56"), 56, INFER_ERROR_SHAPE, P "lora_A.weight", "disagree"},
        {PAIR(P, "F32", "[2,1,4]", "32", "[3,2]", "56"), 56, INFER_ERROR_SHAPE, P "lora_A.weight", "2 dimensions"},
        {PAIR(P, "F32", "[0,4]", "0", "[3,0]", "0"), 0, INFER_ERROR_VALUE, P "lora_A.weight", "rank 0"},
        {PAIR(P, "F32", "[4097,1]", "16388", "[1,4097]", "32776"), 32776, INFER_ERROR_LIMIT, P "lora_A.weight", "rank 4097"},
        {PAIR(P, "F64", "[2,4]", "64", "[3,2]", "112"), 112, INFER_ERROR_UNSUPPORTED, P "lora_A.weight", "type F64"},
        {PAIR(P, "F8_E4M3", "[2,4]", "8", "[3,2]", "14"), 14, INFER_ERROR_UNSUPPORTED, P "lora_A.weight", "type F8"},
        {PAIR("base_model.model.model.layers.512.mlp.up_proj.", "F32", "[2,4]", "32", "[3,2]", "56"), 56, INFER_ERROR_VALUE,
         "base_model.model.model.layers.512.mlp.up_proj.lora_A.weight", "layer"},
        {PAIR("base_model.model.model.layers.99999999999999999999.mlp.up_proj.", "F32", "[2,4]", "32", "[3,2]", "56"), 56, INFER_ERROR_VALUE,
         "base_model.model.model.layers.99999999999999999999.mlp.up_proj.lora_A.weight", "layer"},
        {"{}", 0, INFER_ERROR_MISSING, "", "no tensors"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *says = !strcmp(cases[i].says, "disagree") ? "the rows of B have 3" : cases[i].says;
        expect(CONFIG, cases[i].header, cases[i].n_data, cases[i].st, cases[i].name, says);
    }
}

/* An infinity or NaN at every place of a tensor, in each type. */
static void test_not_finite(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t size, n;
        uint32_t bad[3];
    } cases[] = {
        {GOOD, 4, 14, {0x7F800000, 0xFF800000, 0x7FC00001}},
        {PAIR(P, "F16", "[2,4]", "16", "[3,2]", "28"), 2, 14, {0x7C00, 0xFC00, 0x7C01}},
        {PAIR(P, "BF16", "[2,4]", "16", "[3,2]", "28"), 2, 14, {0x7F80, 0xFF80, 0xFFFF}},
    };
    if (!hash_available())
        skip();
    for (size_t i = 0; i < COUNT(cases); i++)
        for (size_t at = 0; at < cases[i].n; at++) {
            struct buf b;
            infer_error err;
            st_build(&b, cases[i].header, UINT64_MAX, cases[i].size * cases[i].n);
            memcpy(b.data + b.len - cases[i].size * (cases[i].n - at), &cases[i].bad[at % 3], cases[i].size);
            assert_int_equal(open_folder(CONFIG, b.data, b.len, &err), INFER_ERROR_VALUE);
            assert_non_null(strstr(err.text, "not finite"));
            assert_non_null(strstr(err.name, at < 8 ? "lora_A" : "attn_q"));
            buf_free(&b);
        }
}

static void test_rows(void **state)
{
    (void)state;
#define ROWS "{\"prompt_embeddings\":{\"dtype\":\"F32\",\"shape\":[2,8],\"data_offsets\":[0,64]}}"
#define PREFIX(more) "{\"peft_type\":\"PREFIX_TUNING\"," more "}"
    static const struct {
        const char *config;
        infer_status st;
        const char *name, *says;
    } cases[] = {
        {"{\"peft_type\":\"PROMPT_TUNING\"}", INFER_OK, "", ""},
        {"{\"peft_type\":\"P_TUNING\",\"token_dim\":8,\"num_virtual_tokens\":2}", INFER_OK, "", ""},
        {"{\"peft_type\":\"PROMPT_TUNING\",\"token_dim\":9}", INFER_ERROR_SHAPE, "prompt_embeddings", "says 9"},
        {"{\"peft_type\":\"PROMPT_TUNING\",\"num_virtual_tokens\":3}", INFER_ERROR_SHAPE, "prompt_embeddings", "says 3"},
        {"{\"peft_type\":\"MULTITASK_PROMPT_TUNING\"}", INFER_ERROR_UNSUPPORTED, "peft_type", "MULTITASK"},
        {PREFIX("\"token_dim\":2,\"num_layers\":2,\"num_attention_heads\":1"), INFER_OK, "", ""},
        {PREFIX("\"num_layers\":2"), INFER_ERROR_MISSING, "token_dim", "must tell"},
        {PREFIX("\"token_dim\":2,\"num_layers\":3,\"num_attention_heads\":1"), INFER_ERROR_SHAPE, "prompt_embeddings", "says 12"},
        {PREFIX("\"token_dim\":2,\"num_layers\":2,\"num_attention_heads\":3"), INFER_ERROR_VALUE, "num_attention_heads", "whole heads"},
        {CONFIG, INFER_ERROR_UNSUPPORTED, "prompt_embeddings", "no part of a LoRA"},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        expect(cases[i].config, ROWS, 64, cases[i].st, cases[i].name, cases[i].says);
}

/* ---- Steering and GGUF, from memory ---- */

static void expect_bytes(struct buf *b, infer_status status, const char *name, const char *says)
{
    struct test_alloc ta = {0};
    struct env env = test_env_of(&ta);
    infer_error err = {.text = ""};
    if (!hash_available())
        skip();
    infer_source s = {.size = sizeof s, .kind = INFER_SOURCE_MEMORY, .data = b->data, .length = b->len};
    infer_status st = open_source(&s, &env, &err);
    if (st != status || (st != INFER_OK && (strcmp(err.name, name) || !strstr(err.text, says))))
        fail_msg("status %d, '%s': '%s' is not %d, '%s': '%s'", st, err.name, err.text, status, name, says);
    assert_int_equal(ta.live, 0);
    buf_free(b);
}

#define D(name, shape, begin, end) "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"

static void test_directions(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        infer_status st;
        const char *name, *says;
    } cases[] = {
        {"{" D("direction.0", "[8]", "0", "32") "," D("direction.511", "[1,8]", "32", "64") "}", INFER_OK, "", ""},
        {"{" D("directions", "[2,8]", "0", "64") "}", INFER_OK, "", ""},
        {"{" D("direction.512", "[16]", "0", "64") "}", INFER_ERROR_VALUE, "direction.512", "out of range"},
        {"{" D("direction.18446744073709551617", "[16]", "0", "64") "}", INFER_ERROR_VALUE, "direction.18446744073709551617", "out of range"},
        {"{" D("direction.-1", "[16]", "0", "64") "}", INFER_ERROR_FORMAT, "direction.-1", "malformed"},
        {"{" D("direction.1x", "[16]", "0", "64") "}", INFER_ERROR_FORMAT, "direction.1x", "malformed"},
        {"{" D("direction.1", "[8]", "0", "32") "," D("direction.01", "[8]", "32", "64") "}", INFER_ERROR_FORMAT, "direction.01", "two directions"},
        {"{" D("direction.1", "[8]", "0", "32") "," D("direction.2", "[4,2]", "32", "64") "}", INFER_ERROR_SHAPE, "direction.2", "1 dimension"},
        {"{" D("direction.1", "[12]", "0", "48") "," D("direction.2", "[4]", "48", "64") "}", INFER_ERROR_SHAPE, "direction.2", "length differs"},
        {"{" D("direction.1", "[12]", "0", "48") "," D("other", "[4]", "48", "64") "}", INFER_ERROR_UNSUPPORTED, "other", "no part"},
        {"{" D("directions", "[16]", "0", "64") "}", INFER_ERROR_SHAPE, "directions", "a row a layer"},
        {"{" D("something", "[16]", "0", "64") "}", INFER_ERROR_UNSUPPORTED, "", "not an adapter"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf b;
        st_build(&b, cases[i].header, UINT64_MAX, 64);
        expect_bytes(&b, cases[i].st, cases[i].name, cases[i].says);
    }
}

/* A GGUF LoRA of one pair with these names, shapes [in, rank] and [rank, out], all zero; experts: a third dimension. */
static void build_gguf(struct buf *b, const char *type, const char *a, const char *bb, uint64_t rank_b, uint64_t experts)
{
    uint64_t dims_a[3] = {32, 2, experts}, dims_b[3] = {rank_b, 3, experts};
    uint32_t n = experts ? 3 : 2;
    gb_header(b, 3, 2, 5);
    gb_key(b, "adapter.lora.alpha", FILE_F32), buf_put(b, &(float){5}, 4);
    gb_meta_array(b, "adapter.alora.invocation_tokens", FILE_U32, 2), gb_u32(b, 7), gb_u32(b, 9);
    gb_meta_str(b, "general.architecture", "llama");
    gb_meta_str(b, "general.type", "adapter");
    gb_meta_str(b, "adapter.type", type);
    gb_tensor(b, a, INFER_TYPE_F32, n, dims_a, 0);
    gb_tensor(b, bb, INFER_TYPE_F32, n, dims_b, 4096);
    gb_align(b, 32);
    for (int i = 0; i < 8192; i++)
        buf_putc(b, 0);
}

static void test_gguf(void **state)
{
    (void)state;
    static const struct {
        const char *type, *a, *b;
        uint64_t rank_b, experts;
        infer_status st;
        const char *name, *says;
    } cases[] = {
        {"lora", "blk.0.attn_q.weight.lora_a", "blk.0.attn_q.weight.lora_b", 2, 0, INFER_OK, "", ""},
        {"lora", "blk.0.ffn_up_exps.weight.lora_a", "blk.0.ffn_up_exps.weight.lora_b", 2, 4, INFER_OK, "", ""},
        {"loha", "blk.0.attn_q.weight.lora_a", "blk.0.attn_q.weight.lora_b", 2, 0, INFER_ERROR_UNSUPPORTED, "adapter.type", "'loha'"},
        {"lora", "blk.0.attn_q.weight.lora_a", "blk.0.attn_q.weight.lora_c", 2, 0, INFER_ERROR_UNSUPPORTED, "blk.0.attn_q.weight.lora_c", "no part"},
        {"lora", "blk.0.attn_q.weight.lora_a", "blk.0.attn_q.weight.lora_b", 3, 0, INFER_ERROR_SHAPE, "blk.0.attn_q.weight.lora_a", "rows of B"},
        {"lora", "blk.512.attn_q.weight.lora_a", "blk.512.attn_q.weight.lora_b", 2, 0, INFER_ERROR_VALUE, "blk.512.attn_q.weight.lora_a", "layer"},
        {"lora", "token_embd.weight.lora_a", "token_embd.weight.lora_b", 2, 0, INFER_ERROR_UNSUPPORTED, "token_embd.weight.lora_a", "embedding"},
        {"lora", "other.lora_a", "other.lora_b", 2, 0, INFER_ERROR_UNSUPPORTED, "other.lora_a", "no matrix"},
        {"lora", "blk.0.attn_q.weight.lora_a", "blk.0.attn_q.weight.lora_b", 2, 4, INFER_ERROR_SHAPE, "blk.0.attn_q.weight.lora_a", "2 dimensions"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf b;
        build_gguf(&b, cases[i].type, cases[i].a, cases[i].b, cases[i].rank_b, cases[i].experts);
        expect_bytes(&b, cases[i].st, cases[i].name, cases[i].says);
    }
}

/* A stack of experts is a target for each, of its own rows. */
static void test_experts(void **state)
{
    (void)state;
    struct buf b;
    struct infer_adapter *a = NULL;
    infer_error err;
    if (!hash_available())
        skip();
    build_gguf(&b, "lora", "blk.7.ffn_up_exps.weight.lora_a", "blk.7.ffn_up_exps.weight.lora_b", 2, 12);
    infer_source s = {.size = sizeof s, .kind = INFER_SOURCE_MEMORY, .data = b.data, .length = b.len};
    assert_int_equal(adapter_open(&env_default, &s, INFER_MAP_AUTO, NULL, &a, &err), INFER_OK);
    assert_int_equal(a->n_targets, 12);
    const struct adapter_target *t = adapter_find_target(a, "blk.7.ffn_up.11.weight");
    assert_non_null(t);
    assert_true(t->layer == 7 && t->rank == 2 && t->b.n_rows == 3 && t->scale == 2.5f);
    assert_true(a->n_invocation == 2 && a->invocation[0] == 7 && a->invocation[1] == 9);
    assert_ptr_equal(t->a.data, (const uint8_t *)a->file->tensors[0].data + 11 * 2 * 32 * 4);
    assert_ptr_equal(t->b.data, (const uint8_t *)a->file->tensors[1].data + 11 * 3 * 2 * 4);
    adapter_release(a);
    buf_free(&b);
}

/* ---- What fails outside ---- */

static void test_folders(void **state)
{
    (void)state;
    infer_error err;
    struct buf b;
    if (!hash_available())
        skip();
    assert_int_equal(open_folder(NULL, NULL, 0, &err), INFER_ERROR_MISSING);
    assert_non_null(strstr(err.text, "adapter_config.json"));
    assert_int_equal(open_folder(CONFIG, NULL, 0, &err), INFER_ERROR_MISSING);
    assert_non_null(strstr(err.text, "adapter_model.safetensors"));
    assert_int_equal(open_folder(CONFIG, "not a file", 10, &err), INFER_ERROR_FORMAT);
    st_build(&b, GOOD, UINT64_MAX, 56);
    assert_int_equal(open_folder(CONFIG, b.data, b.len, &err), INFER_OK);
    buf_free(&b);
    const char *path = DATA "no-such-adapter";
    infer_source s = {.size = sizeof s, .kind = INFER_SOURCE_PATH, .name = path, .name_len = strlen(path)};
    assert_int_equal(open_source(&s, &env_default, &err), INFER_ERROR_NOT_FOUND);
}

static void test_allocation_failures(void **state)
{
    (void)state;
    static const char *const names[] = {DATA "lora-pattern", DATA "lora-r4.gguf", DATA "steering.gguf", DATA "prefix"};
    if (!hash_available())
        skip();
    for (size_t i = 0; i < COUNT(names); i++)
        for (uint64_t k = 1;; k++) {
            struct test_alloc ta = {.fail_at = k};
            struct env env = test_env_of(&ta);
            infer_error err;
            infer_source s = {.size = sizeof s, .kind = INFER_SOURCE_PATH, .name = names[i], .name_len = strlen(names[i])};
            infer_status st = open_source(&s, &env, &err);
            assert_int_equal(ta.live, 0);
            if (ta.calls < k) {
                assert_int_equal(st, INFER_OK);
                assert_true(k > 5);
                break;
            }
            assert_int_equal(st, INFER_ERROR_NO_MEMORY);
        }
}

static void test_io_failures(void **state)
{
    (void)state;
    const char *path = DATA "lora-pattern";
    struct env env = env_default;
    env.io = &failing_io_ops;
    if (!hash_available())
        skip();
    for (uint64_t k = 1;; k++) {
        infer_error err;
        infer_source s = {.size = sizeof s, .kind = INFER_SOURCE_PATH, .name = path, .name_len = strlen(path)};
        failing_io_set(k, 5);
        infer_status st = open_source(&s, &env, &err);
        assert_int_equal(failing_io.open, 0);
        assert_int_equal(failing_io.maps, 0);
        if (failing_io.calls < k) {
            assert_int_equal(st, INFER_OK);
            assert_true(k > 4);
            break;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config),  cmocka_unit_test(test_tensors),    cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_rows),    cmocka_unit_test(test_directions), cmocka_unit_test(test_gguf),
        cmocka_unit_test(test_experts), cmocka_unit_test(test_folders),    cmocka_unit_test(test_allocation_failures),
        cmocka_unit_test(test_io_failures),
    };
    return cmocka_run_group_tests_name("adapter_file_bad", tests, NULL, NULL);
}
