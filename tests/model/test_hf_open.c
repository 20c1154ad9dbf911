/* Opening Hugging Face folders: every way to name one, shards, and what is refused. The folders are served from memory. */
#include "testutil.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/dtype.h"
#include "failing_io.h"
#include "formats/zip_build.h"
#include "model/hf.h"

#define FIXTURE INFER_SOURCE_DIR "/tests/data/fixtures/llama3-rope"

/* ---- A folder in memory ---- */

struct member {
    char name[64];
    char *data; /* malloc'ed */
    size_t len;
};
static struct member folder[16];
static int n_folder;

static void put(const char *name, const void *data, size_t len)
{
    struct member *m = NULL;
    for (int i = 0; i < n_folder && !m; i++)
        if (!strcmp(folder[i].name, name))
            m = &folder[i];
    if (!m)
        m = &folder[n_folder++];
    char *copy = malloc(len + 1);
    memcpy(copy, data, len);
    copy[len] = 0;
    free(m->data);
    m->data = copy;
    m->len = len;
    (void)snprintf(m->name, sizeof m->name, "%s", name);
}

static void put_text(const char *name, const char *text)
{
    put(name, text, strlen(text));
}

static void put_fixture(const char *name)
{
    char path[512];
    size_t len;
    (void)snprintf(path, sizeof path, FIXTURE "/%s", name);
    char *data = test_read_file(path, &len);
    assert_non_null(data);
    put(name, data, len);
    free(data);
}

static void take_away(const char *name)
{
    for (int i = 0; i < n_folder; i++)
        if (!strcmp(folder[i].name, name))
            folder[i].name[0] = 0;
}

static int clear(void **state)
{
    (void)state;
    for (int i = 0; i < n_folder; i++)
        free(folder[i].data);
    memset(folder, 0, sizeof folder);
    n_folder = 0;
    return 0;
}

static int fresh(void **state)
{
    clear(state);
    put_fixture("config.json");
    put_fixture("model.safetensors");
    return 0;
}

/* The folder is called "m". */
static infer_status open_member(void *user, const char *name, uint64_t len, infer_stream *out)
{
    (void)user;
    for (int i = 0; i < n_folder && len > 2 && !memcmp(name, "m/", 2); i++)
        if (strlen(folder[i].name) == len - 2 && !memcmp(folder[i].name, name + 2, len - 2)) {
            out->data = folder[i].data;
            out->length = folder[i].len;
            return INFER_OK;
        }
    return INFER_ERROR_NOT_FOUND;
}

static infer_status open_as(const char *name, enum hf_use use, struct infer_file **out, infer_error *err)
{
    infer_source s;
    struct hf_options o = {use, INFER_MAP_AUTO, NULL, NULL};
    infer_source_callback(&s, name, strlen(name), open_member, NULL);
    return hf_open(&env_default, &s, &o, out, err);
}

static void expect(infer_status status, const char *name, const char *says)
{
    struct infer_file *f = NULL;
    infer_error err = {0};
    infer_status st = open_as("m", HF_AS_MODEL, &f, &err);
    if (st != status)
        fail_msg("%s: status %d (%s: %s), not %d", says, st, err.name, st ? err.text : "", status);
    if (st == INFER_OK) {
        file_release(f);
        return;
    }
    assert_int_equal(err.code, status);
    assert_string_equal(err.name, name);
    if (!strstr(err.text, says))
        fail_msg("'%s' does not say '%s'", err.text, says);
    if (strncmp(err.file, "m/", 2) != 0)
        fail_msg("%s: the error names the file '%s'", says, err.file);
}

/* config.json with one piece of text replaced; the original comes back next time. */
static void edit(const char *from, const char *to)
{
    struct buf b;
    put_fixture("config.json");
    const struct member *m = &folder[0];
    const char *at = strstr(m->data, from);
    if (!at)
        fail_msg("no '%s' in config.json", from);
    buf_init(&b, &alloc_default, 0);
    buf_put(&b, m->data, (size_t)(at - m->data));
    buf_puts(&b, to);
    buf_puts(&b, at + strlen(from));
    put("config.json", b.data, b.len);
    buf_free(&b);
}

static uint32_t get_u32(const struct infer_file *f, const char *key)
{
    uint32_t v = 0;
    assert_int_equal(file_get_u32(f, key, &v, NULL), INFER_OK);
    return v;
}

static float get_f32(const struct infer_file *f, const char *key)
{
    float v = 0;
    if (file_get_f32(f, key, &v, NULL) != INFER_OK)
        fail_msg("no %s", key);
    return v;
}

/* ---- Ways to name it ---- */

