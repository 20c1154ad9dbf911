/* Tensors in the order in which their data lies. */
#include "formats/file.h"

static bool lies_after(const struct file_tensor *a, const struct file_tensor *b)
{
    return a->offset > b->offset || (a->offset == b->offset && a->bytes && !b->bytes);
}

static void sift(const struct file_tensor **heap, size_t i, size_t n)
{
    for (;;) {
        size_t big = i;
        for (size_t k = 2 * i + 1; k <= 2 * i + 2 && k < n; k++)
            if (lies_after(heap[k], heap[big]))
                big = k;
        if (big == i)
            return;
        const struct file_tensor *t = heap[i];
        heap[i] = heap[big];
        heap[big] = t;
        i = big;
    }
}

static void sort(const struct file_tensor **t, size_t n)
{
    for (size_t i = n / 2; i-- > 0;)
        sift(t, i, n);
    for (size_t end = n; end-- > 1;) {
        const struct file_tensor *last = t[0];
        t[0] = t[end];
        t[end] = last;
        sift(t, 0, end);
    }
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
    const struct file_tensor **sorted = mem_array(&f->env->alloc, n, sizeof *sorted);
    if (!sorted)
        return err_no_memory(err);
    for (i = 0; i < n; i++)
        sorted[i] = &f->tensors[i];
    sort(sorted, n);
    for (i = 0; i < n && st == INFER_OK; i++)
        st = fn(arg, i ? sorted[i - 1] : NULL, sorted[i]);
    mem_free(&f->env->alloc, sorted);
    return st;
}
