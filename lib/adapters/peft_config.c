/* adapter_config.json, as PEFT writes it. What is not known here and is set to something is refused: it might change the sums. */
#include <string.h>

#include "adapters/adapter_read.h"
#include "base/num.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Keys that change nothing of what an adapter computes, whatever they say: where it came from, how it was trained, which modules were chosen (the
 * tensors show that). fan_in_fan_out tells how the base stores its matrices; A and B lie the same way in both. */
static const char *const harmless[] = {
    "auto_mapping", "base_model_name_or_path", "revision", "peft_type", "task_type", "inference_mode", "peft_version",
    "tokenizer_name_or_path", "target_modules", "exclude_modules", "fan_in_fan_out", "lora_dropout", "layers_to_transform", "layers_pattern",
    "megatron_core", "loftq_config", "eva_config", "corda_config", "lora_ga_config", "qalora_group_size", "runtime_config",
    "prompt_tuning_init", "prompt_tuning_init_text", "tokenizer_kwargs", "init_weights", "random_sample_vocab",
    "encoder_hidden_size", "encoder_num_layers", "encoder_dropout", "encoder_reparameterization_type",
};
/* Keys that are read below. */
static const char *const read_lora[] = {"r", "lora_rank", "lora_alpha", "use_rslora", "rank_pattern", "alpha_pattern", "bias", "init_lora_weights",
                                        "alora_invocation_tokens"};
static const char *const read_rows[] = {"num_virtual_tokens", "token_dim", "num_layers", "num_attention_heads",
                                        "num_transformer_submodules", "prefix_projection"};

static bool is_one_of(const char *const *list, size_t n, const struct json_text *key)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(list[i]) == key->len && !memcmp(list[i], key->p, key->len))
            return true;
    return false;
}

static bool is_text(const struct json *v, const char *text)
{
    return v->type == JSON_STRING && v->u.text.len == strlen(text) && !memcmp(v->u.text.p, text, v->u.text.len);
}

/* null, false, 0, "", [], {}. */
static bool is_unset(const struct json *v)
{
    switch (v->type) {
    case JSON_NULL: return true;
    case JSON_BOOL: return !v->u.boolean;
    case JSON_INT: return v->u.integer == 0;
    case JSON_STRING: return v->u.text.len == 0;
    case JSON_ARRAY:
    case JSON_OBJECT: return v->n == 0;
    default: return false;
    }
}

static infer_status wrong(struct adapter_reader *r, const char *key, const struct json *v, const char *wanted)
{
    return err_at(r->err, INFER_ERROR_VALUE, key, strlen(key), v ? v->offset : ERR_NO_OFFSET, "expected %s", wanted);
}

static bool number_of(const struct json *v, double *out)
{
    if (v->type == JSON_INT)
        *out = (double)v->u.integer;
    else if (v->type == JSON_DOUBLE)
        *out = v->u.number;
    else
        return false;
    return num_is_finite(*out);
}

/* A number of the prompt methods: absent and null are 0. */
static infer_status get_count(struct adapter_reader *r, const struct json *root, const char *key, uint32_t max, uint32_t *out)
{
    const struct json *v = json_get(root, key);
    *out = 0;
    if (!v || v->type == JSON_NULL)
        return INFER_OK;
    if (v->type != JSON_INT || v->u.integer < 1 || v->u.integer > max)
        return wrong(r, key, v, "an integer in range");
    *out = (uint32_t)v->u.integer;
    return INFER_OK;
}

static infer_status rank_of(struct adapter_reader *r, const char *key, const struct json *v, uint32_t *out)
{
    if (v->type != JSON_INT || v->u.integer < 1 || v->u.integer > ADAPTER_MAX_RANK)
        return wrong(r, key, v, "a rank from 1 to 4096");
    *out = (uint32_t)v->u.integer;
    return INFER_OK;
}

static infer_status get_pattern(struct adapter_reader *r, const struct json *root, const char *key, const struct json **out)
{
    const struct json *v = json_get(root, key);
    *out = NULL;
    if (!v || v->type == JSON_NULL)
        return INFER_OK;
    if (v->type != JSON_OBJECT || v->n > 65536)
        return wrong(r, key, v, "an object");
    *out = v;
    return INFER_OK;
}

