/* Further dense decoders in Hugging Face folders: gemma2, phi3, mistral, ministral3, granite, nemotron, olmo2, olmo3, starcoder2, stablelm. See hf_archs.c. */
#include "kernels/math_scalar.h"
#include "model/hf_read.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define END {NULL, NULL, 0}
#define END_KEYS {NULL, NULL, 0, false, 0}

/* ---- gemma2 ---- */

static const struct hf_key gemma2_keys_own[] = {
    {"rms_norm_eps", ".attention.layer_norm_rms_epsilon", HF_F32, false, 1e-6},
    {"attn_logit_softcapping", ".attn_logit_softcapping", HF_F32, false, 0},
    {"final_logit_softcapping", ".final_logit_softcapping", HF_F32, false, 0},
    {"hidden_activation", "gelu_pytorch_tanh", HF_ONE_OF, false, 0},
    {"use_bidirectional_attention", NULL, HF_FALSE, false, 0},
    END_KEYS,
};
static const struct hf_key *const gemma2_keys[] = {hf_keys_sizes, gemma2_keys_own, NULL};

static const struct hf_tensor gemma2_tensors_own[] = {
    {"norm.weight", "output_norm.weight", HF_PLUS_ONE},
    {"layers.%u.input_layernorm.weight", "blk.%u.attn_norm.weight", HF_PLUS_ONE},
    {"layers.%u.post_attention_layernorm.weight", "blk.%u.post_attention_norm.weight", HF_PLUS_ONE},
    {"layers.%u.pre_feedforward_layernorm.weight", "blk.%u.ffn_norm.weight", HF_PLUS_ONE},
    {"layers.%u.post_feedforward_layernorm.weight", "blk.%u.post_ffw_norm.weight", HF_PLUS_ONE},
    END,
};
static const struct hf_tensor *const gemma2_tensors[] = {gemma2_tensors_own, hf_tensors_top, hf_tensors_attn, hf_tensors_gated, NULL};

/* A soft-cap or window that is null is none; one that is absent has a default, the one of GGUF files too. */
static bool is_null(const struct hf_reader *r, const char *key)
{
    const struct json *m = r->model;
    for (size_t i = 0; m && m->type == JSON_OBJECT && i < m->n; i++)
        if (hf_text_is(&(struct json){.type = JSON_STRING, .u.text = m->u.members[i].key}, key))
            return m->u.members[i].value.type == JSON_NULL;
    return false;
}

static infer_status gemma2_more(struct hf_reader *r)
{
    static const char *const none[][2] = {{"attn_logit_softcapping", ".attn_logit_softcapping"},
                                          {"final_logit_softcapping", ".final_logit_softcapping"}};
    double scalar = 256;
    infer_status st = hf_number(r, r->model, "query_pre_attn_scalar", &scalar);
    if (st == INFER_OK && !(scalar > 0 && scalar < 1e6))
        st = hf_fail(r, INFER_ERROR_VALUE, "query_pre_attn_scalar", "out of range");
    if (st != INFER_OK)
        return st;
    hf_put_f32(r, ".attention.scale", 1.0f / math_sqrt((float)scalar));
    for (size_t i = 0; i < COUNT(none); i++)
        if (is_null(r, none[i][0]))
            hf_put_f32(r, none[i][1], 0);
    if (is_null(r, "sliding_window"))
        hf_put_u32(r, ".attention.sliding_window", 0);
    return hf_read_windows(r);
}

/* ---- phi3 ---- */

static const struct hf_key phi3_keys_own[] = {
    {"rms_norm_eps", ".attention.layer_norm_rms_epsilon", HF_F32, false, 1e-5},
    END_KEYS,
};
static const struct hf_key *const phi3_keys[] = {hf_keys_sizes, phi3_keys_own, hf_keys_silu, NULL};

static const struct hf_tensor phi3_tensors_own[] = {
    {"layers.%u.self_attn.qkv_proj.weight", "blk.%u.attn_qkv.weight", HF_PLACE},
    {"layers.%u.mlp.gate_up_proj.weight", "blk.%u.ffn_up.weight", HF_PLACE},
    END,
};
static const struct hf_tensor *const phi3_tensors[] = {phi3_tensors_own, hf_tensors_top, hf_tensors_attn, hf_tensors_gated, NULL};

/* ---- mistral: llama with windows; also the text model of mistral3 ---- */

static const struct hf_key *const mistral_keys[] = {hf_keys_sizes, hf_keys_rms, hf_keys_silu, NULL};

