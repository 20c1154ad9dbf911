/* Computed state at another place: the context shift, which drops elements from a session's middle, and the graft, which takes a segment of a
 * checkpoint. Keys are rotated to their new positions; values, and what both depend on in deeper layers, stay those of the old context, so the
 * result is approximate, and marked. Where state cannot be taken over, elements become pending and are computed, which is exact.
 *
 * All work is done on a copy of the session, which takes its place in the end: a failure changes nothing. */
#include "engine/checkpoint.h"

#include <string.h>

#include "base/fpenv.h"
#include "base/shared.h"

/* Elements [src, src + n) of `from` are to become elements [dst, dst + n) of `to`, the last it has. */
struct transplant {
    infer_session *to;
    const infer_session *from;
    uint64_t src, dst, n;
};

/* Whether a group holds the elements [from, to). */
static bool stored(const struct kv_seq *k, uint64_t from, uint64_t to)
{
    for (uint64_t i = from / DEV_KV_PAGE; i * DEV_KV_PAGE < to; i++)
        if (i >= k->n || !k->pages[i])
            return false;
    return true;
}

/* Whether every group could go on after the transplant: what its window then holds is there. Whole pages are asked for. */
static bool can_take(const struct transplant *t)
{
    uint64_t end = t->dst + t->n;
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++) {
        const struct kv_seq *to = &t->to->kv[g], *from = &t->from->kv[g];
        if (!to->page_bytes)
            continue;
        uint64_t lo = to->window && end >= to->window ? (end - to->window + 1) / DEV_KV_PAGE * DEV_KV_PAGE : 0;
        if (lo < t->dst && !stored(to, lo, t->dst))
            return false;
        uint64_t first = lo > t->dst ? lo : t->dst;
        if (first < end && !stored(from, t->src + (first - t->dst), t->src + t->n))
            return false;
    }
    return true;
}

/* One group's share of a transplant. A window need not hold all of it. */
static infer_status take_group(const struct transplant *t, uint32_t g, infer_error *err)
{
    infer_engine *engine = t->to->model->engine;
    struct kv_seq *to = &t->to->kv[g];
    const struct kv_seq *from = &t->from->kv[g];
    uint64_t end = t->dst + t->n, next;
    struct net_kv_span span = {.src_pages = from->refs,
                               .delta = (int64_t)t->to->elements[t->dst].position - (int64_t)t->from->elements[t->src].position};
    for (uint64_t e = t->dst; e < end; e = next) { /* page by page of `to` */
        next = (e / DEV_KV_PAGE + 1) * DEV_KV_PAGE;
        next = next < end ? next : end;
        if (!stored(from, t->src + (e - t->dst), t->src + (next - t->dst)) || !stored(to, e / DEV_KV_PAGE * DEV_KV_PAGE, e)) {
            kv_seq_truncate(to, engine->kv, e / DEV_KV_PAGE * DEV_KV_PAGE); /* nor what lies before it in the page */
            continue;
        }
        infer_status st;
        do
            st = kv_seq_reserve(to, engine->kv, engine->env, engine->dev, e, next, err);
        while (prefix_retry(engine, st, err));
        if (st != INFER_OK)
            return st;
        span.dst_pages = to->refs;
        span.src = t->src + (e - t->dst);
        span.dst = e;
        span.n = next - e;
        net_kv_move(t->to->model->net, t->to->kv_type, g, &span);
    }
    return INFER_OK;
}

/* After can_take. */
static infer_status take(const struct transplant *t, const infer_cancel *cancel, infer_error *err)
{
    infer_engine *engine = t->to->model->engine;
    infer_status st = session_ready(t->from, cancel, err);
    if (st == INFER_OK)
        st = session_ready(t->to, cancel, err);
    if (st == INFER_OK)
        st = engine_take(engine, cancel, err);
    if (st != INFER_OK)
        return st;
    struct fpenv fp = fpenv_enter();
    for (uint32_t g = 0; g < NET_KV_GROUPS && st == INFER_OK; g++)
        if (t->to->kv[g].page_bytes)
            st = take_group(t, g, err);
    infer_status done = engine->dev->ops->sync(engine->dev, st == INFER_OK ? err : NULL);
    fpenv_leave(fp);
    engine_give(engine);
    return st == INFER_OK ? done : st;
}

