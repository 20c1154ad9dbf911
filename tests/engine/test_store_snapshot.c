/* Snapshots of a store's directory, taken while it is in use, are stores; cloned files share their blocks. On a Btrfs of its own, mounted by
 * loop: needs root, mkfs.btrfs and btrfs; skipped elsewhere. */
#define _DEFAULT_SOURCE
#include "ckpt_tests.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#endif

#define SNAPSHOTS 12

static int run(const char *fmt, const char *a, const char *b)
{
    char command[4096];
    snprintf(command, sizeof command, fmt, a, b);
    return system(command);
}

static infer_store *store_at(const char *name)
{
    infer_store *store;
    ok(infer_store_open(engine, tempdir_path(name), INFER_ZSTR, NULL, &store, &error));
    return store;
}

static void change_for_ever(const struct ckpt_model *m, infer_session *s)
{
    infer_store *store = store_at("mnt/store");
    for (uint64_t i = 0;; i++) {
        infer_checkpoint *c;
        char name[16];
        snprintf(name, sizeof name, "n%d", (int)(i % 5));
        if (s->length > 700 && infer_session_truncate(s, 300, NULL, NULL) != INFER_OK)
            _exit(3);
        ckpt_append(m, s, i, 7);
        if (ckpt_try_step(s) != INFER_OK || infer_checkpoint_create(s, &c, NULL) != INFER_OK
            || infer_store_put(store, name, INFER_ZSTR, c, INFER_STORE_REPLACE, NULL, NULL) != INFER_OK
            || infer_store_branch(store, name, INFER_ZSTR, "branch", 6, INFER_STORE_REPLACE, NULL) != INFER_OK
            || infer_store_rename(store, name, INFER_ZSTR, "renamed", 7, INFER_STORE_REPLACE, NULL) != INFER_OK)
            _exit(4);
        if (i % 3 == 0 && infer_store_delete(store, "branch", 6, NULL) != INFER_OK)
            _exit(5);
        infer_checkpoint_release(c);
    }
}

static int look_through(const struct ckpt_model *m, const char *name)
{
    infer_store *store = store_at(name);
    infer_store_entry e;
    int n = 0;
    INFER_INIT(&e);
    while (infer_store_next(store, n ? e.name : NULL, n ? e.name_len : 0, &e, &error) == INFER_OK) {
        infer_checkpoint *c;
        infer_session *s;
        ok(infer_store_get(store, m->m, e.name, e.name_len, NULL, &c, &error));
        ok(infer_checkpoint_session(c, &s, &error));
        ckpt_append(m, s, 0, 1);
        ckpt_step(s);
        infer_session_release(s);
        infer_checkpoint_release(c);
        n++;
    }
    infer_store_release(store);
    return n;
}

static bool shares_blocks(const char *path)
{
#ifdef FS_IOC_FIEMAP
    struct fiemap *q = calloc(1, sizeof *q + sizeof q->fm_extents[0]);
    assert_non_null(q);
    q->fm_length = ~(uint64_t)0;
    q->fm_flags = FIEMAP_FLAG_SYNC;
    q->fm_extent_count = 1;
    int fd = open(path, O_RDONLY);
    bool shared = ioctl(fd, FS_IOC_FIEMAP, q) == 0 && q->fm_mapped_extents == 1 && q->fm_extents[0].fe_flags & FIEMAP_EXTENT_SHARED;
    free(q);
    close(fd);
    return shared;
#else
    (void)path;
    return true;
#endif
}

static void snapshots(void)
{
    struct ckpt_model m = ckpt_open("gemma3");
    infer_session *s = ckpt_session(&m, INFER_KV_F32);
    int entries = 0;
    uint64_t seed = 5;
    char name[32];
    ckpt_append(&m, s, 0, 300);
    ckpt_step(s);
    assert_int_equal(run("btrfs -q subvolume create %s >/dev/null", tempdir_path("mnt/store"), ""), 0);
    pid_t child = fork();
    if (child == 0)
        change_for_ever(&m, s);
    for (int i = 0; i < SNAPSHOTS; i++) {
        snprintf(name, sizeof name, "mnt/snap%d", i);
        usleep((useconds_t)(20000 + test_rand(&seed) % 60000));
        assert_int_equal(run("btrfs -q subvolume snapshot %s %s >/dev/null", tempdir_path("mnt/store"), tempdir_path(name)), 0);
    }
    int status;
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    for (int i = 0; i < SNAPSHOTS; i++) {
        snprintf(name, sizeof name, "mnt/snap%d", i);
        entries += look_through(&m, name);
    }
    print_message("# %d snapshots with %d checkpoints in all\n", SNAPSHOTS, entries);
    assert_true(entries > SNAPSHOTS / 2);
    ok(ckpt_save(s, "mnt/a", 0, NULL));
    ok(infer_checkpoint_clone_file(NULL, tempdir_path("mnt/a"), INFER_ZSTR, tempdir_path("mnt/b"), INFER_ZSTR, NULL, &error));
    assert_true(shares_blocks(tempdir_path("mnt/b")));
    infer_session *r = ckpt_restored(&m, "mnt/b");
    ckpt_same_logits(s, r);
    infer_session_release(r);
    infer_session_release(s);
    ckpt_close(&m);
}

static void test_btrfs(void **state)
{
    (void)state;
    NEEDS_HASH();
    if (geteuid() != 0 || run("command -v mkfs.btrfs btrfs >/dev/null 2>&1%s%s", "", "") != 0)
        skip();
    if (run("truncate -s 300M %s/image && mkfs.btrfs -q %s/image", tempdir_path("."), tempdir_path(".")) != 0
        || run("mkdir %s%s", tempdir_path("mnt"), "") != 0)
        skip();
    if (run("mount -o loop %s %s 2>/dev/null", tempdir_path("image"), tempdir_path("mnt")) != 0) {
        print_message("# cannot mount here\n");
        (void)rmdir(tempdir_path("mnt"));
        skip();
    }
    failing_io.real_sync = 1; /* a snapshot has what was synced, no more */
    snapshots();
}

static int teardown(void **state)
{
    (void)run("umount %s 2>/dev/null%s", tempdir_path("mnt"), "");
    return ckpt_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_btrfs)};
    return cmocka_run_group_tests_name("store_snapshot", tests, ckpt_setup, teardown);
}
