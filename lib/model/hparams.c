#include "model/hparams.h"

#include <stdio.h>
#include <string.h>

#include "kernels/math_scalar.h"

#define KEY_MAX 128

/* "llama.block_count" */
struct key {
    char s[KEY_MAX];
};

static struct key key_of(const struct arch *arch, const char *suffix)
{
    struct key k;
    (void)snprintf(k.s, sizeof k.s, "%s.%s", arch->name, suffix);
    return k;
}

/* A reader with a sticky status, so that a list of keys reads as a list. */
struct reader {
    const struct infer_file *f;
    const struct arch *arch;
    infer_error *err;
    infer_status st;
};

static infer_status bad_value(struct reader *r, const char *suffix, infer_status st, const char *why)
{
    struct key k = key_of(r->arch, suffix);
    if (r->st == INFER_OK)
        r->st = file_failed(r->f, r->err, err_at(r->err, st, k.s, strlen(k.s), ERR_NO_OFFSET, "%s", why));
    return r->st;
}

/* An integer in [lo, hi]; absent: the default, or an error when that is UINT32_MAX. */
static uint32_t get_u32(struct reader *r, const char *suffix, uint32_t absent, uint32_t lo, uint32_t hi)
{
    struct key k = key_of(r->arch, suffix);
    uint32_t v = absent;
    if (r->st != INFER_OK)
        return lo;
    r->st = absent == UINT32_MAX ? file_get_u32(r->f, k.s, &v, r->err) : file_get_u32_or(r->f, k.s, absent, &v, r->err);
    if (r->st == INFER_OK && (v < lo || v > hi)) {
        r->st = err_at(r->err, INFER_ERROR_VALUE, k.s, strlen(k.s), ERR_NO_OFFSET, "%u is not within %u to %u", v, lo,
                       hi);
        file_failed(r->f, r->err, r->st);
    }
    return r->st == INFER_OK ? v : lo;
}

static float get_f32(struct reader *r, const char *suffix, float absent, float lo, float hi)
{
    struct key k = key_of(r->arch, suffix);
    float v = absent;
    if (r->st != INFER_OK)
        return absent;
    r->st = file_get_f32_or(r->f, k.s, absent, &v, r->err);
    if (r->st == INFER_OK && file_has(r->f, k.s) && !(v >= lo && v <= hi))
        bad_value(r, suffix, INFER_ERROR_VALUE, "value out of range");
    return v;
}

static bool get_bool(struct reader *r, const char *suffix)
{
    struct key k = key_of(r->arch, suffix);
    bool v = false;
    if (r->st == INFER_OK)
        r->st = file_get_bool_or(r->f, k.s, false, &v, r->err);
    return v;
}

/* A number that some files give for each layer. Layers that differ are not supported. */
static uint32_t get_same(struct reader *r, const char *suffix, uint32_t absent, uint32_t n_layer, uint32_t hi)
{
    struct key k = key_of(r->arch, suffix);
    const struct file_meta *m = file_find_meta(r->f, k.s, strlen(k.s));
    if (r->st != INFER_OK || !m || m->value.type != FILE_ARRAY)
        return get_u32(r, suffix, absent, 1, hi);
    uint32_t each[MODEL_MAX_LAYERS];
    r->st = file_get_u32_each(r->f, k.s, n_layer, each, r->err);
    if (r->st != INFER_OK)
        return 1;
    for (uint32_t i = 0; i < n_layer; i++)
        if (each[i] != each[0])
            bad_value(r, suffix, INFER_ERROR_UNSUPPORTED, "layers that differ are not supported");
    if (each[0] < 1 || each[0] > hi)
        bad_value(r, suffix, INFER_ERROR_VALUE, "value out of range");
    return each[0] ? each[0] : 1;
}

static bool has_key(const struct reader *r, const char *suffix)
{
    struct key k = key_of(r->arch, suffix);
    return file_has(r->f, k.s);
}

/* Heads of multi-head latent attention. Today's files give the sizes of the absorbed form as key_length and value_length and those of a head apart,
 * older ones those of a head alone. */
