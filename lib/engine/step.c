/* A step: cuts the pending elements of many sessions into batches and runs each through the model. What a batch computes is committed
 * only when the whole batch succeeded: a cancelled one leaves no trace. */
#include "engine/engine.h"

#include <string.h>

#include "base/fpenv.h"

/* One item's part of the batch that is being put together. */
struct part {
    infer_session *s;
    uint64_t from, n;  /* elements */
    uint64_t n_wanted; /* of them with logits */
    uint32_t out;      /* the first of these in the batch's list of logits */
    struct batch_tap *tap; /* or NULL */
};

static uint64_t item_goal(const infer_step_item *it)
{
    const infer_session *s = it->session;
    uint64_t pending = (s->prefix.stop > s->computed ? s->prefix.stop : s->length) - s->computed;
    /* done counts what earlier batches of this step computed */
    uint64_t left = it->max_elements ? it->max_elements - it->done : UINT64_MAX;
    return pending < left ? pending : left;
}

static bool wants_logits(const infer_step_item *it, uint64_t element)
{
    switch (it->logits) {
    case INFER_ROWS_NONE: return false;
    case INFER_ROWS_ALL: return true;
    case INFER_ROWS_MASK: return element >= it->session->pending_from && it->mask[element - it->session->pending_from];
    default: return element + 1 == it->session->length;
    }
}

/* Row r is under this set: part of the run before it, when that is under the same and ends there. */
static void add_to_run(struct batch *b, struct batch_arrays *ba, const struct adapter_set *set, uint32_t r)
{
    struct batch_run *last = b->n_runs ? &ba->runs[b->n_runs - 1] : NULL;
    const struct adapter_set *before = last ? ba->run_sets[b->n_runs - 1] : NULL;
    if (last && last->row + last->n_row == r && hash_128_equal(before->id, set->id)) {
        last->n_row++;
        return;
    }
    ba->run_sets[b->n_runs] = set;
    ba->runs[b->n_runs++] = (struct batch_run){r, 1, set->uses, set->n};
}

static bool wants_hidden(const infer_step_item *it, uint64_t element)
{
    const infer_hidden *h = it->hidden;
    if (!h || h->elements == INFER_ROWS_NONE)
        return false;
    if (h->elements == INFER_ROWS_LAST)
        return element + 1 == it->session->length;
    uint64_t from = it->session->pending_from; /* what is computed a second time is before it */
    return element >= from && (h->elements == INFER_ROWS_ALL || h->mask[element - from]);
}

uint64_t step_count_hidden(const infer_step_item *it)
{
    const infer_session *s = it->session;
    uint64_t pending = s->length - s->computed, n = 0;
    if (!it->hidden || it->hidden->elements == INFER_ROWS_NONE || !s->length)
        return 0;
    if (it->hidden->elements == INFER_ROWS_LAST)
        return 1;
    if (it->max_elements && pending > it->max_elements)
        pending = it->max_elements;
    for (uint64_t i = 0; i < pending; i++)
        n += it->hidden->elements == INFER_ROWS_ALL || it->hidden->mask[i];
    return n;
}

/* Adds one element to the batch as row r. */
static void add_row(struct batch *b, struct batch_arrays *ba, const infer_session *s, uint64_t element)
{
    const struct element *e = &s->elements[element];
    const struct net *net = s->model->net;
    uint32_t r = b->n_row++;
    ba->ids[r] = e->id < 0 ? 0 : (uint32_t)e->id;
    ba->positions[r] = e->position;
    ba->lo[0][r] = 0;
    ba->lo[1][r] = net->h.window && element + 1 > net->h.window ? element + 1 - net->h.window : 0;
    ba->hi[r] = element + 1;
    ba->exact_pages[r] = net_kv_exact_page(element, s->kv_recent);
    if (e->set)
        add_to_run(b, ba, session_set_at(&s->sets, e->set), r);
    if (e->id < 0)
        ba->embeddings[b->n_embeddings++] =
            (struct batch_embedding){r, s->rows + (size_t)e->row * net->h.n_embd};
}

