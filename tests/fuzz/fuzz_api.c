/* Reads the input as a program of API calls on a few sessions of two models, with checkpoints, a store, adapters and the prefix cache, with odd values,
 * and keeps its own list of what each session should hold and under which adapters: a failed call must leave its session as it was, and what a
 * session computes must be what a cold one computes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "infer/state.h"

#define SLOTS 6
#define SAVED 3
#define SETS 5
#define MAX_LEN 400
#define MAX_OPS 64
#define ROW_ID (-1000) /* in a shadow: an embedding row of content ROW_ID - id */

static void demand(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "fuzz_api: %s\n", what);
    abort();
}

static const char *const model_names[2] = {"/tests/data/fixtures/llama.gguf", "/tests/data/fixtures/gemma3-scaled.gguf"};

struct slot {
    infer_session *s;
    int model;
    uint32_t n_ctx;
    int32_t kv_type;
    uint8_t set; /* adapters in force: a number of set_uses */
    uint64_t len;
    int32_t ids[MAX_LEN]; /* what the session should hold */
    uint8_t sets[MAX_LEN]; /* and under which adapters */
};

/* A checkpoint, and what a session that is restored from it should hold; s is NULL. */
struct saved {
    infer_checkpoint *c;
    struct slot t;
};

struct world {
    infer_engine *engine;
    infer_model *model[2];
    infer_model_info info[2];
    struct slot slots[SLOTS];
    struct saved saved[SAVED], stored[SAVED]; /* stored: under the names "a", "b", ... */
    infer_store *store;
    infer_adapter *adapters[2]; /* of the first model: LoRA, steering */
    infer_cancel *cancel;
    uint8_t callback_mode;
    const uint8_t *at, *end; /* the program */
};

static uint8_t next_byte(struct world *w)
{
    return w->at < w->end ? *w->at++ : 0;
}

/* ---- What a session holds ---- */

static void check_slot(const struct slot *t)
{
    infer_session_info i;
    int32_t ids[MAX_LEN];
    if (!t->s)
        return;
    INFER_INIT(&i);
    demand(infer_session_get_info(t->s, &i, NULL) == INFER_OK, "no session info");
    demand(i.length == t->len && i.computed <= i.length, "a session's length is wrong");
    demand(infer_session_tokens(t->s, 0, t->len, ids, NULL) == INFER_OK, "no tokens");
    for (uint64_t k = 0; k < t->len; k++)
        demand(ids[k] == (t->ids[k] <= ROW_ID ? -1 : t->ids[k]), "a session's elements are wrong");
}

/* `n` elements were appended under the adapters in force. */
static void grow(struct slot *t, uint64_t n)
{
    memset(t->sets + t->len, t->set, (size_t)n);
    t->len += n;
}

/* Takes over what a generation appended. */
static void follow(struct slot *t)
{
    infer_session_info i;
    INFER_INIT(&i);
    demand(infer_session_get_info(t->s, &i, NULL) == INFER_OK, "no session info");
    demand(i.length >= t->len && i.length <= MAX_LEN, "generation lost elements");
    demand(infer_session_tokens(t->s, t->len, i.length - t->len, t->ids + t->len, NULL) == INFER_OK, "no tokens");
    grow(t, i.length - t->len);
}

static void make_row(int32_t id, uint32_t width, float *row)
{
    uint32_t x = (uint32_t)(ROW_ID - id) * 2654435761u + 1;
    for (uint32_t i = 0; i < width; i++) {
        x = x * 1664525u + 1013904223u;
        row[i] = (float)(x >> 8) / 16777216.0f - 0.5f;
    }
}

/* Set number `set`: none, a LoRA, half of it, a steering vector, both. */
static infer_status set_adapters(const struct world *w, infer_session *s, uint8_t set)
{
    infer_adapter_use uses[2];
    uint64_t n = 0;
    INFER_INIT(&uses[0]);
    INFER_INIT(&uses[1]);
    uses[0].scale = uses[1].scale = set == 2 ? 0.5f : 1;
    if (set && set != 3)
        uses[n++].adapter = w->adapters[0];
    if (set >= 3)
        uses[n++].adapter = w->adapters[1];
    return infer_session_set_adapters(s, uses, n, NULL);
}

