#include "model/net.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/dtype.h"
#include "base/os_memory.h"
#include "kernels/dequant.h"
#include "model/hparams.h"
#include "model/net_bind.h"
#include "model/rope_freqs.h"

infer_status tensor_error(const struct binder *b, infer_status st, const char *name, size_t len, const char *why)
{
    return file_failed(b->file, b->err, err_at(b->err, st, name, len, ERR_NO_OFFSET, "%s", why));
}

static infer_status no_memory(const struct binder *b)
{
    return err_no_memory(b->err);
}

struct shape shape_wanted(const struct hparams *h, enum slot slot)
{
    uint64_t q = (uint64_t)h->n_head * h->head_dim, kv = (uint64_t)h->n_head_kv * h->head_dim;
    uint64_t mla_q = (uint64_t)h->n_head * (h->qk_nope + h->n_rot);
    switch (slot_shape_of(slot)) {
    case SHAPE_EMBD: return (struct shape){1, h->n_embd, true};
    case SHAPE_HEAD: return (struct shape){1, h->head_dim, true};
    case SHAPE_Q: return (struct shape){1, q, true};
    case SHAPE_KV: return (struct shape){1, kv, true};
    case SHAPE_FF: return (struct shape){1, h->n_ff, true};
    case SHAPE_ROT_HALF: return (struct shape){1, h->n_rot / 2, true};
    case SHAPE_VOCAB_EMBD: return (struct shape){h->n_vocab, h->n_embd, false};
    case SHAPE_SOME_EMBD: return (struct shape){1, h->n_embd, false};
    case SHAPE_DENSE_3: return (struct shape){1, 0, false}; /* see bind_tensor */
    case SHAPE_CTX_EMBD: return (struct shape){h->n_ctx_train, h->n_embd, false};
    case SHAPE_EMBD_TO_Q: return (struct shape){q, h->n_embd, false};
    case SHAPE_EMBD_TO_KV: return (struct shape){kv, h->n_embd, false};
    case SHAPE_Q_TO_EMBD: return (struct shape){h->n_embd, q, false};
    case SHAPE_EMBD_TO_FF: return (struct shape){h->n_ff, h->n_embd, false};
    case SHAPE_FF_TO_EMBD: return (struct shape){h->n_embd, h->n_ff, false};
    case SHAPE_EXPERTS: return (struct shape){1, h->n_expert, true};
    case SHAPE_EMBD_TO_EXPERTS: return (struct shape){h->n_expert, h->n_embd, false};
    case SHAPE_EMBD_TO_SHARED: return (struct shape){h->n_ff_shared, h->n_embd, false};
    case SHAPE_SHARED_TO_EMBD: return (struct shape){h->n_embd, h->n_ff_shared, false};
    case SHAPE_EMBD_TO_MLA_Q: return (struct shape){mla_q, h->n_embd, false};
    case SHAPE_EMBD_TO_Q_LORA: return (struct shape){h->q_lora, h->n_embd, false};
    case SHAPE_Q_LORA: return (struct shape){1, h->q_lora, true};
    case SHAPE_Q_LORA_TO_MLA_Q: return (struct shape){mla_q, h->q_lora, false};
    case SHAPE_EMBD_TO_LATENT: return (struct shape){(uint64_t)h->kv_lora + h->n_rot, h->n_embd, false};
    case SHAPE_LATENT: return (struct shape){1, h->kv_lora, true};
    case SHAPE_MLA_TO_EMBD: return (struct shape){h->n_embd, (uint64_t)h->n_head * h->v_dim, false};
    case SHAPE_MLA_K: return (struct shape){h->kv_lora, h->qk_nope, false};
    case SHAPE_MLA_V: return (struct shape){h->v_dim, h->kv_lora, false};
    case SHAPE_MLA_KV: return (struct shape){(uint64_t)h->n_head * (h->qk_nope + h->v_dim), h->kv_lora, false};
    case SHAPE_EMBD_TO_EXP: return (struct shape){h->n_ff_exp, h->n_embd, false};
    case SHAPE_EXP_TO_EMBD: return (struct shape){h->n_embd, h->n_ff_exp, false};
    }
    return (struct shape){0, 0, false};
}

