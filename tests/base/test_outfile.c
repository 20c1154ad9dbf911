/* Files that appear whole or not at all; checksums; compression. */
#define _DEFAULT_SOURCE
#include "testutil.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/outfile.h"
#include "base/pack.h"
#include "failing_io.h"
#include "tempdir.h"

static infer_error err;

static int setup(void **state)
{
    (void)state;
    tempdir_make();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tempdir_remove();
    return 0;
}

static infer_status save(const struct env *env, const char *path, const char *text)
{
    struct outfile o;
    infer_status st = outfile_begin(&o, env, path, strlen(path), &err);
    if (st == INFER_OK)
        st = outfile_put(&o, text, strlen(text), &err);
    if (st == INFER_OK)
        st = outfile_put_at(&o, 0, "X", 1, &err);
    if (st != INFER_OK) {
        outfile_abort(&o);
        return st;
    }
    st = outfile_commit(&o, true, &err);
    outfile_abort(&o); /* nothing */
    return st;
}

static void check_content(const char *path, const char *want)
{
    size_t n;
    char *got = test_read_file(path, &n);
    assert_non_null(got);
    assert_string_equal(got, want);
    free(got);
}

static void test_save(void **state)
{
    (void)state;
    const char *path = tempdir_path("a");
    assert_int_equal(save(&env_default, path, "hello"), INFER_OK);
    check_content(path, "Xello");
    assert_int_equal(save(&env_default, path, "other"), INFER_OK);
    check_content(path, "Xther");
    assert_int_equal(tempdir_count(""), 1);
    assert_int_equal(save(&env_default, tempdir_path("no/a"), "x"), INFER_ERROR_NOT_FOUND);
    assert_int_equal(save(&env_default, tempdir_path("a/"), "x"), INFER_ERROR_ARGUMENT);
    assert_int_equal(save(&env_default, "", "x"), INFER_ERROR_ARGUMENT);
    assert_int_equal(tempdir_count(""), 1);
}

/* Every file call fails in turn, and every allocation: the old content stays, and no temporary file. */
static void test_failures(void **state)
{
    (void)state;
    const char *path = tempdir_path("f");
    int failures = 0;
    assert_int_equal(save(&env_default, path, "old"), INFER_OK);
    for (int kind = 0; kind < 2; kind++)
        for (uint64_t at = 1;; at++) {
            struct test_alloc ta = {.fail_at = kind ? at : 0};
            struct env env = test_env_of(&ta);
            env.io = &failing_io_ops;
            failing_io_set(kind ? 0 : at, at % 2 ? EIO : ENOSPC);
            infer_status st = save(&env, path, "new");
            bool reached = kind ? ta.calls >= at : failing_io.calls >= at;
            assert_int_equal(ta.live, 0);
            assert_int_equal(failing_io.open, 0);
            assert_int_equal(tempdir_count(OUTFILE_PREFIX), 0);
            if (st == INFER_OK) {
                check_content(path, "Xew");
                assert_int_equal(save(&env_default, path, "old"), INFER_OK);
                if (!reached)
                    break;
                continue; /* the look for old temporary files: no error */
            }
            failures++;
            assert_int_equal(st, kind ? INFER_ERROR_NO_MEMORY : INFER_ERROR_IO);
            if (!kind)
                assert_non_null(strstr(err.text, at % 2 ? "the device failed (system error 5)" : "full"));
            size_t n;
            char *got = test_read_file(path, &n);
            if (strcmp(got, "Xld") != 0) { /* only the sync of the folder failed */
                assert_string_equal(got, "Xew");
                assert_non_null(strstr(err.text, "folder"));
                assert_int_equal(save(&env_default, path, "old"), INFER_OK);
            }
            free(got);
        }
    assert_true(failures >= 8);
}

static void test_disk_full(void **state)
{
    (void)state;
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 1000;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    char text[3001];
    memset(text, 'x', 3000);
    text[3000] = 0;
    infer_status st = save(&env_default, tempdir_path("full"), text); /* a short write, then the refusal */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(st, INFER_ERROR_IO);
    assert_non_null(strstr(err.text, "full"));
    assert_int_equal(tempdir_size("full"), -1);
    assert_int_equal(tempdir_count(OUTFILE_PREFIX), 0);
}

