#include "engine/engine.h"

#include <string.h>

#include "base/fpenv.h"
#include "kernels/dequant.h"

/* ---- Open adapters ---- */

/* The last reference on the adapter has gone. */
static void unbind(void *user)
{
    struct bound_adapter *b = user;
    infer_model *m = b->model;
    os_mutex_lock(&m->adapters.lock);
    *b->link = b->next;
    if (b->next)
        b->next->link = b->link;
    os_mutex_unlock(&m->adapters.lock);
    net_adapter_free(b->net);
    mem_free(&m->engine->env->alloc, b);
    model_release(m);
}

static void enlist(struct bound_adapter *b, infer_adapter *a)
{
    struct model_adapters *all = &b->model->adapters;
    a->bound = b;
    a->unbind = unbind;
    b->adapter = a;
    os_mutex_lock(&all->lock);
    b->next = all->first;
    b->link = &all->first;
    if (b->next)
        b->next->link = &b->next;
    all->first = b;
    os_mutex_unlock(&all->lock);
}

static infer_status bind(infer_model *m, infer_adapter *a, const infer_cancel *cancel, infer_error *err)
{
    infer_engine *engine = m->engine;
    struct bound_adapter *b = mem_zalloc(&engine->env->alloc, sizeof *b);
    if (!b)
        return err_no_memory(err);
    infer_status st = engine_take(engine, cancel, err);
    if (st == INFER_OK) {
        struct fpenv fp = fpenv_enter();
        st = net_adapter_bind(m->net, a, &b->net, err);
        fpenv_leave(fp);
        engine_give(engine);
    }
    if (st != INFER_OK) {
        mem_free(&engine->env->alloc, b);
        return st;
    }
    b->model = model_ref(m);
    enlist(b, a);
    return INFER_OK;
}

infer_status model_adapter_open(infer_model *m, const infer_source *source, const infer_open_options *o, infer_adapter **out, infer_error *err)
{
    infer_adapter *a = NULL;
    infer_status st;
    do
        st = adapter_open(m->engine->env, source, o->map, o->cancel, &a, err);
    while (prefix_retry(m->engine, st, err));
    if (st != INFER_OK)
        return st;
    do
        st = bind(m, a, o->cancel, err);
    while (prefix_retry(m->engine, st, err));
    if (st != INFER_OK) {
        file_failed(a->file, err, st);
        adapter_release(a);
        return st;
    }
    *out = a;
    return INFER_OK;
}

infer_adapter *model_adapter_find(infer_model *m, struct hash_128 hash)
{
    infer_adapter *found = NULL;
    os_mutex_lock(&m->adapters.lock);
    for (struct bound_adapter *b = m->adapters.first; b && !found; b = b->next)
        if (hash_128_equal(b->adapter->hash, hash) && ref_try(&b->adapter->ref))
            found = b->adapter;
    os_mutex_unlock(&m->adapters.lock);
    return found;
}

/* ---- Sets ---- */

struct adapter_record adapter_record_of(const struct adapter_set *s, uint32_t i)
{
    struct adapter_record r = {.hash = s->adapters[i]->hash, .mode = s->uses[i].mode, .first_layer = s->uses[i].first_layer,
                               .end_layer = s->uses[i].end_layer};
    memcpy(&r.strength, &s->uses[i].strength, sizeof r.strength);
    return r;
}

static struct hash_128 identity(const struct adapter_set *s)
{
    struct adapter_record records[ADAPTER_SET_MAX];
    for (uint32_t i = 0; i < s->n; i++)
        records[i] = adapter_record_of(s, i);
    struct hash_128 h = hash_128(records, s->n * sizeof *records, 0);
    h.lo += !h.lo; /* 0 stands for no set, in each half that is used alone */
    return h;
}

infer_status adapter_set_create(infer_model *m, const struct adapter_entry *entries, uint32_t n, struct adapter_set **out, infer_error *err)
{
    struct adapter_set *s = mem_zalloc(&m->engine->env->alloc, sizeof *s);
    if (!s)
        return err_no_memory(err);
    ref_init(&s->ref);
    s->model = model_ref(m);
    s->n = n;
    for (uint32_t i = 0; i < n; i++) {
        const struct adapter_entry *e = &entries[i];
        s->adapters[i] = adapter_ref(e->adapter);
        s->uses[i] = (struct net_adapter_use){adapter_bound(e->adapter)->net, e->strength, e->mode, e->first_layer, e->end_layer};
    }
    s->id = identity(s);
    *out = s;
    return INFER_OK;
}

