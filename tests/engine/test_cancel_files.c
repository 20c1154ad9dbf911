/* A set cancel flag ends what reads and writes files, at whatever moment it is set: a file appears whole or not at all, and what was there
 * before stays. See cancel_tests.h for what a moment is. */
#define _DEFAULT_SOURCE
#include "cancel_tests.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/pack.h"
#include "engine/checkpoint_file.h"

enum { LENGTH = 200, MORE = 330 };

static infer_engine *engine;
static infer_model *model;
static infer_session *session, *longer;
static infer_checkpoint *checkpoint, *later;
static infer_store *store;

static int setup(void **state)
{
    (void)cancel_setup(state);
    engine = watched_engine();
    ok(infer_model_open_path(engine, fixture_path("gemma3"), &model, &error)); /* with sliding windows */
    session = cancel_session(model, 400, LENGTH);
    longer = cancel_session(model, 400, MORE);
    ok(cancel_step(session, NULL));
    ok(cancel_step(longer, NULL));
    ok(infer_checkpoint_create(session, &checkpoint, &error));
    ok(infer_checkpoint_create(longer, &later, &error));
    return 0;
}

static int teardown(void **state)
{
    infer_store_release(store);
    infer_checkpoint_release(checkpoint);
    infer_checkpoint_release(later);
    infer_session_release(session);
    infer_session_release(longer);
    infer_model_release(model);
    return cancel_teardown(state);
}

static void nothing(void)
{
}

/* The logits of a session from a checkpoint of `length` elements that goes on. */
static void goes_on(infer_checkpoint *c, uint64_t length)
{
    int32_t id = 7;
    infer_session *s;
    infer_session_options o;
    INFER_INIT(&o);
    o.n_ctx = 400;
    o.cache_flags = INFER_CACHE_NO_LOOKUP | INFER_CACHE_NO_INSERT;
    ok(infer_session_create(model, &o, &s, &error));
    ok(infer_session_restore(s, c, &error));
    assert_int_equal(cancel_info(s).computed, length);
    ok(infer_session_append(s, &id, 1, &error));
    cancel_same(s);
    infer_session_release(s);
}

/* ---- Saving: over a file that is there, packed or not, with the model's whole fingerprint, and as a delta */

static uint32_t save_flags;
static bool as_delta;

static const char *path_of(const char *name)
{
    return tempdir_path(name);
}

static void begin_save(void)
{
    ok(infer_checkpoint_save(checkpoint, path_of("file"), INFER_ZSTR, NULL, NULL, &error));
}

static infer_status call_save(infer_cancel *cancel)
{
    infer_save_options o;
    const char *parent = path_of("base");
    INFER_INIT(&o);
    o.flags = save_flags;
    o.parent = as_delta ? parent : NULL;
    o.parent_len = as_delta ? strlen(parent) : 0;
    return infer_checkpoint_save(later, path_of("file"), INFER_ZSTR, &o, cancel, &error);
}

static void check_save(infer_status st)
{
    infer_checkpoint *c;
    ok(infer_checkpoint_open(model, path_of("file"), INFER_ZSTR, NULL, NULL, &c, &error));
    goes_on(c, st == INFER_OK ? MORE : LENGTH); /* the new one, or the one that was there */
    infer_checkpoint_release(c);
    assert_int_equal(tempdir_count(".infer-"), 0);
}

static void end_save(void)
{
    (void)unlink(path_of("file"));
}

static void test_save(void **state)
{
    (void)state;
    if (!hash_available())
        skip();
    ok(infer_checkpoint_save(checkpoint, path_of("base"), INFER_ZSTR, NULL, NULL, &error));
    struct scene s = {"save", begin_save, call_save, check_save, end_save, .least = 30, .after = 24};
    run_scene(&s);
    s.name = "save, full fingerprint";
    save_flags = INFER_SAVE_FULL_MODEL;
    run_scene(&s);
    s.name = "save, delta";
    save_flags = 0;
    as_delta = true;
    run_scene(&s);
    as_delta = false;
    s.name = "save, zstd";
    save_flags = INFER_SAVE_ZSTD;
    if (pack_available())
        run_scene(&s);
    save_flags = 0;
    (void)unlink(path_of("base"));
}

/* ---- Opening, and the first step of what was opened, which verifies its pages */

static int32_t load_map, load_verify;
static infer_checkpoint *loaded;
static infer_session *restored;

static infer_status call_load(infer_cancel *cancel)
{
    infer_load_options o;
    INFER_INIT(&o);
    o.map = load_map;
    o.verify = load_verify;
    loaded = NULL;
    return infer_checkpoint_open(model, path_of("file"), INFER_ZSTR, &o, cancel, &loaded, &error);
}

static void check_load(infer_status st)
{
    if (st != INFER_OK) {
        assert_null(loaded);
        ok(call_load(NULL));
    }
    goes_on(loaded, MORE);
    infer_checkpoint_release(loaded);
}

