/* config.json: its keys by the architecture's table, rope, sliding windows. */
#include <math.h>
#include <string.h>

#include "kernels/math_scalar.h"
#include "model/arch.h"
#include "model/hf_read.h"

#define CONFIG "config.json"
#define TWO_PI 6.283185307179586

/* ---- Values ---- */

/* Steps through "a|b|c". */
static bool next_name(const char **at, const char **name, size_t *len)
{
    if (!**at)
        return false;
    *name = *at;
    *len = strcspn(*at, "|");
    *at += *len + ((*at)[*len] == '|');
    return true;
}

const struct json *hf_member(const struct json *object, const char *keys)
{
    const char *name;
    size_t len;
    if (!object || object->type != JSON_OBJECT)
        return NULL;
    while (next_name(&keys, &name, &len))
        for (size_t i = 0; i < object->n; i++) {
            const struct json_member *m = &object->u.members[i];
            if (m->key.len == len && !memcmp(m->key.p, name, len) && m->value.type != JSON_NULL)
                return &m->value;
        }
    return NULL;
}

const struct json *hf_get(const struct hf_reader *r, const char *keys)
{
    return hf_member(r->model, keys);
}

bool hf_one_of(const struct json *v, const char *names)
{
    const char *name;
    size_t len;
    while (v && v->type == JSON_STRING && next_name(&names, &name, &len))
        if (v->u.text.len == len && !memcmp(v->u.text.p, name, len))
            return true;
    return false;
}

bool hf_text_is(const struct json *v, const char *text)
{
    return v && v->type == JSON_STRING && v->u.text.len == strlen(text) && !memcmp(v->u.text.p, text, v->u.text.len);
}

infer_status hf_fail(const struct hf_reader *r, infer_status code, const char *key, const char *why)
{
    infer_status st = err_at(r->err, code, key, strcspn(key, "|"), ERR_NO_OFFSET, "%s", why);
    hf_err_file(r, CONFIG);
    return st;
}

infer_status hf_number(const struct hf_reader *r, const struct json *object, const char *keys, double *out)
{
    const struct json *v = hf_member(object, keys);
    if (!v)
        return INFER_OK;
    double x = v->type == JSON_INT ? (double)v->u.integer : v->type == JSON_DOUBLE ? v->u.number : (double)INFINITY;
    if (!isfinite(x))
        return hf_fail(r, INFER_ERROR_VALUE, keys, "not a number");
    *out = x;
    return INFER_OK;
}

infer_status hf_u32(const struct hf_reader *r, const struct json *object, const char *keys, uint32_t *out)
{
    const struct json *v = hf_member(object, keys);
    if (!v)
        return INFER_OK;
    if (v->type != JSON_INT || v->u.integer < 0 || v->u.integer > UINT32_MAX)
        return hf_fail(r, INFER_ERROR_VALUE, keys, "not a whole number from 0 to 2^32 - 1");
    *out = (uint32_t)v->u.integer;
    return INFER_OK;
}

/* ---- The architecture's keys ---- */

static bool is_false(const struct json *v)
{
    return (v->type == JSON_BOOL && !v->u.boolean) || (v->type == JSON_INT && !v->u.integer);
}

static infer_status put_number(struct hf_reader *r, const struct hf_key *k)
{
    double x = k->absent;
    uint32_t u = k->absent > 0 && k->absent < UINT32_MAX ? (uint32_t)k->absent : 0;
    infer_status st = k->kind == HF_U32 ? hf_u32(r, r->model, k->hf, &u) : hf_number(r, r->model, k->hf, &x);
    if (st != INFER_OK)
        return st;
    if (k->kind == HF_U32)
        hf_put_u32(r, k->gguf, u);
    else if (x > 3e38 || x < -3e38)
        return hf_fail(r, INFER_ERROR_VALUE, k->hf, "out of range");
    else
        hf_put_f32(r, k->gguf, (float)x);
    return INFER_OK;
}

