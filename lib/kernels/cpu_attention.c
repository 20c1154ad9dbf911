/* Attention of the CPU device: see attn.h for what is computed, and in which order.
 *
 * A work item is a tile of consecutive rows of one sequence and a KV head: all the queries of the rows and of the heads that read this KV head
 * go over each page together, so that a page is read once for them and, when they are many, widened to f32 once. When there are fewer items
 * than threads could share, an item is one part of 1,024 positions of such a tile, and a second pass merges the parts. */
#include <string.h>

#include "base/checked.h"
#include "kernels/cpu_device_impl.h"
#include "kernels/cpu_use.h"

#define STATE_BYTES (384u * 1024u) /* of a tile's queries: they stay in the second-level cache while a page goes over them */
#define FEW_QUERIES 6u             /* what a kernel takes at once: smaller tiles gain no parallelism worth having */
#define WIDEN_QUERIES 9u           /* from here on a page is widened beforehand */
#define TILES_A_THREAD 4u          /* so many items a thread share the work out well */

struct tile {
    const struct dev_seq *seq;
    uint32_t row, n_row; /* rows of the batch */
    uint64_t lo, hi;     /* what its rows see lies in between */
    uint64_t all_lo, all_hi; /* what all of them see, or all_lo >= all_hi */
    uint64_t part0, n_part;
    uint64_t slot; /* parts of the tiles before */
};

struct part {
    uint32_t tile;
    uint64_t part;
};

struct call {
    struct cpu_device *d;
    const struct dev_attention *op;
    uint32_t group;    /* query heads a KV head */
    uint32_t max_rows; /* of a tile */
    size_t state_floats;
    struct tile *tiles;
    struct part *parts; /* of all tiles */
    float *partials;    /* [part][n_head_kv][max_rows * group][state_floats] */
    uint32_t n_tiles;
    uint64_t n_parts;
};

/* The keys and values of one head in one page; NULL: nothing. */
struct head {
    const char *k, *v;
    int32_t type;
    size_t bytes; /* of each */
};

/* What a worker needs for one item. */
struct space {
    struct attn_query *queries; /* [max_rows * group] */
    float *q;                   /* [max_rows * group][head_dim]: packed, for rows of the batch lie far apart and crowd the same lines of the cache */
    float *states, *totals;     /* [max_rows * group][state_floats] */
    float *k, *v;               /* a page widened to f32 */
    bool all;                   /* queries holds all queries of the item, seeing all of a block */
    uint32_t n_exact;           /* of the queries of a block, the first so many read it in the exact type */
    uint64_t end;               /* the item's blocks lie below this one */
    struct head after;          /* what is probably read after the item */
};

static uint64_t round64(uint64_t n)
{
    return (n + 63) & ~(uint64_t)63;
}

/* Of a worker, for n queries at once. */
static uint64_t space_bytes(uint64_t n, uint32_t head_dim)
{
    return round64(n * sizeof(struct attn_query)) + round64(n * head_dim * sizeof(float)) + 2 * n * attn_state_floats(head_dim) * sizeof(float)
           + 2ull * head_dim * ATTN_BLOCK * sizeof(float);
}

static struct space space_of(const struct call *c, uint32_t worker)
{
    char *p = cpu_worker(c->d, worker);
    size_t n = (size_t)c->max_rows * c->group;
    struct space s = {.queries = (struct attn_query *)p};
    s.q = (float *)(p + round64(n * sizeof *s.queries));
    s.states = s.q + round64(n * c->op->kv.head_dim * sizeof(float)) / sizeof(float);
    s.totals = s.states + n * c->state_floats;
    s.k = s.totals + n * c->state_floats;
    s.v = s.k + (size_t)c->op->kv.head_dim * ATTN_BLOCK;
    return s;
}

static uint32_t add_queries(const struct call *c, const struct space *s, uint32_t n, uint32_t row, uint32_t j0, uint32_t j1)
{
    size_t at = (size_t)row * c->group;
    for (uint32_t g = 0; g < c->group; g++, at++)
        s->queries[n++] = (struct attn_query){s->q + at * c->op->kv.head_dim, s->states + at * c->state_floats, j0, j1};
    return n;
}

/* Whether row i of a tile reads a block in the exact type. */
static bool reads_exact(const struct call *c, const struct tile *t, uint32_t i, uint64_t block)
{
    const uint64_t *pages = c->op->exact.pages;
    return pages && block >= pages[t->row + i];
}