static infer_status append_shadow(const struct world *w, infer_session *s, const struct slot *t, uint64_t from, uint64_t n)
{
    infer_status st = INFER_OK;
    for (uint64_t i = from; i < from + n && st == INFER_OK; i++) {
        float row[4096];
        if (t->model == 0 && (i == from || t->sets[i] != t->sets[i - 1]) && set_adapters(w, s, t->sets[i]) != INFER_OK)
            return INFER_ERROR_NO_MEMORY;
        uint64_t key[2] = {(uint64_t)t->ids[i], 7};
        uint32_t width = w->info[t->model].n_embd;
        if (t->ids[i] > ROW_ID)
            st = infer_session_append(s, t->ids + i, 1, NULL);
        else {
            make_row(t->ids[i], width, row);
            st = infer_session_append_rows(s, row, key, 1, NULL);
        }
    }
    return st;
}

static infer_status step_plain(infer_session *s)
{
    infer_step_item it;
    INFER_INIT(&it);
    it.session = s;
    return infer_step(&it, 1, NULL, NULL);
}

/* Fork, roll back as far as `back` says, complete, and compare with a cold session. */
static void compare_cold(struct world *w, const struct slot *t, uint8_t back)
{
    infer_session *cold = NULL, *f = NULL;
    infer_session_options o;
    INFER_INIT(&o);
    o.n_ctx = t->n_ctx;
    o.kv_type = t->kv_type;
    infer_session_info info;
    INFER_INIT(&info);
    if (!t->s || infer_session_get_info(t->s, &info, NULL) != INFER_OK || info.approximate)
        return;
    if (!t->len || infer_session_create(w->model[t->model], &o, &cold, NULL) != INFER_OK)
        return;
    if (infer_session_fork(t->s, &f, NULL) == INFER_OK && append_shadow(w, cold, t, 0, t->len) == INFER_OK &&
        step_plain(cold) == INFER_OK) {
        const float *a, *b;
        uint64_t pos, keep = t->len - 1 - back % t->len;
        demand(infer_session_truncate(f, keep, NULL, NULL) == INFER_OK, "truncate failed");
        if (append_shadow(w, f, t, keep, t->len - keep) == INFER_OK && step_plain(f) == INFER_OK) {
            demand(infer_session_logits(cold, 0, &a, NULL, NULL) == INFER_OK, "a cold session has no logits");
            demand(infer_session_logits(f, 0, &b, &pos, NULL) == INFER_OK && pos == t->len - 1, "no logits");
            demand(!memcmp(a, b, w->info[t->model].vocab_size * sizeof *a), "a session differs from a cold one");
            infer_session_info i;
            INFER_INIT(&i);
            infer_session_get_info(t->s, &i, NULL);
            if (i.logits_rows && infer_session_logits(t->s, i.logits_rows - 1, &b, &pos, NULL) == INFER_OK && pos == t->len - 1)
                demand(!memcmp(a, b, w->info[t->model].vocab_size * sizeof *a), "logits differ from a cold session's");
        }
    }
    infer_session_release(f);
    infer_session_release(cold);
}

/* ---- Operations ---- */

static struct slot *pick(struct world *w)
{
    return &w->slots[next_byte(w) % SLOTS];
}

static void op_create(struct world *w)
{
    static const uint32_t sizes[] = {0, 1, 2, 3, 64, 65, 128, 200, 300, MAX_LEN, UINT32_MAX, 1u << 24};
    struct slot *t = pick(w);
    uint8_t a = next_byte(w);
    infer_session_options o;
    INFER_INIT(&o);
    o.n_ctx = sizes[a % 12];
    o.kv_type = (int32_t)(a >> 4) % 9 - 1;
    infer_session *s = NULL;
    int m = a & 128 ? 1 : 0;
    if (infer_session_create(w->model[m], a % 7 == 6 ? NULL : &o, &s, NULL) != INFER_OK) {
        demand(s == NULL, "a failed create wrote its output");
        return;
    }
    infer_session_release(t->s);
    *t = (struct slot){.s = s, .model = m, .n_ctx = a % 7 == 6 ? 0 : o.n_ctx, .kv_type = a % 7 == 6 ? 0 : o.kv_type};
}

