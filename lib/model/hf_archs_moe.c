/* Architectures with experts in Hugging Face folders. There each expert has tensors of its own, which are used where they lie. */
#include "model/hf_read.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define END {NULL, NULL, 0}
#define END_KEYS {NULL, NULL, 0, false, 0}

static const struct hf_tensor experts[] = {
    {"layers.%u.mlp.gate.weight", "blk.%u.ffn_gate_inp.weight", HF_PLACE},
    {"layers.%u.mlp.experts.%u.gate_proj.weight", "blk.%u.ffn_gate.%u.weight", HF_PLACE},
    {"layers.%u.mlp.experts.%u.up_proj.weight", "blk.%u.ffn_up.%u.weight", HF_PLACE},
    {"layers.%u.mlp.experts.%u.down_proj.weight", "blk.%u.ffn_down.%u.weight", HF_PLACE},
    END,
};

/* transformers takes the weights of the chosen experts as they are, unless told. */
static infer_status norm_unless_told(struct hf_reader *r)
{
    const struct json *v = hf_get(r, "norm_topk_prob");
    if (v && v->type != JSON_BOOL)
        return hf_fail(r, INFER_ERROR_VALUE, "norm_topk_prob", "neither true nor false");
    hf_put_bool(r, ".expert_weights_norm", v && v->u.boolean);
    return INFER_OK;
}

static infer_status must_be(const struct hf_reader *r, const char *key, uint32_t value, const char *why)
{
    uint32_t x = value;
    infer_status st = hf_u32(r, r->model, key, &x);
    return st == INFER_OK && x != value ? hf_fail(r, INFER_ERROR_UNSUPPORTED, key, why) : st;
}

/* ---- mixtral ---- */

static const struct hf_key mixtral_keys_own[] = {
    {"num_local_experts", ".expert_count", HF_U32, false, 8},
    {"num_experts_per_tok", ".expert_used_count", HF_U32, false, 2},
    END_KEYS,
};
static const struct hf_key *const mixtral_keys[] = {hf_keys_sizes, hf_keys_rms, hf_keys_silu, mixtral_keys_own, NULL};

static const struct hf_tensor mixtral_experts[] = {
    {"layers.%u.block_sparse_moe.gate.weight", "blk.%u.ffn_gate_inp.weight", HF_PLACE},
    {"layers.%u.block_sparse_moe.experts.%u.w1.weight", "blk.%u.ffn_gate.%u.weight", HF_PLACE},
    {"layers.%u.block_sparse_moe.experts.%u.w3.weight", "blk.%u.ffn_up.%u.weight", HF_PLACE},
    {"layers.%u.block_sparse_moe.experts.%u.w2.weight", "blk.%u.ffn_down.%u.weight", HF_PLACE},
    {"layers.%u.post_attention_layernorm.weight", "blk.%u.ffn_norm.weight", HF_PLACE},
    END,
};
static const struct hf_tensor *const mixtral_tensors[] = {hf_tensors_top, hf_tensors_attn, mixtral_experts, NULL};

/* Llama's files in GGUF have the rows of Q and K in another order; these are used as they are. */
static infer_status mixtral_more(struct hf_reader *r)
{
    hf_put_bool(r, "libinfer.rope_halves", true);
    return hf_read_windows(r);
}

/* ---- qwen2_moe, qwen3_moe, olmoe ---- */

static const struct hf_key qwen_keys_own[] = {
    {"num_experts|num_local_experts", ".expert_count", HF_U32, true, 0},
    {"num_experts_per_tok", ".expert_used_count", HF_U32, true, 0},
    {"moe_intermediate_size", ".expert_feed_forward_length", HF_U32, true, 0},
    {"shared_expert_intermediate_size", ".expert_shared_feed_forward_length", HF_U32, false, 0},
    END_KEYS,
};
static const struct hf_key *const qwen_keys[] = {hf_keys_sizes, hf_keys_rms, hf_keys_silu, qwen_keys_own, NULL};

static const struct hf_tensor qwen2_shared[] = {
    {"layers.%u.mlp.shared_expert_gate.weight", "blk.%u.ffn_gate_inp_shexp.weight", HF_PLACE},
    {"layers.%u.mlp.shared_expert.gate_proj.weight", "blk.%u.ffn_gate_shexp.weight", HF_PLACE},
    {"layers.%u.mlp.shared_expert.up_proj.weight", "blk.%u.ffn_up_shexp.weight", HF_PLACE},
    {"layers.%u.mlp.shared_expert.down_proj.weight", "blk.%u.ffn_down_shexp.weight", HF_PLACE},
    END,
};
static const struct hf_tensor *const qwen2_tensors[] = {hf_tensors_top, hf_tensors_attn, experts, qwen2_shared, hf_tensors_gated, NULL};
static const struct hf_tensor *const qwen3_tensors[] = {hf_tensors_top, hf_tensors_attn, hf_tensors_qk_norm, experts, hf_tensors_gated, NULL};