static void check_folder(const struct infer_file *f)
{
    struct file_str s;
    assert_int_equal(file_get_string(f, "general.architecture", &s, NULL), INFER_OK);
    assert_true(s.len == 5 && !memcmp(s.data, "llama", 5));
    assert_int_equal(get_u32(f, "llama.block_count"), 2);
    assert_int_equal(get_u32(f, "llama.attention.key_length"), 32);
    assert_true(get_f32(f, "llama.rope.freq_base") == 10000.0f);
    const struct file_tensor *t = file_find_tensor(f, "blk.1.attn_k.weight", 19);
    assert_true(t && t->dims[0] == 64 && t->dims[1] == 32 && t->type == INFER_TYPE_F32 && t->part == 1);
    t = file_find_tensor(f, "rope_freqs.weight", 17);
    assert_true(t && t->part == 0 && t->n == 16 && ((const float *)t->data)[0] == 1.0f && ((const float *)t->data)[15] == 8.0f);
    assert_null(file_find_tensor(f, "output.weight", 13)); /* tied */
    assert_int_equal(f->n_tensors, 2 + 2 * 9 + 1);
}

static void test_names(void **state)
{
    (void)state;
    static const char *const by_path[] = {FIXTURE, FIXTURE "/", FIXTURE "/config.json", FIXTURE "/model.safetensors"};
    static const char *const by_callback[] = {"m", "m/", "m/config.json", "m/model.safetensors"};
    infer_error err;
    for (int way = 0; way < 8; way++)
        for (int32_t map = INFER_MAP_AUTO; map <= INFER_MAP_READ; map++) {
            infer_source s;
            struct infer_file *f;
            struct hf_options o = {HF_AS_MODEL, map, NULL, NULL};
            if (way < 4)
                infer_source_path(&s, by_path[way], strlen(by_path[way]));
            else
                infer_source_callback(&s, by_callback[way - 4], strlen(by_callback[way - 4]), open_member, NULL);
            if (hf_open(&env_default, &s, &o, &f, &err) != INFER_OK)
                fail_msg("%s: %s (%s)", s.name, err.text, err.file);
            check_folder(f);
            assert_int_equal(file_check(f, NULL), INFER_OK);
            file_release(f);
        }
}

static void test_uses(void **state)
{
    (void)state;
    struct infer_file *f;
    infer_error err;
    assert_int_equal(open_as("m", HF_AS_FILE, &f, &err), INFER_OK);
    check_folder(f);
    file_release(f);
    assert_int_equal(open_as("m/model.safetensors", HF_AS_FILE, &f, &err), INFER_OK); /* the file itself */
    assert_non_null(file_find_tensor(f, "model.layers.1.self_attn.k_proj.weight", 38));
    file_release(f);
    put_text("tokenizer.json", "{\"model\": {}}");
    put_text("tokenizer_config.json",
             "{\"bos_token\": \"<s>\", \"eos_token\": {\"content\": \"</s>\"}, \"add_bos_token\": true, \"chat_template\": "
             "[{\"name\": \"tools\", \"template\": \"T\"}, {\"name\": \"default\", \"template\": \"D\"}],"
             "\"added_tokens_decoder\": {\"7\": {\"content\": \"<s>\"}, \"9\": {\"content\": \"</s>\"}}}");
    put_text("generation_config.json", "{\"eos_token_id\": [9, 11]}");
    put_text("model.safetensors", "damaged");
    for (int i = 0; i < 2; i++) { /* needs no weights, and no config */
        bool b = false;
        struct file_str s;
        struct file_array ids;
        assert_int_equal(open_as("m/tokenizer.json", HF_AS_TEXT, &f, &err), INFER_OK);
        assert_int_equal(file_get_string(f, "tokenizer.huggingface.json", &s, NULL), INFER_OK);
        assert_true(s.len == 13 && !memcmp(s.data, "{\"model\": {}}", 13));
        if (i == 0) {
            assert_int_equal(get_u32(f, "tokenizer.ggml.bos_token_id"), 7);
            assert_int_equal(get_u32(f, "tokenizer.ggml.eos_token_id"), 9);
            assert_int_equal(file_get_ints(f, "tokenizer.huggingface.eos_token_ids", &ids, NULL), INFER_OK);
            assert_true(ids.count == 2 && file_array_int(&ids, 0) == 9 && file_array_int(&ids, 1) == 11);
            assert_int_equal(file_get_bool(f, "tokenizer.ggml.add_bos_token", &b, NULL), INFER_OK);
            assert_true(b);
            assert_int_equal(file_get_string(f, "tokenizer.huggingface.bos_token", &s, NULL), INFER_OK);
            assert_true(s.len == 3 && !memcmp(s.data, "<s>", 3));
            assert_int_equal(file_get_string(f, "tokenizer.chat_template", &s, NULL), INFER_OK);
            assert_true(s.len == 1 && s.data[0] == 'D');
            put_text("chat_template.jinja", "J");
            file_release(f);
            assert_int_equal(open_as("m", HF_AS_TEXT, &f, &err), INFER_OK);
            assert_int_equal(file_get_string(f, "tokenizer.chat_template", &s, NULL), INFER_OK);
            assert_true(s.len == 1 && s.data[0] == 'J');
        }
        assert_int_equal(f->n_tensors, 0);
        file_release(f);
        take_away("config.json");
    }
    assert_int_equal(open_as("m/tokenizer.json", HF_AS_FILE, &f, &err), INFER_OK);
    assert_int_equal(f->n_meta, 1);
    file_release(f);
}

