/* Opens a split GGUF file whose parts are arbitrary bytes, which a callback serves, and looks at everything that opened. The input: one byte that says
 * how, and for each part two bytes of length and its bytes; the last one has the rest. Parts are borrowed or read, one may be missing or fail when
 * it is read, and the file may be opened by a later part or by a name that tells no others. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "fuzz/look_file.h"

#define MAX_PARTS 4

enum { READ = 1, SECOND_FIRST = 2, PLAIN_NAME = 4, LAST_MISSING = 8, LAST_FAILS = 16, COPY = 32 };

struct input;

struct part {
    const struct input *input;
    const uint8_t *data;
    size_t len;
    int open; /* streams given out and not released */
};

struct input {
    struct part parts[MAX_PARTS];
    int n;
    uint8_t how;
};

static infer_status read_part(void *user, uint64_t offset, void *dst, uint64_t bytes)
{
    const struct part *p = user;
    if (offset > p->len || bytes > p->len - offset)
        abort(); /* the length was told */
    if (p->input->how & LAST_FAILS && p == &p->input->parts[p->input->n - 1])
        return INFER_ERROR_IO;
    if (bytes)
        memcpy(dst, p->data + offset, (size_t)bytes);
    return INFER_OK;
}

static void release_part(void *user)
{
    struct part *p = user;
    if (p->open-- <= 0)
        abort(); /* released twice */
}

static infer_status open_part(void *user, const char *name, uint64_t len, infer_stream *out)
{
    struct input *in = user;
    uint64_t no = 0;
    if (len >= 20) /* NAME-00001-of-00002.gguf */
        for (uint64_t i = len - 19; i < len - 14; i++)
            no = no * 10 + (uint64_t)(name[i] - '0');
    no = in->how & PLAIN_NAME ? 1 : no;
    if (no < 1 || no > (uint64_t)in->n || (no == (uint64_t)in->n && in->how & LAST_MISSING))
        return INFER_ERROR_NOT_FOUND;
    struct part *p = &in->parts[no - 1];
    p->open++;
    out->length = p->len;
    out->data = in->how & READ ? NULL : p->data;
    out->read = read_part;
    out->release = release_part;
    out->user = p;
    return INFER_OK;
}

static void cut(struct input *in, const uint8_t *at, const uint8_t *end)
{
    while (in->n < MAX_PARTS && end - at > 2) {
        size_t len = at[0] | (size_t)at[1] << 8, left = (size_t)(end - at) - 2;
        at += 2;
        len = len < left && in->n + 1 < MAX_PARTS ? len : left;
        in->parts[in->n++] = (struct part){in, at, len, 0};
        at += len;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {.n = 0};
    struct infer_file *f;
    infer_source s;
    infer_error err;
    char name[32] = "m-00001-of-00001.gguf";
    if (size < 1)
        return 0;
    in.how = data[0];
    cut(&in, data + 1, data + size);
    name[15] = (char)('0' + (in.n ? in.n : 1));
    if (in.how & SECOND_FIRST)
        name[6] = '2';
    const char *opened = in.how & PLAIN_NAME ? "plain.gguf" : name;
    infer_source_callback(&s, opened, strlen(opened), open_part, &in);
    if (file_open(&env_default, &s, in.how & COPY ? INFER_MAP_READ : INFER_MAP_AUTO, NULL, &f, &err) == INFER_OK) {
        look_at_file(f);
        file_release(f);
    }
    for (int i = 0; i < in.n; i++)
        if (in.parts[i].open)
            abort(); /* not released */
    return 0;
}
