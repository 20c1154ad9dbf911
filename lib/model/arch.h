/* Architectures as data. A `struct arch` says which parts a model of that architecture is built from, which metadata keys give its
 * sizes and which tensors fill its slots; net.c binds a file to it and forward.c is the one pass that reads it. */
#ifndef MODEL_ARCH_H
#define MODEL_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/device.h"

#define MODEL_MAX_LAYERS 512u
#define MODEL_MAX_EXPERTS 1024u
#define MODEL_MAX_USED_EXPERTS 64u

/* Where a weight goes. Vectors (norm weights, biases) and matrices share the list. */
enum slot {
    /* one of each */
    SLOT_TOKEN_EMBD,
    SLOT_POS_EMBD,
    SLOT_TOKEN_TYPES,
    SLOT_EMBD_NORM,
    SLOT_EMBD_NORM_B,
    SLOT_DENSE_2, /* behind the pooling: two matrices without bias */
    SLOT_DENSE_3,
    SLOT_OUT_NORM,
    SLOT_OUT_NORM_B,
    SLOT_OUTPUT,
    SLOT_ROPE_FACTORS,
    SLOT_ROPE_SHORT, /* LongRoPE's factors: for contexts up to the original one, */
    SLOT_ROPE_LONG,  /* and for longer ones */
    SLOT_GLOBAL_COUNT,
    /* one a layer */
    SLOT_ATTN_NORM = SLOT_GLOBAL_COUNT,
    SLOT_ATTN_NORM_B,
    SLOT_Q,
    SLOT_Q_B,
    SLOT_K,
    SLOT_K_B,
    SLOT_V,
    SLOT_V_B,
    SLOT_Q_NORM,
    SLOT_K_NORM,
    SLOT_ATTN_OUT,
    SLOT_ATTN_OUT_B,
    SLOT_ATTN_POST_NORM,
    SLOT_FFN_NORM,
    SLOT_FFN_NORM_B,
    SLOT_GATE,
    SLOT_GATE_B,
    SLOT_UP,
    SLOT_UP_B,
    SLOT_DOWN,
    SLOT_DOWN_B,
    SLOT_FFN_POST_NORM,
    SLOT_LAYER_NORM, /* of x + feed-forward, where norms come behind (arch.post_norm); the one of x + attention is SLOT_FFN_NORM */
    SLOT_LAYER_NORM_B,
    /* of layers with experts, which have none of SLOT_GATE to SLOT_DOWN_B */
    SLOT_ROUTER,
    SLOT_SHARED_ROUTER, /* its product, through a sigmoid, scales the shared expert */
    SLOT_SHARED_GATE,
    SLOT_SHARED_UP,
    SLOT_SHARED_DOWN,
    SLOT_ROUTER_BIAS, /* for the choice alone; this and the experts are bound by net_experts.c, elsewhere than in layer.w */
    SLOT_EXP_GATE,
    SLOT_EXP_UP,
    SLOT_EXP_DOWN,
    /* multi-head latent attention, instead of SLOT_Q to SLOT_ATTN_OUT; the last three are bound by net_mla.c, elsewhere than in layer.w */
    SLOT_MLA_Q,      /* without, */
    SLOT_MLA_Q_DOWN, /* or with a narrow middle */
    SLOT_MLA_Q_NORM,
    SLOT_MLA_Q_UP,
    SLOT_MLA_KV_DOWN, /* to the latent and the rotated part of keys */
    SLOT_MLA_KV_NORM,
    SLOT_MLA_OUT,
    SLOT_MLA_K,  /* for each head: from a query to the latent */
    SLOT_MLA_V,  /* for each head: from the latent to its values */
    SLOT_MLA_KV, /* for each head: from the latent to keys and values, as older files have it */
    SLOT_NONE, /* filled by nothing: the bias of products without one */
    SLOT_COUNT
};

#define SLOT_LAYER_COUNT (SLOT_COUNT - SLOT_GLOBAL_COUNT)

