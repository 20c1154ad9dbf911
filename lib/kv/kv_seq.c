#include "kv/kv_seq.h"

#include <string.h>

#define PAGE ((uint64_t)DEV_KV_PAGE)
#define SLACK PAGE /* a windowed group can go back this far at once */

uint64_t kv_resume_interval(uint64_t window)
{
    uint64_t n = window * 4 < 1024 ? 1024 : window * 4;
    return (n + PAGE - 1) / PAGE * PAGE;
}

void kv_seq_init(struct kv_seq *s, uint64_t page_bytes, uint64_t window)
{
    *s = (struct kv_seq){.page_bytes = page_bytes, .window = window};
}

static infer_status grow(struct kv_seq *s, const struct env *env, uint64_t n, infer_error *err)
{
    if (n <= s->cap)
        return INFER_OK;
    uint64_t cap = s->cap + s->cap / 2 > n ? s->cap + s->cap / 2 : n;
    cap = cap < 16 ? 16 : cap;
    if (cap > SIZE_MAX / sizeof(struct dev_ref))
        return err_no_memory(err);
    struct kv_page **pages = mem_zarray(&env->alloc, (size_t)cap, sizeof *pages);
    struct dev_ref *refs = mem_zarray(&env->alloc, (size_t)cap, sizeof *refs);
    if (!pages || !refs) {
        mem_free(&env->alloc, pages);
        mem_free(&env->alloc, refs);
        return err_no_memory(err);
    }
    if (s->n) {
        memcpy(pages, s->pages, (size_t)s->n * sizeof *pages);
        memcpy(refs, s->refs, (size_t)s->n * sizeof *refs);
    }
    mem_free(&env->alloc, s->pages);
    mem_free(&env->alloc, s->refs);
    s->pages = pages;
    s->refs = refs;
    s->cap = cap;
    return INFER_OK;
}

static void set_page(struct kv_seq *s, uint64_t i, struct kv_page *page)
{
    s->pages[i] = page;
    s->refs[i] = page ? page->data : (struct dev_ref){0};
    s->foreign |= page && kv_page_foreign(page);
}

infer_status kv_seq_reserve(struct kv_seq *s, struct kv_pool *pool, const struct env *env, struct device *dev, uint64_t from,
                            uint64_t to, infer_error *err)
{
    if (!s->page_bytes || from >= to)
        return INFER_OK;
    uint64_t end = (to + PAGE - 1) / PAGE;
    infer_status st = grow(s, env, end, err);
    for (uint64_t i = from / PAGE; st == INFER_OK && i < end; i++) {
        struct kv_page *old = i < s->n ? s->pages[i] : NULL, *page;
        if (old && !kv_page_shared(pool, old))
            continue;
        st = kv_page_new(pool, s->page_bytes, &page, err);
        if (st != INFER_OK)
            break;
        if (old && i * PAGE < from) /* elements before `from` in the page are kept */
            dev->ops->copy(dev, page->data, old->data, s->page_bytes);
        kv_page_unref(pool, old);
        set_page(s, i, page);
        if (i >= s->n)
            s->n = i + 1;
    }
    return st;
}

uint64_t kv_seq_wanted(const struct kv_seq *s, struct kv_pool *pool, uint64_t from, uint64_t to, bool copies)
{
    uint64_t bytes = 0;
    for (uint64_t i = from / PAGE; s->page_bytes && i * PAGE < to; i++)
        if (i >= s->n || !s->pages[i] || (copies && kv_page_shared(pool, s->pages[i])))
            bytes += s->page_bytes;
    return bytes;
}

/* Whether a windowed group needs page i once `length` elements are computed. */
static bool page_needed(const struct kv_seq *s, uint64_t i, uint64_t length)
{
    uint64_t first = i * PAGE, end = first + PAGE, interval = kv_resume_interval(s->window);
    if (end + s->window + SLACK > length)
        return true;
    uint64_t resume = (first / interval + 1) * interval; /* the first resume point above the page's first element */
    return end + s->window > resume;
}

void kv_seq_drop(struct kv_seq *s, struct kv_pool *pool, uint64_t length)
{
    if (!s->window || !s->page_bytes)
        return;
    for (uint64_t i = s->dropped; i < s->n && (i + 1) * PAGE + s->window + SLACK <= length; i++) {
        if (s->pages[i] && !page_needed(s, i, length)) {
            kv_page_unref(pool, s->pages[i]);
            set_page(s, i, NULL);
        }
        s->dropped = i + 1;
    }
}

