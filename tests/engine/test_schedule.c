/* Random operations on dozens of sessions of a model, each checked against cold recomputation: whatever way a state came about, its logits
 * and its draws are those of a session that computed the same elements from nothing, to the bit.
 *
 *     test_schedule [OPERATIONS] [SEED]
 *
 * Operations stand in a table (ops); a new one takes a line there and a function that changes both the library's object and its shadow,
 * which is what that object should hold. Cold results are kept by element sequence, in a tree, so that each prefix is computed cold once. */
#include "state_util.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "sampling/sampler.h"

enum { SLOTS = 24, CHECKPOINTS = 12, NAMES = 6, MAX_LEN = 1300 };
#define ROW_ID (-1000) /* in a shadow: an embedding row of content ROW_ID - id */
enum { ADAPTERS = 3, SETS = 9 }; /* set 0 is none in force */

static const int32_t kv_types[] = {INFER_KV_F16, INFER_KV_F32, INFER_KV_BF16, INFER_KV_INT8, INFER_KV_INT8_64, INFER_KV_MIXED_F16, INFER_KV_MIXED_F32};
enum { KV_TYPES = sizeof kv_types / sizeof *kv_types };

/* What a session or a checkpoint should hold. */
struct shadow {
    int32_t ids[MAX_LEN];
    uint8_t sets[MAX_LEN]; /* the adapters of each element */
    uint8_t set;           /* those in force for the next ones */
    uint32_t len, n_ctx;
    uint32_t kv; /* index into kv_types */
    infer_sampling sampling;
    bool generating;
    bool moved; /* shifted or grafted some time: the library says whether it is still (or was ever) approximate */
};

struct slot {
    infer_session *s;
    struct shadow is;
};

struct kept {
    infer_checkpoint *c;
    struct shadow is;
};

/* Cold logits of one prefix. Nodes of a tree: a child is found by (parent, id, set). */
struct node {
    uint32_t parent;
    int32_t id;
    uint8_t set;
    uint32_t next; /* in its hash chain */
    float *logits; /* NULL: not computed yet */
};

struct cold {
    infer_engine *engine;
    infer_model *model;
    infer_adapter *adapters[ADAPTERS];
    struct node *nodes; /* [0 .. KV_TYPES): the roots */
    uint32_t n, cap;
    uint32_t *heads; /* hash chains */
    uint64_t runs, hits;
};

#define HEADS 65536u

struct world {
    const char *name;
    infer_engine *engine;
    infer_model *model;
    infer_store *store;
    infer_adapter *adapters[ADAPTERS]; /* [0] NULL: sessions have none */
    struct slot slots[SLOTS];
    struct kept kept[CHECKPOINTS];
    struct kept named[NAMES]; /* what the store should hold; c is borrowed from it */
    struct cold cold;
    uint32_t n_vocab, n_embd;
    uint32_t longest;         /* sessions do not grow beyond this */
    uint64_t seed, rng, op, checks, draws, refused;
    const char *doing;
};

static uint64_t rnd(struct world *w, uint64_t n)
{
    return test_rand(&w->rng) % n;
}

static void good(struct world *w, infer_status st)
{
    if (st != INFER_OK)
        fail_msg("%s, seed %" PRIu64 ", operation %" PRIu64 " (%s): %s: %s", w->name, w->seed, w->op, w->doing, infer_status_name(st),
                 error.text);
}

static void demand(struct world *w, bool condition, const char *what)
{
    if (!condition)
        fail_msg("%s, seed %" PRIu64 ", operation %" PRIu64 " (%s): %s", w->name, w->seed, w->op, w->doing, what);
}

/* ---- Adapters ---- */

/* Which of the adapters are in force in each set, how strongly, and where. */
static const struct {
    uint32_t n;
    struct {
        int adapter;
        float scale;
        int32_t mode;
        uint32_t first_layer, layer_count;
    } uses[2];
} sets[SETS] = {
    {0, {{0}}},
    {1, {{0, 1, INFER_ADAPTER_ADD, 0, 0}}},
    {1, {{0, 0.5f, INFER_ADAPTER_ADD, 0, 0}}},
    {1, {{0, 1, INFER_ADAPTER_ADD, 1, 0}}},
    {1, {{1, 1, INFER_ADAPTER_ADD, 0, 0}}},
    {1, {{2, 1, INFER_ADAPTER_ADD, 0, 0}}},
    {1, {{2, 1, INFER_ADAPTER_PROJECT, 0, 0}}},
    {2, {{0, 1, INFER_ADAPTER_ADD, 0, 0}, {1, -0.75f, INFER_ADAPTER_ADD, 0, 2}}},
    {2, {{1, -0.75f, INFER_ADAPTER_ADD, 0, 2}, {0, 1, INFER_ADAPTER_ADD, 0, 0}}}, /* the order counts */
};

