/* Shared append-only arrays: who writes in place, who gets a copy, and that nobody sees another's items. */
#include "testutil.h"

#include <string.h>

#include "base/shared.h"

static struct test_alloc t;
static struct alloc a;

static int setup(void **state)
{
    (void)state;
    t = (struct test_alloc){0};
    a = test_alloc_of(&t);
    return 0;
}

static uint32_t *append(uint32_t *data, uint64_t length, uint32_t value, uint64_t want)
{
    data = shared_reserve(&a, data, sizeof *data, length, 1, want);
    assert_non_null(data);
    data[length] = value;
    return data;
}

static void test_one_owner(void **state)
{
    (void)state;
    uint32_t *d = NULL;
    for (uint32_t i = 0; i < 1000; i++)
        d = append(d, i, i, i + 100);
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(d[i], i);
    assert_true(t.calls <= 12);
    uint32_t *was = d;
    d = append(d, 10, 77, 0); /* rolled back: in place */
    assert_ptr_equal(d, was);
    assert_int_equal(d[9], 9);
    shared_unref(&a, d);
    shared_unref(&a, NULL);
    assert_null(shared_ref(NULL));
    assert_int_equal(t.live, 0);
}

static void test_two_owners(void **state)
{
    (void)state;
    uint32_t *d = append(NULL, 0, 5, 8), *e = shared_ref(d), *f = shared_ref(d);
    assert_ptr_equal(append(d, 1, 6, 0), d); /* the first to append does so in place */
    e = append(e, 1, 7, 0);
    assert_ptr_not_equal(e, d);
    assert_int_equal(d[1], 6);
    assert_int_equal(e[0], 5);
    assert_int_equal(e[1], 7);
    f = append(f, 0, 8, 0); /* rolled back to nothing */
    assert_ptr_not_equal(f, d);
    assert_int_equal(d[0], 5);
    for (uint32_t i = 2; i < 20; i++) /* alone again: grows */
        d = append(d, i, i, 0);
    assert_int_equal(d[1], 6);
    uint32_t *g = shared_ref(d), *own = shared_own(&a, g, sizeof *g, 20);
    assert_ptr_not_equal(own, d);
    own[0] = 99;
    assert_int_equal(d[0], 5);
    assert_ptr_equal(shared_own(&a, own, sizeof *own, 20), own);
    shared_unref(&a, d);
    shared_unref(&a, e);
    shared_unref(&a, f);
    shared_unref(&a, own);
    assert_int_equal(t.live, 0);
}

static void test_no_memory(void **state)
{
    (void)state;
    uint32_t *d = append(NULL, 0, 5, 1), *e = shared_ref(d);
    t.fail_at = t.calls + 1;
    t.fail_rest = 1;
    assert_null(shared_reserve(&a, d, sizeof *d, 1, 1, 0));
    assert_null(shared_own(&a, d, sizeof *d, 1));
    assert_null(shared_reserve(&a, NULL, sizeof *d, 0, 1, 0));
    shared_unref(&a, e);
    assert_null(shared_reserve(&a, d, sizeof *d, 1, 1, 0));
    assert_null(shared_reserve(&a, d, sizeof *d, 1, UINT64_MAX / 2, 0));
    assert_int_equal(d[0], 5);
    shared_unref(&a, d);
    assert_int_equal(t.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_one_owner, setup),
        cmocka_unit_test_setup(test_two_owners, setup),
        cmocka_unit_test_setup(test_no_memory, setup),
    };
    return cmocka_run_group_tests_name("shared", tests, NULL, NULL);
}
