/* Attention over a page in vectors of any width: the text of x86/attn_avx2.c, x86/attn_avx512.c and arm/attn_neon.c, which define before they include it
 *
 *   NAME(x)          x with the variant's suffix
 *   LANES, VF        lanes and type of a vector of f32
 *   V_REDUCE_MAX     of all lanes, none a NaN
 *   V_LOAD, V_STORE (aligned or not), V_SET1, V_FMA, V_ADD, V_SUB, V_MUL, V_DIV, V_MAX (the second operand where the first is NaN), V_EXP, V_TANH
 *   V_LOAD_F16, V_LOAD_BF16, V_LOAD_I8 (p): LANES elements widened
 *   WIDE(r)          vectors of a strip for r queries: r * WIDE(r) accumulators fit the registers
 *   HALF_LOADS       defined when LANES is 16: V_HALF_F32, V_HALF_F16, V_HALF_BF16, V_HALF_I8 (p): 8 elements, zeros above
 *
 * Scores and outputs are the same product: C[r][n] += sum over k of A[r][k] * B[k][n] in increasing k, with a row of C for each query: scores have
 * A = q, B = K transposed (n: keys); outputs have A = weights, B = V (n: head dimensions). A page row is loaded and widened once for all
 * queries of a tile. */
#include <string.h>

#include "kernels/attn_round.h"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(undefined_behavior_sanitizer)
#define SANITIZED 1
#endif
#endif

#if defined(SANITIZED)
#define UNROLL /* checks in every copy would take minutes to compile */
#elif defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#define TILE 6u /* queries at once */

struct product {
    const float *a[TILE];        /* [n_k] */
    float *c[TILE];              /* [n], rounded up to 16 */
    const void *b;               /* [n_k][n] */
    const float *scales;         /* int8: of the groups, [group][64] */
    uint32_t n_k, n;
    uint32_t group_bits;           /* a group has 2^group_bits dimensions */
    bool fresh;                    /* C begins at +0 */
    const char *ahead, *ahead_end; /* fetched meanwhile, */
    uint32_t ahead_step;           /* so much per k: a multiple of 64 */
};

/* What B is: int8 has scales per position, which are columns of K and rows of V. */
enum { KV_F16 = INFER_KV_F16, KV_F32 = INFER_KV_F32, KV_BF16 = INFER_KV_BF16, KV_K8, KV_V8, KV_KINDS };

#define FORCE_INLINE static inline __attribute__((always_inline))
#define FETCH(p)     __builtin_prefetch(p, 0, 1)

FORCE_INLINE VF load_plain(int type, const void *b, size_t i)
{
    if (type == KV_F32)
        return V_LOAD((const float *)b + i);
    if (type == KV_F16)
        return V_LOAD_F16((const uint16_t *)b + i);
    if (type == KV_BF16)
        return V_LOAD_BF16((const uint16_t *)b + i);
    return V_LOAD_I8((const int8_t *)b + i);
}

#ifdef HALF_LOADS
FORCE_INLINE VF load_half(int type, const void *b, size_t i)
{
    if (type == KV_F32)
        return V_HALF_F32((const float *)b + i);
    if (type == KV_F16)
        return V_HALF_F16((const uint16_t *)b + i);
    if (type == KV_BF16)
        return V_HALF_BF16((const uint16_t *)b + i);
    return V_HALF_I8((const int8_t *)b + i);
}
#else
#define load_half load_plain
#endif

/* B[k][col ..], of which a half vector is there when half. */
FORCE_INLINE VF load_b(int type, const struct product *p, uint32_t k, uint32_t col, int half)
{
    size_t at = (size_t)k * p->n + col;
    VF x = half ? load_half(type, p->b, at) : load_plain(type, p->b, at);
    if (type == KV_K8)
        return V_MUL(x, V_LOAD(p->scales + (size_t)(k >> p->group_bits) * ATTN_BLOCK + col));
    if (type == KV_V8)
        return V_MUL(x, V_SET1(p->scales[(size_t)(col >> p->group_bits) * ATTN_BLOCK + k]));
    return x;
}

typedef VF strip_sums[TILE][4];

FORCE_INLINE void strip_step(int rows, int wide, int type, int half, const struct product *p, uint32_t k, uint32_t col, strip_sums acc)
{
    VF b[4];
    UNROLL
    for (int v = 0; v < wide; v++)
        b[v] = load_b(type, p, k, col + (uint32_t)v * LANES, half);
    UNROLL
    for (int r = 0; r < rows; r++) {
        VF a = V_SET1(p->a[r][k]);
        UNROLL
        for (int v = 0; v < wide; v++)
            acc[r][v] = V_FMA(a, b[v], acc[r][v]);
    }
}

