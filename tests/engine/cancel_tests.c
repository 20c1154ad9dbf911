#include "cancel_tests.h"

#include <stdlib.h>
#include <string.h>

#include "base/os_file.h"

struct moments moments;

void moments_pass(void)
{
    moments.n++;
    if (moments.at && moments.n == moments.at)
        infer_cancel_set(moments.flag);
    if (moments.at && moments.clears && moments.n == moments.at + 1)
        infer_cancel_clear(moments.flag);
}

void moments_from(uint64_t at, bool clears)
{
    infer_cancel_clear(moments.flag);
    moments.n = 0;
    moments.at = at;
    moments.clears = clears;
}

/* ---- What the library calls */

static struct test_alloc counted;
static infer_allocator counting;
static int64_t open_files;
static struct os_io io;

static void *get(void *user, uint64_t size, uint64_t align)
{
    moments_pass();
    return counting.alloc(user, size, align);
}

static bool stop(void *user)
{
    moments_pass();
    return turns_stop(&((infer_engine *)user)->step_lock);
}

static infer_status io_open(const char *path, int *fd, int *os_error)
{
    moments_pass();
    infer_status st = os_io_default.open(path, fd, os_error);
    open_files += st == INFER_OK;
    return st;
}
static infer_status io_dup(int fd, int *copy, int *os_error)
{
    infer_status st = os_io_default.dup(fd, copy, os_error);
    open_files += st == INFER_OK;
    return st;
}
static void io_close(int fd)
{
    open_files--;
    os_io_default.close(fd);
}
static infer_status io_read(int fd, uint64_t offset, void *dst, size_t n, int *os_error)
{
    moments_pass();
    return os_io_default.read(fd, offset, dst, n, os_error);
}
static infer_status io_create(const char *path, int *fd, int *os_error)
{
    moments_pass();
    infer_status st = os_io_default.create(path, fd, os_error);
    open_files += st == INFER_OK;
    return st;
}
static infer_status io_write(int fd, uint64_t offset, const void *src, size_t n, int *os_error)
{
    moments_pass();
    return os_io_default.write(fd, offset, src, n, os_error);
}
static infer_status io_sync(int fd, int *os_error)
{
    (void)fd;
    (void)os_error;
    moments_pass();
    return INFER_OK; /* a real one would make the test slow */
}
static infer_status io_sync_dir(const char *dir, int *os_error)
{
    (void)dir;
    (void)os_error;
    return INFER_OK;
}
static infer_status io_rename(int fd, const char *from, const char *to, int *os_error)
{
    open_files -= fd >= 0;
    return os_io_default.rename(fd, from, to, os_error);
}
static infer_status io_clone(int from, int to, uint64_t *done, uint64_t size, int *os_error)
{
    (void)from;
    (void)to;
    (void)done;
    (void)size;
    moments_pass();
    *os_error = 0;
    return INFER_ERROR_UNSUPPORTED;
}
static void io_write_out(int fd, uint64_t offset, uint64_t n, bool wait)
{
    (void)fd;
    (void)offset;
    (void)n;
    (void)wait;
    moments_pass();
}

struct held cancel_held(void)
{
    return (struct held){counted.live, open_files};
}

/* ---- The engine */

static infer_engine *live[8];
static uint32_t n_live;

infer_engine *watched_engine(void)
{
    infer_engine *e;
    infer_engine_options o;
    infer_allocator a = counting;
    INFER_INIT(&o);
    a.alloc = get;
    o.threads = 1;
    o.allocator = &a;
    o.cache_bytes = 64 << 20;
    o.cache_dir = tempdir_path("");
    o.cache_dir_len = INFER_ZSTR;
    ok(infer_engine_create(&o, &e, &error));
    e->dev->ops->watch(e->dev, stop, e);
    ((struct env *)(uintptr_t)e->env)->io = &io;
    live[n_live++] = e;
    return e;
}

int cancel_setup(void **state)
{
    (void)state;
    INFER_INIT(&error);
    ok(infer_cancel_create(&moments.flag, &error));
    counting = test_infer_allocator(&counted);
    io = os_io_default;
    io.open = io_open;
    io.dup = io_dup;
    io.close = io_close;
    io.read = io_read;
    io.create = io_create;
    io.write = io_write;
    io.sync = io_sync;
    io.sync_dir = io_sync_dir;
    io.rename = io_rename;
    io.clone = io_clone;
    io.write_out = io_write_out;
    tempdir_make();
    return 0;
}

int cancel_teardown(void **state)
{
    (void)state;
    while (n_live)
        infer_engine_release(live[--n_live]);
    infer_cancel_release(moments.flag);
    tempdir_remove();
    return counted.live != 0 || open_files != 0;
}

/* ---- Sessions */