static void op_append(struct world *w)
{
    struct slot *t = pick(w);
    uint8_t a = next_byte(w), b = next_byte(w);
    int32_t ids[256], vocab = (int32_t)w->info[t->model].vocab_size;
    uint64_t n = b % 5 == 4 ? b : b % 16;
    for (uint64_t i = 0; i < n; i++)
        ids[i] = (int32_t)((a * 31u + i * 7u) % (uint32_t)vocab);
    if (n && a % 11 == 10) {
        static const int32_t bad[] = {-1, INT32_MIN, INT32_MAX};
        ids[n - 1] = a % 4 == 3 ? vocab : bad[a % 3];
    }
    if (t->len + n > MAX_LEN)
        return;
    infer_status st = infer_session_append(t->s, a == 255 ? NULL : ids, a == 254 ? UINT64_MAX : n, NULL);
    demand(t->s || st == INFER_ERROR_ARGUMENT, "append to NULL");
    if (st != INFER_OK || !t->s || a == 254)
        return;
    memcpy(t->ids + t->len, ids, (size_t)n * sizeof *ids);
    grow(t, n);
}

static void op_append_rows(struct world *w)
{
    struct slot *t = pick(w);
    uint8_t a = next_byte(w);
    static float rows[4 * 4096];
    uint64_t keys[8] = {0}, n = a % 5;
    uint32_t width = w->info[t->model].n_embd;
    if (!t->s || t->len + n > MAX_LEN)
        return;
    for (uint64_t i = 0; i < n; i++) {
        make_row(ROW_ID - a, width, rows + i * width);
        keys[2 * i] = (uint64_t)(ROW_ID - a); /* as append_shadow */
        keys[2 * i + 1] = 7;
    }
    if (a > 240 && n)
        rows[n * width - 1] = a & 1 ? NAN : INFINITY;
    if (infer_session_append_rows(t->s, rows, keys, n, NULL) != INFER_OK)
        return;
    demand(!n || a <= 240, "a row that is not finite was taken");
    for (uint64_t i = 0; i < n; i++) {
        t->ids[t->len] = ROW_ID - a;
        grow(t, 1);
    }
}

static void op_truncate(struct world *w)
{
    struct slot *t = pick(w);
    uint8_t a = next_byte(w);
    uint64_t rerun = 12345, to = a == 255 ? UINT64_MAX : a > 240 ? t->len + 1 : a > 200 ? 0 : t->len - a % (t->len + 1);
    infer_status st = infer_session_truncate(t->s, to, a & 1 ? &rerun : NULL, NULL);
    demand((st == INFER_OK) == (t->s && to <= t->len), "truncate accepts the wrong lengths");
    if (st == INFER_OK)
        t->len = to;
}

static void op_fork(struct world *w)
{
    struct slot *t = pick(w), *to = pick(w);
    infer_session *f = NULL;
    if (infer_session_fork(t->s, &f, NULL) != INFER_OK)
        return;
    struct slot copy = *t;
    infer_session_release(to->s);
    *to = copy;
    to->s = f;
}

static void op_shift(struct world *w)
{
    struct slot *t = pick(w);
    uint8_t a = next_byte(w), b = next_byte(w);
    uint64_t keep = a == 255 ? UINT64_MAX : a % (t->len + 2), drop = b == 255 ? UINT64_MAX : b % (t->len + 2);
    if (infer_session_shift(t->s, keep, drop, NULL) != INFER_OK)
        return;
    demand(t->s && keep <= t->len && drop <= t->len - keep, "shift accepts the wrong lengths");
    memmove(t->ids + keep, t->ids + keep + drop, (size_t)(t->len - keep - drop) * sizeof *t->ids);
    memmove(t->sets + keep, t->sets + keep + drop, (size_t)(t->len - keep - drop));
    t->len -= drop;
}

