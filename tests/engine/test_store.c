/* Stores: checkpoints by name. */
#include "gemma_state.h"

#include <pthread.h>
#include <string.h>

static infer_checkpoint *in_store(infer_store *store, const char *name, uint64_t len)
{
    infer_checkpoint *c;
    ok(infer_store_get(store, model, name, len, NULL, &c, &error));
    return c;
}

static infer_store_info store_info(infer_store *store)
{
    infer_store_info i;
    INFER_INIT(&i);
    ok(infer_store_get_info(store, &i, &error));
    return i;
}

static void test_store(void **state)
{
    (void)state;
    infer_store *store;
    infer_session *s = session_of(INFER_KV_F16, 0);
    infer_checkpoint *c[3], *got;
    infer_store_entry e;
    uint64_t bytes = 0;
    ok(infer_store_open(engine, NULL, 0, NULL, &store, &error));
    for (int i = 0; i < 3; i++) {
        append(s, 0, 50);
        step(s);
        ok(infer_checkpoint_create(s, &c[i], &error));
        bytes += about(c[i]).bytes;
        assert_true(about(c[i]).bytes > about(c[i]).kv_bytes);
    }
    static const char *const names[3] = {"b", "a", "\xc3\xa9t\xc3\xa9 .."};
    for (int i = 0; i < 3; i++)
        ok(infer_store_put(store, names[i], INFER_ZSTR, c[i], 0, NULL, &error));
    assert_int_equal(store_info(store).count, 3);
    assert_int_equal(store_info(store).bytes, bytes);
    assert_int_equal(infer_store_put(store, "a", 1, c[0], 0, NULL, &error), INFER_ERROR_EXISTS);
    assert_string_equal(error.name, "a");
    static const char *const sorted[3] = {"a", "b", "\xc3\xa9t\xc3\xa9 .."};
    static const uint64_t lengths[3] = {100, 50, 150};
    INFER_INIT(&e);
    for (int i = 0; i < 3; i++) {
        ok(infer_store_next(store, e.name, e.name_len, &e, &error));
        assert_string_equal(e.name, sorted[i]);
        assert_int_equal(e.length, lengths[i]);
        assert_int_equal(e.kv_type, INFER_KV_F16);
    }
    assert_int_equal(infer_store_next(store, e.name, e.name_len, &e, &error), INFER_ERROR_NOT_FOUND);
    ok(infer_store_next(store, "aa", 2, &e, &error)); /* after a name that is not there */
    assert_string_equal(e.name, "b");

    ok(infer_store_branch(store, "a", 1, "c", 1, 0, &error));
    got = in_store(store, "c", 1);
    assert_ptr_equal(got, c[1]);
    infer_checkpoint_release(got);
    assert_int_equal(infer_store_branch(store, "x", 1, "y", 1, 0, &error), INFER_ERROR_NOT_FOUND);
    assert_int_equal(infer_store_branch(store, "a", 1, "b", 1, 0, &error), INFER_ERROR_EXISTS);
    ok(infer_store_rename(store, "c", 1, "0", 1, 0, &error));
    assert_int_equal(infer_store_rename(store, "c", 1, "0", 1, 0, &error), INFER_ERROR_NOT_FOUND);
    assert_int_equal(infer_store_rename(store, "0", 1, "b", 1, 0, &error), INFER_ERROR_EXISTS);
    ok(infer_store_rename(store, "0", 1, "0", 1, 0, &error));
    ok(infer_store_rename(store, "0", 1, "b", 1, INFER_STORE_REPLACE, &error));
    assert_int_equal(store_info(store).count, 3);
    got = in_store(store, "b", 1);
    assert_ptr_equal(got, c[1]);
    infer_checkpoint_release(got);
    ok(infer_store_put(store, "b", 1, c[2], INFER_STORE_REPLACE, NULL, &error));
    assert_int_equal(store_info(store).bytes, about(c[1]).bytes + 2 * about(c[2]).bytes);
    ok(infer_store_delete(store, "b", 1, &error));
    assert_int_equal(infer_store_delete(store, "b", 1, &error), INFER_ERROR_NOT_FOUND);
    assert_int_equal(infer_store_get(store, model, "b", 1, NULL, &got, &error), INFER_ERROR_NOT_FOUND);

    got = in_store(store, "a", 1); /* outlives the store, and all the handles it was made of */
    for (int i = 0; i < 3; i++)
        infer_checkpoint_release(c[i]);
    infer_store_release(store);
    ok(infer_session_restore(s, got, &error));
    assert_int_equal(info_of(s).length, 100);
    infer_checkpoint_release(got);
    infer_session_release(s);
}