struct adapter_set *adapter_set_ref(struct adapter_set *s)
{
    ref_get(&s->ref);
    return s;
}

void adapter_set_release(struct adapter_set *s)
{
    if (!s || !ref_put(&s->ref))
        return;
    infer_model *m = s->model;
    for (uint32_t i = 0; i < s->n; i++)
        adapter_release(s->adapters[i]);
    mem_free(&m->engine->env->alloc, s);
    model_release(m);
}

/* ---- The table of a session ---- */

infer_status session_sets_copy(struct session_sets *to, const struct session_sets *from, const struct alloc *a, infer_error *err)
{
    *to = (struct session_sets){.room = from->room, .current = from->current, .active = from->active};
    if (from->room) {
        to->table = mem_zarray(a, from->room, sizeof(void *));
        if (!to->table) {
            *to = (struct session_sets){0};
            return err_no_memory(err);
        }
    }
    for (uint32_t i = 0; i < from->room; i++)
        to->table[i] = from->table[i] ? adapter_set_ref(from->table[i]) : NULL;
    to->wanted = from->wanted ? adapter_set_ref(from->wanted) : NULL;
    return INFER_OK;
}

void session_sets_free(struct session_sets *s, const struct alloc *a)
{
    for (uint32_t i = 0; i < s->room; i++)
        adapter_set_release(s->table[i]);
    mem_free(a, s->table);
    adapter_set_release(s->wanted);
    *s = (struct session_sets){0};
}

/* Lets go of sets that no element has. The present one may be about to be asked for again. */
static uint32_t drop_unused(infer_session *s, uint8_t *used)
{
    struct session_sets *t = &s->sets;
    uint32_t dropped = 0;
    memset(used, 0, t->room);
    for (uint64_t i = 0; i < s->length; i++)
        if (s->elements[i].set)
            used[s->elements[i].set - 1] = 1;
    for (uint32_t i = 0; i < t->room; i++) {
        if (used[i] || i + 1 == t->current || !t->table[i])
            continue;
        adapter_set_release(t->table[i]);
        t->table[i] = NULL;
        dropped++;
    }
    return dropped;
}

/* More places: those of sets that are not needed any more, when they are many enough, else new ones. */
static infer_status make_places(infer_session *s, infer_error *err)
{
    struct session_sets *t = &s->sets;
    const struct alloc *a = &s->model->engine->env->alloc;
    uint32_t room = t->room ? t->room * 2 : 4;
    uint8_t *used = mem_array(a, t->room + 1, 1);
    if (!used)
        return err_no_memory(err);
    uint32_t dropped = t->room ? drop_unused(s, used) : 0;
    mem_free(a, used);
    if (dropped && dropped >= t->room / 2)
        return INFER_OK;
    struct adapter_set **table = mem_zarray(a, room, sizeof *table);
    if (!table)
        return dropped ? INFER_OK : err_no_memory(err);
    if (t->room)
        memcpy(table, t->table, t->room * sizeof *table);
    mem_free(a, t->table);
    t->table = table;
    t->room = room;
    return INFER_OK;
}

infer_status session_reserve_sets(infer_session *s, uint64_t n, infer_error *err)
{
    for (;;) {
        uint64_t holes = 0;
        for (uint32_t i = 0; i < s->sets.room; i++)
            holes += !s->sets.table[i];
        infer_status st = holes >= n ? INFER_OK : make_places(s, err);
        if (holes >= n || st != INFER_OK)
            return st;
    }
}

infer_status session_add_set(infer_session *s, struct adapter_set *set, uint32_t *number, infer_error *err)
{
    struct session_sets *t = &s->sets;
    uint32_t hole = 0;
    for (uint32_t i = t->room; i--;) {
        if (!t->table[i])
            hole = i + 1;
        else if (hash_128_equal(t->table[i]->id, set->id)) {
            *number = i + 1;
            return INFER_OK;
        }
    }
    if (!hole) {
        infer_status st = make_places(s, err);
        if (st != INFER_OK)
            return st;
        while (t->table[hole])
            hole++;
        hole++;
    }
    t->table[hole - 1] = adapter_set_ref(set);
    *number = hole;
    return INFER_OK;
}

/* ---- Setting ---- */