static infer_status put_in_force(infer_session *s, infer_adapter *const *adapters, uint32_t set)
{
    infer_adapter_use u[2];
    for (uint32_t i = 0; i < sets[set].n; i++) {
        INFER_INIT(&u[i]);
        u[i].adapter = adapters[sets[set].uses[i].adapter];
        u[i].scale = sets[set].uses[i].scale;
        u[i].mode = sets[set].uses[i].mode;
        u[i].first_layer = sets[set].uses[i].first_layer;
        u[i].layer_count = sets[set].uses[i].layer_count;
    }
    return infer_session_set_adapters(s, u, sets[set].n, &error);
}

/* A file of steering vectors for any model, in memory: safetensors with one tensor "directions" [layers][width]. */
static infer_adapter *steering_of(infer_model *m, uint64_t seed)
{
    infer_model_info mi;
    infer_source source;
    infer_adapter *a;
    char head[128];
    INFER_INIT(&mi);
    ok(infer_model_get_info(m, &mi, &error));
    size_t n = (size_t)mi.n_layer * mi.n_embd;
    int len = snprintf(head, sizeof head, "{\"directions\":{\"dtype\":\"F32\",\"shape\":[%u,%u],\"data_offsets\":[0,%zu]}}", mi.n_layer,
                       mi.n_embd, n * 4);
    len = (len + 7) / 8 * 8;
    for (int i = (int)strlen(head); i < len; i++)
        head[i] = ' ';
    uint64_t size = (uint64_t)len;
    uint8_t *file = malloc(8 + size + n * 4);
    assert_non_null(file);
    memcpy(file, &size, 8);
    memcpy(file + 8, head, (size_t)size);
    for (size_t i = 0; i < n; i++) {
        float x = test_rand_f32(&seed) * 0.3f;
        memcpy(file + 8 + size + i * 4, &x, 4);
    }
    infer_source_memory(&source, file, 8 + size + n * 4);
    ok(infer_adapter_open(m, &source, NULL, &a, &error));
    free(file);
    return a;
}

/* NULL: steering vectors only. */
static void open_adapters(infer_model *m, const char *const *names, infer_adapter **out)
{
    char path[512];
    for (int i = 0; i < ADAPTERS; i++) {
        if (!names[i]) {
            out[i] = steering_of(m, (uint64_t)i + 9);
            continue;
        }
        (void)snprintf(path, sizeof path, INFER_SOURCE_DIR "/tests/data/adapters/%s", names[i]);
        ok(infer_adapter_open_path(m, path, &out[i], &error));
    }
}

/* ---- Cold results ---- */

static void cold_open(struct cold *c, const char *fixture, const char *const *adapters)
{
    infer_engine_options o;
    INFER_INIT(&o);
    o.threads = 1;
    ok(infer_engine_create(&o, &c->engine, &error));
    ok(infer_model_open_path(c->engine, fixture_path(fixture), &c->model, &error));
    if (adapters)
        open_adapters(c->model, adapters, c->adapters);
    c->heads = calloc(HEADS, sizeof *c->heads);
    c->cap = 4096;
    c->nodes = calloc(c->cap, sizeof *c->nodes);
    assert_true(c->heads && c->nodes);
    c->n = KV_TYPES;
}

static void cold_forget(struct cold *c)
{
    for (uint32_t i = 0; i < c->n; i++)
        free(c->nodes[i].logits);
    memset(c->heads, 0, HEADS * sizeof *c->heads);
    c->n = KV_TYPES;
}

static void cold_close(struct cold *c)
{
    cold_forget(c);
    free(c->nodes);
    free(c->heads);
    for (int i = 0; i < ADAPTERS; i++)
        infer_adapter_release(c->adapters[i]);
    infer_model_release(c->model);
    infer_engine_release(c->engine);
}

/* The child of `parent` by id and adapters, made when it is not there. */
static uint32_t cold_child(struct cold *c, uint32_t parent, int32_t id, uint8_t set)
{
    uint32_t *head = &c->heads[(parent * 2654435761u ^ ((uint32_t)id * SETS + set) * 40503u) % HEADS];
    for (uint32_t i = *head; i; i = c->nodes[i].next)
        if (c->nodes[i].parent == parent && c->nodes[i].id == id && c->nodes[i].set == set)
            return i;
    if (c->n == c->cap) {
        c->cap *= 2;
        c->nodes = realloc(c->nodes, c->cap * sizeof *c->nodes);
        assert_non_null(c->nodes);
    }
    c->nodes[c->n] = (struct node){parent, id, set, *head, NULL};
    *head = c->n;
    return c->n++;
}

static void make_row(int32_t id, uint32_t width, float *row, uint64_t key[2])
{
    uint64_t state = (uint64_t)(ROW_ID - id) + 1;
    for (uint32_t i = 0; i < width; i++)
        row[i] = test_rand_f32(&state) * 0.5f;
    key[0] = (uint64_t)(ROW_ID - id);
    key[1] = 77;
}

