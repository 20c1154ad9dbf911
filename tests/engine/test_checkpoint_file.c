/* Checkpoint files: what goes on from one has the bits of the session it was made of, whichever way it is read. */
#define _DEFAULT_SOURCE
#include "ckpt_tests.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const fixtures[] = {"llama", "gemma3"}; /* full attention; sliding windows */

/* ways of reading */
static const struct way {
    uint32_t flags;
    int32_t map, verify;
} ways[] = {
    {0, INFER_MAP_AUTO, INFER_VERIFY_FIRST_USE}, {0, INFER_MAP_READ, INFER_VERIFY_FIRST_USE}, {0, INFER_MAP_AUTO, INFER_VERIFY_LOAD},
    {INFER_SAVE_ZSTD, INFER_MAP_AUTO, INFER_VERIFY_LOAD}, {INFER_SAVE_FULL_MODEL, INFER_MAP_READ, INFER_VERIFY_LOAD},
};

/* Goes on from 405 elements, over three steps and back; the logits of each step are compared with, or written to, want. */
static void go_on(const struct ckpt_model *m, infer_session *s, float *want, bool compare)
{
    size_t width = m->m->net->h.n_logits;
    const float *row;
    for (int k = 0; k < 3; k++, want += width) {
        if (k == 2) /* into what came from the file */
            ok(infer_session_truncate(s, 390, NULL, &error));
        ckpt_append(m, s, 5, k == 2 ? 9 : 50);
        ckpt_step(s);
        ok(infer_session_logits(s, 0, &row, NULL, &error));
        if (compare)
            assert_memory_equal(row, want, width * sizeof *row);
        else
            memcpy(want, row, width * sizeof *row);
    }
}

static void check_way(const struct ckpt_model *m, const infer_session *s, const struct way *w, float *want)
{
    infer_checkpoint *c;
    infer_session *r;
    infer_checkpoint_info i;
    INFER_INIT(&i);
    ok(ckpt_save(s, "c", w->flags, NULL));
    ok(ckpt_load(m, "c", w->map, w->verify, &c));
    ok(infer_checkpoint_get_info(c, &i, &error));
    assert_int_equal(i.length, 405);
    assert_int_equal(i.computed, 403);
    assert_int_equal(i.logits_rows, 1);
    assert_int_equal(i.kv_mapped_bytes, w->flags & INFER_SAVE_ZSTD ? 0 : i.kv_bytes);
    ok(infer_checkpoint_session(c, &r, &error));
    infer_checkpoint_release(c);
    ckpt_same_logits(s, r);
    go_on(m, r, want, true);
    infer_session_release(r);
}

static void check_ways(const struct ckpt_model *m, int32_t kv_type)
{
    infer_session *s = ckpt_session(m, kv_type), *cold = ckpt_session(m, kv_type);
    float *want = calloc(3 * m->m->net->h.n_logits, sizeof *want);
    ckpt_append(m, s, 0, 403);
    ckpt_step(s);
    ckpt_append(m, s, 7, 2); /* pending ones too */
    ckpt_append(m, cold, 0, 403);
    ckpt_append(m, cold, 7, 2);
    go_on(m, cold, want, false);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        if (pack_available() || !(ways[w].flags & INFER_SAVE_ZSTD))
            check_way(m, s, &ways[w], want);
    free(want);
    infer_session_release(s);
    infer_session_release(cold);
}

static void test_ways(void **state)
{
    (void)state;
    NEEDS_HASH();
    for (size_t f = 0; f < 2; f++) {
        struct ckpt_model m = ckpt_open(fixtures[f]);
        for (int32_t kv_type = INFER_KV_F16; kv_type <= INFER_KV_MIXED_F32; kv_type++)
            check_ways(&m, kv_type);
        ckpt_close(&m);
    }
}

