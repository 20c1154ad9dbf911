/* Stores in a directory: names and files, limits, failures at every call, several processes, a copied directory. */
#define _DEFAULT_SOURCE
#include "ckpt_tests.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/outfile.h"

static infer_store *open_store(uint64_t max_count, uint64_t max_bytes)
{
    infer_store *store;
    infer_store_options o;
    INFER_INIT(&o);
    o.max_count = max_count;
    o.max_bytes = max_bytes;
    ok(infer_store_open(engine, tempdir_path("store"), INFER_ZSTR, &o, &store, &error));
    return store;
}

/* Empties and removes the store's directory. */
static void drop_store(infer_store *store)
{
    infer_store_entry e;
    INFER_INIT(&e);
    while (infer_store_next(store, NULL, 0, &e, NULL) == INFER_OK)
        ok(infer_store_delete(store, e.name, e.name_len, &error));
    infer_store_release(store);
    assert_int_equal(rmdir(tempdir_path("store")), 0); /* nothing else was in it */
}

static infer_checkpoint *checkpoint_of(const struct ckpt_model *m, uint64_t n)
{
    infer_session *s = ckpt_session(m, INFER_KV_F16);
    infer_checkpoint *c;
    ckpt_append(m, s, 0, n);
    ckpt_step(s);
    ok(infer_checkpoint_create(s, &c, &error));
    infer_session_release(s);
    return c;
}

static infer_status put(infer_store *store, const char *name, infer_checkpoint *c, uint32_t flags)
{
    return infer_store_put(store, name, INFER_ZSTR, c, flags, NULL, &error);
}

/* Length of the checkpoint of this name, computed one element further; 0: there is none. */
static uint64_t length_in(infer_store *store, const struct ckpt_model *m, const char *name)
{
    infer_checkpoint *c;
    infer_session *s;
    infer_status st = infer_store_get(store, m->m, name, INFER_ZSTR, NULL, &c, &error);
    if (st == INFER_ERROR_NOT_FOUND)
        return 0;
    ok(st);
    ok(infer_checkpoint_session(c, &s, &error));
    uint64_t n = s->length;
    ckpt_append(m, s, 0, 1);
    ckpt_step(s);
    infer_session_release(s);
    infer_checkpoint_release(c);
    return n;
}

static void test_names(void **state)
{
    (void)state;
    NEEDS_HASH();
    static const char *const names[] = {".", "..", "A", "CON", "a", "a b", "a%41", "c:\\x*?", "z\xC3\xA4", "\xF0\x9F\x90\x98"};
    struct ckpt_model m = ckpt_open("llama");
    infer_store *store = open_store(0, 0);
    infer_store_entry e;
    infer_store_info info;
    int n = (int)(sizeof names / sizeof *names);
    for (int i = n; i-- > 0;) {
        infer_checkpoint *c = checkpoint_of(&m, (uint64_t)i + 1);
        ok(put(store, names[i], c, 0));
        assert_int_equal(put(store, names[i], c, 0), INFER_ERROR_EXISTS);
        infer_checkpoint_release(c);
    }
    infer_store_release(store);
    store = open_store(0, 0); /* as another process would see it */
    INFER_INIT(&e);
    for (int i = 0; i < n; i++) {
        assert_int_equal(length_in(store, &m, names[i]), i + 1);
        ok(infer_store_next(store, i ? names[i - 1] : NULL, i ? INFER_ZSTR : 0, &e, &error));
        assert_string_equal(e.name, names[i]);
        assert_int_equal(e.length, i + 1);
        assert_int_equal(e.computed, i + 1);
        assert_int_equal(e.kv_type, INFER_KV_F16);
        assert_true(e.bytes > 4096);
    }
    assert_int_equal(infer_store_next(store, names[n - 1], INFER_ZSTR, &e, &error), INFER_ERROR_NOT_FOUND);
    INFER_INIT(&info);
    ok(infer_store_get_info(store, &info, &error));
    assert_int_equal(info.count, n);
    assert_true(info.bytes > (uint64_t)n * 4096);
    char longest[256];
    memset(longest, 'X', 255);
    longest[255] = 0;
    infer_checkpoint *c = checkpoint_of(&m, 3);
    assert_int_equal(put(store, longest, c, 0), INFER_ERROR_ARGUMENT); /* escaped it is too long */
    memset(longest, 'x', 255);
    longest[248] = 0;
    assert_int_equal(put(store, longest, c, 0), INFER_ERROR_ARGUMENT);
    longest[247] = 0;
    ok(put(store, longest, c, 0));
    assert_int_equal(length_in(store, &m, longest), 3);
    infer_checkpoint_release(c);
    assert_int_equal(infer_store_get(store, NULL, "a", 1, NULL, &c, &error), INFER_ERROR_ARGUMENT);
    drop_store(store);
    ckpt_close(&m);
}

