/* State on real models (SmolLM2-135M-Instruct Q4_1 without windows, Gemma 3 270M Q4_K_M with): whatever way it was kept, it goes on with the bits of
 * a session that computed everything itself. Models are looked for as in real_model.h, and skipped when they are not there. */
#define _DEFAULT_SOURCE
#include "real_model.h"
#include "state_util.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/pack.h"
#include "tempdir.h"

/* FROM: where state is kept; LEN: more than Gemma's window of 512 and its slack, and no multiple of a page; MORE follow one by one. */
enum { FROM = 650, LEN = 700, MORE = 3, LINKS = 10 };

static const int32_t kv_types[] = {INFER_KV_F16, INFER_KV_F32, INFER_KV_INT8, INFER_KV_MIXED_F16};

struct setting {
    infer_model *model;
    uint32_t n_vocab;
    int32_t kv_type;
    int32_t ids[LEN + MORE];
    float *want, *got; /* [MORE + 1][n_vocab] */
};

static void setting_open(struct setting *x, const char *path, uint64_t cache_bytes)
{
    infer_engine_options eo;
    infer_engine *e;
    infer_model_info info;
    INFER_INIT(&eo);
    INFER_INIT(&info);
    eo.threads = 2;
    eo.cache_bytes = cache_bytes;
    ok(infer_engine_create(&eo, &e, &error));
    ok(infer_model_open_path(e, path, &x->model, &error));
    infer_engine_release(e);
    ok(infer_model_get_info(x->model, &info, &error));
    x->n_vocab = info.vocab_size;
    real_ids(x->model, x->ids, LEN + MORE);
    x->want = malloc((MORE + 1) * (size_t)x->n_vocab * sizeof(float));
    x->got = malloc((MORE + 1) * (size_t)x->n_vocab * sizeof(float));
    assert_true(x->want && x->got);
}

static void setting_close(struct setting *x)
{
    infer_model_release(x->model);
    free(x->want);
    free(x->got);
}

/* The first n elements, computed. */
static infer_session *computed(const struct setting *x, uint64_t n)
{
    infer_session *s = session_of_model(x->model, x->kv_type, 2048);
    ok(infer_session_append(s, x->ids, n, &error));
    step(s);
    return s;
}

static void keep_row(const infer_session *s, const struct setting *x, float *rows, size_t i)
{
    const float *row;
    ok(infer_session_logits(s, 0, &row, NULL, &error));
    memcpy(rows + i * x->n_vocab, row, x->n_vocab * sizeof *row);
}

/* Goes on from what s holds, to LEN and MORE; the logits. s is released. */
static void go_on(infer_session *s, const struct setting *x, float *rows)
{
    uint64_t at = info_of(s).length;
    for (size_t i = 0; i <= MORE; i++) {
        uint64_t to = LEN + i;
        if (at < to) {
            ok(infer_session_append(s, x->ids + at, to - at, &error));
            step(s);
        }
        keep_row(s, x, rows, i);
        at = to;
    }
    infer_session_release(s);
}

static void check(infer_session *s, const struct setting *x, const char *what)
{
    go_on(s, x, x->got);
    for (size_t i = 0; i <= MORE; i++)
        if (memcmp(x->got + i * x->n_vocab, x->want + i * x->n_vocab, x->n_vocab * sizeof(float)) != 0)
            fail_msg("%s, KV type %d: logits %zu behind element %d differ", what, (int)x->kv_type, i, LEN);
}

/* Other elements, which a fork or what is rolled back must not leave a trace of. */
static void go_astray(infer_session *s, const struct setting *x, uint64_t n)
{
    ok(infer_session_append(s, x->ids + (info_of(s).length + 331) % 600, n, &error));
    step(s);
}

static void forked_and_truncated(const struct setting *x)
{
    infer_session *a = computed(x, FROM), *b, *c;
    ok(infer_session_fork(a, &b, &error));
    ok(infer_session_fork(b, &c, &error));
    go_astray(a, x, 80);
    check(c, x, "fork of a fork");
    go_astray(b, x, 3);
    infer_session_release(b);
    ok(infer_session_truncate(a, FROM, NULL, &error));
    check(a, x, "rolled back and grown again");
    a = computed(x, LEN);
    ok(infer_session_truncate(a, 100, NULL, &error));
    check(a, x, "rolled back far");
}

static infer_checkpoint *checkpoint_of(infer_session *s)
{
    infer_checkpoint *c;
    ok(infer_checkpoint_create(s, &c, &error));
    infer_session_release(s);
    return c;
}

static infer_session *session_from(infer_checkpoint *c)
{
    infer_session *s;
    ok(infer_checkpoint_session(c, &s, &error));
    return s;
}

