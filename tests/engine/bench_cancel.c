/* How soon a long call ends once its cancel flag is set: bench_cancel MODEL [FOLDER [TRIALS [PHASE]...]]. For each phase the flag is set by
 * another thread TRIALS times (200), each time at a random moment of the call; told are the median, the 95th percentile and the worst of
 * the times from there to the call's return. Two threads compute; the prompt has 2,048 tokens. Files go to FOLDER (.). */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "infer/state.h"

#define PROMPT 2048u
#define CHUNK 256u

static infer_error error;

static void ok(infer_status st)
{
    if (st == INFER_OK)
        return;
    fprintf(stderr, "%s: %s %s\n", infer_status_name(st), error.text, error.file);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static double uniform(void)
{
    static unsigned long long x = 88172645463325252u;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return (double)(x >> 11) / 9007199254740992.0;
}

/* ---- The thread that sets the flag */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    infer_cancel *flag;
    double at, done; /* when to set it, 0: nothing to do; when it was set */
} setter = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void *set_flags(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&setter.lock);
    for (;;) {
        while (setter.at <= 0)
            pthread_cond_wait(&setter.changed, &setter.lock);
        struct timespec t = {(time_t)(setter.at / 1e3), 0};
        t.tv_nsec = (long)((setter.at - (double)t.tv_sec * 1e3) * 1e6);
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
        setter.done = now();
        infer_cancel_set(setter.flag);
        setter.at = 0;
        pthread_cond_broadcast(&setter.changed);
    }
    return NULL;
}

static void set_at(double at)
{
    pthread_mutex_lock(&setter.lock);
    setter.at = at;
    pthread_cond_broadcast(&setter.changed);
    pthread_mutex_unlock(&setter.lock);
}

static double when_set(void)
{
    pthread_mutex_lock(&setter.lock);
    while (setter.at > 0)
        pthread_cond_wait(&setter.changed, &setter.lock);
    double t = setter.done;
    pthread_mutex_unlock(&setter.lock);
    return t;
}

/* ---- What there is to cancel */

static struct {
    const char *path;
    char checkpoint[512], packed[512], file[512], cache[512];
    infer_engine *engine;
    infer_model *model;
    int32_t ids[PROMPT];
    infer_session *at[PROMPT / CHUNK + 1]; /* that many chunks computed, the next one pending */
    infer_checkpoint *whole;               /* of the last */
} b;

static infer_status step(infer_session *s, infer_cancel *cancel)
{
    infer_step_item it;
    INFER_INIT(&it);
    it.session = s;
    return infer_step(&it, 1, cancel, &error);
}

static infer_session *copy(infer_session *s)
{
    infer_session *f;
    ok(infer_session_fork(s, &f, &error));
    return f;
}

static infer_status open_with(int32_t map, int32_t quantise, infer_cancel *cancel)
{
    infer_source source;
    infer_open_options o;
    infer_model *m = NULL;
    INFER_INIT(&o);
    o.map = map;
    o.quantise = quantise;
    o.cancel = cancel;
    infer_source_path(&source, b.path, INFER_ZSTR);
    infer_status st = infer_model_open(b.engine, &source, &o, &m, &error);
    infer_model_release(m);
    return st;
}

static infer_status run_open(infer_cancel *c)
{
    return open_with(INFER_MAP_AUTO, 0, c);
}
static infer_status run_open_read(infer_cancel *c)
{
    return open_with(INFER_MAP_READ, 0, c);
}
static infer_status run_open_q8_0(infer_cancel *c)
{
    return open_with(INFER_MAP_AUTO, INFER_TYPE_Q8_0, c);
}
static infer_status run_open_q4_k(infer_cancel *c)
{
    return open_with(INFER_MAP_AUTO, INFER_TYPE_Q4_K, c);
}

static infer_status run_fingerprint(infer_cancel *c)
{
    uint8_t out[32];
    return infer_model_fingerprint(b.model, INFER_FINGERPRINT_FULL, out, c, &error);
}