uint64_t kv_seq_most_pages(uint64_t window, uint64_t length, uint64_t batch)
{
    uint64_t pages = (length + PAGE - 1) / PAGE, most = 0, kept = 0, tip = 0;
    if (!window)
        return pages;
    for (uint64_t end = 1; end <= pages; end++) { /* a batch that needs page end - 1 began at `from` at the earliest */
        uint64_t from = (end - 1) * PAGE + 1 > batch ? (end - 1) * PAGE + 1 - batch : 0;
        for (; (tip + 1) * PAGE + window + SLACK <= from; tip++)
            kept += page_needed(&(struct kv_seq){.window = window}, tip, UINT64_MAX);
        most = end - tip + kept > most ? end - tip + kept : most;
    }
    return most;
}

/* Whether all elements that element p's window holds before p are stored. */
static bool window_stored(const struct kv_seq *s, uint64_t p)
{
    uint64_t lo = p >= s->window ? p - s->window + 1 : 0;
    for (uint64_t i = lo / PAGE; i * PAGE < p; i++)
        if (i >= s->n || !s->pages[i])
            return false;
    return true;
}

uint64_t kv_seq_resume(const struct kv_seq *s, uint64_t p)
{
    if (!s->window || !s->page_bytes || window_stored(s, p))
        return p;
    uint64_t interval = kv_resume_interval(s->window);
    for (uint64_t r = p / interval * interval; r > 0; r -= interval)
        if (window_stored(s, r))
            return r;
    return 0;
}

void kv_seq_truncate(struct kv_seq *s, struct kv_pool *pool, uint64_t length)
{
    uint64_t keep = (length + PAGE - 1) / PAGE;
    if (s->n > keep) {
        kv_pages_unref(pool, s->pages + keep, s->n - keep);
        memset(s->pages + keep, 0, (size_t)(s->n - keep) * sizeof *s->pages);
        memset(s->refs + keep, 0, (size_t)(s->n - keep) * sizeof *s->refs);
        s->n = keep;
    }
    if (s->dropped > s->n)
        s->dropped = s->n;
    /* Pages below may have to be filled again: they are looked at anew. */
    uint64_t first = length > s->window + SLACK ? (length - s->window - SLACK) / PAGE : 0;
    if (s->dropped > first)
        s->dropped = first;
}

infer_status kv_seq_share(struct kv_seq *dst, const struct kv_seq *src, struct kv_pool *pool, const struct env *env,
                          infer_error *err)
{
    infer_status st = grow(dst, env, src->n, err);
    if (st != INFER_OK)
        return st;
    if (src->n) {
        kv_pages_ref(pool, src->pages, src->n);
        memcpy(dst->pages, src->pages, (size_t)src->n * sizeof *dst->pages);
        memcpy(dst->refs, src->refs, (size_t)src->n * sizeof *dst->refs);
    }
    dst->n = src->n;
    dst->dropped = src->dropped;
    dst->page_bytes = src->page_bytes;
    dst->window = src->window;
    dst->foreign = src->foreign;
    return INFER_OK;
}

infer_status kv_seq_adopt(struct kv_seq *s, const struct env *env, struct kv_page *const *pages, uint64_t n, infer_error *err)
{
    infer_status st = grow(s, env, n, err);
    for (uint64_t i = 0; st == INFER_OK && i < n; i++)
        set_page(s, i, pages[i]);
    if (st == INFER_OK)
        s->n = n;
    return st;
}

infer_status kv_seq_ready(const struct kv_seq *s, const infer_cancel *cancel, infer_error *err)
{
    return s->foreign ? kv_pages_ready(s->pages, s->n, cancel, err) : INFER_OK;
}

uint64_t kv_seq_bytes(const struct kv_seq *s)
{
    uint64_t pages = 0;
    for (uint64_t i = 0; i < s->n; i++)
        pages += s->pages[i] != NULL;
    return pages * s->page_bytes;
}

struct kv_counts kv_seq_count(const struct kv_seq *s, struct kv_pool *pool)
{
    return kv_pages_count(pool, s->pages, s->n);
}

void kv_seq_free(struct kv_seq *s, struct kv_pool *pool, const struct env *env)
{
    kv_seq_truncate(s, pool, 0);
    mem_free(&env->alloc, s->pages);
    mem_free(&env->alloc, s->refs);
    s->pages = NULL;
    s->refs = NULL;
    s->n = s->cap = 0;
}
