/* Scenarios: checkpoints, their files, stores, the prefix cache, shift and graft. */
#include "scenes.h"

#include <stdio.h>
#include <string.h>

#include "base/pack.h"

/* ---- checkpoints */

static infer_status checkpoint(struct world *w, int slot)
{
    infer_checkpoint_info i;
    infer_checkpoint_release(w->c[slot]);
    w->c[slot] = NULL;
    infer_status st = oom_made(infer_checkpoint_create(w->s[0], &w->c[slot], &w->err), w->c[slot]);
    if (st != INFER_OK)
        return st;
    INFER_INIT(&i);
    assert_int_equal(infer_checkpoint_get_info(w->c[slot], &i, NULL), INFER_OK);
    oom_add_u64(w, i.length);
    oom_add_u64(w, i.computed);
    oom_add_u64(w, (uint64_t)i.generating);
    return st;
}

static infer_status restore(struct world *w, int slot)
{
    return infer_session_restore(w->s[0], w->c[slot], &w->err);
}

static infer_status session_from(struct world *w, int slot)
{
    infer_session_release(w->s[1]);
    w->s[1] = NULL;
    return oom_made(infer_checkpoint_session(w->c[slot], &w->s[1], &w->err), w->s[1]);
}

static infer_status set_sampling(struct world *w, int slot)
{
    infer_sampling o;
    const infer_bias bias[] = {{5, 0.25f}, {9, -1}};
    INFER_INIT(&o);
    o.temperature = 0.9f;
    o.bias = bias;
    o.bias_count = 2;
    o.seed = 4;
    o.top_logprobs = 2;
    return infer_session_set_sampling(w->s[slot], &o, &w->err);
}

static infer_status begin(struct world *w, int max_tokens)
{
    infer_generate_options o;
    INFER_INIT(&o);
    o.max_tokens = (uint64_t)max_tokens;
    o.flags = INFER_GENERATE_IGNORE_EOS;
    return infer_generate_begin(w->s[0], &o, &w->err);
}

static infer_status next(struct world *w, int slot)
{
    infer_event ev;
    INFER_INIT(&ev);
    infer_status st = infer_generate_next(w->s[slot], &ev, NULL, &w->err);
    if (st == INFER_OK) {
        oom_add_u64(w, (uint64_t)ev.kind);
        oom_add_u64(w, (uint64_t)ev.id);
        oom_add(w, ev.text, ev.text_len);
    }
    return st;
}

/* ---- files */

static uint64_t hash_of(const char *name)
{
    static char data[1 << 20];
    uint64_t h = 0xcbf29ce484222325u;
    FILE *f = fopen(oom_path(name), "rb");
    if (!f)
        return 0;
    size_t n = fread(data, 1, sizeof data, f);
    assert_true(n > 0 && n < sizeof data);
    fclose(f);
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)data[i]) * 0x100000001b3u;
    return h;
}

enum { SAVE_WHOLE, SAVE_DELTA, SAVE_PACKED, SAVE_FULL_MODEL, SAVES };
static const char *const names[SAVES] = {"whole", "delta", "packed", "full"};

/* Whatever fails: the old file is whole, or the new one is. */
static infer_status save(struct world *w, int how)
{
    infer_save_options o;
    INFER_INIT(&o);
    o.flags = how == SAVE_PACKED && pack_available() ? INFER_SAVE_ZSTD : how == SAVE_FULL_MODEL ? INFER_SAVE_FULL_MODEL : 0;
    o.parent = how == SAVE_DELTA ? oom_path(names[SAVE_WHOLE]) : NULL;
    o.parent_len = how == SAVE_DELTA ? INFER_ZSTR : 0;
    w->seam->pause(true);
    uint64_t before = hash_of(names[how]);
    w->seam->pause(false);
    infer_status st = infer_checkpoint_save(w->c[how == SAVE_DELTA], oom_path(names[how]), INFER_ZSTR, &o, w->cancel, &w->err);
    w->seam->pause(true);
    if (st != INFER_OK && hash_of(names[how]) != before) {
        /* it has been renamed, and only the folder could not be synced: then the new file is whole, and what opening says counts */
        infer_checkpoint *c = NULL;
        infer_error e;
        INFER_INIT(&e);
        w->seam->pause(true);
        infer_status opened = infer_checkpoint_open(w->model, oom_path(names[how]), INFER_ZSTR, NULL, NULL, &c, &e);
        if (opened != INFER_OK)
            fail_msg("a failed save left a file that does not open: %s", e.text);
        infer_checkpoint_release(c);
    }
    w->seam->pause(false);
    return st;
}

