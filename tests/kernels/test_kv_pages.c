/* Pages as a whole, to the bit: attention over pages of two types is attention over the same numbers widened beforehand, at every level and with any
 * number of threads; and elements that move from page to page keep their bits, or have their keys rotated as a model would. */
#include "testutil.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "kernels/attn.h"
#include "kernels/cpu.h"
#include "kernels/device.h"
#include "recording_device.h"

static const struct {
    int32_t level;
    const char *name;
} levels[] = {
#define LEVEL(level, name) {level, name},
    CPU_LEVELS(LEVEL)
#undef LEVEL
};
#define N_LEVELS (sizeof levels / sizeof *levels)

enum { LEN = 1300, MOVED = 400, PAGES = (LEN + 63) / 64, KV_HEADS = 2, HEADS = 6, MAX_DIM = 128 };

static struct device *make(int32_t level, uint32_t threads)
{
    struct device *d = NULL;
    struct cpu_device_options o = {level, INFER_NUMERICS_EXACT, threads, NULL, NULL};
    assert_int_equal(cpu_device_create(&alloc_default, &o, &d, NULL), INFER_OK);
    return d;
}

static struct dev_ref upload(struct device *d, const void *p, uint64_t bytes)
{
    struct dev_ref r = {NULL, 0};
    assert_int_equal(d->ops->alloc(d, bytes, &r.buf, NULL), INFER_OK);
    d->ops->write(d, r, p, bytes);
    return r;
}

static float *randoms(uint64_t *seed, size_t n)
{
    float *p = malloc(n * sizeof *p);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        p[i] = test_rand_f32(seed);
    return p;
}

/* ---- a sequence's pages in one type; what no one wrote is NaN */

struct store {
    struct device *d;
    struct dev_kv kv;
    uint64_t bytes; /* of a page */
    uint32_t len, n_pages;
    struct dev_ref pages[PAGES];
};

static void store_open(struct store *s, struct device *d, int32_t type, uint32_t dim, uint32_t len)
{
    uint64_t half = KV_HEADS * dev_kv_head_bytes(type, dim);
    *s = (struct store){.d = d, .kv = {type, KV_HEADS, dim, 64, 64 + half}, .bytes = 64 + 2 * half, .len = len, .n_pages = (len + 63) / 64};
    char *nan = malloc(s->bytes);
    memset(nan, 0xFF, s->bytes);
    for (uint32_t p = 0; p < s->n_pages; p++)
        s->pages[p] = upload(d, nan, s->bytes);
    free(nan);
}

static void store_fill(struct store *s, const float *k, const float *v)
{
    uint32_t width = KV_HEADS * s->kv.head_dim;
    struct dev_ref dk = upload(s->d, k, s->len * width * 4ull), dv = upload(s->d, v, s->len * width * 4ull);
    struct dev_seq all = {0, s->len, 0, s->pages};
    s->d->ops->kv_write(s->d, &s->kv, dk, width, dv, width, &all, 1);
    s->d->ops->free(s->d, dk.buf), s->d->ops->free(s->d, dv.buf);
}

static void store_close(struct store *s)
{
    for (uint32_t p = 0; p < s->n_pages; p++)
        s->d->ops->free(s->d, s->pages[p].buf);
}

static char *store_page(const struct store *s, uint32_t p)
{
    char *host = aligned_alloc(64, (s->bytes + 63) / 64 * 64);
    assert_non_null(host);
    s->d->ops->read(s->d, host, s->pages[p], s->bytes);
    return host;
}

/* Page p of an f32 store becomes page p of another, widened by the scalar code. */
static void store_widen(struct store *f32, const struct store *s, uint32_t p)
{
    char *from = store_page(s, p), *to = store_page(f32, p);
    for (uint32_t h = 0; h < KV_HEADS; h++) {
        uint64_t wide = h * dev_kv_head_bytes(INFER_KV_F32, s->kv.head_dim), narrow = h * dev_kv_head_bytes(s->kv.type, s->kv.head_dim);
        struct attn_block_args a = {.kv_type = s->kv.type, .head_dim = s->kv.head_dim, .k = from + s->kv.k_off + narrow,
                                    .v = from + s->kv.v_off + narrow};
        attn_widen_scalar((float *)(void *)(to + f32->kv.k_off + wide), (float *)(void *)(to + f32->kv.v_off + wide), &a);
    }
    f32->d->ops->write(f32->d, f32->pages[p], to, f32->bytes);
    free(from), free(to);
}

/* ---- attention over two types */

struct scene {
    int32_t coarse, exact;
    uint32_t dim, rows;      /* queries are the elements [from, from + rows) */
    uint64_t from, recent, window;
    float *k, *v, *q;
    uint64_t lo[LEN], hi[LEN], pages[LEN]; /* [rows] */
};

