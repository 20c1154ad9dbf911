/* Prompts that begin with the same elements are computed once. While one of them is under way (the leader), those that share enough with it keep
 * waiting; the leader stops where they part from it, and they go on from there: by the prefix cache, or where there is none, with the leader's pages.
 * A request that waits so takes no place in the batch. */
#include "engine/scheduler_state.h"

#include <string.h>

/* Whether b may use what a computes: the same rules as for the prefix cache. */
static bool may_share(const infer_session *a, const infer_session *b)
{
    const struct prefix *p = &a->prefix, *q = &b->prefix;
    return a->kv_type == b->kv_type && a->kv_recent == b->kv_recent && p->salt_len == q->salt_len && !memcmp(p->salt, q->salt, p->salt_len) &&
           !(p->flags & INFER_CACHE_NO_INSERT) && !(q->flags & INFER_CACHE_NO_LOOKUP) && !session_is_approximate(a) &&
           !session_is_approximate(b);
}

/* Elements that r may take from a, all but the last one of r's. */
static uint64_t in_common(const infer_session *a, const infer_request *r)
{
    const infer_session *b = r->answers[0].session;
    return r->logprobs || b->length <= SHARE_LEAST || !may_share(a, b) ? 0 : session_common(b, a, b->length - 1);
}

/* Whether it is worth waiting for the leader to get as far as `shared`. What the leader found in the cache the other finds there too. */
static bool worth_waiting(const infer_request *leader, uint64_t shared)
{
    uint64_t found = leader->began == UINT64_MAX ? 0 : leader->began;
    return shared > leader->answers[0].session->computed && shared >= found + SHARE_LEAST;
}

bool share_follow(infer_scheduler *s, infer_request *r)
{
    for (uint32_t i = 0; i < s->n_active; i++) {
        infer_request *leader = s->active[i]->request;
        if (leader->started)
            continue;
        uint64_t shared = in_common(s->active[i]->session, r);
        if (shared > r->shared && worth_waiting(leader, shared)) {
            r->leader = leader;
            r->shared = shared;
        }
    }
    if (!r->leader)
        return false;
    if (!r->leader->lead_to || r->shared < r->leader->lead_to)
        r->leader->lead_to = r->shared;
    return true;
}

void share_update(infer_scheduler *s, infer_request *leader, bool leads)
{
    uint64_t next = 0;
    if (!leader->lead_to)
        return;
    const infer_session *session = leader->answers[0].session;
    if (leads && session->computed == leader->lead_to)
        prefix_share(leader->answers[0].session);
    os_mutex_lock(&s->lock);
    for (infer_request *r = s->waiting.first; r; r = r->next) {
        if (r->leader != leader)
            continue;
        if (leads && worth_waiting(leader, r->shared)) {
            next = !next || r->shared < next ? r->shared : next;
        } else {
            r->leader = NULL;
            r->shared = 0;
        }
    }
    os_mutex_unlock(&s->lock);
    leader->lead_to = next;
}

static void better(const infer_request *r, const struct answer *a, const infer_session **best, uint64_t *most)
{
    uint64_t n = in_common(a->session, r);
    n = n < a->session->computed ? n : a->session->computed;
    if (n >= *most + SHARE_LEAST) {
        *best = a->session;
        *most = n;
    }
}

void share_take(infer_scheduler *s, infer_request *r)
{
    infer_session *session = r->answers[0].session;
    const infer_session *best = NULL;
    uint64_t most = session->computed, had = most;
    if (s->model->engine->cache)
        return; /* it finds the same, and counts it */
    for (uint32_t i = 0; i < s->n_active; i++)
        better(r, s->active[i], &best, &most);
    for (const struct answer *a = s->aside; a; a = a->next)
        better(r, a, &best, &most);
    if (!best || session_take_state(session, best, most, NULL) != INFER_OK) /* no memory: it is computed */
        return;
    os_mutex_lock(&s->lock);
    r->info.cached_tokens += session->computed - had;
    os_mutex_unlock(&s->lock);
}
