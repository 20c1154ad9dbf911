/* The architectures whose layers have experts, but for Mixtral, which is a llama (architectures.c). */
#include "model/arch_slots.h"

static const struct slot_name qwen3moe_slots[] = {
    EMBEDDINGS,
    ROPE_FACTORS,
    SEPARATE_QKV,
    {SLOT_Q_NORM, 0, "blk.%u.attn_q_norm.weight"},
    {SLOT_K_NORM, 0, "blk.%u.attn_k_norm.weight"},
    {SLOT_FFN_NORM, 0, "blk.%u.ffn_norm.weight"},
    EXPERTS,
};

static const struct slot_name qwen2moe_slots[] = {
    EMBEDDINGS,
    ROPE_FACTORS,
    SEPARATE_QKV,
    QKV_BIASES(0),
    {SLOT_FFN_NORM, 0, "blk.%u.ffn_norm.weight"},
    EXPERTS,
    {SLOT_SHARED_ROUTER, 0, "blk.%u.ffn_gate_inp_shexp.weight"},
    SHARED_EXPERT,
};

static const struct slot_name olmoe_slots[] = {
    EMBEDDINGS,
    SEPARATE_QKV,
    {SLOT_Q_NORM, SLOT_ALL_HEADS, "blk.%u.attn_q_norm.weight"},
    {SLOT_K_NORM, SLOT_ALL_HEADS, "blk.%u.attn_k_norm.weight"},
    {SLOT_FFN_NORM, 0, "blk.%u.ffn_norm.weight"},
    EXPERTS,
};

static const struct slot_name deepseek2_slots[] = {
    EMBEDDINGS,
    {SLOT_ATTN_NORM, 0, "blk.%u.attn_norm.weight"},
    {SLOT_MLA_Q, 0, "blk.%u.attn_q.weight"},
    {SLOT_MLA_Q_DOWN, 0, "blk.%u.attn_q_a.weight"},
    {SLOT_MLA_Q_NORM, 0, "blk.%u.attn_q_a_norm.weight"},
    {SLOT_MLA_Q_UP, 0, "blk.%u.attn_q_b.weight"},
    {SLOT_MLA_KV_DOWN, 0, "blk.%u.attn_kv_a_mqa.weight"},
    {SLOT_MLA_KV_NORM, 0, "blk.%u.attn_kv_a_norm.weight"},
    {SLOT_MLA_K, 0, "blk.%u.attn_k_b.weight"},
    {SLOT_MLA_V, 0, "blk.%u.attn_v_b.weight"},
    {SLOT_MLA_KV, 0, "blk.%u.attn_kv_b.weight"},
    {SLOT_MLA_OUT, 0, "blk.%u.attn_output.weight"},
    GATED_FFN,
    EXPERTS,
    {SLOT_ROUTER_BIAS, SLOT_OPTIONAL, "blk.%u.exp_probs_b.bias"},
    SHARED_EXPERT,
};

static const struct arch all[] = {
    {.name = "qwen3moe", .norm = DEV_NORM_RMS, .rope = DEV_ROPE_HALVES, .act = DEV_ACT_SILU, .gated = true,
     .norm_experts = true, .slots = qwen3moe_slots, .n_slots = COUNT(qwen3moe_slots)},
    {.name = "qwen2moe", .norm = DEV_NORM_RMS, .rope = DEV_ROPE_HALVES, .act = DEV_ACT_SILU, .gated = true,
     .slots = qwen2moe_slots, .n_slots = COUNT(qwen2moe_slots)},
    {.name = "olmoe", .norm = DEV_NORM_RMS, .rope = DEV_ROPE_HALVES, .act = DEV_ACT_SILU, .gated = true,
     .slots = olmoe_slots, .n_slots = COUNT(olmoe_slots)},
    {.name = "deepseek2", .norm = DEV_NORM_RMS, .rope = DEV_ROPE_PAIRS, .act = DEV_ACT_SILU, .gated = true, .mla = true,
     .slots = deepseek2_slots, .n_slots = COUNT(deepseek2_slots)},
};

const struct arch_list arch_moe = {all, COUNT(all)};
