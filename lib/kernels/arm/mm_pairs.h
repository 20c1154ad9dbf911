/* Tiles times pairs of columns by usmmla, part of mm_dot.h: 8 rows (4 pairs) x up to 8 pairs of columns. A register holds 2 rows x 2
 * columns: (row 0, column 0), (row 0, column 1), (row 1, column 0), (row 1, column 1). */

#define MAX_PAIRS 8 /* columns share the preparation of a block's codes: 16 zips */

/* a, b, a, b of one number each of two columns. */
INLINE vf pair_f32(const float *a, const float *b)
{
    return vzip1q_f32(vld1q_dup_f32(a), vld1q_dup_f32(b));
}

INLINE int32x4_t pair_s32(const int32_t *a, const int32_t *b)
{
    return vzip1q_s32(vld1q_dup_s32(a), vld1q_dup_s32(b));
}

INLINE int32x4_t pair_begin(const struct mm_xblock *x0, const struct mm_xblock *x1, enum form form, int half, int zero)
{
    if (form == K16) {
        int32x4_t z = pair_s32(&x0->nz32[half], &x1->nz32[half]);
        return zero == 64 ? vaddq_s32(z, z) : z;
    }
    int i = zero == 8 ? 0 : zero == 16 ? 1 : 2;
    return zero ? pair_s32(&x0->nz[i], &x1->nz[i]) : vdupq_n_s32(0);
}

/* What a block of 8 rows is, ready for pairs of columns. */
struct pair_rows {
    vi codes[4][4]; /* [8 inputs][pair of rows] */
    vf d[2][4], m[4];
    int32x4_t n0[4], n1[4];
};

INLINE void pair_scales(vf v, vf out[2])
{
    out[0] = vzip1q_f32(v, v);
    out[1] = vzip2q_f32(v, v);
}

INLINE void pair_minima(vi n, int32x4_t n0[2], int32x4_t n1[2])
{
    int32x4_t a = vreinterpretq_s32_u32(vand(n, vset32(0xffff))), b = vreinterpretq_s32_u32(vsrl(n, 16)); /* not negative */
    n0[0] = vzip1q_s32(a, a);
    n0[1] = vzip2q_s32(a, a);
    n1[0] = vzip1q_s32(b, b);
    n1[1] = vzip2q_s32(b, b);
}

INLINE void pair_load(enum form form, const struct mm_tile *t, uint32_t b, int lane, struct pair_rows *p)
{
    UNROLL(2)
    for (int r = 0; r < 2; r++) {
        UNROLL(4)
        for (int j = 0; j < 4; j++) {
            vi c0 = vload(t->codes[b][2 * j][lane + 4 * r]), c1 = vload(t->codes[b][2 * j + 1][lane + 4 * r]);
            p->codes[j][2 * r] = vzip1q_u32(c0, c1);
            p->codes[j][2 * r + 1] = vzip2q_u32(c0, c1);
        }
        struct scales s = scales_at(form, t, b, lane + 4 * r);
        pair_scales(s.d, p->d[0] + 2 * r);
        if (form == K16)
            pair_scales(s.d1, p->d[1] + 2 * r);
        if (form == K32M || form == K32P)
            pair_scales(s.m, p->m + 2 * r);
        if (form == K32P)
            pair_minima(s.n, p->n0 + 2 * r, p->n1 + 2 * r);
    }
}