/* The part of a fused tensor that a slot takes, as first row (or element) and total. */
static void fused_part(const struct hparams *h, const struct slot_name *sn, uint64_t *first, uint64_t *total)
{
    uint64_t q = (uint64_t)h->n_head * h->head_dim, kv = (uint64_t)h->n_head_kv * h->head_dim;
    enum slot slot = sn->slot;
    if (sn->flags & SLOT_FUSED_QKV) {
        *total = q + 2 * kv;
        *first = slot == SLOT_Q || slot == SLOT_Q_B ? 0 : slot == SLOT_K || slot == SLOT_K_B ? q : q + kv;
    }
    if (sn->flags & SLOT_FUSED_GATE_UP) {
        *total = 2 * (uint64_t)h->n_ff;
        *first = slot == SLOT_GATE || slot == SLOT_GATE_B ? 0 : h->n_ff;
    }
}

/* What the flags of a head norm's name make of its shape. */
static void shape_heads(const struct hparams *h, const struct slot_name *sn, struct shape *s)
{
    uint32_t heads = sn->slot == SLOT_Q_NORM ? h->n_head : h->n_head_kv;
    if (sn->flags & SLOT_ALL_HEADS)
        s->width = (uint64_t)heads * h->head_dim;
    if (sn->flags & SLOT_EACH_HEAD)
        s->rows = heads;
}

static bool is_float(int32_t type)
{
    return type == INFER_TYPE_F32 || type == INFER_TYPE_F16 || type == INFER_TYPE_BF16;
}

/* A vector, or a row of weights for each head: used in place when it is f32, else converted into own memory. */
static infer_status bind_vector(struct binder *b, const struct file_tensor *t, uint64_t first, struct shape s,
                                struct dev_weight *w)
{
    uint64_t n = s.rows * s.width;
    *w = (struct dev_weight){.type = INFER_TYPE_F32, .n_in = (uint32_t)s.width, .n_out = (uint32_t)s.rows, .row_bytes = s.width * 4};
    if (!is_float(t->type) && t->type != INFER_TYPE_F64)
        return tensor_error(b, INFER_ERROR_SHAPE, t->name.data, t->name.len, "a vector must have a float type");
    if (t->type == INFER_TYPE_F32) {
        w->data = (struct dev_ref){b->net->parts[t->part], t->offset + first * 4};
        return INFER_OK;
    }
    uint64_t elem = dtype_of(t->type)->bytes;
    if (b->own_cap - b->own_n < n)
        return err_set(b->err, INFER_ERROR_INTERNAL, "vectors were counted wrongly");
    if (!b->file->planned)
        dequant_row(t->type, (const uint8_t *)t->data + first * elem, b->own + b->own_n, n);
    w->data = (struct dev_ref){b->net->own, b->own_n * 4};
    b->own_n += (n + 15) & ~(uint64_t)15;
    return INFER_OK;
}

infer_status bind_matrix(struct binder *b, const struct file_tensor *t, uint64_t first, uint64_t rows,
                         struct dev_weight *w)
{
    uint64_t row_bytes;
    if (!dtype_size(t->type, t->dims[0], &row_bytes))
        return tensor_error(b, INFER_ERROR_SHAPE, t->name.data, t->name.len, "rows are not whole blocks");
    if (!cpu_device_can_multiply(t->type))
        return tensor_error(b, INFER_ERROR_UNSUPPORTED, t->name.data, t->name.len,
                            "tensors of this type cannot be multiplied");
    *w = (struct dev_weight){{b->net->parts[t->part], t->offset + first * row_bytes}, t->type, (uint32_t)t->dims[0],
                             (uint32_t)rows, row_bytes};
    return INFER_OK;
}