static void op_graft(struct world *w)
{
    struct slot *t = pick(w);
    const struct slot *from = pick(w);
    uint8_t a = next_byte(w), b = next_byte(w);
    uint64_t first = a == 255 ? UINT64_MAX : a % (from->len + 2), count = b == 255 ? UINT64_MAX : b % (from->len + 2), rerun = 0;
    infer_checkpoint *c = NULL;
    if (!from->s || (count < MAX_LEN && t->len + count > MAX_LEN) || infer_checkpoint_create(from->s, &c, NULL) != INFER_OK)
        return;
    infer_status st = infer_session_graft(t->s, c, first, count, a % 4 ? 0 : b % 9, &rerun, NULL, NULL);
    infer_checkpoint_release(c);
    if (st != INFER_OK)
        return;
    demand(t->s && t->model == from->model && first + count <= from->len && rerun <= count, "graft accepts what it should not");
    memmove(t->ids + t->len, from->ids + first, (size_t)count * sizeof *t->ids); /* t may be from */
    memmove(t->sets + t->len, from->sets + first, (size_t)count);
    t->len += count;
}

static void op_step(struct world *w)
{
    infer_step_item items[SLOTS];
    uint8_t mask[MAX_LEN], n = next_byte(w), a = next_byte(w);
    uint64_t count = n % (SLOTS + 1);
    memset(items, 0, sizeof items);
    for (size_t i = 0; i < sizeof mask; i++)
        mask[i] = (uint8_t)((i * 5 + a) % 3 == 0);
    for (uint64_t i = 0; i < count; i++) {
        uint8_t b = next_byte(w);
        INFER_INIT(&items[i]);
        items[i].session = w->slots[n & 128 ? (i + n) % SLOTS : b % SLOTS].s;
        items[i].max_elements = b & 32 ? b % 70 : 0;
        items[i].logits = (int32_t)((b >> 6) % 4);
        items[i].mask = b == 255 ? NULL : mask;
        items[i].size = b == 254 ? 8 : items[i].size;
        items[i].reserved = b == 253;
    }
    infer_status st = infer_step(items, count, a & 1 ? w->cancel : NULL, NULL);
    for (uint64_t i = 0; i < count && st == INFER_OK; i++)
        demand(items[i].status == INFER_OK, "a step succeeded, but not every item");
}

static infer_status host_logits(void *user, float *logits, uint64_t vocab, const int32_t *ids, uint64_t count)
{
    struct world *w = user;
    demand(count > 0 && vocab > 0 && ids[count - 1] >= -1, "a callback got odd values");
    switch (w->callback_mode % 8) {
    case 1: logits[vocab / 2] = NAN; break;
    case 2: logits[0] = INFINITY; break;
    case 3: return INFER_ERROR_LIMIT;
    case 4: return 17;
    case 5:
        for (uint64_t i = 0; i < vocab; i++)
            logits[i] = -INFINITY;
        break;
    case 6: infer_cancel_set(w->cancel); break;
    default: break;
    }
    return INFER_OK;
}

static float odd_float(uint8_t a)
{
    static const float odd[] = {0, 1, 0.5f, 0.01f, -1, 1e30f, NAN, INFINITY, 2, 1e-30f, 0.999f, -0.0f, 100, 0.7f, 0.3f, 1};
    return odd[a % 16];
}

