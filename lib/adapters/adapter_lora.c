/* LoRA: pairs of tensors, told by their names, become a sorted list of targets. */
#include <string.h>

#include "adapters/adapter_read.h"
#include "base/checked.h"
#include "base/dtype.h"
#include "base/sort.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

infer_status adapter_matrix_of(struct adapter_reader *r, const struct file_tensor *t, uint64_t first, uint64_t n_rows, bool any,
                               struct adapter_matrix *out)
{
    const struct dtype *d = dtype_of(t->type);
    bool plain = t->type == INFER_TYPE_F32 || t->type == INFER_TYPE_F16 || t->type == INFER_TYPE_BF16;
    uint64_t row_bytes = 0, at = 0, bytes = 0;
    if (!plain && !(any && d->block > 1))
        return err_at(r->err, INFER_ERROR_UNSUPPORTED, t->name.data, (size_t)t->name.len, ERR_NO_OFFSET,
                      "an adapter's tensor of type %s", d->name);
    if (!dtype_size(t->type, t->dims[0], &row_bytes) || !checked_mul(row_bytes, first, &at) ||
        !checked_mul(row_bytes, n_rows, &bytes) || at > t->bytes || bytes > t->bytes - at)
        return err_set(r->err, INFER_ERROR_INTERNAL, "rows past the end of a tensor");
    *out = (struct adapter_matrix){.data = (const uint8_t *)t->data + at, .n_rows = n_rows, .n_cols = t->dims[0],
                                   .bytes = bytes, .type = t->type};
    return INFER_OK;
}

/* ---- The list ---- */

enum half { HALF_A, HALF_B };

struct lora_list {
    struct adapter_reader *r;
    struct adapter_target *targets; /* rank 0 and data NULL: that half has not come yet */
    uint64_t n, max;
    struct map map; /* name -> index */
};

static infer_status tensor_failed(struct adapter_reader *r, const struct file_tensor *t, infer_status st, const char *what)
{
    return err_at(r->err, st, t->name.data, (size_t)t->name.len, ERR_NO_OFFSET, "%s", what);
}

static infer_status list_begin(struct lora_list *l, struct adapter_reader *r)
{
    const struct infer_file *f = r->a->file;
    uint64_t max = 0;
    *l = (struct lora_list){.r = r};
    map_init(&l->map, &r->a->env->alloc);
    for (uint64_t i = 0; i < f->n_tensors; i++) /* a stack of experts gives one target each */
        if (f->tensors[i].dims[2] > ADAPTER_MAX_TARGETS || !checked_add(max, f->tensors[i].dims[2], &max))
            max = UINT64_MAX;
    if (max > 2 * ADAPTER_MAX_TARGETS)
        return err_set(r->err, INFER_ERROR_LIMIT, "more than %llu targets", (unsigned long long)ADAPTER_MAX_TARGETS);
    l->max = max;
    l->targets = arena_zarray(&r->temp, (size_t)max, sizeof *l->targets);
    return l->targets && map_reserve(&l->map, (size_t)max) ? INFER_OK : err_no_memory(r->err);
}

/* The target of this name, made if it is new. */
static infer_status list_target(struct lora_list *l, const char *name, uint32_t layer, struct adapter_target **out)
{
    struct arena *ar = &l->r->a->arena;
    size_t len = strlen(name);
    const uint32_t *known = map_find(&l->map, name, len);
    if (known) {
        *out = &l->targets[*known];
        return INFER_OK;
    }
    char *copy = arena_strdup(ar, name, len);
    if (!copy || map_add(&l->map, copy, len, (uint32_t)l->n) < 0)
        return err_no_memory(l->r->err);
    *out = &l->targets[l->n++];
    **out = (struct adapter_target){.name = copy, .layer = layer};
    return INFER_OK;
}