static infer_status bad(infer_error *err, const char *name, const char *why)
{
    return err_at(err, INFER_ERROR_ARGUMENT, name, strlen(name), ERR_NO_OFFSET, "%s", why);
}

static infer_status check_entry(const infer_model *m, const struct adapter_entry *e, infer_error *err)
{
    uint32_t layers = m->net->h.n_layer;
    if (adapter_bound(e->adapter)->model != m)
        return bad(err, "adapter", "the adapter was opened for another model");
    if (!(e->strength >= -ADAPTER_MAX_STRENGTH && e->strength <= ADAPTER_MAX_STRENGTH))
        return bad(err, "scale", "not a number, or beyond 65,536");
    if (e->first_layer >= e->end_layer || e->end_layer > layers)
        return err_at(err, INFER_ERROR_ARGUMENT, "first_layer", 11, ERR_NO_OFFSET, "the model has %u layers", layers);
    if (e->mode != NET_STEER_ADD && (e->mode != NET_STEER_PROJECT || e->adapter->kind != ADAPTER_STEERING))
        return bad(err, "mode", "unknown, or not for this kind of adapter");
    return INFER_OK;
}

static bool is_attached(const infer_adapter *a)
{
    return a->kind == ADAPTER_LORA || a->kind == ADAPTER_STEERING;
}

static infer_status check_entries(const infer_model *m, const struct adapter_entry *entries, uint32_t n, infer_error *err)
{
    infer_status st = n <= ADAPTER_SET_MAX ? INFER_OK : bad(err, "count", "at most 16 adapters at once");
    for (uint32_t i = 0; i < n && st == INFER_OK; i++) {
        st = check_entry(m, &entries[i], err);
        if (st == INFER_OK && !is_attached(entries[i].adapter))
            st = bad(err, "adapter", "soft prompts and prefixes are appended (infer_session_append_adapter), not attached");
    }
    return st;
}

infer_status adapter_entries_check(const infer_model *m, const struct adapter_entry *entries, uint32_t n, infer_error *err)
{
    infer_status st = INFER_OK;
    for (uint32_t i = 0; i < n && st == INFER_OK; i++)
        st = entries[i].strength != 0 ? INFER_OK : bad(err, "scale", "an adapter without effect");
    if (st == INFER_OK && n == 1 && entries[0].adapter->kind == ADAPTER_PREFIX)
        return check_entry(m, entries, err);
    return st == INFER_OK ? check_entries(m, entries, n, err) : st;
}

/* The set of those items of wanted whose bits are set; 0: none of them. */
static infer_status number_of(infer_session *s, const struct adapter_set *wanted, uint32_t active, uint32_t *number, infer_error *err)
{
    struct adapter_entry entries[ADAPTER_SET_MAX];
    struct adapter_set *set;
    uint32_t n = 0;
    for (uint32_t i = 0; wanted && i < wanted->n; i++)
        if (active >> i & 1)
            entries[n++] = (struct adapter_entry){wanted->adapters[i], wanted->uses[i].strength, wanted->uses[i].mode,
                                                  wanted->uses[i].first_layer, wanted->uses[i].end_layer};
    *number = 0;
    if (!n)
        return INFER_OK;
    infer_status st = adapter_set_create(s->model, entries, n, &set, err);
    if (st != INFER_OK)
        return st;
    st = session_add_set(s, set, number, err);
    adapter_set_release(set);
    return st;
}

static infer_status set_adapters(infer_session *s, const struct adapter_entry *entries, uint32_t n, infer_error *err)
{
    struct adapter_entry kept[ADAPTER_SET_MAX];
    struct adapter_set *wanted = NULL;
    uint32_t n_kept = 0, active = 0, number = 0;
    infer_status st = check_entries(s->model, entries, n, err);
    if (st != INFER_OK)
        return st;
    for (uint32_t i = 0; i < n; i++)
        if (entries[i].strength != 0) {
            active |= (uint32_t)(entries[i].adapter->n_invocation == 0) << n_kept;
            kept[n_kept++] = entries[i];
        }
    st = n_kept ? adapter_set_create(s->model, kept, n_kept, &wanted, err) : INFER_OK;
    if (st == INFER_OK)
        st = number_of(s, wanted, active, &number, err);
    if (st != INFER_OK) {
        adapter_set_release(wanted);
        return st;
    }
    adapter_set_release(s->sets.wanted);
    s->sets.wanted = wanted;
    s->sets.active = active;
    s->sets.current = number;
    return INFER_OK;
}

