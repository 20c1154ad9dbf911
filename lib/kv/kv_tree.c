#include "kv/kv_tree.h"

#include <string.h>

#include "base/map.h"

#define PAGE ((uint64_t)DEV_KV_PAGE)

/* ---- Lists of last use ---- */

static void use_unlink(struct kv_use_list *l, struct kv_node *n)
{
    *(n->newer ? &n->newer->older : &l->newest) = n->older;
    *(n->older ? &n->older->newer : &l->oldest) = n->newer;
    n->newer = n->older = NULL;
    l->count--;
    l->key_bytes -= (n->b - n->a) * sizeof *n->keys;
}

/* before: the neighbour that shall be older; NULL: n becomes the oldest. */
static void use_link(struct kv_use_list *l, struct kv_node *n, struct kv_node *before)
{
    n->older = before;
    n->newer = before ? before->newer : l->oldest;
    *(n->newer ? &n->newer->older : &l->newest) = n;
    *(before ? &before->newer : &l->oldest) = n;
    l->count++;
    l->key_bytes += (n->b - n->a) * sizeof *n->keys;
}

static struct kv_use_list *list_of(struct kv_cache *c, const struct kv_node *n)
{
    return n->pages ? &c->live : &c->ghosts;
}

void node_touch(struct kv_cache *c, struct kv_node *n)
{
    tree_touch(c, n->tree);
    for (; n->parent; n = n->parent) { /* the upper ones last: they are newer */
        struct kv_use_list *l = list_of(c, n);
        use_unlink(l, n);
        use_link(l, n, l->newest);
    }
}

/* ---- Children by first key ---- */

static struct kv_node **bucket(const struct kv_cache *c, const struct kv_node *parent, const struct kv_key *first)
{
    struct {
        const void *parent;
        struct kv_key key;
    } h;
    memset(&h, 0, sizeof h);
    h.parent = parent;
    h.key = *first;
    return &c->buckets[hash_bytes(&h, sizeof h) & (c->n_buckets - 1)];
}

static void hash_link(struct kv_cache *c, struct kv_node *n)
{
    struct kv_node **p = bucket(c, n->parent, &n->keys[0]);
    n->chain = *p;
    *p = n;
}

static void hash_unlink(struct kv_cache *c, struct kv_node *n)
{
    struct kv_node **p = bucket(c, n->parent, &n->keys[0]);
    while (*p != n)
        p = &(*p)->chain;
    *p = n->chain;
}

/* Without memory the chains just get longer. */
static void hash_grow(struct kv_cache *c)
{
    uint64_t old_n = c->n_buckets;
    if (c->live.count + c->ghosts.count <= old_n || (c->o.max_buckets && old_n >= c->o.max_buckets))
        return;
    struct kv_node **more = mem_zarray(&c->env->alloc, (size_t)old_n * 2, sizeof(void *)), **old = c->buckets;
    if (!more)
        return;
    c->buckets = more;
    c->n_buckets = old_n * 2;
    for (uint64_t i = 0; i < old_n; i++)
        for (struct kv_node *n = old[i], *next; n; n = next) {
            next = n->chain;
            hash_link(c, n);
        }
    mem_free(&c->env->alloc, old);
}

static struct kv_node *child_of(const struct kv_cache *c, const struct kv_node *parent, const struct kv_key *first)
{
    struct kv_node *n = *bucket(c, parent, first);
    while (n && (n->parent != parent || !kv_key_equal(&n->keys[0], first)))
        n = n->chain;
    return n;
}

/* ---- Pages of a node ---- */

static uint64_t page_count(uint64_t a, uint64_t b)
{
    return (b + PAGE - 1) / PAGE - a / PAGE;
}

static struct kv_page **slot(const struct kv_node *n, uint32_t g, uint64_t i)
{
    return &n->pages[g * page_count(n->a, n->b) + (i - n->a / PAGE)];
}

static struct kv_page *hold(struct kv_cache *c, const struct kv_tree *t, uint32_t g, struct kv_page *page)
{
    if (page) {
        kv_page_ref(c->pool, page);
        if (page->cached++ == 0)
            c->page_bytes += t->page_bytes[g];
    }
    return page;
}

/* Returns the bytes that nobody holds now. */
static uint64_t let_go(struct kv_cache *c, const struct kv_tree *t, uint32_t g, struct kv_page *page)
{
    if (!page)
        return 0;
    if (--page->cached == 0)
        c->page_bytes -= t->page_bytes[g];
    bool last = page->cached == 0 && kv_page_refs(c->pool, page) == 1;
    kv_page_unref(c->pool, page);
    return last ? t->page_bytes[g] : 0;
}