/* Checks the shape and binds. */
/* A router that is not stored in floats: its products are made in f32 all the same, so it is expanded. */
static infer_status expand_router(struct binder *b, const struct file_tensor *t, struct dev_weight *w)
{
    uint64_t row = t->bytes / t->dims[1];
    if (b->own_cap - b->own_n < t->n)
        return err_set(b->err, INFER_ERROR_INTERNAL, "routers were counted wrongly");
    for (uint64_t i = 0; i < t->dims[1] && !b->file->planned; i++)
        dequant_row(t->type, (const uint8_t *)t->data + i * row, b->own + b->own_n + i * t->dims[0], t->dims[0]);
    *w = (struct dev_weight){{b->net->own, b->own_n * 4}, INFER_TYPE_F32, (uint32_t)t->dims[0], (uint32_t)t->dims[1], t->dims[0] * 4};
    b->own_n += (t->n + 15) & ~(uint64_t)15;
    return INFER_OK;
}

static infer_status bind_tensor(struct binder *b, const struct file_tensor *t, const struct slot_name *sn,
                                struct dev_weight *w)
{
    struct shape want = shape_wanted(&b->net->h, sn->slot);
    shape_heads(&b->net->h, sn, &want);
    bool row = want.vector && want.rows == 1;
    uint64_t first = 0, have_rows = row ? 1 : t->dims[1], total = row ? want.width : want.rows;
    fused_part(&b->net->h, sn, &first, &total);
    enum slot_shape kind = slot_shape_of(sn->slot);
    bool some = kind == SHAPE_SOME_EMBD || kind == SHAPE_DENSE_3;
    if (kind == SHAPE_DENSE_3)
        want.width = b->net->global[SLOT_DENSE_2].n_out;
    if (some)
        want.rows = total = have_rows > 0 && have_rows <= MODEL_MAX_WIDTH ? have_rows : 1;
    bool flat = row ? t->n == t->dims[0] : t->n == t->dims[0] * t->dims[1];
    bool fits = row                        ? t->dims[0] == total
                : kind == SHAPE_VOCAB_EMBD ? t->dims[0] == want.width && have_rows >= total && have_rows <= MODEL_MAX_VOCAB
                                           : t->dims[0] == want.width && have_rows == total;
    if (!flat || !fits) {
        char why[160];
        (void)snprintf(why, sizeof why, "shape is %llu x %llu, the model's sizes call for %llu x %llu",
                       (unsigned long long)t->dims[0], (unsigned long long)(t->dims[0] ? t->n / t->dims[0] : 0),
                       (unsigned long long)(row ? total : want.width),
                       (unsigned long long)(row ? 1 : total));
        return tensor_error(b, INFER_ERROR_SHAPE, t->name.data, t->name.len, why);
    }
    if (want.vector)
        return bind_vector(b, t, first, want, w);
    if (kind == SHAPE_EMBD_TO_EXPERTS && !is_float(t->type))
        return expand_router(b, t, w);
    return bind_matrix(b, t, first, kind == SHAPE_VOCAB_EMBD ? have_rows : want.rows, w);
}

/* A layer has experts or the one feed-forward part. */
static bool slot_applies(const struct hparams *h, enum slot slot, uint32_t layer)
{
    if (slot >= SLOT_GATE && slot <= SLOT_DOWN_B)
        return !hparams_has_experts(h, layer);
    if (slot >= SLOT_SHARED_ROUTER && slot <= SLOT_SHARED_DOWN)
        return hparams_has_experts(h, layer) && h->n_ff_shared;
    if (slot == SLOT_MLA_Q)
        return !h->q_lora;
    if (slot >= SLOT_MLA_Q_DOWN && slot <= SLOT_MLA_Q_UP)
        return h->q_lora != 0;
    return slot < SLOT_ROUTER || slot >= SLOT_MLA_Q || hparams_has_experts(h, layer);
}

