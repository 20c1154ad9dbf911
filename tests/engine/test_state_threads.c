/* Threads that fork, restore, checkpoint, store, drop and generate on one model, with a small prefix cache that spills to disk, a store of files,
 * and too little KV memory for all. What each computes is what one alone computes. For ThreadSanitizer too (CONTRIBUTING.md).
 *
 *     test_state_threads [ROUNDS [THREADS]] */
#include "state_util.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "golden.h"
#include "tempdir.h"

enum { SHARED = 4, MAX_THREADS = 32, PROMPT = 150, TOKENS = 8 };

static infer_engine *engine;
static infer_model *model;
static infer_store *store, *files; /* in memory; in a directory, so that many restore from the same mapped pages (NULL: a build without xxHash) */
static uint32_t rounds = 60, n_threads = 8;

/* Checkpoints that the threads hand each other. Every one of them holds prompt number i, and perhaps what greedily follows it. */
static struct {
    pthread_mutex_t lock;
    infer_checkpoint *c[SHARED];
} board = {.lock = PTHREAD_MUTEX_INITIALIZER};
static int32_t prompts[SHARED][PROMPT], expected[SHARED][TOKENS];

struct worker {
    uint64_t rng, made, refused, wrong;
    infer_status failure;
};

static infer_checkpoint *take(uint64_t i)
{
    pthread_mutex_lock(&board.lock);
    infer_checkpoint *c = infer_checkpoint_ref(board.c[i]);
    pthread_mutex_unlock(&board.lock);
    return c;
}

static void hand_over(uint64_t i, infer_checkpoint *c)
{
    pthread_mutex_lock(&board.lock);
    infer_checkpoint *old = board.c[i];
    board.c[i] = c;
    pthread_mutex_unlock(&board.lock);
    infer_checkpoint_release(old);
}

/* Generates to the end of TOKENS tokens behind the prompt and compares. LIMIT ends it early: that is allowed. */
static infer_status answer(struct worker *w, infer_session *s, uint64_t i)
{
    int32_t ids[PROMPT + TOKENS];
    infer_session_info info;
    infer_generate_options o;
    infer_event ev;
    INFER_INIT(&o);
    INFER_INIT(&info);
    infer_status st = infer_session_get_info(s, &info, NULL);
    if (st != INFER_OK || info.length >= PROMPT + TOKENS)
        return st;
    o.flags = INFER_GENERATE_IGNORE_EOS;
    o.max_tokens = PROMPT + TOKENS - info.length;
    st = infer_generate_begin(s, &o, NULL);
    do {
        INFER_INIT(&ev);
        if (st == INFER_OK)
            st = infer_generate_next(s, &ev, NULL, NULL);
    } while (st == INFER_OK && ev.kind != INFER_EVENT_DONE);
    if (st != INFER_OK)
        return st;
    st = infer_session_tokens(s, 0, PROMPT + TOKENS, ids, NULL);
    w->wrong += st != INFER_OK || memcmp(ids, prompts[i], sizeof prompts[i]) || memcmp(ids + PROMPT, expected[i], sizeof expected[i]);
    w->made++;
    return st;
}

/* A session from nothing. */
static infer_status fresh(uint64_t i, infer_session **out)
{
    infer_status st = infer_session_create(model, NULL, out, NULL);
    return st == INFER_OK ? infer_session_append(*out, prompts[i], PROMPT, NULL) : st;
}

static infer_status one_round(struct worker *w, infer_session **s)
{
    uint64_t i = test_rand(&w->rng) % SHARED, what = test_rand(&w->rng) % 8;
    infer_session *f = NULL;
    infer_checkpoint *c = take(i), *d = NULL;
    const char *name = &"abcd"[i];
    infer_status st = INFER_OK;
    if (!*s)
        st = infer_checkpoint_session(c, s, NULL);
    else
        st = infer_session_restore(*s, c, NULL);
    if (st == INFER_OK && what < 3) { /* a fork generates while its origin is rolled back */
        st = infer_session_fork(*s, &f, NULL);
        if (st == INFER_OK)
            st = infer_session_truncate(*s, test_rand(&w->rng) % PROMPT, NULL, NULL);
    } else if (st == INFER_OK && what == 3) {
        st = fresh(i, &f);
    } else if (st == INFER_OK && (what == 4 || (what == 5 && files))) {
        infer_store *in = what == 4 ? store : files;
        st = infer_store_put(in, name, 1, c, INFER_STORE_REPLACE, NULL, NULL);
        if (st == INFER_OK && infer_store_get(in, model, name, 1, NULL, &d, NULL) == INFER_OK) /* else another has deleted it */
            st = infer_checkpoint_session(d, &f, NULL);
        if (st == INFER_OK && d && test_rand(&w->rng) % 2)
            hand_over(i, infer_checkpoint_ref(d));
        (void)infer_store_delete(in, name, 1, NULL);
    }
    if (st == INFER_OK)
        st = answer(w, f ? f : *s, i);
    if (st == INFER_OK && test_rand(&w->rng) % 2) { /* the others go on from here */
        infer_checkpoint *mine = NULL;
        st = infer_session_truncate(f ? f : *s, PROMPT + test_rand(&w->rng) % TOKENS, NULL, NULL);
        if (st == INFER_OK)
            st = infer_checkpoint_create(f ? f : *s, &mine, NULL);
        if (st == INFER_OK)
            hand_over(i, mine);
    }
    infer_session_release(f);
    infer_checkpoint_release(c);
    infer_checkpoint_release(d);
    return st;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    infer_session *s = NULL;
    for (uint32_t r = 0; r < rounds && !w->failure; r++) {
        infer_status st = one_round(w, &s);
        if (st == INFER_ERROR_LIMIT) { /* others hold the memory: give up what this thread holds, and go on */
            w->refused++;
            infer_session_release(s);
            s = NULL;
        } else {
            w->failure = st;
        }
    }
    infer_session_release(s);
    return NULL;
}

