/* Prefork hosts: the parent opens a model and warms a prompt, children are fork()ed and go on by themselves. With the bundled model; with the
 * argument "models", on SmolLM2 (Q4_1) in the folder INFER_TEST_MODELS. What children find is written to memory shared with the parent,
 * which compares it to what it computes itself. */
#define _DEFAULT_SOURCE
#include "testutil.h"

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "infer/state.h"
#include "ok.h"

#if defined(__has_feature)
#define HAS_FEATURE(x) __has_feature(x)
#else
#define HAS_FEATURE(x) 0
#endif
/* ThreadSanitizer refuses threads in a child of a process that had some. */
#if defined(__SANITIZE_THREAD__) || HAS_FEATURE(thread_sanitizer)
#define NO_FORK 1
#else
#define NO_FORK 0
#endif
/* Sanitizers keep memory of their own for every byte. */
#if NO_FORK || defined(__SANITIZE_ADDRESS__) || HAS_FEATURE(address_sanitizer) || HAS_FEATURE(memory_sanitizer)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

enum { CHILDREN = 20, STEPS = 4, KILLED = 7 };

/* Fixed costs of a child that are not pages of its own: stacks, the C library, parts of the work buffers, tables that it touches. */
#define DIRTY_SLACK_KIB 1024u

static const char *model_path = INFER_SOURCE_DIR "/models/tiny.gguf";
static uint64_t prompt_length = 2000;
static infer_engine *engine;
static infer_model *model;
static infer_checkpoint *warm; /* of the prompt, computed, with logits */
static uint32_t n_vocab;

/* What one process did, in memory that all processes share. */
struct result {
    volatile int32_t progress; /* steps done */
    int32_t failed;            /* an infer_status */
    uint32_t threads;          /* of the process */
    uint64_t dirty_kib;        /* private */
    uint64_t private_kv;       /* bytes of KV that only this process has */
    float logits[];            /* [STEPS][n_vocab] */
};
static char *board;
static size_t result_bytes;

static struct result *result_of(unsigned i)
{
    return (struct result *)(void *)(board + i * result_bytes);
}

static void clear_board(void)
{
    memset(board, 0, result_bytes * (CHILDREN + 2));
}

/* ---- the parent's part */

static int32_t ids[65536]; /* the prompt's first */

static void warm_up(void)
{
    size_t len;
    uint64_t n;
    infer_session *s;
    infer_session_options so;
    infer_step_item it;
    char *text = test_read_file(INFER_SOURCE_DIR "/tests/data/english.txt", &len);
    assert_non_null(text);
    ok(infer_tokenize(infer_model_tokenizer(model), text, len < 40000 ? len : 40000, INFER_TOKENIZE_ADD_SPECIAL, ids, 65536, &n, &error));
    free(text);
    assert_true(n >= prompt_length);
    INFER_INIT(&so);
    so.n_ctx = 4096;
    so.kv_type = INFER_KV_F32;
    ok(infer_session_create(model, &so, &s, &error));
    ok(infer_session_append(s, ids, prompt_length, &error));
    INFER_INIT(&it);
    it.session = s;
    ok(infer_step(&it, 1, NULL, &error));
    ok(infer_checkpoint_create(s, &warm, &error));
    infer_session_release(s);
}