static void read_latent(struct reader *r, struct hparams *h)
{
    const char *key = has_key(r, "attention.key_length_mla") ? "attention.key_length_mla" : "attention.key_length";
    uint32_t qk = get_u32(r, key, UINT32_MAX, 1, DEV_MAX_HEAD_DIM), rot = get_u32(r, "rope.dimension_count", UINT32_MAX, 2, MODEL_MAX_HEAD_DIM);
    h->v_dim = get_u32(r, has_key(r, "attention.value_length_mla") ? "attention.value_length_mla" : "attention.value_length", UINT32_MAX, 1,
                       DEV_MAX_HEAD_DIM);
    h->kv_lora = get_u32(r, "attention.kv_lora_rank", UINT32_MAX, 1, DEV_MAX_HEAD_DIM);
    h->q_lora = get_u32(r, "attention.q_lora_rank", 0, 0, MODEL_MAX_WIDTH);
    if (r->st == INFER_OK && qk <= rot)
        bad_value(r, key, INFER_ERROR_VALUE, "is not larger than rope.dimension_count");
    if (r->st == INFER_OK && (h->kv_lora + rot > DEV_MAX_HEAD_DIM || (h->kv_lora + rot) % DEV_HEAD_DIM_STEP))
        bad_value(r, "attention.kv_lora_rank", INFER_ERROR_UNSUPPORTED, "with rope.dimension_count it must be at most 1024 and a multiple of 8");
    h->n_head_kv = 1;
    h->head_dim = h->kv_lora + rot;
    h->qk_nope = qk > rot ? qk - rot : 1;
    uint64_t widest = h->v_dim > h->head_dim ? h->v_dim : h->head_dim;
    widest = qk > widest ? qk : widest;
    if (r->st == INFER_OK && h->n_head * widest > MODEL_MAX_WIDTH)
        bad_value(r, "attention.head_count", INFER_ERROR_VALUE, "heads times head size is too large");
}

static void read_sizes(struct reader *r, struct hparams *h)
{
    h->n_layer = get_u32(r, "block_count", UINT32_MAX, 1, MODEL_MAX_LAYERS);
    h->n_embd = get_u32(r, "embedding_length", UINT32_MAX, 1, MODEL_MAX_WIDTH);
    h->n_ctx_train = get_u32(r, "context_length", UINT32_MAX, 1, 1u << 30);
    h->n_head = get_same(r, "attention.head_count", UINT32_MAX, h->n_layer, MODEL_MAX_HEADS);
    h->n_head_kv = get_same(r, "attention.head_count_kv", h->n_head, h->n_layer, MODEL_MAX_HEADS);
    h->n_ff = get_same(r, "feed_forward_length", UINT32_MAX, h->n_layer, MODEL_MAX_WIDTH);
    if (r->st == INFER_OK && h->n_head % h->n_head_kv)
        bad_value(r, "attention.head_count_kv", INFER_ERROR_VALUE, "does not divide the number of heads");
    if (r->arch->mla) {
        read_latent(r, h);
        return;
    }
    uint32_t shared = h->n_embd / h->n_head;
    h->head_dim = get_u32(r, "attention.key_length", shared ? shared : 1, 1, MODEL_MAX_HEAD_DIM);
    uint32_t v_dim = get_u32(r, "attention.value_length", h->head_dim, 1, MODEL_MAX_HEAD_DIM);
    if (r->st == INFER_OK && v_dim != h->head_dim)
        bad_value(r, "attention.value_length", INFER_ERROR_UNSUPPORTED, "differs from attention.key_length");
    if (r->st == INFER_OK && h->head_dim % 8)
        bad_value(r, "attention.key_length", INFER_ERROR_UNSUPPORTED, "the head size must be a multiple of 8");
    if (r->st == INFER_OK && (uint64_t)h->n_head * h->head_dim > MODEL_MAX_WIDTH)
        bad_value(r, "attention.head_count", INFER_ERROR_VALUE, "heads times head size is too large");
}