static infer_status open_saved(struct world *w, int how)
{
    infer_load_options o;
    INFER_INIT(&o);
    o.map = how % 2 ? INFER_MAP_READ : INFER_MAP_AUTO;
    o.verify = how == SAVE_FULL_MODEL ? INFER_VERIFY_LOAD : INFER_VERIFY_FIRST_USE;
    infer_checkpoint_release(w->c[2]);
    w->c[2] = NULL;
    return oom_made(infer_checkpoint_open(w->model, oom_path(names[how]), INFER_ZSTR, &o, w->cancel, &w->c[2], &w->err), w->c[2]);
}

static infer_status clone_file(struct world *w, int arg)
{
    (void)arg;
    infer_status st = infer_checkpoint_clone_file(w->engine, oom_path("whole"), INFER_ZSTR, oom_path("clone"), INFER_ZSTR, NULL, &w->err);
    if (st == INFER_OK) {
        w->seam->pause(true);
        oom_add_u64(w, hash_of("clone") == hash_of("whole"));
        w->seam->pause(false);
    }
    return st;
}

static infer_status fingerprint(struct world *w, int kind)
{
    uint8_t f[32];
    infer_status st = infer_model_fingerprint(w->model, kind, f, NULL, &w->err);
    if (st == INFER_OK)
        oom_add(w, f, sizeof f);
    return st;
}

/* ---- stores. A step that failed when its work was done already (the folder could not be synced) may find it done. */

static infer_status open_store(struct world *w, int directory)
{
    infer_store_options o;
    INFER_INIT(&o);
    o.max_count = 16;
    return oom_made(infer_store_open(w->engine, directory ? oom_path("store") : NULL, directory ? INFER_ZSTR : 0, &o, &w->store, &w->err), w->store);
}

static infer_status unless_done(const struct world *w, infer_status st)
{
    return w->late && (st == INFER_ERROR_EXISTS || st == INFER_ERROR_NOT_FOUND) ? INFER_OK : st;
}

static const char *const entries[] = {"one", "two words", "z\xc3\xa4", "four"};

static infer_status put(struct world *w, int which)
{
    return unless_done(w, infer_store_put(w->store, entries[which], INFER_ZSTR, w->c[which % 2], 0, w->cancel, &w->err));
}

static infer_status put_again(struct world *w, int which)
{
    return infer_store_put(w->store, entries[which], INFER_ZSTR, w->c[0], INFER_STORE_REPLACE, w->cancel, &w->err);
}

static infer_status branch(struct world *w, int to)
{
    return unless_done(w, infer_store_branch(w->store, entries[0], INFER_ZSTR, entries[to], INFER_ZSTR, 0, &w->err));
}

static infer_status rename_entry(struct world *w, int to)
{
    infer_status st = infer_store_rename(w->store, entries[1], INFER_ZSTR, entries[to], INFER_ZSTR, 0, &w->err);
    if (w->late && st == INFER_ERROR_EXISTS) /* it got both names */
        st = infer_store_delete(w->store, entries[1], INFER_ZSTR, &w->err);
    return unless_done(w, st);
}

static infer_status get(struct world *w, int which)
{
    infer_checkpoint_release(w->c[2]);
    w->c[2] = NULL;
    return oom_made(infer_store_get(w->store, w->model, entries[which], INFER_ZSTR, NULL, &w->c[2], &w->err), w->c[2]);
}

static infer_status list(struct world *w, int arg)
{
    infer_store_entry e = {0};
    infer_store_info i;
    char all[1024];
    size_t len = 0;
    (void)arg;
    INFER_INIT(&i);
    infer_status st = infer_store_get_info(w->store, &i, &w->err);
    if (st != INFER_OK)
        return st;
    for (;;) {
        char after[256];
        memcpy(after, e.name, sizeof after);
        uint32_t n = e.name_len;
        INFER_INIT(&e);
        st = infer_store_next(w->store, n ? after : NULL, n, &e, &w->err);
        if (st != INFER_OK)
            break;
        len += (size_t)snprintf(all + len, sizeof all - len, "%s %llu;", e.name, (unsigned long long)e.length);
    }
    if (st != INFER_ERROR_NOT_FOUND)
        return st;
    oom_add(w, all, len);
    oom_add_u64(w, i.count);
    return INFER_OK;
}

static infer_status delete_entry(struct world *w, int which)
{
    return unless_done(w, infer_store_delete(w->store, entries[which], INFER_ZSTR, &w->err));
}

/* ---- the prefix cache: it may fail to help, and says so; results stay */

