/* The matrix product of tiles on AArch64, and of one column: MM_DOT says with which instructions (mm_v128.h). Included once by each
 * variant's source after a definition of MM_VARIANT, its name. The order of sums is in mm.h.
 *
 * Speed on real processors is not measured (only an emulator was at hand); the shapes below follow from counting instructions.
 *
 * sdot and smull take signed bytes. A code of at most 127 is one as it is; codes up to 255, whose zero point is 128, become one by
 * flipping the top bit, which subtracts the zero point. Only usdot and usmmla take codes as they are.
 *
 * Registers: 8 rows x 4 columns (2 without sdot, whose sums are 16 bits wide first). Per block of 32 inputs and column that is 16 sdot
 * and 6 float operations for 8 rows, and three loads; without sdot 32 smlal and 4 to 16 pairwise sums. usmmla does 2 rows x 2
 * columns x 8 inputs at once, after a zip of the codes of 4 + 4 inputs, which up to 16 columns share. */
#include "kernels/mm.h"
#include "kernels/mm_list.h"

enum form { K32, K32M, K32P, K16 };

struct scales {
    vf d, d1, m;
    vi n; /* of a row: two int16 */
};

#if MM_DOT == 0
#define COLS 2
#else
#define COLS 4
#endif

INLINE int8x16_t signed_codes(vi c, int max)
{
    return as_s8(max > 127 ? vxor(c, vset32(0x80808080)) : c);
}

/* Where an integer sum begins that is to lose zero * sum(q). */
INLINE int32x4_t begin(const struct mm_xblock *x, enum form form, int half, int zero)
{
    if (form == K16)
        return vdupq_n_s32(zero == 64 ? 2 * x->nz32[half] : x->nz32[half]);
    return zero == 8 ? vld1q_dup_s32(&x->nz[0]) : zero == 16 ? vld1q_dup_s32(&x->nz[1]) : vdupq_n_s32(0);
}

/* ---- 4 rows times 16 inputs of one column: codes[j * step] is group j ---- */

#if MM_DOT == 0
/* The 16-bit sums of inputs 0, 1, 2, 3 of groups, for rows 0 and 1, 2 and 3. */
struct sums16 {
    int16x8_t lo, hi;
};

/* 4 bytes in every lane. */
INLINE int8x16_t four_inputs(const int8_t *q)
{
    int32_t v;
    __builtin_memcpy(&v, q, 4);
    return vreinterpretq_s8_s32(vdupq_n_s32(v));
}

INLINE void add_group(struct sums16 *s, int8x16_t c, int8x16_t q, bool first)
{
    s->lo = first ? vmull_s8(vget_low_s8(c), vget_low_s8(q)) : vmlal_s8(s->lo, vget_low_s8(c), vget_low_s8(q));
    s->hi = first ? vmull_high_s8(c, q) : vmlal_high_s8(s->hi, c, q);
}

/* How many products of codes and 127 fit 16 bits; a divisor of 8. */
INLINE int depth_of(int max)
{
    return max <= 31 ? 8 : max <= 63 ? 4 : 2;
}
#else
INLINE int32x4_t dot16(int32x4_t acc, const int8x16_t c[4], int8x16_t q)
{
    acc = vdotq_laneq_s32(acc, c[0], q, 0);
    acc = vdotq_laneq_s32(acc, c[1], q, 1);
    acc = vdotq_laneq_s32(acc, c[2], q, 2);
    return vdotq_laneq_s32(acc, c[3], q, 3);
}
#endif

