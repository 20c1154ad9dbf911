/* Soft prompts and prefixes of PEFT: one tensor "prompt_embeddings", a row for each virtual token. */
#include <string.h>

#include "adapters/adapter_read.h"

#define NAME "prompt_embeddings"

static infer_status wrong_rows(struct adapter_reader *r, const char *what, uint64_t has, uint64_t wants)
{
    return ADAPTER_FAIL(r, INFER_ERROR_SHAPE, NAME, "%s: %llu, its configuration says %llu", what, (unsigned long long)has,
                        (unsigned long long)wants);
}

/* A row of a prefix: [n_layers][keys, values][n_head_kv][head_dim]; token_dim is n_head_kv * head_dim here. */
static infer_status read_prefix(struct adapter_reader *r, uint64_t width)
{
    const struct peft_config *c = &r->config;
    if (!c->token_dim || !c->n_layers || !c->n_heads)
        return ADAPTER_FAIL(r, INFER_ERROR_MISSING, c->token_dim ? c->n_layers ? "num_attention_heads" : "num_layers" : "token_dim",
                            "the configuration of a prefix must tell it");
    if (width != (uint64_t)c->n_layers * 2 * c->token_dim)
        return wrong_rows(r, "numbers in a row", width, (uint64_t)c->n_layers * 2 * c->token_dim);
    if (c->token_dim % c->n_heads)
        return ADAPTER_FAIL(r, INFER_ERROR_VALUE, "num_attention_heads", "%lu numbers are no whole heads of %lu",
                            (unsigned long)c->token_dim, (unsigned long)c->n_heads);
    r->a->kind = ADAPTER_PREFIX;
    r->a->order = ADAPTER_ORDER_HF;
    r->a->n_layers = c->n_layers;
    r->a->n_kv = c->token_dim;
    r->a->n_head_kv = c->n_heads;
    return INFER_OK;
}

infer_status adapter_read_rows(struct adapter_reader *r)
{
    struct infer_adapter *a = r->a;
    const struct peft_config *c = &r->config;
    const struct file_tensor *t = file_find_tensor(a->file, NAME, sizeof NAME - 1);
    if (!t)
        return ADAPTER_FAIL(r, INFER_ERROR_MISSING, NAME, "the tensor is absent");
    for (uint64_t i = 0; i < a->file->n_tensors; i++)
        if (&a->file->tensors[i] != t)
            return err_at(r->err, INFER_ERROR_UNSUPPORTED, a->file->tensors[i].name.data, (size_t)a->file->tensors[i].name.len,
                          ERR_NO_OFFSET, "no part of a soft prompt");
    if (t->n_dims != 2 || t->n == 0)
        return ADAPTER_FAIL(r, INFER_ERROR_SHAPE, NAME, "expected rows of numbers");
    if (t->dims[1] > ADAPTER_MAX_ROWS || t->dims[0] > (uint64_t)1 << 31)
        return ADAPTER_FAIL(r, INFER_ERROR_LIMIT, NAME, "%llu rows of %llu numbers", (unsigned long long)t->dims[1],
                            (unsigned long long)t->dims[0]);
    if (c->n_virtual && t->dims[1] != c->n_virtual)
        return wrong_rows(r, "rows", t->dims[1], c->n_virtual);
    infer_status st = adapter_matrix_of(r, t, 0, t->dims[1], false, &a->rows);
    if (st != INFER_OK || c->method == PEFT_PREFIX)
        return st == INFER_OK ? read_prefix(r, t->dims[0]) : st;
    if (c->token_dim && t->dims[0] != c->token_dim)
        return wrong_rows(r, "numbers in a row", t->dims[0], c->token_dim);
    a->kind = ADAPTER_SOFT_PROMPT;
    a->width = (uint32_t)t->dims[0];
    return INFER_OK;
}