/* All layers must have experts. */
static infer_status qwen_more(struct hf_reader *r)
{
    const struct json *dense = hf_get(r, "mlp_only_layers");
    infer_status st = must_be(r, "decoder_sparse_step", 1, "models with layers without experts are not supported");
    if (st == INFER_OK && dense && !(dense->type == JSON_ARRAY && dense->n == 0))
        st = hf_fail(r, INFER_ERROR_UNSUPPORTED, "mlp_only_layers", "models with layers without experts are not supported");
    if (st == INFER_OK)
        st = norm_unless_told(r);
    const struct json *use = hf_get(r, "use_sliding_window"), *layers = hf_get(r, "layer_types");
    if (st == INFER_OK && use && use->type == JSON_BOOL && use->u.boolean && hf_get(r, "sliding_window") && !layers)
        st = hf_fail(r, INFER_ERROR_UNSUPPORTED, "use_sliding_window", "windows in models with experts need layer_types");
    return st == INFER_OK ? hf_read_windows_if_used(r) : st;
}

static const struct hf_key olmoe_keys_own[] = {
    {"num_experts|num_local_experts", ".expert_count", HF_U32, false, 64},
    {"num_experts_per_tok", ".expert_used_count", HF_U32, false, 8},
    {"clip_qkv", NULL, HF_FALSE, false, 0},
    END_KEYS,
};
static const struct hf_key *const olmoe_keys[] = {hf_keys_sizes, hf_keys_rms, hf_keys_silu, olmoe_keys_own, NULL};

/* ---- deepseek_v2, deepseek_v3 ---- */

static const struct hf_key deepseek_keys_own[] = {
    {"vocab_size", ".vocab_size", HF_U32, false, 0},
    {"num_hidden_layers", ".block_count", HF_U32, true, 0},
    {"hidden_size", ".embedding_length", HF_U32, true, 0},
    {"max_position_embeddings", ".context_length", HF_U32, true, 0},
    {"num_attention_heads", ".attention.head_count", HF_U32, true, 0},
    {"intermediate_size", ".feed_forward_length", HF_U32, true, 0},
    {"rms_norm_eps", ".attention.layer_norm_rms_epsilon", HF_F32, false, 1e-6},
    {"kv_lora_rank", ".attention.kv_lora_rank", HF_U32, true, 0},
    {"q_lora_rank", ".attention.q_lora_rank", HF_U32, false, 0},
    {"qk_rope_head_dim", ".rope.dimension_count", HF_U32, true, 0},
    {"v_head_dim", ".attention.value_length", HF_U32, true, 0},
    {"n_routed_experts", ".expert_count", HF_U32, true, 0},
    {"num_experts_per_tok", ".expert_used_count", HF_U32, true, 0},
    {"n_shared_experts", ".expert_shared_count", HF_U32, false, 0},
    {"moe_intermediate_size", ".expert_feed_forward_length", HF_U32, true, 0},
    {"first_k_dense_replace", ".leading_dense_block_count", HF_U32, false, 0},
    {"routed_scaling_factor", ".expert_weights_scale", HF_F32, false, 1},
    {"attention_bias", NULL, HF_FALSE, false, 0},
    {"mlp_bias", NULL, HF_FALSE, false, 0},
    END_KEYS,
};
static const struct hf_key *const deepseek_keys[] = {deepseek_keys_own, hf_keys_silu, NULL};

static const struct hf_tensor deepseek_own[] = {
    {"layers.%u.self_attn.q_a_proj.weight", "blk.%u.attn_q_a.weight", HF_PLACE},
    {"layers.%u.self_attn.q_a_layernorm.weight", "blk.%u.attn_q_a_norm.weight", HF_PLACE},
    {"layers.%u.self_attn.q_b_proj.weight", "blk.%u.attn_q_b.weight", HF_PLACE},
    {"layers.%u.self_attn.kv_a_proj_with_mqa.weight", "blk.%u.attn_kv_a_mqa.weight", HF_PLACE},
    {"layers.%u.self_attn.kv_a_layernorm.weight", "blk.%u.attn_kv_a_norm.weight", HF_PLACE},
    {"layers.%u.self_attn.kv_b_proj.weight", "blk.%u.attn_kv_b.weight", HF_PLACE},
    {"layers.%u.mlp.gate.e_score_correction_bias", "blk.%u.exp_probs_b.bias", HF_PLACE},
    {"layers.%u.mlp.shared_experts.gate_proj.weight", "blk.%u.ffn_gate_shexp.weight", HF_PLACE},
    {"layers.%u.mlp.shared_experts.up_proj.weight", "blk.%u.ffn_up_shexp.weight", HF_PLACE},
    {"layers.%u.mlp.shared_experts.down_proj.weight", "blk.%u.ffn_down_shexp.weight", HF_PLACE},
    END,
};
static const struct hf_tensor *const deepseek_tensors[] = {hf_tensors_top, hf_tensors_attn, deepseek_own, experts, hf_tensors_gated, NULL};