static infer_status run_prefill(infer_cancel *c)
{
    infer_session *s = copy(b.at[(size_t)(uniform() * (PROMPT / CHUNK))]);
    infer_status st = step(s, c);
    infer_session_release(s);
    return st;
}

static infer_status run_generate(infer_cancel *c)
{
    infer_session *s = copy(b.at[PROMPT / CHUNK]);
    infer_event ev;
    infer_generate_options o;
    INFER_INIT(&ev);
    INFER_INIT(&o);
    o.max_tokens = 3;
    o.flags = INFER_GENERATE_IGNORE_EOS;
    ok(infer_generate_begin(s, &o, &error));
    infer_status st = INFER_OK;
    do
        st = infer_generate_next(s, &ev, c, &error);
    while (st == INFER_OK && ev.kind != INFER_EVENT_DONE);
    infer_session_release(s);
    return st;
}

static infer_status run_score(infer_cancel *c)
{
    infer_session *s = copy(b.at[PROMPT / CHUNK]);
    infer_score score;
    INFER_INIT(&score);
    infer_status st = infer_session_score(s, b.ids, 64, &score, c, &error);
    infer_session_release(s);
    return st;
}

static infer_status run_embed(infer_cancel *c)
{
    static float out[16384];
    infer_embed_item it;
    infer_embed_options o;
    INFER_INIT(&it);
    INFER_INIT(&o);
    o.pooling = INFER_POOLING_MEAN;
    it.ids = b.ids;
    it.id_count = 128;
    it.out = out;
    it.capacity = sizeof out / sizeof *out;
    return infer_embed(b.model, &it, 1, &o, c, &error);
}

static infer_status save_with(uint32_t flags, infer_cancel *cancel)
{
    infer_save_options o;
    INFER_INIT(&o);
    o.flags = flags;
    return infer_checkpoint_save(b.whole, b.file, INFER_ZSTR, &o, cancel, &error);
}

static infer_status run_save(infer_cancel *c)
{
    return save_with(0, c);
}
static infer_status run_save_zstd(infer_cancel *c)
{
    return save_with(INFER_SAVE_ZSTD, c);
}

static infer_status load_with(const char *path, int32_t map, infer_cancel *cancel)
{
    infer_load_options o;
    infer_checkpoint *c = NULL;
    infer_session *s;
    infer_session_options so;
    INFER_INIT(&o);
    INFER_INIT(&so);
    so.n_ctx = PROMPT + 64;
    o.map = map;
    o.verify = INFER_VERIFY_LOAD;
    infer_status st = infer_checkpoint_open(b.model, path, INFER_ZSTR, &o, cancel, &c, &error);
    if (st == INFER_OK) {
        ok(infer_session_create(b.model, &so, &s, &error));
        ok(infer_session_restore(s, c, &error));
        infer_session_release(s);
    }
    infer_checkpoint_release(c);
    return st;
}

static infer_status run_load(infer_cancel *c)
{
    return load_with(b.checkpoint, INFER_MAP_AUTO, c);
}
static infer_status run_load_read(infer_cancel *c)
{
    return load_with(b.checkpoint, INFER_MAP_READ, c);
}
static infer_status run_load_zstd(infer_cancel *c)
{
    return load_with(b.packed, INFER_MAP_AUTO, c);
}

static infer_status run_clone(infer_cancel *c)
{
    return infer_checkpoint_clone_file(b.engine, b.checkpoint, INFER_ZSTR, b.file, INFER_ZSTR, c, &error);
}

static infer_status run_graft(infer_cancel *c)
{
    infer_session *s;
    infer_session_options so;
    INFER_INIT(&so);
    so.n_ctx = PROMPT + 64;
    ok(infer_session_create(b.model, &so, &s, &error));
    ok(infer_session_append(s, b.ids + 5, 1, &error));
    infer_status st = step(s, c); /* a token's time is part of the call */
    if (st == INFER_OK)
        st = infer_session_graft(s, b.whole, 0, PROMPT, 2, NULL, c, &error);
    infer_session_release(s);
    return st;
}