static uint32_t scene_length(const struct scene *s)
{
    return (uint32_t)s->from + s->rows;
}

static void scene_make(struct scene *s, uint64_t *seed)
{
    s->k = randoms(seed, (size_t)LEN * KV_HEADS * s->dim);
    s->v = randoms(seed, (size_t)LEN * KV_HEADS * s->dim);
    s->q = randoms(seed, (size_t)s->rows * HEADS * s->dim);
    for (uint32_t r = 0; r < s->rows; r++) {
        uint64_t e = s->from + r + 1;
        s->hi[r] = e;
        s->lo[r] = s->window && e > s->window ? e - s->window : 0;
        s->pages[r] = e > s->recent ? (e - s->recent) / 64 : 0;
    }
}

static void scene_free(struct scene *s)
{
    free(s->k), free(s->v), free(s->q);
}

/* All rows at once; the caller frees. */
static float *scene_run(const struct scene *s, struct device *d)
{
    struct store coarse, exact;
    uint32_t width = HEADS * s->dim;
    size_t bytes = (size_t)s->rows * width * 4;
    store_open(&coarse, d, s->coarse, s->dim, scene_length(s)), store_open(&exact, d, s->exact, s->dim, scene_length(s));
    store_fill(&coarse, s->k, s->v), store_fill(&exact, s->k, s->v);
    for (uint64_t p = 0; p < s->pages[0]; p++) /* no longer there */
        d->ops->free(d, exact.pages[p].buf), exact.pages[p].buf = NULL;
    struct dev_seq seq = {0, s->rows, s->from, coarse.pages}, other = {0, s->rows, s->from, exact.pages};
    struct dev_ref q = upload(d, s->q, bytes), dst = upload(d, s->q, bytes);
    d->ops->attention(d, &(struct dev_attention){dst, q, width, width, HEADS, 0.2f, 0, coarse.kv, &seq, 1, s->lo, s->hi,
                                                 {exact.kv, &other, s->pages}});
    float *out = malloc(bytes);
    d->ops->read(d, out, dst, bytes);
    assert_int_equal(d->ops->sync(d, NULL), INFER_OK);
    d->ops->free(d, q.buf), d->ops->free(d, dst.buf);
    store_close(&coarse), store_close(&exact);
    return out;
}

/* Row by row over pages of f32 that hold what the row should see. */
static float *scene_reference(const struct scene *s)
{
    struct device *d = make(INFER_CPU_SCALAR, 1);
    struct store coarse, exact, seen;
    uint32_t width = HEADS * s->dim;
    float *out = malloc((size_t)s->rows * width * 4);
    store_open(&coarse, d, s->coarse, s->dim, scene_length(s)), store_open(&exact, d, s->exact, s->dim, scene_length(s));
    store_open(&seen, d, INFER_KV_F32, s->dim, scene_length(s));
    store_fill(&coarse, s->k, s->v), store_fill(&exact, s->k, s->v);
    for (uint32_t r = 0; r < s->rows; r++) {
        for (uint32_t p = 0; p * 64ull < s->hi[r]; p++)
            if (r == 0 || s->pages[r] != s->pages[r - 1] || p * 64ull >= s->hi[r - 1])
                store_widen(&seen, p < s->pages[r] ? &coarse : &exact, p);
        struct dev_seq seq = {0, 1, s->from + r, seen.pages};
        struct dev_ref q = upload(d, s->q + (size_t)r * width, width * 4), dst = upload(d, s->q, width * 4);
        d->ops->attention(d, &(struct dev_attention){dst, q, width, width, HEADS, 0.2f, 0, seen.kv, &seq, 1, s->lo + r, s->hi + r,
                                                     {.pages = NULL}});
        d->ops->read(d, out + (size_t)r * width, dst, width * 4);
        d->ops->free(d, q.buf), d->ops->free(d, dst.buf);
    }
    assert_int_equal(d->ops->sync(d, NULL), INFER_OK);
    store_close(&coarse), store_close(&exact), store_close(&seen);
    d->ops->destroy(d);
    return out;
}