/* The next of what is to be fetched. */
FORCE_INLINE const char *fetch_step(const struct product *p, const char *ahead)
{
    if (ahead < p->ahead_end) {
        for (uint32_t i = 0; i < p->ahead_step; i += 64)
            FETCH(ahead + i);
        ahead += p->ahead_step;
    }
    return ahead;
}

/* Columns [col, col + wide * LANES), or the last 8 when half. */
FORCE_INLINE void strip(int rows, int wide, int type, int half, struct product *p, uint32_t col)
{
    strip_sums acc;
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < wide; v++)
            acc[r][v] = p->fresh ? V_SET1(0.0f) : V_LOAD(p->c[r] + col + v * LANES);
    }
    const char *ahead = p->ahead;
    uint32_t k = 0;
    if (rows == TILE && type == KV_F32 && wide > 1) /* prefill: branches count */
        for (; k + 4 <= p->n_k; k += 4) {
            ahead = fetch_step(p, ahead);
            UNROLL
            for (uint32_t i = 0; i < 4; i++)
                strip_step(rows, wide, type, half, p, k + i, col, acc);
        }
    for (; k < p->n_k; k++) {
        ahead = fetch_step(p, ahead);
        strip_step(rows, wide, type, half, p, k, col, acc);
    }
    p->ahead = ahead;
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < wide; v++)
            V_STORE(p->c[r] + col + v * LANES, acc[r][v]);
    }
}

FORCE_INLINE void product(int rows, int type, struct product *p)
{
    uint32_t col = 0;
    for (; p->n - col >= WIDE(rows) * LANES; col += WIDE(rows) * LANES)
        strip(rows, WIDE(rows), type, 0, p, col);
    for (; p->n - col >= LANES; col += LANES)
        strip(rows, 1, type, 0, p, col);
#ifdef HALF_LOADS
    if (col < p->n)
        strip(rows, 1, type, 1, p, col);
#endif
}

#define PRODUCT(rows, type)                                                                                            \
    static void product_##rows##_##type(struct product *p)                                                             \
    {                                                                                                                  \
        product(rows, type, p);                                                                                        \
    }
#define PRODUCTS(type)                                                                                                 \
    PRODUCT(1, type) PRODUCT(2, type) PRODUCT(3, type) PRODUCT(4, type) PRODUCT(5, type) PRODUCT(6, type)
PRODUCTS(KV_F16)
PRODUCTS(KV_F32)
PRODUCTS(KV_BF16)
PRODUCTS(KV_K8)
PRODUCTS(KV_V8)

