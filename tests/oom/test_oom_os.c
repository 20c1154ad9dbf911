/* The C library's allocator, files, maps, threads and locks fail at every call: see oom.h and failing_os.h. Here memory of engines comes from malloc, so
 * that cancel flags and handles without an engine are in it too. */
#define _DEFAULT_SOURCE
#include "oom.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "failing_os.h"
#include "scenes.h"

struct fault {
    const char *name;
    unsigned kinds;
    int error, how;
    struct seam seam;
    const char *const *scenarios;
};

static const struct fault *now;

static void arm(uint64_t at, bool rest)
{
    failing_os_arm(now->kinds, now->error, now->how, at, rest);
}

static void check(const char *when)
{
    const char *left = failing_os_left();
    if (*left)
        fail_msg("%s: %s: left are %s", now->name, when, left);
}

static void forget(void)
{
    (void)failing_os_left();
    failing_os_pause(false);
}

#define LIST(...) (const char *const[]){__VA_ARGS__, NULL}
#define OPENING "gguf", "safetensors", "folder with a tokenizer", "torch", "split", "tokenizers of GGUF", "tokenizer.json", "without an engine"
#define WRITING "checkpoint files", "store in a directory", "prefix cache on disk", "scheduler that spills"
#define SEAM(...) {.errors = {__VA_ARGS__}}
#define NO_ERRORS {.errors = {0}}