/* A copy to work on. It must leave nothing in the prefix cache before it is whole. */
static infer_status copy_of(const infer_session *s, infer_session **out, infer_error *err)
{
    infer_status st = session_copy(s, out, err);
    if (st == INFER_OK)
        (*out)->prefix.flags |= INFER_CACHE_NO_INSERT;
    return st;
}

/* The copy becomes the session when all went well, and what is left over goes. */
static infer_status replace(infer_session *s, infer_session *copy, infer_status st)
{
    if (st == INFER_OK) {
        copy->prefix.flags = s->prefix.flags;
        copy->prefix.asked = 0;
        session_swap(s, copy);
    }
    session_release(copy);
    return st;
}

/* Everything from `length` on is forgotten, without looking for a place to go on from. */
static void cut(infer_session *s, uint64_t length)
{
    s->n_logits_rows = 0;
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++)
        kv_seq_truncate(&s->kv[g], s->model->engine->kv, length);
}

/* ---- shift */

static infer_status check_shift(const infer_session *s, uint64_t keep, uint64_t drop, infer_error *err)
{
    if (s->model->net->arch->positions == POSITIONS_LEARNED)
        return err_set(err, INFER_ERROR_UNSUPPORTED, "this model has learned positions: its state belongs to the place where it was computed");
    if (keep > s->length)
        return err_at(err, INFER_ERROR_ARGUMENT, "keep", 4, ERR_NO_OFFSET, "the session has %llu elements", (unsigned long long)s->length);
    if (drop > s->length - keep)
        return err_at(err, INFER_ERROR_ARGUMENT, "drop", 4, ERR_NO_OFFSET, "the session has %llu elements behind those to keep",
                      (unsigned long long)(s->length - keep));
    return INFER_OK;
}

/* The embedding rows of elements [keep, keep + drop) go, so that those left lie without gaps, in the order of their elements. */
static infer_status drop_rows(infer_session *s, uint64_t keep, uint64_t drop, infer_error *err)
{
    const struct alloc *a = &s->model->engine->env->alloc;
    size_t width = s->model->net->h.n_embd, first = s->n_rows, n = 0;
    for (uint64_t i = keep; i < keep + drop; i++)
        if (s->elements[i].id == ELEMENT_ROW) {
            first = n ? first : s->elements[i].row;
            n++;
        }
    if (!n)
        return INFER_OK;
    float *rows = shared_own(a, s->rows, width * sizeof *rows, s->n_rows);
    s->rows = rows ? rows : s->rows;
    uint64_t *keys = rows ? shared_own(a, s->keys, 16, s->n_rows) : NULL;
    if (!keys)
        return err_no_memory(err);
    s->keys = keys;
    memmove(rows + first * width, rows + (first + n) * width, (s->n_rows - first - n) * width * sizeof *rows);
    memmove(keys + 2 * first, keys + 2 * (first + n), (s->n_rows - first - n) * 16);
    s->n_rows -= (uint32_t)n;
    for (uint64_t i = keep + drop; i < s->length; i++)
        s->elements[i].row -= s->elements[i].id == ELEMENT_ROW ? (uint32_t)n : 0;
    return INFER_OK;
}

/* The elements behind the gap close it. */
static infer_status close_gap(infer_session *s, uint64_t keep, uint64_t drop, infer_error *err)
{
    infer_status st = session_own_elements(s, err);
    if (st == INFER_OK)
        do
            st = drop_rows(s, keep, drop, err);
        while (prefix_retry(s->model->engine, st, err));
    if (st != INFER_OK)
        return st;
    memmove(s->elements + keep, s->elements + keep + drop, (size_t)(s->length - keep - drop) * sizeof *s->elements);
    uint32_t behind = (uint32_t)(s->length - keep - drop);
    s->gen.run = s->gen.run_end != s->length ? 0 : s->gen.run < behind ? s->gen.run : behind;
    s->length -= drop;
    s->gen.run_end = (uint32_t)s->length;
    for (uint64_t i = keep; i < s->length; i++)
        s->elements[i].position -= (uint32_t)drop;
    return INFER_OK;
}

