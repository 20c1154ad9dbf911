#include "formats/tokenizer_json.h"

#include <string.h>

bool tokenizer_json_is(const struct blob *blob)
{
    static const char member[] = "\"model\"";
    const char *s = (const char *)blob->data;
    size_t n = sizeof member - 1, i = 0, size = blob->size;
    while (i < size && (s[i] == ' ' || s[i] == '\t' || s[i] == '\r' || s[i] == '\n'))
        i++;
    if (i == size || s[i] != '{')
        return false;
    while (size - i >= n) {
        const char *quote = memchr(s + i, '"', size - i - n + 1);
        if (!quote)
            return false;
        if (!memcmp(quote, member, n))
            return true;
        i = (size_t)(quote - s) + 1;
    }
    return false;
}

infer_status tokenizer_json_open(const struct env *env, const char *name, size_t name_len, struct blob *blob, struct infer_file **out,
                                 infer_error *err)
{
    struct infer_file *f;
    infer_status st = file_create(env, name, name_len, blob, &f, err);
    if (st != INFER_OK)
        return st;
    f->meta = mem_zalloc(&env->alloc, sizeof *f->meta);
    if (!f->meta || map_add(&f->meta_map, FILE_KEY_TOKENIZER_JSON, sizeof FILE_KEY_TOKENIZER_JSON - 1, 0) < 0) {
        file_release(f);
        return err_no_memory(err);
    }
    const struct blob *b = &f->parts[0];
    f->meta[0] = (struct file_meta){{FILE_KEY_TOKENIZER_JSON, sizeof FILE_KEY_TOKENIZER_JSON - 1},
                                    {.type = FILE_STRING, .count = b->size, .data = b->data}};
    f->n_meta = 1;
    *out = f;
    return INFER_OK;
}