static void remove_cache(void)
{
    char command[600];
    (void)snprintf(command, sizeof command, "rm -f '%s'/*", b.cache);
    if (system(command) != 0)
        exit(1);
}

/* Fills the cache anew and empties its folder, so that there is something to write. */
static void fill_cache(void)
{
    infer_session *s = copy(b.at[PROMPT / CHUNK - 1]);
    remove_cache();
    ok(infer_engine_cache_clear(b.engine, &error));
    ok(step(s, NULL));
    infer_session_release(s);
}

static infer_status run_flush(infer_cancel *c)
{
    return infer_engine_cache_flush(b.engine, c, &error);
}

/* One token, while another thread's prompt is computed. */
static void *compute_prompts(void *arg)
{
    while (!infer_cancel_is_set(arg)) {
        infer_session *s = copy(b.at[4]);
        infer_status st = step(s, arg);
        if (st != INFER_OK && st != INFER_ERROR_CANCELLED)
            ok(st);
        infer_session_release(s);
    }
    return NULL;
}

static infer_status run_turn(infer_cancel *c)
{
    infer_session *s = copy(b.at[0]);
    infer_step_item it;
    INFER_INIT(&it);
    it.session = s;
    it.max_elements = 1;
    infer_status st = infer_step(&it, 1, c, &error);
    infer_session_release(s);
    return st;
}

static const struct phase {
    const char *name;
    infer_status (*run)(infer_cancel *c);
    void (*before)(void); /* not part of what is measured; may be NULL */
} phases[] = {
    {"open", run_open, NULL},           {"open-read", run_open_read, NULL},     {"open-q8_0", run_open_q8_0, NULL},
    {"open-q4_k", run_open_q4_k, NULL}, {"fingerprint", run_fingerprint, NULL}, {"prefill", run_prefill, NULL},
    {"generate", run_generate, NULL},   {"score", run_score, NULL},             {"embed", run_embed, NULL},
    {"save", run_save, NULL},           {"save-zstd", run_save_zstd, NULL},     {"load", run_load, NULL},
    {"load-read", run_load_read, NULL}, {"load-zstd", run_load_zstd, NULL},     {"clone", run_clone, NULL},
    {"graft", run_graft, NULL},         {"flush", run_flush, fill_cache},       {"turn", run_turn, NULL},
};

/* ---- Measuring */

static int compare(const void *x, const void *y)
{
    double d = *(const double *)x - *(const double *)y;
    return (d > 0) - (d < 0);
}

static void measure(const struct phase *p, int trials)
{
    double *late = calloc((size_t)trials, sizeof *late), whole = 1e30;
    int n = 0;
    for (int i = 0; i < 2; i++) { /* the second time files are in the page cache */
        if (p->before)
            p->before();
        double t = now();
        ok(p->run(NULL));
        t = now() - t;
        whole = t < whole ? t : whole;
    }
    for (int tries = 0; n < trials && tries < trials * 4; tries++) {
        infer_cancel_clear(setter.flag);
        if (p->before)
            p->before();
        set_at(now() + uniform() * whole);
        infer_status st = p->run(setter.flag);
        double end = now(), set = when_set();
        if (st != INFER_OK && st != INFER_ERROR_CANCELLED)
            ok(st);
        if (end > set) /* else it was over before */
            late[n++] = end - set;
    }
    qsort(late, (size_t)n, sizeof *late, compare);
    if (n)
        printf("%-12s %9.1f ms whole; %3d cancels: p50 %7.2f  p95 %7.2f  worst %7.2f ms\n", p->name, whole, n, late[n / 2], late[n * 95 / 100],
               late[n - 1]);
    fflush(stdout);
    free(late);
}