/* The hidden states that an item wants of elements [from, from + n), which are the batch's rows from `row` on. */
static struct batch_tap *add_tap(struct batch *b, struct batch_arrays *ba, const infer_step_item *it, uint32_t row, uint64_t from, uint64_t n)
{
    static const int32_t final = INFER_HIDDEN_FINAL;
    infer_hidden *h = it->hidden;
    struct batch_tap *tap = &ba->taps[b->n_tap];
    *tap = (struct batch_tap){.rows = ba->tap_rows + row};
    for (uint64_t i = 0; i < n; i++)
        if (wants_hidden(it, from + i))
            ba->tap_rows[row + tap->n_row++] = row + (uint32_t)i;
    if (!tap->n_row)
        return NULL;
    tap->places = h->layer_count ? h->layers : &final;
    tap->n_place = h->layer_count ? h->layer_count : 1;
    tap->out = h->out + h->rows * tap->n_place * it->session->model->net->h.n_embd;
    b->n_tap++;
    return tap;
}

/* Adds as much of an item as fits. Only memory is reserved: on failure the session is as it was. */
static infer_status add_item(struct batch *b, struct batch_arrays *ba, const infer_step_item *it, uint32_t index, uint32_t rows,
                             struct part *part, infer_error *err)
{
    infer_session *s = it->session;
    infer_engine *engine = s->model->engine;
    uint64_t n = item_goal(it), room = rows - b->n_row;
    n = n < room ? n : room;
    for (uint64_t i = 0; i < n; i++)
        if (s->elements[s->computed + i].id == ELEMENT_PREFIX)
            n = i; /* not computed here */
    *part = (struct part){s, s->computed, n, 0, b->n_out, NULL};
    for (uint64_t i = 0; i < n; i++)
        part->n_wanted += wants_logits(it, s->computed + i);
    infer_status st;
    do
        st = session_reserve_logits(s, part->n_wanted, err);
    while (st == INFER_ERROR_NO_MEMORY && prefix_give_way(engine));
    for (uint32_t g = 0; g < NET_KV_GROUPS && st == INFER_OK; g++)
        do
            st = kv_seq_reserve(&s->kv[g], engine->kv, engine->env, engine->dev, s->computed, s->computed + n, err);
        while (prefix_retry(engine, st, err));
    if (st != INFER_OK)
        return st;
    uint64_t out = s->n_logits_rows;
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++)
        ba->seqs[g][b->n_seq] = (struct dev_seq){b->n_row, (uint32_t)n, s->computed, s->kv[g].refs};
    ba->items[b->n_seq++] = index;
    part->tap = add_tap(b, ba, it, b->n_row, s->computed, n);
    for (uint64_t i = 0; i < n; i++) {
        if (wants_logits(it, s->computed + i)) {
            ba->out_rows[b->n_out] = b->n_row;
            ba->out[b->n_out++] = s->logits + out * s->model->net->h.n_logits;
            s->logits_pos[out++] = s->computed + i;
        }
        add_row(b, ba, s, s->computed + i);
    }
    return INFER_OK;
}

/* After a batch succeeded: takes over one item's part of it. */
static infer_status commit(infer_step_item *it, const struct part *part, const bool *finite, infer_error *err)
{
    infer_session *s = part->s;
    for (uint64_t r = 0; r < part->n_wanted; r++)
        if (!finite[part->out + r])
            return err_set(err, INFER_ERROR_NONFINITE, "the logits of element %llu are not finite",
                           (unsigned long long)s->logits_pos[s->n_logits_rows + r]);
    if (part->tap && !part->tap->finite)
        return err_set(err, INFER_ERROR_NONFINITE, "a hidden state of elements %llu to %llu is not finite",
                       (unsigned long long)part->from, (unsigned long long)(part->from + part->n - 1));
    if (part->tap)
        it->hidden->rows += part->tap->n_row;
    s->n_logits_rows += part->n_wanted;
    s->computed += part->n;
    it->done += part->n;
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++)
        kv_seq_drop(&s->kv[g], s->model->engine->kv, s->computed);
    prefix_committed(s);
    return INFER_OK;
}

/* The first failure of the step is the one that the call returns. */
struct outcome {
    infer_status status;
    infer_error *err;
};

static void item_failed(struct outcome *o, infer_step_item *it, infer_status st, const infer_error *e)
{
    it->status = st;
    if (o->status == INFER_OK) {
        o->status = st;
        if (o->err)
            *o->err = *e;
    }
}

