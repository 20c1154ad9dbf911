#include "kv/kv_tree.h"

#include <string.h>
#include "infer/state.h"

#define SCAN 64u /* how many siblings, other domains or pinned nodes are looked at before giving up */

infer_status kv_cache_create(const struct env *env, struct kv_pool *pool, const struct kv_cache_options *o,
                             struct kv_cache **out, infer_error *err)
{
    struct kv_cache *c = mem_zalloc(&env->alloc, sizeof *c);
    if (!c)
        return err_no_memory(err);
    c->env = env;
    c->pool = pool;
    c->o = *o;
    c->evicted_end = &c->evicted;
    c->n_buckets = o->max_buckets && o->max_buckets < 64 ? 1 : 64; /* a power of two */
    c->buckets = mem_zarray(&env->alloc, (size_t)c->n_buckets, sizeof *c->buckets);
    if (!c->buckets || !os_mutex_init(&c->lock)) {
        mem_free(&env->alloc, c->buckets);
        mem_free(&env->alloc, c);
        return err_no_memory(err);
    }
    *out = c;
    return INFER_OK;
}

void kv_cache_destroy(struct kv_cache *c)
{
    if (!c)
        return;
    kv_cache_drop(c, NULL);
    for (struct kv_evicted *e; (e = kv_cache_evicted(c)) != NULL;)
        kv_evicted_free(c, e);
    os_mutex_destroy(&c->lock);
    mem_free(&c->env->alloc, c->buckets);
    mem_free(&c->env->alloc, c);
}

/* ---- Eviction ---- */

static uint64_t bytes_now(const struct kv_cache *c)
{
    return c->page_bytes + c->live.key_bytes;
}

static void trim_ghosts(struct kv_cache *c)
{
    while (c->ghosts.oldest && c->ghosts.key_bytes + c->ghosts.count * sizeof(struct kv_node) > c->o.ghost_bytes) {
        struct kv_tree *t = c->ghosts.oldest->tree;
        node_remove(c, c->ghosts.oldest);
        tree_drop_empty(c, t);
    }
}

static void hand_out(struct kv_cache *c, struct kv_node *n)
{
    struct kv_evicted *e = node_copy(c, n);
    if (!e)
        return;
    n->spilled = true;
    *c->evicted_end = e;
    c->evicted_end = &e->next;
}

/* Evicts the oldest leaf that gives something back; pinned ones on the way count as used just now. False: after `patience` of them, or
 * when nothing is left. */
static bool evict_one(struct kv_cache *c, uint64_t *patience, bool spill, uint64_t *freed)
{
    struct kv_node *n = c->live.oldest;
    while (n && node_pinned(c, n)) {
        if (*patience == 0)
            return false;
        --*patience;
        node_touch(c, n);
        n = c->live.oldest;
    }
    if (!n)
        return false;
    if (spill && !n->spilled)
        hand_out(c, n);
    *freed += node_evict(c, n);
    c->stats.evictions++;
    return true;
}

static void trim(struct kv_cache *c)
{
    uint64_t patience = SCAN, freed = 0;
    while (bytes_now(c) > c->o.bytes && evict_one(c, &patience, c->o.spill, &freed)) {
    }
    trim_ghosts(c);
}

void kv_cache_trim(struct kv_cache *c)
{
    os_mutex_lock(&c->lock);
    trim(c);
    os_mutex_unlock(&c->lock);
}

bool kv_cache_reclaim(struct kv_cache *c)
{
    os_mutex_lock(&c->lock);
    uint64_t patience = c->live.count, freed = 0, before = c->stats.evictions;
    while (!freed && evict_one(c, &patience, false, &freed)) {
    }
    trim_ghosts(c);
    bool any = c->stats.evictions != before;
    os_mutex_unlock(&c->lock);
    if (freed)
        return true;
    struct kv_evicted *e = kv_cache_evicted(c); /* waits for somebody to write it, with pages that are needed now */
    if (e)
        kv_evicted_free(c, e);
    return any || e;
}

void kv_cache_drop(struct kv_cache *c, const void *owner)
{
    os_mutex_lock(&c->lock);
    for (struct kv_tree *t = c->newest_tree, *older; t; t = older) {
        older = t->older;
        if (!owner || t->domain.owner == owner)
            tree_drop(c, t);
    }
    os_mutex_unlock(&c->lock);
}