/* Initialisations that change the base's weights as well: without the changed base the adapter means something else. */
static infer_status check_init(struct adapter_reader *r, const struct json *v)
{
    if (!v || v->type == JSON_NULL || v->type == JSON_BOOL || is_text(v, "gaussian") || is_text(v, "eva") ||
        is_text(v, "orthogonal") || is_text(v, "true") || is_text(v, "false"))
        return INFER_OK;
    bool text = v->type == JSON_STRING;
    return ADAPTER_FAIL(r, INFER_ERROR_UNSUPPORTED, "init_lora_weights",
                        "initialisation '%.*s' changes the base's weights too: convert the adapter to a plain LoRA",
                        text && v->u.text.len < 40 ? (int)v->u.text.len : 1, text ? v->u.text.p : "?");
}

static infer_status read_invocation(struct adapter_reader *r, const struct json *v)
{
    const char *const key = "alora_invocation_tokens";
    if (!v || v->type == JSON_NULL)
        return INFER_OK;
    if (v->type != JSON_ARRAY || v->n < 1 || v->n > ADAPTER_MAX_INVOCATION)
        return wrong(r, key, v, "a list of 1 to 1024 token ids");
    int32_t *ids = arena_zarray(&r->a->arena, v->n, sizeof *ids);
    if (!ids)
        return err_no_memory(r->err);
    for (size_t i = 0; i < v->n; i++) {
        const struct json *id = &v->u.items[i];
        if (id->type != JSON_INT || id->u.integer < 0 || id->u.integer > INT32_MAX)
            return wrong(r, key, id, "token ids");
        ids[i] = (int32_t)id->u.integer;
    }
    r->a->invocation = ids;
    r->a->n_invocation = (uint32_t)v->n;
    return INFER_OK;
}

static infer_status read_rank(struct adapter_reader *r, const struct json *root)
{
    const struct json *v = json_get(root, "r"), *alpha = json_get(root, "lora_alpha");
    const char *key = v ? "r" : "lora_rank";
    v = v ? v : json_get(root, "lora_rank");
    if (!v)
        return ADAPTER_FAIL(r, INFER_ERROR_MISSING, "r", "the configuration does not tell the rank");
    if (!alpha)
        return ADAPTER_FAIL(r, INFER_ERROR_MISSING, "lora_alpha", "the configuration does not tell the scale");
    if (!number_of(alpha, &r->config.alpha))
        return wrong(r, "lora_alpha", alpha, "a finite number");
    return rank_of(r, key, v, &r->config.rank);
}

static infer_status read_lora_config(struct adapter_reader *r, const struct json *root)
{
    struct peft_config *c = &r->config;
    const struct json *bias = json_get(root, "bias"), *rs = json_get(root, "use_rslora");
    infer_status st = read_rank(r, root);
    if (st == INFER_OK)
        st = get_pattern(r, root, "rank_pattern", &c->rank_pattern);
    if (st == INFER_OK)
        st = get_pattern(r, root, "alpha_pattern", &c->alpha_pattern);
    if (st == INFER_OK && bias && !is_unset(bias) && !is_text(bias, "none"))
        st = ADAPTER_FAIL(r, INFER_ERROR_UNSUPPORTED, "bias", "adapters that train biases are not supported: only \"none\"");
    if (st == INFER_OK && rs && rs->type != JSON_BOOL && rs->type != JSON_NULL)
        st = wrong(r, "use_rslora", rs, "true or false");
    if (st == INFER_OK)
        st = check_init(r, json_get(root, "init_lora_weights"));
    c->rslora = rs && rs->type == JSON_BOOL && rs->u.boolean;
    return st == INFER_OK ? read_invocation(r, json_get(root, "alora_invocation_tokens")) : st;
}

static infer_status read_rows_config(struct adapter_reader *r, const struct json *root)
{
    struct peft_config *c = &r->config;
    uint32_t modules = 0;
    infer_status st = get_count(r, root, "num_virtual_tokens", ADAPTER_MAX_ROWS, &c->n_virtual);
    if (st == INFER_OK)
        st = get_count(r, root, "token_dim", 1u << 20, &c->token_dim);
    if (st == INFER_OK)
        st = get_count(r, root, "num_layers", ADAPTER_MAX_LAYERS, &c->n_layers);
    if (st == INFER_OK)
        st = get_count(r, root, "num_attention_heads", 1u << 16, &c->n_heads);
    if (st == INFER_OK)
        st = get_count(r, root, "num_transformer_submodules", 2, &modules);
    if (st == INFER_OK && modules == 2)
        st = ADAPTER_FAIL(r, INFER_ERROR_UNSUPPORTED, "num_transformer_submodules", "a prompt for an encoder and a decoder");
    return st;
}

