/* The disk tier of the prefix cache: state that was evicted to files and found again has the bits of what was computed cold; a damaged file is
 * never served; a process that is killed while it writes leaves nothing bad behind (hostile inputs N14, N16, N30).
 *
 * With an argument "many": 250 kills instead of a dozen. */
#define _DEFAULT_SOURCE
#include "testutil.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "engine/engine.h"
#include "failing_io.h"
#include "golden.h"
#include "ok.h"

static char dir[256];
static int kills = 12;
static const char *fixture = "gemma3";

enum { TEXTS = 8, LENGTH = 150, VOCAB = 160 };
static struct golden g;
static float want[TEXTS][VOCAB];

#define EACH_FILE(name)                                                                                                        \
    for (DIR *d_ = opendir(dir); d_; closedir(d_), d_ = NULL)                                                                  \
        for (struct dirent *e_; (e_ = readdir(d_)) != NULL;)                                                                   \
            if (((name) = e_->d_name)[0] != '.' || !strncmp((name), ".infer-", 7))

static int count(const char *suffix)
{
    int n = 0;
    const char *name;
    EACH_FILE(name)
        n += strlen(name) > strlen(suffix) && !strcmp(name + strlen(name) - strlen(suffix), suffix);
    return n;
}

static const char *path_in(const char *name)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void empty(void)
{
    const char *name;
    EACH_FILE(name)
        unlink(path_in(name));
}

struct setting {
    infer_engine *engine;
    infer_model *model;
};

static struct setting open_with(uint64_t cache_bytes, uint64_t dir_bytes, uint64_t write_bytes)
{
    struct setting x;
    infer_engine_options o;
    INFER_INIT(&o);
    o.threads = 1;
    o.cache_bytes = cache_bytes;
    o.cache_dir = dir;
    o.cache_dir_len = INFER_ZSTR;
    o.cache_dir_bytes = dir_bytes;
    o.cache_write_bytes = write_bytes;
    ok(infer_engine_create(&o, &x.engine, &error));
    ok(infer_model_open_path(x.engine, fixture_path(fixture), &x.model, &error));
    return x;
}

static void close_all(struct setting *x)
{
    infer_model_release(x->model);
    infer_engine_release(x->engine);
}

static infer_cache_stats stats_of(const struct setting *x)
{
    infer_cache_stats st;
    INFER_INIT(&st);
    ok(infer_engine_cache_stats(x->engine, &st, &error));
    return st;
}

/* Text number t, of LENGTH elements: its first 70 are those of text t % 2. */
static infer_session *begin(const struct setting *x, int t, const char *salt)
{
    infer_session *s;
    infer_session_options o;
    int32_t ids[LENGTH];
    INFER_INIT(&o);
    o.salt = salt;
    o.salt_len = salt ? (uint32_t)strlen(salt) : 0;
    ok(infer_session_create(x->model, &o, &s, &error));
    for (int i = 0; i < LENGTH; i++)
        ids[i] = (g.prompt[i % (int)g.n_prompt] + 11 * (i < 70 ? t % 2 : t)) % VOCAB;
    ok(infer_session_append(s, ids, LENGTH, &error));
    return s;
}

/* Returns how many elements were reused. */
static uint64_t run_salted(const struct setting *x, int t, const char *salt)
{
    infer_session *s = begin(x, t, salt);
    infer_step_item it;
    const float *row;
    infer_cache_report r;
    INFER_INIT(&it);
    INFER_INIT(&r);
    it.session = s;
    ok(infer_step(&it, 1, NULL, &error));
    ok(infer_session_logits(s, 0, &row, NULL, &error));
    if (want[t][0] == 0.0f)
        memcpy(want[t], row, sizeof want[t]); /* the first time: cold */
    else
        assert_memory_equal(row, want[t], sizeof want[t]);
    ok(infer_session_cache_report(s, &r, &error));
    infer_session_release(s);
    return r.reused;
}

static uint64_t run(const struct setting *x, int t)
{
    return run_salted(x, t, NULL);
}