static infer_status append_element(infer_session *s, uint32_t n_embd, int32_t id)
{
    float row[1024];
    uint64_t key[2];
    if (id > ROW_ID)
        return infer_session_append(s, &id, 1, &error);
    make_row(id, n_embd, row, key);
    return infer_session_append_rows(s, row, key, 1, &error);
}

/* Computes all of a sequence in one go, and keeps the logits of every element. */
static void cold_run(struct world *w, const struct shadow *is, uint32_t len)
{
    struct cold *c = &w->cold;
    infer_session *s = session_of_model(c->model, kv_types[is->kv], MAX_LEN);
    infer_step_item it;
    for (uint32_t i = 0; i < len; i++) {
        if (is->sets[i] != (i ? is->sets[i - 1] : 0))
            good(w, put_in_force(s, c->adapters, is->sets[i]));
        good(w, append_element(s, w->n_embd, is->ids[i]));
    }
    INFER_INIT(&it);
    it.session = s;
    it.logits = INFER_ROWS_ALL;
    good(w, infer_step(&it, 1, NULL, &error));
    for (uint32_t i = 0, node = is->kv; i < len; i++) {
        const float *row;
        node = cold_child(c, node, is->ids[i], is->sets[i]);
        if (c->nodes[node].logits)
            continue;
        good(w, infer_session_logits(s, i, &row, NULL, &error));
        c->nodes[node].logits = malloc(w->n_vocab * sizeof *row);
        assert_non_null(c->nodes[node].logits);
        memcpy(c->nodes[node].logits, row, w->n_vocab * sizeof *row);
    }
    infer_session_release(s);
    c->runs++;
}

/* Logits of the last of len elements (len at least 1). */
static const float *cold_logits(struct world *w, const struct shadow *is, uint32_t len)
{
    struct cold *c = &w->cold;
    if (c->n > 60000)
        cold_forget(c);
    for (int again = 0;; again++) {
        uint32_t node = is->kv;
        for (uint32_t i = 0; i < len; i++)
            node = cold_child(c, node, is->ids[i], is->sets[i]);
        if (c->nodes[node].logits) {
            c->hits += !again;
            return c->nodes[node].logits;
        }
        cold_run(w, is, len);
    }
}

/* ---- Checks ---- */

static void check_shape(struct world *w, const struct slot *t)
{
    int32_t ids[MAX_LEN];
    infer_session_info i = info_of(t->s);
    demand(w, i.length == t->is.len && i.computed <= i.length && i.n_ctx == t->is.n_ctx, "wrong length");
    demand(w, i.kv_shared_bytes <= i.kv_bytes && (!i.approximate || t->is.moved), "wrong info");
    good(w, infer_session_tokens(t->s, 0, i.length, ids, &error));
    for (uint32_t k = 0; k < t->is.len; k++)
        demand(w, ids[k] == (t->is.ids[k] <= ROW_ID ? -1 : t->is.ids[k]), "wrong elements");
}

/* Every row of logits that the session has. */
static void check_logits(struct world *w, const struct slot *t)
{
    infer_session_info i = info_of(t->s);
    for (uint64_t r = 0; r < i.logits_rows && !i.approximate; r++) {
        const float *row;
        uint64_t pos;
        good(w, infer_session_logits(t->s, r, &row, &pos, &error));
        demand(w, pos < t->is.len, "logits of no element");
        const float *want = cold_logits(w, &t->is, (uint32_t)pos + 1);
        demand(w, !memcmp(row, want, w->n_vocab * sizeof *row), "logits differ from cold recomputation");
        w->checks++;
    }
    check_shape(w, t);
}

/* The token drawn for position len is the one that these elements and settings give. */
static void check_draw(struct world *w, const struct shadow *is, uint32_t len, int32_t id)
{
    struct sampler sampler;
    infer_sample_result r = {.size = (uint32_t)sizeof r};
    int32_t ids[MAX_LEN];
    for (uint32_t i = 0; i < len; i++)
        ids[i] = is->ids[i] <= ROW_ID ? -1 : is->ids[i];
    struct sample_input in = {.logits = cold_logits(w, is, len), .ids = ids, .count = len, .position = len};
    good(w, sampler_init(&sampler, &alloc_default, w->n_vocab, w->n_vocab, &error));
    good(w, sampler_set(&sampler, &is->sampling, &error));
    good(w, sampler_sample(&sampler, &in, &r, &error));
    demand(w, r.id == id, "another token was drawn");
    sampler_free(&sampler);
    w->draws++;
}

static bool about_generating(struct world *w, const struct slot *t)
{
    infer_checkpoint *c;
    good(w, infer_checkpoint_create(t->s, &c, &error));
    bool yes = about(c).generating;
    infer_checkpoint_release(c);
    return yes;
}