static void test_not_there(void **state)
{
    (void)state;
    struct infer_file *f = NULL;
    infer_error err;
    infer_source s;
    struct hf_options o = {HF_AS_MODEL, INFER_MAP_AUTO, NULL, NULL};
    static const char *const paths[] = {"/nowhere/at/all", FIXTURE "/none", INFER_SOURCE_DIR "/tests"};
    for (size_t i = 0; i < 3; i++) {
        infer_source_path(&s, paths[i], strlen(paths[i]));
        assert_int_equal(hf_open(&env_default, &s, &o, &f, &err), INFER_ERROR_NOT_FOUND);
    }
    assert_true(strstr(err.text, "no config.json") && !strcmp(err.name, "config.json"));
    assert_int_equal(open_as("x", HF_AS_MODEL, &f, &err), INFER_ERROR_NOT_FOUND);
    infer_source_memory(&s, folder[1].data, folder[1].len);
    assert_int_equal(hf_open(&env_default, &s, &o, &f, &err), INFER_ERROR_NOT_FOUND);
    assert_true(strstr(err.text, "weights alone") != NULL);
    infer_source_memory(&s, folder[0].data, folder[0].len);
    assert_int_equal(hf_open(&env_default, &s, &o, &f, &err), INFER_ERROR_FORMAT);
    take_away("model.safetensors");
    expect(INFER_ERROR_NOT_FOUND, "model.safetensors", "no weights");
    put_fixture("model.safetensors");
    take_away("config.json");
    assert_int_equal(open_as("m/model.safetensors", HF_AS_MODEL, &f, &err), INFER_ERROR_NOT_FOUND);
    assert_true(strstr(err.text, "weights alone") != NULL);
}

/* ---- config.json ---- */

