/* Pages and page tables: budget, sharing, copy before write, what windows keep. */
#include "testutil.h"

#include <string.h>

#include "kv/kv_seq.h"

enum { PAGE_BYTES = 4096 };

struct fixture {
    struct test_alloc t;
    struct env env;
    struct device *dev;
    struct kv_pool *pool;
};

static void setup(struct fixture *f, uint64_t budget)
{
    memset(f, 0, sizeof *f);
    f->env = test_env_of(&f->t);
    struct cpu_device_options o = {INFER_CPU_SCALAR, INFER_NUMERICS_EXACT, 1, NULL, NULL};
    assert_int_equal(cpu_device_create(&f->env.alloc, &o, &f->dev, NULL), INFER_OK);
    assert_int_equal(kv_pool_create(&f->env, f->dev, budget, &f->pool, NULL), INFER_OK);
}

static void teardown(struct fixture *f)
{
    assert_int_equal(kv_pool_bytes(f->pool), 0);
    kv_pool_destroy(f->pool);
    f->dev->ops->destroy(f->dev);
    assert_int_equal(f->t.live, 0);
}

static infer_status reserve(struct fixture *f, struct kv_seq *s, uint64_t from, uint64_t to)
{
    return kv_seq_reserve(s, f->pool, &f->env, f->dev, from, to, NULL);
}

static void test_budget(void **state)
{
    (void)state;
    struct fixture f;
    struct kv_seq a, b;
    infer_error err;
    setup(&f, 10 * PAGE_BYTES);
    kv_seq_init(&a, PAGE_BYTES, 0);
    kv_seq_init(&b, PAGE_BYTES, 0);
    assert_int_equal(reserve(&f, &a, 0, 64 * 6), INFER_OK);
    assert_int_equal(kv_seq_reserve(&b, f.pool, &f.env, f.dev, 0, 64 * 5, &err), INFER_ERROR_LIMIT);
    assert_non_null(strstr(err.text, "40960"));
    assert_int_equal(reserve(&f, &b, 0, 64 * 4), INFER_OK);
    assert_int_equal(kv_seq_bytes(&a), 6 * PAGE_BYTES);
    kv_seq_truncate(&a, f.pool, 65);
    assert_int_equal(kv_seq_bytes(&a), 2 * PAGE_BYTES);
    assert_int_equal(reserve(&f, &b, 256, 64 * 8), INFER_OK);
    kv_seq_free(&a, f.pool, &f.env);
    kv_seq_free(&b, f.pool, &f.env);
    teardown(&f);
}

/* Sequences with pages of two sizes share a small budget: neither takes it all for pages that it does not need. */
static void test_two_sizes(void **state)
{
    (void)state;
    struct fixture f;
    struct kv_seq a, b;
    setup(&f, 20 * PAGE_BYTES);
    kv_seq_init(&a, PAGE_BYTES, 0);
    kv_seq_init(&b, 2 * PAGE_BYTES, 0);
    for (uint64_t i = 0; i < 6; i++) {
        assert_int_equal(reserve(&f, &a, 64 * i, 64 * i + 64), INFER_OK);
        assert_int_equal(reserve(&f, &b, 64 * i, 64 * i + 64), INFER_OK);
    }
    kv_seq_free(&a, f.pool, &f.env);
    kv_seq_free(&b, f.pool, &f.env);
    teardown(&f);
}

static void put(struct fixture *f, const struct kv_seq *s, uint64_t page, char c)
{
    f->dev->ops->write(f->dev, s->refs[page], &c, 1);
}

static char get(struct fixture *f, const struct kv_seq *s, uint64_t page)
{
    char c = 0;
    f->dev->ops->read(f->dev, &c, s->refs[page], 1);
    return c;
}

static void test_copy_before_write(void **state)
{
    (void)state;
    struct fixture f;
    struct kv_seq a, b;
    setup(&f, 0);
    kv_seq_init(&a, PAGE_BYTES, 0);
    kv_seq_init(&b, PAGE_BYTES, 0);
    assert_int_equal(reserve(&f, &a, 0, 100), INFER_OK); /* elements 0..99: two pages */
    put(&f, &a, 0, 'a');
    put(&f, &a, 1, 'b');
    assert_int_equal(kv_seq_share(&b, &a, f.pool, &f.env, NULL), INFER_OK);
    assert_ptr_equal(a.pages[1], b.pages[1]);
    assert_int_equal(reserve(&f, &b, 100, 101), INFER_OK); /* b writes into the shared page */
    assert_ptr_equal(a.pages[0], b.pages[0]);
    assert_ptr_not_equal(a.pages[1], b.pages[1]);
    assert_int_equal(get(&f, &b, 1), 'b');
    put(&f, &b, 1, 'c');
    assert_int_equal(get(&f, &a, 1), 'b');
    struct kv_page *own = a.pages[1];
    assert_int_equal(reserve(&f, &a, 100, 101), INFER_OK); /* no longer shared: in place */
    assert_ptr_equal(a.pages[1], own);
    kv_seq_free(&a, f.pool, &f.env);
    assert_int_equal(get(&f, &b, 0), 'a');
    kv_seq_free(&b, f.pool, &f.env);
    teardown(&f);
}

