/* The architectures. To add one built from known parts: a slot table, a descriptor, a line in `all`, and a golden test. Names of
 * keys and tensors are those of the GGUF files that llama.cpp's converters write. */
#include "model/arch_slots.h"

#include <string.h>

static const struct slot_name llama_slots[] = {
    EMBEDDINGS,
    ROPE_FACTORS,
    SEPARATE_QKV,
    QKV_BIASES(SLOT_OPTIONAL),
    {SLOT_ATTN_OUT_B, SLOT_OPTIONAL, "blk.%u.attn_output.bias"},
    GATED_FFN,
    {SLOT_GATE_B, SLOT_OPTIONAL, "blk.%u.ffn_gate.bias"},
    {SLOT_UP_B, SLOT_OPTIONAL, "blk.%u.ffn_up.bias"},
    {SLOT_DOWN_B, SLOT_OPTIONAL, "blk.%u.ffn_down.bias"},
    EXPERTS, /* Mixtral */
};

static const struct slot_name qwen2_slots[] = {
    EMBEDDINGS,
    ROPE_FACTORS,
    SEPARATE_QKV,
    QKV_BIASES(0),
    GATED_FFN,
};

static const struct slot_name qwen3_slots[] = {
    EMBEDDINGS,
    ROPE_FACTORS,
    SEPARATE_QKV,
    {SLOT_Q_NORM, 0, "blk.%u.attn_q_norm.weight"},
    {SLOT_K_NORM, 0, "blk.%u.attn_k_norm.weight"},
    GATED_FFN,
};

static const struct slot_name gemma3_slots[] = {
    EMBEDDINGS,
    SEPARATE_QKV,
    {SLOT_Q_NORM, 0, "blk.%u.attn_q_norm.weight"},
    {SLOT_K_NORM, 0, "blk.%u.attn_k_norm.weight"},
    {SLOT_ATTN_POST_NORM, 0, "blk.%u.post_attention_norm.weight"},
    GATED_FFN,
    {SLOT_FFN_POST_NORM, 0, "blk.%u.post_ffw_norm.weight"},
};

static const struct slot_name gemma2_slots[] = {
    EMBEDDINGS,
    SEPARATE_QKV,
    {SLOT_ATTN_POST_NORM, 0, "blk.%u.post_attention_norm.weight"},
    GATED_FFN,
    {SLOT_FFN_POST_NORM, 0, "blk.%u.post_ffw_norm.weight"},
};

static const struct slot_name phi3_slots[] = {
    EMBEDDINGS,
    {SLOT_ROPE_SHORT, SLOT_OPTIONAL, "rope_factors_short.weight"},
    {SLOT_ROPE_LONG, SLOT_OPTIONAL, "rope_factors_long.weight"},
    {SLOT_ATTN_NORM, 0, "blk.%u.attn_norm.weight"},
    {SLOT_Q, SLOT_FUSED_QKV, "blk.%u.attn_qkv.weight"},
    {SLOT_K, SLOT_FUSED_QKV, "blk.%u.attn_qkv.weight"},
    {SLOT_V, SLOT_FUSED_QKV, "blk.%u.attn_qkv.weight"},
    {SLOT_ATTN_OUT, 0, "blk.%u.attn_output.weight"},
    {SLOT_FFN_NORM, 0, "blk.%u.ffn_norm.weight"},
    {SLOT_GATE, SLOT_FUSED_GATE_UP, "blk.%u.ffn_up.weight"},
    {SLOT_UP, SLOT_FUSED_GATE_UP, "blk.%u.ffn_up.weight"},
    {SLOT_DOWN, 0, "blk.%u.ffn_down.weight"},
};

/* nemotron, starcoder2 */
static const struct slot_name layer_norm_slots[] = {
    EMBEDDINGS,
    ROPE_FACTORS,
    SEPARATE_QKV,
    QKV_BIASES(SLOT_OPTIONAL),
    {SLOT_ATTN_OUT_B, SLOT_OPTIONAL, "blk.%u.attn_output.bias"},
    {SLOT_FFN_NORM, 0, "blk.%u.ffn_norm.weight"},
    NORM_BIASES,
    {SLOT_UP, 0, "blk.%u.ffn_up.weight"},
    {SLOT_UP_B, SLOT_OPTIONAL, "blk.%u.ffn_up.bias"},
    {SLOT_DOWN, 0, "blk.%u.ffn_down.weight"},
    {SLOT_DOWN_B, SLOT_OPTIONAL, "blk.%u.ffn_down.bias"},
};