/* ---- Choosing ---- */

static struct slot *any_session(struct world *w)
{
    for (uint64_t from = rnd(w, SLOTS), i = 0; i < SLOTS; i++)
        if (w->slots[(from + i) % SLOTS].s)
            return &w->slots[(from + i) % SLOTS];
    return NULL;
}

/* An empty slot; when all are full, one of them is dropped. */
static struct slot *room(struct world *w, const struct slot *keep)
{
    struct slot *t = &w->slots[rnd(w, SLOTS)];
    for (int i = 0; i < SLOTS && (t->s || t == keep); i++)
        t = &w->slots[i];
    while (t->s || t == keep) {
        t = &w->slots[rnd(w, SLOTS)];
        if (t == keep)
            continue;
        infer_session_release(t->s);
        t->s = NULL;
    }
    return t;
}

static struct kept *any_checkpoint(struct world *w)
{
    struct kept *k = &w->kept[rnd(w, CHECKPOINTS)];
    return k->c ? k : NULL;
}

static uint8_t any_set(struct world *w)
{
    return w->adapters[0] ? (uint8_t)rnd(w, SETS) : 0;
}

static void put_set(struct world *w, struct slot *t, uint8_t set)
{
    if (set == t->is.set)
        return;
    good(w, put_in_force(t->s, w->adapters, set));
    t->is.set = set;
}

static uint32_t growth(struct world *w, const struct slot *t, uint32_t most)
{
    uint32_t n = 1 + (uint32_t)rnd(w, most), room_left = t->is.len < w->longest ? w->longest - t->is.len : 0;
    return n < room_left ? n : room_left;
}

/* ---- Operations ---- */

/* A step may find no memory for pages: then somebody has to go, and nothing else has changed. */
static void after_step(struct world *w, infer_status st, struct slot *t)
{
    if (st == INFER_ERROR_LIMIT) {
        w->refused++;
        check_shape(w, t);
        struct slot *victim = any_session(w);
        infer_session_release(victim->s);
        victim->s = NULL;
        return;
    }
    good(w, st);
}

static void op_new(struct world *w)
{
    struct slot *t = room(w, NULL);
    memset(&t->is, 0, sizeof t->is);
    t->is.kv = (uint32_t)rnd(w, KV_TYPES);
    t->is.n_ctx = MAX_LEN - (uint32_t)rnd(w, 3);
    INFER_INIT(&t->is.sampling);
    t->s = session_of_model(w->model, kv_types[t->is.kv], t->is.n_ctx);
}

/* A stranger with the elements of another session, or the first of them, and perhaps a few others behind: for the prefix cache. */
static void op_retell(struct world *w)
{
    struct slot *t = any_session(w), *n = t ? room(w, t) : NULL;
    if (!t || t->is.len < 2)
        return;
    memset(&n->is, 0, sizeof n->is);
    n->is.kv = rnd(w, 8) ? t->is.kv : (uint32_t)rnd(w, KV_TYPES);
    n->is.n_ctx = MAX_LEN;
    INFER_INIT(&n->is.sampling);
    n->s = session_of_model(w->model, kv_types[n->is.kv], MAX_LEN);
    uint32_t len = rnd(w, 2) ? t->is.len : 1 + (uint32_t)rnd(w, t->is.len), more = growth(w, t, 10);
    bool as_told = rnd(w, 4); /* or under other adapters */
    for (uint32_t i = 0; i < len + more; i++) {
        n->is.ids[i] = i < len ? t->is.ids[i] : (int32_t)rnd(w, w->n_vocab);
        put_set(w, n, as_told && i < len ? t->is.sets[i] : n->is.set);
        if (!as_told && !rnd(w, 40))
            put_set(w, n, any_set(w));
        n->is.sets[i] = n->is.set;
        good(w, append_element(n->s, w->n_embd, n->is.ids[i]));
    }
    n->is.len = len + more;
    infer_step_item it;
    INFER_INIT(&it);
    it.session = n->s;
    after_step(w, infer_step(&it, 1, NULL, &error), n);
    if (n->s)
        check_logits(w, n);
}

static void op_append(struct world *w)
{
    struct slot *t = any_session(w);
    for (uint32_t i = 0, n = t ? growth(w, t, rnd(w, 4) ? 20 : 150) : 0; i < n; i++) {
        int32_t id = rnd(w, 20) ? (int32_t)rnd(w, w->n_vocab) : ROW_ID - (int32_t)rnd(w, 1000);
        good(w, append_element(t->s, w->n_embd, id));
        t->is.sets[t->is.len] = t->is.set;
        t->is.ids[t->is.len++] = id;
    }
}

/* Other adapters from here on. */
static void op_adapt(struct world *w)
{
    struct slot *t = any_session(w);
    if (t)
        put_set(w, t, any_set(w));
}