static void test_calls(void **state)
{
    (void)state;
    NEEDS_HASH();
    struct ckpt_model m = ckpt_open("gemma3");
    for (int no_links = 0; no_links < 2; no_links++) { /* file systems without second names and shared blocks */
        infer_store *store = open_store(0, 0);
        infer_checkpoint *one = checkpoint_of(&m, 100), *two = checkpoint_of(&m, 200);
        failing_io.no_clone = no_links;
        ok(put(store, "one", one, 0));
        ok(put(store, "two", one, 0));
        ok(put(store, "two", two, INFER_STORE_REPLACE));
        ok(infer_store_branch(store, "one", 3, "b", 1, 0, &error));
        assert_int_equal(infer_store_branch(store, "one", 3, "b", 1, 0, &error), INFER_ERROR_EXISTS);
        assert_int_equal(infer_store_branch(store, "none", 4, "x", 1, 0, &error), INFER_ERROR_NOT_FOUND);
        ok(infer_store_branch(store, "two", 3, "b", 1, INFER_STORE_REPLACE, &error));
        assert_int_equal(length_in(store, &m, "one"), 100);
        assert_int_equal(length_in(store, &m, "b"), 200);
        ok(infer_store_rename(store, "b", 1, "B", 1, 0, &error));
        assert_int_equal(length_in(store, &m, "b"), 0);
        assert_int_equal(length_in(store, &m, "B"), 200);
        assert_int_equal(infer_store_rename(store, "one", 3, "two", 3, 0, &error), INFER_ERROR_EXISTS);
        assert_int_equal(infer_store_rename(store, "none", 4, "two", 3, 0, &error), INFER_ERROR_NOT_FOUND);
        ok(infer_store_rename(store, "one", 3, "one", 3, 0, &error));
        ok(infer_store_rename(store, "one", 3, "two", 3, INFER_STORE_REPLACE, &error));
        assert_int_equal(length_in(store, &m, "two"), 100);
        ok(infer_store_branch(store, "two", 3, "three", 5, 0, &error));
        ok(infer_store_rename(store, "two", 3, "three", 5, INFER_STORE_REPLACE, &error)); /* two names of one file */
        assert_int_equal(length_in(store, &m, "two"), 0);
        assert_int_equal(length_in(store, &m, "three"), 100);
        /* what was got outlives its entry */
        infer_checkpoint *got;
        infer_session *s;
        ok(infer_store_get(store, m.m, "B", 1, NULL, &got, &error));
        ok(infer_store_delete(store, "B", 1, &error));
        assert_int_equal(infer_store_delete(store, "B", 1, &error), INFER_ERROR_NOT_FOUND);
        ok(infer_checkpoint_session(got, &s, &error));
        ckpt_append(&m, s, 0, 2);
        ckpt_step(s);
        infer_session_release(s);
        infer_checkpoint_release(got);
        infer_checkpoint_release(one);
        infer_checkpoint_release(two);
        drop_store(store);
        failing_io_set(0, 0);
    }
    ckpt_close(&m);
}

static void test_limits(void **state)
{
    (void)state;
    NEEDS_HASH();
    struct ckpt_model m = ckpt_open("llama");
    infer_checkpoint *c = checkpoint_of(&m, 100), *large = checkpoint_of(&m, 1500);
    infer_store *store = open_store(2, 0);
    infer_store_info info;
    ok(put(store, "a", c, 0));
    ok(put(store, "b", c, 0));
    assert_int_equal(put(store, "c", c, 0), INFER_ERROR_LIMIT);
    assert_int_equal(infer_store_branch(store, "a", 1, "c", 1, 0, &error), INFER_ERROR_LIMIT);
    ok(put(store, "b", c, INFER_STORE_REPLACE));
    INFER_INIT(&info);
    ok(infer_store_get_info(store, &info, &error));
    uint64_t each = info.bytes / 2;
    drop_store(store);
    store = open_store(0, each * 3);
    ok(put(store, "a", c, 0));
    ok(put(store, "b", c, 0));
    assert_int_equal(put(store, "c", large, 0), INFER_ERROR_LIMIT);
    assert_int_equal(put(store, "b", large, INFER_STORE_REPLACE), INFER_ERROR_LIMIT);
    assert_int_equal(length_in(store, &m, "b"), 100);
    ok(put(store, "c", c, 0));
    assert_int_equal(infer_store_branch(store, "a", 1, "d", 1, 0, &error), INFER_ERROR_LIMIT);
    ok(put(store, "a", c, INFER_STORE_REPLACE));
    drop_store(store);
    infer_checkpoint_release(c);
    infer_checkpoint_release(large);
    ckpt_close(&m);
}