/* The shape that a slot must have, in terms of the hyper-parameters. */
enum slot_shape {
    SHAPE_EMBD,        /* [n_embd] */
    SHAPE_HEAD,        /* [head_dim] */
    SHAPE_Q,           /* [n_head * head_dim] */
    SHAPE_KV,          /* [n_head_kv * head_dim] */
    SHAPE_FF,          /* [n_ff] */
    SHAPE_ROT_HALF,    /* [n_rot / 2] */
    SHAPE_VOCAB_EMBD,  /* n_vocab rows of n_embd: more rows than the vocabulary are padding */
    SHAPE_CTX_EMBD,    /* n_ctx_train rows of n_embd */
    SHAPE_SOME_EMBD,   /* any number of rows of n_embd */
    SHAPE_DENSE_3,     /* any number of rows, as wide as SLOT_DENSE_2 has rows */
    SHAPE_EMBD_TO_Q,   /* [n_head * head_dim][n_embd] */
    SHAPE_EMBD_TO_KV,
    SHAPE_Q_TO_EMBD,
    SHAPE_EMBD_TO_FF,
    SHAPE_FF_TO_EMBD,
    SHAPE_EXPERTS,         /* [n_expert] */
    SHAPE_EMBD_TO_EXPERTS, /* [n_expert][n_embd] */
    SHAPE_EMBD_TO_SHARED,  /* [n_ff_shared][n_embd] */
    SHAPE_SHARED_TO_EMBD,
    SHAPE_EMBD_TO_MLA_Q,   /* [n_head * (qk_nope + n_rot)][n_embd] */
    SHAPE_EMBD_TO_Q_LORA,  /* [q_lora][n_embd] */
    SHAPE_Q_LORA,          /* [q_lora] */
    SHAPE_Q_LORA_TO_MLA_Q, /* [n_head * (qk_nope + n_rot)][q_lora] */
    SHAPE_EMBD_TO_LATENT,  /* [kv_lora + n_rot][n_embd] */
    SHAPE_LATENT,          /* [kv_lora] */
    SHAPE_MLA_TO_EMBD,     /* [n_embd][n_head * v_dim] */
    SHAPE_MLA_K,           /* of each head: [kv_lora][qk_nope] */
    SHAPE_MLA_V,           /* of each head: [v_dim][kv_lora] */
    SHAPE_MLA_KV,          /* [n_head * (qk_nope + v_dim)][kv_lora] */
    SHAPE_EMBD_TO_EXP,     /* of each expert: [n_ff_exp][n_embd] */
    SHAPE_EXP_TO_EMBD
};

enum slot_flags {
    SLOT_OPTIONAL = 1,
    SLOT_FUSED_QKV = 2, /* the tensor holds Q, K and V one after the other; this slot takes its part of the rows */
    SLOT_FUSED_GATE_UP = 4,   /* likewise gate and up */
    SLOT_ALL_HEADS = 8,       /* a norm's weights over all heads as one row, not over each */
    SLOT_EACH_HEAD = 16,      /* a norm's weights differ from head to head: [heads][head_dim] */
    SLOT_UNLESS_PARALLEL = 32 /* optional where hparams.parallel */
};

/* One tensor name that fills a slot; %u in it stands for the layer's number. Several entries for a slot: the first that exists is taken. */
struct slot_name {
    uint8_t slot;  /* enum slot */
    uint8_t flags; /* enum slot_flags */
    const char *name;
};

/* How a router's products become weights of experts. */
enum router {
    ROUTER_SOFTMAX = 1,  /* over all experts; the largest are chosen */
    ROUTER_SIGMOID,      /* of each */
    ROUTER_SOFTMAX_LAST  /* the largest products are chosen, then softmax over these */
};

enum positions { POSITIONS_ROPE, POSITIONS_LEARNED };

struct arch {
    const char *name; /* general.architecture, and the prefix of the file's keys */
    enum dev_norm_kind norm;
    enum positions positions;
    enum dev_rope_kind rope; /* of GGUF files */
    enum dev_act act;
    bool encoder;            /* every element sees all of its text (those within half a window, in window layers): makes embeddings, cannot generate */
    bool post_norm;          /* x = norm(x + part(x)) instead of x += part(norm(x)) */
    bool gated;              /* feed-forward: down(act(gate x) * up x); else down(act(up x)) */
    bool scale_embeddings;   /* by sqrt(n_embd) */
    bool scales_rows;        /* a soft prompt's rows are scaled as the embeddings are: those of its training were put in before the scaling */
    uint32_t window_pattern; /* unless the file says: layer i sees the whole past when (i + 1) % pattern == 0, else the window; 0:
                                all layers have the window, if there is one */
    uint32_t scale_by_width_layers; /* a model with this many layers scales scores by 1/sqrt(n_embd / n_head); 0: none does */
    float local_rope_base;   /* of window layers, when the file does not say; 0: as the others */
    bool local_rope_plain;   /* context extensions are not for window layers */
    bool mla;                /* multi-head latent attention: forward_mla.c */
    uint32_t default_window; /* when the file does not say */
    float attn_softcap, final_softcap; /* likewise */
    bool may_be_parallel;    /* the file may say use_parallel_residual */
    bool divides_logits;     /* the file's logit_scale is a divisor */
    bool norm_experts;       /* unless the file says: the weights of the chosen experts are divided by their sum */
    const struct slot_name *slots;
    size_t n_slots;
};