static const struct slot_name olmo2_slots[] = {
    EMBEDDINGS,
    {SLOT_Q, 0, "blk.%u.attn_q.weight"},
    {SLOT_K, 0, "blk.%u.attn_k.weight"},
    {SLOT_V, 0, "blk.%u.attn_v.weight"},
    {SLOT_Q_NORM, SLOT_ALL_HEADS, "blk.%u.attn_q_norm.weight"},
    {SLOT_K_NORM, SLOT_ALL_HEADS, "blk.%u.attn_k_norm.weight"},
    {SLOT_ATTN_OUT, 0, "blk.%u.attn_output.weight"},
    {SLOT_ATTN_POST_NORM, 0, "blk.%u.post_attention_norm.weight"},
    {SLOT_GATE, 0, "blk.%u.ffn_gate.weight"},
    {SLOT_UP, 0, "blk.%u.ffn_up.weight"},
    {SLOT_DOWN, 0, "blk.%u.ffn_down.weight"},
    {SLOT_FFN_POST_NORM, 0, "blk.%u.post_ffw_norm.weight"},
};

static const struct slot_name stablelm_slots[] = {
    EMBEDDINGS,
    ROPE_FACTORS,
    SEPARATE_QKV,
    QKV_BIASES(SLOT_OPTIONAL),
    {SLOT_Q_NORM, SLOT_OPTIONAL | SLOT_EACH_HEAD, "blk.%u.attn_q_norm.weight"},
    {SLOT_K_NORM, SLOT_OPTIONAL | SLOT_EACH_HEAD, "blk.%u.attn_k_norm.weight"},
    {SLOT_FFN_NORM, SLOT_UNLESS_PARALLEL, "blk.%u.ffn_norm.weight"},
    NORM_BIASES,
    {SLOT_GATE, 0, "blk.%u.ffn_gate.weight"},
    {SLOT_UP, 0, "blk.%u.ffn_up.weight"},
    {SLOT_DOWN, 0, "blk.%u.ffn_down.weight"},
};

static const struct slot_name gpt2_slots[] = {
    EMBEDDINGS,
    {SLOT_POS_EMBD, 0, "position_embd.weight"},
    {SLOT_OUT_NORM_B, 0, "output_norm.bias"},
    {SLOT_ATTN_NORM, 0, "blk.%u.attn_norm.weight"},
    {SLOT_ATTN_NORM_B, 0, "blk.%u.attn_norm.bias"},
    {SLOT_Q, SLOT_FUSED_QKV, "blk.%u.attn_qkv.weight"},
    {SLOT_K, SLOT_FUSED_QKV, "blk.%u.attn_qkv.weight"},
    {SLOT_V, SLOT_FUSED_QKV, "blk.%u.attn_qkv.weight"},
    {SLOT_Q_B, SLOT_FUSED_QKV, "blk.%u.attn_qkv.bias"},
    {SLOT_K_B, SLOT_FUSED_QKV, "blk.%u.attn_qkv.bias"},
    {SLOT_V_B, SLOT_FUSED_QKV, "blk.%u.attn_qkv.bias"},
    {SLOT_ATTN_OUT, 0, "blk.%u.attn_output.weight"},
    {SLOT_ATTN_OUT_B, 0, "blk.%u.attn_output.bias"},
    {SLOT_FFN_NORM, 0, "blk.%u.ffn_norm.weight"},
    {SLOT_FFN_NORM_B, 0, "blk.%u.ffn_norm.bias"},
    {SLOT_UP, 0, "blk.%u.ffn_up.weight"},
    {SLOT_UP_B, 0, "blk.%u.ffn_up.bias"},
    {SLOT_DOWN, 0, "blk.%u.ffn_down.weight"},
    {SLOT_DOWN_B, 0, "blk.%u.ffn_down.bias"},
};

