/* Architectures in Hugging Face folders: what the tables of hf_arch.h say for each. Names and defaults are those of transformers'
 * configuration classes; metadata keys and tensor names those of llama.cpp's converter. */
#include "model/hf_read.h"

#include <string.h>

#include "kernels/math_scalar.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define END {NULL, NULL, 0}
#define END_KEYS {NULL, NULL, 0, false, 0}

const struct hf_key hf_keys_sizes[] = {
    {"vocab_size", ".vocab_size", HF_U32, false, 0},
    {"num_hidden_layers", ".block_count", HF_U32, true, 0},
    {"hidden_size", ".embedding_length", HF_U32, true, 0},
    {"max_position_embeddings", ".context_length", HF_U32, true, 0},
    {"num_attention_heads", ".attention.head_count", HF_U32, true, 0},
    {"num_key_value_heads", ".attention.head_count_kv", HF_U32, false, 0},
    {"head_dim", ".attention.key_length", HF_U32, false, 0},
    {"head_dim", ".attention.value_length", HF_U32, false, 0},
    {"intermediate_size", ".feed_forward_length", HF_U32, true, 0},
    END_KEYS,
};
const struct hf_key hf_keys_rms[] = {{"rms_norm_eps", ".attention.layer_norm_rms_epsilon", HF_F32, false, 1e-6}, END_KEYS};
const struct hf_key hf_keys_silu[] = {{"hidden_act", "silu|swish", HF_ONE_OF, false, 0}, END_KEYS};

const struct hf_tensor hf_tensors_top[] = {
    {"embed_tokens.weight", "token_embd.weight", HF_PLACE},
    {"norm.weight", "output_norm.weight", HF_PLACE},
    {"lm_head.weight", "output.weight", HF_HEAD},
    END,
};

const struct hf_tensor hf_tensors_attn[] = {
    {"layers.%u.input_layernorm.weight", "blk.%u.attn_norm.weight", HF_PLACE},
    {"layers.%u.self_attn.q_proj.weight", "blk.%u.attn_q.weight", HF_PLACE},
    {"layers.%u.self_attn.k_proj.weight", "blk.%u.attn_k.weight", HF_PLACE},
    {"layers.%u.self_attn.v_proj.weight", "blk.%u.attn_v.weight", HF_PLACE},
    {"layers.%u.self_attn.o_proj.weight", "blk.%u.attn_output.weight", HF_PLACE},
    {"layers.%u.self_attn.q_proj.bias", "blk.%u.attn_q.bias", HF_PLACE},
    {"layers.%u.self_attn.k_proj.bias", "blk.%u.attn_k.bias", HF_PLACE},
    {"layers.%u.self_attn.v_proj.bias", "blk.%u.attn_v.bias", HF_PLACE},
    {"layers.%u.self_attn.o_proj.bias", "blk.%u.attn_output.bias", HF_PLACE},
    {"layers.%u.self_attn.rotary_emb.inv_freq", NULL, HF_SKIP}, /* buffers that old versions saved */
    {"rotary_emb.inv_freq", NULL, HF_SKIP},
    END,
};

const struct hf_tensor hf_tensors_gated[] = {
    {"layers.%u.post_attention_layernorm.weight", "blk.%u.ffn_norm.weight", HF_PLACE},
    {"layers.%u.mlp.gate_proj.weight", "blk.%u.ffn_gate.weight", HF_PLACE},
    {"layers.%u.mlp.up_proj.weight", "blk.%u.ffn_up.weight", HF_PLACE},
    {"layers.%u.mlp.down_proj.weight", "blk.%u.ffn_down.weight", HF_PLACE},
    {"layers.%u.mlp.gate_proj.bias", "blk.%u.ffn_gate.bias", HF_PLACE},
    {"layers.%u.mlp.up_proj.bias", "blk.%u.ffn_up.bias", HF_PLACE},
    {"layers.%u.mlp.down_proj.bias", "blk.%u.ffn_down.bias", HF_PLACE},
    END,
};

const struct hf_tensor hf_tensors_qk_norm[] = {
    {"layers.%u.self_attn.q_norm.weight", "blk.%u.attn_q_norm.weight", HF_PLACE},
    {"layers.%u.self_attn.k_norm.weight", "blk.%u.attn_k_norm.weight", HF_PLACE},
    END,
};

/* ---- llama, qwen2, qwen3 ---- */


static const struct hf_key *const llama_keys[] = {hf_keys_sizes, hf_keys_rms, hf_keys_silu, NULL};
static const struct hf_tensor *const llama_tensors[] = {hf_tensors_top, hf_tensors_attn, hf_tensors_gated, NULL};
static const struct hf_tensor *const qwen3_tensors[] = {hf_tensors_top, hf_tensors_attn, hf_tensors_qk_norm, hf_tensors_gated, NULL};