static int setup(void **state)
{
    (void)state;
    if (!hash_available())
        return 0; /* each test skips */
    INFER_INIT(&error);
    snprintf(dir, sizeof dir, "%s/prefix-disk-%ld", INFER_BUILD_DIR, (long)getpid());
    g = golden_read(fixture);
    struct setting x = open_with(1, 0, 1); /* keeps nothing, writes nothing */
    for (int t = 0; t < TEXTS; t++)
        assert_int_equal(run(&x, t), 0);
    close_all(&x);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (!hash_available())
        return 0;
    empty();
    golden_free(&g);
    return rmdir(dir);
}

#define NEEDS_HASH()                                                                                                           \
    do {                                                                                                                       \
        if (!hash_available())                                                                                                 \
            skip();                                                                                                            \
    } while (0)

/* Evicted and found again: in the same engine, in another one, and in one that was started later. */
static void test_found_again(void **state)
{
    (void)state;
    NEEDS_HASH();
    empty();
    struct setting x = open_with(200000, 0, 0), y;
    for (int t = 0; t < TEXTS; t++)
        run(&x, t);
    infer_cache_stats st = stats_of(&x);
    assert_true(st.evictions > 0 && st.disk_files > 0 && st.disk_written > 0);
    assert_int_equal(st.disk_files, count(".kvc"));
    assert_int_equal(count(".tmp"), 0);
    y = open_with(1 << 24, 0, 0);
    uint64_t reused = 0;
    for (int t = 0; t < TEXTS; t++) {
        run(&x, t);
        reused += run(&y, t);
    }
    assert_true(stats_of(&x).disk_loaded > 0);
    assert_true(stats_of(&y).disk_loaded > 0);
    assert_true(reused > LENGTH);
    close_all(&x);
    ok(infer_engine_cache_flush(y.engine, NULL, &error)); /* all that is kept */
    close_all(&y);
    x = open_with(1 << 24, 0, 0);
    for (int t = 0; t < TEXTS; t++)
        assert_int_equal(run(&x, t), LENGTH - 1);
    st = stats_of(&x);
    print_message("# %llu files, %llu bytes; %llu loaded\n", (unsigned long long)st.disk_files,
                  (unsigned long long)st.disk_bytes, (unsigned long long)st.disk_loaded);
    assert_true(!st.disk_damaged && !st.disk_written);
    close_all(&x);
}

/* Other salts, KV types and models find nothing. */
static void test_strangers(void **state)
{
    (void)state;
    NEEDS_HASH();
    empty();
    struct setting x = open_with(1 << 24, 0, 0);
    run_salted(&x, 0, "a");
    ok(infer_engine_cache_flush(x.engine, NULL, &error));
    close_all(&x);
    x = open_with(1 << 24, 0, 0);
    assert_int_equal(run_salted(&x, 0, "b"), 0);
    assert_int_equal(run_salted(&x, 0, NULL), 0);
    assert_int_equal(stats_of(&x).disk_loaded, 0);
    assert_int_equal(run_salted(&x, 0, "a"), LENGTH - 1);
    close_all(&x);
    fixture = "gemma3-scaled";
    struct setting other = open_with(1 << 24, 0, 0);
    fixture = "gemma3";
    infer_session *s = begin(&other, 0, "a");
    infer_step_item it;
    INFER_INIT(&it);
    it.session = s;
    ok(infer_step(&it, 1, NULL, &error));
    assert_int_equal(stats_of(&other).disk_loaded, 0);
    infer_session_release(s);
    close_all(&other);
}

static void test_budgets(void **state)
{
    (void)state;
    NEEDS_HASH();
    empty();
    struct setting x = open_with(1 << 24, 700000, 0);
    for (int t = 0; t < TEXTS; t++) {
        run(&x, t);
        ok(infer_engine_cache_flush(x.engine, NULL, &error));
        infer_cache_stats st = stats_of(&x);
        assert_true(st.disk_bytes <= 700000);
        assert_int_equal(st.disk_files, count(".kvc"));
    }
    infer_cache_stats all = stats_of(&x);
    assert_true(all.disk_written > 700000 && all.disk_files > 0); /* older ones went */
    close_all(&x);
    x = open_with(1 << 24, 0, 0);
    assert_int_equal(run(&x, TEXTS - 1), LENGTH - 1); /* the newest are there */
    close_all(&x);
    empty();
    x = open_with(1 << 24, 0, 500000);
    for (int t = 0; t < TEXTS; t++)
        run(&x, t);
    ok(infer_engine_cache_flush(x.engine, NULL, &error));
    all = stats_of(&x);
    assert_true(all.disk_written <= 500000 && all.disk_skipped > 0 && all.disk_files > 0);
    close_all(&x);
}