static infer_status read_key(struct hf_reader *r, const struct hf_key *k)
{
    const struct json *v = hf_get(r, k->hf);
    if (!v && k->required)
        return hf_fail(r, INFER_ERROR_MISSING, k->hf, "the key is absent");
    if (!v && (k->absent == 0 || k->kind > HF_BOOL))
        return INFER_OK;
    switch ((enum hf_key_kind)k->kind) {
    case HF_U32:
    case HF_F32: return put_number(r, k);
    case HF_BOOL:
        if (v && v->type != JSON_BOOL)
            return hf_fail(r, INFER_ERROR_VALUE, k->hf, "neither true nor false");
        hf_put_bool(r, k->gguf, v ? v->u.boolean : k->absent != 0);
        return INFER_OK;
    case HF_TRUE: return is_false(v) ? hf_fail(r, INFER_ERROR_UNSUPPORTED, k->hf, "this value is not supported") : INFER_OK;
    case HF_FALSE: return is_false(v) ? INFER_OK : hf_fail(r, INFER_ERROR_UNSUPPORTED, k->hf, "this value is not supported");
    case HF_ONE_OF:
        return hf_one_of(v, k->gguf) ? INFER_OK : hf_fail(r, INFER_ERROR_UNSUPPORTED, k->hf, "this value is not supported");
    }
    return INFER_OK;
}

static infer_status read_keys(struct hf_reader *r)
{
    infer_status st = INFER_OK;
    for (size_t l = 0; r->arch->keys[l]; l++)
        for (const struct hf_key *k = r->arch->keys[l]; k->hf && st == INFER_OK; k++)
            st = read_key(r, k);
    return st;
}

/* ---- Rope. Old files have rope_theta and rope_scaling, newer ones all in rope_parameters, which may be one object for each kind of layer. ---- */

struct rope {
    const struct json *full, *window; /* objects or NULL */
    double theta;
    uint32_t n_rot;                   /* 0: all of a head */
};

static infer_status head_dim(const struct hf_reader *r, uint32_t *out)
{
    uint32_t width = 0, heads = 1;
    *out = 0;
    infer_status st = hf_u32(r, r->model, "head_dim", out);
    if (st == INFER_OK)
        st = hf_u32(r, r->model, "hidden_size|n_embd", &width);
    if (st == INFER_OK)
        st = hf_u32(r, r->model, "num_attention_heads|n_head", &heads);
    if (st == INFER_OK && *out == 0)
        *out = heads ? width / heads : 0;
    return st;
}

/* Where both spellings stand, transformers takes the old one, unless that is empty. */
const struct json *hf_rope_of(const struct hf_reader *r)
{
    const struct json *old = hf_get(r, "rope_scaling"), *now = hf_get(r, "rope_parameters");
    return !old || (now && old->type == JSON_OBJECT && old->n == 0) ? now : old;
}

static infer_status find_rope(const struct hf_reader *r, struct rope *p)
{
    const struct json *all = hf_rope_of(r), *by_layer = hf_member(all, "full_attention");
    double part = r->arch->rotary_part > 0 ? r->arch->rotary_part : 1;
    uint32_t dim;
    if (all && all->type != JSON_OBJECT)
        return hf_fail(r, INFER_ERROR_VALUE, "rope_parameters|rope_scaling", "not an object");
    *p = (struct rope){.full = by_layer ? by_layer : all, .window = hf_member(all, "sliding_attention"), .theta = 10000};
    infer_status st = hf_number(r, r->model, "rope_theta", &p->theta);
    if (st == INFER_OK)
        st = hf_number(r, p->full, "rope_theta", &p->theta);
    if (st == INFER_OK)
        st = hf_number(r, r->model, "partial_rotary_factor|rope_pct", &part);
    if (st == INFER_OK)
        st = hf_number(r, p->full, "partial_rotary_factor", &part);
    if (st == INFER_OK)
        st = head_dim(r, &dim);
    if (st == INFER_OK && !(part > 0 && part <= 1))
        st = hf_fail(r, INFER_ERROR_VALUE, "partial_rotary_factor", "not within 0 to 1");
    if (st == INFER_OK && part < 1)
        p->n_rot = (uint32_t)(dim * part);
    return st;
}