static infer_status cached_session(struct world *w, int slot)
{
    infer_cache_report r;
    infer_session_release(w->s[slot]);
    w->s[slot] = NULL;
    infer_status st = scene_session(w, slot);
    if (st != INFER_OK)
        return st;
    st = scene_append(w, SLOT(slot, 150));
    if (st == INFER_OK)
        st = scene_prefill(w, slot);
    if (st == INFER_OK) {
        INFER_INIT(&r);
        assert_int_equal(infer_session_cache_report(w->s[slot], &r, NULL), INFER_OK);
        assert_true(r.reused <= 149);
    } else {
        infer_session_release(w->s[slot]);
        w->s[slot] = NULL;
    }
    return st;
}

static infer_status drop_sessions(struct world *w, int arg)
{
    (void)arg;
    for (int i = 0; i < OOM_SESSIONS; i++) {
        infer_session_release(w->s[i]);
        w->s[i] = NULL;
    }
    return INFER_OK;
}

static infer_status flush(struct world *w, int arg)
{
    (void)arg;
    return infer_engine_cache_flush(w->engine, w->cancel, &w->err);
}

static infer_status clear(struct world *w, int arg)
{
    (void)arg;
    return infer_engine_cache_clear(w->engine, &w->err);
}

static infer_status stats(struct world *w, int arg)
{
    infer_cache_stats s;
    (void)arg;
    INFER_INIT(&s);
    return infer_engine_cache_stats(w->engine, &s, &w->err);
}

/* ---- shift and graft */

static infer_status shift(struct world *w, int drop)
{
    return infer_session_shift(w->s[0], 4, (uint64_t)drop, &w->err);
}

static infer_status graft(struct world *w, int recompute)
{
    uint64_t rerun;
    infer_status st = infer_session_graft(w->s[1], w->c[0], 10, 60, (uint64_t)recompute, &rerun, NULL, &w->err);
    if (st == INFER_OK)
        oom_add_u64(w, rerun);
    return st;
}

static infer_status graft_exactly(struct world *w, int arg)
{
    (void)arg;
    return infer_session_graft(w->s[2], w->c[0], 0, 90, 0, NULL, NULL, &w->err);
}

static infer_status begin_shifting(struct world *w, int arg)
{
    infer_generate_options o;
    (void)arg;
    INFER_INIT(&o);
    o.max_tokens = 4;
    o.flags = INFER_GENERATE_IGNORE_EOS;
    o.shift_keep = 4;
    o.shift_drop = 40;
    return infer_generate_begin(w->s[3], &o, &w->err);
}

static infer_status small_session(struct world *w, int slot)
{
    infer_session_options o;
    INFER_INIT(&o);
    o.n_ctx = 100;
    return oom_made(infer_session_create(w->model, &o, &w->s[slot], &w->err), w->s[slot]);
}

/* ---- the scenarios */

#define ENGINE {"create the engine", scene_engine, 0, 0}
#define MODEL(which) {"open the model", scene_model, which, 0}
#define SESSION(slot) {"create a session", scene_session, slot, 0}
#define APPEND(slot, n) {"append", scene_append, SLOT(slot, n), 0}
#define PREFILL(slot) {"prefill", scene_prefill, slot, STEP_ADVANCES}
#define NEXT(slot) {"next", next, slot, STEP_ADVANCES}
#define CHECKPOINT(slot) {"checkpoint", checkpoint, slot, 0}
#define CACHED(slot) {"a session with the cache", cached_session, slot, STEP_ADVANCES}

static const struct step checkpoints[] = {ENGINE, MODEL(MODEL_TINY), SESSION(0), {"set sampling", set_sampling, 0, 0}, APPEND(0, 70), {"begin", begin, 5, 0},
    NEXT(0), NEXT(0), NEXT(0), CHECKPOINT(0), NEXT(0), NEXT(0), CHECKPOINT(1), {"restore", restore, 0, 0}, NEXT(0), NEXT(0),
    {"a session from it", session_from, 0, STEP_ADVANCES}, NEXT(1), NEXT(1), {"restore", restore, 1, 0}, APPEND(0, 4), PREFILL(0), {0}};
