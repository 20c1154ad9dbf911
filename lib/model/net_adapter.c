#include "model/net_adapter.h"

#include <string.h>

#include "base/checked.h"
#include "base/dtype.h"
#include "kernels/dequant.h"

/* One target while it is bound. */
struct binding {
    const struct net *net;
    const struct infer_adapter *data;
    struct net_adapter *a;
    infer_error *err;
    uint8_t *own;  /* host copy of a->own while it is put together; NULL while sizes are added up */
    uint64_t used; /* bytes of it */
};

static infer_status fail(const struct binding *b, infer_status st, const char *name, const char *why)
{
    return err_at(b->err, st, name, strlen(name), ERR_NO_OFFSET, "%s", why);
}

/* ---- Numbers that are not used in place ---- */

static bool is_float(int32_t type)
{
    return type == INFER_TYPE_F32 || type == INFER_TYPE_F16 || type == INFER_TYPE_BF16;
}

static uint64_t float_bytes(int32_t type)
{
    return type == INFER_TYPE_F32 ? 4 : 2;
}

/* The place of row r of a head of dim rows, when the other order has it where the network does not: of pairs from halves, or back. */
static uint64_t swapped(uint64_t r, uint64_t n_rot, bool to_pairs)
{
    uint64_t half = n_rot / 2;
    if (r >= n_rot)
        return r;
    if (to_pairs) /* row 2i was i, row 2i + 1 was half + i */
        return r / 2 + (r % 2) * half;
    return r < half ? 2 * r : 2 * (r - half) + 1;
}

/* Whether rows of Q and K lie in another order than the network's, and which way they go. */
static bool other_order(const struct binding *b, bool *to_pairs)
{
    enum dev_rope_kind theirs = b->data->order == ADAPTER_ORDER_HF ? DEV_ROPE_HALVES : b->net->arch->rope;
    *to_pairs = b->net->h.rope == DEV_ROPE_PAIRS;
    return b->net->arch->positions == POSITIONS_ROPE && theirs != b->net->h.rope;
}

/* Room in the own buffer; in the first of the two rounds only its size. */
static uint64_t take(struct binding *b, uint64_t bytes)
{
    uint64_t at = b->used;
    b->used += (bytes + 63) / 64 * 64;
    return at;
}

/* A matrix of another type as f32, and with rows of heads in the other order when swap says so. */
static void copy_rows(const struct binding *b, const struct adapter_matrix *m, uint64_t at, bool swap, bool to_pairs)
{
    uint64_t dim = b->net->h.head_dim, row = m->bytes / m->n_rows, elem = is_float(m->type) ? float_bytes(m->type) : 4;
    for (uint64_t r = 0; r < m->n_rows; r++) {
        uint64_t from = swap ? r / dim * dim + swapped(r % dim, b->net->h.n_rot, to_pairs) : r;
        const uint8_t *src = (const uint8_t *)m->data + from * row;
        uint8_t *dst = b->own + at + r * m->n_cols * elem;
        if (is_float(m->type))
            memcpy(dst, src, (size_t)row);
        else
            dequant_row(m->type, src, (float *)(void *)dst, m->n_cols);
    }
}

/* A matrix as the device's: in place, or copied. */
static infer_status bring(struct binding *b, const struct adapter_matrix *m, bool swap, struct dev_weight *w)
{
    bool to_pairs, copy = !is_float(m->type) || (uintptr_t)m->data % float_bytes(m->type);
    swap = other_order(b, &to_pairs) && swap;
    *w = (struct dev_weight){.type = is_float(m->type) ? m->type : INFER_TYPE_F32, .n_in = (uint32_t)m->n_cols, .n_out = (uint32_t)m->n_rows};
    w->row_bytes = m->n_cols * float_bytes(w->type);
    if (swap || copy) {
        w->data = (struct dev_ref){b->a->own, take(b, m->n_rows * w->row_bytes)};
        if (b->own)
            copy_rows(b, m, w->data.off, swap, to_pairs);
        return INFER_OK;
    }
    if (!b->own)
        return INFER_OK;
    infer_status st = b->a->dev->ops->import(b->a->dev, m->data, m->bytes, &w->data.buf, b->err);
    if (st == INFER_OK)
        b->a->parts[b->a->n_parts++] = w->data.buf;
    return st;
}