static infer_status bind_slot(struct binder *b, const struct slot_name *sn, uint32_t layer, struct dev_weight *w)
{
    char name[NAME_MAX_LEN];
    (void)snprintf(name, sizeof name, sn->name, layer);
    const struct file_tensor *t = file_find_tensor(b->file, name, strlen(name));
    if (w->data.buf)
        return INFER_OK; /* filled under an earlier name */
    if (!slot_applies(&b->net->h, sn->slot, layer))
        return INFER_OK;
    if (sn->slot >= SLOT_ROUTER_BIAS && sn->slot <= SLOT_EXP_DOWN)
        return bind_expert_slot(b, sn, layer);
    if (sn->slot >= SLOT_MLA_K && sn->slot <= SLOT_MLA_KV)
        return bind_mla_slot(b, sn, layer);
    bool optional = (sn->flags & SLOT_OPTIONAL) || ((sn->flags & SLOT_UNLESS_PARALLEL) && b->net->h.parallel);
    if (!t)
        return optional ? INFER_OK
                        : tensor_error(b, INFER_ERROR_MISSING, name, strlen(name), "required tensor is missing");
    return bind_tensor(b, t, sn, w);
}

static infer_status bind_all(struct binder *b)
{
    struct net *net = b->net;
    for (size_t i = 0; i < net->arch->n_slots; i++) {
        const struct slot_name *sn = &net->arch->slots[i];
        bool global = sn->slot < SLOT_GLOBAL_COUNT;
        for (uint32_t l = 0; l < (global ? 1 : net->h.n_layer); l++) {
            struct dev_weight *w = global ? &net->global[sn->slot] : &net->layers[l].w[sn->slot - SLOT_GLOBAL_COUNT];
            infer_status st = bind_slot(b, sn, l, w);
            if (st == INFER_OK && net->dev->ops->stopped(net->dev))
                st = net->dev->ops->sync(net->dev, b->err);
            if (st != INFER_OK)
                return st;
        }
    }
    if (!net->global[SLOT_OUTPUT].data.buf)
        net->global[SLOT_OUTPUT] = net->global[SLOT_TOKEN_EMBD];
    net->h.n_logits = net->global[SLOT_OUTPUT].n_out;
    return INFER_OK;
}

/* Reads digits at *at. */
static uint64_t read_number(const struct file_tensor *t, uint64_t *at)
{
    uint64_t n = 0;
    for (; *at < t->name.len && t->name.data[*at] >= '0' && t->name.data[*at] <= '9' && n < MODEL_MAX_EXPERTS; (*at)++)
        n = n * 10 + (uint64_t)(t->name.data[*at] - '0');
    return n;
}

/* Is the name, from `at` on, what follows the layer's number in a pattern? An expert's number is below `experts`. */
static bool name_fits(const struct file_tensor *t, uint64_t at, const char *pattern, uint32_t experts)
{
    for (; *pattern; pattern++) {
        if (pattern[0] == '%') {
            uint64_t from = at;
            if (read_number(t, &at) >= experts || at == from || (t->name.data[from] == '0' && at > from + 1))
                return false;
            pattern++; /* the u */
        } else if (at >= t->name.len || t->name.data[at++] != *pattern) {
            return false;
        }
    }
    return at == t->name.len;
}

/* A layer tensor that no slot takes would be left out of the computation: a wrong answer without a word. Refuse it. */
static infer_status refuse_unused(const struct binder *b)
{
    const struct hparams *h = &b->net->h;
    for (uint64_t i = 0; i < b->file->n_tensors; i++) {
        const struct file_tensor *t = &b->file->tensors[i];
        uint64_t at = 4;
        bool used = false;
        if (t->name.len < 6 || memcmp(t->name.data, "blk.", 4))
            continue;
        uint64_t layer = read_number(t, &at);
        for (size_t s = 0; s < b->net->arch->n_slots && !used; s++) {
            const struct slot_name *sn = &b->net->arch->slots[s];
            used = !strncmp(sn->name, "blk.%u", 6) && (layer >= h->n_layer || slot_applies(h, sn->slot, (uint32_t)layer))
                   && name_fits(t, at, sn->name + 6, h->n_expert);
        }
        if (!used || layer >= h->n_layer)
            return tensor_error(b, INFER_ERROR_UNSUPPORTED, t->name.data, t->name.len,
                                used ? "layer number beyond the model's layers"
                                     : "this architecture has no use for the tensor");
    }
    return INFER_OK;
}