/* i[r][k] += the sums over n groups from group `from` on: rows 4r .. 4r + 3, column k. */
#if MM_DOT == 0
INLINE void sums(int nr, int nc, int32x4_t i[2][COLS], const vi *const *codes, int step, int n, const struct mm_xblock *const *x,
                 int from, int max)
{
    const int depth = depth_of(max) < n ? depth_of(max) : n;
    int32x4_t lo[2][COLS], hi[2][COLS];
    UNROLL(8)
    for (int g = 0; g < n; g += depth) {
        struct sums16 s[2][COLS];
        UNROLL(8)
        for (int j = 0; j < depth; j++) {
            int8x16_t q[COLS];
            UNROLL(4)
            for (int k = 0; k < nc; k++)
                q[k] = four_inputs(x[k]->q + 4 * (from + g + j));
            UNROLL(2)
            for (int r = 0; r < nr; r++) {
                int8x16_t c = signed_codes(codes[r][(g + j) * step], max);
                UNROLL(4)
                for (int k = 0; k < nc; k++)
                    add_group(&s[r][k], c, q[k], j == 0);
            }
        }
        UNROLL(2)
        for (int r = 0; r < nr; r++) {
            UNROLL(4)
            for (int k = 0; k < nc; k++) {
                lo[r][k] = g ? vpadalq_s16(lo[r][k], s[r][k].lo) : vpaddlq_s16(s[r][k].lo);
                hi[r][k] = g ? vpadalq_s16(hi[r][k], s[r][k].hi) : vpaddlq_s16(s[r][k].hi);
            }
        }
    }
    UNROLL(2)
    for (int r = 0; r < nr; r++) {
        UNROLL(4)
        for (int k = 0; k < nc; k++)
            i[r][k] = vaddq_s32(i[r][k], vpaddq_s32(lo[r][k], hi[r][k]));
    }
}
#else
INLINE void sums(int nr, int nc, int32x4_t i[2][COLS], const vi *const *codes, int step, int n, const struct mm_xblock *const *x,
                 int from, int max)
{
    UNROLL(2)
    for (int g = 0; g < n; g += 4) {
        int8x16_t q[COLS];
        UNROLL(4)
        for (int k = 0; k < nc; k++)
            q[k] = vld1q_s8(x[k]->q + 4 * (from + g));
        UNROLL(2)
        for (int r = 0; r < nr; r++) {
            int8x16_t c[4];
            UNROLL(4)
            for (int j = 0; j < 4; j++)
                c[j] = signed_codes(codes[r][(g + j) * step], max);
            UNROLL(4)
            for (int k = 0; k < nc; k++)
                i[r][k] = dot16(i[r][k], c, q[k]);
        }
    }
}
#endif

INLINE vf finish(enum form form, int half, vf acc, int32x4_t i, const struct scales *s, const struct mm_xblock *x)
{
    acc = vfmaq_f32(acc, vmulq_n_f32(half ? s->d1 : s->d, x->d), vcvtq_f32_s32(i));
    if (form == K32M)
        acc = vfmaq_n_f32(acc, s->m, x->dsum);
    if (form == K32P) {
        int16x4_t n0 = vreinterpret_s16_u16(vmovn_u32(s->n)), n1 = vreinterpret_s16_u16(vshrn_n_u32(s->n, 16));
        int32x4_t min = vmlal_n_s16(vmull_n_s16(n0, x->s[0]), n1, x->s[1]);
        acc = vfmaq_f32(acc, vmulq_n_f32(s->m, x->d), vcvtq_f32_s32(min));
    }
    return acc;
}

/* A block of 4 * nr rows times nc columns. */
INLINE void block_cols(enum form form, int zero, int max, int nr, int nc, vf acc[2][COLS], const vi *const *codes, int step,
                       const struct scales *s, const struct mm_xblock *const *x)
{
    const int halves = form == K16 ? 2 : 1, groups = 8 / halves;
    UNROLL(2)
    for (int h = 0; h < halves; h++) {
        int32x4_t i[2][COLS];
        const vi *from[2] = {codes[0] + h * groups * step, codes[nr - 1] + h * groups * step};
        UNROLL(4)
        for (int k = 0; k < nc; k++)
            i[0][k] = i[1][k] = begin(x[k], form, h, zero);
        sums(nr, nc, i, from, step, groups, x, h * groups, max);
        UNROLL(2)
        for (int r = 0; r < nr; r++) {
            UNROLL(4)
            for (int k = 0; k < nc; k++)
                acc[r][k] = finish(form, h, acc[r][k], i[r][k], &s[r], x[k]);
        }
    }
}

