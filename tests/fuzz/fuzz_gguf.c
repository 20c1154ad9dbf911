/* Opens arbitrary bytes as a GGUF file and looks at everything that opened. */
#include <stdlib.h>

#include "formats/file.h"
#include "fuzz/fuzz.h"
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
    if (file_find_tensor(f, t->name.data, (size_t)t->name.len) != t)
        abort();
    if (t->n > MAX_DECODE)
        return;
    float *x = malloc((size_t)t->n * sizeof *x);
    if (x)
        dequant_row(t->type, t->data, x, t->n);
    free(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static volatile uint64_t sum; /* so that the reads stay */
    struct infer_file *f;
    infer_error err;
    infer_source s = {.size = (uint32_t)sizeof s, .kind = INFER_SOURCE_MEMORY, .data = data, .length = size};
    if (file_open(&env_default, &s, INFER_MAP_AUTO, NULL, &f, &err) != INFER_OK)
        return 0;
    for (uint64_t i = 0; i < f->n_meta; i++)
        sum += look_at_value(f, &f->meta[i].value, 0);
    (void)sum;
    for (uint64_t i = 0; i < f->n_tensors; i++)
        look_at_tensor(f, &f->tensors[i]);
    file_release(f);
    return 0;
}