static void op_step(struct world *w)
{
    struct slot *t = any_session(w);
    uint8_t mask[MAX_LEN];
    infer_step_item it;
    if (!t)
        return;
    for (uint32_t i = 0; i < MAX_LEN; i++)
        mask[i] = !rnd(w, 5);
    INFER_INIT(&it);
    it.session = t->s;
    it.mask = mask;
    it.logits = (int32_t)rnd(w, 4);
    it.max_elements = rnd(w, 3) ? 0 : 1 + rnd(w, 60);
    after_step(w, infer_step(&it, 1, NULL, &error), t);
    if (t->s)
        check_logits(w, t);
}

static void op_batch(struct world *w)
{
    infer_step_item it[SLOTS];
    struct slot *of[SLOTS];
    uint64_t n = 0;
    for (uint32_t i = 0; i < SLOTS; i++)
        if (w->slots[i].s && rnd(w, 2)) {
            INFER_INIT(&it[n]);
            it[n].session = w->slots[i].s;
            it[n].max_elements = rnd(w, 3) ? 0 : 1 + rnd(w, 90);
            of[n++] = &w->slots[i];
        }
    (void)infer_step(it, n, NULL, &error);
    for (uint64_t i = 0; i < n; i++)
        if (of[i]->s)
            after_step(w, it[i].status, of[i]);
    for (uint64_t i = 0; i < n; i++)
        if (of[i]->s)
            check_logits(w, of[i]);
}

static void op_fork(struct world *w)
{
    struct slot *t = any_session(w), *f = t ? room(w, t) : NULL;
    if (!t)
        return;
    good(w, infer_session_fork(t->s, &f->s, &error));
    f->is = t->is;
    f->is.generating = false;
    check_logits(w, f);
}

static void op_truncate(struct world *w)
{
    struct slot *t = any_session(w);
    if (!t)
        return;
    uint64_t rerun, computed = info_of(t->s).computed;
    uint32_t len = rnd(w, 2) ? (uint32_t)rnd(w, t->is.len + 1) : t->is.len - (uint32_t)rnd(w, t->is.len < 20 ? t->is.len + 1 : 20);
    good(w, infer_session_truncate(t->s, len, &rerun, &error));
    t->is.len = len;
    t->is.generating = false;
    demand(w, info_of(t->s).computed + rerun == (len < computed ? len : computed), "truncate reports another number than it made pending");
    check_shape(w, t);
}

static void op_checkpoint(struct world *w)
{
    struct slot *t = any_session(w);
    struct kept *k = &w->kept[rnd(w, CHECKPOINTS)];
    if (!t)
        return;
    infer_checkpoint_release(k->c);
    good(w, infer_checkpoint_create(t->s, &k->c, &error));
    k->is = t->is;
    demand(w, about(k->c).length == k->is.len && about(k->c).generating == k->is.generating, "wrong checkpoint");
}

static void op_restore(struct world *w)
{
    struct slot *t = any_session(w);
    struct kept *k = any_checkpoint(w);
    if (!t || !k)
        return;
    good(w, infer_session_restore(t->s, k->c, &error));
    t->is = k->is;
    check_logits(w, t);
}

static void op_session_from(struct world *w)
{
    struct kept *k = any_checkpoint(w);
    if (!k)
        return;
    struct slot *t = room(w, NULL);
    good(w, infer_checkpoint_session(k->c, &t->s, &error));
    t->is = k->is;
    check_logits(w, t);
}

/* Up to n tokens of the answer that is being generated. */
static void pull(struct world *w, struct slot *t, uint64_t n)
{
    while (n && t->is.generating) {
        infer_event ev;
        INFER_INIT(&ev);
        infer_status st = infer_generate_next(t->s, &ev, NULL, &error);
        after_step(w, st, t);
        if (st != INFER_OK || !t->s)
            return;
        if (ev.kind == INFER_EVENT_TOKEN) {
            if (!info_of(t->s).approximate)
                check_draw(w, &t->is, t->is.len, ev.id);
            t->is.sets[t->is.len] = t->is.set;
            t->is.ids[t->is.len++] = ev.id;
            n--;
        }
        t->is.generating = ev.kind != INFER_EVENT_DONE;
    }
    check_logits(w, t);
}

static void op_generate(struct world *w)
{
    struct slot *t = any_session(w);
    infer_generate_options o;
    if (!t || !t->is.len || t->is.len + 20 > w->longest)
        return;
    if (rnd(w, 2)) {
        infer_sampling *x = &t->is.sampling;
        x->temperature = rnd(w, 4) ? 1.5f : 0;
        x->seed = rnd(w, 5);
        x->repetition_penalty = rnd(w, 2) ? 1.3f : 0;
        good(w, infer_session_set_sampling(t->s, x, &error));
    }
    INFER_INIT(&o);
    o.flags = INFER_GENERATE_IGNORE_EOS;
    o.max_tokens = 1 + rnd(w, 12);
    good(w, infer_generate_begin(t->s, &o, &error));
    t->is.generating = true;
    pull(w, t, rnd(w, 2) ? UINT64_MAX : 1 + rnd(w, 8));
}