static infer_status factor_of(const struct hf_reader *r, const struct rope *p, double *factor)
{
    *factor = 0;
    infer_status st = hf_number(r, p->full, "factor", factor);
    if (st == INFER_OK && !(*factor >= 1e-3 && *factor <= 1e6))
        st = hf_fail(r, INFER_ERROR_VALUE, "factor", "the rope scaling's factor is absent or out of range");
    return st;
}

/* The context before it was extended. What stands beside the rope parameters goes before what stands in them, as in transformers. */
static infer_status original_context(const struct hf_reader *r, const struct rope *p, uint32_t *n)
{
    *n = 0;
    infer_status st = hf_u32(r, r->model, "max_position_embeddings", n);
    if (st == INFER_OK)
        st = hf_u32(r, p->full, "original_max_position_embeddings", n);
    if (st == INFER_OK && p->full == hf_rope_of(r))
        st = hf_u32(r, r->model, "original_max_position_embeddings", n);
    if (st == INFER_OK && *n == 0)
        st = hf_fail(r, INFER_ERROR_VALUE, "original_max_position_embeddings", "is 0 or absent");
    return st;
}

static double yarn_scale(double factor, double m)
{
    return factor <= 1 ? 1 : 0.1 * m * math_log_d(factor) + 1;
}

static infer_status put_yarn(struct hf_reader *r, const struct rope *p, double factor)
{
    uint32_t original;
    double fast = 32, slow = 1, m = 0, m_all = 0, attention = 0;
    const struct json *truncate = hf_member(p->full, "truncate");
    infer_status st = original_context(r, p, &original);
    if (truncate && truncate->type == JSON_BOOL && !truncate->u.boolean)
        st = hf_fail(r, INFER_ERROR_UNSUPPORTED, "truncate", "this kind of yarn is not supported");
    if (st == INFER_OK)
        st = hf_number(r, p->full, "beta_fast", &fast);
    if (st == INFER_OK)
        st = hf_number(r, p->full, "beta_slow", &slow);
    if (st == INFER_OK)
        st = hf_number(r, p->full, "mscale", &m);
    if (st == INFER_OK)
        st = hf_number(r, p->full, "mscale_all_dim", &m_all);
    if (st == INFER_OK)
        st = hf_number(r, p->full, "attention_factor", &attention);
    if (st != INFER_OK)
        return st;
    if (attention == 0)
        attention = m != 0 && m_all != 0 ? yarn_scale(factor, m) / yarn_scale(factor, m_all) : yarn_scale(factor, 1);
    hf_put_u32(r, ".rope.scaling.original_context_length", original);
    hf_put_f32(r, ".rope.scaling.yarn_beta_fast", (float)(fast != 0 ? fast : 32));
    hf_put_f32(r, ".rope.scaling.yarn_beta_slow", (float)(slow != 0 ? slow : 1));
    bool latent = !strcmp(r->arch->arch, "deepseek2") && m_all != 0;
    if (latent) /* m_all scales scores too */
        hf_put_f32(r, ".rope.scaling.yarn_log_multiplier", (float)(0.1 * m_all));
    double relative = latent ? attention : attention / (1 + 0.1 * math_log_d(factor)); /* rope_freqs.c multiplies by the rest */
    if (fabs(relative - 1) > 1e-7)
        hf_put_f32(r, ".rope.scaling.yarn_attn_factor", (float)relative);
    return INFER_OK;
}