static struct fault faults[] = {
    {"malloc", OS_MALLOC, ENOMEM, HOW_ERROR, SEAM(INFER_ERROR_NO_MEMORY),
     LIST("without an engine", "estimate", "session", "generate", "adapters", "checkpoint files", "store in memory", "prefix cache on disk", "scheduler with a cache", "threads")},
    {"open: no descriptors left in the process", OS_OPEN, EMFILE, HOW_ERROR, SEAM(INFER_ERROR_IO), LIST(OPENING, "estimate", "adapters", WRITING)},
    {"open: no descriptors left in the system", OS_OPEN, ENFILE, HOW_ERROR, SEAM(INFER_ERROR_IO), LIST("safetensors", WRITING)},
    {"open: interrupted", OS_OPEN, EINTR, HOW_ERROR, NO_ERRORS, LIST("gguf", "split", "checkpoint files", "store in a directory")},
    {"stat", OS_STAT, EIO, HOW_ERROR, SEAM(INFER_ERROR_IO), LIST(OPENING, "estimate", WRITING)},
    {"read: EIO", OS_READ, EIO, HOW_ERROR, {.errors = {INFER_ERROR_IO}, .tells = true}, LIST(OPENING, "adapters", WRITING)},
    {"read: the file ends", OS_READ, 0, HOW_END, SEAM(INFER_ERROR_TRUNCATED, INFER_ERROR_FORMAT, INFER_ERROR_CHANGED, INFER_ERROR_IO), LIST(OPENING, WRITING)},
    {"read: interrupted", OS_READ, EINTR, HOW_ERROR, NO_ERRORS, LIST("gguf", "folder with a tokenizer", WRITING)},
    {"read: short", OS_READ, 0, HOW_SHORT, NO_ERRORS, LIST("gguf", "folder with a tokenizer", WRITING)},
    {"write: EIO", OS_WRITE, EIO, HOW_ERROR, {.errors = {INFER_ERROR_IO}, .tells = true}, LIST(WRITING)},
    {"write: the disk is full", OS_WRITE, ENOSPC, HOW_ERROR, {.errors = {INFER_ERROR_IO}, .says = "full", .tells = true}, LIST(WRITING)},
    {"write: the quota is used up", OS_WRITE, EDQUOT, HOW_ERROR, {.errors = {INFER_ERROR_IO}, .says = "full", .tells = true}, LIST("checkpoint files")},
    {"write: nothing written", OS_WRITE, 0, HOW_END, SEAM(INFER_ERROR_IO), LIST("checkpoint files")},
    {"write: interrupted", OS_WRITE, EINTR, HOW_ERROR, NO_ERRORS, LIST(WRITING)},
    {"write: short", OS_WRITE, 0, HOW_SHORT, NO_ERRORS, LIST(WRITING)},
    {"map: no memory", OS_MAP, ENOMEM, HOW_ERROR, SEAM(INFER_ERROR_NO_MEMORY), LIST(OPENING, "session", "adapters", WRITING)},
    {"map: not possible", OS_MAP, ENODEV, HOW_ERROR, SEAM(INFER_ERROR_IO), LIST("gguf", "safetensors", "checkpoint files")},
    {"sync: EIO", OS_SYNC, EIO, HOW_ERROR, {.errors = {INFER_ERROR_IO}, .tells = true}, LIST(WRITING)},
    {"sync: interrupted", OS_SYNC, EINTR, HOW_ERROR, NO_ERRORS, LIST(WRITING)},
    {"rename", OS_RENAME, EIO, HOW_ERROR, {.errors = {INFER_ERROR_IO}, .tells = true}, LIST(WRITING)},
    {"link: EIO", OS_LINK, EIO, HOW_ERROR, SEAM(INFER_ERROR_IO), LIST(WRITING)},
    {"link: not possible", OS_LINK, EPERM, HOW_ERROR, NO_ERRORS, LIST(WRITING)},
    {"unlink", OS_UNLINK, EIO, HOW_ERROR, {.errors = {INFER_ERROR_IO}, .leaves_files = true}, LIST(WRITING)},
    {"mkdir", OS_MKDIR, EACCES, HOW_ERROR, SEAM(INFER_ERROR_IO), LIST(WRITING)},
    {"list a folder", OS_LIST, EIO, HOW_ERROR, SEAM(INFER_ERROR_IO), LIST("torch", "safetensors", WRITING)},
    {"lock", OS_LOCK, ENOLCK, HOW_ERROR, {.errors = {0}, .leaves_files = true}, LIST(WRITING)},
    {"copy inside the system: not possible", OS_CLONE, EXDEV, HOW_ERROR, NO_ERRORS, LIST("checkpoint files", "store in a directory")},
    {"copy inside the system: EIO", OS_CLONE, EIO, HOW_ERROR, SEAM(INFER_ERROR_IO), LIST("checkpoint files", "store in a directory")},
    {"copy inside the system: short", OS_CLONE, 0, HOW_SHORT, NO_ERRORS, LIST("checkpoint files", "store in a directory")},
    {"close", OS_CLOSE, EIO, HOW_ERROR, NO_ERRORS, LIST(OPENING, WRITING)},
    {"threads", OS_THREAD, EAGAIN, HOW_ERROR, SEAM(INFER_ERROR_THREAD), LIST("threads", "experts")},
    {"locks", OS_MUTEX, ENOMEM, HOW_ERROR, {.errors = {INFER_ERROR_NO_MEMORY}, .tells = true},
     LIST("threads", "session", "store in memory", "store in a directory", "prefix cache on disk", "scheduler", "scheduler that spills", "without an engine")},
};
enum { FAULTS = sizeof faults / sizeof faults[0] };

static const struct scenario *scenario_of(const char *name)
{
    const struct scenario *const groups[] = {oom_files, oom_sessions, oom_state, oom_more};
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++)
        for (const struct scenario *s = groups[g]; s->name; s++)
            if (strcmp(s->name, name) == 0)
                return s;
    fail_msg("no scenario %s", name);
    return NULL;
}

static struct oom_plan plan;
static uint64_t tried, points;