/* ---- LoRA ---- */

#define MAX_FUSED 4u

/* The weights that a tensor's name stands for: one, or several whose rows follow one another. */
struct found {
    enum slot slots[MAX_FUSED];
    struct dev_weight w[MAX_FUSED];
    uint32_t n;
};

/* Whether pass_multiply makes the product with this weight. */
static bool is_product(enum slot slot)
{
    switch (slot) {
    case SLOT_Q:
    case SLOT_K:
    case SLOT_V:
    case SLOT_ATTN_OUT:
    case SLOT_GATE:
    case SLOT_UP:
    case SLOT_DOWN:
    case SLOT_MLA_Q:
    case SLOT_MLA_Q_DOWN:
    case SLOT_MLA_Q_UP:
    case SLOT_MLA_KV_DOWN:
    case SLOT_MLA_OUT:
    case SLOT_ROUTER:
    case SLOT_SHARED_ROUTER:
    case SLOT_SHARED_GATE:
    case SLOT_SHARED_UP:
    case SLOT_SHARED_DOWN: return true;
    default: return false;
    }
}

/* The rest of a layer tensor's name behind "blk.N". */
static const char *layer_rest(const char *name)
{
    name += strncmp(name, "blk.", 4) ? 0 : 4;
    while (*name >= '0' && *name <= '9')
        name++;
    return name;
}

static void find_slots(const struct net *net, const struct adapter_target *t, struct found *f)
{
    f->n = 0;
    if (t->layer == ADAPTER_NO_LAYER) {
        if (!strcmp(t->name, "output.weight"))
            *f = (struct found){{SLOT_OUTPUT}, {net->global[SLOT_OUTPUT]}, 1};
        return;
    }
    for (enum slot s = SLOT_GLOBAL_COUNT; s < SLOT_COUNT; s = (enum slot)(s + 1)) /* in the order of their rows in a fused tensor */
        for (size_t i = 0; i < net->arch->n_slots && f->n < MAX_FUSED; i++) {
            const struct slot_name *sn = &net->arch->slots[i];
            const struct dev_weight *w = net_layer(net, t->layer, s);
            if (sn->slot != s || !is_product(s) || strncmp(sn->name, "blk.%u", 6) || strcmp(sn->name + 6, layer_rest(t->name)) || !w->data.buf)
                continue;
            f->slots[f->n] = s;
            f->w[f->n++] = *w;
        }
}

/* A fused tensor's parts lie in it one after the other; their order is that of the file. */
static void sort_parts(struct found *f)
{
    for (uint32_t i = 1; i < f->n; i++)
        if (f->w[i].data.buf != f->w[0].data.buf)
            return;
    for (uint32_t i = 1; i < f->n; i++)
        for (uint32_t k = i; k && f->w[k].data.off < f->w[k - 1].data.off; k--) {
            struct dev_weight w = f->w[k];
            enum slot s = f->slots[k];
            f->w[k] = f->w[k - 1];
            f->slots[k] = f->slots[k - 1];
            f->w[k - 1] = w;
            f->slots[k - 1] = s;
        }
}

static infer_status check_target(const struct binding *b, const struct adapter_target *t, const struct found *f)
{
    uint64_t rows = 0;
    if (!f->n)
        return fail(b, INFER_ERROR_MISSING, t->stored,
                    "the base model has no matrix for this adapter, or not one that adapters are applied to");
    for (uint32_t i = 0; i < f->n; i++)
        rows += f->w[i].n_out;
    if (t->a.n_cols != f->w[0].n_in || t->b.n_rows != rows || t->a.n_rows != t->rank || t->b.n_cols != t->rank)
        return err_at(b->err, INFER_ERROR_SHAPE, t->stored, strlen(t->stored), ERR_NO_OFFSET,
                      "the adapter is for %llu inputs and %llu outputs, the base's matrix has %u and %llu", (unsigned long long)t->a.n_cols,
                      (unsigned long long)t->b.n_rows, f->w[0].n_in, (unsigned long long)rows);
    return INFER_OK;
}