/* Puts a batch together from items that still have work, from item `first` on, one KV type at a time, up to so many rows. */
static void fill_batch(struct batch *b, struct batch_arrays *ba, uint32_t rows, struct part *parts, infer_step_item *items,
                       uint64_t count, struct outcome *o)
{
    infer_error e = {0};
    for (uint64_t i = 0; i < count && b->n_row < rows; i++) {
        if (items[i].status != INFER_OK || !item_goal(&items[i]))
            continue;
        if (b->n_seq && items[i].session->kv_type != b->kv_type)
            continue;
        b->kv_type = items[i].session->kv_type;
        infer_status st = add_item(b, ba, &items[i], (uint32_t)i, rows, &parts[b->n_seq], &e);
        if (st != INFER_OK)
            item_failed(o, &items[i], st, &e);
    }
}

static void run_batch(infer_engine *engine, const struct net *net, struct batch *b, const struct part *parts,
                      infer_step_item *items, struct outcome *o)
{
    infer_error e = {0};
    infer_status st;
    do {
        st = workspace_fit(&engine->ws, net, b->n_row, &e);
        if (st == INFER_OK)
            st = adapter_workspace_fit(&engine->ws.adapt, net, b, &e);
        if (st == INFER_OK)
            st = forward(net, &engine->ws, b, &e);
    } while (st == INFER_ERROR_NO_MEMORY && prefix_give_way(engine)); /* of a batch that failed nothing is kept */
    for (uint32_t i = 0; i < b->n_seq; i++) {
        infer_step_item *it = &items[engine->batch->items[i]];
        infer_status one = st == INFER_OK ? commit(it, &parts[i], b->finite, &e) : st;
        if (one != INFER_OK)
            item_failed(o, it, one, &e);
    }
}

/* How many of the item's next elements are rows of one prefix, one after the other. */
static uint64_t prefix_rows(const infer_step_item *it)
{
    uint64_t n = 0, goal = item_goal(it);
    if (!goal) /* an empty session has no elements to point to */
        return 0;
    const struct element *e = it->session->elements + it->session->computed;
    while (n < goal && e[n].id == ELEMENT_PREFIX && e[n].set == e->set && e[n].row == e->row + n)
        n++;
    return n;
}

/* Keys and values of n elements of a prefix go to their pages. */
static infer_status write_prefix(infer_step_item *it, uint64_t n, infer_error *err)
{
    infer_session *s = it->session;
    infer_engine *engine = s->model->engine;
    const struct element *e = s->elements + s->computed;
    struct dev_seq seqs[NET_KV_GROUPS];
    infer_status st = INFER_OK;
    for (uint32_t g = 0; g < NET_KV_GROUPS && st == INFER_OK; g++) {
        st = kv_seq_reserve(&s->kv[g], engine->kv, engine->env, engine->dev, s->computed, s->computed + n, err);
        seqs[g] = (struct dev_seq){0, (uint32_t)n, s->computed, s->kv[g].refs};
    }
    if (st == INFER_OK) {
        prefix_write(s->model->net, session_set_at(&s->sets, e->set)->uses[0].adapter, e->row, s->kv_type, seqs);
        st = engine->dev->ops->sync(engine->dev, err);
    }
    return st == INFER_OK ? commit(it, &(struct part){.s = s, .n = n}, NULL, err) : st;
}

/* Prefixes that come next in any of the sessions. */
static void write_prefixes(infer_step_item *items, uint64_t count, struct outcome *o)
{
    infer_error e = {0};
    for (uint64_t i = 0; i < count; i++)
        for (uint64_t n; items[i].status == INFER_OK && (n = prefix_rows(&items[i])) > 0;) {
            infer_status st = write_prefix(&items[i], n, &e);
            if (st != INFER_OK)
                item_failed(o, &items[i], st, &e);
        }
}

#define SHARED_ROWS 64u /* of a batch while another thread waits for its turn: bounds how long that takes. Results do not depend on it */

static bool any_left(const infer_step_item *items, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (items[i].status == INFER_OK && item_goal(&items[i]))
            return true;
    return false;
}

/* Those that still have work. */
static void all_failed(infer_step_item *items, uint64_t count, infer_status st, const infer_error *e, struct outcome *o)
{
    for (uint64_t i = 0; i < count; i++)
        if (items[i].status == INFER_OK && item_goal(&items[i]))
            item_failed(o, &items[i], st, e);
}