/* Llama 3.1: what each frequency is divided by; in GGUF a tensor. */
static infer_status put_llama3(struct hf_reader *r, const struct rope *p, double factor)
{
    uint32_t original, dim;
    double low = 1, high = 4;
    infer_status st = original_context(r, p, &original);
    if (st == INFER_OK)
        st = hf_number(r, p->full, "low_freq_factor", &low);
    if (st == INFER_OK)
        st = hf_number(r, p->full, "high_freq_factor", &high);
    if (st == INFER_OK)
        st = head_dim(r, &dim);
    if (st == INFER_OK && !(high > low && low > 0 && high < 1e6))
        st = hf_fail(r, INFER_ERROR_VALUE, "high_freq_factor", "out of range");
    if (st != INFER_OK)
        return st;
    uint32_t n_rot = p->n_rot ? p->n_rot : dim;
    if (n_rot < 2 || n_rot > 65536)
        return hf_fail(r, INFER_ERROR_VALUE, "head_dim", "out of range");
    float *factors = arena_zarray(&r->ar, n_rot / 2, sizeof *factors);
    if (!factors)
        return err_no_memory(r->err);
    for (uint32_t i = 0; i < n_rot / 2; i++) {
        double turns = original * math_pow(p->theta, -2.0 * i / n_rot) / TWO_PI; /* within the original context */
        double smooth = (turns - low) / (high - low);
        smooth = smooth < 0 ? 0 : smooth > 1 ? 1 : smooth;
        factors[i] = (float)(1 / ((1 - smooth) / factor + smooth));
    }
    return hf_add_values(r, "rope_freqs.weight", factors, n_rot / 2);
}

/* LongRoPE's two lists of factors; in GGUF tensors. */
static infer_status put_factors(struct hf_reader *r, const struct rope *p, const char *key, const char *name)
{
    const struct json *list = hf_member(p->full, key);
    uint32_t dim;
    infer_status st = head_dim(r, &dim);
    if (st != INFER_OK)
        return st;
    uint32_t n = (p->n_rot ? p->n_rot : dim) / 2;
    if (!list || list->type != JSON_ARRAY || list->n != n || n == 0)
        return hf_fail(r, INFER_ERROR_VALUE, key, "not a list of one number for each rotated pair");
    float *factors = arena_zarray(&r->ar, n, sizeof *factors);
    if (!factors)
        return err_no_memory(r->err);
    for (uint32_t i = 0; i < n; i++) {
        const struct json *v = &list->u.items[i];
        double x = v->type == JSON_INT ? (double)v->u.integer : v->type == JSON_DOUBLE ? v->u.number : 0;
        if (!(x > 1e-6 && x < 1e9))
            return hf_fail(r, INFER_ERROR_VALUE, key, "a factor is out of range");
        factors[i] = (float)x;
    }
    return hf_add_values(r, name, factors, n);
}

static infer_status put_longrope(struct hf_reader *r, const struct rope *p)
{
    uint32_t original, context = 0;
    double factor = 0, attention = 0;
    infer_status st = original_context(r, p, &original);
    if (st == INFER_OK)
        st = hf_u32(r, r->model, "max_position_embeddings", &context);
    if (st == INFER_OK)
        st = hf_number(r, p->full, "factor", &factor);
    if (st == INFER_OK)
        st = hf_number(r, p->full, "attention_factor", &attention);
    if (st == INFER_OK)
        st = put_factors(r, p, "short_factor", "rope_factors_short.weight");
    if (st == INFER_OK)
        st = put_factors(r, p, "long_factor", "rope_factors_long.weight");
    if (st == INFER_OK && original < 2)
        st = hf_fail(r, INFER_ERROR_VALUE, "original_max_position_embeddings", "out of range");
    if (st != INFER_OK)
        return st;
    if (factor <= 0)
        factor = (double)context / original;
    if (attention <= 0)
        attention = factor <= 1 ? 1 : (double)math_sqrt((float)(1 + math_log_d(factor) / math_log_d(original)));
    hf_put_u32(r, ".rope.scaling.original_context_length", original);
    hf_put_f32(r, ".rope.scaling.attn_factor", (float)attention);
    return INFER_OK;
}