static void test_store_limits(void **state)
{
    (void)state;
    infer_store *store = NULL;
    infer_store_options o;
    infer_session *s = session_of(INFER_KV_F16, 0);
    infer_checkpoint *c, *got = NULL;
    infer_store_entry e;
    infer_model *other;
    append(s, 0, 50);
    step(s);
    ok(infer_checkpoint_create(s, &c, &error));
    INFER_INIT(&o);
    o.max_count = 2;
    o.max_bytes = 2 * about(c).bytes - 1;
    assert_int_equal(infer_store_open(NULL, NULL, 0, &o, &store, &error), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_store_open(engine, NULL, 1, &o, &store, &error), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_store_open(engine, NULL, 0, &o, NULL, &error), INFER_ERROR_ARGUMENT);
    ok(infer_store_open(engine, NULL, 0, &o, &store, &error));
    ok(infer_store_put(store, "a", 1, c, 0, NULL, &error));
    assert_int_equal(infer_store_put(store, "b", 1, c, 0, NULL, &error), INFER_ERROR_LIMIT); /* bytes */
    ok(infer_store_put(store, "a", 1, c, INFER_STORE_REPLACE, NULL, &error));
    assert_int_equal(store_info(store).count, 1);
    infer_store_release(store);
    o.max_bytes = 0;
    ok(infer_store_open(engine, NULL, 0, &o, &store, &error));
    ok(infer_store_put(store, "a", 1, c, 0, NULL, &error));
    ok(infer_store_put(store, "b", 1, c, 0, NULL, &error));
    assert_int_equal(infer_store_branch(store, "a", 1, "c", 1, 0, &error), INFER_ERROR_LIMIT); /* count */
    ok(infer_store_rename(store, "a", 1, "c", 1, 0, &error));

    char longest[257];
    memset(longest, 'n', sizeof longest);
    longest[256] = 0;
    static const char *const bad[] = {"", "a/b", "/", "a\nb", "\x7f", "\xc2\x85", "\xff", "\xc3"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(infer_store_put(store, bad[i], INFER_ZSTR, c, 0, NULL, &error), INFER_ERROR_ARGUMENT);
        assert_string_equal(error.name, "name");
        assert_int_equal(infer_store_rename(store, "c", 1, bad[i], INFER_ZSTR, 0, &error), INFER_ERROR_ARGUMENT);
    }
    assert_int_equal(infer_store_rename(store, "c", 1, "c\0d", 3, 0, &error), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_store_rename(store, "c", 1, longest, 256, 0, &error), INFER_ERROR_ARGUMENT);
    ok(infer_store_rename(store, "c", 1, longest, 255, 0, &error));
    INFER_INIT(&e);
    ok(infer_store_next(store, "b", 1, &e, &error));
    assert_int_equal(e.name_len, 255);
    longest[255] = 0;
    assert_string_equal(e.name, longest);
    assert_int_equal(infer_store_put(store, "b", 1, c, 8, NULL, &error), INFER_ERROR_ARGUMENT);
    ok(infer_model_open_path(engine, fixture_path("qwen2"), &other, &error));
    assert_int_equal(infer_store_get(store, other, "b", 1, NULL, &got, &error), INFER_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "another model"));
    assert_int_equal(infer_store_get(store, NULL, "b", 1, NULL, &got, &error), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_store_get(NULL, model, "b", 1, NULL, &got, &error), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_store_put(store, "b", 1, NULL, 0, NULL, &error), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_store_next(store, NULL, 0, NULL, &error), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_store_get_info(store, NULL, &error), INFER_ERROR_ARGUMENT);
    assert_null(infer_store_ref(NULL));
    assert_null(got);
    infer_store_release(NULL);
    infer_model_release(other);
    infer_store_release(store);
    infer_checkpoint_release(c);
    infer_session_release(s);
}