/* One half, rows [first, first + n_rows) of t, of the target of this name. */
static infer_status list_add(struct lora_list *l, const char *name, uint32_t layer, enum half half, const struct file_tensor *t,
                             uint64_t first, uint64_t n_rows, bool any)
{
    struct adapter_target *target = NULL;
    if (layer != ADAPTER_NO_LAYER && layer >= ADAPTER_MAX_LAYERS)
        return tensor_failed(l->r, t, INFER_ERROR_VALUE, "the layer's number is out of range");
    infer_status st = list_target(l, name, layer, &target);
    if (st != INFER_OK)
        return st;
    struct adapter_matrix *m = half == HALF_A ? &target->a : &target->b;
    if (m->data)
        return tensor_failed(l->r, t, INFER_ERROR_FORMAT, "two tensors for this half of one target");
    if (half == HALF_A || !target->stored)
        target->stored = arena_strdup(&l->r->a->arena, t->name.data, (size_t)t->name.len);
    return target->stored ? adapter_matrix_of(l->r, t, first, n_rows, any, m) : err_no_memory(l->r->err);
}

static bool named_after(const void *one, const void *other)
{
    const struct adapter_target *a = one, *b = other;
    return strcmp(a->name, b->name) > 0;
}

/* The targets in the order of their names, as the adapter keeps them. */
static infer_status sort_targets(struct lora_list *l)
{
    struct arena *ar = &l->r->a->arena;
    const void **sorted = arena_zarray(&l->r->temp, (size_t)l->n, sizeof *sorted);
    struct adapter_target *list = arena_zarray(ar, (size_t)l->n, sizeof *list);
    if (!sorted || !list)
        return err_no_memory(l->r->err);
    for (size_t i = 0; i < l->n; i++)
        sorted[i] = &l->targets[i];
    sort_pointers(sorted, (size_t)l->n, named_after);
    for (size_t i = 0; i < l->n; i++)
        list[i] = *(const struct adapter_target *)sorted[i];
    l->r->a->targets = l->targets = list;
    l->r->a->n_targets = l->n;
    return INFER_OK;
}

static infer_status check_target(struct adapter_reader *r, struct adapter_target *t)
{
    if (!t->a.data || !t->b.data)
        return ADAPTER_FAIL(r, INFER_ERROR_FORMAT, t->stored, "half of a pair: there is no %s for it", t->a.data ? "B" : "A");
    if (!t->a.bytes || !t->b.bytes)
        return ADAPTER_FAIL(r, INFER_ERROR_VALUE, t->stored, "the target is of rank 0 or empty");
    if (t->a.n_rows > ADAPTER_MAX_RANK)
        return ADAPTER_FAIL(r, INFER_ERROR_LIMIT, t->stored, "rank %llu (at most %lu)", (unsigned long long)t->a.n_rows,
                            (unsigned long)ADAPTER_MAX_RANK);
    if (t->a.n_rows != t->b.n_cols)
        return ADAPTER_FAIL(r, INFER_ERROR_SHAPE, t->stored, "A has %llu rows, but the rows of B have %llu numbers",
                            (unsigned long long)t->a.n_rows, (unsigned long long)t->b.n_cols);
    t->rank = (uint32_t)t->a.n_rows;
    return INFER_OK;
}

/* Checks the pairs and gives the list to the adapter. The scales come after it. */
static infer_status list_end(struct lora_list *l)
{
    struct infer_adapter *a = l->r->a;
    infer_status st = INFER_OK;
    for (uint64_t i = 0; i < l->n && st == INFER_OK; i++) {
        st = check_target(l->r, &l->targets[i]);
        a->max_rank = l->targets[i].rank > a->max_rank ? l->targets[i].rank : a->max_rank;
    }
    if (st != INFER_OK)
        return st;
    a->kind = ADAPTER_LORA;
    return sort_targets(l);
}

/* ---- PEFT: "base_model.model.MODULE.lora_A.weight" [rank][in], lora_B [out][rank] ---- */