/* A flipped bit anywhere, or a missing end: logits stay right, and the file is gone. */
static void test_damage(void **state)
{
    (void)state;
    NEEDS_HASH();
    uint64_t seed = 14, damaged = 0;
    for (int round = 0; round < 40; round++) {
        empty();
        struct setting x = open_with(1 << 24, 0, 0);
        run(&x, round % TEXTS);
        ok(infer_engine_cache_flush(x.engine, NULL, &error));
        close_all(&x);
        assert_int_equal(count(".kvc"), 1);
        const char *name;
        char path[600] = "";
        EACH_FILE(name)
            snprintf(path, sizeof path, "%s", path_in(name));
        size_t n;
        char *data = test_read_file(path, &n);
        assert_non_null(data);
        size_t at = round < 8 ? (size_t)round * 512 : test_rand(&seed) % n;
        data[at] = (char)(data[at] ^ (1 << test_rand(&seed) % 8));
        FILE *f = fopen(path, "wb");
        assert_int_equal(fwrite(data, 1, round % 8 == 7 ? at : n, f), round % 8 == 7 ? at : n);
        fclose(f);
        free(data);
        x = open_with(1 << 24, 0, 0);
        uint64_t reused = run(&x, round % TEXTS); /* the logits are compared in there */
        infer_cache_stats st = stats_of(&x);
        damaged += st.disk_damaged;
        assert_int_equal(st.disk_damaged, !reused);
        assert_int_equal(count(".kvc"), !st.disk_damaged);
        close_all(&x);
    }
    print_message("# %llu of 40 damaged files were told\n", (unsigned long long)damaged);
    assert_int_equal(damaged, 40); /* no byte of a file is without a checksum */
}

static void child(int round)
{
    struct setting x = open_with(200000, 0, 0);
    for (int i = 0;; i++)
        run(&x, (round + i) % TEXTS);
}

/* kill -9 while files are written: what is left is good or is not there, and nothing piles up. */
static void test_kills(void **state)
{
    (void)state;
    NEEDS_HASH();
    uint64_t seed = 9, reused = 0, files = 0, left = 0, span = 60000;
    empty();
    for (int round = 0; round < kills; round++) {
        if (round % 4 == 0)
            empty(); /* else there is nothing left to write */
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            child(round);
            _exit(0);
        }
        usleep((useconds_t)(1000 + test_rand(&seed) % span));
        assert_int_equal(kill(pid, SIGKILL), 0);
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        assert_true(count(".tmp") <= 1);
        left += (uint64_t)count(".tmp");
        struct setting x = open_with(1 << 24, 0, 0);
        assert_int_equal(count(".tmp"), 0);
        for (int t = 0; t < TEXTS; t++)
            reused += run(&x, t);
        infer_cache_stats st = stats_of(&x);
        assert_int_equal(st.disk_damaged, 0);
        files += st.disk_files;
        if (!files && span < 4000000)
            span *= 2; /* under sanitizers and emulators nothing is written so soon */
        close_all(&x);
    }
    print_message("# %d kills, %llu of them in the middle of a file; %llu elements came back from %llu files\n", kills,
                  (unsigned long long)left, (unsigned long long)reused, (unsigned long long)files);
    assert_true(files > 0);
}

/* Each call of the file system fails in turn: answers stay right, and no temporary file and no descriptor stays behind. */
static void test_io_fails(void **state)
{
    (void)state;
    NEEDS_HASH();
    uint64_t k = 1, skipped = 0;
    for (bool reached = true; reached; k++) {
        empty();
        failing_io_set(0, 0);
        struct setting x = open_with(200000, 600000, 0);
        ((struct env *)(uintptr_t)x.engine->env)->io = &failing_io_ops;
        failing_io_set(k, k % 2 ? EIO : ENOSPC);
        for (int t = 0; t < 4; t++)
            run(&x, t);
        run(&x, 0);
        reached = failing_io.calls >= k;
        failing_io_set(0, 0);
        ((struct env *)(uintptr_t)x.engine->env)->io = &os_io_default; /* the model's file was opened by these */
        infer_cache_stats st = stats_of(&x);
        assert_int_equal(st.disk_damaged, 0);
        skipped += st.disk_skipped;
        assert_int_equal(failing_io.open, 0);
        close_all(&x);
        x = open_with(1 << 24, 0, 0);
        assert_int_equal(count(".tmp"), 0);
        for (int t = 0; t < 4; t++)
            run(&x, t);
        assert_int_equal(stats_of(&x).disk_damaged, 0);
        close_all(&x);
    }
    print_message("# %llu calls failed in turn; %llu pieces were not written\n", (unsigned long long)k - 2,
                  (unsigned long long)skipped);
    assert_true(k > 20 && skipped > 5);
}