static uint32_t *place_of(const struct net *net, const struct net_adapter *a, uint32_t layer, enum slot slot)
{
    uint32_t outputs = net->h.n_layer * SLOT_LAYER_COUNT;
    return &a->at[slot == SLOT_OUTPUT ? outputs : layer * SLOT_LAYER_COUNT + (uint32_t)slot - SLOT_GLOBAL_COUNT];
}

/* The device is asked between matrices whether somebody wants this to end: its sync then says so. */
static bool goes_on(const struct binding *b)
{
    return !b->a->dev->ops->stopped(b->a->dev);
}

/* The part of B with the rows of one slot. */
static infer_status bind_part(struct binding *b, const struct adapter_target *t, enum slot slot, uint64_t first, uint64_t rows, struct net_lora *l)
{
    struct adapter_matrix m = t->b;
    uint64_t row = m.bytes / m.n_rows;
    m.data = (const uint8_t *)m.data + first * row;
    m.n_rows = rows;
    m.bytes = rows * row;
    return bring(b, &m, slot == SLOT_Q || slot == SLOT_K, &l->b);
}

static infer_status bind_target(struct binding *b, const struct adapter_target *t)
{
    struct found f;
    struct net_lora l = {.scale = t->scale};
    if (t->layer != ADAPTER_NO_LAYER && t->layer >= b->net->h.n_layer)
        return fail(b, INFER_ERROR_VALUE, t->stored, "the base model has no such layer");
    find_slots(b->net, t, &f);
    sort_parts(&f);
    infer_status st = check_target(b, t, &f);
    if (st == INFER_OK)
        st = bring(b, &t->a, false, &l.a);
    l.shares_a = f.n > 1;
    for (uint64_t i = 0, first = 0; i < f.n && st == INFER_OK; first += f.w[i++].n_out) {
        st = bind_part(b, t, f.slots[i], first, f.w[i].n_out, &l);
        if (st != INFER_OK || !b->own)
            continue;
        uint32_t *place = place_of(b->net, b->a, t->layer, f.slots[i]);
        if (*place)
            return fail(b, INFER_ERROR_UNSUPPORTED, t->stored, "a second adapter for the same matrix");
        b->a->loras[b->a->n_loras++] = l;
        *place = b->a->n_loras;
        b->a->max_rank = t->rank > b->a->max_rank ? t->rank : b->a->max_rank;
    }
    return st;
}

static infer_status bind_loras(struct binding *b)
{
    infer_status st = INFER_OK;
    for (uint64_t i = 0; i < b->data->n_targets && st == INFER_OK; i++)
        st = goes_on(b) ? bind_target(b, &b->data->targets[i]) : b->a->dev->ops->sync(b->a->dev, b->err);
    return st;
}

/* ---- Vectors ---- */

static void read_floats(const struct adapter_matrix *m, uint64_t row, float *dst)
{
    dequant_row(m->type, (const uint8_t *)m->data + row * (m->bytes / m->n_rows), dst, m->n_cols);
}

/* v / |v|; false: the length is 0, or too large for a float. */
static bool make_unit(float *dst, const float *v, uint32_t n)
{
    double sum = 0, root = 1;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)v[i] * (double)v[i];
    if (!(sum > 1e-60 && sum < 1e60))
        return false;
    root = sum > 1 ? sum : 1;
    for (int i = 0; i < 200; i++) /* Newton from above: exact to the last bits, and the same everywhere */
        root = 0.5 * (root + sum / root);
    for (uint32_t i = 0; i < n; i++)
        dst[i] = (float)((double)v[i] / root);
    return true;
}

