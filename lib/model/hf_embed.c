/* Embedding models in Hugging Face folders: the encoders' tables, and what sentence-transformers keeps beside a model: modules.json, the pooling,
 * dense layers behind it, the most tokens of a text. */
#include <string.h>

#include "model/hf_read.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define END {NULL, NULL, 0}
#define END_KEYS {NULL, NULL, 0, false, 0}

/* ---- bert ---- */

static const struct hf_key bert_keys_own[] = {
    {"vocab_size", ".vocab_size", HF_U32, false, 30522},
    {"num_hidden_layers", ".block_count", HF_U32, false, 12},
    {"hidden_size", ".embedding_length", HF_U32, false, 768},
    {"max_position_embeddings", ".context_length", HF_U32, false, 512},
    {"num_attention_heads", ".attention.head_count", HF_U32, false, 12},
    {"intermediate_size", ".feed_forward_length", HF_U32, false, 3072},
    {"layer_norm_eps", ".attention.layer_norm_epsilon", HF_F32, false, 1e-12},
    {"hidden_act", "gelu|gelu_python", HF_ONE_OF, false, 0},
    {"position_embedding_type", "absolute", HF_ONE_OF, false, 0},
    {"is_decoder", NULL, HF_FALSE, false, 0},
    END_KEYS,
};
static const struct hf_key *const bert_keys[] = {bert_keys_own, NULL};

/* gamma and beta: what old files call the weight and bias of a norm. */
#define NORM(hf, gguf)                                                                                                 \
    {hf ".weight", gguf ".weight", HF_PLACE}, {hf ".bias", gguf ".bias", HF_PLACE}, {hf ".gamma", gguf ".weight", HF_PLACE},               \
    {                                                                                                                  \
        hf ".beta", gguf ".bias", HF_PLACE                                                                             \
    }
#define LINEAR(hf, gguf)                                                                                               \
    {hf ".weight", gguf ".weight", HF_PLACE},                                                                          \
    {                                                                                                                  \
        hf ".bias", gguf ".bias", HF_PLACE                                                                             \
    }

static const struct hf_tensor bert_tensors_own[] = {
    {"embeddings.word_embeddings.weight", "token_embd.weight", HF_PLACE},
    {"embeddings.position_embeddings.weight", "position_embd.weight", HF_PLACE},
    {"embeddings.token_type_embeddings.weight", "token_types.weight", HF_PLACE},
    NORM("embeddings.LayerNorm", "token_embd_norm"),
    LINEAR("encoder.layer.%u.attention.self.query", "blk.%u.attn_q"),
    LINEAR("encoder.layer.%u.attention.self.key", "blk.%u.attn_k"),
    LINEAR("encoder.layer.%u.attention.self.value", "blk.%u.attn_v"),
    LINEAR("encoder.layer.%u.attention.output.dense", "blk.%u.attn_output"),
    NORM("encoder.layer.%u.attention.output.LayerNorm", "blk.%u.attn_output_norm"),
    LINEAR("encoder.layer.%u.intermediate.dense", "blk.%u.ffn_up"),
    LINEAR("encoder.layer.%u.output.dense", "blk.%u.ffn_down"),
    NORM("encoder.layer.%u.output.LayerNorm", "blk.%u.layer_output_norm"),
    {"embeddings.position_ids", NULL, HF_SKIP},
    {"pooler.*", NULL, HF_SKIP}, /* for training on sentence pairs */
    {"cls.*", NULL, HF_SKIP},    /* the heads of pre-training */
    END,
};
static const struct hf_tensor *const bert_tensors[] = {bert_tensors_own, NULL};

/* ---- nomic_bert: as its authors' code spells it, and as transformers does ---- */

