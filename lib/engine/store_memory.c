/* A store in memory: names in order, each with a reference on its checkpoint. */
#include "engine/store.h"

#include <string.h>

#include "base/os_thread.h"

struct entry {
    infer_checkpoint *c;
    uint64_t bytes;
    uint32_t name_len;
    char name[STORE_NAME_MAX + 1];
};

struct memory_store {
    infer_store head;
    struct os_mutex lock;
    struct entry **entries; /* by name */
    uint64_t n, cap, bytes;
};

static struct memory_store *memory_of(infer_store *s)
{
    return (struct memory_store *)(void *)s;
}

static const struct alloc *store_alloc(const struct memory_store *m)
{
    return &m->head.engine->env->alloc;
}

static struct store_name entry_name(const struct entry *e)
{
    return (struct store_name){e->name, e->name_len};
}

/* The first entry whose name is not less; *found: whether it is that name. */
static uint64_t search(const struct memory_store *m, struct store_name name, bool *found)
{
    uint64_t lo = 0, hi = m->n;
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        if (store_compare(entry_name(m->entries[mid]), name) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    *found = lo < m->n && !store_compare(entry_name(m->entries[lo]), name);
    return lo;
}

static void remove_at(struct memory_store *m, uint64_t i)
{
    m->bytes -= m->entries[i]->bytes;
    m->n--;
    memmove(m->entries + i, m->entries + i + 1, (size_t)(m->n - i) * sizeof *m->entries);
}

static infer_status insert_at(struct memory_store *m, uint64_t i, struct entry *e, infer_error *err)
{
    if (m->n == m->cap) {
        uint64_t cap = m->cap ? m->cap * 2 : 16;
        struct entry **p = cap > SIZE_MAX / sizeof *p ? NULL : mem_grow(store_alloc(m), m->entries, (size_t)cap * sizeof *p);
        if (!p)
            return err_no_memory(err);
        m->entries = p;
        m->cap = cap;
    }
    memmove(m->entries + i + 1, m->entries + i, (size_t)(m->n - i) * sizeof *m->entries);
    m->entries[i] = e;
    m->n++;
    m->bytes += e->bytes;
    return INFER_OK;
}

/* Puts a new entry in place of one of its name, if flags allow that; *old is what was there. Under the lock. */
static infer_status place(struct memory_store *m, struct entry *e, uint32_t flags, struct entry **old, infer_error *err)
{
    bool found;
    uint64_t i = search(m, entry_name(e), &found), had = found ? m->entries[i]->bytes : 0;
    *old = NULL;
    if (found && !(flags & INFER_STORE_REPLACE))
        return store_exists(entry_name(e), err);
    infer_status st = store_check_limits(&m->head, m->n - found, m->bytes - had, 1, e->bytes, err);
    if (st != INFER_OK || !found)
        return st == INFER_OK ? insert_at(m, i, e, err) : st;
    *old = m->entries[i];
    m->entries[i] = e;
    m->bytes = m->bytes - had + e->bytes;
    return INFER_OK;
}

static struct entry *entry_new(const struct memory_store *m, struct store_name name)
{
    struct entry *e = mem_zalloc(store_alloc(m), sizeof *e);
    if (e) {
        memcpy(e->name, name.data, (size_t)name.len);
        e->name_len = (uint32_t)name.len;
    }
    return e;
}

/* Without the lock: the last reference on a checkpoint may free much. */
static void entry_free(struct memory_store *m, struct entry *e)
{
    if (e)
        checkpoint_release(e->c);
    mem_free(store_alloc(m), e);
}

static infer_status memory_put(infer_store *s, struct store_name name, infer_checkpoint *c, uint32_t flags,
                               const infer_cancel *cancel, infer_error *err)
{
    struct memory_store *m = memory_of(s);
    struct entry *e = entry_new(m, name), *old;
    (void)cancel;
    if (!e)
        return err_no_memory(err);
    e->c = checkpoint_ref(c);
    e->bytes = checkpoint_bytes(c);
    os_mutex_lock(&m->lock);
    infer_status st = place(m, e, flags, &old, err);
    os_mutex_unlock(&m->lock);
    entry_free(m, st == INFER_OK ? old : e);
    return st;
}

static infer_status memory_get(infer_store *s, infer_model *model, struct store_name name, const infer_cancel *cancel,
                               infer_checkpoint **out, infer_error *err)
{
    struct memory_store *m = memory_of(s);
    infer_checkpoint *c = NULL;
    bool found;
    (void)cancel;
    os_mutex_lock(&m->lock);
    uint64_t i = search(m, name, &found);
    if (found)
        c = checkpoint_ref(m->entries[i]->c);
    os_mutex_unlock(&m->lock);
    if (!c)
        return store_not_found(name, err);
    infer_status st = checkpoint_check_model(c, model, err);
    if (st == INFER_OK)
        *out = c;
    else
        checkpoint_release(c);
    return st;
}

static infer_status memory_branch(infer_store *s, struct store_name from, struct store_name to, uint32_t flags,
                                  infer_error *err)
{
    struct memory_store *m = memory_of(s);
    struct entry *e = entry_new(m, to), *old = NULL;
    bool found;
    if (!e)
        return err_no_memory(err);
    os_mutex_lock(&m->lock);
    uint64_t i = search(m, from, &found);
    infer_status st = found ? INFER_OK : store_not_found(from, err);
    if (st == INFER_OK) {
        e->c = checkpoint_ref(m->entries[i]->c);
        e->bytes = m->entries[i]->bytes;
        st = place(m, e, flags, &old, err);
    }
    os_mutex_unlock(&m->lock);
    entry_free(m, st == INFER_OK ? old : e);
    return st;
}

/* Under the lock. An entry of the new name, if flags let it go, becomes *old; nothing can fail once something has changed. */
static infer_status move(struct memory_store *m, struct store_name from, struct store_name to, uint32_t flags, struct entry **old,
                         infer_error *err)
{
    bool found, taken;
    uint64_t i = search(m, from, &found), j;
    if (!found)
        return store_not_found(from, err);
    if (!store_compare(from, to))
        return INFER_OK;
    struct entry *e = m->entries[i];
    j = search(m, to, &taken);
    if (taken && !(flags & INFER_STORE_REPLACE))
        return store_exists(to, err);
    if (taken) {
        *old = m->entries[j];
        remove_at(m, j);
        i -= i > j;
    }
    remove_at(m, i);
    memcpy(e->name, to.data, (size_t)to.len);
    e->name[to.len] = 0;
    e->name_len = (uint32_t)to.len;
    return insert_at(m, search(m, to, &taken), e, err); /* there is room for it */
}

static infer_status memory_rename(infer_store *s, struct store_name from, struct store_name to, uint32_t flags,
                                  infer_error *err)
{
    struct memory_store *m = memory_of(s);
    struct entry *old = NULL;
    os_mutex_lock(&m->lock);
    infer_status st = move(m, from, to, flags, &old, err);
    os_mutex_unlock(&m->lock);
    entry_free(m, old);
    return st;
}

static infer_status memory_remove(infer_store *s, struct store_name name, infer_error *err)
{
    struct memory_store *m = memory_of(s);
    struct entry *e = NULL;
    bool found;
    os_mutex_lock(&m->lock);
    uint64_t i = search(m, name, &found);
    if (found) {
        e = m->entries[i];
        remove_at(m, i);
    }
    os_mutex_unlock(&m->lock);
    entry_free(m, e);
    return found ? INFER_OK : store_not_found(name, err);
}

static infer_status memory_next(infer_store *s, struct store_name after, infer_store_entry *out, infer_error *err)
{
    struct memory_store *m = memory_of(s);
    bool found;
    os_mutex_lock(&m->lock);
    uint64_t i = search(m, after, &found);
    i += found;
    const struct entry *e = i < m->n ? m->entries[i] : NULL;
    if (e) {
        const infer_session *frozen = e->c->frozen;
        *out = (infer_store_entry){.size = (uint32_t)sizeof *out, .name_len = e->name_len, .bytes = e->bytes,
                                   .length = frozen->length, .computed = frozen->computed, .kv_type = frozen->kv_type,
                                   .approximate = session_is_approximate(frozen)};
        memcpy(out->name, e->name, sizeof e->name);
    }
    os_mutex_unlock(&m->lock);
    return e ? INFER_OK : err_set(err, INFER_ERROR_NOT_FOUND, "no further checkpoint");
}

static infer_status memory_info(infer_store *s, infer_store_info *out, infer_error *err)
{
    struct memory_store *m = memory_of(s);
    (void)err;
    os_mutex_lock(&m->lock);
    out->count = m->n;
    out->bytes = m->bytes;
    os_mutex_unlock(&m->lock);
    return INFER_OK;
}

static void memory_destroy(infer_store *s)
{
    struct memory_store *m = memory_of(s);
    for (uint64_t i = 0; i < m->n; i++)
        entry_free(m, m->entries[i]);
    os_mutex_destroy(&m->lock);
    mem_free(store_alloc(m), m->entries);
    mem_free(store_alloc(m), m);
}

static const struct store_ops memory_ops = {
    .put = memory_put, .get = memory_get, .branch = memory_branch, .rename = memory_rename, .remove = memory_remove,
    .next = memory_next, .get_info = memory_info, .destroy = memory_destroy,
};

infer_status store_memory_open(infer_engine *engine, const infer_store_options *options, infer_store **out, infer_error *err)
{
    struct memory_store *m = mem_zalloc(&engine->env->alloc, sizeof *m);
    if (!m || !os_mutex_init(&m->lock)) {
        mem_free(&engine->env->alloc, m);
        return err_no_memory(err);
    }
    store_init(&m->head, &memory_ops, engine, options);
    *out = &m->head;
    return INFER_OK;
}