/* A windowed group holds a bounded number of pages, and can go back to wherever it says. */
static void test_window(void **state)
{
    (void)state;
    struct fixture f;
    struct kv_seq s;
    const uint64_t window = 100, interval = kv_resume_interval(window);
    setup(&f, 0);
    kv_seq_init(&s, PAGE_BYTES, window);
    assert_int_equal(interval, 1024);
    for (uint64_t n = 0; n < 5000; n += 50) {
        assert_int_equal(reserve(&f, &s, n, n + 50), INFER_OK);
        kv_seq_drop(&s, f.pool, n + 50);
    }
    /* the last window and slack, and two or three pages before each of the four resume points */
    assert_in_range(kv_seq_bytes(&s) / PAGE_BYTES, 4 + 4 * 2, 5 + 4 * 3);
    assert_int_equal(kv_seq_resume(&s, 5000), 5000);
    assert_int_equal(kv_seq_resume(&s, 4990), 4990);
    assert_int_equal(kv_seq_resume(&s, 5000 - 64), 5000 - 64); /* the slack */
    for (uint64_t p = 0; p <= 5000; p++) {
        uint64_t r = kv_seq_resume(&s, p);
        assert_true(r <= p);
        assert_true(r >= p / interval * interval);
        for (uint64_t e = r > window ? r - window + 1 : 0; e < r; e++)
            assert_non_null(s.pages[e / 64]);
    }
    uint64_t to = kv_seq_resume(&s, 3000);
    kv_seq_truncate(&s, f.pool, to);
    assert_int_equal(to, 2048);
    for (uint64_t n = to; n < 5000; n += 7) { /* grow again, differently cut */
        assert_int_equal(reserve(&f, &s, n, n + 7), INFER_OK);
        kv_seq_drop(&s, f.pool, n + 7);
    }
    assert_in_range(kv_seq_bytes(&s) / PAGE_BYTES, 4 + 4 * 2, 6 + 4 * 3);
    kv_seq_free(&s, f.pool, &f.env);
    teardown(&f);
}

static void count_release(void *user)
{
    ++*(int *)user;
}

/* Pages of foreign memory are never written, cost no budget, and are let go when the last one goes. */
/* What an estimate says of a sequence's pages is never exceeded, and not much more than what comes to be. */
static void test_most_pages(void **state)
{
    static const uint64_t windows[] = {0, 1, 64, 100, 200, 512}, steps[] = {1, 7, 64, 100, 256};
    (void)state;
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
        const uint64_t window = windows[w], lengths[] = {1, 64, 65, 700, 2049, 5000};
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
            uint64_t said = kv_seq_most_pages(window, lengths[l], 256), most = 0;
            for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
                struct fixture f;
                struct kv_seq s;
                setup(&f, 0);
                kv_seq_init(&s, PAGE_BYTES, window);
                for (uint64_t n = 0, to; n < lengths[l]; n = to) {
                    to = n + steps[k] < lengths[l] ? n + steps[k] : lengths[l];
                    assert_int_equal(reserve(&f, &s, n, to), INFER_OK);
                    uint64_t pages = kv_seq_bytes(&s) / PAGE_BYTES;
                    most = pages > most ? pages : most;
                    kv_seq_drop(&s, f.pool, to);
                }
                kv_seq_free(&s, f.pool, &f.env);
                teardown(&f);
            }
            if (most > said || said > most + 2)
                fail_msg("window %llu, %llu elements: %llu pages were said, %llu came", (unsigned long long)window, (unsigned long long)lengths[l],
                         (unsigned long long)said, (unsigned long long)most);
        }
    }
}