static void test_config(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to;
        infer_status status;
        const char *name, *says;
    } cases[] = {
        {"\"model_type\": \"llama\"", "\"model_type\": \"lama\"", INFER_ERROR_ARCHITECTURE, "lama", "not known"},
        {"\"model_type\": \"llama\",", "", INFER_ERROR_MISSING, "model_type", "absent"},
        {"\"model_type\": \"llama\"", "\"model_type\": 5", INFER_ERROR_MISSING, "model_type", "absent"},
        {"\"hidden_size\": 64,", "", INFER_ERROR_MISSING, "hidden_size", "absent"},
        {"\"hidden_size\": 64", "\"hidden_size\": null", INFER_ERROR_MISSING, "hidden_size", "absent"},
        {"\"hidden_size\": 64", "\"hidden_size\": -64", INFER_ERROR_VALUE, "hidden_size", "whole number"},
        {"\"hidden_size\": 64", "\"hidden_size\": 64.5", INFER_ERROR_VALUE, "hidden_size", "whole number"},
        {"\"hidden_size\": 64", "\"hidden_size\": \"64\"", INFER_ERROR_VALUE, "hidden_size", "whole number"},
        {"\"hidden_size\": 64", "\"hidden_size\": 4294967296", INFER_ERROR_VALUE, "hidden_size", "whole number"},
        {"\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": \"small\"", INFER_ERROR_VALUE, "rms_norm_eps", "not a number"},
        {"\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": 1e300", INFER_ERROR_VALUE, "rms_norm_eps", "out of range"},
        {"\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\"", INFER_ERROR_UNSUPPORTED, "hidden_act", "not supported"},
        {"\"hidden_act\": \"silu\"", "\"hidden_act\": \"swish\"", INFER_OK, "", ""},
        {"\"rope_type\": \"llama3\"", "\"rope_type\": \"dynamic\"", INFER_ERROR_UNSUPPORTED, "rope_type", "rope scaling"},
        {"\"factor\": 8.0,", "", INFER_ERROR_VALUE, "factor", "absent"},
        {"\"factor\": 8.0,", "\"factor\": 0,", INFER_ERROR_VALUE, "factor", "range"},
        {"\"low_freq_factor\": 1.0", "\"low_freq_factor\": 4.0", INFER_ERROR_VALUE, "high_freq_factor", "range"},
        {"\"head_dim\": 32", "\"head_dim\": 1000000", INFER_ERROR_VALUE, "head_dim", "range"},
        {"\"head_dim\": 32", "\"head_dim\": 32, \"partial_rotary_factor\": 2", INFER_ERROR_VALUE, "partial_rotary_factor", "0 to 1"},
        {"\"rope_theta\": 10000.0", "\"rope_theta\": 0.5", INFER_ERROR_VALUE, "rope_theta", "range"},
        {"\"model_type\"", "\"quantization_config\": {\"quant_method\": \"gptq\"}, \"model_type\"", INFER_ERROR_UNSUPPORTED, "quantization_config", "'gptq'"},
        {"\"model_type\"", "\"quantization_config\": {\"quant_method\": \"awq\"}, \"model_type\"", INFER_ERROR_UNSUPPORTED, "quantization_config", "'awq'"},
        {"\"model_type\"", "\"quantization_config\": {\"quant_method\": \"bitsandbytes\"}, \"model_type\"", INFER_ERROR_UNSUPPORTED, "quantization_config", "'bitsandbytes'"},
        {"\"model_type\"", "\"quantization_config\": {\"quant_method\": \"compressed-tensors\"}, \"model_type\"", INFER_ERROR_UNSUPPORTED, "quantization_config", "'compressed-tensors'"},
        {"\"model_type\"", "\"quantization_config\": {}, \"model_type\"", INFER_ERROR_UNSUPPORTED, "quantization_config", "''"},
        {"\"model_type\"", "\"quantization_config\": null, \"model_type\"", INFER_OK, "", ""},
        {"\"attention_bias\": false", "\"attention_bias\": true", INFER_ERROR_VALUE, "attention_bias", "blk.0.attn_q.bias is missing"},
        {"\"attention_bias\": false", "\"attention_bias\": 0", INFER_ERROR_VALUE, "attention_bias", "neither"},
        {"\"mlp_bias\": false", "\"mlp_bias\": true", INFER_ERROR_VALUE, "mlp_bias", "missing"},
        {"\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false", INFER_ERROR_MISSING, "lm_head.weight", "output matrix"},
        {"\"tie_word_embeddings\": true", "\"tie_word_embeddings\": \"true\"", INFER_ERROR_VALUE, "tie_word_embeddings", "neither"},
        {"\"model_type\"", "\"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 2.0}, \"model_type\"", INFER_ERROR_UNSUPPORTED, "rope_type", "rope scaling"},
        {"\"model_type\"", "\"rope_scaling\": {}, \"model_type\"", INFER_OK, "", ""},
        {"\"model_type\"", "\"rope_scaling\": [2], \"model_type\"", INFER_ERROR_VALUE, "rope_parameters", "not an object"},
        {"\"model_type\"", "\"original_max_position_embeddings\": 0, \"model_type\"", INFER_ERROR_VALUE, "original_max_position_embeddings", "is 0"},
        {"\"model_type\": \"llama\"", "\"model_type\": \"qwen2\", \"use_sliding_window\": \"false\", \"sliding_window\": 3", INFER_ERROR_VALUE, "use_sliding_window", "neither"},
        {"\"vocab_size\": 160", "\"vocab_size\": 160,", INFER_ERROR_SYNTAX, "", "JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        edit(cases[i].from, cases[i].to);
        expect(cases[i].status, cases[i].name, cases[i].says);
    }
    put_text("config.json", "[]");
    expect(INFER_ERROR_MISSING, "model_type", "absent");
}

/* Qwen's windows are off unless the configuration switches them on; then they begin at a layer that has a default. */
static void test_windows(void **state)
{
    (void)state;
    static const struct {
        const char *more;
        int64_t window; /* -1: none */
    } cases[] = {{"", -1}, {"\"use_sliding_window\": false,", -1}, {"\"use_sliding_window\": true,", 3}, {"\"use_sliding_window\": true, \"max_window_layers\": 1,", 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        struct infer_file *f;
        infer_error err;
        (void)snprintf(text, sizeof text, "%s \"sliding_window\": 3, \"model_type\": \"qwen2\"", cases[i].more);
        edit("\"model_type\": \"llama\"", text);
        assert_int_equal(open_as("m", HF_AS_MODEL, &f, &err), INFER_OK);
        assert_int_equal(file_has(f, "qwen2.attention.sliding_window") ? (int64_t)get_u32(f, "qwen2.attention.sliding_window") : -1, cases[i].window);
        if (cases[i].window >= 0) {
            const struct file_meta *m = file_find_meta(f, "qwen2.attention.sliding_window_pattern", 38);
            assert_non_null(m);
            assert_int_equal(m->value.type, FILE_ARRAY);
        }
        file_release(f);
    }
}

/* The old spellings of rope, and text models inside of others. */
static void test_spellings(void **state)
{
    (void)state;
    struct infer_file *f;
    infer_error err;
    struct file_str s;
    const char *at = strstr(folder[0].data, "\"rope_parameters\": {"), *end = strchr(at, '}') + 1;
    char now[512];
    (void)snprintf(now, sizeof now, "%.*s", (int)(end - at), at);
    edit(now, "\"rope_theta\": 5000, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 4}");
    assert_int_equal(open_as("m", HF_AS_MODEL, &f, &err), INFER_OK);
    assert_true(get_f32(f, "llama.rope.freq_base") == 5000.0f && get_f32(f, "llama.rope.scaling.factor") == 4.0f);
    assert_int_equal(file_get_string(f, "llama.rope.scaling.type", &s, NULL), INFER_OK);
    assert_true(s.len == 6 && !memcmp(s.data, "linear", 6));
    assert_null(file_find_tensor(f, "rope_freqs.weight", 17));
    file_release(f);
    edit(now, "\"rope_theta\": 5000, \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4, \"attention_factor\": 1}");
    assert_int_equal(open_as("m", HF_AS_MODEL, &f, &err), INFER_OK);
    assert_int_equal(get_u32(f, "llama.rope.scaling.original_context_length"), 256);
    assert_true(get_f32(f, "llama.rope.scaling.yarn_attn_factor") < 0.9f);
    file_release(f);
    edit(now, "\"rope_scaling\": null");
    assert_int_equal(open_as("m", HF_AS_MODEL, &f, &err), INFER_OK);
    assert_true(get_f32(f, "llama.rope.freq_base") == 10000.0f && !file_has(f, "llama.rope.scaling.type"));
    file_release(f);
    edit("{", "{\"model_type\": \"some_vision_model\", \"text_config\": {");
    struct buf b;
    buf_init(&b, &alloc_default, 0);
    buf_put(&b, folder[0].data, folder[0].len);
    buf_puts(&b, "}");
    put("config.json", b.data, b.len);
    buf_free(&b);
    assert_int_equal(open_as("m", HF_AS_MODEL, &f, &err), INFER_OK);
    check_folder(f);
    file_release(f);
}

/* A folder that cannot be run opens as a file, under its own names. */
static void test_as_file(void **state)
{
    (void)state;
    struct infer_file *f;
    infer_error err;
    struct file_str s;
    edit("\"model_type\": \"llama\"", "\"model_type\": \"other\"");
    assert_int_equal(open_as("m", HF_AS_FILE, &f, &err), INFER_OK);
    assert_int_equal(file_get_string(f, "general.architecture", &s, NULL), INFER_OK);
    assert_true(s.len == 5 && !memcmp(s.data, "other", 5));
    assert_non_null(file_find_tensor(f, "model.layers.1.self_attn.k_proj.weight", 38));
    file_release(f);
    edit("\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\"");
    assert_int_equal(open_as("m", HF_AS_FILE, &f, &err), INFER_OK);
    assert_true(!file_has(f, "llama.block_count") && file_has(f, "general.architecture"));
    file_release(f);
}

/* ---- Weights ---- */

/* A safetensors file with tensors [first, last) of f, the names as `prefix` + what follows `cut` bytes. */
static void write_tensors(struct buf *b, const struct infer_file *f, uint64_t first, uint64_t last, size_t cut, const char *prefix)
{
    struct buf head;
    uint64_t at = 0;
    buf_init(&head, &alloc_default, 0);
    buf_putc(&head, '{');
    for (uint64_t i = first; i < last; i++) {
        const struct file_tensor *t = &f->tensors[i];
        char line[512], shape[64];
        (void)snprintf(shape, sizeof shape, t->n_dims == 1 ? "[%llu]" : "[%llu,%llu]", (unsigned long long)t->dims[t->n_dims - 1],
                       (unsigned long long)t->dims[0]);
        (void)snprintf(line, sizeof line, "%s\"%s%.*s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%llu,%llu]}",
                       i > first ? "," : "", prefix, (int)(t->name.len - cut), t->name.data + cut, dtype_of(t->type)->name, shape,
                       (unsigned long long)at, (unsigned long long)(at + t->bytes));
        buf_puts(&head, line);
        at += t->bytes;
    }
    buf_putc(&head, '}');
    while (head.len % 8)
        buf_putc(&head, ' ');
    uint64_t n = head.len;
    buf_init(b, &alloc_default, 0);
    buf_put(b, &n, 8);
    buf_put(b, head.data, head.len);
    for (uint64_t i = first; i < last; i++)
        buf_put(b, f->tensors[i].data, (size_t)f->tensors[i].bytes);
    buf_free(&head);
}

static struct infer_file *open_fixture(void)
{
    struct infer_file *f;
    infer_source s;
    infer_source_path(&s, FIXTURE "/model.safetensors", strlen(FIXTURE "/model.safetensors"));
    assert_int_equal(file_open(&env_default, &s, INFER_MAP_AUTO, NULL, &f, NULL), INFER_OK);
    return f;
}

/* The folder's weights as two shards, cut before tensor `cut`; the index says so, but places tensor `wrong` in the other one, and
 * names the second shard `second`. */
static void put_shards(uint64_t cut, uint64_t wrong, const char *second)
{
    struct infer_file *f = open_fixture();
    struct buf b, index;
    take_away("model.safetensors");
    write_tensors(&b, f, 0, cut, 0, "");
    put("a.safetensors", b.data, b.len);
    buf_free(&b);
    write_tensors(&b, f, cut, f->n_tensors, 0, "");
    put("b.safetensors", b.data, b.len);
    buf_free(&b);
    buf_init(&index, &alloc_default, 0);
    buf_puts(&index, "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {");
    for (uint64_t i = 0; i < f->n_tensors; i++) {
        char line[300];
        (void)snprintf(line, sizeof line, "%s\"%.*s\": \"%s\"", i ? "," : "", (int)f->tensors[i].name.len, f->tensors[i].name.data,
                       (i < cut) != (i == wrong) ? "a.safetensors" : second);
        buf_puts(&index, line);
    }
    buf_puts(&index, "}}");
    put("model.safetensors.index.json", index.data, index.len);
    buf_free(&index);
    file_release(f);
}

static void test_shards(void **state)
{
    (void)state;
    struct infer_file *f, *g;
    infer_error err;
    assert_int_equal(open_as("m", HF_AS_MODEL, &g, &err), INFER_OK);
    put_shards(7, 1000, "b.safetensors");
    static const char *const names[] = {"m", "m/model.safetensors.index.json"};
    for (int i = 0; i < 2; i++) {
        if (open_as(names[i], HF_AS_MODEL, &f, &err) != INFER_OK)
            fail_msg("%s: %s %s", names[i], err.text, err.name);
        assert_true(f->n_parts == 3 && f->n_tensors == g->n_tensors);
        for (uint64_t k = 0; k < f->n_tensors; k++) {
            const struct file_tensor *t = &f->tensors[k], *u = file_find_tensor(g, t->name.data, (size_t)t->name.len);
            assert_true(u && u->bytes == t->bytes && !memcmp(t->data, u->data, (size_t)t->bytes));
        }
        file_release(f);
    }
    /* another index beside it may be named */
    for (int i = 0; i < n_folder; i++)
        if (!strcmp(folder[i].name, "model.safetensors.index.json"))
            (void)snprintf(folder[i].name, sizeof folder[i].name, "model.fp32.index.json");
    assert_int_equal(open_as("m/model.fp32.index.json", HF_AS_MODEL, &f, &err), INFER_OK);
    assert_int_equal(f->n_parts, 3);
    file_release(f);
    file_release(g);
}

static void put_text_op(struct buf *b, const char *s, size_t len)
{
    buf_putc(b, 'X');
    zb_u32(b, (uint32_t)len);
    buf_put(b, s, len);
}

static void put_number_op(struct buf *b, uint64_t v)
{
    buf_putc(b, 'J');
    zb_u32(b, (uint32_t)v);
}

/* What torch.save writes for an F32 tensor with the storage `key`. */
static void put_tensor_ops(struct buf *b, const struct file_tensor *t, const char *key)
{
    put_text_op(b, t->name.data, (size_t)t->name.len);
    buf_puts(b, "ctorch._utils\n_rebuild_tensor_v2\n((");
    put_text_op(b, "storage", 7);
    buf_puts(b, "ctorch\nFloatStorage\n");
    put_text_op(b, key, strlen(key));
    put_text_op(b, "cpu", 3);
    put_number_op(b, t->n);
    buf_puts(b, "tQ");
    put_number_op(b, 0);
    buf_putc(b, '(');
    for (uint32_t d = t->n_dims; d-- > 0;)
        put_number_op(b, t->dims[d]);
    buf_puts(b, "t(");
    for (uint32_t d = t->n_dims; d-- > 0;)
        put_number_op(b, d ? t->dims[0] : 1);
    buf_puts(b, "t\x89}tR");
}

/* The weights as pytorch_model.bin. */
static void put_torch(void)
{
    struct infer_file *f = open_fixture();
    struct zip_build z;
    struct buf pickle;
    buf_init(&pickle, &alloc_default, 0);
    buf_puts(&pickle, "\x80\2}(");
    zb_begin(&z);
    for (uint64_t i = 0; i < f->n_tensors; i++) {
        char key[8], name[32];
        (void)snprintf(key, sizeof key, "%d", (int)i);
        (void)snprintf(name, sizeof name, "archive/data/%s", key);
        assert_true(f->tensors[i].type == INFER_TYPE_F32 && f->tensors[i].n_dims <= 2);
        put_tensor_ops(&pickle, &f->tensors[i], key);
        zb_entry(&z, name, f->tensors[i].data, (size_t)f->tensors[i].bytes);
    }
    buf_puts(&pickle, "u.");
    zb_entry(&z, "archive/data.pkl", pickle.data, pickle.len);
    zb_end(&z);
    take_away("model.safetensors");
    put("pytorch_model.bin", z.b.data, z.b.len);
    buf_free(&pickle);
    buf_free(&z.b);
    file_release(f);
}

static void test_torch(void **state)
{
    (void)state;
    struct infer_file *f, *g;
    infer_error err = {0};
    assert_int_equal(open_as("m", HF_AS_MODEL, &g, &err), INFER_OK);
    put_torch();
    if (open_as("m", HF_AS_MODEL, &f, &err) != INFER_OK)
        fail_msg("%s: %s", err.name, err.text);
    assert_int_equal(f->n_tensors, g->n_tensors);
    for (uint64_t k = 0; k < f->n_tensors; k++) {
        const struct file_tensor *t = &f->tensors[k], *u = file_find_tensor(g, t->name.data, (size_t)t->name.len);
        assert_true(u && u->bytes == t->bytes && !memcmp(t->data, u->data, (size_t)t->bytes));
    }
    file_release(f);
    file_release(g);
}

static void test_bad_shards(void **state)
{
    (void)state;
    static const char *const bad[] = {"../b.safetensors", "/b.safetensors", "x/../b.safetensors", "..", ".b", "sub/b.safetensors", "b\\\\c",
                                      "C:b.safetensors", "", "b\\u0000.safetensors", "b\\n"};
    struct infer_file *f = open_fixture();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char name[128];
        (void)snprintf(name, sizeof name, "%.*s", (int)f->tensors[7].name.len, f->tensors[7].name.data);
        put_shards(7, 1000, bad[i]);
        expect(INFER_ERROR_FORMAT, name, "in this folder");
    }
    put_shards(7, 1000, "c.safetensors");
    expect(INFER_ERROR_NOT_FOUND, "c.safetensors", "missing");
    char name[128];
    (void)snprintf(name, sizeof name, "%.*s", (int)f->tensors[9].name.len, f->tensors[9].name.data);
    put_shards(7, 9, "b.safetensors");
    expect(INFER_ERROR_MISSING, name, "places it"); /* looked for in a */
    (void)snprintf(name, sizeof name, "%.*s", (int)f->tensors[2].name.len, f->tensors[2].name.data);
    put_shards(7, 2, "b.safetensors");
    expect(INFER_ERROR_FORMAT, name, "places it in another"); /* found in a */
    put_shards(7, 1000, "b.safetensors");
    struct buf b;
    write_tensors(&b, f, 6, f->n_tensors, 0, ""); /* one tensor twice */
    put("b.safetensors", b.data, b.len);
    buf_free(&b);
    (void)snprintf(name, sizeof name, "%.*s", (int)f->tensors[6].name.len, f->tensors[6].name.data);
    expect(INFER_ERROR_FORMAT, name, "places it in another");
    put_text("b.safetensors", "not it");
    expect(INFER_ERROR_FORMAT, "", "not a GGUF");
    static const struct {
        const char *index;
        infer_status status;
        const char *name, *says;
    } indexes[] = {
        {"{}", INFER_ERROR_FORMAT, "", "weight_map"},
        {"{\"weight_map\": 3}", INFER_ERROR_FORMAT, "", "weight_map"},
        {"{\"weight_map\": {}}", INFER_ERROR_FORMAT, "", "no files"},
        {"{\"weight_map\": {\"w\": 3}}", INFER_ERROR_FORMAT, "w", "not a string"},
        {"{\"weight_map\": {\"w\": \"a\", \"w\": \"a\"}}", INFER_ERROR_FORMAT, "", "repeated"},
        {"{\"weight_map\": {", INFER_ERROR_FORMAT, "", "JSON"},
    };
    for (size_t i = 0; i < sizeof indexes / sizeof *indexes; i++) {
        put_text("model.safetensors.index.json", indexes[i].index);
        expect(indexes[i].status, indexes[i].name, indexes[i].says);
    }
    file_release(f);
}

/* PyTorch's shards against the safetensors file of the same weights. */
static void test_pytorch(void **state)
{
    (void)state;
    static const char *const names[] = {"model.safetensors", "pytorch_model.bin.index.json"};
    struct infer_file *f[2];
    infer_error err;
    for (int i = 0; i < 2; i++) {
        char path[512];
        infer_source s;
        struct hf_options o = {HF_AS_MODEL, INFER_MAP_AUTO, NULL, NULL};
        (void)snprintf(path, sizeof path, INFER_SOURCE_DIR "/tests/data/torch/folder/%s", names[i]);
        infer_source_path(&s, path, strlen(path));
        if (hf_open(&env_default, &s, &o, &f[i], &err) != INFER_OK)
            fail_msg("%s: %s (%s)", path, err.text, err.name);
    }
    assert_true(f[0]->n_tensors == 11 && f[1]->n_tensors == 11); /* no output matrix: it is tied */
    for (uint64_t k = 0; k < f[0]->n_tensors; k++) {
        const struct file_tensor *t = &f[0]->tensors[k], *u = file_find_tensor(f[1], t->name.data, (size_t)t->name.len);
        assert_true(u && u->type == INFER_TYPE_F16 && u->bytes == t->bytes && !memcmp(t->data, u->data, (size_t)t->bytes));
    }
    file_release(f[0]);
    file_release(f[1]);
}

static void test_tensors(void **state)
{
    (void)state;
    struct infer_file *f = open_fixture(), *g;
    infer_error err;
    struct buf b;
    size_t cut = strlen("model.");
    static const char *const prefixes[] = {"", "language_model.model.", "model.language_model."};
    for (size_t i = 0; i < 3; i++) {
        write_tensors(&b, f, 0, f->n_tensors, cut, prefixes[i]);
        put("model.safetensors", b.data, b.len);
        buf_free(&b);
        assert_int_equal(open_as("m", HF_AS_MODEL, &g, &err), INFER_OK);
        check_folder(g);
        file_release(g);
    }
    write_tensors(&b, f, 0, f->n_tensors, cut, "other.");
    put("model.safetensors", b.data, b.len);
    buf_free(&b);
    char name[128];
    (void)snprintf(name, sizeof name, "other.%.*s", (int)(f->tensors[0].name.len - cut), f->tensors[0].name.data + cut);
    expect(INFER_ERROR_UNSUPPORTED, name, "no use");
    /* buffers that old versions saved are left out, and numbers have one spelling */
    f->tensors[0].name = (struct file_str){"model.layers.0.self_attn.rotary_emb.inv_freq", 44};
    write_tensors(&b, f, 0, f->n_tensors, 0, "");
    put("model.safetensors", b.data, b.len);
    buf_free(&b);
    expect(INFER_OK, "", "");
    f->tensors[0].name = (struct file_str){"model.layers.01.input_layernorm.weight", 38};
    write_tensors(&b, f, 0, f->n_tensors, 0, "");
    put("model.safetensors", b.data, b.len);
    buf_free(&b);
    expect(INFER_ERROR_UNSUPPORTED, "model.layers.01.input_layernorm.weight", "no use");
    f->tensors[0].name = (struct file_str){"layers.1.input_layernorm.weight", 31}; /* two names for one */
    write_tensors(&b, f, 0, f->n_tensors, 0, "");
    put("model.safetensors", b.data, b.len);
    buf_free(&b);
    expect(INFER_ERROR_FORMAT, "blk.1.attn_norm.weight", "two parts");
    file_release(f);
}

/* ---- Failures ---- */

static void test_no_memory(void **state)
{
    (void)state;
    put_shards(7, 1000, "b.safetensors");
    put_text("tokenizer.json", "{}");
    for (uint64_t n = 1;; n++) {
        struct test_alloc ta = {.fail_at = n};
        struct env env = test_env_of(&ta);
        struct infer_file *f = NULL;
        infer_error err;
        infer_source s;
        struct hf_options o = {HF_AS_MODEL, INFER_MAP_AUTO, NULL, NULL};
        infer_source_callback(&s, "m", 1, open_member, NULL);
        infer_status st = hf_open(&env, &s, &o, &f, &err);
        if (st == INFER_OK)
            file_release(f);
        assert_int_equal(ta.live, 0);
        if (st == INFER_OK) {
            assert_true(n > 20);
            break;
        }
        assert_int_equal(st, INFER_ERROR_NO_MEMORY);
    }
}

static void test_io_failures(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        struct test_alloc ta = {0};
        struct env env = test_env_of(&ta);
        struct infer_file *f = NULL;
        infer_error err;
        infer_source s;
        struct hf_options o = {HF_AS_MODEL, INFER_MAP_READ, NULL, NULL};
        env.io = &failing_io_ops;
        failing_io_set(n, EIO);
        infer_source_path(&s, FIXTURE, strlen(FIXTURE));
        infer_status st = hf_open(&env, &s, &o, &f, &err);
        uint64_t calls = failing_io.calls;
        if (st == INFER_OK)
            file_release(f);
        assert_true(failing_io.open == 0 && failing_io.maps == 0 && ta.live == 0);
        if (calls < n) {
            assert_int_equal(st, INFER_OK);
            assert_true(n > 5);
            break;
        }
    }
}

static void test_cancel(void **state)
{
    (void)state;
    struct infer_file *f = NULL;
    infer_error err;
    infer_cancel *cancel;
    infer_source s;
    assert_int_equal(infer_cancel_create(&cancel, NULL), INFER_OK);
    infer_cancel_set(cancel);
    struct hf_options o = {HF_AS_MODEL, INFER_MAP_READ, cancel, NULL};
    infer_source_path(&s, FIXTURE, strlen(FIXTURE));
    assert_int_equal(hf_open(&env_default, &s, &o, &f, &err), INFER_ERROR_CANCELLED);
    infer_cancel_release(cancel);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, fresh, clear)
    const struct CMUnitTest tests[] = {
        CASE(test_names),  CASE(test_uses),       CASE(test_not_there), CASE(test_config),    CASE(test_spellings),   CASE(test_as_file), CASE(test_windows),
        CASE(test_shards), CASE(test_bad_shards), CASE(test_pytorch), CASE(test_tensors),   CASE(test_no_memory), CASE(test_io_failures), CASE(test_cancel), CASE(test_torch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
