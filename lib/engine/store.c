/* What all stores of checkpoints have in common: names, limits, lifetime. */
#include "engine/store.h"

#include <string.h>

#include "base/utf8.h"

infer_status store_open(infer_engine *engine, const char *path, uint64_t path_len, const infer_store_options *options,
                        infer_store **out, infer_error *err)
{
    if (path)
        return store_dir_open(engine, path, path_len, options, out, err);
    return store_memory_open(engine, options, out, err);
}

void store_init(infer_store *s, const struct store_ops *ops, infer_engine *engine, const infer_store_options *options)
{
    ref_init(&s->ref);
    s->ops = ops;
    s->engine = engine_ref(engine);
    s->max_bytes = options->max_bytes ? options->max_bytes : UINT64_MAX;
    s->max_count = options->max_count ? options->max_count : UINT64_MAX;
}

infer_store *store_ref(infer_store *s)
{
    ref_get(&s->ref);
    return s;
}

void store_release(infer_store *s)
{
    if (!s || !ref_put(&s->ref))
        return;
    infer_engine *engine = s->engine;
    s->ops->destroy(s);
    engine_release(engine);
}

static infer_status bad_name(infer_error *err, const char *problem)
{
    return err_at(err, INFER_ERROR_ARGUMENT, "name", 4, ERR_NO_OFFSET, "a checkpoint's name %s", problem);
}

infer_status store_check_name(struct store_name name, infer_error *err)
{
    if (!name.len || name.len > STORE_NAME_MAX)
        return bad_name(err, "has 1 to 255 bytes");
    for (size_t i = 0, used; i < name.len; i += used) {
        uint32_t c = utf8_decode(name.data + i, (size_t)name.len - i, &used);
        if (c == UTF8_BAD)
            return bad_name(err, "is UTF-8");
        if (c < 0x20 || (c >= 0x7F && c < 0xA0))
            return bad_name(err, "has no control characters");
        if (c == '/')
            return bad_name(err, "has no '/'");
    }
    return INFER_OK;
}

int store_compare(struct store_name a, struct store_name b)
{
    uint64_t n = a.len < b.len ? a.len : b.len;
    int c = n ? memcmp(a.data, b.data, (size_t)n) : 0;
    return c ? (c > 0) - (c < 0) : (a.len > b.len) - (a.len < b.len);
}

infer_status store_not_found(struct store_name name, infer_error *err)
{
    return err_at(err, INFER_ERROR_NOT_FOUND, name.data, (size_t)name.len, ERR_NO_OFFSET, "the store has no checkpoint of this name");
}

infer_status store_exists(struct store_name name, infer_error *err)
{
    return err_at(err, INFER_ERROR_EXISTS, name.data, (size_t)name.len, ERR_NO_OFFSET,
                  "the store has a checkpoint of this name, and INFER_STORE_REPLACE is not set");
}

infer_status store_check_limits(const infer_store *s, uint64_t count, uint64_t bytes, uint64_t more_count, uint64_t more_bytes,
                                infer_error *err)
{
    if (more_count && (count >= s->max_count || more_count > s->max_count - count))
        return err_set(err, INFER_ERROR_LIMIT, "the store holds at most %llu checkpoints", (unsigned long long)s->max_count);
    if (more_bytes && (bytes >= s->max_bytes || more_bytes > s->max_bytes - bytes))
        return err_set(err, INFER_ERROR_LIMIT, "the store holds at most %llu bytes: %llu are used, and this takes %llu",
                       (unsigned long long)s->max_bytes, (unsigned long long)bytes, (unsigned long long)more_bytes);
    return INFER_OK;
}
