/* Limits that the system itself sets: no descriptors left, no larger files, a disk that is full, a folder that may not be written to, no memory, no
 * threads. Each case runs in a process of its own. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "infer/scheduler.h"
#include "oom.h"
#include "tempdir.h"

enum { SKIPPED = 77 };

static infer_error error;

/* In the child: a message, and the process ends. */
#define NEED(what)                                                                                                     \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            printf("# line %d: %s: '%s' (%s, %s)\n", __LINE__, #what, error.text, error.name, error.file);             \
            fflush(stdout);                                                                                            \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)
#define OK(call) NEED((call) == INFER_OK)
#define REFUSED(call, status, says) NEED((call) == (status) && error.code == (status) && strstr(error.text, says))

static void set_limit(int what, rlim_t n)
{
    struct rlimit r;
    NEED(getrlimit((__rlimit_resource_t)what, &r) == 0);
    r.rlim_cur = n < r.rlim_max ? n : r.rlim_max;
    NEED(setrlimit((__rlimit_resource_t)what, &r) == 0);
}

static int descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* ---- a model, a session with something in it, a checkpoint of it */

struct guest {
    infer_engine *engine;
    infer_model *model;
    infer_session *session;
    infer_checkpoint *checkpoint;
    infer_store *store;
};

static uint64_t next_bits(infer_session *s)
{
    infer_session *f;
    infer_step_item it;
    const float *row;
    uint64_t h = 0xcbf29ce484222325u;
    OK(infer_session_fork(s, &f, &error));
    OK(infer_session_append(f, (int32_t[]){5, 6, 7}, 3, &error));
    INFER_INIT(&it);
    it.session = f;
    OK(infer_step(&it, 1, NULL, &error));
    OK(infer_session_logits(f, 0, &row, NULL, &error));
    const unsigned char *p = (const unsigned char *)row;
    for (int i = 0; i < 160 * 4; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    infer_session_release(f);
    return h;
}

static struct guest guest_of(uint32_t threads, const char *cache_dir)
{
    struct guest g = {0};
    infer_engine_options o;
    int32_t ids[300];
    for (int i = 0; i < 300; i++)
        ids[i] = (i * 7) % 150;
    INFER_INIT(&error);
    INFER_INIT(&o);
    o.threads = threads;
    o.cache_bytes = cache_dir ? 1 << 20 : 0;
    o.cache_dir = cache_dir;
    o.cache_dir_len = cache_dir ? INFER_ZSTR : 0;
    OK(infer_engine_create(&o, &g.engine, &error));
    OK(infer_model_open_path(g.engine, FIXTURE("llama"), &g.model, &error));
    OK(infer_session_create(g.model, NULL, &g.session, &error));
    OK(infer_session_append(g.session, ids, 100, &error));
    return g;
}

static void keep(struct guest *g)
{
    infer_step_item it;
    INFER_INIT(&it);
    it.session = g->session;
    OK(infer_step(&it, 1, NULL, &error));
    OK(infer_checkpoint_create(g->session, &g->checkpoint, &error));
    OK(infer_store_open(g->engine, tempdir_path("store"), INFER_ZSTR, NULL, &g->store, &error));
}

static infer_status save(const struct guest *g, const char *name)
{
    return infer_checkpoint_save(g->checkpoint, tempdir_path(name), INFER_ZSTR, NULL, NULL, &error);
}

static uint64_t bits_of_file(const struct guest *g, const char *name)
{
    infer_checkpoint *c;
    infer_session *s;
    OK(infer_checkpoint_open(g->model, tempdir_path(name), INFER_ZSTR, NULL, NULL, &c, &error));
    OK(infer_checkpoint_session(c, &s, &error));
    uint64_t h = next_bits(s);
    infer_session_release(s);
    infer_checkpoint_release(c);
    return h;
}

static void leave(struct guest *g)
{
    infer_store_release(g->store);
    infer_checkpoint_release(g->checkpoint);
    infer_session_release(g->session);
    infer_model_release(g->model);
    infer_engine_release(g->engine);
    NEED(tempdir_count(".") == 0); /* temporary files */
}

/* ---- the cases */

static void no_descriptors(void)
{
    int before = descriptors(), taken[300], n = 0;
    struct guest g = guest_of(1, NULL);
    infer_model *m = NULL;
    infer_file *f = NULL;
    infer_adapter *a = NULL;
    infer_checkpoint *c = NULL;
    infer_store *s = NULL;
    keep(&g);
    uint64_t want = next_bits(g.session);
    OK(save(&g, "old"));
    OK(infer_store_put(g.store, "kept", 4, g.checkpoint, 0, NULL, &error));
    set_limit(RLIMIT_NOFILE, 64);
    while ((taken[n] = dup(1)) >= 0)
        n++;
    infer_source source;
    infer_source_path(&source, DATA "torch/folder", INFER_ZSTR);
    REFUSED(infer_model_open_path(g.engine, FIXTURE("llama"), &m, &error), INFER_ERROR_IO, "24");
    REFUSED(infer_file_open(g.engine, &source, NULL, &f, &error), INFER_ERROR_IO, "24");
    REFUSED(infer_adapter_open_path(g.model, DATA "adapters/lora-r4", &a, &error), INFER_ERROR_IO, "24");
    REFUSED(save(&g, "old"), INFER_ERROR_IO, "24");
    REFUSED(infer_checkpoint_open(g.model, tempdir_path("old"), INFER_ZSTR, NULL, NULL, &c, &error), INFER_ERROR_IO, "24");
    REFUSED(infer_store_get(g.store, g.model, "kept", 4, NULL, &c, &error), INFER_ERROR_IO, "24");
    REFUSED(infer_store_rename(g.store, "kept", 4, "other", 5, 0, &error), INFER_ERROR_IO, "24");
    OK(infer_store_open(g.engine, tempdir_path("store"), INFER_ZSTR, NULL, &s, &error)); /* it is there: nothing to be opened */
    infer_store_release(s);
    NEED(!m && !f && !a && !c);
    NEED(next_bits(g.session) == want); /* what needs none goes on */
    while (n > 0)
        (void)close(taken[--n]);
    NEED(bits_of_file(&g, "old") == want);
    OK(save(&g, "old"));
    OK(infer_store_get(g.store, g.model, "kept", 4, NULL, &c, &error));
    infer_checkpoint_release(c);
    leave(&g);
    NEED(descriptors() == before);
}

/* Saves as large as the limit allows, to the byte where it comes. */
static void no_larger_files(void)
{
    struct guest g = guest_of(1, NULL);
    (void)signal(SIGXFSZ, SIG_IGN);
    keep(&g);
    uint64_t want = next_bits(g.session);
    OK(save(&g, "old"));
    rlim_t size = (rlim_t)tempdir_size("old");
    for (rlim_t limit = 0; limit < size; limit += size / 40 + 1) {
        set_limit(RLIMIT_FSIZE, limit);
        REFUSED(save(&g, "old"), INFER_ERROR_IO, "full");
        REFUSED(infer_store_put(g.store, "new", 3, g.checkpoint, 0, NULL, &error), INFER_ERROR_IO, "full");
        NEED(tempdir_count(".") == 0);
    }
    NEED(bits_of_file(&g, "old") == want);
    set_limit(RLIMIT_FSIZE, size);
    OK(save(&g, "old"));
    OK(infer_store_put(g.store, "new", 3, g.checkpoint, 0, NULL, &error));
    NEED(bits_of_file(&g, "old") == want);
    leave(&g);
}

/* A file system of 256 KiB. */
static void full_disk(void)
{
    const char *disk = tempdir_path("disk");
    NEED(mkdir(disk, 0700) == 0);
    if (mount("none", disk, "tmpfs", 0, "size=256k") != 0)
        _exit(SKIPPED);
    char path[1024], cache[1024];
    snprintf(path, sizeof path, "%s/file", disk);
    snprintf(cache, sizeof cache, "%s/cache", disk);
    struct guest g = guest_of(1, cache);
    keep(&g);
    uint64_t want = next_bits(g.session);
    int saved = 0;
    infer_status st;
    do {
        snprintf(path, sizeof path, "%s/file%d", disk, saved);
        st = infer_checkpoint_save(g.checkpoint, path, INFER_ZSTR, NULL, NULL, &error);
    } while (st == INFER_OK && ++saved < 100);
    NEED(saved > 0 && st == INFER_ERROR_IO && strstr(error.text, "full"));
    NEED(access(path, F_OK) != 0);
    infer_cache_stats stats; /* the cache does without, and tells how often */
    INFER_INIT(&stats);
    REFUSED(infer_engine_cache_flush(g.engine, NULL, &error), INFER_ERROR_IO, "full");
    OK(infer_engine_cache_stats(g.engine, &stats, &error));
    NEED(stats.nodes > 0 && stats.disk_skipped > 0);
    snprintf(path, sizeof path, "%s/file%d", disk, saved - 1);
    infer_checkpoint *c;
    infer_session *s;
    OK(infer_checkpoint_open(g.model, path, INFER_ZSTR, NULL, NULL, &c, &error));
    OK(infer_checkpoint_session(c, &s, &error));
    NEED(next_bits(s) == want);
    infer_session_release(s);
    infer_checkpoint_release(c);
    (void)unlink(path); /* room for one */
    OK(infer_checkpoint_save(g.checkpoint, path, INFER_ZSTR, NULL, NULL, &error));
    leave(&g);
    NEED(umount2(disk, MNT_DETACH) == 0);
}

static void read_only_folder(void)
{
    const char *folder = tempdir_path("fixed");
    char path[1024];
    struct guest g = guest_of(1, NULL);
    infer_store *store = NULL;
    keep(&g);
    NEED(mkdir(folder, 0700) == 0);
    snprintf(path, sizeof path, "%s/file", folder);
    OK(infer_checkpoint_save(g.checkpoint, path, INFER_ZSTR, NULL, NULL, &error));
    NEED(chmod(folder, 0500) == 0);
    if (geteuid() == 0 && (setegid(65534) != 0 || seteuid(65534) != 0))
        _exit(SKIPPED);
    /* as that user one may not even look at what root keeps to itself; so the folder is its own */
    if (access(folder, W_OK) == 0 && geteuid() == getuid())
        _exit(SKIPPED);
    REFUSED(infer_checkpoint_save(g.checkpoint, path, INFER_ZSTR, NULL, NULL, &error), INFER_ERROR_IO, "create a file there");
    snprintf(path, sizeof path, "%s/store", folder);
    REFUSED(infer_store_open(g.engine, path, INFER_ZSTR, NULL, &store, &error), INFER_ERROR_IO, "make the store's directory");
    NEED(!store);
    uint64_t want = next_bits(g.session);
    if (getuid() == 0) {
        NEED(seteuid(0) == 0 && setegid(0) == 0);
    }
    NEED(chmod(folder, 0700) == 0);
    snprintf(path, sizeof path, "%s/file", folder);
    OK(infer_checkpoint_save(g.checkpoint, path, INFER_ZSTR, NULL, NULL, &error));
    infer_checkpoint *c;
    infer_session *s;
    OK(infer_checkpoint_open(g.model, path, INFER_ZSTR, NULL, NULL, &c, &error));
    OK(infer_checkpoint_session(c, &s, &error));
    NEED(next_bits(s) == want);
    infer_session_release(s);
    infer_checkpoint_release(c);
    (void)unlink(path);
    leave(&g);
}

/* An address space that ends soon: malloc and mmap say no. */
static void no_address_space(void)
{
    struct guest g = guest_of(1, NULL), h;
    infer_model *m = NULL;
    infer_session *s = NULL;
    infer_session_options o;
    char text[64];
    keep(&g);
    uint64_t want = next_bits(g.session);
    FILE *f = fopen("/proc/self/statm", "r");
    NEED(f && fgets(text, sizeof text, f));
    fclose(f);
    rlim_t now = (rlim_t)strtoull(text, NULL, 10) * (rlim_t)sysconf(_SC_PAGESIZE);
    set_limit(RLIMIT_AS, now + 65536);
    REFUSED(infer_model_open_path(g.engine, TINY, &m, &error), INFER_ERROR_NO_MEMORY, "");
    INFER_INIT(&o);
    o.n_ctx = 1 << 20;
    OK(infer_session_create(g.model, &o, &s, &error));
    infer_status st = INFER_OK;
    for (int i = 0; st == INFER_OK && i < 1000; i++) {
        infer_step_item it;
        int32_t ids[256] = {0};
        INFER_INIT(&it);
        it.session = s;
        st = infer_session_append(s, ids, 256, &error);
        if (st == INFER_OK)
            st = infer_step(&it, 1, NULL, &error);
    }
    NEED(st == INFER_ERROR_NO_MEMORY && error.code == st && !m);
    infer_session_release(s);
    set_limit(RLIMIT_AS, RLIM_INFINITY);
    NEED(next_bits(g.session) == want);
    h = guest_of(1, NULL);
    keep(&h);
    NEED(next_bits(h.session) == want);
    leave(&h);
    leave(&g);
}

/* No further process or thread for this user. Root has no such limit, so it becomes somebody else for good. */
static void no_threads(void)
{
    infer_step_item it;
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65533) != 0))
        _exit(SKIPPED);
    struct guest one = guest_of(1, NULL), g = guest_of(4, NULL);
    INFER_INIT(&it);
    it.session = one.session;
    OK(infer_step(&it, 1, NULL, &error));
    uint64_t want = next_bits(one.session);
    it.session = g.session;
    set_limit(RLIMIT_NPROC, 0);
    REFUSED(infer_step(&it, 1, NULL, &error), INFER_ERROR_THREAD, "thread");
    REFUSED(infer_step(&it, 1, NULL, &error), INFER_ERROR_THREAD, "thread");
    set_limit(RLIMIT_NPROC, RLIM_INFINITY);
    OK(infer_step(&it, 1, NULL, &error));
    NEED(next_bits(g.session) == want);
    leave(&one);
    leave(&g);
}

