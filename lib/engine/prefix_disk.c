/* The disk tier of the prefix cache (lib/kv/kv_spill.h) and what it needs of an engine: pages' data, and who a model is.
 *
 * disk->lock is taken before the step lock and the cache's. A model does not go while a piece of its state is being written: model_release
 * comes through here first. */
#include "engine/engine.h"

#include "engine/checkpoint_file.h"

#include <string.h>

#include "kv/kv_spill.h"

struct prefix_disk {
    struct os_mutex lock;
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
    if (!d || !os_mutex_init(&d->lock)) {
        mem_free(&e->env->alloc, d);
        return err_no_memory(err);
    }
    infer_status st = kv_spill_open(e->env, o->cache_dir, o->cache_dir_len, &so, &d->spill, err);
    if (st != INFER_OK) {
        os_mutex_destroy(&d->lock);
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
    os_mutex_destroy(&e->disk->lock);
    mem_free(&e->env->alloc, e->disk->room);
    mem_free(&e->env->alloc, e->disk);
}

void prefix_disk_get_stats(infer_engine *e, struct kv_spill_stats *out)
{
    *out = (struct kv_spill_stats){0};
    if (!e->disk)
        return;
    os_mutex_lock(&e->disk->lock);
    kv_spill_get_stats(e->disk->spill, out);
    os_mutex_unlock(&e->disk->lock);
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
};

static infer_status fetch(void *user, uint32_t g, uint64_t i, const void **data, infer_error *err)
{
    const struct fetching *f = user;
    infer_engine *e = f->engine;
    infer_model *model = (infer_model *)(uintptr_t)f->e->domain.owner;
    struct kv_page *page = f->e->pages[g * f->e->per + i];
    uint64_t bytes = f->e->page_bytes[g], first = (f->e->a / DEV_KV_PAGE + i) * DEV_KV_PAGE;
    infer_status st = kv_pages_ready(&page, 1, err); /* damage must not get a good checksum */
    if (st == INFER_OK)
        st = page_room(e, bytes, err);
    if (st != INFER_OK)
        return st;
    turns_take(&e->step_lock);
    e->dev->ops->read(e->dev, e->disk->room, page->data, bytes);
    st = e->dev->ops->sync(e->dev, err);
    turns_give(&e->step_lock);
    if (st == INFER_OK && f->e->b < first + DEV_KV_PAGE) /* what lies behind is of others */
        net_kv_blank(model->net, (int32_t)(uint32_t)f->e->domain.type, g, e->disk->room, (uint32_t)(f->e->b - first));
    *data = e->disk->room;
    return st;
}

static infer_status write_one(infer_engine *e, const struct kv_evicted *piece, infer_error *err)
{
    struct fetching f = {e, piece};
    struct kv_spill_id id;
    infer_model *model = (infer_model *)(uintptr_t)piece->domain.owner;
    infer_status st = make_id(&id, &piece->domain, model, piece->page_bytes, piece->n_groups, err);
    return st == INFER_OK ? kv_spill_put(e->disk->spill, &id, piece, fetch, &f, err) : st;
}

void prefix_disk_write(infer_engine *e)
{
    if (e->disk && kv_cache_has_evicted(e->cache))
        prefix_disk_write_now(e);
}

void prefix_disk_write_now(infer_engine *e)
{
    if (!e->disk)
        return;
    os_mutex_lock(&e->disk->lock);
    for (struct kv_evicted *piece; (piece = kv_cache_evicted(e->cache)) != NULL; kv_evicted_free(e->cache, piece)) {
        infer_error err = {0};
        if (write_one(e, piece, &err) != INFER_OK)
            env_log(e->env, INFER_LOG_WARNING, "evicted state was not written: %s", err.text);
    }
    os_mutex_unlock(&e->disk->lock);
}

infer_status prefix_disk_flush(infer_engine *e, infer_cancel *cancel, infer_error *err)
{
    infer_status st = INFER_OK;
    if (!e->disk)
        return err_set(err, INFER_ERROR_STATE, "the engine has no cache_dir");
    os_mutex_lock(&e->disk->lock);
    struct kv_evicted *piece;
    while (st == INFER_OK && (piece = kv_cache_unspilled(e->cache)) != NULL) {
        st = cancel_is_set(cancel) ? err_set(err, INFER_ERROR_CANCELLED, "cancelled") : write_one(e, piece, err);
        kv_evicted_free(e->cache, piece);
    }
    os_mutex_unlock(&e->disk->lock);
    return st;
}

/* ---- Reading ---- */

static infer_status load_page(infer_engine *e, const struct kv_spill_hit *h, const struct kv_place *p, uint64_t bytes,
                              struct kv_page **out, infer_error *err)
{
    infer_status st = kv_place_check(h->file, p, err);
    if (st == INFER_OK && p->flags)
        st = kv_file_bad(h->file, p->offset, err, "a page of a cache is never packed");
    if (st == INFER_OK)
        st = kv_page_new(e->kv, bytes, out, err);
    if (st != INFER_OK)
        return st;
    turns_take(&e->step_lock);
    e->dev->ops->write(e->dev, (*out)->data, kv_place_data(h->file, p), bytes);
    st = e->dev->ops->sync(e->dev, err);
    turns_give(&e->step_lock);
    return st;
}

/* One group's page table, with pages for [a, end) only. */
static infer_status load_table(infer_engine *e, const struct kv_spill_hit *h, uint32_t g, struct kv_seq *table, infer_error *err)
{
    uint64_t first = h->a / DEV_KV_PAGE, n = (h->end + DEV_KV_PAGE - 1) / DEV_KV_PAGE;
    if (!table->page_bytes)
        return INFER_OK;
    struct kv_page **pages = mem_zarray(&e->env->alloc, (size_t)n, sizeof *pages);
    infer_status st = pages ? INFER_OK : err_no_memory(err);
    for (uint64_t i = first; i < n && st == INFER_OK; i++)
        if (h->places[g][i - first].source != KV_PLACE_NONE)
            st = load_page(e, h, &h->places[g][i - first], table->page_bytes, &pages[i], err);
    if (st == INFER_OK)
        st = kv_seq_adopt(table, e->env, pages, n, err);
    if (st != INFER_OK && pages)
        kv_pages_unref(e->kv, pages, n);
    mem_free(&e->env->alloc, pages);
    return st;
}

/* One file's piece joins the cache; false: nothing is gained by going on. */
static bool load_one(infer_session *s, const struct kv_spill_id *id, const struct kv_domain *d, const struct kv_keys *keys,
                     uint64_t length)
{
    infer_engine *e = s->model->engine;
    struct kv_seq tables[NET_KV_GROUPS];
    struct kv_spill_hit h;
    uint64_t at = kv_cache_matched(e->cache, d, keys, length);
    if (at + PREFIX_LEAST > length || kv_spill_find(e->disk->spill, id, keys, length, at, &h, NULL) != INFER_OK || !h.file)
        return false;
    infer_status st = INFER_OK;
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++)
        kv_seq_init(&tables[g], s->kv[g].page_bytes, s->kv[g].window);
    for (uint32_t g = 0; g < NET_KV_GROUPS && st == INFER_OK; g++)
        st = load_table(e, &h, g, &tables[g], NULL);
    if (st == INFER_OK)
        kv_cache_add(e->cache, d, keys, h.end, tables, NET_KV_GROUPS, true);
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++)
        kv_seq_free(&tables[g], e->kv, e->env);
    kv_spill_done(e->disk->spill, &h, st == INFER_ERROR_FORMAT);
    return st == INFER_ERROR_FORMAT || (st == INFER_OK && kv_cache_matched(e->cache, d, keys, length) > at);
}

void prefix_disk_read(infer_session *s, const struct kv_domain *d, const struct kv_keys *keys, uint64_t length)
{
    infer_engine *e = s->model->engine;
    uint64_t page_bytes[NET_KV_GROUPS];
    struct kv_spill_id id;
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++)
        page_bytes[g] = s->kv[g].page_bytes;
    os_mutex_lock(&e->disk->lock);
    if (make_id(&id, d, s->model, page_bytes, NET_KV_GROUPS, NULL) == INFER_OK)
        while (load_one(s, &id, d, keys, length)) {
        }
    os_mutex_unlock(&e->disk->lock);
}
