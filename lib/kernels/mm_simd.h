/* The matrix product for any x86 vector: included once by each variant's source after mm_v256.h or mm_v512.h and a definition of MM_VARIANT,
 * the variant's name. Rows lie in the lanes, V_ROWS at a time. Formats are described in scalar/mm_decode.c, the order of sums in mm.h.
 *
 * A walk_FORMAT function goes over the blocks of V_ROWS rows and emits each block's codes and scales to a sink: either a tile in memory or
 * straight into the product with one column. Everything is inlined, so a sink costs nothing. */
#include "base/codebooks.h"
#include "kernels/mm.h"
#include "kernels/mm_list.h"

#ifndef MM_OWN_DOTS /* AArch64 has other products: arm/mm_dot.h */
/* ---- a block of 32 inputs times nc columns ---- */

/* acc[k] += sum over n groups of 4 inputs of codes * q[k]; codes[j * step] is group j. No code exceeds max. */
INLINE void dots(int nc, vi *acc, const vi *codes, int step, int n, const struct mm_xblock *const *x, int from, int max)
{
#if MM_VNNI
    (void)max;
    UNROLL(8)
    for (int j = 0; j < n; j++) {
        vi c = codes[j * step];
        UNROLL(8)
        for (int k = 0; k < nc; k++)
            acc[k] = vdpbusd_at(acc[k], c, x[k]->q + 4 * (from + j));
    }
#else
    const vi ones = vset32(0x00010001);
    if (max > 127) { /* two bytes times 127 overflow 16 bits: nibble by nibble, as in max <= 15 */
        const vi low4 = vset32(0x0f0f0f0f), sixteens = vset32(0x00100010);
        vi lo[V_COLS], hi[V_COLS];
        UNROLL(8)
        for (int j = 0; j < n; j++) {
            vi c = codes[j * step], cl = vand(c, low4), ch = vand(vsrl(c, 4), low4);
            UNROLL(8)
            for (int k = 0; k < nc; k++) {
                vi q = vset_at(x[k]->q + 4 * (from + j)), pl = vmaddubs(cl, q), ph = vmaddubs(ch, q);
                lo[k] = j ? vadd16(lo[k], pl) : pl;
                hi[k] = j ? vadd16(hi[k], ph) : ph;
            }
        }
        UNROLL(8)
        for (int k = 0; k < nc; k++)
            acc[k] = vadd32(acc[k], vadd32(vmadd16(lo[k], ones), vmadd16(hi[k], sixteens)));
        return;
    }
    int depth = max <= 15 ? 8 : max <= 31 ? 4 : max <= 63 ? 2 : 1; /* pairs times 127 that 16 bits hold */
    vi s[V_COLS];
    UNROLL(8)
    for (int j = 0; j < n; j++) {
        vi c = codes[j * step];
        UNROLL(8)
        for (int k = 0; k < nc; k++) {
            vi p = vmaddubs(c, vset_at(x[k]->q + 4 * (from + j)));
            s[k] = j % depth ? vadd16(s[k], p) : p;
            if (j % depth == depth - 1 || j == n - 1)
                acc[k] = vadd32(acc[k], vmadd16(s[k], ones));
        }
    }
#endif
}

struct scales {
    vf d, d1, m;
    vi n;
};

enum form { K32, K32M, K32P, K16 };

INLINE vi begin(const struct mm_xblock *x, int zero)
{
    switch (zero) {
    case 8:
        return vset_at(&x->nz[0]);
    case 16:
        return vset_at(&x->nz[1]);
    case 128:
        return vset_at(&x->nz[2]);
    default:
        return vzero();
    }
}

INLINE vi begin16(const struct mm_xblock *x, int half, int zero)
{
    vi z = vset_at(&x->nz32[half]);
    return zero == 64 ? vadd32(z, z) : z;
}