/* The architectures of a family, one file each. */
struct arch_list {
    const struct arch *archs;
    size_t n;
};
extern const struct arch_list arch_dense; /* architectures.c */
extern const struct arch_list arch_moe;   /* arch_moe.c */
extern const struct arch_list arch_bert;

/* NULL: not known. */
const struct arch *arch_find(const char *name, size_t len);
enum slot_shape slot_shape_of(enum slot slot);

enum rope_scaling { ROPE_SCALING_NONE, ROPE_SCALING_LINEAR, ROPE_SCALING_YARN };

/* Sizes and constants of one model. */
struct hparams {
    uint32_t n_layer, n_embd, n_head, n_head_kv, head_dim, n_ff, n_ctx_train;
    uint32_t n_logits; /* rows of the output matrix */
    uint32_t n_vocab;  /* ids that mean something: at most n_logits; the rest is padding */
    uint32_t n_rot;
    float eps;
    float attn_scale;
    float attn_softcap, final_softcap; /* 0: none */
    float embed_scale;
    float logit_scale;                 /* 1: none */
    /* multi-head latent attention, where kv_lora is not 0. There n_head_kv is 1 and head_dim n_rot + kv_lora: what is stored of an element */
    uint32_t q_lora;                   /* 0: queries come from the residual stream at once */
    uint32_t kv_lora, qk_nope, v_dim;  /* of the latent; of a head's query before it meets the latent, but for the rotated part; of a head's values */
    float residual_scale;              /* of what attention and feed-forward add; 1: none */
    float query_growth;                /* at position p queries are scaled by 1 + this log(1 + floor(p / rope_orig_ctx)); 0: not */
    bool parallel; /* attention and feed-forward of a layer read the same norm, where the layer has no second one */
    /* experts: layers from n_dense on have them; n_expert 0: none has */
    uint32_t n_expert, n_expert_used, n_dense;
    uint32_t n_ff_exp, n_ff_shared;    /* of each expert; of the shared one, 0: there is none */
    uint32_t n_expert_groups, n_groups_used; /* experts are chosen from the best groups; 1: from all */
    enum router router;
    bool norm_experts;
    float expert_scale;                /* of the weights, in the end */
    uint32_t window;                   /* elements that a windowed layer sees, the own one included; 0: none */
    bool windowed[MODEL_MAX_LAYERS]; /* layer sees the window only */
    double rope_base, rope_base_local;
    enum dev_rope_kind rope; /* the architecture's, or DEV_ROPE_HALVES where the file keeps Q and K as Hugging Face does */
    enum rope_scaling rope_scaling;
    bool rope_local_plain;   /* not of window layers; nor is it where they have a base of their own */
    bool rope_two_lists; /* the file declares LongRoPE */
    bool rope_is_long; /* LongRoPE: contexts may be longer than the original one (net_open) */
    double rope_factor;      /* context extension, >= 1 for linear and yarn */
    double rope_orig_ctx, rope_attn_factor; /* the latter scales cos and sin */
    double yarn_ext_factor, yarn_beta_fast, yarn_beta_slow;
    bool encoder;            /* the architecture's, unless the file says otherwise: no session can be made of it */
    uint32_t embed_tokens;   /* most tokens of a text that an embedding is made of, unless the caller says otherwise */
    int32_t pooling;         /* INFER_POOLING_*: what the file says, else the mean for encoders and the last row for others */
    double yarn_log_mul; /* 0.1 times DeepSeek's mscale_all_dim: then scores are scaled, not cos and sin; 0: the other way round */
};

static inline bool hparams_has_experts(const struct hparams *h, uint32_t layer)
{
    return h->n_expert && layer >= h->n_dense;
}

#endif
