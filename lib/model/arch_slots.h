/* Runs of slots that many architectures share, by their names in GGUF files. */
#ifndef MODEL_ARCH_SLOTS_H
#define MODEL_ARCH_SLOTS_H

#include "model/arch.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

#define EMBEDDINGS                                                                                                     \
    {SLOT_TOKEN_EMBD, 0, "token_embd.weight"}, {SLOT_OUT_NORM, 0, "output_norm.weight"},                               \
    {                                                                                                                  \
        SLOT_OUTPUT, SLOT_OPTIONAL, "output.weight" /* absent: tied to the embeddings */                               \
    }
#define SEPARATE_QKV                                                                                                   \
    {SLOT_ATTN_NORM, 0, "blk.%u.attn_norm.weight"}, {SLOT_Q, 0, "blk.%u.attn_q.weight"},                               \
        {SLOT_K, 0, "blk.%u.attn_k.weight"}, {SLOT_V, 0, "blk.%u.attn_v.weight"},                                      \
    {                                                                                                                  \
        SLOT_ATTN_OUT, 0, "blk.%u.attn_output.weight"                                                                  \
    }
#define GATED_FFN                                                                                                      \
    {SLOT_FFN_NORM, 0, "blk.%u.ffn_norm.weight"}, {SLOT_GATE, 0, "blk.%u.ffn_gate.weight"},                            \
        {SLOT_UP, 0, "blk.%u.ffn_up.weight"},                                                                          \
    {                                                                                                                  \
        SLOT_DOWN, 0, "blk.%u.ffn_down.weight"                                                                         \
    }
#define QKV_BIASES(flags)                                                                                              \
    {SLOT_Q_B, flags, "blk.%u.attn_q.bias"}, {SLOT_K_B, flags, "blk.%u.attn_k.bias"},                                  \
    {                                                                                                                  \
        SLOT_V_B, flags, "blk.%u.attn_v.bias"                                                                          \
    }
/* Of layer norms. */
#define NORM_BIASES                                                                                                    \
    {SLOT_OUT_NORM_B, 0, "output_norm.bias"}, {SLOT_ATTN_NORM_B, 0, "blk.%u.attn_norm.bias"},                          \
    {                                                                                                                  \
        SLOT_FFN_NORM_B, SLOT_UNLESS_PARALLEL, "blk.%u.ffn_norm.bias"                                                  \
    }
/* Each expert's matrices one after another in one tensor, or a tensor each. */
#define EXPERTS                                                                                                        \
    {SLOT_ROUTER, 0, "blk.%u.ffn_gate_inp.weight"}, {SLOT_EXP_GATE, 0, "blk.%u.ffn_gate_exps.weight"},                 \
        {SLOT_EXP_GATE, 0, "blk.%u.ffn_gate.%u.weight"}, {SLOT_EXP_UP, 0, "blk.%u.ffn_up_exps.weight"},                \
        {SLOT_EXP_UP, 0, "blk.%u.ffn_up.%u.weight"}, {SLOT_EXP_DOWN, 0, "blk.%u.ffn_down_exps.weight"},                \
    {                                                                                                                  \
        SLOT_EXP_DOWN, 0, "blk.%u.ffn_down.%u.weight"                                                                  \
    }
#define SHARED_EXPERT                                                                                                  \
    {SLOT_SHARED_GATE, 0, "blk.%u.ffn_gate_shexp.weight"}, {SLOT_SHARED_UP, 0, "blk.%u.ffn_up_shexp.weight"},          \
    {                                                                                                                  \
        SLOT_SHARED_DOWN, 0, "blk.%u.ffn_down_shexp.weight"                                                            \
    }
#define ROPE_FACTORS                                                                                                   \
    {                                                                                                                  \
        SLOT_ROPE_FACTORS, SLOT_OPTIONAL, "rope_freqs.weight"                                                          \
    }

#endif
