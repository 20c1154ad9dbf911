/* The disk tier of the prefix cache (lib/kv/kv_spill.h) and what it needs of an engine: pages' data, and who a model is.
 *
 * disk->lock is taken before the step lock and the cache's. A model does not go while a piece of its state is being written: model_release
 * comes through here first. */
#include "engine/engine.h"

#include "engine/checkpoint_file.h"

#include <string.h>

#include "kv/kv_spill.h"

struct prefix_disk {
    struct turns lock; /* in the engine's hall */
    struct kv_spill *spill;
    void *room; /* one page */
    size_t room_bytes;
};

infer_status prefix_disk_open(infer_engine *e, const infer_engine_options *o, infer_error *err)
{
    struct kv_spill_options so = {.bytes = o->cache_dir_bytes, .write_bytes = o->cache_write_bytes};
    if (!o->cache_dir)
        return INFER_OK;
    struct prefix_disk *d = mem_zalloc(&e->env->alloc, sizeof *d);
    if (!d)
        return err_no_memory(err);
    d->lock = turns_in(&e->hall);
    infer_status st = kv_spill_open(e->env, o->cache_dir, o->cache_dir_len, &so, &d->spill, err);
    if (st != INFER_OK) {
        mem_free(&e->env->alloc, d);
        return st;
    }
    e->disk = d;
    return INFER_OK;
}

void prefix_disk_close(infer_engine *e)
{
    if (!e->disk)
        return;
    kv_spill_close(e->disk->spill);
    mem_free(&e->env->alloc, e->disk->room);
    mem_free(&e->env->alloc, e->disk);
}

void prefix_disk_get_stats(infer_engine *e, struct kv_spill_stats *out)
{
    *out = (struct kv_spill_stats){0};
    if (!e->disk)
        return;
    (void)turns_take(&e->disk->lock, NULL);
    kv_spill_get_stats(e->disk->spill, out);
    turns_give(&e->disk->lock);
}

static infer_status make_id(struct kv_spill_id *id, const struct kv_domain *d, infer_model *model, const uint64_t *page_bytes,
                            uint32_t n_groups, infer_error *err)
{
    struct model_fingerprint f;
    _Static_assert(sizeof f == sizeof id->model, "the fingerprint fits");
    infer_status st = model_quick_fingerprint(model, &f, err);
    if (st != INFER_OK)
        return st;
    memset(id, 0, sizeof *id);
    memcpy(id->model, &f, sizeof f);
    id->type = d->type;
    id->numerics = (uint32_t)INFER_NUMERICS_VERSION << 8 | (uint32_t)model->engine->numerics;
    id->salt_len = d->salt_len;
    memcpy(id->salt, d->salt, sizeof id->salt);
    id->n_groups = n_groups;
    memcpy(id->page_bytes, page_bytes, n_groups * sizeof *page_bytes);
    return INFER_OK;
}

static infer_status page_room(infer_engine *e, uint64_t bytes, infer_error *err)
{
    struct prefix_disk *d = e->disk;
    if (bytes <= d->room_bytes)
        return INFER_OK;
    void *p = mem_alloc_aligned(&e->env->alloc, (size_t)bytes, 64);
    if (!p)
        return err_no_memory(err);
    mem_free(&e->env->alloc, d->room);
    d->room = p;
    d->room_bytes = (size_t)bytes;
    return INFER_OK;
}

/* ---- Writing ---- */

struct fetching {
    infer_engine *engine;
    const struct kv_evicted *e;
    const infer_cancel *cancel;
};