static void op_sampling(struct world *w)
{
    struct slot *t = pick(w);
    static infer_bias bias[200];
    uint8_t a = next_byte(w), b = next_byte(w);
    infer_sampling s;
    INFER_INIT(&s);
    if (a & 1)
        demand(infer_sampling_default(&s, NULL) == INFER_OK, "no default sampling");
    float *fields[] = {&s.temperature, &s.top_p, &s.min_p, &s.typical_p, &s.repetition_penalty, &s.presence_penalty, &s.frequency_penalty};
    *fields[a / 2 % 7] = odd_float(b);
    *fields[b / 16 % 7] = odd_float(a);
    s.top_k = a & 32 ? b : 0;
    s.seed = b;
    s.penalty_last_n = b & 8 ? 3 : 0;
    s.top_logprobs = b & 64 ? b % 22 : 0;
    s.logprobs = (a >> 6) & 1;
    s.callback = a & 128 ? host_logits : NULL;
    s.callback_user = w;
    w->callback_mode = b;
    s.bias_count = b % 3 == 2 ? w->info[t->model].vocab_size + (b % 5 == 4) : b % 3;
    for (uint64_t i = 0; i < 200; i++)
        bias[i] = (infer_bias){(int32_t)i, b % 3 == 2 ? -INFINITY : odd_float(a)};
    s.bias = s.bias_count <= 200 ? bias : NULL;
    infer_session_set_sampling(t->s, &s, NULL);
}

static void op_sample(struct world *w)
{
    struct slot *t = pick(w);
    infer_sample_result r;
    INFER_INIT(&r);
    r.id = -77;
    infer_status st = infer_session_sample(t->s, &r, NULL);
    demand(st == INFER_OK ? r.id >= 0 && (uint32_t)r.id < w->info[t->model].vocab_size : r.id == -77, "sample wrote an odd id");
}

static void op_begin(struct world *w)
{
    struct slot *t = pick(w);
    uint8_t a = next_byte(w);
    infer_generate_options o;
    INFER_INIT(&o);
    o.flags = a % 5 == 4 ? a : a % 4;
    o.max_tokens = a >> 5;
    int32_t ids[2] = {a, a * 7 - 90}; /* some are none */
    const infer_text stop = {"x", 1};
    o.stop_ids = a & 8 ? ids : NULL;
    o.stop_id_count = a & 8 ? 1 + a % 2u : a == 78;
    o.repeat_guard = a & 16 ? 10 + a % 30u : 0;
    o.stops = &stop;
    o.stop_count = a == 79;
    infer_status st = infer_generate_begin(t->s, a == 77 ? NULL : &o, NULL);
    demand(st != INFER_OK || a != 79, "stop strings without a tokenizer");
    demand(st != INFER_OK || t->len, "generation began from nothing");
}

static void op_next(struct world *w)
{
    struct slot *t = pick(w);
    uint8_t a = next_byte(w);
    infer_event ev;
    for (int i = 0; i < a % 4 + 1 && t->s && t->len < MAX_LEN; i++) {
        INFER_INIT(&ev);
        infer_status st = infer_generate_next(t->s, &ev, a & 16 ? w->cancel : NULL, NULL);
        if (st != INFER_OK) {
            check_slot(t);
            return;
        }
        demand(ev.kind >= INFER_EVENT_PREFILL && ev.kind <= INFER_EVENT_DONE && ev.text, "an odd event");
        follow(t);
    }
}

struct listener {
    struct world *w;
    struct slot *t;
    uint8_t mode;
    int left;
};

static int32_t on_event(void *user, const infer_event *ev)
{
    struct listener *l = user;
    infer_session_info i;
    INFER_INIT(&i);
    if (l->mode == 1 && l->t->s) { /* the call in progress holds its own reference */
        infer_session_release(l->t->s);
        *l->t = (struct slot){0};
    } else if (l->mode == 2)
        infer_cancel_set(l->w->cancel);
    else if (l->t->s)
        demand(infer_session_get_info(l->t->s, &i, NULL) == INFER_OK, "no info in a callback");
    return ev->kind != INFER_EVENT_DONE && --l->left < 0;
}

static void op_generate(struct world *w)
{
    struct slot *t = pick(w);
    uint8_t a = next_byte(w);
    struct listener l = {w, t, (uint8_t)(a % 4), 5};
    infer_generate_options o;
    INFER_INIT(&o);
    o.max_tokens = a / 32 + 1;
    if (t->len + 10 > MAX_LEN)
        return;
    infer_generate(t->s, &o, a == 100 ? NULL : on_event, &l, w->cancel, NULL);
    if (t->s)
        follow(t);
}