static void read_router(struct reader *r, struct hparams *h)
{
    struct key k = key_of(r->arch, "expert_weights_norm");
    uint32_t kind = get_u32(r, "expert_gating_func", ROUTER_SOFTMAX, 0, 255);
    h->router = kind ? (enum router)kind : ROUTER_SOFTMAX; /* 0: none given */
    if (r->st == INFER_OK && h->router > ROUTER_SOFTMAX_LAST)
        bad_value(r, "expert_gating_func", INFER_ERROR_UNSUPPORTED, "this kind of router is not supported");
    if (r->st == INFER_OK)
        r->st = file_get_bool_or(r->f, k.s, r->arch->norm_experts, &h->norm_experts, r->err);
    h->expert_scale = get_f32(r, "expert_weights_scale", 1, 0, 1e6f);
    if (h->expert_scale == 0) /* how some converters say that there is none */
        h->expert_scale = 1;
    h->n_expert_groups = get_u32(r, "expert_group_count", 1, 0, h->n_expert);
    h->n_groups_used = get_u32(r, "expert_group_used_count", h->n_expert_groups, 0, h->n_expert_groups);
    if (h->n_expert_groups <= 1)
        h->n_expert_groups = h->n_groups_used = 1;
    if (r->st == INFER_OK && (h->n_expert % h->n_expert_groups || !h->n_groups_used))
        bad_value(r, "expert_group_count", INFER_ERROR_VALUE, "does not divide the number of experts, or no group is used");
    else if (r->st == INFER_OK && h->n_expert_used > h->n_expert / h->n_expert_groups * h->n_groups_used)
        bad_value(r, "expert_group_used_count", INFER_ERROR_VALUE, "the groups used have fewer experts than are used");
}

static bool has_slot(const struct arch *arch, enum slot slot)
{
    for (size_t i = 0; i < arch->n_slots; i++)
        if (arch->slots[i].slot == slot)
            return true;
    return false;
}

static void read_experts(struct reader *r, struct hparams *h)
{
    h->n_expert = get_u32(r, "expert_count", 0, 0, MODEL_MAX_EXPERTS);
    h->n_expert_used = get_u32(r, "expert_used_count", h->n_expert ? UINT32_MAX : 0, 0, MODEL_MAX_USED_EXPERTS);
    if (r->st == INFER_OK && (h->n_expert_used > h->n_expert || (h->n_expert && !h->n_expert_used)))
        bad_value(r, "expert_used_count", INFER_ERROR_VALUE, "must be between 1 and the number of experts");
    if (r->st == INFER_OK && h->n_expert && !has_slot(r->arch, SLOT_ROUTER))
        bad_value(r, "expert_count", INFER_ERROR_UNSUPPORTED, "experts are not supported in this architecture");
    if (r->st != INFER_OK || !h->n_expert)
        return;
    h->n_dense = get_u32(r, "leading_dense_block_count", 0, 0, h->n_layer);
    h->n_ff_exp = get_u32(r, "expert_feed_forward_length", h->n_ff, 1, MODEL_MAX_WIDTH);
    h->n_ff_shared = get_u32(r, "expert_shared_feed_forward_length", 0, 0, MODEL_MAX_WIDTH);
    uint32_t shared = get_u32(r, "expert_shared_count", 0, 0, MODEL_MAX_EXPERTS);
    if (!h->n_ff_shared && (uint64_t)shared * h->n_ff_exp <= MODEL_MAX_WIDTH)
        h->n_ff_shared = shared * h->n_ff_exp;
    read_router(r, h);
}

/* Which layers have a sliding window: the file's pattern (a period, or a flag for each layer), else the architecture's. */
static void read_windows(struct reader *r, struct hparams *h)
{
    struct key k = key_of(r->arch, "attention.sliding_window_pattern");
    const struct file_meta *m = file_find_meta(r->f, k.s, strlen(k.s));
    uint32_t each[MODEL_MAX_LAYERS], period = r->arch->window_pattern;
    bool flags = m && m->value.type == FILE_ARRAY;
    h->window = get_u32(r, "attention.sliding_window", r->arch->default_window, 0, 1u << 30);
    if (r->st == INFER_OK && flags)
        r->st = file_get_u32_each(r->f, k.s, h->n_layer, each, r->err);
    else if (m)
        period = get_u32(r, "attention.sliding_window_pattern", 0, 0, MODEL_MAX_LAYERS);
    if (r->st != INFER_OK)
        return;
    if ((h->encoder ? h->window / 2 : h->window) >= h->n_ctx_train)
        h->window = 0; /* never reached */
    for (uint32_t i = 0; i < h->n_layer; i++)
        h->windowed[i] = h->window && (flags ? each[i] != 0 : period == 0 || (i + 1) % period != 0);
}