static bool is_bias_or_norm(const char *name)
{
    size_t n = strlen(name);
    return (n > 5 && !strcmp(name + n - 5, ".bias")) || (n > 12 && !strcmp(name + n - 12, "_norm.weight"));
}

/* A bias or norm that a model may do without is missing in all of its layers, or in none: else one was lost. */
static infer_status refuse_partial(const struct binder *b)
{
    const struct net *net = b->net;
    for (size_t i = 0; i < net->arch->n_slots; i++) {
        const struct slot_name *sn = &net->arch->slots[i];
        uint32_t there = 0, missing = 0, at = 0;
        if (!(sn->flags & SLOT_OPTIONAL) || sn->slot < SLOT_GLOBAL_COUNT || !is_bias_or_norm(sn->name))
            continue;
        for (uint32_t l = 0; l < net->h.n_layer; l++)
            if (net->layers[l].w[sn->slot - SLOT_GLOBAL_COUNT].data.buf)
                there++;
            else if (slot_applies(&net->h, sn->slot, l) && !missing++)
                at = l;
        if (there && missing) {
            char name[NAME_MAX_LEN];
            (void)snprintf(name, sizeof name, sn->name, at);
            return tensor_error(b, INFER_ERROR_MISSING, name, strlen(name), "the tensor is missing, while other layers have theirs");
        }
    }
    return INFER_OK;
}

/* How many ids mean something: the tokenizer's, else what the file says, else all rows. */
static infer_status read_vocab(struct binder *b)
{
    struct file_strings tokens;
    uint64_t n = 0;
    char key[NAME_MAX_LEN];
    const struct file_tensor *t = file_find_tensor(b->file, "token_embd.weight", 17);
    (void)snprintf(key, sizeof key, "%s.vocab_size", b->net->arch->name);
    if (file_has(b->file, "tokenizer.ggml.tokens")) {
        infer_status st = file_get_strings(b->file, "tokenizer.ggml.tokens", &tokens, b->err);
        if (st != INFER_OK)
            return st;
        n = tokens.left;
    } else {
        infer_status st = file_get_u64_or(b->file, key, t ? t->dims[1] : 1, &n, b->err);
        if (st != INFER_OK)
            return st;
    }
    if (n < 1 || n > MODEL_MAX_VOCAB)
        return tensor_error(b, INFER_ERROR_VALUE, "tokenizer.ggml.tokens", 21, "vocabulary size out of range");
    b->net->h.n_vocab = (uint32_t)n;
    return INFER_OK;
}

static infer_status import_parts(struct binder *b)
{
    struct net *net = b->net;
    uint64_t bytes = 0, memory = os_memory_physical();
    net->parts = mem_zarray(&net->env->alloc, b->file->n_parts, sizeof *net->parts);
    if (!net->parts)
        return no_memory(b);
    for (; net->n_parts < b->file->n_parts; net->n_parts++) {
        const struct blob *blob = &b->file->parts[net->n_parts];
        infer_status st = net->dev->ops->import(net->dev, blob->data, blob->size, &net->parts[net->n_parts], b->err);
        if (st != INFER_OK)
            return st;
        bytes += blob->size;
    }
    net->is_large = memory && bytes > memory / 4 * 3;
    return INFER_OK;
}

/* Rows of norm weights, one for each head. */
static bool is_head_norms(const struct file_tensor *t)
{
    static const char end[] = "_norm.weight";
    uint64_t n = sizeof end - 1;
    return t->n_dims == 2 && t->name.len > n && !memcmp(t->name.data + (t->name.len - n), end, (size_t)n);
}