typedef void product_fn(struct product *p);
#define PRODUCT_ROW(type)                                                                                              \
    {product_1_##type, product_2_##type, product_3_##type, product_4_##type, product_5_##type, product_6_##type}
static product_fn *const products[KV_KINDS][TILE] = {
    [KV_F16] = PRODUCT_ROW(KV_F16), [KV_F32] = PRODUCT_ROW(KV_F32), [KV_BF16] = PRODUCT_ROW(KV_BF16),
    [KV_K8] = PRODUCT_ROW(KV_K8),   [KV_V8] = PRODUCT_ROW(KV_V8)};

/* A call's arguments, and what belongs to all its tiles. */
struct block {
    const struct attn_block_args *a;
    int k_kind, v_kind;
    size_t v_row;                      /* bytes */
    uint32_t group_bits;
    const float *k_scales, *v_scales;
    const char *ahead_k, *ahead_v;     /* how far was fetched */
    size_t ahead_share;                /* of a tile, of each */
};

/* The share of a tile in what is fetched, spread over a product with columns in `strips` strips. */
static void plan_fetch(struct product *p, const struct block *b, const char *start, const char **at, uint32_t n, uint32_t strips)
{
    if (!start)
        return;
    const char *end = start + b->a->ahead_bytes;
    p->ahead = *at;
    p->ahead_end = (size_t)(end - *at) > b->ahead_share ? *at + b->ahead_share : end;
    *at = p->ahead_end;
    uint32_t steps = n == TILE && b->k_kind == KV_F32 ? (p->n_k + 3) / 4 * strips : p->n_k * strips; /* see strip() */
    p->ahead_step = ((uint32_t)(b->ahead_share / steps) + 63u) & ~63u;
}

/* Dots to scores, -inf where the query does not see; the maximum of these and of m. */
static float finish_scores(const struct attn_block_args *a, const struct attn_query *q, float *s)
{
    VF scale = V_SET1(a->scale), cap = V_SET1(a->softcap), x[ATTN_BLOCK / LANES], best = V_SET1(-__builtin_inff());
    UNROLL
    for (uint32_t i = 0; i < ATTN_BLOCK / LANES; i++)
        x[i] = V_MUL(V_LOAD(s + i * LANES), scale);
    if (a->softcap != 0)
        for (uint32_t i = 0; i < ATTN_BLOCK / LANES; i++)
            x[i] = V_MUL(cap, V_TANH(V_DIV(x[i], cap)));
    UNROLL
    for (uint32_t i = 0; i < ATTN_BLOCK / LANES; i++) {
        V_STORE(s + i * LANES, x[i]);
        best = V_MAX(x[i], best);
    }
    if (q->j0 > 0 || q->j1 < ATTN_BLOCK) {
        for (uint32_t j = 0; j < q->j0; j++)
            s[j] = -__builtin_inff();
        for (uint32_t j = q->j1; j < ATTN_BLOCK; j++)
            s[j] = -__builtin_inff();
        best = V_SET1(-__builtin_inff());
        for (uint32_t j = 0; j < ATTN_BLOCK; j += LANES)
            best = V_MAX(V_LOAD(s + j), best);
    }
    float block = V_REDUCE_MAX(best), m = q->state[ATTN_STATE_M];
    return block > m ? block : m;
}

static void rescale(const struct attn_block_args *a, float *state, float factor)
{
    VF c = V_SET1(factor);
    for (uint32_t l = 0; l < 16; l += LANES)
        V_STORE(state + ATTN_STATE_L + l, V_MUL(V_LOAD(state + ATTN_STATE_L + l), c));
    for (uint32_t d = 0; d < a->head_dim; d += LANES)
        V_STORE(state + ATTN_STATE_O + d, V_MUL(V_LOAD(state + ATTN_STATE_O + d), c));
}

/* Scores to weights; weights that the query does not see become 0, which adds nothing to a sum. */
static void finish_weights(float *state, float *s)
{
    VF m = V_SET1(state[ATTN_STATE_M]), l[16 / LANES];
    UNROLL
    for (uint32_t i = 0; i < 16 / LANES; i++)
        l[i] = V_LOAD(state + ATTN_STATE_L + i * LANES);
    for (uint32_t j = 0; j < ATTN_BLOCK; j += 16) {
        UNROLL
        for (uint32_t i = 0; i < 16 / LANES; i++) {
            VF p = V_EXP(V_SUB(V_LOAD(s + j + i * LANES), m));
            l[i] = V_ADD(l[i], p);
            V_STORE(s + j + i * LANES, p);
        }
    }
    UNROLL
    for (uint32_t i = 0; i < 16 / LANES; i++)
        V_STORE(state + ATTN_STATE_L + i * LANES, l[i]);
}

/* The running maximum, sums and weights of a tile. */
static void soften(const struct attn_block_args *a, const struct attn_query *q, uint32_t n, float (*s)[ATTN_BLOCK])
{
    float drop[16] = {0}; /* by how much the maximum rose, negative */
    for (uint32_t r = 0; r < n; r++) {
        float m = finish_scores(a, &q[r], s[r]);
        drop[r] = q[r].state[ATTN_STATE_M] - m;
        q[r].state[ATTN_STATE_M] = m;
    }
    for (uint32_t i = 0; i < 8; i += LANES)
        V_STORE(drop + i, V_EXP(V_LOAD(drop + i)));
    for (uint32_t r = 0; r < n; r++) {
        if (drop[r] != 1.0f)
            rescale(a, q[r].state, drop[r]);
        finish_weights(q[r].state, s[r]);
    }
}

static void outputs(struct block *b, const struct attn_query *q, uint32_t n, float (*s)[ATTN_BLOCK], uint32_t j0, uint32_t j1,
                    bool fetch)
{
    const struct attn_block_args *a = b->a;
    struct product p = {.b = (const char *)a->v + j0 * b->v_row, .scales = b->v_scales ? b->v_scales + j0 : NULL, .n_k = j1 - j0, .n = a->head_dim,
                        .group_bits = b->group_bits};
    if (j0 >= j1)
        return;
    for (uint32_t r = 0; r < n; r++) {
        p.a[r] = s[r] + j0;
        p.c[r] = q[r].state + ATTN_STATE_O;
    }
    if (fetch)
        plan_fetch(&p, b, a->ahead_v, &b->ahead_v, n,
                   (a->head_dim + WIDE(n) * LANES - 1) / (WIDE(n) * LANES));
    products[b->v_kind][n - 1](&p);
}

/* What all queries see together; what only some see before and after that goes one by one. */
static void weigh_values(struct block *b, const struct attn_query *q, uint32_t n, float (*s)[ATTN_BLOCK])
{
    uint32_t j0 = 0, j1 = ATTN_BLOCK;
    for (uint32_t r = 0; r < n; r++) {
        j0 = q[r].j0 > j0 ? q[r].j0 : j0;
        j1 = q[r].j1 < j1 ? q[r].j1 : j1;
    }
    if (j0 >= j1) {
        for (uint32_t r = 0; r < n; r++)
            outputs(b, q + r, 1, s + r, q[r].j0, q[r].j1, false);
        return;
    }
    for (uint32_t r = 0; r < n; r++)
        outputs(b, q + r, 1, s + r, q[r].j0, j0, false);
    outputs(b, q, n, s, j0, j1, true);
    for (uint32_t r = 0; r < n; r++)
        outputs(b, q + r, 1, s + r, j1, q[r].j1, false);
}

static void tile(struct block *b, const struct attn_query *q, uint32_t n)
{
    _Alignas(64) float s[TILE][ATTN_BLOCK];
    const struct attn_block_args *a = b->a;
    struct product p = {.b = a->k, .scales = b->k_scales, .n_k = a->head_dim, .n = ATTN_BLOCK, .group_bits = b->group_bits, .fresh = true};
    for (uint32_t r = 0; r < n; r++) {
        p.a[r] = q[r].q;
        p.c[r] = s[r];
    }
    plan_fetch(&p, b, a->ahead_k, &b->ahead_k, n, ATTN_BLOCK / (WIDE(n) * LANES));
    products[b->k_kind][n - 1](&p);
    soften(a, q, n, s);
    weigh_values(b, q, n, s);
}

static const uint16_t *scales_behind(const struct attn_block_args *a, const void *codes)
{
    return (const uint16_t *)(const void *)((const char *)codes + (size_t)a->head_dim * ATTN_BLOCK);
}

static void widen_scales(const struct attn_block_args *a, const void *codes, float *dst)
{
    const uint16_t *src = scales_behind(a, codes);
    for (uint32_t i = 0; i < dev_kv_groups(a->kv_type, a->head_dim) * ATTN_BLOCK; i += LANES)
        V_STORE(dst + i, V_LOAD_F16(src + i));
}

#define MAX_SCALES (ATTN_MAX_HEAD_DIM / DEV_KV_MIN_GROUP * ATTN_BLOCK)

static void run_tiles(const struct attn_block_args *a, const float *k_scales, const float *v_scales)
{
    uint32_t n_tiles = (a->n_query + TILE - 1) / TILE;
    uint32_t group = dev_kv_group(a->kv_type);
    bool i8 = group != 0;
    struct block b = {.a = a, .k_kind = i8 ? KV_K8 : a->kv_type, .v_kind = i8 ? KV_V8 : a->kv_type,
                      .v_row = (size_t)a->head_dim * dev_kv_elem_bytes(a->kv_type), .group_bits = group == 64 ? 6 : 5, .k_scales = k_scales,
                      .v_scales = v_scales, .ahead_k = a->ahead_k, .ahead_v = a->ahead_v,
                      .ahead_share = (a->ahead_bytes / n_tiles + 63) & ~(size_t)63};
    for (uint32_t i = 0; i < a->n_query; i += TILE)
        tile(&b, a->queries + i, a->n_query - i < TILE ? a->n_query - i : TILE);
}

/* Apart, for the room on the stack. */
static __attribute__((noinline)) void run_tiles_i8(const struct attn_block_args *a)
{
    _Alignas(64) float scales[2][MAX_SCALES];
    widen_scales(a, a->k, scales[0]);
    widen_scales(a, a->v, scales[1]);
    run_tiles(a, scales[0], scales[1]);
}

void NAME(attn_block)(const struct attn_block_args *a)
{
    if (dev_kv_group(a->kv_type))
        run_tiles_i8(a);
    else
        run_tiles(a, NULL, NULL);
}

FORCE_INLINE void widen_plain(int type, float *dst, const void *src, size_t n)
{
    for (size_t i = 0; i < n; i += LANES)
        V_STORE(dst + i, load_plain(type, src, i));
}

static void widen_any(int32_t type, float *dst, const void *src, size_t n)
{
    if (type == INFER_KV_F32)
        memcpy(dst, src, n * sizeof *dst);
    else if (type == INFER_KV_F16)
        widen_plain(KV_F16, dst, src, n);
    else
        widen_plain(KV_BF16, dst, src, n);
}

static void widen_i8(float *k, float *v, const struct attn_block_args *a)
{
    const int8_t *k8 = a->k, *v8 = a->v;
    uint32_t group = dev_kv_group(a->kv_type);
    _Alignas(64) float scales[ATTN_BLOCK];
    for (uint32_t d = 0; d < a->head_dim; d++)
        for (uint32_t j = 0; j < ATTN_BLOCK; j += LANES) {
            size_t at = (size_t)d * ATTN_BLOCK + j;
            V_STORE(k + at, V_MUL(V_LOAD_I8(k8 + at), V_LOAD_F16(scales_behind(a, k8) + d / group * ATTN_BLOCK + j)));
        }
    for (uint32_t d = 0; d < a->head_dim; d += group) {
        uint32_t end = a->head_dim - d < group ? a->head_dim : d + group;
        widen_plain(KV_F16, scales, scales_behind(a, v8) + d / group * ATTN_BLOCK, ATTN_BLOCK);
        for (uint32_t j = 0; j < ATTN_BLOCK; j++)
            for (uint32_t i = d; i < end; i++)
                v[(size_t)j * a->head_dim + i] = (float)v8[(size_t)j * a->head_dim + i] * scales[j];
    }
}

void NAME(attn_widen)(float *k, float *v, const struct attn_block_args *a)
{
    size_t n = (size_t)a->head_dim * ATTN_BLOCK;
    if (dev_kv_group(a->kv_type)) {
        widen_i8(k, v, a);
        return;
    }
    widen_any(a->kv_type, k, a->k, n);
    widen_any(a->kv_type, v, a->v, n);
}

void NAME(attn_round8)(int8_t *codes, uint16_t *scales, const float *x, uint32_t n, uint32_t group)
{
    attn_round8(codes, scales, x, n, group);
}

#define MERGE 16u /* queries whose weights are computed at once */

/* Both maxima to the weights of their states: exp(M - m'), exp(m - m'). */
static void merge_weights(const float *into, const float *parts, size_t step, uint32_t n, float *a, float *b)
{
    for (uint32_t i = 0; i < MERGE; i++)
        a[i] = b[i] = 0;
    for (uint32_t i = 0; i < n; i++) {
        float m0 = into[i * step + ATTN_STATE_M], m1 = parts[i * step + ATTN_STATE_M], m = m1 > m0 ? m1 : m0;
        a[i] = m0 - m;
        b[i] = m1 - m;
    }
    for (uint32_t i = 0; i < MERGE; i += LANES) {
        V_STORE(a + i, V_EXP(V_LOAD(a + i)));
        V_STORE(b + i, V_EXP(V_LOAD(b + i)));
    }
}

static void merge_one(float *into, const float *part, uint32_t head_dim, float a, float b)
{
    if (attn_is_empty(part))
        return;
    if (attn_is_empty(into)) {
        memcpy(into, part, attn_state_floats(head_dim) * sizeof *into);
        return;
    }
    into[ATTN_STATE_M] = part[ATTN_STATE_M] > into[ATTN_STATE_M] ? part[ATTN_STATE_M] : into[ATTN_STATE_M];
    into[ATTN_STATE_SUM] = fma_f32(into[ATTN_STATE_SUM], a, part[ATTN_STATE_SUM] * b);
    VF va = V_SET1(a), vb = V_SET1(b);
    for (uint32_t d = ATTN_STATE_O; d < ATTN_STATE_O + head_dim; d += LANES)
        V_STORE(into + d, V_FMA(V_LOAD(into + d), va, V_MUL(V_LOAD(part + d), vb)));
}

void NAME(attn_merge)(float *into, const float *parts, uint32_t head_dim, uint32_t n)
{
    size_t step = attn_state_floats(head_dim);
    _Alignas(64) float a[MERGE], b[MERGE];
    for (; n > 0; into += MERGE * step, parts += MERGE * step) {
        uint32_t some = n < MERGE ? n : MERGE;
        n -= some;
        merge_weights(into, parts, step, some, a, b);
        for (uint32_t i = 0; i < some; i++)
            merge_one(into + i * step, parts + i * step, head_dim, a[i], b[i]);
    }
}

void NAME(attn_finish)(float *dst, const float *state, uint32_t head_dim)
{
    VF sum = V_SET1(state[ATTN_STATE_SUM]);
    uint32_t d = 0;
    for (; d + LANES <= head_dim; d += LANES)
        V_STORE(dst + d, V_DIV(V_LOAD(state + ATTN_STATE_O + d), sum));
    for (; d < head_dim; d++)
        dst[d] = state[ATTN_STATE_O + d] / state[ATTN_STATE_SUM];
}