static const struct hf_key nomic_keys_own[] = {
    {"vocab_size", ".vocab_size", HF_U32, false, 30528},
    {"n_layer|num_hidden_layers", ".block_count", HF_U32, false, 12},
    {"n_embd|hidden_size", ".embedding_length", HF_U32, false, 768},
    {"max_trained_positions|n_positions|max_position_embeddings", ".context_length", HF_U32, false, 2048}, /* beyond it rope is rescaled */
    {"n_head|num_attention_heads", ".attention.head_count", HF_U32, false, 12},
    {"n_inner|intermediate_size", ".feed_forward_length", HF_U32, false, 3072},
    {"layer_norm_epsilon|layer_norm_eps", ".attention.layer_norm_epsilon", HF_F32, false, 1e-12},
    {"activation_function|hidden_act", "swiglu|silu", HF_ONE_OF, false, 0},
    {"prenorm", NULL, HF_FALSE, false, 0},
    {"use_rms_norm", NULL, HF_FALSE, false, 0},
    {"parallel_block", NULL, HF_FALSE, false, 0},
    {"rotary_emb_interleaved", NULL, HF_FALSE, false, 0},
    {"moe_every_n_layers", NULL, HF_FALSE, false, 0},
    {"causal", NULL, HF_FALSE, false, 0},
    END_KEYS,
};
static const struct hf_key *const nomic_keys[] = {nomic_keys_own, NULL};

static const struct hf_tensor nomic_tensors_own[] = {
    {"embeddings.word_embeddings.weight", "token_embd.weight", HF_PLACE},
    {"embeddings.token_type_embeddings.weight", "token_types.weight", HF_PLACE},
    NORM("emb_ln", "token_embd_norm"),
    NORM("embeddings.LayerNorm", "token_embd_norm"),
    LINEAR("encoder.layers.%u.attn.Wqkv", "blk.%u.attn_qkv"),
    LINEAR("encoder.layers.%u.attn.out_proj", "blk.%u.attn_output"),
    LINEAR("encoder.layers.%u.mlp.fc11", "blk.%u.ffn_up"),
    LINEAR("encoder.layers.%u.mlp.fc12", "blk.%u.ffn_gate"),
    LINEAR("encoder.layers.%u.mlp.fc2", "blk.%u.ffn_down"),
    NORM("encoder.layers.%u.norm1", "blk.%u.attn_output_norm"),
    NORM("encoder.layers.%u.norm2", "blk.%u.layer_output_norm"),
    LINEAR("layers.%u.self_attn.q_proj", "blk.%u.attn_q"),
    LINEAR("layers.%u.self_attn.k_proj", "blk.%u.attn_k"),
    LINEAR("layers.%u.self_attn.v_proj", "blk.%u.attn_v"),
    LINEAR("layers.%u.self_attn.o_proj", "blk.%u.attn_output"),
    LINEAR("layers.%u.mlp.up_proj", "blk.%u.ffn_up"),
    LINEAR("layers.%u.mlp.gate_proj", "blk.%u.ffn_gate"),
    LINEAR("layers.%u.mlp.down_proj", "blk.%u.ffn_down"),
    NORM("layers.%u.post_attention_layernorm", "blk.%u.attn_output_norm"),
    NORM("layers.%u.post_mlp_layernorm", "blk.%u.layer_output_norm"),
    {"pooler.*", NULL, HF_SKIP},
    {"cls.*", NULL, HF_SKIP},
    END,
};
static const struct hf_tensor *const nomic_tensors[] = {nomic_tensors_own, NULL};

/* Its rope has another default than the others'. */
static infer_status nomic_more(struct hf_reader *r)
{
    const struct json *rope = hf_get(r, "rope_parameters"), *type = hf_member(rope, "rope_type|type");
    double base = 1000, part = 1;
    infer_status st = hf_number(r, r->model, "rotary_emb_base|rope_theta", &base);
    if (st == INFER_OK)
        st = hf_number(r, rope, "rope_theta", &base);
    if (st == INFER_OK)
        st = hf_number(r, r->model, "rotary_emb_fraction", &part);
    if (st == INFER_OK && part != 1)
        st = hf_fail(r, INFER_ERROR_UNSUPPORTED, "rotary_emb_fraction", "this value is not supported");
    if (st == INFER_OK && type && !hf_text_is(type, "default"))
        st = hf_fail(r, INFER_ERROR_UNSUPPORTED, "rope_type", "this kind of rope scaling is not supported");
    if (st == INFER_OK && !(base >= 1 && base <= 1e30))
        st = hf_fail(r, INFER_ERROR_VALUE, "rotary_emb_base", "out of range");
    hf_put_f32(r, ".rope.freq_base", (float)base);
    return st;
}