static bool is_router(const struct file_tensor *t)
{
    static const char end[] = ".ffn_gate_inp.weight";
    uint64_t n = sizeof end - 1;
    return t->n_dims == 2 && t->dims[1] <= MODEL_MAX_EXPERTS && t->name.len > n && !memcmp(t->name.data + (t->name.len - n), end, (size_t)n);
}

/* Room for the vectors that are not f32, for routers that are quantised, and for the frequencies. */
static infer_status alloc_own(struct binder *b)
{
    uint64_t n = NET_LAYER_GROUPS * MODEL_MAX_HEAD_DIM;
    for (uint64_t i = 0; i < b->file->n_tensors; i++) {
        const struct file_tensor *t = &b->file->tensors[i];
        if ((t->n_dims == 1 || is_head_norms(t)) && t->type != INFER_TYPE_F32 && t->n <= MODEL_MAX_WIDTH)
            n += t->n + 3 * 16; /* a fused one is bound in three parts */
        else if (is_router(t) && !is_float(t->type) && t->dims[0] <= MODEL_MAX_WIDTH)
            n += t->n + 16;
    }
    b->own_cap = n;
    b->own = n > SIZE_MAX / 4 ? NULL : mem_zarray(&b->net->env->alloc, (size_t)n, 4);
    if (!b->own)
        return no_memory(b);
    b->net->own_bytes += n * 4;
    return b->net->dev->ops->alloc(b->net->dev, n * 4, &b->net->own, b->err);
}

/* The tensor of the frequencies' divisors that is in force; NULL: none. LongRoPE has two, of which the context that the model is made for
 * chooses: were it the session's or the sequence's length, equal elements would have different states. */
static const struct file_tensor *rope_factors(const struct binder *b)
{
    static const struct {
        uint8_t slot;
        const char *name;
    } all[] = {{SLOT_ROPE_LONG, "rope_factors_long.weight"},
               {SLOT_ROPE_SHORT, "rope_factors_short.weight"},
               {SLOT_ROPE_FACTORS, "rope_freqs.weight"}};
    for (size_t i = b->net->h.rope_is_long ? 0 : 1; i < sizeof all / sizeof *all; i++)
        if (b->net->global[all[i].slot].data.buf)
            return file_find_tensor(b->file, all[i].name, strlen(all[i].name));
    return NULL;
}

static infer_status make_rope(struct binder *b)
{
    struct net *net = b->net;
    float factors[MODEL_MAX_HEAD_DIM / 2];
    const struct file_tensor *t = rope_factors(b);
    bool has_short = net->global[SLOT_ROPE_SHORT].data.buf, has_long = net->global[SLOT_ROPE_LONG].data.buf;
    if (has_short != has_long || (net->h.rope_two_lists && !has_long)) {
        const char *name = has_long ? "rope_factors_short.weight" : "rope_factors_long.weight";
        return tensor_error(b, INFER_ERROR_MISSING, name, strlen(name), "LongRoPE has two lists of factors");
    }
    if (b->file->planned)
        t = NULL;
    if (t) {
        dequant_row(t->type, t->data, factors, net->h.n_rot / 2);
        for (uint32_t i = 0; i < net->h.n_rot / 2; i++)
            if (!(factors[i] > 1e-6f && factors[i] < 1e9f))
                return tensor_error(b, INFER_ERROR_VALUE, t->name.data, t->name.len, "a factor is out of range");
    }
    for (uint32_t g = 0; g < NET_LAYER_GROUPS; g++) {
        rope_frequencies(&net->h, t ? factors : NULL, g == 1, b->own + b->own_n, &net->rope_mscale[g]);
        net->inv_freq[g] = (struct dev_ref){net->own, b->own_n * 4};
        b->own_n += MODEL_MAX_HEAD_DIM / 2;
    }
    return INFER_OK;
}

