/* A Hugging Face folder of arbitrary files, served by a callback: the input is names and contents, which a line "=== NAME LENGTH" introduces.
 * Opened as a model, as a file and for its text; what opens is looked at. */
#include <string.h>

#include "fuzz/fuzz.h"
#include "fuzz/look_file.h"
#include "model/hf.h"

#define MAX_FILES 8

struct folder {
    struct {
        const uint8_t *name, *data;
        size_t name_len, len;
    } files[MAX_FILES];
    int n;
};

/* "=== NAME LENGTH\n", the content, a newline. */
static void split(struct folder *f, const uint8_t *p, const uint8_t *end)
{
    while (f->n < MAX_FILES && end - p > 4 && !memcmp(p, "=== ", 4)) {
        const uint8_t *name = p + 4, *eol = memchr(name, '\n', (size_t)(end - name));
        const uint8_t *space = eol ? memchr(name, ' ', (size_t)(eol - name)) : NULL;
        size_t len = 0;
        if (!space)
            return;
        for (const uint8_t *d = space + 1; d < eol && *d >= '0' && *d <= '9' && len < ((size_t)1 << 24); d++)
            len = len * 10 + (size_t)(*d - '0');
        if (len > (size_t)(end - eol - 1))
            len = (size_t)(end - eol - 1);
        f->files[f->n].name = name;
        f->files[f->n].name_len = (size_t)(space - name);
        f->files[f->n].data = eol + 1;
        f->files[f->n++].len = len;
        p = eol + 1 + len;
        p += p < end;
    }
}

static infer_status open_member(void *user, const char *name, uint64_t len, infer_stream *out)
{
    const struct folder *f = user;
    for (int i = 0; i < f->n && len > 2; i++)
        if (f->files[i].name_len == len - 2 && !memcmp(f->files[i].name, name + 2, (size_t)len - 2)) {
            out->data = f->files[i].data;
            out->length = f->files[i].len;
            return INFER_OK;
        }
    return INFER_ERROR_NOT_FOUND;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct folder folder = {.n = 0};
    infer_source s;
    split(&folder, data, data + size);
    infer_source_callback(&s, "m", 1, open_member, &folder);
    for (int use = HF_AS_MODEL; use <= HF_AS_TEXT; use++) {
        struct hf_options o = {(enum hf_use)use, INFER_MAP_AUTO, NULL, NULL};
        struct infer_file *f;
        infer_error err;
        if (hf_open(&env_default, &s, &o, &f, &err) != INFER_OK)
            continue;
        look_at_file(f);
        file_release(f);
    }
    return 0;
}