/* Llama's files in GGUF have the rows of Q and K in another order; these are used as they are. */
static infer_status llama_more(struct hf_reader *r)
{
    hf_put_bool(r, "libinfer.rope_halves", true);
    return INFER_OK;
}

/* ---- gemma3 ---- */

static const struct hf_key gemma3_keys_own[] = {
    {"vocab_size", ".vocab_size", HF_U32, false, 262208},
    {"num_hidden_layers", ".block_count", HF_U32, false, 26},
    {"hidden_size", ".embedding_length", HF_U32, false, 2304},
    {"max_position_embeddings", ".context_length", HF_U32, false, 131072},
    {"num_attention_heads", ".attention.head_count", HF_U32, false, 8},
    {"num_key_value_heads", ".attention.head_count_kv", HF_U32, false, 4},
    {"head_dim", ".attention.key_length", HF_U32, false, 256},
    {"head_dim", ".attention.value_length", HF_U32, false, 256},
    {"intermediate_size", ".feed_forward_length", HF_U32, false, 9216},
    {"rms_norm_eps", ".attention.layer_norm_rms_epsilon", HF_F32, false, 1e-6},
    {"attn_logit_softcapping", ".attn_logit_softcapping", HF_F32, false, 0},
    {"final_logit_softcapping", ".final_logit_softcapping", HF_F32, false, 0},
    {"hidden_activation", "gelu_pytorch_tanh", HF_ONE_OF, false, 0},
    END_KEYS,
};
static const struct hf_key causal[] = {{"use_bidirectional_attention", NULL, HF_FALSE, false, 0}, END_KEYS};
static const struct hf_key *const gemma3_keys[] = {gemma3_keys_own, causal, NULL};
static const struct hf_key *const gemma_embedding_keys[] = {gemma3_keys_own, NULL};

static const struct hf_tensor gemma3_tensors_own[] = {
    {"embed_tokens.weight", "token_embd.weight", HF_PLACE},
    {"norm.weight", "output_norm.weight", HF_PLUS_ONE},
    {"lm_head.weight", "output.weight", HF_HEAD},
    {"layers.%u.input_layernorm.weight", "blk.%u.attn_norm.weight", HF_PLUS_ONE},
    {"layers.%u.post_attention_layernorm.weight", "blk.%u.post_attention_norm.weight", HF_PLUS_ONE},
    {"layers.%u.pre_feedforward_layernorm.weight", "blk.%u.ffn_norm.weight", HF_PLUS_ONE},
    {"layers.%u.post_feedforward_layernorm.weight", "blk.%u.post_ffw_norm.weight", HF_PLUS_ONE},
    {"layers.%u.self_attn.q_norm.weight", "blk.%u.attn_q_norm.weight", HF_PLUS_ONE},
    {"layers.%u.self_attn.k_norm.weight", "blk.%u.attn_k_norm.weight", HF_PLUS_ONE},
    {"dense_%u.weight", "dense_%u.weight", HF_PLACE}, /* of embedding models: hf_embed.c */
    {"vision_tower.*", NULL, HF_SKIP},
    {"multi_modal_projector.*", NULL, HF_SKIP},
    END,
};
static const struct hf_tensor *const gemma3_tensors[] = {gemma3_tensors_own, hf_tensors_attn, hf_tensors_gated, NULL};

/* scores are scaled by query_pre_attn_scalar^-1/2; the window layers have their own rope base. */
static infer_status gemma3_more(struct hf_reader *r)
{
    double scalar = 256, window = 4096;
    infer_status st = hf_number(r, r->model, "query_pre_attn_scalar", &scalar);
    if (st == INFER_OK)
        st = hf_number(r, r->model, "sliding_window", &window);
    if (st == INFER_OK && !(scalar > 0 && scalar < 1e6))
        st = hf_fail(r, INFER_ERROR_VALUE, "query_pre_attn_scalar", "out of range");
    if (st != INFER_OK)
        return st;
    hf_put_f32(r, ".attention.scale", 1.0f / math_sqrt((float)scalar));
    if (!hf_get(r, "sliding_window"))
        hf_put_u32(r, ".attention.sliding_window", 4096);
    return hf_read_windows(r);
}

/* ---- gpt2 ---- */

static const struct hf_key gpt2_keys_own[] = {
    {"vocab_size", ".vocab_size", HF_U32, false, 50257},
    {"n_layer|num_hidden_layers", ".block_count", HF_U32, false, 12},
    {"n_embd|hidden_size", ".embedding_length", HF_U32, false, 768},
    {"n_positions|max_position_embeddings", ".context_length", HF_U32, false, 1024},
    {"n_head|num_attention_heads", ".attention.head_count", HF_U32, false, 12},
    {"layer_norm_epsilon", ".attention.layer_norm_epsilon", HF_F32, false, 1e-5},
    {"activation_function", "gelu_new|gelu_pytorch_tanh", HF_ONE_OF, false, 0},
    {"scale_attn_weights", NULL, HF_TRUE, false, 0},
    {"scale_attn_by_inverse_layer_idx", NULL, HF_FALSE, false, 0},
    {"add_cross_attention", NULL, HF_FALSE, false, 0},
    END_KEYS,
};
static const struct hf_key *const gpt2_keys[] = {gpt2_keys_own, NULL};