static void in_memory(const struct setting *x)
{
    infer_checkpoint *c = checkpoint_of(computed(x, FROM)), *whole = checkpoint_of(computed(x, LEN));
    infer_session *s = session_of_model(x->model, INFER_KV_F16, 0);
    go_astray(s, x, 90);
    ok(infer_session_restore(s, c, &error));
    go_astray(s, x, 70);
    ok(infer_session_restore(s, c, &error));
    check(s, x, "restored from memory");
    check(session_from(whole), x, "restored with its logits");
    infer_checkpoint_release(c);
    infer_checkpoint_release(whole);
}

static void save(const infer_checkpoint *c, const char *name, uint32_t flags, const char *parent)
{
    infer_save_options o;
    INFER_INIT(&o);
    o.flags = flags;
    o.parent = parent ? tempdir_path(parent) : NULL;
    o.parent_len = INFER_ZSTR;
    ok(infer_checkpoint_save(c, tempdir_path(name), INFER_ZSTR, &o, NULL, &error));
}

static infer_session *opened(const struct setting *x, const char *name, int32_t map, int32_t verify)
{
    infer_load_options o;
    infer_checkpoint *c;
    INFER_INIT(&o);
    o.map = map;
    o.verify = verify;
    ok(infer_checkpoint_open(x->model, tempdir_path(name), INFER_ZSTR, &o, NULL, &c, &error));
    infer_session *s = session_from(c);
    infer_checkpoint_release(c);
    return s;
}

static void in_files(const struct setting *x)
{
    char name[2][8] = {"0", ""};
    infer_checkpoint *c = checkpoint_of(computed(x, FROM));
    save(c, "plain", 0, NULL);
    check(opened(x, "plain", INFER_MAP_AUTO, INFER_VERIFY_FIRST_USE), x, "mapped");
    check(opened(x, "plain", INFER_MAP_AUTO, INFER_VERIFY_LOAD), x, "mapped and verified");
    check(opened(x, "plain", INFER_MAP_READ, INFER_VERIFY_LOAD), x, "read");
    if (pack_available()) {
        save(c, "packed", INFER_SAVE_ZSTD, NULL);
        check(opened(x, "packed", INFER_MAP_AUTO, INFER_VERIFY_LOAD), x, "zstd");
    }
    infer_checkpoint_release(c);
    /* A chain of deltas; each goes on from what the one before it gives. */
    infer_session *s = computed(x, FROM - LINKS * 40);
    for (int i = 0; i <= LINKS; i++) {
        infer_checkpoint *link;
        ok(infer_checkpoint_create(s, &link, &error));
        (void)snprintf(name[i % 2], sizeof name[0], "%d", i);
        save(link, name[i % 2], i % 3 == 2 && pack_available() ? INFER_SAVE_ZSTD : 0, i ? name[1 - i % 2] : NULL);
        infer_checkpoint_release(link);
        infer_session_release(s);
        s = opened(x, name[i % 2], INFER_MAP_AUTO, INFER_VERIFY_FIRST_USE);
        if (i < LINKS) {
            ok(infer_session_append(s, x->ids + info_of(s).length, 40, &error));
            step(s);
        }
    }
    assert_int_equal(info_of(s).length, FROM);
    check(s, x, "a chain of ten deltas");
}

/* The child ends by its exit status: cmocka's ways out belong to the parent. */
static void in_a_child(const struct setting *x)
{
    infer_checkpoint *c = checkpoint_of(computed(x, FROM));
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        go_on(session_from(c), x, x->got);
        _exit(memcmp(x->got, x->want, (MORE + 1) * (size_t)x->n_vocab * sizeof(float)) == 0 ? 17 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 17);
    check(session_from(c), x, "the parent of a process");
    infer_checkpoint_release(c);
}

static const char *needed(void **state)
{
    static char path[1024];
    if (strchr(*state, '/'))
        return *state;
    if (!real_model(*state, path)) {
        print_message("# %s is not there\n", (const char *)*state);
        skip();
    }
    return path;
}

static void test_ways(void **state)
{
    struct setting x;
    setting_open(&x, needed(state), 0);
    tempdir_make();
    for (size_t k = 0; k < sizeof kv_types / sizeof *kv_types; k++) {
        x.kv_type = kv_types[k];
        go_on(session_of_model(x.model, x.kv_type, 2048), &x, x.want);
        forked_and_truncated(&x);
        in_memory(&x);
        if (hash_available())
            in_files(&x);
        in_a_child(&x);
    }
    tempdir_remove();
    setting_close(&x);
}

/* Somebody leaves the first `split` elements in the prefix cache, and others behind them. */
static uint64_t hit(const struct setting *x, uint64_t split)
{
    infer_cache_report report;
    infer_session *s = session_of_model(x->model, x->kv_type, 2048);
    INFER_INIT(&report);
    ok(infer_engine_cache_clear(infer_model_engine(x->model), &error));
    uint64_t other = 0;
    while (x->ids[other] == x->ids[split])
        other++;
    ok(infer_session_append(s, x->ids, split, &error));
    ok(infer_session_append(s, x->ids + other, 63, &error));
    step(s);
    infer_session_release(s);
    s = computed(x, LEN);
    ok(infer_session_cache_report(s, &report, &error));
    check(s, x, "a hit of the prefix cache");
    return report.reused + report.rerun;
}