static void begin_first_step(void)
{
    int32_t id = 9;
    infer_session_options o;
    INFER_INIT(&o);
    o.n_ctx = 400;
    o.cache_flags = INFER_CACHE_NO_LOOKUP | INFER_CACHE_NO_INSERT;
    load_map = INFER_MAP_AUTO;
    load_verify = INFER_VERIFY_FIRST_USE;
    ok(call_load(NULL));
    ok(infer_session_create(model, &o, &restored, &error));
    ok(infer_session_restore(restored, loaded, &error));
    ok(infer_session_append(restored, &id, 1, &error));
    infer_checkpoint_release(loaded);
}

static infer_status call_first_step(infer_cancel *cancel)
{
    return cancel_step(restored, cancel);
}

static void check_first_step(infer_status st)
{
    assert_int_equal(cancel_info(restored).computed, st == INFER_OK ? MORE + 1 : MORE);
    cancel_same(restored);
}

static void end_first_step(void)
{
    infer_session_release(restored);
}

static void test_load(void **state)
{
    (void)state;
    if (!hash_available())
        skip();
    infer_save_options o;
    INFER_INIT(&o);
    o.flags = INFER_SAVE_FULL_MODEL;
    ok(infer_checkpoint_save(later, path_of("file"), INFER_ZSTR, &o, NULL, &error));
    struct scene s = {"load, mapped", nothing, call_load, check_load, nothing, .least = 15, .after = 45};
    load_map = INFER_MAP_AUTO;
    load_verify = INFER_VERIFY_LOAD;
    run_scene(&s);
    s.name = "load, read";
    load_map = INFER_MAP_READ;
    run_scene(&s);
    run_scene(&(struct scene){"first step after it", begin_first_step, call_first_step, check_first_step, end_first_step, .least = 50, .after = 6});
    if (pack_available()) {
        o.flags = INFER_SAVE_ZSTD;
        ok(infer_checkpoint_save(later, path_of("file"), INFER_ZSTR, &o, NULL, &error));
        s.name = "load, zstd";
        load_map = INFER_MAP_AUTO;
        load_verify = INFER_VERIFY_LOAD;
        run_scene(&s);
    }
    (void)unlink(path_of("file"));
}

/* ---- Copies, stores, fingerprints */

static infer_status call_clone(infer_cancel *cancel)
{
    return infer_checkpoint_clone_file(engine, path_of("from"), INFER_ZSTR, path_of("file"), INFER_ZSTR, cancel, &error);
}

static void test_clone(void **state)
{
    (void)state;
    if (!hash_available())
        skip();
    ok(infer_checkpoint_save(later, path_of("from"), INFER_ZSTR, NULL, NULL, &error));
    run_scene(&(struct scene){"clone", begin_save, call_clone, check_save, end_save, .least = 6, .after = 8});
    (void)unlink(path_of("from"));
}

static infer_status call_put(infer_cancel *cancel)
{
    return infer_store_put(store, "name", INFER_ZSTR, later, INFER_STORE_REPLACE, cancel, &error);
}

static void begin_put(void)
{
    ok(infer_store_put(store, "name", INFER_ZSTR, checkpoint, INFER_STORE_REPLACE, NULL, &error));
}

static void check_put(infer_status st)
{
    infer_checkpoint *c;
    ok(infer_store_get(store, model, "name", INFER_ZSTR, NULL, &c, &error));
    goes_on(c, st == INFER_OK ? MORE : LENGTH);
    infer_checkpoint_release(c);
}

static infer_status call_get(infer_cancel *cancel)
{
    loaded = NULL;
    return infer_store_get(store, model, "name", INFER_ZSTR, cancel, &loaded, &error);
}

static void check_get(infer_status st)
{
    if (st != INFER_OK) {
        assert_null(loaded);
        ok(call_get(NULL));
    }
    goes_on(loaded, MORE);
    infer_checkpoint_release(loaded);
}

static void test_store(void **state)
{
    (void)state;
    if (!hash_available())
        skip();
    ok(infer_store_open(engine, path_of("store"), INFER_ZSTR, NULL, &store, &error));
    run_scene(&(struct scene){"store put", begin_put, call_put, check_put, nothing, .least = 30, .after = 12});
    ok(call_put(NULL));
    run_scene(&(struct scene){"store get", nothing, call_get, check_get, nothing, .least = 10, .after = 25});
    ok(infer_store_delete(store, "name", INFER_ZSTR, &error));
}

static uint8_t print[32], wanted_print[32];
static bool have_print;

static infer_status call_fingerprint(infer_cancel *cancel)
{
    if (cancel) /* the file's size: in one piece. So the flag is set before it */
        moments_pass();
    return infer_model_fingerprint(model, INFER_FINGERPRINT_FULL, print, cancel, &error);
}

static void check_fingerprint(infer_status st)
{
    if (st != INFER_OK)
        ok(call_fingerprint(NULL));
    if (!have_print)
        memcpy(wanted_print, print, sizeof print);
    have_print = true;
    assert_memory_equal(print, wanted_print, sizeof print);
}

