/* The container of computed state: what is written comes back, and no damage of any byte goes unseen (hostile inputs N14, N30). */
#define _DEFAULT_SOURCE
#include "testutil.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/pack.h"
#include "failing_io.h"
#include "kv/kv_file.h"
#include "kv_seal.h"
#include "tempdir.h"

enum { PAGE = 8192, PAGES = 3, NOTE = KV_SECTION_FIRST, INDEX, EXTRA, PAGE_ODD = 4160 };

static infer_error err;
static uint8_t pages[PAGES][PAGE];

static bool known(uint32_t kind)
{
    return kind == NOTE || kind == INDEX;
}

static int setup(void **state)
{
    (void)state;
    uint64_t seed = 7;
    if (!hash_available())
        return 0;
    tempdir_make();
    for (int i = 0; i < PAGES; i++)
        for (int k = 0; k < PAGE; k++)
            pages[i][k] = (uint8_t)(test_rand(&seed) >> 60); /* compressible */
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (hash_available())
        tempdir_remove();
    return 0;
}

#define NEEDS_HASH()                                                                                                   \
    do {                                                                                                               \
        if (!hash_available())                                                                                         \
            skip();                                                                                                    \
    } while (0)

/* Pages 0 .. n-1, a hole, a note; with a parent: all but the last page are the parent's. */
static infer_status write_file(const struct env *env, const char *name, int level, struct kv_file *parent, uint32_t extra_flags,
                               struct hash_128 *id)
{
    struct kv_writer *w = NULL;
    struct kv_place places[PAGES + 1] = {{.source = 0}};
    const char *path = tempdir_path(name);
    struct kv_writer_options o = {.kind = KV_FILE_CHECKPOINT, .level = level, .parent = parent};
    infer_status st = kv_writer_open(env, path, strlen(path), &o, &w, &err);
    for (int i = 0; i < PAGES && st == INFER_OK; i++) {
        if (parent && i + 1 < PAGES) {
            const struct kv_place *theirs;
            uint64_t n;
            void *owned;
            st = kv_file_places(parent, kv_file_find(parent, INDEX, 5), PAGE, &theirs, &n, &owned, &err);
            if (st == INFER_OK) {
                places[i] = theirs[i];
                places[i].source++;
                mem_free(&parent->env->alloc, owned);
            }
        } else {
            st = kv_writer_page(w, pages[i], PAGE, &places[i], &err);
        }
    }
    places[PAGES] = (struct kv_place){.source = KV_PLACE_NONE};
    if (st == INFER_OK)
        st = kv_writer_section(w, INDEX, KV_SECTION_REQUIRED, 5, places, sizeof places, &err);
    if (st == INFER_OK)
        st = kv_writer_section(w, NOTE, KV_SECTION_REQUIRED, 0, "a note", 6, &err);
    if (st == INFER_OK)
        st = kv_writer_section(w, EXTRA, extra_flags, 0, NULL, 0, &err);
    if (st == INFER_OK)
        return kv_writer_commit(w, true, id, &err);
    kv_writer_abort(w);
    return st;
}

static infer_status open_with(const struct env *env, const char *name, int32_t map, struct kv_file **f)
{
    const char *path = tempdir_path(name);
    struct kv_file_options o = {KV_FILE_CHECKPOINT, map, known};
    return kv_file_open(env, path, strlen(path), &o, NULL, f, &err);
}

static infer_status open_file(const char *name, struct kv_file **f)
{
    return open_with(&env_default, name, INFER_MAP_AUTO, f);
}