/* ---- */

struct limit {
    void (*run)(void);
    bool sanitized; /* also with a sanitizer, which needs address space and threads of its own */
};

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

static void test_limit(void **state)
{
    const struct limit *c = *state;
    int status;
    if ((SANITIZED && !c->sanitized) || !hash_available())
        skip();
    tempdir_make();
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        c->run();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    (void)nftw(tempdir_path(""), remove_one, 16, FTW_DEPTH | FTW_PHYS);
    if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
        skip();
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("the process ended with %d (signal %d)", WIFEXITED(status) ? WEXITSTATUS(status) : -1, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

int main(void)
{
    static struct limit descriptors_ = {no_descriptors, true}, files = {no_larger_files, true}, disk = {full_disk, true}, folder = {read_only_folder, true},
                        memory = {no_address_space, false}, threads = {no_threads, false};
    const struct CMUnitTest tests[] = {
        {"no descriptors left", test_limit, NULL, NULL, &descriptors_}, {"no larger files", test_limit, NULL, NULL, &files},
        {"the disk is full", test_limit, NULL, NULL, &disk},            {"a read-only folder", test_limit, NULL, NULL, &folder},
        {"no address space", test_limit, NULL, NULL, &memory},          {"no threads", test_limit, NULL, NULL, &threads},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
