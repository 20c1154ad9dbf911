#include "engine/engine.h"

#include <string.h>

#include "base/budget.h"

_Static_assert(NET_KV_GROUPS <= KV_CACHE_GROUPS, "the cache has room for all groups");

static bool reclaim(void *user)
{
    return kv_cache_reclaim(user);
}

infer_status prefix_setup(infer_engine *e, const infer_engine_options *o, infer_error *err)
{
    if (!o->cache_bytes)
        return INFER_OK;
    struct kv_cache_options co = {.bytes = o->cache_bytes, .ghost_bytes = o->cache_bytes / 64, .spill = o->cache_dir != NULL};
    infer_status st = kv_cache_create(e->env, e->kv, &co, &e->cache, err);
    if (st != INFER_OK)
        return st;
    kv_pool_set_reclaim(e->kv, reclaim, e->cache);
    return prefix_disk_open(e, o, err);
}

bool prefix_give_way(infer_engine *e)
{
    struct budget *b = e->env->budget;
    if (!e->cache || !kv_cache_reclaim(e->cache))
        return false;
    while (b && budget_short(b) && kv_cache_reclaim(e->cache)) /* a page that went back need not have taken its slab with it */
        ;
    return true;
}

bool prefix_retry(infer_engine *e, infer_status st, const infer_error *err)
{
    return st == INFER_ERROR_NO_MEMORY && (!err || err_is_no_memory(err)) && prefix_give_way(e); /* not for a host's callback that says it */
}

void prefix_teardown(infer_engine *e)
{
    prefix_disk_close(e);
    kv_cache_destroy(e->cache);
}

void prefix_model_gone(infer_model *m)
{
    if (!m->engine->cache)
        return;
    kv_cache_drop(m->engine->cache, m);
    prefix_disk_write_now(m->engine, NULL); /* afterwards nothing that waits to be written, or is being written, is of this model */
}

infer_status prefix_options(struct prefix *p, const infer_session_options *o, infer_error *err)
{
    if (o->cache_flags & ~(uint32_t)(INFER_CACHE_NO_LOOKUP | INFER_CACHE_NO_INSERT))
        return err_at(err, INFER_ERROR_ARGUMENT, "cache_flags", 11, ERR_NO_OFFSET, "unknown flags");
    if (o->salt_len > KV_SALT_MAX)
        return err_at(err, INFER_ERROR_ARGUMENT, "salt_len", 8, ERR_NO_OFFSET, "at most %u bytes", KV_SALT_MAX);
    if (o->salt_len && !o->salt)
        return err_at(err, INFER_ERROR_ARGUMENT, "salt", 4, ERR_NO_OFFSET, "is NULL");
    p->flags = o->cache_flags;
    p->salt_len = o->salt_len;
    if (o->salt_len)
        memcpy(p->salt, o->salt, o->salt_len);
    return INFER_OK;
}

static void session_keys(const void *user, uint64_t first, uint64_t count, struct kv_key *out)
{
    const infer_session *s = user;
    for (uint64_t i = 0; i < count; i++) {
        const struct element *e = &s->elements[first + i];
        struct hash_128 set = session_set_id(&s->sets, e->set);
        out[i] = (struct kv_key){.id = e->id, .adapters = set.lo, .adapters_more = (uint32_t)set.hi};
        if (e->id == ELEMENT_ROW)
            memcpy(out[i].row, s->keys + 2 * (size_t)e->row, sizeof out[i].row);
        else if (e->id == ELEMENT_PREFIX)
            out[i].row[0] = e->row;
    }
}

static struct kv_domain session_domain(const infer_session *s)
{
    struct kv_domain d = {.owner = s->model, .salt_len = s->prefix.salt_len,
                          .type = (uint64_t)s->kv_recent << 32 | (uint32_t)s->kv_type};
    memcpy(d.salt, s->prefix.salt, sizeof d.salt);
    return d;
}

/* The cache must not hold pages of a checkpoint file: its owner may write to it once everything restored from it is gone. */
static bool holds_file(const infer_session *s)
{
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++)
        if (s->kv[g].foreign && kv_seq_count(&s->kv[g], s->model->engine->kv).foreign)
            return true;
    return false;
}

static bool may(const infer_session *s, uint32_t flag)
{
    return s->model->engine->cache && !(s->prefix.flags & flag) && !session_is_approximate(s) &&
           !(flag == INFER_CACHE_NO_INSERT && holds_file(s));
}

