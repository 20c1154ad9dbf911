/* What a folder's config.json says of tensors that may be there or not. Where the two disagree, transformers makes up what is missing, and leaves
 * out what is too much: both would give other results than the file's author saw. */
#include <string.h>

#include "model/hf_read.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static bool ends_with(const struct file_str *s, const char *end)
{
    size_t n = strlen(end);
    return s->len >= n && !memcmp(s->data + s->len - n, end, n);
}

/* Base models saved without their head, as many embedding models are, have names without the prefix of models with one. */
infer_status hf_check_output(const struct hf_reader *r)
{
    const struct infer_file *w = r->weights;
    bool whole = false, head = false;
    for (uint64_t i = 0; i < w->n_tensors; i++) {
        whole = whole || ends_with(&w->tensors[i].name, "model.embed_tokens.weight");
        head = head || ends_with(&w->tensors[i].name, "lm_head.weight");
    }
    if (r->tied || head || !whole)
        return INFER_OK;
    return file_failed(w, r->err, err_at(r->err, INFER_ERROR_MISSING, "lm_head.weight", 14, ERR_NO_OFFSET,
                                         "the output matrix is missing, and tie_word_embeddings does not say that the embeddings serve as it"));
}

static bool has(const struct hf_reader *r, const char *gguf)
{
    size_t n = strlen(gguf);
    for (uint64_t i = 0; i < r->weights->n_tensors; i++)
        if (r->weights->tensors[i].name.len == n && !memcmp(r->weights->tensors[i].name.data, gguf, n))
            return true;
    for (size_t i = 0; i < r->n_made; i++)
        if (r->made[i].name.len == n && !memcmp(r->made[i].name.data, gguf, n))
            return true;
    return false;
}

/* Of which models; the key, where it is given; the first layer's tensor; whether that is there when the key says true. */
static const struct {
    const char *types, *key, *gguf;
    bool there;
} spoken_of[] = {
    {"llama|granite|nemotron|qwen3|qwen3_moe|gemma2|gemma3|gemma3_text|olmo2|olmo3|olmoe", "attention_bias", "blk.0.attn_q.bias", true},
    {"llama|granite|nemotron", "mlp_bias", "blk.0.ffn_up.bias", true},
    {"qwen2_moe", "qkv_bias", "blk.0.attn_q.bias", true},
    {"starcoder2", "use_bias", "blk.0.attn_q.bias", true},
    {"starcoder2", "use_bias", "blk.0.ffn_up.bias", true},
    {"stablelm", "use_qkv_bias", "blk.0.attn_q.bias", true},
    {"stablelm", "qk_layernorm", "blk.0.attn_q_norm.weight", true},
    {"stablelm", "use_parallel_residual", "blk.0.ffn_norm.weight", false},
};

infer_status hf_check_tensors(const struct hf_reader *r)
{
    const struct json type = {.type = JSON_STRING, .u.text = {r->model_type.data, (size_t)r->model_type.len}};
    for (size_t i = 0; i < COUNT(spoken_of); i++) {
        const struct json *v = hf_get(r, spoken_of[i].key);
        if (!v || !hf_one_of(&type, spoken_of[i].types))
            continue;
        if (v->type != JSON_BOOL)
            return hf_fail(r, INFER_ERROR_VALUE, spoken_of[i].key, "neither true nor false");
        if (has(r, spoken_of[i].gguf) == (v->u.boolean == spoken_of[i].there))
            continue;
        infer_status st = err_at(r->err, INFER_ERROR_VALUE, spoken_of[i].key, strlen(spoken_of[i].key), ERR_NO_OFFSET,
                                 "is %s, but the tensor %s is %s", v->u.boolean ? "true" : "false", spoken_of[i].gguf,
                                 has(r, spoken_of[i].gguf) ? "there" : "missing");
        hf_err_file(r, "config.json");
        return st;
    }
    return INFER_OK;
}