/* Scores ids, good or bad: a failure changes nothing (the caller looks), and a success appends them. */
static void op_score(struct world *w)
{
    struct slot *t = pick(w);
    uint8_t a = next_byte(w);
    int32_t ids[40];
    float p[40];
    infer_logprob top[40 * 3];
    infer_score o;
    uint64_t n = a % 41u;
    INFER_INIT(&o);
    for (uint64_t i = 0; i < n; i++)
        ids[i] = (int32_t)((a * 31u + i * 7) % 50);
    if (n && a > 240)
        ids[n - 1] = a % 2 ? -1 : INT32_MAX;
    o.logprobs = a & 64 ? p : NULL;
    o.top = a & 128 ? top : NULL;
    o.top_logprobs = a == 200 ? 21 : 3;
    if (t->len + n > MAX_LEN)
        return;
    if (infer_session_score(t->s, ids, n, &o, a & 32 ? w->cancel : NULL, NULL) != INFER_OK)
        return;
    demand(a <= 240 || n == 0, "bad ids are scored");
    demand(isfinite(o.sum) && o.sum <= 0 && (o.first == 0 || t->len == 0), "an odd score");
    for (uint64_t i = 0; i < n && o.logprobs; i++)
        demand(p[i] <= 0, "a log-probability above 0");
    memcpy(t->ids + t->len, ids, n * sizeof *ids);
    grow(t, n);
}

/* ---- State and adapters */

static void op_checkpoint(struct world *w)
{
    struct slot *t = pick(w);
    struct saved *to = &w->saved[next_byte(w) % SAVED];
    infer_checkpoint *c = NULL;
    infer_checkpoint_info i;
    INFER_INIT(&i);
    if (infer_checkpoint_create(t->s, &c, NULL) != INFER_OK)
        return;
    infer_checkpoint_release(to->c);
    to->c = c;
    to->t = *t;
    to->t.s = NULL;
    demand(infer_checkpoint_get_info(c, &i, NULL) == INFER_OK && i.length == t->len, "a checkpoint's length is wrong");
}

static void op_restore(struct world *w)
{
    struct slot *t = pick(w);
    uint8_t a = next_byte(w);
    const struct saved *from = &w->saved[a % SAVED];
    infer_session *s = t->s;
    infer_status st = a & 128 ? infer_checkpoint_session(from->c, &s, NULL) : infer_session_restore(s, from->c, NULL);
    demand(from->c || st == INFER_ERROR_ARGUMENT, "restored from nothing");
    if (st != INFER_OK)
        return;
    if (a & 128)
        infer_session_release(t->s);
    else
        demand(t->model == from->t.model, "restored from another model's checkpoint");
    *t = from->t;
    t->s = s;
}

static void op_adapters(struct world *w)
{
    struct slot *t = pick(w);
    uint8_t a = next_byte(w);
    infer_status st = set_adapters(w, t->s, a % SETS);
    demand(st != INFER_OK || (t->s && (t->model == 0 || a % SETS == 0)), "another model's adapter was taken");
    if (st == INFER_OK)
        t->set = a % SETS;
}