/* One column, for the sink of mm_simd.h. */
INLINE void block(enum form form, int zero, int max, int nc, vf *acc, const vi *codes, int step, struct scales s,
                  const struct mm_xblock *const *x)
{
    (void)nc;
    vf a[2][COLS] = {{*acc}};
    block_cols(form, zero, max, 1, 1, a, (const vi *const[1]){codes}, step, &s, x);
    *acc = a[0][0];
}

/* ---- tiles times columns ---- */

INLINE struct scales scales_at(enum form form, const struct mm_tile *t, uint32_t b, int lane)
{
    struct scales s = {.d = vloadf(t->d[b][0] + lane)};
    if (form == K16)
        s.d1 = vloadf(t->d[b][1] + lane);
    if (form == K32M || form == K32P)
        s.m = vloadf(t->m[b] + lane);
    if (form == K32P)
        s.n = vload(t->n[b] + lane);
    return s;
}

/* 8 rows from `lane` of a tile times nc columns. */
INLINE void dot_cols(enum form form, int zero, int max, int nc, const struct mm_dot *a, const struct mm_tile *t, int lane,
                     const struct mm_xblock *x, float *y)
{
    const struct mm_xblock *xs[COLS];
    vf acc[2][COLS];
    for (int k = 0; k < nc; k++) {
        xs[k] = x + (size_t)k * a->x_stride;
        for (int r = 0; r < 2; r++)
            acc[r][k] = a->first ? vzerof() : vloadf(y + 16 * k + lane + 4 * r);
    }
    for (uint32_t b = 0; b < a->n_block; b++) {
        const vi *codes[2] = {(const vi *)(const void *)t->codes[b][0][lane], (const vi *)(const void *)t->codes[b][0][lane + 4]};
        const struct scales s[2] = {scales_at(form, t, b, lane), scales_at(form, t, b, lane + 4)};
        block_cols(form, zero, max, 2, nc, acc, codes, 4, s, xs);
        for (int k = 0; k < nc; k++)
            xs[k]++;
    }
    for (int k = 0; k < nc; k++)
        for (int r = 0; r < 2; r++)
            vstoref(y + 16 * k + lane + 4 * r, acc[r][k]);
}

#define DEFINE_COLS(name, form, zero, max, nc)                                                                         \
    static __attribute__((noinline)) void cols##nc##_##name(const struct mm_dot *a, uint32_t t, uint32_t c)            \
    {                                                                                                                  \
        for (int lane = 0; lane < 16; lane += 8)                                                                       \
            dot_cols(form, zero, max, nc, a, a->tile + t, lane, a->x + c * a->x_stride,                                \
                     a->acc + t * a->acc_stride + 16 * c);                                                             \
    }

#if MM_DOT == 2
#include "kernels/arm/mm_pairs.h"
#elif MM_DOT == 1
#define DEFINE_MANY(name, form, zero, max) DEFINE_COLS(name, form, zero, max, 4) DEFINE_COLS(name, form, zero, max, 2)
#define DO_MANY(name)                                                                                                  \
    for (; c + 4 <= a->n_col; c += 4)                                                                                  \
        cols4_##name(a, t, c);                                                                                         \
    for (; c + 2 <= a->n_col; c += 2)                                                                                  \
        cols2_##name(a, t, c);
#else
#define DEFINE_MANY(name, form, zero, max) DEFINE_COLS(name, form, zero, max, 2)
#define DO_MANY(name)                                                                                                  \
    for (; c + 2 <= a->n_col; c += 2)                                                                                  \
        cols2_##name(a, t, c);
#endif

#define DEFINE_DOT(id, name, form, zero, max, v)                                                                       \
    DEFINE_MANY(name, form, zero, max)                                                                                 \
    DEFINE_COLS(name, form, zero, max, 1)                                                                              \
    void mm_dot_##name##_##v(const struct mm_dot *a)                                                                   \
    {                                                                                                                  \
        for (uint32_t t = 0; t < a->n_tile; t++) {                                                                     \
            uint32_t c = 0;                                                                                            \
            DO_MANY(name)                                                                                              \
            if (c < a->n_col)                                                                                          \
                cols1_##name(a, t, c);                                                                                 \
        }                                                                                                              \
    }
MM_CLASSES(DEFINE_DOT, MM_VARIANT)