static void test_mixed(void **state)
{
    (void)state;
    static const struct scene scenes[] = {
        {.coarse = INFER_KV_INT8, .exact = INFER_KV_F16, .dim = 40, .rows = 70, .from = 100, .recent = 64},
        {.coarse = INFER_KV_INT8, .exact = INFER_KV_F32, .dim = 64, .rows = 40, .from = 290, .recent = 128},
        {.coarse = INFER_KV_INT8, .exact = INFER_KV_F16, .dim = 64, .rows = 1, .from = 1099, .recent = 64},
        {.coarse = INFER_KV_INT8, .exact = INFER_KV_F32, .dim = 24, .rows = 30, .from = 420, .recent = 192, .window = 300},
        {.coarse = INFER_KV_INT8_64, .exact = INFER_KV_F16, .dim = 72, .rows = 2, .from = 191, .recent = 64}};
    uint64_t seed = 51;
    uint32_t compared = 0;
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        struct scene s = scenes[i];
        size_t bytes = (size_t)s.rows * HEADS * s.dim * 4;
        scene_make(&s, &seed);
        float *want = scene_reference(&s);
        for (size_t l = 0; l < N_LEVELS; l++)
            for (uint32_t threads = 1; threads <= 3 && cpu_level_supported(levels[l].level); threads++, compared++) {
                struct device *d = make(levels[l].level, threads);
                d = threads == 3 ? recording_device_create(d) : d;
                float *got = scene_run(&s, d);
                if (memcmp(got, want, bytes))
                    fail_msg("scene %zu, %s, %u threads", i, levels[l].name, threads);
                free(got);
                if (threads == 3)
                    assert_int_equal(recording_of(d)->n_errors, 0);
                d->ops->destroy(d);
            }
        free(want);
        scene_free(&s);
    }
    assert_true(compared >= 15);
    print_message("# attention over two types: %u cases compared\n", compared);
}

/* ---- moving */

struct move {
    int32_t type;
    enum dev_rope_kind kind;
    uint32_t dim, n_rot;
    int64_t delta;
    uint64_t src, dst, n;
};

/* The host's copies of all pages after a move; the caller frees. */
static char *move_run(const struct move *m, struct device *d, const float *k, const float *v, const float *inv_freq, struct store *to)
{
    struct store from;
    store_open(&from, d, m->type, m->dim, MOVED), store_open(to, d, m->type, m->dim, MOVED);
    store_fill(&from, k, v);
    struct dev_ref inv = upload(d, inv_freq, m->n_rot / 2 * 4);
    d->ops->kv_move(d, &(struct dev_kv_move){from.kv, m->kind, m->n_rot, inv, m->delta, from.pages, to->pages, m->src, m->dst, m->n});
    assert_int_equal(d->ops->sync(d, NULL), INFER_OK);
    char *all = malloc(to->n_pages * to->bytes);
    for (uint32_t p = 0; p < to->n_pages; p++)
        d->ops->read(d, all + p * to->bytes, to->pages[p], to->bytes);
    d->ops->free(d, inv.buf);
    store_close(&from), store_close(to);
    return all;
}

/* An element of the pages that move_run read; keys lie transposed. Its step: what one code is worth. */
static double moved(const struct store *s, const char *all, bool keys, uint64_t e, uint32_t h, uint32_t d, double *step)
{
    uint32_t dim = s->kv.head_dim, j = (uint32_t)(e % 64), group = dev_kv_group(s->kv.type);
    const char *head = all + e / 64 * s->bytes + (keys ? s->kv.k_off : s->kv.v_off) + h * dev_kv_head_bytes(s->kv.type, dim);
    size_t i = keys ? (size_t)d * 64 + j : (size_t)j * dim + d;
    uint16_t half;
    float f;
    *step = 1;
    if (group) {
        memcpy(&half, head + dim * 64ull + (d / group * 64 + j) * 2, 2);
        *step = f16_to_f32(half);
        return (double)((const int8_t *)head)[i] * *step;
    }
    if (s->kv.type == INFER_KV_F32) {
        memcpy(&f, head + i * 4, 4);
        return f;
    }
    memcpy(&half, head + i * 2, 2);
    return s->kv.type == INFER_KV_F16 ? f16_to_f32(half) : bf16_to_f32(half);
}

/* Dimension d of an element's key at the new position, from the exact one. */
static double rotated(const struct move *m, const float *key, const float *inv_freq, uint32_t d)
{
    if (d >= m->n_rot || !m->delta)
        return key[d];
    uint32_t half = m->n_rot / 2, i = m->kind == DEV_ROPE_PAIRS ? d / 2 : d % half;
    uint32_t a = m->kind == DEV_ROPE_PAIRS ? 2 * i : i, b = m->kind == DEV_ROPE_PAIRS ? a + 1 : i + half;
    double t = (double)m->delta * (double)inv_freq[i];
    return d == a ? key[a] * cos(t) - key[b] * sin(t) : key[b] * cos(t) + key[a] * sin(t);
}

