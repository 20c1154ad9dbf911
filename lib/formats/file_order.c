/* Tensors in the order in which their data lies. */
#include "base/sort.h"
#include "formats/file.h"

static bool lies_after(const void *one, const void *other)
{
    const struct file_tensor *a = one, *b = other;
    return a->offset > b->offset || (a->offset == b->offset && a->bytes && !b->bytes);
}

infer_status file_in_order(const struct infer_file *f, file_order_fn fn, void *arg, infer_error *err)
{
    size_t n = (size_t)f->n_tensors, i = 1;
    infer_status st = INFER_OK;
    while (i < n && !lies_after(&f->tensors[i - 1], &f->tensors[i]))
        i++;
    if (i >= n) { /* as most writers leave them */
        for (i = 0; i < n && st == INFER_OK; i++)
            st = fn(arg, i ? &f->tensors[i - 1] : NULL, &f->tensors[i]);
        return st;
    }
    const void **sorted = mem_array(&f->env->alloc, n, sizeof *sorted);
    if (!sorted)
        return err_no_memory(err);
    for (i = 0; i < n; i++)
        sorted[i] = &f->tensors[i];
    sort_pointers(sorted, n, lies_after);
    for (i = 0; i < n && st == INFER_OK; i++)
        st = fn(arg, i ? sorted[i - 1] : NULL, sorted[i]);
    mem_free(&f->env->alloc, sorted);
    return st;
}