static void test_read_only_folder(void **state)
{
    (void)state;
    char path[512];
    assert_int_equal(mkdir(tempdir_path("ro"), 0555), 0);
    snprintf(path, sizeof path, "%s/a", tempdir_path("ro"));
    if (geteuid() == 0) { /* root may write there: in a child that is somebody else */
        assert_int_equal(chmod(tempdir_path("."), 0755), 0);
        pid_t child = fork();
        if (child == 0) {
            if (setgid(65534) != 0 || setuid(65534) != 0)
                _exit(2);
            _exit(save(&env_default, path, "x") == INFER_ERROR_IO ? 0 : 1);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
            skip();
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        return;
    }
    assert_int_equal(save(&env_default, path, "x"), INFER_ERROR_IO);
}

/* What a dead writer left goes at the next save; what a living one is writing stays. */
static void test_clean(void **state)
{
    (void)state;
    struct outfile live;
    const char *path = tempdir_path("live");
    assert_int_equal(outfile_begin(&live, &env_default, path, strlen(path), &err), INFER_OK);
    assert_int_equal(outfile_put(&live, "abc", 3, &err), INFER_OK);
    tempdir_write(".infer-99999-0.tmp", "dead", 4);
    tempdir_write(".infer-note", "mine", 4);
    assert_int_equal(tempdir_count(OUTFILE_PREFIX), 3);
    assert_int_equal(save(&env_default, tempdir_path("other"), "x"), INFER_OK);
    assert_int_equal(tempdir_count(OUTFILE_PREFIX), 2);
    assert_int_equal(outfile_commit(&live, true, &err), INFER_OK);
    check_content(path, "abc");
    assert_int_equal(unlink(tempdir_path(".infer-note")), 0);
    assert_int_equal(tempdir_count(OUTFILE_PREFIX), 0);
}

/* Writers in one folder, each of which looks for the files of dead ones: none may take another's for such. */
static void test_many_writers(void **state)
{
    (void)state;
    enum { WRITERS = 6 };
    pid_t pids[WRITERS];
    for (int k = 0; k < WRITERS; k++) {
        pids[k] = fork();
        assert_true(pids[k] >= 0);
        if (pids[k] == 0) {
            char name[8] = {(char)('a' + k)};
            const char *path = tempdir_path(name);
            for (int i = 0; i < 400; i++)
                if (save(&env_default, path, name) != INFER_OK)
                    _exit(1);
            _exit(0);
        }
    }
    int failed = 0;
    for (int k = 0; k < WRITERS; k++) {
        int status = 0;
        assert_int_equal(waitpid(pids[k], &status, 0), pids[k]);
        failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    assert_int_equal(failed, 0);
    assert_int_equal(tempdir_count(OUTFILE_PREFIX), 0);
}

/* What is no file keeps its name: as root, a cache named /dev/null would take that from all others. */
static void test_not_a_file(void **state)
{
    (void)state;
    const char *folder = tempdir_path("a-folder"), *pipe = tempdir_path("pipe"), *link = tempdir_path("link");
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(symlink("pipe", link), 0);
    assert_int_equal(save(&env_default, folder, "x"), INFER_ERROR_UNSUPPORTED);
    assert_int_equal(save(&env_default, pipe, "x"), INFER_ERROR_UNSUPPORTED);
    assert_int_equal(tempdir_count(OUTFILE_PREFIX), 0);
    assert_int_equal(save(&env_default, link, "x"), INFER_OK); /* the link is replaced, the pipe stays */
    assert_int_equal(tempdir_size("link"), 1);
    assert_int_equal(rmdir(folder), 0);
}

static void test_clone(void **state)
{
    (void)state;
    static char big[3000001];
    for (size_t i = 0; i + 1 < sizeof big; i++)
        big[i] = (char)('a' + i % 23);
    tempdir_write("big", big, sizeof big - 1);
    tempdir_write("empty", "", 0);
    struct env env = env_default;
    env.io = &failing_io_ops;
    for (int no_clone = 0; no_clone < 2; no_clone++) {
        const char *from = tempdir_path("big"), *to = tempdir_path("copy");
        failing_io_set(0, 0);
        failing_io.no_clone = no_clone;
        assert_int_equal(outfile_clone(&env, from, strlen(from), to, strlen(to), true, NULL, &err), INFER_OK);
        check_content(to, big);
        from = tempdir_path("empty");
        assert_int_equal(outfile_clone(&env, from, strlen(from), to, strlen(to), true, NULL, &err), INFER_OK);
        assert_int_equal(tempdir_size("copy"), 0);
        assert_int_equal(outfile_clone(&env, from, strlen(from), to, strlen(to), false, NULL, &err), INFER_ERROR_EXISTS);
        assert_int_equal(unlink(to), 0);
        assert_int_equal(outfile_clone(&env, from, strlen(from), to, strlen(to), false, NULL, &err), INFER_OK);
        assert_int_equal(tempdir_count(OUTFILE_PREFIX), 0);
        from = tempdir_path("none");
        assert_int_equal(outfile_clone(&env, from, strlen(from), to, strlen(to), true, NULL, &err), INFER_ERROR_NOT_FOUND);
        from = tempdir_path("folder");
        assert_true(mkdir(from, 0700) == 0 || no_clone);
        assert_int_equal(outfile_clone(&env, from, strlen(from), to, strlen(to), true, NULL, &err), INFER_ERROR_UNSUPPORTED);
        assert_string_equal(err.text, "not a regular file");
        assert_string_equal(err.file, from);
        assert_int_equal(tempdir_count(OUTFILE_PREFIX), 0);
        assert_int_equal(failing_io.open, 0);
    }
}

static infer_status longer_than_it_is(int fd, struct os_stat *out, int *os_error)
{
    infer_status st = os_io_default.stat(fd, out, os_error);
    out->size += 10;
    return st;
}

static infer_status no_clone(int from, int to, uint64_t *done, uint64_t size, int *os_error)
{
    (void)from, (void)to, (void)done, (void)size;
    *os_error = 0;
    return INFER_ERROR_UNSUPPORTED;
}

/* A file that becomes shorter while it is copied: the error says so, and names that file, not the copy. */
static void test_clone_shrinks(void **state)
{
    (void)state;
    const char *from = tempdir_path("shrinks"), *to = tempdir_path("copy");
    struct os_io io = os_io_default;
    struct env env = env_default;
    io.stat = longer_than_it_is;
    io.clone = no_clone;
    env.io = &io;
    tempdir_write("shrinks", "text", 4);
    assert_int_equal(outfile_clone(&env, from, strlen(from), to, strlen(to), true, NULL, &err), INFER_ERROR_TRUNCATED);
    assert_non_null(strstr(err.text, "shorter"));
    assert_string_equal(err.file, from);
    assert_int_equal(tempdir_count(OUTFILE_PREFIX), 0);
}

static void test_hash(void **state)
{
    (void)state;
    if (!hash_available())
        skip();
    /* published values of XXH3 for the empty input */
    assert_true(hash_64("", 0) == 0x2D06800538D394C2u);
    struct hash_128 h = hash_128("", 0, 0);
    assert_true(h.hi == 0x99AA06D3014798D8u && h.lo == 0x6001C324468D497Fu);
    assert_true(hash_64("abc", 3) != hash_64("abd", 3));
    assert_false(hash_128_equal(hash_128("abc", 3, 0), hash_128("abc", 3, 1)));
}

static void test_pack(void **state)
{
    (void)state;
    struct packer *p = NULL, *x = NULL;
    if (!pack_available()) {
        assert_int_equal(pack_create(&alloc_default, 3, &p, &err), INFER_ERROR_UNSUPPORTED);
        skip();
    }
    static char text[100000], packed[110000], back[100000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * i / 100 % 7);
    size_t n = 0;
    assert_int_equal(pack_create(&alloc_default, PACK_MAX_LEVEL + 1, &p, &err), INFER_ERROR_ARGUMENT);
    for (uint64_t at = 1; at < 100; at++) { /* memory comes from the given allocator, and fails cleanly */
        struct test_alloc ta = {.fail_at = at};
        struct alloc a = test_alloc_of(&ta);
        infer_status st = pack_create(&a, 3, &p, &err);
        if (st == INFER_OK)
            st = pack_block(p, packed, sizeof packed, text, sizeof text, &n, &err);
        pack_free(st == INFER_OK || p ? p : NULL);
        p = NULL;
        assert_int_equal(ta.live, 0);
        if (st == INFER_OK) {
            assert_true(at > 2);
            break;
        }
        assert_int_equal(st, INFER_ERROR_NO_MEMORY);
    }
    assert_true(n > 0 && n < sizeof text / 4);
    assert_int_equal(pack_create(&alloc_default, 0, &x, &err), INFER_OK);
    assert_int_equal(pack_expand(x, back, sizeof back, packed, n, &err), INFER_OK);
    assert_memory_equal(text, back, sizeof back);
    assert_int_equal(pack_expand(x, back, sizeof back - 1, packed, n, &err), INFER_ERROR_FORMAT);
    assert_int_equal(pack_expand(x, back, sizeof back, packed, n - 1, &err), INFER_ERROR_FORMAT);
    assert_int_equal(pack_expand(x, back, sizeof back, text, n, &err), INFER_ERROR_FORMAT);
    pack_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_save),  cmocka_unit_test(test_failures), cmocka_unit_test(test_disk_full),
        cmocka_unit_test(test_read_only_folder), cmocka_unit_test(test_clean), cmocka_unit_test(test_clone), cmocka_unit_test(test_clone_shrinks),
        cmocka_unit_test(test_many_writers), cmocka_unit_test(test_not_a_file),
        cmocka_unit_test(test_hash),  cmocka_unit_test(test_pack),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
