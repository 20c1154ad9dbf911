/* Compiles arbitrary bytes as a chat template and renders it. What stands after the first zero byte is the JSON of the variables. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "fuzz/fuzz.h"
#include "text/jinja.h"

static const char default_vars[] =
    "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"h\\u00e9\"}]}],"
    "\"add_generation_prompt\":true,\"tools\":[{\"function\":{\"name\":\"f\",\"parameters\":{\"x\":1.5}}}],\"bos_token\":\"<s>\"}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data, *zero = size ? memchr(text, 0, size) : NULL;
    size_t len = zero ? (size_t)(zero - text) : size;
    const char *json = zero ? zero + 1 : default_vars;
    size_t json_len = zero ? size - len - 1 : sizeof default_vars - 1;
    struct jinja_options o = {.max_steps = 100000, .max_output = 1 << 20, .max_memory = 8 << 20};
    struct jinja *t;
    struct buf out;
    infer_error err;
    if (jinja_compile(&alloc_default, text, len, &t, &err) != INFER_OK)
        return 0;
    buf_init(&out, &alloc_default, 0);
    infer_status st = jinja_render(t, &alloc_default, json, json_len, &o, &out, &err);
    if (st == INFER_OK && !utf8_valid(out.data ? out.data : "", out.len))
        abort(); /* valid text in, valid text out */
    if (st != INFER_OK && (err.code != st || !err.text[0]))
        abort();
    buf_free(&out);
    jinja_free(t);
    return 0;
}