struct kv_evicted *kv_cache_evicted(struct kv_cache *c)
{
    os_mutex_lock(&c->lock);
    struct kv_evicted *e = c->evicted;
    if (e) {
        c->evicted = e->next;
        if (!c->evicted)
            c->evicted_end = &c->evicted;
        e->next = NULL;
    }
    os_mutex_unlock(&c->lock);
    return e;
}

void kv_cache_put_back(struct kv_cache *c, struct kv_evicted *e)
{
    os_mutex_lock(&c->lock);
    e->next = c->evicted;
    c->evicted = e;
    if (!e->next)
        c->evicted_end = &e->next;
    os_mutex_unlock(&c->lock);
}

bool kv_cache_has_evicted(struct kv_cache *c)
{
    os_mutex_lock(&c->lock);
    bool any = c->evicted != NULL;
    os_mutex_unlock(&c->lock);
    return any;
}

infer_status kv_cache_unspilled(struct kv_cache *c, struct kv_evicted **out, infer_error *err)
{
    os_mutex_lock(&c->lock);
    struct kv_node *n = c->live.newest; /* parents before children */
    while (n && n->spilled)
        n = n->older;
    *out = n ? node_copy(c, n) : NULL;
    if (*out)
        n->spilled = true;
    os_mutex_unlock(&c->lock);
    return n && !*out ? err_no_memory(err) : INFER_OK;
}

void kv_cache_unwritten(struct kv_cache *c, const struct kv_evicted *e)
{
    os_mutex_lock(&c->lock);
    struct kv_tree *t = tree_find(c, &e->domain);
    struct kv_keys keys = kv_keys_of(e->keys);
    struct kv_node *n = t ? tree_match(c, t, &keys, e->b).node : NULL;
    for (; n && n->parent && n->b > e->a; n = n->parent) /* it may have been cut since */
        n->spilled = false;
    os_mutex_unlock(&c->lock);
}

void kv_evicted_free(struct kv_cache *c, struct kv_evicted *e)
{
    kv_pages_unref(c->pool, e->pages, e->per * e->n_groups);
    mem_free(&c->env->alloc, e->keys);
    mem_free(&c->env->alloc, e->pages);
    mem_free(&c->env->alloc, e);
}

/* ---- Adding ---- */

/* Ghosts on the way to n come back to life, from the top; windows that others dropped are filled. */
static bool fill_path(struct kv_cache *c, struct kv_node *n, const struct kv_seq *tables)
{
    while (!node_is_live(n)) {
        struct kv_node *top = n;
        while (!node_is_live(top->parent))
            top = top->parent;
        if (!node_fill(c, top, tables))
            return false;
    }
    for (; n->parent; n = n->parent)
        node_fill(c, n, tables);
    return true;
}

static void add(struct kv_cache *c, struct kv_tree *t, const struct kv_keys *keys, uint64_t length,
                const struct kv_seq *tables, bool spilled)
{
    struct kv_match m = tree_match(c, t, keys, length);
    struct kv_node *n = m.node;
    if (m.at < n->b) { /* within an edge: cut it, unless all that is of use is there */
        if (m.at == length && m.live == n && tree_resume(n, length) == length) {
            node_touch(c, n);
            return;
        }
        n = node_split(c, n, m.at);
        if (!n)
            return;
    }
    if (!fill_path(c, n, tables))
        return;
    if (m.at < length) {
        struct kv_node *more = node_new(c, n, keys, length, tables);
        n = more ? more : n;
        c->stats.insertions += more != NULL;
        n->spilled = more ? spilled : n->spilled;
    }
    node_touch(c, n);
}

void kv_cache_add(struct kv_cache *c, const struct kv_domain *d, const struct kv_keys *keys, uint64_t length,
                  const struct kv_seq *tables, uint32_t n_groups, bool spilled)
{
    if (!length || n_groups > KV_CACHE_GROUPS)
        return;
    os_mutex_lock(&c->lock);
    struct kv_tree *t = tree_find(c, d);
    if (!t)
        t = tree_new(c, d, tables, n_groups);
    if (t) {
        add(c, t, keys, length, tables, spilled);
        tree_drop_empty(c, t);
        trim(c);
    }
    os_mutex_unlock(&c->lock);
}

/* ---- Looking up ---- */

uint64_t kv_cache_matched(struct kv_cache *c, const struct kv_domain *d, const struct kv_keys *keys, uint64_t length)
{
    os_mutex_lock(&c->lock);
    struct kv_tree *t = tree_find(c, d);
    uint64_t at = t ? tree_match(c, t, keys, length).live_at : 0;
    os_mutex_unlock(&c->lock);
    return at;
}