static infer_status fetch(void *user, uint32_t g, uint64_t i, const void **data, infer_error *err)
{
    const struct fetching *f = user;
    infer_engine *e = f->engine;
    infer_model *model = (infer_model *)(uintptr_t)f->e->domain.owner;
    struct kv_page *page = f->e->pages[g * f->e->per + i];
    uint64_t bytes = f->e->page_bytes[g], first = (f->e->a / DEV_KV_PAGE + i) * DEV_KV_PAGE;
    if (turns_stop(&e->disk->lock))
        return err_set(err, INFER_ERROR_CANCELLED, "cancelled while writing the cache");
    infer_status st = kv_pages_ready(&page, 1, f->cancel, err); /* damage must not get a good checksum */
    if (st == INFER_OK)
        st = page_room(e, bytes, err);
    if (st == INFER_OK)
        st = engine_take(e, f->cancel, err);
    if (st != INFER_OK)
        return st;
    e->dev->ops->read(e->dev, e->disk->room, page->data, bytes);
    st = e->dev->ops->sync(e->dev, err);
    engine_give(e);
    if (st == INFER_OK && f->e->b < first + DEV_KV_PAGE) /* what lies behind is of others */
        net_kv_blank(model->net, (int32_t)(uint32_t)f->e->domain.type, g, e->disk->room, (uint32_t)(f->e->b - first));
    *data = e->disk->room;
    return st;
}

/* CANCELLED: the piece has been put back. Otherwise it is gone; what the cache still keeps of one that was not written is written later, unless that
 * cannot be, ever: the model's file has CHANGED. */
static infer_status write_one(infer_engine *e, struct kv_evicted *piece, const infer_cancel *cancel, infer_error *err)
{
    struct fetching f = {e, piece, cancel};
    struct kv_spill_id id;
    infer_model *model = (infer_model *)(uintptr_t)piece->domain.owner;
    infer_status st = make_id(&id, &piece->domain, model, piece->page_bytes, piece->n_groups, err);
    if (st == INFER_OK)
        st = kv_spill_put(e->disk->spill, &id, piece, fetch, &f, cancel, err);
    if (st == INFER_ERROR_CANCELLED) {
        kv_cache_put_back(e->cache, piece);
    } else {
        if (st != INFER_OK && st != INFER_ERROR_CHANGED)
            kv_cache_unwritten(e->cache, piece);
        kv_evicted_free(e->cache, piece);
    }
    return st;
}

void prefix_disk_write(infer_engine *e, const infer_cancel *cancel)
{
    if (e->disk && kv_cache_has_evicted(e->cache))
        prefix_disk_write_now(e, cancel);
}

void prefix_disk_write_now(infer_engine *e, const infer_cancel *cancel)
{
    if (!e->disk || !turns_take(&e->disk->lock, cancel))
        return;
    infer_status st = INFER_OK;
    for (struct kv_evicted *piece; st != INFER_ERROR_CANCELLED && (piece = kv_cache_evicted(e->cache)) != NULL;) {
        infer_error err = {0};
        st = write_one(e, piece, cancel, &err);
        if (st != INFER_OK && st != INFER_ERROR_CANCELLED)
            env_log(e->env, INFER_LOG_WARNING, "evicted state was not written: %s", err.text);
    }
    turns_give(&e->disk->lock);
}

infer_status prefix_disk_flush(infer_engine *e, const infer_cancel *cancel, infer_error *err)
{
    infer_status st = INFER_OK, changed = INFER_OK;
    infer_error why = {0};
    if (!e->disk)
        return err_set(err, INFER_ERROR_STATE, "the engine has no cache_dir");
    if (!turns_take(&e->disk->lock, cancel))
        return err_set(err, INFER_ERROR_CANCELLED, "cancelled");
    while (st == INFER_OK) {
        struct kv_evicted *piece = kv_cache_evicted(e->cache); /* what a cancelled call put back */
        if (!piece)
            st = kv_cache_unspilled(e->cache, &piece, err);
        if (!piece)
            break;
        st = write_one(e, piece, cancel, err);
        if (st == INFER_ERROR_CHANGED) { /* a model's pieces do not keep those of others from being written */
            changed = st;
            why = err ? *err : why;
            st = INFER_OK;
        }
    }
    if (st == INFER_OK && changed != INFER_OK) {
        st = changed;
        if (err)
            *err = why;
    }
    turns_give(&e->disk->lock);
    return st;
}

/* ---- Reading ---- */