static const struct arch all[] = {
    {.name = "llama", .norm = DEV_NORM_RMS, .rope = DEV_ROPE_PAIRS, .act = DEV_ACT_SILU, .gated = true,
     .norm_experts = true, .slots = llama_slots, .n_slots = COUNT(llama_slots)},
    {.name = "mistral3", .norm = DEV_NORM_RMS, .rope = DEV_ROPE_PAIRS, .act = DEV_ACT_SILU, .gated = true,
     .slots = llama_slots, .n_slots = COUNT(llama_slots)},
    {.name = "qwen2", .norm = DEV_NORM_RMS, .rope = DEV_ROPE_HALVES, .act = DEV_ACT_SILU, .gated = true,
     .slots = qwen2_slots, .n_slots = COUNT(qwen2_slots)},
    {.name = "qwen3", .norm = DEV_NORM_RMS, .rope = DEV_ROPE_HALVES, .act = DEV_ACT_SILU, .gated = true,
     .slots = qwen3_slots, .n_slots = COUNT(qwen3_slots)},
    {.name = "gemma3", .norm = DEV_NORM_RMS, .rope = DEV_ROPE_HALVES, .act = DEV_ACT_GELU_TANH, .gated = true,
     .scale_embeddings = true, .window_pattern = 6, .scale_by_width_layers = 62 /* the 27B */,
     .local_rope_base = 10000.0f,
     .slots = gemma3_slots, .n_slots = COUNT(gemma3_slots)},
    {.name = "gemma2", .norm = DEV_NORM_RMS, .rope = DEV_ROPE_HALVES, .act = DEV_ACT_GELU_TANH, .gated = true,
     .scale_embeddings = true, .window_pattern = 2, .default_window = 4096, .attn_softcap = 50.0f, .final_softcap = 30.0f,
     .scale_by_width_layers = 46 /* the 27B */, .slots = gemma2_slots, .n_slots = COUNT(gemma2_slots)},
    {.name = "phi3", .norm = DEV_NORM_RMS, .rope = DEV_ROPE_HALVES, .act = DEV_ACT_SILU, .gated = true,
     .slots = phi3_slots, .n_slots = COUNT(phi3_slots)},
    {.name = "granite", .scales_rows = true, .norm = DEV_NORM_RMS, .rope = DEV_ROPE_PAIRS, .act = DEV_ACT_SILU, .gated = true, .divides_logits = true,
     .slots = llama_slots, .n_slots = COUNT(llama_slots)},
    {.name = "nemotron", .norm = DEV_NORM_LAYER, .rope = DEV_ROPE_HALVES, .act = DEV_ACT_RELU2,
     .slots = layer_norm_slots, .n_slots = COUNT(layer_norm_slots)},
    {.name = "olmo2", .norm = DEV_NORM_RMS, .rope = DEV_ROPE_HALVES, .act = DEV_ACT_SILU, .gated = true,
     .window_pattern = 4 /* OLMo 3; OLMo 2 has no windows */, .local_rope_plain = true, .slots = olmo2_slots, .n_slots = COUNT(olmo2_slots)},
    {.name = "starcoder2", .norm = DEV_NORM_LAYER, .rope = DEV_ROPE_HALVES, .act = DEV_ACT_GELU_TANH,
     .slots = layer_norm_slots, .n_slots = COUNT(layer_norm_slots)},
    {.name = "stablelm", .norm = DEV_NORM_LAYER, .rope = DEV_ROPE_HALVES, .act = DEV_ACT_SILU, .gated = true,
     .may_be_parallel = true, .slots = stablelm_slots, .n_slots = COUNT(stablelm_slots)},
    {.name = "gpt2", .norm = DEV_NORM_LAYER, .positions = POSITIONS_LEARNED, .act = DEV_ACT_GELU_TANH,
     .slots = gpt2_slots, .n_slots = COUNT(gpt2_slots)},
};

const struct arch_list arch_dense = {all, COUNT(all)};

const struct arch *arch_find(const char *name, size_t len)
{
    static const struct arch_list *const lists[] = {&arch_dense, &arch_moe, &arch_bert};
    for (size_t l = 0; l < COUNT(lists); l++)
        for (size_t i = 0; i < lists[l]->n; i++)
            if (strlen(lists[l]->archs[i].name) == len && !memcmp(lists[l]->archs[i].name, name, len))
                return &lists[l]->archs[i];
    return NULL;
}