/* One batch, after the prefixes that come first; false: nothing was left. The lock is held. */
static bool step_batch(infer_engine *engine, const struct net *net, infer_step_item *items, uint64_t count, struct outcome *o)
{
    struct batch_arrays *ba = engine->batch;
    struct part parts[ENGINE_BATCH_ROWS];
    struct batch b = {.ids = ba->ids, .positions = ba->positions, .embeddings = ba->embeddings, .hi = {ba->hi, ba->hi},
                      .exact_pages = ba->exact_pages, .lo = {ba->lo[0], ba->lo[1]}, .out_rows = ba->out_rows, .out = ba->out,
                      .finite = ba->finite, .taps = ba->taps, .runs = ba->runs};
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++)
        b.seqs[g] = ba->seqs[g];
    if (turns_stop(&engine->step_lock)) {
        infer_error e = {0};
        all_failed(items, count, err_set(&e, INFER_ERROR_CANCELLED, "cancelled"), &e, o);
        return false;
    }
    write_prefixes(items, count, o);
    fill_batch(&b, ba, turns_wanted(&engine->step_lock) ? SHARED_ROWS : ENGINE_BATCH_ROWS, parts, items, count, o);
    if (!b.n_seq)
        return false;
    run_batch(engine, net, &b, parts, items, o);
    return true;
}

static void step_all(infer_engine *engine, const struct net *net, infer_step_item *items, uint64_t count,
                     const infer_cancel *cancel, struct outcome *o)
{
    infer_error e = {0};
    infer_status st = engine_take(engine, cancel, &e);
    if (st != INFER_OK) {
        all_failed(items, count, st, &e, o);
        return;
    }
    struct fpenv fp = fpenv_enter();
    while (st == INFER_OK && step_batch(engine, net, items, count, o))
        /* A long prompt does not hold up others' steps. Each batch is filled anew: nothing of this call lies in the engine now. */
        if (any_left(items, count) && turns_wanted(&engine->step_lock)) {
            engine_give(engine);
            st = engine_take(engine, cancel, &e);
        }
    fpenv_leave(fp);
    if (st == INFER_OK)
        engine_give(engine);
    else
        all_failed(items, count, st, &e, o);
}

/* How many of the session's elements need neither logits nor hidden states, from its first one on: those may come from the prefix cache. The last one
 * never does. */
static uint64_t without_results(const infer_step_item *it)
{
    const infer_session *s = it->session;
    uint64_t n = s->computed;
    while (n + 1 < s->length && !wants_logits(it, n) && !wants_hidden(it, n))
        n++;
    return n;
}

infer_status engine_step(infer_step_item *items, uint64_t count, const infer_cancel *cancel, infer_error *err)
{
    struct outcome o = {INFER_OK, err};
    infer_error e = {0};
    if (!count)
        return INFER_OK;
    infer_model *model = items[0].session->model;
    infer_engine *engine = model->engine;
    for (uint64_t i = 0; i < count; i++) {
        items[i].done = 0;
        items[i].status = INFER_OK;
    }
    infer_status st = cancel_is_set(cancel) ? err_set(&e, INFER_ERROR_CANCELLED, "cancelled") : file_check(model->file, &e);
    if (st != INFER_OK) { /* no session has been touched */
        for (uint64_t i = 0; i < count; i++)
            item_failed(&o, &items[i], st, &e);
        return o.status;
    }
    for (uint64_t i = 0; i < count; i++) {
        infer_session *s = items[i].session;
        s->prefix.taken = s->prefix.stop = 0;
        st = session_ready(s, cancel, &e);
        if (st == INFER_OK)
            st = session_adapters_ready(s, &e);
        if (st != INFER_OK) {
            item_failed(&o, &items[i], st, &e);
            continue;
        }
        s->pending_from = s->computed;
        if (items[i].hidden)
            items[i].hidden->rows = 0;
        if (items[i].logits == INFER_ROWS_LAST)
            session_want_last_logits(s);
        if (items[i].hidden && items[i].hidden->elements == INFER_ROWS_LAST && s->length && s->computed == s->length)
            session_rewind(s, s->length - 1);
        if (item_goal(&items[i])) { /* a session with nothing to do keeps its logits */
            s->n_logits_rows = 0;
            prefix_find(s, without_results(&items[i]), cancel);
            st = s->prefix.taken ? session_ready(s, cancel, &e) : INFER_OK;
            if (st != INFER_OK)
                item_failed(&o, &items[i], st, &e);
        }
    }
    step_all(engine, model->net, items, count, cancel, &o);
    for (uint64_t i = 0; i < count; i++) {
        prefix_stepped(items[i].session, items[i].done);
        items[i].done += items[i].session->prefix.taken;
    }
    prefix_disk_write(engine, cancel);
    return o.status;
}