/* ---- Looking up ---- */

static void take_over(infer_session *s, struct kv_seq *tables, uint64_t computed)
{
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++) {
        kv_seq_free(&s->kv[g], s->model->engine->kv, s->model->engine->env);
        s->kv[g] = tables[g];
    }
    s->prefix.taken = computed - s->computed;
    s->computed = computed;
}

/* What the look-up says, unless it was a repeated one of no use. */
static void report(infer_session *s, const struct kv_cache_found *f, uint64_t had, bool used)
{
    uint64_t from = used ? f->reused : had;
    s->prefix.report = (infer_cache_report){
        .size = (uint32_t)sizeof s->prefix.report, .reason = f->reason, .wanted = s->length, .difference = f->difference,
        .reused = used ? f->reused - had : 0, .rerun = f->matched > from ? f->matched - from : 0,
        .near_length = f->near_length, .own_reason = f->own_reason};
}

static void find(infer_session *s, uint64_t at_most, const infer_cancel *cancel)
{
    infer_engine *e = s->model->engine;
    struct kv_domain d = session_domain(s);
    struct kv_keys keys = {session_keys, s};
    struct kv_cache_query q = {.domain = &d, .keys = &keys, .length = s->length, .at_most = at_most, .have = s->computed,
                               .quiet = s->prefix.asked == s->length};
    struct kv_cache_found f;
    struct kv_seq tables[NET_KV_GROUPS];
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++)
        kv_seq_init(&tables[g], s->kv[g].page_bytes, s->kv[g].window);
    if (e->disk && !q.quiet)
        prefix_disk_read(s, &d, &keys, at_most, cancel);
    infer_status st = kv_cache_find(e->cache, &q, tables, NET_KV_GROUPS, &f, NULL);
    bool used = f.reused > s->computed;
    if (st != INFER_OK)
        f.reason = f.own_reason = INFER_CACHE_REASON_FAILED;
    if (used || !q.quiet)
        report(s, &f, s->computed, used);
    s->prefix.asked = s->length;
    if (used)
        take_over(s, tables, f.reused);
    if (f.matched > s->computed && may(s, INFER_CACHE_NO_INSERT))
        s->prefix.stop = f.matched;
    if (f.matched > s->prefix.kept)
        s->prefix.kept = f.matched;
}

void prefix_find(infer_session *s, uint64_t at_most, const infer_cancel *cancel)
{
    uint64_t pending = s->length - s->computed;
    s->prefix.taken = 0;
    s->prefix.stop = 0;
    if (may(s, INFER_CACHE_NO_LOOKUP) && at_most > s->computed && (s->computed == 0 || pending > PREFIX_LEAST))
        find(s, at_most, cancel);
}

/* ---- Leaving behind ---- */

static void keep(infer_session *s, uint64_t length)
{
    struct kv_domain d = session_domain(s);
    struct kv_keys keys = {session_keys, s};
    if (session_ready(s, NULL, NULL) != INFER_OK) /* pages of a file: nobody who finds them has to look whether they are undamaged */
        return;
    kv_cache_add(s->model->engine->cache, &d, &keys, length, s->kv, NET_KV_GROUPS, false);
    s->prefix.kept = length;
}

void prefix_committed(infer_session *s)
{
    if (s->prefix.stop && s->computed == s->prefix.stop) {
        keep(s, s->computed);
        s->prefix.stop = 0;
    }
}

void prefix_stepped(infer_session *s, uint64_t count)
{
    if (s->computed != s->length || !count || !may(s, INFER_CACHE_NO_INSERT))
        return;
    /* The end of a prompt is where others will want to go on. While single tokens come in, whole pages do: a page that is kept is copied when
     * the session writes into it again. */
    uint64_t length = count > 1 ? s->computed : s->computed / PREFIX_LEAST * PREFIX_LEAST;
    if (length >= s->prefix.kept + PREFIX_LEAST)
        keep(s, length);
}

void prefix_share(infer_session *s)
{
    if (may(s, INFER_CACHE_NO_INSERT) && s->computed > s->prefix.kept)
        keep(s, s->computed);
}

void prefix_leave(infer_session *s)
{
    if (may(s, INFER_CACHE_NO_INSERT) && s->computed >= s->prefix.kept + PREFIX_LEAST)
        keep(s, s->computed);
}

void prefix_left(infer_engine *e)
{
    if (!e->cache)
        return;
    kv_cache_trim(e->cache);
    prefix_disk_write(e, NULL);
}