enum slot_shape slot_shape_of(enum slot slot)
{
    static const uint8_t shapes[SLOT_COUNT] = {
        [SLOT_TOKEN_EMBD] = SHAPE_VOCAB_EMBD, [SLOT_POS_EMBD] = SHAPE_CTX_EMBD, [SLOT_OUT_NORM] = SHAPE_EMBD,
        [SLOT_TOKEN_TYPES] = SHAPE_SOME_EMBD, [SLOT_EMBD_NORM] = SHAPE_EMBD, [SLOT_EMBD_NORM_B] = SHAPE_EMBD,
        [SLOT_DENSE_2] = SHAPE_SOME_EMBD, [SLOT_DENSE_3] = SHAPE_DENSE_3, [SLOT_LAYER_NORM] = SHAPE_EMBD,
        [SLOT_LAYER_NORM_B] = SHAPE_EMBD, [SLOT_OUT_NORM_B] = SHAPE_EMBD, [SLOT_OUTPUT] = SHAPE_VOCAB_EMBD, [SLOT_ROPE_FACTORS] = SHAPE_ROT_HALF,
        [SLOT_ROPE_SHORT] = SHAPE_ROT_HALF, [SLOT_ROPE_LONG] = SHAPE_ROT_HALF,
        [SLOT_ATTN_NORM] = SHAPE_EMBD, [SLOT_ATTN_NORM_B] = SHAPE_EMBD, [SLOT_Q] = SHAPE_EMBD_TO_Q,
        [SLOT_Q_B] = SHAPE_Q, [SLOT_K] = SHAPE_EMBD_TO_KV, [SLOT_K_B] = SHAPE_KV, [SLOT_V] = SHAPE_EMBD_TO_KV,
        [SLOT_V_B] = SHAPE_KV, [SLOT_Q_NORM] = SHAPE_HEAD, [SLOT_K_NORM] = SHAPE_HEAD,
        [SLOT_ATTN_OUT] = SHAPE_Q_TO_EMBD, [SLOT_ATTN_OUT_B] = SHAPE_EMBD, [SLOT_ATTN_POST_NORM] = SHAPE_EMBD,
        [SLOT_FFN_NORM] = SHAPE_EMBD, [SLOT_FFN_NORM_B] = SHAPE_EMBD, [SLOT_GATE] = SHAPE_EMBD_TO_FF,
        [SLOT_GATE_B] = SHAPE_FF, [SLOT_UP] = SHAPE_EMBD_TO_FF, [SLOT_UP_B] = SHAPE_FF,
        [SLOT_DOWN] = SHAPE_FF_TO_EMBD, [SLOT_DOWN_B] = SHAPE_EMBD, [SLOT_FFN_POST_NORM] = SHAPE_EMBD,
        [SLOT_ROUTER] = SHAPE_EMBD_TO_EXPERTS, [SLOT_ROUTER_BIAS] = SHAPE_EXPERTS, [SLOT_SHARED_ROUTER] = SHAPE_EMBD,
        [SLOT_SHARED_GATE] = SHAPE_EMBD_TO_SHARED, [SLOT_SHARED_UP] = SHAPE_EMBD_TO_SHARED,
        [SLOT_SHARED_DOWN] = SHAPE_SHARED_TO_EMBD, [SLOT_EXP_GATE] = SHAPE_EMBD_TO_EXP, [SLOT_EXP_UP] = SHAPE_EMBD_TO_EXP,
        [SLOT_EXP_DOWN] = SHAPE_EXP_TO_EMBD,
        [SLOT_MLA_Q] = SHAPE_EMBD_TO_MLA_Q, [SLOT_MLA_Q_DOWN] = SHAPE_EMBD_TO_Q_LORA, [SLOT_MLA_Q_NORM] = SHAPE_Q_LORA,
        [SLOT_MLA_Q_UP] = SHAPE_Q_LORA_TO_MLA_Q, [SLOT_MLA_KV_DOWN] = SHAPE_EMBD_TO_LATENT, [SLOT_MLA_KV_NORM] = SHAPE_LATENT,
        [SLOT_MLA_OUT] = SHAPE_MLA_TO_EMBD, [SLOT_MLA_K] = SHAPE_MLA_K, [SLOT_MLA_V] = SHAPE_MLA_V, [SLOT_MLA_KV] = SHAPE_MLA_KV,
    };
    return (enum slot_shape)shapes[slot];
}