/* copy is s without the gap, its state still that of s. */
static infer_status shift_state(infer_session *copy, const infer_session *s, uint64_t keep, uint64_t drop, const infer_cancel *cancel,
                                infer_error *err)
{
    uint64_t from = keep + drop;
    struct transplant t = {copy, s, from, keep, s->computed > from ? s->computed - from : 0};
    if (!t.n || !can_take(&t)) {
        session_rewind(copy, s->computed < keep ? s->computed : keep);
        return INFER_OK;
    }
    cut(copy, keep);
    infer_status st = take(&t, cancel, err);
    copy->computed = keep + t.n;
    session_mark_approximate(copy, keep);
    return st;
}

infer_status session_shift(infer_session *s, uint64_t keep, uint64_t drop, const infer_cancel *cancel, infer_error *err)
{
    infer_session *copy = NULL;
    infer_status st = check_shift(s, keep, drop, err);
    if (st != INFER_OK || !drop)
        return st;
    st = copy_of(s, &copy, err);
    if (st == INFER_OK)
        st = close_gap(copy, keep, drop, err);
    if (st == INFER_OK)
        st = shift_state(copy, s, keep, drop, cancel, err);
    return replace(s, copy, st);
}

/* ---- graft */

static infer_status check_graft(const infer_session *s, const infer_session *c, uint64_t first, uint64_t count, uint64_t recompute,
                                infer_error *err)
{
    if (c->model != s->model)
        return err_at(err, INFER_ERROR_ARGUMENT, "checkpoint", 10, ERR_NO_OFFSET, "the checkpoint belongs to another model");
    if (c->kv_type != s->kv_type)
        return err_at(err, INFER_ERROR_ARGUMENT, "checkpoint", 10, ERR_NO_OFFSET, "the checkpoint's KV type is %d, the session's %d",
                      (int)c->kv_type, (int)s->kv_type);
    if (first > c->computed)
        return err_at(err, INFER_ERROR_ARGUMENT, "first", 5, ERR_NO_OFFSET, "the checkpoint has %llu computed elements",
                      (unsigned long long)c->computed);
    if (count > c->computed - first)
        return err_at(err, INFER_ERROR_ARGUMENT, "count", 5, ERR_NO_OFFSET, "the checkpoint has %llu computed elements from there on",
                      (unsigned long long)(c->computed - first));
    if (recompute > count)
        return err_at(err, INFER_ERROR_ARGUMENT, "recompute", 9, ERR_NO_OFFSET, "more than the %llu elements of the graft",
                      (unsigned long long)count);
    if (s->computed < s->length)
        return err_set(err, INFER_ERROR_STATE, "%llu elements are pending: step them first", (unsigned long long)(s->length - s->computed));
    if (count > s->n_ctx - s->length)
        return err_set(err, INFER_ERROR_CONTEXT_FULL, "%llu elements do not fit: the context holds %u and %llu are used",
                       (unsigned long long)count, s->n_ctx, (unsigned long long)s->length);
    return INFER_OK;
}

/* Whether the checkpoint's state up to `end` is what the session would compute. */
static bool same_prefix(const infer_session *s, const infer_session *c, uint64_t first, uint64_t end)
{
    if (first != s->length || s->kv_recent != c->kv_recent || s->approximate_from < first || c->approximate_from < end)
        return false;
    return session_common(s, c, first) == first;
}