/* Reads everything; the first failure. */
static infer_status read_all(struct kv_file *f)
{
    const struct kv_place *places;
    const void *note;
    void *owned, *mine = NULL;
    uint64_t n = 0;
    const struct kv_section *index = kv_file_find(f, INDEX, 5), *s = kv_file_find(f, NOTE, 0);
    infer_status st = kv_file_places(f, index, PAGE, &places, &n, &owned, &err);
    for (uint64_t i = 0; i < n && st == INFER_OK; i++) {
        if (places[i].source == KV_PLACE_NONE)
            continue;
        st = kv_place_check(f, &places[i], &err);
        if (st == INFER_OK && !(places[i].flags & KV_PLACE_PACKED))
            assert_memory_equal(kv_place_data(f, &places[i]), pages[i], PAGE);
        if (st == INFER_OK && places[i].flags & KV_PLACE_PACKED) {
            struct packer *p;
            static uint8_t room[PAGE];
            assert_int_equal(pack_create(&f->env->alloc, 0, &p, &err), INFER_OK);
            assert_int_equal(pack_expand(p, room, PAGE, kv_place_data(f, &places[i]), (size_t)places[i].stored, &err), INFER_OK);
            assert_memory_equal(room, pages[i], PAGE);
            assert_true(hash_64(room, PAGE) == places[i].hash);
            pack_free(p);
        }
    }
    if (st == INFER_OK) {
        assert_int_equal(n, PAGES + 1);
        st = kv_file_data(f, s, 6, &note, &mine, &err);
    }
    if (st == INFER_OK)
        assert_memory_equal(note, "a note", 6);
    mem_free(&f->env->alloc, owned);
    mem_free(&f->env->alloc, mine);
    return st;
}

static void test_round_trip(void **state)
{
    (void)state;
    NEEDS_HASH();
    for (int level = 0; level <= (pack_available() ? 3 : 0); level += 3)
        for (int32_t map = INFER_MAP_AUTO; map <= INFER_MAP_READ; map++) {
            struct kv_file *f;
            struct hash_128 id, again;
            assert_int_equal(write_file(&env_default, "a", level, NULL, 0, &id), INFER_OK);
            assert_int_equal(write_file(&env_default, "b", level, NULL, 0, &again), INFER_OK);
            assert_true(hash_128_equal(id, again)); /* of the content */
            infer_status st = open_with(&env_default, "a", map, &f);
            if (map == INFER_MAP_MMAP && st == INFER_ERROR_UNSUPPORTED)
                continue; /* a build without maps */
            assert_int_equal(st, INFER_OK);
            assert_true(hash_128_equal(f->id, id));
            assert_int_equal(read_all(f), INFER_OK);
            assert_int_equal(kv_file_check(f, &err), INFER_OK);
            kv_file_release(f);
        }
    struct kv_writer *w = NULL;
    struct kv_writer_options o = {.kind = KV_FILE_CHECKPOINT, .level = 9};
    const char *path = tempdir_path("x");
    if (!pack_available())
        assert_int_equal(kv_writer_open(&env_default, path, strlen(path), &o, &w, &err), INFER_ERROR_UNSUPPORTED);
    o.level = 99;
    assert_true(kv_writer_open(&env_default, path, strlen(path), &o, &w, &err) < 0);
    assert_int_equal(tempdir_count(""), 2);
}

static void test_chain(void **state)
{
    (void)state;
    NEEDS_HASH();
    struct kv_file *parent = NULL, *f;
    char name[16];
    for (uint32_t i = 0; i <= KV_FILE_MAX_DEPTH; i++) {
        snprintf(name, sizeof name, "c%u", i);
        assert_int_equal(write_file(&env_default, name, 0, parent, 0, NULL), INFER_OK);
        assert_true(i == 0 || tempdir_size(name) < tempdir_size("c0"));
        kv_file_release(parent);
        assert_int_equal(open_file(name, &parent), INFER_OK);
        assert_int_equal(parent->depth, i);
        assert_int_equal(read_all(parent), INFER_OK);
    }
    assert_int_equal(write_file(&env_default, "deep", 0, parent, 0, NULL), INFER_ERROR_LIMIT);
    assert_int_equal(write_file(&env_default, "no-folder/c", 0, parent, 0, NULL), INFER_ERROR_NOT_FOUND);
    kv_file_release(parent);
    assert_int_equal(open_file("c1", &f), INFER_OK);
    kv_file_release(f);
    assert_int_equal(rename(tempdir_path("c0"), tempdir_path("kept")), 0);
    assert_int_equal(open_file("c3", &f), INFER_ERROR_NOT_FOUND);
    assert_non_null(strstr(err.text, "parent"));
    pages[0][5] ^= 1;
    assert_int_equal(write_file(&env_default, "c0", 0, NULL, 0, NULL), INFER_OK); /* good, but another */
    pages[0][5] ^= 1;
    assert_int_equal(open_file("c3", &f), INFER_ERROR_CHANGED);
    assert_int_equal(rename(tempdir_path("kept"), tempdir_path("c0")), 0);
    assert_int_equal(open_file("c3", &f), INFER_OK);
    kv_file_release(f);
}