static void op_go_on(struct world *w)
{
    struct slot *t = any_session(w);
    if (t && t->is.generating && t->is.len + 20 <= w->longest)
        pull(w, t, 1 + rnd(w, 8));
}

static void op_shift(struct world *w)
{
    struct slot *t = any_session(w);
    if (!t || t->is.len < 2)
        return;
    uint32_t keep = (uint32_t)rnd(w, t->is.len), drop = 1 + (uint32_t)rnd(w, t->is.len - keep);
    infer_status st = infer_session_shift(t->s, keep, drop, &error);
    if (st == INFER_ERROR_LIMIT) {
        after_step(w, st, t);
        return;
    }
    good(w, st);
    memmove(t->is.ids + keep, t->is.ids + keep + drop, (t->is.len - keep - drop) * sizeof t->is.ids[0]);
    memmove(t->is.sets + keep, t->is.sets + keep + drop, t->is.len - keep - drop);
    t->is.len -= drop;
    t->is.moved = true;
    t->is.generating = about_generating(w, t);
    check_logits(w, t);
}

/* Exact, so compared with cold recomputation, when the checkpoint begins with what the session holds. */
static void op_graft(struct world *w)
{
    struct slot *t = any_session(w);
    struct kept *k = any_checkpoint(w);
    if (!t || !k || t->is.kv != k->is.kv)
        return;
    uint32_t computed = (uint32_t)about(k->c).computed;
    uint32_t first = rnd(w, 2) && t->is.len < computed ? t->is.len : (uint32_t)rnd(w, computed + 1);
    uint32_t count = growth(w, t, 100), recompute;
    count = count < computed - first ? count : computed - first;
    recompute = (uint32_t)rnd(w, count + 1);
    infer_status st = infer_session_graft(t->s, k->c, first, count, recompute, NULL, NULL, &error);
    if (st == INFER_ERROR_STATE && info_of(t->s).computed < t->is.len)
        return;
    if (st == INFER_ERROR_LIMIT) {
        after_step(w, st, t);
        return;
    }
    good(w, st);
    memcpy(t->is.ids + t->is.len, k->is.ids + first, count * sizeof t->is.ids[0]);
    memcpy(t->is.sets + t->is.len, k->is.sets + first, count);
    t->is.len += count;
    t->is.moved = true;
    t->is.generating = about_generating(w, t);
    check_logits(w, t);
}

static void op_drop(struct world *w)
{
    struct slot *t = any_session(w);
    if (!t)
        return;
    infer_session_release(t->s);
    t->s = NULL;
}

static void op_drop_checkpoint(struct world *w)
{
    struct kept *k = any_checkpoint(w);
    if (!k)
        return;
    infer_checkpoint_release(k->c);
    k->c = NULL;
}

static void name_of(uint64_t i, char name[2])
{
    name[0] = (char)('a' + i);
    name[1] = 0;
}

static void op_store_put(struct world *w)
{
    struct kept *k = any_checkpoint(w);
    uint64_t i = rnd(w, NAMES);
    char name[2];
    if (!k)
        return;
    name_of(i, name);
    if (w->named[i].c)
        demand(w, infer_store_put(w->store, name, 1, k->c, 0, NULL, &error) == INFER_ERROR_EXISTS, "a name was taken over");
    good(w, infer_store_put(w->store, name, 1, k->c, INFER_STORE_REPLACE, NULL, &error));
    w->named[i] = *k;
}

static void op_store_get(struct world *w)
{
    struct kept *k = &w->kept[rnd(w, CHECKPOINTS)];
    uint64_t i = rnd(w, NAMES);
    infer_checkpoint *c = NULL;
    char name[2];
    name_of(i, name);
    infer_status st = infer_store_get(w->store, w->model, name, 1, NULL, &c, &error);
    demand(w, st == (w->named[i].c ? INFER_OK : INFER_ERROR_NOT_FOUND), "wrong names in the store");
    if (st != INFER_OK)
        return;
    infer_checkpoint_release(k->c);
    *k = w->named[i];
    k->c = c;
}

static void op_store_change(struct world *w)
{
    uint64_t i = rnd(w, NAMES), j = rnd(w, NAMES);
    char from[2], to[2];
    name_of(i, from);
    name_of(j, to);
    infer_status want = w->named[i].c ? INFER_OK : INFER_ERROR_NOT_FOUND, st;
    if (rnd(w, 2)) {
        st = infer_store_branch(w->store, from, 1, to, 1, INFER_STORE_REPLACE, &error);
        if (st == INFER_OK)
            w->named[j] = w->named[i];
    } else {
        st = infer_store_rename(w->store, from, 1, to, 1, INFER_STORE_REPLACE, &error);
        if (st == INFER_OK && i != j) {
            w->named[j] = w->named[i];
            w->named[i].c = NULL;
        }
    }
    demand(w, st == want, "wrong names in the store");
}