infer_status session_set_adapters(infer_session *s, const struct adapter_entry *entries, uint32_t n, infer_error *err)
{
    infer_status st;
    do
        st = set_adapters(s, entries, n, err);
    while (prefix_retry(s->model->engine, st, err));
    return st;
}

/* ---- Invocation tokens ---- */

/* Where the adapter's invocation stands last among the elements from `low` on, when it ends behind `first`; UINT64_MAX: nowhere. */
static uint64_t last_invocation(const infer_session *s, const infer_adapter *a, uint64_t low, uint64_t first)
{
    for (uint64_t end = s->length, n = a->n_invocation; end > first && end >= low + n; end--) {
        uint64_t i = 0;
        while (i < n && s->elements[end - n + i].id == a->invocation[i])
            i++;
        if (i == n)
            return end - n;
    }
    return UINT64_MAX;
}

/* Elements [from, to) come under one set. */
struct segment {
    uint64_t from, to;
    uint32_t number;
};

/* Cuts [from, length) where items of wanted begin to act (at, UINT64_MAX: not here); *active: before, then after. *n segments. */
static infer_status cut(infer_session *s, const uint64_t *at, uint64_t from, uint32_t *active, struct segment *segments, uint32_t *n,
                        infer_error *err)
{
    infer_status st = INFER_OK;
    for (*n = 0; from < s->length && st == INFER_OK; from = segments[(*n)++].to) {
        struct segment *g = &segments[*n];
        *g = (struct segment){from, s->length, 0};
        for (uint32_t i = 0; i < s->sets.wanted->n; i++) {
            if (at[i] <= from)
                *active |= (uint32_t)1 << i;
            else if (at[i] < g->to)
                g->to = at[i];
        }
        st = number_of(s, s->sets.wanted, *active, &g->number, err);
    }
    return st;
}

/* Elements from `first` on are marked anew, and pending ones before it from where an invocation began. */
static infer_status mark_all(infer_session *s, const uint64_t *at, uint64_t first, infer_error *err)
{
    struct segment segments[ADAPTER_SET_MAX + 1];
    uint64_t from = first;
    uint32_t active = s->sets.active, n = 0;
    for (uint32_t i = 0; i < s->sets.wanted->n; i++)
        if (at[i] != UINT64_MAX) {
            active &= ~((uint32_t)1 << i);
            from = at[i] < from ? at[i] : from;
        }
    infer_status st = session_reserve_sets(s, ADAPTER_SET_MAX + 1, err); /* so that none of the new sets is taken for unused */
    if (st == INFER_OK)
        st = cut(s, at, from, &active, segments, &n, err);
    if (st == INFER_OK && from < first)
        st = session_own_elements(s, err);
    if (st != INFER_OK)
        return st;
    for (uint32_t i = 0; i < n; i++)
        for (uint64_t e = segments[i].from; e < segments[i].to; e++)
            s->elements[e].set = segments[i].number;
    s->sets.current = segments[n - 1].number;
    s->sets.active = active;
    return INFER_OK;
}

infer_status session_invoke(infer_session *s, uint64_t first, infer_error *err)
{
    const struct adapter_set *w = s->sets.wanted;
    uint64_t at[ADAPTER_SET_MAX];
    bool any = false;
    for (uint32_t i = 0; w && i < w->n; i++) {
        at[i] = w->adapters[i]->n_invocation ? last_invocation(s, w->adapters[i], s->computed, first) : UINT64_MAX;
        any = any || at[i] != UINT64_MAX;
    }
    return any ? mark_all(s, at, first, err) : INFER_OK;
}

/* Whether element e was appended under item i of wanted. */
static bool was_active(const infer_session *s, uint64_t e, uint32_t i)
{
    const struct adapter_set *set = session_set_at(&s->sets, s->elements[e].set);
    struct adapter_record want = adapter_record_of(s->sets.wanted, i);
    for (uint32_t k = 0; set && k < set->n; k++) {
        struct adapter_record r = adapter_record_of(set, k);
        if (!memcmp(&r, &want, sizeof r))
            return true;
    }
    return false;
}