static uint64_t drop_pages(struct kv_cache *c, struct kv_node *n)
{
    uint64_t freed = 0, per = page_count(n->a, n->b);
    for (uint32_t g = 0; g < n->tree->n_groups; g++)
        for (uint64_t i = 0; i < per; i++)
            freed += let_go(c, n->tree, g, n->pages[g * per + i]);
    mem_free(&c->env->alloc, n->pages);
    n->pages = NULL;
    return freed;
}

static struct kv_page **pages_array(struct kv_cache *c, const struct kv_tree *t, uint64_t a, uint64_t b)
{
    return mem_zarray(&c->env->alloc, (size_t)page_count(a, b) * t->n_groups, sizeof(struct kv_page *));
}

static void fill_slots(struct kv_cache *c, struct kv_node *n, const struct kv_seq *seqs)
{
    for (uint32_t g = 0; g < n->tree->n_groups; g++)
        for (uint64_t i = n->a / PAGE; i * PAGE < n->b && i < seqs[g].n; i++)
            if (!*slot(n, g, i))
                *slot(n, g, i) = hold(c, n->tree, g, seqs[g].pages[i]);
}

bool node_fill(struct kv_cache *c, struct kv_node *n, const struct kv_seq *seqs)
{
    if (!n->pages) {
        struct kv_page **pages = pages_array(c, n->tree, n->a, n->b);
        if (!pages)
            return false;
        use_unlink(&c->ghosts, n);
        n->pages = pages;
        use_link(&c->live, n, NULL); /* the oldest; its user touches it */
        n->parent->n_live++;
    }
    fill_slots(c, n, seqs);
    return true;
}

bool node_pinned(const struct kv_cache *c, const struct kv_node *n)
{
    uint64_t count = page_count(n->a, n->b) * n->tree->n_groups;
    bool any = false;
    for (uint64_t i = 0; i < count && !any; i++)
        any = n->pages[i] != NULL;
    return any && !kv_pages_any_idle(c->pool, n->pages, count);
}

/* ---- Nodes ---- */

static void child_link(struct kv_node *parent, struct kv_node *n)
{
    n->parent = parent;
    n->prev = NULL;
    n->next = parent->child;
    if (n->next)
        n->next->prev = n;
    parent->child = n;
    parent->n_live += n->pages != NULL;
}

static void child_unlink(struct kv_node *n)
{
    *(n->prev ? &n->prev->next : &n->parent->child) = n->next;
    if (n->next)
        n->next->prev = n->prev;
    n->parent->n_live -= n->pages != NULL;
    n->next = n->prev = NULL;
}

struct kv_node *node_new(struct kv_cache *c, struct kv_node *parent, const struct kv_keys *keys, uint64_t length,
                         const struct kv_seq *seqs)
{
    const struct alloc *al = &c->env->alloc;
    struct kv_node *n = mem_zalloc(al, sizeof *n);
    if (!n)
        return NULL;
    *n = (struct kv_node){.tree = parent->tree, .a = parent->b, .b = length};
    n->keys = mem_array(al, (size_t)(n->b - n->a), sizeof *n->keys);
    n->pages = seqs ? pages_array(c, n->tree, n->a, n->b) : NULL;
    if (!n->keys || (seqs && !n->pages)) {
        mem_free(al, n->keys);
        mem_free(al, n->pages);
        mem_free(al, n);
        return NULL;
    }
    keys->get(keys->user, n->a, n->b - n->a, n->keys);
    if (seqs)
        fill_slots(c, n, seqs);
    child_link(parent, n);
    hash_link(c, n);
    use_link(list_of(c, n), n, NULL);
    hash_grow(c);
    return n;
}

/* The upper part's pages: the page that p cuts goes to both. */
static void share_pages(struct kv_cache *c, const struct kv_node *n, struct kv_page **upper, struct kv_page **lower,
                        uint64_t p)
{
    uint64_t nu = page_count(n->a, p), nl = page_count(p, n->b), per = page_count(n->a, n->b);
    for (uint32_t g = 0; g < n->tree->n_groups; g++) {
        struct kv_page **from = n->pages + g * per;
        memcpy(upper + g * nu, from, (size_t)nu * sizeof *from);
        memcpy(lower + g * nl, from + (per - nl), (size_t)nl * sizeof *from);
        if (p % PAGE)
            hold(c, n->tree, g, upper[g * nu + nu - 1]);
    }
}