static void read_constants(struct reader *r, struct hparams *h)
{
    const char *eps = r->arch->norm == DEV_NORM_RMS ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon";
    struct key k = key_of(r->arch, eps);
    if (r->st == INFER_OK)
        r->st = file_get_f32(r->f, k.s, &h->eps, r->err);
    if (r->st == INFER_OK && !(h->eps >= 0 && h->eps <= 1))
        bad_value(r, eps, INFER_ERROR_VALUE, "value out of range");
    float head = h->kv_lora ? (float)h->qk_nope + (float)(h->head_dim - h->kv_lora) : (float)h->head_dim;
    float width = h->n_layer == r->arch->scale_by_width_layers ? (float)h->n_embd / (float)h->n_head : head;
    h->attn_scale = get_f32(r, "attention.scale", 1.0f / math_sqrt(width), 1e-6f, 1e6f);
    h->attn_softcap = get_f32(r, "attn_logit_softcapping", r->arch->attn_softcap, 0, 1e6f);
    h->final_softcap = get_f32(r, "final_logit_softcapping", r->arch->final_softcap, 0, 1e6f);
    h->logit_scale = get_f32(r, "logit_scale", 1, 1e-6f, 1e6f);
    if (r->arch->divides_logits)
        h->logit_scale = 1.0f / h->logit_scale;
    h->residual_scale = get_f32(r, "residual_scale", 1, 1e-6f, 1e6f);
    h->parallel = r->arch->may_be_parallel && get_bool(r, "use_parallel_residual");
    float embed_scale = r->arch->scale_embeddings ? math_sqrt((float)h->n_embd) : 1.0f;
    h->embed_scale = get_f32(r, "embedding_scale", embed_scale, 1e-6f, 1e6f);
    if (r->st == INFER_OK)
        read_windows(r, h);
}

/* What mscale_all_dim of a config.json says. DeepSeek's: 0.1 times that, and it scales scores. Mistral's: that itself, a divisor of the scale of cos
 * and sin. */
static void read_yarn_multiplier(struct reader *r, struct hparams *h, float mul)
{
    double grown = math_log_d(h->rope_factor);
    if (!r->arch->mla) {
        double divisor = 1 + 0.1 * (double)mul * grown;
        if (!(divisor > 1e-3))
            bad_value(r, "rope.scaling.yarn_log_multiplier", INFER_ERROR_VALUE, "value out of range");
        h->rope_attn_factor /= divisor;
        return;
    }
    double m = 1 + mul * grown;
    h->yarn_log_mul = mul;
    h->attn_scale = (float)(h->attn_scale * m * m);
}