/* The queries of a tile that see something of a block, with the state of each; how many. */
static uint32_t visible_queries(const struct call *c, const struct tile *t, uint64_t block, struct space *s)
{
    const struct dev_attention *op = c->op;
    uint64_t first = block * ATTN_BLOCK;
    uint32_t n = 0;
    s->n_exact = 0;
    if (first >= t->all_lo && first + ATTN_BLOCK <= t->all_hi) {
        for (uint32_t i = 0; i < t->n_row && !s->all; i++)
            n = add_queries(c, s, n, i, 0, ATTN_BLOCK);
        s->all = true;
        while (s->n_exact < t->n_row && reads_exact(c, t, s->n_exact, block))
            s->n_exact++;
        s->n_exact *= c->group;
        return t->n_row * c->group;
    }
    s->all = false;
    for (uint32_t i = 0; i < t->n_row; i++) {
        uint64_t lo = op->lo[t->row + i], hi = op->hi[t->row + i];
        if (hi <= first || lo >= first + ATTN_BLOCK || lo >= hi)
            continue;
        uint32_t j0 = lo > first ? (uint32_t)(lo - first) : 0;
        uint32_t j1 = hi - first < ATTN_BLOCK ? (uint32_t)(hi - first) : ATTN_BLOCK;
        n = add_queries(c, s, n, i, j0, j1);
        s->n_exact = reads_exact(c, t, i, block) ? n : s->n_exact;
    }
    return n;
}

static struct head head_at(const struct call *c, const struct tile *t, uint32_t kv_head, uint64_t block, bool exact)
{
    const struct dev_attention *op = c->op;
    const struct dev_kv *kv = exact ? &op->exact.kv : &op->kv;
    const char *page = cpu_ptr((exact ? &op->exact.seqs[t->seq - op->seqs] : t->seq)->pages[block]);
    struct head h = {.type = kv->type, .bytes = (size_t)dev_kv_head_bytes(kv->type, kv->head_dim)};
    if (page) {
        h.k = page + kv->k_off + kv_head * h.bytes;
        h.v = page + kv->v_off + kv_head * h.bytes;
    }
    return h;
}

/* What the last of a tile's queries read: what to fetch ahead. */
static struct head head_ahead(const struct call *c, const struct tile *t, uint32_t kv_head, uint64_t block)
{
    return head_at(c, t, kv_head, block, reads_exact(c, t, t->n_row - 1, block));
}

/* v [64][head_dim] = k [head_dim][64] */
static void transpose_block(float *v, const float *k, uint32_t head_dim)
{
    for (uint32_t d0 = 0; d0 < head_dim; d0 += 8)
        for (uint32_t j = 0; j < ATTN_BLOCK; j++)
            for (uint32_t d = d0; d < d0 + 8; d++)
                v[(size_t)j * head_dim + d] = k[(size_t)d * ATTN_BLOCK + j];
}

/* One block in one type. */
static void run_head(const struct call *c, const struct head *h, const struct head *ahead, const struct attn_query *queries, uint32_t n,
                     const struct space *s)
{
    const struct dev_attention *op = c->op;
    struct attn_block_args a = {
        .kv_type = h->type,
        .head_dim = op->kv.head_dim,
        .k = h->k,
        .v = h->v,
        .scale = op->scale,
        .softcap = op->softcap,
        .queries = queries,
        .n_query = n,
        .ahead_k = ahead->k,
        .ahead_v = ahead->v,
        .ahead_bytes = ahead->bytes,
    };
    bool shared = dev_kv_is_shared(&op->kv);
    if (a.kv_type != INFER_KV_F32 && (n >= WIDEN_QUERIES || shared)) {
        c->d->k.attn.widen(s->k, s->v, &a);
        a.k = s->k;
        a.v = s->v;
        a.kv_type = INFER_KV_F32;
    }
    if (shared) {
        transpose_block(s->v, a.k, op->kv.head_dim);
        a.v = s->v;
    }
    c->d->k.attn.block(&a);
}

static void run_block(const struct call *c, const struct tile *t, uint32_t kv_head, uint64_t block, struct space *s)
{
    uint32_t n = visible_queries(c, t, block, s);
    if (!n)
        return;
    struct head none = {0}, ahead = block + 1 < s->end ? head_ahead(c, t, kv_head, block + 1) : s->after;
    if (s->n_exact) {
        struct head h = head_at(c, t, kv_head, block, true);
        run_head(c, &h, s->n_exact == n ? &ahead : &none, s->queries, s->n_exact, s);
    }
    if (s->n_exact < n) {
        struct head h = head_at(c, t, kv_head, block, false);
        run_head(c, &h, &ahead, s->queries + s->n_exact, n - s->n_exact, s);
    }
}