/* A stored prefix that goes on where the keys do not, as short as a short search finds one; 0: none. *first: its key there. */
static uint64_t other_way(const struct kv_match *m, const struct kv_key *mine, bool *adapters_only)
{
    const struct kv_node *n = m->node;
    uint64_t shortest = 0;
    *adapters_only = false;
    if (m->at < n->b) {
        *adapters_only = kv_key_same_input(&n->keys[m->at - n->a], mine);
        return n->b;
    }
    n = n->child;
    for (uint32_t i = 0; n && i < SCAN; i++, n = n->next) {
        *adapters_only = *adapters_only || kv_key_same_input(&n->keys[0], mine);
        shortest = !shortest || n->b < shortest ? n->b : shortest;
    }
    return shortest;
}

/* Whether another salt (or, with the same salt, another KV type) of the same model has more than `at` elements of it. */
static int32_t other_domain(struct kv_cache *c, const struct kv_cache_query *q, uint64_t at, int32_t *own_reason)
{
    int32_t reason = 0;
    const struct kv_tree *t = c->newest_tree;
    for (uint32_t i = 0; t && i < SCAN; i++, t = t->older) {
        const struct kv_domain *d = &t->domain;
        bool type = d->type == q->domain->type;
        bool salt = d->salt_len == q->domain->salt_len && !memcmp(d->salt, q->domain->salt, sizeof d->salt);
        if (d->owner != q->domain->owner || type == salt)
            continue;
        if (tree_match(c, tree_find(c, d), q->keys, q->length).live_at <= at)
            continue;
        if (!type)
            *own_reason = INFER_CACHE_REASON_OTHER_KV_TYPE;
        if (reason != INFER_CACHE_REASON_OTHER_SALT)
            reason = type ? INFER_CACHE_REASON_OTHER_SALT : INFER_CACHE_REASON_OTHER_KV_TYPE;
    }
    return reason;
}

/* Why no more than m was found. */
static void explain(struct kv_cache *c, const struct kv_cache_query *q, const struct kv_match *m, bool stored,
                    struct kv_cache_found *f)
{
    struct kv_key mine = {0};
    bool adapters = false;
    uint64_t other = 0;
    if (m->at < q->length) {
        q->keys->get(q->keys->user, m->at, 1, &mine);
        other = stored ? other_way(m, &mine, &adapters) : 0;
    }
    if (other && m->at >= KV_NEAR_LEAST && m->at >= other - other / 10)
        f->near_length = other;
    f->difference = m->live_at;
    f->reason = f->own_reason = INFER_CACHE_REASON_HIT;
    if (m->live_at >= q->at_most)
        return;
    f->reason = m->at > m->live_at ? INFER_CACHE_REASON_EVICTED : adapters ? INFER_CACHE_REASON_OTHER_ADAPTERS : 0;
    f->own_reason = f->reason;
    if (f->reason)
        return;
    f->own_reason = other ? INFER_CACHE_REASON_DIFFERS : stored ? INFER_CACHE_REASON_ENDS : INFER_CACHE_REASON_EMPTY;
    f->reason = other_domain(c, q, m->at, &f->own_reason);
    if (!f->reason)
        f->reason = f->own_reason;
}

/* One group's page table for the first r elements on the way to n. */
static infer_status make_table(struct kv_cache *c, const struct kv_node *n, uint32_t g, uint64_t r, struct kv_seq *table,
                               infer_error *err)
{
    uint64_t count = (r + DEV_KV_PAGE - 1) / DEV_KV_PAGE;
    struct kv_page **pages = mem_zarray(&c->env->alloc, (size_t)count, sizeof *pages);
    if (!pages)
        return err_no_memory(err);
    for (uint64_t i = count; i-- > 0;) {
        while (n->a / DEV_KV_PAGE > i)
            n = n->parent;
        pages[i] = tree_page(n, g, i, r);
    }
    kv_pages_ref(c->pool, pages, count);
    infer_status st = kv_seq_adopt(table, c->env, pages, count, err);
    if (st != INFER_OK)
        kv_pages_unref(c->pool, pages, count);
    mem_free(&c->env->alloc, pages);
    return st;
}

static infer_status make_tables(struct kv_cache *c, const struct kv_node *n, uint64_t r, struct kv_seq *tables,
                                infer_error *err)
{
    infer_status st = INFER_OK;
    for (uint32_t g = 0; g < n->tree->n_groups && st == INFER_OK; g++)
        if (n->tree->page_bytes[g])
            st = make_table(c, n, g, r, &tables[g], err);
    return st;
}