static int setup(void **state)
{
    (void)state;
    infer_engine_options eo;
    infer_open_options oo;
    infer_source source;
    infer_model_info info;
    if (!model_path)
        return 0;
    INFER_INIT(&error);
    INFER_INIT(&eo);
    INFER_INIT(&oo);
    INFER_INIT(&info);
    eo.threads = 3;
    oo.map = INFER_MAP_READ; /* the weights are memory like any other: a child that wrote to them would have them for itself */
    ok(infer_engine_create(&eo, &engine, &error));
    infer_source_path(&source, model_path, INFER_ZSTR);
    ok(infer_model_open(engine, &source, &oo, &model, &error));
    ok(infer_model_get_info(model, &info, &error));
    n_vocab = info.vocab_size;
    result_bytes = (sizeof(struct result) + STEPS * (size_t)n_vocab * sizeof(float) + 63) / 64 * 64;
    board = mmap(NULL, result_bytes * (CHILDREN + 2), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(board != MAP_FAILED);
    warm_up();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    infer_checkpoint_release(warm);
    infer_model_release(model);
    infer_engine_release(engine);
    if (board)
        munmap(board, result_bytes * (CHILDREN + 2));
    return 0;
}

/* ---- what children and parent do alike; no assertion: a child reports by its result */

static uint64_t private_dirty_kib(void)
{
    char line[256];
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "Private_Dirty: %llu", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib;
}

static uint32_t count_threads(void)
{
    uint32_t n = 0;
    DIR *d = opendir("/proc/self/task");
    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

static infer_status one_step(infer_session *s, int32_t id)
{
    infer_step_item it;
    INFER_INIT(&it);
    it.session = s;
    infer_status st = infer_session_append(s, &id, 1, NULL);
    return st == INFER_OK ? infer_step(&it, 1, NULL, NULL) : st;
}

/* STEPS more elements, of which `branch` decides the first; logits of each into r. */
static infer_status go_on(infer_session *s, uint32_t branch, struct result *r)
{
    for (uint32_t i = 0; i < STEPS; i++) {
        const float *logits;
        infer_status st = one_step(s, (int32_t)((branch * 31 + i * 7 + 300) % n_vocab));
        if (st == INFER_OK)
            st = infer_session_logits(s, 0, &logits, NULL, NULL);
        if (st != INFER_OK)
            return st;
        memcpy(r->logits + (size_t)i * n_vocab, logits, n_vocab * sizeof *logits);
        r->progress++;
    }
    return INFER_OK;
}

static infer_status branch_of_checkpoint(uint32_t branch, struct result *r)
{
    infer_session *s = NULL;
    infer_session_info info;
    INFER_INIT(&info);
    infer_status st = infer_checkpoint_session(warm, &s, NULL);
    if (st == INFER_OK)
        st = go_on(s, branch, r);
    if (st == INFER_OK)
        st = infer_session_get_info(s, &info, NULL);
    r->private_kv = info.kv_bytes - info.kv_shared_bytes;
    r->threads = count_threads();
    r->dirty_kib = private_dirty_kib();
    infer_session_release(s);
    return st;
}

static _Noreturn void child_end(struct result *r, infer_status st)
{
    r->failed = st;
    _exit(st == INFER_OK ? 0 : 1);
}

static pid_t start(void)
{
    (void)fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    return pid;
}

static void end_well(pid_t pid, unsigned i)
{
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("process %u: wait status %d, %s", i, status, infer_status_name(result_of(i)->failed));
}

/* Child i's logits are those that this process gets. */
static void same_as_here(unsigned i, uint32_t branch)
{
    struct result *mine = result_of(CHILDREN + 1), *its = result_of(i);
    memset(mine, 0, result_bytes);
    ok(branch_of_checkpoint(branch, mine));
    assert_int_equal(its->progress, STEPS);
    assert_memory_equal(mine->logits, its->logits, STEPS * (size_t)n_vocab * sizeof(float));
}

/* ---- cases */

static void test_one_child(void **state)
{
    (void)state;
    if (NO_FORK || !model_path)
        skip();
    clear_board();
    pid_t pid = start();
    if (pid == 0)
        child_end(result_of(0), branch_of_checkpoint(0, result_of(0)));
    end_well(pid, 0);
    same_as_here(0, 0);
#ifndef INFER_NO_THREADS
    assert_true(result_of(0)->threads > 1); /* the pool was started again there */
#endif
}

/* All at once, one killed in the middle, the parent at work too. */
static void test_twenty_children(void **state)
{
    (void)state;
    pid_t pids[CHILDREN];
    if (NO_FORK || !model_path)
        skip();
    clear_board();
    for (unsigned i = 0; i < CHILDREN; i++) {
        pids[i] = start();
        if (pids[i] == 0 && i == KILLED) {
            while (branch_of_checkpoint(i, result_of(i)) == INFER_OK)
                ;
            _exit(1);
        }
        if (pids[i] == 0)
            child_end(result_of(i), branch_of_checkpoint(i, result_of(i)));
    }
    while (result_of(KILLED)->progress < 2)
        usleep(1000);
    assert_int_equal(kill(pids[KILLED], SIGKILL), 0);
    for (unsigned i = 0; i < CHILDREN; i++) {
        if (i == KILLED) {
            int status = -1;
            assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
            continue;
        }
        end_well(pids[i], i);
        same_as_here(i, i);
    }
}

/* A child has for itself the pages that it wrote and little else: neither the weights nor the prompt's state. */
static void test_private_memory(void **state)
{
    (void)state;
    infer_checkpoint_info ci;
    infer_model_info mi;
    pid_t pids[CHILDREN];
    if (SANITIZED || !model_path || access("/proc/self/smaps_rollup", R_OK) != 0)
        skip();
    clear_board();
    INFER_INIT(&ci);
    INFER_INIT(&mi);
    ok(infer_checkpoint_get_info(warm, &ci, &error));
    ok(infer_model_get_info(model, &mi, &error));
    for (unsigned i = 0; i < CHILDREN; i++) {
        pids[i] = start();
        if (pids[i] == 0)
            child_end(result_of(i), branch_of_checkpoint(i, result_of(i)));
    }
    uint64_t shared_kib = (mi.weight_bytes + ci.kv_bytes) / 1024;
    for (unsigned i = 0; i < CHILDREN; i++) {
        end_well(pids[i], i);
        const struct result *r = result_of(i);
        uint64_t bound = r->private_kv / 1024 + DIRTY_SLACK_KIB;
        if (i == 0)
            print_message("shared %llu KiB; private dirty of the first child %llu KiB, of these KV %llu\n", (unsigned long long)shared_kib,
                          (unsigned long long)r->dirty_kib, (unsigned long long)(r->private_kv / 1024));
        assert_true(r->private_kv > 0 && r->dirty_kib > 0);
        assert_true(r->dirty_kib <= bound);
        assert_true(2 * bound < shared_kib); /* else the bound would prove nothing */
    }
}

/* A child forks in the middle of its work; the grandchild goes on from the child's private state, and from the common checkpoint. */
static void test_grandchildren(void **state)
{
    (void)state;
    if (NO_FORK || !model_path)
        skip();
    clear_board();
    pid_t pid = start();
    if (pid == 0) {
        infer_session *s = NULL;
        infer_status st = infer_checkpoint_session(warm, &s, NULL);
        if (st == INFER_OK)
            st = go_on(s, 1, result_of(0));
        pid_t grand = st == INFER_OK ? fork() : -1;
        if (grand == 0) {
            st = go_on(s, 2, result_of(1));
            if (st == INFER_OK)
                st = branch_of_checkpoint(3, result_of(2));
            child_end(result_of(1), st);
        }
        int status = -1;
        if (st == INFER_OK)
            st = go_on(s, 2, result_of(3));
        if (grand < 0 || waitpid(grand, &status, 0) != grand || status != 0)
            st = INFER_ERROR_INTERNAL;
        child_end(result_of(0), st);
    }
    end_well(pid, 0);
    same_as_here(0, 1);
    same_as_here(2, 3);
    assert_int_equal(result_of(1)->progress, STEPS);
    assert_memory_equal(result_of(1)->logits, result_of(3)->logits, STEPS * (size_t)n_vocab * sizeof(float));
}

/* A process lets go of everything while its child is at work, and one that never used them lets go of what it inherited. */
static void test_releases(void **state)
{
    (void)state;
    if (NO_FORK || !model_path)
        skip();
    clear_board();
    pid_t pid = start();
    if (pid == 0) {
        int gate[2], status = -1;
        char c = 0;
        if (pipe(gate) != 0)
            child_end(result_of(1), INFER_ERROR_IO);
        pid_t inner = fork();
        if (inner == 0) {
            close(gate[1]);
            while (read(gate[0], &c, 1) > 0) /* until the other end is closed */
                ;
            child_end(result_of(0), branch_of_checkpoint(5, result_of(0)));
        }
        infer_checkpoint_release(warm);
        infer_model_release(model);
        infer_engine_release(engine); /* with its pool, whose threads are not here */
        close(gate[1]);
        bool good = inner > 0 && waitpid(inner, &status, 0) == inner && status == 0;
        child_end(result_of(1), good ? INFER_OK : INFER_ERROR_INTERNAL);
    }
    end_well(pid, 1);
    same_as_here(0, 5);
}

static infer_status prompt_from_cache(infer_model *m, uint64_t *reused, struct result *r)
{
    infer_session *s = NULL;
    infer_cache_report report;
    INFER_INIT(&report);
    infer_status st = infer_session_create(m, NULL, &s, NULL);
    if (st == INFER_OK)
        st = infer_session_append(s, ids, 300, NULL);
    if (st == INFER_OK)
        st = go_on(s, 4, r);
    if (st == INFER_OK)
        st = infer_session_cache_report(s, &report, NULL);
    *reused = report.reused;
    infer_session_release(s);
    return st;
}

/* What the parent's prefix cache holds, a child finds too. */
static void test_prefix_cache(void **state)
{
    (void)state;
    infer_engine_options eo;
    infer_engine *e;
    infer_model *m;
    uint64_t first, again;
    if (NO_FORK || !model_path)
        skip();
    clear_board();
    INFER_INIT(&eo);
    eo.threads = 2;
    eo.cache_bytes = (uint64_t)64 << 20;
    ok(infer_engine_create(&eo, &e, &error));
    ok(infer_model_open_path(e, model_path, &m, &error));
    ok(prompt_from_cache(m, &first, result_of(0)));
    assert_int_equal(first, 0);
    pid_t pid = start();
    if (pid == 0) {
        infer_status st = prompt_from_cache(m, &again, result_of(1));
        result_of(1)->private_kv = again;
        if (st == INFER_OK)
            st = infer_engine_cache_clear(e, NULL); /* its own view of it */
        child_end(result_of(1), st);
    }
    end_well(pid, 1);
    assert_true(result_of(1)->private_kv >= 256);
    assert_memory_equal(result_of(0)->logits, result_of(1)->logits, STEPS * (size_t)n_vocab * sizeof(float));
    ok(prompt_from_cache(m, &again, result_of(2)));
    assert_true(again >= 256);
    infer_model_release(m);
    infer_engine_release(e);
}

static infer_status answer(infer_session *s, unsigned tokens, char text[256])
{
    size_t len = strlen(text);
    for (unsigned i = 0; i < tokens;) {
        infer_event ev;
        INFER_INIT(&ev);
        infer_status st = infer_generate_next(s, &ev, NULL, NULL);
        if (st != INFER_OK)
            return st;
        if (ev.kind == INFER_EVENT_DONE)
            return INFER_ERROR_STATE;
        i += ev.kind == INFER_EVENT_TOKEN;
        if (len + ev.text_len < 256)
            memcpy(text + len, ev.text, (size_t)ev.text_len);
        len += (size_t)ev.text_len;
    }
    return len < 256 ? INFER_OK : INFER_ERROR_BUFFER;
}

/* A fork between two tokens of an answer: both processes give the rest of it. */
static void test_in_an_answer(void **state)
{
    (void)state;
    infer_session *s;
    infer_sampling sampling;
    infer_generate_options go;
    char text[256] = "";
    if (NO_FORK || !model_path)
        skip();
    clear_board();
    INFER_INIT(&sampling);
    INFER_INIT(&go);
    go.flags = INFER_GENERATE_IGNORE_EOS;
    ok(infer_sampling_default(&sampling, &error));
    sampling.seed = 11;
    ok(infer_checkpoint_session(warm, &s, &error));
    ok(infer_session_set_sampling(s, &sampling, &error));
    ok(infer_generate_begin(s, &go, &error));
    ok(answer(s, 3, text));
    char *theirs = (char *)result_of(0)->logits;
    pid_t pid = start();
    if (pid == 0) {
        memcpy(theirs, text, sizeof text);
        child_end(result_of(0), answer(s, 8, theirs));
    }
    ok(answer(s, 8, text));
    end_well(pid, 0);
    assert_string_equal(text, theirs);
    assert_true(strlen(text) > 0);
    infer_session_release(s);
}

int main(int argc, char **argv)
{
    static char path[1024];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_child),     cmocka_unit_test(test_twenty_children), cmocka_unit_test(test_private_memory),
        cmocka_unit_test(test_grandchildren), cmocka_unit_test(test_releases),        cmocka_unit_test(test_in_an_answer),
        cmocka_unit_test(test_prefix_cache),
    };
    if (argc > 1 && strcmp(argv[1], "models") == 0) {
        const char *dir = getenv("INFER_TEST_MODELS");
        (void)snprintf(path, sizeof path, "%s/SmolLM2-135M-Instruct.Q4_1.gguf", dir ? dir : "");
        model_path = dir && access(path, R_OK) == 0 ? path : NULL; /* NULL: every case is skipped */
        prompt_length = 600;
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