static void test_fingerprint(void **state)
{
    (void)state;
    if (!hash_available())
        skip();
    run_scene(&(struct scene){"fingerprint", nothing, call_fingerprint, check_fingerprint, nothing, .least = 1, .after = 1});
}

/* Hashes in pieces are those of the whole. */
static void test_hash_pieces(void **state)
{
    (void)state;
    if (!hash_available())
        skip();
    static uint8_t data[(3 << 20) + 17];
    const size_t sizes[] = {0, 1, 1 << 20, (1 << 20) + 1, 2 << 20, sizeof data};
    uint64_t seed = 5;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)test_rand(&seed);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t h64 = 0;
        struct hash_128 h128 = {0, 0};
        infer_cancel_clear(moments.flag);
        assert_true(hash_64_polled(data, sizes[i], moments.flag, &h64));
        assert_true(hash_128_polled(data, sizes[i], i, moments.flag, &h128));
        assert_true(h64 == hash_64(data, sizes[i]));
        assert_true(hash_128_equal(h128, hash_128(data, sizes[i], i)));
        infer_cancel_set(moments.flag);
        assert_false(hash_64_polled(data, sizes[i], moments.flag, &h64));
    }
    infer_cancel_clear(moments.flag);
}

/* ---- The cache's folder */

static uint64_t kept_files;

/* Something is kept that no file has. */
static void begin_flush(void)
{
    infer_session *s;
    infer_session_options o;
    INFER_INIT(&o);
    o.n_ctx = 400;
    o.cache_flags = INFER_CACHE_NO_LOOKUP;
    ok(infer_engine_cache_clear(engine, &error));
    ok(infer_session_create(model, &o, &s, &error));
    ok(infer_session_append(s, cancel_ids() + 50, LENGTH, &error));
    ok(cancel_step(s, NULL));
    ok(infer_session_truncate(s, 100, NULL, &error));
    ok(infer_session_append(s, cancel_ids(), 100, &error));
    ok(cancel_step(s, NULL));
    infer_session_release(s);
}

static infer_status call_flush(infer_cancel *cancel)
{
    return infer_engine_cache_flush(engine, cancel, &error);
}

static void check_flush(infer_status st)
{
    infer_cache_stats stats;
    INFER_INIT(&stats);
    if (st != INFER_OK)
        ok(call_flush(NULL)); /* nothing is forgotten */
    ok(infer_engine_cache_stats(engine, &stats, &error));
    if (!kept_files)
        kept_files = stats.disk_files;
    assert_int_equal(stats.disk_files, kept_files);
    assert_int_equal(stats.disk_skipped, 0);
    /* Found again from the files alone, with the bits of what was never written. */
    infer_session *s;
    infer_session_options o;
    infer_cache_report report;
    INFER_INIT(&o);
    INFER_INIT(&report);
    o.n_ctx = 400;
    o.cache_flags = INFER_CACHE_NO_INSERT;
    ok(infer_engine_cache_clear(engine, &error));
    ok(infer_session_create(model, &o, &s, &error));
    ok(infer_session_append(s, cancel_ids() + 50, LENGTH, &error));
    cancel_same(s);
    ok(infer_session_cache_report(s, &report, &error));
    assert_true(report.reused > 100);
    infer_session_release(s);
}

static void remove_files(void)
{
    ok(infer_engine_cache_clear(engine, &error));
    tempdir_clear(".kvc");
}

static void test_flush(void **state)
{
    (void)state;
    if (!hash_available())
        skip();
    run_scene(&(struct scene){"flush", begin_flush, call_flush, check_flush, remove_files, .least = 20, .after = 16});
}

/* ---- A look-up in that folder that is cancelled finds less, or nothing, and hurts nothing */

static void begin_find(void)
{
    infer_session_options o;
    INFER_INIT(&o);
    o.n_ctx = 400;
    o.cache_flags = INFER_CACHE_NO_INSERT;
    ok(infer_engine_cache_clear(engine, &error));
    ok(infer_session_create(model, &o, &restored, &error));
    ok(infer_session_append(restored, cancel_ids() + 50, LENGTH, &error));
}

static void check_find(infer_status st)
{
    uint64_t computed = cancel_info(restored).computed;
    assert_true(st != INFER_OK || computed == LENGTH);
    cancel_same(restored);
}

static void end_find(void)
{
    infer_session_release(restored);
    ok(infer_engine_cache_clear(engine, &error)); /* what was found */
}

static void test_find(void **state)
{
    (void)state;
    if (!hash_available())
        skip();
    begin_flush();
    ok(call_flush(NULL));
    run_scene(&(struct scene){"step with a look-up", begin_find, call_first_step, check_find, end_find, .least = 50, .after = 30});
    remove_files();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_save),  cmocka_unit_test(test_load),        cmocka_unit_test(test_clone),       cmocka_unit_test(test_store),
        cmocka_unit_test(test_flush), cmocka_unit_test(test_fingerprint), cmocka_unit_test(test_hash_pieces), cmocka_unit_test(test_find),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