static void pack_queries(const struct call *c, const struct tile *t, uint32_t kv_head, const struct space *s)
{
    const struct dev_attention *op = c->op;
    size_t n = (size_t)c->group * op->kv.head_dim;
    for (uint32_t i = 0; i < t->n_row; i++)
        memcpy(s->q + i * n, cpu_f32(op->q) + (size_t)(t->row + i) * op->q_stride + kv_head * n, n * sizeof(float));
}

/* One part of a tile, to s->states. */
static void run_part(const struct call *c, const struct tile *t, uint32_t kv_head, uint64_t part, struct space *s)
{
    const uint64_t blocks = ATTN_PART / ATTN_BLOCK;
    size_t n = (size_t)t->n_row * c->group;
    uint64_t first = t->lo / ATTN_BLOCK, end = (part + 1) * blocks < s->end ? (part + 1) * blocks : s->end;
    for (size_t i = 0; i < n; i++)
        attn_begin(s->states + i * c->state_floats, c->op->kv.head_dim);
    for (uint64_t b = part * blocks > first ? part * blocks : first; b < end && !cpu_stop(c->d); b++) /* a long context has many */
        run_block(c, t, kv_head, b, s);
    for (size_t i = 0; i < n; i++)
        attn_close(s->states + i * c->state_floats);
}

static void finish_tile(const struct call *c, const struct tile *t, uint32_t kv_head, const float *states)
{
    const struct dev_attention *op = c->op;
    for (uint32_t i = 0; i < t->n_row; i++) {
        float *dst = cpu_f32(op->dst) + (size_t)(t->row + i) * op->dst_stride + (size_t)kv_head * c->group * op->kv.head_dim;
        for (uint32_t g = 0; g < c->group; g++, states += c->state_floats)
            c->d->k.attn.finish(dst + (size_t)g * op->kv.head_dim, states, op->kv.head_dim);
    }
}

static void merge_tile(const struct call *c, const struct tile *t, float *totals, const float *states)
{
    c->d->k.attn.merge(totals, states, c->op->kv.head_dim, t->n_row * c->group);
}

static void begin_totals(const struct call *c, const struct tile *t, float *totals)
{
    for (size_t i = 0; i < (size_t)t->n_row * c->group; i++)
        attn_begin(totals + i * c->state_floats, c->op->kv.head_dim);
}

static uint64_t tile_end(const struct tile *t)
{
    return (t->hi + ATTN_BLOCK - 1) / ATTN_BLOCK;
}

/* A whole (tile, KV head). The last tiles of a prompt see the most: they go first. */
static void tile_task(void *arg, uint32_t worker, uint64_t task)
{
    const struct call *c = arg;
    uint32_t n_head = c->op->kv.n_head_kv, kv_head = (uint32_t)(task % n_head);
    const struct tile *t = &c->tiles[c->n_tiles - 1 - task / n_head];
    uint64_t after = task + pool_threads(c->d->pool);
    struct space s = space_of(c, worker);
    s.end = tile_end(t);
    if (after / n_head < c->n_tiles) {
        const struct tile *next = &c->tiles[c->n_tiles - 1 - after / n_head];
        s.after = head_ahead(c, next, (uint32_t)(after % n_head), next->lo / ATTN_BLOCK);
    }
    pack_queries(c, t, kv_head, &s);
    if (t->n_part == 1) {
        run_part(c, t, kv_head, t->part0, &s);
        finish_tile(c, t, kv_head, s.states);
        return;
    }
    begin_totals(c, t, s.totals);
    for (uint64_t p = 0; p < t->n_part; p++) {
        run_part(c, t, kv_head, t->part0 + p, &s);
        merge_tile(c, t, s.totals, s.states);
    }
    finish_tile(c, t, kv_head, s.totals);
}

static float *partial_of(const struct call *c, uint64_t part, uint32_t kv_head)
{
    return c->partials + (size_t)(part * c->op->kv.n_head_kv + kv_head) * c->max_rows * c->group * c->state_floats;
}

