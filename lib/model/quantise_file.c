#include "model/quantise_file.h"

#include <stdatomic.h>
#include <string.h>

#include "base/dtype.h"
#include "kernels/dequant.h"
#include "kernels/quantise.h"

#define ALIGNMENT ((uint64_t)64)
#define CHUNK 256                         /* elements: a multiple of every block, and a part of a task */

static bool is(const struct file_tensor *t, const char *name)
{
    return t->name.len == strlen(name) && !memcmp(t->name.data, name, (size_t)t->name.len);
}

static bool contains(const struct file_tensor *t, const char *part)
{
    size_t n = strlen(part);
    for (uint64_t i = 0; i + n <= t->name.len; i++)
        if (!memcmp(t->name.data + i, part, n))
            return true;
    return false;
}

static bool ends_in(const struct file_tensor *t, const char *suffix)
{
    size_t n = strlen(suffix);
    return t->name.len >= n && !memcmp(t->name.data + t->name.len - n, suffix, n);
}

static bool rows_fit(const struct file_tensor *t, int32_t type)
{
    return t->dims[0] % dtype_of(type)->block == 0;
}

/* The type that a tensor becomes; its own: it stays. */
static int32_t type_of(const struct infer_file *f, const struct file_tensor *t, int32_t type)
{
    bool is_float = t->type == INFER_TYPE_F32 || t->type == INFER_TYPE_F16 || t->type == INFER_TYPE_BF16;
    bool embeddings = is(t, "token_embd.weight");
    bool output = is(t, "output.weight") || (embeddings && !file_find_tensor(f, "output.weight", 13));
    bool layer = t->name.len > 4 && !memcmp(t->name.data, "blk.", 4) && ends_in(t, ".weight") && !contains(t, "norm") &&
                 !contains(t, "ffn_gate_inp");
    if (!is_float || t->n == 0 || t->n == t->dims[0] || !(layer || embeddings || output))
        return t->type;
    if (output && type != INFER_TYPE_Q8_0)
        type = INFER_TYPE_Q6_K;
    if (!rows_fit(t, type))
        type = INFER_TYPE_Q8_0;
    return rows_fit(t, type) ? type : t->type;
}

/* ---- The work: a tensor after the other, each cut into tasks of equal size ---- */

struct item {
    struct file_tensor *t;
    int32_t type;
    uint64_t offset; /* in the new part */
    uint64_t bytes;
};

struct job {
    const struct item *item;
    uint8_t *dst;
    atomic_bool bad; /* a value cannot be stored */
};

static void quantise_task(void *arg, uint32_t worker, uint64_t task)
{
    struct job *j = arg;
    const struct file_tensor *t = j->item->t;
    const struct dtype *from = dtype_of(t->type), *to = dtype_of(j->item->type);
    uint64_t at = task * QUANTISE_TASK, end = t->n - at < QUANTISE_TASK ? t->n : at + QUANTISE_TASK;
    quantise_fn fn = quantise_of(j->item->type);
    float x[CHUNK];
    (void)worker;
    for (; at < end; at += CHUNK) {
        uint64_t n = end - at < CHUNK ? end - at : CHUNK;
        dequant_row(t->type, (const uint8_t *)t->data + at * from->bytes, x, n);
        if (!fn(x, j->dst + at / to->block * to->bytes, n))
            atomic_store(&j->bad, true);
    }
}

static infer_status quantise_item(struct infer_file *f, struct job *j, const struct quantise_run *run, infer_error *err)
{
    const struct file_tensor *t = j->item->t;
    infer_status st = run->run(run->arg, (t->n + QUANTISE_TASK - 1) / QUANTISE_TASK, quantise_task, j, err);
    if (st != INFER_OK || !atomic_load(&j->bad))
        return st;
    return file_failed(f, err, err_at(err, INFER_ERROR_VALUE, t->name.data, (size_t)t->name.len, ERR_NO_OFFSET,
                                      "the tensor has values that cannot be quantised"));
}

static infer_status replace(struct infer_file *f, struct item *items, size_t n, uint64_t bytes, const struct quantise_run *run,
                            struct budget *plan, infer_error *err)
{
    struct blob blob;
    infer_status st = run ? blob_alloc(f->env, bytes, &blob, err) : blob_plan(f->env, bytes, 0, plan, &blob, err);
    if (st != INFER_OK)
        return st;
    for (size_t i = 0; run && i < n && st == INFER_OK; i++) {
        struct job j = {.item = &items[i], .dst = (uint8_t *)blob.owned + items[i].offset};
        st = quantise_item(f, &j, run, err);
    }
    if (st != INFER_OK) {
        blob_close(&blob);
        return st;
    }
    for (size_t i = 0; i < n; i++) {
        struct file_tensor *t = items[i].t;
        t->type = items[i].type;
        t->bytes = items[i].bytes;
        t->offset = items[i].offset;
        t->data = blob.data + items[i].offset;
        t->part = f->n_parts;
    }
    return file_add_part(f, &blob, err);
}

infer_status quantise_file(struct infer_file *f, int32_t type, const struct quantise_run *run, struct budget *plan, infer_error *err)
{
    struct item *items = mem_zarray(&f->env->alloc, (size_t)f->n_tensors, sizeof *items);
    uint64_t bytes = 0;
    size_t n = 0;
    if (!items)
        return err_no_memory(err);
    for (uint64_t i = 0; i < f->n_tensors; i++) {
        struct file_tensor *t = &f->tensors[i];
        struct item *it = &items[n];
        *it = (struct item){.t = t, .type = type_of(f, t, type), .offset = bytes};
        if (it->type == t->type)
            continue;
        (void)dtype_size(it->type, t->n, &it->bytes); /* smaller than it is now */
        bytes += (it->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        n++;
    }
    infer_status st = n ? replace(f, items, n, bytes, run, plan, err) : INFER_OK;
    mem_free(&f->env->alloc, items);
    return st;
}