static uint8_t *image(const char *name, size_t *n)
{
    uint8_t *data = (uint8_t *)test_read_file(tempdir_path(name), n);
    assert_non_null(data);
    return data;
}

/* Opens and reads bytes as a file, which must fail; or, 1, only in a page's checksum. */
static void must_fail(const uint8_t *data, size_t n, size_t at, int *in_pages)
{
    struct kv_file *f;
    tempdir_write("hurt", data, n);
    if (open_file("hurt", &f) != INFER_OK)
        return;
    infer_status st = read_all(f);
    kv_file_release(f);
    if (st != INFER_ERROR_FORMAT)
        fail_msg("damage at byte %zu of %zu went unseen", at, n);
    ++*in_pages;
}

static void test_every_byte(void **state)
{
    (void)state;
    NEEDS_HASH();
    for (int level = 0; level <= (pack_available() ? 3 : 0); level += 3) {
        size_t n;
        int in_pages = 0;
        assert_int_equal(write_file(&env_default, "whole", level, NULL, 0, NULL), INFER_OK);
        uint8_t *data = image("whole", &n);
        for (size_t at = 0; at < n; at += at < 96 || n - at < 400 ? 1 : 61) {
            data[at] ^= (uint8_t)(1u << at % 8);
            must_fail(data, n, at, &in_pages);
            data[at] ^= (uint8_t)(1u << at % 8);
        }
        assert_true(in_pages > 25); /* damage of pages is found when they are used */
        free(data);
    }
}

static void test_every_length(void **state)
{
    (void)state;
    NEEDS_HASH();
    size_t n;
    struct kv_file *f;
    assert_int_equal(write_file(&env_default, "whole", 0, NULL, 0, NULL), INFER_OK);
    uint8_t *data = image("whole", &n);
    for (size_t cut = 0; cut < n; cut += cut % 4096 == 4095 || cut % 4096 <= 1 || n - cut < 300 ? 1 : 1597) {
        tempdir_write("cut", data, cut);
        infer_status st = open_file("cut", &f);
        assert_true(st == INFER_ERROR_TRUNCATED || (cut < 8 && st == INFER_ERROR_FORMAT));
    }
    uint8_t *longer = calloc(1, n + 1);
    memcpy(longer, data, n);
    tempdir_write("cut", longer, n + 1);
    assert_int_equal(open_file("cut", &f), INFER_ERROR_FORMAT);
    free(longer);
    free(data);
}