static infer_status bind_direction(struct binding *b, const struct adapter_direction *d)
{
    uint32_t width = b->net->h.n_embd;
    if (d->layer >= b->net->h.n_layer)
        return fail(b, INFER_ERROR_VALUE, d->stored, "the base model has no such layer");
    if (d->v.n_cols != width || d->v.n_rows != 1)
        return fail(b, INFER_ERROR_SHAPE, d->stored, "the direction's width is not the base model's");
    uint64_t at = take(b, 2 * (uint64_t)width * 4);
    if (!b->own)
        return INFER_OK;
    float *v = (float *)(void *)(b->own + at);
    read_floats(&d->v, 0, v);
    if (!make_unit(v + width, v, width))
        return fail(b, INFER_ERROR_VALUE, d->stored, "the direction has no length, or an impossible one");
    b->a->directions[2 * d->layer] = (struct dev_ref){b->a->own, at};
    b->a->directions[2 * d->layer + 1] = (struct dev_ref){b->a->own, at + (uint64_t)width * 4};
    return INFER_OK;
}

static infer_status bind_directions(struct binding *b)
{
    infer_status st = INFER_OK;
    for (uint32_t i = 0; i < b->data->n_directions && st == INFER_OK; i++)
        st = goes_on(b) ? bind_direction(b, &b->data->directions[i]) : b->a->dev->ops->sync(b->a->dev, b->err);
    return st;
}

/* ---- Soft prompts and prefixes ---- */

static infer_status check_rows(const struct binding *b)
{
    const struct infer_adapter *d = b->data;
    const struct hparams *h = &b->net->h;
    if (d->kind == ADAPTER_SOFT_PROMPT && d->width != h->n_embd)
        return fail(b, INFER_ERROR_SHAPE, "rows", "the soft prompt's width is not the base model's");
    if (d->kind == ADAPTER_PREFIX && h->kv_lora)
        return fail(b, INFER_ERROR_UNSUPPORTED, "rows", "the base model keeps latents, not the keys and values of a prefix");
    if (d->kind == ADAPTER_PREFIX && (d->n_layers != h->n_layer || d->n_kv != h->n_head_kv * h->head_dim || d->n_head_kv != h->n_head_kv))
        return fail(b, INFER_ERROR_SHAPE, "rows", "the prefix is for another number of layers or other heads");
    return INFER_OK;
}

/* One row's keys of all heads, in the order of the network's rope. */
static void put_keys(const struct binding *b, float *dst, const float *src)
{
    const struct hparams *h = &b->net->h;
    bool to_pairs, swap = other_order(b, &to_pairs);
    for (uint64_t i = 0; i < (uint64_t)h->n_head_kv * h->head_dim; i++) {
        uint64_t dim = h->head_dim;
        dst[i] = src[swap ? i / dim * dim + swapped(i % dim, h->n_rot, to_pairs) : i];
    }
}

static infer_status bind_prefix(struct binding *b)
{
    const struct infer_adapter *d = b->data;
    uint64_t width = d->n_kv, n = d->rows.n_rows, layers = d->n_layers;
    uint64_t at = take(b, layers * 2 * n * width * 4);
    b->a->n_rows = (uint32_t)n;
    b->a->rows = (struct dev_ref){b->a->own, at};
    if (!b->own)
        return INFER_OK;
    float *row = mem_array(&b->a->env->alloc, (size_t)(layers * 2 * width), sizeof *row), *out = (float *)(void *)(b->own + at);
    if (!row)
        return err_no_memory(b->err);
    for (uint64_t r = 0; r < n && goes_on(b); r++) {
        read_floats(&d->rows, r, row);
        for (uint64_t l = 0; l < layers; l++) {
            put_keys(b, out + ((2 * l) * n + r) * width, row + 2 * l * width);
            memcpy(out + ((2 * l + 1) * n + r) * width, row + (2 * l + 1) * width, (size_t)width * sizeof *row);
        }
    }
    mem_free(&b->a->env->alloc, row);
    return INFER_OK;
}

/* ---- The whole ---- */

static infer_status bind_kind(struct binding *b)
{
    switch (b->data->kind) {
    case ADAPTER_LORA: return bind_loras(b);
    case ADAPTER_STEERING: return bind_directions(b);
    case ADAPTER_PREFIX: return bind_prefix(b);
    default: return INFER_OK;
    }
}