static void number_groups(struct net *net)
{
    for (uint32_t l = 0; l < net->h.n_layer; l++) {
        net->layers[l].group = net->h.windowed[l];
        net->layers[l].group_index = net->group_layers[net->layers[l].group]++;
    }
}

static infer_status net_bind(struct binder *b, uint32_t n_ctx)
{
    struct net *net = b->net;
    infer_status st = hparams_read(b->file, net->arch, &net->h, b->err);
    net->h.rope_is_long = (n_ctx ? n_ctx : net->h.n_ctx_train) > net->h.rope_orig_ctx;
    if (st == INFER_OK)
        st = read_vocab(b);
    if (st != INFER_OK)
        return st;
    net->layers = mem_zarray(&net->env->alloc, net->h.n_layer, sizeof *net->layers);
    if (!net->layers)
        return no_memory(b);
    number_groups(net);
    st = import_parts(b);
    if (st == INFER_OK)
        st = alloc_own(b);
    if (st == INFER_OK)
        st = bind_all(b);
    if (st == INFER_OK)
        st = refuse_unused(b);
    if (st == INFER_OK)
        st = refuse_partial(b);
    if (st == INFER_OK && net->arch->positions == POSITIONS_ROPE)
        st = make_rope(b);
    if (st != INFER_OK)
        return st;
    net->dev->ops->write(net->dev, (struct dev_ref){net->own, 0}, b->own, b->own_cap * 4);
    return net->dev->ops->sync(net->dev, b->err);
}

static bool is_text(struct file_str s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.data, text, s.len) == 0;
}

/* LoRAs name their base's architecture, so they would be refused for the first key that they lack. */
static bool is_adapter(const struct infer_file *file)
{
    struct file_str type;
    return file_get_string_or(file, "general.type", "model", &type, NULL) == INFER_OK && is_text(type, "adapter");
}

infer_status net_open(const struct env *env, struct device *dev, const struct infer_file *file, uint32_t n_ctx,
                      struct net **out, infer_error *err)
{
    struct file_str name;
    infer_status st = file_get_string(file, "general.architecture", &name, err);
    if (st != INFER_OK)
        return st;
    if (is_adapter(file))
        return file_failed(file, err, err_at(err, INFER_ERROR_VALUE, "general.type", 12, ERR_NO_OFFSET, "the file is an adapter: it goes with a model, and is none"));
    const struct arch *arch = arch_find(name.data, (size_t)name.len);
    if (!arch)
        return file_failed(file, err, err_at(err, INFER_ERROR_ARCHITECTURE, name.data, (size_t)name.len, ERR_NO_OFFSET,
                                             is_text(name, "controlvector") ? "the file is a steering vector: it goes with a model, and is none"
                                                                            : "this architecture is not known"));
    struct net *net = mem_zalloc(&env->alloc, sizeof *net);
    if (!net)
        return err_no_memory(err);
    net->env = env;
    net->dev = dev;
    net->arch = arch;
    struct binder b = {.net = net, .file = file, .err = err};
    st = net_bind(&b, n_ctx);
    mem_free(&env->alloc, b.own);
    if (st != INFER_OK) {
        net_close(net);
        return st;
    }
    *out = net;
    return INFER_OK;
}

void net_close(struct net *net)
{
    if (!net)
        return;
    for (uint32_t i = 0; i < net->n_parts; i++)
        net->dev->ops->free(net->dev, net->parts[i]);
    if (net->own)
        net->dev->ops->free(net->dev, net->own);
    for (uint32_t l = 0; net->layers && l < net->h.n_layer; l++) {
        mem_free(&net->env->alloc, net->layers[l].experts);
        if (net->layers[l].latent)
            net->dev->ops->free(net->dev, net->layers[l].latent->own);
        mem_free(&net->env->alloc, net->layers[l].latent);
    }
    mem_free(&net->env->alloc, net->parts);
    mem_free(&net->env->alloc, net->layers);
    mem_free(&net->env->alloc, net);
}