/* Threads that put, get, move and delete the same few names: whoever gets something gets it whole. */
static infer_store *shared_store;

static void *hammer(void *arg)
{
    uint64_t seed = (uint64_t)(uintptr_t)arg, got = 0;
    infer_checkpoint *c = NULL;
    if (infer_store_get(shared_store, model, "first", 5, NULL, &c, NULL) != INFER_OK)
        return NULL;
    for (int i = 0; i < 2000; i++) {
        const char *a = &"abcdefgh"[test_rand(&seed) % 8], *b = &"abcdefgh"[test_rand(&seed) % 8];
        infer_store_entry e;
        infer_checkpoint *d = NULL;
        INFER_INIT(&e);
        switch (test_rand(&seed) % 6) {
        case 0: (void)infer_store_put(shared_store, a, 1, c, INFER_STORE_REPLACE, NULL, NULL); break;
        case 1: (void)infer_store_rename(shared_store, a, 1, b, 1, (uint32_t)(i % 2), NULL); break;
        case 2: (void)infer_store_branch(shared_store, a, 1, b, 1, (uint32_t)(i % 2), NULL); break;
        case 3: (void)infer_store_delete(shared_store, a, 1, NULL); break;
        case 4: (void)infer_store_next(shared_store, a, 1, &e, NULL); break;
        default:
            if (infer_store_get(shared_store, model, a, 1, NULL, &d, NULL) == INFER_OK && d == c)
                got++;
            infer_checkpoint_release(d);
        }
    }
    infer_checkpoint_release(c);
    return (void *)(uintptr_t)(got + 1);
}

static void test_store_threads(void **state)
{
    (void)state;
    enum { N = 4 };
    pthread_t threads[N];
    infer_engine *e;
    infer_session *s;
    infer_checkpoint *c;
    infer_model *was = model;
    ok(infer_engine_create(NULL, &e, &error)); /* the other one counts its allocations, and knows no threads */
    ok(infer_model_open_path(e, fixture_path("gemma3"), &model, &error));
    s = session_of(INFER_KV_F16, 0);
    append(s, 0, 70);
    step(s);
    ok(infer_checkpoint_create(s, &c, &error));
    ok(infer_store_open(e, NULL, 0, NULL, &shared_store, &error));
    ok(infer_store_put(shared_store, "first", 5, c, 0, NULL, &error));
    for (uintptr_t i = 0; i < N; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, (void *)(i + 1)), 0);
    uint64_t got = 0;
    for (int i = 0; i < N; i++) {
        void *result = NULL;
        pthread_join(threads[i], &result);
        assert_non_null(result);
        got += (uint64_t)(uintptr_t)result - 1;
    }
    assert_true(got > 100);
    assert_in_range(store_info(shared_store).count, 1, 9);
    assert_int_equal(store_info(shared_store).bytes, store_info(shared_store).count * about(c).bytes);
    infer_store_release(shared_store);
    infer_checkpoint_release(c);
    infer_session_release(s);
    infer_model_release(model);
    infer_engine_release(e);
    model = was;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_store),
        cmocka_unit_test(test_store_limits),
        cmocka_unit_test(test_store_threads),
    };
    return cmocka_run_group_tests_name("store", tests, setup, teardown);
}
