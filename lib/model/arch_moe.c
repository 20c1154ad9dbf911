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

static const struct arch all[] = {
    {.name = "qwen3moe", .norm = DEV_NORM_RMS, .rope = DEV_ROPE_HALVES, .act = DEV_ACT_SILU, .gated = true,
     .norm_experts = true, .slots = qwen3moe_slots, .n_slots = COUNT(qwen3moe_slots)},
};

const struct arch_list arch_moe = {all, COUNT(all)};