/* Bytes of the pages that lie in a file itself. */
static uint64_t page_bytes_in(const char *name)
{
    struct kv_file *f;
    uint64_t n = 0;
    const char *path = tempdir_path(name);
    ok(kv_file_open(engine->env, path, strlen(path), &ckpt_read_auto, NULL, &f, &error));
    for (uint32_t i = 0; i < f->n_sections; i++)
        n += f->sections[i].kind == KV_SECTION_PAGES ? f->sections[i].stored : 0;
    kv_file_release(f);
    return n;
}

/* Ten turns, each a delta to the one before; made by a session in memory, by one restored from the file before, or packed in between. */
static void test_chain(void **state)
{
    (void)state;
    NEEDS_HASH();
    for (size_t f = 0; f < 2; f++)
        for (int mode = 0; mode < 3; mode++) {
            struct ckpt_model m = ckpt_open(fixtures[f]);
            infer_session *s = ckpt_session(&m, INFER_KV_F16), *cold = ckpt_session(&m, INFER_KV_F16);
            char name[16] = "", before[16] = "";
            uint64_t two = 0; /* pages of each group */
            for (uint32_t k = 0; k < NET_KV_GROUPS; k++)
                two += 2 * s->kv[k].page_bytes;
            ckpt_append(&m, s, 0, 500);
            ckpt_step(s);
            for (int turn = 0; turn <= 10; turn++) {
                uint32_t flags = mode == 2 && turn % 3 == 1 && pack_available() ? INFER_SAVE_ZSTD : 0;
                snprintf(name, sizeof name, "turn%d", turn);
                ok(ckpt_save(s, name, flags, turn ? before : NULL));
                uint64_t n = page_bytes_in(name);
                assert_true(n > 0 && (turn == 0 || n <= two));
                memcpy(before, name, sizeof name);
                if (mode == 1) {
                    infer_session_release(s);
                    s = ckpt_restored(&m, name);
                }
                ckpt_append(&m, s, (uint64_t)turn, 21);
                ckpt_step(s);
            }
            infer_session *r = ckpt_restored(&m, name);
            assert_int_equal(r->length, 500 + 10 * 21);
            ckpt_append(&m, cold, 0, 500);
            for (int turn = 0; turn <= 10; turn++)
                ckpt_append(&m, cold, (uint64_t)turn, 21);
            ckpt_append(&m, r, 10, 21);
            ckpt_step(cold);
            ckpt_step(r);
            ckpt_same_logits(r, cold);
            ckpt_same_logits(s, cold);
            /* a branch: another end to turn 5, and a whole file of it */
            infer_session *b = ckpt_restored(&m, "turn5");
            ok(infer_session_truncate(b, 520, NULL, &error));
            ckpt_append(&m, b, 30, 100);
            ckpt_step(b);
            ok(ckpt_save(b, "branch", 0, "turn10"));
            ok(ckpt_save(b, "copy", 0, NULL));
            infer_session *x = ckpt_restored(&m, "branch"), *y = ckpt_restored(&m, "copy");
            ckpt_append(&m, x, 1, 5);
            ckpt_append(&m, y, 1, 5);
            ckpt_step(x);
            ckpt_step(y);
            ckpt_same_logits(x, y);
            infer_session *const all[] = {s, cold, r, b, x, y};
            for (int i = 0; i < 6; i++)
                infer_session_release(all[i]);
            ckpt_close(&m);
        }
}

static infer_event next(infer_session *s)
{
    infer_event ev;
    do {
        INFER_INIT(&ev);
        ok(infer_generate_next(s, &ev, NULL, &error));
    } while (ev.kind == INFER_EVENT_PREFILL);
    return ev;
}