/* The integer sums of a block, or of its half h for K16, into the accumulators. */
INLINE void finish(enum form form, int nc, int h, vf *acc, const vi *sums, struct scales s, const struct mm_xblock *const *x)
{
    UNROLL(8)
    for (int k = 0; k < nc; k++) {
        vf dx = vsetf(&x[k]->d);
        acc[k] = vfma(vmul(h ? s.d1 : s.d, dx), vcvt(sums[k]), acc[k]);
        if (form == K32M)
            acc[k] = vfma(s.m, vsetf(&x[k]->dsum), acc[k]);
        if (form == K32P)
            acc[k] = vfma(vmul(s.m, dx), vcvt(vmadd16(s.n, vset_at(x[k]->s))), acc[k]);
    }
}

INLINE void block(enum form form, int zero, int max, int nc, vf *acc, const vi *codes, int step, struct scales s,
                  const struct mm_xblock *const *x)
{
    const int halves = form == K16 ? 2 : 1;
    vi i[V_COLS];
    UNROLL(2)
    for (int h = 0; h < halves; h++) {
        UNROLL(8)
        for (int k = 0; k < nc; k++)
            i[k] = form == K16 ? begin16(x[k], h, zero) : begin(x[k], zero);
        dots(nc, i, codes + 4 * h * step, step, 8 / halves, x, 4 * h, max);
        finish(form, nc, h, acc, i, s, x);
    }
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

/* V_ROWS rows from `lane` of a tile times nc columns. */
INLINE void dot_cols(enum form form, int zero, int max, int nc, const struct mm_dot *a, const struct mm_tile *t, int lane,
                     const struct mm_xblock *x, float *y)
{
    const struct mm_xblock *xs[V_COLS];
    vf acc[V_COLS];
    for (int k = 0; k < nc; k++) {
        xs[k] = x + (size_t)k * a->x_stride;
        acc[k] = a->first ? vzerof() : vloadf(y + 16 * k + lane);
    }
    for (uint32_t b = 0; b < a->n_block; b++) {
        block(form, zero, max, nc, acc, (const vi *)(const void *)t->codes[b][0][lane], 16 / V_ROWS, scales_at(form, t, b, lane), xs);
        for (int k = 0; k < nc; k++)
            xs[k]++;
    }
    for (int k = 0; k < nc; k++)
        vstoref(y + 16 * k + lane, acc[k]);
}

#define DEFINE_COLS(name, form, zero, max, nc)                                                                         \
    static __attribute__((noinline)) void cols##nc##_##name(const struct mm_dot *a, uint32_t t, uint32_t c)            \
    {                                                                                                                  \
        for (int lane = 0; lane < 16; lane += V_ROWS)                                                                  \
            dot_cols(form, zero, max, nc, a, a->tile + t, lane, a->x + c * a->x_stride,                                \
                     a->acc + t * a->acc_stride + 16 * c);                                                             \
    }

#if MM_VNNI && V_ROWS == 16
/* Two tiles times four columns: the loads of activations, of which there can be two a cycle, serve two dot instructions each. */
INLINE void dot_pair(enum form form, int zero, const struct mm_dot *a, const struct mm_tile *t, const struct mm_xblock *x,
                     float *y0, float *y1)
{
    const int halves = form == K16 ? 2 : 1, groups = 8 / halves;
    const struct mm_xblock *xs[4];
    vf acc0[4], acc1[4];
    for (int k = 0; k < 4; k++) {
        xs[k] = x + (size_t)k * a->x_stride;
        acc0[k] = a->first ? vzerof() : vloadf(y0 + 16 * k);
        acc1[k] = a->first ? vzerof() : vloadf(y1 + 16 * k);
    }
    for (uint32_t b = 0; b < a->n_block; b++) {
        const vi *c0 = (const vi *)(const void *)t[0].codes[b], *c1 = (const vi *)(const void *)t[1].codes[b];
        vi i0[4], i1[4];
        UNROLL(2)
        for (int h = 0; h < halves; h++) {
            UNROLL(4)
            for (int k = 0; k < 4; k++)
                i0[k] = i1[k] = form == K16 ? begin16(xs[k], h, zero) : begin(xs[k], zero);
            UNROLL(8)
            for (int j = 0; j < groups; j++) {
                vi v0 = c0[4 * h + j], v1 = c1[4 * h + j];
                UNROLL(4)
                for (int k = 0; k < 4; k++) {
                    vi q = vset_at(xs[k]->q + 4 * (4 * h + j));
                    i0[k] = vdpbusd(i0[k], v0, q);
                    i1[k] = vdpbusd(i1[k], v1, q);
                }
            }
            finish(form, 4, h, acc0, i0, scales_at(form, t, b, 0), xs);
            finish(form, 4, h, acc1, i1, scales_at(form, t + 1, b, 0), xs);
        }
        for (int k = 0; k < 4; k++) {
            _mm_prefetch((const char *)(xs[k] + 4 * a->x_stride), _MM_HINT_T0);
            xs[k]++;
        }
    }
    for (int k = 0; k < 4; k++) {
        vstoref(y0 + 16 * k, acc0[k]);
        vstoref(y1 + 16 * k, acc1[k]);
    }
}

#define DEFINE_PAIR(name, form, zero)                                                                                  \
    static __attribute__((noinline)) void pair_##name(const struct mm_dot *a, uint32_t t, uint32_t c)                  \
    {                                                                                                                  \
        float *y = a->acc + t * a->acc_stride + 16 * c;                                                                \
        dot_pair(form, zero, a, a->tile + t, a->x + c * a->x_stride, y, y + a->acc_stride);                            \
    }
#define DO_PAIRS(name)                                                                                                 \
    for (; t + 2 <= a->n_tile; t += 2) {                                                                               \
        uint32_t c = 0;                                                                                                \
        for (; c + 4 <= a->n_col; c += 4)                                                                              \
            pair_##name(a, t, c);                                                                                      \
        rest_##name(a, t, c);                                                                                          \
        rest_##name(a, t + 1, c);                                                                                      \
    }
#else
#define DEFINE_PAIR(name, form, zero)
#define DO_PAIRS(name)
#endif

#define DEFINE_DOT(id, name, form, zero, max, v)                                                                       \
    DEFINE_COLS(name, form, zero, max, 4)                                                                              \
    DEFINE_COLS(name, form, zero, max, 2)                                                                              \
    DEFINE_COLS(name, form, zero, max, 1)                                                                              \
    DEFINE_WIDE(name, form, zero, max)                                                                                 \
    DEFINE_PAIR(name, form, zero)                                                                                      \
    static void rest_##name(const struct mm_dot *a, uint32_t t, uint32_t c)                                            \
    {                                                                                                                  \
        DO_WIDE(name)                                                                                                  \
        for (; c + 4 <= a->n_col; c += 4)                                                                              \
            cols4_##name(a, t, c);                                                                                     \
        for (; c + 2 <= a->n_col; c += 2)                                                                              \
            cols2_##name(a, t, c);                                                                                     \
        if (c < a->n_col)                                                                                              \
            cols1_##name(a, t, c);                                                                                     \
    }                                                                                                                  \
    void mm_dot_##name##_##v(const struct mm_dot *a)                                                                   \
    {                                                                                                                  \
        uint32_t t = 0;                                                                                                \
        DO_PAIRS(name)                                                                                                 \
        for (; t < a->n_tile; t++)                                                                                     \
            rest_##name(a, t, 0);                                                                                      \
    }

#if V_COLS == 8
#define DEFINE_WIDE(name, form, zero, max) DEFINE_COLS(name, form, zero, max, 8)
#define DO_WIDE(name)                                                                                                  \
    for (; c + 8 <= a->n_col; c += 8)                                                                                  \
        cols8_##name(a, t, c);
#else
#define DEFINE_WIDE(name, form, zero, max)
#define DO_WIDE(name)
#endif
MM_CLASSES(DEFINE_DOT, MM_VARIANT)
#endif

/* ---- sinks ---- */

struct sink {
    bool fused;
    /* a tile */
    struct mm_tile *t;
    int lane;
    /* one column */
    const struct mm_xblock *x;
    vf acc;
    uintptr_t ahead, near; /* memory wanted later, and next: where that of this unit begins */
};

/* A unit of `bytes` (a block, or a superblock, of 16 rows) asks for as many bytes ahead, a line at a time between its own loads: requests in
 * a burst cost a quarter of the bandwidth. Twice: far ahead into the second-level cache (in the first they would evict the rows in use), which
 * has room for more requests but drops some when it is busy; a few rows ahead into the first, which drops none. */
INLINE void touch(struct sink *s, uint32_t line, uint32_t bytes)
{
    if (s->fused && 64 * line < bytes * V_ROWS / 16) {
        vprefetch(s->ahead + 64 * line);
        vprefetch_near(s->near + 64 * line);
        __asm__ __volatile__("" ::: "memory"); /* keeps the loads on their sides */
    }
}

/* After `parts` loads of 16 bytes of V_ROWS / 4 rows, which touched a line per 64 bytes: the rest; on to the next unit. */
INLINE void touch_rest(struct sink *s, uint32_t parts, uint32_t bytes)
{
    UNROLL(4)
    for (uint32_t line = (parts * V_ROWS + 15) / 16; 64 * line < bytes * V_ROWS / 16; line++)
        touch(s, line, bytes);
    s->ahead += bytes * V_ROWS / 16;
    s->near += bytes * V_ROWS / 16;
}

INLINE void touch_part(struct sink *s, uint32_t part, uint32_t bytes)
{
    if (part * V_ROWS % 16 == 0)
        touch(s, part * V_ROWS / 16, bytes);
}

/* 16 bytes of each row, transposed: lane r of o[j] is dword j of row r. These are parts `part` .. `part` + 3 of the unit. */
INLINE void rows16(const uint8_t *p, uint64_t stride, vi o[4], struct sink *s, uint32_t part, uint32_t bytes)
{
    touch_part(s, part, bytes);
    vi a = vpart(p, 4 * stride);
    touch_part(s, part + 1, bytes);
    vi b = vpart(p + stride, 4 * stride);
    touch_part(s, part + 2, bytes);
    vi c = vpart(p + 2 * stride, 4 * stride);
    touch_part(s, part + 3, bytes);
    vi d = vpart(p + 3 * stride, 4 * stride);
    vtranspose(a, b, c, d, o);
}

INLINE void emit(struct sink *s, enum form form, int zero, int max, uint32_t b, const vi c[8], struct scales v)
{
    if (s->fused) {
        const struct mm_xblock *x = s->x + b;
        block(form, zero, max, 1, &s->acc, c, 1, v, &x);
        return;
    }
    struct mm_tile *t = s->t;
    UNROLL(8)
    for (int j = 0; j < 8; j++)
        vstore(t->codes[b][j][s->lane], c[j]);
    vstoref(t->d[b][0] + s->lane, v.d);
    if (form == K16)
        vstoref(t->d[b][1] + s->lane, v.d1);
    if (form == K32M || form == K32P)
        vstoref(t->m[b] + s->lane, v.m);
    if (form == K32P)
        vstore(t->n[b] + s->lane, v.n);
}

#define EMIT_MM_K32_Z8(s, b, c, v) emit(s, K32, 8, 15, b, c, v)
#define EMIT_MM_K32_Z16(s, b, c, v) emit(s, K32, 16, 31, b, c, v)
#define EMIT_MM_K32_Z128(s, b, c, v) emit(s, K32, 128, 255, b, c, v)
#define EMIT_MM_K32M(s, b, c, v) emit(s, K32M, 0, 31, b, c, v)
#define EMIT_MM_K32P(s, b, c, v) emit(s, K32P, 0, 45, b, c, v)
#define EMIT_MM_K16_Z32(s, b, c, v) emit(s, K16, 32, 63, b, c, v)
#define EMIT_MM_K16_Z64(s, b, c, v) emit(s, K16, 64, 127, b, c, v)

/* ---- walks ---- */

INLINE void nibbles(const uint8_t *p, uint64_t stride, vi c[8], struct sink *s, uint32_t part, uint32_t bytes)
{
    const vi low4 = vset32(0x0f0f0f0f);
    vi q[4];
    rows16(p, stride, q, s, part, bytes);
    UNROLL(4)
    for (int j = 0; j < 4; j++) {
        c[j] = vand(q[j], low4);
        c[j + 4] = vand(vsrl(q[j], 4), low4);
    }
}

/* 32 bytes of each row. */
INLINE void rows32(const uint8_t *p, uint64_t stride, vi c[8], struct sink *s, uint32_t part, uint32_t bytes)
{
    rows16(p, stride, c, s, part, bytes);
    rows16(p + 16, stride, c + 4, s, part + 4, bytes);
}

INLINE void walk_q4_0(const uint8_t *p, uint64_t stride, uint32_t n, struct sink *s)
{
    for (uint32_t b = 0; b < n; b++, p += 18) {
        vi c[8];
        nibbles(p + 2, stride, c, s, 0, 288);
        touch_rest(s, 4, 288);
        EMIT_MM_K32_Z8(s, b, c, ((struct scales){.d = vhalf(p, stride)}));
    }
}

INLINE struct scales half_pair(vi dm)
{
    struct scales s;
    vhalf_pair(dm, &s.d, &s.m);
    return s;
}

INLINE void walk_q4_1(const uint8_t *p, uint64_t stride, uint32_t n, struct sink *s)
{
    for (uint32_t b = 0; b < n; b++, p += 20) {
        vi c[8];
        nibbles(p + 4, stride, c, s, 0, 320);
        touch_rest(s, 4, 320);
        EMIT_MM_K32M(s, b, c, half_pair(vrows4(p, stride)));
    }
}

INLINE void fifth_bits(vi c[8], vi high)
{
    UNROLL(8)
    for (unsigned j = 0; j < 8; j++)
        c[j] = vand_or(vspread(j ? vsrl(high, 4 * j) : high), vset32(0x10101010), c[j]);
}

INLINE void walk_q5_0(const uint8_t *p, uint64_t stride, uint32_t n, struct sink *s)
{
    for (uint32_t b = 0; b < n; b++, p += 22) {
        vi c[8];
        nibbles(p + 6, stride, c, s, 0, 352);
        touch_rest(s, 4, 352);
        fifth_bits(c, vrows4(p + 2, stride));
        EMIT_MM_K32_Z16(s, b, c, ((struct scales){.d = vhalf(p, stride)}));
    }
}

INLINE void walk_q5_1(const uint8_t *p, uint64_t stride, uint32_t n, struct sink *s)
{
    for (uint32_t b = 0; b < n; b++, p += 24) {
        vi c[8];
        nibbles(p + 8, stride, c, s, 0, 384);
        touch_rest(s, 4, 384);
        fifth_bits(c, vrows4(p + 4, stride));
        EMIT_MM_K32M(s, b, c, half_pair(vrows4(p, stride)));
    }
}

INLINE void walk_q8_0(const uint8_t *p, uint64_t stride, uint32_t n, struct sink *s)
{
    const vi flip = vset32(0x80808080);
    for (uint32_t b = 0; b < n; b++, p += 34) {
        vi c[8];
        rows32(p + 2, stride, c, s, 0, 544);
        touch_rest(s, 8, 544);
        UNROLL(8)
        for (int j = 0; j < 8; j++)
            c[j] = vxor(c[j], flip);
        EMIT_MM_K32_Z128(s, b, c, ((struct scales){.d = vhalf(p, stride)}));
    }
}

/* The 8 scales and minima of a superblock of Q4_K or Q5_K, from its first 16 bytes. */
INLINE void q4_k_scales(const uint8_t *p, uint64_t stride, vf d[8], vf m[8], struct sink *s, uint32_t bytes)
{
    const vi low6 = vset32(0x3f3f3f3f), low4 = vset32(0x0f0f0f0f), high2 = vset32(0x30303030), byte = vset32(255);
    vi h[4];
    rows16(p, stride, h, s, 0, bytes);
    vf d0, m0;
    vhalf_pair(h[0], &d0, &m0);
    m0 = vneg(m0);
    vi sc[2] = {vand(h[1], low6), vand_or(vsrl(h[1], 2), high2, vand(h[3], low4))};
    vi mn[2] = {vand(h[2], low6), vand_or(vsrl(h[2], 2), high2, vand(vsrl(h[3], 4), low4))};
    UNROLL(8)
    for (unsigned k = 0; k < 8; k++) {
        d[k] = vmul(d0, vcvt(vand(vsrl(sc[k / 4], 8 * (k % 4)), byte)));
        m[k] = vmul(m0, vcvt(vand(vsrl(mn[k / 4], 8 * (k % 4)), byte)));
    }
}

INLINE void walk_q4_k(const uint8_t *p, uint64_t stride, uint32_t n, struct sink *s)
{
    const vi low4 = vset32(0x0f0f0f0f);
    for (uint32_t b = 0; b < n; b += 8, p += 144) {
        vf d[8], m[8];
        q4_k_scales(p, stride, d, m, s, 2304);
        NO_UNROLL
        for (uint32_t k = 0; k < 8; k += 2) {
            vi q[8], c[8];
            rows32(p + 16 + 16 * k, stride, q, s, 4 + 4 * k, 2304);
            UNROLL(8)
            for (int j = 0; j < 8; j++)
                c[j] = vand(q[j], low4);
            EMIT_MM_K32M(s, b + k, c, ((struct scales){.d = d[k], .m = m[k]}));
            UNROLL(8)
            for (int j = 0; j < 8; j++)
                c[j] = vand(vsrl(q[j], 4), low4);
            EMIT_MM_K32M(s, b + k + 1, c, ((struct scales){.d = d[k + 1], .m = m[k + 1]}));
        }
        touch_rest(s, 36, 2304);
    }
}

INLINE void walk_q5_k(const uint8_t *p, uint64_t stride, uint32_t n, struct sink *s)
{
    const vi low4 = vset32(0x0f0f0f0f), bit4 = vset32(0x10101010);
    for (uint32_t b = 0; b < n; b += 8, p += 176) {
        vf d[8], m[8];
        vi high[8];
        q4_k_scales(p, stride, d, m, s, 2816);
        rows32(p + 16, stride, high, s, 4, 2816);
        UNROLL(4)
        for (uint32_t k = 0; k < 8; k += 2) {
            vi q[8], c[8];
            rows32(p + 48 + 16 * k, stride, q, s, 12 + 4 * k, 2816);
            UNROLL(8)
            for (int j = 0; j < 8; j++)
                c[j] = vand_or(k <= 4 ? vsll(high[j], 4 - k) : vsrl(high[j], k - 4), bit4, vand(q[j], low4));
            EMIT_MM_K32M(s, b + k, c, ((struct scales){.d = d[k], .m = m[k]}));
            UNROLL(8)
            for (int j = 0; j < 8; j++)
                c[j] = vand_or(k + 1 <= 4 ? vsll(high[j], 3 - k) : vsrl(high[j], k - 3), bit4, vand(vsrl(q[j], 4), low4));
            EMIT_MM_K32M(s, b + k + 1, c, ((struct scales){.d = d[k + 1], .m = m[k + 1]}));
        }
        touch_rest(s, 44, 2816);
    }
}

INLINE void walk_q6_k(const uint8_t *p, uint64_t stride, uint32_t n, struct sink *s)
{
    const vi low4 = vset32(0x0f0f0f0f), high2 = vset32(0x30303030);
    for (uint32_t b = 0; b < n; b += 8, p += 210) {
        vi sc[4];
        vf d = vhalf(p + 208, stride);
        rows16(p + 192, stride, sc, s, 0, 3360);
        NO_UNROLL
        for (uint32_t half = 0; half < 2; half++) {
            vi q[2][8], h[8];
            rows32(p + 64 * half, stride, q[0], s, 4 + 24 * half, 3360);
            rows32(p + 64 * half + 32, stride, q[1], s, 12 + 24 * half, 3360);
            rows32(p + 128 + 32 * half, stride, h, s, 20 + 24 * half, 3360);
            UNROLL(4)
            for (uint32_t k = 0; k < 4; k++) {
                vi c[8];
                UNROLL(8)
                for (int j = 0; j < 8; j++) {
                    vi hi = k == 3 ? vsrl(h[j], 2) : k == 2 ? h[j] : vsll(h[j], 4 - 2 * k);
                    c[j] = vand_or(hi, high2, vand(k / 2 ? vsrl(q[k % 2][j], 4) : q[k % 2][j], low4));
                }
                vi two = sc[2 * half + k / 2]; /* four signed bytes */
                struct scales v = {
                    .d = vmul(d, vcvt(vsra(k % 2 ? vsll(two, 8) : vsll(two, 24), 24))),
                    .d1 = vmul(d, vcvt(vsra(k % 2 ? two : vsll(two, 16), 24))),
                };
                EMIT_MM_K16_Z32(s, b + 4 * half + k, c, v);
            }
        }
        touch_rest(s, 52, 3360);
    }
}

INLINE void nibbles_lut(const uint8_t *p, uint64_t stride, const int8_t *table, vi zero, vi c[8], struct sink *s, uint32_t part,
                        uint32_t bytes)
{
    nibbles(p, stride, c, s, part, bytes);
    UNROLL(8)
    for (int j = 0; j < 8; j++)
        c[j] = vadd8(vlut(table, c[j]), zero);
}

INLINE void walk_iq4_nl(const uint8_t *p, uint64_t stride, uint32_t n, struct sink *s)
{
    for (uint32_t b = 0; b < n; b++, p += 18) {
        vi c[8];
        nibbles_lut(p + 2, stride, codebook_iq4nl, vset32(0x80808080), c, s, 0, 288);
        touch_rest(s, 4, 288);
        EMIT_MM_K32_Z128(s, b, c, ((struct scales){.d = vhalf(p, stride)}));
    }
}

INLINE void walk_iq4_xs(const uint8_t *p, uint64_t stride, uint32_t n, struct sink *s)
{
    const vi four = vset32(15), two = vset32(0x30), bias = vset32(32);
    for (uint32_t b = 0; b < n; b += 8, p += 136) {
        vi head = vrows4(p, stride), low = vrows4(p + 4, stride), high = vsrl(head, 16);
        vf d = vhalf_low(head);
        NO_UNROLL
        for (unsigned k = 0; k < 8; k++) {
            vi c[8];
            nibbles_lut(p + 8 + 16 * k, stride, codebook_iq4nl, vset32(0x80808080), c, s, 4 * k, 2176);
            vi scale = vsub32(vand_or(vsll(high, 4), two, vand(low, four)), bias);
            low = vsrl(low, 4);
            high = vsrl(high, 2);
            EMIT_MM_K32_Z128(s, b + k, c, ((struct scales){.d = vmul(d, vcvt(scale))}));
        }
        touch_rest(s, 32, 2176);
    }
}

#include "kernels/mm_simd_k.h"
#ifdef MM_DECODERS
#include "kernels/mm_simd_iq.h"
#endif

#define NEAR_ROWS 4u
#define DEFINE_ONE(type, name, panel, v)                                                                                 \
    void mm_one_##name##_##v(const uint8_t *w, uint64_t row_bytes, uint32_t n_block, const struct mm_xblock *x,        \
                             float acc[16], uintptr_t ahead)                                                           \
    {                                                                                                                  \
        for (int lane = 0; lane < 16; lane += V_ROWS) {                                                                \
            uintptr_t half = lane ? (uintptr_t)n_block * panel / 2 : 0;                                                \
            uintptr_t near = (uintptr_t)w + (uintptr_t)(NEAR_ROWS * row_bytes) + half;                                 \
            struct sink s = {.fused = true, .x = x, .acc = vloadf(acc + lane), .ahead = ahead + half, .near = near};   \
            walk_##name(w + (uint64_t)lane * row_bytes, row_bytes, n_block, &s);                                       \
            vstoref(acc + lane, s.acc);                                                                                \
        }                                                                                                              \
    }
#ifndef MM_NO_ONE
MM_FUSED_TYPES(DEFINE_ONE, MM_VARIANT)
#endif

#ifdef MM_DECODERS
#define DEFINE_DECODE(type, name, class, v)                                                                            \
    void mm_decode_##name##_##v(const uint8_t *w, uint64_t row_bytes, uint32_t n_block, struct mm_tile *t)             \
    {                                                                                                                  \
        for (int lane = 0; lane < 16; lane += V_ROWS) {                                                                \
            struct sink s = {.fused = false, .t = t, .lane = lane};                                                    \
            walk_##name(w + (uint64_t)lane * row_bytes, row_bytes, n_block, &s);                                       \
        }                                                                                                              \
    }
MM_TYPES(DEFINE_DECODE, MM_VARIANT)
#endif