/* What the library keeps under a name is what was put there. */
static void op_store(struct world *w)
{
    uint8_t a = next_byte(w), b = next_byte(w);
    int from = b % SAVED, to = b / 4 % SAVED;
    const char name[2] = {(char)('a' + from), 0}, second[2] = {(char)('a' + to), 0};
    uint32_t flags = a & 128 ? INFER_STORE_REPLACE : 0;
    struct saved *x = &w->stored[from], *y = &w->stored[to];
    infer_checkpoint *c = NULL;
    infer_status st;
    switch (a % 5) {
    case 0:
        st = infer_store_put(w->store, second, INFER_ZSTR, w->saved[from].c, flags, a & 64 ? w->cancel : NULL, NULL);
        demand(st != INFER_OK || (w->saved[from].c && (flags || !y->c)), "put what it should not");
        if (st == INFER_OK)
            *y = w->saved[from];
        break;
    case 1:
        st = infer_store_get(w->store, w->model[x->t.model], name, 1, NULL, &c, NULL);
        demand(x->c ? st == INFER_OK && c : st == INFER_ERROR_NOT_FOUND, "get does not give what is there");
        if (st == INFER_OK) {
            infer_checkpoint_release(w->saved[to].c);
            w->saved[to] = *x;
            w->saved[to].c = c;
        }
        break;
    case 2:
        st = infer_store_branch(w->store, name, 1, second, 1, flags, NULL);
        demand(st != INFER_OK || x->c, "branched from nothing");
        if (st == INFER_OK)
            *y = *x;
        break;
    case 3:
        st = infer_store_rename(w->store, name, 1, second, 1, flags, NULL);
        demand(st != INFER_OK || x->c, "renamed nothing");
        if (st == INFER_OK && from != to) {
            *y = *x;
            x->c = NULL;
        }
        break;
    default:
        st = infer_store_delete(w->store, name, 1, NULL);
        demand((st == INFER_OK) == (x->c != NULL), "delete");
        x->c = NULL;
    }
}

static void op_cache(struct world *w)
{
    const struct slot *t = pick(w);
    uint8_t a = next_byte(w);
    infer_cache_report r;
    infer_cache_stats s;
    INFER_INIT(&r);
    INFER_INIT(&s);
    if (t->s)
        demand(infer_session_cache_report(t->s, &r, NULL) == INFER_OK && r.reused <= r.wanted, "an odd report");
    demand(infer_engine_cache_stats(w->engine, &s, NULL) == INFER_OK && s.hits + s.partial_hits <= s.lookups, "odd figures of the cache");
    demand(infer_engine_cache_flush(w->engine, a & 2 ? w->cancel : NULL, NULL) != INFER_OK, "a cache without a folder was written");
    if (a & 1)
        demand(infer_engine_cache_clear(w->engine, NULL) == INFER_OK, "the cache is not cleared");
}

static void op_odd(struct world *w)
{
    struct slot *t = pick(w);
    uint8_t a = next_byte(w);
    int32_t id;
    uint64_t count, odd[] = {0, 1, UINT64_MAX, UINT64_MAX - 1, t->len, t->len + 1};
    const float *p = NULL;
    infer_session_info small = {.size = 8};
    infer_status st = infer_session_tokens(t->s, odd[a % 6], odd[a / 6 % 2], &id, NULL);
    demand(t->s || st == INFER_ERROR_ARGUMENT, "tokens of NULL");
    st = infer_session_tokens(t->s, odd[2 + a % 2], odd[2 + a / 2 % 2], &id, NULL);
    demand(st == INFER_ERROR_ARGUMENT, "tokens beyond the end");
    infer_session_logits(t->s, odd[a % 6], &p, &count, NULL);
    demand(infer_session_get_info(t->s, &small, NULL) == INFER_ERROR_ARGUMENT, "a small struct was taken");
    demand(infer_session_append_text(t->s, "x", 1, 0, NULL) != INFER_OK, "text without a tokenizer");
    demand(infer_session_truncate(NULL, 0, NULL, NULL) == INFER_ERROR_ARGUMENT, "truncate of NULL");
    demand(infer_step(NULL, 1, NULL, NULL) == INFER_ERROR_ARGUMENT, "a step without items");
    demand(infer_generate_next(t->s, NULL, NULL, NULL) == INFER_ERROR_ARGUMENT, "an event into NULL");
}

static void op_handles(struct world *w)
{
    struct slot *t = pick(w);
    uint8_t a = next_byte(w);
    if (a & 1)
        infer_cancel_set(w->cancel);
    else
        infer_cancel_clear(w->cancel);
    if (a % 16 == 8) {
        infer_session_release(t->s);
        *t = (struct slot){0};
    } else if (a % 16 == 4 && t->s) {
        infer_session_ref(t->s);
        infer_session_release(t->s);
    }
}