/* One part of a (tile, KV head). */
static void part_task(void *arg, uint32_t worker, uint64_t task)
{
    const struct call *c = arg;
    uint32_t n_head = c->op->kv.n_head_kv, kv_head = (uint32_t)(task % n_head);
    uint64_t i = task / n_head, after = task + pool_threads(c->d->pool);
    const struct tile *t = &c->tiles[c->parts[i].tile];
    struct space s = space_of(c, worker);
    s.states = partial_of(c, i, kv_head);
    s.end = tile_end(t);
    uint64_t part_end = (c->parts[i].part + 1) * (ATTN_PART / ATTN_BLOCK);
    s.end = s.end < part_end ? s.end : part_end;
    if (after / n_head < c->n_parts) {
        const struct part *next = &c->parts[after / n_head];
        const struct tile *u = &c->tiles[next->tile];
        uint64_t first = u->lo / ATTN_BLOCK, block = next->part * (ATTN_PART / ATTN_BLOCK);
        s.after = head_ahead(c, u, (uint32_t)(after % n_head), block > first ? block : first);
    }
    pack_queries(c, t, kv_head, &s);
    run_part(c, t, kv_head, c->parts[i].part, &s);
}

static void merge_task(void *arg, uint32_t worker, uint64_t task)
{
    const struct call *c = arg;
    uint32_t kv_head = (uint32_t)(task % c->op->kv.n_head_kv);
    const struct tile *t = &c->tiles[task / c->op->kv.n_head_kv];
    struct space s = space_of(c, worker);
    begin_totals(c, t, s.totals);
    for (uint64_t p = 0; p < t->n_part; p++)
        merge_tile(c, t, s.totals, partial_of(c, t->slot + p, kv_head));
    finish_tile(c, t, kv_head, s.totals);
}

static uint64_t count_tiles(const struct dev_attention *op, uint32_t max_rows)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < op->n_seq; i++)
        n += (op->seqs[i].n_row + (uint64_t)max_rows - 1) / max_rows;
    return n;
}

/* Queries of a tile, when there are many. */
static uint32_t queries_that_fit(size_t state_floats)
{
    return (uint32_t)(STATE_BYTES / (state_floats * sizeof(float)));
}

/* Whether tiles of so many rows are too few for the threads, and would gain from being smaller. */
static bool too_few(uint64_t tiles, uint64_t rows, uint64_t group, uint64_t n_head_kv, uint64_t threads)
{
    return rows > 1 && rows * group > FEW_QUERIES && tiles * n_head_kv < threads * TILES_A_THREAD;
}

/* Few rows are shared out in smaller tiles. */
static uint32_t choose_rows(const struct call *c)
{
    uint32_t fit = queries_that_fit(c->state_floats), longest = 1;
    uint32_t rows = c->group < fit ? fit / c->group : 1;
    while (too_few(count_tiles(c->op, rows), rows, c->group, c->op->kv.n_head_kv, pool_threads(c->d->pool)))
        rows = (rows + 1) / 2;
    for (uint32_t i = 0; i < c->op->n_seq; i++)
        longest = c->op->seqs[i].n_row > longest ? c->op->seqs[i].n_row : longest;
    return rows < longest ? rows : longest;
}

static void tile_span(const struct dev_attention *op, struct tile *t)
{
    uint64_t lo = UINT64_MAX, hi = 0;
    t->all_hi = UINT64_MAX;
    for (uint32_t r = t->row; r < t->row + t->n_row; r++) {
        lo = op->lo[r] < lo ? op->lo[r] : lo;
        hi = op->hi[r] > hi ? op->hi[r] : hi;
        t->all_lo = op->lo[r] > t->all_lo ? op->lo[r] : t->all_lo;
        t->all_hi = op->hi[r] < t->all_hi ? op->hi[r] : t->all_hi;
    }
    t->lo = lo;
    t->hi = hi;
    t->part0 = lo / ATTN_PART;
    t->n_part = hi > lo ? (hi - 1) / ATTN_PART - t->part0 + 1 : 0;
}

/* Fills c->tiles; the total of their parts. */
static bool build_tiles(struct call *c)
{
    const struct dev_attention *op = c->op;
    uint64_t n = count_tiles(op, c->max_rows), bytes;
    if (n > UINT32_MAX || !checked_mul(n, sizeof(struct tile), &bytes)) {
        cpu_fail(c->d, INFER_ERROR_NO_MEMORY);
        return false;
    }
    c->tiles = cpu_scratch_get(c->d, &c->d->items, bytes);
    if (!c->tiles)
        return false;
    for (uint32_t i = 0; i < op->n_seq; i++) {
        const struct dev_seq *seq = &op->seqs[i];
        for (uint32_t r = 0; r < seq->n_row; r += c->max_rows) {
            struct tile *t = &c->tiles[c->n_tiles++];
            *t = (struct tile){.seq = seq, .row = seq->row + r, .slot = c->n_parts};
            t->n_row = seq->n_row - r < c->max_rows ? seq->n_row - r : c->max_rows;
            tile_span(op, t);
            c->n_parts += t->n_part;
        }
    }
    return true;
}