/* Every split point around a page, the end and Gemma's window, and every seventh else. */
static void test_splits(void **state)
{
    struct setting x;
    setting_open(&x, needed(state), 1u << 30);
    x.kv_type = INFER_KV_F16;
    infer_session_options o;
    infer_session *s;
    INFER_INIT(&o);
    o.n_ctx = 2048;
    o.cache_flags = INFER_CACHE_NO_LOOKUP | INFER_CACHE_NO_INSERT;
    ok(infer_session_create(x.model, &o, &s, &error));
    go_on(s, &x, x.want);
    for (uint64_t split = 1; split < LEN; split++) {
        bool near = split % 64 < 2 || split % 64 == 63 || split + 4 > LEN || (split > 510 && split < 515);
        if (near || split % 7 == 0)
            assert_int_equal(hit(&x, split), split);
    }
    setting_close(&x);
}

/* ---- A long context */

enum { STORED = 8192, APPENDED = 2000, GENERATED = 200 };

static void append_long(infer_session *s, const struct setting *x, uint64_t from, uint64_t n)
{
    for (uint64_t i = from; i < from + n; i++)
        ok(infer_session_append(s, x->ids + i * (1 + i / 5000) % LEN, 1, &error));
}

/* Generates; tokens and the logits behind each. */
static void generate(infer_session *s, const struct setting *x, int32_t *ids, float *rows)
{
    infer_generate_options o;
    infer_sampling set;
    infer_event ev = {0};
    uint64_t n = 0;
    INFER_INIT(&o);
    INFER_INIT(&set);
    set.temperature = 0.8f;
    set.seed = 5;
    set.repetition_penalty = 1.1f;
    ok(infer_session_set_sampling(s, &set, &error));
    o.max_tokens = GENERATED;
    o.flags = INFER_GENERATE_IGNORE_EOS;
    ok(infer_generate_begin(s, &o, &error));
    while (ev.kind != INFER_EVENT_DONE) {
        INFER_INIT(&ev);
        ok(infer_generate_next(s, &ev, NULL, &error));
        if (ev.kind == INFER_EVENT_TOKEN) {
            assert_true(n < GENERATED);
            ids[n] = ev.id;
            keep_row(s, x, rows, n++);
        }
    }
    assert_int_equal(n, GENERATED);
    infer_session_release(s);
}

static void test_long(void **state)
{
    struct setting x;
    static int32_t want_ids[GENERATED], ids[GENERATED];
    setting_open(&x, needed(state), 0);
    if (!hash_available())
        skip();
    tempdir_make();
    x.kv_type = INFER_KV_F16;
    time_t from = time(NULL);
    float *want = malloc(GENERATED * (size_t)x.n_vocab * 4), *got = malloc(GENERATED * (size_t)x.n_vocab * 4);
    assert_true(want && got);
    infer_session *cold = session_of_model(x.model, x.kv_type, 12000), *s = session_of_model(x.model, x.kv_type, 12000);
    append_long(cold, &x, 0, STORED + APPENDED); /* all in one step */
    step(cold);
    generate(cold, &x, want_ids, want);
    append_long(s, &x, 0, STORED);
    step(s);
    infer_checkpoint *c = checkpoint_of(s);
    save(c, "long", 0, NULL);
    infer_checkpoint_release(c);
    s = opened(&x, "long", INFER_MAP_AUTO, INFER_VERIFY_FIRST_USE);
    assert_int_equal(info_of(s).kv_mapped_bytes, info_of(s).kv_bytes);
    append_long(s, &x, STORED, APPENDED);
    step(s);
    generate(s, &x, ids, got);
    assert_memory_equal(want_ids, ids, sizeof ids);
    for (size_t i = 0; i < GENERATED; i++)
        assert_memory_equal(want + i * x.n_vocab, got + i * x.n_vocab, x.n_vocab * sizeof(float));
    print_message("# %d restored, %d appended, %d generated: as cold, %d s\n", STORED, APPENDED, GENERATED, (int)(time(NULL) - from));
    free(want);
    free(got);
    tempdir_remove();
    setting_close(&x);
}

/* argument: a pattern for the names of tests */
int main(int argc, char **argv)
{
    static char smol[] = "SmolLM2-135M-Instruct.Q4_1.gguf", gemma[] = "gemma-3-270m-q4_k_m.gguf", tiny[] = INFER_SOURCE_DIR "/models/tiny.gguf";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_ways, smol),   cmocka_unit_test_prestate(test_ways, gemma),
        cmocka_unit_test_prestate(test_splits, smol), cmocka_unit_test_prestate(test_splits, gemma),
        cmocka_unit_test_prestate(test_long, tiny),   cmocka_unit_test_prestate(test_long, smol),
        cmocka_unit_test_prestate(test_long, gemma),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("state of real models", tests, NULL, NULL);
}