static void read_scaling(struct reader *r, struct hparams *h)
{
    struct file_str type = {0};
    struct key k = key_of(r->arch, "rope.scaling.type");
    if (r->st == INFER_OK)
        r->st = file_get_string_or(r->f, k.s, "", &type, r->err);
    h->rope_factor = get_f32(r, "rope.scaling.factor", 1, 1e-3f, 1e6f);
    if (r->st != INFER_OK)
        return;
#define IS(s) (type.len == sizeof(s) - 1 && !memcmp(type.data, s, sizeof(s) - 1))
    if (IS("yarn"))
        h->rope_scaling = ROPE_SCALING_YARN;
    else if (IS("linear") || (type.len == 0 && h->rope_factor != 1))
        h->rope_scaling = ROPE_SCALING_LINEAR;
    else if (type.len && !IS("none") && !IS("longrope"))
        bad_value(r, "rope.scaling.type", INFER_ERROR_UNSUPPORTED, "this kind of rope scaling is not supported");
    h->rope_two_lists = IS("longrope");
#undef IS
    h->rope_orig_ctx = get_u32(r, "rope.scaling.original_context_length", h->n_ctx_train, 1, 1u << 30);
    h->yarn_ext_factor = get_f32(r, "rope.scaling.yarn_ext_factor", 1, 0, 1e3f);
    h->rope_attn_factor = get_f32(r, "rope.scaling.yarn_attn_factor", 1, 1e-3f, 1e3f);
    h->rope_attn_factor *= get_f32(r, "rope.scaling.attn_factor", 1, 1e-3f, 1e3f);
    h->yarn_beta_fast = get_f32(r, "rope.scaling.yarn_beta_fast", 32, 1e-3f, 1e6f);
    h->yarn_beta_slow = get_f32(r, "rope.scaling.yarn_beta_slow", 1, 1e-3f, 1e6f);
    float mul = get_f32(r, "rope.scaling.yarn_log_multiplier", 0, -1e3f, 1e3f);
    if (h->rope_scaling == ROPE_SCALING_YARN && h->rope_factor > 1)
        read_yarn_multiplier(r, h, mul);
    h->query_growth = get_f32(r, "attention.temperature_scale", 0, 0, 1e3f);
}

static void read_rope(struct reader *r, struct hparams *h)
{
    if (r->arch->positions != POSITIONS_ROPE)
        return;
    h->n_rot = get_u32(r, "rope.dimension_count", h->head_dim, 2, MODEL_MAX_HEAD_DIM);
    if (r->st == INFER_OK && (h->n_rot > h->head_dim || h->n_rot % 2))
        bad_value(r, "rope.dimension_count", INFER_ERROR_VALUE, "must be even and no larger than a head");
    h->rope_base = get_f32(r, "rope.freq_base", 10000.0f, 1.0f, 1e30f);
    float local = r->arch->local_rope_base != 0 ? r->arch->local_rope_base : (float)h->rope_base;
    h->rope_base_local = get_f32(r, "rope.freq_base_swa", local, 1.0f, 1e30f);
    bool halves = false;
    if (r->st == INFER_OK)
        r->st = file_get_bool_or(r->f, "libinfer.rope_halves", false, &halves, r->err);
    h->rope_local_plain = r->arch->local_rope_plain;
    h->rope = halves ? DEV_ROPE_HALVES : r->arch->rope;
    read_scaling(r, h);
}

/* Whether elements see those behind them too, and what becomes of the rows of a text. GGUF counts kinds of pooling from 0, INFER_POOLING_* from 1. */
static void read_embedding(struct reader *r, struct hparams *h)
{
    struct key k = key_of(r->arch, "attention.causal");
    bool causal = !r->arch->encoder;
    if (r->st == INFER_OK)
        r->st = file_get_bool_or(r->f, k.s, causal, &causal, r->err);
    h->encoder = !causal;
    if (r->st == INFER_OK && h->encoder && (h->n_expert || h->kv_lora || (r->arch->may_be_parallel && get_bool(r, "use_parallel_residual"))))
        bad_value(r, "attention.causal", INFER_ERROR_UNSUPPORTED, "encoders with experts, latent attention or parallel layers are not supported");
    uint32_t usual = h->encoder ? INFER_POOLING_MEAN : INFER_POOLING_LAST;
    h->embed_tokens = get_u32(r, "embedding_tokens", h->n_ctx_train, 1, 1u << 30); /* from sentence_bert_config.json; no key of GGUF files */
    h->pooling = (int32_t)get_u32(r, "pooling_type", usual - 1, 0, INFER_POOLING_RANK - 1) + 1;
}

infer_status hparams_read(const struct infer_file *f, const struct arch *arch, struct hparams *h, infer_error *err)
{
    struct reader r = {f, arch, err, INFER_OK};
    *h = (struct hparams){0};
    read_sizes(&r, h);
    read_experts(&r, h);
    read_embedding(&r, h);
    read_constants(&r, h);
    read_rope(&r, h);
    return r.st;
}