static infer_status load_page(infer_engine *e, const struct kv_spill_hit *h, const struct kv_place *p, uint64_t bytes,
                              struct kv_page **out, const infer_cancel *cancel, infer_error *err)
{
    infer_status st = kv_place_check(h->file, p, err);
    if (st == INFER_OK && p->flags)
        st = kv_file_bad(h->file, p->offset, err, "a page of a cache is never packed");
    if (st == INFER_OK)
        st = kv_page_new(e->kv, bytes, out, err);
    if (st == INFER_OK)
        st = engine_take(e, cancel, err);
    if (st != INFER_OK)
        return st;
    e->dev->ops->write(e->dev, (*out)->data, kv_place_data(h->file, p), bytes);
    st = e->dev->ops->sync(e->dev, err);
    engine_give(e);
    return st;
}

/* One group's page table, with pages for [a, end) only. */
static infer_status load_table(infer_engine *e, const struct kv_spill_hit *h, uint32_t g, struct kv_seq *table, const infer_cancel *cancel,
                               infer_error *err)
{
    uint64_t first = h->a / DEV_KV_PAGE, n = (h->end + DEV_KV_PAGE - 1) / DEV_KV_PAGE;
    if (!table->page_bytes)
        return INFER_OK;
    struct kv_page **pages = mem_zarray(&e->env->alloc, (size_t)n, sizeof *pages);
    infer_status st = pages ? INFER_OK : err_no_memory(err);
    for (uint64_t i = first; i < n && st == INFER_OK; i++)
        if (h->places[g][i - first].source != KV_PLACE_NONE)
            st = load_page(e, h, &h->places[g][i - first], table->page_bytes, &pages[i], cancel, err);
    if (st == INFER_OK)
        st = kv_seq_adopt(table, e->env, pages, n, err);
    if (st != INFER_OK && pages)
        kv_pages_unref(e->kv, pages, n);
    mem_free(&e->env->alloc, pages);
    return st;
}

/* One file's piece joins the cache; false: nothing is gained by going on. */
static bool load_one(infer_session *s, const struct kv_spill_id *id, const struct kv_domain *d, const struct kv_keys *keys,
                     uint64_t length, const infer_cancel *cancel)
{
    infer_engine *e = s->model->engine;
    struct kv_seq tables[NET_KV_GROUPS];
    struct kv_spill_hit h;
    uint64_t at = kv_cache_matched(e->cache, d, keys, length);
    if (turns_stop(&e->disk->lock) || at + PREFIX_LEAST > length ||
        kv_spill_find(e->disk->spill, id, keys, length, at, &h, cancel, NULL) != INFER_OK || !h.file)
        return false;
    infer_status st = INFER_OK;
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++)
        kv_seq_init(&tables[g], s->kv[g].page_bytes, s->kv[g].window);
    for (uint32_t g = 0; g < NET_KV_GROUPS && st == INFER_OK; g++)
        st = load_table(e, &h, g, &tables[g], cancel, NULL);
    if (st == INFER_OK)
        kv_cache_add(e->cache, d, keys, h.end, tables, NET_KV_GROUPS, true);
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++)
        kv_seq_free(&tables[g], e->kv, e->env);
    kv_spill_done(e->disk->spill, &h, st == INFER_ERROR_FORMAT);
    return st == INFER_ERROR_FORMAT || (st == INFER_OK && kv_cache_matched(e->cache, d, keys, length) > at);
}

void prefix_disk_read(infer_session *s, const struct kv_domain *d, const struct kv_keys *keys, uint64_t length,
                      const infer_cancel *cancel)
{
    infer_engine *e = s->model->engine;
    uint64_t page_bytes[NET_KV_GROUPS];
    struct kv_spill_id id;
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++)
        page_bytes[g] = s->kv[g].page_bytes;
    if (!turns_take(&e->disk->lock, cancel))
        return;
    if (make_id(&id, d, s->model, page_bytes, NET_KV_GROUPS, NULL) == INFER_OK)
        while (load_one(s, &id, d, keys, length, cancel)) {
        }
    turns_give(&e->disk->lock);
}