static void op_store_delete(struct world *w)
{
    uint64_t i = rnd(w, NAMES);
    char name[2];
    name_of(i, name);
    demand(w, infer_store_delete(w->store, name, 1, &error) == (w->named[i].c ? INFER_OK : INFER_ERROR_NOT_FOUND),
           "wrong names in the store");
    w->named[i].c = NULL;
}

static void op_clear_cache(struct world *w)
{
    good(w, infer_engine_cache_clear(w->engine, &error));
}

static const struct {
    const char *name;
    uint32_t weight;
    void (*run)(struct world *w);
} ops[] = {
    {"new session", 4, op_new},
    {"append", 24, op_append},
    {"the elements of another", 6, op_retell},
    {"adapters", 8, op_adapt},
    {"step", 16, op_step},
    {"batch", 3, op_batch},
    {"fork", 10, op_fork},
    {"truncate", 8, op_truncate},
    {"checkpoint", 8, op_checkpoint},
    {"restore", 8, op_restore},
    {"session of a checkpoint", 4, op_session_from},
    {"generate", 8, op_generate},
    {"go on generating", 6, op_go_on},
    {"shift", 2, op_shift},
    {"graft", 4, op_graft},
    {"drop session", 4, op_drop},
    {"drop checkpoint", 2, op_drop_checkpoint},
    {"store: put", 3, op_store_put},
    {"store: get", 3, op_store_get},
    {"store: branch, rename", 2, op_store_change},
    {"store: delete", 1, op_store_delete},
    {"clear the prefix cache", 1, op_clear_cache},
};
enum { OPS = sizeof ops / sizeof *ops };

/* ---- Running ---- */

struct setting {
    const char *fixture;
    uint32_t threads, longest;
    uint64_t kv_budget, cache_bytes;
    const char *adapters[ADAPTERS]; /* under tests/data/adapters; the last is made: steering vectors */
    bool adapted;
};

static void world_open(struct world *w, const struct setting *how, uint64_t seed)
{
    infer_engine_options o;
    infer_model_info mi;
    memset(w, 0, sizeof *w);
    w->name = how->fixture;
    w->seed = w->rng = seed;
    w->longest = how->longest;
    INFER_INIT(&o);
    INFER_INIT(&mi);
    o.threads = how->threads;
    o.kv_budget = how->kv_budget;
    o.cache_bytes = how->cache_bytes;
    ok(infer_engine_create(&o, &w->engine, &error));
    ok(infer_model_open_path(w->engine, fixture_path(how->fixture), &w->model, &error));
    ok(infer_store_open(w->engine, NULL, 0, NULL, &w->store, &error));
    ok(infer_model_get_info(w->model, &mi, &error));
    w->n_vocab = mi.vocab_size;
    w->n_embd = mi.n_embd;
    if (how->adapted)
        open_adapters(w->model, how->adapters, w->adapters);
    cold_open(&w->cold, how->fixture, how->adapted ? how->adapters : NULL);
}

static void world_close(struct world *w)
{
    infer_engine_info info;
    for (int i = 0; i < SLOTS; i++)
        infer_session_release(w->slots[i].s);
    for (int i = 0; i < CHECKPOINTS; i++)
        infer_checkpoint_release(w->kept[i].c);
    infer_store_release(w->store);
    ok(infer_engine_cache_clear(w->engine, &error));
    INFER_INIT(&info);
    ok(infer_engine_get_info(w->engine, &info, &error));
    assert_int_equal(info.kv_bytes, 0); /* every page came back */
    for (int i = 0; i < ADAPTERS; i++)
        infer_adapter_release(w->adapters[i]);
    infer_model_release(w->model);
    infer_engine_release(w->engine);
    cold_close(&w->cold);
}

static void run(struct world *w, uint64_t n)
{
    uint32_t total = 0;
    for (int i = 0; i < OPS; i++)
        total += ops[i].weight;
    for (w->op = 0; w->op < n; w->op++) {
        uint64_t pick = rnd(w, total);
        int i = 0;
        while (pick >= ops[i].weight)
            pick -= ops[i++].weight;
        w->doing = ops[i].name;
        ops[i].run(w);
    }
    infer_cache_stats cache;
    INFER_INIT(&cache);
    ok(infer_engine_cache_stats(w->engine, &cache, &error));
    print_message("# %s: %" PRIu64 " operations (seed %" PRIu64 "), %" PRIu64 " logits and %" PRIu64 " draws compared, %" PRIu64
                  " of them known from %" PRIu64 " cold runs; %" PRIu64 " steps without memory; cache: %" PRIu64 " elements saved, %" PRIu64
                  " evictions\n",
                  w->name, n, w->seed, w->checks, w->draws, w->cold.hits, w->cold.runs, w->refused, cache.saved, cache.evictions);
    assert_true(w->checks > n / 10);
}