static infer_status deepseek_sizes(struct hf_reader *r)
{
    uint32_t nope = 0, rot = 0;
    infer_status st = hf_u32(r, r->model, "qk_nope_head_dim", &nope);
    if (st == INFER_OK)
        st = hf_u32(r, r->model, "qk_rope_head_dim", &rot);
    if (st == INFER_OK && (nope > 4096 || rot > 4096 || !nope))
        st = hf_fail(r, INFER_ERROR_VALUE, "qk_nope_head_dim", "absent or out of range");
    if (st == INFER_OK)
        st = must_be(r, "moe_layer_freq", 1, "models with layers without experts between others are not supported");
    if (st == INFER_OK)
        hf_put_u32(r, ".attention.key_length", nope + rot);
    return st;
}

static infer_status deepseek_groups(struct hf_reader *r)
{
    uint32_t groups = 1, used = 1;
    infer_status st = hf_u32(r, r->model, "n_group", &groups);
    if (st == INFER_OK)
        st = hf_u32(r, r->model, "topk_group", &used);
    if (st == INFER_OK && groups > 1) {
        hf_put_u32(r, ".expert_group_count", groups);
        hf_put_u32(r, ".expert_group_used_count", used);
    }
    return st;
}

static infer_status deepseek2_more(struct hf_reader *r)
{
    const struct json *method = hf_get(r, "topk_method"), *scores = hf_get(r, "scoring_func"), *norm = hf_get(r, "norm_topk_prob");
    infer_status st = deepseek_sizes(r);
    if (st == INFER_OK && method && !hf_one_of(method, "greedy|gready|group_limited_greedy"))
        st = hf_fail(r, INFER_ERROR_UNSUPPORTED, "topk_method", "this way to choose experts is not supported");
    if (st == INFER_OK && scores && !hf_text_is(scores, "softmax"))
        st = hf_fail(r, INFER_ERROR_UNSUPPORTED, "scoring_func", "this kind of router is not supported");
    if (st == INFER_OK && norm && (norm->type != JSON_BOOL || norm->u.boolean)) /* transformers does without, others do with */
        st = hf_fail(r, INFER_ERROR_UNSUPPORTED, "norm_topk_prob", "this value is not supported");
    if (st == INFER_OK && hf_text_is(method, "group_limited_greedy"))
        st = deepseek_groups(r);
    return st;
}

static infer_status deepseek3_more(struct hf_reader *r)
{
    const struct json *scores = hf_get(r, "scoring_func"), *pairs = hf_get(r, "rope_interleave"), *norm = hf_get(r, "norm_topk_prob");
    infer_status st = deepseek_sizes(r);
    if (st == INFER_OK && scores && !hf_text_is(scores, "sigmoid"))
        st = hf_fail(r, INFER_ERROR_UNSUPPORTED, "scoring_func", "this kind of router is not supported");
    if (st == INFER_OK && norm && norm->type != JSON_BOOL)
        st = hf_fail(r, INFER_ERROR_VALUE, "norm_topk_prob", "neither true nor false");
    if (st != INFER_OK)
        return st;
    hf_put_bool(r, ".expert_weights_norm", !norm || norm->u.boolean);
    hf_put_u32(r, ".expert_gating_func", 2 /* sigmoid */);
    if (pairs && pairs->type == JSON_BOOL && !pairs->u.boolean)
        hf_put_bool(r, "libinfer.rope_halves", true);
    return deepseek_groups(r);
}

static const struct hf_arch archs[] = {
    {.model_type = "mixtral", .arch = "llama", .keys = mixtral_keys, .tensors = mixtral_tensors, .untied = true, .more = mixtral_more},
    {.model_type = "qwen2_moe", .arch = "qwen2moe", .keys = qwen_keys, .tensors = qwen2_tensors, .untied = true, .more = qwen_more},
    {.model_type = "qwen3_moe", .arch = "qwen3moe", .keys = qwen_keys, .tensors = qwen3_tensors, .untied = true, .more = qwen_more},
    {.model_type = "olmoe", .arch = "olmoe", .keys = olmoe_keys, .tensors = qwen3_tensors, .untied = true, .more = norm_unless_told},
    {.model_type = "deepseek_v2", .arch = "deepseek2", .keys = deepseek_keys, .tensors = deepseek_tensors, .untied = true, .more = deepseek2_more},
    {.model_type = "deepseek_v3", .arch = "deepseek2", .keys = deepseek_keys, .tensors = deepseek_tensors, .untied = true, .more = deepseek3_more},
};

const struct hf_arch_list hf_moe = {archs, COUNT(archs)};