/* The first key that is neither read nor harmless, and set. */
static infer_status check_keys(struct adapter_reader *r, const struct json *root)
{
    bool lora = r->config.method == PEFT_LORA;
    for (size_t i = 0; i < root->n; i++) {
        const struct json_member *m = &root->u.members[i];
        if (is_unset(&m->value) || is_one_of(harmless, COUNT(harmless), &m->key) ||
            (lora ? is_one_of(read_lora, COUNT(read_lora), &m->key) : is_one_of(read_rows, COUNT(read_rows), &m->key)))
            continue;
        return err_at(r->err, INFER_ERROR_UNSUPPORTED, m->key.p, m->key.len, m->value.offset,
                      "the adapter uses the option '%.*s', which is not supported", m->key.len < 64 ? (int)m->key.len : 64,
                      m->key.p);
    }
    return INFER_OK;
}

static infer_status read_method(struct adapter_reader *r, const struct json *root)
{
    const struct json *type = json_get(root, "peft_type");
    if (!type)
        return ADAPTER_FAIL(r, INFER_ERROR_MISSING, "peft_type", "the configuration does not tell the method");
    if (is_text(type, "LORA"))
        r->config.method = PEFT_LORA;
    else if (is_text(type, "PROMPT_TUNING") || is_text(type, "P_TUNING"))
        r->config.method = PEFT_PROMPT;
    else if (is_text(type, "PREFIX_TUNING"))
        r->config.method = PEFT_PREFIX;
    else if (type->type == JSON_STRING)
        return ADAPTER_FAIL(r, INFER_ERROR_UNSUPPORTED, "peft_type", "adapters of the method '%.*s' are not supported",
                            type->u.text.len < 40 ? (int)type->u.text.len : 40, type->u.text.p);
    else
        return wrong(r, "peft_type", type, "a string");
    return INFER_OK;
}

static infer_status read_base(struct adapter_reader *r, const struct json *root)
{
    const struct json *base = json_get(root, "base_model_name_or_path");
    if (!base || base->type != JSON_STRING)
        return INFER_OK;
    r->a->base = arena_strdup(&r->a->arena, base->u.text.p, base->u.text.len);
    return r->a->base ? INFER_OK : err_no_memory(r->err);
}

infer_status peft_config_read(struct adapter_reader *r, const char *text, size_t len)
{
    struct json *root = arena_zalloc(&r->temp, sizeof *root); /* patterns point into it */
    if (!root)
        return err_no_memory(r->err);
    infer_status st = json_parse(&r->temp, text, len, NULL, root, r->err);
    if (st != INFER_OK)
        return st;
    if (root->type != JSON_OBJECT)
        return err_set(r->err, INFER_ERROR_FORMAT, "the configuration is not a JSON object");
    st = read_method(r, root);
    if (st == INFER_OK)
        st = check_keys(r, root);
    if (st == INFER_OK)
        st = read_base(r, root);
    if (st == INFER_OK)
        st = r->config.method == PEFT_LORA ? read_lora_config(r, root) : read_rows_config(r, root);
    return st;
}

/* The value of the first key of `patterns` that matches, or NULL. */
static infer_status find_pattern(struct adapter_reader *r, const struct json *patterns, const char *module, const struct json **out)
{
    *out = NULL;
    for (size_t i = 0; patterns && i < patterns->n; i++) {
        const struct json_member *m = &patterns->u.members[i];
        bool found = false;
        if (peft_pattern_match(m->key.p, m->key.len, module, &found) != INFER_OK)
            return err_at(r->err, INFER_ERROR_UNSUPPORTED, m->key.p, m->key.len, m->value.offset,
                          "this regular expression is not understood: no groups, alternatives or counts");
        if (found) {
            *out = &m->value;
            return INFER_OK;
        }
    }
    return INFER_OK;
}

infer_status peft_config_of(struct adapter_reader *r, const char *module, uint32_t *rank, double *alpha)
{
    const struct json *v;
    *rank = r->config.rank;
    *alpha = r->config.alpha;
    infer_status st = find_pattern(r, r->config.rank_pattern, module, &v);
    if (st == INFER_OK && v)
        st = rank_of(r, "rank_pattern", v, rank);
    if (st == INFER_OK)
        st = find_pattern(r, r->config.alpha_pattern, module, &v);
    if (st == INFER_OK && v && !number_of(v, alpha))
        st = wrong(r, "alpha_pattern", v, "a finite number");
    return st;
}