/* Parts of names of what is no plain LoRA. */
static const struct {
    const char *part, *what;
} others[] = {
    {"lora_magnitude_vector", "a part of a DoRA, which is not supported"},
    {"lora_embedding_", "a LoRA of an embedding matrix is not supported"},
    {".bias", "a LoRA with biases is not supported"},
    {"lora_E", "a part of an AdaLoRA, which is not supported"},
    {"hada_", "a part of a LoHa, which is not supported"},
    {"lokr_", "a part of a LoKr, which is not supported"},
    {"vera_", "a part of a VeRA, which is not supported"},
    {"ia3_", "a part of an IA3, which is not supported"},
    {"oft_", "a part of an OFT, which is not supported"},
    {"modules_to_save", "a whole module trained beside the adapter (modules_to_save) is not supported"},
};

static const char *find(const char *s, size_t len, const char *what)
{
    size_t n = strlen(what);
    for (size_t i = 0; i + n <= len; i++)
        if (!memcmp(s + i, what, n))
            return s + i;
    return NULL;
}

static infer_status refuse_tensor(struct adapter_reader *r, const struct file_tensor *t)
{
    for (size_t i = 0; i < COUNT(others); i++)
        if (find(t->name.data, (size_t)t->name.len, others[i].part))
            return tensor_failed(r, t, INFER_ERROR_UNSUPPORTED, others[i].what);
    return tensor_failed(r, t, INFER_ERROR_UNSUPPORTED, "no part of a LoRA: neither lora_A.weight nor lora_B.weight of a module");
}

/* The module in a tensor's name, and which half it is. False: the name is another one. */
static bool parse_peft_name(const struct file_tensor *t, struct file_str *module, enum half *half)
{
    static const char *const ends[] = {".lora_A.weight", ".lora_B.weight", ".lora_A.default.weight", ".lora_B.default.weight"};
    static const char root[] = "base_model.model.";
    const char *s = t->name.data;
    size_t len = (size_t)t->name.len, skip = sizeof root - 1;
    if (len > skip && !memcmp(s, root, skip)) {
        s += skip;
        len -= skip;
    }
    for (size_t i = 0; i < COUNT(ends); i++) {
        size_t n = strlen(ends[i]);
        if (len > n && !memcmp(s + len - n, ends[i], n)) {
            *module = (struct file_str){s, len - n};
            *half = i % 2 ? HALF_B : HALF_A;
            return true;
        }
    }
    return false;
}

static infer_status add_peft(struct lora_list *l, const struct file_tensor *t)
{
    char name[ADAPTER_NAME_MAX];
    struct file_str module;
    enum half half;
    uint32_t layer;
    if (!parse_peft_name(t, &module, &half))
        return refuse_tensor(l->r, t);
    if (!adapter_hf_name(module.data, (size_t)module.len, name, &layer))
        return tensor_failed(l->r, t, INFER_ERROR_UNSUPPORTED, "an adapter of a module that no known matrix stands for");
    if (t->n_dims != 2)
        return tensor_failed(l->r, t, INFER_ERROR_SHAPE, "a half of a LoRA must have 2 dimensions");
    return list_add(l, name, layer, half, t, 0, t->dims[1], false);
}

/* The square root of a rank, to nearly a double's precision: what is rounded to f32 after it. */
static double root_of(uint32_t rank)
{
    double x = rank, y = x > 1 ? x / 2 : x;
    for (int i = 0; i < 20; i++)
        y = 0.5 * (y + x / y);
    return y;
}

static infer_status set_scale(struct adapter_reader *r, struct adapter_target *t, double scale)
{
    t->scale = (float)scale;
    if (t->scale - t->scale != 0) /* infinite */
        return ADAPTER_FAIL(r, INFER_ERROR_VALUE, t->stored, "the scale is out of range");
    return INFER_OK;
}

static infer_status scale_peft(struct adapter_reader *r, struct adapter_target *t)
{
    struct file_tensor named = {.name = {t->stored, strlen(t->stored)}};
    struct file_str module;
    enum half half;
    uint32_t rank;
    double alpha;
    (void)parse_peft_name(&named, &module, &half); /* it did before */
    char *copy = arena_strdup(&r->temp, module.data, (size_t)module.len);
    if (!copy)
        return err_no_memory(r->err);
    infer_status st = peft_config_of(r, copy, &rank, &alpha);
    if (st != INFER_OK)
        return st;
    if (rank != t->rank)
        return ADAPTER_FAIL(r, INFER_ERROR_SHAPE, t->stored, "the tensor is of rank %lu, its configuration says %lu",
                            (unsigned long)t->rank, (unsigned long)rank);
    return set_scale(r, t, alpha / (r->config.rslora ? root_of(rank) : (double)rank));
}