/* Fields that a forger sets, with good checksums: each is refused, none is believed. */
static void test_forged(void **state)
{
    (void)state;
    NEEDS_HASH();
    static const uint64_t odd[] = {0, 1, 63, 64, 4095, 4096, 8192, 65536, (uint64_t)1 << 31, UINT32_MAX, (uint64_t)1 << 32,
                                   (uint64_t)1 << 47, (uint64_t)1 << 48, ((uint64_t)1 << 48) + 1, INT64_MAX, (uint64_t)1 << 63,
                                   UINT64_MAX - 4095, UINT64_MAX - 64, UINT64_MAX - 1, UINT64_MAX};
    size_t n;
    struct kv_file *f;
    int opened = 0, tried = 0;
    assert_int_equal(write_file(&env_default, "whole", 0, NULL, 0, NULL), INFER_OK);
    uint8_t *data = image("whole", &n), *copy = malloc(n);
    const struct kv_file_header *h = (const struct kv_file_header *)data;
    const struct kv_section *t = (const struct kv_section *)(data + h->table_offset);
    size_t places = 0;
    for (uint32_t i = 0; i < h->n_sections; i++)
        if (t[i].kind == INDEX)
            places = t[i].offset;
    assert_true(places > 0);
    struct { size_t from, to; } ranges[] = {{8, 96}, {h->table_offset, n}, {places, places + (PAGES + 1) * sizeof(struct kv_place)}};
    for (int r = 0; r < 3; r++)
        for (size_t at = ranges[r].from; at < ranges[r].to; at += 4)
            for (size_t k = at / 4 % 4; k < sizeof odd / sizeof *odd; k += 4)
                for (size_t width = 4; width <= 8 && at + width <= n && at % width == 0; width += 4) {
                    memcpy(copy, data, n);
                    memcpy(copy + at, &odd[k], width);
                    if (((const struct kv_file_header *)copy)->table_offset % 8)
                        continue; /* no table could be sealed there */
                    if (memcmp(copy, data, n) == 0)
                        continue;
                    kv_seal(copy, n);
                    tried++;
                    tempdir_write("forged", copy, n);
                    if (open_file("forged", &f) != INFER_OK)
                        continue;
                    opened++; /* a tag, an id of a parent that is not there, a flag: no harm */
                    const struct kv_section *s = kv_file_find(f, INDEX, 5);
                    const struct kv_place *p = NULL;
                    uint64_t count = 0;
                    void *owned = NULL;
                    if (s && kv_file_places(f, s, PAGE, &p, &count, &owned, &err) == INFER_OK) {
                        for (uint64_t i = 0; i < count; i++)
                            if (p[i].source != KV_PLACE_NONE)
                                (void)kv_place_check(f, &p[i], &err);
                        mem_free(&f->env->alloc, owned);
                    }
                    kv_file_release(f);
                }
    print_message("# %d forged fields, %d of them opened\n", tried, opened);
    assert_true(tried > 500 && opened > 0);
    free(copy);
    free(data);
}

static void set_u32(const char *name, size_t at, uint32_t v)
{
    size_t n;
    uint8_t *data = image("whole", &n);
    memcpy(data + at, &v, 4);
    kv_seal(data, n);
    tempdir_write(name, data, n);
    free(data);
}

static void test_versions(void **state)
{
    (void)state;
    NEEDS_HASH();
    struct kv_file *f;
    assert_int_equal(write_file(&env_default, "whole", 0, NULL, 0, NULL), INFER_OK);
    set_u32("v", offsetof(struct kv_file_header, version), KV_FILE_VERSION + 1);
    assert_int_equal(open_file("v", &f), INFER_ERROR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "newer"));
    assert_string_equal(err.file, tempdir_path("v"));
    set_u32("v", offsetof(struct kv_file_header, kind), KV_FILE_CACHE);
    assert_int_equal(open_file("v", &f), INFER_ERROR_FORMAT);
    assert_non_null(strstr(err.text, "prefix cache"));
    tempdir_write("v", "GGUF and more, but not of this kind", 35);
    assert_int_equal(open_file("v", &f), INFER_ERROR_FORMAT);
    /* a part from the future: ignored, unless the writer forbade that */
    assert_int_equal(write_file(&env_default, "future", 0, NULL, 0, NULL), INFER_OK);
    assert_int_equal(open_file("future", &f), INFER_OK);
    kv_file_release(f);
    assert_int_equal(write_file(&env_default, "future", 0, NULL, KV_SECTION_REQUIRED, NULL), INFER_OK);
    assert_int_equal(open_file("future", &f), INFER_ERROR_UNSUPPORTED);
}

