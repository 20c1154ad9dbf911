/* Reads arbitrary bytes as JSON and visits what came out. */
#include <stdlib.h>

#include "base/json.h"
#include "base/utf8.h"
#include "fuzz/fuzz.h"

static void visit(const struct json *v, size_t size)
{
    if (v->offset >= size)
        abort();
    if ((v->type == JSON_STRING || v->type == JSON_BIG) && (!utf8_valid(v->u.text.p, v->u.text.len) || v->u.text.p[v->u.text.len]))
        abort();
    for (size_t i = 0; v->type == JSON_ARRAY && i < v->n; i++)
        visit(&v->u.items[i], size);
    for (size_t i = 0; v->type == JSON_OBJECT && i < v->n; i++) {
        if (!utf8_valid(v->u.members[i].key.p, v->u.members[i].key.len))
            abort();
        visit(&v->u.members[i].value, size);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena ar;
    struct json v;
    infer_error err;
    arena_init(&ar, &alloc_default, 16 << 20);
    infer_status st = json_parse(&ar, (const char *)data, size, NULL, &v, &err);
    if (st == INFER_OK)
        visit(&v, size);
    else if (st == INFER_ERROR_SYNTAX && err.offset > size)
        abort();
    arena_free(&ar);
    return 0;
}