infer_status adapter_read_peft_lora(struct adapter_reader *r)
{
    struct lora_list l;
    infer_status st = list_begin(&l, r);
    for (uint64_t i = 0; i < r->a->file->n_tensors && st == INFER_OK; i++)
        st = cancel_is_set(r->cancel) ? err_set(r->err, INFER_ERROR_CANCELLED, "cancelled while reading the adapter")
                                      : add_peft(&l, &r->a->file->tensors[i]);
    if (st == INFER_OK)
        st = list_end(&l);
    for (uint64_t i = 0; i < l.n && st == INFER_OK; i++)
        st = scale_peft(r, &l.targets[i]);
    map_free(&l.map);
    r->a->order = ADAPTER_ORDER_HF;
    return st;
}

/* ---- GGUF: "TENSOR.lora_a", "TENSOR.lora_b", as llama.cpp's convert_lora_to_gguf.py writes them ---- */

static infer_status copy_string(struct adapter_reader *r, const char *key, const char **out)
{
    struct file_str s;
    infer_status st = file_get_string_or(r->a->file, key, "", &s, r->err);
    if (st != INFER_OK)
        return st;
    char *copy = arena_strdup(&r->a->arena, s.data, (size_t)s.len);
    if (!copy)
        return err_no_memory(r->err);
    *out = copy;
    return INFER_OK;
}

static infer_status check_gguf(struct adapter_reader *r)
{
    struct infer_adapter *a = r->a;
    struct file_str type, general;
    infer_status st = file_get_string_or(a->file, "general.type", "adapter", &general, r->err);
    if (st == INFER_OK)
        st = file_get_string(a->file, "adapter.type", &type, r->err);
    if (st != INFER_OK)
        return st;
    if (general.len != 7 || memcmp(general.data, "adapter", 7))
        return ADAPTER_FAIL(r, INFER_ERROR_VALUE, "general.type", "the file does not call itself an adapter");
    if (type.len != 4 || memcmp(type.data, "lora", 4))
        return ADAPTER_FAIL(r, INFER_ERROR_UNSUPPORTED, "adapter.type", "adapters of the type '%.*s' are not supported",
                            type.len < 40 ? (int)type.len : 40, type.data);
    st = copy_string(r, "general.architecture", &a->arch);
    return st == INFER_OK ? copy_string(r, "general.base_model.0.name", &a->base) : st;
}

static infer_status read_gguf_invocation(struct adapter_reader *r)
{
    static const char key[] = "adapter.alora.invocation_tokens";
    struct file_array list;
    if (!file_has(r->a->file, key))
        return INFER_OK;
    infer_status st = file_get_ints(r->a->file, key, &list, r->err);
    if (st != INFER_OK)
        return st;
    if (list.count == 0 || list.count > ADAPTER_MAX_INVOCATION)
        return ADAPTER_FAIL(r, INFER_ERROR_VALUE, key, "expected 1 to %u tokens", ADAPTER_MAX_INVOCATION);
    int32_t *ids = arena_zarray(&r->a->arena, (size_t)list.count, sizeof *ids);
    if (!ids)
        return err_no_memory(r->err);
    for (uint64_t i = 0; i < list.count; i++) {
        int64_t id = file_array_int(&list, i);
        if (id < 0 || id > INT32_MAX)
            return ADAPTER_FAIL(r, INFER_ERROR_VALUE, key, "a token id is out of range");
        ids[i] = (int32_t)id;
    }
    r->a->invocation = ids;
    r->a->n_invocation = (uint32_t)list.count;
    return INFER_OK;
}