static void test_parent_names(void **state)
{
    (void)state;
    NEEDS_HASH();
    struct kv_file *f, *parent;
    size_t n;
    assert_int_equal(write_file(&env_default, "pp", 0, NULL, 0, NULL), INFER_OK);
    assert_int_equal(open_file("pp", &parent), INFER_OK);
    assert_int_equal(write_file(&env_default, "child", 0, parent, 0, NULL), INFER_OK);
    kv_file_release(parent);
    uint8_t *data = image("child", &n);
    assert_memory_equal(data + 4096, "pp", 2);
    static const char *const bad[] = {"..", "./", "/x", "a/", "\\x", "c:", "\0x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memcpy(data + 4096, bad[i], 2);
        kv_seal(data, n);
        tempdir_write("child2", data, n);
        assert_int_equal(open_file("child2", &f), INFER_ERROR_FORMAT);
    }
    free(data);
}

/* Every allocation and every file call of writing and of reading fails in turn. */
static void test_failures(void **state)
{
    (void)state;
    NEEDS_HASH();
    int failures = 0, level = pack_available() ? 1 : 0;
    struct kv_file *f = NULL, *parent;
    assert_int_equal(write_file(&env_default, "p", level, NULL, 0, NULL), INFER_OK);
    assert_int_equal(open_file("p", &parent), INFER_OK);
    assert_int_equal(write_file(&env_default, "good", level, parent, 0, NULL), INFER_OK);
    int before = tempdir_count("");
    for (int what = 0; what < 4; what++) /* write or read; file calls or allocations */
        for (uint64_t at = 1;; at++) {
            struct test_alloc ta = {.fail_at = what & 2 ? at : 0};
            struct env env = test_env_of(&ta);
            const struct env *counted = NULL;
            env.io = &failing_io_ops;
            failing_io_set(what & 2 ? 0 : at, EIO);
            infer_status st = (counted = env_create(&env)) ? INFER_OK : INFER_ERROR_NO_MEMORY;
            if (st == INFER_OK && what & 1)
                st = write_file(counted, "good", level, parent, 0, NULL);
            else if (st == INFER_OK) {
                st = open_with(counted, "good", at % 2 ? INFER_MAP_AUTO : INFER_MAP_READ, &f);
                if (st == INFER_OK) {
                    if (!(what & 2) || !level) /* read_all asserts that expanding works */
                        st = read_all(f);
                    kv_file_release(f);
                }
            }
            env_release(counted);
            bool reached = what & 2 ? ta.calls >= at : failing_io.calls >= at;
            assert_int_equal(ta.live, 0);
            assert_int_equal(failing_io.open, 0);
            assert_int_equal(failing_io.maps, 0);
            assert_int_equal(tempdir_count(""), before);
            assert_int_equal(open_file("good", &f), INFER_OK);
            assert_int_equal(read_all(f), INFER_OK);
            kv_file_release(f);
            failures += st != INFER_OK;
            if (!reached)
                break;
        }
    kv_file_release(parent);
    print_message("# %d failures\n", failures);
    assert_true(failures > 30);
}

static void test_shrinks(void **state)
{
    (void)state;
    NEEDS_HASH();
    struct kv_file *mapped, *read;
    assert_int_equal(write_file(&env_default, "s", 0, NULL, 0, NULL), INFER_OK);
    assert_int_equal(open_with(&env_default, "s", INFER_MAP_READ, &read), INFER_OK);
    assert_int_equal(open_with(&env_default, "s", INFER_MAP_AUTO, &mapped), INFER_OK);
    bool is_mapped = mapped->blob.mapped != NULL;
    assert_int_equal(truncate(tempdir_path("s"), 10000), 0);
    assert_int_equal(kv_file_check(mapped, &err), is_mapped ? INFER_ERROR_CHANGED : INFER_OK);
    assert_int_equal(kv_file_check(read, &err), INFER_OK);
    assert_int_equal(read_all(read), INFER_OK);
    kv_file_release(mapped);
    kv_file_release(read);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_chain),  cmocka_unit_test(test_every_byte),
        cmocka_unit_test(test_every_length), cmocka_unit_test(test_forged), cmocka_unit_test(test_versions),
        cmocka_unit_test(test_parent_names), cmocka_unit_test(test_failures), cmocka_unit_test(test_shrinks),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