/* Appends elements [first, first + count) of c, pending, under the adapters that they have there. */
static infer_status append_from(infer_session *s, const infer_session *c, uint64_t first, uint64_t count, infer_error *err)
{
    infer_status st = INFER_OK;
    for (uint64_t i = first; i < first + count && st == INFER_OK; i++) {
        const struct element *e = &c->elements[i];
        if (e->id >= 0)
            st = session_append(s, &e->id, 1, err);
        else if (e->id == ELEMENT_PREFIX)
            st = session_append_prefix(s, session_set_at(&c->sets, e->set), e->row, 1, err);
        else
            st = session_append_rows(s, c->rows + (size_t)e->row * s->model->net->h.n_embd, c->keys + 2 * (size_t)e->row, 1, err);
    }
    if (st == INFER_OK && count)
        do
            st = session_take_sets(s, c, s->length - count, first, count, err);
        while (prefix_retry(s->model->engine, st, err));
    return st;
}

/* The state of [.., end) is that of c, page by page. Only where all groups can go on from there. */
static infer_status share_state(infer_session *s, const infer_session *c, uint64_t first, uint64_t count, infer_error *err)
{
    infer_engine *engine = s->model->engine;
    uint64_t end = first + count;
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++)
        if (kv_seq_resume(&c->kv[g], end) < end)
            return INFER_OK; /* what s has is worth more */
    infer_status st = INFER_OK;
    for (uint32_t g = 0; g < NET_KV_GROUPS && st == INFER_OK; g++) {
        kv_seq_free(&s->kv[g], engine->kv, engine->env);
        do
            st = kv_seq_share(&s->kv[g], &c->kv[g], engine->kv, engine->env, err);
        while (prefix_retry(engine, st, err));
    }
    cut(s, end);
    if (st == INFER_OK)
        s->computed = s->length;
    return st;
}

static infer_status compute_pending(infer_session *s, const infer_cancel *cancel, infer_error *err)
{
    infer_step_item it = {.size = (uint32_t)sizeof it, .session = s, .logits = INFER_ROWS_NONE};
    return s->computed < s->length ? engine_step(&it, 1, cancel, err) : INFER_OK;
}

/* copy has the elements of s and then those of the graft, of which the first `recompute` are computed here. */
static infer_status transplant_state(infer_session *copy, const infer_session *c, uint64_t first, uint64_t count, const infer_cancel *cancel,
                                     infer_error *err)
{
    struct transplant t = {copy, c, first, copy->length - count, count};
    if (!count || !can_take(&t))
        return INFER_OK;
    infer_status st = take(&t, cancel, err);
    if (st == INFER_OK)
        copy->computed = copy->length;
    session_mark_approximate(copy, t.dst);
    return st;
}

static infer_status graft_into(infer_session *copy, const infer_session *c, uint64_t first, uint64_t count, uint64_t recompute,
                               const infer_cancel *cancel, infer_error *err)
{
    infer_status st;
    if (same_prefix(copy, c, first, first + count)) {
        st = append_from(copy, c, first, count, err);
        return st == INFER_OK ? share_state(copy, c, first, count, err) : st;
    }
    if (copy->model->net->arch->positions == POSITIONS_LEARNED)
        return err_set(err, INFER_ERROR_UNSUPPORTED, "this model has learned positions: its state belongs to the place where it was computed");
    st = append_from(copy, c, first, recompute, err);
    if (st == INFER_OK)
        st = compute_pending(copy, cancel, err);
    if (st == INFER_OK)
        st = append_from(copy, c, first + recompute, count - recompute, err);
    return st == INFER_OK ? transplant_state(copy, c, first + recompute, count - recompute, cancel, err) : st;
}

infer_status session_graft(infer_session *s, const infer_checkpoint *ckpt, uint64_t first, uint64_t count, uint64_t recompute,
                           uint64_t *rerun, const infer_cancel *cancel, infer_error *err)
{
    const infer_session *c = ckpt->frozen;
    infer_session *copy = NULL;
    infer_status st = check_graft(s, c, first, count, recompute, err);
    bool exact = st == INFER_OK && same_prefix(s, c, first, first + count);
    if (st == INFER_OK && count) {
        st = copy_of(s, &copy, err);
        if (st == INFER_OK)
            st = graft_into(copy, c, first, count, recompute, cancel, err);
        st = replace(s, copy, st);
    }
    if (st == INFER_OK && rerun)
        *rerun = s->length - s->computed + (exact ? 0 : recompute);
    return st;
}
