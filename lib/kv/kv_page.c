#include "kv/kv_page.h"

#include "base/checked.h"
#include "base/os_thread.h"

/* A slab holds as many pages as fit, at least one. Slabs grow with what is in use, so that there are never very many. */
#define SLAB_LEAST ((uint64_t)1 << 21)
#define SLAB_MOST ((uint64_t)1 << 25)
#define SLAB_SHARE 8u /* of what is in use */
#define BUDGET_PARTS 16u
#define SLAB_MAX_PAGES 64u
#define KV_SLAB_EXTRA 160u /* bytes of a slab that headers take, of the host and of the device */

struct kv_slab {
    struct kv_slab *prev, *next; /* all slabs of the pool but the foreign ones; next also links dead ones */
    struct dev_buffer *buf;
    uint64_t page_bytes, bytes;
    struct kv_page *free;        /* of a foreign slab always empty: its pages are never used twice */
    uint64_t n_pages, n_free;
    bool foreign;
    void (*release)(void *user);
    infer_status (*check)(void *user, infer_error *err);
    infer_status (*verify)(void *user, uint64_t i, infer_error *err);
    void *user;
    struct kv_page pages[];
};

struct kv_pool {
    const struct env *env;
    struct device *dev;
    struct os_mutex lock;
    struct kv_slab *slabs;
    uint64_t budget, used; /* bytes of slabs */
    uint32_t counts;       /* kv_pages_count_once so far */
    kv_reclaim_fn reclaim; /* set before the pool has a second user */
    void *reclaim_user;
};

infer_status kv_pool_create(const struct env *env, struct device *dev, uint64_t budget, struct kv_pool **out,
                            infer_error *err)
{
    struct kv_pool *pool = mem_zalloc(&env->alloc, sizeof *pool);
    if (!pool)
        return err_no_memory(err);
    if (!os_mutex_init(&pool->lock)) {
        mem_free(&env->alloc, pool);
        return err_no_memory(err);
    }
    pool->env = env;
    pool->dev = dev;
    pool->budget = budget;
    *out = pool;
    return INFER_OK;
}

void kv_pool_set_reclaim(struct kv_pool *pool, kv_reclaim_fn reclaim, void *user)
{
    pool->reclaim = reclaim;
    pool->reclaim_user = user;
}

/* Takes a slab without pages in use out of the pool; under the lock. */
static void slab_unlink(struct kv_pool *pool, struct kv_slab *s)
{
    if (s->foreign)
        return;
    if (s->prev)
        s->prev->next = s->next;
    else
        pool->slabs = s->next;
    if (s->next)
        s->next->prev = s->prev;
    pool->used -= s->bytes;
}

/* Frees slabs that were unlinked, a list by next. Without the lock: giving memory back takes long, and release is not ours. */
static void slabs_free(struct kv_pool *pool, struct kv_slab *s)
{
    while (s) {
        struct kv_slab *next = s->next;
        pool->dev->ops->free(pool->dev, s->buf);
        if (s->release)
            s->release(s->user);
        mem_free(&pool->env->alloc, s);
        s = next;
    }
}

void kv_pool_destroy(struct kv_pool *pool)
{
    if (!pool)
        return;
    slabs_free(pool, pool->slabs);
    os_mutex_destroy(&pool->lock);
    mem_free(&pool->env->alloc, pool);
}

uint64_t kv_pool_bytes(struct kv_pool *pool)
{
    os_mutex_lock(&pool->lock);
    uint64_t used = pool->used;
    os_mutex_unlock(&pool->lock);
    return used;
}

/* Pages of a new slab, when so many bytes are in use. */
static uint64_t slab_pages(uint64_t page_bytes, uint64_t used)
{
    uint64_t want = used / SLAB_SHARE;
    want = want < SLAB_LEAST ? SLAB_LEAST : want > SLAB_MOST ? SLAB_MOST : want;
    uint64_t n = want / page_bytes;
    return n < 1 ? 1 : n > SLAB_MAX_PAGES ? SLAB_MAX_PAGES : n;
}

/* Pages of one size that slabs hold in the end, when at most so many bytes are in use before any of them is made. A slab is made when all pages of its
 * size are in use, so at most one slab's pages but one are free. */
static uint64_t pages_made(const struct kv_demand *d, uint64_t used)
{
    uint64_t least = slab_pages(d->page_bytes, 0), most = slab_pages(d->page_bytes, used);
    return least == most ? (d->pages + least - 1) / least * least : d->pages - 1 + most;
}