static infer_status find(struct kv_cache *c, const struct kv_cache_query *q, struct kv_seq *tables, uint32_t n_groups,
                         struct kv_cache_found *f, infer_error *err)
{
    struct kv_tree *t = tree_find(c, q->domain);
    struct kv_match m = {0};
    uint64_t r = 0;
    if (t && t->n_groups == n_groups) {
        m = tree_match(c, t, q->keys, q->length);
        f->matched = m.live_at < q->at_most ? m.live_at : q->at_most;
        r = f->matched > q->have ? tree_resume(m.live, f->matched) : 0;
        node_touch(c, m.node);
    }
    bool use = r > q->have;
    if (use) {
        infer_status st = make_tables(c, m.live, r, tables, err);
        if (st != INFER_OK) {
            for (uint32_t g = 0; g < n_groups; g++)
                kv_seq_free(&tables[g], c->pool, c->env);
            return st;
        }
        f->reused = r;
    }
    if (use || !q->quiet) {
        explain(c, q, &m, t != NULL, f);
        c->stats.lookups++;
        c->stats.hits += use && f->reason == INFER_CACHE_REASON_HIT;
        c->stats.partial_hits += use && f->reason != INFER_CACHE_REASON_HIT;
        c->stats.saved += use ? r - q->have : 0;
        c->stats.rerun += use ? f->matched - r : 0;
    }
    return INFER_OK;
}

infer_status kv_cache_find(struct kv_cache *c, const struct kv_cache_query *q, struct kv_seq *tables, uint32_t n_groups,
                           struct kv_cache_found *found, infer_error *err)
{
    *found = (struct kv_cache_found){.reused = 0};
    os_mutex_lock(&c->lock);
    infer_status st = find(c, q, tables, n_groups, found, err);
    os_mutex_unlock(&c->lock);
    return st;
}

void kv_cache_get_stats(struct kv_cache *c, struct kv_cache_stats *out)
{
    os_mutex_lock(&c->lock);
    *out = c->stats;
    out->bytes = bytes_now(c);
    out->nodes = c->live.count;
    out->ghosts = c->ghosts.count;
    out->ghost_bytes = c->ghosts.key_bytes + c->ghosts.count * sizeof(struct kv_node);
    os_mutex_unlock(&c->lock);
}

/* ---- Checks ---- */

static bool node_good(const struct kv_node *n, uint64_t *nodes)
{
    uint32_t live = 0;
    const struct kv_node *prev = NULL;
    for (const struct kv_node *k = n->child; k; prev = k, k = k->next) {
        if (k->parent != n || k->tree != n->tree || k->prev != prev || k->a != n->b || k->b <= k->a)
            return false;
        if (k->pages && !node_is_live(n))
            return false;
        live += k->pages != NULL;
        ++*nodes;
        for (const struct kv_node *o = k->next; o; o = o->next)
            if (kv_key_equal(&o->keys[0], &k->keys[0]))
                return false;
    }
    return live == n->n_live;
}

static const struct kv_node *after(const struct kv_node *n) /* depth first */
{
    if (n->child)
        return n->child;
    while (n && !n->next)
        n = n->parent;
    return n ? n->next : NULL;
}

/* Links both ways, and every parent newer than its children: none is met before its last child. */
static bool list_good(const struct kv_use_list *l, bool live)
{
    uint64_t n = 0, bytes = 0;
    const struct kv_node *newer = NULL;
    for (const struct kv_node *k = l->newest; k; newer = k, k = k->older) {
        if (k->newer != newer || (k->pages != NULL) != live)
            return false;
        for (const struct kv_node *o = k->older; o; o = o->older)
            if (k->parent == o) /* an older parent */
                return false;
        n++;
        bytes += (k->b - k->a) * sizeof *k->keys;
    }
    return n == l->count && bytes == l->key_bytes && l->oldest == newer;
}

bool kv_cache_check(struct kv_cache *c)
{
    uint64_t nodes = 0;
    os_mutex_lock(&c->lock);
    bool good = list_good(&c->live, true) && list_good(&c->ghosts, false);
    for (const struct kv_tree *t = c->newest_tree; t && good; t = t->older) {
        good = t->root.child != NULL;
        for (const struct kv_node *n = &t->root; n && good; n = after(n))
            good = node_good(n, &nodes);
    }
    good = good && nodes == c->live.count + c->ghosts.count;
    os_mutex_unlock(&c->lock);
    return good;
}
