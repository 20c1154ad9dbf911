/* Looks at everything in an opened file. */
#ifndef FUZZ_LOOK_FILE_H
#define FUZZ_LOOK_FILE_H

#include <stdlib.h>

#include "formats/file.h"
#include "kernels/dequant.h"

#define MAX_DECODE 65536 /* elements of a tensor */

static uint64_t look_at_value(const struct infer_file *f, const struct file_value *v, int depth)
{
    struct file_value item;
    uint64_t sum = file_type_size(v->type) ? v->data[0] : 0;
    if (v->type == FILE_STRING && v->count)
        sum += (uint64_t)v->data[0] + v->data[v->count - 1];
    for (uint64_t i = 0; v->type == FILE_ARRAY && i < v->count; i++) {
        if (depth >= FILE_MAX_DEPTH || !file_array_item(f, v, i, &item))
            abort(); /* the reader promised */
        sum += look_at_value(f, &item, depth + 1);
    }
    return sum;
}

static void look_at_tensor(const struct infer_file *f, const struct file_tensor *t)
{
    if (file_find_tensor(f, t->name.data, (size_t)t->name.len) != t || t->data != f->parts[t->part].data + t->offset)
        abort();
    if (t->n > MAX_DECODE)
        return;
    float *x = malloc((size_t)t->n * sizeof *x);
    if (x)
        dequant_row(t->type, t->data, x, t->n);
    free(x);
}

static void look_at_file(const struct infer_file *f)
{
    static volatile uint64_t sum; /* so that the reads stay */
    for (uint64_t i = 0; i < f->n_meta; i++)
        sum += look_at_value(f, &f->meta[i].value, 0);
    (void)sum;
    for (uint64_t i = 0; i < f->n_tensors; i++)
        look_at_tensor(f, &f->tensors[i]);
}

#endif