static void test_foreign(void **state)
{
    (void)state;
    struct fixture f;
    struct kv_seq a, b;
    struct kv_page *pages[3];
    static _Alignas(64) char file[4 * PAGE_BYTES];
    const uint64_t offsets[3] = {64, 64 + PAGE_BYTES, 64 + 2 * PAGE_BYTES};
    int released = 0;
    const struct kv_foreign foreign = {.memory = file, .bytes = sizeof file, .release = count_release, .user = &released};
    setup(&f, PAGE_BYTES);
    for (size_t i = 0; i < sizeof file; i++)
        file[i] = (char)(i / 64);
    char was[sizeof file];
    memcpy(was, file, sizeof file);
    assert_int_equal(kv_pages_import(f.pool, &foreign, PAGE_BYTES, offsets, 3, pages, NULL), INFER_OK);
    assert_int_equal(kv_pool_bytes(f.pool), 0);
    kv_seq_init(&a, PAGE_BYTES, 0);
    assert_int_equal(kv_seq_adopt(&a, &f.env, pages, 3, NULL), INFER_OK);
    assert_int_equal(get(&f, &a, 2), file[64 + 2 * PAGE_BYTES]);
    assert_true(kv_page_shared(f.pool, pages[0]));
    kv_seq_init(&b, PAGE_BYTES, 0);
    assert_int_equal(kv_seq_share(&b, &a, f.pool, &f.env, NULL), INFER_OK);
    struct kv_counts c = kv_seq_count(&a, f.pool);
    assert_int_equal(c.pages, 3);
    assert_int_equal(c.shared, 3);
    assert_int_equal(c.foreign, 3);
    kv_seq_free(&b, f.pool, &f.env);
    assert_int_equal(reserve(&f, &a, 64 * 2 + 1, 64 * 2 + 2), INFER_OK); /* the page is copied, though it has one reference */
    put(&f, &a, 2, 77);
    assert_int_equal(kv_pool_bytes(f.pool), PAGE_BYTES);
    assert_int_equal(reserve(&f, &a, 64, 65), INFER_ERROR_LIMIT); /* another copy is beyond the budget */
    assert_int_equal(released, 0);
    kv_seq_free(&a, f.pool, &f.env);
    assert_int_equal(released, 1);
    assert_memory_equal(file, was, sizeof file);
    teardown(&f);
}

/* Something that holds pages and gives one back each time it is asked. */
struct hoard {
    struct kv_pool *pool;
    struct kv_page *pages[8];
    int n, asked;
};

static bool give_back(void *user)
{
    struct hoard *h = user;
    h->asked++;
    if (!h->n)
        return false;
    kv_page_unref(h->pool, h->pages[--h->n]);
    return true;
}

static void test_reclaim(void **state)
{
    (void)state;
    struct fixture f;
    struct kv_seq a;
    setup(&f, 8 * PAGE_BYTES);
    struct hoard h = {.pool = f.pool};
    for (; h.n < 8; h.n++)
        assert_int_equal(kv_page_new(f.pool, PAGE_BYTES, &h.pages[h.n], NULL), INFER_OK);
    kv_seq_init(&a, 2 * PAGE_BYTES, 0); /* another page size: two slabs of small ones have to go */
    assert_int_equal(reserve(&f, &a, 0, 1), INFER_ERROR_LIMIT);
    kv_pool_set_reclaim(f.pool, give_back, &h);
    assert_int_equal(reserve(&f, &a, 0, 1), INFER_OK);
    assert_int_equal(h.n, 6);
    assert_int_equal(h.asked, 2);
    assert_int_equal(reserve(&f, &a, 0, 64 * 5), INFER_ERROR_LIMIT); /* nothing left to give */
    assert_int_equal(h.n, 0);
    assert_int_equal(h.asked, 9);
    kv_seq_free(&a, f.pool, &f.env);
    teardown(&f);
}

static void test_reclaim_without_memory(void **state)
{
    (void)state;
    struct fixture f;
    struct kv_page *page;
    setup(&f, 0);
    struct hoard h = {.pool = f.pool};
    kv_pool_set_reclaim(f.pool, give_back, &h);
    assert_int_equal(kv_page_new(f.pool, PAGE_BYTES, &h.pages[h.n++], NULL), INFER_OK);
    f.t.fail_at = f.t.calls + 1; /* no memory; the next time there is some */
    assert_int_equal(kv_page_new(f.pool, 4 * PAGE_BYTES, &page, NULL), INFER_OK);
    assert_int_equal(h.n, 0);
    kv_page_unref(f.pool, page);
    teardown(&f);
}

/* Each allocation fails in turn: an error, no leak, and the table is still good. */
static void test_no_memory(void **state)
{
    (void)state;
    struct fixture f;
    uint64_t failures = 0;
    setup(&f, 0);
    for (uint64_t k = 1;; k++) {
        struct kv_seq a, b;
        kv_seq_init(&a, PAGE_BYTES, 0);
        kv_seq_init(&b, PAGE_BYTES, 0);
        f.t.calls = 0;
        f.t.fail_at = k;
        infer_status st = reserve(&f, &a, 0, 64 * 100);
        if (st == INFER_OK)
            st = kv_seq_share(&b, &a, f.pool, &f.env, NULL);
        f.t.fail_at = 0;
        if (st != INFER_OK) {
            assert_int_equal(st, INFER_ERROR_NO_MEMORY);
            assert_int_equal(reserve(&f, &a, 0, 64 * 100), INFER_OK);
            failures++;
        }
        kv_seq_free(&a, f.pool, &f.env);
        kv_seq_free(&b, f.pool, &f.env);
        if (st == INFER_OK)
            break;
    }
    print_message("# %llu allocations failed in turn\n", (unsigned long long)failures);
    assert_true(failures > 3);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_two_sizes),
        cmocka_unit_test(test_copy_before_write),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_most_pages),
        cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_reclaim),
        cmocka_unit_test(test_reclaim_without_memory),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