INLINE void pair_block(enum form form, int zero, vf acc[4], const struct pair_rows *p, const struct mm_xblock *x0,
                       const struct mm_xblock *x1)
{
    const int halves = form == K16 ? 2 : 1;
    vf dx = pair_f32(&x0->d, &x1->d);
    int32x4_t i[4];
    UNROLL(2)
    for (int h = 0; h < 2; h++) { /* 16 inputs */
        int64x2_t a = vreinterpretq_s64_s8(vld1q_s8(x0->q + 16 * h)), b = vreinterpretq_s64_s8(vld1q_s8(x1->q + 16 * h));
        int8x16_t q[2] = {vreinterpretq_s8_s64(vzip1q_s64(a, b)), vreinterpretq_s8_s64(vzip2q_s64(a, b))};
        if (h == 0 || halves == 2) {
            UNROLL(4)
            for (int r = 0; r < 4; r++)
                i[r] = pair_begin(x0, x1, form, h, zero);
        }
        UNROLL(2)
        for (int j = 0; j < 2; j++) {
            UNROLL(4)
            for (int r = 0; r < 4; r++)
                i[r] = vusmmlaq_s32(i[r], as8(p->codes[2 * h + j][r]), q[j]);
        }
        if (h == 1 || halves == 2) {
            UNROLL(4)
            for (int r = 0; r < 4; r++)
                acc[r] = vfmaq_f32(acc[r], vmulq_f32(p->d[halves == 2 ? h : 0][r], dx), vcvtq_f32_s32(i[r]));
        }
    }
    if (form == K32M) {
        vf dsum = pair_f32(&x0->dsum, &x1->dsum);
        UNROLL(4)
        for (int r = 0; r < 4; r++)
            acc[r] = vfmaq_f32(acc[r], p->m[r], dsum);
    }
    if (form == K32P) {
        int32_t s[4] = {x0->s[0], x1->s[0], x0->s[1], x1->s[1]};
        int32x4_t s0 = pair_s32(&s[0], &s[1]), s1 = pair_s32(&s[2], &s[3]);
        UNROLL(4)
        for (int r = 0; r < 4; r++) {
            int32x4_t min = vmlaq_s32(vmulq_s32(p->n0[r], s0), p->n1[r], s1);
            acc[r] = vfmaq_f32(acc[r], vmulq_f32(p->m[r], dx), vcvtq_f32_s32(min));
        }
    }
}

/* The accumulators of 8 rows in two columns, y[0..] and y[16..], to pairs and back. */
INLINE void pair_take(vf acc[4], const float *y)
{
    UNROLL(2)
    for (int r = 0; r < 2; r++) {
        vf a = vloadf(y + 4 * r), b = vloadf(y + 16 + 4 * r);
        acc[2 * r] = vzip1q_f32(a, b);
        acc[2 * r + 1] = vzip2q_f32(a, b);
    }
}

INLINE void pair_store(float *y, const vf acc[4])
{
    UNROLL(2)
    for (int r = 0; r < 2; r++) {
        vstoref(y + 4 * r, vuzp1q_f32(acc[2 * r], acc[2 * r + 1]));
        vstoref(y + 16 + 4 * r, vuzp2q_f32(acc[2 * r], acc[2 * r + 1]));
    }
}

/* 8 rows from `lane` times n pairs of columns. The accumulators do not all fit the registers beside a block's codes: they stay in the
 * first-level cache. */
INLINE void dot_pairs(enum form form, int zero, uint32_t n, const struct mm_dot *a, const struct mm_tile *t, int lane,
                      const struct mm_xblock *x, float *y)
{
    vf acc[MAX_PAIRS][4];
    for (uint32_t k = 0; k < n; k++) {
        if (a->first)
            acc[k][0] = acc[k][1] = acc[k][2] = acc[k][3] = vzerof();
        else
            pair_take(acc[k], y + 32 * k + lane);
    }
    for (uint32_t b = 0; b < a->n_block; b++) {
        struct pair_rows p;
        pair_load(form, t, b, lane, &p);
        NO_UNROLL
        for (uint32_t k = 0; k < n; k++) {
            const struct mm_xblock *x0 = x + 2 * k * a->x_stride + b;
            pair_block(form, zero, acc[k], &p, x0, x0 + a->x_stride);
        }
    }
    for (uint32_t k = 0; k < n; k++)
        pair_store(y + 32 * k + lane, acc[k]);
}

/* One pair alone does not repay the zips: by counting, 55 vector instructions a block against 48 with sdot. */
#define DEFINE_MANY(name, form, zero, max)                                                                             \
    DEFINE_COLS(name, form, zero, max, 2)                                                                              \
    static __attribute__((noinline)) void pairs_##name(const struct mm_dot *a, uint32_t t, uint32_t c, uint32_t n)     \
    {                                                                                                                  \
        for (int lane = 0; lane < 16; lane += 8)                                                                       \
            dot_pairs(form, zero, n, a, a->tile + t, lane, a->x + c * a->x_stride,                                     \
                      a->acc + t * a->acc_stride + 16 * c);                                                            \
    }
#define DO_MANY(name)                                                                                                  \
    while (a->n_col - c >= 4) {                                                                                        \
        uint32_t n = (a->n_col - c) / 2 < MAX_PAIRS ? (a->n_col - c) / 2 : MAX_PAIRS;                                  \
        pairs_##name(a, t, c, n);                                                                                      \
        c += 2 * n;                                                                                                    \
    }                                                                                                                  \
    for (; c + 2 <= a->n_col; c += 2)                                                                                  \
        cols2_##name(a, t, c);