static infer_status make_lists(struct binding *b)
{
    struct net_adapter *a = b->a;
    const struct alloc *al = &a->env->alloc;
    uint64_t n = b->data->n_targets, layers = b->net->h.n_layer;
    if (b->data->kind == ADAPTER_LORA) {
        a->parts = mem_zarray(al, (size_t)(n * (1 + MAX_FUSED)), sizeof(void *));
        a->loras = mem_zarray(al, (size_t)(n * MAX_FUSED), sizeof *a->loras);
        a->at = mem_zarray(al, (size_t)(layers * SLOT_LAYER_COUNT + 1), sizeof *a->at);
        return a->parts && a->loras && a->at ? INFER_OK : err_no_memory(b->err);
    }
    if (b->data->kind == ADAPTER_STEERING)
        a->directions = mem_zarray(al, (size_t)layers * 2, sizeof *a->directions);
    return a->directions || b->data->kind != ADAPTER_STEERING ? INFER_OK : err_no_memory(b->err);
}

static infer_status check_base(const struct binding *b)
{
    const char *arch = b->data->arch;
    if (*arch && strcmp(arch, b->net->arch->name))
        return err_at(b->err, INFER_ERROR_VALUE, "general.architecture", 20, ERR_NO_OFFSET,
                      "the adapter is for a base of architecture %s, the model's is %s", arch, b->net->arch->name);
    return check_rows(b);
}

static infer_status bind(struct binding *b)
{
    struct net_adapter *a = b->a;
    infer_status st = check_base(b);
    if (st == INFER_OK)
        st = make_lists(b);
    if (st == INFER_OK)
        st = bind_kind(b); /* sizes */
    if (st != INFER_OK)
        return st;
    a->bytes = b->used;
    b->own = b->used >= SIZE_MAX - 64 ? NULL : mem_alloc_aligned(&a->env->alloc, (size_t)b->used + 64, 64);
    if (!b->own)
        return err_no_memory(b->err);
    st = a->dev->ops->alloc(a->dev, b->used + 64, &a->own, b->err);
    b->used = 0;
    if (st == INFER_OK)
        st = bind_kind(b);
    if (st == INFER_OK) {
        a->dev->ops->write(a->dev, (struct dev_ref){a->own, 0}, b->own, b->used);
        st = a->dev->ops->sync(a->dev, b->err);
    }
    mem_free(&a->env->alloc, b->own);
    return st;
}

infer_status net_adapter_bind(const struct net *net, const struct infer_adapter *data, struct net_adapter **out, infer_error *err)
{
    struct net_adapter *a = mem_zalloc(&net->env->alloc, sizeof *a);
    if (!a)
        return err_no_memory(err);
    a->env = net->env;
    a->dev = net->dev;
    a->kind = data->kind;
    struct binding b = {.net = net, .data = data, .a = a, .err = err};
    infer_status st = bind(&b);
    if (st != INFER_OK) {
        net_adapter_free(a);
        return st;
    }
    *out = a;
    return INFER_OK;
}

void net_adapter_free(struct net_adapter *a)
{
    if (!a)
        return;
    const struct alloc *al = &a->env->alloc;
    for (uint64_t i = 0; i < a->n_parts; i++)
        a->dev->ops->free(a->dev, a->parts[i]);
    a->dev->ops->free(a->dev, a->own);
    mem_free(al, a->parts);
    mem_free(al, a->loras);
    mem_free(al, a->at);
    mem_free(al, a->directions);
    mem_free(al, a);
}

const struct net_lora *net_adapter_lora(const struct net *net, const struct net_adapter_use *u, uint32_t layer, enum slot slot)
{
    uint32_t in = layer < net->h.n_layer ? layer : net->h.n_layer - 1;
    if (u->adapter->kind != ADAPTER_LORA || in < u->first_layer || in >= u->end_layer)
        return NULL;
    uint32_t n = *place_of(net, u->adapter, layer, slot);
    return n ? &u->adapter->loras[n - 1] : NULL;
}

struct dev_ref net_adapter_direction(const struct net_adapter_use *u, uint32_t layer)
{
    if (u->adapter->kind != ADAPTER_STEERING || layer < u->first_layer || layer >= u->end_layer)
        return (struct dev_ref){0};
    return u->adapter->directions[2 * layer + (u->mode == NET_STEER_PROJECT)];
}
