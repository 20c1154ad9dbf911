#include "prompt_cache.h"

#include <stdlib.h>

#include "output.h"
#include "state_file.h"
#include "system.h"

#define DELTA_SUFFIX ".delta"

/* A state that may serve. */
struct stored {
    infer_checkpoint *state;
    int32_t *ids;
    uint64_t count, same; /* tokens; of them equal to the prompt's */
};

static uint64_t common(const int32_t *a, uint64_t n_a, const int32_t *b, uint64_t n_b)
{
    uint64_t n = 0;
    while (n < n_a && n < n_b && a[n] == b[n])
        n++;
    return n;
}

static char *delta_path(const struct cli *c)
{
    struct text path = {0};
    text_puts(&path, c->opt.prompt_cache);
    text_puts(&path, DELTA_SUFFIX);
    if (path.failed)
        text_free(&path);
    return path.data;
}

static void stored_free(struct stored *s)
{
    infer_checkpoint_release(s->state);
    free(s->ids);
    *s = (struct stored){0};
}

/* Why a state that was opened cannot go on here, or NULL. A restored session has the state's context length and KV type. */
static const char *mismatch(const struct cli *c, const infer_checkpoint *state)
{
    infer_checkpoint_info there;
    infer_session_info here;
    INFER_INIT(&there);
    INFER_INIT(&here);
    (void)infer_checkpoint_get_info(state, &there, NULL);
    (void)infer_session_get_info(c->session, &here, NULL);
    if (there.kv_type != c->opt.kv_type)
        return "it was made with another --kv";
    if (there.kv_recent != here.kv_recent)
        return "it was made with another --kv-recent";
    if (there.n_ctx != here.n_ctx)
        return "it was made with another --ctx";
    if (there.adapters != here.adapters)
        return "it was made under other adapters";
    return there.approximate ? "its state is approximate (shifted or grafted)" : NULL;
}

/* What the file holds; nothing when there is none (*absent), or it cannot be used, which is told. */
static void stored_open(struct stored *s, struct cli *c, const char *path, const int32_t *ids, uint64_t count, bool *absent)
{
    infer_error err;
    INFER_INIT(&err);
    *absent = !file_exists(path);
    if (*absent)
        return;
    infer_status st = state_open(c, path, &s->state, &err);
    if (st == INFER_OK)
        st = state_tokens(s->state, &s->ids, &s->count, &err);
    const char *why = st == INFER_OK ? mismatch(c, s->state) : err.text[0] ? err.text : infer_status_message(st);
    if (!why) {
        s->same = common(s->ids, s->count, ids, count);
        return;
    }
    stored_free(s);
    if (err.offset != UINT64_MAX && err.offset)
        note("--prompt-cache: %s is not used: %s (at byte %llu)", path, why, (unsigned long long)err.offset);
    else
        note("--prompt-cache: %s is not used: %s", path, why);
}

void prompt_cache_take(struct prompt_cache *p, struct cli *c, const int32_t *ids, uint64_t count)
{
    infer_error err;
    struct stored base = {0}, delta = {0};
    bool no_base, no_delta;
    char *path = c->opt.prompt_cache ? delta_path(c) : NULL;
    INFER_INIT(&err);
    if (!path)
        return;
    stored_open(&base, c, c->opt.prompt_cache, ids, count, &no_base);
    if (base.state)
        stored_open(&delta, c, path, ids, count, &no_delta);
    p->on = !c->opt.prompt_cache_ro && (base.state || no_base);
    const struct stored *best = delta.state && delta.same > base.same ? &delta : &base;
    if (best->same && state_restore(c, best->state, &err) != INFER_OK)
        note("--prompt-cache: %s is not used: %s", c->opt.prompt_cache, err.text);
    p->base = base.ids;
    p->base_count = base.count;
    base.ids = NULL;
    stored_free(&base);
    stored_free(&delta);
    free(path);
}

/* Where the state goes. A state that holds all of FILE and as much again replaces it, and the delta with it. */
static infer_status save(const struct prompt_cache *p, const struct cli *c, const infer_checkpoint *state, bool grown, const char *delta,
                         infer_error *err)
{
    if (p->base && !grown)
        return state_save(state, delta, c->opt.prompt_cache, err);
    infer_status st = state_save(state, c->opt.prompt_cache, NULL, err);
    if (st == INFER_OK)
        (void)system_remove(delta); /* it belonged to the file that was; if it stays it is refused by name of its parent */
    return st;
}

void prompt_cache_keep(const struct prompt_cache *p, struct cli *c)
{
    infer_error err;
    infer_checkpoint *state = NULL;
    int32_t *ids = NULL;
    uint64_t count = 0;
    INFER_INIT(&err);
    char *delta = p->on ? delta_path(c) : NULL;
    if (!delta)
        return;
    infer_status st = infer_checkpoint_create(c->session, &state, &err);
    if (st == INFER_OK)
        st = state_tokens(state, &ids, &count, &err);
    if (st == INFER_OK) {
        bool holds_base = common(p->base, p->base_count, ids, count) == p->base_count;
        bool nothing_new = p->base && common(p->base, p->base_count, ids, count) == count;
        if (!nothing_new)
            st = save(p, c, state, holds_base && count >= 2 * p->base_count, delta, &err);
    }
    if (st != INFER_OK)
        note("--prompt-cache: the state is not kept: %s", err.text[0] ? err.text : infer_status_message(st));
    infer_checkpoint_release(state);
    free(ids);
    free(delta);
}

void prompt_cache_free(struct prompt_cache *p)
{
    free(p->base);
    *p = (struct prompt_cache){0};
}
