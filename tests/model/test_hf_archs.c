/* config.json and tensors as each architecture means them: defaults of keys that are absent, what null says, and what is refused. Fixture folders
 * with a piece of text replaced, served from memory. */
#include "testutil.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "model/hf.h"

struct member {
    char *data; /* malloc'ed */
    size_t len;
};
struct folder {
    struct member config, weights;
};

static struct member read_member(const char *fixture, const char *name)
{
    char path[512];
    struct member m = {0};
    (void)snprintf(path, sizeof path, INFER_SOURCE_DIR "/tests/data/fixtures/%s/%s", fixture, name);
    m.data = test_read_file(path, &m.len);
    assert_non_null(m.data);
    return m;
}

/* In weights only by what is as long: their header says how long it is. */
static void replace(struct member *m, size_t from_at, const char *from, const char *to)
{
    size_t n = strlen(from), k = strlen(to);
    for (size_t i = from_at; i + n <= m->len; i++)
        if (!memcmp(m->data + i, from, n)) {
            char *new = malloc(m->len - n + k + 1);
            memcpy(new, m->data, i);
            memcpy(new + i, to, k);
            memcpy(new + i + k, m->data + i + n, m->len - i - n);
            m->len = m->len - n + k;
            new[m->len] = 0;
            free(m->data);
            m->data = new;
            return;
        }
    fail_msg("no '%s' there", from);
}

static infer_status open_member(void *user, const char *name, uint64_t len, infer_stream *out)
{
    const struct folder *f = user;
    const struct member *m = len == 13 && !memcmp(name, "m/config.json", 13)         ? &f->config
                             : len == 19 && !memcmp(name, "m/model.safetensors", 19) ? &f->weights
                                                                                     : NULL;
    if (!m)
        return INFER_ERROR_NOT_FOUND;
    out->data = m->data;
    out->length = m->len;
    return INFER_OK;
}

/* One text of config.json and one of the weights' header replaced; NULL: neither. */
struct edit {
    const char *fixture, *from, *to, *tensor_from, *tensor_to;
};

static infer_status open_edited(const struct edit *e, struct folder *folder, struct infer_file **out, infer_error *err)
{
    infer_source s;
    struct hf_options o = {HF_AS_MODEL, INFER_MAP_AUTO, NULL, NULL};
    *folder = (struct folder){read_member(e->fixture, "config.json"), read_member(e->fixture, "model.safetensors")};
    if (e->from)
        replace(&folder->config, 0, e->from, e->to);
    if (e->tensor_from)
        replace(&folder->weights, 8, e->tensor_from, e->tensor_to);
    infer_source_callback(&s, "m", 1, open_member, folder);
    return hf_open(&env_default, &s, &o, out, err);
}

static void free_folder(struct folder *f)
{
    free(f->config.data);
    free(f->weights.data);
}

/* What a key becomes: a number, or NAN where it is not written. */
static const struct {
    struct edit edit;
    const char *key;
    double value;
} says[] = {
    {{.fixture = "mistral"}, "llama.attention.sliding_window", 48},
    {{"mistral", "\"sliding_window\": 48", "\"sliding_window\": null", NULL, NULL}, "llama.attention.sliding_window", NAN},
    {{"mistral", "\"sliding_window\": 48,", "", NULL, NULL}, "llama.attention.sliding_window", 4096},
    {{.fixture = "mistral"}, "llama.attention.key_length", 24},
    {{.fixture = "gemma2"}, "gemma2.attn_logit_softcapping", 2},
    {{"gemma2", "\"attn_logit_softcapping\": 2.0", "\"attn_logit_softcapping\": null", NULL, NULL}, "gemma2.attn_logit_softcapping", 0},
    {{"gemma2", "\"attn_logit_softcapping\": 2.0,", "", NULL, NULL}, "gemma2.attn_logit_softcapping", NAN}, /* hparams has the default */
    {{"gemma2", "\"query_pre_attn_scalar\": 16", "\"query_pre_attn_scalar\": 64", NULL, NULL}, "gemma2.attention.scale", 0.125},
    {{.fixture = "granite"}, "granite.residual_scale", 0.7},
    {{"granite", "\"attention_multiplier\": 0.4,", "", NULL, NULL}, "granite.attention.scale", 1}, /* not 1 / sqrt(head) */
    {{.fixture = "nemotron"}, "nemotron.rope.dimension_count", 8},
    {{"nemotron", "\"partial_rotary_factor\": 0.5,", "", NULL, NULL}, "nemotron.rope.dimension_count", 8},
    {{"stablelm", "\"partial_rotary_factor\": 0.25,", "", NULL, NULL}, "stablelm.rope.dimension_count", 4},
    {{.fixture = "stablelm-parallel"}, "stablelm.use_parallel_residual", 1},
    {{.fixture = "phi3"}, "phi3.rope.dimension_count", 12},
    {{.fixture = "phi3"}, "phi3.rope.scaling.attn_factor", 1.1547005}, /* sqrt(1 + log 4 / log 64) */
    {{"phi3", "\"rope_type\": \"longrope\"", "\"rope_type\": \"longrope\", \"factor\": 1", NULL, NULL}, "phi3.rope.scaling.attn_factor", 1},
    {{"phi3", "\"rope_type\": \"longrope\"", "\"rope_type\": \"su\", \"attention_factor\": 1.5", NULL, NULL}, "phi3.rope.scaling.attn_factor", 1.5},
    {{.fixture = "phi3-window"}, "phi3.rope.scaling.attn_factor", 1},
    {{.fixture = "mistral3"}, "mistral3.attention.temperature_scale", 0.8},
    {{"mistral3", "\"llama_4_scaling_beta\": 0.8,", "", NULL, NULL}, "mistral3.attention.temperature_scale", NAN},
    {{.fixture = "olmo3"}, "olmo2.rope.freq_base_swa", 10000},
    {{"olmo3", "\"sliding_window\": 48,", "", NULL, NULL}, "olmo2.attention.sliding_window", 4096},
};

