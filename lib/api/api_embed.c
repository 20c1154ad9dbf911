/* Embeddings. */
#include "api/api.h"
#include "engine/engine.h"

static infer_status check_options(const infer_embed_options *o, infer_error *err)
{
    const uint32_t known = INFER_EMBED_RAW | INFER_EMBED_TRUNCATE | INFER_EMBED_NO_SPECIAL | INFER_EMBED_PARSE_SPECIAL;
    if (o->pooling < INFER_POOLING_MODEL || o->pooling >= INFER_POOLING_RANK)
        return err_at(err, INFER_ERROR_ARGUMENT, "pooling", 7, ERR_NO_OFFSET, "not a kind of pooling that can be asked for");
    if (o->flags & ~known)
        return err_at(err, INFER_ERROR_ARGUMENT, "flags", 5, ERR_NO_OFFSET, "unknown flags");
    return INFER_OK;
}

static infer_status check_item(infer_embed_item *it, infer_error *err)
{
    if (it->text && (it->ids || it->id_count))
        return err_at(err, INFER_ERROR_ARGUMENT, "ids", 3, ERR_NO_OFFSET, "an item is either text or ids");
    if (it->id_count && !it->ids)
        return err_at(err, INFER_ERROR_ARGUMENT, "ids", 3, ERR_NO_OFFSET, "is NULL");
    if (it->capacity && !it->out)
        return err_at(err, INFER_ERROR_ARGUMENT, "out", 3, ERR_NO_OFFSET, "is NULL");
    return api_text(it->text, it->text_len, &it->text_len, "text", err);
}

static infer_embed_item *item_at(infer_embed_item *items, uint64_t stride, uint64_t i)
{
    return (infer_embed_item *)(void *)((char *)items + stride * i);
}

static infer_status run_items(infer_model *m, infer_embed_item *host, uint64_t count, infer_embed_item *items,
                              const infer_embed_options *o, infer_cancel *cancel, infer_error *err)
{
    infer_status st = INFER_OK;
    for (uint64_t i = 0; i < count && st == INFER_OK; i++) {
        const infer_embed_item *h = item_at(host, host->size, i);
        st = h->size == host->size ? API_IN(h, &items[i], infer_embed_item, err)
                                   : err_at(err, INFER_ERROR_ARGUMENT, "size", 4, ERR_NO_OFFSET, "the items of a call differ in size");
        if (st == INFER_OK)
            st = check_item(&items[i], err);
    }
    if (st != INFER_OK)
        return st;
    st = embed_texts(m, items, count, o, cancel, err);
    for (uint64_t i = 0; i < count; i++) {
        items[i].text_len = item_at(host, host->size, i)->text_len; /* as the host wrote it */
        API_PUT_OUT(item_at(host, host->size, i), &items[i]);
    }
    return st;
}

static infer_status embed(infer_model *m, infer_embed_item *host, uint64_t count, const infer_embed_options *options,
                          infer_cancel *cancel, infer_error *err)
{
    infer_embed_options o;
    infer_embed_item one, *items = &one;
    infer_status st = api_not_null(m, "model", err);
    if (st == INFER_OK)
        st = API_IN(options, &o, infer_embed_options, err);
    if (st == INFER_OK)
        st = check_options(&o, err);
    if (st != INFER_OK || !count)
        return st;
    st = API_CHECK_OUT(host, infer_embed_item, err);
    if (st != INFER_OK)
        return st;
    if (count > 1 && host->size % _Alignof(infer_embed_item)) /* the second would lie askew */
        return err_at(err, INFER_ERROR_ARGUMENT, "size", 4, ERR_NO_OFFSET, "not the size of a struct: use INFER_INIT");
    const struct alloc *a = &m->engine->env->alloc;
    if (count > 1)
        items = count > SIZE_MAX / sizeof *items ? NULL : mem_array(a, (size_t)count, sizeof *items);
    st = items ? run_items(m, host, count, items, &o, cancel, err) : err_no_memory(err);
    if (items != &one)
        mem_free(a, items);
    return st;
}

infer_status infer_embed(infer_model *model, infer_embed_item *items, uint64_t count, const infer_embed_options *options,
                         infer_cancel *cancel, infer_error *err)
{
    infer_error e;
    return api_done_in(api_model_env(model), err, &e, embed(model, items, count, options, cancel, &e));
}