static const struct hf_tensor mistral_tensors_own[] = {
    {"vision_tower.*", NULL, HF_SKIP},
    {"multi_modal_projector.*", NULL, HF_SKIP},
    END,
};
static const struct hf_tensor *const mistral_tensors[] = {mistral_tensors_own, hf_tensors_top, hf_tensors_attn, hf_tensors_gated, NULL};

static infer_status mistral_more(struct hf_reader *r)
{
    hf_put_bool(r, "libinfer.rope_halves", true);
    if (!hf_get(r, "sliding_window") && !is_null(r, "sliding_window"))
        hf_put_u32(r, ".attention.sliding_window", 4096);
    return hf_read_windows(r);
}

/* ---- ministral3: Mistral's later models, whose queries grow beyond the original context ---- */

static infer_status ministral3_more(struct hf_reader *r)
{
    double growth = 0;
    infer_status st = hf_number(r, hf_rope_of(r), "llama_4_scaling_beta", &growth);
    if (st == INFER_OK && !(growth >= 0 && growth <= 1e3))
        st = hf_fail(r, INFER_ERROR_VALUE, "llama_4_scaling_beta", "out of range");
    if (growth > 0)
        hf_put_f32(r, ".attention.temperature_scale", (float)growth);
    hf_put_bool(r, "libinfer.rope_halves", true);
    return st == INFER_OK ? hf_read_windows(r) : st;
}

/* ---- granite ---- */

static const struct hf_key granite_keys_own[] = {
    {"embedding_multiplier", ".embedding_scale", HF_F32, false, 1},
    {"attention_multiplier", ".attention.scale", HF_F32, false, 1},
    {"residual_multiplier", ".residual_scale", HF_F32, false, 1},
    {"logits_scaling", ".logit_scale", HF_F32, false, 1},
    END_KEYS,
};
static const struct hf_key *const granite_keys[] = {hf_keys_sizes, hf_keys_rms, granite_keys_own, hf_keys_silu, NULL};
static const struct hf_tensor *const llama_tensors[] = {hf_tensors_top, hf_tensors_attn, hf_tensors_gated, NULL};

static infer_status granite_more(struct hf_reader *r)
{
    hf_put_bool(r, "libinfer.rope_halves", true);
    return INFER_OK;
}

/* ---- nemotron ---- */

static const struct hf_key nemotron_keys_own[] = {
    {"norm_eps", ".attention.layer_norm_epsilon", HF_F32, false, 1e-5},
    {"hidden_act", "relu2", HF_ONE_OF, false, 0},
    END_KEYS,
};
static const struct hf_key *const nemotron_keys[] = {hf_keys_sizes, nemotron_keys_own, NULL};

static const struct hf_tensor nemotron_tensors_own[] = {
    {"norm.weight", "output_norm.weight", HF_PLUS_ONE},
    {"layers.%u.input_layernorm.weight", "blk.%u.attn_norm.weight", HF_PLUS_ONE},
    {"layers.%u.post_attention_layernorm.weight", "blk.%u.ffn_norm.weight", HF_PLUS_ONE},
    END,
};
static const struct hf_tensor layer_norm_biases[] = {
    {"norm.bias", "output_norm.bias", HF_PLACE},
    {"layers.%u.input_layernorm.bias", "blk.%u.attn_norm.bias", HF_PLACE},
    {"layers.%u.post_attention_layernorm.bias", "blk.%u.ffn_norm.bias", HF_PLACE},
    END,
};
static const struct hf_tensor *const nemotron_tensors[] = {nemotron_tensors_own, layer_norm_biases, hf_tensors_top, hf_tensors_attn,
                                                           hf_tensors_gated, NULL};

/* ---- olmo2 ---- */

static const struct hf_key olmo2_keys_own[] = {
    {"rms_norm_eps", ".attention.layer_norm_rms_epsilon", HF_F32, false, 1e-5},
    END_KEYS,
};
static const struct hf_key *const olmo2_keys[] = {hf_keys_sizes, olmo2_keys_own, hf_keys_silu, NULL};

static const struct hf_tensor olmo2_tensors_own[] = {
    {"layers.%u.post_attention_layernorm.weight", "blk.%u.post_attention_norm.weight", HF_PLACE},
    {"layers.%u.post_feedforward_layernorm.weight", "blk.%u.post_ffw_norm.weight", HF_PLACE},
    END,
};
static const struct hf_tensor *const olmo2_tensors[] = {olmo2_tensors_own, hf_tensors_top, hf_tensors_attn, hf_tensors_qk_norm,
                                                        hf_tensors_gated, NULL};

