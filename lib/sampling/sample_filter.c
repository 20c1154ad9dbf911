#include "sampling/sample_filter.h"

#include <math.h>
#include <string.h>

#include "sampling/sample_math.h"

#define ONE ((double)((uint64_t)1 << 40)) /* the weight of the most likely token */

/* Monotone in x: larger floats have larger ranks; -0 ranks as +0. */
static uint32_t rank_of(float x)
{
    uint32_t b;
    x += 0.0f;
    memcpy(&b, &x, sizeof b);
    return b & 0x80000000u ? ~b : b | 0x80000000u;
}

/* Where a run in decreasing order of rank ends: everything above `rank`, and of that rank the first ones by id until their
 * weights reach `need`. */
struct cut {
    uint32_t rank;
    uint64_t need;
};

/* Finds the shortest run whose weights reach target: a radix search, linear time, no sorting, and because weights are whole
 * numbers the same answer in any order. weight NULL: each counts 1. The run is known to end at or above `floor`. */
static struct cut find_cut(const float *x, const uint64_t *weight, uint32_t n, uint64_t target, float floor)
{
    static const uint32_t shifts[3] = {21, 10, 0}, bits[3] = {11, 11, 10};
    uint64_t histogram[2048];
    struct cut cut = {0, target};
    uint32_t known = 0; /* mask of the bits of cut.rank that are settled */
    for (int level = 0; level < 3; level++) {
        uint32_t size = 1u << bits[level], slot = size - 1;
        memset(histogram, 0, size * sizeof histogram[0]);
        for (uint32_t i = 0; i < n; i++) {
            if (x[i] < floor)
                continue;
            uint32_t r = rank_of(x[i]);
            if ((r & known) == cut.rank)
                histogram[(r >> shifts[level]) & (size - 1)] += weight ? weight[i] : 1;
        }
        while (slot > 0 && histogram[slot] < cut.need)
            cut.need -= histogram[slot--];
        cut.rank |= slot << shifts[level];
        known |= (size - 1) << shifts[level];
    }
    return cut;
}

/* A value that at least k of the n entries reach: the k-th largest of LANES strided maxima. It spares find_cut nearly all of a
 * large row. */
static float floor_of(const float *x, uint32_t n, uint32_t k)
{
    enum { LANES = 1024 };
    float lane[LANES];
    if (k > LANES / 4 || n < 4 * LANES)
        return -INFINITY;
    memcpy(lane, x, sizeof lane);
    for (uint32_t i = LANES; i + LANES <= n; i += LANES)
        for (uint32_t j = 0; j < LANES; j++)
            lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
    struct cut cut = find_cut(lane, NULL, LANES, k, -INFINITY);
    float floor = INFINITY;
    for (uint32_t j = 0; j < LANES; j++)
        if (rank_of(lane[j]) >= cut.rank && lane[j] < floor)
            floor = lane[j];
    return floor;
}

/* Whether an entry is inside the cut; called in order of id. */
static bool inside(struct cut *cut, float x, uint64_t weight)
{
    uint32_t r = rank_of(x);
    if (r != cut->rank)
        return r > cut->rank;
    if (cut->need == 0)
        return false;
    cut->need = cut->need > weight ? cut->need - weight : 0;
    return true;
}

int32_t sample_best(const float *logits, uint32_t n)
{
    float lane[8], max = -INFINITY;
    uint32_t i = 0;
    for (int j = 0; j < 8; j++)
        lane[j] = -INFINITY;
    for (; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; j++)
            lane[j] = logits[i + (uint32_t)j] > lane[j] ? logits[i + (uint32_t)j] : lane[j];
    for (; i < n; i++)
        lane[0] = logits[i] > lane[0] ? logits[i] : lane[0];
    for (int j = 0; j < 8; j++)
        max = lane[j] > max ? lane[j] : max;
    if (max == -INFINITY)
        return -1;
    for (i = 0; logits[i] != max; i++)
        ;
    return (int32_t)i;
}

double sample_log_sum(const float *logits, uint32_t n, float max)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        double x = (double)logits[i] - (double)max;
        if (x > -40.0)
            sum += sample_exp(x);
    }
    return sample_log(sum);
}

uint32_t sample_top(const float *logits, uint32_t n, uint32_t count, infer_logprob *out, float max, double log_sum)
{
    uint32_t found = 0;
    float floor = floor_of(logits, n, count);
    struct cut cut = find_cut(logits, NULL, n, count, floor);
    for (uint32_t i = 0; i < n; i++) {
        if (logits[i] < floor || logits[i] == -INFINITY || !inside(&cut, logits[i], 1))
            continue;
        uint32_t at = found++;
        while (at > 0 && logits[out[at - 1].id] < logits[i]) {
            out[at] = out[at - 1];
            at--;
        }
        out[at].id = (int32_t)i;
    }
    for (uint32_t i = 0; i < found; i++)
        out[i].logprob = (float)((double)logits[out[i].id] - (double)max - log_sum);
    return found;
}

