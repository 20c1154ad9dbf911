/* Q4_K and Q6_K: see quantise.h for the method, dequant_k.c for the layouts. */
#include "kernels/quantise.h"

#include "kernels/scalar/quantise_round.h"

#define BLOCK 256
#define CANDIDATES 9 /* inverse scales that are tried for a group */

/* ---- x = s * q, q within -32 to 31 ---- */

/* The scale of 16 elements with the least squared error. */
static float fit_scale(const float *x)
{
    float top = 0, best = 0, best_gain = 0;
    for (int i = 0; i < 16; i++)
        if (magnitude(x[i]) > magnitude(top))
            top = x[i];
    if (magnitude(top) < 1e-30f)
        return 0;
    for (int c = 0; c < CANDIDATES; c++) {
        float inv = -(31.5f + 0.25f * (float)(c - 4)) / top, xq = 0, qq = 0; /* the largest gets a code near -32 */
        for (int i = 0; i < 16; i++) {
            float q = (float)code_of(x[i] * inv, -32, 31);
            xq += x[i] * q;
            qq += q * q;
        }
        float s = xq / qq, gain = s * xq; /* the error is sum x^2 - gain */
        if (gain > best_gain) {
            best = s;
            best_gain = gain;
        }
    }
    return best;
}

static void pack_q6_k(uint8_t *dst, int i, int q)
{
    int b = i / 32, j = i % 32;
    uint8_t *low = dst + 64 * (b / 4) + 32 * (b % 2) + j, *high = dst + 128 + 32 * (b / 4) + j;
    *low |= (uint8_t)((q & 15) << (4 * (b / 2 % 2)));
    *high |= (uint8_t)((q >> 4) << (2 * (b % 4)));
}

bool quantise_q6_k(const float *src, uint8_t *dst, uint64_t n)
{
    for (; n >= BLOCK; n -= BLOCK, src += BLOCK, dst += 210) {
        float scales[16], top = 0;
        if (!all_finite(src, BLOCK))
            return false;
        for (int g = 0; g < 16; g++) {
            scales[g] = fit_scale(src + 16 * g);
            if (magnitude(scales[g]) > magnitude(top))
                top = scales[g];
        }
        memset(dst, 0, 210);
        if (!put_f16(dst + 208, top / -128))
            return false;
        uint16_t h;
        memcpy(&h, dst + 208, 2);
        float d = f16_to_f32(h);
        for (int g = 0; g < 16; g++) {
            int s = d == 0 ? 0 : code_of(scales[g] / d, -128, 127);
            float step = d * (float)s;
            dst[192 + g] = (uint8_t)s;
            for (int i = 16 * g; i < 16 * g + 16; i++)
                pack_q6_k(dst, i, (step == 0 ? 0 : code_of(src[i] / step, -32, 31)) + 32);
        }
    }
    return true;
}

/* ---- x = s * q - m, q within 0 to 15, s and m not negative ---- */

struct line {
    float s, m;
};

/* The least squared error of lines through codes q: their sums are given. */
static struct line solve(float sum_x, float sum_q, float sum_xq, float sum_qq)
{
    float det = 32 * sum_qq - sum_q * sum_q;
    struct line l = {0, 0};
    if (det > 0) {
        l.s = (32 * sum_xq - sum_x * sum_q) / det;
        l.m = -(sum_qq * sum_x - sum_q * sum_xq) / det;
    }
    if (l.m < 0 || det <= 0) {
        l.m = 0;
        l.s = sum_qq > 0 ? sum_xq / sum_qq : 0;
    }
    if (l.s < 0)
        l.s = 0;
    return l;
}

static float error_of(const float *x, struct line l)
{
    float sum = 0;
    for (int i = 0; i < 32; i++) {
        float q = l.s > 0 ? (float)code_of((x[i] + l.m) / l.s, 0, 15) : 0, e = l.s * q - l.m - x[i];
        sum += e * e;
    }
    return sum;
}

static struct line fit_line(const float *x)
{
    float lo = 0, hi = x[0], best_error = 0;
    struct line best = {0, 0};
    for (int i = 0; i < 32; i++) {
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
    }
    if (hi - lo < 1e-30f)
        return (struct line){0, -lo};
    for (int c = 0; c < CANDIDATES; c++) {
        float inv = (15 + 0.25f * (float)(c - 2)) / (hi - lo), sx = 0, sq = 0, sxq = 0, sqq = 0;
        for (int i = 0; i < 32; i++) {
            float q = (float)code_of((x[i] - lo) * inv, 0, 15);
            sx += x[i];
            sq += q;
            sxq += x[i] * q;
            sqq += q * q;
        }
        struct line l = solve(sx, sq, sxq, sqq);
        float e = error_of(x, l);
        if (c == 0 || e < best_error) {
            best = l;
            best_error = e;
        }
    }
    return best;
}

/* Scale and minimum of group b in the 12 bytes that dequant_k.c's k_scale reads. */
static void pack_scales(uint8_t *s, int b, int scale, int min)
{
    if (b < 4) {
        s[b] |= (uint8_t)scale;
        s[4 + b] |= (uint8_t)min;
    } else {
        s[4 + b] = (uint8_t)((scale & 15) | (min & 15) << 4);
        s[b - 4] |= (uint8_t)(scale >> 4 << 6);
        s[b] |= (uint8_t)(min >> 4 << 6);
    }
}

static float largest_of(const struct line *l, bool minima)
{
    float top = 0;
    for (int b = 0; b < 8; b++)
        top = (minima ? l[b].m : l[b].s) > top ? (minima ? l[b].m : l[b].s) : top;
    return top;
}

static float get_f16(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, 2);
    return f16_to_f32(h);
}

bool quantise_q4_k(const float *src, uint8_t *dst, uint64_t n)
{
    for (; n >= BLOCK; n -= BLOCK, src += BLOCK, dst += 144) {
        struct line lines[8];
        if (!all_finite(src, BLOCK))
            return false;
        for (int b = 0; b < 8; b++)
            lines[b] = fit_line(src + 32 * b);
        memset(dst, 0, 144);
        if (!put_f16(dst, largest_of(lines, false) / 63) || !put_f16(dst + 2, largest_of(lines, true) / 63))
            return false;
        float d = get_f16(dst), dmin = get_f16(dst + 2);
        for (int b = 0; b < 8; b++) {
            int scale = d == 0 ? 0 : code_of(lines[b].s / d, 0, 63), min = dmin == 0 ? 0 : code_of(lines[b].m / dmin, 0, 63);
            float step = d * (float)scale, low = dmin * (float)min;
            pack_scales(dst + 4, b, scale, min);
            for (int j = 0; j < 32; j++) {
                int q = step == 0 ? 0 : code_of((src[32 * b + j] + low) / step, 0, 15);
                dst[16 + 32 * (b / 2) + j] |= (uint8_t)(q << (4 * (b % 2)));
            }
        }
    }
    return true;
}