static void test_fault(void **state)
{
    struct fault *f = *state;
    uint64_t sum = 0, most = plan.most;
    f->seam.name = f->name;
    f->seam.arm = arm;
    f->seam.pause = failing_os_pause;
    f->seam.calls = failing_os_calls;
    f->seam.check = check;
    f->seam.forget = forget;
    now = f;
    for (const char *const *name = f->scenarios; *name; name++) {
        if (!oom_can_run(scenario_of(*name)))
            continue;
        uint64_t of, n = oom_loop(scenario_of(*name), &f->seam, &plan, &of);
        print_message("# %s: %s: %llu of %llu failing points\n", f->name, *name, (unsigned long long)n, (unsigned long long)of);
        assert_true(n == of || (most && n >= most));
        sum += n;
        points += of;
    }
    if (!hash_available() && !sum)
        skip();
    assert_true(sum > 0); /* else nothing of this kind is called, and nothing was tested */
    tried += sum;
}

/* A step with threads of its own, in this process: after a fork they and their locks are made anew. */
static infer_status step_once(infer_session *s)
{
    int32_t ids[40];
    infer_step_item it;
    INFER_INIT(&it);
    it.session = s;
    for (int i = 0; i < 40; i++)
        ids[i] = 5 + i;
    infer_status st = infer_session_append(s, ids, 40, NULL);
    return st == INFER_OK ? infer_step(&it, 1, NULL, NULL) : st;
}

/* In a child a lock cannot be made: the step says so, and may be repeated, or all is released at once, which waits for no thread of the parent's. */
static int forked(infer_engine *engine, infer_model *m, infer_session *s, uint64_t fail_at, bool again)
{
    (void)alarm(60);
    failing_os_arm(OS_MUTEX, ENOMEM, HOW_ERROR, fail_at, true);
    int good = step_once(s) == INFER_ERROR_NO_MEMORY && failing_os_calls() >= fail_at;
    if (again) {
        failing_os_arm(0, 0, HOW_ERROR, 0, false);
        good = good && step_once(s) == INFER_OK;
    }
    infer_session_release(s);
    infer_model_release(m);
    infer_engine_release(engine);
    return good;
}

static void test_fork(void **state)
{
    (void)state;
    infer_engine *engine;
    infer_model *m;
    infer_session *s;
    infer_engine_options o;
    INFER_INIT(&o);
    o.threads = 3;
    failing_os_arm(0, 0, HOW_ERROR, 0, false);
    assert_int_equal(infer_engine_create(&o, &engine, NULL), INFER_OK);
    assert_int_equal(infer_model_open_path(engine, INFER_SOURCE_DIR "/models/tiny.gguf", &m, NULL), INFER_OK);
    assert_int_equal(infer_session_create(m, NULL, &s, NULL), INFER_OK);
    assert_int_equal(step_once(s), INFER_OK);
    for (uint64_t way = 0; way < 6; way++) { /* a mutex and two condition variables */
        usleep(20000); /* the pool's threads sleep: the child's copies of their locks say that they do */
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            _exit(forked(engine, m, s, 1 + way / 2, way % 2) ? 0 : 1);
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    infer_session_release(s);
    infer_model_release(m);
    infer_engine_release(engine);
    forget();
}

static void test_sum(void **state)
{
    (void)state;
    print_message("# in all %llu of %llu failing points\n", (unsigned long long)tried, (unsigned long long)points);
    assert_true(tried > 1000);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[FAULTS + 2];
    size_t n = 0;
    const char *only = NULL;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "short") == 0)
            plan.most = 20;
        else
            only = argv[i];
    scenes_make();
    oom_folder_make();
    for (size_t i = 0; i < FAULTS; i++)
        if (!only || strstr(faults[i].name, only))
            tests[n++] = (struct CMUnitTest){faults[i].name, test_fault, NULL, NULL, &faults[i]};
    if (!only || strcmp(only, "fork") == 0)
        tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_fork);
    if (!only)
        tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_sum);
    int failed = _cmocka_run_group_tests("oom_os", tests, n, NULL, NULL);
    oom_folder_remove();
    return failed;
}