uint64_t kv_pool_most(const struct kv_demand *demands, uint32_t n, uint64_t *host)
{
    uint64_t before, bytes = 0;
    do { /* larger slabs come with what is in use: until that is the same again */
        before = bytes;
        bytes = 0;
        for (uint32_t i = 0; i < n; i++)
            if (demands[i].pages && demands[i].page_bytes)
                bytes += pages_made(&demands[i], before) * demands[i].page_bytes;
    } while (bytes > before);
    for (uint32_t i = 0; i < n; i++) {
        const struct kv_demand *d = &demands[i];
        if (d->pages && d->page_bytes)
            *host += pages_made(d, bytes) * sizeof(struct kv_page)
                     + (d->pages / slab_pages(d->page_bytes, 0) + 1) * (sizeof(struct kv_slab) + KV_SLAB_EXTRA);
    }
    return bytes;
}

/* Under the lock. */
static infer_status slab_new(struct kv_pool *pool, uint64_t page_bytes, struct kv_slab **out, infer_error *err)
{
    uint64_t n = slab_pages(page_bytes, pool->used), left = pool->budget ? pool->budget - pool->used : UINT64_MAX;
    /* A small part of the budget, down to single pages: other sizes are wanted too (sliding windows, mixed KV types). */
    uint64_t share = pool->budget ? pool->budget / BUDGET_PARTS / page_bytes : n;
    n = n < share ? n : share ? share : 1;
    if (n > left / page_bytes)
        n = left / page_bytes;
    if (n == 0)
        return err_set(err, INFER_ERROR_LIMIT, "the KV budget of %llu bytes is used up",
                       (unsigned long long)pool->budget);
    struct kv_slab *s = mem_zalloc(&pool->env->alloc, sizeof *s + (size_t)n * sizeof s->pages[0]);
    if (!s)
        return err_no_memory(err);
    s->bytes = n * page_bytes; /* a page is far below 2^58 bytes: its sizes were checked when the model was opened */
    infer_status st = pool->dev->ops->alloc(pool->dev, s->bytes, &s->buf, err);
    if (st != INFER_OK) {
        mem_free(&pool->env->alloc, s);
        return st;
    }
    s->page_bytes = page_bytes;
    s->n_pages = s->n_free = n;
    for (uint64_t i = n; i-- > 0;) {
        s->pages[i].data = (struct dev_ref){s->buf, i * page_bytes};
        s->pages[i].slab = s;
        s->pages[i].next_free = s->free;
        s->free = &s->pages[i];
    }
    pool->used += s->bytes;
    s->next = pool->slabs;
    if (s->next)
        s->next->prev = s;
    pool->slabs = s;
    *out = s;
    return INFER_OK;
}

static infer_status take_page(struct kv_pool *pool, uint64_t bytes, struct kv_page **out, infer_error *err)
{
    infer_status st = INFER_OK;
    os_mutex_lock(&pool->lock);
    struct kv_slab *s = pool->slabs;
    while (s && (s->page_bytes != bytes || !s->free))
        s = s->next;
    if (!s)
        st = slab_new(pool, bytes, &s, err);
    if (st == INFER_OK) {
        struct kv_page *p = s->free;
        s->free = p->next_free;
        s->n_free--;
        p->refs = 1;
        *out = p;
    }
    os_mutex_unlock(&pool->lock);
    return st;
}

infer_status kv_page_new(struct kv_pool *pool, uint64_t bytes, struct kv_page **out, infer_error *err)
{
    for (;;) {
        infer_status st = take_page(pool, bytes, out, err);
        if (st == INFER_OK || !pool->reclaim || !pool->reclaim(pool->reclaim_user))
            return st;
    }
}

infer_status kv_pages_import(struct kv_pool *pool, const struct kv_foreign *foreign, uint64_t page_bytes, const uint64_t *offsets,
                             uint64_t n, struct kv_page **out, infer_error *err)
{
    struct kv_slab *s = NULL;
    if (n <= (SIZE_MAX - sizeof *s) / sizeof s->pages[0])
        s = mem_zalloc(&pool->env->alloc, sizeof *s + (size_t)n * sizeof s->pages[0]);
    if (!s)
        return err_no_memory(err);
    infer_status st = pool->dev->ops->import(pool->dev, foreign->memory, foreign->bytes, &s->buf, err);
    if (st != INFER_OK) {
        mem_free(&pool->env->alloc, s);
        return st;
    }
    s->foreign = true;
    s->release = foreign->release;
    s->check = foreign->check;
    s->verify = foreign->verify;
    s->user = foreign->user;
    s->page_bytes = page_bytes;
    s->n_pages = n;
    for (uint64_t i = 0; i < n; i++) {
        s->pages[i].data = (struct dev_ref){s->buf, offsets[i]};
        s->pages[i].slab = s;
        s->pages[i].refs = 1;
        atomic_init(&s->pages[i].unverified, foreign->verify != NULL);
        out[i] = &s->pages[i];
    }
    return INFER_OK;
}