static const struct hf_tensor gpt2_tensors_own[] = {
    {"wte.weight", "token_embd.weight", HF_PLACE},
    {"wpe.weight", "position_embd.weight", HF_PLACE},
    {"ln_f.weight", "output_norm.weight", HF_PLACE},
    {"ln_f.bias", "output_norm.bias", HF_PLACE},
    {"lm_head.weight", "output.weight", HF_HEAD},
    {"h.%u.ln_1.weight", "blk.%u.attn_norm.weight", HF_PLACE},
    {"h.%u.ln_1.bias", "blk.%u.attn_norm.bias", HF_PLACE},
    {"h.%u.attn.c_attn.weight", "blk.%u.attn_qkv.weight", HF_TRANSPOSE},
    {"h.%u.attn.c_attn.bias", "blk.%u.attn_qkv.bias", HF_PLACE},
    {"h.%u.attn.c_proj.weight", "blk.%u.attn_output.weight", HF_TRANSPOSE},
    {"h.%u.attn.c_proj.bias", "blk.%u.attn_output.bias", HF_PLACE},
    {"h.%u.ln_2.weight", "blk.%u.ffn_norm.weight", HF_PLACE},
    {"h.%u.ln_2.bias", "blk.%u.ffn_norm.bias", HF_PLACE},
    {"h.%u.mlp.c_fc.weight", "blk.%u.ffn_up.weight", HF_TRANSPOSE},
    {"h.%u.mlp.c_fc.bias", "blk.%u.ffn_up.bias", HF_PLACE},
    {"h.%u.mlp.c_proj.weight", "blk.%u.ffn_down.weight", HF_TRANSPOSE},
    {"h.%u.mlp.c_proj.bias", "blk.%u.ffn_down.bias", HF_PLACE},
    {"h.%u.attn.bias", NULL, HF_SKIP}, /* the causal mask */
    {"h.%u.attn.masked_bias", NULL, HF_SKIP},
    END,
};
static const struct hf_tensor *const gpt2_tensors[] = {gpt2_tensors_own, NULL};

static infer_status gpt2_more(struct hf_reader *r)
{
    uint32_t width = 768, inner = 0;
    infer_status st = hf_u32(r, r->model, "n_embd|hidden_size", &width);
    if (st == INFER_OK)
        st = hf_u32(r, r->model, "n_inner|intermediate_size", &inner);
    if (st == INFER_OK && width > UINT32_MAX / 4)
        st = hf_fail(r, INFER_ERROR_VALUE, "n_embd", "out of range");
    hf_put_u32(r, ".feed_forward_length", inner ? inner : 4 * width);
    return st;
}

static const struct hf_arch archs[] = {
    {.model_type = "llama", .arch = "llama", .keys = llama_keys, .tensors = llama_tensors, .untied = true, .more = llama_more},
    {.model_type = "qwen2", .arch = "qwen2", .keys = llama_keys, .tensors = llama_tensors, .untied = true, .more = hf_read_windows_if_used},
    {.model_type = "qwen3", .arch = "qwen3", .keys = llama_keys, .tensors = qwen3_tensors, .untied = true, .more = hf_read_windows_if_used},
    {.model_type = "gemma3_text|gemma3", .arch = "gemma3", .keys = gemma3_keys, .tensors = gemma3_tensors, .more = gemma3_more},
    {.model_type = "gemma-embedding", .arch = "gemma-embedding", .keys = gemma_embedding_keys, .tensors = gemma3_tensors, .more = gemma3_more},
    {.model_type = "gpt2", .arch = "gpt2", .keys = gpt2_keys, .tensors = gpt2_tensors, .no_rope = true, .more = gpt2_more},
};

const struct hf_arch_list hf_dense = {archs, COUNT(archs)};

const struct hf_arch *hf_find(const char *model_type, size_t len)
{
    static const struct hf_arch_list *const lists[] = {&hf_dense, &hf_dense_more, &hf_encoders, &hf_moe};
    struct json v = {.type = JSON_STRING, .u.text = {model_type, len}};
    for (size_t l = 0; l < COUNT(lists); l++)
        for (size_t i = 0; i < lists[l]->n; i++)
            if (hf_one_of(&v, lists[l]->archs[i].model_type))
                return &lists[l]->archs[i];
    return NULL;
}