static const struct step files[] = {ENGINE, MODEL(MODEL_LLAMA), SESSION(0), {"set sampling", set_sampling, 0, 0}, APPEND(0, 80), {"begin", begin, 9, 0}, NEXT(0),
    NEXT(0), CHECKPOINT(0), {"save", save, SAVE_WHOLE, 0}, NEXT(0), APPEND(0, 70), PREFILL(0), CHECKPOINT(1), {"save a delta", save, SAVE_DELTA, 0},
    {"save packed", save, SAVE_PACKED, 0}, {"save with the full model", save, SAVE_FULL_MODEL, 0}, {"save over it", save, SAVE_FULL_MODEL, 0},
    {"open", open_saved, SAVE_WHOLE, 0}, {"a session from it", session_from, 2, STEP_ADVANCES}, NEXT(1),
    {"open the delta", open_saved, SAVE_DELTA, 0}, {"a session from it", session_from, 2, STEP_ADVANCES}, APPEND(1, 2), PREFILL(1),
    {"open the packed one", open_saved, SAVE_PACKED, 0}, {"a session from it", session_from, 2, STEP_ADVANCES}, NEXT(1),
    {"open the full one", open_saved, SAVE_FULL_MODEL, 0}, {"a session from it", session_from, 2, STEP_ADVANCES}, APPEND(1, 70), PREFILL(1),
    {"clone", clone_file, 0, 0}, {"fingerprint", fingerprint, INFER_FINGERPRINT_FULL, 0}, {0}};
#define STORE(directory) {ENGINE, MODEL(MODEL_LLAMA), SESSION(0), APPEND(0, 70), PREFILL(0), CHECKPOINT(0), APPEND(0, 70), PREFILL(0), CHECKPOINT(1), \
    {"open the store", open_store, directory, 0}, {"put", put, 0, 0}, {"put", put, 1, 0}, {"put again", put_again, 1, 0}, {"branch", branch, 2, 0}, \
    {"rename", rename_entry, 3, 0}, {"get", get, 2, 0}, {"a session from it", session_from, 2, STEP_ADVANCES}, APPEND(1, 2), PREFILL(1), {"list", list, 0, 0}, \
    {"delete", delete_entry, 0, 0}, {"list", list, 0, 0}, {0}}
static const struct step store_memory[] = STORE(0), store_directory[] = STORE(1);
static const struct step cache[] = {ENGINE, MODEL(MODEL_LLAMA), CACHED(0), CACHED(1), {"roll back and go on", scene_append, SLOT(0, 70), 0}, PREFILL(0),
    {"drop the sessions", drop_sessions, 0, 0}, CACHED(2), {"stats", stats, 0, 0}, {"clear", clear, 0, 0}, CACHED(3), {0}};
static const struct step cache_windows[] = {ENGINE, MODEL(MODEL_GEMMA3), CACHED(0), CACHED(1), {"drop the sessions", drop_sessions, 0, 0}, CACHED(2), {0}};
static const struct step cache_disk[] = {ENGINE, MODEL(MODEL_LLAMA), CACHED(0), {"drop the sessions", drop_sessions, 0, 0}, {"flush", flush, 0, STEP_ADVANCES},
    {"clear", clear, 0, 0}, CACHED(1), {"flush", flush, 0, STEP_ADVANCES}, {"stats", stats, 0, 0}, {0}};
#define MOVES(model) {ENGINE, MODEL(model), SESSION(0), SESSION(1), SESSION(2), APPEND(0, 90), PREFILL(0), CHECKPOINT(0), {"shift", shift, 40, 0}, APPEND(0, 2), \
    PREFILL(0), APPEND(1, 20), PREFILL(1), {"graft", graft, 8, 0}, APPEND(1, 2), PREFILL(1), {"graft exactly", graft_exactly, 0, 0}, \
    APPEND(2, 2), PREFILL(2), {"a small session", small_session, 3, 0}, APPEND(3, 99), {"begin", begin_shifting, 0, 0}, NEXT(3), NEXT(3), NEXT(3), NEXT(3), {0}}
static const struct step moves[] = MOVES(MODEL_LLAMA), moves_windows[] = MOVES(MODEL_GEMMA3);

const struct scenario oom_state[] = {
    {"checkpoint", checkpoints, 0, 0, 0, 0, 0, 0}, {"checkpoint files", files, 0, 0, 0, 0, 0, 1}, {"store in memory", store_memory, 0, 0, 0, 0, 0, 0},
    {"store in a directory", store_directory, 0, 0, 0, 0, 0, 1}, {"prefix cache", cache, 0, 1, 0, 0, 0, 0}, {"prefix cache with windows", cache_windows, 0, 1, 0, 0, 0, 0},
    {"prefix cache on disk", cache_disk, 0, 1, 1, 0, 1, 1}, {"shift and graft", moves, 0, 0, 0, 0, 0, 0}, {"shift and graft with windows", moves_windows, 0, 0, 0, 0, 0, 0}, {0},
};