static const struct hf_arch archs[] = {
    {.model_type = "bert", .arch = "bert", .keys = bert_keys, .tensors = bert_tensors, .no_rope = true, .prefixes = "bert.|model."},
    {.model_type = "nomic_bert", .arch = "nomic-bert", .keys = nomic_keys, .tensors = nomic_tensors, .no_rope = true,
     .prefixes = "bert.|model.", .more = nomic_more},
};

const struct hf_arch_list hf_encoders = {archs, COUNT(archs)};

/* ---- What sentence-transformers adds ---- */

#define MODULES "modules.json"

static infer_status module_fail(const struct hf_reader *r, const char *file, infer_status code, const char *key, const char *why)
{
    infer_status st = err_at(r->err, code, key, strlen(key), ERR_NO_OFFSET, "%s", why);
    hf_err_file(r, file);
    return st;
}

/* "2_Dense" and a file in it: a folder of this folder itself. NULL: the name leads elsewhere, or memory ran out. */
static const char *module_file(struct hf_reader *r, const struct json *module, const char *file)
{
    const struct json *path = hf_member(module, "path");
    if (!path || path->type != JSON_STRING || path->u.text.len > 200)
        return NULL;
    const char *s = path->u.text.p;
    size_t n = path->u.text.len, f = strlen(file);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] < 0x20 || s[i] == '/' || s[i] == '\\' || s[i] == ':' || (i == 0 && s[i] == '.'))
            return NULL;
    char *name = arena_alloc(&r->ar, n + f + 2);
    if (!name)
        return NULL;
    memcpy(name, s, n);
    if (n)
        name[n++] = '/';
    memcpy(name + n, file, f + 1);
    return name;
}

/* The last word of "sentence_transformers.models.Pooling" and its kin. */
static bool module_is(const struct json *module, const char *kind)
{
    const struct json *type = hf_member(module, "type");
    size_t n = strlen(kind), len = type && type->type == JSON_STRING ? type->u.text.len : 0;
    return len > n && type->u.text.p[len - n - 1] == '.' && !memcmp(type->u.text.p + len - n, kind, n);
}

static bool is_true(const struct json *v)
{
    return v && v->type == JSON_BOOL && v->u.boolean;
}