/* In the middle of an answer, with sampling, biases and half a character held back. */
static void test_generating(void **state)
{
    (void)state;
    NEEDS_HASH();
    struct ckpt_model m = ckpt_open("llama");
    infer_session *s = ckpt_session(&m, INFER_KV_F16);
    infer_sampling sampling;
    infer_generate_options o;
    INFER_INIT(&sampling);
    INFER_INIT(&o);
    const infer_bias bias[] = {{7, -INFINITY}, {9, 1.5f}};
    sampling.temperature = 2;
    sampling.top_k = 50;
    sampling.repetition_penalty = 1.1f;
    sampling.seed = 5;
    sampling.bias = bias;
    sampling.bias_count = 2;
    sampling.top_logprobs = 3;
    o.max_tokens = 40;
    o.flags = INFER_GENERATE_IGNORE_EOS;
    ok(infer_session_set_sampling(s, &sampling, &error));
    ckpt_append(&m, s, 0, 30);
    ok(infer_generate_begin(s, &o, &error));
    for (int i = 0; i < 40; i++) {
        char name[16];
        snprintf(name, sizeof name, "g%d", i);
        ok(ckpt_save(s, name, 0, NULL));
        infer_session *r = ckpt_restored(&m, name);
        for (int k = i; k <= 40 && k < i + 3; k++) {
            infer_event a = next(s), b = next(r);
            assert_int_equal(a.kind, b.kind);
            assert_int_equal(a.id, b.id);
            assert_int_equal(a.text_len, b.text_len);
            assert_memory_equal(a.text, b.text, a.text_len);
            assert_memory_equal(&a.logprob, &b.logprob, 4);
            assert_int_equal(a.top_count, b.top_count);
            assert_int_equal(a.finish_reason, b.finish_reason);
        }
        infer_session_release(s);
        s = ckpt_restored(&m, name); /* one event further each time */
        (void)next(s);
        infer_session_release(r);
    }
    assert_int_equal(next(s).kind, INFER_EVENT_DONE);
    infer_session_release(s);
    ckpt_close(&m);
}

