/* What checkpoint files cost: bench_checkpoint MODEL [ELEMENTS [FOLDER]]. Prefills that many elements (2,000), saves, then opens, restores and computes
 * one token more, mapped, read, packed, with pages verified at first use or at load; and opens a file of 2 GiB of state (made of nothing: its
 * session says that it is computed). Times are the least of several rounds, with the files in the page cache. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/checkpoint_file.h"

static infer_error err;

static void ok(infer_status st)
{
    if (st == INFER_OK)
        return;
    fprintf(stderr, "%s: %s %s\n", infer_status_name(st), err.text, err.file);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void append(infer_session *s, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        int32_t id = (int32_t)(s->length * 7919 % session_vocab(s));
        ok(infer_session_append(s, &id, 1, &err));
    }
}

static void step(infer_session *s)
{
    infer_step_item it;
    INFER_INIT(&it);
    it.session = s;
    ok(infer_step(&it, 1, NULL, &err));
}

static infer_session *session_of(infer_model *m, uint32_t n_ctx)
{
    infer_session *s;
    infer_session_options o;
    INFER_INIT(&o);
    o.n_ctx = n_ctx;
    ok(infer_session_create(m, &o, &s, &err));
    return s;
}

static void save(const infer_session *s, const char *path, uint32_t flags)
{
    infer_checkpoint *c;
    infer_save_options o;
    struct stat st;
    INFER_INIT(&o);
    o.flags = flags;
    ok(infer_checkpoint_create(s, &c, &err));
    double t = now();
    ok(infer_checkpoint_save(c, path, INFER_ZSTR, &o, NULL, &err));
    t = now() - t;
    stat(path, &st);
    printf("%-34s %9.2f ms, %.1f MiB\n", flags & INFER_SAVE_ZSTD ? "save, zstd" : "save, synced", t, (double)st.st_size / 1048576);
    infer_checkpoint_release(c);
}

static double least(double a, double b)
{
    return a && a < b ? a : b;
}

/* Opens, restores, computes one token; prints the least of each. */
static void restore(infer_model *m, const char *path, const char *what, int32_t map, int32_t verify, int rounds, int steps)
{
    double opening = 0, forking = 0, first = 0, total = 0;
    for (int i = 0; i < rounds; i++) {
        infer_load_options o;
        infer_checkpoint *c;
        infer_session *s;
        INFER_INIT(&o);
        o.map = map;
        o.verify = verify;
        double a = now();
        ok(infer_checkpoint_open(m, path, INFER_ZSTR, &o, NULL, &c, &err));
        double b = now();
        ok(infer_checkpoint_session(c, &s, &err));
        double d = now(), e = d;
        if (steps) {
            append(s, 1);
            step(s);
            e = now();
        }
        opening = least(opening, b - a);
        forking = least(forking, d - b);
        first = least(first, e - d);
        total = least(total, e - a);
        infer_session_release(s);
        infer_checkpoint_release(c);
    }
    printf("%-34s %9.2f ms = open %.2f + session %.3f + token %.2f\n", what, total, opening, forking, first);
}

/* A session that claims 2 GiB of computed state. */
static void huge(infer_model *m, const char *path)
{
    infer_session *s = session_of(m, 1u << 24);
    uint64_t page = 0, n;
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++)
        page += s->kv[g].page_bytes;
    n = ((uint64_t)2 << 30) / page * 64;
    append(s, n);
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++)
        ok(kv_seq_reserve(&s->kv[g], m->engine->kv, m->engine->env, m->engine->dev, 0, n, &err));
    s->computed = n;
    printf("\n%llu elements, pages of %.2f MiB\n", (unsigned long long)n, (double)page / 1048576);
    save(s, path, 0);
    infer_session_release(s);
    restore(m, path, "2 GiB mapped", INFER_MAP_MMAP, INFER_VERIFY_FIRST_USE, 10, 0);
    restore(m, path, "2 GiB mapped, verified at load", INFER_MAP_MMAP, INFER_VERIFY_LOAD, 3, 0);
    unlink(path);
}

int main(int argc, char **argv)
{
    infer_engine *engine;
    infer_model *m;
    infer_engine_options o;
    char path[1024];
    if (argc < 2)
        return fprintf(stderr, "bench_checkpoint MODEL [ELEMENTS [FOLDER]]\n"), 2;
    uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 2000;
    snprintf(path, sizeof path, "%s/bench-checkpoint.tmp", argc > 3 ? argv[3] : "/tmp");
    INFER_INIT(&err);
    INFER_INIT(&o);
    ok(infer_engine_create(&o, &engine, &err));
    ok(infer_model_open_path(engine, argv[1], &m, &err));
    infer_session *s = session_of(m, 0);
    if (n) {
        append(s, 8);
        step(s); /* warm */
        append(s, n - 8);
        double t = now(), decode = 0;
        step(s);
        double prefill = now() - t;
        for (int i = 0; i < 5; i++) {
            infer_session *f;
            ok(infer_session_fork(s, &f, &err));
            append(f, 1);
            t = now();
            step(f);
            decode = least(decode, now() - t);
            infer_session_release(f);
        }
        printf("prefill of %llu elements %.0f ms, a warm decode step %.2f ms\n", (unsigned long long)n, prefill, decode);
        save(s, path, 0);
        restore(m, path, "mapped, verified at first use", INFER_MAP_MMAP, INFER_VERIFY_FIRST_USE, 5, 1);
        restore(m, path, "mapped, verified at load", INFER_MAP_MMAP, INFER_VERIFY_LOAD, 5, 1);
        restore(m, path, "read, verified at load", INFER_MAP_READ, INFER_VERIFY_LOAD, 5, 1);
        if (pack_available()) {
            save(s, path, INFER_SAVE_ZSTD);
            restore(m, path, "zstd", INFER_MAP_MMAP, INFER_VERIFY_LOAD, 3, 1);
        }
    }
    infer_session_release(s);
    huge(m, path);
    infer_model_release(m);
    infer_engine_release(engine);
    return 0;
}