/* Each allocation fails in turn. */
static void test_no_memory(void **state)
{
    (void)state;
    NEEDS_HASH();
    struct test_alloc t = {0};
    infer_allocator a = test_infer_allocator(&t);
    infer_engine_options o;
    uint64_t survived = 0, k = 1;
    INFER_INIT(&o);
    o.allocator = &a;
    o.threads = 1;
    o.cache_bytes = 200000;
    o.cache_dir = dir;
    o.cache_dir_len = INFER_ZSTR;
    for (bool reached = true; reached; k++) {
        struct setting x = {NULL, NULL};
        infer_session *s = NULL;
        infer_status st;
        if (k % 32 == 1)
            empty();
        t.fail_at = 0;
        ok(infer_engine_create(&o, &x.engine, &error));
        ok(infer_model_open_path(x.engine, fixture_path(fixture), &x.model, &error));
        for (int i = 0; i < 3; i++)
            run(&x, i);
        s = begin(&x, 4, NULL);
        t.calls = 0;
        t.fail_at = k;
        infer_step_item it;
        INFER_INIT(&it);
        it.session = s;
        st = infer_step(&it, 1, NULL, NULL);
        reached = t.calls >= k;
        t.fail_at = 0;
        assert_true(st == INFER_OK || st == INFER_ERROR_NO_MEMORY);
        survived += st == INFER_OK && reached;
        infer_session_release(s);
        run(&x, 4);
        assert_int_equal(stats_of(&x).disk_damaged, 0);
        close_all(&x);
        assert_int_equal(t.live, 0);
    }
    print_message("# %llu allocations failed in turn, of which %llu did not fail the step\n", (unsigned long long)k - 2,
                  (unsigned long long)survived);
    assert_true(k > 10 && survived > 3);
}

/* How many files a flush makes when nothing fails. */
static int flushed(const infer_engine_options *o, struct setting *x)
{
    empty();
    ok(infer_engine_create(o, &x->engine, &error));
    ok(infer_model_open_path(x->engine, fixture_path(fixture), &x->model, &error));
    for (int i = 0; i < 3; i++)
        run(x, i);
    return count(".kvc");
}

/* A flush that fails says so, and what it did not write the next one writes. */
static void test_flush_fails(void **state)
{
    (void)state;
    NEEDS_HASH();
    struct test_alloc t = {0};
    infer_allocator a = test_infer_allocator(&t);
    infer_engine_options o;
    struct setting x;
    INFER_INIT(&o);
    o.allocator = &a;
    o.threads = 1;
    o.cache_bytes = 1 << 24;
    o.cache_dir = dir;
    o.cache_dir_len = INFER_ZSTR;
    int before = flushed(&o, &x);
    ok(infer_engine_cache_flush(x.engine, NULL, &error));
    int all = count(".kvc");
    assert_true(all > before + 1);
    close_all(&x);
    for (int io = 0; io < 2; io++) {
        uint64_t k = 1, failures = 0;
        for (bool reached = true; reached; k++) {
            flushed(&o, &x);
            struct env *env = (struct env *)(uintptr_t)x.engine->env;
            if (io) {
                env->io = &failing_io_ops;
                failing_io_set(k, EIO);
            }
            t.calls = 0;
            t.fail_at = io ? 0 : k;
            infer_status st = infer_engine_cache_flush(x.engine, NULL, &error);
            reached = io ? failing_io.calls >= k : t.calls >= k;
            t.fail_at = 0;
            failing_io_set(0, 0);
            env->io = &os_io_default;
            failures += st != INFER_OK;
            if (st == INFER_OK)
                assert_int_equal(count(".kvc"), all);
            ok(infer_engine_cache_flush(x.engine, NULL, &error));
            assert_int_equal(count(".kvc"), all);
            close_all(&x);
            assert_int_equal(t.live, 0);
        }
        print_message("# %llu flushes failed\n", (unsigned long long)failures);
        assert_true(failures > 3);
    }
    char away[sizeof dir + 8];
    snprintf(away, sizeof away, "%s.away", dir);
    flushed(&o, &x);
    assert_int_equal(rename(dir, away), 0);
    assert_int_equal(infer_engine_cache_flush(x.engine, NULL, &error), INFER_ERROR_NOT_FOUND);
    assert_int_equal(rename(away, dir), 0);
    ok(infer_engine_cache_flush(x.engine, NULL, &error));
    assert_int_equal(count(".kvc"), all);
    close_all(&x);
}

