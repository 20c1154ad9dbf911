/* Encoders: models that make embeddings of texts. Names of keys and tensors are those of llama.cpp's converters. */
#include "model/arch_slots.h"

#define FUSED_QKV                                                                                                      \
    {SLOT_Q, SLOT_FUSED_QKV | SLOT_OPTIONAL, "blk.%u.attn_qkv.weight"},                                                \
        {SLOT_K, SLOT_FUSED_QKV | SLOT_OPTIONAL, "blk.%u.attn_qkv.weight"},                                            \
    {                                                                                                                  \
        SLOT_V, SLOT_FUSED_QKV | SLOT_OPTIONAL, "blk.%u.attn_qkv.weight"                                               \
    }
#define FUSED_QKV_BIAS                                                                                                 \
    {SLOT_Q_B, SLOT_FUSED_QKV | SLOT_OPTIONAL, "blk.%u.attn_qkv.bias"},                                                \
        {SLOT_K_B, SLOT_FUSED_QKV | SLOT_OPTIONAL, "blk.%u.attn_qkv.bias"},                                            \
    {                                                                                                                  \
        SLOT_V_B, SLOT_FUSED_QKV | SLOT_OPTIONAL, "blk.%u.attn_qkv.bias"                                               \
    }
#define SEPARATE_QKV_BIAS                                                                                              \
    {SLOT_Q_B, SLOT_OPTIONAL, "blk.%u.attn_q.bias"}, {SLOT_K_B, SLOT_OPTIONAL, "blk.%u.attn_k.bias"},                  \
    {                                                                                                                  \
        SLOT_V_B, SLOT_OPTIONAL, "blk.%u.attn_v.bias"                                                                  \
    }
/* x + attention and x + feed-forward are normalised, and so is the sum of the embeddings. */
#define POST_NORMS                                                                                                     \
    {SLOT_TOKEN_EMBD, 0, "token_embd.weight"}, {SLOT_TOKEN_TYPES, SLOT_OPTIONAL, "token_types.weight"},                \
        {SLOT_EMBD_NORM, 0, "token_embd_norm.weight"}, {SLOT_EMBD_NORM_B, 0, "token_embd_norm.bias"},                  \
        {SLOT_FFN_NORM, 0, "blk.%u.attn_output_norm.weight"}, {SLOT_FFN_NORM_B, 0, "blk.%u.attn_output_norm.bias"},    \
        {SLOT_LAYER_NORM, 0, "blk.%u.layer_output_norm.weight"},                                                       \
    {                                                                                                                  \
        SLOT_LAYER_NORM_B, 0, "blk.%u.layer_output_norm.bias"                                                          \
    }

static const struct slot_name bert_slots[] = {
    POST_NORMS,
    {SLOT_POS_EMBD, 0, "position_embd.weight"},
    FUSED_QKV,
    {SLOT_Q, 0, "blk.%u.attn_q.weight"},
    {SLOT_K, 0, "blk.%u.attn_k.weight"},
    {SLOT_V, 0, "blk.%u.attn_v.weight"},
    FUSED_QKV_BIAS,
    SEPARATE_QKV_BIAS,
    {SLOT_ATTN_OUT, 0, "blk.%u.attn_output.weight"},
    {SLOT_ATTN_OUT_B, SLOT_OPTIONAL, "blk.%u.attn_output.bias"},
    {SLOT_UP, 0, "blk.%u.ffn_up.weight"},
    {SLOT_UP_B, SLOT_OPTIONAL, "blk.%u.ffn_up.bias"},
    {SLOT_DOWN, 0, "blk.%u.ffn_down.weight"},
    {SLOT_DOWN_B, SLOT_OPTIONAL, "blk.%u.ffn_down.bias"},
};

static const struct slot_name nomic_slots[] = {
    POST_NORMS,
    FUSED_QKV,
    {SLOT_Q, 0, "blk.%u.attn_q.weight"},
    {SLOT_K, 0, "blk.%u.attn_k.weight"},
    {SLOT_V, 0, "blk.%u.attn_v.weight"},
    FUSED_QKV_BIAS,
    SEPARATE_QKV_BIAS,
    {SLOT_ATTN_OUT, 0, "blk.%u.attn_output.weight"},
    {SLOT_ATTN_OUT_B, SLOT_OPTIONAL, "blk.%u.attn_output.bias"},
    {SLOT_GATE, 0, "blk.%u.ffn_gate.weight"},
    {SLOT_UP, 0, "blk.%u.ffn_up.weight"},
    {SLOT_UP_B, SLOT_OPTIONAL, "blk.%u.ffn_up.bias"},
    {SLOT_DOWN, 0, "blk.%u.ffn_down.weight"},
    {SLOT_DOWN_B, SLOT_OPTIONAL, "blk.%u.ffn_down.bias"},
};

/* EmbeddingGemma: Gemma 3 whose elements see both sides, and two matrices behind the mean. */
static const struct slot_name gemma_slots[] = {
    {SLOT_TOKEN_EMBD, 0, "token_embd.weight"},
    {SLOT_OUT_NORM, 0, "output_norm.weight"},
    {SLOT_DENSE_2, SLOT_OPTIONAL, "dense_2.weight"},
    {SLOT_DENSE_3, SLOT_OPTIONAL, "dense_3.weight"},
    SEPARATE_QKV,
    {SLOT_Q_NORM, 0, "blk.%u.attn_q_norm.weight"},
    {SLOT_K_NORM, 0, "blk.%u.attn_k_norm.weight"},
    {SLOT_ATTN_POST_NORM, 0, "blk.%u.post_attention_norm.weight"},
    GATED_FFN,
    {SLOT_FFN_POST_NORM, 0, "blk.%u.post_ffw_norm.weight"},
};

static const struct arch all[] = {
    {.name = "bert", .norm = DEV_NORM_LAYER, .positions = POSITIONS_LEARNED, .act = DEV_ACT_GELU_ERF, .encoder = true,
     .post_norm = true, .slots = bert_slots, .n_slots = COUNT(bert_slots)},
    {.name = "nomic-bert", .norm = DEV_NORM_LAYER, .rope = DEV_ROPE_HALVES, .act = DEV_ACT_SILU, .gated = true,
     .encoder = true, .post_norm = true, .slots = nomic_slots, .n_slots = COUNT(nomic_slots)},
    {.name = "gemma-embedding", .norm = DEV_NORM_RMS, .rope = DEV_ROPE_HALVES, .act = DEV_ACT_GELU_TANH, .gated = true,
     .encoder = true, .scale_embeddings = true, .window_pattern = 6, .local_rope_base = 10000.0f,
     .slots = gemma_slots, .n_slots = COUNT(gemma_slots)},
};

const struct arch_list arch_bert = {all, COUNT(all)};