/* Every file call and every allocation fails in turn: each entry is what it was or what it should become. */
static void test_failures(void **state)
{
    (void)state;
    NEEDS_HASH();
    struct ckpt_model m = ckpt_open("llama");
    infer_checkpoint *old = checkpoint_of(&m, 10), *new = checkpoint_of(&m, 20);
    infer_store *store = open_store(100, 0);
    int failures = 0;
    for (int what = 0; what < 10; what++)
        for (uint64_t at = 1;; at++) {
            infer_store_entry e;
            infer_status st = INFER_OK;
            INFER_INIT(&e);
            while (infer_store_next(store, NULL, 0, &e, NULL) == INFER_OK)
                ok(infer_store_delete(store, e.name, e.name_len, &error));
            ok(put(store, "x", old, 0));
            ok(put(store, "y", new, 0));
            failing_io_set(what % 2 ? 0 : at, at % 2 ? EIO : ENOSPC);
            counted.calls = 0;
            counted.fail_at = what % 2 ? at : 0;
            switch (what / 2) {
            case 0: st = put(store, "x", new, INFER_STORE_REPLACE); break;
            case 1: st = put(store, "z", new, 0); break;
            case 2: st = infer_store_branch(store, "y", 1, "x", 1, INFER_STORE_REPLACE, &error); break;
            case 3: st = infer_store_rename(store, "y", 1, "x", 1, INFER_STORE_REPLACE, &error); break;
            default: st = infer_store_rename(store, "y", 1, "z", 1, 0, &error);
            }
            bool reached = what % 2 ? counted.calls >= at : failing_io.calls >= at;
            counted.fail_at = 0;
            failing_io_set(0, 0);
            failures += st != INFER_OK;
            if (st == INFER_ERROR_IO)
                assert_non_null(strstr(error.file, "store")); /* a file, or the folder */
            uint64_t x = length_in(store, &m, "x"), y = length_in(store, &m, "y"), z = length_in(store, &m, "z");
            assert_true(x == 10 || (x == 20 && what < 8));
            assert_true(y == 20 || (y == 0 && what >= 6));
            assert_true(z == 0 || (z == 20 && (what / 2 == 1 || what / 2 == 4)));
            if (!reached)
                break;
        }
    print_message("# %d failures\n", failures);
    assert_true(failures > 60);
    drop_store(store);
    infer_checkpoint_release(old);
    infer_checkpoint_release(new);
    ckpt_close(&m);
}

/* What conversations say is not for other users of the machine. */
static void test_private(void **state)
{
    (void)state;
    NEEDS_HASH();
    struct stat st;
    infer_store *store;
    ok(infer_store_open(engine, tempdir_path("private"), INFER_ZSTR, NULL, &store, &error));
    infer_store_release(store);
    assert_int_equal(stat(tempdir_path("private"), &st), 0);
    assert_int_equal(st.st_mode & 077, 0);
    assert_int_equal(rmdir(tempdir_path("private")), 0);
}

/* Damaged files, and files of others, in the directory. */
static void test_strangers(void **state)
{
    (void)state;
    NEEDS_HASH();
    static const char *const odd[] = {"readme.txt", "c_.infer", "c_A.infer", "c_%4.infer", "c_%zz.infer", "c_%2F.infer", "c_%2f.infer", "c_a"};
    struct ckpt_model m = ckpt_open("llama");
    infer_store *store = open_store(0, 0);
    infer_checkpoint *c = checkpoint_of(&m, 5), *got = NULL;
    infer_store_entry e;
    char name[64];
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        snprintf(name, sizeof name, "store/%s", odd[i]);
        tempdir_write(name, "x", 1);
    }
    tempdir_write("store/.infer-99999-0.tmp", "x", 1);
    tempdir_write("store/c_hurt.infer", "x", 1);
    ok(put(store, "good", c, 0));
    assert_int_equal(tempdir_size("store/.infer-99999-0.tmp"), -1);
    INFER_INIT(&e);
    ok(infer_store_next(store, NULL, 0, &e, &error));
    assert_string_equal(e.name, "good");
    ok(infer_store_next(store, "good", 4, &e, &error));
    assert_string_equal(e.name, "hurt"); /* seen, so that it can be deleted; nothing is known of it */
    assert_int_equal(e.length, 0);
    assert_int_equal(e.bytes, 1);
    assert_int_equal(infer_store_next(store, "hurt", 4, &e, &error), INFER_ERROR_NOT_FOUND);
    assert_int_equal(infer_store_get(store, m.m, "hurt", 4, NULL, &got, &error), INFER_ERROR_FORMAT);
    assert_null(got);
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        snprintf(name, sizeof name, "store/%s", odd[i]);
        assert_int_equal(unlink(tempdir_path(name)), 0);
    }
    infer_checkpoint_release(c);
    drop_store(store);
    assert_int_equal(infer_store_open(engine, tempdir_path("no/where"), INFER_ZSTR, NULL, &store, &error), INFER_ERROR_NOT_FOUND);
    tempdir_write("file", "x", 1);
    assert_int_equal(infer_store_open(engine, tempdir_path("file"), INFER_ZSTR, NULL, &store, &error), INFER_ERROR_IO);
    ckpt_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names), cmocka_unit_test(test_calls), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_failures), cmocka_unit_test(test_strangers), cmocka_unit_test(test_private),
    };
    return cmocka_run_group_tests_name("store_dir", tests, ckpt_setup, ckpt_teardown);
}