/* A model whose file has become shorter has no fingerprint, so that what was computed with it cannot be written, ever; that of others is, in the same call. */
static void test_flush_goes_past(void **state)
{
    (void)state;
    NEEDS_HASH();
    char path[sizeof dir + 16];
    size_t n;
    infer_engine_options o;
    struct setting x, broken;
    INFER_INIT(&o);
    o.threads = 1;
    o.cache_bytes = 1 << 24;
    o.cache_dir = dir;
    o.cache_dir_len = INFER_ZSTR;
    flushed(&o, &x);
    ok(infer_engine_cache_flush(x.engine, NULL, &error));
    int all = count(".kvc");
    close_all(&x);
    snprintf(path, sizeof path, "%s.gguf", dir);
    char *data = test_read_file(fixture_path(fixture), &n);
    assert_non_null(data);
    FILE *f = fopen(path, "wb");
    assert_int_equal(fwrite(data, 1, n, f), n);
    fclose(f);
    free(data);
    int before = flushed(&o, &x);
    broken.engine = x.engine;
    ok(infer_model_open_path(x.engine, path, &broken.model, &error));
    for (int i = 0; i < 3; i++)
        run(&broken, i);
    assert_int_equal(truncate(path, (off_t)n - 1), 0);
    assert_int_equal(infer_engine_cache_flush(x.engine, NULL, &error), INFER_ERROR_CHANGED);
    assert_true(before < all);
    assert_int_equal(count(".kvc"), all);
    ok(infer_engine_cache_flush(x.engine, NULL, &error));
    infer_model_release(broken.model);
    close_all(&x);
    unlink(path);
}

static void test_arguments(void **state)
{
    (void)state;
    NEEDS_HASH();
    infer_engine *e = NULL;
    infer_engine_options o;
    INFER_INIT(&o);
    o.cache_dir = dir;
    o.cache_dir_len = INFER_ZSTR;
    assert_int_equal(infer_engine_create(&o, &e, NULL), INFER_ERROR_ARGUMENT); /* no cache_bytes */
    o.cache_bytes = 1000;
    o.cache_dir_len = 0;
    assert_int_equal(infer_engine_create(&o, &e, NULL), INFER_ERROR_ARGUMENT);
    o.cache_dir = "/dev/null/none";
    o.cache_dir_len = INFER_ZSTR;
    assert_true(infer_engine_create(&o, &e, NULL) < 0);
    o.cache_dir = NULL;
    ok(infer_engine_create(&o, &e, &error));
    assert_int_equal(infer_engine_cache_flush(e, NULL, NULL), INFER_ERROR_STATE);
    assert_int_equal(infer_engine_cache_flush(NULL, NULL, NULL), INFER_ERROR_ARGUMENT);
    infer_engine_release(e);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "many"))
        kills = 250;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found_again), cmocka_unit_test(test_strangers), cmocka_unit_test(test_budgets),
        cmocka_unit_test(test_damage),      cmocka_unit_test(test_kills),     cmocka_unit_test(test_io_fails),
        cmocka_unit_test(test_no_memory),   cmocka_unit_test(test_flush_fails), cmocka_unit_test(test_flush_goes_past),
        cmocka_unit_test(test_arguments),
    };
    return cmocka_run_group_tests_name("prefix_disk", tests, setup, teardown);
}