struct kv_node *node_split(struct kv_cache *c, struct kv_node *n, uint64_t p)
{
    const struct alloc *al = &c->env->alloc;
    struct kv_node *u = mem_zalloc(al, sizeof *u);
    struct kv_key *ku = mem_array(al, (size_t)(p - n->a), sizeof *ku), *kl = mem_array(al, (size_t)(n->b - p), sizeof *kl);
    struct kv_page **pu = NULL, **pl = NULL;
    if (n->pages) {
        pu = pages_array(c, n->tree, n->a, p);
        pl = pages_array(c, n->tree, p, n->b);
    }
    if (!u || !ku || !kl || (n->pages && (!pu || !pl))) {
        mem_free(al, u);
        mem_free(al, ku);
        mem_free(al, kl);
        mem_free(al, pu);
        mem_free(al, pl);
        return NULL;
    }
    struct kv_use_list *list = list_of(c, n);
    struct kv_node *older = n->older, *parent = n->parent;
    memcpy(ku, n->keys, (size_t)(p - n->a) * sizeof *ku);
    memcpy(kl, n->keys + (p - n->a), (size_t)(n->b - p) * sizeof *kl);
    if (n->pages)
        share_pages(c, n, pu, pl, p);
    hash_unlink(c, n);
    child_unlink(n);
    use_unlink(list, n);
    mem_free(al, n->keys);
    mem_free(al, n->pages);
    *u = (struct kv_node){.tree = n->tree, .a = n->a, .b = p, .keys = ku, .pages = pu, .spilled = n->spilled};
    n->a = p;
    n->keys = kl;
    n->pages = pl;
    child_link(parent, u);
    child_link(u, n);
    hash_link(c, u);
    hash_link(c, n);
    use_link(list, n, older);
    use_link(list, u, n);
    hash_grow(c);
    return u;
}

void node_remove(struct kv_cache *c, struct kv_node *n)
{
    use_unlink(list_of(c, n), n);
    hash_unlink(c, n);
    child_unlink(n);
    if (n->pages)
        drop_pages(c, n);
    mem_free(&c->env->alloc, n->keys);
    mem_free(&c->env->alloc, n);
}

uint64_t node_evict(struct kv_cache *c, struct kv_node *n)
{
    use_unlink(&c->live, n);
    n->parent->n_live--;
    uint64_t freed = drop_pages(c, n);
    use_link(&c->ghosts, n, c->ghosts.newest);
    return freed;
}

struct kv_evicted *node_copy(struct kv_cache *c, const struct kv_node *n)
{
    const struct alloc *al = &c->env->alloc;
    struct kv_evicted *e = mem_zalloc(al, sizeof *e);
    if (!e)
        return NULL;
    e->keys = mem_array(al, (size_t)n->b, sizeof *e->keys);
    e->pages = pages_array(c, n->tree, n->a, n->b);
    if (!e->keys || !e->pages) {
        mem_free(al, e->keys);
        mem_free(al, e->pages);
        mem_free(al, e);
        return NULL;
    }
    e->domain = n->tree->domain;
    e->n_groups = n->tree->n_groups;
    memcpy(e->page_bytes, n->tree->page_bytes, sizeof e->page_bytes);
    e->a = n->a;
    e->b = n->b;
    e->per = page_count(n->a, n->b);
    memcpy(e->pages, n->pages, (size_t)(e->per * e->n_groups) * sizeof(struct kv_page *));
    kv_pages_ref(c->pool, e->pages, e->per * e->n_groups);
    for (; n->parent; n = n->parent)
        memcpy(e->keys + n->a, n->keys, (size_t)(n->b - n->a) * sizeof *e->keys);
    return e;
}

/* ---- Trees ---- */

static struct kv_tree **tree_bucket(struct kv_cache *c, const struct kv_domain *d)
{
    return &c->trees[hash_bytes(d, sizeof *d) % KV_TREE_BUCKETS];
}

static bool same_domain(const struct kv_domain *a, const struct kv_domain *b)
{
    return a->owner == b->owner && a->type == b->type && a->salt_len == b->salt_len &&
           !memcmp(a->salt, b->salt, sizeof a->salt);
}

struct kv_tree *tree_find(struct kv_cache *c, const struct kv_domain *d)
{
    struct kv_tree *t = *tree_bucket(c, d);
    while (t && !same_domain(&t->domain, d))
        t = t->chain;
    return t;
}

static void tree_link(struct kv_cache *c, struct kv_tree *t)
{
    t->newer = NULL;
    t->older = c->newest_tree;
    *(t->older ? &t->older->newer : &c->oldest_tree) = t;
    c->newest_tree = t;
}

static void tree_unlink(struct kv_cache *c, struct kv_tree *t)
{
    *(t->newer ? &t->newer->older : &c->newest_tree) = t->older;
    *(t->older ? &t->older->newer : &c->oldest_tree) = t->newer;
}

