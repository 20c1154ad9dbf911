/* Opens arbitrary bytes as an adapter and looks at everything that opened. The first two bytes are the length of a configuration, which follows
 * them; the rest is the file beside it. Length 0: there is no configuration. */
#include <stdlib.h>
#include <string.h>

#include "adapters/adapter.h"
#include "fuzz/fuzz.h"

struct input {
    const uint8_t *config, *file;
    size_t config_len, file_len;
};

static infer_status open_part(void *user, const char *name, uint64_t len, infer_stream *out)
{
    const struct input *in = user;
    bool config = len >= 5 && !memcmp(name + len - 5, ".json", 5);
    if (config && !in->config_len)
        return INFER_ERROR_NOT_FOUND;
    out->data = config ? in->config : in->file;
    out->length = config ? in->config_len : in->file_len;
    return INFER_OK;
}

static uint64_t look_at(const struct adapter_matrix *m)
{
    const uint8_t *p = m->data;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < m->bytes; i++)
        sum += p[i];
    return sum;
}

static void look_at_adapter(const struct infer_adapter *a)
{
    static volatile uint64_t sum; /* so that the reads stay */
    for (uint64_t i = 0; i < a->n_targets; i++) {
        const struct adapter_target *t = &a->targets[i];
        if (adapter_find_target(a, t->name) != t || t->a.n_rows != t->rank || t->b.n_cols != t->rank || !t->rank || t->scale - t->scale != 0)
            abort();
        sum += look_at(&t->a) + look_at(&t->b);
    }
    for (uint32_t i = 0; i < a->n_directions; i++) {
        if (a->directions[i].v.n_cols != a->width || (i && a->directions[i - 1].layer >= a->directions[i].layer))
            abort();
        sum += look_at(&a->directions[i].v);
    }
    if (a->kind == ADAPTER_PREFIX && a->rows.n_cols != (uint64_t)a->n_layers * 2 * a->n_kv)
        abort();
    sum += look_at(&a->rows);
    (void)sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct infer_adapter *a;
    infer_error err;
    if (size < 2)
        return 0;
    size_t n = data[0] | (size_t)data[1] << 8;
    n = n < size - 2 ? n : size - 2;
    struct input in = {.config = data + 2, .config_len = n, .file = data + 2 + n, .file_len = size - 2 - n};
    infer_source s = {.size = (uint32_t)sizeof s, .kind = INFER_SOURCE_CALLBACK, .name = "adapter", .name_len = 7, .user = &in, .open = open_part};
    if (adapter_open(&env_default, &s, INFER_MAP_AUTO, NULL, &a, &err) != INFER_OK)
        return 0;
    look_at_adapter(a);
    adapter_release(a);
    return 0;
}