infer_status session_uninvoke(infer_session *s, uint64_t length, infer_error *err)
{
    const struct adapter_set *w = s->sets.wanted;
    uint32_t active = s->sets.active, number;
    for (uint32_t i = 0; w && i < w->n; i++)
        if (w->adapters[i]->n_invocation && !(length && was_active(s, length - 1, i)))
            active &= ~((uint32_t)1 << i);
    if (active == s->sets.active)
        return INFER_OK;
    infer_status st = number_of(s, w, active, &number, err);
    if (st != INFER_OK)
        return st;
    s->sets.active = active;
    s->sets.current = number;
    return INFER_OK;
}

/* ---- From another session ---- */

infer_status session_take_sets(infer_session *s, const infer_session *from, uint64_t dst, uint64_t src, uint64_t count, infer_error *err)
{
    const struct alloc *a = &s->model->engine->env->alloc;
    uint32_t n = from->sets.room;
    uint32_t *number = mem_zarray(a, (size_t)n + 1, sizeof *number);
    infer_status st = number ? session_reserve_sets(s, n, err) : err_no_memory(err);
    for (uint32_t i = 0; i < n && st == INFER_OK; i++)
        if (from->sets.table[i])
            st = session_add_set(s, from->sets.table[i], &number[i + 1], err);
    for (uint64_t i = 0; i < count && st == INFER_OK; i++)
        s->elements[dst + i].set = number[from->elements[src + i].set];
    mem_free(a, number);
    return st;
}

/* ---- Soft prompts and prefixes ---- */

static infer_status append_rows(infer_session *s, const infer_adapter *a, infer_error *err)
{
    const struct alloc *al = &s->model->engine->env->alloc;
    const struct net *net = s->model->net;
    uint64_t n = a->rows.n_rows, width = net->h.n_embd;
    float factor = net->arch->scales_rows ? net->h.embed_scale : 1;
    float *rows = mem_array(al, (size_t)(n * width), sizeof *rows);
    uint64_t *keys = mem_array(al, (size_t)n, 16);
    infer_status st = rows && keys ? INFER_OK : err_no_memory(err);
    for (uint64_t i = 0; i < n && st == INFER_OK; i++) {
        struct {
            struct hash_128 hash;
            uint64_t row;
        } what = {a->hash, i};
        struct hash_128 key = hash_128(&what, sizeof what, 0);
        keys[2 * i] = key.lo;
        keys[2 * i + 1] = key.hi;
        dequant_row(a->rows.type, (const char *)a->rows.data + i * (a->rows.bytes / n), rows + i * width, width);
        for (uint64_t k = 0; k < width && factor != 1; k++)
            rows[i * width + k] *= factor;
    }
    if (st == INFER_OK)
        st = session_append_rows(s, rows, keys, n, err);
    mem_free(al, rows);
    mem_free(al, keys);
    return st;
}

static infer_status append_adapter(infer_session *s, infer_adapter *a, infer_error *err)
{
    struct adapter_entry e = {a, 1, NET_STEER_ADD, 0, s->model->net->h.n_layer};
    struct adapter_set *set;
    infer_status st = check_entry(s->model, &e, err);
    if (st != INFER_OK)
        return st;
    if (a->kind == ADAPTER_SOFT_PROMPT)
        return append_rows(s, a, err);
    if (a->kind != ADAPTER_PREFIX)
        return bad(err, "adapter", "LoRA and steering vectors are attached (infer_session_set_adapters), not appended");
    st = adapter_set_create(s->model, &e, 1, &set, err);
    if (st != INFER_OK)
        return st;
    st = session_append_prefix(s, set, 0, (uint32_t)a->rows.n_rows, err);
    adapter_set_release(set);
    return st;
}

infer_status session_append_adapter(infer_session *s, infer_adapter *a, infer_error *err)
{
    infer_status st;
    do
        st = append_adapter(s, a, err);
    while (prefix_retry(s->model->engine, st, err));
    return st;
}

infer_status session_adapters_ready(const infer_session *s, infer_error *err)
{
    infer_status st = INFER_OK;
    uint32_t last = 0;
    for (uint64_t i = s->computed ? s->computed - 1 : 0; i < s->length && st == INFER_OK; i++) { /* one back: a step may want its logits */
        const struct adapter_set *set = s->elements[i].set != last ? session_set_at(&s->sets, s->elements[i].set) : NULL;
        last = s->elements[i].set;
        for (uint32_t k = 0; set && k < set->n && st == INFER_OK; k++)
            st = adapter_check(set->adapters[k], err);
    }
    return st;
}