void tree_touch(struct kv_cache *c, struct kv_tree *t)
{
    tree_unlink(c, t);
    tree_link(c, t);
}

struct kv_tree *tree_new(struct kv_cache *c, const struct kv_domain *d, const struct kv_seq *shape, uint32_t n_groups)
{
    struct kv_tree *t = mem_zalloc(&c->env->alloc, sizeof *t), **p = tree_bucket(c, d);
    if (!t)
        return NULL;
    t->root.tree = t;
    t->domain = *d;
    t->n_groups = n_groups;
    for (uint32_t g = 0; g < n_groups; g++) {
        t->page_bytes[g] = shape[g].page_bytes;
        t->window[g] = shape[g].window;
    }
    t->chain = *p;
    *p = t;
    tree_link(c, t);
    return t;
}

void tree_drop_empty(struct kv_cache *c, struct kv_tree *t)
{
    if (t->root.child)
        return;
    struct kv_tree **p = tree_bucket(c, &t->domain);
    while (*p != t)
        p = &(*p)->chain;
    *p = t->chain;
    tree_unlink(c, t);
    mem_free(&c->env->alloc, t);
}

void tree_drop(struct kv_cache *c, struct kv_tree *t)
{
    for (struct kv_node *n = &t->root; n;) { /* leaves first */
        if (n->child) {
            n = n->child;
            continue;
        }
        struct kv_node *parent = n->parent;
        if (parent)
            node_remove(c, n);
        n = parent;
    }
    tree_drop_empty(c, t);
}

/* ---- Matching ---- */

/* Keys in small pieces, so that none are copied as a whole. */
struct reader {
    const struct kv_keys *keys;
    uint64_t length, from, n;
    struct kv_key buf[64];
};

static const struct kv_key *key_at(struct reader *r, uint64_t i)
{
    if (i - r->from >= r->n) { /* also when i < from: it wraps */
        uint64_t left = r->length - i, most = sizeof r->buf / sizeof *r->buf;
        r->from = i;
        r->n = left < most ? left : most;
        r->keys->get(r->keys->user, i, r->n, r->buf);
    }
    return &r->buf[i - r->from];
}

struct kv_match tree_match(struct kv_cache *c, struct kv_tree *t, const struct kv_keys *keys, uint64_t length)
{
    struct reader r = {.keys = keys, .length = length};
    struct kv_match m = {.node = &t->root, .live = &t->root};
    while (m.at < length && m.at == m.node->b) {
        struct kv_node *n = child_of(c, m.node, key_at(&r, m.at));
        if (!n)
            break;
        m.node = n;
        m.at++;
        while (m.at < length && m.at < n->b && kv_key_equal(&n->keys[m.at - n->a], key_at(&r, m.at)))
            m.at++;
        if (n->pages) {
            m.live = n;
            m.live_at = m.at;
        }
    }
    return m;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* As tree_page; *good: up to which element some version of the page is good, when none is good enough. */
static struct kv_page *version(const struct kv_node *n, uint32_t g, uint64_t i, uint64_t r, uint64_t *good)
{
    uint64_t want = least(r, (i + 1) * PAGE);
    *good = i * PAGE;
    for (; n->parent && n->b > i * PAGE; n = n->parent) {
        if (n->a / PAGE > i || !*slot(n, g, i))
            continue;
        if (n->b >= want)
            return *slot(n, g, i);
        *good = n->b > *good ? n->b : *good;
    }
    return NULL;
}

struct kv_page *tree_page(const struct kv_node *n, uint32_t g, uint64_t i, uint64_t r)
{
    uint64_t good;
    return version(n, g, i, r, &good);
}

/* For one group. When page i cannot serve r, nothing between what is good of it and r can be served either. */
static uint64_t group_resume(const struct kv_node *n, uint32_t g, uint64_t r)
{
    uint64_t window = n->tree->window[g], good;
    if (!n->tree->page_bytes[g])
        return r;
    for (;;) {
        uint64_t lo = window && r >= window ? r - window + 1 : 0, i = (r + PAGE - 1) / PAGE;
        const struct kv_node *at = n;
        bool all = true;
        while (all && i * PAGE > lo) {
            i--;
            while (at->parent && at->a / PAGE > i)
                at = at->parent;
            all = version(at, g, i, r, &good) != NULL;
        }
        if (all)
            return r;
        r = good;
    }
}

uint64_t tree_resume(const struct kv_node *n, uint64_t p)
{
    uint64_t r = p;
    for (uint32_t g = 0; g < n->tree->n_groups; g++) {
        uint64_t at = group_resume(n, g, r);
        if (at < r) {
            r = at;
            g = UINT32_MAX; /* the others have to agree: start over */
        }
    }
    return r;
}