static void prepare(const char *path, const char *folder)
{
    infer_engine_options eo;
    infer_session_options so;
    infer_session *s;
    INFER_INIT(&error);
    INFER_INIT(&eo);
    INFER_INIT(&so);
    b.path = path;
    (void)snprintf(b.checkpoint, sizeof b.checkpoint, "%s/bench_cancel.checkpoint", folder);
    (void)snprintf(b.packed, sizeof b.packed, "%s/bench_cancel.packed", folder);
    (void)snprintf(b.file, sizeof b.file, "%s/bench_cancel.file", folder);
    (void)snprintf(b.cache, sizeof b.cache, "%s/bench_cancel.cache", folder);
    eo.threads = 2;
    eo.cache_bytes = (uint64_t)1 << 30;
    eo.cache_dir = b.cache;
    eo.cache_dir_len = strlen(b.cache);
    ok(infer_engine_create(&eo, &b.engine, &error));
    ok(infer_model_open_path(b.engine, path, &b.model, &error));
    so.n_ctx = PROMPT + 64;
    so.cache_flags = INFER_CACHE_NO_LOOKUP;
    infer_model_info info;
    INFER_INIT(&info);
    ok(infer_model_get_info(b.model, &info, &error));
    for (uint32_t i = 0; i < PROMPT; i++)
        b.ids[i] = (int32_t)(i * 7919u % (uint32_t)info.vocab_size);
    ok(infer_session_create(b.model, &so, &s, &error));
    for (uint32_t i = 0; i < PROMPT / CHUNK; i++) {
        ok(infer_session_append(s, b.ids + (size_t)i * CHUNK, CHUNK, &error));
        b.at[i] = copy(s);
        ok(step(s, NULL));
    }
    b.at[PROMPT / CHUNK] = s;
    ok(infer_checkpoint_create(s, &b.whole, &error));
    ok(infer_checkpoint_save(b.whole, b.checkpoint, INFER_ZSTR, NULL, NULL, &error));
    (void)snprintf(b.file, sizeof b.file, "%s", b.packed);
    ok(save_with(INFER_SAVE_ZSTD, NULL));
    (void)snprintf(b.file, sizeof b.file, "%s/bench_cancel.file", folder);
}

static void clean(void)
{
    (void)unlink(b.checkpoint);
    (void)unlink(b.packed);
    (void)unlink(b.file);
    remove_cache();
    (void)rmdir(b.cache);
}

static void run(const struct phase *p, int trials, infer_cancel *stop)
{
    pthread_t other;
    bool turn = p->run == run_turn;
    infer_cancel_clear(stop);
    if (turn && pthread_create(&other, NULL, compute_prompts, stop) != 0)
        exit(1);
    measure(p, trials);
    infer_cancel_set(stop);
    if (turn)
        pthread_join(other, NULL);
}

int main(int argc, char **argv)
{
    int trials = argc > 3 ? atoi(argv[3]) : 200;
    pthread_t thread;
    const size_t n = sizeof phases / sizeof *phases;
    infer_cancel *stop;
    if (argc < 2) {
        fprintf(stderr, "bench_cancel MODEL [FOLDER [TRIALS [PHASE]...]]\n");
        return 2;
    }
    prepare(argv[1], argc > 2 ? argv[2] : ".");
    ok(infer_cancel_create(&setter.flag, &error));
    ok(infer_cancel_create(&stop, &error));
    if (pthread_create(&thread, NULL, set_flags, NULL) != 0)
        return 1;
    for (size_t i = 0; i < n && argc <= 4; i++)
        run(&phases[i], trials, stop);
    for (int a = 4; a < argc; a++)
        for (size_t i = 0; i < n; i++)
            if (!strcmp(argv[a], phases[i].name))
                run(&phases[i], trials, stop);
    clean();
    return 0;
}