/* One mode, by flags or by name. */
static infer_status read_pooling(struct hf_reader *r, const struct json *module)
{
    static const struct {
        const char *flag, *name;
        int32_t pooling;
    } modes[] = {{"pooling_mode_mean_tokens", "mean", INFER_POOLING_MEAN},
                 {"pooling_mode_cls_token", "cls", INFER_POOLING_CLS},
                 {"pooling_mode_lasttoken", "lasttoken", INFER_POOLING_LAST},
                 {"pooling_mode_max_tokens", "max", 0},
                 {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", 0},
                 {"pooling_mode_weightedmean_tokens", "weightedmean", 0}};
    const char *file = module_file(r, module, "config.json");
    struct json config;
    int32_t found = 0;
    uint32_t n = 0;
    if (!file)
        return module_fail(r, MODULES, INFER_ERROR_FORMAT, "path", "not the name of a folder in this one");
    infer_status st = hf_read_json(r, file, &config);
    if (st != INFER_OK)
        return st;
    const struct json *mode = hf_member(&config, "pooling_mode");
    for (size_t i = 0; i < COUNT(modes); i++)
        if (mode ? hf_text_is(mode, modes[i].name) : is_true(hf_member(&config, modes[i].flag))) {
            found = modes[i].pooling;
            n++;
        }
    if (n != 1 || !found)
        return module_fail(r, file, INFER_ERROR_UNSUPPORTED, "pooling_mode", "only one of mean, cls and lasttoken is supported");
    hf_put_u32(r, ".pooling_type", (uint32_t)found - 1);
    return INFER_OK;
}

/* The weight of a dense layer joins the others under the name that GGUF gives it. */
static infer_status add_dense(struct hf_reader *r, const struct json *module, const char *name)
{
    const char *file = module_file(r, module, "model.safetensors");
    struct infer_file *f;
    struct blob blob;
    bool found;
    if (!file)
        return err_no_memory(r->err); /* read_dense has checked the name */
    infer_status st = hf_open_companion(r, file, &blob, &found);
    if (st != INFER_OK)
        return st;
    if (!found)
        return module_fail(r, file, INFER_ERROR_NOT_FOUND, name, "the dense layer's weights are missing");
    st = hf_open_file(r, file, &blob, &f);
    if (st != INFER_OK)
        return st;
    if (f->n_tensors != 1 || !file_find_tensor(f, "linear.weight", 13))
        st = module_fail(r, file, INFER_ERROR_UNSUPPORTED, "linear.weight", "a dense layer has this tensor, and no other");
    else
        f->tensors[0].name = (struct file_str){name, strlen(name)};
    if (st == INFER_OK)
        st = file_join(r->weights, f, r->err);
    file_release(f);
    return st;
}

static infer_status read_dense(struct hf_reader *r, const struct json *module, uint32_t number)
{
    static const char *const names[] = {"dense_2.weight", "dense_3.weight"};
    const char *file = module_file(r, module, "config.json");
    struct json config;
    if (!file)
        return module_fail(r, MODULES, INFER_ERROR_FORMAT, "path", "not the name of a folder in this one");
    infer_status st = hf_read_json(r, file, &config);
    if (st != INFER_OK)
        return st;
    const struct json *act = hf_member(&config, "activation_function");
    if (number >= COUNT(names) || strcmp(r->arch->arch, "gemma-embedding") != 0)
        return module_fail(r, MODULES, INFER_ERROR_UNSUPPORTED, "type", "dense layers behind the pooling are not supported for this model");
    if (is_true(hf_member(&config, "bias")) || (act && !hf_text_is(act, "torch.nn.modules.linear.Identity")))
        return module_fail(r, file, INFER_ERROR_UNSUPPORTED, "activation_function", "only dense layers without bias and activation are supported");
    return r->weights ? add_dense(r, module, names[number]) : INFER_OK;
}

static infer_status read_max_length(struct hf_reader *r)
{
    struct json config;
    uint32_t most = 0;
    infer_status st = hf_read_json(r, "sentence_bert_config.json", &config);
    if (st == INFER_OK)
        st = hf_u32(r, &config, "max_seq_length", &most);
    if (st == INFER_OK && most)
        hf_put_u32(r, ".embedding_tokens", most);
    return st;
}

infer_status hf_read_modules(struct hf_reader *r)
{
    struct json modules;
    uint32_t dense = 0;
    infer_status st = hf_read_json(r, MODULES, &modules);
    if (st != INFER_OK || modules.type != JSON_ARRAY)
        return st;
    for (size_t i = 0; i < modules.n && st == INFER_OK; i++) {
        const struct json *m = &modules.u.items[i];
        if (module_is(m, "Pooling"))
            st = read_pooling(r, m);
        else if (module_is(m, "Dense"))
            st = read_dense(r, m, dense++);
        else if (!module_is(m, "Transformer") && !module_is(m, "Normalize"))
            st = module_fail(r, MODULES, INFER_ERROR_UNSUPPORTED, "type", "a kind of module that is not supported");
    }
    return st == INFER_OK ? read_max_length(r) : st;
}

const struct hf_arch *hf_encoder_of(const struct hf_reader *r, const struct hf_arch *arch)
{
    bool gemma = arch && !strcmp(arch->arch, "gemma3") && is_true(hf_get(r, "use_bidirectional_attention"));
    return gemma ? hf_find("gemma-embedding", 15) : arch;
}