void kv_pages_ref(struct kv_pool *pool, struct kv_page *const *pages, uint64_t n)
{
    os_mutex_lock(&pool->lock);
    for (uint64_t i = 0; i < n; i++)
        if (pages[i])
            pages[i]->refs++;
    os_mutex_unlock(&pool->lock);
}

/* Under the lock; a slab that nothing uses any more goes to the list of dead ones. */
static void drop_page(struct kv_pool *pool, struct kv_page *page, struct kv_slab **dead)
{
    struct kv_slab *s = page->slab;
    if (--page->refs)
        return;
    if (!s->foreign) {
        page->next_free = s->free;
        s->free = page;
    }
    if (++s->n_free == s->n_pages) {
        slab_unlink(pool, s);
        s->next = *dead;
        *dead = s;
    }
}

void kv_pages_unref(struct kv_pool *pool, struct kv_page *const *pages, uint64_t n)
{
    struct kv_slab *dead = NULL;
    os_mutex_lock(&pool->lock);
    for (uint64_t i = 0; i < n; i++)
        if (pages[i])
            drop_page(pool, pages[i], &dead);
    os_mutex_unlock(&pool->lock);
    slabs_free(pool, dead);
}

void kv_page_ref(struct kv_pool *pool, struct kv_page *page)
{
    kv_pages_ref(pool, &page, 1);
}

void kv_page_unref(struct kv_pool *pool, struct kv_page *page)
{
    if (page)
        kv_pages_unref(pool, &page, 1);
}

uint32_t kv_page_refs(struct kv_pool *pool, const struct kv_page *page)
{
    os_mutex_lock(&pool->lock);
    uint32_t refs = page->refs;
    os_mutex_unlock(&pool->lock);
    return refs;
}

bool kv_pages_any_idle(struct kv_pool *pool, struct kv_page *const *pages, uint64_t n)
{
    bool idle = false;
    os_mutex_lock(&pool->lock);
    while (n-- > 0 && !idle) /* the last page of a sequence is the likeliest */
        idle = pages[n] && pages[n]->refs == pages[n]->cached;
    os_mutex_unlock(&pool->lock);
    return idle;
}

bool kv_page_shared(struct kv_pool *pool, const struct kv_page *page)
{
    os_mutex_lock(&pool->lock);
    bool shared = page->refs > 1 || page->slab->foreign;
    os_mutex_unlock(&pool->lock);
    return shared;
}

/* What a slab says of itself never changes: no lock. */
bool kv_page_foreign(const struct kv_page *page)
{
    return page->slab->foreign;
}

void *kv_page_origin(const struct kv_page *page, void (*release)(void *user), uint64_t *i)
{
    const struct kv_slab *s = page->slab;
    if (!s->foreign || s->release != release)
        return NULL;
    *i = (uint64_t)(page - s->pages);
    return s->user;
}

infer_status kv_pages_ready(struct kv_page *const *pages, uint64_t n, const infer_cancel *cancel, infer_error *err)
{
    const struct kv_slab *last = NULL;
    infer_status st = INFER_OK;
    for (uint64_t i = 0; i < n && st == INFER_OK; i++) {
        struct kv_page *p = pages[i];
        if (!p || !p->slab->foreign)
            continue;
        const struct kv_slab *s = p->slab;
        if (s != last && s->check)
            st = s->check(s->user, err);
        last = s;
        if (st == INFER_OK && atomic_load_explicit(&p->unverified, memory_order_acquire)) {
            if (cancel_is_set(cancel)) /* all pages of a long context take a second */
                return err_set(err, INFER_ERROR_CANCELLED, "cancelled while verifying computed state");
            st = s->verify(s->user, (uint64_t)(p - s->pages), err);
            if (st == INFER_OK)
                atomic_store_explicit(&p->unverified, false, memory_order_release);
        }
    }
    return st;
}

struct kv_counts kv_pages_count(struct kv_pool *pool, struct kv_page *const *pages, uint64_t n)
{
    struct kv_counts c = {0};
    os_mutex_lock(&pool->lock);
    for (uint64_t i = 0; i < n; i++)
        if (pages[i]) {
            c.pages++;
            c.shared += pages[i]->refs > 1;
            c.foreign += pages[i]->slab->foreign;
        }
    os_mutex_unlock(&pool->lock);
    return c;
}

uint64_t kv_pages_count_once(struct kv_pool *pool, kv_next_pages_fn next, void *user)
{
    struct kv_page *const *pages;
    uint64_t n, bytes = 0;
    os_mutex_lock(&pool->lock);
    uint32_t number = ++pool->counts;
    while (next(user, &pages, &n))
        for (uint64_t i = 0; i < n; i++)
            if (pages[i] && pages[i]->counted != number && !pages[i]->slab->foreign) {
                pages[i]->counted = number;
                bytes += pages[i]->slab->page_bytes;
            }
    os_mutex_unlock(&pool->lock);
    return bytes;
}