static void test_says(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof says / sizeof *says; i++) {
        struct folder folder;
        struct infer_file *f;
        infer_error err = {0};
        double got = NAN;
        if (open_edited(&says[i].edit, &folder, &f, &err) != INFER_OK)
            fail_msg("case %zu: %s (%s)", i, err.text, err.name);
        const struct file_meta *m = file_find_meta(f, says[i].key, strlen(says[i].key));
        float x = 0;
        uint32_t u = 0;
        bool b = false;
        if (m && m->value.type == FILE_F32 && file_get_f32(f, says[i].key, &x, NULL) == INFER_OK)
            got = x;
        else if (m && m->value.type == FILE_BOOL && file_get_bool_or(f, says[i].key, false, &b, NULL) == INFER_OK)
            got = b;
        else if (m && file_get_u32(f, says[i].key, &u, NULL) == INFER_OK)
            got = u;
        if (isnan(got) != isnan(says[i].value) || fabs(got - says[i].value) > 1e-6 * fabs(says[i].value))
            fail_msg("case %zu: %s is %.9g, not %.9g", i, says[i].key, got, says[i].value);
        file_release(f);
        free_folder(&folder);
    }
}

static const struct {
    struct edit edit;
    infer_status status;
    const char *name; /* that the error gives */
} wrong[] = {
    {{"phi3", "1.9,", "", NULL, NULL}, INFER_ERROR_VALUE, "long_factor"},
    {{"phi3", "1.9,", "0,", NULL, NULL}, INFER_ERROR_VALUE, "long_factor"},
    {{"phi3", "1.9,", "\"x\",", NULL, NULL}, INFER_ERROR_VALUE, "long_factor"},
    {{"phi3", "\"short_factor\"", "\"shrt_factor\"", NULL, NULL}, INFER_ERROR_VALUE, "short_factor"},
    {{"phi3", "\"rope_type\": \"longrope\"", "\"rope_type\": \"longrope\", \"short_mscale\": 1.1", NULL, NULL}, INFER_ERROR_UNSUPPORTED, "rope_type"},
    {{"phi3", "\"partial_rotary_factor\": 0.75", "\"partial_rotary_factor\": 0.5", NULL, NULL}, INFER_ERROR_VALUE, "short_factor"},
    {{"nemotron", "\"relu2\"", "\"relu\"", NULL, NULL}, INFER_ERROR_UNSUPPORTED, "hidden_act"},
    {{"starcoder2", "\"gelu_pytorch_tanh\"", "\"gelu\"", NULL, NULL}, INFER_ERROR_UNSUPPORTED, "hidden_act"},
    {{"gemma2", "\"query_pre_attn_scalar\": 16", "\"query_pre_attn_scalar\": 0", NULL, NULL}, INFER_ERROR_VALUE, "query_pre_attn_scalar"},
    {{"gemma2", "\"use_bidirectional_attention\": null", "\"use_bidirectional_attention\": true", NULL, NULL}, INFER_ERROR_UNSUPPORTED,
     "use_bidirectional_attention"},
    {{"mistral3", "\"llama_4_scaling_beta\": 0.8", "\"llama_4_scaling_beta\": -1", NULL, NULL}, INFER_ERROR_VALUE, "llama_4_scaling_beta"},
    {{"stablelm", NULL, NULL, "0.self_attn.k_layernorm.norms.0.weight", "0.self_attn.k_layernorm.norms.2.weight"}, INFER_ERROR_MISSING,
     "blk.0.attn_k_norm.weight"},
    {{"stablelm", NULL, NULL, "0.self_attn.q_layernorm.norms.3.weight", "0.self_attn.q_layernorm.norms.4.weight"}, INFER_ERROR_SHAPE,
     "model.layers.0.self_attn.q_layernorm.norms.4.weight"},
    {{"stablelm", NULL, NULL, "0.self_attn.q_layernorm.norms.3.weight", "0.self_attn.q_layernorm.norms.x.weight"}, INFER_ERROR_UNSUPPORTED,
     "model.layers.0.self_attn.q_layernorm.norms.x.weight"},
    {{"stablelm", NULL, NULL, "\"model.layers.0.self_attn.q_layernorm.norms.3.weight\":", "\"layers.0.self_attn.q_layernorm.norms.2.weight\":      "},
     INFER_ERROR_SHAPE, "layers.0.self_attn.q_layernorm.norms.2.weight"}, /* two names for one head */
};

static void test_wrong(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct folder folder;
        struct infer_file *f = NULL;
        infer_error err = {0};
        infer_status st = open_edited(&wrong[i].edit, &folder, &f, &err);
        if (st != wrong[i].status || strcmp(err.name, wrong[i].name))
            fail_msg("case %zu: status %s, name '%s', text '%s'", i, infer_status_name(st), err.name, err.text);
        free_folder(&folder);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_says), cmocka_unit_test(test_wrong)};
    return cmocka_run_group_tests_name("hf_archs", tests, NULL, NULL);
}