static uint64_t operations = 4000, seed = 20261130;
static struct world world;

static void run_as(const struct setting *how, uint64_t salt, uint64_t n)
{
    world_open(&world, how, seed + salt);
    run(&world, n);
    world_close(&world);
}

static void test_full(void **state)
{
    (void)state;
    run_as(&(struct setting){.fixture = "llama", .threads = 1, .longest = 300}, 0, operations / 4);
}

static void test_windowed(void **state)
{
    (void)state;
    run_as(&(struct setting){.fixture = "gemma3", .threads = 2, .longest = 400}, 1, operations / 4);
}

/* Prefix caches that are too small for what comes. */
static void test_cached(void **state)
{
    (void)state;
    run_as(&(struct setting){.fixture = "llama", .threads = 1, .longest = 300, .cache_bytes = (uint64_t)1 << 18}, 4, operations / 8);
    run_as(&(struct setting){.fixture = "gemma3", .threads = 1, .longest = 400, .cache_bytes = (uint64_t)1 << 18}, 5, operations / 8);
}

/* Little KV memory: steps are refused now and then, and the cache gives way. */
static void test_budget(void **state)
{
    (void)state;
    run_as(&(struct setting){.fixture = "qwen3", .threads = 1, .longest = 300, .kv_budget = (uint64_t)5 << 18}, 2, operations / 8);
    run_as(&(struct setting){.fixture = "qwen3", .threads = 1, .longest = 300, .kv_budget = (uint64_t)5 << 18, .cache_bytes = (uint64_t)1 << 20},
           6, operations / 8);
}

/* Sessions whose elements have all kinds of adapters. */
static void test_adapted(void **state)
{
    (void)state;
    run_as(&(struct setting){.fixture = "llama", .threads = 2, .longest = 300, .cache_bytes = (uint64_t)1 << 19, .adapted = true,
                             .adapters = {"lora-r4", "batch7", NULL}}, 7, operations / 4);
    run_as(&(struct setting){.fixture = "gemma3", .threads = 2, .longest = 400, .cache_bytes = (uint64_t)1 << 19, .adapted = true,
                             .adapters = {"lora-gemma3", NULL, NULL}}, 8, operations / 8);
    run_as(&(struct setting){.fixture = "gemma2", .threads = 1, .longest = 300, .cache_bytes = (uint64_t)1 << 19, .adapted = true}, 9,
           operations / 8);
    run_as(&(struct setting){.fixture = "deepseek2", .threads = 1, .longest = 200, .cache_bytes = (uint64_t)1 << 19, .adapted = true}, 10,
           operations / 16);
    run_as(&(struct setting){.fixture = "mixtral", .threads = 1, .longest = 200, .cache_bytes = (uint64_t)1 << 19, .adapted = true}, 11,
           operations / 16);
    run_as(&(struct setting){.fixture = "llama", .threads = 1, .longest = 300, .kv_budget = (uint64_t)5 << 18, .cache_bytes = (uint64_t)1 << 19,
                             .adapted = true, .adapters = {"lora-rslora", "batch3", NULL}}, 12, operations / 8);
}

/* Past the first resume point of a window (1,024): going back re-runs from there. */
static void resume(const struct setting *how)
{
    world_open(&world, how, seed + 3);
    struct world *w = &world;
    w->doing = "first session";
    op_new(w);
    struct slot *t = any_session(w);
    t->is.len = 0;
    while (t->is.len < 1100) {
        if (!rnd(w, 100))
            put_set(w, t, any_set(w));
        t->is.sets[t->is.len] = t->is.set;
        t->is.ids[t->is.len] = (int32_t)rnd(w, w->n_vocab);
        good(w, append_element(t->s, w->n_embd, t->is.ids[t->is.len++]));
    }
    step(t->s);
    check_logits(w, t);
    for (int i = 0; i < 4; i++)
        op_fork(w);
    run(w, operations / 30);
    world_close(w);
}

static void test_resume(void **state)
{
    (void)state;
    resume(&(struct setting){.fixture = "gemma3", .threads = 1, .longest = 1250});
    resume(&(struct setting){.fixture = "gemma3", .threads = 1, .longest = 1250, .adapted = true, .adapters = {"lora-gemma3", NULL, NULL}});
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_windowed),
        cmocka_unit_test(test_cached),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_adapted),
        cmocka_unit_test(test_resume),
    };
    if (argc > 1)
        operations = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        seed = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