static void op_compare(struct world *w)
{
    const struct slot *t = pick(w);
    compare_cold(w, t, next_byte(w));
}

static void (*const ops[])(struct world *) = {op_create, op_append, op_append,   op_append_rows, op_truncate, op_fork,
                                              op_step,   op_step,   op_sampling, op_sample,      op_begin,    op_next,
                                              op_next,   op_generate, op_odd,    op_handles,     op_compare,  op_step,
                                              op_shift,  op_graft,    op_score,  op_checkpoint,  op_restore,  op_restore,
                                              op_adapters, op_store,  op_cache};

static infer_status open_world(struct world *w, uint8_t how)
{
    static const uint64_t budgets[] = {0, 1, 30000, 200000, 2000000, 0, 0, 8000000};
    infer_engine_options o;
    char path[4096];
    INFER_INIT(&o);
    o.threads = how & 8 ? 2 : 1;
    o.kv_budget = budgets[how % 8];
    o.cache_bytes = how & 16 ? how & 32 ? 100000 : 1 << 22 : 0;
    infer_status st = infer_engine_create(&o, &w->engine, NULL);
    for (int m = 0; m < 2 && st == INFER_OK; m++) {
        snprintf(path, sizeof path, "%s%s", INFER_SOURCE_DIR, model_names[m]);
        st = infer_model_open_path(w->engine, path, &w->model[m], NULL);
        INFER_INIT(&w->info[m]);
        if (st == INFER_OK)
            st = infer_model_get_info(w->model[m], &w->info[m], NULL);
        demand(w->info[m].n_embd <= 4096, "rows are too wide for this program");
    }
    static const char *const names[2] = {"lora-r4.gguf", "steering.gguf"};
    for (int i = 0; i < 2 && st == INFER_OK; i++) {
        snprintf(path, sizeof path, "%s/tests/data/adapters/%s", INFER_SOURCE_DIR, names[i]);
        st = infer_adapter_open_path(w->model[0], path, &w->adapters[i], NULL);
    }
    infer_store_options limits;
    INFER_INIT(&limits);
    limits.max_count = how & 64 ? 2 : 0;
    limits.max_bytes = how & 128 ? 100000 : 0;
    if (st == INFER_OK)
        st = infer_store_open(w->engine, NULL, 0, &limits, &w->store, NULL);
    return st == INFER_OK ? infer_cancel_create(&w->cancel, NULL) : st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct world w;
    if (size < 2)
        return 0;
    memset(&w, 0, sizeof w);
    w.at = data + 2;
    w.end = data + size;
    demand(open_world(&w, data[0]) == INFER_OK, "the models do not open");
    for (int i = 0; i < MAX_OPS && w.at < w.end; i++) {
        ops[next_byte(&w) % (sizeof ops / sizeof *ops)](&w);
        for (int k = 0; k < SLOTS; k++)
            check_slot(&w.slots[k]);
    }
    for (int k = 0; k < SLOTS; k++)
        compare_cold(&w, &w.slots[k], (uint8_t)(data[1] + k));
    infer_engine_info info;
    INFER_INIT(&info);
    if (data[1] & 1)
        infer_model_release(w.model[0]);
    for (int k = 0; k < SLOTS; k++)
        infer_session_release(w.slots[k].s);
    for (int k = 0; k < SAVED; k++)
        infer_checkpoint_release(w.saved[k].c);
    for (int k = 0; k < 2; k++)
        infer_adapter_release(w.adapters[k]);
    infer_store_release(w.store);
    demand(infer_engine_cache_clear(w.engine, NULL) == INFER_OK, "the cache is not cleared");
    demand(infer_engine_get_info(w.engine, &info, NULL) == INFER_OK && info.kv_bytes == 0, "KV memory is left");
    infer_engine_release(w.engine);
    infer_model_release(w.model[1]);
    if (!(data[1] & 1))
        infer_model_release(w.model[0]);
    infer_cancel_release(w.cancel);
    return 0;
}
