/* Module names of Hugging Face's models -> tensor names of GGUF. The matrices that a LoRA may change have names of few patterns, and no
 * name means two things, so one table serves all architectures. */
#include <string.h>

#include "adapters/adapter_read.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* What a name may begin with before "layers.N." or "h.N.". Other parts of a model (a vision tower, a decoder beside an encoder) are not among them. */
static const char *const roots[] = {"",
                                    "model.",
                                    "transformer.",
                                    "language_model.",
                                    "model.language_model.",
                                    "language_model.model.",
                                    "gpt_neox.",
                                    "backbone.",
                                    "encoder.",
                                    "bert.encoder."};
static const char *const lists[] = {"layers.", "h.", "layer.", "blocks."};

/* # stands for a number, the same one in both. */
static const struct {
    const char *hf, *gguf;
} parts[] = {
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.out_proj", "attn_output"},
    {"self_attn.dense", "attn_output"},
    {"self_attn.qkv_proj", "attn_qkv"},
    {"self_attn.query_key_value", "attn_qkv"},
    {"attention.query_key_value", "attn_qkv"},
    {"attention.dense", "attn_output"},
    {"attn.c_attn", "attn_qkv"},
    {"attn.c_proj", "attn_output"},
    {"attn.Wqkv", "attn_qkv"},
    {"attn.out_proj", "attn_output"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"mlp.gate_up_proj", "ffn_up"}, /* fused, the gate first: GGUF keeps it so */
    {"mlp.c_fc", "ffn_up"},
    {"mlp.c_proj", "ffn_down"},
    {"mlp.fc1", "ffn_up"},
    {"mlp.fc2", "ffn_down"},
    {"mlp.fc11", "ffn_up"},
    {"mlp.fc12", "ffn_gate"},
    {"mlp.dense_h_to_4h", "ffn_up"},
    {"mlp.dense_4h_to_h", "ffn_down"},
    /* encoders */
    {"attention.self.query", "attn_q"},
    {"attention.self.key", "attn_k"},
    {"attention.self.value", "attn_v"},
    {"attention.output.dense", "attn_output"},
    {"intermediate.dense", "ffn_up"},
    {"output.dense", "ffn_down"},
    /* latent attention */
    {"self_attn.q_a_proj", "attn_q_a"},
    {"self_attn.q_b_proj", "attn_q_b"},
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
    {"self_attn.kv_b_proj", "attn_kv_b"},
    /* experts */
    {"mlp.gate", "ffn_gate_inp"},
    {"block_sparse_moe.gate", "ffn_gate_inp"},
    {"mlp.experts.#.gate_proj", "ffn_gate.#"},
    {"mlp.experts.#.up_proj", "ffn_up.#"},
    {"mlp.experts.#.down_proj", "ffn_down.#"},
    {"block_sparse_moe.experts.#.w1", "ffn_gate.#"},
    {"block_sparse_moe.experts.#.w3", "ffn_up.#"},
    {"block_sparse_moe.experts.#.w2", "ffn_down.#"},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
    {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
};

static const char *const heads[] = {"lm_head", "model.lm_head", "language_model.lm_head", "embed_out"};

uint32_t adapter_number(const char *s, size_t len, size_t *used)
{
    uint64_t v = 0;
    size_t i = 0;
    for (; i < len && s[i] >= '0' && s[i] <= '9'; i++)
        v = v < ADAPTER_BIG ? v * 10 + (uint64_t)(s[i] - '0') : v;
    *used = i;
    return v < ADAPTER_BIG ? (uint32_t)v : ADAPTER_BIG;
}

bool adapter_layer_of(const char *name, size_t len, uint32_t *layer)
{
    size_t used;
    if (len < 6 || memcmp(name, "blk.", 4))
        return false;
    uint32_t n = adapter_number(name + 4, len - 4, &used);
    if (!used || 4 + used >= len || name[4 + used] != '.')
        return false;
    *layer = n;
    return true;
}

/* Appends to out, which has room for ADAPTER_NAME_MAX; false: too long. */
static bool append(char *out, const char *s, size_t len)
{
    size_t at = strlen(out);
    if (len >= ADAPTER_NAME_MAX - at)
        return false;
    memcpy(out + at, s, len);
    out[at + len] = 0;
    return true;
}

static bool append_number(char *out, uint32_t v)
{
    char d[10];
    size_t n = sizeof d;
    do
        d[--n] = (char)('0' + v % 10);
    while ((v /= 10) != 0);
    return append(out, d + n, sizeof d - n);
}

/* Whether s is the pattern, with a number in the place of its '#', if it has one. */
static bool part_is(const char *pattern, const char *s, size_t len, uint32_t *number)
{
    const char *hash = strchr(pattern, '#');
    size_t head = hash ? (size_t)(hash - pattern) : strlen(pattern), used;
    if (len < head || memcmp(s, pattern, head))
        return false;
    if (!hash)
        return len == head;
    *number = adapter_number(s + head, len - head, &used);
    size_t tail = strlen(hash + 1);
    return used && len - head - used == tail && !memcmp(s + head + used, hash + 1, tail);
}

/* "blk.LAYER.PART.weight" of the part of a layer. */
static bool layer_name(const char *part, size_t len, uint32_t layer, char *out)
{
    for (size_t i = 0; i < COUNT(parts); i++) {
        uint32_t number = 0;
        if (!part_is(parts[i].hf, part, len, &number))
            continue;
        const char *hash = strchr(parts[i].gguf, '#');
        size_t head = hash ? (size_t)(hash - parts[i].gguf) : strlen(parts[i].gguf);
        out[0] = 0;
        return append(out, "blk.", 4) && append_number(out, layer) && append(out, ".", 1) &&
               append(out, parts[i].gguf, head) && (!hash || append_number(out, number)) && append(out, ".weight", 7);
    }
    return false;
}

/* The rest of s after prefix, or NULL. */
static const char *after(const char *s, const char *end, const char *prefix)
{
    size_t n = strlen(prefix);
    return (size_t)(end - s) >= n && !memcmp(s, prefix, n) ? s + n : NULL;
}

bool adapter_hf_name(const char *module, size_t len, char out[ADAPTER_NAME_MAX], uint32_t *layer)
{
    const char *end = module + len;
    for (size_t i = 0; i < COUNT(heads); i++)
        if (strlen(heads[i]) == len && !memcmp(heads[i], module, len)) {
            *layer = ADAPTER_NO_LAYER;
            memcpy(out, "output.weight", 14);
            return true;
        }
    for (size_t i = 0; i < COUNT(roots) * COUNT(lists); i++) {
        size_t used;
        const char *s = after(module, end, roots[i / COUNT(lists)]);
        s = s ? after(s, end, lists[i % COUNT(lists)]) : NULL;
        if (!s)
            continue;
        uint32_t n = adapter_number(s, (size_t)(end - s), &used);
        if (used && s + used < end && s[used] == '.' && layer_name(s + used + 1, (size_t)(end - s) - used - 1, n, out)) {
            *layer = n;
            return true;
        }
    }
    return false;
}