/* Room for the states of all parts, and the list of parts behind them. */
static bool build_parts(struct call *c)
{
    uint64_t each = (uint64_t)c->op->kv.n_head_kv * c->max_rows * c->group * c->state_floats * sizeof(float), states, list, all;
    if (!checked_mul(c->n_parts, each, &states) || !checked_mul(c->n_parts, sizeof *c->parts, &list)
        || !checked_add(states, list, &all)) {
        cpu_fail(c->d, INFER_ERROR_NO_MEMORY);
        return false;
    }
    c->partials = cpu_scratch_get(c->d, &c->d->partials, all);
    if (!c->partials)
        return false;
    c->parts = (struct part *)((char *)c->partials + states);
    uint64_t n = 0;
    for (uint32_t i = 0; i < c->n_tiles; i++)
        for (uint64_t p = 0; p < c->tiles[i].n_part; p++)
            c->parts[n++] = (struct part){i, c->tiles[i].part0 + p};
    return true;
}

static uint64_t count_work(const struct dev_attention *op)
{
    uint64_t seen = 0;
    for (uint32_t i = 0; i < op->n_seq; i++)
        for (uint32_t r = op->seqs[i].row; r < op->seqs[i].row + op->seqs[i].n_row; r++)
            seen += op->hi[r] - op->lo[r];
    return seen * op->n_head * op->kv.head_dim / 4;
}

void cpu_attention(struct device *dev, const struct dev_attention *op)
{
    struct call c = {
        .d = cpu_of(dev),
        .op = op,
        .group = op->n_head / op->kv.n_head_kv,
        .state_floats = attn_state_floats(op->kv.head_dim),
    };
    if (c.d->failed)
        return;
    if (!attn_supports_head_dim(op->kv.head_dim)) {
        cpu_fail(c.d, INFER_ERROR_INTERNAL);
        return;
    }
    c.max_rows = choose_rows(&c);
    if (!build_tiles(&c) || !cpu_workers_need(c.d, space_bytes((uint64_t)c.max_rows * c.group, op->kv.head_dim)))
        return;
    uint64_t n_items = (uint64_t)c.n_tiles * op->kv.n_head_kv, threads = pool_threads(c.d->pool), work = count_work(op);
    if (threads == 1 || n_items >= threads * 4 || c.n_parts == c.n_tiles) {
        cpu_run(c.d, n_items, work, tile_task, &c);
    } else if (build_parts(&c)) {
        cpu_run(c.d, c.n_parts * op->kv.n_head_kv, work, part_task, &c);
        cpu_run(c.d, n_items, c.n_parts * op->n_head * op->kv.head_dim, merge_task, &c);
    }
}

void cpu_use_attention(struct cpu_use *u, const struct dev_kv *kv, uint32_t n_head, uint64_t n_seq, uint64_t n_row, uint64_t n_seen)
{
    uint64_t group = n_head / kv->n_head_kv, state = attn_state_floats(kv->head_dim), fit = queries_that_fit(state);
    uint64_t rows = group < fit ? fit / group : 1;
    while (too_few((n_row + n_seq * (rows - 1)) / rows, rows, group, kv->n_head_kv, u->threads)) /* the most tiles there can be */
        rows = (rows + 1) / 2;
    rows = rows < n_row ? rows : n_row;
    uint64_t worker = space_bytes(rows * group, kv->head_dim), items = n_row * sizeof(struct tile);
    /* Parts come where there are fewer items than TILES_A_THREAD each, and then in tiles of FEW_QUERIES, or one row. */
    uint64_t n = group > FEW_QUERIES ? group : FEW_QUERIES, each = n * state * sizeof(float) + sizeof(struct part);
    uint64_t parts = u->threads > 1 ? (uint64_t)u->threads * TILES_A_THREAD * (n_seen / ATTN_PART + 2) : 0;
    u->worker = worker > u->worker ? worker : u->worker;
    u->items = items > u->items ? items : u->items;
    u->partials = parts * each > u->partials ? parts * each : u->partials;
}