/* OLMo 3 is OLMo 2 with windows on three layers of four, which GGUF files say with a window's length only. */
static infer_status olmo3_more(struct hf_reader *r)
{
    if (!hf_get(r, "sliding_window") && !is_null(r, "sliding_window"))
        hf_put_u32(r, ".attention.sliding_window", 4096);
    return hf_read_windows(r);
}

/* ---- starcoder2 ---- */

static const struct hf_key starcoder2_keys_own[] = {
    {"norm_epsilon", ".attention.layer_norm_epsilon", HF_F32, false, 1e-5},
    {"hidden_act", "gelu_pytorch_tanh|gelu_new", HF_ONE_OF, false, 0},
    END_KEYS,
};
static const struct hf_key *const starcoder2_keys[] = {hf_keys_sizes, starcoder2_keys_own, NULL};

static const struct hf_tensor starcoder2_tensors_own[] = {
    {"layers.%u.mlp.c_fc.weight", "blk.%u.ffn_up.weight", HF_PLACE},
    {"layers.%u.mlp.c_fc.bias", "blk.%u.ffn_up.bias", HF_PLACE},
    {"layers.%u.mlp.c_proj.weight", "blk.%u.ffn_down.weight", HF_PLACE},
    {"layers.%u.mlp.c_proj.bias", "blk.%u.ffn_down.bias", HF_PLACE},
    END,
};
static const struct hf_tensor *const starcoder2_tensors[] = {starcoder2_tensors_own, layer_norm_biases, hf_tensors_top, hf_tensors_attn,
                                                             hf_tensors_gated, NULL};

/* ---- stablelm ---- */

static const struct hf_key stablelm_keys_own[] = {
    {"layer_norm_eps", ".attention.layer_norm_epsilon", HF_F32, false, 1e-5},
    {"use_parallel_residual", ".use_parallel_residual", HF_BOOL, false, 0},
    END_KEYS,
};
static const struct hf_key *const stablelm_keys[] = {hf_keys_sizes, stablelm_keys_own, hf_keys_silu, NULL};

static const struct hf_tensor stablelm_tensors_own[] = {
    {"layers.%u.self_attn.q_layernorm.norms.%u.weight", "blk.%u.attn_q_norm.weight", HF_STACK},
    {"layers.%u.self_attn.k_layernorm.norms.%u.weight", "blk.%u.attn_k_norm.weight", HF_STACK},
    END,
};
static const struct hf_tensor *const stablelm_tensors[] = {stablelm_tensors_own, layer_norm_biases, hf_tensors_top, hf_tensors_attn,
                                                           hf_tensors_gated, NULL};

static const struct hf_arch archs[] = {
    {.model_type = "gemma2", .arch = "gemma2", .keys = gemma2_keys, .tensors = gemma2_tensors, .more = gemma2_more},
    {.model_type = "phi3", .arch = "phi3", .keys = phi3_keys, .tensors = phi3_tensors, .untied = true, .more = hf_read_windows},
    {.model_type = "mistral", .arch = "llama", .keys = mistral_keys, .tensors = mistral_tensors, .untied = true, .more = mistral_more},
    {.model_type = "ministral3", .arch = "mistral3", .keys = mistral_keys, .tensors = mistral_tensors, .untied = true,
     .more = ministral3_more},
    {.model_type = "granite", .arch = "granite", .keys = granite_keys, .tensors = llama_tensors, .untied = true, .more = granite_more},
    {.model_type = "nemotron", .arch = "nemotron", .keys = nemotron_keys, .tensors = nemotron_tensors, .untied = true,
     .rotary_part = 0.5},
    {.model_type = "olmo2", .arch = "olmo2", .keys = olmo2_keys, .tensors = olmo2_tensors, .untied = true},
    {.model_type = "olmo3", .arch = "olmo2", .keys = olmo2_keys, .tensors = olmo2_tensors, .untied = true, .more = olmo3_more},
    {.model_type = "starcoder2", .arch = "starcoder2", .keys = starcoder2_keys, .tensors = starcoder2_tensors, .more = hf_read_windows},
    {.model_type = "stablelm", .arch = "stablelm", .keys = stablelm_keys, .tensors = stablelm_tensors, .untied = true,
     .rotary_part = 0.25},
};

const struct hf_arch_list hf_dense_more = {archs, COUNT(archs)};