/* Embedding rows among the elements, in a chain too. */
static void test_rows(void **state)
{
    (void)state;
    NEEDS_HASH();
    struct ckpt_model m = ckpt_open("gemma3");
    uint32_t width = m.m->net->h.n_embd;
    float *rows = calloc(5 * width, sizeof *rows);
    uint64_t keys[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, seed = 3;
    for (uint32_t i = 0; i < 5 * width; i++)
        rows[i] = test_rand_f32(&seed);
    infer_session *s = ckpt_session(&m, INFER_KV_F32);
    ckpt_append(&m, s, 0, 70);
    ok(infer_session_append_rows(s, rows, keys, 3, &error));
    ckpt_append(&m, s, 2, 4);
    ckpt_step(s);
    ok(ckpt_save(s, "r0", 0, NULL));
    ok(infer_session_append_rows(s, rows + 3 * width, keys + 6, 2, &error));
    ckpt_append(&m, s, 0, 3);
    ckpt_step(s);
    ok(ckpt_save(s, "r1", 0, "r0"));
    ok(infer_session_append_rows(s, rows, keys, 2, &error)); /* pending: its rows are needed */
    ok(ckpt_save(s, "r2", 0, "r1"));
    infer_session *r = ckpt_restored(&m, "r2");
    ckpt_step(s);
    ckpt_step(r);
    ckpt_same_logits(s, r);
    assert_memory_equal(s->keys, r->keys, 7 * 16);
    infer_session_release(s);
    infer_session_release(r);
    free(rows);
    ckpt_close(&m);
}

/* Nothing computed, nothing appended; all logits of a step; an approximate session. */
static void test_corners(void **state)
{
    (void)state;
    NEEDS_HASH();
    struct ckpt_model m = ckpt_open("llama");
    infer_session *s = ckpt_session(&m, INFER_KV_INT8), *r;
    infer_step_item it;
    ok(ckpt_save(s, "empty", 0, NULL));
    r = ckpt_restored(&m, "empty");
    assert_int_equal(r->length, 0);
    ckpt_append(&m, r, 0, 70);
    ckpt_append(&m, s, 0, 70);
    ok(ckpt_save(s, "pending", 0, "empty"));
    infer_session_release(r);
    r = ckpt_restored(&m, "pending");
    assert_int_equal(r->computed, 0);
    INFER_INIT(&it);
    it.logits = INFER_ROWS_ALL;
    it.session = s;
    ok(infer_step(&it, 1, NULL, &error));
    it.session = r;
    ok(infer_step(&it, 1, NULL, &error));
    ok(ckpt_save(r, "logits", pack_available() ? INFER_SAVE_ZSTD : 0, "pending"));
    infer_session_release(r);
    r = ckpt_restored(&m, "logits");
    assert_int_equal(r->n_logits_rows, 70);
    for (uint64_t i = 0; i < 70; i++) {
        const float *x, *y;
        ok(infer_session_logits(s, i, &x, NULL, &error));
        ok(infer_session_logits(r, i, &y, NULL, &error));
        assert_memory_equal(x, y, m.g.n_vocab * sizeof *x);
    }
    session_mark_approximate(r, 60);
    ok(ckpt_save(r, "mark", 0, NULL));
    infer_session_release(r);
    r = ckpt_restored(&m, "mark");
    assert_int_equal(r->approximate_from, 60);
    infer_session_release(r);
    infer_session_release(s);
    ckpt_close(&m);
}

/* The file of a page that had other elements before does not tell of them, and the same state gives the same bytes. */
static void test_no_leftovers(void **state)
{
    (void)state;
    NEEDS_HASH();
    for (int32_t kv_type = INFER_KV_F16; kv_type <= INFER_KV_MIXED_F32; kv_type++) {
        struct ckpt_model m = ckpt_open("gemma3");
        infer_session *a = ckpt_session(&m, kv_type), *b = ckpt_session(&m, kv_type);
        size_t n, k;
        ckpt_append(&m, a, 0, 30);
        ckpt_append(&m, b, 0, 30);
        ckpt_append(&m, b, 9, 30); /* and more, which goes again */
        ckpt_step(a);
        ckpt_step(b);
        ok(infer_session_truncate(b, 29, NULL, &error));
        ckpt_append(&m, b, 29, 1);
        ckpt_step(b);
        ok(ckpt_save(a, "a", 0, NULL));
        ok(ckpt_save(b, "b", 0, NULL));
        char *x = test_read_file(tempdir_path("a"), &n), *y = test_read_file(tempdir_path("b"), &k);
        assert_int_equal(n, k);
        assert_memory_equal(x, y, n);
        free(x);
        free(y);
        infer_session_release(a);
        infer_session_release(b);
        ckpt_close(&m);
    }
}

static void test_fingerprints(void **state)
{
    (void)state;
    NEEDS_HASH();
    uint8_t f[4][32];
    struct ckpt_model a = ckpt_open("llama"), b = ckpt_open("llama-bias");
    for (int kind = INFER_FINGERPRINT_QUICK; kind <= INFER_FINGERPRINT_FULL; kind++) {
        ok(infer_model_fingerprint(a.m, kind, f[kind - 1], NULL, &error));
        ok(infer_model_fingerprint(b.m, kind, f[kind + 1], NULL, &error));
        assert_memory_not_equal(f[kind - 1], f[kind + 1], 32);
    }
    assert_memory_not_equal(f[0], f[1], 32);
    assert_int_equal(infer_model_fingerprint(a.m, 3, f[0], NULL, &error), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_model_fingerprint(NULL, 1, f[0], NULL, &error), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_model_fingerprint(a.m, 1, NULL, NULL, &error), INFER_ERROR_ARGUMENT);
    infer_cancel *cancel;
    ok(infer_cancel_create(&cancel, &error));
    infer_cancel_set(cancel);
    assert_int_equal(infer_model_fingerprint(a.m, 2, f[0], cancel, &error), INFER_ERROR_CANCELLED);
    infer_cancel_release(cancel);
    ckpt_close(&a);
    ckpt_close(&b);
}

static uint64_t cached_nodes(infer_engine *e)
{
    infer_cache_stats stats;
    INFER_INIT(&stats);
    ok(infer_engine_cache_stats(e, &stats, &error));
    return stats.nodes;
}

/* Once nothing restored from a file lives, its owner may overwrite it: nothing of it may be in the cache then. */
static void check_pages_of_files(const struct ckpt_model *m, const infer_session *s, infer_engine *e, infer_model *model)
{
    infer_checkpoint *c;
    infer_session *r;
    ok(infer_engine_cache_clear(e, &error));
    ok(ckpt_save(s, "cached", 0, NULL));
    ok(infer_checkpoint_open(model, tempdir_path("cached"), INFER_ZSTR, NULL, NULL, &c, &error));
    ok(infer_checkpoint_session(c, &r, &error));
    infer_checkpoint_release(c);
    ckpt_append(m, r, 3, 100);
    ckpt_step(r);
    assert_int_equal(cached_nodes(e), 0);
    infer_session_release(r);
    assert_int_equal(cached_nodes(e), 0);
}

/* With a prefix cache: a file that is opened and closed, whole or not at all, leaves nothing there, neither what is not whole nor anything without its
 * salt; what was restored from it leaves behind under its session's own salt. */
static void test_prefix_cache(void **state)
{
    (void)state;
    NEEDS_HASH();
    struct test_alloc t = {0};
    infer_allocator a = test_infer_allocator(&t);
    infer_engine_options o;
    infer_session_options so;
    infer_engine *e;
    infer_model *model;
    infer_session *s, *plain, *salted;
    infer_checkpoint *c = NULL;
    struct ckpt_model m = ckpt_open("llama");
    s = ckpt_session(&m, INFER_KV_F16);
    ckpt_append(&m, s, 0, 200);
    float row[64] = {1};
    uint64_t key[2] = {1, 2};
    assert_true(m.m->net->h.n_embd <= 64);
    ok(infer_session_append_rows(s, row, key, 1, &error));
    ckpt_step(s);
    ok(ckpt_save(s, "cached", INFER_SAVE_ZSTD * pack_available(), NULL));
    INFER_INIT(&o);
    o.threads = 1;
    o.allocator = &a;
    o.cache_bytes = 1 << 22;
    ok(infer_engine_create(&o, &e, &error));
    ok(infer_model_open_path(e, fixture_path("llama"), &model, &error));
    uint64_t failures = 0;
    infer_status st = INFER_ERROR_NO_MEMORY;
    for (uint64_t k = 1; st != INFER_OK; k++) {
        t.fail_at = t.calls + k;
        st = infer_checkpoint_open(model, tempdir_path("cached"), INFER_ZSTR, NULL, NULL, &c, &error);
        t.fail_at = 0;
        failures += st != INFER_OK;
        assert_true(st == INFER_OK || st == INFER_ERROR_NO_MEMORY);
        assert_int_equal(cached_nodes(e), 0);
    }
    assert_true(failures > 10);
    INFER_INIT(&so);
    so.n_ctx = 2000;
    so.salt = "tenant";
    so.salt_len = 6;
    ok(infer_session_create(model, &so, &salted, &error));
    ok(infer_session_restore(salted, c, &error));
    infer_checkpoint_release(c);
    assert_int_equal(cached_nodes(e), 0);
    infer_session_release(salted);
    assert_int_equal(cached_nodes(e), pack_available()); /* unpacked pages are in memory */
    so.salt_len = 0;
    so.salt = NULL;
    ok(infer_session_create(model, &so, &plain, &error));
    ckpt_append(&m, plain, 0, 200);
    ckpt_step(plain);
    infer_cache_report report;
    INFER_INIT(&report);
    ok(infer_session_cache_report(plain, &report, &error));
    assert_int_equal(report.reused, 0);
    infer_session_release(plain);
    check_pages_of_files(&m, s, e, model);
    infer_model_release(model);
    infer_engine_release(e);
    assert_int_equal(t.live, 0);
    infer_session_release(s);
    ckpt_close(&m);
}

/* A delta that took the name of a file it needs would be lost, and so would the files between. Two names in turn do that. */
static void test_name_of_an_ancestor(void **state)
{
    (void)state;
    NEEDS_HASH();
    struct ckpt_model m = ckpt_open("llama");
    infer_session *s = ckpt_session(&m, INFER_KV_F16);
    ckpt_append(&m, s, 0, 40);
    ckpt_step(s);
    ok(ckpt_save(s, "a", 0, NULL));
    ckpt_append(&m, s, 40, 40);
    ckpt_step(s);
    ok(ckpt_save(s, "b", 0, "a"));
    ok(ckpt_save(s, "c", 0, "b"));
    assert_int_equal(ckpt_save(s, "a", 0, "b"), INFER_ERROR_ARGUMENT);
    assert_memory_equal(error.name, "parent", 7);
    assert_int_equal(ckpt_save(s, "a", INFER_SAVE_ZSTD, "c"), INFER_ERROR_ARGUMENT);
    infer_session *r = ckpt_restored(&m, "c"); /* nothing was touched */
    ckpt_same_logits(s, r);
    infer_session_release(r);
    ok(ckpt_save(s, "c", 0, "a")); /* names that nothing needs may be replaced */
    r = ckpt_restored(&m, "c");
    ckpt_same_logits(s, r);
    infer_session_release(r);
    infer_session_release(s);
    ckpt_close(&m);
}

/* The same by other names: symbolic links, in one or more steps. A second hard link is another name for good. */
static void test_links_to_ancestors(void **state)
{
    (void)state;
    NEEDS_HASH();
    struct ckpt_model m = ckpt_open("llama");
    infer_session *s = ckpt_session(&m, INFER_KV_F16);
    ckpt_append(&m, s, 0, 70);
    ckpt_step(s);
    ok(ckpt_save(s, "a", 0, NULL));
    ckpt_append(&m, s, 70, 40);
    ckpt_step(s);
    assert_int_equal(symlink("a", tempdir_path("to-a")), 0);
    assert_int_equal(symlink(tempdir_path("to-a"), tempdir_path("to-to-a")), 0);
    assert_int_equal(symlink("./a", tempdir_path("to-a-otherwise")), 0);
    assert_int_equal(symlink("loop", tempdir_path("loop")), 0);
    static const char *const refused[][2] = {{"a", "to-a"}, {"a", "to-to-a"}, {"to-a", "to-to-a"}, {"a", "to-a-otherwise"}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_equal(ckpt_save(s, refused[i][0], 0, refused[i][1]), INFER_ERROR_ARGUMENT);
        assert_string_equal(error.name, "parent");
    }
    assert_int_not_equal(ckpt_save(s, "a", 0, "loop"), INFER_OK);
    ok(ckpt_save(s, "b", 0, "to-a")); /* another name: fine */
    assert_int_equal(ckpt_save(s, "a", 0, "b"), INFER_ERROR_ARGUMENT); /* b's parent is the link */
    infer_session *r = ckpt_restored(&m, "b");
    ckpt_same_logits(s, r);
    infer_session_release(r);
    assert_int_equal(link(tempdir_path("a"), tempdir_path("hard")), 0);
    ok(ckpt_save(s, "a", 0, "hard"));
    r = ckpt_restored(&m, "a");
    ckpt_same_logits(s, r);
    infer_session_release(r);
    infer_session_release(s);
    ckpt_close(&m);
}

static void test_arguments(void **state)
{
    (void)state;
    NEEDS_HASH();
    struct ckpt_model m = ckpt_open("llama");
    infer_session *s = ckpt_session(&m, INFER_KV_F16);
    infer_checkpoint *c, *out = NULL;
    infer_save_options so;
    infer_load_options lo;
    infer_cancel *cancel;
    ckpt_append(&m, s, 0, 10);
    ckpt_step(s);
    ok(infer_checkpoint_create(s, &c, &error));
    INFER_INIT(&so);
    INFER_INIT(&lo);
    const char *p = tempdir_path("x");
    assert_int_equal(infer_checkpoint_save(NULL, p, INFER_ZSTR, NULL, NULL, &error), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_checkpoint_save(c, NULL, 0, NULL, NULL, &error), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_checkpoint_save(c, "", 0, NULL, NULL, &error), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_checkpoint_save(c, "a\0b", 3, NULL, NULL, &error), INFER_ERROR_ARGUMENT);
    so.flags = 4;
    assert_int_equal(infer_checkpoint_save(c, p, INFER_ZSTR, &so, NULL, &error), INFER_ERROR_ARGUMENT);
    so.flags = 0;
    so.level = 20;
    assert_int_equal(infer_checkpoint_save(c, p, INFER_ZSTR, &so, NULL, &error), INFER_ERROR_ARGUMENT);
    so.level = 0;
    so.parent = p;
    so.parent_len = INFER_ZSTR;
    assert_int_equal(infer_checkpoint_save(c, p, INFER_ZSTR, &so, NULL, &error), INFER_ERROR_ARGUMENT);
    so.parent = "/nowhere/parent";
    assert_int_equal(infer_checkpoint_save(c, p, INFER_ZSTR, &so, NULL, &error), INFER_ERROR_NOT_FOUND);
    assert_string_equal(error.file, "/nowhere/parent");
    ok(infer_checkpoint_save(c, p, INFER_ZSTR, NULL, NULL, &error));
    ok(infer_checkpoint_clone_file(engine, p, INFER_ZSTR, tempdir_path("y"), INFER_ZSTR, NULL, &error));
    assert_int_equal(infer_checkpoint_clone_file(NULL, NULL, 0, p, INFER_ZSTR, NULL, &error), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_checkpoint_clone_file(NULL, p, INFER_ZSTR, NULL, 0, NULL, &error), INFER_ERROR_ARGUMENT);
    infer_session *r = ckpt_restored(&m, "y");
    ckpt_same_logits(s, r);
    infer_session_release(r);
    assert_int_equal(infer_checkpoint_open(NULL, p, INFER_ZSTR, NULL, NULL, &out, &error), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_checkpoint_open(m.m, NULL, 0, NULL, NULL, &out, &error), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_checkpoint_open(m.m, p, INFER_ZSTR, NULL, NULL, NULL, &error), INFER_ERROR_ARGUMENT);
    lo.verify = 2;
    assert_int_equal(infer_checkpoint_open(m.m, p, INFER_ZSTR, &lo, NULL, &out, &error), INFER_ERROR_ARGUMENT);
    lo.verify = 0;
    lo.map = 3;
    assert_int_equal(infer_checkpoint_open(m.m, p, INFER_ZSTR, &lo, NULL, &out, &error), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_checkpoint_open(m.m, tempdir_path("none"), INFER_ZSTR, NULL, NULL, &out, &error), INFER_ERROR_NOT_FOUND);
    assert_string_equal(error.file, tempdir_path("none"));
    ok(infer_cancel_create(&cancel, &error));
    infer_cancel_set(cancel);
    assert_int_equal(infer_checkpoint_save(c, tempdir_path("z"), INFER_ZSTR, NULL, cancel, &error), INFER_ERROR_CANCELLED);
    assert_int_equal(tempdir_size("z"), -1);
    lo.map = INFER_MAP_READ;
    assert_int_equal(infer_checkpoint_open(m.m, p, INFER_ZSTR, &lo, cancel, &out, &error), INFER_ERROR_CANCELLED);
    infer_cancel_release(cancel);
    assert_null(out);
    infer_checkpoint_release(c);
    infer_session_release(s);
    ckpt_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ways),    cmocka_unit_test(test_chain),        cmocka_unit_test(test_generating),
        cmocka_unit_test(test_rows),    cmocka_unit_test(test_corners),      cmocka_unit_test(test_no_leftovers),
        cmocka_unit_test(test_name_of_an_ancestor), cmocka_unit_test(test_links_to_ancestors),
        cmocka_unit_test(test_prefix_cache),
        cmocka_unit_test(test_fingerprints), cmocka_unit_test(test_arguments),
    };
    return cmocka_run_group_tests_name("checkpoint_file", tests, ckpt_setup, ckpt_teardown);
}