static void check_moved(const struct move *m, const struct store *s, const char *all, const float *k, const float *v, const float *inv_freq)
{
    uint32_t width = KV_HEADS * m->dim;
    /* rounded twice; values are below 6 */
    static const double near[] = {[INFER_KV_F16] = 8e-3, [INFER_KV_F32] = 1e-4, [INFER_KV_BF16] = 6e-2, [INFER_KV_INT8] = 0.08, [INFER_KV_INT8_64] = 0.08};
    for (uint64_t e = 0; e < s->n_pages * 64; e++)
        for (uint32_t h = 0; h < KV_HEADS; h++)
            for (uint32_t d = 0; d < m->dim; d++) {
                double step, got = moved(s, all, true, e, h, d, &step), got_v = moved(s, all, false, e, h, d, &step);
                if (e < m->dst || e >= m->dst + m->n) { /* untouched: int8 0xFF is -1 times a NaN */
                    assert_true(isnan(got) && isnan(got_v));
                    continue;
                }
                size_t at = (size_t)(m->src + e - m->dst) * width + h * m->dim;
                double key = rotated(m, k + at, inv_freq, d), value = v[at + d];
                assert_true(fabs(got - key) < near[m->type] && fabs(got_v - value) < near[m->type]);
            }
}

static void test_move(void **state)
{
    (void)state;
    static const struct move moves[] = {
        {0, DEV_ROPE_HALVES, 64, 64, -200, 277, 77, 123}, {0, DEV_ROPE_PAIRS, 40, 40, 1, 0, 1, 64},
        {0, DEV_ROPE_HALVES, 128, 96, 1234, 5, 300, 100}, {0, DEV_ROPE_PAIRS, 72, 16, -64, 128, 64, 128},
        {0, DEV_ROPE_HALVES, 24, 24, 0, 70, 70, 200},      {0, DEV_ROPE_PAIRS, 8, 8, 0, 3, 200, 1}};
    uint64_t seed = 52;
    uint32_t compared = 0;
    float inv_freq[MAX_DIM / 2];
    for (size_t i = 0; i < sizeof moves / sizeof *moves * 5; i++) {
        struct move m = moves[i / 5];
        m.type = (int32_t)(i % 5);
        struct store s;
        float *k = randoms(&seed, (size_t)MOVED * KV_HEADS * m.dim), *v = randoms(&seed, (size_t)MOVED * KV_HEADS * m.dim);
        for (uint32_t f = 0; f < m.n_rot / 2; f++)
            inv_freq[f] = (float)pow(10000, -2.0 * f / m.n_rot);
        struct device *scalar = recording_device_create(make(INFER_CPU_SCALAR, 1));
        char *want = move_run(&m, scalar, k, v, inv_freq, &s);
        assert_int_equal(recording_of(scalar)->n_errors, 0);
        scalar->ops->destroy(scalar);
        check_moved(&m, &s, want, k, v, inv_freq);
        for (size_t l = 0; l < N_LEVELS; l++)
            if (cpu_level_supported(levels[l].level)) {
                struct device *d = make(levels[l].level, 2);
                char *got = move_run(&m, d, k, v, inv_freq, &s);
                if (memcmp(got, want, s.n_pages * s.bytes))
                    fail_msg("move %zu of type %d, %s", i / 5, (int)m.type, levels[l].name);
                free(got);
                d->ops->destroy(d);
                compared++;
            }
        free(want), free(k), free(v);
    }
    assert_true(compared >= 30);
    print_message("# moves: %u cases compared\n", compared);
}

/* With delta 0 the stored bits stay, whatever they are. */
static void test_move_bits(void **state)
{
    (void)state;
    uint64_t seed = 53;
    for (int32_t type = INFER_KV_F16; type <= INFER_KV_INT8_64; type++) {
        struct device *d = make(INFER_CPU_AUTO, 2);
        struct store a, b, c;
        store_open(&a, d, type, 72, MOVED), store_open(&b, d, type, 72, MOVED), store_open(&c, d, type, 72, MOVED);
        char *junk = malloc(a.bytes);
        for (uint32_t p = 0; p < a.n_pages; p++) {
            for (uint64_t i = 0; i < a.bytes; i++)
                junk[i] = (char)test_rand(&seed);
            d->ops->write(d, a.pages[p], junk, a.bytes);
        }
        /* off by 13 and back again is the same as not at all */
        struct dev_kv_move there = {a.kv, DEV_ROPE_PAIRS, 72, {NULL, 0}, 0, a.pages, b.pages, 0, 13, MOVED - 13};
        struct dev_kv_move back = {a.kv, DEV_ROPE_PAIRS, 72, {NULL, 0}, 0, b.pages, c.pages, 13, 0, MOVED - 13};
        d->ops->kv_move(d, &there);
        d->ops->kv_move(d, &back);
        assert_int_equal(d->ops->sync(d, NULL), INFER_OK);
        for (uint32_t p = 0; p < (MOVED - 13) / 64; p++) {
            char *x = store_page(&a, p), *y = store_page(&c, p);
            assert_memory_equal(x + 64, y + 64, a.bytes - 64);
            free(x), free(y);
        }
        free(junk);
        store_close(&a), store_close(&b), store_close(&c);
        d->ops->destroy(d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mixed), cmocka_unit_test(test_move), cmocka_unit_test(test_move_bits)};
    return cmocka_run_group_tests_name("kv_pages", tests, NULL, NULL);
}