static infer_status put_scaling(struct hf_reader *r, const struct rope *p)
{
    const struct json *type = hf_member(p->full, "rope_type|type");
    double factor;
    if (!type || hf_one_of(type, "default"))
        return INFER_OK;
    if (hf_one_of(type, "longrope|su") && !hf_member(p->full, "short_mscale|long_mscale"))
        return put_longrope(r, p);
    if (!hf_one_of(type, "linear|yarn|llama3"))
        return hf_fail(r, INFER_ERROR_UNSUPPORTED, "rope_type", "this kind of rope scaling is not supported");
    infer_status st = factor_of(r, p, &factor);
    if (st != INFER_OK)
        return st;
    if (hf_text_is(type, "llama3"))
        return put_llama3(r, p, factor);
    hf_put_text(r, ".rope.scaling.type", type->u.text.p, type->u.text.len);
    hf_put_f32(r, ".rope.scaling.factor", (float)factor);
    return hf_text_is(type, "yarn") ? put_yarn(r, p, factor) : INFER_OK;
}

infer_status hf_read_rope(struct hf_reader *r)
{
    struct rope p;
    double local = 0;
    infer_status st = find_rope(r, &p);
    if (st == INFER_OK && !(p.theta >= 1 && p.theta <= 1e30))
        st = hf_fail(r, INFER_ERROR_VALUE, "rope_theta", "out of range");
    if (st == INFER_OK)
        st = hf_number(r, r->model, "rope_local_base_freq", &local);
    if (st == INFER_OK)
        st = hf_number(r, p.window, "rope_theta", &local);
    if (st != INFER_OK)
        return st;
    if (!hf_one_of(hf_member(p.window, "rope_type|type"), "default") && hf_member(p.window, "rope_type|type"))
        return hf_fail(r, INFER_ERROR_UNSUPPORTED, "sliding_attention", "rope scaling of the window layers is not supported");
    hf_put_f32(r, ".rope.freq_base", (float)p.theta);
    if (local >= 1 && local <= 1e30)
        hf_put_f32(r, ".rope.freq_base_swa", (float)local);
    if (p.n_rot)
        hf_put_u32(r, ".rope.dimension_count", p.n_rot);
    return put_scaling(r, &p);
}

/* ---- Sliding windows ---- */

infer_status hf_read_windows(struct hf_reader *r)
{
    const struct json *use = hf_get(r, "use_sliding_window"), *types = hf_get(r, "layer_types");
    uint32_t window = 0, layers = 0, first = 28, pattern = 0; /* as the Qwen configurations have it */
    infer_status st = use && use->type != JSON_BOOL ? hf_fail(r, INFER_ERROR_VALUE, "use_sliding_window", "neither true nor false") : INFER_OK;
    if (st == INFER_OK)
        st = hf_u32(r, r->model, "sliding_window", &window);
    if (st == INFER_OK)
        st = hf_u32(r, r->model, "num_hidden_layers", &layers);
    if (st == INFER_OK)
        st = hf_u32(r, r->model, "max_window_layers", &first);
    if (st == INFER_OK)
        st = hf_u32(r, r->model, "sliding_window_pattern", &pattern);
    if (st != INFER_OK)
        return st;
    if (types && (types->type != JSON_ARRAY || types->n != layers || layers > MODEL_MAX_LAYERS))
        return hf_fail(r, INFER_ERROR_VALUE, "layer_types", "not a list of one name for each layer");
    for (size_t i = 0; types && i < types->n; i++)
        if (!hf_one_of(&types->u.items[i], "full_attention|sliding_attention"))
            return hf_fail(r, INFER_ERROR_UNSUPPORTED, "layer_types", "a kind of layer that is not supported");
    if (window == 0 || (use && is_false(use)))
        return INFER_OK;
    hf_put_u32(r, ".attention.sliding_window", window);
    bool from = use && layers <= MODEL_MAX_LAYERS;
    if (types || from) {
        hf_put_array(r, ".attention.sliding_window_pattern", FILE_BOOL, layers);
        for (uint32_t i = 0; i < layers; i++)
            buf_putc(&r->meta, types ? hf_text_is(&types->u.items[i], "sliding_attention") : i >= first);
    } else if (pattern) {
        hf_put_u32(r, ".attention.sliding_window_pattern", pattern);
    }
    return INFER_OK;
}

infer_status hf_read_windows_if_used(struct hf_reader *r)
{
    return hf_get(r, "use_sliding_window") ? hf_read_windows(r) : INFER_OK;
}