/* A stack of experts: "blk.N.ffn_gate_exps.weight" gives "blk.N.ffn_gate.E.weight". */
static infer_status add_gguf_experts(struct lora_list *l, const char *name, uint32_t layer, enum half half, const struct file_tensor *t)
{
    static const char tail[] = "_exps.weight";
    char expert[ADAPTER_NAME_MAX];
    size_t n = strlen(name), stem = n > sizeof tail ? n - (sizeof tail - 1) : 0;
    if (!stem || strcmp(name + stem, tail) || stem > ADAPTER_NAME_MAX - 24 || t->dims[2] > 65536)
        return tensor_failed(l->r, t, INFER_ERROR_SHAPE, "a half of a LoRA must have 2 dimensions");
    infer_status st = INFER_OK;
    for (uint64_t e = 0; e < t->dims[2] && st == INFER_OK; e++) {
        char digits[5];
        size_t at = sizeof digits, len = stem;
        uint64_t v = e;
        do
            digits[--at] = (char)('0' + v % 10);
        while ((v /= 10) != 0);
        memcpy(expert, name, stem);
        expert[len++] = '.';
        memcpy(expert + len, digits + at, sizeof digits - at);
        len += sizeof digits - at;
        memcpy(expert + len, ".weight", 8);
        st = list_add(l, expert, layer, half, t, e * t->dims[1], t->dims[1], true);
    }
    return st;
}

static infer_status add_gguf(struct lora_list *l, const struct file_tensor *t)
{
    struct adapter_reader *r = l->r;
    size_t len = (size_t)t->name.len;
    bool a = len > 7 && !memcmp(t->name.data + len - 7, ".lora_a", 7);
    uint32_t layer = ADAPTER_NO_LAYER;
    if (!a && (len <= 7 || memcmp(t->name.data + len - 7, ".lora_b", 7)))
        return tensor_failed(r, t, INFER_ERROR_UNSUPPORTED, "no part of a LoRA: neither .lora_a nor .lora_b of a tensor");
    char *name = arena_strdup(&r->temp, t->name.data, len - 7);
    if (!name)
        return err_no_memory(r->err);
    if (!strcmp(name, "token_embd.weight"))
        return tensor_failed(r, t, INFER_ERROR_UNSUPPORTED, "a LoRA of an embedding matrix is not supported");
    if (!adapter_layer_of(name, len - 7, &layer) && strcmp(name, "output.weight"))
        return tensor_failed(r, t, INFER_ERROR_UNSUPPORTED, "an adapter of a tensor that is no matrix of a layer");
    if (t->n_dims == 3)
        return add_gguf_experts(l, name, layer, a ? HALF_A : HALF_B, t);
    if (t->n_dims > 3)
        return tensor_failed(r, t, INFER_ERROR_SHAPE, "a half of a LoRA must have 2 dimensions");
    return list_add(l, name, layer, a ? HALF_A : HALF_B, t, 0, t->dims[1], true);
}

infer_status adapter_read_gguf_lora(struct adapter_reader *r)
{
    struct lora_list l;
    float alpha = 0;
    infer_status st = check_gguf(r);
    if (st == INFER_OK)
        st = file_get_f32_or(r->a->file, "adapter.lora.alpha", 0, &alpha, r->err);
    if (st == INFER_OK)
        st = read_gguf_invocation(r);
    if (st != INFER_OK)
        return st;
    st = list_begin(&l, r);
    for (uint64_t i = 0; i < r->a->file->n_tensors && st == INFER_OK; i++)
        st = cancel_is_set(r->cancel) ? err_set(r->err, INFER_ERROR_CANCELLED, "cancelled while reading the adapter")
                                      : add_gguf(&l, &r->a->file->tensors[i]);
    if (st == INFER_OK)
        st = list_end(&l);
    for (uint64_t i = 0; i < l.n && st == INFER_OK; i++) /* alpha 0: the numbers hold the scale */
        st = set_scale(r, &l.targets[i], alpha == 0 ? 1.0 : (double)alpha / (double)l.targets[i].rank);
    map_free(&l.map);
    r->a->order = ADAPTER_ORDER_GGUF;
    return st;
}