static void prepare(uint64_t i)
{
    infer_session *s;
    struct worker w = {0};
    for (uint32_t k = 0; k < PROMPT; k++)
        prompts[i][k] = (int32_t)((i * 31 + k * 7 + k / 5) % 150);
    ok(fresh(i, &s));
    ok(infer_checkpoint_create(s, &board.c[i], &error));
    ok(answer(&w, s, i));
    ok(infer_session_tokens(s, PROMPT, TOKENS, expected[i], &error));
    infer_session_release(s);
}

static void test_threads(void **state)
{
    (void)state;
    static struct worker w[MAX_THREADS];
    pthread_t t[MAX_THREADS];
    infer_engine_options o;
    infer_engine_info info;
    infer_cache_stats cache;
    uint64_t made = 0, refused = 0;
    INFER_INIT(&o);
    INFER_INIT(&info);
    o.threads = 2;
    o.kv_budget = 3 << 18;
    o.cache_bytes = 1 << 18; /* evicts all the time */
    if (hash_available()) {
        o.cache_dir = tempdir_make();
        o.cache_dir_len = INFER_ZSTR;
        o.cache_dir_bytes = 1 << 20;
    }
    ok(infer_engine_create(&o, &engine, &error));
    ok(infer_model_open_path(engine, fixture_path("gemma3"), &model, &error));
    ok(infer_store_open(engine, NULL, 0, NULL, &store, &error));
    if (hash_available())
        ok(infer_store_open(engine, tempdir_path("files"), INFER_ZSTR, NULL, &files, &error));
    for (uint64_t i = 0; i < SHARED; i++)
        prepare(i);
    for (uint32_t i = 0; i < n_threads; i++) {
        w[i].rng = i + 1;
        assert_int_equal(pthread_create(&t[i], NULL, work, &w[i]), 0);
    }
    for (uint32_t i = 0; i < n_threads; i++)
        pthread_join(t[i], NULL);
    for (uint32_t i = 0; i < n_threads; i++) {
        assert_int_equal(w[i].failure, INFER_OK);
        assert_int_equal(w[i].wrong, 0);
        made += w[i].made;
        refused += w[i].refused;
    }
    print_message("# %u threads: %llu answers, all as computed alone; %llu times no memory\n", n_threads, (unsigned long long)made,
                  (unsigned long long)refused);
    assert_true(made > rounds);
    for (uint64_t i = 0; i < SHARED; i++)
        infer_checkpoint_release(board.c[i]);
    infer_store_release(store);
    infer_store_release(files);
    INFER_INIT(&cache);
    ok(infer_engine_cache_stats(engine, &cache, &error));
    print_message("# cache: %llu elements saved, %llu evictions\n", (unsigned long long)cache.saved, (unsigned long long)cache.evictions);
    assert_true(cache.saved && cache.evictions && cache.disk_damaged == 0);
    assert_true(cache.disk_written || !hash_available());
    ok(infer_engine_cache_clear(engine, &error));
    ok(infer_engine_get_info(engine, &info, &error));
    assert_int_equal(info.kv_bytes, 0);
    infer_model_release(model);
    infer_engine_release(engine);
    if (hash_available())
        tempdir_remove(); /* with "files", which is empty: every put is followed by a delete */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads)};
    if (argc > 1)
        rounds = (uint32_t)strtoul(argv[1], NULL, 10);
    if (argc > 2)
        n_threads = (uint32_t)strtoul(argv[2], NULL, 10);
    n_threads = n_threads < 1 || n_threads > MAX_THREADS ? 8 : n_threads;
    return cmocka_run_group_tests_name("state threads", tests, NULL, NULL);
}