/* Room for n survivors. They are few when top_k is set, so this is not simply the vocabulary. */
static bool reserve(const struct alloc *alloc, struct sample_work *w, uint32_t n)
{
    if (n <= w->cap)
        return true;
    mem_free(alloc, w->ids);
    mem_free(alloc, w->x);
    mem_free(alloc, w->key);
    mem_free(alloc, w->weight);
    w->cap = 0;
    w->ids = mem_array(alloc, n, sizeof *w->ids);
    w->x = mem_array(alloc, n, sizeof *w->x);
    w->key = mem_array(alloc, n, sizeof *w->key);
    w->weight = mem_array(alloc, n, sizeof *w->weight);
    if (!w->ids || !w->x || !w->key || !w->weight)
        return false;
    w->cap = n;
    return true;
}

/* Steps 5 and 6: the k largest become survivors. */
static bool take(const struct alloc *alloc, struct sample_work *w, uint32_t n, float max, float temperature, uint32_t k,
                 uint32_t *survivors)
{
    uint32_t found = 0;
    struct cut cut = {0, UINT64_MAX};
    float floor = -INFINITY;
    if (k > 0 && k < n) {
        floor = floor_of(w->row, n, k);
        cut = find_cut(w->row, NULL, n, k, floor);
    }
    if (!reserve(alloc, w, k > 0 && k < n ? k : n))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        if (w->row[i] >= floor && w->row[i] > -INFINITY && inside(&cut, w->row[i], 1)) {
            w->ids[found] = (int32_t)i;
            w->x[found++] = (w->row[i] - max) / temperature; /* at most 0; the largest is 0; may become -inf */
        }
    }
    *survivors = found;
    return true;
}

/* Keeps survivor i as number `to`. */
static void keep(struct sample_work *w, uint32_t to, uint32_t i)
{
    w->ids[to] = w->ids[i];
    w->x[to] = w->x[i];
    w->weight[to] = w->weight[i];
}

static uint64_t total_weight(const struct sample_work *w, uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += w->weight[i];
    return sum;
}

/* The shortest run in decreasing order of key with at least the share p of all weight. */
static uint32_t keep_share(struct sample_work *w, uint32_t n, const float *key, float p)
{
    uint64_t total = total_weight(w, n);
    double want = (double)p * (double)total;
    uint64_t target = (uint64_t)want;
    if ((double)target < want)
        target++;
    target = target < 1 ? 1 : target > total ? total : target;
    struct cut cut = find_cut(key, w->weight, n, target, -INFINITY);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if (inside(&cut, key[i], w->weight[i]))
            keep(w, kept++, i);
    return kept;
}

static uint32_t keep_min_p(struct sample_work *w, uint32_t n, float min_p)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if ((double)w->weight[i] >= (double)min_p * ONE)
            keep(w, kept++, i);
    return kept;
}

static uint32_t keep_typical(struct sample_work *w, uint32_t n, float p)
{
    double total = (double)total_weight(w, n), log_total = sample_log(total / ONE), entropy = 0;
    for (uint32_t i = 0; i < n; i++)
        if (w->weight[i])
            entropy += (double)w->weight[i] / total * (log_total - (double)w->x[i]);
    for (uint32_t i = 0; i < n; i++) {
        double off = log_total - (double)w->x[i] - entropy;
        w->key[i] = (float)(off < 0 ? off : -off);
    }
    return keep_share(w, n, w->key, p);
}

bool sample_filter(const struct alloc *alloc, struct sample_work *w, const infer_sampling *set, uint32_t n, float max,
                   uint32_t *survivors)
{
    uint32_t left;
    if (!take(alloc, w, n, max, set->temperature, set->top_k, &left))
        return false;
    for (uint32_t i = 0; i < left; i++) {
        double x = (double)w->x[i];
        w->weight[i] = x > -30.0 ? (uint64_t)(sample_exp(x) * ONE + 0.5) : 0;
    }
    if (set->top_p > 0 && set->top_p < 1)
        left = keep_share(w, left, w->x, set->top_p);
    if (set->min_p > 0)
        left = keep_min_p(w, left, set->min_p);
    if (set->typical_p > 0 && set->typical_p < 1)
        left = keep_typical(w, left, set->typical_p);
    *survivors = left;
    return true;
}

int32_t sample_draw(const struct sample_work *w, uint32_t survivors, double uniform)
{
    uint64_t total = total_weight(w, survivors);
    uint64_t at = (uint64_t)(uniform * (double)total), sum = 0;
    uint32_t last = 0; /* the last one with weight: a rounded-up product ends there */
    for (uint32_t i = 0; i < survivors; i++) {
        sum += w->weight[i];
        if (w->weight[i])
            last = i;
        if (sum > at)
            break;
    }
    return w->ids[last];
}