/* ---- All of it ---- */

static infer_status refuse_quantised(const struct hf_reader *r)
{
    const struct json *q = hf_member(&r->config, "quantization_config|compression_config");
    const struct json *method = hf_member(q ? q : hf_get(r, "quantization_config"), "quant_method");
    if (!q && !method)
        return INFER_OK;
    infer_status st = err_at(r->err, INFER_ERROR_UNSUPPORTED, "quantization_config", 19, ERR_NO_OFFSET,
                             "weights quantised by '%.*s' are not supported: use the original folder, or a GGUF file",
                             method && method->type == JSON_STRING && method->u.text.len < 64 ? (int)method->u.text.len : 0,
                             method && method->type == JSON_STRING ? method->u.text.p : "");
    hf_err_file(r, CONFIG);
    return st;
}

/* Models of several modalities describe their text model in text_config. */
static void find_model(struct hf_reader *r)
{
    const struct json *text = hf_member(&r->config, "text_config"), *type;
    bool inner = text && text->type == JSON_OBJECT && !hf_member(&r->config, "num_hidden_layers");
    r->model = inner ? text : &r->config;
    type = hf_member(r->model, "model_type");
    if (!type)
        type = hf_member(&r->config, "model_type");
    if (type && type->type == JSON_STRING)
        r->model_type = (struct file_str){type->u.text.p, type->u.text.len};
}

static infer_status unknown_type(const struct hf_reader *r)
{
    infer_status st = r->model_type.len ? err_at(r->err, INFER_ERROR_ARCHITECTURE, r->model_type.data, (size_t)r->model_type.len,
                                                 ERR_NO_OFFSET, "this model_type is not known")
                                        : err_at(r->err, INFER_ERROR_MISSING, "model_type", 10, ERR_NO_OFFSET,
                                                 "the key is absent");
    hf_err_file(r, CONFIG);
    return st;
}

/* As a file or for its text only, what cannot be run opens too. */
static infer_status unread(struct hf_reader *r)
{
    const char *name = r->arch ? r->arch->arch : r->model_type.data;
    size_t len = r->arch ? strlen(name) : (size_t)r->model_type.len;
    r->meta.len = 0;
    r->n_meta = 0;
    r->n_made = 0;
    r->arch = NULL;
    if (len)
        hf_put_text(r, "general.architecture", name, len);
    return INFER_OK;
}

static infer_status read_model(struct hf_reader *r)
{
    infer_status st = r->arch ? refuse_quantised(r) : unknown_type(r);
    if (st != INFER_OK)
        return st;
    const struct json *tie = hf_member(&r->config, "tie_word_embeddings"), *inner = hf_get(r, "tie_word_embeddings");
    const struct json *name = hf_member(&r->config, "_name_or_path");
    tie = tie ? tie : inner;
    if (tie && tie->type != JSON_BOOL)
        return hf_fail(r, INFER_ERROR_VALUE, "tie_word_embeddings", "neither true nor false");
    r->tied = tie ? tie->u.boolean : !r->arch->untied;
    hf_put_text(r, "general.architecture", r->arch->arch, strlen(r->arch->arch));
    if (name && name->type == JSON_STRING && name->u.text.len)
        hf_put_text(r, "general.name", name->u.text.p, name->u.text.len);
    st = read_keys(r);
    if (st == INFER_OK && !r->arch->no_rope)
        st = hf_read_rope(r);
    return st == INFER_OK && r->arch->more ? r->arch->more(r) : st;
}

infer_status hf_read_config(struct hf_reader *r)
{
    find_model(r);
    r->arch = hf_encoder_of(r, r->model_type.len ? hf_find(r->model_type.data, (size_t)r->model_type.len) : NULL);
    if (r->o->use == HF_AS_TEXT)
        return unread(r);
    infer_status st = read_model(r);
    return st != INFER_OK && st != INFER_ERROR_NO_MEMORY && r->o->use == HF_AS_FILE ? unread(r) : st;
}