const int32_t *cancel_ids(void)
{
    static int32_t ids[CANCEL_IDS];
    uint64_t seed = 97;
    for (int i = 0; i < CANCEL_IDS; i++)
        ids[i] = (int32_t)(test_rand(&seed) % 128);
    return ids;
}

infer_session *cancel_session(infer_model *m, uint32_t n_ctx, uint64_t n_ids)
{
    infer_session *s;
    infer_session_options o;
    INFER_INIT(&o);
    o.n_ctx = n_ctx;
    o.cache_flags = INFER_CACHE_NO_LOOKUP | INFER_CACHE_NO_INSERT;
    ok(infer_session_create(m, &o, &s, &error));
    ok(infer_session_append(s, cancel_ids(), n_ids, &error));
    return s;
}

infer_session_info cancel_info(const infer_session *s)
{
    infer_session_info i;
    INFER_INIT(&i);
    ok(infer_session_get_info(s, &i, &error));
    return i;
}

infer_status cancel_step(infer_session *s, infer_cancel *cancel)
{
    infer_step_item it;
    INFER_INIT(&it);
    it.session = s;
    return infer_step(&it, 1, cancel, &error);
}

/* Logits of the last of the first n ids; kept, for they are asked for again and again. */
static const float *reference(infer_model *m, const int32_t *ids, uint64_t n)
{
    static struct {
        infer_model *m;
        uint64_t n;
        float *logits;
        int32_t ids[CANCEL_IDS];
    } kept[8];
    static uint32_t next;
    const float *row;
    infer_session *s;
    size_t bytes = m->net->h.n_logits * sizeof *row;
    for (int i = 0; i < 8; i++)
        if (kept[i].m == m && kept[i].n == n && !memcmp(kept[i].ids, ids, n * sizeof *ids))
            return kept[i].logits;
    uint32_t k = next++ % 8;
    s = cancel_session(m, CANCEL_IDS, 0);
    ok(infer_session_append(s, ids, n, &error));
    ok(cancel_step(s, NULL));
    ok(infer_session_logits(s, 0, &row, NULL, &error));
    free(kept[k].logits);
    kept[k].logits = malloc(bytes);
    assert_non_null(kept[k].logits);
    memcpy(kept[k].logits, row, bytes);
    memcpy(kept[k].ids, ids, n * sizeof *ids);
    kept[k].m = m;
    kept[k].n = n;
    infer_session_release(s);
    return kept[k].logits;
}

void cancel_same(infer_session *s)
{
    int32_t ids[CANCEL_IDS];
    uint64_t n = cancel_info(s).length;
    const float *row;
    ok(cancel_step(s, NULL));
    ok(infer_session_logits(s, 0, &row, NULL, &error));
    ok(infer_session_tokens(s, 0, n, ids, &error));
    if (memcmp(row, reference(s->model, ids, n), s->model->net->h.n_logits * sizeof *row))
        fail_msg("logits have other bits");
}

/* ---- The loop */

static infer_status once(const struct scene *s, uint64_t at, bool clears, uint64_t *moments_of_call)
{
    s->begin();
    moments_from(at, clears);
    infer_status st = s->call(moments.flag);
    *moments_of_call = moments.n;
    moments_from(0, false);
    if (st != INFER_OK && st != INFER_ERROR_CANCELLED)
        fail_msg("%s, moment %llu: %s: %s", s->name, (unsigned long long)at, infer_status_name(st), error.text);
    s->check(st);
    s->end();
    return st;
}

void run_scene(const struct scene *s)
{
    uint64_t all, n, cancelled = 0, worst = 0;
    for (int i = 0; i < 2; i++) /* memory of the engine's own grows once */
        assert_int_equal(once(s, 0, false, &all), INFER_OK);
    int64_t blocks = counted.live, files = open_files;
    int temporary = tempdir_count(".infer-");
    for (uint64_t at = 1; at <= all; at += s->every ? s->every : 1)
        for (int clears = 0; clears < 2; clears++) {
            infer_status st = once(s, at, clears, &n);
            uint64_t after = n - at;
            if (!clears && after > worst)
                worst = after;
            cancelled += st == INFER_ERROR_CANCELLED;
            if (!clears && after > s->after)
                fail_msg("%s: %llu moments from the flag, set at number %llu of %llu, to the end", s->name, (unsigned long long)after,
                         (unsigned long long)at, (unsigned long long)all);
            if (counted.live != blocks || open_files != files || tempdir_count(".infer-") != temporary)
                fail_msg("%s, moment %llu: blocks %lld, files %lld too many; temporary files: %d", s->name, (unsigned long long)at,
                         (long long)(counted.live - blocks), (long long)(open_files - files), tempdir_count(".infer-"));
        }
    print_message("%-24s %6llu moments, %6llu calls cancelled, at most %llu moments after\n", s->name, (unsigned long long)all,
                  (unsigned long long)cancelled, (unsigned long long)worst);
    assert_true(all >= s->least);
    assert_true(cancelled > 0);
}
